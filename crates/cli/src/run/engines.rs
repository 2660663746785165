//! Runs kernel tests without a GPU: in the PTX interpreter and in the simulator of machine code.

use oriole_kernel_test::{KernelTest, Tolerance};
use oriole_sim::hazard;
use oriole_sim::kernel_test::Setup;
use oriole_sim::ptx::{self, FindingKind, PtxProgram, UndefinedBehavior};
use oriole_sim::sass::{self, Code, ErrorKind, Observer, Silent, Trace, WriteWatch, WritingThread};
use oriole_sim::timing::{self, Effort, Estimate};
use oriole_sim::verify::{Verifier, verify_cubin};

use super::case::{Case, Image};
use super::outcome::{RunOutcome, Status, TraceWindow};
use super::{Goal, Refusal, Watching, refused};

/// Number of instructions of a warp in a trace.
const WINDOW: usize = 16;
/// Number of instructions of a warp in a trace if all are requested.
const LONG_WINDOW: usize = 10_000;
/// Heading of a trace.
const COLUMNS: &str = "offset  threads   active  instruction                                                   values of the thread";

/// Runs a test in the PTX interpreter.
pub fn interpret(case: &Case) -> RunOutcome {
    let program = match interpreter(case) {
        Ok(program) => program,
        Err(outcome) => return *outcome,
    };
    let mut setup = Setup::new(&case.test);
    let loaded = program.load(&mut setup.memory);
    let report = match loaded.run(&setup.launch, &mut setup.memory, &ptx::PtxOptions::default()) {
        Ok(report) => report,
        Err(error) => return stopped(error),
    };
    if !report.findings.is_empty() {
        return RunOutcome { printed: report.output, ..undefined(report.findings) };
    }
    let mut test = case.test.clone();
    for expectation in &mut test.expectations {
        if let Some(((element, _), bytes)) = setup.buffer(&expectation.parameter).zip(setup.contents(&expectation.parameter)) {
            expectation.resolve(element, bytes);
        }
    }
    let outcome = RunOutcome::judge(&test, |name| setup.contents(name));
    RunOutcome { instructions: Some(report.instructions), printed: report.output, ..outcome }
}

/// Returns the test with all expected values. Runs the interpreter if the test takes expected values from it.
pub fn completed(case: &Case) -> Result<KernelTest, Refusal> {
    if !case.test.needs_interpreter() {
        return Ok(case.test.clone());
    }
    let (test, report) = interpreter(case)?.complete_test(&case.test, &ptx::PtxOptions::default()).map_err(stopped)?;
    if report.findings.is_empty() { Ok(test) } else { Err(undefined(report.findings).into()) }
}

fn interpreter(case: &Case) -> Result<PtxProgram, Refusal> {
    Ok(PtxProgram::new(&case.checked.module, &case.text).map_err(stopped)?)
}

fn undefined(findings: Vec<UndefinedBehavior>) -> RunOutcome {
    let message = findings.first().map_or(String::new(), ToString::to_string);
    RunOutcome { findings, message, ..RunOutcome::new(Status::Undefined) }
}

/// Returns the outcome for an error of the interpreter.
fn stopped(error: ptx::PtxError) -> RunOutcome {
    let message = error.to_string();
    match error {
        ptx::PtxError::Unsupported { .. } => refused(Status::Unsupported, message),
        ptx::PtxError::Launch(_) => refused(Status::Invalid, message),
        ptx::PtxError::Fault { fault, earlier } => {
            let is_trap = matches!(fault.kind, FindingKind::Trap | FindingKind::TooManySteps);
            let status = if is_trap { Status::Faulted } else { Status::Undefined };
            let findings = std::iter::once(fault).chain(earlier).collect();
            RunOutcome { findings, message, ..RunOutcome::new(status) }
        }
    }
}

/// Runs a test in the simulator, with the given cubin or the result of compiling the test.
pub fn simulate(case: &Case, goal: Goal, cubin: Option<&[u8]>, watching: Watching) -> RunOutcome {
    let prepared = completed(case).and_then(|test| Ok((test, case.image(goal, cubin)?)));
    let (test, image) = match prepared {
        Ok(prepared) => prepared,
        Err(outcome) => return *outcome,
    };
    let Image { cubin, target, level } = image;
    let outcome = match Code::load(&cubin) {
        Ok(code) => {
            let length = if watching.trace { LONG_WINDOW } else { WINDOW };
            let verified = if watching.hazards { verified(&cubin) } else { Vec::new() };
            Simulation { code: &code, test: &test, options: watching.options, verified, length }.run(watching)
        }
        Err(error) => refused(Status::Invalid, format!("the cubin: {error}")),
    };
    RunOutcome { target, level, ..outcome }
}

/// Returns the findings of the verifiers in machine code, one line each.
fn verified(cubin: &[u8]) -> Vec<String> {
    match verify_cubin(cubin, &Verifier::ALL) {
        Ok(report) => report.findings().map(|(section, finding)| format!("{} {finding}", section.name)).collect(),
        Err(message) => vec![message],
    }
}

/// Machine code and the test that it must pass.
struct Simulation<'a> {
    code: &'a Code,
    test: &'a KernelTest,
    options: sass::GridOptions,
    /// Findings of the verifiers, over all paths of the code.
    verified: Vec<String>,
    /// Number of instructions in a trace.
    length: usize,
}

impl Simulation<'_> {
    /// Runs the code once, with the initial buffers of the test. Returns the buffers after the run, and the result.
    fn launch<O: Observer>(&self, observer: &mut O) -> (Setup, Result<sass::LaunchReport, sass::SassError>) {
        let mut setup = Setup::new(self.test);
        let result = self.code.run(&setup.launch, &mut setup.memory, &self.options, observer);
        (setup, result)
    }

    /// Runs the test and collects the reports that `watching` requests.
    fn run(&self, watching: Watching) -> RunOutcome {
        let mut hazards = hazard::HazardObserver::new();
        let (setup, result) = if watching.hazards { self.launch(&mut hazards) } else { self.launch(&mut Silent) };
        let hazards: Vec<String> = hazards.findings().iter().map(ToString::to_string).chain(self.verified.iter().cloned()).collect();
        let mut outcome = match result {
            Ok(report) => {
                let judged = RunOutcome::judge(self.test, |name| setup.contents(name));
                RunOutcome { instructions: Some(report.warp_instructions), printed: report.printed, ..judged }
            }
            Err(error) => self.stopped(&error),
        };
        if outcome.status == Status::Wrong {
            outcome.trace = self.before_difference(&setup, &outcome);
        }
        if outcome.status == Status::Passed && watching.trace {
            outcome.trace = Some(self.first_warp());
        }
        if outcome.status == Status::Passed && !hazards.is_empty() {
            outcome.status = Status::Hazard;
            let plural = if hazards.len() == 1 { "" } else { "s" };
            outcome.message = format!("the result is right, but there are {} hazard{plural}", hazards.len());
        }
        outcome.hazards = watching.hazards.then_some(hazards);
        outcome.timing = watching.timing.then(|| self.estimate());
        outcome
    }

    /// Estimates the time of the launch.
    fn estimate(&self) -> Result<Estimate, String> {
        let mut setup = Setup::new(self.test);
        timing::estimate(self.code, &setup.launch, &mut setup.memory, &Effort::default()).map_err(|failure| failure.to_string())
    }

    /// Returns the outcome for an error of the simulator, with a trace of the faulting warp.
    fn stopped(&self, error: &sass::SassError) -> RunOutcome {
        let status = match error.kind {
            ErrorKind::Load | ErrorKind::Launch => Status::Invalid,
            ErrorKind::Unsupported => Status::Unsupported,
            ErrorKind::Fault | ErrorKind::Deadlock | ErrorKind::TooLong => Status::Faulted,
        };
        let mut outcome = refused(status, error.to_string());
        if let Some(place) = error.place.as_ref().filter(|_| matches!(error.kind, ErrorKind::Fault)) {
            let block = number_of(place.block, self.test.grid);
            let thread = number_of(place.thread, self.test.block) as usize;
            let mut trace = Trace::of_warp(self.length, block, warp_of(thread), lane_of(thread));
            let _ = self.launch(&mut trace);
            let title = format!("what the warp of {} did", thread_name(place.block, place.thread));
            outcome.trace = Some(window(title, &trace.text(block, warp_of(thread))));
        }
        outcome
    }

    /// Returns a trace of the thread that wrote the first wrong element.
    fn before_difference(&self, setup: &Setup, outcome: &RunOutcome) -> Option<TraceWindow> {
        let buffer = outcome.buffers.first()?;
        let by_place = self.test.expectations.iter().any(|e| e.parameter == buffer.name && e.tolerance != Tolerance::AnyOrder);
        if !by_place {
            return None;
        }
        let index = buffer.wrong.first()?.index;
        let element = format!("{}[{index}]", buffer.name);
        let address = setup.buffer(&buffer.name)?.1 + (index * buffer.element.bytes()) as u64;
        // Runs twice: the first run finds the thread that writes the element, the second one traces its warp.
        let mut watch = WriteWatch::new(address);
        let _ = self.launch(&mut watch);
        let Some(WritingThread { block, warp, lane, .. }) = watch.writer() else {
            return Some(TraceWindow { title: format!("no instruction wrote {element}"), lines: Vec::new() });
        };
        let mut watch = WriteWatch::with_trace(address, Trace::of_warp(self.length, block, warp, lane));
        let _ = self.launch(&mut watch);
        let writer = watch.writer()?;
        let thread = place_of(u64::from(warp) * 32 + lane as u64, self.test.block);
        let name = thread_name(place_of(block, self.test.grid), thread);
        Some(window(format!("{element} was written by {name} at {:#x}; what its warp did until then", writer.offset), &writer.trace))
    }

    fn first_warp(&self) -> TraceWindow {
        let mut trace = Trace::of_warp(self.length, 0, 0, 0);
        let _ = self.launch(&mut trace);
        window(format!("what the warp of {} did", thread_name([0; 3], [0; 3])), &trace.text(0, 0))
    }
}

fn window(title: String, text: &str) -> TraceWindow {
    TraceWindow { title, lines: std::iter::once(COLUMNS).chain(text.lines()).map(|line| line.trim_end().to_owned()).collect() }
}

fn warp_of(thread: usize) -> u32 {
    (thread / 32) as u32
}

fn lane_of(thread: usize) -> usize {
    thread % 32
}

fn thread_name([bx, by, bz]: [u32; 3], [x, y, z]: [u32; 3]) -> String {
    format!("block ({bx},{by},{bz}), thread ({x},{y},{z})")
}

/// Returns the linear index of a block in a grid, or of a thread in a block.
fn number_of([x, y, z]: [u32; 3], [width, height, _]: [u32; 3]) -> u64 {
    u64::from(x) + u64::from(width) * (u64::from(y) + u64::from(height) * u64::from(z))
}

/// Returns the coordinates of the block in a grid, or of the thread in a block, with this linear index.
fn place_of(number: u64, [width, height, _]: [u32; 3]) -> [u32; 3] {
    let (width, height) = (u64::from(width.max(1)), u64::from(height.max(1)));
    [(number % width) as u32, (number / width % height) as u32, (number / width / height) as u32]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_numbers_fit() {
        let size = [4, 3, 2];
        for number in 0..24 {
            assert_eq!(number_of(place_of(number, size), size), number);
        }
        assert_eq!(place_of(23, size), [3, 2, 1]);
    }
}
