use super::*;
use crate::backend::{AllocationStage, Budget, Knobs, ScheduleMode, Settings, estimate};
use crate::calls::{CallCosts, CallNode};
use crate::check;
use crate::code::{SchedCode, from_machine};
use crate::graph::GraphBuilder;
use crate::pressure::BlockLiveness;
use crate::resource::ResourceCosts;
use oriole_hardware::{Model, Profile};
use oriole_isa::{RegFile, Target, parse};

fn target() -> Target {
    Target::parse("sm_90a").unwrap()
}

fn code(lines: &[impl AsRef<str>]) -> SchedCode {
    from_machine::code(&lines.iter().map(|line| parse(line.as_ref()).unwrap()).collect::<Vec<_>>())
}

fn settings(mode: ScheduleMode, stage: AllocationStage, budget: Budget) -> Settings {
    Settings { mode, stage, budget, knobs: Knobs::default(), warps_in_step: 1, trace: true }
}

/// Schedules the items up to the first scheduling barrier and checks the invariants of every schedule. Also returns the maximum number of
/// live general registers.
fn schedule_and_check_with(code: &SchedCode, settings: &Settings, live: (&[u16], &[u16]), solutions: &mut OrderCache) -> (Schedule, i32) {
    let region = code.regions(0..code.items.len(), usize::MAX)[0].clone();
    let graph = GraphBuilder::new(Model::of(target()), code.registers()).build(code, region.clone());
    let costs = ResourceCosts::new(&Profile::of(target()));
    let numbers = |list: &[u16]| list.iter().filter_map(|&number| from_machine::register(RegFile::General, number)).collect::<Vec<u32>>();
    let (live_in, live_out) = (numbers(live.0), numbers(live.1));
    let mut tracker = PressureTracker::new(code.groups().len());
    tracker.enter_block(code, 0..code.items.len(), BlockLiveness { live_in: &live_in, live_out: &live_out });
    let schedule = schedule(&Region { code, graph: &graph, costs: &costs, settings, carried: &[] }, &mut tracker, solutions);
    assert_eq!(check::check(code, region.clone(), &schedule.order), Ok(()));
    assert_eq!(schedule.length, estimate(code, &graph, &costs, schedule.order.iter().copied()));
    let picked: Vec<usize> = schedule.picks.iter().map(|pick| pick.picked).collect();
    assert_eq!(picked, schedule.order);
    let untraced = Settings { trace: false, ..*settings };
    let mut tracker_again = PressureTracker::new(code.groups().len());
    tracker_again.enter_block(code, 0..code.items.len(), BlockLiveness { live_in: &live_in, live_out: &live_out });
    let region = Region { code, graph: &graph, costs: &costs, settings: &untraced, carried: &[] };
    let untraced = super::schedule(&region, &mut tracker_again, &mut OrderCache::default());
    assert_eq!((&untraced.order, untraced.picks.len()), (&schedule.order, 0), "a trace changes nothing, and is not made unasked");
    assert!(schedule.picks.iter().all(|pick| pick.runner_up != Some(pick.picked)));
    (schedule, tracker.peak()[0])
}

fn schedule_and_check(code: &SchedCode, settings: &Settings, live: (&[u16], &[u16])) -> (Schedule, i32) {
    schedule_and_check_with(code, settings, live, &mut OrderCache::default())
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
    for stage in [AllocationStage::Pre, AllocationStage::Post] {
        let (schedule, _) = schedule_and_check(&code, &settings(ScheduleMode::Ilp, stage, Budget::UNLIMITED), (&[2, 3, 4, 5], &[12, 22]));
        let mut first = schedule.order[..2].to_vec();
        first.sort_unstable();
        assert_eq!(first, [0, 3]);
        assert!(schedule.picks.iter().all(|pick| pick.runner_up.is_some() || pick.reason == Reason::OnlyOne));
    }
}

/// Independent additions whose results are consumed in pairs: with a small budget, each pair must be consumed before the next is computed.
#[test]
fn few_registers_make_consumers_follow_producers() {
    let mut lines: Vec<String> = (0..16).map(|at| format!("FADD R{}, R0, {at}", 20 + at)).collect();
    lines.extend((0..8).map(|at| format!("FADD R{}, R{}, R{}", 50 + at, 20 + 2 * at, 21 + 2 * at)));
    lines.extend((0..8).map(|at| format!("STS [R1+{:#x}], R{}", 4 * at, 50 + at)));
    let code = code(&lines);
    let with = |mode: ScheduleMode, registers: i32| {
        let budget = Budget::new(mode, [registers, 6, 6, 60], 0, &Knobs::default());
        schedule_and_check(&code, &settings(mode, AllocationStage::Pre, budget), (&[0, 1], &[])).1
    };
    let (many, few) = (with(ScheduleMode::Ilp, 200), with(ScheduleMode::ReduceReg, 12));
    assert!(few <= 6 && many > few, "{few} and {many} live registers");
    assert!(with(ScheduleMode::Ilp, 10) <= 10);
}

#[test]
fn batches_keep_products_together() {
    let mut lines = Vec::new();
    for at in 0..4 {
        let base = 20 + 16 * at;
        lines.push(format!("HMMA.16816.F32 R{}, R{}, R{}, RZ", base, base + 8, base + 12));
        lines.push(format!("FADD R{}, R{}, R{}", 150 + at, 160 + at, 170 + at));
        lines.push(format!("FADD R{}, R{}, R{}", 180 + at, 150 + at, 170 + at));
    }
    let code = code(&lines);
    let (schedule, _) = schedule_and_check(&code, &settings(ScheduleMode::DynBatch, AllocationStage::Post, Budget::UNLIMITED), (&[], &[]));
    let products: Vec<usize> = (0..12).filter(|&place| schedule.order[place] % 3 == 0).collect();
    assert_eq!(products[3] - products[0], 3, "{:?}", schedule.order);
    assert!(schedule.picks.iter().any(|pick| pick.reason == Reason::Batch));
}

#[test]
fn trace_records_reasons() {
    let code = code(&["FADD R0, R1, R2", "LDG.E R10, desc[UR4][R2.64]", "FADD R3, R10, R0"]);
    let (schedule, _) =
        schedule_and_check(&code, &settings(ScheduleMode::Ilp, AllocationStage::Post, Budget::UNLIMITED), (&[1, 2, 3], &[3]));
    let told: Vec<(usize, Option<usize>, Reason)> = schedule.picks.iter().map(|pick| (pick.picked, pick.runner_up, pick.reason)).collect();
    assert_eq!(told, [(1, Some(0), Reason::Priority), (0, None, Reason::OnlyOne), (2, None, Reason::OnlyOne)]);
}

/// The branch waits thirteen cycles for its predicate, so the comparison must not be scheduled last.
#[test]
fn operands_of_the_branch_are_computed_early() {
    let mut lines: Vec<String> = Vec::new();
    for _ in 0..6 {
        lines.extend((0..4).map(|chain| format!("LOP3.LUT R{}, R{}, R9, RZ, 0x3c, !PT", 10 + chain, 10 + chain)));
    }
    lines.push("IADD3 R3, R3, 0x1, RZ".to_owned());
    lines.push("ISETP.LT.U32.AND P0, PT, R3, R8, PT".to_owned());
    lines.push("@P0 BRA 0x100".to_owned());
    let code = code(&lines);
    let (schedule, _) = schedule_and_check(&code, &settings(ScheduleMode::Ilp, AllocationStage::Post, Budget::UNLIMITED), (&[], &[]));
    let place = schedule.order.iter().position(|&position| position == 25).unwrap();
    assert!(place <= 26 - 7, "{:?}", schedule.order);
}

/// Multiply-adds that read either `R2` or `R4` in the first slot: those with the same register must be adjacent, to hit the reuse cache.
#[test]
fn reuse_cache_operands_are_preferred() {
    let mut lines = Vec::new();
    for at in 0..8 {
        lines.push(format!("FFMA R{}, R{}, R{}, R{}", 20 + at, 2 + 2 * (at % 2), 60 + 2 * at, 80 + 2 * at));
    }
    let code = code(&lines);
    let (schedule, _) = schedule_and_check(&code, &settings(ScheduleMode::Ilp, AllocationStage::Post, Budget::UNLIMITED), (&[], &[]));
    let changes = schedule.order.windows(2).filter(|pair| pair[0] % 2 != pair[1] % 2).count();
    assert!(changes <= 2, "{:?}", schedule.order);
}

/// The cycles of a call are subtracted from the latency of results that are read after the call.
#[test]
fn calls_hide_the_latency_of_in_flight_results() {
    let mut code = code(&["LDG.E R10, desc[UR4][R2.64]", "LDG.E R11, desc[UR4][R2.64+0x4]", "CALL.REL.NOINC 0x0"]);
    let costs = ResourceCosts::new(&Profile::of(target()));
    let settings = settings(ScheduleMode::Ilp, AllocationStage::Post, Budget::UNLIMITED);
    let graph = GraphBuilder::new(Model::of(target()), code.registers()).build(&code, 0..2);
    let tracker = PressureTracker::new(code.groups().len());
    let tails = |code: &SchedCode| SearchProblem::new(code, &graph, &costs, &settings, &tracker).tails;
    let without = tails(&code);
    assert!(without[0] > 100);
    code.calls.push((2, 100));
    assert_eq!(tails(&code), [without[0] - 100, without[1] - 100]);
    code.calls[0].1 = 100_000;
    assert_eq!(tails(&code), [0, 0]);
}

#[test]
fn call_costs_handle_recursion() {
    let callee = |name: &str, own_cycles: u32, calls: &[&str]| CallNode {
        name: name.to_owned(),
        own_cycles,
        calls: calls.iter().map(|&call| call.to_owned()).collect(),
    };
    let functions = [
        callee("kernel", 10, &["outer", "leaf", "elsewhere"]),
        callee("outer", 100, &["leaf", "leaf"]),
        callee("leaf", 7, &[]),
        callee("even", 3, &["odd"]),
        callee("odd", 5, &["even", "leaf"]),
        callee("self", 9, &["self"]),
    ];
    let costs = CallCosts::propagate(&functions);
    let found = ["leaf", "outer", "kernel", "even", "self", "elsewhere"].map(|name| costs.cycles(name));
    assert_eq!(found, [Some(7), Some(114), Some(131), Some(15), Some(9), None]);
}

/// The same code on other registers of the same banks has the same signature; on registers of other banks it has another one.
#[test]
fn identical_regions_are_searched_once() {
    let lines = |base: usize| -> Vec<String> {
        vec![
            format!("LDG.E R{}, desc[UR4][R2.64]", base),
            format!("FFMA R{}, R{}, R{}, R{}", base + 1, base, base + 2, base + 4),
            format!("LDG.E R{}, desc[UR4][R2.64+0x8]", base + 6),
            format!("FADD R{}, R{}, R{}", base + 7, base + 6, base + 1),
        ]
    };
    let mut solutions = OrderCache::default();
    let settings = settings(ScheduleMode::Ilp, AllocationStage::Post, Budget::UNLIMITED);
    let (first, _) = schedule_and_check_with(&code(&lines(20)), &settings, (&[], &[]), &mut solutions);
    let (second, _) = schedule_and_check_with(&code(&lines(60)), &settings, (&[], &[]), &mut solutions);
    assert_eq!((solutions.len(), solutions.hits), (1, 1));
    assert_eq!(first.order, second.order);
    assert!(second.picks.iter().all(|pick| pick.reason == Reason::Remembered));
    schedule_and_check_with(&code(&lines(61)), &settings, (&[], &[]), &mut solutions);
    assert_eq!((solutions.len(), solutions.hits), (2, 1));
}

/// Everything that the search reads is part of the signature: a region that differs in any of it is searched again.
#[test]
fn different_regions_are_searched_separately() {
    let lines = ["LDG.E R20, desc[UR4][R2.64]", "FADD R21, R20, R22", "FADD R23, R21, R24", "STG.E desc[UR4][R2.64], R23"];
    let with = |number: usize, line: &'static str| {
        let mut lines = lines;
        lines[number] = line;
        lines
    };
    let few = Budget { registers: [12, 7, 7, 63], scarce_above: 11 };
    let live: (&[u16], &[u16]) = (&[2, 3, 22, 24], &[23]);
    let base = settings(ScheduleMode::Ilp, AllocationStage::Pre, few);
    let cases = [
        (lines, base, live),
        (lines, settings(ScheduleMode::ReduceReg, AllocationStage::Pre, few), live),
        (lines, settings(ScheduleMode::Ilp, AllocationStage::Post, few), live),
        (lines, settings(ScheduleMode::Ilp, AllocationStage::Pre, Budget { registers: [13, 7, 7, 63], ..few }), live),
        (lines, settings(ScheduleMode::Ilp, AllocationStage::Pre, Budget { scarce_above: 10, ..few }), live),
        // Another result is live-out.
        (lines, base, (live.0, &[21, 23][..])),
        // A source is live-out.
        (lines, base, (live.0, &[22, 23][..])),
        // A register that the region does not access is live throughout.
        (lines, base, (&[2, 3, 22, 24, 30][..], &[23, 30][..])),
        // Another class, with another latency.
        (with(1, "MUFU.RCP R21, R20"), base, live),
        // Another dependence: the second addition reads the loaded value.
        (with(2, "FADD R23, R20, R24"), base, live),
        // The same dependences with swapped sources.
        (with(2, "FADD R23, R24, R21"), base, live),
        // A wider access: the store reads R22 and R23.
        (with(3, "STG.E.64 desc[UR4][R2.64], R22"), base, live),
    ];
    let mut solutions = OrderCache::default();
    for (lines, settings, live) in &cases {
        schedule_and_check_with(&code(lines), settings, *live, &mut solutions);
    }
    assert_eq!((solutions.len(), solutions.hits), (cases.len(), 0));
    for (lines, settings, live) in &cases {
        schedule_and_check_with(&code(lines), settings, *live, &mut solutions);
    }
    assert_eq!((solutions.len(), solutions.hits), (cases.len(), cases.len()));
}

/// The register that an instruction writes is part of the signature, also if nothing in the region reads it.
#[test]
fn regions_that_write_other_registers_are_searched_separately() {
    let lines =
        |written: usize| vec!["FADD R20, R21, R22".to_owned(), format!("FADD R{written}, R23, R24"), "FADD R26, R20, R23".to_owned()];
    let settings = settings(ScheduleMode::Ilp, AllocationStage::Post, Budget::UNLIMITED);
    let mut solutions = OrderCache::default();
    for written in [30, 31, 32] {
        schedule_and_check_with(&code(&lines(written)), &settings, (&[], &[]), &mut solutions);
    }
    // R30 and R32 are in the same bank.
    assert_eq!((solutions.len(), solutions.hits), (2, 1));
}

/// The cache stops growing at its limits.
#[test]
fn the_cache_is_limited() {
    let mut solutions = OrderCache::default();
    solutions.add_order(vec![1], &[0], false, 2);
    solutions.add_order(vec![2], &[0], true, 2);
    solutions.add_order(vec![3], &[0], false, 2);
    assert_eq!(solutions.len(), 2);
    assert_eq!(solutions.find(&[2]), Some((&[0][..], true)));
    assert_eq!(solutions.find(&[3]), None);
    let half = cache::MAX_CACHED_WORDS / 2;
    let mut solutions = OrderCache::default();
    solutions.add_order(vec![1; half], &[], false, 9);
    solutions.add_order(vec![2; half], &[], false, 9);
    assert_eq!(solutions.len(), 2);
    solutions.add_order(vec![3], &[], false, 9);
    assert_eq!(solutions.len(), 2, "the cache is full");
}

/// Instructions from which the tests compose random code.
const INSTRUCTION_POOL: [&str; 28] = [
    "FADD R0, R1, R2",
    "FFMA R1, R0, R3, R2",
    "FFMA R2, R3, R0, R1",
    "@P0 FADD R0, R3, R3",
    "@!P0 MOV R3, R1",
    "ISETP.GT.AND P0, PT, R0, R1, PT",
    "IADD3 R4, R4, 0x8, RZ",
    "IMAD R9, R8, R6, R10",
    "STS [R4], R0",
    "STS [R4+0x4], R1",
    "STS.64 [R4+0x4], R2",
    "LDS R1, [R4]",
    "LDS R2, [R4+0x8]",
    "STS [R5+0x2], R3",
    "LDG.E R0, desc[UR4][R6.64]",
    "STG.E desc[UR4][R6.64], R1",
    "LDG.E.CONSTANT R2, desc[UR4][R6.64]",
    "LD.E R3, desc[UR4][R6.64]",
    "ST.E desc[UR4][R8.64], R2",
    "LDG.E.STRONG.GPU R1, desc[UR4][R6.64]",
    "ATOMS.ADD R2, [R5], R3",
    "MUFU.RCP R8, R9",
    "HMMA.16816.F32 R12, R16, R20, R12",
    "MEMBAR.SC.GPU",
    "BAR.SYNC.DEFER_BLOCKING 0x0",
    "SHFL.IDX PT, R0, R1, R2, R3",
    "CS2R R2, SR_CLOCKLO",
    "LDL R0, [R1]",
];

struct Random(u64);

impl Random {
    fn random_below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound
    }
}

/// The checker accepts every order, in all modes and at both stages, with a large and with a small register budget.
#[test]
fn random_code_keeps_its_meaning() {
    let mut random = Random(11);
    let mut moved = 0;
    for _ in 0..150 {
        let length = 2 + random.random_below(40);
        let lines: Vec<&str> = (0..length).map(|_| INSTRUCTION_POOL[random.random_below(INSTRUCTION_POOL.len())]).collect();
        let code = code(&lines);
        let mut solutions = OrderCache::default();
        for mode in ScheduleMode::ALL {
            for (stage, registers) in [(AllocationStage::Pre, 200), (AllocationStage::Pre, 6), (AllocationStage::Post, 200)] {
                let budget = if stage == AllocationStage::Pre {
                    Budget::new(mode, [registers, 6, 6, 60], 0, &Knobs::default())
                } else {
                    Budget::UNLIMITED
                };
                let live: Vec<u16> = (0..24).collect();
                let settings = settings(mode, stage, budget);
                let (schedule, peak) = schedule_and_check_with(&code, &settings, (&live, &live), &mut solutions);
                assert!(peak >= 24);
                moved += usize::from(!schedule.order.is_sorted());
                // Scheduling again must give the same order, from the cache and without it.
                let again = schedule_and_check_with(&code, &settings, (&live, &live), &mut solutions).0;
                assert_eq!(again.order, schedule.order);
                assert_eq!(schedule_and_check(&code, &settings, (&live, &live)).0.order, schedule.order);
            }
        }
    }
    assert!(moved > 400, "{moved} orders are not those of the source");
}

/// The count of live registers in a problem equals that of the tracker.
#[test]
fn pressure_matches_the_tracker() {
    let mut random = Random(5);
    for _ in 0..100 {
        let lines: Vec<&str> = (0..30).map(|_| INSTRUCTION_POOL[random.random_below(INSTRUCTION_POOL.len())]).collect();
        let code = code(&lines);
        let graph = GraphBuilder::new(Model::of(target()), code.registers()).build(&code, 0..30);
        let costs = ResourceCosts::new(&Profile::of(target()));
        let settings = settings(ScheduleMode::Ilp, AllocationStage::Pre, Budget::UNLIMITED);
        let mut tracker = PressureTracker::new(code.groups().len());
        tracker.enter_block(&code, 0..30, BlockLiveness { live_in: &[0, 1, 2], live_out: &[2, 3, 12] });
        tracker.enter_region(&code, 0..30);
        let problem = SearchProblem::new(&code, &graph, &costs, &settings, &tracker);
        let mut pressure = constraint::LiveRegisters::default();
        pressure.start(&problem);
        for node in 0..30 {
            assert_eq!(pressure.change(&problem, node), tracker.change(&code, &code.items[node as usize]));
            pressure.step(&problem, node);
            tracker.step(&code, &code.items[node as usize]);
            assert_eq!((pressure.live, pressure.peak), (tracker.live(), tracker.peak()));
        }
    }
}
