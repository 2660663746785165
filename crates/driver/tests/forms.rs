//! Checks that every legal form of the PTX table compiles for every target that has it, or is refused by name.
//!
//! Each instruction is compiled in a kernel of its own without optimization, so that nothing removes it. An internal error is a failure. So
//! is a refusal of an opcode that is not on the list of unsupported opcodes.

use std::collections::{BTreeMap, BTreeSet};

use oriole_driver::{Fault, Options, compile};
use oriole_isa::Target;
use oriole_ptx::enumerate::{Case, legal_forms, module_text};
use oriole_ptx::table::{Opcode, ROWS};
use oriole_ptx::target::{Platform, PtxVersion};

/// One target for each set of encodings.
const TARGETS: [&str; 6] = ["sm_75", "sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a"];

/// Maximum number of forms to compile per row of the table, evenly spread.
const FORMS_PER_ROW: usize = 60;

/// Maximum number of forms to compile per row of the table with each guard.
const GUARDED_FORMS_PER_ROW: usize = 12;

/// Returns whether an opcode is not supported yet: sparse matrices of warp groups, textures, surfaces, video instructions.
fn is_left_out(opcode: Opcode) -> bool {
    let name = opcode.spelling();
    let families = [
        "wgmma.mma_async.sp",
        "tcgen05",
        "ldmatrix",
        "stmatrix",
        "multimem",
        "st.bulk",
        "tex",
        "tld4",
        "txq",
        "suld",
        "sust",
        "sured",
        "suq",
        "istypep",
        "clusterlaunchcontrol",
        "v",
    ];
    families.iter().any(|family| name.starts_with(family)) && !name.starts_with("vote")
}

/// Returns whether a form of a supported opcode is not supported yet: sparse and scaled matrix products and those of quarter warps,
/// asynchronous stores and reductions in global memory.
fn is_left_out_form(text: &str) -> bool {
    if text.starts_with("mma.") {
        return text.starts_with("mma.sp") || text.contains(".kind::") || text.contains(".m8n8k4.") && text.contains(".f16.f16.");
    }
    // Clamped floats, which ptxas warns about.
    if text.starts_with("wmma.mma") {
        return text.contains(".satfinite") && !text.contains(".s32");
    }
    (text.starts_with("st.async") || text.starts_with("red.async")) && text.contains(".release.")
}

/// Returns the cases that are valid on a platform.
fn valid_cases(cases: &[Case], platform: Platform) -> Vec<Case> {
    let mut kept: Vec<Case> = cases.iter().map(|case| Case { platform, ..case.clone() }).collect();
    while !kept.is_empty() {
        let (text, places) = module_text(&kept);
        let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options { error_limit: 100_000 });
        if checked.is_valid() {
            return kept;
        }
        let lines = oriole_ptx::source::LineIndex::new(text.as_bytes());
        let wrong: Vec<u32> = checked.diagnostics.iter().map(|finding| lines.line_column(finding.span.start).0).collect();
        let before = kept.len();
        let mut number = 0;
        kept.retain(|_| {
            number += 1;
            !wrong.contains(&places[number - 1])
        });
        assert!(kept.len() < before, "{:?}", checked.diagnostics.first());
    }
    kept
}

/// Compiles the forms of the rows for which `is_wanted` holds, after `guard`, and panics with a list of those that fail.
fn check_forms(guard: &str, forms_per_row: usize, is_wanted: impl Fn(Opcode) -> bool) {
    let mut failures: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut compiled = 0;
    for name in TARGETS {
        let target = Target::parse(name).unwrap();
        let platform = Platform { version: PtxVersion::new(9, 0), target };
        for (row, _) in ROWS.iter().enumerate().filter(|(_, row)| !is_left_out(row.opcode) && is_wanted(row.opcode)) {
            let guarded = |case: Case| Case { text: format!("{guard}{}", case.text), ..case };
            let forms: Vec<Case> = legal_forms(row, forms_per_row).into_iter().map(guarded).collect();
            let cases = valid_cases(&forms, platform);
            if cases.is_empty() {
                continue;
            }
            let (text, _) = module_text(&cases);
            let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
            let options = Options { level: 0, verify: true, ..Options::new(target) };
            let errors = compile(&[&checked.module], &options).err().unwrap_or_default();
            let failed: BTreeSet<&str> = errors.iter().filter_map(|error| error.function.as_deref()).collect();
            compiled += cases.len() - failed.len();
            for error in errors {
                let number: usize = error.function.as_deref().unwrap_or_default().trim_start_matches('k').parse().unwrap_or(0);
                let kind = match &error.fault {
                    Fault::Unsupported(_) => "refused",
                    Fault::Unresolved(_) => "unresolved",
                    Fault::Limit(_) | Fault::TooMuch(_) => "limit",
                    Fault::Internal(_) => "internal",
                };
                if kind == "refused" && is_left_out_form(cases[number].text.trim_start_matches(guard)) {
                    continue;
                }
                let key = format!("{name} {kind}: {}", ROWS[row].opcode.spelling());
                failures.entry(key).or_default().push(format!("{}  -- {error}", cases[number].text));
            }
        }
    }
    let mut report = String::new();
    for (key, texts) in &failures {
        report += &format!("{key}: {} forms, such as {}\n", texts.len(), texts[0]);
    }
    assert!(failures.is_empty(), "{compiled} forms compiled; these did not:\n{report}");
    assert!(compiled > 0, "no form was compiled");
}

#[test]
fn every_form_compiles_or_is_refused_by_name() {
    check_forms("", FORMS_PER_ROW, |_| true);
}

/// Some machine instructions take no guard; a PTX instruction that is selected to one of them needs a branch around it.
#[test]
fn every_form_compiles_under_a_guard() {
    check_forms("@%pred_299 ", GUARDED_FORMS_PER_ROW, |_| true);
    check_forms("@!%pred_299 ", GUARDED_FORMS_PER_ROW, |_| true);
}
