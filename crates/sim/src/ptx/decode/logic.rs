//! Decodes bit operations: logic, shifts, bit fields and bit counts.

use oriole_ptx::table::{Modifier, Opcode, Slot as FormSlot};
use oriole_ptx::types::ScalarType;
use oriole_sem::bits::{self, Permute};
use oriole_sem::int::U32;

use super::integer::{int_type, with_constant_type};
use super::{Decode, FunctionDecoder, Missing, PtxInst};
use crate::ptx::program::{PtxSource, Pure, RegisterSlot, Taint};
use crate::ptx::variables::low_bits;
use oriole_sem::Int;
use oriole_sem::int::{S16, S32, S64, U16, U64};

impl FunctionDecoder<'_> {
    /// Decodes a bit operation.
    pub(crate) fn logic(&mut self, ptx: &PtxInst<'_>) -> Decode {
        use Opcode::{And, Bfe, Bfi, Bfind, Bmsk, Brev, Clz, Cnot, Fns, Lop3, Not, Or, Popc, Prmt, Shf, Shl, Shr, Szext, Xor};
        let ty = ptx.ty();
        let bits = ty.bits();
        match ptx.form.opcode {
            And | Or | Xor | Not => self.bitwise(ptx),
            Shl | Shr => self.shift(ptx),
            Lop3 => self.any_of_three(ptx),
            Cnot | Popc | Clz | Brev | Bfind => {
                let a = self.source(ptx.operand(1), ty)?;
                let d = self.destination(ptx.operand(0))?;
                let int = int_type(ty).ok_or_else(|| Missing::new(ptx.spelling()))?;
                let mask = int.mask();
                let shift_amount = ptx.has(Modifier::Shiftamt);
                match ptx.form.opcode {
                    Cnot => self.compute1(d, a, move |a| bits::cnot(a & mask)),
                    Popc => self.compute1(d, a, move |a| u64::from((a & mask).count_ones())),
                    Clz => self.compute1(d, a, move |a| bits::clz(bits, a & mask)),
                    Brev => self.compute1(d, a, move |a| bits::brev(bits, a)),
                    _ => self.compute1(d, a, move |a| int.bfind(a, shift_amount)),
                }
                Ok(())
            }
            Bfe | Szext | Bmsk | Shf | Prmt | Fns => self.fields(ptx),
            Bfi => {
                let sources = [
                    self.source(ptx.operand(1), ty)?,
                    self.source(ptx.operand(2), ty)?,
                    self.source(ptx.operand(3), ScalarType::U32)?,
                    self.source(ptx.operand(4), ScalarType::U32)?,
                ];
                let d = self.destination(ptx.operand(0))?;
                let sink = crate::ptx::program::SINK;
                self.compute_pair([d, sink], &sources, move |s| [bits::bfi(bits, s[0], s[1], s[2], s[3]), 0]);
                Ok(())
            }
            _ => self.unsupported(ptx),
        }
    }

    /// Decodes `and`, `or`, `xor` and `not`, with exact propagation of undefined bits.
    fn bitwise(&mut self, ptx: &PtxInst<'_>) -> Decode {
        let ty = ptx.ty();
        let mask = if ty == ScalarType::Pred { 1 } else { low_bits(ty.bits()) };
        let a = self.source(ptx.operand(1), ty)?;
        let d = self.destination(ptx.operand(0))?;
        if ptx.form.opcode == Opcode::Not {
            self.compute(d, &[a], Pure::One(Box::new(move |a| !a & mask)), Taint::Bits);
            return Ok(());
        }
        let sources = [a, self.source(ptx.operand(2), ty)?];
        match ptx.form.opcode {
            Opcode::And => self.compute(d, &sources, Pure::Two(Box::new(move |a, b| a & b & mask)), Taint::And),
            Opcode::Or => self.compute(d, &sources, Pure::Two(Box::new(move |a, b| (a | b) & mask)), Taint::Or),
            _ => self.compute(d, &sources, Pure::Two(Box::new(move |a, b| (a ^ b) & mask)), Taint::Bits),
        }
        Ok(())
    }

    /// Decodes `shl` and `shr`.
    fn shift(&mut self, ptx: &PtxInst<'_>) -> Decode {
        let int = int_type(ptx.ty()).ok_or_else(|| Missing::new(ptx.spelling()))?;
        let sources = [self.source(ptx.operand(1), ptx.ty())?, self.source(ptx.operand(2), ScalarType::U32)?];
        let d = self.destination(ptx.operand(0))?;
        with_constant_type!(int, INT => match ptx.form.opcode {
            Opcode::Shl => self.compute(d, &sources, Pure::Two(Box::new(|a, b| INT.shl(a, b))), Taint::Follow),
            _ => self.compute(d, &sources, Pure::Two(Box::new(|a, b| INT.shr(a, b))), Taint::Follow),
        });
        Ok(())
    }

    /// Decodes `lop3`, with or without a predicate result.
    fn any_of_three(&mut self, ptx: &PtxInst<'_>) -> Decode {
        let mut s = [self.zero(); 5];
        for (position, source) in s.iter_mut().take(3).enumerate() {
            *source = self.source(ptx.operand(position + 1), ScalarType::B32)?;
        }
        let Some(table) = self.literal(ptx.operand(4), ScalarType::U32) else { return self.unsupported(ptx) };
        let table = table as u8;
        let Some(operation) = ptx.get(FormSlot::Boolop) else {
            let d = self.destination(ptx.operand(0))?;
            self.compute3(d, [s[0], s[1], s[2]], move |a, b, c| bits::lop3(a, b, c, table));
            return Ok(());
        };
        s[3] = self.predicate(ptx.operand(5))?;
        let (value, predicate) = self.pair(ptx.operand(0));
        let destinations: [RegisterSlot; 2] = [self.destination(value)?, self.destination(predicate)?];
        let is_or = operation == Modifier::Or;
        self.compute_pair(destinations, &s[..4], move |s| {
            let result = bits::lop3(s[0], s[1], s[2], table);
            let nonzero = u64::from(result != 0);
            [result, if is_or { nonzero | s[3] } else { nonzero & s[3] }]
        });
        Ok(())
    }

    /// Decodes operations on bit fields, funnel shifts and permutations.
    fn fields(&mut self, ptx: &PtxInst<'_>) -> Decode {
        let ty = ptx.ty();
        let mut sources: Vec<PtxSource> = Vec::new();
        for (position, &operand) in ptx.operands.iter().enumerate().skip(1) {
            let own = if position == 1 { ty } else { ScalarType::U32 };
            sources.push(self.source(operand, own)?);
        }
        let d = self.destination(ptx.operand(0))?;
        let int = int_type(ty).unwrap_or(U32);
        let clamp = ptx.has(Modifier::Clamp);
        match (ptx.form.opcode, &sources[..]) {
            (Opcode::Bfe, &[a, b, c]) => self.compute3(d, [a, b, c], move |a, b, c| int.bfe(a, b, c)),
            (Opcode::Szext, &[a, b]) => self.compute2(d, [a, b], move |a, b| int.szext(a, b, clamp)),
            (Opcode::Bmsk, &[a, b]) => self.compute2(d, [a, b], move |a, b| bits::bmsk(a, b, clamp)),
            (Opcode::Shf, &[a, b, c]) => {
                let left = ptx.has(Modifier::L);
                self.compute3(d, [a, b, c], move |a, b, c| bits::shf(a, b, c, left, clamp));
            }
            (Opcode::Prmt, &[a, b, c]) => {
                let mode = permute_mode(ptx);
                self.compute3(d, [a, b, c], move |a, b, c| bits::prmt(a, b, c, mode));
            }
            (Opcode::Fns, &[a, b, c]) => {
                self.compute3(d, [a, b, c], move |a, b, c| bits::fns(a, b & 0xffff_ffff, i64::from(c as u32 as i32)));
            }
            _ => return self.unsupported(ptx),
        }
        Ok(())
    }
}

fn permute_mode(ptx: &PtxInst<'_>) -> Permute {
    match ptx.get(FormSlot::Mode) {
        Some(Modifier::F4e) => Permute::Forward4,
        Some(Modifier::B4e) => Permute::Backward4,
        Some(Modifier::Rc8) => Permute::Replicate8,
        Some(Modifier::Ecl) => Permute::EdgeClampLeft,
        Some(Modifier::Ecr) => Permute::EdgeClampRight,
        Some(Modifier::Rc16) => Permute::Replicate16,
        _ => Permute::Generic,
    }
}
