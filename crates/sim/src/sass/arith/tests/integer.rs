//! Tests of integer arithmetic, bit operations and predicates.

use oriole_sem::bits::{self, Permute};
use oriole_sem::int::{S8, S16, S32, U8, U16, U32};

use super::{AMPERE, BLACKWELL, CONSUMER, HOPPER, Machine, WORDS, eval, eval_on, is_refused};

fn pairs() -> impl Iterator<Item = (u32, u32)> {
    WORDS.iter().flat_map(|&a| WORDS.iter().map(move |&b| (a, b)))
}

#[test]
fn sums_carry_as_wide_numbers_do() {
    for (a, b) in pairs() {
        let mut machine = Machine::with(HOPPER, &[a, b, !a, a]);
        machine.run("IADD3 R0, P0, R1, R2, RZ").run("IADD3.X R10, P1, R3, R4, RZ, P0, !PT");
        let (low, carry) = U32.add_carry(a.into(), b.into(), false);
        let (high, over) = U32.add_carry((!a).into(), a.into(), carry);
        assert_eq!((machine.get(0), machine.get_predicate(0)), (low as u32, carry), "{a:x} + {b:x}");
        assert_eq!((machine.get(10), machine.get_predicate(1)), (high as u32, over), "{a:x} + {b:x}");
        machine.run("IADD3 R0, P0, R1, -R2, RZ").run("IADD3.X R10, R3, ~R4, RZ, P0, !PT");
        let (low, borrow) = U32.sub_borrow(a.into(), b.into(), false);
        let (high, _) = U32.sub_borrow((!a).into(), a.into(), borrow);
        assert_eq!((machine.get(0), machine.get_predicate(0)), (low as u32, !borrow), "{a:x} - {b:x}");
        assert_eq!(machine.get(10), high as u32, "{a:x} - {b:x}");
    }
    let mut machine = Machine::with(HOPPER, &[!0, !0, !0]);
    machine.run("IADD3 R0, P0, P1, R1, R2, R3");
    assert_eq!((machine.get(0), machine.get_predicate(0), machine.get_predicate(1)), (0xffff_fffd, true, true));
}

#[test]
fn uniform_sums_of_pairs() {
    let mut machine = Machine::new(BLACKWELL);
    for (number, value) in [(2, 0xffff_ffff), (3, 1), (4, 1), (5, 0)] {
        machine.set_uniform(number, value);
    }
    machine.run("UIADD3.64 UR0, UPT, UPT, UR2, UR4, URZ");
    assert_eq!((machine.get_uniform(0), machine.get_uniform(1)), (0, 2));
}

#[test]
fn products() {
    for (a, b) in pairs() {
        let mut machine = Machine::with(HOPPER, &[a, b, 77, 0x1234, 0xfff0_0000]);
        let c = 0xfff0_0000_0000_1234;
        machine.run("IMAD R0, R1, R2, -R3");
        assert_eq!(u64::from(machine.get(0)), U32.mad_lo(a.into(), b.into(), U32.neg(77)));
        machine.run("IMAD.WIDE.U32 R8, P0, R1, R2, R4");
        let sum = u128::from(u64::from(a) * u64::from(b)) + u128::from(c);
        assert_eq!((machine.get_wide(8), machine.get_predicate(0)), (sum as u64, sum >> 64 != 0), "{a:x} * {b:x}");
        machine.run("IMAD.WIDE.U32.X R8, R1, R2, RZ, P0");
        assert_eq!(machine.get_wide(8), (u64::from(a) * u64::from(b)).wrapping_add((sum >> 64) as u64));
        machine.run("IMAD.WIDE R8, R1, R2, R4");
        assert_eq!(machine.get_wide(8), S32.mad_wide(a.into(), b.into(), c));
        machine.run("IMAD.HI R8, R1, R2, RZ");
        assert_eq!(u64::from(machine.get(8)), S32.mul_hi(a.into(), b.into()));
        machine.run("IMAD.HI.U32 R8, R1, R2, RZ");
        assert_eq!(u64::from(machine.get(8)), U32.mul_hi(a.into(), b.into()));
    }
}

#[test]
fn scaled_sums() {
    for (a, b) in pairs() {
        let mut machine = Machine::with(HOPPER, &[a, b, 5, 9]);
        machine.run("LEA R0, P0, R1, R2, 0x3");
        let (low, carry) = U32.add_carry(u64::from(a << 3), b.into(), false);
        assert_eq!((machine.get(0), machine.get_predicate(0)), (low as u32, carry));
        machine.run("LEA.HI.X R0, R1, R3, R4, 0x3, P0");
        let above = (9_u64 << 32 | u64::from(a)) << 3 >> 32;
        assert_eq!(machine.get(0), (above as u32).wrapping_add(5 + u32::from(carry)));
        machine.run("LEA.HI.SX32 R0, R1, R2, 0x4");
        let above = (i64::from(a as i32) << 4 >> 32) as u32;
        assert_eq!(machine.get(0), above.wrapping_add(b));
        machine.run("LEA R0, -R1, R2, 0x2");
        assert_eq!(machine.get(0), b.wrapping_sub(a << 2));
    }
}

#[test]
fn extremes() {
    for (a, b) in pairs() {
        let (x, y) = (u64::from(a), u64::from(b));
        let both = |text: &str| eval_on(AMPERE, text, &[a, b]);
        assert_eq!(u64::from(both("IMNMX R0, R1, R2, PT")), S32.min(x, y));
        assert_eq!(u64::from(both("IMNMX.U32 R0, R1, R2, !PT")), U32.max(x, y));
        assert_eq!(u64::from(eval("VIMNMX R0, R1, R2, !PT", &[a, b])), S32.max(x, y));
        let halves = |f: &dyn Fn(u64, u64) -> u64| (f(x & 0xffff, y & 0xffff) | f(x >> 16, y >> 16) << 16) as u32;
        assert_eq!(eval("VIMNMX.S16x2 R0, R1, R2, PT", &[a, b]), halves(&|a, b| S16.min(a, b)), "{a:x} {b:x}");
        assert_eq!(eval("VIMNMX.U16x2 R0, R1, R2, !PT", &[a, b]), halves(&|a, b| U16.max(a, b)));
        assert_eq!(eval("VIMNMX.S16x2.RELU R0, R1, R2, PT", &[a, b]), halves(&|a, b| S16.max(S16.min(a, b), 0)));
        let mut machine = Machine::with(HOPPER, &[a, b]);
        machine.run("VIMNMX.S16x2 R0, P2, P3, R1, R2, !PT");
        let not_less = [0, 16].map(|at| S16.value(x >> at & 0xffff) >= S16.value(y >> at & 0xffff));
        assert_eq!([2, 3].map(|number| machine.get_predicate(number)), not_less, "{a:x} {b:x}");
        machine.run("VIMNMX.U16x2 R0, P2, P3, R1, R2, PT");
        let not_greater = [0, 16].map(|at| x >> at & 0xffff <= y >> at & 0xffff);
        assert_eq!([2, 3].map(|number| machine.get_predicate(number)), not_greater, "{a:x} {b:x}");
        let clamped = U32.wrap((S32.value(x) + S32.value(y)).clamp(S32.least(), S32.greatest()));
        assert_eq!(u64::from(eval_on(CONSUMER, "VIADD.S32.ISAT R0, R1, R2", &[a, b])), clamped);
        assert_eq!(eval_on(CONSUMER, "VIADD.16x2 R0, R1, R2", &[a, b]), halves(&|a, b| U16.add(a, b)));
        assert_eq!(u64::from(eval("VIADDMNMX R0, R1, R2, RZ, PT", &[a, b])), S32.min(S32.add(x, y), 0));
        assert_eq!(u64::from(eval_on(AMPERE, "VABSDIFF R0, R1, R2, RZ", &[a, b])), S32.sad(x, y, 0));
        assert_eq!(u64::from(eval_on(AMPERE, "VABSDIFF.U32 R0, R1, R2, R2", &[a, b])), U32.sad(x, y, y));
        assert_eq!(u64::from(eval("IDP.4A.S8.U8 R0, R1, R2, RZ", &[a, b])), S8.dp4a(U8, x, y, 0));
        assert_eq!(u64::from(eval("IDP.2A.HI.U16.S8 R0, R1, R2, R1", &[a, b])), U16.dp2a(S8, x, y, x, true));
        let mut machine = Machine::with(CONSUMER, &[0, a, b, b, a]);
        machine.run("IMNMX.S64 PT, PT, R6, R2, R4, PT, !PT");
        let (c, d) = ((x | y << 32) as i64, (y | x << 32) as i64);
        assert_eq!(machine.get_wide(6) as i64, c.min(d));
    }
    assert!(is_refused(HOPPER, "VIADDMNMX.S16x2 R0, R1, -R2, R3, PT"));
    assert!(is_refused(HOPPER, "VIMNMX.S16x2.RELU R0, P2, PT, R1, R2, PT"));
}

#[test]
fn bit_operations() {
    for (a, b) in pairs() {
        let (x, y) = (u64::from(a), u64::from(b));
        for table in [0xc0, 0x3c, 0x96, 0xca, 0x1d, 0xf8, 0xfe, 0x80, 0x33, 0xfc] {
            let text = format!("LOP3.LUT R0, R1, R2, R3, {table:#x}, !PT");
            assert_eq!(u64::from(eval(&text, &[a, b, 0x0f0f_1234])), bits::lop3(x, y, 0x0f0f_1234, table));
        }
        let mut machine = Machine::with(HOPPER, &[a, b]);
        machine.run("LOP3.LUT P0, RZ, R1, R2, RZ, 0xc0, !PT");
        assert_eq!(machine.get_predicate(0), a & b != 0);
        assert_eq!(u64::from(eval("SHF.L.W.U32.HI R0, R2, R3, R1", &[a, b, 13])), bits::shf(y, x, 13, true, false));
        assert_eq!(u64::from(eval("SHF.R.U32 R0, R1, R2, R3", &[a, b, 0x55aa])), bits::shf(x, 0x55aa, y, false, true));
        assert_eq!(u64::from(eval("SHF.R.S32.HI R0, RZ, R2, R1", &[a, b])), S32.shr(x, y));
        assert_eq!(u64::from(eval("SHF.L.U32 R0, R1, R2, RZ", &[a, b])), U32.shl(x, y));
        let wide = u64::from(a) << 32 | 0x8765_4321;
        assert_eq!(eval("SHF.L.U64.HI R0, R3, R2, R1", &[a, b, 0x8765_4321]), (oriole_sem::int::U64.shl(wide, y) >> 32) as u32);
        assert_eq!(eval("SHF.R.S64 R0, R3, R2, R1", &[a, b, 0x8765_4321]), oriole_sem::int::S64.shr(wide, y) as u32);
        assert_eq!(u64::from(eval("PRMT R0, R1, R3, R2", &[a, b, 0x9d47])), bits::prmt(x, y, 0x9d47, Permute::Generic));
        assert_eq!(u64::from(eval("PRMT.ECL R0, R1, 0x2, R2", &[a, b])), bits::prmt(x, y, 2, Permute::EdgeClampLeft));
        assert_eq!(u64::from(eval("BMSK R0, R1, R2", &[a, b])), bits::bmsk(x, y, true));
        assert_eq!(u64::from(eval("SGXT R0, R1, R2", &[a, b])), S32.szext(x, y, true));
        assert_eq!(u64::from(eval("SGXT.W.U32 R0, R1, R2", &[a, b])), U32.szext(x, y, false));
    }
    for a in WORDS {
        assert_eq!(eval("POPC R0, ~R1", &[a]), 32 - a.count_ones());
        assert_eq!(eval("BREV R0, R1", &[a]), bits::brev(32, a.into()) as u32);
        assert_eq!(u64::from(eval("FLO.U32 R0, R1", &[a])), U32.bfind(a.into(), false));
        assert_eq!(u64::from(eval("FLO.SH R0, R1", &[a])), S32.bfind(a.into(), true));
        assert_eq!(eval("IABS R0, R1", &[a]), (a as i32).wrapping_abs() as u32);
    }
}

#[test]
fn comparisons_and_choices() {
    use std::cmp::Ordering::{Greater, Less};
    for (a, b) in pairs() {
        let mut machine = Machine::with(HOPPER, &[a, b, a, b ^ 1]);
        machine.run("ISETP.LT.AND P0, P1, R1, R2, PT");
        assert_eq!((machine.get_predicate(0), machine.get_predicate(1)), ((a as i32) < b as i32, a as i32 >= b as i32));
        machine.run("ISETP.GE.U32.OR P0, P1, R1, R2, P0");
        assert_eq!(machine.get_predicate(0), a >= b || (a as i32) < b as i32);
        // A 64-bit comparison in two steps.
        machine.run("ISETP.LT.U32.AND P0, PT, R2, R1, PT").run("ISETP.LT.AND.EX P0, PT, R3, R4, PT, P0");
        let (x, y) = (i64::from(a as i32) << 32 | i64::from(b), i64::from((b ^ 1) as i32) << 32 | i64::from(a));
        assert_eq!(machine.get_predicate(0), x < y, "{x:x} {y:x}");
        machine.run("SEL R0, R1, R2, P0");
        assert_eq!(machine.get(0), if x < y { a } else { b });
        let mut machine = Machine::with(CONSUMER, &[0, a, b, b, a]);
        machine.run("ISETP.GT.U64.AND P0, PT, R2, R4, PT");
        let order = (u64::from(b) << 32 | u64::from(a)).cmp(&(u64::from(a) << 32 | u64::from(b)));
        assert_eq!(machine.get_predicate(0), order == Greater);
        assert!(order != Less || !machine.get_predicate(0));
    }
}

#[test]
fn predicate_logic() {
    for index in 0..8_u32 {
        let mut machine = Machine::new(HOPPER);
        let [a, b, c] = [4, 2, 1].map(|bit| index & bit != 0);
        for (number, value) in [(0, a), (1, b), (2, c)] {
            machine.set_predicate(number, value);
        }
        machine.run("PLOP3.LUT P3, P4, P0, P1, !P2, 0x80, 0x3c");
        assert_eq!((machine.get_predicate(3), machine.get_predicate(4)), (a && b && !c, a != b));
    }
}
