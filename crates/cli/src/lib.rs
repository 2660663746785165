//! The part of the command line that other tools use as a library: machine code as text, and back.

pub mod sass;
