//! Compares Oriole's verdicts with those of ptxas, and records the verdicts of ptxas.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use oriole_ptx::diag::Severity;
use oriole_ptx::enumerate::verdicts::{Set, cases, format_record};
use oriole_ptx::enumerate::{Case, legal_forms, module_text};
use oriole_ptx::table::ROWS;
use oriole_ptx::{Options, check};

use crate::oracle::Oracle;

const FOLDER: &str = "crates/ptx/tests/verdicts";

/// Returns the rows of an opcode, of the first component of an opcode, of a family, or all rows.
fn rows_of(name: &str) -> Vec<usize> {
    let matches = |row: &usize| {
        let opcode = ROWS[*row].opcode.spelling();
        name == "all" || opcode == name || ROWS[*row].family == name || opcode.split('.').next() == Some(name)
    };
    (0..ROWS.len()).filter(matches).collect()
}

/// Checks a case with Oriole; the error is its first message.
fn own_verdict(case: &Case) -> Result<(), String> {
    let (text, _) = module_text(std::slice::from_ref(case));
    let checked = check(text.as_bytes(), &Options { error_limit: 1 });
    match checked.diagnostics.iter().find(|finding| finding.code.severity() == Severity::Error) {
        Some(finding) => Err(format!("{}: {}", finding.code.name(), finding.message)),
        None => Ok(()),
    }
}

/// Prints the legal forms of an opcode.
pub fn list(name: &str) -> Result<(), String> {
    let mut count = 0;
    for row in rows_of(name) {
        for case in legal_forms(row, usize::MAX >> 1) {
            count += 1;
            println!("{}.tbl:{} {} {}  {}", ROWS[row].family, ROWS[row].line, case.platform.version, case.platform.target, case.text);
        }
    }
    println!("{count} forms");
    Ok(())
}

/// Runs ptxas on the rows of an opcode or family, prints where Oriole differs, and records the verdicts of whole families.
pub fn record(name: &str) -> Result<(), String> {
    let oracle = Oracle::find()?;
    fs::create_dir_all(FOLDER).map_err(|e| e.to_string())?;
    let mut families: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for row in rows_of(name) {
        families.entry(ROWS[row].family).or_default().push(row);
    }
    let mut totals = [(0, 0); Set::ALL.len()];
    for (family, rows) in families {
        let mut lines = vec!["# Verdicts of ptxas 13.0.88; refresh with `cargo run --release -p xtask -- verdicts`.".to_string()];
        for (position, set) in Set::ALL.into_iter().enumerate() {
            let per_row: Vec<Vec<Case>> = rows.iter().map(|&row| cases(row, set)).collect();
            let all: Vec<Case> = per_row.iter().flatten().cloned().collect();
            let verdicts = oracle.verdicts(&all, if set == Set::Legal { 128 } else { 24 });
            let mut start = 0;
            for (&row, cases) in rows.iter().zip(&per_row) {
                let verdicts = &verdicts[start..start + cases.len()];
                start += cases.len();
                if !cases.is_empty() {
                    lines.push(format_record(row, set, cases, verdicts));
                }
                let different = print_differences(row, set, cases, verdicts);
                totals[position].0 += cases.len();
                totals[position].1 += different;
            }
        }
        let whole = rows.len() == ROWS.iter().filter(|row| row.family == family).count();
        if whole {
            lines.sort();
            fs::write(Path::new(FOLDER).join(format!("{family}.txt")), lines.join("\n") + "\n").map_err(|e| e.to_string())?;
        }
    }
    for (set, (count, different)) in Set::ALL.iter().zip(totals) {
        let set = set.name();
        println!("{set}: {count} cases, {different} differ, agreement {:.2}%", 100.0 * (count - different) as f64 / count.max(1) as f64);
    }
    Ok(())
}

/// Prints the cases whose verdicts differ; returns their number.
fn print_differences(row: usize, set: Set, cases: &[Case], verdicts: &[bool]) -> usize {
    let mut different = 0;
    for (case, &theirs) in cases.iter().zip(verdicts) {
        let ours = own_verdict(case);
        if ours.is_ok() == theirs {
            continue;
        }
        different += 1;
        let why = ours.err().map_or("Oriole accepts, ptxas rejects".to_string(), |message| format!("ptxas accepts, Oriole: {message}"));
        println!(
            "{} {}.tbl:{} [{} {}] {}   => {why}",
            set.name(),
            ROWS[row].family,
            ROWS[row].line,
            case.platform.version,
            case.platform.target,
            case.text
        );
    }
    different
}
