//! Computes the level of detail of a fetch from the derivatives of its coordinates, as an H200 does.
//!
//! The level is log2 of the length, in texels, of the longest derivative. The manuals do not say how the GPU computes it. The rules were found with
//! `tools/textures/probe.py` (groups `gradient` and `length`); docs/textures.md has the figures.
//!
//! All numbers have significands with 9 fraction bits; results are truncated to them ([`truncated`]). dx and dy are the derivatives of the
//! coordinates with respect to x and y of the screen, multiplied by the size of the texture:
//!
//! ```text
//! length(v)  a + 11/32 b + 1/4 c      with a, b and c the magnitudes of the components of v, the largest first
//! L          the largest of length(dx), length(dy), 11/16 length(dx + dy) and 11/16 length(dx - dy)
//! level      log2(L) from a table with an entry for each of the 8 upper fraction bits
//! ```
//!
//! The sum and the difference approximate the longer axis of the ellipse that dx and dy span: 11/16 is about sin 45°. Example: dx = (4, 0)
//! and dy = (0, 4) texels have the lengths 4 and 11/16 (4 + 11/32 * 4) = 3.7, so the level is log2(4) = 2.

/// Number of fraction bits of a significand.
const FRACTION_BITS: i32 = 9;
/// Number of fraction bits of a level.
const LEVEL_BITS: i32 = 8;
/// Upper limit of lengths, in texels. It is larger than every texture and gives level 64.
const LONGEST: f64 = (1_u128 << 64) as f64;

/// Returns the level in units of 1/256, from the derivatives with respect to x and y and the size of the texture. Components of dimensions that
/// the texture does not have are zero.
pub(crate) fn level(derivatives: [[f32; 3]; 2], size: [u32; 3]) -> i32 {
    let scaled = derivatives.map(|by| [0, 1, 2].map(|axis: usize| in_texels(by[axis], size[axis])));
    let [dx, dy] = scaled;
    let mut longest = length(dx).max(length(dy));
    for sign in [1.0, -1.0] {
        longest = longest.max(diagonal([0, 1, 2].map(|axis: usize| sum(dx[axis], sign * dy[axis]))));
    }
    if longest == 0.0 { i32::MIN } else { binary_logarithm(longest.min(LONGEST)) }
}

/// Returns the value of the last bit of the significand of a number that is not zero.
fn last_bit(x: f64) -> f64 {
    let exponent = (x.to_bits() >> 52 & 0x7ff) as i32 - 1023;
    2_f64.powi(exponent - FRACTION_BITS)
}

/// Truncates the significand of a number to its 9 fraction bits.
fn truncated(x: f64) -> f64 {
    if x == 0.0 { 0.0 } else { (x / last_bit(x)).trunc() * last_bit(x) }
}

/// Returns `factor * x`, rounded to a multiple of the value of the last significand bit of x divided by `parts`, with ties up.
fn product(factor: f64, x: f64, parts: f64) -> f64 {
    if x == 0.0 {
        return 0.0;
    }
    let unit = last_bit(x) / parts;
    (factor * x / unit + 0.5).floor() * unit
}

/// Multiplies a derivative by a size. The product of the significands is rounded up if the part below its last bit is at least 1/8 of that bit,
/// otherwise down. NaN and subnormal derivatives count as zero.
fn in_texels(derivative: f32, size: u32) -> f64 {
    if derivative.is_nan() || derivative.is_subnormal() || derivative == 0.0 {
        return 0.0;
    }
    let magnitude = truncated(f64::from(derivative.abs()).min(LONGEST));
    let scale = 2_f64.powi(size.max(1).ilog2() as i32);
    let significand = f64::from(size) / scale;
    let scaled = (magnitude * significand / last_bit(magnitude) + 0.875).floor() * last_bit(magnitude) * scale;
    truncated(if derivative < 0.0 { -scaled } else { scaled })
}

/// Adds two numbers. The smaller number is first truncated at the last significand bit of the larger one.
fn sum(x: f64, y: f64) -> f64 {
    let (large, small) = if x.abs() < y.abs() { (y, x) } else { (x, y) };
    if large == 0.0 {
        return 0.0;
    }
    truncated(large + (small / last_bit(large)).trunc() * last_bit(large))
}

/// Returns the magnitudes of the components of a vector in descending order.
fn sorted(components: [f64; 3]) -> [f64; 3] {
    let mut magnitudes = components.map(f64::abs);
    magnitudes.sort_by(|a, b| b.total_cmp(a));
    magnitudes
}

/// Returns the approximate length of a vector.
fn length(components: [f64; 3]) -> f64 {
    let [a, b, c] = sorted(components);
    a + product(11.0 / 32.0, b, 4.0) + c / 4.0
}

/// Returns 11/16 of the approximate length of a vector.
fn diagonal(components: [f64; 3]) -> f64 {
    let [a, b, c] = sorted(components);
    truncated(product(11.0 / 16.0, a, 2.0)) + product(121.0 / 512.0, b, 8.0) + product(11.0 / 64.0, c, 16.0)
}

/// Returns log2 of a number, in units of 1/256. The table entry for an interval of significands is the logarithm of the middle of the interval,
/// in these units, plus 0.47, rounded down. The logarithm of a power of two is exact, and the fraction never reaches one.
fn binary_logarithm(x: f64) -> i32 {
    let exponent = (x.to_bits() >> 52 & 0x7ff) as i32 - 1023;
    let entries = f64::from(1 << LEVEL_BITS);
    let entry = ((x / 2_f64.powi(exponent) - 1.0) * entries).floor();
    let logarithm = if entry == 0.0 { 0.0 } else { (entries * (1.0 + (entry + 0.5) / entries).log2() + 0.47).floor().min(entries - 1.0) };
    (exponent << LEVEL_BITS) + logarithm as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results of an H200 for a texture of 64 by 64 texels (`length_single`, `length_rows`, `length_all`): derivatives in texels and levels
    /// in 256ths.
    #[test]
    fn levels_are_those_of_a_gpu() {
        let cases = [
            ([8.0, 0.0, 0.0, 0.0], 768),
            ([8.0, 2.453125, 0.0, 0.0], 806),
            ([8.0, 0.0, 3.8125, 0.0], 774),
            ([8.0, 0.0, 3.964_843_8, -1.982_421_9], 798),
            ([14.983452, -11.081504, 12.439763, 1.1630386], 1128),
            ([-0.20529605, 12.977516, -10.786344, -7.7585416], 1042),
            ([0.7223203, 1.1969369, -1.315_512, 0.0223662], 191),
        ];
        for ([a, b, c, d], expected) in cases {
            let derivatives = [[a / 64.0, b / 64.0, 0.0], [c / 64.0, d / 64.0, 0.0]];
            assert_eq!(level(derivatives, [64, 64, 1]), expected, "{derivatives:?}");
        }
    }

    #[test]
    fn special_derivatives() {
        let one = |x: f32| level([[x, 0.0, 0.0], [0.0; 3]], [64, 1, 1]);
        assert_eq!([one(0.0), one(f32::NAN), one(1e-40)], [i32::MIN; 3]);
        assert_eq!([one(f32::INFINITY), one(f32::NEG_INFINITY), one(f32::MAX)], [64 << LEVEL_BITS; 3]);
        // 0.25 of 48 texels are 12: log2(12) = 3.585, which is 917.8 / 256.
        assert_eq!(level([[0.0, 0.25, 0.0], [0.0; 3]], [1, 48, 1]), 918);
    }
}
