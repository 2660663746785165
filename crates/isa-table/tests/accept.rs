//! Parses small tables and checks the resulting model.

use oriole_isa_table::{
    Bits, BracketPart, Core, Form, GuardKind, Instruction, NumberFormat, Piece, Prefix, RegFile, Slot, Table, Term, check,
};

/// Parses a valid table with one instruction.
fn instruction(text: &str) -> Instruction {
    let mut table = Table::default();
    table.parse("foo.sass", text).expect("readable");
    check(&table).expect("without contradiction");
    assert_eq!(table.instructions.len(), 1);
    table.instructions.remove(0)
}

/// Parses a form with this template.
fn template(text: &str) -> Form {
    instruction(&format!("FOO\n  form 221 on 90\n    {text}\n")).forms.remove(0)
}

/// Parses a template with one operand.
fn operand(text: &str) -> Slot {
    let mut form = template(&format!(" {text}"));
    assert_eq!(form.operands.len(), 1, "{text}");
    form.operands.remove(0)
}

fn bits(runs: &[(u8, u8)]) -> Bits {
    Bits { runs: runs.to_vec(), scale: 1, ..Bits::default() }
}

fn literal(text: &str) -> Piece {
    Piece::Literal(text.to_string())
}

fn flag(text: &str, bit: u8, when: bool) -> Piece {
    Piece::Flag { text: text.to_string(), bit, when }
}

#[track_caller]
fn expect_register(slot: &Slot, file: RegFile, expected: &Bits) {
    match &slot.core {
        Core::Register(found, place) => assert_eq!((*found, place), (file, expected)),
        other => panic!("register expected, {other:?} found"),
    }
}

#[track_caller]
fn expect_number(slot: &Slot, format: NumberFormat, expected: &Bits) {
    match &slot.core {
        Core::Number(found, place) => assert_eq!((*found, place), (format, expected)),
        other => panic!("number expected, {other:?} found"),
    }
}

#[test]
fn comments_notes_and_blank_lines() {
    let found = instruction(
        "# a file\n\nFOO # the foo\n  note seen on sm_90, see\n\n  field ftz 80 - .FTZ # flush\n# between\n  form 221 on 90 # form\n# here too\n    {ftz} R(16) # text\n",
    );
    assert_eq!((found.mnemonic.as_str(), found.place.as_str()), ("FOO", "foo.sass:3"));
    assert_eq!((found.fields.len(), found.forms.len()), (1, 1));
    assert_eq!(found.forms[0].place, "foo.sass:8");
    assert_eq!(found.forms[0].modifiers, [Piece::Field(0)]);
    assert_eq!(found.forms[0].operands.len(), 1);
}

#[test]
fn several_instructions_in_several_files() {
    let mut table = Table::default();
    table.parse("a.sass", "FOO\n  form 221 on 90\n     R(16)\nBAR\n  form 222 on 90\n     R(16)\n").expect("readable");
    table.parse("b.sass", "BAZ\n  form 223 on 90\n     R(16)\n").expect("readable");
    let found: Vec<(&str, &str)> = table.instructions.iter().map(|i| (i.mnemonic.as_str(), i.place.as_str())).collect();
    assert_eq!(found, [("FOO", "a.sass:1"), ("BAR", "a.sass:4"), ("BAZ", "b.sass:1")]);
    check(&table).expect("without contradiction");
}

#[test]
fn spellings_of_a_field() {
    let found = instruction("FOO\n  field type 76:2 - .F32.BF16 ? .F16\n  form 221 on 90\n    {type} R(16)\n");
    let field = &found.fields[0];
    assert_eq!((field.name.as_str(), &field.bits), ("type", &bits(&[(76, 2)])));
    let spelled = |pieces: &[&str]| Some(pieces.iter().map(ToString::to_string).collect::<Vec<_>>());
    assert_eq!(field.spellings, [spelled(&[]), spelled(&[".F32", ".BF16"]), None, spelled(&[".F16"])]);
}

#[test]
fn spellings_left_out_do_not_exist() {
    let found = instruction("FOO\n  field scope 77:2 .CTA\n  form 221 on 90\n    {scope} R(16)\n");
    assert_eq!(found.fields[0].spellings.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, false, false]);
}

#[test]
fn sparse_names() {
    let found = instruction("FOO\n  field sr 72:8 0=SR_LANEID 33=SR_TID.X\n  form 221 on 90\n     R(16), {sr}\n");
    let spellings = &found.fields[0].spellings;
    assert_eq!(spellings.len(), 256);
    assert_eq!(spellings[0], Some(vec!["SR_LANEID".to_string()]));
    assert_eq!(spellings[33], Some(vec!["SR_TID.X".to_string()]));
    assert_eq!(spellings.iter().flatten().count(), 2);
    assert!(matches!(found.forms[0].operands[1].core, Core::Field(0)));
}

#[test]
fn field_in_runs_least_significant_first() {
    let found = instruction("FOO\n  field fmz 76+80 - .FMZ .FTZ ?\n  form 221 on 90\n    {fmz} R(16)\n");
    let place = &found.fields[0].bits;
    assert_eq!(place, &bits(&[(76, 1), (80, 1)]));
    assert_eq!((place.width(), place.mask()), (2, 1 << 76 | 1 << 80));
    assert_eq!(place.place(1), 1 << 76);
    assert_eq!(place.place(2), 1 << 80);
}

#[test]
fn one_value_printed_at_two_places() {
    let text = "FOO\n  field a 73 .L .R\n  field b 73 .LO .HI\n  form 221 on 90\n    {a}{b} R(16)\n";
    assert_eq!(instruction(text).forms[0].modifiers, [Piece::Field(0), Piece::Field(1)]);
}

#[test]
fn head_of_a_form() {
    let found = instruction("FOO\n  form e21 on 75..80,90 fix 91=1 81:3=7 with 64:8=0xff guard UP\n     R(16)\n");
    let form = &found.forms[0];
    assert_eq!(form.opcode, 0xe21);
    assert_eq!(form.targets, 0b1_0000_1100, "75, 80 and 90 are the third, fourth and ninth target");
    assert_eq!(form.fixed, [(bits(&[(91, 1)]), 1), (bits(&[(81, 3)]), 7)]);
    assert_eq!(form.with, [(bits(&[(64, 8)]), 255)]);
    assert_eq!(form.guard, GuardKind::Uniform);
    assert_eq!(form.excluded, []);
    let excluding = instruction("FOO\n  form 221 on 90 not 24:8=255 not 32:8=0 never W\n     R(16), R(24), R(32)\n");
    assert_eq!(excluding.forms[0].excluded, [(bits(&[(24, 8)]), 255), (bits(&[(32, 8)]), 0)]);
    assert_eq!(template(" R(16)").guard, GuardKind::Predicate);
    let never = |clause: &str| {
        let form = instruction(&format!("FOO\n  form 221 on 90{clause}\n     R(16)\n")).forms.remove(0);
        (form.never_read_barrier, form.never_write_barrier)
    };
    assert_eq!(["", " never R", " never W", " never RW"].map(never), [(false, false), (true, false), (false, true), (true, true)]);
}

#[test]
fn modifiers() {
    let form = template(".E.SAT(77).SHARED(!78)<imad> R(16)");
    assert_eq!(form.modifiers, [literal(".E"), flag(".SAT", 77, true), flag(".SHARED", 78, false), Piece::Alias("imad".to_string())]);
}

#[test]
fn bare_mnemonic() {
    for text in ["-", ""] {
        let form = template(text);
        assert!(form.modifiers.is_empty() && form.operands.is_empty(), "{text:?}");
    }
}

#[test]
fn registers() {
    expect_register(&operand("R(24)"), RegFile::General, &bits(&[(24, 8)]));
    expect_register(&operand("P(87)"), RegFile::Predicate, &bits(&[(87, 3)]));
    expect_register(&operand("UP(87)"), RegFile::UniformPredicate, &bits(&[(87, 3)]));
    expect_register(&operand("UR(32:6)"), RegFile::Uniform, &bits(&[(32, 6)]));
    expect_register(&operand("B(16:4)"), RegFile::Convergence, &bits(&[(16, 4)]));
    expect_register(&operand("SB(44:3)"), RegFile::Scoreboard, &bits(&[(44, 3)]));
    expect_register(&operand("P(64^)"), RegFile::Predicate, &Bits { complemented: true, ..bits(&[(64, 3)]) });
    expect_register(&operand("R(24:7*2)"), RegFile::General, &Bits { scale: 2, ..bits(&[(24, 7)]) });
    expect_register(&operand("UR(24:6@1)"), RegFile::Uniform, &Bits { bias: 1, ..bits(&[(24, 6)]) });
}

#[test]
fn numbers() {
    expect_number(&operand("u(72:8)"), NumberFormat::Unsigned, &bits(&[(72, 8)]));
    expect_number(&operand("s(40:14)*4"), NumberFormat::Signed, &Bits { scale: 4, ..bits(&[(40, 14)]) });
    expect_number(&operand("u(64:3+72:5)"), NumberFormat::Unsigned, &bits(&[(64, 3), (72, 5)]));
    expect_number(&operand("f32(32:32)"), NumberFormat::F32, &bits(&[(32, 32)]));
    expect_number(&operand("f64(32:32)"), NumberFormat::F64High, &bits(&[(32, 32)]));
    expect_number(&operand("f16(48:16)"), NumberFormat::F16, &bits(&[(48, 16)]));
    expect_number(&operand("bf16(32:16)"), NumberFormat::Bf16, &bits(&[(32, 16)]));
    expect_number(&operand("pc(34:48*4)"), NumberFormat::Relative, &Bits { scale: 4, ..bits(&[(34, 48)]) });
    expect_number(&operand("set(32:6)"), NumberFormat::Set, &bits(&[(32, 6)]));
}

#[test]
fn register_printed_twice() {
    let form = template(" R(32), R(32)");
    form.operands.iter().for_each(|slot| expect_register(slot, RegFile::General, &bits(&[(32, 8)])));
}

#[test]
fn operand_that_a_field_may_leave_out() {
    let found = instruction("FOO\n  field gsb 86:2 ? gsb0 - ?\n  form 221 on 90\n     R(16), {gsb}\n");
    assert_eq!(found.forms[0].operands[1].optional, Some(2), "the value whose spelling is nothing");
}

#[test]
fn register_and_number() {
    match operand("R(24) pc(34:30)").core {
        Core::RegisterAndNumber(RegFile::General, register, NumberFormat::Relative, number) => {
            assert_eq!((register, number), (bits(&[(24, 8)]), bits(&[(34, 30)])));
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(operand("R(24) abs(32:24)").core, Core::RegisterAndNumber(RegFile::General, _, NumberFormat::Absolute, _)));
}

#[test]
fn signs() {
    let slot = operand("-(72)|(73)R(24)|");
    let sign = |symbol, bit, when| Prefix { symbol, condition: Some((bit, when)) };
    assert_eq!(slot.prefixes, [sign('-', 72, true), sign('|', 73, true)]);
    assert_eq!(operand("!(!90)P(87)").prefixes, [sign('!', 90, false)]);
    assert_eq!(operand("~R(24)").prefixes, [Prefix { symbol: '~', condition: None }]);
}

#[test]
fn suffixes_inside_and_outside_the_bars() {
    let slot = operand("|(73)R(24).H1(60)|.reuse(122).NP(83)");
    assert_eq!(slot.suffixes, [flag(".H1", 60, true), Piece::Reuse(122), flag(".NP", 83, true)]);
    assert_eq!(slot.inside_bars, 1);
}

#[test]
fn optional_operands() {
    assert_eq!(operand("R(24)").optional, None);
    assert_eq!(operand("R(24)?").optional, Some(255), "all ones are RZ");
    assert_eq!(operand("UR(32:6)?").optional, Some(63));
    assert_eq!(operand("P(81)?").optional, Some(7));
    assert_eq!(operand("P(64^)?").optional, Some(0), "stored complemented, PT is 0");
    assert_eq!(operand("u(72:4)?15").optional, Some(15));
    assert_eq!(operand("u(42:12)?0").optional, Some(0));
}

#[test]
fn names() {
    assert!(matches!(operand("gsb0").core, Core::Literal(name) if name == "gsb0"));
}

fn parts(text: &str) -> (String, Vec<BracketPart>) {
    match operand(text).core {
        Core::Address(word, parts) => (word, parts),
        other => panic!("{other:?}"),
    }
}

#[test]
fn constant_bank() {
    let (word, parts) = parts("c[u(54:5)][s(40:14)*4]");
    assert_eq!(word, "c");
    let [bank, offset] = parts.as_slice() else { panic!("two pairs of brackets") };
    assert!(matches!(bank.terms.as_slice(), [Term::Number(NumberFormat::Unsigned, place)] if *place == bits(&[(54, 5)])));
    assert!(
        matches!(offset.terms.as_slice(), [Term::Number(NumberFormat::Signed, place)] if *place == Bits { scale: 4, ..bits(&[(40, 14)]) })
    );
}

#[test]
fn offset_that_keeps_its_sign() {
    let (_, parts) = parts("[i(40:24)]");
    assert!(matches!(parts[0].terms.as_slice(), [Term::Number(NumberFormat::SignedAlone, place)] if *place == bits(&[(40, 24)])));
}

#[test]
fn address_with_descriptor() {
    let (word, parts) = parts("desc[UR(32:6)][R(24).64+s(40:24)]");
    assert_eq!(word, "desc");
    let [descriptor, address] = parts.as_slice() else { panic!("two pairs of brackets") };
    assert!(matches!(descriptor.terms.as_slice(), [Term::Register { file: RegFile::Uniform, omit: false, .. }]));
    let [Term::Register { file: RegFile::General, bits: place, suffixes, omit: false }, Term::Number(NumberFormat::Signed, offset)] =
        address.terms.as_slice()
    else {
        panic!("register and offset")
    };
    assert_eq!((place, suffixes.as_slice(), offset), (&bits(&[(24, 8)]), [literal(".64")].as_slice(), &bits(&[(40, 24)])));
}

#[test]
fn address_with_terms_that_may_be_left_out() {
    let (word, parts) = parts("[R(24).X4(78)?+UR(64:6)?+s(40:24)].SWZ(80)");
    assert_eq!(word, "");
    let [part] = parts.as_slice() else { panic!("one pair of brackets") };
    assert_eq!(part.suffixes, [flag(".SWZ", 80, true)]);
    let omitted: Vec<bool> = part.terms.iter().map(|term| matches!(term, Term::Register { omit: true, .. })).collect();
    assert_eq!(omitted, [true, true, false]);
}

#[test]
fn whole_forms() {
    let text = "FADD\n  field ftz   80 - .FTZ\n  field round 78:2 - .RM .RP .RZ\n  form 221 on 75..121 fix 91=0\n    {ftz}{round}.SAT(77) R(16), -(72)|(73)R(24)|.reuse(122), -(63)|(62)R(32)|.reuse(123)\n";
    let found = instruction(text);
    let form = &found.forms[0];
    assert_eq!(form.modifiers, [Piece::Field(0), Piece::Field(1), flag(".SAT", 77, true)]);
    assert_eq!(form.operands.len(), 3);
    assert_eq!(form.operands[2].suffixes, [Piece::Reuse(123)]);
    assert_eq!(form.targets, 0x3ffc, "all but the first two of 14 targets, sm_70 and sm_72");
}
