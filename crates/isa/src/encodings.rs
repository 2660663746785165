//! The column of a target in the instruction table.
//!
//! A form of the table has a set of targets, with one bit for each of [`TABLE_TARGETS`]. Suffixes do not matter: `sm_90` and `sm_90a` have
//! the same encodings.

use oriole_support::Target;

use crate::table::TABLE_TARGETS;

/// Returns the index of a target's bit in the target sets of the table; `None` if the table does not describe the target.
pub(crate) fn table_column(target: Target) -> Option<usize> {
    TABLE_TARGETS.iter().position(|&listed| listed == target.number())
}

/// Returns the target set that contains this target alone; empty if the table does not describe the target.
pub(crate) fn table_set(target: Target) -> u32 {
    table_column(target).map_or(0, |column| 1 << column)
}
