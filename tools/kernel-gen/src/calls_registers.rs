//! Generates tests of calls that pass vector and predicate registers, and of accesses beyond the ends of parameters.

use crate::kernel::{Generated, Kernel, bits, load, store};
use crate::ty::U32;
use oriole_kernel_test::{Fill, Source};

const FAMILY: &str = "calls";
const THREADS: usize = 64;

pub fn tests() -> Vec<Generated> {
    vec![
        vector_of_words(),
        vector_of_narrow(),
        vector_of_long(),
        vectors_on_stack(),
        predicates(),
        next_kernel_parameter(),
        across_call_parameter(),
    ]
}

/// Creates a test whose body reads the input from `%r1` and leaves the result in `%r0`.
fn test(name: &str, about: &str, meaning: impl Fn(u32, u32) -> u32) -> Kernel {
    let fill = Fill::of(&[(Source::Boundary { stride: 1 }, 22), (Source::Random { seed: 67 }, THREADS - 22)]);
    let values = fill.values(U32.element, THREADS);
    let expected = values.iter().enumerate().map(|(i, &x)| u64::from(meaning(i as u32, x as u32)));
    Kernel::new(FAMILY, name, about)
        .threads(THREADS)
        .output("d", U32, bits(expected.collect::<Vec<u64>>()))
        .buffer("a", U32, THREADS, fill)
        .body(&load(U32, "%r1", "a"))
}

fn vector_of_words() -> Generated {
    test("vector_registers_b32", "a .v4 argument and a .v2 result in registers", |i, x| {
        let (first, second) = (x.wrapping_add(i.wrapping_mul(3)), (x ^ 7).wrapping_sub(i));
        first.wrapping_mul(5).wrapping_add(second)
    })
    .module(
        ".func (.reg .v2 .b32 %result) combine(.reg .v4 .b32 %x, .reg .b32 %factor)
         {
         mad.lo.u32 %result.x, %x.y, %factor, %x.x;
         sub.u32 %result.y, %x.w, %x.z;
         ret;
         }",
    )
    .registers(".reg .v4 .b32 %four;\n.reg .v2 .b32 %two;")
    .body(
        "mov.b32 %four.x, %r1;
         mov.b32 %four.y, %i;
         mov.b32 %four.z, %i;
         xor.b32 %four.w, %r1, 7;
         call (%two), combine, (%four, 3);
         mad.lo.u32 %r0, %two.x, 5, %two.y;",
    )
    .body(&store(U32, "%r0", "d"))
    .finish()
}

fn vector_of_narrow() -> Generated {
    test("vector_registers_narrow", "vectors of 8-bit and 16-bit registers as arguments and results", |_, x| {
        let bytes = x.to_be_bytes();
        let sum = |a: u8, b: u8| u32::from(a) + u32::from(b);
        let (low, high) = (sum(bytes[3], bytes[1]), sum(bytes[2], bytes[0]));
        let swapped = x.rotate_left(16);
        (low | high << 16).wrapping_add(swapped)
    })
    .module(
        ".func (.reg .v2 .b16 %result) sums(.reg .v4 .b8 %x, .reg .b16 %zero)
         {
         .reg .b16 %s, %t;
         cvt.u16.u8 %s, %x.x;
         cvt.u16.u8 %t, %x.z;
         add.u16 %result.x, %s, %t;
         add.u16 %result.x, %result.x, %zero;
         cvt.u16.u8 %s, %x.y;
         cvt.u16.u8 %t, %x.w;
         add.u16 %result.y, %s, %t;
         ret;
         }
         .func (.reg .v2 .b16 %result) swap(.reg .b32 %unused, .reg .v2 .b16 %x)
         {
         mov.b16 %result.x, %x.y;
         mov.b16 %result.y, %x.x;
         ret;
         }",
    )
    .registers(".reg .v4 .b8 %bytes;\n.reg .v2 .b16 %halves, %sums;\n.reg .b16 %zero;")
    .body(
        "mov.b32 %bytes, %r1;
         mov.b32 %halves, %r1;
         mov.b16 %zero, 0;
         call (%sums), sums, (%bytes, %zero);
         call (%halves), swap, (%r1, %halves);
         mov.b32 %r2, %sums;
         mov.b32 %r3, %halves;
         add.u32 %r0, %r2, %r3;",
    )
    .body(&store(U32, "%r0", "d"))
    .finish()
}

fn vector_of_long() -> Generated {
    test("vector_registers_b64", "a .v2 .b64 argument and result among scalars", |i, x| {
        let (first, second) = (u64::from(x) << 20 | u64::from(i), u64::from(!x) << 3);
        let (first, second) = (second.wrapping_add(9), first.wrapping_add(u64::from(i)));
        (first ^ second ^ first >> 32 ^ second >> 32) as u32
    })
    .module(
        ".func (.reg .v2 .b64 %result) exchange(.reg .b32 %small, .reg .v2 .b64 %x, .reg .v2 .b32 %y)
         {
         .reg .b64 %wide;
         cvt.u64.u32 %wide, %y.y;
         add.u64 %result.y, %x.x, %wide;
         cvt.u64.u32 %wide, %small;
         add.u64 %result.x, %x.y, %wide;
         ret;
         }",
    )
    .registers(".reg .v2 .b64 %pair;\n.reg .v2 .b32 %words;")
    .body(
        "cvt.u64.u32 %rd1, %r1;
         shl.b64 %rd1, %rd1, 20;
         cvt.u64.u32 %rd2, %i;
         or.b64 %pair.x, %rd1, %rd2;
         not.b32 %r2, %r1;
         cvt.u64.u32 %rd3, %r2;
         shl.b64 %pair.y, %rd3, 3;
         mov.b32 %words.x, 1;
         mov.b32 %words.y, %i;
         call (%pair), exchange, (9, %pair, %words);
         xor.b64 %rd4, %pair.x, %pair.y;
         shr.u64 %rd5, %rd4, 32;
         xor.b64 %rd4, %rd4, %rd5;
         cvt.u32.u64 %r0, %rd4;",
    )
    .body(&store(U32, "%r0", "d"))
    .finish()
}

/// More arguments than registers can pass: the last ones are passed in memory.
fn vectors_on_stack() -> Generated {
    let module = ".func (.reg .b32 %result) many(.reg .v4 .b32 %a, .reg .v4 .b32 %b, .reg .v4 .b32 %c, .reg .v4 .b32 %e, .reg .v2 .b16 %f)
         {
         .reg .b32 %t;
         add.u32 %result, %a.x, %b.y;
         add.u32 %result, %result, %c.z;
         mad.lo.u32 %result, %e.w, 3, %result;
         mov.b32 %t, %f;
         xor.b32 %result, %result, %t;
         ret;
         }";
    test("vector_registers_on_stack", "vector arguments that do not fit into registers", |i, x| {
        x.wrapping_add(i).wrapping_add(5).wrapping_add((x ^ i).wrapping_mul(3)) ^ x.rotate_left(16)
    })
    .module(module)
    .registers(".reg .v4 .b32 %va, %vb, %vc, %ve;\n.reg .v2 .b16 %vf, %vg;")
    .body(
        "mov.v4.b32 %va, {%r1, 0, 0, 0};
         mov.v4.b32 %vb, {0, %i, 0, 0};
         mov.v4.b32 %vc, {0, 0, 5, 0};
         xor.b32 %r2, %r1, %i;
         mov.v4.b32 %ve, {0, 0, 0, %r2};
         mov.b32 %vg, %r1;
         mov.b16 %vf.x, %vg.y;
         mov.b16 %vf.y, %vg.x;
         call (%r0), many, (%va, %vb, %vc, %ve, %vf);",
    )
    .body(&store(U32, "%r0", "d"))
    .finish()
}

fn predicates() -> Generated {
    test("predicate_registers", "predicates as arguments and results of a function with two results", |i, x| {
        let (p, q) = (x & 1 == 1, i % 3 == 0);
        let value = if p { x.wrapping_add(17) } else { x ^ 0x55 };
        if p != q { value } else { value.wrapping_mul(3) }
    })
    .module(
        ".func (.reg .pred %differ, .reg .b32 %value) judge(.reg .pred %p, .reg .b32 %x, .reg .pred %q)
         {
         xor.pred %differ, %p, %q;
         xor.b32 %value, %x, 0x55;
         @%p add.u32 %value, %x, 17;
         ret;
         }",
    )
    .body(
        "and.b32 %r2, %r1, 1;
         setp.eq.u32 %p1, %r2, 1;
         rem.u32 %r3, %i, 3;
         setp.eq.u32 %p2, %r3, 0;
         call (%p3, %r0), judge, (%p1, %r1, %p2);
         @!%p3 mul.lo.u32 %r0, %r0, 3;",
    )
    .body(&store(U32, "%r0", "d"))
    .finish()
}

/// The parameters of a kernel are adjacent in memory, so an offset beyond one reaches the next.
fn next_kernel_parameter() -> Generated {
    test("parameter_beyond_kernel", "ld.param beyond a kernel's parameter reads the next one", |_, x| {
        x.wrapping_add(0x0403_0201).wrapping_add(0x0807_0605).wrapping_add(0x0c0b_0a09)
    })
    .bytes("block", 4, (1..=12).collect())
    .body(
        "ld.param.u64 %rd1, [d+8];
         cvta.to.global.u64 %rd1, %rd1;
         mad.wide.u32 %rd1, %i, 4, %rd1;
         ld.global.u32 %r2, [%rd1];
         ld.param.u32 %r3, [d+16];
         ld.param.v2.u32 {%r4, %r5}, [a+8];
         ld.param.u32 %r6, [a+16];
         sub.u32 %r3, %r3, %r4;
         add.u32 %r0, %r2, %r3;
         add.u32 %r0, %r0, %r4;
         add.u32 %r0, %r0, %r5;
         add.u32 %r0, %r0, %r6;",
    )
    .body(&store(U32, "%r0", "d"))
    .finish()
}

/// Only the bytes of an access that are inside the parameter are defined.
fn across_call_parameter() -> Generated {
    test("parameter_across_call", "st.param and ld.param of eight bytes on parameters of four", |i, x| x.wrapping_mul(3) ^ i)
        .module(
            ".func (.param .align 8 .b8 result[4]) three_times(.param .align 8 .b8 argument[4])
             {
             .reg .b64 %wide;
             .reg .b32 %x;
             ld.param.b64 %wide, [argument];
             cvt.u32.u64 %x, %wide;
             mul.lo.u32 %x, %x, 3;
             cvt.u64.u32 %wide, %x;
             st.param.b64 [result], %wide;
             ret;
             }",
        )
        .body(
            "cvt.u64.u32 %rd1, %r1;
             {
             .param .align 8 .b8 sent[4];
             .param .align 8 .b8 back[4];
             st.param.b64 [sent], %rd1;
             call (back), three_times, (sent);
             ld.param.b64 %rd2, [back];
             }
             cvt.u32.u64 %r2, %rd2;
             xor.b32 %r0, %r2, %i;",
        )
        .body(&store(U32, "%r0", "d"))
        .finish()
}
