//! Decodes `cvt` between all types, and `cvt.pack`.

use oriole_ptx::table::Modifier;
use oriole_ptx::types::ScalarType;
use oriole_sem::convert::{
    Overflow, float_to_float, float_to_int, from_ue8m0, int_to_float, int_to_int, tf32_register, to_integral, to_ue8m0,
};
use oriole_sem::format::{BF16, E2M1, E2M3, E3M2, E4M3, E5M2, F16, F32};
use oriole_sem::int::S32;
use oriole_sem::{Format, Int, Mode};

use super::float::{format_of, mode, rounding};
use super::integer::int_type;
use super::{Decode, FunctionDecoder, Missing, PtxInst};
use crate::ptx::program::{PtxSource, Pure, RegisterSlot, Taint};
use crate::ptx::variables::low_bits;

/// Returns the element format of a packed type, and the number of bits an element occupies.
fn packed_element(ty: ScalarType) -> Option<(Format, u32)> {
    Some(match ty {
        ScalarType::F16x2 => (F16, 16),
        ScalarType::Bf16x2 => (BF16, 16),
        ScalarType::E4m3x2 => (E4M3, 8),
        ScalarType::E5m2x2 => (E5M2, 8),
        ScalarType::E2m3x2 => (E2M3, 8),
        ScalarType::E3m2x2 => (E3M2, 8),
        ScalarType::E2m1x2 => (E2M1, 4),
        _ => return None,
    })
}

/// Returns a function that sign-extends a signed result to a wider destination register.
fn extended(ty: Int, width: u32) -> impl Fn(u64) -> u64 {
    let mask = low_bits(width);
    let extends = ty.signed && width > ty.bits;
    move |bits| if extends { ty.value(bits) as u64 & mask } else { bits }
}

impl FunctionDecoder<'_> {
    /// Decodes `cvt`.
    pub(crate) fn convert(&mut self, ptx: &PtxInst<'_>) -> Decode {
        let types = ptx.types();
        let [to, from] = types[..] else { return self.unsupported(ptx) };
        if ptx.has(Modifier::Rs) {
            return self.unsupported(ptx);
        }
        if to == ScalarType::Ue8m0x2 || from == ScalarType::Ue8m0x2 {
            return self.convert_scale(ptx, to, from);
        }
        if to == ScalarType::Tf32 || packed_element(to).is_some() {
            return self.convert_packed(ptx, to, from);
        }
        let a = self.source(ptx.operand(1), from)?;
        let d = self.destination(ptx.operand(0))?;
        let width = self.width(ptx.operand(0));
        let (mode, ftz, sat) = (mode(ptx), ptx.has(Modifier::Ftz), ptx.has(Modifier::Sat));
        match (int_type(to), format_of(to), int_type(from), format_of(from)) {
            (Some(to), _, Some(from), _) => {
                let extend = extended(to, width);
                let taint =
                    if sat || from.signed && to.bits > from.bits || to.signed && width > to.bits { Taint::Whole } else { Taint::Follow };
                self.compute(d, &[a], Pure::One(Box::new(move |a| extend(int_to_int(to, from, a, sat)))), taint);
            }
            (Some(to), _, _, Some((from, 1))) => {
                let (extend, rounding) = (extended(to, width), rounding(ptx));
                self.compute1(d, a, move |a| extend(float_to_int(to, from, a, rounding, ftz)));
            }
            (_, Some((to, 1)), Some(from), _) => self.compute1(d, a, move |a| int_to_float(to, from, a, mode)),
            (_, Some((to, 1)), _, Some((from, 1))) if to == from => {
                self.same_format(ptx, d, a, to, mode);
            }
            (_, Some((to, 1)), _, Some((from, 1))) => {
                let overflow = overflow(ptx);
                self.compute1(d, a, move |a| float_to_float(to, from, a, mode, overflow));
            }
            _ => return self.unsupported(ptx),
        }
        Ok(())
    }

    /// Emits a conversion within one format: rounding to an integral value, flushing, clamping, or a copy.
    fn same_format(&mut self, ptx: &PtxInst<'_>, d: RegisterSlot, a: PtxSource, format: Format, mode: Mode) {
        let integral = [Modifier::Rni, Modifier::Rzi, Modifier::Rmi, Modifier::Rpi].into_iter().any(|modifier| ptx.has(modifier));
        if integral {
            self.compute1(d, a, move |a| to_integral(format, a, mode));
            return;
        }
        let ftz = mode.ftz && format == F32;
        self.compute1(d, a, move |a| mode.clamp(format, if ftz { format.flush(a) } else { a & format.mask() }));
    }

    /// Decodes a conversion to packed elements or to `tf32`.
    fn convert_packed(&mut self, ptx: &PtxInst<'_>, to: ScalarType, from: ScalarType) -> Decode {
        let d = self.destination(ptx.operand(0))?;
        let (mode, overflow) = (mode(ptx), overflow(ptx));
        if to == ScalarType::Tf32 {
            let a = self.source(ptx.operand(1), ScalarType::F32)?;
            self.compute1(d, a, move |a| tf32_register(a, mode, overflow));
            return Ok(());
        }
        let (format, bits) = packed_element(to).ok_or_else(|| Missing::new(ptx.spelling()))?;
        if from == ScalarType::F32 {
            // The first operand becomes the upper element.
            let sources = [self.source(ptx.operand(1), from)?, self.source(ptx.operand(2), from)?];
            let element = move |a: u64| float_to_float(format, F32, a, mode, overflow);
            self.compute2(d, sources, move |a, b| element(a) << bits | element(b));
            return Ok(());
        }
        let (source_format, source_bits) = packed_element(from).ok_or_else(|| Missing::new(ptx.spelling()))?;
        let a = self.source(ptx.operand(1), bits_type(2 * source_bits))?;
        let element = move |a: u64| float_to_float(format, source_format, a & low_bits(source_bits), mode, overflow);
        self.compute1(d, a, move |a| element(a >> source_bits) << bits | element(a));
        Ok(())
    }

    /// Decodes a conversion from or to scale factors (`ue8m0x2`), two per register.
    fn convert_scale(&mut self, ptx: &PtxInst<'_>, to: ScalarType, from: ScalarType) -> Decode {
        let d = self.destination(ptx.operand(0))?;
        let (rounding, overflow) = (rounding(ptx), overflow(ptx));
        match (to, from) {
            (_, ScalarType::F32) => {
                let sources = [self.source(ptx.operand(1), from)?, self.source(ptx.operand(2), from)?];
                let element = move |a: u64| to_ue8m0(F32, a, rounding, overflow);
                self.compute2(d, sources, move |a, b| element(a) << 8 | element(b));
            }
            (_, ScalarType::Bf16x2) => {
                let a = self.source(ptx.operand(1), ScalarType::B32)?;
                let element = move |a: u64| to_ue8m0(BF16, a & 0xffff, rounding, overflow);
                self.compute1(d, a, move |a| element(a >> 16) << 8 | element(a));
            }
            (ScalarType::Bf16x2, _) => {
                let a = self.source(ptx.operand(1), ScalarType::B16)?;
                self.compute1(d, a, |a| from_ue8m0(BF16, a >> 8) << 16 | from_ue8m0(BF16, a));
            }
            _ => return self.unsupported(ptx),
        }
        Ok(())
    }

    /// Decodes `cvt.pack`: two clamped integers, the second one lowest, below the low bits of a third operand.
    pub(crate) fn convert_pack(&mut self, ptx: &PtxInst<'_>) -> Decode {
        let to = ptx.types().first().copied().and_then(int_type).ok_or_else(|| Missing::new(ptx.spelling()))?;
        let a = self.source(ptx.operand(1), ScalarType::S32)?;
        let b = self.source(ptx.operand(2), ScalarType::S32)?;
        let c = match ptx.operands.get(3) {
            Some(&operand) => self.source(operand, ScalarType::B32)?,
            None => self.zero(),
        };
        let d = self.destination(ptx.operand(0))?;
        let clamp = move |x: u64| int_to_int(to, S32, x, true);
        self.compute3(d, [a, b, c], move |a, b, c| {
            let pair = clamp(a) << to.bits | clamp(b);
            let above = if to.bits == 16 { 0 } else { c << (2 * to.bits) };
            (above | pair) & 0xffff_ffff
        });
        Ok(())
    }
}

fn bits_type(bits: u32) -> ScalarType {
    match bits {
        8 => ScalarType::B8,
        16 => ScalarType::B16,
        _ => ScalarType::B32,
    }
}

fn overflow(ptx: &PtxInst<'_>) -> Overflow {
    if ptx.has(Modifier::Satfinite) { Overflow::SatFinite } else { Overflow::Ieee }
}
