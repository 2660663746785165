//! Tests standard output that is full or closed. A full one is an error of every command that prints; a closed pipe ends the program
//! silently.
#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{module, run};

const PTXAS: &str = env!("CARGO_BIN_EXE_ptxas");
const ORIOLE: &str = env!("CARGO_BIN_EXE_oriole");
/// Exit code after SIGPIPE: 128 plus the signal number.
const CLOSED_PIPE: i32 = 141;

/// Calls that print to standard output and normally exit with code 0 or 1.
const CALLS: [&str; 28] = [
    "oriole --help",
    "oriole --version",
    "oriole help compile",
    "oriole disasm --help",
    "oriole check k.ptx",
    "oriole check --print k.ptx",
    "oriole check --json wrong.ptx",
    "oriole codes",
    "oriole codes E0702",
    "oriole compile k.ptx -o -",
    "oriole compile k.ptx -o /dev/null --json",
    "oriole compile k.ptx -o /dev/null --print-after select",
    "oriole compile k.ptx -o /dev/null --time-passes=json",
    "oriole compile k.ptx --stop-after select",
    "oriole compile --list-passes",
    "oriole disasm k.cubin",
    "oriole disasm --control k.cubin",
    "oriole disasm --json k.cubin",
    "oriole asm k.sass -o -",
    "oriole roundtrip k.cubin",
    "oriole verify k.cubin",
    "oriole verify --list",
    "oriole rescore k.cubin --stats",
    "oriole profile --arch sm_90",
    "oriole run test.ptx",
    "ptxas --help",
    "ptxas --version",
    "ptxas --list-version",
];

fn folder(name: &str) -> PathBuf {
    let folder = crate::common::folder(&format!("streams-{name}"));
    fs::write(folder.join("k.ptx"), module("sm_75", "k", "")).unwrap();
    fs::write(folder.join("wrong.ptx"), module("sm_75", "k", "ad.s32 %r1, %r2, 1;")).unwrap();
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/kernels/integer");
    let mut tests: Vec<PathBuf> = fs::read_dir(tests).unwrap().map(|entry| entry.unwrap().path()).collect();
    tests.sort();
    fs::copy(&tests[0], folder.join("test.ptx")).unwrap();
    assert_eq!(run(ORIOLE, &folder, &["compile", "k.ptx", "-o", "k.cubin"], "").code, Some(0));
    fs::write(folder.join("k.sass"), run(ORIOLE, &folder, &["disasm", "--control", "k.cubin"], "").stdout).unwrap();
    folder
}

/// Returns the command of a call.
fn command(call: &str, folder: &Path) -> Command {
    let mut words = call.split(' ');
    let program = if words.next() == Some("ptxas") { PTXAS } else { ORIOLE };
    let mut command = Command::new(program);
    command.args(words).current_dir(folder).stdin(Stdio::null());
    command
}

#[test]
fn a_full_standard_output_is_an_error() {
    let folder = folder("full");
    for call in CALLS {
        let usual = command(call, &folder).output().unwrap();
        assert!(!usual.stdout.is_empty() && usual.status.code().is_some_and(|code| code < 2), "{call}: {usual:?}");
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = command(call, &folder).stdout(full).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        let expected = if call.starts_with("ptxas") { 255 } else { 2 };
        assert_eq!(output.status.code(), Some(expected), "{call}: {errors}");
        assert!(errors.contains("error: standard output: No space left on device"), "{call}: {errors}");
        assert!(!errors.contains("panicked"), "{call}: {errors}");
    }
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let folder = folder("closed");
    for call in CALLS {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command(call, &folder).stdout(writer).output().unwrap();
        assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(CLOSED_PIPE), ""), "{call}");
    }
    // As in a shell.
    let line = format!("{ORIOLE} profile --arch sm_90 | head -n 1");
    let output = Command::new("sh").args(["-c", &line]).current_dir(&folder).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty());
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 1);
}

/// The output of `-v` and messages are on standard error. The file is written even if standard error fails.
#[test]
fn standard_error_may_be_full_or_closed() {
    let folder = folder("errors");
    for (call, code, failure) in [
        ("ptxas -v k.ptx -o out", 0, 255),
        ("oriole compile -v k.ptx -o out", 0, 2),
        ("oriole compile k.ptx -o out --sched-stats", 0, 2),
        ("oriole compile wrong.ptx -o none", 1, 2),
        ("oriole check wrong.ptx", 1, 2),
        ("oriole nonsense", 2, 2),
        ("ptxas -nonsense", 255, 255),
    ] {
        let _ = fs::remove_file(folder.join("out"));
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        assert_eq!(command(call, &folder).stderr(full).status().unwrap().code(), Some(failure), "{call}");
        assert_eq!(folder.join("out").exists(), call.contains("-o out"), "{call}");
        let _ = fs::remove_file(folder.join("out"));
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        assert_eq!(command(call, &folder).stderr(writer).status().unwrap().code(), Some(code), "{call}");
        assert_eq!(folder.join("out").exists(), call.contains("-o out"), "{call}");
    }
}
