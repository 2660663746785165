//! The registers of one warp, stored as arrays over its 32 threads (lanes).
//!
//! A register is a [`Row`]: one value per lane. Reads of `RZ` use rows that are always zero, and writes to `RZ` go to rows that are never
//! read, so that no access needs a test for `RZ`. Predicates are masks, one bit per lane. A uniform register holds one value for all lanes:
//! a read broadcasts it, a write stores the value of the first active lane. So one implementation of an operation serves both datapaths.

use std::sync::Arc;

use super::convergence::Convergence;

/// Number of threads in a warp.
pub const LANES: usize = 32;

/// One bit for each thread of a warp.
pub type Mask = u32;

/// A 32-bit value per thread.
pub type Lanes = [u32; LANES];

/// A 64-bit value per thread.
pub type WideLanes = [u64; LANES];

/// First of the rows that are always zero: `RZ`, and the upper registers of a wide `RZ` operand.
const ZERO: u16 = 0;
/// First of the rows that absorb writes to `RZ`.
const SINK: u16 = 8;
/// Row of register 0.
const FIRST: u16 = 16;
/// Number of uniform rows; a few after the last register absorb wide operands.
const UNIFORM_ROWS: usize = FIRST as usize + 256 + 8;

/// Index of the storage of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row(u16);

impl Row {
    /// Returns the row from which a register is read; `None` is the zero register.
    pub fn source(number: Option<u16>) -> Row {
        Row(number.map_or(ZERO, |number| FIRST + number))
    }

    /// Returns the row to which a register is written; `None` is the zero register.
    pub fn destination(number: Option<u16>) -> Row {
        Row(number.map_or(SINK, |number| FIRST + number))
    }

    /// Returns the row of the register whose number is higher by `by`.
    #[must_use]
    pub fn plus(self, by: u16) -> Row {
        Row(self.0 + by)
    }

    fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A destination register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    General(Row),
    Uniform(Row),
}

impl Destination {
    /// Returns the register whose number is higher by `by`.
    #[must_use]
    pub fn plus(self, by: u16) -> Destination {
        match self {
            Destination::General(row) => Destination::General(row.plus(by)),
            Destination::Uniform(row) => Destination::Uniform(row.plus(by)),
        }
    }
}

/// A 32-bit source operand. Constants `c[b][n]` are known at launch and are immediates here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    General(Row),
    Uniform(Row),
    Immediate(u32),
}

/// A 64-bit source operand: a register pair or an immediate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WideSource {
    General(Row),
    Uniform(Row),
    Immediate(u64),
}

/// A destination predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PredicateDestination {
    row: u8,
    uniform: bool,
}

/// Predicate row that is always true: `PT`.
const TRUE_ROW: u8 = 0;
/// Predicate row that absorbs writes to `PT`.
const PREDICATE_SINK: u8 = 1;
const FIRST_PREDICATE: u8 = 2;
const PREDICATE_ROWS: usize = 10;

impl PredicateDestination {
    /// Makes the destination; `None` is `PT`, which stays true.
    pub fn new(number: Option<u8>, uniform: bool) -> PredicateDestination {
        PredicateDestination { row: number.map_or(PREDICATE_SINK, |number| FIRST_PREDICATE + number), uniform }
    }
}

/// A source predicate, possibly negated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PredicateSource {
    row: u8,
    uniform: bool,
    not: bool,
}

impl PredicateSource {
    /// `PT`
    pub(crate) const TRUE: PredicateSource = PredicateSource { row: TRUE_ROW, uniform: false, not: false };

    /// Makes the source; `None` is `PT`.
    pub fn new(number: Option<u8>, uniform: bool, not: bool) -> PredicateSource {
        PredicateSource { row: number.map_or(TRUE_ROW, |number| FIRST_PREDICATE + number), uniform, not }
    }

    /// Returns whether it is the constant true.
    pub fn is_always(self) -> bool {
        self.row == TRUE_ROW && !self.not
    }
}

/// The state of one warp: registers, convergence barriers, local memory and identity.
#[derive(Clone, Debug)]
pub struct Warp {
    general: Vec<Lanes>,
    uniform: Vec<u32>,
    predicates: [Mask; PREDICATE_ROWS],
    uniform_predicates: [Mask; PREDICATE_ROWS],
    /// Convergence barriers.
    pub barriers: Convergence,
    /// Result of the last reduction at a block barrier.
    pub barrier_result: u32,
    /// Number of general registers that the warp has at present.
    pub register_count: u16,
    /// The indices of its threads.
    pub identity: ThreadIndices,
    /// Local memory, one thread after another; empty until the first access.
    pub local: Vec<u8>,
}

/// The indices of the threads of a warp.
#[derive(Clone, Debug, Default)]
pub struct ThreadIndices {
    /// Index of the warp in its block.
    pub warp: u32,
    /// `%ctaid`
    pub block: [u32; 3],
    /// Index of its block among the resident blocks, which selects the shared memory.
    pub slot: usize,
    /// Rank of the block in its cluster.
    pub rank: u32,
    /// The slots of the blocks of the cluster, by rank.
    pub cluster_slots: Arc<[usize]>,
    /// `%tid`: x, y, z of each thread.
    pub thread: [Lanes; 3],
    /// Threads that exist; the last warp of a block may be partial.
    pub threads: Mask,
}

impl Warp {
    /// Makes a warp whose registers hold garbage, to expose reads of uninitialized registers. `registers` is the largest number that the warp
    /// can have; it starts with all of them.
    pub fn new(registers: u16, identity: ThreadIndices) -> Warp {
        let mut general = vec![[GARBAGE; LANES]; usize::from(FIRST + registers)];
        general[usize::from(ZERO)..usize::from(SINK)].fill([0; LANES]);
        let mut uniform = vec![GARBAGE; UNIFORM_ROWS];
        uniform[usize::from(ZERO)..usize::from(SINK)].fill(0);
        let mut predicates = [0; PREDICATE_ROWS];
        predicates[usize::from(TRUE_ROW)] = !0;
        Warp {
            general,
            uniform,
            predicates,
            uniform_predicates: predicates,
            barriers: Convergence::default(),
            barrier_result: 0,
            register_count: registers,
            identity,
            local: Vec::new(),
        }
    }

    /// Sets the number of general registers. Registers that the warp loses or gets hold garbage.
    pub fn set_register_count(&mut self, count: u16) {
        let changed = self.register_count.min(count)..self.register_count.max(count);
        for row in changed.map(|number| FIRST + number).map(usize::from) {
            self.general[row] = [GARBAGE; LANES];
        }
        self.register_count = count;
    }

    /// Returns the 32-bit value of each thread.
    #[inline]
    pub fn read(&self, source: Source) -> Lanes {
        match source {
            Source::General(row) => self.general[row.index()],
            Source::Uniform(row) => [self.uniform[row.index()]; LANES],
            Source::Immediate(value) => [value; LANES],
        }
    }

    /// Returns the 64-bit value of each thread.
    #[inline]
    pub(crate) fn read_wide(&self, source: WideSource) -> WideLanes {
        match source {
            WideSource::General(row) => {
                let (low, high) = (&self.general[row.index()], &self.general[row.index() + 1]);
                std::array::from_fn(|lane| u64::from(low[lane]) | u64::from(high[lane]) << 32)
            }
            WideSource::Uniform(row) => [u64::from(self.uniform[row.index()]) | u64::from(self.uniform[row.index() + 1]) << 32; LANES],
            WideSource::Immediate(value) => [value; LANES],
        }
    }

    /// Returns the values of a general register.
    #[inline]
    pub fn row(&self, row: Row) -> &Lanes {
        &self.general[row.index()]
    }

    /// Returns the value of a uniform register.
    #[inline]
    pub fn uniform(&self, row: Row) -> u32 {
        self.uniform[row.index()]
    }

    /// Returns the 64-bit value of a pair of uniform registers.
    #[inline]
    pub(crate) fn uniform_wide(&self, row: Row) -> u64 {
        u64::from(self.uniform[row.index()]) | u64::from(self.uniform[row.index() + 1]) << 32
    }

    /// Writes the values of the threads in `mask`, which must not be empty.
    #[inline]
    pub fn write(&mut self, place: Destination, mask: Mask, values: &Lanes) {
        match place {
            Destination::General(row) => {
                let row = &mut self.general[row.index()];
                if mask == !0 {
                    *row = *values;
                } else {
                    for lane in 0..LANES {
                        row[lane] = if mask >> lane & 1 == 1 { values[lane] } else { row[lane] };
                    }
                }
            }
            Destination::Uniform(row) => self.uniform[row.index()] = values[first(mask)],
        }
    }

    /// Writes 64-bit values to a register pair.
    #[inline]
    pub(crate) fn write_wide(&mut self, place: Destination, mask: Mask, values: &WideLanes) {
        self.write(place, mask, &values.map(|value| value as u32));
        self.write(place.plus(1), mask, &values.map(|value| (value >> 32) as u32));
    }

    /// Writes a general register of one thread.
    #[inline]
    pub(crate) fn write_lane(&mut self, row: Row, lane: usize, value: u32) {
        self.general[row.index()][lane] = value;
    }

    /// Returns the mask of threads for which the predicate is true.
    #[inline]
    pub fn read_predicate(&self, source: PredicateSource) -> Mask {
        let file = if source.uniform { &self.uniform_predicates } else { &self.predicates };
        let value = file[usize::from(source.row)];
        if source.not { !value } else { value }
    }

    /// Writes the predicate of the threads in `mask`, which must not be empty.
    #[inline]
    pub(crate) fn write_predicate(&mut self, place: PredicateDestination, mask: Mask, values: Mask) {
        if place.uniform {
            self.uniform_predicates[usize::from(place.row)] = if values >> first(mask) & 1 == 1 { !0 } else { 0 };
        } else {
            let row = &mut self.predicates[usize::from(place.row)];
            *row = *row & !mask | values & mask;
        }
    }
}

/// Initial value of registers.
pub(crate) const GARBAGE: u32 = 0xdead_beef;

/// Returns the lowest thread of a mask.
#[inline]
pub fn first(mask: Mask) -> usize {
    mask.trailing_zeros() as usize & (LANES - 1)
}

/// Returns the threads of a mask in ascending order.
pub fn lanes_of(mask: Mask) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        let lane = (rest != 0).then(|| rest.trailing_zeros() as usize);
        rest &= rest.wrapping_sub(1);
        lane
    })
}
