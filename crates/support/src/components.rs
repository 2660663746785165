//! Strongly connected components of a directed graph (Tarjan's algorithm).

/// Returns the strongly connected components of a graph, each after all components that it has edges to.
///
/// `successors[n]` lists the nodes that node `n` has edges to. In a call graph a component is a set of mutually recursive functions, and
/// the order allows one pass that processes callees before callers. The algorithm is Tarjan's (1972, "Depth-first search and linear graph
/// algorithms") with an explicit stack, so that deep call chains cannot overflow the thread's stack. Linear in nodes and edges.
///
/// ```
/// // 0 calls 1; 1 and 2 call each other; 3 calls 0 and nothing calls 3.
/// let components = oriole_support::strongly_connected(&[vec![1], vec![2], vec![1], vec![0]]);
/// assert_eq!(components, [vec![1, 2], vec![0], vec![3]]);
/// ```
pub fn strongly_connected(successors: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let nodes = successors.len();
    let mut walk =
        Walk { successors, numbers: vec![0; nodes], reached: 0, open: Vec::new(), is_closed: vec![false; nodes], found: Vec::new() };
    for start in 0..nodes {
        if walk.numbers[start] == 0 {
            walk.from(start);
        }
    }
    walk.found
}

/// The state of the depth-first search.
struct Walk<'a> {
    successors: &'a [Vec<usize>],
    /// The position of each node in the order of first visits, from 1; 0 for a node that has not been visited.
    numbers: Vec<usize>,
    /// The number of nodes visited so far.
    reached: usize,
    /// Visited nodes whose component is not complete yet, in the order of their visits (Tarjan's stack).
    open: Vec<usize>,
    /// Whether the component of each node is complete.
    is_closed: Vec<bool>,
    /// The complete components.
    found: Vec<Vec<usize>>,
}

/// A node on the current path of the search.
struct PathNode {
    node: usize,
    /// The position of the next edge to follow.
    next: usize,
    /// The least number of an open node that is reachable from this node (the low-link).
    least: usize,
}

impl Walk<'_> {
    /// Visits a node for the first time.
    fn enter(&mut self, node: usize) -> PathNode {
        self.reached += 1;
        self.numbers[node] = self.reached;
        self.open.push(node);
        PathNode { node, next: 0, least: self.reached }
    }

    /// Runs the search from an unvisited node.
    fn from(&mut self, start: usize) {
        let mut path = vec![self.enter(start)];
        while let Some(step) = path.last_mut() {
            if let Some(&successor) = self.successors[step.node].get(step.next) {
                step.next += 1;
                if self.numbers[successor] == 0 {
                    let entered = self.enter(successor);
                    path.push(entered);
                } else if !self.is_closed[successor] {
                    step.least = step.least.min(self.numbers[successor]);
                }
                continue;
            }
            let Some(done) = path.pop() else { break };
            if done.least == self.numbers[done.node] {
                self.close(done.node);
            } else if let Some(caller) = path.last_mut() {
                caller.least = caller.least.min(done.least);
            }
        }
    }

    /// Completes the component whose first visited node is `first`.
    fn close(&mut self, first: usize) {
        let start = self.open.iter().rposition(|&node| node == first).unwrap_or(0);
        let component = self.open.split_off(start);
        component.iter().for_each(|&node| self.is_closed[node] = true);
        self.found.push(component);
    }
}

#[cfg(test)]
mod tests {
    use super::strongly_connected;

    #[test]
    fn a_long_chain_is_in_order_of_callees_first() {
        let length = 100_000;
        let chain: Vec<Vec<usize>> = (0..length).map(|node| if node + 1 < length { vec![node + 1] } else { Vec::new() }).collect();
        let components = strongly_connected(&chain);
        assert!(components.iter().map(|component| component[0]).eq((0..length).rev()));
    }

    #[test]
    fn cycles_that_share_a_node_are_one_component() {
        // 0 -> 1 -> 2 -> 0 and 2 -> 3 -> 2; 4 -> 2.
        let components = strongly_connected(&[vec![1], vec![2], vec![0, 3], vec![2], vec![2]]);
        assert_eq!(components, [vec![0, 1, 2, 3], vec![4]]);
    }
}
