//! Tests of new instruction orders, on code in the syntax of `oriole disasm --control`.

use std::collections::BTreeSet;

use oriole_hardware::{Hardware, Model};
use oriole_isa::Target;
use oriole_sched::resource::ResourceCosts;

use crate::graph::{FileInfo, build};
use crate::kept_waits::find_kept_waits;
use crate::predict::{self, PredictedInst, TimingModel};
use crate::reorder::{MoveConstraints, ReorderCondition, TimedOrder, plan};
use crate::tests::code;
use crate::words::{assign_words, old_words};

/// Two loads, each directly followed by its user, and independent instructions.
const LATE_LOADS: [&str; 9] = [
    "[B------:R-:W0:-:S04] LDG.E R8, desc[UR4][R2.64]",
    "[B0-----:R-:W-:-:S04] FADD R9, R8, R8",
    "[B------:R-:W1:-:S04] LDG.E R10, desc[UR4][R4.64]",
    "[B-1----:R-:W-:-:S04] FADD R11, R10, R10",
    "[B------:R-:W-:-:S04] FADD R12, R6, R7",
    "[B------:R-:W-:-:S04] FMUL R13, R12, R12",
    "[B------:R-:W-:-:S04] FADD R14, R9, R11",
    "[B------:R-:W-:-:S04] FADD R15, R13, R14",
    "EXIT",
];

/// Calls `run` with the model of sm_90a and two register banks.
fn with_timing<T>(run: impl FnOnce(&TimingModel<'_>) -> T) -> T {
    let target = Target::parse("sm_90a").unwrap();
    let hardware = Hardware::built_in(target);
    let costs = ResourceCosts::from_rates(hardware.rates, hardware.machine);
    run(&TimingModel { hardware: &hardware, costs: &costs, register_banks: 2 })
}

/// Returns the new order of the code.
fn planned(lines: &[&str], fixed_addresses: &[usize], warps: usize) -> TimedOrder {
    let decoded = code(lines);
    let around = FileInfo { entries: vec![0], indirect: &|_| None, is_relocated: &|_| false };
    let graph = build(&decoded, &around).unwrap();
    let waits = find_kept_waits(&decoded, &old_words(&decoded), &graph.blocks).unwrap();
    let limits = MoveConstraints {
        fixed_addresses: fixed_addresses.iter().copied().collect::<BTreeSet<_>>(),
        is_relocated: &|_| false,
        warps,
        when: ReorderCondition::Faster,
    };
    with_timing(|timing| plan(&decoded, &graph, &waits, &limits, timing))
}

/// Returns the new position of an instruction.
fn place(plan: &TimedOrder, old: usize) -> usize {
    plan.order.iter().position(|&number| number == old).unwrap()
}

#[test]
fn loads_go_before_the_users_of_other_loads() {
    let new = planned(&LATE_LOADS, &[], 1);
    assert!(place(&new, 2) < place(&new, 1), "{:?}", new.order);
    assert_eq!((new.schedule.blocks, new.schedule.reordered, &new.schedule.kept), (1, 1, &None));
    // Overlapping the two loads saves the latency of one.
    assert!(new.schedule.cycles_after + 250 < new.schedule.cycles_before, "{:?}", new.schedule);
}

#[test]
fn nothing_moves_across_known_addresses() {
    let new = planned(&LATE_LOADS, &[2], 1);
    assert!((0..2).all(|number| place(&new, number) < 2), "{:?}", new.order);
}

#[test]
fn order_without_gain_is_kept() {
    let chain = ["FADD R1, R0, R0", "FADD R2, R1, R1", "FADD R3, R2, R2", "FADD R4, R3, R3", "EXIT"];
    let new = planned(&chain, &[], 1);
    assert_eq!(new.order, [0, 1, 2, 3, 4]);
    assert_eq!((new.schedule.reordered, new.schedule.moved), (0, 0));
    assert_eq!(new.schedule.cycles_before, new.schedule.cycles_after);
}

#[test]
fn memory_stays_after_acquire() {
    // An acquiring load is followed by a `NOP` with a wait; the next load must not move before it.
    let acquire = [
        "[B------:R-:W0:-:S02] LDS R8, [R2]",
        "[B0-----:R-:W-:-:S02] NOP",
        "[B------:R-:W1:-:S04] LDG.E R10, desc[UR4][R4.64]",
        "[B-1----:R-:W-:-:S04] FADD R11, R10, R8",
        "[B------:R-:W-:-:S04] FADD R12, R6, R7",
        "EXIT",
    ];
    let new = planned(&acquire, &[], 1);
    assert!(place(&new, 0) < place(&new, 1) && place(&new, 1) < place(&new, 2), "{:?}", new.order);
    let wait = new.controls[place(&new, 1)].wait;
    assert_eq!(wait, 1 << new.controls[place(&new, 0)].write_barrier.unwrap());
    // Without the acquire, the global load moves up.
    let mut plain = acquire;
    plain[1] = "[B0-----:R-:W-:-:S04] FADD R13, R8, R8";
    let new = planned(&plain, &[], 1);
    assert!(place(&new, 2) < place(&new, 1), "{:?}", new.order);
}

#[test]
fn accesses_of_shared_memory_stay_in_order() {
    // The loads may be volatile, which machine code does not show.
    let lines = [
        "[B------:R-:W0:-:S04] LDS R8, [R2]",
        "[B0-----:R-:W-:-:S04] FADD R9, R8, R8",
        "[B------:R-:W-:-:S04] FADD R9, R9, R8",
        "[B------:R-:W1:-:S04] LDS R10, [R2+0x40]",
        "[B-1----:R-:W-:-:S04] FADD R11, R10, R10",
        "[B------:R-:W2:-:S04] LDS R12, [R2+0x80]",
        "[B--2---:R-:W-:-:S04] FADD R13, R12, R11",
        "[B------:R-:W-:-:S04] FADD R13, R13, R9",
        "EXIT",
    ];
    let new = planned(&lines, &[], 1);
    assert_eq!(new.schedule.reordered, 1);
    assert!(place(&new, 0) < place(&new, 3) && place(&new, 3) < place(&new, 5), "{:?}", new.order);
}

#[test]
fn clock_read_is_a_scheduling_barrier() {
    let lines = [
        "[B------:R-:W-:-:S04] CS2R R20, SR_CLOCKLO",
        "[B------:R-:W0:-:S04] LDG.E R8, desc[UR4][R2.64]",
        "[B0-----:R-:W-:-:S04] FADD R9, R8, R8",
        "[B------:R-:W-:-:S04] CS2R R22, SR_CLOCKLO",
        "[B------:R-:W1:-:S04] LDG.E R10, desc[UR4][R4.64]",
        "[B-1----:R-:W-:-:S04] FADD R11, R10, R9",
        "EXIT",
    ];
    let new = planned(&lines, &[], 1);
    assert_eq!((place(&new, 0), place(&new, 3)), (0, 3));
    assert!(place(&new, 4) > 3);
}

#[test]
fn relative_addresses_do_not_move() {
    let lines = [
        "[B------:R-:W0:-:S04] LDG.E R8, desc[UR4][R2.64]",
        "[B0-----:R-:W-:-:S04] FADD R9, R8, R8",
        "[B------:R-:W-:-:S04] BSSY B0, 0x70",
        "[B------:R-:W1:-:S04] LDG.E R10, desc[UR4][R4.64]",
        "[B-1----:R-:W-:-:S04] FADD R11, R10, R9",
        "[B------:R-:W-:-:S04] BSYNC B0",
        "FADD R12, R11, R11",
        "EXIT",
    ];
    let new = planned(&lines, &[], 1);
    assert_eq!((place(&new, 2), place(&new, 5)), (2, 5));
}

#[test]
fn waits_that_registers_do_not_explain_go_along() {
    let lines = [
        "[B------:R-:W2:-:S02] SYNCS.EXCH.64 URZ, [UR4], UR6",
        "[B------:R-:W0:-:S04] LDG.E R8, desc[UR8][R2.64]",
        "[B0-----:R-:W-:-:S04] FADD R9, R8, R8",
        "[B------:R-:W1:-:S04] LDG.E R10, desc[UR8][R4.64]",
        "[B-1----:R-:W-:-:S04] FADD R11, R10, R9",
        "[B--2---:R-:W-:-:S06] BAR.SYNC.DEFER_BLOCKING 0x0",
        "EXIT",
    ];
    let new = planned(&lines, &[], 1);
    assert_eq!(new.schedule.reordered, 1);
    let (first, second) = (place(&new, 0), place(&new, 5));
    assert!(first < second);
    assert_ne!(new.controls[second].wait & 1 << new.controls[first].write_barrier.unwrap(), 0);
}

#[test]
fn loads_of_one_line_stay_adjacent() {
    let lines = [
        "[B------:R-:W0:-:S04] LDG.E R8, desc[UR4][R2.64]",
        "[B0-----:R-:W-:-:S04] FADD R9, R8, R8",
        "[B------:R-:W1:-:S04] LDG.E R10, desc[UR4][R4.64]",
        "[B------:R-:W1:-:S04] LDG.E R12, desc[UR4][R4.64+0x10]",
        "[B-1----:R-:W-:-:S04] FADD R11, R10, R9",
        "[B------:R-:W-:-:S04] FADD R11, R12, R11",
        "EXIT",
    ];
    let new = planned(&lines, &[], 1);
    assert!(place(&new, 2) < place(&new, 1), "{:?}", new.order);
    assert_eq!(place(&new, 3), place(&new, 2) + 1, "{:?}", new.order);
}

#[test]
fn a_few_cycles_outside_of_loops_are_not_worth_it() {
    let code = [
        "[B------:R-:W-:-:S04] FADD R1, R0, R0",
        "[B------:R-:W-:-:S04] FADD R2, R1, R1",
        "[B------:R-:W-:-:S04] FADD R4, R3, R3",
        "[B------:R-:W-:-:S04] FADD R5, R4, R4",
        "[B------:R-:W-:-:S04] FADD R6, R5, R2",
        "EXIT",
    ];
    assert_eq!(planned(&code, &[], 1).schedule.reordered, 0);
    let mut again = code;
    again[5] = "@P0 BRA 0x0";
    let again = [&again[..], &["EXIT"]].concat();
    assert_eq!(planned(&again, &[], 1).schedule.reordered, 1);
}

#[test]
fn loops_of_several_blocks_are_loops() {
    let body = [
        "[B------:R-:W-:-:S04] FADD R1, R0, R0",
        "[B------:R-:W-:-:S04] FADD R2, R1, R1",
        "[B------:R-:W-:-:S04] FADD R4, R3, R3",
        "[B------:R-:W-:-:S04] FADD R5, R4, R4",
        "[B------:R-:W-:-:S04] FADD R6, R5, R2",
    ];
    let around = [&body[..], &["@P1 BRA 0x70", "@P0 BRA 0x0", "@P2 BRA 0x0", "EXIT"]].concat();
    assert_eq!(planned(&around, &[], 1).schedule.reordered, 1);
    let straight = [&body[..], &["@P1 BRA 0x70", "@P0 BRA 0x80", "@P2 BRA 0x80", "EXIT"]].concat();
    assert_eq!(planned(&straight, &[], 1).schedule.reordered, 0);
}

#[test]
fn an_order_is_hardly_slower_for_any_number_of_warps() {
    let new = planned(&LATE_LOADS, &[], 16);
    let decoded = code(&LATE_LOADS);
    let around = FileInfo { entries: vec![0], indirect: &|_| None, is_relocated: &|_| false };
    let graph = build(&decoded, &around).unwrap();
    let waits = find_kept_waits(&decoded, &old_words(&decoded), &graph.blocks).unwrap();
    with_timing(|timing| {
        let old_controls = assign_words(&decoded, &graph, &waits, timing.hardware);
        let steps = |order: &[usize], controls: &[oriole_isa::Control]| -> Vec<PredictedInst> {
            order.iter().zip(controls).map(|(&number, &control)| PredictedInst::new(&decoded[number], control, timing)).collect()
        };
        let before = steps(&(0..decoded.len()).collect::<Vec<_>>(), &old_controls);
        let after = steps(&new.order, &new.controls);
        for warps in [1, 8, 16] {
            let (before, after) = (predict::run(&before, warps, false, 2), predict::run(&after, warps, false, 2));
            assert!(after.cost as f64 <= before.cost as f64 * 1.005, "{warps} warps: {} before, {} after", before.cost, after.cost);
        }
    });
}

#[test]
fn a_prediction_counts_stalls_waits_units_and_banks() {
    let run = |lines: &[&str], warps: usize, is_loop: bool| {
        let decoded = code(lines);
        with_timing(|timing| {
            let steps: Vec<PredictedInst> = decoded.iter().map(|one| PredictedInst::new(one, one.control, timing)).collect();
            predict::run(&steps, warps, is_loop, 2).issued
        })
    };
    // Four stall cycles after the first instruction, one cycle for the second.
    assert_eq!(run(&["[B------:R-:W-:-:S04] FADD R1, R0, R0", "FADD R2, R1, R1"], 1, false), 5);
    // The instructions of the second warp fit into the stall.
    assert_eq!(run(&["[B------:R-:W-:-:S04] FADD R1, R0, R0", "FADD R2, R1, R1"], 2, false), 6);
    // The usual latency of a load from global memory.
    let load = ["[B------:R-:W0:-:S01] LDG.E R8, desc[UR4][R2.64]", "[B0-----:R-:W-:-:S01] FADD R9, R8, R8"];
    let usual = Model::of(Target::parse("sm_90a").unwrap()).time(oriole_hardware::SchedClass::of(&code(&load)[0])).unwrap().usual;
    assert_eq!(run(&load, 1, false), u64::from(usual) + 1);
    // MUFU occupies its unit for eight cycles.
    assert_eq!(run(&["MUFU.RCP R1, R0", "MUFU.RCP R2, R0"], 1, false), 9);
    // Three even registers are in the same bank, which delays the next reader by two cycles.
    assert_eq!(run(&["FFMA R1, R0, R2, R4", "IADD3 R3, R6, R7, RZ"], 1, false), 4);
    assert_eq!(run(&["FFMA R1, R0, R3, RZ", "IADD3 R3, R6, R7, RZ"], 1, false), 2);
    // In a loop, the wait is for the load of the previous iteration.
    let round = ["[B0-----:R-:W-:-:S01] FADD R9, R8, R8", "[B------:R-:W0:-:S01] LDG.E R8, desc[UR4][R2.64]"];
    assert!(run(&round, 1, true) > u64::from(usual));
    assert_eq!(run(&round, 1, false), 2);
}
