//! Tests of new control words, on code in the syntax of `oriole disasm --control`.

use oriole_cubin::info::{Attribute, AttributeCode};
use oriole_hardware::Hardware;
use oriole_hardware::machine::Machine;
use oriole_isa::{Control, Instruction, Target, decode, encode, parse_at};

use crate::graph::{FileInfo, build};
use crate::kept_waits::find_kept_waits;
use crate::words::{assign_words, old_words};
use crate::{SIZE, UnchangedReason, block_threads, warps_per_scheduler};

fn target() -> Target {
    Target::parse("sm_90a").unwrap()
}

/// Parses lines of the form `[CONTROL] TEXT` into decoded instructions.
pub fn code(lines: &[&str]) -> Vec<Instruction> {
    let read = |(number, line): (usize, &&str)| {
        let (control, text) = line.strip_prefix('[').and_then(|rest| rest.split_once("] ")).unwrap_or(("B------:R-:W-:-:S01", line));
        let mut instruction = parse_at(text, (number * SIZE) as u64, &|_| None).unwrap();
        instruction.control = Control::parse(control).unwrap();
        decode(encode(&instruction, target()).unwrap(), target()).unwrap()
    };
    lines.iter().enumerate().map(read).collect()
}

/// Returns the new control words of the code.
fn rescored(lines: &[&str]) -> Result<Vec<Control>, UnchangedReason> {
    let info = FileInfo { entries: vec![0], indirect: &|_| None, is_relocated: &|_| false };
    let decoded = code(lines);
    let graph = build(&decoded, &info)?;
    let waits = find_kept_waits(&decoded, &old_words(&decoded), &graph.blocks)?;
    Ok(assign_words(&decoded, &graph, &waits, &Hardware::built_in(target())))
}

fn texts(lines: &[&str]) -> Vec<String> {
    rescored(lines).unwrap().iter().map(ToString::to_string).collect()
}

#[test]
fn waits_follow_registers() {
    let new = rescored(&[
        "[B------:R-:W3:Y:S15] LDG.E R0, desc[UR4][R2.64]",
        "[B---3--:R-:W-:Y:S15] FADD R1, R0, R0",
        "[B------:R-:W-:Y:S15] FADD R4, R1, R1",
        "EXIT",
    ])
    .unwrap();
    let scoreboard = new[0].write_barrier.unwrap();
    assert_eq!(new[1].wait, 1 << scoreboard);
    assert_eq!(new[1].stall, 4);
    assert_eq!((new[2].wait, new[2].write_barrier), (0, None));
}

#[test]
fn counted_scoreboards_are_not_shared() {
    let new = rescored(&[
        "[B------:R1:W-:-:S01] LDGSTS.E [R0], desc[UR4][R2.64]",
        "[B------:R-:W0:-:S01] LDGDEPBAR",
        "[B------:R1:W-:-:S01] LDGSTS.E [R0+0x10], desc[UR4][R2.64]",
        "[B------:R-:W0:-:S02] LDGDEPBAR",
        "[B------:R-:W2:-:S01] LDG.E R6, desc[UR4][R2.64]",
        "[B------:R-:W3:-:S01] LDG.E R7, desc[UR4][R2.64]",
        "[B------:R-:W-:Y:S04] DEPBAR.LE SB0, 0x1",
        "[B-123--:R-:W-:-:S05] FADD R2, R6, R7",
        "EXIT",
    ])
    .unwrap();
    assert_eq!((new[1].write_barrier, new[3].write_barrier), (Some(0), Some(0)));
    for number in [0, 2, 4, 5] {
        assert!(new[number].write_barrier != Some(0) && new[number].read_barrier != Some(0), "{number}: {}", new[number]);
    }
    assert_eq!(new[7].wait & 1, 0, "an addition does not wait for copies");
    assert!(new[6].stall >= 4);
}

#[test]
fn mixed_counts_are_refused() {
    let found = rescored(&[
        "[B------:R-:W0:-:S02] LDG.E R6, desc[UR4][R2.64]",
        "[B------:R-:W0:-:S02] LDGDEPBAR",
        "[B------:R-:W-:Y:S04] DEPBAR.LE SB0, 0x1",
        "EXIT",
    ]);
    assert_eq!(found, Err(UnchangedReason::MixedCount { at: 2 }));
}

#[test]
fn atomics_complete_before_cache_invalidation() {
    let lines =
        ["[B------:R0:W2:-:S04] ATOM.E.ADD.S32.STRONG.GPU PT, RZ, desc[UR6][R2.64], R5", "[B--2---:R-:W-:-:S01] CCTL.IVALL", "EXIT"];
    let new = rescored(&lines).unwrap();
    assert_eq!(new[1].wait, 1 << new[0].write_barrier.unwrap());
}

#[test]
fn ordering_instructions_keep_their_stalls() {
    let new = texts(&["[B------:R-:W-:Y:S00] ERRBAR", "[B------:R-:W-:-:S06] CGAERRBAR", "[B------:R-:W-:-:S09] NOP", "EXIT"]);
    assert_eq!(new[..3], ["B------:R-:W-:Y:S00", "B------:R-:W-:-:S06", "B------:R-:W-:-:S01"]);
}

#[test]
fn products_of_warp_groups_set_no_scoreboard() {
    let new = rescored(&[
        "[B------:R-:W-:Y:S06] WARPGROUP.ARRIVE",
        "HGMMA.64x8x16.F32 R24, gdesc[UR4], RZ, !UPT, gsb0",
        "[B------:R-:W-:-:S02] WARPGROUP.DEPBAR.LE gsb0, 0x0",
        "FADD R0, R24, R25",
        "EXIT",
    ])
    .unwrap();
    assert_eq!((new[1].write_barrier, new[1].read_barrier), (None, None));
    assert!(new[2].stall >= 2);
}

#[test]
fn padding_keeps_its_control_words() {
    let new = texts(&["EXIT", "[B------:R-:W-:Y:S00] BRA 0x10", "[B------:R-:W-:Y:S00] NOP"]);
    assert_eq!(new[1..], ["B------:R-:W-:Y:S00", "B------:R-:W-:Y:S00"]);
}

#[test]
fn reuse_flags_are_dropped() {
    let lines = code(&["[B------:R-:W-:-:S04] FADD R0, R1.reuse, R2", "FADD R3, R1, R0", "EXIT"]);
    assert!(lines[0].operands[1].reuse);
    assert!(
        rescored(&["[B------:R-:W-:-:S04] FADD R0, R1.reuse, R2", "FADD R3, R1, R0", "EXIT"]).unwrap().iter().all(|new| new.reuse == 0)
    );
}

#[test]
fn a_wait_that_is_kept_comes_late_enough() {
    let new =
        rescored(&["[B------:R-:W0:-:S02] SYNCS.EXCH.64 URZ, [UR4], UR6", "[B0-----:R-:W-:-:S01] BAR.SYNC.DEFER_BLOCKING 0x0", "EXIT"])
            .unwrap();
    assert_eq!(new[1].wait, 1 << new[0].write_barrier.unwrap());
    assert!(new[0].stall >= 2);
    // The instruction after it waits in any case: other threads may use the new barrier in memory from then on.
    for next in ["BAR.SYNC.DEFER_BLOCKING 0x0", "FADD R3, R1, R2"] {
        let new = rescored(&["[B------:R-:W0:-:S02] SYNCS.EXCH.64 URZ, [UR4], UR6", next, "EXIT"]).unwrap();
        assert_eq!(new[1].wait, 1 << new[0].write_barrier.unwrap(), "{next}");
    }
}

#[test]
fn loads_with_own_scoreboards_leave_the_counted_one() {
    let new = rescored(&[
        "[B------:R-:W5:-:S02] LDS R6, [R2]",
        "[B------:R-:W5:-:S02] LDS R7, [R2+0x4]",
        "[B------:R-:W-:Y:S04] DEPBAR.LE SB5, 0x1",
        "[B------:R-:W-:-:S05] FADD R8, R6, R6",
        "[B-----5:R-:W-:-:S05] FADD R9, R7, R7",
        "EXIT",
    ])
    .unwrap();
    assert!(new.iter().all(|control| control.write_barrier != Some(5)));
    assert_ne!(new[3].wait & 1 << new[0].write_barrier.unwrap(), 0);
}

/// 40 registers of 32 threads are 1,280 registers; 16,384 registers per scheduler hold 12 such warps. Of blocks of 1,024 threads (32
/// warps), only one fits into the 48 warps of the multiprocessor, which is 8 warps per scheduler.
#[test]
fn declared_block_sizes_limit_resident_warps() {
    let hopper = Machine::of(target());
    let at_most = [Attribute::words(AttributeCode::MAX_THREADS, vec![512, 2, 1])];
    let exactly = [Attribute::words(AttributeCode::REQNTID, vec![64, 1, 1])];
    assert_eq!((block_threads(&at_most), block_threads(&exactly), block_threads(&[])), (Some(1024), Some(64), None));
    assert_eq!(warps_per_scheduler(hopper, None, 40, 0), 12);
    assert_eq!(warps_per_scheduler(hopper, Some(1024), 40, 0), 8);
    assert_eq!(warps_per_scheduler(hopper, Some(64), 40, 0), 12);
    assert_eq!(warps_per_scheduler(hopper, None, 255, 0), 2);
}
