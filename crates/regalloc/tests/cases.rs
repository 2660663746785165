//! Functions too long for a file: moves, spills and registers of their allocations; and wrong allocations that the checker must reject.
//! `filetests/regalloc` has small functions.

use crate::generate::{Random, Shape};
use oriole_ir::text::{parse, print};
use oriole_ir::{Function, Inst, Opcode, Operand, OperandKind, RegFile, RegisterLimits, Target, verify_allocated};
use oriole_regalloc::check::check;
use oriole_regalloc::{AllocateError, Allocation, AllocationEnvironment, Clobbers, Reg, allocate};

fn environment(limit: u32) -> AllocationEnvironment {
    AllocationEnvironment::new(Target::parse("sm_90").unwrap(), limit)
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

#[test]
fn phis_exchange_values_without_a_free_register() {
    // Fifteen phis occupy all fifteen usable registers around a loop, and two of them exchange their values; the same for seven predicates.
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
    // Of 16 registers, R1 is the stack pointer and R0 is half a pair, so seven pairs fit and 13 of 20 are spilled.
    assert_eq!((allocation.spill_store_bytes, allocation.spill_load_bytes), (13 * 8, 13 * 8), "{}", print(&after));
    assert_eq!((allocation.frame_bytes, after.frame_bytes), (8 + 13 * 8, 8 + 13 * 8));
}

#[test]
fn constants_are_rematerialized() {
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

/// Thirty values are defined before a call of a slow path that overwrites R4 to R15, and are read after it. They are in other registers from
/// the beginning, so that only the argument and the result are moved.
#[test]
fn values_live_across_a_slow_path_are_not_moved_around_its_call() {
    let mut text = String::from("func kernel @slow ssa {\n    symbol __oriole_slow_rcp\nbb0:\n");
    for number in 0..30 {
        text += &format!("    %{number}:R = S2R SR_TID.X\n");
    }
    text += "    %60:P, PT = ISETP.NE.AND %0, RZ, PT\n    %61:R = MUFU.RCP %1\n    @%60 BRA bb2\n    BRA bb1\n";
    text += "bb1:\n    %62:R@R4 = CALL call(__oriole_slow_rcp), %1@R4\n    BRA bb2\n";
    text += "bb2:\n    %63:R = PHI %61, bb0, %62, bb1\n    STS [RZ], %63 !shared.4\n";
    for number in 0..30 {
        text += &format!("    STS [RZ], %{number} !shared.4\n");
    }
    text += "    EXIT\n}\n";
    let before = parse(&text).unwrap().remove(0);
    let mut after = before.clone();
    let mut env = environment(255);
    let mut clobbers = Clobbers::NONE;
    clobbers.general.insert(Reg::new(4), 12);
    env.known_callees = vec![("__oriole_slow_rcp".to_owned(), clobbers)];
    let allocation = allocate(&mut after, &env).unwrap();
    check(&before, &after, &env, &allocation).unwrap();
    assert!(count(&after, "MOV") <= 2, "{}", print(&after));
    // The live values, the registers that the call overwrites, and the stack pointer; the result takes one of those of the call.
    let insts = after.layout.iter().flat_map(|&block| &after.blocks[block].insts);
    let general = insts.flat_map(|&inst| after.results(inst)).filter_map(|result| match result.kind {
        OperandKind::Register { file: RegFile::General, first, .. } => Some(first),
        _ => None,
    });
    assert!(general.max() < Some(30 + 12 + 1), "{}", print(&after));
}

#[test]
fn instruction_beyond_the_register_limit_is_named_in_the_error() {
    let text = "func kernel @wide ssa {
bb0:
    %0:R16 = LDC.64 c[0x0][0x0]
    STS [RZ], %0
    EXIT
}";
    let mut function = parse(text).unwrap().remove(0);
    let first = function.blocks[function.entry()].insts[0];
    let error = allocate(&mut function, &environment(16)).unwrap_err();
    assert_eq!(error, AllocateError::Limit { inst: first, file: RegFile::General, available: 16 });
    let mut function = parse(text).unwrap().remove(0);
    function.is_ssa = false;
    assert!(matches!(allocate(&mut function, &environment(64)), Err(AllocateError::Invalid(_))));
}

/// A fixed pair whose second register is above the limit, or is the stack pointer, has no registers although the first one exists.
#[test]
fn every_register_of_a_fixed_tuple_must_be_usable() {
    let program = |entry: &str, call: &str| {
        format!("func kernel @fixed ssa {{\nbb0:\n    {entry} = ENTRY\n    {call}\n    STS.64 [RZ], %1 !shared.8\n    EXIT\n}}")
    };
    let cases = [
        (program("%0:R2@R4", "%1:R2@R6 = CALL call(callee), %0@R4"), None),
        (program("%0:R2@R4", "%1:R2@R6 = CALL call(callee), %0@R14"), Some(1)),
        (program("%0:R2@R4", "%1:R2@R14 = CALL call(callee), %0@R4"), Some(1)),
        (program("%0:R2@R0", "%1:R2@R6 = CALL call(callee), %0@R4"), Some(0)),
    ];
    for (text, culprit) in cases {
        let before = parse(&text).unwrap_or_else(|error| panic!("{error:?}\n{text}")).remove(0);
        let mut after = before.clone();
        let result = allocate(&mut after, &environment(15));
        match culprit {
            Some(number) => {
                let inst = before.blocks[before.entry()].insts[number];
                assert_eq!(result, Err(AllocateError::Limit { inst, file: RegFile::General, available: 15 }), "{text}");
            }
            None => check(&before, &after, &environment(15), &result.unwrap()).unwrap(),
        }
    }
}

/// Returns the first register of an operand.
fn first_register(operand: &Operand) -> u16 {
    let OperandKind::Register { first, .. } = operand.kind else { panic!("{operand:?}") };
    first
}

fn found(function: &Function, opcode: Opcode) -> Vec<Inst> {
    let insts = function.layout.iter().flat_map(|&block| function.blocks[block].insts.iter().copied());
    insts.filter(|&inst| function.insts[inst].is_machine(opcode)).collect()
}

/// The instruction reads a quad that was spilled. Each of the three windows for a quad holds a single register that the instruction reads
/// too, so none can be freed by dropping values: the sources have to be packed anew.
#[test]
fn sources_are_repacked_where_none_may_be_dropped() {
    let before = parse(
        "func kernel @repack ssa {
bb0:
    %0:R4@R4, %1:R@R8, %2:R@R12 = ENTRY
    %3:R@R4 = IADD3 %1, %2, RZ
    %4:P, PT = ISETP.NE.AND %1, RZ, PT
    @%4 %5:R4 = IADD3 %1, %2, %3, (else %0)
    STS.128 [RZ], %5 !shared.16
    EXIT
}",
    )
    .unwrap()
    .remove(0);
    // The result fixed in R4 forces the quad out of R4 to R7. The IR verifier accepts fixed results of calls only; the allocator and the
    // checker handle them in every instruction.
    let mut after = before.clone();
    let allocation = allocate(&mut after, &environment(16)).unwrap();
    check(&before, &after, &environment(16), &allocation).unwrap();
    assert_eq!((allocation.spill_store_bytes, allocation.spill_load_bytes), (16, 16), "{}", print(&after));
    assert_eq!(count(&after, "MOV"), 3, "each single moves out of the way of the four:\n{}", print(&after));
}

/// A tied pair whose source lives on needs a second pair. One half of each pair is occupied, so one single register has to move. All
/// windows cost the same; the lowest pair of two usable registers is R2:R3.
#[test]
fn the_lowest_of_equally_good_windows_is_cleared() {
    let mut text = String::from("func kernel @window ssa {\nbb0:\n    ");
    (0..7).for_each(|number| text += &format!("%{number}:R@R{}, ", 2 * number));
    text += "%7:R2@R14 = ENTRY
    %8:P, PT = ISETP.NE.AND %0, RZ, PT
    @%8 %9:R2 = LDG.E.64 desc[URZ][%7.64], (else %7) !global.8
    STS.64 [RZ], %7 !shared.8
    STS.64 [RZ], %9 !shared.8\n";
    (0..7).for_each(|number| text += &format!("    STS [RZ], %{number} !shared.4\n"));
    text += "    EXIT\n}\n";
    let (after, allocation) = allocated(&text, 16);
    assert_eq!(first_register(&after.operands(found(&after, Opcode::LDG)[0])[0]), 2, "{}", print(&after));
    assert_eq!(allocation.frame_bytes, 0);
}

/// Twenty phis and fifteen registers: at least five phis are in memory. Constants are stored there directly, without a temporary slot.
#[test]
fn phis_in_memory_that_do_not_read_each_other_need_no_temporaries() {
    let mut text = String::from("func kernel @phis ssa {\nbb0:\n    BRA bb1\nbb1:\n");
    for number in 0..20 {
        text += &format!("    %{number}:R = PHI {:#x}, bb0, %{}, bb1\n", number + 1, 100 + number);
    }
    text += "    %200:P, PT = ISETP.NE.AND %0, RZ, PT\n";
    (0..20).for_each(|number| text += &format!("    %{}:R = IADD3 %{number}, 0x1, RZ\n", 100 + number));
    text += "    @%200 BRA bb1\n    BRA bb2\nbb2:\n";
    (100..120).for_each(|number| text += &format!("    STS [RZ], %{number} !shared.4\n"));
    text += "    EXIT\n}\n";
    let (after, _) = allocated(&text, 16);
    let entry = &after.blocks[after.entry()].insts;
    let in_entry = |opcode| entry.iter().filter(|&&inst| after.insts[inst].is_machine(opcode)).count();
    assert!(in_entry(Opcode::STL) >= 5, "at least five phis have no register:\n{}", print(&after));
    assert_eq!(in_entry(Opcode::LDL), 0, "{}", print(&after));
}

/// A comparison has two predicate results, the second of which may be unused. The comparison that reloads a spilled predicate has both too.
#[test]
fn uniform_predicates_come_back_by_comparisons_with_two_results() {
    let mut text = String::from("func kernel @predicates ssa {\nbb0:\n    %0:UR = S2UR SR_CTAID.X\n");
    for number in 1..=10 {
        text += &format!("    %{number}:UP, UPT = UISETP.NE.AND %0, {number:#x}, UPT\n");
    }
    for number in 1..=10 {
        text += &format!("    %{}:UR = USEL %0, {number:#x}, %{number}\n    %{}:R = MOV %{}\n", 20 + number, 40 + number, 20 + number);
        text += &format!("    STS [RZ], %{} !shared.4\n", 40 + number);
    }
    text += "    EXIT\n}\n";
    let (after, _) = allocated(&text, 255);
    let comparisons = found(&after, Opcode::UISETP);
    assert_eq!(comparisons.len(), 10 + 3, "three have no place in seven predicates:\n{}", print(&after));
    assert!(comparisons.iter().all(|&inst| after.insts[inst].result_count() == 2), "{}", print(&after));
}

/// A spill store or copy after a definition has the source location of the definition.
#[test]
fn spill_code_has_the_location_of_the_definition() {
    // Forty pairs do not fit into 63 uniform registers.
    let mut text = String::from("func kernel @pairs ssa {\nbb0:\n");
    for number in 0..40 {
        text += &format!("    %{number}:UR2 = R2UR.64 RZ ;@{}:{}\n", 100 + number, 1 + number);
    }
    for number in 0..40 {
        text += &format!("    STG.E desc[%{number}][RZ.64], RZ !global.4 ;@{}:{}\n", 200 + number, 101 + number);
    }
    text += "    EXIT ;@300:300\n}\n";
    let (after, _) = allocated(&text, 255);
    let moves = found(&after, Opcode::MOV);
    assert!(!moves.is_empty(), "{}", print(&after));
    assert!(moves.iter().all(|&inst| (1..=40).contains(&after.insts[inst].location.line)), "{}", print(&after));
    // A spilled phi that is in a register at the start of its block is stored there, with the phi's own location.
    let mut text = String::from("func kernel @phis ssa {\nbb0:\n    BRA bb1 ;@1:1\nbb1:\n");
    for number in 0..14 {
        text += &format!("    %{number}:R = PHI {:#x}, bb0, %{number}, bb1 ;@{}:{}\n", number + 1, 10 + number, 10 + number);
    }
    for number in 20..36 {
        text += &format!("    %{number}:R = S2R SR_TID.X ;@200:200\n");
    }
    (20..36).for_each(|number| text += &format!("    STS [RZ], %{number} !shared.4 ;@201:201\n"));
    (0..14).for_each(|number| text += &format!("    STS [RZ], %{number} !shared.4 ;@202:202\n"));
    text += "    BRA bb1 ;@203:203\n}\n";
    let (after, _) = allocated(&text, 16);
    let second = after.layout[1];
    let head: Vec<u32> = after.blocks[second]
        .insts
        .iter()
        .map(|&inst| (inst, &after.insts[inst]))
        .take_while(|(_, data)| data.is_machine(Opcode::STL))
        .map(|(_, data)| data.location.line)
        .collect();
    assert!(!head.is_empty(), "{}", print(&after));
    let mut lines = head.clone();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), head.len(), "each has another line:\n{}", print(&after));
    assert!(lines.iter().all(|line| (10..24).contains(line)), "{}", print(&after));
}

#[test]
fn same_input_same_output() {
    let shape = Shape { regions: 8, piece: 20, reach: 200, calls: true, wide: false };
    for seed in 0..10 {
        let texts: Vec<String> = (0..2)
            .map(|_| {
                let mut function = crate::generate::function(seed, shape);
                allocate(&mut function, &environment(20)).unwrap();
                print(&function)
            })
            .collect();
        assert_eq!(texts[0], texts[1]);
    }
}

/// Changes one register of one operand: the checker must report nearly all such changes. A result that is never read may be anywhere.
#[test]
fn the_checker_sees_wrong_registers() {
    let shape = Shape { regions: 6, piece: 15, reach: 60, calls: true, wide: false };
    let mut random = Random(1);
    let (mut changed, mut refused, mut read_changed, mut read_refused) = (0, 0, 0, 0);
    for seed in 0..60 {
        let before = crate::generate::function(seed, shape);
        let mut after = before.clone();
        let env = environment(24);
        let allocation = allocate(&mut after, &env).unwrap();
        let insts: Vec<_> = after.layout.iter().flat_map(|&block| after.blocks[block].insts.clone()).collect();
        for _ in 0..30 {
            let inst = insts[random.below(insts.len())];
            let results = after.insts[inst].result_count();
            let places: Vec<usize> = (0..after.operands(inst).len())
                .filter(|&number| matches!(after.operands(inst)[number].kind, OperandKind::Register { file: RegFile::General, count: 1, first } if first != 1))
                .collect();
            let Some(&number) = places.get(random.below(places.len())) else { continue };
            let mut wrong = after.clone();
            let OperandKind::Register { first, .. } = &mut wrong.operands_mut(inst)[number].kind else { continue };
            *first = if *first == 20 { 19 } else { 20 };
            let is_refused = check(&before, &wrong, &env, &allocation).is_err();
            changed += 1;
            refused += usize::from(is_refused);
            // A changed source of an original instruction is an error unless the value is undefined or the other register holds it too.
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
