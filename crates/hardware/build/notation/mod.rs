//! Parsers of the files under `data/`.
//!
//! Only the build script uses them; the program contains the result as constants. The tests of the library compile the parsers too, parse
//! all files again and compare the results with the constants.

pub mod sheet;
pub mod tables;
