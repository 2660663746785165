//! `mma.m8n8k4` on f16: four products at once, each of eight threads.
//!
//! Threads 0 to 3 and 16 to 19 compute one product, threads 4 to 7 and 20 to 23 the next, and so on. Volta has an instruction for a part of
//! the result (`HMMA.884`): two registers of D in f32, or four columns in f16. Newer targets have no instruction for
//! this shape, so threads exchange their elements with shuffles and multiply in single precision. (The sequence that ptxas 13.0.88 calls on
//! sm_80 and later exchanges nothing, and its results are not those of the manual.)
//!
//! With t the number of a thread modulo 4, and h = 1 for threads 16 to 31, a thread has these elements of the matrices:
//!
//! | matrix | elements |
//! |---|---|
//! | A by rows | row t + 4h, columns 0 to 3 |
//! | A by columns | rows 4h to 4h + 3, column t |
//! | B by rows | row t, columns 4h to 4h + 3 |
//! | B by columns | rows 0 to 3, column t + 4h |
//! | C, D of f16 | row t + 4h, columns 0 to 7 |
//! | C, D of f32 | element i: row (t & 1) + (i & 2) + 4h, column (i & 4) + (t & 2) + (i & 1) |

use oriole_ir::{Class, Operand};
use oriole_ptx::table::{Modifier, Slot};
use oriole_ptx::types::ScalarType;

use crate::context::Select;
use crate::error::Unsupported;
use crate::ptx::Ptx;
use crate::tensor::half_results::{narrowed, widened};
use crate::tensor::product;
use crate::tensor::product::{Start, assign, fragment};

/// Number of columns of A and rows of B.
const DEPTH: u32 = 4;

/// The threads of a product, as this thread sees them.
struct Quad {
    /// Number of the first thread of the four that this thread belongs to.
    own: Operand,
    /// Number of the first thread of the lower four.
    base: Operand,
    /// Bits 0 and 1 of the number of this thread.
    bits: [Operand; 2],
    /// Whether these bits are set.
    is_set: [Operand; 2],
}

/// Selects `mma.m8n8k4` on f16.
pub(super) fn multiply(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let types = ptx.types();
    let [d_type, _, _, c_type] = types[..] else { return select.unsupported(ptx) };
    let [a, b] = [fragment(select, ptx.operand(1), ScalarType::F16)?, fragment(select, ptx.operand(2), ScalarType::F16)?];
    let c = fragment(select, ptx.operand(3), c_type)?;
    let [a_is_by_rows, b_is_by_rows] = [Slot::Alayout, Slot::Blayout].map(|slot| ptx.get(slot) == Some(Modifier::Row));
    if are_used(select, ptx) {
        let results = product(select, [&a, &b], &c, Layouts { a_is_by_rows, b_is_by_rows }, [d_type, c_type]);
        return assign(select, ptx.operand(0), d_type, &results);
    }
    let quad = quad(select);
    // Positions (row, column) of the elements of D in the lists below.
    let (rows, columns, sums) = if d_type == ScalarType::F16 {
        let rows = vec![own_row(select, &quad, &a, a_is_by_rows)];
        let columns: Vec<[Operand; 4]> = all_columns(select, &quad, &b, b_is_by_rows);
        let sums = widened(select, &c);
        (rows, columns, (0..8).map(|column| (0, column, sums[column])).collect::<Vec<_>>())
    } else {
        let rows: Vec<[Operand; 4]> = [0, 2].map(|offset| row_of_pair(select, &quad, &a, a_is_by_rows, offset)).to_vec();
        let columns: Vec<[Operand; 4]> = [0, 1, 4, 5].map(|offset| column_of_pair(select, &quad, &b, b_is_by_rows, offset)).to_vec();
        let c = if c_type == ScalarType::F16 { spread(select, &quad, &c) } else { c };
        let place = |i: usize| (i >> 1 & 1, (i >> 2 << 1) + (i & 1));
        (rows, columns, (0..8).map(|i| (place(i).0, place(i).1, c[i])).collect())
    };
    let mut results = Vec::new();
    for (row, column, mut sum) in sums {
        for k in 0..DEPTH as usize {
            sum = select.b.define(Class::R, "FFMA $, {}, {}, {}", &[rows[row][k], columns[column][k], sum]);
        }
        results.push(sum);
    }
    let results = if d_type == ScalarType::F16 { narrowed(select, &results) } else { results };
    assign(select, ptx.operand(0), d_type, &results)
}

/// Which of the matrices A and B are distributed by rows.
#[derive(Clone, Copy)]
pub(super) struct Layouts {
    pub a_is_by_rows: bool,
    pub b_is_by_rows: bool,
}

/// Returns whether the target has `HMMA.884`.
pub(super) fn has_instruction(select: &Select<'_>) -> bool {
    select.encodes("HMMA.884.F32.F32.STEP0 R0, R0.ROW, R0.COL, R0")
}

/// Emits the steps of a product with `HMMA.884`, as ptxas 12.9 does for sm_70; returns the registers of D. A step writes two registers. In
/// f32 these are elements 2s and 2s + 1 of D for step s, in f16 columns 4s to 4s + 3. A step that converts C from f16 to f32 reads the two
/// registers of C with its four columns.
pub(super) fn product(
    select: &mut Select<'_>,
    [a, b]: [&[Operand]; 2],
    c: &[Operand],
    layouts: Layouts,
    [d_type, c_type]: [ScalarType; 2],
) -> Vec<Operand> {
    let name = |ty: ScalarType| if ty == ScalarType::F16 { "F16" } else { "F32" };
    let suffixes = [layouts.a_is_by_rows, layouts.b_is_by_rows].map(|is_by_rows| if is_by_rows { ".ROW" } else { ".COL" });
    let steps = if d_type == ScalarType::F16 { 2 } else { 4 };
    let mut results = Vec::new();
    for step in 0..steps {
        let first = if c_type == d_type { 2 * step } else { step / 2 * 2 };
        let instruction = format!("HMMA.884.{}.{}.STEP{step}", name(d_type), name(c_type));
        results.extend(product::emit(select, &instruction, suffixes, a, b, Start::Matrix(&c[first..first + 2])));
    }
    results
}

/// Converts the registers of a matrix D in f32 to f16, where a thread has a whole row. Word j of the row, with columns 2j and 2j + 1, comes
/// from thread (t & 1) + 2 * (j & 1), which has it as elements i and i + 1 with i = (t & 2) + 2 * (j & 2).
pub(super) fn gathered(select: &mut Select<'_>, singles: &[Operand]) -> Vec<Operand> {
    let quad = quad(select);
    let pairs = narrowed(select, singles);
    let even = select.logic(0xfc, quad.own, quad.bits[0], Operand::RZ);
    let lanes = [even, lane_at(select, even, 2)];
    (0..4)
        .map(|word| {
            let [low, high] = [0, 1].map(|upper| fetch(select, pairs[(word & 2) + upper], lanes[word & 1]));
            select.select_by_predicate(quad.is_set[1], high, low)
        })
        .collect()
}

/// Emits what depends on the number of the thread only. The warp may have diverged, and a shuffle reads registers of active threads only, so
/// the warp reconverges first.
fn quad(select: &mut Select<'_>) -> Quad {
    select.reconverge_warp();
    let lane = select.b.define(Class::R, "S2R $, SR_LANEID", &[]);
    let [own, base] = [0x1c_u32, 0xc].map(|mask| select.bitwise_and(lane, mask.into()));
    let bits = [1_u32, 2].map(|bit| select.bitwise_and(lane, bit.into()));
    let is_set = bits.map(|bit| select.compare_words("NE", false, bit, Operand::RZ));
    Quad { own, base, bits, is_set }
}

/// Emits a shuffle: the register of another thread. All threads of the warp take part.
fn fetch(select: &mut Select<'_>, register: Operand, lane: Operand) -> Operand {
    let register = select.in_register(register);
    let template = "SHFL.IDX $, $, {}, {}, 0x1f";
    select.b.define_two([Class::P, Class::R], template, &[register, lane]).1
}

/// Returns four singles of two registers.
fn singles(select: &mut Select<'_>, registers: [Operand; 2]) -> [Operand; 4] {
    let singles = widened(select, &registers);
    [0, 1, 2, 3].map(|at| singles[at])
}

/// Returns the two registers of a matrix in thread `lane`.
fn fetch_pair(select: &mut Select<'_>, registers: &[Operand], lane: Operand) -> [Operand; 2] {
    [0, 1].map(|at| fetch(select, registers[at], lane))
}

/// Returns a thread number plus a constant.
fn lane_at(select: &mut Select<'_>, base: Operand, offset: u32) -> Operand {
    if offset == 0 { base } else { select.logic(0xfc, base, offset.into(), Operand::RZ) }
}

/// Returns the half of a register that bit 0 of the thread number selects, as a single.
fn half_by_thread(select: &mut Select<'_>, quad: &Quad, register: Operand) -> Operand {
    let both = widened(select, &[register]);
    select.select_by_predicate(quad.is_set[0], both[1], both[0])
}

/// Returns the elements of A in the row of this thread.
fn own_row(select: &mut Select<'_>, quad: &Quad, a: &[Operand], is_by_rows: bool) -> [Operand; 4] {
    if is_by_rows {
        return singles(select, [a[0], a[1]]);
    }
    [0, 1, 2, 3].map(|k| {
        let lane = lane_at(select, quad.own, k);
        let pair = fetch_pair(select, a, lane);
        let word = select.select_by_predicate(quad.is_set[1], pair[1], pair[0]);
        half_by_thread(select, quad, word)
    })
}

/// Returns all columns of B.
fn all_columns(select: &mut Select<'_>, quad: &Quad, b: &[Operand], is_by_rows: bool) -> Vec<[Operand; 4]> {
    let mut all = Vec::new();
    for thread in [0, 1, 2, 3, 16, 17, 18, 19] {
        let lane = lane_at(select, quad.base, thread);
        let pair = fetch_pair(select, b, lane);
        all.push(singles(select, pair));
    }
    if !is_by_rows {
        return all;
    }
    // Thread k of each half has row k of four columns.
    (0..8).map(|column: usize| [0, 1, 2, 3].map(|k| all[column / 4 * 4 + k][column % 4])).collect()
}

/// Returns the elements of A in row (t & 1) + offset + 4h.
fn row_of_pair(select: &mut Select<'_>, quad: &Quad, a: &[Operand], is_by_rows: bool, offset: u32) -> [Operand; 4] {
    if is_by_rows {
        let lane = select.logic(0xfc, quad.own, quad.bits[0], Operand::RZ);
        let lane = lane_at(select, lane, offset);
        let pair = fetch_pair(select, a, lane);
        return singles(select, pair);
    }
    [0, 1, 2, 3].map(|k| {
        let lane = lane_at(select, quad.own, k);
        let word = fetch(select, a[offset as usize / 2], lane);
        half_by_thread(select, quad, word)
    })
}

/// Returns the elements of B in column (t & 2) + offset.
fn column_of_pair(select: &mut Select<'_>, quad: &Quad, b: &[Operand], is_by_rows: bool, offset: u32) -> [Operand; 4] {
    let half = offset / 4 * 16;
    if !is_by_rows {
        let lane = select.logic(0xfc, quad.base, quad.bits[1], Operand::RZ);
        let lane = lane_at(select, lane, half + offset % 4);
        let pair = fetch_pair(select, b, lane);
        return singles(select, pair);
    }
    [0, 1, 2, 3].map(|k| {
        let lane = lane_at(select, quad.base, half + k);
        let pair = fetch_pair(select, b, lane);
        let word = select.select_by_predicate(quad.is_set[1], pair[1], pair[0]);
        widened(select, &[word])[offset as usize % 2]
    })
}

/// Returns the elements of C, which each thread has for one row, in the places of a matrix of singles.
fn spread(select: &mut Select<'_>, quad: &Quad, c: &[Operand]) -> Vec<Operand> {
    let lane = select.logic(0xfc, quad.own, quad.bits[0], Operand::RZ);
    let mut rows: Vec<Vec<Operand>> = Vec::new();
    for offset in [0, 2] {
        let lane = lane_at(select, lane, offset);
        let words: Vec<Operand> = c.iter().map(|&word| fetch(select, word, lane)).collect();
        let mut row = Vec::new();
        for first in [0, 2] {
            let word = select.select_by_predicate(quad.is_set[1], words[first + 1], words[first]);
            row.extend(widened(select, &[word]));
        }
        rows.push(row);
    }
    (0..8).map(|i: usize| rows[i >> 1 & 1][(i >> 2 << 1) + (i & 1)]).collect()
}

/// Returns whether the target multiplies the matrices of a `wmma` instruction with `HMMA.884`. Integers, which sm_72 has too, are multiplied
/// with `IMMA.8816` as on Turing, and have the same fragments.
pub(super) fn are_used(select: &Select<'_>, ptx: &Ptx<'_>) -> bool {
    let has_floats = ptx.types().iter().all(|ty| matches!(ty, ScalarType::F16 | ScalarType::F32));
    has_floats && has_instruction(select) && !select.encodes("HMMA.1688.F32 R0, R0, R0, R0")
}
