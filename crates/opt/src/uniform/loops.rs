//! Moves loop-carried values to the uniform datapath.
//!
//! Pipeline stage indices and buffer offsets change from iteration to iteration, and the descriptors and addresses that depend on them are
//! operands in uniform registers. If all threads of a warp have the same value, the loop can carry it in a uniform register, so that no
//! copy is needed in the loop:
//!
//! ```text
//! bb0: BRA bb1                                     bb0: %9:UR = R2UR %base
//!                                                       BRA bb1
//! bb1: %1:R = PHI RZ, bb0, %2, bb1                 bb1: %1:UR = PHI URZ, bb0, %2, bb1
//!      %2:R = IADD3 %1, 0x40, RZ                        %2:UR = UIADD3 %1, 0x40, URZ
//!      %3:R = IADD3 %2, %base, RZ                       %3:UR = UIADD3 %2, %9, URZ
//!      %4:UR = R2UR %3
//!      .. %4 ..                                         .. %3 ..
//!      @%p BRA bb1                                      @%p BRA bb1
//! ```
//!
//! Starting at the copies in a loop, this pass collects the instructions that compute the copied values. All of them must have a uniform
//! form. Values from outside the loop are copied before the loop. Other readers of these values read the uniform register where they have a
//! form for it (addresses have a uniform part), and a copy in a general register otherwise. A loop is left as it is if it would need more
//! such copies than it saves.
//!
//! All values have to be equal in the threads of a warp, and the warp has to be converged where they are computed, because its threads
//! share the uniform registers: in a kernel, before any divergent branch, or after a `WARPSYNC` of all threads up to the next divergent
//! branch.

use oriole_ir::analysis::{ControlFlow, DefUse, Dominators, LoopId, Loops, PostDominators, Threads, Uniformity};
use oriole_ir::{Block, Class, Function, FunctionKind, Inst, Op, Operand, OperandKind, Part, Pseudo, Value};
use oriole_isa::{Effect, Opcode, RegFile, Symbols};
use oriole_support::Index;
use rustc_hash::{FxHashMap, FxHashSet};

use super::form::{
    EXAMPLE_REGISTER, is_copy_to_uniform, is_uniform_form_encodable, make_addresses_uniform, uniform_form, uniform_register_file,
};
use crate::converge::{WarpConvergence, divergent_blocks};
use crate::definitions::Definitions;
use crate::hoist::preheader;
use crate::known::OperandFacts;
use crate::legalize::{EncodabilityCache, order};
use crate::rewrite::{InstDraft, replace_uses};

/// Maximum number of uniform registers for the loop-carried and loop-invariant values of one loop.
const MAX_UNIFORM_LOOP_REGISTERS: usize = 24;

/// Moves loop-carried computations to the uniform datapath. Returns the number of instructions moved, and the number of copies to uniform
/// registers that were removed from loops.
pub(super) fn run(function: &mut Function, encodability: &mut EncodabilityCache, threads: Threads) -> (usize, usize) {
    let has_call =
        |function: &Function, block: Block| function.blocks[block].insts.iter().any(|&inst| is_call_writing_uniform(function, inst));
    if function.kind != FunctionKind::Kernel || function.layout.iter().any(|&block| has_call(function, block)) {
        return (0, 0);
    }
    let flow = ControlFlow::compute(function);
    let loops = Loops::compute(function, &flow);
    let has_copies = |function: &Function, id: LoopId| {
        loops.blocks(id).iter().any(|&block| function.blocks[block].insts.iter().any(|&inst| is_copy_to_uniform(function, inst)))
    };
    if !loops.iter().any(|id| has_copies(function, id)) {
        return (0, 0);
    }
    let dominators = Dominators::compute(function, &flow);
    let post_dominators = PostDominators::compute(function, &flow);
    let uniformity = Uniformity::compute_for_threads(function, &flow, &dominators, &post_dominators, &loops, threads);
    let may_be_diverged = diverged_blocks(function, &flow, &uniformity);
    let (mut moved, mut removed) = (0, 0);
    // Inner loops first: values copied before an inner loop may be computed uniformly in the outer loop.
    for id in loops.iter().rev() {
        let header = loops.get(id).header;
        let Some(before) = preheader(function, &flow, &loops, id) else { continue };
        if may_be_diverged[before.position()] || may_be_diverged[header.position()] || !has_copies(function, id) {
            continue;
        }
        let definitions = Definitions::compute(function);
        let def_use = DefUse::compute(function);
        let search = UniformLoopSearch {
            function,
            definitions: &definitions,
            def_use: &def_use,
            uniformity: &uniformity,
            loops: &loops,
            may_be_diverged: &may_be_diverged,
            id,
        };
        let Some(loop_code) = search.run(encodability) else { continue };
        moved += loop_code.insts.len();
        removed += loop_code.copies.len();
        UniformLoopRewriter {
            definitions: &definitions,
            def_use: &def_use,
            preheader: before,
            loop_code: &loop_code,
            outside_copies: FxHashMap::default(),
        }
        .run(function, encodability);
    }
    (moved, removed)
}

/// Returns whether an instruction calls a function that may write uniform registers; slow paths of arithmetic do not.
fn is_call_writing_uniform(function: &Function, inst: Inst) -> bool {
    function.insts[inst].is_machine(Opcode::CALL) && !function.calls_slow_path(inst)
}

/// Returns, for each block, whether a warp may be diverged when it executes the block: whether a path leads to it from a divergent branch,
/// without a `WARPSYNC` of all threads of the warp on it. Reconvergence points do not count as converged, because not each of them gets a
/// convergence barrier.
fn diverged_blocks(function: &Function, flow: &ControlFlow, uniformity: &Uniformity) -> Vec<bool> {
    let divergent = divergent_blocks(function, flow, uniformity);
    let definitions = Definitions::compute(function);
    let mut may_be_diverged = WarpConvergence { flow, divergent: &divergent, regions: &[] }.diverged_blocks(function, &definitions);
    // Calls of slow paths, after which a warp counts as diverged above, write no uniform registers, and all threads return from them to the
    // same place. Without a divergent branch before it, a block is converged.
    let mut is_reached = vec![false; function.blocks.len()];
    let mut work: Vec<Block> = divergent.iter().flat_map(|&block| flow.successors(block).iter().copied()).collect();
    while let Some(block) = work.pop() {
        if !std::mem::replace(&mut is_reached[block.position()], true) {
            work.extend(flow.successors(block));
        }
    }
    may_be_diverged.iter_mut().zip(is_reached).for_each(|(diverged, is_reached)| *diverged &= is_reached);
    may_be_diverged
}

/// The loop-carried computations of one loop that are moved to the uniform datapath.
struct UniformLoopCode {
    /// The instructions that are replaced by their uniform forms, in the order in which they were found.
    insts: Vec<Inst>,
    /// The values that `insts` define.
    values: FxHashSet<Value>,
    /// The `R2UR` copies that are removed from the loop.
    copies: Vec<Inst>,
    /// The moved values of which a copy in a general register is needed too, because an instruction that is not moved reads them.
    kept_values: Vec<Value>,
}

/// Where a source of an instruction of the loop comes from.
enum SourceOrigin {
    /// A constant, a uniform register, or a general register that is defined before the loop.
    Available,
    /// An instruction of the loop that may have a uniform form.
    Computed(Inst),
    /// Any other definition. The instruction that reads the source then cannot be moved.
    Other,
}

/// The search for the instructions of one loop that can be moved to the uniform datapath.
struct UniformLoopSearch<'a> {
    /// The analyzed function.
    function: &'a Function,
    /// For each value, the instruction that defines it.
    definitions: &'a Definitions,
    /// For each value, its definition and its uses.
    def_use: &'a DefUse,
    /// Which values are the same in all threads of a warp.
    uniformity: &'a Uniformity,
    /// The natural loops of the function.
    loops: &'a Loops,
    /// For each block, whether a diverged warp may execute it.
    may_be_diverged: &'a [bool],
    /// The loop that is searched.
    id: LoopId,
}

impl UniformLoopSearch<'_> {
    /// Finds the computations to move; `None` if nothing can be moved, or if moving needs too many registers or copies.
    fn run(&self, encodability: &mut EncodabilityCache) -> Option<UniformLoopCode> {
        let insts = self.loops.blocks(self.id).iter().flat_map(|&block| &self.function.blocks[block].insts);
        let is_known = |inst: Inst| OperandFacts::new(self.function, self.definitions).word(&self.function.sources(inst)[0]).is_some();
        let is_worthwhile = |inst: &Inst| is_copy_to_uniform(self.function, *inst) && !is_known(*inst);
        let copies: Vec<Inst> = insts.copied().filter(is_worthwhile).collect();
        let movable = self.movable_insts(&copies, encodability);
        let available = |copy: &Inst| match self.origin(&self.function.sources(*copy)[0]) {
            SourceOrigin::Available => true,
            SourceOrigin::Computed(inst) => movable.contains(&inst),
            SourceOrigin::Other => false,
        };
        let copies: Vec<Inst> = copies.into_iter().filter(available).collect();
        if copies.is_empty() {
            return None;
        }
        let insts = self.loop_slice_of(&copies);
        debug_assert!(insts.iter().all(|inst| movable.contains(inst)));
        let values: FxHashSet<Value> = insts.iter().flat_map(|&inst| self.function.defined(inst)).collect();
        let kept = self.values_needed_in_general(&insts, &values, &copies, encodability);
        let loop_code = UniformLoopCode { insts, values, copies, kept_values: kept };
        let has_registers = self.min_uniform_registers(&loop_code) <= MAX_UNIFORM_LOOP_REGISTERS;
        (has_registers && loop_code.kept_values.len() <= loop_code.copies.len()).then_some(loop_code)
    }

    /// Returns where a source of an instruction comes from.
    fn origin(&self, source: &Operand) -> SourceOrigin {
        let Some(part) = source.part() else { return SourceOrigin::Available };
        let file = self.function.values[part.value].file;
        if matches!(file, RegFile::Uniform | RegFile::UniformPredicate) {
            return SourceOrigin::Available;
        }
        let Some(inst) = self.def_use.definition(part.value) else { return SourceOrigin::Other };
        let Some(block) = self.def_use.block(inst) else { return SourceOrigin::Other };
        if self.uniformity.is_divergent(part.value) {
            return SourceOrigin::Other;
        }
        if !self.loops.contains(self.id, block) {
            return if file == RegFile::General && part.count == 1 { SourceOrigin::Available } else { SourceOrigin::Other };
        }
        let is_carried = self.function.insts[inst].is(Pseudo::Phi);
        if is_carried && block != self.loops.get(self.id).header || self.may_be_diverged[block.position()] {
            return SourceOrigin::Other;
        }
        SourceOrigin::Computed(inst)
    }

    /// Returns the sources of an instruction, without the predecessor blocks in the operands of a phi.
    fn sources(&self, inst: Inst) -> impl Iterator<Item = &Operand> {
        self.function.sources(inst).iter().filter(|source| !matches!(source.kind, OperandKind::Block(_)))
    }

    /// Returns the instructions that the sources of `copies` depend on and that can be moved to the uniform datapath together with all
    /// instructions that compute their sources.
    fn movable_insts(&self, copies: &[Inst], encodability: &mut EncodabilityCache) -> FxHashSet<Inst> {
        let mut found: Vec<Inst> = Vec::new();
        let mut seen: FxHashSet<Inst> = FxHashSet::default();
        let mut work: Vec<Inst> = copies.to_vec();
        while let Some(inst) = work.pop() {
            let computing = self.sources(inst).filter_map(|source| match self.origin(source) {
                SourceOrigin::Computed(computing) => Some(computing),
                SourceOrigin::Available | SourceOrigin::Other => None,
            });
            // A predicate can be moved only together with all instructions that read it.
            for needed in computing.chain(self.readers_of_predicates(inst)).collect::<Vec<Inst>>() {
                if seen.insert(needed) && self.has_uniform_form(needed, encodability) {
                    found.push(needed);
                    work.push(needed);
                }
            }
        }
        let mut movable: FxHashSet<Inst> = found.iter().copied().collect();
        loop {
            let before = movable.len();
            for &inst in &found {
                let is_available = |source: &Operand| match self.origin(source) {
                    SourceOrigin::Available => true,
                    SourceOrigin::Computed(computing) => movable.contains(&computing),
                    SourceOrigin::Other => false,
                };
                if !self.sources(inst).all(is_available) || !self.has_uniform_predicates(inst, &movable) {
                    movable.remove(&inst);
                }
            }
            if movable.len() == before {
                return movable;
            }
        }
    }

    /// Returns the instructions that read the predicates which an instruction computes; none if a guard or an instruction in a block that a
    /// diverged warp may execute reads one, because the predicate then has to stay in a predicate register.
    fn readers_of_predicates(&self, inst: Inst) -> Vec<Inst> {
        let predicates = self.function.defined(inst).filter(|&value| self.function.values[value].file == RegFile::Predicate);
        let uses: Vec<_> = predicates.flat_map(|value| self.def_use.uses(value)).collect();
        let may_read_uniform = |inst: Inst| {
            self.def_use.block(inst).is_some_and(|block| self.loops.contains(self.id, block) && !self.may_be_diverged[block.position()])
        };
        let is_movable = uses.iter().all(|used| used.operand.is_some() && may_read_uniform(used.inst));
        if is_movable { uses.into_iter().map(|used| used.inst).collect() } else { Vec::new() }
    }

    /// Returns whether an instruction can be replaced by its uniform form, or is a phi of single registers.
    fn has_uniform_form(&self, inst: Inst, encodability: &mut EncodabilityCache) -> bool {
        let data = &self.function.insts[inst];
        if data.is(Pseudo::Phi) {
            let is_register = |value: Value| self.function.values[value] == Class::R;
            let is_plain = |source: &Operand| source.signs.is_empty() && source.part().is_none_or(|part| part.count == 1);
            let is_content = |source: &Operand| {
                matches!(source.kind, OperandKind::Value(_) | OperandKind::Integer(_) | OperandKind::Zero(RegFile::General))
            };
            return self.function.defined(inst).all(is_register) && self.sources(inst).all(|source| is_plain(source) && is_content(source));
        }
        uniform_form(self.function, inst, true).is_some_and(|draft| is_uniform_form_encodable(self.function, inst, draft, encodability))
    }

    /// Returns whether all predicates that an instruction computes are read only by `movable` instructions, and not as guards.
    fn has_uniform_predicates(&self, inst: Inst, movable: &FxHashSet<Inst>) -> bool {
        let predicates = self.function.defined(inst).filter(|&value| self.function.values[value].file == RegFile::Predicate);
        let mut uses = predicates.flat_map(|value| self.def_use.uses(value));
        uses.all(|used| used.operand.is_some() && movable.contains(&used.inst))
    }

    /// Returns all instructions of the loop that the sources of `copies` depend on.
    fn loop_slice_of(&self, copies: &[Inst]) -> Vec<Inst> {
        let mut needed: Vec<Inst> = Vec::new();
        let mut seen: FxHashSet<Inst> = FxHashSet::default();
        let mut work: Vec<Inst> = copies.to_vec();
        while let Some(inst) = work.pop() {
            let computing = self.sources(inst).filter_map(|source| match self.origin(source) {
                SourceOrigin::Computed(computing) => Some(computing),
                SourceOrigin::Available | SourceOrigin::Other => None,
            });
            for found in computing.chain(self.readers_of_predicates(inst)) {
                if seen.insert(found) {
                    needed.push(found);
                    work.push(found);
                }
            }
        }
        needed
    }

    /// Returns the moved values that an instruction which is not moved reads and cannot read from a uniform register.
    fn values_needed_in_general(
        &self,
        insts: &[Inst],
        values: &FxHashSet<Value>,
        copies: &[Inst],
        encodability: &mut EncodabilityCache,
    ) -> Vec<Value> {
        let moved: FxHashSet<Inst> = insts.iter().chain(copies).copied().collect();
        let mut kept = Vec::new();
        for value in insts.iter().flat_map(|&inst| self.function.defined(inst)) {
            let mut others = self.def_use.uses(value).iter().filter(|used| !moved.contains(&used.inst));
            if others.any(|used| used.operand.is_none() || !can_read_uniform(self.function, used.inst, values, encodability)) {
                kept.push(value);
            }
        }
        kept
    }

    /// Returns a lower bound of the number of uniform registers that the loop needs: one for each phi, and one for each register that is
    /// defined before the loop.
    fn min_uniform_registers(&self, loop_code: &UniformLoopCode) -> usize {
        let phis = loop_code.insts.iter().filter(|&&inst| self.function.insts[inst].is(Pseudo::Phi)).count();
        let sources =
            loop_code.insts.iter().chain(&loop_code.copies).flat_map(|&inst| self.function.sources(inst)).filter_map(Operand::part);
        let outside: FxHashSet<Part> = sources.filter(|part| !loop_code.values.contains(&part.value)).collect();
        phis + outside.len()
    }
}

/// Returns whether the target can encode an instruction that reads `values` from uniform registers, with its sources in some order.
fn can_read_uniform(function: &Function, inst: Inst, values: &FxHashSet<Value>, encodability: &mut EncodabilityCache) -> bool {
    let Op::Machine(opcode) = function.insts[inst].op else { return false };
    let mut draft = InstDraft::from_inst(function, inst, opcode);
    if !make_addresses_uniform(&mut draft, |value| values.contains(&value)) && opcode.properties().effect != Effect::None {
        return false;
    }
    for operand in &mut draft.operands {
        if operand.value().is_some_and(|value| values.contains(&value)) {
            operand.kind = OperandKind::Register { file: RegFile::Uniform, first: EXAMPLE_REGISTER, count: 1 };
        }
    }
    order::equivalent_source_orders(&draft).iter().any(|draft| encodability.is_encodable(function, inst, draft))
}

/// Rewrites one loop: replaces the instructions of `loop_code` by their uniform forms.
struct UniformLoopRewriter<'a> {
    /// For each value, the instruction that defines it.
    definitions: &'a Definitions,
    /// For each value, its definition and its uses.
    def_use: &'a DefUse,
    /// The preheader of the loop, which gets the copies of values defined before the loop.
    preheader: Block,
    /// The computations to move.
    loop_code: &'a UniformLoopCode,
    /// For each general register that is defined before the loop and read by a moved instruction, its copy in a uniform register.
    outside_copies: FxHashMap<Part, Operand>,
}

impl UniformLoopRewriter<'_> {
    /// Replaces the chosen instructions by their uniform forms, makes other instructions read the new results, and removes the copies to
    /// uniform registers that are no longer needed.
    fn run(&mut self, function: &mut Function, encodability: &mut EncodabilityCache) {
        let mut replaced: FxHashMap<Value, Operand> = FxHashMap::default();
        for &copy in &self.loop_code.copies {
            let [result, source] = [0, 1].map(|at| function.operands(copy)[at]);
            let Some(value) = result.value() else { continue };
            let kind = self.make_operand_uniform(function, source.kind);
            replaced.insert(value, Operand::new(kind));
        }
        for &inst in &self.loop_code.insts {
            self.make_inst_uniform(function, inst);
        }
        let mut values: Vec<Value> = self.loop_code.values.iter().copied().collect();
        values.sort_unstable();
        for &value in &values {
            function.values[value] = if function.values[value].file == RegFile::Predicate { Class::UP } else { Class::UR };
        }
        let removed: FxHashSet<Inst> = self.loop_code.copies.iter().copied().collect();
        for block in function.layout.clone() {
            function.blocks[block].insts.retain(|inst| !removed.contains(inst));
        }
        replace_uses(function, &replaced);
        self.copy_kept_values_to_general(function);
        self.reorder_sources_of_readers(function, encodability);
    }

    /// Replaces an instruction or a phi by its uniform form.
    fn make_inst_uniform(&mut self, function: &mut Function, inst: Inst) {
        if function.insts[inst].is(Pseudo::Phi) {
            for at in 1..function.operands(inst).len() {
                let kind = function.operands(inst)[at].kind;
                function.operands_mut(inst)[at].kind = self.make_operand_uniform(function, kind);
            }
            return;
        }
        let Some(mut draft) = uniform_form(function, inst, true) else { return };
        for (at, operand) in draft.operands.iter_mut().enumerate() {
            let is_unused = at > 0 && at < draft.result_count && operand.value().is_some_and(|value| self.def_use.uses(value).is_empty());
            *operand =
                if is_unused { Operand::UPT } else { Operand { kind: self.make_operand_uniform(function, operand.kind), ..*operand } };
        }
        draft.overwrite_inst(function, inst);
    }

    /// Returns the uniform register or constant that replaces an operand of a moved instruction. A general register that is defined before
    /// the loop is copied to a uniform register in the preheader.
    fn make_operand_uniform(&mut self, function: &mut Function, kind: OperandKind) -> OperandKind {
        match kind {
            OperandKind::Zero(file) => OperandKind::Zero(uniform_register_file(file)),
            OperandKind::Value(part)
                if !self.loop_code.values.contains(&part.value) && function.values[part.value].file == RegFile::General =>
            {
                if let Some(copy) = self.outside_copies.get(&part) {
                    return copy.kind;
                }
                let copied = function.new_value(Class::UR);
                let result = Operand::from(function.whole(copied));
                let (opcode, source) = match OperandFacts::new(function, self.definitions).word(&Operand::from(part)) {
                    Some(number) => (Opcode::UMOV, Operand::from(i64::from(number))),
                    None => (Opcode::R2UR, Operand::from(part)),
                };
                let copy = function.new_inst(Op::Machine(opcode), Symbols::new(), None, &[result, source], 1);
                let at = function.blocks[self.preheader].insts.len() - 1;
                function.insts[copy].location = function.insts[function.blocks[self.preheader].insts[at]].location;
                function.blocks[self.preheader].insts.insert(at, copy);
                self.outside_copies.insert(part, result);
                result.kind
            }
            other => other,
        }
    }

    /// Copies each moved value that is also needed in a general register right after its definition, and makes the instructions that are
    /// not moved read the copy.
    fn copy_kept_values_to_general(&self, function: &mut Function) {
        let moved: FxHashSet<Inst> = self.loop_code.insts.iter().copied().collect();
        for &value in &self.loop_code.kept_values {
            let Some(definition) = self.def_use.definition(value) else { continue };
            let Some(block) = self.def_use.block(definition) else { continue };
            let copied = function.new_value(Class::R);
            let operands = [Operand::from(function.whole(copied)), Operand::from(function.whole(value))];
            let copy = function.new_inst(Op::Machine(Opcode::MOV), Symbols::new(), None, &operands, 1);
            function.insts[copy].location = function.insts[definition].location;
            let phis = function.phis(block).len();
            let position = function.blocks[block].insts.iter().position(|&inst| inst == definition).map_or(0, |position| position + 1);
            function.blocks[block].insts.insert(position.max(phis), copy);
            for used in self.def_use.uses(value).iter().filter(|used| !moved.contains(&used.inst)) {
                for operand in function.sources_mut(used.inst).iter_mut().filter(|operand| operand.value() == Some(value)) {
                    operand.kind = OperandKind::Value(Part { value: copied, first: 0, count: 1 });
                }
            }
        }
    }

    /// Reorders the sources of instructions that now read uniform registers, so that the target can encode them.
    fn reorder_sources_of_readers(&self, function: &mut Function, encodability: &mut EncodabilityCache) {
        let mut readers: Vec<Inst> = Vec::new();
        for &inst in &self.loop_code.insts {
            readers.extend(function.defined(inst).flat_map(|value| self.def_use.uses(value)).map(|used| used.inst));
        }
        readers.sort_unstable();
        readers.dedup();
        let moved: FxHashSet<Inst> = self.loop_code.insts.iter().chain(&self.loop_code.copies).copied().collect();
        for inst in readers.into_iter().filter(|inst| !moved.contains(inst)) {
            let Op::Machine(opcode) = function.insts[inst].op else { continue };
            let mut draft = InstDraft::from_inst(function, inst, opcode);
            make_addresses_uniform(&mut draft, |value| function.values[value].file == RegFile::Uniform);
            let fitting =
                order::equivalent_source_orders(&draft).into_iter().find(|draft| encodability.is_encodable(function, inst, draft));
            if let Some(fitting) = fitting {
                fitting.overwrite_inst(function, inst);
            }
        }
    }
}
