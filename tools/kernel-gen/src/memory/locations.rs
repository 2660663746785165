//! Generates tests of the locations that loads and stores access: addresses, kernel parameters, state spaces.

use super::{FAMILY, THREADS, input, store_line};
use crate::kernel::{Generated, Kernel, bits};
use crate::ty::{F32, F64, INTEGERS, S8, U8, U16, U32, U64};

pub(super) fn tests() -> Vec<Generated> {
    let mut tests = Vec::new();
    tests.extend(addresses());
    tests.extend(parameters());
    tests.extend(spaces());
    tests
}

/// Generates constant offsets of all sizes and signs, fixed addresses, and computed indices.
fn addresses() -> Vec<Generated> {
    let (fill, values) = input(U32, 4096);
    let at = |i: usize| values[i];
    let offsets = [4i64, 60, 4092, 8188, -4, -512];
    let mut body = String::from("mad.wide.u32 %at, %i, 4, %a;\nadd.u64 %at, %at, 4096;\nmov.u32 %r2, 0;\n");
    for offset in offsets {
        body.push_str(&format!("ld.global.u32 %r1, [%at+{offset}];\nmad.lo.u32 %r2, %r2, 3, %r1;\n"));
    }
    let sum = |i: usize| {
        let place = |offset: i64| at((1024 + i as i64 + offset / 4) as usize) as u32;
        offsets.iter().fold(0u32, |sum, &offset| sum.wrapping_mul(3).wrapping_add(place(offset)))
    };
    let constant_offsets = Kernel::new(FAMILY, "offsets", "constant offsets from a register, positive and negative")
        .threads(THREADS)
        .buffer("a", U32, 4096, fill.clone())
        .output("d", U32, bits((0..THREADS).map(|i| u64::from(sum(i)))))
        .body(&body)
        .body(&store_line(U32, "%r2"));
    let negative_index = Kernel::new(FAMILY, "negative_index", "a signed 32-bit index, extended and scaled")
        .threads(THREADS)
        .buffer("a", U32, 4096, fill.clone())
        .output("d", U32, bits((0..THREADS).map(|i| at(2048 - 5 * i))))
        .body(
            "mul.lo.s32 %r1, %i, -5;
             add.u64 %rd1, %a, 8192;
             mul.wide.s32 %rd2, %r1, 4;
             add.s64 %rd3, %rd1, %rd2;
             ld.global.u32 %r2, [%rd3];",
        )
        .body(&store_line(U32, "%r2"));
    let shifted = Kernel::new(FAMILY, "shifted_index", "an index scaled by a shift of 64 bits")
        .threads(THREADS)
        .buffer("a", U32, 4096, fill.clone())
        .output("d", U32, bits((0..THREADS).map(|i| at(i * 33))))
        .body(
            "mul.lo.u32 %r1, %i, 33;
             cvt.u64.u32 %rd1, %r1;
             shl.b64 %rd2, %rd1, 2;
             add.s64 %rd3, %a, %rd2;
             ld.global.u32 %r2, [%rd3];",
        )
        .body(&store_line(U32, "%r2"));
    let fixed = Kernel::new(FAMILY, "fixed_shared_addresses", "shared variables addressed by name and constant offset")
        .threads(THREADS)
        .module(".shared .align 4 .u32 first;\n.shared .align 8 .b8 area[256];")
        .output("d", U32, bits((0..THREADS).map(|i| 1000 + 77 + 5 + i as u64)))
        .body(
            "setp.eq.u32 %p1, %i, 0;
             @%p1 st.shared.u32 [first], 1000;
             @%p1 st.shared.u32 [area+128], 77;
             @%p1 st.shared.u32 [area+252], 5;
             bar.sync 0;
             ld.shared.u32 %r1, [first];
             ld.shared.u32 %r2, [area+128];
             ld.shared.u32 %r3, [area+252];
             add.u32 %r1, %r1, %r2;
             add.u32 %r1, %r1, %r3;
             add.u32 %r1, %r1, %i;",
        )
        .body(&store_line(U32, "%r1"));
    let overlap = Kernel::new(FAMILY, "store_then_load_overlapping", "bytes stored one by one, loaded as a word")
        .threads(THREADS)
        .output("d", U32, bits((0..THREADS as u64).map(|i| i | (i + 1) << 8 | (i + 2) << 16 | (i + 3) << 24)))
        .body(
            "mad.wide.u32 %at, %i, 4, %d;
             st.global.u8 [%at], %i;
             add.u32 %r1, %i, 1;
             st.global.u8 [%at+1], %r1;
             add.u32 %r1, %i, 2;
             st.global.u8 [%at+2], %r1;
             add.u32 %r1, %i, 3;
             st.global.u8 [%at+3], %r1;
             ld.global.u32 %r2, [%at];
             st.global.u32 [%at], %r2;",
        );
    let guarded = Kernel::new(FAMILY, "guarded_load_and_store", "loads and stores under predicates; the others keep their value")
        .threads(THREADS)
        .buffer("a", U32, 4096, fill)
        .output(
            "d",
            U32,
            bits((0..THREADS).map(|i| {
                if i % 4 == 3 {
                    0
                } else if i % 2 == 0 {
                    at(i)
                } else {
                    7
                }
            })),
        )
        .body(
            "and.b32 %r1, %i, 1;
             setp.eq.u32 %p1, %r1, 0;
             and.b32 %r1, %i, 3;
             setp.eq.u32 %p2, %r1, 3;
             mov.u32 %r2, 7;
             mad.wide.u32 %at, %i, 4, %a;
             @%p1 ld.global.u32 %r2, [%at];
             mad.wide.u32 %at, %i, 4, %d;
             @!%p2 st.global.u32 [%at], %r2;",
        );
    [constant_offsets, negative_index, shifted, fixed, overlap, guarded].map(Kernel::finish).into()
}

/// Generates kernel parameters of each type, structures, and indexed access.
fn parameters() -> Vec<Generated> {
    let mut tests = Vec::new();
    for ty in INTEGERS.into_iter().chain([U8, S8, F32, F64]) {
        let value = 0x8123_4567_89ab_cdef & ty.mask();
        let test = Kernel::new(FAMILY, format!("param_{}", ty.name), "a scalar parameter behind others of other sizes")
            .threads(THREADS)
            .scalar("small", U8, 0x7f)
            .scalar("k", ty, value)
            .scalar("middle", U16, 0x1234)
            .scalar("again", ty, value ^ 1)
            .output("d", ty, bits((0..THREADS).map(|i| if i % 2 == 0 { value } else { value ^ 1 })))
            .registers(&format!(".reg .{} %t;", ty.register))
            .body(&format!(
                "and.b32 %r1, %i, 1;
                 setp.eq.u32 %p1, %r1, 0;
                 @%p1 mov.{0} %t, %k;
                 @!%p1 mov.{0} %t, %again;",
                ty.register
            ))
            .body(&store_line(ty, "%t"));
        tests.push(if ty.bits() == 8 { continue } else { test.finish() });
    }
    let bytes: Vec<u8> = (0..64u8).map(|i| i.wrapping_mul(37).wrapping_add(11)).collect();
    let word = |i: usize| u64::from(u32::from_le_bytes([bytes[i * 4], bytes[i * 4 + 1], bytes[i * 4 + 2], bytes[i * 4 + 3]]));
    let structure = Kernel::new(FAMILY, "param_structure", "fields of a structure passed by value, scalars and vectors")
        .threads(32)
        .bytes("s", 16, bytes.clone())
        .output("d", U32, bits((0..32).map(|_| (word(0) + word(5) + word(6) + word(15) + u64::from(bytes[13])) & 0xffff_ffff)))
        .body(
            "ld.param.u32 %r1, [s];
             ld.param.v2.u32 {%r2, %r3}, [s+16];
             ld.param.v4.u32 {%r4, %r5, %r6, %r7}, [s+16];
             ld.param.u32 %r8, [s+60];
             ld.param.u8 %r9, [s+13];
             add.u32 %r1, %r1, %r3;
             add.u32 %r1, %r1, %r6;
             add.u32 %r1, %r1, %r8;
             add.u32 %r1, %r1, %r9;",
        )
        .body(&store_line(U32, "%r1"));
    tests.push(structure.finish());
    let indexed = Kernel::new(FAMILY, "param_indexed", "an array parameter read at an address that depends on the thread")
        .threads(32)
        .bytes("s", 8, bytes.clone())
        .output("d", U32, bits((0..32).map(|i| word(i % 16))))
        .body(
            "mov.u64 %rd1, s;
             and.b32 %r1, %i, 15;
             mad.wide.u32 %rd2, %r1, 4, %rd1;
             ld.param.u32 %r2, [%rd2];",
        )
        .body(&store_line(U32, "%r2"));
    tests.push(indexed.finish());
    let many: Vec<u64> = (0..40).map(|i| i * i + 3).collect();
    let mut kernel = Kernel::new(FAMILY, "param_many", "forty scalar parameters summed").threads(32);
    let mut body = String::from("mov.u64 %rd1, 0;\n");
    for (number, value) in many.iter().enumerate() {
        kernel = kernel.scalar(&format!("k{number}"), U64, *value);
        body.push_str(&format!("mad.lo.u64 %rd1, %rd1, 3, %k{number};\n"));
    }
    let sum = many.iter().fold(0u64, |sum, x| sum.wrapping_mul(3).wrapping_add(*x));
    tests.push(kernel.output("d", U64, bits(vec![sum; 32])).body(&body).body(&store_line(U64, "%rd1")).finish());
    tests
}

fn spaces() -> Vec<Generated> {
    let mut tests = Vec::new();
    let variables = ".global .align 4 .u32 in_global;\n.const .align 4 .u32 in_const = 5;\n.shared .align 4 .u32 in_shared;";
    for (number, space) in ["global", "shared", "local", "const", "shared::cta"].into_iter().enumerate() {
        let test =
            Kernel::new(FAMILY, format!("isspacep_{}", space.replace("::", "_")), format!("isspacep.{space} of an address in each space"))
                .platform("7.8", "sm_75")
                .threads(32)
                .module(variables)
                .registers(".local .align 4 .u32 in_local;")
                .output("d", U32, bits(vec![[1, 2, 4, 8, 2][number]; 32]))
                .body(&format!(
                    "mov.u64 %rd1, in_global;
                 cvta.global.u64 %rd1, %rd1;
                 isspacep.{space} %p1, %rd1;
                 mov.u64 %rd2, in_shared;
                 cvta.shared.u64 %rd2, %rd2;
                 isspacep.{space} %p2, %rd2;
                 mov.u64 %rd3, in_local;
                 cvta.local.u64 %rd3, %rd3;
                 isspacep.{space} %p3, %rd3;
                 mov.u64 %rd4, in_const;
                 cvta.const.u64 %rd4, %rd4;
                 isspacep.{space} %p4, %rd4;
                 selp.u32 %r1, 1, 0, %p1;
                 @%p2 or.b32 %r1, %r1, 2;
                 @%p3 or.b32 %r1, %r1, 4;
                 @%p4 or.b32 %r1, %r1, 8;"
                ))
                .body(&store_line(U32, "%r1"));
        tests.push(test.finish());
    }
    for (space, declaration) in [("global", variables), ("shared", variables)] {
        let test =
            Kernel::new(FAMILY, format!("cvta_{space}"), format!("through a generic address into {space} memory and back with cvta.to"))
                .threads(32)
                .module(declaration)
                .output("d", U32, bits(vec![1234; 32]))
                .body(&format!(
                    "mov.u64 %rd1, in_{space};
                 cvta.{space}.u64 %rd2, %rd1;
                 setp.eq.u32 %p1, %i, 0;
                 @%p1 st.u32 [%rd2], 1234;
                 bar.sync 0;
                 cvta.to.{space}.u64 %rd3, %rd2;
                 ld.{space}.u32 %r1, [%rd3];"
                ))
                .body(&store_line(U32, "%r1"));
        tests.push(test.finish());
    }
    let local = Kernel::new(FAMILY, "cvta_local", "a local variable through its generic address")
        .threads(32)
        .registers(".local .align 4 .b8 area[64];")
        .output("d", U32, bits((0..32).map(|i| i * 9)))
        .body(
            "mov.u64 %rd1, area;
             cvta.local.u64 %rd2, %rd1;
             and.b32 %r3, %i, 15;
             mad.wide.u32 %rd2, %r3, 4, %rd2;
             mul.lo.u32 %r1, %i, 9;
             st.u32 [%rd2], %r1;
             cvta.to.local.u64 %rd3, %rd2;
             ld.local.u32 %r2, [%rd3];",
        )
        .body(&store_line(U32, "%r2"));
    tests.push(local.finish());
    let constant = Kernel::new(FAMILY, "cvta_const", "a constant through its generic address")
        .threads(32)
        .module(".const .align 4 .u32 table[4] = {11, 22, 33, 44};")
        .output("d", U32, bits((0..32).map(|i| (i % 4 + 1) * 11)))
        .body(
            "mov.u64 %rd1, table;
             cvta.const.u64 %rd2, %rd1;
             and.b32 %r1, %i, 3;
             mad.wide.u32 %rd3, %r1, 4, %rd2;
             ld.u32 %r2, [%rd3];",
        )
        .body(&store_line(U32, "%r2"));
    tests.push(constant.finish());
    tests
}
