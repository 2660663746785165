//! Tests the cache of compiled files, of `oriole compile --cache` and of `ptxas` with `ORIOLE_CACHE`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Outcome, module};

const ORIOLE: &str = env!("CARGO_BIN_EXE_oriole");
const PTXAS: &str = env!("CARGO_BIN_EXE_ptxas");

fn folder(name: &str) -> PathBuf {
    let folder = crate::common::folder(&format!("cache-{name}"));
    let saxpy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/saxpy.ptx");
    fs::copy(saxpy, folder.join("saxpy.ptx")).unwrap();
    fs::copy(folder.join("saxpy.ptx"), folder.join("copy.ptx")).unwrap();
    fs::write(folder.join("wrong.ptx"), module("sm_80", "w", "ad.s32 %r1, %r2, 1;")).unwrap();
    // W0515: `.minnctapersm` without `.maxntid`.
    let warned = module("sm_80", "warned", "").replace("warned()", "warned() .minnctapersm 2");
    fs::write(folder.join("warned.ptx"), warned).unwrap();
    folder
}

fn run(program: &str, folder: &Path, arguments: &[&str], cache: Option<&str>) -> Outcome {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).env_remove("ORIOLE_CACHE");
    command.envs(cache.map(|cache| ("ORIOLE_CACHE", cache)));
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Outcome { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Compiles a file with `oriole compile -v` and a cache; returns the messages without that about the cache, and the result of the cache.
fn compile(folder: &Path, file: &str, more: &[&str]) -> (String, String) {
    let mut arguments = vec!["compile", file, "-o", "out.cubin", "--arch", "sm_90a", "-v", "--cache", "cache"];
    arguments.extend(more);
    let outcome = run(ORIOLE, folder, &arguments, None);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let (about, other): (Vec<&str>, Vec<&str>) = outcome.stderr.lines().partition(|line| line.contains(": cache: "));
    assert_eq!(about.len(), 1, "{}", outcome.stderr);
    (other.join("\n"), about[0].split(": cache: ").nth(1).unwrap().to_owned())
}

/// Returns the files in the cache.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let folders = fs::read_dir(folder.join("cache")).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = folders.flat_map(|folder| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path())).collect();
    files.sort();
    files
}

#[test]
fn a_hit_gives_the_same_bytes_and_messages() {
    let folder = folder("hit");
    let without = run(ORIOLE, &folder, &["compile", "saxpy.ptx", "-o", "plain.cubin", "--arch", "sm_90a", "-v"], None);
    let plain = fs::read(folder.join("plain.cubin")).unwrap();
    for expected in ["miss", "hit", "hit"] {
        let _ = fs::remove_file(folder.join("out.cubin"));
        let (messages, result) = compile(&folder, "saxpy.ptx", &[]);
        assert_eq!((messages.as_str(), result.as_str()), (without.stderr.trim_end(), expected));
        assert!(fs::read(folder.join("out.cubin")).unwrap() == plain);
    }
    // The name of a file is not a part of the key, but of messages.
    let (messages, result) = compile(&folder, "copy.ptx", &[]);
    assert_eq!((messages, result.as_str()), (without.stderr.trim_end().replace("saxpy.ptx", "copy.ptx"), "hit"));
}

#[test]
fn every_option_that_matters_is_in_the_key() {
    let folder = folder("options");
    assert_eq!(compile(&folder, "saxpy.ptx", &[]).1, "miss");
    for more in [
        &["-O1"][..],
        &["--fmad", "false"],
        &["--maxrregcount", "32"],
        &["-c"],
        &["--lineinfo"],
        &["-g"],
        &["--entry", "saxpy"],
        &["--sched-mode", "off"],
        &["--sched-backend", "auto"],
        &["--sched-record"],
    ] {
        for expected in ["miss", "hit"] {
            assert_eq!(compile(&folder, "saxpy.ptx", more).1, expected, "{more:?}");
        }
    }
    let text = fs::read_to_string(folder.join("saxpy.ptx")).unwrap();
    fs::write(folder.join("saxpy.ptx"), text + "\n").unwrap();
    assert_eq!(compile(&folder, "saxpy.ptx", &[]).1, "miss");
    for arch in ["sm_80", "sm_90"] {
        let arguments = ["compile", "saxpy.ptx", "-o", "x", "--cache", "cache", "-v", "--arch", arch];
        assert!(run(ORIOLE, &folder, &arguments, None).stderr.contains("cache: miss"), "{arch}");
    }
    // Without --arch, the module's own target counts.
    assert!(run(ORIOLE, &folder, &["compile", "saxpy.ptx", "-o", "x", "--cache", "cache", "-v"], None).stderr.contains("cache: miss"));
}

#[test]
fn data_and_warnings_are_kept() {
    let folder = folder("data");
    let call = |file| run(ORIOLE, &folder, &["compile", file, "-o", "x", "--arch", "sm_90a", "--json"], Some("cache"));
    assert_eq!(call("saxpy.ptx"), call("saxpy.ptx"));
    assert!(call("saxpy.ptx").stdout.starts_with("{\"file\":\"saxpy.ptx\",\""));
    let first = call("warned.ptx");
    assert!(first.stdout.contains("W0515"), "{}", first.stdout);
    assert_eq!(call("warned.ptx"), first);
    assert_eq!(compile(&folder, "warned.ptx", &["--json"]).1, "hit");
    assert_eq!(compile(&folder, "warned.ptx", &[]).1, "miss");
    let (messages, result) = compile(&folder, "warned.ptx", &[]);
    assert!(result == "hit" && messages.contains("W0515"), "{messages}");
    let failed = call("wrong.ptx");
    assert_eq!((failed.code, call("wrong.ptx")), (Some(1), failed));
}

#[test]
fn damaged_entries_are_replaced() {
    let folder = folder("damaged");
    compile(&folder, "saxpy.ptx", &[]);
    let expected = fs::read(folder.join("out.cubin")).unwrap();
    let changes: [fn(&mut Vec<u8>); 3] = [|bytes| bytes.truncate(bytes.len() - 1), |bytes| *bytes.last_mut().unwrap() ^= 1, Vec::clear];
    for change in changes {
        for file in entries(&folder) {
            let mut bytes = fs::read(&file).unwrap();
            change(&mut bytes);
            fs::write(&file, bytes).unwrap();
        }
        assert_eq!(compile(&folder, "saxpy.ptx", &[]).1, "damaged entry, compiled again");
        assert!(fs::read(folder.join("out.cubin")).unwrap() == expected);
        assert_eq!(compile(&folder, "saxpy.ptx", &[]).1, "hit");
    }
}

#[test]
fn processes_share_a_cache() {
    let folder = folder("processes");
    let start = |number: usize| {
        let output = format!("out{number}");
        let arguments = ["compile", "saxpy.ptx", "-o", &output, "--arch", "sm_90a", "--cache", "cache"];
        Command::new(ORIOLE).args(arguments).current_dir(&folder).spawn().unwrap()
    };
    let children: Vec<_> = (0..8).map(start).collect();
    assert!(children.into_iter().all(|mut child| child.wait().unwrap().success()));
    let outputs: Vec<Vec<u8>> = (0..8).map(|number| fs::read(folder.join(format!("out{number}"))).unwrap()).collect();
    assert!(outputs.iter().all(|output| *output == outputs[0]));
    // One entry for the file and one for the compiler; no temporary files.
    assert_eq!(entries(&folder).len(), 2);
    assert_eq!(compile(&folder, "saxpy.ptx", &[]).1, "hit");
}

#[test]
fn reports_do_not_come_from_the_cache() {
    let folder = folder("reports");
    for _ in 0..2 {
        let arguments = ["compile", "saxpy.ptx", "-o", "x", "-v", "--cache", "cache", "--sched-stats"];
        let stderr = run(ORIOLE, &folder, &arguments, None).stderr;
        assert!(stderr.starts_with("note: the cache is not used") && !stderr.contains(": cache: "), "{stderr}");
    }
    assert!(!folder.join("cache").exists());
}

#[test]
fn a_cache_that_cannot_be_used_is_reported() {
    let folder = folder("unusable");
    let outcome = run(ORIOLE, &folder, &["compile", "saxpy.ptx", "-o", "x", "--cache", "saxpy.ptx/cache"], None);
    assert_eq!(outcome.code, Some(2));
    assert!(outcome.stderr.starts_with("error: saxpy.ptx/cache: the cache cannot be opened: "), "{}", outcome.stderr);
    let outcome = run(PTXAS, &folder, &["-arch=sm_90", "saxpy.ptx", "-o", "x"], Some("saxpy.ptx/cache"));
    assert_eq!(outcome.code, Some(0));
    assert!(outcome.stderr.starts_with("ptxas warning : Oriole cache 'saxpy.ptx/cache' cannot be opened: "), "{}", outcome.stderr);
    assert_eq!(outcome.stderr.lines().count(), 1);
}

#[test]
fn ptxas_uses_the_cache_of_the_environment() {
    let folder = folder("ptxas");
    let call = |file, output, more: &[&str], cache| {
        let arguments: Vec<&str> = ["-arch=sm_90a", file, "-o", output].iter().chain(more).copied().collect();
        run(PTXAS, &folder, &arguments, cache)
    };
    let silent = Outcome { code: Some(0), stdout: String::new(), stderr: String::new() };
    assert_eq!(call("saxpy.ptx", "plain", &[], None), silent);
    assert_eq!(call("saxpy.ptx", "first", &[], Some("cache")), silent);
    assert_eq!(entries(&folder).len(), 2);
    assert_eq!(call("copy.ptx", "second", &[], Some("cache")), silent);
    assert_eq!(entries(&folder).len(), 2);
    let bytes = |name: &str| fs::read(folder.join(name)).unwrap();
    assert!(bytes("first") == bytes("plain") && bytes("second") == bytes("plain"));
    // The resource usage that callers parse is the same, except for the time.
    let usage = |outcome: Outcome| -> Vec<String> {
        outcome.stderr.lines().filter(|line| !line.contains("Compile time")).map(str::to_owned).collect()
    };
    let without = usage(call("saxpy.ptx", "x", &["-v"], None));
    for (file, result) in [("saxpy.ptx", "miss"), ("saxpy.ptx", "hit"), ("copy.ptx", "hit")] {
        let mut with = usage(call(file, "x", &["-v"], Some("cache")));
        assert_eq!(with.remove(0), format!("ptxas info    : Oriole cache: {result}"));
        assert_eq!(with, without);
    }
    let failed = call("wrong.ptx", "y", &[], Some("cache"));
    assert_eq!((failed.code, call("wrong.ptx", "y", &[], None)), (Some(255), failed));
}
