//! What came of a test.

use oriole_isa::Target;
use oriole_kernel_test::{Element, Expected, KernelTest, WrongElement};
use oriole_sim::ptx::Finding;
use oriole_sim::timing::Estimate;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Passed,
    /// A buffer does not hold what it must.
    Wrong,
    /// The test does what PTX leaves undefined.
    Undefined,
    /// The result is right, but control words let a register be read or overwritten too early.
    Hazard,
    /// The kernel did something that stopped it.
    Faulted,
    /// The compiler or the engine lacks something.
    Unsupported,
    /// The file is no kernel test, or does not fit its kernel.
    Invalid,
    /// The GPU of this machine cannot run it.
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

#[derive(Clone, Debug)]
pub struct Outcome {
    pub status: Status,
    /// One line that says why.
    pub message: String,
    /// The machine code that ran: for which GPU, at which level if it was compiled here.
    pub target: Option<Target>,
    pub level: Option<u8>,
    /// How long it took: threads' instructions in the interpreter, warps' in the simulator.
    pub instructions: Option<u64>,
    pub buffers: Vec<WrongBuffer>,
    pub findings: Vec<Finding>,
    /// Hazards on the way, one text each; none if nobody looked.
    pub hazards: Option<Vec<String>>,
    /// About how long it takes, or why nobody can tell; none if nobody asked.
    pub timing: Option<Result<Estimate, String>>,
    pub trace: Option<TraceWindow>,
    /// What the kernel printed.
    pub printed: String,
}

/// A buffer with wrong elements.
#[derive(Clone, Debug)]
pub struct WrongBuffer {
    pub name: String,
    pub element: Element,
    pub elements: usize,
    pub wrong: Vec<WrongElement>,
    /// Threads of a block, where each thread of the launch has one element of its own.
    pub block_size: Option<usize>,
}

/// What a warp did before something went wrong.
#[derive(Clone, Debug)]
pub struct TraceWindow {
    pub title: String,
    pub lines: Vec<String>,
}

impl Outcome {
    pub fn new(status: Status) -> Outcome {
        Outcome {
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

    /// Judges the buffers after a launch; `contents` gives their bytes.
    pub fn judge<'a>(test: &KernelTest, contents: impl Fn(&str) -> Option<&'a [u8]>) -> Outcome {
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
        let Some(first) = buffers.first() else { return Outcome::new(Status::Passed) };
        let message = format!("{} of {} elements of {} are not what they must be", first.wrong.len(), first.elements, first.name);
        Outcome { message, buffers, ..Outcome::new(Status::Wrong) }
    }
}

/// Threads of a block, if a buffer has one element for each thread and the launch has one dimension.
fn own_element(test: &KernelTest, elements: usize) -> Option<usize> {
    let ([blocks, 1, 1], [threads, 1, 1]) = (test.grid, test.block) else { return None };
    (blocks as usize * threads as usize == elements).then_some(threads as usize)
}

impl WrongBuffer {
    /// The block and the thread whose element it is, where that is plain.
    pub fn owner(&self, index: usize) -> Option<(usize, usize)> {
        self.block_size.map(|size| (index / size, index % size))
    }

    /// A value as a number and as bits.
    pub fn value(&self, bits: u64) -> String {
        format!("{} ({})", self.element.number(bits), self.bits(bits))
    }

    /// Bits as hexadecimal digits.
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
