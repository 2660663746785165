//! Inserts loads without an effect between a load from shared memory and an asynchronous copy to shared memory.
//!
//! ptxas puts `@!PT LDS RZ, [RZ]` three times before an `LDGSTS` that follows an `LDS`, on all targets from sm_80 on; on Hopper and later
//! also before the first `LDGSTS` of a function. Why the hardware needs them is not documented, so this pass does the same wherever an
//! `LDS` may come before the `LDGSTS`: after an `LDS` of the block, and before the first `LDGSTS` of a block.
//!
//! **Before**: physical registers, final order of instructions. **After**: the same code with the idle loads.

use oriole_ir::{Function, Guard, Inst, MemoryAccess, Op, Operand, OperandKind, Role, Space};
use oriole_isa::{Opcode, RegFile, Symbol, Symbols};

/// Number of loads without an effect to insert before an `LDGSTS`.
const IDLE_LOADS_BEFORE_COPY: usize = 3;

/// Inserts loads without an effect (`@!PT LDS`) before asynchronous copies (`LDGSTS`), as ptxas does.
pub fn run(function: &mut Function) {
    for block in function.layout.clone() {
        let insts = std::mem::take(&mut function.blocks[block].insts);
        let mut guarded = Vec::with_capacity(insts.len());
        let mut is_guarded = false;
        for inst in insts {
            if function.insts[inst].is_machine(Opcode::LDGSTS) && !is_guarded {
                guarded.extend((0..IDLE_LOADS_BEFORE_COPY).map(|_| new_idle_load(function, inst)));
                is_guarded = true;
            } else if function.insts[inst].is_machine(Opcode::LDS) {
                is_guarded = false;
            }
            guarded.push(inst);
        }
        function.blocks[block].insts = guarded;
    }
}

/// Creates an `@!PT LDS RZ, [RZ]` with the source location of `inst`.
fn new_idle_load(function: &mut Function, inst: Inst) -> Inst {
    let opening = Operand::new(OperandKind::Address(Symbol::NAME_));
    let base = Operand::RZ.with_role(Role::Bracket(0));
    let never = Guard { kind: OperandKind::Zero(RegFile::Predicate), negated: true };
    let load = function.new_inst(Op::Machine(Opcode::LDS), Symbols::new(), Some(never), &[Operand::RZ, opening, base], 1);
    let access = function.accesses.push(MemoryAccess { volatile: true, ..MemoryAccess::weak(Space::Shared, 4) });
    function.insts[load].memory = Some(access);
    function.insts[load].location = function.insts[inst].location;
    load
}
