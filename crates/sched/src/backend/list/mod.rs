//! Backend A: one list scheduler with three modes.
//!
//! A region is scheduled from its first instruction to its last. *Ready* is what depends on nothing that is not scheduled yet. Of the ready
//! ones, a window of candidates is looked at in full ([`priority`]): those with the longest way to the end, those that come first in the
//! source, and those that become available next. The best is issued; time moves on; whatever waited only for it becomes ready.
//! The window keeps the cost of a step constant, so that the whole is linear however wide the region is.
//!
//! The modes differ in their budget of registers and in what is compared first ([`Mode`]). Every pick can say by which comparison it won and
//! against whom ([`Pick`]).

pub mod priority;
mod ready;

use oriole_hardware::units::Unit;

use super::clock::{Clock, release};
use super::{Mode, Pick, Reason, Schedule, Settings};
use crate::code::Code;
use crate::graph::{EdgeKind, Graph};
use crate::pressure::Tracker;
use crate::resource::Costs;
use priority::{Candidate, Context, Statistics};
use ready::Ready;

/// The longest block that is scheduled in one piece.
pub const LONGEST_BLOCK: usize = 4095;
/// Functions above this size are scheduled in chunks.
pub const LARGEST_FUNCTION: usize = 16_383;
/// Scoreboards that a warp has.
const SCOREBOARDS: usize = 6;

/// Called for each instruction, by position, when it becomes ready.
pub type InsertionHook<'a> = &'a mut dyn FnMut(usize);

/// The engine for one region.
struct Engine<'a> {
    code: &'a Code,
    graph: &'a Graph,
    settings: &'a Settings,
    heights: Vec<u32>,
    depths: Vec<u32>,
    length: u32,
    earliest: Vec<u32>,
    left: Vec<u32>,
    /// The number of the latest scoreboard that each node waits for.
    barrier_group: Vec<u32>,
    next_group: u32,
    clock: Clock<'a>,
    ready: Ready,
    state: State,
    /// Whether somebody waits for each node's scoreboard.
    sets_scoreboard: Vec<bool>,
    window: Vec<u32>,
}

/// What the description calls the state of the scheduler.
#[derive(Clone, Copy)]
struct State {
    /// Waiters that are to be issued in a row: its spill mode.
    countdown: u32,
    hot_cold_active: bool,
    hot_cold_budget: u32,
    /// A barrier of the warp is near: others should get their turn.
    yield_pending: bool,
    /// The unit and the rest of the current batch.
    batch: Option<(usize, u32)>,
}

/// Schedules a region. The tracker stands at its start, and afterwards at its end.
pub fn schedule(
    code: &Code,
    graph: &Graph,
    costs: &Costs,
    settings: &Settings,
    tracker: &mut Tracker,
    mut hook: Option<InsertionHook<'_>>,
) -> Schedule {
    let heights = graph.heights();
    let mut engine = Engine {
        code,
        graph,
        settings,
        length: heights.iter().copied().max().unwrap_or(0),
        depths: graph.depths(),
        heights,
        earliest: vec![0; graph.nodes()],
        left: graph.dependences().to_vec(),
        barrier_group: vec![priority::NO_GROUP; graph.nodes()],
        next_group: 0,
        clock: Clock::new(costs),
        ready: Ready::default(),
        state: State {
            countdown: 0,
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
    engine.start(&mut inserted);
    let mut candidates = Vec::new();
    while schedule.order.len() < graph.items() {
        for &node in &inserted {
            if let Some(hook) = &mut hook {
                hook(graph.region.start + node as usize);
            }
        }
        inserted.clear();
        let (best, runner_up) = engine.pick(tracker, &mut candidates);
        let position = graph.region.start + best.node as usize;
        let at = engine.place(&best, &mut inserted);
        tracker.step(code, &code.items[position]);
        schedule.length.add(at, graph.tail(best.node));
        schedule.order.push(position);
        if settings.trace {
            let runner_up_at = runner_up.map(|(node, _)| graph.region.start + node as usize);
            let reason = runner_up.map_or(Reason::OnlyOne, |(_, reason)| reason);
            schedule.picks.push(Pick { picked: position, runner_up: runner_up_at, reason, cycle: at });
        }
    }
    schedule.usage = engine.clock.usage;
    schedule.most_scoreboards = engine.clock.most_in_flight;
    schedule
}

impl Engine<'_> {
    fn start(&mut self, inserted: &mut Vec<u32>) {
        for node in 0..self.graph.items() as u32 {
            if self.graph.dependences()[node as usize] == 0 {
                self.ready.insert(node, 0, self.heights[node as usize], 0);
                inserted.push(node);
            }
        }
    }

    /// The best candidate, and who came second and why.
    fn pick(&mut self, tracker: &Tracker, candidates: &mut Vec<Candidate>) -> (Candidate, Option<(u32, Reason)>) {
        self.ready.advance(self.clock.cycle, &self.heights);
        candidates.clear();
        let mut window = std::mem::take(&mut self.window);
        self.ready.window(&mut window);
        candidates.extend(window.iter().map(|&node| self.evaluate(node, tracker)));
        self.window = window;
        let statistics = Statistics::gather(candidates, &self.settings.budget, self.settings.knobs.queue_depth);
        let context = Context {
            mode: self.settings.mode,
            is_tight: tracker.live()[0] > self.settings.budget.reduced,
            counting_down: self.state.countdown > 0,
            critical: statistics.barrier_targets >= statistics.depth_threshold,
            compares_yields: statistics.shared_memory > 0,
        };
        for candidate in candidates.iter_mut() {
            candidate.pack(&context, &statistics);
        }
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
        self.update(&candidates[best], &statistics);
        (candidates[best], second.map(|(second, reason)| (candidates[second].node, reason)))
    }

    fn evaluate(&self, node: u32, tracker: &Tracker) -> Candidate {
        let index = node as usize;
        let item = &self.code.items[self.graph.region.start + index];
        let unit = self.clock.costs.unit(item.class);
        let change = tracker.change(self.code, item);
        let free = if item.opcode.is_some() { self.clock.free[unit] } else { 0 };
        let earliest = self.earliest[index];
        let busy = free.saturating_sub(self.clock.cycle) as i32;
        let crowded = i32::from(self.sets_scoreboard[index] && self.clock.flying() >= SCOREBOARDS);
        let over = |class: usize| tracker.live()[class] + change[class] - self.settings.budget.registers[class];
        let excess = (0..change.len()).filter(|&class| change[class] > 0).map(over).max().unwrap_or(i32::MIN);
        let excess_general = over(0).clamp(0, 1 << 16);
        Candidate {
            node,
            byte: 0,
            overflow: excess > 0,
            change,
            temperature: priority::temperature(item),
            hot_cold_active: self.state.hot_cold_active && self.state.hot_cold_budget > 0,
            is_yield: priority::is_yield(item),
            yield_flag: priority::is_control(item) && self.state.yield_pending,
            is_shared: priority::is_shared(item),
            continues_batch: self.state.batch.is_some_and(|(batch, left)| batch == unit && left > 0),
            stall_free: earliest.max(free) <= self.clock.cycle,
            barrier_group: self.barrier_group[index],
            latency_counter: earliest.saturating_sub(self.clock.cycle),
            contention: busy + crowded + if change[0] > 0 { 2 * excess_general } else { 0 },
            cost: earliest.max(free).saturating_sub(self.clock.cycle),
            earliest,
            height: self.heights[index],
            depth: self.depths[index],
            deadline: self.length.saturating_sub(self.heights[index]),
        }
    }

    /// Issues the winner.
    fn place(&mut self, best: &Candidate, inserted: &mut Vec<u32>) -> u32 {
        self.ready.remove(best.node, best.earliest, best.height);
        let item = &self.code.items[self.graph.region.start + best.node as usize];
        let at = self.clock.issue(item.class, item.opcode.is_none(), best.earliest);
        let mut until = None;
        for edge in self.graph.successors(best.node).iter().filter(|edge| edge.scoreboard) {
            until = until.max(Some(at + u32::from(edge.latency)));
            if edge.kind == EdgeKind::Raw {
                self.barrier_group[edge.node as usize] = self.next_group;
            }
        }
        if let Some(until) = until {
            self.next_group += 1;
            self.clock.fly(until);
        }
        let Engine { graph, earliest, left, ready, heights, clock, .. } = self;
        let start = inserted.len();
        release(graph, best.node, at, earliest, left, &mut |node| inserted.push(node));
        for &node in &inserted[start..] {
            ready.insert(node, earliest[node as usize], heights[node as usize], clock.cycle);
        }
        at
    }

    /// What the description does with its state when a winner is known.
    fn update(&mut self, best: &Candidate, statistics: &Statistics) {
        let item = &self.code.items[self.graph.region.start + best.node as usize];
        if best.is_barrier_target() {
            // Who waits for a scoreboard lets the others that wait for it follow.
            let others = statistics.within_cutoff.saturating_sub(1) as u32;
            self.state.countdown = if best.cost > 0 { others } else { self.state.countdown.saturating_sub(1) };
        } else if best.cost > 0 {
            self.state.countdown = 0;
        }
        if self.state.hot_cold_active {
            match best.temperature {
                priority::Temperature::Cold => self.state.hot_cold_budget = self.state.hot_cold_budget.saturating_sub(1),
                priority::Temperature::Hot if best.has_hot_flag() => self.state.hot_cold_active = false,
                _ => {}
            }
        }
        if priority::is_control(item) {
            self.state.yield_pending = false;
        }
        if best.cost > 0 {
            self.state.yield_pending = true;
        }
        if self.settings.mode == Mode::DynBatch {
            let unit = self.clock.costs.unit(item.class);
            self.state.batch = match self.state.batch {
                Some((batch, left)) if batch == unit && left > 0 => Some((unit, left - 1)),
                _ if unit == Unit::Tensor.index() => Some((unit, self.settings.knobs.batch.saturating_sub(1))),
                other => other.filter(|_| item.opcode.is_none() || best.cost == 0).filter(|&(batch, _)| batch == unit),
            };
        }
    }
}

#[cfg(test)]
mod tests;
