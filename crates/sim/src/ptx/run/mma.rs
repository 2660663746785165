//! Matrix products (`mma.sync`, `wmma.mma`).
//!
//! With `group = lane / 4`, `position = lane % 4` and `e` elements per 32-bit register, register `r` of a thread holds
//!
//! - of A: the elements from `e * (position + 4 * (r / 2))` on, of row `group + 8 * (r % 2)`; with eight rows, of row `group` for all
//!   registers,
//! - of B: the elements from `e * (position + 4 * r)` on, of column `group`,
//! - of C and D: the elements `2 * position` and the next one of row `group`, then those of row `group + 8`.
//!
//! Of a sparse matrix A only half of the elements are stored; metadata say which ([`oriole_sem::sparse`]).
//!
//! The manual leaves open in which order and with which rounding floats are summed. This interpreter computes what code of ptxas computes
//! on Hopper ([`oriole_sem::tensor`]). Integers are summed exactly, and wrapped or clamped at the end.

use oriole_sem::convert::{Overflow, float_to_float};
use oriole_sem::float::{self, Mode};
use oriole_sem::format::{F16, F32, F64};
use oriole_sem::int::S32;
use oriole_sem::sparse::SparseColumns;
use oriole_sem::tensor::{self, HOPPER};

use super::block::PtxBlock;
use super::warp::{ALL_LANES, LANES, PtxWarp};
use super::{LaunchState, Stop};
use crate::ptx::finding::FindingKind;
use crate::ptx::program::{AccumulatorType, Element, Mma, PtxSource, PtxSparsity};

impl Element {
    /// Returns the number of register bits per element.
    pub(crate) fn bits(self) -> u32 {
        match self {
            Element::Float { bits, .. } => bits,
            Element::Int(int) => int.bits,
            Element::Bit => 1,
        }
    }

    /// Returns the number of elements per register.
    fn per_register(self) -> usize {
        (32 / self.bits()).max(1) as usize
    }

    /// Returns an element of a register: the bits of a float, or the value of an integer.
    fn unpack(self, register: u64, number: usize) -> u64 {
        let bits = register >> (self.bits() * number as u32);
        match self {
            Element::Float { format, unused, .. } => (bits >> unused) & format.mask(),
            Element::Int(int) => int.value(bits) as u64,
            Element::Bit => bits & 1,
        }
    }
}

/// The rows of A, or the columns of B.
type Vectors = Vec<Vec<u64>>;

impl PtxWarp {
    /// Stops the program unless all 32 threads of the warp are active, which matrix instructions need.
    pub(super) fn require_all_lanes(&self, machine: &mut LaunchState<'_>, block: &PtxBlock, active: u32, line: u32) -> Result<(), Stop> {
        if active == ALL_LANES {
            return Ok(());
        }
        let lane = active.trailing_zeros() as usize;
        let message = "all threads of the warp must execute this together".to_owned();
        Err(machine.stop(FindingKind::BadOperand, block, self, lane, line, message))
    }

    /// Executes a matrix product, or the parts of a larger one; all 32 threads must be active.
    pub(crate) fn mma(
        &mut self,
        machine: &mut LaunchState<'_>,
        block: &PtxBlock,
        parts: &[Mma],
        active: u32,
        line: u32,
    ) -> Result<(), Stop> {
        self.require_all_lanes(machine, block, active, line)?;
        // All parts are computed before a result is written, because D may overlap A and B.
        let results: Vec<_> = parts.iter().map(|mma| self.product(&machine.pool, mma)).collect();
        for (mma, (results, unknown)) in parts.iter().zip(results) {
            for (lane, results) in results.into_iter().enumerate() {
                for (&destination, result) in mma.destinations.iter().zip(results) {
                    self.write_with(destination, lane, result, unknown);
                }
            }
        }
        Ok(())
    }

    /// Computes a product: the registers of D of each thread, and their undefined bits.
    fn product(&self, pool: &[u64], mma: &Mma) -> (Vec<Vec<u64>>, u64) {
        let tall = mma.rows / 8;
        let a_depth = if mma.sparsity.is_some() { mma.depth / 2 } else { mma.depth };
        let a = self.gather(pool, &mma.a_registers, mma.a, mma.rows, a_depth, tall);
        let b = self.gather(pool, &mma.b_registers, mma.b, 8, mma.depth, 1);
        let positions = mma.sparsity.map(|sparsity| self.positions(pool, sparsity));
        let metadata = mma.sparsity.as_ref().map(|sparsity| &sparsity.metadata);
        let mut inputs = mma.a_registers.iter().chain(&mma.b_registers).chain(&mma.c_registers).chain(metadata);
        let is_unknown = inputs.any(|&source| (0..LANES).any(|lane| self.read_undefined(source, lane) != 0));
        let [packs_c, packs_d] = [mma.has_half_c, mma.has_half_d].map(|is_half| is_half || mma.accumulator == AccumulatorType::Half);
        let of_lane = |lane: usize| {
            let own = |number: usize| {
                let (register, shift) = if packs_c { (number / 2, 16 * (number % 2)) } else { (number, 0) };
                let bits = self.read(pool, mma.c_registers[register], lane) >> shift;
                let c = if mma.has_half_c { single(bits & 0xffff) } else { bits };
                let (row, column) = (lane / 4 + 8 * (number / 2), 2 * (lane % 4) + number % 2);
                let result = match &positions {
                    Some(positions) => sum(mma, &a[row], &positions.partners(row, &b[column]), c),
                    None => sum(mma, &a[row], &b[column], c),
                };
                if mma.has_half_d { half(result) } else { result }
            };
            let sums: Vec<u64> = (0..2 * tall).map(own).collect();
            if packs_d { sums.chunks(2).map(|pair| pair[0] | pair[1] << 16).collect() } else { sums }
        };
        ((0..LANES).map(of_lane).collect(), if is_unknown { u64::MAX } else { 0 })
    }

    /// Returns the columns of the stored elements of a sparse matrix A.
    pub(super) fn positions(&self, pool: &[u64], sparsity: PtxSparsity) -> SparseColumns {
        sparsity.layout.positions(|lane| self.read(pool, sparsity.metadata, lane) as u32)
    }

    /// Collects the rows of A or the columns of B from the registers of all lanes. Register `r` is part `r / tall` along the depth, and
    /// part `r % tall` across.
    fn gather(&self, pool: &[u64], registers: &[PtxSource], element: Element, rows: usize, depth: usize, tall: usize) -> Vectors {
        let mut vectors = vec![vec![0; depth]; rows];
        let count = element.per_register();
        for lane in 0..LANES {
            for (number, &source) in registers.iter().enumerate() {
                let register = self.read(pool, source, lane);
                let row = lane / 4 + 8 * (number % tall);
                let first = count * (lane % 4 + 4 * (number / tall));
                for within in 0..count {
                    vectors[row][first + within] = element.unpack(register, within);
                }
            }
        }
        vectors
    }
}

/// Converts a half to single precision, which represents it exactly.
fn single(bits: u64) -> u64 {
    float_to_float(F32, F16, bits, Mode::RN, Overflow::Ieee)
}

/// Rounds a single to a half.
fn half(bits: u64) -> u64 {
    float_to_float(F16, F32, bits, Mode::RN, Overflow::Ieee)
}

/// Computes one element: the dot product of a row and a column, plus `c`.
fn sum(mma: &Mma, a: &[u64], b: &[u64], c: u64) -> u64 {
    let pairs = a.iter().zip(b);
    match mma.accumulator {
        AccumulatorType::Single => float_sum(mma, a, b, c & 0xffff_ffff, tensor::Accumulator::Single),
        AccumulatorType::Half => float_sum(mma, a, b, c & 0xffff, tensor::Accumulator::Half),
        AccumulatorType::Double(mode) => pairs.fold(c, |total, (&a, &b)| float::fma(F64, a, b, total, mode)),
        AccumulatorType::Integer { clamps } => {
            let total = pairs.fold(S32.value(c), |total, (&a, &b)| total + i128::from(a as i64) * i128::from(b as i64));
            if clamps { S32.clamp(total) } else { S32.wrap(total) }
        }
        AccumulatorType::Bits { and } => {
            let ones: u64 = pairs.map(|(&a, &b)| if and { a & b } else { a ^ b }).sum();
            S32.add(c, ones)
        }
    }
}

/// Computes one element of a product of float matrices.
fn float_sum(mma: &Mma, a: &[u64], b: &[u64], c: u64, accumulator: tensor::Accumulator) -> u64 {
    let (Element::Float { format: a_format, bits, .. }, Element::Float { format: b_format, .. }) = (mma.a, mma.b) else {
        unreachable!("the decoder pairs float accumulators with float elements")
    };
    let formats = [a_format, b_format];
    if bits == 8 { tensor::eight_bit_by_halves(formats, a, b, c, accumulator) } else { HOPPER.dot(formats, bits, a, b, c, accumulator) }
}
