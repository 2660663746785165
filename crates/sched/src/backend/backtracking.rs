//! Strategy `backtracking`: a list scheduler that takes back its last decisions when they lead to a stall.
//!
//! Items issue by these criteria: fewest registers above the budget, most registers freed while they are scarce, fewest stall cycles,
//! longest critical path. Where the best candidate stalls for more than `backtrack-stall` cycles, or exceeds the register budget, the last
//! `backtrack-depth` decisions are taken back one after the other: at each of them the runner-up issues instead, and the list schedule
//! continues up to the same number of items. The first continuation with a lower *estimate* replaces the old one. The estimate is the
//! number of registers above the budget, then a lower bound of the length: the longest critical path of a ready item, counted from the
//! cycle in which it can issue. So a greedy choice that causes a stall a few steps later is corrected. Each decision is reconsidered at
//! most once, and a region takes at most `backtrack-tries` continuations, so the time is O((n + tries × depth) × r) for *n* items, of which
//! at most *r* are ready at once.
//!
//! Registers and units are tracked by [`ResourceTracker`], whose [`UndoRecord`] restores the state before an item.
//!
//! Example: the unit of `M0` and `M1` (reciprocals) takes an item every 8 cycles. `M1` reads the result of `A` and starts the longer chain,
//! which ends with `B`; but `M0` is ready first.
//!
//! ```text
//! greedy        M0 A  ....... M1 ... B     M1 stalls for 6 cycles: its unit is busy
//! taken back    A M1 ....... M0 B          the runner-up A issues first, then M1
//! ```
//!
//! | topic | description of ptxas | here | why |
//! |---|---|---|---|
//! | trigger | "excessive stalls or resource conflicts" | stall cycles, registers above the budget | the two costs that the issue model measures |
//! | alternatives | a different selection | the runner-up of each undone decision | the other candidates rank lower still |
//! | comparison | not given | a lower bound of the remaining length | two partial orders with different items must be compared |

use std::ops::Range;

use oriole_isa::RegFile;

use super::budget::SearchBudget;
use super::clock::Clock;
use super::engine::{ProposedOrder, RegionAnalysis, enter_region};
use super::reason::Reason;
use super::schedule::{Schedule, ScheduleDecision, SearchOutcome};
use super::settings::ScheduleMode;
use super::strategy::{Region, RegionScheduler, Strategy};
use super::weighted::registers::BudgetedGroups;
use crate::graph::Graph;
use crate::pressure::PressureTracker;
use crate::resource::{BlockResourceUsage, RegisterDescriptor, RegisterOperand, ResourceNeeds, ResourceTracker, UndoRecord};

/// Maximum number of ready items that are compared in full per step.
const MAX_COMPARED_CANDIDATES: usize = 24;
/// Maximum number of items in a region. Longer runs of items are split, because each step takes time linear in the number of ready items.
const MAX_REGION_INSTRUCTIONS: usize = 512;

/// A list scheduler that takes back its last decisions when they lead to a stall; the strategy `backtracking` of the command line.
pub(super) struct Backtracking;

impl Strategy for Backtracking {
    /// Returns the name of the strategy on the command line.
    fn name(&self) -> &'static str {
        "backtracking"
    }

    /// Returns the one-line description for help texts.
    fn description(&self) -> &'static str {
        "list schedule that takes back its last decisions when they lead to a stall"
    }

    /// Returns the reasons that a trace of this strategy may give for a decision.
    fn reasons(&self) -> &'static [Reason] {
        &[
            Reason::OnlyOne,
            Reason::PressureOverflow,
            Reason::Registers,
            Reason::Cost,
            Reason::DependencyCycle,
            Reason::Position,
            Reason::TakenBack,
            Reason::SourceOrder,
        ]
    }

    /// Returns a function that orders the items of one region.
    fn scheduler(&self) -> RegionScheduler {
        let mut budget = SearchBudget::default();
        Box::new(move |region, tracker| schedule(region, tracker, &mut budget))
    }

    /// Returns true: the strategy itself returns the original order where it finds no better one.
    fn falls_back_to_original(&self) -> bool {
        true
    }

    /// Returns the maximum number of instructions in a region.
    fn max_region_instructions(&self) -> usize {
        MAX_REGION_INSTRUCTIONS
    }
}

/// Schedules a region by the strategy `backtracking`. The tracker of live registers must be at the start of the region, and is at its end
/// afterwards.
fn schedule(region: &Region<'_>, tracker: &mut PressureTracker, budget: &mut SearchBudget) -> Schedule {
    let groups = enter_region(region, tracker);
    let source = ProposedOrder::original(region, groups.as_ref(), Reason::SourceOrder);
    let new = propose_order(&RegionAnalysis::new(region), groups.as_ref(), budget);
    let exceeded_scarcity = new.exceeds_scarcity(region);
    let best = if new.improves_on(&source, region) { new } else { source };
    Schedule { exceeded_scarcity, ..best.into_schedule(region, tracker, SearchOutcome::None) }
}

/// Schedules a region by the sort key [`ReadyItem::key`], takes back decisions that lead to a stall, and returns the resulting order.
/// `budget` limits the number of continuations that are tried.
pub(super) fn propose_order(analysis: &RegionAnalysis<'_>, groups: Option<&BudgetedGroups>, budget: &mut SearchBudget) -> ProposedOrder {
    let region = &analysis.region;
    let knobs = &region.settings.knobs;
    let mut order = UndoableOrder::new(analysis, groups);
    let mut tries = budget.start(knobs, knobs.backtrack_tries);
    // Decisions before step `fixed` are final: they were reconsidered at an earlier stall.
    let mut fixed = 0;
    while order.steps.len() < region.graph.items() {
        let (best, runner_up) = order.two_best_candidates();
        let is_bad = best.stall > knobs.backtrack_stall || best.excess > 0;
        if is_bad && tries > 0 && !order.steps.is_empty() {
            let from = order.steps.len().saturating_sub(knobs.backtrack_depth).max(fixed);
            order.try_runners_up(from, &mut tries, budget);
            fixed = order.steps.len();
            continue;
        }
        order.issue(best.node, deciding_criterion(&best, runner_up.as_ref()), runner_up.map(|other| other.node));
    }
    order.into_proposal(region, groups)
}

/// A ready item, with the measurements by which candidates are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ReadyItem {
    /// Node of the item in the dependency graph.
    node: u32,
    /// Number of general registers above the budget after the item issues; 0 if the item takes no register.
    excess: i32,
    /// Number of general registers that the item frees, negative if it takes registers; 0 unless registers are scarce.
    freed: i32,
    /// Number of cycles that the warp stalls if the item issues next.
    stall: u32,
    /// Critical path from the issue of the item to the end of the region, in cycles.
    height: u32,
}

impl ReadyItem {
    /// Returns the sort key: fewest registers above the budget, most registers freed, shortest stall, longest critical path, lowest node.
    fn key(&self) -> (i32, i32, u32, std::cmp::Reverse<u32>, u32) {
        (self.excess, -self.freed, self.stall, std::cmp::Reverse(self.height), self.node)
    }
}

/// Returns the first criterion of the sort key in which the best candidate and the runner-up differ.
fn deciding_criterion(best: &ReadyItem, other: Option<&ReadyItem>) -> Reason {
    let Some(other) = other else { return Reason::OnlyOne };
    if best.excess != other.excess {
        Reason::PressureOverflow
    } else if best.freed != other.freed {
        Reason::Registers
    } else if best.stall != other.stall {
        Reason::Cost
    } else if best.height != other.height {
        Reason::DependencyCycle
    } else {
        Reason::Position
    }
}

/// A decision, with the state that is needed to undo it.
struct UndoableDecision<'a> {
    /// Node of the item that issued.
    node: u32,
    /// Node of the second-best candidate; `None` if there was only one.
    runner_up: Option<u32>,
    /// The criterion that decided between this item and the runner-up.
    reason: Reason,
    /// State of the simulated issue pipeline before the item issued.
    clock: Clock<'a>,
    /// The successors of the item, each with its earliest issue cycle before the item issued.
    old_earliest: Vec<(u32, u32)>,
    /// Index of the item in the ready list before it issued.
    ready_index: usize,
    /// Length of the ready list after the item was removed from it.
    ready_len: usize,
    /// Restores the registers and units to the state before the item.
    undo: UndoRecord,
    /// Register groups that became live or dead, with their old liveness.
    old_liveness: Vec<(u32, bool)>,
}

/// A partial order whose last decisions can be undone one by one. Vectors are indexed by node or by register group.
struct UndoableOrder<'a, 'g> {
    /// Critical paths and scoreboard use of the region.
    analysis: &'a RegionAnalysis<'a>,
    /// The register groups of the region; `None` after register allocation.
    groups: Option<&'g BudgetedGroups>,
    /// The decisions so far, in issue order.
    steps: Vec<UndoableDecision<'a>>,
    /// State of the simulated issue pipeline: current cycle, busy units, scoreboards in use.
    clock: Clock<'a>,
    /// For each node, the first cycle in which its operands are available.
    earliest: Vec<u32>,
    /// For each node, the number of predecessors that have not issued.
    unissued_predecessors: Vec<u32>,
    /// Nodes of the ready items.
    ready: Vec<u32>,
    /// Tracks the registers and units that the issued items use, and can undo the last item.
    resources: ResourceTracker,
    /// The register pressure and the unit cycles of the issued items.
    resource_slot: BlockResourceUsage,
    /// For each register group, whether it is live after the issued items.
    is_live: Vec<bool>,
    /// For each register group, the number of its readers that have not issued.
    unissued_readers: Vec<u32>,
    /// For each register group, the number of its first general register in [`ResourceTracker`]. The registers of group `n` end where those
    /// of group `n + 1` start.
    first_registers: Vec<u32>,
    /// Number of live general registers at the start of the region.
    initial_pressure: i32,
}

impl<'a, 'g> UndoableOrder<'a, 'g> {
    /// Creates an order of a region in which no item has issued yet.
    fn new(analysis: &'a RegionAnalysis<'a>, groups: Option<&'g BudgetedGroups>) -> UndoableOrder<'a, 'g> {
        let graph = analysis.region.graph;
        let mut first_registers = vec![0];
        for weight in groups.map_or_else(Vec::new, BudgetedGroups::general_weights) {
            first_registers.push(first_registers.last().copied().unwrap_or(0) + weight);
        }
        UndoableOrder {
            first_registers,
            analysis,
            groups,
            steps: Vec::with_capacity(graph.items()),
            clock: Clock::new(analysis.region.costs),
            earliest: graph.start_cycles(),
            unissued_predecessors: graph.predecessor_counts().to_vec(),
            ready: (0..graph.items() as u32).filter(|&node| graph.predecessor_counts()[node as usize] == 0).collect(),
            resources: ResourceTracker::default(),
            resource_slot: BlockResourceUsage::default(),
            is_live: groups.map_or_else(Vec::new, BudgetedGroups::live_at_start),
            unissued_readers: groups.map_or_else(Vec::new, BudgetedGroups::reader_counts),
            initial_pressure: groups.map_or(0, |groups| groups.counts_at_start()[0]),
        }
    }

    /// Returns the number of general registers that are live now.
    fn pressure(&self) -> i32 {
        self.initial_pressure + self.resource_slot.pressure()
    }

    /// Returns the registers and the unit that an item takes if it issues next. The last read of a register is marked as its last use.
    fn resource_needs(&self, node: u32) -> ResourceNeeds {
        let item = self.analysis.item(node);
        let costs = self.analysis.region.costs;
        let mut operands = Vec::new();
        self.for_each_group(node, |registers, written, last_use| {
            let operand = |register| RegisterOperand { register: RegisterDescriptor::new(RegFile::General, register), written, last_use };
            operands.extend(registers.map(operand));
        });
        ResourceNeeds { unit: costs.unit_index(item.class), cycles: costs.cycles(item.class), operands }
    }

    /// Calls `visit` for each register group that an item reads, and for each that becomes live if the item issues next. The arguments are
    /// the numbers of the group's general registers, whether the item writes them, and whether this is their last read.
    fn for_each_group(&self, node: u32, mut visit: impl FnMut(Range<u32>, bool, bool)) {
        let Some(groups) = self.groups else { return };
        let registers = |group: u32| self.first_registers[group as usize]..self.first_registers[group as usize + 1];
        for &group in groups.reads(node) {
            let is_last = self.unissued_readers[group as usize] == 1 && !groups.is_used_after(group) && self.is_live[group as usize];
            visit(registers(group), false, is_last);
        }
        for &group in groups.writes(node) {
            if !self.is_live[group as usize] && (groups.is_used_after(group) || self.unissued_readers[group as usize] > 0) {
                visit(registers(group), true, false);
            }
        }
    }

    /// Computes the measurements by which a ready item is compared with other ready items.
    fn evaluate(&self, node: u32) -> ReadyItem {
        let settings = self.analysis.region.settings;
        let free = self.clock.unit_free_cycles.get(self.analysis.unit(node)).copied().unwrap_or(0);
        let mut change = 0;
        self.for_each_group(node, |registers, written, last_use| {
            change += (i32::from(written) - i32::from(last_use)) * registers.len() as i32;
        });
        let pressure = self.pressure();
        let saves = self.groups.is_some() && (settings.mode == ScheduleMode::ReduceReg || pressure > settings.budget.scarce_above);
        ReadyItem {
            node,
            excess: if change > 0 { (pressure + change - settings.budget.registers[0]).max(0) } else { 0 },
            freed: if saves { -change } else { 0 },
            stall: self.earliest[node as usize].max(free).saturating_sub(self.clock.cycle),
            height: self.analysis.heights[node as usize],
        }
    }

    /// Returns the best ready item and the second-best one (runner-up); `None` for the latter if only one item is ready.
    fn two_best_candidates(&self) -> (ReadyItem, Option<ReadyItem>) {
        // Of a long ready list, the items that can issue soonest and have the longest paths are compared in full.
        let mut window: Vec<u32> = self.ready.clone();
        if window.len() > MAX_COMPARED_CANDIDATES {
            let key = |node: &u32| {
                (
                    self.earliest[*node as usize].saturating_sub(self.clock.cycle),
                    std::cmp::Reverse(self.analysis.heights[*node as usize]),
                    *node,
                )
            };
            window.select_nth_unstable_by_key(MAX_COMPARED_CANDIDATES, key);
            window.truncate(MAX_COMPARED_CANDIDATES);
        }
        let (mut best, mut second): (Option<ReadyItem>, Option<ReadyItem>) = (None, None);
        for node in window {
            let candidate = self.evaluate(node);
            if best.is_none_or(|best| candidate.key() < best.key()) {
                second = best.replace(candidate);
            } else if second.is_none_or(|second| candidate.key() < second.key()) {
                second = Some(candidate);
            }
        }
        let Some(best) = best else { unreachable!("an acyclic graph always has a ready item") };
        (best, second)
    }

    /// Issues an item, and records the state that is needed to undo this decision.
    fn issue(&mut self, node: u32, reason: Reason, runner_up: Option<u32>) {
        let resource_needs = self.resource_needs(node);
        let clock = self.clock.clone();
        let undo = self.resources.schedule(&resource_needs, &mut self.resource_slot);
        let mut old_liveness = Vec::new();
        if let Some(groups) = self.groups {
            let live = &mut self.is_live;
            let mut set = |group: u32, value: bool| {
                let old = std::mem::replace(&mut live[group as usize], value);
                if old != value {
                    old_liveness.push((group, old));
                }
            };
            for &group in groups.reads(node) {
                self.unissued_readers[group as usize] -= 1;
                if self.unissued_readers[group as usize] == 0 && !groups.is_used_after(group) {
                    set(group, false);
                }
            }
            for &group in groups.writes(node) {
                if groups.is_used_after(group) || self.unissued_readers[group as usize] > 0 {
                    set(group, true);
                }
            }
        }
        let ready_index = self.ready.iter().position(|&ready| ready == node).unwrap_or(0);
        self.ready.swap_remove(ready_index);
        let item = self.analysis.item(node);
        let at = self.clock.issue(item.class, item.opcode.is_none(), self.earliest[node as usize]);
        let mut step = UndoableDecision {
            node,
            runner_up,
            reason,
            clock,
            old_earliest: Vec::new(),
            ready_index,
            ready_len: self.ready.len(),
            undo,
            old_liveness,
        };
        self.release(node, at, &mut step.old_earliest);
        self.steps.push(step);
    }

    /// Propagates the issue of a node in cycle `at` to its successors, and appends each successor with its old earliest issue cycle to
    /// `changed`. A join whose predecessors have all issued is released at once.
    fn release(&mut self, node: u32, at: u32, changed: &mut Vec<(u32, u32)>) {
        let graph: &'a Graph = self.analysis.region.graph;
        for edge in graph.successors(node) {
            let to = edge.node as usize;
            changed.push((edge.node, self.earliest[to]));
            self.earliest[to] = self.earliest[to].max(at + u32::from(edge.latency));
            self.unissued_predecessors[to] -= 1;
            if self.unissued_predecessors[to] == 0 {
                if to < graph.items() {
                    self.ready.push(edge.node);
                } else {
                    self.release(edge.node, self.earliest[to], changed);
                }
            }
        }
    }

    /// Undoes the last decision. Returns the item, its runner-up and the reason; `None` if no decision is left.
    fn undo_last(&mut self) -> Option<(u32, Option<u32>, Reason)> {
        let step = self.steps.pop()?;
        self.ready.truncate(step.ready_len);
        // This inverts `swap_remove`: the item returns to index `ready_index`, and the item there returns to the end.
        self.ready.push(step.node);
        let last = self.ready.len() - 1;
        self.ready.swap(step.ready_index, last);
        for &(node, earliest) in step.old_earliest.iter().rev() {
            self.earliest[node as usize] = earliest;
            self.unissued_predecessors[node as usize] += 1;
        }
        self.clock = step.clock;
        self.resources.undo(step.undo, &mut self.resource_slot);
        for &(group, old) in step.old_liveness.iter().rev() {
            self.is_live[group as usize] = old;
        }
        if let Some(groups) = self.groups {
            groups.reads(step.node).iter().for_each(|&group| self.unissued_readers[group as usize] += 1);
        }
        Some((step.node, step.runner_up, step.reason))
    }

    /// Returns two figures by which partial orders are compared: the number of general registers by which the budget is exceeded after the
    /// last item, and a lower bound, in cycles, of the length of all completions.
    fn estimate(&self) -> (i32, u32) {
        let path = |&node: &u32| {
            let free = self.clock.unit_free_cycles.get(self.analysis.unit(node)).copied().unwrap_or(0);
            self.earliest[node as usize].max(self.clock.cycle).max(free) + self.analysis.heights[node as usize]
        };
        let length = self.ready.iter().map(path).max().unwrap_or(0).max(self.clock.cycle);
        let left = (self.analysis.region.graph.items() - self.steps.len()) as u32;
        let budget = self.analysis.region.settings.budget.registers[0];
        (if self.groups.is_some() { (self.pressure() - budget).max(0) } else { 0 }, length.max(self.clock.cycle + left))
    }

    /// Issues the best candidate. Then undoes decisions one by one, back to step `from`; after each of them issues its runner-up instead,
    /// and continues by the list schedule. Keeps the first continuation that has a lower estimate; if there is none, repeats the old
    /// decisions. `tries` counts down the continuations.
    fn try_runners_up(&mut self, from: usize, tries: &mut usize, budget: &mut SearchBudget) {
        // The estimate after the greedy step includes the cost of the stall.
        let (best, runner_up) = self.two_best_candidates();
        self.issue(best.node, deciding_criterion(&best, runner_up.as_ref()), runner_up.map(|other| other.node));
        let goal = self.steps.len();
        let old = self.estimate();
        let mut tail: Vec<(u32, Option<u32>, Reason)> = Vec::new();
        while self.steps.len() > from && *tries > 0 {
            let Some(step) = self.undo_last() else { break };
            tail.push(step);
            let Some(other) = step.1.filter(|other| self.ready.contains(other)) else { continue };
            *tries -= 1;
            if budget.step() {
                *tries = 0;
            }
            let at = self.steps.len();
            self.issue(other, Reason::TakenBack, Some(step.0));
            while self.steps.len() < goal {
                let (best, runner_up) = self.two_best_candidates();
                self.issue(best.node, deciding_criterion(&best, runner_up.as_ref()), runner_up.map(|other| other.node));
            }
            if self.estimate() < old {
                return;
            }
            while self.steps.len() > at {
                self.undo_last();
            }
        }
        // No continuation was better: the old decisions are issued again.
        while let Some((node, runner_up, reason)) = tail.pop() {
            self.issue(node, reason, runner_up);
        }
    }

    /// Converts the decisions to a proposal: an order with its length in cycles, its maximum number of live registers, and the reasons.
    fn into_proposal(self, region: &Region<'_>, groups: Option<&BudgetedGroups>) -> ProposedOrder {
        let order = self.steps.iter().map(|step| step.node).collect();
        let mut proposal = ProposedOrder::new(region, groups, order, Reason::OnlyOne);
        let position = |node: u32| region.graph.region.start + node as usize;
        for (pick, step) in proposal.picks.iter_mut().zip(&self.steps) {
            *pick = ScheduleDecision { runner_up: step.runner_up.map(position), reason: step.reason, ..*pick };
        }
        proposal
    }
}

#[cfg(test)]
mod tests {
    use super::super::Knobs;
    use super::super::critical_path::CriticalPath;
    use super::super::engine::testing::TestRegion;
    use super::super::settings::{AllocationStage, Budget};
    use super::*;

    /// Test code: two reciprocals share a unit that takes one every 8 cycles; the one that is ready second has the longer chain after it.
    const TEST_INSTRUCTIONS: [&str; 8] = [
        "FADD R10, R0, R1",
        "MUFU.RCP R20, R0",
        "FADD R21, R20, R1",
        "MUFU.RCP R11, R10",
        "FADD R12, R11, R1",
        "FADD R13, R12, R1",
        "FADD R14, R13, R1",
        "FADD R15, R14, R1",
    ];

    #[test]
    fn a_decision_that_blocks_a_unit_is_taken_back() {
        let mut bench = TestRegion::new(&TEST_INSTRUCTIONS);
        bench.settings.stage = AllocationStage::Post;
        bench.settings.knobs = Knobs { backtrack_stall: 2, ..Knobs::default() };
        let (greedy, _) = bench.run(&CriticalPath, &[], &[]);
        let (schedule, _) = bench.run(&Backtracking, &[], &[]);
        assert!(schedule.length.is_shorter_than(greedy.length), "{:?} instead of {:?}", schedule.length, greedy.length);
        let of = |position| schedule.order.iter().position(|&at| at == position);
        assert!(of(3) < of(1), "{:?}", schedule.order);
        assert!(schedule.picks.iter().any(|pick| pick.reason == Reason::TakenBack));
    }

    #[test]
    fn without_tries_the_order_is_that_of_the_list_scheduler() {
        let mut bench = TestRegion::new(&TEST_INSTRUCTIONS);
        bench.settings.stage = AllocationStage::Post;
        bench.settings.knobs = Knobs { backtrack_tries: 0, ..Knobs::default() };
        let (schedule, _) = bench.run(&Backtracking, &[], &[]);
        assert!(schedule.picks.iter().all(|pick| pick.reason != Reason::TakenBack));
    }

    #[test]
    fn a_dependence_chain_keeps_its_order() {
        let lines = ["MUFU.RCP R10, R0", "MUFU.RCP R11, R10", "MUFU.RCP R12, R11"];
        let (schedule, _) = TestRegion::new(&lines).run(&Backtracking, &[0], &[12]);
        assert_eq!(schedule.order, [0, 1, 2]);
    }

    /// Undoing a decision restores the ready list, the clock, the registers and the units.
    #[test]
    fn taking_back_restores_the_state() {
        let mut bench = TestRegion::new(&TEST_INSTRUCTIONS);
        bench.settings.budget = Budget::UNLIMITED;
        let region = bench.region();
        let mut tracker = PressureTracker::new(bench.code.groups().len());
        tracker.enter_block(&bench.code, 0..8, crate::pressure::BlockLiveness { live_in: &[], live_out: &[] });
        let groups = enter_region(&region, &mut tracker);
        let analysis = RegionAnalysis::new(&region);
        let mut order = UndoableOrder::new(&analysis, groups.as_ref());
        let state = |order: &UndoableOrder<'_, '_>| {
            let figures = (
                order.clock.cycle,
                order.clock.unit_free_cycles,
                order.resource_slot,
                order.is_live.clone(),
                order.unissued_readers.clone(),
            );
            (order.ready.clone(), order.earliest.clone(), order.unissued_predecessors.clone(), figures)
        };
        let mut states = Vec::new();
        for _ in 0..TEST_INSTRUCTIONS.len() {
            states.push(state(&order));
            let (best, _) = order.two_best_candidates();
            order.issue(best.node, Reason::OnlyOne, None);
        }
        assert!(order.ready.is_empty());
        while let Some(before) = states.pop() {
            order.undo_last();
            assert_eq!(state(&order), before);
        }
    }
}
