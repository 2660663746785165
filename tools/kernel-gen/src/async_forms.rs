//! Generates tests of the forms of `mbarrier` operations, of bulk copies and of bulk reductions that differ in modifiers only: orders and
//! scopes, state spaces, states and parities, time limits, cache hints, types.

use oriole_kernel_test::{Expected, Fill, Source, Tolerance};

use crate::kernel::{Generated, Kernel, bits};
use crate::ty::{BF16, F16, F32, F64, S64, Ty, U32, U64};

const FAMILY: &str = "barrier";
const THREADS: usize = 64;

/// Arrivals of one thread: a name, the PTX version, the instruction, and whether it gives the state of the phase.
#[rustfmt::skip]
const ARRIVALS: [(&str, &str, &str, bool); 15] = [
    ("plain", "8.0", "mbarrier.arrive.shared.b64 %rd2, [gate];", true),
    ("generic", "8.0", "mbarrier.arrive.b64 %rd2, [%rd4];", true),
    ("counted", "8.0", "mbarrier.arrive.shared::cta.b64 %rd2, [gate], 1;", true),
    ("release_cluster", "8.0", "mbarrier.arrive.release.cluster.shared::cta.b64 %rd2, [gate];", true),
    ("release_counted", "8.0", "mbarrier.arrive.release.cta.shared::cta.b64 %rd2, [gate], 1;", true),
    ("relaxed", "8.6", "fence.acq_rel.cta; mbarrier.arrive.relaxed.cta.shared::cta.b64 %rd2, [gate];", true),
    ("remote", "8.0", "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r20];", false),
    ("remote_counted", "8.0", "mbarrier.arrive.release.cta.shared::cluster.b64 _, [%r20], 1;", false),
    ("expect", "8.0", "mbarrier.arrive.expect_tx.release.cluster.shared::cta.b64 %rd2, [gate], 0;", true),
    ("expect_remote", "8.0", "mbarrier.arrive.expect_tx.shared::cluster.b64 _, [%r20], 0;", false),
    ("drop", "8.0", "mbarrier.arrive_drop.release.cluster.shared::cta.b64 %rd2, [gate];", true),
    ("drop_counted", "8.0", "mbarrier.arrive_drop.shared::cta.b64 %rd2, [gate], 1;", true),
    ("drop_remote", "8.0", "mbarrier.arrive_drop.release.cluster.shared::cluster.b64 _, [%r20];", false),
    ("drop_expect", "8.0", "mbarrier.arrive_drop.expect_tx.shared::cta.b64 %rd2, [gate], 0;", true),
    ("drop_expect_remote", "8.0", "mbarrier.arrive_drop.expect_tx.release.cluster.shared::cluster.b64 _, [%r20], 0;", false),
];

/// Tests of the phase: a name, the PTX version, the instruction, whether it needs the state, and what follows a test that succeeded.
#[rustfmt::skip]
const WAITS: [(&str, &str, &str, bool, &str); 11] = [
    ("test_state", "8.0", "mbarrier.test_wait.shared.b64 %p2, [gate], %rd2;", true, ""),
    ("test_generic", "8.0", "mbarrier.test_wait.b64 %p2, [%rd4], %rd2;", true, ""),
    ("test_acquire", "8.0", "mbarrier.test_wait.acquire.cluster.shared::cta.b64 %p2, [gate], %rd2;", true, ""),
    ("test_relaxed", "8.6", "mbarrier.test_wait.relaxed.cta.shared::cta.b64 %p2, [gate], %rd2;", true, "fence.acq_rel.cta;"),
    ("test_parity", "8.0", "mbarrier.test_wait.parity.acquire.cta.shared::cta.b64 %p2, [gate], 0;", false, ""),
    ("try_state", "8.0", "mbarrier.try_wait.shared.b64 %p2, [gate], %rd2;", true, ""),
    ("try_state_limit", "8.0", "mbarrier.try_wait.acquire.cluster.shared::cta.b64 %p2, [gate], %rd2, 1000;", true, ""),
    ("try_generic", "8.0", "mbarrier.try_wait.parity.b64 %p2, [%rd4], 0;", false, ""),
    ("try_parity_limit", "8.0", "mov.u32 %r21, 2000; mbarrier.try_wait.parity.shared::cta.b64 %p2, [gate], 0, %r21;", false, ""),
    ("try_parity_cluster", "8.0", "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [gate], 0, 100;", false, ""),
    ("try_relaxed", "8.6", "mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 %p2, [gate], 0;", false, "fence.acq_rel.cluster;"),
];

pub fn tests() -> Vec<Generated> {
    let mut tests = Vec::new();
    for arrival in &ARRIVALS {
        // Each arrival with a test by parity and, where it gives the state, one by state; the others follow from the list below.
        tests.push(exchange(arrival, &WAITS[4]));
        if arrival.3 {
            tests.push(exchange(arrival, &WAITS[5]));
        }
    }
    tests.extend(WAITS.iter().map(|wait| exchange(&ARRIVALS[0], wait)));
    tests.extend(LOADS.iter().map(load));
    tests.push(store_with_hint());
    tests.extend(WIDE_REDUCTIONS.iter().flat_map(|&(operation, types)| types.iter().map(move |&ty| reduce_wide(operation, ty))));
    tests.extend(SHARED_REDUCTIONS.iter().map(reduce_shared));
    let mut names = std::collections::BTreeSet::new();
    tests.retain(|test| names.insert(test.name.clone()));
    tests
}

fn fill() -> Fill {
    Fill::all(Source::Random { seed: 167 })
}

fn kernel(name: String, version: &'static str, about: &str) -> Kernel {
    Kernel::new(FAMILY, name, about)
        .platform(version, "sm_90")
        .threads(THREADS)
        .module(".shared .align 128 .b8 area[2048]; .shared .align 8 .b64 gate;")
}

/// Code that makes `gate` for some arrivals; `%r1` is the address of the thread's word in `area`, `%rd1` that of its word in `a`, `%rd4` and
/// `%r20` the generic address of `gate` and that in the cluster; `%p1` selects thread 0.
fn start(arrivals: usize) -> String {
    format!(
        "mov.u32 %r3, area;
         mad.lo.u32 %r1, %i, 4, %r3;
         mad.wide.u32 %rd1, %i, 4, %a;
         mov.u32 %r20, gate;
         cvt.u64.u32 %rd4, %r20;
         cvta.shared.u64 %rd4, %rd4;
         mov.u32 %r19, %cluster_ctarank;
         mapa.shared::cluster.u32 %r20, %r20, %r19;
         setp.eq.u32 %p1, %i, 0;
         @%p1 mbarrier.init.shared::cta.b64 [gate], {arrivals};
         fence.mbarrier_init.release.cluster;
         bar.sync 0;"
    )
}

/// All threads store a word, arrive and wait; then each reads the word of another thread.
fn exchange(arrival: &(&str, &'static str, &str, bool), wait: &(&str, &'static str, &str, bool, &str)) -> Generated {
    let words = fill().values(U32.element, THREADS);
    let version = if arrival.1 > wait.1 { arrival.1 } else { wait.1 };
    kernel(format!("mbarrier_form_{}_{}", arrival.0, wait.0), version, "words that threads exchange at an mbarrier")
        .buffer("a", U32, THREADS, fill())
        .output("d", U32, bits((0..THREADS).map(|thread| words[thread ^ 33])))
        .body(&start(THREADS))
        .body(&format!(
            "ld.global.u32 %r10, [%rd1];
             st.shared.u32 [%r1], %r10;
             {}
             WAIT: {}
             @!%p2 bra WAIT;
             {}
             xor.b32 %r11, %i, 33;
             mad.lo.u32 %r11, %r11, 4, %r3;
             ld.shared.u32 %r10, [%r11];
             mad.wide.u32 %at, %i, 4, %d;
             st.global.u32 [%at], %r10;",
            arrival.2, wait.2, wait.4
        ))
        .finish()
}

/// Bulk copies to shared memory: a name, the PTX version, the form, and the operands after the barrier.
const LOADS: [(&str, &str, &str, &str); 5] = [
    ("cta", "8.6", "shared::cta.global.mbarrier::complete_tx::bytes", ""),
    ("cta_hint", "8.6", "shared::cta.global.mbarrier::complete_tx::bytes.L2::cache_hint", ", %rd5"),
    ("hint", "8.0", "shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint", ", %rd5"),
    ("multicast", "8.0", "shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster", ", %rs1"),
    ("multicast_hint", "8.0", "shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint", ", %rs1, %rd5"),
];

fn load(&(name, version, form, rest): &(&str, &'static str, &str, &str)) -> Generated {
    let words = fill().values(U32.element, THREADS);
    kernel(format!("bulk_load_form_{name}"), version, "a bulk copy to shared memory")
        .buffer("a", U32, THREADS, fill())
        .output("d", U32, bits(words))
        .body(".reg .u16 %rs<4>;")
        .body(&start(1))
        .body(&format!(
            "createpolicy.fractional.L2::evict_last.b64 %rd5, 1.0;
             mov.u16 %rs1, 1;
             @!%p1 bra WAIT;
             cp.async.bulk.prefetch.L2.global [%a], 256;
             mbarrier.arrive.expect_tx.shared::cta.b64 _, [gate], 256;
             cp.async.bulk.{form} [area], [%a], 256, [gate]{rest};
             WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [gate], 0;
             @!%p2 bra WAIT;
             ld.shared.u32 %r10, [%r1];
             mad.wide.u32 %at, %i, 4, %d;
             st.global.u32 [%at], %r10;"
        ))
        .finish()
}

fn store_with_hint() -> Generated {
    let words = fill().values(U32.element, THREADS);
    kernel("bulk_store_form_hint".to_owned(), "8.0", "a bulk copy to global memory with a cache policy")
        .buffer("a", U32, THREADS, fill())
        .output("d", U32, bits(words))
        .body(&start(1))
        .body(
            "ld.global.u32 %r10, [%rd1];
             st.shared.u32 [%r1], %r10;
             fence.proxy.async.shared::cta;
             bar.sync 0;
             @!%p1 bra DONE;
             createpolicy.fractional.L2::evict_first.b64 %rd5, 1.0;
             cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%d], [area], 256, %rd5;
             cp.async.bulk.commit_group;
             cp.async.bulk.wait_group 0;
             DONE:",
        )
        .finish()
}

/// Reductions of numbers of 16 and 64 bits and of floats. All values are integers below 64, so sums are exact in each type.
const WIDE_REDUCTIONS: [(&str, &[Ty]); 6] = [
    ("add", &[U64, F16, BF16, F32, F64]),
    ("min", &[U64, S64, F16, BF16]),
    ("max", &[U64, S64, F16, BF16]),
    ("and", &[U64]),
    ("or", &[U64]),
    ("xor", &[U64]),
];

/// Returns the bits of a small integer in a type.
fn encoded(ty: Ty, value: u64) -> u64 {
    let single = u64::from((value as f32).to_bits());
    match ty.name {
        "f64" => (value as f64).to_bits(),
        "f32" => single,
        "bf16" => single >> 16,
        // The exponent has 5 bits with the bias 15, the fraction 10.
        "f16" if value == 0 => 0,
        "f16" => {
            let exponent = value.ilog2();
            u64::from(exponent + 15) << 10 | (value << (10 - exponent)) & 0x3ff
        }
        _ => value,
    }
}

/// Returns the result of an operation on small integers.
fn combined(operation: &str, old: u64, new: u64) -> u64 {
    match operation {
        "add" => old + new,
        "min" => old.min(new),
        "max" => old.max(new),
        "and" => old & new,
        "or" => old | new,
        _ => old ^ new,
    }
}

fn reduce_wide(operation: &str, ty: Ty) -> Generated {
    let count = 256 / ty.bytes();
    let old: Vec<u64> = (0..count as u64).map(|number| (number * 7 + 3) % 64).collect();
    let new: Vec<u64> = (0..count as u64).map(|number| (number * 29 + 11) % 64).collect();
    let values = |numbers: &[u64]| Fill::of(&numbers.iter().map(|&number| (Source::Value(encoded(ty, number)), 1)).collect::<Vec<_>>());
    let expected: Vec<Expected> = bits(old.iter().zip(&new).map(|(&old, &new)| encoded(ty, combined(operation, old, new))));
    let rounding = if matches!(ty.name, "f16" | "bf16") && operation == "add" { "noftz." } else { "" };
    let name = if matches!(operation, "and" | "or" | "xor") { "b64" } else { ty.name };
    kernel(format!("bulk_reduce_form_{operation}_{name}"), "8.0", "a bulk reduction in global memory")
        .buffer("a", ty, count, values(&new))
        .buffer("d", ty, count, values(&old))
        .expect("d", Tolerance::Exact, expected)
        .body(&start(1))
        .body(&format!(
            "ld.global.u32 %r10, [%rd1];
             st.shared.u32 [%r1], %r10;
             fence.proxy.async.shared::cta;
             bar.sync 0;
             @!%p1 bra DONE;
             createpolicy.fractional.L2::evict_last.b64 %rd5, 1.0;
             cp.reduce.async.bulk.global.shared::cta.bulk_group.L2::cache_hint.{operation}.{rounding}{name} [%d], [area], 256, %rd5;
             cp.async.bulk.commit_group;
             cp.async.bulk.wait_group 0;
             DONE:"
        ))
        .finish()
}

/// A reduction in shared memory: operation, type, and the function of the old word and the operand.
type SharedReduction = (&'static str, &'static str, fn(u32, u32) -> u32);

const SHARED_REDUCTIONS: [SharedReduction; 11] = [
    ("add", "u32", u32::wrapping_add),
    ("add", "s32", u32::wrapping_add),
    ("min", "u32", |old, operand| old.min(operand)),
    ("min", "s32", |old, operand| (old as i32).min(operand as i32) as u32),
    ("max", "u32", |old, operand| old.max(operand)),
    ("max", "s32", |old, operand| (old as i32).max(operand as i32) as u32),
    ("inc", "u32", |old, operand| if old >= operand { 0 } else { old + 1 }),
    ("dec", "u32", |old, operand| if old == 0 || old > operand { operand } else { old - 1 }),
    ("and", "b32", |old, operand| old & operand),
    ("or", "b32", |old, operand| old | operand),
    ("xor", "b32", |old, operand| old ^ operand),
];

/// Reduces a part of shared memory of each block of a cluster into that of the other one. Without a cluster, an H200 reports an illegal
/// instruction, for code of ptxas too.
fn reduce_shared(&(operation, ty, update): &SharedReduction) -> Generated {
    let words = fill().values(U32.element, 2 * THREADS);
    let value = |thread: usize| u64::from(update(words[thread] as u32, words[THREADS + thread] as u32));
    kernel(format!("bulk_reduce_shared_{operation}_{ty}"), "8.0", "a bulk reduction in shared memory of another block")
        .shape([2, 1, 1], [THREADS as u32, 1, 1])
        .attributes(".reqnctapercluster 2, 1, 1")
        .buffer("a", U32, 2 * THREADS, fill())
        .output("d", U32, bits((0..THREADS).map(value)))
        .body(&format!("mov.u32 %i, %tid.x;\n{}", start(1)))
        .body(&format!(
            "ld.global.u32 %r10, [%rd1];
             st.shared.u32 [%r1], %r10;
             ld.global.u32 %r10, [%rd1+256];
             st.shared.u32 [%r1+256], %r10;
             fence.proxy.async.shared::cta;
             barrier.cluster.arrive.aligned;
             barrier.cluster.wait.aligned;
             @!%p1 bra WAIT;
             mov.u32 %r12, area;
             xor.b32 %r19, %r19, 1;
             mapa.shared::cluster.u32 %r12, %r12, %r19;
             mov.u32 %r13, gate;
             mapa.shared::cluster.u32 %r20, %r13, %r19;
             mbarrier.arrive.expect_tx.shared::cta.b64 _, [gate], 256;
             cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{operation}.{ty} [%r12], [area+256], 256, [%r20];
             WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [gate], 0;
             @!%p2 bra WAIT;
             barrier.cluster.arrive.aligned;
             barrier.cluster.wait.aligned;
             ld.shared.u32 %r10, [%r1];
             mad.wide.u32 %at, %i, 4, %d;
             st.global.u32 [%at], %r10;"
        ))
        .finish()
}
