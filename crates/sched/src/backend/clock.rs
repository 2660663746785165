//! Time as an order is issued, the same for all backends.
//!
//! [`estimate`] says how many cycles an order takes, so that a new order can be held against the old one, [`least`] how many any order takes:
//! where the old one takes no more, nobody need look for another.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use oriole_hardware::Class;
use oriole_hardware::units::UNITS;

use crate::code::Code;
use crate::graph::Graph;
use crate::resource::{Costs, ResourceVector};

/// How long an order takes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Length {
    /// Cycles until the last instruction is issued.
    pub issued: u32,
    /// Cycles until results for those behind the region are there as well.
    pub done: u32,
}

impl Length {
    /// Whether it is better than another: what comes behind may need the issue slots or the results, so both count.
    pub fn is_shorter_than(self, other: Length) -> bool {
        self.issued + self.done < other.issued + other.done
    }

    pub(super) fn add(&mut self, at: u32, tail: u32) {
        self.issued = self.issued.max(at + 1);
        self.done = self.done.max(at + tail.max(1));
    }
}

/// Time as an order is issued.
pub(super) struct Clock<'a> {
    pub costs: &'a Costs,
    /// The cycle in which the next can be issued.
    pub cycle: u32,
    /// When each unit is free.
    pub free: [u32; UNITS],
    /// How long each unit has been used.
    pub usage: ResourceVector,
    /// When what is in flight comes back.
    in_flight: BinaryHeap<Reverse<u32>>,
    pub most_in_flight: usize,
}

impl<'a> Clock<'a> {
    pub fn new(costs: &'a Costs) -> Clock<'a> {
        Clock { costs, cycle: 0, free: [0; UNITS], usage: [0; UNITS], in_flight: BinaryHeap::new(), most_in_flight: 0 }
    }

    /// Issues an instruction; says when.
    pub fn issue(&mut self, class: Class, is_pseudo: bool, earliest: u32) -> u32 {
        if is_pseudo {
            return earliest.max(self.cycle);
        }
        let (unit, cycles) = (self.costs.unit(class), self.costs.cycles(class));
        let at = self.cycle.max(earliest).max(self.free[unit]);
        self.free[unit] = at + cycles.max(1) as u32;
        self.usage[unit] += cycles;
        self.cycle = at + 1;
        at
    }

    pub fn fly(&mut self, until: u32) {
        while self.in_flight.peek().is_some_and(|&Reverse(done)| done <= self.cycle) {
            self.in_flight.pop();
        }
        self.in_flight.push(Reverse(until));
        self.most_in_flight = self.most_in_flight.max(self.in_flight.len());
    }

    pub fn flying(&self) -> usize {
        // What has come back meanwhile is taken out with the next that starts; the difference matters little.
        self.in_flight.len()
    }
}

/// How long the region takes in an order.
pub fn estimate(code: &Code, graph: &Graph, costs: &Costs, order: impl Iterator<Item = usize>) -> Length {
    let mut earliest = vec![0; graph.nodes()];
    let mut left = graph.dependences().to_vec();
    let mut clock = Clock::new(costs);
    let mut length = Length::default();
    for position in order {
        let node = (position - graph.region.start) as u32;
        let item = &code.items[position];
        let at = clock.issue(item.class, item.opcode.is_none(), earliest[node as usize]);
        length.add(at, graph.tail(node));
        release(graph, node, at, &mut earliest, &mut left, &mut |_| {});
    }
    length
}

/// How long the region takes at least, whatever its order: as long as its longest chain, as many cycles as it has instructions, and as long as
/// its busiest unit works.
pub fn least(code: &Code, graph: &Graph, costs: &Costs) -> Length {
    let mut least = Length::default();
    let mut busy = [(0, 0); UNITS];
    let mut instructions = 0;
    for (node, depth) in graph.depths().into_iter().take(graph.items()).enumerate() {
        least.add(depth, graph.tail(node as u32));
        let item = &code.items[graph.region.start + node];
        if item.opcode.is_some() {
            let cycles = costs.cycles(item.class).max(1) as u32;
            let (sum, longest) = &mut busy[costs.unit(item.class)];
            (*sum, *longest) = (*sum + cycles, cycles.max(*longest));
            instructions += 1;
        }
    }
    // The last on a unit is issued when all others have left it.
    let units = busy.iter().map(|(sum, longest)| (sum - longest) + 1).max().unwrap_or(0);
    least.issued = least.issued.max(instructions).max(if instructions > 0 { units } else { 0 });
    least.done = least.done.max(least.issued);
    least
}

/// Tells those who depend on a node when it was issued. Joins pass it on at once.
pub(super) fn release(graph: &Graph, node: u32, at: u32, earliest: &mut [u32], left: &mut [u32], ready: &mut impl FnMut(u32)) {
    for edge in graph.successors(node) {
        let to = edge.node as usize;
        earliest[to] = earliest[to].max(at + u32::from(edge.latency));
        left[to] -= 1;
        if left[to] == 0 {
            if to < graph.items() {
                ready(edge.node);
            } else {
                let at = earliest[to];
                release(graph, edge.node, at, earliest, left, ready);
            }
        }
    }
}
