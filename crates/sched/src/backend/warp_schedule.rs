//! Strategy `warp-schedule`: orders regions as backend B, and chooses where warps yield by a model of several warps.
//!
//! The yield flags are part of the control words (phase 120), which come after the order is final. The strategy only says that they are to
//! be tuned ([`super::strategy::Strategy::tunes_yields`]); `oriole_ctrl::tune_yields` computes them with several rules, simulates the
//! resident warps of a sub-partition with each, and keeps the best. The trace has the rule and the predicted cycles.
//!
//! The description of ptxas calls this "warp-level yield tuning for multi-warp scheduling".

use super::reason::Reason;
use super::strategy::{RegionScheduler, Strategy};
use super::weighted::WeightedScheduling;

/// The strategy `warp-schedule`.
pub(super) struct WarpSchedule;

impl Strategy for WarpSchedule {
    fn name(&self) -> &'static str {
        "warp-schedule"
    }

    fn description(&self) -> &'static str {
        "as b, with yields tuned by a model of several warps"
    }

    fn reasons(&self) -> &'static [Reason] {
        WeightedScheduling.reasons()
    }

    fn scheduler(&self) -> RegionScheduler {
        WeightedScheduling.scheduler()
    }

    fn reports_register_demand(&self) -> bool {
        false
    }

    fn tunes_yields(&self) -> bool {
        true
    }
}
