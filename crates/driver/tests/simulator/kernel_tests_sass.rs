//! Runs kernel tests as machine code: every fifth one compiled by Oriole for sm_90a at -O0, and samples for other targets. The tests of
//! `hazard_kernels` run all of them for sm_90a at -O3. If `ORIOLE_ORACLES` names
//! a folder with `ptxas`, also samples compiled by ptxas, which uses many more instruction forms.

use std::fs;
use std::path::Path;
use std::process::Command;

use oriole_driver::{Options as Compiler, compile};
use oriole_isa::Target;
use oriole_sim::sass::kernel_test::run;
use oriole_sim::sass::{Silent, Trace};
use oriole_sim::verify::{Verifier, verify_cubin};

use super::kernels::{Compiled, LIMIT, check_compiled, check_ptxas, judge, runs_on, sample_step};

/// Runs a test; the error describes the failure and the last instructions of the first warp.
fn check(Compiled { name, test, cubin }: &Compiled) -> Result<(), String> {
    run(test, cubin, &LIMIT, &mut Silent).map(|_| ()).map_err(|why| {
        let mut trace = Trace::new(12, None);
        let _ = run(test, cubin, &LIMIT, &mut trace);
        format!("{name}: {why}\n{}", trace.text(0, 0))
    })
}

#[test]
fn samples_for_sm_90a_without_optimization() {
    let check_all = |compiled: &Compiled| {
        let report = verify_cubin(&compiled.cubin, &Verifier::ALL).map_err(|error| format!("{}: {error}", compiled.name))?;
        report.complaint(4).map_or_else(|| check(compiled), |complaint| Err(format!("{}: {complaint}", compiled.name)))
    };
    let step = sample_step(5, 1);
    judge(check_compiled("sm_90a", 0, step, check_all), 2600 / step);
}

#[test]
fn samples_for_other_targets() {
    let targets = ["sm_75", "sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90", "sm_100", "sm_103a", "sm_110f", "sm_120", "sm_121"];
    for (number, target) in targets.into_iter().enumerate() {
        let step = sample_step(31, 1);
        judge(check_compiled(target, (number % 4) as u8, step, check), 2200 / step);
    }
}

#[test]
fn samples_of_what_ptxas_makes() {
    let Some(ptxas) = oriole_oracles::tool("ptxas") else { return };
    for target in ["sm_75", "sm_80", "sm_90a"] {
        judge(check_ptxas(&ptxas, target, sample_step(73, 37), &DIFFERENT, check), 20);
    }
    // Blackwell has no matrix products of bits and nibbles. ptxas widens them with MOVM.U4TO8, which is not simulated.
    let left_out = [&DIFFERENT[..], &["tensor/mma_m16n8k256_b1", "tensor/mma_m16n8k128_b1", "_u4", "_s4"]].concat();
    for target in ["sm_100a", "sm_120a"] {
        judge(check_ptxas(&ptxas, target, sample_step(73, 37), &left_out, check), 20);
    }
}

/// Further tests of matrices, copies and jump tables, with values from the manual's figures.
#[test]
fn more_than_the_kernel_tests() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/simulator/modules");
    let oracle = oriole_oracles::tool("ptxas");
    let mut results = Vec::new();
    for path in fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()) {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).unwrap();
        let module = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default()).module;
        let check_code = |name, cubin| check(&Compiled { name, test: oriole_kernel_test::parse(&text).unwrap(), cubin });
        for target in ["sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120a"] {
            let machine = Target::parse(target).unwrap();
            if !runs_on(&text, machine) {
                continue;
            }
            if let Ok(compiled) = compile(&[&module], &Compiler::new(machine)) {
                results.push(check_code(format!("{name} ({target})"), compiled.cubin));
            }
            let Some(ptxas) = &oracle else { continue };
            let cubin = std::env::temp_dir().join(format!("oriole-sass-{}-{name}-{target}.cubin", std::process::id()));
            assert!(Command::new(ptxas).args(["-arch", target, "-o"]).arg(&cubin).arg(&path).status().unwrap().success(), "{name}");
            results.push(check_code(format!("{name} (ptxas, {target})"), fs::read(&cubin).unwrap()));
            fs::remove_file(&cubin).unwrap();
        }
    }
    // Oriole does not compile all of these instructions yet; ptxas does.
    judge(results, if oracle.is_some() { 48 } else { 20 });
}

/// Tests whose ptxas results contradict the manual (docs/kernel-tests.md). For Turing to Ada, ptxas also reads an operand of `szext` from
/// constant bank 29, which is not filled.
const DIFFERENT: [&str; 7] = [
    "logic/no_rotate_64_by_sub",
    "logic/szext_",
    "cvt/rm_ftz_f16_f32",
    "cvt/rp_ftz_f16_f32",
    "cvt/rp_ftz_sat_f16_f32",
    "cvt/rna_satfinite_tf32_f32",
    "video/",
];
