//! Strategy `critical-path`: list scheduling by the longest path to the end of the region.
//!
//! Among the candidates with the fewest stall cycles, the one with the longest critical path issues; ties are broken by the number of items
//! that become ready. This is the classical list schedule, without the register weights of backend B and without the memory bits of backend
//! A. O(n log n) for *n* items.
//!
//! Example: the loads L0 and L1 take 30 cycles, the sums A0 and A1 wait for them, and X is an independent sum. `L0 A0 L1 A1 X` becomes
//! `L0 L1 X A0 A1`: the loads have the longest paths, and X fills the wait.
//!
//! | topic | description of ptxas | here | why |
//! |---|---|---|---|
//! | result | priority weights for other strategies | an order | the engine needs no separate weight pass |
//! | path | from the graph's root | to the end of the region, with the latency of results that leave it | this determines the length |

use super::engine::{Candidate, MAX_CRITERIA, Priority, RegionAnalysis, engine_reasons, schedule_by};
use super::reason::Reason;
use super::strategy::{RegionScheduler, Strategy};

/// The priority function: fewer stall cycles, then the longer critical path, then more items that become ready.
pub(super) struct ByCriticalPath;

impl Priority for ByCriticalPath {
    const CRITERION_REASONS: &'static [Reason] = &[Reason::Cost, Reason::DependencyCycle, Reason::MakesReady];

    /// Returns the value of each criterion for a candidate; higher values win.
    fn criterion_values(&self, _: &RegionAnalysis<'_>, candidate: &Candidate) -> [i64; MAX_CRITERIA] {
        [-i64::from(candidate.stall), candidate.height.into(), candidate.newly_ready.into(), 0, 0]
    }
}

/// List scheduling by the longest path to the end of the region; the strategy `critical-path` of the command line.
pub(super) struct CriticalPath;

impl Strategy for CriticalPath {
    /// Returns the name of the strategy on the command line.
    fn name(&self) -> &'static str {
        "critical-path"
    }

    /// Returns the one-line description for help texts.
    fn description(&self) -> &'static str {
        "list schedule by the longest path to the end of the region"
    }

    /// Returns the reasons that a trace of this strategy may give for a decision.
    fn reasons(&self) -> &'static [Reason] {
        engine_reasons![Cost, DependencyCycle, MakesReady]
    }

    /// Returns a function that orders the items of one region.
    fn scheduler(&self) -> RegionScheduler {
        Box::new(|region, tracker| schedule_by(region, tracker, &mut ByCriticalPath))
    }

    /// Returns false: if no order of a region can be faster than the original one, the caller may skip this strategy there.
    fn reports_register_demand(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::engine::testing::TestRegion;
    use super::*;

    #[test]
    fn the_longest_path_goes_first() {
        let lines = ["FADD R20, R0, R1", "FADD R10, R0, R1", "FADD R11, R10, R1", "FADD R12, R11, R1", "FADD R21, R0, R1"];
        let bench = TestRegion::new(&lines);
        let (schedule, _) = bench.run(&CriticalPath, &[0, 1], &[12, 20, 21]);
        // The chain through R10, R11 and R12 has a latency of 4 cycles per sum; the two other sums fill its waits.
        assert_eq!(schedule.order, [1, 0, 4, 2, 3]);
        assert_eq!(schedule.picks[0].reason, Reason::DependencyCycle);
        assert!(schedule.length.is_shorter_than(bench.original_length()));
    }

    #[test]
    fn a_dependence_chain_keeps_its_order() {
        let lines = ["FADD R10, R0, R1", "FADD R11, R10, R1", "FADD R12, R11, R1"];
        let (schedule, _) = TestRegion::new(&lines).run(&CriticalPath, &[0, 1], &[12]);
        assert_eq!(schedule.order, [0, 1, 2]);
        assert!(schedule.picks.iter().all(|pick| pick.reason == Reason::OnlyOne));
    }
}
