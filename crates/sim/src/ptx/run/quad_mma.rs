//! `mma.sync.m8n8k4` of f16: four products at once (9.7.14.5.1 of the manual).
//!
//! Threads `4p` to `4p + 3` and `4p + 16` to `4p + 19` compute product `p`. With `group = lane / 16` and `position = lane % 4`, element `i`
//! of a thread is
//!
//! - of A by rows: row `position + 4 * group`, column `i`; by columns: row `i + 4 * group`, column `position`,
//! - of B by rows: row `position`, column `i + 4 * group`; by columns: row `i`, column `position + 4 * group`,
//! - of C and D in f16: row `position + 4 * group`, column `i`; in f32: row `position % 2 + (i & 2) + 4 * group`, column
//!   `(i & 4) + (position & 2) + (i & 1)`.

use oriole_sem::convert::{Overflow, float_to_float};
use oriole_sem::float::Mode;
use oriole_sem::format::{F16, F32};
use oriole_sem::tensor::{Accumulator, HOPPER};

use super::block::PtxBlock;
use super::warp::{LANES, PtxWarp};
use super::{LaunchState, Stop};
use crate::ptx::program::{PtxSource, QuadMma};

/// The products of a warp.
const PRODUCTS: usize = 4;
/// Elements of C and D in a thread, and rows and columns of a product.
const SIZE: usize = 8;
/// Columns of A and rows of B.
const DEPTH: usize = 4;

/// A matrix of each product: bits by row and column.
type QuadMatrices = Vec<[[u64; SIZE]; SIZE]>;

/// Returns the number of a thread's product, its group, and its position in the group.
fn split(lane: usize) -> (usize, usize, usize) {
    (lane / 4 % PRODUCTS, lane / 16, lane % 4)
}

/// Returns row and column of element `i` of C or D.
fn of_sum(lane: usize, i: usize, is_half: bool) -> (usize, usize) {
    let (_, group, position) = split(lane);
    if is_half { (position + 4 * group, i) } else { (position % 2 + (i & 2) + 4 * group, (i & 4) + (position & 2) + (i & 1)) }
}

impl PtxWarp {
    /// Executes the four products; all 32 threads must be active.
    pub(crate) fn quad_mma(
        &mut self,
        machine: &mut LaunchState<'_>,
        block: &PtxBlock,
        mma: &QuadMma,
        active: u32,
        line: u32,
    ) -> Result<(), Stop> {
        self.require_all_lanes(machine, block, active, line)?;
        let pool = &machine.pool;
        let mut inputs = mma.a_registers.iter().chain(&mma.b_registers).chain(&mma.c_registers);
        let is_unknown = inputs.any(|&source| (0..LANES).any(|lane| self.read_undefined(source, lane) != 0));
        let a = self.quad_elements(pool, &mma.a_registers, true, |lane, i| {
            let (_, group, position) = split(lane);
            if mma.a_is_by_rows { (position + 4 * group, i) } else { (i + 4 * group, position) }
        });
        let b = self.quad_elements(pool, &mma.b_registers, true, |lane, i| {
            let (_, group, position) = split(lane);
            if mma.b_is_by_rows { (position, i + 4 * group) } else { (i, position + 4 * group) }
        });
        let c = self.quad_elements(pool, &mma.c_registers, mma.has_half_c, |lane, i| of_sum(lane, i, mma.has_half_c));
        let accumulator = if mma.has_half_d { Accumulator::Half } else { Accumulator::Single };
        let converts_c = mma.has_half_c && !mma.has_half_d;
        let mut results = vec![[0; SIZE]; LANES];
        for (lane, results) in results.iter_mut().enumerate() {
            let product = split(lane).0;
            for (i, result) in results.iter_mut().enumerate() {
                let (row, column) = of_sum(lane, i, mma.has_half_d);
                let column_of_b: Vec<u64> = (0..DEPTH).map(|k| b[product][k][column]).collect();
                let start = c[product][row][column];
                let start = if converts_c { float_to_float(F32, F16, start, Mode::RN, Overflow::Ieee) } else { start };
                *result = HOPPER.dot([F16; 2], 16, &a[product][row][..DEPTH], &column_of_b, start, accumulator);
            }
        }
        let unknown = if is_unknown { u64::MAX } else { 0 };
        for (lane, results) in results.iter().enumerate() {
            for (number, &destination) in mma.destinations.iter().enumerate() {
                let value = if mma.has_half_d { results[2 * number] | results[2 * number + 1] << 16 } else { results[number] };
                self.write_with(destination, lane, value, unknown);
            }
        }
        Ok(())
    }

    /// Collects a matrix of each product from the registers of all threads.
    fn quad_elements(
        &self,
        pool: &[u64],
        registers: &[PtxSource],
        is_half: bool,
        place: impl Fn(usize, usize) -> (usize, usize),
    ) -> QuadMatrices {
        let mut matrices = vec![[[0; SIZE]; SIZE]; PRODUCTS];
        for lane in 0..LANES {
            for (number, &source) in registers.iter().enumerate() {
                let word = self.read(pool, source, lane) & 0xffff_ffff;
                let elements = if is_half { vec![word & 0xffff, word >> 16] } else { vec![word] };
                let first = number * elements.len();
                for (within, element) in elements.into_iter().enumerate() {
                    let (row, column) = place(lane, first + within);
                    matrices[split(lane).0][row][column] = element;
                }
            }
        }
        matrices
    }
}
