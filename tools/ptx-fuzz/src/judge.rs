//! Judges a case: runs it in the interpreter, compiles it, runs the machine code in the simulator, and compares the memory after both.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use oriole_driver::{Options, ScheduleBackend, ScheduleMode, Scheduling, compile, target_mismatch};
use oriole_isa::Target;
use oriole_kernel_test::{Expectation, Expected, KernelTest, ParameterValue, Tolerance};
use oriole_ptx::ast::Module;
use oriole_sim::hazard::HazardObserver;
use oriole_sim::verify::{Verifier, verify_cubin};
use oriole_sim::{GlobalMemory, Launch, ptx, sass};

use crate::reduce::Case;

/// How a case is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Configuration {
    pub target: Target,
    pub level: u8,
    /// Backend and mode of the scheduler; `None` for the default of the optimization level.
    pub scheduler: Option<Scheduler>,
}

/// A scheduling strategy and its mode.
pub type Scheduler = (ScheduleBackend, ScheduleMode);

/// Returns all combinations of strategy and mode.
pub fn schedulers() -> Vec<Scheduler> {
    ScheduleBackend::ALL.into_iter().flat_map(|backend| ScheduleMode::ALL.map(|mode| (backend, mode))).collect()
}

impl Configuration {
    pub fn new(target: Target, level: u8) -> Configuration {
        Configuration { target, level, scheduler: None }
    }
}

impl fmt::Display for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -O{}", self.target, self.level)?;
        match self.scheduler {
            Some((backend, mode)) => write!(f, " --sched-strategy {} --sched-mode {}", backend.name(), mode.name()),
            None => Ok(()),
        }
    }
}

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The module is invalid, or the interpreter rejects it or finds undefined behaviour. The bug is in the generator or the interpreter.
    Undefined,
    /// The compiler reports an error.
    Refused,
    /// The compiler or an engine panics.
    Panic,
    /// The simulator cannot run the machine code to its end.
    Fault,
    /// The verifiers or the hazard check report an instruction that reads or overwrites a register too early, or another error in the
    /// cubin.
    Hazard,
    /// The memory after the launch differs.
    Difference,
}

/// The failure of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub kind: FailureKind,
    pub configuration: Option<Configuration>,
    pub message: String,
}

impl Failure {
    fn new(kind: FailureKind, configuration: Option<Configuration>, message: impl Into<String>) -> Failure {
        Failure { kind, configuration, message: message.into() }
    }

    /// Returns whether both failures probably have the same cause: the same kind, and the same words in the message. Digits are ignored.
    pub fn is_like(&self, other: &Failure) -> bool {
        let words = |message: &str| -> String { message.chars().filter(|c| c.is_alphabetic() || *c == '.').take(36).collect() };
        self.kind == other.kind && (self.kind == FailureKind::Difference || words(&self.message) == words(&other.message))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.kind)?;
        if let Some(configuration) = self.configuration {
            write!(f, " at {configuration}")?;
        }
        write!(f, ": {}", self.message)
    }
}

/// A launch, its memory, and the addresses of its buffers.
struct Setup {
    launch: Launch,
    memory: GlobalMemory,
    buffers: Vec<(String, u64)>,
}

impl Setup {
    /// Creates the buffers and the launch of a test.
    fn of(test: &KernelTest) -> Setup {
        let mut memory = GlobalMemory::new();
        let mut buffers = Vec::new();
        let mut arguments = Vec::new();
        for parameter in &test.parameters {
            arguments.push(match &parameter.value {
                ParameterValue::Buffer { element, count, fill } => {
                    let address = memory.allocate(&parameter.name, KernelTest::initial_bytes(*element, *count, fill));
                    buffers.push((parameter.name.clone(), address));
                    address.to_le_bytes().to_vec()
                }
                ParameterValue::Scalar { element, bits } => bits.to_le_bytes()[..element.bytes()].to_vec(),
                ParameterValue::Bytes(bytes) => bytes.clone(),
                ParameterValue::TensorMap(_) | ParameterValue::Sampler(_) => {
                    unreachable!("random programs have no tensor maps and no samplers")
                }
                ParameterValue::Image(image) => memory.create_image(&parameter.name, image).0.to_le_bytes().to_vec(),
            });
        }
        let launch = Launch {
            kernel: test.kernel.clone(),
            grid: test.grid,
            block: test.block,
            cluster: test.cluster,
            shared_bytes: test.shared_bytes,
            arguments,
        };
        Setup { launch, memory, buffers }
    }

    /// Returns the contents of all buffers.
    fn contents(&self) -> Vec<Vec<u8>> {
        self.buffers.iter().map(|buffer| self.memory.contents(buffer.1).unwrap_or_default().to_vec()).collect()
    }
}

/// Limit on the number of instructions per launch, in the interpreter and in the simulator.
const MOST_STEPS: u64 = 1 << 24;

/// Seed of the second order in which the simulator runs threads.
const OTHER_ORDER: u64 = 1;

/// Returns the message of a panic.
fn panic_message(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str).or_else(|| payload.downcast_ref::<&str>().copied());
    text.unwrap_or("no message").to_owned()
}

/// Runs a function and turns a panic into a failure.
fn guarded<T>(what: &str, configuration: Option<Configuration>, run: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|payload| {
        Err(Failure::new(FailureKind::Panic, configuration, format!("{what}: {}", panic_message(payload.as_ref()))))
    })
}

/// Parses and checks a module.
fn checked(text: &str) -> Result<Module, Failure> {
    let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
    match checked.diagnostics.first() {
        Some(first) if !checked.is_valid() => Err(Failure::new(FailureKind::Undefined, None, first.message.clone())),
        _ => Ok(checked.module),
    }
}

/// Returns all buffers after a launch in the interpreter.
pub fn interpret(case: &Case) -> Result<Vec<Vec<u8>>, Failure> {
    let module = checked(&case.text)?;
    interpret_module(&module, case)
}

fn interpret_module(module: &Module, case: &Case) -> Result<Vec<Vec<u8>>, Failure> {
    guarded("interpreter", None, || {
        let undefined = |message: String| Failure::new(FailureKind::Undefined, None, message);
        let program = ptx::PtxProgram::new(module, case.text.as_bytes()).map_err(|error| undefined(error.to_string()))?;
        let mut setup = Setup::of(&case.test);
        let loaded = program.load(&mut setup.memory);
        let options = ptx::PtxOptions { most_steps: MOST_STEPS, ..ptx::PtxOptions::default() };
        let report = loaded.run(&setup.launch, &mut setup.memory, &options).map_err(|error| undefined(error.to_string()))?;
        match report.findings.first() {
            Some(finding) => Err(undefined(finding.to_string())),
            None => Ok(setup.contents()),
        }
    })
}

/// Compiles a module to a cubin.
pub fn compiled(text: &str, configuration: Configuration) -> Result<Vec<u8>, Failure> {
    compile_module(&checked(text)?, configuration)
}

fn compile_module(module: &Module, configuration: Configuration) -> Result<Vec<u8>, Failure> {
    guarded("compiler", Some(configuration), || {
        let scheduling = configuration.scheduler.map_or_else(Scheduling::default, |(backend, mode)| Scheduling::by(backend, mode));
        let options = Options { level: configuration.level, scheduling, ..Options::new(configuration.target) };
        compile(&[module], &options).map(|compiled| compiled.cubin).map_err(|errors| {
            let message = errors.first().map_or_else(String::new, ToString::to_string);
            Failure::new(FailureKind::Refused, Some(configuration), message)
        })
    })
}

/// Returns all buffers after a launch in the simulator, for each of two orders of threads.
fn simulate(case: &Case, cubin: &[u8], configuration: Configuration) -> Result<[Vec<Vec<u8>>; 2], Failure> {
    guarded("simulator", Some(configuration), || {
        let fault = |error: sass::SassError| Failure::new(FailureKind::Fault, Some(configuration), error.to_string());
        let code = sass::Code::load(cubin).map_err(fault)?;
        let mut setup = Setup::of(&case.test);
        let mut watch = HazardObserver::new().limit(1);
        code.run(&setup.launch, &mut setup.memory, &sass::GridOptions::limited(MOST_STEPS), &mut watch).map_err(fault)?;
        if let Some(finding) = watch.findings().first() {
            return Err(Failure::new(FailureKind::Hazard, Some(configuration), finding.to_string()));
        }
        let mut again = Setup::of(&case.test);
        let options = sass::GridOptions { order: OTHER_ORDER, ..sass::GridOptions::limited(MOST_STEPS) };
        code.run(&again.launch, &mut again.memory, &options, &mut sass::Silent).map_err(fault)?;
        Ok([setup.contents(), again.contents()])
    })
}

/// Returns all buffers after a launch in the simulator, in the fixed order of threads and without the hazard check.
pub(crate) fn contents_after_run(case: &Case, cubin: &[u8], configuration: Configuration) -> Result<Vec<Vec<u8>>, Failure> {
    guarded("simulator", Some(configuration), || {
        let fault = |error: sass::SassError| Failure::new(FailureKind::Fault, Some(configuration), error.to_string());
        let mut setup = Setup::of(&case.test);
        let code = sass::Code::load(cubin).map_err(fault)?;
        code.run(&setup.launch, &mut setup.memory, &sass::GridOptions::limited(MOST_STEPS), &mut sass::Silent).map_err(fault)?;
        Ok(setup.contents())
    })
}

/// Describes the first element that differs from what `source` says; `None` if all are equal.
pub(crate) fn difference(test: &KernelTest, expected: &[Vec<u8>], found: &[Vec<u8>], source: &str) -> Option<String> {
    let buffers = test.parameters.iter().filter_map(|parameter| match parameter.value {
        ParameterValue::Buffer { element, .. } => Some((&parameter.name, element.bytes())),
        _ => None,
    });
    for (((name, size), expected), found) in buffers.zip(expected).zip(found) {
        let differing = expected.chunks(size).zip(found.chunks(size)).enumerate().find(|(_, (a, b))| a != b);
        if let Some((index, (a, b))) = differing {
            let hex = |bytes: &[u8]| -> String { bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect() };
            return Some(format!("{name}[{index}] is {}, {source} says {}", hex(b), hex(a)));
        }
    }
    None
}

/// Runs the seven verifiers on a cubin. They cover all paths, not only those that the case takes.
fn verified(cubin: &[u8], configuration: Configuration) -> Result<(), Failure> {
    guarded("verifiers", Some(configuration), || {
        let complaint = verify_cubin(cubin, &Verifier::ALL).map_or_else(Some, |report| report.complaint(1));
        complaint.map_or(Ok(()), |message| Err(Failure::new(FailureKind::Hazard, Some(configuration), message)))
    })
}

/// Judges machine code. `expected` are the correct buffers after the launch.
pub fn judge_cubin(case: &Case, expected: &[Vec<u8>], cubin: &[u8], configuration: Configuration) -> Result<(), Failure> {
    verified(cubin, configuration)?;
    for found in simulate(case, cubin, configuration)? {
        if let Some(message) = difference(&case.test, expected, &found, "the interpreter") {
            return Err(Failure::new(FailureKind::Difference, Some(configuration), message));
        }
    }
    Ok(())
}

/// Judges a case in all configurations that can run it. Returns the number of configurations that were compared.
pub fn judge(case: &Case, configurations: &[Configuration]) -> Result<usize, Failure> {
    judge_some(case, configurations, configurations.len())
}

/// Judges a case in the first `most` configurations that can run it. Returns the number of configurations that were compared.
pub fn judge_some(case: &Case, configurations: &[Configuration], most: usize) -> Result<usize, Failure> {
    let module = checked(&case.text)?;
    let expected = interpret_module(&module, case)?;
    let mut compared = 0;
    for &configuration in configurations {
        if compared == most {
            break;
        }
        if target_mismatch(module.target, configuration.target).is_some() {
            continue;
        }
        judge_cubin(case, &expected, &compile_module(&module, configuration)?, configuration)?;
        compared += 1;
    }
    Ok(compared)
}

/// Returns the test with the interpreter's results as expectations.
pub fn with_expectations(case: &Case) -> Result<KernelTest, Failure> {
    let contents = interpret(case)?;
    let mut test = case.test.clone();
    let buffers = case.test.parameters.iter().filter_map(|parameter| match parameter.value {
        ParameterValue::Buffer { element, .. } => Some((parameter.name.clone(), element.bytes())),
        _ => None,
    });
    for ((name, size), bytes) in buffers.zip(contents).filter(|((name, _), _)| name != "input") {
        let values = bytes.chunks(size).map(|chunk| {
            let mut whole = [0; 8];
            whole[..size].copy_from_slice(chunk);
            Expected::Bits(u64::from_le_bytes(whole))
        });
        test.expectations.push(Expectation { parameter: name, tolerance: Tolerance::Exact, values: values.collect() });
    }
    Ok(test)
}
