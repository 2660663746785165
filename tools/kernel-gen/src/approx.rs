//! Generates tests of approximate functions, with the error bounds of the manual.
//!
//! Expected values are rounded, so each bound is increased by half a unit in the last place.

use crate::elementwise::{Op, both};
use crate::kernel::Generated;
use crate::ty::{BF16, BF16X2, F16, F16X2, F32, F64, Ty};
use oriole_kernel_test::{Expected, Fill, Segment, Source};
use oriole_sem::approx::{self, ApproxFunction};
use oriole_sem::float;
use oriole_sem::format::Format;
use oriole_sem::{Mode, convert};
use std::f64::consts::PI;

const FAMILY: &str = "approx";

pub fn tests() -> Vec<Generated> {
    let mut tests = Vec::new();
    tests.extend(single_operand());
    tests.extend(divisions());
    tests.extend(gross_f64());
    tests.extend(half());
    tests
}

fn result(format: Format, bits: u64) -> Expected {
    if format.is_nan(bits) { Expected::Nan } else { Expected::Bits(bits) }
}

/// Half a unit in the last place of an expected f32, relative to its value.
const ROUNDING: f64 = 1.0 / (1u64 << 24) as f64;

struct Row {
    name: &'static str,
    function: ApproxFunction,
    ulp: u64,
    absolute: f64,
    relative: f64,
    /// Returns whether the manual gives a bound for an operand.
    domain: fn(f64) -> bool,
}

fn rows() -> Vec<Row> {
    let everywhere = |_: f64| true;
    let row = |name, function| Row { name, function, ulp: 0, absolute: 0.0, relative: 0.0, domain: everywhere };
    vec![
        Row {
            absolute: 2f64.powf(-20.5) + ROUNDING,
            domain: |x| !(x.abs() > 2.0 * PI && x.is_finite()),
            ..row("sin", ApproxFunction::Sin)
        },
        Row {
            absolute: 2f64.powf(-20.5) + ROUNDING,
            domain: |x| !(x.abs() > 2.0 * PI && x.is_finite()),
            ..row("cos", ApproxFunction::Cos)
        },
        Row {
            absolute: 2f64.powf(-14.7) + ROUNDING,
            domain: |x| !(x.abs() > 100.0 * PI && x.is_finite()),
            ..row("sin_wide", ApproxFunction::Sin)
        },
        Row {
            absolute: 2f64.powf(-14.7) + ROUNDING,
            domain: |x| !(x.abs() > 100.0 * PI && x.is_finite()),
            ..row("cos_wide", ApproxFunction::Cos)
        },
        Row { absolute: 2f64.powi(-22), domain: |x| (0.5..2.0).contains(&x), ..row("lg2_near_one", ApproxFunction::Lg2) },
        Row { relative: 2f64.powi(-22) + ROUNDING, domain: |x| !(0.5..2.0).contains(&x) || x == 1.0, ..row("lg2", ApproxFunction::Lg2) },
        Row { ulp: 2, ..row("ex2", ApproxFunction::Ex2) },
        Row { relative: 2f64.powi(-11) + ROUNDING, ..row("tanh", ApproxFunction::Tanh) },
        Row { ulp: 1, ..row("rcp", ApproxFunction::Rcp) },
        Row { relative: 2f64.powi(-23) + ROUNDING, ..row("sqrt", ApproxFunction::Sqrt) },
        Row { relative: 2f64.powf(-22.9) + ROUNDING, ..row("rsqrt", ApproxFunction::Rsqrt) },
    ]
}

/// Returns boundary values, values around one, a sweep over magnitudes, and random bits.
fn operands(threads: usize) -> Fill {
    let sweep = (0..64).map(|i| {
        let value = (i as f64 - 31.5) * 9.7;
        Segment { source: Source::Value(u64::from((value as f32).to_bits())), count: Some(1) }
    });
    let mut fill = Fill::of(&[(Source::Boundary { stride: 1 }, 30), (Source::Sized { seed: 5 }, threads / 2 - 30)]);
    fill.0.extend(sweep);
    fill.0.push(Segment { source: Source::Random { seed: 6 }, count: None });
    fill
}

fn single_operand() -> Vec<Generated> {
    let mut tests = Vec::new();
    for row in rows() {
        for (suffix, ftz) in [("", false), (".ftz", true)] {
            if ftz && row.name == "tanh" {
                continue;
            }
            let base = row.name.split('_').next().unwrap_or(row.name);
            let template = format!("{base}.approx{suffix}.f32 {{d}}, {{a}};");
            let name = format!("{}{}_f32", row.name, suffix.replace('.', "_"));
            let (function, domain) = (row.function, row.domain);
            let op = Op::new(FAMILY, name, template, &[F32], F32, move |x| {
                let format = F32.format();
                let operand = if ftz { format.flush(x[0]) } else { x[0] };
                if !domain(approx::value(format, operand)) {
                    return vec![Expected::Any];
                }
                vec![result(format, approx::evaluate(function, format, x[0], ftz))]
            });
            let op = op.near(row.ulp, row.absolute, row.relative).fill(0, operands(256)).constants(0, [0x3fa0_0000, 0x3f00_0000]);
            tests.extend(both(&op, &[0]));
        }
    }
    tests
}

fn divisions() -> Vec<Generated> {
    let mut tests = Vec::new();
    for kind in ["approx", "full"] {
        for (suffix, ftz) in [("", false), (".ftz", true)] {
            let template = format!("div.{kind}{suffix}.f32 {{d}}, {{a}}, {{b}};");
            let name = format!("div_{kind}{}_f32", suffix.replace('.', "_"));
            let op = Op::new(FAMILY, name, template, &[F32, F32], F32, move |x| {
                let format = F32.format();
                let divisor = approx::value(format, if ftz { format.flush(x[1]) } else { x[1] }).abs();
                let bounded = divisor == 0.0 || divisor.is_infinite() || divisor.is_nan();
                if kind == "approx" && !bounded && !(2f64.powi(-126)..=2f64.powi(126)).contains(&divisor) {
                    return vec![Expected::Any];
                }
                vec![result(format, float::div(format, x[0], x[1], Mode::RN.ftz(ftz)))]
            });
            tests.extend(both(&op.near(2, 0.0, 0.0), &[0, 1]));
        }
    }
    tests
}

/// Generates tests of `rcp.approx.ftz.f64` and `rsqrt.approx.ftz.f64`, which read the upper word only. The manual gives no bound, so
/// 2^-19 is used: the precision of the 20-bit fraction they compute with.
fn gross_f64() -> Vec<Generated> {
    let mut tests = Vec::new();
    for (name, function) in [("rcp", ApproxFunction::Rcp), ("rsqrt", ApproxFunction::Rsqrt)] {
        let template = format!("{name}.approx.ftz.f64 {{d}}, {{a}};");
        let op = Op::new(FAMILY, format!("{name}_ftz_f64"), template, &[F64], F64, move |x| {
            let upper = x[0] & 0xffff_ffff_0000_0000;
            if F64.format().is_nan(x[0]) && !F64.format().is_nan(upper) {
                return vec![Expected::Any];
            }
            vec![result(F64.format(), approx::evaluate(function, F64.format(), upper, true))]
        });
        tests.push(op.near(0, 0.0, 2f64.powi(-19)).plain());
    }
    let op = Op::new(FAMILY, "rsqrt_f64", "rsqrt.approx.f64 {d}, {a};", &[F64], F64, |x| {
        vec![result(F64.format(), approx::evaluate(ApproxFunction::Rsqrt, F64.format(), x[0], false))]
    });
    tests.push(op.near(2, 0.0, 0.0).plain());
    tests
}

fn half() -> Vec<Generated> {
    let mut tests = Vec::new();
    let rows: [(&str, Ty, &str, ApproxFunction, f64, f64, &str); 8] = [
        ("tanh.approx", F16, "sm_75", ApproxFunction::Tanh, 2f64.powf(-10.987), 0.0, "7.0"),
        ("tanh.approx", F16X2, "sm_75", ApproxFunction::Tanh, 2f64.powf(-10.987), 0.0, "7.0"),
        ("tanh.approx", BF16, "sm_90", ApproxFunction::Tanh, 2f64.powi(-8), 0.0, "7.8"),
        ("tanh.approx", BF16X2, "sm_90", ApproxFunction::Tanh, 2f64.powi(-8), 0.0, "7.8"),
        ("ex2.approx", F16, "sm_75", ApproxFunction::Ex2, 0.0, 2f64.powf(-9.9), "7.0"),
        ("ex2.approx", F16X2, "sm_75", ApproxFunction::Ex2, 0.0, 2f64.powf(-9.9), "7.0"),
        ("ex2.approx.ftz", BF16, "sm_90", ApproxFunction::Ex2, 0.0, 2f64.powi(-7), "7.8"),
        ("ex2.approx.ftz", BF16X2, "sm_90", ApproxFunction::Ex2, 0.0, 2f64.powi(-7), "7.8"),
    ];
    for (head, ty, target, function, absolute, relative, version) in rows {
        let name = format!("{}_{}", &head[..head.find('.').unwrap_or(head.len())], ty.name);
        let ftz = head.contains("ftz");
        // Adds half a unit in the last place of the expected value.
        let widened = |bound: f64| if bound == 0.0 { 0.0 } else { bound + 2f64.powi(-(ty.format().fraction_bits as i32) - 1) };
        let op = Op::new(FAMILY, name, format!("{head}.{} {{d}}, {{a}};", ty.name), &[ty], ty, move |x| {
            ty.split(x[0]).into_iter().map(|bits| result(ty.format(), approx::evaluate(function, ty.format(), bits, ftz))).collect()
        });
        tests.push(op.near(1, widened(absolute), widened(relative)).platform(version, target).plain());
    }
    // A function of a converted operand, as compilers generate half-precision math.
    let template = "cvt.f32.f16 %t, {a};\nex2.approx.ftz.f32 %t, %t;\ncvt.rn.f16.f32 {d}, %t;";
    let op = Op::new(FAMILY, "ex2_through_f32", template, &[F16], F16, |x| {
        let wide = convert::float_to_float(F32.format(), F16.format(), x[0], Mode::RN, convert::Overflow::Ieee);
        let power = approx::evaluate(ApproxFunction::Ex2, F32.format(), wide, true);
        vec![result(F16.format(), convert::float_to_float(F16.format(), F32.format(), power, Mode::RN, convert::Overflow::Ieee))]
    });
    tests.push(op.registers(".reg .f32 %t;").near(1, 0.0, 0.0).plain());
    tests
}
