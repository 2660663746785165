//! Tests of the tracker on short paths: divergent threads, long runs, notes.

use oriole_hardware::Model;
use oriole_isa::{Control, Instruction, Target, decode, encode, parse};

use super::{Dependence, HazardFinding, HazardRegister, HazardSeverity, HazardStep, Mask, Problem, Tracker, check_function};

fn target() -> Target {
    Target::parse("sm_90a").unwrap()
}

/// Parses lines of control word, one space, and instruction.
fn instructions(lines: &[&str]) -> Vec<Instruction> {
    let read = |line: &&str| {
        let (control, text) = line.split_once(' ').unwrap();
        let instruction = Instruction { control: Control::parse(control).unwrap(), ..parse(text).unwrap() };
        decode(encode(&instruction, target()).unwrap(), target()).unwrap()
    };
    lines.iter().map(read).collect()
}

fn steps(lines: &[&str]) -> Vec<HazardStep> {
    instructions(lines).iter().map(|instruction| HazardStep::new(instruction, Model::of(target()))).collect()
}

/// Issues steps by index for groups of threads and returns the findings.
fn issue(steps: &[HazardStep], path: impl IntoIterator<Item = (usize, Mask)>) -> Vec<HazardFinding> {
    let mut tracker = Tracker::new(Model::of(target()));
    let mut findings = Vec::new();
    for (number, group) in path {
        tracker.issue_for(steps, number, group, group, &mut |finding| findings.push(finding));
        assert!(tracker.in_flight_count() <= 1024, "{} instructions are recorded", tracker.in_flight_count());
    }
    findings
}

fn too_soon(first: usize, second: usize, cycles: u32) -> HazardFinding {
    let register = HazardRegister(4);
    HazardFinding { first, second, problem: Problem::TooSoon { kind: Dependence::ReadAfterWrite, register, cycles, needed: 4 } }
}

const SUM: [&str; 2] = ["B------:R-:W-:-:S02 IADD3 R4, R4, R0, RZ", "B------:R-:W-:-:S05 IADD3 R5, R4, R0, RZ"];
const LOW: Mask = 0xffff;
const HIGH: Mask = !LOW;

#[test]
fn divergent_groups_do_not_conflict() {
    let steps = steps(&SUM);
    assert_eq!(issue(&steps, [(0, LOW), (1, HIGH)]), []);
    assert_eq!(issue(&steps, [(0, LOW), (1, LOW)]), [too_soon(0, 1, 2)]);
    assert_eq!(issue(&steps, [(0, !0), (1, HIGH)]), [too_soon(0, 1, 2)]);
}

#[test]
fn paused_cycles_do_not_count() {
    let steps = steps(&[SUM[0], SUM[1], "B------:R-:W-:Y:S15 NOP"]);
    assert_eq!(issue(&steps, [(0, LOW), (2, HIGH), (2, HIGH), (1, LOW)]), [too_soon(0, 1, 2)]);
    assert_eq!(issue(&steps, [(0, LOW), (2, HIGH), (2, LOW), (1, LOW)]), []);
    // All threads have instruction 0 in flight; its age counts only the cycles in which the reading threads themselves ran.
    assert_eq!(issue(&steps, [(0, !0), (2, LOW), (1, HIGH), (1, LOW)]), [too_soon(0, 1, 2)]);
}

#[test]
fn false_guards_access_no_register() {
    let steps = steps(&SUM);
    let mut tracker = Tracker::new(Model::of(target()));
    let mut findings = Vec::new();
    tracker.issue_for(&steps, 0, !0, 0, &mut |finding| findings.push(finding));
    tracker.issue_for(&steps, 1, !0, !0, &mut |finding| findings.push(finding));
    assert_eq!(findings, []);
}

#[test]
fn long_runs_need_little_memory_and_forget_nothing() {
    let steps = steps(&[
        "B------:R-:W0:-:S02 LDG.E R6, desc[UR4][R2.64]",
        "B------:R-:W1:-:S02 LDS R8, [R9]",
        "B-1----:R-:W-:-:S05 IADD3 R10, R8, R10, RZ",
        "B------:R-:W-:-:S05 IADD3 R11, R6, R10, RZ",
    ]);
    let work = (0..100_000).flat_map(|_| [(1, !0), (2, !0)]);
    let found = issue(&steps, [(0, !0)].into_iter().chain(work).chain([(3, !0)]));
    let problem = Problem::NotWaited { kind: Dependence::ReadAfterWrite, register: HazardRegister(6), scoreboard: 0 };
    assert_eq!(found, [HazardFinding { first: 0, second: 3, problem }]);
}

#[test]
fn long_alternation_needs_little_memory() {
    let steps = steps(&SUM);
    let found = issue(&steps, (0..20_000).flat_map(|_| [(1, LOW), (1, HIGH)]));
    assert_eq!(found, []);
}

#[test]
fn wait_for_unset_scoreboard_is_a_note() {
    let code = instructions(&["B-----5:R-:W-:-:S05 IADD3 R10, R8, R10, RZ", "B------:R-:W-:-:S05 EXIT"]);
    let found = check_function(&code, &[0], &|_| Vec::new(), Model::of(target()));
    assert_eq!(found, [HazardFinding { first: 0, second: 0, problem: Problem::NeverSet { scoreboard: 5 } }]);
    assert_eq!(found[0].problem.severity(), HazardSeverity::Note);
}

#[test]
fn cached_register_is_valid_until_overwritten() {
    let keep = "B------:R-:W-:-:S01 IADD3 R5, R4.reuse, R0, RZ";
    let read = "B------:R-:W-:-:S05 IADD3 R6, R4, R0, RZ";
    let read_by_another_slot = "B------:R-:W-:-:S05 IADD3 R6, R0, R4, RZ";
    let overwrite = "B------:R-:W-:-:S05 MOV R4, R0";
    let is_stale = |lines: &[&str]| {
        let found = check_function(&instructions(lines), &[0], &|_| Vec::new(), Model::of(target()));
        found.iter().any(|finding| matches!(finding.problem, Problem::StaleReuse { .. }))
    };
    assert!(!is_stale(&[keep, read]));
    assert!(is_stale(&[keep, overwrite, read]));
    assert!(!is_stale(&[keep, read, overwrite, read]), "the second one has replaced it");
    assert!(!is_stale(&[keep, overwrite, read_by_another_slot]));
}

#[test]
fn code_continues_after_convergence_test() {
    let code = instructions(&[SUM[0], "B------:R-:W-:-:S01 BRA.CONV 0x20", SUM[1], "B------:R-:W-:-:S05 EXIT"]);
    assert_eq!(check_function(&code, &[0], &|_| Vec::new(), Model::of(target())), [too_soon(0, 2, 3)]);
}

#[test]
fn banks_and_matrix_units_have_separate_caches() {
    let is_stale = |lines: &[&str]| {
        let lines: Vec<String> = lines.iter().map(|text| format!("B------:R-:W-:-:S08 {text}")).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let found = check_function(&instructions(&lines), &[0], &|_| Vec::new(), Model::of(target()));
        found.iter().any(|finding| matches!(finding.problem, Problem::StaleReuse { .. }))
    };
    let (keep, overwrite, read) = ("IADD3 R8, R4.reuse, R0, RZ", "MOV R4, R0", "IADD3 R9, R4, R0, RZ");
    // Measured on an H200.
    assert!(!is_stale(&[keep, "IADD3 R9, R6, R0, RZ", overwrite, read]), "an even register takes the place of an even one");
    assert!(!is_stale(&[keep, "@P0 IADD3 R9, R6, R0, RZ", overwrite, read]), "whether its guard holds or not");
    assert!(is_stale(&[keep, "IADD3 R9, R5, R0, RZ", overwrite, read]), "an odd one has its own");
    assert!(is_stale(&[keep, "HFMA2.MMA R9, R6, R0, R2", overwrite, read]), "and so has HFMA2.MMA");
    let (keep_half, read_half) = ("HFMA2.MMA R8, R0, R4.reuse, R2", "HFMA2.MMA R9, R0, R4, R2");
    assert!(is_stale(&[keep_half, overwrite, read_half]));
    assert!(is_stale(&[keep_half, "HFMA2 R9, R0, R6, R2", overwrite, read_half]));
    assert!(
        !is_stale(&[keep_half, overwrite, "HFMA2 R9, R0, R4, R2"])
            && !is_stale(&[keep_half, "HFMA2.MMA R9, R0, R6, R2", overwrite, read_half])
    );
    let (keep_pair, read_pair) = ("IMAD.WIDE.U32 R8, R0, 0x4, R4.reuse", "IMAD.WIDE.U32 R10, R0, 0x4, R4");
    assert!(is_stale(&[keep_pair, overwrite, read_pair]) && is_stale(&[keep_pair, "MOV R5, R0", read_pair]), "both of a pair are kept");
}

/// A function of the same section overwrites a register that its caller has in the cache, or the reverse.
#[test]
fn cached_registers_are_followed_through_calls() {
    let stale = |before: &str, body: &str, after: &str| {
        let lines = [before, "CALL.REL.NOINC 0x30", after, "EXIT", body, "RET.REL.NODEC R20 0x0"];
        let lines = lines.map(|text| format!("B------:R-:W-:-:S08 {text}"));
        let code = instructions(&lines.each_ref().map(String::as_str));
        let found = check_function(&code, &[], &|_| Vec::new(), Model::of(target()));
        let stale = found.iter().filter(|finding| matches!(finding.problem, Problem::StaleReuse { .. }));
        stale.map(|finding| (finding.first, finding.second)).collect::<Vec<_>>()
    };
    let (keep, overwrite, read) = ("IADD3 R8, R4.reuse, R0, RZ", "MOV R4, R0", "IADD3 R9, R4, R0, RZ");
    assert_eq!(stale(keep, overwrite, read), [(0, 2)]);
    assert_eq!(stale("NOP", keep, read), [], "the value is still that of the register");
    assert_eq!(stale(keep, "IADD3 R4, R6, R0, RZ", read), [], "the function reads another register through the slot");
    // Two calls: what the first one finds in the cache is not there at the second.
    let lines = [
        "CALL.REL.NOINC 0x70",
        keep,
        "CALL.REL.NOINC 0x50",
        "IADD3 R9, R6, R0, RZ",
        read,
        "EXIT",
        "NOP",
        "NOP",
        overwrite,
        "RET.REL.NODEC R20 0x0",
    ];
    let lines = lines.map(|text| format!("B------:R-:W-:-:S08 {text}"));
    let code = instructions(&lines.each_ref().map(String::as_str));
    let found = check_function(&code, &[], &|_| Vec::new(), Model::of(target()));
    assert!(!found.iter().any(|finding| matches!(finding.problem, Problem::StaleReuse { .. })), "{found:?}");
}

/// Makes a kernel of `calls` calls to one function that follows it; instructions in flight at each call are still in flight in the
/// function.
fn with_calls(calls: usize) -> Vec<Instruction> {
    let site = ["MOV R5, R6", "MOV R20, 0x0", "IADD3 R4, R4, 0x1, RZ"];
    let body =
        ["IMAD R7, R4, R5, R4", "@P0 BRA 0x20", "IADD3 R7, R7, 0x5, RZ", "LOP3.LUT R4, R7, R4, RZ, 0x3c, !PT", "RET.REL.NODEC R20 0x0"];
    let start = calls * (site.len() + 1) + 1;
    let mut lines: Vec<String> = Vec::new();
    for _ in 0..calls {
        lines.extend(site.map(str::to_owned));
        lines.push(format!("CALL.REL.NOINC {:#x}", 16 * (start - lines.len())));
    }
    lines.extend(["EXIT"].into_iter().chain(body).map(str::to_owned));
    let lines: Vec<String> = lines.iter().map(|text| format!("B------:R-:W-:-:S05 {text}")).collect();
    instructions(&lines.iter().map(String::as_str).collect::<Vec<&str>>())
}

#[test]
fn many_calls_of_one_function_are_followed() {
    let calls = 4_000;
    let mut code = with_calls(calls);
    let check = |code: &[Instruction]| check_function(code, &[], &|_| Vec::new(), Model::of(target()));
    let found = check(&code);
    assert!(found.is_empty(), "{:?}", &found[..found.len().min(3)]);
    // Now the function reads, at only one call site, a register too soon after the instruction before the call writes it.
    let early = (calls / 2) * 4 + 2;
    code[early].control.stall = 1;
    code[early + 1].control.stall = 1;
    let found = check(&code);
    let is_early = |finding: &HazardFinding| finding.first == early && matches!(finding.problem, Problem::TooSoon { .. });
    assert!(!found.is_empty() && found.iter().all(is_early), "{:?}", &found[..found.len().min(3)]);
}

/// Returns the reads of results that the code does not wait for, as (writer, reader, scoreboard).
fn not_waited(lines: &[&str]) -> Vec<(usize, usize, u8)> {
    let found = check_function(&instructions(lines), &[0], &|_| Vec::new(), Model::of(target()));
    let not_waited = |finding: HazardFinding| match finding.problem {
        Problem::NotWaited { kind: Dependence::ReadAfterWrite, scoreboard, .. } => Some((finding.first, finding.second, scoreboard)),
        _ => None,
    };
    found.into_iter().filter_map(not_waited).collect()
}

/// `MUFU` results arrive in order, so a wait for a later one covers an earlier one. A wait for the earlier one must not cover the later
/// one, also if the later one is in flight on one of two joined paths only.
#[test]
fn waits_cover_no_later_instruction_of_another_path() {
    let (early, late) = ("B------:R-:W2:-:S02 MUFU.RCP R2, R0", "B------:R-:W1:-:S02 MUFU.SQRT R6, R0");
    let (use_early, use_late) = ("B--2---:R-:W-:-:S05 FADD R7, R2, R2", "B------:R-:W-:-:S05 FADD R8, R6, R6");
    let exit = "B------:R-:W-:-:S05 EXIT";
    assert_eq!(not_waited(&[early, late, use_early, use_late, exit]), [(1, 3, 1)]);
    // The path without the later instruction arrives at the join after, and before, the path with it.
    let skip = "B------:R-:W-:-:S05 @P0 BRA 0x20";
    assert_eq!(not_waited(&[early, skip, late, use_early, use_late, exit]), [(2, 4, 1)]);
    let (to_late, to_join) = ("B------:R-:W-:-:S05 @P0 BRA 0x20", "B------:R-:W-:-:S05 BRA 0x20");
    assert_eq!(not_waited(&[early, to_late, to_join, late, use_early, use_late, exit]), [(3, 5, 1)]);
    // A wait for an instruction that both paths have issued last covers one that only one path has issued before it.
    let last = "B------:R-:W2:-:S02 MUFU.RCP R2, R0";
    assert_eq!(not_waited(&[skip, late, last, use_early, use_late, exit]), []);
}

#[test]
fn guarded_calls_and_returns_may_be_skipped() {
    let load = "B------:R-:W0:-:S02 LDG.E R6, desc[UR4][R2.64]";
    let (read, wait) = ("B------:R-:W-:-:S05 IADD3 R7, R6, R6, RZ", "B0-----:R-:W-:-:S05 IADD3 R8, R6, R6, RZ");
    let (exit, ret) = ("B------:R-:W-:-:S05 EXIT", "B------:R-:W-:-:S05 RET.REL.NODEC R20 0x0");
    let (call, guarded_call) = ("B------:R-:W-:-:S05 CALL.REL.NOINC 0x30", "B------:R-:W-:-:S05 @P0 CALL.REL.NOINC 0x30");
    assert_eq!(not_waited(&[load, call, read, exit, wait, ret]), []);
    assert_eq!(not_waited(&[load, guarded_call, read, exit, wait, ret]), [(0, 2, 0)]);
    let guarded_ret = "B------:R-:W-:-:S05 @P0 RET.REL.NODEC R20 0x0";
    assert_eq!(not_waited(&[call, read, exit, load, wait, ret]), []);
    assert_eq!(not_waited(&[call, read, exit, load, guarded_ret, wait, ret]), [(3, 1, 0)]);
}

/// Groups of matrix products complete in order. A wait for all but one covers a group if on each path on which it is in flight another one
/// was committed after it.
#[test]
fn groups_of_products_are_counted_on_each_path() {
    let open = "B------:R-:W-:-:S05 HGMMA.64x8x16.F32 R24, gdesc[UR4], RZ, !UPT";
    let first = "B------:R-:W-:-:S05 HGMMA.64x8x16.F32 R24, gdesc[UR4], R24, gsb0";
    let second = "B------:R-:W-:-:S05 HGMMA.64x8x16.F32 R32, gdesc[UR4], RZ, !UPT, gsb0";
    let (all_but_one, all) = ("B------:R-:W-:-:S06 WARPGROUP.DEPBAR.LE gsb0, 0x1", "B------:R-:W-:-:S06 WARPGROUP.DEPBAR.LE gsb0, 0x0");
    let (use_first, use_second) = ("B------:R-:W-:-:S05 FADD R8, R24, R24", "B------:R-:W-:-:S05 FADD R9, R32, R32");
    let exit = "B------:R-:W-:-:S05 EXIT";
    assert_eq!(not_waited(&[open, first, second, all_but_one, use_first, exit]), []);
    assert_eq!(not_waited(&[open, first, second, all_but_one, use_second, exit]), [(2, 4, 6)]);
    // The groups are in flight where the loop is entered, and complete at its back edge.
    let back = "B------:R-:W-:-:S05 @P0 BRA -0x30";
    assert_eq!(not_waited(&[open, first, second, all_but_one, use_first, all, back, exit]), []);
    // Each path has one group in flight, which a wait for all but one does not cover.
    let (to_second, to_join) = ("B------:R-:W-:-:S05 @P0 BRA 0x30", "B------:R-:W-:-:S05 BRA 0x20");
    let found = not_waited(&[to_second, first, to_join, second, all_but_one, use_first, use_second, exit]);
    assert_eq!(found, [(1, 5, 6), (3, 6, 6)]);
}

/// A count of pending setters covers each in-order group apart: a store that signals its reads on the scoreboard of asynchronous copies, as
/// a called function may, makes the wait for the copies longer, but the count does not cover the store.
#[test]
fn counts_cover_each_in_order_group_apart() {
    let (store, group) = ("B------:R0:W-:-:S02 STL [R1], R6", "B------:R-:W0:-:S02 LDGDEPBAR");
    let (count, change) = ("B------:R-:W-:-:S04 DEPBAR.LE SB0, 0x1", "B------:R-:W-:-:S05 MOV R6, RZ");
    let exit = "B------:R-:W-:-:S05 EXIT";
    let all = |lines: &[&str]| issue(&steps(lines), (0..lines.len()).map(|number| (number, !0)));
    let not_waited = |lines: &[&str]| -> Vec<(usize, usize)> {
        let is_not_waited = |finding: &HazardFinding| matches!(finding.problem, Problem::NotWaited { .. });
        all(lines).into_iter().filter(is_not_waited).map(|finding| (finding.first, finding.second)).collect()
    };
    assert_eq!(all(&[store, group, group, count, exit]), []);
    assert_eq!(not_waited(&[store, group, group, count, change, exit]), [(0, 4)]);
    assert_eq!(not_waited(&[store, group, count, "B0-----:R-:W-:-:S05 MOV R6, RZ", exit]), []);
    // Two stores read their operands in order.
    assert_eq!(not_waited(&[store, "B------:R0:W-:-:S02 STL [R1+0x4], R7", count, change, exit]), []);
    // Loads of global memory complete in any order, so the first one may be the pending one.
    let loads = ["B------:R-:W0:-:S02 LDG.E R8, desc[UR4][R2.64]", "B------:R-:W0:-:S02 LDG.E R9, desc[UR4][R2.64]"];
    assert_eq!(not_waited(&[loads[0], loads[1], count, "B------:R-:W-:-:S05 MOV R10, R8", exit]), [(0, 3)]);
    let special = all(&["B------:R-:W0:-:S02 LDS R8, [R9]", "B------:R-:W0:-:S02 S2R R10, SR_TID.X", count, exit]);
    assert_eq!(special, [HazardFinding { first: 1, second: 2, problem: Problem::CountOutOfOrder { scoreboard: 0 } }]);
}
