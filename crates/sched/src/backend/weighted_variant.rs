//! The common part of the strategies that order regions as backend B and differ from it outside of regions.
//!
//! Such a strategy consists of a name, a description and one [`Variation`]; everything else is that of backend B. The strategies `global`,
//! `software-pipelining`, `barrier-coalescence`, `prefetch` and `warp-schedule` are values of [`WeightedVariant`].

use oriole_ir::Function;

use super::rearrange::{CodeChange, RearrangeContext};
use super::reason::Reason;
use super::strategy::{RegionScheduler, Strategy};
use super::weighted::WeightedScheduling;

/// A strategy that orders the regions of a function as backend B does, with one [`Variation`].
pub(super) struct WeightedVariant {
    /// The name of the strategy on the command line.
    pub(super) name: &'static str,
    /// The one-line description for help texts.
    pub(super) description: &'static str,
    /// What this strategy does differently from backend B.
    pub(super) variation: Variation,
}

/// The difference between a [`WeightedVariant`] and backend B, outside of the scheduling of regions.
pub(super) enum Variation {
    /// Changes the compiled function before its regions are ordered, by a callback that returns each change with its reason.
    Rearrange(fn(&mut Function, RearrangeContext<'_>) -> Vec<CodeChange>),
    /// Chooses the yield flags of the control words by a simulation of several warps, after the order is final.
    TuneYields,
}

impl Strategy for WeightedVariant {
    fn name(&self) -> &'static str {
        self.name
    }

    fn description(&self) -> &'static str {
        self.description
    }

    /// Returns the reasons of backend B, which orders the regions.
    fn reasons(&self) -> &'static [Reason] {
        WeightedScheduling.reasons()
    }

    /// Returns the region scheduler of backend B.
    fn scheduler(&self) -> RegionScheduler {
        WeightedScheduling.scheduler()
    }

    /// Returns false: if no order of a region can be faster than the original one, the caller may skip this strategy there.
    fn reports_register_demand(&self) -> bool {
        false
    }

    fn tunes_yields(&self) -> bool {
        matches!(self.variation, Variation::TuneYields)
    }

    fn may_rearrange(&self) -> bool {
        matches!(self.variation, Variation::Rearrange(_))
    }

    /// Changes the function and returns every change with its reason.
    fn rearrange(&self, function: &mut Function, context: RearrangeContext<'_>) -> Vec<CodeChange> {
        match self.variation {
            Variation::Rearrange(rearrange) => rearrange(function, context),
            Variation::TuneYields => Vec::new(),
        }
    }
}
