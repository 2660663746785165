//! Unrolls loops that the threads of a warp leave in different iterations.
//!
//! The threads that have left the unrolled loop wait for the others before any thread executes the remaining iterations; otherwise the
//! diverged threads would execute these one group after the other. So the path around the unrolled loop and the path through it meet in one
//! block:
//!
//! ```text
//! bb0:  %q = (the joined iterations may be executed)
//!       @%q BRA bb3 ; BRA bb4
//! bb3:  %a = PHI %0, bb0, %e, bb3
//!       ... (four iterations)
//!       @%r BRA bb3 ; BRA bb4
//! bb4:  %c = PHI %0, bb0, %e, bb3
//!       %s = ISETP.GE.U32.AND %c, %n, %q             // was the last test of the joined iterations false?
//!       @%s BRA bb2 ; BRA bb1
//! bb1:  (the old loop)
//! ```
//!
//! If the counter and its limit are known to be so small that no sum wraps around, at most `factor - 1` iterations are left. A small body
//! is then copied `factor - 1` times. Each copy has a branch around it, which if-conversion turns into guards. The old loop is removed:
//!
//! ```text
//! bb4:  %s = ISETP.GE.U32.AND %c, %n, %q ; %t = ISETP.GE.U32.AND %c + 1, %n ; %u = ISETP.GE.U32.AND %c + 2, %n
//!       @%s BRA bb6 ; BRA bb5
//! bb5:  ... (one iteration)
//! bb6:  @%t BRA bb8 ; BRA bb7
//! ...
//! ```

use oriole_ir::{Block, Function, Inst, Op, Operand, OperandKind, Pseudo, Value};
use oriole_isa::{Opcode, Symbols};

use super::bound::LoopBound;
use super::copies::{LoopCopyMapping, add_phi_source, copy_loop_blocks, insert_before_terminators, set_branches, set_jump};
use super::shape::UnrollableLoop;
use super::unrolled_loop::UnrolledLoop;
use crate::definitions::Definitions;

/// The values of a loop after some of its iterations.
struct LoopValues {
    /// For each phi of the loop header, its value at the start of the next iteration.
    starts: Vec<(Inst, Value)>,
    /// For each value of the loop that is read after the loop, its value at the end of the last iteration.
    results: Vec<(Value, Value)>,
}

/// Unrolls by `factor` a loop whose exit test is at its end. If `is_straight`, the remaining iterations become guarded copies of the body
/// without a loop; otherwise the old loop executes them. Returns the new blocks.
pub(super) fn unroll_divergent_loop(
    function: &mut Function,
    definitions: &Definitions,
    old_loop: &UnrollableLoop,
    (factor, is_straight): (u32, bool),
) -> Option<Vec<Block>> {
    let bound = LoopBound::find(function, definitions, old_loop)?;
    let entry = old_loop.entries[0];
    let (start, next) = (old_loop.entry_phi_source(function, bound.counter)?, old_loop.latch_phi_source(function, bound.counter)?);
    let new = UnrolledLoop::create(function, old_loop, factor, None);
    let last = new.last_copy();
    let (header, latch) = (new.copies[0].block(old_loop.header), last.block(old_loop.latch));
    let (mut before, mut end) = (Vec::new(), Vec::new());
    let guarded = bound.emit_guard_operands(function, definitions, factor - 1, &mut before)?;
    let is_worth = bound.emit_unroll_guard(function, &guarded, start, true, &mut before);
    let goes_on = bound.emit_unroll_guard(function, &guarded, last.operand(next), false, &mut end);
    let join_block = new_block_to_exit(function, old_loop);
    insert_before_terminators(function, latch, end);
    set_branches(function, latch, Some((goes_on, header)), join_block);
    new.add_header_phi_sources(function, old_loop);
    insert_before_terminators(function, entry, before);
    set_branches(function, entry, Some((is_worth, header)), join_block);

    let state = LoopValues::at_join_of_paths(function, old_loop, join_block, (entry, None), (latch, last));
    let counter = Operand::from(function.whole(state.value_in_next_iteration(bound.counter)));
    let mut tests = Vec::new();
    // Threads that skipped the unrolled loop execute the first of the remaining iterations in any case, because the exit test is at the end
    // of the loop.
    let count = if is_straight { i64::from(factor) - 1 } else { 1 };
    let stops: Option<Vec<Operand>> = (0..count)
        .map(|number| bound.emit_exit_test(function, counter, number - 1, if number == 0 { is_worth } else { Operand::PT }, &mut tests))
        .collect();
    insert_before_terminators(function, join_block, tests);
    let stops = stops?;
    let mut blocks: Vec<Block> = new.copies.iter().flat_map(LoopCopyMapping::copies).chain([join_block]).collect();
    if is_straight {
        append_guarded_copies(function, old_loop, join_block, state, &stops, &mut blocks);
    } else {
        branch_to_old_loop(function, old_loop, join_block, &state, stops[0]);
    }
    Some(blocks)
}

/// Ends the block `join_block` with branches: to the exit of the loop where the predicate `stops` holds, to the old loop elsewhere.
fn branch_to_old_loop(function: &mut Function, old_loop: &UnrollableLoop, join_block: Block, state: &LoopValues, stops: Operand) {
    set_branches(function, join_block, Some((stops, old_loop.exit)), old_loop.header);
    let entry = old_loop.entries[0];
    for &(phi, value) in &state.starts {
        let value = Operand::from(function.whole(value));
        let mut operands: Vec<Operand> = function.operands(phi).to_vec();
        if let Some(at) = operands.iter().position(|operand| operand.kind == OperandKind::Block(entry)) {
            (operands[at - 1], operands[at]) = (value, join_block.into());
        }
        function.set_operands(phi, &operands, 1);
    }
    for phi in function.phis(old_loop.exit).to_vec() {
        let Some(source) = function.sources(phi)[0].value() else { continue };
        let value = Operand::from(function.whole(state.final_value(source)));
        add_phi_source(function, phi, value, join_block);
    }
}

/// Appends a copy of the loop body for each predicate of `stops`, with a branch around the copy for threads in which the predicate holds.
/// The last copy is followed by the exit block. Adds the new blocks to `blocks`.
fn append_guarded_copies(
    function: &mut Function,
    old_loop: &UnrollableLoop,
    join_block: Block,
    state: LoopValues,
    stops: &[Operand],
    blocks: &mut Vec<Block>,
) {
    let (mut state, mut block) = (state, join_block);
    for &stop in stops {
        let mapping = copy_loop_blocks(function, old_loop, |_, phi| state.value_in_next_iteration(phi));
        let (first, last) = (mapping.block(old_loop.header), mapping.block(old_loop.latch));
        let after = new_block_to_exit(function, old_loop);
        set_branches(function, block, Some((stop, after)), first);
        set_jump(function, last, after);
        state = LoopValues::at_join_of_paths(function, old_loop, after, (block, Some(&state)), (last, &mapping));
        blocks.extend(mapping.copies().chain([after]));
        block = after;
    }
    for phi in function.phis(old_loop.exit).to_vec() {
        let Some(source) = function.sources(phi)[0].value() else { continue };
        let operands = [function.results(phi)[0], Operand::from(function.whole(state.final_value(source))), block.into()];
        function.set_operands(phi, &operands, 1);
    }
}

impl LoopValues {
    /// Creates the phis of `block`, where the path around some iterations meets the path through them, and returns the values of the loop
    /// after these phis. `around` has the predecessor on the first path and the values there (`None` if no iteration was executed);
    /// `through` has the predecessor on the second path and the copy of the body that is the last iteration on it.
    fn at_join_of_paths(
        function: &mut Function,
        old_loop: &UnrollableLoop,
        block: Block,
        around: (Block, Option<&LoopValues>),
        through: (Block, &LoopCopyMapping),
    ) -> LoopValues {
        let mut state = LoopValues { starts: Vec::new(), results: Vec::new() };
        let mut insts = Vec::new();
        for phi in function.phis(old_loop.header).to_vec() {
            let old = match around.1 {
                Some(state) => Some(Operand::from(function.whole(state.value_in_next_iteration(phi)))),
                None => old_loop.entry_phi_source(function, phi),
            };
            let (Some(old), Some(next)) = (old, old_loop.latch_phi_source(function, phi)) else { continue };
            let value = new_two_source_phi(function, (old, around.0), (through.1.operand(next), through.0), phi, &mut insts);
            state.starts.push((phi, value));
            // The values at the start of the next iteration are those that the last iteration computed. They exist, because the loop is not
            // left before its first iteration.
            if let Some(next) = next.value() {
                state.results.push((next, value));
            }
        }
        for phi in function.phis(old_loop.exit).to_vec() {
            let source = function.sources(phi)[0];
            let Some(value) = source.value().filter(|value| state.results.iter().all(|pair| pair.0 != *value)) else { continue };
            let old = match around.1 {
                Some(state) => Operand::from(function.whole(state.final_value(value))),
                None => Operand::new(OperandKind::Undefined),
            };
            let joined = new_two_source_phi(function, (old, around.0), (through.1.operand(source), through.0), phi, &mut insts);
            state.results.push((value, joined));
        }
        function.blocks[block].insts.splice(0..0, insts);
        state
    }

    /// Returns the value that a phi of the loop header has at the start of the next iteration.
    fn value_in_next_iteration(&self, phi: Inst) -> Value {
        let found = self.starts.iter().find(|pair| pair.0 == phi);
        found.unwrap_or_else(|| panic!("{phi:?} has no value for the next iteration")).1
    }

    /// Returns the value that replaces `value`, a value of the loop, after the last iteration.
    fn final_value(&self, value: Value) -> Value {
        let found = self.results.iter().find(|pair| pair.0 == value);
        found.unwrap_or_else(|| panic!("{value:?} has no value after the loop")).1
    }
}

/// Creates a block that branches to the exit of the loop, and returns it.
fn new_block_to_exit(function: &mut Function, old_loop: &UnrollableLoop) -> Block {
    let block = function.new_block();
    set_jump(function, block, old_loop.exit);
    block
}

/// Creates a phi of two sources with their predecessors, and appends it to `into`. Its register class and source location are those of the
/// phi `model`. Returns its result.
fn new_two_source_phi(function: &mut Function, one: (Operand, Block), other: (Operand, Block), model: Inst, into: &mut Vec<Inst>) -> Value {
    let class = function.results(model)[0].value().map_or(oriole_ir::Class::R, |value| function.values[value]);
    let value = function.new_value(class);
    let operands = [Operand::from(function.whole(value)), one.0, one.1.into(), other.0, other.1.into()];
    let phi = function.new_inst(Op::Pseudo(Pseudo::Phi), Symbols::new(), None, &operands, 1);
    function.insts[phi].location = function.insts[model].location;
    into.push(phi);
    value
}

/// Returns whether the remaining iterations may become guarded copies of the body without a loop: the body is one block of at most `limit`
/// instructions, none of which has a guard already.
pub(super) fn can_use_straight_copies(function: &Function, old_loop: &UnrollableLoop, limit: usize) -> bool {
    let [block] = old_loop.blocks.as_slice() else { return false };
    let insts = &function.blocks[*block].insts;
    let is_plain = |inst: Inst| match function.insts[inst].op {
        Op::Machine(Opcode::BRA) => true,
        Op::Machine(_) => function.insts[inst].guard.is_none(),
        Op::Pseudo(pseudo) => matches!(pseudo, Pseudo::Phi | Pseudo::Copy),
    };
    let count = insts.iter().filter(|&&inst| function.insts[inst].op.machine().is_some_and(|opcode| opcode != Opcode::BRA)).count();
    count <= limit && insts.iter().all(|&inst| is_plain(inst))
}
