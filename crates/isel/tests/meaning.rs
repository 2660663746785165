//! Checks the results of code selected for integer instructions, comparisons and moves, on boundary values.
//!
//! The code is interpreted directly after selection ([`machine`]). The expected results are those of `oriole_sem`, which shares no code
//! with selection.

use std::fmt::Write;

use oriole_ir::{Function, Target};
use oriole_isa::SystemLayout;
use oriole_isel::{VariableLayout, VariableLocation, select_function};
use oriole_ptx::ast::Parameter;
use oriole_sem::bits::{self, Permute};
use oriole_sem::format::{BF16, F16, F32, F64};
use oriole_sem::{Comparison, Int, compare};
use rustc_hash::FxHashMap;

/// One target for each variant of the selected code.
const TARGETS: &[&str] = &["sm_75", "sm_90a", "sm_100a", "sm_110a", "sm_120a"];

/// Byte offset of the test kernels' parameters in constant bank 0, on every target.
const PARAMETERS: u32 = 0x400;

/// Computes the expected result from the arguments.
type Reference<'a> = &'a dyn Fn(&[u64]) -> u64;

/// Returns the width of a type in bits.
fn width(ty: &str) -> u32 {
    match ty {
        "pred" => 1,
        _ => ty[1..].parse().unwrap(),
    }
}

/// Returns a kernel that reads `%a`, `%b`, ... from its parameters, executes `text`, and stores `%r`.
fn kernel(text: &str, inputs: &[&str], output: &str) -> String {
    let mut ptx =
        String::from(".version 9.0\n.target sm_90a\n.address_size 64\n.entry k(.param .align 8 .b8 p[64])\n{\n.reg .b64 %address;\n");
    let mut loads = String::new();
    for (number, (name, ty)) in ["a", "b", "c", "d"].iter().zip(inputs).enumerate() {
        let _ = writeln!(ptx, ".reg .{ty} %{name};");
        let place = 8 * number;
        let _ = match *ty {
            "pred" => writeln!(loads, "{{ .reg .b32 %w; ld.param.b32 %w, [p+{place}]; setp.ne.u32 %{name}, %w, 0; }}"),
            // A word with arbitrary upper half: the upper bits of a 16-bit register are unspecified, and code must not depend on them.
            "b16" => writeln!(loads, "{{ .reg .b32 %w; ld.param.b32 %w, [p+{place}]; mov.b32 {{%{name}, _}}, %w; }}"),
            _ => writeln!(loads, "ld.param.{ty} %{name}, [p+{place}];"),
        };
    }
    let store = match output {
        "pred" => "{ .reg .b32 %w; selp.b32 %w, 1, 0, %r; st.global.b32 [%address], %w; }",
        "b16" => "{ .reg .b32 %w; mov.b32 %w, {%r, 0}; st.global.b32 [%address], %w; }",
        "b32" => "st.global.b32 [%address], %r;",
        _ => "{ .reg .b32 %w, %x; mov.b64 {%w, %x}, %r; st.global.b32 [%address], %w; st.global.b32 [%address+4], %x; }",
    };
    let _ = write!(ptx, ".reg .{output} %r;\nmov.b64 %address, 0;\n{loads}{text}\n{store}\nexit;\n}}\n");
    ptx
}

fn select(ptx: &str, target: Target) -> Function {
    let checked = oriole_ptx::check(ptx.as_bytes(), &oriole_ptx::Options::default());
    assert!(checked.is_valid(), "{ptx}\n{:?}", checked.diagnostics);
    let module = checked.module;
    let (id, function) = module.functions.iter_enumerated().next().unwrap();
    let mut variables = VariableLayout::default();
    variables.parameters_start = SystemLayout::of(target).parameters;
    for parameter in &function.parameters {
        if let Parameter::Variable(variable) = parameter {
            variables.insert(*variable, VariableLocation::Parameter(PARAMETERS - SystemLayout::of(target).parameters));
        }
    }
    select_function(&module, id, target, &variables).unwrap_or_else(|errors| panic!("{ptx}\n{}", errors[0])).function
}

/// Returns boundary values of a type.
fn boundaries(ty: &str) -> Vec<u64> {
    let bits = width(ty);
    if bits == 1 {
        return vec![0, 1];
    }
    let top = 1_u64 << (bits - 1);
    let all = u64::MAX >> (64 - bits);
    let mut numbers =
        vec![0, 1, 2, 3, 31, 32, 100, top - 1, top, top + 1, all - 1, all, 0x1234_5678_9abc_def0 & all, 0xfedc_ba98_7654_3210 & all];
    if bits == 64 {
        numbers.extend([0xffff_ffff, 0x1_0000_0000, 0x8000_0000, 0xffff_ffff_0000_0000, 63, 64]);
    }
    numbers
}

/// Compares the results of the selected code with the reference for combinations of the given numbers.
fn check_with(text: &str, inputs: &[&str], output: &str, numbers: &dyn Fn(&str) -> Vec<u64>, reference: Reference<'_>) {
    let ptx = kernel(text, inputs, output);
    let mut known = Vec::new();
    for name in TARGETS {
        let function = select(&ptx, Target::parse(name).unwrap());
        let code = oriole_ir::text::print(&function);
        if known.contains(&code) {
            continue;
        }
        known.push(code);
        let choices: Vec<Vec<u64>> = inputs.iter().map(|ty| numbers(ty)).collect();
        let combinations: usize = choices.iter().map(Vec::len).product();
        // At most about 200 combinations: all of them for two 32-bit inputs, a sample for more. The step has no factor in common with the
        // numbers of values, so that the sample contains every value of each input.
        let has_common_factor =
            |step: usize| choices.iter().any(|choice| (2..=step).any(|n| step.is_multiple_of(n) && choice.len().is_multiple_of(n)));
        let step = (combinations.div_ceil(200)..).find(|&step| !has_common_factor(step)).unwrap();
        for index in (0..combinations).step_by(step) {
            let mut rest = index;
            let arguments: Vec<u64> = choices
                .iter()
                .map(|choice| {
                    let number = choice[rest % choice.len()];
                    rest /= choice.len();
                    number
                })
                .collect();
            let mut constants = FxHashMap::default();
            for (position, (&argument, ty)) in arguments.iter().zip(inputs).enumerate() {
                let place = PARAMETERS + 8 * position as u32;
                let garbage = if *ty == "b16" { 0xa5c3_0000 } else { 0 };
                constants.insert(place, argument as u32 | garbage);
                constants.insert(place + 4, (argument >> 32) as u32);
            }
            let stored = crate::machine::run(&function, &constants);
            let result = stored.iter().rev().fold(0_u64, |result, &word| result << 32 | u64::from(word));
            let result = if output == "b16" { result & 0xffff } else { result };
            let expected = reference(&arguments);
            assert_eq!(
                result,
                expected,
                "{name}: {text} of {arguments:x?} is {result:x}, not {expected:x}\n{}",
                oriole_ir::text::print(&function)
            );
        }
    }
}

fn check(text: &str, inputs: &[&str], output: &str, reference: Reference<'_>) {
    check_with(text, inputs, output, &|ty| boundaries(ty), reference);
}

const KINDS: [(&str, Int, &str); 6] = [
    ("u16", Int { bits: 16, signed: false }, "b16"),
    ("s16", Int { bits: 16, signed: true }, "b16"),
    ("u32", Int { bits: 32, signed: false }, "b32"),
    ("s32", Int { bits: 32, signed: true }, "b32"),
    ("u64", Int { bits: 64, signed: false }, "b64"),
    ("s64", Int { bits: 64, signed: true }, "b64"),
];

#[test]
fn sums_and_differences() {
    for (ty, kind, bits) in KINDS {
        check(&format!("add.{ty} %r, %a, %b;"), &[bits, bits], bits, &|n| kind.add(n[0], n[1]));
        check(&format!("sub.{ty} %r, %a, %b;"), &[bits, bits], bits, &|n| kind.sub(n[0], n[1]));
        check(&format!("sub.{ty} %r, 5, %b;"), &[bits, bits], bits, &|n| kind.sub(5, n[1]));
        check(&format!("sub.{ty} %r, %a, 0;"), &[bits], bits, &|n| n[0]);
        check(&format!("add.{ty} %r, %a, -7;"), &[bits], bits, &|n| kind.add(n[0], kind.wrap(-7)));
        check(&format!("sad.{ty} %r, %a, %b, %c;"), &[bits; 3], bits, &|n| kind.sad(n[0], n[1], n[2]));
        check(&format!("min.{ty} %r, %a, %b;"), &[bits, bits], bits, &|n| kind.min(n[0], n[1]));
        check(&format!("max.{ty} %r, %a, %b;"), &[bits, bits], bits, &|n| kind.max(n[0], n[1]));
        if kind.signed {
            check(&format!("abs.{ty} %r, %a;"), &[bits], bits, &|n| kind.abs(n[0]));
            check(&format!("neg.{ty} %r, %a;"), &[bits], bits, &|n| kind.neg(n[0]));
            check(&format!("min.{ty} %r, %a, -3;"), &[bits], bits, &|n| kind.min(n[0], kind.wrap(-3)));
        }
    }
    let s32 = oriole_sem::int::S32;
    check("add.sat.s32 %r, %a, %b;", &["b32", "b32"], "b32", &|n| s32.add_sat(n[0], n[1]));
    check("sub.sat.s32 %r, %a, %b;", &["b32", "b32"], "b32", &|n| s32.sub_sat(n[0], n[1]));
    check("sub.sat.s32 %r, 5, %b;", &["b32", "b32"], "b32", &|n| s32.sub_sat(5, n[1]));
    check("add.sat.s32 %r, %a, 0x7fffffff;", &["b32"], "b32", &|n| s32.add_sat(n[0], 0x7fff_ffff));
    check("min.relu.s32 %r, %a, %b;", &["b32", "b32"], "b32", &|n| s32.max(s32.min(n[0], n[1]), 0));
    check("max.relu.s32 %r, %a, %b;", &["b32", "b32"], "b32", &|n| s32.max(s32.max(n[0], n[1]), 0));
}

#[test]
fn halves() {
    let packed = |n: &[u64], of: &dyn Fn(u64, u64) -> u64| of(n[0] & 0xffff, n[1] & 0xffff) | of(n[0] >> 16, n[1] >> 16) << 16;
    for (ty, kind) in [("u16x2", oriole_sem::int::U16), ("s16x2", oriole_sem::int::S16)] {
        check(&format!("add.{ty} %r, %a, %b;"), &["b32", "b32"], "b32", &|n| packed(n, &|a, b| kind.add(a, b)));
        check(&format!("min.{ty} %r, %a, %b;"), &["b32", "b32"], "b32", &|n| packed(n, &|a, b| kind.min(a, b)));
        check(&format!("max.{ty} %r, %a, %b;"), &["b32", "b32"], "b32", &|n| packed(n, &|a, b| kind.max(a, b)));
    }
    let s16 = oriole_sem::int::S16;
    check("min.relu.s16x2 %r, %a, %b;", &["b32", "b32"], "b32", &|n| packed(n, &|a, b| s16.max(s16.min(a, b), 0)));
    check("max.relu.s16x2 %r, %a, %b;", &["b32", "b32"], "b32", &|n| packed(n, &|a, b| s16.max(s16.max(a, b), 0)));
}

#[test]
fn products() {
    for (ty, kind, bits) in KINDS {
        check(&format!("mul.lo.{ty} %r, %a, %b;"), &[bits, bits], bits, &|n| kind.mul_lo(n[0], n[1]));
        check(&format!("mul.hi.{ty} %r, %a, %b;"), &[bits, bits], bits, &|n| kind.mul_hi(n[0], n[1]));
        check(&format!("mad.lo.{ty} %r, %a, %b, %c;"), &[bits; 3], bits, &|n| kind.mad_lo(n[0], n[1], n[2]));
        check(&format!("mad.hi.{ty} %r, %a, %b, %c;"), &[bits; 3], bits, &|n| kind.mad_hi(n[0], n[1], n[2]));
        check(&format!("mul.hi.{ty} %r, %a, 77;"), &[bits], bits, &|n| kind.mul_hi(n[0], 77));
        if kind.bits < 64 {
            let wide = format!("b{}", 2 * kind.bits);
            check(&format!("mul.wide.{ty} %r, %a, %b;"), &[bits, bits], &wide, &|n| kind.mul_wide(n[0], n[1]));
            check(&format!("mad.wide.{ty} %r, %a, %b, %c;"), &[bits, bits, &wide], &wide, &|n| kind.mad_wide(n[0], n[1], n[2]));
        }
    }
    for (ty, kind) in [("u32", oriole_sem::int::U32), ("s32", oriole_sem::int::S32)] {
        check(&format!("mul24.lo.{ty} %r, %a, %b;"), &["b32", "b32"], "b32", &|n| kind.mul24_lo(n[0], n[1]));
        check(&format!("mul24.hi.{ty} %r, %a, %b;"), &["b32", "b32"], "b32", &|n| kind.mul24_hi(n[0], n[1]));
        check(&format!("mad24.lo.{ty} %r, %a, %b, %c;"), &["b32"; 3], "b32", &|n| kind.add(kind.mul24_lo(n[0], n[1]), n[2]));
        check(&format!("mad24.hi.{ty} %r, %a, %b, %c;"), &["b32"; 3], "b32", &|n| kind.add(kind.mul24_hi(n[0], n[1]), n[2]));
        for (other, b_kind) in [("u32", oriole_sem::int::U32), ("s32", oriole_sem::int::S32)] {
            check(&format!("dp4a.{ty}.{other} %r, %a, %b, %c;"), &["b32"; 3], "b32", &|n| kind.dp4a(b_kind, n[0], n[1], n[2]));
            check(&format!("dp2a.lo.{ty}.{other} %r, %a, %b, %c;"), &["b32"; 3], "b32", &|n| kind.dp2a(b_kind, n[0], n[1], n[2], false));
            check(&format!("dp2a.hi.{ty}.{other} %r, %a, %b, %c;"), &["b32"; 3], "b32", &|n| kind.dp2a(b_kind, n[0], n[1], n[2], true));
        }
    }
    let s32 = oriole_sem::int::S32;
    check("mad.hi.sat.s32 %r, %a, %b, %c;", &["b32"; 3], "b32", &|n| s32.mad_hi_sat(n[0], n[1], n[2]));
    check("mad24.hi.sat.s32 %r, %a, %b, %c;", &["b32"; 3], "b32", &|n| s32.add_sat(s32.mul24_hi(n[0], n[1]), n[2]));
}

#[test]
fn carries_and_borrows() {
    for (ty, kind, bits) in [KINDS[2], KINDS[4]] {
        let inputs = [bits; 4];
        let chain = |first: &str, second: &str| format!("{{ .reg .{bits} %t; {first}.{ty} %t, %a, %b; {second}.{ty} %r, %c, %d; }}");
        let add = |n: &[u64]| kind.add_carry(n[0], n[1], false).1;
        let subtract = |n: &[u64]| kind.sub_borrow(n[0], n[1], false).1;
        check(&chain("add.cc", "addc"), &inputs, bits, &|n| kind.add_carry(n[2], n[3], add(n)).0);
        check(&chain("sub.cc", "subc"), &inputs, bits, &|n| kind.sub_borrow(n[2], n[3], subtract(n)).0);
        // After a subtraction the flag is the machine's carry, which is the inverse of the borrow.
        check(&chain("sub.cc", "addc"), &inputs, bits, &|n| kind.add_carry(n[2], n[3], !subtract(n)).0);
        check(&chain("add.cc", "subc"), &inputs, bits, &|n| kind.sub_borrow(n[2], n[3], !add(n)).0);
        let out = |operation: &str, set: &str, get: &str| {
            format!("{{ .reg .{bits} %t; {set}.{ty} %t, %a, %b; {operation}.cc.{ty} %t, %c, %d; {get}.{ty} %r, 0, 0; }}")
        };
        check(&out("addc", "add.cc", "addc"), &inputs, bits, &|n| u64::from(kind.add_carry(n[2], n[3], add(n)).1));
        check(&out("subc", "sub.cc", "subc"), &inputs, bits, &|n| {
            let borrow = kind.sub_borrow(n[2], n[3], subtract(n)).1;
            kind.wrap(-i128::from(borrow))
        });
        check(&out("subc", "add.cc", "addc"), &inputs, bits, &|n| u64::from(!kind.sub_borrow(n[2], n[3], !add(n)).1));
        // The flag keeps its value where the guard does not hold, and is available after a branch.
        let guarded = format!(
            "{{ .reg .{bits} %t; .reg .pred %p; setp.lt.u{w} %p, %a, %b; sub.cc.{ty} %t, %a, %b; @%p add.cc.{ty} %t, %c, %d; bra M; M: subc.{ty} %r, 0, 0; }}",
            w = kind.bits
        );
        check(&guarded, &inputs, bits, &|n| {
            let flag = if n[0] < n[1] { kind.add_carry(n[2], n[3], false).1 } else { !subtract(n) };
            kind.wrap(-i128::from(!flag))
        });
        check(&format!("{{ .reg .{bits} %t; sub.cc.{ty} %t, %a, 0; subc.{ty} %r, %b, 0; }}"), &[bits, bits], bits, &|n| n[1]);
        for part in ["lo", "hi"] {
            let product = |n: &[u64]| if part == "lo" { kind.mul_lo(n[0], n[1]) } else { kind.mul_hi(n[0], n[1]) };
            check(&format!("{{ .reg .{bits} %t; mad.{part}.cc.{ty} %t, %a, %b, %c; addc.{ty} %r, %d, 0; }}"), &inputs, bits, &|n| {
                kind.add_carry(n[3], 0, kind.add_carry(product(n), n[2], false).1).0
            });
            check(&format!("{{ .reg .{bits} %t; add.cc.{ty} %t, %c, %d; madc.{part}.{ty} %r, %a, %b, %c; }}"), &inputs, bits, &|n| {
                kind.add_carry(product(n), n[2], kind.add_carry(n[2], n[3], false).1).0
            });
        }
    }
}

#[test]
fn division_by_constants() {
    let divisors = [
        1_i128,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
        9,
        10,
        12,
        14,
        25,
        28,
        100,
        125,
        127,
        128,
        641,
        1000,
        1024,
        32767,
        32768,
        65535,
        65536,
        1_000_000_007,
        0x7fff_ffff,
        0x8000_0000,
        0xffff_fffe,
        0xffff_ffff,
        0x1_0000_0001,
        0x7fff_ffff_ffff_ffff,
        0x8000_0000_0000_0000,
        0xffff_ffff_ffff_ffff,
    ];
    for (ty, kind, bits) in KINDS {
        for divisor in divisors.into_iter().flat_map(|divisor| [divisor, -divisor]) {
            let is_in_range = divisor >= kind.least() && divisor <= kind.greatest();
            if !is_in_range {
                continue;
            }
            let literal = kind.wrap(divisor);
            let numbers = |_: &str| {
                let magnitude = divisor.unsigned_abs() as i128;
                let last = kind.greatest() / magnitude * magnitude;
                let mut numbers = boundaries(bits);
                for near in [0, magnitude, 2 * magnitude, last, -magnitude, -last] {
                    numbers.extend([-1, 0, 1].map(|offset| kind.wrap(near + offset)));
                }
                numbers
            };
            let suffix = if literal > 0x7fff_ffff_ffff_ffff { "U" } else { "" };
            check_with(&format!("div.{ty} %r, %a, {literal:#x}{suffix};"), &[bits], bits, &numbers, &|n| kind.div(n[0], literal).unwrap());
            check_with(&format!("rem.{ty} %r, %a, {literal:#x}{suffix};"), &[bits], bits, &numbers, &|n| kind.rem(n[0], literal).unwrap());
        }
    }
}

#[test]
fn logic_and_shifts() {
    for bits in ["b16", "b32", "b64"] {
        let mask = u64::MAX >> (64 - width(bits));
        check(&format!("and.{bits} %r, %a, %b;"), &[bits, bits], bits, &|n| n[0] & n[1]);
        check(&format!("or.{bits} %r, %a, %b;"), &[bits, bits], bits, &|n| n[0] | n[1]);
        check(&format!("xor.{bits} %r, %a, %b;"), &[bits, bits], bits, &|n| n[0] ^ n[1]);
        check(&format!("not.{bits} %r, %a;"), &[bits], bits, &|n| !n[0] & mask);
        check(&format!("cnot.{bits} %r, %a;"), &[bits], bits, &|n| bits::cnot(n[0]));
    }
    check("and.pred %r, %a, %b;", &["pred", "pred"], "pred", &|n| n[0] & n[1]);
    check("or.pred %r, !%a, %b;", &["pred", "pred"], "pred", &|n| (1 - n[0]) | n[1]);
    check("xor.pred %r, %a, !%b;", &["pred", "pred"], "pred", &|n| n[0] ^ (1 - n[1]));
    check("not.pred %r, %a;", &["pred"], "pred", &|n| 1 - n[0]);
    check("not.pred %r, !%a;", &["pred"], "pred", &|n| n[0]);
    check("mov.pred %r, !%a;", &["pred"], "pred", &|n| 1 - n[0]);
    check("mov.pred %r, 0;", &[], "pred", &|_| 0);
    check("or.pred %r, %a, 1;", &["pred"], "pred", &|_| 1);
    check("and.pred %r, %a, !0;", &["pred"], "pred", &|n| n[0]);
    check("and.pred %r, %a, !1;", &["pred"], "pred", &|_| 0);
    for (ty, kind, bits) in KINDS {
        check(&format!("shr.{ty} %r, %a, %b;"), &[bits, "b32"], bits, &|n| kind.shr(n[0], n[1]));
        if !kind.signed {
            check(&format!("shl.{bits} %r, %a, %b;"), &[bits, "b32"], bits, &|n| kind.shl(n[0], n[1]));
        }
        for amount in [0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 0x8000_0000] {
            check(&format!("shr.{ty} %r, %a, {amount};"), &[bits], bits, &|n| kind.shr(n[0], amount));
            check(&format!("shl.{bits} %r, %a, {amount};"), &[bits], bits, &|n| kind.shl(n[0], amount));
        }
    }
    for left in [true, false] {
        for clamp in [true, false] {
            let head = format!("shf.{}.{}.b32", if left { "l" } else { "r" }, if clamp { "clamp" } else { "wrap" });
            check(&format!("{head} %r, %a, %b, %c;"), &["b32"; 3], "b32", &|n| bits::shf(n[0], n[1], n[2], left, clamp));
            for amount in [0, 5, 31, 32, 33, 70] {
                check(&format!("{head} %r, %a, %b, {amount};"), &["b32", "b32"], "b32", &|n| bits::shf(n[0], n[1], amount, left, clamp));
            }
        }
    }
    for table in [0x00_u8, 0x1d, 0x80, 0x96, 0xca, 0xe8, 0xff] {
        check(&format!("lop3.b32 %r, %a, %b, %c, {table};"), &["b32"; 3], "b32", &|n| bits::lop3(n[0], n[1], n[2], table));
        check(&format!("{{ .reg .b32 %t; lop3.or.b32 %t|%r, %a, %b, %c, {table}, %d; }}"), &["b32", "b32", "b32", "pred"], "pred", &|n| {
            u64::from(bits::lop3(n[0], n[1], n[2], table) != 0) | n[3]
        });
        check(&format!("lop3.and.b32 _|%r, %a, %b, %c, {table}, !%d;"), &["b32", "b32", "b32", "pred"], "pred", &|n| {
            u64::from(bits::lop3(n[0], n[1], n[2], table) != 0) & (1 - n[3])
        });
    }
    let modes = [
        ("", Permute::Generic),
        (".f4e", Permute::Forward4),
        (".b4e", Permute::Backward4),
        (".rc8", Permute::Replicate8),
        (".ecl", Permute::EdgeClampLeft),
        (".ecr", Permute::EdgeClampRight),
        (".rc16", Permute::Replicate16),
    ];
    for (name, mode) in modes {
        check(&format!("prmt.b32{name} %r, %a, %b, %c;"), &["b32"; 3], "b32", &|n| bits::prmt(n[0], n[1], n[2], mode));
    }
}

/// Shift amounts above the width of the type are clamped to the width (PTX manual, 9.7.8.8 and 9.7.8.9), independently of the machine's
/// behaviour.
#[test]
fn immediate_amounts_of_shifts_are_clamped() {
    let code = |text: &str, bits: &str, target: &str| {
        let target = Target::parse(target).unwrap();
        format!("{:?}", select(&kernel(text, &[bits], bits), target))
    };
    for (ty, kind, bits) in KINDS {
        let mut heads = vec![format!("shr.{ty}")];
        heads.extend((!kind.signed).then(|| format!("shl.{bits}")));
        for (head, target) in heads.iter().flat_map(|head| TARGETS.iter().map(move |target| (head, target))) {
            let width = width(bits);
            // Padded to the same length, because the printed code contains the byte offsets of statements.
            let by = |amount: u32| code(&format!("{head} %r, %a, {amount:>10};"), bits, target);
            let clamped = by(width);
            assert_ne!(clamped, by(width - 1), "{head} on {target}");
            for amount in [31, 32, 33, 63, 64, 65, 255, 0xffff_ffff].into_iter().filter(|&amount| amount > width) {
                assert_eq!(by(amount), clamped, "{head} by {amount} on {target}");
            }
        }
    }
}

#[test]
fn bit_fields() {
    let small = |ty: &str| {
        let mut numbers = boundaries(ty);
        if ty == "b32" {
            numbers.extend([0xff, 0x100, 0x120, 16, 63, 64, 65]);
        }
        numbers
    };
    for (ty, kind, bits) in &KINDS[2..] {
        check_with(&format!("bfe.{ty} %r, %a, %b, %c;"), &[bits, "b32", "b32"], bits, &small, &|n| kind.bfe(n[0], n[1], n[2]));
        for (position, length) in [(0, 0), (0, 255), (5, 7), (31, 1), (32, 1), (63, 5), (0, 32), (0, 64), (60, 4), (200, 3)] {
            check(&format!("bfe.{ty} %r, %a, {position}, {length};"), &[bits], bits, &|n| kind.bfe(n[0], position, length));
        }
        check(&format!("bfind.{ty} %r, %a;"), &[bits], "b32", &|n| kind.bfind(n[0], false));
        check(&format!("bfind.shiftamt.{ty} %r, %a;"), &[bits], "b32", &|n| kind.bfind(n[0], true));
    }
    for bits in ["b32", "b64"] {
        let wide = width(bits);
        check_with(&format!("bfi.{bits} %r, %a, %b, %c, %d;"), &[bits, bits, "b32", "b32"], bits, &small, &|n| {
            bits::bfi(wide, n[0], n[1], n[2], n[3])
        });
        for (position, length) in [(0, 0), (0, 255), (5, 7), (31, 1), (32, 1), (63, 5), (0, 32), (0, 64)] {
            check(&format!("bfi.{bits} %r, %a, %b, {position}, {length};"), &[bits, bits], bits, &|n| {
                bits::bfi(wide, n[0], n[1], position, length)
            });
        }
        check(&format!("popc.{bits} %r, %a;"), &[bits], "b32", &|n| n[0].count_ones().into());
        check(&format!("clz.{bits} %r, %a;"), &[bits], "b32", &|n| bits::clz(wide, n[0]));
        check(&format!("brev.{bits} %r, %a;"), &[bits], bits, &|n| bits::brev(wide, n[0]));
    }
    for clamp in [true, false] {
        let mode = if clamp { "clamp" } else { "wrap" };
        check_with(&format!("bmsk.{mode}.b32 %r, %a, %b;"), &["b32", "b32"], "b32", &small, &|n| bits::bmsk(n[0], n[1], clamp));
        for (ty, kind) in [("u32", oriole_sem::int::U32), ("s32", oriole_sem::int::S32)] {
            check_with(&format!("szext.{mode}.{ty} %r, %a, %b;"), &["b32", "b32"], "b32", &small, &|n| kind.szext(n[0], n[1], clamp));
        }
    }
    let signed = |number: u64| i64::from(number as u32 as i32);
    let places = |_: &str| {
        vec![0, 1, 2, 3, 5, 15, 16, 17, 30, 31, 32, 33, 0x8000_0000, 0xffff_ffff, 0xffff_fffe, 0xffff_fff0, 0x5555_5555, 0xf0f0_f0f1]
    };
    check_with("fns.b32 %r, %a, %b, %c;", &["b32"; 3], "b32", &places, &|n| bits::fns(n[0], n[1], signed(n[2])));
}

const ORDERED: [(&str, Comparison); 6] = [
    ("eq", Comparison::Eq),
    ("ne", Comparison::Ne),
    ("lt", Comparison::Lt),
    ("le", Comparison::Le),
    ("gt", Comparison::Gt),
    ("ge", Comparison::Ge),
];

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

/// Returns a comparison result combined with a predicate by `.and`, `.or` or `.xor`.
fn combined(operation: &str, holds: bool, with: bool) -> u64 {
    u64::from(match operation {
        "and" => holds && with,
        "or" => holds || with,
        _ => holds != with,
    })
}

#[test]
fn comparisons_of_integers() {
    for (ty, kind, bits) in KINDS {
        for (name, relation) in ORDERED {
            let holds = |n: &[u64]| compare::int(kind, relation, n[0], n[1]);
            check(&format!("setp.{name}.{ty} %r, %a, %b;"), &[bits, bits], "pred", &|n| holds(n).into());
            check(&format!("setp.{name}.{ty} %r, %a, 100;"), &[bits], "pred", &|n| holds(&[n[0], 100]).into());
            check(&format!("setp.{name}.{ty} _|%r, %a, %b;"), &[bits, bits], "pred", &|n| u64::from(!holds(n)));
            check(&format!("set.{name}.u32.{ty} %r, %a, %b;"), &[bits, bits], "b32", &|n| if holds(n) { 0xffff_ffff } else { 0 });
            for operation in ["and", "or", "xor"] {
                let inputs = [bits, bits, "pred"];
                check(&format!("setp.{name}.{operation}.{ty} %r, %a, %b, !%c;"), &inputs, "pred", &|n| {
                    combined(operation, holds(n), n[2] == 0)
                });
                let both = format!("{{ .reg .pred %q; setp.{name}.{operation}.{ty} %q|%r, %a, %b, %c; }}");
                check(&both, &inputs, "pred", &|n| combined(operation, !holds(n), n[2] == 1));
                check(&format!("set.{name}.{operation}.f32.{ty} %r, %a, %b, %c;"), &inputs, "b32", &|n| {
                    combined(operation, holds(n), n[2] == 1) * 0x3f80_0000
                });
            }
        }
    }
    for (name, relation) in [("lo", Comparison::Lo), ("ls", Comparison::Ls), ("hi", Comparison::Hi), ("hs", Comparison::Hs)] {
        check(&format!("setp.{name}.u32 %r, %a, %b;"), &["b32", "b32"], "pred", &|n| {
            compare::int(oriole_sem::int::U32, relation, n[0], n[1]).into()
        });
    }
    // The predicate to combine with may be the destination.
    check("{ .reg .pred %q; mov.pred %q, %c; setp.lt.and.s32 %q|%r, %a, %b, %q; }", &["b32", "b32", "pred"], "pred", &|n| {
        combined("and", !compare::int(oriole_sem::int::S32, Comparison::Lt, n[0], n[1]), n[2] == 1)
    });
}

#[test]
fn comparisons_of_floats() {
    let formats = [("f32", F32, "b32"), ("f64", F64, "b64"), ("f16", F16, "b16"), ("bf16", BF16, "b16")];
    for (ty, format, bits) in formats {
        let numbers = |ty: &str| {
            if ty == "pred" {
                return vec![0, 1];
            }
            let infinity = format.mask() >> 1 & !((1 << format.fraction_bits) - 1);
            let one = (infinity / 2) & !((1 << format.fraction_bits) - 1);
            let positive = [
                0,
                1,
                (1 << format.fraction_bits) - 1,
                1 << format.fraction_bits,
                one,
                one + 1,
                infinity - 1,
                infinity,
                infinity + 1,
                format.mask() >> 1,
            ];
            positive.into_iter().flat_map(|number| [number, number | format.sign_bit()]).collect()
        };
        for (name, relation) in ORDERED.into_iter().chain(UNORDERED) {
            for ftz in [false, true] {
                if ftz && matches!(ty, "f64" | "bf16") {
                    continue;
                }
                let flush = if ftz { ".ftz" } else { "" };
                let holds = |n: &[u64]| compare::float(format, relation, n[0], n[1], ftz);
                check_with(&format!("setp.{name}{flush}.{ty} %r, %a, %b;"), &[bits, bits], "pred", &numbers, &|n| holds(n).into());
                let inputs = [bits, bits, "pred"];
                check_with(&format!("setp.{name}.xor{flush}.{ty} %r, %a, %b, !%c;"), &inputs, "pred", &numbers, &|n| {
                    combined("xor", holds(n), n[2] == 0)
                });
                check_with(&format!("set.{name}.or{flush}.u32.{ty} %r, %a, %b, %c;"), &inputs, "b32", &numbers, &|n| {
                    combined("or", holds(n), n[2] == 1) * 0xffff_ffff
                });
                if ty == "bf16" || ty == "f16" {
                    // Both halves of packed numbers.
                    let packed = format!(
                        "{{ .reg .b32 %x, %y; .reg .pred %q; mov.b32 %x, {{%a, %b}}; mov.b32 %y, {{%b, %b}}; setp.{name}{flush}.{ty}x2 %q|%r, %y, %x; }}"
                    );
                    check_with(&packed, &[bits, bits], "pred", &numbers, &|n| compare::float(format, relation, n[1], n[1], ftz).into());
                    let packed = format!(
                        "{{ .reg .b32 %x, %y; mov.b32 %x, {{%a, %b}}; mov.b32 %y, {{%b, %b}}; set.{name}.and{flush}.{ty}x2.{ty}x2 %r, %x, %y, %c; }}"
                    );
                    let one = if ty == "f16" { 0x3c00 } else { 0x3f80 };
                    check_with(&packed, &inputs, "b32", &numbers, &|n| {
                        let high = compare::float(format, relation, n[1], n[1], ftz);
                        (combined("and", holds(n), n[2] == 1) | combined("and", high, n[2] == 1) << 16) * one
                    });
                } else {
                    check_with(&format!("setp.{name}{flush}.{ty} _|%r, %a, %b;"), &[bits, bits], "pred", &numbers, &|n| {
                        u64::from(!holds(n))
                    });
                }
            }
        }
    }
}

#[test]
fn selections() {
    for bits in ["b16", "b32", "b64"] {
        check(&format!("selp.{bits} %r, %a, %b, %c;"), &[bits, bits, "pred"], bits, &|n| if n[2] == 1 { n[0] } else { n[1] });
        check(&format!("selp.{bits} %r, 5, %b, !%c;"), &[bits, bits, "pred"], bits, &|n| if n[2] == 0 { 5 } else { n[1] });
        check(&format!("slct.{bits}.s32 %r, %a, %b, %c;"), &[bits, bits, "b32"], bits, &|n| {
            if n[2] as u32 as i32 >= 0 { n[0] } else { n[1] }
        });
        for ftz in [false, true] {
            let head = format!("slct{}.{bits}.f32", if ftz { ".ftz" } else { "" });
            let reference = |n: &[u64]| if compare::float(F32, Comparison::Ge, n[2], 0, ftz) { n[0] } else { n[1] };
            check(&format!("{{ .reg .f32 %f; mov.b32 %f, %c; {head} %r, %a, %b, %f; }}"), &[bits, bits, "b32"], bits, &reference);
        }
    }
}

#[test]
fn moves() {
    check("mov.b32 %r, {%a, %b};", &["b16", "b16"], "b32", &|n| n[0] | n[1] << 16);
    check("mov.b64 %r, {%a, %b};", &["b32", "b32"], "b64", &|n| n[0] | n[1] << 32);
    check("mov.b64 %r, {%a, %b, %c, %d};", &["b16"; 4], "b64", &|n| n[0] | n[1] << 16 | n[2] << 32 | n[3] << 48);
    check("mov.b64 {_, %r}, %a;", &["b64"], "b32", &|n| n[0] >> 32);
    check("mov.b32 {_, %r}, %a;", &["b32"], "b16", &|n| n[0] >> 16);
    for (element, shift) in [("%r, _, _, _", 0), ("_, %r, _, _", 16), ("_, _, %r, _", 32), ("_, _, _, %r", 48)] {
        check(&format!("mov.b64 {{{element}}}, %a;"), &["b64"], "b16", &|n| n[0] >> shift & 0xffff);
    }
    let bytes = "{ .reg .b8 %e<4>; mov.b32 {%e0, %e1, %e2, %e3}, %a; mov.b32 %r, {%e3, %e1, %e0, %e2}; }";
    check(bytes, &["b32"], "b32", &|n| n[0] >> 24 | (n[0] & 0xff00) | (n[0] & 0xff) << 16 | (n[0] >> 16 & 0xff) << 24);
    check("{ .reg .b8 %e<2>; mov.b16 {%e0, %e1}, %a; mov.b16 %r, {%e1, %e0}; }", &["b16"], "b16", &|n| n[0] >> 8 | (n[0] & 0xff) << 8);
    let quad = "{ .reg .b128 %q; .reg .b64 %x; mov.b128 %q, {%a, %b}; mov.b128 {_, %x}, %q; mov.b128 %q, {%x, %a}; mov.b128 {%r, _}, %q; }";
    check(quad, &["b64", "b64"], "b64", &|n| n[1]);
    check("{ mov.v2.b32 {%a, %b}, {%b, %a}; mov.b64 %r, {%a, %b}; }", &["b32", "b32"], "b64", &|n| n[1] | n[0] << 32);
    check("{ .reg .v2 .b32 %v; mov.v2.b32 %v, {%a, %b}; mov.v2.b32 {%b, %a}, %v; mov.b64 %r, {%a, %b}; }", &["b32", "b32"], "b64", &|n| {
        n[1] | n[0] << 32
    });
    check("mov.u64 %r, 0x123456789abcdef0;", &[], "b64", &|_| 0x1234_5678_9abc_def0);
    check("{ .reg .f64 %f; mov.f64 %f, 0d3ff0000000000001; mov.b64 %r, %f; }", &[], "b64", &|_| 0x3ff0_0000_0000_0001);
    check("xor.b64 %r, %a, 0d8000000000000000;", &["b64"], "b64", &|n| n[0] ^ 1 << 63);
}

/// Cache policies without a fraction are constants. The expected ones are those in ptxas' code for sm_100a.
#[test]
fn cache_policies() {
    let policies = [
        ("evict_last", 0x14f0_0000_u64),
        ("evict_normal", 0x16f0_0000),
        ("evict_first", 0x12f0_0000),
        ("evict_unchanged", 0x10f0_0000),
        ("evict_last.L2::evict_first", 0x15f0_0000),
    ];
    for (priorities, upper) in policies {
        check(&format!("createpolicy.fractional.L2::{priorities}.b64 %r;"), &[], "b64", &|_| upper << 32);
    }
}

/// On targets without an instruction for two additions, there is one instruction for each half.
#[test]
fn sums_of_pairs() {
    let ptx = kernel("add.rn.f32x2 %r, %a, %b;", &["b64", "b64"], "b64").replace("sm_90a", "sm_100a");
    let sources = [1.0_f32, 20.0, 0.5, 0.25].map(f32::to_bits);
    let places = [0, 4, 8, 12].map(|offset| PARAMETERS + offset);
    let constants: FxHashMap<u32, u32> = places.into_iter().zip(sources).collect();
    for name in ["sm_110a", "sm_120a"] {
        let function = select(&ptx, Target::parse(name).unwrap());
        assert_eq!(crate::machine::run(&function, &constants), [1.5_f32, 20.25].map(f32::to_bits), "{name}");
    }
}
