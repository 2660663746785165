//! The native module of the Python package: `oriole._oriole`.
//!
//! The functions take bytes, texts and numbers and return dictionaries and texts; the classes that users see are written in Python
//! (`python/oriole`) and call these functions. The work is done by the crate `oriole`, the Rust library, which runs it on a large stack and
//! catches panics. Every function that reads PTX or machine code releases the interpreter lock while it works. Mistakes in arguments raise
//! `ValueError` or `TypeError`. Errors in PTX are part of the result, and `python/oriole` raises them.

mod data;
mod settings;

use oriole::{Compiler, Cubin, Error, ErrorKind, Explanation, FindingSeverity, Listing, Verifier};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use data::{DiagnosticData, FileData, FindingData, FunctionData, diagnostics};
use settings::Settings;

pyo3::create_exception!(_oriole, InternalError, PyRuntimeError, "A fault of Oriole itself, not of the input.");

/// The reason why a call has no result.
pub enum Problem {
    /// An argument has a wrong value; holds the message.
    Value(String),
    /// Oriole itself is at fault; holds the message.
    Internal(String),
}

impl From<Problem> for PyErr {
    fn from(problem: Problem) -> PyErr {
        match problem {
            Problem::Value(message) => PyValueError::new_err(message),
            Problem::Internal(message) => InternalError::new_err(message),
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        match error.kind() {
            ErrorKind::Internal => Problem::Internal(error.to_string()),
            _ => Problem::Value(error.to_string()),
        }
    }
}

/// Returns the diagnostics of an error about PTX. Other errors are problems.
fn found_in_ptx(error: Error) -> Result<Vec<DiagnosticData>, Problem> {
    if error.diagnostics().is_empty() { Err(error.into()) } else { Ok(diagnostics(error.diagnostics())) }
}

/// A compiled file with the resources of its functions and the remarks of the compiler.
type CompiledData = (Py<PyBytes>, String, Vec<FunctionData>, Vec<String>);

/// Compiles PTX. Returns the file, or nothing if there are errors, and all diagnostics.
#[pyfunction]
#[pyo3(signature = (ptx, name, settings))]
fn compile(py: Python<'_>, ptx: &[u8], name: &str, settings: Settings) -> PyResult<(Option<CompiledData>, Vec<DiagnosticData>)> {
    let compiler = settings.compiler(name)?;
    match py.detach(|| compiler.compile(ptx)) {
        Ok(cubin) => {
            let functions = cubin.functions().iter().map(FunctionData::from).collect();
            let bytes = PyBytes::new(py, cubin.bytes()).unbind();
            Ok((Some((bytes, cubin.arch().to_owned(), functions, cubin.remarks().to_vec())), diagnostics(cubin.warnings())))
        }
        Err(error) => Ok((None, found_in_ptx(error)?)),
    }
}

/// Parses and checks PTX; returns all errors and warnings, at most `error_limit` errors.
#[pyfunction]
fn check(py: Python<'_>, ptx: &[u8], name: &str, error_limit: i64) -> PyResult<Vec<DiagnosticData>> {
    let limit = usize::try_from(error_limit).ok().filter(|&limit| limit > 0);
    let limit = limit.ok_or_else(|| Problem::Value("error_limit must be at least 1".to_owned()))?;
    let found = py.detach(|| Compiler::new().source_name(name).error_limit(limit).check(ptx));
    Ok(diagnostics(&found.map_err(Problem::from)?))
}

/// Reads the one cubin in a file, or the one for a target.
fn open(data: &[u8], arch: Option<&str>) -> Result<Cubin, Problem> {
    Cubin::open(data, arch).map_err(Problem::from)
}

/// Returns the cubin in a file, its target, and its functions.
#[pyfunction]
#[pyo3(signature = (data, arch))]
fn read(py: Python<'_>, data: &[u8], arch: Option<&str>) -> PyResult<(Py<PyBytes>, FileData)> {
    let cubin = py.detach(|| open(data, arch))?;
    Ok((PyBytes::new(py, cubin.bytes()).unbind(), FileData::from(&cubin)))
}

/// Returns the text of the machine code of a cubin.
#[pyfunction]
#[pyo3(signature = (data, kernel, control))]
fn disassemble(py: Python<'_>, data: &[u8], kernel: Option<String>, control: bool) -> PyResult<String> {
    let listing = Listing { function: kernel, control };
    Ok(py.detach(|| open(data, None)?.listing(&listing).map_err(Problem::from))?)
}

/// Runs verifiers on a cubin: those named, or all if there are none.
#[pyfunction]
fn verify(py: Python<'_>, data: &[u8], only: Vec<String>, notes: bool) -> PyResult<Vec<FindingData>> {
    let named = |name: &String| {
        let known: Vec<&str> = Verifier::ALL.iter().map(|verifier| verifier.name()).collect();
        Verifier::named(name).ok_or_else(|| Problem::Value(format!("there is no verifier {name}; there are {}", known.join(", "))))
    };
    let chosen = only.iter().map(named).collect::<Result<Vec<_>, _>>()?;
    let verifiers = if chosen.is_empty() { &Verifier::ALL[..] } else { &chosen };
    let findings = py.detach(|| open(data, None)?.findings(verifiers).map_err(Problem::from))?;
    let shown = findings.into_iter().filter(|finding| notes || finding.severity == FindingSeverity::Hazard);
    Ok(shown.map(FindingData::from).collect())
}

/// Compiles PTX and explains the result. Returns the explanation in a format, or nothing and all diagnostics if there are errors.
#[pyfunction]
fn explain_ptx(
    py: Python<'_>,
    ptx: &[u8],
    name: &str,
    settings: Settings,
    functions: Vec<String>,
    format: &str,
) -> PyResult<(Option<String>, Vec<DiagnosticData>)> {
    let compiler = functions.into_iter().fold(settings.compiler(name)?, Compiler::explain_function);
    match py.detach(|| compiler.explain(ptx)) {
        Ok(explanation) => Ok((Some(written(&explanation, format)?), Vec::new())),
        Err(error) => Ok((None, found_in_ptx(error)?)),
    }
}

/// Explains the machine code of a cubin in a format.
#[pyfunction]
fn explain_cubin(py: Python<'_>, data: &[u8], name: &str, functions: Vec<String>, format: &str) -> PyResult<String> {
    let explanation = py.detach(|| open(data, None)?.explain_functions(name, functions).map_err(Problem::from))?;
    Ok(written(&explanation, format)?)
}

/// Writes an explanation as JSON, text, a summary or a page.
fn written(explanation: &Explanation, format: &str) -> Result<String, Problem> {
    match format {
        "json" => explanation.to_json().map_err(Problem::from),
        "text" => Ok(explanation.to_text()),
        "summary" => Ok(explanation.summary()),
        "html" => Ok(explanation.to_html()),
        other => Err(Problem::Value(format!("there is no format {other}; there are json, text, summary, html"))),
    }
}

/// Returns the names of all targets.
#[pyfunction]
fn targets() -> Vec<String> {
    oriole::targets()
}

#[pymodule]
fn _oriole(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("InternalError", module.py().get_type::<InternalError>())?;
    module.add_function(wrap_pyfunction!(compile, module)?)?;
    module.add_function(wrap_pyfunction!(check, module)?)?;
    module.add_function(wrap_pyfunction!(read, module)?)?;
    module.add_function(wrap_pyfunction!(disassemble, module)?)?;
    module.add_function(wrap_pyfunction!(verify, module)?)?;
    module.add_function(wrap_pyfunction!(explain_ptx, module)?)?;
    module.add_function(wrap_pyfunction!(explain_cubin, module)?)?;
    module.add_function(wrap_pyfunction!(targets, module)?)?;
    Ok(())
}
