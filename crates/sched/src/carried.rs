//! Dependences between consecutive iterations of a loop whose body is one region.
//!
//! An item that reads a register before the body writes it reads the value of the previous iteration. Before register allocation, in SSA
//! form, that value passes through a phi, so the item reads the result of the phi. Dependences through memory are not tracked: the memory
//! pipeline keeps the accesses of consecutive iterations in order.
//!
//! Example: in `loop: FADD R0, R0, R4; LDS R4, [R2]; BRA loop` the addition reads two results of the previous iteration: its own result R0,
//! and the result R4 of the load.

use std::ops::Range;

use oriole_hardware::{DependenceKind, Model, Port};
use oriole_isa::RegFile;
use rustc_hash::FxHashMap;

use crate::backend::CarriedEdge;
use crate::code::SchedCode;
use crate::graph::latency;

/// Returns the dependences of a region on its previous execution. `source` maps a register that is read at the start of the body to the
/// register that holds this value at the end of the previous iteration: the source of a phi, or the register itself. `source` returns
/// `None` if the body does not write that register.
pub(crate) fn carried_edges(
    code: &SchedCode,
    region: Range<usize>,
    model: &Model,
    source: impl Fn(u32) -> Option<u32>,
) -> Vec<CarriedEdge> {
    let mut writers: FxHashMap<u32, (u32, Option<Port>)> = FxHashMap::default();
    let mut reads: Vec<(u32, RegFile, u32, Option<Port>)> = Vec::new();
    for (node, item) in code.items[region.clone()].iter().enumerate() {
        for access in code.reads(item).iter().filter(|access| !writers.contains_key(&access.register)) {
            reads.push((access.register, access.file, node as u32, access.port));
        }
        for access in code.results(item) {
            writers.insert(access.register, (node as u32, access.port));
        }
    }
    let item = |node: u32| &code.items[region.start + node as usize];
    let edge = |&(register, file, to, port): &(u32, RegFile, u32, Option<Port>)| {
        let &(from, from_port) = writers.get(&source(register)?)?;
        let (latency, _) = latency(model, DependenceKind::Raw, file, (item(from), from_port), (item(to), port));
        Some(CarriedEdge { from, to, latency: latency.into() })
    };
    let mut edges: Vec<CarriedEdge> = reads.iter().filter_map(edge).collect();
    edges.sort_unstable_by_key(|edge| (edge.from, edge.to, std::cmp::Reverse(edge.latency)));
    edges.dedup_by_key(|edge| (edge.from, edge.to));
    edges
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::from_machine;
    use oriole_isa::{Target, parse};

    #[test]
    fn registers_that_are_read_before_they_are_written_are_carried() {
        let lines = ["FADD R0, R0, R4", "LDS R4, [R2]", "FADD R5, R4, R0", "FADD R5, R5, R9"];
        let code = from_machine::code(&lines.map(|line| parse(line).unwrap()));
        let edges = carried_edges(&code, 0..4, Model::of(Target::parse("sm_90a").unwrap()), Some);
        // R0 is carried from the sum to itself, R4 from the load to the sum. R5 is written before it is read, and R2 and R9 are never
        // written.
        assert_eq!(edges.iter().map(|edge| (edge.from, edge.to)).collect::<Vec<_>>(), [(0, 0), (1, 0)]);
        assert!(edges[0].latency < 10 && edges[1].latency > 10, "{edges:?}");
    }

    #[test]
    fn values_are_carried_by_phis_only() {
        let lines = ["FADD R0, R1, R1", "FADD R2, R0, R3"];
        let code = from_machine::code(&lines.map(|line| parse(line).unwrap()));
        let register = |number| from_machine::register(RegFile::General, number).unwrap();
        // A phi defines R1 as the value of R2 at the end of the body.
        let source = |of: u32| (of == register(1)).then(|| register(2));
        let edges = carried_edges(&code, 0..2, Model::of(Target::parse("sm_90a").unwrap()), source);
        assert_eq!(edges.iter().map(|edge| (edge.from, edge.to)).collect::<Vec<_>>(), [(1, 0)]);
    }
}
