//! Moves computations whose results are only needed in uniform registers to the uniform datapath.
//!
//! Matrix descriptors, tensor-copy coordinates and barrier addresses are operands in uniform registers. Instruction selection computes them
//! in general registers, as everything else, and copies the results with `R2UR`. This pass computes them with uniform instructions, so that
//! only the inputs are copied, once in each block, and removes copies of compile-time constants:
//!
//! ```text
//! %2:R, %3:P, PT = IADD3 %1, 0x2, RZ                   %9:UR = R2UR %1
//! %4:R, PT, PT = IADD3.X RZ, 0x40000040, RZ, %3, !PT   %2:UR, UPT, UPT = UIADD3 %9, 0x2, URZ
//! %5:UR = R2UR %2                                      %6:UR = UMOV 0x40000040        // if %3, the carry, is known to be false
//! %6:UR = R2UR %4
//! ```
//!
//! An instruction is moved if it has a uniform form, if its results are used only by `R2UR` and by other moved instructions of the same
//! block, and if at most one of its sources has to be copied to a uniform register. No barrier may be between the instruction and its uses:
//! `R2UR` takes the value of one thread, and all copies that contribute to a result have to take it from the same thread.
//!
//! `VOTEU.ANY` of a predicate that is known to be true is replaced by `UPT`, and of one that is known to be false by `!UPT` in warpgroup products. A repeated copy of the same value is replaced by the first
//! copy, up to the next barrier.
//!
//! Loop-carried values are moved as well, with their phis ([`loops`]).
//!
//! The descriptors of a matrix product are derived from those of the previous one ([`tuples`]).
//!
//! **Before** and **after**: SSA, legal instructions, none of them dead: dead uses would keep an instruction from being moved. The cost is
//! linear in the size of the function for each round of the search in a block; the number of rounds is at most the length of the longest
//! dependence chain.

use oriole_ir::analysis::{DefUse, Threads, Use};
use oriole_ir::{Block, Class, Function, Inst, Op, Operand, OperandKind, Part, Pseudo, Value};
use oriole_isa::{Effect, Opcode, RegFile, Symbols};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::alternatives::Alternatives;
use crate::dead;
use crate::definitions::Definitions;
use crate::known::OperandFacts;
use crate::legalize::EncodabilityCache;
use crate::rewrite::replace_uses;

mod form;
mod loops;
mod tuples;

use form::{is_copy_to_uniform, is_uniform_form_encodable, uniform_form, uniform_register_file};

/// Numbers of changes that the pass made to a function.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Number of instructions moved to the uniform datapath.
    pub moved: usize,
    /// Number of copies to uniform registers that became constants or were removed.
    pub removed: usize,
    /// Number of descriptor tuples that are computed from the tuple of the previous matrix product.
    pub derived: usize,
}

/// Moves computations whose results are only needed in uniform registers to the uniform datapath, in a whole function.
/// `threads` is the shape of the thread blocks.
pub fn run(function: &mut Function, encodability: &mut EncodabilityCache, threads: Threads) -> Stats {
    run_and_record_alternatives(function, encodability, threads, &mut Alternatives::default())
}

/// Runs the pass like [`run`], and records why instructions were not replaced by their uniform forms.
pub fn run_and_record_alternatives(
    function: &mut Function,
    encodability: &mut EncodabilityCache,
    threads: Threads,
    alternatives: &mut Alternatives,
) -> Stats {
    let mut stats = Stats::default();
    let has_copies =
        |block: &Block| function.blocks[*block].insts.iter().any(|&inst| is_copy_to_uniform(function, inst) || is_any_vote(function, inst));
    if !function.layout.iter().any(has_copies) {
        return stats;
    }
    let definitions = Definitions::compute(function);
    for block in function.layout.clone() {
        fold_constant_results(function, &definitions, block);
    }
    (stats.moved, stats.removed) = loops::run(function, encodability, threads);
    let has_copies =
        |block: &Block| function.blocks[*block].insts.iter().any(|&inst| is_copy_to_uniform(function, inst) || is_any_vote(function, inst));
    let blocks: Vec<Block> = function.layout.iter().copied().filter(has_copies).collect();
    let definitions = Definitions::compute(function);
    let def_use = DefUse::compute(function);
    let mut replacements: FxHashMap<Value, Operand> = FxHashMap::default();
    for &block in &blocks {
        let moved = UniformCandidates::find_movable_insts(function, &def_use, &definitions, block, encodability, alternatives);
        stats.moved += moved.insts.len();
        let mut rewriter = UniformBlockRewriter {
            candidates: &moved,
            def_use: &def_use,
            definitions: &definitions,
            known_copies: FxHashMap::default(),
            replacements: &mut replacements,
        };
        stats.removed += rewriter.run(function, block);
    }
    replace_uses(function, &replacements);
    stats.derived = tuples::run(function);
    if stats != Stats::default() {
        dead::run(function, encodability.target());
    }
    stats
}

/// Returns whether an instruction is `VOTEU.ANY` with a single result.
fn is_any_vote(function: &Function, inst: Inst) -> bool {
    let data = &function.insts[inst];
    let is_any = data.modifiers.len() == 1 && data.modifiers[0].spelling() == ".ANY";
    data.is_machine(Opcode::VOTEU) && data.guard.is_none() && is_any && function.operands(inst).len() == 2
}

/// Turns each `LOP3` and `IADD3` of a block into a `MOV` if its result is a compile-time constant. The upper halves of descriptors are
/// constants, and mostly no carry reaches them.
fn fold_constant_results(function: &mut Function, definitions: &Definitions, block: Block) {
    for at in 0..function.blocks[block].insts.len() {
        let inst = function.blocks[block].insts[at];
        if !matches!(function.insts[inst].op, Op::Machine(Opcode::LOP3 | Opcode::IADD3)) {
            continue;
        }
        let result = function.operands(inst)[0];
        let has_one_result = function.results(inst)[1..].iter().all(|other| other.value().is_none());
        if let Some(number) = OperandFacts::new(function, definitions).word(&result).filter(|_| has_one_result) {
            function.insts[inst].op = Op::Machine(Opcode::MOV);
            function.insts[inst].modifiers = Symbols::new();
            function.set_operands(inst, &[result, Operand::from(i64::from(number))], 1);
        }
    }
}

/// The instructions of a block that are to be moved to the uniform datapath.
struct UniformCandidates {
    /// The instructions that are to be moved.
    insts: FxHashSet<Inst>,
    /// The values that `insts` define.
    values: FxHashSet<Value>,
}

impl UniformCandidates {
    /// Finds the instructions of a block to move. Starts with all that have a uniform form, and removes those that do not qualify until all
    /// remaining ones do.
    fn find_movable_insts(
        function: &Function,
        def_use: &DefUse,
        definitions: &Definitions,
        block: Block,
        encodability: &mut EncodabilityCache,
        alternatives: &mut Alternatives,
    ) -> UniformCandidates {
        let mut barriers_before: FxHashMap<Inst, usize> = FxHashMap::default();
        let mut order: Vec<Inst> = Vec::new();
        let mut epoch = 0;
        for &inst in &function.blocks[block].insts {
            epoch += usize::from(may_change_thread_set(function, inst));
            barriers_before.insert(inst, epoch);
            if uniform_form(function, inst, false).is_some_and(|draft| is_uniform_form_encodable(function, inst, draft, encodability)) {
                order.push(inst);
            }
        }
        let mut found = UniformCandidates { insts: order.iter().copied().collect(), values: FxHashSet::default() };
        found.values.extend(order.iter().flat_map(|&inst| function.defined(inst)));
        loop {
            let before = order.len();
            // Visits uses before definitions, so that one round removes a whole chain of instructions if the last one does not qualify.
            order.reverse();
            order.retain(|&inst| {
                let has_uniform_uses = found.has_uniform_uses(function, def_use, &barriers_before, inst);
                let qualifies = has_uniform_uses && found.needs_at_most_one_copy(function, definitions, inst);
                if !qualifies && alternatives.is_recording() {
                    record_uniform_rejection(function, def_use, inst, has_uniform_uses, alternatives);
                }
                if !qualifies {
                    found.insts.remove(&inst);
                    function.defined(inst).for_each(|value| _ = found.values.remove(&value));
                }
                qualifies
            });
            order.reverse();
            if order.len() == before {
                return found;
            }
        }
    }

    /// Returns whether all uses of an instruction's results are before the next barrier, and are `R2UR` copies or candidates themselves.
    fn has_uniform_uses(&self, function: &Function, def_use: &DefUse, barriers_before: &FxHashMap<Inst, usize>, inst: Inst) -> bool {
        let is_used = function.results(inst)[0].value().is_some_and(|value| !def_use.uses(value).is_empty());
        let mut uses = function.defined(inst).flat_map(|value| def_use.uses(value));
        let is_uniform = |user: Inst| self.insts.contains(&user) || is_copy_to_uniform(function, user);
        is_used
            && uses.all(|used| {
                used.operand.is_some() && is_uniform(used.inst) && barriers_before.get(&used.inst) == barriers_before.get(&inst)
            })
    }

    /// Returns whether at most one source of an instruction has to be copied to a uniform register, and no predicate.
    fn needs_at_most_one_copy(&self, function: &Function, definitions: &Definitions, inst: Inst) -> bool {
        let known = OperandFacts::new(function, definitions);
        let mut copied: Option<Part> = None;
        for source in function.sources(inst) {
            let Some(part) = source.part().filter(|part| !self.values.contains(&part.value)) else { continue };
            match function.values[part.value].file {
                RegFile::General if known.word(&source.with_signs(Default::default())).is_some() => {}
                RegFile::General if copied.is_none_or(|other| other == part) => copied = Some(part),
                RegFile::Predicate if known.truth(source).is_some() => {}
                RegFile::Uniform | RegFile::UniformPredicate => {}
                _ => return false,
            }
        }
        true
    }
}

/// Records, for `oriole explain`, why an instruction whose result is copied to a uniform register is not moved to the uniform datapath.
fn record_uniform_rejection(function: &Function, def_use: &DefUse, inst: Inst, has_uniform_uses: bool, alternatives: &mut Alternatives) {
    let is_copied = |value: Value| def_use.uses(value).iter().any(|used| is_copy_to_uniform(function, used.inst));
    let Some(draft) = uniform_form(function, inst, false).filter(|_| function.defined(inst).any(is_copied)) else { return };
    let reason = if has_uniform_uses {
        "more than one of its sources would have to be copied to a uniform register"
    } else {
        "an instruction that is not moved to the uniform datapath, or one after a barrier, reads its result too"
    };
    alternatives.reject("uniform", inst, || (draft.opcode.mnemonic().to_owned(), reason.to_owned()));
}

/// Returns whether an instruction is a barrier or transfers control, so that the set of active threads may change there.
fn may_change_thread_set(function: &Function, inst: Inst) -> bool {
    match function.insts[inst].op {
        Op::Machine(Opcode::WARPGROUP) => false,
        Op::Machine(opcode) => matches!(opcode.properties().effect, Effect::Barrier | Effect::Control),
        Op::Pseudo(_) => false,
    }
}

/// Rewrites one block: replaces the chosen instructions by their uniform forms, and removes copies to uniform registers.
struct UniformBlockRewriter<'a> {
    /// The instructions to replace by their uniform forms.
    candidates: &'a UniformCandidates,
    /// For each value, its definition and its uses.
    def_use: &'a DefUse,
    /// For each value, the instruction that defines it.
    definitions: &'a Definitions,
    /// For each operand that an `R2UR` copy or a vote since the last barrier reads, the uniform result.
    known_copies: FxHashMap<OperandKind, Operand>,
    /// For each value that is no longer computed, the operand that replaces it in the whole function.
    replacements: &'a mut FxHashMap<Value, Operand>,
}

impl UniformBlockRewriter<'_> {
    /// Rewrites a block. Returns the number of copies to uniform registers that became constants or were removed.
    fn run(&mut self, function: &mut Function, block: Block) -> usize {
        let insts = std::mem::take(&mut function.blocks[block].insts);
        let mut kept = Vec::with_capacity(insts.len());
        let mut removed = 0;
        for inst in insts {
            if may_change_thread_set(function, inst) {
                self.known_copies.clear();
            }
            if self.candidates.insts.contains(&inst) {
                self.make_inst_uniform(function, inst, &mut kept);
            } else if is_copy_to_uniform(function, inst) || is_any_vote(function, inst) {
                removed += usize::from(self.simplify_copy_or_vote(function, inst));
                if function.insts[inst].op == Op::Pseudo(Pseudo::Copy) {
                    continue;
                }
            }
            kept.push(inst);
        }
        function.blocks[block].insts = kept;
        removed
    }

    /// Simplifies a copy to a uniform register (`R2UR`) or a vote. If its result can be replaced by another operand, the instruction
    /// becomes a `COPY`, which the caller removes. Returns whether the instruction changed.
    fn simplify_copy_or_vote(&mut self, function: &mut Function, inst: Inst) -> bool {
        let [result, source] = [0, 1].map(|at| function.operands(inst)[at]);
        let Some(value) = result.value() else { return false };
        // A result that is read as a guard is not replaced.
        if self.def_use.uses(value).iter().any(|used| used.operand.is_none()) {
            return false;
        }
        let known = OperandFacts::new(function, self.definitions);
        let replacement = if is_any_vote(function, inst) {
            let is_product = |used: &Use| function.is_warpgroup_product(used.inst);
            match known.truth(&source) {
                Some(true) => Some(Operand::UPT),
                // The operand of a product that says whether it adds to the accumulator can be inverted.
                Some(false) if self.def_use.uses(value).iter().all(is_product) => Some(Operand::UPT.inverted_predicate()),
                _ => None,
            }
        } else if let Some(number) = known.word(&source) {
            function.insts[inst].op = Op::Machine(Opcode::UMOV);
            function.set_operands(inst, &[result, Operand::from(i64::from(number))], 1);
            return true;
        } else if source.value().is_some_and(|value| self.candidates.values.contains(&value)) {
            Some(source)
        } else {
            None
        };
        let is_plain = source.signs.is_empty() && source.value().is_some();
        let replacement = replacement.or_else(|| self.known_copies.get(&source.kind).copied().filter(|_| is_plain));
        match replacement {
            Some(operand) => {
                self.replacements.insert(value, operand);
                function.insts[inst].op = Op::Pseudo(Pseudo::Copy);
                true
            }
            None => {
                if is_plain {
                    self.known_copies.insert(source.kind, Operand::new(result.kind));
                }
                false
            }
        }
    }

    /// Replaces an instruction by its uniform form. Appends to `kept` the copies to uniform registers that its sources need.
    fn make_inst_uniform(&mut self, function: &mut Function, inst: Inst, kept: &mut Vec<Inst>) {
        let Some(mut draft) = uniform_form(function, inst, false) else { return };
        for at in 0..draft.operands.len() {
            let operand = draft.operands[at];
            let truth = if at < draft.result_count { None } else { self.known_predicate_truth(function, &operand) };
            let is_unused = at < draft.result_count && operand.value().is_some_and(|value| self.def_use.uses(value).is_empty());
            draft.operands[at] = match truth {
                Some(false) => Operand::UPT.inverted_predicate(),
                _ if is_unused || truth.is_some() => Operand::UPT,
                _ => Operand { kind: self.make_operand_uniform(function, inst, operand, kept), ..operand },
            };
        }
        draft.overwrite_inst(function, inst);
        for value in function.defined(inst).collect::<SmallVec<[Value; 3]>>() {
            function.values[value] = if function.values[value].file == RegFile::Predicate { Class::UP } else { Class::UR };
        }
    }

    /// Returns the truth value, if it is known, of a predicate that is not moved to a uniform register; `None` for other operands.
    fn known_predicate_truth(&self, function: &Function, operand: &Operand) -> Option<bool> {
        let value = operand.value().filter(|value| !self.candidates.values.contains(value))?;
        if function.values[value].file != RegFile::Predicate {
            return None;
        }
        OperandFacts::new(function, self.definitions).truth(operand)
    }

    /// Returns the uniform register or constant that replaces an operand of a moved instruction. If a copy to a uniform register is needed,
    /// appends it to `kept`.
    fn make_operand_uniform(&mut self, function: &mut Function, inst: Inst, operand: Operand, kept: &mut Vec<Inst>) -> OperandKind {
        match operand.kind {
            OperandKind::Zero(file) => OperandKind::Zero(uniform_register_file(file)),
            OperandKind::Value(part)
                if self.candidates.values.contains(&part.value) || function.values[part.value].file != RegFile::General =>
            {
                operand.kind
            }
            OperandKind::Value(_) => {
                if let Some(copy) = self.known_copies.get(&operand.kind) {
                    return copy.kind;
                }
                let copied = function.new_value(Class::UR);
                let result = Operand::from(function.whole(copied));
                let source = Operand::new(operand.kind);
                let copy = match OperandFacts::new(function, self.definitions).word(&source) {
                    Some(number) => {
                        let operands = [result, Operand::from(i64::from(number))];
                        function.new_inst(Op::Machine(Opcode::UMOV), Symbols::new(), None, &operands, 1)
                    }
                    None => function.new_inst(Op::Machine(Opcode::R2UR), Symbols::new(), None, &[result, source], 1),
                };
                function.insts[copy].location = function.insts[inst].location;
                kept.push(copy);
                self.known_copies.insert(operand.kind, result);
                result.kind
            }
            other => other,
        }
    }
}
