//! The required results of each function of the library.

use crate::arith::{Rounding, flush32};
use crate::reference::{BINARY32, BINARY64, Exact, Format, divide, reciprocal, square_root};

/// A requirement on a result.
#[derive(Debug)]
pub enum Expected {
    /// Exactly these bits.
    Bits(u64),
    /// The canonical f32 NaN.
    Nan32,
    /// A quiet f64 NaN.
    Nan64,
    /// An f32 with this sign and within this number of units in the last place.
    Near32(u32, u32),
    /// An f64 within this number of units in the last place.
    Near64(u64, u64),
    /// Not specified.
    Anything,
}

impl Expected {
    /// Returns whether a result satisfies the requirement; `slack` units are added to tolerances.
    pub fn accepts(&self, bits: u64, slack: u32) -> bool {
        match *self {
            Expected::Bits(expected) => bits == expected,
            Expected::Nan32 => bits == 0x7fff_ffff,
            Expected::Nan64 => f64::from_bits(bits).is_nan() && bits >> 51 & 1 == 1,
            Expected::Near32(expected, units) => {
                let bits = bits as u32;
                !f32::from_bits(bits).is_nan() && bits >> 31 == expected >> 31 && bits.abs_diff(expected) <= units + slack
            }
            Expected::Near64(expected, units) => bits.abs_diff(expected) <= units + u64::from(slack),
            Expected::Anything => true,
        }
    }
}

/// The kind of operands that a function takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArgumentKind {
    /// Two f32, correctly rounded.
    Quotient32,
    /// Two f64, correctly rounded.
    Quotient64,
    /// One f32.
    Single,
    /// One f64.
    Double,
    /// Two integers of 16, 32 or 64 bits, signed or not.
    Integers(u32, bool),
    /// A word, the number of a bit in it, and a small signed number.
    BitSearch,
}

/// Computes the required result from the operands.
pub type Requirement = Box<dyn Fn(&[u64]) -> Expected + Sync + Send>;

/// A function with its operands and required results.
pub struct Check {
    /// The name without the prefix of the library.
    pub name: String,
    /// The kind of operands.
    pub kind: ArgumentKind,
    /// Whether the result is exact for all allowed errors of the hardware's approximations.
    pub exact: bool,
    /// Computes the required result.
    pub expect: Requirement,
}

fn bits_or_nan(format: Format, result: Option<u64>) -> Expected {
    match result {
        Some(bits) => Expected::Bits(bits),
        None if format.is_nan(0x7fff_ffff) => Expected::Nan32,
        None => Expected::Nan64,
    }
}

/// Returns the checks of all functions of the library.
pub fn checks() -> Vec<Check> {
    let mut list = Vec::new();
    rounded(&mut list);
    approximate(&mut list);
    integers(&mut list);
    others(&mut list);
    list
}

fn add(list: &mut Vec<Check>, name: String, kind: ArgumentKind, exact: bool, expect: impl Fn(&[u64]) -> Expected + Sync + Send + 'static) {
    list.push(Check { name, kind, exact, expect: Box::new(expect) });
}

/// Adds the correctly rounded functions.
fn rounded(list: &mut Vec<Check>) {
    for (mode, name) in Rounding::ALL {
        for (ftz, suffix) in [(false, ""), (true, "_ftz")] {
            add(list, format!("div_{name}{suffix}_f32"), ArgumentKind::Quotient32, true, move |v| {
                bits_or_nan(BINARY32, divide(BINARY32, v[0], v[1], mode, ftz))
            });
            add(list, format!("rcp_{name}{suffix}_f32"), ArgumentKind::Single, true, move |v| {
                bits_or_nan(BINARY32, reciprocal(BINARY32, v[0], mode, ftz))
            });
            add(list, format!("sqrt_{name}{suffix}_f32"), ArgumentKind::Single, true, move |v| {
                bits_or_nan(BINARY32, square_root(BINARY32, v[0], mode, ftz))
            });
        }
        add(list, format!("div_{name}_f64"), ArgumentKind::Quotient64, true, move |v| {
            bits_or_nan(BINARY64, divide(BINARY64, v[0], v[1], mode, false))
        });
        add(list, format!("rcp_{name}_f64"), ArgumentKind::Double, true, move |v| {
            bits_or_nan(BINARY64, reciprocal(BINARY64, v[0], mode, false))
        });
        add(list, format!("sqrt_{name}_f64"), ArgumentKind::Double, true, move |v| {
            bits_or_nan(BINARY64, square_root(BINARY64, v[0], mode, false))
        });
    }
}

fn near_or_nan(value: f32, units: u32) -> Expected {
    if value.is_nan() { Expected::Nan32 } else { Expected::Near32(value.to_bits(), units) }
}

/// Returns whether an f32 is finite and above 2^126 in magnitude.
fn is_huge(bits: u64) -> bool {
    let magnitude = bits as u32 & 0x7fff_ffff;
    magnitude > 0x7e80_0000 && magnitude < 0x7f80_0000
}

/// Adds the approximate f32 functions.
fn approximate(list: &mut Vec<Check>) {
    let single = |bits: u64| f32::from_bits(bits as u32);
    add(list, "rcp_approx_f32".into(), ArgumentKind::Single, false, move |v| near_or_nan(1.0 / single(v[0]), 1));
    add(list, "sqrt_approx_f32".into(), ArgumentKind::Single, false, move |v| near_or_nan(single(v[0]).sqrt(), 1));
    add(list, "rsqrt_approx_f32".into(), ArgumentKind::Single, false, move |v| {
        near_or_nan((1.0 / f64::from(single(v[0])).sqrt()) as f32, 1)
    });
    add(list, "ex2_approx_f32".into(), ArgumentKind::Single, false, move |v| near_or_nan(f64::from(single(v[0])).exp2() as f32, 2));
    add(list, "lg2_approx_f32".into(), ArgumentKind::Single, false, move |v| near_or_nan(f64::from(single(v[0])).log2() as f32, 2));
    for (ftz, suffix) in [(false, ""), (true, "_ftz")] {
        for way in ["approx", "full"] {
            add(list, format!("div_{way}{suffix}_f32"), ArgumentKind::Quotient32, false, move |v| {
                let flush = |bits: u64| if ftz { flush32(bits as u32) } else { bits as u32 };
                let (a, b) = (f32::from_bits(flush(v[0])), f32::from_bits(flush(v[1])));
                if way == "approx" && is_huge(v[1]) && !a.is_nan() {
                    let sign = (a.to_bits() ^ b.to_bits()) & 0x8000_0000;
                    return if a.is_infinite() { Expected::Nan32 } else { Expected::Bits(u64::from(sign)) };
                }
                let quotient = a / b;
                let magnitude = quotient.to_bits() & 0x7fff_ffff;
                if ftz && magnitude.abs_diff(0x0080_0000) < 8 {
                    return Expected::Anything;
                }
                near_or_nan(if ftz { f32::from_bits(flush32(quotient.to_bits())) } else { quotient }, 2)
            });
        }
    }
}

/// Adds integer division and remainder.
fn integers(list: &mut Vec<Check>) {
    for bits in [16, 32, 64] {
        let mask = u64::MAX >> (64 - bits);
        for (signed, letter) in [(false, 'u'), (true, 's')] {
            for remainder in [false, true] {
                let name = format!("{}_{letter}{bits}", if remainder { "rem" } else { "div" });
                let result_mask = if bits == 16 { 0xffff } else { mask };
                add(list, name, ArgumentKind::Integers(bits, signed), true, move |v| {
                    let extend =
                        |value: u64| if signed { ((value << (64 - bits)) as i64 >> (64 - bits)) as i128 } else { i128::from(value & mask) };
                    let (a, b) = (extend(v[0]), extend(v[1]));
                    let result = if b == 0 {
                        -1
                    } else if remainder {
                        a % b
                    } else {
                        a / b
                    };
                    Expected::Bits(result as u64 & result_mask)
                });
            }
        }
    }
}

/// Adds the remaining functions.
fn others(list: &mut Vec<Check>) {
    add(list, "fns_b32".into(), ArgumentKind::BitSearch, true, |v| {
        let (mask, base, offset) = (v[0] as u32, v[1] as i32, v[2] as u32 as i32);
        // The loop in the manual: walk from the base until the required number of set bits was seen.
        let (step, wanted) = if offset < 0 { (-1, -offset) } else { (1, offset.max(1)) };
        let is_set = |position: i32| mask >> position & 1 == 1;
        let last = if offset == 0 {
            base
        } else if offset < 0 {
            0
        } else {
            31
        };
        let (mut position, mut met) = (base, 0);
        loop {
            met += i32::from(is_set(position));
            if met == wanted {
                return Expected::Bits(position as u64);
            }
            if position == last {
                return Expected::Bits(0xffff_ffff);
            }
            position += step;
        }
    });
    add(list, "rsqrt_approx_f64".into(), ArgumentKind::Double, false, |v| {
        let a = f64::from_bits(v[0]);
        if a.is_nan() || a < 0.0 {
            Expected::Nan64
        } else if a == 0.0 || a.is_infinite() {
            Expected::Bits((1.0 / a).to_bits())
        } else {
            Expected::Near64((1.0 / a.sqrt()).to_bits(), 2)
        }
    });
    for (mode, name) in Rounding::ALL {
        add(list, format!("cvt_{name}_ftz_f32_f64"), ArgumentKind::Double, true, move |v| {
            let a = f64::from_bits(v[0]);
            if a.is_nan() {
                return Expected::Nan32;
            }
            if a.is_infinite() {
                return Expected::Bits(u64::from((a as f32).to_bits()));
            }
            // 2^-126 - 2^-150 has 24 significant bits, but rounds away from zero to a normal number. The manual does not say whether it
            // is flushed.
            if v[0] & !(1 << 63) == 0x380f_ffff_e000_0000 {
                return Expected::Anything;
            }
            if a == 0.0 {
                return Expected::Bits(v[0] >> 32);
            }
            Expected::Bits(Exact::number(BINARY64, v[0]).round(BINARY32, mode, true))
        });
    }
    add(list, "cvt_ftz_f64_f32".into(), ArgumentKind::Single, true, |v| {
        let a = f32::from_bits(flush32(v[0] as u32));
        if a.is_nan() { Expected::Nan64 } else { Expected::Bits(f64::from(a).to_bits()) }
    });
    add(list, "cvt_rna_tf32_f32".into(), ArgumentKind::Single, true, |v| {
        let (sign, magnitude) = (v[0] & 0x8000_0000, v[0] & 0x7fff_ffff);
        if magnitude > 0x7f80_0000 {
            return Expected::Bits(0x7fff_e000);
        }
        let step = f64::from(1 << 13);
        let cut = if magnitude < 0x7f80_0000 { (magnitude as f64 / step).round() } else { (magnitude as f64 / step).floor() };
        Expected::Bits(sign | (cut * step) as u64)
    });
}
