//! Encodes every value of every field and compares with nvdisasm.
//!
//! The table may be wrong in a way that its own tests do not detect: decoder and encoder agree on a bit that the hardware interprets
//! differently. Therefore, for each form of each target, this test takes a recorded word that nvdisasm accepts, sets each field, flag
//! and sign to each of its values in turn, encodes the instruction as a new one, and compares nvdisasm's text with ours. Combinations
//! that a target does not have are listed with both texts; the test fails if the list changes.
//!
//! Skipped if nvdisasm is missing. Compares a sample of the targets; `ORIOLE_REFRESH=1` compares all, and `ORIOLE_BLESS=1` rewrites the
//! list from all.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::support::{compare_with_list, folder, records, same_text};
use oriole_isa::table::{Core, Form, FormId, Piece, Sign, Slot, Term};
use oriole_isa::{Control, Target, decode, encode, form_of, print};

const LIST: &str = "nvdisasm-differences.txt";
const HEADER: &str = "Values that a form has and a target refuses: target word | nvdisasm | oriole";
const REFUSED: &str = "(refused)";
const NO_TEXT: &str = "(no text)";

/// The targets that are compared without `ORIOLE_REFRESH`: the oldest, Hopper, and the latest.
const SAMPLE: [u16; 3] = [75, 90, 120];

/// Limit on the new refusals per target; each costs a start of nvdisasm.
const MOST_REFUSALS: usize = 20;

/// The words that differ from a word in the value of one field, flag or sign.
struct Variations {
    base: u128,
    words: Vec<u128>,
}

impl Variations {
    fn of(form: &Form, base: u128) -> Vec<u128> {
        let mut all = Variations { base, words: vec![base] };
        all.pieces(form.modifiers);
        form.operands.iter().for_each(|slot| all.slot(slot));
        all.words
    }

    fn slot(&mut self, slot: &Slot) {
        for sign in [slot.negate, slot.invert, slot.not, slot.absolute] {
            if let Sign::When(bit, _) = sign {
                self.words.push(self.base ^ 1 << bit);
            }
        }
        match &slot.core {
            Core::Field(_) => {
                if let Core::Field(id) = slot.core {
                    self.pieces(&[Piece::Field(id)]);
                }
            }
            Core::Address(_, parts) => {
                for part in *parts {
                    self.pieces(part.suffixes);
                    for term in part.terms {
                        if let Term::Register { suffixes, .. } = term {
                            self.pieces(suffixes);
                        }
                    }
                }
            }
            _ => {}
        }
        self.pieces(slot.suffixes);
    }

    fn pieces(&mut self, pieces: &[Piece]) {
        for piece in pieces {
            match piece {
                Piece::Field(id) => {
                    let field = id.field();
                    let named = (0..).zip(field.spellings).filter(|(_, spelling)| spelling.is_some());
                    self.words.extend(named.map(|(value, _)| self.base & !field.bits.mask | field.bits.place(value)));
                }
                Piece::Flag { bit, .. } => self.words.push(self.base ^ 1 << bit),
                Piece::Literal(_) | Piece::Reuse(_) | Piece::Alias => {}
            }
        }
    }
}

/// Encodes the instruction of a word as a new one; `None` for values without a name, which can occur when fields share bits.
fn encoded_anew(word: u128, target: Target) -> Option<u128> {
    if print(word, target, 0)?.contains("INVALID") {
        return None;
    }
    let mut instruction = decode(word, target)?;
    instruction.form = None;
    instruction.residue = 0;
    encode(&instruction, target).ok()
}

/// Returns the text of each word, or the index of the first word that nvdisasm rejects.
fn ask(tool: &Path, target: Target, words: &[u128]) -> Result<Vec<String>, usize> {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let number = ASKED.fetch_add(1, Ordering::Relaxed);
    let input = env::temp_dir().join(format!("oriole-nvdisasm-{}-{number}.bin", std::process::id()));
    fs::write(&input, words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>()).expect("words written");
    let letter = if target.number() >= 90 { "a" } else { "" };
    let output = Command::new(tool).args(["-b", &format!("SM{}{letter}", target.number())]).arg(&input).output().expect("nvdisasm");
    fs::remove_file(&input).expect("words removed");
    if !output.status.success() {
        let message = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let address = message.split("at address 0x").nth(1).unwrap_or_else(|| panic!("{target}: {message}"));
        let digits: String = address.chars().take_while(char::is_ascii_hexdigit).collect();
        return Err(usize::from_str_radix(&digits, 16).expect("address") / 16);
    }
    let listing = String::from_utf8_lossy(&output.stdout);
    let mut texts = vec![NO_TEXT.to_string(); words.len()];
    for line in listing.lines() {
        let Some((address, text)) = line.trim_start().strip_prefix("/*").and_then(|line| line.split_once("*/")) else { continue };
        let text = text.split("/*").next().expect("text").trim().trim_end_matches(';').trim();
        if let (Ok(address), false) = (usize::from_str_radix(address, 16), text.is_empty()) {
            texts[address / 16] = text.to_string();
        }
    }
    Ok(texts)
}

/// Returns the words that the list says are rejected, so that they are not tried again.
fn known_refusals() -> BTreeSet<String> {
    let text = fs::read_to_string(folder().join(LIST)).unwrap_or_default();
    text.lines().filter(|line| line.contains(REFUSED)).map(str::to_string).collect()
}

#[test]
fn nvdisasm_reads_what_the_encoder_writes() {
    let Some(tool) = oriole_oracles::tool("nvdisasm") else { return };
    let blessing = env::var_os("ORIOLE_BLESS").is_some();
    let listed = if blessing { BTreeSet::new() } else { known_refusals() };
    let mut bases: BTreeMap<(u16, FormId), (Target, u128)> = BTreeMap::new();
    for record in records("corpus") {
        if let Some(form) = form_of(record.word, record.target) {
            bases.entry((record.target.number(), form)).or_insert((record.target, record.word));
        }
    }
    let takes_all = blessing || oriole_oracles::compares_everything();
    let is_compared = |number: u16| takes_all || SAMPLE.contains(&number);
    assert_eq!(bases.keys().map(|(number, _)| number).collect::<BTreeSet<_>>().len(), 12, "targets with words");
    bases.retain(|&(number, _), _| is_compared(number));
    let mut words: BTreeMap<u16, (Target, BTreeSet<u128>)> = BTreeMap::new();
    for ((number, form), (target, base)) in bases {
        let entry = words.entry(number).or_insert((target, BTreeSet::new()));
        entry.1.extend(Variations::of(form.form(), base).into_iter().filter_map(|word| encoded_anew(word, target)));
    }
    let total: usize = words.values().map(|(_, distinct)| distinct.len()).sum();
    // The differences of one target.
    let compare = |target: Target, distinct: BTreeSet<u128>| {
        let mut found = BTreeSet::new();
        let line = |word: u128, theirs: &str, at: u64| {
            format!("{target} {word:032x} | {theirs} | {}", print(word, target, at).expect("encoded by the table"))
        };
        let (refused, mut rest): (Vec<u128>, Vec<u128>) = distinct.into_iter().partition(|&word| listed.contains(&line(word, REFUSED, 0)));
        found.extend(refused.into_iter().map(|word| line(word, REFUSED, 0)));
        let mut refusals = 0;
        let texts = loop {
            match ask(&tool, target, &rest) {
                Ok(texts) => break texts,
                Err(position) => {
                    found.insert(line(rest.remove(position), REFUSED, 0));
                    refusals += 1;
                    assert!(blessing || refusals < MOST_REFUSALS, "{target}: nvdisasm refuses {found:#?}");
                }
            }
        };
        for (position, (&word, theirs)) in rest.iter().zip(&texts).enumerate() {
            let at = 16 * position as u64;
            let ours = print(word, target, at).expect("encoded by the table");
            if !same_text(&ours, theirs) {
                found.insert(line(word, theirs, at));
            }
        }
        found
    };
    let left = Mutex::new(words.into_values());
    let found: BTreeSet<String> = thread::scope(|scope| {
        let work = || std::iter::from_fn(|| left.lock().unwrap().next()).flat_map(|(target, distinct)| compare(target, distinct)).collect();
        let workers: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker: thread::ScopedJoinHandle<'_, BTreeSet<String>>| worker.join().unwrap()).collect()
    });
    println!("{total} words, {} differ", found.len());
    assert!(total > if takes_all { 90_000 } else { 20_000 }, "only {total} words");
    let is_compared = |target: &str| is_compared(Target::parse(target).expect("a target").number());
    compare_with_list(LIST, HEADER, &found, |line| line.split(' ').next().is_some_and(is_compared));
}

/// Instructions with a form for which nvdisasm rejects a scoreboard in some words and accepts it in others: `CCTLL.IV` without an
/// address is `CCTLL.IVALL`; `CCTL.IVALL` never sets one, but from sm_100 on `CCTL.C.IVALL` does.
const DEPENDS_ON_THE_WORD: [&str; 2] = ["CCTL", "CCTLL"];

/// A form may set scoreboards if and only if the table does not say `never`. All forms that may are tested with both scoreboards; of the
/// others every 84th word, with `ORIOLE_REFRESH` every seventh, because each costs a start of nvdisasm.
#[test]
fn nvdisasm_refuses_scoreboards_that_a_form_never_sets() {
    let Some(tool) = oriole_oracles::tool("nvdisasm") else { return };
    let (mut taken, mut refused) = (0, 0);
    let step = if oriole_oracles::compares_everything() { 7 } else { 84 };
    for number in [75, 90, 100, 120] {
        let mut bases: BTreeMap<FormId, (Target, u128)> = BTreeMap::new();
        for record in records("corpus").into_iter().filter(|record| record.target.number() == number) {
            if let Some(form) = form_of(record.word, record.target) {
                bases.entry(form).or_insert((record.target, record.word));
            }
        }
        bases.retain(|form, _| !DEPENDS_ON_THE_WORD.contains(&form.form().opcode.mnemonic()));
        let target = Target::plain(number);
        let (mut may, mut may_not) = (Vec::new(), Vec::new());
        for (form, (_, word)) in bases {
            let control = Control { read_barrier: None, write_barrier: None, ..Control::of(word) };
            let with = |control: Control| word & !Control::MASK | control.bits();
            let reads = with(Control { read_barrier: Some(0), ..control });
            let results = with(Control { write_barrier: Some(0), ..control });
            for (word, sets) in [(reads, form.form().sets_read_barrier), (results, form.form().sets_write_barrier)] {
                if sets { may.push(word) } else { may_not.push(word) }
            }
        }
        taken += may.len();
        if let Err(position) = ask(&tool, target, &may) {
            panic!("{target}: nvdisasm refuses {:032x} {:?}", may[position], print(may[position], target, 0));
        }
        for word in may_not.into_iter().step_by(step) {
            refused += 1;
            assert!(ask(&tool, target, &[word]).is_err(), "{target}: nvdisasm takes {word:032x} {:?}", print(word, target, 0));
        }
    }
    assert!(taken > 5000 && refused > 420 / step, "{taken} words taken, {refused} refused");
}
