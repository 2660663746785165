//! Produces the control listing of a cubin.

use oriole_cli::sass::control::ControlListing;
use oriole_cli::sass::labels::Labels;
use oriole_cli::sass::program::Program;
use oriole_cubin::Cubin;

/// Returns the output of `oriole disasm --control`.
pub fn control_listing(cubin: &Cubin, with_reasons: bool) -> Result<String, String> {
    let program = Program::new(cubin)?;
    let labels = Labels::new(&program);
    let mut text = String::new();
    ControlListing::new(&program, &labels, with_reasons).file(&mut text, &|_| true)?;
    Ok(text)
}
