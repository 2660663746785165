//! List scheduling that stays close to the order that is there.
//!
//! Time goes forward. Of the instructions whose predecessors are issued, those that can issue now compete; if none can, the first that will.
//! [`Choice::Position`] takes the one that came first, so the order changes only where a stall can be filled; [`Choice::Height`] the
//! one on which most cycles depend.

use oriole_sched::code::Code;
use oriole_sched::graph::Graph;
use oriole_sched::resource::Costs;

const UNITS: usize = oriole_hardware::units::UNITS;

/// Which of those that can issue goes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    Position,
    Height,
}

/// An order of a region. Those that `follows_closely` names, by position, go right behind the one before them. `floors` has for each of its instructions the cycle before which it should not be issued.
pub fn order(
    code: &Code,
    graph: &Graph,
    costs: &Costs,
    floors: &[u64],
    follows_closely: &dyn Fn(usize) -> bool,
    choice: Choice,
) -> Vec<usize> {
    let heights = graph.heights();
    let mut earliest: Vec<u64> = floors.to_vec();
    earliest.resize(graph.nodes(), 0);
    let mut left = graph.dependences().to_vec();
    let mut ready: Vec<u32> = (0..graph.items() as u32).filter(|&node| left[node as usize] == 0).collect();
    let mut free = [0_u64; UNITS];
    let mut now = 0;
    let mut order = Vec::with_capacity(graph.items());
    while !ready.is_empty() {
        let time = |node: u32| {
            let class = code.items[graph.region.start + node as usize].class;
            earliest[node as usize].max(free[costs.unit(class)]).max(now)
        };
        let first = ready.iter().map(|&node| time(node)).min().unwrap_or(now);
        let can = ready.iter().enumerate().filter(|&(_, &node)| time(node) == first);
        let key = |node: u32| match choice {
            Choice::Position => (0, node),
            Choice::Height => (u32::MAX - heights[node as usize], node),
        };
        let next = order.last().map(|&last| last + 1).filter(|&next| next < graph.region.end && follows_closely(next));
        let next_node = next.map(|next| (next - graph.region.start) as u32);
        let neighbour = next_node.and_then(|next| ready.iter().enumerate().find(|&(_, &node)| node == next));
        let Some((place, &node)) = neighbour.or_else(|| can.min_by_key(|&(_, &node)| key(node))) else { break };
        let first = time(node);
        ready.swap_remove(place);
        let class = code.items[graph.region.start + node as usize].class;
        free[costs.unit(class)] = first + costs.cycles(class).max(1) as u64;
        now = first + 1;
        order.push(graph.region.start + node as usize);
        release(graph, node, first, &mut earliest, &mut left, &mut ready);
    }
    order
}

/// Tells those who depend on a node when it was issued; nodes without an instruction pass it on.
fn release(graph: &Graph, node: u32, at: u64, earliest: &mut [u64], left: &mut [u32], ready: &mut Vec<u32>) {
    let mut todo = vec![(node, at)];
    while let Some((node, at)) = todo.pop() {
        for edge in graph.successors(node) {
            let to = edge.node as usize;
            earliest[to] = earliest[to].max(at + u64::from(edge.latency));
            left[to] -= 1;
            if left[to] == 0 {
                if to < graph.items() {
                    ready.push(edge.node);
                } else {
                    todo.push((edge.node, earliest[to]));
                }
            }
        }
    }
}
