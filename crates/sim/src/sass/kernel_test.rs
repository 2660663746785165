//! Kernel tests on machine code: buffers and parameters to a launch, expectations to a verdict.

use oriole_kernel_test::{KernelTest, Value};

use super::{Code, Error, Observer, Options, Report};
use crate::{Launch, Memory};

/// A test as a launch, with where its buffers are: name, address.
pub struct Setup {
    pub launch: Launch,
    pub memory: Memory,
    pub buffers: Vec<(String, u64)>,
}

impl Setup {
    /// Allocates and fills the buffers of a test.
    pub fn of(test: &KernelTest) -> Setup {
        let mut memory = Memory::new();
        let mut buffers = Vec::new();
        let arguments = test
            .parameters
            .iter()
            .map(|parameter| match &parameter.value {
                Value::Buffer { element, count, fill } => {
                    let address = memory.allocate(&parameter.name, KernelTest::initial_bytes(*element, *count, fill));
                    buffers.push((parameter.name.clone(), address));
                    address.to_le_bytes().to_vec()
                }
                Value::Scalar { element, bits } => bits.to_le_bytes()[..element.bytes()].to_vec(),
                Value::Bytes(bytes) => bytes.clone(),
            })
            .collect();
        let launch = Launch { kernel: test.kernel.clone(), grid: test.grid, block: test.block, shared_bytes: test.shared_bytes, arguments };
        Setup { launch, memory, buffers }
    }

    /// What is wrong with the buffers, if anything is.
    pub fn judge(&self, test: &KernelTest) -> Result<(), String> {
        for expectation in &test.expectations {
            let address = self.buffers.iter().find(|(name, _)| *name == expectation.parameter).map(|(_, address)| *address);
            let found = address.and_then(|address| self.memory.contents(address)).zip(test.buffer(&expectation.parameter));
            let Some((bytes, (element, _))) = found else { return Err(format!("there is no buffer `{}`", expectation.parameter)) };
            if let Some(difference) = expectation.compare(element, bytes) {
                return Err(difference.to_string());
            }
        }
        Ok(())
    }
}

/// Runs a test on a cubin: what the launch did if it passes, or what is wrong.
pub fn run<O: Observer>(test: &KernelTest, cubin: &[u8], options: &Options, observer: &mut O) -> Result<Report, String> {
    let code = Code::load(cubin).map_err(|error: Error| error.to_string())?;
    let mut setup = Setup::of(test);
    let report = code.run(&setup.launch, &mut setup.memory, options, observer).map_err(|error| error.to_string())?;
    setup.judge(test)?;
    Ok(report)
}
