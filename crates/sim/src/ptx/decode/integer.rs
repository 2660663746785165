//! Decodes integer arithmetic, including carry chains: the carry flag is an ordinary slot.

use oriole_ptx::table::{Modifier, Opcode};
use oriole_ptx::types::ScalarType;
use oriole_sem::Int;
use oriole_sem::int::{S16, S32, S64, U16, U32, U64};

use super::{Decode, FunctionDecoder, Missing, PtxInst};
use crate::ptx::program::{CARRY, PtxSource, SINK};

/// Returns the integer type of a PTX type; bit types count as unsigned. `None` for other types.
pub(crate) fn int_type(ty: ScalarType) -> Option<Int> {
    use ScalarType::*;
    match ty {
        B8 | U8 | S8 | B16 | U16 | S16 | B32 | U32 | S32 | B64 | U64 | S64 | U2 | S2 | U4 | S4 => {
            Some(Int { bits: ty.bits(), signed: ty.is_signed() })
        }
        _ => None,
    }
}

/// Lifts a function to the two 16-bit halves of a register.
fn each_half(f: impl Fn(u64, u64) -> u64) -> impl Fn(u64, u64) -> u64 {
    move |a, b| f(a & 0xffff, b & 0xffff) & 0xffff | (f(a >> 16 & 0xffff, b >> 16 & 0xffff) & 0xffff) << 16
}

/// Evaluates an expression with the type as a compile-time constant, so that the arithmetic is specialized for its width.
macro_rules! with_constant_type {
    ($int:expr, $i:ident => $body:expr) => {
        match $int {
            S32 => {
                const $i: Int = S32;
                $body
            }
            U32 => {
                const $i: Int = U32;
                $body
            }
            S64 => {
                const $i: Int = S64;
                $body
            }
            U64 => {
                const $i: Int = U64;
                $body
            }
            S16 => {
                const $i: Int = S16;
                $body
            }
            _ => {
                const $i: Int = U16;
                $body
            }
        }
    };
}
pub(crate) use with_constant_type;

impl FunctionDecoder<'_> {
    /// Decodes an integer operation.
    pub(crate) fn integer(&mut self, ptx: &PtxInst<'_>) -> Decode {
        use Opcode::{Addc, Dp2a, Dp4a, Madc, Subc};
        let opcode = ptx.form.opcode;
        if matches!(ptx.ty(), ScalarType::S16x2 | ScalarType::U16x2) {
            return self.packed_integer(ptx);
        }
        if matches!(opcode, Dp4a | Dp2a) {
            return self.dot_product(ptx);
        }
        if ptx.has(Modifier::Cc) || matches!(opcode, Addc | Subc | Madc) {
            return self.carrying(ptx);
        }
        let int = int_type(ptx.ty()).ok_or_else(|| Missing::new(ptx.spelling()))?;
        let wide = ptx.has(Modifier::Wide);
        let mut sources = Vec::new();
        for (position, &operand) in ptx.operands.iter().enumerate().skip(1) {
            let ty = if wide && position == 3 { ptx.ty().widened().unwrap_or(ptx.ty()) } else { ptx.ty() };
            sources.push(self.source(operand, ty)?);
        }
        let destination = self.destination(ptx.operand(0))?;
        match sources[..] {
            [a] => with_constant_type!(int, INT => match opcode {
                Opcode::Abs => self.compute1(destination, a, |a| INT.abs(a)),
                _ => self.compute1(destination, a, |a| INT.neg(a)),
            }),
            [a, b] => self.binary(ptx, int, destination, [a, b])?,
            [a, b, c] => self.ternary(ptx, int, destination, [a, b, c])?,
            _ => return self.unsupported(ptx),
        }
        Ok(())
    }

    /// Decodes an operation with two operands.
    fn binary(&mut self, ptx: &PtxInst<'_>, int: Int, d: u32, s: [PtxSource; 2]) -> Decode {
        let (sat, hi, wide, relu) = (ptx.has(Modifier::Sat), ptx.has(Modifier::Hi), ptx.has(Modifier::Wide), ptx.has(Modifier::Relu));
        with_constant_type!(int, INT => match ptx.form.opcode {
            Opcode::Add if sat => self.compute2(d, s, |a, b| INT.add_sat(a, b)),
            Opcode::Sub if sat => self.compute2(d, s, |a, b| INT.sub_sat(a, b)),
            Opcode::Add => self.compute2(d, s, |a, b| INT.add(a, b)),
            Opcode::Sub => self.compute2(d, s, |a, b| INT.sub(a, b)),
            Opcode::Mul if wide => self.compute2(d, s, |a, b| INT.mul_wide(a, b)),
            Opcode::Mul if hi => self.compute2(d, s, |a, b| INT.mul_hi(a, b)),
            Opcode::Mul => self.compute2(d, s, |a, b| INT.mul_lo(a, b)),
            Opcode::Mul24 if hi => self.compute2(d, s, |a, b| INT.mul24_hi(a, b)),
            Opcode::Mul24 => self.compute2(d, s, |a, b| INT.mul24_lo(a, b)),
            // The manual leaves division by zero open; hardware returns all ones, and the dividend as remainder.
            Opcode::Div => self.compute2(d, s, |a, b| INT.div(a, b).unwrap_or(INT.mask())),
            Opcode::Rem => self.compute2(d, s, |a, b| INT.rem(a, b).unwrap_or(a & INT.mask())),
            Opcode::Min if relu => self.compute2(d, s, |a, b| INT.max(INT.min(a, b), 0)),
            Opcode::Max if relu => self.compute2(d, s, |a, b| INT.max(INT.max(a, b), 0)),
            Opcode::Min => self.compute2(d, s, |a, b| INT.min(a, b)),
            Opcode::Max => self.compute2(d, s, |a, b| INT.max(a, b)),
            _ => return self.unsupported(ptx),
        });
        Ok(())
    }

    /// Decodes an operation with three operands.
    fn ternary(&mut self, ptx: &PtxInst<'_>, int: Int, d: u32, s: [PtxSource; 3]) -> Decode {
        let (sat, hi, wide) = (ptx.has(Modifier::Sat), ptx.has(Modifier::Hi), ptx.has(Modifier::Wide));
        with_constant_type!(int, INT => match ptx.form.opcode {
            Opcode::Mad if wide => self.compute3(d, s, |a, b, c| INT.mad_wide(a, b, c)),
            Opcode::Mad if hi && sat => self.compute3(d, s, |a, b, c| INT.mad_hi_sat(a, b, c)),
            Opcode::Mad if hi => self.compute3(d, s, |a, b, c| INT.mad_hi(a, b, c)),
            Opcode::Mad => self.compute3(d, s, |a, b, c| INT.mad_lo(a, b, c)),
            Opcode::Mad24 if hi && sat => self.compute3(d, s, |a, b, c| INT.add_sat(INT.mul24_hi(a, b), c)),
            Opcode::Mad24 if hi => self.compute3(d, s, |a, b, c| INT.add(INT.mul24_hi(a, b), c)),
            Opcode::Mad24 => self.compute3(d, s, |a, b, c| INT.add(INT.mul24_lo(a, b), c)),
            Opcode::Sad => self.compute3(d, s, |a, b, c| INT.sad(a, b, c)),
            _ => return self.unsupported(ptx),
        });
        Ok(())
    }

    /// Decodes an operation on two packed 16-bit integers.
    fn packed_integer(&mut self, ptx: &PtxInst<'_>) -> Decode {
        let int = if ptx.ty() == ScalarType::S16x2 { S16 } else { U16 };
        let relu = ptx.has(Modifier::Relu);
        let s = [self.source(ptx.operand(1), ScalarType::B32)?, self.source(ptx.operand(2), ScalarType::B32)?];
        let d = self.destination(ptx.operand(0))?;
        let clamp = move |x: u64| if relu { int.max(x, 0) } else { x };
        match ptx.form.opcode {
            Opcode::Add => self.compute2(d, s, each_half(move |a, b| int.add(a, b))),
            Opcode::Min => self.compute2(d, s, each_half(move |a, b| clamp(int.min(a, b)))),
            Opcode::Max => self.compute2(d, s, each_half(move |a, b| clamp(int.max(a, b)))),
            _ => return self.unsupported(ptx),
        }
        Ok(())
    }

    /// Decodes `dp4a` and `dp2a`.
    fn dot_product(&mut self, ptx: &PtxInst<'_>) -> Decode {
        let types: Vec<Int> = ptx.types().into_iter().filter_map(int_type).collect();
        let [a_type, b_type] = types[..] else { return self.unsupported(ptx) };
        let mut s = [self.zero(); 3];
        for (position, source) in s.iter_mut().enumerate() {
            *source = self.source(ptx.operand(position + 1), ScalarType::S32)?;
        }
        let d = self.destination(ptx.operand(0))?;
        let hi = ptx.has(Modifier::Hi);
        match ptx.form.opcode {
            Opcode::Dp4a => self.compute3(d, s, move |a, b, c| a_type.dp4a(b_type, a, b, c)),
            _ => self.compute3(d, s, move |a, b, c| a_type.dp2a(b_type, a, b, c, hi)),
        }
        Ok(())
    }

    /// Decodes additions and multiplications that read or write the carry flag.
    fn carrying(&mut self, ptx: &PtxInst<'_>) -> Decode {
        let int = int_type(ptx.ty()).ok_or_else(|| Missing::new(ptx.spelling()))?;
        let opcode = ptx.form.opcode;
        let reads = matches!(opcode, Opcode::Addc | Opcode::Subc | Opcode::Madc);
        let carry = if reads { PtxSource::register(CARRY) } else { self.zero() };
        let mut sources = Vec::new();
        for &operand in &ptx.operands[1..] {
            sources.push(self.source(operand, ptx.ty())?);
        }
        sources.push(carry);
        let carry_out = if ptx.has(Modifier::Cc) { CARRY } else { SINK };
        let destinations = [self.destination(ptx.operand(0))?, carry_out];
        let pair = |(value, carry): (u64, bool)| [value, u64::from(carry)];
        let hi = ptx.has(Modifier::Hi);
        match opcode {
            Opcode::Add | Opcode::Addc => {
                self.compute_pair(destinations, &sources, move |s| pair(int.add_carry(s[0], s[1], s[2] != 0)));
            }
            Opcode::Sub | Opcode::Subc => {
                self.compute_pair(destinations, &sources, move |s| pair(int.sub_borrow(s[0], s[1], s[2] != 0)));
            }
            _ => self.compute_pair(destinations, &sources, move |s| {
                let product = if hi { int.mul_hi(s[0], s[1]) } else { int.mul_lo(s[0], s[1]) };
                pair(int.add_carry(product, s[2], s[3] != 0))
            }),
        }
        Ok(())
    }
}
