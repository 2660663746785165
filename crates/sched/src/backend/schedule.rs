//! The result of scheduling a region: the new order and, on request, the reason for each decision.

use super::clock::Length;
use super::reason::Reason;

/// One decision of a scheduler, with its reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScheduleDecision {
    /// Position in the code of the item that was scheduled.
    pub picked: usize,
    /// Position in the code of the second-best candidate; `None` if there was no other candidate or it is not known.
    pub runner_up: Option<usize>,
    /// The criterion that decided between the item and the second-best candidate.
    pub reason: Reason,
    /// Issue cycle of the scheduled item, from the start of the region.
    pub cycle: u32,
}

/// A new order of a region, with its length and, on request, the reasons for it.
#[derive(Clone, Default, Debug)]
pub struct Schedule {
    /// Positions of the items in the code, in the new order.
    pub order: Vec<usize>,
    /// Estimated length in cycles.
    pub length: Length,
    /// Whether some order that was tried, not necessarily this one, has more live general registers than the scarcity threshold
    /// [`Budget::scarce_above`].
    pub exceeded_scarcity: bool,
    /// One decision per item, in the new order; empty unless [`Settings::trace`] is set.
    pub picks: Vec<ScheduleDecision>,
    /// Outcome of the search for the best order; [`SearchOutcome::None`] if the strategy does not search.
    pub search: SearchOutcome,
}

/// The outcome of a search for the best order of a region.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum SearchOutcome {
    /// The strategy does not search.
    #[default]
    None,
    /// No order within the register budget is shorter, by the cost model of issue ([`Length`]).
    Optimal,
    /// The limit of steps or time was reached before the search was complete, so a shorter order may exist.
    Ended,
    /// The region has too many items to be searched.
    TooLarge,
}
