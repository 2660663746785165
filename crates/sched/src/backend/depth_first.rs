//! Strategy `depth-first`: follows each dependency chain to its end before it starts the next.
//!
//! Candidates that stall for at most `depth-stall` cycles come first. Among them, the candidate whose latest predecessor issued most
//! recently wins, so the order is a depth-first walk of the dependency graph. Values are read soon after they are computed, which keeps few
//! of them live. A chain with an item that takes longer, such as a load, is left and resumed when the result arrives. O(n log n) for *n*
//! items.
//!
//! Example: two chains of two additions and a store (`A0 A1 A2` and `B0 B1 B2`); an addition has a latency of 4 cycles.
//!
//! ```text
//! original     A0 B0 A1 B1 A2 B2        2 sums live, two stalls of 2 cycles each
//! depth-first  A0 A1 A2 B0 B1 B2        1 sum live, four stalls of 3 cycles each
//! ```
//!
//! The order takes more cycles for one warp than that of `critical-path`. It is useful where registers limit the number of warps, and many
//! warps hide the stalls. Before register allocation the order is used where it needs fewer registers than the original order, or as many
//! registers and fewer cycles; after register allocation only where it needs fewer cycles.
//!
//! | topic | description of ptxas | here | why |
//! |---|---|---|---|
//! | walk | recursive, from the roots | the ready list, ordered by the latest predecessor | an item must wait for all its predecessors |
//! | long chains | no limit | a stall of more than `depth-stall` cycles leaves the chain | a load would stall the warp for hundreds of cycles |

use super::engine::{Candidate, MAX_CRITERIA, Priority, ProposedOrder, RegionAnalysis, engine_reasons, enter_region, run};
use super::reason::Reason;
use super::schedule::{Schedule, SearchOutcome};
use super::strategy::{Region, RegionScheduler, Strategy};
use crate::pressure::PressureTracker;

/// The priority function: fewer stall cycles beyond the limit, then the item whose latest predecessor issued most recently (so that a
/// dependency chain is continued), then the longer critical path.
struct ByDependencyChain {
    /// Maximum number of stall cycles between two items of a chain; a longer stall leaves the chain.
    tolerated_stall: u32,
}

impl Priority for ByDependencyChain {
    const CRITERION_REASONS: &'static [Reason] = &[Reason::Cost, Reason::Chain, Reason::DependencyCycle];

    /// Returns the value of each criterion for a candidate; higher values win.
    fn criterion_values(&self, _: &RegionAnalysis<'_>, candidate: &Candidate) -> [i64; MAX_CRITERIA] {
        let stall = candidate.stall.saturating_sub(self.tolerated_stall);
        [-i64::from(stall), candidate.last_predecessor_step.into(), candidate.height.into(), 0, 0]
    }
}

/// Follows each dependency chain to its end before it starts the next; the strategy `depth-first` of the command line.
pub(super) struct DepthFirst;

impl Strategy for DepthFirst {
    /// Returns the name of the strategy on the command line.
    fn name(&self) -> &'static str {
        "depth-first"
    }

    /// Returns the one-line description for help texts.
    fn description(&self) -> &'static str {
        "follows each dependency chain to its end: few live values, more stalls"
    }

    /// Returns the reasons that a trace of this strategy may give for a decision.
    fn reasons(&self) -> &'static [Reason] {
        engine_reasons![Cost, Chain, DependencyCycle, SourceOrder]
    }

    /// Returns a function that orders the items of one region.
    fn scheduler(&self) -> RegionScheduler {
        Box::new(schedule)
    }

    /// Returns true: the strategy itself returns the original order where it finds no better one.
    fn falls_back_to_original(&self) -> bool {
        true
    }
}

/// Schedules a region by the strategy `depth-first`. The tracker of live registers must be at the start of the region, and is at its end
/// afterwards.
fn schedule(region: &Region<'_>, tracker: &mut PressureTracker) -> Schedule {
    let groups = enter_region(region, tracker);
    let analysis = RegionAnalysis::new(region);
    let proposal = run(&analysis, groups.as_ref(), &mut ByDependencyChain { tolerated_stall: region.settings.knobs.depth_stall });
    choose_fewer_registers(region, proposal, ProposedOrder::original(region, groups.as_ref(), Reason::SourceOrder)).into_schedule(
        region,
        tracker,
        SearchOutcome::None,
    )
}

/// Returns the better of two orders; `source` if they are equal. The number of registers above the budget decides first, then the maximum
/// number of live general registers, then cycles. After register allocation, only cycles count.
pub(super) fn choose_fewer_registers(region: &Region<'_>, new: ProposedOrder, source: ProposedOrder) -> ProposedOrder {
    let cost = |proposal: &ProposedOrder| {
        let cycles = proposal.length.issued + proposal.length.done;
        (proposal.excess(region), proposal.peak[0], cycles)
    };
    if cost(&new) < cost(&source) { new } else { source }
}

#[cfg(test)]
mod tests {
    use super::super::engine::testing::TestRegion;
    use super::*;

    #[test]
    fn chains_are_not_interleaved() {
        let first = ["FADD R10, R0, R1", "FADD R20, R0, R1", "FADD R30, R0, R1"];
        let second = ["FADD R11, R10, R1", "FADD R21, R20, R1", "FADD R31, R30, R1"];
        let stores = ["STS [R2], R11", "STS [R2+0x4], R21", "STS [R2+0x8], R31"];
        let lines: Vec<&str> = first.into_iter().chain(second).chain(stores).collect();
        let bench = TestRegion::new(&lines);
        let (schedule, peak) = bench.run(&DepthFirst, &[0, 1, 2], &[]);
        assert_eq!(schedule.order, [0, 3, 6, 1, 4, 7, 2, 5, 8]);
        assert_eq!(schedule.picks[1].reason, Reason::Chain);
        // Four registers are live: R0, R1, R2 and one value of the chain. The original order also has three values of the chains live,
        // beside R1 and R2.
        assert_eq!(peak, 4);
    }

    #[test]
    fn a_chain_is_left_at_a_load() {
        let lines = ["LDG.E R10, desc[UR4][R2.64]", "FADD R11, R10, R0", "FADD R20, R0, R1", "FADD R21, R20, R1"];
        let (schedule, _) = TestRegion::new(&lines).run(&DepthFirst, &[0, 1, 2, 3], &[11, 21]);
        assert_eq!(schedule.order, [0, 2, 3, 1], "the sums issue while the load is in flight");
    }

    #[test]
    fn an_order_that_saves_nothing_is_not_used() {
        let lines = ["FADD R10, R0, R1", "FADD R20, R0, R1", "FADD R11, R10, R1", "FADD R21, R20, R1"];
        let (schedule, _) = TestRegion::new(&lines).run(&DepthFirst, &[0, 1], &[10, 11, 20, 21]);
        assert_eq!(schedule.order, [0, 1, 2, 3], "all four results stay live, so no order needs fewer registers");
        assert!(schedule.picks.iter().all(|pick| pick.reason == Reason::SourceOrder));
    }
}
