//! Checks that the files under `tests/kernels` are the output of the generators, and that all of them are valid.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use oriole_kernel_gen::Generated;

const MOST_BYTES_IN_FILE: usize = 52 << 10;
const MOST_BYTES: usize = 12 << 20;

/// What the generators make, which takes seconds: both tests read it.
static TESTS: LazyLock<Vec<Generated>> = LazyLock::new(oriole_kernel_gen::all);

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/kernels")
}

fn files(folder: &Path, prefix: &str, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).expect("the folder of kernel tests") {
        let path = entry.expect("a folder entry").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() {
            files(&path, &format!("{prefix}{name}/"), found);
        } else {
            found.insert(format!("{prefix}{name}"), fs::read_to_string(&path).expect("a readable file"));
        }
    }
}

#[test]
fn files_are_what_the_generators_make() {
    let mut found = BTreeMap::new();
    files(&folder(), "", &mut found);
    let tests = &*TESTS;
    let advice = "run `cargo run -p xtask -- kernel-tests`";
    for test in tests {
        assert!(found.get(&test.name) == Some(&test.text), "{} differs; {advice}", test.name);
    }
    assert_eq!(found.len(), tests.len(), "files that nothing generates; {advice}");
}

#[test]
fn headers_and_ptx_are_valid() {
    let tests = &*TESTS;
    assert!(tests.len() >= 600);
    let mut bytes = 0;
    for test in tests {
        let header = oriole_kernel_test::parse(&test.text).unwrap_or_else(|message| panic!("{}: {message}", test.name));
        assert!(test.text.contains(&format!(".visible .entry {}(", header.kernel)), "{}: no such kernel", test.name);
        let checked = oriole_ptx::check(test.text.as_bytes(), &oriole_ptx::Options::default());
        assert!(checked.is_valid(), "{}: {:?}", test.name, checked.diagnostics);
        assert!(test.text.len() <= MOST_BYTES_IN_FILE, "{}: {} bytes", test.name, test.text.len());
        bytes += test.text.len();
    }
    assert!(bytes <= MOST_BYTES, "{bytes} bytes");
}
