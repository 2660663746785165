//! Runs ptxas' code for the scalar video instructions in the simulator: where it differs from the manual, it does so on all targets alike.
//!
//! `docs/differences.md` lists the differences. The code for these targets has different instructions, so equal results show that the
//! simulator executes them alike. No GPU is involved.

use std::fs;
use std::path::Path;
use std::process::Command;

use oriole_sim::sass::kernel_test::run;
use oriole_sim::sass::{GridOptions, Silent};

const TARGETS: [&str; 3] = ["sm_90a", "sm_75", "sm_80"];

#[test]
fn results_of_ptxas_are_the_same_on_all_targets() {
    let Some(ptxas) = oriole_oracles::tool("ptxas") else { return };
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("k.cubin");
    let mut wrong = 0;
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/kernels/video")).unwrap() {
        let path = entry.unwrap().path();
        // The names of the SIMD instructions end with the number of parts.
        if path.file_stem().unwrap().to_string_lossy().ends_with(['2', '4']) {
            continue;
        }
        let test = oriole_kernel_test::parse(&fs::read_to_string(&path).unwrap()).unwrap();
        let results = TARGETS.map(|target| {
            let status = Command::new(&ptxas).args(["-arch", target, "-o"]).args([&output, &path]).status().unwrap();
            assert!(status.success(), "ptxas for {target}");
            run(&test, &fs::read(&output).unwrap(), &GridOptions::limited(1 << 20), &mut Silent).err()
        });
        assert!(results.iter().all(|result| *result == results[0]), "{}: {results:?}", path.display());
        wrong += usize::from(results[0].is_some());
    }
    assert_eq!(wrong, 11);
}
