//! Selects every form of the memory and warp instructions on every target, and checks that the result can be encoded.

use crate::common::try_forms;

/// Tries all forms of some opcodes; fails on errors, or if fewer than `at_least` forms are selected. `refused` tells the forms that are
/// known to be unsupported.
fn check(opcodes: &[&str], limit: usize, at_least: usize, refused: impl Fn(&str) -> bool) {
    let (selected, problems) = try_forms(opcodes, limit, refused);
    let shown = problems.iter().take(40).cloned().collect::<Vec<_>>().join("\n");
    assert!(problems.is_empty(), "{} problems:\n{shown}", problems.len());
    assert!(selected >= at_least, "only {selected} forms were selected");
}

#[test]
fn loads() {
    check(&["ld", "ldu"], 300, 3300, |_| false);
}

#[test]
fn stores() {
    check(&["st"], 300, 2500, |text| text.contains(".param"));
}

#[test]
fn conversions_of_addresses() {
    check(&["cvta", "isspacep"], 100, 100, |text| text.contains(".u32"));
}

#[test]
fn cache_control() {
    let opcodes = ["prefetch", "prefetchu", "applypriority", "discard", "createpolicy"];
    check(&opcodes, 100, 100, |_| false);
}

#[test]
fn atomics() {
    check(&["atom", "red"], 150, 3000, |_| false);
}

#[test]
fn fences() {
    check(&["fence", "membar"], 100, 100, |_| false);
}

#[test]
fn barriers_in_shared_memory() {
    let opcodes = [
        "mbarrier.init",
        "mbarrier.inval",
        "mbarrier.expect_tx",
        "mbarrier.complete_tx",
        "mbarrier.arrive",
        "mbarrier.arrive_drop",
        "mbarrier.test_wait",
        "mbarrier.try_wait",
        "mbarrier.pending_count",
        "cp.async.mbarrier.arrive",
    ];
    check(&opcodes, 60, 400, |_| false);
}

#[test]
fn bulk_copies() {
    let opcodes = [
        "cp.async.bulk",
        "cp.async.bulk.commit_group",
        "cp.async.bulk.prefetch",
        "cp.async.bulk.prefetch.tensor",
        "cp.async.bulk.tensor",
        "cp.async.bulk.wait_group",
        "cp.reduce.async.bulk",
        "cp.reduce.async.bulk.tensor",
        "tensormap.cp_fenceproxy",
        "tensormap.replace",
    ];
    check(&opcodes, 60, 400, |_| false);
}

#[test]
fn clusters() {
    check(&["barrier.cluster", "mapa", "getctarank", "st.async", "red.async"], 60, 60, |_| false);
    check(&["clusterlaunchcontrol.try_cancel.async", "clusterlaunchcontrol.query_cancel", "st.bulk"], 60, 60, |_| false);
}

#[test]
fn control() {
    check(&["bra", "ret", "exit", "trap", "brkpt", "nanosleep", "pmevent"], 100, 80, |_| false);
}

#[test]
fn barriers() {
    check(&["bar", "barrier"], 100, 100, |_| false);
}

#[test]
fn warps() {
    let opcodes = ["bar.warp.sync", "shfl", "shfl.sync", "vote", "vote.sync", "match", "redux.sync", "elect.sync", "activemask"];
    check(&opcodes, 100, 150, |_| false);
}
