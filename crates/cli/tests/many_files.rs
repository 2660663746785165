//! Tests `oriole compile` with several files.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{Outcome, files, module, run};
use oriole_cubin::Cubin;
use serde_json::Value;

const ORIOLE: &str = env!("CARGO_BIN_EXE_oriole");

/// Number of valid files.
const COUNT: usize = 40;

/// Creates a folder with valid files `k00.ptx` and so on.
fn folder(name: &str) -> PathBuf {
    let folder = crate::common::folder(&format!("many-{name}"));
    for number in 0..COUNT {
        fs::write(folder.join(format!("k{number:02}.ptx")), module("sm_80", &format!("kernel{number}"), "add.s32 %r1, %r2, 1;")).unwrap();
    }
    fs::write(folder.join("wrong.ptx"), module("sm_80", "w", "ad.s32 %r1, %r2, 1;")).unwrap();
    folder
}

fn names() -> Vec<String> {
    (0..COUNT).map(|number| format!("k{number:02}.ptx")).collect()
}

fn compile(folder: &Path, files: &[String], more: &[&str]) -> Outcome {
    let mut arguments = vec!["compile"];
    arguments.extend(files.iter().map(String::as_str));
    arguments.extend(more);
    run(ORIOLE, folder, &arguments, "")
}

fn kernels(file: &Path) -> Vec<String> {
    Cubin::read(&fs::read(file).unwrap()).unwrap().kernels().map(|kernel| kernel.name.to_string()).collect()
}

#[test]
fn each_file_becomes_a_cubin() {
    let folder = folder("each");
    let outcome = compile(&folder, &names(), &["--out-dir", "new/out", "--arch", "sm_90a"]);
    assert_eq!(outcome, Outcome { code: Some(0), stdout: String::new(), stderr: String::new() });
    let out = folder.join("new/out");
    assert_eq!(files(&out).len(), COUNT);
    for number in 0..COUNT {
        assert_eq!(kernels(&out.join(format!("k{number:02}.cubin"))), [format!("kernel{number}")]);
    }
    // The bytes are those of a call with one file.
    run(ORIOLE, &folder, &["compile", "k07.ptx", "-o", "one.cubin", "--arch", "sm_90a"], "");
    assert!(fs::read(folder.join("one.cubin")).unwrap() == fs::read(out.join("k07.cubin")).unwrap());
}

#[test]
fn messages_come_in_the_order_of_the_files() {
    let folder = folder("order");
    let mut wanted = names();
    wanted.reverse();
    let first = compile(&folder, &wanted, &["--out-dir", "out", "-v"]);
    let mut order: Vec<&str> = first.stderr.lines().map(|line| line.split(':').next().unwrap()).collect();
    order.dedup();
    assert_eq!(order, wanted);
    assert_eq!(compile(&folder, &wanted, &["--out-dir", "out", "-v"]), first);
    let json = compile(&folder, &wanted, &["--out-dir", "out", "--json"]);
    let order: Vec<String> =
        json.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["file"].as_str().unwrap().to_owned()).collect();
    assert_eq!(order, wanted);
}

#[test]
fn a_file_with_errors_does_not_stop_the_others() {
    let folder = folder("errors");
    let mut wanted = names();
    wanted.insert(3, "wrong.ptx".to_owned());
    let outcome = compile(&folder, &wanted, &["--out-dir", "out"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(1), ""));
    assert!(outcome.stderr.contains("--> wrong.ptx:7") && outcome.stderr.ends_with("wrong.ptx: 1 error\n"), "{}", outcome.stderr);
    assert_eq!(files(&folder.join("out")).len(), COUNT);
    wanted.insert(0, "missing.ptx".to_owned());
    let outcome = compile(&folder, &wanted, &["--out-dir", "again"]);
    assert_eq!(outcome.code, Some(2));
    assert!(outcome.stderr.starts_with("error: missing.ptx: "), "{}", outcome.stderr);
    assert_eq!(files(&folder.join("again")).len(), COUNT);
}

#[test]
fn ambiguous_outputs_are_refused() {
    let folder = folder("refused");
    fs::create_dir(folder.join("sub")).unwrap();
    fs::copy(folder.join("k00.ptx"), folder.join("sub/k00.ptx")).unwrap();
    fs::copy(folder.join("k00.ptx"), folder.join("k01.cubin")).unwrap();
    let before = files(&folder);
    for (arguments, text) in [
        (&["k00.ptx", "sub/k00.ptx", "--out-dir", "."][..], "k00.ptx and sub/k00.ptx would both be compiled to ./k00.cubin"),
        (&["k00.ptx", "k00.ptx", "--out-dir", "."], "k00.ptx and k00.ptx would both be compiled to ./k00.cubin"),
        (&["k00.ptx", "k01.ptx", "-o", "x.cubin"], "-o is for one file, and there are 2; --out-dir writes a cubin for each of them"),
        (&["k01.ptx", "sub/../k01.cubin", "--out-dir", "."], "k01.ptx and sub/../k01.cubin would both be compiled to ./k01.cubin"),
        (&["k01.cubin", "--out-dir", "."], "./k01.cubin: the output would overwrite the input"),
        (&["k01.ptx", "-o", "sub/../k01.ptx"], "sub/../k01.ptx: the output would overwrite the input"),
        (&["-", "--out-dir", "."], "-: there is no name for a cubin in .; use -o"),
        (&["k00.ptx", "k01.ptx", "--out-dir", ".", "--opt-bisect-limit", "3"], "--opt-bisect-limit is for one file, and there are 2"),
        (&["k00.ptx", "k01.ptx", "--out-dir", ".", "--sched-trace=t"], "--sched-trace=FILE is for one file, and there are 2"),
    ] {
        let arguments: Vec<&str> = ["compile"].iter().chain(arguments).copied().collect();
        let outcome = run(ORIOLE, &folder, &arguments, "");
        assert_eq!(outcome, Outcome { code: Some(2), stdout: String::new(), stderr: format!("error: {text}\n") }, "{arguments:?}");
    }
    assert_eq!(files(&folder), before);
}

#[test]
fn errors_are_data_with_json() {
    let folder = folder("json");
    let atomic = "{ .reg .b32 %z; .local .align 4 .b32 z; atom.add.u32 %z, [z], 1; }";
    fs::write(folder.join("later.ptx"), module("sm_100a", "u", atomic)).unwrap();
    let files = ["wrong.ptx", "k00.ptx", "later.ptx"].map(str::to_owned);
    let outcome = compile(&folder, &files, &["--out-dir", "out", "--json"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(1), ""));
    let objects: Vec<Value> = outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(objects.len(), 3, "{}", outcome.stdout);
    assert_eq!(objects[1]["function"], "kernel0");
    // The object is that of `oriole check --json`.
    let checked = run(ORIOLE, &folder, &["check", "--json", "wrong.ptx"], "");
    assert_eq!(objects[0], serde_json::from_str::<Value>(&checked.stdout).unwrap());
    assert_eq!((&objects[2]["code"], &objects[2]["file"]), (&Value::from("E1201"), &Value::from("later.ptx")));
}

#[test]
fn colours_are_used_on_request() {
    let folder = folder("colours");
    let call = |more: &[&str]| compile(&folder, &["wrong.ptx".to_owned()], &[&["-o", "x"], more].concat()).stderr;
    assert!(call(&["--color", "always"]).contains('\x1b'));
    assert!(!call(&["--color", "never"]).contains('\x1b'));
    // Every command takes the option, before or after the name of the command.
    for arguments in [
        ["--color", "always", "check", "wrong.ptx"],
        ["check", "--color", "always", "wrong.ptx"],
        ["explain", "wrong.ptx", "--color", "always"],
    ] {
        assert!(run(ORIOLE, &folder, &arguments, "").stderr.contains('\x1b'), "{arguments:?}");
    }
    // Standard error is not a terminal here.
    assert!(!call(&[]).contains('\x1b'));
}

#[test]
fn an_unknown_target_gets_a_hint() {
    let folder = folder("hint");
    for (typed, near) in [("sm90a", "sm_90a"), ("sm_9O", "sm_90"), ("SM_120", "sm_120")] {
        let stderr = compile(&folder, &["k00.ptx".to_owned()], &["-o", "x", "--arch", typed]).stderr;
        assert!(stderr.starts_with(&format!("error: {typed} is not a target that Oriole compiles for; there are sm_70, ")), "{stderr}");
        assert!(stderr.trim_end().ends_with(&format!("; did you mean {near}?")), "{stderr}");
    }
}
