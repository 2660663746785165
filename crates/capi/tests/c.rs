//! A C program that is written against the interface of nvPTXCompiler compiles, links with the library and runs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Returns the folder with the libraries that Cargo built with this test.
fn library_folder() -> PathBuf {
    // The test is in `deps`.
    let test = env::current_exe().unwrap();
    test.parent().unwrap().to_owned()
}

/// Runs a command; returns its standard output.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Builds the program with one form of the library, runs it, and returns its cubin.
fn flow(name: &str, link: &[&str]) -> Vec<u8> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (program, cubin) = (folder.join(name), folder.join(format!("{name}.cubin")));
    run(Command::new("cc")
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(sources.join("include"))
        .arg(sources.join("tests/flow.c"))
        .args(link)
        .arg("-o")
        .arg(&program));
    let log = run(Command::new(&program).arg(&cubin));
    assert!(log.contains("ptxas info    : Compiling entry function 'simpleVectorAdd' for 'sm_90'\n"), "{log}");
    assert!(log.contains("ptxas info    : Used "), "{log}");
    fs::read(cubin).unwrap()
}

/// Both forms of the library give the bytes that the Rust function gives.
#[test]
#[cfg(target_os = "linux")]
fn shared_and_static_library_compile_a_program() {
    let folder = library_folder().display().to_string();
    let shared = flow("flow_shared", &[&format!("-L{folder}"), "-loriole", &format!("-Wl,-rpath,{folder}")]);
    let is_static = format!("{folder}/liboriole.a");
    let fixed = flow("flow_static", &[&is_static, "-lpthread", "-ldl", "-lm"]);
    assert_eq!(&shared[..4], b"\x7fELF");
    assert_eq!(shared, fixed);
}
