//! The registers of one warp, as arrays over its 32 threads.
//!
//! A register is a [`Row`]: one value for each lane. `RZ` is read from rows that are always zero and written to rows that nobody reads, so
//! no access asks whether a register is the constant one. Predicates are masks, one bit a lane. The uniform datapath has the same shape
//! with one value for all lanes: reading spreads it, writing takes that of the first active lane. So one implementation of an
//! operation serves both datapaths.

use super::convergence::Convergence;

/// Threads of a warp.
pub const LANES: usize = 32;

/// One bit for each thread of a warp.
pub type Mask = u32;

/// A 32-bit value of each thread.
pub type Lanes = [u32; LANES];

/// A 64-bit value of each thread.
pub type WideLanes = [u64; LANES];

/// Rows that are always zero: `RZ` and those behind it in a wide operand.
const ZERO: u16 = 0;
/// Rows that take what is written to `RZ`.
const SINK: u16 = 8;
const FIRST: u16 = 16;
/// Uniform registers, and a few behind the last for wide operands.
const UNIFORM_ROWS: usize = FIRST as usize + 256 + 8;

/// Where a register is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row(u16);

impl Row {
    /// The row to read a register from; no number is the zero register.
    pub fn source(number: Option<u16>) -> Row {
        Row(number.map_or(ZERO, |number| FIRST + number))
    }

    /// The row to write a register to.
    pub fn destination(number: Option<u16>) -> Row {
        Row(number.map_or(SINK, |number| FIRST + number))
    }

    /// The register `by` numbers further on.
    #[must_use]
    pub fn plus(self, by: u16) -> Row {
        Row(self.0 + by)
    }

    fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A register that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    General(Row),
    Uniform(Row),
}

impl Place {
    /// The register `by` numbers further on.
    #[must_use]
    pub fn plus(self, by: u16) -> Place {
        match self {
            Place::General(row) => Place::General(row.plus(by)),
            Place::Uniform(row) => Place::Uniform(row.plus(by)),
        }
    }
}

/// Where 32 bits are read from. Constants of bank `c[b][n]` are known at the launch and are immediates here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    General(Row),
    Uniform(Row),
    Immediate(u32),
}

/// Where 64 bits are read from: a pair of registers, or a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WideSource {
    General(Row),
    Uniform(Row),
    Immediate(u64),
}

/// A predicate that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PredicatePlace {
    row: u8,
    uniform: bool,
}

const TRUE_ROW: u8 = 0;
const PREDICATE_SINK: u8 = 1;
const FIRST_PREDICATE: u8 = 2;
const PREDICATE_ROWS: usize = 10;

impl PredicatePlace {
    /// No number is `PT`, which stays true.
    pub fn new(number: Option<u8>, uniform: bool) -> PredicatePlace {
        PredicatePlace { row: number.map_or(PREDICATE_SINK, |number| FIRST_PREDICATE + number), uniform }
    }
}

/// A predicate that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PredicateSource {
    row: u8,
    uniform: bool,
    not: bool,
}

impl PredicateSource {
    /// `PT`
    pub const TRUE: PredicateSource = PredicateSource { row: TRUE_ROW, uniform: false, not: false };

    /// No number is `PT`.
    pub fn new(number: Option<u8>, uniform: bool, not: bool) -> PredicateSource {
        PredicateSource { row: number.map_or(TRUE_ROW, |number| FIRST_PREDICATE + number), uniform, not }
    }

    /// Whether it is true for every thread, whatever registers hold.
    pub fn is_always(self) -> bool {
        self.row == TRUE_ROW && !self.not
    }
}

/// Registers, local memory and identity of a warp.
#[derive(Clone, Debug)]
pub struct Warp {
    general: Vec<Lanes>,
    uniform: Vec<u32>,
    predicates: [Mask; PREDICATE_ROWS],
    uniform_predicates: [Mask; PREDICATE_ROWS],
    /// Convergence barriers.
    pub barriers: Convergence,
    /// What the last reduction at a barrier of the block gave.
    pub barrier_result: u32,
    /// Who its threads are.
    pub identity: Identity,
    /// Local memory, thread after thread.
    pub local: Vec<u8>,
}

/// Who the threads of a warp are.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    /// Number of the warp in its block.
    pub warp: u32,
    /// `%ctaid`
    pub block: [u32; 3],
    /// Index of its block among those that are resident.
    pub slot: usize,
    /// `%tid`: x, y, z of each thread.
    pub thread: [Lanes; 3],
    /// Threads that exist.
    pub threads: Mask,
}

impl Warp {
    /// A warp whose registers hold what no program should rely on.
    pub fn new(registers: u16, identity: Identity) -> Warp {
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
            identity,
            local: Vec::new(),
        }
    }

    #[inline]
    pub fn read(&self, source: Source) -> Lanes {
        match source {
            Source::General(row) => self.general[row.index()],
            Source::Uniform(row) => [self.uniform[row.index()]; LANES],
            Source::Immediate(value) => [value; LANES],
        }
    }

    #[inline]
    pub fn read_wide(&self, source: WideSource) -> WideLanes {
        match source {
            WideSource::General(row) => {
                let (low, high) = (&self.general[row.index()], &self.general[row.index() + 1]);
                std::array::from_fn(|lane| u64::from(low[lane]) | u64::from(high[lane]) << 32)
            }
            WideSource::Uniform(row) => [u64::from(self.uniform[row.index()]) | u64::from(self.uniform[row.index() + 1]) << 32; LANES],
            WideSource::Immediate(value) => [value; LANES],
        }
    }

    /// The row of a general register as it is.
    #[inline]
    pub fn row(&self, row: Row) -> &Lanes {
        &self.general[row.index()]
    }

    /// A uniform register.
    #[inline]
    pub fn uniform(&self, row: Row) -> u32 {
        self.uniform[row.index()]
    }

    /// Two uniform registers.
    #[inline]
    pub fn uniform_wide(&self, row: Row) -> u64 {
        u64::from(self.uniform[row.index()]) | u64::from(self.uniform[row.index() + 1]) << 32
    }

    /// Writes the values of the threads in `mask`, which is not empty.
    #[inline]
    pub fn write(&mut self, place: Place, mask: Mask, values: &Lanes) {
        match place {
            Place::General(row) => {
                let row = &mut self.general[row.index()];
                if mask == !0 {
                    *row = *values;
                } else {
                    for lane in 0..LANES {
                        row[lane] = if mask >> lane & 1 == 1 { values[lane] } else { row[lane] };
                    }
                }
            }
            Place::Uniform(row) => self.uniform[row.index()] = values[first(mask)],
        }
    }

    /// Writes pairs of registers.
    #[inline]
    pub fn write_wide(&mut self, place: Place, mask: Mask, values: &WideLanes) {
        self.write(place, mask, &values.map(|value| value as u32));
        self.write(place.plus(1), mask, &values.map(|value| (value >> 32) as u32));
    }

    /// One thread's general register.
    #[inline]
    pub fn write_lane(&mut self, row: Row, lane: usize, value: u32) {
        self.general[row.index()][lane] = value;
    }

    #[inline]
    pub fn read_predicate(&self, source: PredicateSource) -> Mask {
        let file = if source.uniform { &self.uniform_predicates } else { &self.predicates };
        let value = file[usize::from(source.row)];
        if source.not { !value } else { value }
    }

    /// Writes the bits of the threads in `mask`, which is not empty.
    #[inline]
    pub fn write_predicate(&mut self, place: PredicatePlace, mask: Mask, values: Mask) {
        if place.uniform {
            self.uniform_predicates[usize::from(place.row)] = if values >> first(mask) & 1 == 1 { !0 } else { 0 };
        } else {
            let row = &mut self.predicates[usize::from(place.row)];
            *row = *row & !mask | values & mask;
        }
    }
}

/// What registers hold at the start.
pub const GARBAGE: u32 = 0xdead_beef;

/// The first thread of a mask.
#[inline]
pub fn first(mask: Mask) -> usize {
    mask.trailing_zeros() as usize & (LANES - 1)
}

/// The threads of a mask, in ascending order.
pub fn lanes_of(mask: Mask) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        let lane = (rest != 0).then(|| rest.trailing_zeros() as usize);
        rest &= rest.wrapping_sub(1);
        lane
    })
}
