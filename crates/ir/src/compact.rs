//! Deletes the instructions of a function that are in no block.
//!
//! Passes leave the instructions that they replace in the tables of the function. Every copy of the function would contain them, and every
//! table that is indexed by instruction has entries for them. After the optimizations they are often more than half of all instructions.

use oriole_support::{Index, IndexVec};

use crate::function::{Function, with_room};
use crate::ids::Inst;

impl Function {
    /// Deletes the instructions that are in no block of the layout, and the operands of deleted instructions. The others are numbered again,
    /// in the same order, so all [`Inst`]s that the caller keeps become invalid. Empties the blocks that are not in the layout.
    pub fn delete_unused_insts(&mut self) {
        let mut new_numbers: IndexVec<Inst, Option<Inst>> = IndexVec::filled(self.insts.len(), None);
        let mut is_in_layout = vec![false; self.blocks.len()];
        let mut used = 0;
        for &block in &self.layout {
            is_in_layout[block.position()] = true;
            used += self.blocks[block].insts.len();
            for &inst in &self.blocks[block].insts {
                new_numbers[inst] = Some(inst);
            }
        }
        let old_operands = std::mem::take(&mut self.operands);
        self.operands = Vec::with_capacity(old_operands.len());
        let mut insts = IndexVec::new();
        insts.reserve(with_room(used));
        for (old, mut data) in std::mem::take(&mut self.insts).into_vec().into_iter().enumerate() {
            let new_number = &mut new_numbers[Inst::new(old)];
            if new_number.is_none() {
                continue;
            }
            let first = data.first_operand as usize;
            data.first_operand = self.operands.len() as u32;
            self.operands.extend_from_slice(&old_operands[first..first + data.operand_count as usize]);
            *new_number = Some(insts.push(data));
        }
        self.insts = insts;
        for (block, is_in_layout) in self.blocks.iter_mut().zip(is_in_layout) {
            if is_in_layout {
                block.insts.iter_mut().for_each(|inst| *inst = new_numbers[*inst].unwrap_or(*inst));
            } else {
                block.insts.clear();
            }
        }
    }
}
