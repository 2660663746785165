//! Generates accesses without a state space to variables by name; each must use the space of the variable.

use crate::kernel::{Generated, Kernel, bits, store};
use crate::ty::U32;

const FAMILY: &str = "variables";
const THREADS: usize = 32;

pub fn tests() -> Vec<Generated> {
    vec![local(), local_in_function(), shared(), shared_atomics(), shared_dynamic(), global(), matrix_registers()]
}

/// Creates a test with one value per thread, which the body leaves in `%r0`.
fn test(name: &str, about: &str, value: impl Fn(u64) -> u64) -> Kernel {
    Kernel::new(FAMILY, name, about).threads(THREADS).output("d", U32, bits((0..THREADS as u64).map(value)))
}

fn local() -> Generated {
    test("own_space_local", "ld and st without a space, of a local variable", |i| {
        let (a, b, c) = (i * 3 + 1, i * 5 + 2, i << 8 | 7);
        (a + 2 * b + 3 * c + 5 * (a ^ b) + 7 * (c & 0xff) + 11 * a) & 0xffff_ffff
    })
    .registers(".local .align 16 .b8 area[64];\n.reg .v2 .b32 %v;")
    .body(
        "mad.lo.u32 %r1, %i, 3, 1;
         mad.lo.u32 %r2, %i, 5, 2;
         shl.b32 %r3, %i, 8;
         or.b32 %r3, %r3, 7;
         st.u32 [area], %r1;
         st.volatile.u32 [area+4], %r2;
         cvt.u64.u32 %rd1, %r3;
         st.u64 [area+8], %rd1;
         xor.b32 %r4, %r1, %r2;
         mov.b32 %v.x, %r4;
         mov.b32 %v.y, %r1;
         st.v2.u32 [area+16], %v;
         prefetch.L1 [area];
         ld.u32 %r5, [area];
         ld.u32 %r6, [area+4];
         ld.volatile.u64 %rd2, [area+8];
         cvt.u32.u64 %r7, %rd2;
         ld.v2.u32 {%r8, %r9}, [area+16];
         ld.u8 %r10, [area+8];
         mad.lo.u32 %r0, %r6, 2, %r5;
         mad.lo.u32 %r0, %r7, 3, %r0;
         mad.lo.u32 %r0, %r8, 5, %r0;
         mad.lo.u32 %r0, %r10, 7, %r0;
         mad.lo.u32 %r0, %r9, 11, %r0;",
    )
    .body(&store(U32, "%r0", "d"))
    .finish()
}

fn local_in_function() -> Generated {
    test("own_space_in_function", "a function's local variable and a shared one, without a space", |i| i * 9 + 40)
        .module(
            ".shared .align 4 .b32 common;
             .func (.param .b32 result) nine_times(.param .b32 argument)
             {
             .local .align 8 .b64 area[2];
             .reg .b32 %x, %y;
             .reg .b64 %z;
             ld.param.b32 %x, [argument];
             mul.wide.u32 %z, %x, 9;
             st.b64 [area+8], %z;
             ld.b32 %y, [area+8];
             ld.b32 %x, [common];
             add.u32 %y, %y, %x;
             st.param.b32 [result], %y;
             ret;
             }",
        )
        .body(
            "setp.eq.u32 %p1, %i, 0;
             @%p1 st.u32 [common], 40;
             bar.sync 0;
             {
             .param .b32 sent;
             .param .b32 back;
             st.param.b32 [sent], %i;
             call (back), nine_times, (sent);
             ld.param.b32 %r0, [back];
             }",
        )
        .body(&store(U32, "%r0", "d"))
        .finish()
}

fn shared() -> Generated {
    test("own_space_shared", "ld and st without a space, of shared variables", |i| i + 1000 + 2 * 77 + 3 * 5 + 7 * 0x1_0001 + 11 * 600)
        .module(".shared .align 16 .b8 area[64];\n.shared .b32 row<4>;")
        .body(
            "setp.eq.u32 %p1, %i, 0;
             @!%p1 bra WRITTEN;
             st.u32 [area+4], 1000;
             st.volatile.u32 [area+8], 77;
             st.relaxed.cta.u32 [area+12], 5;
             mov.u64 %rd1, 0x1000100010001;
             st.u64 [area+16], %rd1;
             st.release.gpu.u32 [row2], 600;
             prefetch.L1 [area];
             WRITTEN:
             bar.sync 0;
             ld.u32 %r1, [area+4];
             ld.volatile.u32 %r2, [area+8];
             ld.relaxed.gpu.u32 %r3, [area+12];
             ld.v2.u32 {%r4, %r5}, [area+16];
             ld.acquire.gpu.u32 %r6, [row2];
             add.u32 %r0, %r1, %i;
             mad.lo.u32 %r0, %r2, 2, %r0;
             mad.lo.u32 %r0, %r3, 3, %r0;
             mad.lo.u32 %r0, %r5, 7, %r0;
             mad.lo.u32 %r0, %r6, 11, %r0;",
        )
        .body(&store(U32, "%r0", "d"))
        .finish()
}

fn shared_atomics() -> Generated {
    let sum = (0..32).sum::<u64>();
    test("own_space_atomics", "atom and red without a space, on shared variables", move |_| 32 + 2 * sum + 3 * 31 + 5 * (32 + 7) + 7 * 99)
        .module(".shared .align 16 .b8 area[64];")
        .body(
            "setp.eq.u32 %p1, %i, 0;
             @!%p1 bra CLEARED;
             mov.u64 %rd1, 0;
             st.u64 [area], %rd1;
             st.u64 [area+8], %rd1;
             mov.u64 %rd1, 7;
             st.u64 [area+16], %rd1;
             st.u64 [area+24], %rd1;
             CLEARED:
             bar.sync 0;
             atom.add.u32 %r1, [area], 1;
             red.add.u32 [area+4], %i;
             atom.max.s32 %r1, [area+8], %i;
             atom.add.u64 %rd2, [area+16], 1;
             mov.u64 %rd3, 99;
             mov.u64 %rd4, 7;
             atom.cas.b64 %rd2, [area+24], %rd4, %rd3;
             bar.sync 0;
             ld.u32 %r2, [area];
             ld.u32 %r3, [area+4];
             ld.u32 %r4, [area+8];
             ld.u32 %r5, [area+16];
             ld.u32 %r6, [area+24];
             mad.lo.u32 %r0, %r3, 2, %r2;
             mad.lo.u32 %r0, %r4, 3, %r0;
             mad.lo.u32 %r0, %r5, 5, %r0;
             mad.lo.u32 %r0, %r6, 7, %r0;",
        )
        .body(&store(U32, "%r0", "d"))
        .finish()
}

fn shared_dynamic() -> Generated {
    test("own_space_dynamic", "ld and st without a space, of dynamic shared memory", |i| i ^ 0x1234)
        .dynamic_shared(64)
        .module(".shared .align 4 .b8 fixed[24];\n.extern .shared .align 16 .b8 flexible[];")
        .body(
            "setp.eq.u32 %p1, %i, 0;
             @%p1 st.u32 [flexible+60], 0x1234;
             @%p1 st.u32 [fixed+20], 5;
             bar.sync 0;
             ld.u32 %r1, [flexible+60];
             xor.b32 %r0, %r1, %i;",
        )
        .body(&store(U32, "%r0", "d"))
        .finish()
}

fn global() -> Generated {
    test("own_space_global", "accesses without a space to a global variable", |i| i + 123 + 32)
        .module(".global .align 16 .b32 place[4];")
        .body(
            "setp.eq.u32 %p1, %i, 0;
             @%p1 st.u32 [place+4], 123;
             bar.sync 0;
             red.add.u32 [place+4], 1;
             bar.sync 0;
             prefetch.L2 [place];
             ld.volatile.u32 %r1, [place+4];
             add.u32 %r0, %r1, %i;",
        )
        .body(&store(U32, "%r0", "d"))
        .finish()
}

/// `ldmatrix` into a vector register: thread `t` gets elements `2 * (t % 4)` and the following one of row `t / 4` of matrix `m`.
fn matrix_registers() -> Generated {
    let word = |t: u64, m: u64| {
        let first = 8 * (8 * m + t / 4) + 2 * (t % 4);
        first | (first + 1) << 16
    };
    let values = (0..THREADS as u64).flat_map(|t| (0..4).map(move |m| word(t, m)));
    Kernel::new(FAMILY, "matrix_in_vector_register", "ldmatrix.x4 with a vector register in place of braces")
        .threads(THREADS)
        .module(".shared .align 16 .b8 area[512];")
        .output("d", U32, bits(values))
        .registers(".reg .v4 .b32 %v;")
        .body(
            "mov.u32 %r1, area;
             mad.lo.u32 %r1, %i, 16, %r1;
             mad.lo.u32 %r2, %i, 0x80008, 0x10000;
             add.u32 %r3, %r2, 0x20002;
             add.u32 %r4, %r2, 0x40004;
             add.u32 %r5, %r2, 0x60006;
             st.shared.v4.u32 [%r1], {%r2, %r3, %r4, %r5};
             bar.sync 0;
             ldmatrix.sync.aligned.m8n8.x4.shared.b16 %v, [%r1];
             mad.wide.u32 %at, %i, 16, %d;
             st.global.v4.u32 [%at], %v;",
        )
        .finish()
}
