//! Generates tests of comparisons and selections: `setp`, `set`, `selp`, `slct`.

use crate::elementwise::{Op, both, one};
use crate::kernel::Generated;
use crate::ty::{B16, B32, B64, BF16, BF16X2, F16, F16X2, F32, F64, INTEGERS, S32, Ty, U16, U32, U64};
use oriole_kernel_test::Expected;
use oriole_sem::compare;
use oriole_sem::{Comparison, Int};

const FAMILY: &str = "compare";

pub fn tests() -> Vec<Generated> {
    let mut tests = Vec::new();
    tests.extend(single_comparisons());
    tests.extend(all_comparisons());
    tests.extend(combined());
    tests.extend(sets());
    tests.extend(half_sets());
    tests.extend(selections());
    tests.extend(packed_comparisons());
    tests
}

const ORDERED: [(&str, Comparison); 6] = [
    ("eq", Comparison::Eq),
    ("ne", Comparison::Ne),
    ("lt", Comparison::Lt),
    ("le", Comparison::Le),
    ("gt", Comparison::Gt),
    ("ge", Comparison::Ge),
];
const UNSIGNED: [(&str, Comparison); 4] = [("lo", Comparison::Lo), ("ls", Comparison::Ls), ("hi", Comparison::Hi), ("hs", Comparison::Hs)];
const UNORDERED: [(&str, Comparison); 8] = [
    ("equ", Comparison::Equ),
    ("neu", Comparison::Neu),
    ("ltu", Comparison::Ltu),
    ("leu", Comparison::Leu),
    ("gtu", Comparison::Gtu),
    ("geu", Comparison::Geu),
    ("num", Comparison::Num),
    ("nan", Comparison::Nan),
];

/// Returns the comparison operators of a type.
fn operators(ty: Ty) -> Vec<(&'static str, Comparison)> {
    let mut operators = ORDERED.to_vec();
    if ty.is_float() {
        operators.extend(UNORDERED);
    } else if ty.name.starts_with('u') {
        operators.extend(UNSIGNED);
    } else if ty.name.starts_with('b') {
        operators.truncate(2);
    }
    operators
}

fn holds(ty: Ty, comparison: Comparison, a: u64, b: u64, ftz: bool) -> bool {
    if ty.is_float() { compare::float(ty.format(), comparison, a, b, ftz) } else { compare::int(ty.int(), comparison, a, b) }
}

fn single_comparisons() -> Vec<Generated> {
    let mut tests = Vec::new();
    for ty in [S32, U32, U64, crate::ty::S64, F32, F64] {
        for (name, comparison) in operators(ty) {
            let template = format!("setp.{name}.{} %q, {{a}}, {{b}};\nselp.u32 {{d}}, 1, 0, %q;", ty.name);
            let op = Op::new(FAMILY, format!("setp_{name}_{}", ty.name), template, &[ty, ty], U32, move |x| {
                one(u64::from(holds(ty, comparison, x[0], x[1], false)))
            });
            tests.extend(both(&op.registers(".reg .pred %q;"), &[0, 1]));
        }
    }
    tests
}

/// Generates kernels with all operators of a type; bit `n` of the result belongs to the n-th operator.
fn all_comparisons() -> Vec<Generated> {
    let mut tests = Vec::new();
    let mut kinds: Vec<(Ty, bool)> = INTEGERS.into_iter().chain([B16, B32, B64, F64, F32, F16, BF16]).map(|ty| (ty, false)).collect();
    kinds.extend([(F32, true), (F16, true)]);
    for (ty, ftz) in kinds {
        let suffix = if ftz { ".ftz" } else { "" };
        let operators = operators(ty);
        let mut template = String::from("mov.u32 {d}, 0;");
        for (bit, (name, _)) in operators.iter().enumerate() {
            let mask = 1 << bit;
            template.push_str(&format!("\nsetp.{name}{suffix}.{} %q, {{a}}, {{b}};\n@%q or.b32 {{d}}, {{d}}, {mask};", ty.name));
        }
        let test_name = format!("setp_all{}_{}", suffix.replace('.', "_"), ty.name);
        let op = Op::new(FAMILY, test_name, template, &[ty, ty], B32, move |x| {
            let bits = operators.iter().enumerate().map(|(bit, row)| u64::from(holds(ty, row.1, x[0], x[1], ftz)) << bit);
            one(bits.sum())
        });
        let target = if ty == BF16 { "sm_90" } else { "sm_75" };
        tests.push(op.registers(".reg .pred %q;").platform("7.8", target).plain());
    }
    tests
}

type Combine = fn(bool, bool) -> bool;

const BOOLEAN: [(&str, Combine); 3] = [("and", |a, b| a & b), ("or", |a, b| a | b), ("xor", |a, b| a ^ b)];

/// Generates comparisons with two results, combined with a predicate that is the sign of the third operand.
fn combined() -> Vec<Generated> {
    let mut tests = Vec::new();
    let rows = [(S32, "lt"), (U16, "ge"), (U64, "ne"), (F32, "gtu"), (F64, "le"), (F32, "ne")];
    for (ty, operator) in rows {
        let comparison = operators(ty).into_iter().find(|row| row.0 == operator).map(|row| row.1).expect("an operator of the type");
        for (name, combine) in BOOLEAN {
            for (negation, negated) in [("", false), ("!", true)] {
                let template = format!(
                    "setp.lt.s32 %q0, {{c}}, 0;\nsetp.{operator}.{name}.{} %q1|%q2, {{a}}, {{b}}, {negation}%q0;\n\
                     selp.u32 {{d}}, 1, 0, %q1;\n@%q2 or.b32 {{d}}, {{d}}, 2;",
                    ty.name
                );
                let negated_name = if negated { "_not" } else { "" };
                let test_name = format!("setp_{operator}_{name}{negated_name}_{}", ty.name);
                let op = Op::new(FAMILY, test_name, template, &[ty, ty, S32], B32, move |x| {
                    let third = (S32.int().value(x[2]) < 0) != negated;
                    let relation = holds(ty, comparison, x[0], x[1], false);
                    one(u64::from(combine(relation, third)) | u64::from(combine(!relation, third)) << 1)
                });
                tests.push(op.registers(".reg .pred %q<3>;").plain());
            }
        }
        // Two results without a third operand.
        let template =
            format!("setp.{operator}.{} %q1|%q2, {{a}}, {{b}};\nselp.u32 {{d}}, 1, 0, %q1;\n@%q2 or.b32 {{d}}, {{d}}, 2;", ty.name);
        let op = Op::new(FAMILY, format!("setp_{operator}_both_{}", ty.name), template, &[ty, ty], B32, move |x| {
            one(if holds(ty, comparison, x[0], x[1], false) { 1 } else { 2 })
        });
        tests.push(op.registers(".reg .pred %q<3>;").plain());
    }
    tests
}

fn truth(destination: Ty, value: bool) -> u64 {
    match (value, destination.is_float()) {
        (false, _) => 0,
        (true, true) => destination.format().one(),
        (true, false) => destination.mask(),
    }
}

fn sets() -> Vec<Generated> {
    let mut tests = Vec::new();
    for destination in [U32, S32, F32] {
        for source in INTEGERS.into_iter().chain([F32, F64]) {
            let operators = operators(source);
            for (name, comparison) in [operators[2], operators[operators.len() - 1]] {
                let template = format!("set.{name}.{}.{} {{d}}, {{a}}, {{b}};", destination.name, source.name);
                let test_name = format!("set_{name}_{}_{}", destination.name, source.name);
                let op = Op::new(FAMILY, test_name, template, &[source, source], destination, move |x| {
                    one(truth(destination, holds(source, comparison, x[0], x[1], false)))
                });
                tests.push(op.plain());
            }
        }
        for (name, combine) in BOOLEAN {
            let template = format!("setp.lt.s32 %q, {{c}}, 0;\nset.lt.{name}.ftz.{}.f32 {{d}}, {{a}}, {{b}}, !%q;", destination.name);
            let op =
                Op::new(FAMILY, format!("set_lt_{name}_ftz_{}", destination.name), template, &[F32, F32, S32], destination, move |x| {
                    let third = S32.int().value(x[2]) >= 0;
                    one(truth(destination, combine(holds(F32, Comparison::Lt, x[0], x[1], true), third)))
                });
            tests.push(op.registers(".reg .pred %q;").plain());
        }
    }
    tests
}

fn half_sets() -> Vec<Generated> {
    let mut tests = Vec::new();
    for (destination, source) in [(F16, F16), (F16, F32), (F16, S32), (U16, F16), (U32, F16), (F32, F16), (BF16, BF16), (U32, BF16)] {
        let wide = [F16, BF16, U16].contains(&destination) || destination == U32;
        if !wide && source != F16 {
            continue;
        }
        let template = format!("set.le.{}.{} {{d}}, {{a}}, {{b}};", destination.name, source.name);
        let op =
            Op::new(FAMILY, format!("set_le_{}_{}", destination.name, source.name), template, &[source, source], destination, move |x| {
                one(truth(destination, holds(source, Comparison::Le, x[0], x[1], false)))
            });
        let bf16 = source == BF16 || destination == BF16;
        if destination != F32 {
            tests.push(op.platform("7.8", if bf16 { "sm_90" } else { "sm_75" }).plain());
        }
    }
    for source in [F16X2, BF16X2] {
        let target = if source == F16X2 { "sm_75" } else { "sm_90" };
        let template = format!("set.gt.{0}.{0} {{d}}, {{a}}, {{b}};", source.name);
        let op = Op::new(FAMILY, format!("set_gt_{0}_{0}", source.name), template, &[source, source], source, move |x| {
            let lanes = source.split(x[0]).into_iter().zip(source.split(x[1]));
            let format = source.format();
            lanes.map(|(a, b)| Expected::Bits(if compare::float(format, Comparison::Gt, a, b, false) { format.one() } else { 0 })).collect()
        });
        tests.push(op.platform("7.8", target).plain());
    }
    tests
}

fn selections() -> Vec<Generated> {
    let mut tests = Vec::new();
    for ty in INTEGERS.into_iter().chain([B16, B32, B64, F32, F64]) {
        let template = format!("setp.lt.s32 %q, {{c}}, 0;\nselp.{} {{d}}, {{a}}, {{b}}, %q;", ty.name);
        let op = Op::new(FAMILY, format!("selp_{}", ty.name), template, &[ty, ty, S32], ty, |x| {
            one(if S32.int().value(x[2]) < 0 { x[0] } else { x[1] })
        });
        tests.extend(both(&op.registers(".reg .pred %q;"), &[0, 1]));
        let template = format!("slct.{}.s32 {{d}}, {{a}}, {{b}}, {{c}};", ty.name);
        let op = Op::new(FAMILY, format!("slct_{}_s32", ty.name), template, &[ty, ty, S32], ty, |x| {
            one(if S32.int().value(x[2]) >= 0 { x[0] } else { x[1] })
        });
        tests.extend(both(&op, &[0, 1]));
        for (suffix, ftz) in [("", false), (".ftz", true)] {
            let template = format!("slct{suffix}.{}.f32 {{d}}, {{a}}, {{b}}, {{c}};", ty.name);
            let test_name = format!("slct{}_{}_f32", suffix.replace('.', "_"), ty.name);
            let op = Op::new(FAMILY, test_name, template, &[ty, ty, F32], ty, move |x| {
                one(if compare::float(F32.format(), Comparison::Ge, x[2], 0, ftz) { x[0] } else { x[1] })
            });
            tests.push(op.plain());
        }
    }
    tests
}

/// Generates tests of `setp.f16x2`, which compares both halves and has one predicate for each.
fn packed_comparisons() -> Vec<Generated> {
    let mut tests = Vec::new();
    for ty in [F16X2, BF16X2] {
        let target = if ty == F16X2 { "sm_75" } else { "sm_90" };
        for (name, comparison) in [ORDERED[2], UNORDERED[1], UNORDERED[7]] {
            let template =
                format!("setp.{name}.{} %q0|%q1, {{a}}, {{b}};\nselp.u32 {{d}}, 1, 0, %q0;\n@%q1 or.b32 {{d}}, {{d}}, 2;", ty.name);
            let op = Op::new(FAMILY, format!("setp_{name}_{}", ty.name), template, &[ty, ty], B32, move |x| {
                let lanes = ty.split(x[0]).into_iter().zip(ty.split(x[1])).enumerate();
                one(lanes.map(|(lane, (a, b))| u64::from(compare::float(ty.format(), comparison, a, b, false)) << lane).sum())
            });
            tests.push(op.registers(".reg .pred %q<2>;").platform("7.8", target).plain());
        }
    }
    // A boolean computed without predicates.
    let template = "set.lt.u32.s32 %t, {a}, {b};\nand.b32 {d}, %t, {a};";
    let op = Op::new(FAMILY, "set_as_mask", template, &[S32, S32], B32, |x| {
        let kind: Int = S32.int();
        one(if kind.value(x[0]) < kind.value(x[1]) { x[0] } else { 0 })
    });
    tests.push(op.registers(".reg .u32 %t;").plain());
    tests
}
