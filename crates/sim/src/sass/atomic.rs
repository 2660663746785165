//! Atomics and reductions. The threads of a warp act one after another, lowest lane first.
//!
//! `ATOM` is generic, `ATOMG` global, `ATOMS` shared; `RED` and `REDG` return no result. `CAST.SPIN` is a compare-and-swap that returns
//! whether it swapped (1 or 0 in a register, or a predicate) instead of the old value.
//!
//! Generic atomics on local memory, and those that shared memory does not implement, have no effect and report that in a predicate; the
//! program then uses a fallback.

use oriole_isa::Opcode;
use oriole_sem::float::{Extreme, ExtremeMode, Mode, add, min_max};
use oriole_sem::format::{BF16, F16, F32, F64, Format};

use super::fault::Fault;
use super::mbarrier::arrived_old;
use super::memory::address::AddressSum;
use super::memory::plain::space_of;
use super::memory::space::{self, MemoryPlace, Space};
use super::site::Site;
use super::step::{Built, UnsupportedInst, access};
use super::warp::{Destination, PredicateDestination, Row, lanes_of};

/// Builds the action of an atomic; `None` for other opcodes.
pub fn build(site: &Site<'_>) -> Option<Built> {
    Some(match site.opcode() {
        Opcode::ATOM | Opcode::ATOMG | Opcode::ATOMS | Opcode::RED | Opcode::REDG => atomic(site),
        _ => return None,
    })
}

/// A value in memory of up to 128 bits.
type AtomicBits = u128;

/// Computes the new value from the old value, the operand and, for compare-and-swap, the second operand.
pub(super) type UpdateFunction = Box<dyn Fn(AtomicBits, AtomicBits, AtomicBits) -> AtomicBits + Send + Sync>;

/// An atomic operation.
struct AtomicUpdate {
    bytes: usize,
    update: UpdateFunction,
    /// Number of register operands, 0 to 2.
    operands: usize,
    /// Whether it returns success instead of the old value.
    tells_success: bool,
    /// Whether shared memory implements it.
    on_shared: bool,
}

/// Builds the action.
fn atomic(site: &Site<'_>) -> Built {
    let AtomicUpdate { bytes, update, operands: count, tells_success, on_shared } = operation(site)?;
    let space = space_of(site.opcode());
    let is_wide = space != Space::Shared;
    let registers = bytes.div_ceil(4) as u16;
    let returns = !matches!(site.opcode(), Opcode::RED | Opcode::REDG);
    let mut operands = site.operands();
    let mut success = None;
    let mut done = None;
    let mut d = Row::destination(None);
    if returns {
        if operands.next_is_predicate() && tells_success {
            success = Some(operands.predicate_destination()?);
        } else if operands.next_is_predicate() {
            done = Some(operands.predicate_destination()?).filter(|place| *place != PredicateDestination::new(None, false));
        }
        if !matches!(operands.peek().map(|operand| &operand.value), Some(oriole_isa::OperandValue::Address(_))) {
            let place = operands.wide_destination(registers)?;
            let Destination::General(row) = place else { return Err(site.unsupported("an atomic to a uniform register")) };
            d = row;
        }
    }
    let address = AddressSum::take(site, &mut operands, is_wide)?;
    let a = if count > 0 { operands.rows(registers)? } else { Row::source(None) };
    let b = if count > 1 { operands.rows(registers)? } else { Row::source(None) };
    Ok(access(move |warp, world, mask| {
        let addresses = address.of(warp);
        let mut swapped = 0;
        let mut refused = 0;
        for lane in lanes_of(mask) {
            let gather = |row: Row| {
                (0..registers).fold(0, |bits: AtomicBits, at| bits | AtomicBits::from(warp.row(row.plus(at))[lane]) << (32 * u32::from(at)))
            };
            let (a, b) = (gather(a), gather(b));
            let place = space.locate(addresses[lane], world.map);
            if done.is_some()
                && (matches!(place, MemoryPlace::Local(_))
                    || matches!(place, MemoryPlace::Shared(_) | MemoryPlace::Cluster(_)) && !on_shared)
            {
                refused |= 1 << lane;
                continue;
            }
            let memory = space::bytes_mut(warp, world, lane, place, bytes).map_err(|what| Fault::of(lane, what))?;
            let old = memory.iter().rev().fold(0, |bits: AtomicBits, &byte| bits << 8 | AtomicBits::from(byte));
            let new = update(old, a, b);
            for (at, byte) in memory.iter_mut().enumerate() {
                *byte = (new >> (8 * at)) as u8;
            }
            if tells_success {
                let is_same = old == a;
                swapped |= u32::from(is_same) << lane;
                for at in 0..registers {
                    warp.write_lane(d.plus(at), lane, u32::from(is_same && at == 0));
                }
            } else if returns {
                for at in 0..registers {
                    warp.write_lane(d.plus(at), lane, (old >> (32 * u32::from(at))) as u32);
                }
            }
        }
        if let Some(place) = success.filter(|place| *place != PredicateDestination::new(None, false)) {
            warp.write_predicate(place, mask, swapped);
        }
        if let Some(place) = done {
            warp.write_predicate(place, mask, !refused);
        }
        Ok(())
    }))
}

/// Operations with one operand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AtomicOperation {
    Add,
    Min,
    Max,
    Increment,
    Decrement,
    And,
    Or,
    Xor,
    Exchange,
}

/// A floating-point vector in memory.
struct Floats {
    format: Format,
    count: u32,
    ftz: bool,
}

/// Decodes a floating-point type; `None` for integers.
fn floats(site: &Site<'_>) -> Option<Floats> {
    let types = [
        (".F16x2", F16, 2),
        (".F16x4", F16, 4),
        (".F16x8", F16, 8),
        (".BF16x2", BF16, 2),
        (".BF16x4", BF16, 4),
        (".BF16x8", BF16, 8),
        (".F32", F32, 1),
        (".F32x2", F32, 2),
        (".F32x4", F32, 4),
        (".F64", F64, 1),
    ];
    let &(_, format, count) = types.iter().find(|(spelling, ..)| site.has(spelling))?;
    Some(Floats { format, count, ftz: site.has(".FTZ") })
}

/// The operations of reductions, and of atomic instructions besides exchanges.
const KINDS: [(&str, AtomicOperation); 8] = [
    (".ADD", AtomicOperation::Add),
    (".MIN", AtomicOperation::Min),
    (".MAX", AtomicOperation::Max),
    (".INC", AtomicOperation::Increment),
    (".DEC", AtomicOperation::Decrement),
    (".AND", AtomicOperation::And),
    (".OR", AtomicOperation::Or),
    (".XOR", AtomicOperation::Xor),
];

/// Decodes element size and operation of `REDAS`.
pub(super) fn async_update(site: &Site<'_>) -> Result<(usize, UpdateFunction), UnsupportedInst> {
    let bytes = if site.has(".64") || site.has(".S64") { 8 } else { 4 };
    let kind = site.one_of(&KINDS).ok_or_else(|| site.unsupported("this asynchronous reduction"))?;
    Ok((bytes, integer_update(kind, bytes, site.has(".S32") || site.has(".S64"))))
}

/// Decodes the operation of a bulk reduction: the element size in bytes and the update.
pub(super) fn bulk_update(site: &Site<'_>) -> Result<(usize, UpdateFunction), UnsupportedInst> {
    let types = [(".F16", F16), (".BF16", BF16), (".F32", F32), (".F64", F64)];
    let kind = site.one_of(&KINDS).ok_or_else(|| site.unsupported("this bulk reduction"))?;
    if let Some(&(_, format)) = types.iter().find(|(spelling, _)| site.has(spelling)) {
        let operation = float_operation(site, kind, &Floats { format, count: 1, ftz: site.has(".FTZ") })?;
        return Ok((operation.bytes, operation.update));
    }
    let bytes = if site.has(".U64") || site.has(".S64") { 8 } else { 4 };
    Ok((bytes, integer_update(kind, bytes, site.has(".S32") || site.has(".S64"))))
}

/// Decodes the operation.
fn operation(site: &Site<'_>) -> Result<AtomicUpdate, UnsupportedInst> {
    let bytes = site.one_of(&[(".64", 8), (".S64", 8), (".128", 16)]).unwrap_or(4);

    if site.has(".CAS") || site.has(".CAST") {
        let update = Box::new(|old, expected, new| if old == expected { new } else { old });
        return Ok(AtomicUpdate { bytes, update, operands: 2, tells_success: site.has(".CAST"), on_shared: true });
    }
    if site.has(".ARRIVE") {
        return Ok(AtomicUpdate {
            bytes: 8,
            update: Box::new(|old, _, _| AtomicBits::from(arrived_old(old as u64))),
            operands: 0,
            tells_success: false,
            on_shared: true,
        });
    }
    if site.has(".POPC") {
        return Ok(AtomicUpdate {
            bytes: 4,
            update: Box::new(|old, _, _| AtomicBits::from((old as u32).wrapping_add(1))),
            operands: 0,
            tells_success: false,
            on_shared: true,
        });
    }
    let exchange = || site.has(".EXCH").then_some(AtomicOperation::Exchange);
    let kind = site.one_of(&KINDS).or_else(exchange).ok_or_else(|| site.unsupported("this atomic operation"))?;
    if let Some(floats) = floats(site).filter(|_| kind != AtomicOperation::Exchange) {
        return float_operation(site, kind, &floats);
    }
    let update = integer_update(kind, bytes, site.has(".S32") || site.has(".S64"));
    Ok(AtomicUpdate { bytes, update, operands: 1, tells_success: false, on_shared: bytes == 4 || kind == AtomicOperation::Exchange })
}

/// Makes the update of an operation on integers of a number of bytes.
fn integer_update(kind: AtomicOperation, bytes: usize, is_signed: bool) -> UpdateFunction {
    let bits = 8 * bytes as u32;
    let extend = move |value: AtomicBits| (value as i128) << (128 - bits) >> (128 - bits);
    let least = move |a: AtomicBits, b: AtomicBits| if is_signed { extend(a) < extend(b) } else { a < b };
    match kind {
        AtomicOperation::Add => Box::new(move |old, a, _| old.wrapping_add(a)),
        AtomicOperation::Min => Box::new(move |old, a, _| if least(a, old) { a } else { old }),
        AtomicOperation::Max => Box::new(move |old, a, _| if least(old, a) { a } else { old }),
        AtomicOperation::Increment => Box::new(|old, a, _| if old >= a { 0 } else { old + 1 }),
        AtomicOperation::Decrement => Box::new(|old, a, _| if old == 0 || old > a { a } else { old - 1 }),
        AtomicOperation::And => Box::new(|old, a, _| old & a),
        AtomicOperation::Or => Box::new(|old, a, _| old | a),
        AtomicOperation::Xor => Box::new(|old, a, _| old ^ a),
        AtomicOperation::Exchange => Box::new(|_, a, _| a),
    }
}

/// Makes the operation on floating-point elements.
fn float_operation(site: &Site<'_>, kind: AtomicOperation, floats: &Floats) -> Result<AtomicUpdate, UnsupportedInst> {
    let &Floats { format, count, ftz } = floats;
    let width = format.width();
    let bytes = (width * count / 8) as usize;
    let element: fn(Format, bool, u64, u64) -> u64 = match kind {
        AtomicOperation::Add => |format, ftz, a, b| add(format, a, b, Mode::RN.ftz(ftz)),
        AtomicOperation::Min => |format, ftz, a, b| min_max(format, Extreme::Min, a, b, ExtremeMode { ftz, ..ExtremeMode::default() }),
        AtomicOperation::Max => |format, ftz, a, b| min_max(format, Extreme::Max, a, b, ExtremeMode { ftz, ..ExtremeMode::default() }),
        _ => return Err(site.unsupported("this operation on floating-point numbers")),
    };
    let update = move |old: AtomicBits, a: AtomicBits, _: AtomicBits| {
        (0..count).fold(0, |bits, at| {
            let part = |value: AtomicBits| (value >> (width * at)) as u64 & format.mask();
            bits | AtomicBits::from(element(format, ftz, part(old), part(a))) << (width * at)
        })
    };
    Ok(AtomicUpdate { bytes, update: Box::new(update), operands: 1, tells_success: false, on_shared: false })
}
