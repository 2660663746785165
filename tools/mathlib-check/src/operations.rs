//! The semantics of each instruction of the library, on bits.

use crate::arith::{Rounding, add64, canonical, flush32, fma32, fma64, mul32, mul64, narrow, unsigned_up};
use crate::mufu::Mufu;

/// Takes up to three operands and returns the result; 32-bit operands are in the low half.
pub type Operation = fn(&Mufu, u64, u64, u64) -> u64;

fn low(value: u64) -> u32 {
    value as u32
}

fn single(value: u64) -> f32 {
    f32::from_bits(value as u32)
}

fn double(value: u64) -> f64 {
    f64::from_bits(value)
}

fn wide(value: u32) -> u64 {
    u64::from(value)
}

fn flag(value: bool) -> u64 {
    u64::from(value)
}

/// Returns the operation of an instruction, by its opcode and modifiers.
#[rustfmt::skip]
pub fn operation(head: &str) -> Option<Operation> {
    use Rounding::{Down, Nearest, Up, Zero};
    Some(match head {
        "mov.b32" | "mov.f32" => |_, a, _, _| wide(low(a)),
        "mov.b64" | "mov.f64" => |_, a, _, _| a,
        "and.b32" | "and.b64" => |_, a, b, _| a & b,
        "or.b32" | "or.b64" | "or.pred" => |_, a, b, _| a | b,
        "xor.b32" | "xor.b64" => |_, a, b, _| a ^ b,
        "add.u32" | "add.s32" => |_, a, b, _| wide(low(a).wrapping_add(low(b))),
        "sub.u32" | "sub.s32" => |_, a, b, _| wide(low(a).wrapping_sub(low(b))),
        "add.u64" => |_, a, b, _| a.wrapping_add(b),
        "sub.u64" => |_, a, b, _| a.wrapping_sub(b),
        "neg.s32" => |_, a, _, _| wide(low(a).wrapping_neg()),
        "neg.s64" => |_, a, _, _| a.wrapping_neg(),
        "abs.s32" => |_, a, _, _| wide((low(a) as i32).unsigned_abs()),
        "abs.s64" => |_, a, _, _| (a as i64).unsigned_abs(),
        "min.s32" => |_, a, b, _| wide((low(a) as i32).min(low(b) as i32) as u32),
        "mul.lo.u32" => |_, a, b, _| wide(low(a).wrapping_mul(low(b))),
        "mul.lo.u64" => |_, a, b, _| a.wrapping_mul(b),
        "mul.hi.u32" => |_, a, b, _| (wide(low(a)) * wide(low(b))) >> 32,
        "mad.hi.u32" => |_, a, b, c| wide(low((wide(low(a)) * wide(low(b))) >> 32).wrapping_add(low(c))),
        "mul.hi.u64" => |_, a, b, _| ((u128::from(a) * u128::from(b)) >> 64) as u64,
        "brev.b32" => |_, a, _, _| wide(low(a).reverse_bits()),
        "popc.b32" => |_, a, _, _| wide(low(a).count_ones()),
        "shl.b32" => |_, a, b, _| wide(low(a).checked_shl(low(b)).unwrap_or(0)),
        "shr.u32" => |_, a, b, _| wide(low(a).checked_shr(low(b)).unwrap_or(0)),
        "shl.b64" => |_, a, b, _| a.checked_shl(low(b)).unwrap_or(0),
        "shr.u64" => |_, a, b, _| a.checked_shr(low(b)).unwrap_or(0),
        "selp.b32" | "selp.f32" => |_, a, b, c| wide(low(if c & 1 == 1 { a } else { b })),
        "selp.b64" | "selp.f64" => |_, a, b, c| if c & 1 == 1 { a } else { b },
        "setp.eq.u32" | "setp.eq.s32" => |_, a, b, _| flag(low(a) == low(b)),
        "setp.ne.u32" => |_, a, b, _| flag(low(a) != low(b)),
        "setp.lt.u32" => |_, a, b, _| flag(low(a) < low(b)),
        "setp.lt.and.u32" => |_, a, b, c| flag(low(a) < low(b)) & c,
        "setp.ge.u32" => |_, a, b, _| flag(low(a) >= low(b)),
        "setp.lt.s32" => |_, a, b, _| flag((low(a) as i32) < low(b) as i32),
        "setp.gt.s32" => |_, a, b, _| flag(low(a) as i32 > low(b) as i32),
        "setp.eq.u64" | "setp.eq.s64" => |_, a, b, _| flag(a == b),
        "setp.ne.u64" => |_, a, b, _| flag(a != b),
        "setp.lt.u64" => |_, a, b, _| flag(a < b),
        "setp.ge.u64" => |_, a, b, _| flag(a >= b),
        "setp.lt.s64" => |_, a, b, _| flag((a as i64) < b as i64),
        "setp.eq.f32" => |_, a, b, _| flag(single(a) == single(b)),
        "setp.neu.f32" => |_, a, b, _| flag(single(a) != single(b)),
        "setp.lt.f32" => |_, a, b, _| flag(single(a) < single(b)),
        "setp.gt.f32" => |_, a, b, _| flag(single(a) > single(b)),
        "setp.eq.or.f32" => |_, a, b, c| flag(single(a) == single(b)) | c,
        "setp.nan.f64" => |_, a, b, _| flag(double(a).is_nan() || double(b).is_nan()),
        "setp.eq.f64" => |_, a, b, _| flag(double(a) == double(b)),
        "setp.neu.f64" => |_, a, b, _| flag(double(a) != double(b)),
        "setp.lt.f64" => |_, a, b, _| flag(double(a) < double(b)),
        "setp.gt.f64" => |_, a, b, _| flag(double(a) > double(b)),
        "setp.nan.f32" => |_, a, b, _| flag(single(a).is_nan() || single(b).is_nan()),
        "setp.nan.and.f64" => |_, a, b, c| flag(double(a).is_nan() || double(b).is_nan()) & c,
        "setp.eq.or.f64" => |_, a, b, c| flag(double(a) == double(b)) | c,
        "setp.lt.and.f64" => |_, a, b, c| flag(double(a) < double(b)) & c,
        "abs.f32" => |_, a, _, _| wide(canonical(single(a).abs())),
        "neg.f32" => |_, a, _, _| wide(canonical(-single(a))),
        "abs.f64" => |_, a, _, _| a & !(1 << 63),
        "neg.f64" => |_, a, _, _| a ^ 1 << 63,
        "add.rn.f32" => |_, a, b, _| wide(canonical(single(a) + single(b))),
        "add.rn.f64" => |_, a, b, _| add64(a, b),
        "mul.rn.f32" | "mul.f32" => |_, a, b, _| wide(mul32(Nearest, low(a), low(b))),
        "mul.rz.f32" => |_, a, b, _| wide(mul32(Zero, low(a), low(b))),
        "mul.rm.f32" => |_, a, b, _| wide(mul32(Down, low(a), low(b))),
        "mul.rp.f32" => |_, a, b, _| wide(mul32(Up, low(a), low(b))),
        "mul.rn.ftz.f32" | "mul.ftz.f32" => |_, a, b, _| wide(flush32(mul32(Nearest, flush32(low(a)), flush32(low(b))))),
        "mul.rn.f64" => |_, a, b, _| mul64(Nearest, a, b),
        "mul.rz.f64" => |_, a, b, _| mul64(Zero, a, b),
        "mul.rm.f64" => |_, a, b, _| mul64(Down, a, b),
        "mul.rp.f64" => |_, a, b, _| mul64(Up, a, b),
        "fma.rn.f32" => |_, a, b, c| wide(fma32(Nearest, low(a), low(b), low(c))),
        "fma.rz.f32" => |_, a, b, c| wide(fma32(Zero, low(a), low(b), low(c))),
        "fma.rm.f32" => |_, a, b, c| wide(fma32(Down, low(a), low(b), low(c))),
        "fma.rp.f32" => |_, a, b, c| wide(fma32(Up, low(a), low(b), low(c))),
        "fma.rn.f64" => |_, a, b, c| fma64(Nearest, a, b, c),
        "fma.rz.f64" => |_, a, b, c| fma64(Zero, a, b, c),
        "fma.rm.f64" => |_, a, b, c| fma64(Down, a, b, c),
        "fma.rp.f64" => |_, a, b, c| fma64(Up, a, b, c),
        "cvt.f64.f32" => |_, a, _, _| f64::from(single(a)).to_bits(),
        "cvt.rn.f32.f64" => |_, a, _, _| wide(narrow(Nearest, a)),
        "cvt.rz.f32.f64" => |_, a, _, _| wide(narrow(Zero, a)),
        "cvt.rm.f32.f64" => |_, a, _, _| wide(narrow(Down, a)),
        "cvt.rp.f32.f64" => |_, a, _, _| wide(narrow(Up, a)),
        "cvt.rn.f32.u32" => |_, a, _, _| wide((low(a) as f32).to_bits()),
        "cvt.rp.f32.u32" => |_, a, _, _| wide(unsigned_up(wide(low(a)))),
        "cvt.rp.f32.u64" => |_, a, _, _| wide(unsigned_up(a)),
        "cvt.rzi.u32.f32" => |_, a, _, _| wide(single(a) as u32),
        "cvt.rzi.u64.f32" => |_, a, _, _| single(a) as u64,
        "rcp.approx.ftz.f32" => |mufu, a, _, _| wide(mufu.reciprocal32(low(a))),
        "rsqrt.approx.ftz.f32" => |mufu, a, _, _| wide(mufu.reciprocal_root32(low(a))),
        "sqrt.approx.ftz.f32" => |mufu, a, _, _| wide(mufu.root32(low(a))),
        "ex2.approx.ftz.f32" => |mufu, a, _, _| wide(mufu.power32(low(a))),
        "lg2.approx.ftz.f32" => |mufu, a, _, _| wide(mufu.logarithm32(low(a))),
        "rcp.approx.ftz.f64" => |mufu, a, _, _| mufu.reciprocal64(a),
        "rsqrt.approx.ftz.f64" => |mufu, a, _, _| mufu.reciprocal_root64(a),
        _ => return None,
    })
}
