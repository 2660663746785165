//! `mma.sp`: products of a sparse matrix A, of which half of the elements are stored. Metadata say which; the module
//! `sparse` of `oriole-sem` describes them.
//!
//! Most forms are one machine instruction. Two cases need more:
//!
//! - A target that lacks the instruction gets an equivalent sequence: 4-bit integers as bytes with the same metadata, and 8-bit floats as a
//!   dense product of a matrix that is put together here.
//! - Some targets take indices in ascending order only, but `mma.sp` without `::ordered_metadata` allows any order. There the indices are
//!   sorted, and the stored elements with them.

use oriole_ir::{Class, Operand};
use oriole_isa::SystemLayout;
use oriole_ptx::table::Modifier;
use oriole_ptx::types::ScalarType;

use super::expand::{clamped_sum, eight_bit_floats, integer_name, split_nibbles};
use crate::context::Select;
use crate::error::Unsupported;
use crate::ptx::Ptx;
use crate::tensor::product::{PLAIN, Product, ROW_COLUMN, class, tuple};

/// Which elements of A are stored.
#[derive(Clone, Copy)]
struct SparseMetadata {
    metadata: Operand,
    /// Selects the threads that contribute metadata.
    selector: u32,
}

/// Selects `mma.sp`, given the matrices.
pub(super) fn multiply(select: &mut Select<'_>, ptx: &Ptx<'_>, product: &Product) -> Result<Vec<Operand>, Unsupported> {
    let metadata = select.single(ptx, 4)?;
    let Some(selector) = select.literal(ptx.operand(5), ScalarType::U32) else { return select.unsupported(ptx) };
    let sparsity = SparseMetadata { metadata: select.in_register(metadata), selector: selector as u32 };
    let is_ordered = ptx.has(Modifier::SpOrderedMetadata) || !SystemLayout::of(select.target).sorts_sparse_indices;
    let result = match product.a_type {
        ScalarType::F16 | ScalarType::Bf16 | ScalarType::Tf32 => Some(floats(select, product, sparsity, is_ordered)),
        ScalarType::S8 | ScalarType::U8 | ScalarType::S4 | ScalarType::U4 => Some(integers(select, product, sparsity, is_ordered)),
        ScalarType::E4m3 | ScalarType::E5m2 => narrow_floats(select, product, sparsity, is_ordered),
        _ => None,
    };
    result.map_or_else(|| select.unsupported(ptx), Ok)
}

/// Selects products of f16, bf16 and tf32.
fn floats(select: &mut Select<'_>, product: &Product, sparsity: SparseMetadata, is_ordered: bool) -> Vec<Operand> {
    let ty = match product.a_type {
        ScalarType::Bf16 => ".BF16",
        ScalarType::Tf32 => ".TF32",
        _ => "",
    };
    let name = format!("HMMA.SP.{}{}{ty}", product.shape(), result_name(product));
    // The two indices of a tf32 element are those of its halves, which ascend.
    let (a, sparsity) = if is_ordered || product.a_type == ScalarType::Tf32 {
        (product.a.clone(), sparsity)
    } else {
        sorted(select, &product.a, sparsity, swapped_halves)
    };
    emit(select, &name, PLAIN, [&a, &product.b], Some(&product.c), product.c.len(), sparsity)
}

fn result_name(product: &Product) -> &'static str {
    if product.result_type == ScalarType::F16 { ".F16" } else { ".F32" }
}

/// Selects products of 8-bit and 4-bit integers.
fn integers(select: &mut Select<'_>, product: &Product, sparsity: SparseMetadata, is_ordered: bool) -> Vec<Operand> {
    let saturation = if product.clamps { ".SAT" } else { "" };
    let types = format!("{}{}", integer_name(product.a_type), integer_name(product.b_type));
    let name = format!("IMMA.SP.{}{types}{saturation}", product.shape());
    let width = product.c.len();
    if select.encodes(&format!("{name} R0, R0.ROW, R0.COL, R0, R0, 0x0")) {
        let (a, sparsity) = if is_ordered { (product.a.clone(), sparsity) } else { sorted(select, &product.a, sparsity, swapped_bytes) };
        return emit(select, &name, ROW_COLUMN, [&a, &product.b], Some(&product.c), width, sparsity);
    }
    // The indices count pairs of 4-bit elements, which are bytes. So the even elements, each in a byte, have the same metadata, and the odd
    // ones too.
    let (a, sparsity) = if is_ordered { (product.a.clone(), sparsity) } else { sorted(select, &product.a, sparsity, swapped_bytes) };
    let a = split_nibbles(select, &a, product.a_type);
    let b = split_nibbles(select, &product.b, product.b_type);
    let byte_name = |ty: ScalarType| if ty == ScalarType::S4 { ".S8" } else { ".U8" };
    let name = format!("IMMA.SP.168{}{}{}", product.depth / 2, byte_name(product.a_type), byte_name(product.b_type));
    // A clamped sum must be clamped once, at the end.
    let mut sum = (!product.clamps).then(|| product.c.clone());
    for part in 0..2 {
        let words = |split: &[[Operand; 2]]| -> Vec<Operand> { split.iter().map(|parts| parts[part]).collect() };
        sum = Some(emit(select, &name, ROW_COLUMN, [&words(&a), &words(&b)], sum.as_deref(), width, sparsity));
    }
    let sum = sum.unwrap_or_default();
    if product.clamps { sum.iter().zip(&product.c).map(|(&sum, &c)| clamped_sum(select, c, sum)).collect() } else { sum }
}

/// Selects products of 8-bit floats. A target without an instruction for them gets a dense product.
fn narrow_floats(select: &mut Select<'_>, product: &Product, sparsity: SparseMetadata, is_ordered: bool) -> Option<Vec<Operand>> {
    let name = |ty: ScalarType| if ty == ScalarType::E4m3 { ".E4M3" } else { ".E5M2" };
    let native = format!("QMMA.SP.{}{}{}{}", product.shape(), result_name(product), name(product.a_type), name(product.b_type));
    for suffixes in [ROW_COLUMN, PLAIN] {
        if select.encodes(&format!("{native} R0, R0{}, R0{}, R0, R0, 0x0", suffixes[0], suffixes[1])) {
            let (a, sparsity) =
                if is_ordered { (product.a.clone(), sparsity) } else { sorted(select, &product.a, sparsity, swapped_bytes) };
            return Some(emit(select, &native, suffixes, [&a, &product.b], Some(&product.c), product.c.len(), sparsity));
        }
    }
    dense_product(select, product, sparsity)
}

/// Emits `name d, a, b, c, metadata, selector` and returns the registers of the result. `None` for `c` is a matrix of zeros.
fn emit(
    select: &mut Select<'_>,
    name: &str,
    suffixes: [&str; 2],
    [a, b]: [&[Operand]; 2],
    c: Option<&[Operand]>,
    width: usize,
    sparsity: SparseMetadata,
) -> Vec<Operand> {
    let (a, b) = (tuple(select, a), tuple(select, b));
    let c = c.map_or(Operand::RZ, |words| tuple(select, words));
    let template = format!("{name} $, {{}}{}, {{}}{}, {{}}, {{}}, {:#x}", suffixes[0], suffixes[1], sparsity.selector);
    let result = select.b.define(class(width), &template, &[a, b, c, sparsity.metadata]);
    (0..width).map(|index| select.register_of(result, index as u8)).collect()
}

/// The position of a thread in its warp.
#[derive(Clone, Copy)]
struct Thread {
    /// The first thread of the quad.
    quad: Operand,
    /// The number of the thread in its quad.
    position: Operand,
}

impl Thread {
    /// Emits the position. The warp may have diverged, and a shuffle reads registers of active threads only, so the warp reconverges first.
    fn new(select: &mut Select<'_>) -> Thread {
        select.reconverge_warp();
        let lane = select.b.define(Class::R, "S2R $, SR_LANEID", &[]);
        Thread { quad: select.bitwise_and(lane, Operand::from(28_i64)), position: select.bitwise_and(lane, Operand::from(3_i64)) }
    }

    /// Returns the value that a register has in a thread of the same quad.
    fn fetch(self, select: &mut Select<'_>, value: Operand, position: Operand) -> Operand {
        let lane = select.logic(0xfc, self.quad, position, Operand::RZ);
        select.b.define(Class::R, "SHFL.IDX PT, $, {}, {}, 0x1f", &[value, lane])
    }
}

/// Returns a register of A, given by its number, with the stored elements exchanged in the groups whose indices descend.
type Exchange = fn(&mut Select<'_>, Thread, &UnsortedGroups<'_>, usize) -> Operand;

/// A matrix A and the groups whose stored elements have to be exchanged.
struct UnsortedGroups<'a> {
    a: &'a [Operand],
    /// All ones in the four bits of each group whose indices descend, in the places of the metadata.
    descends: Operand,
    selector: u32,
}

/// Returns the matrix A and the metadata with the two indices of each group in ascending order.
fn sorted(select: &mut Select<'_>, a: &[Operand], sparsity: SparseMetadata, exchange: Exchange) -> (Vec<Operand>, SparseMetadata) {
    let first = sparsity.metadata;
    // The second index of each group, in the place of the first.
    let second = select.shift_right(first, Operand::from(2_i64), false);
    // The first index is larger if its upper bit is, or if the upper bits are equal and its lower bit is larger.
    let larger = select.logic(0x30, first, second, Operand::RZ);
    let lower = select.shift_left(larger, Operand::from(1_i64));
    let unequal = select.logic(0x3c, first, second, Operand::RZ);
    // larger | (lower & !unequal), at the upper bit of each first index.
    let descends = select.logic(0xf4, larger, lower, unequal);
    let descends = select.bitwise_and(descends, Operand::from(0x2222_2222_i64));
    let descends = select.shift_right(descends, Operand::from(1_i64), false);
    let descends = select.b.define(Class::R, "IMAD $, {}, {}, RZ", &[descends, Operand::from(15_i64)]);
    let second = select.bitwise_and(second, Operand::from(0x3333_3333_i64));
    let moved = select.shift_left(first, Operand::from(2_i64));
    let exchanged = select.logic(0xf8, second, moved, Operand::from(0xcccc_cccc_u32));
    // exchanged where the indices descend, the metadata elsewhere.
    let metadata = select.logic(0xca, descends, exchanged, first);
    let thread = Thread::new(select);
    let form = UnsortedGroups { a, descends, selector: sparsity.selector };
    let a = (0..a.len()).map(|number| exchange(select, thread, &form, number)).collect();
    (a, SparseMetadata { metadata, ..sparsity })
}

/// Exchanges the two 16-bit elements of a register where the indices of their group descend.
fn swapped_halves(select: &mut Select<'_>, thread: Thread, form: &UnsortedGroups<'_>, number: usize) -> Operand {
    let (half, part) = ((number % 2) as u32, (number / 2) as u32);
    let source = if form.a.len() == 2 { form.selector % 4 } else { 2 * (form.selector % 2) + part };
    let descends = thread.fetch(select, form.descends, Operand::from(source));
    let bit = select.b.define(Class::R, "IMAD $, {}, {}, {}", &[thread.position, Operand::from(4_i64), Operand::from(16 * half)]);
    let group = select.shift_right(descends, bit, false);
    // 0x3210 keeps the order, 0x1032 exchanges the halves.
    let group = select.bitwise_and(group, Operand::from(2_i64));
    let changed = select.b.define(Class::R, "IMAD $, {}, {}, RZ", &[group, Operand::from(0x1111_i64)]);
    permuted(select, form.a[number], changed)
}

/// Exchanges the 8-bit elements of the two groups in a register where their indices descend.
fn swapped_bytes(select: &mut Select<'_>, thread: Thread, form: &UnsortedGroups<'_>, number: usize) -> Operand {
    let (half, part) = ((number % 2) as u32, (number / 2) as u32);
    let source = if form.a.len() == 2 { 2 * (form.selector % 2) + half } else { 2 * part + half };
    let descends = thread.fetch(select, form.descends, Operand::from(source));
    let bit = select.shift_left(thread.position, Operand::from(3_i64));
    let groups = select.shift_right(descends, bit, false);
    // 0x0011 exchanges the lower two bytes, 0x1100 the upper two.
    let first = select.bitwise_and(groups, Operand::from(1_i64));
    let second = select.bitwise_and(groups, Operand::from(0x10_i64));
    let changed = select.b.define(Class::R, "IMAD $, {}, {}, RZ", &[first, Operand::from(0x11_i64)]);
    let changed = select.b.define(Class::R, "IMAD $, {}, {}, {}", &[second, Operand::from(0x110_i64), changed]);
    permuted(select, form.a[number], changed)
}

/// Permutes the bytes of a word; `changed` has the bits of the selector that differ from the identity.
fn permuted(select: &mut Select<'_>, word: Operand, changed: Operand) -> Operand {
    let order = select.logic(0x3c, changed, Operand::from(0x3210_i64), Operand::RZ);
    let word = select.in_register(word);
    select.b.define(Class::R, "PRMT $, {}, {}, RZ", &[word, order])
}

/// Multiplies 8-bit elements as a dense matrix: `m16n8k64`.
///
/// A thread holds the groups `2 p` and `2 p + 1` of A, where `p` is its position, so it can put eight consecutive elements of a row
/// together. The same elements of B are held by two other threads of the quad; they are fetched from there.
fn dense_product(select: &mut Select<'_>, product: &Product, sparsity: SparseMetadata) -> Option<Vec<Operand>> {
    let thread = Thread::new(select);
    let byte = select.shift_left(thread.position, Operand::from(3_i64));
    let odd = select.bitwise_and(thread.position, Operand::from(1_i64));
    let source = select.shift_left(odd, Operand::from(1_i64));
    let next_source = select.logic(0xfc, source, Operand::from(1_i64), Operand::RZ);
    let is_upper = select.compare_words("GE", false, thread.position, Operand::from(2_i64));
    let mut sum = product.c.clone();
    for part in 0..2 {
        let mut groups = Vec::new();
        for half in 0..2 {
            let metadata = thread.fetch(select, sparsity.metadata, Operand::from(2 * part + half));
            let indices = select.shift_right(metadata, byte, false);
            groups.push(dense_groups(select, product.a[(2 * part + half) as usize], indices));
        }
        let a = vec![groups[0][0], groups[1][0], groups[0][1], groups[1][1]];
        let words = [product.b[2 * part as usize], product.b[2 * part as usize + 1]].map(|word| select.in_register(word));
        let b = [source, next_source].map(|source| {
            let [lower, upper] = words.map(|word| thread.fetch(select, word, source));
            select.select_by_predicate(is_upper, upper, lower)
        });
        sum = eight_bit_floats(select, &Product { depth: 32, a, b: b.to_vec(), c: sum, ..*product })?;
    }
    Some(sum)
}

/// Returns two groups of four elements, given the four stored ones and their indices in the lowest eight bits of a word.
fn dense_groups(select: &mut Select<'_>, stored: Operand, indices: Operand) -> [Operand; 2] {
    let stored = select.in_register(stored);
    // The operand of `PRMT` has four bits for each element of the group: the number of the byte to take; 4 takes a zero. These are the bit
    // positions of the four bits for each stored element.
    let places = [
        select.shift_left(indices, Operand::from(2_i64)),
        indices,
        select.shift_right(indices, Operand::from(2_i64), false),
        select.shift_right(indices, Operand::from(4_i64), false),
    ];
    let places = places.map(|place| select.bitwise_and(place, Operand::from(12_i64)));
    let bytes = [0, 1].map(|group| {
        let [first, second] = [0, 1].map(|number| {
            // Selector digit 4 reads a zero byte. Subtracting this number from it gives the digit of the stored byte.
            let change = select.in_register(Operand::from(i64::from(4 - (2 * group + number))));
            select.shift_left(change, places[(2 * group + number) as usize])
        });
        let changes = select.sum(first, second);
        let zeros = select.in_register(Operand::from(0x4444_i64));
        select.difference(zeros, changes)
    });
    bytes.map(|order| select.b.define(Class::R, "PRMT $, {}, {}, RZ", &[stored, order]))
}
