//! Decodes `wgmma`: matrix products of a warpgroup.

use oriole_ptx::ast;
use oriole_ptx::table::{Modifier, Opcode};
use oriole_ptx::types::ScalarType;
use oriole_sem::format::{BF16, E4M3, E5M2, F16, Format, TF32};
use oriole_sem::warpgroup::{Arithmetic, Major};

use super::integer::int_type;
use super::mma::{is_sparse, shape};
use super::{Decode, FunctionDecoder, Missing, PtxInst};
use crate::ptx::program::{GroupMatrix, GroupProduct, PtxAction, PtxSource};

/// Returns the format of an 8-bit float.
fn eight_bit_format(ty: ScalarType) -> Option<Format> {
    match ty {
        ScalarType::E4m3 => Some(E4M3),
        ScalarType::E5m2 => Some(E5M2),
        _ => None,
    }
}

/// Returns the arithmetic of a product.
fn arithmetic(ptx: &PtxInst<'_>, negates: bool) -> Option<Arithmetic> {
    let types = ptx.types();
    let [d, a, b] = types[..] else { return None };
    let floats = |formats, bits, unused| Arithmetic::floats(formats, bits, unused, d == ScalarType::F32, negates);
    Some(match a {
        ScalarType::F16 => floats([F16; 2], 16, 0),
        ScalarType::Bf16 => floats([BF16; 2], 16, 0),
        ScalarType::Tf32 => floats([TF32; 2], 32, 13),
        ScalarType::E4m3 | ScalarType::E5m2 => floats([eight_bit_format(a)?, eight_bit_format(b)?], 8, 0),
        ScalarType::B1 => Arithmetic::Bits,
        _ => Arithmetic::Integer { types: [int_type(a)?, int_type(b)?], clamps: ptx.has(Modifier::Satfinite) },
    })
}

impl FunctionDecoder<'_> {
    /// Decodes `wgmma`. The interpreter computes a product at once; groups and waits only serve the checks of asynchronous accesses.
    pub(crate) fn warpgroup(&mut self, ptx: &PtxInst<'_>) -> Decode {
        self.converge();
        match ptx.form.opcode {
            Opcode::WgmmaMmaAsync | Opcode::WgmmaMmaAsyncSp => self.group_product(ptx),
            Opcode::WgmmaFence => {
                self.push(PtxAction::Nothing);
                Ok(())
            }
            Opcode::WgmmaCommitGroup => {
                self.push(PtxAction::CommitProducts);
                Ok(())
            }
            Opcode::WgmmaWaitGroup => {
                let Some(all_but) = self.literal(ptx.operand(0), ScalarType::S64) else { return self.unsupported(ptx) };
                self.push(PtxAction::WaitProducts { all_but: all_but as u32 });
                Ok(())
            }
            _ => self.unsupported(ptx),
        }
    }

    fn group_product(&mut self, ptx: &PtxInst<'_>) -> Decode {
        let missing = || Missing::new(ptx.spelling());
        let [_, columns, depth] = shape(ptx).ok_or_else(missing)?;
        // Metadata and selector of a sparse matrix follow the matrices.
        let after_matrices = if is_sparse(ptx) { 5 } else { 3 };
        let number = |decoder: &Self, position: usize| {
            ptx.operands.get(position).and_then(|&operand| decoder.literal(operand, ScalarType::S32)).map(|bits| bits as i32)
        };
        let is_negative = |number: Option<i32>| number.is_some_and(|number| number < 0);
        let negates = is_negative(number(self, after_matrices + 1)) != is_negative(number(self, after_matrices + 2));
        let flags: Vec<bool> = (after_matrices + 3..ptx.operands.len()).map(|position| number(self, position) == Some(1)).collect();
        let (transposes_a, transposes_b) = match flags[..] {
            [a, b] => (a, b),
            [b] => (false, b),
            _ => (false, false),
        };
        let major = |transposes: bool| if transposes { Major::Mn } else { Major::K };
        let a_registers = self.fragment(ptx.operand(1));
        let a = if let [_, _, ..] = a_registers[..] {
            GroupMatrix::Registers(self.sources_of(&a_registers)?)
        } else {
            GroupMatrix::Shared { descriptor: self.source(ptx.operand(1), ScalarType::U64)?, major: major(transposes_a) }
        };
        let accumulator = self.fragment(ptx.operand(0));
        let mut destinations = Vec::with_capacity(accumulator.len());
        for &register in &accumulator {
            destinations.push(self.destination(register)?);
        }
        let product = GroupProduct {
            columns,
            depth,
            arithmetic: arithmetic(ptx, negates).ok_or_else(missing)?,
            a,
            sparsity: if is_sparse(ptx) { Some(self.sparsity(ptx, ptx.types()[1], depth, [3, 4])?) } else { None },
            b: self.source(ptx.operand(2), ScalarType::U64)?,
            b_major: major(transposes_b),
            adds: self.predicate(ptx.operand(after_matrices))?,
            accumulator: self.sources_of(&accumulator)?,
            destinations: destinations.into(),
        };
        self.push(PtxAction::GroupProduct(Box::new(product)));
        Ok(())
    }

    /// Returns registers as sources.
    fn sources_of(&mut self, registers: &[ast::Operand]) -> Decode<Box<[PtxSource]>> {
        registers.iter().map(|&register| self.source(register, ScalarType::B64)).collect()
    }
}
