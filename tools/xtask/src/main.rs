//! Development tasks: `cargo run --release -p xtask -- TASK`.

mod oracle;
mod verdicts;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo run --release -p xtask -- TASK

  verdicts            ask ptxas about every enumerated form and mutant, and record its answers
  verdicts OPCODE     print where Oriole and ptxas differ on one opcode; records nothing
  forms OPCODE        print the legal forms of an opcode
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["verdicts"] => verdicts::record(),
        ["verdicts", opcode] => verdicts::compare(opcode),
        ["forms", opcode] => verdicts::list(opcode),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}
