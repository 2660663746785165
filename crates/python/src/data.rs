//! Converts results of the library to dictionaries.

use oriole::{Cubin, Diagnostic, Finding, FindingSeverity, Function};
use pyo3::prelude::*;

/// An error or a warning. Lines and columns count from 1; they are `None` if the message concerns the whole module.
#[derive(IntoPyObject)]
pub struct DiagnosticData {
    severity: &'static str,
    code: &'static str,
    message: String,
    line: Option<u32>,
    column: Option<u32>,
    end_line: Option<u32>,
    end_column: Option<u32>,
    label: Option<String>,
    notes: Vec<String>,
    help: Option<String>,
    /// The text that the command line tool prints.
    rendered: String,
}

impl From<&Diagnostic> for DiagnosticData {
    fn from(found: &Diagnostic) -> DiagnosticData {
        DiagnosticData {
            severity: found.severity.name(),
            code: found.code,
            message: found.message.clone(),
            line: found.line,
            column: found.column,
            end_line: found.end_line,
            end_column: found.end_column,
            label: found.label.clone(),
            notes: found.notes.clone(),
            help: found.help.clone(),
            rendered: found.rendered.clone(),
        }
    }
}

/// Converts errors and warnings.
pub fn diagnostics(found: &[Diagnostic]) -> Vec<DiagnosticData> {
    found.iter().map(DiagnosticData::from).collect()
}

/// The resources of a function that was just compiled.
#[derive(IntoPyObject)]
pub struct FunctionData {
    name: String,
    is_kernel: bool,
    registers: u32,
    barriers: u32,
    stack_bytes: u32,
    spill_store_bytes: u32,
    spill_load_bytes: u32,
    shared_bytes: u64,
    instructions: usize,
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

/// Target, kind and functions of a cubin.
#[derive(IntoPyObject)]
pub struct FileData {
    arch: String,
    relocatable: bool,
    functions: Vec<FileFunction>,
}

/// What a cubin says about a function.
#[derive(IntoPyObject)]
pub struct FileFunction {
    name: String,
    is_kernel: bool,
    registers: u32,
    barriers: u32,
    stack_bytes: u32,
    shared_bytes: u64,
    code_bytes: usize,
}

impl From<&Cubin> for FileData {
    fn from(cubin: &Cubin) -> FileData {
        let functions = cubin.functions().iter().map(|function| FileFunction {
            name: function.name.clone(),
            is_kernel: function.is_kernel,
            registers: function.registers,
            barriers: function.barriers,
            stack_bytes: function.stack_bytes,
            shared_bytes: function.shared_bytes,
            code_bytes: function.code_bytes,
        });
        FileData { arch: cubin.arch().to_owned(), relocatable: cubin.is_relocatable(), functions: functions.collect() }
    }
}

/// A finding of a verifier. Addresses are byte offsets in the section.
#[derive(IntoPyObject)]
pub struct FindingData {
    section: String,
    verifier: &'static str,
    kind: &'static str,
    severity: &'static str,
    message: String,
    address: Option<u64>,
    instruction: Option<String>,
    first_address: Option<u64>,
    first_instruction: Option<String>,
}

impl From<Finding> for FindingData {
    fn from(finding: Finding) -> FindingData {
        FindingData {
            section: finding.section,
            verifier: finding.verifier,
            kind: finding.kind,
            severity: if finding.severity == FindingSeverity::Hazard { "hazard" } else { "note" },
            message: finding.message,
            address: finding.address,
            instruction: finding.instruction,
            first_address: finding.first_address,
            first_instruction: finding.first_instruction,
        }
    }
}
