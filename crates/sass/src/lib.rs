//! Converts machine code to text and back: listings of cubins, and an assembler for them.

pub mod assemble;
pub mod control;
pub mod json;
pub mod labels;
pub mod listing;
pub mod moves;
pub mod program;
pub mod relocated;
pub mod source;
pub mod source_lines;
