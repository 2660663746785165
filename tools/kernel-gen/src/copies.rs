//! Generates tests of asynchronous copies from global to shared memory (`cp.async`) and of `movmatrix`.

use oriole_kernel_test::{Fill, Source};

use crate::kernel::{Generated, Kernel, bits};
use crate::ty::U32;

const FAMILY: &str = "tensor";
const THREADS: usize = 128;
/// Words per thread in the input.
const WORDS: usize = 8;

pub fn tests() -> Vec<Generated> {
    let mut tests = Vec::new();
    for (bytes, cache) in [(4, "ca"), (8, "ca"), (16, "ca"), (16, "cg")] {
        tests.push(plain(bytes, cache));
        tests.push(partly(bytes, cache));
        tests.push(ignored(bytes, cache));
    }
    tests.push(with_policy());
    tests.push(groups());
    tests.push(pipeline());
    tests.push(transposed());
    tests
}

fn kernel(name: String, about: &str) -> Kernel {
    Kernel::new(FAMILY, name, about).platform("7.5", "sm_80").threads(THREADS).module(".shared .align 16 .b8 area[8192];").buffer(
        "a",
        U32,
        THREADS * WORDS,
        input(),
    )
}

fn input() -> Fill {
    Fill::all(Source::Random { seed: 77 })
}

fn words() -> Vec<u64> {
    input().values(U32.element, THREADS * WORDS)
}

/// Code that computes the addresses of the thread: `%rd1` in global memory, `%r1` in shared memory, where it owns 16 bytes, and `%r2`, the
/// shared address of the thread whose number differs in the lowest bit.
const ADDRESSES: &str = "mad.wide.u32 %rd1, %i, 32, %a;
    mov.u32 %r3, area;
    mad.lo.u32 %r1, %i, 16, %r3;
    xor.b32 %r4, %i, 1;
    mad.lo.u32 %r2, %r4, 16, %r3;
    mov.u32 %r5, 0xabababab;
    st.shared.v4.u32 [%r1], {%r5, %r5, %r5, %r5};
    bar.sync 0;";

/// Code that waits for all copies and stores the neighbour's 16 bytes.
const FINISH: &str = "cp.async.wait_all;
    bar.sync 0;
    ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r2];
    mad.wide.u32 %at, %i, 16, %d;
    st.global.v4.u32 [%at], {%r10, %r11, %r12, %r13};";

/// Returns what each thread reads: 16 bytes of its neighbour, of which `bytes` were copied, the bytes from `valid` on as zeros.
fn neighbours(bytes: usize, valid: impl Fn(usize) -> usize) -> Vec<u64> {
    let words = words();
    let word = |thread: usize, number: usize| {
        if 4 * number >= bytes {
            return 0xabab_abab;
        }
        let kept = valid(thread).saturating_sub(4 * number).min(4);
        words[thread * WORDS + number] & if kept == 4 { u64::MAX } else { (1 << (8 * kept)) - 1 }
    };
    (0..THREADS).flat_map(|thread| (0..4).map(move |number| (thread ^ 1, number))).map(|(thread, number)| word(thread, number)).collect()
}

fn plain(bytes: usize, cache: &str) -> Generated {
    kernel(format!("copy_{cache}_{bytes}"), &format!("cp.async.{cache} of {bytes} bytes, read by another thread after a barrier"))
        .output("d", U32, bits(neighbours(bytes, |_| bytes)))
        .body(ADDRESSES)
        .body(&format!("cp.async.{cache}.shared.global [%r1], [%rd1], {bytes};"))
        .body(FINISH)
        .finish()
}

fn partly(bytes: usize, cache: &str) -> Generated {
    let about = format!("cp.async.{cache} of {bytes} bytes of which a variable number is read; the rest becomes zero");
    kernel(format!("copy_{cache}_{bytes}_partly"), &about)
        .output("d", U32, bits(neighbours(bytes, |thread| thread % (bytes + 1))))
        .body(ADDRESSES)
        .body(&format!("rem.u32 %r6, %i, {};\ncp.async.{cache}.shared.global [%r1], [%rd1], {bytes}, %r6;", bytes + 1))
        .body(FINISH)
        .finish()
}

fn ignored(bytes: usize, cache: &str) -> Generated {
    let about = format!("cp.async.{cache} of {bytes} bytes with a predicate that ignores the source, and with a constant number of bytes");
    let valid = |thread: usize| match thread % 3 {
        0 => 0,
        _ if thread >= 64 => 3,
        _ => bytes,
    };
    kernel(format!("copy_{cache}_{bytes}_ignored"), &about)
        .output("d", U32, bits(neighbours(bytes, valid)))
        .body(ADDRESSES)
        .body(&format!(
            "rem.u32 %r6, %i, 3;
             setp.eq.u32 %p1, %r6, 0;
             setp.ge.u32 %p2, %i, 64;
             @%p2 bra UPPER;
             cp.async.{cache}.shared.global [%r1], [%rd1], {bytes}, %p1;
             bra DONE;
             UPPER:
             @%p1 cp.async.{cache}.shared.global [%r1], [%rd1], {bytes}, 0;
             @!%p1 cp.async.{cache}.shared.global [%r1], [%rd1], {bytes}, 3;
             DONE:"
        ))
        .body(FINISH)
        .finish()
}

fn with_policy() -> Generated {
    kernel("copy_policy".into(), "cp.async with a cache policy, a prefetch size and offsets on both sides")
        .output("d", U32, bits(neighbours(16, |_| 16)))
        .body(ADDRESSES)
        .body(
            "createpolicy.fractional.L2::evict_last.b64 %rd2, 1.0;
             add.u64 %rd3, %rd1, -4096;
             sub.u32 %r6, %r1, 64;
             cp.async.cg.shared.global.L2::cache_hint.L2::128B [%r6+64], [%rd3+4096], 16, %rd2;",
        )
        .body(FINISH)
        .finish()
}

fn groups() -> Generated {
    let words = words();
    let value = |thread: usize| [words[(thread ^ 1) * WORDS], words[(thread ^ 1) * WORDS + 4]];
    kernel("copy_groups".into(), "three groups of copies; the first is complete while later ones may be pending")
        .output("d", U32, bits((0..THREADS).flat_map(value)))
        .body(ADDRESSES)
        .body(
            "cp.async.ca.shared.global [%r1], [%rd1], 4;
             cp.async.commit_group;
             cp.async.ca.shared.global [%r1+2048], [%rd1+16], 4;
             cp.async.commit_group;
             cp.async.ca.shared.global [%r1+4096], [%rd1+8], 8;
             cp.async.commit_group;
             cp.async.wait_group 2;
             bar.sync 0;
             ld.shared.u32 %r10, [%r2];
             cp.async.wait_group 1;
             bar.sync 0;
             ld.shared.u32 %r11, [%r2+2048];
             mad.wide.u32 %at, %i, 8, %d;
             st.global.v2.u32 [%at], {%r10, %r11};
             cp.async.wait_group 0;",
        )
        .finish()
}

/// A loop that copies one step ahead, as matrix kernels do.
fn pipeline() -> Generated {
    let words = words();
    let sum =
        |thread: usize| (0..WORDS).fold(0_u32, |sum, step| sum.wrapping_mul(3).wrapping_add(words[(thread ^ 1) * WORDS + step] as u32));
    kernel("copy_pipeline".into(), "a loop with two buffers in shared memory: copies one step ahead of the reads")
        .output("d", U32, bits((0..THREADS).map(|thread| u64::from(sum(thread)))))
        .body(ADDRESSES)
        .body(
            "cp.async.ca.shared.global [%r1], [%rd1], 4;
             cp.async.commit_group;
             mov.u32 %r6, 0;
             mov.u32 %r7, 0;
             AGAIN:
             add.u32 %r8, %r6, 1;
             and.b32 %r9, %r8, 1;
             mad.lo.u32 %r9, %r9, 2048, %r1;
             mad.wide.u32 %rd2, %r8, 4, %rd1;
             setp.lt.u32 %p1, %r8, 8;
             @%p1 cp.async.ca.shared.global [%r9], [%rd2], 4;
             cp.async.commit_group;
             cp.async.wait_group 1;
             bar.sync 0;
             and.b32 %r9, %r6, 1;
             mad.lo.u32 %r9, %r9, 2048, %r2;
             ld.shared.u32 %r10, [%r9];
             mad.lo.u32 %r7, %r7, 3, %r10;
             bar.sync 0;
             mov.u32 %r6, %r8;
             @%p1 bra AGAIN;
             mad.wide.u32 %at, %i, 4, %d;
             st.global.u32 [%at], %r7;",
        )
        .finish()
}

/// `movmatrix`: thread `t` has elements (row `t / 4`, columns `2 (t % 4)` and the next one), and gets those of the transposed matrix.
fn transposed() -> Generated {
    let words = words();
    let element = |warp: usize, row: usize, column: usize| {
        let word = words[(32 * warp + 4 * row + column / 2) * WORDS];
        word >> (16 * (column % 2)) & 0xffff
    };
    let value = |thread: usize| {
        let (warp, lane) = (thread / 32, thread % 32);
        let (row, column) = (lane / 4, 2 * (lane % 4));
        element(warp, column, row) | element(warp, column + 1, row) << 16
    };
    kernel("movmatrix".into(), "movmatrix: transposes an 8x8 matrix in the registers of a warp")
        .platform("7.8", "sm_75")
        .output("d", U32, bits((0..THREADS).map(value)))
        .body(
            "mad.wide.u32 %rd1, %i, 32, %a;
             ld.global.u32 %r1, [%rd1];
             movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1;
             mad.wide.u32 %at, %i, 4, %d;
             st.global.u32 [%at], %r2;",
        )
        .finish()
}
