//! Random words: the decoder must not panic, a decoded word must encode to the same bits, and if nvdisasm accepts the word, the texts
//! agree or the difference is listed.

use std::collections::BTreeSet;

use crate::support::{records, same_text};
use oriole_isa::{Target, decode, encode, form_of, parse, print};

/// A pseudorandom number generator (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn word(&mut self) -> u128 {
        u128::from(self.next()) << 64 | u128::from(self.next())
    }
}

#[test]
fn random_words_come_back_the_same() {
    let mut random = Random(1);
    let mut known = 0;
    for target in Target::all_with_machine_code() {
        for round in 0..40_000 {
            let mut word = random.word();
            if round % 2 == 0 {
                let form = oriole_isa::table::FormId::all().nth(word as usize % 256).expect("form").form();
                word = word & !form.mask | form.value;
            }
            let Some(instruction) = decode(word, target) else {
                assert!(print(word, target, 0).is_none());
                continue;
            };
            known += 1;
            match encode(&instruction, target) {
                Ok(again) => assert_eq!(again, word, "{target} {word:032x} came back as {again:032x}"),
                Err(error) => panic!("{target} {word:032x}: {error}"),
            }
            let text = print(word, target, 0).expect("known");
            let _ = parse(&text);
        }
    }
    assert!(known > 100_000, "{known}");
}

/// The records contain random words with opcodes of the table, and nvdisasm's verdict and text.
#[test]
fn random_words_print_as_nvdisasm_prints_them() {
    let (mut legal, mut agree) = (0, 0);
    let mut found = BTreeSet::new();
    for record in records("random") {
        let Some(expected) = &record.text else { continue };
        legal += 1;
        let printed = print(record.word, record.target, 0);
        if printed.as_deref().is_some_and(|printed| same_text(printed, expected)) {
            agree += 1;
            continue;
        }
        let kind = if form_of(record.word, record.target).is_none() { "unknown" } else { "text" };
        found.insert(format!("{} {:032x} {kind} | {expected} | {}", record.target, record.word, printed.unwrap_or_default()));
    }
    println!("{agree} of {legal} random words that nvdisasm accepts print the same");
    crate::support::compare_with_list("random-differences.txt", "Random words: target word kind | nvdisasm | oriole", &found, |_| true);
}
