//! Checks that a new order of instructions computes the same as the old one.
//!
//! The checker shares the type [`SchedCode`] with the schedulers, but no logic: it builds no dependency graph. It replays both orders and
//! records for each item what precedes it. The records of both orders must be equal:
//!
//! * **registers**: each read sees the same writer; a guarded write, which may keep the old value, sees the same previous writer; at the
//!   end every register has the same last writer;
//! * **memory**: each access has the same *set* of earlier accesses among those that may alias it;
//! * **order**: each item that must stay after certain fences, barriers, strong accesses or clock reads has the same ones before it, and
//!   each fence and barrier has the same items before it;
//! * **scheduling barriers** ([`OrderEffect::SchedBarrier`]): the same items are before and after each of them.
//!
//! A set is represented by its *set hash*: the sum modulo 2^64 of a pseudo-random 64-bit number per member. Equal sets have equal sums;
//! two different sets collide with probability 2^-64. The time is linear in the number of operands.
//!
//! Example: `A: STS [R1]`, `B: LDS [R1]`, `C: LDS [R2]`, where the address registers `R1` and `R2` are not written. Item `B` records
//! the set `{A}` (same address) and `C` records `{A}` (another base register, so the addresses may be equal). Order `A C B` gives the
//! same records and is accepted. Order `B A C` is rejected: `B` would record the empty set.

use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::code::{AliasSpace, Item, MemAccess, MemAccessKind, OrderEffect, PortAccess, SchedCode};

/// The first difference in behaviour that the checker found between the old and the new order of the items.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OrderViolation {
    /// The new order is not a permutation of the old one.
    NotAPermutation,
    /// An item sees another writer of a register than in the old order: it reads the register, or its guarded write may keep the old value.
    Read {
        /// Position of the item in the old order.
        item: usize,
        /// Register number in [`SchedCode`].
        register: u32,
    },
    /// A register has another last writer at the end than in the old order.
    LastWriter {
        /// Register number in [`SchedCode`].
        register: u32,
    },
    /// A memory access moved across another access that may alias it, or a fence or barrier moved across an access.
    Memory {
        /// Position of the item in the old order.
        item: usize,
    },
    /// An item moved across a fence, a barrier, or another item with which it must stay in order.
    Order {
        /// Position of the item in the old order.
        item: usize,
    },
    /// A scheduling barrier moved, or an item moved across one.
    SchedBarrier {
        /// Position of the item in the old order.
        item: usize,
    },
}

impl fmt::Display for OrderViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OrderViolation::NotAPermutation => f.write_str("the new order does not have the same instructions"),
            OrderViolation::Read { item, register } => write!(f, "instruction {item} reads register {register} from another writer"),
            OrderViolation::LastWriter { register } => write!(f, "register {register} has another last writer"),
            OrderViolation::Memory { item } => write!(f, "instruction {item} was moved across an access to memory that it may overlap"),
            OrderViolation::Order { item } => write!(f, "instruction {item} was moved across a fence or barrier"),
            OrderViolation::SchedBarrier { item } => write!(f, "instruction {item} was moved across a scheduling barrier"),
        }
    }
}

impl std::error::Error for OrderViolation {}

/// Checks that a new order of the items in `within` behaves like the old one; `new` lists their positions in the new order. Returns the
/// first difference as an error.
pub fn check(code: &SchedCode, within: Range<usize>, new: &[usize]) -> Result<(), OrderViolation> {
    let mut seen = vec![false; within.len()];
    let is_new = |&item: &usize| within.contains(&item) && !std::mem::replace(&mut seen[item - within.start], true);
    if new.len() != within.len() || !new.iter().all(is_new) {
        return Err(OrderViolation::NotAPermutation);
    }
    let old: Vec<usize> = within.clone().collect();
    let mut bases = vec![None; within.len()];
    let (before, old_writers) = replay(code, &within, &old, &mut bases, true);
    let (after, new_writers) = replay(code, &within, new, &mut bases, false);
    for (position, (before, after)) in before.iter().zip(&after).enumerate() {
        compare_records(code, within.start + position, before, after)?;
    }
    // Sorted, so that the reported register does not depend on the order of the hash map.
    let mut registers: Vec<u32> = old_writers.keys().copied().collect();
    registers.sort_unstable();
    let differs = registers.into_iter().find(|register| old_writers[register] != new_writers.get(register).copied().unwrap_or_default());
    differs.map_or(Ok(()), |register| Err(OrderViolation::LastWriter { register }))
}

/// Compares the records of one item in the old order (`before`) and in the new order (`after`). Returns a difference as an error.
fn compare_records(code: &SchedCode, item: usize, before: &ItemRecord, after: &ItemRecord) -> Result<(), OrderViolation> {
    if let Some(place) = before.writers.iter().zip(&after.writers).position(|(before, after)| before != after) {
        let (item_data, number) = (&code.items[item], |access: &PortAccess| access.register);
        let (reads, writes) = (code.reads(item_data).iter().map(number), code.results(item_data).iter().map(number));
        let register = reads.chain(code.ordered_registers(item_data).iter().copied()).chain(writes).nth(place).unwrap_or_default();
        return Err(OrderViolation::Read { item, register });
    }
    if before.sched_barriers != after.sched_barriers {
        return Err(OrderViolation::SchedBarrier { item });
    }
    if before.aliasing_accesses != after.aliasing_accesses {
        return Err(OrderViolation::Memory { item });
    }
    if before.ordered_items != after.ordered_items { Err(OrderViolation::Order { item }) } else { Ok(()) }
}

/// The record of one item: the items before it in the replayed order with which it must stay in order. Sets are represented by set hashes.
#[derive(Clone, Default)]
struct ItemRecord {
    /// Writer of each register that the item reads, then of each ordered register, then the previous writer of each result if the item is
    /// guarded. A writer is its position plus one; 0 means that no item of the range wrote the register before.
    writers: Vec<u32>,
    /// Earlier accesses that may alias this access; for a fence or barrier, all earlier accesses.
    aliasing_accesses: SetHash,
    /// Earlier fences, barriers, strong accesses and other items with which this item must stay in order.
    ordered_items: SetHash,
    /// Earlier scheduling barriers; for a scheduling barrier, all earlier items.
    sched_barriers: SetHash,
}

/// Returns a pseudo-random 64-bit number that depends only on `number`. It is the same in every process.
fn pseudo_random_from(number: usize) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(number)
}

/// The hash of a set of items, or a linear combination of such hashes, modulo 2^64.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct SetHash(u64);

impl SetHash {
    /// Returns the hash of the set whose only member is `item`.
    fn of_item(item: usize) -> SetHash {
        SetHash(pseudo_random_from(item))
    }

    /// Adds the members of another set to this one.
    fn add(&mut self, other: SetHash) {
        self.0 = self.0.wrapping_add(other.0);
    }

    /// Returns the hash multiplied by a factor. Different factors make the sets of one record distinguishable: without them, an item could
    /// move from one set to another unnoticed.
    fn scaled(self, factor: u64) -> SetHash {
        SetHash(self.0.wrapping_mul(factor))
    }
}

// Factors that make the sets of one [`ItemRecord`] distinguishable: the hash of each set is multiplied by its own factor before the hashes
// are added. The factors are odd, so the multiplication is invertible modulo 2^64.
const READS_HASH_FACTOR: u64 = 0xd6e8_feb8_6659_fd93;
const FENCES_HASH_FACTOR: u64 = 0xa076_1d64_78bd_642f;
const CONVERGED_ITEMS_HASH_FACTOR: u64 = 0xe703_7ed1_a0b4_28db;
const SYNCS_HASH_FACTOR: u64 = 0x8ebc_6af0_9c88_c6e3;
const LANE_EXCHANGES_HASH_FACTOR: u64 = 0x5895_65a4_f3b2_7d3d;
const BARRIERS_HASH_FACTOR: u64 = 0xc2b2_ae3d_27d4_eb4f;
/// The factors for the hashes of the accesses of each memory space, in the order of [`ReplayState::spaces`].
const SPACE_HASH_FACTORS: [u64; 4] = [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb, 0xd6e8_feb8_6659_fd91];
/// Minus one modulo 2^64: the factor that removes members from a set.
const SET_REMOVAL_FACTOR: u64 = u64::MAX;

/// The base of an address: the hash of the address form ([`crate::code::AccessAddress::form`]), and each address register with its last writer
/// (position plus one; 0 for none). Two accesses with equal bases have the same base address, so their offsets decide whether they overlap.
type ReplayedBase = (u64, Vec<(u32, u32)>);

/// Set hashes (each represents a set of items) of the memory reads and of the memory writes so far.
#[derive(Default)]
struct ReadWriteSetHashes {
    /// Set hash of the reads.
    reads: SetHash,
    /// Set hash of the writes.
    writes: SetHash,
}

/// State of a replay of the items in one order: the sets of items replayed so far, each represented by its set hash.
#[derive(Default)]
struct ReplayState<'b> {
    /// For each register number, the last writer, as position plus one.
    writers: FxHashMap<u32, u32>,
    /// The accesses so far of each memory space: global, shared, local, spill slots.
    spaces: [ReadWriteSetHashes; 4],
    /// For each memory space and base address, the accesses so far with that base.
    bases: FxHashMap<(usize, &'b ReplayedBase), ReadWriteSetHashes>,
    /// For each memory space, base address and index of a four-byte word relative to that base, the accesses so far that touch the word.
    words: FxHashMap<(usize, &'b ReplayedBase, i64), ReadWriteSetHashes>,
    /// All memory accesses so far, except reads of constant memory.
    accesses: SetHash,
    /// The strong accesses and clock reads so far.
    strong: SetHash,
    /// The fences and barriers so far.
    fences: SetHash,
    /// The barriers between threads and the points of divergence so far.
    barriers: SetHash,
    /// The items so far that exchange data between threads of the warp (shuffles, votes).
    exchanges: SetHash,
    /// The points of divergence ([`OrderEffect::Sync`]) so far.
    syncs: SetHash,
    /// The items so far whose result depends on the set of converged threads.
    converged: SetHash,
    /// All items so far.
    all_items: SetHash,
    /// The scheduling barriers so far.
    sched_barriers: SetHash,
}

/// Replays the items of an order one by one. Returns the record of each item, indexed by position within the range, and the last writer of
/// each register. The replay of the old order also fills `bases`, which the replay of the new order reads.
fn replay(
    code: &SchedCode,
    within: &Range<usize>,
    order: &[usize],
    bases: &mut [Option<ReplayedBase>],
    is_old_order: bool,
) -> (Vec<ItemRecord>, FxHashMap<u32, u32>) {
    if is_old_order {
        record_base_addresses(code, within, bases);
    }
    let mut state = ReplayState::default();
    let mut found = vec![ItemRecord::default(); within.len()];
    for &position in order {
        let item = &code.items[position];
        let base = bases[position - within.start].as_ref();
        found[position - within.start] = state.replay_item(code, item, position, base);
    }
    (found, state.writers)
}

/// Computes the base address of each memory access in the old order, and stores it in `bases` at the position of the access.
///
/// The new order uses the same bases: if all reads see the same writers, which is checked separately, then the bases are equal.
fn record_base_addresses(code: &SchedCode, within: &Range<usize>, bases: &mut [Option<ReplayedBase>]) {
    let mut writers: FxHashMap<u32, u32> = FxHashMap::default();
    for position in within.clone() {
        let item = &code.items[position];
        if let OrderEffect::Access(MemAccess { address: Some(address), .. }) = item.effect {
            let written = |&register: &u32| (register, writers.get(&register).copied().unwrap_or_default());
            bases[position - within.start] = Some((address.form, code.address_registers(&address).iter().map(written).collect()));
        }
        for access in code.results(item) {
            writers.insert(access.register, position as u32 + 1);
        }
    }
}

impl<'b> ReplayState<'b> {
    /// Replays one item: adds it to the sets that it belongs to, and returns its record.
    fn replay_item(&mut self, code: &SchedCode, item: &Item, position: usize, base: Option<&'b ReplayedBase>) -> ItemRecord {
        let mut record = ItemRecord { sched_barriers: self.sched_barriers, ..ItemRecord::default() };
        let writer = |register: u32| self.writers.get(&register).copied().unwrap_or_default();
        record.writers.extend(code.reads(item).iter().map(|access| writer(access.register)));
        record.writers.extend(code.ordered_registers(item).iter().map(|&register| writer(register)));
        if item.guarded {
            record.writers.extend(code.results(item).iter().map(|access| writer(access.register)));
        }
        let own = SetHash::of_item(position);
        match item.effect {
            OrderEffect::None => {}
            OrderEffect::Access(access) => self.replay_access(access, own, base, &mut record),
            OrderEffect::Clock => {
                record.ordered_items.add(self.strong);
                record.ordered_items.add(self.fences.scaled(FENCES_HASH_FACTOR));
                self.strong.add(own);
            }
            OrderEffect::Fence | OrderEffect::Barrier | OrderEffect::Sync => {
                record.aliasing_accesses = self.accesses;
                record.ordered_items.add(self.strong);
                record.ordered_items.add(self.fences.scaled(FENCES_HASH_FACTOR));
                self.fences.add(own);
                if item.effect != OrderEffect::Fence {
                    record.ordered_items.add(self.exchanges.scaled(LANE_EXCHANGES_HASH_FACTOR));
                    self.barriers.add(own);
                }
                if item.effect == OrderEffect::Sync {
                    record.ordered_items.add(self.converged.scaled(CONVERGED_ITEMS_HASH_FACTOR));
                    self.syncs.add(own);
                }
            }
            OrderEffect::SchedBarrier => {
                record.sched_barriers = self.all_items;
                self.sched_barriers.add(own);
            }
        }
        if item.needs_convergence {
            record.ordered_items.add(self.syncs.scaled(SYNCS_HASH_FACTOR));
            self.converged.add(own);
        }
        if item.exchanges_lanes {
            record.ordered_items.add(self.barriers.scaled(BARRIERS_HASH_FACTOR));
            self.exchanges.add(own);
        }
        self.all_items.add(own);
        for register in code.results(item).iter().map(|access| access.register).chain(code.ordered_registers(item).iter().copied()) {
            self.writers.insert(register, position as u32 + 1);
        }
        record
    }

    /// Replays a memory access. `own` is the set hash of the item itself.
    ///
    /// Per memory space, an access may alias all accesses with other bases, and those with the same base that access a common word of four
    /// bytes. The hash of this set is `hash(space) - hash(base) + sum over the accessed words of factor(word) * hash(base, word)`.
    fn replay_access(&mut self, access: MemAccess, own: SetHash, base: Option<&'b ReplayedBase>, record: &mut ItemRecord) {
        if access.kind == MemAccessKind::ReadConstant {
            record.ordered_items = self.barriers;
            return;
        }
        let writes = access.kind == MemAccessKind::Write;
        let words = access.address.map(|address| {
            let last = address.offset + i64::from(address.bytes) - 1;
            address.offset >> 2..=last >> 2
        });
        for (number, &space) in [AliasSpace::Global, AliasSpace::Shared, AliasSpace::Local, AliasSpace::Spill].iter().enumerate() {
            // A generic address may be global, shared or local, but never a spill slot.
            if access.space != space && (access.space != AliasSpace::Generic || space == AliasSpace::Spill) {
                continue;
            }
            // The factor of this memory space, which distinguishes an access in one space from the same access in another space.
            let of_space = SPACE_HASH_FACTORS[number];
            let mut count = |hashes: &ReadWriteSetHashes, factor: u64| {
                record.aliasing_accesses.add(hashes.writes.scaled(factor).scaled(of_space));
                if writes {
                    record.aliasing_accesses.add(hashes.reads.scaled(READS_HASH_FACTOR).scaled(factor).scaled(of_space));
                }
            };
            // Adds all accesses of the space here; those of this base are subtracted below.
            count(&self.spaces[number], 1);
            let add = |hashes: &mut ReadWriteSetHashes| {
                let sum = if writes { &mut hashes.writes } else { &mut hashes.reads };
                sum.add(own);
            };
            add(&mut self.spaces[number]);
            if let Some((base, words)) = base.zip(words.clone()) {
                let of_base = self.bases.entry((number, base)).or_default();
                count(of_base, SET_REMOVAL_FACTOR);
                add(of_base);
                for word in words {
                    let of_word = self.words.entry((number, base, word)).or_default();
                    count(of_word, pseudo_random_from(word as usize));
                    add(of_word);
                }
            }
        }
        record.ordered_items = self.fences;
        if access.strong {
            record.ordered_items.add(self.strong.scaled(READS_HASH_FACTOR));
            self.strong.add(own);
        }
        self.accesses.add(own);
    }
}
