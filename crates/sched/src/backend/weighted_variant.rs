//! The common part of the strategies that change a function as a whole and then order its regions as backend B.
//!
//! Such a strategy consists of a name, a description and the function that makes the changes ([`super::rearrange`]); everything else is
//! that of backend B. The strategies `global`, `software-pipelining`, `barrier-coalescence` and `prefetch` are values of
//! [`RearrangingStrategy`].

use oriole_ir::Function;

use super::rearrange::{CodeChange, RearrangeContext};
use super::reason::Reason;
use super::strategy::{RegionScheduler, Strategy};
use super::weighted::WeightedScheduling;

/// A strategy that changes the function before its regions are ordered, and orders the regions as backend B.
pub(super) struct RearrangingStrategy {
    /// The name on the command line.
    pub(super) name: &'static str,
    /// The one-line description for help texts.
    pub(super) description: &'static str,
    /// Changes the function and returns every change with its reason.
    pub(super) rearrange: fn(&mut Function, RearrangeContext<'_>) -> Vec<CodeChange>,
}

impl Strategy for RearrangingStrategy {
    /// Returns the name of the strategy on the command line.
    fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the one-line description for help texts.
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

    /// Returns false: the caller does not ask this strategy whether more registers would give a faster order.
    fn reports_register_demand(&self) -> bool {
        false
    }

    /// Returns true: the strategy changes the function before its regions are ordered.
    fn rearranges(&self) -> bool {
        true
    }

    /// Changes the function and returns every change with its reason.
    fn rearrange(&self, function: &mut Function, context: RearrangeContext<'_>) -> Vec<CodeChange> {
        (self.rearrange)(function, context)
    }
}
