//! Runs many tests in worker processes.
//!
//! A worker reads the name of a test from its standard input, runs the test, and answers with one line that starts with a mark, so that
//! output of kernels cannot be mistaken for an answer. The parent waits for the answer for a limited time. A worker that does not answer
//! is killed, a worker that reports a fault exits, and the next test gets a new worker. So a fault or a hang affects only one test.

use crate::driver::Driver;
use crate::launch::{self, Failure};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The source of the machine code.
#[derive(Clone, Debug)]
pub enum Images {
    /// A folder of cubins with the same relative names as the tests.
    Cubins(PathBuf),
    /// The CUDA driver compiles the PTX of each test.
    PtxJit,
}

/// Settings of a batch.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder with the tests.
    pub tests: PathBuf,
    pub images: Images,
    /// Time limit for one test.
    pub timeout: Duration,
    /// Number of worker processes.
    pub jobs: usize,
    /// Number of timed launches per kernel, after the launch whose results are checked; 0 for no timing.
    pub timed_launches: usize,
    /// Whether a failing test writes its buffers to files next to the test: `NAME.BUFFER.out`.
    pub keeps_outputs: bool,
}

impl Settings {
    /// Returns the defaults: ten seconds per test, one worker, no timing.
    pub fn new(tests: impl Into<PathBuf>, images: Images) -> Settings {
        let timeout = Duration::from_secs(10);
        Settings { tests: tests.into(), images, timeout, jobs: 1, timed_launches: 0, keeps_outputs: false }
    }

    /// Returns the path to which a failing test writes a buffer.
    pub fn output_path(&self, name: &str, buffer: &str) -> PathBuf {
        self.tests.join(format!("{name}.{buffer}.out"))
    }
}

/// The result of a test.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub verdict: Verdict,
    /// Median time of a launch in microseconds; `None` unless timing was requested and the test passed.
    pub microseconds: Option<f64>,
}

/// Whether a test passed, and the reason if not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Passed,
    Failed(String),
    /// The kernel faulted or hung, or the worker process died.
    Faulted(String),
    /// The test needs a newer GPU.
    Skipped(String),
}

/// Time limit for the start of a worker.
const STARTUP_LIMIT: Duration = Duration::from_secs(120);
/// The start of every answer; other lines are output of kernels.
const MARK: &str = "@oriole ";
const READY: &str = "ready";
const PASS: &str = "pass";
const FAIL: &str = "fail ";
const SKIP: &str = "skip ";
const FAULT: &str = "fault ";

/// Returns the relative names, without extension, of all tests below a folder, sorted.
pub fn find_tests(folder: &Path) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(current) = open.pop() {
        for entry in std::fs::read_dir(&current)? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "ptx") {
                let relative = path.strip_prefix(folder).unwrap_or(&path).with_extension("");
                names.push(relative.to_string_lossy().replace('\\', "/"));
            }
        }
    }
    names.sort();
    Ok(names)
}

/// Runs as a worker: answers until its input ends or a kernel faults.
pub fn work(settings: &Settings) -> Result<(), String> {
    let driver = Driver::load().map_err(|error| error.to_string())?;
    answer_with(READY);
    for line in std::io::stdin().lines() {
        let name = line.map_err(|error| error.to_string())?;
        let answer = match run_one(&driver, settings, &name) {
            Ok(Answer { verdict: Verdict::Passed, microseconds: Some(time) }) => format!("{PASS} {time}"),
            Ok(Answer { verdict: Verdict::Passed, .. }) => PASS.to_owned(),
            Ok(Answer { verdict: Verdict::Skipped(why), .. }) => format!("{SKIP}{why}"),
            Ok(Answer { verdict: Verdict::Failed(why), .. }) | Err(Failure::Wrong(why) | Failure::Refused(why)) => format!("{FAIL}{why}"),
            Ok(Answer { verdict: Verdict::Faulted(why), .. }) | Err(Failure::Fault(why)) => format!("{FAULT}{why}"),
        };
        answer_with(&answer.replace('\n', " / "));
        if answer.starts_with(FAULT) {
            break;
        }
    }
    Ok(())
}

/// Prints an answer. The empty line before it ends a line that a kernel may have started.
fn answer_with(text: &str) {
    println!("\n{MARK}{text}");
}

/// Runs one test.
fn run_one(driver: &Driver, settings: &Settings, name: &str) -> Result<Answer, Failure> {
    let failed = |why: String| Ok(Answer { verdict: Verdict::Failed(why), microseconds: None });
    let path = settings.tests.join(format!("{name}.ptx"));
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) => return failed(format!("{}: {error}", path.display())),
    };
    let test = match oriole_kernel_test::parse(&text) {
        Ok(test) => test,
        Err(message) => return failed(message),
    };
    if test.needs_interpreter() {
        return failed("expected values are the interpreter's, and must be filled in before the test goes to a GPU".into());
    }
    let wanted = target_of(&text);
    if wanted > driver.architecture {
        let why = format!("needs sm_{wanted}, this is sm_{}", driver.architecture);
        return Ok(Answer { verdict: Verdict::Skipped(why), microseconds: None });
    }
    let image = match &settings.images {
        Images::PtxJit => text.into_bytes(),
        Images::Cubins(folder) => match std::fs::read(folder.join(format!("{name}.cubin"))) {
            Ok(bytes) => bytes,
            Err(_) => return failed("no cubin".into()),
        },
    };
    let outcome = launch::execute(driver, &test, &image, settings.timed_launches)?;
    let findings = outcome.findings(&test);
    if findings.is_empty() {
        return Ok(Answer { verdict: Verdict::Passed, microseconds: outcome.microseconds });
    }
    if settings.keeps_outputs {
        for (buffer, bytes) in &outcome.buffers {
            let path = settings.output_path(name, buffer);
            std::fs::write(&path, bytes).map_err(|error| Failure::Refused(format!("{}: {error}", path.display())))?;
        }
    }
    failed(findings.join("; "))
}

/// Returns the number in `.target sm_90a`; 0 if there is none.
fn target_of(text: &str) -> u32 {
    let digits = text.split_once(".target sm_").map_or("", |(_, rest)| rest);
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().unwrap_or(0)
}

/// A worker process, seen from the parent.
struct Worker {
    process: Child,
    input: ChildStdin,
    /// The answers that the worker has printed.
    answers: Receiver<String>,
}

impl Worker {
    /// Starts a worker and waits until it is ready.
    fn start(arguments: &[String]) -> Result<Worker, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut process = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let input = process.stdin.take().ok_or("the worker has no input")?;
        let output = process.stdout.take().ok_or("the worker has no output")?;
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            // Kernels may print bytes that are not UTF-8.
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).into_owned();
                let Some(answer) = line.strip_prefix(MARK) else { continue };
                if sender.send(answer.to_owned()).is_err() {
                    break;
                }
            }
        });
        let mut worker = Worker { process, input, answers };
        match worker.answers.recv_timeout(STARTUP_LIMIT) {
            Ok(line) if line == READY => Ok(worker),
            _ => {
                worker.end();
                Err("the worker did not start".into())
            }
        }
    }

    /// Sends the name of a test and waits for the answer; `None` if there is none in time.
    fn ask(&mut self, name: &str, timeout: Duration) -> Option<String> {
        writeln!(self.input, "{name}").ok()?;
        self.answers.recv_timeout(timeout).ok()
    }

    /// Kills the worker and waits until it has exited.
    fn end(&mut self) {
        // Errors are ignored: the process may have exited already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs all tests in parallel workers; calls `report` for each answer as it arrives. A worker is this program with `worker_arguments`, and
/// must call [`work`].
pub fn run_all(
    settings: &Settings,
    worker_arguments: &[String],
    names: &[String],
    report: &(dyn Fn(&str, &Answer) + Sync),
) -> Result<(), String> {
    let queue: Mutex<VecDeque<&String>> = Mutex::new(names.iter().collect());
    let results: Vec<Result<(), String>> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..settings.jobs.max(1)).map(|_| scope.spawn(|| run_queue(settings, worker_arguments, &queue, report))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err("a runner thread panicked".into()))).collect()
    });
    results.into_iter().collect()
}

/// Runs tests from the queue, one after the other, until the queue is empty.
fn run_queue(
    settings: &Settings,
    worker_arguments: &[String],
    queue: &Mutex<VecDeque<&String>>,
    report: &(dyn Fn(&str, &Answer) + Sync),
) -> Result<(), String> {
    let mut worker: Option<Worker> = None;
    loop {
        let Some(name) = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front() else {
            break;
        };
        let mut current = match worker.take() {
            Some(worker) => worker,
            None => Worker::start(worker_arguments)?,
        };
        let answer = current.ask(name, settings.timeout);
        let (answer, usable) = judge(answer.as_deref(), settings.timeout);
        report(name, &answer);
        if usable {
            worker = Some(current);
        } else {
            current.end();
        }
    }
    if let Some(mut worker) = worker {
        worker.end();
    }
    Ok(())
}

/// Interprets the answer of a worker. Returns the result, and whether the worker can run further tests.
fn judge(line: Option<&str>, timeout: Duration) -> (Answer, bool) {
    let untimed = |verdict| Answer { verdict, microseconds: None };
    let Some(line) = line else {
        let why = format!("no answer: hang beyond {} s, or the worker died", timeout.as_secs());
        return (untimed(Verdict::Faulted(why)), false);
    };
    let rest_of = |word: &str| line.strip_prefix(word).map(str::to_owned);
    if line == PASS {
        (untimed(Verdict::Passed), true)
    } else if let Some(time) = rest_of(PASS).and_then(|rest| rest.trim().parse().ok()) {
        (Answer { verdict: Verdict::Passed, microseconds: Some(time) }, true)
    } else if let Some(why) = rest_of(FAIL) {
        (untimed(Verdict::Failed(why)), true)
    } else if let Some(why) = rest_of(SKIP) {
        (untimed(Verdict::Skipped(why)), true)
    } else if let Some(why) = rest_of(FAULT) {
        (untimed(Verdict::Faulted(why)), false)
    } else {
        (untimed(Verdict::Faulted(format!("the worker said `{line}`"))), false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_is_found_in_the_text() {
        assert_eq!(target_of("// x\n.version 8.0\n.target sm_90a\n"), 90);
        assert_eq!(target_of("nothing"), 0);
    }

    #[test]
    fn answers_are_judged() {
        let second = Duration::from_secs(1);
        let untimed = |verdict| Answer { verdict, microseconds: None };
        assert_eq!(judge(Some("pass"), second), (untimed(Verdict::Passed), true));
        assert_eq!(judge(Some("pass 2.5"), second), (Answer { verdict: Verdict::Passed, microseconds: Some(2.5) }, true));
        assert_eq!(judge(Some("fail x"), second), (untimed(Verdict::Failed("x".into())), true));
        assert_eq!(judge(Some("fault x"), second), (untimed(Verdict::Faulted("x".into())), false));
        assert!(!judge(Some("password"), second).1);
        assert!(!judge(None, second).1);
    }
}
