//! Kernels reduced from random programs that gave wrong results on a GPU.

use crate::kernel::{Generated, Kernel, bits, store};
use crate::ty::U32;

const FAMILY: &str = "found";
const THREADS: u64 = 96;

pub fn tests() -> Vec<Generated> {
    vec![
        barrier_behind_call(),
        round_literals_to_zero(),
        constant_index_overwritten(),
        address_overwritten_by_constant(),
        constant_read_twice(),
        address_overwritten_by_special_register(),
    ]
}

/// Threads leave a callee one by one, and only the barrier makes them reconverge.
fn barrier_behind_call() -> Generated {
    let early_returns = |mut x: u64| {
        for k in (1..=x & 7).rev() {
            x = x * 3 + k;
            if x & 16 != 0 {
                return x ^ 5;
            }
        }
        x
    };
    Kernel::new(FAMILY, "barrier_behind_call", "threads come back from a call one by one, then pass values on through shared memory")
        .shape([1; 3], [THREADS as u32, 1, 1])
        .module(
            ".shared .align 4 .b8 area[384];
             .func (.reg .b32 %result) early_returns(.reg .b32 %x)
             {
             .reg .pred %p;
             .reg .b32 %k, %t;
             and.b32 %k, %x, 7;
             mov.b32 %result, %x;
             LOOP:
             setp.eq.u32 %p, %k, 0;
             @%p bra DONE;
             mad.lo.u32 %result, %result, 3, %k;
             sub.u32 %k, %k, 1;
             and.b32 %t, %result, 16;
             setp.eq.u32 %p, %t, 0;
             @%p bra LOOP;
             xor.b32 %result, %result, 5;
             DONE:
             ret;
             }",
        )
        .output("d", U32, bits((0..THREADS).map(|i| early_returns((i + 37) % THREADS))))
        .body(
            "call (%r2), early_returns, (%i);
             mov.u32 %r3, area;
             mad.lo.u32 %r4, %i, 4, %r3;
             bar.sync 0;
             st.shared.u32 [%r4], %r2;
             bar.sync 0;
             add.u32 %r5, %i, 37;
             rem.u32 %r5, %r5, 96;
             mad.lo.u32 %r6, %r5, 4, %r3;
             ld.shared.u32 %r7, [%r6];",
        )
        .body(&store(U32, "%r7", "d"))
        .finish()
}

/// Converts an `f32` to `f16` with rounding to zero: values that are too large become the largest finite one.
fn to_zero(value: f32) -> u64 {
    let bits = value.to_bits();
    let (sign, exponent, mantissa) = (u64::from(bits >> 16 & 0x8000), (bits >> 23 & 0xff) as i32 - 127, u64::from(bits & 0x7f_ffff));
    sign | match exponent {
        128 => 0x7c00,
        16..128 => 0x7bff,
        -14..16 => ((exponent + 15) as u64) << 10 | mantissa >> 13,
        -25..-14 => (mantissa | 0x80_0000) >> (-1 - exponent),
        _ => 0,
    }
}

/// Immediates are part of the instruction, which then has another encoding.
fn round_literals_to_zero() -> Generated {
    let literals = [1e6_f32, -1.2e38, 65519.0, 1.5, 1.0009, 8.1e-5, 2.5e-7, f32::INFINITY];
    let lanes = [1.5_f32, 1e5, -1e6, 1e-42];
    let mut test = Kernel::new(FAMILY, "round_literals_to_zero", "cvt.rz of literals to f16; too large ones become the largest")
        .platform("8.1", "sm_80")
        .threads(lanes.len());
    for (number, literal) in literals.into_iter().enumerate() {
        let single = format!("single{number}");
        let low = format!("low{number}");
        let high = format!("high{number}");
        let value = to_zero(literal);
        test = test
            .output(&single, U32, bits(lanes.map(|_| value)))
            .output(&low, U32, bits(lanes.map(|lane| to_zero(lane) << 16 | value)))
            .output(&high, U32, bits(lanes.map(|lane| value << 16 | to_zero(lane))));
    }
    let [zero, one, two, three] = lanes.map(f32::to_bits);
    test = test.body(&format!(
        "mov.b32 %f1, 0f{zero:08X};
         setp.eq.u32 %p1, %i, 1;
         selp.f32 %f1, 0f{one:08X}, %f1, %p1;
         setp.eq.u32 %p1, %i, 2;
         selp.f32 %f1, 0f{two:08X}, %f1, %p1;
         setp.eq.u32 %p1, %i, 3;
         selp.f32 %f1, 0f{three:08X}, %f1, %p1;"
    ));
    for (number, literal) in literals.into_iter().enumerate() {
        let literal = format!("0f{:08X}", literal.to_bits());
        test = test
            .body(&format!("cvt.rz.f16.f32 %h1, {literal};\ncvt.u32.u16 %r1, %h1;"))
            .body(&store(U32, "%r1", &format!("single{number}")))
            .body(&format!("cvt.rz.f16x2.f32 %r2, %f1, {literal};"))
            .body(&store(U32, "%r2", &format!("low{number}")))
            .body(&format!("cvt.rz.f16x2.f32 %r3, {literal}, %f1;"))
            .body(&store(U32, "%r3", &format!("high{number}")));
    }
    test.finish()
}

const TABLE: &str = ".const .align 8 .u32 table[64] = {
    0, 7, 14, 21, 28, 35, 42, 49, 56, 63, 70, 77, 84, 91, 98, 105, 112, 119, 126, 133, 140, 147, 154, 161, 168, 175, 182, 189, 196, 203,
    210, 217, 224, 231, 238, 245, 252, 259, 266, 273, 280, 287, 294, 301, 308, 315, 322, 329, 336, 343, 350, 357, 364, 371, 378, 385, 392,
    399, 406, 413, 420, 427, 434, 441};";

/// The hardware serves threads with different indices into constant memory one after the other, and each reads its index only then. The
/// index register is overwritten with the thread's own word, which is not a multiple of four.
fn constant_index_overwritten() -> Generated {
    Kernel::new(FAMILY, "constant_index_overwritten", "a register that held an index into constant memory is loaded right after")
        .threads(32)
        .module(TABLE)
        .output("d", U32, bits((0..32).map(|i| (62 - 2 * i) * 7)))
        .output("e", U32, bits((0..32).map(|i| i * 2 + 1)))
        .registers(".local .align 4 .b8 own[8];")
        .body(
            "mad.lo.u32 %r1, %i, 2, 1;
             st.local.u32 [own], %r1;
             mov.u32 %r2, table;
             sub.u32 %r3, 31, %i;
             mad.lo.u32 %r3, %r3, 8, %r2;
             cvt.u64.u32 %rd1, %r3;
             ld.const.u32 %r4, [%rd1];
             st.local.u32 [own+4], %r3;
             ld.local.u32 %r3, [own];",
        )
        .body(&store(U32, "%r4", "d"))
        .body(&store(U32, "%r3", "e"))
        .finish()
}

/// An atomic operation reads its address late; a load from constant memory returns early and must not overwrite the address.
fn address_overwritten_by_constant() -> Generated {
    Kernel::new(
        FAMILY,
        "address_overwritten_by_constant",
        "constants are loaded right behind atomic operations whose addresses are done with",
    )
    .threads(32)
    .module(TABLE)
    .output("d", U32, bits((0..32).map(|i| i + 5)))
    .output("e", U32, bits((0..32).map(|_| 0)))
    .output("f", U32, bits((0..32).map(|i| 7 * (i + 4) + 7 * (i + 12))))
    .body(
        "mul.wide.u32 %rd1, %i, 4;
             add.u64 %rd1, %d, %rd1;
             add.u32 %r1, %i, 5;
             mov.u32 %r6, table;
             mad.lo.u32 %r6, %i, 4, %r6;
             cvt.u64.u32 %rd2, %r6;
             atom.global.add.u32 %r2, [%rd1], %r1;
             ld.const.u32 %r3, [%rd2+16];
             ld.const.u32 %r4, [%rd2+48];
             add.u32 %r5, %r3, %r4;",
    )
    .body(&store(U32, "%r2", "e"))
    .body(&store(U32, "%r5", "f"))
    .finish()
}

/// The second load of the same word becomes a copy of the first.
fn constant_read_twice() -> Generated {
    Kernel::new(FAMILY, "constant_read_twice", "the same word of constant memory is loaded again")
        .threads(32)
        .module(TABLE)
        .output("d", U32, bits((0..32).map(|i| 7 * (i & 15) * 2)))
        .body(
            "and.b32 %r1, %i, 15;
             mov.u32 %r2, table;
             mad.lo.u32 %r2, %r1, 4, %r2;
             cvt.u64.u32 %rd1, %r2;
             ld.const.u16 %h1, [%rd1];
             ld.const.u16 %h2, [%rd1];
             add.u16 %h3, %h1, %h2;
             cvt.u32.u16 %r3, %h3;",
        )
        .body(&store(U32, "%r3", "d"))
        .finish()
}

/// A load reads its address late; a read of a special register must not overwrite the address.
fn address_overwritten_by_special_register() -> Generated {
    Kernel::new(
        FAMILY,
        "address_overwritten_by_special_register",
        "special registers are read right behind loads whose addresses are done with",
    )
    .threads(32)
    .output("d", U32, bits((0..32).map(|i| i * 3)))
    .output("e", U32, bits((0..32).map(|i| 2 * i)))
    .body(
        "mul.wide.u32 %rd1, %i, 4;
             add.u64 %rd1, %d, %rd1;
             mul.lo.u32 %r1, %i, 3;
             st.global.u32 [%rd1], %r1;
             ld.volatile.global.u32 %r2, [%rd1];
             mov.u32 %r3, %laneid;
             mov.u32 %r4, %lanemask_lt;
             popc.b32 %r4, %r4;
             add.u32 %r3, %r3, %r4;",
    )
    .body(&store(U32, "%r2", "d"))
    .body(&store(U32, "%r3", "e"))
    .finish()
}
