//! Rewrites the blocks after a register file is allocated: inserts spill stores and edge code, deletes phis, copies and packs of the file.
//!
//! Spill stores are inserted only here, because whether a value is ever reloaded is known at the end of the walk. After the last file,
//! [`delete_pseudo_ops`] deletes the remaining pseudo operations and counts the registers in use.

use oriole_ir::{Block, Function, Inst, Op, OperandKind, Pseudo, RegFile, Value};
use rustc_hash::FxHashMap;

use crate::assigner::RegisterAssigner;
use crate::outcome::{AllocateError, Allocation};
use crate::registers::Reg;

/// A spilled value and the first register that its store reads.
type SpillStore = (Value, Reg);

impl RegisterAssigner<'_> {
    /// Deletes the phis, copies and packs of the current register file. Inserts spill stores, phis of shadows (values of another register
    /// file with the content of spilled ones), and edge code at the start of blocks.
    pub(crate) fn rewrite_blocks(&mut self) -> Result<(), AllocateError> {
        let mut shadow_phis = self.shadow_phis();
        let stores = self.spill_stores_by_definition();
        for place in 0..self.inputs.flow.reverse_post_order().len() {
            let block = self.inputs.flow.reverse_post_order()[place];
            let mut insts = std::mem::take(&mut self.output.insts[block]);
            // In the common case without spills, the instruction list stays the same, except for deleted pseudo operations.
            if stores.is_none() && shadow_phis.is_empty() && self.borders.entry_code[block].is_empty() {
                if self.output.has_pseudo_ops[block] {
                    insts.retain(|&inst| !self.is_replaced_by_moves(inst));
                }
                self.function.blocks[block].insts = insts;
                continue;
            }
            let new_phis = shadow_phis.remove(&block).unwrap_or_default();
            self.function.blocks[block].insts = self.rewrite_block(block, &insts, new_phis, stores.as_ref())?;
        }
        Ok(())
    }

    /// Creates the phis of shadow values (values of another register file with the content of spilled ones) that replace phis without a
    /// register, and returns them by block.
    fn shadow_phis(&mut self) -> FxHashMap<Block, Vec<Inst>> {
        let mut phis: FxHashMap<Block, Vec<Inst>> = FxHashMap::default();
        if self.inputs.file != RegFile::General {
            for (block, phi) in std::mem::take(&mut self.borders.phis_without_register) {
                phis.entry(block).or_default().extend(self.spills.create_shadow_phi(self.function, phi, self.inputs.file));
            }
        }
        phis
    }

    /// Returns, for each instruction that defines spilled values, these values with the first register that the store of each reads; `None`
    /// if no value is spilled.
    fn spill_stores_by_definition(&self) -> Option<FxHashMap<Inst, Vec<SpillStore>>> {
        let mut stores: FxHashMap<Inst, Vec<SpillStore>> = FxHashMap::default();
        let mut is_any_spilled = false;
        for value in self.function.values.indices().filter(|&value| self.is_in_current_file(value) && self.spills.needs_store(value)) {
            is_any_spilled = true;
            if let Some(definition) = self.walk.definitions[value] {
                stores.entry(definition.inst).or_default().push((value, definition.register));
            }
        }
        is_any_spilled.then_some(stores)
    }

    /// Returns the new instruction list of a block: `output` with spill stores, phis of shadow values and edge code inserted and pseudo
    /// operations deleted.
    fn rewrite_block(
        &mut self,
        block: Block,
        output: &[Inst],
        new_phis: Vec<Inst>,
        stores: Option<&FxHashMap<Inst, Vec<SpillStore>>>,
    ) -> Result<Vec<Inst>, AllocateError> {
        let mut insts: Vec<Inst> = Vec::with_capacity(output.len());
        let phis = output.iter().take_while(|&&inst| self.function.insts[inst].is(Pseudo::Phi)).count();
        // Spilled phis that are in registers at the start of the block: their stores come after the edge code there.
        let mut spilled_phis: Vec<(Inst, SpillStore)> = Vec::new();
        for &phi in &output[..phis] {
            match self.function.operands(phi)[0].value().filter(|&value| self.is_in_current_file(value)) {
                Some(value) if self.spills.needs_store(value) => {
                    spilled_phis.extend(self.borders.phi_register(value).map(|register| (phi, (value, register))));
                }
                Some(_) => {}
                None => insts.push(phi),
            }
        }
        insts.extend(new_phis);
        insts.append(&mut self.borders.entry_code[block]);
        for (phi, store) in spilled_phis {
            self.emit_spill_store(store, phi, &mut insts)?;
        }
        for &inst in &output[phis..] {
            if !self.is_replaced_copy(inst) {
                insts.push(inst);
            }
            for &store in stores.and_then(|stores| stores.get(&inst)).map_or(&[][..], |values| values) {
                self.emit_spill_store(store, inst, &mut insts)?;
            }
        }
        Ok(insts)
    }

    /// Emits the spill store of a value, which is in registers starting at `at`, after its definition.
    fn emit_spill_store(&mut self, (value, at): SpillStore, definition: Inst, out: &mut Vec<Inst>) -> Result<(), AllocateError> {
        self.spills.store(value, at, &mut self.inputs.emitter(self.function, out, definition))
    }

    /// Returns whether an instruction is a phi, copy or pack of the current register file, which the allocation has replaced by moves.
    fn is_replaced_by_moves(&self, inst: Inst) -> bool {
        match self.function.insts[inst].op {
            Op::Pseudo(Pseudo::Phi) => self.function.operands(inst)[0].value().is_some_and(|value| self.is_in_current_file(value)),
            _ => self.is_replaced_copy(inst),
        }
    }

    /// Returns whether an instruction is a copy or pack whose result is in a register of the current register file.
    fn is_replaced_copy(&self, inst: Inst) -> bool {
        let is_copy = matches!(self.function.insts[inst].op, Op::Pseudo(Pseudo::Copy | Pseudo::Pack));
        is_copy && matches!(self.function.operands(inst)[0].kind, OperandKind::Register { file, .. } if file == self.inputs.file)
    }
}

/// Deletes the remaining pseudo operations (`ENTRY`, `KEEP`). Finds the highest general register, uniform register and convergence barrier
/// in use.
pub(crate) fn delete_pseudo_ops(function: &mut Function, allocation: &mut Allocation) {
    for position in 0..function.layout.len() {
        let block = function.layout[position];
        let mut insts = std::mem::take(&mut function.blocks[block].insts);
        insts.retain(|&inst| matches!(function.insts[inst].op, Op::Machine(_)));
        for &inst in &insts {
            for operand in function.operands(inst) {
                if let OperandKind::Register { file, first, count } = operand.kind {
                    let end = u32::from(first) + u32::from(count);
                    match file {
                        RegFile::General => allocation.registers_used = allocation.registers_used.max(end),
                        RegFile::Uniform => allocation.uniform_used = allocation.uniform_used.max(end),
                        RegFile::Convergence => allocation.barriers_used = allocation.barriers_used.max(end),
                        _ => {}
                    }
                }
            }
        }
        function.blocks[block].insts = insts;
    }
    function.is_ssa = false;
}
