//! Compares the library with two independent implementations: `rustc_apfloat` in all rounding modes, and the host processor.

use oriole_sem::float::Mode;
use oriole_sem::format::{BF16, E4M3, E5M2, F16, F32, F64, Format, Rounding};
use oriole_sem::{convert, float};
use rustc_apfloat::{Float, FloatConvert, Round, ieee};

const CASES: u64 = 40_000;

const MODES: [(Rounding, Round); 5] = [
    (Rounding::NearestEven, Round::NearestTiesToEven),
    (Rounding::NearestAway, Round::NearestTiesToAway),
    (Rounding::Zero, Round::TowardZero),
    (Rounding::Down, Round::TowardNegative),
    (Rounding::Up, Round::TowardPositive),
];

/// SplitMix64, a small deterministic random number generator.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Returns bits of a format: arbitrary ones, numbers close to one, sparse fractions, or numbers at the ends of the range.
    fn float(&mut self, format: Format) -> u64 {
        let bits = self.next();
        let choice = self.next();
        let one = format.one();
        let near = |bits: u64| (one.wrapping_sub(4 << format.fraction_bits)).wrapping_add(bits % (8 << format.fraction_bits));
        let magnitude = match choice % 8 {
            0..=2 => bits,
            3 | 4 => near(bits),
            5 => near(bits & bits >> 7 & bits >> 13),
            6 => bits % 8,
            _ => format.largest(false).wrapping_add(3).wrapping_sub(bits % 8),
        };
        (magnitude ^ (choice & 0x100) << 55 >> (64 - format.width())) & format.mask()
    }
}

/// Returns whether two results are equal; all NaNs are equal.
fn same(format: Format, ours: u64, theirs: u64) -> bool {
    ours == theirs || format.is_nan(ours) && format.is_nan(theirs)
}

fn arithmetic<F: Float>(format: Format) {
    let mut random = Random(u64::from(format.width()) << 8 | u64::from(format.exponent_bits));
    for case in 0..CASES {
        let (ours, theirs) = MODES[(case % 5) as usize];
        let mode = Mode::new(ours);
        let [a, b, c] = std::array::from_fn(|_| random.float(format));
        let [x, y, z] = [a, b, c].map(|bits| F::from_bits(u128::from(bits)));
        let check = |name: &str, ours: u64, theirs: F| {
            let theirs = theirs.to_bits() as u64;
            assert!(same(format, ours, theirs), "{name} {ours:x} instead of {theirs:x} for {a:x} {b:x} {c:x} {mode:?}");
        };
        check("add", float::add(format, a, b, mode), x.add_r(y, theirs).value);
        check("sub", float::sub(format, a, b, mode), x.sub_r(y, theirs).value);
        check("mul", float::mul(format, a, b, mode), x.mul_r(y, theirs).value);
        check("div", float::div(format, a, b, mode), x.div_r(y, theirs).value);
        check("fma", float::fma(format, a, b, c, mode), x.mul_add_r(y, z, theirs).value);
        check("integral", convert::to_integral(format, a, mode), x.round_to_integral(theirs).value);
        let to_int = x.to_i128_r(64, theirs, &mut false).value;
        if !format.is_nan(a) {
            assert_eq!(convert::float_to_int(oriole_sem::int::S64, format, a, ours, false), to_int as u64, "{a:x} {mode:?}");
        }
        let int = a << (case % 40) ^ b;
        let from = convert::int_to_float(format, oriole_sem::int::S64, int, mode);
        check("from s64", from, F::from_i128_r(i128::from(int as i64), theirs).value);
        let from = convert::int_to_float(format, oriole_sem::int::U64, int, mode);
        check("from u64", from, F::from_u128_r(u128::from(int), theirs).value);
    }
}

fn conversion<From: Float + FloatConvert<To>, To: Float>(from: Format, to: Format) {
    let mut random = Random(7);
    for case in 0..CASES {
        let (ours, theirs) = MODES[(case % 5) as usize];
        let a = random.float(from);
        let expected = From::from_bits(u128::from(a)).convert_r(theirs, &mut false).value.to_bits() as u64;
        let got = convert::float_to_float(to, from, a, Mode::new(ours), convert::Overflow::Ieee);
        assert!(same(to, got, expected), "{a:x} gives {got:x} instead of {expected:x} {ours:?}");
    }
}

#[test]
fn arithmetic_in_all_formats() {
    arithmetic::<ieee::Half>(F16);
    arithmetic::<ieee::BFloat>(BF16);
    arithmetic::<ieee::Single>(F32);
    arithmetic::<ieee::Double>(F64);
}

#[test]
fn conversions_between_formats() {
    conversion::<ieee::Single, ieee::Half>(F32, F16);
    conversion::<ieee::Single, ieee::BFloat>(F32, BF16);
    conversion::<ieee::Single, ieee::Double>(F32, F64);
    conversion::<ieee::Double, ieee::Single>(F64, F32);
    conversion::<ieee::Double, ieee::Half>(F64, F16);
    conversion::<ieee::Half, ieee::Single>(F16, F32);
    conversion::<ieee::Half, ieee::Float8E5M2>(F16, E5M2);
    conversion::<ieee::Single, ieee::Float8E5M2>(F32, E5M2);
}

/// For values beyond the range of e4m3 apfloat returns NaN, and this library saturates; all other results must be equal.
#[test]
fn e4m3_both_ways() {
    for bits in 0..=0xffu64 {
        let wide = ieee::Float8E4M3FN::from_bits(u128::from(bits));
        let expected: ieee::Single = wide.convert(&mut false).value;
        let got = convert::float_to_float(F32, E4M3, bits, Mode::RN, convert::Overflow::Ieee);
        assert!(same(F32, got, expected.to_bits() as u64), "{bits:x}");
    }
    let mut random = Random(3);
    for _ in 0..CASES {
        let a = random.float(F32);
        let expected: ieee::Float8E4M3FN = ieee::Single::from_bits(u128::from(a)).convert(&mut false).value;
        let got = convert::float_to_float(E4M3, F32, a, Mode::RN, convert::Overflow::SatFinite);
        let saturated = expected.is_nan() && !F32.is_nan(a);
        let expected = if saturated { E4M3.largest(F32.is_negative(a)) } else { expected.to_bits() as u64 };
        assert!(same(E4M3, got, expected), "{a:x} gives {got:x} instead of {expected:x}");
    }
}

#[test]
fn the_processor_agrees() {
    let mut random = Random(11);
    for _ in 0..CASES {
        let [a, b, c] = std::array::from_fn(|_| random.float(F32));
        let [x, y, z] = [a, b, c].map(|bits| f32::from_bits(bits as u32));
        for (ours, theirs) in [
            (float::add(F32, a, b, Mode::RN), x + y),
            (float::mul(F32, a, b, Mode::RN), x * y),
            (float::div(F32, a, b, Mode::RN), x / y),
            (float::sqrt(F32, a, Mode::RN), x.sqrt()),
            (float::fma(F32, a, b, c, Mode::RN), x.mul_add(y, z)),
        ] {
            assert!(same(F32, ours, u64::from(theirs.to_bits())), "{a:x} {b:x} {c:x}: {ours:x}, {theirs}");
        }
        let [a, b, c] = std::array::from_fn(|_| random.float(F64));
        let [x, y, z] = [a, b, c].map(f64::from_bits);
        for (ours, theirs) in [
            (float::add(F64, a, b, Mode::RN), x + y),
            (float::div(F64, a, b, Mode::RN), x / y),
            (float::sqrt(F64, a, Mode::RN), x.sqrt()),
            (float::fma(F64, a, b, c, Mode::RN), x.mul_add(y, z)),
        ] {
            assert!(same(F64, ours, theirs.to_bits()), "{a:x} {b:x} {c:x}: {ours:x}, {theirs}");
        }
    }
}

/// Directed square roots are checked by definition: the squares of the two results enclose the operand.
#[test]
fn directed_square_roots_enclose_the_root() {
    let mut random = Random(13);
    for _ in 0..CASES {
        let a = random.float(F32) & !F32.sign_bit();
        if F32.is_nan(a) || F32.is_infinite(a) || F32.is_zero(a) {
            continue;
        }
        let exact = f64::from(f32::from_bits(a as u32));
        let down = float::sqrt(F32, a, Mode::new(Rounding::Down));
        let up = float::sqrt(F32, a, Mode::new(Rounding::Up));
        let [low, high] = [down, up].map(|bits| f64::from(f32::from_bits(bits as u32)));
        assert!(low * low <= exact && exact <= high * high, "{a:x}");
        assert!(up == down && low * low == exact || up == down + 1, "{a:x}: {down:x} {up:x}");
        assert_eq!(float::sqrt(F32, a, Mode::new(Rounding::Zero)), down);
    }
}
