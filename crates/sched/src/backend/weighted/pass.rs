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
use crate::graph::Graph;
use crate::pressure::Counts;
use crate::resource::Costs;

/// Scoreboards that a warp has.
const SCOREBOARDS: usize = 6;

/// What a pass leaves: nodes from the first to the last, and why each was picked.
pub(super) struct Found {
    pub order: Vec<u32>,
    pub picks: Vec<Pick>,
}

/// What a pass has to know of an item's unit.
#[derive(Clone, Copy)]
pub(super) struct Work {
    unit: u8,
    /// Whether it is a pseudo operation, which takes no time.
    is_pseudo: bool,
    /// Cycles that it keeps the unit.
    cycles: u16,
}

impl Work {
    /// That of all items of a region.
    pub fn of_region(code: &Code, graph: &Graph, costs: &Costs) -> Vec<Work> {
        let work = |item: &Item| Work {
            unit: costs.unit(item.class) as u8,
            is_pseudo: item.opcode.is_none(),
            cycles: costs.cycles(item.class).max(1) as u16,
        };
        code.items[graph.region.clone()].iter().map(work).collect()
    }
}

/// A pass. Cycles count from where it begins.
pub(super) struct Pass<'a> {
    view: View<'a>,
    work: &'a [Work],
    settings: &'a Settings,
    weights: &'a Weights,
    live: Option<Live<'a>>,
    /// How each item that is ready would change the number of live registers.
    changes: Vec<Counts>,
    ready: Ready,
    /// How late each node comes in the forward order, as a share of its length.
    forward: Option<Vec<f64>>,
    /// What each node loses of the longest way.
    lost: Vec<f64>,
    cycle: u32,
    /// When each unit was used last, forward with the time that it stays busy.
    used: [Option<u32>; UNITS],
    /// Forward: when what is in flight comes back.
    in_flight: BinaryHeap<Reverse<u32>>,
    /// Backward: items that nothing but their place is wanting for and that set a scoreboard.
    open: usize,
    window: Vec<u32>,
    waits: Vec<u32>,
    inserted: Vec<u32>,
    changed: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Candidate {
    rank: u32,
    score: Score,
}

impl Candidate {
    fn beats(&self, other: Option<&Candidate>) -> bool {
        other.is_none_or(|other| self.score.beats(&other.score).unwrap_or(self.rank < other.rank))
    }
}

impl<'a> Pass<'a> {
    pub fn new(
        view: View<'a>,
        work: &'a [Work],
        settings: &'a Settings,
        weights: &'a Weights,
        groups: Option<&'a Groups>,
        forward: Option<&[u32]>,
    ) -> Pass<'a> {
        let items = view.graph.items();
        let longest = f64::from(view.reach.iter().copied().max().unwrap_or(0).max(1));
        let share = |cycles: &[u32]| {
            let length = f64::from(cycles.iter().copied().max().unwrap_or(0).max(1));
            cycles.iter().map(|&cycle| f64::from(cycle) / length).collect()
        };
        Pass {
            work,
            settings,
            weights,
            live: groups.map(|groups| Live::new(groups, view.direction)),
            changes: vec![[0; REGISTER_CLASSES]; items],
            ready: Ready::new(items),
            forward: forward.map(share),
            lost: view.reach[..items].iter().map(|&reach| Weights::lost(f64::from(reach) / longest)).collect(),
            cycle: 0,
            used: [None; UNITS],
            in_flight: BinaryHeap::new(),
            open: 0,
            window: Vec::new(),
            waits: Vec::new(),
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
            let node = self.view.rank(best.rank);
            self.place(node);
            found.order.push(node);
            if self.settings.trace {
                let reason = second.map_or(Reason::OnlyOne, |second| best.score.reason(&second.score));
                let position = |candidate: &Candidate| start + self.view.rank(candidate.rank) as usize;
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

    fn entry(&self, node: u32) -> Entry {
        Entry {
            rank: self.view.rank(node),
            unit: self.work[node as usize].unit.into(),
            reach: self.view.reach[node as usize],
            earliest: self.view.earliest[node as usize],
        }
    }

    fn insert(&mut self) {
        let inserted = std::mem::take(&mut self.inserted);
        for &node in &inserted {
            if let Some(live) = &self.live {
                self.changes[node as usize] = live.change(node);
            }
            let change = self.live.as_ref().map(|_| self.changes[node as usize][0]);
            self.ready.insert(self.entry(node), change, self.cycle);
            self.open += usize::from(self.view.sets_scoreboard[node as usize]);
        }
        self.inserted = inserted;
        self.inserted.clear();
    }

    /// The cycle in which an item could be placed.
    fn possible(&self, node: u32) -> u32 {
        let work = self.work[node as usize];
        let earliest = self.view.earliest[node as usize].max(self.cycle);
        if work.is_pseudo {
            return earliest;
        }
        let own = match self.view.direction {
            Direction::Forward => 0,
            Direction::Backward => u32::from(work.cycles),
        };
        self.used[usize::from(work.unit)].map_or(earliest, |used| earliest.max(used + own))
    }

    fn pick(&mut self) -> (Candidate, Option<Candidate>) {
        let (view, work) = (&self.view, self.work);
        self.ready.advance(self.cycle, |rank| work[view.rank(rank) as usize].unit.into());
        let (mut window, mut waits) = (std::mem::take(&mut self.window), std::mem::take(&mut self.waits));
        self.ready.window(&mut window);
        waits.clear();
        waits.extend(window.iter().map(|&rank| self.possible(self.view.rank(rank)) - self.cycle));
        let shortest = waits.iter().copied().min().unwrap_or(0);
        let live = self.live.as_ref().map_or([0; REGISTER_CLASSES], Live::now);
        let prices = if self.live.is_some() { self.weights.prices(live) } else { [0.0; REGISTER_CLASSES] };
        let crowded = self.is_crowded();
        let (mut best, mut second): (Option<Candidate>, Option<Candidate>) = (None, None);
        for (&rank, &wait) in window.iter().zip(&waits) {
            let measures = self.measure(self.view.rank(rank), wait - shortest, crowded);
            let candidate = Candidate { rank, score: self.weights.score(&measures, live, &prices) };
            if candidate.beats(best.as_ref()) {
                second = best.replace(candidate);
            } else if self.settings.trace && candidate.beats(second.as_ref()) {
                second = Some(candidate);
            }
        }
        (self.window, self.waits) = (window, waits);
        let best = best.unwrap_or_else(|| unreachable!("a graph without cycles always has an item that is ready"));
        (best, second)
    }

    fn measure(&self, node: u32, wait: u32, crowded: bool) -> Measures {
        let node = node as usize;
        Measures {
            change: self.changes[node],
            lost: self.lost[node],
            wait,
            // Forward, one more would fly; backward, one less would be open.
            crowds: crowded && self.view.sets_scoreboard[node] == (self.view.direction == Direction::Forward),
            forward: self.forward.as_ref().map_or(0.0, |forward| forward[node]),
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
        let work = self.work[node as usize];
        self.ready.remove(self.entry(node));
        if !work.is_pseudo {
            let busy = if self.view.direction == Direction::Forward { u32::from(work.cycles) } else { 0 };
            self.used[usize::from(work.unit)] = Some(at + busy);
            self.cycle = at + 1;
        }
        self.track_scoreboard(node, at);
        if let Some(live) = &mut self.live {
            self.changed.clear();
            live.step(node, &mut |other| self.changed.push(other));
            for &other in &self.changed {
                let rank = self.view.rank(other);
                if self.ready.has(rank) {
                    let change = live.change(other);
                    self.changes[other as usize] = change;
                    self.ready.change(rank, self.view.reach[other as usize], change[0]);
                }
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
