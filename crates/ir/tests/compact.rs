//! Tests of deleting instructions that are in no block.

use oriole_ir::{Function, Inst, text};
use oriole_support::Index;

/// Returns the number of operands of all instructions, also of those that are in no block.
fn operand_count(function: &Function) -> usize {
    (0..function.insts.len()).map(|number| function.operands(Inst::new(number)).len()).sum()
}

/// `IADD3` and its operands remain in the tables after it was removed from its block.
#[test]
fn unused_instructions_and_their_operands_are_deleted() {
    let text = "func kernel @f ssa {\nbb0:\n    %0:R = S2R SR_TID.X\n    %1:R = IADD3 %0, 0x1, RZ\n    %2:R = FADD %0, %0\n    BRA bb1\nbb1:\n    EXIT\n}";
    let mut function = text::parse(text).unwrap().remove(0);
    let entry = function.entry();
    function.blocks[entry].insts.remove(1);
    let (printed, insts, operands) = (text::print(&function), function.insts.len(), operand_count(&function));
    function.delete_unused_insts();
    assert_eq!(text::print(&function), printed);
    assert_eq!((function.insts.len(), operand_count(&function)), (insts - 1, operands - 4));
}

#[test]
fn blocks_outside_the_layout_become_empty() {
    let text = "func kernel @f ssa {\nbb0:\n    EXIT\nbb1:\n    EXIT\n}";
    let mut function = text::parse(text).unwrap().remove(0);
    let removed = function.layout.pop().unwrap();
    function.delete_unused_insts();
    assert_eq!((function.insts.len(), function.blocks[removed].insts.len()), (1, 0));
}
