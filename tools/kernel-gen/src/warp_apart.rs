//! Generates tests of warp operations that the threads of a warp execute together at different instructions.

use crate::kernel::{Generated, Kernel, bits, store};
use crate::ty::U32;
use oriole_kernel_test::{Fill, Source};

const FAMILY: &str = "warp";
/// Two warps.
const THREADS: usize = 64;

pub fn tests() -> Vec<Generated> {
    let mut tests = vec![barriers(), shuffles_by_index(), votes(), matches(), masks(), rounds(), one_further_on(), early_exits(), guards()];
    tests.extend([reductions(), reductions_of_groups(), reductions_in_rounds(), elections(), elections_of_groups()]);
    tests.extend([functions(), function_and_kernel(), function_of_function(), function_with_memory()]);
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

/// Reductions in both arms of a branch; each thread stores what it got, and a constant address of the kernel is used afterwards.
fn reductions() -> Generated {
    let arm = |number: u32| {
        let reduce = |at: usize, operation: &str, value: &str| format!("redux.sync.{operation} %r{}, {value}, -1;\n", at + 10);
        let operations = ["add.u32", "add.s32", "min.u32", "min.s32", "max.u32", "max.s32", "and.b32", "or.b32", "xor.b32"];
        let all: String = operations.iter().enumerate().map(|(at, operation)| reduce(at, operation, "%r5")).collect();
        format!("mad.lo.u32 %r5, %i, 77777777, {number};\n{all}")
    };
    let value = |i: u64| (i * 77_777_777 + i % 2 * 5) as u32;
    let warp = |i: u64| (0..32).map(move |lane| value(in_warp(i, lane)));
    let signed = |i: u64| warp(i).map(|value| value as i32);
    let results = |i: u64| {
        let sum = warp(i).fold(0, u32::wrapping_add);
        [
            sum,
            sum,
            warp(i).min().unwrap_or_default(),
            signed(i).min().unwrap_or_default() as u32,
            warp(i).max().unwrap_or_default(),
            signed(i).max().unwrap_or_default() as u32,
            warp(i).fold(u32::MAX, |one, other| one & other),
            warp(i).fold(0, |one, other| one | other),
            warp(i).fold(0, |one, other| one ^ other),
        ]
    };
    let names = ["d", "e", "f", "g", "h", "k", "l", "m", "n"];
    let mut test = kernel("apart_redux", "redux.sync in both arms of a branch, all operations").platform("8.0", "sm_80");
    for (at, name) in names.iter().enumerate() {
        test = test.output(name, U32, each(|i| u64::from(results(i)[at])));
    }
    test = test.body("@%p1 bra ODD;").body(&arm(0)).body("bra END;\nODD:").body(&arm(5)).body("END:");
    for (at, name) in names.iter().enumerate() {
        test = test.body(&store(U32, &format!("%r{}", at + 10), name));
    }
    test.finish()
}

/// Four groups of lanes with the same remainder modulo 4 reduce independently of each other; the halves of each group take different arms.
fn reductions_of_groups() -> Generated {
    let arm = |number: u32| {
        format!(
            "mad.lo.u32 %r5, %i, 3, {number};
             redux.sync.add.u32 %r6, %r5, %r4;
             redux.sync.max.u32 %r7, %r5, %r4;\n"
        )
    };
    let value = |i: u64| 3 * i + i / 16 % 2 * 50;
    let group = |i: u64| (0..32).filter(move |lane| lane % 4 == i % 4).map(move |lane| value(in_warp(i, lane)));
    kernel("apart_redux_masks", "redux.sync of four groups of lanes, each in two arms and then together, with masks in registers")
        .platform("8.0", "sm_80")
        .output("d", U32, each(|i| group(i).sum()))
        .output("e", U32, each(|i| group(i).max().unwrap_or_default()))
        .output("f", U32, each(|i| group(i).sum::<u64>() * 8))
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
        .body(&arm(50))
        .body("END:\nredux.sync.add.u32 %r8, %r6, %r4;")
        .body(&store(U32, "%r6", "d"))
        .body(&store(U32, "%r7", "e"))
        .body(&store(U32, "%r8", "f"))
        .finish()
}

/// A loop of six rounds with a branch whose arms have a reduction and a store each.
fn reductions_in_rounds() -> Generated {
    let mut values: Vec<u64> = (0..THREADS as u64).collect();
    for round in 0..6 {
        let sent: Vec<u64> = (0..THREADS as u64).map(|i| values[i as usize] + if (i + round).is_multiple_of(3) { 7 } else { 0 }).collect();
        let sum = |i: u64| (0..32).map(|lane| sent[in_warp(i, lane) as usize]).sum::<u64>();
        values =
            (0..THREADS as u64).map(|i| (values[i as usize] + sum(i) * (1 + u64::from((i + round).is_multiple_of(3)))) % 65536).collect();
    }
    kernel("apart_redux_rounds", "a loop with a reduction in both arms of a branch that changes direction")
        .platform("8.0", "sm_80")
        .output("d", U32, each(|i| values[i as usize]))
        .output("e", U32, each(|i| values[i as usize]))
        .body(
            "mov.u32 %r5, %i;
             mov.u32 %r6, 0;
             ROUND:
             add.u32 %r9, %i, %r6;
             rem.u32 %r9, %r9, 3;
             setp.eq.u32 %p4, %r9, 0;
             @%p4 bra OTHER;
             redux.sync.add.u32 %r10, %r5, -1;
             add.u32 %r5, %r5, %r10;
             and.b32 %r5, %r5, 65535;",
        )
        .body(&store(U32, "%r5", "e"))
        .body(
            "bra JOIN;
             OTHER:
             add.u32 %r11, %r5, 7;
             redux.sync.add.u32 %r10, %r11, -1;
             mad.lo.u32 %r5, %r10, 2, %r5;
             and.b32 %r5, %r5, 65535;",
        )
        .body(&store(U32, "%r5", "e"))
        .body(
            "JOIN:
             add.u32 %r6, %r6, 1;
             setp.lt.u32 %p5, %r6, 6;
             @%p5 bra ROUND;",
        )
        .body(&store(U32, "%r5", "d"))
        .finish()
}

fn elections() -> Generated {
    kernel("apart_elect", "elect.sync in both arms of a branch chooses one lane of the warp, and all learn which")
        .platform("8.0", "sm_90")
        .output("d", U32, each(|_| 1))
        .output("e", U32, each(|i| in_warp(i, 0)))
        .body(
            "mov.u32 %r7, 0;
             @%p1 bra ODD;
             elect.sync %r5|%p4, -1;
             @%p4 sub.u32 %r7, %i, %r5;
             bra END;
             ODD:
             elect.sync %r5|%p4, -1;
             @%p4 sub.u32 %r7, %i, %r5;
             END:
             vote.sync.ballot.b32 %r6, %p4, -1;
             mov.u32 %r8, 1;
             shl.b32 %r8, %r8, %r5;
             set.eq.u32.u32 %r9, %r8, %r6;
             and.b32 %r9, %r9, 1;
             shfl.sync.idx.b32 %r10, %r7, %r5, 31, -1;",
        )
        .body(&store(U32, "%r9", "d"))
        .body(&store(U32, "%r10", "e"))
        .finish()
}

fn elections_of_groups() -> Generated {
    kernel("apart_elect_masks", "elect.sync of four groups of lanes, each in two arms, with masks in registers")
        .platform("8.0", "sm_90")
        .output("d", U32, each(|_| 1))
        .body(
            "and.b32 %r9, %i, 3;
             mov.u32 %r4, 0x11111111;
             shl.b32 %r4, %r4, %r9;
             and.b32 %r10, %i, 16;
             setp.ne.u32 %p4, %r10, 0;
             @%p4 bra UPPER;
             elect.sync %r5|%p5, %r4;
             bra END;
             UPPER:
             elect.sync %r5|%p5, %r4;
             END:
             vote.sync.ballot.b32 %r6, %p5, %r4;
             mov.u32 %r8, 1;
             shl.b32 %r8, %r8, %r5;
             and.b32 %r11, %r8, %r4;
             set.eq.u32.u32 %r12, %r11, %r6;
             and.b32 %r12, %r12, 1;",
        )
        .body(&store(U32, "%r12", "d"))
        .finish()
}

/// A function that sends a value to the neighbour and a vote about it, on `a` times `factor` plus `number`.
fn exchange_function(name: &str, factor: u32, number: u32) -> String {
    format!(
        ".func (.reg .b32 result) {name} (.reg .b32 a)
{{
    .reg .b32 x, y;
    .reg .pred p;
    mad.lo.u32 x, a, {factor}, {number};
    shfl.sync.bfly.b32 x, x, 1, 31, -1;
    setp.gt.u32 p, x, 90;
    vote.sync.ballot.b32 y, p, -1;
    popc.b32 y, y;
    mad.lo.u32 result, y, 1000, x;
    ret;
}}
"
    )
}

/// Returns what a thread gets if odd threads send 5 i + 1 and even ones 3 i.
fn exchanged(i: u64) -> u64 {
    let received = |i: u64| if (i ^ 1) % 2 == 1 { 5 * (i ^ 1) + 1 } else { 3 * (i ^ 1) };
    let votes = (0..32).filter(|&lane| received(in_warp(i, lane)) > 90).count() as u64;
    1000 * votes + received(i)
}

fn functions() -> Generated {
    kernel("apart_functions", "shuffles and votes in two functions, each called in one arm of a branch")
        .module(&(exchange_function("even", 3, 0) + &exchange_function("odd", 5, 1)))
        .output("d", U32, each(exchanged))
        .body(
            "@%p1 bra ODD;
             call (%r5), even, (%i);
             bra END;
             ODD:
             call (%r5), odd, (%i);
             END:",
        )
        .body(&store(U32, "%r5", "d"))
        .finish()
}

fn function_and_kernel() -> Generated {
    kernel("apart_function_and_kernel", "shuffles and votes in a function that one arm of a branch calls, and in the other arm")
        .module(&exchange_function("even", 3, 0))
        .output("d", U32, each(exchanged))
        .body(
            "@%p1 bra ODD;
             call (%r5), even, (%i);
             bra END;
             ODD:
             mad.lo.u32 %r6, %i, 5, 1;
             shfl.sync.bfly.b32 %r6, %r6, 1, 31, -1;
             setp.gt.u32 %p4, %r6, 90;
             vote.sync.ballot.b32 %r7, %p4, -1;
             popc.b32 %r7, %r7;
             mad.lo.u32 %r5, %r7, 1000, %r6;
             END:",
        )
        .body(&store(U32, "%r5", "d"))
        .finish()
}

/// The function that the first arm calls has no shuffle itself, but calls one with shuffles; the other one is called by its address.
fn function_of_function() -> Generated {
    let outer = ".func (.reg .b32 result) outer (.reg .b32 a)
{
    .reg .b32 x;
    call (x), even, (a);
    add.u32 result, x, 7;
    ret;
}
";
    kernel("apart_function_of_function", "shuffles and votes in a function of a function, and in one that is called by its address")
        .module(&(exchange_function("even", 3, 0) + &exchange_function("odd", 5, 1) + outer))
        .registers(".reg .b64 %address;")
        .output("d", U32, each(|i| exchanged(i) + if i % 2 == 0 { 7 } else { 0 }))
        .body(
            "mov.u64 %address, odd;
             @%p1 bra ODD;
             call (%r5), outer, (%i);
             bra END;
             ODD:
             {
             one_word: .callprototype (.reg .b32 _) _ (.reg .b32 _);
             call (%r5), %address, (%i), one_word;
             }
             END:",
        )
        .body(&store(U32, "%r5", "d"))
        .finish()
}

/// Code that accesses memory has a descriptor in uniform registers, and the other function uses uniform registers too.
fn function_with_memory() -> Generated {
    let even = ".func even (.reg .b64 from, .reg .b64 to)
{
    .reg .b32 x, y;
    .reg .pred p;
    ld.global.b32 x, [from];
    mul.lo.u32 x, x, 3;
    shfl.sync.bfly.b32 x, x, 1, 31, -1;
    setp.gt.u32 p, x, 90;
    vote.sync.ballot.b32 y, p, -1;
    popc.b32 y, y;
    mad.lo.u32 x, y, 1000, x;
    st.global.b32 [to], x;
    ret;
}
";
    kernel("apart_function_with_memory", "shuffles and votes in two functions, one of which loads and stores global memory")
        .module(&(even.to_owned() + &exchange_function("odd", 5, 1)))
        .buffer("a", U32, THREADS, Fill::all(Source::Index))
        .registers(".reg .b64 %from, %to;")
        .output("d", U32, each(exchanged))
        .body(
            "mul.wide.u32 %to, %i, 4;
             add.u64 %from, %to, %a;
             add.u64 %to, %to, %d;
             @%p1 bra ODD;
             call even, (%from, %to);
             bra END;
             ODD:
             call (%r5), odd, (%i);
             st.global.u32 [%to], %r5;
             END:",
        )
        .finish()
}
