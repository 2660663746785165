//! PTX front end: reads PTX text and returns a typed and checked [`ast::Module`], or diagnostics.
//!
//! [`check`] works in one pass over the text. PTX declares names before it uses them, so names are resolved, instructions are matched
//! with the rows of the instruction table, and operands are checked while parsing. [`print()`] writes a module back as PTX.
//! [`enumerate`] lists all legal forms of the table.
//!
//! ```
//! let ptx = b".version 8.0\n.target sm_80\n.address_size 64\n.entry k() { .reg .b32 %r<3>; add.s32 %r1, %r2, 1; ret; }";
//! let checked = oriole_ptx::check(ptx, &oriole_ptx::Options::default());
//! assert!(checked.is_valid());
//! ```

pub mod ast;
pub mod diag;
pub mod enumerate;
pub mod lexer;
mod parse;
mod print;
pub mod source;
pub mod table;
pub mod target;
pub mod types;

pub use parse::{Checked, NumberedModule, NumberedPart, Options, ParsedPart, SplitModule, check};
pub use print::{print, print_function};
