//! Checks the effect of the PTX modifiers against examples from the manual.

use oriole_sem::bits::{self, Permute};
use oriole_sem::convert::{self, Overflow};
use oriole_sem::float::{self, Extreme, ExtremeMode, Mode};
use oriole_sem::format::{E5M2, F16, F32, F64, Rounding};
use oriole_sem::int::{S16, S32, S64, U8, U32, U64};

const NAN: u64 = 0x7fff_ffff;

#[test]
fn flushing_keeps_the_sign() {
    let ftz = Mode::RN.ftz(true);
    assert_eq!(float::add(F32, 0x8000_0001, 0x8000_0000, ftz), 0x8000_0000);
    assert_eq!(float::mul(F32, 0x8080_0000, 0x3f00_0000, ftz), 0x8000_0000);
    assert_eq!(float::mul(F32, 0x8080_0000, 0x3f00_0000, Mode::RN), 0x8040_0000);
}

#[test]
fn tiny_is_decided_after_rounding() {
    let ftz = Mode::RN.ftz(true);
    assert_eq!(float::fma(F32, 0x8080_0000, 0x0080_0001, 0x0080_0000, ftz), 0x0080_0000);
    assert_eq!(float::mul(F32, 0x3f7f_ffff, 0x0080_0000, ftz), 0);
    assert_eq!(float::fma(F32, 0x8080_0000, 0x0080_0001, 0x0080_0000, Mode::new(Rounding::Zero).ftz(true)), 0);
}

#[test]
fn saturation_clamps_and_drops_nan() {
    let sat = Mode::RN.sat(true);
    assert_eq!(float::add(F32, 0x3f80_0000, 0x3f80_0000, sat), 0x3f80_0000);
    assert_eq!(float::add(F32, 0xbf80_0000, 0, sat), 0);
    assert_eq!(float::add(F32, NAN, 0, sat), 0);
    assert_eq!(float::add(F32, NAN, 0, Mode::RN.relu(true)), NAN);
    assert_eq!(float::add(F16, 0xbc00, 0, Mode::RN.relu(true)), 0);
}

#[test]
fn minimum_and_maximum() {
    let plain = ExtremeMode::default();
    assert_eq!(float::min_max(F32, Extreme::Min, 0, 0x8000_0000, plain), 0x8000_0000);
    assert_eq!(float::min_max(F32, Extreme::Max, 0x8000_0000, 0, plain), 0);
    assert_eq!(float::min_max(F32, Extreme::Max, NAN, 5, plain), 5);
    assert_eq!(float::min_max(F32, Extreme::Max, NAN, 5, ExtremeMode { nan: true, ..plain }), NAN);
    let xorsign = ExtremeMode { xorsign_abs: true, ..plain };
    assert_eq!(float::min_max(F32, Extreme::Min, 0xbf80_0000, 0x4000_0000, xorsign), 0xbf80_0000);
}

#[test]
fn floats_become_integers_by_clamping() {
    let to = |kind, bits| convert::float_to_int(kind, F32, bits, Rounding::Zero, false);
    assert_eq!(to(U32, 0xbf80_0000), 0);
    assert_eq!(to(S32, 0x7f80_0000), 0x7fff_ffff);
    assert_eq!(to(U8, 0x4380_0000), 255);
    assert_eq!(to(S32, NAN), 0);
    assert_eq!(to(S64, NAN), 1 << 63);
    assert_eq!(convert::float_to_int(S32, F64, F64.canonical_nan(), Rounding::Zero, false), 1 << 31);
}

#[test]
fn narrow_floats_saturate_on_request() {
    assert_eq!(convert::float_to_float(F16, F32, 0x7f00_0000, Mode::RN, Overflow::Ieee), 0x7c00);
    assert_eq!(convert::float_to_float(F16, F32, 0x7f00_0000, Mode::RN, Overflow::SatFinite), 0x7bff);
    assert_eq!(convert::float_to_float(E5M2, F32, 0xff80_0000, Mode::RN, Overflow::SatFinite), 0xfb);
    assert_eq!(convert::tf32_register(0x3f80_1000, Mode::new(Rounding::NearestAway), Overflow::Ieee), 0x3f80_2000);
}

#[test]
fn integers_by_hand() {
    assert_eq!(S32.mul_hi(0x8000_0000, 0x8000_0000), 0x4000_0000);
    assert_eq!(U64.mul_hi(u64::MAX, u64::MAX), u64::MAX - 1);
    assert_eq!(S16.div(0x8000, 0xffff), Some(0x8000));
    assert_eq!(S32.rem(0xffff_fff9, 2), Some(0xffff_ffff));
    assert_eq!(U32.div(1, 0), None);
    assert_eq!(S32.shr(0x8000_0000, 40), 0xffff_ffff);
    assert_eq!(S32.bfe(0x0000_00f0, 4, 4), 0xffff_ffff);
    assert_eq!(S32.bfind(0xffff_ffff, false), 0xffff_ffff);
    assert_eq!(S32.bfind(0xffff_fffe, false), 0);
    assert_eq!(U32.bfind(1, true), 31);
    assert_eq!(S32.mul24_hi(0x00ff_ffff, 1), 0xffff_ffff);
    assert_eq!(S32.dp4a(S32, 0xff, 0xff, 1), 2);
    assert_eq!(U32.dp2a(U32, 0x0001_0002, 0x0403_0201, 0, true), 2 * 3 + 4);
    assert_eq!(S64.sad(1, 5, 10), 14);
}

#[test]
fn bits_by_hand() {
    assert_eq!(bits::lop3(0xf0, 0xcc, 0xaa, 0x80), 0x80);
    assert_eq!(bits::prmt(0x3322_1100, 0x7766_5544, 0x7531, Permute::Generic), 0x7755_3311);
    assert_eq!(bits::prmt(0x3322_1100, 0x7766_5544, 0, Permute::Backward4), 0x5566_7700);
    assert_eq!(bits::shf(0x8000_0000, 1, 1, true, false), 3);
    assert_eq!(bits::shf(0x8000_0000, 1, 32, false, true), 1);
    assert_eq!(bits::fns(0b1010_0100, 0, 2), 5);
    assert_eq!(bits::fns(0b1010_0100, 7, -2), 5);
    assert_eq!(bits::bmsk(4, 40, true), 0xffff_fff0);
    assert_eq!(bits::bfi(32, 0xff, 0, 28, 8), 0xf000_0000);
}
