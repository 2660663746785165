//! Inserts `YIELD` into loops in which a thread may wait for another thread of its warp.
//!
//! A diverged warp executes one group of threads at a time. Threads that spin in a loop until another thread of the same warp acts (sets a
//! flag, releases a lock) must let that thread run, or the warp never makes progress. Therefore the header of every loop that reads memory
//! which other threads may change (atomics, volatile or strong accesses, tests of barriers in shared memory) starts with `YIELD`, as in ptxas' code.

use oriole_ir::analysis::{ControlFlow, Loops};
use oriole_ir::{Block, Function, Inst, MemoryAccess, Op, Order, Target};
use oriole_isa::{Effect, Opcode, Symbols};

/// Inserts `YIELD` at the start of loops that may wait for other threads. Returns the number of instructions inserted.
pub fn run(function: &mut Function, _target: Target) -> usize {
    if !function.accesses.iter().any(is_strong) {
        return 0;
    }
    let flow = ControlFlow::compute(function);
    let loops = Loops::compute(function, &flow);
    let waiting: Vec<Block> = loops
        .iter()
        .filter(|&id| loops.blocks(id).iter().any(|&block| function.blocks[block].insts.iter().any(|&inst| may_wait(function, inst))))
        .map(|id| loops.get(id).header)
        .collect();
    for &header in &waiting {
        let position = function.phis(header).len();
        let inst = function.new_inst(Op::Machine(Opcode::YIELD), Symbols::new(), None, &[], 0);
        let next = function.blocks[header].insts.get(position).copied();
        function.insts[inst].location = next.map(|next| function.insts[next].location).unwrap_or_default();
        function.blocks[header].insts.insert(position, inst);
    }
    waiting.len()
}

/// Returns whether an instruction reads memory that other threads may change in the meantime.
fn may_wait(function: &Function, inst: Inst) -> bool {
    let data = &function.insts[inst];
    let tests_barrier = data.op == Op::Machine(Opcode::SYNCS) && data.modifiers.iter().any(|symbol| symbol.spelling() == ".PHASECHK");
    data.memory.is_some_and(|id| is_strong(&function.accesses[id]))
        && (tests_barrier || matches!(data.op.effect(), Effect::Reads | Effect::Updates))
}

/// Returns whether an access is volatile or has an ordering stronger than weak.
fn is_strong(access: &MemoryAccess) -> bool {
    access.volatile || access.order != Order::Weak
}
