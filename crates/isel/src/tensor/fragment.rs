//! How the elements of the matrices of `wmma` are distributed over the registers of a warp.
//!
//! The PTX manual leaves the distribution open. This one is that of the operands of `mma.sync`, as in the code of ptxas. Thread
//! `4 * group + place` holds a number of *units*: a few elements that are adjacent along a row of A, along a column of B, or along a row of
//! C and D.

use oriole_ptx::types::ScalarType;

/// The shape of a product: rows of A, columns of B, and their length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub rows: u32,
    pub columns: u32,
    pub depth: u32,
}

/// A matrix of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Matrix {
    A,
    B,
    /// C or D.
    Sum,
}

impl Shape {
    /// Returns whether the product is computed as its transpose, `D^T = B^T * A^T`. Matrix instructions have 16 rows and 8 columns, so an A
    /// with 8 rows and a B with 32 columns trade places.
    pub(super) fn is_swapped(self) -> bool {
        self.rows == 8 && self.columns == 32
    }

    /// Returns rows and columns of a matrix.
    pub(super) fn size(self, matrix: Matrix) -> [u32; 2] {
        match matrix {
            Matrix::A => [self.rows, self.depth],
            Matrix::B => [self.depth, self.columns],
            Matrix::Sum => [self.rows, self.columns],
        }
    }
}

/// Elements that one thread holds in adjacent registers: those from `along + run * place` on, of the line `across + group`. A line is a row
/// of A, a column of B, a row of C and D; of swapped products a column of C and D.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FragmentUnit {
    pub across: u32,
    pub along: u32,
}

/// The part of a matrix that one thread holds in its registers.
#[derive(Clone, Debug)]
pub(super) struct Fragment {
    /// In the order of the registers.
    pub units: Vec<FragmentUnit>,
    /// Number of elements in a unit.
    pub run: u32,
    pub element_bits: u32,
    /// Whether lines are rows of the matrix; otherwise columns.
    pub lines_are_rows: bool,
}

/// Rows or columns that the groups of a warp cover.
const GROUPS: u32 = 8;
/// Rows of the first operand of `HMMA.16816`, the largest matrix instruction of a warp.
const TALLEST: u32 = 16;

/// Returns the number of bits of an element in memory.
pub(super) fn element_bits(ty: ScalarType) -> u32 {
    match ty {
        ScalarType::B1 => 1,
        ScalarType::S4 | ScalarType::U4 => 4,
        ScalarType::Tf32 => 32,
        _ => 8 * ty.bytes(),
    }
}

impl Fragment {
    /// Returns the distribution of a matrix.
    pub(super) fn of(matrix: Matrix, shape: Shape, ty: ScalarType) -> Fragment {
        let element_bits = element_bits(ty);
        let [rows, columns] = shape.size(matrix);
        let lines_are_rows = match matrix {
            Matrix::A => true,
            Matrix::B => false,
            Matrix::Sum => !shape.is_swapped(),
        };
        let (lines, length) = if lines_are_rows { (rows, columns) } else { (columns, rows) };
        let is_first_operand = (matrix == Matrix::A) != shape.is_swapped();
        let (height, run) = match matrix {
            Matrix::Sum => (lines.min(TALLEST), 2),
            _ if is_first_operand => (lines.min(TALLEST), (32 / element_bits).max(1)),
            _ => (GROUPS, (32 / element_bits).max(1)),
        };
        let mut units = Vec::new();
        for block in (0..lines).step_by(height as usize) {
            for along in (0..length).step_by(4 * run as usize) {
                units.extend((0..height).step_by(GROUPS as usize).map(|half| FragmentUnit { across: block + half, along }));
            }
        }
        Fragment { units, run, element_bits, lines_are_rows }
    }

    /// Returns the number of bytes in a unit.
    pub(super) fn unit_bytes(&self) -> u32 {
        self.run * self.element_bits / 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(matrix: Matrix, shape: [u32; 3], ty: ScalarType) -> Vec<[u32; 2]> {
        let shape = Shape { rows: shape[0], columns: shape[1], depth: shape[2] };
        Fragment::of(matrix, shape, ty).units.iter().map(|unit| [unit.across, unit.along]).collect()
    }

    /// The orders are those of the loads that ptxas 13.0 emits for sm_80.
    #[test]
    fn fragments_are_those_of_ptxas() {
        use ScalarType::{F16, F32, S8, Tf32};
        assert_eq!(units(Matrix::A, [16, 16, 16], F16), [[0, 0], [8, 0], [0, 8], [8, 8]]);
        assert_eq!(units(Matrix::B, [16, 16, 16], F16), [[0, 0], [0, 8], [8, 0], [8, 8]]);
        assert_eq!(units(Matrix::A, [8, 32, 16], F16), [[0, 0], [0, 8]]);
        let tall = [[0, 0], [8, 0], [0, 8], [8, 8], [16, 0], [24, 0], [16, 8], [24, 8]];
        assert_eq!(units(Matrix::B, [8, 32, 16], F16), tall);
        assert_eq!(units(Matrix::A, [32, 8, 16], F16), tall);
        assert_eq!(units(Matrix::A, [32, 8, 16], S8), [[0, 0], [8, 0], [16, 0], [24, 0]]);
        assert_eq!(units(Matrix::A, [16, 16, 8], Tf32), [[0, 0], [8, 0], [0, 4], [8, 4]]);
        assert_eq!(units(Matrix::B, [16, 16, 8], Tf32), [[0, 0], [0, 4], [8, 0], [8, 4]]);
        assert_eq!(units(Matrix::Sum, [16, 16, 16], F32), [[0, 0], [8, 0], [0, 8], [8, 8]]);
        assert_eq!(units(Matrix::Sum, [32, 8, 16], F32), [[0, 0], [8, 0], [16, 0], [24, 0]]);
        assert_eq!(units(Matrix::Sum, [8, 32, 16], F32), [[0, 0], [8, 0], [16, 0], [24, 0]]);
    }
}
