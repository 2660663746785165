//! Decodes the video instructions.

use oriole_ptx::ast;
use oriole_ptx::table::{Modifier, Opcode, Slot as FormSlot};
use oriole_ptx::types::ScalarType;
use oriole_sem::video::{BitRange, MultiplyAdd, Operation, Scalar, Secondary, Simd};

use super::compare::comparison;
use super::{Decode, FunctionDecoder, Missing, PtxInst};
use crate::ptx::program::PtxSource;

/// An operand with the signs and selectors of video instructions.
struct PtxVideoOperand {
    operand: ast::Operand,
    selector: Option<String>,
    is_negated: bool,
}

/// Returns the primary operation and the number of lanes; 1 lane means a scalar instruction.
fn operation(ptx: &PtxInst<'_>) -> Decode<(Operation, usize)> {
    let name = ptx.form.opcode.spelling();
    let lanes = match name.as_bytes().last() {
        Some(b'2') => 2,
        Some(b'4') => 4,
        _ => 1,
    };
    let wrap = ptx.has(Modifier::Wrap);
    let operation = match name.trim_end_matches(['2', '4']) {
        "vadd" => Operation::Add,
        "vsub" => Operation::Subtract,
        "vabsdiff" => Operation::AbsoluteDifference,
        "vmin" => Operation::Minimum,
        "vmax" => Operation::Maximum,
        "vavrg" => Operation::Average,
        "vset" => Operation::Compare(comparison(ptx)?),
        "vshl" => Operation::ShiftLeft { wrap },
        "vshr" => Operation::ShiftRight { wrap },
        _ => return Err(Missing::new(ptx.spelling())),
    };
    Ok((operation, lanes))
}

/// Returns whether destination, first and second source are signed; the destination of `vset` is not.
fn signedness(ptx: &PtxInst<'_>) -> [bool; 3] {
    [FormSlot::Dtype, FormSlot::Atype, FormSlot::Btype].map(|slot| ptx.form.scalar_type(slot).is_some_and(ScalarType::is_signed))
}

impl FunctionDecoder<'_> {
    fn video_operand(&self, operand: ast::Operand) -> PtxVideoOperand {
        let ast::Operand::Selected(list) = operand else {
            return PtxVideoOperand { operand, selector: None, is_negated: false };
        };
        let parts = self.body.list(list);
        let name = |part: &ast::Operand| match *part {
            ast::Operand::Selector(name) => Some(self.module.name(name).to_owned()),
            _ => None,
        };
        PtxVideoOperand { operand: parts[0], selector: parts.iter().find_map(name), is_negated: parts.contains(&ast::Operand::Minus) }
    }

    /// Returns the sources, the third one zero if it is not written.
    fn video_sources(&mut self, operands: &[PtxVideoOperand]) -> Decode<[PtxSource; 3]> {
        let mut sources = [self.zero(); 3];
        for (source, operand) in sources.iter_mut().zip(&operands[1..]) {
            *source = self.source(operand.operand, ScalarType::U32)?;
        }
        Ok(sources)
    }

    /// Decodes a video instruction.
    pub(crate) fn video(&mut self, ptx: &PtxInst<'_>) -> Decode {
        let operands: Vec<PtxVideoOperand> = ptx.operands.iter().map(|&operand| self.video_operand(operand)).collect();
        let sources = self.video_sources(&operands)?;
        let destination = self.destination(operands[0].operand)?;
        if ptx.form.opcode == Opcode::Vmad {
            let product = self.video_product(ptx, &operands)?;
            self.compute3(destination, sources, move |a, b, c| product.apply(a, b, c));
            return Ok(());
        }
        let (operation, lanes) = operation(ptx)?;
        if lanes > 1 {
            let simd = self.video_lanes(ptx, operation, lanes, &operands);
            self.compute3(destination, sources, move |a, b, c| simd.apply(a, b, c));
        } else {
            let scalar = self.video_scalar(ptx, operation, &operands)?;
            self.compute3(destination, sources, move |a, b, c| scalar.apply(a, b, c));
        }
        Ok(())
    }

    fn video_part(&self, ptx: &PtxInst<'_>, operand: &PtxVideoOperand) -> Decode<BitRange> {
        match &operand.selector {
            Some(selector) => BitRange::of_selector(selector).ok_or_else(|| Missing::new(ptx.spelling())),
            None => Ok(BitRange::WORD),
        }
    }

    fn video_product(&self, ptx: &PtxInst<'_>, operands: &[PtxVideoOperand]) -> Decode<MultiplyAdd> {
        let [_, a, b] = signedness(ptx);
        Ok(MultiplyAdd {
            signed: [a, b],
            parts: [self.video_part(ptx, &operands[1])?, self.video_part(ptx, &operands[2])?],
            negate_product: operands[1].is_negated != operands[2].is_negated,
            negate_addend: operands[3].is_negated,
            plus_one: ptx.has(Modifier::Po),
            shift: match ptx.get(FormSlot::Scale) {
                Some(Modifier::Shr7) => 7,
                Some(Modifier::Shr15) => 15,
                _ => 0,
            },
            saturate: ptx.has(Modifier::Sat),
        })
    }

    fn video_scalar(&self, ptx: &PtxInst<'_>, operation: Operation, operands: &[PtxVideoOperand]) -> Decode<Scalar> {
        let secondary = match ptx.get(FormSlot::Op2) {
            Some(Modifier::Add) => Secondary::Add,
            Some(Modifier::Min) => Secondary::Minimum,
            Some(Modifier::Max) => Secondary::Maximum,
            _ if operands[0].selector.is_some() => Secondary::Merge(self.video_part(ptx, &operands[0])?),
            _ => Secondary::None,
        };
        let parts = [self.video_part(ptx, &operands[1])?, self.video_part(ptx, &operands[2])?];
        Ok(Scalar { operation, signed: signedness(ptx), parts, saturate: ptx.has(Modifier::Sat), secondary })
    }

    fn video_lanes(&self, ptx: &PtxInst<'_>, operation: Operation, lanes: usize, operands: &[PtxVideoOperand]) -> Simd {
        let defaults = if lanes == 2 { ["h10", "h10", "h32"] } else { ["b3210", "b3210", "b7654"] };
        let name = |position: usize| operands[position].selector.as_deref().unwrap_or(defaults[position]);
        Simd {
            operation,
            lanes,
            signed: signedness(ptx),
            selected: [Simd::elements(name(1)), Simd::elements(name(2))],
            saturate: ptx.has(Modifier::Sat),
            accumulate: ptx.has(Modifier::Add),
            mask: Simd::lanes_of(name(0)),
        }
    }
}
