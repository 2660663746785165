//! Generates tests of conversions between all types.

use crate::elementwise::{Op, one};
use crate::float::ROUNDINGS;
use crate::kernel::Generated;
use crate::ty::{B16, B32, BF16, BF16X2, F16, F16X2, F32, F64, S8, S16, S32, S64, Ty, U8, U16, U32, U64};
use oriole_kernel_test::Expected;
use oriole_sem::convert::{self, Overflow};
use oriole_sem::format::{E4M3, E5M2};
use oriole_sem::{Format, Int, Mode, Rounding};

const FAMILY: &str = "cvt";
const INTS: [Ty; 8] = [U8, S8, U16, S16, U32, S32, U64, S64];
const FLOATS: [Ty; 4] = [F16, BF16, F32, F64];

pub fn tests() -> Vec<Generated> {
    let mut tests = Vec::new();
    tests.extend(int_to_int());
    tests.extend(chopping());
    tests.extend(int_to_float());
    tests.extend(float_to_int());
    tests.extend(float_to_float());
    tests.extend(to_integral());
    tests.extend(packing());
    tests.extend(tf32());
    tests.extend(fp8());
    tests.extend(pack_integers());
    tests
}

/// Returns the type of the destination register: narrow results are extended to 32 bits.
fn destination(ty: Ty) -> Ty {
    if ty == U8 {
        U32
    } else if ty == S8 {
        S32
    } else {
        ty
    }
}

/// Extends a narrow result to the width of its register.
fn extended(ty: Ty, bits: u64) -> u64 {
    destination(ty).int().wrap(ty.int().value(bits))
}

fn needs(ty: Ty, other: Ty) -> &'static str {
    if ty == BF16 || other == BF16 { "sm_90" } else { "sm_75" }
}

fn int_to_int() -> Vec<Generated> {
    let mut tests = Vec::new();
    for to in INTS {
        for from in INTS {
            let (kt, kf) = (to.int(), from.int());
            let template = format!("cvt.{}.{} {{d}}, {{a}};", to.name, from.name);
            let op = Op::new(FAMILY, format!("{}_{}", to.name, from.name), template, &[from], destination(to), move |x| {
                one(extended(to, convert::int_to_int(kt, kf, x[0], false)))
            });
            tests.push(op.plain());
            if kt.least() > kf.least() || kt.greatest() < kf.greatest() {
                let template = format!("cvt.sat.{}.{} {{d}}, {{a}};", to.name, from.name);
                let op = Op::new(FAMILY, format!("sat_{}_{}", to.name, from.name), template, &[from], destination(to), move |x| {
                    one(extended(to, convert::int_to_int(kt, kf, x[0], true)))
                });
                tests.push(op.plain());
            }
        }
    }
    tests
}

/// Sources in registers wider than the type: the upper bits are ignored.
fn chopping() -> Vec<Generated> {
    let mut tests = Vec::new();
    for (to, from, register) in
        [(U32, U8, B32), (S32, S8, B32), (S64, S16, B32), (U64, U16, B32), (S32, S16, crate::ty::B64), (F32, U8, B32), (F32, S16, B32)]
    {
        let rounding = if to.is_float() { ".rn" } else { "" };
        let template = format!("cvt{rounding}.{}.{} {{d}}, {{a}};", to.name, from.name);
        let name = format!("chop_{}_{}_{}", to.name, from.name, register.name);
        let op = Op::new(FAMILY, name, template, &[register], to, move |x| {
            one(if to.is_float() {
                convert::int_to_float(to.format(), from.int(), x[0], Mode::RN)
            } else {
                convert::int_to_int(to.int(), from.int(), x[0], false)
            })
        });
        tests.push(op.plain());
    }
    tests
}

/// Returns the integer type for a conversion from or to a float. Conversions between bf16 and 8-bit integers require 8-bit registers.
fn beside(float: Ty, int: Ty) -> Ty {
    if float == BF16 && int.bits() == 8 { Ty { register: int.name, ..int } } else { int }
}

fn int_to_float() -> Vec<Generated> {
    let mut tests = Vec::new();
    for to in FLOATS {
        for from in INTS.map(|from| beside(to, from)) {
            for (rnd, rounding) in ROUNDINGS {
                let template = format!("cvt.{rnd}.{}.{} {{d}}, {{a}};", to.name, from.name);
                let op = Op::new(FAMILY, format!("{rnd}_{}_{}", to.name, from.name), template, &[from], to, move |x| {
                    one(convert::int_to_float(to.format(), from.int(), x[0], Mode::new(rounding)))
                });
                tests.push(op.platform("7.8", needs(to, from)).threads(128).plain());
            }
        }
        let template = format!("cvt.rn.sat.{}.s32 {{d}}, {{a}};", to.name);
        let op = Op::new(FAMILY, format!("rn_sat_{}_s32", to.name), template, &[S32], to, move |x| {
            one(convert::int_to_float(to.format(), S32.int(), x[0], Mode::RN.sat(true)))
        });
        if to != BF16 {
            tests.push(op.threads(128).plain());
        }
    }
    tests
}

fn float_to_int() -> Vec<Generated> {
    let mut tests = Vec::new();
    for from in FLOATS {
        for to in INTS.map(|to| beside(from, to)) {
            for (rnd, rounding) in ROUNDINGS {
                for (suffix, ftz) in [("", false), (".ftz", true)] {
                    if ftz && from != F32 {
                        continue;
                    }
                    let template = format!("cvt.{rnd}i{suffix}.{}.{} {{d}}, {{a}};", to.name, from.name);
                    let name = format!("{rnd}i{}_{}_{}", suffix.replace('.', "_"), to.name, from.name);
                    let op = Op::new(FAMILY, name, template, &[from], destination(to), move |x| {
                        one(extended(to, convert::float_to_int(to.int(), from.format(), x[0], rounding, ftz)))
                    });
                    tests.push(op.platform("7.8", needs(to, from)).threads(128).plain());
                }
            }
        }
    }
    tests
}

fn result(to: Ty, bits: u64) -> Vec<Expected> {
    vec![if to == F64 && to.format().is_nan(bits) { Expected::Nan } else { Expected::Bits(bits) }]
}

/// Returns the expected value of a conversion. Without `.relu` or `.satfinite` the manual does not specify the NaN.
fn any_nan(to: Ty, bits: u64) -> Vec<Expected> {
    vec![if to.format().is_nan(bits) { Expected::Nan } else { Expected::Bits(bits) }]
}

fn float_to_float() -> Vec<Generated> {
    let mut tests = Vec::new();
    for to in FLOATS {
        for from in FLOATS {
            if to == from {
                continue;
            }
            let narrowing = to.bits() < from.bits() || to.bits() == from.bits();
            let roundings: &[(&str, Rounding)] = if narrowing { &ROUNDINGS } else { &[("", Rounding::NearestEven)] };
            for &(rnd, rounding) in roundings {
                for (suffix, ftz, sat) in [("", false, false), (".ftz", true, false), (".sat", false, true), (".ftz.sat", true, true)] {
                    if ftz && to != F32 && from != F32 || (ftz || sat) && (to == BF16 || from == BF16) {
                        continue;
                    }
                    let dot = if rnd.is_empty() { "" } else { "." };
                    let template = format!("cvt{dot}{rnd}{suffix}.{}.{} {{d}}, {{a}};", to.name, from.name);
                    let name = format!("{rnd}{}_{}_{}", suffix.replace('.', "_"), to.name, from.name);
                    let mode = Mode::new(rounding).ftz(ftz).sat(sat);
                    let op = Op::new(FAMILY, name.trim_start_matches('_'), template, &[from], to, move |x| {
                        any_nan(to, convert::float_to_float(to.format(), from.format(), x[0], mode, Overflow::Ieee))
                    });
                    tests.push(op.platform("7.8", needs(to, from)).threads(192).plain());
                }
            }
        }
    }
    tests
}

fn to_integral() -> Vec<Generated> {
    let mut tests = Vec::new();
    for ty in FLOATS {
        for (rnd, rounding) in ROUNDINGS {
            for (suffix, ftz, sat) in [("", false, false), (".ftz", true, false), (".sat", false, true)] {
                if ftz && ty != F32 || sat && ty == BF16 {
                    continue;
                }
                let template = format!("cvt.{rnd}i{suffix}.{0}.{0} {{d}}, {{a}};", ty.name);
                let name = format!("{rnd}i{}_{1}_{1}", suffix.replace('.', "_"), ty.name);
                let mode = Mode::new(rounding).ftz(ftz).sat(sat);
                let op = Op::new(FAMILY, name, template, &[ty], ty, move |x| result(ty, convert::to_integral(ty.format(), x[0], mode)));
                tests.push(op.platform("7.8", needs(ty, ty)).plain());
            }
        }
    }
    tests
}

fn packing() -> Vec<Generated> {
    let mut tests = Vec::new();
    for (to, scalar) in [(F16X2, F16), (BF16X2, BF16)] {
        for (rnd, rounding) in &ROUNDINGS[..2] {
            for relu in [false, true] {
                for satfinite in [false, true] {
                    let suffix = format!("{}{}", if relu { ".relu" } else { "" }, if satfinite { ".satfinite" } else { "" });
                    let mode = Mode::new(*rounding).relu(relu);
                    let overflow = if satfinite { Overflow::SatFinite } else { Overflow::Ieee };
                    let convert = move |bits: u64| convert::float_to_float(to.format(), F32.format(), bits, mode, overflow);
                    let template = format!("cvt.{rnd}{suffix}.{}.f32 {{d}}, {{a}}, {{b}};", to.name);
                    let name = format!("{rnd}{}_{}_f32", suffix.replace('.', "_"), to.name);
                    let op = Op::new(FAMILY, name, template, &[F32, F32], to, move |x| {
                        vec![Expected::Bits(convert(x[1])), Expected::Bits(convert(x[0]))]
                    });
                    tests.push(op.platform("8.1", "sm_80").threads(256).plain());
                    if !suffix.is_empty() {
                        let template = format!("cvt.{rnd}{suffix}.{}.f32 {{d}}, {{a}};", scalar.name);
                        let name = format!("{rnd}{}_{}_f32", suffix.replace('.', "_"), scalar.name);
                        let op = Op::new(FAMILY, name, template, &[F32], scalar, move |x| one(convert(x[0])));
                        tests.push(op.platform("8.1", "sm_80").plain());
                    }
                }
            }
        }
    }
    tests
}

/// tf32 in its 32-bit register.
const TF32_REGISTER: Ty = Ty { name: "b32", register: "b32", memory: "b32", ..F32 };

fn tf32() -> Vec<Generated> {
    let mut tests = Vec::new();
    let rows = [
        ("rna", Mode::new(Rounding::NearestAway), Overflow::Ieee, "sm_80"),
        ("rna.satfinite", Mode::new(Rounding::NearestAway), Overflow::SatFinite, "sm_80"),
        ("rn", Mode::RN, Overflow::Ieee, "sm_90"),
        ("rz", Mode::new(Rounding::Zero), Overflow::Ieee, "sm_90"),
        ("rn.relu", Mode::RN.relu(true), Overflow::Ieee, "sm_90"),
        ("rz.relu", Mode::new(Rounding::Zero).relu(true), Overflow::Ieee, "sm_90"),
    ];
    for (modifiers, mode, overflow, target) in rows {
        let template = format!("cvt.{modifiers}.tf32.f32 {{d}}, {{a}};");
        let name = format!("{}_tf32_f32", modifiers.replace('.', "_"));
        let op = Op::new(FAMILY, name, template, &[F32], TF32_REGISTER, move |x| {
            let bits = convert::tf32_register(x[0], mode, overflow);
            // A NaN whose payload tf32 cannot hold. The manual specifies it only with `.satfinite`.
            let lost_payload = F32.format().is_nan(x[0]) && !F32.format().is_nan(x[0] & !0x1fff);
            match (mode.relu, overflow) {
                (true, _) => one(bits),
                (false, Overflow::Ieee) if lost_payload => vec![Expected::Any],
                _ => any_nan(F32, bits),
            }
        });
        tests.push(op.platform("8.1", target).plain());
    }
    tests
}

fn fp8() -> Vec<Generated> {
    let mut tests = Vec::new();
    let formats: [(&str, Format); 2] = [("e4m3x2", E4M3), ("e5m2x2", E5M2)];
    for (name, format) in formats {
        for (suffix, relu) in [("", false), (".relu", true)] {
            let mode = Mode::RN.relu(relu);
            let narrow = move |from: Format, bits: u64| convert::float_to_float(format, from, bits, mode, Overflow::SatFinite);
            let test_name = |from: &str| format!("rn_satfinite{}_{name}_{from}", suffix.replace('.', "_"));
            let template = format!("cvt.rn.satfinite{suffix}.{name}.f32 {{d}}, {{a}}, {{b}};");
            let op = Op::new(FAMILY, test_name("f32"), template, &[F32, F32], B16, move |x| {
                one(narrow(F32.format(), x[0]) << 8 | narrow(F32.format(), x[1]))
            });
            tests.push(op.platform("8.1", "sm_89").threads(384).plain());
            let template = format!("cvt.rn.satfinite{suffix}.{name}.f16x2 {{d}}, {{a}};");
            let op = Op::new(FAMILY, test_name("f16x2"), template, &[F16X2], B16, move |x| {
                one(narrow(F16.format(), x[0] >> 16) << 8 | narrow(F16.format(), x[0] & 0xffff))
            });
            tests.push(op.platform("8.1", "sm_89").plain());
            let template = format!("cvt.rn{suffix}.f16x2.{name} {{d}}, {{a}};");
            let op = Op::new(FAMILY, format!("rn{}_f16x2_{name}", suffix.replace('.', "_")), template, &[B16], F16X2, move |x| {
                let wide = |bits: u64| Expected::Bits(convert::float_to_float(F16.format(), format, bits & 0xff, mode, Overflow::Ieee));
                vec![wide(x[0]), wide(x[0] >> 8)]
            });
            tests.push(op.platform("8.1", "sm_89").plain());
        }
    }
    tests
}

/// Generates tests of `cvt.pack`: two integers are saturated and packed; the rest is taken from a third operand.
fn pack_integers() -> Vec<Generated> {
    let mut tests = Vec::new();
    for bits in [2, 4, 8, 16] {
        for signed in [false, true] {
            let kind = Int { bits, signed };
            let name = format!("{}{bits}", if signed { 's' } else { 'u' });
            let pack = move |x: &[u64]| kind.clamp(S32.int().value(x[1])) | kind.clamp(S32.int().value(x[0])) << bits;
            let op = if bits == 16 {
                let template = format!("cvt.pack.sat.{name}.s32 {{d}}, {{a}}, {{b}};");
                Op::new(FAMILY, format!("pack_sat_{name}"), template, &[S32, S32], B32, move |x| one(pack(x)))
            } else {
                let template = format!("cvt.pack.sat.{name}.s32.b32 {{d}}, {{a}}, {{b}}, {{c}};");
                Op::new(FAMILY, format!("pack_sat_{name}"), template, &[S32, S32, B32], B32, move |x| {
                    one(pack(x) | x[2] << (2 * bits) & 0xffff_ffff)
                })
            };
            tests.push(op.threads(256).plain());
        }
    }
    tests
}
