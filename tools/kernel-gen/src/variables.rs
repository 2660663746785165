//! Generates tests of module variables: initializers, addresses, spaces, alignment.

use crate::kernel::{Generated, Kernel, bits, store};
use crate::ty::{F64, S32, Ty, U8, U16, U32, U64};

const FAMILY: &str = "variables";
const THREADS: usize = 32;

pub fn tests() -> Vec<Generated> {
    let mut tests = Vec::new();
    for space in ["global", "const"] {
        tests.extend(initialized(space));
    }
    tests.extend(addresses());
    tests.extend(shared());
    tests
}

fn table(name: String, about: &str, module: &str, body: &str, ty: Ty, register: &str, value: impl Fn(u64) -> u64) -> Generated {
    Kernel::new(FAMILY, name, about)
        .threads(THREADS)
        .module(module)
        .output("d", ty, bits((0..THREADS as u64).map(value)))
        .body(body)
        .body(&store(ty, register, "d"))
        .finish()
}

fn initialized(space: &str) -> Vec<Generated> {
    let read = |variable: &str, load: &str, step: usize, mask: usize| {
        format!("mov.u64 %rd1, {variable};\nand.b32 %r1, %i, {mask};\nmad.wide.u32 %rd2, %r1, {step}, %rd1;\n{load}, [%rd2];")
    };
    let name = |text: &str| format!("{space}_{text}");
    vec![
        table(
            name("u32_array"),
            "an array with fewer values than elements; the rest is zero",
            &format!(".{space} .align 4 .u32 v[8] = {{10, 0x20, 30U, 4*10, -1}};"),
            &read("v", &format!("ld.{space}.u32 %r2"), 4, 7),
            U32,
            "%r2",
            |i| [10, 0x20, 30, 40, 0xffff_ffff, 0, 0, 0][i as usize % 8],
        ),
        table(
            name("u8_array"),
            "bytes",
            &format!(".{space} .align 1 .b8 v[16] = {{1, 2, 3, 255, 0x7f, 128}};"),
            &read("v", &format!("ld.{space}.u8 %r2"), 1, 15),
            U8,
            "%r2",
            |i| [1, 2, 3, 255, 127, 128, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][i as usize % 16],
        ),
        table(
            name("u16_matrix"),
            "two dimensions",
            &format!(".{space} .align 2 .u16 v[2][4] = {{{{1, 2, 3, 4}}, {{500, 600}}}};"),
            &read("v", &format!("ld.{space}.u16 %h2"), 2, 7),
            U16,
            "%h2",
            |i| [1, 2, 3, 4, 500, 600, 0, 0][i as usize % 8],
        ),
        table(
            name("f64_array"),
            "floating-point constants, as digits and as bits",
            &format!(".{space} .align 8 .f64 v[4] = {{1.5, -0.25, 0d400921fb54442d18, 0d7ff0000000000000}};"),
            &read("v", &format!("ld.{space}.f64 %fd2"), 8, 3),
            F64,
            "%fd2",
            |i| [1.5f64.to_bits(), (-0.25f64).to_bits(), 0x4009_21fb_5444_2d18, 0x7ff0_0000_0000_0000][i as usize % 4],
        ),
        table(
            name("f32_array"),
            "single precision constants",
            &format!(".{space} .align 4 .f32 v[4] = {{1.0, 0f40490fdb, 3.0e10, -2.0}};"),
            &read("v", &format!("ld.{space}.b32 %r2"), 4, 3),
            U32,
            "%r2",
            |i| u64::from([1.0f32.to_bits(), 0x4049_0fdb, 3.0e10f32.to_bits(), (-2.0f32).to_bits()][i as usize % 4]),
        ),
        table(
            name("u64_scalar"),
            "a scalar with an expression",
            &format!(".{space} .align 8 .u64 v = (1 << 40) + 0xff;"),
            &format!("ld.{space}.u64 %rd2, [v];"),
            U64,
            "%rd2",
            |_| (1 << 40) + 0xff,
        ),
        table(
            name("vector_type"),
            "a variable of vector type",
            &format!(".{space} .align 16 .v4 .u32 v = {{5, 6, 7, 8}};"),
            &format!(
                "ld.{space}.v4.u32 {{%r1, %r2, %r3, %r4}}, [v];\nmad.lo.u32 %r1, %r1, 10, %r2;\nmad.lo.u32 %r1, %r1, 10, %r3;\nmad.lo.u32 %r1, %r1, 10, %r4;"
            ),
            U32,
            "%r1",
            |_| 5678,
        ),
        table(
            name("three_neighbours"),
            "variables of different alignment side by side",
            &format!(".{space} .align 1 .u8 x = 9;\n.{space} .align 8 .u64 y = 0x123456789;\n.{space} .align 2 .u16 z = 77;"),
            &format!(
                "ld.{space}.u8 %r1, [x];\nld.{space}.u64 %rd1, [y];\nld.{space}.u16 %r2, [z];\ncvt.u64.u32 %rd2, %r1;\ncvt.u64.u32 %rd3, %r2;\nadd.u64 %rd1, %rd1, %rd2;\nmad.lo.u64 %rd1, %rd1, 3, %rd3;"
            ),
            U64,
            "%rd1",
            |_| (0x1_2345_6789 + 9) * 3 + 77,
        ),
    ]
}

fn addresses() -> Vec<Generated> {
    vec![
        table(
            "address_of_variable".into(),
            "a variable that holds another's address, and one that holds an address with an offset",
            ".global .align 4 .u32 target[4] = {100, 200, 300, 400};\n.global .align 8 .u64 pointer = target;\n.global .align 8 .u64 inside = target + 8;",
            "ld.global.u64 %rd1, [pointer];
             ld.global.u64 %rd2, [inside];
             ld.global.u32 %r1, [%rd1+4];
             ld.global.u32 %r2, [%rd2];
             mad.lo.u32 %r3, %r1, 1000, %r2;",
            U32,
            "%r3",
            |_| 200_300,
        ),
        table(
            "generic_address_of_variable".into(),
            "generic() in an initializer",
            ".const .align 4 .u32 hidden[2] = {7, 8};\n.global .align 4 .u32 open[2] = {70, 80};\n.global .align 8 .u64 pointers[2] = {generic(hidden), generic(open)+4};",
            "ld.global.u64 %rd1, [pointers];
             ld.global.u64 %rd2, [pointers+8];
             ld.u32 %r1, [%rd1+4];
             ld.u32 %r2, [%rd2];
             mad.lo.u32 %r3, %r1, 1000, %r2;",
            U32,
            "%r3",
            |_| 8080,
        ),
        table(
            "linked_list".into(),
            "nodes that point to each other, walked as often as the thread says",
            ".global .align 8 .u64 third[2] = {300, 0};\n.global .align 8 .u64 second[2] = {200, generic(third)};\n.global .align 8 .u64 first[2] = {100, generic(second)};",
            "mov.u64 %rd1, first;
             cvta.global.u64 %rd1, %rd1;
             rem.u32 %r1, %i, 3;
             NEXT:
             setp.eq.u32 %p1, %r1, 0;
             @%p1 bra END;
             ld.u64 %rd1, [%rd1+8];
             sub.u32 %r1, %r1, 1;
             bra NEXT;
             END:
             ld.u64 %rd2, [%rd1];",
            U64,
            "%rd2",
            |i| (i % 3 + 1) * 100,
        ),
        table(
            "written_global".into(),
            "an uninitialized global variable is zero, then keeps what is written",
            ".global .align 4 .u32 cells[32];",
            "mov.u64 %rd1, cells;
             mad.wide.u32 %rd2, %i, 4, %rd1;
             ld.global.u32 %r1, [%rd2];
             mad.lo.u32 %r1, %i, 3, %r1;
             st.global.u32 [%rd2], %r1;
             bar.sync 0;
             xor.b32 %r2, %i, 1;
             mad.wide.u32 %rd3, %r2, 4, %rd1;
             ld.global.u32 %r3, [%rd3];",
            U32,
            "%r3",
            |i| (i ^ 1) * 3,
        ),
        table(
            "constant_indexed_twice".into(),
            "a table of indices into a table",
            ".const .align 4 .u32 order[8] = {3, 1, 4, 1, 5, 2, 6, 0};\n.const .align 4 .s32 values[8] = {-1, -2, -3, -4, 5, 6, 7, 8};",
            "and.b32 %r1, %i, 7;
             mov.u64 %rd1, order;
             mad.wide.u32 %rd2, %r1, 4, %rd1;
             ld.const.u32 %r2, [%rd2];
             mov.u64 %rd3, values;
             mad.wide.u32 %rd4, %r2, 4, %rd3;
             ld.const.s32 %r3, [%rd4];",
            S32,
            "%r3",
            |i| [-1i64, -2, -3, -4, 5, 6, 7, 8][[3, 1, 4, 1, 5, 2, 6, 0][i as usize % 8]] as u64 & 0xffff_ffff,
        ),
        table(
            "large_constant_bank".into(),
            "a constant far from the start of its bank",
            &format!(".const .align 4 .b8 filler[40000];\n.const .align 4 .u32 far[4] = {{1, 22, 333, 4444}};\n{}", ""),
            "and.b32 %r1, %i, 3;
             mov.u64 %rd1, far;
             mad.wide.u32 %rd2, %r1, 4, %rd1;
             ld.const.u32 %r2, [%rd2];
             mov.u64 %rd3, filler;
             ld.const.u8 %r3, [%rd3+39999];
             add.u32 %r2, %r2, %r3;",
            U32,
            "%r2",
            |i| [1, 22, 333, 4444][i as usize % 4],
        ),
    ]
}

fn shared() -> Vec<Generated> {
    let layout = Kernel::new(FAMILY, "shared_alignment", "static shared variables are aligned and do not overlap")
        .threads(THREADS)
        .module(".shared .align 1 .b8 x[5];\n.shared .align 64 .b8 y[64];\n.shared .align 2 .b8 z[2];")
        .output("d", U32, bits(vec![15; THREADS]))
        .body(
            "mov.u32 %r1, x;
             mov.u32 %r2, y;
             mov.u32 %r3, z;
             and.b32 %r4, %r2, 63;
             setp.eq.u32 %p1, %r4, 0;
             and.b32 %r4, %r3, 1;
             setp.eq.u32 %p2, %r4, 0;
             sub.u32 %r5, %r1, %r2;
             setp.ge.u32 %p3, %r5, 64;
             sub.u32 %r5, %r3, %r2;
             setp.ge.u32 %p4, %r5, 64;
             selp.u32 %r6, 1, 0, %p1;
             @%p2 or.b32 %r6, %r6, 2;
             @%p3 or.b32 %r6, %r6, 4;
             @%p4 or.b32 %r6, %r6, 8;
             st.shared.u8 [x+4], %r6;
             st.shared.u8 [y+63], %r6;
             st.shared.u8 [z+1], %r6;",
        )
        .body(&store(U32, "%r6", "d"));
    let dynamic = |name: &str, bytes: u32, about: &str| {
        let words = bytes / 4;
        Kernel::new(FAMILY, name, about)
            .threads(THREADS)
            .dynamic_shared(bytes)
            .module(".shared .align 4 .b8 fixed[128];\n.extern .shared .align 16 .b8 flexible[];")
            .output("d", U32, bits((0..THREADS as u64).map(|i| (31 - i) * 7 + i)))
            .body(&format!(
                "mov.u32 %r1, flexible;
                 mov.u32 %r2, fixed;
                 mad.lo.u32 %r3, %i, 4, %r2;
                 st.shared.u32 [%r3], %i;
                 mul.lo.u32 %r4, %i, 7;
                 sub.u32 %r5, {}, %i;
                 mad.lo.u32 %r5, %r5, 4, %r1;
                 st.shared.u32 [%r5], %r4;
                 bar.sync 0;
                 ld.shared.u32 %r6, [%r3];
                 sub.u32 %r7, 31, %i;
                 sub.u32 %r8, {}, %r7;
                 mad.lo.u32 %r8, %r8, 4, %r1;
                 ld.shared.u32 %r9, [%r8];
                 add.u32 %r9, %r9, %r6;",
                words - 1,
                words - 1
            ))
            .body(&store(U32, "%r9", "d"))
    };
    let in_function = Kernel::new(FAMILY, "shared_in_kernel", "a shared variable declared inside the kernel")
        .threads(THREADS)
        .registers(".shared .align 4 .b8 inner[128];")
        .output("d", U64, bits((0..THREADS as u64).map(|i| i ^ 5)))
        .body(
            "mov.u64 %rd1, inner;
             mad.wide.u32 %rd2, %i, 4, %rd1;
             st.shared.u32 [%rd2], %i;
             bar.sync 0;
             xor.b32 %r1, %i, 5;
             mad.wide.u32 %rd3, %r1, 4, %rd1;
             ld.shared.u32 %r2, [%rd3];
             cvt.u64.u32 %rd4, %r2;",
        )
        .body(&store(U64, "%rd4", "d"));
    vec![
        layout.finish(),
        dynamic("shared_dynamic", 1024, "dynamic shared memory behind static").finish(),
        dynamic("shared_dynamic_large", 60_000, "more dynamic shared memory than a kernel gets by default").finish(),
        in_function.finish(),
    ]
}
