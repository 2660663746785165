//! The outcome of a kernel test.

use oriole_isa::Target;
use oriole_kernel_test::{Element, Expected, KernelTest, WrongElement};
use oriole_sim::ptx::UndefinedBehavior;
use oriole_sim::timing::Estimate;

/// The result of a kernel test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Passed,
    /// A buffer has wrong contents.
    Wrong,
    /// The test has undefined behaviour in PTX.
    Undefined,
    /// The result is correct, but the control words allow a register to be read or overwritten too early.
    Hazard,
    /// The kernel stopped with a fault.
    Faulted,
    /// The compiler or the engine does not support a feature of the test.
    Unsupported,
    /// The file is not a kernel test, or the header does not match the kernel.
    Invalid,
    /// The GPU of this machine cannot run the test.
    Skipped,
}

impl Status {
    pub fn name(self) -> &'static str {
        match self {
            Status::Passed => "passed",
            Status::Wrong => "wrong",
            Status::Undefined => "undefined",
            Status::Hazard => "hazard",
            Status::Faulted => "faulted",
            Status::Unsupported => "unsupported",
            Status::Invalid => "invalid",
            Status::Skipped => "skipped",
        }
    }
}

/// The outcome of a kernel test with all details.
#[derive(Clone, Debug)]
pub struct RunOutcome {
    pub status: Status,
    /// One line that gives the reason; empty if the test passed.
    pub message: String,
    /// Target and optimization level of the machine code; the level is `None` if the cubin was given.
    pub target: Option<Target>,
    pub level: Option<u8>,
    /// Number of executed instructions: thread instructions in the interpreter, warp instructions in the simulator.
    pub instructions: Option<u64>,
    pub buffers: Vec<WrongBuffer>,
    pub findings: Vec<UndefinedBehavior>,
    /// Hazards, one text each; `None` if they were not checked.
    pub hazards: Option<Vec<String>>,
    /// Estimated time, or the reason why there is no estimate; `None` if it was not requested.
    pub timing: Option<Result<Estimate, String>>,
    pub trace: Option<TraceWindow>,
    /// The text that the kernel printed.
    pub printed: String,
}

/// A buffer with wrong elements.
#[derive(Clone, Debug)]
pub struct WrongBuffer {
    pub name: String,
    pub element: Element,
    pub elements: usize,
    pub wrong: Vec<WrongElement>,
    /// Threads per block, if each thread of the launch has its own element of the buffer.
    pub block_size: Option<usize>,
}

/// The last instructions of a warp before a failure.
#[derive(Clone, Debug)]
pub struct TraceWindow {
    pub title: String,
    pub lines: Vec<String>,
}

impl RunOutcome {
    pub fn new(status: Status) -> RunOutcome {
        RunOutcome {
            status,
            message: String::new(),
            target: None,
            level: None,
            instructions: None,
            buffers: Vec::new(),
            findings: Vec::new(),
            hazards: None,
            timing: None,
            trace: None,
            printed: String::new(),
        }
    }

    /// Compares the buffers after a launch with the expectations; `contents` returns the bytes of a buffer.
    pub fn judge<'a>(test: &KernelTest, contents: impl Fn(&str) -> Option<&'a [u8]>) -> RunOutcome {
        let mut buffers = Vec::new();
        for expectation in &test.expectations {
            let name = &expectation.parameter;
            let Some(((element, elements), bytes)) = test.buffer(name).zip(contents(name)) else {
                return super::refused(Status::Invalid, format!("the test has no buffer {name}"));
            };
            let wrong = expectation.wrong_elements(element, bytes);
            if !wrong.is_empty() {
                buffers.push(WrongBuffer { name: name.clone(), element, elements, wrong, block_size: own_element(test, elements) });
            }
        }
        let Some(first) = buffers.first() else { return RunOutcome::new(Status::Passed) };
        let message = format!("{} of {} elements of {} are not what they must be", first.wrong.len(), first.elements, first.name);
        RunOutcome { message, buffers, ..RunOutcome::new(Status::Wrong) }
    }
}

/// Returns the number of threads per block if the buffer has one element per thread and the launch is one-dimensional.
fn own_element(test: &KernelTest, elements: usize) -> Option<usize> {
    let ([blocks, 1, 1], [threads, 1, 1]) = (test.grid, test.block) else { return None };
    (blocks as usize * threads as usize == elements).then_some(threads as usize)
}

impl WrongBuffer {
    /// Returns the block and the thread that own an element, if that is known.
    pub fn owner(&self, index: usize) -> Option<(usize, usize)> {
        self.block_size.map(|size| (index / size, index % size))
    }

    /// Formats a value as a number and as bits.
    pub fn value(&self, bits: u64) -> String {
        format!("{} ({})", self.element.number(bits), self.bits(bits))
    }

    /// Formats bits as hexadecimal digits.
    pub fn bits(&self, bits: u64) -> String {
        format!("{bits:0digits$x}", digits = self.element.bytes() * 2)
    }

    pub fn expected(&self, expected: Expected) -> String {
        match expected {
            Expected::Bits(bits) => self.value(bits),
            Expected::Either(a, b) => format!("{} or {}", self.value(a), self.value(b)),
            Expected::Nan => "NaN".to_owned(),
            Expected::Any => "anything".to_owned(),
            Expected::Interpreter => "what the interpreter says".to_owned(),
        }
    }
}
