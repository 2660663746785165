//! Strategies `dual-issue` and `pairing`, for machines that issue two independent instructions of a warp to different units in one cycle
//! (the fact `dual_issue` of a hardware profile).
//!
//! No machine from Volta on can do that, so no built-in profile has the fact; a profile file may. The shared clock ([`super::clock`]) lets
//! the second instruction of a pair issue in the cycle of the first one, and the control words mark the first one by a stall of 0 cycles.
//!
//! - **`dual-issue`** is a list schedule. Among the candidates with the fewest stall cycles, one that can issue together with the previous
//!   instruction wins; then the critical path decides.
//! - **`pairing`** takes the order of backend B and moves instructions up to fill the second slots: after each instruction that has no
//!   partner, it looks for the first of the next `pairing-window` instructions that can be its partner. The pairs are used if the order
//!   becomes shorter.
//!
//! Example: two independent instructions of the FMA unit (F) and two of the ALU (A); for simplicity, each unit takes one instruction per
//! cycle.
//!
//! ```text
//! order            cycles on a machine with dual issue
//! F0 F1 A0 A1      F0 in 0, F1 and A0 in 1, A1 in 2
//! F0 A0 F1 A1      F0 and A0 in 0, F1 and A1 in 1
//! ```
//!
//! On a machine without dual issue, `dual-issue` gives the order of `critical-path`, and `pairing` that of backend B. Both take O(n log n)
//! for *n* items and a fixed window.
//!
//! | topic | description of ptxas | here | why |
//! |---|---|---|---|
//! | where pairs are formed | in a callback, when the ready list is compared | in a criterion of the priority | the engine compares candidates anyway |
//! | which instructions pair | decided by two functions | different units, no branch, no dependence | nothing else is known about such machines |

use super::engine::{Candidate, MAX_CRITERIA, Priority, ProposedOrder, RegionAnalysis, engine_reasons, enter_region, schedule_by};
use super::reason::Reason;
use super::schedule::{Schedule, ScheduleDecision, SearchOutcome};
use super::strategy::{Region, RegionScheduler, Strategy};
use super::weighted::{self, WeightedScheduling};
use crate::pressure::PressureTracker;

/// The priority function: fewer stall cycles, then dual issue with the previous instruction, then the longer critical path, then more items
/// that become ready.
struct ByDualIssuePairs;

impl Priority for ByDualIssuePairs {
    const CRITERION_REASONS: &'static [Reason] = &[Reason::Cost, Reason::DualIssue, Reason::DependencyCycle, Reason::MakesReady];

    fn criterion_values(&self, _: &RegionAnalysis<'_>, candidate: &Candidate) -> [i64; MAX_CRITERIA] {
        [-i64::from(candidate.stall), candidate.can_dual_issue.into(), candidate.height.into(), candidate.newly_ready.into(), 0]
    }
}

/// Orders a region so that as many neighbours as possible issue in one cycle; the strategy `dual-issue` of the command line.
pub(super) struct DualIssue;

impl Strategy for DualIssue {
    fn name(&self) -> &'static str {
        "dual-issue"
    }

    fn description(&self) -> &'static str {
        "list schedule that pairs instructions, on machines with dual issue"
    }

    fn reasons(&self) -> &'static [Reason] {
        engine_reasons![Cost, DualIssue, DependencyCycle, MakesReady]
    }

    fn scheduler(&self) -> RegionScheduler {
        Box::new(|region, tracker| schedule_by(region, tracker, &mut ByDualIssuePairs))
    }

    fn reports_register_demand(&self) -> bool {
        false
    }
}

/// Pairs instructions of an existing order that can issue in one cycle; the strategy `pairing` of the command line.
pub(super) struct Pairing;

impl Strategy for Pairing {
    fn name(&self) -> &'static str {
        "pairing"
    }

    fn description(&self) -> &'static str {
        "fills the second issue slots of the order of b, on machines with dual issue"
    }

    fn reasons(&self) -> &'static [Reason] {
        // The reasons of backend B, and that for pairs.
        const REASONS: [Reason; 7] = [
            Reason::OnlyOne,
            Reason::PressureOverflow,
            Reason::WeightedRegisters,
            Reason::WeightedParallelism,
            Reason::WeightedForward,
            Reason::Position,
            Reason::DualIssue,
        ];
        debug_assert!(WeightedScheduling.reasons().iter().all(|reason| REASONS.contains(reason)));
        const { &REASONS }
    }

    fn scheduler(&self) -> RegionScheduler {
        Box::new(schedule_pairs)
    }

    fn reports_register_demand(&self) -> bool {
        false
    }
}

/// Schedules a region by the strategy `pairing`. The tracker of live registers must be at the start of the region, and is at its end
/// afterwards.
fn schedule_pairs(region: &Region<'_>, tracker: &mut PressureTracker) -> Schedule {
    let groups = enter_region(region, tracker);
    let first = weighted::propose_order(region, groups.as_ref());
    if !region.costs.dual_issue() {
        return first.into_schedule(region, tracker, SearchOutcome::None);
    }
    let order = fill_second_slots(region, &first.order);
    let mut second = ProposedOrder::new(region, groups.as_ref(), order, Reason::DualIssue);
    let is_better = second.excess(region) <= first.excess(region) && second.length.is_shorter_than(first.length);
    if !is_better {
        return first.into_schedule(region, tracker, SearchOutcome::None);
    }
    // Instructions that did not move keep the reason that backend B gave.
    for (at, pick) in second.picks.iter_mut().enumerate() {
        if let Some(old) = first.picks.get(at).filter(|old| old.picked == pick.picked) {
            *pick = ScheduleDecision { cycle: pick.cycle, ..*old };
        }
    }
    second.into_schedule(region, tracker, SearchOutcome::None)
}

/// Returns the order `order`, changed so that an instruction that would issue alone is followed by a partner: the first of the next
/// `pairing-window` instructions that can issue in the same cycle.
fn fill_second_slots(region: &Region<'_>, order: &[u32]) -> Vec<u32> {
    let Region { code, graph, costs, .. } = *region;
    let window = region.settings.knobs.pairing_window;
    let item = |node: u32| &code.items[graph.region.start + node as usize];
    let mut left = graph.predecessor_counts().to_vec();
    let mut is_placed = vec![false; graph.items()];
    let mut pending: std::collections::VecDeque<u32> = order.iter().copied().collect();
    let mut result = Vec::with_capacity(order.len());
    let mut unpaired: Option<u32> = None;
    while let Some(next) = pending.pop_front() {
        if std::mem::replace(&mut is_placed[next as usize], true) {
            continue;
        }
        release_successors(region, next, &mut left);
        result.push(next);
        if item(next).opcode.is_none() {
            continue;
        }
        if unpaired.take().is_some_and(|first| costs.can_dual_issue_pair(item(first).class, item(next).class)) {
            continue;
        }
        let depends = |other: u32| graph.successors(next).iter().any(|edge| edge.node == other);
        let is_partner = |&&other: &&u32| {
            !is_placed[other as usize]
                && left[other as usize] == 0
                && item(other).opcode.is_some()
                && costs.can_dual_issue_pair(item(next).class, item(other).class)
                && !depends(other)
        };
        match pending.iter().take(window).find(is_partner).copied() {
            Some(partner) => {
                is_placed[partner as usize] = true;
                release_successors(region, partner, &mut left);
                result.push(partner);
            }
            None => unpaired = Some(next),
        }
    }
    result
}

/// Decrements the number of unplaced predecessors (`left`) of each successor of a placed node. A join whose predecessors are all placed is
/// placed at once.
fn release_successors(region: &Region<'_>, node: u32, left: &mut [u32]) {
    for edge in region.graph.successors(node) {
        left[edge.node as usize] -= 1;
        if left[edge.node as usize] == 0 && edge.node as usize >= region.graph.items() {
            release_successors(region, edge.node, left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::engine::testing::TestRegion;
    use super::*;

    /// Four sums of the FMA unit, then four of the ALU; all are independent.
    const TEST_INSTRUCTIONS: [&str; 8] = [
        "FADD R10, R0, R1",
        "FADD R11, R0, R1",
        "FADD R12, R0, R1",
        "FADD R13, R0, R1",
        "LOP3.LUT R20, R0, R1, RZ, 0xc0, !PT",
        "LOP3.LUT R21, R0, R1, RZ, 0xc0, !PT",
        "LOP3.LUT R22, R0, R1, RZ, 0xc0, !PT",
        "LOP3.LUT R23, R0, R1, RZ, 0xc0, !PT",
    ];
    const LIVE_OUT: [u16; 8] = [10, 11, 12, 13, 20, 21, 22, 23];

    #[test]
    fn units_alternate_on_a_machine_with_dual_issue() {
        let mut bench = TestRegion::new(&TEST_INSTRUCTIONS);
        bench.costs = bench.costs.clone().with_dual_issue();
        for strategy in [&DualIssue as &dyn Strategy, &Pairing] {
            let (schedule, _) = bench.run(strategy, &[0, 1], &LIVE_OUT);
            // The ALU accepts an instruction every second cycle, so the last one issues in cycle 6; the first pair in cycle 0.
            assert!(schedule.length.issued <= 7, "{}: {:?} {:?}", strategy.name(), schedule.order, schedule.length);
            assert!(schedule.picks[1].cycle == 0, "{}: {:?}", strategy.name(), schedule.picks);
            assert!(schedule.length.is_shorter_than(bench.original_length()), "{}: {:?}", strategy.name(), schedule.length);
        }
    }

    #[test]
    fn nothing_is_paired_without_dual_issue() {
        let bench = TestRegion::new(&TEST_INSTRUCTIONS);
        for strategy in [&DualIssue as &dyn Strategy, &Pairing] {
            let (schedule, _) = bench.run(strategy, &[0, 1], &LIVE_OUT);
            assert!(schedule.picks.iter().all(|pick| pick.reason != Reason::DualIssue), "{}", strategy.name());
        }
    }

    #[test]
    fn dependent_instructions_are_no_pair() {
        let lines = ["FADD R10, R0, R1", "LOP3.LUT R20, R10, R1, RZ, 0xc0, !PT", "FADD R11, R20, R1"];
        let mut bench = TestRegion::new(&lines);
        bench.costs = bench.costs.clone().with_dual_issue();
        let (schedule, _) = bench.run(&Pairing, &[0, 1], &[11]);
        assert_eq!(schedule.order, [0, 1, 2]);
        assert_eq!(schedule.length.issued, bench.original_length().issued);
    }
}
