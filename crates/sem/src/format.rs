//! Descriptions of floating-point formats and rounding modes.

/// The meaning of the largest exponent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Specials {
    /// Infinities and NaNs, as in IEEE 754.
    Ieee,
    /// No infinities. All ones is NaN; the other codes with the largest exponent are numbers (e4m3).
    NanOnly,
    /// Numbers only (e2m3, e3m2, e2m1).
    Finite,
}

/// A binary floating-point format: sign bit, exponent, fraction, from the top bit down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    pub exponent_bits: u32,
    pub fraction_bits: u32,
    pub specials: Specials,
}

/// A rounding mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// `.rn`: to nearest, ties to even.
    NearestEven,
    /// `.rna`: to nearest, ties away from zero.
    NearestAway,
    /// `.rz`: towards zero.
    Zero,
    /// `.rm`: towards minus infinity.
    Down,
    /// `.rp`: towards plus infinity.
    Up,
}

pub const F16: Format = Format::ieee(5, 10);
pub const BF16: Format = Format::ieee(8, 7);
/// tf32 has 19 bits; a register holds them in the upper bits of a `.b32` ([`crate::convert::tf32_register`]).
pub const TF32: Format = Format::ieee(8, 10);
pub const F32: Format = Format::ieee(8, 23);
pub const F64: Format = Format::ieee(11, 52);
pub const E5M2: Format = Format::ieee(5, 2);
pub const E4M3: Format = Format { exponent_bits: 4, fraction_bits: 3, specials: Specials::NanOnly };
pub const E2M3: Format = Format { exponent_bits: 2, fraction_bits: 3, specials: Specials::Finite };
pub const E3M2: Format = Format { exponent_bits: 3, fraction_bits: 2, specials: Specials::Finite };
pub const E2M1: Format = Format { exponent_bits: 2, fraction_bits: 1, specials: Specials::Finite };

impl Format {
    const fn ieee(exponent_bits: u32, fraction_bits: u32) -> Format {
        Format { exponent_bits, fraction_bits, specials: Specials::Ieee }
    }

    /// Returns the number of bits, including the sign.
    pub const fn width(self) -> u32 {
        1 + self.exponent_bits + self.fraction_bits
    }

    pub const fn sign_bit(self) -> u64 {
        1 << (self.width() - 1)
    }

    /// Returns a mask of all bits of a number.
    pub const fn mask(self) -> u64 {
        u64::MAX >> (64 - self.width())
    }

    pub(crate) const fn fraction_mask(self) -> u64 {
        (1 << self.fraction_bits) - 1
    }

    pub(crate) const fn exponent_mask(self) -> u64 {
        (1 << self.exponent_bits) - 1
    }

    pub(crate) const fn bias(self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    /// Returns the exponent of the last fraction bit of subnormal numbers.
    pub(crate) const fn least_exponent(self) -> i32 {
        1 - self.bias() - self.fraction_bits as i32
    }

    /// Returns infinity with the given sign; `None` if the format has none.
    pub const fn infinity(self, negative: bool) -> Option<u64> {
        match self.specials {
            Specials::Ieee => Some(self.exponent_mask() << self.fraction_bits | self.sign_of(negative)),
            _ => None,
        }
    }

    /// Returns the largest finite number with the given sign.
    pub const fn largest(self, negative: bool) -> u64 {
        let magnitude = match self.specials {
            Specials::Ieee => (self.exponent_mask() << self.fraction_bits) - 1,
            Specials::NanOnly => self.sign_bit() - 2,
            Specials::Finite => self.sign_bit() - 1,
        };
        magnitude | self.sign_of(negative)
    }

    pub const fn zero(self, negative: bool) -> u64 {
        self.sign_of(negative)
    }

    pub const fn one(self) -> u64 {
        (self.bias() as u64) << self.fraction_bits
    }

    /// Returns the NaN that operations produce. For formats without NaN this is the largest number, as in `cvt`.
    pub const fn canonical_nan(self) -> u64 {
        match self.specials {
            Specials::Ieee if self.width() == 64 => 0x7ff8_0000_0000_0000,
            Specials::Ieee | Specials::NanOnly | Specials::Finite => self.sign_bit() - 1,
        }
    }

    pub const fn is_nan(self, bits: u64) -> bool {
        let magnitude = bits & (self.sign_bit() - 1);
        match self.specials {
            Specials::Ieee => magnitude > self.exponent_mask() << self.fraction_bits,
            Specials::NanOnly => magnitude == self.sign_bit() - 1,
            Specials::Finite => false,
        }
    }

    pub const fn is_infinite(self, bits: u64) -> bool {
        match self.infinity(false) {
            Some(infinity) => bits & (self.sign_bit() - 1) == infinity,
            None => false,
        }
    }

    pub const fn is_negative(self, bits: u64) -> bool {
        bits & self.sign_bit() != 0
    }

    pub const fn is_zero(self, bits: u64) -> bool {
        bits & (self.sign_bit() - 1) == 0
    }

    pub const fn is_subnormal(self, bits: u64) -> bool {
        let magnitude = bits & (self.sign_bit() - 1);
        magnitude != 0 && magnitude >> self.fraction_bits == 0
    }

    /// Applies `.ftz` to a value: subnormal numbers become zeros of the same sign.
    pub const fn flush(self, bits: u64) -> u64 {
        if self.is_subnormal(bits) { bits & self.sign_bit() } else { bits & self.mask() }
    }

    pub(crate) const fn sign_of(self, negative: bool) -> u64 {
        if negative { self.sign_bit() } else { 0 }
    }
}
