//! Generates tests of `setmaxnreg`, which moves registers between the warpgroups of a block.
//!
//! Each kernel loads many words from shared memory in order and combines them in the opposite order, so that all of them are live at once.
//! Warps with few registers have to keep some of the words in memory; warps with many have them all in registers.

use crate::kernel::{Generated, Kernel, bits, store};
use crate::ty::U32;

const FAMILY: &str = "registers";
/// Number of words in shared memory.
const WORDS: u32 = 224;
const WARPGROUP: u32 = 128;

pub fn tests() -> Vec<Generated> {
    vec![by_warpgroup(), too_few(), live_across(), in_turn(), with_calls(), after_divergence(), in_steps()]
}

/// Returns a word of shared memory.
fn word(number: u32) -> u32 {
    number.wrapping_mul(0x9e37_79b1).wrapping_add(17)
}

/// Combines the first `count` words, the last one first.
fn hash(start: u32, count: u32) -> u32 {
    (0..count).rev().fold(start, |sum, number| sum.wrapping_mul(33) ^ word(number))
}

/// Returns code that loads the first `count` words.
fn load_words(count: u32) -> String {
    (0..count).map(|number| format!("ld.volatile.shared.u32 %v{number}, [area + {}];\n", 4 * number)).collect()
}

/// Returns code that combines the words that [`load_words`] has loaded into `%r5`.
fn combine_words(count: u32) -> String {
    (0..count).rev().map(|number| format!("mul.lo.u32 %r5, %r5, 33;\nxor.b32 %r5, %r5, %v{number};\n")).collect()
}

/// Returns code that loads and combines words.
fn hash_words(count: u32) -> String {
    load_words(count) + &combine_words(count)
}

/// Makes a kernel of blocks with this number of threads; `bounds` fixes the number of registers at the start. `%r1` is the number of the
/// thread in its block, `%r2` that of its warpgroup, `%r5` that of the thread in the grid.
fn kernel(name: &str, about: &str, blocks: u32, threads: u32, bounds: &str) -> Kernel {
    Kernel::new(FAMILY, name, about)
        .platform("8.0", "sm_90a")
        .shape([blocks, 1, 1], [threads, 1, 1])
        .module(&format!(".shared .align 16 .b32 area[{WORDS}];"))
        .attributes(bounds)
        .registers(&format!("    .reg .b32 %v<{WORDS}>;\n"))
        .body(&format!(
            "mov.u32 %r1, %tid.x;
             shr.u32 %r2, %r1, 7;
             mov.u32 %r5, %i;
             setp.ge.u32 %p1, %r1, {WORDS};
             @%p1 bra FILLED;
             mov.u32 %r3, area;
             mad.lo.u32 %r3, %r1, 4, %r3;
             mad.lo.u32 %r4, %r1, 0x9e3779b1, 17;
             st.shared.u32 [%r3], %r4;
             FILLED:
             bar.sync 0;
             setp.eq.u32 %p2, %r2, 0;"
        ))
}

/// Expects `value` of the number of each thread in the grid and of its warpgroup in the block.
fn each(kernel: Kernel, blocks: u32, threads: u32, value: impl Fn(u32, u32) -> u32) -> Kernel {
    let values = (0..blocks * threads).map(|thread| u64::from(value(thread, thread % threads / WARPGROUP)));
    kernel.output("d", U32, bits(values))
}

/// The pattern of matrix products: one warpgroup copies with few registers, two multiply with many.
fn by_warpgroup() -> Generated {
    let bounds = ".maxntid 384, 1, 1\n.minnctapersm 1";
    let kernel = kernel("by_warpgroup", "one warpgroup gives up registers, two get more", 3, 384, bounds);
    each(kernel, 3, 384, |i, group| hash(i, if group == 0 { 12 } else { 216 }))
        .body("@%p2 bra FEW;\nsetmaxnreg.inc.sync.aligned.u32 240;")
        .body(&hash_words(216))
        .body("bra END;\nFEW:\nsetmaxnreg.dec.sync.aligned.u32 24;")
        .body(&hash_words(12))
        .body("END:")
        .body(&store(U32, "%r5", "d"))
        .finish()
}

fn too_few() -> Generated {
    let bounds = ".maxntid 256, 1, 1\n.minnctapersm 2";
    let kernel = kernel("too_few", "both warpgroups have more live words than registers", 2, 256, bounds);
    each(kernel, 2, 256, |i, group| hash(i, if group == 0 { 60 } else { 224 }))
        .body("@%p2 bra FEW;\nsetmaxnreg.inc.sync.aligned.u32 208;")
        .body(&hash_words(224))
        .body("bra END;\nFEW:\nsetmaxnreg.dec.sync.aligned.u32 48;")
        .body(&hash_words(60))
        .body("END:")
        .body(&store(U32, "%r5", "d"))
        .finish()
}

/// Words that are loaded before the change are used after it, in the arms and after their end.
fn live_across() -> Generated {
    let kernel = kernel("live_across", "words loaded before the change are used after it", 1, 256, ".maxnreg 128");
    each(kernel, 1, 256, |i, group| hash(hash(hash(i, 100), if group == 0 { 3 } else { 160 }), 100))
        .body(&load_words(100))
        .body("@%p2 bra FEW;\nsetmaxnreg.inc.sync.aligned.u32 200;")
        .body(&combine_words(100))
        .body(&(100..160).map(|number| format!("ld.volatile.shared.u32 %v{number}, [area + {}];\n", 4 * number)).collect::<String>())
        .body(&combine_words(160))
        .body("bra END;\nFEW:\nsetmaxnreg.dec.sync.aligned.u32 56;")
        .body(&combine_words(100))
        .body(&combine_words(3))
        .body("END:")
        .body(&combine_words(100))
        .body(&store(U32, "%r5", "d"))
        .finish()
}

/// In four rounds, the warpgroups lend each other registers in turn.
fn in_turn() -> Generated {
    let kernel = kernel("in_turn", "two warpgroups lend each other registers in a loop", 2, 256, ".maxnreg 128");
    let round = |sum: u32, is_few: bool| hash(sum, if is_few { 20 } else { 180 });
    each(kernel, 2, 256, |i, group| (0..4).fold(i, |sum, number| round(sum, number % 2 == group)))
        .body(
            "mov.u32 %r6, 0;
             ROUND:
             and.b32 %r7, %r6, 1;
             setp.eq.u32 %p3, %r7, %r2;
             @%p3 bra FEW;
             setmaxnreg.inc.sync.aligned.u32 200;",
        )
        .body(&hash_words(180))
        .body("setmaxnreg.dec.sync.aligned.u32 128;\nbar.sync 0;\nbra NEXT;\nFEW:\nsetmaxnreg.dec.sync.aligned.u32 56;")
        .body(&hash_words(20))
        .body(
            "bar.sync 0;
             setmaxnreg.inc.sync.aligned.u32 128;
             NEXT:
             bar.sync 0;
             add.u32 %r6, %r6, 1;
             setp.lt.u32 %p4, %r6, 4;
             @%p4 bra ROUND;",
        )
        .body(&store(U32, "%r5", "d"))
        .finish()
}

/// A function that both warpgroups call may only use the registers that both have.
fn with_calls() -> Generated {
    let bounds = ".maxntid 256, 1, 1\n.minnctapersm 1";
    let kernel = kernel("with_calls", "both warpgroups call a function", 1, 256, bounds);
    let call = "{
             .param .b32 argument;
             .param .b32 result;
             st.param.b32 [argument], %r5;
             call (result), mix, (argument);
             ld.param.b32 %r5, [result];
             }\n";
    let mix = |x: u32| (0..40).rev().fold(x, |sum, number: u32| sum.wrapping_mul(33) ^ word(number));
    let function = format!(
        ".func (.param .b32 result) mix(.param .b32 argument)
{{
    .reg .b32 %r<6>;
    .reg .b32 %v<40>;
    ld.param.b32 %r5, [argument];
    {}    st.param.b32 [result], %r5;
    ret;
}}
",
        hash_words(40)
    );
    each(kernel, 1, 256, |i, group| if group == 0 { mix(hash(i, 10)) } else { hash(mix(hash(i, 200)), 200) })
        .module(&function)
        .body("@%p2 bra FEW;\nsetmaxnreg.inc.sync.aligned.u32 232;")
        .body(&load_words(200))
        .body(&combine_words(200))
        .body(call)
        .body(&combine_words(200))
        .body("bra END;\nFEW:\nsetmaxnreg.dec.sync.aligned.u32 24;")
        .body(&hash_words(10))
        .body(call)
        .body("END:")
        .body(&store(U32, "%r5", "d"))
        .finish()
}

/// The threads of a warp take different paths before the change, which they execute together.
fn after_divergence() -> Generated {
    let kernel = kernel("after_divergence", "threads of a warp take different paths before the change", 1, 256, ".maxnreg 96");
    let paths = |i: u32| (0..i % 3).fold(i, |sum, _| sum.wrapping_mul(5) + 1);
    each(kernel, 1, 256, move |i, group| hash(paths(i), if group == 0 { 8 } else { 140 }))
        .body(
            "rem.u32 %r8, %i, 3;
             STEP:
             setp.eq.u32 %p5, %r8, 0;
             @%p5 bra READY;
             mad.lo.u32 %r5, %r5, 5, 1;
             sub.u32 %r8, %r8, 1;
             bra STEP;
             READY:
             @%p2 bra FEW;
             setmaxnreg.inc.sync.aligned.u32 160;",
        )
        .body(&hash_words(140))
        .body("bra END;\nFEW:\nsetmaxnreg.dec.sync.aligned.u32 32;")
        .body(&hash_words(8))
        .body("END:")
        .body(&store(U32, "%r5", "d"))
        .finish()
}

/// One warpgroup changes its number of registers several times in straight-line code.
fn in_steps() -> Generated {
    let kernel = kernel("in_steps", "a warpgroup gives up registers in steps and gets them back", 1, 128, ".maxnreg 144");
    each(kernel, 1, 128, |i, _| [128, 100, 60, 20, 128].into_iter().fold(i, hash))
        .body(&hash_words(128))
        .body("setmaxnreg.dec.sync.aligned.u32 112;")
        .body(&hash_words(100))
        .body("setmaxnreg.dec.sync.aligned.u32 72;")
        .body(&hash_words(60))
        .body("setmaxnreg.dec.sync.aligned.u32 24;")
        .body(&hash_words(20))
        .body("setmaxnreg.inc.sync.aligned.u32 144;")
        .body(&hash_words(128))
        .body(&store(U32, "%r5", "d"))
        .finish()
}
