//! Runs kernel tests on machine code.

use oriole_kernel_test::KernelTest;

use super::{Code, GridOptions, LaunchReport, Observer, SassError};
use crate::{GlobalMemory, Launch};

/// Runs a test on a cubin. Returns the launch's report if the test passes, otherwise the reason as text.
pub fn run<O: Observer>(test: &KernelTest, cubin: &[u8], options: &GridOptions, observer: &mut O) -> Result<LaunchReport, String> {
    let code = Code::load(cubin).map_err(|error| error.to_string())?;
    let mut report = LaunchReport::default();
    let mut engine = |launch: &Launch, memory: &mut GlobalMemory| -> Result<(), SassError> {
        report = code.run(launch, memory, options, observer)?;
        Ok(())
    };
    crate::kernel_test::run(test, &mut engine).map_err(|failure| failure.to_string())?;
    Ok(report)
}
