//! Generates tests of control flow: divergence, loops, jump tables, exits. A Rust function next to each kernel computes the expected
//! result.

mod unstructured;

use crate::kernel::{Generated, Kernel, bits, load, store};
use crate::ty::{U32, U64};
use oriole_kernel_test::{Fill, Source};

const FAMILY: &str = "control";
const THREADS: usize = 256;

pub fn tests() -> Vec<Generated> {
    let mut tests = Vec::new();
    tests.extend(branches());
    tests.extend(loops());
    tests.extend(unstructured::tests());
    tests
}

fn inputs() -> (Fill, Vec<u32>) {
    let fill = Fill::of(&[(Source::Boundary { stride: 1 }, 22), (Source::Sized { seed: 4 }, 134), (Source::Random { seed: 5 }, 100)]);
    let values = fill.values(U32.element, THREADS).into_iter().map(|x| x as u32).collect();
    (fill, values)
}

/// Creates a test whose body reads the input from `%r1` and leaves the result in `%r0`.
fn test(name: &str, about: &str, body: &str, meaning: impl Fn(u32, u32) -> u32) -> Generated {
    let (fill, values) = inputs();
    let expected = values.iter().enumerate().map(|(i, &x)| u64::from(meaning(i as u32, x)));
    Kernel::new(FAMILY, name, about)
        .threads(THREADS)
        .buffer("a", U32, THREADS, fill)
        .output("d", U32, bits(expected))
        .body(&load(U32, "%r1", "a"))
        .body(body)
        .body(&store(U32, "%r0", "d"))
        .finish()
}

fn branches() -> Vec<Generated> {
    vec![
        test(
            "if_then",
            "one-sided branch",
            "mov.u32 %r0, %r1;\nsetp.gt.s32 %p1, %r1, 10;\n@!%p1 bra END;\nmul.lo.u32 %r0, %r1, 3;\nEND:",
            |_, x| {
                if x as i32 > 10 { x.wrapping_mul(3) } else { x }
            },
        ),
        test(
            "if_then_else",
            "two-sided branch",
            "setp.lt.u32 %p1, %r1, 1000;
             @%p1 bra THEN;
             shr.u32 %r0, %r1, 4;
             bra.uni END;
             THEN:
             mad.lo.u32 %r0, %r1, 5, 1;
             END:",
            |_, x| if x < 1000 { x.wrapping_mul(5).wrapping_add(1) } else { x >> 4 },
        ),
        test(
            "nested_if",
            "three levels of divergence with code after each join",
            "mov.u32 %r0, 0;
             and.b32 %r2, %r1, 1;
             setp.eq.u32 %p1, %r2, 0;
             @%p1 bra EVEN;
             add.u32 %r0, %r0, 1;
             and.b32 %r3, %r1, 2;
             setp.eq.u32 %p2, %r3, 0;
             @%p2 bra LOW;
             add.u32 %r0, %r0, 10;
             and.b32 %r4, %r1, 4;
             setp.eq.u32 %p3, %r4, 0;
             @%p3 bra INNER;
             add.u32 %r0, %r0, 100;
             INNER:
             mul.lo.u32 %r0, %r0, 3;
             bra LOW_END;
             LOW:
             add.u32 %r0, %r0, 1000;
             LOW_END:
             mul.lo.u32 %r0, %r0, 5;
             bra END;
             EVEN:
             sub.u32 %r0, %r1, 7;
             END:
             xor.b32 %r0, %r0, %r1;",
            |_, x| {
                let value = if x & 1 == 0 {
                    x.wrapping_sub(7)
                } else if x & 2 == 0 {
                    1001 * 5
                } else {
                    (if x & 4 != 0 { 111 } else { 11 }) * 3 * 5
                };
                value ^ x
            },
        ),
        test(
            "short_circuit",
            "a || (b && c) by branches",
            "setp.eq.u32 %p1, %r1, 0;
             @%p1 bra YES;
             and.b32 %r2, %r1, 3;
             setp.ne.u32 %p2, %r2, 1;
             @%p2 bra NO;
             setp.gt.u32 %p3, %r1, 100;
             @%p3 bra YES;
             NO:
             mov.u32 %r0, 5;
             bra END;
             YES:
             mov.u32 %r0, 6;
             END:",
            |_, x| if x == 0 || x & 3 == 1 && x > 100 { 6 } else { 5 },
        ),
        test(
            "uniform_branch",
            "a branch on a value that all threads of a warp share",
            "mov.u32 %r0, 1;
             shr.u32 %r2, %i, 5;
             and.b32 %r2, %r2, 1;
             setp.eq.u32 %p1, %r2, 0;
             @%p1 bra.uni END;
             add.u32 %r0, %r1, 2;
             END:",
            |i, x| if i >> 5 & 1 == 0 { 1 } else { x.wrapping_add(2) },
        ),
        test(
            "guard_chain",
            "many instructions under different guards",
            "mov.u32 %r0, %r1;
             and.b32 %r2, %r1, 1;
             setp.ne.u32 %p1, %r2, 0;
             and.b32 %r2, %r1, 2;
             setp.ne.u32 %p2, %r2, 0;
             @%p1 add.u32 %r0, %r0, 13;
             @!%p1 sub.u32 %r0, %r0, 17;
             @%p2 mul.lo.u32 %r0, %r0, 3;
             @!%p2 xor.b32 %r0, %r0, 0x55;
             @%p1 setp.lt.u32 %p2, %r0, 100;
             @%p2 shl.b32 %r0, %r0, 1;
             @%p1 mov.u32 %r3, 5;
             @!%p1 mov.u32 %r3, 9;
             mad.lo.u32 %r0, %r0, %r3, 1;",
            |_, x| {
                let (p1, mut p2) = (x & 1 != 0, x & 2 != 0);
                let mut y = if p1 { x.wrapping_add(13) } else { x.wrapping_sub(17) };
                y = if p2 { y.wrapping_mul(3) } else { y ^ 0x55 };
                if p1 {
                    p2 = y < 100;
                }
                y = if p2 { y << 1 } else { y };
                y.wrapping_mul(if p1 { 5 } else { 9 }).wrapping_add(1)
            },
        ),
        test("sixteen_way", "a tree of comparisons, every lane its own way", &sixteen_way(), |i, x| {
            (x.wrapping_mul((i & 15) * 2 + 1)).rotate_left(i & 15)
        }),
    ]
}

fn sixteen_way() -> String {
    let mut body = String::from("and.b32 %r2, %i, 15;\n");
    for case in 0..16 {
        body.push_str(&format!("setp.eq.u32 %p1, %r2, {case};\n@%p1 bra CASE{case};\n"));
    }
    body.push_str("mov.u32 %r0, 0;\nbra END;\n");
    for case in 0..16 {
        body.push_str(&format!("CASE{case}:\nmul.lo.u32 %r3, %r1, {};\nshf.l.wrap.b32 %r0, %r3, %r3, {case};\nbra END;\n", case * 2 + 1));
    }
    body + "END:"
}

fn loops() -> Vec<Generated> {
    vec![
        test(
            "loop_uniform",
            "a loop of constant length",
            "mov.u32 %r0, 0;
             mov.u32 %r2, 0;
             NEXT:
             mad.lo.u32 %r0, %r0, 3, %r1;
             add.u32 %r2, %r2, 1;
             setp.lt.u32 %p1, %r2, 17;
             @%p1 bra NEXT;",
            |_, x| (0..17).fold(0u32, |sum, _| sum.wrapping_mul(3).wrapping_add(x)),
        ),
        test(
            "loop_divergent_count",
            "each lane leaves the loop after another number of rounds",
            "mov.u32 %r0, 0;
             and.b32 %r2, %r1, 31;
             NEXT:
             setp.eq.u32 %p1, %r2, 0;
             @%p1 bra END;
             mad.lo.u32 %r0, %r0, 7, %r2;
             sub.u32 %r2, %r2, 1;
             bra NEXT;
             END:",
            |_, x| (1..=x & 31).rev().fold(0u32, |sum, n| sum.wrapping_mul(7).wrapping_add(n)),
        ),
        test(
            "loop_two_exits",
            "a loop with an exit in the middle and one at the end",
            "mov.u32 %r0, %r1;
             mov.u32 %r2, 0;
             NEXT:
             and.b32 %r3, %r0, 7;
             setp.eq.u32 %p1, %r3, 3;
             @%p1 bra FOUND;
             mad.lo.u32 %r0, %r0, 5, 2;
             add.u32 %r2, %r2, 1;
             setp.lt.u32 %p2, %r2, 20;
             @%p2 bra NEXT;
             xor.b32 %r0, %r0, 0xff;
             bra END;
             FOUND:
             add.u32 %r0, %r0, %r2;
             END:",
            |_, x| {
                let mut y = x;
                for n in 0..20 {
                    if y & 7 == 3 {
                        return y.wrapping_add(n);
                    }
                    y = y.wrapping_mul(5).wrapping_add(2);
                }
                y ^ 0xff
            },
        ),
        test(
            "loop_continue",
            "a loop with continue and break",
            "mov.u32 %r0, 0;
             mov.u32 %r2, 0;
             NEXT:
             add.u32 %r2, %r2, 1;
             setp.gt.u32 %p1, %r2, 40;
             @%p1 bra END;
             shr.u32 %r3, %r1, %r2;
             and.b32 %r3, %r3, 1;
             setp.eq.u32 %p2, %r3, 0;
             @%p2 bra NEXT;
             add.u32 %r0, %r0, %r2;
             setp.gt.u32 %p3, %r0, 60;
             @%p3 bra END;
             bra NEXT;
             END:",
            |_, x| {
                let mut sum = 0;
                for n in 1..=40u32 {
                    if x.checked_shr(n).unwrap_or(0) & 1 != 0 {
                        sum += n;
                        if sum > 60 {
                            break;
                        }
                    }
                }
                sum
            },
        ),
        test(
            "loop_nested",
            "two loops, the inner one as long as the outer's counter and the lane say",
            "mov.u32 %r0, 1;
             mov.u32 %r2, 0;
             OUTER:
             add.u32 %r3, %r2, %i;
             and.b32 %r3, %r3, 7;
             INNER:
             setp.eq.u32 %p1, %r3, 0;
             @%p1 bra INNER_END;
             mad.lo.u32 %r0, %r0, 31, %r3;
             sub.u32 %r3, %r3, 1;
             bra INNER;
             INNER_END:
             xor.b32 %r0, %r0, %r1;
             add.u32 %r2, %r2, 1;
             setp.lt.u32 %p2, %r2, 6;
             @%p2 bra OUTER;",
            |i, x| {
                (0..6).fold(1u32, |y, n| {
                    let y = (1..=(n + i) & 7).rev().fold(y, |y, k| y.wrapping_mul(31).wrapping_add(k));
                    y ^ x
                })
            },
        ),
        test(
            "gcd",
            "Euclid's algorithm with remainders",
            "or.b32 %r0, %r1, 1;
             add.u32 %r2, %i, 6;
             NEXT:
             setp.eq.u32 %p1, %r2, 0;
             @%p1 bra END;
             rem.u32 %r3, %r0, %r2;
             mov.u32 %r0, %r2;
             mov.u32 %r2, %r3;
             bra NEXT;
             END:",
            |i, x| {
                let (mut a, mut b) = (x | 1, i + 6);
                while b != 0 {
                    (a, b) = (b, a % b);
                }
                a
            },
        ),
        test(
            "collatz",
            "very uneven trip counts",
            "and.b32 %r2, %r1, 0xffff;
             or.b32 %r2, %r2, 1;
             mov.u32 %r0, 0;
             NEXT:
             setp.eq.u32 %p1, %r2, 1;
             @%p1 bra END;
             and.b32 %r3, %r2, 1;
             setp.ne.u32 %p2, %r3, 0;
             @%p2 mad.lo.u32 %r2, %r2, 3, 1;
             @!%p2 shr.u32 %r2, %r2, 1;
             add.u32 %r0, %r0, 1;
             bra NEXT;
             END:",
            |_, x| {
                let (mut y, mut steps) = (x & 0xffff | 1, 0);
                while y != 1 {
                    y = if y & 1 != 0 { y.wrapping_mul(3).wrapping_add(1) } else { y >> 1 };
                    steps += 1;
                }
                steps
            },
        ),
        test(
            "fibonacci_swap",
            "two values that change places in each round",
            "and.b32 %r2, %r1, 63;
             mov.u32 %r0, 0;
             mov.u32 %r3, 1;
             NEXT:
             setp.eq.u32 %p1, %r2, 0;
             @%p1 bra END;
             add.u32 %r4, %r0, %r3;
             mov.u32 %r0, %r3;
             mov.u32 %r3, %r4;
             sub.u32 %r2, %r2, 1;
             bra NEXT;
             END:",
            |_, x| (0..x & 63).fold((0u32, 1u32), |(a, b), _| (b, a.wrapping_add(b))).0,
        ),
        wide_loop(),
        many_values(),
    ]
}

/// 64-bit values are live around a loop.
fn wide_loop() -> Generated {
    let (fill, values) = inputs();
    let mix = |x: u32| {
        (0..8).fold(u64::from(x), |y, n| {
            let y = (y ^ y >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            if y & 1 == 0 { y.wrapping_add(n) } else { y.rotate_left(13) }
        })
    };
    Kernel::new(FAMILY, "loop_64_bit", "64-bit arithmetic around a loop with a branch inside")
        .threads(THREADS)
        .buffer("a", U32, THREADS, fill)
        .output("d", U64, bits(values.iter().map(|&x| mix(x))))
        .body(&load(U32, "%r1", "a"))
        .body(
            "cvt.u64.u32 %rd1, %r1;
             mov.u64 %rd5, 0;
             NEXT:
             shr.u64 %rd2, %rd1, 29;
             xor.b64 %rd1, %rd1, %rd2;
             mul.lo.u64 %rd1, %rd1, 0xbf58476d1ce4e5b9;
             and.b64 %rd3, %rd1, 1;
             setp.eq.u64 %p1, %rd3, 0;
             @%p1 bra EVEN;
             shl.b64 %rd3, %rd1, 13;
             shr.u64 %rd4, %rd1, 51;
             or.b64 %rd1, %rd3, %rd4;
             bra JOIN;
             EVEN:
             add.u64 %rd1, %rd1, %rd5;
             JOIN:
             add.u64 %rd5, %rd5, 1;
             setp.lt.u64 %p2, %rd5, 8;
             @%p2 bra NEXT;",
        )
        .body(&store(U64, "%rd1", "d"))
        .finish()
}

/// More values are live than small register budgets hold.
fn many_values() -> Generated {
    let (fill, values) = inputs();
    let count = 60u32;
    let meaning = |x: u32| {
        let mut state: Vec<u32> = (0..count).map(|k| x.wrapping_mul(2 * k + 1)).collect();
        for _ in 0..3 {
            let last = state[count as usize - 1];
            for k in (1..count as usize).rev() {
                state[k] = state[k].wrapping_add(state[k - 1]);
            }
            state[0] ^= last;
        }
        state.iter().fold(0u32, |sum, y| sum.wrapping_mul(3) ^ y)
    };
    let mut body = String::new();
    for k in 0..count {
        body.push_str(&format!("mul.lo.u32 %v{k}, %r1, {};\n", 2 * k + 1));
    }
    body.push_str("mov.u32 %r2, 0;\nNEXT:\n");
    body.push_str(&format!("mov.u32 %r3, %v{};\n", count - 1));
    for k in (1..count).rev() {
        body.push_str(&format!("add.u32 %v{k}, %v{k}, %v{};\n", k - 1));
    }
    body.push_str("xor.b32 %v0, %v0, %r3;\nadd.u32 %r2, %r2, 1;\nsetp.lt.u32 %p1, %r2, 3;\n@%p1 bra NEXT;\nmov.u32 %r0, 0;\n");
    for k in 0..count {
        body.push_str(&format!("mul.lo.u32 %r0, %r0, 3;\nxor.b32 %r0, %r0, %v{k};\n"));
    }
    Kernel::new(FAMILY, "many_live_values", "sixty values alive around a loop, at most 32 registers allowed")
        .threads(THREADS)
        .attributes(".maxnreg 32")
        .registers(".reg .u32 %v<60>;")
        .buffer("a", U32, THREADS, fill)
        .output("d", U32, bits(values.iter().map(|&x| u64::from(meaning(x)))))
        .body(&load(U32, "%r1", "a"))
        .body(&body)
        .body(&store(U32, "%r0", "d"))
        .finish()
}
