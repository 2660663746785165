//! `oriole run`: runs kernel tests in the interpreter, in the simulator, or on a GPU.
//!
//! [`case`] reads and compiles a test, [`engines`] and [`gpu`] run it, [`outcome`] holds the result, and [`report`] prints the result for
//! people and programs.

mod case;
mod engines;
mod gpu;
mod outcome;
mod report;

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use oriole_driver::Scheduling;
use oriole_isa::Target;
use oriole_ptxas::file_name::unescape;
use oriole_sim::sass;

use crate::sched_choice::SchedulingChoice;
use crate::target_names;
use case::Case;
use outcome::{RunOutcome, Status};
use report::Report;

/// Run kernel tests: PTX files whose header says how to launch a kernel and what must come out.
///
///   $ oriole run saxpy.ptx
///   saxpy.ptx: passed (sass, sm_90a, -O3), 127 warp instructions
///
/// The engine `sass` compiles the test and runs the machine code in a simulator, `ptx` runs the PTX
/// itself in an interpreter that also reports what PTX leaves undefined, `gpu` compiles and runs on the
/// GPU of this machine. docs/kernel-tests.md describes the header. Exit status 0 if all tests pass,
/// 1 otherwise, 2 if the command line is wrong.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct RunArguments {
    /// Kernel tests; `-` is standard input
    #[arg(required = true, value_name = "TEST")]
    files: Vec<String>,
    /// What runs them
    #[arg(long, value_enum, default_value_t = Engine::Sass, value_name = "ENGINE")]
    engine: Engine,
    /// The GPU to compile for; without it, sm_90a, or the test's own target where that must be
    #[arg(long, value_name = "SM")]
    arch: Option<String>,
    /// Optimization level
    #[arg(short = 'O', long, default_value_t = 3, value_name = "LEVEL", value_parser = clap::value_parser!(u8).range(0..=3))]
    opt_level: u8,
    #[command(flatten)]
    sched_choice: SchedulingChoice,
    /// Run this machine code instead of compiling the test
    #[arg(long, value_name = "FILE")]
    cubin: Option<String>,
    /// Also report registers that are read or overwritten too early on the way, and what `oriole verify` finds
    #[arg(long)]
    hazards: bool,
    /// Also estimate how many cycles the kernel takes on that GPU, and where they go (docs/timing.md says how well)
    #[arg(long)]
    timing: bool,
    /// Seed of a random order in which warps and diverged threads run; 0 for a fixed one
    #[arg(long, default_value_t = 0, value_name = "SEED")]
    order: u64,
    /// Print all instructions of the warp that wrote the first wrong element, or of the first warp
    #[arg(long)]
    trace: bool,
    /// Print one JSON object for each test and one with the counts
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// The PTX interpreter
    Ptx,
    /// The simulator of machine code
    Sass,
    /// The GPU of this machine
    Gpu,
}

impl Engine {
    fn name(self) -> &'static str {
        match self {
            Engine::Ptx => "ptx",
            Engine::Sass => "sass",
            Engine::Gpu => "gpu",
        }
    }
}

/// The compiler options for the tests.
#[derive(Clone, Copy, Debug)]
pub struct Goal {
    /// The target; `None` lets the test decide.
    pub target: Option<Target>,
    pub level: u8,
    pub scheduling: Scheduling,
}

/// Additional reports of a simulation.
#[derive(Clone, Copy, Debug)]
pub struct Watching {
    /// Whether to trace all instructions of a warp.
    pub trace: bool,
    /// Whether to check for hazards.
    pub hazards: bool,
    /// Whether to estimate the execution time.
    pub timing: bool,
    /// Options of the simulator.
    pub options: sass::GridOptions,
}

impl RunArguments {
    fn watching(&self) -> Watching {
        let options = sass::GridOptions { order: self.order, ..sass::GridOptions::default() };
        Watching { trace: self.trace, hazards: self.hazards, timing: self.timing, options }
    }
}

pub fn run(arguments: &RunArguments) -> ExitCode {
    match run_all(arguments) {
        Ok(true) => ExitCode::SUCCESS,
        // A file that cannot be read is a mistake in the command line, as in the other commands.
        Ok(false) if arguments.files.iter().any(|file| !is_readable(file)) => ExitCode::from(2),
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            errln!("error: {message}");
            ExitCode::from(2)
        }
    }
}

/// Returns whether a file can be read; standard input always can.
fn is_readable(file: &str) -> bool {
    file == "-" || std::fs::File::open(unescape(file)).and_then(|file| file.metadata()).is_ok_and(|found| !found.is_dir())
}

/// Runs all tests; returns whether all pass. An error is a mistake in the command line.
fn run_all(arguments: &RunArguments) -> Result<bool, String> {
    let RunArguments { files, engine, .. } = arguments;
    if arguments.cubin.is_some() && (files.len() > 1 || *engine == Engine::Ptx) {
        return Err("--cubin is for one test and the engines sass and gpu".into());
    }
    if (arguments.trace || arguments.hazards || arguments.timing) && *engine != Engine::Sass {
        return Err("--trace, --hazards and --timing are for the engine sass".into());
    }
    let mut goal = Goal {
        target: arguments.arch.as_deref().map(target_names::parse).transpose()?,
        level: arguments.opt_level,
        scheduling: arguments.sched_choice.scheduling()?,
    };
    let read = |file: &String| std::fs::read(unescape(file)).map_err(|error| format!("{file}: {error}"));
    let cubin = arguments.cubin.as_ref().map(read).transpose()?;
    if *engine == Engine::Gpu {
        match gpu::architecture() {
            Ok(own) => goal.target = goal.target.or(own),
            Err(message) => {
                errln!("error: {message}; the engines sass and ptx need no GPU");
                return Ok(false);
            }
        }
    }
    let mut report = Report::new(arguments.json, *engine, files.len());
    if *engine == Engine::Gpu {
        let cases: Vec<Result<Case, Refusal>> = files.iter().map(|file| Case::read(file)).collect();
        for (file, outcome) in files.iter().zip(gpu::run(&cases, goal, cubin.as_deref())) {
            report.add(file, &outcome);
        }
    } else {
        for file in files {
            let run = |case: Case| match engine {
                Engine::Ptx => engines::interpret(&case),
                _ => engines::simulate(&case, goal, cubin.as_deref(), arguments.watching()),
            };
            report.add(file, &Case::read(file).map_or_else(|outcome| *outcome, run));
        }
    }
    Ok(report.finish())
}

/// A worker of the engine `gpu`: runs one test after the other for the process that started it.
#[derive(Args)]
pub struct WorkerArguments {
    /// Folder with the tests and their machine code
    folder: String,
}

pub fn work(arguments: &WorkerArguments) -> ExitCode {
    match gpu::work(&arguments.folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            errln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

/// The outcome of a test that could not be run.
type Refusal = Box<RunOutcome>;

/// Returns an outcome with only a status and a message.
fn refused(status: Status, message: impl Into<String>) -> RunOutcome {
    RunOutcome { message: message.into(), ..RunOutcome::new(status) }
}
