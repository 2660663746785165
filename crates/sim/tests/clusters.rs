//! Undefined behaviour in clusters of two blocks: programs that must be reported, and similar programs that must not.

use oriole_sim::ptx::{FindingKind, PtxError, PtxOptions, PtxProgram};
use oriole_sim::{GlobalMemory, Launch};

/// Runs a kernel with clusters of two blocks of 32 threads; `%r0` is the rank of the block, `%r1` that of the other one, `%r2` the address of
/// the thread's word of `area`, and `%r3` that of the same word in the other block. Returns the kinds of all findings.
fn findings(body: &str) -> Vec<FindingKind> {
    let text = format!(
        ".version 8.5\n.target sm_90\n.address_size 64\n.shared .align 16 .b8 area[128];\n.visible .entry k() .reqnctapercluster 2, 1, 1\n{{\n\
         .reg .b32 %r<19>; .reg .pred %p<4>;\nmov.u32 %r0, %cluster_ctarank; xor.b32 %r1, %r0, 1; mov.u32 %r2, %tid.x;\n\
         mov.u32 %r4, area; mad.lo.u32 %r2, %r2, 4, %r4; mapa.shared::cluster.u32 %r3, %r2, %r1;\n{body}\nret;\n}}\n"
    );
    let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
    assert!(checked.is_valid(), "{:?}\n{text}", checked.diagnostics);
    let program = PtxProgram::new(&checked.module, text.as_bytes()).unwrap();
    let mut memory = GlobalMemory::new();
    let launch = Launch { kernel: "k".into(), grid: [2, 1, 1], block: [32, 1, 1], cluster: None, shared_bytes: 0, arguments: Vec::new() };
    match program.load(&mut memory).run(&launch, &mut memory, &PtxOptions::default()) {
        Ok(report) => report.findings.iter().map(|finding| finding.kind).collect(),
        Err(PtxError::Fault { fault, earlier }) => earlier.iter().chain([&fault]).map(|finding| finding.kind).collect(),
        Err(error) => panic!("{error}\n{text}"),
    }
}

const SYNC: &str = "barrier.cluster.arrive; barrier.cluster.wait;";

#[test]
fn the_barrier_of_the_cluster_orders_accesses() {
    assert_eq!(findings(&format!("st.shared.u32 [%r2], 1; {SYNC} ld.shared::cluster.u32 %r5, [%r3]; {SYNC}")), []);
    assert_eq!(findings(&format!("{SYNC} st.shared::cluster.u32 [%r3], 1; {SYNC} ld.shared.u32 %r5, [%r2];")), []);
}

#[test]
fn blocks_race_without_a_barrier() {
    let found = findings(&format!("st.shared.u32 [%r2], %r0; {SYNC} st.shared::cluster.u32 [%r3], 7; ld.shared.u32 %r5, [%r2]; {SYNC}"));
    assert_eq!(found, [FindingKind::Race]);
    // A barrier of the block alone does not order them.
    let found = findings(&format!(
        "st.shared.u32 [%r2], %r0; {SYNC} st.shared::cluster.u32 [%r3], 7; bar.sync 0; ld.shared.u32 %r5, [%r2]; {SYNC}"
    ));
    assert_eq!(found, [FindingKind::Race]);
    // An arrival without release orders nothing.
    let relaxed = "barrier.cluster.arrive.relaxed; barrier.cluster.wait;";
    let found = findings(&format!("{SYNC} st.shared::cluster.u32 [%r3], %r0; {relaxed} ld.shared.u32 %r5, [%r2]; {SYNC}"));
    assert_eq!(found, [FindingKind::Race]);
}

#[test]
fn remote_memory_needs_the_space_of_the_cluster() {
    let found = findings(&format!("st.shared.u32 [%r2], 1; {SYNC} ld.shared::cta.u32 %r5, [%r3]; {SYNC}"));
    // The address of block 0 has no rank bits, so only that of block 1 is recognized.
    assert_eq!(found, [FindingKind::OutOfBounds]);
}

#[test]
fn a_block_must_not_end_before_others_access_it() {
    let body = format!(
        "st.shared.u32 [%r2], 1; {SYNC} setp.eq.u32 %p1, %r0, 1; @%p1 exit; mov.u32 %r6, 0; L: add.u32 %r6, %r6, 1; \
         setp.lt.u32 %p2, %r6, 20000; @%p2 bra L; ld.shared::cluster.u32 %r5, [%r3];"
    );
    assert_eq!(findings(&body), [FindingKind::OutOfBounds]);
}

#[test]
fn arrivals_and_waits_alternate() {
    assert_eq!(findings("barrier.cluster.wait;"), [FindingKind::BadOperand]);
    assert_eq!(findings("barrier.cluster.arrive; barrier.cluster.arrive;"), [FindingKind::BadOperand]);
    // Block 1 does not arrive, and waits for nothing: it ends, and exited threads do not count.
    assert_eq!(findings("setp.eq.u32 %p1, %r0, 1; @%p1 exit; barrier.cluster.arrive; barrier.cluster.wait;"), []);
}
