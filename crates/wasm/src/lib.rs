//! Oriole for WebAssembly: the functions that the demo page in `examples/web` calls.
//!
//! Every function takes bytes (PTX text or a cubin) and [`Settings`], and returns a [`Response`]: a report that is written as JSON, and the
//! output as bytes. The module [`exports`] offers them to JavaScript with numbers and memory only, so no generated bindings are needed;
//! `examples/web/oriole.mjs` is the other side. The same functions run natively, where the tests compare them with the compiler.
//!
//! There are no threads, files and clocks: the functions of a module are compiled one after another, and `oriole_driver` measures no time
//! there. The cubin is the same as that of `oriole compile`, byte for byte.

pub mod exports;
mod settings;

use oriole_cubin::{Cubin, FileTraits};
use oriole_driver::{CompileError, Fault, FunctionReport};
use oriole_explain::text::Detail;
use oriole_explain::{Failure, html, text};
use oriole_ptx::Checked;
use oriole_ptx::diag::{self, Code, Diagnostic, Style};
use oriole_ptx::source::{LineIndex, Source, Span};
use oriole_sass::control::ControlListing;
use oriole_sass::labels::Labels;
use oriole_sass::listing::Listing;
use oriole_sass::program::Program;
use serde::Serialize;
use serde_json::Value;

pub use settings::{Format, Settings};

/// The result of a call.
#[derive(Default)]
pub struct Response {
    pub report: Report,
    /// The cubin, the listing or the explanation; empty if there is none.
    pub output: Vec<u8>,
}

/// What a call reports, written as JSON.
#[derive(Serialize, Default)]
pub struct Report {
    /// Whether the input is valid and the output is complete.
    pub ok: bool,
    /// A mistake in the call itself, such as an unknown target.
    pub error: Option<String>,
    /// The target of the code.
    pub target: Option<String>,
    /// Errors and warnings, as `oriole check --json` prints them, each with its text for people in `rendered`.
    pub diagnostics: Vec<Value>,
    /// Functions that were compiled, in the order of the file.
    pub functions: Vec<FunctionData>,
}

/// The resources of a function.
#[derive(Serialize)]
pub struct FunctionData {
    pub name: String,
    pub is_kernel: bool,
    pub registers: u32,
    pub barriers: u32,
    pub stack_bytes: u32,
    pub spill_store_bytes: u32,
    pub spill_load_bytes: u32,
    pub shared_bytes: u32,
    pub instructions: usize,
}

impl From<&FunctionReport> for FunctionData {
    fn from(report: &FunctionReport) -> FunctionData {
        FunctionData {
            name: report.name.clone(),
            is_kernel: report.is_kernel,
            registers: report.registers,
            barriers: report.barriers,
            stack_bytes: report.stack_bytes,
            spill_store_bytes: report.spill_store_bytes,
            spill_load_bytes: report.spill_load_bytes,
            shared_bytes: report.shared_bytes,
            instructions: report.instructions,
        }
    }
}

impl Response {
    /// Returns the response to a mistake in the call.
    fn refused(message: impl ToString) -> Response {
        Response { report: Report { error: Some(message.to_string()), ..Report::default() }, output: Vec::new() }
    }
}

/// Returns the names of all targets, one in each line of the output.
pub fn targets() -> Response {
    let names: Vec<String> = FileTraits::all().map(|traits| traits.target.to_string()).collect();
    Response { report: Report { ok: true, ..Report::default() }, output: names.join("\n").into_bytes() }
}

/// Parses and checks PTX. There is no output.
pub fn check(ptx: &[u8], settings: &Settings) -> Response {
    let (checked, report) = checked(ptx, settings);
    Response { report: Report { ok: checked.is_valid(), ..report }, output: Vec::new() }
}

/// Compiles PTX; the output is a cubin.
pub fn compile(ptx: &[u8], settings: &Settings) -> Response {
    let (checked, mut report) = checked(ptx, settings);
    if !checked.is_valid() {
        return Response { report, output: Vec::new() };
    }
    let options = match settings.options(ptx, checked.module.target) {
        Ok(options) => options,
        Err(message) => return Response::refused(message),
    };
    report.target = Some(options.target.to_string());
    match oriole_driver::compile(&[&checked.module], &options) {
        Ok(compiled) => {
            report.functions = compiled.functions.iter().map(FunctionData::from).collect();
            report.ok = true;
            Response { report, output: compiled.cubin }
        }
        Err(errors) => {
            report.diagnostics.extend(of_errors(ptx, settings, &errors));
            Response { report, output: Vec::new() }
        }
    }
}

/// Prints the machine code of a cubin as text, as `oriole disasm` does.
pub fn disassemble(cubin: &[u8], settings: &Settings) -> Response {
    match listing(cubin, settings.control) {
        Ok((target, text)) => {
            Response { report: Report { ok: true, target: Some(target), ..Report::default() }, output: text.into_bytes() }
        }
        Err(message) => Response::refused(message),
    }
}

/// Returns the target of a cubin and its listing.
fn listing(data: &[u8], control: bool) -> Result<(String, String), String> {
    let cubin = Cubin::read(data).map_err(|error| error.to_string())?;
    let program = Program::new(&cubin)?;
    let labels = Labels::new(&program);
    let mut text = String::new();
    if control {
        ControlListing::new(&program, &labels, false).file(&mut text, &|_| true)?;
    } else {
        let mut listing = Listing::new(&program, &labels);
        listing.header(&mut text);
        for position in 0..program.sections.len() {
            listing.section(&mut text, position);
        }
    }
    Ok((cubin.target_name(), text))
}

/// Compiles PTX and explains the result; the output has the format of the settings.
pub fn explain(ptx: &[u8], settings: &Settings) -> Response {
    let (checked, mut report) = checked(ptx, settings);
    if !checked.is_valid() {
        return Response { report, output: Vec::new() };
    }
    let compiler = match settings.options(ptx, checked.module.target) {
        Ok(options) => options,
        Err(message) => return Response::refused(message),
    };
    report.target = Some(compiler.target.to_string());
    let options = oriole_explain::Options { compiler: compiler.clone(), ..oriole_explain::Options::new(compiler.target) };
    let explanation = match oriole_explain::explain_module(&settings.name, ptx, &checked.module, &options) {
        Ok(explanation) => explanation,
        Err(Failure::Invalid(findings)) => {
            report.diagnostics.extend(of_findings(ptx, settings, &findings));
            return Response { report, output: Vec::new() };
        }
        Err(Failure::Compile(errors)) => {
            report.diagnostics.extend(of_errors(ptx, settings, &errors));
            return Response { report, output: Vec::new() };
        }
        Err(Failure::File(message)) => return Response::refused(message),
    };
    let output = match settings.format {
        Format::Text => text::write(&explanation, Detail::Full),
        Format::Summary => text::write(&explanation, Detail::Summary),
        Format::Html => html::write(&explanation),
        Format::Json => match serde_json::to_string(&explanation) {
            Ok(text) => text,
            Err(error) => return Response::refused(error),
        },
    };
    report.ok = true;
    Response { report, output: output.into_bytes() }
}

/// Checks PTX; returns the module and a report with the findings.
fn checked(ptx: &[u8], settings: &Settings) -> (Checked, Report) {
    let checked = oriole_ptx::check(ptx, &oriole_ptx::Options::default());
    let diagnostics = of_findings(ptx, settings, &checked.diagnostics);
    (checked, Report { diagnostics, ..Report::default() })
}

/// Converts findings of the front end to JSON.
fn of_findings(ptx: &[u8], settings: &Settings, findings: &[Diagnostic]) -> Vec<Value> {
    if findings.is_empty() {
        return Vec::new();
    }
    let (source, lines) = (Source::new(&settings.name, ptx), LineIndex::new(ptx));
    let convert = |finding: &Diagnostic| {
        let mut value = serde_json::to_value(diag::to_json(&source, &lines, finding)).unwrap_or_default();
        if let Some(fields) = value.as_object_mut() {
            fields.insert("rendered".to_owned(), Value::from(diag::render(&source, &lines, finding, Style::Plain)));
        }
        value
    };
    findings.iter().map(convert).collect()
}

/// Converts errors of the compiler to JSON, with the codes of `oriole compile`.
fn of_errors(ptx: &[u8], settings: &Settings, errors: &[CompileError]) -> Vec<Value> {
    let finding = |error: &CompileError| {
        let code = match error.fault {
            Fault::Unsupported(_) => Code::Unsupported,
            Fault::Unresolved(_) => Code::UnknownName,
            Fault::Limit(_) | Fault::TooMuch(_) => Code::ResourceLimit,
            Fault::Internal(_) | Fault::Cancelled => Code::InternalError,
        };
        Diagnostic::new(code, error.span.unwrap_or(Span::new(0, 0)), error.to_string())
    };
    of_findings(ptx, settings, &errors.iter().map(finding).collect::<Vec<_>>())
}
