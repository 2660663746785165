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

#[cfg(test)]
mod tests {
    use crate::text;

    /// `IADD3` and its operands remain in the tables after it was removed from its block.
    #[test]
    fn unused_instructions_and_their_operands_are_deleted() {
        let text = "func kernel @f ssa {\nbb0:\n    %0:R = S2R SR_TID.X\n    %1:R = IADD3 %0, 0x1, RZ\n    %2:R = FADD %0, %0\n    BRA bb1\nbb1:\n    EXIT\n}";
        let mut function = text::parse(text).unwrap().remove(0);
        let entry = function.entry();
        function.blocks[entry].insts.remove(1);
        let (printed, insts, operands) = (text::print(&function), function.insts.len(), function.operands.len());
        function.delete_unused_insts();
        assert_eq!(text::print(&function), printed);
        assert_eq!((function.insts.len(), function.operands.len()), (insts - 1, operands - 4));
    }

    #[test]
    fn blocks_outside_the_layout_become_empty() {
        let text = "func kernel @f ssa {\nbb0:\n    EXIT\nbb1:\n    EXIT\n}";
        let mut function = text::parse(text).unwrap().remove(0);
        let removed = function.layout.pop().unwrap();
        function.delete_unused_insts();
        assert_eq!((function.insts.len(), function.blocks[removed].insts.len()), (1, 0));
    }
}
