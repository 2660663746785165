//! Which handler selects which PTX instruction.

use oriole_ptx::table::Opcode;

use crate::error::Unsupported;
use crate::ptx::Ptx;
use crate::select::Select;
use crate::{atomics, barrier, control, convert, fence, float, integer, memory, moves, warp};

/// Selects one instruction.
pub(crate) fn select(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    match ptx.opcode() {
        Opcode::Mov => moves::mov(select, ptx),
        Opcode::Cvta => memory::cvta(select, ptx),
        Opcode::Isspacep => memory::isspacep(select, ptx),
        Opcode::Ld | Opcode::Ldu => memory::load(select, ptx),
        Opcode::St => memory::store(select, ptx),
        Opcode::Prefetch | Opcode::Prefetchu => memory::prefetch(select, ptx),
        Opcode::Applypriority => memory::applypriority(select, ptx),
        Opcode::Discard => memory::discard(select, ptx),
        Opcode::Createpolicy => memory::createpolicy(select, ptx),
        Opcode::Atom | Opcode::Red => atomics::atomic(select, ptx),
        Opcode::Fence | Opcode::Membar => fence::fence(select, ptx),
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
        Opcode::BrxIdx => control::indexed_branch(select, ptx),
        Opcode::Ret => control::ret(select, ptx),
        Opcode::Exit => control::exit(select, ptx),
        Opcode::Trap | Opcode::Brkpt => control::trap(select, ptx),
        Opcode::Nanosleep => control::nanosleep(select, ptx),
        Opcode::Pmevent => control::pmevent(select, ptx),
        Opcode::Bar | Opcode::Barrier => barrier::barrier(select, ptx),
        Opcode::BarWarpSync => warp::warp_barrier(select, ptx),
        Opcode::Shfl | Opcode::ShflSync => warp::shuffle(select, ptx),
        Opcode::Vote | Opcode::VoteSync => warp::vote(select, ptx),
        Opcode::Match => warp::matching(select, ptx),
        Opcode::ReduxSync => warp::reduction(select, ptx),
        Opcode::ElectSync => warp::elect(select, ptx),
        Opcode::Activemask => warp::activemask(select, ptx),
        _ => select.unsupported(ptx),
    }
}
