//! Matrix products of a warp: `HMMA`, `QMMA` (floats), `DMMA` (doubles), `IMMA` (integers) and `BMMA` (bits).
//!
//! A product `D = A * B + C` has M rows, N = 8 columns and depth K, which the modifier of the shape gives without separators: `.16816` is
//! M = 16, N = 8, K = 16. With `group = lane / 4`, `position = lane % 4` and `e` elements in a 32-bit register, register `r` of a thread
//! holds
//!
//! - of A: the elements from `e * (position + 4 * (r / tall))` on, of row `group + 8 * (r % tall)`, where `tall` is M / 8,
//! - of B: the elements from `e * (position + 4 * r)` on, of column `group`,
//! - of C and D: the columns `2 * position` and the next one of row `group`, then of row `group + 8`.
//!
//! A double takes two registers; for the layout they count as one. Of a sparse matrix A (`.SP`) only half of the elements are stored;
//! metadata in one more register say which ([`oriole_sem::sparse`]). `HMMA.884` is in [`quad_products`].

use oriole_isa::{Opcode, OperandValue, Target};
use oriole_sem::float::{Mode, fma};
use oriole_sem::format::{BF16, E4M3, E5M2, F16, F64, Format, Rounding, TF32};
use oriole_sem::int::{Int, S32};
use oriole_sem::sparse::{SparseColumns, SparseLayout};
use oriole_sem::tensor::{AMPERE, Accumulator, EIGHT_BIT, HOPPER, TURING, TensorCore};

use super::memory::matrix::whole_warp;
use super::quad_products;
use super::site::{Operands, Site};
use super::step::{Built, UnsupportedInst, access};
use super::warp::{Destination, LANES, Row, Warp};

/// Columns of every product.
const COLUMNS: usize = 8;

/// Builds the action of a matrix product; `None` for other opcodes.
pub fn build(site: &Site<'_>) -> Option<Built> {
    Some(match site.opcode() {
        Opcode::HMMA | Opcode::QMMA => floats(site),
        Opcode::DMMA => doubles(site),
        Opcode::IMMA => integers(site),
        Opcode::BMMA => bits(site),
        _ => return None,
    })
}

/// How an element of D is computed from a row of A, a column of B and the element of C.
type Dot = Box<dyn Fn(&[u64], &[u64], u64) -> u64 + Send + Sync>;

/// The sizes of a product.
#[derive(Clone, Copy)]
struct Dimensions {
    rows: usize,
    depth: usize,
    /// Bits of an element of A and B.
    element_bits: usize,
    /// Bits of an element of C and D.
    result_bits: usize,
}

impl Dimensions {
    /// Returns the number of 32-bit registers per thread for a matrix of `elements` elements.
    fn registers(elements: usize, bits: usize) -> u16 {
        (elements * bits / (32 * LANES)) as u16
    }
}

/// Returns rows and depth from the modifier of the shape, such as `.16832` or `.16x8x4`.
fn shape(site: &Site<'_>) -> Result<(usize, usize), UnsupportedInst> {
    let parse = |text: &str| -> Option<(usize, usize)> {
        let digits: String = text.strip_prefix('.')?.split('.').next()?.split('x').collect();
        let (rows, rest) = if let Some(rest) = digits.strip_prefix("168") { (16, rest) } else { (8, digits.strip_prefix("88")?) };
        rest.parse().ok().map(|depth| (rows, depth))
    };
    let shape = site.instruction.modifiers.iter().find_map(|modifier| parse(modifier.spelling()));
    let is_special = [".SF", ".SATFINITE", ".REGOFFSET"].into_iter().any(|modifier| site.has(modifier));
    shape.filter(|_| !is_special).ok_or_else(|| site.unsupported("matrices of this shape"))
}

/// Builds a product of floats.
fn floats(site: &Site<'_>) -> Built {
    if site.has(".884") {
        return quad_products::build(site, tensor_core(site.target));
    }
    let (rows, depth) = shape(site)?;
    let has = |spelling: &str| site.has(spelling);
    let (formats, element_bits, core) = match site.opcode() {
        Opcode::QMMA => (eight_bit_formats(site)?, 8, EIGHT_BIT),
        _ if has(".TF32") => ([TF32; 2], 32, tensor_core(site.target)),
        _ if has(".BF16") => ([BF16; 2], 16, tensor_core(site.target)),
        _ => ([F16; 2], 16, tensor_core(site.target)),
    };
    let is_single = has(".F32");
    let accumulator = match (is_single, site.opcode()) {
        (true, Opcode::QMMA) => Accumulator::ShortSingle,
        (true, _) => Accumulator::Single,
        (false, _) => Accumulator::Half,
    };
    // A register holds tf32 in its upper bits; the 13 lowest bits are ignored.
    let unused = if formats[0] == TF32 { 13 } else { 0 };
    let dot = move |a: &[u64], b: &[u64], c: u64| {
        let cut = |row: &[u64]| -> Vec<u64> { row.iter().map(|element| element >> unused).collect() };
        core.dot(formats, element_bits, &cut(a), &cut(b), c, accumulator)
    };
    let result_bits = if is_single { 32 } else { 16 };
    product(site, Dimensions { rows, depth, element_bits: element_bits as usize, result_bits }, Box::new(dot))
}

/// Returns the formats of A and B of a product of 8-bit floats.
fn eight_bit_formats(site: &Site<'_>) -> Result<[Format; 2], UnsupportedInst> {
    let format = |name: &str| match name {
        "E4M3" => Some(E4M3),
        "E5M2" => Some(E5M2),
        _ => None,
    };
    pair_of(site, format).ok_or_else(|| site.unsupported("products of these formats"))
}

/// Returns the types of A and B: the first two words among the modifiers that `find` knows. A modifier may consist of several words, such
/// as `.8816.S8.U8`.
fn pair_of<T>(site: &Site<'_>, find: impl Fn(&str) -> Option<T>) -> Option<[T; 2]> {
    let words = site.instruction.modifiers.iter().flat_map(|modifier| modifier.spelling().split('.'));
    let mut found = words.filter_map(find);
    Some([found.next()?, found.next()?])
}

/// Returns the arithmetic of a target's tensor cores.
fn tensor_core(target: Target) -> TensorCore {
    match target.number() {
        ..80 => TURING,
        80..90 => AMPERE,
        _ => HOPPER,
    }
}

/// Builds a product of doubles: a chain of fused multiply-adds.
fn doubles(site: &Site<'_>) -> Built {
    let (rows, depth) = shape(site)?;
    let roundings = [(".RM", Rounding::Down), (".RP", Rounding::Up), (".RZ", Rounding::Zero)];
    let mode = Mode::new(site.one_of(&roundings).unwrap_or(Rounding::NearestEven));
    let dot = move |a: &[u64], b: &[u64], c: u64| a.iter().zip(b).fold(c, |sum, (&a, &b)| fma(F64, a, b, sum, mode));
    product(site, Dimensions { rows, depth, element_bits: 64, result_bits: 64 }, Box::new(dot))
}

/// Builds a product of integers. The sum is exact; it wraps at the end, or is clamped with `.SAT`.
fn integers(site: &Site<'_>) -> Built {
    let (rows, depth) = shape(site)?;
    let int = |name: &str| {
        let (sign, bits) = (name.chars().next()?, name.get(1..)?.parse().ok()?);
        matches!(sign, 'U' | 'S').then_some(Int { bits, signed: sign == 'S' })
    };
    let [a_type, b_type] = pair_of(site, int).ok_or_else(|| site.unsupported("products of these types"))?;
    let clamps = site.has(".SAT");
    let dot = move |a: &[u64], b: &[u64], c: u64| {
        let sum = a.iter().zip(b).fold(S32.value(c), |sum, (&a, &b)| sum + a_type.value(a) * b_type.value(b));
        if clamps { S32.clamp(sum) } else { S32.wrap(sum) }
    };
    let element_bits = a_type.bits as usize;
    product(site, Dimensions { rows, depth, element_bits, result_bits: 32 }, Box::new(dot))
}

/// Builds a product of bits: the number of ones in `a & b` or `a ^ b`.
fn bits(site: &Site<'_>) -> Built {
    let (rows, depth) = shape(site)?;
    let is_and = site.has(".AND");
    let dot = move |a: &[u64], b: &[u64], c: u64| {
        let ones: u64 = a.iter().zip(b).map(|(a, b)| if is_and { a & b } else { a ^ b }).sum();
        S32.add(c, ones)
    };
    product(site, Dimensions { rows, depth, element_bits: 1, result_bits: 32 }, Box::new(dot))
}

/// Takes the first of `count` source registers. `None` is the zero register, which is wide enough for any operand.
pub(super) fn matrix(operands: &mut Operands<'_>, count: u16) -> Result<Option<Row>, UnsupportedInst> {
    let operand = operands.peek().ok_or_else(|| UnsupportedInst("too few operands".into()))?;
    let is_zero = matches!(operand.value, oriole_isa::OperandValue::Register(_, None));
    if operand.negate || operand.absolute {
        return Err(UnsupportedInst("negated matrices".into()));
    }
    let row = operands.rows(count)?;
    Ok((!is_zero).then_some(row))
}

/// A sparse matrix A: its form, and the register with the metadata of each thread.
#[derive(Clone, Copy)]
pub struct Sparsity {
    layout: SparseLayout,
    metadata: Row,
}

impl Sparsity {
    /// Takes the register of the metadata and the selector.
    pub fn take(operands: &mut Operands<'_>, element_bits: usize, depth: usize) -> Result<Sparsity, UnsupportedInst> {
        let metadata = operands.rows(1)?;
        // Where all threads contribute, there may be no selector.
        let has_selector = matches!(operands.peek().map(|operand| &operand.value), Some(OperandValue::Integer(_)));
        let selector = if has_selector { operands.number()? as usize } else { 0 };
        let layout = SparseLayout { element_bits: element_bits as u32, depth, selector };
        if !layout.is_supported() {
            return Err(UnsupportedInst(format!("a sparse product of {element_bits}-bit elements with a depth of {depth}")));
        }
        Ok(Sparsity { layout, metadata })
    }

    /// Returns the columns of the stored elements.
    pub fn positions(self, warp: &Warp) -> SparseColumns {
        let metadata = warp.row(self.metadata);
        self.layout.positions(|lane| metadata[lane])
    }
}

/// Builds the action of a product.
fn product(site: &Site<'_>, dimensions: Dimensions, dot: Dot) -> Built {
    let Dimensions { rows, depth, element_bits, result_bits } = dimensions;
    let is_sparse = site.has(".SP");
    let a_depth = if is_sparse { depth / 2 } else { depth };
    let a_count = Dimensions::registers(rows * a_depth, element_bits);
    let b_count = Dimensions::registers(COLUMNS * depth, element_bits);
    let c_count = Dimensions::registers(rows * COLUMNS, result_bits);
    // Each register of A holds elements of one row, so their number is a multiple of the number of eight rows.
    let a_bits = 32 * usize::from(a_count);
    if !a_bits.is_multiple_of(element_bits.max(32) * (rows / 8).max(1)) {
        return Err(site.unsupported("products of this shape and type"));
    }
    let mut operands = site.operands();
    let d = operands.wide_destination(c_count)?;
    let a = matrix(&mut operands, a_count)?;
    let b = matrix(&mut operands, b_count)?;
    let c = matrix(&mut operands, c_count)?;
    if operands.next_is_predicate() && !operands.predicate()?.is_always() {
        return Err(site.unsupported("a predicate for the product"));
    }
    let sparsity = if is_sparse { Some(Sparsity::take(&mut operands, element_bits, depth)?) } else { None };
    Ok(access(move |warp, _, mask| {
        whole_warp(warp, mask)?;
        let positions = sparsity.map(|sparsity| sparsity.positions(warp));
        let a = gather(warp, a, a_count, element_bits, rows / 8);
        let b = gather(warp, b, b_count, element_bits, 1);
        let c = accumulators(warp, c, c_count, result_bits);
        let results: Vec<Vec<u64>> = (0..LANES)
            .map(|lane| {
                let element = |number: usize| {
                    let (row, column) = (lane / 4 + 8 * (number / 2), 2 * (lane % 4) + number % 2);
                    match &positions {
                        Some(positions) => dot(&a[row], &positions.partners(row, &b[column]), c[lane][number]),
                        None => dot(&a[row], &b[column], c[lane][number]),
                    }
                };
                (0..rows / 4).map(element).collect()
            })
            .collect();
        write(warp, d, c_count, result_bits, &results);
        Ok(())
    }))
}

/// Returns register `number` of a matrix in all threads.
pub(super) fn register(warp: &Warp, first: Option<Row>, number: u16) -> [u32; LANES] {
    first.map_or([0; LANES], |row| *warp.row(row.plus(number)))
}

/// Returns the rows of A, or the columns of B: `tall` times eight vectors.
fn gather(warp: &Warp, first: Option<Row>, count: u16, bits: usize, tall: usize) -> Vec<Vec<u64>> {
    let words = (bits / 32).max(1);
    let units = usize::from(count) / words;
    let per_unit = (32 / bits).max(1);
    let mut vectors = vec![vec![0; per_unit * 4 * units / tall]; 8 * tall];
    for unit in 0..units {
        let low = register(warp, first, (unit * words) as u16);
        let high = if words == 2 { register(warp, first, (unit * words + 1) as u16) } else { [0; LANES] };
        for lane in 0..LANES {
            let value = u64::from(low[lane]) | u64::from(high[lane]) << 32;
            let start = per_unit * (lane % 4 + 4 * (unit / tall));
            for element in 0..per_unit {
                let mask = u64::MAX >> (64 - bits);
                vectors[lane / 4 + 8 * (unit % tall)][start + element] = value >> (element * bits) & mask;
            }
        }
    }
    vectors
}

/// Returns the elements of C that each thread holds.
fn accumulators(warp: &Warp, first: Option<Row>, count: u16, bits: usize) -> Vec<Vec<u64>> {
    let words: Vec<[u32; LANES]> = (0..count).map(|number| register(warp, first, number)).collect();
    let elements = |lane: usize| -> Vec<u64> {
        match bits {
            16 => words.iter().flat_map(|word| [u64::from(word[lane] & 0xffff), u64::from(word[lane] >> 16)]).collect(),
            32 => words.iter().map(|word| u64::from(word[lane])).collect(),
            _ => words.chunks(2).map(|pair| u64::from(pair[0][lane]) | u64::from(pair[1][lane]) << 32).collect(),
        }
    };
    (0..LANES).map(elements).collect()
}

/// Writes the elements of D.
fn write(warp: &mut Warp, d: Destination, count: u16, bits: usize, results: &[Vec<u64>]) {
    for number in 0..count {
        let index = usize::from(number);
        let values: [u32; LANES] = std::array::from_fn(|lane| match bits {
            16 => (results[lane][2 * index] | results[lane][2 * index + 1] << 16) as u32,
            32 => results[lane][index] as u32,
            _ => (results[lane][index / 2] >> (32 * (index % 2))) as u32,
        });
        warp.write(d.plus(number), !0, &values);
    }
}
