//! `ptxas`: Oriole with ptxas' options, message formats and exit codes.
//!
//! Other programs call it and parse its output: Triton and XLA match the text of `--version` and some messages; build tools use the exit
//! codes. `oriole-ptxas` does the work; here are the streams, the output file and the exit code.

mod guard;
mod output;
mod print;

use std::process::ExitCode;

use oriole_ptxas::{Kind, Message, Outcome};

/// Exit status for any mistake in PTX, options or file names, and for write errors.
const FAILURE: u8 = 255;

/// How bugs of the compiler itself are reported.
const PROGRAM: guard::Program = guard::Program { name: "ptxas (Oriole)", prefix: "ptxas fatal   : ", status: FAILURE };

fn main() -> ExitCode {
    guard::run(&PROGRAM, || {
        guard::provoke();
        print::finish(call(), FAILURE)
    })
}

fn call() -> ExitCode {
    let arguments = std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned());
    match oriole_ptxas::run(arguments, Vec::new(), &mut show) {
        Outcome::Text(text) => print::out(text.as_bytes()),
        Outcome::Checked => {}
        Outcome::Compiled { cubin, output_file } => {
            if output::write_file(&output_file, &cubin).is_err() {
                let text = format!("Output file '{output_file}' could not be opened");
                show(&Message { place: None, kind: Kind::Fatal, text: &text });
                return ExitCode::from(FAILURE);
            }
        }
        Outcome::Failed { .. } => return ExitCode::from(FAILURE),
    }
    ExitCode::SUCCESS
}

fn show(message: &Message<'_>) {
    print::error_line(format_args!("{message}"));
}
