//! Cache control: `prefetch`, `prefetchu`, `applypriority`, `discard`, `createpolicy`.

use oriole_ir::{Class, MemoryAccess, Operand, Space};
use oriole_ptx::ast;
use oriole_ptx::table::{Modifier, Slot};
use oriole_ptx::types::ScalarType;

use super::address::OffsetRange;
use super::modifiers::AccessSpace;
use crate::context::Select;
use crate::error::Unsupported;
use crate::ptx::Ptx;

/// Selects `prefetch`, `prefetchu`.
pub(crate) fn prefetch(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let operation = match () {
        () if ptx.has(Modifier::L1) => "PF1",
        () if ptx.has(Modifier::L2EvictLast) => "PML2",
        () if ptx.has(Modifier::L2) || ptx.has(Modifier::L2EvictNormal) => "PF2",
        () => return select.unsupported(ptx),
    };
    control(select, ptx, operation)
}

/// Selects `applypriority`.
pub(crate) fn applypriority(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    control(select, ptx, "DML2")
}

/// Selects `discard`.
pub(crate) fn discard(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    control(select, ptx, "RML2")
}

/// Emits a cache-control instruction.
fn control(select: &mut Select<'_>, ptx: &Ptx<'_>, operation: &str) -> Result<(), Unsupported> {
    let space = select.access_space(ptx, ptx.operand(0));
    let is_prefetch = matches!(operation, "PF1" | "PF2");
    if space == AccessSpace::Shared || space == AccessSpace::Local && !is_prefetch {
        // These hints concern cache lines of global memory, so they have no effect here.
        return Ok(());
    }
    let address = select.address(ptx.operand(0), space, OffsetRange::ACCESS)?;
    let opcode = if space == AccessSpace::Local { "CCTLL" } else { "CCTL.E" };
    select.b.emit(&format!("{opcode}.{operation} [{{}}+{{}}]"), &[address.base, address.offset.into()]);
    let space = if space == AccessSpace::Local { Space::Local } else { Space::Generic };
    select.b.describe(MemoryAccess { volatile: true, ..MemoryAccess::weak(space, 128) });
    Ok(())
}

/// Selects `createpolicy`.
///
/// A cache policy is a descriptor like the one that plain accesses use: its lower half is 0, its upper half encodes the eviction
/// priorities.
pub(crate) fn createpolicy(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    if ptx.has(Modifier::Cvt) {
        let policy = select.wide_source(ptx.operand(1), ScalarType::U64)?;
        return select.assign(ptx.operand(0), policy);
    }
    let kind = kind_of(ptx.get(Slot::Pri), ptx.get(Slot::Sec));
    if ptx.has(Modifier::Range) {
        let high = range(select, ptx, kind | BY_RANGE)?;
        let low = select.in_register(Operand::from(0));
        return select.assign_halves(ptx.operand(0), low, high);
    }
    let high = match ptx.operands.get(1) {
        None => select.in_register(Operand::from(kind | 0xf << 20)),
        Some(&fraction) => fractional(select, fraction, kind)?,
    };
    let low = select.in_register(Operand::from(0));
    select.assign_halves(ptx.operand(0), low, high)
}

/// Returns the bits of the upper half of a descriptor that encode the primary and secondary eviction priority.
fn kind_of(primary: Option<Modifier>, secondary: Option<Modifier>) -> u32 {
    let primary = match primary {
        Some(Modifier::L2EvictLast) => 2,
        Some(Modifier::L2EvictNormal) => 3,
        Some(Modifier::L2EvictFirst) => 1,
        _ => 0,
    };
    let secondary = u32::from(secondary == Some(Modifier::L2EvictFirst));
    (0x10 | primary << 1 | secondary) << 24
}

/// The bit that marks policies by range.
const BY_RANGE: u32 = 1 << 27;
/// A block of a range covers at least this number of address bits.
const LEAST_BLOCK_BITS: u32 = 12;
/// Maximum number of blocks.
const MOST_BLOCKS: u32 = 0x7f;

/// Emits the upper half of a policy by range. The primary range is given in blocks of a size for which the total range has at most 128
/// blocks. Bits 20 to 23 hold the block size (log2, less 12), bits 12 to 18 the number of the first block, bits 5 to 11 the number of
/// blocks, at most 127.
fn range(select: &mut Select<'_>, ptx: &Ptx<'_>, kind: u32) -> Result<Operand, Unsupported> {
    let place = select.bracket(ptx.operand(1))?;
    let start = select.place_sum(place);
    let primary = select.source(ptx.operand(2), ScalarType::U32)?;
    let total = select.source(ptx.operand(3), ScalarType::U32)?;
    let (low, high) = (select.low(start), select.high(start));
    let b = &mut select.b;
    let last = b.define(Class::R, "IADD3 $, PT, PT, {}, -0x1, RZ", &[total]);
    let highest = b.define(Class::R, "FLO.U32 $, {}", &[last]);
    // Block size: the highest bit of the total size less 6 (128 blocks), but at least 4 KiB.
    let wanted = b.define(Class::R, "IADD3 $, PT, PT, {}, -0x6, RZ", &[highest]);
    let is_enough = b.define(Class::P, "ISETP.GT.AND $, PT, {}, {}, PT", &[wanted, LEAST_BLOCK_BITS.into()]);
    let bits = b.define(Class::R, "SEL $, {}, {}, {}", &[wanted, LEAST_BLOCK_BITS.into(), is_enough]);
    let block = b.define(Class::R, "SHF.L.U32 $, {}, {}, RZ", &[Operand::from(1), bits]);
    let rounded = b.define(Class::R, "IADD3 $, PT, PT, {}, -0x1, {}", &[block, primary]);
    let end = select.add_pairs([low, high], [rounded, Operand::RZ]);
    let (end_low, end_high) = (select.low(end), select.high(end));
    // Returns the number of the block that contains an address.
    let mut block_of = |low: Operand, high: Operand| {
        let lower = select.b.define(Class::R, "SHF.R.U64 $, {}, {}, {}", &[low, bits, high]);
        let upper = select.b.define(Class::R, "SHF.R.U32.HI $, RZ, {}, {}", &[bits, high]);
        [lower, upper]
    };
    let (first, behind) = (block_of(low, high), block_of(end_low, end_high));
    let count = select.subtract_pairs(behind, first);
    let (count_low, count_high) = (select.low(count), select.high(count));
    let b = &mut select.b;
    let is_small = b.define(Class::P, "ISETP.LT.U32.AND $, PT, {}, {}, PT", &[count_low, MOST_BLOCKS.into()]);
    let is_small = b.define(Class::P, "ISETP.EQ.U32.AND $, PT, {}, RZ, {}", &[count_high, is_small]);
    let count = b.define(Class::R, "SEL $, {}, {}, {}", &[count_low, MOST_BLOCKS.into(), is_small]);
    let first = b.define(Class::R, "LOP3.LUT $, {}, {}, RZ, 0xc0, !PT", &[first[0], MOST_BLOCKS.into()]);
    let size = b.define(Class::R, "IADD3 $, PT, PT, {}, -0xc, RZ", &[bits]);
    let size = b.define(Class::R, "LOP3.LUT $, {}, 0xf, RZ, 0xc0, !PT", &[size]);
    let sum = b.define(Class::R, "IMAD $, {}, 0x100000, {}", &[size, kind.into()]);
    let sum = b.define(Class::R, "IMAD $, {}, 0x1000, {}", &[first, sum]);
    let policy = b.define(Class::R, "IMAD $, {}, 0x20, {}", &[count, sum]);
    let is_empty = b.define(Class::P, "ISETP.EQ.U32.AND $, PT, {}, RZ, PT", &[total]);
    let nothing = (kind_of(None, None) | BY_RANGE).into();
    Ok(b.define(Class::R, "SEL $, {}, {}, {}", &[policy, nothing, is_empty.inverted_predicate()]))
}

/// Emits the upper half of a policy for a fraction of the cache lines: sixteenths less one, at bit 20.
fn fractional(select: &mut Select<'_>, fraction: ast::Operand, kind: u32) -> Result<Operand, Unsupported> {
    let fraction = select.source(fraction, ScalarType::F32)?;
    let scaled = select.b.define(Class::R, "FMUL $, {}, 0x417fd70a", &[fraction]);
    let sixteenths = select.b.define(Class::R, "F2I.U32.TRUNC.NTZ $, {}", &[scaled]);
    let low = select.b.define(Class::R, "LOP3.LUT $, {}, 0xf, RZ, 0xc0, !PT", &[sixteenths]);
    Ok(select.b.define(Class::R, "IMAD $, {}, 0x100000, {}", &[low, kind.into()]))
}
