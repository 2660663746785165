//! Small functions by hand, and allocations that the checker must refuse.

mod generate;

use generate::{Random, Shape};
use oriole_ir::text::{parse, print};
use oriole_ir::{File, Function, OperandKind, RegisterLimits, Target, verify_allocated};
use oriole_regalloc::check::check;
use oriole_regalloc::{AllocateError, Allocation, Environment, allocate};

fn environment(limit: u32) -> Environment {
    Environment::new(Target::parse("sm_90").unwrap(), limit)
}

fn allocated(text: &str, limit: u32) -> (Function, Allocation) {
    let before = parse(text).unwrap().remove(0);
    let mut after = before.clone();
    let allocation = allocate(&mut after, &environment(limit)).unwrap();
    check(&before, &after, &environment(limit), &allocation).unwrap();
    let limits = RegisterLimits { general: limit as u16, uniform: 63, predicate: 7, uniform_predicate: 7, convergence: 16, scoreboard: 6 };
    if let Err(errors) = verify_allocated(&after, &limits) {
        panic!("{errors}");
    }
    (after, allocation)
}

fn count(function: &Function, mnemonic: &str) -> usize {
    let insts = function.layout.iter().flat_map(|&block| &function.blocks[block].insts);
    insts.filter(|&&inst| function.insts[inst].op.mnemonic() == mnemonic).count()
}

const LOOP: &str = "func kernel @sum ssa {
bb0:
    %0:R2, %1:R = ENTRY
    %2:R = IADD3 %1, RZ, RZ
    BRA bb1
bb1:
    %3:R = PHI RZ, bb0, %8, bb1
    %4:R2 = PHI %0, bb0, %9, bb1
    %5:R = PHI %2, bb0, %10, bb1
    %6:R = LDG.E desc[URZ][%4.64] !global.4
    %7:P, PT = ISETP.NE.AND %5, 0x1, PT
    %8:R = IADD3 %3, %6, RZ
    %9:R2 = IMAD.WIDE RZ, RZ, %4
    %10:R = IADD3 %5, -0x1, RZ
    @%7 BRA bb1
    BRA bb2
bb2:
    STG.E desc[URZ][%9.64], %8 !global.4
    EXIT
}";

#[test]
fn a_loop_needs_no_moves() {
    let text = LOOP.replace("%0:R2, %1:R = ENTRY", "%0:R2@R4, %1:R@R6 = ENTRY");
    let (after, allocation) = allocated(&text, 255);
    let moves = count(&after, "MOV");
    assert!(moves <= 1, "only the zero in front of the loop:\n{}", print(&after));
    assert_eq!(after.layout.len(), 3, "no edge is split:\n{}", print(&after));
    assert_eq!((allocation.spill_load_bytes, allocation.frame_bytes), (0, 0));
    assert!(allocation.registers_used <= 9, "{allocation:?}");
}

#[test]
fn packs_of_fresh_values_need_no_moves() {
    let (after, _) = allocated(
        "func kernel @pack ssa {
bb0:
    %0:R = S2R SR_TID.X
    %1:R = IADD3 %0, 0x1, RZ
    %2:R = IADD3 %0, 0x2, RZ
    %3:R = IADD3 %0, 0x3, RZ
    %4:R4 = PACK %0, %1, %2, %3
    STS.128 [RZ], %4 !shared.16
    EXIT
}",
        255,
    );
    assert_eq!(count(&after, "MOV"), 0, "{}", print(&after));
}

#[test]
fn a_tied_operand_that_lives_on_is_copied() {
    let (after, _) = allocated(
        "func kernel @tied ssa {
bb0:
    %0:R = S2R SR_TID.X
    %1:P, PT = ISETP.NE.AND %0, RZ, PT
    @%1 %2:R = IADD3 %0, 0x1, RZ, (else %0)
    @!%1 %3:R = IADD3 %2, 0x1, RZ, (else %2)
    STS [%0], %3 !shared.4
    EXIT
}",
        255,
    );
    assert_eq!(count(&after, "MOV"), 1, "{}", print(&after));
}

#[test]
fn ten_predicates_live_in_registers() {
    let mut text = String::from("func kernel @predicates ssa {\nbb0:\n    %0:R = S2R SR_TID.X\n");
    for number in 1..=10 {
        text += &format!("    %{number}:P, PT = ISETP.NE.AND %0, {number:#x}, PT\n");
    }
    for number in 1..=10 {
        text += &format!("    @%{number} STS [%0], %0 !shared.4\n");
    }
    text += "    EXIT\n}\n";
    let (after, allocation) = allocated(&text, 255);
    assert_eq!(count(&after, "SEL"), 3, "as many as have no place:\n{}", print(&after));
    assert_eq!(allocation.frame_bytes, 0, "predicates go to registers, not to memory");
}

#[test]
fn phis_change_places_without_a_free_register() {
    // Fourteen values around a loop in fifteen registers, two of which change places; predicates as well.
    let mut text = String::from("func kernel @swap ssa {\nbb0:\n");
    for number in 0..15 {
        text += &format!("    %{number}:R = S2R SR_TID.X\n");
    }
    for number in 0..7 {
        text += &format!("    %{}:P, PT = ISETP.NE.AND %{number}, RZ, PT\n", 60 + number);
    }
    text += "    BRA bb1\nbb1:\n";
    for number in 0..15 {
        let back = [1, 0].get(number).copied().unwrap_or(number);
        text += &format!("    %{}:R = PHI %{number}, bb0, %{}, bb1\n", 20 + number, 20 + back);
    }
    for number in 0..7 {
        let back = [1, 0].get(number).copied().unwrap_or(number);
        text += &format!("    %{}:P = PHI %{}, bb0, %{}, bb1\n", 70 + number, 60 + number, 70 + back);
    }
    text += "    @%76 BRA bb1\n    BRA bb2\nbb2:\n";
    for number in 0..15 {
        text += &format!("    STS [RZ], %{} !shared.4\n", 20 + number);
    }
    for number in 0..7 {
        text += &format!("    @%{} STS [RZ], RZ !shared.4\n", 70 + number);
    }
    text += "    EXIT\n}\n";
    let (after, allocation) = allocated(&text, 16);
    assert_eq!((count(&after, "LOP3"), count(&after, "PLOP3")), (3, 3), "{}", print(&after));
    assert_eq!(allocation.frame_bytes, 0);
}

#[test]
fn sixteen_registers_are_enough_for_many_values() {
    let mut text = String::from("func kernel @spill ssa frame 8 align 8 {\nbb0:\n");
    for number in 0..20 {
        text += &format!("    %{number}:R2 = LDG.E.64 desc[URZ][RZ.64+{:#x}] !global.8\n", 8 * number);
    }
    for number in 0..20 {
        text += &format!("    STG.E.64 desc[URZ][RZ.64], %{number} !global.8\n");
    }
    text += "    EXIT\n}\n";
    let (after, allocation) = allocated(&text, 16);
    // Seven pairs fit beside R0 and the stack pointer.
    assert_eq!((allocation.spill_store_bytes, allocation.spill_load_bytes), (13 * 8, 13 * 8), "{}", print(&after));
    assert_eq!((allocation.frame_bytes, after.frame_bytes), (8 + 13 * 8, 8 + 13 * 8));
}

#[test]
fn constants_are_made_again() {
    let mut text = String::from("func kernel @constants ssa {\nbb0:\n");
    for number in 0..30 {
        text += &format!("    %{number}:R = MOV {number:#x}\n");
    }
    for number in 0..30 {
        text += &format!("    STS [RZ+{:#x}], %{number} !shared.4\n", 4 * number);
    }
    text += "    EXIT\n}\n";
    let (_, allocation) = allocated(&text, 16);
    assert_eq!((allocation.frame_bytes, allocation.spill_store_bytes, allocation.spill_load_bytes), (0, 0, 0));
}

#[test]
fn what_does_not_fit_is_named() {
    let text = "func kernel @wide ssa {
bb0:
    %0:R16 = LDC.64 c[0x0][0x0]
    STS [RZ], %0
    EXIT
}";
    let mut function = parse(text).unwrap().remove(0);
    let first = function.blocks[function.entry()].insts[0];
    let error = allocate(&mut function, &environment(16)).unwrap_err();
    assert_eq!(error, AllocateError::Limit { inst: first, file: File::General, available: 16 });
    let mut function = parse(text).unwrap().remove(0);
    function.is_ssa = false;
    assert!(matches!(allocate(&mut function, &environment(64)), Err(AllocateError::Invalid(_))));
}

#[test]
fn same_input_same_output() {
    let shape = Shape { regions: 8, piece: 20, reach: 200, calls: true, wide: false };
    for seed in 0..10 {
        let texts: Vec<String> = (0..2)
            .map(|_| {
                let mut function = generate::function(seed, shape);
                allocate(&mut function, &environment(20)).unwrap();
                print(&function)
            })
            .collect();
        assert_eq!(texts[0], texts[1]);
    }
}

/// One register of one operand is changed: nearly always the checker sees it. (What nobody reads may be anywhere.)
#[test]
fn the_checker_sees_wrong_registers() {
    let shape = Shape { regions: 6, piece: 15, reach: 60, calls: true, wide: false };
    let mut random = Random(1);
    let (mut changed, mut refused, mut read_changed, mut read_refused) = (0, 0, 0, 0);
    for seed in 0..60 {
        let before = generate::function(seed, shape);
        let mut after = before.clone();
        let env = environment(24);
        let allocation = allocate(&mut after, &env).unwrap();
        let insts: Vec<_> = after.layout.iter().flat_map(|&block| after.blocks[block].insts.clone()).collect();
        for _ in 0..30 {
            let inst = insts[random.below(insts.len())];
            let results = after.insts[inst].result_count();
            let places: Vec<usize> = (0..after.operands(inst).len())
                .filter(|&number| matches!(after.operands(inst)[number].kind, OperandKind::Register { file: File::General, count: 1, first } if first != 1))
                .collect();
            let Some(&number) = places.get(random.below(places.len())) else { continue };
            let mut wrong = after.clone();
            let OperandKind::Register { first, .. } = &mut wrong.operands_mut(inst)[number].kind else { continue };
            *first = if *first == 20 { 19 } else { 20 };
            let is_refused = check(&before, &wrong, &env, &allocation).is_err();
            changed += 1;
            refused += usize::from(is_refused);
            // What an instruction of the original function reads is wanted, unless the other register holds the same or it is undefined.
            if number >= results && inst < before.insts.next_index() {
                read_changed += 1;
                read_refused += usize::from(is_refused);
            }
        }
    }
    assert!(changed > 500 && read_changed > 100, "{changed} {read_changed}");
    assert!(100 * read_refused > 95 * read_changed, "{read_refused} of {read_changed}");
    assert!(10 * refused > 8 * changed, "{refused} of {changed}");
}
