//! `wmma.load` and `wmma.store`: move matrices between memory and fragments.
//!
//! Every access is at `start + (x * stride + y + i * stride + j) * size`, where x and y depend on the thread, i and j on the element. Where
//! the elements of a unit are not adjacent in memory, 16-bit elements are moved as a transposed matrix, which MOVM turns; others are moved
//! one by one.

use oriole_ir::{Class, Operand, RegFile};
use oriole_ptx::table::Modifier;
use oriole_ptx::types::ScalarType;

use super::fragment::{Fragment, Matrix, Shape, Unit};
use super::{mma, quad_fragments};
use crate::error::Unsupported;
use crate::memory::{Access, AccessSpace, Address, OffsetRange, shared_load, size_modifier};
use crate::ptx::Ptx;
use crate::select::Select;

/// Position of the stride among the operands of loads and stores.
const STRIDE: usize = 2;

/// How the elements of a fragment are accessed in memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Each unit at once.
    Units,
    /// Each unit at once, as part of a transposed matrix.
    Transposed,
    /// Each element on its own.
    Elements,
}

/// The memory accesses of a fragment.
pub(super) struct Tile {
    access: Access,
    /// Leading dimension: the distance in elements between rows (or between columns, if the matrix is stored by columns).
    stride: Operand,
    /// Address for the thread with `i = 0`, and the fixed offset of `j = 0`.
    start: Address,
    element_bits: u32,
    /// Addresses that have been computed for other `i`.
    rows: Vec<(u32, Operand)>,
}

/// Selects `wmma.load`.
pub(crate) fn load_fragment(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    if quad_fragments::are_used(select, ptx) {
        return quad_fragments::load(select, ptx);
    }
    let (fragment, way, mut tile) = open(select, ptx, 1)?;
    let bytes = fragment.unit_bytes();
    let mut registers = Vec::new();
    for &unit in &fragment.units {
        match way {
            Way::Units => registers.extend(tile.load(select, unit.across, unit.along, bytes)),
            Way::Transposed => {
                let words = tile.load(select, unit.along, unit.across, bytes);
                registers.push(select.b.define(Class::R, "MOVM.16.MT88 $, {}", &words));
            }
            Way::Elements => {
                let mut elements = Vec::new();
                for element in 0..fragment.run {
                    elements.extend(tile.load(select, unit.along + element, unit.across, fragment.element_bits / 8));
                }
                registers.extend(if fragment.element_bits == 8 { vec![joined_bytes(select, &elements)] } else { elements });
            }
        }
    }
    // A list of f16 registers may be longer than the fragment; it repeats.
    let ty = ptx.ty();
    let count = select.elements(ptx.operand(0)).len() * if ty == ScalarType::F64 { 2 } else { 1 };
    let registers: Vec<Operand> = registers.iter().copied().cycle().take(count).collect();
    mma::assign(select, ptx.operand(0), ty, &registers)
}

/// Selects `wmma.store`.
pub(crate) fn store_fragment(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    if quad_fragments::are_used(select, ptx) {
        return quad_fragments::store(select, ptx);
    }
    let (fragment, way, mut tile) = open(select, ptx, 0)?;
    let registers = mma::fragment(select, ptx.operand(1), ptx.ty())?;
    let registers: Vec<Operand> = registers.into_iter().map(|register| select.in_register(register)).collect();
    let bytes = fragment.unit_bytes();
    for (unit, words) in fragment.units.iter().zip(registers.chunks(bytes as usize / 4)) {
        let &Unit { across, along } = unit;
        match way {
            Way::Units => tile.store(select, across, along, words),
            Way::Transposed => {
                let turned = select.b.define(Class::R, "MOVM.16.MT88 $, {}", words);
                tile.store(select, along, across, &[turned]);
            }
            Way::Elements => {
                for (element, words) in words.chunks(words.len() / fragment.run as usize).enumerate() {
                    tile.store(select, along + element as u32, across, words);
                }
            }
        }
    }
    Ok(())
}

/// Reads the form of a load or store: the distribution of the matrix, how it is moved, and where it is.
fn open(select: &mut Select<'_>, ptx: &Ptx<'_>, address: usize) -> Result<(Fragment, Way, Tile), Unsupported> {
    let Some([rows, columns, depth]) = ptx.matrix_shape() else { return select.unsupported(ptx) };
    let shape = Shape { rows, columns, depth };
    let (matrix, is_row_major, stride) = read_form(select, ptx, shape)?;
    let fragment = Fragment::of(matrix, shape, ptx.ty());
    let way = match fragment.element_bits {
        _ if is_row_major == fragment.lines_are_rows => Way::Units,
        16 => Way::Transposed,
        _ => Way::Elements,
    };
    let lane = select.b.define(Class::R, "S2R $, SR_LANEID", &[]);
    let group = select.shift_right(lane, Operand::from(2_i64), false);
    let position = select.bitwise_and(lane, Operand::from(3_i64));
    let first = select.b.define(Class::R, "IMAD $, {}, {}, RZ", &[position, Operand::from(fragment.run)]);
    let xy = if way == Way::Elements { [first, group] } else { [group, first] };
    let tile = tile(select, ptx, address, stride, fragment.element_bits, xy)?;
    Ok((fragment, way, tile))
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
) -> Result<Tile, Unsupported> {
    let access = select.access(ptx, ptx.operand(address));
    let place = select.address(ptx.operand(address), access.space, OffsetRange::HALF)?;
    Ok(Tile::new(select, access, place, stride, element_bits, xy))
}

impl Tile {
    /// Computes the address of the thread.
    fn new(select: &mut Select<'_>, access: Access, place: Address, stride: Operand, element_bits: u32, [x, y]: [Operand; 2]) -> Tile {
        let stride = select.in_register(stride);
        let mut tile = Tile { access, stride, start: place, element_bits, rows: Vec::new() };
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
    fn is_short(&self) -> bool {
        self.access.space == AccessSpace::Shared
    }

    /// Returns base and offset of the access `i`, `j`.
    fn address(&mut self, select: &mut Select<'_>, i: u32, j: u32) -> [Operand; 2] {
        let base = self.row(select, i);
        [base, Operand::from(self.start.offset + i64::from(j * self.element_bits / 8))]
    }

    /// Returns the address with `j = 0`.
    fn row(&mut self, select: &mut Select<'_>, i: u32) -> Operand {
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
fn joined_bytes(select: &mut Select<'_>, bytes: &[Operand]) -> Operand {
    let pairs = [[bytes[0], bytes[1]], [bytes[2], bytes[3]]];
    let halves = pairs.map(|pair| select.b.define(Class::R, "PRMT $, {}, 0x3340, {}", &pair));
    select.b.define(Class::R, "PRMT $, {}, 0x5410, {}", &halves)
}
