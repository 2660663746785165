//! Generates tests of warp operations that the threads of a warp execute together at different instructions.

use crate::kernel::{Generated, Kernel, bits, store};
use crate::ty::U32;

const FAMILY: &str = "warp";
/// Two warps.
const THREADS: usize = 64;

pub fn tests() -> Vec<Generated> {
    let mut tests = vec![barriers(), shuffles_by_index(), votes(), matches(), masks(), rounds(), one_further_on(), early_exits(), guards()];
    tests.extend([("up", -1), ("down", 1), ("bfly", 0)].map(|(mode, direction)| shuffles(mode, direction)));
    tests
}

fn each(value: impl Fn(u64) -> u64) -> Vec<oriole_kernel_test::Expected> {
    bits((0..THREADS as u64).map(|thread| value(thread) & 0xffff_ffff))
}

/// Returns the mask of the lanes for which `is_member` holds.
fn lanes(is_member: impl Fn(u64) -> bool) -> u64 {
    (0..32).filter(|&lane| is_member(lane)).map(|lane| 1 << lane).sum()
}

/// Returns the thread with this lane in the warp of a thread.
fn in_warp(thread: u64, lane: u64) -> u64 {
    thread / 32 * 32 + lane % 32
}

/// Computes `%r1`: the lane; `%p1`: odd threads; `%p2`, `%p3`: threads whose number is 1 or 2 modulo 3.
const LANE: &str = "
    and.b32 %r1, %i, 31;
    and.b32 %r2, %i, 1;
    setp.eq.u32 %p1, %r2, 1;
    rem.u32 %r3, %i, 3;
    setp.eq.u32 %p2, %r3, 1;
    setp.eq.u32 %p3, %r3, 2;
";

fn kernel(name: &str, about: &str) -> Kernel {
    Kernel::new(FAMILY, name, about).threads(THREADS).body(LANE)
}

fn barriers() -> Generated {
    let arm = |number: u32| {
        format!(
            "mad.lo.u32 %r5, %i, 2, {number};
             st.shared.u32 [%r8], %r5;
             bar.warp.sync -1;
             ld.shared.u32 %r6, [%r9];
             add.u32 %r6, %r6, {};
             bra END;\n",
            1000 * number
        )
    };
    kernel("apart_barriers", "bar.warp.sync in three arms; each thread reads what its neighbour stored")
        .module(".shared .align 16 .b8 area[256];")
        .output("d", U32, each(|i| (i ^ 1) * 2 + (i ^ 1) % 3 + 1000 * (i % 3)))
        .body(
            "mov.u32 %r7, area;
             shl.b32 %r8, %i, 2;
             xor.b32 %r9, %r8, 4;
             add.u32 %r8, %r8, %r7;
             add.u32 %r9, %r9, %r7;
             @%p2 bra ONE;
             @%p3 bra TWO;",
        )
        .body(&arm(0))
        .body("ONE:")
        .body(&arm(1))
        .body("TWO:")
        .body(&arm(2))
        .body("END:")
        .body(&store(U32, "%r6", "d"))
        .finish()
}

fn shuffles_by_index() -> Generated {
    let source = |i: u64| [(i * 7 + 3) % 32, 5, 31 - i % 32][(i % 3) as usize];
    kernel("apart_shfl_idx", "shfl.sync.idx in three arms, with lanes in registers and a constant one")
        .output(
            "d",
            U32,
            each(|i| {
                let from = in_warp(i, source(i));
                10 * from + from % 3
            }),
        )
        .body(
            "mul.lo.u32 %r5, %i, 10;
             @%p2 bra ONE;
             @%p3 bra TWO;
             mad.lo.u32 %r6, %i, 7, 3;
             and.b32 %r6, %r6, 31;
             shfl.sync.idx.b32 %r7, %r5, %r6, 31, -1;
             bra END;
             ONE:
             add.u32 %r5, %r5, 1;
             shfl.sync.idx.b32 %r7, %r5, 5, 31, -1;
             bra END;
             TWO:
             add.u32 %r5, %r5, 2;
             sub.u32 %r6, 31, %r1;
             shfl.sync.idx.b32 %r7, %r5, %r6, 31, -1;
             END:",
        )
        .body(&store(U32, "%r7", "d"))
        .finish()
}

/// `direction` is the sign of the distance; 0 for `bfly`.
fn shuffles(mode: &str, direction: i64) -> Generated {
    let segment = if direction < 0 { 0 } else { 31 };
    let expected = |i: u64| {
        let (lane, distance) = (i % 32, 1 + 2 * (i % 2));
        let from = if direction == 0 { (lane ^ distance) as i64 } else { lane as i64 + direction * distance as i64 };
        let is_valid = (0..32).contains(&from);
        3 * if is_valid { in_warp(i, from as u64) } else { i } + 100_000 * u64::from(is_valid)
    };
    kernel(&format!("apart_shfl_{mode}"), &format!("shfl.sync.{mode} with its predicate in two arms, with different distances"))
        .output("d", U32, each(expected))
        .body("mul.lo.u32 %r5, %i, 3;\n@%p1 bra ODD;")
        .body(&format!("shfl.sync.{mode}.b32 %r7|%p4, %r5, 1, {segment}, -1;\nbra END;\nODD:"))
        .body(&format!("mov.u32 %r6, 3;\nshfl.sync.{mode}.b32 %r7|%p4, %r5, %r6, {segment}, -1;\nEND:"))
        .body("@%p4 add.u32 %r7, %r7, 100000;")
        .body(&store(U32, "%r7", "d"))
        .finish()
}

/// Votes on a predicate that holds in some threads, one that holds in all and one that holds in none.
fn votes() -> Generated {
    let arm = |holds: &str| {
        let flags = ["some", "all", "none"].iter().enumerate().flat_map(|(at, _)| {
            ["all", "any", "uni"].map(|mode| format!("vote.sync.{mode}.pred %p7, %p{}, -1;\nselp.u32 %r6, 1, 0, %p7;\n", at + 4))
        });
        let sum: String = flags.enumerate().map(|(bit, text)| format!("{text}shl.b32 %r6, %r6, {bit};\nor.b32 %r8, %r8, %r6;\n")).collect();
        format!(
            "setp.{holds};
             setp.ne.u32 %p5, %i, 200;
             setp.eq.u32 %p6, %i, 200;
             vote.sync.ballot.b32 %r7, %p4, -1;
             {sum}"
        )
    };
    let holds = |i: u64| if i.is_multiple_of(2) { i % 32 < 20 } else { i % 32 > 9 };
    // Bits 0 to 2: all, any and uni of the first predicate; then those of the second and the third.
    let flags = 0b010 | 0b111 << 3 | 0b100 << 6;
    kernel("apart_votes", "vote.sync in both arms of a branch, in all modes")
        .output("d", U32, each(|i| lanes(|lane| holds(in_warp(i, lane)))))
        .output("e", U32, each(|_| flags))
        .body("mov.u32 %r8, 0;\n@%p1 bra ODD;")
        .body(&arm("lt.u32 %p4, %r1, 20"))
        .body("bra END;\nODD:")
        .body(&arm("gt.u32 %p4, %r1, 9"))
        .body("END:")
        .body(&store(U32, "%r7", "d"))
        .body(&store(U32, "%r8", "e"))
        .finish()
}

fn matches() -> Generated {
    let arm = |number: u32| {
        format!(
            "add.u32 %r5, %r4, {number};
             match.any.sync.b32 %r6, %r5, -1;
             cvt.u64.u32 %d1, %r5;
             shl.b64 %d1, %d1, 32;
             match.any.sync.b64 %r7, %d1, -1;
             match.all.sync.b32 %r8|%p4, %r5, -1;
             @%p4 add.u32 %r8, %r8, 1;
             sub.u32 %r5, %r5, %r5;
             add.u32 %r5, %r5, %r9;
             match.all.sync.b64 %r10|%p5, %d2, -1;
             selp.u32 %r11, 7, 0, %p5;\n"
        )
    };
    let value = |i: u64| i % 32 % 5 + i % 2;
    kernel("apart_matches", "match.sync in both arms of a branch, on words and double words")
        .registers(".reg .b64 %d<4>;")
        .output("d", U32, each(|i| lanes(|lane| value(in_warp(i, lane)) == value(i))))
        .output("e", U32, each(|i| lanes(|lane| value(in_warp(i, lane)) == value(i))))
        .output("f", U32, each(|_| 0))
        .output("g", U32, each(|_| 0xffff_ffff))
        .output("h", U32, each(|_| 7))
        .body(
            "rem.u32 %r4, %r1, 5;
             shr.u32 %r9, %i, 5;
             cvt.u64.u32 %d2, %r9;
             @%p1 bra ODD;",
        )
        .body(&arm(0))
        .body("bra END;\nODD:")
        .body(&arm(1))
        .body("END:")
        .body(&store(U32, "%r6", "d"))
        .body(&store(U32, "%r7", "e"))
        .body(&store(U32, "%r8", "f"))
        .body(&store(U32, "%r10", "g"))
        .body(&store(U32, "%r11", "h"))
        .finish()
}

/// Four groups of lanes with the same remainder modulo 4 work independently of each other; the halves of each group take different arms.
fn masks() -> Generated {
    let arm = |number: u32| {
        format!(
            "mad.lo.u32 %r5, %i, 3, {number};
             shfl.sync.bfly.b32 %r6, %r5, 16, 31, %r4;
             setp.gt.u32 %p5, %r6, 90;
             vote.sync.ballot.b32 %r7, %p5, %r4;
             match.all.sync.b32 %r8|%p6, %r9, %r4;
             selp.u32 %r8, %r8, 5, %p6;
             bar.warp.sync %r4;\n"
        )
    };
    let received = |i: u64| 3 * (i ^ 16) + (i ^ 16) / 16 % 2;
    let group = |i: u64| lanes(|lane| lane % 4 == i % 4);
    kernel("apart_masks", "shuffles, votes and matches of four groups of lanes, each in two arms, with masks in registers")
        .output("d", U32, each(received))
        .output("e", U32, each(|i| lanes(|lane| lane % 4 == i % 4 && received(in_warp(i, lane)) > 90)))
        .output("f", U32, each(group))
        .body(
            "and.b32 %r9, %i, 3;
             mov.u32 %r4, 0x11111111;
             shl.b32 %r4, %r4, %r9;
             and.b32 %r10, %i, 16;
             setp.ne.u32 %p4, %r10, 0;
             @%p4 bra UPPER;",
        )
        .body(&arm(0))
        .body("bra END;\nUPPER:")
        .body(&arm(1))
        .body("END:")
        .body(&store(U32, "%r6", "d"))
        .body(&store(U32, "%r7", "e"))
        .body(&store(U32, "%r8", "f"))
        .finish()
}

/// A loop of six rounds with a branch whose arms have a shuffle each. The arm that a thread takes depends on the thread and on the round.
fn rounds() -> Generated {
    let mut values: Vec<u64> = (0..THREADS as u64).collect();
    for round in 0..6 {
        let sent: Vec<u64> = (0..THREADS as u64).map(|i| values[i as usize] + if (i + round).is_multiple_of(3) { 7 } else { 0 }).collect();
        values = (0..THREADS as u64).map(|i| values[i as usize] + 2 * sent[(i ^ (1 << (round % 5))) as usize]).collect();
    }
    kernel("apart_rounds", "a loop with a shuffle in both arms of a branch that changes direction")
        .output("d", U32, each(|i| values[i as usize]))
        .body(
            "mov.u32 %r5, %i;
             mov.u32 %r6, 0;
             ROUND:
             rem.u32 %r7, %r6, 5;
             mov.u32 %r8, 1;
             shl.b32 %r8, %r8, %r7;
             add.u32 %r9, %i, %r6;
             rem.u32 %r9, %r9, 3;
             setp.eq.u32 %p4, %r9, 0;
             @%p4 bra OTHER;
             shfl.sync.bfly.b32 %r10, %r5, %r8, 31, -1;
             bra JOIN;
             OTHER:
             add.u32 %r11, %r5, 7;
             shfl.sync.bfly.b32 %r10, %r11, %r8, 31, -1;
             JOIN:
             mad.lo.u32 %r5, %r10, 2, %r5;
             add.u32 %r6, %r6, 1;
             setp.lt.u32 %p5, %r6, 6;
             @%p5 bra ROUND;",
        )
        .body(&store(U32, "%r5", "d"))
        .finish()
}

/// Even threads leave out the first of four iterations, odd ones the last, so they are at the shuffle in different iterations. Where the
/// compiler unrolls the loop, these are different instructions.
fn one_further_on() -> Generated {
    kernel("apart_iterations", "a loop with a shuffle that even and odd threads leave out in different iterations")
        .output("d", U32, each(|i| (0..3).map(|number| 10 * (i ^ 1) + number).sum()))
        .body(
            "mov.u32 %r5, 0;
             mul.lo.u32 %r6, %i, 10;
             mov.u32 %r7, 0;
             mul.lo.u32 %r8, %r2, 3;
             ROUND:
             setp.eq.u32 %p4, %r7, %r8;
             @%p4 bra NEXT;
             shfl.sync.bfly.b32 %r9, %r6, 1, 31, -1;
             add.u32 %r5, %r5, %r9;
             add.u32 %r6, %r6, 1;
             NEXT:
             add.u32 %r7, %r7, 1;
             setp.lt.u32 %p5, %r7, 4;
             @%p5 bra ROUND;",
        )
        .body(&store(U32, "%r5", "d"))
        .finish()
}

fn guards() -> Generated {
    kernel("apart_guards", "shuffles, votes and a barrier with opposite guards, one after the other")
        .output("d", U32, each(|i| 4 * (i ^ 1) + (i + 1) % 2))
        .output("e", U32, each(|i| lanes(|lane| 4 * (in_warp(i, lane) ^ 1) + (lane + 1) % 2 > 100)))
        .body(
            "mul.lo.u32 %r5, %i, 4;
             @%p1 add.u32 %r5, %r5, 1;
             @%p1 shfl.sync.bfly.b32 %r6, %r5, 1, 31, -1;
             @!%p1 shfl.sync.bfly.b32 %r6, %r5, 1, 31, -1;
             setp.gt.u32 %p4, %r6, 100;
             @!%p1 vote.sync.ballot.b32 %r7, %p4, -1;
             @%p1 vote.sync.ballot.b32 %r7, %p4, -1;
             @%p1 bar.warp.sync -1;
             @!%p1 bar.warp.sync -1;",
        )
        .body(&store(U32, "%r6", "d"))
        .body(&store(U32, "%r7", "e"))
        .finish()
}

fn early_exits() -> Generated {
    kernel("apart_exits", "shuffles in both arms of a branch after some threads have exited")
        .output("d", U32, each(|i| if i % 32 < 24 { 5 * in_warp(i, (i % 32 + 5) % 24) + 1 } else { 0 }))
        .body(
            "setp.ge.u32 %p4, %r1, 24;
             @%p4 exit;
             add.u32 %r5, %r1, 5;
             rem.u32 %r5, %r5, 24;
             @%p1 bra ODD;
             mad.lo.u32 %r6, %i, 5, 1;
             shfl.sync.idx.b32 %r7, %r6, %r5, 31, -1;
             bra END;
             ODD:
             mul.lo.u32 %r6, %i, 5;
             add.u32 %r6, %r6, 1;
             shfl.sync.idx.b32 %r7, %r6, %r5, 31, -1;
             END:",
        )
        .body(&store(U32, "%r7", "d"))
        .finish()
}
