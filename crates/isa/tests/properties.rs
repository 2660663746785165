//! Checks the static properties against the forms: written operands precede those that are read.

use oriole_isa::table::FormId;
use oriole_isa::{Instruction, Latency, Opcode, OperandValue, RegFile, Target, decode, parse};

/// Instructions that read a predicate directly after their last destination.
const PREDICATE_SOURCE_FIRST: &[&str] = &["ELECT", "PLOP3", "UPLOP3", "VOTE", "VOTEU"];

fn written(instruction: &Instruction) -> usize {
    instruction.written().iter().filter(|&&written| written).count()
}

/// Returns an instruction of each form, with every operand of its template.
fn one_of_each_form() -> impl Iterator<Item = Instruction> {
    FormId::all().filter_map(|id| {
        let default = id.form().default;
        Target::all_with_machine_code()
            .filter_map(|target| decode(default, target))
            .find(|instruction| instruction.opcode == id.form().opcode)
    })
}

fn is_predicate(value: &OperandValue) -> bool {
    matches!(value, OperandValue::Register(RegFile::Predicate | RegFile::UniformPredicate, _))
}

#[test]
fn no_predicate_between_destinations_and_sources() {
    let mut wrong = Vec::new();
    for instruction in one_of_each_form() {
        let flags = instruction.written();
        let Some(last) = flags.iter().rposition(|&written| written) else { continue };
        let follows = instruction.operands.get(last + 1).is_some_and(|operand| is_predicate(&operand.value));
        if follows && !PREDICATE_SOURCE_FIRST.contains(&instruction.opcode.mnemonic()) {
            wrong.push(instruction.opcode.mnemonic());
        }
    }
    assert!(wrong.is_empty(), "an operand that looks like a destination is none: {wrong:?}");
}

#[test]
fn pairs_name_sources_that_every_form_has() {
    for instruction in one_of_each_form() {
        let sources = instruction.operands.len() - written(&instruction);
        let properties = instruction.opcode.properties();
        for &(first, second) in properties.commute.iter().chain(properties.one_sign) {
            assert!(usize::from(first.max(second)) < sources && first != second, "{}", instruction.opcode.mnemonic());
        }
    }
}

#[test]
fn written_operands_of_texts() {
    let cases: &[(&str, usize)] = &[
        ("FADD R0, R1, R2", 1),
        ("IADD3 R0, R1, R2, R3", 1),
        ("IADD3 R0, P0, R1, R2, R3", 2),
        ("IADD3 R0, P0, P1, R1, R2, R3", 3),
        ("IADD3.X R0, R1, R2, R3, P0, P1", 1),
        ("IMAD.WIDE.U32 R0, P0, R2, R3, R4", 2),
        ("ISETP.GE.AND P0, PT, R1, R2, P3", 2),
        ("PLOP3.LUT P0, PT, P1, P2, P3, 0x80, 0x0", 2),
        ("LOP3.LUT P0, R0, R1, R2, R3, 0xc0, PT", 2),
        ("LOP3.LUT R0, R1, R2, R3, 0xc0, PT", 1),
        ("LDG.E R0, desc[UR4][R2.64], P0", 1),
        ("LDG.E P0, R0, desc[UR4][R2.64]", 2),
        ("STG.E desc[UR4][R2.64], R0", 0),
        ("ATOMG.E.CAS PT, R0, [R2], R4, R5", 2),
        ("ATOMS.ADD R0, [R2], R4", 1),
        ("SHFL.IDX P0, R0, R1, R2, R3", 2),
        ("VOTE.ANY R0, P0, P1", 2),
        ("VOTE.ANY P0, P1", 1),
        ("MATCH.ALL P0, R0, R1", 2),
        ("MATCH.ANY R0, R1", 1),
        ("R2UR UR4, R0", 1),
        ("R2UR P0, UR4, R0", 2),
        ("BMOV.32.CLEAR R0, B0", 1),
        ("BMOV.32 B0, R0", 1),
        ("R2P PR, R0, 0x7f", 0),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", 0),
        ("EXIT", 0),
    ];
    for (text, expected) in cases {
        let instruction = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(written(&instruction), *expected, "{text}");
    }
}

#[test]
fn condition_before_a_destination_is_read() {
    let instruction = parse("BSSY P1, B0, 0x100").expect("readable");
    assert_eq!(instruction.written().as_slice(), [false, true, false]);
    let instruction = parse("BSSY B0, 0x100").expect("readable");
    assert_eq!(instruction.written().as_slice(), [true, false]);
}

#[test]
fn latency_depends_on_the_target() {
    let class = |mnemonic: &str, target: &str| {
        let opcode = Opcode::find(mnemonic).expect("mnemonic");
        opcode.properties().latency(Target::parse(target).expect("target"))
    };
    assert_eq!(class("FFMA", "sm_75"), Latency::Fixed);
    assert_eq!(class("LDG", "sm_90a"), Latency::Variable);
    assert_eq!(class("DFMA", "sm_90a"), Latency::Fixed);
    assert_eq!(class("DFMA", "sm_86"), Latency::Variable);
    assert_eq!(class("HMMA", "sm_75"), Latency::Variable);
    assert_eq!(class("HMMA", "sm_80"), Latency::Fixed);
    assert_eq!(class("R2UR", "sm_89"), Latency::Variable);
    assert_eq!(class("R2UR", "sm_120a"), Latency::Fixed);
}
