//! Runs independent jobs on several threads.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

use rayon_core::{ThreadPool, ThreadPoolBuilder};

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
    let queue = JobQueue::new(order);
    let worker = || queue.run(&run);
    thread::scope(|scope| {
        // If the system refuses to start a thread, the remaining threads do the work.
        let spawn = |_| thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, worker).ok();
        let others: Vec<_> = (1..threads).filter_map(spawn).collect();
        let mut results = vec![worker()];
        results.extend(others.into_iter().map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic))));
        in_order(order.len(), results)
    })
}

/// Runs jobs like [`run_jobs`], on threads that are started by the first call that needs all processors and are kept for later calls.
///
/// A job must not call this function: its thread would wait for others, and meanwhile start jobs of other callers.
pub fn run_jobs_on_pool<R: Send>(threads: usize, order: &[usize], run: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let Some(pool) = pool(threads) else { return run_jobs(threads, order, run) };
    let queue = JobQueue::new(order);
    let results = Mutex::new(Vec::new());
    let worker = || {
        let done = queue.run(&run);
        results.lock().unwrap_or_else(PoisonError::into_inner).push(done);
    };
    pool.in_place_scope(|scope| {
        (1..threads).for_each(|_| scope.spawn(|_| worker()));
        worker();
    });
    in_order(order.len(), results.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Drops a large value on a thread of the pool, or on the calling thread if there is no pool.
pub fn drop_on_pool<V: Send + 'static>(value: V) {
    if let Some(pool) = POOL.get().and_then(Option::as_ref) {
        pool.spawn(move || drop(value));
    }
}

/// The threads of [`run_jobs_on_pool`]; `None` inside if the system refused to start them.
static POOL: OnceLock<Option<ThreadPool>> = OnceLock::new();

/// Returns the pool for a call that needs this number of threads. The pool is started for calls that need all processors: starting all of
/// its threads takes longer than the work of a small call. Returns `None` if there is no pool, or no other thread is needed.
fn pool(threads: usize) -> Option<&'static ThreadPool> {
    if threads < 2 {
        return None;
    }
    let processors = available_threads(usize::MAX);
    let start = || ThreadPoolBuilder::new().num_threads(processors - 1).stack_size(STACK_BYTES).build().ok();
    let pool = if threads >= processors { POOL.get_or_init(start) } else { POOL.get()? };
    pool.as_ref()
}

/// The jobs that are left, for several threads.
struct JobQueue<'a> {
    order: &'a [usize],
    /// The position in `order` of the next job.
    next: AtomicUsize,
}

impl<'a> JobQueue<'a> {
    fn new(order: &'a [usize]) -> JobQueue<'a> {
        JobQueue { order, next: AtomicUsize::new(0) }
    }

    /// Runs jobs until none is left; returns their numbers and results.
    fn run<R>(&self, run: impl Fn(usize) -> R) -> Vec<(usize, R)> {
        let next = || self.order.get(self.next.fetch_add(1, Ordering::Relaxed)).copied();
        std::iter::from_fn(next).map(|job| (job, run(job))).collect()
    }
}

/// Returns the results of all threads by job number.
fn in_order<R>(count: usize, threads: Vec<Vec<(usize, R)>>) -> Vec<R> {
    let mut ordered: Vec<Option<R>> = (0..count).map(|_| None).collect();
    for (job, result) in threads.into_iter().flatten() {
        ordered[job] = Some(result);
    }
    ordered.into_iter().flatten().collect()
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
        let doubled: Vec<usize> = (0..200).step_by(2).collect();
        for threads in [1, 3, available_threads(usize::MAX)] {
            assert_eq!(run_jobs(threads, &order, |job| job * 2), doubled);
            // Twice, because the second call finds threads of the first one.
            assert_eq!(run_jobs_on_pool(threads, &order, |job| job * 2), doubled);
            assert_eq!(run_jobs_on_pool(threads, &order, |job| job * 2), doubled);
        }
        assert!(run_jobs(2, &[], |job| job).is_empty());
        assert!(run_jobs_on_pool(2, &[], |job| job).is_empty());
    }

    #[test]
    fn a_panic_of_any_job_reaches_the_caller() {
        let order: Vec<usize> = (0..100).collect();
        for bad in [0, 50, 99] {
            let run = |job: usize| assert_ne!(job, bad, "job {bad} fails");
            let on_threads = std::panic::catch_unwind(|| run_jobs(3, &order, run)).unwrap_err();
            let on_pool = std::panic::catch_unwind(|| run_jobs_on_pool(available_threads(usize::MAX), &order, run)).unwrap_err();
            for caught in [on_threads, on_pool] {
                let message = caught.downcast_ref::<String>().unwrap();
                assert!(message.contains(&format!("job {bad} fails")), "{message}");
            }
        }
    }
}
