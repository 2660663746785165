//! Tests that a bug of the compiler itself gives one message and an exit status, no backtrace and no output file.

#[allow(dead_code, reason = "the programs use all of it")]
#[path = "../src/guard.rs"]
mod guard;

use std::fs;
use std::process::{Command, ExitCode};

use crate::common::{files, folder, module};

fn provoked(program: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let folder = folder(&format!("internal-{}", arguments[0].trim_start_matches('-')));
    fs::write(folder.join("k.ptx"), module("sm_90", "k", "")).unwrap();
    let output = Command::new(program)
        .args(arguments)
        .current_dir(&folder)
        .env("ORIOLE_PROVOKE_PANIC", "a test")
        .env("RUST_BACKTRACE", "1")
        .output();
    let output = output.unwrap();
    assert_eq!(files(&folder), ["k.ptx"]);
    assert!(output.stdout.is_empty());
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn oriole_ends_with_status_70() {
    let (code, stderr) = provoked(env!("CARGO_BIN_EXE_oriole"), &["compile", "k.ptx", "-o", "k.cubin"]);
    assert_eq!(code, Some(70));
    let lines: Vec<&str> = stderr.lines().collect();
    assert!(lines[0].starts_with("error: internal error: ORIOLE_PROVOKE_PANIC is set to a test at "), "{stderr}");
    assert!(lines[0].contains("guard.rs:"), "{stderr}");
    assert!(lines[1].contains("report it to"), "{stderr}");
    assert!(lines[2].contains("version: oriole "), "{stderr}");
    assert!(lines[3].contains("command: ") && lines[3].ends_with("compile k.ptx -o k.cubin"), "{stderr}");
    assert_eq!(lines.len(), 5, "{stderr}");
}

#[test]
fn ptxas_ends_with_status_255() {
    let (code, stderr) = provoked(env!("CARGO_BIN_EXE_ptxas"), &["-arch=sm_90", "k.ptx", "-o", "k.cubin"]);
    assert_eq!(code, Some(255));
    assert!(stderr.starts_with("ptxas fatal   : internal error: ORIOLE_PROVOKE_PANIC is set to a test at "), "{stderr}");
    assert_eq!(stderr.lines().count(), 5, "{stderr}");
}

/// A panic in a worker thread is handled like one in the main thread, and removes output that was already written.
#[test]
fn worker_threads_are_guarded_and_output_is_removed() {
    const PROGRAM: guard::Program = guard::Program { name: "test", prefix: "", status: 70 };
    let folder = folder("internal-worker");
    let output = folder.join("out.cubin");
    let code = guard::run(&PROGRAM, || {
        fs::write(&output, "half").unwrap();
        guard::note_output(&output);
        std::thread::scope(|scope| scope.spawn(|| panic!("in a worker")).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::from(70)));
    assert_eq!(files(&folder), Vec::<String>::new());
    let code = guard::run(&PROGRAM, || {
        fs::write(&output, "whole").unwrap();
        guard::note_output(&output);
        ExitCode::SUCCESS
    });
    assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::SUCCESS));
    assert_eq!(files(&folder), ["out.cubin"]);
}
