//! Strategy `warp-schedule`: orders regions as backend B, and chooses where warps yield by a model of several warps.
//!
//! The yield flags are part of the control words (phase 120), which are computed after the order is final. The strategy only requests that
//! the flags are tuned ([`Variation::TuneYields`]): `oriole_ctrl::tune_yields` computes them by several rules, simulates the resident warps
//! of a sub-partition with each result, and keeps the best one. The trace names the rule and the predicted number of cycles.
//!
//! The description of ptxas calls this "warp-level yield tuning for multi-warp scheduling".

use super::weighted_variant::{Variation, WeightedVariant};

/// Orders regions as backend B, and has the yield flags chosen by a model of several warps; the strategy `warp-schedule` of the command
/// line.
pub(super) const WARP_SCHEDULE: WeightedVariant = WeightedVariant {
    name: "warp-schedule",
    description: "as b, with yields tuned by a model of several warps",
    variation: Variation::TuneYields,
};
