//! Generates tests of integer arithmetic: all operations on all types, including division.

use crate::elementwise::{Op, both, one};
use crate::kernel::Generated;
use crate::ty::{INTEGERS, S16X2, S32, S64, Ty, U16X2, U32, U64};
use oriole_kernel_test::{Expected, Fill, Segment, Source};
use oriole_sem::Int;

const FAMILY: &str = "integer";

pub fn tests() -> Vec<Generated> {
    let mut tests = Vec::new();
    tests.extend(binary());
    tests.extend(products());
    tests.extend(unary());
    tests.extend(division());
    tests.extend(constant_division());
    tests.extend(thirty_two_bit_only());
    tests.extend(dot_products());
    tests.extend(carry_chains());
    tests.extend(packed());
    tests
}

fn binary() -> Vec<Generated> {
    let mut tests = Vec::new();
    type Meaning = fn(Int, u64, u64) -> u64;
    let operations: [(&str, Meaning); 4] = [("add", Int::add), ("sub", Int::sub), ("min", Int::min), ("max", Int::max)];
    for ty in INTEGERS {
        for (name, meaning) in operations {
            let kind = ty.int();
            let template = format!("{name}.{} {{d}}, {{a}}, {{b}};", ty.name);
            let op = Op::new(FAMILY, format!("{name}_{}", ty.name), template, &[ty, ty], ty, move |x| one(meaning(kind, x[0], x[1])));
            tests.extend(both(&op, &[0, 1]));
        }
    }
    let saturating: [(&str, Meaning); 2] = [("add", Int::add_sat), ("sub", Int::sub_sat)];
    for (name, meaning) in saturating {
        let op = Op::new(FAMILY, format!("{name}_sat_s32"), format!("{name}.sat.s32 {{d}}, {{a}}, {{b}};"), &[S32, S32], S32, move |x| {
            one(meaning(S32.int(), x[0], x[1]))
        });
        tests.extend(both(&op, &[0, 1]));
        // The smallest number, whose negation overflows, as a constant.
        let template = format!("{name}.sat.s32 {{d}}, {{a}}, 0x80000000;");
        let op = Op::new(FAMILY, format!("{name}_sat_s32_least"), template, &[S32], S32, move |x| one(meaning(S32.int(), x[0], 1 << 31)));
        tests.push(op.plain());
    }
    tests
}

fn wide_type(ty: Ty) -> Ty {
    match (ty.bits(), ty.element.is_signed()) {
        (16, false) => U32,
        (16, true) => S32,
        (_, false) => U64,
        (_, true) => S64,
    }
}

fn products() -> Vec<Generated> {
    let mut tests = Vec::new();
    for ty in INTEGERS {
        let (kind, t) = (ty.int(), ty.name);
        let mul = |half: &str, out: Ty, meaning: fn(Int, u64, u64) -> u64| {
            let template = format!("mul.{half}.{t} {{d}}, {{a}}, {{b}};");
            Op::new(FAMILY, format!("mul_{half}_{t}"), template, &[ty, ty], out, move |x| one(meaning(kind, x[0], x[1])))
        };
        let mad = |half: &str, out: Ty, meaning: fn(Int, u64, u64, u64) -> u64| {
            let template = format!("mad.{half}.{t} {{d}}, {{a}}, {{b}}, {{c}};");
            Op::new(FAMILY, format!("mad_{half}_{t}"), template, &[ty, ty, out], out, move |x| one(meaning(kind, x[0], x[1], x[2])))
        };
        tests.extend(both(&mul("lo", ty, Int::mul_lo), &[0, 1]));
        tests.extend(both(&mul("hi", ty, Int::mul_hi), &[0, 1]));
        tests.extend(both(&mad("lo", ty, Int::mad_lo), &[0, 1, 2]));
        tests.extend(both(&mad("hi", ty, Int::mad_hi), &[0, 1, 2]));
        if ty.bits() < 64 {
            tests.extend(both(&mul("wide", wide_type(ty), Int::mul_wide), &[0, 1]));
            tests.extend(both(&mad("wide", wide_type(ty), Int::mad_wide), &[0, 1, 2]));
        }
        let sad = format!("sad.{t} {{d}}, {{a}}, {{b}}, {{c}};");
        let op = Op::new(FAMILY, format!("sad_{t}"), sad, &[ty, ty, ty], ty, move |x| one(kind.sad(x[0], x[1], x[2])));
        tests.extend(both(&op, &[0, 1, 2]));
    }
    tests
}

fn unary() -> Vec<Generated> {
    let mut tests = Vec::new();
    for ty in INTEGERS.into_iter().filter(|ty| ty.element.is_signed()) {
        let kind = ty.int();
        for (name, meaning) in [("abs", Int::abs as fn(Int, u64) -> u64), ("neg", Int::neg)] {
            let template = format!("{name}.{} {{d}}, {{a}};", ty.name);
            let op = Op::new(FAMILY, format!("{name}_{}", ty.name), template, &[ty], ty, move |x| one(meaning(kind, x[0])));
            tests.extend(both(&op, &[0]));
        }
    }
    tests
}

/// Returns the expected quotient; a zero divisor gives an unspecified value.
fn unless_zero(result: Option<u64>) -> Vec<Expected> {
    vec![result.map_or(Expected::Any, Expected::Bits)]
}

fn division() -> Vec<Generated> {
    let mut tests = Vec::new();
    for ty in INTEGERS {
        let kind = ty.int();
        for (name, meaning) in [("div", Int::div as fn(Int, u64, u64) -> Option<u64>), ("rem", Int::rem)] {
            let template = format!("{name}.{} {{d}}, {{a}}, {{b}};", ty.name);
            let op =
                Op::new(FAMILY, format!("{name}_{}", ty.name), template, &[ty, ty], ty, move |x| unless_zero(meaning(kind, x[0], x[1])));
            tests.extend(both(&op, &[0, 1]));
        }
    }
    tests
}

/// Returns divisors that compilers treat specially: small, powers of two and their neighbours, odd, even, extreme.
fn divisors(ty: Ty) -> Vec<u64> {
    let top = 1u64 << (ty.bits() - 1);
    let mut values: Vec<u64> = vec![1, 2, 3, 5, 6, 7, 8, 10, 12, 25, 60, 100, 127, 128, 255, 256, 641, 1000, 10_000, top - 1, top];
    if ty.bits() > 16 {
        values.extend([65_535, 65_536, 1_000_000, 3_600_000, 1 << 30, 0x7fff_ffff]);
    }
    if ty.bits() > 32 {
        values.extend([1 << 32, (1 << 32) + 1, 1_000_000_007, 10_000_000_000_000_000, 1 << 62]);
    }
    if ty.element.is_signed() {
        let negative = [1u64, 2, 3, 7, 8, 10, 100, 128, 1000].map(|x| x.wrapping_neg() & ty.mask());
        values.extend(negative);
    } else {
        values.extend([ty.mask(), ty.mask() - 1, top + 1]);
    }
    values
}

const DIVISORS_IN_FILE: usize = 6;

/// Generates quotients and remainders by each of a few constants.
fn constant_division() -> Vec<Generated> {
    let mut tests = Vec::new();
    for ty in INTEGERS {
        for (part, divisors) in divisors(ty).chunks(DIVISORS_IN_FILE).enumerate() {
            for name in ["div", "rem"] {
                tests.push(constant_division_file(ty, name, part, divisors));
            }
        }
    }
    tests
}

fn constant_division_file(ty: Ty, name: &str, part: usize, divisors: &[u64]) -> Generated {
    use crate::kernel::{Kernel, load, store};
    let threads = 64;
    let (kind, t) = (ty.int(), ty.name);
    let seed = ty.bits() + part as u32;
    let mut fill = Fill::of(&[(Source::Boundary { stride: 1 }, 22), (Source::Random { seed }, 21)]);
    fill.0.push(Segment { source: Source::Sized { seed }, count: None });
    let values = fill.values(ty.element, threads);
    let test_name = format!("{name}_const_{t}_{part}");
    let about = format!("{name}.{t} by constants, which compilers turn into multiplications and shifts");
    let mut kernel = Kernel::new(FAMILY, test_name, about).threads(threads).buffer("a", ty, threads, fill);
    let mut body = format!("{}.reg .{t} %res;\n", load(ty, "%val", "a"));
    for (number, &divisor) in divisors.iter().enumerate() {
        let meaning = if name == "div" { Int::div } else { Int::rem };
        let expected = values.iter().flat_map(|&a| unless_zero(meaning(kind, a, divisor))).collect();
        kernel = kernel.output(&format!("out{number}"), ty, expected);
        body.push_str(&format!("{name}.{t} %res, %val, {};\n", ty.literal(divisor)));
        body.push_str(&store(ty, "%res", &format!("out{number}")));
    }
    kernel.registers(&format!(".reg .{t} %val;")).body(&body).finish()
}

fn thirty_two_bit_only() -> Vec<Generated> {
    let mut tests = Vec::new();
    for ty in [U32, S32] {
        let (kind, t) = (ty.int(), ty.name);
        for (half, meaning) in [("lo", Int::mul24_lo as fn(Int, u64, u64) -> u64), ("hi", Int::mul24_hi)] {
            let op =
                Op::new(FAMILY, format!("mul24_{half}_{t}"), format!("mul24.{half}.{t} {{d}}, {{a}}, {{b}};"), &[ty, ty], ty, move |x| {
                    one(meaning(kind, x[0], x[1]))
                });
            tests.extend(both(&op, &[0, 1]));
            let template = format!("mad24.{half}.{t} {{d}}, {{a}}, {{b}}, {{c}};");
            let op = Op::new(FAMILY, format!("mad24_{half}_{t}"), template, &[ty, ty, ty], ty, move |x| {
                one(kind.add(meaning(kind, x[0], x[1]), x[2]))
            });
            tests.extend(both(&op, &[0, 1, 2]));
        }
    }
    let template = "mad.hi.sat.s32 {d}, {a}, {b}, {c};";
    let op = Op::new(FAMILY, "mad_hi_sat_s32", template, &[S32, S32, S32], S32, |x| one(S32.int().mad_hi_sat(x[0], x[1], x[2])));
    tests.extend(both(&op, &[0, 1, 2]));
    let template = "mad24.hi.sat.s32 {d}, {a}, {b}, {c};";
    let op = Op::new(FAMILY, "mad24_hi_sat_s32", template, &[S32, S32, S32], S32, |x| {
        one(S32.int().add_sat(S32.int().mul24_hi(x[0], x[1]), x[2]))
    });
    tests.push(op.plain());
    tests
}

fn dot_products() -> Vec<Generated> {
    let mut tests = Vec::new();
    for a in [U32, S32] {
        for b in [U32, S32] {
            let out = if a.element.is_signed() || b.element.is_signed() { S32 } else { U32 };
            let (ka, kb) = (a.int(), b.int());
            let types = format!("{}.{}", a.name, b.name);
            let names = format!("{}_{}", a.name, b.name);
            let op = Op::new(
                FAMILY,
                format!("dp4a_{names}"),
                format!("dp4a.{types} {{d}}, {{a}}, {{b}}, {{c}};"),
                &[a, b, out],
                out,
                move |x| one(ka.dp4a(kb, x[0], x[1], x[2])),
            );
            tests.extend(both(&op, &[0, 1, 2]));
            for (half, hi) in [("lo", false), ("hi", true)] {
                let template = format!("dp2a.{half}.{types} {{d}}, {{a}}, {{b}}, {{c}};");
                let op = Op::new(FAMILY, format!("dp2a_{half}_{names}"), template, &[a, b, out], out, move |x| {
                    one(ka.dp2a(kb, x[0], x[1], x[2], hi))
                });
                tests.push(op.plain());
            }
        }
    }
    tests
}

fn carry_chains() -> Vec<Generated> {
    let mut tests = Vec::new();
    for (ty, wide) in [(U32, "u32"), (S32, "s32"), (U64, "u64"), (S64, "s64")] {
        let kind = ty.int();
        // Two limbs a:b plus c:e; the second output is the upper limb.
        let template = format!("add.cc.{wide} {{d}}, {{a}}, {{c}};\naddc.{wide} {{f}}, {{b}}, {{e}};");
        let op = Op::new(FAMILY, format!("add_cc_{wide}"), template, &[ty, ty, ty, ty], ty, move |x| {
            let (low, carry) = kind.add_carry(x[0], x[2], false);
            vec![Expected::Bits(low), Expected::Bits(kind.add_carry(x[1], x[3], carry).0)]
        });
        tests.push(op.second_output(ty).plain());
        let template = format!("sub.cc.{wide} {{d}}, {{a}}, {{c}};\nsubc.{wide} {{f}}, {{b}}, {{e}};");
        let op = Op::new(FAMILY, format!("sub_cc_{wide}"), template, &[ty, ty, ty, ty], ty, move |x| {
            let (low, borrow) = kind.sub_borrow(x[0], x[2], false);
            vec![Expected::Bits(low), Expected::Bits(kind.sub_borrow(x[1], x[3], borrow).0)]
        });
        tests.push(op.second_output(ty).plain());
        // The carry itself, and a carry through three limbs.
        let template = format!("add.cc.{wide} {{d}}, {{a}}, {{b}};\naddc.cc.{wide} {{d}}, {{d}}, {{c}};\naddc.{wide} {{f}}, 0, 0;");
        let op = Op::new(FAMILY, format!("addc_cc_{wide}"), template, &[ty, ty, ty], ty, move |x| {
            let (sum, carry) = kind.add_carry(x[0], x[1], false);
            let (sum, carry) = kind.add_carry(sum, x[2], carry);
            vec![Expected::Bits(sum), Expected::Bits(u64::from(carry))]
        });
        tests.push(op.second_output(ty).plain());
        let template = format!("sub.cc.{wide} {{d}}, {{a}}, {{b}};\nsubc.cc.{wide} {{d}}, {{d}}, {{c}};\nsubc.{wide} {{f}}, 0, 0;");
        let op = Op::new(FAMILY, format!("subc_cc_{wide}"), template, &[ty, ty, ty], ty, move |x| {
            let (value, borrow) = kind.sub_borrow(x[0], x[1], false);
            let (value, borrow) = kind.sub_borrow(value, x[2], borrow);
            vec![Expected::Bits(value), Expected::Bits(kind.sub_borrow(0, 0, borrow).0)]
        });
        tests.push(op.second_output(ty).plain());
        // A full product plus a two-limb number, as in big-number code.
        let template = format!("mad.lo.cc.{wide} {{d}}, {{a}}, {{b}}, {{c}};\nmadc.hi.{wide} {{f}}, {{a}}, {{b}}, {{e}};");
        let op = Op::new(FAMILY, format!("mad_cc_{wide}"), template, &[ty, ty, ty, ty], ty, move |x| {
            let (low, carry) = kind.add_carry(kind.mul_lo(x[0], x[1]), x[2], false);
            vec![Expected::Bits(low), Expected::Bits(kind.add_carry(kind.mul_hi(x[0], x[1]), x[3], carry).0)]
        });
        tests.push(op.second_output(ty).plain());
        let template = format!(
            "mad.hi.cc.{wide} {{d}}, {{a}}, {{b}}, {{c}};\nmadc.lo.cc.{wide} {{d}}, {{d}}, {{b}}, {{e}};\naddc.{wide} {{f}}, 0, 0;"
        );
        let op = Op::new(FAMILY, format!("madc_cc_{wide}"), template, &[ty, ty, ty, ty], ty, move |x| {
            let (first, carry) = kind.add_carry(kind.mul_hi(x[0], x[1]), x[2], false);
            let (second, carry) = kind.add_carry(kind.mul_lo(first, x[1]), x[3], carry);
            vec![Expected::Bits(second), Expected::Bits(u64::from(carry))]
        });
        tests.push(op.second_output(ty).plain());
    }
    tests
}

fn packed() -> Vec<Generated> {
    let mut tests = Vec::new();
    type Meaning = fn(Int, u64, u64) -> u64;
    let operations: [(&str, Meaning); 3] = [("add", Int::add), ("min", Int::min), ("max", Int::max)];
    for ty in [U16X2, S16X2] {
        for (name, meaning) in operations {
            let kind = ty.int();
            let op = Op::new(
                FAMILY,
                format!("{name}_{}", ty.name),
                format!("{name}.{} {{d}}, {{a}}, {{b}};", ty.name),
                &[ty, ty],
                ty,
                move |x| ty.split(x[0]).iter().zip(ty.split(x[1])).map(|(a, b)| Expected::Bits(meaning(kind, *a, b))).collect(),
            );
            tests.extend(both(&op.platform("8.0", "sm_90"), &[]));
        }
    }
    for (name, meaning) in [("min_relu", Int::min as Meaning), ("max_relu", Int::max)] {
        let base = &name[..3];
        let op = Op::new(FAMILY, format!("{name}_s32"), format!("{base}.relu.s32 {{d}}, {{a}}, {{b}};"), &[S32, S32], S32, move |x| {
            one(S32.int().max(meaning(S32.int(), x[0], x[1]), 0))
        });
        tests.push(op.platform("8.0", "sm_90").plain());
        let op =
            Op::new(FAMILY, format!("{name}_s16x2"), format!("{base}.relu.s16x2 {{d}}, {{a}}, {{b}};"), &[S16X2, S16X2], S16X2, move |x| {
                let kind = S16X2.int();
                let pairs = S16X2.split(x[0]).into_iter().zip(S16X2.split(x[1]));
                pairs.map(|(a, b)| Expected::Bits(kind.max(meaning(kind, a, b), 0))).collect()
            });
        tests.push(op.platform("8.0", "sm_90").plain());
    }
    tests
}
