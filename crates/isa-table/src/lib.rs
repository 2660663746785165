//! Reads the table of machine instructions, checks it, and generates Rust data from it. Runs at build time only.
//!
//! The files under `crates/isa/data` are the only place with bit positions. The build script of the `isa` crate calls [`Table::parse`] to
//! read a file, [`check`] to reject a table that contradicts itself (bits used twice, two forms that match the same word, values that do
//! not fit), and [`generate`] to write it as constant Rust data. The encoder, decoder, printer and text parser interpret that data at run
//! time.
//!
//! The notation is described in `docs/isa-table.md`. The template of a form is the text that nvdisasm prints, with the bit position of
//! every variable part in parentheses:
//!
//! ```text
//! FADD
//!   field ftz    80      - .FTZ
//!   field round  78:2    - .RM .RP .RZ
//!   form 221 on 75..121 fix 91=0
//!     {ftz}{round}.SAT(77) R(16), -(72)|(73)R(24)|.reuse(122), -(63)|(62)R(32)|.reuse(123)
//! ```
#![deny(missing_docs)]

mod check;
mod generate;
mod model;
mod parse;
mod properties;
mod template;
mod widths;

pub use check::check;
pub use generate::{generate, symbol_constant};
pub use model::*;
pub use parse::Error;
pub use properties::{Properties, parse_properties};
pub use widths::{WidthLine, parse_widths};
