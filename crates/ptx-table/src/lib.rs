//! Reads the PTX instruction table, checks it, and generates Rust code from it. Runs at build time only.
//!
//! The rows are in `crates/ptx/data/*.tbl`; `docs/ptx-table.md` describes the notation. [`Table::parse`] reads the files into a [`model`]
//! and rejects rows that contradict themselves (an undefined slot, an operand without a type, a modifier with two spellings).
//! [`generate`] writes the enums and static tables that `oriole-ptx` compiles in. A mistake in a row is a build error with file and line.

mod generate;
pub mod model;
mod operands;
mod parse;
mod special;

pub use generate::generate;
pub use model::Table;
pub use special::{SpecialRegister, parse_special_registers};

/// An error in a table file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableError {
    /// The name of the file.
    pub file: String,
    /// The line, counted from 1.
    pub line: u32,
    /// Description of the error.
    pub message: String,
}

impl std::fmt::Display for TableError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.message)
    }
}

impl std::error::Error for TableError {}
