//! Generates tests of `barrier` without `.aligned`, which the threads of a warp reach at different instructions and at different times.

use crate::kernel::{Generated, Kernel, bits, store};
use crate::ty::U32;

const FAMILY: &str = "barrier";
const THREADS: usize = 128;

pub fn tests() -> Vec<Generated> {
    vec![three_places(), loop_and_line(), one_further_on(), guards(), functions(), reductions(), arrivals(), early_exits()]
}

fn each(value: impl Fn(u64) -> u64) -> Vec<oriole_kernel_test::Expected> {
    bits((0..THREADS as u64).map(value))
}

/// Two arrays with one word per thread.
const AREAS: &str = ".shared .align 16 .b8 area[512];\n.shared .align 16 .b8 other[512];";

/// Computes `%r1`, `%r2`: the thread's slot and the one at the other end; `%r3`, `%r4`: the same in the other array; `%p1`: even threads.
const SLOTS: &str = "
    shl.b32 %r20, %i, 2;
    sub.u32 %r21, 508, %r20;
    mov.u32 %r22, area;
    add.u32 %r1, %r22, %r20;
    add.u32 %r2, %r22, %r21;
    mov.u32 %r22, other;
    add.u32 %r3, %r22, %r20;
    add.u32 %r4, %r22, %r21;
    and.b32 %r23, %i, 1;
    setp.eq.u32 %p1, %r23, 0;
";

fn kernel(name: &str, about: &str) -> Kernel {
    Kernel::new(FAMILY, name, about).threads(THREADS).module(AREAS)
}

fn three_places() -> Generated {
    kernel("apart_three_places", "the threads of a warp wait at a barrier at three places, with a thread count")
        .output("d", U32, each(|i| (127 - i) * 2 + i % 3))
        .body(SLOTS)
        .body(
            "mul.lo.u32 %r5, %i, 2;
             st.shared.u32 [%r1], %r5;
             rem.u32 %r6, %i, 3;
             setp.eq.u32 %p2, %r6, 1;
             setp.eq.u32 %p3, %r6, 2;
             @%p2 bra ONE;
             @%p3 bra TWO;
             barrier.sync 3, 128;
             mov.u32 %r7, 0;
             bra END;
             ONE:
             mov.u32 %r8, 3;
             barrier.sync %r8, 128;
             mov.u32 %r7, 1;
             bra END;
             TWO:
             mov.u32 %r8, 3;
             mov.u32 %r9, 128;
             barrier.sync %r8, %r9;
             mov.u32 %r7, 2;
             END:
             ld.shared.u32 %r10, [%r2];
             add.u32 %r10, %r10, %r7;",
        )
        .body(&store(U32, "%r10", "d"))
        .finish()
}

fn loop_and_line() -> Generated {
    let round = |number: u32| {
        format!(
            "add.u32 %r5, %i, {};
             st.shared.u32 [%r1], %r5;
             barrier.sync 0;
             ld.shared.u32 %r6, [%r2];
             add.u32 %r7, %r7, %r6;
             barrier.sync 0;\n",
            1000 * number
        )
    };
    kernel("apart_loop_and_line", "even threads go round a loop with two barriers, odd ones through eight in a row")
        .output("d", U32, each(|i| 4 * (127 - i) + 6000))
        .body(SLOTS)
        .body(
            "mov.u32 %r7, 0;
             @!%p1 bra LINE;
             mov.u32 %r8, 0;
             ROUND:
             add.u32 %r5, %i, %r8;
             st.shared.u32 [%r1], %r5;
             barrier.sync 0;
             ld.shared.u32 %r6, [%r2];
             add.u32 %r7, %r7, %r6;
             barrier.sync 0;
             add.u32 %r8, %r8, 1000;
             setp.lt.u32 %p2, %r8, 4000;
             @%p2 bra ROUND;
             bra END;
             LINE:",
        )
        .body(&(0..4).map(round).collect::<String>())
        .body("END:")
        .body(&store(U32, "%r7", "d"))
        .finish()
}

/// Even threads are at the first of three barriers while odd ones are at the second, and then at the second while odd ones are at the
/// third.
fn one_further_on() -> Generated {
    kernel("apart_one_further_on", "some threads of a warp skip a barrier and meet the others at the next one")
        .output("d", U32, each(|i| 3 * i + 1))
        .body(SLOTS)
        .body(
            "mul.lo.u32 %r5, %i, 3;
             st.shared.u32 [%r1], %r5;
             @!%p1 bra SECOND;
             barrier.sync 2;
             ld.shared.u32 %r6, [%r2];
             add.u32 %r6, %r6, 1;
             st.shared.u32 [%r3], %r6;
             SECOND:
             barrier.sync 2;
             @%p1 bra END;
             ld.shared.u32 %r6, [%r2];
             add.u32 %r6, %r6, 1;
             st.shared.u32 [%r3], %r6;
             barrier.sync 2;
             END:
             ld.shared.u32 %r7, [%r4];",
        )
        .body(&store(U32, "%r7", "d"))
        .finish()
}

fn guards() -> Generated {
    kernel("apart_guards", "a guard sends the threads of a warp to one of two barriers")
        .output("d", U32, each(|i| 127 - i + 9))
        .body(SLOTS)
        .body(
            "add.u32 %r5, %i, 9;
             st.shared.u32 [%r1], %r5;
             @%p1 barrier.sync 1;
             @!%p1 barrier.sync 1;
             ld.shared.u32 %r6, [%r2];",
        )
        .body(&store(U32, "%r6", "d"))
        .finish()
}

fn functions() -> Generated {
    let module = "
.shared .align 4 .b8 area[512];
.func (.reg .b32 value) plain(.reg .b32 at, .reg .b32 from)
{
    st.shared.u32 [at], from;
    barrier.sync 4;
    ld.shared.u32 value, [from];
    add.u32 value, value, 100000;
    ret;
}
.func (.reg .b32 value) inner(.reg .b32 at, .reg .b32 number)
{
    .reg .pred p;
    .reg .b32 t;
    and.b32 t, at, 8;
    setp.eq.u32 p, t, 0;
    @p bra HERE;
    barrier.sync number;
    bra END;
HERE:
    barrier.sync 4;
END:
    ld.shared.u32 value, [at];
    ret;
}
.func (.reg .b32 value) outer(.reg .b32 at, .reg .b32 from)
{
    .reg .b32 four;
    mov.b32 four, 4;
    st.shared.u32 [at], from;
    call (value), inner, (from, four);
    ret;
}";
    // Each slot holds the address of its mirror slot, so a thread reads its own address there; addresses are made relative.
    Kernel::new(FAMILY, "apart_functions", "threads of a warp wait at one barrier in two functions, one of them called by another")
        .threads(THREADS)
        .module(module)
        .output("d", U32, each(|i| 4 * i + if i % 2 == 0 { 100_000 } else { 0 }))
        .body(
            "shl.b32 %r20, %i, 2;
             sub.u32 %r21, 508, %r20;
             mov.u32 %r22, area;
             add.u32 %r1, %r22, %r20;
             add.u32 %r2, %r22, %r21;
             and.b32 %r23, %i, 1;
             setp.eq.u32 %p1, %r23, 0;
             @%p1 bra EVEN;
             call (%r5), outer, (%r1, %r2);
             bra END;
             EVEN:
             call (%r5), plain, (%r1, %r2);
             END:
             sub.u32 %r6, %r5, %r22;",
        )
        .body(&store(U32, "%r6", "d"))
        .finish()
}

fn reductions() -> Generated {
    let multiples = (0..THREADS as u64).filter(|i| i % 3 == 0).count() as u64;
    kernel("apart_reductions", "the threads of a warp take part in reductions at two places")
        .output("d", U32, each(|i| multiples + 1000 * (i % 2) + 10_000 + 200_000))
        .body(SLOTS)
        .body(
            "rem.u32 %r5, %i, 3;
             setp.eq.u32 %p2, %r5, 0;
             setp.eq.u32 %p3, %i, 77;
             setp.lt.u32 %p4, %i, 128;
             @%p1 bra EVEN;
             barrier.red.popc.u32 %r6, 5, %p2;
             barrier.red.and.pred %p5, 6, 128, %p4;
             barrier.red.or.pred %p6, 7, %p3;
             barrier.red.and.pred %p7, 6, !%p3;
             add.u32 %r6, %r6, 1000;
             bra END;
             EVEN:
             mov.u32 %r7, 5;
             barrier.red.popc.u32 %r6, %r7, %p2;
             barrier.red.and.pred %p5, 6, 128, %p4;
             barrier.red.or.pred %p6, 7, %p3;
             barrier.red.and.pred %p7, 6, !%p3;
             END:
             selp.u32 %r8, 10000, 0, %p5;
             selp.u32 %r9, 200000, 0, %p6;
             selp.u32 %r10, 4000000, 0, %p7;
             add.u32 %r6, %r6, %r8;
             add.u32 %r6, %r6, %r9;
             add.u32 %r6, %r6, %r10;",
        )
        .body(&store(U32, "%r6", "d"))
        .finish()
}

fn arrivals() -> Generated {
    kernel("apart_arrivals", "producers arrive and consumers wait, both at two places for each warp")
        .output("d", U32, each(|i| if i < 64 { 0 } else { (i - 64) * 11 }))
        .body(SLOTS)
        .body(
            "setp.ge.u32 %p2, %i, 64;
             @%p2 bra CONSUMER;
             mul.lo.u32 %r5, %i, 11;
             st.shared.u32 [%r1], %r5;
             mov.u32 %r6, 0;
             @%p1 bra EVEN;
             barrier.arrive 4, 128;
             bra END;
             EVEN:
             mov.u32 %r7, 4;
             mov.u32 %r8, 128;
             barrier.arrive %r7, %r8;
             bra END;
             CONSUMER:
             @%p1 bra ALSO;
             barrier.sync 4, 128;
             bra READ;
             ALSO:
             barrier.sync 4, 128;
             READ:
             ld.shared.u32 %r6, [%r1+-256];
             END:",
        )
        .body(&store(U32, "%r6", "d"))
        .finish()
}

fn early_exits() -> Generated {
    kernel("apart_early_exits", "the odd threads of a warp have ended when the others wait at two places")
        .output("d", U32, each(|i| if i % 2 == 1 { 0 } else { (i ^ 2) * 7 + (i & 2) }))
        .body(SLOTS)
        .body(
            "@!%p1 exit;
             mul.lo.u32 %r5, %i, 7;
             st.shared.u32 [%r1], %r5;
             and.b32 %r6, %i, 2;
             setp.eq.u32 %p2, %r6, 0;
             xor.b32 %r7, %r1, 8;
             @%p2 bra LOWER;
             barrier.sync 9;
             ld.shared.u32 %r8, [%r7];
             add.u32 %r8, %r8, 2;
             bra END;
             LOWER:
             barrier.sync 9;
             ld.shared.u32 %r8, [%r7];
             END:",
        )
        .body(&store(U32, "%r8", "d"))
        .finish()
}
