//! Samples of a profiler are read, checked against the code, and shown.

use std::path::Path;

use oriole_explain::text::Detail;
use oriole_explain::{Explanation, Options, explain_ptx, html, measured, text};
use oriole_isa::Target;

fn explanation() -> Explanation {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/saxpy.ptx");
    explain_ptx("saxpy.ptx", &std::fs::read(path).unwrap(), &Options::new(Target::parse("sm_90a").unwrap())).unwrap()
}

/// The columns and the layout are those of `ncu --page source --print-source sass --csv`.
const CSV: &str = "\
==PROF== a message\n\
\"Kernel Name\",\"saxpy(float *, float *)\"\n\
\"#\",\"Address\",\"Source\",\"Warp Stall Sampling (All Samples)\",\"stall_long_sb\",\"stall_long_sb_not_issued\",\"stall_wait\"\n\
\"0\",\"0x7f3fb37a0000\",\"S2R R0, SR_CTAID.X\",\"3\",\"\",\"\",\"3\"\n\
\"1\",\"0x7f3fb37a0010\",\"S2R R3, \"\"SR_TID.X\"\"\",\"0\",\"0\",\"0\",\"0\"\n\
\"2\",\"0x7f3fb37a0020\",\"ULDC.64\",\"1,017\",\"1,000\",\"900\",\"17\"\n";

#[test]
fn csv_of_nsight_compute() {
    let samples = measured::read(CSV).unwrap();
    let saxpy = &samples["saxpy"];
    assert_eq!(saxpy[&0].samples, 3);
    assert_eq!(saxpy[&0x20].samples, 1017);
    let reasons: Vec<(&str, u64)> = saxpy[&0x20].reasons.iter().map(|part| (part.reason.as_str(), part.samples)).collect();
    assert_eq!(reasons, [("long_sb", 1000), ("wait", 17)]);
    let mut explanation = explanation();
    measured::overlay(&mut explanation, &samples).unwrap();
    let function = &explanation.functions[0];
    assert_eq!(function.samples, Some(1020));
    assert_eq!(function.instructions[2].measured.as_ref().unwrap().samples, 1017);
    assert_eq!(function.instructions[1].measured, None);
    assert!(text::write(&explanation, Detail::Full).contains("measured 1017 of 1020 samples: long_sb 1000, wait 17"));
    assert!(html::write(&explanation).contains("<td>99.7%</td>"));
}

/// Nsight Compute prints names as in the source; cubins have mangled names.
#[test]
fn mangled_names() {
    let mut explanation = explanation();
    explanation.functions[0].name = "_Z5saxpyPfS_".to_owned();
    measured::overlay(&mut explanation, &measured::read(CSV).unwrap()).unwrap();
    assert_eq!(explanation.functions[0].samples, Some(1020));
    explanation.functions[0].name = "_Z6saxpy2Pf".to_owned();
    assert!(measured::overlay(&mut explanation, &measured::read(CSV).unwrap()).is_err());
}

#[test]
fn text_with_tabs() {
    let samples = measured::read("# CUPTI\nsaxpy\t0x10\t5\tlong_scoreboard\nsaxpy\t10\t2\twait\n\nsaxpy\t20\t7\n").unwrap();
    let saxpy = &samples["saxpy"];
    assert_eq!((saxpy[&0x10].samples, saxpy[&0x10].reasons.len(), saxpy[&0x20].samples), (7, 2, 7));
    assert_eq!(saxpy[&0x10].reasons[0].reason, "long_scoreboard");
}

#[test]
fn samples_of_other_code_are_refused() {
    let mut explanation = explanation();
    let overlay = |explanation: &mut Explanation, text: &str| measured::overlay(explanation, &measured::read(text).unwrap());
    assert!(overlay(&mut explanation, "saxpy\tfff0\t1\n").unwrap_err().contains("no instruction at 0xfff0"));
    assert!(overlay(&mut explanation, "saxpy\t8\t1\n").is_err());
    assert!(overlay(&mut explanation, "other\t10\t1\n").unwrap_err().contains("other"));
    assert!(measured::read("").is_err());
    assert!(measured::read("saxpy 10 1\n").unwrap_err().starts_with("line 1"));
    assert!(measured::read("saxpy\tzz\t1\n").is_err());
    assert!(measured::read(&CSV.replace("1,017", "many")).unwrap_err().contains("line 6"));
}
