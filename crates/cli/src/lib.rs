//! The library part of the command line, for other tools: converts machine code to text and back.

pub use oriole_sass as sass;
