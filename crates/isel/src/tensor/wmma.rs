//! `wmma.mma`: matrix products of fragments, as products of the smaller matrices that the machine multiplies.

use oriole_ir::{Class, Operand};
use oriole_ptx::ast;
use oriole_ptx::table::{Modifier, Slot};
use oriole_ptx::types::ScalarType;

use super::fragment::{Fragment, Matrix, Shape};
use super::mma::{self, Product};
use super::quad_fragments;
use crate::error::Unsupported;
use crate::half;
use crate::ptx::Ptx;
use crate::select::Select;

/// Columns of the second operand of every matrix instruction.
const COLUMNS: u32 = 8;

/// Selects `wmma.mma`.
pub(crate) fn multiply_fragments(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    if quad_fragments::are_used(select, ptx) {
        return quad_fragments::multiply(select, ptx);
    }
    let Some([rows, columns, depth]) = ptx.matrix_shape() else { return select.unsupported(ptx) };
    let shape = Shape { rows, columns, depth };
    let [result_type, a_type, b_type, c_type] = match ptx.types()[..] {
        // Products of f16 name only D and C.
        [d, c] => [d, ScalarType::F16, ScalarType::F16, c],
        [d, a, b, c] => [d, a, b, c],
        _ => return select.unsupported(ptx),
    };
    let a = registers(select, ptx.operand(1), Fragment::of(Matrix::A, shape, a_type), a_type)?;
    let b = registers(select, ptx.operand(2), Fragment::of(Matrix::B, shape, b_type), b_type)?;
    let mut c = mma::fragment(select, ptx.operand(3), c_type)?;
    // A sum in single precision unless both C and D are f16.
    let sum_type = if result_type == c_type { c_type } else { ScalarType::F32 };
    if sum_type != c_type {
        c = widened(select, &c);
    }
    let (first, second) = if shape.is_swapped() { ((b, b_type), (a, a_type)) } else { ((a, a_type), (b, b_type)) };
    let blocks = blocks(shape);
    let [a_width, b_width] = [first.0.len() / blocks.first, second.0.len() / blocks.second];
    let c_width = c.len() / (blocks.first * blocks.second);
    let mut sums = Vec::new();
    for block in 0..blocks.first * blocks.second {
        let (tall, flat) = (block / blocks.second, block % blocks.second);
        let product = Product {
            rows: blocks.height,
            depth,
            a_type: first.1,
            b_type: second.1,
            result_type: sum_type,
            a: first.0[tall * a_width..][..a_width].to_vec(),
            b: second.0[flat * b_width..][..b_width].to_vec(),
            c: c[block * c_width..][..c_width].to_vec(),
            clamps: ptx.has(Modifier::Satfinite) && result_type == ScalarType::S32,
            is_xor: ptx.has(Modifier::Xor),
            rounding: mma::rounding(ptx.get(Slot::Rnd)),
        };
        let Some(sum) = mma::product(select, &product) else { return select.unsupported(ptx) };
        sums.extend(sum);
    }
    if sum_type != result_type {
        sums = narrowed(select, &sums);
    }
    if ptx.has(Modifier::Satfinite) && result_type != ScalarType::S32 {
        sums = sums.into_iter().map(|sum| finite(select, sum, result_type)).collect();
    }
    mma::assign(select, ptx.operand(0), result_type, &sums)
}

/// Bits of infinity.
const INFINITY: u32 = 0x7f80_0000;
const HALF_INFINITY: u32 = 0x7c00;

/// Replaces infinities in a result by the greatest numbers, and NaN by zero: `.satfinite` of floats, which PTX had up to version 6.4. ptxas
/// 13.0 does so on sm_75 only; for later targets it ignores the modifier.
pub(super) fn finite(select: &mut Select<'_>, word: Operand, ty: ScalarType) -> Operand {
    let word = select.in_register(word);
    if ty == ScalarType::F32 {
        return finite_number(select, word, INFINITY, i32::MAX as u32);
    }
    let low = select.bitwise_and(word, 0xffff_u32.into());
    let high = select.shift_right(word, 16_u32.into(), false);
    let [low, high] = [low, high].map(|half| finite_number(select, half, HALF_INFINITY, i16::MAX as u32));
    select.b.define(Class::R, "PRMT $, {}, 0x5410, {}", &[low, high])
}

/// Replaces an infinity by the number before it, and NaN by zero. `magnitude` masks the sign.
fn finite_number(select: &mut Select<'_>, number: Operand, infinity: u32, magnitude: u32) -> Operand {
    let size = select.bitwise_and(number, magnitude.into());
    let greatest = select.difference(number, 1_u32.into());
    let is_infinity = select.compare_words("EQ", false, size, infinity.into());
    let clamped = select.select_by_predicate(is_infinity, greatest, number);
    let is_nan = select.compare_words("GT", false, size, infinity.into());
    select.select_by_predicate(is_nan, Operand::RZ, clamped)
}

/// The parts that a product is computed in.
struct Blocks {
    /// Number of parts of the first operand, and rows of each.
    first: usize,
    height: u32,
    /// Number of parts of the second operand.
    second: usize,
}

/// Divides a product into blocks that matrix instructions compute.
fn blocks(shape: Shape) -> Blocks {
    let [tall, flat] = if shape.is_swapped() { [shape.columns, shape.rows] } else { [shape.rows, shape.columns] };
    let height = tall.min(16);
    Blocks { first: (tall / height) as usize, height, second: (flat / COLUMNS) as usize }
}

/// Returns the different registers of a fragment. Of f16 the PTX list has eight registers even if a thread holds fewer elements; it then
/// repeats them.
fn registers(select: &mut Select<'_>, operand: ast::Operand, fragment: Fragment, ty: ScalarType) -> Result<Vec<Operand>, Unsupported> {
    let count = fragment.units.len() * (fragment.unit_bytes() as usize / 4);
    let mut registers = mma::fragment(select, operand, ty)?;
    registers.truncate(count);
    Ok(registers)
}

/// Converts pairs of halves to singles.
pub(super) fn widened(select: &mut Select<'_>, pairs: &[Operand]) -> Vec<Operand> {
    let mut singles = Vec::new();
    for &pair in pairs {
        let pair = select.in_register(pair);
        let upper = select.b.define(Class::R, "PRMT $, {}, 0x7732, RZ", &[pair]);
        singles.extend([pair, upper].map(|half| half::to_single(select, half, ScalarType::F16)));
    }
    singles
}

/// Converts singles to pairs of halves, rounded to the nearest.
pub(super) fn narrowed(select: &mut Select<'_>, singles: &[Operand]) -> Vec<Operand> {
    let pack = ["F2FP.F16.F32.PACK_AB", "F2FP.PACK_AB"].into_iter().find(|name| select.encodes(&format!("{name} R0, R1, R2")));
    let mut pairs = Vec::new();
    for pair in singles.chunks(2) {
        let (low, high) = (pair[0], pair[1]);
        pairs.push(match pack {
            Some(name) => select.b.define(Class::R, &format!("{name} $, {{}}, {{}}"), &[high, low]),
            None => {
                let [low, high] = [low, high].map(|single| select.b.define(Class::R, "F2F.F16.F32 $, {}", &[single]));
                select.b.define(Class::R, "PRMT $, {}, 0x5410, {}", &[low, high])
            }
        });
    }
    pairs
}
