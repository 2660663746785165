//! Generates operands: every exponent with special significands, quotients and roots next to rounding boundaries, and random ones.

/// Returns all doubles from 1 up to 4 whose roots are nearest to the midpoint of two doubles.
///
/// With the significand `s` of such a number, or twice the significand from 2 on, an integer of 53 or 54 bits, the root of `s << 54` has 54
/// bits, and a midpoint is an odd integer `m` of 54 bits. The root is near `m` if `d = m * m - (s << 54)` is small. For each `d` up to
/// 512, the four solutions of `m * m = d` modulo powers of two are extended bit by bit; there are none unless `d` is 1 modulo 8.
pub fn roots_near_midpoints() -> Vec<u64> {
    const BITS: u32 = 54;
    const MOST: i128 = 512;
    let mut found = Vec::new();
    for d in (-MOST..=MOST).filter(|d| d.rem_euclid(8) == 1) {
        let solves = |m: i128, bits: u32| (m * m - d).rem_euclid(1 << bits) == 0;
        let mut solutions: Vec<i128> = vec![1, 3, 5, 7];
        for bits in 4..=BITS {
            let extended = solutions.iter().flat_map(|&m| [m, m + (1 << (bits - 1))]);
            solutions = extended.filter(|&m| solves(m, bits)).collect();
        }
        for m in solutions.into_iter().filter(|m| m >> (BITS - 1) == 1) {
            let significand = (m * m - d) >> BITS;
            let doubled = significand >> 53 == 1;
            if significand >> 52 == 1 || doubled && significand % 2 == 0 {
                let fraction = (significand >> u32::from(doubled)) as u64 & ((1 << 52) - 1);
                found.push(fraction | (1023 + u64::from(doubled)) << 52);
            }
        }
    }
    found
}

/// A pseudorandom number generator (xorshift*); the same seed gives the same sequence.
pub struct Random(u64);

impl Random {
    /// Creates a generator.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns 64 random bits.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number below a limit.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    /// Returns an f32 of either sign with an exponent between `-reach` and `reach`.
    #[cfg(test)]
    pub fn near_one32(&mut self, reach: u64) -> u32 {
        let exponent = 127 - reach + self.below(2 * reach + 1);
        (self.next() as u32 & 0x807f_ffff) | (exponent as u32) << 23
    }

    /// Returns an f64 of either sign with an exponent between `-reach` and `reach`.
    #[cfg(test)]
    pub fn near_one64(&mut self, reach: u64) -> u64 {
        let exponent = 1023 - reach + self.below(2 * reach + 1);
        (self.next() & 0x800f_ffff_ffff_ffff) | exponent << 52
    }

    /// Returns an integer of any length, often next to a power of two.
    pub fn integer(&mut self) -> u64 {
        let length = self.below(65) as u32;
        match self.below(4) {
            0 => 1u64.checked_shl(length).unwrap_or(0).wrapping_add(self.below(5)).wrapping_sub(2),
            _ => self.next() & u64::MAX.checked_shr(64 - length).unwrap_or(0),
        }
    }
}

/// The layout of a format.
#[derive(Clone, Copy)]
pub struct Layout {
    /// Number of fraction bits.
    pub fraction_bits: u32,
    /// Total number of bits.
    pub bits: u32,
}

/// f32
pub const SINGLE: Layout = Layout { fraction_bits: 23, bits: 32 };
/// f64
pub const DOUBLE: Layout = Layout { fraction_bits: 52, bits: 64 };

impl Layout {
    fn exponents(self) -> u64 {
        1 << (self.bits - 1 - self.fraction_bits)
    }

    /// Returns fractions at and around the ends and the middle, and single bits.
    pub fn awkward_fractions(self) -> Vec<u64> {
        let full = (1u64 << self.fraction_bits) - 1;
        let mut fractions = vec![0, 1, 2, 3, full, full - 1, full - 2, full / 2, full / 2 + 1, full / 2 + 2, full / 3, full / 3 * 2];
        fractions.extend((2..self.fraction_bits).step_by(5).map(|bit| 1 << bit));
        fractions
    }

    /// Returns every exponent with every special fraction and both signs.
    pub fn awkward_numbers(self) -> Vec<u64> {
        let mut numbers = Vec::new();
        for exponent in 0..self.exponents() {
            for &fraction in &self.awkward_fractions() {
                let magnitude = exponent << self.fraction_bits | fraction;
                numbers.extend([magnitude, magnitude | 1 << (self.bits - 1)]);
            }
        }
        numbers
    }

    /// Returns a random number: uniform bits, few bits set, or an exponent at the edge of the range.
    pub fn random(self, random: &mut Random) -> u64 {
        let mask = u64::MAX >> (64 - self.bits);
        let bits = random.next() & mask;
        let fraction_mask = (1u64 << self.fraction_bits) - 1;
        let exponent_mask = !fraction_mask & mask >> 1;
        match random.below(8) {
            0 => bits & !exponent_mask,
            1 => bits & !exponent_mask | random.below(self.fraction_bits.into()) << self.fraction_bits,
            2 => bits & !exponent_mask | (exponent_mask - (random.below(4) << self.fraction_bits)),
            3 => bits & !(fraction_mask >> random.below(self.fraction_bits.into())),
            4 => bits | fraction_mask >> random.below(self.fraction_bits.into()),
            5 => bits & !exponent_mask | (self.exponents() / 2) << self.fraction_bits,
            _ => bits,
        }
    }

    /// Returns a dividend and a divisor whose quotient is next to the midpoint of two numbers or next to a number. The exponent of the
    /// quotient may be anywhere, also below the normal range.
    pub fn near_boundary(self, random: &mut Random) -> (u64, u64) {
        let precision = self.fraction_bits + 1;
        let divisor = random.next() >> (64 - precision) | 1 << (precision - 1);
        let length = precision + 1 - (random.below(4) == 0) as u32 * random.below(u64::from(precision)) as u32;
        let quotient = (random.next() >> (64 - length)) | 1 << (length - 1) | 1;
        let product = u128::from(divisor) * u128::from(quotient);
        let excess = (128 - product.leading_zeros()).saturating_sub(precision);
        let dividend = (product >> excess) as u64 + random.below(2);
        let fraction_mask = (1u64 << self.fraction_bits) - 1;
        let place = |significand: u64, exponent: u64, sign: u64| {
            significand & fraction_mask | exponent << self.fraction_bits | sign << (self.bits - 1)
        };
        let last = self.exponents() - 2;
        let (x, y) = match random.below(4) {
            0 => (1 + random.below(last), 1 + random.below(last)),
            1 => {
                let x = 1 + random.below(last / 2);
                (x, (x + self.exponents() / 2 - 2 + random.below(self.fraction_bits as u64 + 4)).min(last))
            }
            _ => (self.exponents() / 2, self.exponents() / 2 + random.below(3)),
        };
        (place(dividend, x, random.below(2)), place(divisor, y, random.below(2)))
    }
}

#[cfg(test)]
mod tests {
    use super::roots_near_midpoints;

    /// The numbers are different, and the square of the midpoint nearest to each root differs from the number by at most 512 units.
    #[test]
    fn roots_are_near_midpoints() {
        let numbers = roots_near_midpoints();
        assert_eq!(numbers.len(), 178);
        for (position, &number) in numbers.iter().enumerate() {
            assert!(!numbers[..position].contains(&number));
            let significand = u128::from(number & ((1 << 52) - 1) | 1 << 52) << ((number >> 52) - 1023);
            let root = (significand << 54).isqrt();
            let distance = |midpoint: u128| (midpoint * midpoint).abs_diff(significand << 54);
            assert!(distance(root | 1).min(distance((root - 1) | 1)) <= 512, "{number:x}");
        }
    }
}
