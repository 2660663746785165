//! Predicts how long kernel tests take, and compares predictions with measurements.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::{Parser, Subcommand};
use oriole_isa::Target;
use oriole_sim::timing::Effort;
use oriole_timing_check::strategies::{self, Distances};
use oriole_timing_check::{Agreement, Measurement, compile_ours, predict, read_test};

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print estimates of kernel tests.
    Predict {
        files: Vec<PathBuf>,
        /// Machine code instead of what our compiler makes; for one file.
        #[arg(long)]
        cubin: Option<PathBuf>,
        #[arg(long, default_value = "sm_90a")]
        arch: String,
        /// Clock in MHz; that of the GPU the figures are for if it is not given.
        #[arg(long)]
        clock: Option<u32>,
        /// Reasons for stalls to print.
        #[arg(long, default_value_t = 5)]
        reasons: usize,
    },
    /// Compare predictions with measurements. Figures were fitted to some of the kernels; those whose names begin with `new` came later.
    Compare {
        kernels: PathBuf,
        /// What measure.py wrote.
        measured: PathBuf,
        /// COMPILER=FOLDER of cubins as they were measured.
        cubins: Vec<String>,
    },
    /// Compile kernel tests with every scheduling strategy, and print predicted cycles and registers, separated by tabs.
    Strategies {
        files: Vec<PathBuf>,
        #[arg(long, default_value = "sm_90a")]
        arch: String,
        /// Strategies to compare; all without it.
        #[arg(long, value_delimiter = ',')]
        only: Vec<String>,
        #[arg(long, default_value_t = 1)]
        jobs: usize,
    },
    /// Print how far the strategies are from the shortest order, on the regions of PTX files that have up to 24 instructions.
    Distance {
        files: Vec<PathBuf>,
        #[arg(long, default_value = "sm_90a")]
        arch: String,
    },
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Predict { files, cubin, arch, clock, reasons } => predict_files(&files, cubin.as_deref(), &arch, clock, reasons),
        Command::Compare { kernels, measured, cubins } => compare(&kernels, &measured, &cubins),
        Command::Strategies { files, arch, only, jobs } => by_strategy(&files, &arch, &only, jobs),
        Command::Distance { files, arch } => distance(&files, &arch),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// Prints a line for each kernel and strategy, in the order of the files.
fn by_strategy(files: &[PathBuf], arch: &str, only: &[String], jobs: usize) -> Result<(), String> {
    let target = Target::parse(arch).ok_or_else(|| format!("{arch} is no target"))?;
    let all = strategies::names();
    let names: Vec<&str> = if only.is_empty() { all } else { only.iter().map(String::as_str).collect() };
    let next = AtomicUsize::new(0);
    let lines: Mutex<Vec<(usize, String)>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while let Some((number, file)) = Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, files.get(at)?))) {
                    let text = of_kernel(file, target, &names);
                    eprint!(".");
                    if let Ok(mut lines) = lines.lock() {
                        lines.push((number, text));
                    }
                }
            });
        }
    });
    eprintln!();
    let mut lines = lines.into_inner().map_err(|error| error.to_string())?;
    lines.sort_unstable();
    lines.iter().for_each(|(_, text)| print!("{text}"));
    Ok(())
}

/// Returns the lines of one kernel: name, strategy, predicted cycles, registers; or what failed.
fn of_kernel(file: &Path, target: Target, names: &[&str]) -> String {
    let kernel = file.file_stem().unwrap_or_default().to_string_lossy();
    let (test, text) = match read_test(file) {
        Ok(read) => read,
        Err(message) => return format!("# {message}\n"),
    };
    let line = |name: &&str| match strategies::outcome(&test, &text, target, name) {
        Ok(outcome) => format!("{kernel}\t{name}\t{}\t{}\n", outcome.cycles, outcome.registers),
        Err(message) => format!("# {kernel} {name}: {}\n", message.lines().next().unwrap_or_default()),
    };
    names.iter().map(line).collect()
}

fn distance(files: &[PathBuf], arch: &str) -> Result<(), String> {
    let target = Target::parse(arch).ok_or_else(|| format!("{arch} is no target"))?;
    let mut distances = Distances::default();
    for file in files {
        let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        if let Err(message) = distances.add(&text, target) {
            eprintln!("{}: {}", file.display(), message.lines().next().unwrap_or_default());
        }
    }
    print!("{}", distances.table());
    Ok(())
}

fn predict_files(files: &[PathBuf], cubin: Option<&Path>, arch: &str, clock: Option<u32>, reasons: usize) -> Result<(), String> {
    let target = Target::parse(arch).ok_or_else(|| format!("{arch} is no target"))?;
    for file in files {
        let (test, text) = read_test(file)?;
        let code = match cubin {
            Some(path) => std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?,
            None => compile_ours(&text, target)?,
        };
        let estimate = predict(&test, &code, &Effort::default())?;
        let clock = clock.unwrap_or(estimate.clock_mhz);
        println!("{}: {:.2} us at {clock} MHz", file.display(), estimate.microseconds(clock));
        println!("  cycles: warp {}, block {}, multiprocessor {}, kernel {}", estimate.warp, estimate.block, estimate.sm, estimate.kernel);
        println!(
            "  occupancy {:.0}%: {} blocks, {} of {} warps; {} blocks for a multiprocessor, {:.2} waves; {:.2} instructions a cycle",
            100.0 * estimate.occupancy.ratio(),
            estimate.occupancy.blocks,
            estimate.occupancy.warps,
            estimate.occupancy.warp_slots,
            estimate.blocks_per_sm,
            estimate.waves,
            estimate.issue_rate
        );
        let total: u64 = estimate.stalls.0.iter().map(|stall| stall.1).sum();
        for (reason, cycles) in estimate.stalls.0.iter().take(reasons) {
            println!("  {:5.1}% {reason}", 100.0 * *cycles as f64 / total.max(1) as f64);
        }
    }
    Ok(())
}

fn compare(kernels: &Path, measured: &Path, cubins: &[String]) -> Result<(), String> {
    let text = std::fs::read_to_string(measured).map_err(|error| format!("{}: {error}", measured.display()))?;
    let mut pairs: Vec<(bool, String, (f64, f64))> = Vec::new();
    for measurement in Measurement::parse(&text)? {
        let folder = cubins.iter().find_map(|entry| entry.split_once('=').filter(|(name, _)| *name == measurement.compiler));
        let Some((_, folder)) = folder else { continue };
        let path = Path::new(folder).join(format!("{}.cubin", measurement.kernel));
        let Ok(cubin) = std::fs::read(&path) else { continue };
        let (test, _) = read_test(&kernels.join(format!("{}.ptx", measurement.kernel)))?;
        match predict(&test, &cubin, &Effort::default()) {
            Ok(estimate) => {
                let predicted = estimate.kernel as f64;
                pairs.push((measurement.is_new(), measurement.compiler.clone(), (predicted, measurement.cycles())));
                println!(
                    "{:5.2} {:24} {:7} predicted {:8.0} measured {:8.0} {}",
                    predicted / measurement.cycles(),
                    measurement.kernel,
                    measurement.compiler,
                    predicted,
                    measurement.cycles(),
                    estimate.stalls.0.first().map_or("", |stall| stall.0.as_str())
                );
            }
            Err(message) => println!("  -   {:24} {:7} {message}", measurement.kernel, measurement.compiler),
        }
    }
    let agreement = |wanted: &dyn Fn(bool, &str) -> bool| {
        let chosen = pairs.iter().filter(|(is_new, compiler, _)| wanted(*is_new, compiler));
        Agreement::of(&chosen.map(|(_, _, pair)| *pair).collect::<Vec<_>>())
    };
    println!("{:8} {}", "first", agreement(&|is_new, _| !is_new));
    println!("{:8} {}", "new", agreement(&|is_new, _| is_new));
    for entry in cubins {
        let name = entry.split('=').next().unwrap_or_default();
        println!("{name:8} {}", agreement(&|_, compiler| compiler == name));
    }
    println!("{:8} {}", "all", agreement(&|_, _| true));
    Ok(())
}
