//! Runs a kernel test in an engine of this crate: allocates the buffers its header describes, launches once, compares the buffers.

use std::fmt;

use oriole_kernel_test::{Difference, Element, KernelTest, ParameterValue, ReferenceValue};

use crate::tensor_map::TensorMap;
use crate::{GlobalMemory, Launch};

/// An engine that runs kernels.
pub trait Engine {
    /// The error of a failed launch.
    type Error: fmt::Display;

    /// Runs a launch to completion.
    fn launch(&mut self, launch: &Launch, memory: &mut GlobalMemory) -> Result<(), Self::Error>;
}

impl<E: fmt::Display, F: FnMut(&Launch, &mut GlobalMemory) -> Result<(), E>> Engine for F {
    type Error = E;

    fn launch(&mut self, launch: &Launch, memory: &mut GlobalMemory) -> Result<(), E> {
        self(launch, memory)
    }
}

/// The reason a kernel test fails.
#[derive(Clone, Debug, PartialEq)]
pub enum TestFailure<E> {
    /// The engine reported an error.
    Engine(E),
    /// Buffers differ from the expectation: the first wrong element of each.
    Differences(Vec<Difference>),
    /// The test has an expectation for a parameter that is not a buffer.
    UnknownBuffer(String),
}

impl<E: fmt::Display> fmt::Display for TestFailure<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TestFailure::Engine(error) => error.fmt(f),
            TestFailure::Differences(differences) => {
                let lines: Vec<String> = differences.iter().map(ToString::to_string).collect();
                f.write_str(&lines.join("; "))
            }
            TestFailure::UnknownBuffer(name) => write!(f, "the test has no buffer {name}"),
        }
    }
}

/// A launch and its memory, with the buffers of a test allocated.
pub struct Setup {
    pub launch: Launch,
    pub memory: GlobalMemory,
    /// For each buffer, texture and surface its name, its element type, and the address of its contents.
    buffers: Vec<(String, Element, u64)>,
}

impl Setup {
    /// Allocates and fills the buffers of a test.
    pub fn new(test: &KernelTest) -> Setup {
        let mut memory = GlobalMemory::new();
        let mut buffers = Vec::new();
        let arguments = test.parameters.iter().map(|parameter| match &parameter.value {
            ParameterValue::Buffer { element, count, fill } => {
                let address = memory.allocate(&parameter.name, KernelTest::initial_bytes(*element, *count, fill));
                buffers.push((parameter.name.clone(), *element, address));
                address.to_le_bytes().to_vec()
            }
            ParameterValue::Scalar { element, bits } => bits.to_le_bytes()[..element.bytes()].to_vec(),
            ParameterValue::Bytes(bytes) => bytes.clone(),
            // The parser has checked that the buffer is an earlier parameter.
            ParameterValue::TensorMap(map) => {
                let address = buffers.iter().find(|buffer| buffer.0 == map.buffer).map_or(0, |buffer| buffer.2);
                TensorMap::encode(map, address)
            }
            ParameterValue::Image(image) => {
                let (handle, address) = memory.create_image(&parameter.name, image);
                buffers.push((parameter.name.clone(), image.element, address));
                handle.to_le_bytes().to_vec()
            }
            ParameterValue::Sampler(sampler) => memory.create_sampler(*sampler).to_le_bytes().to_vec(),
        });
        let arguments = arguments.collect();
        for reference in &test.references {
            let handle = match &reference.value {
                ReferenceValue::Image(image) => {
                    let (handle, address) = memory.create_image(&reference.name, image);
                    buffers.push((reference.name.clone(), image.element, address));
                    handle
                }
                ReferenceValue::Sampler(sampler) => memory.create_sampler(*sampler),
            };
            memory.bind_reference(&reference.name, handle);
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

    /// Returns the element type and the address of a buffer.
    pub fn buffer(&self, name: &str) -> Option<(Element, u64)> {
        self.buffers.iter().find(|buffer| buffer.0 == name).map(|&(_, element, address)| (element, address))
    }

    /// Returns the current contents of a buffer.
    pub fn contents(&self, name: &str) -> Option<&[u8]> {
        self.memory.contents(self.buffer(name)?.1)
    }

    /// Compares the buffers with the test's expectations and returns at most one difference per buffer. An expectation for something that
    /// is not a buffer is an error with its name.
    pub fn differences(&self, test: &KernelTest) -> Result<Vec<Difference>, String> {
        let mut differences = Vec::new();
        for expectation in &test.expectations {
            let buffer = self.buffers.iter().find(|buffer| buffer.0 == expectation.parameter);
            let contents = buffer.and_then(|&(_, element, address)| Some((element, self.memory.contents(address)?)));
            let (element, bytes) = contents.ok_or_else(|| expectation.parameter.clone())?;
            differences.extend(expectation.compare(element, bytes));
        }
        Ok(differences)
    }
}

/// Runs a test in an engine and compares the results.
pub fn run<E: Engine>(test: &KernelTest, engine: &mut E) -> Result<(), TestFailure<E::Error>> {
    let mut setup = Setup::new(test);
    engine.launch(&setup.launch, &mut setup.memory).map_err(TestFailure::Engine)?;
    match setup.differences(test) {
        Ok(differences) if differences.is_empty() => Ok(()),
        Ok(differences) => Err(TestFailure::Differences(differences)),
        Err(name) => Err(TestFailure::UnknownBuffer(name)),
    }
}
