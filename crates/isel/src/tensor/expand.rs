//! Matrix products of types that only some targets have instructions for, and their expansions.
//!
//! Sums of integers are exact, so the order of the elements along the depth does not matter as long as A and B agree. The expansions use
//! this: they split each register of A and B in the same way, and multiply the parts in any order.

use oriole_ir::{Class, Operand};
use oriole_isa::SystemLayout;
use oriole_ptx::types::ScalarType;

use crate::context::Select;
use crate::tensor::product::{PLAIN, Product, ROW_COLUMN, Start, emit};

/// Depth of `IMMA.16832`, in bytes.
const BYTE_DEPTH: u32 = 32;

/// Selects products of doubles. Targets without the larger shapes compute blocks of 8 rows and depth 4, in the same order.
pub(super) fn doubles(select: &mut Select<'_>, product: &Product) -> Option<Vec<Operand>> {
    let Product { rows, depth, rounding, .. } = *product;
    let whole = format!("DMMA.{rows}x8x{depth}{rounding}");
    if select.encodes(&format!("{whole} R0, R0, R0, R0")) {
        return Some(emit(select, &whole, PLAIN, &product.a, &product.b, Start::Matrix(&product.c)));
    }
    let small = ["8x8x4", "884"].into_iter().map(|shape| format!("DMMA.{shape}{rounding}"));
    let small = small.into_iter().find(|name| select.encodes(&format!("{name} R0, R0, R0, R0")))?;
    let tall = (rows / 8) as usize;
    let mut result = Vec::new();
    for half in 0..tall {
        let mut sum: Vec<Operand> = product.c[4 * half..4 * half + 4].to_vec();
        for step in 0..(depth / 4) as usize {
            let a = &product.a[2 * (step * tall + half)..][..2];
            sum = emit(select, &small, PLAIN, a, &product.b[2 * step..][..2], Start::Matrix(&sum));
        }
        result.extend(sum);
    }
    Some(result)
}

/// Returns the name of a type in a machine instruction: `.S8`.
pub(super) fn integer_name(ty: ScalarType) -> &'static str {
    match ty {
        ScalarType::S8 => ".S8",
        ScalarType::U8 => ".U8",
        ScalarType::S4 => ".S4",
        _ => ".U4",
    }
}

/// Selects products of 8-bit and 4-bit integers. 4-bit integers become bytes where the target has no instruction for them.
pub(super) fn integers(select: &mut Select<'_>, product: &Product) -> Option<Vec<Operand>> {
    let types = format!("{}{}", integer_name(product.a_type), integer_name(product.b_type));
    let saturation = if product.clamps { ".SAT" } else { "" };
    let name = format!("IMMA.{}{types}{saturation}", product.shape());
    if select.encodes(&format!("{name} R0, R0.ROW, R0.COL, R0")) {
        return Some(emit(select, &name, ROW_COLUMN, &product.a, &product.b, Start::Matrix(&product.c)));
    }
    let is_narrow = matches!(product.a_type, ScalarType::S4 | ScalarType::U4);
    if !is_narrow && product.rows == 16 {
        return two_halves(select, product);
    }
    if !is_narrow {
        // Eight rows: the lower half of sixteen.
        let types = [integer_name(product.a_type), integer_name(product.b_type)];
        return Some(eight_rows(select, product, types, saturation));
    }
    let a = split_nibbles(select, &product.a, product.a_type);
    let b = split_nibbles(select, &product.b, product.b_type);
    let byte_name = |ty: ScalarType| if ty == ScalarType::S4 { ".S8" } else { ".U8" };
    let types = [byte_name(product.a_type), byte_name(product.b_type)];
    // A clamped sum must be clamped once, at the end.
    let start = if product.clamps { Start::Zero { width: product.c.len() } } else { Start::Matrix(&product.c) };
    let sum = byte_products(select, product.rows, types, &a, &b, start);
    Some(if product.clamps { sum.iter().zip(&product.c).map(|(&sum, &c)| clamped_sum(select, c, sum)).collect() } else { sum })
}

/// Multiplies byte matrices of sixteen rows on a target whose instruction takes eight: two instructions, for rows 0 to 7 and 8 to 15.
fn two_halves(select: &mut Select<'_>, product: &Product) -> Option<Vec<Operand>> {
    let mut result = Vec::new();
    for half in 0..2 {
        let a = product.a.iter().copied().skip(half).step_by(2).collect();
        let c = product.c[2 * half..][..2].to_vec();
        result.extend(integers(select, &Product { rows: 8, a, b: product.b.clone(), c, ..*product })?);
    }
    Some(result)
}

/// Multiplies bytes with eight rows on a target that only has sixteen: the other rows are zero.
fn eight_rows(select: &mut Select<'_>, product: &Product, types: [&str; 2], saturation: &str) -> Vec<Operand> {
    let zero = Operand::from(0_i64);
    let a: Vec<Operand> = product.a.iter().flat_map(|&word| [word, zero]).collect();
    let c: Vec<Operand> = product.c.iter().copied().chain([zero, zero]).collect();
    let name = format!("IMMA.168{}{}{}{saturation}", product.depth, types[0], types[1]);
    let result = emit(select, &name, ROW_COLUMN, &a, &product.b, Start::Matrix(&c));
    result[..product.c.len()].to_vec()
}

/// Returns two registers of bytes for each register of 4-bit integers: the even elements and the odd ones.
pub(super) fn split_nibbles(select: &mut Select<'_>, words: &[Operand], ty: ScalarType) -> Vec<[Operand; 2]> {
    let is_signed = ty == ScalarType::S4;
    let widened = |select: &mut Select<'_>, word: Operand| {
        let nibbles = select.bitwise_and(word, Operand::from(0x0f0f_0f0f_i64));
        if !is_signed {
            return nibbles;
        }
        // The sign of each nibble is 0 or 8; 30 times 8 are the upper four bits of the byte.
        let signs = select.bitwise_and(word, Operand::from(0x0808_0808_i64));
        select.b.define(Class::R, "IMAD $, {}, {}, {}", &[signs, Operand::from(30_i64), nibbles])
    };
    let mut split = Vec::new();
    for &word in words {
        let word = select.in_register(word);
        let upper = select.shift_right(word, Operand::from(4_i64), false);
        split.push([widened(select, word), widened(select, upper)]);
    }
    split
}

/// Multiplies matrices whose registers have been split into several registers of bytes each, and adds `start`.
///
/// Register `r` of A belongs to row half `r % tall`. Each `IMMA.16832` takes two parts of B, and the same two parts of A for each row half.
fn byte_products<const PARTS: usize>(
    select: &mut Select<'_>,
    rows: u32,
    types: [&str; 2],
    a: &[[Operand; PARTS]],
    b: &[[Operand; PARTS]],
    start: Start<'_>,
) -> Vec<Operand> {
    let tall = (rows / 8) as usize;
    let zero = Operand::from(0_i64);
    let width = 4;
    let name = format!("IMMA.168{BYTE_DEPTH}{}{}", types[0], types[1]);
    let mut sum: Option<Vec<Operand>> = match start {
        Start::Matrix(words) => Some(words.iter().copied().chain((words.len()..width).map(|_| zero)).collect()),
        Start::Zero { .. } => None,
    };
    for (unit, b_parts) in b.iter().enumerate() {
        for pair in 0..PARTS / 2 {
            let row_half = |half: usize, part: usize| if half < tall { a[unit * tall + half][part] } else { zero };
            let (first, second) = (2 * pair, 2 * pair + 1);
            let a = [row_half(0, first), row_half(1, first), row_half(0, second), row_half(1, second)];
            let b = [b_parts[first], b_parts[second]];
            let start = sum.as_deref().map_or(Start::Zero { width }, Start::Matrix);
            sum = Some(emit(select, &name, ROW_COLUMN, &a, &b, start));
        }
    }
    let mut sum = sum.unwrap_or_default();
    sum.truncate(2 * tall);
    sum
}

/// Returns the sum of two signed integers, clamped to the range of 32 bits.
pub(super) fn clamped_sum(select: &mut Select<'_>, a: Operand, b: Operand) -> Operand {
    let a = select.in_register(a);
    let sum = select.sum(a, b);
    // The sum overflows if both operands have another sign than it: the top bit of (a ^ sum) & (b ^ sum).
    let overflow = select.logic(0x42, a, b, sum);
    let overflow = select.compare_words("LT", true, overflow, Operand::from(0_i64));
    // The limit with the sign of the operands: 0x7fffffff ^ (a >> 31).
    let sign = select.sign_mask(a);
    let limit = select.logic(0x3c, sign, Operand::from(0x7fff_ffff_i64), Operand::from(0_i64));
    select.select_by_predicate(overflow, limit, sum)
}

/// Selects products of bits: `.and` or `.xor` followed by a count of the ones.
///
/// The ones of `a ^ b` are those of `a & ~b` and of `~a & b`, for targets that only have `.and`. Targets without an instruction for bits
/// multiply bytes of 0 and 1.
pub(super) fn bits(select: &mut Select<'_>, product: &Product) -> Option<Vec<Operand>> {
    let shape = product.shape();
    let operation = if product.is_xor { "XOR" } else { "AND" };
    let native = |operation: &str| format!("BMMA.{shape}.{operation}.POPC");
    let encodes = |select: &Select<'_>, name: &str| select.encodes(&format!("{name} R0, R0.ROW, R0.COL, R0"));
    let has_operation = !product.is_xor || SystemLayout::of(select.target).multiplies_bits_with_xor;
    if has_operation && encodes(select, &native(operation)) {
        return Some(emit(select, &native(operation), ROW_COLUMN, &product.a, &product.b, Start::Matrix(&product.c)));
    }
    let not = |select: &mut Select<'_>, words: &[Operand]| -> Vec<Operand> {
        words.iter().map(|&word| select.logic(0x0f, word, Operand::from(0_i64), Operand::from(0_i64))).collect()
    };
    let pairs = if product.is_xor {
        let (not_a, not_b) = (not(select, &product.a), not(select, &product.b));
        vec![(product.a.clone(), not_b), (not_a, product.b.clone())]
    } else {
        vec![(product.a.clone(), product.b.clone())]
    };
    let and = native("AND");
    let mut sum = product.c.clone();
    for (a, b) in pairs {
        sum = if encodes(select, &and) {
            emit(select, &and, ROW_COLUMN, &a, &b, Start::Matrix(&sum))
        } else {
            let (a, b) = (split_bits(select, &a), split_bits(select, &b));
            byte_products(select, product.rows, [".U8", ".U8"], &a, &b, Start::Matrix(&sum))
        };
    }
    Some(sum)
}

/// Returns eight registers for each register of bits: bit `n` of each byte, as a byte.
fn split_bits(select: &mut Select<'_>, words: &[Operand]) -> Vec<[Operand; 8]> {
    let mut split = Vec::new();
    for &word in words {
        let word = select.in_register(word);
        split.push(std::array::from_fn(|bit| {
            let shifted = if bit == 0 { word } else { select.shift_right(word, Operand::from(bit as i64), false) };
            select.bitwise_and(shifted, Operand::from(0x0101_0101_i64))
        }));
    }
    split
}

/// Selects products of 8-bit floats. Targets without an instruction for them convert the operands to f16, as ptxas does: the first two
/// elements of each register make a first product, the last two a second one, and C is added to their sum.
pub(super) fn eight_bit_floats(select: &mut Select<'_>, product: &Product) -> Option<Vec<Operand>> {
    let name = |ty: ScalarType| if ty == ScalarType::E4m3 { ".E4M3" } else { ".E5M2" };
    let (a_name, b_name) = (name(product.a_type), name(product.b_type));
    let result = if product.result_type == ScalarType::F16 { ".F16" } else { ".F32" };
    let native = format!("QMMA.{}{result}{a_name}{b_name}", product.shape());
    for suffixes in [ROW_COLUMN, PLAIN] {
        if select.encodes(&format!("{native} R0, R0{}, R0{}, R0", suffixes[0], suffixes[1])) {
            return Some(emit(select, &native, suffixes, &product.a, &product.b, Start::Matrix(&product.c)));
        }
    }
    let halves = |select: &mut Select<'_>, words: &[Operand], ty: &str, part: &str| -> Vec<Operand> {
        let template = format!("F2FP.F16{ty}.UNPACK_B $, {{}}{part}");
        words
            .iter()
            .map(|&word| {
                let word = select.in_register(word);
                select.b.define(Class::R, &template, &[word])
            })
            .collect()
    };
    let name = format!("HMMA.{}8{}{result}", product.rows, product.depth / 2);
    let mut sum: Option<Vec<Operand>> = None;
    for part in ["", ".H1"] {
        let a = halves(select, &product.a, a_name, part);
        let b = halves(select, &product.b, b_name, part);
        let start = sum.as_deref().map_or(Start::Zero { width: product.c.len() }, Start::Matrix);
        sum = Some(emit(select, &name, PLAIN, &a, &b, start));
    }
    let add = if product.result_type == ScalarType::F16 { "HADD2 $, {}, {}" } else { "FADD $, {}, {}" };
    let sum = sum?;
    Some(product.c.iter().zip(sum).map(|(&c, sum)| select.b.define(Class::R, add, &[c, sum])).collect())
}
