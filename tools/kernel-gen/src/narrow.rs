//! Generates tests of 64-bit arithmetic in loops of which only one half, or both halves, of the result are stored.

use crate::kernel::{Generated, Kernel, bits};
use crate::ty::{U32, U64};
use oriole_kernel_test::{Fill, Source};

const FAMILY: &str = "integer";
const THREADS: usize = 64;
const ROUNDS: u64 = 5;

/// Code for one iteration on `%rd1` (and `%r1`, its lower half, at the start) with the 64-bit operand `%rd2`, and its meaning.
type Step = (&'static str, &'static str, fn(u64, u64) -> u64);

pub fn tests() -> Vec<Generated> {
    let steps: [Step; 4] = [
        ("mul", "mul.lo.u64 %rd1, %rd1, %rd2;\nadd.u64 %rd1, %rd1, 77;\nxor.b64 %rd1, %rd1, %rd2;", |x, y| {
            x.wrapping_mul(y).wrapping_add(77) ^ y
        }),
        ("mad_wide", "cvt.u32.u64 %r1, %rd1;\ncvt.u32.u64 %r2, %rd2;\nmad.wide.u32 %rd1, %r1, %r2, %rd1;", |x, y| {
            (x & 0xffff_ffff).wrapping_mul(y & 0xffff_ffff).wrapping_add(x)
        }),
        ("mad_wide_signed", "cvt.u32.u64 %r1, %rd1;\ncvt.u32.u64 %r2, %rd2;\nmad.wide.s32 %rd1, %r1, %r2, %rd1;", |x, y| {
            (i64::from(x as i32).wrapping_mul(i64::from(y as i32)) as u64).wrapping_add(x)
        }),
        ("high", "mul.hi.u64 %rd3, %rd1, %rd2;\nsub.u64 %rd1, %rd1, %rd3;", |x, y| {
            x.wrapping_sub(((u128::from(x) * u128::from(y)) >> 64) as u64)
        }),
    ];
    let mut tests = Vec::new();
    for (name, code, meaning) in steps {
        for (half, extract) in [
            ("low", "cvt.u32.u64 %r3, %rd1;"),
            ("high", "shr.u64 %rd1, %rd1, 32;\ncvt.u32.u64 %r3, %rd1;"),
            ("folded", "cvt.u32.u64 %r3, %rd1;\nshr.u64 %rd1, %rd1, 32;\ncvt.u32.u64 %r4, %rd1;\nxor.b32 %r3, %r3, %r4;"),
        ] {
            tests.push(in_loop(name, code, meaning, half, extract));
        }
    }
    tests
}

fn in_loop(name: &str, code: &str, meaning: fn(u64, u64) -> u64, half: &str, extract: &str) -> Generated {
    let fill = |seed: u32| Fill::of(&[(Source::Pick { seed }, THREADS / 2), (Source::Random { seed }, THREADS / 2)]);
    let (a, b) = (fill(3).values(U64.element, THREADS), fill(4).values(U64.element, THREADS));
    let result = |(&a, &b): (&u64, &u64)| {
        let end = (0..ROUNDS).fold(a, |x, _| meaning(x, b));
        match half {
            "low" => end & 0xffff_ffff,
            "high" => end >> 32,
            _ => (end ^ (end >> 32)) & 0xffff_ffff,
        }
    };
    Kernel::new(FAMILY, format!("half_of_{name}_{half}"), "64-bit numbers in a loop, of which a half is stored")
        .threads(THREADS)
        .scalar("rounds", U32, ROUNDS)
        .buffer("a", U64, THREADS, fill(3))
        .buffer("b", U64, THREADS, fill(4))
        .output("d", U32, bits(a.iter().zip(&b).map(result)))
        .body("mad.wide.u32 %at, %i, 8, %a;\nld.global.u64 %rd1, [%at];\nmad.wide.u32 %at, %i, 8, %b;\nld.global.u64 %rd2, [%at];")
        .body(&format!("mov.u32 %r9, 0;\nAGAIN:\n{code}\nadd.u32 %r9, %r9, 1;\nsetp.lt.u32 %p1, %r9, %rounds;\n@%p1 bra AGAIN;\n{extract}"))
        .body("mad.wide.u32 %at, %i, 4, %d;\nst.global.u32 [%at], %r3;")
        .finish()
}
