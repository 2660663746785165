//! Mutation testing with one build for all mutants; see README.md.

mod prepare;
mod process;
mod reach;
mod render;
mod run;
mod sample;
mod sites;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "usage: oriole-mutants prepare --root WORKSPACE --copy FOLDER [--count N] [--samples N] [--seed N]
       oriole-mutants run --copy FOLDER --out FOLDER [--threads N] [--limit-seconds N] [--kernel-step N] [--unit-seconds N]
                          [--only N,N,... or N..N]";

fn main() -> ExitCode {
    match command() {
        Some(()) => ExitCode::SUCCESS,
        None => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn command() -> Option<()> {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next()?;
    let mut options = BTreeMap::new();
    while let Some(name) = arguments.next() {
        options.insert(name.strip_prefix("--")?.to_string(), arguments.next()?);
    }
    let number = |name: &str, default: u64| options.get(name).map_or(Some(default), |text| text.parse().ok());
    let folder = |name: &str| options.get(name).map(PathBuf::from);
    match command.as_str() {
        "prepare" => prepare::run(&prepare::Request {
            root: folder("root")?.canonicalize().ok()?,
            copy: folder("copy")?,
            count: number("count", 400)? as usize,
            samples: number("samples", 1)?.max(1) as usize,
            seed: number("seed", 1)?,
        }),
        "run" => run::run(&run::Request {
            copy: folder("copy")?,
            out: folder("out")?,
            extent: reach::Extent {
                threads: number("threads", 2)?.max(1) as usize,
                unit_seconds: number("unit-seconds", 200)? as f64,
                kernel_step: number("kernel-step", 1)?.max(1) as usize,
            },
            limit_seconds: number("limit-seconds", 36_000)? as f64,
            only: numbers(options.get("only"))?,
        }),
        _ => return None,
    }
    Some(())
}

/// Parses a list of numbers, or a range without its end.
fn numbers(text: Option<&String>) -> Option<BTreeSet<usize>> {
    if let Some((first, end)) = text.and_then(|text| text.split_once("..")) {
        return Some((first.parse().ok()?..end.parse().ok()?).collect());
    }
    text.map_or(Some(BTreeSet::new()), |text| text.split(',').map(|number| number.parse().ok()).collect())
}
