//! Many tests in worker processes.
//!
//! A worker reads the name of a test on its standard input, runs it, and answers with one marked line, so that what kernels print
//! cannot be mistaken for an answer. The parent waits for that line
//! for a limited time; a worker that does not answer is killed, one that reports a fault ends itself, and the next test gets a
//! fresh worker. So a fault or a hang costs one test.

use crate::driver::Driver;
use crate::launch::{self, Failure};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Where the machine code comes from.
#[derive(Clone, Debug)]
pub enum Images {
    /// A folder of cubins with the tests' relative names.
    Cubins(PathBuf),
    /// The driver compiles the test's own PTX.
    PtxJit,
}

#[derive(Clone, Debug)]
pub struct Settings {
    pub tests: PathBuf,
    pub images: Images,
    pub timeout: Duration,
    pub jobs: usize,
    /// Launches of each kernel that are timed, after the one that is judged.
    pub timed_launches: usize,
    /// Whether a test that is wrong leaves its buffers beside it: `NAME.BUFFER.out`.
    pub keeps_outputs: bool,
}

impl Settings {
    /// Tests with their cubins; ten seconds for each, one after the other, no times.
    pub fn new(tests: impl Into<PathBuf>, images: Images) -> Settings {
        let timeout = Duration::from_secs(10);
        Settings { tests: tests.into(), images, timeout, jobs: 1, timed_launches: 0, keeps_outputs: false }
    }

    /// Where a test that is wrong leaves a buffer.
    pub fn output_path(&self, name: &str, buffer: &str) -> PathBuf {
        self.tests.join(format!("{name}.{buffer}.out"))
    }
}

/// What came of a test.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub verdict: Verdict,
    /// The median time of a launch, if times were asked for.
    pub microseconds: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Passed,
    Failed(String),
    /// The kernel faulted, hung, or took the worker with it.
    Faulted(String),
    /// The GPU is too old for it.
    Skipped(String),
}

const STARTUP_LIMIT: Duration = Duration::from_secs(120);
/// Begins every answer; other lines are output of kernels.
const MARK: &str = "@oriole ";
const READY: &str = "ready";
const PASS: &str = "pass";
const FAIL: &str = "fail ";
const SKIP: &str = "skip ";
const FAULT: &str = "fault ";

/// Relative names without extension of all tests below a folder, sorted.
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

/// The worker's side: answers until its input ends or a kernel faults.
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

/// A kernel may have printed half a line before.
fn answer_with(text: &str) {
    println!("\n{MARK}{text}");
}

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

/// The number in `.target sm_90a`.
fn target_of(text: &str) -> u32 {
    let digits = text.split_once(".target sm_").map_or("", |(_, rest)| rest);
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().unwrap_or(0)
}

struct Worker {
    process: Child,
    input: ChildStdin,
    answers: Receiver<String>,
}

impl Worker {
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
            // Kernels may print bytes that are no UTF-8.
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

    fn ask(&mut self, name: &str, timeout: Duration) -> Option<String> {
        writeln!(self.input, "{name}").ok()?;
        self.answers.recv_timeout(timeout).ok()
    }

    fn end(&mut self) {
        // It may have ended by itself already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs all tests; `report` hears each answer as it comes. A worker is this program with other arguments, and must call [`work`].
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

/// What a worker's line means, and whether the worker can go on.
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
