//! Generates tests of f32 and f64 arithmetic: all rounding modes, flushing, saturation; IEEE division and square root.

use crate::elementwise::value;
use crate::elementwise::{Op, both, float_result};
use crate::kernel::Generated;
use crate::ty::{F32, F64, Ty, U32};
use oriole_kernel_test::{Expected, Fill};
use oriole_sem::compare::{self, Property};
use oriole_sem::float::{self, Extreme, ExtremeMode};
use oriole_sem::{Format, Mode, Rounding};

const FAMILY: &str = "float";

pub const ROUNDINGS: [(&str, Rounding); 4] =
    [("rn", Rounding::NearestEven), ("rz", Rounding::Zero), ("rm", Rounding::Down), ("rp", Rounding::Up)];

pub fn tests() -> Vec<Generated> {
    let mut tests = Vec::new();
    tests.extend(arithmetic());
    tests.extend(default_rounding());
    tests.extend(divisions_and_roots());
    tests.extend(extremes());
    tests.extend(signs());
    tests.extend(classes());
    tests.extend(flushing_edges());
    tests
}

type Binary = fn(Format, u64, u64, Mode) -> u64;

pub const BINARY: [(&str, Binary); 3] = [("add", float::add), ("sub", float::sub), ("mul", float::mul)];

/// Returns the suffixes of `.ftz` and `.sat` with the corresponding modes.
fn modes(ty: Ty, rounding: Rounding) -> Vec<(&'static str, Mode)> {
    let mode = Mode::new(rounding);
    if ty == F64 {
        return vec![("", mode)];
    }
    vec![("", mode), (".ftz", mode.ftz(true)), (".sat", mode.sat(true)), (".ftz.sat", mode.ftz(true).sat(true))]
}

fn name_of(base: &str, suffix: &str, ty: Ty) -> String {
    format!("{base}{}_{}", suffix.replace('.', "_"), ty.name)
}

fn arithmetic() -> Vec<Generated> {
    let mut tests = Vec::new();
    for ty in [F32, F64] {
        for (rnd, rounding) in ROUNDINGS {
            for (suffix, mode) in modes(ty, rounding) {
                let with_shapes = suffix.is_empty() || rnd == "rn";
                let mut push = |op: Op, operands: &[usize]| {
                    tests.push(op.plain());
                    if with_shapes {
                        tests.push(op.shapes(operands));
                    }
                };
                for (name, meaning) in BINARY {
                    let template = format!("{name}.{rnd}{suffix}.{} {{d}}, {{a}}, {{b}};", ty.name);
                    let name = name_of(&format!("{name}_{rnd}"), suffix, ty);
                    let op = Op::new(FAMILY, name, template, &[ty, ty], ty, move |x| {
                        vec![float_result(ty, meaning(ty.format(), x[0], x[1], mode))]
                    });
                    push(op, &[0, 1]);
                }
                let template = format!("fma.{rnd}{suffix}.{} {{d}}, {{a}}, {{b}}, {{c}};", ty.name);
                let op = Op::new(FAMILY, name_of(&format!("fma_{rnd}"), suffix, ty), template, &[ty, ty, ty], ty, move |x| {
                    vec![float_result(ty, float::fma(ty.format(), x[0], x[1], x[2], mode))]
                });
                push(op, &[0, 1, 2]);
            }
        }
    }
    tests
}

/// Generates tests without a rounding modifier, and tests of `mad`, which is `fma`.
fn default_rounding() -> Vec<Generated> {
    let mut tests = Vec::new();
    for ty in [F32, F64] {
        for (name, meaning) in BINARY {
            let op = Op::new(
                FAMILY,
                format!("{name}_{}", ty.name),
                format!("{name}.{} {{d}}, {{a}}, {{b}};", ty.name),
                &[ty, ty],
                ty,
                move |x| vec![float_result(ty, meaning(ty.format(), x[0], x[1], Mode::RN))],
            );
            tests.push(op.plain());
        }
        for (rnd, rounding) in ROUNDINGS {
            let template = format!("mad.{rnd}.{} {{d}}, {{a}}, {{b}}, {{c}};", ty.name);
            let op = Op::new(FAMILY, format!("mad_{rnd}_{}", ty.name), template, &[ty, ty, ty], ty, move |x| {
                vec![float_result(ty, float::fma(ty.format(), x[0], x[1], x[2], Mode::new(rounding)))]
            });
            tests.push(op.plain());
        }
        // Explicit rounding forbids contraction to fma.
        let t = ty.name;
        let template = format!("mul.rn.{t} {{d}}, {{a}}, {{b}};\nadd.rn.{t} {{d}}, {{d}}, {{c}};");
        let op = Op::new(FAMILY, format!("no_fusing_{t}"), template, &[ty, ty, ty], ty, move |x| {
            let product = float::mul(ty.format(), x[0], x[1], Mode::RN);
            vec![float_result(ty, float::add(ty.format(), product, x[2], Mode::RN))]
        });
        tests.push(op.plain());
    }
    tests
}

fn divisions_and_roots() -> Vec<Generated> {
    let mut tests = Vec::new();
    for ty in [F32, F64] {
        let format = ty.format();
        for (rnd, rounding) in ROUNDINGS {
            for (suffix, mode) in modes(ty, rounding).into_iter().filter(|(suffix, _)| !suffix.contains("sat")) {
                let head = |name: &str| format!("{name}.{rnd}{suffix}.{}", ty.name);
                let name = |base: &str| name_of(&format!("{base}_{rnd}"), suffix, ty);
                let op = Op::new(FAMILY, name("div"), format!("{} {{d}}, {{a}}, {{b}};", head("div")), &[ty, ty], ty, move |x| {
                    vec![float_result(ty, float::div(format, x[0], x[1], mode))]
                });
                tests.extend(both(&op, &[0, 1]));
                let op = Op::new(FAMILY, name("rcp"), format!("{} {{d}}, {{a}};", head("rcp")), &[ty], ty, move |x| {
                    vec![float_result(ty, float::rcp(format, x[0], mode))]
                });
                tests.extend(both(&op, &[0]));
                let op = Op::new(FAMILY, name("sqrt"), format!("{} {{d}}, {{a}};", head("sqrt")), &[ty], ty, move |x| {
                    vec![float_result(ty, float::sqrt(format, x[0], mode))]
                });
                tests.extend(both(&op, &[0]));
            }
        }
    }
    tests
}

fn extremes() -> Vec<Generated> {
    let mut tests = Vec::new();
    for (name, which) in [("min", Extreme::Min), ("max", Extreme::Max)] {
        for (suffix, mode, target) in extreme_modes(true) {
            let template = format!("{name}{suffix}.f32 {{d}}, {{a}}, {{b}};");
            let op = Op::new(FAMILY, name_of(name, &suffix, F32), template, &[F32, F32], F32, move |x| {
                vec![float_result(F32, float::min_max(F32.format(), which, x[0], x[1], mode))]
            });
            tests.extend(both(&op.platform("8.0", target), &[0, 1]));
        }
        let op = Op::new(FAMILY, format!("{name}_f64"), format!("{name}.f64 {{d}}, {{a}}, {{b}};"), &[F64, F64], F64, move |x| {
            vec![float_result(F64, float::min_max(F64.format(), which, x[0], x[1], ExtremeMode::default()))]
        });
        tests.extend(both(&op, &[0, 1]));
    }
    tests
}

/// Returns all combinations of `.ftz`, `.NaN` and `.xorsign.abs`, with the target they require.
pub fn extreme_modes(with_ftz: bool) -> Vec<(String, ExtremeMode, &'static str)> {
    let mut modes = Vec::new();
    for ftz in [false, true] {
        for nan in [false, true] {
            for xorsign_abs in [false, true] {
                let part = |on: bool, text: &'static str| if on { text } else { "" };
                let suffix = format!("{}{}{}", part(ftz, ".ftz"), part(nan, ".NaN"), part(xorsign_abs, ".xorsign.abs"));
                let target = if xorsign_abs {
                    "sm_86"
                } else if nan {
                    "sm_80"
                } else {
                    "sm_75"
                };
                if !ftz || with_ftz {
                    modes.push((suffix, ExtremeMode { ftz, nan, xorsign_abs }, target));
                }
            }
        }
    }
    modes
}

/// Returns the expected result of `abs` and `neg`, which return an unspecified NaN for a NaN.
pub fn any_nan(ty: Ty, bits: u64) -> Expected {
    if ty.format().is_nan(bits) { Expected::Nan } else { Expected::Bits(bits) }
}

fn signs() -> Vec<Generated> {
    let mut tests = Vec::new();
    for ty in [F32, F64] {
        for (suffix, ftz) in [("", false), (".ftz", true)] {
            if ftz && ty == F64 {
                continue;
            }
            for (name, meaning) in [("abs", float::abs as fn(Format, u64, bool) -> u64), ("neg", float::neg)] {
                let template = format!("{name}{suffix}.{} {{d}}, {{a}};", ty.name);
                let op = Op::new(FAMILY, name_of(name, suffix, ty), template, &[ty], ty, move |x| {
                    vec![any_nan(ty, meaning(ty.format(), x[0], ftz))]
                });
                tests.extend(both(&op, &[0]));
            }
        }
        let op = Op::new(
            FAMILY,
            format!("copysign_{}", ty.name),
            format!("copysign.{} {{d}}, {{a}}, {{b}};", ty.name),
            &[ty, ty],
            ty,
            move |x| vec![any_nan(ty, float::copysign(ty.format(), x[0], x[1]))],
        );
        tests.extend(both(&op, &[0, 1]));
    }
    tests
}

fn classes() -> Vec<Generated> {
    let properties = [
        ("finite", Property::Finite),
        ("infinite", Property::Infinite),
        ("number", Property::Number),
        ("notanumber", Property::NotANumber),
        ("normal", Property::Normal),
        ("subnormal", Property::Subnormal),
    ];
    let mut tests = Vec::new();
    for ty in [F32, F64] {
        for (name, property) in properties {
            let template = format!("testp.{name}.{} %q, {{a}};\nselp.u32 {{d}}, 1, 0, %q;", ty.name);
            let op = Op::new(FAMILY, format!("testp_{name}_{}", ty.name), template, &[ty], U32, move |x| {
                vec![Expected::Bits(u64::from(compare::test(ty.format(), property, x[0])))]
            });
            tests.push(op.registers(".reg .pred %q;").plain());
        }
    }
    tests
}

/// Generates products and sums around the smallest normal number, where rounding decides whether `.ftz` flushes.
fn flushing_edges() -> Vec<Generated> {
    let below_one = Fill((0..256).map(|i| value(0x3f7f_ffff - i % 16)).collect());
    let least_normal = Fill((0..256).map(|i| value((0x0080_0000 + i / 16 - 4) | (i & 1) << 31)).collect());
    let addend = Fill((0..256).map(|i| value([0, 1, 0x8000_0001, 0x0080_0000, 0x8080_0000, 0x0080_0001][i as usize % 6])).collect());
    let mut tests = Vec::new();
    for (rnd, rounding) in ROUNDINGS {
        for (suffix, ftz) in [("", false), (".ftz", true)] {
            let mode = Mode::new(rounding).ftz(ftz);
            let name = |base: &str| name_of(&format!("edge_{base}_{rnd}"), suffix, F32);
            let op = Op::new(FAMILY, name("mul"), format!("mul.{rnd}{suffix}.f32 {{d}}, {{a}}, {{b}};"), &[F32, F32], F32, move |x| {
                vec![float_result(F32, float::mul(F32.format(), x[0], x[1], mode))]
            });
            tests.push(op.fill(0, below_one.clone()).fill(1, least_normal.clone()).threads(256).plain());
            let template = format!("fma.{rnd}{suffix}.f32 {{d}}, {{a}}, {{b}}, {{c}};");
            let op = Op::new(FAMILY, name("fma"), template, &[F32, F32, F32], F32, move |x| {
                vec![float_result(F32, float::fma(F32.format(), x[0], x[1], x[2], mode))]
            });
            let op = op.fill(0, below_one.clone()).fill(1, least_normal.clone()).fill(2, addend.clone());
            tests.push(op.threads(256).plain());
        }
    }
    tests
}
