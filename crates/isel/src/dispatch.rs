//! Which handler selects which PTX instruction.

use oriole_ptx::table::{Modifier, Opcode};

use crate::error::Unsupported;
use crate::ptx::Ptx;
use crate::select::Select;
use crate::{bits, compare, control, convert, float, integer, logic, memory, moves, special};

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
        Opcode::Add | Opcode::Sub if ptx.has(Modifier::Cc) => integer::add_carrying(select, ptx),
        Opcode::Addc | Opcode::Subc => integer::add_carrying(select, ptx),
        Opcode::Mad if ptx.has(Modifier::Cc) => integer::multiply_add_carrying(select, ptx),
        Opcode::Madc => integer::multiply_add_carrying(select, ptx),
        Opcode::Add => integer::add(select, ptx),
        Opcode::Sub => integer::subtract(select, ptx),
        Opcode::Mul => integer::multiply(select, ptx),
        Opcode::Mad => integer::multiply_add(select, ptx),
        Opcode::Mul24 => integer::multiply_24(select, ptx),
        Opcode::Mad24 => integer::multiply_add_24(select, ptx),
        Opcode::Dp2a | Opcode::Dp4a => integer::dot_product(select, ptx),
        Opcode::Sad => integer::difference_sum(select, ptx),
        Opcode::Abs => integer::absolute(select, ptx),
        Opcode::Neg => integer::negate(select, ptx),
        Opcode::Min | Opcode::Max => integer::extremum(select, ptx),
        Opcode::Div | Opcode::Rem => integer::divide(select, ptx),
        Opcode::And | Opcode::Or | Opcode::Xor => logic::binary(select, ptx),
        Opcode::Not => logic::invert(select, ptx),
        Opcode::Cnot => logic::is_zero(select, ptx),
        Opcode::Lop3 => logic::any_of_three(select, ptx),
        Opcode::Shl => logic::shift_left(select, ptx),
        Opcode::Shr => logic::shift_right(select, ptx),
        Opcode::Shf => logic::funnel_shift(select, ptx),
        Opcode::Prmt => logic::permute_bytes(select, ptx),
        Opcode::Popc => bits::count(select, ptx),
        Opcode::Clz => bits::leading_zeros(select, ptx),
        Opcode::Bfind => bits::find_highest(select, ptx),
        Opcode::Fns => bits::find_nth(select, ptx),
        Opcode::Brev => bits::reverse(select, ptx),
        Opcode::Bfe => bits::extract(select, ptx),
        Opcode::Bfi => bits::insert(select, ptx),
        Opcode::Szext => bits::extend_from(select, ptx),
        Opcode::Bmsk => bits::mask(select, ptx),
        Opcode::Setp => compare::set_predicate(select, ptx),
        Opcode::Set => compare::set(select, ptx),
        Opcode::Selp => compare::select_by_predicate(select, ptx),
        Opcode::Slct => compare::select_by_sign(select, ptx),
        Opcode::Activemask => special::active_mask(select, ptx),
        Opcode::Bra => control::branch(select, ptx),
        Opcode::Ret | Opcode::Exit => control::leave(select, ptx),
        _ => select.unsupported(ptx),
    }
}
