//! Integer sums and products: `IADD3`, `IADD`, `IMAD`, `LEA`, `IABS`, and their uniform forms.
//!
//! A carry-out is the part of the sum of unsigned 32-bit (64-bit) terms that exceeds the register, where `-x` counts as `2^32 - x`. A wide
//! product is added to a 64-bit operand; `.HI` keeps the upper half of that sum.

use crate::sass::site::{Input, Operands, Site};
use crate::sass::step::{Built, UnsupportedInst, compute};
use crate::sass::warp::{Lanes, Mask, PredicateDestination, PredicateSource, Warp};

use super::operand::{Integer, Typed, WideInteger, accept, ternary, unary};

/// `IADD3 d, carry1, carry2, a, b, c [, carry-in1, carry-in2]`: the sum of three terms and up to two carries. The part above 32 bits is 0,
/// 1 or 2; `carry1` is whether it is at least 1, `carry2` whether it is 2.
pub fn add3(site: &Site<'_>) -> Built {
    accept(site, &[".X", ".64"])?;
    if site.has(".64") {
        return wide_sum::<3>(site);
    }
    sum::<3>(site)
}

/// `IADD d, carry, a, b [, carry-in]`: the sum of two terms and a carry.
pub fn add(site: &Site<'_>) -> Built {
    accept(site, &[".X", ".64"])?;
    if site.has(".64") { wide_sum::<2>(site) } else { sum::<2>(site) }
}

/// The carry predicates that a sum writes and reads: one of each for two terms, two for three.
struct Carries {
    out: [Option<PredicateDestination>; 2],
    into: [PredicateSource; 2],
    has_in: [bool; 2],
}

impl Carries {
    /// Returns the carry-ins; 0 where the instruction has none.
    fn read(&self, warp: &Warp) -> [Mask; 2] {
        [0, 1].map(|index| if self.has_in[index] { warp.read_predicate(self.into[index]) } else { 0 })
    }

    /// Writes the carry-outs that the instruction has.
    fn write(&self, warp: &mut Warp, mask: Mask, bits: [Mask; 2]) {
        for (place, bits) in self.out.iter().zip(bits) {
            if let Some(place) = *place {
                warp.write_predicate(place, mask, bits);
            }
        }
    }
}

/// Builds a 32-bit sum of `TERMS` terms.
fn sum<const TERMS: usize>(site: &Site<'_>) -> Built {
    let mut operands = site.operands();
    let d = operands.destination()?;
    let out = carries_out::<TERMS>(&mut operands)?;
    let mut inputs = [operands.input()?; TERMS];
    for input in &mut inputs[1..] {
        *input = operands.input()?;
    }
    let carries = carries_in::<TERMS>(site, &mut operands, out)?;
    if carries.out == [None; 2] && carries.has_in == [false; 2] && TERMS == 3 {
        return Ok(ternary(d, [Integer::of(inputs[0])?, Integer::of(inputs[1])?, Integer::of(inputs[2])?], |a, b, c| {
            a.wrapping_add(b).wrapping_add(c)
        }));
    }
    Ok(compute(move |warp, mask| {
        let terms = inputs.map(|input| term(warp, input));
        let [x, y] = carries.read(warp);
        let mut values: Lanes = [0; 32];
        let (mut one, mut two): (Mask, Mask) = (0, 0);
        for lane in 0..32 {
            let carry = u64::from((x >> lane & 1) + (y >> lane & 1));
            let sum = terms.iter().fold(carry, |sum, term| sum + term[lane]);
            values[lane] = sum as u32;
            one |= u32::from(sum >> 32 >= 1) << lane;
            two |= u32::from(sum >> 32 >= 2) << lane;
        }
        warp.write(d, mask, &values);
        carries.write(warp, mask, [one, two]);
    }))
}

/// Takes the carry-out predicates.
fn carries_out<const TERMS: usize>(operands: &mut Operands<'_>) -> Result<[Option<PredicateDestination>; 2], UnsupportedInst> {
    if TERMS == 2 {
        let [carry] = operands.carries::<1>()?;
        Ok([carry, None])
    } else {
        operands.carries::<2>()
    }
}

/// Takes the carry-in predicates.
fn carries_in<const TERMS: usize>(
    site: &Site<'_>,
    operands: &mut Operands<'_>,
    out: [Option<PredicateDestination>; 2],
) -> Result<Carries, UnsupportedInst> {
    let extended = site.has(".X");
    // Without `.X` there is no carry-in, whatever the predicate fields of the encoding contain.
    let into = if extended { [operands.optional_predicate()?, operands.optional_predicate()?] } else { [PredicateSource::TRUE; 2] };
    Ok(Carries { out, into, has_in: [extended, extended && TERMS == 3] })
}

/// Returns the term of each thread: `-x` counts as `2^32 - x`, `~x` is the complement.
fn term(warp: &Warp, input: Input) -> [u64; 32] {
    warp.read(input.source).map(|value| match (input.negate, input.invert) {
        (true, _) => (1 << 32) - u64::from(value),
        (_, true) => u64::from(!value),
        _ => u64::from(value),
    })
}

/// Builds a 64-bit sum of `TERMS` terms in register pairs.
fn wide_sum<const TERMS: usize>(site: &Site<'_>) -> Built {
    let mut operands = site.operands();
    let d = operands.wide_destination(2)?;
    let out = carries_out::<TERMS>(&mut operands)?;
    let mut inputs = [operands.wide_integer()?; TERMS];
    for input in &mut inputs[1..] {
        *input = operands.wide_integer()?;
    }
    let carries = carries_in::<TERMS>(site, &mut operands, out)?;
    Ok(compute(move |warp, mask| {
        let terms = inputs.map(|input| input.term(warp));
        let [x, y] = carries.read(warp);
        let sums: [u128; 32] =
            std::array::from_fn(|lane| terms.iter().fold(u128::from((x >> lane & 1) + (y >> lane & 1)), |sum, term| sum + term[lane]));
        warp.write_wide(d, mask, &sums.map(|sum| sum as u64));
        let beyond = |least: u128| sums.iter().enumerate().fold(0, |bits, (lane, sum)| bits | u32::from(sum >> 64 >= least) << lane);
        carries.write(warp, mask, [beyond(1), beyond(2)]);
    }))
}

/// `IMAD d, a, b, c`: `a * b + c`.
pub fn multiply_add(site: &Site<'_>) -> Built {
    accept(site, &[".X", ".WIDE", ".HI", ".U32"])?;
    if site.has(".WIDE") || site.has(".HI") {
        return if site.has(".U32") { wide_multiply_add::<false>(site) } else { wide_multiply_add::<true>(site) };
    }
    let mut operands = site.operands();
    let d = operands.destination()?;
    let inputs = [operands.integer()?, operands.integer()?, operands.integer()?];
    if !site.has(".X") {
        return Ok(ternary(d, inputs, |a, b, c| a.wrapping_mul(b).wrapping_add(c)));
    }
    let carry = operands.predicate()?;
    Ok(compute(move |warp, mask| {
        let [a, b, c] = inputs.map(|input| input.read(warp));
        let carry = warp.read_predicate(carry);
        let values: Lanes = std::array::from_fn(|lane| a[lane].wrapping_mul(b[lane]).wrapping_add(c[lane]).wrapping_add(carry >> lane & 1));
        warp.write(d, mask, &values);
    }))
}

/// Builds `IMAD.WIDE` and `IMAD.HI`: adds a 64-bit operand to the 64-bit product; the carry-out is that of the 64-bit sum.
fn wide_multiply_add<const SIGNED: bool>(site: &Site<'_>) -> Built {
    let high = site.has(".HI");
    let extended = site.has(".X");
    let mut operands = site.operands();
    let d = if high { operands.destination()? } else { operands.wide_destination(2)? };
    let [overflow] = operands.carries::<1>()?;
    let (a, b, c): (Integer, Integer, WideInteger) = (operands.integer()?, operands.integer()?, operands.wide_integer()?);
    let carry = if extended { Some(operands.predicate()?) } else { None };
    let product = |a: u32, b: u32| {
        if SIGNED { (i64::from(a as i32) * i64::from(b as i32)) as u64 } else { u64::from(a) * u64::from(b) }
    };
    if overflow.is_none() && carry.is_none() {
        return Ok(compute(move |warp, mask| {
            let (a, b, c) = (a.read(warp), b.read(warp), c.read(warp));
            let sums: [u64; 32] = std::array::from_fn(|lane| product(a[lane], b[lane]).wrapping_add(c[lane]));
            if high {
                warp.write(d, mask, &sums.map(|sum| (sum >> 32) as u32));
            } else {
                warp.write_wide(d, mask, &sums);
            }
        }));
    }
    Ok(compute(move |warp, mask| {
        let (a, b, c) = (a.read(warp), b.read(warp), c.term(warp));
        let carry = carry.map_or(0, |carry| warp.read_predicate(carry));
        let sums: [u128; 32] = std::array::from_fn(|lane| u128::from(product(a[lane], b[lane])) + c[lane] + u128::from(carry >> lane & 1));
        if high {
            warp.write(d, mask, &sums.map(|sum| (sum >> 32) as u32));
        } else {
            warp.write_wide(d, mask, &sums.map(|sum| sum as u64));
        }
        if let Some(overflow) = overflow {
            let bits = sums.iter().enumerate().fold(0, |bits, (lane, sum)| bits | u32::from(sum >> 64 != 0) << lane);
            warp.write_predicate(overflow, mask, bits);
        }
    }))
}

/// `LEA d, carry, a, b [, a-high], shift [, carry-in]`: `(a << shift) + b`. With `.HI`, the upper word of the shifted pair `a-high:a` is
/// added. Sign modifiers of `a` apply after the shift.
pub fn shift_add(site: &Site<'_>) -> Built {
    accept(site, &[".X", ".HI", ".SX32"])?;
    let (high, by_sign, extended) = (site.has(".HI"), site.has(".SX32"), site.has(".X"));
    let mut operands = site.operands();
    let d = operands.destination()?;
    let [overflow] = operands.carries::<1>()?;
    let (a, b) = (operands.input()?, operands.input()?);
    let above = if high && !by_sign { Some(operands.integer()?) } else { None };
    let shift = operands.number()? as u32 & 31;
    let carry = if extended { Some(operands.predicate()?) } else { None };
    let plain = Input { negate: false, invert: false, ..a };
    let lower = Integer::of(plain)?;
    Ok(compute(move |warp, mask| {
        let shifted: Lanes = if high {
            let low = lower.read(warp);
            let above: Lanes = above.map_or_else(|| low.map(|value| (value as i32 >> 31) as u32), |above| above.read(warp));
            std::array::from_fn(|lane| ((u64::from(above[lane]) << 32 | u64::from(low[lane])) >> (32 - shift)) as u32)
        } else {
            lower.read(warp).map(|value| value << shift)
        };
        let shifted = shifted.map(|value| match (a.negate, a.invert) {
            (true, _) => (1 << 32) - u64::from(value),
            (_, true) => u64::from(!value),
            _ => u64::from(value),
        });
        let b = term(warp, b);
        let carry = carry.map_or(0, |carry| warp.read_predicate(carry));
        let sums: [u64; 32] = std::array::from_fn(|lane| shifted[lane] + b[lane] + u64::from(carry >> lane & 1));
        warp.write(d, mask, &sums.map(|sum| sum as u32));
        if let Some(overflow) = overflow {
            let bits = sums.iter().enumerate().fold(0, |bits, (lane, sum)| bits | u32::from(sum >> 32 != 0) << lane);
            warp.write_predicate(overflow, mask, bits);
        }
    }))
}

/// `IABS d, a`: absolute value.
pub fn absolute(site: &Site<'_>) -> Built {
    accept(site, &[])?;
    let mut operands = site.operands();
    let d = operands.destination()?;
    Ok(unary(d, operands.integer()?, |value| (value as i32).unsigned_abs()))
}
