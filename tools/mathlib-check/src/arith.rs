//! Floating-point arithmetic as the hardware does it: all rounding modes, canonical NaNs for f32.
//!
//! Round-to-nearest uses the host's IEEE arithmetic. Directed modes start from that result and move it by one ulp if the sign of the
//! exact error requires it. The error is computed exactly, as a sum of floats without rounding (Knuth's TwoSum, Shewchuk's expansions).

/// A rounding mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rounding {
    /// `.rn`
    Nearest,
    /// `.rz`
    Zero,
    /// `.rm`
    Down,
    /// `.rp`
    Up,
}

impl Rounding {
    /// All modes with their PTX names.
    pub const ALL: [(Rounding, &'static str); 4] =
        [(Rounding::Nearest, "rn"), (Rounding::Zero, "rz"), (Rounding::Down, "rm"), (Rounding::Up, "rp")];
}

/// The NaN that every f32 instruction returns.
pub const NAN32: u32 = 0x7fff_ffff;
/// The NaN that f64 instructions return for invalid operations.
pub const NAN64: u64 = 0xfff8_0000_0000_0000;

fn sign_of(value: f64) -> i32 {
    if value > 0.0 {
        1
    } else if value < 0.0 {
        -1
    } else {
        0
    }
}

/// Returns the rounded sum and its exact rounding error (Knuth's TwoSum).
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let virtual_b = sum - a;
    (sum, (a - (sum - virtual_b)) + (b - virtual_b))
}

/// Returns the sign of the exact sum of the terms.
fn sign_of_sum(terms: &[f64]) -> i32 {
    let mut expansion = [0.0f64; 8];
    let mut length = 0;
    for &term in terms {
        // Adds the term to the expansion without rounding: each component keeps the rounding error, and the sum is carried on.
        let mut carry = term;
        for component in &mut expansion[..length] {
            let (sum, error) = two_sum(carry, *component);
            *component = error;
            carry = sum;
        }
        expansion[length] = carry;
        length += 1;
    }
    // The components do not overlap and grow in magnitude, so the largest nonzero one has the sign of the sum.
    expansion[..length].iter().rev().map(|&value| sign_of(value)).find(|&sign| sign != 0).unwrap_or(0)
}

/// Returns whether a result rounded to nearest has to move up (1) or down (-1), given the sign of the exact value minus the result.
fn correction(mode: Rounding, result_negative: bool, error: i32) -> i32 {
    match mode {
        Rounding::Nearest => 0,
        Rounding::Down => error.min(0),
        Rounding::Up => error.max(0),
        Rounding::Zero if result_negative => error.max(0),
        Rounding::Zero => error.min(0),
    }
}

fn move32(value: f32, step: i32) -> f32 {
    match step {
        1 => value.next_up(),
        -1 => value.next_down(),
        _ => value,
    }
}

fn move64(value: f64, step: i32) -> f64 {
    match step {
        1 => value.next_up(),
        -1 => value.next_down(),
        _ => value,
    }
}

/// Returns the bits of an f32; a NaN is made canonical.
pub fn canonical(value: f32) -> u32 {
    if value.is_nan() { NAN32 } else { value.to_bits() }
}

/// Computes `fma.MODE.f32`.
pub fn fma32(mode: Rounding, a: u32, b: u32, c: u32) -> u32 {
    let (a, b, c) = (f32::from_bits(a), f32::from_bits(b), f32::from_bits(c));
    let nearest = a.mul_add(b, c);
    if mode == Rounding::Nearest || nearest.is_nan() || !(a.is_finite() && b.is_finite() && c.is_finite()) {
        return canonical(nearest);
    }
    let product = f64::from(a) * f64::from(b);
    let (sum, low) = two_sum(product, f64::from(c));
    if sum == 0.0 && low == 0.0 {
        let opposite = product.is_sign_negative() != c.is_sign_negative();
        return if opposite { if mode == Rounding::Down { 0x8000_0000 } else { 0 } } else { nearest.to_bits() };
    }
    let error = if nearest.is_infinite() { -sign_of(f64::from(nearest)) } else { sign_of_sum(&[sum, low, -f64::from(nearest)]) };
    move32(nearest, correction(mode, nearest.is_sign_negative(), error)).to_bits()
}

/// Computes `mul.MODE.f32`.
pub fn mul32(mode: Rounding, a: u32, b: u32) -> u32 {
    let (x, y) = (f32::from_bits(a), f32::from_bits(b));
    let nearest = x * y;
    if mode == Rounding::Nearest || nearest.is_nan() || x == 0.0 || y == 0.0 || !(x.is_finite() && y.is_finite()) {
        return canonical(nearest);
    }
    let product = f64::from(x) * f64::from(y);
    let error = if nearest.is_infinite() { -sign_of(product) } else { sign_of(product - f64::from(nearest)) };
    move32(nearest, correction(mode, product < 0.0, error)).to_bits()
}

/// Splits a number into a significand in [1, 2) and an exponent. Zero gets a very small exponent.
fn split(value: f64) -> (f64, i32) {
    if value == 0.0 {
        return (value, -5000);
    }
    let (value, extra) = if value.is_subnormal() { (value * 2f64.powi(54), -54) } else { (value, 0) };
    let bits = value.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as i32 - 1023;
    (f64::from_bits(bits & 0x800f_ffff_ffff_ffff | 0x3ff0_0000_0000_0000), exponent + extra)
}

/// Multiplies by a power of two. A result far below all other terms becomes a tiny number of the same sign.
fn scaled(significand: f64, exponent: i32) -> f64 {
    if significand == 0.0 { significand } else { significand * 2f64.powi(exponent.max(-400)) }
}

/// Computes `fma.MODE.f64`.
pub fn fma64(mode: Rounding, a: u64, b: u64, c: u64) -> u64 {
    let (a, b, c) = (f64::from_bits(a), f64::from_bits(b), f64::from_bits(c));
    if a.is_nan() || b.is_nan() || c.is_nan() {
        return (a + b + c).to_bits() | 1 << 51;
    }
    let nearest = a.mul_add(b, c);
    if nearest.is_nan() {
        return NAN64;
    }
    if mode == Rounding::Nearest || !(a.is_finite() && b.is_finite() && c.is_finite()) {
        return nearest.to_bits();
    }
    let (sa, ea) = split(a);
    let (sb, eb) = split(b);
    let (sc, ec) = split(c);
    let product_exponent = if a == 0.0 || b == 0.0 { -9000 } else { ea + eb };
    let base = product_exponent.max(ec);
    let (x, y, z) = (scaled(sa, product_exponent - base), sb, scaled(sc, ec - base));
    let product = x * y;
    let low = x.mul_add(y, -product);
    if sign_of_sum(&[product, low, z]) == 0 {
        let opposite = (a * b).is_sign_negative() != c.is_sign_negative();
        return if opposite { if mode == Rounding::Down { 1 << 63 } else { 0 } } else { nearest.to_bits() };
    }
    let error = if nearest.is_infinite() {
        -sign_of(nearest)
    } else {
        let (sr, er) = split(nearest);
        sign_of_sum(&[product, low, z, -scaled(sr, er - base)])
    };
    move64(nearest, correction(mode, nearest.is_sign_negative(), error)).to_bits()
}

/// Computes `mul.MODE.f64`.
pub fn mul64(mode: Rounding, a: u64, b: u64) -> u64 {
    let negative = (a ^ b) >> 63;
    fma64(mode, a, b, negative << 63)
}

/// Computes `add.rn.f64`.
pub fn add64(a: u64, b: u64) -> u64 {
    let (a, b) = (f64::from_bits(a), f64::from_bits(b));
    let sum = a + b;
    if sum.is_nan() && !a.is_nan() && !b.is_nan() { NAN64 } else { sum.to_bits() }
}

/// Returns zero with the sign of a subnormal number, and any other number unchanged.
pub fn flush32(bits: u32) -> u32 {
    if f32::from_bits(bits).is_subnormal() { bits & 0x8000_0000 } else { bits }
}

/// Computes `cvt.MODE.f32.f64`.
pub fn narrow(mode: Rounding, a: u64) -> u32 {
    let value = f64::from_bits(a);
    let nearest = value as f32;
    if nearest.is_nan() || value.is_infinite() {
        return canonical(nearest);
    }
    let error = if nearest.is_infinite() { -sign_of(value) } else { sign_of(value - f64::from(nearest)) };
    move32(nearest, correction(mode, value.is_sign_negative(), error)).to_bits()
}

/// Computes `cvt.rp.f32.u64`.
pub fn unsigned_up(value: u64) -> u32 {
    let nearest = value as f32;
    let error = (i128::from(value) - nearest as i128).signum();
    move32(nearest, correction(Rounding::Up, false, error as i32)).to_bits()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::Random;
    use crate::reference::{BINARY32, BINARY64, Exact};

    /// Compares with integer arithmetic, which shares nothing with the error-free transformations above.
    #[test]
    fn directed_fma_agrees_with_integers() {
        let mut random = Random::new(7);
        for _ in 0..200_000 {
            let [a, b, c] = [random.near_one32(15), random.near_one32(15), random.near_one32(30)];
            for (mode, name) in Rounding::ALL {
                let exact = Exact::fma(BINARY32, u64::from(a), u64::from(b), u64::from(c));
                assert_eq!(u64::from(fma32(mode, a, b, c)), exact.round(BINARY32, mode, false), "{name} {a:08x} {b:08x} {c:08x}");
            }
            let [a, b, c] = [random.near_one64(4), random.near_one64(4), random.near_one64(8)];
            for (mode, name) in Rounding::ALL {
                let exact = Exact::fma(BINARY64, a, b, c);
                assert_eq!(fma64(mode, a, b, c), exact.round(BINARY64, mode, false), "{name} {a:016x} {b:016x} {c:016x}");
            }
        }
    }
}
