//! Which handler selects which PTX instruction.

use oriole_ptx::table::Opcode;

use crate::error::Unsupported;
use crate::ptx::Ptx;
use crate::select::Select;
use crate::{control, integer, memory, moves};

/// Selects one instruction.
pub(crate) fn select(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    match ptx.opcode() {
        Opcode::Mov => moves::mov(select, ptx),
        Opcode::Cvta => memory::cvta(select, ptx),
        Opcode::Ld => memory::load(select, ptx),
        Opcode::St => memory::store(select, ptx),
        Opcode::Add => integer::add(select, ptx),
        Opcode::Mad => integer::multiply_add(select, ptx),
        Opcode::Bra => control::branch(select, ptx),
        Opcode::Ret | Opcode::Exit => control::leave(select, ptx),
        _ => select.unsupported(ptx),
    }
}
