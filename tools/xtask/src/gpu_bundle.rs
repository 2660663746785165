//! `gpu-bundle`: packs everything that a machine with a GPU needs to run the kernel tests into one archive.
//!
//! ```text
//! oriole-gpu-bundle/run.sh            runs all sets and prints a table
//!                   oriole-gpu-tests  the runner
//!                   tests/            the kernel tests, with complete expected values
//!                   cubins/SET/       their machine code: oriole-O0, oriole-O3, and with --rivals ptxas-O0, ptxas-O3
//! ```

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use oriole_driver::{Options, compile};
use oriole_isa::Target;
use oriole_kernel_test::KernelTest;
use oriole_sim::ptx;
use rayon::prelude::*;

const TESTS: &str = "tests/kernels";
const FOLDER: &str = "oriole-gpu-bundle";
const RUNNER: &str = "oriole-gpu-tests";
const LEVELS: [u8; 2] = [0, 3];
const MOST_BYTES: u64 = 60 << 20;
/// Limits for one run of ptxas: memory in KiB and time in seconds.
const RIVAL_LIMITS: (u32, u32) = (6_000_000, 60);

const RUN: &str = "\
#!/bin/sh
# Runs every set of cubins on the GPU of this machine and prints a table.
# Options: --time N (launches of each kernel to time), --jobs N, --filter TEXT, --timeout SECS, --json.
cd \"$(dirname \"$0\")\" && exec ./oriole-gpu-tests --bundle . \"$@\"
";

/// The parsed command line.
#[derive(Debug, PartialEq)]
struct Request<'a> {
    output: &'a str,
    target: Target,
    rivals: bool,
    filter: &'a str,
}

fn read<'a>(words: &[&'a str]) -> Result<Request<'a>, String> {
    let target = |name: &str| Target::parse(name).ok_or_else(|| format!("{name} is not a target that Oriole compiles for"));
    let mut request = Request { output: "", target: target("sm_90a")?, rivals: false, filter: "" };
    let mut rest = words.iter();
    while let Some(&word) = rest.next() {
        match word {
            "--arch" => request.target = target(rest.next().ok_or("--arch needs a GPU")?)?,
            "--filter" => request.filter = rest.next().ok_or("--filter needs a text")?,
            "--rivals" => request.rivals = true,
            _ if word.starts_with("--") => return Err(format!("unknown option {word}")),
            _ if request.output.is_empty() => request.output = word,
            _ => return Err(format!("one archive only, not {word}")),
        }
    }
    if request.output.is_empty() { Err("where shall the archive go?".into()) } else { Ok(request) }
}

/// Creates the archive.
pub fn write(words: &[&str]) -> Result<(), String> {
    let request = read(words)?;
    let scratch = env::temp_dir().join(format!("oriole-gpu-bundle-{}", std::process::id()));
    let packed = fill(&request, &scratch.join(FOLDER)).and_then(|()| pack(&scratch, Path::new(request.output)));
    // Leftovers in the temporary folder do no harm.
    let _ = fs::remove_dir_all(&scratch);
    let bytes = packed?;
    println!("{}: {:.1} MiB", request.output, bytes as f64 / f64::from(1 << 20));
    if bytes < MOST_BYTES { Ok(()) } else { Err(format!("more than {} MiB", MOST_BYTES >> 20)) }
}

/// Fills the folder that is packed.
fn fill(request: &Request<'_>, folder: &Path) -> Result<(), String> {
    let ptxas = if request.rivals { Some(find_ptxas()?) } else { None };
    add_runner(folder)?;
    let files = tests(request.filter)?;
    let kept: Vec<Option<(String, String)>> = files.par_iter().map(|file| load(file, request.target)).collect::<Result<_, _>>()?;
    let skipped = kept.iter().filter(|test| test.is_none()).count();
    let tests: Vec<(String, String)> = kept.into_iter().flatten().collect();
    tests.par_iter().try_for_each(|(name, text)| put(&folder.join("tests").join(format!("{name}.ptx")), text.as_bytes()))?;
    for level in LEVELS {
        let set = folder.join(format!("cubins/oriole-O{level}"));
        let refused = count_refused(&tests, |name, text| own_cubin(&set, name, text, request.target, level));
        println!("oriole -O{level}: {} of {} tests for {}, {skipped} are for others", tests.len() - refused, tests.len(), request.target);
    }
    let Some(ptxas) = ptxas else { return Ok(()) };
    for level in LEVELS {
        let set = folder.join(format!("cubins/ptxas-O{level}"));
        let refused = count_refused(&tests, |name, _| {
            rival_cubin(&ptxas, &folder.join("tests").join(format!("{name}.ptx")), &set, name, request.target, level)
        });
        println!("ptxas -O{level}: {} of {} tests", tests.len() - refused, tests.len());
    }
    Ok(())
}

/// Creates a cubin for each test; prints the failures and returns their number.
fn count_refused(tests: &[(String, String)], make: impl Fn(&str, &str) -> Result<(), String> + Sync) -> usize {
    let refused: Vec<String> =
        tests.par_iter().filter_map(|(name, text)| make(name, text).err().map(|error| format!("{name}: {error}"))).collect();
    refused.iter().for_each(|line| eprintln!("{line}"));
    refused.len()
}

/// Returns the names of the tests without extension, relative to the folder of tests.
fn tests(filter: &str) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    let mut open = vec![PathBuf::from(TESTS)];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))? {
            let path = entry.map_err(|error| error.to_string())?.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension() == Some(OsStr::new("ptx")) {
                let name = path.strip_prefix(TESTS).unwrap_or(&path).with_extension("");
                names.push(name.to_string_lossy().into_owned());
            }
        }
    }
    names.retain(|name| name.contains(filter));
    names.sort();
    if names.is_empty() { Err(format!("no tests in {TESTS}")) } else { Ok(names) }
}

/// Returns name and text of a test, with complete expected values; `None` if the test is for other GPUs.
fn load(name: &str, target: Target) -> Result<Option<(String, String)>, String> {
    let wrong = |what: &dyn std::fmt::Display| format!("{name}: {what}");
    let text = fs::read_to_string(Path::new(TESTS).join(format!("{name}.ptx"))).map_err(|error| wrong(&error))?;
    let test = oriole_kernel_test::parse(&text).map_err(|error| wrong(&error))?;
    let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
    if oriole_driver::target_mismatch(checked.module.target, target).is_some() {
        return Ok(None);
    }
    if !test.needs_interpreter() {
        return Ok(Some((name.to_owned(), text)));
    }
    let program = ptx::PtxProgram::new(&checked.module, text.as_bytes()).map_err(|error| wrong(&error))?;
    let (test, report) = program.complete_test(&test, &ptx::PtxOptions::default()).map_err(|error| wrong(&error))?;
    match report.findings.first() {
        Some(finding) => Err(wrong(finding)),
        None => Ok(Some((name.to_owned(), completed(&test, name, &text)))),
    }
}

/// Adds a header with all expected values before the file's own header, which then is only a comment.
fn completed(test: &KernelTest, name: &str, text: &str) -> String {
    format!("{}\n{text}", test.header(name))
}

fn own_cubin(set: &Path, name: &str, text: &str, target: Target, level: u8) -> Result<(), String> {
    let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
    let options = Options { level, verify: false, ..Options::new(target) };
    let compiled = compile(&[&checked.module], &options).map_err(|errors| errors[0].to_string())?;
    put(&set.join(format!("{name}.cubin")), &compiled.cubin)
}

fn find_ptxas() -> Result<PathBuf, String> {
    let folder = env::var_os("ORIOLE_ORACLES").map_or_else(|| PathBuf::from(".oracles/bin"), PathBuf::from);
    let ptxas = folder.join("ptxas");
    if ptxas.exists() { Ok(ptxas) } else { Err("ptxas not found; run tools/oracles.sh".into()) }
}

fn rival_cubin(ptxas: &Path, test: &Path, set: &Path, name: &str, target: Target, level: u8) -> Result<(), String> {
    let cubin = set.join(format!("{name}.cubin"));
    make_parent(&cubin)?;
    let (memory, seconds) = RIVAL_LIMITS;
    let limited = format!("ulimit -v {memory}; exec timeout {seconds} \"$0\" \"$@\"");
    let output = Command::new("sh")
        .args(["-c", &limited])
        .arg(ptxas)
        .args([format!("-arch={target}"), format!("-O{level}"), "-o".to_owned()])
        .args([&cubin, &test.to_owned()])
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()) }
}

/// Adds the runner, built for release, and stripped if `strip` is installed.
fn add_runner(folder: &Path) -> Result<(), String> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    run(Command::new(cargo).args(["build", "--release", "--quiet", "-p", "oriole-gpu", "--bin", RUNNER]))?;
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let destination = folder.join(RUNNER);
    make_parent(&destination)?;
    let built = target.join("release").join(RUNNER);
    fs::copy(&built, &destination).map_err(|error| format!("{}: {error}", built.display()))?;
    let _ = Command::new("strip").arg(&destination).status();
    put(&folder.join("run.sh"), RUN.as_bytes())?;
    run(Command::new("chmod").arg("755").args([&folder.join("run.sh"), &destination]))
}

/// Packs the folder; returns the size of the archive in bytes.
fn pack(scratch: &Path, output: &Path) -> Result<u64, String> {
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0", "-czf"]).arg(output);
    run(tar.arg("-C").arg(scratch).arg(FOLDER))?;
    fs::metadata(output).map(|found| found.len()).map_err(|error| format!("{}: {error}", output.display()))
}

fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program}: {status}")),
        Err(error) => Err(format!("{program}: {error}")),
    }
}

fn put(path: &Path, bytes: &[u8]) -> Result<(), String> {
    make_parent(path)?;
    fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()))
}

fn make_parent(path: &Path) -> Result<(), String> {
    let parent = path.parent().ok_or("a path without a folder")?;
    fs::create_dir_all(parent).map_err(|error| format!("{}: {error}", parent.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read() {
        let request = read(&["out.tar.gz", "--arch", "sm_80", "--rivals", "--filter", "add"]).expect("right");
        let target = Target::parse("sm_80").expect("a target");
        assert_eq!(request, Request { output: "out.tar.gz", target, rivals: true, filter: "add" });
        assert!(read(&["--rivals"]).is_err());
        assert!(read(&["a", "--arch", "sm_1"]).is_err());
        assert!(read(&["a", "b"]).is_err());
    }

    #[test]
    fn a_folder_is_packed() {
        let scratch = env::temp_dir().join(format!("oriole-pack-{}", std::process::id()));
        put(&scratch.join(FOLDER).join("run.sh"), RUN.as_bytes()).expect("written");
        put(&scratch.join(FOLDER).join("cubins/oriole-O3/a/b.cubin"), b"x").expect("written");
        let archive = scratch.join("out.tar.gz");
        assert!(pack(&scratch, &archive).expect("packed") > 0);
        let listing = Command::new("tar").arg("-tzf").arg(&archive).output().expect("tar runs");
        let listing = String::from_utf8_lossy(&listing.stdout).into_owned();
        assert!(listing.contains("oriole-gpu-bundle/cubins/oriole-O3/a/b.cubin\n"), "{listing}");
        fs::remove_dir_all(&scratch).expect("removed");
    }

    #[test]
    fn a_completed_test_is_read_as_such() {
        let text = "// kernel-test 1\n// kernel: k\n// param d: u8[2] = zero\n// expect d: interpreter\n.version 8.0\n";
        let mut test = oriole_kernel_test::parse(text).expect("valid");
        test.expectations[0].resolve(oriole_kernel_test::Element::U8, &[1, 2]);
        assert_eq!(oriole_kernel_test::parse(&completed(&test, "family/name", text)), Ok(test));
    }
}
