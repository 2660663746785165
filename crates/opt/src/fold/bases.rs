//! Creates packs of two registers that become the base of a 64-bit address.

use oriole_ir::analysis::{ControlFlow, Dominators};
use oriole_ir::{Block, Class, Function, Inst, Op, Part, Pseudo};
use oriole_isa::{RegFile, Symbols};
use oriole_support::Index;
use rustc_hash::FxHashMap;

use crate::definitions::Definitions;

/// The `PACK` instructions that folding has created for 64-bit addresses. They are inserted into the blocks at the end of the pass, in one
/// walk.
#[derive(Default)]
pub(super) struct PackedAddressBases {
    /// Maps the lower and upper half of each base to the register pair into which a `PACK` copies them.
    pairs: FxHashMap<(Part, Part), Part>,
    /// For each instruction, the packs to insert after it.
    packs_after: FxHashMap<Inst, Vec<Inst>>,
    /// The positions of all instructions; `None` until the first pack is created.
    inst_positions: Option<InstPositions>,
}

/// The positions of all instructions, for finding out which of two definitions is later.
struct InstPositions {
    /// For each instruction, its block and its index in the block; `None` if it is in no block.
    positions: Vec<Option<(Block, usize)>>,
    /// The dominator tree.
    dominators: Dominators,
}

impl PackedAddressBases {
    /// Returns an aligned register pair with the registers `low` and `high` as halves; creates its `PACK` if there is none yet. Both
    /// registers must be defined on all paths to the instruction that reads the pair. Returns `None` if a register is not a general
    /// register or has no definition.
    pub(super) fn pack_halves(&mut self, function: &mut Function, definitions: &Definitions, low: Part, high: Part) -> Option<Part> {
        if let Some(&pair) = self.pairs.get(&(low, high)) {
            return Some(pair);
        }
        let is_general = |part: Part| function.values[part.value].file == RegFile::General;
        if !is_general(low) || !is_general(high) {
            return None;
        }
        let inst_positions = self.inst_positions.get_or_insert_with(|| InstPositions::compute(function));
        let later = inst_positions.later_of(definitions.definition_of(low.value)?, definitions.definition_of(high.value)?)?;
        let value = function.new_value(Class::R2);
        let pair = function.whole(value);
        let pack = function.new_inst(Op::Pseudo(Pseudo::Pack), Symbols::new(), None, &[pair.into(), low.into(), high.into()], 1);
        function.insts[pack].location = function.insts[later].location;
        self.packs_after.entry(later).or_default().push(pack);
        self.pairs.insert((low, high), pair);
        Some(pair)
    }

    /// Inserts each `PACK` after the later definition of its two halves; if that is a phi, after all phis of the block.
    pub(super) fn insert_packs(mut self, function: &mut Function) {
        let Some(inst_positions) = self.inst_positions.take() else { return };
        let mut blocks: Vec<Block> =
            self.packs_after.keys().filter_map(|inst| inst_positions.positions[inst.position()]).map(|place| place.0).collect();
        blocks.sort_unstable_by_key(|block| block.position());
        blocks.dedup();
        for block in blocks {
            let insts = std::mem::take(&mut function.blocks[block].insts);
            let mut new = Vec::with_capacity(insts.len() + 4);
            let mut after_phis = Vec::new();
            for inst in insts {
                if !function.insts[inst].is(Pseudo::Phi) {
                    new.append(&mut after_phis);
                }
                new.push(inst);
                if let Some(packs) = self.packs_after.remove(&inst) {
                    after_phis.extend(packs);
                }
                if !function.insts[inst].is(Pseudo::Phi) {
                    new.append(&mut after_phis);
                }
            }
            function.blocks[block].insts = new;
        }
    }
}

impl InstPositions {
    /// Computes the positions of all instructions and the dominator tree of a function.
    fn compute(function: &Function) -> InstPositions {
        let mut positions = vec![None; function.insts.len()];
        for &block in &function.layout {
            for (number, &inst) in function.blocks[block].insts.iter().enumerate() {
                positions[inst.position()] = Some((block, number));
            }
        }
        let flow = ControlFlow::compute(function);
        InstPositions { positions, dominators: Dominators::compute(function, &flow) }
    }

    /// Returns the later one of two instructions that both dominate a third one; `None` if one of them is in no block.
    fn later_of(&self, one: Inst, other: Inst) -> Option<Inst> {
        let (first, second) = (self.positions[one.position()]?, self.positions[other.position()]?);
        let other_is_later = if first.0 == second.0 { first.1 < second.1 } else { self.dominators.dominates(first.0, second.0) };
        Some(if other_is_later { other } else { one })
    }
}
