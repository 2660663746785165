//! Options that select the scheduler, for commands that compile.

use clap::Args;
use oriole_driver::{BackendChoice, ModeChoice, ScheduleBackend, ScheduleKnobs, ScheduleMode, Scheduling};

use crate::check::read_input;

#[derive(Args)]
pub struct SchedulingChoice {
    /// What instructions are scheduled for: off, reduce-reg (few registers), ilp (hidden latencies), dyn-batch (matrix products in
    /// batches); without it, as the optimization level says
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    sched_mode: Option<ModeChoice>,
    #[arg(long, value_name = "BACKEND", value_parser = parse_backend, help = backend_help())]
    sched_backend: Option<BackendChoice>,
    /// Figures of the schedulers from a file of lines `name = value`; `--sched-options help` prints one with all of them
    #[arg(long, value_name = "FILE")]
    sched_options: Option<String>,
    /// A single figure of the schedulers, after those of the file
    #[arg(long, value_name = "NAME=VALUE")]
    sched_option: Vec<String>,
}

impl SchedulingChoice {
    /// Returns whether the user asked for the list of scheduler parameters.
    pub fn wants_help(&self) -> bool {
        self.sched_options.as_deref() == Some("help")
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
        Ok(Scheduling { mode: self.sched_mode.unwrap_or_default(), backend: self.sched_backend.unwrap_or_default(), knobs })
    }
}

fn parse_mode(name: &str) -> Result<ModeChoice, String> {
    match name {
        "off" => Ok(ModeChoice::Off),
        _ => ScheduleMode::parse(name).map(ModeChoice::On).ok_or_else(|| "expected off, reduce-reg, ilp or dyn-batch".to_owned()),
    }
}

fn parse_backend(name: &str) -> Result<BackendChoice, String> {
    let names = || ScheduleBackend::ALL.map(ScheduleBackend::name).join(", ");
    BackendChoice::parse(name).ok_or_else(|| format!("expected {}, by-target or auto", names()))
}

/// Returns the help text of `--sched-backend`, from the table of scheduling strategies.
fn backend_help() -> String {
    let backends = ScheduleBackend::ALL.map(|backend| format!("{} ({})", backend.name(), backend.strategy().description()));
    format!(
        "Scheduler: {}, by-target (the one that ptxas is said to use for the GPU), auto (tries several and keeps the best by the timing \
         model); without it, the one that measured best",
        backends.join(", ")
    )
}
