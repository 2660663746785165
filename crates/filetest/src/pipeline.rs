//! The interface to the driver: PTX in, the functions before and after a pass or the machine code out.

use oriole_driver::{CompileError, Compiled, PASSES, ScheduleBackend, ScheduleMode, Scheduling, compile};
use oriole_isa::Target;
use oriole_ptx::ast::Module;

use crate::file::Options;

/// Returns the driver's options for a test.
fn driver_options(options: &Options, target: Target, print_after: Option<&str>) -> oriole_driver::Options {
    let scheduling = match (options.backend, options.mode) {
        (None, None) => Scheduling::default(),
        (backend, mode) => Scheduling::by(backend.unwrap_or(ScheduleBackend::B), mode.unwrap_or(ScheduleMode::Ilp)),
    };
    oriole_driver::Options {
        level: options.level.unwrap_or(3),
        max_registers: options.register_limit,
        print_after: print_after.map(str::to_owned),
        verify: true,
        scheduling,
        ..oriole_driver::Options::new(target)
    }
}

/// Compiles a module.
pub fn compiled(module: &Module, options: &Options, target: Target) -> Result<Compiled, Vec<CompileError>> {
    compile(&[module], &driver_options(options, target, None))
}

/// Returns the text of each function after a pass; `None` if the pass does not run at the level.
fn after(module: &Module, options: &Options, target: Target, pass: &str) -> Result<Option<Vec<String>>, String> {
    let compiled = compile(&[module], &driver_options(options, target, Some(pass)))
        .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
    Ok(Some(compiled.dumps).filter(|dumps| !dumps.is_empty()))
}

/// The functions of a module around a pass.
pub struct AroundPass {
    /// The functions after the pass that runs before it; empty for the first pass.
    pub before: Vec<String>,
    /// The functions after the pass.
    pub after: Vec<String>,
}

/// Returns the functions of a module before and after a pass; `None` if the pass does not run at the level.
pub fn around(module: &Module, options: &Options, target: Target, pass: &str) -> Result<Option<AroundPass>, String> {
    let position = PASSES.iter().position(|other| other.name == pass).ok_or_else(|| format!("no pass is called `{pass}`"))?;
    let Some(dumps) = after(module, options, target, pass)? else { return Ok(None) };
    for earlier in PASSES[..position].iter().rev() {
        if let Some(before) = after(module, options, target, earlier.name)? {
            return Ok(Some(AroundPass { before, after: dumps }));
        }
    }
    Ok(Some(AroundPass { before: Vec::new(), after: dumps }))
}

/// Returns the names of all passes, in order.
pub fn pass_names() -> impl Iterator<Item = &'static str> {
    PASSES.iter().map(|pass| pass.name)
}
