//! Tests where output files are written and what remains after a failure. The expected behaviour is that of ptxas 13.0.88. Where ptxas
//! truncates and overwrites, the result here is the same, but no other process sees a partial file.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{files, module, run};

const PTXAS: &str = env!("CARGO_BIN_EXE_ptxas");
const ORIOLE: &str = env!("CARGO_BIN_EXE_oriole");

fn folder(name: &str) -> PathBuf {
    let folder = crate::common::folder(&format!("output-{name}"));
    fs::write(folder.join("k.ptx"), module("sm_75", "k", "")).unwrap();
    folder
}

/// Runs a shell command in a folder; returns its exit code, output and errors.
fn shell(folder: &Path, line: &str) -> (Option<i32>, Vec<u8>, String) {
    let output = Command::new("sh").args(["-c", line]).current_dir(folder).stdin(Stdio::null()).output().unwrap();
    (output.status.code(), output.stdout, String::from_utf8_lossy(&output.stderr).into_owned())
}

fn compile(folder: &Path, output: &str) -> (Option<i32>, String) {
    let outcome = run(PTXAS, folder, &["-arch=sm_75", "k.ptx", "-o", output], "");
    assert_eq!(outcome.stdout, "");
    (outcome.code, outcome.stderr)
}

fn is_cubin(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF")
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn new_files_have_the_permissions_of_the_umask() {
    let folder = folder("umask");
    for (umask, expected) in [("022", 0o644), ("027", 0o640), ("077", 0o600), ("000", 0o666)] {
        let (code, _, errors) = shell(&folder, &format!("umask {umask}; rm -f out; exec {PTXAS} k.ptx -o out"));
        assert_eq!((code, errors.as_str()), (Some(0), ""));
        assert_eq!(mode(&folder.join("out")), expected, "umask {umask}");
    }
    assert_eq!(files(&folder), ["k.ptx", "out"]);
}

#[test]
fn old_files_keep_permissions_and_names() {
    let folder = folder("old");
    let out = folder.join("out");
    for permissions in [0o640, 0o755] {
        fs::write(&out, "old").unwrap();
        fs::set_permissions(&out, fs::Permissions::from_mode(permissions)).unwrap();
        assert_eq!(compile(&folder, "out"), (Some(0), String::new()));
        assert_eq!(mode(&out), permissions);
        assert!(is_cubin(&fs::read(&out).unwrap()));
    }
    fs::write(&out, "old").unwrap();
    fs::hard_link(&out, folder.join("other")).unwrap();
    assert_eq!(compile(&folder, "out"), (Some(0), String::new()));
    assert_eq!(fs::read(&out).unwrap(), fs::read(folder.join("other")).unwrap(), "both names of the file see the new contents");
    assert_eq!(fs::metadata(&out).unwrap().nlink(), 2);
    assert_eq!(files(&folder), ["k.ptx", "other", "out"]);
}

#[test]
fn symbolic_links_are_followed_and_stay() {
    let folder = folder("links");
    fs::create_dir(folder.join("there")).unwrap();
    fs::write(folder.join("there/old"), "old").unwrap();
    symlink("there/old", folder.join("to-old")).unwrap();
    symlink("to-old", folder.join("to-link")).unwrap();
    symlink("there/new", folder.join("dangling")).unwrap();
    symlink(folder.join("there/absolute"), folder.join("to-absolute")).unwrap();
    for (link, target) in [("to-old", "old"), ("to-link", "old"), ("dangling", "new"), ("to-absolute", "absolute")] {
        assert_eq!(compile(&folder, link), (Some(0), String::new()), "{link}");
        assert!(fs::symlink_metadata(folder.join(link)).unwrap().is_symlink(), "{link}");
        let target = folder.join("there").join(target);
        assert!(fs::symlink_metadata(&target).unwrap().is_file() && is_cubin(&fs::read(&target).unwrap()), "{link}");
    }
    assert_eq!(files(&folder.join("there")), ["absolute", "new", "old"]);
    symlink("nowhere/new", folder.join("to-nowhere")).unwrap();
    symlink("loop", folder.join("loop")).unwrap();
    for link in ["to-nowhere", "loop"] {
        assert_eq!(compile(&folder, link), (Some(255), format!("ptxas fatal   : Output file '{link}' could not be opened\n")));
    }
}

#[test]
fn pipes_and_devices_are_written_to() {
    let folder = folder("devices");
    assert_eq!(shell(&folder, &format!("{PTXAS} k.ptx -o /dev/null")), (Some(0), Vec::new(), String::new()));
    let (code, bytes, errors) = shell(&folder, &format!("{PTXAS} k.ptx -o /dev/stdout"));
    assert!(code == Some(0) && errors.is_empty() && is_cubin(&bytes));
    let (code, _, errors) = shell(&folder, &format!("{PTXAS} k.ptx -o /dev/stdout > out"));
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert_eq!(fs::read(folder.join("out")).unwrap(), bytes);
    let (code, through, errors) = shell(&folder, &format!("mkfifo pipe && {{ {PTXAS} k.ptx -o pipe & cat pipe; wait $!; }}"));
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert_eq!(through, bytes);
    // For ptxas `-` is an ordinary file name; for oriole it is standard output.
    assert_eq!(compile(&folder, "-"), (Some(0), String::new()));
    assert_eq!(files(&folder), ["-", "k.ptx", "out", "pipe"]);
    let (code, through, _) = shell(&folder, &format!("{ORIOLE} compile k.ptx --arch sm_80 -o -"));
    assert!(code == Some(0) && is_cubin(&through));
}

#[test]
fn what_cannot_be_written_is_an_error_and_leaves_nothing() {
    let folder = folder("errors");
    fs::create_dir(folder.join("folder")).unwrap();
    fs::write(folder.join("file"), "old").unwrap();
    let long = "n".repeat(300);
    for output in ["nowhere/out", "folder", "file/out", "new/", "", &long] {
        assert_eq!(compile(&folder, output), (Some(255), format!("ptxas fatal   : Output file '{output}' could not be opened\n")));
    }
    for arguments in [
        &["compile", "k.ptx", "-o", "nowhere/out"][..],
        &["profile", "--arch", "sm_90", "--export", "nowhere/out"],
        &["compile", "k.ptx", "-o", "/dev/null", "--sched-trace=nowhere/out"],
    ] {
        let outcome = run(ORIOLE, &folder, arguments, "");
        assert_eq!(outcome.code, Some(2), "{arguments:?}");
        assert_eq!(outcome.stderr, "error: nowhere/out: No such file or directory (os error 2)\n", "{arguments:?}");
    }
    // The disk is full: the old file stays.
    let outcome = run(ORIOLE, &folder, &["compile", "k.ptx", "-o", "/dev/full"], "");
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(2), "error: /dev/full: No space left on device (os error 28)\n"));
    assert_eq!(compile(&folder, "/dev/full").0, Some(255));
    assert_eq!(files(&folder), ["file", "folder", "k.ptx"]);
    assert_eq!(files(&folder.join("folder")), [""; 0]);
    assert_eq!(fs::read_to_string(folder.join("file")).unwrap(), "old");
}

/// Root may write everything, so this test runs as another user.
#[test]
fn files_that_may_not_be_written_are_errors() {
    let probe = Command::new("setpriv").args(["--reuid=65534", "--regid=65534", "--clear-groups", "true"]).status();
    let is_root = fs::metadata("/proc/self").is_ok_and(|found| found.uid() == 0);
    if is_root && !probe.is_ok_and(|status| status.success()) {
        oriole_oracles::skip("root may write everything, and there is no setpriv to be somebody else");
        return;
    }
    let folder = tempfile::Builder::new().prefix("oriole-test-").tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("closed")).unwrap();
    for name in ["k.ptx", "closed/open"] {
        fs::write(at(name), module("sm_75", "k", "")).unwrap();
    }
    fs::write(at("read-only"), "old").unwrap();
    fs::copy(PTXAS, at("ptxas")).unwrap();
    for (name, mode) in [("k.ptx", 0o644), ("closed/open", 0o666), ("read-only", 0o444), ("closed", 0o555), ("", 0o755), ("ptxas", 0o755)] {
        fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let call = |output: &str| {
        let other = if is_root { "setpriv --reuid=65534 --regid=65534 --clear-groups" } else { "" };
        shell(folder.path(), &format!("exec {other} ./ptxas k.ptx -o {output}"))
    };
    for output in ["read-only", "closed/new"] {
        let message = format!("ptxas fatal   : Output file '{output}' could not be opened\n");
        assert_eq!(call(output), (Some(255), Vec::new(), message));
    }
    assert_eq!(fs::read_to_string(at("read-only")).unwrap(), "old");
    // A writable file in a folder that is not writable.
    assert_eq!(call("closed/open"), (Some(0), Vec::new(), String::new()));
    assert!(is_cubin(&fs::read(at("closed/open")).unwrap()));
    assert_eq!(files(&at("closed")), ["open"]);
    fs::set_permissions(at("closed"), fs::Permissions::from_mode(0o755)).unwrap();
}

/// Whenever a signal arrives, either the complete file exists or none, and nothing else.
#[test]
fn signals_leave_nothing_behind() {
    let folder = folder("signals");
    let clean = std::time::Instant::now();
    assert_eq!(compile(&folder, "whole"), (Some(0), String::new()));
    let whole = fs::read(folder.join("whole")).unwrap();
    let usual = clean.elapsed();
    for (number, signal) in ["TERM", "INT", "HUP"].iter().cycle().take(60).enumerate() {
        let mut child = Command::new(PTXAS).args(["-arch=sm_75", "k.ptx", "-o", "out"]).current_dir(&folder).spawn().unwrap();
        std::thread::sleep(usual * number as u32 / 50);
        let sent = Command::new("kill").args(["-s", signal, &child.id().to_string()]).stderr(Stdio::null()).status().unwrap();
        let status = child.wait().unwrap();
        if status.success() {
            assert_eq!(fs::read(folder.join("out")).unwrap(), whole);
            fs::remove_file(folder.join("out")).unwrap();
        } else {
            assert!(sent.success());
            assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status).map(|_| ()), Some(()), "{status}");
            let _ = fs::remove_file(folder.join("out"));
        }
        assert_eq!(files(&folder), ["k.ptx", "whole"], "after SIG{signal}");
    }
}

/// Temporary names must be unique even across containers: many processes write the same file at the same time.
#[test]
fn processes_do_not_disturb_each_other() {
    let folder = folder("at-once");
    let start = || Command::new(PTXAS).args(["-arch=sm_75", "k.ptx", "-o", "out"]).current_dir(&folder).spawn().unwrap();
    let children: Vec<_> = (0..16).map(|_| start()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert!(is_cubin(&fs::read(folder.join("out")).unwrap()));
    assert_eq!(files(&folder), ["k.ptx", "out"]);
}
