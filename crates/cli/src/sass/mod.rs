//! Machine code as text: listings of cubins, and back.

pub mod labels;
pub mod listing;
pub mod program;
pub mod relocated;
