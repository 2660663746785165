//! Runs one job per input file in parallel, and prints the messages of the jobs in the order of the files.
//!
//! Each job prints into a buffer of its own. The buffer of a job is printed as soon as all earlier jobs are done, so that the output
//! does not depend on the number of threads. Memory is bounded: a job starts only while the sizes of the running jobs add up to at most
//! [`BYTES_IN_FLIGHT`], or if no other job is running.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, PoisonError};

use oriole_support::{available_threads, run_jobs};

use crate::print::{self, Captured};
use crate::progress::ProgressLine;

/// Limit on the sum of the input sizes of running jobs, in bytes.
const BYTES_IN_FLIGHT: u64 = 32 << 20;

/// Runs `run` for each of `sizes.len()` jobs, and returns the results in order. `sizes` are input sizes in bytes. `line` counts the jobs.
pub fn run<R: Send>(sizes: &[u64], line: Option<&ProgressLine>, run: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let budget = Budget::default();
    let printer = Printer::default();
    let order: Vec<usize> = (0..sizes.len()).collect();
    run_jobs(available_threads(sizes.len()), &order, |job| {
        let share = budget.take(sizes[job]);
        let (result, captured) = print::capture(|| run(job));
        drop(share);
        match line {
            Some(line) => line.file_done(sizes[job], || printer.add(job, captured)),
            None => printer.add(job, captured),
        }
        result
    })
}

/// The input sizes of the running jobs.
#[derive(Default)]
struct Budget {
    in_flight: Mutex<u64>,
    released: Condvar,
}

impl Budget {
    /// Waits until a job of this size may start.
    fn take(&self, size: u64) -> Share<'_> {
        // An empty file counts, so that zero means that no job is running.
        let size = size.max(1);
        let in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |in_flight: &mut u64| *in_flight > 0 && in_flight.saturating_add(size) > BYTES_IN_FLIGHT;
        let mut in_flight = self.released.wait_while(in_flight, is_full).unwrap_or_else(PoisonError::into_inner);
        *in_flight = in_flight.saturating_add(size);
        Share { budget: self, size }
    }
}

/// The part of the budget that one job uses. Dropping it, also during a panic, gives the part back.
struct Share<'a> {
    budget: &'a Budget,
    size: u64,
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        let mut in_flight = self.budget.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        *in_flight = in_flight.saturating_sub(self.size);
        self.budget.released.notify_all();
    }
}

/// Messages of finished jobs that wait for earlier jobs, and the number of the next job to print.
#[derive(Default)]
struct Printer {
    state: Mutex<(usize, BTreeMap<usize, Captured>)>,
}

impl Printer {
    /// Adds the messages of a job, and prints all messages whose predecessors have been printed.
    fn add(&self, job: usize, captured: Captured) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (next, waiting) = &mut *state;
        waiting.insert(job, captured);
        while let Some(captured) = waiting.remove(next) {
            captured.print();
            *next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_jobs() {
        for size in [0, 1, BYTES_IN_FLIGHT / 2, BYTES_IN_FLIGHT * 3] {
            assert_eq!(run(&[size; 50], None, |job| job * 2), (0..100).step_by(2).collect::<Vec<_>>());
        }
        assert!(run(&[], None, |job| job).is_empty());
    }

    #[test]
    fn large_jobs_run_alone() {
        let running = AtomicUsize::new(0);
        let alone = run(&[BYTES_IN_FLIGHT; 20], None, |_| {
            let others = running.fetch_add(1, Ordering::SeqCst);
            thread::yield_now();
            running.fetch_sub(1, Ordering::SeqCst);
            others == 0
        });
        assert_eq!(alone, [true; 20]);
    }

    #[test]
    fn a_panic_does_not_stop_the_other_threads_forever() {
        let caught = std::panic::catch_unwind(|| run(&[BYTES_IN_FLIGHT; 8], None, |job| assert_ne!(job, 3)));
        assert!(caught.is_err());
    }
}
