//! Generates tests of loops that count: every relation, steps of both signs, tests at both ends of the body, counters that wrap around,
//! numbers of iterations from none to hundreds. A Rust function next to each kernel computes the expected result.

use crate::kernel::{Generated, Kernel, bits, load, store};
use crate::ty::U32;
use oriole_kernel_test::{Fill, Source};

const FAMILY: &str = "loops";
const THREADS: usize = 64;

/// No loop of these tests executes more iterations.
const MAX_TRIPS: u32 = 10_000;

pub fn tests() -> Vec<Generated> {
    let mut tests = counted();
    tests.extend(wide());
    tests.extend(others());
    tests
}

/// Creates a test whose body reads the input from `%r1` and leaves the result in `%r0`.
fn test(name: &str, about: &str, body: &str, meaning: impl Fn(u32) -> u32) -> Generated {
    let fill = Fill::of(&[(Source::Boundary { stride: 1 }, 22), (Source::Random { seed: 21 }, 42)]);
    let expected: Vec<u64> = fill.values(U32.element, THREADS).into_iter().map(|x| u64::from(meaning(x as u32))).collect();
    Kernel::new(FAMILY, name, about)
        .threads(THREADS)
        .buffer("a", U32, THREADS, fill)
        .output("d", U32, bits(expected))
        .body(&load(U32, "%r1", "a"))
        .body(body)
        .body(&store(U32, "%r0", "d"))
        .finish()
}

/// Computes the start and the limit of a counter, `%r2` and `%r3`, from `%r1`: in PTX and in Rust.
type Range = (&'static str, fn(u32) -> (u32, u32));

/// A loop that counts from `%r2` to `%r3`.
struct Counted {
    name: &'static str,
    about: &'static str,
    /// Relation and type of the comparison.
    relation: &'static str,
    step: i32,
    /// Whether the test comes after the body.
    tests_at_end: bool,
    /// Computes `%r2` and `%r3` from `%r1`, in PTX and in Rust.
    range: Range,
}

impl Counted {
    fn test(&self) -> Generated {
        let (range, step) = (self.range.0, self.step);
        let body = "mad.lo.u32 %r0, %r0, 31, %r2;";
        let text = if self.tests_at_end {
            format!("{range}\nmov.u32 %r0, %r1;\nL:\n{body}\nadd.s32 %r2, %r2, {step};\nsetp.{} %p1, %r2, %r3;\n@%p1 bra L;", self.relation)
        } else {
            let top = format!("L:\nsetp.{} %p1, %r2, %r3;\n@!%p1 bra END;", self.relation);
            format!("{range}\nmov.u32 %r0, %r1;\n{top}\n{body}\nadd.s32 %r2, %r2, {step};\nbra L;\nEND:")
        };
        test(self.name, self.about, &text, |x| self.meaning(x))
    }

    fn meaning(&self, x: u32) -> u32 {
        let (mut counter, limit) = (self.range.1)(x);
        let continues = |counter: u32| match self.relation {
            "lt.u32" => counter < limit,
            "le.u32" => counter <= limit,
            "gt.u32" => counter > limit,
            "ge.u32" => counter >= limit,
            "lt.s32" => (counter as i32) < limit as i32,
            "le.s32" => counter as i32 <= limit as i32,
            "gt.s32" => counter as i32 > limit as i32,
            "ge.s32" => counter as i32 >= limit as i32,
            "ne.u32" | "ne.s32" => counter != limit,
            other => panic!("{other}"),
        };
        let mut result = x;
        for _ in 0..MAX_TRIPS {
            if !self.tests_at_end && !continues(counter) {
                return result;
            }
            result = result.wrapping_mul(31).wrapping_add(counter);
            counter = counter.wrapping_add(self.step as u32);
            if self.tests_at_end && !continues(counter) {
                return result;
            }
        }
        panic!("{} does not end for {x:#x}", self.name);
    }
}

/// From a number below 16 to one below 32.
const SMALL: Range = ("and.b32 %r2, %r1, 15;\nbfe.u32 %r3, %r1, 4, 5;", |x| (x & 15, x >> 4 & 31));

/// From a number between -31 and 0 to one between -8 and 23.
const AROUND_ZERO: Range = ("and.b32 %r2, %r1, 31;\nneg.s32 %r2, %r2;\nbfe.u32 %r3, %r1, 5, 5;\nsub.s32 %r3, %r3, 8;", |x| {
    ((x & 31).wrapping_neg(), (x >> 5 & 31).wrapping_sub(8))
});

/// From a number below 64 down to one between -7 and 0.
const DOWN: Range = ("and.b32 %r2, %r1, 63;\nbfe.u32 %r3, %r1, 6, 3;\nneg.s32 %r3, %r3;", |x| (x & 63, (x >> 6 & 7).wrapping_neg()));

fn counted() -> Vec<Generated> {
    let near_least: Range =
        ("and.b32 %r2, %r1, 7;\nor.b32 %r2, %r2, 0x80000000;\nbfe.u32 %r3, %r1, 3, 4;\nor.b32 %r3, %r3, 0x80000000;", |x| {
            (x & 7 | 1 << 31, x >> 3 & 15 | 1 << 31)
        });
    let near_most: Range = ("and.b32 %r3, %r1, 3;\nsub.s32 %r3, 0x7ffffffe, %r3;\nbfe.u32 %r2, %r1, 2, 4;\nsub.s32 %r2, %r3, %r2;", |x| {
        let limit = 0x7fff_fffe - (x & 3);
        (limit - (x >> 2 & 15), limit)
    });
    let positive: Range = ("and.b32 %r3, %r1, 3;\nadd.u32 %r3, %r3, 1;\nbfe.u32 %r2, %r1, 2, 5;\nadd.u32 %r2, %r2, %r3;", |x| {
        let limit = 1 + (x & 3);
        (limit + (x >> 2 & 31), limit)
    });
    // Above the limit are 2^22 numbers, and a step is nearly 2^24: the counter wraps around several times before it is one of them.
    let wrapping: Range = ("mov.u32 %r2, %r1;\nmov.u32 %r3, 0xffc00000;", |x| (x, 0xffc0_0000));
    let ahead: Range = ("mov.u32 %r2, %r1;\nbfe.u32 %r3, %r1, 8, 5;\nadd.u32 %r3, %r3, 1;\nadd.u32 %r3, %r3, %r1;", |x| {
        (x, x.wrapping_add(1 + (x >> 8 & 31)))
    });
    let behind: Range = ("mov.u32 %r2, %r1;\nbfe.u32 %r3, %r1, 8, 5;\nadd.u32 %r3, %r3, 1;\nmad.lo.u32 %r3, %r3, -4, %r1;", |x| {
        (x, x.wrapping_sub(4 * (1 + (x >> 8 & 31))))
    });
    let to_zero: Range = ("bfe.u32 %r2, %r1, 8, 5;\nadd.u32 %r2, %r2, 1;\nmov.u32 %r3, 0;", |x| (1 + (x >> 8 & 31), 0));
    let to_number: Range = ("and.b32 %r2, %r1, 63;\nmov.u32 %r3, 37;", |x| (x & 63, 37));
    let loop_of = |name, about, relation, step, tests_at_end, range| Counted { name, about, relation, step, tests_at_end, range }.test();
    vec![
        loop_of("lt_u32", "unsigned, test at the end", "lt.u32", 1, true, SMALL),
        loop_of("lt_u32_at_start", "unsigned, test at the start, also no iteration", "lt.u32", 1, false, SMALL),
        loop_of("le_u32", "unsigned, the limit included", "le.u32", 2, true, SMALL),
        loop_of("lt_u32_wraps", "the counter wraps around", "lt.u32", 0x00f0_0001, true, wrapping),
        loop_of("lt_u32_number", "a limit that is a number", "lt.u32", 1, true, to_number),
        loop_of("lt_s32", "signed, a step of three", "lt.s32", 3, true, AROUND_ZERO),
        loop_of("lt_s32_at_start", "signed, test at the start", "lt.s32", 2, false, AROUND_ZERO),
        loop_of("lt_s32_least", "limits near the smallest number", "lt.s32", 1, true, near_least),
        loop_of("le_s32_most", "limits near the largest number", "le.s32", 1, true, near_most),
        loop_of("gt_s32", "counts down", "gt.s32", -2, true, DOWN),
        loop_of("ge_s32_at_start", "counts down, test at the start", "ge.s32", -3, false, DOWN),
        loop_of("ge_u32", "counts down, unsigned", "ge.u32", -1, true, positive),
        loop_of("gt_u32_at_start", "counts down, unsigned, test at the start", "gt.u32", -1, false, positive),
        loop_of("ne_u32", "until equal, across the end of the numbers", "ne.u32", 1, true, ahead),
        loop_of("ne_s32_at_start", "until equal, test at the start", "ne.s32", 1, false, ahead),
        loop_of("ne_s32_down", "until equal, down by four", "ne.s32", -4, true, behind),
        loop_of("ne_s32_to_zero", "until zero", "ne.s32", -1, true, to_zero),
    ]
}

/// A loop with a 64-bit counter that starts at `x << shift` plus `start`, goes by `step`, and ends up to 15 steps later.
fn wide_loop(name: &str, about: &str, relation: &str, (shift, start, step): (u32, i64, i64), tests_at_end: bool) -> Generated {
    let range = format!(
        "cvt.u64.u32 %rd1, %r1;\nshl.b64 %rd1, %rd1, {shift};\nadd.s64 %rd1, %rd1, {start};\nbfe.u32 %r2, %r1, 3, 4;\ncvt.u64.u32 %rd2, %r2;
         mad.lo.s64 %rd2, %rd2, {step}, %rd1;\nmov.u32 %r0, %r1;"
    );
    let body =
        "cvt.u32.u64 %r3, %rd1;\nmad.lo.u32 %r0, %r0, 31, %r3;\nshr.u64 %rd3, %rd1, 32;\ncvt.u32.u64 %r3, %rd3;\nxor.b32 %r0, %r0, %r3;";
    let next = format!("add.s64 %rd1, %rd1, {step};");
    let text = if tests_at_end {
        format!("{range}\nL:\n{body}\n{next}\nsetp.{relation} %p1, %rd1, %rd2;\n@%p1 bra L;")
    } else {
        format!("{range}\nL:\nsetp.{relation} %p1, %rd1, %rd2;\n@!%p1 bra END;\n{body}\n{next}\nbra L;\nEND:")
    };
    let continues = |counter: i64, limit: i64| match relation {
        "lt.s64" => counter < limit,
        "le.s64" => counter <= limit,
        "gt.s64" => counter > limit,
        "lt.u64" => (counter as u64) < limit as u64,
        "ne.s64" => counter != limit,
        other => panic!("{other}"),
    };
    test(name, about, &text, |x| {
        let mut counter = (i64::from(x) << shift).wrapping_add(start);
        let limit = i64::from(x >> 3 & 15).wrapping_mul(step).wrapping_add(counter);
        let mut result = x;
        for _ in 0..MAX_TRIPS {
            if !tests_at_end && !continues(counter, limit) {
                return result;
            }
            result = result.wrapping_mul(31).wrapping_add(counter as u32) ^ (counter as u64 >> 32) as u32;
            counter = counter.wrapping_add(step);
            if tests_at_end && !continues(counter, limit) {
                return result;
            }
        }
        panic!("{name} does not end for {x:#x}");
    })
}

fn wide() -> Vec<Generated> {
    vec![
        wide_loop("lt_s64", "64-bit counters, carries into the upper half", "lt.s64", (3, -40, 1), true),
        wide_loop("lt_s64_at_start", "64-bit counters, test at the start", "lt.s64", (20, -7, 5), false),
        wide_loop("lt_s64_least", "limits near the smallest number", "lt.s64", (0, i64::MIN, 1), true),
        wide_loop("le_s64", "64-bit counters, the limit included", "le.s64", (0, 0xffff_fff0, 3), true),
        wide_loop("gt_s64", "64-bit counters count down", "gt.s64", (0, 0x1_0000_0000, -7), true),
        wide_loop("lt_u64", "unsigned 64-bit counters", "lt.u64", (31, 5, 2), true),
        wide_loop("ne_s64_at_start", "until equal, test at the start", "ne.s64", (31, -9, 1), false),
        wide_loop("ne_s64_down", "until equal, down, test at the start", "ne.s64", (0, 3, -4), false),
    ]
}

/// A loop with a constant number of iterations, and its result.
fn constant(name: &str, about: &str, start: u32, update: &str, test_text: &str, next: fn(u32) -> Option<u32>) -> Generated {
    let body = format!("mov.u32 %r0, %r1;\nmov.u32 %r2, {start};\nL:\nmad.lo.u32 %r0, %r0, 31, %r2;\n{update}\n{test_text}\n@%p1 bra L;");
    test(name, about, &body, |x| {
        let (mut result, mut counter) = (x, Some(start));
        while let Some(number) = counter {
            result = result.wrapping_mul(31).wrapping_add(number);
            counter = next(number);
        }
        result
    })
}

fn others() -> Vec<Generated> {
    vec![
        constant("five_times", "five iterations", 0, "add.u32 %r2, %r2, 1;", "setp.lt.u32 %p1, %r2, 5;", |i| {
            Some(i + 1).filter(|&i| i < 5)
        }),
        constant("once", "one iteration", 9, "add.u32 %r2, %r2, 1;", "setp.lt.u32 %p1, %r2, 5;", |_| None),
        constant("halves", "shifts its counter", 0x4000, "shr.u32 %r2, %r2, 1;", "setp.ne.u32 %p1, %r2, 0;", |i| {
            Some(i >> 1).filter(|&i| i != 0)
        }),
        constant("hundred_times", "a hundred iterations", 0, "add.u32 %r2, %r2, 1;", "setp.ne.u32 %p1, %r2, 100;", |i| {
            Some(i + 1).filter(|&i| i != 100)
        }),
        constant("prime_times", "a number of iterations without divisors", 0, "add.u32 %r2, %r2, 2;", "setp.lt.s32 %p1, %r2, 202;", |i| {
            Some(i + 2).filter(|&i| i < 202)
        }),
        test(
            "branch_inside",
            "a branch in the body, and several values that are read after the loop",
            "and.b32 %r3, %r1, 31;
             mov.u32 %r2, 0; mov.u32 %r4, 0; mov.u32 %r5, %r1;
             L:
             and.b32 %r6, %r5, 1;
             setp.eq.u32 %p2, %r6, 0;
             @%p2 bra EVEN;
             mad.lo.u32 %r5, %r5, 3, %r2;
             add.u32 %r4, %r4, 1;
             bra JOIN;
             EVEN:
             shr.u32 %r5, %r5, 1;
             xor.b32 %r4, %r4, %r5;
             JOIN:
             add.u32 %r2, %r2, 1;
             setp.le.u32 %p1, %r2, %r3;
             @%p1 bra L;
             mad.lo.u32 %r0, %r4, 7, %r5;
             add.u32 %r0, %r0, %r2;",
            |x| {
                let (mut counted, mut y) = (0_u32, x);
                for i in 0..=(x & 31) {
                    if y & 1 == 0 {
                        y >>= 1;
                        counted ^= y;
                    } else {
                        y = y.wrapping_mul(3).wrapping_add(i);
                        counted = counted.wrapping_add(1);
                    }
                }
                counted.wrapping_mul(7).wrapping_add(y).wrapping_add((x & 31) + 1)
            },
        ),
        test(
            "tests_old_value",
            "the test compares the counter before the addition, which wraps around",
            "mov.u32 %r0, 0; mov.u32 %r2, %r1;
             L:
             mad.lo.u32 %r0, %r0, 31, %r2;
             setp.lt.u32 %p1, %r2, 0xffc00000;
             add.u32 %r2, %r2, 0xf00001;
             @%p1 bra L;",
            |x| {
                let (mut result, mut counter) = (0_u32, x);
                loop {
                    result = result.wrapping_mul(31).wrapping_add(counter);
                    if counter >= 0xffc0_0000 {
                        return result;
                    }
                    counter = counter.wrapping_add(0x00f0_0001);
                }
            },
        ),
        test(
            "exchange",
            "two values change places in each iteration",
            "bfe.u32 %r3, %r1, 3, 4;
             mov.u32 %r2, 0; mov.u32 %r4, %r1; mov.u32 %r5, 1;
             L:
             mov.u32 %r6, %r4;
             mov.u32 %r4, %r5;
             mov.u32 %r5, %r6;
             add.u32 %r2, %r2, 1;
             setp.lt.u32 %p1, %r2, %r3;
             @%p1 bra L;
             sub.u32 %r0, %r4, %r5;",
            |x| {
                let times = (x >> 3 & 15).max(1);
                if times % 2 == 1 { 1_u32.wrapping_sub(x) } else { x.wrapping_sub(1) }
            },
        ),
        test(
            "nounroll",
            "a loop that must not be unrolled",
            "mov.u32 %r0, %r1; mov.u32 %r2, 0;
             L:
             .pragma \"nounroll\";
             mad.lo.u32 %r0, %r0, 31, %r2;
             add.u32 %r2, %r2, 1;
             setp.lt.u32 %p1, %r2, 6;
             @%p1 bra L;",
            |x| (0..6).fold(x, |result: u32, i| result.wrapping_mul(31).wrapping_add(i)),
        ),
        test(
            "invariant_loads",
            "loads of neighbouring words that do not change in the loop, and loads that do",
            ".shared .align 16 .b8 tile[2048];
             mov.u32 %r2, %tid.x;
             mov.u32 %r3, tile;
             shl.b32 %r4, %r2, 4;
             add.u32 %r4, %r4, %r3;
             st.shared.u32 [%r4], %r1;
             not.b32 %r5, %r1;
             st.shared.u32 [%r4+4], %r5;
             add.u32 %r5, %r1, 77;
             st.shared.u32 [%r4+8], %r5;
             shr.u32 %r5, %r1, 3;
             st.shared.u32 [%r4+12], %r5;
             mov.u32 %r0, 0;
             mov.u32 %r6, 0;
             and.b32 %r7, %r1, 15;
             L:
             ld.shared.u32 %r8, [%r4+12];
             ld.shared.u32 %r9, [%r4];
             ld.shared.u32 %r10, [%r4+8];
             ld.shared.u32 %r11, [%r4+4];
             mad.lo.u32 %r0, %r0, 31, %r8;
             mad.lo.u32 %r0, %r0, 31, %r9;
             mad.lo.u32 %r0, %r0, 31, %r10;
             mad.lo.u32 %r0, %r0, 31, %r11;
             add.u32 %r6, %r6, 1;
             setp.lt.u32 %p1, %r6, %r7;
             @%p1 bra L;
             mov.u32 %r6, 0;
             M:
             ld.shared.u32 %r9, [%r4];
             ld.shared.u32 %r11, [%r4+4];
             mad.lo.u32 %r9, %r9, 31, %r11;
             st.shared.u32 [%r4], %r9;
             add.u32 %r6, %r6, 1;
             setp.lt.u32 %p1, %r6, %r7;
             @%p1 bra M;
             add.u32 %r0, %r0, %r9;",
            |x| {
                let times = (x & 15).max(1);
                let first = (0..times).flat_map(|_| [x >> 3, x, x.wrapping_add(77), !x]);
                let first = first.fold(0_u32, |result, word| result.wrapping_mul(31).wrapping_add(word));
                (0..times).fold(x, |word, _| word.wrapping_mul(31).wrapping_add(!x)).wrapping_add(first)
            },
        ),
        test(
            "nested",
            "the limit of the inner loop is the counter of the outer one",
            "mov.u32 %r0, %r1; and.b32 %r3, %r1, 15; mov.u32 %r2, 0;
             OUTER:
             mov.u32 %r4, 0;
             L:
             mad.lo.u32 %r0, %r0, 31, %r4;
             add.u32 %r4, %r4, 1;
             setp.lt.u32 %p1, %r4, %r2;
             @%p1 bra L;
             xor.b32 %r0, %r0, %r2;
             add.u32 %r2, %r2, 1;
             setp.le.u32 %p2, %r2, %r3;
             @%p2 bra OUTER;",
            |x| {
                (0..=(x & 15)).fold(x, |result, outer| {
                    (0..outer.max(1)).fold(result, |result: u32, inner| result.wrapping_mul(31).wrapping_add(inner)) ^ outer
                })
            },
        ),
    ]
}
