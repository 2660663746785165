//! Generates tests of logic, shifts and bit fields.

use crate::elementwise::{Op, both, one};
use crate::kernel::Generated;
use crate::ty::{B16, B32, B64, S32, S64, Ty, U16, U32, U64};
use oriole_kernel_test::{Fill, Source};
use oriole_sem::bits::{self, Permute};

const FAMILY: &str = "logic";

pub fn tests() -> Vec<Generated> {
    let mut tests = Vec::new();
    tests.extend(bitwise());
    tests.extend(predicates());
    tests.extend(lop3());
    tests.extend(shifts());
    tests.extend(funnel_shifts());
    tests.extend(counts());
    tests.extend(fields());
    tests.extend(permutes());
    tests
}

fn bitwise() -> Vec<Generated> {
    let mut tests = Vec::new();
    type Bitwise = fn(u64, u64) -> u64;
    let operations: [(&str, Bitwise); 3] = [("and", |a, b| a & b), ("or", |a, b| a | b), ("xor", |a, b| a ^ b)];
    for ty in [B16, B32, B64] {
        for (name, meaning) in operations {
            let template = format!("{name}.{} {{d}}, {{a}}, {{b}};", ty.name);
            let op = Op::new(FAMILY, format!("{name}_{}", ty.name), template, &[ty, ty], ty, move |x| one(meaning(x[0], x[1])));
            tests.extend(both(&op, &[0, 1]));
        }
        let op = Op::new(FAMILY, format!("not_{}", ty.name), format!("not.{} {{d}}, {{a}};", ty.name), &[ty], ty, move |x| {
            one(!x[0] & ty.mask())
        });
        tests.extend(both(&op, &[0]));
        let op =
            Op::new(FAMILY, format!("cnot_{}", ty.name), format!("cnot.{} {{d}}, {{a}};", ty.name), &[ty], ty, |x| one(bits::cnot(x[0])));
        tests.extend(both(&op, &[0]));
    }
    tests
}

/// Generates logic on predicates, which are computed from integers and converted back.
fn predicates() -> Vec<Generated> {
    let mut tests = Vec::new();
    type Boolean = fn(bool, bool) -> bool;
    let operations: [(&str, Boolean); 3] = [("and", |a, b| a & b), ("or", |a, b| a | b), ("xor", |a, b| a ^ b)];
    let setup = "setp.lt.s32 %q0, {a}, 0;\nsetp.lt.s32 %q1, {b}, 0;\n";
    for (name, meaning) in operations {
        let template = format!("{setup}{name}.pred %q2, %q0, %q1;\nselp.u32 {{d}}, 1, 0, %q2;");
        let op = Op::new(FAMILY, format!("{name}_pred"), template, &[S32, S32], U32, move |x| {
            one(u64::from(meaning(S32.int().value(x[0]) < 0, S32.int().value(x[1]) < 0)))
        });
        tests.extend(both(&op.registers(".reg .pred %q<3>;"), &[]));
    }
    let template = "setp.lt.s32 %q0, {a}, 0;\nnot.pred %q1, %q0;\nselp.u32 {d}, 7, 9, %q1;";
    let op = Op::new(FAMILY, "not_pred", template, &[S32], U32, |x| one(if S32.int().value(x[0]) < 0 { 9 } else { 7 }));
    tests.push(op.registers(".reg .pred %q<2>;").plain());
    let template = "setp.lt.s32 %q0, {a}, 0;\nmov.pred %q1, %q0;\n@%q1 mov.u32 {d}, 5;\n@!%q1 mov.u32 {d}, 6;";
    let op = Op::new(FAMILY, "mov_pred", template, &[S32], U32, |x| one(if S32.int().value(x[0]) < 0 { 5 } else { 6 }));
    tests.push(op.registers(".reg .pred %q<2>;").plain());
    let template = format!("{setup}lop3.or.b32 {{d}}|%q2, {{a}}, {{b}}, 12345, 0x6a, %q1;\nselp.u32 {{f}}, 1, 0, %q2;");
    let op = Op::new(FAMILY, "lop3_or_pred", template, &[S32, S32], B32, |x| {
        let value = bits::lop3(x[0], x[1], 12345, 0x6a);
        let predicate = value != 0 || S32.int().value(x[1]) < 0;
        [one(value), one(u64::from(predicate))].concat()
    });
    tests.push(op.registers(".reg .pred %q<3>;").second_output(U32).platform("8.2", "sm_75").plain());
    let template = format!("{setup}lop3.and.b32 {{d}}|%q2, {{a}}, {{b}}, 12345, 0x96, %q1;\nselp.u32 {{f}}, 1, 0, %q2;");
    let op = Op::new(FAMILY, "lop3_and_pred", template, &[S32, S32], B32, |x| {
        let value = bits::lop3(x[0], x[1], 12345, 0x96);
        let predicate = value != 0 && S32.int().value(x[1]) < 0;
        [one(value), one(u64::from(predicate))].concat()
    });
    tests.push(op.registers(".reg .pred %q<3>;").second_output(U32).platform("8.2", "sm_75").plain());
    tests
}

fn lop3() -> Vec<Generated> {
    let tables = [0x00u8, 0x80, 0xfe, 0x96, 0xe8, 0xca, 0x6a, 0x1d, 0xff, 0xf0, 0xcc, 0xaa, 0x0f, 0x3c];
    let mut tests = Vec::new();
    for table in tables {
        let template = format!("lop3.b32 {{d}}, {{a}}, {{b}}, {{c}}, 0x{table:x};");
        let op = Op::new(FAMILY, format!("lop3_{table:02x}"), template, &[B32, B32, B32], B32, move |x| {
            one(bits::lop3(x[0], x[1], x[2], table))
        });
        if matches!(table, 0x96 | 0xca | 0x6a) {
            tests.extend(both(&op, &[0, 1, 2]));
        } else {
            tests.push(op.plain());
        }
    }
    tests
}

/// Returns shift amounts from zero to beyond the width, followed by large ones.
fn amounts(width: u64) -> Fill {
    let mut small: Vec<(Source, usize)> = (0..=width + 2).map(|n| (Source::Value(n), 5)).collect();
    small.extend([255, 256, 257, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff].map(|n| (Source::Value(n), 5)));
    let mut fill = Fill::of(&small);
    fill.0.push(oriole_kernel_test::Segment { source: Source::Sized { seed: 9 }, count: None });
    fill
}

fn shifts() -> Vec<Generated> {
    let mut tests = Vec::new();
    for ty in [B16, B32, B64] {
        let kind = ty.int();
        let template = format!("shl.{} {{d}}, {{a}}, {{b}};", ty.name);
        let op = Op::new(FAMILY, format!("shl_{}", ty.name), template, &[ty, U32], ty, move |x| one(kind.shl(x[0], x[1])));
        tests.extend(both(&op.fill(1, amounts(u64::from(ty.bits()))), &[0, 1]));
        tests.push(constant_shifts(ty, "shl"));
    }
    for ty in crate::ty::INTEGERS.into_iter().chain([B16, B32, B64]) {
        let kind = ty.int();
        let template = format!("shr.{} {{d}}, {{a}}, {{b}};", ty.name);
        let op = Op::new(FAMILY, format!("shr_{}", ty.name), template, &[ty, U32], ty, move |x| one(kind.shr(x[0], x[1])));
        tests.extend(both(&op.fill(1, amounts(u64::from(ty.bits()))), &[0, 1]));
        tests.push(constant_shifts(ty, "shr"));
    }
    tests
}

/// Generates shifts by several constants, below, at and above the width of the type.
fn constant_shifts(ty: Ty, name: &'static str) -> Generated {
    use crate::kernel::{Kernel, bits, load, store};
    let width = u64::from(ty.bits());
    let threads = 64;
    let fill = Fill::of(&[(Source::Boundary { stride: 1 }, 22), (Source::Random { seed: 3 }, 42)]);
    let values = fill.values(ty.element, threads);
    let mut kernel = Kernel::new(FAMILY, format!("{name}_const_{}", ty.name), format!("{name}.{} by constants", ty.name));
    kernel = kernel.threads(threads).buffer("a", ty, threads, fill);
    let mut body = load(ty, "%val", "a");
    let mut amounts = vec![0, 1, 8, width / 2, width / 2 + 1, width - 1, width, width + 5];
    amounts.extend([31, 32, 33, 63, 64, 65, 255, 0xffff_ffff]);
    amounts.sort_unstable();
    amounts.dedup();
    for (number, amount) in amounts.into_iter().enumerate() {
        let kind = ty.int();
        let meaning = |a: u64| if name == "shl" { kind.shl(a, amount) } else { kind.shr(a, amount) };
        kernel = kernel.output(&format!("out{number}"), ty, bits(values.iter().map(|&a| meaning(a))));
        body.push_str(&format!("{name}.{} %res, %val, {amount};\n", ty.name));
        body.push_str(&store(ty, "%res", &format!("out{number}")));
    }
    kernel.registers(&format!(".reg .{} %val, %res;", ty.register)).body(&body).finish()
}

fn funnel_shifts() -> Vec<Generated> {
    let mut tests = Vec::new();
    for (side, left) in [("l", true), ("r", false)] {
        for (mode, clamp) in [("clamp", true), ("wrap", false)] {
            let template = format!("shf.{side}.{mode}.b32 {{d}}, {{a}}, {{b}}, {{c}};");
            let op = Op::new(FAMILY, format!("shf_{side}_{mode}"), template, &[B32, B32, U32], B32, move |x| {
                one(bits::shf(x[0], x[1], x[2], left, clamp))
            });
            tests.extend(both(&op.fill(2, amounts(32)), &[0, 1, 2]));
        }
    }
    // A 64-bit rotation, and a difference that looks like one but is not.
    let template = "shl.b64 %t0, {a}, 8;\nshr.u64 %t1, {a}, 56;\nor.b64 {d}, %t0, %t1;";
    let op = Op::new(FAMILY, "rotate_64_by_or", template, &[B64], B64, |x| one(x[0].rotate_left(8)));
    tests.push(op.registers(".reg .b64 %t<2>;").plain());
    let template = "shl.b64 %t0, {a}, 8;\nshr.u64 %t1, {a}, 56;\nsub.s64 {d}, %t0, %t1;";
    let op = Op::new(FAMILY, "no_rotate_64_by_sub", template, &[B64], B64, |x| one((x[0] << 8).wrapping_sub(x[0] >> 56)));
    tests.push(op.registers(".reg .b64 %t<2>;").plain());
    tests
}

fn counts() -> Vec<Generated> {
    let mut tests = Vec::new();
    for ty in [B32, B64] {
        let t = ty.name;
        let op = Op::new(FAMILY, format!("popc_{t}"), format!("popc.{t} {{d}}, {{a}};"), &[ty], U32, |x| one(u64::from(x[0].count_ones())));
        tests.extend(both(&op, &[0]));
        let op =
            Op::new(FAMILY, format!("clz_{t}"), format!("clz.{t} {{d}}, {{a}};"), &[ty], U32, move |x| one(bits::clz(ty.bits(), x[0])));
        tests.extend(both(&op, &[0]));
        let op =
            Op::new(FAMILY, format!("brev_{t}"), format!("brev.{t} {{d}}, {{a}};"), &[ty], ty, move |x| one(bits::brev(ty.bits(), x[0])));
        tests.extend(both(&op, &[0]));
    }
    for ty in [U32, S32, U64, S64] {
        for (suffix, shift) in [("", false), (".shiftamt", true)] {
            let kind = ty.int();
            let name = format!("bfind{}_{}", suffix.replace('.', "_"), ty.name);
            let op =
                Op::new(
                    FAMILY,
                    name,
                    format!("bfind{suffix}.{} {{d}}, {{a}};", ty.name),
                    &[ty],
                    U32,
                    move |x| one(kind.bfind(x[0], shift)),
                );
            tests.extend(both(&op, &[0]));
        }
    }
    tests
}

fn fields() -> Vec<Generated> {
    let mut tests = Vec::new();
    // The manual restricts 64-bit fields to amounts below 256, and ptxas does not mask larger ones; for 32 bits it does.
    let position = |ty: Ty, seed: u32| {
        let mut fill = Fill::of(&[(Source::Pick { seed }, if ty.bits() == 32 { 100 } else { 0 })]);
        fill.0.extend((0..600).map(|i| {
            let value = oriole_kernel_test::fill::random(seed, i) % if i % 4 == 0 { 256 } else { 40 };
            oriole_kernel_test::Segment { source: Source::Value(value), count: Some(1) }
        }));
        fill
    };
    for ty in [U32, S32, U64, S64] {
        let kind = ty.int();
        let template = format!("bfe.{} {{d}}, {{a}}, {{b}}, {{c}};", ty.name);
        let op = Op::new(FAMILY, format!("bfe_{}", ty.name), template, &[ty, U32, U32], ty, move |x| one(kind.bfe(x[0], x[1], x[2])));
        tests.extend(both(&op.fill(1, position(ty, 1)).fill(2, position(ty, 2)).constants(1, [3, 29]).constants(2, [11, 40]), &[0, 1, 2]));
    }
    for ty in [B32, B64] {
        let template = format!("bfi.{} {{d}}, {{a}}, {{b}}, {{c}}, {{e}};", ty.name);
        let op = Op::new(FAMILY, format!("bfi_{}", ty.name), template, &[ty, ty, U32, U32], ty, move |x| {
            one(bits::bfi(ty.bits(), x[0], x[1], x[2], x[3]))
        });
        tests.extend(both(
            &op.fill(2, position(ty, 3)).fill(3, position(ty, 4)).constants(2, [3, 29]).constants(3, [11, 40]),
            &[0, 1, 2, 3],
        ));
    }
    for (mode, clamp) in [("clamp", true), ("wrap", false)] {
        let op = Op::new(FAMILY, format!("bmsk_{mode}"), format!("bmsk.{mode}.b32 {{d}}, {{a}}, {{b}};"), &[U32, U32], B32, move |x| {
            one(bits::bmsk(x[0], x[1], clamp))
        });
        tests.extend(both(&op.fill(0, position(U32, 5)).fill(1, position(U32, 6)).platform("7.6", "sm_75"), &[0, 1]));
        for ty in [U32, S32] {
            let kind = ty.int();
            let template = format!("szext.{mode}.{} {{d}}, {{a}}, {{b}};", ty.name);
            let op =
                Op::new(FAMILY, format!("szext_{mode}_{}", ty.name), template, &[ty, U32], ty, move |x| one(kind.szext(x[0], x[1], clamp)));
            tests.extend(both(&op.fill(1, position(U32, 7)).platform("7.6", "sm_75"), &[0, 1]));
        }
    }
    let small = |seed: u32, range: u64, offset: i64| {
        Fill(
            (0..768)
                .map(|i| oriole_kernel_test::fill::random(seed, i) % range)
                .map(|value| (value as i64 + offset) as u64 & 0xffff_ffff)
                .map(|value| oriole_kernel_test::Segment { source: Source::Value(value), count: Some(1) })
                .collect(),
        )
    };
    let op = Op::new(FAMILY, "fns_b32", "fns.b32 {d}, {a}, {b}, {c};", &[B32, U32, S32], B32, |x| {
        one(bits::fns(x[0], x[1], i64::from(x[2] as u32 as i32)))
    });
    tests.push(op.fill(1, small(8, 32, 0)).fill(2, small(9, 40, -20)).plain());
    tests
}

fn permutes() -> Vec<Generated> {
    let modes = [
        ("", Permute::Generic),
        (".f4e", Permute::Forward4),
        (".b4e", Permute::Backward4),
        (".rc8", Permute::Replicate8),
        (".ecl", Permute::EdgeClampLeft),
        (".ecr", Permute::EdgeClampRight),
        (".rc16", Permute::Replicate16),
    ];
    let mut tests = Vec::new();
    for (suffix, mode) in modes {
        let name = format!("prmt{}", suffix.replace('.', "_"));
        let template = format!("prmt.b32{suffix} {{d}}, {{a}}, {{b}}, {{c}};");
        let op = Op::new(FAMILY, name, template, &[B32, B32, B32], B32, move |x| one(bits::prmt(x[0], x[1], x[2], mode)));
        tests.extend(both(&op, &[0, 1, 2]));
    }
    // Extensions of narrow values, as compilers generate them.
    let op = Op::new(FAMILY, "sign_extension_by_shifts", "shl.b32 {d}, {a}, 24;\nshr.s32 {d}, {d}, 24;", &[S32], S32, |x| {
        one(i64::from(x[0] as u8 as i8) as u64 & 0xffff_ffff)
    });
    tests.push(op.plain());
    let op =
        Op::new(FAMILY, "field_by_shift_and_mask", "shr.u16 {d}, {a}, 5;\nand.b16 {d}, {d}, 0x3f;", &[U16], U16, |x| one(x[0] >> 5 & 0x3f));
    tests.push(op.plain());
    tests
}
