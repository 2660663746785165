//! `mma.sync`: matrix products with elements distributed over the registers of a warp.
//!
//! Most forms are one machine instruction. A target that lacks the instruction gets an equivalent sequence ([`super::expand`]): 4-bit integers
//! and bits as bytes, 8-bit floats as f16, products of doubles in parts of 8x8x4. [`super::sparse`] selects products of sparse
//! matrices, [`super::scaled`] those with `.kind::`, [`super::quad`] products of eight threads.

use oriole_ir::Operand;
use oriole_ptx::table::{Modifier, Slot};
use oriole_ptx::types::ScalarType;

use super::{expand, quad, scaled, sparse};
use crate::context::Select;
use crate::error::Unsupported;
use crate::ptx::Ptx;
use crate::tensor::product::{PLAIN, Product, Start, assign, emit, fragment, rounding};

/// Selects `mma.sync` and `mma.sp`.
pub(crate) fn multiply(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    // `m8n8k4` on f16 is four products of quarters of the warp.
    if ptx.matrix_shape().is_some_and(|[rows, ..]| rows == 8) && ptx.types().get(1) == Some(&ScalarType::F16) {
        return quad::multiply(select, ptx);
    }
    let product = read(select, ptx)?;
    let is_sparse = ptx.has(Modifier::Sp) || ptx.has(Modifier::SpOrderedMetadata);
    let result = if scaled::needs_kind(ptx, &product) {
        scaled::multiply(select, ptx, &product)?
    } else if is_sparse {
        sparse::multiply(select, ptx, &product)?
    } else {
        let Some(result) = self::product(select, &product) else { return select.unsupported(ptx) };
        result
    };
    assign(select, ptx.operand(0), product.result_type, &result)
}

/// Emits a product and returns the registers of the result, or `None` if the target cannot compute it.
pub(super) fn product(select: &mut Select<'_>, product: &Product) -> Option<Vec<Operand>> {
    match product.a_type {
        ScalarType::F64 => expand::doubles(select, product),
        ScalarType::B1 => expand::bits(select, product),
        ScalarType::E4m3 | ScalarType::E5m2 => expand::eight_bit_floats(select, product),
        ScalarType::F16 | ScalarType::Bf16 | ScalarType::Tf32 => floats(select, product),
        ScalarType::S8 | ScalarType::U8 | ScalarType::S4 | ScalarType::U4 => expand::integers(select, product),
        _ => None,
    }
}

/// Reads the form and the operands.
fn read(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<Product, Unsupported> {
    let types = ptx.types();
    // A product with scales has their type at the end.
    let (Some([rows, columns, depth]), [d, a_type, b_type, c, ..]) = (ptx.matrix_shape(), &types[..]) else {
        return select.unsupported(ptx);
    };
    if columns != 8 || d != c {
        return select.unsupported(ptx);
    }
    Ok(Product {
        rows,
        depth,
        a_type: *a_type,
        b_type: *b_type,
        result_type: *d,
        a: fragment(select, ptx.operand(1), *a_type)?,
        b: fragment(select, ptx.operand(2), *b_type)?,
        c: fragment(select, ptx.operand(3), *c)?,
        clamps: ptx.has(Modifier::Satfinite),
        is_xor: ptx.has(Modifier::Xor),
        rounding: rounding(ptx.get(Slot::Rnd)),
    })
}

/// Selects products of f16, bf16 and tf32.
fn floats(select: &mut Select<'_>, product: &Product) -> Option<Vec<Operand>> {
    let ty = match product.a_type {
        ScalarType::Bf16 => ".BF16",
        ScalarType::Tf32 => ".TF32",
        _ => "",
    };
    let result = if product.result_type == ScalarType::F16 { ".F16" } else { ".F32" };
    let name = format!("HMMA.{}{result}{ty}", product.shape());
    if select.encodes(&format!("{name} R0, R0, R0, R0")) {
        return Some(emit(select, &name, PLAIN, &product.a, &product.b, Start::Matrix(&product.c)));
    }
    // Turing multiplies matrices of depth 8 only.
    let name = format!("HMMA.1688{result}{ty}");
    let mut sum = product.c.clone();
    for (a, b) in product.a.chunks(2).zip(&product.b) {
        sum = emit(select, &name, PLAIN, a, &[*b], Start::Matrix(&sum));
    }
    Some(sum)
}
