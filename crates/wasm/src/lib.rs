//! Oriole for WebAssembly: the functions that the demo page in `examples/web` calls.
//!
//! Every function takes bytes (PTX text or a cubin) and [`Settings`], and returns a [`Response`]: a report that is written as JSON, and the
//! output as bytes. The module [`exports`] offers them to JavaScript with numbers and memory only, so no generated bindings are needed;
//! `examples/web/oriole.mjs` is the other side. The same functions run natively, where the tests compare them with the compiler.
//!
//! The work is done by the crate `oriole`, the Rust library. There are no threads, files and clocks: the functions of a module are compiled
//! one after another, and `oriole_driver` measures no time there. The cubin is the same as that of `oriole compile`, byte for byte.

pub mod exports;
mod settings;

use oriole::{Cubin, Diagnostic, Error, Function, Listing};
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
    /// Errors and warnings, each with its text for people in `rendered`.
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
    pub shared_bytes: u64,
    pub instructions: usize,
}

impl From<&Function> for FunctionData {
    fn from(function: &Function) -> FunctionData {
        FunctionData {
            name: function.name.clone(),
            is_kernel: function.is_kernel,
            registers: function.registers,
            barriers: function.barriers,
            stack_bytes: function.stack_bytes,
            spill_store_bytes: function.spills.map_or(0, |spills| spills.store_bytes),
            spill_load_bytes: function.spills.map_or(0, |spills| spills.load_bytes),
            shared_bytes: function.shared_bytes,
            instructions: function.instructions.unwrap_or(0),
        }
    }
}

impl Response {
    /// Returns the response to a mistake in the call.
    fn refused(message: impl ToString) -> Response {
        Response { report: Report { error: Some(message.to_string()), ..Report::default() }, output: Vec::new() }
    }

    /// Returns the response to a call without a result: the errors in the PTX, or else a mistake in the call.
    fn failed(ptx: &[u8], error: &Error) -> Response {
        if error.diagnostics().is_empty() {
            return Response::refused(error);
        }
        Response { report: Report { diagnostics: values(ptx, error.diagnostics()), ..Report::default() }, output: Vec::new() }
    }
}

/// Returns the names of all targets, one in each line of the output.
pub fn targets() -> Response {
    Response { report: Report { ok: true, ..Report::default() }, output: oriole::targets().join("\n").into_bytes() }
}

/// Parses and checks PTX. There is no output.
pub fn check(ptx: &[u8], settings: &Settings) -> Response {
    let found = settings.compiler().and_then(|compiler| compiler.check(ptx).map_err(|error| error.to_string()));
    match found {
        Ok(found) => {
            let ok = found.iter().all(|diagnostic| diagnostic.severity != oriole::Severity::Error);
            Response { report: Report { ok, diagnostics: values(ptx, &found), ..Report::default() }, output: Vec::new() }
        }
        Err(message) => Response::refused(message),
    }
}

/// Compiles PTX; the output is a cubin.
pub fn compile(ptx: &[u8], settings: &Settings) -> Response {
    let compiler = match settings.compiler() {
        Ok(compiler) => compiler,
        Err(message) => return Response::refused(message),
    };
    match compiler.compile(ptx) {
        Ok(cubin) => {
            let report = Report {
                ok: true,
                error: None,
                target: Some(cubin.arch().to_owned()),
                diagnostics: values(ptx, cubin.warnings()),
                functions: cubin.functions().iter().map(FunctionData::from).collect(),
            };
            Response { report, output: cubin.into_bytes() }
        }
        Err(error) => Response::failed(ptx, &error),
    }
}

/// Prints the machine code of a cubin as text, as `oriole disasm` does.
pub fn disassemble(cubin: &[u8], settings: &Settings) -> Response {
    let listing = Listing { function: None, control: settings.control };
    let listed = Cubin::open(cubin, None).and_then(|cubin| Ok((cubin.arch().to_owned(), cubin.listing(&listing)?)));
    match listed {
        Ok((target, text)) => {
            Response { report: Report { ok: true, target: Some(target), ..Report::default() }, output: text.into_bytes() }
        }
        Err(error) => Response::refused(error),
    }
}

/// Compiles PTX and explains the result; the output has the format of the settings.
pub fn explain(ptx: &[u8], settings: &Settings) -> Response {
    let compiler = match settings.compiler() {
        Ok(compiler) => compiler,
        Err(message) => return Response::refused(message),
    };
    let explained = compiler.explain(ptx).and_then(|explanation| match settings.format {
        Format::Text => Ok(explanation.to_text()),
        Format::Summary => Ok(explanation.summary()),
        Format::Html => Ok(explanation.to_html()),
        Format::Json => explanation.to_json(),
    });
    match explained {
        Ok(text) => Response { report: Report { ok: true, ..Report::default() }, output: text.into_bytes() },
        Err(error) => Response::failed(ptx, &error),
    }
}

/// Converts errors and warnings to JSON. Adds the position of the marked characters in the text, in bytes: `offset` and `length`.
fn values(ptx: &[u8], found: &[Diagnostic]) -> Vec<Value> {
    if found.is_empty() {
        return Vec::new();
    }
    let ends = ptx.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(position, _)| position + 1);
    let starts: Vec<usize> = [0].into_iter().chain(ends).collect();
    let position = |line: Option<u32>, column: Option<u32>| {
        let start = starts.get(line?.checked_sub(1)? as usize)?;
        Some(start + column?.checked_sub(1)? as usize)
    };
    let convert = |diagnostic: &Diagnostic| {
        let mut value = serde_json::to_value(diagnostic).unwrap_or_default();
        let start = position(diagnostic.line, diagnostic.column).unwrap_or(0);
        let end = position(diagnostic.end_line, diagnostic.end_column).unwrap_or(start);
        if let Some(fields) = value.as_object_mut() {
            fields.insert("offset".to_owned(), Value::from(start));
            fields.insert("length".to_owned(), Value::from(end.saturating_sub(start)));
        }
        value
    };
    found.iter().map(convert).collect()
}
