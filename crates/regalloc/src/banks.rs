//! Chooses the register bank that each web ([`crate::hints`]) should be in.
//!
//! The general registers are in two banks, the even and the odd ones, each of which can read one register per cycle (`docs/control.md`).
//! An instruction of the arithmetic units that reads two registers of one bank occupies the bank for one more cycle, which other resident
//! warps cannot hide. In the loop
//!
//! ```text
//! %1 = VIADD %0, %8
//! %2 = LOP3.LUT %1, %9, RZ, 0x3c, !PT
//! ```
//!
//! %8 and %9 should be in one bank, and the other values in the other bank. The best register for a value depends on the banks of the other
//! operands of the instructions that read it, so all banks are chosen before any register is.
//!
//! The webs are the nodes of a graph. An edge connects two webs that one instruction reads; its weight is the estimated number of
//! executions of the instruction. In descending order of weight, each web gets the bank that conflicts less, by weight, with the webs
//! before it. Two rounds of improvements follow. This is a heuristic for the maximum cut of the graph; most of its time is for sorting the
//! webs. A bank is only a preference. If the preferences cost allocation units of registers, spill code or instructions, the function is
//! allocated without them.

use oriole_ir::{Function, Inst, RegFile, Role, Value};
use oriole_isa::Pipe;
use oriole_support::Index;
use smallvec::SmallVec;

use crate::hints::CoalescingHints;
use crate::liveness::{ControlFlowAndLoops, FileLiveness};
use crate::operands::part_in_file;

/// Assumed number of iterations of a loop: a bank conflict weighs this much more for each loop around it.
const ASSUMED_TRIP_COUNT: u64 = 8;

/// Loop depth beyond which the weights of bank conflicts no longer grow.
const MAX_WEIGHTED_LOOP_DEPTH: u32 = 4;

/// Number of rounds, after the first choice, in which webs (sets of related values) change their bank if that removes conflicts.
const BANK_IMPROVEMENT_ROUNDS: usize = 2;

/// An edge of the conflict graph: two webs (sets of values that should be in related registers) whose values one instruction reads.
struct BankConflictEdge {
    /// The roots of the two webs in the union-find forest of [`CoalescingHints`].
    webs: [Value; 2],
    /// Whether the roots of the two webs must be in different banks so that the two operands are in different banks; otherwise the roots
    /// must be in the same bank. An operand is in the bank of its root if its distance from the root is even.
    roots_must_differ: bool,
    /// Estimated number of executions of the instruction.
    weight: u64,
}

/// Chooses a preferred register bank for each web of the general registers that may have bank conflicts, and stores it in the hints. Returns
/// whether there is such a web.
pub(crate) fn choose_banks(hints: &mut CoalescingHints, function: &Function, liveness: &FileLiveness, flow: &ControlFlowAndLoops) -> bool {
    let mut edges: Vec<BankConflictEdge> = Vec::new();
    for &block in &function.layout {
        let weight = ASSUMED_TRIP_COUNT.pow(flow.loops.depth(block).min(MAX_WEIGHTED_LOOP_DEPTH));
        for file_inst in liveness.file_insts_of(block) {
            add_conflict_edges(hints, function, file_inst.inst, weight, &mut edges);
        }
    }
    if edges.is_empty() {
        return false;
    }
    let graph = BankConflictGraph::new(&edges, function.values.len());
    let mut order: Vec<(u64, Value)> =
        graph.nodes.iter().map(|&web| (graph.neighbours(web).map(|(_, _, weight)| weight).sum(), web)).collect();
    order.sort_by_key(|&(weight, web)| (std::cmp::Reverse(weight), web.position()));
    let mut banks: Vec<Option<bool>> = vec![None; function.values.len()];
    for &(_, web) in &order {
        // The root of a web with aligned tuples starts at an even register, so its bank (`true` for odd registers) is known.
        if hints.has_aligned_tuples(web) {
            banks[web.position()] = Some(false);
        }
    }
    for round in 0..=BANK_IMPROVEMENT_ROUNDS {
        for &(_, web) in &order {
            if hints.has_aligned_tuples(web) {
                continue;
            }
            let mut conflicts = [0; 2];
            for (other, roots_must_differ, weight) in graph.neighbours(web) {
                if let Some(bank) = banks[other.position()] {
                    conflicts[usize::from(bank ^ !roots_must_differ)] += weight;
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
        hints.set_preferred_bank(web, banks[web.position()]);
    }
    true
}

/// Adds an edge to `edges` for each pair of webs (sets of related values) whose values an instruction of the arithmetic units reads from
/// the register banks. `weight` is the estimated number of executions of the instruction.
fn add_conflict_edges(hints: &mut CoalescingHints, function: &Function, inst: Inst, weight: u64, edges: &mut Vec<BankConflictEdge>) {
    let Some(opcode) = function.insts[inst].op.machine() else { return };
    if !matches!(opcode.properties().pipe, Pipe::Alu | Pipe::Fma | Pipe::Half) {
        return;
    }
    let mut webs: SmallVec<[(Value, bool); 4]> = SmallVec::new();
    for operand in function.sources(inst).iter().filter(|operand| operand.role == Role::Plain) {
        let Some(part) = part_in_file(function, operand, RegFile::General).filter(|part| part.count == 1) else { continue };
        let (root, offset) = hints.root_of(part.value);
        let entry = (root, (offset + i32::from(part.first)).rem_euclid(2) == 1);
        if !webs.contains(&entry) {
            webs.push(entry);
        }
    }
    for (at, &(first, first_odd)) in webs.iter().enumerate() {
        for &(second, second_odd) in &webs[at + 1..] {
            if first != second {
                edges.push(BankConflictEdge { webs: [first, second], roots_must_differ: first_odd == second_odd, weight });
            }
        }
    }
}

/// The graph of bank conflicts between webs (sets of related values), as an adjacency list in compressed-row form.
struct BankConflictGraph<'a> {
    /// The edges of the graph.
    edges: &'a [BankConflictEdge],
    /// The roots of the webs that have edges, in ascending order.
    nodes: Vec<Value>,
    /// For each value: the start of its row in `entries`; one more element marks the end of the last row. Only roots of webs have rows.
    row_starts: Vec<usize>,
    /// The rows of the adjacency list, one after the other. A row has the edges of one web as indices into `edges`.
    entries: Vec<u32>,
}

impl BankConflictGraph<'_> {
    /// Builds the adjacency list; `values` is the number of values of the function.
    fn new(edges: &[BankConflictEdge], values: usize) -> BankConflictGraph<'_> {
        let mut row_starts = vec![0; values + 1];
        for web in edges.iter().flat_map(|edge| edge.webs) {
            row_starts[web.position() + 1] += 1;
        }
        let nodes = (0..values).filter(|&value| row_starts[value + 1] > 0).map(Value::new).collect();
        for at in 0..values {
            row_starts[at + 1] += row_starts[at];
        }
        let mut next = row_starts.clone();
        let mut entries = vec![0; 2 * edges.len()];
        for (number, edge) in edges.iter().enumerate() {
            for web in edge.webs {
                entries[next[web.position()]] = number as u32;
                next[web.position()] += 1;
            }
        }
        BankConflictGraph { edges, nodes, row_starts, entries }
    }

    /// Returns the neighbours of a web in the conflict graph, as (root of the neighbour, whether the two roots should be in different
    /// banks, weight of the edge).
    fn neighbours(&self, web: Value) -> impl Iterator<Item = (Value, bool, u64)> {
        self.entries[self.row_starts[web.position()]..self.row_starts[web.position() + 1]].iter().map(move |&number| {
            let edge = &self.edges[number as usize];
            let other = if edge.webs[0] == web { edge.webs[1] } else { edge.webs[0] };
            (other, edge.roots_must_differ, edge.weight)
        })
    }
}
