//! Bulk copies: `cp.async.bulk`, `cp.reduce.async.bulk`, `cp.async.bulk.prefetch`, and groups of them.
//!
//! The copy engine reads and writes memory on its own. `UBLKCP` and `UBLKRED` take the place in shared memory, together with the barrier to
//! signal, in two consecutive uniform registers, addresses of global memory in a pair, and the number of 16-byte units in the lower half of
//! a register whose upper half is the set of blocks of a multicast.
//!
//! `st.bulk` fills shared memory with zeros: `UMEMSETS` takes an address and a number of 8-byte units.
//!
//! `UTMACMDFLUSH` ends a group: it sets a scoreboard until the copies before it are complete; `DEPBAR.LE SB0, N` waits until at most N
//! groups are pending.

use oriole_ir::{Class, MemoryAccess, Operand, OperandKind, Order, RegFile, Scope, Space};
use oriole_ptx::ast;
use oriole_ptx::table::{Modifier, Opcode};
use oriole_ptx::types::ScalarType;

use crate::bulk_remote::{CopyOperands, may_call_driver};
use crate::context::Select;
use crate::error::Unsupported;
use crate::memory::{AccessSpace, OffsetRange};
use crate::ptx::Ptx;

/// The scoreboard that counts groups of copies.
const GROUPS: u16 = 0;
/// Largest number of pending groups that `DEPBAR` can name.
const MOST_PENDING: u64 = 63;
/// log2 of the unit in which sizes are given to the copy engine, in bytes.
const UNIT_SHIFT: i64 = 4;

/// log2 of the unit in which sizes are given to `UMEMSETS`, in bytes.
const FILL_UNIT_SHIFT: u32 = 3;

/// Selects `cp.async.bulk`, `cp.reduce.async.bulk` and `cp.async.bulk.prefetch`.
pub(crate) fn bulk_copy(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    if ptx.opcode() == Opcode::CpAsyncBulkPrefetch {
        return prefetch(select, ptx);
    }
    let opcode = match ptx.opcode() {
        Opcode::CpReduceAsyncBulk => match reduction(ptx) {
            Some(reduction) => format!("UBLKRED.{}.S{reduction}", if ptx.has(Modifier::Global) { "G" } else { "S" }),
            None => return select.unsupported(ptx),
        },
        _ => format!("UBLKCP{}", direction(ptx)),
    };
    let to_shared = ptx.has(Modifier::MbarrierCompleteTxBytes);
    let from_global = to_shared && ptx.has(Modifier::Global);
    let to = if to_shared {
        let [place, barrier] = [0, 3].map(|position| select.place_in_shared(ptx.operand(position)));
        vec![place?, barrier?]
    } else {
        select.place_in_global(ptx.operand(0))?
    };
    let from = if from_global { select.place_in_global(ptx.operand(1))? } else { vec![select.place_in_shared(ptx.operand(1))?] };
    let policy = select.cache_policy(ptx, |hints| hints)?;
    let mask = mask_operand(ptx).map(|mask| select.source(mask, ScalarType::U16)).transpose()?;
    if may_call_driver(ptx.form, select.target) {
        let bytes = select.source(ptx.operand(2), ScalarType::U32)?;
        let size = units(select, ptx.operand(2), None)?;
        let operands =
            CopyOperands { place: to[0], barrier: to[1], source: &from, size_or_coordinates: &[bytes], offsets: &[], blocks: mask, policy };
        return select.copy_or_call_driver(ptx, &operands, |select| copy_by_engine(select, "UBLKCP.S.G", (&to, &from), size, policy));
    }
    let size = units(select, ptx.operand(2), mask)?;
    copy_by_engine(select, &opcode, (&to, &from), size, policy)
}

/// Emits the instruction of a copy, once for each active thread, stores once for each set of operands. The destination has one or two words, as
/// the source.
fn copy_by_engine(
    select: &mut Select<'_>,
    opcode: &str,
    (to, from): (&[Operand], &[Operand]),
    size: Operand,
    policy: Option<Operand>,
) -> Result<(), Unsupported> {
    let mut words = [to, from, &[size]].concat();
    words.extend(select.policy_words(policy));
    let is_store = opcode.starts_with("UBLKCP.G");
    select.for_each_copy(is_store, &words, |select, words| {
        let (place, rest) = words.split_at(to.len());
        let (source, rest) = rest.split_at(from.len());
        let arguments = [select.pack_uniforms(place), select.pack_uniforms(source), rest[0]];
        select.emit_bulk(&format!("{opcode} [{{}}], [{{}}], {{}}"), &arguments, &rest[1..]);
        Ok(())
    })
}

/// Selects `st.bulk`.
pub(crate) fn fill(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let place = select.place_in_shared(ptx.operand(0))?;
    let place = select.low(place);
    let bytes = ptx.operand(1);
    // The size of a fill is less than the size of shared memory, so its lower word is enough after the shift.
    let units = match select.literal(bytes, ScalarType::U64) {
        Some(bytes) => Operand::from((bytes >> FILL_UNIT_SHIFT) as u32),
        None => {
            let halves = select.halves(bytes, ScalarType::U64)?.map(|half| select.in_register(half));
            select.pair_shift_right(halves, FILL_UNIT_SHIFT.into(), false)[0]
        }
    };
    select.for_each_set(&[place, units], |select, words| {
        select.b.emit("UMEMSETS.64 [{}], URZ, {}", words);
        let access = MemoryAccess { order: Order::Relaxed, scope: Scope::Block, volatile: true, ..MemoryAccess::weak(Space::Shared, 0) };
        select.b.describe(access);
        Ok(())
    })
}

/// Returns the operand with the set of blocks or bytes of a copy, if any.
fn mask_operand(ptx: &Ptx<'_>) -> Option<ast::Operand> {
    let last = ptx.operands.len() - 1;
    match () {
        () if ptx.has(Modifier::MulticastCluster) => Some(ptx.operand(4)),
        () if ptx.has(Modifier::CpMask) => Some(ptx.operand(last)),
        () => None,
    }
}

/// Returns the modifiers for source and destination of a copy.
fn direction(ptx: &Ptx<'_>) -> &'static str {
    match () {
        () if ptx.has(Modifier::BulkGroup) && ptx.has(Modifier::CpMask) => ".G.S.DST_G_BYTE_MASK",
        () if ptx.has(Modifier::BulkGroup) => ".G.S",
        () if ptx.has(Modifier::MulticastCluster) => ".S.G.MULTICAST",
        () if ptx.has(Modifier::Global) => ".S.G",
        () => ".S.S",
    }
}

/// Returns the modifiers of a reduction: operation and type.
fn reduction(ptx: &Ptx<'_>) -> Option<String> {
    let ty = match ptx.ty() {
        ScalarType::U32 | ScalarType::B32 => "",
        ScalarType::S32 => ".S32",
        ScalarType::U64 | ScalarType::B64 => ".U64",
        ScalarType::S64 => ".S64",
        ScalarType::F16 => ".F16.RN",
        ScalarType::Bf16 => ".BF16.RN",
        ScalarType::F32 => ".F32.RN",
        ScalarType::F64 => ".F64.RN",
        _ => return None,
    };
    Some(format!("{}{ty}", reduction_name(ptx)?))
}

/// Returns the modifier of the operation of a reduction.
pub(crate) fn reduction_name(ptx: &Ptx<'_>) -> Option<&'static str> {
    let names = [
        (Modifier::Add, ".ADD"),
        (Modifier::Min, ".MIN"),
        (Modifier::Max, ".MAX"),
        (Modifier::Inc, ".INC"),
        (Modifier::Dec, ".DEC"),
        (Modifier::And, ".AND"),
        (Modifier::Or, ".OR"),
        (Modifier::Xor, ".XOR"),
    ];
    names.iter().find(|(modifier, _)| ptx.has(*modifier)).map(|&(_, name)| name)
}

/// Returns the size of a copy in units of the copy engine, with a mask in the upper half.
fn units(select: &mut Select<'_>, bytes: ast::Operand, mask: Option<Operand>) -> Result<Operand, Unsupported> {
    let bytes = select.source(bytes, ScalarType::U32)?;
    if let (Some(bytes), Some(mask)) = (bytes.integer(), mask.map_or(Some(0), |mask| mask.integer())) {
        return Ok(Operand::from(i64::from((bytes >> UNIT_SHIFT & 0xffff | mask << 16) as u32)));
    }
    let units = match bytes.integer() {
        Some(bytes) => select.in_register(Operand::from(bytes >> UNIT_SHIFT)),
        None => select.b.define(Class::R, "SHF.R.U32.HI $, RZ, {}, {}", &[UNIT_SHIFT.into(), bytes]),
    };
    Ok(match mask {
        Some(mask) => {
            let mask = select.in_register(mask);
            select.b.define(Class::R, "PRMT $, {}, 0x5410, {}", &[units, mask])
        }
        None => select.bitwise_and(units, Operand::from(0xffff)),
    })
}

/// Selects `cp.async.bulk.prefetch`.
fn prefetch(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let from = select.place_in_global(ptx.operand(0))?;
    let size = units(select, ptx.operand(1), None)?;
    let policy = select.cache_policy(ptx, |hints| hints)?;
    let mut words = [from.as_slice(), &[size]].concat();
    words.extend(select.policy_words(policy));
    select.for_each_set(&words, |select, words| {
        let from = select.pack_uniforms(&words[..2]);
        select.emit_bulk("UBLKPF.L2 [{}], {}", &[from, words[2]], &words[3..]);
        Ok(())
    })
}

impl Select<'_> {
    /// Returns an address in shared memory in one register.
    pub(crate) fn place_in_shared(&mut self, operand: ast::Operand) -> Result<Operand, Unsupported> {
        Ok(self.address(operand, AccessSpace::Shared, OffsetRange::NONE)?.base)
    }

    /// Returns the two words of a global address.
    pub(crate) fn place_in_global(&mut self, operand: ast::Operand) -> Result<Vec<Operand>, Unsupported> {
        let address = self.address(operand, AccessSpace::Global, OffsetRange::NONE)?;
        Ok(vec![self.low(address.base), self.high(address.base)])
    }

    /// Returns the register pair of the cache policy that an instruction names. The policy is the last operand except for a byte mask;
    /// `operands` selects the operands among which it is the last one.
    pub(crate) fn cache_policy<'o>(
        &mut self,
        ptx: &Ptx<'o>,
        operands: impl FnOnce(&'o [ast::Operand]) -> &'o [ast::Operand],
    ) -> Result<Option<Operand>, Unsupported> {
        if !ptx.has(Modifier::L2CacheHint) {
            return Ok(None);
        }
        let operands = operands(ptx.operands);
        let last = operands.len() - 1 - usize::from(ptx.has(Modifier::CpMask));
        self.wide_source(operands[last], ScalarType::U64).map(Some)
    }

    /// Returns the two words of a cache policy; none without a policy.
    pub(crate) fn policy_words(&mut self, policy: Option<Operand>) -> Vec<Operand> {
        policy.map_or_else(Vec::new, |policy| vec![self.low(policy), self.high(policy)])
    }

    /// Calls `write` with uniform registers that hold `words`: for stores once for each different set of values, for others once for each active
    /// thread.
    pub(crate) fn for_each_copy(
        &mut self,
        is_store: bool,
        words: &[Operand],
        write: impl FnOnce(&mut Self, &[Operand]) -> Result<(), Unsupported>,
    ) -> Result<(), Unsupported> {
        if is_store {
            return self.for_each_set(words, write);
        }
        self.for_each_thread(|select| {
            let uniform: Vec<Operand> = words.iter().map(|&word| select.in_uniform(word)).collect();
            write(select, &uniform)
        })
    }

    /// Emits an instruction of the copy engine, with a cache policy if `policy` has its two words. All operands are uniform registers.
    pub(crate) fn emit_bulk(&mut self, template: &str, arguments: &[Operand], policy: &[Operand]) {
        let mut arguments = arguments.to_vec();
        let mut template = template.to_owned();
        if !policy.is_empty() {
            arguments.push(self.pack_uniforms(policy));
            template += ", desc[{}]";
        }
        self.b.emit(&template, &arguments);
        let access = MemoryAccess { order: Order::Relaxed, scope: Scope::Gpu, volatile: true, ..MemoryAccess::weak(Space::Generic, 0) };
        self.b.describe(access);
    }
}

/// Selects `cp.async.bulk.commit_group`.
pub(crate) fn commit_bulk(select: &mut Select<'_>) -> Result<(), Unsupported> {
    // The instruction takes no guard.
    select.branch_around(|select| select.b.emit("UTMACMDFLUSH", &[]));
    Ok(())
}

/// Selects `cp.async.bulk.wait_group`. Without `.read` the results of the copies are visible to this thread afterwards.
pub(crate) fn wait_for_bulk(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let Some(pending) = select.literal(ptx.operand(0), ScalarType::U32) else { return select.unsupported(ptx) };
    let scoreboard = Operand::new(OperandKind::Register { file: RegFile::Scoreboard, first: GROUPS, count: 1 });
    select.b.emit("DEPBAR.LE {}, {}", &[scoreboard, Operand::from(pending.min(MOST_PENDING) as i64)]);
    if !ptx.has(Modifier::Read) {
        select.fence(Order::Acquire, Scope::Gpu);
    }
    Ok(())
}
