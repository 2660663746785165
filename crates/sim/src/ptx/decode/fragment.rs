//! Decodes `wmma`: matrices in fragments, and their products.

use oriole_ptx::table::{Modifier, Opcode};
use oriole_ptx::types::ScalarType;

use super::float::mode;
use super::mma::{element, shape};
use super::{Decode, FunctionDecoder, Missing, PtxInst};
use crate::ptx::program::{AccumulatorType, FragmentMove, MatrixRole, Mma, PtxAction, PtxSource, RegisterSlot, WmmaFragment};

/// Rows of A, columns of B, and their length.
type MatrixProductShape = [usize; 3];

/// Returns whether A has so few rows that the machine multiplies the transposed matrices.
fn is_swapped([rows, columns, _]: MatrixProductShape) -> bool {
    rows == 8 && columns == 32
}

/// Returns the bits of an element in memory.
fn element_bits(ty: ScalarType) -> usize {
    match ty {
        ScalarType::B1 => 1,
        ScalarType::S4 | ScalarType::U4 => 4,
        ScalarType::Tf32 => 32,
        _ => 8 * ty.bytes() as usize,
    }
}

/// A matrix of a product.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ProductMatrix {
    A,
    B,
    Sum,
}

/// Returns the distribution of a matrix over the registers of a warp.
fn fragment(matrix: ProductMatrix, shape: MatrixProductShape, ty: ScalarType) -> WmmaFragment {
    let [rows, columns, depth] = shape;
    let element_bits = element_bits(ty);
    let swapped = is_swapped(shape);
    let (role, lines_are_rows, elements) = match matrix {
        ProductMatrix::A if swapped => (MatrixRole::Second, true, rows * depth),
        ProductMatrix::A => (MatrixRole::First { lines: rows }, true, rows * depth),
        ProductMatrix::B if swapped => (MatrixRole::First { lines: columns }, false, columns * depth),
        ProductMatrix::B => (MatrixRole::Second, false, columns * depth),
        ProductMatrix::Sum => (MatrixRole::Sum { lines: if swapped { columns } else { rows } }, !swapped, rows * columns),
    };
    // A warp holds each element once, in registers of 32 bits; a double is one PTX register.
    let registers = elements * element_bits / (32 * element_bits.max(32));
    WmmaFragment { role, depth, element_bits, lines_are_rows, registers }
}

impl FunctionDecoder<'_> {
    /// Decodes `wmma.load` and `wmma.store`.
    pub(crate) fn move_fragment(&mut self, ptx: &PtxInst<'_>) -> Decode {
        let shape = shape(ptx).ok_or_else(|| Missing::new(ptx.spelling()))?;
        let matrix = match () {
            () if ptx.has(Modifier::A) => ProductMatrix::A,
            () if ptx.has(Modifier::B) => ProductMatrix::B,
            () => ProductMatrix::Sum,
        };
        let [ty] = ptx.types()[..] else { return self.unsupported(ptx) };
        let is_store = ptx.form.opcode == Opcode::WmmaStore;
        let is_row_major = ptx.has(Modifier::Row);
        let (address, registers) = if is_store { (0, 1) } else { (1, 0) };
        let stride = match ptx.operands.get(2) {
            Some(&operand) => self.source(operand, ScalarType::U32)?,
            None => {
                let [rows, columns, depth] = shape;
                let [rows, columns] = match matrix {
                    ProductMatrix::A => [rows, depth],
                    ProductMatrix::B => [depth, columns],
                    ProductMatrix::Sum => [rows, columns],
                };
                self.constant(if is_row_major { columns } else { rows } as u64)
            }
        };
        let address = self.address(ptx.operand(address), self.space(ptx))?;
        let mut sources: Vec<PtxSource> = Vec::new();
        let mut destinations: Vec<RegisterSlot> = Vec::new();
        for register in self.fragment(ptx.operand(registers)) {
            if is_store {
                sources.push(self.source(register, ScalarType::B64)?);
            } else {
                destinations.push(self.destination(register)?);
            }
        }
        let fragment = fragment(matrix, shape, ty);
        let action = FragmentMove { fragment, address, stride, is_row_major, sources: sources.into(), destinations: destinations.into() };
        self.push(PtxAction::Fragment(Box::new(action)));
        Ok(())
    }

    /// Decodes `wmma.mma`: products of 16 rows (or 8) and 8 columns each.
    pub(crate) fn wmma(&mut self, ptx: &PtxInst<'_>) -> Decode {
        let missing = || Missing::new(ptx.spelling());
        let shape = shape(ptx).ok_or_else(missing)?;
        let [d, a, b, c] = match ptx.types()[..] {
            [d, c] => [d, ScalarType::F16, ScalarType::F16, c],
            [d, a, b, c] => [d, a, b, c],
            _ => return self.unsupported(ptx),
        };
        let clamps = ptx.has(Modifier::Satfinite);
        let accumulator = match (d, c) {
            (ScalarType::F64, _) => AccumulatorType::Double(mode(ptx)),
            (ScalarType::S32, _) if a == ScalarType::B1 => AccumulatorType::Bits { and: ptx.has(Modifier::And) },
            (ScalarType::S32, _) => AccumulatorType::Integer { clamps },
            _ if clamps => return self.unsupported(ptx),
            (ScalarType::F16, ScalarType::F16) => AccumulatorType::Half,
            _ => AccumulatorType::Single,
        };
        let [a_fragment, b_fragment] = [fragment(ProductMatrix::A, shape, a), fragment(ProductMatrix::B, shape, b)];
        let mut lists: [Vec<PtxSource>; 3] = Default::default();
        for (number, list) in lists.iter_mut().enumerate() {
            for register in self.fragment(ptx.operand(number + 1)) {
                list.push(self.source(register, ScalarType::B64)?);
            }
        }
        let mut destinations: Vec<RegisterSlot> = Vec::new();
        for register in self.fragment(ptx.operand(0)) {
            destinations.push(self.destination(register)?);
        }
        let [mut a_list, mut b_list, c_list] = lists;
        a_list.truncate(a_fragment.registers);
        b_list.truncate(b_fragment.registers);
        let [rows, columns, depth] = shape;
        let swapped = is_swapped(shape);
        let (first, second) = if swapped { ((b_list, b), (a_list, a)) } else { ((a_list, a), (b_list, b)) };
        let (tall, flat) = if swapped { (columns, rows) } else { (rows, columns) };
        let height = tall.min(16);
        let (tall_parts, flat_parts) = (tall / height, flat / 8);
        let part = |list: &[PtxSource], number: usize, count: usize| list.chunks(list.len() / count).nth(number).unwrap_or_default().into();
        let mut parts = Vec::new();
        for number in 0..tall_parts * flat_parts {
            parts.push(Mma {
                rows: height,
                depth,
                a: element(first.1).ok_or_else(missing)?,
                b: element(second.1).ok_or_else(missing)?,
                accumulator,
                has_half_c: c == ScalarType::F16 && accumulator == AccumulatorType::Single,
                has_half_d: d == ScalarType::F16 && accumulator == AccumulatorType::Single,
                sparsity: None,
                a_registers: part(&first.0, number / flat_parts, tall_parts),
                b_registers: part(&second.0, number % flat_parts, flat_parts),
                c_registers: part(&c_list, number, tall_parts * flat_parts),
                destinations: destinations.chunks(destinations.len() / (tall_parts * flat_parts)).nth(number).unwrap_or_default().into(),
            });
        }
        self.push(PtxAction::Mma(parts.into()));
        Ok(())
    }
}
