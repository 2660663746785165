//! `oriole compile`: compiles PTX to a cubin.

use std::fs;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use oriole_cubin::FileTraits;
use oriole_driver::{CompileError, Compiled, DebugInfo, DebugKind, Fault, Options, ScheduleKnobs};
use oriole_hardware::Profile;
use oriole_isa::Target;
use oriole_ptx::ast::{Function, FunctionKind, Module};
use oriole_ptx::diag::{self, Code, Diagnostic, Severity, Style};
use oriole_ptx::source::{LineIndex, Source, Span};

use crate::check::read_input;
use crate::console::write_output;
use crate::pass_options::{self, PassArguments};
use crate::print;
use crate::sched_choice::SchedulingChoice;
use crate::sched_output::{self, SchedulingOutput};

/// Compile PTX to a cubin that the CUDA driver loads.
///
///   $ oriole compile kernel.ptx -o kernel.cubin --arch sm_90a -v
///   kernel.ptx: saxpy: 10 registers, 0 barriers, 0 bytes stack, 0 bytes shared, 28 instructions
///
/// Errors are reported with their source location, for all kernels at once. Nothing is written then.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct CompileArguments {
    /// PTX file; `-` is standard input
    #[arg(value_name = "FILE", required_unless_present = "list_passes")]
    file: Option<String>,
    /// Where the cubin goes; `-` is standard output
    #[arg(short, long, value_name = "OUT", required_unless_present_any = ["list_passes", "stop_after"])]
    output: Option<String>,
    /// The GPU, such as sm_90a; without it, the module's own target
    #[arg(long, value_name = "SM")]
    arch: Option<String>,
    /// Optimization level
    #[arg(short = 'O', long, default_value_t = 3, value_name = "LEVEL", value_parser = clap::value_parser!(u8).range(0..=3))]
    opt_level: u8,
    /// Whether a floating-point `mul` and an `add` or `sub` without a rounding modifier become one `fma`; needs -O1 or higher
    #[arg(long, value_name = "true|false", default_value_t = true, action = clap::ArgAction::Set)]
    fmad: bool,
    /// Registers for each thread at most
    #[arg(long, value_name = "N")]
    maxrregcount: Option<u32>,
    /// Make a relocatable object for nvlink
    #[arg(short = 'c', long)]
    compile_only: bool,
    /// Write line tables for debuggers and profilers: source lines from `.loc`, PTX lines, and the PTX text
    #[arg(long, visible_alias = "generate-line-info")]
    lineinfo: bool,
    /// Write line tables and the debug sections of the PTX, and compile without optimization
    #[arg(short = 'g', long, conflicts_with = "opt_level")]
    device_debug: bool,
    /// Hardware profile to use instead of the built-in one; `oriole profile --export` writes such a file
    #[arg(long, value_name = "FILE")]
    hw_profile: Option<String>,
    #[command(flatten)]
    sched_choice: SchedulingChoice,
    #[command(flatten)]
    sched_output: SchedulingOutput,
    /// Compile these kernels only
    #[arg(long, value_name = "KERNEL")]
    entry: Vec<String>,
    /// Print what each function needs
    #[arg(short, long)]
    verbose: bool,
    /// Print what each function needs as JSON
    #[arg(long)]
    json: bool,
    /// Check the code after every pass
    #[arg(long)]
    verify: bool,
    #[command(flatten)]
    passes: PassArguments,
}

pub fn run(arguments: &CompileArguments) -> ExitCode {
    if arguments.passes.wants_list() {
        print::out(pass_options::list().as_bytes());
        return ExitCode::SUCCESS;
    }
    if arguments.sched_choice.wants_help() {
        print::out(ScheduleKnobs::default().write().as_bytes());
        return ExitCode::SUCCESS;
    }
    let settings = arguments.sched_choice.scheduling().and_then(|scheduling| Ok((scheduling, arguments.passes.options()?)));
    let (scheduling, passes) = match settings {
        Ok(settings) => settings,
        Err(message) => {
            errln!("error: {message}");
            return ExitCode::from(2);
        }
    };
    // Required, unless the passes are only listed.
    let file = arguments.file.as_deref().unwrap_or("-");
    let text = match read_input(file) {
        Ok(text) => text,
        Err(error) => {
            errln!("error: {file}: {error}");
            return ExitCode::from(2);
        }
    };
    let name = if file == "-" { "<stdin>" } else { file };
    let source = Source::new(name, &text);
    let style = if io::stderr().is_terminal() { Style::Coloured } else { Style::Plain };
    let checked = oriole_ptx::check(&text, &oriole_ptx::Options::default());
    show(&source, &checked.diagnostics, style);
    if !checked.is_valid() {
        return ExitCode::FAILURE;
    }
    let own = checked.module.target.to_string();
    let wanted = arguments.arch.as_deref().unwrap_or(&own);
    let Some(target) = Target::parse(wanted) else {
        errln!("error: {wanted} is not a target that Oriole compiles for; there are {}", target_names());
        return ExitCode::from(2);
    };
    if let Err(message) = check_request(arguments, file, &checked.module) {
        errln!("error: {message}");
        return ExitCode::from(2);
    }
    let profile = match arguments.hw_profile.as_deref().map(|file| read_profile(file, target)).transpose() {
        Ok(profile) => profile.map(Arc::new),
        Err(message) => {
            errln!("error: {message}");
            return ExitCode::from(2);
        }
    };
    let options = Options {
        profile,
        level: if arguments.device_debug { 0 } else { arguments.opt_level },
        contract: arguments.fmad,
        debug: debug_info(arguments, &text),
        max_registers: arguments.maxrregcount,
        relocatable: arguments.compile_only,
        entries: arguments.entry.clone(),
        verify: arguments.verify,
        passes,
        scheduling,
        reports: arguments.sched_output.reports(arguments.json),
        ..Options::new(target)
    };
    for note in arguments.passes.notes(options.level) {
        errln!("note: {note}");
    }
    let (result, log) = oriole_driver::compile_with_log(&[&checked.module], &options);
    arguments.passes.print(&log);
    match result {
        Ok(compiled) => finish(arguments, &source, &compiled),
        Err(errors) => {
            let findings: Vec<Diagnostic> = errors.iter().map(diagnostic).collect();
            show(&source, &findings, style);
            ExitCode::FAILURE
        }
    }
}

/// Returns the debug information that the arguments request.
fn debug_info(arguments: &CompileArguments, text: &[u8]) -> Option<DebugInfo> {
    let kind = match (arguments.device_debug, arguments.lineinfo) {
        (true, _) => DebugKind::Full,
        (false, true) => DebugKind::Lines,
        (false, false) => return None,
    };
    Some(DebugInfo { kind, texts: vec![Arc::from(text)] })
}

/// Returns the names of all targets with a known file format.
fn target_names() -> String {
    let names: Vec<String> = FileTraits::all().map(|traits| traits.target.to_string()).collect();
    names.join(", ")
}

/// Checks what the arguments ask for: kernels that exist, and an output that does not overwrite the input.
fn check_request(arguments: &CompileArguments, file: &str, module: &Module) -> Result<(), String> {
    let is_kernel = |function: &&Function| function.kind == FunctionKind::Entry && function.body.is_some();
    let kernels: Vec<&str> = module.functions.iter().filter(is_kernel).map(|function| module.name(function.name)).collect();
    if let Some(missing) = arguments.entry.iter().find(|entry| !kernels.contains(&entry.as_str())) {
        return Err(format!("{file}: there is no kernel `{missing}`; the module has {}", listed(&kernels)));
    }
    let same_file = |output: &str| match (fs::canonicalize(output), fs::canonicalize(file)) {
        (Ok(output), Ok(input)) => output == input,
        _ => false,
    };
    match arguments.output.as_deref().filter(|output| file != "-" && *output != "-" && same_file(output)) {
        Some(output) => Err(format!("{output}: the output would overwrite the input")),
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

/// Reads a hardware profile from a file and checks that it is for the target.
fn read_profile(file: &str, target: Target) -> Result<Profile, String> {
    let bytes = read_input(file).map_err(|error| format!("{file}: {error}"))?;
    let name = if file == "-" { "<stdin>" } else { file };
    let profile = Profile::from_text(name, &String::from_utf8_lossy(&bytes)).map_err(|error| error.to_string())?;
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
fn finish(arguments: &CompileArguments, source: &Source<'_>, compiled: &Compiled) -> ExitCode {
    let name = source.name;
    let output = arguments.output.as_deref().filter(|_| arguments.passes.stop_after.is_none());
    if let Some(output) = output
        && let Err(error) = write_output(output, &compiled.cubin)
    {
        errln!("error: {output}: {error}");
        return ExitCode::from(2);
    }
    if let Err(message) = arguments.sched_output.print(&compiled.scheduling) {
        errln!("error: {message}");
        return ExitCode::from(2);
    }
    for warning in compiled.functions.iter().flat_map(|function| &function.warnings) {
        errln!("warning: {name}: {warning}");
    }
    print_remarks(source, compiled);
    for (function, scheduling) in compiled.functions.iter().zip(&compiled.scheduling) {
        if arguments.json {
            let object = serde_json::json!({
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
    ExitCode::SUCCESS
}
