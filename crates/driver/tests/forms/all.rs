//! Compiles all forms for all targets, and lets nvdisasm read what comes out.
//!
//! Starting nvdisasm takes as long as reading five hundred kernels. Therefore the forms of many rows are compiled into one file, and the
//! instruction words of all files are collected: nvdisasm reads each different word of a target once, and its text must be that of
//! `oriole_isa::print`. That covers every word of every form. `ORIOLE_FORMS_FILES=N` limits the reading of whole files, which covers
//! branches, relocations and sections, to every N-th file.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use oriole_cubin::Cubin;
use oriole_driver::Compiled;
use oriole_isa::Target;
use oriole_ptx::enumerate::{Case, legal_forms};
use oriole_ptx::table::ROWS;
use oriole_ptx::target::{Platform, PtxVersion};

use crate::{compile_cases, kind_of, output_of, processors, valid_cases, with_handles};

/// The number of forms of a row from which on the table itself samples them.
const ALL_PER_ROW: usize = 4096;

/// Maximum number of forms in one file.
const FORMS_PER_FILE: usize = 1024;

/// Maximum number of words that nvdisasm reads at once.
const WORDS_PER_FILE: usize = 1 << 17;

/// A form and the row of the table that it belongs to.
type RowCase = (usize, Case);

/// What a run does.
struct Settings {
    targets: Vec<Target>,
    /// The opcodes whose forms to compile; all if there are none.
    opcodes: Vec<String>,
    threads: usize,
    /// nvdisasm reads every n-th file as a whole.
    files_step: usize,
}

impl Settings {
    fn from_environment(targets: &str) -> Settings {
        let number = |name: &str, default: usize| std::env::var(name).map_or(default, |number| number.parse().expect("a number"));
        let targets = match targets {
            "1" => Target::all_with_machine_code().filter(|target| oriole_cubin::FileTraits::of(*target).is_some()).collect(),
            names => names.split(',').map(|name| Target::parse(name).unwrap()).collect(),
        };
        Settings {
            targets,
            opcodes: std::env::var("ORIOLE_FORMS_OPCODES").map_or(Vec::new(), |names| names.split(',').map(str::to_owned).collect()),
            threads: number("ORIOLE_FORMS_THREADS", processors()),
            files_step: number("ORIOLE_FORMS_FILES", 1).max(1),
        }
    }

    fn has_opcode(&self, opcode: &str) -> bool {
        self.opcodes.is_empty() || self.opcodes.iter().any(|wanted| wanted == opcode)
    }
}

/// A form that failed, with the kind of the failure.
struct Failure {
    kind: &'static str,
    row: usize,
    text: String,
}

/// The words of the code for a target, each with the row and the text of the first form that has it.
type Words = HashMap<u128, (usize, String)>;

/// Calls `work` on the items on several threads; the results are in the order of the items.
fn in_parallel<T: Sync, R: Send>(threads: usize, items: &[T], work: impl Fn(usize, &T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results: Mutex<BTreeMap<usize, R>> = Mutex::default();
    let run = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return };
            let result = work(at, item);
            results.lock().unwrap().insert(at, result);
        }
    };
    std::thread::scope(|scope| (0..threads).for_each(|_| _ = scope.spawn(run)));
    results.into_inner().unwrap().into_values().collect()
}

/// Returns the forms of a row that are legal for a target, those that only an earlier version of PTX has in that version.
fn legal_for(row: usize, target: Target) -> Vec<Case> {
    let forms: Vec<Case> = legal_forms(row, ALL_PER_ROW).into_iter().flat_map(with_handles).collect();
    let newest = Platform { version: PtxVersion::NEWEST, target };
    let mut legal = Vec::new();
    for independent in [false, true] {
        let of_mode: Vec<Case> = forms.iter().filter(|form| form.independent_textures == independent).cloned().collect();
        let mut earlier: BTreeMap<PtxVersion, Vec<Case>> = BTreeMap::new();
        for chunk in of_mode.chunks(FORMS_PER_FILE) {
            let valid = valid_cases(chunk, newest);
            // Both are in the order of the chunk.
            let mut found = valid.iter().peekable();
            for form in chunk {
                let is_valid = found.next_if(|valid| valid.text == form.text).is_some();
                // A version before the target exists cannot name it.
                if !is_valid && form.platform.version >= target.introduced() {
                    earlier.entry(form.platform.version).or_default().push(form.clone());
                }
            }
            legal.extend(valid);
        }
        for (version, forms) in earlier {
            legal.extend(forms.chunks(FORMS_PER_FILE).flat_map(|forms| valid_cases(forms, Platform { version, target })));
        }
    }
    legal
}

/// Divides forms into files; those of one file have one version of PTX and one texture mode.
fn files_of(forms: Vec<RowCase>) -> Vec<Vec<RowCase>> {
    let mut kinds: BTreeMap<(PtxVersion, bool), Vec<RowCase>> = BTreeMap::new();
    for (row, case) in forms {
        kinds.entry((case.platform.version, case.independent_textures)).or_default().push((row, case));
    }
    kinds.into_values().flat_map(|forms| forms.chunks(FORMS_PER_FILE).map(<[RowCase]>::to_vec).collect::<Vec<_>>()).collect()
}

/// Returns the nvdisasm that reads the files of a target. That of CUDA 13 does not read those of Volta; `ORIOLE_NVDISASM_12` names one
/// of CUDA 12.
fn disassembler(target: Target) -> Option<PathBuf> {
    let is_new = oriole_cubin::FileTraits::of(target).is_some_and(|traits| traits.abi_version == oriole_cubin::target::ABI_VERSION);
    if is_new { oriole_oracles::tool("nvdisasm") } else { std::env::var_os("ORIOLE_NVDISASM_12").map(Into::into) }
}

/// Returns what nvdisasm complains about in a file; nothing if it reads the file without complaint.
fn complaint_of_nvdisasm(nvdisasm: &Path, cubin: &[u8]) -> Option<String> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(cubin).unwrap();
    let output = output_of(Command::new(nvdisasm).arg("-c").arg(file.path()));
    let complaints = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    match output.status.success() {
        true if complaints.is_empty() => None,
        true => Some(complaints),
        false => Some(format!("{}: {complaints}", output.status)),
    }
}

/// The forms of one file that failed, and the number of the others.
#[derive(Default)]
struct FileResult {
    compiled: usize,
    failures: Vec<Failure>,
    words: Words,
}

impl FileResult {
    /// Collects the words of a file, and lets nvdisasm read it.
    fn read(&mut self, compiled: &Compiled, forms: &[RowCase], nvdisasm: Option<&Path>) {
        let cubin = Cubin::read(&compiled.cubin).expect("our own file");
        for section in cubin.sections() {
            let Some(bytes) = section.bytes() else { continue };
            let Some(function) = section.name.strip_prefix(".text.") else { continue };
            // Functions that the compiler adds have other names; they belong to some form of the file.
            let number = function.strip_prefix('k').and_then(|digits| digits.parse().ok()).unwrap_or(0);
            for word in bytes.chunks_exact(16) {
                let (row, case) = &forms[number];
                let word = u128::from_le_bytes(word.try_into().expect("16 bytes"));
                self.words.entry(word).or_insert_with(|| (*row, case.text.clone()));
            }
        }
        if let Some(complaint) = nvdisasm.and_then(|nvdisasm| complaint_of_nvdisasm(nvdisasm, &compiled.cubin)) {
            let (row, case) = &forms[0];
            let text = format!("{} and others of the file -- {complaint}", case.text);
            self.failures.push(Failure { kind: "file not accepted by nvdisasm", row: *row, text });
        }
    }

    /// Compiles the forms of a file. If some fail, compiles the others alone.
    fn of(forms: &[RowCase], target: Target, nvdisasm: Option<&Path>) -> FileResult {
        let mut result = FileResult::default();
        let cases: Vec<Case> = forms.iter().map(|(_, case)| case.clone()).collect();
        let errors = match compile_cases(&cases, target) {
            Ok(compiled) => {
                result.compiled = forms.len();
                result.read(&compiled, forms, nvdisasm);
                return result;
            }
            Err(errors) => errors,
        };
        let number = |name: &str| name.strip_prefix('k').and_then(|digits| digits.parse::<usize>().ok());
        let mut failed = vec![false; forms.len()];
        for error in &errors {
            let at = error.function.as_deref().and_then(number);
            at.into_iter().for_each(|at| failed[at] = true);
            let (row, case) = &forms[at.unwrap_or(0)];
            result.failures.push(Failure { kind: kind_of(error), row: *row, text: format!("{}  -- {error}", case.text) });
        }
        let kept: Vec<RowCase> = forms.iter().zip(&failed).filter(|(_, failed)| !**failed).map(|(form, _)| form.clone()).collect();
        if kept.len() < forms.len() && !kept.is_empty() {
            let FileResult { compiled, failures, words } = FileResult::of(&kept, target, nvdisasm);
            result.compiled = compiled;
            result.failures.extend(failures);
            result.words = words;
        }
        result
    }
}

/// Lets nvdisasm read words; returns its text for each, or the words that it rejects as places in the list.
fn read_words(nvdisasm: &Path, target: Target, words: &[u128]) -> Result<Vec<String>, BTreeSet<usize>> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>()).unwrap();
    let name = target.to_string().replace("sm_", "SM");
    let output = output_of(Command::new(nvdisasm).args(["-ndf", "-b", &name]).arg(file.path()));
    let hex = |digits: &str| usize::from_str_radix(digits, 16).ok();
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        let digits = |part: &str| part.chars().take_while(char::is_ascii_hexdigit).collect::<String>();
        let places: BTreeSet<usize> =
            message.split("at address 0x").skip(1).filter_map(|part| hex(&digits(part))).map(|at| at / 16).collect();
        assert!(!places.is_empty(), "{target}: {message}");
        return Err(places);
    }
    let mut texts = vec![String::new(); words.len()];
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Some((address, text)) = line.trim_start().strip_prefix("/*").and_then(|line| line.split_once("*/")) else { continue };
        let text = text.split("/*").next().unwrap_or_default().trim().trim_end_matches(';');
        if let (Some(address), false) = (hex(address), text.is_empty()) {
            text.clone_into(&mut texts[address / 16]);
        }
    }
    Ok(texts)
}

/// Compares our text of each word with that of nvdisasm.
fn check_words(nvdisasm: &Path, target: Target, words: &Words) -> Vec<Failure> {
    let mut sorted: Vec<u128> = words.keys().copied().collect();
    sorted.sort_unstable();
    let mut failures = Vec::new();
    let mut fail = |word: u128, complaint: &str| {
        let (row, text) = &words[&word];
        failures.push(Failure { kind: "word", row: *row, text: format!("{text}  -- {word:032x}: {complaint}") });
    };
    let without_spaces = |text: &str| text.chars().filter(|letter| *letter != ' ').collect::<String>();
    for chunk in sorted.chunks(WORDS_PER_FILE) {
        let mut rest = chunk.to_vec();
        let texts = loop {
            match read_words(nvdisasm, target, &rest) {
                Ok(texts) => break texts,
                Err(places) => {
                    places.iter().for_each(|&at| fail(rest[at], "nvdisasm rejects it"));
                    rest = (0..).zip(rest).filter(|(at, _)| !places.contains(at)).map(|(_, word)| word).collect();
                }
            }
        };
        for (at, (&word, theirs)) in rest.iter().zip(&texts).enumerate() {
            let ours = oriole_isa::print(word, target, 16 * at as u64).unwrap_or_default();
            if without_spaces(&ours) != without_spaces(theirs) || theirs.contains("INVALID") || theirs.contains("???") {
                fail(word, &format!("nvdisasm prints {theirs}, we print {ours}"));
            }
        }
    }
    failures
}

/// Prints a line about the progress at once; the test harness would keep the output of `println!` until the end.
fn report_progress(line: &str) {
    // An error here cannot be reported anywhere.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Compiles all forms for a target; returns their number and the failures.
fn check_target(settings: &Settings, target: Target) -> (usize, Vec<Failure>) {
    let start = Instant::now();
    let nvdisasm = disassembler(target);
    let rows: Vec<usize> = (0..ROWS.len()).filter(|&row| settings.has_opcode(ROWS[row].opcode.spelling())).collect();
    let legal = in_parallel(settings.threads, &rows, |_, &row| legal_for(row, target));
    let forms = rows.iter().zip(legal).flat_map(|(&row, cases)| cases.into_iter().map(move |case| (row, case))).collect();
    let files = files_of(forms);
    let read_whole = |number: usize| nvdisasm.as_deref().filter(|_| number.is_multiple_of(settings.files_step));
    let results = in_parallel(settings.threads, &files, |number, forms| FileResult::of(forms, target, read_whole(number)));
    let (mut compiled, mut failures, mut words) = (0, Vec::new(), Words::new());
    for result in results {
        compiled += result.compiled;
        failures.extend(result.failures);
        for (word, form) in result.words {
            words.entry(word).or_insert(form);
        }
    }
    if let Some(nvdisasm) = &nvdisasm {
        failures.extend(check_words(nvdisasm, target, &words));
    }
    let (read, whole) = if nvdisasm.is_some() { (words.len(), files.len().div_ceil(settings.files_step)) } else { (0, 0) };
    let seconds = start.elapsed().as_secs();
    report_progress(&format!(
        "{target}: {compiled} forms compiled, nvdisasm read {read} words and {whole} of {} files, {} failures, {seconds} s",
        files.len(),
        failures.len()
    ));
    (compiled, failures)
}

/// Compiles all forms for the targets that `ORIOLE_ALL_FORMS` lists with commas, or for all targets if it is 1. `ORIOLE_FORMS_OPCODES`
/// narrows the run to the opcodes that it lists, `ORIOLE_FORMS_THREADS` sets the number of threads.
#[test]
fn every_legal_form_compiles() {
    let Ok(targets) = std::env::var("ORIOLE_ALL_FORMS") else { return oriole_oracles::skip("ORIOLE_ALL_FORMS is not set") };
    let settings = Settings::from_environment(&targets);
    let mut report = String::new();
    let mut compiled = 0;
    for &target in &settings.targets {
        let (of_target, found) = check_target(&settings, target);
        compiled += of_target;
        let mut failures: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for Failure { kind, row, text } in found {
            failures.entry(format!("{target} {kind}: {}", ROWS[row].opcode.spelling())).or_default().push(text);
        }
        for (key, texts) in failures {
            let line = format!("  {key}: {} forms, such as {}", texts.len(), texts[0]);
            report_progress(&line);
            report += &format!("{line}\n");
        }
    }
    assert!(report.is_empty(), "{compiled} forms compiled; these failed:\n{report}");
    assert!(compiled > 0, "no form was compiled");
    println!("{compiled} forms compiled for {} targets", settings.targets.len());
}
