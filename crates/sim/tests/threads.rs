//! Tests of thread behaviour with small assembler programs: divergence, convergence, barriers, forward progress, error messages. Also
//! checks that no encodable word makes the simulator panic.

use oriole_cubin::FileTraits;
use oriole_cubin::build::{FrameInfo, Function, Module, Shared, kernel_attributes};
use oriole_cubin::info::Parameter;
use oriole_isa::{Target, decode, encode, parse_at};
use oriole_sim::sass::warp::Warp;
use oriole_sim::sass::{Code, ErrorKind, GridOptions, Issue, Observer, SassError, Silent, Trace};
use oriole_sim::{GlobalMemory, Launch};

/// Assembles a kernel with one parameter from these lines. Branch targets are byte offsets.
fn assemble(lines: &[&str]) -> Code {
    let target = Target::parse("sm_90a").unwrap();
    let word = |(number, line): (usize, &&str)| {
        let instruction = parse_at(line, 16 * number as u64, &|_| None).unwrap_or_else(|error| panic!("{line}: {error:?}"));
        encode(&instruction, target).unwrap_or_else(|error| panic!("{line}: {error:?}"))
    };
    let words: Vec<u128> = lines.iter().enumerate().map(word).collect();
    Code::load(&file_of(target, &words)).unwrap()
}

/// Returns a cubin with a kernel `k` of these words, which has a buffer as its parameter, 32 registers and 256 bytes of shared memory.
fn file_of(target: Target, words: &[u128]) -> Vec<u8> {
    let traits = FileTraits::of(target).unwrap();
    let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let kernel = Function {
        registers: 32,
        attributes: kernel_attributes(&traits, &[Parameter::plain(0, 0, 8)], Vec::new()),
        parameter_bytes: 8,
        shared: Some(Shared { size: 256, alignment: 16, variables: Vec::new() }),
        frame: FrameInfo::plain(code.len() as u64),
        code,
        ..Function::kernel("k")
    };
    Module::new(traits, vec![kernel]).build().and_then(|cubin| cubin.write()).unwrap()
}

/// Runs `blocks` blocks of `threads` threads on a buffer of 64 words and returns the buffer.
fn run(lines: &[&str], blocks: u32, threads: u32) -> Result<Vec<u32>, SassError> {
    launch(&assemble(lines), blocks, threads)
}

fn launch(code: &Code, blocks: u32, threads: u32) -> Result<Vec<u32>, SassError> {
    launch_limited(code, blocks, threads, 1 << 20)
}

fn launch_limited(code: &Code, blocks: u32, threads: u32, instruction_limit: u64) -> Result<Vec<u32>, SassError> {
    launch_with(code, blocks, threads, &GridOptions::limited(instruction_limit))
}

fn launch_with(code: &Code, blocks: u32, threads: u32, options: &GridOptions) -> Result<Vec<u32>, SassError> {
    let mut memory = GlobalMemory::new();
    let buffer = memory.allocate("buffer", vec![0; 256]);
    let launch = Launch {
        kernel: "k".into(),
        grid: [blocks, 1, 1],
        block: [threads, 1, 1],
        cluster: None,
        shared_bytes: 0,
        arguments: vec![buffer.to_le_bytes().to_vec()],
    };
    code.run(&launch, &mut memory, options, &mut Silent)?;
    let bytes = memory.contents(buffer).unwrap();
    Ok(bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect())
}

/// Sets R0 to the thread index, R2:R3 to the buffer's address, R4:R5 to the address of the thread's word.
const START: [&str; 4] = ["S2R R0, SR_TID.X", "LDC.64 R2, c[0x0][0x210]", "MOV R8, 0x4", "IMAD.WIDE.U32 R4, R0, R8, R2"];

fn program<'a>(rest: &[&'a str]) -> Vec<&'a str> {
    START.iter().copied().chain(rest.iter().copied()).collect()
}

#[test]
fn branch_sides_reconverge() {
    let lines = program(&[
        "BSSY B0, 0xb0",
        "ISETP.LT.U32.AND P0, PT, R0, 0x8, PT",
        "@P0 BRA 0x90",
        "MOV R6, 0x2",
        "BRA 0xa0",
        "MOV R6, 0x1",
        "BSYNC B0",
        "VOTE.ALL R7, PT, PT",
        "IADD3 R7, R7, R6, RZ",
        "STG.E desc[UR4][R4.64], R7",
        "EXIT",
    ]);
    let values = run(&lines, 1, 32).unwrap();
    assert_eq!(values[0], 0, "all 32 threads, and 1");
    assert_eq!(values[8], 1, "all 32 threads, and 2");
}

#[test]
fn without_a_barrier_the_sides_stay_diverged() {
    let lines = program(&[
        "ISETP.LT.U32.AND P0, PT, R0, 0x8, PT",
        "@P0 BRA 0x70",
        "NOP",
        "VOTE.ALL R7, PT, PT",
        "STG.E desc[UR4][R4.64], R7",
        "EXIT",
    ]);
    let values = run(&lines, 1, 32).unwrap();
    assert_eq!((values[0], values[8]), (0xff, 0xffff_ff00));
}

#[test]
fn threads_that_leave_or_exit_are_not_waited_for() {
    let lines = program(&[
        "BSSY B0, 0xc0",
        "ISETP.LT.U32.AND P0, PT, R0, 0x8, PT",
        "ISETP.LT.U32.AND P1, PT, R0, 0x10, PT",
        "@P0 BREAK B0",
        "@P0 BRA 0xc0",
        "@P1 EXIT",
        "BSYNC B0",
        "NOP",
        "VOTE.ALL R7, PT, PT",
        "STG.E desc[UR4][R4.64], R7",
        "EXIT",
    ]);
    let values = run(&lines, 1, 32).unwrap();
    assert_eq!((values[0], values[8], values[16]), (0xff, 0, 0xffff_0000));
}

#[test]
fn a_barrier_survives_in_a_register() {
    let lines = program(&[
        "BSSY B0, 0xb0",
        "BMOV.32.CLEAR R9, B0",
        "BMOV.32 B0, R9",
        "ISETP.LT.U32.AND P0, PT, R0, 0x8, PT",
        "@P0 BRA 0xa0",
        "NOP",
        "BSYNC B0",
        "VOTE.ALL R7, PT, PT",
        "STG.E desc[UR4][R4.64], R7",
        "EXIT",
    ]);
    assert_eq!(run(&lines, 1, 32).unwrap()[8], 0xffff_ffff);
}

#[test]
fn warpsync_collects_the_threads_of_its_mask() {
    let lines = program(&[
        "ISETP.LT.U32.AND P0, PT, R0, 0x8, PT",
        "@P0 BRA 0x80",
        "MOV R9, 0xffffff00",
        "BRA 0x90",
        "MOV R9, 0xff",
        "NOP",
        "MOV R10, 0xffffffff",
        "WARPSYNC R10",
        "VOTE.ALL R7, PT, PT",
        "STG.E desc[UR4][R4.64], R7",
        "EXIT",
    ]);
    assert_eq!(run(&lines, 1, 20).unwrap()[3], 0xf_ffff, "threads that do not exist are not waited for");
}

#[test]
fn a_lock_between_threads_of_a_warp_is_passed_on() {
    // Each thread acquires the lock in word 63, adds to word 62 with a separate load and store, and releases the lock.
    let lines = program(&[
        "MOV R9, 0x1",
        "ATOMG.E.EXCH.STRONG.GPU PT, R10, desc[UR4][R2.64+0xfc], R9",
        "ISETP.NE.U32.AND P0, PT, R10, RZ, PT",
        "@P0 BRA 0x50",
        "LDG.E R11, desc[UR4][R2.64+0xf8]",
        "IADD3 R11, R11, 0x3, RZ",
        "STG.E desc[UR4][R2.64+0xf8], R11",
        "ATOMG.E.EXCH.STRONG.GPU PT, R10, desc[UR4][R2.64+0xfc], RZ",
        "EXIT",
    ]);
    for (blocks, threads) in [(1, 32), (3, 96)] {
        assert_eq!(run(&lines, blocks, threads).unwrap()[62], 3 * blocks * threads);
    }
}

#[test]
fn blocks_wait_for_blocks() {
    // Each block increments word 0 and waits until all 50 blocks have done so.
    let lines = program(&[
        "ISETP.NE.U32.AND P0, PT, R0, RZ, PT",
        "MOV R9, 0x1",
        "@!P0 REDG.E.ADD.STRONG.GPU desc[UR4][R2.64], R9",
        "LDG.E.STRONG.GPU R10, desc[UR4][R2.64]",
        "ISETP.LT.U32.AND P1, PT, R10, 0x32, PT",
        "@P1 BRA 0x70",
        "S2R R11, SR_CTAID.X",
        "ISETP.NE.U32.OR P0, PT, R11, 0x3, P0",
        "@!P0 STG.E desc[UR4][R2.64+0x4], R10",
        "EXIT",
    ]);
    let code = assemble(&lines);
    let values = launch_limited(&code, 50, 32, 1 << 24).unwrap();
    assert_eq!(values[..2], [50, 50]);
}

#[test]
fn observers_see_every_instruction() {
    struct Count(Vec<(u64, u32, u32, u32)>);
    impl Observer for Count {
        fn issue(&mut self, issue: &Issue<'_>, _: &Warp) {
            self.0.push((issue.address - issue.function, issue.warp, issue.group, issue.active));
        }
    }
    let lines = ["S2R R0, SR_TID.X", "ISETP.LT.U32.AND P0, PT, R0, 0x21, PT", "@!P0 EXIT", "MOV R1, 0x7", "EXIT"];
    let code = assemble(&lines);
    let mut memory = GlobalMemory::new();
    let launch =
        Launch { kernel: "k".into(), grid: [1; 3], block: [64, 1, 1], cluster: None, shared_bytes: 0, arguments: vec![vec![0; 8]] };
    let mut count = Count(Vec::new());
    let report = code.run(&launch, &mut memory, &GridOptions::default(), &mut count).unwrap();
    let of_second_warp: Vec<_> =
        count.0.iter().filter(|(_, warp, ..)| *warp == 1).map(|&(at, _, group, active)| (at, group, active)).collect();
    let expected = [(0, !0, !0), (0x10, !0, !0), (0x20, !0, !1), (0x30, 1, 1), (0x40, 1, 1)];
    assert_eq!(of_second_warp, expected);
    assert_eq!(report.warp_instructions, count.0.len() as u64);
    let mut trace = Trace::new(2, Some(0));
    code.run(&launch, &mut memory, &GridOptions::default(), &mut trace).unwrap();
    let text = trace.text(0, 1);
    assert_eq!(text.lines().count(), 2);
    assert!(text.contains("MOV R1, 0x7") && text.contains("R1=00000007"), "{text}");
}

#[test]
fn barriers_of_the_block_order_warps() {
    // Thread 32 writes to shared memory; all threads read it after the barrier.
    let lines = program(&[
        "ISETP.EQ.U32.AND P0, PT, R0, 0x20, PT",
        "MOV R9, 0x77",
        "@P0 STS [RZ+0x400], R9",
        "BAR.SYNC.DEFER_BLOCKING 0x0",
        "LDS R10, [RZ+0x400]",
        "STG.E desc[UR4][R4.64], R10",
        "EXIT",
    ]);
    let values = run(&lines, 1, 64).unwrap();
    assert!(values.iter().all(|&value| value == 0x77), "{values:x?}");
}

#[test]
fn a_reduction_counts_all_threads() {
    let lines = program(&[
        "ISETP.LT.U32.AND P0, PT, R0, 0x21, PT",
        "BAR.RED.POPC.DEFER_BLOCKING 0x1, P0",
        "B2R.RESULT R9",
        "STG.E desc[UR4][R4.64], R9",
        "EXIT",
    ]);
    assert_eq!(run(&lines, 1, 64).unwrap()[40], 33);
}

#[test]
fn a_deadlock_is_named() {
    let lines = program(&[
        "ISETP.LT.U32.AND P0, PT, R0, 0x20, PT",
        "@P0 BAR.SYNC.DEFER_BLOCKING 0x1, 0x40",
        "@!P0 BAR.SYNC.DEFER_BLOCKING 0x2, 0x40",
        "EXIT",
    ]);
    let error = run(&lines, 1, 64).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Deadlock);
    assert!(error.message.contains("all 64 threads") && error.message.contains("barrier 1"), "{error}");
}

#[test]
fn a_part_of_a_warp_at_a_barrier_is_an_error() {
    let lines = program(&["ISETP.LT.U32.AND P0, PT, R0, 0x8, PT", "@P0 BAR.SYNC.DEFER_BLOCKING 0x1", "EXIT"]);
    let error = run(&lines, 1, 32).unwrap_err();
    assert!(error.kind == ErrorKind::Fault && error.message.contains("a part of a warp, 0x000000ff of 0xffffffff"), "{error}");
    // Exited threads do not count as missing.
    let lines = program(&["ISETP.LT.U32.AND P0, PT, R0, 0x8, PT", "@!P0 EXIT", "BAR.SYNC.DEFER_BLOCKING 0x1", "EXIT"]);
    run(&lines, 1, 32).unwrap();
}

#[test]
fn warpsync_of_a_thread_outside_of_its_mask_is_illegal() {
    let lines = program(&["MOV R9, 0xffff", "WARPSYNC R9", "EXIT"]);
    let error = run(&lines, 1, 32).unwrap_err();
    assert!(error.kind == ErrorKind::Fault && error.message.contains("not in the mask of its WARPSYNC, 0xffff"), "{error}");
    run(&lines, 1, 16).unwrap();
}

#[test]
fn warpsync_meets_at_one_instruction_only() {
    let lines = program(&["ISETP.LT.U32.AND P0, PT, R0, 0x8, PT", "@P0 BRA 0x80", "WARPSYNC.ALL", "EXIT", "WARPSYNC.ALL", "EXIT"]);
    let error = run(&lines, 1, 32).unwrap_err();
    assert!(error.kind == ErrorKind::Deadlock && error.message.contains("WARPSYNC"), "{error}");
}

#[test]
fn collectives_meet_at_different_instructions() {
    // Both groups vote together at one of the two places, then each continues after its own `WARPSYNC.COLLECTIVE`.
    let lines = program(&[
        "ISETP.LT.U32.AND P0, PT, R0, 0x8, PT",
        "@P0 BRA 0xb0",
        "WARPSYNC.COLLECTIVE.ALL 0x90",
        "VOTE.ANY R9, PT, PT",
        "ENDCOLLECTIVE",
        "MOV R10, 0x1",
        "BRA 0xf0",
        "WARPSYNC.COLLECTIVE.ALL 0xe0",
        "VOTE.ANY R9, PT, PT",
        "ENDCOLLECTIVE",
        "MOV R10, 0x2",
        "LOP3.LUT R9, R9, R10, RZ, 0x3c, !PT",
        "STG.E desc[UR4][R4.64], R9",
        "EXIT",
    ]);
    let values = run(&lines, 1, 32).unwrap();
    assert_eq!((values[0], values[31]), (!0 ^ 2, !0 ^ 1));
}

#[test]
fn barrier_set_twice_keeps_its_waiting_threads() {
    // Threads below 8 wait at the barrier while the others execute its `BSSY` again.
    let lines = program(&[
        "MOV R8, 0x0",
        "BSSY B0, 0xd0",
        "ISETP.LT.U32.AND P0, PT, R0, 0x8, PT",
        "@P0 BRA 0xc0",
        "ISETP.EQ.U32.AND P1, PT, R8, 0x2, PT",
        "@P1 BRA 0xc0",
        "IADD3 R8, R8, 0x1, RZ",
        "BRA 0x50",
        "BSYNC B0",
        "VOTE.ANY R9, PT, PT",
        "STG.E desc[UR4][R4.64], R9",
        "EXIT",
    ]);
    assert!(run(&lines, 1, 32).unwrap()[..32].iter().all(|&value| value == !0));
}

/// Threads from 8 on save and reuse `B6`, as a called function does, while the others wait at `wait`.
fn function_in_a_region<'a>(save: &'a str, restore: &'a str, [set, wait]: [&'a str; 2]) -> Vec<&'a str> {
    program(&[
        "MOV R7, 0x0",
        "BSSY B6, 0x130",
        set,
        "ISETP.LT.U32.AND P0, PT, R0, 0x8, PT",
        "@P0 BRA 0x110",
        save,
        "BSSY B6, 0xf0",
        "ISETP.LT.U32.AND P1, PT, R0, 0x10, PT",
        "@P1 BRA 0xe0",
        "NOP",
        "BSYNC B6",
        "VOTE.ANY R7, PT, PT",
        restore,
        wait,
        "BSYNC B6",
        "VOTE.ANY R8, PT, PT",
        "IADD3 R7, R7, R8, RZ",
        "STG.E desc[UR4][R4.64], R7",
        "EXIT",
    ])
}

const INNER_REGION: [&str; 2] = ["BSSY B7, 0x120", "BSYNC B7"];
const NO_REGION: [&str; 2] = ["NOP", "NOP"];

#[test]
fn function_waits_for_all_its_callers() {
    for region in [INNER_REGION, NO_REGION] {
        let code = assemble(&function_in_a_region("BMOV.32.CLEAR R9, B6", "BMOV.32 B6, R9", region));
        for order in 0..9 {
            let values = launch_with(&code, 1, 32, &GridOptions { order, ..GridOptions::limited(1 << 20) }).unwrap();
            let expected = |thread| if thread < 8 { !0 } else { 0xffff_ff00_u32.wrapping_add(!0) };
            assert!((0..32).all(|thread| values[thread] == expected(thread)), "order {order}: {values:x?}");
        }
    }
}

#[test]
fn threads_that_wait_for_each_other_at_two_barriers_go_on() {
    // On an H200 each half of the warp continues alone.
    let lines = program(&[
        "BSSY B6, 0xb0",
        "BSSY B7, 0xb0",
        "ISETP.GE.U32.AND P0, PT, R0, 0x10, PT",
        "@P0 BRA 0xa0",
        "BSYNC B6",
        "BRA 0xb0",
        "BSYNC B7",
        "VOTE.ANY R9, PT, PT",
        "STG.E desc[UR4][R4.64], R9",
        "EXIT",
    ]);
    let values = run(&lines, 1, 32).unwrap();
    assert_eq!((values[0], values[31]), (0xffff, 0xffff_0000));
}

/// Half of a warp waits at B0 for the other half, which executes `other` first. Words 0 to 31 get each thread's vote after `BSYNC`.
fn half_waits(other: &[&str]) -> Vec<u32> {
    let meet = format!("BRA {:#x}", 16 * (8 + other.len()));
    let region = format!("BSSY B0, {:#x}", 16 * (9 + other.len()));
    let start = [region.as_str(), "ISETP.GE.U32.AND P0, PT, R0, 0x10, PT", "@P0 BRA 0x80", meet.as_str()];
    let end = ["BSYNC B0", "VOTE.ANY R9, PT, PT", "STG.E desc[UR4][R4.64], R9", "EXIT"];
    let lines: Vec<&str> = start.iter().chain(other).chain(&end).copied().collect();
    run(&program(&lines), 1, 32).unwrap()
}

#[test]
fn waits_match_an_h200() {
    let together = (!0, !0);
    let apart = (0xffff, 0xffff_0000);
    let seen = |other: &[&str]| {
        let values = half_waits(other);
        (values[0], values[31])
    };
    assert_eq!(seen(&["NOP"]), together);
    assert_eq!(seen(&["YIELD"]), apart, "nobody waits for those that gave way, nor do they wait");
    assert_eq!(seen(&["NANOSLEEP 0x20"]), apart);
    assert_eq!(seen(&["BREAK B0"]), apart);
    assert_eq!(seen(&["WARPSYNC.ALL"]), apart, "the others come to `EXIT` only");
    assert_eq!(seen(&["BMOV.32.CLEAR R9, B0", "NOP"]), apart, "the mask is empty for all");
    assert_eq!(seen(&["BMOV.32.CLEAR R9, B0", "BMOV.32 B0, R9"]), together, "moves wake nobody");
    assert_eq!(seen(&["BMOV.32.CLEAR R9, B0", "YIELD", "BMOV.32 B0, R9"]), apart);
}

#[test]
fn a_move_to_a_barrier_takes_the_first_threads_word() {
    let lines = program(&[
        "IADD3 R6, R0, 0x5, RZ",
        "BMOV.32 B2, R6",
        "BMOV.32 R7, B2",
        "ISETP.GE.U32.AND P0, PT, R0, 0x10, PT",
        "@P0 BMOV.32 B2, R6",
        "BMOV.32 R9, B2",
        "STG.E desc[UR4][R4.64], R7",
        "STG.E desc[UR4][R4.64+0x80], R9",
        "EXIT",
    ]);
    let values = run(&lines, 1, 32).unwrap();
    assert!((0..32).all(|thread| (values[thread], values[32 + thread]) == (5, 0x15)), "{values:x?}");
}

#[test]
fn threads_run_until_they_wait_or_yield() {
    // The part that runs first spins on a value that the other part writes, without yielding.
    let lines = |yields: &'static str| {
        program(&[
            "ISETP.GE.U32.AND P0, PT, R0, 0x10, PT",
            "MOV R6, 0x0",
            "MOV R9, 0x1",
            "@P0 BRA 0xd0",
            yields,
            "LDG.E.STRONG.GPU R7, desc[UR4][R2.64+0xfc]",
            "IADD3 R6, R6, 0x1, RZ",
            "ISETP.EQ.U32.AND P1, PT, R7, RZ, PT",
            "@P1 BRA 0x80",
            "STG.E.STRONG.GPU desc[UR4][R2.64+0xfc], R9",
            "EXIT",
        ])
    };
    let error = run(&lines("NOP"), 1, 32).unwrap_err();
    assert!(error.kind == ErrorKind::TooLong, "{error}");
    assert_eq!(run(&lines("YIELD"), 1, 32).unwrap()[63], 1);
}

/// Two parts of a warp wait for each other at two registers, and a third part spins until both have stored. On an H200 the third part needs
/// two iterations; here both others may run before its first one ends.
#[test]
fn parts_that_wait_for_each_other_continue_when_the_last_one_yields() {
    let lines = |yields: &'static str| {
        program(&[
            "ISETP.LT.U32.AND P0, PT, R0, 0x8, PT",
            "MOV R9, 0x1",
            "MOV R6, 0x0",
            "@P0 BRA 0x120",
            "BSSY B1, 0x110",
            "BSSY B2, 0x110",
            "ISETP.LT.U32.AND P1, PT, R0, 0x10, PT",
            "@P1 BRA 0xf0",
            "BSYNC B1",
            "STG.E.STRONG.GPU desc[UR4][R2.64+0xf8], R9",
            "EXIT",
            "BSYNC B2",
            "STG.E.STRONG.GPU desc[UR4][R2.64+0xfc], R9",
            "EXIT",
            yields,
            "LDG.E.STRONG.GPU R7, desc[UR4][R2.64+0xf8]",
            "LDG.E.STRONG.GPU R8, desc[UR4][R2.64+0xfc]",
            "IADD3 R6, R6, 0x1, RZ",
            "IADD3 R7, R7, R8, RZ",
            "ISETP.LT.U32.AND P1, PT, R7, 0x2, PT",
            "@P1 BRA 0x120",
            "STG.E desc[UR4][R4.64], R6",
            "EXIT",
        ])
    };
    let error = run(&lines("NOP"), 1, 32).unwrap_err();
    assert!(error.kind == ErrorKind::TooLong && error.to_string().contains("warp 0 threads 000000ff at k+0x"), "{error}");
    let values = run(&lines("YIELD"), 1, 32).unwrap();
    assert!(values[..8].iter().all(|&iterations| (1..=2).contains(&iterations)) && values[62..] == [1, 1], "{values:?}");
}

#[test]
fn other_orders_give_the_same() {
    let lines = program(&[
        "ISETP.LT.U32.AND P0, PT, R0, 0x8, PT",
        "BSSY B0, 0x90",
        "@P0 BRA 0x80",
        "IADD3 R0, R0, 0x64, RZ",
        "BSYNC B0",
        "STG.E desc[UR4][R4.64], R0",
        "EXIT",
    ]);
    let code = assemble(&lines);
    let of = |order| launch_with(&code, 2, 64, &GridOptions { order, ..GridOptions::limited(1 << 20) }).unwrap();
    assert!((1..9).all(|order| of(order) == of(0)));
}

#[test]
fn errors_say_where() {
    let lines = program(&["LDG.E R9, desc[UR4][R4.64+0x100]", "EXIT"]);
    let text = run(&lines, 2, 32).unwrap_err().to_string();
    assert!(
        text.contains("(buffer+0x100)") && text.contains("k+0x40 `LDG.E R9") && text.contains("block (0,0,0) thread (0,0,0)"),
        "{text}"
    );
    let lines = program(&["LDS R9, [R0]", "EXIT"]);
    let text = run(&lines, 1, 32).unwrap_err().to_string();
    assert!(text.contains("4 bytes at 0x1 of shared memory are not aligned") && text.contains("thread (1,0,0)"), "{text}");
    let error = run(&program(&["BRA 0x40"]), 1, 32).unwrap_err();
    assert_eq!(error.kind, ErrorKind::TooLong);
    let error = run(&program(&["NOP"]), 1, 32).unwrap_err();
    assert!(error.kind == ErrorKind::Fault && error.to_string().contains("no code here"), "{error}");
    let error = run(&program(&["MOV R30, R40", "EXIT"]), 1, 32).unwrap_err();
    assert!(error.kind == ErrorKind::Unsupported && error.to_string().contains("R40 beyond the 32"), "{error}");
}

#[test]
fn no_word_makes_it_panic() {
    // Keep the fixed bits of the form, fill the others at random, and skip words that do not decode to the form's opcode.
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        u128::from(state >> 16)
    };
    let (mut executed, mut failed, mut panics) = (0, 0, Vec::new());
    for name in ["sm_75", "sm_86", "sm_90a", "sm_100a", "sm_120a"] {
        let target = Target::parse(name).unwrap();
        let exit = encode(&oriole_isa::parse("EXIT").unwrap(), target).unwrap();
        let nop = encode(&oriole_isa::parse("NOP").unwrap(), target).unwrap();
        let mut file = file_of(target, &[nop, exit, exit]);
        let place = file.windows(16).position(|bytes| bytes == nop.to_le_bytes()).expect("the first instruction");
        for id in oriole_isa::table::FormId::all() {
            let form = id.form();
            for round in 0..3 {
                let noise = random() << 84 ^ random() << 42 ^ random();
                // Guards are true in most rounds, and register numbers small.
                let noise = if round == 0 {
                    noise
                } else {
                    noise & !(0xf << 12) & !(0xe0 << 16) & !(0xe0 << 24) & !(0xe0 << 32) & !(0xe0 << 64) | 7 << 12
                };
                let word = form.value | noise & !form.mask;
                if decode(word, target).is_none_or(|instruction| instruction.opcode != form.opcode) {
                    continue;
                }
                file[place..place + 16].copy_from_slice(&word.to_le_bytes());
                let code = Code::load(&file).unwrap();
                match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| launch(&code, 1, 40).is_ok())) {
                    Ok(true) => executed += 1,
                    Ok(false) => failed += 1,
                    Err(_) => panics.push(format!("{name}: {}", oriole_isa::print(word, target, 0).unwrap_or_default())),
                }
            }
        }
    }
    assert!(panics.is_empty(), "{} words, among them\n{}", panics.len(), panics[..panics.len().min(20)].join("\n"));
    assert!(executed > 1800 && failed > 375, "{executed} words executed, {failed} failed with an error");
}
