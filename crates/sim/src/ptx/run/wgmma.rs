//! Matrix products of a warpgroup (`wgmma.mma_async`).
//!
//! Each warp computes its rows by itself, when the product is issued.

use oriole_sem::warpgroup::{Descriptor, Major, ROWS_PER_WARP, rows_from_registers};

use super::access::MemoryLocation;
use super::block::PtxBlock;
use super::warp::{LANES, PtxWarp};
use super::{LaunchState, Stop};
use crate::ptx::program::{GroupMatrix, GroupProduct, PtxSpace, RANK_SHIFT};

/// Warps of a warpgroup.
const WARPS: u32 = 4;

/// Vectors of elements from shared memory, and whether all of their bytes have been written.
struct SharedVectors {
    elements: Vec<Vec<u64>>,
    is_defined: bool,
}

impl PtxWarp {
    /// Executes a product of a warpgroup; all 32 threads must be active.
    pub(crate) fn group_product(
        &mut self,
        machine: &mut LaunchState<'_>,
        block: &mut PtxBlock,
        product: &GroupProduct,
        active: u32,
        line: u32,
    ) -> Result<(), Stop> {
        self.require_all_lanes(machine, block, active, line)?;
        let bits = product.arithmetic.element_bits();
        let first = (self.number % WARPS) as usize * ROWS_PER_WARP;
        let mut is_defined = true;
        let mut pieces = Vec::new();
        let positions = product.sparsity.map(|sparsity| {
            is_defined &= (0..LANES).all(|lane| self.read_undefined(sparsity.metadata, lane) == 0);
            self.positions(&machine.pool, sparsity)
        });
        let a_depth = if positions.is_some() { product.depth / 2 } else { product.depth };
        let rows = match &product.a {
            GroupMatrix::Registers(registers) => {
                is_defined &= !registers.iter().any(|&source| (0..LANES).any(|lane| self.read_undefined(source, lane) != 0));
                let words =
                    std::array::from_fn(|number| std::array::from_fn(|lane| self.read(&machine.pool, registers[number], lane) as u32));
                rows_from_registers(&words, bits)
            }
            GroupMatrix::Shared { descriptor, major } => {
                let descriptor = self.read(&machine.pool, *descriptor, 0);
                let found = self.vectors(machine, block, descriptor, *major, (first, ROWS_PER_WARP), (a_depth, bits), &mut pieces, line)?;
                is_defined &= found.is_defined;
                found.elements
            }
        };
        let descriptor = self.read(&machine.pool, product.b, 0);
        let range = (0, product.columns);
        let found = self.vectors(machine, block, descriptor, product.b_major, range, (product.depth, bits), &mut pieces, line)?;
        is_defined &= found.is_defined;
        let keeps = self.read(&machine.pool, product.adds, 0) != 0;
        let mut results = Vec::with_capacity(LANES);
        for lane in 0..LANES {
            let old: Vec<u32> =
                product.accumulator.iter().map(|&source| if keeps { self.read(&machine.pool, source, lane) as u32 } else { 0 }).collect();
            is_defined &= !keeps || product.accumulator.iter().all(|&source| self.read_undefined(source, lane) == 0);
            results.push(product.arithmetic.thread_results(lane, &rows, positions.as_ref(), &found.elements, &old));
        }
        let unknown = if is_defined { 0 } else { u64::MAX };
        for (lane, results) in results.into_iter().enumerate() {
            for (&destination, result) in product.destinations.iter().zip(results) {
                self.write_with(destination, lane, u64::from(result), unknown);
            }
        }
        self.start_product(machine, block, product, pieces, line);
        Ok(())
    }

    /// Reads rows of A or columns of B from shared memory: `range` is the first one and their number, `shape` the depth and the bits of an
    /// element. The addresses of the pieces of 16 bytes that are read are added to `pieces`.
    #[allow(clippy::too_many_arguments)]
    fn vectors(
        &self,
        machine: &mut LaunchState<'_>,
        block: &PtxBlock,
        descriptor: u64,
        major: Major,
        range: (usize, usize),
        shape: (usize, usize),
        pieces: &mut Vec<u64>,
        line: u32,
    ) -> Result<SharedVectors, Stop> {
        let mut is_defined = true;
        let elements = Descriptor::decode(descriptor).vectors(major, range.0, range.1, shape.0, shape.1, |address| {
            let place = MemoryLocation { space: PtxSpace::Shared, address: u64::from(address) | u64::from(block.rank) << RANK_SHIFT };
            let (bytes, undefined) = self.peek(machine, block, 0, place, 16, line)?;
            is_defined &= undefined.iter().all(|&mask| mask == 0);
            pieces.push(place.address);
            Ok::<[u8; 16], Stop>(std::array::from_fn(|at| bytes[at]))
        })?;
        Ok(SharedVectors { elements, is_defined })
    }
}
