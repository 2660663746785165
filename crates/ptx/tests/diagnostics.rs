//! Diagnostics tests in files: each `diagnostics/<group>/<name>.ptx` contains a mistake, `<name>.expected` the expected findings.
//!
//! The first line of an input is ptxas 13.0.88's answer, as a second source: `// ptxas: message` or `// ptxas accepts: reason`.
//! `ORIOLE_BLESS=1` rewrites the expectations; read the difference before you commit it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use oriole_ptx::diag::{DiagnosticCode, Severity, Style, ptxas_lines, render, to_json};
use oriole_ptx::source::{LineIndex, Source};
use oriole_ptx::{Checked, Options, check};

/// Codes that no file contains, with the reason.
const UNREACHED: &[(DiagnosticCode, &str)] = &[
    (DiagnosticCode::FileTooLarge, "the file would have 4 GiB"),
    (DiagnosticCode::ScopesTooDeep, "the file would have 100,000 braces; tested below"),
    (DiagnosticCode::Unsupported, "found when code is generated"),
    (DiagnosticCode::ResourceLimit, "found when code is generated"),
    (DiagnosticCode::InternalError, "found when code is generated"),
];

/// An input, its findings, and the findings as text.
struct Case {
    path: PathBuf,
    name: String,
    text: Vec<u8>,
    checked: Checked,
    shown: String,
}

fn cases() -> Vec<Case> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/diagnostics");
    let groups = fs::read_dir(&root).expect("the folder of inputs").flatten().map(|entry| entry.path()).filter(|path| path.is_dir());
    let files = groups.flat_map(|group| fs::read_dir(group).expect("a group of inputs").flatten().map(|entry| entry.path()));
    let mut paths: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|extension| extension == "ptx")).collect();
    paths.sort();
    paths.into_iter().map(Case::read).collect()
}

impl Case {
    fn read(path: PathBuf) -> Case {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = fs::read(&path).expect("an input");
        let checked = check(&text, &Options::default());
        let shown = show(&name, &text, &checked);
        Case { path, name, text, checked, shown }
    }
}

/// Formats all findings as the command line does, separated by empty lines.
fn show(name: &str, text: &[u8], checked: &Checked) -> String {
    let (source, lines) = (Source::new(name, text), LineIndex::new(text));
    let shown: Vec<String> = checked.diagnostics.iter().map(|finding| render(&source, &lines, finding, Style::Plain)).collect();
    shown.join("\n")
}

#[test]
fn findings_are_as_expected() {
    let bless = std::env::var_os("ORIOLE_BLESS").is_some();
    let mut differences = Vec::new();
    for case in cases() {
        let file = case.path.with_extension("expected");
        if bless {
            fs::write(&file, &case.shown).expect("writing an expectation");
            continue;
        }
        let expected = fs::read_to_string(&file).unwrap_or_default();
        if expected != case.shown {
            differences.push(format!("=== {}\n--- expected\n{expected}--- found\n{}", case.path.display(), case.shown));
        }
    }
    let count = differences.len();
    assert!(differences.is_empty(), "{}\n{count} files differ; ORIOLE_BLESS=1 takes what was found", differences.join("\n"));
}

#[test]
fn no_expectation_is_without_its_input() {
    let inputs: BTreeSet<PathBuf> = cases().into_iter().map(|case| case.path).collect();
    let folders: BTreeSet<&Path> = inputs.iter().filter_map(|path| path.parent()).collect();
    for folder in folders {
        for entry in fs::read_dir(folder).expect("a group of inputs").flatten() {
            assert!(inputs.contains(&entry.path().with_extension("ptx")), "{} has no input", entry.path().display());
        }
    }
}

#[test]
fn every_input_has_a_finding_and_the_word_of_ptxas() {
    for case in cases() {
        let first = case.text.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let first = String::from_utf8_lossy(first);
        let accepts = first.strip_prefix("// ptxas accepts: ").is_some_and(|reason| reason.len() > 5);
        let refuses = first.strip_prefix("// ptxas: ").is_some_and(|message| message.len() > 5);
        assert!(accepts || refuses, "{}: the first line must say what ptxas says", case.name);
        assert!(!case.checked.diagnostics.is_empty(), "{}: no finding", case.name);
        if refuses {
            let has_error = case.checked.diagnostics.iter().any(|finding| finding.code.severity() == Severity::Error);
            assert!(has_error, "{}: ptxas refuses it, Oriole only warns", case.name);
        }
    }
}

#[test]
fn every_code_is_shown() {
    let seen: BTreeSet<DiagnosticCode> =
        cases().iter().flat_map(|case| case.checked.diagnostics.iter().map(|finding| finding.code)).collect();
    let exempt = |code: &DiagnosticCode| UNREACHED.iter().any(|(unreached, _)| unreached == code);
    let missing: Vec<&str> =
        DiagnosticCode::ALL.iter().filter(|code| !seen.contains(code) && !exempt(code)).map(|code| code.name()).collect();
    assert!(missing.is_empty(), "no file shows {}", missing.join(", "));
    let needless: Vec<&str> = seen.iter().filter(|code| exempt(code)).map(|code| code.name()).collect();
    assert!(needless.is_empty(), "shown and yet listed as unreached: {}", needless.join(", "));
}

#[test]
fn there_are_many_different_messages() {
    let cases = cases();
    let findings = cases.iter().flat_map(|case| &case.checked.diagnostics);
    let different: BTreeSet<(DiagnosticCode, &str)> = findings.map(|finding| (finding.code, finding.message.as_str())).collect();
    assert!(different.len() >= 350, "only {} different messages", different.len());
    let recovering = cases.iter().filter(|case| case.path.to_string_lossy().contains("/recovery/") && case.checked.diagnostics.len() >= 3);
    assert!(recovering.count() >= 10, "too few files with several errors");
}

#[test]
fn scopes_too_deep_are_refused() {
    let text = format!(".version 9.0\n.target sm_90\n.entry k()\n{}", "{".repeat(100_010));
    let checked = check(text.as_bytes(), &Options::default());
    assert_eq!(checked.diagnostics.first().map(|finding| finding.code), Some(DiagnosticCode::ScopesTooDeep));
}

const MISSPELT: &str = ".version 9.0\n.target sm_90\n.entry k()\n{\n  ld.golbal.u32 %r1, [%rd1];\n}\n";

#[test]
fn json_has_places_and_advice() {
    let checked = check(MISSPELT.as_bytes(), &Options::default());
    let (source, lines) = (Source::new("k.ptx", MISSPELT.as_bytes()), LineIndex::new(MISSPELT.as_bytes()));
    let json = serde_json::to_string(&to_json(&source, &lines, &checked.diagnostics[0])).expect("json");
    let expected = concat!(
        r#"{"file":"k.ptx","severity":"error","code":"E0702","message":"no instruction has a modifier `.golbal`","#,
        r#""line":5,"column":5,"end_line":5,"end_column":12,"offset":44,"length":7,"label":null,"related":[],"notes":[],"#,
        r#""help":"did you mean `.global`?"}"#
    );
    assert_eq!(json, expected);
}

#[test]
fn json_has_related_places() {
    let text = ".version 9.0\n.target sm_90\n.global .u32 a;\n.global .u32 a;\n";
    let checked = check(text.as_bytes(), &Options::default());
    let (source, lines) = (Source::new("k.ptx", text.as_bytes()), LineIndex::new(text.as_bytes()));
    let json = serde_json::to_value(to_json(&source, &lines, &checked.diagnostics[0])).expect("json");
    assert_eq!(json["code"], "E0301");
    assert_eq!(json["line"], 4);
    assert_eq!(json["related"][0]["line"], 3);
    assert_eq!(json["related"][0]["message"], "declared here first");
}

#[test]
fn the_shape_of_ptxas_is_one_line() {
    let checked = check(MISSPELT.as_bytes(), &Options::default());
    let (source, lines) = (Source::new("k.ptx", MISSPELT.as_bytes()), LineIndex::new(MISSPELT.as_bytes()));
    let line = ptxas_lines(&source, &lines, &checked.diagnostics[0]);
    assert_eq!(line, "ptxas k.ptx, line 5; error   : no instruction has a modifier `.golbal` [E0702] (did you mean `.global`?)");
    let warning = ".version 9.0\n.target sm_90\n.entry k()\n{\n  .reg .f32 %f<2>;\n  add.f32.rn %f0, %f1, %f1;\n}\n";
    let checked = check(warning.as_bytes(), &Options::default());
    let (source, lines) = (Source::new("k.ptx", warning.as_bytes()), LineIndex::new(warning.as_bytes()));
    let line = ptxas_lines(&source, &lines, &checked.diagnostics[0]);
    assert_eq!(
        line,
        "ptxas k.ptx, line 6; warning : the modifiers are not in the manual's order [W0707] (the usual spelling is `add.rn.f32`)"
    );
}

#[test]
fn names_are_unique_and_described() {
    let names: BTreeSet<&str> = DiagnosticCode::ALL.iter().map(|code| code.name()).collect();
    assert_eq!(names.len(), DiagnosticCode::ALL.len());
    assert!(DiagnosticCode::ALL.iter().all(|code| code.summary().len() > 10));
}
