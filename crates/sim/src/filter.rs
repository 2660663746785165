//! The arithmetic of linear filtering: the weights of the texels around a sampled point, and the rounding of their weighted sum.
//!
//! The rules were found with `tools/textures/probe.py` on an H200; [`crate::sampling`] chooses the texels, and docs/textures.md has the figures.
//!
//! **Weights** are integers in units of 1/256; those of one fetch add up to 256. Along an axis, the total of two texels is split by the
//! interpolation weight w of the second one:
//!
//! ```text
//! second = (total * w + 128) >> 8        first = total - second
//! ```
//!
//! The total of the texture is split among two levels, then along z, x and y. Along z, and along y in the half of x with the smaller
//! coordinate, it is split by 256 - w with the roles exchanged. Example with w = 128 for x and w = 3 for y: x splits 256 into 128 and 128.
//! The second half is split into 126 and 2 (128 * 3 / 256 = 1.5, rounded up), the first one into 127 (128 * 253 / 256 = 126.5, rounded up) and 1.
//!
//! **Sums** are computed in fixed point. The texels of a slice (up to four with the same level and z) are aligned to the largest of them and
//! truncated to four bits more than the significand of the format; their products and sum are exact. The sums of two slices are aligned in the
//! same way, and the result is rounded to the precision of the format, with ties away from zero.

use oriole_kernel_test::Element;

/// Number of fraction bits of a weight.
pub(crate) const WEIGHT_BITS: u32 = 8;
/// The weight of a texel that is not filtered.
pub(crate) const FULL_WEIGHT: u32 = 1 << WEIGHT_BITS;

/// Number of bits that an aligned texel keeps below the last significand bit of the largest texel of its slice.
const GUARD_BITS: i32 = 4;
/// Number of bits that the sum of a slice keeps below its last weight bit when two slices are added.
const SLICE_GUARD_BITS: i32 = 1;

/// Splits the total weight of two neighbouring texels by the interpolation weight of the second one. Both are in units of 1/256.
pub(crate) fn split(total: u32, weight: u32) -> [u32; 2] {
    let second = (total * weight + FULL_WEIGHT / 2) >> WEIGHT_BITS;
    [total - second, second]
}

/// Splits a total along z by the weight of the second of two slices.
pub(crate) fn split_slices(total: u32, weight: u32) -> [u32; 2] {
    let [second, first] = split(total, FULL_WEIGHT - weight);
    [first, second]
}

/// Returns the weights of the four texels of a slice by row and column, from their total and the interpolation weights along x and y. The
/// interpolation weight of an axis that the texture does not have is zero.
pub(crate) fn slice_weights(total: u32, [x, y]: [u32; 2]) -> [[u32; 2]; 2] {
    let [left, right] = split(total, x);
    let [upper_right, lower_right] = split(right, y);
    let [lower_left, upper_left] = split(left, FULL_WEIGHT - y);
    [[upper_left, upper_right], [lower_left, lower_right]]
}

/// The floating-point format of a filtered result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SumFormat {
    /// Precision: number of significand bits, with the leading one.
    bits: i32,
    /// Exponent of the last significand bit of a subnormal number.
    smallest: i32,
    /// Whether subnormal results are replaced by zero.
    flushes: bool,
    /// The bits of a NaN result, as a single.
    nan: u32,
}

impl SumFormat {
    /// Returns the format of the filtered results of a texture with this element type.
    pub(crate) fn of(element: Element) -> SumFormat {
        match element {
            Element::F16 => SumFormat { bits: 11, smallest: -24, flushes: false, nan: 0x7fff_e000 },
            _ => SumFormat { bits: 24, smallest: -149, flushes: true, nan: 0x7fff_ffff },
        }
    }

    /// Returns the weighted sum of the slices, as the bits of a single. A slice is a list of texels (bits of singles) with their weights.
    pub(crate) fn sum(self, slices: &[Vec<(u32, u32)>]) -> u32 {
        let taps = || slices.iter().flatten().filter(|(_, weight)| *weight > 0).map(|&(texel, _)| f32::from_bits(texel));
        if taps().any(|texel| !texel.is_finite()) {
            let sum: f32 = taps().filter(|texel| !texel.is_finite()).sum();
            return if sum.is_nan() { self.nan } else { sum.to_bits() };
        }
        let sums: Vec<SliceSum> = slices.iter().filter_map(|slice| self.slice_sum(slice)).collect();
        let Some(largest) = sums.iter().map(|sum| sum.exponent).max() else {
            return if taps().all(f32::is_sign_negative) { (-0.0_f32).to_bits() } else { 0 };
        };
        let total: i64 = sums.iter().map(|sum| (sum.sum << SLICE_GUARD_BITS) >> (largest - sum.exponent).min(63)).sum();
        self.rounded(total, largest - self.last_bit() - SLICE_GUARD_BITS)
    }

    /// Returns the number of bits between the exponent of a slice and the last bit of its sum.
    fn last_bit(self) -> i32 {
        self.bits - 1 + GUARD_BITS + WEIGHT_BITS as i32
    }

    /// Returns the sum of a slice; `None` if all texels with a weight are zero.
    fn slice_sum(self, slice: &[(u32, u32)]) -> Option<SliceSum> {
        let exponent_of = |texel: u32| (texel >> 23 & 0xff) as i32 - 127;
        let is_used = |&&(texel, weight): &&(u32, u32)| weight > 0 && texel >> 23 & 0xff != 0;
        let exponent = slice.iter().filter(is_used).map(|&(texel, _)| exponent_of(texel)).max()?;
        let sum = slice.iter().filter(is_used).map(|&(texel, weight)| {
            let significand = i64::from(texel & 0x7f_ffff | 0x80_0000);
            let shift = exponent_of(texel) - exponent + self.bits - 24 + GUARD_BITS;
            let cut = if shift >= 0 { significand << shift } else { significand >> (-shift).min(63) };
            let product = cut * i64::from(weight);
            if texel >> 31 == 1 { -product } else { product }
        });
        Some(SliceSum { sum: sum.sum(), exponent })
    }

    /// Returns `total * 2^exponent`, rounded to the precision of the format.
    fn rounded(self, total: i64, exponent: i32) -> u32 {
        let size = i64::BITS as i32 - total.unsigned_abs().leading_zeros() as i32;
        let dropped = (size - self.bits).max(self.smallest - exponent).max(0);
        let half = if dropped == 0 { 0 } else { 1_u64.checked_shl(dropped as u32 - 1).unwrap_or(0) };
        let kept = (total.unsigned_abs() + half).checked_shr(dropped as u32).unwrap_or(0);
        let magnitude = (kept as f64 * 2_f64.powi(exponent + dropped)) as f32;
        let magnitude = if self.flushes && magnitude < f32::MIN_POSITIVE { 0.0 } else { magnitude };
        let value = if total < 0 { -magnitude } else { magnitude };
        value.to_bits()
    }
}

/// The sum of the texels of a slice, without rounding.
struct SliceSum {
    /// The sum; its last bit is worth 2 to the power of `exponent` minus [`SumFormat::last_bit`].
    sum: i64,
    /// The exponent of the largest texel.
    exponent: i32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_have_their_total_as_sum() {
        for total in [0, 1, 7, 128, 255, 256] {
            for x in 0..=FULL_WEIGHT {
                for y in (0..=FULL_WEIGHT).step_by(5) {
                    assert_eq!(slice_weights(total, [x, y]).iter().flatten().sum::<u32>(), total, "{total} {x} {y}");
                }
            }
        }
        assert_eq!(slice_weights(256, [128, 3]), [[127, 126], [1, 2]]);
    }

    /// Results of an H200 (`sum_1d_f16_0`): texels -27.078125 and 0.08807373.
    #[test]
    fn small_texels_lose_bits_beside_large_ones() {
        let format = SumFormat::of(Element::F16);
        for (weight, result) in [(1, 0xc1d7_c000), (64, 0xc1a2_4000), (255, 0xbc95_6000), (256, 0x3db4_6000)] {
            assert_eq!(format.sum(&[vec![(0xc1d8_a000, 256 - weight), (0x3db4_6000, weight)]]), result, "{weight}");
        }
    }

    #[test]
    fn special_numbers() {
        let format = SumFormat::of(Element::F32);
        let infinity = f32::INFINITY.to_bits();
        assert_eq!(format.sum(&[vec![(infinity, 1), (0x3f80_0000, 255)]]), infinity);
        assert_eq!(format.sum(&[vec![(infinity, 1), (infinity | 1 << 31, 255)]]), 0x7fff_ffff);
        assert_eq!(format.sum(&[vec![(1 << 31 | 1, 256)]]), 1 << 31);
        assert_eq!(format.sum(&[vec![(0x0080_0000, 240), (0, 16)]]), 0);
    }
}
