//! Chooses the register bank that each web should be in.
//!
//! The general registers are in two banks, the even and the odd ones, each of which delivers one register in a cycle (`docs/control.md`).
//! An instruction of the arithmetic units that reads two registers of one bank occupies the bank for another cycle, which many resident
//! warps cannot hide. In the loop
//!
//! ```text
//! %1 = VIADD %0, %8
//! %2 = LOP3.LUT %1, %9, RZ, 0x3c, !PT
//! ```
//!
//! %8 and %9 should be in one bank, and the other values in the other one. A register can be chosen well only if the banks of all operands
//! of its readers are known, so the banks are chosen before any register is.
//!
//! The webs are the nodes of a graph. Two webs that an instruction reads have an edge, weighted by the loops around the instruction. The
//! webs get banks in descending order of their weight: each the bank with the lower weight of conflicts with the webs before it. Two
//! rounds of improvements follow. This is a heuristic for the maximum cut of the graph; its cost is that of sorting. A bank is a wish only.
//! If the function needs more registers with banks than without them, in units of eight, it is allocated without them.

use oriole_ir::{Function, Inst, RegFile, Role, Value};
use oriole_isa::Pipe;
use oriole_support::Index;
use smallvec::SmallVec;

use crate::hints::Hints;
use crate::liveness::{Flow, Liveness};
use crate::operands::part_in;

/// Assumed number of iterations of a loop.
const TRIPS: u64 = 8;

/// Depth of loops beyond which weights no longer grow.
const MAX_DEPTH: u32 = 4;

/// Number of rounds in which webs change their bank if that removes conflicts.
const ROUNDS: usize = 2;

/// Two webs that an instruction reads.
struct Edge {
    webs: [Value; 2],
    /// Whether the roots of the webs must be in different banks for the two operands to be in different ones.
    is_different: bool,
    weight: u64,
}

/// Chooses the banks of the webs of the general registers, and stores them in the hints.
pub(crate) fn choose_banks(hints: &mut Hints, function: &Function, liveness: &Liveness, flow: &Flow) {
    let mut edges: Vec<Edge> = Vec::new();
    for &block in &function.layout {
        let weight = TRIPS.pow(flow.loops.depth(block).min(MAX_DEPTH));
        for file_inst in liveness.file_insts_of(block) {
            add_edges(hints, function, file_inst.inst, weight, &mut edges);
        }
    }
    if edges.is_empty() {
        return;
    }
    let graph = Graph::new(&edges, function.values.len());
    let mut order: Vec<(u64, Value)> =
        graph.nodes.iter().map(|&web| (graph.neighbours(web).map(|(_, _, weight)| weight).sum(), web)).collect();
    order.sort_by_key(|&(weight, web)| (std::cmp::Reverse(weight), web.position()));
    let mut banks: Vec<Option<bool>> = vec![None; function.values.len()];
    for &(_, web) in &order {
        // An aligned tuple starts at an even register.
        if hints.is_aligned(web) {
            banks[web.position()] = Some(false);
        }
    }
    for round in 0..=ROUNDS {
        for &(_, web) in &order {
            if hints.is_aligned(web) {
                continue;
            }
            let mut conflicts = [0; 2];
            for (other, is_different, weight) in graph.neighbours(web) {
                if let Some(bank) = banks[other.position()] {
                    conflicts[usize::from(bank ^ !is_different)] += weight;
                }
            }
            let best = match banks[web.position()] {
                Some(bank) if round > 0 && conflicts[0] == conflicts[1] => bank,
                _ => conflicts[1] < conflicts[0],
            };
            banks[web.position()] = Some(best);
        }
    }
    for (_, web) in order {
        hints.set_bank(web, banks[web.position()]);
    }
}

/// Adds the edges between the registers that an instruction reads through the banks.
fn add_edges(hints: &mut Hints, function: &Function, inst: Inst, weight: u64, edges: &mut Vec<Edge>) {
    let Some(opcode) = function.insts[inst].op.machine() else { return };
    if !matches!(opcode.properties().pipe, Pipe::Alu | Pipe::Fma | Pipe::Half) {
        return;
    }
    let mut webs: SmallVec<[(Value, bool); 4]> = SmallVec::new();
    for operand in function.sources(inst).iter().filter(|operand| operand.role == Role::Plain) {
        let Some(part) = part_in(function, operand, RegFile::General).filter(|part| part.count == 1) else { continue };
        let (root, offset) = hints.root_of(part.value);
        let entry = (root, (offset + i32::from(part.first)).rem_euclid(2) == 1);
        if !webs.contains(&entry) {
            webs.push(entry);
        }
    }
    for (at, &(first, first_odd)) in webs.iter().enumerate() {
        for &(second, second_odd) in &webs[at + 1..] {
            if first != second {
                edges.push(Edge { webs: [first, second], is_different: first_odd == second_odd, weight });
            }
        }
    }
}

/// The edges of each web, in compressed rows.
struct Graph<'a> {
    edges: &'a [Edge],
    /// The webs with edges, by number.
    nodes: Vec<Value>,
    /// By value: the start of its row in `entries`; one more for the end.
    starts: Vec<usize>,
    /// Numbers of edges.
    entries: Vec<u32>,
}

impl Graph<'_> {
    fn new(edges: &[Edge], values: usize) -> Graph<'_> {
        let mut starts = vec![0; values + 1];
        for web in edges.iter().flat_map(|edge| edge.webs) {
            starts[web.position() + 1] += 1;
        }
        let nodes = (0..values).filter(|&value| starts[value + 1] > 0).map(Value::new).collect();
        for at in 0..values {
            starts[at + 1] += starts[at];
        }
        let mut next = starts.clone();
        let mut entries = vec![0; 2 * edges.len()];
        for (number, edge) in edges.iter().enumerate() {
            for web in edge.webs {
                entries[next[web.position()]] = number as u32;
                next[web.position()] += 1;
            }
        }
        Graph { edges, nodes, starts, entries }
    }

    /// Returns the neighbours of a web, whether they should be in the other bank, and the weight of the edge.
    fn neighbours(&self, web: Value) -> impl Iterator<Item = (Value, bool, u64)> {
        self.entries[self.starts[web.position()]..self.starts[web.position() + 1]].iter().map(move |&number| {
            let edge = &self.edges[number as usize];
            let other = if edge.webs[0] == web { edge.webs[1] } else { edge.webs[0] };
            (other, edge.is_different, edge.weight)
        })
    }
}
