//! Matrix products of a warpgroup (`wgmma`): matrices in shared memory, and the arithmetic of one element.
//!
//! A product multiplies a matrix A of 64 rows with a matrix B of N columns. A row of A and a column of B have 32 bytes (the depth K). Warp
//! `w` of the warpgroup computes rows `16 w` to `16 w + 15`, and its registers hold them as those of `mma.sync`: with `group = lane / 4`
//! and `position = lane % 4`, element `i` of a thread is in row `group + 8 (i / 2 % 2)` and column `8 (i / 4) + 2 position + i % 2`.
//!
//! A descriptor of 64 bits says where a matrix is. The matrix consists of *core matrices* of eight rows of 16 bytes. Along a row (K-major)
//! or across rows (MN-major) the bytes of several core matrices may be interleaved and swizzled; then one row has 32, 64 or 128 bytes:
//!
//! | bits | content |
//! |---|---|
//! | 13:0 | start address / 16 |
//! | 29:16 | leading-dimension byte offset / 16 |
//! | 45:32 | stride-dimension byte offset / 16 |
//! | 51:49 | base offset: phase of the swizzle pattern at its start |
//! | 63:62 | swizzle: 0 none, 1 of 128 bytes, 2 of 64 bytes, 3 of 32 bytes |
//!
//! A swizzle of 128 bytes adds bits 9:7 of the address to bits 6:4 without carry (exclusive or), one of 64 bytes bits 8:7 to bits 5:4, one
//! of 32 bytes bit 7 to bit 4.

use crate::format::Format;
use crate::int::{Int, S32};
use crate::sparse::SparseColumns;
use crate::tensor::{Accumulator, EIGHT_BIT, HOPPER};

/// Rows that one warp computes.
pub const ROWS_PER_WARP: usize = 16;
/// Bytes of a row of a core matrix.
const CHUNK: usize = 16;
/// Rows of a core matrix.
const CORE_ROWS: usize = 8;
/// Shared-memory addresses have 18 bits.
const ADDRESS_MASK: u32 = (1 << 18) - 1;

/// The direction in which consecutive elements of a matrix are adjacent in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Major {
    /// Along the depth.
    K,
    /// Along the rows of A or the columns of B; for elements of 16 bits only.
    Mn,
}

/// Where a matrix is in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Address in bytes.
    pub start: u32,
    /// Leading-dimension byte offset.
    pub leading: u32,
    /// Stride-dimension byte offset.
    pub stride: u32,
    /// Phase of the swizzle pattern at its start, in units of 128 bytes.
    pub base_offset: u32,
    /// Bytes of a swizzled row: 32, 64 or 128; 16 without swizzle.
    pub row_bytes: usize,
}

impl Descriptor {
    /// Decodes a descriptor.
    pub fn decode(bits: u64) -> Descriptor {
        let field = |first: u32| ((bits >> first) as u32 & 0x3fff) << 4;
        Descriptor {
            start: field(0),
            leading: field(16),
            stride: field(32),
            base_offset: (bits >> 49) as u32 & 7,
            row_bytes: [16, 128, 64, 32][(bits >> 62) as usize],
        }
    }

    /// Returns the address of 16 bytes of a matrix: of row `mn`, chunk number `chunk` along the depth (K-major), or of depth `k`, chunk
    /// number `chunk` along the rows (MN-major).
    fn chunk_address(self, major: Major, line: usize, chunk: usize) -> u32 {
        let Descriptor { leading, stride, row_bytes, .. } = self;
        let (within, group) = (line % CORE_ROWS, line / CORE_ROWS);
        let in_row = chunk * CHUNK;
        let offset = match (major, row_bytes) {
            (Major::K, CHUNK) => within * CHUNK + group * stride as usize + chunk * leading as usize,
            (Major::K, _) => within * row_bytes + group * stride as usize + in_row,
            (Major::Mn, CHUNK) => within * CHUNK + group * leading as usize + chunk * stride as usize,
            (Major::Mn, _) => within * row_bytes + group * stride as usize + in_row % row_bytes + in_row / row_bytes * leading as usize,
        };
        self.swizzled(self.start.wrapping_add(offset as u32)) & ADDRESS_MASK
    }

    /// Applies the swizzle to an address.
    fn swizzled(self, address: u32) -> u32 {
        let chunks = (self.row_bytes / CHUNK) as u32;
        let phase = (address >> 7).wrapping_sub(self.base_offset);
        address ^ (phase & (chunks - 1)) << 4
    }

    /// Reads `count` rows of A, or columns of B, from number `first` on. Each has `depth` elements of `bits` bits. `read` reads 16 bytes.
    pub fn vectors<E>(
        self,
        major: Major,
        first: usize,
        count: usize,
        depth: usize,
        bits: usize,
        mut read: impl FnMut(u32) -> Result<[u8; CHUNK], E>,
    ) -> Result<Vec<Vec<u64>>, E> {
        let per_chunk = 8 * CHUNK / bits;
        let element = |chunk: &[u8; CHUNK], number: usize| {
            let at = number * bits;
            let value = u128::from_le_bytes(*chunk) >> at;
            value as u64 & (u64::MAX >> (64 - bits))
        };
        let mut vectors = vec![Vec::with_capacity(depth); count];
        match major {
            Major::K => {
                for (number, vector) in vectors.iter_mut().enumerate() {
                    for chunk in 0..depth / per_chunk {
                        let chunk = read(self.chunk_address(major, first + number, chunk))?;
                        vector.extend((0..per_chunk).map(|number| element(&chunk, number)));
                    }
                }
            }
            Major::Mn => {
                for k in 0..depth {
                    for number in (0..count).step_by(per_chunk) {
                        let chunk = read(self.chunk_address(major, k, (first + number) / per_chunk))?;
                        for within in 0..per_chunk.min(count - number) {
                            vectors[number + within].push(element(&chunk, within));
                        }
                    }
                }
            }
        }
        Ok(vectors)
    }
}

/// The arithmetic of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// Floats of `bits` bits, of which the lowest `unused` are ignored.
    Float {
        /// Formats of A and B.
        formats: [Format; 2],
        /// Size of an element.
        bits: usize,
        /// Lowest bits of an element that are ignored.
        unused: u32,
        /// Format of the accumulator: f32 or f16.
        accumulator: Accumulator,
        /// Whether the products are negated.
        negates: bool,
    },
    /// Integers of 8 bits; the sum wraps or is clamped.
    Integer {
        /// Types of A and B.
        types: [Int; 2],
        /// Whether the result is clamped.
        clamps: bool,
    },
    /// Bits: counts the ones of `a & b`.
    Bits,
}

impl Arithmetic {
    /// Returns the arithmetic of floats. Products of 8-bit floats keep fewer bits.
    pub fn floats(formats: [Format; 2], bits: usize, unused: u32, is_single: bool, negates: bool) -> Arithmetic {
        let accumulator = match (is_single, bits) {
            (true, 8) => Accumulator::ShortSingle,
            (true, _) => Accumulator::Single,
            (false, _) => Accumulator::Half,
        };
        Arithmetic::Float { formats, bits, unused, accumulator, negates }
    }

    /// Returns the size of an element of A and B in bits.
    pub fn element_bits(self) -> usize {
        match self {
            Arithmetic::Float { bits, .. } => bits,
            Arithmetic::Integer { .. } => 8,
            Arithmetic::Bits => 1,
        }
    }

    /// Returns the size of an element of the accumulator in bits.
    pub fn result_bits(self) -> usize {
        match self {
            Arithmetic::Float { accumulator: Accumulator::Half, .. } => 16,
            _ => 32,
        }
    }

    /// Returns `c` plus the dot product of a row and a column.
    pub fn dot(self, a: &[u64], b: &[u64], c: u64) -> u64 {
        match self {
            Arithmetic::Float { formats, bits, unused, accumulator, negates } => {
                let sign = if negates { 1 << (bits - 1) } else { 0 };
                let a: Vec<u64> = a.iter().map(|element| (element ^ sign) >> unused).collect();
                let b: Vec<u64> = b.iter().map(|element| element >> unused).collect();
                let core = if bits == 8 { EIGHT_BIT } else { HOPPER };
                // All products of an instruction are one step.
                core.dot(formats, bits as u32, &a, &b, c, accumulator)
            }
            Arithmetic::Integer { types: [a_type, b_type], clamps } => {
                let sum = a.iter().zip(b).fold(S32.value(c), |sum, (&a, &b)| sum + a_type.value(a) * b_type.value(b));
                if clamps { S32.clamp(sum) } else { S32.wrap(sum) }
            }
            Arithmetic::Bits => S32.add(c, a.iter().zip(b).map(|(a, b)| a & b).sum()),
        }
    }

    /// Returns the new accumulator registers of a thread. `rows` are the rows of A of its warp, `columns` those of B, and `old` the old
    /// registers. With `positions`, only some elements of A are stored.
    pub fn thread_results(
        self,
        lane: usize,
        rows: &[Vec<u64>],
        positions: Option<&SparseColumns>,
        columns: &[Vec<u64>],
        old: &[u32],
    ) -> Vec<u32> {
        let packs = self.result_bits() == 16;
        let per_register = if packs { 2 } else { 1 };
        let result = |number: usize| {
            let word = u64::from(old[number / per_register]);
            let c = if packs { word >> (16 * (number % 2)) & 0xffff } else { word };
            let row = lane / 4 + CORE_ROWS * (number / 2 % 2);
            let column = 8 * (number / 4) + 2 * (lane % 4) + number % 2;
            match positions {
                Some(positions) => self.dot(&rows[row], &positions.partners(row, &columns[column]), c) as u32,
                None => self.dot(&rows[row], &columns[column], c) as u32,
            }
        };
        let results: Vec<u32> = (0..columns.len() / 2).map(result).collect();
        if packs { results.chunks(2).map(|pair| pair[0] | pair[1] << 16).collect() } else { results }
    }
}

/// Returns the rows of A of a warp from its registers: `registers[r][lane]`, laid out as those of `mma.sync` with 16 rows.
pub fn rows_from_registers(registers: &[[u32; 32]; 4], bits: usize) -> Vec<Vec<u64>> {
    let per_register = 32 / bits;
    let mut rows = vec![vec![0; per_register * 8]; ROWS_PER_WARP];
    for (number, register) in registers.iter().enumerate() {
        for (lane, &word) in register.iter().enumerate() {
            let first = per_register * (lane % 4 + 4 * (number / 2));
            for within in 0..per_register {
                let element = u64::from(word) >> (within * bits) & (u64::MAX >> (64 - bits));
                rows[lane / 4 + CORE_ROWS * (number % 2)][first + within] = element;
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The layouts of the PTX manual (9.7.15.5.1): row 9, depth byte 17 of K-major matrices.
    #[test]
    fn addresses_of_chunks() {
        let descriptor = |row_bytes| Descriptor { start: 0x400, leading: 0x80, stride: 0x500, base_offset: 0, row_bytes };
        assert_eq!(descriptor(16).chunk_address(Major::K, 9, 1), 0x400 + 16 + 0x500 + 0x80);
        // Row 1 of the second group of eight rows: one row further, then bits 9:7 (1) change bit 4 of the second chunk.
        assert_eq!(descriptor(128).chunk_address(Major::K, 1, 1), 0x400 + 128);
        assert_eq!(descriptor(128).chunk_address(Major::K, 2, 1), 0x400 + 256 + 0x30);
        assert_eq!(descriptor(32).chunk_address(Major::K, 4, 0), 0x400 + 128 + 16);
        // Depth 9, rows 72 to 79 of an MN-major matrix with rows of 128 bytes (64 elements).
        assert_eq!(descriptor(128).chunk_address(Major::Mn, 9, 9), (0x400 + 128 + 0x500 + 16 + 0x80) ^ (4 << 4));
    }
}
