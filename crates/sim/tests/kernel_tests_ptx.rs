//! Runs all kernel tests in the PTX interpreter: the results must be right, and nothing undefined may happen.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use oriole_sim::ptx::{PtxOptions, PtxProgram};

/// Tests with intended undefined behaviour, and the reason.
const UNDEFINED: &[(&str, &str)] =
    &[("special/smem_size", "all threads store to one word that nobody reads, only so that the kernel has static shared memory")];

fn test_files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/kernels");
    let mut files = Vec::new();
    for family in std::fs::read_dir(root).unwrap() {
        for file in std::fs::read_dir(family.unwrap().path()).unwrap() {
            files.push(file.unwrap().path());
        }
    }
    files.retain(|file| file.extension().is_some_and(|extension| extension == "ptx"));
    files.sort();
    files
}

fn name_of(file: &Path) -> String {
    let parts: Vec<_> = file.iter().rev().take(2).map(|part| part.to_string_lossy()).collect();
    format!("{}/{}", parts[1], parts[0].trim_end_matches(".ptx"))
}

fn run(text: &str, name: &str) -> Result<u64, String> {
    let test = oriole_kernel_test::parse(text).map_err(|error| format!("{error:?}"))?;
    let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
    let program = PtxProgram::new(&checked.module, text.as_bytes()).map_err(|error| error.to_string())?;
    let report = program.run_test(&test, &PtxOptions::default()).map_err(|failure| failure.to_string())?;
    let is_expected = UNDEFINED.iter().any(|&(expected, _)| expected == name);
    match (report.findings.first(), is_expected) {
        (Some(finding), false) => Err(finding.to_string()),
        (None, true) => Err("nothing was found, though the list says so".to_owned()),
        _ => Ok(report.instructions),
    }
}

#[test]
fn all_kernel_tests_pass() {
    let files = test_files();
    assert!(files.len() >= 2705, "only {} kernel tests found", files.len());
    let (next, instructions) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let failures = Mutex::new(Vec::new());
    let work = || {
        while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            let name = name_of(file);
            match run(&std::fs::read_to_string(file).unwrap(), &name) {
                Ok(count) => _ = instructions.fetch_add(count as usize, Ordering::Relaxed),
                Err(failure) => failures.lock().unwrap().push(format!("{name}: {failure}")),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(work);
        }
    });
    let mut failures = failures.into_inner().unwrap();
    failures.sort();
    println!("{} of {} passed, {:?} instructions", files.len() - failures.len(), files.len(), instructions);
    assert!(failures.is_empty(), "{} of {} failed:\n{}", failures.len(), files.len(), failures.join("\n"));
}

#[test]
fn wrong_kernels_fail() {
    let file = test_files().into_iter().find(|file| name_of(file) == "integer/add_s32").unwrap();
    let text = std::fs::read_to_string(file).unwrap();
    let failure = |from: &str, to: &str| run(&text.replace(from, to), "integer/add_s32").unwrap_err();
    assert!(failure("    add.s32", "    sub.s32").contains("d[22]: expected 00000001, got ffffffff"));
    // The first element is zero, so the results stay right although the stored value is uninitialized.
    assert!(failure("    add.s32", "    st.global.s32 [%d], %res_d;\n    add.s32").contains("uninitialized value"));
}

#[test]
fn expectations_may_be_left_to_the_interpreter() {
    let text = "// kernel-test 1\n// kernel: k\n// block: 4\n// param d: u32[4] = zero\n// expect d: interpreter\n\n\
                .version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 d)\n{\n    .reg .b32 %t, %v;\n    .reg .b64 %d;\n    \
                ld.param.u64 %d, [d];\n    mov.u32 %t, %tid.x;\n    mad.wide.u32 %d, %t, 4, %d;\n    mul.lo.u32 %v, %t, %t;\n    \
                st.global.u32 [%d], %v;\n    ret;\n}\n";
    let test = oriole_kernel_test::parse(text).unwrap();
    let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
    let program = PtxProgram::new(&checked.module, text.as_bytes()).unwrap();
    let (complete, report) = program.complete_test(&test, &PtxOptions::default()).unwrap();
    assert!(report.findings.is_empty() && !complete.needs_interpreter());
    assert_eq!(complete.expectations[0].values, [0, 1, 4, 9].map(oriole_kernel_test::Expected::Bits));
    assert!(program.run_test(&test, &PtxOptions::default()).is_ok());
}
