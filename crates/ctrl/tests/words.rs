//! Short instruction sequences and the control words that they must get on sm_90a. The latencies are those of docs/latency.md.

use oriole_ctrl::flow::{Assignment, Block, Code, assign_all};
use oriole_hardware::Hardware;
use oriole_isa::{Control, Instruction, Target, decode, encode, parse_at};

/// Assembles and decodes instructions, so that they have the encoding form and the reuse slots of real code.
fn code(lines: &[&str]) -> Vec<Instruction> {
    let target = Target::parse("sm_90a").unwrap();
    let read = |(number, line): (usize, &&str)| {
        let instruction = parse_at(line, number as u64 * 16, &|_| None).unwrap_or_else(|error| panic!("{line}: {error:?}"));
        decode(encode(&instruction, target).unwrap(), target).unwrap()
    };
    lines.iter().enumerate().map(read).collect()
}

fn assign_blocks(lines: &[&str], blocks: Vec<Block>) -> Assignment {
    let instructions = code(lines);
    assign_all(&Code { instructions: &instructions, blocks }, &Hardware::built_in(Target::parse("sm_90a").unwrap()), true)
}

/// Returns the control words of one block.
fn words(lines: &[&str]) -> Vec<Control> {
    assign_blocks(lines, vec![Block { range: 0..lines.len(), successors: Vec::new() }]).controls
}

fn block(start: usize, end: usize, successors: &[usize]) -> Block {
    Block { range: start..end, successors: successors.to_vec() }
}

#[test]
fn a_result_is_waited_for_where_it_is_read_first() {
    let words = words(&["LDG.E R0, desc[UR4][R2.64]", "IADD3 R8, R4, R5, RZ", "IADD3 R6, R0, R4, RZ", "IADD3 R7, R0, R5, RZ", "EXIT"]);
    let board = words[0].write_barrier.expect("the load sets a scoreboard");
    assert_eq!([words[1].wait, words[2].wait, words[3].wait], [0, 1 << board, 0]);
    assert_eq!(words[0].read_barrier, None);
}

#[test]
fn a_source_that_is_read_late_is_waited_for_where_it_is_overwritten() {
    let words = words(&["STG.E desc[UR4][R2.64], R0", "IADD3 R8, R4, R5, RZ", "IADD3 R0, R4, R5, RZ", "EXIT"]);
    let board = words[0].read_barrier.expect("the store sets a scoreboard");
    assert_eq!((words[0].write_barrier, words[1].wait, words[2].wait), (None, 0, 1 << board));
}

#[test]
fn in_order_unit_needs_a_wait_for_the_newest_result_only() {
    let words = words(&["MUFU.RCP R0, R2", "MUFU.RCP R1, R3", "FADD R4, R0, R1", "EXIT"]);
    assert_eq!(words[0].write_barrier, None);
    assert_eq!(words[2].wait, 1 << words[1].write_barrier.expect("the newer one sets a scoreboard"));
}

#[test]
fn waiting_for_a_guarded_instruction_implies_no_other() {
    let words = words(&["MUFU.RCP R0, R2", "@P0 MUFU.RCP R1, R3", "FADD R4, R0, R1", "EXIT"]);
    let boards = [words[0].write_barrier, words[1].write_barrier].map(|board| 1 << board.expect("both set a scoreboard"));
    assert_eq!(words[2].wait, boards[0] | boards[1]);
}

#[test]
fn loads_with_the_same_only_wait_share_a_scoreboard() {
    let words = words(&["LDG.E R0, desc[UR4][R2.64]", "LDG.E R1, desc[UR4][R4.64]", "IADD3 R6, R0, R1, RZ", "EXIT"]);
    assert_eq!(words[0].write_barrier, words[1].write_barrier);
    assert_eq!(words[2].wait.count_ones(), 1);
}

#[test]
fn loop_carried_result_is_waited_for_in_the_next_iteration() {
    let lines = ["IADD3 R6, R0, R6, RZ", "IADD3 R8, R4, R5, RZ", "LDG.E R0, desc[UR4][R2.64]", "@P0 BRA 0x0", "EXIT"];
    let words = assign_blocks(&lines, vec![block(0, 4, &[0, 1]), block(4, 5, &[])]).controls;
    assert_eq!(words[0].wait, 1 << words[2].write_barrier.expect("the load sets a scoreboard"));
}

#[test]
fn a_wait_on_one_path_does_not_save_it_on_the_other() {
    let lines = ["LDG.E R0, desc[UR4][R2.64]", "@P0 BRA 0x30", "IADD3 R6, R0, R5, RZ", "IADD3 R7, R0, R5, RZ", "EXIT"];
    let words = assign_blocks(&lines, vec![block(0, 2, &[1, 2]), block(2, 3, &[2]), block(3, 5, &[])]).controls;
    let wait = 1 << words[0].write_barrier.expect("the load sets a scoreboard");
    assert_eq!([words[2].wait, words[3].wait], [wait, wait]);
}

#[test]
fn stalls_are_as_long_as_the_latency_and_no_longer() {
    let far = words(&["IADD3 R0, R4, R5, RZ", "UIADD3 UR8, UR4, UR5, URZ", "IADD3 R1, R0, R5, RZ", "EXIT"]);
    assert_eq!([far[0].stall, far[1].stall], [1, 3]);
    let other_unit = words(&["IADD3 R0, R4, R5, RZ", "IMAD R1, R0, R5, RZ", "EXIT"]);
    assert_eq!(other_unit[0].stall, 5);
    let guard = words(&["ISETP.NE.AND P0, PT, R4, R5, PT", "@P0 EXIT", "EXIT"]);
    assert_eq!((guard[0].stall, guard[0].stay), (13, false));
}

#[test]
fn only_the_path_on_which_cycles_are_missing_gets_them() {
    let lines = ["@P0 BRA 0x30", "IADD3 R0, R4, R5, RZ", "BRA 0x40", "IADD3 R8, R4, R5, RZ", "IADD3 R1, R0, R5, RZ", "EXIT"];
    let blocks = vec![block(0, 1, &[1, 2]), block(1, 3, &[3]), block(3, 4, &[3]), block(4, 6, &[])];
    let words = assign_blocks(&lines, blocks).controls;
    assert_eq!((words[1].stall, words[2].stall, words[3].stall), (1, 5, 1));
}

#[test]
fn a_scoreboard_is_not_waited_for_in_the_cycle_after_it_was_set() {
    let close = words(&["LDG.E R0, desc[UR4][R2.64]", "IADD3 R6, R0, R5, RZ", "EXIT"]);
    let far = words(&["LDG.E R0, desc[UR4][R2.64]", "IADD3 R8, R4, R5, RZ", "IADD3 R6, R0, R5, RZ", "EXIT"]);
    assert_eq!((close[0].stall, far[0].stall), (2, 1));
}

/// The ALU processes 64 lanes per cycle in a multiprocessor, 16 in each of the four partitions, so one instruction of a warp of 32 threads
/// keeps it busy for two cycles. The `FFMA`s go to a unit with twice the rate.
#[test]
fn two_instructions_of_one_unit_keep_their_distance() {
    let words =
        words(&["IADD3 R8, R4, R5, RZ", "LOP3.LUT R9, R4, R5, RZ, 0xc0, !PT", "FFMA R6, R4, R5, RZ", "FFMA R7, R4, R5, RZ", "EXIT"]);
    assert_eq!([words[0].stall, words[1].stall, words[2].stall], [2, 1, 1]);
}

#[test]
fn comparisons_may_follow_a_barrier_but_memory_and_register_writes_may_not() {
    let memory = words(&["BAR.SYNC.DEFER_BLOCKING 0x0", "ISETP.NE.AND P0, PT, R4, R5, PT", "LDS R0, [R2]", "EXIT"]);
    assert_eq!((memory[0].stall, memory[1].stall), (1, 5));
    let overwrites = words(&["BAR.SYNC.DEFER_BLOCKING 0x0", "IADD3 R8, R4, R5, RZ", "EXIT"]);
    assert_eq!(overwrites[0].stall, 6);
}

#[test]
fn an_acquire_waits_for_the_load_before_the_cache_is_emptied() {
    let words = words(&["LDG.E.STRONG.GPU R0, desc[UR4][R2.64]", "CCTL.IVALL", "IADD3 R6, R0, R5, RZ", "EXIT"]);
    assert_eq!(words[1].wait, 1 << words[0].write_barrier.expect("the load sets a scoreboard"));
    assert_eq!(words[2].wait, 0);
}

#[test]
fn a_latency_beyond_the_longest_stall_is_spread_or_reported() {
    let product = "HMMA.16816.F32 R8, R0, R4, R8";
    let spread = assign_blocks(&[product, "NOP", "IADD3 R12, R8, R9, RZ", "EXIT"], vec![block(0, 4, &[])]);
    assert_eq!(spread.controls[0].stall + spread.controls[1].stall, 24);
    assert!(spread.shortfalls.is_empty());
    let adjacent = assign_blocks(&[product, "IADD3 R12, R8, R9, RZ", "EXIT"], vec![block(0, 3, &[])]);
    assert_eq!((adjacent.shortfalls[0].before, adjacent.shortfalls[0].cycles), (1, 9));
}

#[test]
fn register_is_reused_unless_it_is_written() {
    let kept = words(&["FFMA R0, R4, R5, R6", "FFMA R1, R4, R7, R8", "EXIT"]);
    assert_eq!((kept[0].reuse, kept[1].reuse), (1, 0));
    let other_slot = words(&["FFMA R0, R4, R5, R6", "FFMA R1, R5, R7, R8", "EXIT"]);
    assert_eq!(other_slot[0].reuse, 0);
    let written = words(&["FFMA R4, R4, R5, R6", "FFMA R1, R4, R7, R8", "EXIT"]);
    assert_eq!(written[0].reuse, 0);
    let guarded = words(&["@P0 FFMA R0, R4, R5, R6", "FFMA R1, R4, R7, R8", "EXIT"]);
    assert_eq!(guarded[0].reuse, 0);
}

#[test]
fn seven_in_flight_share_six_scoreboards() {
    let mut lines: Vec<String> = (0..7).map(|at| format!("LDG.E R{}, desc[UR4][R2.64+{:#x}]", 10 + at, 4 * at)).collect();
    lines.extend((0..7).map(|at| format!("IADD3 R{}, R{}, R4, RZ", 20 + at, 10 + at)));
    lines.push("EXIT".to_owned());
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let words = words(&lines);
    let used = words[..7].iter().fold(0u8, |mask, word| mask | 1 << word.write_barrier.expect("each sets a scoreboard"));
    assert_eq!(used, 0x3f);
}

#[test]
fn reuse_slot_holds_one_even_and_one_odd_register() {
    let kept = words(&["FFMA R0, R4, R13, R6", "FFMA R1, R8, R12, R6", "FFMA R2, R10, R13, R7", "EXIT"]);
    assert_eq!((kept[0].reuse, kept[1].reuse), (0b110, 0));
    let pushed_out = words(&["FFMA R0, R4, R14, R6", "FFMA R1, R8, R12, R6", "FFMA R2, R10, R14, R7", "EXIT"]);
    assert_eq!(pushed_out[0].reuse, 0b100);
}

#[test]
fn register_pair_is_reused_if_neither_half_is_written() {
    let between = |other: &'static str| {
        words(&["IMAD.WIDE.U32 R8, R0, 0x4, R4", "LOP3.LUT R12, R2, R3, RZ, 0xc0, !PT", other, "IMAD.WIDE.U32 R10, R1, 0x4, R4", "EXIT"])
    };
    assert_eq!(between("IADD3 R13, R2, R7, RZ")[0].reuse, 0b100);
    assert_eq!(between("IADD3 R13, R2, R7, R5")[0].reuse, 0, "the slot is used for one of them");
    let product = "IMAD.WIDE.U32 R8, R0, 0x4, R4";
    let sums = ["IADD3 R12, R3, R7, RZ", "IADD3 R13, R3, R7, RZ", "IADD3 R14, R3, R7, RZ"];
    let written = words(&[product, "LOP3.LUT R5, R3, R7, RZ, 0xc0, !PT", sums[0], sums[1], sums[2], product, "EXIT"]);
    assert!(written[..5].iter().all(|word| word.stay), "the warp stays, but R5 is another one");
    assert_eq!(written[0].reuse, 0b001);
}

#[test]
fn matrix_unit_halves_have_separate_reuse_caches() {
    let own = words(&["HFMA2.MMA R8, R4, R0, R3", "HFMA2 R9, R5, R0, R3", "HFMA2.MMA R10, R6, R0, R3", "EXIT"]);
    assert_eq!((own[0].reuse, own[1].reuse), (0b110, 0));
    let far = ["HFMA2.MMA R8, R4, R0, R3", "FADD R0, R12, R13", "FADD R20, R12, R13", "FADD R21, R12, R13", "FADD R22, R12, R13"];
    let far: Vec<&str> = far.into_iter().chain(["FADD R23, R12, R13", "FADD R24, R12, R13", "HFMA2.MMA R10, R6, R0, R3", "EXIT"]).collect();
    let words = words(&far);
    assert!(words[..7].iter().all(|word| word.stay), "the warp stays, so R3 is kept, and R0 is not because it is written");
    assert_eq!(words[0].reuse, 0b100);
}

#[test]
fn stall_of_two_yields_after_ten_cycles_without_a_yield() {
    let lines: Vec<String> = (0..8).map(|at| format!("LOP3.LUT R{}, R4, R5, RZ, 0xc0, !PT", 10 + at)).chain(["EXIT".to_owned()]).collect();
    let words = words(&lines.iter().map(String::as_str).collect::<Vec<&str>>());
    assert!(words[..7].iter().all(|word| word.stall == 2));
    assert_eq!(words[..7].iter().position(|word| !word.stay), Some(5));
    assert_eq!((words[4].reuse, words[5].reuse), (0b11, 0), "another warp pushes out what is kept");
}

#[test]
fn missing_cycles_are_added_before_a_longer_wait() {
    let load = "LDG.E R0, desc[UR4][R2.64]";
    let lines = |first: &'static str| [load, first, "IADD3 R6, R0, R5, RZ", "@P0 IADD3 R7, R5, R5, RZ", "EXIT"];
    let with_wait = words(&lines("ISETP.NE.AND P0, PT, R4, R5, PT"));
    assert_eq!((with_wait[1].stall, with_wait[2].stall), (11, 2), "the wait is for a load of many cycles");
    assert!(with_wait[2].wait != 0);
}

#[test]
fn latencies_from_outside_a_loop_are_covered_before_it() {
    let lines = ["IADD3 R6, R4, R5, RZ", "FFMA R8, R8, R9, R10", "FFMA R7, R6, R9, R10", "@P0 BRA 0x10", "EXIT"];
    let blocks = || vec![block(0, 1, &[1]), block(1, 4, &[1, 2]), block(4, 5, &[])];
    let inside = assign_blocks(&lines, blocks()).controls;
    assert_eq!(inside[1].stall, 1, "the loop does not wait for the sum in every round");
    assert!(inside[0].stall + inside[1].stall >= 4, "but the sum is there");
}

#[test]
fn ffma_after_imad_waits_for_the_busy_unit() {
    let words = words(&["IMAD R8, R4, R5, R6", "FFMA R7, R4, R5, R9", "FFMA R10, R4, R5, R9", "EXIT"]);
    assert_eq!((words[0].stall, words[1].stall), (2, 1));
}

/// The sixth instruction needs more cycles, which are added before the fifth, because the fifth waits for a load. So the fifth issues
/// later, and its recorded accesses have to move by that time once. The fifth both reads and writes R12: moving its accesses once for each
/// made its write look later than the sixth's write to R12, which was then ignored (found by random programs).
#[test]
fn read_and_write_of_one_register_are_postponed_once() {
    let lines = [
        "LDG.E R12, desc[UR4][R40.64]",
        "LDG.E R2, desc[UR4][R42.64]",
        "IMAD.HI R27, R25, R26, RZ",
        "VIADD R18, R27, 0x1",
        "IADD3 R12, P1, R25, R12, RZ",
        "LOP3.LUT R12, R18, R2, RZ, 0x3c, !PT",
        "IADD3.X R56, R12, R20, RZ, P1, !PT",
        "EXIT",
    ];
    let words = words(&lines);
    assert!(words[4].wait != 0 && words[5].wait != 0, "both wait for loads: {words:?}");
    assert!(words[5].stall >= 4, "{:?}", words[5]);
}

/// The comparison may follow the barrier directly, so the distance of the load from the barrier has to be kept after the join of the path
/// with the barrier and the path without it.
#[test]
fn a_barrier_on_one_of_two_paths_counts_after_they_meet() {
    let lines = ["@P0 BRA 0x20", "BAR.SYNC.DEFER_BLOCKING 0x0", "ISETP.NE.AND P0, PT, R4, R5, PT", "LDS R0, [R2]", "EXIT"];
    let blocks = vec![block(0, 1, &[1, 2]), block(1, 2, &[2]), block(2, 5, &[])];
    let words = assign_blocks(&lines, blocks).controls;
    assert_eq!((words[1].stall, words[2].stall), (1, 5));
}

/// One of two paths sets a scoreboard directly before the paths join in an empty block. The cycle that is missing before the wait cannot be
/// added to the empty block, so it is reported as a shortfall.
#[test]
fn a_scoreboard_set_on_one_of_two_paths_counts_after_they_meet() {
    let lines = ["@P0 BRA 0x20", "LDG.E R0, desc[UR4][R2.64]", "IADD3 R6, R0, R5, RZ", "EXIT"];
    let blocks = vec![block(0, 1, &[1, 2]), block(1, 2, &[2]), block(2, 2, &[3]), block(2, 4, &[])];
    let done = assign_blocks(&lines, blocks);
    assert_eq!(done.controls[2].wait, 1 << done.controls[1].write_barrier.expect("the load sets a scoreboard"));
    let missing: Vec<(usize, u32)> = done.shortfalls.iter().map(|one| (one.before, one.cycles)).collect();
    assert_eq!(missing, [(2, 1)]);
}

/// `VOTEU` is the only instruction with a longer write-after-write latency (8 cycles) than read-after-write latency (5 cycles).
#[test]
fn a_write_counts_in_later_blocks_until_the_last_overwriting_instruction_may_come() {
    let mut lines = vec!["VOTEU.ANY UP0, P0"];
    lines.extend(["NOP"; 6]);
    lines.extend(["USETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0xe8", "EXIT"]);
    let words = assign_blocks(&lines, vec![block(0, 6, &[1]), block(6, 9, &[])]).controls;
    let distance: u32 = words[..7].iter().map(|word| u32::from(word.stall)).sum();
    assert_eq!(distance, 8);
}

/// A guard is read at issue, so it needs no read barrier. nvdisasm rejects `CCTL.IVALL` with one.
#[test]
fn a_guard_alone_is_no_reason_for_a_read_barrier() {
    let words = words(&["@P0 CCTL.IVALL", "ISETP.NE.AND P0, PT, R4, R5, PT", "EXIT"]);
    assert_eq!((words[0].read_barrier, words[0].write_barrier), (None, None));
}

/// `WARPGROUP.DEPBAR` waits for the results of matrix products, and for nothing else.
#[test]
fn warpgroup_depbar_waits_for_matrix_products_only() {
    let product = "HGMMA.64x8x16.F32 R24, gdesc[UR4], RZ, !UPT, gsb0";
    let load = "LDG.E R40, desc[UR4][R2.64]";
    let words = words(&[load, product, "WARPGROUP.DEPBAR.LE gsb0, 0x0", "FADD R6, R24, R25", "FADD R7, R40, R41", "EXIT"]);
    assert_eq!(words[3].wait, 0, "the products are done: {words:?}");
    assert_eq!(words[4].wait, 1 << words[0].write_barrier.expect("the load sets a scoreboard"));
}
