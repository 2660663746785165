//! Strategy `scoreboard`: a list schedule that avoids more results in flight than there are scoreboards.
//!
//! A warp has six scoreboards. If a seventh instruction of variable latency issues, it shares a scoreboard with an earlier one, and the
//! reader of the earlier result waits for both (a *false wait*). So while `scoreboard-limit` results are in flight, a candidate that would
//! put another result in flight loses. Among the other candidates, fewer stall cycles win; then a reader of a result that has arrived,
//! because it frees the scoreboard; then the longer critical path. O(n log n) for *n* items.
//!
//! Example: four loads, each with a sum that reads its result, and only two scoreboards.
//!
//! ```text
//! critical-path   L0 L1 L2 L3 A0 A1 A2 A3       L2 shares the scoreboard of L0: A0 waits for L2 too
//! scoreboard      L0 L1 A0 L2 A1 L3 A2 A3       two results in flight at any time
//! ```
//!
//! | topic | description of ptxas | here | why |
//! |---|---|---|---|
//! | means | reuse of barrier registers | the order | the assignment of scoreboards is a pass of its own (phase 115), which reuses them |

use super::engine::{Candidate, MAX_CRITERIA, Priority, RegionAnalysis, engine_reasons, enter_region, run};
use super::reason::Reason;
use super::schedule::{Schedule, SearchOutcome};
use super::strategy::{Region, RegionScheduler, Strategy};
use crate::pressure::PressureTracker;

/// The priority function: first, at most `max_in_flight` results in flight; then fewer stall cycles, then readers of results that have
/// arrived, then the longer critical path.
struct ByScoreboards {
    /// Maximum number of results in flight at once.
    max_in_flight: usize,
}

impl Priority for ByScoreboards {
    const CRITERION_REASONS: &'static [Reason] =
        &[Reason::FewerScoreboards, Reason::Cost, Reason::FreesScoreboard, Reason::DependencyCycle];

    /// Returns the value of each criterion for a candidate; higher values win.
    fn criterion_values(&self, _: &RegionAnalysis<'_>, candidate: &Candidate) -> [i64; MAX_CRITERIA] {
        let crowds = candidate.sets_scoreboard && candidate.scoreboards_in_use >= self.max_in_flight;
        let frees = candidate.awaits_scoreboard && !candidate.sets_scoreboard;
        [-i64::from(crowds), -i64::from(candidate.stall), frees.into(), candidate.height.into(), 0]
    }
}

/// Keeps the number of results in flight at most the number of scoreboards; the strategy `scoreboard` of the command line.
pub(super) struct ScoreboardScheduling;

impl Strategy for ScoreboardScheduling {
    /// Returns the name of the strategy on the command line.
    fn name(&self) -> &'static str {
        "scoreboard"
    }

    /// Returns the one-line description for help texts.
    fn description(&self) -> &'static str {
        "keeps the results in flight within the scoreboards of a warp"
    }

    /// Returns the reasons that a trace of this strategy may give for a decision.
    fn reasons(&self) -> &'static [Reason] {
        engine_reasons![FewerScoreboards, Cost, FreesScoreboard, DependencyCycle]
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

/// Schedules a region by the strategy `scoreboard`. The tracker of live registers must be at the start of the region, and is at its end
/// afterwards.
fn schedule(region: &Region<'_>, tracker: &mut PressureTracker) -> Schedule {
    let groups = enter_region(region, tracker);
    let analysis = RegionAnalysis::new(region);
    let limit = region.settings.knobs.scoreboard_limit.unwrap_or(region.costs.scoreboards());
    run(&analysis, groups.as_ref(), &mut ByScoreboards { max_in_flight: limit }).into_schedule(region, tracker, SearchOutcome::None)
}

#[cfg(test)]
mod tests {
    use super::super::Knobs;
    use super::super::critical_path::CriticalPath;
    use super::super::engine::testing::TestRegion;
    use super::*;

    /// Returns the maximum number of loads in flight in an order of pairs: items at even positions of the code are loads, and the item
    /// after each load reads its result.
    fn max_loads_in_flight(order: &[usize], loads: usize) -> usize {
        let (mut open, mut most) = (0, 0);
        for &position in order {
            if position % 2 == 0 {
                open += 1;
            } else {
                open -= 1;
            }
            most = most.max(open);
        }
        assert_eq!(order.len(), 2 * loads);
        most
    }

    #[test]
    fn loads_in_flight_stay_within_the_limit() {
        let pair = |at: usize| [format!("LDS R{}, [R1+{:#x}]", 10 + at, 4 * at), format!("FADD R{}, R{}, R0", 30 + at, 10 + at)];
        let lines: Vec<String> = (0..12).flat_map(pair).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let mut bench = TestRegion::new(&lines);
        let live_out: Vec<u16> = (30..42).collect();
        let (all, _) = bench.run(&CriticalPath, &[0, 1], &live_out);
        assert!(max_loads_in_flight(&all.order, 12) > 6);
        for limit in [3, 6] {
            bench.settings.knobs = Knobs { scoreboard_limit: Some(limit), ..Knobs::default() };
            let (schedule, _) = bench.run(&ScoreboardScheduling, &[0, 1], &live_out);
            let most = max_loads_in_flight(&schedule.order, 12);
            assert!(most <= limit && most > 1, "{most} in flight where {limit} are allowed");
        }
    }

    #[test]
    fn few_loads_are_not_held_back() {
        let lines = ["LDS R10, [R1]", "FADD R11, R10, R0", "LDS R20, [R1+0x4]", "FADD R21, R20, R0"];
        let (schedule, _) = TestRegion::new(&lines).run(&ScoreboardScheduling, &[0, 1], &[11, 21]);
        assert_eq!(schedule.order, [0, 2, 1, 3]);
    }
}
