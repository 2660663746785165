//! Coverage of the interpreter: every form of the PTX table, the examples and the corpus are decoded, or rejected with the name of the
//! feature.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use oriole_ptx::enumerate::{legal_forms, module_text};
use oriole_ptx::table::{Opcode, ROWS};
use oriole_sim::ptx::{PtxError, PtxOptions, PtxProgram};
use oriole_sim::{GlobalMemory, Launch};

/// Maximum number of forms tried per row.
const FORMS_PER_ROW: usize = 40;

/// Instructions that are not supported, or not in all forms (textures and surfaces). The compiler supports some of them: clusters,
/// asynchronous copies and multicast memory.
#[rustfmt::skip]
const LEFT_OUT: &[&str] = &[
    "clusterlaunchcontrol", "cp.async.bulk", "istypep", "multimem",
    "red.async", "st.async", "st.bulk", "suq", "tcgen05", "tex", "txq",
];

/// Unsupported forms of supported instructions: stochastic rounding, whose random-bit layout the manual shows in figures only; the special
/// NaN of tensor copies, whose bits the manual does not define; byte matrices; and matrix products that are scaled.
#[rustfmt::skip]
const LEFT_OUT_FORMS: &[&str] = &[
    "cvt.rs.", "fma.rn.oob.", "ldmatrix.sync.aligned.m16n16", "ldmatrix.sync.aligned.m8n16", "stmatrix.sync.aligned.m16n8", ".kind::",
];

#[test]
fn every_form_is_decoded_or_refused_by_name() {
    let (mut decoded, mut refused) = (0, 0);
    let mut unexpected: BTreeMap<String, String> = BTreeMap::new();
    let mut needed: BTreeSet<&str> = BTreeSet::new();
    let mut refused_by_opcode: BTreeMap<&str, usize> = BTreeMap::new();
    // The operands of these two have their own grammar, which is not enumerated.
    let rows = (0..ROWS.len()).filter(|&row| !matches!(ROWS[row].opcode, Opcode::BrxIdx | Opcode::Call));
    for row in rows {
        let cases = legal_forms(row, FORMS_PER_ROW);
        let mut platforms: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for case in cases {
            platforms.entry(format!("{:?}", case.platform)).or_default().push(case);
        }
        for cases in platforms.values() {
            let (text, _) = module_text(cases);
            let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options { error_limit: 100_000 });
            assert!(checked.is_valid(), "{:?}", checked.diagnostics.first());
            let program = match PtxProgram::new(&checked.module, text.as_bytes()) {
                Ok(program) => program,
                Err(error) => {
                    unexpected.insert(ROWS[row].opcode.spelling().to_owned(), error.to_string());
                    continue;
                }
            };
            let names = program.refused();
            decoded += cases.len() - names.len();
            refused += names.len();
            for (_, error) in names {
                let PtxError::Unsupported { feature, line } = error else { panic!("{error}") };
                assert!(*line > 0, "{error}");
                let opcode = ROWS[row].opcode.spelling();
                let family = LEFT_OUT.iter().find(|family| opcode.starts_with(**family));
                let known = family.or_else(|| LEFT_OUT_FORMS.iter().find(|form| feature.contains(**form)));
                needed.extend(known);
                *refused_by_opcode.entry(opcode).or_default() += 1;
                if known.is_none() {
                    unexpected.entry(opcode.to_owned()).or_insert_with(|| error.to_string());
                }
            }
        }
    }
    println!("{decoded} forms decoded, {refused} refused: {refused_by_opcode:?}");
    assert!(unexpected.is_empty(), "{unexpected:#?}");
    let not_needed: Vec<_> = LEFT_OUT.iter().chain(LEFT_OUT_FORMS).filter(|name| !needed.contains(**name)).collect();
    assert!(not_needed.is_empty(), "these are supported: {not_needed:?}");
    assert!(decoded > 3_000, "only {decoded} forms are decoded");
}

#[test]
fn examples_and_corpus_are_decoded_or_refused_by_name() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = 0;
    let mut reasons = BTreeSet::new();
    for folder in ["examples", "corpus", "corpus/handwritten"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "ptx") {
                continue;
            }
            let text = std::fs::read(&path).unwrap();
            let checked = oriole_ptx::check(&text, &oriole_ptx::Options::default());
            assert!(checked.is_valid(), "{}", path.display());
            files += 1;
            match PtxProgram::new(&checked.module, &text) {
                Ok(program) => reasons.extend(program.refused().into_iter().map(|(_, error)| error.to_string())),
                Err(error) => _ = reasons.insert(format!("{}: {error}", path.display())),
            }
        }
    }
    assert!(files > 80, "only {files} files");
    for reason in &reasons {
        println!("{reason}");
        assert!(reason.contains("does not support"), "{reason}");
    }
}

/// Runs kernels of the corpus with arbitrary arguments: each must end in a report or an error.
#[test]
fn corpus_kernels_run_without_panics() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let options = PtxOptions { most_steps: 20_000, ..PtxOptions::default() };
    let (mut finished, mut stopped) = (0, 0);
    for folder in ["examples", "corpus", "corpus/handwritten"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "ptx") {
                continue;
            }
            let text = std::fs::read(&path).unwrap();
            let checked = oriole_ptx::check(&text, &oriole_ptx::Options::default());
            let Ok(program) = PtxProgram::new(&checked.module, &text) else { continue };
            for kernel in program.kernels() {
                let Some(sizes) = program.parameter_sizes(kernel) else { continue };
                let mut memory = GlobalMemory::new();
                let mut argument = |bytes: u32| match bytes {
                    8 => memory.allocate("argument", vec![0; 0x10000]).to_le_bytes().to_vec(),
                    _ => (0..bytes).map(|byte| if byte % 4 == 0 { 7 } else { 0 }).collect(),
                };
                let arguments = sizes.into_iter().map(&mut argument).collect();
                let launch =
                    Launch { kernel: kernel.into(), grid: [2, 1, 1], block: [48, 1, 1], cluster: None, shared_bytes: 4096, arguments };
                match program.load(&mut memory).run(&launch, &mut memory, &options) {
                    Ok(_) => finished += 1,
                    Err(_) => stopped += 1,
                }
            }
        }
    }
    println!("{finished} kernels ran to their end, {stopped} were stopped");
    assert!(finished > 100, "only {finished} kernels ran to their end, {stopped} did not");
}
