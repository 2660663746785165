//! Reads the files of the project from which cases are made.

use std::fs;
use std::path::{Path, PathBuf};

use oriole_driver::Options;
use oriole_isa::Target;
use oriole_ptx_fuzz::generate::generate;
use oriole_ptx_fuzz::reduce::Case;

/// Number of programs that are compiled to machine code seeds.
const PROGRAMS: u64 = 4;
/// Approximate number of statements of such a program.
const PROGRAM_SIZE: usize = 25;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the files of a folder of the project with an extension and at most `most_bytes` bytes, sorted by path.
pub fn files_in(folder: &str, extension: &str, most_bytes: usize) -> Vec<Vec<u8>> {
    let folder = root().join(folder);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|found| found == extension));
    paths.sort();
    let contents = paths.iter().map(|path| fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())));
    contents.filter(|bytes| bytes.len() <= most_bytes).collect()
}

/// Returns about `of_each_folder` kernel tests of each folder.
pub fn kernel_tests(of_each_folder: usize, most_bytes: usize) -> Vec<Vec<u8>> {
    let folder = root().join("tests/kernels");
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut names: Vec<String> = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.retain(|name| folder.join(name).is_dir());
    names.sort();
    let mut tests = Vec::new();
    for name in names {
        let files = files_in(&format!("tests/kernels/{name}"), "ptx", most_bytes);
        let step = files.len().div_ceil(of_each_folder).max(1);
        tests.extend(files.into_iter().step_by(step));
    }
    tests
}

/// Returns the text of a small random program with the header of a kernel test.
pub fn program(seed: u64, size: Option<usize>) -> String {
    let case = Case::of(&generate(seed, size));
    let mut text = case.text;
    if !text.starts_with(oriole_kernel_test::FIRST_LINE) {
        text.insert_str(0, &case.test.header("random program"));
    }
    text
}

/// Returns cubins made by NVIDIA's compiler, and cubins of small programs for several targets.
pub fn cubins() -> Vec<Vec<u8>> {
    let mut cubins = files_in("crates/cubin/tests/data", "cubin", 40_000);
    for seed in 0..PROGRAMS {
        let target = Target::parse(["sm_75", "sm_90a", "sm_100a", "sm_120a"][seed as usize % 4]).expect("a target of the table");
        let text = program(seed, Some(PROGRAM_SIZE));
        let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
        let options = Options { level: [3, 0][seed as usize % 2], ..Options::new(target) };
        // Some programs require a later target and do not compile.
        if let Ok(compiled) = oriole_driver::compile(&[&checked.module], &options) {
            cubins.push(compiled.cubin);
        }
    }
    cubins
}
