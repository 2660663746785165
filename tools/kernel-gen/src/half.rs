//! Generates tests of f16 and bf16 arithmetic, scalar and packed.

use crate::elementwise::{Op, both};
use crate::float::{BINARY, any_nan, extreme_modes};
use crate::kernel::Generated;
use crate::ty::{BF16, BF16X2, F16, F16X2, Ty};
use oriole_kernel_test::Expected;
use oriole_sem::float::{self, Extreme};
use oriole_sem::{Format, Mode};

const FAMILY: &str = "half";

pub fn tests() -> Vec<Generated> {
    let mut tests = Vec::new();
    for ty in [F16, F16X2, BF16, BF16X2] {
        tests.extend(arithmetic(ty));
        tests.extend(fused(ty));
        tests.extend(signs(ty));
        tests.extend(extremes(ty));
    }
    tests
}

fn is_bf16(ty: Ty) -> bool {
    ty.format() == BF16.format()
}

/// Applies a scalar operation to each lane.
fn lanes(ty: Ty, inputs: &[u64], operation: impl Fn(&[u64]) -> u64) -> Vec<u64> {
    let split: Vec<Vec<u64>> = inputs.iter().map(|bits| ty.split(*bits)).collect();
    (0..ty.lanes).map(|lane| operation(&split.iter().map(|lanes| lanes[lane]).collect::<Vec<_>>())).collect()
}

fn exactly(values: Vec<u64>) -> Vec<Expected> {
    values.into_iter().map(Expected::Bits).collect()
}

fn modes(ty: Ty) -> Vec<(&'static str, Mode)> {
    let mode = Mode::RN;
    if is_bf16(ty) {
        return vec![("", mode)];
    }
    vec![("", mode), (".ftz", mode.ftz(true)), (".sat", mode.sat(true)), (".ftz.sat", mode.ftz(true).sat(true))]
}

fn arithmetic(ty: Ty) -> Vec<Generated> {
    let mut tests = Vec::new();
    let target = if is_bf16(ty) { "sm_90" } else { "sm_75" };
    for (suffix, mode) in modes(ty) {
        for (name, meaning) in BINARY {
            for rnd in ["", ".rn"] {
                if !rnd.is_empty() && !suffix.is_empty() {
                    continue;
                }
                let test_name = format!("{name}{}{}_{}", rnd, suffix, ty.name).replace('.', "_");
                let template = format!("{name}{rnd}{suffix}.{} {{d}}, {{a}}, {{b}};", ty.name);
                let op = Op::new(FAMILY, test_name, template, &[ty, ty], ty, move |x| {
                    exactly(lanes(ty, x, |x| meaning(ty.format(), x[0], x[1], mode)))
                });
                let op = op.platform("7.8", target);
                tests.push(op.plain());
                if rnd.is_empty() {
                    tests.push(op.shapes(&[]));
                }
            }
        }
    }
    tests
}

fn fused(ty: Ty) -> Vec<Generated> {
    let mut tests = Vec::new();
    let mut modes = modes(ty);
    modes.push((".relu", Mode::RN.relu(true)));
    if !is_bf16(ty) {
        modes.push((".ftz.relu", Mode::RN.relu(true).ftz(true)));
    }
    for (suffix, mode) in modes {
        let target = if is_bf16(ty) || mode.relu { "sm_80" } else { "sm_75" };
        let name = format!("fma_rn{}_{}", suffix.replace('.', "_"), ty.name);
        let template = format!("fma.rn{suffix}.{} {{d}}, {{a}}, {{b}}, {{c}};", ty.name);
        let op = Op::new(FAMILY, name, template, &[ty, ty, ty], ty, move |x| {
            exactly(lanes(ty, x, |x| float::fma(ty.format(), x[0], x[1], x[2], mode)))
        });
        tests.extend(both(&op.platform("7.0", target), &[]));
    }
    tests
}

fn signs(ty: Ty) -> Vec<Generated> {
    let mut tests = Vec::new();
    let target = if is_bf16(ty) { "sm_80" } else { "sm_75" };
    for (suffix, ftz) in [("", false), (".ftz", true)] {
        if ftz && is_bf16(ty) {
            continue;
        }
        for (name, meaning) in [("abs", float::abs as fn(Format, u64, bool) -> u64), ("neg", float::neg)] {
            let template = format!("{name}{suffix}.{} {{d}}, {{a}};", ty.name);
            let test_name = format!("{name}{}_{}", suffix.replace('.', "_"), ty.name);
            let op = Op::new(FAMILY, test_name, template, &[ty], ty, move |x| {
                lanes(ty, x, |x| meaning(ty.format(), x[0], ftz)).into_iter().map(|bits| any_nan(ty, bits)).collect()
            });
            tests.push(op.platform("7.0", target).plain());
        }
    }
    tests
}

fn extremes(ty: Ty) -> Vec<Generated> {
    let mut tests = Vec::new();
    for (name, which) in [("min", Extreme::Min), ("max", Extreme::Max)] {
        for (suffix, mode, target) in extreme_modes(!is_bf16(ty)) {
            let target = if target == "sm_75" { "sm_80" } else { target };
            let template = format!("{name}{suffix}.{} {{d}}, {{a}}, {{b}};", ty.name);
            let test_name = format!("{name}{}_{}", suffix.replace('.', "_"), ty.name);
            let op = Op::new(FAMILY, test_name, template, &[ty, ty], ty, move |x| {
                exactly(lanes(ty, x, |x| float::min_max(ty.format(), which, x[0], x[1], mode)))
            });
            tests.push(op.platform("7.2", target).plain());
        }
    }
    tests
}
