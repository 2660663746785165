//! Writes the kernels of `tests/faults` and their faulty variants as kernel tests and cubins for a GPU: `fault_bundle FOLDER`, then
//! `oriole-gpu-tests --tests FOLDER --cubins FOLDER --json`. A variant that fails there computes wrong results on the hardware.

#[path = "../tests/support/faults.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod faults;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(folder) = std::env::args().nth(1).map(PathBuf::from) else {
        eprintln!("usage: fault_bundle FOLDER");
        return ExitCode::from(2);
    };
    match write_all(&folder) {
        Ok(count) => {
            println!("{count} kernels");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn write_all(folder: &Path) -> Result<usize, String> {
    std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    let mut count = 0;
    for kernel in faults::kernels() {
        for fault in [None].into_iter().chain(kernel.faults.iter().map(Some)) {
            let name = fault.map_or_else(|| format!("{}.base", kernel.name), |fault| format!("{}.{}", kernel.name, fault.name));
            let cubin = kernel.assemble(fault).map_err(|error| format!("{name}: {error}"))?.cubin;
            let write = |extension: &str, bytes: &[u8]| std::fs::write(folder.join(format!("{name}.{extension}")), bytes);
            write("ptx", kernel.test_text.as_bytes()).and_then(|()| write("cubin", &cubin)).map_err(|error| error.to_string())?;
            count += 1;
        }
    }
    Ok(count)
}
