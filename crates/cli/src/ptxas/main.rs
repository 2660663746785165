//! `ptxas`: Oriole with ptxas' options, message formats and exit codes.
//!
//! Other programs call it and parse its output: Triton and XLA match the text of `--version` and some messages; build tools use the exit
//! codes. The behaviour was determined by running ptxas 13.0.88 and is followed even where it is odd.

mod arch;
mod command_line;
mod generate;
#[path = "../guard.rs"]
mod guard;
mod help;
mod messages;
#[path = "../output.rs"]
mod output;
#[path = "../print.rs"]
mod print;
mod program;
mod settings;
mod table;

use std::process::ExitCode;

use command_line::CommandLine;
use messages::{Messages, Warnings};
use program::Input;
use settings::Settings;

/// Exit status for any mistake in PTX, options or file names, and for write errors.
const FAILURE: u8 = 255;

/// How bugs of the compiler itself are reported.
const PROGRAM: guard::Program = guard::Program { name: "ptxas (Oriole)", prefix: "ptxas fatal   : ", status: FAILURE };

fn main() -> ExitCode {
    guard::run(&PROGRAM, || {
        guard::provoke();
        call()
    })
}

fn call() -> ExitCode {
    let arguments = std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned());
    let code = match CommandLine::parse(arguments) {
        Ok(line) => run(&line),
        Err(text) => fail(&text),
    };
    print::finish(code, FAILURE)
}

/// Runs a parsed command line; returns the exit code.
fn run(line: &CommandLine) -> ExitCode {
    for warning in &line.warnings {
        messages::print(None, "warning", warning);
    }
    let files = line.files.iter().cloned().map(Input::File);
    let texts = line.values("input-as-string").iter().cloned().map(Input::Text);
    let inputs: Vec<Input> = files.chain(texts).collect();
    if line.has("help") {
        return show(&help::help());
    } else if line.has("version") {
        return show(&help::version());
    } else if line.has("list-version") {
        return show(&help::list_versions());
    } else if inputs.is_empty() {
        return show(&help::help());
    }
    compile(line, &inputs)
}

/// Checks the inputs and generates code if the options request it.
fn compile(line: &CommandLine, inputs: &[Input]) -> ExitCode {
    let warnings = match (line.has("warning-as-error"), line.has("disable-warnings")) {
        (_, true) => Warnings::Hidden,
        (true, false) => Warnings::Errors,
        (false, false) => Warnings::Shown,
    };
    let mut messages = Messages::new(warnings);
    if line.has("verbose") {
        for option in line.without_effect() {
            messages::print(None, "info", &format!("Option '--{option}' has no effect in Oriole"));
        }
    }
    let settings = match Settings::new(line, &mut messages) {
        Ok(settings) => settings,
        Err(text) => return fail(&text),
    };
    let modules = match program::check(inputs, &settings, &mut messages) {
        Ok(modules) => modules,
        Err(text) => return fail(&text),
    };
    if messages.has_errors() {
        return fail("Ptx assembly aborted due to errors");
    }
    if !settings.wants_code {
        return ExitCode::SUCCESS;
    }
    match generate::generate(&modules, &settings, line, &mut messages) {
        Ok(()) if messages.is_aborted() => fail("Ptx assembly aborted due to errors"),
        Ok(()) if messages.has_errors() => ExitCode::from(FAILURE),
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => fail(&text),
    }
}

fn show(text: &str) -> ExitCode {
    print::out(text.as_bytes());
    ExitCode::SUCCESS
}

fn fail(text: &str) -> ExitCode {
    messages::print(None, "fatal", text);
    ExitCode::from(FAILURE)
}
