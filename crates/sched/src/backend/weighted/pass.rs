//! One pass through a region, in either direction.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use oriole_hardware::units::UNITS;

use super::super::{Pick, Reason, Settings};
use super::ready::{Entry, Ready};
use super::registers::{Groups, Live};
use super::score::{Measures, Score, Weights};
use super::view::{Direction, View};
use crate::code::{Code, Item, REGISTER_CLASSES};
use crate::pressure::Counts;
use crate::resource::Costs;

/// Scoreboards that a warp has.
const SCOREBOARDS: usize = 6;

/// What a pass leaves: nodes from the first to the last, and why each was picked.
pub(super) struct Found {
    pub order: Vec<u32>,
    pub picks: Vec<Pick>,
}

/// A pass. Cycles count from where it begins.
pub(super) struct Pass<'a> {
    code: &'a Code,
    view: View<'a>,
    costs: &'a Costs,
    settings: &'a Settings,
    weights: &'a Weights,
    live: Option<Live<'a>>,
    ready: Ready,
    /// When each node was issued by the forward pass, and how long that took.
    forward: Option<&'a [u32]>,
    forward_length: f64,
    longest: f64,
    cycle: u32,
    /// When each unit was used last, forward with the time that it stays busy.
    used: [Option<u32>; UNITS],
    /// Forward: when what is in flight comes back.
    in_flight: BinaryHeap<Reverse<u32>>,
    /// Backward: items that nothing but their place is wanting for and that set a scoreboard.
    open: usize,
    window: Vec<u32>,
    candidates: Vec<Candidate>,
    inserted: Vec<u32>,
    changed: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Candidate {
    node: u32,
    wait: u32,
    change: Counts,
    score: Option<Score>,
}

impl<'a> Pass<'a> {
    pub fn new(
        code: &'a Code,
        view: View<'a>,
        costs: &'a Costs,
        settings: &'a Settings,
        weights: &'a Weights,
        groups: Option<&'a Groups>,
        forward: Option<&'a [u32]>,
    ) -> Pass<'a> {
        Pass {
            code,
            costs,
            settings,
            weights,
            live: groups.map(|groups| Live::new(groups, view.direction)),
            ready: Ready::new(view.graph.items()),
            forward,
            forward_length: f64::from(forward.and_then(|cycles| cycles.iter().copied().max()).unwrap_or(0).max(1)),
            longest: f64::from(view.reach.iter().copied().max().unwrap_or(0).max(1)),
            cycle: 0,
            used: [None; UNITS],
            in_flight: BinaryHeap::new(),
            open: 0,
            window: Vec::new(),
            candidates: Vec::new(),
            inserted: Vec::new(),
            changed: Vec::new(),
            view,
        }
    }

    /// Places all items.
    pub fn run(mut self) -> Found {
        let items = self.view.graph.items();
        let start = self.view.graph.region.start;
        let mut found = Found { order: Vec::with_capacity(items), picks: Vec::new() };
        self.inserted = (0..items as u32).filter(|&node| self.view.left[node as usize] == 0).collect();
        self.release_joins();
        self.insert();
        while found.order.len() < items {
            let (best, second) = self.pick();
            self.place(best.node);
            found.order.push(best.node);
            if self.settings.trace {
                let reason = match (best.score, second.and_then(|second| second.score)) {
                    (Some(best), Some(second)) => best.reason(&second),
                    _ => Reason::OnlyOne,
                };
                let position = |candidate: &Candidate| start + candidate.node as usize;
                found.picks.push(Pick { picked: position(&best), runner_up: second.as_ref().map(position), reason, cycle: 0 });
            }
        }
        if self.view.direction == Direction::Backward {
            found.order.reverse();
            found.picks.reverse();
        }
        found
    }

    /// Joins that wait for nobody, which are there from the end only.
    fn release_joins(&mut self) {
        let (items, nodes) = (self.view.graph.items() as u32, self.view.graph.nodes() as u32);
        let free: Vec<u32> = (items..nodes).filter(|&node| self.view.left[node as usize] == 0).collect();
        for node in free {
            self.view.release(node, 0, &mut self.inserted);
        }
    }

    fn item(&self, node: u32) -> &'a Item {
        &self.code.items[self.view.graph.region.start + node as usize]
    }

    fn entry(&self, node: u32) -> Entry {
        Entry {
            rank: self.view.rank(node),
            unit: self.costs.unit(self.item(node).class),
            reach: self.view.reach[node as usize],
            earliest: self.view.earliest[node as usize],
        }
    }

    fn insert(&mut self) {
        let inserted = std::mem::take(&mut self.inserted);
        for &node in &inserted {
            let change = self.live.as_ref().map(|live| live.change(node)[0]);
            self.ready.insert(self.entry(node), change, self.cycle);
            self.open += usize::from(self.view.sets_scoreboard[node as usize]);
        }
        self.inserted = inserted;
        self.inserted.clear();
    }

    /// The cycle in which an item could be placed.
    fn possible(&self, node: u32) -> u32 {
        let item = self.item(node);
        let earliest = self.view.earliest[node as usize].max(self.cycle);
        if item.opcode.is_none() {
            return earliest;
        }
        let own = match self.view.direction {
            Direction::Forward => 0,
            Direction::Backward => self.costs.cycles(item.class).max(1) as u32,
        };
        self.used[self.costs.unit(item.class)].map_or(earliest, |used| earliest.max(used + own))
    }

    fn pick(&mut self) -> (Candidate, Option<Candidate>) {
        let (view, code, costs) = (&self.view, self.code, self.costs);
        self.ready.advance(self.cycle, |rank| costs.unit(code.items[view.graph.region.start + view.rank(rank) as usize].class));
        let mut window = std::mem::take(&mut self.window);
        let mut candidates = std::mem::take(&mut self.candidates);
        self.ready.window(&mut window);
        candidates.clear();
        candidates.extend(window.iter().map(|&rank| {
            let node = self.view.rank(rank);
            let change = self.live.as_ref().map_or([0; REGISTER_CLASSES], |live| live.change(node));
            Candidate { node, wait: self.possible(node) - self.cycle, change, score: None }
        }));
        let shortest = candidates.iter().map(|candidate| candidate.wait).min().unwrap_or(0);
        let live = self.live.as_ref().map_or([0; REGISTER_CLASSES], Live::now);
        let prices = if self.live.is_some() { self.weights.prices(live) } else { [0.0; REGISTER_CLASSES] };
        let crowded = self.is_crowded();
        let mut best: Option<(usize, Score)> = None;
        let mut second: Option<(usize, Score)> = None;
        for (number, candidate) in candidates.iter_mut().enumerate() {
            let measures = self.measure(candidate, shortest, crowded);
            let score = self.weights.score(&measures, live, &prices);
            candidate.score = Some(score);
            let rank = |number: usize| window[number];
            let beats = |other: Option<(usize, Score)>| {
                other.is_none_or(|(other, than)| score.beats(&than).unwrap_or_else(|| rank(number) < rank(other)))
            };
            if beats(best) {
                second = best.replace((number, score));
            } else if beats(second) {
                second = Some((number, score));
            }
        }
        let best = best.map_or(0, |(number, _)| number);
        let picked = (candidates[best], second.map(|(number, _)| candidates[number]));
        (self.window, self.candidates) = (window, candidates);
        picked
    }

    fn measure(&self, candidate: &Candidate, shortest: u32, crowded: bool) -> Measures {
        let node = candidate.node as usize;
        let sets = self.view.sets_scoreboard[node];
        Measures {
            change: candidate.change,
            reach: f64::from(self.view.reach[node]) / self.longest,
            wait: candidate.wait - shortest,
            // Forward, one more would fly; backward, one less would be open.
            crowds: crowded && sets == (self.view.direction == Direction::Forward),
            forward: self.forward.map_or(0.0, |cycles| f64::from(cycles[node]) / self.forward_length),
        }
    }

    fn is_crowded(&self) -> bool {
        match self.view.direction {
            Direction::Forward => self.in_flight.len() >= SCOREBOARDS,
            Direction::Backward => self.open > SCOREBOARDS,
        }
    }

    fn place(&mut self, node: u32) {
        let at = self.possible(node);
        let item = self.item(node);
        self.ready.remove(self.entry(node));
        if item.opcode.is_some() {
            let busy = if self.view.direction == Direction::Forward { self.costs.cycles(item.class).max(1) as u32 } else { 0 };
            self.used[self.costs.unit(item.class)] = Some(at + busy);
            self.cycle = at + 1;
        }
        self.track_scoreboard(node, at);
        let (view, ready) = (&self.view, &mut self.ready);
        if let Some(live) = &mut self.live {
            self.changed.clear();
            live.step(node, &mut |other| self.changed.push(other));
            for &other in &self.changed {
                ready.change(view.rank(other), view.reach[other as usize], || live.change(other)[0]);
            }
        }
        self.view.release(node, at, &mut self.inserted);
        self.insert();
    }

    fn track_scoreboard(&mut self, node: u32, at: u32) {
        if !self.view.sets_scoreboard[node as usize] {
            return;
        }
        self.open -= 1;
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
