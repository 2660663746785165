//! Strategy `warp-schedule`: orders regions as backend B, and chooses where warps yield by a model of several warps.
//!
//! The yield flags are part of the control words (phase 120), which come after the order is final. The strategy only says that they are to
//! be tuned ([`Variation::TuneYields`]); `oriole_ctrl::tune_yields` computes them with several rules, simulates the resident warps of a
//! sub-partition with each, and keeps the best. The trace has the rule and the predicted cycles.
//!
//! The description of ptxas calls this "warp-level yield tuning for multi-warp scheduling".

use super::weighted_variant::{Variation, WeightedVariant};

/// Orders regions as backend B, and asks for yields that a model of several warps chooses; the strategy `warp-schedule` of the command
/// line.
pub(super) const WARP_SCHEDULE: WeightedVariant = WeightedVariant {
    name: "warp-schedule",
    description: "as b, with yields tuned by a model of several warps",
    variation: Variation::TuneYields,
};
