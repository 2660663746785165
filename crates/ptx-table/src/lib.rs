//! The PTX instruction table: its notation, its checks, and the Rust code generated from it.
//!
//! The rows live in `crates/ptx/data/*.tbl`; `docs/ptx-table.md` describes the notation. This crate runs at
//! build time only: [`Table::parse`] reads the files into a [`model`], refusing rows that contradict
//! themselves (an undefined slot, an operand without a type, a modifier with two spellings), and
//! [`generate`] writes the enums and static tables that `oriole-ptx` compiles in. A mistake in a row is a
//! build error that names the file and line.

mod generate;
pub mod model;
mod operands;
mod parse;
mod special;

pub use generate::generate;
pub use model::Table;
pub use special::{SpecialRegister, parse_special_registers};

/// A mistake in a table file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableError {
    /// The file's name.
    pub file: String,
    /// The line, counted from one.
    pub line: u32,
    /// What is wrong.
    pub message: String,
}

impl std::fmt::Display for TableError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.message)
    }
}

impl std::error::Error for TableError {}
