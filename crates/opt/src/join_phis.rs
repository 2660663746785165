//! Joins the phis of the registers of a tuple into one phi of the tuple: those of matrix accumulators, and those of vector loads.
//!
//! PTX names each register of an accumulator separately, so a loop-carried accumulator has one phi for each register. The matrix product
//! needs all of them in one aligned tuple, and must not wait for copies: it updates the tuple in place while it runs in the background.
//! This pass makes the tuple itself loop-carried. Where the sources of a set of phis are, for one predecessor, all registers of one result
//! of a warpgroup product (or of one tuple phi, such as those that this pass makes), one phi of the tuple replaces the set.
//!
//! ```text
//! bb1:  %1 = PHI %0, bb0, %8, bb1            bb1:  %10:R2 = PHI %11, bb0, %6, bb1      // %11 = PACK %0, %0 at the end of bb0
//!       %2 = PHI %0, bb0, %9, bb1                  %1 = COPY %10[0]
//!       %5:R2 = PACK %1, %2                        %2 = COPY %10[1]
//!       %6:R2 = HGMMA .., (else %5)                %5:R2 = PACK %1, %2                 // copy propagation replaces %5 by %10
//!       %8 = COPY %6[0]                            %6:R2 = HGMMA .., (else %5)
//!       %9 = COPY %6[1]                            ...
//! ```
//!
//! A loop that loads the vectors of its next iteration has a phi for each element, and vector loads before the loop and in it. The elements
//! are in one tuple for both loads, so they cannot be in the registers of single phis too, and would be copied. If for all predecessors the
//! sources of a set of phis are the elements of one vector load, in the same order, a phi of the tuple replaces the set:
//!
//! ```text
//! bb0:  %1:R4 = LDG.E.128 ..                       bb0:  %1:R4 = LDG.E.128 ..
//! bb1:  %3:R2 = PHI %1[0:1], bb0, %6[0:1], bb1   bb1:  %9:R4 = PHI %1, bb0, %6, bb1
//!       %4:R2 = PHI %1[2:3], bb0, %6[2:3], bb1         %3:R2 = COPY %9[0:1] ; %4:R2 = COPY %9[2:3]
//!       ...                                              ...
//!       %6:R4 = LDS.128 ..                               %6:R4 = LDS.128 ..
//! ```
//!
//! **Before** and **after**: SSA. Copy propagation and dead-code elimination remove the copies. The cost is linear in the number of phi
//! sources for each round; a further round follows only if the previous one joined phis.

use oriole_ir::{Block, Function, Inst, Op, Operand, Part, Pseudo, Target, Value};
use oriole_isa::Symbols;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::definitions::Definitions;
use crate::known::OperandFacts;
use phi_set::{JoinablePhis, phi_sources};

mod loaded;
mod phi_set;

/// Numbers of changes that the pass made to a function.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Number of tuple phis created.
    pub joined: usize,
}

/// Joins the phis of the registers of each matrix accumulator, and of each vector that is loaded, into one phi of a tuple, in a whole
/// function.
pub fn run(function: &mut Function, _target: Target) -> Stats {
    let mut stats = Stats::default();
    let insts = || function.layout.iter().flat_map(|&block| &function.blocks[block].insts).copied();
    let has_products = insts().any(|inst| function.is_warpgroup_product(inst));
    let has_vectors = insts().any(|inst| loaded::is_vector_load(function, inst));
    let has_phis = |block: &Block| function.phis(*block).len() > 1;
    let blocks: Vec<Block> =
        if has_products || has_vectors { function.layout.iter().copied().filter(has_phis).collect() } else { Vec::new() };
    if blocks.is_empty() {
        return stats;
    }
    loop {
        let definitions = Definitions::compute(function);
        let before = stats.joined;
        for &block in &blocks {
            let mut sets = if has_products { find_phi_sets(function, &definitions, block) } else { Vec::new() };
            // A phi of an accumulator whose sources are other phis of tuples can be in a set of both kinds.
            let taken: FxHashSet<Inst> = sets.iter().flat_map(|set| set.phis.iter().copied()).collect();
            let is_free = |set: &JoinablePhis| !set.phis.iter().any(|phi| taken.contains(phi));
            sets.extend(loaded::find_phi_sets(function, &definitions, block).into_iter().filter(is_free));
            for set in &sets {
                join_phi_set(function, &definitions, block, set);
                stats.joined += 1;
            }
        }
        if stats.joined == before {
            return stats;
        }
    }
}

/// Finds the sets of phis of a block whose sources, for one predecessor, are all registers of one tuple.
fn find_phi_sets(function: &Function, definitions: &Definitions, block: Block) -> Vec<JoinablePhis> {
    let phis = function.phis(block);
    let mut tuples: Vec<(Value, Block)> = Vec::new();
    let mut found: FxHashMap<(Value, Block), Vec<Option<Inst>>> = FxHashMap::default();
    for &phi in phis {
        for (source, from) in phi_sources(function, phi) {
            let Some(part) = tuple_register(function, definitions, source) else { continue };
            let width = usize::from(function.values[part.value].width);
            let slots = found.entry((part.value, from)).or_insert_with(|| {
                tuples.push((part.value, from));
                vec![None; width]
            });
            slots[usize::from(part.first)].get_or_insert(phi);
        }
    }
    let mut taken: Vec<Inst> = Vec::new();
    let mut sets = Vec::new();
    for key in tuples {
        let Some(phis) = found.remove(&key).and_then(|slots| slots.into_iter().collect::<Option<Vec<Inst>>>()) else { continue };
        if !phis.iter().any(|phi| taken.contains(phi)) {
            taken.extend(&phis);
            sets.push(JoinablePhis { source_tuple: key.0, phis });
        }
    }
    sets
}

/// If a phi source is a copy of one register of a tuple (the accumulator of a matrix product, or the result of a tuple phi), returns that
/// register; otherwise `None`.
fn tuple_register(function: &Function, definitions: &Definitions, source: Operand) -> Option<Part> {
    let part = definitions.origin(function, source.part().filter(|part| part.count == 1)?);
    let definition = definitions.definition_of(part.value)?;
    let is_tuple = function.values[part.value].width > 1;
    (is_tuple && (function.is_warpgroup_product(definition) || function.insts[definition].is(Pseudo::Phi))).then_some(part)
}

/// Creates one tuple phi for a set of phis, and turns the old phis into copies of its registers.
fn join_phi_set(function: &mut Function, definitions: &Definitions, block: Block, set: &JoinablePhis) {
    let tuple = function.new_value(function.values[set.source_tuple]);
    let predecessors: Vec<Block> = phi_sources(function, set.phis[0]).map(|(_, from)| from).collect();
    let mut operands = vec![Operand::from(function.whole(tuple))];
    for from in predecessors {
        let source = source_tuple_for(function, definitions, set, from);
        operands.extend([source, from.into()]);
    }
    let phi = function.new_inst(Op::Pseudo(Pseudo::Phi), Symbols::new(), None, &operands, 1);
    function.insts[phi].location = function.insts[set.phis[0]].location;
    let mut first = 0;
    for &old in &set.phis {
        let result = function.operands(old)[0];
        let count = result.part().map_or(1, |part| part.count);
        function.insts[old].op = Op::Pseudo(Pseudo::Copy);
        function.set_operands(old, &[result, Part { value: tuple, first, count }.into()], 1);
        first += count;
    }
    let insts = std::mem::take(&mut function.blocks[block].insts);
    let (copies, others): (Vec<Inst>, Vec<Inst>) = insts.into_iter().partition(|inst| set.phis.contains(inst));
    let phi_count = others.iter().take_while(|&&inst| function.insts[inst].is(Pseudo::Phi)).count();
    let (phis, code) = others.split_at(phi_count);
    function.blocks[block].insts = [&[phi], phis, &copies, code].concat();
}

/// Returns the tuple of the sources that the phis of a set have for the predecessor `from`. If the sources are not one tuple already, packs
/// them into one at the end of the predecessor.
fn source_tuple_for(function: &mut Function, definitions: &Definitions, set: &JoinablePhis, from: Block) -> Operand {
    let class = function.values[set.source_tuple];
    let tuple = loaded::tuple_of_sources(function, definitions, &set.phis, from);
    if let Some(tuple) = tuple.filter(|&tuple| function.values[tuple] == class) {
        return function.whole(tuple).into();
    }
    let words: Vec<Operand> = set
        .phis
        .iter()
        .map(|&phi| {
            let source = phi_sources(function, phi).find(|&(_, block)| block == from).map(|(source, _)| source);
            let is_zero = |source: &Operand| OperandFacts::new(function, definitions).word(source) == Some(0);
            source.filter(|source| source.part().is_some() && !is_zero(source)).unwrap_or(Operand::RZ)
        })
        .collect();
    let origins: Vec<Option<Part>> = words.iter().map(|word| word.part().map(|part| definitions.origin(function, part))).collect();
    if let Some(Part { value, first: 0, .. }) = origins[0]
        && function.values[value] == class
        && origins.iter().enumerate().all(|(at, part)| *part == Some(Part { value, first: at as u8, count: 1 }))
    {
        return function.whole(value).into();
    }
    let packed = function.new_value(class);
    let operands: Vec<Operand> = std::iter::once(function.whole(packed).into()).chain(words).collect();
    let pack = function.new_inst(Op::Pseudo(Pseudo::Pack), Symbols::new(), None, &operands, 1);
    let terminators = function.terminators(from);
    let at = function.blocks[from].insts.len() - terminators.len();
    if let Some(&terminator) = terminators.first() {
        function.insts[pack].location = function.insts[terminator].location;
    }
    function.blocks[from].insts.insert(at, pack);
    function.whole(packed).into()
}
