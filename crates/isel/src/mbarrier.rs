//! Barriers in shared memory: `mbarrier`, `cp.async.mbarrier.arrive`.
//!
//! **Targets with transaction counts** have `SYNCS` instructions. A barrier is a 64-bit word. Counts are stored as 2^20 minus the count:
//!
//! | bits | contents |
//! |---|---|
//! | 1 to 20 | number of arrivals that a phase expects |
//! | 21 to 42 | transaction count |
//! | 43 to 62 | pending arrivals of the current phase |
//! | 63 | parity of the current phase |
//!
//! **Older targets** use atomic instructions: the upper word has the parity in bit 31 and 2^31 minus the number of pending arrivals below;
//! the lower word is 2^30 minus the number of arrivals that a phase expects. `ATOMS.ARRIVE.64` increments the upper word and starts the
//! next phase when the pending arrivals become zero.
//!
//! The state that an arrival returns is the word before the arrival, so its bit 63 is the parity of the phase to wait for.

use oriole_ir::{Class, MemoryAccess, Operand, Order, Scope, Space};
use oriole_ptx::ast;
use oriole_ptx::table::{Modifier, Opcode};
use oriole_ptx::types::ScalarType;

use crate::context::Select;
use crate::error::Unsupported;
use crate::memory::{AccessSpace, AddressOperands, OffsetRange, order_of, scope_of};
use crate::ptx::Ptx;

/// Position of the pending arrivals in the upper word, on targets with transaction counts.
const PENDING_SHIFT: i64 = 11;
/// The counts on targets with transaction counts are stored as this number minus the count.
const COUNT_LIMIT: i64 = 1 << 20;
/// The pending count of older targets is stored as this number minus the count.
const OLD_PENDING_LIMIT: i64 = 1 << 31;
/// The expected count of older targets is stored as this number minus the count.
const OLD_EXPECTED_LIMIT: i64 = 1 << 30;

/// Selects the instructions of the family `mbarrier`.
pub(crate) fn mbarrier(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    match ptx.opcode() {
        Opcode::MbarrierInit => init(select, ptx),
        Opcode::MbarrierInval => invalidate(select, ptx),
        Opcode::MbarrierExpectTx | Opcode::MbarrierCompleteTx => change_transactions(select, ptx),
        Opcode::MbarrierArrive | Opcode::MbarrierArriveDrop => arrive(select, ptx),
        Opcode::MbarrierTestWait | Opcode::MbarrierTryWait => test(select, ptx),
        Opcode::MbarrierPendingCount => pending_count(select, ptx),
        Opcode::CpAsyncMbarrierArrive => arrive_after_copies(select, ptx),
        _ => select.unsupported(ptx),
    }
}

impl Select<'_> {
    /// Returns the 32-bit address in shared memory that a bracket operand names, also if it is a generic address.
    pub(crate) fn shared_address(
        &mut self,
        ptx: &Ptx<'_>,
        operand: ast::Operand,
        range: OffsetRange,
    ) -> Result<AddressOperands, Unsupported> {
        let space = self.access_space(ptx, operand);
        if space == AccessSpace::Generic && !self.has_transactions() {
            // The window of shared memory starts at an arbitrary address on these targets.
            let address = self.address(operand, AccessSpace::Generic, OffsetRange::NONE)?;
            let base = self.shared_from_generic(ptx, address.base)?;
            return Ok(AddressOperands { base, offset: 0 });
        }
        self.address(operand, AccessSpace::Shared, range)
    }

    /// Marks the instruction emitted last as an access to a barrier in shared memory.
    fn describe_barrier(&mut self) {
        let order =
            MemoryAccess { order: Order::AcquireRelease, scope: Scope::Block, volatile: true, ..MemoryAccess::weak(Space::Shared, 8) };
        self.b.describe(order);
    }

    /// Emits an instruction whose address operands are the first arguments, and returns its result.
    fn barrier_result(&mut self, class: Class, template: &str, address: AddressOperands, more: &[Operand]) -> Operand {
        let mut arguments = vec![address.base, address.offset.into()];
        arguments.extend_from_slice(more);
        let result = self.b.define(class, template, &arguments);
        self.describe_barrier();
        result
    }

    /// Emits an instruction without result whose address operands are the first arguments.
    fn barrier_access(&mut self, template: &str, address: AddressOperands, more: &[Operand]) {
        let mut arguments = vec![address.base, address.offset.into()];
        arguments.extend_from_slice(more);
        self.b.emit(template, &arguments);
        self.describe_barrier();
    }
}

/// Returns the two words of a barrier that expects `count` arrivals.
fn initial_words(select: &mut Select<'_>, count: Operand) -> [Operand; 2] {
    let limits = if select.has_transactions() { [COUNT_LIMIT; 2] } else { [OLD_EXPECTED_LIMIT, OLD_PENDING_LIMIT] };
    let shifts = if select.has_transactions() { [1, PENDING_SHIFT] } else { [0, 0] };
    [0, 1].map(|word| {
        let (limit, shift) = (limits[word], shifts[word]);
        if let Some(count) = count.integer() {
            return Operand::from(i64::from(((limit - count) << shift) as u32));
        }
        let rest = select.difference(Operand::from(limit), count);
        if shift == 0 { rest } else { select.b.define(Class::R, "SHF.L.U32 $, {}, {}, RZ", &[rest, shift.into()]) }
    })
}

/// Selects `mbarrier.init`.
fn init(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let count = select.source(ptx.operand(1), ScalarType::U32)?;
    let address = select.shared_address(ptx, ptx.operand(0), OffsetRange::ACCESS)?;
    let words = initial_words(select, count);
    if select.has_transactions() {
        return select.for_each_set(&[address.base, words[0], words[1]], |select, uniform| {
            let base = uniform[0];
            let words = select.pack_uniforms(&uniform[1..]);
            // Earlier accesses to this memory come first.
            select.write_fence("FENCE.VIEW.ASYNC.S", Order::AcquireRelease, Scope::Block);
            select.barrier_access("SYNCS.EXCH.64 URZ, [{}+{}], {}", AddressOperands { base, ..address }, &[words]);
            Ok(())
        });
    }
    let words = words.map(|word| select.in_register(word));
    let pair = select.b.pack(Class::R2, &words);
    select.barrier_access("STS.64 [{}+{}], {}", address, &[pair]);
    Ok(())
}

/// Selects `mbarrier.inval`. On older targets the memory can be used for other data without further ado.
fn invalidate(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let address = select.shared_address(ptx, ptx.operand(0), OffsetRange::ACCESS)?;
    if select.has_transactions() {
        select.barrier_access("SYNCS.CCTL.IV [{}+URZ+{}]", address, &[]);
    }
    Ok(())
}

/// Selects `mbarrier.expect_tx` and `mbarrier.complete_tx`.
fn change_transactions(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let address = select.shared_address(ptx, ptx.operand(0), OffsetRange::ACCESS)?;
    let count = select.source(ptx.operand(1), ScalarType::U32)?;
    let count = select.in_register(count);
    let change = if ptx.opcode() == Opcode::MbarrierExpectTx { "A0TR" } else { "A0TX" };
    select.barrier_access(&format!("SYNCS.ARRIVE.TRANS64.RED.{change} RZ, [{{}}+URZ+{{}}], {{}}"), address, &[count]);
    Ok(())
}

/// Emits the fence that a releasing arrival needs before it. An arrival releases at the scope of the thread block unless it says otherwise.
fn fence_before_arrival(select: &mut Select<'_>, ptx: &Ptx<'_>) {
    let scope = scope_of(ptx).unwrap_or(Scope::Block);
    let is_release = order_of(ptx) != Order::Relaxed;
    if is_release && (scope > Scope::Block || !select.has_transactions()) {
        select.fence(Order::Release, scope);
    }
}

/// Selects `mbarrier.arrive` and `mbarrier.arrive_drop`.
fn arrive(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let is_drop = ptx.opcode() == Opcode::MbarrierArriveDrop;
    let address = select.shared_address(ptx, ptx.operand(1), OffsetRange::ACCESS)?;
    let count = ptx.operands.get(2).map(|&count| select.source(count, ScalarType::U32)).transpose()?;
    fence_before_arrival(select, ptx);
    if !select.has_transactions() {
        return arrive_by_atomics(select, ptx, address, count, is_drop);
    }
    let kind = match (count, ptx.has(Modifier::ExpectTx)) {
        (_, true) => "",
        (Some(_), false) => ".ART0",
        (None, false) => ".A1T0",
    };
    let count = count.map_or(Operand::RZ, |count| select.in_register(count));
    let is_remote = ptx.has(Modifier::SharedCluster);
    let modifiers = format!("{}{}{kind}", if is_remote { ".RED" } else { "" }, if is_drop { ".OPTOUT" } else { "" });
    if ptx.operand(0) == ast::Operand::Sink {
        select.barrier_access(&format!("SYNCS.ARRIVE.TRANS64{modifiers} RZ, [{{}}+URZ+{{}}], {{}}"), address, &[count]);
        return Ok(());
    }
    let template = format!("SYNCS.ARRIVE.TRANS64{modifiers} $, [{{}}+URZ+{{}}], {{}}");
    let write = |select: &mut Select<'_>| {
        let state = select.barrier_result(Class::R2, &template, address, &[count]);
        select.assign(ptx.operand(0), state)
    };
    // The pending count in the state of `.noComplete` can be asked for. The threads of a warp that arrive with one instruction get the same
    // state, so they have to arrive one after the other.
    if ptx.has(Modifier::NoComplete) { select.for_each_thread(write) } else { write(select) }
}

/// Selects an arrival on targets without transaction counts.
fn arrive_by_atomics(
    select: &mut Select<'_>,
    ptx: &Ptx<'_>,
    address: AddressOperands,
    count: Option<Operand>,
    is_drop: bool,
) -> Result<(), Unsupported> {
    let upper = upper_word(select, address);
    let Some(count) = count else {
        if is_drop {
            select.barrier_access("ATOMS.POPC.INC.32 RZ, [{}+URZ+{}]", address, &[]);
        }
        if ptx.operand(0) == ast::Operand::Sink {
            select.barrier_access("ATOMS.ARRIVE.64 RZ, [{}+URZ+{}]", address, &[]);
            return Ok(());
        }
        let state = select.barrier_result(Class::R2, "ATOMS.ARRIVE.64 $, [{}+URZ+{}]", address, &[]);
        return select.assign(ptx.operand(0), state);
    };
    let count = select.in_register(count);
    if is_drop {
        select.barrier_access("ATOMS.ADD RZ, [{}+{}], {}", address, &[count]);
    }
    let state = select.barrier_result(Class::R, "ATOMS.ADD $, [{}+{}], {}", upper, &[count]);
    match ptx.operand(0) {
        ast::Operand::Sink => Ok(()),
        destination => select.assign_halves(destination, state, state),
    }
}

/// Returns the address of a barrier's upper word.
fn upper_word(select: &mut Select<'_>, address: AddressOperands) -> AddressOperands {
    let offset = address.offset + 4;
    if OffsetRange::ATOMIC.holds(offset) {
        return AddressOperands { offset, ..address };
    }
    let base = select.b.define(Class::R, "IADD3 $, PT, PT, {}, {}, RZ", &[address.base, offset.into()]);
    AddressOperands { base, offset: 0 }
}

/// Selects `mbarrier.test_wait` and `mbarrier.try_wait`. The time limit of `try_wait` is a hint; the limit of the hardware is used.
fn test(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let address = select.shared_address(ptx, ptx.operand(1), OffsetRange::ACCESS)?;
    // Bit 31 is the parity of the phase.
    let phase = if ptx.has(Modifier::Parity) {
        match select.source(ptx.operand(2), ScalarType::U32)? {
            parity if parity.integer().is_some() => {
                let bit = parity.integer().unwrap_or(0) & 1;
                select.in_register(Operand::from(bit << 31))
            }
            parity => select.b.define(Class::R, "SHF.L.U32 $, {}, 0x1f, RZ", &[parity]),
        }
    } else {
        let state = select.wide_source(ptx.operand(2), ScalarType::U64)?;
        select.high(state)
    };
    if !select.has_transactions() {
        let word = upper_word(select, address);
        let current = select.barrier_result(Class::R, "LDS $, [{}+{}]", word, &[]);
        let different = select.b.define(Class::R, "LOP3.LUT $, {}, {}, RZ, 0x3c, !PT", &[current, phase]);
        let complete = select.b.define(Class::P, "ISETP.LT.AND $, PT, {}, RZ, PT", &[different]);
        return select.assign(ptx.operand(0), complete);
    }
    let mode = if ptx.opcode() == Opcode::MbarrierTryWait { ".TRYWAIT" } else { "" };
    let template = format!("SYNCS.PHASECHK.TRANS64{mode} $, [{{}}+URZ+{{}}], {{}}");
    let complete = select.barrier_result(Class::P, &template, address, &[phase]);
    if order_of(ptx) != Order::Relaxed && scope_of(ptx).unwrap_or(Scope::Block) > Scope::Block {
        let saved = select.b.guard;
        select.b.guard = saved.or(Some(select.condition(complete)));
        select.fence(Order::Acquire, Scope::Cluster);
        select.b.guard = saved;
    }
    select.assign(ptx.operand(0), complete)
}

/// Selects `mbarrier.pending_count`.
fn pending_count(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let state = select.wide_source(ptx.operand(1), ScalarType::U64)?;
    let word = select.high(state);
    let count = if select.has_transactions() {
        let shifted = select.b.define(Class::R, "SHF.R.U32.HI $, RZ, {}, {}", &[PENDING_SHIFT.into(), word]);
        let field = select.bitwise_and(shifted, Operand::from(COUNT_LIMIT - 1));
        select.difference(Operand::from(COUNT_LIMIT), field)
    } else {
        let field = select.bitwise_and(word, Operand::from(OLD_PENDING_LIMIT - 1));
        select.difference(Operand::from(OLD_PENDING_LIMIT), field)
    };
    select.assign(ptx.operand(0), count)
}

/// Selects `cp.async.mbarrier.arrive`: an arrival as soon as the earlier asynchronous copies of this thread are complete. Without `.noinc`
/// the arrival is one more than the phase expects.
fn arrive_after_copies(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let address = select.shared_address(ptx, ptx.operand(0), OffsetRange::ACCESS)?;
    let is_counted = ptx.has(Modifier::Noinc);
    if !select.has_transactions() {
        if !is_counted {
            let upper = upper_word(select, address);
            let less = select.in_register(Operand::from(i64::from(u32::MAX)));
            select.barrier_access("ATOMS.ADD RZ, [{}+{}], {}", upper, &[less]);
        }
    } else if !is_counted {
        select.barrier_access("SYNCS.ARRIVE.TRANS64.RED.A0T1 RZ, [{}+URZ+{}], RZ", address, &[]);
    }
    let counter = match (select.has_transactions(), is_counted) {
        (false, _) => "",
        (true, true) => ".ARVCNT",
        (true, false) => ".TRANSCNT",
    };
    // `ARRIVES` with an address in a general register is an illegal instruction on an H200.
    select.for_each_thread(|select| {
        let base = select.in_uniform(address.base);
        select.barrier_access(&format!("ARRIVES.LDGSTSBAR.64{counter} [{{}}+{{}}]"), AddressOperands { base, ..address }, &[]);
        Ok(())
    })
}
