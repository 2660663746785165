//! Generates code for checked modules, and prints the resource usage of `-v`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

use oriole_cubin::FileTraits;
use oriole_cubin::target::LayoutGeneration;
use oriole_driver::{CompileError, Compiled, DebugInfo, DebugKind, ErrorCause, FunctionReport, Options, PassOptions};
use oriole_isa::Target;
use oriole_ptx::ast::{FunctionKind, Item, Linkage};
use oriole_ptx::source::LineIndex;
use oriole_ptx::types::StateSpace;

use crate::arch::ArchKind;
use crate::command_line::CommandLine;
use crate::messages::{MessageKind, MessagePlace, Messages};
use crate::missing;
use crate::program::ParsedModule;
use crate::settings::Settings;
use crate::time_trace::TimeTrace;

/// The number of registers that `archmax` stands for.
const MAX_REGISTERS: u32 = 255;

/// Compiles the modules; returns the program. Errors of the input go to `messages`; a returned error is fatal.
pub fn generate(
    modules: &[ParsedModule],
    settings: &Settings,
    line: &CommandLine,
    messages: &mut Messages<'_>,
) -> Result<Option<Vec<u8>>, String> {
    let target = settings.arch.target;
    if settings.arch.kind != ArchKind::Real {
        return Err(format!("Oriole cannot generate code for '{}'", settings.arch));
    }
    if is_debugged(modules, line) && level(modules, line) > 0 {
        return Err("Optimized debugging not supported".to_owned());
    }
    let trace = line.value("fdevice-time-trace").map(TimeTrace::open).transpose()?;
    let options = Options {
        passes: PassOptions { measure: trace.is_some(), ..PassOptions::default() },
        level: level(modules, line),
        contract: line.value("fmad") != Some("false"),
        debug: debug_info(modules, line),
        max_registers: settings.max_registers,
        max_function_registers: settings.max_function_registers,
        // Also if the debug information is then left out.
        waits_for_errors_at_exit: line.has("make-errors-visible-at-exit") || is_debugged(modules, line),
        without_shared_reservation: line.value("disable-smem-reservation") == Some("true")
            && FileTraits::of(target).is_some_and(|traits| traits.style.reserved_shared() > 0),
        launch: settings.launch,
        // ptxas has a kind of file of its own for extensible whole programs; nvlink takes an ordinary object too.
        relocatable: line.has("compile-only") || line.has("extensible-whole-program"),
        tools_patch: line.has("compile-as-tools-patch"),
        entries: settings.entries_to_compile(line).to_vec(),
        hooks: settings.hooks.clone(),
        ..Options::new(target)
    };
    if line.has("device-debug") {
        warn_of_missing_sections(modules, messages);
    }
    if !options.relocatable {
        warn_of_extern_variables(modules, messages);
    }
    let started = Instant::now();
    let parsed: Vec<_> = modules.iter().map(|parsed| &parsed.module).collect();
    let (result, log) = oriole_driver::compile_with_log(&parsed, &options);
    let compiled = match result {
        Ok(compiled) => compiled,
        Err(errors) => {
            report(modules, &errors, messages);
            return Ok(None);
        }
    };
    let finished = Instant::now();
    let milliseconds = (finished - started).as_secs_f64() * 1e3;
    for warning in compiled.functions.iter().rev().flat_map(|function| &function.warnings) {
        messages.warning(None, warning);
    }
    for remark in compiled.functions.iter().rev().flat_map(|function| &function.remarks) {
        let parsed = modules.get(remark.module_number);
        let place = parsed.zip(remark.offset).map(|(parsed, offset)| {
            let lines = LineIndex::new(&parsed.text);
            MessagePlace { file: &parsed.name, line: lines.line_column(offset).0 }
        });
        messages.print(place, MessageKind::Info, remark.text);
    }
    if line.has("warn-on-spills") {
        for function in compiled.functions.iter().filter(|function| function.spill_store_bytes + function.spill_load_bytes > 0) {
            let text = format!(
                "Registers are spilled to local memory in function '{}', {} bytes spill stores, {} bytes spill loads",
                function.name, function.spill_store_bytes, function.spill_load_bytes
            );
            messages.usage_warning(&text);
        }
    }
    if line.has("warn-on-local-memory-usage") {
        for function in compiled.functions.iter().rev().filter(|function| function.stack_bytes > 0) {
            let (name, bytes) = (&function.name, function.stack_bytes);
            messages.usage_warning(&format!("Local memory used for function '{name}', size of stack frame: {bytes} bytes"));
        }
    }
    if let Some(trace) = trace {
        let input = modules.first().map_or("", |parsed| &parsed.name);
        trace.write(input, [settings.started, started, finished], &log)?;
    }
    if line.has("verbose") {
        print_overridden_limits(modules, settings, line, messages);
        print_usage(&compiled, target, milliseconds, messages);
    }
    Ok(Some(compiled.cubin))
}

/// Returns whether code is generated for a debugger: by option, or because of `.target debug`.
fn is_debugged(modules: &[ParsedModule], line: &CommandLine) -> bool {
    line.has("device-debug") || modules.iter().any(|parsed| parsed.module.options.debug)
}

/// Returns the optimization level. Code for a debugger is not optimized, unless the level is given.
fn level(modules: &[ParsedModule], line: &CommandLine) -> u8 {
    let default = if is_debugged(modules, line) { 0 } else { 3 };
    line.number("opt-level").unwrap_or(default).clamp(0, 3) as u8
}

/// Returns whether a module says which lines its instructions come from.
fn has_lines(modules: &[ParsedModule]) -> bool {
    let functions = modules.iter().flat_map(|parsed| parsed.module.functions.iter());
    functions.filter_map(|function| function.body.as_deref()).any(|body| !body.locations.is_empty())
}

/// Returns the debug information to write. As ptxas does, writes line tables without an option if the PTX has `.loc`.
fn debug_info(modules: &[ParsedModule], line: &CommandLine) -> Option<DebugInfo> {
    let kind = match (is_debugged(modules, line), line.has("generate-line-info") || has_lines(modules)) {
        (true, _) => DebugKind::Full,
        (false, true) => DebugKind::Lines,
        (false, false) => return None,
    };
    let texts = || modules.iter().map(|parsed| Arc::from(&parsed.text[..])).collect();
    (!line.has("suppress-debug-info")).then(|| DebugInfo { kind, texts: texts() })
}

/// Warns if the PTX lacks the sections that describe functions and variables.
fn warn_of_missing_sections(modules: &[ParsedModule], messages: &mut Messages<'_>) {
    let items = modules.iter().flat_map(|parsed| &parsed.module.items);
    for name in [".debug_abbrev", ".debug_info"] {
        if !items.clone().any(|item| matches!(item, Item::Section(section) if &*section.name == name)) {
            messages.warning(None, &format!(" {name} section not found"));
        }
    }
}

/// Warns of variables that no module defines. Like ptxas, Oriole then treats the declaration as a definition.
fn warn_of_extern_variables(modules: &[ParsedModule], messages: &mut Messages<'_>) {
    let variables = || {
        let items = modules.iter().flat_map(|parsed| parsed.module.items.iter().map(|item| (&parsed.module, item)));
        items.filter_map(|(module, item)| match item {
            Item::Variable(id) => Some((module.name(module.variables[*id].name), &module.variables[*id])),
            _ => None,
        })
    };
    let defined: BTreeSet<&str> = variables().filter(|(_, variable)| variable.linkage != Linkage::Extern).map(|(name, _)| name).collect();
    let mut seen = BTreeSet::new();
    for (name, variable) in variables() {
        // A variable without a size needs no warning: compiling it is an error.
        let has_size = variable.size_bytes().is_some_and(|bytes| bytes > 0);
        let is_undefined =
            variable.linkage == Linkage::Extern && variable.space != StateSpace::Shared && has_size && !defined.contains(name);
        if is_undefined && seen.insert(name) {
            let rest = "in whole program compilation, ignoring extern qualifier";
            messages.warning(None, &format!("Unresolved extern variable '{name}' {rest}"));
        }
    }
}

/// Prints the errors of the compiler in ptxas' format.
fn report(modules: &[ParsedModule], errors: &[CompileError], messages: &mut Messages<'_>) {
    let mut indices: Vec<Option<LineIndex>> = modules.iter().map(|_| None).collect();
    for (error, count) in missing::grouped(errors) {
        // Code that Oriole itself adds has no position in a file.
        let place = error.span.zip(modules.get(error.module)).map(|(span, parsed)| {
            let lines = indices[error.module].get_or_insert_with(|| LineIndex::new(&parsed.text));
            MessagePlace { file: &parsed.name, line: lines.line_column(span.start).0 }
        });
        match &error.fault {
            ErrorCause::Unsupported(feature) => {
                let places = if count > 1 { format!(" ({count} places)") } else { String::new() };
                messages.error(place, &format!("{feature} is not supported by Oriole yet{places}"));
            }
            ErrorCause::Unresolved(name) => messages.unresolved(name),
            ErrorCause::TooMuch(excess) => messages.too_much(&excess.ptxas_text(error.function.as_deref().unwrap_or_default())),
            ErrorCause::Limit(what) if error.function.is_none() => messages.error(place, what),
            ErrorCause::Limit(what) => messages.error(place, &format!("Register allocation failed: {what}")),
            ErrorCause::Cancelled | ErrorCause::Internal(_) => messages.error(place, &error.to_string()),
        }
    }
}

/// Prints which kernels `-maxrregcount` limits, from the last to the first.
fn print_overridden_limits(modules: &[ParsedModule], settings: &Settings, line: &CommandLine, messages: &mut Messages<'_>) {
    let given = line.has("maxrregcount");
    let Some(limit) = settings.max_registers.or((given && line.value("maxrregcount") == Some("archmax")).then_some(MAX_REGISTERS)) else {
        return;
    };
    let overrides = line.has("override-directive-values");
    let kernels = modules.iter().flat_map(|parsed| parsed.module.functions.iter().map(|function| (&parsed.module, function)));
    let kernels: Vec<_> = kernels.filter(|(_, function)| function.kind == FunctionKind::Entry && function.body.is_some()).collect();
    for (module, kernel) in kernels.into_iter().rev() {
        let name = module.name(kernel.name);
        let entries = settings.entries_to_compile(line);
        if !entries.is_empty() && !entries.iter().any(|entry| entry == name) {
            continue;
        }
        let has_threads = kernel.bounds.max_threads.is_some() || kernel.bounds.required_threads.is_some();
        let text = match kernel.bounds.max_registers {
            Some(own) if !overrides => format!("Overriding global maxrregcount {limit} with entry-specific value {own} of .maxnreg"),
            _ if has_threads && !overrides => continue,
            own => {
                let before = own.unwrap_or(MAX_REGISTERS + 1);
                format!("Overriding maximum register limit {before} for '{name}' with  {limit} of maxrregcount option")
            }
        };
        messages.print(None, MessageKind::Info, &text);
    }
}

/// Prints the text of `-v`. Other programs parse it.
fn print_usage(compiled: &Compiled, target: Target, milliseconds: f64, messages: &mut Messages<'_>) {
    let lists_banks = FileTraits::of(target).is_some_and(|traits| traits.style == LayoutGeneration::Ampere);
    let mut module = format!("{} bytes gmem", compiled.global_bytes);
    for (bank, bytes) in compiled.constant_bytes.iter().filter(|_| lists_banks) {
        let _ = write!(module, ", {bytes} bytes cmem[{bank}]");
    }
    messages.print(None, MessageKind::Info, &module);
    let share = milliseconds / compiled.functions.len().max(1) as f64;
    for function in compiled.functions.iter().rev() {
        if function.is_kernel {
            messages.print(None, MessageKind::Info, &format!("Compiling entry function '{}' for '{target}'", function.name));
        }
        let properties = format!(
            "Function properties for {}\n    {} bytes stack frame, {} bytes spill stores, {} bytes spill loads",
            function.name, function.stack_bytes, function.spill_store_bytes, function.spill_load_bytes
        );
        messages.print(None, MessageKind::Info, &properties);
        if function.is_kernel {
            messages.print(None, MessageKind::Info, &usage(function, lists_banks));
            messages.print(None, MessageKind::Info, &format!("Compile time = {share:.3} ms"));
        }
    }
}

/// Returns the resource usage of a kernel. From Hopper on ptxas does not print constant banks.
fn usage(function: &FunctionReport, lists_banks: bool) -> String {
    let mut text = format!("Used {} registers, used {} barriers", function.registers, function.barriers);
    let constant_bytes = if lists_banks { function.constant_bytes } else { 0 };
    for (bytes, what) in [(function.stack_bytes, "cumulative stack size"), (function.shared_bytes, "smem"), (constant_bytes, "cmem[0]")] {
        if bytes > 0 {
            let _ = write!(text, ", {bytes} bytes {what}");
        }
    }
    text
}
