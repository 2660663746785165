//! Compiles one file for `oriole compile`: checks it, compiles it, writes the cubin and prints messages.

use std::sync::Arc;
use std::thread;

use oriole_driver::{CompileError, DebugInfo, DebugKind, ErrorCause, Options, Parallelism, PassOptions, Scheduling};
use oriole_hardware::Profile;
use oriole_isa::Target;
use oriole_ptx::Checked;
use oriole_ptx::ast::{Function, FunctionKind, Module};
use oriole_ptx::diag::{self, Diagnostic, DiagnosticCode, Severity, Style};
use oriole_ptx::source::{LineIndex, Source, Span};
use oriole_ptxas::missing;

use crate::cache::{Cache, Key, Lookup};
use crate::check::read_input;
use crate::compile::CompileArguments;
use crate::console::write_output;
use crate::product::Product;
use crate::progress::ProgressLine;
use crate::target_names;

/// Exit status if all is well.
const SUCCESS: u8 = 0;
/// Exit status if the input has errors.
const ERRORS: u8 = 1;
/// Exit status if the command line is wrong, or a file cannot be read or written.
pub const USAGE: u8 = 2;

/// The settings that hold for all files.
pub struct Settings<'a> {
    pub arguments: &'a CompileArguments,
    /// The style of messages on standard error.
    pub style: Style,
    pub scheduling: Scheduling,
    pub passes: PassOptions,
    /// Name and text of the hardware profile to use instead of the built-in one.
    pub profile: Option<(&'a str, Vec<u8>)>,
    /// Whether to show on a terminal how far the compilation is.
    pub shows_progress: bool,
    /// The cache of compiled files, unless the options request reports that it does not hold.
    pub cache: Option<Cache>,
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
    let report = |findings: &[Diagnostic]| match arguments.json {
        true => print_json(&source, findings),
        false => show(&source, findings, settings.style),
    };
    let entry = match &settings.cache {
        Some(cache) => Some((cache, key(cache, settings, &text)?)),
        None => None,
    };
    if let Some(product) = entry.and_then(|(cache, key)| load(cache, key, name, arguments.verbose)) {
        if product.has_findings {
            report(&oriole_ptx::check(&text, &oriole_ptx::Options::default()).diagnostics);
        }
        return finish(arguments, job, name, &product);
    }
    let checked = oriole_driver::check(&text, &oriole_ptx::Options::default(), &Parallelism::default());
    report(&checked.diagnostics);
    if !checked.is_valid() {
        return Ok(ERRORS);
    }
    let own = checked.module.target.to_string();
    let target = target_names::parse(arguments.arch.as_deref().unwrap_or(&own))?;
    check_entries(&arguments.entry, job.file, &checked.module)?;
    let profile = settings.profile.as_ref().map(|(name, text)| parse_profile(name, text, target)).transpose()?;
    let debug = debug_info(arguments, &text);
    let options = Options { profile: profile.map(Arc::new), debug, ..options(settings, target) };
    for note in arguments.passes.notes(options.level) {
        errln!("note: {note}");
    }
    let (result, log) = {
        // The line ends here, before messages are printed.
        let line = if settings.shows_progress { ProgressLine::start() } else { None };
        let hooks = line.as_ref().map(ProgressLine::hooks).unwrap_or_default();
        oriole_driver::compile_with_log(&[&checked.module], &Options { hooks, ..options })
    };
    arguments.passes.print(&log);
    let compiled = match result {
        Ok(compiled) => compiled,
        Err(errors) => {
            report(&if arguments.json { errors.iter().map(diagnostic).collect() } else { diagnostics(&errors) });
            return Ok(ERRORS);
        }
    };
    arguments.sched_output.print(&compiled.scheduling)?;
    let product = Product::new(&source, compiled, !checked.diagnostics.is_empty(), arguments.json);
    if let Some((cache, key)) = entry
        && let Err(error) = cache.store(key, &product.write())
    {
        // The cubin does not depend on the cache.
        errln!("warning: {name}: the cache cannot be written: {error}");
    }
    let status = finish(arguments, job, name, &product);
    drop_later(checked);
    status
}

/// Frees a large module on another thread, which the end of the process may cut short.
fn drop_later(checked: Checked) {
    if checked.module.functions.len() > MANY_FUNCTIONS {
        // If no thread can be started, the module is freed here.
        drop(thread::Builder::new().spawn(move || drop(checked)));
    }
}

/// Number of functions from which on freeing a module takes longer than starting a thread.
const MANY_FUNCTIONS: usize = 100;

/// Writes the cubin, if one is requested, and prints messages; returns the exit status.
fn finish(arguments: &CompileArguments, job: &Job<'_>, name: &str, product: &Product) -> Result<u8, String> {
    if let Some(output) = job.output.as_deref().filter(|_| arguments.passes.stop_after.is_none()) {
        write_output(output, &product.cubin).map_err(|error| format!("{output}: {error}"))?;
    }
    product.print(name, arguments.verbose);
    Ok(SUCCESS)
}

/// Searches for a compiled file in the cache.
fn load(cache: &Cache, key: Key, name: &str, verbose: bool) -> Option<Product> {
    let (product, result) = match cache.load(key) {
        Lookup::Hit(contents) => match Product::read(&contents) {
            Some(product) => (Some(product), "hit"),
            None => (None, "damaged entry, compiled again"),
        },
        Lookup::Miss => (None, "miss"),
        Lookup::Damaged => (None, "damaged entry, compiled again"),
    };
    if verbose {
        errln!("{name}: cache: {result}");
    }
    product
}

/// Returns the key of a file in the cache. The options of the compiler enter the key as a whole, so that a new option cannot be forgotten.
fn key(cache: &Cache, settings: &Settings<'_>, text: &[u8]) -> Result<Key, String> {
    let arguments = settings.arguments;
    // Without `--arch` the target is a part of the text. Any target serves to write down the other options.
    let arch = arguments.arch.as_deref();
    let options = Options { debug: debug_info(arguments, &[]), ..options(settings, target_names::parse(arch.unwrap_or("sm_90a"))?) };
    let profile = settings.profile.as_ref().map_or(&[][..], |(_, text)| text);
    let requested = format!("{options:?} {arch:?} {}", arguments.json);
    Ok(cache.key(&[b"oriole compile", requested.as_bytes(), profile, text]))
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

/// Returns the debug information that the arguments request for a module with this text.
fn debug_info(arguments: &CompileArguments, text: &[u8]) -> Option<DebugInfo> {
    let kind = match (arguments.device_debug, arguments.lineinfo) {
        (true, _) => DebugKind::Full,
        (false, true) => DebugKind::Lines,
        (false, false) => return None,
    };
    Some(DebugInfo { kind, texts: vec![Arc::from(text)] })
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

/// Prints findings to standard output as JSON, one object a line.
fn print_json(source: &Source<'_>, findings: &[Diagnostic]) {
    if findings.is_empty() {
        return;
    }
    let lines = LineIndex::new(source.text);
    for finding in findings {
        outln!("{}", serde_json::to_string(&diag::to_json(source, &lines, finding)).unwrap_or_default());
    }
}

/// Converts errors of the compiler to findings: one for each missing feature, with the number of places, and one for each other error.
pub fn diagnostics(errors: &[CompileError]) -> Vec<Diagnostic> {
    let convert = |(error, count): (&CompileError, usize)| match diagnostic(error) {
        finding if count > 1 => finding.note(format!("this is the first of {count} places that use it")),
        finding => finding,
    };
    missing::grouped(errors).into_iter().map(convert).collect()
}

/// Converts an error of the compiler to a finding at its position in the source.
fn diagnostic(error: &CompileError) -> Diagnostic {
    let code = match error.fault {
        ErrorCause::Unsupported(_) => DiagnosticCode::Unsupported,
        ErrorCause::Unresolved(_) => DiagnosticCode::UnknownName,
        ErrorCause::Limit(_) | ErrorCause::TooMuch(_) => DiagnosticCode::ResourceLimit,
        // Nothing cancels a compilation here.
        ErrorCause::Cancelled | ErrorCause::Internal(_) => DiagnosticCode::InternalError,
    };
    Diagnostic::new(code, error.span.unwrap_or(Span::new(0, 0)), error.to_string())
}
