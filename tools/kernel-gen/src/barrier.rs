//! Generates tests of barriers and fences between the warps of a block, and between blocks.

use crate::kernel::{Generated, Kernel, bits, store};
use crate::ty::U32;
use oriole_kernel_test::{Fill, Tolerance};

const FAMILY: &str = "barrier";
const THREADS: usize = 128;

pub fn tests() -> Vec<Generated> {
    let mut tests = Vec::new();
    tests.extend(plain_barriers());
    tests.extend(reducing_barriers());
    tests.push(partial_barrier());
    tests.push(unaligned_barrier());
    tests.push(producer_and_consumer());
    tests.push(tree_reduction());
    tests.push(barrier_in_loop());
    tests.extend(fences());
    tests.extend(last_block());
    tests
}

const AREA: &str = ".shared .align 4 .b8 area[512];";

/// Computes the address of the thread's slot in `%r2` and that of the slot at the other end of the block in `%r4`.
const SLOTS: &str = "
    mov.u32 %r1, area;
    mad.lo.u32 %r2, %i, 4, %r1;
    sub.u32 %r3, 127, %i;
    mad.lo.u32 %r4, %r3, 4, %r1;
";

fn plain_barriers() -> Vec<Generated> {
    let spellings = [
        ("bar_sync", "bar.sync 0;", "8.0"),
        ("bar_sync_7", "bar.sync 7;", "8.0"),
        ("bar_sync_count", "bar.sync 3, 128;", "8.0"),
        ("bar_sync_register", "mov.u32 %r20, 5;\nbar.sync %r20;", "8.0"),
        ("bar_sync_registers", "mov.u32 %r20, 5;\nmov.u32 %r21, 128;\nbar.sync %r20, %r21;", "8.0"),
        ("bar_cta_sync", "bar.cta.sync 0;", "8.0"),
        ("barrier_sync", "barrier.sync 0;", "8.0"),
        ("barrier_sync_aligned", "barrier.sync.aligned 2;", "8.0"),
        ("barrier_cta_sync", "barrier.cta.sync 15;", "8.0"),
        ("barrier_cta_sync_count", "barrier.cta.sync 1, 128;", "8.0"),
        ("barrier_cta_sync_aligned", "barrier.cta.sync.aligned 0, 128;", "8.0"),
    ];
    let make = |(name, text, version): (&str, &str, &'static str)| {
        Kernel::new(FAMILY, name, format!("{} between a store and the mirrored load", text.replace('\n', " ")))
            .platform(version, "sm_75")
            .threads(THREADS)
            .module(AREA)
            .output("d", U32, bits((0..THREADS as u64).map(|i| (127 - i) * 5)))
            .body(SLOTS)
            .body("mul.lo.u32 %r5, %i, 5;\nst.shared.u32 [%r2], %r5;")
            .body(text)
            .body("ld.shared.u32 %r6, [%r4];")
            .body(&store(U32, "%r6", "d"))
            .finish()
    };
    spellings.map(make).into()
}

fn reducing_barriers() -> Vec<Generated> {
    let mut tests = Vec::new();
    for head in ["bar.red", "bar.cta.red", "barrier.red", "barrier.cta.red.aligned"] {
        for (negation, negated) in [("", false), ("!", true)] {
            // True for threads below 40, for none, or for all.
            for (limit, limit_name) in [(40u64, "some"), (0, "none"), (128, "all")] {
                let count = if negated { 128 - limit } else { limit };
                let suffix = if negated { "_not" } else { "" };
                let head_name = head.replace('.', "_");
                let expected = count | u64::from(count == 128) << 8 | u64::from(count > 0) << 9;
                let split = |operation: &str| match head.strip_suffix(".aligned") {
                    Some(stem) => format!("{stem}{operation}.aligned"),
                    None => format!("{head}{operation}"),
                };
                let test = Kernel::new(FAMILY, format!("{head_name}_{limit_name}{suffix}"), format!("{head} with popc, and, or"))
                    .threads(THREADS)
                    .output("d", U32, bits(vec![expected; THREADS]))
                    .body(&format!(
                        "setp.lt.u32 %p1, %i, {limit};
                         {}.u32 %r1, 0, {negation}%p1;
                         {}.pred %p2, 1, 128, {negation}%p1;
                         {}.pred %p3, 0, {negation}%p1;
                         @%p2 or.b32 %r1, %r1, 256;
                         @%p3 or.b32 %r1, %r1, 512;",
                        split(".popc"),
                        split(".and"),
                        split(".or"),
                    ))
                    .body(&store(U32, "%r1", "d"));
                tests.push(test.finish());
            }
        }
    }
    tests
}

/// Two halves of the block use two barriers at the same time.
fn partial_barrier() -> Generated {
    Kernel::new(FAMILY, "two_halves", "each half of the block waits at its own barrier")
        .threads(THREADS)
        .module(AREA)
        .output("d", U32, bits((0..THREADS as u64).map(|i| (i ^ 32) + 1)))
        .body(
            "mov.u32 %r1, area;
             mad.lo.u32 %r2, %i, 4, %r1;
             add.u32 %r3, %i, 1;
             st.shared.u32 [%r2], %r3;
             setp.lt.u32 %p1, %i, 64;
             @%p1 bra LOWER;
             bar.sync 2, 64;
             bra.uni JOIN;
             LOWER:
             bar.sync 1, 64;
             JOIN:
             xor.b32 %r4, %i, 32;
             mad.lo.u32 %r5, %r4, 4, %r1;
             ld.shared.u32 %r6, [%r5];",
        )
        .body(&store(U32, "%r6", "d"))
        .finish()
}

/// Lanes of a warp reach a `barrier` without `.aligned` at different instructions.
fn unaligned_barrier() -> Generated {
    Kernel::new(FAMILY, "barrier_sync_divergent", "lanes of a warp wait at one barrier from two places")
        .threads(THREADS)
        .module(AREA)
        .output("d", U32, bits((0..THREADS as u64).map(|i| (127 - i) * 2 + (i & 1))))
        .body(SLOTS)
        .body(
            "mul.lo.u32 %r5, %i, 2;
             st.shared.u32 [%r2], %r5;
             and.b32 %r6, %i, 1;
             setp.eq.u32 %p1, %r6, 0;
             @%p1 bra EVEN;
             barrier.sync 0;
             ld.shared.u32 %r7, [%r4];
             add.u32 %r7, %r7, 1;
             bra END;
             EVEN:
             barrier.sync 0;
             ld.shared.u32 %r7, [%r4];
             END:",
        )
        .body(&store(U32, "%r7", "d"))
        .finish()
}

fn producer_and_consumer() -> Generated {
    Kernel::new(FAMILY, "arrive_and_sync", "producers arrive without waiting, consumers wait")
        .threads(THREADS)
        .module(AREA)
        .output("d", U32, bits((0..THREADS as u64).map(|i| if i < 64 { 0 } else { (i - 64) * 11 })))
        .body(
            "mov.u32 %r1, area;
             setp.ge.u32 %p1, %i, 64;
             @%p1 bra CONSUMER;
             mad.lo.u32 %r2, %i, 4, %r1;
             mul.lo.u32 %r3, %i, 11;
             st.shared.u32 [%r2], %r3;
             bar.arrive 4, 128;
             ret;
             CONSUMER:
             bar.sync 4, 128;
             sub.u32 %r4, %i, 64;
             mad.lo.u32 %r2, %r4, 4, %r1;
             ld.shared.u32 %r5, [%r2];",
        )
        .body(&store(U32, "%r5", "d"))
        .finish()
}

fn tree_reduction() -> Generated {
    let mut body = String::from(SLOTS) + "mad.lo.u32 %r5, %i, 7, 3;\nst.shared.u32 [%r2], %r5;\nbar.sync 0;\n";
    for half in [64, 32, 16, 8, 4, 2, 1] {
        body.push_str(&format!(
            "setp.ge.u32 %p1, %i, {half};
             @%p1 bra SKIP{half};
             ld.shared.u32 %r6, [%r2];
             ld.shared.u32 %r7, [%r2+{}];
             add.u32 %r6, %r6, %r7;
             st.shared.u32 [%r2], %r6;
             SKIP{half}:
             bar.sync 0;\n",
            half * 4
        ));
    }
    let sum = (0..THREADS as u64).map(|i| i * 7 + 3).sum::<u64>();
    Kernel::new(FAMILY, "tree_reduction", "a sum over the block in log steps, barriers after divergent code")
        .threads(THREADS)
        .module(AREA)
        .output("d", U32, bits(vec![sum; THREADS]))
        .body(&body)
        .body("ld.shared.u32 %r8, [area];")
        .body(&store(U32, "%r8", "d"))
        .finish()
}

fn barrier_in_loop() -> Generated {
    let mut state: Vec<u64> = (0..128).collect();
    for _ in 0..10 {
        state = (0..128).map(|i| (state[i] + state[(i + 1) % 128]) & 0xffff_ffff).collect();
    }
    Kernel::new(FAMILY, "stencil_loop", "ten rounds of neighbour sums with two barriers each")
        .threads(THREADS)
        .module(AREA)
        .output("d", U32, bits(state))
        .body(
            "mov.u32 %r1, area;
             mad.lo.u32 %r2, %i, 4, %r1;
             add.u32 %r3, %i, 1;
             and.b32 %r3, %r3, 127;
             mad.lo.u32 %r4, %r3, 4, %r1;
             mov.u32 %r5, %i;
             mov.u32 %r10, 0;
             ROUND:
             st.shared.u32 [%r2], %r5;
             bar.sync 0;
             ld.shared.u32 %r6, [%r4];
             add.u32 %r5, %r5, %r6;
             bar.sync 0;
             add.u32 %r10, %r10, 1;
             setp.lt.u32 %p1, %r10, 10;
             @%p1 bra ROUND;",
        )
        .body(&store(U32, "%r5", "d"))
        .finish()
}

/// Generates tests that pass a flag from one warp to another through memory.
fn fences() -> Vec<Generated> {
    let mut tests = Vec::new();
    for fence in [
        "membar.cta",
        "membar.gl",
        "membar.sys",
        "fence.sc.cta",
        "fence.sc.gpu",
        "fence.sc.sys",
        "fence.acq_rel.cta",
        "fence.acq_rel.gpu",
        "fence.acq_rel.sys",
        "fence.sc.cluster",
        "fence.acq_rel.cluster",
    ] {
        let target = if fence.contains("cluster") { "sm_90" } else { "sm_75" };
        let test = Kernel::new(FAMILY, fence.replace('.', "_"), format!("{fence} between data and flag, on both sides"))
            .platform("8.0", target)
            .threads(64)
            .buffer("data", U32, 1, Fill::zero())
            .buffer("flag", U32, 1, Fill::zero())
            .expect("flag", Tolerance::Exact, bits([1]))
            .output("d", U32, bits((0..64).map(|i| if i == 63 { 4242 } else { 0 })))
            .body(&format!(
                "setp.eq.u32 %p1, %i, 0;
                 setp.eq.u32 %p2, %i, 63;
                 @%p1 bra WRITER;
                 @%p2 bra READER;
                 ret;
                 WRITER:
                 st.relaxed.gpu.global.u32 [%data], 4242;
                 {fence};
                 st.relaxed.gpu.global.u32 [%flag], 1;
                 ret;
                 READER:
                 ld.relaxed.gpu.global.u32 %r1, [%flag];
                 setp.eq.u32 %p3, %r1, 0;
                 @%p3 bra READER;
                 {fence};
                 ld.relaxed.gpu.global.u32 %r2, [%data];"
            ))
            .body(&store(U32, "%r2", "d"));
        tests.push(test.finish());
    }
    tests
}

/// Generates tests in which the last block to finish adds up the results of the others.
fn last_block() -> Vec<Generated> {
    let total = (0..1024u64).sum::<u64>();
    let make = |(name, fence, ticket): (&str, &str, &str)| {
        Kernel::new(FAMILY, name, "blocks leave sums, the last one adds them up")
            .threads(1024)
            .module(".shared .align 4 .u32 sum;\n.shared .align 4 .u32 last;")
            .buffer("partial", U32, 4, Fill::zero())
            .buffer("tickets", U32, 1, Fill::zero())
            .output("d", U32, bits([total]))
            .body(&format!(
                "mov.u32 %r1, %tid.x;
                 setp.eq.u32 %p1, %r1, 0;
                 @%p1 st.shared.u32 [sum], 0;
                 bar.sync 0;
                 red.shared.add.u32 [sum], %i;
                 bar.sync 0;
                 @!%p1 bra WAIT;
                 mov.u32 %r2, %ctaid.x;
                 ld.shared.u32 %r3, [sum];
                 mad.wide.u32 %rd1, %r2, 4, %partial;
                 st.global.u32 [%rd1], %r3;
                 {fence}
                 {ticket}
                 st.shared.u32 [last], %r4;
                 WAIT:
                 bar.sync 0;
                 ld.shared.u32 %r5, [last];
                 setp.ne.u32 %p2, %r5, 3;
                 @%p2 ret;
                 @!%p1 ret;
                 {fence}
                 ld.volatile.global.u32 %r6, [%partial];
                 ld.volatile.global.u32 %r7, [%partial+4];
                 ld.volatile.global.u32 %r8, [%partial+8];
                 ld.volatile.global.u32 %r9, [%partial+12];
                 add.u32 %r6, %r6, %r7;
                 add.u32 %r6, %r6, %r8;
                 add.u32 %r6, %r6, %r9;
                 st.global.u32 [%d], %r6;"
            ))
            .finish()
    };
    [
        ("last_block_membar", "membar.gl;", "atom.global.inc.u32 %r4, [%tickets], 3;"),
        ("last_block_acq_rel", "", "atom.acq_rel.gpu.global.add.u32 %r4, [%tickets], 1;"),
    ]
    .map(make)
    .into()
}
