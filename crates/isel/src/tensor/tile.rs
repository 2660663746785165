//! The 8x8 tiles of a matrix in memory.

use oriole_ir::{Class, Operand, RegFile};
use oriole_ptx::table::Modifier;
use oriole_ptx::types::ScalarType;

use super::fragment::{Matrix, Shape};
use crate::context::Select;
use crate::error::Unsupported;
use crate::memory::{AccessProperties, AccessSpace, AddressOperands, OffsetRange, shared_load, size_modifier};
use crate::ptx::Ptx;

/// How the elements of a fragment are accessed in memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ElementAccess {
    /// Each unit at once.
    Units,
    /// Each unit at once, as part of a transposed matrix.
    Transposed,
    /// Each element on its own.
    Elements,
}

/// The memory accesses of a fragment.
pub(super) struct FragmentAccesses {
    pub(super) access: AccessProperties,
    /// Leading dimension: the distance in elements between rows (or between columns, if the matrix is stored by columns).
    pub(super) stride: Operand,
    /// Address for the thread with `i = 0`, and the fixed offset of `j = 0`.
    pub(super) start: AddressOperands,
    pub(super) element_bits: u32,
    /// Addresses that have been computed for other `i`.
    pub(super) rows: Vec<(u32, Operand)>,
}

/// Reads which matrix is moved, whether its rows are adjacent in memory, and its stride in elements.
pub(super) fn read_form(select: &mut Select<'_>, ptx: &Ptx<'_>, shape: Shape) -> Result<(Matrix, bool, Operand), Unsupported> {
    let matrix = match () {
        () if ptx.has(Modifier::A) => Matrix::A,
        () if ptx.has(Modifier::B) => Matrix::B,
        () => Matrix::Sum,
    };
    let is_row_major = ptx.has(Modifier::Row);
    let stride = match ptx.operands.get(STRIDE) {
        Some(&operand) => select.source(operand, ScalarType::U32)?,
        None => {
            let [rows, columns] = shape.size(matrix);
            Operand::from(if is_row_major { columns } else { rows })
        }
    };
    Ok((matrix, is_row_major, stride))
}

/// Computes the address of the thread: that of the element at `start + x * stride + y`.
pub(super) fn tile(
    select: &mut Select<'_>,
    ptx: &Ptx<'_>,
    address: usize,
    stride: Operand,
    element_bits: u32,
    xy: [Operand; 2],
) -> Result<FragmentAccesses, Unsupported> {
    let access = select.access(ptx, ptx.operand(address));
    let place = select.address(ptx.operand(address), access.space, OffsetRange::HALF)?;
    Ok(FragmentAccesses::new(select, access, place, stride, element_bits, xy))
}

impl FragmentAccesses {
    /// Computes the address of the thread.
    pub(super) fn new(
        select: &mut Select<'_>,
        access: AccessProperties,
        place: AddressOperands,
        stride: Operand,
        element_bits: u32,
        [x, y]: [Operand; 2],
    ) -> FragmentAccesses {
        let stride = select.in_register(stride);
        let mut tile = FragmentAccesses { access, stride, start: place, element_bits, rows: Vec::new() };
        // Bits are numbered within bytes, so elements of less than a byte divide the index.
        let (left, right) = (i64::from(element_bits / 8).max(1).ilog2(), (8 / element_bits).max(1).ilog2());
        if tile.is_short() {
            let index = select.b.define(Class::R, "IMAD $, {}, {}, {}", &[x, stride, y]);
            let index = if right > 0 { select.shift_right(index, Operand::from(right), false) } else { index };
            let index = if left > 0 { select.shift_left(index, Operand::from(left)) } else { index };
            tile.start.base = select.sum(place.base, index);
        } else {
            let y = select.b.pack(Class::R2, &[y, Operand::RZ]);
            let index = select.b.define(Class::R2, "IMAD.WIDE.U32 $, {}, {}, {}", &[x, stride, y]);
            let halves = [select.low(index), select.high(index)];
            let halves = if right > 0 { select.pair_shift_right(halves, Operand::from(right), false) } else { halves };
            let halves = if left > 0 { select.pair_shift_left(halves, Operand::from(left)) } else { halves };
            tile.start.base = select.add_pairs([select.low(place.base), select.high(place.base)], halves);
        }
        tile
    }

    /// Returns whether addresses have 32 bits.
    pub(super) fn is_short(&self) -> bool {
        self.access.space == AccessSpace::Shared
    }

    /// Returns base and offset of the access `i`, `j`.
    pub(super) fn address(&mut self, select: &mut Select<'_>, i: u32, j: u32) -> [Operand; 2] {
        let base = self.row(select, i);
        [base, Operand::from(self.start.offset + i64::from(j * self.element_bits / 8))]
    }

    /// Returns the address with `j = 0`.
    pub(super) fn row(&mut self, select: &mut Select<'_>, i: u32) -> Operand {
        if i == 0 {
            return self.start.base;
        }
        if let Some(&(_, base)) = self.rows.iter().find(|&&(row, _)| row == i) {
            return base;
        }
        let bytes = Operand::from(i * self.element_bits / 8);
        let base = if self.is_short() {
            select.b.define(Class::R, "IMAD $, {}, {}, {}", &[self.stride, bytes, self.start.base])
        } else {
            select.b.define(Class::R2, "IMAD.WIDE.U32 $, {}, {}, {}", &[self.stride, bytes, self.start.base])
        };
        self.rows.push((i, base));
        base
    }

    /// Emits a load; returns the registers.
    pub(super) fn load(&mut self, select: &mut Select<'_>, i: u32, j: u32, bytes: u32) -> Vec<Operand> {
        let [base, offset] = self.address(select, i, j);
        let width = bytes.div_ceil(4) as u8;
        let class = Class::new(RegFile::General, width);
        let size = size_modifier(bytes, false);
        let value = if self.is_short() {
            select.b.define(class, &format!("{}{size} $, [{{}}+{{}}]", shared_load(select.target)), &[base, offset])
        } else {
            let opcode = if self.access.space == AccessSpace::Global { "LDG" } else { "LD" };
            let template = format!("{opcode}{} $, desc[{{}}][{{}}.64+{{}}]", self.access.modifiers(select.target, size));
            let descriptor = select.descriptor();
            select.b.define(class, &template, &[descriptor, base, offset])
        };
        select.b.describe(self.access.describe(bytes));
        (0..width).map(|word| select.register_of(value, word)).collect()
    }

    /// Emits a store of whole registers.
    pub(super) fn store(&mut self, select: &mut Select<'_>, i: u32, j: u32, words: &[Operand]) {
        let value = match *words {
            [single] => single,
            _ => select.b.pack(Class::new(RegFile::General, words.len() as u8), words),
        };
        self.store_bytes(select, i, j, value, 4 * words.len() as u32);
    }

    /// Emits a store of the first `bytes` bytes of a value.
    pub(super) fn store_bytes(&mut self, select: &mut Select<'_>, i: u32, j: u32, value: Operand, bytes: u32) {
        let [base, offset] = self.address(select, i, j);
        let size = size_modifier(bytes, false);
        if self.is_short() {
            select.b.emit(&format!("STS{size} [{{}}+{{}}], {{}}"), &[base, offset, value]);
        } else {
            let opcode = if self.access.space == AccessSpace::Global { "STG" } else { "ST" };
            let template = format!("{opcode}{} desc[{{}}][{{}}.64+{{}}], {{}}", self.access.modifiers(select.target, size));
            let descriptor = select.descriptor();
            select.b.emit(&template, &[descriptor, base, offset, value]);
        }
        select.b.describe(self.access.describe(bytes));
    }
}

/// Joins four bytes in registers of their own.
pub(super) fn joined_bytes(select: &mut Select<'_>, bytes: &[Operand]) -> Operand {
    let pairs = [[bytes[0], bytes[1]], [bytes[2], bytes[3]]];
    let halves = pairs.map(|pair| select.b.define(Class::R, "PRMT $, {}, 0x3340, {}", &pair));
    select.b.define(Class::R, "PRMT $, {}, 0x5410, {}", &halves)
}

/// Position of the stride among the operands of loads and stores.
pub(crate) const STRIDE: usize = 2;
