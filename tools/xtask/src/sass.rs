//! Compares the isa crate with recorded output of nvdisasm.

use std::collections::BTreeMap;
use std::fs;

use oriole_isa::{Control, Target, decode, encode, parse_at, print};

/// Counts of words per target.
#[derive(Default)]
struct Counts {
    words: usize,
    known: usize,
    same_text: usize,
    same_word: usize,
    same_through_text: usize,
}

/// Reads lines `target hex text` (separated by tabs; branch targets as if at address 0). Prints per target how many words decode, print and
/// encode as recorded, and the first differences of each mnemonic.
pub fn compare(path: &str) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))?;
    let mut counts: BTreeMap<&str, Counts> = BTreeMap::new();
    let mut shown: BTreeMap<(String, &str), usize> = BTreeMap::new();
    for line in text.lines() {
        let mut columns = line.split('\t');
        let (Some(name), Some(hex), Some(expected)) = (columns.next(), columns.next(), columns.next()) else { continue };
        let target = Target::parse(name).ok_or_else(|| format!("unknown target {name}"))?;
        let word = u128::from_str_radix(hex, 16).map_err(|e| format!("{hex}: {e}"))?;
        let count = counts.entry(name).or_default();
        count.words += 1;
        let mut complain = |kind: &'static str, got: &str| {
            let mnemonic = expected.split(' ').find(|part| !part.starts_with('@')).unwrap_or_default();
            let times = shown.entry((mnemonic.split('.').next().unwrap_or_default().to_string(), kind)).or_default();
            *times += 1;
            if *times <= 2 {
                println!("{kind} {name} {hex}\n    {expected}\n    {got}");
            }
        };
        let Some(mut instruction) = decode(word, target) else {
            complain("unknown", "");
            continue;
        };
        count.known += 1;
        let printed = print(word, target, 0).unwrap_or_default();
        if same(&printed, expected) {
            count.same_text += 1;
        } else {
            complain("text", &printed);
        }
        instruction.form = None;
        match encode(&instruction, target) {
            Ok(again) if again == word => count.same_word += 1,
            Ok(again) => complain("encode", &format!("{again:032x}")),
            Err(error) => complain("encode", &error.to_string()),
        }
        let through_text = parse_at(&printed, 0, &|_| None).map_err(|e| e.to_string()).and_then(|mut again| {
            again.control = Control { reuse: again.control.reuse, ..Control::of(word) };
            again.control.reuse = 0;
            encode(&again, target).map_err(|e| e.to_string())
        });
        match through_text {
            Ok(again) if again == word => count.same_through_text += 1,
            Ok(again) => complain("assemble", &format!("{again:032x} {printed}")),
            Err(error) => complain("assemble", &format!("{error} | {printed}")),
        }
    }
    let mut kinds: BTreeMap<&str, BTreeMap<usize, Vec<&str>>> = BTreeMap::new();
    for ((mnemonic, kind), times) in &shown {
        kinds.entry(kind).or_default().entry(*times).or_default().push(mnemonic);
    }
    for (kind, mnemonics) in kinds {
        println!("{kind}: {mnemonics:?}");
    }
    println!("target     words   known%  text%  encode%  assemble%");
    for (name, c) in counts {
        let percent = |part: usize| 100.0 * part as f64 / c.words.max(1) as f64;
        println!(
            "{name:9} {:6}  {:7.3} {:7.3} {:7.3} {:7.3}",
            c.words,
            percent(c.known),
            percent(c.same_text),
            percent(c.same_word),
            percent(c.same_through_text)
        );
    }
    Ok(())
}

/// Returns whether two texts are equal except for spaces.
fn same(left: &str, right: &str) -> bool {
    left.chars().filter(|c| *c != ' ').eq(right.chars().filter(|c| *c != ' '))
}
