//! Decodes `mma.sync`: matrix products with elements distributed over the registers of a warp.

use oriole_ptx::ast;
use oriole_ptx::table::{Modifier, Opcode, Slot as FormSlot};
use oriole_ptx::types::ScalarType;
use oriole_sem::format::{BF16, E4M3, E5M2, F16, F64, TF32};
use oriole_sem::sparse::SparseLayout;

use super::float::mode;
use super::integer::int_type;
use super::{Decode, FunctionDecoder, Missing, PtxInst};
use crate::ptx::program::{AccumulatorType, Element, Mma, PtxAction, PtxSource, PtxSparsity, QuadMma, RegisterSlot};

/// Returns the element type of A or B.
pub(super) fn element(ty: ScalarType) -> Option<Element> {
    let float = |format, bits, unused| Element::Float { format, bits, unused };
    Some(match ty {
        ScalarType::F16 => float(F16, 16, 0),
        ScalarType::Bf16 => float(BF16, 16, 0),
        // The 13 lowest bits of a `tf32` register are ignored.
        ScalarType::Tf32 => float(TF32, 32, 13),
        ScalarType::F64 => float(F64, 64, 0),
        ScalarType::E4m3 => float(E4M3, 8, 0),
        ScalarType::E5m2 => float(E5M2, 8, 0),
        ScalarType::B1 => Element::Bit,
        _ => Element::Int(int_type(ty)?),
    })
}

/// Returns `[m, n, k]` of a shape modifier such as `m16n8k32`.
pub(super) fn shape(ptx: &PtxInst<'_>) -> Option<[usize; 3]> {
    let shape = |text: &str| -> Option<[usize; 3]> {
        let (m, rest) = text.strip_prefix('m')?.split_once('n')?;
        let (n, k) = rest.split_once('k')?;
        Some([m.parse().ok()?, n.parse().ok()?, k.parse().ok()?])
    };
    ptx.form.modifiers.iter().find_map(|value| shape(value.modifier.spelling()))
}

/// Returns whether the matrix A of a product is sparse.
pub(super) fn is_sparse(ptx: &PtxInst<'_>) -> bool {
    ptx.has(Modifier::Sp) || ptx.has(Modifier::SpOrderedMetadata) || ptx.form.opcode == Opcode::WgmmaMmaAsyncSp
}

/// The registers of D, and those of A, B and C.
type MatrixRegisters = (Box<[RegisterSlot]>, [Box<[PtxSource]>; 3]);

impl FunctionDecoder<'_> {
    /// Reads the metadata and the selector of a sparse matrix A from the operands at two positions.
    pub(super) fn sparsity(&mut self, ptx: &PtxInst<'_>, ty: ScalarType, depth: usize, positions: [usize; 2]) -> Decode<PtxSparsity> {
        let missing = || Missing::new(ptx.spelling());
        let [metadata, selector] = positions.map(|position| ptx.operand(position));
        let element_bits = element(ty).ok_or_else(missing)?.bits();
        let selector = self.literal(selector, ScalarType::U32).ok_or_else(missing)? as usize;
        // The metadata may be written in braces.
        let [metadata] = self.elements(metadata, 1)[..] else { return Err(missing()) };
        Ok(PtxSparsity { layout: SparseLayout { element_bits, depth, selector }, metadata: self.source(metadata, ScalarType::B32)? })
    }

    /// Decodes `mma.sync`.
    pub(crate) fn mma(&mut self, ptx: &PtxInst<'_>) -> Decode {
        let missing = || Missing::new(ptx.spelling());
        let types = ptx.types();
        let [d, a, b, c] = types[..] else { return self.unsupported(ptx) };
        let [rows, columns, depth] = shape(ptx).ok_or_else(missing)?;
        // `m8n8k4` on `f16` computes four products at once, with a different layout.
        if a == ScalarType::F16 && rows == 8 {
            return self.quad_mma(ptx, d, c);
        }
        if ptx.has(Modifier::BlockScale) || ptx.get(FormSlot::Kind).is_some() || columns != 8 {
            return self.unsupported(ptx);
        }
        let accumulator = match (d, c) {
            (ScalarType::F64, ScalarType::F64) => AccumulatorType::Double(mode(ptx)),
            (ScalarType::F32, ScalarType::F32) => AccumulatorType::Single,
            (ScalarType::F16, ScalarType::F16) => AccumulatorType::Half,
            (ScalarType::S32, ScalarType::S32) if a == ScalarType::B1 => AccumulatorType::Bits { and: ptx.has(Modifier::And) },
            (ScalarType::S32, ScalarType::S32) => AccumulatorType::Integer { clamps: ptx.has(Modifier::Satfinite) },
            _ => return self.unsupported(ptx),
        };
        let (destinations, [a_registers, b_registers, c_registers]) = self.matrices(ptx)?;
        let sparsity = if is_sparse(ptx) { Some(self.sparsity(ptx, a, depth, [4, 5])?) } else { None };
        let mma = Mma {
            rows,
            depth,
            a: element(a).ok_or_else(missing)?,
            b: element(b).ok_or_else(missing)?,
            accumulator,
            has_half_c: false,
            has_half_d: false,
            sparsity,
            a_registers,
            b_registers,
            c_registers,
            destinations,
        };
        self.push(PtxAction::Mma(Box::new([mma])));
        Ok(())
    }

    /// Decodes `mma.sync.m8n8k4` of f16.
    fn quad_mma(&mut self, ptx: &PtxInst<'_>, d: ScalarType, c: ScalarType) -> Decode {
        let (destinations, [a_registers, b_registers, c_registers]) = self.matrices(ptx)?;
        let [a_is_by_rows, b_is_by_rows] = [FormSlot::Alayout, FormSlot::Blayout].map(|slot| ptx.get(slot) == Some(Modifier::Row));
        let [has_half_c, has_half_d] = [c, d].map(|ty| ty == ScalarType::F16);
        let mma = QuadMma { a_is_by_rows, b_is_by_rows, has_half_c, has_half_d, a_registers, b_registers, c_registers, destinations };
        self.push(PtxAction::QuadMma(Box::new(mma)));
        Ok(())
    }

    /// Returns the registers of D, and those of A, B and C.
    fn matrices(&mut self, ptx: &PtxInst<'_>) -> Decode<MatrixRegisters> {
        let mut sources: [Vec<PtxSource>; 3] = Default::default();
        for (number, sources) in sources.iter_mut().enumerate() {
            for register in self.fragment(ptx.operand(number + 1)) {
                sources.push(self.source(register, ScalarType::B64)?);
            }
        }
        let mut destinations: Vec<RegisterSlot> = Vec::new();
        for register in self.fragment(ptx.operand(0)) {
            destinations.push(self.destination(register)?);
        }
        Ok((destinations.into(), sources.map(Vec::into_boxed_slice)))
    }

    /// Returns the registers of a fragment.
    pub(super) fn fragment(&self, operand: ast::Operand) -> Vec<ast::Operand> {
        match operand {
            ast::Operand::Register(register) => {
                let lanes = usize::from(self.body.declaration_of(register).lanes);
                self.elements(operand, lanes)
            }
            _ => self.elements(operand, 1),
        }
    }
}
