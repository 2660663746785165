//! Compares Oriole's verdicts with those of ptxas and records them.

use oriole_ptx::enumerate::{Case, legal_forms, module_text, mutants};
use oriole_ptx::table::ROWS;
use oriole_ptx::{Options, check};

use crate::oracle::Oracle;

/// Most combinations of modifiers tried for a row.
const LIMIT: usize = 4096;

fn rows_of(opcode: &str) -> Vec<usize> {
    let matches = |row: &usize| {
        let name = ROWS[*row].opcode.spelling();
        opcode == "all" || name == opcode || ROWS[*row].family == opcode || name.split('.').next() == Some(opcode)
    };
    (0..ROWS.len()).filter(matches).collect()
}

/// Whether Oriole takes a case, and its first message if not.
fn own_verdict(case: &Case) -> Result<(), String> {
    let (text, _) = module_text(std::slice::from_ref(case));
    let checked = check(text.as_bytes(), &Options { error_limit: 1 });
    if checked.is_valid() {
        return Ok(());
    }
    let finding = checked.diagnostics.iter().find(|finding| finding.code.severity() == oriole_ptx::diag::Severity::Error);
    Err(finding.map(|finding| format!("{}: {}", finding.code.name(), finding.message)).unwrap_or_default())
}

/// Prints the legal forms of an opcode.
pub fn list(opcode: &str) -> Result<(), String> {
    let mut count = 0;
    for row in rows_of(opcode) {
        for case in legal_forms(row, LIMIT) {
            count += 1;
            if opcode != "all" {
                println!("{}.tbl:{} {} {}  {}", ROWS[row].family, ROWS[row].line, case.platform.version, case.platform.target, case.text);
            }
        }
    }
    println!("{count} forms");
    Ok(())
}

/// Prints differences on one opcode, one family or all.
pub fn compare(opcode: &str) -> Result<(), String> {
    let oracle = Oracle::find()?;
    let limit = std::env::var("ORIOLE_LIMIT").ok().and_then(|limit| limit.parse().ok()).unwrap_or(LIMIT);
    let mut totals = [(0usize, 0usize); 2];
    let legal: Vec<(usize, Case)> = rows_of(opcode).into_iter().flat_map(|row| legal_forms(row, limit).into_iter().map(move |case| (row, case))).collect();
    let changed: Vec<(usize, Case)> = legal.iter().flat_map(|(row, case)| mutants(case).into_iter().map(move |case| (*row, case))).collect();
    for (kind, set) in [("legal", legal), ("mutant", changed)] {
        let cases: Vec<Case> = set.iter().map(|(_, case)| case.clone()).collect();
        let verdicts = oracle.verdicts(&cases);
        let total = &mut totals[usize::from(kind == "mutant")];
        for ((row, case), theirs) in set.iter().zip(verdicts) {
            total.0 += 1;
            let ours = own_verdict(case);
            if ours.is_ok() != theirs {
                total.1 += 1;
                let row = &ROWS[*row];
                let why = ours.err().map_or("Oriole accepts, ptxas rejects".to_string(), |message| format!("ptxas accepts, Oriole: {message}"));
                println!("{kind} {}.tbl:{} [{} {}] {}   => {why}", row.family, row.line, case.platform.version, case.platform.target, case.text);
            }
        }
    }
    for (kind, (all, different)) in ["legal", "mutants"].iter().zip(totals) {
        println!("{kind}: {all} cases, {different} differ, agreement {:.2}%", 100.0 * (all - different) as f64 / all.max(1) as f64);
    }
    Ok(())
}

/// Records the verdicts.
pub fn record() -> Result<(), String> {
    Err("not written yet".to_string())
}
