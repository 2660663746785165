//! Chains of dependent instructions: the critical path of a block, and the chain from one iteration of a loop to the next.
//!
//! Both follow read-after-write edges of the scheduler's dependency graph, whose latencies are those of the hardware model; a load takes
//! its usual time.
//!
//! For the chain through a loop the body is written twice. A dependence from one iteration to the next is then an edge from the first copy
//! to the second. The longest path from an instruction in the first copy to the same instruction in the second is what an iteration takes
//! at least, whatever the order of the instructions:
//!
//! ```text
//! copy 1:  FADD R0, R0, R4 ──4 cycles──▶ copy 2:  FADD R0, R0, R4      at least 4 cycles an iteration
//! ```

use std::ops::Range;

use oriole_hardware::Model;
use oriole_isa::Instruction;
use oriole_sched::code::{SchedCode, from_machine};
use oriole_sched::graph::{EdgeKind, Graph, GraphBuilder};

/// Longest loop body that is searched for a chain.
const MOST_INSTRUCTIONS: usize = 4000;
/// Largest number of instructions to start from.
const MOST_STARTS: usize = 64;

/// A chain: its length in cycles, and its instructions by position in the code.
pub type Chain = (u32, Vec<usize>);

/// Returns the longest chain of dependent instructions in a range of the code.
pub fn critical_path(builder: &mut GraphBuilder<'_>, items: &SchedCode, range: &Range<usize>) -> Chain {
    let graph = builder.build(items, range.clone());
    let paths = Paths::from(&graph, None);
    let end = (0..graph.items()).max_by_key(|&node| (paths.depths[node].unwrap_or(0), std::cmp::Reverse(node)));
    let Some(end) = end else { return Chain::default() };
    let chain = paths.to(end as u32).into_iter().map(|node| range.start + node as usize).collect();
    (paths.depths[end].unwrap_or(0), chain)
}

/// Returns the longest chain from an iteration of a loop to the next; `None` if there is none or the body is too long. The positions refer
/// to `body`.
pub fn recurrence(body: &[&Instruction], model: &Model) -> Option<Chain> {
    let length = body.len();
    if length > MOST_INSTRUCTIONS {
        return None;
    }
    let twice: Vec<Instruction> = body.iter().chain(body).map(|&instruction| instruction.clone()).collect();
    let items = from_machine::code(&twice);
    let graph = GraphBuilder::new(model, items.registers()).build(&items, 0..twice.len());
    let crosses = |node: usize| {
        let edges = graph.successors(node as u32).iter();
        edges.filter(|edge| edge.kind == EdgeKind::Raw && (length..2 * length).contains(&(edge.node as usize))).map(|edge| edge.node)
    };
    let mut starts: Vec<u32> = (0..length).flat_map(crosses).collect();
    starts.sort_unstable();
    starts.dedup();
    let mut best: Option<Chain> = None;
    for end in starts.into_iter().take(MOST_STARTS) {
        let paths = Paths::from(&graph, Some(end - length as u32));
        let Some(cycles) = paths.depths[end as usize] else { continue };
        if best.as_ref().is_none_or(|best| cycles > best.0) {
            best = Some((cycles, paths.to(end).into_iter().map(|node| node as usize % length).collect()));
        }
    }
    best
}

/// Longest paths along read-after-write edges.
struct Paths {
    /// For each node the length of the longest path to it; `None` if there is no path from the start.
    depths: Vec<Option<u32>>,
    /// For each node the one before it on that path.
    before: Vec<Option<u32>>,
}

impl Paths {
    /// Computes the paths from a node, or from all nodes.
    fn from(graph: &Graph, start: Option<u32>) -> Paths {
        let mut depths: Vec<Option<u32>> = vec![if start.is_none() { Some(0) } else { None }; graph.nodes()];
        if let Some(start) = start {
            depths[start as usize] = Some(0);
        }
        let mut before = vec![None; graph.nodes()];
        for &node in &graph.order {
            let Some(depth) = depths[node as usize] else { continue };
            for edge in graph.successors(node).iter().filter(|edge| edge.kind == EdgeKind::Raw) {
                let length = depth + u32::from(edge.latency);
                if depths[edge.node as usize].is_none_or(|known| length > known) {
                    (depths[edge.node as usize], before[edge.node as usize]) = (Some(length), Some(node));
                }
            }
        }
        Paths { depths, before }
    }

    /// Returns the nodes of the path to a node.
    fn to(&self, node: u32) -> Vec<u32> {
        let mut path: Vec<u32> = std::iter::successors(Some(node), |&node| self.before[node as usize]).collect();
        path.reverse();
        path
    }
}
