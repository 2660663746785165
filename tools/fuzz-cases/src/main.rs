//! `oriole-fuzz-cases`: writes seeds for the fuzzer, and runs targets without the fuzzer.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use std::{fs, io};

use clap::{Parser, Subcommand};
use oriole_fuzz_cases::{FuzzTarget, runner, target};

#[derive(Parser)]
#[command(name = "oriole-fuzz-cases")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write the seeds of a target into a folder
    Seeds {
        #[arg(value_parser = parse_target)]
        target: FuzzTarget,
        folder: PathBuf,
    },
    /// Damage seeds and judge them; keep what fails in a folder
    Run {
        #[arg(value_parser = parse_target)]
        target: FuzzTarget,
        #[arg(long, default_value_t = 10)]
        seconds: u64,
        #[arg(long, default_value_t = 1)]
        seed: u64,
        #[arg(long, default_value = "fuzz-findings")]
        out: PathBuf,
    },
    /// Judge files as cases of a target
    Judge {
        #[arg(value_parser = parse_target)]
        target: FuzzTarget,
        files: Vec<PathBuf>,
    },
}

fn parse_target(name: &str) -> Result<FuzzTarget, String> {
    let known: Vec<&str> = oriole_fuzz_cases::TARGETS.iter().map(|target| target.name).collect();
    target(name).ok_or_else(|| format!("targets are {}", known.join(", ")))
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Seeds { target, folder } => write_all(&folder, target.name, (target.seeds)().iter().map(Vec::as_slice)).map(|()| true),
        Command::Run { target, seconds, seed, out } => run(target, seconds, seed, &out),
        Command::Judge { target, files } => judge(target, &files),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn write_all<'a>(folder: &Path, name: &str, cases: impl Iterator<Item = &'a [u8]>) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for (number, case) in cases.enumerate() {
        fs::write(folder.join(format!("{name}-{number:03}")), case)?;
    }
    Ok(())
}

fn run(target: FuzzTarget, seconds: u64, seed: u64, out: &Path) -> io::Result<bool> {
    fs::create_dir_all(out)?;
    let current = out.join(format!("{}-{seed}-current", target.name));
    let summary = runner::run(target, seed, 1, Duration::from_secs(seconds), usize::MAX, &current);
    fs::remove_file(current)?;
    for failure in &summary.failures {
        println!("{} bytes: {}", failure.case.len(), failure.message);
    }
    println!("{}: {} cases, {} accepted, {} kinds of failure", target.name, summary.cases, summary.accepted, summary.failures.len());
    if !summary.failures.is_empty() {
        write_all(out, &format!("{}-{seed}", target.name), summary.failures.iter().map(|failure| failure.case.as_slice()))?;
    }
    Ok(summary.failures.is_empty())
}

fn judge(target: FuzzTarget, files: &[PathBuf]) -> io::Result<bool> {
    let mut is_clean = true;
    for file in files {
        match runner::judge(target, &fs::read(file)?) {
            Ok(outcome) => println!("{}: {outcome:?}", file.display()),
            Err(message) => {
                println!("{}: {message}", file.display());
                is_clean = false;
            }
        }
    }
    Ok(is_clean)
}
