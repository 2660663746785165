//! Inserts `YIELD` into loops in which a thread may wait for another thread of its warp.
//!
//! A diverged warp executes one group of threads at a time. Threads that spin in a loop until another thread of the same warp acts (sets a
//! flag, releases a lock) must let that thread run, or the warp never makes progress. Therefore the header of a loop that waits for memory
//! which other threads may change (atomics, volatile or strong accesses, tests of barriers in shared memory) starts with `YIELD`.
//!
//! A loop that reads such memory counts as waiting if one of its branches depends on data that the loop reads from memory. A loop that
//! counts to a limit and adds to a counter in memory does not wait: its number of iterations does not depend on other threads, and `YIELD`
//! would only cost time. Nor does a loop wait that only decides from such memory whether to enter a loop of one block which waits itself, as
//! [`crate::peel_waits`] writes it: the inner loop has a `YIELD`. A loop that reads such memory also counts as waiting if it has no exit, or if it has calls or indirect branches. A
//! loop that repeats a compare-and-swap until it succeeds, emitted by instruction selection for an atomic operation, does not wait.

use oriole_ir::analysis::{ControlFlow, LoopId, Loops};
use oriole_ir::{Block, Function, Inst, MemoryAccess, Op, Order, Target, Value};
use oriole_isa::{Effect, Opcode, Symbols};
use rustc_hash::FxHashSet;

/// Maximum number of passes over the instructions of a loop to find the values that depend on memory.
const MAX_LOOP_SWEEPS: usize = 8;

/// Inserts `YIELD` at the start of loops that may wait for other threads. Returns the number of instructions inserted.
pub fn run(function: &mut Function, _target: Target) -> usize {
    if !function.accesses.iter().any(is_strong_access) {
        return 0;
    }
    let flow = ControlFlow::compute(function);
    let loops = Loops::compute(function, &flow);
    let waiting = waiting_loop_headers(function, &loops);
    for &header in &waiting {
        let position = function.phis(header).len();
        let inst = function.new_inst(Op::Machine(Opcode::YIELD), Symbols::new(), None, &[], 0);
        let next = function.blocks[header].insts.get(position).copied();
        function.insts[inst].location = next.map(|next| function.insts[next].location).unwrap_or_default();
        function.blocks[header].insts.insert(position, inst);
    }
    waiting.len()
}

/// Returns the headers of the loops in which a thread may wait for other threads; the pass inserts a `YIELD` into each.
pub(crate) fn waiting_loop_headers(function: &Function, loops: &Loops) -> Vec<Block> {
    let reads_concurrent_memory = |block: &Block| {
        let insts = &function.blocks[*block].insts;
        !insts.iter().any(|&inst| is_swap_of_retry_loop(function, inst))
            && insts.iter().any(|&inst| reads_concurrent_memory(function, inst))
    };
    let may_wait = |id: LoopId| loops.blocks(id).iter().any(reads_concurrent_memory);
    let no_blocks = FxHashSet::default();
    let waits_alone = |&id: &LoopId| loops.blocks(id).len() == 1 && may_wait(id) && exit_depends_on_memory(function, loops, id, &no_blocks);
    let single: FxHashSet<Block> = loops.iter().filter(waits_alone).map(|id| loops.get(id).header).collect();
    let waits = |&id: &LoopId| {
        let header = loops.get(id).header;
        single.contains(&header) || loops.blocks(id).len() > 1 && may_wait(id) && exit_depends_on_memory(function, loops, id, &single)
    };
    loops.iter().filter(waits).map(|id| loops.get(id).header).collect()
}

/// Returns whether an instruction reads memory that other threads may change, by a volatile, atomic or ordered access.
fn reads_concurrent_memory(function: &Function, inst: Inst) -> bool {
    function.insts[inst].memory.is_some_and(|id| is_strong_access(&function.accesses[id])) && reads_memory(function, inst)
}

/// Returns whether an instruction is the compare-and-swap of a retry loop that instruction selection emits for an atomic operation. Such a
/// loop does not wait for other threads: the swap of one of the threads always succeeds. (PTX's `atom.cas` is never selected as this form,
/// `.CAST`.)
fn is_swap_of_retry_loop(function: &Function, inst: Inst) -> bool {
    let data = &function.insts[inst];
    data.is_machine(Opcode::ATOMS) && data.modifiers.iter().any(|symbol| symbol.spelling() == ".CAST")
}

/// Returns whether the results of an instruction come from memory: it loads, updates memory, or tests a barrier in shared memory.
fn reads_memory(function: &Function, inst: Inst) -> bool {
    let data = &function.insts[inst];
    let tests_barrier = data.op == Op::Machine(Opcode::SYNCS) && data.modifiers.iter().any(|symbol| symbol.spelling() == ".PHASECHK");
    tests_barrier || matches!(data.op.effect(), Effect::Reads | Effect::Updates)
}

/// Returns whether the decision to leave a loop may depend on data that the loop reads from memory. Also true for a loop without an exit,
/// and for a loop with a call or an indirect branch. The loops of one block in `waiting` have a `YIELD` of their own, so neither their branches
/// nor those that enter them count.
fn exit_depends_on_memory(function: &Function, loops: &Loops, id: LoopId, waiting: &FxHashSet<Block>) -> bool {
    let blocks = loops.blocks(id);
    let members: FxHashSet<Block> = blocks.iter().copied().collect();
    let has_exit = blocks.iter().any(|&block| {
        let successors = function.successors(block);
        successors.is_empty() || successors.iter().any(|next| !members.contains(next))
    });
    let mut read: FxHashSet<Value> = FxHashSet::default();
    // Values that depend on memory through a phi may need further sweeps; a loop that needs more than the maximum counts as waiting.
    for _ in 0..MAX_LOOP_SWEEPS {
        let before = read.len();
        for (&inst, block) in blocks.iter().flat_map(|&block| function.blocks[block].insts.iter().map(move |inst| (inst, block))) {
            let depends = function.used(inst).any(|part| read.contains(&part.value));
            let effect = function.insts[inst].op.effect();
            let enters_waiting = || waiting.contains(&block) || function.successors(block).iter().any(|next| waiting.contains(next));
            if effect == Effect::Control && (depends && !enters_waiting() || !is_control_flow_without_wait(function, inst)) {
                return true;
            }
            if depends || reads_memory(function, inst) {
                read.extend(function.defined(inst));
            }
        }
        if read.len() == before {
            return !has_exit;
        }
    }
    true
}

/// Returns whether a control-flow instruction is a direct branch, an exit, an instruction for convergence barriers, or a call of a slow
/// path (a function for the rare cases of an operation such as division, which waits for no thread).
fn is_control_flow_without_wait(function: &Function, inst: Inst) -> bool {
    matches!(function.insts[inst].op, Op::Machine(Opcode::BRA | Opcode::EXIT | Opcode::BSSY | Opcode::BSYNC | Opcode::BREAK))
        || function.calls_slow_path(inst)
}

/// Returns whether a thread may wait for other threads at an instruction, or in the function that it calls.
pub(crate) fn may_wait_for_threads_at(function: &Function, inst: Inst) -> bool {
    let opcode = function.insts[inst].op.machine();
    let waits = opcode.is_some_and(|opcode| opcode == Opcode::CALL || opcode.properties().waits_for_threads);
    waits && !function.calls_slow_path(inst)
}

/// Returns whether a memory access is volatile or has an ordering stronger than weak, so that other threads may observe it.
pub(crate) fn is_strong_access(access: &MemoryAccess) -> bool {
    access.volatile || access.order != Order::Weak
}
