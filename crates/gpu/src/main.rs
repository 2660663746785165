//! `oriole-gpu-tests`: runs kernel tests on the GPU of this machine.

use oriole_gpu::batch::{self, Answer, Images, Settings, Verdict};
use oriole_gpu::driver::Driver;
use oriole_gpu::table::{self, SetResult};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const USAGE: &str = "\
usage: oriole-gpu-tests --tests DIR (--cubins DIR | --ptx-jit) [options]
       oriole-gpu-tests --bundle DIR [options]

  --tests DIR      folder with kernel tests, NAME.ptx
  --cubins DIR     folder with their machine code, NAME.cubin under the same relative names
  --ptx-jit        let the driver compile the tests' own PTX instead
  --bundle DIR     run DIR/tests with each folder of DIR/cubins and print a table
  --filter TEXT    only tests whose name contains TEXT
  --time N         launch each kernel N times more and report the median time, measured with events
  --timeout SECS   limit for one test (default 10)
  --jobs N         worker processes at a time (default 1)
  --json           one JSON object a test, then one with the counts of each set

Prints a line for each failure and a final count. Exit status: 0 if nothing failed but in sets of ptxas,
1 otherwise, 2 for usage.
";

/// The option that makes this program a worker; it precedes the options that the parent passes on.
const WORKER: &str = "--worker";

/// The tests to run.
#[derive(Debug, PartialEq)]
enum What {
    /// One folder of tests, with one set of images.
    Tests(PathBuf, Source),
    /// All sets of a bundle.
    Bundle(PathBuf),
}

/// The source of the machine code.
#[derive(Debug, PartialEq)]
enum Source {
    Cubins(PathBuf),
    PtxJit,
}

/// The command line.
#[derive(Debug, PartialEq)]
struct Arguments {
    what: What,
    filter: String,
    timeout: u64,
    jobs: usize,
    timed_launches: usize,
    json: bool,
    worker: bool,
}

/// Parses the command line; the error is a message for the user.
fn read_arguments(words: &[String]) -> Result<Arguments, String> {
    let (mut tests, mut source, mut bundle, mut filter) = (None, None, None, String::new());
    let (mut timeout, mut jobs, mut timed_launches, mut json, mut worker) = (10, 1, 0, false, false);
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let mut value = || rest.next().cloned().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--tests" => tests = Some(PathBuf::from(value()?)),
            "--cubins" => source = Some(Source::Cubins(PathBuf::from(value()?))),
            "--ptx-jit" => source = Some(Source::PtxJit),
            "--bundle" => bundle = Some(PathBuf::from(value()?)),
            "--filter" => filter = value()?,
            "--time" => timed_launches = value()?.parse().map_err(|_| "--time takes a number of launches")?,
            "--timeout" => timeout = value()?.parse().map_err(|_| "--timeout takes seconds")?,
            "--jobs" => jobs = value()?.parse().map_err(|_| "--jobs takes a number")?,
            "--json" => json = true,
            WORKER => worker = true,
            _ => return Err(format!("unknown argument `{word}`")),
        }
    }
    let what = match (bundle, tests, source) {
        (Some(bundle), None, None) => What::Bundle(bundle),
        (Some(_), ..) => return Err("--bundle brings its own tests and cubins".into()),
        (None, Some(tests), Some(source)) => What::Tests(tests, source),
        (None, None, _) => return Err("--tests is missing".into()),
        (None, Some(_), None) => return Err("--cubins or --ptx-jit is missing".into()),
    };
    Ok(Arguments { what, filter, timeout, jobs, timed_launches, json, worker })
}

impl Arguments {
    fn settings(&self, tests: &Path, images: Images) -> Settings {
        let timeout = Duration::from_secs(self.timeout);
        Settings { timeout, jobs: self.jobs, timed_launches: self.timed_launches, ..Settings::new(tests, images) }
    }

    /// Returns the arguments of a worker for a folder of tests and its images.
    fn worker_words(&self, settings: &Settings) -> Vec<String> {
        let mut words = vec![WORKER.to_owned(), "--tests".into(), settings.tests.display().to_string()];
        match &settings.images {
            Images::Cubins(folder) => words.extend(["--cubins".into(), folder.display().to_string()]),
            Images::PtxJit => words.push("--ptx-jit".into()),
        }
        words.extend(["--time".into(), self.timed_launches.to_string()]);
        words
    }
}

/// Runs the tests with one set of images.
fn run_set(name: &str, arguments: &Arguments, settings: &Settings) -> Result<SetResult, String> {
    let mut names = batch::find_tests(&settings.tests).map_err(|error| format!("{}: {error}", settings.tests.display()))?;
    names.retain(|name| name.contains(&arguments.filter));
    if names.is_empty() {
        return Err(format!("no tests in {}", settings.tests.display()));
    }
    let result = Mutex::new(SetResult::new(name));
    let prefix = if name.is_empty() { String::new() } else { format!("{name}: ") };
    let report = |test: &str, answer: &Answer| {
        let mut result = result.lock().unwrap_or_else(PoisonError::into_inner);
        result.add(test, answer);
        let (word, why) = match &answer.verdict {
            Verdict::Passed => ("passed", ""),
            Verdict::Failed(why) => ("failed", why.as_str()),
            Verdict::Faulted(why) => ("faulted", why.as_str()),
            Verdict::Skipped(why) => ("skipped", why.as_str()),
        };
        if arguments.json {
            let object = serde_json::json!({
                "set": name, "test": test, "verdict": word, "why": why, "microseconds": answer.microseconds,
            });
            println!("{object}");
        } else if answer.verdict != Verdict::Passed {
            println!("{prefix}{word} {test}: {why}");
        }
    };
    let start = Instant::now();
    batch::run_all(settings, &arguments.worker_words(settings), &names, &report)?;
    let mut result = result.into_inner().unwrap_or_else(PoisonError::into_inner);
    result.seconds = start.elapsed().as_secs_f64();
    Ok(result)
}

/// Returns the names and paths of the folders in a bundle's `cubins` folder, sorted.
fn sets_of(bundle: &Path) -> Result<Vec<(String, PathBuf)>, String> {
    let folder = bundle.join("cubins");
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_dir());
    let mut sets: Vec<(String, PathBuf)> =
        paths.filter_map(|path| Some((path.file_name()?.to_string_lossy().into_owned(), path.clone()))).collect();
    sets.sort();
    if sets.is_empty() { Err(format!("{}: no sets of cubins", folder.display())) } else { Ok(sets) }
}

/// Runs all sets and prints the results. Returns whether no set of Oriole's failed.
fn run(arguments: &Arguments) -> Result<bool, String> {
    // Reports a missing driver once here, instead of in every worker.
    drop(Driver::load().map_err(|error| error.to_string())?);
    let results: Vec<SetResult> = match &arguments.what {
        What::Tests(tests, source) => {
            let images = match source {
                Source::Cubins(folder) => Images::Cubins(folder.clone()),
                Source::PtxJit => Images::PtxJit,
            };
            vec![run_set("", arguments, &arguments.settings(tests, images))?]
        }
        What::Bundle(bundle) => {
            let run = |(name, folder): (String, PathBuf)| {
                run_set(&name, arguments, &arguments.settings(&bundle.join("tests"), Images::Cubins(folder)))
            };
            sets_of(bundle)?.into_iter().map(run).collect::<Result<_, _>>()?
        }
    };
    if arguments.json {
        for SetResult { name, right, wrong, faulted, skipped, seconds, .. } in &results {
            let object = serde_json::json!({
                "set": name, "passed": right, "failed": wrong, "faulted": faulted, "skipped": skipped, "seconds": seconds,
            });
            println!("{object}");
        }
    } else if matches!(arguments.what, What::Bundle(_)) || arguments.timed_launches > 0 {
        print!("{}", table::text(&results));
    } else {
        for SetResult { right, wrong, faulted, skipped, .. } in &results {
            let skipped = if *skipped > 0 { format!(", {skipped} skipped") } else { String::new() };
            println!("{right} passed, {} failed{skipped}", wrong + faulted);
        }
    }
    Ok(!results.iter().any(SetResult::is_to_blame))
}

/// Runs as a worker.
fn work(arguments: &Arguments) -> Result<bool, String> {
    let settings = match &arguments.what {
        What::Tests(tests, Source::Cubins(folder)) => arguments.settings(tests, Images::Cubins(folder.clone())),
        What::Tests(tests, Source::PtxJit) => arguments.settings(tests, Images::PtxJit),
        What::Bundle(_) => return Err("a worker has one set".into()),
    };
    batch::work(&settings).map(|()| true)
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
    match if arguments.worker { work(&arguments) } else { run(&arguments) } {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &str) -> Result<Arguments, String> {
        read_arguments(&words.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn arguments_are_read() {
        let bundle = read("--bundle . --time 7 --jobs 4 --filter add").expect("right");
        assert_eq!(bundle.what, What::Bundle(".".into()));
        assert_eq!((bundle.timed_launches, bundle.jobs, bundle.filter.as_str()), (7, 4, "add"));
        assert!(read("--bundle . --tests x").is_err());
        assert!(read("--tests x").is_err_and(|message| message.contains("--cubins")));
        assert!(read("--tests x --ptx-jit --time many").is_err());
    }

    #[test]
    fn a_worker_reads_what_its_parent_writes() {
        let parent = read("--bundle b --time 3").expect("right");
        let settings = parent.settings(Path::new("b/tests"), Images::Cubins("b/cubins/own".into()));
        let worker = read_arguments(&parent.worker_words(&settings)).expect("right");
        assert!(worker.worker);
        assert_eq!(worker.what, What::Tests("b/tests".into(), Source::Cubins("b/cubins/own".into())));
        assert_eq!(worker.timed_launches, 3);
    }
}
