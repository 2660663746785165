//! Sparse matrices A of `mma.sp` and `wgmma.mma_async.sp`: which elements of a row are stored.
//!
//! A row of A is divided into groups. Half of the elements of a group are stored, the others are zero, and four bits of metadata say which:
//!
//! | element | elements of a group | metadata |
//! |---|---|---|
//! | 8 or 16 bits | 4 | two indices of two bits, one for each stored element |
//! | 4 bits | 8, as four pairs | two indices of two bits, one for each stored pair |
//! | 32 bits (tf32) | 2 | `0b0100` for the first element, `0b1110` for the second: the indices of its two halves |
//!
//! The metadata of the 16 rows are spread over the threads of a warp. Row `r` is described by threads of the quad `r % 8`. In a product
//! with 128 bits of a stored row, one (16 and 32 bits) or two (4 and 8 bits) threads of each quad contribute, which a *selector* chooses;
//! in one with 256 bits, two or all four.
//!
//! The groups are from the PTX manual (9.7.14.6). Which thread holds which bits agrees with code of ptxas 13.0.88 in the simulator: with
//! the functions by which it sorts indices on sm_100a (f16 and 8-bit integers), and with its products of 8-bit floats on sm_90a, which
//! rearrange the metadata for the instruction on f16. The kernel tests of `mma.sp` and `wgmma.mma_async.sp` confirm it on an H200.
//!
//! Example: `mma.sp.m16n8k16` on f16 with selector 2. The second group of row 9 has its metadata in thread 4 * 1 + 2, in bits 20 to 23: the
//! lower half of the register describes row 1, the upper half row 9.

/// The form of a sparse matrix A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SparseLayout {
    /// Bits of an element: 4, 8, 16 or 32.
    pub element_bits: u32,
    /// Elements of a row, stored or not.
    pub depth: usize,
    /// Selects the threads of each quad that contribute metadata.
    pub selector: usize,
}

/// Rows of a sparse matrix that one warp multiplies.
const ROWS: usize = 16;
/// Bits of metadata for one group.
const GROUP_METADATA_BITS: u32 = 4;

impl SparseLayout {
    /// Returns the number of elements of a group.
    pub const fn group(self) -> usize {
        match self.element_bits {
            32 => 2,
            4 => 8,
            _ => 4,
        }
    }

    /// Returns whether products with these elements and this depth exist, so that the metadata of a row fit into a quad of threads.
    pub const fn is_supported(self) -> bool {
        let groups = self.depth / self.group();
        match self.element_bits {
            16.. => groups == 4 || groups == 8,
            _ => groups == 8 || groups == 16,
        }
    }

    /// Returns the thread and the first bit of its metadata register that describe a group of a row.
    pub(crate) fn metadata_place(self, row: usize, group: usize) -> (usize, u32) {
        let groups = self.depth / self.group();
        let (quad, half) = (row % 8, row / 8);
        let (thread, nibble) = match (self.element_bits, groups) {
            // 16 bits for each of the two rows of a quad.
            (16.., 4) => (self.selector % 4, 4 * half + group),
            (16.., _) => (2 * (self.selector % 2) + group / 4, 4 * half + group % 4),
            // 32 bits for one row.
            (_, 8) => (2 * (self.selector % 2) + half, group),
            _ => (2 * (group / 8) + half, group % 8),
        };
        (4 * quad + thread, GROUP_METADATA_BITS * nibble as u32)
    }

    /// Returns the column of a stored element of a row. `metadata` returns the register of a thread.
    pub fn column(self, row: usize, stored: usize, metadata: impl Fn(usize) -> u32) -> usize {
        let per_group = self.group() / 2;
        let (group, within) = (stored / per_group, stored % per_group);
        let (thread, bit) = self.metadata_place(row, group);
        let indices = metadata(thread) >> bit;
        let index = |number: usize| (indices >> (2 * number) & 3) as usize;
        let offset = match self.element_bits {
            32 => index(0) / 2,
            4 => 2 * index(within / 2) + within % 2,
            _ => index(within),
        };
        group * self.group() + offset
    }

    /// Returns the columns of the stored elements of each of the 16 rows. `metadata` returns the register of a thread.
    pub fn positions(self, metadata: impl Fn(usize) -> u32) -> SparseColumns {
        let of_row = |row: usize| (0..self.depth / 2).map(|stored| self.column(row, stored, &metadata)).collect();
        SparseColumns((0..ROWS).map(of_row).collect())
    }
}

/// The columns of the stored elements of the rows of a sparse matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SparseColumns(Vec<Vec<usize>>);

impl SparseColumns {
    /// Returns the elements of a column of B that the stored elements of a row are multiplied with.
    pub fn partners(&self, row: usize, column: &[u64]) -> Vec<u64> {
        self.0[row].iter().map(|&position| column[position]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(element_bits: u32, depth: usize, selector: usize) -> SparseLayout {
        SparseLayout { element_bits, depth, selector }
    }

    /// Places found by hand from the rules above: the first and the last group of rows 1 and 9.
    #[test]
    fn places_of_metadata() {
        assert_eq!(layout(16, 16, 2).metadata_place(1, 0), (6, 0));
        assert_eq!(layout(16, 16, 2).metadata_place(9, 3), (6, 28));
        assert_eq!(layout(16, 32, 1).metadata_place(1, 3), (6, 12));
        assert_eq!(layout(16, 32, 1).metadata_place(9, 4), (7, 16));
        assert_eq!(layout(32, 8, 3).metadata_place(9, 0), (7, 16));
        assert_eq!(layout(8, 32, 0).metadata_place(1, 7), (4, 28));
        assert_eq!(layout(8, 32, 1).metadata_place(9, 0), (7, 0));
        assert_eq!(layout(8, 64, 0).metadata_place(9, 8), (7, 0));
        assert_eq!(layout(4, 128, 0).metadata_place(1, 15), (6, 28));
    }

    #[test]
    fn columns_of_stored_elements() {
        // Elements 1 and 3 of the first group, 0 and 2 of the second.
        let metadata = |_| 0b1000_1101;
        let columns =
            |layout: SparseLayout, count: usize| -> Vec<usize> { (0..count).map(|number| layout.column(0, number, metadata)).collect() };
        assert_eq!(columns(layout(16, 16, 0), 4), [1, 3, 4, 6]);
        assert_eq!(columns(layout(8, 32, 0), 4), [1, 3, 4, 6]);
        assert_eq!(columns(layout(4, 64, 0), 8), [2, 3, 6, 7, 8, 9, 12, 13]);
        let first_then_second = |_| 0b1110_0100;
        assert_eq!([0, 1].map(|number| layout(32, 8, 0).column(0, number, first_then_second)), [0, 3]);
    }
}
