//! A matrix product and its operands, and the emission of one matrix instruction.

use oriole_ir::{Class, Operand, RegFile};
use oriole_ptx::ast;
use oriole_ptx::table::Modifier;
use oriole_ptx::types::ScalarType;

use crate::context::Select;
use crate::error::Unsupported;

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
