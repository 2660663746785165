//! Reads a kernel test from a file and compiles it.

use oriole_driver::{ErrorCause, Options};
use oriole_isa::Target;
use oriole_kernel_test::{FIRST_LINE, KernelTest};
use oriole_ptx::Checked;
use oriole_ptx::diag::{Diagnostic, Severity};
use oriole_ptx::source::{LineIndex, Source};

use super::outcome::{RunOutcome, Status};
use super::{Goal, Refusal, refused};
use crate::check::read_input;
use crate::compile_file::{diagnostics, show};

/// The target if the command line does not name one.
const DEFAULT_TARGET: &str = "sm_90a";

const HOW_TO_WRITE_ONE: &str = "\
a kernel test begins with a header such as
    // kernel-test 1
    // kernel: vector_add
    // grid: 1
    // block: 4
    // param a: f32[4] = 3f800000*4
    // param c: f32[4] = zero
    // expect c: exact = 40000000*4
(bits in hexadecimal; docs/kernel-tests.md has the rest)";

/// A kernel test that was read from a file.
pub struct Case {
    pub name: String,
    pub text: Vec<u8>,
    /// The checked PTX module.
    pub checked: Checked,
    pub test: KernelTest,
}

/// The machine code of a test.
pub struct Image {
    pub cubin: Vec<u8>,
    /// The target; `None` if it is not known to Oriole.
    pub target: Option<Target>,
    /// The optimization level; `None` if the cubin was given.
    pub level: Option<u8>,
}

impl Case {
    /// Reads and checks a file. Prints errors in its PTX to standard error.
    pub fn read(file: &str) -> Result<Case, Refusal> {
        let text = read_input(file).map_err(|error| refused(Status::Invalid, error.to_string()))?;
        let name = if file == "-" { "<stdin>" } else { file }.to_owned();
        let lossy = String::from_utf8_lossy(&text);
        if lossy.lines().next().map(str::trim_end) != Some(FIRST_LINE) {
            return Err(
                refused(Status::Invalid, format!("no kernel test, its first line is not `{FIRST_LINE}`; {HOW_TO_WRITE_ONE}")).into()
            );
        }
        let test = oriole_kernel_test::parse(&lossy).map_err(|error| refused(Status::Invalid, format!("the header: {error}")))?;
        let checked = oriole_ptx::check(&text, &oriole_ptx::Options::default());
        if !checked.is_valid() {
            show_findings(&name, &text, &checked.diagnostics);
            let errors = checked.diagnostics.iter().filter(|finding| finding.code.severity() == Severity::Error).count();
            return Err(refused(Status::Invalid, format!("{errors} error{} in its PTX", if errors == 1 { "" } else { "s" })).into());
        }
        Ok(Case { name, text, checked, test })
    }

    /// Returns the machine code: the given cubin, or else the result of compiling the test.
    pub fn image(&self, goal: Goal, given: Option<&[u8]>) -> Result<Image, Refusal> {
        if let Some(cubin) = given {
            let read = oriole_cubin::Cubin::read(cubin).map_err(|error| refused(Status::Invalid, format!("the cubin: {error}")))?;
            return Ok(Image { cubin: cubin.to_vec(), target: read.target(), level: None });
        }
        let target = goal.target.or_else(|| self.default_target());
        let unknown = || refused(Status::Unsupported, format!("{} is not a target that Oriole compiles for", self.checked.module.target));
        let target = target.ok_or_else(unknown)?;
        let entries = vec![self.test.kernel.clone()];
        let options = Options { level: goal.level, entries, scheduling: goal.scheduling, ..Options::new(target) };
        match oriole_driver::compile(&[&self.checked.module], &options) {
            Ok(compiled) => Ok(Image { cubin: compiled.cubin, target: Some(target), level: Some(goal.level) }),
            Err(errors) => {
                let findings = diagnostics(&errors);
                show_findings(&self.name, &self.text, &findings);
                let lacks = |fault: &ErrorCause| matches!(fault, ErrorCause::Unsupported(_) | ErrorCause::Internal(_));
                let status = if errors.iter().any(|error| lacks(&error.fault)) { Status::Unsupported } else { Status::Invalid };
                let first = errors.first().map(|error| (error.to_string(), error.span));
                let (message, span) = first.unwrap_or_default();
                let line = span.map(|span| LineIndex::new(&self.text).line_column(span.start).0);
                let place = line.map_or(String::new(), |line| format!("line {line}: "));
                Err(RunOutcome { target: Some(target), level: Some(goal.level), ..refused(status, format!("{place}{message}")) }.into())
            }
        }
    }

    /// Returns the default target if it can run the module, otherwise the module's own target.
    fn default_target(&self) -> Option<Target> {
        let own = self.checked.module.target;
        let default = Target::parse(DEFAULT_TARGET).filter(|&machine| oriole_driver::target_mismatch(own, machine).is_none());
        default.or_else(|| own.has_machine_code().then_some(own))
    }
}

fn show_findings(name: &str, text: &[u8], findings: &[Diagnostic]) {
    let style = crate::colour::Colour::Auto.style();
    show(&Source::new(name, text), findings, style);
}
