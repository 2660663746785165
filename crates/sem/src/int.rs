//! Integer arithmetic. Operations are computed in 128-bit integers, then wrapped, clamped or shifted.

/// An integer type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Int {
    pub bits: u32,
    pub signed: bool,
}

pub const U8: Int = Int { bits: 8, signed: false };
pub const S8: Int = Int { bits: 8, signed: true };
pub const U16: Int = Int { bits: 16, signed: false };
pub const S16: Int = Int { bits: 16, signed: true };
pub const U32: Int = Int { bits: 32, signed: false };
pub const S32: Int = Int { bits: 32, signed: true };
pub const U64: Int = Int { bits: 64, signed: false };
pub const S64: Int = Int { bits: 64, signed: true };

impl Int {
    /// Returns a mask of all bits of a number.
    pub const fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    /// Returns the value of the bits.
    pub const fn value(self, bits: u64) -> i128 {
        let unused = 64 - self.bits;
        if self.signed { (((bits << unused) as i64) >> unused) as i128 } else { (bits & self.mask()) as i128 }
    }

    /// Returns the value modulo `2^bits`.
    pub const fn wrap(self, value: i128) -> u64 {
        value as u64 & self.mask()
    }

    /// Returns the smallest value.
    pub const fn least(self) -> i128 {
        if self.signed { -(1 << (self.bits - 1)) } else { 0 }
    }

    /// Returns the greatest value.
    pub const fn greatest(self) -> i128 {
        if self.signed { (1 << (self.bits - 1)) - 1 } else { (1 << self.bits) - 1 }
    }

    /// Returns the nearest representable value.
    pub fn clamp(self, value: i128) -> u64 {
        self.wrap(value.clamp(self.least(), self.greatest()))
    }

    /// Returns the type with twice the number of bits and the same signedness.
    pub(crate) fn twice_as_wide(self) -> Int {
        Int { bits: self.bits * 2, ..self }
    }

    pub fn add(self, a: u64, b: u64) -> u64 {
        self.wrap(self.value(a) + self.value(b))
    }

    pub fn sub(self, a: u64, b: u64) -> u64 {
        self.wrap(self.value(a) - self.value(b))
    }

    /// Returns the sum clamped to the range of the type.
    pub fn add_sat(self, a: u64, b: u64) -> u64 {
        self.clamp(self.value(a) + self.value(b))
    }

    /// Returns the difference clamped to the range of the type.
    pub fn sub_sat(self, a: u64, b: u64) -> u64 {
        self.clamp(self.value(a) - self.value(b))
    }

    /// Returns the lower half of the product.
    pub fn mul_lo(self, a: u64, b: u64) -> u64 {
        self.wrap(self.value(a).wrapping_mul(self.value(b)))
    }

    /// Returns the upper half of the product.
    pub fn mul_hi(self, a: u64, b: u64) -> u64 {
        // The product of two unsigned 64-bit numbers may set the sign bit of `i128`, so the shift must be unsigned.
        self.wrap((self.value(a).wrapping_mul(self.value(b)) as u128 >> self.bits) as i128)
    }

    /// Returns the full product, for types of up to 32 bits.
    pub fn mul_wide(self, a: u64, b: u64) -> u64 {
        self.twice_as_wide().wrap(self.value(a) * self.value(b))
    }

    /// Returns the lower half of `a * b`, plus `c`.
    pub fn mad_lo(self, a: u64, b: u64, c: u64) -> u64 {
        self.add(self.mul_lo(a, b), c)
    }

    /// Returns the upper half of `a * b`, plus `c`.
    pub fn mad_hi(self, a: u64, b: u64, c: u64) -> u64 {
        self.add(self.mul_hi(a, b), c)
    }

    /// Computes `mad.hi.sat.s32`.
    pub fn mad_hi_sat(self, a: u64, b: u64, c: u64) -> u64 {
        self.add_sat(self.mul_hi(a, b), c)
    }

    /// Returns the full product plus `c`, which is twice as wide; for types of up to 32 bits.
    pub fn mad_wide(self, a: u64, b: u64, c: u64) -> u64 {
        self.twice_as_wide().add(self.mul_wide(a, b), c)
    }

    /// Returns the value of the lower 24 bits.
    fn low_24(self, a: u64) -> i128 {
        Int { bits: 24, ..self }.value(a)
    }

    /// Computes `mul24.lo`: bits 31..0 of the 48-bit product of the lower 24 bits.
    pub fn mul24_lo(self, a: u64, b: u64) -> u64 {
        self.wrap(self.low_24(a) * self.low_24(b))
    }

    /// Computes `mul24.hi`: bits 47..16 of the product.
    pub fn mul24_hi(self, a: u64, b: u64) -> u64 {
        self.wrap((self.low_24(a) * self.low_24(b)) >> 16)
    }

    /// Computes `c + |a - b|`.
    pub fn sad(self, a: u64, b: u64, c: u64) -> u64 {
        self.wrap(self.value(c) + (self.value(a) - self.value(b)).abs())
    }

    /// Returns the quotient rounded towards zero; `None` for a zero divisor, for which the PTX manual specifies no result.
    pub fn div(self, a: u64, b: u64) -> Option<u64> {
        (self.value(b) != 0).then(|| self.wrap(self.value(a) / self.value(b)))
    }

    /// Returns the remainder, with the sign of the dividend; `None` for a zero divisor.
    pub fn rem(self, a: u64, b: u64) -> Option<u64> {
        (self.value(b) != 0).then(|| self.wrap(self.value(a) % self.value(b)))
    }

    pub fn abs(self, a: u64) -> u64 {
        self.wrap(self.value(a).abs())
    }

    pub fn neg(self, a: u64) -> u64 {
        self.wrap(-self.value(a))
    }

    pub fn min(self, a: u64, b: u64) -> u64 {
        self.wrap(self.value(a).min(self.value(b)))
    }

    pub fn max(self, a: u64, b: u64) -> u64 {
        self.wrap(self.value(a).max(self.value(b)))
    }

    /// Returns the sum with carry-in, and the carry-out. Signedness does not matter.
    pub fn add_carry(self, a: u64, b: u64, carry: bool) -> (u64, bool) {
        let sum = u128::from(a & self.mask()) + u128::from(b & self.mask()) + u128::from(carry);
        (sum as u64 & self.mask(), sum >> self.bits != 0)
    }

    /// Returns the difference with borrow-in, and the borrow-out.
    pub fn sub_borrow(self, a: u64, b: u64, borrow: bool) -> (u64, bool) {
        let difference = i128::from(a & self.mask()) - i128::from(b & self.mask()) - i128::from(borrow);
        (self.wrap(difference), difference < 0)
    }

    /// Computes `shl`: an amount greater than or equal to the width gives zero.
    pub fn shl(self, a: u64, amount: u64) -> u64 {
        let amount = amount & 0xffff_ffff;
        if amount >= u64::from(self.bits) { 0 } else { a << amount & self.mask() }
    }

    /// Computes `shr`: a larger amount than the width acts as the width.
    pub fn shr(self, a: u64, amount: u64) -> u64 {
        let amount = (amount & 0xffff_ffff).min(u64::from(self.bits));
        self.wrap(self.value(a) >> amount)
    }

    /// Computes `bfe`: `length` bits starting at `position`, sign-extended for signed types. Bits beyond the top are copies of the sign.
    pub fn bfe(self, a: u64, position: u64, length: u64) -> u64 {
        let (position, length) = ((position & 0xff) as u32, (length & 0xff) as u32);
        let top = self.bits - 1;
        let sign_position = (position + length).saturating_sub(1).min(top);
        let sign = self.signed && length != 0 && a >> sign_position & 1 == 1;
        (0..self.bits).fold(0, |result, i| {
            let bit = if i < length && position + i <= top { a >> (position + i) & 1 == 1 } else { sign };
            result | u64::from(bit) << i
        })
    }

    /// Computes `bfind`: the position of the most significant bit that differs from the sign, or of the most significant one of an
    /// unsigned number; all ones if there is none. With `shift_amount`, the distance from the top bit.
    pub fn bfind(self, a: u64, shift_amount: bool) -> u64 {
        let value = self.value(a);
        let pattern = if value < 0 { !value } else { value } as u64 & self.mask();
        if pattern == 0 {
            return 0xffff_ffff;
        }
        let position = 63 - pattern.leading_zeros();
        u64::from(if shift_amount { self.bits - 1 - position } else { position })
    }

    /// Computes `szext`: extends the lower `n` bits; `.clamp` limits `n` to 32, `.wrap` takes it modulo 32.
    pub fn szext(self, a: u64, n: u64, clamp: bool) -> u64 {
        let n = if clamp { (n & 0xffff_ffff).min(32) } else { n & 31 } as u32;
        match n {
            0 => 0,
            n => self.wrap(Int { bits: n, ..self }.value(a)),
        }
    }

    /// Computes `dp4a` with this type for `a`: the sum of four products of 8-bit elements and `c`.
    pub fn dp4a(self, b_type: Int, a: u64, b: u64, c: u64) -> u64 {
        let byte = |signed: bool, x: u64, i: u32| Int { bits: 8, signed }.value(x >> (8 * i));
        let sum: i128 = (0..4).map(|i| byte(self.signed, a, i) * byte(b_type.signed, b, i)).sum();
        U32.wrap(sum + U32.value(c))
    }

    /// Computes `dp2a`: the sum of two products of 16-bit by 8-bit elements and `c`; `.hi` uses the upper two bytes of `b`.
    pub fn dp2a(self, b_type: Int, a: u64, b: u64, c: u64, hi: bool) -> u64 {
        let half = |i: u32| Int { bits: 16, signed: self.signed }.value(a >> (16 * i));
        let byte = |i: u32| Int { bits: 8, signed: b_type.signed }.value(b >> (8 * (i + if hi { 2 } else { 0 })));
        U32.wrap((0..2).map(|i| half(i) * byte(i)).sum::<i128>() + U32.value(c))
    }
}
