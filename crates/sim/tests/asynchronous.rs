//! Asynchronous copies and matrix products whose data are used too early, overwritten too early, or not visible to the asynchronous proxy:
//! each broken program must be reported, and the repaired one must not.
//!
//! The programs are kernel tests with one change, and short kernels of one block.

use std::path::Path;

use oriole_sim::ptx::FindingKind::{AsyncAccess, MissingProxyFence, Race, RegisterInFlight};
use oriole_sim::ptx::{FindingKind, PtxError, PtxOptions, PtxProgram};
use oriole_sim::{GlobalMemory, Launch};

/// Programs that wait for what never comes are stopped.
const OPTIONS: PtxOptions = PtxOptions { undefined_values: true, races: true, most_steps: 1 << 22, heap_bytes: 0 };

/// Runs a kernel test of which each text is replaced by another one, and returns the kinds of all findings, each once.
#[track_caller]
fn changed(name: &str, changes: &[(&str, &str)]) -> Vec<FindingKind> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/kernels").join(name).with_extension("ptx");
    let mut text = std::fs::read_to_string(path).unwrap();
    for (from, to) in changes {
        assert_eq!(text.matches(from).count(), 1, "`{from}` is not once in {name}");
        text = text.replace(from, to);
    }
    // The results of broken programs are wrong, so any result is accepted.
    let header = text.find(".version").unwrap();
    let mut lines: Vec<&str> = text[..header].lines().collect();
    lines.retain(|line| line.starts_with("// kernel-test") || line.contains(": ") && !line.starts_with("// expect"));
    let output =
        text[..header].lines().find(|line| line.starts_with("// expect")).unwrap().split(&[' ', ':'][..]).nth(2).unwrap().to_owned();
    let count: usize = {
        let parameter = lines.iter().find(|line| line.starts_with(&format!("// param {output}:"))).unwrap();
        parameter.split(&['[', ']'][..]).nth(1).unwrap().parse().unwrap()
    };
    let text = format!("{}\n// expect {output}: exact = ?*{count}\n\n{}", lines.join("\n"), &text[header..]);
    let test = oriole_kernel_test::parse(&text).unwrap_or_else(|error| panic!("{error:?}\n{text}"));
    let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
    assert!(checked.is_valid(), "{:?}", checked.diagnostics);
    let program = PtxProgram::new(&checked.module, text.as_bytes()).unwrap();
    let report = program.run_test(&test, &OPTIONS).unwrap_or_else(|failure| panic!("{failure}"));
    kinds(report.findings.iter().map(|finding| finding.kind))
}

fn kinds(all: impl Iterator<Item = FindingKind>) -> Vec<FindingKind> {
    let mut found = Vec::new();
    all.for_each(|kind| {
        if !found.contains(&kind) {
            found.push(kind);
        }
    });
    found
}

/// Runs a kernel of 64 threads with 512 words of input (1, 2, ...) and 64 words of output. `%i` is the thread, `%p1` selects thread 0, `%a`
/// has the address of `area`, `%own` that of the thread's word there; `gate` is a barrier for one arrival. Returns the kinds of findings,
/// each once, and the output.
fn run(body: &str) -> (Vec<FindingKind>, Vec<u32>) {
    let text = format!(
        ".version 8.5\n.target sm_90a\n.address_size 64\n.shared .align 128 .b8 area[2048];\n.shared .align 8 .b64 gate;\n\
         .visible .entry k(.param .u64 in, .param .u64 out)\n{{\n.reg .b32 %r<19>; .reg .pred %p<9>; .reg .u64 %in, %out, %at;\n\
         .reg .b32 %i, %a, %own;\nld.param.u64 %in, [in]; ld.param.u64 %out, [out]; mov.u32 %i, %tid.x; setp.eq.u32 %p1, %i, 0;\n\
         mov.u32 %a, area; mad.lo.u32 %own, %i, 4, %a; mad.wide.u32 %at, %i, 4, %out;\n\
         @%p1 mbarrier.init.shared::cta.b64 [gate], 1;\nfence.mbarrier_init.release.cluster;\nbar.sync 0;\n{body}\nret;\n}}\n"
    );
    let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
    assert!(checked.is_valid(), "{:?}\n{text}", checked.diagnostics);
    let program = PtxProgram::new(&checked.module, text.as_bytes()).unwrap();
    let mut memory = GlobalMemory::new();
    let input = memory.allocate("in", (1..=512_u32).flat_map(u32::to_le_bytes).collect());
    let output = memory.allocate("out", vec![0; 256]);
    let arguments = vec![input.to_le_bytes().to_vec(), output.to_le_bytes().to_vec()];
    let launch = Launch { kernel: "k".into(), grid: [1; 3], block: [64, 1, 1], cluster: None, shared_bytes: 0, arguments };
    let found = match program.load(&mut memory).run(&launch, &mut memory, &OPTIONS) {
        Ok(report) => kinds(report.findings.iter().map(|finding| finding.kind)),
        Err(PtxError::Fault { fault, .. }) => panic!("{fault}\n{text}"),
        Err(error) => panic!("{error}\n{text}"),
    };
    let words = memory.contents(output).unwrap().chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
    (found, words)
}

/// Checks that the kernel has no findings if none are expected, or else the expected ones; wrong data may lead to others.
#[track_caller]
fn reports(expected: &[FindingKind], body: &str) {
    let found = run(body).0;
    assert!(expected.iter().all(|kind| found.contains(kind)), "{found:?}\n{body}");
    assert!(found.is_empty() || !expected.is_empty(), "{found:?}\n{body}");
}

/// Issues a bulk copy of 256 bytes to `area`.
const LOAD: &str = "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [gate], 256;\n\
                    @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [area], [%in], 256, [gate];\n";
const READ: &str = "ld.shared.u32 %r5, [%own]; st.global.u32 [%at], %r5;\n";

/// Waits for a phase of `gate`.
fn wait(phase: u32) -> String {
    format!("W{phase}: mbarrier.try_wait.parity.shared::cta.b64 %p2, [gate], {phase}; @!%p2 bra W{phase};\n")
}

#[test]
fn a_tile_is_read_after_its_barrier() {
    reports(&[], &format!("{LOAD}{}{READ}", wait(0)));
    reports(&[AsyncAccess], &format!("{LOAD}{READ}{}", wait(0)));
    // A write to the tile is as bad as a read.
    reports(&[AsyncAccess], &format!("{LOAD}st.shared.u32 [%own], 1;{}", wait(0)));
    // One warp waits for the barrier, the other one does not.
    let one_waits = format!("{LOAD}setp.ge.u32 %p3, %i, 32; @%p3 bra.uni THERE; {}THERE:", wait(0));
    reports(&[], &format!("{one_waits} bar.sync 0; {READ}"));
    reports(&[Race], &format!("{one_waits} @!%p3 bra.uni END; nanosleep.u32 9; nanosleep.u32 9; {READ} END:"));
}

#[test]
fn a_buffer_is_filled_again_after_its_readers() {
    let twice = |between: &str| format!("{LOAD}{}bar.sync 0;\n{READ}{between}{LOAD}{}{READ}", wait(0), wait(1));
    reports(&[], &twice("bar.sync 0;\n"));
    reports(&[Race], &twice(""));
    // Two copies to the same buffer at once.
    let again = LOAD.replace("mbarrier.arrive.expect_tx.shared::cta.b64 _,", "mbarrier.expect_tx.relaxed.cta.shared::cta.b64");
    reports(&[AsyncAccess], &format!("{LOAD}{again}"));
    let pipeline = |changes: &[(&str, &str)]| changed("barrier/bulk_pipeline_2_try_wait", changes);
    assert_eq!(pipeline(&[]), []);
    // The consumers release the buffer before they read it.
    let (release, read) = ("    mbarrier.arrive.shared.b64 _, [%r12+8];\n", "    ld.shared.u32 %r14, [%r13];\n");
    let found = pipeline(&[(release, ""), (read, &format!("{release}{read}"))]);
    assert!(found.contains(&Race) || found.contains(&AsyncAccess), "{found:?}");
}

/// Writes the thread's word, and makes it visible to a bulk store that thread 0 issues.
const FILL: &str = "st.shared.u32 [%own], %i;\nfence.proxy.async.shared::cta;\nbar.sync 0;\n";
const STORE: &str = "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%out], [area], 256;\n@%p1 cp.async.bulk.commit_group;\n";

#[test]
fn a_buffer_that_is_stored_is_overwritten_after_the_wait() {
    let overwrite = "bar.sync 0; st.shared.u32 [%own], 7;\n";
    reports(&[], &format!("{FILL}{STORE}@%p1 cp.async.bulk.wait_group.read 0; {overwrite}"));
    reports(&[], &format!("{FILL}{STORE}@%p1 cp.async.bulk.wait_group 0; {overwrite}"));
    reports(&[AsyncAccess], &format!("{FILL}{STORE}{overwrite}"));
    // The wait leaves one group, which is the only one.
    reports(&[AsyncAccess], &format!("{FILL}{STORE}@%p1 cp.async.bulk.wait_group.read 1; {overwrite}"));
    // Without a barrier the other threads may overwrite the buffer before thread 0 has waited.
    reports(&[Race], &format!("{FILL}{STORE}@%p1 cp.async.bulk.wait_group.read 0; st.shared.u32 [%own], 7;"));
    // The words that were stored are those before they are overwritten.
    let (found, words) = run(&format!("{FILL}{STORE}@%p1 cp.async.bulk.wait_group.read 0; {overwrite}"));
    assert_eq!((found, words), (vec![], (0..64).collect()));
}

#[test]
fn a_wait_for_reads_does_not_wait_for_the_stores_to_global_memory() {
    let look = "ld.global.u32 %r5, [%out+8]; @%p1 st.global.u32 [%out+256], %r5;";
    let body =
        |wait: &str| format!("sub.u64 %out, %out, 0; {FILL}{STORE}@%p1 cp.async.bulk.{wait} 0;\n{look}").replace("[%out+256]", "[%out+4]");
    // The store to word 1 comes after the copy if that is complete, else the copy overwrites it.
    assert_eq!(run(&body("wait_group")).1[1], 2);
    assert_eq!(run(&body("wait_group.read")).1[1], 1);
}

#[test]
fn stores_need_a_proxy_fence_and_a_barrier_before_a_bulk_store() {
    let wait = "@%p1 cp.async.bulk.wait_group 0;";
    reports(&[MissingProxyFence], &format!("st.shared.u32 [%own], %i; bar.sync 0; {STORE}{wait}"));
    // A fence of the thread that issues the copy is enough if it comes after the barrier, but not before it.
    reports(&[], &format!("st.shared.u32 [%own], %i; bar.sync 0; @%p1 fence.proxy.async; {STORE}{wait}"));
    reports(&[MissingProxyFence], &format!("st.shared.u32 [%own], %i; @%p1 fence.proxy.async; bar.sync 0; {STORE}{wait}"));
    // A fence of another kind is none.
    reports(&[MissingProxyFence], &format!("st.shared.u32 [%own], %i; fence.acq_rel.cta; bar.sync 0; {STORE}{wait}"));
    // A fence before the store has no effect on it.
    reports(&[MissingProxyFence], &format!("fence.proxy.async; st.shared.u32 [%own], %i; bar.sync 0; {STORE}{wait}"));
    let no_barrier = run(&format!("st.shared.u32 [%own], %i; fence.proxy.async; {STORE}{wait}")).0;
    assert!(no_barrier.contains(&Race), "{no_barrier:?}");
}

#[test]
fn copies_of_a_thread_are_read_after_the_wait_for_their_group() {
    let copy = |offset: u32| {
        format!("mad.wide.u32 %at, %i, 4, %in; cp.async.ca.shared.global [%own+{offset}], [%at], 4; cp.async.commit_group;\n")
    };
    let read = |offset: u32| format!("ld.shared.u32 %r5, [%own+{offset}]; mad.wide.u32 %at, %i, 4, %out; st.global.u32 [%at], %r5;\n");
    let both = format!("{}{}", copy(0), copy(256));
    reports(&[], &format!("{both}cp.async.wait_group 1;\n{}cp.async.wait_all;\n{}", read(0), read(256)));
    reports(&[AsyncAccess], &format!("{both}cp.async.wait_group 1;\n{}", read(256)));
    reports(&[AsyncAccess], &format!("{both}{}", read(0)));
    reports(&[AsyncAccess], &format!("{both}st.shared.u32 [%own], 1;"));
    // The words of other threads need a barrier in addition.
    let reversed = format!("sub.u32 %own, %a, %own; add.u32 %own, %own, %a; add.u32 %own, %own, 252;\n{}", read(0));
    reports(&[], &format!("{}cp.async.wait_all; bar.sync 0; {reversed}", copy(0)));
    let found = run(&format!("{}cp.async.wait_all; {reversed}", copy(0))).0;
    assert!(found.contains(&Race) || found.contains(&AsyncAccess), "{found:?}");
}

#[test]
fn multicast_and_remote_stores_are_read_after_the_barrier_of_the_block() {
    let wait = "    @!%p2 bra WAIT;\n";
    let test = "    WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [gate], 0;\n";
    for name in ["cluster/multicast_2x1", "cluster/multicast_2x2", "cluster/st_async_1_2x1", "cluster/st_async_4_4x1"] {
        assert_eq!(changed(name, &[]), [], "{name}");
        let found = changed(name, &[(test, "    WAIT:\n"), (wait, "")]);
        assert!(found.contains(&AsyncAccess), "{name}: {found:?}");
    }
    // Block 0 writes to the other block before that has read its own words.
    let early = "    ld.shared.u32 %r9, [%r8];\n";
    let first = "    mov.u32 %r8, target;\n    mad.lo.u32 %r8, %r6, 4, %r8;\n";
    let reuse = |sync: &str| {
        let use_before = format!("mov.u32 %r8, target; mad.lo.u32 %r8, %r6, 4, %r8; st.shared.u32 [%r8], 0; {sync}\n");
        let issue = "    @%p1 mbarrier.arrive.expect_tx";
        changed("cluster/multicast_2x1", &[(issue, &format!("{use_before}{issue}")), (first, first), (early, early)])
    };
    assert_eq!(reuse("barrier.cluster.arrive; barrier.cluster.wait;"), []);
    let found = reuse("");
    assert!(found.contains(&Race), "{found:?}");
}

#[test]
fn parts_of_tensors_are_used_in_order() {
    let test = "    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [gate], 0;\n    @!%p2 bra WAIT;\n";
    for name in ["tma/load_2d", "tma/load_2d_swizzle_128", "tma/load_5d"] {
        assert_eq!(changed(name, &[]), [], "{name}");
        assert!(changed(name, &[(test, "    WAIT:\n")]).contains(&AsyncAccess), "{name}");
    }
    let fence = "    fence.proxy.async.shared::cta;\n";
    let wait = "    cp.async.bulk.wait_group 0;\n";
    for name in ["tma/store_2d", "tma/store_2d_swizzle_128", "tma/store_im2col_4d", "tma/reduce_add_f32"] {
        assert_eq!(changed(name, &[]), [], "{name}");
        assert_eq!(changed(name, &[(fence, "")]), [MissingProxyFence], "{name}");
        let early = format!("    st.shared.u32 [%r1], 0;\n{wait}");
        assert_eq!(changed(name, &[(wait, &early)]), [AsyncAccess], "{name}");
        let late = format!("{wait}    st.shared.u32 [%r1], 0;\n");
        assert_eq!(changed(name, &[(wait, &late)]), [], "{name}");
    }
}

#[test]
fn matrix_products_are_waited_for() {
    let shared = "warpgroup/wgmma_n16_f32_f16_f16_k128_k128";
    let fence = "    fence.proxy.async.shared::cta;\n";
    let barrier = "    bar.sync 0;\n";
    let wait = "    wgmma.wait_group.sync.aligned 0;\n";
    assert_eq!(changed(shared, &[]), []);
    assert_eq!(changed(shared, &[(fence, "")]), [MissingProxyFence]);
    let found = changed(shared, &[(barrier, "")]);
    assert!(found.contains(&Race), "{found:?}");
    assert_eq!(changed(shared, &[(wait, "")]), [RegisterInFlight]);
    // The wait leaves one group in flight, which is the only one.
    assert_eq!(changed(shared, &[(wait, "    wgmma.wait_group.sync.aligned 1;\n")]), [RegisterInFlight]);
    // The operand in shared memory is overwritten before and after the wait.
    let overwrite = "    st.shared.u32 [%r1], 0;\n";
    let found = changed(shared, &[(wait, &format!("{overwrite}{wait}"))]);
    assert!(found.contains(&AsyncAccess), "{found:?}");
    assert!(!changed(shared, &[(wait, &format!("{wait}{overwrite}"))]).contains(&AsyncAccess));
    // Two groups: the second one is read after the wait for the first one only.
    let groups = "warpgroup/wgmma_n32_f32_f16_f16_registers_k128_groups";
    assert_eq!(changed(groups, &[]), []);
    assert_eq!(changed(groups, &[(wait, "")]), [RegisterInFlight]);
    // A register of A is read by the products, and may be read but not written by others.
    let first = "    wgmma.wait_group.sync.aligned 1;\n";
    assert_eq!(changed(groups, &[(first, &format!("    mov.u32 %r9, %a0;\n{first}"))]), []);
    assert_eq!(changed(groups, &[(first, &format!("    mov.u32 %a0, 0;\n{first}"))]), [RegisterInFlight]);
}
