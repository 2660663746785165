//! Generates tests of barriers in shared memory (`mbarrier`) and of bulk copies (`cp.async.bulk`).

use oriole_kernel_test::{Fill, Source};

use crate::kernel::{Generated, Kernel, bits};
use crate::ty::U32;

const FAMILY: &str = "barrier";
const THREADS: usize = 128;

pub fn tests() -> Vec<Generated> {
    vec![phases(), parity(), pending(), after_copies(), load(), load_by_each_thread(), store(), reduce()]
}

fn input() -> Fill {
    Fill::all(Source::Random { seed: 91 })
}

fn words() -> Vec<u64> {
    input().values(U32.element, THREADS)
}

fn kernel(name: &str, about: &str, version: &'static str, target: &'static str) -> Kernel {
    Kernel::new(FAMILY, name, about)
        .platform(version, target)
        .threads(THREADS)
        .module(".shared .align 128 .b8 area[1024]; .shared .align 8 .b64 gate;")
        .buffer("a", U32, THREADS, input())
}

/// Code that initializes the barrier for `count` arrivals and computes addresses: `%r1` of the thread's word in shared memory, `%r2` of the
/// word of the thread whose number differs in bit 6, and `%rd1` of the thread's word in `a`.
fn start(count: usize) -> String {
    format!(
        "mov.u32 %r3, area;
         mad.lo.u32 %r1, %i, 4, %r3;
         xor.b32 %r4, %i, 64;
         mad.lo.u32 %r2, %r4, 4, %r3;
         mad.wide.u32 %rd1, %i, 4, %a;
         setp.eq.u32 %p1, %i, 0;
         @%p1 mbarrier.init.shared.b64 [gate], {count};
         bar.sync 0;"
    )
}

const FINISH: &str = "mad.wide.u32 %at, %i, 4, %d;
    st.global.u32 [%at], %r10;";

fn phases() -> Generated {
    let words = words();
    let value = |thread: usize| words[thread ^ 64].wrapping_add(words[thread]) & 0xffff_ffff;
    kernel("mbarrier_phases", "two phases of an mbarrier, waited for by state, between two warps", "7.1", "sm_80")
        .output("d", U32, bits((0..THREADS).map(value)))
        .body(&start(THREADS))
        .body(
            "ld.global.u32 %r5, [%rd1];
             st.shared.u32 [%r1], %r5;
             mbarrier.arrive.shared.b64 %rd2, [gate];
             FIRST: mbarrier.test_wait.shared.b64 %p2, [gate], %rd2;
             @!%p2 bra FIRST;
             ld.shared.u32 %r6, [%r2];
             add.u32 %r7, %r6, %r5;
             mbarrier.arrive.shared.b64 %rd3, [gate];
             SECOND: mbarrier.test_wait.shared.b64 %p3, [gate], %rd3;
             @!%p3 bra SECOND;
             st.shared.u32 [%r1], %r7;
             bar.sync 0;
             ld.shared.u32 %r10, [%r1];",
        )
        .body(FINISH)
        .finish()
}

fn parity() -> Generated {
    let words = words();
    kernel("mbarrier_parity", "an mbarrier waited for by parity; one warp arrives with a count, one drops out", "8.0", "sm_90")
        .output("d", U32, bits((0..THREADS).map(|thread| words[thread ^ 64])))
        .body(&start(THREADS + 3))
        .body(
            "ld.global.u32 %r5, [%rd1];
             st.shared.u32 [%r1], %r5;
             mov.u32 %r6, 4;
             @%p1 mbarrier.arrive.shared.b64 _, [gate], %r6;
             @!%p1 mbarrier.arrive.shared::cta.b64 _, [gate];
             FIRST: mbarrier.try_wait.parity.shared.b64 %p2, [gate], 0;
             @!%p2 bra FIRST;
             ld.shared.u32 %r10, [%r2];
             mov.u32 %r7, 3;
             @%p1 mbarrier.arrive_drop.shared.b64 _, [gate], %r7;
             mbarrier.arrive.release.cta.shared.b64 _, [gate];
             SECOND: mbarrier.try_wait.parity.shared.b64 %p3, [gate], 1, 1000;
             @!%p3 bra SECOND;
             mbarrier.arrive.shared.b64 _, [gate];
             THIRD: mbarrier.try_wait.parity.acquire.cta.shared.b64 %p4, [gate], 0;
             @!%p4 bra THIRD;",
        )
        .body(FINISH)
        .finish()
}

fn pending() -> Generated {
    kernel("mbarrier_pending", "mbarrier.pending_count of the states of arrivals with .noComplete", "7.1", "sm_80")
        .output("d", U32, bits((0..THREADS).map(|_| 500)))
        .body(&start(500))
        .body(
            "mov.u32 %r10, 500;
             @!%p1 bra DONE;
             mbarrier.arrive.noComplete.shared.b64 %rd2, [gate], 10;
             mbarrier.arrive_drop.noComplete.shared.b64 %rd3, [gate], 20;
             mbarrier.arrive.noComplete.shared.b64 %rd4, [gate], 1;
             mbarrier.pending_count.b64 %r5, %rd2;
             mbarrier.pending_count.b64 %r6, %rd3;
             mbarrier.pending_count.b64 %r7, %rd4;
             // 500 + (490 - 490) + (470 - 470)
             sub.u32 %r6, %r6, 490;
             sub.u32 %r7, %r7, 470;
             add.u32 %r10, %r5, %r6;
             add.u32 %r10, %r10, %r7;
             DONE:",
        )
        .body(FINISH)
        .finish()
}

fn after_copies() -> Generated {
    let words = words();
    kernel("mbarrier_copies", "cp.async.mbarrier.arrive, counted and not counted by the barrier", "7.1", "sm_80")
        .output("d", U32, bits((0..THREADS).map(|thread| words[thread ^ 64])))
        .body(&start(2 * THREADS))
        .body(
            "cp.async.ca.shared.global [%r1], [%rd1], 4;
             cp.async.mbarrier.arrive.shared.b64 [gate];
             cp.async.mbarrier.arrive.noinc.shared.b64 [gate];
             mbarrier.arrive.shared.b64 %rd2, [gate];
             FIRST: mbarrier.test_wait.shared.b64 %p2, [gate], %rd2;
             @!%p2 bra FIRST;
             ld.shared.u32 %r10, [%r2];",
        )
        .body(FINISH)
        .finish()
}

/// Code that waits for the first phase of the barrier.
const WAIT: &str = "WAITING: mbarrier.try_wait.parity.shared.b64 %p2, [gate], 0;
    @!%p2 bra WAITING;";

fn load() -> Generated {
    let words = words();
    kernel("bulk_load", "a bulk copy from global to shared memory that all threads wait for", "8.0", "sm_90")
        .output("d", U32, bits((0..THREADS).map(|thread| words[thread ^ 64])))
        .body(&start(1))
        .body(
            "setp.ge.u32 %p4, %i, 32;
             @%p4 bra WAITING;
             elect.sync _|%p3, -1;
             @!%p3 bra WAITING;
             fence.proxy.async.shared::cta;
             mbarrier.arrive.expect_tx.shared.b64 _, [gate], 512;
             cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [area], [%a], 256, [gate];
             cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [area+256], [%a+256], 256, [gate];",
        )
        .body(WAIT)
        .body("ld.shared.u32 %r10, [%r2];")
        .body(FINISH)
        .finish()
}

fn load_by_each_thread() -> Generated {
    let words = words();
    kernel("bulk_load_each", "every thread of a warp issues a bulk copy of its own", "8.0", "sm_90")
        .output("d", U32, bits((0..THREADS).map(|thread| words[thread ^ 64])))
        .body(&start(32))
        .body(
            "setp.ge.u32 %p3, %i, 32;
             @%p3 bra WAITING;
             mad.lo.u32 %r5, %i, 16, %r3;
             mad.wide.u32 %rd2, %i, 16, %a;
             fence.proxy.async;
             mbarrier.arrive.expect_tx.release.cta.shared.b64 _, [gate], 16;
             cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%rd2], 16, [gate];",
        )
        .body(WAIT)
        .body("ld.shared.u32 %r10, [%r2];")
        .body(FINISH)
        .finish()
}

/// Code with which all threads write shared memory and the first thread continues; the others go to `DONE`.
const FILL_SHARED: &str = "ld.global.u32 %r5, [%rd1];
    st.shared.u32 [%r1], %r5;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @!%p1 bra DONE;";

fn store() -> Generated {
    let words = words();
    kernel("bulk_store", "a bulk copy from shared to global memory, in groups", "8.0", "sm_90")
        .output("d", U32, bits((0..THREADS).map(|thread| words[thread])))
        .body(&start(1))
        .body(FILL_SHARED)
        .body(
            "cp.async.bulk.global.shared::cta.bulk_group [%d], [area], 256;
             cp.async.bulk.commit_group;
             mov.u32 %r8, 256;
             cp.async.bulk.global.shared::cta.bulk_group [%d+256], [area+256], %r8;
             cp.async.bulk.commit_group;
             cp.async.bulk.wait_group.read 1;
             cp.async.bulk.wait_group 0;
             DONE:",
        )
        .finish()
}

fn reduce() -> Generated {
    let words = words();
    kernel("bulk_reduce", "a bulk copy to global memory, then a bulk reduction with the same words", "8.0", "sm_90")
        .output("d", U32, bits((0..THREADS).map(|thread| words[thread].wrapping_mul(2) & 0xffff_ffff)))
        .body(&start(1))
        .body(FILL_SHARED)
        .body(
            "cp.async.bulk.global.shared::cta.bulk_group [%d], [area], 512;
             cp.async.bulk.commit_group;
             cp.async.bulk.wait_group 0;
             cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d], [area], 512;
             cp.async.bulk.commit_group;
             cp.async.bulk.wait_group 0;
             DONE:",
        )
        .finish()
}
