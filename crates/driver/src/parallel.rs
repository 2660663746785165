//! Runs jobs in parallel on as many threads as the amount of work justifies.
//!
//! Most files have a few functions and compile in less time than the threads for all processors take to start. The number of threads is
//! therefore limited by the total work, and the calling thread is one of them. The first compilation with enough work for all processors
//! starts a pool of threads, which later compilations use too. A thread that finishes a job takes the next one. The largest jobs start
//! first, so that no large job is left for the end while the other threads are idle. Results are returned in the order of the jobs,
//! independent of the thread that ran them. The caller of the compiler may run the jobs itself ([`Executor`]).
//!
//! On WebAssembly without threads `available_parallelism` is an error, and the calling thread runs all jobs.

use std::cmp::Reverse;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};
use std::thread;

use oriole_support::{available_threads, drop_on_pool, run_jobs_on_pool};

use crate::hooks::{Executor, Parallelism};

/// Number of PTX instructions that justify one more thread: compiling them takes a little longer than starting a thread.
const INSTRUCTIONS_PER_THREAD: usize = 150;

/// Calls `run` for all jobs, on several threads if there is enough work, and returns the results in the order of the jobs. `size` returns
/// the size of a job in PTX instructions.
pub fn map_in_parallel<J: Sync, R: Send>(
    parallelism: &Parallelism,
    jobs: &[J],
    size: impl Fn(&J) -> usize,
    run: impl Fn(&J) -> R + Sync,
) -> Vec<R> {
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|&job| Reverse(size(&jobs[job])));
    match parallelism {
        Parallelism::Threads => run_on_threads(jobs, &order, size, run),
        Parallelism::Sequential => jobs.iter().map(run).collect(),
        Parallelism::Executor(executor) => run_on_executor(executor.as_ref(), jobs, &order, run),
    }
}

/// Size of a job that takes a few microseconds, in units of the time to compile one PTX instruction.
const SHORT_JOB_SIZE_INSTRUCTIONS: usize = 2;

/// Calls `run` for jobs that take a few microseconds each, such as describing compiled functions, and returns the results in the order of
/// the jobs. If the caller of the compiler provides an executor, the jobs run on the calling thread, because the executor is for compiling
/// functions.
pub fn map_short_jobs<J: Sync, R: Send>(parallelism: &Parallelism, jobs: &[J], run: impl Fn(&J) -> R + Sync) -> Vec<R> {
    match parallelism {
        Parallelism::Threads => run_on_threads(jobs, &(0..jobs.len()).collect::<Vec<_>>(), |_| SHORT_JOB_SIZE_INSTRUCTIONS, run),
        Parallelism::Sequential | Parallelism::Executor(_) => jobs.iter().map(run).collect(),
    }
}

/// Calls `run` for all jobs on threads that the executor provides, started in the given order, and returns the results in the order of the
/// jobs. A job that the executor does not run is run on the calling thread.
fn run_on_executor<J: Sync, R: Send>(executor: &dyn Executor, jobs: &[J], order: &[usize], run: impl Fn(&J) -> R + Sync) -> Vec<R> {
    let results: Vec<Mutex<Option<thread::Result<R>>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
    executor.execute(jobs.len(), &|number| {
        let Some(&job) = order.get(number) else { return };
        // A panic is caught here and resumed on the calling thread, so that it does not end a thread of the executor.
        let result = catch_unwind(AssertUnwindSafe(|| run(&jobs[job])));
        *results[job].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
    });
    let take = |(job, result): (&J, Mutex<Option<thread::Result<R>>>)| {
        let result = result.into_inner().unwrap_or_else(PoisonError::into_inner);
        result.unwrap_or_else(|| Ok(run(job))).unwrap_or_else(|panic| resume_unwind(panic))
    };
    jobs.iter().zip(results).map(take).collect()
}

/// Minimum number of functions for which another thread frees the memory of the results: freeing it here would take longer than starting
/// that thread.
const MIN_FUNCTIONS_TO_FREE_IN_THREAD: usize = 100;

/// Frees the memory of `computed`, the results of compiling this number of functions. Another thread does that if there are at least
/// [`MIN_FUNCTIONS_TO_FREE_IN_THREAD`] and the compiler uses threads of its own.
pub fn free_results<V: Send + 'static>(parallelism: &Parallelism, functions: usize, computed: V) {
    if functions >= MIN_FUNCTIONS_TO_FREE_IN_THREAD && matches!(parallelism, Parallelism::Threads) {
        drop_on_pool(computed);
    }
}

/// Calls `run` for all jobs on threads of the compiler and returns the results in the order of the jobs. `order` has the indices of the
/// jobs in the order in which they start.
fn run_on_threads<J: Sync, R: Send>(jobs: &[J], order: &[usize], size: impl Fn(&J) -> usize, run: impl Fn(&J) -> R + Sync) -> Vec<R> {
    let work: usize = jobs.iter().map(size).sum();
    run_jobs_on_pool(available_threads(jobs.len().min(work / INSTRUCTIONS_PER_THREAD)), order, |job| run(&jobs[job]))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// An executor that runs the tasks from the last to the first, every second one on another thread, and does not run some of them.
    struct BackwardsExecutor {
        /// Number of tasks that are not run.
        left_out: usize,
    }

    impl Executor for BackwardsExecutor {
        fn execute(&self, count: usize, task: &(dyn Fn(usize) + Sync)) {
            thread::scope(|scope| {
                for number in (0..count).rev().filter(|number| number % 10 != self.left_out) {
                    match number % 2 {
                        0 => task(number),
                        _ => drop(scope.spawn(move || task(number))),
                    }
                }
            });
        }
    }

    /// Returns one [`Parallelism`] of each kind to test.
    fn all_parallelism_kinds() -> [Parallelism; 4] {
        let backwards = |left_out| Parallelism::Executor(Arc::new(BackwardsExecutor { left_out }));
        [Parallelism::Threads, Parallelism::Sequential, backwards(10), backwards(3)]
    }

    #[test]
    fn results_come_in_the_order_of_the_jobs() {
        for parallelism in all_parallelism_kinds() {
            for size in [0, 10, 1000] {
                let jobs: Vec<usize> = (0..100).collect();
                let results = map_in_parallel(&parallelism, &jobs, |job| size + job % 7, |job| job * 2);
                assert_eq!(results, (0..200).step_by(2).collect::<Vec<_>>());
            }
            assert_eq!(map_in_parallel(&parallelism, &[] as &[usize], |_| 1, |job| *job), []);
        }
    }

    #[test]
    fn a_panic_of_any_thread_reaches_the_caller() {
        let jobs: Vec<usize> = (0..100).collect();
        for (parallelism, bad) in all_parallelism_kinds().iter().flat_map(|parallelism| [0, 50, 99].map(|bad| (parallelism, bad))) {
            let run = |&job: &usize| assert_ne!(job, bad, "job {bad} fails");
            let call = AssertUnwindSafe(|| map_in_parallel(parallelism, &jobs, |_| INSTRUCTIONS_PER_THREAD, run));
            let caught = catch_unwind(call).unwrap_err();
            let message = caught.downcast_ref::<String>().unwrap();
            assert!(message.contains(&format!("job {bad} fails")), "{message}");
        }
    }
}
