//! Runs one kernel test on the GPU: fills the buffers, launches, compares, and measures the time if requested.

use crate::driver::{DeviceMemory, Driver, Error, LaunchShape};
use oriole_kernel_test::{Expectation, KernelTest, ParameterValue};

/// Number of guard bytes before and after each buffer, which no kernel may write.
const GUARD_BYTES: usize = 256;
/// The content of the guard bytes.
const GUARD: u8 = 0xa5;

/// The reason why a test did not pass.
#[derive(Clone, Debug)]
pub enum Failure {
    /// The outputs are wrong: one message for each wrong buffer.
    Wrong(String),
    /// The CUDA driver reported an error.
    Refused(String),
    /// The kernel faulted; the context is unusable.
    Fault(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        if error.sticky { Failure::Fault(error.message) } else { Failure::Refused(error.message) }
    }
}

/// The result of a launch.
pub struct LaunchOutcome {
    /// Each buffer of the test with its bytes after the launch.
    pub buffers: Vec<(String, Vec<u8>)>,
    /// One message for each buffer whose guard bytes were overwritten.
    pub outside: Vec<String>,
    /// Median time of a launch in microseconds; `None` unless timing was requested.
    pub microseconds: Option<f64>,
}

impl LaunchOutcome {
    /// Returns the differences from the expected results, one message for each wrong buffer.
    pub fn findings(&self, test: &KernelTest) -> Vec<String> {
        let mut findings = self.outside.clone();
        for (name, bytes) in &self.buffers {
            let Some((element, _)) = test.buffer(name) else { continue };
            let expectations = test.expectations.iter().filter(|expectation| expectation.parameter == *name);
            findings
                .extend(expectations.filter_map(|expectation: &Expectation| expectation.compare(element, bytes)).map(|d| d.to_string()));
        }
        findings
    }
}

/// A buffer on the device, with guard bytes before and after it.
struct Guarded<'test, 'driver> {
    name: &'test str,
    /// The initial contents, without guard bytes.
    content: Vec<u8>,
    memory: DeviceMemory<'driver>,
}

impl Guarded<'_, '_> {
    /// Writes the guard bytes and the initial contents.
    fn fill(&self) -> Result<(), Error> {
        let guard = [GUARD; GUARD_BYTES];
        self.memory.write(&[&guard, self.content.as_slice(), &guard].concat())
    }
}

/// Runs a test once and compares the outputs.
pub fn run(driver: &Driver, test: &KernelTest, image: &[u8]) -> Result<(), Failure> {
    let findings = execute(driver, test, image, 0)?.findings(test);
    if findings.is_empty() { Ok(()) } else { Err(Failure::Wrong(findings.join("; "))) }
}

/// Runs a test once for its outputs, then `timed_launches` times for the time; each launch starts with the initial contents.
pub fn execute(driver: &Driver, test: &KernelTest, image: &[u8], timed_launches: usize) -> Result<LaunchOutcome, Error> {
    let module = driver.load_module(image)?;
    if let Some(reference) = test.references.first() {
        let message = format!("{}: this program binds no texture, sampler and surface references", reference.name);
        return Err(Error { message, sticky: false });
    }
    let mut arguments = Vec::new();
    let mut buffers: Vec<Guarded<'_, '_>> = Vec::new();
    for parameter in &test.parameters {
        match &parameter.value {
            ParameterValue::Buffer { element, count, fill } => {
                let content = KernelTest::initial_bytes(*element, *count, fill);
                let memory = driver.allocate(content.len() + 2 * GUARD_BYTES)?;
                arguments.push((memory.address + GUARD_BYTES as u64).to_le_bytes().to_vec());
                buffers.push(Guarded { name: &parameter.name, content, memory });
            }
            ParameterValue::Scalar { element, bits } => arguments.push(bits.to_le_bytes()[..element.bytes()].to_vec()),
            ParameterValue::Bytes(bytes) => arguments.push(bytes.clone()),
            // The parser has checked that the buffer is an earlier parameter.
            ParameterValue::TensorMap(map) => {
                let buffer = buffers.iter().find(|buffer| buffer.name == map.buffer);
                let address = buffer.map_or(0, |buffer| buffer.memory.address + GUARD_BYTES as u64);
                arguments.push(driver.tensor_map(map, address)?);
            }
            ParameterValue::Image(_) | ParameterValue::Sampler(_) => {
                let message = format!("{}: this program creates no textures, samplers and surfaces", parameter.name);
                return Err(Error { message, sticky: false });
            }
        }
    }
    let shape = LaunchShape { grid: test.grid, block: test.block, cluster: test.cluster, shared_bytes: test.shared_bytes };
    buffers.iter().try_for_each(Guarded::fill)?;
    module.launch(&test.kernel, shape, &mut arguments)?;
    driver.synchronize()?;
    let mut outcome = LaunchOutcome { buffers: Vec::new(), outside: Vec::new(), microseconds: None };
    for Guarded { name, content, memory } in &buffers {
        let data = memory.read()?;
        let (before, rest) = data.split_at(GUARD_BYTES);
        let (bytes, after) = rest.split_at(content.len());
        if before.iter().chain(after).any(|&byte| byte != GUARD) {
            outcome.outside.push(format!("{name}: bytes outside the buffer were written"));
        }
        outcome.buffers.push(((*name).to_owned(), bytes.to_vec()));
    }
    let mut times = Vec::with_capacity(timed_launches);
    for _ in 0..timed_launches {
        buffers.iter().try_for_each(Guarded::fill)?;
        let (start, end) = (driver.event()?, driver.event()?);
        start.record()?;
        module.launch(&test.kernel, shape, &mut arguments)?;
        end.record()?;
        times.push(end.microseconds_since(&start)?);
    }
    outcome.microseconds = median(times);
    Ok(outcome)
}

/// Returns the median; for an even number of values the mean of the middle two, `None` for no values.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        count if count % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), Some(2.5));
    }

    #[test]
    fn outcomes_are_judged() {
        let header = "// kernel-test 1\n// kernel: k\n// param d: u8[2] = zero\n// expect d: exact = 1 2\n";
        let test = oriole_kernel_test::parse(header).expect("valid");
        let outcome = |bytes: &[u8], outside: &[&str]| LaunchOutcome {
            buffers: vec![("d".into(), bytes.to_vec())],
            outside: outside.iter().map(|&text| text.to_owned()).collect(),
            microseconds: None,
        };
        assert!(outcome(&[1, 2], &[]).findings(&test).is_empty());
        assert_eq!(outcome(&[1, 3], &[]).findings(&test), ["d[1]: expected 02, got 03 (1 of 2 elements wrong)"]);
        assert_eq!(outcome(&[1, 2], &["d: bytes"]).findings(&test), ["d: bytes"]);
    }
}
