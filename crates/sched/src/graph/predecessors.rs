//! The edges of a dependency graph in the other direction: for each node, the nodes that it depends on.

use super::Graph;

/// For each node of a graph, its predecessors.
pub(crate) struct Predecessors {
    /// For each node, the index in `nodes` of its first predecessor; the last element is the number of edges.
    first: Vec<u32>,
    /// The predecessors of all nodes, node by node.
    nodes: Vec<u32>,
}

impl Predecessors {
    /// Collects the incoming edges of all nodes.
    pub(crate) fn new(graph: &Graph) -> Predecessors {
        let mut first = vec![0_u32; graph.nodes() + 1];
        for (node, &count) in graph.predecessor_counts().iter().enumerate() {
            first[node + 1] = first[node] + count;
        }
        let mut next = first.clone();
        let mut nodes = vec![0; first[graph.nodes()] as usize];
        for from in 0..graph.nodes() as u32 {
            for edge in graph.successors(from) {
                let at = &mut next[edge.node as usize];
                nodes[*at as usize] = from;
                *at += 1;
            }
        }
        Predecessors { first, nodes }
    }

    /// Returns the predecessors of a node, in ascending order.
    pub(crate) fn of(&self, node: u32) -> &[u32] {
        &self.nodes[self.first[node as usize] as usize..self.first[node as usize + 1] as usize]
    }
}
