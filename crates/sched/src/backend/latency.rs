//! Strategy `latency`: hides memory latency by starting loads, and what their addresses need, as early as possible.
//!
//! The *memory path* of an item is the largest sum of long latencies (20 cycles or more) on a path from its issue to the end of the region.
//! Criteria, in this order: the candidate with fewer stall cycles wins; then the longer memory path; then the candidate that depends on
//! older results, so that independent chains alternate; then the longer critical path. O(n log n) for *n* items.
//!
//! Example: `L1` loads through a pointer that `A` computes, with a latency of 30 cycles; the chain `X0..X9` of sums takes 40 cycles.
//!
//! ```text
//! critical path      X0 40 cycles, A 35 cycles        starts with X0
//! memory path        X0 0, A 30, L1 30                starts with A and L1; X0..X9 run while L1 is in flight
//! ```
//!
//! | topic | description of ptxas | here | why |
//! |---|---|---|---|
//! | interleaving | "aggressive", no rule given | readers of older results first | the reader of the newest result would stall |
//! | memory classes | hot and cold spaces | the latency of each edge in the model | one rule for loads, textures and special functions |

use super::engine::{Candidate, MAX_CRITERIA, MIN_LONG_LATENCY_CYCLES, Priority, RegionAnalysis, engine_reasons, enter_region, run};
use super::reason::Reason;
use super::schedule::{Schedule, SearchOutcome};
use super::strategy::{Region, RegionScheduler, Strategy};
use crate::pressure::PressureTracker;

/// The priority function: fewer stall cycles, then the longer memory path, then older operands, then the longer critical path.
pub(super) struct ByMemoryPath {
    /// For each node, the largest sum of long latencies on a path to the end of the region, in cycles.
    memory_paths: Vec<u32>,
}

impl ByMemoryPath {
    /// Computes the memory path of each node (sum of long latencies on a path from it to the end of the region).
    pub(super) fn new(region: &Region<'_>) -> ByMemoryPath {
        let graph = region.graph;
        let is_long = |latency: u32| latency >= MIN_LONG_LATENCY_CYCLES;
        let mut paths = vec![0; graph.nodes()];
        // Reverse topological order: the successors of a node are done before it.
        for &node in graph.order.iter().rev() {
            let long = |latency: u32| if is_long(latency) { latency } else { 0 };
            let below = graph.successors(node).iter().map(|edge| paths[edge.node as usize] + long(edge.latency.into()));
            let own = if (node as usize) < graph.items() { long(graph.tail(node)) } else { 0 };
            paths[node as usize] = below.max().unwrap_or(0).max(own);
        }
        ByMemoryPath { memory_paths: paths }
    }
}

impl Priority for ByMemoryPath {
    const CRITERION_REASONS: &'static [Reason] = &[Reason::Cost, Reason::MemoryPath, Reason::Interleaved, Reason::DependencyCycle];

    /// Returns the rank of an item: the longer memory path first, then the longer critical path.
    fn rank(&self, analysis: &RegionAnalysis<'_>, node: u32) -> i64 {
        (i64::from(self.memory_paths[node as usize]) << 32) + i64::from(analysis.heights[node as usize])
    }

    /// Returns the value of each criterion for a candidate; higher values win.
    fn criterion_values(&self, _: &RegionAnalysis<'_>, candidate: &Candidate) -> [i64; MAX_CRITERIA] {
        let path = self.memory_paths[candidate.node as usize];
        [-i64::from(candidate.stall), path.into(), -i64::from(candidate.last_predecessor_step), candidate.height.into(), 0]
    }
}

/// Starts loads, and the instructions that their addresses need, as early as possible; the strategy `latency` of the command line.
pub(super) struct LatencyScheduling;

impl Strategy for LatencyScheduling {
    /// Returns the name of the strategy on the command line.
    fn name(&self) -> &'static str {
        "latency"
    }

    /// Returns the one-line description for help texts.
    fn description(&self) -> &'static str {
        "starts loads and their addresses first and alternates between independent chains"
    }

    /// Returns the reasons that a trace of this strategy may give for a decision.
    fn reasons(&self) -> &'static [Reason] {
        engine_reasons![Cost, MemoryPath, Interleaved, DependencyCycle]
    }

    /// Returns a function that orders the items of one region.
    fn scheduler(&self) -> RegionScheduler {
        Box::new(schedule)
    }

    /// Returns false: if no order of a region can be faster than the original one, the caller may skip this strategy there.
    fn reports_register_demand(&self) -> bool {
        false
    }
}

/// Schedules a region by the strategy `latency`. The tracker of live registers must be at the start of the region, and is at its end
/// afterwards.
fn schedule(region: &Region<'_>, tracker: &mut PressureTracker) -> Schedule {
    let groups = enter_region(region, tracker);
    let analysis = RegionAnalysis::new(region);
    run(&analysis, groups.as_ref(), &mut ByMemoryPath::new(region)).into_schedule(region, tracker, SearchOutcome::None)
}

#[cfg(test)]
mod tests {
    use super::super::critical_path::CriticalPath;
    use super::super::engine::testing::TestRegion;
    use super::*;

    /// Returns test code: a long chain of sums, and a load whose address takes one instruction.
    fn chain_and_load() -> Vec<String> {
        let mut lines: Vec<String> = (0..120).map(|at| format!("FADD R10, R10, {}", at + 1)).collect();
        lines.push("IADD3 R4, R2, 0x10, RZ".to_owned());
        lines.push("LDS R20, [R4]".to_owned());
        lines.push("FADD R21, R20, R20".to_owned());
        lines
    }

    #[test]
    fn the_address_of_a_load_goes_before_a_longer_chain() {
        let lines = chain_and_load();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let bench = TestRegion::new(&lines);
        let (schedule, _) = bench.run(&LatencyScheduling, &[2, 10], &[10, 21]);
        assert_eq!(schedule.order[0], 120, "the address");
        assert_eq!(schedule.picks[0].reason, Reason::MemoryPath);
        let load = schedule.order.iter().position(|&position| position == 121);
        assert!(load < Some(4), "{load:?}");
        // The chain of sums is the critical path, so `critical-path` starts with it.
        let (other, _) = bench.run(&CriticalPath, &[2, 10], &[10, 21]);
        assert_eq!(other.order[0], 0);
    }

    #[test]
    fn instructions_of_independent_chains_alternate() {
        let lines = ["FADD R10, R0, R1", "FADD R11, R10, R1", "FADD R20, R0, R1", "FADD R21, R20, R1"];
        let (schedule, _) = TestRegion::new(&lines).run(&LatencyScheduling, &[0, 1], &[11, 21]);
        assert_eq!(schedule.order, [0, 2, 1, 3]);
    }

    #[test]
    fn a_dependence_chain_keeps_its_order() {
        let lines = ["LDS R10, [R0]", "FADD R11, R10, R1", "STS [R0], R11"];
        let (schedule, _) = TestRegion::new(&lines).run(&LatencyScheduling, &[0, 1], &[]);
        assert_eq!(schedule.order, [0, 1, 2]);
    }
}
