//! `oriole codes`: lists the codes of errors and warnings, and explains one with an example.

use std::process::ExitCode;

use clap::Args;
use oriole_ptx::diag::{self, Diagnostic, DiagnosticCode, Style};
use oriole_ptx::source::{LineIndex, Source};

use crate::compile_file::diagnostics;
use crate::print;

/// List the codes of errors and warnings, or explain one with an example.
#[derive(Args)]
pub struct CodesArguments {
    /// A code such as E0702
    code: Option<String>,
}

/// A module for each code that has an example.
const EXAMPLES: &str = include_str!("../data/code_examples.txt");

/// Name of the example in messages.
const FILE: &str = "example.ptx";

pub fn run(arguments: &CodesArguments) -> ExitCode {
    let Some(wanted) = arguments.code.as_deref().map(str::to_ascii_uppercase) else {
        let lines: String = DiagnosticCode::ALL.iter().map(|code| format!("{}  {}\n", code.name(), code.summary())).collect();
        print::out(lines.as_bytes());
        return ExitCode::SUCCESS;
    };
    let Some(code) = DiagnosticCode::ALL.iter().copied().find(|code| code.name() == wanted) else {
        let near = oriole_support::closest(&wanted, DiagnosticCode::ALL.iter().map(|code| code.name()));
        errln!("error: there is no code {wanted}{}", near.map_or(String::new(), |near| format!("; did you mean {near}?")));
        return ExitCode::from(2);
    };
    let mut text = format!("{}  {}\n", code.name(), code.summary());
    if let Some(example) = example(code) {
        text += "\nExample:\n\n";
        text += &rendered(example);
    }
    print::out(text.as_bytes());
    ExitCode::SUCCESS
}

/// Returns the example for a code. Some codes have none: errors that take gigabytes of input, and gaps and faults of Oriole.
fn example(code: DiagnosticCode) -> Option<&'static str> {
    let mut examples = EXAMPLES.split("\n=== ").skip(1).filter_map(|example| example.split_once('\n'));
    examples.find(|(name, _)| *name == code.name()).map(|(_, text)| text)
}

/// Returns the diagnostics of the front end for an example, or those of the compiler if the front end has none.
fn findings(text: &str) -> Vec<Diagnostic> {
    let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
    if !checked.is_valid() || !checked.diagnostics.is_empty() {
        return checked.diagnostics;
    }
    let options = oriole_driver::Options::new(checked.module.target);
    oriole_driver::compile(&[&checked.module], &options).err().map_or_else(Vec::new, |errors| diagnostics(&errors))
}

/// Returns the messages for an example.
fn rendered(text: &str) -> String {
    let (source, lines) = (Source::new(FILE, text.as_bytes()), LineIndex::new(text.as_bytes()));
    findings(text).iter().map(|finding| diag::render(&source, &lines, finding, Style::Plain) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Codes without an example: they take gigabytes of input or a gap or fault of Oriole itself.
    const WITHOUT: [&str; 4] = ["E0109", "E0607", "E1201", "E1203"];

    #[test]
    fn every_example_shows_its_code() {
        for &code in DiagnosticCode::ALL {
            let Some(text) = example(code) else {
                assert!(WITHOUT.contains(&code.name()), "{} has no example", code.name());
                continue;
            };
            let found: Vec<&str> = findings(text).iter().map(|finding| finding.code.name()).collect();
            assert_eq!(found, [code.name()], "{text}");
        }
    }
}
