//! Double precision: `DADD`, `DMUL`, `DFMA`.

use oriole_sem::float;
use oriole_sem::format::{F64, Rounding};

use crate::sass::site::Site;
use crate::sass::step::{Built, compute};
use crate::sass::warp::WideLanes;

use super::operand::{Typed, accept, for_active_wide, rounding};

/// Returns the bits of a result, with every NaN replaced by the hardware's.
#[inline]
pub fn canonical(value: f64) -> u64 {
    if value.is_nan() { F64.canonical_nan() } else { value.to_bits() }
}

/// The arithmetic operation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum DoubleOperation {
    Add,
    Multiply,
    Fused,
}

/// `DADD d, a, b`, `DMUL d, a, b`, `DFMA d, a, b, c`: rounding to nearest with the host's arithmetic, other modes with the reference.
pub fn arithmetic(site: &Site<'_>, kind: DoubleOperation) -> Built {
    accept(site, &[".RM", ".RP", ".RZ"])?;
    let mode = float::Mode::new(rounding(site));
    let mut operands = site.operands();
    let d = operands.wide_destination(2)?;
    let (a, b) = (operands.double()?, operands.double()?);
    let c = if kind == DoubleOperation::Fused { operands.double()? } else { a };
    operands.end()?;
    if mode.rounding == Rounding::NearestEven {
        return Ok(compute(move |warp, mask| {
            let [a, b, c] = [a, b, c].map(|input| input.read(warp).map(f64::from_bits));
            let values: WideLanes = match kind {
                DoubleOperation::Add => std::array::from_fn(|lane| canonical(a[lane] + b[lane])),
                DoubleOperation::Multiply => std::array::from_fn(|lane| canonical(a[lane] * b[lane])),
                DoubleOperation::Fused => std::array::from_fn(|lane| canonical(a[lane].mul_add(b[lane], c[lane]))),
            };
            warp.write_wide(d, mask, &values);
        }));
    }
    Ok(compute(move |warp, mask| {
        let [a, b, c] = [a, b, c].map(|input| input.read(warp));
        for_active_wide(warp, mask, d, |lane| match kind {
            DoubleOperation::Add => float::add(F64, a[lane], b[lane], mode),
            DoubleOperation::Multiply => float::mul(F64, a[lane], b[lane], mode),
            DoubleOperation::Fused => float::fma(F64, a[lane], b[lane], c[lane], mode),
        });
    }))
}
