//! Which handler selects which PTX instruction.

use oriole_ptx::table::Opcode;

use crate::error::Unsupported;
use crate::ptx::Ptx;
use crate::select::Select;
use crate::{control, convert, float, integer, memory, moves};

/// Selects one instruction.
pub(crate) fn select(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    match ptx.opcode() {
        Opcode::Mov => moves::mov(select, ptx),
        Opcode::Cvta => memory::cvta(select, ptx),
        Opcode::Ld => memory::load(select, ptx),
        Opcode::St => memory::store(select, ptx),
        Opcode::Add | Opcode::Sub | Opcode::Mul if float::is_float(ptx.ty()) => float::arithmetic(select, ptx),
        Opcode::Fma => float::fused(select, ptx),
        Opcode::Mad if float::is_float(ptx.ty()) => float::fused(select, ptx),
        Opcode::Abs | Opcode::Neg if float::is_float(ptx.ty()) => float::sign(select, ptx),
        Opcode::Min | Opcode::Max if float::is_float(ptx.ty()) => float::extremum(select, ptx),
        Opcode::Div if float::is_float(ptx.ty()) => float::divide(select, ptx),
        Opcode::Rcp | Opcode::Sqrt | Opcode::Rsqrt | Opcode::Sin | Opcode::Cos | Opcode::Lg2 | Opcode::Ex2 | Opcode::Tanh => {
            float::function(select, ptx)
        }
        Opcode::Copysign => float::copy_sign(select, ptx),
        Opcode::Testp => float::test_class(select, ptx),
        Opcode::Cvt => convert::convert(select, ptx),
        Opcode::Add => integer::add(select, ptx),
        Opcode::Mad => integer::multiply_add(select, ptx),
        Opcode::Bra => control::branch(select, ptx),
        Opcode::Ret | Opcode::Exit => control::leave(select, ptx),
        _ => select.unsupported(ptx),
    }
}
