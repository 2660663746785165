//! Options that select the scheduler, for commands that compile.

use std::fmt::Write as _;

use clap::Args;
use oriole_driver::{BackendChoice, ScheduleBackend, ScheduleKnobs, ScheduleMode, ScheduleModeChoice, Scheduling};

use crate::check::read_input;

#[derive(Args)]
pub struct SchedulingChoice {
    /// What instructions are scheduled for: off, reduce-reg (few registers), ilp (hidden latencies), dyn-batch (matrix products in
    /// batches); without it, as the optimization level says
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    sched_mode: Option<ScheduleModeChoice>,
    #[arg(long, value_name = "BACKEND", value_parser = parse_backend, help = backend_help())]
    sched_backend: Option<BackendChoice>,
    /// Scheduling strategy by name, or auto (tries those that suit the code and keeps the best by the timing model); `--sched-strategy
    /// help` lists all
    #[arg(long, value_name = "NAME", value_parser = parse_strategy, conflicts_with = "sched_backend")]
    sched_strategy: Option<StrategyChoice>,
    /// Time for the searches of permutation, backtracking and combined, in milliseconds for each function; the output may then depend
    /// on the speed of the machine
    #[arg(long, value_name = "MS")]
    sched_budget: Option<u32>,
    /// Figures of the schedulers from a file of lines `name = value`; `--sched-options help` prints one with all of them
    #[arg(long, value_name = "FILE")]
    sched_options: Option<String>,
    /// A single figure of the schedulers, after those of the file
    #[arg(long, value_name = "NAME=VALUE")]
    sched_option: Vec<String>,
}

impl SchedulingChoice {
    /// Returns the text that the user asked for instead of a compilation: the strategies, or the scheduler parameters.
    pub fn help(&self) -> Option<String> {
        if self.sched_strategy == Some(StrategyChoice::Help) {
            return Some(strategy_list());
        }
        (self.sched_options.as_deref() == Some("help")).then(|| ScheduleKnobs::default().write())
    }

    /// Returns the scheduler settings in the options.
    pub fn scheduling(&self) -> Result<Scheduling, String> {
        let mut knobs = ScheduleKnobs::default();
        if let Some(file) = &self.sched_options {
            let bytes = read_input(file).map_err(|error| format!("{file}: {error}"))?;
            knobs.read(&String::from_utf8_lossy(&bytes)).map_err(|error| format!("{file}: {error}"))?;
        }
        for option in &self.sched_option {
            knobs.read(option).map_err(|error| format!("--sched-option {option}: {}", error.trim_start_matches("line 1: ")))?;
        }
        knobs.search_milliseconds = self.sched_budget.or(knobs.search_milliseconds);
        let strategy = match self.sched_strategy {
            Some(StrategyChoice::Help) => return Err("`--sched-strategy help` is an option of `oriole compile`".to_owned()),
            Some(StrategyChoice::Of(choice)) => Some(choice),
            None => None,
        };
        let backend = strategy.or(self.sched_backend).unwrap_or_default();
        Ok(Scheduling { mode: self.sched_mode.unwrap_or_default(), backend, knobs })
    }
}

fn parse_mode(name: &str) -> Result<ScheduleModeChoice, String> {
    match name {
        "off" => Ok(ScheduleModeChoice::Off),
        _ => ScheduleMode::parse(name).map(ScheduleModeChoice::On).ok_or_else(|| "expected off, reduce-reg, ilp or dyn-batch".to_owned()),
    }
}

/// The value of `--sched-strategy`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum StrategyChoice {
    /// The list of strategies.
    Help,
    /// A strategy or a way to choose one.
    Of(BackendChoice),
}

fn parse_strategy(name: &str) -> Result<StrategyChoice, String> {
    if name == "help" {
        return Ok(StrategyChoice::Help);
    }
    let names = || ScheduleBackend::ALL.map(ScheduleBackend::name).join(", ");
    BackendChoice::parse_strategy(name).map(StrategyChoice::Of).ok_or_else(|| format!("expected auto, help, {}", names()))
}

/// Returns the list of strategies, a line each.
fn strategy_list() -> String {
    let mut text = "auto           tries those that suit the code and keeps the best by the timing model\n".to_owned();
    for backend in ScheduleBackend::ALL {
        let _ = writeln!(text, "{:<14} {}", backend.name(), backend.strategy().description());
    }
    text
}

fn parse_backend(name: &str) -> Result<BackendChoice, String> {
    let names = || ScheduleBackend::BACKENDS_A_B_C.map(ScheduleBackend::name).join(", ");
    BackendChoice::parse(name).ok_or_else(|| format!("expected {}, by-target or auto", names()))
}

/// Returns the help text of `--sched-backend`, from the table of scheduling strategies.
fn backend_help() -> String {
    let backends = ScheduleBackend::BACKENDS_A_B_C.map(|backend| format!("{} ({})", backend.name(), backend.strategy().description()));
    format!(
        "Scheduler: {}, by-target (the one that ptxas is said to use for the GPU), auto (tries several and keeps the best by the timing \
         model); without it, the one that measured best",
        backends.join(", ")
    )
}
