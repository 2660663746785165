//! Compares floating-point arithmetic with the reference in every mode.

use oriole_sem::compare::{self, Comparison};
use oriole_sem::float::{self, Extreme, ExtremeMode, Mode};
use oriole_sem::format::{BF16, F16, F32, F64, Rounding};

use super::{BLACKWELL, HOPPER, Machine, eval, eval_on, is_refused};

const SINGLES: [u32; 19] = [
    0,
    0x8000_0000,
    1,
    0x007f_ffff,
    0x0080_0000,
    0x8080_0001,
    0x3f80_0000,
    0xbf80_0001,
    0x3f00_0000,
    0x4049_0fdb,
    0x0b80_0000,
    0x3400_0001,
    0x7f7f_ffff,
    0xff7f_ffff,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0xffa0_1234,
    0x2081_2345,
];

const ROUNDINGS: [(&str, Rounding); 4] =
    [("", Rounding::NearestEven), (".RM", Rounding::Down), (".RP", Rounding::Up), (".RZ", Rounding::Zero)];

fn pairs() -> impl Iterator<Item = (u32, u32)> {
    SINGLES.iter().flat_map(|&a| SINGLES.iter().map(move |&b| (a, b)))
}

#[test]
fn singles_in_every_mode() {
    for (rounding_text, rounding) in ROUNDINGS {
        for (ftz, sat) in [(false, false), (true, false), (false, true), (true, true)] {
            let mode = Mode::new(rounding).ftz(ftz).sat(sat);
            let text = format!("{}{rounding_text}{}", if ftz { ".FTZ" } else { "" }, if sat { ".SAT" } else { "" });
            for (a, b) in pairs() {
                let (x, y) = (u64::from(a), u64::from(b));
                let mut machine = Machine::with(HOPPER, &[a, b, 0x80ff_ffff]);
                machine.run(&format!("FADD{text} R0, R1, -R2"));
                assert_eq!(u64::from(machine.get(0)), float::sub(F32, x, y, mode), "FADD{text} {a:x} {b:x}");
                machine.run(&format!("FMUL{text} R0, R1, R2"));
                assert_eq!(u64::from(machine.get(0)), float::mul(F32, x, y, mode), "FMUL{text} {a:x} {b:x}");
                machine.run(&format!("FFMA{text} R0, R1, R2, -|R3|"));
                let expected = float::fma(F32, x, y, 0x80ff_ffff, mode);
                assert_eq!(u64::from(machine.get(0)), expected, "FFMA{text} {a:x} {b:x}");
            }
        }
    }
}

#[test]
fn what_is_tiny_is_so_after_rounding() {
    // Rounded to 24 bits with unbounded exponent, 2^-126 - 2^-150 is still below the normal range, 2^-126 - 2^-152 is not (seen on a GPU).
    assert_eq!(eval("FMUL.FTZ R0, R1, R2", &[0x3f7f_ffff, 0x0080_0000]), 0);
    assert_eq!(eval("FFMA.FTZ R0, R1, R2, R3", &[0x8080_0000, 0x0080_0000, 0x0080_0000]), 0x0080_0000);
}

#[test]
fn zero_times_anything_and_scales() {
    assert_eq!(eval("FMUL.FMZ R0, R1, R2", &[0, 0x7f80_0000]), 0);
    assert_eq!(eval("FFMA.FMZ R0, R1, R2, R3", &[0x7fc0_0000, 0x8000_0000, 0x3f80_0000]), 0x3f80_0000);
    assert_eq!(eval("FMUL.M4 R0, R1, R2", &[0x7f7f_ffff, 0x3e80_0000]), 0x7f7f_ffff);
    assert_eq!(eval("FMUL.D2 R0, R1, R2", &[0x4000_0000, 0x4040_0000]), 0x4040_0000);
}

#[test]
fn extremes_and_comparisons() {
    for (a, b) in pairs() {
        let (x, y) = (u64::from(a), u64::from(b));
        for (text, mode) in [
            ("", ExtremeMode::default()),
            (".FTZ", ExtremeMode { ftz: true, ..ExtremeMode::default() }),
            (".NAN", ExtremeMode { nan: true, ..ExtremeMode::default() }),
        ] {
            let min = eval(&format!("FMNMX{text} R0, R1, R2, PT"), &[a, b]);
            let max = eval(&format!("FMNMX{text} R0, R1, R2, !PT"), &[a, b]);
            assert_eq!(u64::from(min), float::min_max(F32, Extreme::Min, x, y, mode));
            assert_eq!(u64::from(max), float::min_max(F32, Extreme::Max, x, y, mode));
        }
        let mode = ExtremeMode { xorsign_abs: true, ..ExtremeMode::default() };
        assert_eq!(u64::from(eval("FMNMX.XORSIGN R0, |R1|, |R2|, PT", &[a, b])), float::min_max(F32, Extreme::Min, x, y, mode));
        for (text, comparison) in [("LT", Comparison::Lt), ("NEU", Comparison::Neu), ("GE", Comparison::Ge), ("NUM", Comparison::Num)] {
            for (suffix, ftz) in [("", false), (".FTZ", true)] {
                let mut machine = Machine::with(HOPPER, &[a, b]);
                machine.run(&format!("FSETP.{text}{suffix}.AND P0, P1, R1, R2, PT"));
                let expected = compare::float(F32, comparison, x, y, ftz);
                assert_eq!((machine.get_predicate(0), machine.get_predicate(1)), (expected, !expected), "{text} {a:x} {b:x}");
            }
        }
    }
    assert!(is_refused(HOPPER, "FMNMX.XORSIGN R0, R1, R2, PT"));
}

#[test]
fn a_quotient_without_check_is_exact() {
    // Division uses a reciprocal and corrections if the check is false, so the quotient must then be far from both ends of the range.
    for (a, b) in pairs() {
        let mut machine = Machine::with(HOPPER, &[a, b]);
        machine.run("FCHK P0, R1, R2");
        let quotient = (f32::from_bits(a) / f32::from_bits(b)).abs();
        let is_easy = quotient.is_normal() && f32::from_bits(a).is_normal() && f32::from_bits(b).is_normal();
        assert!(machine.get_predicate(0) || is_easy, "{a:x} / {b:x}");
    }
    let mut machine = Machine::with(HOPPER, &[0x4040_0000, 0x4000_0000]);
    machine.run("FCHK P0, R1, R2");
    assert!(!machine.get_predicate(0));
}

/// Returns a result with the NaN that an H200 delivers, as measured: that of the first operand in `operands` that is one, made quiet;
/// negative if no operand is a NaN. The minus sign of an operand does not change a NaN.
fn with_payload(result: u64, operands: &[u64]) -> u64 {
    let is_nan = |bits: u64| f64::from_bits(bits).is_nan();
    let kept = operands.iter().copied().find(|&operand| is_nan(operand));
    if is_nan(result) { kept.map_or(0xfff8 << 48, |operand| operand | 1 << 51) } else { result }
}

#[test]
fn doubles_in_every_mode() {
    let values = [0, 1 << 63, 0x3ff0_0000_0000_0001, 0xbff8_0000_0000_0000, 0x7fef_ffff_ffff_ffff, 0x7ff0 << 48, 0x7ff8 << 48, 3];
    for (text, rounding) in ROUNDINGS {
        let mode = Mode::new(rounding);
        for a in values {
            for b in values {
                let mut machine = Machine::with(HOPPER, &[0, a as u32, (a >> 32) as u32, b as u32, (b >> 32) as u32]);
                machine.run(&format!("DADD{text} R8, R2, -R4"));
                assert_eq!(machine.get_wide(8), with_payload(float::sub(F64, a, b, mode), &[b, a]), "DADD{text} {a:x} {b:x}");
                machine.run(&format!("DMUL{text} R8, R2, R4"));
                assert_eq!(machine.get_wide(8), with_payload(float::mul(F64, a, b, mode), &[b, a]), "DMUL{text} {a:x} {b:x}");
                machine.run(&format!("DFMA{text} R8, R2, R4, R2"));
                assert_eq!(machine.get_wide(8), with_payload(float::fma(F64, a, b, a, mode), &[b, a]), "DFMA{text} {a:x} {b:x}");
                machine.run("DSETP.GT.AND P0, PT, R2, R4, PT");
                assert_eq!(machine.get_predicate(0), f64::from_bits(a) > f64::from_bits(b));
            }
        }
    }
}

/// Values of both half formats: zeros, subnormals, ones, largest, infinities, NaN and others.
const HALVES: [u32; 16] =
    [0, 0x8000, 1, 0x83ff, 0x0400, 0x3c00, 0xbc01, 0x3f80, 0x7bff, 0x7c00, 0xfbff, 0x7f7f, 0x7f80, 0x7fff, 0x1234, 0xc2a9];

#[test]
fn halves_of_both_formats() {
    for (suffix, format) in [("", F16), (".BF16_V2", BF16)] {
        for a in HALVES {
            for b in HALVES {
                let (x, y) = (u64::from(a), u64::from(b));
                let mut machine = Machine::with(HOPPER, &[a | b << 16, b | a << 16, 0x4200_8001]);
                let both = |f: &dyn Fn(u64, u64, u64) -> u64| (f(x, y, 0x8001) | f(y, x, 0x4200) << 16) as u32;
                machine.run(&format!("HADD2{suffix} R0, R1, R2"));
                assert_eq!(machine.get(0), both(&|a, b, _| float::add(format, a, b, Mode::RN)), "{a:x} {b:x}");
                machine.run(&format!("HMUL2{suffix} R0, R1, R2"));
                assert_eq!(machine.get(0), both(&|a, b, _| float::mul(format, a, b, Mode::RN)), "{a:x} {b:x}");
                machine.run(&format!("HFMA2{suffix} R0, R1, R2, R3"));
                assert_eq!(machine.get(0), both(&|a, b, c| float::fma(format, a, b, c, Mode::RN)), "{suffix} {a:x} {b:x}");
                machine.run(&format!("HFMA2{suffix}.RELU R0, R1, R2, R3"));
                assert_eq!(machine.get(0), both(&|a, b, c| float::fma(format, a, b, c, Mode::RN.relu(true))));
                machine.run(&format!("HFMA2{suffix}.FTZ R0, R1, R2, R3"));
                assert_eq!(machine.get(0), both(&|a, b, c| float::fma(format, a, b, c, Mode::RN.ftz(true))));
                machine.run(&format!("HMNMX2{suffix}.NAN R0, R1, R2, PT"));
                let mode = ExtremeMode { nan: true, ..ExtremeMode::default() };
                assert_eq!(machine.get(0), both(&|a, b, _| float::min_max(format, Extreme::Min, a, b, mode)));
                machine.run(&format!("HSETP2{suffix}.LE.AND P0, P1, R1, R2, PT"));
                let le = |a, b| compare::float(format, Comparison::Le, a, b, false);
                assert_eq!((machine.get_predicate(0), machine.get_predicate(1)), (le(x, y), le(y, x)));
            }
        }
    }
    // Swizzles, and an immediate of 1.5 (upper half) and 2 (lower half).
    assert_eq!(eval("HADD2 R0, R1.H1_H1, 1.5, 2", &[0x3c00_0000]), 0x4100_4200);
    assert_eq!(eval("HADD2.F32 R0, -RZ, R1.H1_H1", &[0xc000_3c00]), (-2.0_f32).to_bits());
    assert_eq!(eval("HSET2.BF.GT.AND R0, R1, RZ, PT", &[0xc000_3c00]), 0x3c00);
}

#[test]
fn pairs_of_singles() {
    let mut machine = Machine::with(BLACKWELL, &[0, 0x3f80_0000, 0x4000_0000, 0x4040_0000, 0x4080_0000]);
    machine.run("FADD2 R6, R2.F32x2.HI_LO, R4.F32x2.HI_LO");
    assert_eq!((machine.get(6), machine.get(7)), (4.0_f32.to_bits(), 6.0_f32.to_bits()));
    machine.run("FFMA2 R6, R2.F32x2.HI_LO, R4.F32x2.LO_HI, R2.F32x2.HI_LO");
    assert_eq!((machine.get(6), machine.get(7)), (5.0_f32.to_bits(), 8.0_f32.to_bits()));
    // One single for both halves, in a register or as a number: 1 * 3 + 2 and 2 * 3 + 2.
    machine.set(8, 1.0_f32.to_bits());
    machine.set(9, 2.0_f32.to_bits());
    machine.run("FFMA2 R6, R8.F32x2.HI_LO, R4.F32, 2");
    assert_eq!((machine.get(6), machine.get(7)), (5.0_f32.to_bits(), 8.0_f32.to_bits()));
    machine.run("FMUL2 R6, R8.F32x2.HI_LO, -R9.F32");
    assert_eq!((machine.get(6), machine.get(7)), ((-2.0_f32).to_bits(), (-4.0_f32).to_bits()));
    assert_eq!(eval_on(BLACKWELL, "FHADD.BF16 R0, R1, R2", &[0x3f80, 0x3f80_0000]), 2.0_f32.to_bits());
    assert_eq!(eval_on(BLACKWELL, "FHFMA R0, R1.H1, R2, R3", &[0x4000_0000, 0x4200, 0x3f80_0000]), 7.0_f32.to_bits());
}
