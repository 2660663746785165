//! The notation of the files under `data/`: text becomes tables.
//!
//! The build script is its only user: what it read goes into the program as constants. The tests of the library compile it too, read
//! everything again and compare.

pub mod sheet;
pub mod tables;
