use super::*;
use crate::backend::{AllocationStage, Budget, Knobs, estimate};
use crate::check;
use crate::code::{SchedCode, from_machine};
use crate::graph::{Graph, GraphBuilder};
use crate::pressure::BlockLiveness;
use crate::resource::ResourceCosts;
use oriole_hardware::{Model, Profile};
use oriole_isa::{RegFile, Target, parse};

fn target() -> Target {
    Target::parse("sm_90a").unwrap()
}

fn code(lines: &[&str]) -> SchedCode {
    from_machine::code(&lines.iter().map(|line| parse(line).unwrap()).collect::<Vec<_>>())
}

fn graph(code: &SchedCode) -> Graph {
    GraphBuilder::new(Model::of(target()), code.registers()).build(code, 0..code.items.len())
}

fn schedule_and_check(code: &SchedCode, mode: ScheduleMode, budget: Budget, live_in: &[u16], live_out: &[u16]) -> (Schedule, i32) {
    schedule_and_check_with(code, mode, budget, live_in, live_out, Knobs::default())
}

fn schedule_and_check_with(
    code: &SchedCode,
    mode: ScheduleMode,
    budget: Budget,
    live_in: &[u16],
    live_out: &[u16],
    knobs: Knobs,
) -> (Schedule, i32) {
    let graph = graph(code);
    let costs = ResourceCosts::new(&Profile::of(target()));
    let numbers = |list: &[u16]| list.iter().filter_map(|&number| from_machine::register(RegFile::General, number)).collect::<Vec<u32>>();
    let (live_in, live_out) = (numbers(live_in), numbers(live_out));
    let scheduled = |trace| {
        let mut tracker = PressureTracker::new(code.groups().len());
        tracker.enter_block(code, 0..code.items.len(), BlockLiveness { live_in: &live_in, live_out: &live_out });
        let settings = Settings { mode, stage: AllocationStage::Pre, budget, knobs, warps_in_step: 1, trace };
        (schedule(&Region { code, graph: &graph, costs: &costs, settings: &settings, carried: &[] }, &mut tracker), tracker)
    };
    let (schedule, tracker) = scheduled(true);
    let (untraced, _) = scheduled(false);
    assert_eq!((&untraced.order, untraced.picks.len()), (&schedule.order, 0), "a trace changes nothing, and is not made unasked");
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
    let (schedule, _) = schedule_and_check(&code, ScheduleMode::Ilp, Budget::UNLIMITED, &[2, 3, 4, 5], &[12, 22]);
    assert_eq!(schedule.order[..2], [0, 3]);
    let graph = graph(&code);
    let before = estimate(&code, &graph, &ResourceCosts::new(&Profile::of(target())), 0..6);
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
    let (_, many) = schedule_and_check(&code, ScheduleMode::Ilp, Budget::UNLIMITED, &[0, 1], &[]);
    let budget = Budget::new(ScheduleMode::ReduceReg, [12, 6, 6, 60], 0, &Knobs::default());
    let (_, few) = schedule_and_check(&code, ScheduleMode::ReduceReg, budget, &[0, 1], &[]);
    assert!(few <= 6 && many > few, "{few} and {many} live registers");
    let budget = Budget::new(ScheduleMode::Ilp, [10, 6, 6, 60], 0, &Knobs::default());
    let (_, within) = schedule_and_check(&code, ScheduleMode::Ilp, budget, &[0, 1], &[]);
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
    let batched = |batch: u32| {
        schedule_and_check_with(&code, ScheduleMode::DynBatch, Budget::UNLIMITED, &[], &[], Knobs { batch, ..Knobs::default() }).0
    };
    let schedule = batched(Knobs::default().batch);
    let first = schedule.order.iter().position(|&position| position % 2 == 0).unwrap();
    assert!(schedule.order[first..first + 4].iter().all(|position| position % 2 == 0), "{:?}", schedule.order);
    assert!(schedule.picks.iter().any(|pick| pick.reason == Reason::Batch));
    // In batches of one matrix product, no product continues a batch.
    assert!(batched(1).picks.iter().all(|pick| pick.reason != Reason::Batch));
}

#[test]
fn trace_records_reasons() {
    let code = code(&["FADD R0, R1, R2", "LDG.E R10, desc[UR4][R2.64]", "FADD R3, R10, R0"]);
    let (schedule, _) = schedule_and_check(&code, ScheduleMode::Ilp, Budget::UNLIMITED, &[1, 2, 3], &[3]);
    let told: Vec<(usize, Option<usize>, Reason)> = schedule.picks.iter().map(|pick| (pick.picked, pick.runner_up, pick.reason)).collect();
    assert_eq!(told, [(1, Some(0), Reason::HotCounts), (0, None, Reason::OnlyOne), (2, None, Reason::OnlyOne)]);
}

/// Tests the budget arithmetic of the published description of ptxas: `reduce-reg` lowers the target by one eighth of it plus three
/// registers; the scarcity threshold is one sixteenth below the budget.
#[test]
fn budgets_tighten_as_described() {
    let budget = Budget::new(ScheduleMode::ReduceReg, [64, 7, 7, 63], 8, &Knobs::default());
    assert_eq!((budget.registers[0], budget.scarce_above), (64 - 8 - 11, 45 - 2));
    assert_eq!(
        Budget::new(ScheduleMode::ReduceReg, [64, 7, 7, 63], 0, &Knobs { tighten_by: Some(5), ..Knobs::default() }).registers[0],
        59
    );
    assert_eq!(Budget::new(ScheduleMode::Ilp, [64, 7, 7, 63], 0, &Knobs::default()).registers[0], 64);
}

#[test]
fn modes_have_names_and_codes() {
    assert!(ScheduleMode::ALL.into_iter().all(|mode| ScheduleMode::parse(mode.name()) == Some(mode)));
    assert_eq!(ScheduleMode::ALL.map(ScheduleMode::code), [0x39, 0x49, 0x41]);
}

fn candidate(node: u32) -> RankedCandidate {
    RankedCandidate {
        node,
        priority_bits: 0,
        exceeds_budget: false,
        pressure_change: [0; 4],
        memory_latency: priority::MemoryLatency::None,
        hot_cold_active: true,
        is_yield: false,
        yield_flag: false,
        accesses_shared_memory: false,
        continues_batch: false,
        stall_free: true,
        scoreboard_sequence: priority::NO_SCOREBOARD_SEQUENCE,
        operand_wait_cycles: 0,
        contention_penalty: 0,
        stall_cycles: 0,
        earliest: 0,
        height: 0,
        deadline: 0,
    }
}

fn context(mode: ScheduleMode) -> StepContext {
    StepContext { mode, registers_are_scarce: false, draining_readers: false, enough_readers_ready: false, uses_yield_criterion: true }
}

/// Tests the bits of the table in the header of `priority`, one condition at a time.
#[test]
fn each_bit_of_the_priority_has_its_condition() {
    let byte = |candidate: RankedCandidate, context: StepContext, preferred: Option<u32>| {
        let mut candidate = candidate;
        candidate.compute_priority_bits(&context, &StepStatistics { candidate_to_wait_for: preferred, ..StepStatistics::default() });
        assert_eq!(candidate.has_hot_counts_bit(), candidate.priority_bits & 0b0001_0000 != 0);
        candidate.priority_bits
    };
    let plain = || context(ScheduleMode::Ilp);
    let hot = RankedCandidate { memory_latency: priority::MemoryLatency::Long, ..candidate(1) };
    let reader = RankedCandidate { scoreboard_sequence: 3, ..candidate(1) };
    assert_eq!(byte(candidate(1), plain(), None), 0b0000_1100);
    assert_eq!(byte(RankedCandidate { stall_free: false, ..candidate(1) }, plain(), None), 0b0000_1000);
    assert_eq!(byte(RankedCandidate { stall_free: false, ..candidate(1) }, plain(), Some(1)), 0b0000_1100);
    assert_eq!(byte(RankedCandidate { stall_free: false, ..candidate(1) }, plain(), Some(2)), 0b0000_1000);
    assert_eq!(byte(RankedCandidate { is_yield: true, ..candidate(1) }, plain(), None), 0b1000_1100);
    assert_eq!(byte(RankedCandidate { yield_flag: true, ..candidate(1) }, plain(), None), 0b0100_1100);
    assert_eq!(byte(hot, plain(), None), 0b0011_1100);
    assert_eq!(byte(RankedCandidate { yield_flag: true, ..hot }, plain(), None), 0b0011_1100);
    assert_eq!(byte(RankedCandidate { hot_cold_active: false, ..hot }, plain(), None), 0b0010_1100);
    assert_eq!(byte(RankedCandidate { exceeds_budget: true, ..hot }, plain(), None), 0b0010_1100);
    assert_eq!(byte(RankedCandidate { memory_latency: priority::MemoryLatency::Short, ..candidate(1) }, plain(), None), 0b0000_1100);
    assert_eq!(byte(reader, plain(), None), 0b0000_1101);
    assert_eq!(byte(candidate(1), StepContext { enough_readers_ready: true, ..plain() }, None), 0b0000_1110);
    // While readers are drained, bit 1 belongs to stall-free readers that take no register.
    let draining = || StepContext { draining_readers: true, enough_readers_ready: true, ..plain() };
    assert_eq!(byte(candidate(1), draining(), None), 0b0000_1100);
    assert_eq!(byte(reader, draining(), None), 0b0000_1111);
    assert_eq!(byte(RankedCandidate { pressure_change: [-1, 0, 0, 0], ..reader }, draining(), None), 0b0000_1111);
    assert_eq!(byte(RankedCandidate { pressure_change: [1, 0, 0, 0], ..reader }, draining(), None), 0b0000_1101);
    assert_eq!(byte(RankedCandidate { stall_free: false, ..reader }, draining(), None), 0b0000_1001);
}

#[test]
fn figures_over_all_candidates() {
    let reader = |node, wait| RankedCandidate { scoreboard_sequence: 1, operand_wait_cycles: wait, stall_free: false, ..candidate(node) };
    let candidates = [
        RankedCandidate { pressure_change: [2, 0, 0, 0], height: 7, earliest: 30, ..reader(0, 20) },
        RankedCandidate { pressure_change: [-3, 0, 0, 0], height: 4, earliest: 20, accesses_shared_memory: true, ..reader(1, 11) },
        RankedCandidate { pressure_change: [4, 0, 0, 0], earliest: 20, height: 5, ..reader(2, 20) },
        RankedCandidate { pressure_change: [1, 5, 0, 0], earliest: 40, accesses_shared_memory: true, ..reader(3, 21) },
    ];
    let budget = |general| Budget { registers: [general, 7, 7, 63], scarce_above: 0 };
    let found = StepStatistics::of_candidates(&candidates, &budget(6), 8);
    assert_eq!(found.shared_memory, 2);
    // The first operands arrive in 11 cycles; 20 is 9 later, 21 is too late.
    assert_eq!((found.in_flight_readers, found.shortest_wait, found.within_cutoff), (4, 11, 3));
    // Candidates 0 and 2 take six registers: as many as the budget has.
    assert_eq!((found.registers_taken_soon, found.min_readers_for_bit_1), (6, 8));
    assert_eq!(StepStatistics::of_candidates(&candidates, &budget(5), 8).min_readers_for_bit_1, 4);
    // None can issue: candidates 1 and 2 are first, and 2 has the longer critical path.
    assert_eq!((found.any_stall_free, found.candidate_to_wait_for), (false, Some(2)));
    let ready = [candidates[0], RankedCandidate { stall_free: true, ..candidates[1] }];
    let found = StepStatistics::of_candidates(&ready, &budget(5), 8);
    assert_eq!((found.any_stall_free, found.candidate_to_wait_for), (true, None));
    let none = StepStatistics::of_candidates(&[candidate(0)], &budget(5), 8);
    assert_eq!((none.in_flight_readers, none.within_cutoff, none.shortest_wait), (0, 0, u32::MAX));
}

/// Only the first 32 readers are compared with the cutoff.
#[test]
fn the_table_of_readers_is_limited() {
    let reader = |node| RankedCandidate { scoreboard_sequence: 1, ..candidate(node) };
    let candidates: Vec<RankedCandidate> = (0..40).map(reader).collect();
    let found = StepStatistics::of_candidates(&candidates, &Budget::UNLIMITED, 8);
    assert_eq!((found.in_flight_readers, found.within_cutoff), (40, 32));
}

/// Two candidates that differ in one criterion only are decided by that criterion, whichever of the two is the first argument.
#[test]
fn each_criterion_decides_alone() {
    let worse = candidate(1);
    let reader = |sequence| RankedCandidate { scoreboard_sequence: sequence, ..candidate(1) };
    let bits = |priority_bits| RankedCandidate { priority_bits, ..candidate(1) };
    let ilp = context(ScheduleMode::Ilp);
    let over = |taken| RankedCandidate { exceeds_budget: true, pressure_change: [taken, 0, 0, 0], ..candidate(1) };
    let taking = |taken| RankedCandidate { pressure_change: [taken, 0, 0, 0], ..candidate(1) };
    let late = |earliest| RankedCandidate { earliest, stall_free: false, ..candidate(1) };
    let cases = [
        (worse, RankedCandidate { exceeds_budget: true, ..worse }, ilp, Reason::PressureOverflow),
        (over(1), over(2), ilp, Reason::PressureOverflow),
        (RankedCandidate { continues_batch: true, ..worse }, worse, context(ScheduleMode::DynBatch), Reason::Batch),
        (taking(1), taking(2), context(ScheduleMode::ReduceReg), Reason::Registers),
        (taking(1), taking(2), StepContext { registers_are_scarce: true, ..ilp }, Reason::Registers),
        (bits(1 << 4), worse, ilp, Reason::HotCounts),
        (bits(1 << 6), bits(1 << 1 | 1 << 2 | 1 << 5), ilp, Reason::YieldFlag),
        (bits(1 << 1), bits(1 << 2 | 1 << 5), ilp, Reason::Critical),
        (bits(1 << 2), bits(1 << 5), ilp, Reason::StallFree),
        (bits(1 << 5), worse, ilp, Reason::Hot),
        (reader(3), reader(4), ilp, Reason::BarrierGroup),
        (worse, RankedCandidate { operand_wait_cycles: 1, ..worse }, ilp, Reason::LatencyCounter),
        (bits(1 << 7), worse, ilp, Reason::YieldRelated),
        (worse, RankedCandidate { contention_penalty: 1, ..worse }, ilp, Reason::Contention),
        (worse, RankedCandidate { stall_cycles: 1, ..worse }, ilp, Reason::Cost),
        (late(4), late(5), ilp, Reason::EarliestCycle),
        (RankedCandidate { height: 2, ..worse }, RankedCandidate { height: 1, ..worse }, ilp, Reason::DependencyCycle),
        (worse, RankedCandidate { deadline: 1, ..worse }, ilp, Reason::Deadline),
        (taking(1), taking(2), ilp, Reason::RegisterDelta),
        (candidate(1), candidate(2), ilp, Reason::Position),
    ];
    for (better, worse, context, reason) in cases {
        assert_eq!(priority::beats(&better, &worse, &context), (true, reason));
        assert_eq!(priority::beats(&worse, &better, &context), (false, reason));
    }
    // Some differences are not compared: batches in other modes; `YIELD` if no candidate accesses shared memory; the sequence number if
    // only one candidate reads an in-flight result; the cycle in which operands that are available became available.
    let position = |first: RankedCandidate, second: RankedCandidate, context: &StepContext| {
        let second = RankedCandidate { node: 2, ..second };
        assert_eq!(priority::beats(&first, &second, context), (true, Reason::Position));
    };
    position(worse, RankedCandidate { continues_batch: true, ..worse }, &ilp);
    position(worse, bits(1 << 7), &StepContext { uses_yield_criterion: false, ..ilp });
    position(worse, reader(3), &ilp);
    position(RankedCandidate { earliest: 5, ..worse }, worse, &ilp);
}
