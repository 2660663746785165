//! Lets other threads of the warp run while some wait in a loop.
//!
//! A warp whose threads took different ways executes one way at a time. Threads that wait in a loop for something that others of
//! their warp will do (a flag, a lock) must let those others run, or they wait forever. So a loop that looks at memory in a way others
//! can change (atomic operations, volatile or strong accesses) starts with `YIELD`, as in ptxas' code.

use oriole_ir::analysis::{ControlFlow, Loops};
use oriole_ir::{Block, Function, Inst, MemoryAccess, Op, Order, Target};
use oriole_isa::{Effect, Opcode, Symbols};

/// Inserts `YIELD` at the start of loops that may wait. Returns how many.
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
        function.blocks[header].insts.insert(position, inst);
    }
    waiting.len()
}

/// Whether others can change what an instruction reads.
fn may_wait(function: &Function, inst: Inst) -> bool {
    let data = &function.insts[inst];
    data.memory.is_some_and(|id| is_strong(&function.accesses[id])) && matches!(data.op.effect(), Effect::Reads | Effect::Updates)
}

fn is_strong(access: &MemoryAccess) -> bool {
    access.volatile || access.order != Order::Weak
}
