//! Generates tests of moves, and of packing and unpacking vectors.

use crate::elementwise::{Op, one};
use crate::kernel::Generated;
use crate::ty::{B16, B32, B64, F32, F64, INTEGERS, Ty, U32};
use oriole_kernel_test::Expected;

const FAMILY: &str = "moves";

pub fn tests() -> Vec<Generated> {
    let mut tests = Vec::new();
    for ty in INTEGERS.into_iter().chain([B16, B32, B64, F32, F64]) {
        let template = format!("mov.{} {{d}}, {{a}};", ty.name);
        let op = Op::new(FAMILY, format!("mov_{}", ty.name), template, &[ty], ty, |x| one(x[0]));
        tests.push(op.clone().threads(64).plain());
        tests.push(op.shapes(&[0]));
    }
    tests.extend(packing());
    tests.extend(wide_packing());
    tests.extend(swaps());
    tests.extend(named_vectors());
    tests.extend(named_vectors_b128());
    tests.push(named_vector_constants());
    tests
}

fn op(name: &str, template: &str, registers: &str, inputs: &[Ty], output: Ty, meaning: fn(&[u64]) -> u64) -> Generated {
    Op::new(FAMILY, name, template, inputs, output, move |x| one(meaning(x))).registers(registers).threads(128).plain()
}

fn packing() -> Vec<Generated> {
    let halves = ".reg .b16 %t<4>;";
    let words = ".reg .b32 %t<2>;";
    vec![
        op("pack_b32_of_b16", "mov.b32 {d}, {{a}, {b}};", "", &[B16, B16], B32, |x| x[0] | x[1] << 16),
        op("pack_b64_of_b32", "mov.b64 {d}, {{a}, {b}};", "", &[B32, B32], B64, |x| x[0] | x[1] << 32),
        op("pack_b64_of_b16", "mov.b64 {d}, {{a}, {b}, {c}, {e}};", "", &[B16, B16, B16, B16], B64, |x| {
            x[0] | x[1] << 16 | x[2] << 32 | x[3] << 48
        }),
        op("pack_f32_pair", "mov.b64 {d}, {{a}, {b}};", "", &[F32, F32], B64, |x| x[0] | x[1] << 32),
        op("unpack_b32", "mov.b32 {%t0, %t1}, {a};\nmov.b32 {d}, {%t1, %t0};", halves, &[B32], B32, |x| x[0] >> 16 | (x[0] & 0xffff) << 16),
        op("unpack_b64", "mov.b64 {%t0, %t1}, {a};\nmov.b64 {d}, {%t1, %t0};", words, &[B64], B64, |x| x[0].rotate_left(32)),
        op("unpack_b64_to_b16", "mov.b64 {%t0, %t1, %t2, %t3}, {a};\nmov.b64 {d}, {%t2, %t3, %t1, %t0};", halves, &[B64], B64, |x| {
            let half = |i: u32| x[0] >> (16 * i) & 0xffff;
            half(2) | half(3) << 16 | half(1) << 32 | half(0) << 48
        }),
        op("unpack_f64", "mov.b64 {%t0, %t1}, {a};\nxor.b32 %t1, %t1, 0x80000000;\nmov.b64 {d}, {%t0, %t1};", words, &[F64], F64, |x| {
            x[0] ^ 1 << 63
        }),
        op("half_word_of_b64", "mov.b64 {%t0, %t1}, {a};\nadd.u32 {d}, %t0, %t1;", words, &[B64], U32, |x| {
            (x[0] as u32).wrapping_add((x[0] >> 32) as u32).into()
        }),
        op("bits_between_files", "mov.b32 %t0, {a};\nmov.b32 {d}, %t0;", words, &[F32], B32, |x| x[0]),
        op("bits_of_f64", "mov.b64 %u0, {a};\nadd.u64 %u0, %u0, 1;\nmov.b64 {d}, %u0;", ".reg .u64 %u0;", &[F64], F64, |x| {
            x[0].wrapping_add(1)
        }),
    ]
}

/// Moves a vector register without braces on either side; the elements of the source are reversed afterwards.
fn named_vectors() -> Vec<Generated> {
    let cases: [(Ty, &str, u32); 11] = [
        (B16, "b8", 2),
        (B32, "b8", 4),
        (B32, "u8", 4),
        (B32, "b16", 2),
        (B32, "s16", 2),
        (B32, "f16", 2),
        (B64, "b16", 4),
        (B64, "u16", 4),
        (B64, "b32", 2),
        (B64, "s32", 2),
        (B64, "f32", 2),
    ];
    let mut tests = Vec::new();
    for (ty, element, lanes) in cases {
        let reversed: Vec<&str> = ["%v.x", "%v.y", "%v.z", "%v.w"][..lanes as usize].iter().rev().copied().collect();
        let (whole, reversed) = (ty.name, reversed.join(", "));
        let unpack = format!("mov.{whole} %v, {{a}};\nmov.{whole} {{d}}, {{{reversed}}};");
        let pack = format!("mov.{whole} {{{reversed}}}, {{a}};\nmov.{whole} {{d}}, %v;");
        for (name, template) in [("unpack", unpack), ("pack", pack)] {
            let bits = ty.bits() / lanes;
            let meaning = move |x: &[u64]| {
                let part = |lane: u32| x[0] >> (lane * bits) & (u64::MAX >> (64 - bits));
                one((0..lanes).fold(0, |whole, lane| whole << bits | part(lane)))
            };
            let op = Op::new(FAMILY, format!("named_{name}_{whole}_v{lanes}_{element}"), template, &[ty], ty, meaning);
            tests.push(op.registers(&format!(".reg .v{lanes} .{element} %v;")).threads(64).plain());
        }
    }
    tests
}

fn named_vectors_b128() -> Vec<Generated> {
    let halves = "mov.b128 %q, {{a}, {b}};\nmov.b128 %v, %q;\nmov.b64 {d}, %v.y;\nmov.b64 %v.y, %v.x;\nmov.b64 %v.x, {d};\n\
                  mov.b128 %q, %v;\nmov.b128 {{d}, {f}}, %q;";
    let words = "mov.b128 %q, {{a}, {b}};\nmov.b128 %v, %q;\nmov.b128 %q, {%v.z, %v.w, %v.x, %v.y};\nmov.b128 %v, %q;\n\
                 mov.b128 %q, %v;\nmov.b128 {{d}, {f}}, %q;";
    [("named_b128_v2_b64", halves, ".reg .v2 .b64 %v;"), ("named_b128_v4_b32", words, ".reg .v4 .b32 %v;")]
        .map(|(name, template, vector)| {
            let op = Op::new(FAMILY, name, template, &[B64, B64], B64, |x| vec![Expected::Bits(x[1]), Expected::Bits(x[0])]);
            op.registers(&format!(".reg .b128 %q;\n{vector}")).second_output(B64).platform("8.3", "sm_75").threads(64).plain()
        })
        .into()
}

/// Moves constants to vector registers, and moves that only some threads execute.
fn named_vector_constants() -> Generated {
    let template = "mov.b64 %v, 0x1122334455667788;\nmov.b32 %h, 0xabcd1234;\nsetp.lt.s32 %q, {a}, 0;\n@%q mov.b32 %h, {a};\n\
                    mov.b32 %t, %h;\nadd.u32 {d}, %v.x, %v.y;\nadd.u32 {d}, {d}, %t;";
    op("named_constants", template, ".reg .v2 .b32 %v;\n.reg .v2 .b16 %h;\n.reg .b32 %t;\n.reg .pred %q;", &[B32], U32, |x| {
        let a = x[0] as u32;
        let moved = if (a as i32) < 0 { a } else { 0xabcd_1234 };
        0x5566_7788_u32.wrapping_add(0x1122_3344).wrapping_add(moved).into()
    })
}

fn wide_packing() -> Vec<Generated> {
    let template = "mov.b128 %q, {{a}, {b}};\nmov.b128 {{f}, {d}}, %q;";
    let op = Op::new(FAMILY, "pack_b128", template, &[B64, B64], B64, |x| vec![Expected::Bits(x[1]), Expected::Bits(x[0])]);
    let op = op.registers(".reg .b128 %q;").second_output(B64).platform("8.3", "sm_75");
    vec![op.threads(128).plain()]
}

/// Registers that are permuted: parallel copies that must not be executed naively one after the other.
fn swaps() -> Vec<Generated> {
    let template = "mov.b32 %t, {a};\nmov.b32 {a}, {b};\nmov.b32 {b}, %t;\nsub.u32 {d}, {a}, {b};";
    let rotate = "mov.u32 %n, 5;\nROTATE:\nmov.b32 %t, {a};\nmov.b32 {a}, {b};\nmov.b32 {b}, {c};\nmov.b32 {c}, %t;\n\
                  sub.u32 %n, %n, 1;\nsetp.ne.u32 %q, %n, 0;\n@%q bra ROTATE;\nmad.lo.u32 {d}, {a}, 3, {b};\nmad.lo.u32 {d}, {d}, 5, {c};";
    vec![
        op("swap", template, ".reg .b32 %t;", &[U32, U32], U32, |x| x[1].wrapping_sub(x[0]) & 0xffff_ffff),
        op("rotate_three_in_loop", rotate, ".reg .b32 %t;\n.reg .u32 %n;\n.reg .pred %q;", &[U32, U32, U32], U32, |x| {
            let (a, b, c) = (x[2] as u32, x[0] as u32, x[1] as u32);
            a.wrapping_mul(3).wrapping_add(b).wrapping_mul(5).wrapping_add(c).into()
        }),
    ]
}
