//! Machine code as text: listings of cubins, and back.

pub mod assemble;
pub mod control;
pub mod json;
pub mod labels;
pub mod listing;
pub mod moves;
pub mod program;
pub mod relocated;
pub mod source;
