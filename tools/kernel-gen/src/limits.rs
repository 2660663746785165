//! Generates kernels that use a resource up to its limit and access both ends of it.

use std::fmt::Write;

use oriole_kernel_test::{Fill, Source};

use crate::kernel::{Generated, Kernel, bits, store};
use crate::ty::U32;

const FAMILY: &str = "limits";
const THREADS: u64 = 32;

pub fn tests() -> Vec<Generated> {
    vec![
        shared(),
        parameters(),
        local(),
        barriers(),
        threads(),
        registers(),
        shared_of_other_kernel(),
        dynamic_shared_of_function(),
        large_argument(),
        result_passed_on(),
    ]
}

fn kernel(name: &str, about: &str, value: impl Fn(u64) -> u64) -> Kernel {
    let values = (0..THREADS).map(|thread| value(thread) & u64::from(u32::MAX));
    Kernel::new(FAMILY, name, about).threads(THREADS as usize).output("d", U32, bits(values))
}

fn shared() -> Generated {
    kernel("shared_49152", "all of the static shared memory that a kernel may have, touched at both ends", |t| (32 - t) * 1000 + 132 - t)
        .module(".shared .align 16 .b8 all[49152];")
        .body(
            "shl.b32 %r1, %i, 2;
             mov.u32 %r2, all;
             add.u32 %r3, %r2, %r1;
             add.u32 %r4, %i, 1;
             add.u32 %r5, %i, 101;
             st.shared.u32 [%r3], %r4;
             st.shared.u32 [%r3+49024], %r5;
             bar.sync 0;
             sub.u32 %r6, 124, %r1;
             add.u32 %r6, %r2, %r6;
             ld.shared.u32 %r7, [%r6];
             ld.shared.u32 %r8, [%r6+49024];
             mad.lo.u32 %r9, %r7, 1000, %r8;",
        )
        .body(&store(U32, "%r9", "d"))
        .finish()
}

fn parameters() -> Generated {
    let words: Vec<u32> = (0..1086_u32).map(|number| number.wrapping_mul(0x9e37_79b1).wrapping_add(7)).collect();
    let value = |t: u64| u64::from(words[0]) + u64::from(words[1085]) * 3 + u64::from(words[500]) + t;
    kernel("parameters_4352", "as many bytes of parameters as kernels have before PTX 8.1, read at both ends and in between", value)
        .bytes("p", 4, words.iter().flat_map(|word| word.to_le_bytes()).collect())
        .body(
            "ld.param.u32 %r1, [p];
             ld.param.u32 %r2, [p+4340];
             ld.param.u32 %r3, [p+2000];
             mad.lo.u32 %r4, %r2, 3, %r1;
             add.u32 %r4, %r4, %r3;
             add.u32 %r4, %r4, %i;",
        )
        .body(&store(U32, "%r4", "d"))
        .finish()
}

fn local() -> Generated {
    let value = |t: u64| 7 * t + 1 + (t + 5) * 1000 + (t * t + 9) * 100_000;
    kernel("local_65536", "a frame of 64 KiB, touched at both ends and at a place that the thread computes", value)
        .registers(".local .align 8 .b8 frame[65536];")
        .body(
            "mov.u64 %rd1, frame;
             mad.lo.u32 %r1, %i, 7, 1;
             add.u32 %r2, %i, 5;
             mad.lo.u32 %r3, %i, %i, 9;
             st.local.u32 [frame], %r1;
             st.local.u32 [frame+65532], %r2;
             mad.wide.u32 %rd2, %i, 1024, %rd1;
             st.local.u32 [%rd2+16384], %r3;
             mul.wide.u32 %rd4, %i, 0;
             add.u64 %rd5, %rd1, %rd4;
             ld.local.u32 %r4, [%rd5];
             ld.local.u32 %r5, [%rd5+65532];
             ld.local.u32 %r6, [%rd2+16384];
             mad.lo.u32 %r7, %r5, 1000, %r4;
             mad.lo.u32 %r7, %r6, 100000, %r7;",
        )
        .body(&store(U32, "%r7", "d"))
        .finish()
}

/// In each of sixteen steps a thread takes its neighbour's value plus one.
fn barriers() -> Generated {
    const THREADS: u64 = 64;
    let mut test = Kernel::new(FAMILY, "barriers_16", "all sixteen barriers of a block, one after another")
        .threads(THREADS as usize)
        .module(".shared .align 4 .b8 both[512];")
        .output("d", U32, bits((0..THREADS).map(|t| (t + 16) % THREADS + 16)))
        .body(
            "mov.u32 %r1, both;
             shl.b32 %r2, %i, 2;
             add.u32 %r3, %r2, 4;
             and.b32 %r3, %r3, 255;
             add.u32 %r2, %r2, %r1;
             add.u32 %r3, %r3, %r1;
             mov.u32 %r4, %i;",
        );
    for barrier in 0..16 {
        let half = 256 * (barrier % 2);
        test = test.body(&format!(
            "st.shared.u32 [%r2+{half}], %r4;
             bar.sync {barrier};
             ld.shared.u32 %r4, [%r3+{half}];
             add.u32 %r4, %r4, 1;"
        ));
    }
    test.body(&store(U32, "%r4", "d")).finish()
}

fn threads() -> Generated {
    Kernel::new(FAMILY, "threads_1024", "a block of 1024 threads that all exchange values")
        .shape([1; 3], [1024, 1, 1])
        .module(".shared .align 4 .b8 row[4096];")
        .attributes(".maxntid 1024, 1, 1")
        .output("d", U32, bits((0..1024).map(|t| (1023 - t) * 3 + 1)))
        .body(
            "mov.u32 %r1, row;
             shl.b32 %r2, %i, 2;
             add.u32 %r3, %r1, %r2;
             mad.lo.u32 %r4, %i, 3, 1;
             st.shared.u32 [%r3], %r4;
             bar.sync 0;
             sub.u32 %r5, 4092, %r2;
             add.u32 %r5, %r1, %r5;
             ld.shared.u32 %r6, [%r5];",
        )
        .body(&store(U32, "%r6", "d"))
        .finish()
}

fn registers() -> Generated {
    const COUNT: u64 = 240;
    /// Coprime to the count, so that its multiples modulo the count are a permutation of all values.
    const STEP: u64 = 77;
    let order = || (0..COUNT).map(|number| number * STEP % COUNT);
    let value = |t: u64| order().fold(0_u32, |sum, number| sum.wrapping_mul(31).wrapping_add((number * THREADS + t) as u32)).into();
    let (mut loads, mut uses) = (String::new(), String::new());
    for number in 0..COUNT {
        let _ = writeln!(loads, "ld.global.u32 %v{number}, [%rd2+{}];", number * THREADS * 4);
    }
    for number in order() {
        let _ = writeln!(uses, "mad.lo.u32 %r1, %r1, 31, %v{number};");
    }
    let about = "240 values that are alive at the same time: with addresses, close to the 255 registers of a thread";
    kernel("registers_255", about, value)
        .buffer("a", U32, (COUNT * THREADS) as usize, Fill::all(Source::Index))
        .registers(&format!(".reg .b32 %v<{COUNT}>;"))
        .body("mad.wide.u32 %rd2, %i, 4, %a;")
        .body(&loads)
        .body("bar.sync 0;\nmov.u32 %r1, 0;")
        .body(&uses)
        .body(&store(U32, "%r1", "d"))
        .finish()
}

/// Returns a function that exchanges values through its own array.
fn exchange(array: &str) -> String {
    format!(
        ".shared .align 4 .b8 {array}[30000];
.func (.reg .u32 %out) exchange_{array}(.reg .u32 %t, .reg .u32 %value)
{{
    .reg .b32 %r<8>;
    mov.u32 %r1, {array};
    mad.lo.u32 %r2, %t, 900, %r1;
    st.shared.u32 [%r2], %value;
    bar.sync 0;
    sub.u32 %r3, 31, %t;
    mad.lo.u32 %r4, %r3, 900, %r1;
    ld.shared.u32 %out, [%r4];
    ret;
}}"
    )
}

fn shared_of_other_kernel() -> Generated {
    let about = "two kernels call functions with 30,000 bytes of shared memory each: neither has the other's";
    kernel("shared_of_other_kernel", about, |t| (31 - t) * 5 + 2)
        .module(&exchange("first"))
        .module(&exchange("second"))
        .module(
            ".visible .entry other(.param .u64 d)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [d];
    cvta.to.global.u64 %rd1, %rd1;
    mov.u32 %r0, %tid.x;
    call (%r1), exchange_first, (%r0, %r0);
    st.global.u32 [%rd1], %r1;
    ret;
}",
        )
        .body("mad.lo.u32 %r2, %i, 5, 2;\ncall (%r1), exchange_second, (%i, %r2);")
        .body(&store(U32, "%r1", "d"))
        .finish()
}

fn dynamic_shared_of_function() -> Generated {
    let about = "a function's dynamic shared array starts after the static variables of the kernel that calls it";
    kernel("dynamic_shared_of_function", about, |t| (t + 1) * 100 + (31 - t) + 7)
        .dynamic_shared(128)
        .module(
            ".shared .align 4 .b8 own[128];
.extern .shared .align 4 .b8 dynamic[];
.func put(.reg .u32 %t, .reg .u32 %value)
{
    .reg .b32 %r<4>;
    mov.u32 %r1, dynamic;
    mad.lo.u32 %r1, %t, 4, %r1;
    st.shared.u32 [%r1], %value;
    ret;
}
.func (.reg .u32 %out) get(.reg .u32 %t)
{
    .reg .b32 %r<4>;
    mov.u32 %r1, dynamic;
    mad.lo.u32 %r1, %t, 4, %r1;
    ld.shared.u32 %out, [%r1];
    ret;
}",
        )
        .body(
            "mov.u32 %r1, own;
             mad.lo.u32 %r2, %i, 4, %r1;
             add.u32 %r3, %i, 1;
             mul.lo.u32 %r3, %r3, 100;
             st.shared.u32 [%r2], %r3;
             add.u32 %r4, %i, 7;
             call put, (%i, %r4);
             bar.sync 0;
             sub.u32 %r5, 31, %i;
             call (%r6), get, (%r5);
             ld.shared.u32 %r7, [%r2];
             add.u32 %r8, %r6, %r7;",
        )
        .body(&store(U32, "%r8", "d"))
        .finish()
}

fn large_argument() -> Generated {
    let about = "a function with an argument of 100,000 bytes and a result of 20,000, of which it uses a few";
    let value = |t: u64| (t + 3) * 1000 + (t + 11) + (t + 17) * 0x1_0001 + 200 * t + 9;
    kernel("argument_of_100000_bytes", about, value)
        .module(
            ".func (.param .align 8 .b8 result[20000]) sum(.param .align 8 .b8 large[100000])
{
    .reg .b32 %r<8>;
    .reg .b64 %rd<4>;
    ld.param.u32 %r1, [large];
    ld.param.u32 %r2, [large+50000];
    ld.param.u64 %rd1, [large+99992];
    ld.param.u8 %r3, [large+777];
    mad.lo.u32 %r4, %r1, 1000, %r2;
    cvt.u32.u64 %r5, %rd1;
    shr.u64 %rd2, %rd1, 32;
    cvt.u32.u64 %r6, %rd2;
    add.u32 %r4, %r4, %r5;
    add.u32 %r4, %r4, %r6;
    mul.lo.u32 %r3, %r3, 200;
    st.param.b32 [result], %r4;
    st.param.b32 [result+19996], %r3;
    st.param.b8 [result+10001], 9;
    ret;
}",
        )
        .body(
            "add.u32 %r1, %i, 3;
             add.u32 %r2, %i, 11;
             add.u32 %r3, %i, 17;
             shl.b32 %r8, %r3, 16;
             cvt.u64.u32 %rd1, %r3;
             cvt.u64.u32 %rd2, %r8;
             shl.b64 %rd2, %rd2, 32;
             or.b64 %rd1, %rd1, %rd2;
             {
             .param .align 8 .b8 argument[100000];
             .param .align 8 .b8 back[20000];
             st.param.b32 [argument], %r1;
             st.param.b32 [argument+50000], %r2;
             st.param.b64 [argument+99992], %rd1;
             st.param.b8 [argument+777], %i;
             call (back), sum, (argument);
             ld.param.b32 %r4, [back];
             ld.param.b32 %r5, [back+19996];
             ld.param.b8 %r6, [back+10001];
             }
             add.u32 %r7, %r4, %r5;
             add.u32 %r7, %r7, %r6;",
        )
        .body(&store(U32, "%r7", "d"))
        .finish()
}

fn result_passed_on() -> Generated {
    let about = "a result of 400 bytes that the caller passes on whole without touching it";
    kernel("result_passed_on", about, |t| t * 3 + 5 + (t + 40) * 100)
        .module(
            ".func (.param .align 4 .b8 block[400]) make(.reg .u32 %t)
{
    .reg .b32 %r<4>;
    mad.lo.u32 %r1, %t, 3, 5;
    add.u32 %r2, %t, 40;
    st.param.b32 [block+8], %r1;
    st.param.b32 [block+396], %r2;
    ret;
}
.func (.reg .u32 %out) last(.param .align 4 .b8 block[400])
{
    .reg .b32 %r<4>;
    ld.param.u32 %r1, [block+396];
    ld.param.u32 %r2, [block+8];
    mad.lo.u32 %out, %r1, 100, %r2;
    ret;
}",
        )
        .body(
            "{
             .param .align 4 .b8 block[400];
             call (block), make, (%i);
             call (%r3), last, (block);
             }",
        )
        .body(&store(U32, "%r3", "d"))
        .finish()
}
