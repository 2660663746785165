//! A dependency graph in the direction of a scheduling pass: as it is, or with all edges reversed.
//!
//! The reversed graph has an edge from each item to its predecessors, and cycles count from the end of the region. The same list scheduler
//! then places instructions from the last to the first. An item can be placed when all items that depend on it are placed; it issues before
//! each of them by at least the latency of the dependence.

use crate::code::{OrderEffect, SchedCode};
use crate::graph::Graph;

/// The results of a region that are read after it, and by when they are needed.
pub(in crate::backend) struct LiveOutTails {
    /// For each item, the number of cycles before the end of the region by which it should issue; 0 if its results do not leave the region.
    pub tails: Vec<u32>,
    /// Items whose results the scheduling barrier at the end of the region reads.
    pub read_by_exit: Vec<u32>,
}

impl LiveOutTails {
    /// Finds the results of a region that are read after it, and computes by when their items should issue.
    pub(in crate::backend) fn find(code: &SchedCode, graph: &Graph) -> LiveOutTails {
        let nodes = 0..graph.items() as u32;
        let tails: Vec<u32> = nodes.clone().map(|node| graph.tail(node)).collect();
        let barrier = code.items.get(graph.region.end).filter(|item| item.effect == OrderEffect::SchedBarrier);
        let is_read = |node: &u32| {
            let item = &code.items[graph.region.start + *node as usize];
            tails[*node as usize] > 0 && barrier.is_some_and(|barrier| code.writes_operand_of(item, barrier))
        };
        LiveOutTails { read_by_exit: nodes.filter(is_read).collect(), tails }
    }
}

/// Direction of a scheduling pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::backend) enum Direction {
    /// From the first instruction to the last.
    Forward,
    /// From the last instruction to the first.
    Backward,
}

/// An edge from a node to one that the pass places later.
#[derive(Clone, Copy)]
pub(in crate::backend) struct Link {
    /// The node that the edge leads to.
    pub node: u32,
    /// Minimum number of cycles between the issues of the two instructions.
    pub latency: u16,
}

/// A dependency graph in the direction of a pass. Cycles count from the boundary of the region at which the pass starts.
pub(in crate::backend) struct DirectedGraph<'g> {
    /// The dependency graph of the region.
    pub graph: &'g Graph,
    /// The direction of the pass.
    pub direction: Direction,
    /// For each node, its first index in `links`; the last element is the number of links.
    first_link: Vec<u32>,
    /// Links of all nodes, grouped by node.
    links: Vec<Link>,
    /// Worklist of [`DirectedGraph::release`]: nodes to release, each with the cycle in which it was placed.
    release_worklist: Vec<(u32, u32)>,
    /// For each node, the number of nodes that must still be placed before it.
    pub unplaced_predecessors: Vec<u32>,
    /// For each node, the first cycle of the pass in which it can be placed, according to the nodes placed so far.
    pub earliest: Vec<u32>,
    /// For each node, the critical path to the boundary of the region that the pass reaches last, in cycles.
    pub critical_path: Vec<u32>,
    /// For each item, whether an item that depends on it waits for its scoreboard.
    pub sets_scoreboard: Vec<bool>,
}

impl<'g> DirectedGraph<'g> {
    /// Returns the graph for a forward pass. Latencies of results that leave the region lengthen the critical paths.
    pub(in crate::backend) fn forward(graph: &'g Graph, live_out_tails: &LiveOutTails) -> DirectedGraph<'g> {
        let nodes = graph.nodes();
        let mut view = DirectedGraph::empty(graph, Direction::Forward);
        view.links.reserve(graph.edge_count());
        for node in 0..nodes as u32 {
            view.links.extend(graph.successors(node).iter().map(|edge| Link { node: edge.node, latency: edge.latency }));
            view.first_link.push(view.links.len() as u32);
        }
        view.unplaced_predecessors = graph.predecessor_counts().to_vec();
        view.earliest = graph.start_cycles();
        view.critical_path = vec![0; nodes];
        for &node in graph.order.iter().rev() {
            let below = graph.successors(node).iter().map(|edge| view.critical_path[edge.node as usize] + u32::from(edge.latency));
            let tail = live_out_tails.tails.get(node as usize).copied().unwrap_or_default();
            view.critical_path[node as usize] = below.max().unwrap_or(0).max(tail);
        }
        view
    }

    /// Returns the graph for a backward pass, with all edges reversed. Cycles count from the end of the region. An item whose results leave
    /// the region can be placed from the cycle of its tail on, so that it issues early enough for the readers after the region.
    pub(in crate::backend) fn backward(graph: &'g Graph, live_out_tails: &LiveOutTails) -> DirectedGraph<'g> {
        let nodes = graph.nodes();
        let mut view = DirectedGraph::empty(graph, Direction::Backward);
        for node in 0..nodes {
            view.first_link.push(view.first_link[node] + graph.predecessor_counts()[node]);
        }
        view.links = vec![Link { node: 0, latency: 0 }; graph.edge_count()];
        let mut next = view.first_link.clone();
        for node in 0..nodes as u32 {
            for edge in graph.successors(node) {
                let at = &mut next[edge.node as usize];
                view.links[*at as usize] = Link { node, latency: edge.latency };
                *at += 1;
            }
        }
        view.unplaced_predecessors = (0..nodes as u32).map(|node| graph.successors(node).len() as u32).collect();
        view.earliest = live_out_tails.tails.clone();
        view.earliest.resize(nodes, 0);
        view.critical_path = graph.depths();
        view
    }

    /// Returns a directed graph to which links have yet to be added.
    fn empty(graph: &'g Graph, direction: Direction) -> DirectedGraph<'g> {
        let mut first = Vec::with_capacity(graph.nodes() + 1);
        first.push(0);
        let sets = |node: u32| graph.successors(node).iter().any(|edge| edge.scoreboard);
        DirectedGraph {
            graph,
            direction,
            first_link: first,
            links: Vec::new(),
            release_worklist: Vec::new(),
            unplaced_predecessors: Vec::new(),
            earliest: Vec::new(),
            critical_path: Vec::new(),
            sets_scoreboard: (0..graph.items() as u32).map(sets).collect(),
        }
    }

    /// Returns the rank of a node: its position in the original order, in the direction of the pass. As the mapping is its own inverse,
    /// also returns the node of a rank.
    pub(in crate::backend) fn rank(&self, node: u32) -> u32 {
        match self.direction {
            Direction::Forward => node,
            Direction::Backward => self.graph.items() as u32 - 1 - node,
        }
    }

    /// Propagates the placement of `node` in cycle `at` along its links, and appends the items that become ready to `ready`.
    ///
    /// A join is not placed: when all nodes before the join are placed, it is released at once.
    pub(in crate::backend) fn release(&mut self, node: u32, at: u32, ready: &mut Vec<u32>) {
        let mut joins = std::mem::take(&mut self.release_worklist);
        joins.push((node, at));
        while let Some((node, at)) = joins.pop() {
            for index in self.first_link[node as usize]..self.first_link[node as usize + 1] {
                let link = self.links[index as usize];
                let to = link.node as usize;
                self.earliest[to] = self.earliest[to].max(at + u32::from(link.latency));
                self.unplaced_predecessors[to] -= 1;
                if self.unplaced_predecessors[to] == 0 {
                    if to < self.graph.items() {
                        ready.push(link.node);
                    } else {
                        joins.push((link.node, self.earliest[to]));
                    }
                }
            }
        }
        self.release_worklist = joins;
    }
}
