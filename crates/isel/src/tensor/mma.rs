//! `mma.sync`: matrix products with elements distributed over the registers of a warp.
//!
//! Most forms are one machine instruction. A target that lacks the instruction gets an equivalent sequence ([`super::expand`]): 4-bit integers
//! and bits as bytes, 8-bit floats as f16, products of doubles in parts of 8x8x4. [`super::sparse`] selects products of sparse
//! matrices, [`super::scaled`] those with `.kind::`, [`super::quad`] products of eight threads.

use oriole_ir::{Class, Operand, RegFile};
use oriole_ptx::ast;
use oriole_ptx::table::{Modifier, Slot};
use oriole_ptx::types::ScalarType;

use super::{expand, quad, scaled, sparse};
use crate::error::Unsupported;
use crate::ptx::Ptx;
use crate::select::Select;

/// A matrix product and its operands.
pub(super) struct Product {
    /// Rows of A; B always has eight columns.
    pub rows: u32,
    /// Length of the rows of A, stored or not, and of the columns of B, in elements.
    pub depth: u32,
    pub a_type: ScalarType,
    pub b_type: ScalarType,
    /// Type of C and D.
    pub result_type: ScalarType,
    /// The 32-bit registers of the matrices; a double is two of them.
    pub a: Vec<Operand>,
    pub b: Vec<Operand>,
    pub c: Vec<Operand>,
    /// `.satfinite`: the result is clamped instead of wrapped.
    pub clamps: bool,
    /// `.xor` instead of `.and` for bits.
    pub is_xor: bool,
    /// Rounding of a product of doubles in the machine's spelling.
    pub rounding: &'static str,
}

impl Product {
    /// Returns the shape in the machine's spelling: `16816`.
    pub fn shape(&self) -> String {
        format!("{}8{}", self.rows, self.depth)
    }
}

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

/// Assigns the registers of a matrix to the elements of an operand.
pub(super) fn assign(select: &mut Select<'_>, operand: ast::Operand, ty: ScalarType, registers: &[Operand]) -> Result<(), Unsupported> {
    let words_per_element = if ty == ScalarType::F64 { 2 } else { 1 };
    for (words, destination) in registers.chunks(words_per_element).zip(select.elements(operand)) {
        match *words {
            [low, high] => select.assign_halves(destination, low, high)?,
            _ => select.assign(destination, words[0])?,
        }
    }
    Ok(())
}

/// Returns the rounding of a product of doubles in the machine's spelling.
pub(super) fn rounding(modifier: Option<Modifier>) -> &'static str {
    match modifier {
        Some(Modifier::Rz) => ".RZ",
        Some(Modifier::Rm) => ".RM",
        Some(Modifier::Rp) => ".RP",
        _ => "",
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

/// Returns the 32-bit registers of a matrix operand.
pub(super) fn fragment(select: &mut Select<'_>, operand: ast::Operand, ty: ScalarType) -> Result<Vec<Operand>, Unsupported> {
    let mut words = Vec::new();
    for element in select.elements(operand) {
        if ty == ScalarType::F64 {
            words.extend(select.halves(element, ScalarType::F64)?);
        } else {
            words.push(select.source(element, ScalarType::B32)?);
        }
    }
    Ok(words)
}

/// Returns the class of a matrix operand. Operands of 8 and 16 registers, which products of doubles have, must be aligned to their size: with
/// less the H200 reports an illegal instruction, and ptxas always aligns them so.
pub(super) fn class(width: usize) -> Class {
    let width = width as u8;
    Class { align: width.next_power_of_two(), ..Class::new(RegFile::General, width) }
}

/// Packs registers into one operand of a matrix instruction.
pub(super) fn tuple(select: &mut Select<'_>, words: &[Operand]) -> Operand {
    let words: Vec<Operand> = words.iter().map(|&word| select.in_register(word)).collect();
    match words[..] {
        [single] => single,
        _ => select.b.pack(class(words.len()), &words),
    }
}

/// Emits a matrix instruction `name d, a, b, c` and returns the registers of the result. `None` for `c` is a matrix of zeros, for which
/// `width` gives the number of registers.
pub(super) fn emit(select: &mut Select<'_>, name: &str, suffixes: [&str; 2], a: &[Operand], b: &[Operand], c: Start<'_>) -> Vec<Operand> {
    let (a, b) = (tuple(select, a), tuple(select, b));
    let [a_suffix, b_suffix] = suffixes;
    let (width, result) = match c {
        Start::Matrix(words) => {
            let c = tuple(select, words);
            (words.len(), select.b.define(class(words.len()), &format!("{name} $, {{}}{a_suffix}, {{}}{b_suffix}, {{}}"), &[a, b, c]))
        }
        Start::Zero { width } => (width, select.b.define(class(width), &format!("{name} $, {{}}{a_suffix}, {{}}{b_suffix}, RZ"), &[a, b])),
    };
    (0..width).map(|index| select.register_of(result, index as u8)).collect()
}

/// The matrix that a product is added to.
#[derive(Clone, Copy)]
pub(super) enum Start<'w> {
    Matrix(&'w [Operand]),
    /// Zeros; the result has `width` registers.
    Zero {
        width: usize,
    },
}

/// Suffixes of the operands of integer matrix instructions: A by rows, B by columns.
pub(super) const ROW_COLUMN: [&str; 2] = [".ROW", ".COL"];
/// Floating-point matrix instructions have no such suffixes.
pub(super) const PLAIN: [&str; 2] = ["", ""];

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
