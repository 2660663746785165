//! `oriole check`: parses and checks PTX.

use std::io::Read;
use std::process::ExitCode;
use std::{fs, io};

use clap::Args;
use oriole_ptx::ast::{FunctionKind, Module};
use oriole_ptx::diag::{self, Severity, Style};
use oriole_ptx::source::{LineIndex, Source};
use oriole_ptx::{Checked, Options};
use oriole_ptxas::file_name::unescape;

use crate::print;

/// Parse and check PTX files; no GPU and no CUDA needed.
///
/// Every error has a stable code, a place, and where possible a suggestion:
///
///   $ oriole check kernel.ptx
///   error[E0702]: no instruction has a modifier `.golbal`
///    --> kernel.ptx:14:5
///     |
///  14 |   ld.golbal.f32 %f1, [%rd1];
///     |     ^^^^^^^
///     |
///     = help: did you mean `.global`?
///
/// `oriole codes` explains the codes.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct CheckArguments {
    /// PTX files; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    /// Print findings as JSON, one object a line
    #[arg(long)]
    json: bool,
    /// Print the module as Oriole understood it, in canonical form
    #[arg(long)]
    print: bool,
    /// Do not print warnings
    #[arg(short = 'w', long)]
    no_warnings: bool,
    /// Print findings only, nothing about valid files
    #[arg(short, long)]
    quiet: bool,
    /// Stop after this many errors in a file
    #[arg(long, default_value_t = 100, value_name = "N")]
    error_limit: usize,
}

pub fn run(arguments: &CheckArguments, style: Style) -> ExitCode {
    let mut all_valid = true;
    for file in &arguments.files {
        match read_input(file) {
            Ok(text) => all_valid &= check_file(arguments, file, &text, style),
            Err(error) => {
                errln!("error: {file}: {error}");
                return ExitCode::from(2);
            }
        }
    }
    if all_valid { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

/// Checks one file and reports its findings; returns whether it is valid.
fn check_file(arguments: &CheckArguments, file: &str, text: &[u8], style: Style) -> bool {
    let name = if file == "-" { "<stdin>" } else { file };
    let checked = oriole_ptx::check(text, &Options { error_limit: arguments.error_limit });
    report(arguments, &Source::new(name, text), &checked, style);
    let valid = checked.is_valid();
    if arguments.print && valid {
        print::out(oriole_ptx::print(&checked.module).as_bytes());
    } else if valid && !arguments.json && !arguments.quiet {
        outln!("{name}: valid, {}", summarize(&checked.module));
    }
    // The process ends soon. Freeing millions of small allocations would take longer than the check.
    std::mem::forget(checked);
    valid
}

/// Describes the contents of a module: version, target, and the numbers of kernels, functions and instructions.
fn summarize(module: &Module) -> String {
    let bodies = module.functions.iter().filter_map(|function| Some((function.kind, function.body.as_ref()?)));
    let (mut kernels, mut functions, mut instructions) = (0, 0, 0);
    for (kind, body) in bodies {
        match kind {
            FunctionKind::Entry => kernels += 1,
            FunctionKind::Function => functions += 1,
        }
        instructions += body.instructions.len();
    }
    let mut text = format!("PTX {} for {}", module.version, module.target);
    for (count, what) in [(kernels, "kernel"), (functions, "function"), (instructions, "instruction")] {
        if count > 0 {
            text += &format!(", {count} {what}{}", if count == 1 { "" } else { "s" });
        }
    }
    text
}

/// Prints the findings, as JSON or as text.
fn report(arguments: &CheckArguments, source: &Source<'_>, checked: &Checked, style: Style) {
    let shown = checked.diagnostics.iter().filter(|finding| !arguments.no_warnings || finding.code.severity() == Severity::Error);
    let shown: Vec<_> = shown.collect();
    if shown.is_empty() {
        return;
    }
    let lines = LineIndex::new(source.text);
    let mut out = String::new();
    for finding in &shown {
        if arguments.json {
            out += &serde_json::to_string(&diag::to_json(source, &lines, finding)).unwrap_or_default();
            out.push('\n');
        } else {
            out += &diag::render(source, &lines, finding, style);
            out.push('\n');
        }
    }
    if arguments.json {
        print::out(out.as_bytes());
        return;
    }
    let errors = shown.iter().filter(|finding| finding.code.severity() == Severity::Error).count();
    if errors > 0 {
        let plural = if errors == 1 { "" } else { "s" };
        let stopped = if errors >= arguments.error_limit { "; stopped here" } else { "" };
        out += &format!("{}: {errors} error{plural}{stopped}\n", source.name);
    }
    print::error(out.as_bytes());
}

/// Reads a file, or standard input for `-`.
pub fn read_input(file: &str) -> io::Result<Vec<u8>> {
    if file != "-" {
        return fs::read(unescape(file));
    }
    let mut text = Vec::new();
    io::stdin().lock().read_to_end(&mut text)?;
    Ok(text)
}
