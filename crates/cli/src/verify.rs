//! `oriole verify`: is every register read late enough and overwritten late enough, on every path?

use std::fmt::Write as _;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use oriole_cubin::ImageKind;
use oriole_hardware::Model;
use oriole_isa::{Instruction, decode, print};
use oriole_sim::hazard::{Finding, Severity, check_function};
use serde::Serialize;

use crate::check::read_input;
use crate::sass::program::{CodeSection, Program, SIZE};

/// Check the control words of machine code.
///
///   $ oriole verify kernel.cubin
///   kernel.cubin: .text.kernel 0x0120: reads R4 3 cycles after the one that writes it; 5 are needed
///       0x00f0  [B------:R-:W-:-:S01]  IMAD R4, R2, R3, RZ
///       0x0120  [B------:R-:W-:-:S01]  LOP3.LUT R5, R4, 0x1, RZ, 0xc0, !PT
///   1 finding in 1184 instructions
///
/// On these GPUs nothing but the control words keeps an instruction from reading a register before
/// the value is there, or from overwriting one that is still to be read. This walks all paths of each
/// function with the latencies of the target (`oriole profile` prints them) and reports every pair of
/// instructions that may meet too early, whatever the input. It works on the bytes: on cubins that
/// Oriole made and on those of others. Exit status 0 if there is nothing to report, 1 otherwise; notes
/// (`--notes`) do not count.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct VerifyArguments {
    /// Cubins, fatbins, object files, executables or libraries; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    /// Show oddities too that cannot do harm, such as waiting for a scoreboard that nothing sets
    #[arg(long)]
    notes: bool,
    /// Print one JSON object for each finding
    #[arg(long)]
    json: bool,
    /// Findings to show for each function
    #[arg(long, default_value_t = 20, value_name = "N")]
    show: usize,
}

#[derive(Default)]
struct Counts {
    instructions: usize,
    findings: usize,
}

#[derive(Serialize)]
struct JsonFinding<'a> {
    file: &'a str,
    target: String,
    section: &'a str,
    first: u64,
    second: u64,
    first_text: String,
    second_text: String,
    severity: &'static str,
    problem: String,
}

pub fn run(arguments: &VerifyArguments) -> ExitCode {
    let mut total = Counts::default();
    let mut failed = false;
    for file in &arguments.files {
        if let Err(message) = check_file(arguments, file, &mut total) {
            eprintln!("error: {file}: {message}");
            failed = true;
        }
    }
    if !arguments.json {
        let plural = if total.findings == 1 { "" } else { "s" };
        let _ = writeln!(io::stdout(), "{} finding{plural} in {} instructions", total.findings, total.instructions);
    }
    if failed || total.findings > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn check_file(arguments: &VerifyArguments, file: &str, total: &mut Counts) -> Result<(), String> {
    let data = read_input(file).map_err(|error| error.to_string())?;
    let images = oriole_cubin::open(&data).map_err(|error| error.to_string())?;
    for image in images.iter().filter(|image| image.kind == ImageKind::Cubin) {
        let cubin = image.cubin().map_err(|error| error.to_string())?;
        let program = Program::new(&cubin)?;
        for section in &program.sections {
            let code = decoded(&program, section)?;
            let findings = findings_of(&program, section, &code, Model::of(program.target));
            total.instructions += code.len();
            total.findings += findings.iter().filter(|finding| is_hazard(finding)).count();
            let findings: Vec<&Finding> = findings.iter().filter(|finding| arguments.notes || is_hazard(finding)).collect();
            let mut out = String::new();
            for finding in findings.iter().take(if arguments.json { usize::MAX } else { arguments.show }) {
                report(arguments, file, &program, section, finding, &mut out);
            }
            if !arguments.json && findings.len() > arguments.show {
                let _ = writeln!(out, "{file}: {}: and {} more", section.name, findings.len() - arguments.show);
            }
            // A closed pipe is no reason to fail.
            let _ = io::stdout().lock().write_all(out.as_bytes());
        }
    }
    Ok(())
}

fn decoded(program: &Program<'_>, section: &CodeSection<'_>) -> Result<Vec<Instruction>, String> {
    let unknown = |index: usize| format!("{} {:#06x}: the instruction table does not know this word", section.name, index as u64 * SIZE);
    section.words.iter().enumerate().map(|(index, &word)| decode(word, program.target).ok_or_else(|| unknown(index))).collect()
}

/// Whether results may be wrong.
pub fn is_hazard(finding: &Finding) -> bool {
    finding.problem.severity() == Severity::Hazard
}

/// Hazards of a section with these instructions, by the figures of a model.
pub fn findings_of(program: &Program<'_>, section: &CodeSection<'_>, code: &[Instruction], model: &Model) -> Vec<Finding> {
    let number = |address: u64| (address / SIZE) as usize;
    let entries: Vec<usize> = section.symbols.iter().map(|&symbol| number(program.cubin.symbols()[symbol].value)).collect();
    let indirect = |branch: usize| {
        let targets = section.branch_targets_at(branch as u64 * SIZE).unwrap_or_default();
        targets.iter().map(|&target| number(target.into())).collect()
    };
    check_function(code, &entries, &indirect, model)
}

fn report(arguments: &VerifyArguments, file: &str, program: &Program<'_>, section: &CodeSection<'_>, finding: &Finding, out: &mut String) {
    let address = |number: usize| number as u64 * SIZE;
    let text = |number: usize| print(section.words[number], program.target, address(number)).unwrap_or_default();
    if arguments.json {
        let line = JsonFinding {
            file,
            target: program.target.to_string(),
            section: section.name,
            first: address(finding.first),
            second: address(finding.second),
            first_text: text(finding.first),
            second_text: text(finding.second),
            severity: if is_hazard(finding) { "hazard" } else { "note" },
            problem: finding.problem.to_string(),
        };
        let _ = writeln!(out, "{}", serde_json::to_string(&line).unwrap_or_default());
        return;
    }
    let note = if is_hazard(finding) { "" } else { "note: " };
    let _ = writeln!(out, "{file}: {} {:#06x}: {note}{}", section.name, address(finding.second), finding.problem);
    let line = |number: usize| {
        let control = oriole_isa::Control::of(section.words[number]);
        format!("    {:#06x}  [{control}]  {}", address(number), text(number))
    };
    if finding.first != finding.second {
        let _ = writeln!(out, "{}", line(finding.first));
    }
    let _ = writeln!(out, "{}", line(finding.second));
}
