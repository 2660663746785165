//! The table of scheduling strategies. Names and help texts of `--sched-strategy` and `--sched-backend`, and the strategies that `auto`
//! tries, come from it.

use std::fmt;

use super::backtracking::Backtracking;
use super::barrier_coalescence::BARRIER_COALESCENCE;
use super::busy_unit::BusyUnit;
use super::combined::Combined;
use super::critical_path::CriticalPath;
use super::depth_first::DepthFirst;
use super::dual_issue::{DualIssue, Pairing};
use super::global::GLOBAL;
use super::latency::LatencyScheduling;
use super::list::ListScheduling;
use super::loop_aware::LoopAware;
use super::near_source::NearSource;
use super::permutation::Permutation;
use super::prefetch::PREFETCH;
use super::pressure::PressureScheduling;
use super::scoreboard::ScoreboardScheduling;
use super::software_pipelining::SOFTWARE_PIPELINING;
use super::strategy::Strategy;
use super::tensor::TensorScheduling;
use super::tree::TreeScheduling;
use super::warp_schedule::WARP_SCHEDULE;
use super::weighted::WeightedScheduling;

/// All strategies. A [`Backend`] is an index into this table.
const STRATEGIES: [&dyn Strategy; 22] = [
    &ListScheduling,
    &WeightedScheduling,
    &TreeScheduling,
    &Permutation,
    &Backtracking,
    &CriticalPath,
    &DepthFirst,
    &LatencyScheduling,
    &PressureScheduling,
    &LoopAware,
    &TensorScheduling,
    &ScoreboardScheduling,
    &Combined,
    &GLOBAL,
    &SOFTWARE_PIPELINING,
    &BARRIER_COALESCENCE,
    &PREFETCH,
    &DualIssue,
    &Pairing,
    &WARP_SCHEDULE,
    &NearSource,
    &BusyUnit,
];

/// The strategy that schedules a function, as an index into the table of strategies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Backend(u8);

impl Backend {
    /// List scheduling with an eight-bit priority ([`super::list`]).
    pub const A: Backend = Backend(0);
    /// Forward and backward list scheduling by a weighted sum ([`super::weighted`]).
    pub const B: Backend = Backend(1);
    /// List scheduling with ordered trees, several attempts per region ([`super::tree`]).
    pub const C: Backend = Backend(2);

    /// Schedules each region by several strategies, and keeps the best order ([`super::combined`]).
    pub const COMBINED: Backend = Backend(12);
    /// List scheduling by the longest path ([`super::critical_path`]).
    pub const CRITICAL_PATH: Backend = Backend(5);
    /// Places each definition next to its uses ([`super::pressure`]).
    pub const PRESSURE: Backend = Backend(8);
    /// Moves instructions between blocks ([`super::global`]).
    pub const GLOBAL: Backend = Backend(13);
    /// Loads the data of the next iteration before the arithmetic of this one ([`super::software_pipelining`]).
    pub const SOFTWARE_PIPELINING: Backend = Backend(14);
    /// Schedules loop bodies for few cycles per iteration ([`super::loop_aware`]).
    pub const LOOP_AWARE: Backend = Backend(9);
    /// Keeps few registers live, in an order near the original one ([`super::near_source`]).
    pub const NEAR_SOURCE: Backend = Backend(20);
    /// Schedules regions with matrix products ([`super::tensor`]).
    pub const TENSOR: Backend = Backend(10);

    /// The three schedulers of the published description, which `--sched-backend` names.
    pub const BACKENDS_A_B_C: [Backend; 3] = [Backend::A, Backend::B, Backend::C];

    /// All strategies, in the order of the table.
    pub const ALL: [Backend; STRATEGIES.len()] = {
        let mut all = [Backend(0); STRATEGIES.len()];
        let mut number = 0;
        while number < all.len() {
            all[number] = Backend(number as u8);
            number += 1;
        }
        all
    };

    /// Returns the implementation of the strategy.
    pub fn strategy(self) -> &'static dyn Strategy {
        STRATEGIES[usize::from(self.0)]
    }

    /// Returns the name of the strategy on the command line.
    pub fn name(self) -> &'static str {
        self.strategy().name()
    }

    /// Returns the strategies that `--sched-backend auto` tries, each in a compilation of its own ([`Strategy::is_tried_by_auto`]).
    pub fn tried_by_auto() -> impl Iterator<Item = Backend> {
        Backend::ALL.into_iter().filter(|backend| backend.strategy().is_tried_by_auto())
    }

    /// Returns the strategy with this name on the command line; `None` if there is none.
    pub fn parse(name: &str) -> Option<Backend> {
        Backend::ALL.into_iter().find(|backend| backend.name() == name)
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::backend::Reason;

    #[test]
    fn names_are_distinct_and_parse() {
        let names: BTreeSet<&str> = Backend::ALL.iter().map(|backend| backend.name()).collect();
        assert_eq!(names.len(), Backend::ALL.len());
        assert!(Backend::ALL.into_iter().all(|backend| Backend::parse(backend.name()) == Some(backend)));
        assert_eq!(["a", "b", "c", "d"].map(Backend::parse), [Some(Backend::A), Some(Backend::B), Some(Backend::C), None]);
        assert!(Backend::ALL.iter().all(|backend| !backend.strategy().description().is_empty()));
        let named = [
            Backend::COMBINED,
            Backend::CRITICAL_PATH,
            Backend::LOOP_AWARE,
            Backend::TENSOR,
            Backend::GLOBAL,
            Backend::SOFTWARE_PIPELINING,
            Backend::PRESSURE,
            Backend::NEAR_SOURCE,
        ];
        assert_eq!(
            named.map(Backend::name),
            ["combined", "critical-path", "loop-aware", "tensor", "global", "software-pipelining", "pressure", "near-source"]
        );
        assert!(Backend::tried_by_auto().eq(Backend::BACKENDS_A_B_C));
    }

    #[test]
    fn every_reason_belongs_to_a_strategy() {
        let used: BTreeSet<Reason> = Backend::ALL.iter().flat_map(|backend| backend.strategy().reasons()).copied().collect();
        assert!(Reason::ALL.iter().copied().eq(used), "reasons that no strategy gives have no place in `Reason`");
    }
}
