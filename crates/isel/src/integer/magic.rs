//! Constants for division by multiplication (Granlund and Montgomery 1994, "Division by invariant integers using multiplication").
//!
//! `n / d` is the upper half of `n * m`, shifted right by `s`, where `m` is `2^(N+s) / d` rounded up. The computed quotient is exact for
//! all `n < 2^range` if `m * d - 2^(N+s) <= 2^(N+s-range)`: then the rounding of `m` adds less than `1/d` to `n / d`. The smallest such
//! `s` is used.
//!
//! Example, N = 32: for d = 10 the smallest shift is s = 3 with m = 0xcccccccd, so `n / 10 = high(n * 0xcccccccd) >> 3`. For d = 7 it is s
//! = 3 with m = 0x124924925, which has 33 bits. With `t = high(n * 0x24924925)` the quotient is `(n + t) >> 3`, computed as `(((n - t) >>
//! 1) + t) >> 2` since `n + t` may overflow.

/// How to divide an unsigned N-bit number by a constant that is not a power of two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unsigned {
    /// `high(n >> before, multiplier) >> after`
    Multiply { before: u32, multiplier: u64, after: u32 },
    /// With `t = high(n, multiplier)`: `(((n - t) >> 1) + t) >> after`. The true multiplier has N + 1 bits; its top bit is not stored.
    MultiplyAdd { multiplier: u64, after: u32 },
    /// The divisor is more than half of the range, so the quotient is 1 or 0.
    Compare,
}

/// How to divide a signed N-bit number by a positive constant that is not a power of two. With `t = high(n, multiplier)`, plus `n` if
/// `adds`, the quotient is `(t >> after) + (n < 0)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Signed {
    /// N bits, taken as a signed number by the multiplication.
    pub multiplier: u64,
    /// Whether the true multiplier is the unsigned one, so that the signed product lacks `n * 2^N`, that is `n` in its upper half.
    pub adds: bool,
    /// Number of bits of the final arithmetic right shift.
    pub after: u32,
}

/// Returns the smallest shift `s`, and the multiplier `2^(bits+s) / divisor` rounded up, for which the quotients of all numbers below
/// `2^range` are exact.
fn smallest(divisor: u64, bits: u32, range: u32) -> (u128, u32) {
    let divisor = u128::from(divisor);
    let mut shift = 0;
    loop {
        let power = 1_u128 << (bits + shift);
        let multiplier = power.div_ceil(divisor);
        let excess = multiplier * divisor - power;
        if excess <= 1 << (bits + shift - range) {
            return (multiplier, shift);
        }
        shift += 1;
    }
}

/// Returns how to divide unsigned numbers of 32 or 64 bits.
pub(super) fn unsigned(divisor: u64, bits: u32) -> Unsigned {
    if divisor > 1 << (bits - 1) {
        return Unsigned::Compare;
    }
    let limit = 1_u128 << bits;
    let (multiplier, shift) = smallest(divisor, bits, bits);
    if multiplier < limit {
        return Unsigned::Multiply { before: 0, multiplier: multiplier as u64, after: shift };
    }
    // An even divisor: after shifting its factors of two out of the number, fewer bits have to be exact, and the multiplier may fit.
    let before = divisor.trailing_zeros();
    let (smaller, after) = smallest(divisor >> before, bits, bits - before);
    if smaller < limit {
        return Unsigned::Multiply { before, multiplier: smaller as u64, after };
    }
    Unsigned::MultiplyAdd { multiplier: (multiplier - limit) as u64, after: shift - 1 }
}

/// Returns how to divide signed numbers of 32 or 64 bits by a divisor below half of the unsigned range.
pub(super) fn signed(divisor: u64, bits: u32) -> Signed {
    let (multiplier, shift) = smallest(divisor, bits, bits - 1);
    Signed { multiplier: multiplier as u64, adds: multiplier >> (bits - 1) != 0, after: shift }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Divisors near powers of two, random ones, and ones known to be hard; no powers of two.
    fn divisors(bits: u32) -> impl Iterator<Item = u64> {
        let greatest = u64::MAX >> (64 - bits);
        let near_powers = (1..bits).flat_map(move |bit| (0..7).map(move |offset| ((1_u64 << bit) + offset).wrapping_sub(3)));
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let random = (0..2000).map(move |number| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> (number % u64::from(bits))
        });
        near_powers
            .chain(random)
            .chain([3, 5, 6, 7, 9, 10, 641, 1000, greatest - 1, greatest])
            .filter(move |&divisor| (3..=greatest).contains(&divisor) && !divisor.is_power_of_two())
    }

    /// Dividends around multiples of the divisor, and at the ends of the range.
    fn dividends(divisor: u64, bits: u32) -> impl Iterator<Item = u64> {
        let greatest = u64::MAX >> (64 - bits);
        let last = greatest / divisor;
        let factors = [0, 1, 2, last / 3, last / 2, last.saturating_sub(1), last];
        let around = factors
            .into_iter()
            .flat_map(move |factor| (0..3).map(move |offset| factor.wrapping_mul(divisor).wrapping_add(offset).wrapping_sub(1)));
        around.chain([greatest, greatest - 1, greatest / 2, greatest / 2 + 1, greatest / 2 + 2]).map(move |number| number & greatest)
    }

    /// 2^32 + 1 = 641 * 6700417, so the multipliers of these divisors are exactly as far off as they may be.
    #[test]
    fn the_smallest_shift_is_found() {
        let multiply = |divisor| match unsigned(divisor, 32) {
            Unsigned::Multiply { before, multiplier, after } => (before, multiplier, after),
            _ => panic!("{divisor} has another form"),
        };
        assert_eq!((multiply(641), multiply(6_700_417)), ((0, 6_700_417, 0), (0, 641, 0)));
        assert_eq!((multiply(3), multiply(10)), ((0, 0xaaaa_aaab, 1), (0, 0xcccc_cccd, 3)));
        // 14 = 2 * 7: the multiplier of 7 needs 33 bits for 32-bit numbers, but not for numbers of 31 bits.
        assert_eq!(multiply(14), (1, 0x9249_2493, 2));
        assert!(matches!(unsigned(7, 32), Unsigned::MultiplyAdd { multiplier: 0x2492_4925, after: 2 }));
    }

    #[test]
    fn unsigned_quotients_are_exact() {
        for bits in [32, 64] {
            for divisor in divisors(bits) {
                for number in dividends(divisor, bits) {
                    let high = |a: u64, b: u64| ((u128::from(a) * u128::from(b)) >> bits) as u64;
                    let quotient = match unsigned(divisor, bits) {
                        Unsigned::Multiply { before, multiplier, after } => high(number >> before, multiplier) >> after,
                        Unsigned::MultiplyAdd { multiplier, after } => {
                            let part = high(number, multiplier);
                            (((number - part) >> 1) + part) >> after
                        }
                        Unsigned::Compare => u64::from(number >= divisor),
                    };
                    assert_eq!(quotient, number / divisor, "{number} / {divisor} in {bits} bits");
                }
            }
        }
    }

    #[test]
    fn signed_quotients_are_exact() {
        for bits in [32, 64] {
            let signed_value = |value: u64| (value << (64 - bits)) as i64 >> (64 - bits);
            for divisor in divisors(bits - 1) {
                let magic = signed(divisor, bits);
                for bits_of_number in dividends(divisor, bits).flat_map(|number| [number, number.wrapping_neg()]) {
                    let number = signed_value(bits_of_number);
                    let mut part = ((i128::from(number) * i128::from(signed_value(magic.multiplier))) >> bits) as i64;
                    if magic.adds {
                        part = signed_value(part.wrapping_add(number) as u64);
                    }
                    let quotient = (part >> magic.after) + i64::from(number < 0);
                    assert_eq!(quotient, number / divisor as i64, "{number} / {divisor} in {bits} bits");
                }
            }
        }
    }
}
