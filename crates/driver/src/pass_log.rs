//! The records of the passes of a compilation: dumps of functions, and measurements.

use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use oriole_ir::Function;

use crate::clock::Stopwatch;
use crate::hooks::ProgressTracker;
use crate::options::{BisectDecision, BisectOptions, PassOptions};

/// The records of the passes of a compilation. The functions are in source order.
#[derive(Clone, Default, Debug)]
pub struct PassLog {
    /// The text of the functions before and after the passes that the options name.
    pub dumps: Vec<FunctionDump>,
    /// The measured pass executions; empty unless the options request measurements.
    pub runs: Vec<PassRun>,
}

impl PassLog {
    /// Appends the records of another log to this one.
    pub fn append(&mut self, other: PassLog) {
        self.dumps.extend(other.dumps);
        self.runs.extend(other.runs);
    }
}

/// The moment at which the text of a function was recorded: before or after a pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DumpMoment {
    /// Before the pass.
    Before,
    /// After the pass.
    After,
}

/// The text of a function before or after a pass.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FunctionDump {
    /// Name of the function.
    pub function: String,
    /// Name of the pass before or after which the text was recorded.
    pub pass: &'static str,
    /// Whether the text is from before or after the pass.
    pub moment: DumpMoment,
    /// The function in the text form of the IR. Before instruction selection, the function in PTX.
    pub text: String,
}

impl fmt::Display for FunctionDump {
    /// Writes a comment line with the names of function and pass, then the text of the function.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (moment, comment) = match self.moment {
            DumpMoment::Before => ("before", if self.text.starts_with("func ") { ";" } else { "//" }),
            DumpMoment::After => ("after", ";"),
        };
        write!(f, "{comment} {} {moment} {}\n{}", self.function, self.pass, self.text)
    }
}

/// The measurement of one execution of a pass on one function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PassRun {
    /// Name of the function.
    pub function: String,
    /// Name of the pass.
    pub pass: &'static str,
    /// Wall-clock time that the pass took.
    pub time: Duration,
    /// Number of instructions of the function before the pass.
    pub instructions_before: usize,
    /// Number of instructions of the function after the pass.
    pub instructions_after: usize,
    /// Numbers of instructions, values and blocks that the pass created.
    pub allocated: IrObjectCounts,
}

/// Numbers of IR objects of a function.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct IrObjectCounts {
    /// Number of instructions, including those that were removed from their block.
    pub instructions: usize,
    /// Number of SSA values.
    pub values: usize,
    /// Number of blocks, including those that were removed from the layout.
    pub blocks: usize,
}

impl IrObjectCounts {
    /// Counts the instructions, values and blocks of a function.
    fn count(function: &Function) -> IrObjectCounts {
        IrObjectCounts { instructions: function.insts.len(), values: function.values.len(), blocks: function.blocks.len() }
    }

    /// Returns the numbers of objects that were created since `earlier`, an earlier count.
    fn since(self, earlier: IrObjectCounts) -> IrObjectCounts {
        IrObjectCounts {
            instructions: self.instructions.saturating_sub(earlier.instructions),
            values: self.values.saturating_sub(earlier.values),
            blocks: self.blocks.saturating_sub(earlier.blocks),
        }
    }
}

/// Counts the executions of optional passes, over all functions of a compilation, and stops them at a limit, to find a faulty pass by
/// bisection.
#[derive(Debug)]
pub struct BisectCounter {
    /// The limit on the number of executions, and the callback that is told each decision.
    bisect: BisectOptions,
    /// Number of executions of optional passes so far.
    executions: AtomicU64,
}

impl BisectCounter {
    /// Creates a counter that starts at 0.
    pub fn new(bisect: BisectOptions) -> BisectCounter {
        BisectCounter { bisect, executions: AtomicU64::new(0) }
    }

    /// Counts an execution of an optional pass, reports to the callback whether the pass may run, and returns the same.
    fn allows(&self, pass: &'static str, function: &str) -> bool {
        let number = 1 + self.executions.fetch_add(1, Ordering::Relaxed);
        let runs = self.bisect.limit.is_none_or(|limit| number <= limit);
        (self.bisect.report)(&BisectDecision { number, pass, function, runs });
        runs
    }
}

/// Measures the passes of one function if the options request that, and limits the number of executions of optional passes.
#[derive(Debug)]
pub struct PassRecorder<'a> {
    /// The options, which name the passes to measure and to print.
    pub options: &'a PassOptions,
    /// The progress tracker, which is called before each pass.
    pub tracker: &'a ProgressTracker<'a>,
    /// Counts the executions of optional passes; `None` without bisection.
    bisect: Option<&'a BisectCounter>,
    /// The measurements of the passes that have run so far.
    runs: RefCell<Vec<PassRun>>,
}

/// A measurement of a pass that has been started and not finished.
pub struct StartedMeasurement {
    /// Number of instructions of the function before the pass.
    instructions: usize,
    /// Numbers of instructions, values and blocks before the pass.
    objects: IrObjectCounts,
    /// Start of the time measurement.
    clock: Stopwatch,
}

impl<'a> PassRecorder<'a> {
    /// Returns a recorder for one function.
    pub fn new(options: &'a PassOptions, tracker: &'a ProgressTracker<'a>, bisect: Option<&'a BisectCounter>) -> PassRecorder<'a> {
        PassRecorder { options, tracker, bisect, runs: RefCell::default() }
    }

    /// Returns whether an optional pass may run on a function: the options do not disable it, and the limit for bisection is not reached.
    pub fn allows(&self, pass: &'static str, function: &str) -> bool {
        let is_disabled = self.options.disabled.iter().any(|name| name == pass);
        !is_disabled && self.bisect.is_none_or(|bisect| bisect.allows(pass, function))
    }

    /// Starts the measurement of a pass on a function; `None` if the options do not request measurements.
    pub fn start(&self, function: &Function) -> Option<StartedMeasurement> {
        let start = || StartedMeasurement {
            instructions: instruction_count(function),
            objects: IrObjectCounts::count(function),
            clock: Stopwatch::start(),
        };
        self.options.measure.then(start)
    }

    /// Ends the measurement of a pass and records it; does nothing if none was started.
    pub fn finish(&self, started: Option<StartedMeasurement>, pass: &'static str, function: &Function) {
        if let Some(StartedMeasurement { instructions, objects, clock }) = started {
            self.runs.borrow_mut().push(PassRun {
                function: function.name.clone(),
                pass,
                time: clock.elapsed(),
                instructions_before: instructions,
                instructions_after: instruction_count(function),
                allocated: IrObjectCounts::count(function).since(objects),
            });
        }
    }

    /// Returns the recorded measurements of all passes that ran on the function.
    pub fn into_pass_runs(self) -> Vec<PassRun> {
        self.runs.into_inner()
    }
}

/// Returns the number of instructions in all blocks of the layout.
pub fn instruction_count(function: &Function) -> usize {
    function.layout.iter().map(|&block| function.blocks[block].insts.len()).sum()
}
