//! Dead-code elimination by marking from the roots.
//!
//! The roots are instructions with side effects: stores, branches, barriers, volatile and acquiring loads. Everything that a root reads,
//! directly or through other instructions, is live. All other instructions are deleted, including cycles of phis that only feed each other.
//! Unread results of live instructions are replaced by the zero register where that costs nothing: predicates always, general registers for
//! atomics and logic operations. Texture fetches and vector loads are narrowed to the registers that some instruction reads. The cost is
//! linear in the size of the function.

mod components;
mod loads;
mod narrow_results;

use oriole_ir::{Function, Inst, Op, Operand, OperandKind, Order, Pseudo, Role, Target, Value, machine};
use oriole_isa::{Effect, Memory, Opcode, RegFile};
use oriole_support::Index;
use smallvec::SmallVec;

use crate::definitions::Definitions;

/// Numbers of instructions and results that the pass removed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Number of instructions that were deleted.
    pub removed: usize,
    /// Number of unread results of live instructions that were dropped, plus the number of registers by which fetches and vector loads were
    /// narrowed.
    pub dropped_results: usize,
}

/// Deletes dead instructions and unread results of a function.
pub fn run(function: &mut Function, target: Target) -> Stats {
    let live = LivenessMarks::find(function);
    let mut stats = Stats::default();
    for at in 0..function.layout.len() {
        let block = function.layout[at];
        let mut insts = std::mem::take(&mut function.blocks[block].insts);
        let before = insts.len();
        insts.retain(|&inst| live.insts[inst.position()]);
        stats.removed += before - insts.len();
        for &inst in &insts {
            stats.dropped_results += drop_unread_results(function, inst, &live, target);
        }
        function.blocks[block].insts = insts;
    }
    stats.dropped_results += components::run(function, target);
    stats.dropped_results += loads::run(function, target);
    stats
}

/// The live instructions of a function (those that dead-code elimination keeps) and the values that they read.
pub(crate) struct LivenessMarks {
    /// For each instruction, whether it is live.
    insts: Vec<bool>,
    /// For each value, whether a live instruction reads it.
    values: Vec<bool>,
}

impl LivenessMarks {
    /// Marks every instruction and value that an instruction with side effects depends on, with a worklist.
    pub(crate) fn find(function: &Function) -> LivenessMarks {
        let definitions = Definitions::compute(function);
        let mut live = LivenessMarks { insts: vec![false; function.insts.len()], values: vec![false; function.values.len()] };
        let mut work: Vec<Inst> = Vec::new();
        for &block in &function.layout {
            for &inst in &function.blocks[block].insts {
                if has_side_effect(function, inst) {
                    live.insts[inst.position()] = true;
                    work.push(inst);
                }
            }
        }
        while let Some(inst) = work.pop() {
            for part in function.used(inst) {
                if std::mem::replace(&mut live.values[part.value.position()], true) {
                    continue;
                }
                let Some(definition) = definitions.definition_of(part.value) else { continue };
                if !std::mem::replace(&mut live.insts[definition.position()], true) {
                    work.push(definition);
                }
            }
        }
        live
    }

    /// Returns whether an instruction is live.
    pub(crate) fn is_live_inst(&self, inst: Inst) -> bool {
        self.insts[inst.position()]
    }

    /// Returns whether a live instruction reads a value.
    fn is_read(&self, value: Value) -> bool {
        self.values[value.position()]
    }
}

/// Returns whether an instruction has an effect other than writing its results.
pub(crate) fn has_side_effect(function: &Function, inst: Inst) -> bool {
    let data = &function.insts[inst];
    match data.op.effect() {
        Effect::None | Effect::Lanes | Effect::State => false,
        // Loads of tensor memory must keep their order, but a load whose result nothing reads may be deleted.
        Effect::Reads if data.op.machine().is_some_and(|opcode| opcode.properties().memory == Memory::Tensor) => false,
        Effect::Reads => data.memory.is_some_and(|id| {
            let access = &function.accesses[id];
            access.volatile || !matches!(access.order, Order::Weak | Order::Relaxed)
        }),
        Effect::Control if function.calls_slow_path(inst) => false,
        Effect::Writes | Effect::Updates | Effect::Control | Effect::Barrier | Effect::Fence | Effect::Other => true,
    }
}

/// Replaces unread results of a live instruction by the zero register; deletes those of a parallel copy. Returns the number of results
/// dropped.
fn drop_unread_results(function: &mut Function, inst: Inst, live: &LivenessMarks, target: Target) -> usize {
    let is_dead = |operand: &Operand| operand.value().is_some_and(|value| !live.is_read(value));
    if !function.results(inst).iter().any(is_dead) {
        return 0;
    }
    match function.insts[inst].op {
        Op::Pseudo(Pseudo::Copy) => drop_unread_copy_results(function, inst, live),
        Op::Pseudo(_) => 0,
        Op::Machine(opcode) => {
            let is_free = |file| match file {
                RegFile::Predicate | RegFile::UniformPredicate => true,
                RegFile::General => opcode == Opcode::LOP3 || opcode.properties().effect == Effect::Updates,
                // The uniform result of `ELECT` is the lane number of the elected thread, which may be dropped if nothing reads it.
                RegFile::Uniform => opcode == Opcode::ELECT,
                RegFile::Convergence | RegFile::Scoreboard => false,
            };
            let old: SmallVec<[Operand; 8]> = function.operands(inst).iter().copied().collect();
            let count = function.insts[inst].result_count();
            let mut operands = old.clone();
            let mut dropped: SmallVec<[usize; 2]> = SmallVec::new();
            for (at, result) in operands[..count].iter_mut().enumerate() {
                let file = result.value().filter(|&value| !live.is_read(value)).map(|value| function.values[value].file);
                if let Some(file) = file.filter(|&file| is_free(file)) {
                    result.kind = OperandKind::Zero(file);
                    dropped.push(at);
                }
            }
            // An operand tied to a dropped result supplies the result's old content, which is no longer needed.
            operands.retain(|operand| !matches!(operand.role, Role::Tied(result) if dropped.contains(&usize::from(result))));
            function.set_operands(inst, &operands, count);
            if !machine::is_encodable(function, inst, target) {
                function.set_operands(inst, &old, count);
                return 0;
            }
            dropped.len()
        }
    }
}

/// Deletes the unread destinations of a parallel copy, with their sources. Returns the number of destinations deleted.
fn drop_unread_copy_results(function: &mut Function, inst: Inst, live: &LivenessMarks) -> usize {
    let count = function.insts[inst].result_count();
    let is_simple = function.sources(inst).len() == count && function.sources(inst).iter().all(|source| source.role == Role::Plain);
    if !is_simple {
        return 0;
    }
    let wanted: SmallVec<[usize; 8]> =
        (0..count).filter(|&at| function.results(inst)[at].value().is_none_or(|value| live.is_read(value))).collect();
    let operands: SmallVec<[Operand; 8]> =
        wanted.iter().map(|&at| function.results(inst)[at]).chain(wanted.iter().map(|&at| function.sources(inst)[at])).collect();
    function.set_operands(inst, &operands, wanted.len());
    count - wanted.len()
}
