//! Compares conversions and approximations with the reference.

use oriole_sem::convert::{Overflow, float_to_float, float_to_int, int_to_float, tf32_register, to_integral};
use oriole_sem::float::Mode;
use oriole_sem::format::{BF16, E2M1, E4M3, E5M2, F16, F32, F64, Rounding};
use oriole_sem::int::{S8, S16, S32, S64, U8, U32};

use super::{BLACKWELL, HOPPER, Machine, WORDS, eval, eval_on, is_refused};

const SINGLES: [f32; 17] =
    [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.7, 127.5, -128.6, 300.0, 65504.0, 65520.0, -1e10, 1e-40, f32::INFINITY, f32::NEG_INFINITY];

#[test]
fn floats_to_integers() {
    for (text, rounding) in [("", Rounding::NearestEven), (".FLOOR", Rounding::Down), (".CEIL", Rounding::Up), (".TRUNC", Rounding::Zero)] {
        for value in SINGLES {
            let bits = value.to_bits();
            let from_single = |kind| float_to_int(kind, F32, bits.into(), rounding, false);
            assert_eq!(u64::from(eval(&format!("F2I{text}.NTZ R0, R1"), &[bits])), from_single(S32), "{value}");
            assert_eq!(u64::from(eval(&format!("F2I.U32{text}.NTZ R0, R1"), &[bits])), from_single(U32), "{value}");
            assert_eq!(u64::from(eval(&format!("F2I.U8{text}.NTZ R0, R1"), &[bits])), from_single(U8), "{value}");
            let extended = S8.value(from_single(S8)) as u32;
            assert_eq!(eval(&format!("F2I.S8{text}.NTZ R0, R1"), &[bits]), extended, "{value}");
            let mut machine = Machine::with(HOPPER, &[bits]);
            machine.run(&format!("F2I.S64{text} R2, R1"));
            assert_eq!(machine.get_wide(2), from_single(S64));
            let double = f64::from(value).to_bits();
            let mut machine = Machine::with(HOPPER, &[0, double as u32, (double >> 32) as u32]);
            machine.run(&format!("F2I.F64{text} R0, R2")).run(&format!("FRND.F64{text} R4, R2"));
            assert_eq!(u64::from(machine.get(0)), float_to_int(S32, F64, double, rounding, false));
            assert_eq!(machine.get_wide(4), to_integral(F64, double, Mode::new(rounding)));
            assert_eq!(u64::from(eval(&format!("FRND{text} R0, R1"), &[bits])), to_integral(F32, bits.into(), Mode::new(rounding)));
        }
    }
    assert_eq!(eval("F2I.NTZ R0, R1", &[0x7fc0_0000]), 0);
    assert_eq!(eval("F2I R0, R1", &[0x7fc0_0000]), 0x8000_0000);
    assert_eq!(eval("F2IP.U8.F32.NTZ R0, R1, R2, R3", &[300.0_f32.to_bits(), 2.5_f32.to_bits(), 0x1234]), 0x1234_ff02);
}

#[test]
fn integers_to_floats() {
    for (text, rounding) in [("", Rounding::NearestEven), (".RM", Rounding::Down), (".RP", Rounding::Up), (".RZ", Rounding::Zero)] {
        let mode = Mode::new(rounding);
        for a in WORDS {
            assert_eq!(u64::from(eval(&format!("I2F{text} R0, R1"), &[a])), int_to_float(F32, S32, a.into(), mode));
            assert_eq!(u64::from(eval(&format!("I2F.U32{text} R0, R1"), &[a])), int_to_float(F32, U32, a.into(), mode));
            assert_eq!(u64::from(eval(&format!("I2F.F16{text} R0, R1"), &[a])), int_to_float(F16, S32, a.into(), mode));
            let byte = u64::from(a >> 16 & 0xff);
            assert_eq!(u64::from(eval(&format!("I2F.S8{text} R0, R1.B2"), &[a])), int_to_float(F32, S8, byte, mode));
            let half = u64::from(a >> 16);
            assert_eq!(u64::from(eval(&format!("I2F.S16{text} R0, R1.H1"), &[a])), int_to_float(F32, S16, half, mode));
            let mut machine = Machine::with(HOPPER, &[a, 7, a]);
            machine.run(&format!("I2F.F64{text} R4, R1")).run(&format!("I2F.S64{text} R0, R2"));
            assert_eq!(machine.get_wide(4), int_to_float(F64, S32, a.into(), mode));
            assert_eq!(u64::from(machine.get(0)), int_to_float(F32, S64, 7 | u64::from(a) << 32, mode));
        }
    }
    assert_eq!(eval("I2FP.F32.S32 R0, R1", &[!0]), (-1.0_f32).to_bits());
}

#[test]
fn floats_to_floats() {
    for value in SINGLES {
        let bits = u64::from(value.to_bits());
        let to = |format, mode| float_to_float(format, F32, bits, mode, Overflow::Ieee) as u32;
        assert_eq!(eval("F2F.F16.F32.RM R0, R1", &[bits as u32]), to(F16, Mode::new(Rounding::Down)));
        assert_eq!(eval("F2F.BF16.F32 R0, R1", &[bits as u32]), to(BF16, Mode::RN));
        let expected = to(F16, Mode::RN) << 16 | to(F16, Mode::RN);
        assert_eq!(eval("F2FP.F16.F32.PACK_AB R0, R1, R1", &[bits as u32]), expected);
        let expected = to(BF16, Mode::new(Rounding::Zero).relu(true)) << 16;
        assert_eq!(eval("F2FP.RELU.BF16.F32.PACK_AB.RZ R0, R1, RZ", &[bits as u32]), expected);
        let small = |format| float_to_float(format, F32, bits, Mode::RN, Overflow::SatFinite) as u32;
        let expected = small(E4M3) << 8 | 0xabcd_0000;
        assert_eq!(eval("F2FP.SATFINITE.E4M3.F32.PACK_AB_MERGE_C R0, R1, RZ, R2", &[bits as u32, 0x1234_abcd]), expected);
        let text = "F2FP.SATFINITE.E2M1.F32.PACK_AB_MERGE_C R0, R1, RZ, RZ";
        assert_eq!(eval_on(BLACKWELL, text, &[bits as u32]), small(E2M1) << 4);
        let expected = tf32_register(bits, Mode::RN, Overflow::Ieee) as u32;
        assert_eq!(eval("F2FP.TF32.F32.PACK_B R0, R1", &[bits as u32]), expected);
        let mut machine = Machine::with(HOPPER, &[bits as u32]);
        machine.run("F2F.F64.F32 R2, R1").run("F2F.F32.F64.RP R4, R2");
        assert_eq!(machine.get_wide(2), float_to_float(F64, F32, bits, Mode::RN, Overflow::Ieee));
        assert_eq!(u64::from(machine.get(4)), bits);
    }
    for byte in 0..=255_u32 {
        let half = |byte: u32| float_to_float(F16, E5M2, byte.into(), Mode::RN, Overflow::Ieee) as u32;
        assert_eq!(eval("F2FP.F16.E5M2.UNPACK_B R0, R1", &[byte << 8]), half(byte) << 16);
        let half = |byte: u32| float_to_float(F16, E4M3, byte.into(), Mode::RN, Overflow::Ieee) as u32;
        assert_eq!(eval("F2FP.F16.E4M3.UNPACK_B R0, R1.H1", &[byte << 16]), half(byte));
        let back = eval("F2FP.SATFINITE.E4M3.F16.UNPACK_B_MERGE_C R0, R1, RZ", &[half(byte)]);
        assert_eq!(back, if byte & 0x7f == 0x7f { 0x7f } else { byte });
    }
    assert!(is_refused(BLACKWELL, "F2FP.SATFINITE.E2M1.F32.PACK_AB_MERGE_C R0, R1, R2, R3"));
}

#[test]
fn scales_without_sign() {
    let scale = |value: f32, rounding: &str| {
        eval_on(BLACKWELL, &format!("F2FP.SATFINITE.E8.F32.PACK_AB_MERGE_C{rounding} R0, RZ, R1, RZ"), &[value.to_bits()]) & 0xff
    };
    assert_eq!([scale(1.0, ".RZ"), scale(1.5, ".RZ"), scale(1.5, ".RP"), scale(f32::MAX, ".RP")], [127, 127, 128, 254]);
    assert_eq!(eval_on(BLACKWELL, "F2FP.BF16.E8.UNPACK_B R0, R1", &[0x7f80]), 0x3f80_4000);
}

#[test]
fn packed_integers() {
    assert_eq!(eval("I2IP.S8.S32.SAT R0, R1, R2, R3", &[300, -300_i32 as u32, 0xabcd]), 0xabcd_7f80);
    assert_eq!(eval("I2IP.U16.S32.SAT R0, R1, R2, RZ", &[70000, -1_i32 as u32]), 0xffff_0000);
    assert_eq!(eval("I2IP.U4.S32.SAT R0, R1, R2, R3.24", &[20, 5, 0x12_3456]), 0x1234_56f5);
    assert_eq!(eval("I2IP.S2.S32.SAT R0, R1, R2, R3.28", &[7, -9_i32 as u32, 0x123]), 0x1236);
}

#[test]
fn approximations() {
    let within_one = |text: &str, x: f32, expected: f64| {
        let found = f32::from_bits(eval(&format!("MUFU.{text} R0, R1"), &[x.to_bits()]));
        let expected = expected as f32;
        assert!(found.to_bits().abs_diff(expected.to_bits()) <= 1, "{text} {x}: {found} instead of {expected}");
    };
    for x in [0.3_f32, 1.0, 2.0, 3.5, 77.25, 1e-20, 1e20] {
        let wide = f64::from(x);
        within_one("RCP", x, 1.0 / wide);
        within_one("RSQ", x, 1.0 / wide.sqrt());
        within_one("SQRT", x, wide.sqrt());
        within_one("LG2", x, wide.log2());
        within_one("TANH", x, wide.tanh());
    }
    within_one("EX2", -3.25, (-3.25_f64).exp2());
    // An eighth of a full turn.
    within_one("SIN", 0.125, std::f64::consts::FRAC_1_SQRT_2);
    within_one("COS", 4.0, 1.0);
    for (text, x, expected) in [
        ("RCP", 0, 0x7f80_0000),
        ("RCP", 1, 0x7f80_0000),
        ("RCP", 0xff80_0000, 0x8000_0000),
        ("RSQ", 0xbf80_0000, 0x7fff_ffff),
        ("LG2", 0, 0xff80_0000),
        ("EX2", (-127.0_f32).to_bits(), 0),
        ("RCP64H", 0x4000_0000, 0x3fe0_0000),
        ("RSQ64H", 0x4010_0000, 0x3fe0_0000),
        ("RCP64H", 1, 0x7ff0_0000),
    ] {
        assert_eq!(eval(&format!("MUFU.{text} R0, R1"), &[x]), expected, "{text} {x:x}");
    }
}
