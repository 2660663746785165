//! Generates tests of operations across a warp: `shfl`, `vote`, `match`, `redux`, `activemask`, `elect`, `bar.warp.sync`.

use crate::kernel::{Generated, Kernel, bits, load, store};
use crate::ty::{B32, B64, S32, Ty, U32};
use oriole_kernel_test::{Fill, Source};
use oriole_sem::Int;
use oriole_sem::warp::{Shuffle, shuffle};

const FAMILY: &str = "warp";
const THREADS: usize = 128;

pub fn tests() -> Vec<Generated> {
    let mut tests = Vec::new();
    tests.extend(shuffles());
    tests.push(shuffle_with_variable_lane());
    tests.push(shuffle_scan());
    tests.push(shuffle_half_warp());
    tests.extend(votes());
    tests.extend(matches());
    tests.extend(reductions());
    tests.extend(masks());
    tests.push(other_modifier_order());
    tests
}

fn input(ty: Ty) -> (Fill, Vec<u64>) {
    let fill = Fill::of(&[(Source::Boundary { stride: 1 }, 22), (Source::Random { seed: 21 }, THREADS - 22)]);
    let values = fill.values(ty.element, THREADS);
    (fill, values)
}

fn kernel(name: impl Into<String>, about: &str) -> Kernel {
    Kernel::new(FAMILY, name, about).threads(THREADS)
}

fn shuffles() -> Vec<Generated> {
    let (fill, values) = input(U32);
    let mut tests = Vec::new();
    for (name, mode) in [("up", Shuffle::Up), ("down", Shuffle::Down), ("bfly", Shuffle::Butterfly), ("idx", Shuffle::Index)] {
        for (width, segment) in [(32, 0u32), (16, 0x10), (8, 0x18), (2, 0x1e)] {
            for b in [1u32, 5, 16] {
                let c = segment << 8 | if mode == Shuffle::Up { 0 } else { 31 & !segment };
                let moved = |i: usize| shuffle(mode, i as u32 % 32, b, c);
                let source = |i: usize| values[i / 32 * 32 + moved(i).0 as usize];
                let about = format!("shfl.sync.{name} by {b} in segments of {width}, with and without the predicate");
                let test = kernel(format!("shfl_{name}_{b}_width_{width}"), &about)
                    .buffer("a", U32, THREADS, fill.clone())
                    .output("d", U32, bits((0..THREADS).map(source)))
                    .output("p", U32, bits((0..THREADS).map(|i| u64::from(moved(i).1))))
                    .body(&load(U32, "%r1", "a"))
                    .body(&format!("shfl.sync.{name}.b32 %r2|%p1, %r1, {b}, {c}, 0xffffffff;\nselp.u32 %r3, 1, 0, %p1;"))
                    .body(&store(U32, "%r2", "d"))
                    .body(&store(U32, "%r3", "p"));
                tests.push(test.finish());
            }
        }
    }
    tests
}

fn shuffle_with_variable_lane() -> Generated {
    let (fill, values) = input(U32);
    let lanes = Fill::all(Source::Random { seed: 8 });
    let amounts = lanes.values(U32.element, THREADS);
    let result = |i: usize| values[i / 32 * 32 + shuffle(Shuffle::Index, i as u32 % 32, amounts[i] as u32, 31).0 as usize];
    kernel("shfl_idx_variable", "shfl.sync.idx with lane numbers in registers; only the lower five bits count")
        .buffer("a", U32, THREADS, fill)
        .buffer("lanes", U32, THREADS, lanes)
        .scalar("clamp", U32, 31)
        .output("d", U32, bits((0..THREADS).map(result)))
        .body(&load(U32, "%r1", "a"))
        .body(&load(U32, "%r2", "lanes"))
        .body("shfl.sync.idx.b32 %r3, %r1, %r2, %clamp, -1;")
        .body(&store(U32, "%r3", "d"))
        .finish()
}

fn shuffle_scan() -> Generated {
    let (fill, values) = input(U32);
    let sum = |i: usize| values[i / 32 * 32..=i].iter().fold(0u32, |sum, &x| sum.wrapping_add(x as u32)).into();
    let mut body = load(U32, "%r1", "a");
    for step in [1, 2, 4, 8, 16] {
        body.push_str(&format!("shfl.sync.up.b32 %r2|%p1, %r1, {step}, 0, 0xffffffff;\n@%p1 add.u32 %r1, %r1, %r2;\n"));
    }
    kernel("shfl_scan", "inclusive scan of each warp")
        .buffer("a", U32, THREADS, fill)
        .output("d", U32, bits((0..THREADS).map(sum)))
        .body(&body)
        .body(&store(U32, "%r1", "d"))
        .finish()
}

fn shuffle_half_warp() -> Generated {
    let (fill, values) = input(U32);
    let result = |i: usize| if i % 32 < 16 { values[i ^ 3] } else { values[i] };
    kernel("shfl_in_divergent_code", "shfl.sync of the lower half warp inside a branch")
        .buffer("a", U32, THREADS, fill)
        .output("d", U32, bits((0..THREADS).map(result)))
        .body(&load(U32, "%r1", "a"))
        .body(
            "and.b32 %r2, %i, 16;
             setp.ne.u32 %p1, %r2, 0;
             @%p1 bra DONE;
             shfl.sync.bfly.b32 %r1, %r1, 3, 31, 0x0000ffff;
             DONE:",
        )
        .body(&store(U32, "%r1", "d"))
        .finish()
}

fn warp_of(values: &[u64], i: usize) -> &[u64] {
    &values[i / 32 * 32..i / 32 * 32 + 32]
}

fn votes() -> Vec<Generated> {
    let mut tests = Vec::new();
    // Warps with mixed, only true, only false, and again mixed values.
    let pattern: Vec<u64> = (0..THREADS)
        .map(|i| match i / 32 {
            0 => u64::from(i % 3 == 0),
            1 => 1,
            2 => 0,
            _ => u64::from(i % 5 != 1),
        })
        .collect();
    let fill = Fill(pattern.iter().map(|&bits| crate::elementwise::value(bits)).collect());
    for negated in [false, true] {
        let truth = move |x: u64| (x != 0) != negated;
        let sign = if negated { "!" } else { "" };
        let suffix = if negated { "_not" } else { "" };
        type Vote = fn(usize, usize) -> bool;
        let modes: [(&str, Vote); 3] =
            [("all", |count, of| count == of), ("any", |count, _| count > 0), ("uni", |count, of| count == 0 || count == of)];
        for (name, meaning) in modes {
            let result = |i: usize| u64::from(meaning(warp_of(&pattern, i).iter().filter(|&&x| truth(x)).count(), 32));
            let test = kernel(format!("vote_{name}{suffix}"), &format!("vote.sync.{name}.pred"))
                .buffer("a", U32, THREADS, fill.clone())
                .output("d", U32, bits((0..THREADS).map(result)))
                .body(&load(U32, "%r1", "a"))
                .body("setp.ne.u32 %p1, %r1, 0;")
                .body(&format!("vote.sync.{name}.pred %p2, {sign}%p1, 0xffffffff;\nselp.u32 %r2, 1, 0, %p2;"))
                .body(&store(U32, "%r2", "d"));
            tests.push(test.finish());
        }
        let ballot = |i: usize| warp_of(&pattern, i).iter().enumerate().map(|(lane, &x)| u64::from(truth(x)) << lane).sum();
        let test = kernel(format!("vote_ballot{suffix}"), "vote.sync.ballot.b32")
            .buffer("a", U32, THREADS, fill.clone())
            .output("d", U32, bits((0..THREADS).map(ballot)))
            .body(&load(U32, "%r1", "a"))
            .body("setp.ne.u32 %p1, %r1, 0;")
            .body(&format!("vote.sync.ballot.b32 %r2, {sign}%p1, 0xffffffff;"))
            .body(&store(U32, "%r2", "d"));
        tests.push(test.finish());
    }
    let partial = |i: usize| if i % 32 >= 8 { warp_of(&pattern, i)[8..].iter().enumerate().map(|(k, &x)| x << (k + 8)).sum() } else { 99 };
    let test = kernel("vote_ballot_partial", "vote.sync.ballot of 24 lanes inside a branch")
        .buffer("a", U32, THREADS, fill)
        .output("d", U32, bits((0..THREADS).map(partial)))
        .body(&load(U32, "%r1", "a"))
        .body(
            "setp.ne.u32 %p1, %r1, 0;
             mov.u32 %r3, %laneid;
             setp.lt.u32 %p2, %r3, 8;
             mov.u32 %r2, 99;
             @%p2 bra DONE;
             vote.sync.ballot.b32 %r2, %p1, 0xffffff00;
             DONE:",
        )
        .body(&store(U32, "%r2", "d"));
    tests.push(test.finish());
    tests
}

/// `.sync` after the mode, as in much inline assembly.
fn other_modifier_order() -> Generated {
    let ballot = |i: usize| (0..32).filter(|lane| (i / 32 * 32 + lane).is_multiple_of(3)).map(|lane| 1_u64 << lane).sum::<u64>();
    let result = |i: usize| {
        let lowest = (i / 32 * 32) as u64;
        let sum: u64 = (lowest..lowest + 32).sum();
        ((ballot(i) ^ (lowest + 5)) + sum + u64::from(ballot(i) != 0)) & 0xffff_ffff
    };
    kernel("other_modifier_order", "vote.ballot.sync, vote.any.sync, shfl.idx.sync and redux.add.sync")
        .platform("8.0", "sm_80")
        .output("d", U32, bits((0..THREADS).map(result)))
        .body(
            "rem.u32 %r1, %i, 3;
             setp.eq.u32 %p1, %r1, 0;
             vote.ballot.sync.b32 %r2, %p1, 0xffffffff;
             vote.any.sync.pred %p2, %p1, 0xffffffff;
             shfl.idx.sync.b32 %r3, %i, 5, 31, 0xffffffff;
             redux.add.sync.u32 %r4, %i, 0xffffffff;
             xor.b32 %r5, %r2, %r3;
             add.u32 %r5, %r5, %r4;
             @%p2 add.u32 %r5, %r5, 1;",
        )
        .body(&store(U32, "%r5", "d"))
        .finish()
}

fn matches() -> Vec<Generated> {
    let mut tests = Vec::new();
    for ty in [B32, B64] {
        // All lanes of the last warp hold the same value.
        let wide = if ty == B64 { 0x1_0000_0000u64 } else { 0 };
        let values: Vec<u64> = (0..THREADS as u64).map(|i| if i < 96 { i * i % 7 + (i & 1) * wide } else { 42 + wide }).collect();
        let fill = Fill(values.iter().map(|&bits| crate::elementwise::value(bits)).collect());
        let equal = |i: usize| warp_of(&values, i).iter().enumerate().map(|(lane, &x)| u64::from(x == values[i]) << lane).sum::<u64>();
        let register = if ty == B64 { "%rd1" } else { "%r1" };
        let test = kernel(format!("match_any_{}", ty.name), "match.any.sync")
            .buffer("a", ty, THREADS, fill.clone())
            .output("d", U32, bits((0..THREADS).map(equal)))
            .body(&load(ty, register, "a"))
            .body(&format!("match.any.sync.{} %r2, {register}, 0xffffffff;", ty.name))
            .body(&store(U32, "%r2", "d"));
        tests.push(test.finish());
        let all = |i: usize| if i < 96 { 0 } else { 0xffff_ffff };
        let test = kernel(format!("match_all_{}", ty.name), "match.all.sync with its predicate")
            .buffer("a", ty, THREADS, fill)
            .output("d", U32, bits((0..THREADS).map(all)))
            .output("p", U32, bits((0..THREADS).map(|i| u64::from(i >= 96))))
            .body(&load(ty, register, "a"))
            .body(&format!("match.all.sync.{} %r2|%p1, {register}, 0xffffffff;\nselp.u32 %r3, 1, 0, %p1;", ty.name))
            .body(&store(U32, "%r2", "d"))
            .body(&store(U32, "%r3", "p"));
        tests.push(test.finish());
    }
    tests
}

fn reductions() -> Vec<Generated> {
    let mut tests = Vec::new();
    type Combine = fn(Int, u64, u64) -> u64;
    let rows: [(&str, Ty, Combine); 9] = [
        ("add", U32, Int::add),
        ("add", S32, Int::add),
        ("min", U32, Int::min),
        ("min", S32, Int::min),
        ("max", U32, Int::max),
        ("max", S32, Int::max),
        ("and", B32, |_, a, b| a & b),
        ("or", B32, |_, a, b| a | b),
        ("xor", B32, |_, a, b| a ^ b),
    ];
    for (name, ty, combine) in rows {
        let (fill, values) = input(ty);
        let kind = ty.int();
        let reduce = |values: &[u64]| values.iter().copied().reduce(|a, b| combine(kind, a, b)).expect("a warp has lanes");
        let test = kernel(format!("redux_{name}_{}", ty.name), "redux.sync of whole warps")
            .platform("7.0", "sm_80")
            .buffer("a", ty, THREADS, fill.clone())
            .output("d", ty, bits((0..THREADS).map(|i| reduce(warp_of(&values, i)))))
            .body(&load(ty, "%r1", "a"))
            .body(&format!("redux.sync.{name}.{} %r2, %r1, 0xffffffff;", ty.name))
            .body(&store(ty, "%r2", "d"));
        tests.push(test.finish());
        let upper = |i: usize| if i % 32 >= 20 { reduce(&warp_of(&values, i)[20..]) } else { reduce(&warp_of(&values, i)[..20]) };
        let test = kernel(format!("redux_{name}_{}_divergent", ty.name), "redux.sync of parts of warps in two branches")
            .platform("7.0", "sm_80")
            .buffer("a", ty, THREADS, fill)
            .output("d", ty, bits((0..THREADS).map(upper)))
            .body(&load(ty, "%r1", "a"))
            .body(&format!(
                "mov.u32 %r3, %laneid;
                 setp.lt.u32 %p1, %r3, 20;
                 @%p1 bra LOWER;
                 redux.sync.{name}.{0} %r2, %r1, 0xfff00000;
                 bra.uni DONE;
                 LOWER:
                 redux.sync.{name}.{0} %r2, %r1, 0x000fffff;
                 DONE:",
                ty.name
            ))
            .body(&store(ty, "%r2", "d"));
        tests.push(test.finish());
    }
    tests
}

fn masks() -> Vec<Generated> {
    let active = kernel("activemask", "activemask of a full warp")
        .output("d", U32, bits(vec![0xffff_ffff; THREADS]))
        .body("activemask.b32 %r1;")
        .body(&store(U32, "%r1", "d"));
    let elected = kernel("elect", "elect.sync chooses exactly one lane, and all learn which")
        .platform("8.0", "sm_90")
        .output("d", U32, bits(vec![1; THREADS]))
        .body(
            "elect.sync %r1|%p1, 0xffffffff;
             vote.sync.ballot.b32 %r2, %p1, 0xffffffff;
             mov.u32 %r3, 1;
             shl.b32 %r3, %r3, %r1;
             set.eq.u32.u32 %r4, %r3, %r2;
             and.b32 %r4, %r4, 1;",
        )
        .body(&store(U32, "%r4", "d"));
    let sync = kernel("bar_warp_sync", "lanes pass values through shared memory with bar.warp.sync")
        .module(".shared .align 4 .b8 area[512];")
        .output("d", U32, bits((0..THREADS as u64).map(|i| (i ^ 31) * 3)))
        .body(
            "mov.u32 %r1, area;
             mad.lo.u32 %r2, %i, 4, %r1;
             mul.lo.u32 %r3, %i, 3;
             st.shared.u32 [%r2], %r3;
             bar.warp.sync 0xffffffff;
             xor.b32 %r4, %i, 31;
             mad.lo.u32 %r5, %r4, 4, %r1;
             ld.shared.u32 %r6, [%r5];",
        )
        .body(&store(U32, "%r6", "d"));
    let sleep = kernel("nanosleep", "nanosleep by a constant and by a register; the value survives")
        .output("d", U32, bits((0..THREADS as u64).map(|i| i + 1)))
        .body("nanosleep.u32 100;\nadd.u32 %r1, %i, 1;\nnanosleep.u32 %r1;")
        .body(&store(U32, "%r1", "d"));
    [active, elected, sync, sleep].map(Kernel::finish).into()
}
