//! The native module of the Python package: `oriole._oriole`.
//!
//! The functions take bytes, texts and numbers and return dictionaries and texts; the classes that users see are written in Python
//! (`python/oriole`) and call these functions. Every function that reads PTX or machine code releases the interpreter lock while it works.
//! Mistakes in arguments raise `ValueError` or `TypeError`. Errors in PTX are part of the result, and `python/oriole` raises them.

mod diagnostics;
mod machine_code;
mod settings;
mod work;

use oriole_driver::{Compiled, FunctionReport};
use oriole_explain::text::Detail;
use oriole_explain::{Explanation, Failure, html, text};
use oriole_ptx::source::{LineIndex, Source};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use diagnostics::DiagnosticData;
use machine_code::{FileData, FindingData};
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

/// The resources of a function that was just compiled.
#[derive(IntoPyObject)]
struct FunctionData {
    name: String,
    is_kernel: bool,
    registers: u32,
    barriers: u32,
    stack_bytes: u32,
    spill_store_bytes: u32,
    spill_load_bytes: u32,
    shared_bytes: u32,
    instructions: usize,
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

/// A compiled file with the resources of its functions and the remarks of the compiler.
type CompiledData = (Py<PyBytes>, String, Vec<FunctionData>, Vec<String>);

/// Compiles PTX. Returns the file, or nothing if there are errors, and all diagnostics.
#[pyfunction]
#[pyo3(signature = (ptx, name, settings))]
fn compile(py: Python<'_>, ptx: &[u8], name: &str, settings: Settings) -> PyResult<(Option<CompiledData>, Vec<DiagnosticData>)> {
    let (result, diagnostics) = py.detach(|| work::on_large_stack(|| compile_module(ptx, name, &settings)))?;
    let data = result.map(|(compiled, target, remarks)| {
        let functions = compiled.functions.iter().map(FunctionData::from).collect();
        (PyBytes::new(py, &compiled.cubin).unbind(), target, functions, remarks)
    });
    Ok((data, diagnostics))
}

/// A compiled file, the name of its target, and the remarks of the compiler.
type CompiledModule = (Compiled, String, Vec<String>);

fn compile_module(ptx: &[u8], name: &str, settings: &Settings) -> Result<(Option<CompiledModule>, Vec<DiagnosticData>), Problem> {
    let source = Source::new(name, ptx);
    let checked = oriole_ptx::check(ptx, &oriole_ptx::Options::default());
    let mut diagnostics = diagnostics::of_findings(&source, &checked.diagnostics);
    if !checked.is_valid() {
        return Ok((None, diagnostics));
    }
    let options = settings.options(ptx, &checked.module)?;
    match oriole_driver::compile(&[&checked.module], &options) {
        Ok(compiled) => {
            let lines = LineIndex::new(ptx);
            let warnings = compiled.functions.iter().flat_map(|function| function.warnings.iter().cloned());
            let remarks = compiled.functions.iter().flat_map(|function| &function.remarks).map(|remark| match remark.offset {
                Some(offset) => format!("{name}:{}: {}", lines.line_column(offset).0, remark.text),
                None => remark.text.to_owned(),
            });
            let remarks = warnings.chain(remarks).collect();
            Ok((Some((compiled, options.target.to_string(), remarks)), diagnostics))
        }
        Err(errors) => {
            diagnostics.extend(diagnostics::of_errors(&source, &errors));
            Ok((None, diagnostics))
        }
    }
}

/// Parses and checks PTX; returns all errors and warnings, at most `error_limit` errors.
#[pyfunction]
fn check(py: Python<'_>, ptx: &[u8], name: &str, error_limit: i64) -> PyResult<Vec<DiagnosticData>> {
    let limit = usize::try_from(error_limit).ok().filter(|&limit| limit > 0);
    let error_limit = limit.ok_or_else(|| Problem::Value("error_limit must be at least 1".to_owned()))?;
    let findings = py.detach(|| {
        work::on_large_stack(|| {
            let checked = oriole_ptx::check(ptx, &oriole_ptx::Options { error_limit });
            Ok(diagnostics::of_findings(&Source::new(name, ptx), &checked.diagnostics))
        })
    })?;
    Ok(findings)
}

/// Returns the cubin in a file, its target, and its functions.
#[pyfunction]
#[pyo3(signature = (data, arch))]
fn read(py: Python<'_>, data: &[u8], arch: Option<&str>) -> PyResult<(Py<PyBytes>, FileData)> {
    let (bytes, file) = py.detach(|| work::on_large_stack(|| machine_code::read(data, arch)))?;
    Ok((PyBytes::new(py, &bytes).unbind(), file))
}

/// Returns the text of the machine code of a cubin.
#[pyfunction]
#[pyo3(signature = (data, kernel, control))]
fn disassemble(py: Python<'_>, data: &[u8], kernel: Option<&str>, control: bool) -> PyResult<String> {
    Ok(py.detach(|| work::on_large_stack(|| machine_code::disassemble(data, kernel, control)))?)
}

/// Runs verifiers on a cubin: those named, or all if there are none.
#[pyfunction]
fn verify(py: Python<'_>, data: &[u8], only: Vec<String>, notes: bool) -> PyResult<Vec<FindingData>> {
    Ok(py.detach(|| work::on_large_stack(|| machine_code::verify(data, &only, notes)))?)
}

/// Compiles PTX and explains the result. Returns the explanation in a format, or nothing if there are errors, and all diagnostics.
#[pyfunction]
fn explain_ptx(
    py: Python<'_>,
    ptx: &[u8],
    name: &str,
    settings: Settings,
    functions: Vec<String>,
    format: &str,
) -> PyResult<(Option<String>, Vec<DiagnosticData>)> {
    let result = py.detach(|| {
        work::on_large_stack(|| {
            let source = Source::new(name, ptx);
            let checked = oriole_ptx::check(ptx, &oriole_ptx::Options::default());
            let mut diagnostics = diagnostics::of_findings(&source, &checked.diagnostics);
            if !checked.is_valid() {
                return Ok((None, diagnostics));
            }
            let compiler = settings.options(ptx, &checked.module)?;
            let options = oriole_explain::Options { functions, ..oriole_explain::Options::new(compiler.target) };
            match oriole_explain::explain_module(name, ptx, &checked.module, &oriole_explain::Options { compiler, ..options }) {
                Ok(explanation) => Ok((Some(written(&explanation, format)?), diagnostics)),
                Err(Failure::Invalid(findings)) => {
                    diagnostics.extend(diagnostics::of_findings(&source, &findings));
                    Ok((None, diagnostics))
                }
                Err(Failure::Compile(errors)) => {
                    diagnostics.extend(diagnostics::of_errors(&source, &errors));
                    Ok((None, diagnostics))
                }
                Err(Failure::File(message)) => Err(Problem::Value(message)),
            }
        })
    })?;
    Ok(result)
}

/// Explains the machine code of a cubin in a format.
#[pyfunction]
fn explain_cubin(py: Python<'_>, data: &[u8], name: &str, functions: Vec<String>, format: &str) -> PyResult<String> {
    let text = py.detach(|| {
        work::on_large_stack(|| {
            let target = machine_code::target_of(data)?;
            let options = oriole_explain::Options { functions, ..oriole_explain::Options::new(target) };
            let explanation = oriole_explain::explain_cubin(name, data, Some(&options)).map_err(Problem::Value)?;
            written(&explanation, format)
        })
    })?;
    Ok(text)
}

/// Writes an explanation as JSON, text, a summary or a page.
fn written(explanation: &Explanation, format: &str) -> Result<String, Problem> {
    match format {
        "json" => serde_json::to_string(explanation).map_err(|error| Problem::Internal(error.to_string())),
        "text" => Ok(text::write(explanation, Detail::Full)),
        "summary" => Ok(text::write(explanation, Detail::Summary)),
        "html" => Ok(html::write(explanation)),
        other => Err(Problem::Value(format!("there is no format {other}; there are json, text, summary, html"))),
    }
}

/// Returns the names of all targets.
#[pyfunction]
fn targets() -> Vec<String> {
    settings::target_names()
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
