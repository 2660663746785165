//! Edges of the dependency graph, and their collection while the graph is built.

/// The index that means "no node" or "no list element".
pub(super) const NO_INDEX: u32 = u32::MAX;

/// The kind of dependence that an edge stands for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum EdgeKind {
    /// Read after write: the second item reads a register that the first writes.
    Raw,
    /// Write after read: the second item overwrites a register that the first reads.
    War,
    /// Write after write: both items write the same register.
    Waw,
    /// The two memory accesses may alias, and one of them writes.
    Memory,
    /// One of the items is a fence, barrier or clock read, or both are strong accesses.
    #[default]
    Order,
}

/// An edge of the dependency graph.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Edge {
    /// The node at the other end: the successor in a [`Graph`], the predecessor while edges are collected.
    pub node: u32,
    /// Minimum number of cycles from the issue of the first item to the issue of the second.
    pub latency: u16,
    /// The kind of dependence.
    pub kind: EdgeKind,
    /// Whether the second item waits for a scoreboard.
    pub scoreboard: bool,
}

/// The edges of a region so far, grouped by target. The edges to one node are a *run*; runs are in the order in which the nodes are
/// finished.
#[derive(Default)]
pub(super) struct IncomingEdges {
    /// All edges collected so far. [`Edge::node`] is the predecessor.
    pub(super) edges: Vec<Edge>,
    /// For each run: its target node, and the index in `edges` after its last edge.
    pub(super) runs: Vec<(u32, u32)>,
    /// For each source node, the index in `edges` of the latest edge from it. Valid only if the index is in the current run.
    latest_edge: Vec<u32>,
    /// Number of items of the region.
    pub(super) items: u32,
    /// Number of joins (nodes that stand for a set of accesses) created so far.
    pub(super) joins: u32,
}

impl IncomingEdges {
    /// Removes all edges, and prepares for a region with this number of items.
    pub(super) fn start(&mut self, items: usize) {
        self.edges.clear();
        self.runs.clear();
        self.latest_edge.clear();
        self.latest_edge.resize(items, NO_INDEX);
        (self.items, self.joins) = (items as u32, 0);
    }

    /// Returns the index of the first edge of the current run (the edges to the node that is processed now).
    fn current_run_start(&self) -> usize {
        self.runs.last().map_or(0, |run| run.1 as usize)
    }

    /// Adds an edge from the node `from` to the node that is processed now. If there is such an edge already, the longer latency is kept.
    pub(super) fn add(&mut self, from: u32, latency: u16, kind: EdgeKind, scoreboard: bool) {
        let index = self.latest_edge[from as usize] as usize;
        // The entry in `latest_edge` may be of an earlier run, so it is checked before use.
        if index >= self.current_run_start() && index < self.edges.len() && self.edges[index].node == from {
            let edge = &mut self.edges[index];
            if latency > edge.latency {
                (edge.latency, edge.kind) = (latency, kind);
            }
            edge.scoreboard |= scoreboard;
            return;
        }
        self.latest_edge[from as usize] = self.edges.len() as u32;
        self.edges.push(Edge { node: from, latency, kind, scoreboard });
    }

    /// Returns one node that follows all of `nodes` and `before`, an earlier join. This is a new join, unless there is only one node to
    /// follow, which is then returned itself; `None` if there is no node. Must be called before edges to the current item are added,
    /// because the edges to a join are a run of their own.
    pub(super) fn join(&mut self, nodes: &[u32], before: Option<u32>) -> Option<u32> {
        if nodes.is_empty() {
            return before;
        }
        if let ([only], None) = (nodes, before) {
            return Some(*only);
        }
        let join = self.items + self.joins;
        self.joins += 1;
        self.latest_edge.push(NO_INDEX);
        for &node in nodes.iter().chain(&before) {
            self.add(node, 0, EdgeKind::Memory, false);
        }
        self.finish(join);
        Some(join)
    }

    /// Ends the current run: all edges that were added since the last run lead to `node`.
    pub(super) fn finish(&mut self, node: u32) {
        self.runs.push((node, self.edges.len() as u32));
    }
}
