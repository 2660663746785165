//! Compares Oriole's verdict on every enumerated form and mutant with the recorded verdict of ptxas.
//!
//! The records are under `tests/verdicts`; `cargo run --release -p xtask -- verdicts` records them again. Every case on which both
//! differ is in `tests/verdicts/disagreements.txt`, with the rule of `differences.txt` that explains it; `docs/differences.md` describes
//! the rules and quotes the manual. The test fails if a case is new or missing; `ORIOLE_BLESS=1` rewrites the list for review.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use oriole_ptx::enumerate::verdicts::{Set, cases, digest, parse_records, row_name};
use oriole_ptx::enumerate::{Case, module_text};
use oriole_ptx::table::ROWS;
use oriole_ptx::{Options, check};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/verdicts")
}

fn accepts(case: &Case) -> bool {
    let (text, _) = module_text(std::slice::from_ref(case));
    check(text.as_bytes(), &Options { error_limit: 1 }).is_valid()
}

/// A rule of `differences.txt`: `name | who accepts | families or sets | words that must all occur in the text`.
struct Rule {
    name: String,
    ptxas_accepts: bool,
    families: Vec<String>,
    words: Vec<String>,
}

fn rules() -> Vec<Rule> {
    let text = fs::read_to_string(folder().join("differences.txt")).expect("differences.txt");
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    lines
        .map(|line| {
            let parts: Vec<&str> = line.split('|').map(str::trim).collect();
            let [name, who, families, words] = parts.as_slice() else { panic!("not a rule: {line}") };
            Rule {
                name: (*name).to_string(),
                ptxas_accepts: *who == "ptxas accepts",
                families: families.split_whitespace().map(str::to_string).collect(),
                words: words.split_whitespace().map(str::to_string).collect(),
            }
        })
        .collect()
}

impl Rule {
    fn explains(&self, family: &str, set: Set, case: &Case, ptxas_accepts: bool) -> bool {
        let text = format!("{} {} {}", case.platform.version, case.platform.target, case.text);
        self.ptxas_accepts == ptxas_accepts
            && (self.families.iter().any(|known| known == family || known == set.name() || known == "*"))
            && self.words.iter().all(|word| text.contains(word.as_str()))
    }
}

/// Returns the cases of each row and set, and whether Oriole accepts them. Judges the rows on all cores.
fn judged_cases() -> BTreeMap<(usize, Set), (Vec<Case>, Vec<bool>)> {
    let next = AtomicUsize::new(0);
    let judged = Mutex::new(BTreeMap::new());
    let work = || {
        loop {
            let row = next.fetch_add(1, Ordering::Relaxed);
            if row >= ROWS.len() {
                return;
            }
            for set in Set::ALL {
                let cases = cases(row, set);
                let accepted = cases.iter().map(accepts).collect();
                judged.lock().unwrap().insert((row, set), (cases, accepted));
            }
        }
    };
    std::thread::scope(|scope| (0..std::thread::available_parallelism().map_or(1, usize::from)).for_each(|_| drop(scope.spawn(work))));
    judged.into_inner().unwrap()
}

#[test]
fn verdicts_agree_with_ptxas() {
    let rules = rules();
    let judged = judged_cases();
    let mut used: BTreeSet<&str> = BTreeSet::new();
    let mut counts: BTreeMap<Set, (usize, usize)> = BTreeMap::new();
    let mut complaints = String::new();
    let mut listed: Vec<String> = Vec::new();
    let families: BTreeSet<&str> = ROWS.iter().map(|row| row.family).collect();
    for family in families {
        let text = fs::read_to_string(folder().join(format!("{family}.txt"))).unwrap_or_default();
        let records = parse_records(&text);
        for row in (0..ROWS.len()).filter(|&row| ROWS[row].family == family) {
            for set in Set::ALL {
                let (cases, accepted) = &judged[&(row, set)];
                if cases.is_empty() {
                    continue;
                }
                let Some((hash, verdicts)) = records.get(&(row_name(row), set.name().to_string())) else {
                    let _ = writeln!(complaints, "{family}: no {} record for {}", set.name(), row_name(row));
                    continue;
                };
                if *hash != digest(cases) || verdicts.len() != cases.len() {
                    let _ = writeln!(complaints, "{family}: the {} record of {} is out of date", set.name(), row_name(row));
                    continue;
                }
                let count = counts.entry(set).or_default();
                for ((case, &ours), &theirs) in cases.iter().zip(accepted).zip(verdicts) {
                    count.0 += 1;
                    if ours == theirs {
                        continue;
                    }
                    count.1 += 1;
                    let who = if theirs { "ptxas accepts" } else { "Oriole accepts" };
                    match rules.iter().find(|rule| rule.explains(family, set, case, theirs)) {
                        // Thousands of orders that only Oriole accepts are not listed; they are in the records.
                        Some(rule) if set == Set::Orders && !theirs => {
                            used.insert(&rule.name);
                        }
                        Some(rule) => {
                            used.insert(&rule.name);
                            let place = format!("{} {}", case.platform.version, case.platform.target);
                            listed.push(format!("{} | {who} | {family} | {place} | {}", rule.name, case.text));
                        }
                        None => {
                            let _ =
                                writeln!(complaints, "{family}: {who} [{} {}] {}", case.platform.version, case.platform.target, case.text);
                        }
                    }
                }
            }
        }
    }
    compare_list(listed, &mut complaints);
    for rule in &rules {
        if !used.contains(rule.name.as_str()) {
            let _ = writeln!(complaints, "rule `{}` explains nothing any more", rule.name);
        }
    }
    for (set, (all, different)) in &counts {
        let agreement = 100.0 * (all - different) as f64 / *all as f64;
        println!("{}: {all} cases, {different} differ, agreement {agreement:.2}%", set.name());
        if agreement < 99.0 && *set != Set::Orders {
            let _ = writeln!(complaints, "{}: agreement is only {agreement:.2}%", set.name());
        }
    }
    assert!(complaints.is_empty(), "\n{complaints}refresh with `cargo run --release -p xtask -- verdicts`");
}

/// Compares the disagreements with the reviewed list.
fn compare_list(mut listed: Vec<String>, complaints: &mut String) {
    listed.sort();
    let path = folder().join("disagreements.txt");
    let header = "# Every case on which Oriole and ptxas 13.0.88 differ: rule | who accepts | family | platform | instruction.";
    if std::env::var_os("ORIOLE_BLESS").is_some() {
        fs::write(&path, format!("{header}\n{}\n", listed.join("\n"))).expect("disagreements.txt");
        return;
    }
    let text = fs::read_to_string(&path).unwrap_or_default();
    let known: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    for line in listed.iter().filter(|line| !known.contains(&line.as_str())) {
        let _ = writeln!(complaints, "new disagreement: {line}");
    }
    for line in known.iter().filter(|line| !listed.iter().any(|other| other == *line)) {
        let _ = writeln!(complaints, "no longer a disagreement: {line}");
    }
}

#[test]
fn every_rule_is_documented() {
    let document =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/differences.md")).expect("docs/differences.md");
    let missing: Vec<String> = rules().into_iter().map(|rule| rule.name).filter(|name| !document.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "not in docs/differences.md: {missing:?}");
}

#[test]
fn the_table_is_large_and_every_row_has_cases() {
    let empty: Vec<String> = (0..ROWS.len()).filter(|&row| cases(row, Set::Legal).is_empty()).map(row_name).collect();
    assert!(ROWS.len() > 1000, "{} rows", ROWS.len());
    assert!(empty.is_empty(), "rows that no platform has: {empty:?}");
}
