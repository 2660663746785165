//! One kernel test on the GPU: fill, launch, compare.

use crate::driver::{DeviceMemory, Driver, Error, Shape};
use oriole_kernel_test::{KernelTest, Value};

/// Bytes before and after each buffer that no kernel may touch.
const GUARD_BYTES: usize = 256;
const GUARD: u8 = 0xa5;

/// Why a test did not pass.
#[derive(Clone, Debug)]
pub enum Failure {
    /// The outputs are wrong: one line for each wrong buffer.
    Wrong(String),
    /// The driver refused something.
    Refused(String),
    /// The kernel faulted; the context is lost.
    Fault(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        if error.sticky { Failure::Fault(error.message) } else { Failure::Refused(error.message) }
    }
}

pub fn run(driver: &Driver, test: &KernelTest, image: &[u8]) -> Result<(), Failure> {
    let module = driver.load_module(image)?;
    let mut arguments = Vec::new();
    let mut buffers: Vec<(&str, DeviceMemory<'_>, usize)> = Vec::new();
    for parameter in &test.parameters {
        match &parameter.value {
            Value::Buffer { element, count, fill } => {
                let content = KernelTest::initial_bytes(*element, *count, fill);
                let mut guarded = vec![GUARD; GUARD_BYTES];
                guarded.extend(&content);
                guarded.extend([GUARD; GUARD_BYTES]);
                let memory = driver.allocate(guarded.len())?;
                memory.write(&guarded)?;
                arguments.push((memory.address + GUARD_BYTES as u64).to_le_bytes().to_vec());
                buffers.push((&parameter.name, memory, content.len()));
            }
            Value::Scalar { element, bits } => arguments.push(bits.to_le_bytes()[..element.bytes()].to_vec()),
            Value::Bytes(bytes) => arguments.push(bytes.clone()),
        }
    }
    let shape = Shape { grid: test.grid, block: test.block, shared_bytes: test.shared_bytes };
    module.launch(&test.kernel, shape, &mut arguments)?;
    driver.synchronize()?;
    let mut findings = Vec::new();
    for (name, memory, length) in &buffers {
        let data = memory.read()?;
        let (before, rest) = data.split_at(GUARD_BYTES);
        let (content, after) = rest.split_at(*length);
        if before.iter().chain(after).any(|&byte| byte != GUARD) {
            findings.push(format!("{name}: bytes outside the buffer were written"));
        }
        let (element, _) = test.buffer(name).expect("it is a buffer");
        let expectations = test.expectations.iter().filter(|expectation| expectation.parameter == *name);
        findings.extend(expectations.filter_map(|expectation| expectation.compare(element, content)).map(|d| d.to_string()));
    }
    if findings.is_empty() { Ok(()) } else { Err(Failure::Wrong(findings.join("; "))) }
}
