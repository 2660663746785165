//! Decodes floating-point arithmetic in every format, on one or several numbers per register.

use oriole_ptx::table::{Modifier, Opcode};
use oriole_ptx::types::ScalarType;
use oriole_sem::approx::{self, ApproxFunction};
use oriole_sem::compare::{self, Property};
use oriole_sem::convert::{Overflow, float_to_float};
use oriole_sem::float::{self, Extreme, ExtremeMode};
use oriole_sem::format::{BF16, F16, F32, F64};
use oriole_sem::{Format, Mode, Rounding};

use super::{Decode, FunctionDecoder, Missing, PtxInst};
use crate::ptx::program::PtxSource;

/// Returns the element format of a type, and the number of elements per register; `None` for other types.
pub(crate) fn format_of(ty: ScalarType) -> Option<(Format, u32)> {
    Some(match ty {
        ScalarType::F16 => (F16, 1),
        ScalarType::F16x2 => (F16, 2),
        ScalarType::Bf16 => (BF16, 1),
        ScalarType::Bf16x2 => (BF16, 2),
        ScalarType::F32 => (F32, 1),
        ScalarType::F32x2 => (F32, 2),
        ScalarType::F64 => (F64, 1),
        _ => return None,
    })
}

pub(crate) fn is_float(ty: ScalarType) -> bool {
    format_of(ty).is_some()
}

/// Returns the rounding mode; to nearest even if none is named.
pub(crate) fn rounding(ptx: &PtxInst<'_>) -> Rounding {
    match () {
        () if ptx.has(Modifier::Rz) || ptx.has(Modifier::Rzi) => Rounding::Zero,
        () if ptx.has(Modifier::Rm) || ptx.has(Modifier::Rmi) => Rounding::Down,
        () if ptx.has(Modifier::Rp) || ptx.has(Modifier::Rpi) => Rounding::Up,
        () if ptx.has(Modifier::Rna) => Rounding::NearestAway,
        () => Rounding::NearestEven,
    }
}

/// Returns the rounding mode with `.ftz`, `.sat` and `.relu`.
pub(crate) fn mode(ptx: &PtxInst<'_>) -> Mode {
    Mode::new(rounding(ptx)).ftz(ptx.has(Modifier::Ftz)).sat(ptx.has(Modifier::Sat)).relu(ptx.has(Modifier::Relu))
}

/// Lifts a function of scalars to all elements of a register.
pub(crate) fn each<const N: usize>(format: Format, count: u32, f: impl Fn([u64; N]) -> u64) -> impl Fn([u64; N]) -> u64 {
    move |sources| {
        if count == 1 {
            return f(sources);
        }
        let width = format.width();
        (0..count).fold(0, |result, number| {
            let parts = sources.map(|source| source >> (number * width) & format.mask());
            result | f(parts) << (number * width)
        })
    }
}

impl FunctionDecoder<'_> {
    /// Decodes a floating-point operation.
    pub(crate) fn float(&mut self, ptx: &PtxInst<'_>) -> Decode {
        let types = ptx.types();
        if types.len() > 1 && types[0] != types[1] {
            return self.mixed(ptx, types[1]);
        }
        let ty = ptx.ty();
        let (format, count) = format_of(ty).ok_or_else(|| Missing::new(ptx.spelling()))?;
        if ptx.form.opcode == Opcode::Testp {
            return self.test_class(ptx, format);
        }
        let mut sources = Vec::new();
        for &operand in &ptx.operands[1..] {
            sources.push(self.source(operand, ty)?);
        }
        let d = self.destination(ptx.operand(0))?;
        match sources[..] {
            [a] => {
                let f = each(format, count, function_of_one(ptx, format)?);
                self.compute1(d, a, move |a| f([a]));
            }
            [a, b] => {
                let f = each(format, count, function_of_two(ptx, format)?);
                self.compute2(d, [a, b], move |a, b| f([a, b]));
            }
            [a, b, c] => {
                let f = each(format, count, function_of_three(ptx, format)?);
                self.compute3(d, [a, b, c], move |a, b, c| f([a, b, c]));
            }
            _ => return self.unsupported(ptx),
        }
        Ok(())
    }

    /// Decodes `testp`.
    fn test_class(&mut self, ptx: &PtxInst<'_>, format: Format) -> Decode {
        let property = match () {
            () if ptx.has(Modifier::Finite) => Property::Finite,
            () if ptx.has(Modifier::Infinite) => Property::Infinite,
            () if ptx.has(Modifier::Number) => Property::Number,
            () if ptx.has(Modifier::Notanumber) => Property::NotANumber,
            () if ptx.has(Modifier::Normal) => Property::Normal,
            () => Property::Subnormal,
        };
        let a = self.source(ptx.operand(1), ptx.ty())?;
        let d = self.destination(ptx.operand(0))?;
        self.compute1(d, a, move |a| u64::from(compare::test(format, property, a)));
        Ok(())
    }

    /// Decodes mixed-precision operations such as `add.f32.f16`: the narrow operands are converted first, which is exact.
    fn mixed(&mut self, ptx: &PtxInst<'_>, narrow: ScalarType) -> Decode {
        let (format, _) = format_of(narrow).ok_or_else(|| Missing::new(ptx.spelling()))?;
        let last = ptx.operands.len() - 1;
        let mut sources: Vec<PtxSource> = Vec::new();
        for (position, &operand) in ptx.operands.iter().enumerate().skip(1) {
            let ty = if position == last { ScalarType::F32 } else { ScalarType::B16 };
            sources.push(self.source(operand, ty)?);
        }
        let d = self.destination(ptx.operand(0))?;
        let mode = mode(ptx);
        let wide = move |bits: u64| float_to_float(F32, format, bits, Mode::RN, Overflow::Ieee);
        match (ptx.form.opcode, &sources[..]) {
            (Opcode::Add, &[a, c]) => self.compute2(d, [a, c], move |a, c| float::add(F32, wide(a), c, mode)),
            (Opcode::Sub, &[a, c]) => self.compute2(d, [a, c], move |a, c| float::sub(F32, wide(a), c, mode)),
            (Opcode::Fma, &[a, b, c]) => self.compute3(d, [a, b, c], move |a, b, c| float::fma(F32, wide(a), wide(b), c, mode)),
            _ => return self.unsupported(ptx),
        }
        Ok(())
    }
}

type OfOne = Box<dyn Fn([u64; 1]) -> u64 + Send + Sync>;
type OfTwo = Box<dyn Fn([u64; 2]) -> u64 + Send + Sync>;
type OfThree = Box<dyn Fn([u64; 3]) -> u64 + Send + Sync>;

/// Returns the function of an instruction with one operand.
fn function_of_one(ptx: &PtxInst<'_>, format: Format) -> Decode<OfOne> {
    let (mode, ftz) = (mode(ptx), ptx.has(Modifier::Ftz));
    let approximate = |function: ApproxFunction| -> OfOne { Box::new(move |[a]| approx::evaluate(function, format, a, ftz)) };
    let exact = !ptx.has(Modifier::Approx);
    Ok(match ptx.form.opcode {
        Opcode::Abs => Box::new(move |[a]| float::abs(format, a, ftz)),
        Opcode::Neg => Box::new(move |[a]| float::neg(format, a, ftz)),
        Opcode::Rcp if exact => Box::new(move |[a]| float::rcp(format, a, mode)),
        Opcode::Sqrt if exact => Box::new(move |[a]| float::sqrt(format, a, mode)),
        Opcode::Rcp => approximate(ApproxFunction::Rcp),
        Opcode::Sqrt => approximate(ApproxFunction::Sqrt),
        Opcode::Rsqrt => approximate(ApproxFunction::Rsqrt),
        Opcode::Sin => approximate(ApproxFunction::Sin),
        Opcode::Cos => approximate(ApproxFunction::Cos),
        Opcode::Lg2 => approximate(ApproxFunction::Lg2),
        Opcode::Ex2 => approximate(ApproxFunction::Ex2),
        Opcode::Tanh => approximate(ApproxFunction::Tanh),
        _ => return Err(Missing::new(ptx.spelling())),
    })
}

fn extreme_mode(ptx: &PtxInst<'_>) -> ExtremeMode {
    ExtremeMode { ftz: ptx.has(Modifier::Ftz), nan: ptx.has(Modifier::NaN), xorsign_abs: ptx.has(Modifier::Xorsign) }
}

fn extreme(ptx: &PtxInst<'_>) -> Extreme {
    if ptx.form.opcode == Opcode::Min { Extreme::Min } else { Extreme::Max }
}

/// Returns the function of an instruction with two operands.
fn function_of_two(ptx: &PtxInst<'_>, format: Format) -> Decode<OfTwo> {
    let mode = mode(ptx);
    Ok(match ptx.form.opcode {
        Opcode::Add => Box::new(move |[a, b]| float::add(format, a, b, mode)),
        Opcode::Sub => Box::new(move |[a, b]| float::sub(format, a, b, mode)),
        Opcode::Mul => Box::new(move |[a, b]| float::mul(format, a, b, mode)),
        // Approximate division is computed exactly, which is within its error bounds.
        Opcode::Div => Box::new(move |[a, b]| float::div(format, a, b, mode)),
        Opcode::Copysign => Box::new(move |[a, b]| float::copysign(format, a, b)),
        Opcode::Min | Opcode::Max => {
            let (which, mode) = (extreme(ptx), extreme_mode(ptx));
            Box::new(move |[a, b]| float::min_max(format, which, a, b, mode))
        }
        _ => return Err(Missing::new(ptx.spelling())),
    })
}

/// Returns the function of an instruction with three operands.
fn function_of_three(ptx: &PtxInst<'_>, format: Format) -> Decode<OfThree> {
    let mode = mode(ptx);
    Ok(match ptx.form.opcode {
        // The manual does not define which NaN marks out-of-bounds elements of tensor copies.
        Opcode::Fma if ptx.has(Modifier::Oob) => return Err(Missing::new(ptx.spelling())),
        Opcode::Fma | Opcode::Mad => Box::new(move |[a, b, c]| float::fma(format, a, b, c, mode)),
        Opcode::Min | Opcode::Max => {
            let (which, mode) = (extreme(ptx), extreme_mode(ptx));
            let absolute = ptx.has(Modifier::Abs);
            Box::new(move |sources| {
                let [a, b, c] = sources.map(|x| if absolute { float::abs(format, x, false) } else { x });
                float::min_max(format, which, float::min_max(format, which, a, b, mode), c, mode)
            })
        }
        _ => return Err(Missing::new(ptx.spelling())),
    })
}
