//! Compares the verdict on whole modules with that of ptxas 13.0.88.
//!
//! `modules/accept` and `modules/reject` contain small modules, one question each, in files by topic: `=== name`, a comment with the
//! question, the module. Modules with bytes that a text file should not contain are separate files. The verdicts are recorded, so the
//! comparison runs everywhere. If ptxas is installed (`tools/oracles.sh`, or the folder in `ORIOLE_ORACLES`), a sample is compiled again;
//! `ORIOLE_REFRESH=1` compiles every module.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use oriole_ptx::{Options, check};

/// Modules on which Oriole differs from ptxas on purpose, by reason; see `docs/differences.md`.
const DIFFERENCES: &[(&str, &[&str])] = &[
    (
        "integers over 64 bits are errors; ptxas takes them modulo 2^64",
        &["accept/expr-hex-17-digits", "accept/expr-hex-2-64", "accept/expr-int-2-64", "accept/expr-operand-2-64", "accept/init-2-64"],
    ),
    ("an assignment inside a constant expression means nothing", &["accept/expr-assign"]),
    ("targets are named as the manual names them", &["accept/target-leading-zero", "accept/target-uppercase-suffix"]),
    ("`.target` belongs to the top of the module", &["accept/target-in-body-other", "accept/target-inside-function"]),
    ("constant banks went away with PTX version 2.2 and are not supported", &["accept/constant-bank-v1-5"]),
    ("the alignment a pointer points to follows `.ptr`", &["accept/param-align-after-type"]),
    ("comments may hold any bytes", &["reject/comment-block-non-ascii", "reject/comment-non-ascii"]),
    ("blanks and comments may stand between `.version` and its number", &["reject/version-comment-between", "reject/version-on-next-line"]),
    (
        "whether a symbol of another module can be found is a matter of linking",
        &[
            "reject/array-unsized-extern-const",
            "reject/array-unsized-extern-global",
            "reject/func-extern-called",
            "reject/init-addr-extern-function",
        ],
    ),
    (
        "`.unified` is legal; ptxas wants `--compile-only` for it",
        &[
            "reject/attribute-unified-and-managed",
            "reject/attribute-unified-func",
            "reject/attribute-unified-func-declaration",
            "reject/attribute-unified-func-return",
            "reject/attribute-unified-v8-0",
            "reject/attribute-unified-variable",
            "reject/attribute-unified-visible",
        ],
    ),
    (
        "the module is legal; the command line asks for another target",
        &["reject/target-twice-different", "reject/target-two-sm-a-and-plain", "reject/target-two-sm-different"],
    ),
    (
        "limits of code generation are not limits of the language",
        &[
            "reject/call-reg-result",
            "reject/call-reg-result-param",
            "reject/call-reg-result-underscore",
            "reject/limit-shared-1mb",
            "reject/pragma-enable-smem-spilling-dynamic-shared",
        ],
    ),
    ("the contents of debug sections are not checked", &["reject/target-debug-with-section"]),
    (
        "operands that only ptxas has: subscripts outside of memory operands or by registers, addresses in special and 16-bit registers",
        &["accept/addr-global-reg-16", "accept/addr-global-sreg", "accept/addr-mov-sym-index", "accept/addr-sym-index-register"],
    ),
    ("a variable of an inner scope hides a parameter of the same name", &["reject/param-write-shadowing-input"]),
    ("a label may have the name of a module variable, before its definition too", &["reject/label-forward-like-global"]),
];

/// Architectures that this ptxas compiles for. A module is compiled for the first of its targets that is in the list.
const PTXAS_TARGETS: &[&str] = &[
    "sm_75", "sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_100f", "sm_103", "sm_103a",
    "sm_103f", "sm_110", "sm_110a", "sm_110f", "sm_120", "sm_120a", "sm_120f", "sm_121", "sm_121a", "sm_121f",
];

struct Case {
    /// `accept/name` or `reject/name`.
    name: String,
    accept: bool,
    text: Vec<u8>,
}

fn load() -> Vec<Case> {
    let mut cases = Vec::new();
    for (folder, accept) in [("accept", true), ("reject", false)] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/modules").join(folder);
        let mut files: Vec<PathBuf> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        for file in files {
            let text = fs::read(&file).unwrap();
            let stem = file.file_stem().unwrap().to_str().unwrap();
            match file.extension().and_then(|extension| extension.to_str()) {
                Some("txt") => cases.extend(unpack(folder, accept, &String::from_utf8(text).unwrap())),
                _ => cases.push(Case { name: format!("{folder}/{stem}"), accept, text }),
            }
        }
    }
    cases
}

fn unpack(folder: &str, accept: bool, text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in text.split_inclusive('\n') {
        match (line.strip_prefix("=== "), cases.last_mut()) {
            (Some(name), _) => cases.push(Case { name: format!("{folder}/{}", name.trim_end()), accept, text: Vec::new() }),
            (None, Some(case)) => case.text.extend_from_slice(line.as_bytes()),
            (None, None) => panic!("a file in {folder} does not start with `=== name`"),
        }
    }
    cases
}

fn first_line(case: &Case) -> String {
    String::from_utf8_lossy(case.text.split(|&byte| byte == b'\n').next().unwrap_or_default()).into_owned()
}

#[test]
fn names_are_unique() {
    let cases = load();
    assert!(cases.len() >= 2773, "only {} modules", cases.len());
    let names: BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names.len(), cases.len());
}

#[test]
fn verdicts_are_those_of_ptxas() {
    let mut exempt: BTreeMap<&str, &str> = BTreeMap::new();
    for (reason, names) in DIFFERENCES {
        for name in *names {
            assert!(exempt.insert(name, reason).is_none(), "{name} is exempt twice");
        }
    }
    let mut report = Vec::new();
    for case in load() {
        let checked = check(&case.text, &Options::default());
        let agrees = checked.is_valid() == case.accept;
        match exempt.remove(case.name.as_str()) {
            None if !agrees => {
                let findings: Vec<&str> = checked.diagnostics.iter().map(|finding| finding.message.as_str()).take(3).collect();
                report.push(format!("{}: {} {findings:?}", case.name, first_line(&case)));
            }
            Some(reason) if agrees => report.push(format!("{}: no longer differs; remove it from the list ({reason})", case.name)),
            _ => {}
        }
    }
    report.extend(exempt.keys().map(|name| format!("{name}: exempt, but there is no such module")));
    assert!(report.is_empty(), "{} modules:\n{}", report.len(), report.join("\n"));
}

fn compile_target(text: &str) -> &str {
    let names = text.split(".target").skip(1).flat_map(|rest| {
        let list = rest.lines().next().unwrap_or_default();
        list.split(|c: char| c == ',' || c.is_whitespace())
    });
    let known = names.into_iter().find(|name| PTXAS_TARGETS.contains(name));
    known.unwrap_or("sm_90a")
}

fn ask_ptxas(ptxas: &Path, case: &Case, file: &Path) -> bool {
    fs::write(file, &case.text).unwrap();
    let text = String::from_utf8_lossy(&case.text);
    let mut command = Command::new(ptxas);
    command.arg(format!("-arch={}", compile_target(&text))).arg(file).args(["-o", "/dev/null"]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
}

#[test]
fn recorded_verdicts_are_current() {
    let Some(ptxas) = oriole_oracles::tool("ptxas") else { return };
    let mut cases = load();
    if std::env::var_os("ORIOLE_REFRESH").is_none_or(|value| value != "1") {
        let step = cases.len() / 100;
        cases = cases.into_iter().step_by(step).take(100).collect();
    }
    let (next, differences) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (ptxas, cases, next, differences) = (&ptxas, &cases, &next, &differences);
            scope.spawn(move || {
                let file = std::env::temp_dir().join(format!("oriole-modules-{}-{thread}.ptx", std::process::id()));
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if ask_ptxas(ptxas, case, &file) != case.accept {
                        differences.lock().unwrap().push(format!("{}: {}", case.name, first_line(case)));
                    }
                }
                let _ = fs::remove_file(file);
            });
        }
    });
    let mut differences = differences.into_inner().unwrap();
    differences.sort();
    assert!(differences.is_empty(), "ptxas says otherwise about {} modules:\n{}", differences.len(), differences.join("\n"));
}
