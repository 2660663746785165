//! Inserts instructions without an effect that ptxas puts into all code for certain GPUs.
//!
//! ptxas 12.8 starts every function for Volta with `@!PT SHFL.IDX PT, RZ, RZ, RZ, RZ`, and on sm_70 it puts a `NOP` before every barrier of
//! the thread block (`BAR`). Why the hardware needs them is not documented, so this pass does the same. The hardware profile says which
//! machines are concerned (`shuffle_at_start`, `nop_before_barrier`).
//!
//! **Before**: physical registers, final order of instructions. **After**: the same code with these instructions.

use oriole_hardware::machine::Machine;
use oriole_ir::{Function, Guard, Inst, Op, Operand, OperandKind};
use oriole_isa::{Opcode, RegFile, Symbol, Symbols};

/// Inserts the instructions without an effect that ptxas emits for a machine: a shuffle at the start, a `NOP` before each barrier.
pub fn run(function: &mut Function, machine: &Machine) {
    if machine.shuffle_at_start == 1 {
        let shuffle = new_idle_shuffle(function);
        let entry = function.entry();
        function.blocks[entry].insts.insert(0, shuffle);
    }
    if machine.nop_before_barrier == 1 {
        for block in function.layout.clone() {
            let insts = std::mem::take(&mut function.blocks[block].insts);
            let mut kept = Vec::with_capacity(insts.len());
            for inst in insts {
                if function.insts[inst].is_machine(Opcode::BAR) {
                    let location = function.insts[inst].location;
                    let nop = function.new_inst(Op::Machine(Opcode::NOP), Symbols::new(), None, &[], 0);
                    function.insts[nop].location = location;
                    kept.push(nop);
                }
                kept.push(inst);
            }
            function.blocks[block].insts = kept;
        }
    }
}

/// Creates an `@!PT SHFL.IDX PT, RZ, RZ, RZ, RZ`.
fn new_idle_shuffle(function: &mut Function) -> Inst {
    let never = Guard { kind: OperandKind::Zero(RegFile::Predicate), negated: true };
    let operands = [Operand::PT, Operand::RZ, Operand::RZ, Operand::RZ, Operand::RZ];
    function.new_inst(Op::Machine(Opcode::SHFL), Symbols::from_slice(&[Symbol::IDX]), Some(never), &operands, 2)
}
