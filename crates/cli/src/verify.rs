//! `oriole verify`: runs the seven verifiers on every function of a file.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::Args;
use oriole_cubin::ImageKind;
use oriole_isa::{Control, Target, print};
use oriole_sim::verify::{SectionReport, Verifier, VerifierTally, VerifyFinding, verify};
use serde::Serialize;

use crate::check::read_input;
use crate::print;
use crate::sass::program::{SIZE, outcome_of_file};

/// Check machine code: control words, dependences on all paths, encoding, attributes.
///
///   $ oriole verify kernel.cubin
///   kernel.cubin: .text.kernel 0x0120: reads R4 3 cycles after the one that writes it; 5 are needed
///       0x00f0  [B------:R-:W-:-:S01]  IMAD R4, R2, R3, RZ
///       0x0120  [B------:R-:W-:-:S01]  LOP3.LUT R5, R4, 0x1, RZ, 0xc0, !PT
///   verifier       checked  findings  notes
///   completeness      5023         1      0
///   ...
///   1 finding in 1184 instructions
///
/// On these GPUs nothing but the control words keeps an instruction from reading a register before
/// the value is written, or from overwriting one that is still to be read. Seven verifiers check the
/// machine code of any compiler, each for another kind of mistake:
///
///   bounds        every control field holds something that the hardware does
///   indices       every scoreboard named exists, and its instruction can set it
///   waits         every wait finds its scoreboard set, and late enough to see it
///   completeness  every dependence between registers is covered, on all paths
///   format        every word can be read and written again; branches stay inside
///   yields        the scheduler may turn to other warps where it must
///   integrity     code, reuse cache, attributes and symbols agree
///
/// They use the latencies of the target (`oriole profile` prints them) and hold for any input. Exit
/// status 0 if there is nothing to report, 1 otherwise, also for a file without machine code, 2 if a
/// file cannot be read; notes (`--notes`) do not count.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct VerifyArguments {
    /// Cubins, fatbins, object files, executables or libraries; `-` is standard input
    #[arg(required_unless_present = "list", value_name = "FILE")]
    files: Vec<String>,
    /// Run only these verifiers, separated by commas
    #[arg(long, value_delimiter = ',', value_parser = verifier_named, value_name = "NAME,...")]
    only: Vec<Verifier>,
    /// List the verifiers and what each makes sure of
    #[arg(long)]
    list: bool,
    /// Show oddities too that cannot do harm, such as waiting for a scoreboard that nothing sets
    #[arg(long)]
    notes: bool,
    /// Print one JSON object for each finding, with the verifier's name
    #[arg(long)]
    json: bool,
    /// Findings to show for each function
    #[arg(long, default_value_t = 20, value_name = "N")]
    show: usize,
}

fn verifier_named(name: &str) -> Result<Verifier, String> {
    let known: Vec<&str> = Verifier::ALL.iter().map(|verifier| verifier.name()).collect();
    Verifier::named(name).ok_or_else(|| format!("the verifiers are {}", known.join(", ")))
}

/// Sums over all files.
#[derive(Default)]
struct VerifyTotals {
    instructions: usize,
    findings: usize,
    tallies: Vec<VerifierTally>,
}

/// A finding as JSON.
#[derive(Serialize)]
struct JsonFinding<'a> {
    file: &'a str,
    target: String,
    section: &'a str,
    verifier: &'static str,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    second: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    second_text: Option<String>,
    severity: &'static str,
    problem: &'a str,
}

pub fn run(arguments: &VerifyArguments) -> ExitCode {
    if arguments.list {
        for verifier in Verifier::ALL {
            outln!("{verifier:<13} {}", verifier.about());
        }
        return ExitCode::SUCCESS;
    }
    let mut total = VerifyTotals::default();
    let (mut failed, mut unreadable) = (false, false);
    for file in &arguments.files {
        let data = match read_input(file) {
            Ok(data) => data,
            Err(error) => {
                errln!("error: {file}: {error}");
                unreadable = true;
                continue;
            }
        };
        if let Err(message) = check_file(arguments, file, &data, &mut total) {
            errln!("error: {file}: {message}");
            failed = true;
        }
    }
    if !arguments.json {
        print::out(summary(&total).as_bytes());
    }
    match unreadable {
        true => ExitCode::from(2),
        false if failed || total.findings > 0 => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

fn summary(total: &VerifyTotals) -> String {
    let mut out = format!("{:<13} {:>10} {:>9} {:>6}\n", "verifier", "checked", "findings", "notes");
    for VerifierTally { verifier, checked, findings, notes } in &total.tallies {
        let _ = writeln!(out, "{verifier:<13} {checked:>10} {findings:>9} {notes:>6}");
    }
    let plural = if total.findings == 1 { "" } else { "s" };
    let _ = writeln!(out, "{} finding{plural} in {} instructions", total.findings, total.instructions);
    out
}

/// Verifies all cubins of a file, prints the findings, and adds them to the sums.
fn check_file(arguments: &VerifyArguments, file: &str, data: &[u8], total: &mut VerifyTotals) -> Result<(), String> {
    let verifiers = if arguments.only.is_empty() { &Verifier::ALL[..] } else { &arguments.only };
    let images = oriole_cubin::open(data).map_err(|error| error.to_string())?;
    let mut problems = Vec::new();
    let before = total.instructions;
    for image in images.iter().filter(|image| image.kind == ImageKind::Cubin) {
        let report = match image.cubin().map_err(|error| error.to_string()).and_then(|cubin| verify(&cubin, verifiers)) {
            Ok(report) => report,
            Err(problem) => {
                problems.push(problem);
                continue;
            }
        };
        for tally in report.tallies() {
            match total.tallies.iter_mut().find(|other| other.verifier == tally.verifier) {
                Some(other) => {
                    other.checked += tally.checked;
                    other.findings += tally.findings;
                    other.notes += tally.notes;
                }
                None => total.tallies.push(tally),
            }
        }
        for section in &report.sections {
            total.instructions += section.words.len();
            total.findings += section.findings.iter().filter(|finding| finding.is_hazard()).count();
            print::out(show(arguments, file, report.target, section).as_bytes());
        }
    }
    outcome_of_file(problems, total.instructions - before)
}

/// Formats the findings of a section.
fn show(arguments: &VerifyArguments, file: &str, target: Target, section: &SectionReport) -> String {
    let findings: Vec<&VerifyFinding> = section.findings.iter().filter(|finding| arguments.notes || finding.is_hazard()).collect();
    let mut out = String::new();
    for finding in findings.iter().take(if arguments.json { usize::MAX } else { arguments.show }) {
        if arguments.json {
            let _ = writeln!(out, "{}", json(file, target, section, finding));
        } else {
            text(file, target, section, finding, &mut out);
        }
    }
    if !arguments.json && findings.len() > arguments.show {
        let _ = writeln!(out, "{file}: {}: and {} more", section.name, findings.len() - arguments.show);
    }
    out
}

/// Returns the address of an instruction in bytes.
fn address(number: usize) -> u64 {
    number as u64 * SIZE
}

/// Returns the text of an instruction.
fn assembler(target: Target, section: &SectionReport, number: usize) -> String {
    print(section.words[number], target, address(number)).unwrap_or_default()
}

fn json(file: &str, target: Target, section: &SectionReport, finding: &VerifyFinding) -> String {
    let first = finding.first.or(finding.at);
    let line = JsonFinding {
        file,
        target: target.to_string(),
        section: &section.name,
        verifier: finding.verifier.name(),
        kind: finding.kind,
        first: first.map(address),
        second: finding.at.map(address),
        first_text: first.map(|number| assembler(target, section, number)),
        second_text: finding.at.map(|number| assembler(target, section, number)),
        severity: if finding.is_hazard() { "hazard" } else { "note" },
        problem: &finding.message,
    };
    serde_json::to_string(&line).unwrap_or_default()
}

fn text(file: &str, target: Target, section: &SectionReport, finding: &VerifyFinding, out: &mut String) {
    let note = if finding.is_hazard() { "" } else { "note: " };
    let place = finding.at.map_or_else(String::new, |number| format!(" {:#06x}", address(number)));
    let _ = writeln!(out, "{file}: {}{place}: {note}{} [{}]", section.name, finding.message, finding.verifier);
    for number in finding.first.into_iter().chain(finding.at) {
        let control = Control::of(section.words[number]);
        let _ = writeln!(out, "    {:#06x}  [{control}]  {}", address(number), assembler(target, section, number));
    }
}
