//! Cache control: `prefetch`, `prefetchu`, `applypriority`, `discard`, `createpolicy`

use oriole_ir::{Class, MemoryAccess, Operand, Space};
use oriole_ptx::ast;
use oriole_ptx::table::{Modifier, Slot};
use oriole_ptx::types::ScalarType;

use super::address::Reach;
use super::modifiers::{AccessSpace, space_of};
use crate::error::Unsupported;
use crate::ptx::Ptx;
use crate::select::Select;

/// `prefetch`, `prefetchu`
pub(crate) fn prefetch(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let operation = match () {
        () if ptx.has(Modifier::L1) => "PF1",
        () if ptx.has(Modifier::L2EvictLast) => "PML2",
        () if ptx.has(Modifier::L2) || ptx.has(Modifier::L2EvictNormal) => "PF2",
        () => return select.unsupported(ptx),
    };
    control(select, ptx, operation)
}

/// `applypriority`
pub(crate) fn applypriority(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    control(select, ptx, "DML2")
}

/// `discard`
pub(crate) fn discard(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    control(select, ptx, "RML2")
}

fn control(select: &mut Select<'_>, ptx: &Ptx<'_>, operation: &str) -> Result<(), Unsupported> {
    let space = space_of(ptx);
    let address = select.address(ptx.operand(0), space, Reach::ACCESS)?;
    let opcode = if space == AccessSpace::Local { "CCTLL" } else { "CCTL.E" };
    select.b.emit(&format!("{opcode}.{operation} [{{}}+{{}}]"), &[address.base, address.offset.into()]);
    let space = if space == AccessSpace::Local { Space::Local } else { Space::Generic };
    select.b.describe(MemoryAccess { volatile: true, ..MemoryAccess::weak(space, 128) });
    Ok(())
}

/// `createpolicy`
///
/// A policy is a descriptor like the one that plain accesses name: its lower half is 0, the upper one says what to evict.
pub(crate) fn createpolicy(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    if ptx.has(Modifier::Cvt) {
        let policy = select.wide(ptx.operand(1), ScalarType::U64)?;
        return select.assign(ptx.operand(0), policy);
    }
    if !ptx.has(Modifier::Fractional) {
        return select.unsupported(ptx);
    }
    let kind = fractional_kind(ptx.get(Slot::Pri), ptx.get(Slot::Sec));
    let high = match ptx.operands.get(1) {
        None => select.in_register(Operand::from(kind | 0xf << 20)),
        Some(&fraction) => fractional(select, fraction, kind)?,
    };
    let low = select.in_register(Operand::from(0));
    select.assign_halves(ptx.operand(0), low, high)
}

/// What a policy evicts, in the upper half of a descriptor: the primary priority above the secondary one.
fn fractional_kind(primary: Option<Modifier>, secondary: Option<Modifier>) -> u32 {
    let primary = match primary {
        Some(Modifier::L2EvictLast) => 2,
        Some(Modifier::L2EvictNormal) => 3,
        Some(Modifier::L2EvictFirst) => 1,
        _ => 0,
    };
    let secondary = u32::from(secondary == Some(Modifier::L2EvictFirst));
    (0x10 | primary << 1 | secondary) << 24
}

/// The fraction of lines that get the primary priority, in sixteenths less one, at bit 20.
fn fractional(select: &mut Select<'_>, fraction: ast::Operand, kind: u32) -> Result<Operand, Unsupported> {
    let fraction = select.source(fraction, ScalarType::F32)?;
    let scaled = select.b.define(Class::R, "FMUL $, {}, 0x417fd70a", &[fraction]);
    let sixteenths = select.b.define(Class::R, "F2I.U32.TRUNC.NTZ $, {}", &[scaled]);
    let low = select.b.define(Class::R, "LOP3.LUT $, {}, 0xf, RZ, 0xc0, !PT", &[sixteenths]);
    Ok(select.b.define(Class::R, "IMAD $, {}, 0x100000, {}", &[low, kind.into()]))
}
