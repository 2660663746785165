//! One list scheduling pass over a region, forward or backward.
//!
//! Input: a [`DirectedGraph`] of the dependency graph in the direction of the pass, and the weights. Output: the items in issue order, with
//! a trace on request. At each step, the window of the ready list is scored and the item with the highest score is placed in the first
//! possible cycle. Cycles count from the boundary of the region at which the pass starts.
//!
//! Example of a backward pass: `L: LDG R4`, `A: FADD R5, R4, R4` with a load latency of 30 cycles, and `R5` needed 4 cycles after the issue
//! of A. A is placed in cycle 4 from the end. L becomes ready when A, its last reader, is placed, and is placed in cycle 34 from the end.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use oriole_hardware::units::UNITS;

use super::super::reason::Reason;
use super::super::schedule::ScheduleDecision;
use super::super::settings::Settings;
use super::ready::{CANDIDATES_BY_CRITICAL_PATH, ReadyEntry, ReadyList};
use super::registers::{BudgetedGroups, LiveRegisterCounter};
use super::score::{CandidateScore, ScoreMeasures, ScoreWeights};
use super::view::{DirectedGraph, Direction};
use crate::code::{Item, REGISTER_CLASS_COUNT, SchedCode};
use crate::graph::Graph;
use crate::resource::ResourceCosts;

/// Number of candidates for which a pass reserves memory.
const TYPICAL_WINDOW_LENGTH: usize = 32;

/// Result of a list scheduling pass.
pub(super) struct PassResult {
    /// Nodes of the items, in issue order.
    pub order: Vec<u32>,
    /// The decisions with their reasons, in issue order; empty if tracing is off.
    pub picks: Vec<ScheduleDecision>,
}

/// The functional unit that an item uses, and for how long.
#[derive(Clone, Copy)]
pub(super) struct UnitUse {
    /// Index of the unit of the item's class. A pseudo operation has a class, too, but does not occupy the unit.
    unit: u8,
    /// Whether the item is a pseudo operation, which takes no issue slot.
    is_pseudo: bool,
    /// Number of cycles for which the item keeps the unit busy.
    cycles: u16,
}

impl UnitUse {
    /// Returns the unit use of each item of a region.
    pub(super) fn of_region(code: &SchedCode, graph: &Graph, costs: &ResourceCosts) -> Vec<UnitUse> {
        let work = |item: &Item| UnitUse {
            unit: costs.unit_index(item.class) as u8,
            is_pseudo: item.opcode.is_none(),
            cycles: costs.cycles(item.class).max(1) as u16,
        };
        code.items[graph.region.clone()].iter().map(work).collect()
    }
}

/// State of a list scheduling pass. Vectors are indexed by node.
pub(super) struct SchedulingPass<'a> {
    /// The dependency graph in the direction of the pass.
    view: DirectedGraph<'a>,
    /// For each item, its functional unit and the cycles for which it occupies the unit.
    unit_uses: &'a [UnitUse],
    /// Number of scoreboards of a warp.
    scoreboards: usize,
    /// Optimization goal (mode), register budget and numeric parameters (knobs).
    settings: &'a Settings,
    /// The weights of the parts of a candidate's score.
    weights: &'a ScoreWeights,
    /// The live registers at the current position; `None` after register allocation.
    live: Option<LiveRegisterCounter<'a>>,
    /// For each item, the measures that do not depend on the current position, and for each ready item also its change of live registers.
    measures: Vec<ScoreMeasures>,
    /// The ready items.
    ready: ReadyList,
    /// First cycle in which the next item can be placed.
    cycle: u32,
    /// For each unit, `None` if unused so far; in the forward pass the first cycle in which it is free, in the backward pass the cycle of
    /// the item placed last on it.
    unit_cycles: [Option<u32>; UNITS],
    /// Forward pass: completion cycles of in-flight instructions that hold a scoreboard, earliest first.
    in_flight: BinaryHeap<Reverse<u32>>,
    /// Number of ready items that set a scoreboard. In the backward pass, the readers of these items are placed and the items are not, so
    /// this is the number of results in flight at the current position.
    ready_scoreboard_setters: usize,
    // The next four vectors are buffers that are kept to avoid allocations at each step.
    /// Ranks (positions in the original order, in the direction of the pass) of the candidates of the current step.
    window: Vec<u32>,
    /// For each candidate of the window, its stall cycles.
    stalls: Vec<u32>,
    /// Nodes that became ready in the current step.
    newly_ready: Vec<u32>,
    /// Nodes whose change of live registers may differ after the current step.
    changed: Vec<u32>,
}

/// A candidate of the current step (an item of the window), with its score.
#[derive(Clone, Copy)]
struct ScoredItem {
    /// Position of the item in the original order, counted in the direction of the pass.
    rank: u32,
    /// The score of the item.
    score: CandidateScore,
}

impl ScoredItem {
    /// Returns whether the candidate is better than `other`; the lower rank breaks ties. Every candidate is better than none.
    fn beats(&self, other: Option<&ScoredItem>) -> bool {
        other.is_none_or(|other| self.score.beats(&other.score).unwrap_or(self.rank < other.rank))
    }
}

impl<'a> SchedulingPass<'a> {
    /// Creates a pass. `scoreboards` is the number of scoreboards of a warp. `groups` is `None` after register allocation. `forward_cycles`
    /// has the issue cycles that the forward pass found; it is `None` if this is the forward pass.
    pub(super) fn new(
        view: DirectedGraph<'a>,
        (unit_uses, scoreboards): (&'a [UnitUse], usize),
        settings: &'a Settings,
        weights: &'a ScoreWeights,
        groups: Option<&'a BudgetedGroups>,
        forward_cycles: Option<&[u32]>,
    ) -> SchedulingPass<'a> {
        let items = view.graph.items();
        let longest = f64::from(view.critical_path.iter().copied().max().unwrap_or(0).max(1));
        let last_forward = f64::from(forward_cycles.and_then(|cycles| cycles.iter().copied().max()).unwrap_or(0).max(1));
        let measures = |node: usize| ScoreMeasures {
            pressure_change: [0; REGISTER_CLASS_COUNT],
            path_penalty: ScoreWeights::path_penalty(f64::from(view.critical_path[node]) / longest),
            extra_stall: 0,
            worsens_scoreboard_shortage: false,
            forward_position: forward_cycles.map_or(0.0, |cycles| f64::from(cycles[node]) / last_forward),
        };
        SchedulingPass {
            unit_uses,
            scoreboards,
            settings,
            weights,
            live: groups.map(|groups| LiveRegisterCounter::new(groups, view.direction)),
            measures: (0..items).map(measures).collect(),
            ready: ReadyList::new(items),
            cycle: 0,
            unit_cycles: [None; UNITS],
            in_flight: BinaryHeap::new(),
            ready_scoreboard_setters: 0,
            window: Vec::with_capacity(TYPICAL_WINDOW_LENGTH),
            stalls: Vec::with_capacity(TYPICAL_WINDOW_LENGTH),
            newly_ready: Vec::new(),
            changed: Vec::new(),
            view,
        }
    }

    /// Places all items and returns them in issue order.
    pub(super) fn run(mut self) -> PassResult {
        let items = self.view.graph.items();
        let start = self.view.graph.region.start;
        let mut found = PassResult { order: Vec::with_capacity(items), picks: Vec::new() };
        self.newly_ready = (0..items as u32).filter(|&node| self.view.unplaced_predecessors[node as usize] == 0).collect();
        self.release_initial_joins();
        self.insert_newly_ready();
        while found.order.len() < items {
            let (best, second) = self.pick();
            let node = self.view.rank(best.rank);
            self.place(node);
            found.order.push(node);
            if self.settings.trace {
                let reason = second.map_or(Reason::OnlyOne, |second| best.score.reason(&second.score));
                let position = |candidate: &ScoredItem| start + self.view.rank(candidate.rank) as usize;
                found.picks.push(ScheduleDecision { picked: position(&best), runner_up: second.as_ref().map(position), reason, cycle: 0 });
            }
        }
        if self.view.direction == Direction::Backward {
            found.order.reverse();
            found.picks.reverse();
        }
        found
    }

    /// Releases the joins (nodes that stand for sets of memory accesses) that no node precedes in the direction of the pass. Such joins
    /// exist in the backward pass only: every join has predecessors, but it may have no successors.
    fn release_initial_joins(&mut self) {
        let (items, nodes) = (self.view.graph.items() as u32, self.view.graph.nodes() as u32);
        let free: Vec<u32> = (items..nodes).filter(|&node| self.view.unplaced_predecessors[node as usize] == 0).collect();
        for node in free {
            self.view.release(node, 0, &mut self.newly_ready);
        }
    }

    /// Returns the entry that stands for a node in the ready list.
    fn entry(&self, node: u32) -> ReadyEntry {
        ReadyEntry {
            rank: self.view.rank(node),
            unit: self.unit_uses[node as usize].unit.into(),
            critical_path: self.view.critical_path[node as usize],
            earliest: self.view.earliest[node as usize],
        }
    }

    /// Moves the items of `newly_ready` into the ready list.
    fn insert_newly_ready(&mut self) {
        let newly_ready = std::mem::take(&mut self.newly_ready);
        for &node in &newly_ready {
            if let Some(live) = &self.live {
                self.measures[node as usize].pressure_change = live.change(node);
            }
            let change = self.live.as_ref().map(|_| self.measures[node as usize].pressure_change[0]);
            self.ready.insert(self.entry(node), change, self.cycle);
            self.ready_scoreboard_setters += usize::from(self.view.sets_scoreboard[node as usize]);
        }
        self.newly_ready = newly_ready;
        self.newly_ready.clear();
    }

    /// Returns the first cycle in which an item can be placed, counted from the boundary of the region at which the pass starts.
    fn first_possible_cycle(&self, node: u32) -> u32 {
        let work = self.unit_uses[node as usize];
        let earliest = self.view.earliest[node as usize].max(self.cycle);
        if work.is_pseudo {
            return earliest;
        }
        // Backward, cycles count from the end of the region. This item comes before the one that was placed last on its unit, and must
        // leave the unit before that one starts; so its own cycles on the unit separate the two. Forward, `unit_cycles` already contains
        // the cycles of the earlier item.
        let own = match self.view.direction {
            Direction::Forward => 0,
            Direction::Backward => u32::from(work.cycles),
        };
        self.unit_cycles[usize::from(work.unit)].map_or(earliest, |used| earliest.max(used + own))
    }

    /// Returns the best and the second-best candidate of the window. The second-best one is exact only when tracing.
    fn pick(&mut self) -> (ScoredItem, Option<ScoredItem>) {
        let (view, work) = (&self.view, self.unit_uses);
        self.ready.move_arrived_items(self.cycle, |rank| work[view.rank(rank) as usize].unit.into());
        let all_scoreboards_used = self.all_scoreboards_in_use();
        let (mut window, mut stalls) = (std::mem::take(&mut self.window), std::mem::take(&mut self.stalls));
        // After register allocation, items of a unit whose operands are available differ in the forward pass only by their critical paths, by
        // which the queue of the unit is sorted, unless scoreboards are short.
        let differ = self.settings.trace || self.live.is_some() || self.view.direction == Direction::Backward || all_scoreboards_used;
        self.ready.window(&mut window, if differ { CANDIDATES_BY_CRITICAL_PATH } else { 1 });
        if let [rank] = window[..] {
            self.window = window;
            self.stalls = stalls;
            return (ScoredItem { rank, score: CandidateScore::default() }, None);
        }
        stalls.clear();
        stalls.extend(window.iter().map(|&rank| self.first_possible_cycle(self.view.rank(rank)) - self.cycle));
        // Every candidate stalls for at least the shortest stall of the step, so only the stall cycles beyond that count.
        let shortest = stalls.iter().copied().min().unwrap_or(0);
        let (live, register_prices) =
            self.live.as_ref().map(LiveRegisterCounter::counts).map(|live| (live, self.weights.register_prices(live))).unwrap_or_default();
        let (mut best, mut second): (Option<ScoredItem>, Option<ScoredItem>) = (None, None);
        for (&rank, &wait) in window.iter().zip(&stalls) {
            let measures = self.measure(self.view.rank(rank), wait - shortest, all_scoreboards_used);
            let candidate = ScoredItem { rank, score: self.weights.score(&measures, live, &register_prices) };
            if candidate.beats(best.as_ref()) {
                second = best.replace(candidate);
            } else if self.settings.trace && candidate.beats(second.as_ref()) {
                second = Some(candidate);
            }
        }
        (self.window, self.stalls) = (window, stalls);
        let best = best.unwrap_or_else(|| unreachable!("a graph without cycles always has an item that is ready"));
        (best, second)
    }

    /// Returns the measures of an item from which its score is computed. `wait` is the number of stall cycles of the item beyond the
    /// shortest stall of the step; `all_scoreboards_used` means that all scoreboards are in use.
    fn measure(&self, node: u32, wait: u32, all_scoreboards_used: bool) -> ScoreMeasures {
        // Forward, an item that sets a scoreboard adds a result in flight. Backward, placing such an item removes one, so all other items get
        // the penalty.
        let worsens_scoreboard_shortage =
            all_scoreboards_used && self.view.sets_scoreboard[node as usize] == (self.view.direction == Direction::Forward);
        ScoreMeasures { extra_stall: wait, worsens_scoreboard_shortage, ..self.measures[node as usize] }
    }

    /// Returns whether all scoreboards are in use at the current position.
    fn all_scoreboards_in_use(&self) -> bool {
        match self.view.direction {
            Direction::Forward => self.in_flight.len() >= self.scoreboards,
            Direction::Backward => self.ready_scoreboard_setters > self.scoreboards,
        }
    }

    /// Places an item in its first possible cycle and updates registers, scoreboards and the ready list.
    fn place(&mut self, node: u32) {
        let at = self.first_possible_cycle(node);
        let work = self.unit_uses[node as usize];
        self.ready.remove(self.entry(node));
        if !work.is_pseudo {
            let busy = if self.view.direction == Direction::Forward { u32::from(work.cycles) } else { 0 };
            self.unit_cycles[usize::from(work.unit)] = Some(at + busy);
            self.cycle = at + 1;
        }
        self.track_scoreboard(node, at);
        if let Some(live) = &mut self.live {
            self.changed.clear();
            live.step(node, &mut |other| self.changed.push(other));
            // The placement can change the effect of other items on the live registers. Items that are not ready yet are evaluated on
            // insertion.
            for &other in &self.changed {
                let rank = self.view.rank(other);
                if self.ready.contains(rank) {
                    let change = live.change(other);
                    self.measures[other as usize].pressure_change = change;
                    self.ready.update_register_change(rank, self.view.critical_path[other as usize], change[0]);
                }
            }
        }
        self.view.release(node, at, &mut self.newly_ready);
        self.insert_newly_ready();
    }

    /// Updates the number of results in flight for an item placed in cycle `at`.
    fn track_scoreboard(&mut self, node: u32, at: u32) {
        if !self.view.sets_scoreboard[node as usize] {
            return;
        }
        self.ready_scoreboard_setters -= 1;
        if self.view.direction == Direction::Forward {
            while self.in_flight.peek().is_some_and(|&Reverse(done)| done <= self.cycle) {
                self.in_flight.pop();
            }
            let waited_for = self.view.graph.successors(node).iter().filter(|edge| edge.scoreboard);
            let latency = waited_for.map(|edge| u32::from(edge.latency)).max().unwrap_or(0);
            self.in_flight.push(Reverse(at + latency));
        }
    }
}
