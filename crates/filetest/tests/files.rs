//! Runs all files under `filetests/`, and tests the runner itself: a file that cannot fail must be rejected.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use oriole_filetest::file::{Syntax, TestFile};
use oriole_filetest::{check_all, find, pipeline, rewrite};

/// Held by the tests that read the files, because one of them may rewrite the files.
static FILES: Mutex<()> = Mutex::new(());

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests")
}

/// Returns the files to run: all, or those whose path contains the text of `ORIOLE_FILETEST`.
fn files() -> Vec<PathBuf> {
    let files = find(&folder()).unwrap_or_else(|error| panic!("{error}"));
    assert!(files.len() >= 200, "only {} files", files.len());
    let wanted = std::env::var("ORIOLE_FILETEST").unwrap_or_default();
    files.into_iter().filter(|path| path.to_string_lossy().contains(&wanted)).collect()
}

#[test]
fn files_say_what_happens() {
    let _held = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    let bless = std::env::var_os("ORIOLE_BLESS").is_some();
    let failures = check_all(&files(), bless);
    let mut text = String::new();
    for (path, message) in &failures {
        let name = path.strip_prefix(folder()).unwrap_or(path).display();
        text.push_str(&format!("=== filetests/{name}\n{}\n", message.trim_end()));
    }
    assert!(
        failures.is_empty(),
        "{text}\n{} files fail. To take the actual results: ORIOLE_BLESS=1 cargo test -p oriole-filetest --test files",
        failures.len()
    );
}

/// Passes without a file where they must do nothing, with the reason.
const ALWAYS_ACT: &[(&str, &str)] = &[
    ("select", "makes the function"),
    ("serial-control", "writes control words only, never instructions"),
    ("encode", "makes machine code; the function is its input"),
];

/// Kinds that test a pass under another name.
fn pass_of(kind: &str) -> Option<&'static str> {
    match kind {
        "isel" => Some("select"),
        "ssa" => Some("construct-ssa"),
        "regalloc" => Some("allocate"),
        "encode" => Some("encode"),
        _ => None,
    }
}

/// Every pass has at least five files, and one where it must not change anything.
#[test]
fn every_pass_has_files() {
    let _held = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    let mut counts: BTreeMap<String, (usize, usize)> = pipeline::pass_names().map(|name| (name.to_owned(), (0, 0))).collect();
    for path in find(&folder()).unwrap_or_else(|error| panic!("{error}")) {
        let text = std::fs::read_to_string(&path).expect("a file");
        let syntax = Syntax::of(&path).expect("a known extension");
        let file = TestFile::read(&text, syntax).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let is_unchanged = text.lines().last().is_some_and(|line| line.trim_start_matches(['/', ';', ' ']) == "unchanged");
        for kind in &file.kinds {
            let is_serial = file.options.level == Some(0);
            let pass = match kind.name.as_str() {
                "opt" => kind.argument.as_deref(),
                "ctrl" => Some(if is_serial { "serial-control" } else { "control" }),
                "sched" => Some(if text.contains(" ssa") { "pre-schedule" } else { "post-schedule" }),
                other => pass_of(other),
            };
            if let Some(count) = pass.and_then(|pass| counts.get_mut(pass)) {
                count.0 += 1;
                count.1 += usize::from(is_unchanged);
            }
        }
    }
    let acts = |name: &str| ALWAYS_ACT.iter().any(|(pass, _)| *pass == name);
    let missing: Vec<String> = counts
        .iter()
        .filter(|(name, (all, unchanged))| *all < 5 || *unchanged == 0 && !acts(name))
        .map(|(name, (all, unchanged))| format!("{name}: {all} files, {unchanged} unchanged"))
        .collect();
    assert!(missing.is_empty(), "too few files:\n{}", missing.join("\n"));
}

/// Passes that rewrite integers and predicates: their files are proven by `tools/proofs/prove.py rules`, which has the same list.
const PROVEN_PASSES: [&str; 13] = [
    "combine",
    "fold",
    "forward",
    "fuse",
    "halves",
    "if-convert",
    "legalize",
    "merge",
    "narrow",
    "share-products",
    "simplify",
    "simplify-again",
    "split-index",
];

/// The files of passes that rewrite integers and predicates are those that an SMT solver has proven: what a pass makes of them cannot change without
/// a new proof. The functions that the solver cannot prove are listed with their reasons in `tools/proofs/open.txt`.
#[test]
fn every_rewrite_is_proven() {
    let _held = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    let proofs = folder().join("../tools/proofs");
    let read = |name: &str| std::fs::read_to_string(proofs.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(read("prove.py").contains(&format!("PASSES = {PROVEN_PASSES:?}")), "prove.py has another list of passes");
    let record = read("proven.txt");
    let recorded: BTreeMap<&str, &str> =
        record.lines().filter_map(|line| line.strip_prefix("filetest ")?.split_once(' ')).map(|(name, rest)| (name, &rest[..16])).collect();
    let mut names = Vec::new();
    for path in find(&folder()).unwrap_or_else(|error| panic!("{error}")) {
        let name = path.strip_prefix(folder()).expect("a file of the folder").to_string_lossy().replace('\\', "/");
        if name.ends_with(".oir") && PROVEN_PASSES.iter().any(|pass| name.strip_prefix(pass).is_some_and(|rest| rest.starts_with('/'))) {
            names.push((name, hash(&std::fs::read(&path).expect("a file"))));
        }
    }
    let stale: Vec<&str> =
        names.iter().filter(|(name, hash)| recorded.get(name.as_str()) != Some(&hash.as_str())).map(|(name, _)| name.as_str()).collect();
    assert!(stale.is_empty(), "not proven (tools/proofs/README.md: prove.py rules --record):\n{}", stale.join("\n"));
    assert_eq!(recorded.len(), names.len(), "proven.txt has files that do not exist");
}

/// Returns the 64-bit FNV-1a hash of some bytes in hexadecimal digits.
fn hash(bytes: &[u8]) -> String {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{hash:016x}")
}

const PROGRAM: &str = "func kernel @f ssa {\nbb0:\n    EXIT\n}\n";

fn error_of(text: &str) -> String {
    rewrite(text, Syntax::Ori).expect_err("the file is wrong")
}

#[test]
fn files_that_cannot_fail_are_rejected() {
    let cases = [
        (PROGRAM.to_owned(), "no header line `test KIND`"),
        (format!("; why\ntset opt fold\n{PROGRAM}"), "unknown header word `tset`"),
        (format!("; why\ntest opt fold\ntarget sm_90a\nlevle 3\n{PROGRAM}"), "unknown header word `levle`"),
        (format!("; why\ntest opt fold\ntarget sm_90a\nlevel 3\n{PROGRAM}"), "`level` means nothing"),
        (format!("; why\ntest opt fold\n{PROGRAM}"), "needs a header line `target`"),
        (format!("; why\ntest opt fold\ntarget sm_91\n{PROGRAM}"), "`sm_91` is no target"),
        (format!("; why\ntest opt flod\ntarget sm_90a\n{PROGRAM}"), "`flod` cannot be applied"),
        (format!("; why\ntest otp fold\ntarget sm_90a\n{PROGRAM}"), "no test of kind `otp`"),
        (format!("; why\ntest verify\n{PROGRAM}"), "no line announces an error"),
        (format!("; why\ntest roundtrip\n{PROGRAM}; expect: more\n"), "not compared with anything"),
        (format!("test opt fold\ntarget sm_90a\n{PROGRAM}"), "no comment that says"),
        ("; why\ntest loops\n".to_owned(), "no function"),
    ];
    for (text, part) in cases {
        let error = error_of(&text);
        assert!(error.contains(part), "{text}\nfound: {error}\nexpected: {part}");
    }
    let ptx = "//@ tets isel\n// why\n.version 8.0\n";
    assert_eq!(rewrite(ptx, Syntax::Ptx).expect_err("a misspelt word"), "line 1: unknown header word `tets`");
}

/// A file without expectations, or with others than the result, does not stay as it is.
#[test]
fn missing_and_wrong_expectations_are_differences() {
    let head = format!("; why\ntest opt fold\ntarget sm_90a\n{PROGRAM}");
    let right = rewrite(&head, Syntax::Ori).expect("a valid file");
    assert_eq!(right, format!("{head}; unchanged\n"));
    assert_eq!(rewrite(&right, Syntax::Ori).as_deref(), Ok(right.as_str()), "blessing twice changes nothing");
    let wrong = format!("{head}; expect: + bb1:\n");
    assert_eq!(rewrite(&wrong, Syntax::Ori).as_deref(), Ok(right.as_str()));
    // A result without lines is written out.
    let loops = format!("; why\ntest loops\n{PROGRAM}");
    assert_eq!(rewrite(&loops, Syntax::Ori).as_deref(), Ok(format!("{loops}; expect: nothing\n").as_str()));
}

/// Expected values of kernel tests are written by hand: a wrong one is an error, also when the files are rewritten.
#[test]
fn wrong_results_of_a_run_are_errors() {
    let text = std::fs::read_to_string(folder().join("run/add_cc.ptx")).expect("a file");
    let wrong = text.replace("exact = 5 6 6 6", "exact = 5 6 6 7");
    assert_ne!(text, wrong, "the file has changed");
    let error = rewrite(&wrong, Syntax::Ptx).expect_err("the fourth value is wrong");
    assert!(error.contains("in the interpreter"), "{error}");
    let sass = std::fs::read_to_string(folder().join("run/sass_loop.sass")).expect("a file");
    let too_soon = sass.replacen("Y:S13] ISETP", "-:S01] ISETP", 1);
    assert_ne!(sass, too_soon, "the file has changed");
    let error = rewrite(&too_soon, Syntax::Sass).expect_err("the branch reads its predicate too early");
    assert!(error.contains("too-soon") || error.contains("13 are needed"), "{error}");
}
