//! Tests `oriole check` and `oriole codes` as people and scripts call them.

use std::fs;

use crate::common::{Outcome, folder, module, run};
use serde_json::Value;

const ORIOLE: &str = env!("CARGO_BIN_EXE_oriole");

fn valid() -> String {
    module("sm_80", "k", "add.s32 %r1, %r2, 1;")
}

fn wrong() -> String {
    module("sm_80", "k", "ad.s32 %r1, %r2, 1;")
}

#[test]
fn exit_codes_tell_valid_from_wrong_from_misuse() {
    let folder = folder("oriole-exit");
    fs::write(folder.join("valid.ptx"), valid()).unwrap();
    fs::write(folder.join("wrong.ptx"), wrong()).unwrap();
    let code = |arguments: &[&str]| run(ORIOLE, &folder, arguments, "").code;
    assert_eq!(code(&["check", "valid.ptx"]), Some(0));
    assert_eq!(code(&["check", "valid.ptx", "valid.ptx"]), Some(0));
    assert_eq!(code(&["check", "wrong.ptx"]), Some(1));
    assert_eq!(code(&["check", "wrong.ptx", "valid.ptx"]), Some(1));
    assert_eq!(code(&["check"]), Some(2));
    assert_eq!(code(&["check", "missing.ptx"]), Some(2));
    assert_eq!(code(&["check", "--no-such-option", "valid.ptx"]), Some(2));
    assert_eq!(code(&["no-such-command"]), Some(2));
    assert_eq!(code(&["--help"]), Some(0));
    assert_eq!(code(&["codes", "E0701"]), Some(0));
    assert_eq!(code(&["codes", "E9999"]), Some(2));
}

#[test]
fn every_file_is_checked() {
    let folder = folder("oriole-several");
    fs::write(folder.join("a.ptx"), wrong()).unwrap();
    fs::write(folder.join("b.ptx"), valid()).unwrap();
    fs::write(folder.join("c.ptx"), wrong()).unwrap();
    let outcome = run(ORIOLE, &folder, &["check", "a.ptx", "b.ptx", "c.ptx"], "");
    assert_eq!(outcome.stdout, "b.ptx: valid, PTX 9.0 for sm_80, 1 kernel, 2 instructions\n");
    assert!(outcome.stderr.contains("a.ptx:7:") && outcome.stderr.contains("c.ptx:7:") && !outcome.stderr.contains("b.ptx"));
    assert!(outcome.stderr.contains("error[E0701]"), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains('\u{1b}'), "no colours without a terminal");
    assert_eq!(
        run(ORIOLE, &folder, &["check", "--quiet", "b.ptx"], ""),
        Outcome { code: Some(0), stdout: String::new(), stderr: String::new() }
    );
}

#[test]
fn a_dash_is_standard_input() {
    let folder = folder("oriole-stdin");
    assert_eq!(run(ORIOLE, &folder, &["check", "-"], &valid()).code, Some(0));
    let outcome = run(ORIOLE, &folder, &["check", "-"], &wrong());
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.stderr.contains("<stdin>:7:"), "{}", outcome.stderr);
}

#[test]
fn json_is_one_object_a_line() {
    let folder = folder("oriole-json");
    let outcome = run(ORIOLE, &folder, &["check", "--json", "-"], &module("sm_80", "k", "ad.s32 %r1, %r2, 1; add.s32 %r1, %r9, 1;"));
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(1), ""));
    let findings: Vec<Value> = outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(findings.len(), 2, "{findings:?}");
    for finding in &findings {
        for key in ["file", "severity", "code", "message", "line", "column", "end_line", "end_column", "offset", "length"] {
            assert!(finding.get(key).is_some(), "no {key} in {finding}");
        }
        for key in ["label", "related", "notes", "help"] {
            assert!(finding.get(key).is_some(), "no {key} in {finding}");
        }
        assert_eq!(finding["line"], 7);
        assert_eq!(finding["severity"], "error");
        assert_eq!(finding["file"], "<stdin>");
    }
    assert_eq!((&findings[0]["code"], &findings[0]["column"]), (&Value::from("E0701"), &Value::from(5)));
    let clean = run(ORIOLE, &folder, &["check", "--json", "-"], &valid());
    assert_eq!((clean.code, clean.stdout.as_str()), (Some(0), ""));
}

#[test]
fn the_error_limit_is_kept_and_said() {
    let folder = folder("oriole-limit");
    let many = module("sm_80", "k", &"ad.s32 %r1, %r2, 1;\n".repeat(10));
    let outcome = run(ORIOLE, &folder, &["check", "--error-limit", "3", "-"], &many);
    assert_eq!(outcome.stderr.matches("error[E0701]").count(), 3);
    assert!(outcome.stderr.ends_with("3 errors; stopped here\n"), "{}", outcome.stderr);
}

#[test]
fn codes_are_listed() {
    let outcome = run(ORIOLE, &folder("oriole-codes"), &["codes"], "");
    assert_eq!(outcome.code, Some(0));
    assert!(outcome.stdout.lines().count() > 100);
    assert!(outcome.stdout.lines().all(|line| line.starts_with(['E', 'W']) && line.as_bytes()[5] == b' '));
}
