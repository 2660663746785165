//! Helpers for the tests: the checked-in files and the vendor's tools.
//!
//! The tools are in the folder that `ORIOLE_ORACLES` names, or in `.oracles/bin`; `tools/oracles.sh` installs them.

#![allow(dead_code)] // each test uses a part

pub mod canonical;
pub mod parts;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use oriole_cubin::FileTraits;

/// One target for each file layout: before Hopper, Hopper, Blackwell.
const SAMPLE: [&str; 3] = ["sm_80", "sm_90a", "sm_120a"];

pub use oriole_oracles::compares_everything;

/// Returns the targets for tests with many calls of the vendor's tools.
pub fn targets_to_compare() -> Vec<FileTraits> {
    targets_of_ptxas().filter(|traits| compares_everything() || SAMPLE.contains(&traits.target.to_string().as_str())).collect()
}

/// Returns the targets of ptxas 13, which has no code for Volta.
pub fn targets_of_ptxas() -> impl Iterator<Item = FileTraits> {
    FileTraits::all().filter(|traits| traits.abi_version == oriole_cubin::target::ABI_VERSION)
}

/// Returns the traits of the target with this name.
pub fn traits_of(name: &str) -> FileTraits {
    FileTraits::of(oriole_support::Target::parse(name).expect("a target")).expect("a target with files")
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub fn data_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

/// Returns the checked-in files with this extension, sorted by name.
pub fn data_files(extension: &str) -> Vec<(String, Vec<u8>)> {
    files_in(&data_folder(), extension)
}

pub fn files_in(folder: &Path, extension: &str) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&path).unwrap()))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no .{extension} files in {}", folder.display());
    files
}

pub fn data_file(name: &str) -> Vec<u8> {
    fs::read(data_folder().join(name)).unwrap()
}

/// Returns the path of a vendor's tool, or `None` after printing that the test is skipped.
pub fn oracle(name: &str) -> Option<PathBuf> {
    if ["ptxas", "nvdisasm", "cuobjdump"].contains(&name) { oriole_oracles::tool(name) } else { oriole_oracles::optional_tool(name) }
}

/// A temporary folder for one test, removed when dropped.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("oriole-cubin-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs a tool with limited memory and time. Returns its output, or `None` if it fails.
pub fn run(tool: &Path, arguments: &[&str], folder: &Path) -> Option<Vec<u8>> {
    let limited = format!("ulimit -v 4000000; exec timeout 20 {} \"$@\"", tool.display());
    let output = Command::new("sh").args(["-c", &limited, "sh"]).args(arguments).current_dir(folder).output().unwrap();
    output.status.success().then_some(output.stdout)
}

/// Compiles a PTX file with ptxas. Returns `None` if ptxas rejects the file for the target.
pub fn compile(ptxas: &Path, scratch: &Scratch, ptx: &Path, target: &str, options: &[&str]) -> Option<Vec<u8>> {
    let arch = format!("-arch={target}");
    let ptx = fs::canonicalize(ptx).unwrap();
    let mut arguments = vec![&arch[..], ptx.to_str().unwrap(), "-o", "out.cubin"];
    arguments.extend(options);
    run(ptxas, &arguments, &scratch.0)?;
    Some(fs::read(scratch.path("out.cubin")).unwrap())
}

/// Returns PTX text changed to another target.
pub fn retarget(ptx: &str, target: &str) -> String {
    let line = |line: &str| match line {
        _ if line.starts_with(".target") => format!(".target {target}\n"),
        _ if line.starts_with(".version") => ".version 9.0\n".to_owned(),
        _ => format!("{line}\n"),
    };
    ptx.lines().map(line).collect()
}
