//! Generates tests of single forms of `mbarrier` and `cp.async.bulk`: counts, sizes, transaction counts, reductions, and pipelines.

use oriole_kernel_test::{Fill, Source};

use crate::kernel::{Generated, Kernel, bits};
use crate::ty::U32;

const FAMILY: &str = "barrier";
const THREADS: usize = 128;
/// Chunks of one word for each thread that a pipeline copies.
const CHUNKS: usize = 8;
/// Contents of shared memory that no copy reaches.
const UNTOUCHED: u64 = 0x5eed;

pub fn tests() -> Vec<Generated> {
    let mut tests = Vec::new();
    for count in [1, 2, 31, 32, 33, 128, 1000, 0xf_ffff] {
        tests.push(counted(count, "arrive"));
    }
    tests.extend([2, 33, 1000].map(|count| counted(count, "arrive_drop")));
    tests.extend([1, 16, 512, 0xf_ffff].map(|bytes| transactions(bytes, Split::Whole)));
    tests.extend([16, 512, 0xf_fffe].map(|bytes| transactions(bytes, Split::Halves)));
    tests.extend([16, 512].map(|bytes| transactions(bytes, Split::Early)));
    for stages in 2..=4 {
        for wait in ["try_wait", "test_wait"] {
            tests.extend([false, true].map(|is_separate| pipeline(stages, wait, is_separate)));
        }
    }
    for bytes in [16, 48, 128, 272, 496] {
        tests.extend([false, true].map(|in_register| load(bytes, in_register)));
        tests.push(store(bytes));
    }
    tests.push(copy_within_block());
    tests.extend(REDUCTIONS.iter().map(reduction));
    tests.extend([false, true].map(guarded_store));
    tests
}

fn input(words: usize) -> Vec<u64> {
    fill().values(U32.element, words)
}

fn fill() -> Fill {
    Fill::all(Source::Random { seed: 92 })
}

fn kernel(name: &str, about: &str, words: usize) -> Kernel {
    Kernel::new(FAMILY, name, about)
        .platform("8.0", "sm_90")
        .threads(THREADS)
        .module(".shared .align 128 .b8 area[2048]; .shared .align 8 .b64 gate; .shared .align 8 .b64 gates[8]; .shared .b32 result;")
        .buffer("a", U32, words, fill())
}

/// Code that computes addresses: `%r1` of the thread's word in shared memory, `%rd1` of the thread's word in `a`; `%p1` selects thread 0.
const START: &str = "mov.u32 %r3, area;
    mad.lo.u32 %r1, %i, 4, %r3;
    mad.wide.u32 %rd1, %i, 4, %a;
    setp.eq.u32 %p1, %i, 0;";

const FINISH: &str = "mad.wide.u32 %at, %i, 4, %d;
    st.global.u32 [%at], %r10;";

/// Code after which all threads have the word that thread 0 has stored in `result`.
const SHARE: &str = "SHARED: bar.sync 0;
    ld.shared.u32 %r10, [result];";

/// Code that appends the outcome of a test of the state `%rd2` to the bits in `%r10`.
const OBSERVE: &str = "mbarrier.test_wait.shared.b64 %p2, [gate], %rd2;
    selp.u32 %r11, 1, 0, %p2;
    mad.lo.u32 %r10, %r10, 2, %r11;";

/// One thread arrives with all but one of the expected arrivals, then with the last one. The phase is complete after the last one only.
fn counted(count: usize, arrive: &str) -> Generated {
    let first = count - 1;
    // A drop reduces the expected arrivals of the next phase, so that the last arrival alone completes it.
    let again = if arrive == "arrive_drop" { "mbarrier.arrive.shared.b64 %rd2, [gate];" } else { "" };
    let observed = match (count, arrive) {
        (1, _) => 0b1,
        (_, "arrive") => 0b01,
        _ => 0b011,
    };
    let mut kernel = kernel(&format!("mbarrier_{arrive}_{count}"), &format!("an mbarrier that expects {count} arrivals"), THREADS)
        .output("d", U32, bits((0..THREADS).map(|_| observed)))
        .body(START)
        .body(&format!("@!%p1 bra SHARED;\nmov.u32 %r10, 0;\nmbarrier.init.shared.b64 [gate], {count};"));
    if first > 0 {
        kernel = kernel.body(&format!("mov.u32 %r4, {first};\nmbarrier.{arrive}.shared.b64 %rd2, [gate], %r4;")).body(OBSERVE);
    }
    kernel = kernel.body("mbarrier.arrive.shared.b64 %rd2, [gate];").body(OBSERVE);
    if !again.is_empty() {
        kernel = kernel.body(again).body(OBSERVE);
    }
    kernel.body("mbarrier.inval.shared.b64 [gate];\nst.shared.u32 [result], %r10;").body(SHARE).body(FINISH).finish()
}

/// How the bytes of a phase are expected and completed.
#[derive(Clone, Copy)]
enum Split {
    /// One arrival expects all; one operation completes all.
    Whole,
    /// A separate instruction expects half of the bytes; two operations complete them.
    Halves,
    /// The bytes are completed before they are expected.
    Early,
}

/// One thread expects and completes bytes; the phase is complete when none is missing and the only arrival has happened.
fn transactions(bytes: usize, split: Split) -> Generated {
    let complete = |bytes: usize| format!("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [gate], {bytes};");
    let expect = |bytes: usize| format!("mbarrier.arrive.expect_tx.shared.b64 %rd2, [gate], {bytes};");
    let half = bytes / 2;
    let (name, steps, observed) = match split {
        Split::Whole => ("whole", vec![expect(bytes), complete(bytes)], 0b01),
        Split::Halves => {
            let both = format!("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [gate], {half};\n{}", expect(half));
            ("halves", vec![both, complete(half), complete(half)], 0b001)
        }
        Split::Early => ("early", vec![format!("{}\n{}", complete(bytes), expect(bytes))], 0b1),
    };
    let mut kernel = kernel(&format!("mbarrier_bytes_{name}_{bytes}"), &format!("a phase of an mbarrier with {bytes} bytes"), THREADS)
        .output("d", U32, bits((0..THREADS).map(|_| observed)))
        .body(START)
        .body("@!%p1 bra SHARED;\nmov.u32 %r10, 0;\nmbarrier.init.shared.b64 [gate], 1;");
    for step in &steps {
        kernel = kernel.body(step).body(OBSERVE);
    }
    kernel.body("st.shared.u32 [result], %r10;").body(SHARE).body(FINISH).finish()
}

/// A pipeline: one thread copies chunks into the stages of a ring, all threads add up the words of their column. The thread belongs to the
/// first warp, or to a fifth warp of its own.
fn pipeline(stages: usize, wait: &str, is_separate: bool) -> Generated {
    let words = input(THREADS * CHUNKS);
    let sum = |thread: usize| (0..CHUNKS).map(|chunk| words[chunk * THREADS + thread]).sum::<u64>() & 0xffff_ffff;
    let name = format!("bulk_pipeline_{stages}_{wait}{}", if is_separate { "_warp" } else { "" });
    let producer = if is_separate { THREADS } else { 0 };
    let threads = if is_separate { THREADS + 32 } else { THREADS };
    let values = (0..threads).map(|thread| if thread < THREADS { sum(thread) } else { UNTOUCHED });
    let init: String = (0..stages)
        .map(|stage| {
            format!(
                "mbarrier.init.shared.b64 [gates+{}], 1;\nmbarrier.init.shared.b64 [gates+{}], {THREADS};\n",
                16 * stage,
                16 * stage + 8
            )
        })
        .collect();
    let head = format!(
        "mov.u32 %r3, area;
         mov.u32 %r20, gates;
         mov.u32 %r10, 0;
         setp.eq.u32 %p1, %i, {producer};
         setp.ge.u32 %p6, %i, {THREADS};
         @!%p1 bra READY;
         {init}fence.mbarrier_init.release.cluster;
         READY: bar.sync 0;"
    );
    let advance = |stage: &str, parity: &str, predicate: &str| {
        format!(
            "add.u32 {stage}, {stage}, 1;
             setp.eq.u32 {predicate}, {stage}, {stages};
             @{predicate} mov.u32 {stage}, 0;
             @{predicate} xor.b32 {parity}, {parity}, 1;"
        )
    };
    let produce = format!(
        "mad.lo.u32 %r6, %r4, 16, %r20;
         EMPTY: mbarrier.{wait}.parity.shared.b64 %p2, [%r6+8], %r5;
         @!%p2 bra EMPTY;
         mad.lo.u32 %r7, %r4, {bytes}, %r3;
         mbarrier.arrive.expect_tx.shared.b64 _, [%r6], {bytes};
         cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r7], [%rd2], {bytes}, [%r6];
         add.u64 %rd2, %rd2, {bytes};
         {}",
        advance("%r4", "%r5", "%p3"),
        bytes = 4 * THREADS
    );
    let consume = format!(
        "mad.lo.u32 %r12, %r8, 16, %r20;
         FULL: mbarrier.{wait}.parity.shared.b64 %p4, [%r12], %r9;
         @!%p4 bra FULL;
         mad.lo.u32 %r13, %r8, {}, %r3;
         mad.lo.u32 %r13, %i, 4, %r13;
         ld.shared.u32 %r14, [%r13];
         add.u32 %r10, %r10, %r14;
         mbarrier.arrive.shared.b64 _, [%r12+8];
         {}",
        4 * THREADS,
        advance("%r8", "%r9", "%p5")
    );
    // The parities: a producer waits for the phase before the first one, which counts as complete.
    let start = "mov.u32 %r4, 0;
         mov.u32 %r5, 1;
         mov.u32 %r8, 0;
         mov.u32 %r9, 0;
         mov.u64 %rd2, %a;
         mov.u32 %r15, 0;";
    let kernel = kernel(&name, "a pipeline of bulk copies through a ring of stages in shared memory", THREADS * CHUNKS)
        .shape([1; 3], [threads as u32, 1, 1])
        .output("d", U32, bits(values))
        .body(&head)
        .body(start);
    let kernel = if is_separate {
        kernel
            .body(&format!("@!%p6 bra CONSUMER;\nmov.u32 %r10, {UNTOUCHED};\n@!%p1 bra DONE;"))
            .body(&format!("PRODUCER: {produce}\nadd.u32 %r15, %r15, 1;\nsetp.lt.u32 %p7, %r15, {CHUNKS};\n@%p7 bra PRODUCER;\nbra DONE;"))
            .body(&format!("CONSUMER: {consume}\nadd.u32 %r15, %r15, 1;\nsetp.lt.u32 %p7, %r15, {CHUNKS};\n@%p7 bra CONSUMER;"))
    } else {
        kernel
            .body("@!%p1 bra LOOP;\nFIRST:")
            .body(&produce)
            .body(&format!("setp.ne.u32 %p8, %r4, {};\n@%p8 bra FIRST;", stages - 1))
            .body(&format!(
                "LOOP: @!%p1 bra CONSUME;\nadd.u32 %r17, %r15, {};\nsetp.ge.u32 %p9, %r17, {CHUNKS};\n@%p9 bra CONSUME;",
                stages - 1
            ))
            .body(&produce.replace("EMPTY", "AGAIN"))
            .body(&format!("CONSUME: {consume}\nadd.u32 %r15, %r15, 1;\nsetp.lt.u32 %p7, %r15, {CHUNKS};\n@%p7 bra LOOP;"))
    };
    kernel.body("DONE:").body(FINISH).finish()
}

/// Code with which each thread sets its word in shared memory to [`UNTOUCHED`], and thread 0 initializes the barrier.
fn clear() -> String {
    format!(
        "mov.u32 %r5, {UNTOUCHED};
         st.shared.u32 [%r1], %r5;
         @%p1 mbarrier.init.shared.b64 [gate], 1;
         fence.proxy.async.shared::cta;
         bar.sync 0;"
    )
}

const WAIT: &str = "WAITING: mbarrier.try_wait.parity.shared.b64 %p2, [gate], 0;
    @!%p2 bra WAITING;";

fn load(bytes: usize, in_register: bool) -> Generated {
    let words = input(THREADS);
    let value = |thread: usize| if 4 * thread < bytes { words[thread] } else { UNTOUCHED };
    let name = format!("bulk_load_{bytes}{}", if in_register { "_register" } else { "" });
    let size = if in_register { "%r6".to_owned() } else { bytes.to_string() };
    kernel(&name, &format!("a bulk copy of {bytes} bytes to shared memory"), THREADS)
        .output("d", U32, bits((0..THREADS).map(value)))
        .body(START)
        .body(&clear())
        .body(&format!(
            "mov.u32 %r6, {bytes};
             @!%p1 bra WAITING;
             mbarrier.arrive.expect_tx.shared.b64 _, [gate], {size};
             cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [area], [%a], {size}, [gate];"
        ))
        .body(WAIT)
        .body("ld.shared.u32 %r10, [%r1];")
        .body(FINISH)
        .finish()
}

/// Code with which all threads write shared memory and the first thread continues; the others go to `DONE`.
const FILL_SHARED: &str = "ld.global.u32 %r5, [%rd1];
    st.shared.u32 [%r1], %r5;
    xor.b32 %r6, %i, 64;
    mad.lo.u32 %r6, %r6, 4, %r3;
    st.shared.u32 [%r6+512], %r5;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @!%p1 bra DONE;";

fn store(bytes: usize) -> Generated {
    let words = input(THREADS);
    let value = |thread: usize| if 4 * thread < bytes { words[thread] } else { 0 };
    kernel(&format!("bulk_store_{bytes}"), &format!("a bulk copy of {bytes} bytes to global memory"), THREADS)
        .output("d", U32, bits((0..THREADS).map(value)))
        .body(START)
        .body(FILL_SHARED)
        .body(&format!(
            "cp.async.bulk.global.shared::cta.bulk_group [%d], [area], {bytes};
             cp.async.bulk.commit_group;
             cp.async.bulk.wait_group 0;
             DONE:"
        ))
        .finish()
}

fn copy_within_block() -> Generated {
    let words = input(THREADS);
    kernel("bulk_within_block", "a bulk copy from shared to shared memory of the same block", THREADS)
        // An H200 takes the copy as an illegal instruction in a kernel without cluster dimensions.
        .attributes(".reqnctapercluster 1, 1, 1")
        .output("d", U32, bits((0..THREADS).map(|thread| words[thread])))
        .body(START)
        .body(
            "ld.global.u32 %r5, [%rd1];
             st.shared.u32 [%r1], %r5;
             @%p1 mbarrier.init.shared.b64 [gate], 1;
             fence.proxy.async.shared::cta;
             bar.sync 0;
             @!%p1 bra WAITING;
             mbarrier.arrive.expect_tx.shared.b64 _, [gate], 512;
             cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [area+512], [area], 512, [gate];",
        )
        .body(WAIT)
        .body("ld.shared.u32 %r10, [%r1+512];")
        .body(FINISH)
        .finish()
}

/// A reduction of words: operation, type, and the new word for the old one and the operand.
type Reduction = (&'static str, &'static str, fn(u32, u32) -> u32);

const REDUCTIONS: [Reduction; 10] = [
    ("add", "s32", u32::wrapping_add),
    ("min", "u32", |old, operand| old.min(operand)),
    ("max", "u32", |old, operand| old.max(operand)),
    ("min", "s32", |old, operand| (old as i32).min(operand as i32) as u32),
    ("max", "s32", |old, operand| (old as i32).max(operand as i32) as u32),
    ("and", "b32", |old, operand| old & operand),
    ("or", "b32", |old, operand| old | operand),
    ("xor", "b32", |old, operand| old ^ operand),
    ("inc", "u32", |old, operand| if old >= operand { 0 } else { old + 1 }),
    ("dec", "u32", |old, operand| if old == 0 || old > operand { operand } else { old - 1 }),
];

/// A copy of all words to global memory, then a reduction with the words in another order.
fn reduction(&(operation, ty, update): &Reduction) -> Generated {
    let words = input(THREADS);
    let value = |thread: usize| u64::from(update(words[thread] as u32, words[thread ^ 64] as u32));
    kernel(&format!("bulk_reduce_{operation}_{ty}"), &format!("a bulk reduction: {operation} of {ty}"), THREADS)
        .output("d", U32, bits((0..THREADS).map(value)))
        .body(START)
        .body(FILL_SHARED)
        .body(&format!(
            "cp.async.bulk.global.shared::cta.bulk_group [%d], [area], 512;
             cp.async.bulk.commit_group;
             cp.async.bulk.wait_group 0;
             cp.reduce.async.bulk.global.shared::cta.bulk_group.{operation}.{ty} [%d], [area+512], 512;
             cp.async.bulk.commit_group;
             cp.async.bulk.wait_group 0;
             DONE:"
        ))
        .finish()
}

/// Every instruction of a copy has the guard, which holds in one thread.
fn guarded_store(is_negated: bool) -> Generated {
    let words = input(THREADS);
    let (guard, name) = if is_negated { ("@!%p3", "bulk_store_guarded_not") } else { ("@%p1", "bulk_store_guarded") };
    kernel(name, "a bulk copy to global memory whose instructions all have a guard", THREADS)
        .output("d", U32, bits((0..THREADS).map(|thread| words[thread])))
        .body(START)
        .body(&format!(
            "setp.ne.u32 %p3, %i, 0;
             ld.global.u32 %r5, [%rd1];
             st.shared.u32 [%r1], %r5;
             fence.proxy.async.shared::cta;
             bar.sync 0;
             {guard} cp.async.bulk.global.shared::cta.bulk_group [%d], [area], 256;
             {guard} cp.async.bulk.commit_group;
             {guard} cp.async.bulk.global.shared::cta.bulk_group [%d+256], [area+256], 256;
             {guard} cp.async.bulk.commit_group;
             {guard} cp.async.bulk.wait_group.read 0;
             {guard} cp.async.bulk.wait_group 0;"
        ))
        .finish()
}
