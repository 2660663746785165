//! Whether a new order computes what the old one did.
//!
//! Shares the form of the code with those who order it, and no logic: there is no graph here. Both orders are replayed, and every item must
//! find the same in both:
//!
//! * **registers**: each read sees the same writer; a guarded write, which may leave the old value, sees the same old value; in the end
//!   every register has the same last writer;
//! * **memory**: each access has the same *set* of accesses before it among those that it may meet. Sets are compared by sums of numbers
//!   that stand for their members: one sum for each space, base and cell of memory;
//! * **order**: the same fences, barriers, strong accesses and clocks before each item that must stay behind them, and the same items before
//!   each fence and barrier.
//!
//! The cost is linear in operands. Two different sets have the same sum once in 2^64 times.

use std::fmt;
use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::code::{Access, AccessKind, Code, Effect, Item, Space};

/// What a new order breaks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Broken {
    /// It is not the same items in another order.
    NotAPermutation,
    /// An item reads a register that somebody else has written.
    Read {
        /// The item, by its position in the old order.
        item: usize,
        /// The register.
        register: u32,
    },
    /// A register has another last writer.
    LastWriter {
        /// The register.
        register: u32,
    },
    /// An access of memory is on the other side of one that it may meet.
    Memory {
        /// The item.
        item: usize,
    },
    /// An item is on the other side of a fence, a barrier, or another that it keeps its order with.
    Order {
        /// The item.
        item: usize,
    },
    /// A wall has moved, or something has moved past it.
    Wall {
        /// The item.
        item: usize,
    },
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::NotAPermutation => f.write_str("the new order has not the same instructions"),
            Broken::Read { item, register } => write!(f, "instruction {item} reads register {register} from another writer"),
            Broken::LastWriter { register } => write!(f, "register {register} has another last writer"),
            Broken::Memory { item } => write!(f, "instruction {item} is on the other side of an access that it may meet"),
            Broken::Order { item } => write!(f, "instruction {item} is on the other side of a fence or barrier"),
            Broken::Wall { item } => write!(f, "instruction {item} is on the other side of a wall"),
        }
    }
}

impl std::error::Error for Broken {}

/// Compares orders of a part of the code; `new` has the positions of its items in their new order.
pub fn check(code: &Code, within: Range<usize>, new: &[usize]) -> Result<(), Broken> {
    let mut seen = vec![false; within.len()];
    let is_new = |&item: &usize| within.contains(&item) && !std::mem::replace(&mut seen[item - within.start], true);
    if new.len() != within.len() || !new.iter().all(is_new) {
        return Err(Broken::NotAPermutation);
    }
    let old: Vec<usize> = within.clone().collect();
    let mut bases = vec![None; within.len()];
    let (before, old_writers) = replay(code, &within, &old, &mut bases, true);
    let (after, new_writers) = replay(code, &within, new, &mut bases, false);
    for (position, (before, after)) in before.iter().zip(&after).enumerate() {
        compare(code, within.start + position, before, after)?;
    }
    let mut registers: Vec<u32> = old_writers.keys().copied().collect();
    registers.sort_unstable();
    let differs = registers.into_iter().find(|register| old_writers[register] != new_writers.get(register).copied().unwrap_or_default());
    differs.map_or(Ok(()), |register| Err(Broken::LastWriter { register }))
}

fn compare(code: &Code, item: usize, before: &Seen, after: &Seen) -> Result<(), Broken> {
    if let Some(place) = before.writers.iter().zip(&after.writers).position(|(before, after)| before != after) {
        let reads = code.reads(&code.items[item]).iter();
        let register = reads.chain(code.writes(&code.items[item])).nth(place).map_or(0, |touch| touch.register);
        return Err(Broken::Read { item, register });
    }
    if before.walls != after.walls {
        return Err(Broken::Wall { item });
    }
    if before.memory != after.memory {
        return Err(Broken::Memory { item });
    }
    if before.order != after.order { Err(Broken::Order { item }) } else { Ok(()) }
}

/// What one item finds.
#[derive(Clone, Default)]
struct Seen {
    /// Who wrote what it reads, and what it may leave as it was.
    writers: Vec<u32>,
    memory: u64,
    order: u64,
    walls: u64,
}

/// A number that stands for an item in sums.
fn number(item: usize) -> u64 {
    let mut bits = (item as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Keeps sums of reads and of writes apart.
const READS: u64 = 0xd6e8_feb8_6659_fd93;

/// The identity of an address' base: its form, and who wrote its registers.
type Base = (u64, Vec<(u32, u32)>);

/// Sums over the accesses so far.
#[derive(Default)]
struct Sums {
    reads: u64,
    writes: u64,
}

#[derive(Default)]
struct World<'b> {
    writers: FxHashMap<u32, u32>,
    spaces: [Sums; 4],
    bases: FxHashMap<(usize, &'b Base), Sums>,
    words: FxHashMap<(usize, &'b Base, i64), Sums>,
    accesses: u64,
    strong: u64,
    fences: u64,
    syncs: u64,
    converged: u64,
    all: u64,
    walls: u64,
}

fn replay(
    code: &Code,
    within: &Range<usize>,
    order: &[usize],
    bases: &mut [Option<Base>],
    is_first: bool,
) -> (Vec<Seen>, FxHashMap<u32, u32>) {
    if is_first {
        find_bases(code, within, bases);
    }
    let mut world = World::default();
    let mut found = vec![Seen::default(); within.len()];
    for &position in order {
        let item = &code.items[position];
        let base = bases[position - within.start].as_ref();
        found[position - within.start] = world.step(code, item, position, base);
    }
    (found, world.writers)
}

/// Bases as the old order has them; if all reads see the same writers, they are the same in the new one.
fn find_bases(code: &Code, within: &Range<usize>, bases: &mut [Option<Base>]) {
    let mut writers: FxHashMap<u32, u32> = FxHashMap::default();
    for position in within.clone() {
        let item = &code.items[position];
        if let Effect::Access(Access { address: Some(address), .. }) = item.effect {
            let written = |&register: &u32| (register, writers.get(&register).copied().unwrap_or_default());
            bases[position - within.start] = Some((address.form, code.address_registers(&address).iter().map(written).collect()));
        }
        for touch in code.writes(item) {
            writers.insert(touch.register, position as u32 + 1);
        }
    }
}

impl<'b> World<'b> {
    fn step(&mut self, code: &Code, item: &Item, position: usize, base: Option<&'b Base>) -> Seen {
        let mut seen = Seen { walls: self.walls, ..Seen::default() };
        let writer = |register: u32| self.writers.get(&register).copied().unwrap_or_default();
        seen.writers.extend(code.reads(item).iter().map(|touch| writer(touch.register)));
        if item.guarded {
            seen.writers.extend(code.writes(item).iter().map(|touch| writer(touch.register)));
        }
        let own = number(position);
        match item.effect {
            Effect::None => {}
            Effect::Access(access) => self.access(access, own, base, &mut seen),
            Effect::Clock => {
                seen.order = self.strong.wrapping_add(self.fences.rotate_left(7));
                self.strong = self.strong.wrapping_add(own);
            }
            Effect::Fence | Effect::Sync => {
                let is_sync = item.effect == Effect::Sync;
                seen.memory = self.accesses;
                seen.order = self.strong.wrapping_add(self.fences.rotate_left(7));
                self.fences = self.fences.wrapping_add(own);
                if is_sync {
                    seen.order = seen.order.wrapping_add(self.converged.rotate_left(13));
                    self.syncs = self.syncs.wrapping_add(own);
                }
            }
            Effect::Wall => {
                seen.walls = self.all;
                self.walls = self.walls.wrapping_add(own);
            }
        }
        if item.converged {
            seen.order = seen.order.wrapping_add(self.syncs.rotate_left(19));
            self.converged = self.converged.wrapping_add(own);
        }
        self.all = self.all.wrapping_add(own);
        for touch in code.writes(item) {
            self.writers.insert(touch.register, position as u32 + 1);
        }
        seen
    }

    fn access(&mut self, access: Access, own: u64, base: Option<&'b Base>, seen: &mut Seen) {
        if access.kind == AccessKind::ReadConstant {
            seen.order = self.syncs;
            return;
        }
        let writes = access.kind == AccessKind::Write;
        let words = access.address.map(|address| {
            let last = address.offset + i64::from(address.bytes) - 1;
            address.offset >> 2..=last >> 2
        });
        for (number, &space) in [Space::Global, Space::Shared, Space::Local, Space::Spill].iter().enumerate() {
            if access.space != space && (access.space != Space::Generic || space == Space::Spill) {
                continue;
            }
            // Only sums and products: what is counted twice must cancel out.
            let of_space = READS.wrapping_mul(2 * number as u64 + 1);
            let mut count = |sums: &Sums, factor: u64| {
                let met = if writes { sums.writes.wrapping_add(sums.reads.wrapping_mul(READS)) } else { sums.writes };
                seen.memory = seen.memory.wrapping_add(met.wrapping_mul(factor).wrapping_mul(of_space));
            };
            // Everything of other bases: all, less those of its own.
            count(&self.spaces[number], 1);
            let add = |sums: &mut Sums| {
                let sum = if writes { &mut sums.writes } else { &mut sums.reads };
                *sum = sum.wrapping_add(own);
            };
            add(&mut self.spaces[number]);
            if let Some((base, words)) = base.zip(words.clone()) {
                let of_base = self.bases.entry((number, base)).or_default();
                count(of_base, u64::MAX);
                add(of_base);
                for word in words {
                    let of_word = self.words.entry((number, base, word)).or_default();
                    count(of_word, (word as u64).wrapping_mul(2).wrapping_add(0x1_0000_0001));
                    add(of_word);
                }
            }
        }
        seen.order = self.fences;
        if access.strong {
            seen.order = seen.order.wrapping_add(self.strong.rotate_left(7));
            self.strong = self.strong.wrapping_add(own);
        }
        self.accesses = self.accesses.wrapping_add(own);
    }
}
