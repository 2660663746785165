//! List scheduling that stays close to the existing order.
//!
//! Forward list scheduling with a ready list. In each step, the instructions that can issue earliest compete. [`FillChoice::Position`] takes
//! the one that comes first in the existing order, so the order changes only where a stall can be filled. [`FillChoice::Height`] takes the one
//! with the longest critical path below it.
//!
//! For example, in `a ; use of a ; b`, where `a` has a latency of 4 cycles, `b` moves between `a` and its use.

use oriole_sched::code::SchedCode;
use oriole_sched::graph::Graph;
use oriole_sched::resource::ResourceCosts;

const UNITS: usize = oriole_hardware::units::UNITS;

/// Which of the instructions that can issue is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FillChoice {
    /// The first in the existing order.
    Position,
    /// The one with the longest critical path to the end of the region.
    Height,
}

/// Returns a new order of a region, as instruction numbers. An instruction for which `follows_closely` is true stays directly after its
/// predecessor. `floors` holds the earliest issue cycle of each instruction of the region.
pub fn order(
    code: &SchedCode,
    graph: &Graph,
    costs: &ResourceCosts,
    floors: &[u64],
    follows_closely: &dyn Fn(usize) -> bool,
    choice: FillChoice,
) -> Vec<usize> {
    let heights = graph.heights();
    let mut earliest: Vec<u64> = floors.to_vec();
    earliest.resize(graph.nodes(), 0);
    let mut left = graph.predecessor_counts().to_vec();
    let mut ready: Vec<u32> = (0..graph.items() as u32).filter(|&node| left[node as usize] == 0).collect();
    let mut free = [0_u64; UNITS];
    let mut now = 0;
    let mut order = Vec::with_capacity(graph.items());
    while !ready.is_empty() {
        let time = |node: u32| {
            let class = code.items[graph.region.start + node as usize].class;
            earliest[node as usize].max(free[costs.unit_index(class)]).max(now)
        };
        let first = ready.iter().map(|&node| time(node)).min().unwrap_or(now);
        let can = ready.iter().enumerate().filter(|&(_, &node)| time(node) == first);
        let key = |node: u32| match choice {
            FillChoice::Position => (0, node),
            FillChoice::Height => (u32::MAX - heights[node as usize], node),
        };
        let next = order.last().map(|&last| last + 1).filter(|&next| next < graph.region.end && follows_closely(next));
        let next_node = next.map(|next| (next - graph.region.start) as u32);
        // An instruction that must follow its predecessor directly is taken before all others, even if that costs a stall.
        let neighbour = next_node.and_then(|next| ready.iter().enumerate().find(|&(_, &node)| node == next));
        let Some((place, &node)) = neighbour.or_else(|| can.min_by_key(|&(_, &node)| key(node))) else { break };
        let first = time(node);
        ready.swap_remove(place);
        let class = code.items[graph.region.start + node as usize].class;
        free[costs.unit_index(class)] = first + costs.cycles(class).max(1) as u64;
        now = first + 1;
        order.push(graph.region.start + node as usize);
        release(graph, node, first, &mut earliest, &mut left, &mut ready);
    }
    order
}

/// Updates the successors of an issued node: earliest issue cycle and number of unissued predecessors. Nodes that are not instructions are
/// passed through at once.
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
