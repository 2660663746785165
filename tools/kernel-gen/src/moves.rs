//! Moves, packing and unpacking of vectors.

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

fn wide_packing() -> Vec<Generated> {
    let template = "mov.b128 %q, {{a}, {b}};\nmov.b128 {{f}, {d}}, %q;";
    let op = Op::new(FAMILY, "pack_b128", template, &[B64, B64], B64, |x| vec![Expected::Bits(x[1]), Expected::Bits(x[0])]);
    let op = op.registers(".reg .b128 %q;").second_output(B64).platform("8.3", "sm_75");
    vec![op.threads(128).plain()]
}

/// Registers that change places: what copies must not do one after the other.
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
