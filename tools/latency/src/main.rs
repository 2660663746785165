//! Measures the distances between dependent instructions in machine code.
//!
//! `mine` collects from cubins, for every pair of instructions of a straight-line run that access the same register without a scoreboard
//! between them, the number of cycles between them according to the stall counts. In ptxas' code this shows latencies: no pair is closer
//! than the latency, and pairs where nothing else explains the stall are exactly that far apart. `check` compares the hardware model with
//! the same pairs.

mod check;
mod code;
mod dependence;
mod mine;
mod signature;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use oriole_cubin::Cubin;
use oriole_isa::Target;

#[derive(Parser)]
#[command(about = "Distances between dependent instructions in machine code")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Writes OUT/TARGET.tsv, OUT/TARGET.scoreboards.tsv and OUT/TARGET.txt for each target
    Mine {
        /// Folders named after targets, with cubins in them
        folders: Vec<PathBuf>,
        /// Where to write
        #[arg(short, long)]
        out: PathBuf,
    },
    /// Compares the hardware model with the distances in the code
    Check {
        /// Folders named after targets, with cubins in them
        folders: Vec<PathBuf>,
        /// How many kinds of contradictions to list
        #[arg(long, default_value_t = 40)]
        list: usize,
        /// Share of tight pairs that have to stand as far apart as the model says, in percent
        #[arg(long, default_value_t = 95.0)]
        least: f64,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
    }
}

fn run(command: Command) -> Result<bool, String> {
    match command {
        Command::Mine { folders, out } => {
            fs::create_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;
            for folder in folders {
                mine_folder(&folder, &out)?;
            }
            Ok(true)
        }
        Command::Check { folders, list, least } => {
            let mut fine = true;
            for folder in folders {
                let target = target_of(&folder)?;
                let mut check = check::Check::new(target);
                each_run(&folder, target, |run| check.add(run))?;
                fine &= check.report(list, least);
            }
            Ok(fine)
        }
    }
}

fn mine_folder(folder: &Path, out: &Path) -> Result<(), String> {
    let target = target_of(folder)?;
    let mut mine = mine::Mine::default();
    each_run(folder, target, |run| mine.add(run))?;
    let write = |suffix: &str, text: String| {
        let path = out.join(format!("{target}{suffix}"));
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    write(".tsv", mine.table(&target.to_string()))?;
    write(".scoreboards.tsv", mine.scoreboard_table())?;
    write(".txt", mine.pivots())?;
    println!("{target}: {} instructions", mine.instructions);
    Ok(())
}

fn target_of(folder: &Path) -> Result<Target, String> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    Target::parse(&name).ok_or_else(|| format!("{}: not named after a target", folder.display()))
}

fn each_run(folder: &Path, target: Target, mut act: impl FnMut(&code::Run)) -> Result<(), String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "cubin"));
    files.sort();
    for path in files {
        let bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let cubin = Cubin::read(&bytes).map_err(|error| format!("{}: {error}", path.display()))?;
        match code::runs(&cubin, target) {
            Ok(runs) => runs.iter().for_each(&mut act),
            Err(message) => eprintln!("{}: {message}", path.display()),
        }
    }
    Ok(())
}
