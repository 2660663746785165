//! Tests a barrier in memory once before the loop that waits for it.
//!
//! ```text
//! bb0: ...                             bb0: ...
//!      BRA bb1                              %3 = SYNCS.PHASECHK [%1], %2
//! bb1: %3 = SYNCS.PHASECHK [%1], %2         @!%3 BRA bb1
//!      @!%3 BRA bb1          becomes        BRA bb2
//!      BRA bb2                         bb2: ...
//! bb2: ...
//!                                      bb1: %4 = SYNCS.PHASECHK [%1], %2
//!                                           @!%4 BRA bb1
//!                                           BRA bb2
//! ```
//!
//! In pipelines of asynchronous copies the barrier is mostly complete when it is tested. The scheduler then overlaps the first test with
//! the other instructions of the block before, and the `YIELD` of the loop ([`crate::insert_yields`]) is not executed. ptxas tests in the
//! same way. The loop itself moves to the end of the function.
//!
//! The operands of the first instruction after the loop that reads uniform registers, such as the descriptors of a matrix product, are
//! computed before the test, so that this instruction can issue right after the wait ([`early_operands`]).
//!
//! The pass leaves alone loops with other instructions or phis, and loops that are not entered from a single block which always continues
//! there. The test does not change the barrier, so testing it once more has no effect. The cost is linear in the size of the function.

use oriole_ir::analysis::{ControlFlow, DefUse, Threads};
use oriole_ir::{Block, Function, Guard, Inst, OperandKind, Value};
use oriole_isa::Opcode;

mod early_operands;

/// A loop that does nothing but wait for a barrier.
struct WaitLoop {
    /// The only block of the loop.
    block: Block,
    /// The block before the loop.
    before: Block,
    /// The block after the loop.
    after: Block,
    /// The test of the barrier.
    test: Inst,
    /// The result of the test.
    is_complete: Value,
}

/// Runs the pass over a function; `threads` is the shape of the thread blocks. Returns the number of loops that are tested for before they
/// start.
pub fn run(function: &mut Function, threads: Threads) -> usize {
    let has_test = |block: &Block| function.blocks[*block].insts.first().is_some_and(|&inst| is_phase_test(function, inst));
    if !function.layout.iter().any(has_test) {
        return 0;
    }
    let flow = ControlFlow::compute(function);
    let def_use = DefUse::compute(function);
    let loops: Vec<WaitLoop> = function.layout.iter().filter_map(|&block| wait_loop_of(function, &flow, &def_use, block)).collect();
    if loops.is_empty() {
        return 0;
    }
    let borders: Vec<(Block, Block)> = loops.iter().map(|found| (found.before, found.after)).collect();
    early_operands::run(function, &flow, &borders, threads);
    for found in &loops {
        test_before_loop(function, found);
    }
    let is_moved = |block: &Block| loops.iter().any(|found| found.block == *block);
    let (moved, kept): (Vec<Block>, Vec<Block>) = std::mem::take(&mut function.layout).into_iter().partition(is_moved);
    function.layout = kept;
    function.layout.extend(moved);
    loops.len()
}

/// Returns whether an instruction is an unguarded test of the phase of a barrier in memory with one result.
fn is_phase_test(function: &Function, inst: Inst) -> bool {
    let data = &function.insts[inst];
    let tests = data.is_machine(Opcode::SYNCS) && data.modifiers.iter().any(|modifier| modifier.spelling() == ".PHASECHK");
    tests && data.guard.is_none() && function.defined(inst).count() == 1
}

/// Returns the loop that a block is, if it only waits for a barrier and is entered from one block that has no other successor.
fn wait_loop_of(function: &Function, flow: &ControlFlow, def_use: &DefUse, block: Block) -> Option<WaitLoop> {
    let [test, branch, _] = function.blocks[block].insts[..] else { return None };
    if !is_phase_test(function, test) {
        return None;
    }
    let is_complete = function.defined(test).next()?;
    let is_decided_by_test = function.insts[branch].guard.is_some_and(|guard| guard_value(guard) == Some(is_complete));
    let [one, other] = flow.successors(block) else { return None };
    let after = if *one == block { *other } else { *one };
    let is_loop = after != block && [*one, *other].contains(&block);
    let [first, second] = flow.predecessors(block) else { return None };
    let before = if *first == block { *second } else { *first };
    let is_entered_directly = before != block && flow.successors(before).len() == 1 && function.terminators(before).len() == 1;
    let has_one_use = def_use.uses(is_complete).len() == 1;
    (is_decided_by_test && is_loop && is_entered_directly && has_one_use).then_some(WaitLoop { block, before, after, test, is_complete })
}

/// Returns the value that a guard reads.
fn guard_value(guard: Guard) -> Option<Value> {
    if let OperandKind::Value(part) = guard.kind { Some(part.value) } else { None }
}

/// Copies the test and the branches of a loop to the end of the block before it.
fn test_before_loop(function: &mut Function, found: &WaitLoop) {
    let is_complete = function.new_value(function.values[found.is_complete]);
    let whole = function.whole(is_complete);
    let insts = function.blocks[found.block].insts.clone();
    let copies: Vec<Inst> = insts.iter().map(|&inst| copy_inst(function, inst)).collect();
    for operand in function.operands_mut(copies[0]) {
        if operand.value() == Some(found.is_complete) {
            operand.kind = OperandKind::Value(whole);
        }
    }
    debug_assert_eq!(insts[0], found.test);
    if let Some(guard) = &mut function.insts[copies[1]].guard {
        guard.kind = OperandKind::Value(whole);
    }
    // The unconditional branch to the loop.
    function.blocks[found.before].insts.pop();
    function.blocks[found.before].insts.extend(copies);
    for phi in function.phis(found.after).to_vec() {
        let mut operands = function.operands(phi).to_vec();
        let results = function.insts[phi].result_count();
        let from_loop = operands.iter().position(|operand| operand.kind == OperandKind::Block(found.block));
        if let Some(at) = from_loop {
            operands.extend([operands[at - 1], found.before.into()]);
        }
        function.set_operands(phi, &operands, results);
    }
}

/// Returns a copy of an instruction that is in no block yet.
fn copy_inst(function: &mut Function, inst: Inst) -> Inst {
    let data = function.insts[inst].clone();
    let operands = function.operands(inst).to_vec();
    let results = data.result_count();
    let copy = function.new_inst(data.op, data.modifiers, data.guard, &operands, results);
    function.insts[copy].memory = data.memory;
    function.insts[copy].location = data.location;
    copy
}
