//! Runs the binaries and inspects their output.
#![allow(dead_code, reason = "each test program uses a part")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The result of a call.
#[derive(PartialEq, Eq, Debug)]
pub struct Outcome {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// Creates an empty folder for a test.
pub fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Runs a program in a folder with a text on standard input.
pub fn run(program: impl AsRef<Path>, folder: &Path, arguments: &[&str], input: &str) -> Outcome {
    let mut child = Command::new(program.as_ref())
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The program may end without reading its input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    Outcome {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Returns the names of the files in a folder, sorted.
pub fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Returns a module for a target with one kernel.
pub fn module(target: &str, kernel: &str, body: &str) -> String {
    format!(
        ".version 9.0\n.target {target}\n.address_size 64\n.visible .entry {kernel}()\n{{\n    .reg .b32 %r<3>; .reg .b64 %h;\n    {body}\n    ret;\n}}\n"
    )
}
