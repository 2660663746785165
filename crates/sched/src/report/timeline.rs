//! Estimates the issue cycle of each instruction of a block, and summarizes the control flow around the blocks.
//!
//! **Cycles.** A block is walked in order, for one warp alone. Before register allocation, an instruction issues when its operands are
//! ready and its unit is free ([`estimate_by_operands`]). Final code has control words, which are more exact: an instruction issues when
//! the stall cycles of its predecessor have passed and the scoreboards in its wait mask are released ([`estimate_by_controls`]). An
//! instruction of variable latency takes its usual time, or its longest time for the worst case. Results in flight at the end of a block
//! are waited for in the successors ([`InFlightAtBoundary`]). A loop header waits in every iteration for results of the previous iteration,
//! and only once for results from outside the loop.
//!
//! **Frequencies** are static estimates without a profile ([`BlockFrequencies`], [`LOOP_MODEL`]).

use std::ops::Range;

use oriole_hardware::units::UNITS;
use oriole_hardware::{DependenceKind as Kind, Model, Port, VariableLatency};
use oriole_ir::analysis::{BlockFrequencies, ControlFlow, Divergence, LoopModel, Loops};
use oriole_ir::{Block, Function, Inst, Operand, OperandKind};
use oriole_isa::Control;
use oriole_support::IndexVec;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::code::products::ProductRegisters;
use crate::code::{SchedCode, from_ir, from_machine};
use crate::graph::{self, DEFAULT_VARIABLE_LATENCY_CYCLES};
use crate::resource::ResourceCosts;

/// Model of the estimated execution counts of blocks: ten iterations per loop.
pub(crate) const LOOP_MODEL: LoopModel = LoopModel::TEN_ITERATIONS;

/// The hardware data from which issue cycles are estimated.
#[derive(Clone, Copy)]
pub struct HardwareFigures<'a> {
    /// The latency model of the target.
    pub model: &'a Model,
    /// For each latency class: its functional unit, and the cycles for which an instruction keeps the unit busy.
    pub costs: &'a ResourceCosts,
}

/// The latency to assume for instructions of variable latency.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LatencyAssumption {
    /// The usual latency.
    Usual,
    /// The longest latency.
    Worst,
}

impl LatencyAssumption {
    /// Returns the latency in cycles that is assumed for an instruction of variable latency.
    fn cycles_of(self, time: VariableLatency) -> u16 {
        match self {
            LatencyAssumption::Usual => time.usual,
            LatencyAssumption::Worst => time.most.max(time.usual),
        }
    }
}

/// A function that returns the control word of an instruction.
pub type ControlLookup<'a> = &'a dyn Fn(Inst) -> Control;

/// The scheduler items of a function, block by block.
pub struct ItemListing {
    /// The items of all blocks.
    pub code: SchedCode,
    /// The blocks in layout order, each with the range of its items.
    pub blocks: Vec<(Block, Range<usize>)>,
    /// The register numbers of the SSA values; `None` after register allocation, when operands are physical registers.
    pub(crate) numbers: Option<from_ir::ValueNumbers>,
}

impl ItemListing {
    /// Builds the items of all blocks of a function, which is on SSA values or on physical registers.
    pub fn new(function: &Function) -> ItemListing {
        let numbers = function.is_ssa.then(|| from_ir::ValueNumbers::new(function));
        let mut code = numbers.as_ref().map_or_else(from_machine::empty, from_ir::ValueNumbers::empty);
        let products = match &numbers {
            Some(numbers) => ProductRegisters::find_in_ssa_code(function, numbers),
            None => ProductRegisters::find_in_allocated_code(function),
        };
        let mut blocks = Vec::with_capacity(function.layout.len());
        for &block in &function.layout {
            let start = code.items.len();
            for &inst in &function.blocks[block].insts {
                match &numbers {
                    Some(numbers) => from_ir::push_ssa_inst(&mut code, numbers, function, &products, inst),
                    None => from_ir::push_allocated_inst(&mut code, function, &products, inst),
                }
            }
            blocks.push((block, start..code.items.len()));
        }
        ItemListing { code, blocks, numbers }
    }

    /// Returns the results in flight at the end of block `from`, as its successor `block` sees them. The result of a phi is ready when its
    /// operand for the predecessor `from` is ready.
    pub(crate) fn results_at_entry(&self, function: &Function, from: Block, end: &InFlightAtBoundary, block: Block) -> InFlightAtBoundary {
        let mut entered = end.clone();
        let Some(numbers) = &self.numbers else { return entered };
        for &phi in function.phis(block) {
            let Some(result) = function.results(phi).first().and_then(Operand::part) else { continue };
            for pair in function.sources(phi).chunks_exact(2) {
                let (Some(part), OperandKind::Block(source)) = (pair[0].part(), pair[1].kind) else { continue };
                if source == from {
                    for (register, of_source) in numbers.registers(result).zip(numbers.registers(part)) {
                        entered.registers.extend(end.registers.get(&of_source).map(|&cycles| (register, cycles)));
                    }
                }
            }
        }
        entered
    }
}

/// Issue cycles of one execution of a block.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct BlockTiming {
    /// For each instruction, its issue cycle, from the start of the block.
    pub issue_cycles: Vec<u32>,
    /// Number of cycles until the first instruction after the block can issue.
    pub cycles: u32,
    /// Number of cycles in which no instruction issues, because the next one waits for an operand, a scoreboard or a unit.
    pub idle_cycles: u32,
    /// For each instruction, the reason and the length of its wait after the stall count of the previous instruction had elapsed. Filled by
    /// [`estimate_by_controls`] only.
    pub delays: Vec<IssueDelay>,
}

/// Why, and for how many cycles, an instruction waits after the stall count of the previous instruction has elapsed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum IssueDelay {
    /// The instruction does not wait.
    #[default]
    None,
    /// The instruction waits for scoreboards. The fields describe the one in its wait mask that is released last.
    Scoreboard {
        /// Index of the scoreboard, 0 to 5.
        board: u8,
        /// Waiting time in cycles.
        cycles: u32,
    },
    /// The instruction waits for its functional unit, which an earlier instruction of the block keeps busy.
    Unit {
        /// Waiting time in cycles.
        cycles: u32,
    },
}

impl IssueDelay {
    /// Returns the waiting time in cycles.
    pub fn cycles(self) -> u32 {
        match self {
            IssueDelay::None => 0,
            IssueDelay::Scoreboard { cycles, .. } | IssueDelay::Unit { cycles } => cycles,
        }
    }
}

/// The scoreboards and register results that are still in flight at a block boundary, with the remaining cycles.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct InFlightAtBoundary {
    /// For each scoreboard, the number of cycles until it is released.
    scoreboards: Vec<u32>,
    /// For each register number, the number of cycles until its value is ready. Registers without an entry are ready.
    registers: FxHashMap<u32, u32>,
}

impl InFlightAtBoundary {
    /// Merges the results in flight at the end of another predecessor: for each scoreboard and register, the longer time counts.
    pub fn merge(&mut self, other: &InFlightAtBoundary) {
        self.scoreboards.resize(self.scoreboards.len().max(other.scoreboards.len()), 0);
        for (cycles, other) in self.scoreboards.iter_mut().zip(&other.scoreboards) {
            *cycles = (*cycles).max(*other);
        }
        for (&register, &other) in &other.registers {
            let cycles = self.registers.entry(register).or_default();
            *cycles = (*cycles).max(other);
        }
    }
}

/// Estimates the issue cycles of the instructions of a block from operand latencies and units. `in_flight` has the results in flight at the
/// start of the block, and is replaced by those at its end.
pub(crate) fn estimate_by_operands(
    code: &SchedCode,
    range: &Range<usize>,
    figures: HardwareFigures<'_>,
    assumption: LatencyAssumption,
    in_flight: &mut InFlightAtBoundary,
) -> BlockTiming {
    let mut timing = BlockTiming::default();
    // For each register, the cycle in which its value is ready for a reader in another block. The port of that reader is unknown, so the
    // longest latency of the writer's scheduling class is used.
    let mut ready = std::mem::take(&mut in_flight.registers);
    // For each register, the last writer in this block, with its issue cycle and port; for readers in the block the latency is exact.
    let mut written: FxHashMap<u32, (usize, u32, Option<Port>)> = FxHashMap::default();
    // For each unit, the first cycle in which it is free.
    let mut free = [0_u32; UNITS];
    for position in range.clone() {
        let item = &code.items[position];
        let mut at = timing.cycles;
        for access in code.reads(item) {
            if let Some(&(writer, issued, port)) = written.get(&access.register) {
                let first = &code.items[writer];
                let (usual, waits) = graph::latency(figures.model, Kind::Raw, access.file, (first, port), (item, access.port));
                let cycles = match figures.model.time(first.class) {
                    Some(time) if waits => assumption.cycles_of(time).max(usual),
                    _ => usual,
                };
                at = at.max(issued + u32::from(cycles));
            } else if let Some(&until) = ready.get(&access.register) {
                at = at.max(until);
            }
        }
        if item.opcode.is_some() {
            let unit = figures.costs.unit_index(item.class);
            at = at.max(free[unit]);
            free[unit] = at + figures.costs.cycles(item.class).max(1) as u32;
            timing.idle_cycles += at - timing.cycles;
            timing.cycles = at + 1;
        }
        timing.issue_cycles.push(at);
        let takes = match figures.model.time(item.class) {
            _ if item.opcode.is_none() => 0,
            Some(time) => assumption.cycles_of(time),
            None => figures.model.base_latency(item.class),
        };
        for access in code.results(item) {
            written.insert(access.register, (position, at, access.port));
            ready.insert(access.register, at + u32::from(takes));
        }
    }
    ready.retain(|_, until| *until > timing.cycles);
    ready.values_mut().for_each(|until| *until -= timing.cycles);
    in_flight.registers = ready;
    timing
}

/// Estimates the issue cycles of the instructions of a block from their control words. `in_flight` has the scoreboards that are held at the
/// start of the block, and is replaced by those at its end.
pub fn estimate_by_controls(
    code: &SchedCode,
    (range, insts): (&Range<usize>, &[Inst]),
    figures: HardwareFigures<'_>,
    assumption: LatencyAssumption,
    controls: ControlLookup<'_>,
    in_flight: &mut InFlightAtBoundary,
) -> BlockTiming {
    let mut timing = BlockTiming::default();
    let released = &mut in_flight.scoreboards;
    released.resize(figures.costs.scoreboards(), 0);
    let mut free = [0_u32; UNITS];
    for (position, &inst) in range.clone().zip(insts) {
        let (class, control) = (code.items[position].class, controls(inst));
        let mut at = timing.cycles;
        let mut delay = IssueDelay::None;
        for (scoreboard, &until) in released.iter().enumerate() {
            if control.wait & (1 << scoreboard) != 0 && until > at {
                at = until;
                delay = IssueDelay::Scoreboard { board: scoreboard as u8, cycles: at - timing.cycles };
            }
        }
        let unit = figures.costs.unit_index(class);
        if free[unit] > at {
            at = free[unit];
            delay = IssueDelay::Unit { cycles: at - timing.cycles };
        }
        timing.delays.push(delay);
        free[unit] = at + figures.costs.cycles(class).max(1) as u32;
        let time = figures.model.time(class);
        let result = time.map_or(DEFAULT_VARIABLE_LATENCY_CYCLES, |time| assumption.cycles_of(time));
        let read = time.map_or(DEFAULT_VARIABLE_LATENCY_CYCLES, |time| time.read);
        for (scoreboard, cycles) in [(control.write_barrier, result), (control.read_barrier, read)] {
            if let Some(until) = scoreboard.and_then(|scoreboard| released.get_mut(usize::from(scoreboard))) {
                *until = (*until).max(at + u32::from(cycles));
            }
        }
        timing.idle_cycles += at - timing.cycles;
        timing.issue_cycles.push(at);
        let least = u8::from(!figures.costs.dual_issue());
        timing.cycles = at + u32::from(control.stall.max(least));
    }
    released.iter_mut().for_each(|until| *until = until.saturating_sub(timing.cycles));
    timing
}

/// Loops and execution frequencies of a function. Must be computed before block layout, which removes jumps to the next block and with them
/// edges of the control-flow graph.
#[derive(Clone, Debug)]
pub struct LoopsAndFrequencies {
    /// Reachable blocks in reverse post-order.
    pub order: Vec<Block>,
    /// For each block, its predecessors by forward edges.
    pub forward_predecessors: IndexVec<Block, Vec<Block>>,
    /// For each block, its predecessors by back edges; empty except for loop headers.
    pub back_edge_predecessors: IndexVec<Block, Vec<Block>>,
    /// The loops of the function.
    pub loops: Loops,
    /// Block frequencies if warps diverge at the branches that the divergence analysis found, and at no others.
    pub by_analysis: BlockFrequencies,
    /// Block frequencies if warps never diverge.
    pub never_divergent: BlockFrequencies,
    /// Block frequencies if warps diverge at every branch.
    pub always_divergent: BlockFrequencies,
}

impl LoopsAndFrequencies {
    /// Computes loops and execution frequencies of a function. `divergent` has the blocks that end in a divergent branch.
    pub fn new(function: &Function, divergent: &FxHashSet<Block>) -> LoopsAndFrequencies {
        let flow = ControlFlow::compute(function);
        let loops = Loops::compute(function, &flow);
        let mut forward_predecessors: IndexVec<Block, Vec<Block>> = IndexVec::filled(function.blocks.len(), Vec::new());
        let mut back_edge_predecessors = forward_predecessors.clone();
        for &block in flow.reverse_post_order() {
            let reachable = flow.predecessors(block).iter().copied().filter(|&from| flow.is_reachable(from));
            (forward_predecessors[block], back_edge_predecessors[block]) =
                reachable.partition(|&from| flow.position(from) < flow.position(block));
        }
        let frequencies = |divergence| BlockFrequencies::compute(function, &flow, &loops, LOOP_MODEL, divergence);
        let (by_analysis, never_divergent, always_divergent) =
            (frequencies(Divergence::At(divergent)), frequencies(Divergence::Never), frequencies(Divergence::Always));
        LoopsAndFrequencies {
            order: flow.reverse_post_order().to_vec(),
            forward_predecessors,
            back_edge_predecessors,
            loops,
            by_analysis,
            never_divergent,
            always_divergent,
        }
    }
}
