//! `oriole-microbench`: measures latencies, issue rates and hazards of a GPU with our own machine code.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use oriole_isa::Target;
use oriole_microbench::{compare, plan, report, run};

#[derive(Parser)]
#[command(name = "oriole-microbench", about = "Measures latencies, issue rates and hazards of a GPU")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write the cubins of all experiments and the plan.
    Generate {
        /// The target, such as sm_90a.
        #[arg(long)]
        arch: String,
        /// Only experiments whose names contain one of these words, separated by commas.
        #[arg(long)]
        only: Option<String>,
        folder: PathBuf,
    },
    /// Run a plan on the first GPU of this machine.
    Run {
        folder: PathBuf,
        #[arg(short)]
        output: PathBuf,
    },
    /// Print tables of results; later files replace what earlier ones say about the same experiment.
    Report {
        #[arg(required = true)]
        results: Vec<PathBuf>,
        /// Also write the figures, one line each.
        #[arg(long)]
        tsv: Option<PathBuf>,
    },
    /// Compare figures with the hardware model.
    Compare {
        /// The target, such as sm_90a.
        #[arg(long)]
        arch: String,
        /// A file that `report --tsv` wrote.
        figures: PathBuf,
    },
    #[command(hide = true)]
    Work { folder: PathBuf },
}

fn execute(command: Command) -> Result<(), String> {
    match command {
        Command::Generate { arch, only, folder } => {
            let target = Target::parse(&arch).ok_or_else(|| format!("{arch} is no target; try sm_90a"))?;
            let plan = plan::generate(target, &folder, only.as_deref())?;
            for why in &plan.skipped {
                eprintln!("skipped: {why}");
            }
            eprintln!("{} experiments", plan.experiments.len());
            Ok(())
        }
        Command::Run { folder, output } => {
            let program = std::env::current_exe().map_err(|error| error.to_string())?;
            run::run(&folder, &output, &program)
        }
        Command::Report { results, tsv } => report::report(&results, tsv.as_deref()),
        Command::Compare { arch, figures } => {
            let target = Target::parse(&arch).ok_or_else(|| format!("there is no target {arch}"))?;
            let text = std::fs::read_to_string(&figures).map_err(|error| format!("{}: {error}", figures.display()))?;
            let compared = compare::compare(&text, target);
            print!("{}", compare::summary(&compared));
            for one in compared.iter().filter(|one| one.measured > one.model) {
                println!("{}: the GPU needs {}, the model asks for {}", one.pair, one.measured, one.model);
            }
            Ok(())
        }
        Command::Work { folder } => run::work(&folder),
    }
}

fn main() -> ExitCode {
    match execute(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}
