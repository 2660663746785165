//! A module made ready to run: flat code with dense register numbers.
//!
//! Every function is decoded once into [`Op`]s, one after the other in one vector, so a program counter is one number. What an
//! instruction computes is a closure around functions of `oriole-sem`, chosen when it is decoded; names, types and modifiers are gone.
//! An operand is a register of the frame or an entry of the [pool](Program::pool) of constants, which also holds the addresses of
//! variables and is completed when a program is loaded.

use oriole_sem::{Format, Int, Mode};
use rustc_hash::FxHashMap;

use super::finding::Error;

/// A register of a frame. A 128-bit register takes two, a vector register one or two for each element.
pub(crate) type Slot = u32;

/// The carry flag, which `add.cc` writes and `addc` reads.
pub(crate) const CARRY: Slot = 0;
/// Takes results that nobody wants (`_`).
pub(crate) const SINK: Slot = 1;
/// Values that live inside of one PTX instruction.
pub(crate) const FIRST_TEMPORARY: Slot = 2;
pub(crate) const FIRST_REGISTER: Slot = 66;

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Source(u32);

const IN_POOL: u32 = 1 << 31;

impl Source {
    pub(crate) fn register(slot: Slot) -> Source {
        Source(slot)
    }

    pub(crate) fn pool(index: u32) -> Source {
        Source(index | IN_POOL)
    }

    /// The register, or the entry of the pool.
    #[inline]
    pub(crate) fn place(self) -> Result<Slot, usize> {
        if self.0 & IN_POOL == 0 { Ok(self.0) } else { Err((self.0 & !IN_POOL) as usize) }
    }
}

pub(crate) type Function1 = Box<dyn Fn(u64) -> u64 + Send + Sync>;
pub(crate) type Function2 = Box<dyn Fn(u64, u64) -> u64 + Send + Sync>;
pub(crate) type Function3 = Box<dyn Fn(u64, u64, u64) -> u64 + Send + Sync>;
pub(crate) type FunctionN = Box<dyn Fn(&[u64; 5]) -> [u64; 2] + Send + Sync>;

/// What an instruction without side effects computes.
pub(crate) enum Pure {
    One(Function1),
    Two(Function2),
    Three(Function3),
    /// Up to five operands and two results.
    Many(FunctionN, Slot),
}

/// How undefined bits of the operands reach the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taint {
    /// Any undefined bit makes the whole result undefined.
    Whole,
    /// Bit by bit: copies and `xor`.
    Bits,
    /// Bit by bit, but a defined zero in the other operand decides.
    And,
    /// Bit by bit, but a defined one in the other operand decides.
    Or,
    /// The function applied to the undefined bits of its first operand, the others being defined: shifts, extractions.
    Follow,
    /// `selp`: that of the operand that is chosen, if the choice is defined.
    Select,
}

/// `@p` or `@!p`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guard {
    pub(crate) slot: Slot,
    pub(crate) negated: bool,
}

pub(crate) struct Op {
    pub(crate) guard: Option<Guard>,
    pub(crate) line: u32,
    pub(crate) action: Action,
}

/// What an instruction does.
pub(crate) enum Action {
    Compute {
        destination: Slot,
        sources: [Source; 5],
        function: Pure,
        taint: Taint,
    },
    /// The value of a special register.
    Special {
        destination: Slot,
        register: Special,
    },
    /// The address of a variable in the thread's frame.
    FrameAddress {
        destination: Slot,
        offset: u32,
    },
    Load(Box<Load>),
    Store(Box<Store>),
    Atomic(Box<Atomic>),
    Matrix(Box<Matrix>),
    Mma(Box<Mma>),
    CopyAsync(Box<CopyAsync>),
    /// Makes a group of the copies so far.
    CommitCopies,
    /// Waits for all groups but the last, and perhaps for copies that are in no group.
    WaitCopies {
        all_but: u32,
        uncommitted: bool,
    },
    /// Prefetches and the like: nothing but an address, which is not even checked.
    Nothing,
    /// Orders memory; matters to the race checker only.
    Fence,
    /// Lets other threads run.
    Yield,
    Branch {
        target: u32,
    },
    BranchIndexed {
        index: Source,
        targets: Box<[u32]>,
    },
    Call(Box<Call>),
    /// The end of the function with this number.
    Return {
        function: u32,
    },
    Exit,
    Trap,
    Barrier(Box<Barrier>),
    /// An operation of several threads of a warp, which wait for each other.
    Together(Box<Together>),
    /// The threads that are executing together now.
    ActiveMask {
        destination: Slot,
    },
    Alloca {
        destination: Slot,
        size: Source,
        align: u32,
    },
    StackSave {
        destination: Slot,
    },
    StackRestore {
        source: Source,
    },
}

/// The space of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Generic,
    Global,
    Shared,
    Local,
    Constant,
    /// Parameters of the kernel.
    Parameter,
}

/// An address: a value, a number, and perhaps the start of the thread's frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    pub(crate) space: Space,
    pub(crate) base: Source,
    pub(crate) offset: i64,
    pub(crate) in_frame: bool,
}

/// How an access takes part in synchronization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Ordering {
    /// Relaxed, volatile, acquire, release, atomic: never races with another one of these.
    pub(crate) strong: bool,
    pub(crate) acquire: bool,
    pub(crate) release: bool,
}

pub(crate) struct Load {
    pub(crate) address: Address,
    pub(crate) element_bytes: u8,
    /// Elements are extended with their sign to this many bits; zero for extension with zeros.
    pub(crate) sign_bits: u8,
    /// Where the elements go, none for `_`. A 128-bit element takes the next register too.
    pub(crate) destinations: Box<[Option<Slot>]>,
    pub(crate) ordering: Ordering,
}

pub(crate) struct Store {
    pub(crate) address: Address,
    pub(crate) element_bytes: u8,
    /// The low halves, or all; none for `_`, which leaves memory as it is.
    pub(crate) values: Box<[Option<Source>]>,
    /// The upper halves of 128-bit elements.
    pub(crate) upper: Box<[Source]>,
    pub(crate) ordering: Ordering,
}

/// The new contents of memory, from the old contents and the operands.
pub(crate) type Update = Box<dyn Fn(u128, u128, u128) -> u128 + Send + Sync>;

pub(crate) struct Atomic {
    pub(crate) address: Address,
    pub(crate) element_bytes: u8,
    pub(crate) destinations: Box<[Option<Slot>]>,
    /// For each element one or two operands, in halves.
    pub(crate) operands: Box<[[[Source; 2]; 2]]>,
    pub(crate) update: Update,
    /// What happens in global memory instead, where that differs.
    pub(crate) update_global: Option<Update>,
    pub(crate) ordering: Ordering,
}

/// `ldmatrix`, `stmatrix`, `movmatrix`
pub(crate) struct Matrix {
    pub(crate) kind: MatrixKind,
    pub(crate) transposed: bool,
    pub(crate) address: Address,
    pub(crate) registers: Box<[Source]>,
    pub(crate) destinations: Box<[Slot]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MatrixKind {
    Load,
    Store,
    Move,
}

/// `cp.async`
pub(crate) struct CopyAsync {
    pub(crate) to: Address,
    pub(crate) from: Address,
    pub(crate) bytes: u8,
    /// How many bytes are read; the rest is zero.
    pub(crate) source_bytes: Option<Source>,
    /// A predicate that makes all of them zero.
    pub(crate) ignored: Option<Source>,
}

/// `mma.sync`
pub(crate) struct Mma {
    /// Rows of A, and how long they are. B has eight columns.
    pub(crate) rows: usize,
    pub(crate) depth: usize,
    pub(crate) a: Element,
    pub(crate) b: Element,
    pub(crate) accumulator: Accumulator,
    pub(crate) a_registers: Box<[Source]>,
    pub(crate) b_registers: Box<[Source]>,
    pub(crate) c_registers: Box<[Source]>,
    pub(crate) destinations: Box<[Slot]>,
}

/// An element of a matrix that is multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    /// Takes some bits of a register, the lowest of which are not used.
    Float {
        format: Format,
        bits: u32,
        unused: u32,
    },
    Int(Int),
    Bit,
}

/// How products are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accumulator {
    Half,
    Single,
    Double(Mode),
    Integer { clamps: bool },
    Bits { and: bool },
}

/// A parameter of a call, as the caller or the callee sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Passed {
    /// In the frame, from an offset.
    Frame { offset: u32, bytes: u32 },
    /// Registers in a row, each with some bytes.
    Registers { first: Slot, count: u8, bytes: u8 },
    /// A constant.
    Value { source: Source, bytes: u8 },
    /// `_`
    Nothing,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Callee {
    Function(u32),
    Indirect(Source),
}

pub(crate) struct Call {
    pub(crate) callee: Callee,
    pub(crate) arguments: Box<[Passed]>,
    pub(crate) results: Box<[Passed]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BarrierKind {
    Sync,
    Arrive,
    Count,
    All,
    Any,
}

pub(crate) struct Barrier {
    pub(crate) kind: BarrierKind,
    pub(crate) number: Source,
    pub(crate) threads: Option<Source>,
    pub(crate) predicate: Option<Source>,
    pub(crate) destination: Slot,
    /// All threads of a warp must execute the same one.
    pub(crate) aligned: bool,
}

/// An operation that the threads of a mask do together.
pub(crate) struct Together {
    pub(crate) kind: TogetherKind,
    /// None for the forms without `.sync`, which work on the threads that are executing together.
    pub(crate) mask: Option<Source>,
    pub(crate) sources: [Source; 3],
    pub(crate) destinations: [Slot; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TogetherKind {
    Barrier,
    Shuffle(oriole_sem::warp::Shuffle),
    VoteAll,
    VoteAny,
    VoteUni,
    Ballot,
    MatchAny,
    MatchAll,
    Reduce(Reduction),
    Elect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reduction {
    Add,
    And,
    Or,
    Xor,
    Min { signed: bool },
    Max { signed: bool },
    Float { is_max: bool, absolute: bool, nan: bool },
}

/// A special register that a run knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    Zero,
    One,
    Thread(u8),
    BlockSize(u8),
    Block(u8),
    GridSize(u8),
    Lane,
    Warp,
    Warps,
    LanesEqual,
    LanesBelow,
    LanesUpTo,
    LanesAbove,
    LanesFrom,
    Clock,
    ClockHigh,
    TotalShared,
    DynamicShared,
    ClusterSize(u8),
    ClusterBlock(u8),
    Cluster(u8),
    Clusters(u8),
    ClusterRank,
    ClusterBlocks,
    IsExplicitCluster,
}

/// A function's code and frame.
pub(crate) struct FunctionCode {
    pub(crate) name: String,
    pub(crate) entry: u32,
    /// One past its last instruction.
    pub(crate) end: u32,
    pub(crate) registers: u32,
    pub(crate) frame_bytes: u32,
    pub(crate) frame_align: u32,
    pub(crate) parameters: Box<[Passed]>,
    pub(crate) results: Box<[Passed]>,
    /// Of a kernel: where its parameters are, and how many bytes each has.
    pub(crate) kernel: Option<Kernel>,
}

pub(crate) struct Kernel {
    pub(crate) parameters: Vec<(u32, u32)>,
    pub(crate) parameter_bytes: u32,
    /// Blocks in a cluster.
    pub(crate) cluster: Option<[u32; 3]>,
    /// The only size of a block that it can be launched with, and the most threads of one.
    pub(crate) required_block: Option<[u32; 3]>,
    pub(crate) most_threads: Option<u64>,
}

/// A function that the driver provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Builtin {
    Print,
    Allocate,
    Free,
    AssertFail,
}

/// What a called function is.
pub(crate) enum Target {
    Code(FunctionCode),
    Builtin(Builtin),
    /// Declared and never defined.
    Missing(String),
    /// Has something that the interpreter does not support.
    Refused {
        name: String,
        error: Error,
    },
}

/// A PTX module, decoded.
pub struct Program {
    pub(crate) code: Vec<Op>,
    pub(crate) functions: Vec<Target>,
    /// Constants; the addresses in it that are not known yet are zero.
    pub(crate) pool: Vec<u64>,
    /// Entries of the pool that are addresses of global variables: entry, variable, offset.
    pub(crate) global_addresses: Vec<(u32, u32, i64)>,
    pub(crate) variables: super::variables::Variables,
    pub(crate) kernels: FxHashMap<String, u32>,
}

/// Where functions seem to be in memory.
pub(crate) const FUNCTION_BASE: u64 = 0x0040_0000_0000;
pub(crate) const FUNCTION_SPACING: u64 = 0x10;

/// The generic address of what is at an offset in shared memory, and so on.
pub(crate) const SHARED_WINDOW: u64 = 0x0100_0000_0000;
pub(crate) const LOCAL_WINDOW: u64 = 0x0200_0000_0000;
pub(crate) const CONSTANT_WINDOW: u64 = 0x0300_0000_0000;
pub(crate) const PARAMETER_WINDOW: u64 = 0x0400_0000_0000;
/// How large each of these windows is.
pub(crate) const WINDOW_BYTES: u64 = 0x0001_0000_0000;
