//! Rebuilds the blocks after a register file is allocated: inserts spill stores and edge code, deletes phis, copies and packs of the file.
//!
//! Spill stores can only be inserted now: whether a value is ever reloaded is known at the end of the walk. [`finish`] deletes the
//! remaining pseudo operations after the last file and counts the registers.

use oriole_ir::{Function, Inst, Op, OperandKind, Pseudo, RegFile, Value};
use oriole_support::Index;
use rustc_hash::FxHashMap;

use crate::assign::{Assigner, NO_REGISTER};
use crate::spill::EmitPoint;
use crate::{AllocateError, Allocation};

impl Assigner<'_> {
    /// Deletes this register file's phis, copies and packs, and inserts spill stores, phis of shadow values, and the code of edges that
    /// belongs at the start of blocks.
    pub(crate) fn rewrite_blocks(&mut self) -> Result<(), AllocateError> {
        let mut shadow_phis: FxHashMap<oriole_ir::Block, Vec<Inst>> = FxHashMap::default();
        if self.file != RegFile::General {
            for (block, phi) in std::mem::take(&mut self.phis_without_register) {
                let mut out = shadow_phis.remove(&block).unwrap_or_default();
                self.shadow_phi(phi, &mut out);
                shadow_phis.insert(block, out);
            }
        }
        // Spilled values by the instruction that defines them. Shadows created above are beyond the end of `needs_store`.
        let mut stores: FxHashMap<Inst, Vec<Value>> = FxHashMap::default();
        let mut any_store = false;
        for (value, class) in self.function.values.iter_enumerated().take(self.needs_store.len()) {
            if self.needs_store[value.position()] && class.file == self.file {
                any_store = true;
                if let Some(inst) = self.definition[value.position()] {
                    stores.entry(inst).or_default().push(value);
                }
            }
        }
        for place in 0..self.flow.order.len() {
            let block = self.flow.order[place];
            let mut output = std::mem::take(&mut self.output[block.position()]);
            // The common case, no spills: the list is kept, less what has become unnecessary.
            if !any_store && shadow_phis.is_empty() && self.heads[block.position()].is_empty() {
                if self.has_pseudo[block.position()] {
                    output.retain(|&inst| !self.is_replaced(inst));
                }
                self.function.blocks[block].insts = output;
                continue;
            }
            let mut insts: Vec<Inst> = Vec::with_capacity(output.len());
            let phis = output.iter().take_while(|&&inst| self.function.insts[inst].is(Pseudo::Phi)).count();
            // Spilled phis that are in registers at the start of the block: their stores follow the code at the start.
            let mut entering = Vec::new();
            for &phi in &output[..phis] {
                match self.function.operands(phi)[0].value().filter(|&value| self.class(value).file == self.file) {
                    Some(value) if self.needs_store[value.position()] && self.entered_at[value.position()] != NO_REGISTER => {
                        entering.push((phi, value));
                    }
                    Some(_) => {}
                    None => insts.push(phi),
                }
            }
            insts.extend(shadow_phis.remove(&block).unwrap_or_default());
            insts.append(&mut self.heads[block.position()]);
            for (inst, value) in entering {
                self.defined_in[value.position()] = self.entered_at[value.position()];
                self.store(value, &mut EmitPoint { out: &mut insts, location: self.function.insts[inst].location, inst })?;
            }
            for &inst in &output[phis..] {
                if !self.is_replaced_copy(inst) {
                    insts.push(inst);
                }
                for &value in stores.get(&inst).map_or(&[][..], |values| values) {
                    self.store(value, &mut EmitPoint { out: &mut insts, location: self.function.insts[inst].location, inst })?;
                }
            }
            self.function.blocks[block].insts = insts;
        }
        Ok(())
    }

    /// Returns whether an instruction is a phi, copy or pack of the file, which the allocation has replaced by moves.
    fn is_replaced(&self, inst: Inst) -> bool {
        match self.function.insts[inst].op {
            Op::Pseudo(Pseudo::Phi) => self.function.operands(inst)[0].value().is_some_and(|value| self.class(value).file == self.file),
            _ => self.is_replaced_copy(inst),
        }
    }

    /// Returns whether an instruction is a copy or pack whose result is in a register of the file.
    fn is_replaced_copy(&self, inst: Inst) -> bool {
        let is_copy = matches!(self.function.insts[inst].op, Op::Pseudo(Pseudo::Copy | Pseudo::Pack));
        is_copy && matches!(self.function.operands(inst)[0].kind, OperandKind::Register { file, .. } if file == self.file)
    }
}

/// Deletes the remaining pseudo operations (`ENTRY`, `KEEP`) and computes the number of registers used in each file.
pub(crate) fn finish(function: &mut Function, allocation: &mut Allocation) {
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
