//! Barriers in shared memory: `SYNCS`, `ARRIVES`.
//!
//! A barrier is a 64-bit word. The layout was found from the words that ptxas' code for `mbarrier.init` stores and from its code for
//! `mbarrier.pending_count` and `mbarrier.test_wait`:
//!
//! | bits | contents |
//! |---|---|
//! | 1 to 20 | 2^20 minus the number of arrivals that a phase expects |
//! | 21 to 42 | transaction count (the position inside of the word is an assumption; no code can see it) |
//! | 43 to 62 | 2^20 minus the number of pending arrivals |
//! | 63 | parity of the phase |
//!
//! A phase ends when pending arrivals and transaction count are zero. The threads of a warp act one after the other, lowest lane first.
//! Before a wait, the copies that signal the barrier are performed: as late as the program allows ([`super::bulk`]).

use oriole_isa::Opcode;

use super::bulk;
use super::fault::Fault;
use super::memory::address::AddressSum;
use super::memory::space::{self, Space};
use super::site::Site;
use super::step::{Action, Built, access};
use super::warp::{Destination, Source, Warp, lanes_of};
use super::world::World;

/// Bytes of a barrier.
const BYTES: usize = 8;
/// Counts are stored as this number minus the count.
const COUNT_LIMIT: u64 = 1 << 20;
/// Number of bits of the transaction count.
const TRANSACTION_BITS: u32 = 22;

/// The contents of a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MbarrierState {
    expected: u64,
    pending: u64,
    transactions: i64,
    parity: u64,
}

impl MbarrierState {
    fn from_bits(bits: u64) -> MbarrierState {
        let count = |shift: u32| (COUNT_LIMIT - (bits >> shift) % COUNT_LIMIT) % COUNT_LIMIT;
        let transactions = (bits >> 21) & ((1 << TRANSACTION_BITS) - 1);
        let unused = 64 - TRANSACTION_BITS;
        MbarrierState {
            expected: count(1),
            pending: count(43),
            transactions: (transactions << unused) as i64 >> unused,
            parity: bits >> 63,
        }
    }

    fn bits(self) -> u64 {
        let count = |count: u64, shift: u32| ((COUNT_LIMIT - count) % COUNT_LIMIT) << shift;
        let transactions = self.transactions as u64 & ((1 << TRANSACTION_BITS) - 1);
        count(self.expected, 1) | transactions << 21 | count(self.pending, 43) | self.parity << 63
    }

    /// Changes the transaction count.
    pub fn add_transactions(&mut self, count: i64) {
        self.transactions += count;
        self.end_phase();
    }

    /// Registers arrivals, of which the last may end the phase.
    fn arrive(&mut self, count: u64) -> Result<(), String> {
        if count > self.pending {
            return Err(format!("{count} arrivals at a barrier that waits for {}", self.pending));
        }
        self.pending -= count;
        self.end_phase();
        Ok(())
    }

    fn end_phase(&mut self) {
        if self.pending == 0 && self.transactions == 0 {
            self.parity ^= 1;
            self.pending = self.expected;
        }
    }
}

/// Applies a change to the barrier at an address in the shared memory of a cluster; returns its bits before the change.
fn change_at(
    warp: &Warp,
    world: &mut World<'_>,
    address: u64,
    what: impl FnOnce(&mut MbarrierState) -> Result<(), String>,
) -> Result<u64, String> {
    let (slot, offset) = space::in_cluster(&warp.identity, address)?;
    change(world, slot, offset, what)
}

/// Applies a change to a barrier in the shared memory of a block; returns its bits before the change.
pub(super) fn change(
    world: &mut World<'_>,
    slot: usize,
    offset: u64,
    change: impl FnOnce(&mut MbarrierState) -> Result<(), String>,
) -> Result<u64, String> {
    let start = offset as usize;
    let memory = world.shared.get_mut(slot).and_then(|memory| memory.get_mut(start..start + BYTES));
    let Some(bytes) = memory.filter(|_| start.is_multiple_of(BYTES)) else {
        return Err(format!("no barrier can be at {offset:#x} of shared memory"));
    };
    let mut word = [0; BYTES];
    word.copy_from_slice(bytes);
    let old = u64::from_le_bytes(word);
    let mut barrier = MbarrierState::from_bits(old);
    change(&mut barrier)?;
    bytes.copy_from_slice(&barrier.bits().to_le_bytes());
    Ok(old)
}

/// Builds the action of an instruction of this family; `None` for other opcodes.
pub fn build(site: &Site<'_>) -> Option<Built> {
    Some(match site.opcode() {
        Opcode::SYNCS if site.has(".EXCH") => exchange(site),
        Opcode::SYNCS if site.has(".ARRIVE") => arrive(site),
        Opcode::SYNCS if site.has(".PHASECHK") => test(site),
        Opcode::SYNCS if site.has(".CCTL") => Ok(Action::Nothing),
        Opcode::ARRIVES => arrive_after_copies(site),
        _ => return None,
    })
}

/// `SYNCS.EXCH.64 d, [address], value`: writes a barrier.
fn exchange(site: &Site<'_>) -> Built {
    let mut operands = site.operands();
    let d = operands.wide_destination(2)?;
    let address = AddressSum::take(site, &mut operands, false)?;
    let value = operands.wide_input()?.source;
    Ok(access(move |warp, world, mask| {
        let (addresses, values) = (address.of(warp), warp.read_wide(value));
        let lane = mask.trailing_zeros() as usize;
        let place = Space::Shared.locate(addresses[lane], world.map);
        let bytes = space::bytes_mut(warp, world, lane, place, BYTES).map_err(|what| Fault::of(lane, what))?;
        let mut old = [0; BYTES];
        old.copy_from_slice(bytes);
        bytes.copy_from_slice(&values[lane].to_le_bytes());
        warp.write_wide(d, mask, &[u64::from_le_bytes(old); 32]);
        Ok(())
    }))
}

/// The numbers of arrivals and transactions of an instruction.
#[derive(Clone, Copy)]
enum ArrivalKind {
    /// `.A1T0`
    One,
    /// `.ART0`: the operand is the number of arrivals.
    Many,
    /// One arrival that expects the operand's number of bytes.
    Expecting,
    /// `.A0T1`
    ExpectOne,
    /// `.A0TR`
    Expect,
    /// `.A0TX`
    Complete,
}

/// `SYNCS.ARRIVE.TRANS64 d, [address], count`
fn arrive(site: &Site<'_>) -> Built {
    let kinds = [
        (".A1T0", ArrivalKind::One),
        (".ART0", ArrivalKind::Many),
        (".A0T1", ArrivalKind::ExpectOne),
        (".A0TR", ArrivalKind::Expect),
        (".A0TX", ArrivalKind::Complete),
    ];
    let kind = site.one_of(&kinds).unwrap_or(ArrivalKind::Expecting);
    let drops = site.has(".OPTOUT");
    if site.has(".TMASK") {
        return Err(site.unsupported("an arrival that returns a mask of threads"));
    }
    let mut operands = site.operands();
    let d = operands.wide_destination(2)?;
    let address = AddressSum::take(site, &mut operands, false)?;
    let count: Source = operands.input()?.source;
    Ok(access(move |warp: &mut Warp, world: &mut World<'_>, mask| {
        let (addresses, counts) = (address.of(warp), warp.read(count));
        let mut states = [0; 32];
        for lane in lanes_of(mask) {
            let count = counts[lane];
            states[lane] = change_at(warp, world, addresses[lane], |barrier| {
                let (arrivals, transactions) = match kind {
                    ArrivalKind::One => (1, 0),
                    ArrivalKind::Many => (u64::from(count), 0),
                    ArrivalKind::Expecting => (1, i64::from(count)),
                    ArrivalKind::ExpectOne => (0, 1),
                    ArrivalKind::Expect => (0, i64::from(count)),
                    ArrivalKind::Complete => (0, -i64::from(count)),
                };
                if drops {
                    barrier.expected = barrier.expected.checked_sub(arrivals).ok_or("more threads leave a barrier than it expects")?;
                }
                barrier.transactions += transactions;
                if arrivals > 0 {
                    return barrier.arrive(arrivals);
                }
                if transactions < 0 {
                    barrier.end_phase();
                }
                Ok(())
            })
            .map_err(|what| Fault::of(lane, what))?;
        }
        if let Destination::General(row) = d {
            for lane in lanes_of(mask) {
                warp.write_lane(row, lane, states[lane] as u32);
                warp.write_lane(row.plus(1), lane, (states[lane] >> 32) as u32);
            }
        }
        Ok(())
    }))
}

/// `SYNCS.PHASECHK.TRANS64 p, [address], phase`: tests whether the phase whose parity is in bit 31 has ended.
fn test(site: &Site<'_>) -> Built {
    let mut operands = site.operands();
    let p = operands.predicate_destination()?;
    let address = AddressSum::take(site, &mut operands, false)?;
    let phase = operands.input()?.source;
    Ok(access(move |warp: &mut Warp, world: &mut World<'_>, mask| {
        let (addresses, phases) = (address.of(warp), warp.read(phase));
        let mut ended = 0;
        for lane in lanes_of(mask) {
            let fail = |what| Fault::of(lane, what);
            let (slot, offset) = space::in_cluster(&warp.identity, addresses[lane]).map_err(fail)?;
            bulk::perform_for_barrier(world, slot, offset).map_err(fail)?;
            let bits = change(world, slot, offset, |_| Ok(())).map_err(fail)?;
            ended |= u32::from(bits >> 63 != u64::from(phases[lane] >> 31)) << lane;
        }
        warp.write_predicate(p, mask, ended);
        Ok(())
    }))
}

/// `ARRIVES.LDGSTSBAR.64 [address]`: arrives when the copies of the thread are complete. `LDGSTS` completes at once here.
fn arrive_after_copies(site: &Site<'_>) -> Built {
    let is_transaction = site.has(".TRANSCNT");
    let is_count = site.has(".ARVCNT");
    let mut operands = site.operands();
    let address = AddressSum::take(site, &mut operands, false)?;
    Ok(access(move |warp: &mut Warp, world: &mut World<'_>, mask| {
        let addresses = address.of(warp);
        for lane in lanes_of(mask) {
            let result = match () {
                () if is_transaction => change_at(warp, world, addresses[lane], |barrier| {
                    barrier.add_transactions(-1);
                    Ok(())
                }),
                () if is_count => change_at(warp, world, addresses[lane], |barrier| barrier.arrive(1)),
                () => {
                    let place = Space::Shared.locate(addresses[lane], world.map);
                    space::bytes_mut(warp, world, lane, place, BYTES).map(|bytes| {
                        let mut word = [0; BYTES];
                        word.copy_from_slice(bytes);
                        bytes.copy_from_slice(&arrived_old(u64::from_le_bytes(word)).to_le_bytes());
                        0
                    })
                }
            };
            result.map_err(|what| Fault::of(lane, what))?;
        }
        Ok(())
    }))
}

/// Returns the word of a barrier of targets without transaction counts after one arrival. Bits 0 to 29 are the negated number of arrivals
/// that a phase expects, bits 32 to 62 that of pending arrivals, bit 63 is the parity.
pub(super) fn arrived_old(bits: u64) -> u64 {
    let (low, high) = (bits as u32, (bits >> 32) as u32);
    let pending = (high & 0x7fff_ffff).wrapping_add(1);
    let high = match pending {
        0x8000_0000 => (high ^ 0x8000_0000) & 0x8000_0000 | low & 0x3fff_ffff | 0x4000_0000,
        _ => high & 0x8000_0000 | pending,
    };
    u64::from(high) << 32 | u64::from(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_survive_the_round_trip() {
        // mbarrier.init with 5: ptxas stores (2^20 - 5) << 1 and (2^20 - 5) << 11.
        let bits = ((1_u64 << 20) - 5) << 11 << 32 | ((1 << 20) - 5) << 1;
        let mut barrier = MbarrierState::from_bits(bits);
        assert_eq!(barrier, MbarrierState { expected: 5, pending: 5, transactions: 0, parity: 0 });
        assert_eq!(barrier.bits(), bits);
        barrier.transactions = -3;
        assert_eq!(MbarrierState::from_bits(barrier.bits()), barrier);
    }

    #[test]
    fn a_phase_needs_all_arrivals_and_transactions() {
        let mut barrier = MbarrierState { expected: 2, pending: 2, transactions: 16, parity: 0 };
        barrier.arrive(2).unwrap();
        assert_eq!((barrier.parity, barrier.pending), (0, 0));
        barrier.add_transactions(-16);
        assert_eq!((barrier.parity, barrier.pending), (1, 2));
        assert!(barrier.arrive(3).is_err());
    }

    #[test]
    fn an_old_barrier_starts_the_next_phase_at_the_last_arrival() {
        // Two arrivals are expected.
        let mut bits = u64::from(0x8000_0000_u32 - 2) << 32 | (0x4000_0000 - 2);
        bits = arrived_old(bits);
        assert_eq!(bits >> 32, 0x7fff_ffff);
        bits = arrived_old(bits);
        assert_eq!(bits >> 32, 0xffff_fffe);
    }
}
