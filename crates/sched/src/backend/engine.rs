//! The list scheduler that is shared by all strategies which only differ in a priority function.
//!
//! Input: a region and a [`Priority`]. Output: a [`ProposedOrder`]: an order with its length, its registers and the reason of each decision.
//!
//! At each step the engine compares a window of the ready list: for each unit the available items with the highest [`Priority::rank`]; the
//! items that come first in the original order; and the items whose operands arrive next. Two criteria come before those of the strategy,
//! because every order must fit into the registers: an item that exceeds the register budget loses, and while registers are scarce, or in
//! mode `reduce-reg`, the item that leaves more of them free wins. The strategy's own criteria ([`Priority::criterion_values`]) follow,
//! then the original order.
//!
//! Example with the criteria "stall cycles, then critical path" and three ready items:
//!
//! ```text
//! item                 stall  critical path
//! FADD R3, R10, R0       12         8          loses: it waits for a load
//! LDG  R11, [R4]          0       310          issues: no stall, longest path
//! FADD R0, R1, R2         0        12          runner-up; the reason is the critical path
//! ```
//!
//! The window has a fixed size, so a region of *n* items takes O(n log n) time.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeSet, BinaryHeap};

use oriole_hardware::units::UNITS;

use super::clock::{Clock, Length, estimate, issue_slot_lower_bound, release};
use super::ports::{self, PortUse, measure_order};
use super::reason::Reason;
use super::schedule::{Schedule, ScheduleDecision, SearchOutcome};
use super::settings::{AllocationStage, ScheduleMode};
use super::strategy::Region;
use super::weighted::registers::{BudgetedGroups, KnownChanges, LiveRegisterCounter};
use super::weighted::view::Direction;
use crate::code::Item;
use crate::pressure::{PressureCounts, PressureTracker};

/// Maximum number of criteria by which a strategy compares candidates.
pub(super) const MAX_CRITERIA: usize = 5;
/// Numbers of ready items to compare per step: those of the highest [`Priority::rank`] on each free unit, those that are first in the
/// original order, and those whose operands in flight arrive first.
const COMPARED_ITEMS_PER_QUEUE: (usize, usize, usize) = (8, 8, 8);
/// Number of ready items of a busy unit to compare per step. More of them would leave no room for items that need not wait.
const COMPARED_ITEMS_OF_BUSY_UNIT: usize = 2;
/// Maximum number of successors of an item to examine when counting those that become ready. It bounds the time of a step.
const MAX_EXAMINED_SUCCESSORS: usize = 16;
/// Minimum latency, in cycles, of an item that should issue early so that other items hide its latency.
pub(super) const MIN_LONG_LATENCY_CYCLES: u32 = crate::space::LONG_LATENCY_CYCLES as u32 + 1;

/// Properties of a region that do not depend on the order of its items: critical paths and scoreboard use. Vectors are indexed by node of
/// the dependency graph.
pub(super) struct RegionAnalysis<'a> {
    /// The analyzed region.
    pub region: Region<'a>,
    /// Critical path from the issue of each node to the end of the region, in cycles.
    pub heights: Vec<u32>,
    /// For each item, whether an item that depends on it waits for its scoreboard.
    pub sets_scoreboard: Vec<bool>,
}

impl<'a> RegionAnalysis<'a> {
    /// Computes critical paths and scoreboard use of a region.
    pub(super) fn new(region: &Region<'a>) -> RegionAnalysis<'a> {
        let graph = region.graph;
        let nodes = 0..graph.items() as u32;
        RegionAnalysis {
            region: *region,
            heights: graph.heights(),
            sets_scoreboard: nodes.map(|node| graph.successors(node).iter().any(|edge| edge.scoreboard)).collect(),
        }
    }

    /// Returns the item that a graph node stands for.
    pub(super) fn item(&self, node: u32) -> &'a Item {
        &self.region.code.items[self.region.graph.region.start + node as usize]
    }

    /// Returns the index of the functional unit that executes the item of a node; [`UNITS`] for a pseudo operation.
    pub(super) fn unit(&self, node: u32) -> usize {
        let item = self.item(node);
        if item.opcode.is_some() { self.region.costs.unit_index(item.class) } else { UNITS }
    }
}

/// A ready item, with the measurements that the criteria of a priority function compare.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    /// Node of the item in the dependency graph.
    pub node: u32,
    /// Cycles that the warp stalls if the item issues next.
    pub stall: u32,
    /// Critical path from the issue of the item to the end of the region, in cycles.
    pub height: u32,
    /// Number of successors that become ready when the item issues. Only the first few successors are examined, which bounds the time.
    pub newly_ready: u32,
    /// Change of the number of live registers of each class if the item issues next; zeros after register allocation.
    pub pressure_change: PressureCounts,
    /// Step at which the latest predecessor of the item issued, counted from 1; 0 if the item has no predecessors.
    pub last_predecessor_step: u32,
    /// Whether an item that depends on this one waits for its scoreboard.
    pub sets_scoreboard: bool,
    /// Whether the item waits for the scoreboard of an earlier item.
    pub awaits_scoreboard: bool,
    /// Number of scoreboards that instructions in flight hold.
    pub scoreboards_in_use: usize,
    /// Whether the item can issue in the same cycle as the previous instruction (dual issue).
    pub can_dual_issue: bool,
    /// Number of the current step, from 1.
    pub step: u32,
}

/// A priority function of the list scheduler: the criteria by which it chooses among ready items.
pub(super) trait Priority {
    /// The reason that a trace gives for each criterion of [`Priority::criterion_values`], in the same order.
    const CRITERION_REASONS: &'static [Reason];

    /// Returns the rank by which ready items are preselected: of the available items of each unit, a step compares those with the highest
    /// ranks. The default is the critical path.
    fn rank(&self, analysis: &RegionAnalysis<'_>, node: u32) -> i64 {
        analysis.heights[node as usize].into()
    }

    /// Returns the value of each criterion. The first criterion in which two candidates differ decides; the higher value wins.
    fn criterion_values(&self, analysis: &RegionAnalysis<'_>, candidate: &Candidate) -> [i64; MAX_CRITERIA];

    /// Called when a candidate has issued, so that the priority can depend on earlier decisions.
    fn on_issue(&mut self, _analysis: &RegionAnalysis<'_>, _candidate: &Candidate) {}
}

/// An order of a region, with its length and its maximum number of live registers.
#[derive(Clone, Default, Debug)]
pub(super) struct ProposedOrder {
    /// Nodes of the items, in issue order.
    pub order: Vec<u32>,
    /// The decisions with their reasons, in issue order; empty if tracing is off.
    pub picks: Vec<ScheduleDecision>,
    /// Length of the order by the cost model of issue ([`super::clock`]), in cycles.
    pub length: Length,
    /// Maximum number of live registers of each class; zeros after register allocation.
    pub peak: PressureCounts,
}

impl ProposedOrder {
    /// Returns the original order of a region as a proposal.
    pub(super) fn original(region: &Region<'_>, groups: Option<&BudgetedGroups>, reason: Reason) -> ProposedOrder {
        ProposedOrder::new(region, groups, (0..region.graph.items() as u32).collect(), reason)
    }

    /// Creates the proposal of a given order: measures its length and its live registers. Every decision in the trace gets the same reason.
    pub(super) fn new(region: &Region<'_>, groups: Option<&BudgetedGroups>, order: Vec<u32>, reason: Reason) -> ProposedOrder {
        let start = region.graph.region.start;
        let length = estimate(region.code, region.graph, region.costs, order.iter().map(|&node| start + node as usize));
        let mut proposal = ProposedOrder { peak: peak_of_order(groups, &order), order, picks: Vec::new(), length };
        if region.settings.trace {
            let cycles = issue_cycles(region, &proposal.order);
            let pick = |(&node, &cycle): (&u32, &u32)| ScheduleDecision { picked: start + node as usize, runner_up: None, reason, cycle };
            proposal.picks = proposal.order.iter().zip(&cycles).map(pick).collect();
        }
        proposal
    }

    /// Returns the number of registers above the budget, summed over all classes.
    pub(super) fn excess(&self, region: &Region<'_>) -> i32 {
        excess(&self.peak, region)
    }

    /// Returns the three numbers by which two orders are compared, lexicographically; lower is better. The first is the number of registers
    /// above the budget, the second the cycles of [`ProposedOrder::length`] (issued plus done), the third the maximum number of live general
    /// registers. In mode `reduce-reg` live registers come before cycles.
    pub(super) fn cost(&self, region: &Region<'_>) -> (i32, u32, u32) {
        let cycles = self.length.issued + self.length.done;
        let registers = self.peak[0].max(0) as u32;
        let (first, second) = if region.settings.mode == ScheduleMode::ReduceReg { (registers, cycles) } else { (cycles, registers) };
        (self.excess(region), first, second)
    }

    /// Returns whether the order should replace the original order `source`: it is shorter, or in mode `reduce-reg` has the lower
    /// [`ProposedOrder::cost`]. A shorter order is accepted even if it exceeds the register budget: the caller then tries again with fewer
    /// registers, and knows that more registers would save time.
    pub(super) fn improves_on(&self, source: &ProposedOrder, region: &Region<'_>) -> bool {
        if region.settings.mode == ScheduleMode::ReduceReg {
            return self.cost(region) < source.cost(region);
        }
        self.length.is_shorter_than(source.length)
    }

    /// Returns whether the order has more live general registers than the scarcity threshold ([`Budget::scarce_above`]).
    pub(super) fn exceeds_scarcity(&self, region: &Region<'_>) -> bool {
        self.peak[0] > region.settings.budget.scarce_above
    }

    /// Converts the proposal to a schedule, and moves the tracker of live registers to the end of the region.
    pub(super) fn into_schedule(self, region: &Region<'_>, tracker: &mut PressureTracker, search: SearchOutcome) -> Schedule {
        let start = region.graph.region.start;
        let order: Vec<usize> = self.order.iter().map(|&node| start + node as usize).collect();
        order.iter().for_each(|&position| tracker.step(region.code, &region.code.items[position]));
        Schedule {
            exceeded_scarcity: self.peak[0] > region.settings.budget.scarce_above,
            order,
            length: self.length,
            picks: self.picks,
            search,
        }
    }
}

/// Prepares the tracker of live registers for the region. Returns the register groups (live ranges) of the region; `None` after register
/// allocation.
pub(super) fn enter_region(region: &Region<'_>, tracker: &mut PressureTracker) -> Option<BudgetedGroups> {
    tracker.enter_region(region.code, region.graph.region.clone());
    (region.settings.stage == AllocationStage::Pre).then(|| BudgetedGroups::new(region.code, region.graph, tracker))
}

/// Returns the number of registers by which the maxima `peak` exceed the budget, summed over all register classes.
pub(super) fn excess(peak: &PressureCounts, region: &Region<'_>) -> i32 {
    peak.iter().zip(region.settings.budget.registers).map(|(peak, budget)| (peak - budget).max(0)).sum()
}

/// Returns the maximum number of live registers of each class for an order of nodes; zeros after register allocation.
pub(super) fn peak_of_order(groups: Option<&BudgetedGroups>, order: &[u32]) -> PressureCounts {
    groups.map_or([0; 4], |groups| {
        let mut live = LiveRegisterCounter::new(groups, Direction::Forward);
        order.iter().for_each(|&node| live.step(node, &mut |_| {}));
        live.peak()
    })
}

/// Returns the issue cycle of each item of an order, counted from the start of the region, in the sequence of the order.
pub(super) fn issue_cycles(region: &Region<'_>, order: &[u32]) -> Vec<u32> {
    let Region { code, graph, costs, .. } = *region;
    let (mut earliest, mut left, mut clock) = (graph.start_cycles(), graph.predecessor_counts().to_vec(), Clock::new(costs));
    let issue = |&node: &u32| {
        let item = &code.items[graph.region.start + node as usize];
        let at = clock.issue(item.class, item.opcode.is_none(), earliest[node as usize]);
        release(graph, node, at, &mut earliest, &mut left, &mut |_| {});
        at
    };
    order.iter().map(issue).collect()
}

/// Measures orders of a region by the cycles until the region can be left and until its results are available.
pub(super) struct OrderMeter<'a> {
    /// The region.
    region: Region<'a>,
    /// For each item, the number of cycles from its issue until its results are available after the region.
    tails: Vec<u32>,
    /// For each item, its use of the read ports of the register file; empty before register allocation.
    ports: Vec<PortUse>,
}

impl<'a> OrderMeter<'a> {
    /// Prepares the measurement of orders of a region.
    pub(super) fn new(region: &Region<'a>) -> OrderMeter<'a> {
        let Region { code, graph, costs, settings, .. } = *region;
        let ports = if settings.stage == AllocationStage::Post { ports::ports_of_region(code, graph, costs) } else { Vec::new() };
        OrderMeter { region: *region, tails: ports::tails(code, graph), ports }
    }

    /// Returns the sum of two numbers of cycles, both counted from the start of the region: until the scheduling barrier after the region
    /// can issue, and until all results are available. After register allocation both include cycles lost by register bank conflicts.
    pub(super) fn exit_plus_done_cycles(&self, order: &[u32]) -> u32 {
        let Region { code, graph, costs, .. } = self.region;
        let found = measure_order(code, graph, costs, (&self.tails, &self.ports), order.iter().copied());
        found.exit_cycle + found.length.done
    }

    /// Returns a lower bound of [`OrderMeter::exit_plus_done_cycles`] for all orders: each instruction takes an issue slot and comes after
    /// its dependences. Units and read ports are left out, because they can only make orders longer. On a machine with dual issue the bound
    /// is 0, because two instructions can share an issue slot there.
    pub(super) fn lower_bound(&self) -> u32 {
        let Region { code, graph, costs, .. } = self.region;
        if costs.dual_issue() {
            return 0;
        }
        let heads = graph.depths();
        // Cycles from the issue of each node until the region can be left, and until all results are available.
        let mut to_exit = vec![1; graph.nodes()];
        let mut to_end = vec![1; graph.nodes()];
        let (mut exit, mut done) = (0, 0);
        let mut slots = Vec::with_capacity(graph.items());
        for &node in graph.order.iter().rev() {
            let index = node as usize;
            let is_item = index < graph.items();
            if is_item {
                (to_exit[index], to_end[index]) = (graph.barrier_latency(node).max(1), self.tails[index].max(1));
            }
            for edge in graph.successors(node) {
                let latency = u32::from(edge.latency);
                to_exit[index] = to_exit[index].max(to_exit[edge.node as usize] + latency);
                to_end[index] = to_end[index].max(to_end[edge.node as usize] + latency);
            }
            if is_item && code.items[graph.region.start + index].opcode.is_some() {
                slots.push((heads[index], to_exit[index], to_end[index]));
            } else if is_item {
                (exit, done) = (exit.max(heads[index] + to_exit[index]), done.max(heads[index] + to_end[index]));
            }
        }
        slots.sort_unstable_by_key(|slot| slot.0);
        let mut available = BinaryHeap::new();
        exit = exit.max(issue_slot_lower_bound(&slots, &mut available, |slot| slot.1));
        done = done.max(issue_slot_lower_bound(&slots, &mut available, |slot| slot.2));
        exit + done
    }
}

/// State of the list scheduler. Vectors are indexed by node.
struct PriorityListScheduler<'a, 'g> {
    /// Critical paths and scoreboard use of the region.
    analysis: &'a RegionAnalysis<'a>,
    /// The live registers after the issued items, with the changes that ready items would make; `None` after register allocation.
    live: Option<(LiveRegisterCounter<'g>, KnownChanges)>,
    /// State of the simulated issue pipeline: current cycle, busy units, scoreboards in use.
    clock: Clock<'a>,
    /// For each node, the first cycle in which its operands are available.
    earliest: Vec<u32>,
    /// For each node, the number of predecessors that have not issued.
    unissued_predecessors: Vec<u32>,
    /// For each node, the step at which its latest predecessor issued, counted from 1; 0 if none has issued.
    last_predecessor_step: Vec<u32>,
    /// For each node, whether it waits for the scoreboard of an issued item.
    awaits_scoreboard: Vec<bool>,
    /// For each unit, and for pseudo operations, the ready items whose operands are available, each with its rank. The highest rank comes
    /// first.
    available: [BTreeSet<(Reverse<i64>, u32)>; UNITS + 1],
    /// All ready items, in the original order.
    by_position: BTreeSet<u32>,
    /// Ready items whose operands are not available yet, each with the cycle in which its operands arrive. The earliest cycle comes first.
    waiting: BTreeSet<(u32, u32)>,
    /// Number of the current step, counted from 1.
    step: u32,
}

/// Schedules a region by a priority function. Returns the order with its length and its maximum number of live registers.
pub(super) fn run(analysis: &RegionAnalysis<'_>, groups: Option<&BudgetedGroups>, priority: &mut impl Priority) -> ProposedOrder {
    let graph = analysis.region.graph;
    let mut engine = PriorityListScheduler {
        analysis,
        live: groups.map(|groups| (LiveRegisterCounter::new(groups, Direction::Forward), KnownChanges::new(graph.nodes()))),
        clock: Clock::new(analysis.region.costs),
        earliest: graph.start_cycles(),
        unissued_predecessors: graph.predecessor_counts().to_vec(),
        last_predecessor_step: vec![0; graph.nodes()],
        awaits_scoreboard: vec![false; graph.nodes()],
        available: [const { BTreeSet::new() }; UNITS + 1],
        by_position: BTreeSet::new(),
        waiting: BTreeSet::new(),
        step: 1,
    };
    let mut proposal = ProposedOrder { order: Vec::with_capacity(graph.items()), ..ProposedOrder::default() };
    (0..graph.items() as u32).filter(|&node| graph.predecessor_counts()[node as usize] == 0).for_each(|node| engine.insert(node, priority));
    while proposal.order.len() < graph.items() {
        let (best, runner_up) = engine.pick(priority);
        let at = engine.issue(&best, priority);
        proposal.length.add(at, graph.tail(best.node));
        proposal.order.push(best.node);
        if analysis.region.settings.trace {
            let position = |node: u32| graph.region.start + node as usize;
            let reason = runner_up.map_or(Reason::OnlyOne, |(_, reason)| reason);
            let runner_up = runner_up.map(|(node, _)| position(node));
            proposal.picks.push(ScheduleDecision { picked: position(best.node), runner_up, reason, cycle: at });
        }
    }
    proposal.peak = engine.live.as_ref().map_or([0; 4], |(live, _)| live.peak());
    proposal
}

impl PriorityListScheduler<'_, '_> {
    /// Adds an item to the ready items: to `available` if its operands are available, otherwise to `waiting`.
    fn insert(&mut self, node: u32, priority: &impl Priority) {
        self.by_position.insert(node);
        let earliest = self.earliest[node as usize];
        if earliest > self.clock.cycle {
            self.waiting.insert((earliest, node));
        } else {
            self.available[self.analysis.unit(node)].insert((Reverse(priority.rank(self.analysis, node)), node));
        }
    }

    /// Moves the items whose operands have arrived from `waiting` to `available`.
    fn move_arrived_items(&mut self, priority: &impl Priority) {
        while let Some(&(earliest, node)) = self.waiting.first().filter(|entry| entry.0 <= self.clock.cycle) {
            self.waiting.remove(&(earliest, node));
            self.available[self.analysis.unit(node)].insert((Reverse(priority.rank(self.analysis, node)), node));
        }
    }

    /// Returns the best candidate, and the runner-up with the criterion that decided between the two. The runner-up is exact only if
    /// decisions are traced.
    fn pick(&mut self, priority: &impl Priority) -> (Candidate, Option<(u32, Reason)>) {
        self.move_arrived_items(priority);
        let by_rank = self.available.iter().enumerate().flat_map(|(unit, available)| {
            let is_busy = self.clock.unit_free_cycles.get(unit).is_some_and(|&free| free > self.clock.cycle);
            available.iter().take(if is_busy { COMPARED_ITEMS_OF_BUSY_UNIT } else { COMPARED_ITEMS_PER_QUEUE.0 }).map(|&(_, node)| node)
        });
        let by_position = self.by_position.iter().take(COMPARED_ITEMS_PER_QUEUE.1).copied();
        let by_time = self.waiting.iter().take(COMPARED_ITEMS_PER_QUEUE.2).map(|&(_, node)| node);
        let mut window: Vec<u32> = by_rank.chain(by_position).chain(by_time).collect();
        window.sort_unstable();
        window.dedup();
        let settings = self.analysis.region.settings;
        let live = self.live.as_ref().map_or([0; 4], |(live, _)| live.counts());
        let saves = self.live.is_some() && (settings.mode == ScheduleMode::ReduceReg || live[0] > settings.budget.scarce_above);
        let mut best: Option<(Candidate, CriterionValues)> = None;
        let mut second: Option<(Candidate, CriterionValues)> = None;
        for node in window {
            let candidate = self.candidate(node);
            let over = |class: usize| live[class] + candidate.pressure_change[class] - settings.budget.registers[class];
            let taken = (0..candidate.pressure_change.len()).filter(|&class| candidate.pressure_change[class] > 0);
            let excess = taken.map(over).max().unwrap_or(0).max(0);
            let freed = if saves { -candidate.pressure_change[0] } else { 0 };
            let values = CriterionValues {
                register_values: [(-excess).into(), freed.into()],
                strategy_values: priority.criterion_values(self.analysis, &candidate),
            };
            if best.as_ref().is_none_or(|(_, best)| values.cmp(best).is_gt()) {
                second = best.replace((candidate, values));
            } else if settings.trace && second.as_ref().is_none_or(|(_, second)| values.cmp(second).is_gt()) {
                second = Some((candidate, values));
            }
        }
        let Some((best, values)) = best else { unreachable!("an acyclic graph always has a ready item") };
        let runner_up = second.map(|(other, less)| (other.node, values.reason(&less, priority_reasons(priority))));
        (best, runner_up)
    }

    /// Computes the measurements by which a ready item is compared with other ready items.
    fn candidate(&mut self, node: u32) -> Candidate {
        let (analysis, index) = (self.analysis, node as usize);
        let graph = analysis.region.graph;
        let unit = analysis.unit(node);
        let free = self.clock.unit_free_cycles.get(unit).copied().unwrap_or(0);
        Candidate {
            node,
            stall: self.earliest[index].max(free).saturating_sub(self.clock.cycle),
            height: analysis.heights[index],
            newly_ready: graph
                .successors(node)
                .iter()
                .take(MAX_EXAMINED_SUCCESSORS)
                .filter(|edge| self.unissued_predecessors[edge.node as usize] == 1)
                .count() as u32,
            pressure_change: self.live.as_mut().map_or([0; 4], |(live, changes)| changes.of(node, live)),
            last_predecessor_step: self.last_predecessor_step[index],
            sets_scoreboard: analysis.sets_scoreboard[index],
            awaits_scoreboard: self.awaits_scoreboard[index],
            scoreboards_in_use: self.clock.scoreboards_in_use(),
            can_dual_issue: analysis.item(node).opcode.is_some()
                && self.clock.dual_issue_cycle(analysis.item(node).class, self.earliest[index]).is_some(),
            step: self.step,
        }
    }

    /// Issues a candidate and returns its issue cycle.
    fn issue(&mut self, best: &Candidate, priority: &mut impl Priority) -> u32 {
        let (analysis, graph, node) = (self.analysis, self.analysis.region.graph, best.node);
        let earliest = self.earliest[node as usize];
        self.by_position.remove(&node);
        if !self.waiting.remove(&(earliest, node)) {
            self.available[analysis.unit(node)].remove(&(Reverse(priority.rank(analysis, node)), node));
        }
        let item = analysis.item(node);
        let at = self.clock.issue(item.class, item.opcode.is_none(), earliest);
        priority.on_issue(analysis, best);
        if let Some((live, changes)) = &mut self.live {
            changes.step(node, live);
        }
        let mut until = None;
        for edge in graph.successors(node) {
            self.last_predecessor_step[edge.node as usize] = self.step;
            if edge.scoreboard {
                self.awaits_scoreboard[edge.node as usize] = true;
                until = until.max(Some(at + u32::from(edge.latency)));
            }
        }
        if let Some(until) = until {
            self.clock.hold_scoreboard(until);
        }
        self.step += 1;
        let mut released = Vec::new();
        release(graph, node, at, &mut self.earliest, &mut self.unissued_predecessors, &mut |node| released.push(node));
        released.into_iter().for_each(|node| self.insert(node, priority));
        at
    }
}

/// Returns the reasons for the criteria of a priority function.
fn priority_reasons<P: Priority>(_: &P) -> &'static [Reason] {
    P::CRITERION_REASONS
}

/// The values of all criteria of a candidate. The candidate with the lexicographically greatest values wins.
struct CriterionValues {
    /// The register criteria, which come first: negated number of registers above the budget, and number of registers freed while they are
    /// scarce.
    register_values: [i64; 2],
    /// The criteria of the strategy ([`Priority::criterion_values`]).
    strategy_values: [i64; MAX_CRITERIA],
}

impl CriterionValues {
    /// Compares the values lexicographically, register criteria first.
    fn cmp(&self, other: &CriterionValues) -> Ordering {
        self.register_values.cmp(&other.register_values).then(self.strategy_values.cmp(&other.strategy_values))
    }

    /// Returns the reason for the first criterion in which this candidate differs from the candidate with the lower values `less`.
    fn reason(&self, less: &CriterionValues, strategy_reasons: &[Reason]) -> Reason {
        const REGISTER_REASONS: [Reason; 2] = [Reason::PressureOverflow, Reason::Registers];
        let register_terms = REGISTER_REASONS.iter().zip(self.register_values.iter().zip(less.register_values));
        let strategy_terms = strategy_reasons.iter().zip(self.strategy_values.iter().zip(less.strategy_values));
        register_terms.chain(strategy_terms).find(|(_, (value, less))| *value != less).map_or(Reason::Position, |(reason, _)| *reason)
    }
}

/// Expands to the reasons that a strategy may give: the listed ones, and those that every strategy of this list scheduler may give.
macro_rules! engine_reasons {
    ($($own:ident),* $(,)?) => {
        &[Reason::OnlyOne, Reason::PressureOverflow, Reason::Registers, Reason::Position, $(Reason::$own),*]
    };
}
pub(super) use engine_reasons;

/// Schedules a region by a priority function. The tracker of live registers must be at the start of the region, and is at its end
/// afterwards.
pub(super) fn schedule_by(region: &Region<'_>, tracker: &mut PressureTracker, priority: &mut impl Priority) -> Schedule {
    let groups = enter_region(region, tracker);
    let analysis = RegionAnalysis::new(region);
    run(&analysis, groups.as_ref(), priority).into_schedule(region, tracker, SearchOutcome::None)
}

#[cfg(test)]
pub(super) mod testing {
    //! Helpers for the tests of strategies.

    use super::super::settings::{Budget, Settings};
    use super::super::strategy::{CarriedEdge, Strategy};
    use super::super::{Knobs, estimate};
    use super::*;
    use crate::check;
    use crate::code::{SchedCode, from_machine};
    use crate::graph::{Graph, GraphBuilder};
    use crate::pressure::BlockLiveness;
    use crate::resource::ResourceCosts;
    use oriole_hardware::{Model, Profile};
    use oriole_isa::{RegFile, Target, parse};

    /// A test program for strategies: one region on sm_90a.
    pub(in super::super) struct TestRegion {
        /// The items of the region.
        pub code: SchedCode,
        /// The dependency graph of the region.
        pub graph: Graph,
        /// For each instruction class, its functional unit and the cycles for which an instruction occupies the unit.
        pub costs: ResourceCosts,
        /// Optimization goal, stage, register budget and numeric parameters; tests change them.
        pub settings: Settings,
        /// Dependences on the previous iteration, if the region is a loop body.
        pub carried: Vec<CarriedEdge>,
    }

    impl TestRegion {
        /// Parses the instructions of the region. All settings have their default values, and decisions are traced.
        pub(in super::super) fn new(lines: &[&str]) -> TestRegion {
            let target = Target::parse("sm_90a").unwrap();
            let code = from_machine::code(&lines.iter().map(|line| parse(line).unwrap()).collect::<Vec<_>>());
            let graph = GraphBuilder::new(Model::of(target), code.registers()).build(&code, 0..code.items.len());
            let settings = Settings {
                mode: ScheduleMode::Ilp,
                stage: AllocationStage::Pre,
                budget: Budget::UNLIMITED,
                knobs: Knobs::default(),
                warps_in_step: 1,
                trace: true,
            };
            TestRegion { code, graph, costs: ResourceCosts::new(&Profile::of(target)), settings, carried: Vec::new() }
        }

        /// Returns the region as strategies see it.
        pub(in super::super) fn region(&self) -> Region<'_> {
            Region { code: &self.code, graph: &self.graph, costs: &self.costs, settings: &self.settings, carried: &self.carried }
        }

        /// Schedules the code with and without a trace. Checks the order, the length and the reasons. Returns the schedule and the
        /// maximum number of live general registers.
        pub(in super::super) fn run(&self, strategy: &dyn Strategy, live_in: &[u16], live_out: &[u16]) -> (Schedule, i32) {
            let numbers =
                |list: &[u16]| list.iter().filter_map(|&number| from_machine::register(RegFile::General, number)).collect::<Vec<_>>();
            let (live_in, live_out) = (numbers(live_in), numbers(live_out));
            let scheduled = |trace| {
                let mut tracker = PressureTracker::new(self.code.groups().len());
                tracker.enter_block(&self.code, 0..self.code.items.len(), BlockLiveness { live_in: &live_in, live_out: &live_out });
                let settings = Settings { trace, ..self.settings };
                let schedule = strategy.scheduler()(&Region { settings: &settings, ..self.region() }, &mut tracker);
                (schedule, tracker)
            };
            let (schedule, tracker) = scheduled(true);
            let (untraced, _) = scheduled(false);
            assert_eq!((&untraced.order, untraced.picks.len()), (&schedule.order, 0), "a trace changes nothing, and is not made unasked");
            assert_eq!(check::check(&self.code, 0..self.code.items.len(), &schedule.order), Ok(()));
            assert_eq!(schedule.length, estimate(&self.code, &self.graph, &self.costs, schedule.order.iter().copied()));
            assert!(schedule.picks.iter().map(|pick| pick.picked).eq(schedule.order.iter().copied()));
            assert!(schedule.picks.iter().all(|pick| strategy.reasons().contains(&pick.reason)), "{:?}", schedule.picks);
            (schedule, tracker.peak()[0])
        }

        /// Returns the length of the original order, in cycles.
        pub(in super::super) fn original_length(&self) -> Length {
            estimate(&self.code, &self.graph, &self.costs, 0..self.code.items.len())
        }
    }
}
