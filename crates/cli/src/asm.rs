//! `oriole asm`: assembles a control listing into a cubin.

use std::process::ExitCode;

use clap::Args;

use crate::check::read_input;
use crate::console::{refuse_overwriting, write_output};
use crate::sass::assemble::assemble;

/// Assemble what `oriole disasm --control` prints, edited or not.
///
///   $ oriole disasm --control kernel.cubin > kernel.sass
///   $ $EDITOR kernel.sass
///   $ oriole asm kernel.sass -o kernel.cubin
///
/// An unchanged listing gives back the same file, bit by bit. Instructions, labels and comments may
/// be added anywhere; a control word may be left out, then a safe one is taken:
///
///         [B------:R-:W-:-:S04]  IADD3 R4, R4, 0x1, RZ ;
///         IADD3 R4, R4, 0x1, RZ ;                             // waits for all, stalls 15 cycles
///         .raw 0x000fe200000000000000000000007918 ;           // any 128 bits
///
/// Errors are reported with line and column:
///
///   error: kernel.sass:23:33: unknown modifier .FZT; did you mean .FTZ?
///
/// docs/disasm.md describes the format.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct AsmArguments {
    /// Listing; `-` is standard input
    #[arg(value_name = "FILE")]
    file: String,
    /// Where the cubin goes; `-` is standard output
    #[arg(short, long, value_name = "OUT")]
    output: String,
}

pub fn run(arguments: &AsmArguments) -> ExitCode {
    let name = if arguments.file == "-" { "<stdin>" } else { &arguments.file };
    if let Err(message) = refuse_overwriting([arguments.file.as_str()], [arguments.output.as_str()]) {
        errln!("error: {message}");
        return ExitCode::from(2);
    }
    let text = match read_input(&arguments.file).map(String::from_utf8) {
        Ok(Ok(text)) => text,
        Ok(Err(error)) => {
            errln!("error: {name}: the listing is not UTF-8 at byte {:#x}", error.utf8_error().valid_up_to());
            return ExitCode::FAILURE;
        }
        Err(error) => {
            errln!("error: {name}: {error}");
            return ExitCode::from(2);
        }
    };
    let assembled = match assemble(&text) {
        Ok(assembled) => assembled,
        Err(problems) => {
            for problem in &problems {
                errln!("error: {name}:{}:{}: {}", problem.line, problem.column, problem.message);
            }
            return ExitCode::FAILURE;
        }
    };
    for note in &assembled.notes {
        errln!("note: {name}: {note}");
    }
    match write_output(&arguments.output, &assembled.bytes) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            errln!("error: {}: {error}", arguments.output);
            ExitCode::from(2)
        }
    }
}
