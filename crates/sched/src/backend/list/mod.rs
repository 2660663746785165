//! Backend A: forward list scheduling with an eight-bit priority.
//!
//! The scheduler issues the instructions of a region from first to last. At each step the *ready list* holds the items whose predecessors
//! in the dependency graph have all issued. A bounded window of the ready list is compared in full ([`priority`]): the items with the
//! longest critical path to the end, those that come first in the original order, and those whose operands arrive next. The winner issues,
//! the clock advances, and successors without further predecessors become ready.
//!
//! The window bounds the number of comparisons per step, so a region of *n* instructions takes O(n log n) time, however many instructions
//! are ready at once.
//!
//! Modes differ in the register budget and in two criteria of the comparison, batches of matrix products and the change of live registers.
//! With tracing on, each step records the deciding comparison and the second-best candidate ([`ScheduleDecision`]).
//!
//! Example: `0: FADD R0, R1, R2`, `1: LDG R10, [R2]`, `2: FADD R3, R10, R0`. Items 0 and 1 are ready. Item 1 wins because it reads
//! long-latency memory ([`Reason::HotCounts`]). Then 0 is the only ready item. After it, 2 issues, which stalls until the load is complete.

mod priority;
mod ready;

use oriole_hardware::units::Unit;

use super::clock::{Clock, release};
use super::reason::Reason;
use super::schedule::{Schedule, ScheduleDecision};
use super::settings::{ScheduleMode, Settings};
use super::strategy::{Region, RegionScheduler, Strategy};
use crate::code::SchedCode;
use crate::graph::{EdgeKind, Graph};
use crate::pressure::PressureTracker;
use priority::{RankedCandidate, StepContext, StepStatistics};
use ready::ReadySet;

/// Maximum number of instructions in a region, from the published description of ptxas. Longer runs of instructions are split.
const MAX_REGION_INSTRUCTIONS: usize = 4095;
/// Number of instructions above which a function is scheduled in chunks of whole blocks, from the published description of ptxas.
const CHUNK_THRESHOLD_INSTRUCTIONS: usize = 16_383;

/// State of the list scheduler for one region. Vectors are indexed by node of the dependency graph.
struct ListScheduler<'a> {
    /// The items of the block.
    code: &'a SchedCode,
    /// The dependency graph of the region.
    graph: &'a Graph,
    /// Optimization goal (mode), register budget and numeric parameters (knobs).
    settings: &'a Settings,
    /// Critical path from each node to the end of the region, in cycles.
    heights: Vec<u32>,
    /// Length of the longest critical path of the region, in cycles.
    longest_path: u32,
    /// For each node, the first cycle in which its operands are available, as far as its predecessors have issued.
    earliest: Vec<u32>,
    /// For each node, the number of predecessors that have not issued yet.
    unissued_predecessors: Vec<u32>,
    /// For each node, the sequence number of the youngest in-flight result that it reads ([`priority::NO_SCOREBOARD_SEQUENCE`] for none).
    /// Instructions that set a scoreboard are numbered in issue order.
    scoreboard_sequence: Vec<u32>,
    /// Sequence number of the next instruction that sets a scoreboard.
    next_sequence: u32,
    /// State of the simulated issue pipeline: current cycle, busy units, scoreboards in use.
    clock: Clock<'a>,
    /// The ready items.
    ready: ReadySet,
    /// State that depends on the earlier decisions in the region.
    state: PickState,
    /// For each item, whether an item that depends on it waits for its scoreboard.
    sets_scoreboard: Vec<bool>,
    /// Buffer for the window of candidates, kept to avoid an allocation per step.
    window: Vec<u32>,
}

/// State of the scheduler that every decision updates, as in the published description of ptxas.
#[derive(Clone, Copy)]
struct PickState {
    /// Number of readers of in-flight results that should still issue back to back ("spill mode" in the published description of ptxas).
    readers_to_drain: u32,
    /// Whether bit 4 of the priority (`hot counts`: prefer long-latency memory reads) is still in use: no winner of this region has had the
    /// bit set.
    hot_cold_active: bool,
    /// Number of short-latency accesses that may still issue before bit 4 of the priority is switched off.
    hot_cold_budget: u32,
    /// Whether an instruction has stalled since the last control-flow or barrier item issued. The next control-flow or barrier item then
    /// gets bit 6 of the priority (`yield flag`).
    yield_pending: bool,
    /// The current batch of matrix products: index of their unit, and number of instructions that may still join the batch. `None` outside
    /// of batches.
    batch: Option<(usize, u32)>,
}

/// Backend A: list scheduling with an eight-bit priority.
pub(super) struct ListScheduling;

impl Strategy for ListScheduling {
    /// Returns the name of the strategy on the command line.
    fn name(&self) -> &'static str {
        "a"
    }

    /// Returns the one-line description for help texts.
    fn description(&self) -> &'static str {
        "list scheduler"
    }

    /// Returns the reasons that a trace of this strategy may give for a decision.
    fn reasons(&self) -> &'static [Reason] {
        &[
            Reason::OnlyOne,
            Reason::PressureOverflow,
            Reason::Batch,
            Reason::Registers,
            Reason::HotCounts,
            Reason::YieldFlag,
            Reason::Critical,
            Reason::StallFree,
            Reason::Hot,
            Reason::BarrierGroup,
            Reason::LatencyCounter,
            Reason::YieldRelated,
            Reason::Contention,
            Reason::Cost,
            Reason::EarliestCycle,
            Reason::DependencyCycle,
            Reason::Deadline,
            Reason::RegisterDelta,
            Reason::Position,
        ]
    }

    /// Returns a function that orders the items of one region.
    fn scheduler(&self) -> RegionScheduler {
        Box::new(schedule)
    }

    /// Returns the maximum number of instructions in a region.
    fn max_region_instructions(&self) -> usize {
        MAX_REGION_INSTRUCTIONS
    }

    /// Returns the number of instructions above which a function is scheduled in chunks of blocks.
    fn chunk_threshold_instructions(&self) -> usize {
        CHUNK_THRESHOLD_INSTRUCTIONS
    }

    /// Returns true: `--sched-backend auto` tries the strategy on every function.
    fn is_tried_by_auto(&self) -> bool {
        true
    }
}

/// Schedules a region and returns the schedule. The tracker of live registers must be at the start of the region, and is at its end
/// afterwards.
fn schedule(region: &Region<'_>, tracker: &mut PressureTracker) -> Schedule {
    let Region { code, graph, costs, settings, .. } = *region;
    let heights = graph.heights();
    let mut scheduler = ListScheduler {
        code,
        graph,
        settings,
        longest_path: heights.iter().copied().max().unwrap_or(0),
        heights,
        earliest: graph.start_cycles(),
        unissued_predecessors: graph.predecessor_counts().to_vec(),
        scoreboard_sequence: vec![priority::NO_SCOREBOARD_SEQUENCE; graph.nodes()],
        next_sequence: 0,
        clock: Clock::new(costs),
        ready: ReadySet::default(),
        state: PickState {
            readers_to_drain: 0,
            hot_cold_active: true,
            hot_cold_budget: settings.knobs.hot_cold_budget,
            yield_pending: false,
            batch: None,
        },
        sets_scoreboard: (0..graph.items() as u32).map(|node| graph.successors(node).iter().any(|edge| edge.scoreboard)).collect(),
        window: Vec::new(),
    };
    let mut schedule = Schedule { order: Vec::with_capacity(graph.items()), ..Schedule::default() };
    tracker.enter_region(code, graph.region.clone());
    let mut inserted = Vec::new();
    scheduler.insert_initial_items(&mut inserted);
    let mut candidates = Vec::new();
    while schedule.order.len() < graph.items() {
        inserted.clear();
        let (best, runner_up) = scheduler.pick(tracker, &mut candidates);
        let position = graph.region.start + best.node as usize;
        let at = scheduler.issue(&best, &mut inserted);
        tracker.step(code, &code.items[position]);
        schedule.length.add(at, graph.tail(best.node));
        schedule.order.push(position);
        if settings.trace {
            let runner_up_at = runner_up.map(|(node, _)| graph.region.start + node as usize);
            let reason = runner_up.map_or(Reason::OnlyOne, |(_, reason)| reason);
            schedule.picks.push(ScheduleDecision { picked: position, runner_up: runner_up_at, reason, cycle: at });
        }
    }
    schedule
}

impl ListScheduler<'_> {
    /// Inserts the items without predecessors into the ready list and appends their nodes to `inserted`.
    fn insert_initial_items(&mut self, inserted: &mut Vec<u32>) {
        for node in 0..self.graph.items() as u32 {
            if self.graph.predecessor_counts()[node as usize] == 0 {
                self.ready.insert(node, self.earliest[node as usize], self.heights[node as usize], 0);
                inserted.push(node);
            }
        }
    }

    /// Returns the best candidate, and the node of the second-best one with the comparison that decided between the two.
    ///
    /// The second-best candidate is exact only if decisions are traced; otherwise it is not used.
    fn pick(&mut self, tracker: &PressureTracker, candidates: &mut Vec<RankedCandidate>) -> (RankedCandidate, Option<(u32, Reason)>) {
        self.ready.move_arrived_items(self.clock.cycle, &self.heights);
        candidates.clear();
        let mut window = std::mem::take(&mut self.window);
        self.ready.window(&mut window);
        candidates.extend(window.iter().map(|&node| self.evaluate(node, tracker)));
        self.window = window;
        let statistics = StepStatistics::of_candidates(candidates, &self.settings.budget, self.settings.knobs.queue_depth);
        let context = StepContext {
            mode: self.settings.mode,
            registers_are_scarce: tracker.live()[0] > self.settings.budget.scarce_above,
            draining_readers: self.state.readers_to_drain > 0,
            enough_readers_ready: statistics.in_flight_readers >= statistics.min_readers_for_bit_1,
            uses_yield_criterion: statistics.shared_memory > 0,
        };
        for candidate in candidates.iter_mut() {
            candidate.compute_priority_bits(&context, &statistics);
        }
        // One loop finds the best and the second-best: when a candidate beats the best, the previous best becomes second; otherwise it may
        // replace the second.
        let mut best = 0;
        let mut second: Option<(usize, Reason)> = None;
        for challenger in 1..candidates.len() {
            let (wins, reason) = priority::beats(&candidates[challenger], &candidates[best], &context);
            if wins {
                second = Some((best, reason));
                best = challenger;
            } else if self.settings.trace
                && second.is_none_or(|(second, _)| priority::beats(&candidates[challenger], &candidates[second], &context).0)
            {
                second = Some((challenger, reason));
            }
        }
        self.update_pick_state(&candidates[best], &statistics);
        (candidates[best], second.map(|(second, reason)| (candidates[second].node, reason)))
    }

    /// Computes all measurements of a ready item that the comparison uses, except the eight-bit priority.
    fn evaluate(&self, node: u32, tracker: &PressureTracker) -> RankedCandidate {
        let index = node as usize;
        let item = &self.code.items[self.graph.region.start + index];
        let unit = self.clock.costs.unit_index(item.class);
        let change = tracker.change(self.code, item);
        let free = if item.opcode.is_some() { self.clock.unit_free_cycles[unit] } else { 0 };
        let earliest = self.earliest[index];
        let busy = free.saturating_sub(self.clock.cycle) as i32;
        let crowded = i32::from(self.sets_scoreboard[index] && self.clock.scoreboards_in_use() >= self.clock.costs.scoreboards());
        let over = |class: usize| tracker.live()[class] + change[class] - self.settings.budget.registers[class];
        // Only register classes of which the item takes registers count: an item that frees registers must not be penalized when the budget
        // is exceeded.
        let excess = (0..change.len()).filter(|&class| change[class] > 0).map(over).max().unwrap_or(i32::MIN);
        let excess_general = over(0).max(0);
        RankedCandidate {
            node,
            priority_bits: 0,
            exceeds_budget: excess > 0,
            pressure_change: change,
            memory_latency: priority::memory_latency(item),
            hot_cold_active: self.state.hot_cold_active && self.state.hot_cold_budget > 0,
            is_yield: priority::is_yield(item),
            yield_flag: priority::is_barrier_or_control_flow(item) && self.state.yield_pending,
            accesses_shared_memory: priority::accesses_shared_memory(item),
            continues_batch: self.state.batch.is_some_and(|(batch, left)| batch == unit && left > 0),
            stall_free: earliest.max(free) <= self.clock.cycle,
            scoreboard_sequence: self.scoreboard_sequence[index],
            operand_wait_cycles: earliest.saturating_sub(self.clock.cycle),
            contention_penalty: busy + crowded + if change[0] > 0 { 2 * excess_general } else { 0 },
            stall_cycles: earliest.max(free).saturating_sub(self.clock.cycle),
            earliest,
            height: self.heights[index],
            deadline: self.longest_path.saturating_sub(self.heights[index]),
        }
    }

    /// Issues the winner and returns its issue cycle. Appends the items that become ready to `inserted`.
    fn issue(&mut self, best: &RankedCandidate, inserted: &mut Vec<u32>) -> u32 {
        self.ready.remove(best.node, best.earliest, best.height);
        let item = &self.code.items[self.graph.region.start + best.node as usize];
        let at = self.clock.issue(item.class, item.opcode.is_none(), best.earliest);
        let mut until = None;
        for edge in self.graph.successors(best.node).iter().filter(|edge| edge.scoreboard) {
            until = until.max(Some(at + u32::from(edge.latency)));
            if edge.kind == EdgeKind::Raw {
                self.scoreboard_sequence[edge.node as usize] = self.next_sequence;
            }
        }
        if let Some(until) = until {
            self.next_sequence += 1;
            self.clock.hold_scoreboard(until);
        }
        let ListScheduler { graph, earliest, unissued_predecessors, ready, heights, clock, .. } = self;
        let start = inserted.len();
        release(graph, best.node, at, earliest, unissued_predecessors, &mut |node| inserted.push(node));
        for &node in &inserted[start..] {
            ready.insert(node, earliest[node as usize], heights[node as usize], clock.cycle);
        }
        at
    }

    /// Updates [`PickState`] for the winner of a step, before the winner issues.
    fn update_pick_state(&mut self, best: &RankedCandidate, statistics: &StepStatistics) {
        let item = &self.code.items[self.graph.region.start + best.node as usize];
        if best.reads_in_flight() {
            // If the warp stalls here until a scoreboard is released, the other readers of in-flight results whose operands arrive within a
            // few cycles should follow directly, so that they free the registers of those results. Each further reader reduces their number
            // by one.
            let others = statistics.within_cutoff.saturating_sub(1) as u32;
            self.state.readers_to_drain = if best.stall_cycles > 0 { others } else { self.state.readers_to_drain.saturating_sub(1) };
        } else if best.stall_cycles > 0 {
            self.state.readers_to_drain = 0;
        }
        if self.state.hot_cold_active {
            match best.memory_latency {
                priority::MemoryLatency::Short => self.state.hot_cold_budget = self.state.hot_cold_budget.saturating_sub(1),
                // As in the published description of ptxas: only the first long-latency access of a region wins by bit 4; later ones
                // compete by bit 5.
                priority::MemoryLatency::Long if best.has_hot_counts_bit() => self.state.hot_cold_active = false,
                _ => {}
            }
        }
        if priority::is_barrier_or_control_flow(item) {
            self.state.yield_pending = false;
        }
        if best.stall_cycles > 0 {
            self.state.yield_pending = true;
        }
        if self.settings.mode == ScheduleMode::DynBatch {
            let unit = self.clock.costs.unit_index(item.class);
            self.state.batch = match self.state.batch {
                Some((batch, left)) if batch == unit && left > 0 => Some((unit, left - 1)),
                _ if unit == Unit::Tensor.index() => Some((unit, self.settings.knobs.batch.saturating_sub(1))),
                other => other.filter(|_| item.opcode.is_none() || best.stall_cycles == 0).filter(|&(batch, _)| batch == unit),
            };
        }
    }
}

#[cfg(test)]
mod tests;
