//! `wmma.mma`: matrix products of fragments, as products of the smaller matrices that the machine multiplies.

use oriole_ir::Operand;
use oriole_ptx::ast;
use oriole_ptx::table::{Modifier, Slot};
use oriole_ptx::types::ScalarType;

use super::fragment::{Fragment, Matrix, Shape};
use super::mma;
use super::quad_fragments;
use crate::context::Select;
use crate::error::Unsupported;
use crate::ptx::Ptx;
use crate::tensor::half_results::{finite, narrowed, widened};
use crate::tensor::product;
use crate::tensor::product::Product;
use crate::tensor::quad;

/// Columns of the second operand of every matrix instruction.
const COLUMNS: u32 = 8;

/// Selects `wmma.mma`.
pub(crate) fn multiply_fragments(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    if quad::are_used(select, ptx) {
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
    let mut c = product::fragment(select, ptx.operand(3), c_type)?;
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
            rounding: product::rounding(ptx.get(Slot::Rnd)),
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
    product::assign(select, ptx.operand(0), result_type, &sums)
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
    let mut registers = product::fragment(select, operand, ty)?;
    registers.truncate(count);
    Ok(registers)
}
