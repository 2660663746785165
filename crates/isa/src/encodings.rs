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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Opcode, decode, encode, find_form, parse, print};

    #[test]
    fn the_table_describes_the_targets_with_machine_code() {
        for target in Target::all() {
            assert_eq!(table_column(target).is_some(), target.has_machine_code(), "{target}");
        }
        for number in TABLE_TARGETS {
            assert_eq!(table_column(Target::plain(number)).map(|column| TABLE_TARGETS[column]), Some(number));
        }
    }

    #[test]
    fn a_target_without_machine_code_has_no_instructions() {
        let instruction = parse("EXIT").unwrap();
        let word = encode(&instruction, Target::plain(75)).unwrap();
        for target in Target::all().filter(|target| !target.has_machine_code()) {
            let error = encode(&instruction, target).unwrap_err();
            assert_eq!(error.to_string(), format!("EXIT does not exist on {target}"));
            assert_eq!(decode(word, target), None);
            assert_eq!(print(word, target, 0), None);
            assert_eq!(find_form(&instruction, target), None);
            assert!(!Opcode::EXIT.exists_on(target));
        }
    }
}
