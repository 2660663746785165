//! Limits the searches of a function: to a number of steps, and optionally to a time.
//!
//! Without `--sched-budget` only steps are counted, so the same input gives the same bytes. With it, the searches of a function also end
//! when the time is over, and the result depends on the speed of the machine.

use std::time::{Duration, Instant};

use super::knobs::Knobs;

/// Number of steps between two readings of the system clock.
const STEPS_PER_LOOK: u32 = 64;

/// The number of steps and the time that the searches of a function may still take.
#[derive(Default)]
pub(super) struct SearchBudget {
    /// The time at which all searches end; `None` if there is no limit, or no search has started yet.
    deadline: Option<Instant>,
    /// Number of steps that all searches of the function have taken so far.
    taken: usize,
    /// Whether the deadline has passed.
    is_over: bool,
}

impl SearchBudget {
    /// Starts the search of a region. Returns the number of steps that it may take.
    pub(super) fn start(&mut self, knobs: &Knobs, of_region: usize) -> usize {
        if let Some(milliseconds) = knobs.search_milliseconds {
            // The time starts with the first search of the function.
            self.deadline.get_or_insert_with(|| Instant::now() + Duration::from_millis(milliseconds.into()));
        }
        self.look();
        if self.is_over { 0 } else { of_region.min(knobs.search_steps.saturating_sub(self.taken)) }
    }

    /// Counts a step. Returns whether the deadline has passed.
    pub(super) fn step(&mut self) -> bool {
        self.taken += 1;
        if self.deadline.is_some() && (self.taken as u32).is_multiple_of(STEPS_PER_LOOK) {
            self.look();
        }
        self.is_over
    }

    /// Reads the system clock and updates `is_over`.
    fn look(&mut self) {
        self.is_over |= self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_a_function_are_limited() {
        let knobs = Knobs { search_steps: 5, ..Knobs::default() };
        let mut budget = SearchBudget::default();
        assert_eq!(budget.start(&knobs, 3), 3);
        (0..3).for_each(|_| assert!(!budget.step()));
        assert_eq!(budget.start(&knobs, 3), 2);
        assert!(!budget.step() && !budget.step());
        assert_eq!(budget.start(&knobs, 3), 0);
    }

    #[test]
    fn a_time_limit_of_zero_ends_the_search_at_once() {
        let knobs = Knobs { search_milliseconds: Some(0), ..Knobs::default() };
        assert_eq!(SearchBudget::default().start(&knobs, 100), 0);
    }
}
