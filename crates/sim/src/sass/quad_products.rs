//! `HMMA.884`, the matrix instruction of Volta: one step of four products of 8 x 8 x 4, each of eight threads.
//!
//! Threads 0 to 3 and 16 to 19 compute the first product, threads 4 to 7 and 20 to 23 the second, and so on. With t the number of a thread
//! modulo 4 and h = 1 for threads 16 to 31, a thread has row t + 4h of A (`.ROW`) or rows 4h to 4h + 3 of column t (`.COL`), and
//! likewise columns 4h to 4h + 3 of row t of B, or column t + 4h. A step computes two registers of D:
//!
//! - `.F16`: columns 4s to 4s + 3 of row t + 4h, for step s of two,
//! - `.F32`: the elements i = 2s and 2s + 1, for step s of four, in row (t & 1) + (i & 2) + 4h and column (i & 4) + (t & 2) + (i & 1).
//!
//! C has the place of D, except in steps that read f16 and write f32 (`.F32.F16`): these read columns 4 * (s / 2) to 4 * (s / 2) + 3 in the
//! places of f16.
//!
//! The elements are those of the PTX manual for `mma.m8n8k4`; the registers of each step are those in code of ptxas 12.9 for it.

use oriole_sem::convert::{Overflow, float_to_float};
use oriole_sem::float::Mode;
use oriole_sem::format::{F16, F32};
use oriole_sem::tensor::{Accumulator, TensorCore};

use super::memory::matrix::whole_warp;
use super::site::Site;
use super::step::{Built, access};
use super::tensor::{matrix, register};
use super::warp::{LANES, Row, Warp};

/// Depth of the products.
const DEPTH: usize = 4;
/// Rows and columns of a product.
const SIZE: usize = 8;

/// A step of the products.
#[derive(Clone, Copy)]
struct ProductStep {
    number: usize,
    d_is_half: bool,
    c_is_half: bool,
}

/// Reads the formats of D and C and the number of the step: `.884.F32.F16.STEP2`.
fn step(site: &Site<'_>) -> Option<ProductStep> {
    let words: Vec<&str> = site.instruction.modifiers.iter().flat_map(|modifier| modifier.spelling().split('.')).collect();
    let mut formats = words.iter().filter(|word| matches!(**word, "F16" | "F32")).map(|&word| word == "F16");
    let (d_is_half, c_is_half) = (formats.next()?, formats.next()?);
    let number = words.iter().find_map(|word| word.strip_prefix("STEP"))?.parse().ok()?;
    let steps = if d_is_half { 2 } else { 4 };
    (number < steps && (c_is_half || !d_is_half)).then_some(ProductStep { number, d_is_half, c_is_half })
}

/// Row and column of an element.
type ElementPosition = (usize, usize);

/// Returns a thread's number modulo 4, and 4 for threads 16 to 31.
fn place(lane: usize) -> (usize, usize) {
    (lane % 4, lane / 16 * 4)
}

/// Returns the place in A of half `i` of a thread.
fn in_a(lane: usize, i: usize, is_by_rows: bool) -> ElementPosition {
    let (t, upper) = place(lane);
    if is_by_rows { (t + upper, i) } else { (i + upper, t) }
}

/// Returns the place in B of half `i` of a thread.
fn in_b(lane: usize, i: usize, is_by_rows: bool) -> ElementPosition {
    let (t, upper) = place(lane);
    if is_by_rows { (t, i + upper) } else { (i, t + upper) }
}

/// Returns the place in C or D of an element of a step.
fn in_sum(lane: usize, step: usize, element: usize, is_half: bool) -> ElementPosition {
    let (t, upper) = place(lane);
    if is_half {
        return (t + upper, 4 * step + element);
    }
    let i = 2 * step + element;
    ((t & 1) + (i & 2) + upper, (i & 4) + (t & 2) + (i & 1))
}

/// Builds a step.
pub fn build(site: &Site<'_>, core: TensorCore) -> Built {
    let ProductStep { number: step, d_is_half, c_is_half } = step(site).ok_or_else(|| site.unsupported("this step of a matrix product"))?;
    if site.has(".SATFINITE") {
        return Err(site.unsupported("matrix products with .SATFINITE"));
    }
    let mut operands = site.operands();
    let d = operands.wide_destination(2)?;
    let a = matrix(&mut operands, 2)?;
    let a_is_by_rows = operands.last_has(".ROW");
    let b = matrix(&mut operands, 2)?;
    let b_is_by_rows = operands.last_has(".ROW");
    let c = matrix(&mut operands, 2)?;
    // A step that converts C reads the columns of half a product.
    let c_step = if c_is_half && !d_is_half { step / 2 } else { step };
    Ok(access(move |warp, _, mask| {
        whole_warp(warp, mask)?;
        let a = halves(warp, a, |lane, i| in_a(lane, i, a_is_by_rows));
        let b = halves(warp, b, |lane, i| in_b(lane, i, b_is_by_rows));
        let c = if c_is_half {
            halves(warp, c, |lane, i| in_sum(lane, c_step, i, true))
        } else {
            singles(warp, c, |lane, i| in_sum(lane, c_step, i, false))
        };
        let accumulator = if d_is_half { Accumulator::Half } else { Accumulator::Single };
        let element = |lane: usize, number: usize| {
            let product = lane / 4 % 4;
            let (row, column) = in_sum(lane, step, number, d_is_half);
            let [a, b] = [&a, &b].map(|matrix| &matrix[product]);
            let a: Vec<u64> = (0..DEPTH).map(|k| a[row][k]).collect();
            let b: Vec<u64> = (0..DEPTH).map(|k| b[k][column]).collect();
            let c = c[product][row][column];
            let c = if c_is_half && !d_is_half { float_to_float(F32, F16, c, Mode::RN, Overflow::Ieee) } else { c };
            core.dot([F16; 2], 16, &a, &b, c, accumulator) as u32
        };
        let results: [[u32; LANES]; 2] = [0, 1].map(|number| {
            std::array::from_fn(|lane| {
                if d_is_half { element(lane, 2 * number) | element(lane, 2 * number + 1) << 16 } else { element(lane, number) }
            })
        });
        for (number, values) in results.iter().enumerate() {
            warp.write(d.plus(number as u16), !0, values);
        }
        Ok(())
    }))
}

/// The elements of a matrix of each product, by row and column.
type QuadElements = [[[u64; SIZE]; SIZE]; 4];

/// Collects the four halves of each thread.
fn halves(warp: &Warp, first: Option<Row>, place: impl Fn(usize, usize) -> ElementPosition) -> QuadElements {
    let mut elements = QuadElements::default();
    for (number, words) in [0, 1].map(|number| register(warp, first, number)).into_iter().enumerate() {
        for (lane, word) in words.into_iter().enumerate() {
            for (half, value) in [word & 0xffff, word >> 16].into_iter().enumerate() {
                let (row, column) = place(lane, 2 * number + half);
                elements[lane / 4 % 4][row][column] = value.into();
            }
        }
    }
    elements
}

/// Collects the two singles of each thread.
fn singles(warp: &Warp, first: Option<Row>, place: impl Fn(usize, usize) -> ElementPosition) -> QuadElements {
    let mut elements = QuadElements::default();
    for (number, words) in [0, 1].map(|number| register(warp, first, number)).into_iter().enumerate() {
        for (lane, word) in words.into_iter().enumerate() {
            let (row, column) = place(lane, number);
            elements[lane / 4 % 4][row][column] = word.into();
        }
    }
    elements
}
