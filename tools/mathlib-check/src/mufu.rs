//! Models the approximations of the hardware's MUFU unit: the exact result rounded, and then off by a chosen number of units in the last
//! place. Operands and results below the normal range are flushed.
//!
//! The manual bounds the errors: one ulp for the f32 reciprocal, 2^-22.9 (two ulps) for the reciprocal square root. The f64 functions read
//! and write upper words only.

use std::collections::BTreeSet;

use crate::arith::{NAN32, NAN64, flush32};

/// The number 2 - 2^-52.
const ALL_ONES: u64 = 0x3fff_ffff_ffff_ffff;

/// Returns whether the Newton iteration of the f64 division turns this approximation of 1/(2 - 2^-52) into 0.5, from which quotients end in
/// ties. NVIDIA's own code uses the same iteration, so the hardware does not return such an approximation.
fn ends_in_tie(units: i32) -> bool {
    let y = f64::from_bits(ALL_ONES);
    let start = f64::from_bits(Mufu::off64(1.0 / Mufu::upper(ALL_ONES), units) | 1);
    let error = (-y).mul_add(start, 1.0);
    let next = start.mul_add(error.mul_add(error, error), start);
    next.mul_add((-y).mul_add(next, 1.0), next) == 0.5
}

/// The error of the approximations in units in the last place.
#[derive(Clone, Copy, Debug)]
pub enum Offset {
    /// The same error for all operands.
    Fixed(i32),
    /// An error that depends on the operand.
    Varying,
}

/// The model of the unit.
pub struct Mufu {
    offset: Offset,
    /// Fractions and errors from which the Newton step of the reciprocal does not reach the correct result.
    wrong_reciprocals: BTreeSet<(u32, i32)>,
    /// Fractions and errors from which the Newton step of the root does not reach the correct result.
    wrong_roots: BTreeSet<(u32, i32)>,
}

impl Mufu {
    /// Finds the approximations from which one Newton step in f32 gives a wrong result. There are a few dozen. NVIDIA's own code uses
    /// exactly this step on all targets and is documented as IEEE-compliant, so the hardware does not return these approximations.
    pub fn new() -> Mufu {
        let mut wrong_reciprocals = BTreeSet::new();
        for fraction in 0..1u32 << 23 {
            let y = f32::from_bits(0x3f80_0000 | fraction);
            let right = 1.0 / y;
            for offset in [-1, 1] {
                let r = f32::from_bits(right.to_bits().wrapping_add_signed(offset));
                if r.mul_add((-y).mul_add(r, 1.0), r) != right {
                    wrong_reciprocals.insert((fraction, offset));
                }
            }
        }
        let mut wrong_roots = BTreeSet::new();
        for position in 0..1u32 << 24 {
            let x = f32::from_bits(0x3f80_0000 + position);
            let (right, exact) = (x.sqrt(), (1.0 / f64::from(x).sqrt()) as f32);
            for offset in [-2, -1, 1, 2] {
                let r = f32::from_bits(exact.to_bits().wrapping_add_signed(offset));
                let s = x * r;
                if (-s).mul_add(s, x).mul_add(0.5 * r, s) != right {
                    wrong_roots.insert((position, offset));
                }
            }
        }
        Mufu { offset: Offset::Fixed(0), wrong_reciprocals, wrong_roots }
    }

    /// Returns the number of excluded pairs of operand and approximation, for reciprocals and roots.
    pub fn ruled_out(&self) -> (usize, usize) {
        (self.wrong_reciprocals.len(), self.wrong_roots.len())
    }

    /// Returns the unit with another error.
    pub fn with_offset(&self, offset: Offset) -> Mufu {
        Mufu { offset, wrong_reciprocals: self.wrong_reciprocals.clone(), wrong_roots: self.wrong_roots.clone() }
    }

    /// Returns the error for an operand, at most `limit` units.
    fn units(&self, operand: u64, limit: i32) -> i32 {
        match self.offset {
            Offset::Fixed(units) => units.clamp(-limit, limit),
            Offset::Varying => {
                let hash = operand.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
                (hash % (2 * limit as u64 + 1)) as i32 - limit
            }
        }
    }

    fn off32(value: f32, units: i32) -> u32 {
        if value == 0.0 || !value.is_finite() {
            return if value.is_nan() { NAN32 } else { value.to_bits() };
        }
        flush32(value.to_bits().wrapping_add_signed(units))
    }

    /// Computes `rcp.approx.ftz.f32`.
    pub fn reciprocal32(&self, a: u32) -> u32 {
        let a = flush32(a);
        let mut units = self.units(u64::from(a), 1);
        if self.wrong_reciprocals.contains(&(a & 0x7f_ffff, units)) {
            units = 0;
        }
        let exact = 1.0 / f32::from_bits(a);
        if exact.abs() == f32::MIN_POSITIVE {
            // The manual bounds the error for operands up to and including 2^126, so the reciprocal 2^-126 is not flushed.
            units = units.max(0);
        }
        if exact.is_subnormal() { exact.to_bits() & 0x8000_0000 } else { Mufu::off32(exact, units) }
    }

    /// Computes `rsqrt.approx.ftz.f32`.
    pub fn reciprocal_root32(&self, a: u32) -> u32 {
        let a = flush32(a);
        let mut units = self.units(u64::from(a), 2);
        let position = if a >> 23 & 1 == 1 { a & 0x7f_ffff } else { a & 0x7f_ffff | 0x80_0000 };
        if self.wrong_roots.contains(&(position, units)) {
            units = 0;
        }
        Mufu::off32((1.0 / f64::from(f32::from_bits(a)).sqrt()) as f32, units)
    }

    /// Computes `sqrt.approx.ftz.f32`.
    pub fn root32(&self, a: u32) -> u32 {
        let a = flush32(a);
        Mufu::off32(f32::from_bits(a).sqrt(), self.units(u64::from(a), 1))
    }

    /// Computes `ex2.approx.ftz.f32`.
    pub fn power32(&self, a: u32) -> u32 {
        Mufu::off32(f32::from_bits(flush32(a)).exp2(), self.units(u64::from(a), 1))
    }

    /// Computes `lg2.approx.ftz.f32`.
    pub fn logarithm32(&self, a: u32) -> u32 {
        Mufu::off32(f32::from_bits(flush32(a)).log2(), self.units(u64::from(a), 1))
    }

    fn off64(value: f64, units: i32) -> u64 {
        if value.is_nan() {
            return NAN64;
        }
        if value.is_subnormal() {
            return value.to_bits() & 1 << 63;
        }
        let upper = (value.to_bits() >> 32) as u32;
        let upper = if value == 0.0 || value.is_infinite() { upper } else { upper.wrapping_add_signed(units) };
        u64::from(upper) << 32
    }

    /// Returns the number in the upper word. A NaN whose payload is only in the lower word looks like an infinity.
    fn upper(a: u64) -> f64 {
        let value = f64::from_bits(a & 0xffff_ffff_0000_0000);
        if value.is_subnormal() { f64::from_bits(a & 1 << 63) } else { value }
    }

    /// Computes `rcp.approx.ftz.f64`.
    pub fn reciprocal64(&self, a: u64) -> u64 {
        let mut units = self.units(a, 1);
        if a << 12 == ALL_ONES << 12 && ends_in_tie(units) {
            units = 0;
        }
        Mufu::off64(1.0 / Mufu::upper(a), units)
    }

    /// Computes `rsqrt.approx.ftz.f64`.
    pub fn reciprocal_root64(&self, a: u64) -> u64 {
        Mufu::off64(1.0 / Mufu::upper(a).sqrt(), self.units(a, 2))
    }
}
