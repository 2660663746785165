//! Reorders the instructions of each block of existing code, on the registers that they have.
//!
//! As a rule, the compiler that made the code ordered it well. So several orders are proposed for each block (by the backends of phase 110,
//! and by two list schedulers that stay close to the existing order), and control words are computed for each. A block takes the best
//! proposal only if that is [predicted](predict) to be faster with these words. Three numbers of warps per scheduler are compared: one, the
//! maximum number that can be resident, and half of it. The geometric mean must improve, and no number may become noticeably slower. With
//! many warps that hide each other's latency, an order that only hides latency gains nothing, and the old order stays.
//!
//! ```text
//! load A ; use A ; load B ; use B     becomes     load A ; load B ; use A ; use B      one latency instead of two
//! ```
//!
//! **What does not move.** Blocks start and end at the same addresses. Within a block, no instruction moves across an instruction with a
//! relative address operand, across an address that may be known elsewhere ([`MoveConstraints::fixed_addresses`]), or across a scheduling
//! barrier of `sched`. An instruction with a wait that registers do not explain ([`KeptWaits`]) is treated as a memory fence. Every new
//! order is checked by `sched::check`, which shares no logic with the schedulers.

use std::collections::BTreeSet;
use std::ops::Range;

use oriole_isa::{Control, Instruction};
use oriole_sched::backend::{AllocationStage, Backend, Budget, Knobs, Region, ScheduleMode, Settings};
use oriole_sched::check;
use oriole_sched::code::{AliasSpace, MemAccess, MemAccessKind, OrderEffect, SchedCode, from_machine};
use oriole_sched::graph::{EdgeKind, GraphBuilder};
use oriole_sched::pressure::{BlockLiveness, PressureTracker};

use crate::fill::{self, FillChoice};
use crate::graph::FlowGraph;
use crate::kept_waits::KeptWaits;
use crate::predict::{self, PredictedInst, Prediction, TimingModel};
use crate::words;

/// Maximum cost of a new order relative to the old one, in the mean over the numbers of warps.
const MAX_RELATIVE_COST: f64 = 0.995;
/// Maximum relative cost for any single number of warps.
const MAX_RELATIVE_COST_OF_ANY: f64 = 1.005;
/// Minimum number of cycles that a new order must save for one warp in a block outside loops. Smaller savings are within the noise of how
/// warps interleave.
const MIN_SAVED_CYCLES: u64 = 16;
/// Size of a line of the L1 cache in bytes.
const LINE_BYTES: u64 = 128;
/// Maximum number of instructions to schedule at once; longer regions are split.
const MAX_REGION: usize = 4095;
/// Number of rounds in which blocks that became slower than predicted get their old order back; after that all new orders are dropped.
const CORRECTIONS: usize = 3;

/// When a block gets a new order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReorderCondition {
    /// If the new order is predicted to be faster.
    #[default]
    Faster,
    /// Whenever there is a different order; for tests of correctness.
    Always,
}

/// Constraints on moving instructions that come from the file.
pub struct MoveConstraints<'a> {
    /// Numbers of instructions whose addresses may be known elsewhere; nothing moves across the start of one.
    pub fixed_addresses: BTreeSet<usize>,
    /// Returns whether the instruction with this number has a relocation.
    pub is_relocated: &'a dyn Fn(usize) -> bool,
    /// Number of warps that can be resident per scheduler.
    pub warps: usize,
    pub when: ReorderCondition,
}

/// The result of reordering a section.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reordering {
    /// Number of blocks with at least two instructions.
    pub blocks: usize,
    /// Number of these blocks that have a new order.
    pub reordered: usize,
    /// Number of instructions at a new address.
    pub moved: usize,
    /// Predicted cycles of one warp through all blocks, each executed once, with new control words and the old order.
    pub cycles_before: u64,
    /// The same with the new order.
    pub cycles_after: u64,
    /// Why the old order was kept, if it had to be.
    pub kept: Option<String>,
}

impl Reordering {
    /// Records that all blocks keep their old order.
    pub(super) fn stay(&mut self, reason: String) {
        (self.reordered, self.moved, self.cycles_after, self.kept) = (0, 0, self.cycles_before, Some(reason));
    }
}

/// An instruction order with its control words.
pub struct TimedOrder {
    /// For each position, the old number of the instruction at that position.
    pub order: Vec<usize>,
    pub controls: Vec<Control>,
    pub schedule: Reordering,
}

/// A scheduler that proposes orders.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Proposer {
    Fill(FillChoice),
    Backend(Backend),
}

impl Proposer {
    /// Returns all schedulers.
    fn all() -> impl Iterator<Item = Proposer> {
        let fills = [Proposer::Fill(FillChoice::Position), Proposer::Fill(FillChoice::Height)];
        fills.into_iter().chain(Backend::tried_by_auto().map(Proposer::Backend))
    }

    /// Returns the maximum number of instructions that it schedules at once.
    fn longest(self) -> usize {
        match self {
            Proposer::Fill(_) => MAX_REGION,
            Proposer::Backend(backend) => backend.strategy().max_region_instructions(),
        }
    }
}

/// Finds the best order of a section that the checks accept.
pub fn plan(
    decoded: &[Instruction],
    graph: &FlowGraph,
    waits: &KeptWaits,
    limits: &MoveConstraints<'_>,
    timing: &TimingModel<'_>,
) -> TimedOrder {
    let planner = ReorderSearch::new(decoded, graph, waits, limits, timing);
    planner.plan()
}

/// A block with the prediction for its old order.
struct PredictedBlock {
    range: Range<usize>,
    /// Whether the block is its own successor.
    is_loop: bool,
    /// Whether the block is part of any cycle of the graph.
    is_in_loop: bool,
    /// The prediction for each number of warps.
    before: Vec<Prediction>,
}

/// The state of the search for one section.
struct ReorderSearch<'a> {
    decoded: &'a [Instruction],
    graph: &'a FlowGraph,
    waits: &'a KeptWaits,
    timing: &'a TimingModel<'a>,
    code: SchedCode,
    fixed_addresses: &'a BTreeSet<usize>,
    when: ReorderCondition,
    /// Numbers of warps for which orders are compared.
    samples: Vec<usize>,
    blocks: Vec<PredictedBlock>,
    controls: Vec<Control>,
}

impl<'a> ReorderSearch<'a> {
    fn new(
        decoded: &'a [Instruction],
        graph: &'a FlowGraph,
        waits: &'a KeptWaits,
        limits: &'a MoveConstraints<'a>,
        timing: &'a TimingModel<'a>,
    ) -> ReorderSearch<'a> {
        let mut code = from_machine::empty();
        for (number, instruction) in decoded.iter().enumerate() {
            from_machine::push_foreign_instruction(&mut code, instruction, (limits.is_relocated)(number));
        }
        // Waits that registers do not explain order memory in an unknown way, so both ends become fences.
        let ordered = waits.pairs.iter().flat_map(|&((setter, _), second)| [setter, second]);
        for number in ordered.chain(waits.counted.keys().map(|setter| setter.0)) {
            let effect = &mut code.items[number].effect;
            if matches!(effect, OrderEffect::None | OrderEffect::Access(_) | OrderEffect::Clock) {
                *effect = OrderEffect::Fence;
            }
        }
        let most = limits.warps.max(1);
        let samples: BTreeSet<usize> = [1, most.div_ceil(2), most].into();
        let mut planner = ReorderSearch {
            decoded,
            graph,
            waits,
            timing,
            code,
            fixed_addresses: &limits.fixed_addresses,
            when: limits.when,
            samples: samples.into_iter().collect(),
            blocks: Vec::new(),
            controls: words::assign_words(decoded, graph, waits, timing.hardware),
        };
        planner.blocks = planner.known_blocks();
        planner
    }

    /// Returns the blocks that can be reordered, with predictions for the old order.
    fn known_blocks(&self) -> Vec<PredictedBlock> {
        let mut blocks = Vec::new();
        let in_cycles = in_cycles(self.graph);
        for (number, block) in self.graph.blocks.iter().enumerate() {
            if block.range.len() < 2 || self.graph.padding.contains(&block.range.start) {
                continue;
            }
            let is_loop = block.successors.contains(&number);
            let is_in_loop = is_loop || in_cycles[number];
            let steps: Vec<PredictedInst> =
                block.range.clone().map(|number| PredictedInst::new(&self.decoded[number], self.controls[number], self.timing)).collect();
            let before = self.outcomes(&steps, is_loop);
            blocks.push(PredictedBlock { range: block.range.clone(), is_loop, is_in_loop, before });
        }
        blocks
    }

    /// Predicts a block for each number of warps.
    fn outcomes(&self, steps: &[PredictedInst], is_loop: bool) -> Vec<Prediction> {
        self.samples.iter().map(|&warps| predict::run(steps, warps, is_loop, self.timing.register_banks)).collect()
    }

    /// Tries every scheduler on every block and combines the best order of each block.
    fn plan(&self) -> TimedOrder {
        let old: Vec<usize> = (0..self.decoded.len()).collect();
        let mut best: Vec<(f64, Vec<usize>)> = vec![(f64::INFINITY, Vec::new()); self.blocks.len()];
        let mut kept = None;
        for proposer in Proposer::all() {
            let mut order = old.clone();
            for block in &self.blocks {
                match self.propose(block, proposer) {
                    Ok(new) => order[block.range.clone()].copy_from_slice(&new),
                    Err(broken) => {
                        kept = Some(format!("a new order of the block at {:#06x} is wrong: {broken}", block.range.start * crate::SIZE));
                    }
                }
            }
            // Control words depend on the whole section, so they are computed once per scheduler with all of its proposals in place.
            let controls = self.controls_of(&order);
            for (block, best) in self.blocks.iter().zip(&mut best) {
                let new = &order[block.range.clone()];
                if new.iter().copied().eq(block.range.clone()) {
                    continue;
                }
                let cost = self.judge(block, &self.after(block, &order, &controls));
                if let Some(cost) = cost.filter(|&cost| cost < best.0 && self.is_acceptable(block, &order, &controls)) {
                    *best = (cost, new.to_vec());
                }
            }
        }
        let mut order = old;
        for (block, (_, new)) in self.blocks.iter().zip(best) {
            if !new.is_empty() {
                order[block.range.clone()].copy_from_slice(&new);
            }
        }
        self.revert_slower_blocks(order, kept)
    }

    /// Computes the control words of the combined order. Blocks that become slower with these words get their old order back.
    fn revert_slower_blocks(&self, mut order: Vec<usize>, kept: Option<String>) -> TimedOrder {
        let mut controls = self.controls_of(&order);
        for round in 0..=CORRECTIONS {
            let mut worse = false;
            for block in &self.blocks {
                let is_new = !order[block.range.clone()].iter().copied().eq(block.range.clone());
                let is_good =
                    || self.judge(block, &self.after(block, &order, &controls)).is_some() && self.is_acceptable(block, &order, &controls);
                if is_new && (round == CORRECTIONS || !is_good()) {
                    block.range.clone().for_each(|number| order[number] = number);
                    worse = true;
                }
            }
            if !worse {
                break;
            }
            controls = self.controls_of(&order);
        }
        let mut schedule = Reordering { blocks: self.blocks.len(), kept, ..Reordering::default() };
        for block in &self.blocks {
            let is_new = !order[block.range.clone()].iter().copied().eq(block.range.clone());
            schedule.reordered += usize::from(is_new);
            schedule.cycles_before += block.before[0].issued;
            schedule.cycles_after += self.after(block, &order, &controls)[0].issued;
        }
        schedule.moved = order.iter().enumerate().filter(|&(new, &old)| new != old).count();
        TimedOrder { order, controls, schedule }
    }

    /// Returns the control words of an order.
    fn controls_of(&self, order: &[usize]) -> Vec<Control> {
        if order.iter().copied().eq(0..order.len()) {
            return self.controls.clone();
        }
        let instructions: Vec<Instruction> = order.iter().map(|&number| self.decoded[number].clone()).collect();
        words::assign_words(&instructions, self.graph, &self.waits.renumbered(&places(order)), self.timing.hardware)
    }

    /// Predicts a block in a new order.
    fn after(&self, block: &PredictedBlock, order: &[usize], controls: &[Control]) -> Vec<Prediction> {
        let steps: Vec<PredictedInst> = block
            .range
            .clone()
            .map(|place| {
                let mut step = PredictedInst::new(&self.decoded[order[place]], controls[place], self.timing);
                step.not_before(block.before[0].times[order[place] - block.range.start]);
                step
            })
            .collect();
        self.outcomes(&steps, block.is_loop)
    }

    /// Returns the cost of a new order relative to the old one, as the geometric mean over the numbers of warps, or `None` if the new order
    /// is not better by enough.
    fn judge(&self, block: &PredictedBlock, after: &[Prediction]) -> Option<f64> {
        let ratios = || block.before.iter().zip(after).map(|(before, after)| after.cost as f64 / before.cost.max(1) as f64);
        let mean = (ratios().map(f64::ln).sum::<f64>() / after.len() as f64).exp();
        // The cost adds two times (last issue and last result), so half of the difference is in cycles.
        let saved = block.before[0].cost.saturating_sub(after[0].cost) / 2;
        let is_enough = mean <= MAX_RELATIVE_COST && (block.is_in_loop || saved >= MIN_SAVED_CYCLES);
        let is_worth_it = is_enough && ratios().all(|ratio| ratio <= MAX_RELATIVE_COST_OF_ANY);
        (is_worth_it || self.when == ReorderCondition::Always).then_some(mean)
    }

    /// Returns whether a new order satisfies the conditions that the dependence graph does not express.
    fn is_acceptable(&self, block: &PredictedBlock, order: &[usize], controls: &[Control]) -> bool {
        self.keeps_line_pairs(block, &order[block.range.clone()]) && self.stalls_suffice(block, order, controls)
    }

    /// Returns whether adjacent loads of the same cache line are still adjacent. The second load hits the line only as long as no other
    /// access evicts it.
    fn keeps_line_pairs(&self, block: &PredictedBlock, new: &[usize]) -> bool {
        let mut places = vec![0; new.len()];
        new.iter().enumerate().for_each(|(place, &number)| places[number - block.range.start] = place);
        let mut pairs = (1..places.len()).filter(|&second| self.share_line(block.range.start + second - 1, block.range.start + second));
        pairs.all(|second| places[second] == places[second - 1] + 1)
    }

    /// Returns whether two global loads have the same base and offsets less than a cache line apart.
    fn share_line(&self, first: usize, second: usize) -> bool {
        let [first, second] = [first, second].map(|number| match self.code.items[number].effect {
            OrderEffect::Access(MemAccess {
                address: Some(address),
                kind: MemAccessKind::Read | MemAccessKind::ReadConstant,
                space: AliasSpace::Global | AliasSpace::Generic,
                ..
            }) => Some(address),
            _ => None,
        });
        first.zip(second).is_some_and(|(first, second)| {
            let has_same_base = first.form == second.form && self.code.address_registers(&first) == self.code.address_registers(&second);
            has_same_base && first.offset.abs_diff(second.offset) < LINE_BYTES
        })
    }

    /// Returns whether the stalls cover all dependences without a scoreboard. A stall is at most 15 cycles, and no instruction can be
    /// inserted.
    fn stalls_suffice(&self, block: &PredictedBlock, order: &[usize], controls: &[Control]) -> bool {
        let mut issue = 0;
        let mut times = vec![0; block.range.len()];
        for place in block.range.clone() {
            times[order[place] - block.range.start] = issue;
            issue += u64::from(controls[place].stall).max(1);
        }
        let mut builder = GraphBuilder::new(self.timing.hardware.model, self.code.registers());
        self.code.regions(block.range.clone(), MAX_REGION).into_iter().all(|region| {
            let graph = builder.build(&self.code, region.clone());
            let time = |node: u32| times[region.start + node as usize - block.range.start];
            (0..graph.items() as u32).all(|node| {
                let mut kept_apart = graph
                    .successors(node)
                    .iter()
                    .filter(|edge| !edge.scoreboard && matches!(edge.kind, EdgeKind::Raw | EdgeKind::War | EdgeKind::Waw));
                kept_apart.all(|edge| time(edge.node) >= time(node) + u64::from(edge.latency))
            })
        })
    }

    /// Returns the order of a block that a scheduler proposes, after checking it.
    fn propose(&self, block: &PredictedBlock, proposer: Proposer) -> Result<Vec<usize>, check::OrderViolation> {
        let mut builder = GraphBuilder::new(self.timing.hardware.model, self.code.registers());
        let mut tracker = PressureTracker::new(self.code.groups().len());
        let mut scheduler = match proposer {
            Proposer::Fill(_) => None,
            Proposer::Backend(backend) => Some(backend.strategy().scheduler()),
        };
        let settings = Settings {
            mode: ScheduleMode::Ilp,
            stage: AllocationStage::Post,
            budget: Budget::UNLIMITED,
            knobs: Knobs::default(),
            warps_in_step: 1,
            trace: false,
        };
        let floors = self.floors(block);
        let mut order = Vec::with_capacity(block.range.len());
        for piece in self.pieces(&block.range) {
            tracker.enter_block(&self.code, piece.clone(), BlockLiveness { live_in: &[], live_out: &[] });
            for region in self.code.regions(piece.clone(), proposer.longest()) {
                for barrier in block.range.start + order.len()..region.start {
                    tracker.step_barrier(&self.code, barrier);
                    order.push(barrier);
                }
                let graph = builder.build(&self.code, region.clone());
                let places = region.start - block.range.start..region.end - block.range.start;
                if let Proposer::Fill(choice) = proposer {
                    let follows_closely = |number: usize| self.share_line(number - 1, number);
                    let order_of = fill::order(&self.code, &graph, self.timing.costs, &floors[places], &follows_closely, choice);
                    order.extend(order_of);
                }
                if let Some(scheduler) = &mut scheduler {
                    let region = Region { code: &self.code, graph: &graph, costs: self.timing.costs, settings: &settings, carried: &[] };
                    order.extend(scheduler(&region, &mut tracker).order);
                }
            }
            order.extend(block.range.start + order.len()..piece.end);
            check::check(&self.code, piece.clone(), &order[piece.start - block.range.start..])?;
        }
        Ok(order)
    }

    /// Splits a block at the addresses that may be known elsewhere.
    fn pieces(&self, range: &Range<usize>) -> Vec<Range<usize>> {
        let mut starts = vec![range.start];
        starts.extend(self.fixed_addresses.range(range.start + 1..range.end));
        let ends = starts.iter().skip(1).copied().chain([range.end]);
        starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect()
    }

    /// Returns the earliest issue cycle of each instruction of a block, from the start of its region. It is the cycle of the old order for
    /// instructions that use registers which operations of other blocks may still write or read, and 0 for all others.
    fn floors(&self, block: &PredictedBlock) -> Vec<u64> {
        let outcome = &block.before[0];
        let mut late: Vec<Option<u64>> = vec![None; self.code.registers()];
        let mut written = vec![false; self.code.registers()];
        let touched = |number: usize| {
            let item = &self.code.items[number];
            self.code.reads(item).iter().chain(self.code.writes(item)).map(|touch| touch.register as usize)
        };
        for (place, number) in block.range.clone().enumerate().filter(|&(place, _)| outcome.waits_for_others[place]) {
            for register in touched(number) {
                late[register].get_or_insert(outcome.times[place]);
            }
        }
        let mut floors = vec![0; block.range.len()];
        for (place, number) in block.range.clone().enumerate() {
            let times = touched(number).filter(|&register| !written[register]).filter_map(|register| late[register]);
            floors[place] = times.max().unwrap_or(0);
            self.code.writes(&self.code.items[number]).iter().for_each(|touch| written[touch.register as usize] = true);
        }
        for piece in self.pieces(&block.range) {
            for region in self.code.regions(piece, MAX_REGION) {
                let start = outcome.times[region.start - block.range.start];
                for floor in &mut floors[region.start - block.range.start..region.end - block.range.start] {
                    *floor = floor.saturating_sub(start);
                }
            }
        }
        floors
    }
}

/// Returns for each block whether it is in a cycle of at least two blocks.
///
/// Kosaraju's algorithm for strongly connected components: a depth-first search along the edges lists the blocks in postorder; searches
/// against the edges, from the blocks of that list in reverse, each visit one component.
fn in_cycles(graph: &FlowGraph) -> Vec<bool> {
    let blocks = &graph.blocks;
    let mut backwards: Vec<Vec<usize>> = vec![Vec::new(); blocks.len()];
    for (number, block) in blocks.iter().enumerate() {
        block.successors.iter().for_each(|&next| backwards[next].push(number));
    }
    let forwards = |number: usize| blocks[number].successors.as_slice();
    let mut seen = vec![false; blocks.len()];
    let mut left = Vec::with_capacity(blocks.len());
    (0..blocks.len()).for_each(|start| walk(start, &forwards, &mut seen, &mut left));
    let mut found = vec![false; blocks.len()];
    let mut seen = vec![false; blocks.len()];
    for &start in left.iter().rev() {
        let mut cycle = Vec::new();
        walk(start, &|number| backwards[number].as_slice(), &mut seen, &mut cycle);
        if cycle.len() > 1 {
            cycle.into_iter().for_each(|number| found[number] = true);
        }
    }
    found
}

/// Depth-first search from `start` over blocks that were not seen before; appends them to `left` in postorder.
fn walk<'g>(start: usize, next: &dyn Fn(usize) -> &'g [usize], seen: &mut [bool], left: &mut Vec<usize>) {
    if std::mem::replace(&mut seen[start], true) {
        return;
    }
    let mut path = vec![(start, 0)];
    while let Some((number, taken)) = path.last_mut() {
        match next(*number).get(*taken) {
            Some(&other) => {
                *taken += 1;
                if !std::mem::replace(&mut seen[other], true) {
                    path.push((other, 0));
                }
            }
            None => {
                left.push(*number);
                path.pop();
            }
        }
    }
}

/// Inverts an order: returns the new position of each instruction.
pub fn places(order: &[usize]) -> Vec<usize> {
    let mut places = vec![0; order.len()];
    order.iter().enumerate().for_each(|(new, &old)| places[old] = new);
    places
}
