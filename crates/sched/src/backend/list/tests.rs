use super::*;
use crate::backend::{Budget, Knobs, Stage, estimate};
use crate::check;
use crate::code::{Code, from_machine};
use crate::graph::{Builder, Graph};
use crate::pressure::BlockLiveness;
use crate::resource::Costs;
use oriole_hardware::{Model, Profile};
use oriole_isa::{RegFile, Target, parse};

fn target() -> Target {
    Target::parse("sm_90a").unwrap()
}

fn code(lines: &[&str]) -> Code {
    from_machine::code(&lines.iter().map(|line| parse(line).unwrap()).collect::<Vec<_>>())
}

fn graph(code: &Code) -> Graph {
    Builder::new(Model::of(target()), code.registers()).build(code, 0..code.items.len())
}

fn run(code: &Code, mode: Mode, budget: Budget, live_in: &[u16], live_out: &[u16]) -> (Schedule, i32) {
    run_with(code, mode, budget, live_in, live_out, Knobs::default())
}

fn run_with(code: &Code, mode: Mode, budget: Budget, live_in: &[u16], live_out: &[u16], knobs: Knobs) -> (Schedule, i32) {
    let graph = graph(code);
    let costs = Costs::new(&Profile::of(target()));
    let numbers = |list: &[u16]| list.iter().filter_map(|&number| from_machine::register(RegFile::General, number)).collect::<Vec<u32>>();
    let (live_in, live_out) = (numbers(live_in), numbers(live_out));
    let mut tracker = Tracker::new(code.groups().len());
    tracker.enter_block(code, 0..code.items.len(), BlockLiveness { live_in: &live_in, live_out: &live_out });
    let settings = Settings { mode, stage: Stage::Pre, budget, knobs, trace: true };
    let schedule = schedule(&Region { code, graph: &graph, costs: &costs, settings: &settings }, &mut tracker);
    assert_eq!(check::check(code, 0..code.items.len(), &schedule.order), Ok(()));
    assert_eq!(schedule.length, estimate(code, &graph, &costs, schedule.order.iter().copied()));
    (schedule, tracker.peak()[0])
}

/// Two loads, each followed by a chain of dependent additions: both loads must issue first.
#[test]
fn loads_go_first_and_chains_are_interleaved() {
    let lines = [
        "LDG.E R10, desc[UR4][R2.64]",
        "FADD R11, R10, R10",
        "FADD R12, R11, R11",
        "LDG.E R20, desc[UR4][R4.64]",
        "FADD R21, R20, R20",
        "FADD R22, R21, R21",
    ];
    let code = code(&lines);
    let (schedule, _) = run(&code, Mode::Ilp, Budget::UNLIMITED, &[2, 3, 4, 5], &[12, 22]);
    assert_eq!(schedule.order[..2], [0, 3]);
    let graph = graph(&code);
    let before = estimate(&code, &graph, &Costs::new(&Profile::of(target())), 0..6);
    assert!(schedule.length.issued + 200 < before.issued, "{:?} instead of {before:?}", schedule.length);
}

/// Independent additions whose results are consumed in pairs: with a small budget, each pair must be consumed before the next is computed.
#[test]
fn few_registers_make_consumers_follow_producers() {
    let mut lines: Vec<String> = (0..16).map(|at| format!("FADD R{}, R0, {at}", 20 + at)).collect();
    lines.extend((0..8).map(|at| format!("FADD R{}, R{}, R{}", 50 + at, 20 + 2 * at, 21 + 2 * at)));
    lines.extend((0..8).map(|at| format!("STS [R1+{:#x}], R{}", 4 * at, 50 + at)));
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let code = code(&lines);
    let (_, many) = run(&code, Mode::Ilp, Budget::UNLIMITED, &[0, 1], &[]);
    let budget = Budget::new(Mode::ReduceReg, [12, 6, 6, 60], 0, &Knobs::default());
    let (_, few) = run(&code, Mode::ReduceReg, budget, &[0, 1], &[]);
    assert!(few <= 6 && many > few, "{few} and {many} live registers");
    let budget = Budget::new(Mode::Ilp, [10, 6, 6, 60], 0, &Knobs::default());
    let (_, within) = run(&code, Mode::Ilp, budget, &[0, 1], &[]);
    assert!(within <= 10, "{within} registers");
}

#[test]
fn batches_keep_products_together() {
    let mut lines = Vec::new();
    for at in 0..4 {
        let base = 20 + 16 * at;
        lines.push(format!("HMMA.16816.F32 R{}, R{}, R{}, RZ", base, base + 8, base + 12));
        lines.push(format!("FADD R{}, R{}, R{}", 150 + at, 160 + at, 170 + at));
    }
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let code = code(&lines);
    let batched = |batch: u32| run_with(&code, Mode::DynBatch, Budget::UNLIMITED, &[], &[], Knobs { batch, ..Knobs::default() }).0;
    let schedule = batched(Knobs::default().batch);
    let first = schedule.order.iter().position(|&position| position % 2 == 0).unwrap();
    assert!(schedule.order[first..first + 4].iter().all(|position| position % 2 == 0), "{:?}", schedule.order);
    assert!(schedule.picks.iter().any(|pick| pick.reason == Reason::Batch));
    // A batch of one product has nothing that could continue it.
    assert!(batched(1).picks.iter().all(|pick| pick.reason != Reason::Batch));
}

#[test]
fn trace_records_reasons() {
    let code = code(&["FADD R0, R1, R2", "LDG.E R10, desc[UR4][R2.64]", "FADD R3, R10, R0"]);
    let (schedule, _) = run(&code, Mode::Ilp, Budget::UNLIMITED, &[1, 2, 3], &[3]);
    let told: Vec<(usize, Option<usize>, Reason)> = schedule.picks.iter().map(|pick| (pick.picked, pick.runner_up, pick.reason)).collect();
    assert_eq!(told, [(1, Some(0), Reason::HotCounts), (0, None, Reason::OnlyOne), (2, None, Reason::OnlyOne)]);
}

/// The budget arithmetic of the description: minus one eighth of the target and three; the scarcity threshold is one sixteenth below.
#[test]
fn budgets_tighten_as_described() {
    let budget = Budget::new(Mode::ReduceReg, [64, 7, 7, 63], 8, &Knobs::default());
    assert_eq!((budget.registers[0], budget.scarce_above), (64 - 8 - 11, 45 - 2));
    assert_eq!(Budget::new(Mode::ReduceReg, [64, 7, 7, 63], 0, &Knobs { tighten_by: Some(5), ..Knobs::default() }).registers[0], 59);
    assert_eq!(Budget::new(Mode::Ilp, [64, 7, 7, 63], 0, &Knobs::default()).registers[0], 64);
}

#[test]
fn modes_have_names_and_codes() {
    assert!(Mode::ALL.into_iter().all(|mode| Mode::parse(mode.name()) == Some(mode)));
    assert_eq!(Mode::ALL.map(Mode::code), [0x39, 0x49, 0x41]);
}
