//! What a function does before its own code: a kernel that uses its frame fetches the stack pointer and moves it.

use oriole_ir::{Class, File, Function, FunctionKind, Guard, Inst, Op, Opcode, Operand, OperandKind, Target};
use oriole_isa::Symbols;

/// The stack pointer.
const STACK_POINTER: Operand = Operand::new(OperandKind::Register { file: File::General, first: 1, count: 1 });

/// Inserts the prologue. Returns whether there is one.
pub fn run(function: &mut Function, target: Target) -> bool {
    let _ = (Class::R, None::<Guard>);
    if function.kind != FunctionKind::Kernel || !uses_stack(function) {
        return false;
    }
    let offset = target.profile().stack_pointer;
    let initial = Operand::new(OperandKind::Constant { bank: 0, offset });
    let load = function.new_inst(Op::Machine(Opcode::LDC), Symbols::new(), None, &[STACK_POINTER, initial], 1);
    let mut prologue: Vec<Inst> = vec![load];
    let frame = function.frame_bytes.next_multiple_of(function.frame_align.max(8));
    function.frame_bytes = frame;
    if frame > 0 {
        let amount = Operand::from(-i64::from(frame));
        let operands = [STACK_POINTER, Operand::PT, Operand::PT, STACK_POINTER, amount, Operand::RZ];
        prologue.push(function.new_inst(Op::Machine(Opcode::IADD3), Symbols::new(), None, &operands, 3));
    }
    let entry = function.entry();
    function.blocks[entry].insts.splice(0..0, prologue);
    true
}

fn uses_stack(function: &Function) -> bool {
    let is_stack_pointer = |operand: &Operand| operand.kind == STACK_POINTER.kind;
    function.frame_bytes > 0
        || function.layout.iter().any(|&block| {
            let insts = &function.blocks[block].insts;
            insts.iter().any(|&inst| function.insts[inst].is_machine(Opcode::CALL) || function.operands(inst).iter().any(is_stack_pointer))
        })
}
