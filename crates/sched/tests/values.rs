//! Scheduling of Ori functions, on values and on physical registers. The checker verifies every new order. The expected orders follow from
//! the rules in `docs/scheduling.md`.

use oriole_hardware::Model;
use oriole_hardware::machine::Machine;
use oriole_hardware::units::Rates;
use oriole_ir::text::print_inst;
use oriole_ir::{Function, verify};
use oriole_isa::Target;
use oriole_sched::backend::{Backend, Knobs, ScheduleMode};
use oriole_sched::function::{Scheduler, Stats};
use oriole_sched::report::trace::AttemptVerdict;
use oriole_sched::resource::ResourceCosts;

fn run(text: &str, mode: ScheduleMode, registers: u32) -> (Vec<String>, Stats) {
    run_by(Backend::A, text, mode, registers)
}

fn run_by(backend: Backend, text: &str, mode: ScheduleMode, registers: u32) -> (Vec<String>, Stats) {
    let mut function: Function = oriole_ir::text::parse(text).unwrap_or_else(|error| panic!("{error:?}")).remove(0);
    let target = Target::parse("sm_90a").expect("a target");
    let scheduler = Scheduler {
        backend,
        knobs: Knobs::default(),
        model: Model::of(target),
        costs: &ResourceCosts::from_rates(Rates::of(target), Machine::of(target)),
        machine: Machine::of(target),
        mode,
        register_limit: registers,
        initial_registers: None,
        hidden_registers: 2,
        uniform_limit: 63,
        calls: None,
        launch: None,
        occupancy_percent: 100,
        lower_occupancy_percents: &[],
        tries_near_source: false,
        verify: true,
        trace: true,
    };
    let on_values = function.is_ssa;
    let stats =
        if on_values { scheduler.schedule_ssa_function(&mut function) } else { scheduler.schedule_allocated_function(&mut function) };
    let stats = stats.unwrap_or_else(|error| panic!("{error}"));
    if on_values {
        verify(&function).unwrap_or_else(|report| panic!("{report}"));
    }
    check_trace(backend, &function, &stats);
    let insts = function.layout.iter().flat_map(|&block| &function.blocks[block].insts);
    (insts.map(|&inst| print_inst(&function, inst).trim().to_owned()).collect(), stats)
}

/// Checks that every decision has a reason that the backend declares, and that the traced decisions match the order of the instructions in
/// the code, wherever the new order was used.
fn check_trace(backend: Backend, function: &Function, stats: &Stats) {
    let known = backend.strategy().reasons();
    for pick in stats.attempts.iter().flat_map(|attempt| &attempt.picks) {
        assert!(known.contains(&pick.reason), "{backend:?} gives the reason {:?} without declaring it", pick.reason);
    }
    for attempt in stats.attempts.iter().filter(|attempt| attempt.verdict == AttemptVerdict::Taken) {
        let insts = &function.blocks[attempt.block].insts;
        for (number, &(start, .., is_better)) in attempt.regions.iter().enumerate() {
            let picks = attempt.picks.iter().filter(|pick| pick.region == number);
            let picked: Vec<_> = picks.clone().map(|pick| pick.picked).collect();
            assert!(picks.clone().zip(picks.skip(1)).all(|(first, second)| first.cycle <= second.cycle));
            let is_there = picked == insts[start..start + picked.len()];
            assert!(is_there || !is_better, "{attempt:?}");
        }
    }
}

fn place(order: &[String], start: &str) -> usize {
    order.iter().position(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{start} is not in {order:#?}"))
}

/// A load may move above a store with the same base and another offset, but not above a store with another base. A load of constant memory
/// may move above both.
#[test]
fn loads_move_across_stores_they_cannot_alias() {
    let text = "func kernel @loads ssa {
bb0:
    %0:UR2 = ULDC.64 c[0x0][0x208]
    %1:R = S2R SR_TID.X
    %2:R2 = IMAD.WIDE %1, 0x4, c[0x0][0x210]
    %3:R2 = IMAD.WIDE %1, 0x4, c[0x0][0x218]
    %4:R = LDG.E desc[%0][%2.64+0x0] !global.4
    %5:R = FADD %4, %4
    STG.E desc[%0][%2.64+0x4], %5 !global.4
    %6:R = LDG.E desc[%0][%2.64+0x8] !global.4
    %7:R = FADD %6, %6
    STG.E desc[%0][%3.64+0x0], %7 !global.4
    %8:R = LDG.E desc[%0][%2.64+0xc] !global.4
    %9:R = LDG.E.CONSTANT desc[%0][%2.64+0x20] !global.4.constant
    %10:R = FADD %8, %9
    STG.E desc[%0][%2.64+0x10], %10 !global.4
    EXIT
}";
    let (order, stats) = run(text, ScheduleMode::Ilp, 255);
    assert!(place(&order, "%6") < place(&order, "%5"), "{order:#?}");
    assert!(place(&order, "%9") < place(&order, "%5"), "{order:#?}");
    assert!(place(&order, "%8") > place(&order, "STG.E desc[%0][%3"), "{order:#?}");
    assert!(stats.cycles_after < stats.cycles_before && stats.blocks == 1);
    assert_eq!(stats.attempts.len(), 1);
}

/// The result shares the register of the old value, so other readers of the old value must come first.
#[test]
fn readers_precede_the_overwrite_of_a_tied_operand() {
    let text = "func kernel @tied ssa {
bb0:
    %0:R = S2R SR_TID.X
    %1:P, PT = ISETP.LT.AND %0, 0x10, PT
    %2:R = FADD %0, %0
    @%1 %3:R = MOV 0x1, (else %0)
    KEEP %2, %3
    EXIT
}";
    let (order, _) = run(text, ScheduleMode::Ilp, 255);
    assert!(place(&order, "%2") < place(&order, "@%1 %3"), "{order:#?}");
}

/// The number of loads in flight must stay within the register budget.
#[test]
fn register_limit_is_kept() {
    let mut text = String::from("func kernel @pressure ssa {\nbb0:\n    %0:R = S2R SR_TID.X\n    %1:UR2 = ULDC.64 c[0x0][0x208]\n");
    text.push_str("    %2:R2 = IMAD.WIDE %0, 0x4, c[0x0][0x210]\n");
    for at in 0..60 {
        let (load, sum) = (3 + 2 * at, 4 + 2 * at);
        text.push_str(&format!("    %{load}:R = LDG.E desc[%1][%2.64+{:#x}] !global.4\n    %{sum}:R = FADD %{load}, %0\n", 8 * at));
        text.push_str(&format!("    STG.E desc[%1][%2.64+{:#x}], %{sum} !global.4\n", 8 * at + 4));
    }
    text.push_str("    EXIT\n}");
    for backend in Backend::ALL {
        let (_, few) = run_by(backend, &text, ScheduleMode::Ilp, 16);
        assert!(few.live_after <= 16, "{backend:?}: {} registers", few.live_after);
    }
    for backend in Backend::BACKENDS_A_B_C {
        let (_, many) = run_by(backend, &text, ScheduleMode::Ilp, 255);
        // With 16 warps per scheduler, 32 registers per thread are free.
        assert!(many.live_after <= 32 && many.live_after > 16, "{} registers", many.live_after);
        let (_, few) = run_by(backend, &text, ScheduleMode::Ilp, 16);
        assert!(few.live_after <= 16 && few.cycles_after < few.cycles_before, "{} registers", few.live_after);
        let (_, fewest) = run_by(backend, &text, ScheduleMode::ReduceReg, 16);
        assert!(fewest.live_after <= few.live_after, "{} and {} registers", fewest.live_after, few.live_after);
    }
}

/// The second load moves to the front, but R3, an operand of the second sum, must not be overwritten before the first sum is stored.
#[test]
fn registers_are_not_overwritten_early() {
    let text = "func kernel @registers {
bb0:
    R2 = LDG.E desc[UR4:UR5][R4:R5.64+0x0] !global.4
    R3 = FADD R2, R2
    STG.E desc[UR4:UR5][R4:R5.64+0x4], R3 !global.4
    R3 = FADD R8, R8
    R6 = LDG.E desc[UR4:UR5][R4:R5.64+0x8] !global.4
    R7 = FADD R6, R3
    STG.E desc[UR4:UR5][R4:R5.64+0xc], R7 !global.4
    EXIT
}";
    let (order, _) = run(text, ScheduleMode::Ilp, 255);
    assert!(place(&order, "R6") < place(&order, "R3 = FADD R2"), "{order:#?}");
    assert!(place(&order, "R3 = FADD R8") > place(&order, "STG.E desc[UR4:UR5][R4:R5.64+0x4]"), "{order:#?}");
}

/// Forty constants are defined first and read one by one later, so forty registers are live in the original order. Each constant can be
/// defined where it is read, so the target is computed for all resident warps: 32 registers, of which two are hidden.
#[test]
fn definitions_far_from_their_readers_do_not_lower_the_occupancy() {
    let mut text = "func kernel @constants ssa {\nbb0:\n    %0:R = S2R SR_TID.X\n".to_owned();
    (1..=40).for_each(|number| text += &format!("    %{number}:R = MOV {number:#x}\n"));
    text += "    %41:R = FADD %0, %1\n";
    (2..=40).for_each(|number| text += &format!("    %{}:R = FADD %{}, %{number}\n", 40 + number, 39 + number));
    text += "    STS [%80+0x0], %0 !shared.4\n    EXIT\n}";
    let (_, stats) = run_by(Backend::B, &text, ScheduleMode::Ilp, 253);
    let target = stats.target.expect("a target");
    assert_eq!((target.max_for_occupancy, target.registers), (32, 30));
    assert!(stats.live_before >= 40 && stats.live_after <= 30, "{} {}", stats.live_before, stats.live_after);
}
