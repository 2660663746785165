//! Tests of the interpreter's thread model: divergence, forward progress, synchronization, calls, printing.

use oriole_sim::ptx::{FindingKind, PtxError, PtxOptions, PtxProgram, PtxReport};
use oriole_sim::{GlobalMemory, Launch};

struct Run {
    words: Vec<u32>,
    report: PtxReport,
}

/// Runs a kernel `k` with one buffer of 256 zero words. The run must have no findings.
#[track_caller]
fn run(declarations: &str, body: &str, threads: u32, blocks: u32) -> Run {
    let outcome = run_with_findings(declarations, body, threads, blocks);
    assert!(outcome.report.findings.is_empty(), "{}", outcome.report.findings[0]);
    outcome
}

/// Runs a kernel like [`run`], which may have findings.
#[track_caller]
fn run_with_findings(declarations: &str, body: &str, threads: u32, blocks: u32) -> Run {
    let text = format!(
        ".version 8.5\n.target sm_90\n.address_size 64\n{declarations}\n.visible .entry k(.param .u64 out)\n{{\n\
         .reg .pred %p<9>; .reg .b32 %r<19>; .reg .b64 %rd<19>; .reg .u64 %out, %at; .reg .u32 %t, %b;\n\
         ld.param.u64 %out, [out];\nmov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mad.wide.u32 %at, %t, 4, %out;\n{body}\nret;\n}}\n"
    );
    let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
    assert!(checked.is_valid(), "{:?}\n{text}", checked.diagnostics);
    let program = PtxProgram::new(&checked.module, text.as_bytes()).unwrap();
    let mut memory = GlobalMemory::new();
    let out = memory.allocate("out", vec![0; 1024]);
    let arguments = vec![out.to_le_bytes().to_vec()];
    let launch = Launch { kernel: "k".into(), grid: [blocks, 1, 1], block: [threads, 1, 1], cluster: None, shared_bytes: 0, arguments };
    let options = PtxOptions { most_steps: 50_000_000, ..PtxOptions::default() };
    let report = program.load(&mut memory).run(&launch, &mut memory, &options).unwrap_or_else(|error| panic!("{error}"));
    let bytes = memory.contents(out).unwrap();
    Run { words: bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect(), report }
}

/// A spin lock in global memory that every thread acquires once, to increment a counter without atomic additions.
const LOCK: &str = "TAKE:\natom.acquire.gpu.global.cas.b32 %r1, [%out], 0, 1;\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra TAKE;\n\
                    ld.global.u32 %r2, [%out+4];\nadd.u32 %r2, %r2, 1;\nst.global.u32 [%out+4], %r2;\n\
                    atom.release.gpu.global.exch.b32 %r3, [%out], 0;";

#[test]
fn a_lock_between_threads_of_a_warp() {
    assert_eq!(run("", LOCK, 32, 1).words[1], 32);
}

#[test]
fn a_lock_between_warps_and_blocks() {
    assert_eq!(run("", LOCK, 128, 3).words[1], 384);
}

#[test]
fn a_block_waits_for_a_later_one() {
    let body = "setp.eq.u32 %p1, %b, 5;\n@%p1 bra TELL;\nWAIT:\nld.acquire.gpu.global.u32 %r1, [%out];\nsetp.eq.u32 %p2, %r1, 0;\n\
                @%p2 bra WAIT;\nred.global.add.u32 [%out+4], 1;\nbra END;\nTELL:\nst.release.gpu.global.u32 [%out], 1;\nEND:";
    assert_eq!(run("", body, 1, 6).words[1], 5);
}

#[test]
fn a_grid_meets_at_a_counter() {
    let body = "bar.sync 0;\nsetp.ne.u32 %p1, %t, 0;\n@%p1 bra MEET;\natom.acq_rel.gpu.global.add.u32 %r1, [%out], 1;\n\
                SPIN:\nld.acquire.gpu.global.u32 %r2, [%out];\nsetp.lt.u32 %p2, %r2, 20;\n@%p2 bra SPIN;\nMEET:\nbar.sync 0;\n\
                red.global.add.u32 [%out+4], 1;";
    assert_eq!(run("", body, 64, 20).words[1], 1280);
}

#[test]
fn one_thread_sleeps_until_another_of_its_warp_is_done() {
    let body = "setp.ne.u32 %p1, %t, 3;\n@%p1 bra WORK;\nWAIT:\nnanosleep.u32 100;\nld.relaxed.gpu.global.u32 %r1, [%out];\n\
                setp.lt.u32 %p2, %r1, 31;\n@%p2 bra WAIT;\nst.global.u32 [%out+4], 7;\nbra END;\nWORK:\nred.global.add.u32 [%out], 1;\nEND:";
    assert_eq!(run("", body, 32, 1).words[..2], [31, 7]);
}

#[test]
fn threads_reconverge_after_a_branch() {
    let body = "and.b32 %r1, %t, 1;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra EVEN;\nactivemask.b32 %r2;\nbra JOIN;\nEVEN:\nactivemask.b32 %r2;\n\
                JOIN:\nactivemask.b32 %r3;\nxor.b32 %r2, %r2, %r3;\nst.global.u32 [%at], %r2;";
    let words = run("", body, 32, 1).words;
    assert_eq!(words[..2], [0xaaaa_aaaa, 0x5555_5555]);
}

#[test]
fn threads_reconverge_after_a_loop_and_a_call() {
    let function = ".func (.param .b32 r) f(.param .b32 a) { .reg .b32 %x; .reg .pred %p; ld.param.b32 %x, [a];\n\
                    LOOP: sub.u32 %x, %x, 1; setp.gt.s32 %p, %x, 0; @%p bra LOOP; st.param.b32 [r], %x; ret; }";
    let body = "add.u32 %r1, %t, 1;\n{ .param .b32 a; .param .b32 r;\nst.param.b32 [a], %r1;\ncall (r), f, (a);\nld.param.b32 %r2, [r]; }\n\
                activemask.b32 %r3;\nst.global.u32 [%at], %r3;";
    assert_eq!(run(function, body, 32, 1).words[..32], [u32::MAX; 32]);
}

#[test]
fn a_vote_in_both_arms_of_a_branch() {
    let body = "setp.lt.u32 %p1, %t, 10;\n@%p1 bra LOW;\nvote.sync.ballot.b32 %r1, %p1, 0xffffffff;\nbra END;\nLOW:\n\
                vote.sync.ballot.b32 %r1, %p1, 0xffffffff;\nEND:\nst.global.u32 [%at], %r1;";
    assert_eq!(run("", body, 32, 1).words[..32], [0x3ff; 32]);
}

#[test]
fn matrices_are_loaded_and_stored_transposed() {
    let area = ".shared .align 16 .b8 area[256];";
    let body = "mov.u32 %r1, area;\nmad.lo.u32 %r2, %t, 4, %r1;\nmul.lo.u32 %r3, %t, 2;\nadd.u32 %r4, %r3, 1;\nshl.b32 %r4, %r4, 16;\n\
                or.b32 %r3, %r3, %r4;\nst.shared.u32 [%r2], %r3;\nbar.sync 0;\nand.b32 %r5, %t, 7;\nmad.lo.u32 %r5, %r5, 16, %r1;\n\
                ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r6}, [%r5];\nst.global.u32 [%at], %r6;\n\
                ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r7}, [%r5];\nst.global.u32 [%at+128], %r7;\nadd.u32 %r8, %r5, 128;\n\
                stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%r8], {%r7};\nbar.sync 0;\nld.shared.u32 %r9, [%r2+128];\nst.global.u32 [%at+256], %r9;";
    let words = run(area, body, 32, 1).words;
    for thread in 0..32 {
        let (row, column) = (thread / 4, 2 * (thread % 4));
        let transposed = (8 * (column + 1) + row) << 16 | (8 * column + row);
        assert_eq!(words[thread as usize], transposed);
        assert_eq!(words[32 + thread as usize], (2 * thread + 1) << 16 | (2 * thread));
        assert_eq!(words[64 + thread as usize], transposed);
    }
}

#[test]
fn copies_happen_when_they_are_waited_for() {
    let area = ".shared .align 16 .b8 area[512];";
    let copy = "mov.u32 %r1, area;\nmad.lo.u32 %r2, %t, 4, %r1;\nadd.u32 %r3, %t, 100;\nst.global.u32 [%at], %r3;\n\
                st.shared.u32 [%r2], 7;\nst.shared.u32 [%r2+128], 8;\nand.b32 %r4, %t, 3;\n\
                cp.async.ca.shared.global [%r2], [%at], 4;\ncp.async.commit_group;\n\
                cp.async.ca.shared.global [%r2+128], [%at], 4, %r4;\ncp.async.commit_group;\n";
    let read = "ld.shared.u32 %r5, [%r2];\nld.shared.u32 %r6, [%r2+128];\nmad.lo.u32 %r5, %r5, 1000, %r6;\nst.global.u32 [%at], %r5;";
    let outcome = |wait: &str| run_with_findings(area, &format!("{copy}{wait}{read}"), 32, 1);
    // Without a wait for a copy the old contents are read, which is reported.
    let [none, first, all] = ["", "cp.async.wait_group 1;\n", "cp.async.wait_all;\n"].map(outcome);
    let is_reported = |one: &Run| one.report.findings.iter().any(|finding| finding.kind == FindingKind::AsyncAccess);
    assert_eq!([&none, &first, &all].map(is_reported), [true, true, false]);
    let [none, first, all] = [none.words, first.words, all.words];
    assert_eq!(none[..32], [7008; 32]);
    for thread in 0..32_u32 {
        let value = 100 + thread;
        assert_eq!(first[thread as usize], 1000 * value + 8);
        let kept = value & ((1 << (8 * (thread % 4))) - 1);
        assert_eq!(all[thread as usize], 1000 * value + kept);
    }
}

#[test]
fn printing() {
    let declarations = ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n\
                        .global .align 1 .b8 format[9] = {37, 117, 32, 37, 108, 120, 10, 0};";
    let body = ".local .align 8 .b8 area[16];\nmov.u64 %rd1, area;\nst.local.u32 [area], %t;\nst.local.u64 [area+8], 0x1234567890;\n\
                cvta.local.u64 %rd1, %rd1;\nmov.u64 %rd2, format;\ncvta.global.u64 %rd2, %rd2;\n{ .param .b64 f; .param .b64 a; .param .b32 r;\n\
                st.param.b64 [f], %rd2;\nst.param.b64 [a], %rd1;\ncall (r), vprintf, (f, a);\nld.param.b32 %r1, [r]; }\nst.global.u32 [%at], %r1;";
    let outcome = run(declarations, body, 2, 1);
    assert_eq!(outcome.report.output, "0 1234567890\n1 1234567890\n");
    assert_eq!(outcome.words[..2], [2, 2]);
}

#[test]
fn the_same_launch_gives_the_same_result() {
    let body = "LOOP:\natom.global.add.u32 %r1, [%out+4], 1;\nand.b32 %r2, %r1, 7;\nsetp.ne.u32 %p1, %r2, %t;\nsetp.lt.u32 %p2, %r1, 3000;\n\
                and.pred %p3, %p1, %p2;\n@%p3 bra LOOP;\natom.global.add.u32 %r3, [%out], 1;\nand.b32 %r3, %r3, 127;\n\
                mad.wide.u32 %rd1, %r3, 4, %out;\nst.global.u32 [%rd1+64], %t;";
    assert_eq!(run("", body, 64, 2).words, run("", body, 64, 2).words);
}

#[test]
fn launches_that_do_not_fit_are_refused() {
    let text =
        b".version 8.1\n.target sm_90\n.address_size 64\n.entry k(.param .u64 a) .maxntid 64 { ret; }\n.entry t() { .reg .b32 %r; .reg .b64 %d;\n\
                 multimem.red.global.add.u32 [%d], %r; ret; }\n.entry c() .reqnctapercluster 2 { .reg .b32 %r; .reg .b64 %d; mapa.u64 %d, %d, %r; ret; }";
    let checked = oriole_ptx::check(text, &oriole_ptx::Options::default());
    assert!(checked.is_valid());
    let program = PtxProgram::new(&checked.module, text).unwrap();
    assert_eq!(program.kernels(), ["c", "k", "t"]);
    let mut memory = GlobalMemory::new();
    let loaded = program.load(&mut memory);
    let launch = Launch { kernel: "k".into(), grid: [1; 3], block: [1; 3], cluster: None, shared_bytes: 0, arguments: vec![vec![0; 8]] };
    let mut fails = |launch: &Launch| loaded.run(launch, &mut memory, &PtxOptions::default()).unwrap_err();
    assert!(matches!(fails(&Launch { kernel: "x".into(), ..launch.clone() }), PtxError::Launch(_)));
    assert!(matches!(fails(&Launch { arguments: Vec::new(), ..launch.clone() }), PtxError::Launch(_)));
    assert!(matches!(fails(&Launch { arguments: vec![vec![0; 4]], ..launch.clone() }), PtxError::Launch(_)));
    assert!(matches!(fails(&Launch { block: [1025, 1, 1], ..launch.clone() }), PtxError::Launch(_)));
    assert!(matches!(fails(&Launch { block: [5, 13, 1], ..launch.clone() }), PtxError::Launch(_)));
    let of_clusters = Launch { kernel: "c".into(), grid: [3, 1, 1], arguments: Vec::new(), ..launch.clone() };
    assert!(matches!(fails(&of_clusters), PtxError::Launch(_)));
    let of_other_clusters = Launch { grid: [4, 1, 1], cluster: Some([4, 1, 1]), ..of_clusters };
    assert!(matches!(fails(&of_other_clusters), PtxError::Launch(_)));
    let unsupported = fails(&Launch { kernel: "t".into(), arguments: Vec::new(), ..launch.clone() });
    assert_eq!(unsupported, PtxError::Unsupported { feature: "multimem.red.global.add.u32".to_owned(), line: 6 });
}
