//! The interface to the caller while a compilation runs: progress reports, cancellation, and the threads to run on.
//!
//! None of this changes the result: the same input and options give the same bytes with any [`Parallelism`].

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{ErrorCause, FunctionError};

/// A function that receives [`Progress`]. It is called by one thread at a time.
pub type ProgressFunction = dyn Fn(&Progress<'_>) + Send + Sync;

/// A function that returns whether to cancel. Several threads may call it at the same time.
pub type CancelFunction = dyn Fn() -> bool + Send + Sync;

/// The callbacks of a compilation, and the threads that it uses. By default there are no callbacks, and threads are started as needed.
#[derive(Clone, Default)]
pub struct Hooks {
    /// Called when a pass starts on a function and when a function is finished.
    pub progress: Option<Arc<ProgressFunction>>,
    /// Called before every pass. If it returns true, the compilation ends with [`ErrorCause::Cancelled`].
    pub cancel: Option<Arc<CancelFunction>>,
    /// The threads that compile functions.
    pub parallelism: Parallelism,
}

/// Prints nothing about the hooks: they do not change the result, and the debug text of the options is used in cache keys.
impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hooks")
    }
}

/// The threads that compile the functions of a program.
#[derive(Clone, Default)]
pub enum Parallelism {
    /// Threads that the compiler starts, at most one for each processor.
    #[default]
    Threads,
    /// Only the thread that calls the compiler.
    Sequential,
    /// Threads that the caller of the compiler provides.
    Executor(Arc<dyn Executor>),
}

/// Runs independent tasks, for example on a thread pool.
pub trait Executor: Send + Sync {
    /// Calls `task` once with each number below `count`, in any order and on any threads, and returns when all calls have returned. Tasks
    /// with low numbers take the longest, so it is best to start them first.
    fn execute(&self, count: usize, task: &(dyn Fn(usize) + Sync));
}

impl<F: Fn(usize, &(dyn Fn(usize) + Sync)) + Send + Sync> Executor for F {
    fn execute(&self, count: usize, task: &(dyn Fn(usize) + Sync)) {
        self(count, task);
    }
}

/// The progress of a compilation. The totals grow if the code turns out to call runtime functions (library functions of the compiler),
/// which are then compiled too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress<'a> {
    /// Name of the function that is being compiled or is finished.
    pub function: &'a str,
    /// The pass that starts; `None` if the function is finished.
    pub pass: Option<&'static str>,
    /// Number of finished functions.
    pub functions_done: usize,
    /// Number of functions to compile, including the finished ones.
    pub functions: usize,
    /// Number of PTX instructions of the finished functions, a measure of the work done.
    pub instructions_done: usize,
    /// Number of PTX instructions of all functions to compile.
    pub instructions: usize,
}

/// A part of the work of a compilation: a number of functions, and the number of their PTX instructions.
#[derive(Clone, Copy, Default, Debug)]
struct WorkCounts {
    /// Number of functions.
    functions: usize,
    /// Number of PTX instructions of these functions.
    instructions: usize,
}

/// Counts the finished functions and instructions of a compilation, and calls its hooks.
#[derive(Debug)]
pub struct ProgressTracker<'a> {
    /// The callbacks and threads of the compilation.
    hooks: &'a Hooks,
    /// The work that is finished and the work in total, as (finished, total), in functions and PTX instructions.
    counts: Mutex<(WorkCounts, WorkCounts)>,
}

impl<'a> ProgressTracker<'a> {
    /// Creates a tracker for a new compilation.
    pub fn new(hooks: &'a Hooks) -> ProgressTracker<'a> {
        ProgressTracker { hooks, counts: Mutex::default() }
    }

    /// Returns the threads that the compilation uses.
    pub fn parallelism(&self) -> &'a Parallelism {
        &self.hooks.parallelism
    }

    /// Adds a number of functions, and the number of their PTX instructions, to the total work.
    pub fn add_to_total_work(&self, functions: usize, instructions: usize) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.1.functions += functions;
        counts.1.instructions += instructions;
    }

    /// Returns an error if the caller cancels the compilation.
    pub fn check_cancelled(&self) -> Result<(), FunctionError> {
        match &self.hooks.cancel {
            Some(cancel) if cancel() => Err(FunctionError::from(ErrorCause::Cancelled)),
            _ => Ok(()),
        }
    }

    /// Returns an error if the caller cancels the compilation; otherwise reports that a pass starts on a function.
    pub fn start_pass(&self, function: &str, pass: &'static str) -> Result<(), FunctionError> {
        self.check_cancelled()?;
        self.report(function, Some(pass), WorkCounts::default());
        Ok(())
    }

    /// Reports that a function with this number of PTX instructions is finished.
    pub fn finish_function(&self, function: &str, instructions: usize) {
        self.report(function, None, WorkCounts { functions: 1, instructions });
    }

    /// Adds `done` to the counts of finished work and calls the progress callback.
    fn report(&self, function: &str, pass: Option<&'static str>, done: WorkCounts) {
        let Some(progress) = &self.hooks.progress else { return };
        // The lock is kept during the call, so that the reported numbers never decrease.
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.0.functions += done.functions;
        counts.0.instructions += done.instructions;
        let (done, total) = *counts;
        progress(&Progress {
            function,
            pass,
            functions_done: done.functions,
            functions: total.functions,
            instructions_done: done.instructions,
            instructions: total.instructions,
        });
    }
}
