//! Checks the recorded words of ptxas and of bit-flip experiments against nvdisasm's text, in both directions, and measures how much of
//! the table they cover.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::support::{Record, records, same_text};
use oriole_isa::table::{FormId, Piece, Slot, Term};
use oriole_isa::{Control, Target, decode, encode, form_of, has_conflicting_signs, parse_at, print};
use oriole_support::Suffix;

#[test]
fn at_least_forty_thousand_distinct_words_on_all_targets() {
    let records = records("corpus");
    let distinct: BTreeSet<u128> = records.iter().map(|record| record.word).collect();
    assert!(distinct.len() >= 40_000, "only {} distinct words", distinct.len());
    let covered: BTreeSet<u16> = records.iter().map(|record| record.target.number()).collect();
    for number in [75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121] {
        assert!(covered.contains(&number), "no words of sm_{number}");
    }
}

/// Words whose text differs are listed with both texts; the test fails if the list changes.
#[test]
fn every_word_prints_as_nvdisasm_prints_it() {
    let records = records("corpus");
    let mut found = BTreeSet::new();
    for Record { target, word, text, .. } in &records {
        let printed = print(*word, *target, 0).unwrap_or_else(|| "(unknown)".into());
        let expected = text.as_deref().expect("corpus words are legal");
        if !same_text(&printed, expected) {
            found.insert(format!("{target} {word:032x} | {expected} | {printed}"));
        }
    }
    println!("{} of {} words print differently", found.len(), records.len());
    crate::support::compare_with_list("corpus-differences.txt", "Words of the corpus: target word | nvdisasm | oriole", &found, |_| true);
    assert!(found.len() * 1000 <= records.len(), "{} of {} differ", found.len(), records.len());
}

#[test]
fn every_word_decodes_and_encodes_to_itself() {
    for Record { target, word, place, .. } in records("corpus") {
        let instruction = decode(word, target).unwrap_or_else(|| panic!("{place}: {word:032x} unknown"));
        match encode(&instruction, target) {
            Ok(again) => assert_eq!(again, word, "{place}: {word:032x} came back as {again:032x}"),
            Err(error) => panic!("{place}: {error}"),
        }
    }
}

/// Assembling nvdisasm's text gives the recorded word, or a word that prints the same text: bits that no text shows are random in the
/// words of experiments. Texts that do not assemble, or assemble to something else, are listed; the test fails if the list changes. Words
/// of experiments that a GPU does not execute must be refused.
#[test]
fn every_text_assembles_to_its_word() {
    let (mut total, mut exact, mut refused, mut wrong) = (0, 0, 0, BTreeSet::new());
    for Record { target, word, text, .. } in records("corpus") {
        total += 1;
        let text = text.expect("corpus words are legal");
        let assembled = parse_at(&text, 0, &|_| None).map_err(|e| e.to_string()).and_then(|mut instruction| {
            instruction.control = Control { reuse: 0, ..Control::of(word) };
            encode(&instruction, target).map_err(|e| e.to_string())
        });
        if decode(word, target).is_some_and(|instruction| has_conflicting_signs(&instruction)) {
            let message = assembled.expect_err(&text);
            assert!(message.contains("illegal instruction"), "{text}: {message}");
            refused += 1;
            continue;
        }
        match assembled {
            Ok(again) if again == word => exact += 1,
            Ok(again) if print(again, target, 0).is_some_and(|printed| same_text(&printed, &text)) => {}
            Ok(again) => {
                wrong.insert(format!("{target} {word:032x} {text} | {again:032x}"));
            }
            Err(error) => {
                wrong.insert(format!("{target} {word:032x} {text} | {error}"));
            }
        }
    }
    println!("{exact} of {total} texts assemble to the very word, {} do not assemble, {refused} are refused", wrong.len());
    assert!(refused > 100, "the corpus has {refused} sums with two signs");
    crate::support::compare_with_list("corpus-not-assembled.txt", "Texts of the corpus: target word text | what came out", &wrong, |_| {
        true
    });
    assert!(wrong.len() * 1000 <= total, "{} of {total} do not assemble", wrong.len());
    assert!(exact * 100 >= total * 95, "only {exact} of {total} texts assemble to the very word");
}

/// The bits of one form that the corpus contains as 0 and as 1, and the values of its fields.
#[derive(Default, Clone)]
struct Seen {
    zeros: u128,
    ones: u128,
    values: HashMap<usize, BTreeSet<u64>>,
}

/// Bits of the guard and the control word, which are the same in every form and are not counted.
const COMMON: u128 = 0xffff | Control::MASK;

#[test]
fn the_corpus_exercises_the_table() {
    let mut seen: BTreeMap<FormId, Seen> = BTreeMap::new();
    for Record { target, word, .. } in records("corpus") {
        let Some(id) = form_of(word, target) else { continue };
        let entry = seen.entry(id).or_default();
        entry.ones |= word;
        entry.zeros |= !word;
        for (position, piece) in pieces(id).into_iter().enumerate() {
            if let Piece::Field(field) = piece {
                entry.values.entry(position).or_default().insert(field.field().bits.stored(word));
            }
        }
    }
    let (mut forms, mut bits, mut bits_seen, mut values, mut values_seen) = (0, 0, 0, 0, 0);
    let (mut missing_forms, mut missing_bits) = (Vec::new(), Vec::new());
    for id in FormId::all() {
        forms += 1;
        let form = id.form();
        let Some(entry) = seen.get(&id) else {
            missing_forms.push(form.place);
            continue;
        };
        let variable = form.carried & !form.mask & !COMMON;
        bits += variable.count_ones();
        let both = entry.ones & entry.zeros & variable;
        bits_seen += both.count_ones();
        if both != variable {
            missing_bits.push(format!("{} {}: bits {:#x}", form.place, form.opcode.mnemonic(), variable & !both));
        }
        for (position, piece) in pieces(id).into_iter().enumerate() {
            if let Piece::Field(field) = piece {
                let known: Vec<u64> =
                    (0..).zip(field.field().spellings).filter(|(_, spelling)| spelling.is_some()).map(|(value, _)| value).collect();
                values += known.len();
                values_seen += known.iter().filter(|value| entry.values.get(&position).is_some_and(|seen| seen.contains(value))).count();
            }
        }
    }
    println!(
        "forms exercised: {} of {forms}; field bits seen as 0 and as 1: {bits_seen} of {bits}; field values: {values_seen} of {values}",
        forms - missing_forms.len()
    );
    missing_bits.iter().take(50).for_each(|line| println!("  not both values seen: {line}"));
    missing_forms.iter().for_each(|place| println!("  no word: {place}"));
    assert!(missing_forms.len() * 50 <= forms, "{} of {forms} forms without a word", missing_forms.len());
    assert!(bits_seen * 1000 >= bits * 985, "only {bits_seen} of {bits} field bits are exercised");
}

fn pieces(id: FormId) -> Vec<Piece> {
    let form = id.form();
    let mut all: Vec<Piece> = form.modifiers.to_vec();
    for Slot { suffixes, core, .. } in form.operands {
        all.extend_from_slice(suffixes);
        if let oriole_isa::table::Core::Address(_, parts) = core {
            for part in *parts {
                all.extend_from_slice(part.suffixes);
                for term in part.terms {
                    if let Term::Register { suffixes, .. } = term {
                        all.extend_from_slice(suffixes);
                    }
                }
            }
        }
    }
    all
}

#[test]
fn targets_with_a_letter_read_as_the_plain_ones() {
    for Record { target, word, place, .. } in records("corpus") {
        for specific in Suffix::ALL.into_iter().filter_map(|suffix| target.with_suffix(suffix)) {
            assert_eq!(print(word, specific, 0), print(word, target, 0), "{place}");
        }
    }
}

/// Words that ptxas 12.8.93 writes for sm_70, with the text that nvdisasm 12.4 prints. CUDA 13 has no code for Volta.
const VOLTA: [(u128, &str); 14] = [
    (0x000fe200000e00ff_000000fffffff389, "@!PT SHFL.IDX PT, RZ, RZ, RZ, RZ"),
    (0x000fe200078e00ff_00005800ff027624, "IMAD.MOV.U32 R2, RZ, RZ, c[0x0][0x160]"),
    (0x000ea200001ee900_0000000002057381, "LDG.E.SYS R5, [R2]"),
    (0x000ea400001eeb00_0000000002047381, "LDG.E.64.SYS R4, [R2]"),
    (0x000fe8000010e900_0000000002001386, "@P1 STG.E.SYS [R2], R0"),
    (0x000fe200038e0100_0000000000007806, "VOTE.ANY R0, PT, PT"),
    (0x000e260000000500_0000000002ff73aa, "QSPC.E.S P0, RZ, [R2]"),
    (0x001fe40000000000_0000000207077807, "SEL R7, R7, 0x2, P0"),
    (0x004fd80003f25270_000000000500720c, "ISETP.NE.AND P1, PT, R5, R0, PT"),
    (0x000fea0000000000_0000000000001b1d, "@P1 BAR.SYNC 0x0"),
    (0x004e100000000004_000000040406722b, "DFMA R6, R4, R4, R4"),
    (0x000fea0000002000_0000000000007992, "MEMBAR.SC.GPU"),
    (0x000fca0002000000_00000000ff00798f, "CCTL.IVALL"),
    (0x000fea0003800000_000000000000794d, "EXIT"),
];

#[test]
fn volta_has_its_own_forms() {
    let volta = [70, 72].map(Target::plain);
    for (word, text) in VOLTA {
        for target in volta {
            assert_eq!(print(word, target, 0).as_deref(), Some(text), "{target}");
            assert_eq!(encode(&decode(word, target).expect(text), target), Ok(word), "{text} on {target}");
        }
    }
    // Turing reads all code of Volta, except that what Volta ignores has a meaning.
    let turing = Target::plain(75);
    assert!(VOLTA.iter().all(|&(word, text)| print(word, turing, 0).as_deref() == Some(text)));
    for text in ["ULDC.64 UR4, c[0x0][0x118]", "IADD3 R0, R1, UR2, RZ", "MOVM.16.MT88 R0, R1", "LDS R0, [R1.X4]", "S2UR UR4, SR_CTAID.X"] {
        let instruction = oriole_isa::parse(text).unwrap();
        assert!(encode(&instruction, turing).is_ok(), "{text}");
        assert!(volta.iter().all(|&target| encode(&instruction, target).is_err()), "{text}");
    }
    // sm_72 has some instructions that sm_70 does not have. The words are those of ptxas 12.9.86.
    let products = [
        (0x084e28000000540e_0000000b000e7237, "IMMA.8816.S8.S8 R14, R0.ROW, R11.reuse.COL, R14"),
        (0x008e680000005410_0000000b0a107237, "IMMA.8816.S8.S8 R16, R10.ROW, R11.COL, R16"),
    ];
    for (word, text) in products {
        assert_eq!(volta.map(|target| print(word, target, 0)), [None, Some(text.to_owned())]);
        assert_eq!(encode(&decode(word, volta[1]).expect(text), volta[1]), Ok(word), "{text}");
    }
    let texts = ["IMNMX R0, R1, R2, PT", "IMAD.HI R0, R1, R2, RZ", "I2I.S8.S32.SAT R0, R1", "IMMA.8816.U8.S8.SAT R2, R0.ROW, R1.COL, R2"];
    for text in texts {
        let instruction = oriole_isa::parse(text).unwrap();
        assert_eq!(volta.map(|target| encode(&instruction, target).is_ok()), [false, true], "{text}");
    }
}

/// nvdisasm 13.2.51 rejects these words, and accepts them with any other address register.
#[test]
fn some_addresses_cannot_be_the_zero_register() {
    for (target, text) in [
        (80, "ATOM.E.AND.STRONG.GPU PT, R0, desc[UR4][#.64], R2"),
        (89, "ATOMG.E.AND.STRONG.GPU PT, R0, desc[UR4][#.64], R2"),
        (100, "LDG.E.ENL2.256 R4, R8, desc[UR4][#.64]"),
        (120, "STG.E.ENL2.256 desc[UR4][#.64], R4, R8"),
    ] {
        let is_encodable = |base: &str| encode(&oriole_isa::parse(&text.replace('#', base)).unwrap(), Target::plain(target)).is_ok();
        assert!(is_encodable("R2") && !is_encodable("RZ"), "{text} on sm_{target}");
    }
}
