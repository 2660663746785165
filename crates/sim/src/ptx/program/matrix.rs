//! Operations on matrices: fragments in registers, and products of one warp, of a quad and of a warpgroup.

use oriole_sem::sparse::SparseLayout;
use oriole_sem::warpgroup::{Arithmetic, Major};
use oriole_sem::{Format, Int, Mode};

use super::{PtxAddress, PtxSource, RegisterSlot};

/// `ldmatrix`, `stmatrix`, `movmatrix`
pub(crate) struct MatrixTransfer {
    pub(crate) kind: MatrixKind,
    pub(crate) transposed: bool,
    pub(crate) address: PtxAddress,
    pub(crate) registers: Box<[PtxSource]>,
    pub(crate) destinations: Box<[RegisterSlot]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MatrixKind {
    Load,
    Store,
    Move,
}

/// The distribution of a matrix of `wmma` over the registers of a warp (`run/fragment.rs`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct WmmaFragment {
    pub(crate) role: MatrixRole,
    /// Length of the rows of A and the columns of B.
    pub(crate) depth: usize,
    /// Bits of an element in memory.
    pub(crate) element_bits: usize,
    /// Whether a group of four threads holds a row of the matrix; otherwise a column.
    pub(crate) lines_are_rows: bool,
    /// Number of different registers; a longer list repeats them.
    pub(crate) registers: usize,
}

/// What a matrix of `wmma` is for the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MatrixRole {
    /// The operand of which the machine takes 16 lines at once, or 8 if it has no more.
    First { lines: usize },
    /// The operand of which the machine takes 8 lines at once.
    Second,
    /// C or D, with this number of lines.
    Sum { lines: usize },
}

/// `wmma.load` or `wmma.store`
pub(crate) struct FragmentMove {
    pub(crate) fragment: WmmaFragment,
    pub(crate) address: PtxAddress,
    /// Distance of rows or columns in memory, in elements.
    pub(crate) stride: PtxSource,
    pub(crate) is_row_major: bool,
    /// The registers that are stored; none for a load.
    pub(crate) sources: Box<[PtxSource]>,
    /// The registers that are loaded; none for a store.
    pub(crate) destinations: Box<[RegisterSlot]>,
}

/// `mma.sync`, or a part of `wmma.mma`
pub(crate) struct Mma {
    /// Rows of A. B always has eight columns.
    pub(crate) rows: usize,
    /// Length of the rows of A and the columns of B.
    pub(crate) depth: usize,
    pub(crate) a: Element,
    pub(crate) b: Element,
    pub(crate) accumulator: AccumulatorType,
    /// Whether C and D are pairs of halves, although the sum has single precision.
    pub(crate) has_half_c: bool,
    pub(crate) has_half_d: bool,
    /// For a sparse matrix A: which of its elements are stored.
    pub(crate) sparsity: Option<PtxSparsity>,
    pub(crate) a_registers: Box<[PtxSource]>,
    pub(crate) b_registers: Box<[PtxSource]>,
    pub(crate) c_registers: Box<[PtxSource]>,
    pub(crate) destinations: Box<[RegisterSlot]>,
}

/// `mma.sync.m8n8k4` of f16: four products, each of eight threads
pub(crate) struct QuadMma {
    pub(crate) a_is_by_rows: bool,
    pub(crate) b_is_by_rows: bool,
    pub(crate) has_half_c: bool,
    pub(crate) has_half_d: bool,
    pub(crate) a_registers: Box<[PtxSource]>,
    pub(crate) b_registers: Box<[PtxSource]>,
    pub(crate) c_registers: Box<[PtxSource]>,
    pub(crate) destinations: Box<[RegisterSlot]>,
}

/// The form of a sparse matrix A and the register with the metadata of each thread.
#[derive(Clone, Copy)]
pub(crate) struct PtxSparsity {
    pub(crate) layout: SparseLayout,
    pub(crate) metadata: PtxSource,
}

/// `wgmma.mma_async`
pub(crate) struct GroupProduct {
    /// Columns of B. A always has 64 rows, 16 for each warp.
    pub(crate) columns: usize,
    /// Length of the rows of A and the columns of B.
    pub(crate) depth: usize,
    pub(crate) arithmetic: Arithmetic,
    pub(crate) a: GroupMatrix,
    /// For a sparse matrix A: which of its elements are stored.
    pub(crate) sparsity: Option<PtxSparsity>,
    /// Descriptor of B.
    pub(crate) b: PtxSource,
    pub(crate) b_major: Major,
    /// Predicate under which the old accumulator is added.
    pub(crate) adds: PtxSource,
    pub(crate) accumulator: Box<[PtxSource]>,
    pub(crate) destinations: Box<[RegisterSlot]>,
}

/// The matrix A of `wgmma.mma_async`.
pub(crate) enum GroupMatrix {
    Registers(Box<[PtxSource]>),
    Shared { descriptor: PtxSource, major: Major },
}

/// The type of the elements of A or B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    /// Occupies `bits` bits of a register, of which the lowest `unused` are ignored.
    Float {
        format: Format,
        bits: u32,
        unused: u32,
    },
    Int(Int),
    Bit,
}

/// The type of the accumulator, and how products are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccumulatorType {
    Half,
    Single,
    Double(Mode),
    Integer { clamps: bool },
    Bits { and: bool },
}
