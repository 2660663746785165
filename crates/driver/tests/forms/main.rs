//! Checks that every legal form of the PTX table compiles for every target that has it.
//!
//! Each instruction is compiled in a kernel of its own without optimization, so that nothing removes it. A refusal is a failure, and so is
//! an internal error. The rows are sampled; `ORIOLE_ALL_FORMS=1 cargo test -p oriole-driver --test forms every_legal_form -- --nocapture`
//! compiles all forms for all targets and lets nvdisasm read them (`all.rs`). It prints a line for each target. The test executable needs
//! no other file than nvdisasm, in the folder that `ORIOLE_ORACLES` names, so it can be copied to a machine with more processors.
//!
//! `forms.txt` is a baseline of the generated code: for each opcode the number of forms, the number of instructions and a digest of the
//! cubins. It is no statement of correctness: a line that changes must be reviewed and explained by the change that causes it.
//! `ORIOLE_BLESS=1` rewrites the table.

mod all;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use oriole_driver::{CompileError, Compiled, ErrorCause, Hooks, Options, Parallelism, compile};
use oriole_isa::Target;
use oriole_ptx::enumerate::{Case, legal_forms, module_text};
use oriole_ptx::table::ROWS;
use oriole_ptx::target::{Platform, PtxVersion};

/// One target for each set of encodings.
const TARGETS: [&str; 7] = ["sm_75", "sm_80", "sm_89", "sm_90a", "sm_100a", "sm_103a", "sm_120a"];

/// Maximum number of forms to compile per row of the table, evenly spread.
const FORMS_PER_ROW: usize = 60;

/// The same for textures, which have more than a hundred rows that differ in operands only.
const TEXTURES_PER_ROW: usize = 8;

/// Maximum number of forms to compile per row of the table with each guard.
const GUARDED_FORMS_PER_ROW: usize = 4;

/// The same with `ORIOLE_REFRESH`, and for Volta.
const MORE_GUARDED_FORMS_PER_ROW: usize = 12;

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

/// Returns a case that names textures, samplers or surfaces, and the same case with handles in registers; any other case alone.
fn with_handles(case: Case) -> Vec<Case> {
    let is_texture = ["tex", "tld4", "txq", "su"].iter().any(|opcode| case.text.starts_with(opcode));
    if !is_texture {
        return vec![case];
    }
    let handles = [("[tex", "[%b64_290"), ("[srf", "[%b64_290"), ("[smp", "[%b64_291"), (", smp", ", %b64_291")];
    let text = handles.iter().fold(case.text.clone(), |text, (name, handle)| text.replace(name, handle));
    vec![case.clone(), Case { text, ..case }]
}

/// What the baseline records about an opcode.
#[derive(Default)]
struct Recorded {
    forms: usize,
    instructions: usize,
    digests: Vec<u8>,
}

impl Recorded {
    fn add(&mut self, compiled: &Compiled) {
        self.forms += compiled.functions.len();
        self.instructions += compiled.functions.iter().map(|function| function.instructions).sum::<usize>();
        self.digests.extend(digest(&compiled.cubin).to_le_bytes());
    }

    fn append(&mut self, other: Recorded) {
        self.forms += other.forms;
        self.instructions += other.instructions;
        self.digests.extend(other.digests);
    }

    fn line(&self, name: &str) -> String {
        format!("{name}: forms {}, instructions {}, file {:016x}\n", self.forms, self.instructions, digest(&self.digests))
    }
}

/// Returns the FNV-1a hash of bytes.
fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Compares the generated code with `forms.txt`, or records it.
fn compare(recorded: &BTreeMap<&str, Recorded>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/forms.txt");
    let lines: String = recorded.iter().map(|(name, recorded)| recorded.line(name)).collect();
    if std::env::var_os("ORIOLE_BLESS").is_some() {
        std::fs::write(&path, &lines).expect("forms.txt");
    }
    let text = std::fs::read_to_string(&path).expect("forms.txt");
    let new: Vec<&str> = lines.lines().filter(|line| !text.lines().any(|other| other == *line)).collect();
    assert!(
        new.is_empty(),
        "{} lines differ from forms.txt; review them, then record them with ORIOLE_BLESS=1:\n{}",
        new.len(),
        new.join("\n")
    );
    assert_eq!(lines.lines().count(), text.lines().count(), "forms.txt has lines that nothing makes; record with ORIOLE_BLESS=1");
}

/// Compiles cases without optimization; returns the errors if there are any.
fn compile_cases(cases: &[Case], target: Target) -> Result<Compiled, Vec<CompileError>> {
    let (text, _) = module_text(cases);
    let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
    // Rows are compiled in parallel, so each compilation stays on its thread.
    let hooks = Hooks { parallelism: Parallelism::Sequential, ..Hooks::default() };
    compile(&[&checked.module], &Options { level: 0, verify: true, hooks, ..Options::new(target) })
}

/// The forms to compile.
struct Selection {
    targets: Vec<Target>,
    /// Text before each instruction.
    guard: &'static str,
    /// Maximum numbers of forms per row.
    forms_per_row: usize,
    textures_per_row: usize,
}

/// Returns the number of processors.
fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

impl Selection {
    /// A sample for each set of encodings.
    fn sample(guard: &'static str, forms_per_row: usize) -> Selection {
        let targets = TARGETS.iter().map(|name| Target::parse(name).unwrap()).collect();
        Selection { targets, guard, forms_per_row, textures_per_row: forms_per_row.min(TEXTURES_PER_ROW) }
    }

    /// Returns the forms of a row that the newest version of PTX has for a target.
    fn forms(&self, row: usize, target: Target) -> Vec<Case> {
        let limit = if ROWS[row].family == "texture" { self.textures_per_row } else { self.forms_per_row };
        let guarded = |case: Case| Case { text: format!("{}{}", self.guard, case.text), ..case };
        let forms: Vec<Case> = legal_forms(row, limit).into_iter().flat_map(with_handles).map(guarded).collect();
        valid_cases(&forms, Platform { version: PtxVersion::NEWEST, target })
    }
}

/// Runs a command. If the system has no room for another process, waits and tries again.
fn output_of(command: &mut std::process::Command) -> std::process::Output {
    let mut tries = 0;
    loop {
        match command.output() {
            Ok(output) => return output,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock && tries < 600 => {
                tries += 1;
                std::thread::sleep(Duration::from_millis(500));
            }
            Err(error) => panic!("{command:?}: {error}"),
        }
    }
}

/// Returns the kind of an error in a word.
fn kind_of(error: &CompileError) -> &'static str {
    match &error.fault {
        ErrorCause::Unsupported(_) => "refused",
        ErrorCause::Unresolved(_) => "unresolved",
        ErrorCause::Limit(_) | ErrorCause::TooMuch(_) => "limit",
        ErrorCause::Cancelled => "cancelled",
        ErrorCause::Internal(_) => "internal",
    }
}

/// What compiling the forms of one row for one target gave.
#[derive(Default)]
struct RowResult {
    /// What to record in a baseline, in order.
    recorded: Vec<Recorded>,
    /// Number of forms that compile.
    compiled: usize,
    /// Kinds of failures with the forms, and the messages.
    failures: Vec<(&'static str, String)>,
}

impl RowResult {
    fn record(&mut self, compiled: &Compiled) {
        let mut recorded = Recorded::default();
        recorded.add(compiled);
        self.recorded.push(recorded);
    }

    /// Compiles the forms of a row.
    fn add(&mut self, cases: &[Case], target: Target) {
        let errors = match compile_cases(cases, target) {
            Ok(compiled) => {
                self.record(&compiled);
                Vec::new()
            }
            Err(errors) => errors,
        };
        let failed: BTreeSet<&str> = errors.iter().filter_map(|error| error.function.as_deref()).collect();
        self.compiled += cases.len() - failed.len();
        if !failed.is_empty() && failed.len() < cases.len() {
            let numbered = cases.iter().enumerate().filter(|(number, _)| !failed.contains(format!("k{number}").as_str()));
            let kept: Vec<Case> = numbered.map(|(_, case)| case.clone()).collect();
            if let Ok(compiled) = compile_cases(&kept, target) {
                self.record(&compiled);
            }
        }
        for error in &errors {
            let number: usize = error.function.as_deref().unwrap_or_default().trim_start_matches('k').parse().unwrap_or(0);
            self.failures.push((kind_of(error), format!("{}  -- {error}", cases[number].text)));
        }
    }
}

/// Compiles the forms of all rows for a target on all processors. Returns the results of the rows in their order.
fn compile_rows(selection: &Selection, target: Target) -> Vec<RowResult> {
    let next = AtomicUsize::new(0);
    let results: Mutex<BTreeMap<usize, RowResult>> = Mutex::default();
    let work = || {
        loop {
            let row = next.fetch_add(1, Ordering::Relaxed);
            if row >= ROWS.len() {
                return;
            }
            let mut result = RowResult::default();
            let cases = selection.forms(row, target);
            if !cases.is_empty() {
                result.add(&cases, target);
            }
            results.lock().unwrap().insert(row, result);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..processors() {
            scope.spawn(work);
        }
    });
    results.into_inner().unwrap().into_values().collect()
}

/// Compiles forms, and panics with a list of those that fail. Returns what a baseline records.
fn check_forms(selection: &Selection) -> BTreeMap<&'static str, Recorded> {
    let mut failures: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut compiled = 0;
    let mut recorded: BTreeMap<&str, Recorded> = BTreeMap::new();
    for &target in &selection.targets {
        let results = compile_rows(selection, target);
        compiled += results.iter().map(|result| result.compiled).sum::<usize>();
        for (row, result) in results.into_iter().enumerate() {
            let opcode = ROWS[row].opcode.spelling();
            let baseline = recorded.entry(opcode).or_default();
            result.recorded.into_iter().for_each(|part| baseline.append(part));
            for (kind, text) in result.failures {
                failures.entry(format!("{target} {kind}: {opcode}")).or_default().push(text);
            }
        }
    }
    let mut report = String::new();
    for (key, texts) in &failures {
        report += &format!("{key}: {} forms, such as {}\n", texts.len(), texts[0]);
    }
    assert!(failures.is_empty(), "{compiled} forms compiled; these did not:\n{report}");
    assert!(compiled > 0, "no form was compiled");
    println!("{compiled} forms compiled for {} targets", selection.targets.len());
    recorded.retain(|_, recorded| recorded.forms > 0);
    recorded
}

#[test]
fn every_form_compiles() {
    compare(&check_forms(&Selection::sample("", FORMS_PER_ROW)));
}

/// Some machine instructions take no guard; a PTX instruction that is selected to one of them needs a branch around it. sm_90a gets both
/// guards, each of the other targets one of them; with `ORIOLE_REFRESH`, all targets get both.
#[test]
fn every_form_compiles_under_a_guard() {
    let everything = oriole_oracles::compares_everything();
    let forms_per_row = if everything { MORE_GUARDED_FORMS_PER_ROW } else { GUARDED_FORMS_PER_ROW };
    for (number, guard) in ["@%pred_299 ", "@!%pred_299 "].into_iter().enumerate() {
        let mut selection = Selection::sample(guard, forms_per_row);
        if !everything {
            let names = TARGETS.into_iter().enumerate().filter(|&(at, name)| name == "sm_90a" || at % 2 == number);
            selection.targets = names.map(|(_, name)| Target::parse(name).unwrap()).collect();
        }
        check_forms(&selection);
    }
}

/// Volta has encodings of its own.
#[test]
fn every_form_compiles_for_volta() {
    let targets = ["sm_70", "sm_72"].map(|name| Target::parse(name).unwrap()).to_vec();
    check_forms(&Selection { targets, ..Selection::sample("", MORE_GUARDED_FORMS_PER_ROW) });
}
