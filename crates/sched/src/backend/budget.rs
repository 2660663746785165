//! Limits the searches of a function to a number of steps and, on request, to a time.
//!
//! Without `--sched-budget` only steps are counted, so the same input gives the same bytes. With it, the searches of a function also end
//! when the given time has passed, and the result depends on the speed of the machine.

use std::time::{Duration, Instant};

use super::knobs::Knobs;

/// Number of steps between two readings of the system clock.
const STEPS_PER_CLOCK_READ: u32 = 64;

/// Counts the steps of all searches of a function, and ends the searches when the steps or the time are used up.
#[derive(Default)]
pub(super) struct SearchBudget {
    /// The time at which all searches end; `None` if there is no limit, or no search has started yet.
    deadline: Option<Instant>,
    /// Number of steps that all searches of the function have taken so far.
    steps_taken: usize,
    /// Whether the deadline has passed.
    is_past_deadline: bool,
}

impl SearchBudget {
    /// Starts the search of a region. Returns the number of steps that the search may take: `region_steps`, or the number of steps that the
    /// function has left if that is lower; 0 if the deadline has passed.
    pub(super) fn start(&mut self, knobs: &Knobs, region_steps: usize) -> usize {
        if let Some(milliseconds) = knobs.search_milliseconds {
            // The time starts with the first search of the function.
            self.deadline.get_or_insert_with(|| Instant::now() + Duration::from_millis(milliseconds.into()));
        }
        self.read_clock();
        if self.is_past_deadline { 0 } else { region_steps.min(knobs.search_steps.saturating_sub(self.steps_taken)) }
    }

    /// Counts a step. Returns whether the deadline has passed.
    pub(super) fn step(&mut self) -> bool {
        self.steps_taken += 1;
        if self.deadline.is_some() && (self.steps_taken as u32).is_multiple_of(STEPS_PER_CLOCK_READ) {
            self.read_clock();
        }
        self.is_past_deadline
    }

    /// Reads the system clock and updates `is_past_deadline`.
    fn read_clock(&mut self) {
        self.is_past_deadline |= self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
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
