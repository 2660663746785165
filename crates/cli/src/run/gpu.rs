//! Runs kernel tests on the GPU of this machine. Tests are compiled into a folder, and worker processes run them, so that a kernel that
//! faults affects only itself.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::{fs, io};

use oriole_gpu::batch::{self, Answer, Images, Settings, Verdict};
use oriole_gpu::driver::Driver;
use oriole_isa::Target;
use oriole_kernel_test::KernelTest;
use oriole_support::Suffix;

use super::case::{Case, Image};
use super::outcome::{RunOutcome, Status};
use super::{Goal, Refusal, engines, refused};

/// The hidden command that starts a worker.
const WORKER: &str = "gpu-worker";

/// Returns the target of the GPU of this machine, with the architecture-specific features if it has any.
pub fn architecture() -> Result<Option<Target>, String> {
    let driver = Driver::load().map_err(|error| format!("there is no GPU to run on: {error}"))?;
    let number = u16::try_from(driver.architecture).unwrap_or(u16::MAX);
    let target = [Suffix::ArchSpecific, Suffix::Plain].into_iter().find_map(|suffix| Target::new(number, suffix));
    Ok(target.filter(|target| target.has_machine_code()))
}

/// Runs as a worker.
pub fn work(folder: &str) -> Result<(), String> {
    batch::work(&settings(Path::new(folder)))
}

fn settings(folder: &Path) -> Settings {
    Settings { keeps_outputs: true, ..Settings::new(folder, Images::Cubins(folder.to_owned())) }
}

/// A compiled test whose result is pending.
struct Waiting {
    test: KernelTest,
    image: Image,
}

/// Runs all tests that can be run. Returns one outcome per case, in the same order.
pub fn run(cases: &[Result<Case, Refusal>], goal: Goal, cubin: Option<&[u8]>) -> Vec<RunOutcome> {
    let prepare = |case: &Result<Case, Refusal>| {
        let case = case.as_ref().map_err(Clone::clone)?;
        Ok(Waiting { test: engines::completed(case)?, image: case.image(goal, cubin)? })
    };
    let prepared: Vec<Result<Waiting, Refusal>> = cases.iter().map(prepare).collect();
    let folder = tempfile::Builder::new().prefix("oriole-run-").tempdir();
    let path = folder.as_ref().map_or(Path::new(""), |folder| folder.path());
    let answers = match &folder {
        Ok(_) => ask(path, cases, &prepared),
        Err(error) => Err(format!("no folder for temporary files: {error}")),
    };
    let outcomes = prepared.into_iter().enumerate().map(|(number, waiting)| match (waiting, &answers) {
        (Err(outcome), _) => *outcome,
        (Ok(_), Err(message)) => refused(Status::Faulted, message.clone()),
        (Ok(waiting), Ok(answers)) => {
            let outcome = answers[number].as_ref().map_or_else(
                || refused(Status::Faulted, "no answer"),
                |answer| outcome_of(answer, &waiting.test, &settings(path), &name_of(number)),
            );
            RunOutcome { target: waiting.image.target, level: waiting.image.level, ..outcome }
        }
    });
    outcomes.collect()
}

/// Returns the file name of a test without its extension.
fn name_of(number: usize) -> String {
    format!("{number:06}")
}

/// Writes the tests to a folder and lets workers run them. Returns an answer for each test that was prepared.
fn ask(folder: &Path, cases: &[Result<Case, Refusal>], prepared: &[Result<Waiting, Refusal>]) -> Result<Vec<Option<Answer>>, String> {
    let mut names = Vec::new();
    for (number, (case, waiting)) in cases.iter().zip(prepared).enumerate() {
        if let (Ok(case), Ok(waiting)) = (case, waiting) {
            write(folder, number, case, waiting).map_err(|error| format!("{}: {error}", folder.display()))?;
            names.push(name_of(number));
        }
    }
    let answers = Mutex::new(vec![None; cases.len()]);
    let report = |name: &str, answer: &Answer| {
        let slot = name.parse::<usize>().ok();
        let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slot.and_then(|number| answers.get_mut(number)) {
            *slot = Some(answer.clone());
        }
    };
    let words = [WORKER.to_owned(), folder.display().to_string()];
    batch::run_all(&settings(folder), &words, &names, &report)?;
    Ok(answers.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Writes a test and its machine code. A header with complete expectations precedes the file's own header, which then is only a comment.
fn write(folder: &Path, number: usize, case: &Case, waiting: &Waiting) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let path = |extension: &str| -> PathBuf { folder.join(format!("{}.{extension}", name_of(number))) };
    let text = format!("{}\n{}", waiting.test.header(&case.name), String::from_utf8_lossy(&case.text));
    fs::write(path("ptx"), text)?;
    fs::write(path("cubin"), &waiting.image.cubin)
}

/// Converts the answer of a worker to an outcome.
fn outcome_of(answer: &Answer, test: &KernelTest, settings: &Settings, name: &str) -> RunOutcome {
    match &answer.verdict {
        Verdict::Passed => RunOutcome::new(Status::Passed),
        Verdict::Skipped(why) => refused(Status::Skipped, why),
        Verdict::Faulted(why) => refused(Status::Faulted, why),
        Verdict::Failed(why) => {
            let buffers: Vec<(&str, Option<Vec<u8>>)> =
                test.parameters.iter().map(|p| (p.name.as_str(), fs::read(settings.output_path(name, &p.name)).ok())).collect();
            let contents = |wanted: &str| buffers.iter().find(|(name, _)| *name == wanted).and_then(|(_, bytes)| bytes.as_deref());
            let outcome = RunOutcome::judge(test, contents);
            // If the outputs are missing or correct, something else failed, and the worker's message says what.
            if outcome.status == Status::Wrong { outcome } else { refused(Status::Faulted, why) }
        }
    }
}
