//! Collects the scheduling statistics of a function, before and after register allocation.
//!
//! [`gather_statistics`] counts in one pass over the code. [`FunctionStatistics::figures`] computes the fields of the statistics lines from
//! these counts and from facts known only when the whole file is linked ([`LinkFacts`]): the registers of a kernel that calls functions,
//! the size of the code.
//!
//! **Throughputs** are fractions of a scheduler's time. The resident warps share the units of the scheduler. One round, in which every
//! resident warp executes the function once, takes the maximum of three times: the latency of one warp alone, the busy time of the busiest
//! unit for all warps, and the number of instructions issued for all warps.

mod figures;

use super::fields;
use super::latency_hiding::{self, LatencyDistances};
use super::timeline::{
    self, BlockTiming, ControlLookup, HardwareFigures, InFlightAtBoundary, ItemListing, LatencyAssumption, LoopsAndFrequencies,
};
use crate::backend::AllocationStage;
use crate::code::{Item, RegisterClass, SchedCode};
use crate::function::LiveValues;
use crate::pressure::PressureTracker;
use oriole_hardware::units::UNITS;
use oriole_ir::analysis::{ControlFlow, Liveness, Uniformity};
use oriole_ir::text::print_inst;
use oriole_ir::{Block, Function, Inst, Operand, OperandKind, Space};
use oriole_isa::{Opcode, RegFile, Symbol};
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;

pub use figures::LinkFacts;

/// The value of one field of the statistics lines.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum StatisticsFigure {
    /// A number of things that are counted, such as instructions or bytes.
    Count(u64),
    /// A fraction or an average.
    Ratio(f64),
}

impl StatisticsFigure {
    /// Returns the count or ratio as a floating-point number.
    pub fn number(self) -> f64 {
        match self {
            StatisticsFigure::Count(count) => count as f64,
            StatisticsFigure::Ratio(ratio) => ratio,
        }
    }
}

/// The timing of one block, for reports.
#[derive(Clone, PartialEq, Debug)]
pub struct BlockSchedule {
    /// The block whose timing this is.
    pub block: Block,
    /// Estimated number of cycles of one execution.
    pub cycles: u32,
    /// Number of these cycles in which no instruction issues.
    pub idle_cycles: u32,
    /// Estimated number of executions per execution of the function.
    pub executions: f64,
    /// Maximum number of live general registers, as found before register allocation. `None` if it is unknown.
    pub live: Option<i32>,
    /// The text of each machine instruction, with its issue cycle from the start of the block.
    pub schedule: Vec<(u32, String)>,
}

/// Statistics of one iteration of a loop. An inner loop counts with one of its own iterations.
#[derive(Clone, PartialEq, Debug)]
pub struct LoopMetrics {
    /// The loop header.
    pub header: Block,
    /// Nesting depth; 1 for outermost loops.
    pub depth: u32,
    /// Number of blocks, inner loops included.
    pub blocks: usize,
    /// Number of machine instructions.
    pub instructions: usize,
    /// Number of loads from any memory space.
    pub loads: usize,
    /// Number of stores.
    pub stores: usize,
    /// Estimated number of cycles of one iteration, for one warp alone.
    pub cycles: f64,
    /// Maximum number of live general registers, as found before register allocation. `None` if it is unknown.
    pub live: Option<i32>,
}

/// The counts and estimates of a function for the reports, either before or after register allocation.
#[derive(Clone, Debug)]
pub struct FunctionStatistics {
    /// Whether the statistics are of code before or after register allocation.
    pub stage: AllocationStage,
    /// Number of machine instructions.
    pub instructions: usize,
    /// Estimated number of cycles of one execution of the function, for one warp alone; see [`timeline`].
    pub latency: f64,
    /// Estimated number of cycles of one execution if the warp diverges at every branch and every instruction takes its longest time.
    pub worst_latency: f64,
    /// Estimated number of cycles of one execution if the warp never diverges.
    pub average_latency: f64,
    /// For each field of the statistics lines ([`fields::fields_of_stage`]), the number of instructions that it counts.
    pub counts: Vec<u64>,
    /// Number of instructions that no field of the statistics lines counts.
    pub without_field: u64,
    /// Maximum number of live general and of live uniform registers; before register allocation only.
    pub live: [i32; 2],
    /// Blocks that end in a divergent branch. Found before register allocation and copied afterwards.
    pub divergent_blocks: FxHashSet<Block>,
    /// The timing of each reachable block.
    pub blocks: Vec<BlockSchedule>,
    /// All loops, outer loops before inner ones.
    pub loops: Vec<LoopMetrics>,
    /// The distances between producers and consumers in issue cycles, indexed by [`latency_hiding::DistanceKind`].
    pub latency_distances: LatencyDistances,
    /// Counts for fields that do not count by instruction class, such as textures and half precision.
    extra_counts: ExtraCounts,
    /// For each field and unit, the number of cycles for which the instructions that the field counts keep the unit busy, per execution of
    /// the function.
    busy_cycles_by_field: Vec<[f64; UNITS]>,
    /// For each unit, the number of cycles for which all instructions keep it busy, per execution of the function.
    total_busy_cycles: [f64; UNITS],
    /// Estimated number of instructions issued per execution of the function.
    issued_insts: f64,
}

/// Counts for fields of the statistics lines that do not count by instruction class.
#[derive(Clone, Copy, Default, Debug)]
struct ExtraCounts {
    /// Number of texture instructions.
    texture_insts: u64,
    /// Number of instructions that read a register with the result of a texture instruction of the same block.
    texture_readers: u64,
    /// Number of half-precision instructions.
    half_insts: u64,
    /// Number of half-precision instructions that compute two values at once.
    half_packed: u64,
    /// Number of bytes per thread that are written by stores to local memory. Each instruction counts once; spill code does not count.
    local_stored_bytes: u64,
    /// Number of bytes per thread that are read by loads from local memory. Each instruction counts once; spill code does not count.
    local_loaded_bytes: u64,
    /// Number of texture instructions with the descriptor in a constant bank.
    constant_textures: u64,
    /// Number of texture instructions with the descriptor in a uniform register.
    uniform_textures: u64,
    /// Number of texture instructions with the descriptor in a general register.
    bindless_textures: u64,
    /// Number of instructions of the uniform datapath.
    uniform_insts: u64,
    /// Number of copies from general to uniform registers (`R2UR`).
    copies_to_uniform: u64,
    /// Maximum number of general registers that are live after a call.
    live_at_calls: u64,
    /// Number of instructions whose results are rounded as IEEE 754 requires.
    precise_insts: u64,
}

/// Names of the scheduling classes whose results are rounded as IEEE 754 requires.
const IEEE_ROUNDED_CLASSES: [&str; 5] = ["fma", "swizzle_add", "half", "half_wide", "double"];

/// The additional inputs of [`gather_statistics`] for final code, which has control words and physical registers.
#[derive(Clone, Copy)]
pub struct FinalCode<'a> {
    /// The control word of each instruction.
    pub controls: ControlLookup<'a>,
    /// Loops and execution frequencies, computed before block layout.
    pub loops_and_frequencies: &'a LoopsAndFrequencies,
    /// The statistics before register allocation.
    pub before: &'a FunctionStatistics,
}

/// Returns the statistics of a function. `final_code` is `None` before register allocation.
pub fn gather_statistics(function: &Function, figures: HardwareFigures<'_>, final_code: Option<FinalCode<'_>>) -> FunctionStatistics {
    let stage = if final_code.is_none() { AllocationStage::Pre } else { AllocationStage::Post };
    let divergent = final_code.map_or_else(|| divergent_blocks(function), |code| code.before.divergent_blocks.clone());
    let own;
    let loops_and_frequencies = match final_code {
        Some(code) => code.loops_and_frequencies,
        None => {
            own = LoopsAndFrequencies::new(function, &divergent);
            &own
        }
    };
    let listing = ItemListing::new(function);
    let controls = final_code.map(|code| code.controls);
    let usual = block_times(function, &listing, loops_and_frequencies, figures, LatencyAssumption::Usual, controls);
    let worst = block_times(function, &listing, loops_and_frequencies, figures, LatencyAssumption::Worst, controls);
    let mut statistics = FunctionStatistics::empty(stage);
    let mut pressure = PressureMeter::new(function, &listing);
    for (block, range) in &listing.blocks {
        let (Some(usual), Some(worst)) = (usual.get(block), worst.get(block)) else { continue };
        let executions = loops_and_frequencies.by_analysis.total[*block];
        statistics.latency += usual.total_cycles(executions);
        statistics.average_latency += usual.total_cycles(loops_and_frequencies.never_divergent.total[*block]);
        statistics.worst_latency += worst.total_cycles(loops_and_frequencies.always_divergent.total[*block]);
        statistics.count_block(function, *block, &listing.code, range, figures, executions);
        let insts = &function.blocks[*block].insts;
        latency_hiding::add_block(&mut statistics.latency_distances, &listing.code, range, insts, controls);
        let live = match final_code {
            Some(code) => code.before.blocks.iter().find(|known| known.block == *block).and_then(|known| known.live),
            None => pressure.block_peak(function, &listing, *block, range, &mut statistics),
        };
        statistics.blocks.push(block_schedule(function, *block, &usual.timing, executions, live));
    }
    statistics.loops = loop_metrics(function, loops_and_frequencies, &statistics.blocks);
    statistics.divergent_blocks = divergent;
    statistics
}

/// The estimated cycles of one execution of a block, and the additional cycles in the first iteration of a loop.
struct BlockTime {
    /// The timing of one execution; in a loop header, of every iteration but the first.
    timing: BlockTiming,
    /// For a loop header: additional cycles of its first execution, which waits for results from outside the loop; 0 for other blocks.
    first_iteration_extra: u32,
}

impl BlockTime {
    /// Returns the total cycles of `executions` executions. If every loop has [`timeline::LOOP_MODEL`]'s trip count, one in that many
    /// executions of a loop header is a first iteration.
    fn total_cycles(&self, executions: f64) -> f64 {
        executions * f64::from(self.timing.cycles)
            + executions / f64::from(timeline::LOOP_MODEL.trip_count) * f64::from(self.first_iteration_extra)
    }
}

/// Estimates the timing of all reachable blocks. `controls` gives the control words of final code; it is `None` before register allocation.
fn block_times(
    function: &Function,
    listing: &ItemListing,
    loops_and_frequencies: &LoopsAndFrequencies,
    figures: HardwareFigures<'_>,
    assumption: LatencyAssumption,
    controls: Option<ControlLookup<'_>>,
) -> FxHashMap<Block, BlockTime> {
    let ranges: FxHashMap<Block, &Range<usize>> = listing.blocks.iter().map(|(block, range)| (*block, range)).collect();
    let time = |block: Block, in_flight: &mut InFlightAtBoundary| {
        let range = ranges.get(&block)?;
        Some(match controls {
            Some(controls) => {
                let insts = function.blocks[block].insts.as_slice();
                timeline::estimate_by_controls(&listing.code, (range, insts), figures, assumption, controls, in_flight)
            }
            None => timeline::estimate_by_operands(&listing.code, range, figures, assumption, in_flight),
        })
    };
    let merge = |ends: &FxHashMap<Block, InFlightAtBoundary>, from: &[Block], block: Block| {
        let mut merged = InFlightAtBoundary::default();
        for &from in from {
            if let Some(end) = ends.get(&from) {
                merged.merge(&listing.results_at_entry(function, from, end, block));
            }
        }
        merged
    };
    let mut ends: FxHashMap<Block, InFlightAtBoundary> = FxHashMap::default();
    let mut found = FxHashMap::default();
    // Two iterations: the first finds the results in flight along back edges, the second uses them.
    for _ in 0..2 {
        for &block in &loops_and_frequencies.order {
            let is_header = !loops_and_frequencies.back_edge_predecessors[block].is_empty();
            let mut first = merge(&ends, &loops_and_frequencies.forward_predecessors[block], block);
            let mut in_flight =
                if is_header { merge(&ends, &loops_and_frequencies.back_edge_predecessors[block], block) } else { first.clone() };
            if let Some(timing) = time(block, &mut in_flight) {
                let first_cycles = is_header.then(|| time(block, &mut first)).flatten().map_or(0, |timing| timing.cycles);
                found.insert(block, BlockTime { first_iteration_extra: first_cycles.saturating_sub(timing.cycles), timing });
            }
            ends.insert(block, in_flight);
        }
    }
    found
}

/// Returns the blocks that end in a divergent branch.
fn divergent_blocks(function: &Function) -> FxHashSet<Block> {
    let flow = ControlFlow::compute(function);
    let found: FxHashSet<Inst> = Uniformity::compute(function, &flow).divergent_branches().iter().copied().collect();
    let parts = |block: &&Block| function.terminators(**block).iter().any(|inst| found.contains(inst));
    function.layout.iter().filter(parts).copied().collect()
}

/// Returns the timing of a block, with the text and the issue cycle of each machine instruction.
fn block_schedule(function: &Function, block: Block, timing: &BlockTiming, executions: f64, live: Option<i32>) -> BlockSchedule {
    let insts = &function.blocks[block].insts;
    let is_machine = |inst: Inst| function.insts[inst].op.machine().is_some();
    let schedule = insts.iter().zip(&timing.issue_cycles).filter(|(inst, _)| is_machine(**inst)).map(|(&inst, &cycle)| {
        let text = print_inst(function, inst);
        (cycle, text.split(" ;@").next().unwrap_or_default().to_owned())
    });
    BlockSchedule { block, cycles: timing.cycles, idle_cycles: timing.idle_cycles, executions, live, schedule: schedule.collect() }
}

/// Returns the statistics of one iteration of each loop.
fn loop_metrics(function: &Function, loops_and_frequencies: &LoopsAndFrequencies, blocks: &[BlockSchedule]) -> Vec<LoopMetrics> {
    let LoopsAndFrequencies { loops, by_analysis: frequencies, .. } = loops_and_frequencies;
    let by_block: FxHashMap<Block, &BlockSchedule> = blocks.iter().map(|known| (known.block, known)).collect();
    let metrics = |id| {
        let header = loops.get(id).header;
        let members = loops.blocks(id);
        let insts = || members.iter().flat_map(|&block| &function.blocks[block].insts).copied();
        let class = |inst: &Inst| class_name(function, *inst).unwrap_or_default();
        // Returns the executions of a block per execution of the loop header; 0 if the header is never executed.
        let share = |block: Block| frequencies.per_iteration[block] / frequencies.per_iteration[header].max(f64::MIN_POSITIVE);
        LoopMetrics {
            header,
            depth: loops.get(id).depth,
            blocks: members.len(),
            instructions: insts().filter(|inst| function.insts[*inst].op.machine().is_some()).count(),
            loads: insts().filter(|inst| class(inst).starts_with("load_")).count(),
            stores: insts().filter(|inst| class(inst).starts_with("store_")).count(),
            cycles: members.iter().map(|&block| share(block) * by_block.get(&block).map_or(0.0, |known| f64::from(known.cycles))).sum(),
            live: members.iter().filter_map(|block| by_block.get(block)?.live).max(),
        }
    };
    loops.iter().map(metrics).collect()
}

/// Returns the name of the scheduling class of an instruction, or `None` for a pseudo operation.
fn class_name(function: &Function, inst: Inst) -> Option<&'static str> {
    let data = &function.insts[inst];
    Some(oriole_hardware::Classes::get().of(data.op.machine()?, &data.modifiers).name())
}

/// Counts live registers of a function on SSA values. Does nothing after register allocation.
struct PressureMeter {
    /// Liveness of the values; `None` after register allocation.
    liveness: Option<Liveness>,
    /// Counts live registers.
    tracker: PressureTracker,
}

impl PressureMeter {
    /// Creates a meter. Computes the liveness of the function if it is on SSA values.
    fn new(function: &Function, listing: &ItemListing) -> PressureMeter {
        let liveness = function.is_ssa.then(|| Liveness::compute(function, &ControlFlow::compute(function)));
        PressureMeter { liveness, tracker: PressureTracker::new(listing.code.groups().len()) }
    }

    /// Returns the maximum number of live general registers in a block, `None` after register allocation. Also updates the maxima of the
    /// function in `statistics`.
    fn block_peak(
        &mut self,
        function: &Function,
        listing: &ItemListing,
        block: Block,
        range: &Range<usize>,
        statistics: &mut FunctionStatistics,
    ) -> Option<i32> {
        let live = LiveValues::of_block(function, listing.numbers.as_ref()?, self.liveness.as_ref()?, block);
        self.tracker.enter_block(&listing.code, range.clone(), live.as_block_liveness());
        self.tracker.enter_region(&listing.code, range.clone());
        for position in range.clone() {
            let item = &listing.code.items[position];
            self.tracker.step(&listing.code, item);
            if item.opcode == Some(Opcode::CALL) {
                let live = self.tracker.live()[RegisterClass::General as usize].max(0) as u64;
                statistics.extra_counts.live_at_calls = statistics.extra_counts.live_at_calls.max(live);
            }
        }
        let peak = self.tracker.peak();
        for (most, class) in statistics.live.iter_mut().zip([RegisterClass::General, RegisterClass::Uniform]) {
            *most = (*most).max(peak[class as usize]);
        }
        Some(peak[RegisterClass::General as usize])
    }
}

impl FunctionStatistics {
    /// Creates statistics of a function without instructions.
    fn empty(stage: AllocationStage) -> FunctionStatistics {
        let fields = fields::fields_of_stage(stage).len();
        FunctionStatistics {
            stage,
            instructions: 0,
            latency: 0.0,
            worst_latency: 0.0,
            average_latency: 0.0,
            counts: vec![0; fields],
            without_field: 0,
            live: [0; 2],
            blocks: Vec::new(),
            loops: Vec::new(),
            latency_distances: LatencyDistances::default(),
            extra_counts: ExtraCounts::default(),
            busy_cycles_by_field: vec![[0.0; UNITS]; fields],
            total_busy_cycles: [0.0; UNITS],
            issued_insts: 0.0,
            divergent_blocks: FxHashSet::default(),
        }
    }

    /// Adds the counts of one block. Instructions are counted once; issue slots and busy cycles are multiplied by the estimated number of
    /// executions of the block.
    fn count_block(
        &mut self,
        function: &Function,
        block: Block,
        code: &SchedCode,
        positions: &Range<usize>,
        figures: HardwareFigures<'_>,
        executions: f64,
    ) {
        // Registers that hold the result of a texture fetch. The field `tepid` counts the instructions that read one.
        let mut fetched: FxHashSet<u32> = FxHashSet::default();
        for (position, &inst) in positions.clone().zip(&function.blocks[block].insts) {
            let item = &code.items[position];
            let Some(opcode) = function.insts[inst].op.machine() else { continue };
            self.instructions += 1;
            self.issued_insts += executions;
            let (unit, cycles) = (figures.costs.unit_index(item.class), f64::from(figures.costs.cycles(item.class).max(1)));
            self.total_busy_cycles[unit] += executions * cycles;
            match fields::statistics_field_index(self.stage, item.class, opcode, &function.insts[inst].modifiers) {
                Some(field) => {
                    self.counts[field] += 1;
                    self.busy_cycles_by_field[field][unit] += executions * cycles;
                }
                None => self.without_field += 1,
            }
            self.extra_counts.count_inst(function, inst, item);
            self.extra_counts.texture_readers += u64::from(code.reads(item).iter().any(|access| fetched.contains(&access.register)));
            for access in code.writes(item) {
                if item.class.name() == "texture" {
                    fetched.insert(access.register);
                } else {
                    fetched.remove(&access.register);
                }
            }
        }
    }
}

impl ExtraCounts {
    /// Adds one instruction to all counts that it belongs to.
    fn count_inst(&mut self, function: &Function, inst: Inst, item: &Item) {
        let data = &function.insts[inst];
        let class = item.class.name();
        if class == "texture" {
            self.texture_insts += 1;
            self.count_texture(function, inst);
        }
        if class.starts_with("half") {
            self.half_insts += 1;
            self.half_packed += u64::from(!computes_only_one_half(function, inst));
        }
        if let Some(access) = data.memory.map(|id| &function.accesses[id]).filter(|access| access.space == Space::Local) {
            let sum = if data.result_count() == 0 { &mut self.local_stored_bytes } else { &mut self.local_loaded_bytes };
            *sum += u64::from(access.bytes);
        }
        self.uniform_insts += u64::from(item.class.attribute("unit") == Some("udp"));
        self.copies_to_uniform += u64::from(item.opcode == Some(Opcode::R2UR));
        self.precise_insts += u64::from(IEEE_ROUNDED_CLASSES.contains(&class));
    }

    /// Counts a texture instruction by the source of its descriptor: constant bank, uniform register or general register.
    fn count_texture(&mut self, function: &Function, inst: Inst) {
        let is_uniform = |operand: &Operand| match operand.kind {
            OperandKind::Register { file, .. } => file == RegFile::Uniform,
            OperandKind::Value(part) => function.values[part.value].file == RegFile::Uniform,
            _ => false,
        };
        let is_bindless = function.insts[inst].modifiers.iter().any(|modifier| modifier.spelling() == ".B");
        let sum = if function.sources(inst).iter().any(is_uniform) {
            &mut self.uniform_textures
        } else if is_bindless {
            &mut self.bindless_textures
        } else {
            &mut self.constant_textures
        };
        *sum += 1;
    }
}

/// Returns whether a packed half-precision instruction computes only one value: each register source reads the same half twice.
fn computes_only_one_half(function: &Function, inst: Inst) -> bool {
    let is_register = |operand: &&Operand| {
        matches!(operand.kind, OperandKind::Register { file: RegFile::General, .. })
            || operand.value().is_some_and(|value| function.values[value].file == RegFile::General)
    };
    let is_one = |operand: &Operand| operand.suffixes().any(|suffix| [Symbol::H0_H0, Symbol::H1_H1].contains(&suffix));
    let mut registers = function.sources(inst).iter().filter(is_register).peekable();
    registers.peek().is_some() && registers.all(is_one)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests where the descriptor of a texture instruction is: in a uniform register if there is such a source, otherwise in a general
    /// register with `.B` and in a constant bank without it.
    #[test]
    fn textures_are_counted_by_descriptor_source() {
        let text = "func kernel @textures {
bb0:
    R0 = TEX R4, R6, UR4
    R1 = TEX.B R4, R6, R8
    R2 = TEX R4, R6, 0x3
    EXIT
}
";
        let function = oriole_ir::text::parse(text).unwrap().remove(0);
        let mut other = ExtraCounts::default();
        for &inst in &function.blocks[function.entry()].insts[..3] {
            other.count_texture(&function, inst);
        }
        assert_eq!((other.uniform_textures, other.bindless_textures, other.constant_textures), (1, 1, 1));
    }
}
