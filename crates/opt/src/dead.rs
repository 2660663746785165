//! Removes instructions whose results nobody reads.
//!
//! What must stay (stores, branches, barriers, volatile and acquiring loads) is the root; whatever it reads, directly or not, stays
//! too. Everything else goes, cycles of phis included. Results of staying instructions that nobody reads become the zero register
//! where that is free: predicates always, registers of atomics.

use oriole_ir::{Function, Inst, Op, Operand, OperandKind, Order, Pseudo, Role, Target, Value};
use oriole_isa::{Effect, File};
use oriole_support::Index;
use smallvec::SmallVec;

use crate::definitions::Definitions;
use crate::machine;

/// What was removed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Instructions that are gone.
    pub removed: usize,
    /// Results that are not written any more.
    pub unwanted_results: usize,
}

/// Removes what has no effect.
pub fn run(function: &mut Function, target: Target) -> Stats {
    let live = Live::find(function);
    let mut stats = Stats::default();
    for at in 0..function.layout.len() {
        let block = function.layout[at];
        let mut insts = std::mem::take(&mut function.blocks[block].insts);
        let before = insts.len();
        insts.retain(|&inst| live.insts[inst.position()]);
        stats.removed += before - insts.len();
        for &inst in &insts {
            stats.unwanted_results += drop_results(function, inst, &live, target);
        }
        function.blocks[block].insts = insts;
    }
    stats
}

/// Instructions that stay and values that are read.
struct Live {
    insts: Vec<bool>,
    values: Vec<bool>,
}

impl Live {
    fn find(function: &Function) -> Live {
        let definitions = Definitions::compute(function);
        let mut live = Live { insts: vec![false; function.insts.len()], values: vec![false; function.values.len()] };
        let mut work: Vec<Inst> = Vec::new();
        for &block in &function.layout {
            for &inst in &function.blocks[block].insts {
                if must_stay(function, inst) {
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
                let Some(definition) = definitions.of(part.value) else { continue };
                if !std::mem::replace(&mut live.insts[definition.position()], true) {
                    work.push(definition);
                }
            }
        }
        live
    }

    fn has(&self, value: Value) -> bool {
        self.values[value.position()]
    }
}

/// Whether an instruction does something beyond its results.
fn must_stay(function: &Function, inst: Inst) -> bool {
    let data = &function.insts[inst];
    match data.op.effect() {
        Effect::None | Effect::Lanes | Effect::State => false,
        Effect::Reads => data.memory.is_some_and(|id| {
            let access = &function.accesses[id];
            access.volatile || !matches!(access.order, Order::Weak | Order::Relaxed)
        }),
        Effect::Writes | Effect::Updates | Effect::Control | Effect::Barrier | Effect::Fence | Effect::Other => true,
    }
}

/// Results of a staying instruction that nobody reads; returns how many are not written any more.
fn drop_results(function: &mut Function, inst: Inst, live: &Live, target: Target) -> usize {
    let is_dead = |operand: &Operand| operand.value().is_some_and(|value| !live.has(value));
    if !function.results(inst).iter().any(is_dead) {
        return 0;
    }
    match function.insts[inst].op {
        Op::Pseudo(Pseudo::Copy) => drop_copies(function, inst, live),
        Op::Pseudo(_) => 0,
        Op::Machine(opcode) => {
            let is_free = |file| match file {
                File::Predicate | File::UniformPredicate => true,
                File::General => opcode.properties().effect == Effect::Updates,
                File::Uniform | File::Convergence | File::Scoreboard => false,
            };
            let old: SmallVec<[Operand; 8]> = function.operands(inst).iter().copied().collect();
            let count = function.insts[inst].result_count();
            let mut operands = old.clone();
            let mut dropped: SmallVec<[usize; 2]> = SmallVec::new();
            for (at, result) in operands[..count].iter_mut().enumerate() {
                let file = result.value().filter(|&value| !live.has(value)).map(|value| function.values[value].file);
                if let Some(file) = file.filter(|&file| is_free(file)) {
                    result.kind = OperandKind::Zero(file);
                    dropped.push(at);
                }
            }
            operands.retain(|operand| !matches!(operand.role, Role::Tied(result) if dropped.contains(&usize::from(result))));
            function.set_operands(inst, &operands, count);
            if !machine::fits(function, inst, target) {
                function.set_operands(inst, &old, count);
                return 0;
            }
            dropped.len()
        }
    }
}

/// Copies of a parallel copy to values that nobody reads.
fn drop_copies(function: &mut Function, inst: Inst, live: &Live) -> usize {
    let count = function.insts[inst].result_count();
    let is_simple = function.sources(inst).len() == count && function.sources(inst).iter().all(|source| source.role == Role::Plain);
    if !is_simple {
        return 0;
    }
    let wanted: SmallVec<[usize; 8]> =
        (0..count).filter(|&at| function.results(inst)[at].value().is_none_or(|value| live.has(value))).collect();
    let operands: SmallVec<[Operand; 8]> =
        wanted.iter().map(|&at| function.results(inst)[at]).chain(wanted.iter().map(|&at| function.sources(inst)[at])).collect();
    function.set_operands(inst, &operands, wanted.len());
    count - wanted.len()
}
