//! Compiles one file for `oriole compile`: checks it, compiles it, writes the cubin and prints messages.

use std::io::{self, IsTerminal};
use std::sync::Arc;

use oriole_cubin::FileTraits;
use oriole_driver::{CompileError, Compiled, DebugInfo, DebugKind, Fault, Options, PassOptions, Scheduling};
use oriole_hardware::Profile;
use oriole_isa::Target;
use oriole_ptx::ast::{Function, FunctionKind, Module};
use oriole_ptx::diag::{self, Code, Diagnostic, Severity, Style};
use oriole_ptx::source::{LineIndex, Source, Span};

use crate::check::read_input;
use crate::compile::CompileArguments;
use crate::console::write_output;
use crate::sched_output;

/// Exit status if all is well.
const SUCCESS: u8 = 0;
/// Exit status if the input has errors.
const ERRORS: u8 = 1;
/// Exit status if the command line is wrong, or a file cannot be read or written.
pub const USAGE: u8 = 2;

/// The settings that hold for all files.
pub struct Settings<'a> {
    pub arguments: &'a CompileArguments,
    pub scheduling: Scheduling,
    pub passes: PassOptions,
    /// Name and text of the hardware profile to use instead of the built-in one.
    pub profile: Option<(&'a str, Vec<u8>)>,
}

/// A file to compile.
pub struct Job<'a> {
    /// The PTX file; `-` is standard input.
    pub file: &'a str,
    /// Where the cubin goes; `-` is standard output. `None` if there is none.
    pub output: Option<String>,
}

/// Compiles one file; returns the exit status.
pub fn run(settings: &Settings<'_>, job: &Job<'_>) -> u8 {
    compile(settings, job).unwrap_or_else(|message| {
        errln!("error: {message}");
        USAGE
    })
}

/// Compiles one file; returns the exit status. An error is a message about the command line or about a file that cannot be read or
/// written.
fn compile(settings: &Settings<'_>, job: &Job<'_>) -> Result<u8, String> {
    let arguments = settings.arguments;
    let text = read_input(job.file).map_err(|error| format!("{}: {error}", job.file))?;
    let name = if job.file == "-" { "<stdin>" } else { job.file };
    let source = Source::new(name, &text);
    let style = if io::stderr().is_terminal() { Style::Coloured } else { Style::Plain };
    let checked = oriole_ptx::check(&text, &oriole_ptx::Options::default());
    show(&source, &checked.diagnostics, style);
    if !checked.is_valid() {
        return Ok(ERRORS);
    }
    let own = checked.module.target.to_string();
    let target = parse_target(arguments.arch.as_deref().unwrap_or(&own))?;
    check_entries(&arguments.entry, job.file, &checked.module)?;
    let profile = settings.profile.as_ref().map(|(name, text)| parse_profile(name, text, target)).transpose()?;
    let options =
        Options { profile: profile.map(Arc::new), debug: debug_info(arguments, vec![Arc::from(&text[..])]), ..options(settings, target) };
    for note in arguments.passes.notes(options.level) {
        errln!("note: {note}");
    }
    let (result, log) = oriole_driver::compile_with_log(&[&checked.module], &options);
    arguments.passes.print(&log);
    match result {
        Ok(compiled) => finish(arguments, job, &source, &compiled).map(|()| SUCCESS),
        Err(errors) => {
            let findings: Vec<Diagnostic> = errors.iter().map(diagnostic).collect();
            show(&source, &findings, style);
            Ok(ERRORS)
        }
    }
}

/// Returns the options of the compiler, without those that contain text: the hardware profile and the debug information.
fn options(settings: &Settings<'_>, target: Target) -> Options {
    let arguments = settings.arguments;
    Options {
        level: if arguments.device_debug { 0 } else { arguments.opt_level },
        contract: arguments.fmad,
        max_registers: arguments.maxrregcount,
        relocatable: arguments.compile_only,
        entries: arguments.entry.clone(),
        verify: arguments.verify,
        passes: settings.passes.clone(),
        scheduling: settings.scheduling,
        reports: arguments.sched_output.reports(arguments.json),
        ..Options::new(target)
    }
}

/// Parses the name of a target.
fn parse_target(name: &str) -> Result<Target, String> {
    let names: Vec<String> = FileTraits::all().map(|traits| traits.target.to_string()).collect();
    Target::parse(name).ok_or_else(|| {
        let near = oriole_support::closest(name, names.iter().map(String::as_str));
        let hint = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
        format!("{name} is not a target that Oriole compiles for; there are {}{hint}", names.join(", "))
    })
}

/// Returns the debug information that the arguments request.
fn debug_info(arguments: &CompileArguments, texts: Vec<Arc<[u8]>>) -> Option<DebugInfo> {
    let kind = match (arguments.device_debug, arguments.lineinfo) {
        (true, _) => DebugKind::Full,
        (false, true) => DebugKind::Lines,
        (false, false) => return None,
    };
    Some(DebugInfo { kind, texts })
}

/// Checks that the kernels to compile exist.
fn check_entries(entries: &[String], file: &str, module: &Module) -> Result<(), String> {
    let is_kernel = |function: &&Function| function.kind == FunctionKind::Entry && function.body.is_some();
    let kernels: Vec<&str> = module.functions.iter().filter(is_kernel).map(|function| module.name(function.name)).collect();
    match entries.iter().find(|entry| !kernels.contains(&entry.as_str())) {
        Some(missing) => Err(format!("{file}: there is no kernel `{missing}`; the module has {}", listed(&kernels))),
        None => Ok(()),
    }
}

/// Returns names in the order of the module, at most ten of them.
fn listed(names: &[&str]) -> String {
    const SHOWN: usize = 10;
    match names.len() {
        0 => "none".to_owned(),
        count if count > SHOWN => format!("{} and {} more", names[..SHOWN].join(", "), count - SHOWN),
        _ => names.join(", "),
    }
}

/// Parses a hardware profile and checks that it is for the target.
fn parse_profile(name: &str, text: &[u8], target: Target) -> Result<Profile, String> {
    let profile = Profile::from_text(name, &String::from_utf8_lossy(text)).map_err(|error| error.to_string())?;
    profile.check_target(name, target).map_err(|error| error.to_string())?;
    Ok(profile)
}

/// Prints findings to standard error, followed by the number of errors.
pub fn show(source: &Source<'_>, findings: &[Diagnostic], style: Style) {
    if findings.is_empty() {
        return;
    }
    let lines = LineIndex::new(source.text);
    for finding in findings {
        errln!("{}", diag::render(source, &lines, finding, style));
    }
    let errors = findings.iter().filter(|finding| finding.code.severity() == Severity::Error).count();
    if errors > 0 {
        errln!("{}: {errors} error{}", source.name, if errors == 1 { "" } else { "s" });
    }
}

/// Converts an error of the compiler to a finding at its position in the source.
pub fn diagnostic(error: &CompileError) -> Diagnostic {
    let code = match error.fault {
        Fault::Unsupported(_) => Code::Unsupported,
        Fault::Unresolved(_) => Code::UnknownName,
        Fault::Limit(_) | Fault::TooMuch(_) => Code::ResourceLimit,
        Fault::Internal(_) => Code::InternalError,
    };
    Diagnostic::new(code, error.span.unwrap_or(Span::new(0, 0)), error.to_string())
}

/// Prints the remarks about waits and fences that the compiler inserted.
fn print_remarks(source: &Source<'_>, compiled: &Compiled) {
    let mut remarks = compiled.functions.iter().flat_map(|function| &function.remarks).peekable();
    if remarks.peek().is_none() {
        return;
    }
    let lines = LineIndex::new(source.text);
    for remark in remarks {
        let line = remark.offset.map_or(String::new(), |offset| format!(":{}", lines.line_column(offset).0));
        errln!("remark: {}{line}: {}", source.name, remark.text);
    }
}

/// Writes the cubin, if there is one, and prints the reports and warnings that the options request.
fn finish(arguments: &CompileArguments, job: &Job<'_>, source: &Source<'_>, compiled: &Compiled) -> Result<(), String> {
    let name = source.name;
    if let Some(output) = job.output.as_deref().filter(|_| arguments.passes.stop_after.is_none()) {
        write_output(output, &compiled.cubin).map_err(|error| format!("{output}: {error}"))?;
    }
    arguments.sched_output.print(&compiled.scheduling)?;
    for warning in compiled.functions.iter().flat_map(|function| &function.warnings) {
        errln!("warning: {name}: {warning}");
    }
    print_remarks(source, compiled);
    for (function, scheduling) in compiled.functions.iter().zip(&compiled.scheduling) {
        if arguments.json {
            let object = serde_json::json!({
                "file": name,
                "function": function.name,
                "kernel": function.is_kernel,
                "registers": function.registers,
                "barriers": function.barriers,
                "stack_bytes": function.stack_bytes,
                "spill_store_bytes": function.spill_store_bytes,
                "spill_load_bytes": function.spill_load_bytes,
                "shared_bytes": function.shared_bytes,
                "instructions": function.instructions,
                "scheduler": function.plan.map(|plan| plan.backend.name()),
                "schedule_mode": function.plan.map(|plan| plan.mode.name()),
                "scheduling": sched_output::json(scheduling),
            });
            outln!("{object}");
        } else if arguments.verbose {
            errln!(
                "{name}: {}: {} registers, {} barriers, {} bytes stack, {} bytes shared, {} instructions",
                function.name,
                function.registers,
                function.barriers,
                function.stack_bytes,
                function.shared_bytes,
                function.instructions
            );
            if function.spill_store_bytes + function.spill_load_bytes > 0 {
                errln!(
                    "{name}: {}: registers are spilled to local memory: {} bytes of stores, {} bytes of loads",
                    function.name,
                    function.spill_store_bytes,
                    function.spill_load_bytes
                );
            }
            if let Some(target) = &scheduling.target {
                errln!("{name}: {}: {target}", function.name);
            }
        }
    }
    Ok(())
}
