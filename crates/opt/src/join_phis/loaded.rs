//! Finds the phis of the elements of vectors that are loaded before a loop and in it.

use oriole_ir::{Block, Function, Inst, Operand, OperandKind, Part, Pseudo, RegFile, Value};
use oriole_isa::Effect;
use rustc_hash::FxHashMap;

use super::phi_set::{JoinablePhis, phi_sources};
use crate::definitions::Definitions;

/// Finds the sets of phis of a block whose sources are, for each predecessor, all registers of one vector load or tuple phi, in the same
/// order.
pub(super) fn find_phi_sets(function: &Function, definitions: &Definitions, block: Block) -> Vec<JoinablePhis> {
    let phis = function.phis(block);
    let Some((_, first_predecessor)) = phis.first().and_then(|&phi| phi_sources(function, phi).next()) else { return Vec::new() };
    // The tuples in the order in which they are found, and for each tuple the phis of its elements.
    let mut tuples: Vec<Value> = Vec::new();
    let mut elements: FxHashMap<Value, Vec<(u8, Inst)>> = FxHashMap::default();
    for &phi in phis {
        let Some(part) = source_part(function, definitions, phi, first_predecessor) else { continue };
        if part.count < function.values[part.value].width {
            let found = elements.entry(part.value).or_insert_with(|| {
                tuples.push(part.value);
                Vec::new()
            });
            found.push((part.first, phi));
        }
    }
    let mut sets = Vec::new();
    for tuple in tuples {
        let mut found = elements.remove(&tuple).unwrap_or_default();
        found.sort_unstable_by_key(|&(first, _)| first);
        let phis: Vec<Inst> = found.into_iter().map(|(_, phi)| phi).collect();
        let Some(predecessors) = phis.first().map(|&phi| phi_sources(function, phi).map(|(_, from)| from)) else { continue };
        let class = function.values[tuple];
        let is_tuple_from = |from: Block| {
            let source = tuple_of_sources(function, definitions, &phis, from)?;
            (function.values[source] == class && is_loaded(function, definitions, source)).then_some(())
        };
        if predecessors.into_iter().all(|from| is_tuple_from(from).is_some()) {
            sets.push(JoinablePhis { source_tuple: tuple, phis });
        }
    }
    sets
}

/// If the sources of phis for the predecessor `from` are all registers of one tuple, in the order of the phis, returns the tuple.
pub(super) fn tuple_of_sources(function: &Function, definitions: &Definitions, phis: &[Inst], from: Block) -> Option<Value> {
    let mut tuple: Option<Value> = None;
    let mut next = 0;
    for &phi in phis {
        let part = source_part(function, definitions, phi, from)?;
        let count = function.results(phi)[0].part()?.count;
        if part.first != next || part.count != count || tuple.is_some_and(|tuple| tuple != part.value) {
            return None;
        }
        tuple = Some(part.value);
        next += count;
    }
    tuple.filter(|&tuple| function.values[tuple].width == next)
}

/// Returns the registers that the source of a phi for one predecessor copies; `None` if they are not general registers.
fn source_part(function: &Function, definitions: &Definitions, phi: Inst, from: Block) -> Option<Part> {
    let is_plain = |operand: &Operand| operand.signs.is_empty() && matches!(operand.kind, OperandKind::Value(_));
    let (source, _) = phi_sources(function, phi).find(|&(source, block)| block == from && is_plain(&source))?;
    let part = definitions.origin_of_group(function, source.part()?);
    (function.values[part.value].file == RegFile::General).then_some(part)
}

/// Returns whether a tuple is the result of an unguarded load, or of a phi.
fn is_loaded(function: &Function, definitions: &Definitions, tuple: Value) -> bool {
    let definition = definitions.unguarded_definition_of(function, tuple);
    definition.is_some_and(|inst| is_vector_load(function, inst) || function.insts[inst].is(Pseudo::Phi))
}

/// Returns whether an instruction loads a tuple of registers.
pub(super) fn is_vector_load(function: &Function, inst: Inst) -> bool {
    let data = &function.insts[inst];
    let is_tuple = |result: &Operand| result.part().is_some_and(|part| part.count > 1);
    let is_load = data.memory.is_some() && data.op.machine().is_some_and(|opcode| opcode.properties().effect == Effect::Reads);
    is_load && function.results(inst).first().is_some_and(is_tuple)
}
