//! `oriole-gpu-tests`: kernel tests on the GPU of this machine.

use oriole_gpu::batch::{self, Images, Settings, Verdict};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

const USAGE: &str = "\
usage: oriole-gpu-tests --tests DIR (--cubins DIR | --ptx-jit) [options]

  --tests DIR      folder with kernel tests, NAME.ptx
  --cubins DIR     folder with their machine code, NAME.cubin under the same relative names
  --ptx-jit        let the driver compile the tests' own PTX instead
  --filter TEXT    only tests whose name contains TEXT
  --timeout SECS   limit for one test (default 10)
  --jobs N         worker processes at a time (default 1)
  --json           one JSON object a test, then one with the counts

Prints a line for each failure and a final count. Exit status: 0 if nothing failed, 1 otherwise, 2 for usage.
";

struct Arguments {
    settings: Settings,
    filter: String,
    json: bool,
    worker: bool,
}

fn read_arguments(words: &[String]) -> Result<Arguments, String> {
    let (mut tests, mut images, mut filter) = (None, None, String::new());
    let (mut timeout, mut jobs, mut json, mut worker) = (10, 1, false, false);
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let mut value = || rest.next().cloned().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--tests" => tests = Some(PathBuf::from(value()?)),
            "--cubins" => images = Some(Images::Cubins(PathBuf::from(value()?))),
            "--ptx-jit" => images = Some(Images::PtxJit),
            "--filter" => filter = value()?,
            "--timeout" => timeout = value()?.parse().map_err(|_| "--timeout takes seconds")?,
            "--jobs" => jobs = value()?.parse().map_err(|_| "--jobs takes a number")?,
            "--json" => json = true,
            "--worker" => worker = true,
            _ => return Err(format!("unknown argument `{word}`")),
        }
    }
    let tests = tests.ok_or("--tests is missing")?;
    let images = images.ok_or("--cubins or --ptx-jit is missing")?;
    let settings = Settings { tests, images, timeout: Duration::from_secs(timeout), jobs };
    Ok(Arguments { settings, filter, json, worker })
}

#[derive(Default)]
struct Counts {
    passed: usize,
    failed: usize,
    skipped: usize,
}

fn run(words: &[String], arguments: &Arguments) -> Result<bool, String> {
    let tests = &arguments.settings.tests;
    let mut names = batch::find_tests(tests).map_err(|error| format!("{}: {error}", tests.display()))?;
    names.retain(|name| name.contains(&arguments.filter));
    if names.is_empty() {
        return Err(format!("no tests in {}", tests.display()));
    }
    let counts = Mutex::new(Counts::default());
    let report = |name: &str, verdict: &Verdict| {
        let mut counts = counts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (word, why) = match verdict {
            Verdict::Passed => ("passed", ""),
            Verdict::Failed(why) => ("failed", why.as_str()),
            Verdict::Skipped(why) => ("skipped", why.as_str()),
        };
        match verdict {
            Verdict::Passed => counts.passed += 1,
            Verdict::Failed(_) => counts.failed += 1,
            Verdict::Skipped(_) => counts.skipped += 1,
        }
        if arguments.json {
            println!("{}", serde_json::json!({ "test": name, "verdict": word, "why": why }));
        } else if *verdict != Verdict::Passed {
            println!("{word} {name}: {why}");
        }
    };
    batch::run_all(&arguments.settings, words, &names, &report)?;
    let Counts { passed, failed, skipped } = counts.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    if arguments.json {
        println!("{}", serde_json::json!({ "passed": passed, "failed": failed, "skipped": skipped }));
    } else if skipped > 0 {
        println!("{passed} passed, {failed} failed, {skipped} skipped");
    } else {
        println!("{passed} passed, {failed} failed");
    }
    Ok(failed == 0)
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let arguments = match read_arguments(&words) {
        Ok(arguments) => arguments,
        Err(message) => {
            eprint!("error: {message}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let outcome = if arguments.worker { batch::work(&arguments.settings).map(|()| true) } else { run(&words, &arguments) };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}
