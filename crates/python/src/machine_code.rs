//! Reads, disassembles and verifies cubins.

use oriole_cli::sass::control::ControlListing;
use oriole_cli::sass::labels::Labels;
use oriole_cli::sass::listing::Listing;
use oriole_cli::sass::program::{Program, SIZE};
use oriole_cubin::info::Code;
use oriole_cubin::section::Content;
use oriole_cubin::{Cubin, CubinIndex, FileType, Image, ImageKind};
use oriole_isa::{SystemLayout, Target, print};
use oriole_sim::verify::{Finding, SectionReport, Verifier};
use pyo3::prelude::*;

use crate::Problem;

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

fn wrong(error: impl ToString) -> Problem {
    Problem::Value(error.to_string())
}

/// Returns the one cubin in a file, or the one for a target, with its description.
pub fn read(data: &[u8], arch: Option<&str>) -> Result<(Vec<u8>, FileData), Problem> {
    let images = oriole_cubin::open(data).map_err(wrong)?;
    let is_wanted = |image: &&Image| image.kind == ImageKind::Cubin && arch.is_none_or(|arch| arch == image.target);
    let cubins: Vec<&Image> = images.iter().filter(is_wanted).collect();
    let image = match cubins[..] {
        [one] => one,
        [] => {
            let which = arch.map_or_else(|| "machine code".to_owned(), |arch| format!("cubin for {arch}"));
            return Err(wrong(format!("there is no {which} here")));
        }
        _ => {
            let targets: Vec<&str> = cubins.iter().map(|image| &image.target[..]).collect();
            return Err(wrong(format!("there are {} cubins; `arch` chooses one of {}", cubins.len(), targets.join(", "))));
        }
    };
    let cubin = image.cubin().map_err(wrong)?;
    Ok((image.bytes.clone(), describe(&cubin)))
}

fn describe(cubin: &Cubin) -> FileData {
    let index = CubinIndex::new(cubin);
    let reserved = cubin.target().map_or(0, |target| u64::from(SystemLayout::of(target).reserved_shared));
    let functions = cubin.functions().map(|function| {
        let text = cubin.section(function.section);
        let shared = index.section_named(&format!(".nv.shared.{}", function.name)).map_or(0, |section| match &section.content {
            Content::NoBits(size) => *size,
            _ => section.bytes().map_or(0, |bytes| bytes.len() as u64),
        });
        FileFunction {
            name: function.name.to_owned(),
            is_kernel: function.is_kernel,
            registers: index.register_count(function.symbol).unwrap_or(0),
            barriers: text.map_or(0, |section| section.barrier_count(index.function_attributes(function.name))),
            stack_bytes: index.function_value(function.symbol, Code::FRAME_SIZE).unwrap_or(0),
            shared_bytes: shared.saturating_sub(reserved),
            code_bytes: function.code.len(),
        }
    });
    FileData { arch: cubin.target_name(), relocatable: cubin.header.file_type == FileType::Relocatable, functions: functions.collect() }
}

/// Returns the target of a cubin.
pub fn target_of(data: &[u8]) -> Result<Target, Problem> {
    let cubin = Cubin::read(data).map_err(wrong)?;
    cubin.target().ok_or_else(|| wrong(format!("there is no table of instructions for {}", cubin.target_name())))
}

/// Prints a cubin as `oriole disasm` does.
pub fn disassemble(data: &[u8], kernel: Option<&str>, control: bool) -> Result<String, Problem> {
    let cubin = Cubin::read(data).map_err(wrong)?;
    let program = Program::new(&cubin).map_err(wrong)?;
    let is_wanted = |function: &str| kernel.is_none_or(|kernel| kernel == function);
    if let Some(kernel) = kernel.filter(|_| !cubin.functions().any(|function| is_wanted(function.name))) {
        return Err(wrong(format!("there is no kernel or function {kernel}")));
    }
    let labels = Labels::new(&program);
    let mut text = String::new();
    if control {
        ControlListing::new(&program, &labels, false).file(&mut text, &is_wanted).map_err(wrong)?;
        return Ok(text);
    }
    let mut listing = Listing::new(&program, &labels);
    listing.header(&mut text);
    for (position, section) in program.sections.iter().enumerate() {
        if is_wanted(section.function) {
            listing.section(&mut text, position);
        }
    }
    Ok(text)
}

/// Runs the verifiers with these names, or all; returns hazards, and notes if requested.
pub fn verify(data: &[u8], only: &[String], notes: bool) -> Result<Vec<FindingData>, Problem> {
    let named = |name: &String| {
        let known: Vec<&str> = Verifier::ALL.iter().map(|verifier| verifier.name()).collect();
        Verifier::named(name).ok_or_else(|| wrong(format!("there is no verifier {name}; there are {}", known.join(", "))))
    };
    let chosen = only.iter().map(named).collect::<Result<Vec<_>, _>>()?;
    let verifiers = if chosen.is_empty() { &Verifier::ALL[..] } else { &chosen };
    let report = oriole_sim::verify::verify_cubin(data, verifiers).map_err(wrong)?;
    let shown = report.all().filter(|(_, finding)| notes || finding.is_hazard());
    Ok(shown.map(|(section, finding)| finding_data(report.target, section, finding)).collect())
}

fn finding_data(target: Target, section: &SectionReport, finding: &Finding) -> FindingData {
    let address = |number: usize| number as u64 * SIZE;
    let text = |number: usize| Some(print(*section.words.get(number)?, target, address(number)).unwrap_or_default());
    FindingData {
        section: section.name.clone(),
        verifier: finding.verifier.name(),
        kind: finding.kind,
        severity: if finding.is_hazard() { "hazard" } else { "note" },
        message: finding.message.clone(),
        address: finding.at.map(address),
        instruction: finding.at.and_then(text),
        first_address: finding.first.map(address),
        first_instruction: finding.first.and_then(text),
    }
}
