//! Runs independent jobs on several threads.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Stack size of each thread in bytes, the same as of the main thread of Oriole's programs. Only the part in use takes memory.
const STACK_BYTES: usize = 64 << 20;

/// Size in bytes of the largest PTX text that libraries compile on the stack of the caller: it cannot make the recursions of the compiler
/// deep, and starting a thread takes as long as compiling a small kernel.
pub const SMALL_TEXT_BYTES: usize = 4 << 10;

/// Runs the jobs whose numbers are in `order`, a permutation of `0..order.len()`, and returns their results by job number.
///
/// The calling thread is one of the `threads`; a thread that finishes a job takes the next one of `order`. If a job panics, so does the
/// caller.
pub fn run_jobs<R: Send>(threads: usize, order: &[usize], run: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        while let Some(&job) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            done.push((job, run(job)));
        }
        done
    };
    let mut results = thread::scope(|scope| {
        // If the system refuses to start a thread, the remaining threads do the work.
        let spawn = |_| thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, worker).ok();
        let others: Vec<_> = (1..threads).filter_map(spawn).collect();
        let mut results = worker();
        for other in others {
            results.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        results
    });
    results.sort_unstable_by_key(|(job, _)| *job);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Returns the number of threads that can run at the same time, at most `limit`, and at least 1.
pub fn available_threads(limit: usize) -> usize {
    // Asking the system takes as long as compiling a small function.
    if limit > 1 { thread::available_parallelism().map_or(1, usize::from).min(limit) } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_by_job_number() {
        let order: Vec<usize> = (0..100).rev().collect();
        for threads in [1, 3] {
            assert_eq!(run_jobs(threads, &order, |job| job * 2), (0..200).step_by(2).collect::<Vec<_>>());
        }
        assert!(run_jobs(2, &[], |job| job).is_empty());
    }

    #[test]
    fn a_panic_of_any_job_reaches_the_caller() {
        let order: Vec<usize> = (0..100).collect();
        for bad in [0, 50, 99] {
            let run = |job: usize| assert_ne!(job, bad, "job {bad} fails");
            let caught = std::panic::catch_unwind(|| run_jobs(3, &order, run)).unwrap_err();
            let message = caught.downcast_ref::<String>().unwrap();
            assert!(message.contains(&format!("job {bad} fails")), "{message}");
        }
    }
}
