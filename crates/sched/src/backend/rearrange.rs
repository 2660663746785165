//! Changes that a strategy makes to a whole function before its regions are ordered ([`super::strategy::Strategy::rearrange`]).
//!
//! Most strategies only order the items of regions. Some first move instructions between blocks, or remove or add instructions. They work
//! on SSA values, before register allocation; the regions are ordered afterwards as usual. Each change is recorded with its reason, for the
//! trace.
//!
//! This module has the common parts of these strategies: the record of a change, the predicates that say whether an instruction may execute
//! in another block, and the idle issue slots of a block.

use oriole_hardware::{Classes, Model, SchedClass};
use oriole_ir::{Block, Function, Inst, MemoryAccess, Op, OperandKind, Order, Pseudo, Role, Space};
use oriole_isa::{Effect, Memory, Opcode, RegFile};

use super::clock::estimate;
use super::knobs::Knobs;
use crate::code::from_ir::{ValueNumbers, push_ssa_inst};
use crate::code::products::ProductRegisters;
use crate::graph::GraphBuilder;
use crate::resource::ResourceCosts;

/// The hardware data and parameters that a strategy needs to change a function.
#[derive(Clone, Copy)]
pub struct RearrangeContext<'a> {
    /// The latency model of the target.
    pub model: &'a Model,
    /// For each instruction class, its functional unit and the cycles for which an instruction occupies the unit.
    pub costs: &'a ResourceCosts,
    /// Numeric parameters that users can set.
    pub knobs: &'a Knobs,
}

/// One change that a strategy made to a function: an instruction that was moved, removed or added.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CodeChange {
    /// The instruction that was moved or removed, or the copy of it that was added.
    pub inst: Inst,
    /// The block that the instruction, or the original of a copy, was in before.
    pub from: Block,
    /// The block that contains the instruction now. Equal to `from` if the instruction was removed, or was added to the block of the
    /// original.
    pub to: Block,
    /// The reason for the change.
    pub reason: ChangeReason,
}

/// The reason for which a strategy moved, removed or added an instruction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ChangeReason {
    /// Strategy `global`: the instruction moved up to a dominating block, which has idle issue slots.
    FillsStall,
    /// Strategy `global`: the load starts earlier, in a dominating block. The condition of the branch to its old block guards it, unless
    /// all threads of the dominating block execute the old block, too.
    StartsLoad,
    /// Strategy `global`: a load that was moved up uses the result of the instruction in its address.
    AddressOfLoad,
    /// Strategy `global`: the instruction moved down, because only one successor of its block, and blocks that it dominates, read the
    /// result.
    OnlyReadBelow,
    /// Strategy `software-pipelining`: the load of the next iteration is executed during this iteration.
    NextIteration,
    /// Strategy `software-pipelining`: the load of the first iteration is executed before the loop.
    FirstIteration,
    /// Strategy `prefetch`: the instruction prefetches a cache line that a later iteration of the loop reads.
    LaterIteration,
    /// Strategy `barrier-coalescence`: an equal barrier comes before the removed one, without a memory access in between.
    RepeatedBarrier,
    /// Strategy `barrier-coalescence`: a fence that is at least as strong comes before the removed one, without a memory access in between.
    RepeatedFence,
    /// All strategies: the changed code would need too many registers, so all changes were dropped.
    TooManyRegisters,
}

impl ChangeReason {
    /// Returns the reason as text that completes the sentence "it was changed because ...".
    pub fn text(self) -> &'static str {
        match self {
            ChangeReason::FillsStall => "the block above has idle issue slots",
            ChangeReason::StartsLoad => "the load starts earlier there",
            ChangeReason::AddressOfLoad => "a load that moved needs it",
            ChangeReason::OnlyReadBelow => "only this successor reads the result",
            ChangeReason::NextIteration => "the load of the next iteration overlaps this one",
            ChangeReason::FirstIteration => "the load of the first iteration starts before the loop",
            ChangeReason::LaterIteration => "a later iteration reads the line",
            ChangeReason::RepeatedBarrier => "an equal barrier comes before it, without an access of memory in between",
            ChangeReason::RepeatedFence => "a fence at least as strong comes before it, without an access of memory in between",
            ChangeReason::TooManyRegisters => "it would need too many registers, so nothing was changed",
        }
    }
}

/// Returns whether a function has instructions that access registers long after they issue: warp-group matrix products and accesses of
/// tensor memory. Registers alone do not order them, so such a function is left as it is.
pub(crate) fn has_late_register_accesses(function: &Function) -> bool {
    let is_late = |opcode: Opcode| {
        matches!(opcode, Opcode::BGMMA | Opcode::HGMMA | Opcode::IGMMA | Opcode::QGMMA | Opcode::WARPGROUP)
            || opcode.properties().memory == Memory::Tensor
    };
    let mut insts = function.layout.iter().flat_map(|&block| &function.blocks[block].insts);
    insts.any(|&inst| function.insts[inst].op.machine().is_some_and(is_late))
}

/// Returns the scheduling class (set of instructions with the same timing) of a machine instruction; `None` for a pseudo operation.
pub(super) fn sched_class_of(function: &Function, inst: Inst) -> Option<SchedClass> {
    let data = &function.insts[inst];
    data.op.machine().map(|opcode| Classes::get().of(opcode, &data.modifiers))
}

/// Returns whether an instruction always computes the same results from the same sources, cannot fault and has no other effect, so that
/// threads that do not need the results may execute it too. Its results are general registers.
pub(super) fn is_speculatable(function: &Function, inst: Inst) -> bool {
    is_arithmetic(function, inst) && writes_general_registers(function, inst)
}

/// Returns whether an instruction always computes the same results from the same sources, cannot fault and has no other effect. Its results
/// are general registers or predicates.
pub(super) fn is_arithmetic(function: &Function, inst: Inst) -> bool {
    let data = &function.insts[inst];
    let sources = function.sources(inst);
    let is_free = match data.op {
        Op::Machine(opcode) => match opcode.properties().effect {
            Effect::None => !sources.iter().any(|source| matches!(source.kind, OperandKind::Name(_))),
            Effect::Reads => opcode == Opcode::LDC && sources.iter().all(|source| matches!(source.kind, OperandKind::Constant { .. })),
            Effect::State => {
                let is_constant = |kind| matches!(kind, OperandKind::Name(name) if name.is_invariant_special_register());
                opcode == Opcode::S2R && sources.iter().all(|source| is_constant(source.kind))
            }
            _ => false,
        },
        Op::Pseudo(pseudo) => matches!(pseudo, Pseudo::Copy | Pseudo::Pack),
    };
    let is_plain = function.operands(inst).iter().all(|operand| {
        !matches!(operand.role, Role::Tied(_) | Role::Fixed(_))
            && !matches!(operand.kind, OperandKind::Reference(_) | OperandKind::Register { .. })
    });
    let is_thread_file = |file: RegFile| matches!(file, RegFile::General | RegFile::Predicate);
    let writes_thread_registers = function.defined(inst).all(|value| is_thread_file(function.values[value].file));
    is_free && is_plain && data.guard.is_none() && writes_thread_registers && function.defined(inst).next().is_some()
}

/// Returns whether an instruction writes at least one value, and only general registers.
pub(super) fn writes_general_registers(function: &Function, inst: Inst) -> bool {
    let mut results = function.results(inst).iter().filter(|result| !matches!(result.kind, OperandKind::Zero(_))).peekable();
    results.peek().is_some() && results.all(|result| result.value().is_some_and(|value| function.values[value].file == RegFile::General))
}

/// Returns whether all values that an instruction reads are in general or predicate registers, which every thread has for itself, and none
/// in uniform registers.
pub(super) fn reads_thread_registers(function: &Function, inst: Inst) -> bool {
    function.used(inst).all(|part| matches!(function.values[part.value].file, RegFile::General | RegFile::Predicate))
}

/// Returns the description of the memory access of an unguarded weak load into general registers (`LDG`, `LDS` or `LD`, but not a reload of
/// a spill slot); `None` for other instructions.
pub(super) fn unguarded_weak_load(function: &Function, inst: Inst) -> Option<&MemoryAccess> {
    let data = &function.insts[inst];
    let is_load = matches!(data.op, Op::Machine(Opcode::LDG | Opcode::LDS | Opcode::LD));
    let access = &function.accesses[data.memory?];
    let is_weak = !access.volatile && access.order == Order::Weak && access.space != Space::Spill;
    let is_plain = function.operands(inst).iter().all(|operand| matches!(operand.role, Role::Plain | Role::Bracket(_)));
    (is_load && is_weak && is_plain && data.guard.is_none() && writes_general_registers(function, inst)).then_some(access)
}

/// Returns the number of registers that the results of an instruction occupy, summed over all register files.
pub(super) fn result_register_count(function: &Function, inst: Inst) -> usize {
    function.defined(inst).map(|value| usize::from(function.values[value].width)).sum()
}

/// Inserts instructions directly before the branches at the end of a block.
pub(super) fn insert_before_end(function: &mut Function, block: Block, insts: impl IntoIterator<Item = Inst>) {
    let at = function.blocks[block].insts.len() - function.terminators(block).len();
    function.blocks[block].insts.splice(at..at, insts);
}

/// Computes idle issue slots and critical paths of the blocks of a function.
pub(super) struct BlockTimes<'a> {
    /// The hardware data and parameters for the analysis.
    context: RearrangeContext<'a>,
    /// The register numbers of the SSA values.
    numbers: ValueNumbers,
    /// The registers whose accesses keep their order with fences and waits of matrix products.
    products: ProductRegisters,
}

impl<'a> BlockTimes<'a> {
    /// Prepares the analysis of the blocks of a function. The blocks themselves are analyzed on request.
    pub(super) fn new(function: &Function, context: RearrangeContext<'a>) -> BlockTimes<'a> {
        let numbers = ValueNumbers::new(function);
        let products = ProductRegisters::find_in_ssa_code(function, &numbers);
        BlockTimes { context, numbers, products }
    }

    /// Returns the number of cycles in which the block issues no instruction in its current order.
    pub(super) fn idle_slots(&self, function: &Function, block: Block) -> u32 {
        let mut code = self.numbers.empty();
        function.blocks[block].insts.iter().for_each(|&inst| push_ssa_inst(&mut code, &self.numbers, function, &self.products, inst));
        let mut builder = GraphBuilder::new(self.context.model, code.registers());
        let mut idle = 0;
        for region in code.regions(0..code.items.len(), usize::MAX) {
            let graph = builder.build(&code, region.clone());
            let length = estimate(&code, &graph, self.context.costs, region.clone());
            let issued = code.items[region].iter().filter(|item| item.opcode.is_some()).count() as u32;
            idle += length.issued.saturating_sub(issued);
        }
        idle
    }

    /// Returns for each instruction of the block the cycles from its issue to the end of its region along the longest dependency chain.
    pub(super) fn heights(&self, function: &Function, block: Block) -> Vec<u32> {
        let mut code = self.numbers.empty();
        function.blocks[block].insts.iter().for_each(|&inst| push_ssa_inst(&mut code, &self.numbers, function, &self.products, inst));
        let mut builder = GraphBuilder::new(self.context.model, code.registers());
        let mut heights = vec![0; code.items.len()];
        for region in code.regions(0..code.items.len(), usize::MAX) {
            let graph = builder.build(&code, region.clone());
            let found = graph.heights();
            region.clone().for_each(|position| heights[position] = found[position - region.start]);
        }
        heights
    }
}
