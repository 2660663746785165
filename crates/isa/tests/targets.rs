//! The instruction table describes exactly the targets that have machine code.

use oriole_isa::{Opcode, Target, decode, encode, find_form, parse, print};

#[test]
fn the_table_describes_the_targets_with_machine_code() {
    let instruction = parse("EXIT").unwrap();
    for target in Target::all() {
        assert_eq!(Opcode::EXIT.exists_on(target), target.has_machine_code(), "{target}");
        assert_eq!(encode(&instruction, target).is_ok(), target.has_machine_code(), "{target}");
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
