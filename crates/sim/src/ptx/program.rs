//! The executable form of a module: flat code with dense register numbers.
//!
//! Every function is decoded once into [`PtxOp`]s in one vector, so a program counter is one index. The operation of an instruction is a
//! closure over functions of `oriole-sem`, chosen at decoding; names, types and modifiers are resolved. An operand is a register of the
//! frame or an entry of the [pool](Program::pool) of constants. The pool also holds addresses of global variables, which are filled in when
//! a program is loaded.

mod matrix;

use rustc_hash::FxHashMap;

use super::finding::PtxError;
use crate::image::{OutsideAccess, SurfaceReduction, SurfaceUnit};
use crate::sampling::Geometry;
use crate::tensor_map::{MapField, ReductionOperation};

pub(crate) use matrix::{
    AccumulatorType, Element, FragmentMove, GroupMatrix, GroupProduct, MatrixKind, MatrixRole, MatrixTransfer, Mma, PtxSparsity, QuadMma,
    WmmaFragment,
};

/// Index of a register in a frame. A 128-bit register occupies two, a vector register one or two per element.
pub(crate) type RegisterSlot = u32;

/// The carry flag, which `add.cc` writes and `addc` reads.
pub(crate) const CARRY: RegisterSlot = 0;
/// Receives unused results (`_`).
pub(crate) const SINK: RegisterSlot = 1;
/// First of the temporaries, which live within one PTX instruction.
pub(crate) const FIRST_TEMPORARY: RegisterSlot = 2;
/// First slot of the program's own registers.
pub(crate) const FIRST_REGISTER: RegisterSlot = 66;

/// A source operand: a register, or an entry of the constant pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PtxSource(u32);

/// Tag bit of pool entries.
const IN_POOL: u32 = 1 << 31;

impl PtxSource {
    pub(crate) fn register(slot: RegisterSlot) -> PtxSource {
        PtxSource(slot)
    }

    pub(crate) fn pool(index: u32) -> PtxSource {
        PtxSource(index | IN_POOL)
    }

    /// Returns the register as `Ok`, or the pool index as `Err`.
    #[inline]
    pub(crate) fn place(self) -> Result<RegisterSlot, usize> {
        if self.0 & IN_POOL == 0 { Ok(self.0) } else { Err((self.0 & !IN_POOL) as usize) }
    }
}

pub(crate) type Function1 = Box<dyn Fn(u64) -> u64 + Send + Sync>;
pub(crate) type Function2 = Box<dyn Fn(u64, u64) -> u64 + Send + Sync>;
pub(crate) type Function3 = Box<dyn Fn(u64, u64, u64) -> u64 + Send + Sync>;
pub(crate) type FunctionN = Box<dyn Fn(&[u64; 5]) -> [u64; 2] + Send + Sync>;

/// The function an instruction without side effects computes.
pub(crate) enum Pure {
    One(Function1),
    Two(Function2),
    Three(Function3),
    /// Up to five operands and two results; the field is the slot of the second result.
    Many(FunctionN, RegisterSlot),
}

/// How undefined bits of the operands propagate to the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taint {
    /// Any undefined bit makes the whole result undefined.
    Whole,
    /// Bit by bit: copies, `xor` and `not`.
    Bits,
    /// Bit by bit, but a defined zero in the other operand makes the result bit defined.
    And,
    /// Bit by bit, but a defined one in the other operand makes the result bit defined.
    Or,
    /// The function itself maps undefined bits of the first operand to those of the result, if the others are defined: shifts, extractions.
    Follow,
    /// `selp`: the undefined bits of the selected operand, if the selector is defined.
    Select,
}

/// The guard predicate of an instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GuardPredicate {
    pub(crate) slot: RegisterSlot,
    pub(crate) negated: bool,
}

/// A decoded instruction.
pub(crate) struct PtxOp {
    pub(crate) guard: Option<GuardPredicate>,
    /// Line in the PTX text, from 1.
    pub(crate) line: u32,
    pub(crate) action: PtxAction,
}

/// The effect of an instruction.
pub(crate) enum PtxAction {
    /// Computes registers from registers.
    Compute {
        destination: RegisterSlot,
        sources: [PtxSource; 5],
        function: Pure,
        taint: Taint,
    },
    /// Reads a special register.
    Special {
        destination: RegisterSlot,
        register: PtxSpecialRegister,
    },
    /// Computes the address of a variable in the thread's frame (local memory).
    FrameAddress {
        destination: RegisterSlot,
        offset: u32,
    },
    Load(Box<Load>),
    Store(Box<Store>),
    Atomic(Box<PtxAtomic>),
    /// Reads or writes a texture or surface.
    Image(Box<ImageAccess>),
    Matrix(Box<MatrixTransfer>),
    /// Moves a matrix of `wmma` between memory and registers.
    Fragment(Box<FragmentMove>),
    Mma(Box<[Mma]>),
    QuadMma(Box<QuadMma>),
    GroupProduct(Box<GroupProduct>),
    CopyAsync(Box<CopyAsync>),
    /// Makes a group of the asynchronous copies so far.
    CommitCopies,
    /// Waits for all groups except the last `all_but` ones, and with `uncommitted` also for copies that are in no group.
    WaitCopies {
        all_but: u32,
        uncommitted: bool,
    },
    Mbarrier(Box<PtxMbarrier>),
    Bulk(Box<Bulk>),
    StoreAsync(Box<StoreAsync>),
    TensorCopy(Box<TensorCopy>),
    ClusterBarrier(PtxClusterBarrier),
    /// Makes a group of the bulk copies so far.
    CommitBulk,
    /// Waits for all groups of bulk copies except the last `all_but` ones, or only until they have read their sources.
    WaitBulk {
        all_but: u32,
        only_reads: bool,
    },
    /// Makes a group of the matrix products of a warpgroup so far.
    CommitProducts,
    /// Waits for all groups of matrix products except the last `all_but` ones.
    WaitProducts {
        all_but: u32,
    },
    ReplaceMapField(Box<ReplaceMapField>),
    CopyMap(Box<CopyMap>),
    /// Prefetches and similar hints; the address is not even checked.
    Nothing,
    /// Orders memory, or makes stores visible to asynchronous operations; only the race checker uses it.
    Fence {
        is_for_async: bool,
    },
    /// Lets other threads run (`nanosleep`).
    Yield,
    /// Jumps to the instruction with this index.
    Branch {
        target: u32,
    },
    /// Jumps to the target selected by `index` (`brx.idx`).
    BranchIndexed {
        index: PtxSource,
        targets: Box<[u32]>,
    },
    Call(Box<PtxCall>),
    /// Returns from the function with this index.
    Return {
        function: u32,
    },
    /// Ends the thread.
    Exit,
    Trap,
    Barrier(Box<BarrierArrival>),
    /// A warp-synchronous operation: the threads of a mask wait for each other.
    Together(Box<WarpSyncOperation>),
    /// Returns the mask of threads that currently execute together.
    ActiveMask {
        destination: RegisterSlot,
    },
    /// Allocates stack memory.
    Alloca {
        destination: RegisterSlot,
        size: PtxSource,
        align: u32,
    },
    StackSave {
        destination: RegisterSlot,
    },
    StackRestore {
        source: PtxSource,
    },
}

impl PtxAction {
    /// Returns whether an instruction starts asynchronous accesses to memory.
    pub(crate) fn is_asynchronous(&self) -> bool {
        matches!(
            self,
            PtxAction::CopyAsync(_) | PtxAction::Bulk(_) | PtxAction::StoreAsync(_) | PtxAction::TensorCopy(_) | PtxAction::GroupProduct(_)
        )
    }
}

/// `tensormap.replace`
pub(crate) struct ReplaceMapField {
    pub(crate) map: PtxAddress,
    pub(crate) field: MapField,
    pub(crate) value: PtxSource,
}

/// `tensormap.cp_fenceproxy`
pub(crate) struct CopyMap {
    pub(crate) to: PtxAddress,
    pub(crate) from: PtxAddress,
}

/// The memory space of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PtxSpace {
    Generic,
    Global,
    /// The shared memory of the block.
    Shared,
    /// The shared memories of all blocks of the cluster.
    SharedCluster,
    Local,
    Constant,
    /// Kernel parameters.
    Parameter,
}

/// An address: a source value plus a constant, plus the start of the thread's frame if `in_frame`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PtxAddress {
    pub(crate) space: PtxSpace,
    pub(crate) base: PtxSource,
    pub(crate) offset: i64,
    pub(crate) in_frame: bool,
}

/// The memory-ordering semantics of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Ordering {
    /// Relaxed, volatile, acquire, release or atomic: two strong accesses never race with each other.
    pub(crate) strong: bool,
    pub(crate) acquire: bool,
    pub(crate) release: bool,
}

/// A load of one or more elements.
pub(crate) struct Load {
    pub(crate) address: PtxAddress,
    pub(crate) element_bytes: u8,
    /// Bits to which elements are sign-extended; 0 for zero extension.
    pub(crate) sign_bits: u8,
    /// Destination of each element; `None` for `_`. A 128-bit element also fills the next register.
    pub(crate) destinations: Box<[Option<RegisterSlot>]>,
    pub(crate) ordering: Ordering,
}

/// A store of one or more elements.
pub(crate) struct Store {
    pub(crate) address: PtxAddress,
    pub(crate) element_bytes: u8,
    /// Value of each element, or its lower half if it has 128 bits; `None` for `_`, which leaves memory unchanged.
    pub(crate) values: Box<[Option<PtxSource>]>,
    /// Upper half of each 128-bit element.
    pub(crate) upper: Box<[PtxSource]>,
    pub(crate) ordering: Ordering,
}

/// Computes the new contents of memory from the old contents and the operands.
pub(crate) type Update = Box<dyn Fn(u128, u128, u128) -> u128 + Send + Sync>;

/// An atomic operation on one or more elements.
pub(crate) struct PtxAtomic {
    pub(crate) address: PtxAddress,
    pub(crate) element_bytes: u8,
    pub(crate) destinations: Box<[Option<RegisterSlot>]>,
    /// For each element two operands (the second for compare-and-swap), each as lower and upper half.
    pub(crate) operands: Box<[[[PtxSource; 2]; 2]]>,
    pub(crate) update: Update,
    /// The update in global memory, if it differs there.
    pub(crate) update_global: Option<Update>,
    pub(crate) ordering: Ordering,
}

/// A texture, sampler or surface that an instruction names.
pub(crate) enum ImageHandle {
    Register(PtxSource),
    /// A variable of type `.texref`, `.samplerref` or `.surfref`, by its name.
    Reference(Box<str>),
}

impl ImageHandle {
    /// Returns the register of the handle; `None` for a reference.
    pub(crate) fn register(&self) -> Option<&PtxSource> {
        match self {
            ImageHandle::Register(source) => Some(source),
            ImageHandle::Reference(_) => None,
        }
    }
}

/// An access to a texture or surface.
pub(crate) struct ImageAccess {
    pub(crate) kind: ImageAccessKind,
    pub(crate) handle: ImageHandle,
    /// The separate sampler, if the instruction names one.
    pub(crate) sampler: Option<ImageHandle>,
    /// The number of the sample of textures with several, the index of those with layers, then the coordinates.
    pub(crate) coordinates: Box<[PtxSource]>,
    /// The level of a fetch that names one.
    pub(crate) level: Option<PtxSource>,
    /// The derivatives of the coordinates by x, then those by y; none if they do not give the level.
    pub(crate) derivatives: Box<[PtxSource]>,
    /// The offsets in texels, one for each dimension; none if the instruction has none.
    pub(crate) offsets: Box<[PtxSource]>,
    /// Destination of each element; `None` for `_`.
    pub(crate) destinations: Box<[Option<RegisterSlot>]>,
    /// The format in which the destination holds the four results of a fetch.
    pub(crate) results: ImageResults,
    /// The predicate that says that all data is resident, which is always so.
    pub(crate) resident: Option<RegisterSlot>,
    /// The elements to store, or the operand of a reduction; none for a load.
    pub(crate) values: Box<[PtxSource]>,
}

/// The format in which the destination of a fetch holds its four results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImageResults {
    /// One 32-bit result in each element.
    Words,
    /// One half in each element: the results are singles, rounded to halves.
    Halves,
    /// Two halves in each element: the results are singles, rounded to halves.
    PairsOfHalves,
}

/// The kind of an access to a texture or surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImageAccessKind {
    /// A fetch at float coordinates.
    Fetch(Geometry),
    /// A fetch at integer coordinates.
    FetchTexel(Geometry),
    /// A component of the four texels around float coordinates.
    Gather(Geometry, usize),
    /// A load or store of elements of a number of bytes, or of a sample.
    Surface { geometry: Geometry, element_bytes: u8, unit: SurfaceUnit, outside: OutsideAccess },
    /// A reduction of a number of bytes, or of a sample of this size.
    Reduction { geometry: Geometry, reduction: SurfaceReduction, bytes: u8, unit: SurfaceUnit, outside: OutsideAccess },
    /// The size along an axis.
    Size(usize),
}

/// `cp.async`
pub(crate) struct CopyAsync {
    pub(crate) to: PtxAddress,
    pub(crate) from: PtxAddress,
    pub(crate) bytes: u8,
    /// Number of bytes that are read; the rest is filled with zeros. `None` for all.
    pub(crate) source_bytes: Option<PtxSource>,
    /// Predicate that makes all bytes zero.
    pub(crate) ignored: Option<PtxSource>,
}

/// The kind of an instruction on a barrier in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PtxMbarrierKind {
    Init,
    Invalidate,
    ExpectTransactions,
    CompleteTransactions,
    /// An arrival: whether the thread leaves the barrier, whether the operand is a number of bytes to expect, and whether the arrival may
    /// end the phase.
    Arrive {
        drops: bool,
        expects: bool,
        completes: bool,
    },
    /// An arrival after the asynchronous copies of the thread; the operand is whether the phase expects it.
    AfterCopies,
    /// Tests whether the phase of a state has ended.
    TestState,
    /// Tests whether the phase with this parity has ended.
    TestParity,
}

/// `mbarrier`
pub(crate) struct PtxMbarrier {
    pub(crate) kind: PtxMbarrierKind,
    pub(crate) address: PtxAddress,
    /// A count, a state or a parity.
    pub(crate) count: PtxSource,
    pub(crate) destination: RegisterSlot,
}

/// An operation of the barrier of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PtxClusterBarrier {
    /// Whether threads wait for the end of the phase; otherwise they arrive.
    pub(crate) waits: bool,
    /// Whether an arrival orders memory accesses.
    pub(crate) releases: bool,
    /// Whether all threads of a warp must execute the same instruction.
    pub(crate) aligned: bool,
}

/// `cp.async.bulk.tensor` and `cp.reduce.async.bulk.tensor`
pub(crate) struct TensorCopy {
    /// The generic address of the tensor map.
    pub(crate) map: PtxAddress,
    pub(crate) coordinates: Box<[PtxSource]>,
    /// Offsets in the dimensions of an image; empty unless the copy is a load of columns.
    pub(crate) offsets: Box<[PtxSource]>,
    /// Whether the copy moves columns of pixels (`.im2col`).
    pub(crate) is_columns: bool,
    /// The operation of a reduction.
    pub(crate) operation: Option<ReductionOperation>,
    pub(crate) shared: PtxAddress,
    /// The barrier that a load signals; `None` for a store.
    pub(crate) barrier: Option<PtxAddress>,
    /// Mask of the blocks of the cluster that receive the data, if there are several.
    pub(crate) blocks: Option<PtxSource>,
}

/// `st.async` and `red.async`
pub(crate) struct StoreAsync {
    pub(crate) to: PtxAddress,
    pub(crate) barrier: PtxAddress,
    pub(crate) element_bytes: u8,
    pub(crate) values: Box<[PtxSource]>,
    /// The operation of `red.async`.
    pub(crate) update: Option<Update>,
}

/// `cp.async.bulk` and `cp.reduce.async.bulk`
pub(crate) struct Bulk {
    pub(crate) to: PtxAddress,
    pub(crate) from: PtxAddress,
    pub(crate) bytes: PtxSource,
    /// The barrier to signal; `None` if the copy belongs to a group.
    pub(crate) barrier: Option<PtxAddress>,
    /// Mask of the blocks of the cluster that receive the data, if there are several.
    pub(crate) blocks: Option<PtxSource>,
    /// Element size in bytes and operation of a reduction.
    pub(crate) reduction: Option<(u8, Update)>,
}

/// A parameter of a call, as seen by the caller or the callee.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PassedParameter {
    /// Bytes in the frame. `bytes` is 0 for a formal parameter that is an array of unknown length.
    Frame { offset: u32, bytes: u32 },
    /// Consecutive registers of `bytes` bytes each.
    Registers { first: RegisterSlot, count: u8, bytes: u8 },
    /// A constant.
    Value { source: PtxSource, bytes: u8 },
    /// `_`
    Nothing,
}

/// The called function.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Callee {
    /// The function with this index.
    Function(u32),
    /// A function address.
    Indirect(PtxSource),
}

/// A call with its arguments and results.
pub(crate) struct PtxCall {
    pub(crate) callee: Callee,
    pub(crate) arguments: Box<[PassedParameter]>,
    pub(crate) results: Box<[PassedParameter]>,
}

/// The kind of a block barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BarrierArrivalKind {
    Sync,
    Arrive,
    Count,
    All,
    Any,
}

/// An arrival at a block barrier.
pub(crate) struct BarrierArrival {
    pub(crate) kind: BarrierArrivalKind,
    pub(crate) number: PtxSource,
    /// Number of threads to wait for; `None` for all threads of the block.
    pub(crate) threads: Option<PtxSource>,
    pub(crate) predicate: Option<PtxSource>,
    pub(crate) destination: RegisterSlot,
    /// Whether all threads of a warp must execute the same barrier instruction.
    pub(crate) aligned: bool,
}

/// A warp-synchronous operation.
pub(crate) struct WarpSyncOperation {
    pub(crate) kind: WarpSyncKind,
    /// Threads that take part; `None` for forms without `.sync`, which use the threads that currently execute together.
    pub(crate) mask: Option<PtxSource>,
    pub(crate) sources: [PtxSource; 3],
    pub(crate) destinations: [RegisterSlot; 2],
}

/// The kind of a warp-synchronous operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WarpSyncKind {
    Barrier,
    /// Waits for all threads, as an instruction with `.sync.aligned` does, without ordering memory.
    Converge,
    Shuffle(oriole_sem::warp::Shuffle),
    VoteAll,
    VoteAny,
    VoteUni,
    Ballot,
    MatchAny,
    MatchAll,
    Reduce(ReduxOperation),
    Elect,
}

/// The operation of `redux`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReduxOperation {
    Add,
    And,
    Or,
    Xor,
    Min { signed: bool },
    Max { signed: bool },
    Float { is_max: bool, absolute: bool, nan: bool },
}

/// A special register that the interpreter implements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PtxSpecialRegister {
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

/// The code and the frame of a function.
pub(crate) struct FunctionCode {
    /// Index of the first instruction.
    pub(crate) name: String,
    pub(crate) entry: u32,
    /// Index after the last instruction.
    pub(crate) end: u32,
    /// Number of slots in its frame.
    pub(crate) registers: u32,
    pub(crate) frame_bytes: u32,
    pub(crate) frame_align: u32,
    pub(crate) parameters: Box<[PassedParameter]>,
    pub(crate) results: Box<[PassedParameter]>,
    /// Kernel attributes; `None` for a function that is not a kernel.
    pub(crate) kernel: Option<KernelAttributes>,
}

/// Attributes of a kernel.
pub(crate) struct KernelAttributes {
    /// Offset and size in bytes of each parameter.
    pub(crate) parameters: Vec<(u32, u32)>,
    pub(crate) parameter_bytes: u32,
    /// Blocks per cluster, if declared.
    pub(crate) cluster: Option<[u32; 3]>,
    /// Required block size, if declared.
    pub(crate) required_block: Option<[u32; 3]>,
    /// Maximum number of threads per block, if declared.
    pub(crate) most_threads: Option<u64>,
}

/// A function provided by the CUDA driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Builtin {
    Print,
    Allocate,
    Free,
    AssertFail,
}

/// The definition of a function.
pub(crate) enum CallTarget {
    Code(FunctionCode),
    Builtin(Builtin),
    /// Declared but not defined.
    Missing(String),
    /// Contains something that the interpreter does not support.
    Refused {
        name: String,
        error: PtxError,
    },
}

/// A PTX module, decoded.
pub struct PtxProgram {
    pub(crate) code: Vec<PtxOp>,
    pub(crate) functions: Vec<CallTarget>,
    /// Constants. Entry 0 is zero; addresses of global variables are zero until the program is loaded.
    pub(crate) pool: Vec<u64>,
    /// Pool entries that are addresses of global variables: (entry, variable, offset).
    pub(crate) global_addresses: Vec<(u32, u32, i64)>,
    pub(crate) variables: super::variables::PtxVariables,
    /// Index of the function for each kernel name.
    pub(crate) kernels: FxHashMap<String, u32>,
    /// Pool entries that are addresses in shared memory, to which the rank of the block in its cluster is added.
    pub(crate) shared_addresses: Vec<u32>,
}

/// Address of the first function.
pub(crate) const FUNCTION_BASE: u64 = 0x0040_0000_0000;
/// Distance between function addresses.
pub(crate) const FUNCTION_SPACING: u64 = 0x10;

/// Start of the window of shared memory in the generic address space.
pub(crate) const SHARED_WINDOW: u64 = 0x0100_0000_0000;
/// Start of the window of local memory.
pub(crate) const LOCAL_WINDOW: u64 = 0x0200_0000_0000;
/// Start of the window of constant memory.
pub(crate) const CONSTANT_WINDOW: u64 = 0x0300_0000_0000;
/// Start of the window of kernel parameters.
pub(crate) const PARAMETER_WINDOW: u64 = 0x0400_0000_0000;
/// Size of each window in bytes.
pub(crate) const WINDOW_BYTES: u64 = 0x0001_0000_0000;

/// Position of the rank of a block in an address of the shared memory of its cluster.
pub(crate) const RANK_SHIFT: u32 = 24;
/// Bytes between the shared memories of consecutive blocks of a cluster.
pub(crate) const RANK_BYTES: u64 = 1 << RANK_SHIFT;
/// The bits of the rank in an address.
pub(crate) const RANK_BITS: u64 = 0xff << RANK_SHIFT;
