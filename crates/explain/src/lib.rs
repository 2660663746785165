//! Explains machine code: why it has these registers, this order, these stalls and these waits, and what costs time.
//!
//! [`explain_ptx`] compiles PTX and explains the result; it knows what the passes did. [`explain_cubin`] explains the machine code of any
//! compiler; the reasons are recovered from the code. Both return an [`Explanation`], which can be written as text ([`text::write`]), as
//! JSON (it implements `serde::Serialize`), and as a page ([`html::write`]). [`compare::compare`] compares two of them.
//!
//! The statements come from the analyses that the compiler itself uses: stalls and scoreboards from `ctrl`, issue cycles and dependences
//! from `sched`, latencies, units and occupancy from the hardware model. Nothing here decides anything about the code.
//!
//! ```
//! let ptx = b".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry nothing() { ret; }";
//! let target = oriole_isa::Target::parse("sm_90a").unwrap();
//! let explanation = oriole_explain::explain_ptx("nothing.ptx", ptx, &oriole_explain::Options::new(target)).unwrap();
//! assert_eq!(explanation.functions[0].name, "nothing");
//! for instruction in &explanation.functions[0].instructions {
//!     assert_eq!(instruction.stall_causes.iter().map(|cause| cause.cycles).sum::<u8>(), instruction.stall);
//! }
//! ```

mod barriers;
mod calls;
mod causes;
mod code;
pub mod compare;
mod dependences;
mod function;
pub mod html;
mod lanes;
mod live;
mod loops;
pub mod measured;
pub mod model;
mod origin;
mod resources;
mod scoreboards;
pub mod text;
mod time;
mod warnings;
mod why;

use std::sync::Arc;

use oriole_cubin::{Cubin, CubinIndex};
use oriole_driver::{Compiled, DebugInfo, DebugKind, Decisions, PassLog};
use oriole_hardware::Hardware;
use oriole_isa::Target;
use oriole_ptx::ast::Module;
use oriole_ptx::source::LineIndex;

pub use model::Explanation;
use model::{Function, Pass, SCHEMA};
use origin::LineTables;
use resources::Site;

/// How to compile and explain.
#[derive(Clone, Debug)]
pub struct Options {
    /// Target, optimization level and other settings of the compiler.
    pub compiler: oriole_driver::Options,
    /// Names of the functions to explain; all functions if the list is empty.
    pub functions: Vec<String>,
    /// Whether to read the source files that line tables name.
    pub with_sources: bool,
}

impl Options {
    /// Returns the default options for a target: optimization level 3, all functions.
    pub fn new(target: Target) -> Options {
        Options { compiler: oriole_driver::Options::new(target), functions: Vec::new(), with_sources: false }
    }
}

/// Why there is no explanation.
#[derive(Debug)]
pub enum Failure {
    /// The PTX does not parse; holds the messages.
    Invalid(Vec<oriole_ptx::diag::Diagnostic>),
    /// The compiler reports errors.
    Compile(Vec<oriole_driver::CompileError>),
    /// The file cannot be explained; holds the reason.
    File(String),
}

/// Compiles PTX and explains the result.
pub fn explain_ptx(name: &str, text: &[u8], options: &Options) -> Result<Explanation, Failure> {
    let checked = oriole_ptx::check(text, &oriole_ptx::Options::default());
    if !checked.is_valid() {
        return Err(Failure::Invalid(checked.diagnostics));
    }
    explain_module(name, text, &checked.module, options)
}

/// Compiles a checked module and explains the result. `text` is the text of the module. Code for debuggers is explained if the options
/// ask for full debug information.
pub fn explain_module(name: &str, text: &[u8], module: &Module, options: &Options) -> Result<Explanation, Failure> {
    let mut compiler = options.compiler.clone();
    let kind = options.compiler.debug.as_ref().map_or(DebugKind::Lines, |debug| debug.kind);
    compiler.debug = Some(DebugInfo { kind, texts: vec![Arc::from(text)] });
    compiler.reports.decisions = true;
    compiler.passes.measure = true;
    let (result, log) = oriole_driver::compile_with_log(&[module], &compiler);
    let compiled = result.map_err(Failure::Compile)?;
    let account = Account { compiled: &compiled, log: &log, text, level: compiler.level };
    let hardware = Hardware::new(compiler.target, compiler.profile.as_deref());
    explain_file(name, &compiled.cubin, &hardware, Some(&account), options).map_err(Failure::File)
}

/// Explains the machine code of a cubin. The error is a message for the user.
pub fn explain_cubin(name: &str, data: &[u8], options: Option<&Options>) -> Result<Explanation, String> {
    let cubin = Cubin::read(data).map_err(|error| error.to_string())?;
    let target = cubin.target().ok_or_else(|| format!("there is no table of instructions for {}", cubin.target_name()))?;
    let own = Options::new(target);
    explain_file(name, data, &Hardware::built_in(target), None, options.unwrap_or(&own))
}

/// What the compiler recorded.
struct Account<'a> {
    compiled: &'a Compiled,
    log: &'a PassLog,
    text: &'a [u8],
    level: u8,
}

impl Account<'_> {
    /// Returns what was recorded about a function.
    fn decisions(&self, name: &str) -> Option<&Decisions> {
        let position = self.compiled.functions.iter().position(|function| function.name == name)?;
        self.compiled.decisions.get(position)
    }

    /// Returns the passes that ran on a function, in the order of their first run.
    fn passes(&self, name: &str) -> Vec<Pass> {
        let mut passes: Vec<Pass> = Vec::new();
        for run in self.log.runs.iter().filter(|run| run.function == name) {
            let position = passes.iter().position(|pass| pass.name == run.pass).unwrap_or_else(|| {
                let name = run.pass.to_owned();
                passes.push(Pass { name, runs: 0, instructions_before: 0, instructions_after: 0, created: 0 });
                passes.len() - 1
            });
            let pass = &mut passes[position];
            pass.runs += 1;
            pass.created += run.allocated.instructions;
            (pass.instructions_before, pass.instructions_after) = (run.instructions_before, run.instructions_after);
        }
        passes
    }

    /// Returns sentences about the schedule of a function.
    fn schedule(&self, name: &str) -> Vec<String> {
        let Some(report) = self.compiled.scheduling.iter().find(|report| report.name == name) else { return Vec::new() };
        let mut sentences = Vec::new();
        if let Some(plan) = report.plan {
            sentences.push(format!("scheduled by backend {}, mode {}", plan.backend.name(), plan.mode.name()));
        }
        sentences.extend(report.target.as_ref().map(ToString::to_string));
        for pass in &report.passes {
            sentences.push(format!(
                "phase {}: {} blocks with a new order, {} cycles before, {} after{}",
                pass.phase,
                pass.blocks,
                pass.cycles_before,
                pass.cycles_after,
                pass.proof_phrase()
            ));
        }
        sentences
    }
}

/// Explains the functions of a file.
fn explain_file(
    name: &str,
    data: &[u8],
    hardware: &Hardware<'_>,
    account: Option<&Account<'_>>,
    options: &Options,
) -> Result<Explanation, String> {
    let cubin = Cubin::read(data).map_err(|error| error.to_string())?;
    let index = CubinIndex::new(&cubin);
    let lines = LineTables::new(&cubin)?;
    let line_index = account.map(|account| LineIndex::new(account.text));
    let is_wanted = |name: &str| options.functions.is_empty() || options.functions.iter().any(|wanted| wanted == name);
    let mut functions: Vec<Function> = Vec::new();
    for function in cubin.functions().filter(|function| is_wanted(function.name)) {
        let decisions = account.and_then(|account| account.decisions(function.name));
        let line_of = |offset: u32| line_index.as_ref().map_or(0, |index| index.line_column(offset).0);
        let input = function::Input {
            site: Site { index: &index, function: &function, decisions },
            hardware,
            lines: &lines,
            is_serial: account.is_some_and(|account| account.level == 0),
            remarks: decisions.map_or_else(Vec::new, |decisions| function::remarks(decisions, &line_of)),
        };
        let mut explained = function::explain(input);
        if let Some(account) = account {
            explained.passes = account.passes(function.name);
            explained.schedule = account.schedule(function.name);
        }
        functions.push(explained);
    }
    calls::set_costs(&mut functions);
    if functions.is_empty() {
        return Err("there is no such function in the file".to_owned());
    }
    let origins = functions.iter().flat_map(|function| &function.instructions).map(|instruction| &instruction.origin);
    let read = |file: &str| std::fs::read(file).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let sources = if options.with_sources { origin::source_texts(origins, &read) } else { Vec::new() };
    Ok(Explanation {
        schema: SCHEMA.to_owned(),
        input: name.to_owned(),
        target: hardware.target.to_string(),
        level: account.map(|account| account.level),
        ptx: match account {
            Some(account) => String::from_utf8_lossy(account.text).lines().map(str::to_owned).collect(),
            None => lines.ptx_text,
        },
        sources,
        functions,
    })
}
