//! Each kind of undefined behaviour: programs that must be reported, and similar programs that must not.

use oriole_sim::ptx::{FindingKind, PtxError, PtxOptions, PtxProgram, UndefinedBehavior};
use oriole_sim::{GlobalMemory, Launch};

/// Runs a kernel `k` with one buffer of 64 words as its only parameter. Returns all findings, with a fault last.
fn findings_with(declarations: &str, body: &str, threads: u32, blocks: u32, options: &PtxOptions) -> Vec<UndefinedBehavior> {
    let text = format!(
        ".version 8.5\n.target sm_90\n.address_size 64\n{declarations}\n.visible .entry k(.param .u64 out)\n{{\n\
         .reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<19>; .reg .b64 %rd<19>; .reg .u64 %out, %at; .reg .u32 %t, %lane;\n\
         ld.param.u64 %out, [out];\nmov.u32 %t, %tid.x; mov.u32 %lane, %laneid; mad.wide.u32 %at, %t, 4, %out;\n{body}\nret;\n}}\n"
    );
    let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
    assert!(checked.is_valid(), "{:?}\n{text}", checked.diagnostics);
    let program = PtxProgram::new(&checked.module, text.as_bytes()).unwrap();
    let mut memory = GlobalMemory::new();
    let out = memory.allocate("out", vec![0; 256]);
    let arguments = vec![out.to_le_bytes().to_vec()];
    let launch = Launch { kernel: "k".into(), grid: [blocks, 1, 1], block: [threads, 1, 1], cluster: None, shared_bytes: 0, arguments };
    match program.load(&mut memory).run(&launch, &mut memory, options) {
        Ok(report) => report.findings,
        Err(PtxError::Fault { fault, mut earlier }) => {
            earlier.push(fault);
            earlier
        }
        Err(error) => panic!("{error}\n{text}"),
    }
}

fn findings(declarations: &str, body: &str, threads: u32) -> Vec<UndefinedBehavior> {
    findings_with(declarations, body, threads, 1, &PtxOptions::default())
}

/// Checks that the program has findings of exactly this kind, the first in the line marked with `// here`.
#[track_caller]
fn reported(kind: FindingKind, declarations: &str, body: &str, threads: u32) -> UndefinedBehavior {
    let found = findings(declarations, body, threads);
    let first = found.first().unwrap_or_else(|| panic!("nothing is reported"));
    assert!(found.iter().all(|finding| finding.kind == kind), "{found:?}");
    assert_eq!(first.line, marked_line(declarations, body), "{first}");
    assert_eq!(first.kernel, "k");
    first.clone()
}

/// Checks that the program has a race and that the marked line is one of the two accesses. Further findings are allowed, because a racing
/// load may also return an undefined value.
#[track_caller]
fn races(declarations: &str, body: &str, threads: u32) -> UndefinedBehavior {
    let found = findings(declarations, body, threads);
    let line = marked_line(declarations, body);
    let other = format!("in line {line} without");
    let race = found.iter().find(|finding| finding.kind == Race && (finding.line == line || finding.message.contains(&other)));
    race.unwrap_or_else(|| panic!("no race is reported: {found:?}")).clone()
}

fn marked_line(declarations: &str, body: &str) -> u32 {
    let text = format!("{declarations}\n\n\n\n\n\n{body}");
    4 + text.lines().position(|line| line.contains("// here")).expect("a line is marked") as u32
}

#[track_caller]
fn clean(declarations: &str, body: &str, threads: u32) {
    let found = findings(declarations, body, threads);
    assert!(found.is_empty(), "{}", found[0]);
}

use FindingKind::*;

const AREA: &str = ".shared .align 16 .b8 area[256];";

#[test]
fn uninitialized_values() {
    reported(Uninitialized, "", "add.u32 %r1, %r2, 1;\nst.global.u32 [%at], %r1; // here", 32);
    reported(Uninitialized, "", "setp.eq.u32 %p1, %r1, 0;\n@%p1 st.global.u32 [%at], 1; // here", 32);
    reported(Uninitialized, "", "@%p3 bra END; // here\nst.global.u32 [%at], 1;\nEND:", 32);
    let found = findings("", "add.u64 %rd1, %out, %rd2;\nst.global.u32 [%rd1], 1;", 1);
    assert_eq!(found[0].kind, Uninitialized, "{}", found[0]);
    reported(Uninitialized, AREA, "ld.shared.u32 %r1, [area];\nst.global.u32 [%at], %r1; // here", 1);
    reported(Uninitialized, "", "mov.b64 %rd1, {%t, %r1};\nmov.b64 {%r2, %r3}, %rd1;\nst.global.u32 [%at], %r3; // here", 32);
    reported(Uninitialized, "", ".local .b32 v[2];\nst.local.u32 [v], 1;\nld.local.u32 %r1, [v+4];\nst.global.u32 [%at], %r1; // here", 1);
    reported(Uninitialized, "", "or.b32 %r9, %r8, 1;\nbar.warp.sync %r9; // here", 1);
}

#[test]
fn values_that_are_undefined_but_decide_nothing() {
    clean("", "mov.u32 %r1, %r2;\nadd.u32 %r3, %r1, 1;\nst.global.u32 [%at], %t;", 32);
    clean("", "mov.b64 %rd1, {%t, %r1};\nmov.b64 {%r2, %r3}, %rd1;\nst.global.u32 [%at], %r2;", 32);
    clean("", "and.b32 %r1, %r2, 0;\nst.global.u32 [%at], %r1;", 32);
    clean("", "or.b32 %r1, %r2, 0xff;\nand.b32 %r1, %r1, 0x0f;\nst.global.u32 [%at], %r1;", 32);
    clean("", "setp.ge.u32 %p1, %t, 0;\nselp.u32 %r1, %t, %r2, %p1;\nst.global.u32 [%at], %r1;", 32);
    clean("", ".local .b32 v[2];\nst.local.u32 [v], %r1;\nst.local.u32 [v], %t;\nld.local.u32 %r2, [v];\nst.global.u32 [%at], %r2;", 32);
    clean("", "shl.b32 %r1, %r2, 16;\nmov.u32 %r3, 7;\nmov.b32 {%h1, %h2}, %r1;\nmov.b32 %r4, {%h1, 0};\nst.global.u32 [%at], %r4;", 4);
    let off = PtxOptions { undefined_values: false, ..PtxOptions::default() };
    assert!(findings_with("", "st.global.u32 [%at], %r1;", 1, 1, &off).is_empty());
}

#[test]
fn parameters_keep_track_of_undefined_values() {
    let function =
        ".func (.param .b32 r) f(.param .b32 a, .param .b32 b) { .reg .b32 %x; ld.param.b32 %x, [b]; st.param.b32 [r], %x; ret; }";
    let call = |given: &str| {
        format!(
            "{{ .param .b32 a; .param .b32 b; .param .b32 r;\nst.param.b32 [{given}], 5;\ncall (r), f, (a, b);\nld.param.b32 %r1, [r]; }}\n\
             st.global.u32 [%at], %r1; // here"
        )
    };
    reported(Uninitialized, function, &call("a"), 32);
    clean(function, &call("b"), 32);
}

#[test]
fn out_of_bounds() {
    let found = reported(OutOfBounds, "", "st.global.u32 [%out+256], 1; // here", 1);
    assert!(found.message.contains("256 bytes after the start of out"), "{found}");
    reported(OutOfBounds, AREA, "mov.u32 %r1, area;\nst.shared.u32 [%r1+256], 1; // here", 1);
    reported(OutOfBounds, "", "mov.u64 %rd1, 0;\nld.global.u32 %r1, [%rd1]; // here", 1);
    reported(OutOfBounds, "", ".local .b32 v[4];\nmov.u64 %rd1, v;\nld.local.u32 %r1, [%rd1+4096]; // here", 1);
    reported(OutOfBounds, ".const .b32 c[4];", "mov.u64 %rd1, c;\nld.const.u32 %r1, [%rd1+16]; // here", 1);
    reported(OutOfBounds, "", "ld.param.u64 %rd1, [out+8]; // here", 1);
    reported(OutOfBounds, AREA, "mov.u64 %rd1, area;\ncvta.shared.u64 %rd1, %rd1;\nld.u32 %r1, [%rd1+-4]; // here", 1);
    clean(AREA, "mov.u32 %r1, area;\nst.shared.u32 [%r1+252], 1;\nst.global.u32 [%out+252], 1;", 1);
    clean(".const .b32 c[4];", "mov.u64 %rd1, c;\nld.const.u32 %r1, [%rd1+12];\nst.global.u32 [%out], %r1;", 1);
}

#[test]
fn misaligned_accesses() {
    let found = reported(Misaligned, "", "st.global.u32 [%out+2], 1; // here", 1);
    assert_eq!((found.block, found.thread), ([0; 3], [0; 3]));
    reported(Misaligned, AREA, "mov.u32 %r1, area;\nst.shared.v2.u32 [%r1+4], {%t, %t}; // here", 1);
    reported(Misaligned, "", ".local .b64 v[4];\nld.local.u64 %rd1, [v+4]; // here", 1);
    reported(Misaligned, "", "atom.global.add.u32 %r1, [%out+1], 1; // here", 1);
    clean("", "st.global.u16 [%out+2], 1;\nst.global.u8 [%out+3], 1;", 1);
    clean(AREA, "mov.u32 %r1, area;\nst.shared.v2.u32 [%r1+8], {%t, %t};", 1);
}

#[test]
fn read_only_memory() {
    let constant = ".const .b32 c[4];";
    reported(ReadOnly, constant, "mov.u64 %rd1, c;\ncvta.const.u64 %rd1, %rd1;\nst.u32 [%rd1], 1; // here", 1);
    reported(ReadOnly, constant, "mov.u64 %rd1, c;\ncvta.const.u64 %rd1, %rd1;\natom.add.u32 %r1, [%rd1], 1; // here", 1);
    clean(constant, "mov.u64 %rd1, c;\ncvta.const.u64 %rd1, %rd1;\nld.u32 %r1, [%rd1];\nst.global.u32 [%out], %r1;", 1);
}

#[test]
fn divergent_barriers() {
    let odd = "and.b32 %r1, %t, 1;\nsetp.eq.u32 %p1, %r1, 1;\n";
    reported(DivergentBarrier, "", &format!("{odd}@%p1 bra ODD;\nbar.sync 0;\nbra END;\nODD:\nbar.sync 0; // here\nEND:"), 64);
    reported(
        DivergentBarrier,
        "",
        "setp.ge.u32 %p1, %t, 32;\nsetp.lt.u32 %p2, %t, 16;\n@%p1 bra WAIT;\n@!%p2 bra END;\nWAIT:\nbar.sync 0, 32; // here\nEND:\nbarrier.sync 1;",
        64,
    );
    clean("", &format!("{odd}@%p1 bra ODD;\nbarrier.sync 0;\nbra END;\nODD:\nbarrier.sync 0;\nEND:"), 64);
    clean(
        "",
        &format!("{odd}@%p1 bra ODD;\nmov.u32 %r2, 1;\nbra END;\nODD:\nmov.u32 %r2, 2;\nEND:\nbar.sync 0;\nst.global.u32 [%at], %r2;"),
        64,
    );
    clean("", "setp.lt.u32 %p1, %t, 40;\n@%p1 ret;\nbar.sync 0;", 64);
    // The same for the barrier of a cluster: both halves of the warp execute one aligned instruction, at different times, or two.
    let wait = "barrier.cluster.wait.aligned;";
    reported(
        DivergentBarrier,
        "",
        &format!(
            "{odd}@%p1 bra ODD;\nbarrier.cluster.arrive.aligned;\nbra END;\nODD:\nbarrier.cluster.arrive.aligned; // here\nEND:\n{wait}"
        ),
        64,
    );
    clean("", &format!("{odd}@%p1 bra ODD;\nbarrier.cluster.arrive;\nbra END;\nODD:\nbarrier.cluster.arrive;\nEND:\n{wait}"), 64);
}

#[test]
fn deadlocks() {
    let found = reported(Deadlock, "", "setp.lt.u32 %p1, %t, 32;\n@%p1 ret;\nbar.sync 0, 64; // here", 64);
    assert!(found.message.contains("32 have exited"), "{found}");
    reported(
        Deadlock,
        "",
        "setp.eq.u32 %p1, %t, 0;\n@%p1 bra ONE;\nbar.warp.sync 0xffffffff;\nbra END;\nONE:\nbarrier.sync 0; // here\nEND:",
        32,
    );
    reported(Deadlock, "", "setp.lt.u32 %p1, %t, 32;\n@%p1 bra LOW;\nbar.sync 1, 64;\nbra END;\nLOW:\nbar.sync 2, 64; // here\nEND:", 64);
    clean("", "setp.lt.u32 %p1, %t, 32;\n@%p1 bra LOW;\nbar.sync 1, 32;\nbra END;\nLOW:\nbar.sync 2, 32;\nEND:", 64);
    clean("", "setp.lt.u32 %p1, %t, 7;\n@%p1 ret;\nbar.warp.sync 0xffffffff;\nbar.sync 0;", 32);
    clean("", "setp.lt.u32 %p1, %t, 32;\n@%p1 bra LOW;\nbar.sync 1, 64;\nbra END;\nLOW:\nbar.arrive 1, 64;\nEND:", 64);
}

#[test]
fn races_in_shared_memory() {
    let own =
        "mov.u32 %r1, area;\nmad.lo.u32 %r2, %t, 4, %r1;\nxor.b32 %r3, %t, 33;\nmad.lo.u32 %r3, %r3, 4, %r1;\nst.shared.u32 [%r2], %t;\n";
    let read = "ld.shared.u32 %r4, [%r3]; // here\nst.global.u32 [%at], %r4;";
    let race = races(AREA, &format!("{own}{read}"), 64);
    assert!(race.message.contains("without a barrier"), "{race}");
    races(AREA, &format!("{own}bar.warp.sync 0xffffffff;\n{read}"), 64);
    races(AREA, "mov.u32 %r1, area;\nst.shared.u32 [%r1], %t; // here", 2);
    races(AREA, "mov.u32 %r1, area;\nred.shared.add.u32 [%r1], 1;\nst.shared.u32 [%r1], %t; // here", 2);
    let again = format!("{own}bar.sync 0;\nld.shared.u32 %r4, [%r3];\nst.shared.u32 [%r2], 1; // here\nst.global.u32 [%at], %r4;");
    races(AREA, &again, 64);
    let off = PtxOptions { races: false, ..PtxOptions::default() };
    assert!(findings_with(AREA, &again, 64, 1, &off).is_empty());
}

#[test]
fn shared_memory_without_races() {
    let own =
        "mov.u32 %r1, area;\nmad.lo.u32 %r2, %t, 4, %r1;\nxor.b32 %r3, %t, 33;\nmad.lo.u32 %r3, %r3, 4, %r1;\nst.shared.u32 [%r2], %t;\n";
    let read = "ld.shared.u32 %r4, [%r3];\nst.global.u32 [%at], %r4;";
    clean(AREA, &format!("{own}bar.sync 0;\n{read}\nbar.sync 0;\nst.shared.u32 [%r2], 1;"), 64);
    clean(AREA, "mov.u32 %r1, area;\nst.shared.u32 [%r1], 1;", 64);
    let half =
        "mov.u32 %r1, area;\nmad.lo.u32 %r2, %t, 4, %r1;\nxor.b32 %r3, %t, 1;\nmad.lo.u32 %r3, %r3, 4, %r1;\nst.shared.u32 [%r2], %t;\n";
    clean(AREA, &format!("{half}bar.warp.sync 0xffffffff;\n{read}"), 64);
    let init = "setp.eq.u32 %p1, %t, 0;\n@%p1 st.shared.u32 [area], 0;\nbar.sync 0;\n";
    clean(AREA, &format!("{init}red.shared.add.u32 [area], 1;\nbar.sync 0;\nld.shared.u32 %r1, [area];\nst.global.u32 [%at], %r1;"), 64);
    // A flag that is released by one thread and acquired by another.
    let flag = "setp.eq.u32 %p2, %t, 32;\n@!%p2 bra OTHER;\nst.shared.u32 [area+4], 5;\nst.release.cta.shared.u32 [area], 1;\nbra END;\n\
                OTHER:\nsetp.ne.u32 %p3, %t, 0;\n@%p3 bra END;\nSPIN:\nld.acquire.cta.shared.u32 %r1, [area];\nsetp.eq.u32 %p4, %r1, 0;\n\
                @%p4 bra SPIN;\nld.shared.u32 %r2, [area+4];\nst.global.u32 [%at], %r2;\nEND:";
    clean(AREA, &format!("{init}{flag}"), 64);
}

#[test]
fn traps_bad_calls_and_bad_operands() {
    reported(Trap, "", "setp.eq.u32 %p1, %t, 5;\n@%p1 trap; // here", 32);
    let call = "P: .callprototype _ ();\nmov.u64 %rd1, 4096;\ncall %rd1, (), P; // here";
    reported(BadCall, "", call, 1);
    reported(BadOperand, "", "bar.warp.sync 0xfffffffe; // here", 32);
    reported(BadOperand, "", "T: .branchtargets A, B;\nmov.u32 %r1, 2;\nbrx.idx %r1, T; // here\nA:\nB:", 1);
    reported(StackOverflow, ".func f() {\ncall f, (); // here\nret; }", "call f, ();", 1);
    clean("", "setp.eq.u32 %p1, %t, 99;\n@%p1 trap;", 32);
    clean("", "T: .branchtargets A, B;\nmov.u32 %r1, 1;\nbrx.idx %r1, T;\nA:\nB:", 1);
}

#[test]
fn endless_loops_are_stopped() {
    let options = PtxOptions { most_steps: 100_000, ..PtxOptions::default() };
    let found = findings_with("", "L:\nbra L;", 32, 1, &options);
    assert_eq!(found[0].kind, TooManySteps);
    assert!(
        findings_with("", "mov.u32 %r1, 0;\nL:\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 1000;\n@%p1 bra L;", 32, 1, &options)
            .is_empty()
    );
}
