use super::*;
use crate::backend::{Budget, Knobs, Reason, estimate, lower_bound};
use crate::check;
use crate::code::{SchedCode, from_machine};
use crate::graph::{Graph, GraphBuilder};
use crate::pressure::BlockLiveness;
use oriole_hardware::{Model, Profile};
use oriole_isa::{RegFile, Target, parse};

fn target() -> Target {
    Target::parse("sm_90a").unwrap()
}

fn costs() -> ResourceCosts {
    ResourceCosts::new(&Profile::of(target()))
}

fn code<T: AsRef<str>>(lines: &[T]) -> SchedCode {
    from_machine::code(&lines.iter().map(|line| parse(line.as_ref()).unwrap()).collect::<Vec<_>>())
}

fn graph(code: &SchedCode) -> Graph {
    GraphBuilder::new(Model::of(target()), code.registers()).build(code, 0..code.items.len())
}

fn settings(mode: ScheduleMode, stage: AllocationStage, budget: Budget) -> Settings {
    Settings { mode, stage, budget, knobs: Knobs::default(), warps_in_step: 1, trace: true }
}

fn general(numbers: &[u16]) -> Vec<u32> {
    numbers.iter().filter_map(|&number| from_machine::register(RegFile::General, number)).collect()
}

/// Schedules the code as one region, checks the invariants of every schedule, and returns the schedule and its maximum number of live
/// general registers.
fn schedule_and_check(code: &SchedCode, settings: &Settings, live_in: &[u16], live_out: &[u16]) -> (Schedule, i32) {
    let graph = graph(code);
    let (live_in, live_out) = (general(live_in), general(live_out));
    let scheduled = |settings: &Settings| {
        let mut tracker = PressureTracker::new(code.groups().len());
        tracker.enter_block(code, 0..code.items.len(), BlockLiveness { live_in: &live_in, live_out: &live_out });
        (schedule(&Region { code, graph: &graph, costs: &costs(), settings, carried: &[] }, &mut tracker), tracker)
    };
    let (schedule, tracker) = scheduled(settings);
    let (untraced, _) = scheduled(&Settings { trace: false, ..*settings });
    assert_eq!((&untraced.order, untraced.picks.len()), (&schedule.order, 0), "a trace changes nothing, and is not made unasked");
    assert_eq!(check::check(code, 0..code.items.len(), &schedule.order), Ok(()));
    assert_eq!(schedule.length, estimate(code, &graph, &costs(), schedule.order.iter().copied()));
    assert!(schedule.picks.iter().map(|pick| pick.picked).eq(schedule.order.iter().copied()));
    let lower_bound = lower_bound(code, &graph, &costs());
    assert!(
        lower_bound.issued <= schedule.length.issued && lower_bound.done <= schedule.length.done,
        "{lower_bound:?} {:?}",
        schedule.length
    );
    (schedule, tracker.peak()[0])
}

fn ilp(budget: Budget) -> Settings {
    settings(ScheduleMode::Ilp, AllocationStage::Pre, budget)
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
    let before = estimate(&code, &graph(&code), &costs(), 0..6);
    for stage in [AllocationStage::Pre, AllocationStage::Post] {
        let (schedule, _) = schedule_and_check(&code, &settings(ScheduleMode::Ilp, stage, Budget::UNLIMITED), &[2, 3, 4, 5], &[12, 22]);
        let mut first = schedule.order[..2].to_vec();
        first.sort_unstable();
        assert_eq!(first, [0, 3]);
        assert!(schedule.length.issued + 200 < before.issued, "{:?} instead of {before:?}", schedule.length);
    }
}

/// Returns code of independent additions whose results are consumed in pairs.
fn pairs() -> SchedCode {
    let mut lines: Vec<String> = (0..16).map(|at| format!("FADD R{}, R0, {at}", 20 + at)).collect();
    lines.extend((0..8).map(|at| format!("FADD R{}, R{}, R{}", 50 + at, 20 + 2 * at, 21 + 2 * at)));
    lines.extend((0..8).map(|at| format!("STS [R1+{:#x}], R{}", 4 * at, 50 + at)));
    code(&lines)
}

#[test]
fn few_registers_make_consumers_follow_producers() {
    let code = pairs();
    let (fast, many) = schedule_and_check(&code, &ilp(Budget::UNLIMITED), &[0, 1], &[]);
    let budget = Budget::new(ScheduleMode::ReduceReg, [12, 6, 6, 60], 0, &Knobs::default());
    let (slow, few) = schedule_and_check(&code, &settings(ScheduleMode::ReduceReg, AllocationStage::Pre, budget), &[0, 1], &[]);
    // R0 and R1 stay live. Two operands are live in addition; their sum reuses the register of one of them.
    assert!(few <= 5 && many > few, "{few} and {many} live registers");
    assert!(fast.length.is_shorter_than(slow.length));
    for registers in [6, 8, 10] {
        let (_, within) =
            schedule_and_check(&code, &ilp(Budget::new(ScheduleMode::Ilp, [registers, 6, 6, 60], 0, &Knobs::default())), &[0, 1], &[]);
        assert!(within <= registers, "{within} registers of {registers}");
    }
}

/// After register allocation the number of live registers does not influence the order, whatever its weight.
#[test]
fn pressure_is_ignored_after_allocation() {
    let code = pairs();
    let (free, _) = schedule_and_check(&code, &settings(ScheduleMode::Ilp, AllocationStage::Post, Budget::UNLIMITED), &[0, 1], &[]);
    let heavy = Settings {
        knobs: Knobs { pressure_weight: 50.0, ..Knobs::default() },
        ..settings(ScheduleMode::Ilp, AllocationStage::Post, Budget::UNLIMITED)
    };
    let (weighed, _) = schedule_and_check(&code, &heavy, &[0, 1], &[]);
    assert_eq!(free.length, weighed.length);
    assert!(free.picks.iter().chain(&weighed.picks).all(|pick| pick.reason != Reason::WeightedRegisters));
}

/// With a weight of 0 for parallelism, registers decide; with a weight of 0 for registers, parallelism decides.
#[test]
fn weights_can_be_set() {
    let code = pairs();
    let budget = Budget::new(ScheduleMode::Ilp, [24, 6, 6, 60], 0, &Knobs::default());
    let mode = settings(ScheduleMode::ReduceReg, AllocationStage::Pre, budget);
    let with = |weight: f64| {
        let knobs = Knobs { pressure_weight: weight, ..Knobs::default() };
        schedule_and_check(&code, &Settings { knobs, ..mode }, &[0, 1], &[])
    };
    let ((registers_only, few), (parallelism_only, many)) = (with(1.0), with(0.0));
    assert!(few < many, "{few} and {many} registers");
    assert!(parallelism_only.length.is_shorter_than(registers_only.length));
}

#[test]
fn trace_records_reasons() {
    let code = code(&["FADD R0, R1, R2", "LDG.E R10, desc[UR4][R2.64]", "FADD R3, R10, R0"]);
    let (schedule, _) = schedule_and_check(&code, &ilp(Budget::UNLIMITED), &[1, 2, 3], &[3]);
    assert_eq!(schedule.order, [1, 0, 2]);
    let load = schedule.picks[0];
    assert_eq!(schedule.picks.iter().filter(|pick| pick.reason == Reason::OnlyOne).count(), 2);
    let decided = schedule.picks.iter().find(|pick| pick.reason != Reason::OnlyOne).unwrap();
    assert_eq!((decided.reason, decided.runner_up.is_some()), (Reason::WeightedParallelism, true));
    assert_eq!(load.cycle, 0);
}

/// The latency from a comparison to the branch is longer than that between additions: the comparison must not be scheduled last, although
/// its critical path inside the region is the shortest.
#[test]
fn branch_operands_are_ready_in_time() {
    let mut lines: Vec<String> = (0..24).map(|at| format!("FADD R{}, R{}, R1", 10 + at % 4, 10 + at % 4)).collect();
    lines.push("ISETP.LT.AND P0, PT, R2, R3, PT".to_owned());
    lines.push("@P0 BRA 0x0".to_owned());
    let code = code(&lines);
    let region = 0..25;
    let graph = GraphBuilder::new(Model::of(target()), code.registers()).build(&code, region.clone());
    let mut tracker = PressureTracker::new(code.groups().len());
    tracker.enter_block(&code, 0..26, BlockLiveness { live_in: &[], live_out: &[] });
    let schedule = schedule(
        &Region {
            code: &code,
            graph: &graph,
            costs: &costs(),
            settings: &settings(ScheduleMode::Ilp, AllocationStage::Post, Budget::UNLIMITED),
            carried: &[],
        },
        &mut tracker,
    );
    let comparison = schedule.order.iter().position(|&position| position == 24).unwrap();
    let cycles = |place: usize| schedule.picks[place].cycle;
    assert!(cycles(24) - cycles(comparison) >= graph.tail(24) - 2, "{comparison} of {:?}", schedule.order);
}

/// Forward and backward counting give the same live registers at each position, on code that writes each register once.
#[test]
fn both_directions_count_the_same_registers() {
    let code = pairs();
    let graph = graph(&code);
    let mut tracker = PressureTracker::new(code.groups().len());
    let (live_in, live_out) = (general(&[0, 1, 9]), general(&[9, 57]));
    tracker.enter_block(&code, 0..code.items.len(), BlockLiveness { live_in: &live_in, live_out: &live_out });
    tracker.enter_region(&code, 0..code.items.len());
    let groups = BudgetedGroups::new(&code, &graph, &tracker);
    let (mut forward, mut backward) =
        (LiveRegisterCounter::new(&groups, Direction::Forward), LiveRegisterCounter::new(&groups, Direction::Backward));
    let mut before = Vec::new();
    for node in 0..code.items.len() as u32 {
        before.push(forward.counts());
        let (change, item) = (forward.change(node), &code.items[node as usize]);
        assert_eq!(change, tracker.change(&code, item));
        forward.step(node, &mut |_| {});
        tracker.step(&code, item);
        assert_eq!((forward.counts(), forward.peak()), (tracker.live(), tracker.peak()));
    }
    assert_eq!(forward.counts(), backward.counts());
    for node in (0..code.items.len() as u32).rev() {
        backward.step(node, &mut |_| {});
        assert_eq!(backward.counts(), before[node as usize], "before {node}");
    }
    assert_eq!(backward.peak(), forward.peak());
}

struct Random(u64);

impl Random {
    fn random_below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound
    }

    fn line(&mut self) -> String {
        let [a, b, c] = [0; 3].map(|_| 2 * self.random_below(12));
        let offset = 4 * self.random_below(8);
        match self.random_below(16) {
            0 => format!("LDG.E R{a}, desc[UR4][R{b}.64+{offset:#x}]"),
            1 => format!("STG.E desc[UR4][R{b}.64+{offset:#x}], R{a}"),
            2 => format!("LDS R{a}, [R{b}+{offset:#x}]"),
            3 => format!("STS.64 [R{b}+{offset:#x}], R{a}"),
            4 => format!("ISETP.GT.AND P{}, PT, R{a}, R{b}, PT", self.random_below(4)),
            5 => format!("@P{} FADD R{a}, R{b}, R{c}", self.random_below(4)),
            6 => format!("DADD R{a}, R{b}, R{c}"),
            7 => format!("MUFU.RCP R{a}, R{b}"),
            8 => ["MEMBAR.SC.GPU", "BAR.SYNC.DEFER_BLOCKING 0x0", "CS2R R2, SR_CLOCKLO"][self.random_below(3)].to_owned(),
            9 => format!("SHFL.IDX PT, R{a}, R{b}, R{c}, R1"),
            10 => format!("IADD3 R{a}, R{b}, {offset:#x}, RZ"),
            11 => format!("ATOMS.ADD R{a}, [R{b}], R{c}"),
            _ => format!("FFMA R{a}, R{b}, R{c}, R{a}"),
        }
    }
}

/// [`schedule_and_check`] checks the meaning of each order, its length and its trace; scheduling twice must give the same order.
#[test]
fn random_code_keeps_its_meaning_in_all_modes() {
    let mut random = Random(11);
    let mut moved = 0;
    for _ in 0..150 {
        let length = 1 + random.random_below(60);
        let lines: Vec<String> = (0..length).map(|_| random.line()).collect();
        let code = code(&lines);
        for mode in ScheduleMode::ALL {
            let registers = 4 + random.random_below(30) as i32;
            let narrow = Budget::new(mode, [registers, 2, 2, 8], 0, &Knobs::default());
            for (stage, budget) in
                [(AllocationStage::Pre, narrow), (AllocationStage::Pre, Budget::UNLIMITED), (AllocationStage::Post, Budget::UNLIMITED)]
            {
                let settings = settings(mode, stage, budget);
                let (schedule, _) = schedule_and_check(&code, &settings, &[0, 2, 4, 6], &[2, 8]);
                let (again, _) = schedule_and_check(&code, &settings, &[0, 2, 4, 6], &[2, 8]);
                assert_eq!(schedule.order, again.order);
                moved += usize::from(!schedule.order.iter().copied().eq(0..length));
            }
        }
    }
    assert!(moved > 1000, "{moved} new orders");
}

/// Schedules two consecutive regions of a block: after each, the tracker has the same live registers as in the original order.
#[test]
fn tracker_is_at_the_region_end_after_scheduling() {
    let mut random = Random(5);
    for _ in 0..40 {
        let lines: Vec<String> = (0..40).map(|_| random.line()).collect();
        let code = code(&lines);
        let (live_in, live_out) = (general(&[0, 2, 4]), general(&[2, 8]));
        let liveness = BlockLiveness { live_in: &live_in, live_out: &live_out };
        let mut builder = GraphBuilder::new(Model::of(target()), code.registers());
        let (mut old, mut new) = (PressureTracker::new(code.groups().len()), PressureTracker::new(code.groups().len()));
        old.enter_block(&code, 0..40, liveness);
        new.enter_block(&code, 0..40, liveness);
        for region in [0..15, 15..40] {
            let graph = builder.build(&code, region.clone());
            old.enter_region(&code, region.clone());
            code.items[region].iter().for_each(|item| old.step(&code, item));
            let settings = ilp(Budget::new(ScheduleMode::Ilp, [12, 6, 6, 8], 0, &Knobs::default()));
            schedule(&Region { code: &code, graph: &graph, costs: &costs(), settings: &settings, carried: &[] }, &mut new);
            assert_eq!(old.live(), new.live());
        }
    }
}

/// Appends all permutations of the code that the checker accepts to `found`, by exhaustive search.
fn collect_legal_orders(code: &SchedCode, chosen: &mut Vec<usize>, found: &mut Vec<Vec<usize>>) {
    if chosen.len() == code.items.len() {
        found.extend(check::check(code, 0..code.items.len(), chosen).is_ok().then(|| chosen.clone()));
        return;
    }
    for position in 0..code.items.len() {
        if !chosen.contains(&position) {
            chosen.push(position);
            collect_legal_orders(code, chosen, found);
            chosen.pop();
        }
    }
}

#[test]
fn no_order_is_shorter_than_the_lower_bound() {
    let regions: [&[&str]; 3] = [
        &["FADD R1, R0, R0", "FADD R2, R1, R1", "FADD R3, R2, R2"],
        &["DADD R10, R2, R4", "DADD R12, R2, R6", "DADD R14, R2, R8", "FADD R1, R0, R0", "MUFU.RCP R16, R0"],
        &[
            "LDG.E R10, desc[UR4][R2.64]",
            "FADD R11, R10, R10",
            "LDG.E R20, desc[UR4][R4.64]",
            "FADD R21, R20, R11",
            "IADD3 R2, R2, 0x4, RZ",
        ],
    ];
    for (number, lines) in regions.into_iter().enumerate() {
        let code = code(lines);
        let (graph, mut orders) = (graph(&code), Vec::new());
        collect_legal_orders(&code, &mut Vec::new(), &mut orders);
        let lengths: Vec<Length> = orders.iter().map(|order| estimate(&code, &graph, &costs(), order.iter().copied())).collect();
        let lower_bound = lower_bound(&code, &graph, &costs());
        assert!(lengths.iter().all(|length| lower_bound.issued <= length.issued && lower_bound.done <= length.done), "region {number}");
        // For a dependency chain, the only legal order has the length of the lower bound.
        assert!(number > 0 || lengths == [lower_bound]);
    }
}

/// Independent instructions on different units issue one per cycle. On one unit, each instruction occupies the unit for its cycles; those
/// of the last one come after its issue and do not count. Without instructions the lower bound is 0.
#[test]
fn the_lower_bound_counts_instructions_and_busy_units() {
    let bound = |lines: &[&str]| {
        let code = code(lines);
        lower_bound(&code, &graph(&code), &costs()).issued
    };
    assert_eq!(bound(&["FADD R1, R0, R0", "IADD3 R2, R0, R0, RZ", "MUFU.RCP R3, R0", "LDS R4, [R0]"]), 4);
    let lines = ["MUFU.RCP R3, R0", "MUFU.RCP R4, R0", "MUFU.RCP R5, R0"];
    let cycles = costs().cycles(code(&lines).items[0].class) as u32;
    assert!(cycles > 1);
    assert_eq!(bound(&lines), 2 * cycles + 1);
    assert_eq!(bound(&[]), 0);
}
