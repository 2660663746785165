//! `cp.async`: asynchronous copies from global to shared memory, and their groups.
//!
//! `LDGSTS` copies, `LDGDEPBAR` ends a group by setting a scoreboard when the copies before it are complete, and `DEPBAR.LE SB0, N` waits
//! until at most N groups are pending.

use oriole_ir::{MemoryAccess, Operand, OperandKind, RegFile, Space};
use oriole_ptx::ast;
use oriole_ptx::table::{Modifier, Opcode};
use oriole_ptx::types::ScalarType;

use super::address::{AddressOperands, OffsetRange};
use super::load::size_modifier;
use super::modifiers::{AccessSpace, prefetch_size};
use crate::context::Select;
use crate::error::Unsupported;
use crate::ptx::Ptx;

/// The scoreboard that counts groups of copies.
const GROUPS: u16 = 0;
/// Largest number of pending groups that `DEPBAR` can name.
const MOST_PENDING: u64 = 63;

/// The part of the source that is copied.
struct CopiedSource {
    address: AddressOperands,
    /// Whether the lowest bits of the address are the number of bytes at the end that become zero.
    fills: bool,
    /// The copy writes only zeros where this predicate does not hold.
    wanted: Operand,
}

/// Selects `cp.async`.
pub(crate) fn start_copy(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let Some(bytes) = select.literal(ptx.operand(2), ScalarType::U32) else { return select.unsupported(ptx) };
    let bytes = bytes as u32;
    let policy = ptx.operands.len() - 1;
    let descriptor = select.access_descriptor(ptx, policy)?;
    let last = policy + usize::from(!ptx.has(Modifier::L2CacheHint));
    let to = select.address(ptx.operand(0), AccessSpace::Shared, OffsetRange::COPY_TARGET)?;
    let source = source(select, ptx, bytes, ptx.operands[3..last].first().copied())?;
    let prefetch = prefetch_size(ptx);
    let bypass = if ptx.has(Modifier::Cg) { ".BYPASS" } else { "" };
    let fill = if source.fills { ".ZFILL" } else { "" };
    let size = size_modifier(bytes, false);
    let template = format!("LDGSTS.E{bypass}{prefetch}{size}{fill} [{{}}+{{}}], desc[{{}}][{{}}.64+{{}}], {{}}");
    let arguments = [to.base, to.offset.into(), descriptor, source.address.base, source.address.offset.into(), source.wanted];
    select.b.emit(&template, &arguments);
    select.b.describe(MemoryAccess::weak(Space::Generic, bytes as u8));
    Ok(())
}

/// Returns the source of a copy. `restriction` is the number of bytes to read, or the predicate that ignores the source.
fn source(select: &mut Select<'_>, ptx: &Ptx<'_>, bytes: u32, restriction: Option<ast::Operand>) -> Result<CopiedSource, Unsupported> {
    let address = select.address(ptx.operand(1), AccessSpace::Global, OffsetRange::COPY_SOURCE)?;
    let always = Operand::PT;
    let Some(restriction) = restriction else { return Ok(CopiedSource { address, fills: false, wanted: always }) };
    if is_predicate(select, restriction) {
        let ignored = select.predicate(restriction)?;
        return Ok(CopiedSource { address, fills: false, wanted: ignored.inverted_predicate() });
    }
    match select.literal(restriction, ScalarType::U32) {
        Some(0) => Ok(CopiedSource { address, fills: false, wanted: always.inverted_predicate() }),
        Some(read) if read as u32 == bytes => Ok(CopiedSource { address, fills: false, wanted: always }),
        Some(read) => {
            let missing = i64::from(bytes.wrapping_sub(read as u32) & (bytes - 1));
            let pair = select.add_to_pair(address.base, address.offset + missing);
            Ok(CopiedSource { address: AddressOperands { base: pair, offset: 0 }, fills: true, wanted: always })
        }
        None => {
            let read = select.source(restriction, ScalarType::U32)?;
            // The values are new, so they need no guard, and without one other passes can simplify them.
            let guard = select.b.guard.take();
            let read = select.in_register(read);
            let missing = select.difference(Operand::from(i64::from(bytes)), read);
            let missing = select.bitwise_and(missing, Operand::from(i64::from(bytes - 1)));
            let base = select.add_pairs([select.low(address.base), select.high(address.base)], [missing, Operand::RZ]);
            let wanted = select.compare_words("NE", false, read, Operand::from(0_i64));
            select.b.guard = guard;
            Ok(CopiedSource { address: AddressOperands { base, offset: address.offset }, fills: true, wanted })
        }
    }
}

/// Returns whether an operand is a predicate.
fn is_predicate(select: &Select<'_>, operand: ast::Operand) -> bool {
    match operand {
        ast::Operand::Register(register) => select.frame.body.declaration_of(register).ty == ScalarType::Pred,
        ast::Operand::NotRegister(_) => true,
        _ => false,
    }
}

/// Selects `cp.async.commit_group`.
pub(crate) fn commit_copies(select: &mut Select<'_>) -> Result<(), Unsupported> {
    select.b.emit("LDGDEPBAR", &[]);
    Ok(())
}

/// Selects `cp.async.wait_group` and `cp.async.wait_all`.
pub(crate) fn wait_for_copies(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let pending = if ptx.opcode() == Opcode::CpAsyncWaitAll {
        commit_copies(select)?;
        0
    } else {
        let Some(pending) = select.literal(ptx.operand(0), ScalarType::U32) else { return select.unsupported(ptx) };
        pending.min(MOST_PENDING)
    };
    let scoreboard = Operand::new(OperandKind::Register { file: RegFile::Scoreboard, first: GROUPS, count: 1 });
    select.b.emit("DEPBAR.LE {}, {}", &[scoreboard, Operand::from(pending as i64)]);
    Ok(())
}
