//! `run`: a kernel test, in the format of `docs/kernel-tests.md`, whose header follows the header of the file.
//!
//! PTX runs in the interpreter, which must find no undefined behaviour, and compiled in the machine-code simulator, for each target and
//! at -O0 and -O3 unless the file gives a level. Assembler text runs in the simulator. The verifiers must accept the machine code.

use oriole_isa::Target;
use oriole_kernel_test::{FIRST_LINE, KernelTest};
use oriole_sim::ptx::PtxProgram;
use oriole_sim::sass::kernel_test::run as simulate;
use oriole_sim::sass::{GridOptions as Limits, Silent};
use oriole_sim::verify::{Verifier, verify_cubin};

use super::{machine_code, module};
use crate::file::{Options, Syntax, TestFile, TestKind};
use crate::pipeline;

/// Maximum number of instructions that a test executes.
const LIMIT: u64 = 1 << 20;
/// What a kernel test needs besides its header; assembler text has no module.
const STUB: &str = "\n.version 8.0\n.target sm_90a\n.address_size 64\n";

/// Runs the file; a wrong result is an error, because expected values of a kernel test are written by hand.
pub fn run(file: &mut TestFile, _: &TestKind) -> Result<(), String> {
    let text = file.source();
    let start = text.find(FIRST_LINE).ok_or_else(|| format!("no header of a kernel test: `{FIRST_LINE}`"))?;
    let header: String = text[start..].lines().take_while(|line| line.starts_with("//")).flat_map(|line| [line, "\n"]).collect();
    let test = oriole_kernel_test::parse(&(header + STUB))?;
    if test.expectations.is_empty() {
        return Err("the kernel test expects nothing".to_owned());
    }
    if file.options.targets.is_empty() {
        return Err("a test of kind `run` needs a header line `target`".to_owned());
    }
    for &target in &file.options.targets {
        match file.syntax {
            Syntax::Sass => on_machine(&test, &machine_code::assembled(file, target, Some(&test))?, target, "")?,
            _ => run_ptx(file, &text, &test, target)?,
        }
    }
    Ok(())
}

fn run_ptx(file: &TestFile, text: &str, test: &KernelTest, target: Target) -> Result<(), String> {
    let module = module(file)?;
    let program = PtxProgram::new(&module, text.as_bytes()).map_err(|error| error.to_string())?;
    let interpreted = program.run_test(test, &oriole_sim::ptx::PtxOptions::default());
    let report = interpreted.map_err(|failure| format!("in the interpreter: {failure}"))?;
    if let Some(finding) = report.findings.first() {
        return Err(format!("in the interpreter: {finding}"));
    }
    for level in file.options.level.map_or_else(|| vec![0, 3], |level| vec![level]) {
        let options = Options { level: Some(level), ..file.options.clone() };
        let compiled = pipeline::compiled(&module, &options, target).map_err(|errors| errors[0].to_string())?;
        on_machine(test, &compiled.cubin, target, &format!(" -O{level}"))?;
    }
    Ok(())
}

fn on_machine(test: &KernelTest, cubin: &[u8], target: Target, level: &str) -> Result<(), String> {
    let wrong = |what: String| format!("{target}{level}: {what}");
    simulate(test, cubin, &Limits::limited(LIMIT), &mut Silent).map_err(wrong)?;
    let report = verify_cubin(cubin, &Verifier::ALL).map_err(wrong)?;
    report.complaint(4).map_or(Ok(()), |complaint| Err(wrong(complaint)))
}
