//! Double precision: `DADD`, `DMUL`, `DFMA`.

use oriole_sem::float;
use oriole_sem::format::{F64, Rounding};

use crate::sass::site::Site;
use crate::sass::step::{Built, compute};
use crate::sass::warp::WideLanes;

use super::operand::{Typed, accept, for_active_wide, rounding};

/// The NaN of an invalid operation, such as `0 * inf`, on an H200.
const DEFAULT_NAN: u64 = 0xfff8_0000_0000_0000;
/// The bit of quiet NaNs.
const QUIET: u64 = 1 << 51;

/// Returns the bits of a sum, a product or a multiply-add of `a`, `b` and `c`; for a sum and a product, `c` is `a`. On an H200, a NaN is the
/// first NaN among `b`, `c` and `a`, made quiet, or the default NaN if there is none.
#[inline]
fn with_payload(bits: u64, [a, b, c]: [u64; 3]) -> u64 {
    if !F64.is_nan(bits) {
        return bits;
    }
    [b, c, a].into_iter().find(|&operand| F64.is_nan(operand)).map_or(DEFAULT_NAN, |operand| operand | QUIET)
}

/// Returns the bits of a converted number, with every NaN replaced by one.
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
            let bits = [a, b, c].map(|input| input.read(warp));
            let [a, b, c] = bits.map(|lanes| lanes.map(f64::from_bits));
            let result = |lane: usize, value: f64| with_payload(value.to_bits(), bits.map(|lanes| lanes[lane]));
            let values: WideLanes = match kind {
                DoubleOperation::Add => std::array::from_fn(|lane| result(lane, a[lane] + b[lane])),
                DoubleOperation::Multiply => std::array::from_fn(|lane| result(lane, a[lane] * b[lane])),
                DoubleOperation::Fused => std::array::from_fn(|lane| result(lane, a[lane].mul_add(b[lane], c[lane]))),
            };
            warp.write_wide(d, mask, &values);
        }));
    }
    Ok(compute(move |warp, mask| {
        let [a, b, c] = [a, b, c].map(|input| input.read(warp));
        for_active_wide(warp, mask, d, |lane| {
            let bits = match kind {
                DoubleOperation::Add => float::add(F64, a[lane], b[lane], mode),
                DoubleOperation::Multiply => float::mul(F64, a[lane], b[lane], mode),
                DoubleOperation::Fused => float::fma(F64, a[lane], b[lane], c[lane], mode),
            };
            with_payload(bits, [a[lane], b[lane], c[lane]])
        });
    }))
}
