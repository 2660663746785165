//! A graph as a pass sees it: from the first instruction to the last, or mirrored.

use crate::code::{Code, Effect};
use crate::graph::Graph;

/// Results that leave a region, and when they are wanted.
pub(super) struct Leaving {
    /// For each item the cycles by which it should stand before the region's end.
    pub tails: Vec<u32>,
    /// Items whose results the wall behind the region reads.
    pub read_by_wall: Vec<u32>,
}

impl Leaving {
    pub fn of(code: &Code, graph: &Graph) -> Leaving {
        let nodes = 0..graph.items() as u32;
        let tails: Vec<u32> = nodes.clone().map(|node| graph.tail(node)).collect();
        let wall = code.items.get(graph.region.end).filter(|item| item.effect == Effect::Wall);
        let is_read = |node: &u32| {
            let item = &code.items[graph.region.start + *node as usize];
            tails[*node as usize] > 0 && wall.is_some_and(|wall| code.writes_for(item, wall))
        };
        Leaving { read_by_wall: nodes.filter(is_read).collect(), tails }
    }
}

/// Which way a pass goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Direction {
    Forward,
    Backward,
}

/// An edge to a node that comes later in the pass.
#[derive(Clone, Copy)]
pub(super) struct Link {
    pub node: u32,
    pub latency: u16,
}

/// A graph in one direction.
pub(super) struct View<'g> {
    pub graph: &'g Graph,
    pub direction: Direction,
    first: Vec<u32>,
    links: Vec<Link>,
    /// Nodes whose time is yet to be passed on.
    joins: Vec<(u32, u32)>,
    /// How many nodes must come before each.
    pub left: Vec<u32>,
    /// The cycle of the pass from which on each can be placed.
    pub earliest: Vec<u32>,
    /// The most cycles from each node to the other end of the region.
    pub reach: Vec<u32>,
    /// Whether somebody waits for each item's scoreboard.
    pub sets_scoreboard: Vec<bool>,
}

impl<'g> View<'g> {
    pub fn forward(graph: &'g Graph, leaving: &Leaving) -> View<'g> {
        let nodes = graph.nodes();
        let mut view = View::empty(graph, Direction::Forward);
        view.links.reserve(graph.edge_count());
        for node in 0..nodes as u32 {
            view.links.extend(graph.successors(node).iter().map(|edge| Link { node: edge.node, latency: edge.latency }));
            view.first.push(view.links.len() as u32);
        }
        view.left = graph.dependences().to_vec();
        view.earliest = vec![0; nodes];
        view.reach = vec![0; nodes];
        for &node in graph.order.iter().rev() {
            let below = graph.successors(node).iter().map(|edge| view.reach[edge.node as usize] + u32::from(edge.latency));
            let tail = leaving.tails.get(node as usize).copied().unwrap_or_default();
            view.reach[node as usize] = below.max().unwrap_or(0).max(tail);
        }
        view
    }

    /// Time runs from the end: an instruction whose results leave the region should stand as far before it as they take.
    pub fn backward(graph: &'g Graph, leaving: &Leaving) -> View<'g> {
        let nodes = graph.nodes();
        let mut view = View::empty(graph, Direction::Backward);
        for node in 0..nodes {
            view.first.push(view.first[node] + graph.dependences()[node]);
        }
        view.links = vec![Link { node: 0, latency: 0 }; graph.edge_count()];
        let mut next = view.first.clone();
        for node in 0..nodes as u32 {
            for edge in graph.successors(node) {
                let at = &mut next[edge.node as usize];
                view.links[*at as usize] = Link { node, latency: edge.latency };
                *at += 1;
            }
        }
        view.left = (0..nodes as u32).map(|node| graph.successors(node).len() as u32).collect();
        view.earliest = leaving.tails.clone();
        view.earliest.resize(nodes, 0);
        view.reach = graph.depths();
        view
    }

    fn empty(graph: &'g Graph, direction: Direction) -> View<'g> {
        let mut first = Vec::with_capacity(graph.nodes() + 1);
        first.push(0);
        let sets = |node: u32| graph.successors(node).iter().any(|edge| edge.scoreboard);
        View {
            graph,
            direction,
            first,
            links: Vec::new(),
            joins: Vec::new(),
            left: Vec::new(),
            earliest: Vec::new(),
            reach: Vec::new(),
            sets_scoreboard: (0..graph.items() as u32).map(sets).collect(),
        }
    }

    /// Where an item stands in the order that the pass would keep if nothing spoke against it; and back.
    pub fn rank(&self, node: u32) -> u32 {
        match self.direction {
            Direction::Forward => node,
            Direction::Backward => self.graph.items() as u32 - 1 - node,
        }
    }

    /// Tells those behind a node when it was placed; joins pass it on. `ready` hears of items that wait for nothing else.
    pub fn release(&mut self, node: u32, at: u32, ready: &mut Vec<u32>) {
        let mut joins = std::mem::take(&mut self.joins);
        joins.push((node, at));
        while let Some((node, at)) = joins.pop() {
            for index in self.first[node as usize]..self.first[node as usize + 1] {
                let link = self.links[index as usize];
                let to = link.node as usize;
                self.earliest[to] = self.earliest[to].max(at + u32::from(link.latency));
                self.left[to] -= 1;
                if self.left[to] == 0 {
                    if to < self.graph.items() {
                        ready.push(link.node);
                    } else {
                        joins.push((link.node, self.earliest[to]));
                    }
                }
            }
        }
        self.joins = joins;
    }
}
