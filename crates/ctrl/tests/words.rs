//! Short instruction sequences and the control words that they must get on sm_90a. The latencies are those of docs/latency.md. Most such
//! tests are files (`filetests/ctrl`); these have instructions, blocks or conditions that a file cannot express.

use oriole_ctrl::flow::stalls::StallCause;
use oriole_ctrl::flow::{ControlAssignment, MachineBlock, MachineCode, assign_control_words, assign_with_reasons};
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

fn assign_blocks(lines: &[&str], blocks: Vec<MachineBlock>) -> ControlAssignment {
    let instructions = code(lines);
    assign_control_words(&MachineCode { instructions: &instructions, blocks }, &Hardware::built_in(Target::parse("sm_90a").unwrap()), true)
}

/// Returns the control words of one block.
fn words(lines: &[&str]) -> Vec<Control> {
    assign_blocks(lines, vec![MachineBlock { range: 0..lines.len(), successors: Vec::new() }]).controls
}

fn block(start: usize, end: usize, successors: &[usize]) -> MachineBlock {
    MachineBlock { range: start..end, successors: successors.to_vec() }
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

/// `WARPGROUP.DEPBAR` waits for the results of matrix products, and for nothing else.
#[test]
fn warpgroup_depbar_waits_for_matrix_products_only() {
    let product = "HGMMA.64x8x16.F32 R24, gdesc[UR4], RZ, !UPT, gsb0";
    let load = "LDG.E R40, desc[UR4][R2.64]";
    let words = words(&[load, product, "WARPGROUP.DEPBAR.LE gsb0, 0x0", "FADD R6, R24, R25", "FADD R7, R40, R41", "EXIT"]);
    assert_eq!(words[3].wait, 0, "the products are done: {words:?}");
    assert_eq!(words[4].wait, 1 << words[0].write_barrier.expect("the load sets a scoreboard"));
}

/// The copy engine reads uniform registers after the instruction has issued; ptxas 13.0.88 sets a read barrier on each such instruction.
#[test]
fn operands_of_the_copy_engine_are_kept_until_it_has_read_them() {
    let copies = [
        "UBLKCP.S.G [UR4], [UR6], UR8",
        "UBLKCP.G.S [UR4], [UR6], UR8",
        "UBLKRED.G.S.ADD [UR4], [UR6], UR8",
        "UBLKPF.L2 [UR4], UR8",
        "UTMALDG.2D [UR4], [UR8]",
        "UTMASTG.1D [UR4], [UR6]",
        "UTMAREDG.1D.ADD [UR4], [UR6]",
        "UTMAPF.L2.1D [UR4], [UR6]",
        "UTMACCTL.PF [UR4]",
        "UTMACCTL.IV [UR4]",
    ];
    for copy in copies {
        for next in ["UMOV UR4, 0x1", "R2UR UR4, R0", "EXIT"] {
            let [first, second] = words(&[copy, next, "EXIT"])[..2] else { panic!("two instructions") };
            let board = first.read_barrier.unwrap_or_else(|| panic!("{copy} sets no scoreboard"));
            assert_ne!(second.wait & 1 << board, 0, "{copy}; {next}");
        }
    }
}

/// The hardware does not complete the initialization of a barrier in shared memory (`SYNCS.EXCH`) before a `BAR` that follows it, so the
/// `BAR` waits for it, as in the code of ptxas.
#[test]
fn a_barrier_in_shared_memory_is_initialized_before_the_next_instruction() {
    for change in ["SYNCS.EXCH.64 URZ, [UR4], UR6", "SYNCS.CCTL.IV [R0+URZ]"] {
        for next in ["BAR.SYNC.DEFER_BLOCKING 0x0", "UCGABAR_ARV", "STS.64 [R0], R2"] {
            let [first, second] = words(&[change, next, "EXIT"])[..2] else { panic!("two instructions") };
            let board = first.write_barrier.unwrap_or_else(|| panic!("{change} sets no scoreboard"));
            assert_ne!(second.wait & 1 << board, 0, "{change}; {next}");
        }
    }
}

/// A tensor map is invalidated after the atomic operations and loads before it, as `DEPBAR {5,4,3,2,1,0}` does in the code of ptxas.
#[test]
fn a_tensor_map_is_invalidated_after_earlier_loads() {
    for load in ["ATOMG.E.EXCH.STRONG.GPU PT, RZ, desc[UR6][R2.64], R0", "LDG.E.STRONG.GPU R5, desc[UR6][R2.64]"] {
        let [first, second] = words(&[load, "UTMACCTL.IV [UR4]", "EXIT"])[..2] else { panic!("two instructions") };
        let board = first.write_barrier.unwrap_or_else(|| panic!("{load} sets no scoreboard"));
        assert_ne!(second.wait & 1 << board, 0, "{load}");
    }
}

/// The example of `stalls.rs`: cycles for the guard of instruction 3 are added before instruction 2, which waits for the load anyway. The
/// cause names instruction 3, and the parts add up to the stall.
#[test]
fn parts_of_a_stall_name_the_instruction_that_must_wait() {
    let lines =
        ["LDG.E R0, desc[UR4][R2.64]", "ISETP.NE.AND P0, PT, R4, R5, PT", "IADD3 R6, R0, R5, RZ", "@P0 IADD3 R7, R5, R5, RZ", "EXIT"];
    let instructions = code(&lines);
    let code = MachineCode { instructions: &instructions, blocks: vec![block(0, lines.len(), &[])] };
    let (controls, reasons) = assign_with_reasons(&code, &Hardware::built_in(Target::parse("sm_90a").unwrap()));
    for (control, parts) in controls.iter().zip(&reasons.stalls) {
        assert_eq!(control.stall, parts.iter().map(|part| part.cycles).sum::<u8>());
    }
    let guarded = reasons.stalls[1].iter().find(|part| matches!(part.cause, StallCause::Register { first: 1, .. })).expect("a cause");
    assert_eq!(guarded.second, 3);
    // The guard needs 13 cycles, of which at least one passes after each of the two instructions.
    assert!(guarded.cycles >= 9 && guarded.cycles <= 11, "{guarded:?}");
}

/// `DEPBAR` with a set of scoreboards does not see one that the instruction directly before it sets.
#[test]
fn a_wait_for_a_set_of_scoreboards_sees_all_of_them() {
    let lines = ["LDG.E R4, desc[UR4][R2.64]", "DEPBAR {5,4,3,2,1,0}", "FADD R5, R4, R4", "EXIT"];
    assert_eq!(words(&lines)[0].stall, 2);
}
