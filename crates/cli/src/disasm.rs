//! `oriole disasm`: machine code as text.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use oriole_cubin::{Cubin, Image, ImageKind};
use oriole_isa::Target;

use crate::check::read_input;
use crate::sass::labels::Labels;
use crate::sass::listing::Listing;
use crate::sass::program::Program;

/// Disassemble cubins, fatbins, host programs and raw code.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct DisasmArguments {
    /// Cubin, fatbin, object file, executable or library; `-` is standard input
    #[arg(value_name = "FILE")]
    file: String,
    /// Print this kernel or function only
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
}

pub fn run(arguments: &DisasmArguments) -> ExitCode {
    let data = match read_input(&arguments.file) {
        Ok(data) => data,
        Err(error) => {
            eprintln!("error: {}: {error}", arguments.file);
            return ExitCode::from(2);
        }
    };
    match listing(arguments, &data) {
        Ok(text) => {
            let _ = io::stdout().lock().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {}: {error}", arguments.file);
            ExitCode::FAILURE
        }
    }
}

fn listing(arguments: &DisasmArguments, data: &[u8]) -> Result<String, String> {
    let images = oriole_cubin::open(data).map_err(|error| error.to_string())?;
    let mut out = String::new();
    for image in &images {
        let cubin = image.cubin().map_err(|e| e.to_string())?;
        let program = Program::new(&cubin, None)?;
        let labels = Labels::new(&program);
        let mut listing = Listing::new(&program, &labels);
        listing.header(&mut out);
        for position in 0..program.sections.len() {
            listing.section(&mut out, position);
        }
    }
    Ok(out)
}
