//! `wmma` on targets whose only matrix instruction is `HMMA.884` (Volta).
//!
//! The instruction computes four products of 8 x 8 x 4 at once, each by eight threads ([`super::quad`]), and `wmma.mma` is four of them, one
//! for every four elements of the depth. With q the number of a product, its result is the block of eight rows and columns at
//!
//! | shape | rows from | columns from |
//! |---|---|---|
//! | m16n16k16 | 8 * (q & 1) | 8 * (q >> 1) |
//! | m32n8k16 | 8q | 0 |
//! | m8n32k16 | 0 | 8q |
//!
//! Blocks of A and B that belong to two products (16 rows, 16 columns) or to all of them are in the registers of all their threads. The
//! registers of a fragment have the elements of the four products one after the other; which thread has which element of a product depends on
//! the layout of the matrix, as [`super::quad`] describes. All this is the arrangement of ptxas 12.9: it can be read off the addresses of its
//! loads.

use oriole_ir::{Class, Operand};
use oriole_ptx::table::{Modifier, Slot};
use oriole_ptx::types::ScalarType;

use super::fragment::{Matrix, Shape};
use super::quad::{self, Layouts};
use crate::context::Select;
use crate::error::Unsupported;
use crate::ptx::Ptx;
use crate::tensor::half_results;
use crate::tensor::product::{assign, fragment};
use crate::tensor::tile;
use crate::tensor::tile::FragmentAccesses;

/// Depth of a product of `HMMA.884`, and of `wmma`.
const STEP: u32 = 4;
const DEPTH: u32 = 16;

/// A matrix of `wmma` in memory, as one thread accesses it.
struct MatrixInMemory {
    tile: FragmentAccesses,
    matrix: Matrix,
    is_half: bool,
    /// Whether the elements that a thread has of a row of A, of a column of B, or of a row of C or D are adjacent in memory.
    is_along: bool,
}

/// Selects `wmma.load`.
pub(super) fn load(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let mut part = open(select, ptx, 1)?;
    let tile = &mut part.tile;
    let mut registers = Vec::new();
    match (part.matrix, part.is_along) {
        (Matrix::A | Matrix::B, true) => {
            for half in [0, DEPTH / 2] {
                registers.extend(tile.load(select, 0, half, 16));
            }
        }
        (Matrix::A | Matrix::B, false) => {
            for k in (0..DEPTH).step_by(STEP as usize) {
                registers.extend(tile.load(select, k, 0, 8));
            }
        }
        (Matrix::Sum, true) if part.is_half => registers.extend(tile.load(select, 0, 0, 16)),
        (Matrix::Sum, false) if part.is_half => {
            for column in (0..8).step_by(2) {
                let halves = [tile.load(select, column, 0, 2)[0], tile.load(select, column + 1, 0, 2)[0]];
                registers.push(select.b.define(Class::R, "PRMT $, {}, 0x5410, {}", &halves));
            }
        }
        (Matrix::Sum, true) => {
            for element in (0..8).step_by(2) {
                let (row, column) = place_of_single(element);
                registers.extend(tile.load(select, row, column, 8));
            }
        }
        (Matrix::Sum, false) => {
            for element in 0..8 {
                let (row, column) = place_of_single(element);
                registers.extend(tile.load(select, column, row, 4));
            }
        }
    }
    assign(select, ptx.operand(0), ptx.ty(), &registers)
}

/// Selects `wmma.store`.
pub(super) fn store(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let mut part = open(select, ptx, 0)?;
    let tile = &mut part.tile;
    let words = fragment(select, ptx.operand(1), ptx.ty())?;
    let words: Vec<Operand> = words.into_iter().map(|word| select.in_register(word)).collect();
    match (part.is_along, part.is_half) {
        (true, true) => tile.store(select, 0, 0, &words),
        (false, true) => {
            for (number, &word) in words.iter().enumerate() {
                let upper = select.b.define(Class::R, "PRMT $, {}, 0x7632, RZ", &[word]);
                for (half, value) in [(0, word), (1, upper)] {
                    tile.store_bytes(select, 2 * number as u32 + half, 0, value, 2);
                }
            }
        }
        (true, false) => {
            for (number, pair) in words.chunks(2).enumerate() {
                let (row, column) = place_of_single(2 * number as u32);
                tile.store(select, row, column, pair);
            }
        }
        (false, false) => {
            for (number, &word) in words.iter().enumerate() {
                let (row, column) = place_of_single(number as u32);
                tile.store(select, column, row, &[word]);
            }
        }
    }
    Ok(())
}

/// Selects `wmma.mma`.
pub(super) fn multiply(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let [d_type, mut c_type] = ptx.types()[..] else { return select.unsupported(ptx) };
    let [a, b] = [fragment(select, ptx.operand(1), ScalarType::F16)?, fragment(select, ptx.operand(2), ScalarType::F16)?];
    let mut sums = fragment(select, ptx.operand(3), c_type)?;
    let layouts = Layouts { a_is_by_rows: is_row(ptx, Slot::Alayout), b_is_by_rows: is_row(ptx, Slot::Blayout) };
    // A sum in single precision unless both C and D are f16.
    let sum_type = if c_type == d_type { c_type } else { ScalarType::F32 };
    for (a, b) in a.chunks(2).zip(b.chunks(2)) {
        sums = quad::product(select, [a, b], &sums, layouts, [sum_type, c_type]);
        c_type = sum_type;
    }
    if sum_type != d_type {
        sums = quad::gathered(select, &sums);
    }
    if ptx.has(Modifier::Satfinite) {
        sums = sums.into_iter().map(|sum| half_results::finite(select, sum, d_type)).collect();
    }
    assign(select, ptx.operand(0), d_type, &sums)
}

/// Returns whether a layout is `.row`.
fn is_row(ptx: &Ptx<'_>, slot: Slot) -> bool {
    ptx.get(slot) == Some(Modifier::Row)
}

/// Returns row and column of an element of C or D in f32, relative to those of the thread's first element.
fn place_of_single(element: u32) -> (u32, u32) {
    (element & 2, (element & 4) + (element & 1))
}

/// Reads the form of a load or store, and computes the address of the thread.
fn open(select: &mut Select<'_>, ptx: &Ptx<'_>, address: usize) -> Result<MatrixInMemory, Unsupported> {
    let Some([rows, columns, depth]) = ptx.matrix_shape() else { return select.unsupported(ptx) };
    let shape = Shape { rows, columns, depth };
    let is_half = ptx.ty() == ScalarType::F16;
    // Of f16 there are no other shapes.
    if depth != DEPTH {
        return select.unsupported(ptx);
    }
    let (matrix, is_row_major, stride) = tile::read_form(select, ptx, shape)?;
    let lane = select.b.define(Class::R, "S2R $, SR_LANEID", &[]);
    let thread = select.bitwise_and(lane, 3_u32.into());
    let lower_rows = {
        let half = select.bitwise_and(lane, 16_u32.into());
        select.shift_right(half, 2_u32.into(), false)
    };
    let [first_row, first_column] = blocks(select, shape, lane);
    let (is_along, [line, start]) = match matrix {
        Matrix::A | Matrix::B => {
            let block = if matrix == Matrix::A { first_row } else { first_column };
            let block = block.map_or(lower_rows, |block| select.sum(block, lower_rows));
            let is_along = is_row_major == (matrix == Matrix::A);
            (is_along, if is_along { [select.sum(block, thread), Operand::RZ] } else { [thread, block] })
        }
        Matrix::Sum => {
            let [row, column] = if is_half { [thread, Operand::RZ] } else { [1_u32, 2].map(|bit| select.bitwise_and(thread, bit.into())) };
            let row = select.sum(row, lower_rows);
            let row = first_row.map_or(row, |first| select.sum(first, row));
            let column = match first_column {
                Some(first) if is_half => first,
                Some(first) => select.sum(first, column),
                None => column,
            };
            (is_row_major, if is_row_major { [row, column] } else { [column, row] })
        }
    };
    let tile = tile::tile(select, ptx, address, stride, if is_half { 16 } else { 32 }, [line, start])?;
    Ok(MatrixInMemory { tile, matrix, is_half, is_along })
}

/// Returns first row and column of the product that the thread takes part in; `None` for zero.
fn blocks(select: &mut Select<'_>, shape: Shape, lane: Operand) -> [Option<Operand>; 2] {
    let mut doubled = |mask: u32| {
        let bits = select.bitwise_and(lane, mask.into());
        Some(select.shift_left(bits, 1_u32.into()))
    };
    match shape.rows {
        8 => [None, doubled(0xc)],
        32 => [doubled(0xc), None],
        _ => [doubled(4), Some(select.bitwise_and(lane, 8_u32.into()))],
    }
}
