//! The interface to the driver: PTX in, the functions before and after a pass or the machine code out.

use oriole_driver::{
    CompileError, Compiled, DumpMoment, PASSES, PassOptions, PassSelection, ScheduleBackend, ScheduleMode, Scheduling, compile,
    compile_with_log,
};
use oriole_isa::Target;
use oriole_ptx::ast::Module;

use crate::file::Options;

/// Returns the driver's options for a test. The functions are printed before and after `pass`.
fn driver_options(options: &Options, target: Target, pass: Option<&str>) -> oriole_driver::Options {
    let scheduling = match (options.backend, options.mode) {
        (None, None) => Scheduling::default(),
        (backend, mode) => Scheduling::by(backend.unwrap_or(ScheduleBackend::B), mode.unwrap_or(ScheduleMode::Ilp)),
    };
    let printed = || PassSelection::These(pass.map(str::to_owned).into_iter().collect());
    oriole_driver::Options {
        level: options.level.unwrap_or(3),
        max_registers: options.register_limit,
        passes: PassOptions { print_before: printed(), print_after: printed(), ..PassOptions::default() },
        verify: true,
        scheduling,
        ..oriole_driver::Options::new(target)
    }
}

/// Compiles a module.
pub fn compiled(module: &Module, options: &Options, target: Target) -> Result<Compiled, Vec<CompileError>> {
    compile(&[module], &driver_options(options, target, None))
}

/// The functions of a module around a pass.
pub struct AroundPass {
    /// The functions before the pass; in PTX for the first pass.
    pub before: Vec<String>,
    /// The functions after the pass.
    pub after: Vec<String>,
}

/// Returns the functions of a module before and after a pass; `None` if the pass does not run at the level.
pub fn around(module: &Module, options: &Options, target: Target, pass: &str) -> Result<Option<AroundPass>, String> {
    let (result, log) = compile_with_log(&[module], &driver_options(options, target, Some(pass)));
    result.map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
    let texts =
        |moment: DumpMoment| log.dumps.iter().filter(|dump| dump.moment == moment).map(|dump| dump.text.clone()).collect::<Vec<_>>();
    let (before, after) = (texts(DumpMoment::Before), texts(DumpMoment::After));
    Ok((!after.is_empty()).then_some(AroundPass { before, after }))
}

/// Returns the names of all passes, in order.
pub fn pass_names() -> impl Iterator<Item = &'static str> {
    PASSES.iter().map(|pass| pass.name)
}
