//! Tests `oriole explain`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Outcome, run};
use serde_json::Value;

const ORIOLE: &str = env!("CARGO_BIN_EXE_oriole");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn explain(folder: &Path, arguments: &[&str]) -> Outcome {
    run(ORIOLE, folder, &[&["explain"], arguments].concat(), "")
}

#[test]
fn forms_of_output() {
    let folder = crate::common::folder("explain-forms");
    fs::copy(root().join("examples/block_sum.ptx"), folder.join("block_sum.ptx")).unwrap();
    let full = explain(&folder, &["block_sum.ptx", "--arch", "sm_90a"]);
    let summary = explain(&folder, &["block_sum.ptx", "--arch", "sm_90a", "--summary"]);
    assert!(full.stdout.starts_with(&summary.stdout) && full.stdout.contains("\nCode: "), "{}", full.stdout);
    let object: Value = serde_json::from_str(&explain(&folder, &["block_sum.ptx", "--arch", "sm_90a", "--json"]).stdout).unwrap();
    let instructions = object["functions"][0]["instructions"].as_array().unwrap();
    assert!(full.stdout.lines().filter(|line| line.starts_with("  0") && line.contains("  [B")).count() == instructions.len());
    let page = explain(&folder, &["block_sum.ptx", "--arch", "sm_90a", "--html", "page.html"]);
    assert_eq!((page.code, page.stdout.as_str()), (Some(0), ""), "{}", page.stderr);
    assert!(fs::read_to_string(folder.join("page.html")).unwrap().contains("id=\"f0-i0000\""));
    // Standard input, and a cubin that has been compiled before.
    let text = fs::read_to_string(folder.join("block_sum.ptx")).unwrap();
    let from_input = run(ORIOLE, &folder, &["explain", "-", "--arch", "sm_90a", "--summary"], &text);
    assert_eq!(from_input.stdout, summary.stdout);
    let compiled = run(ORIOLE, &folder, &["compile", "block_sum.ptx", "--arch", "sm_90a", "-o", "block_sum.cubin"], "");
    assert_eq!(compiled.code, Some(0));
    let of_cubin = explain(&folder, &["block_sum.cubin", "--summary"]);
    assert!(of_cubin.stdout.starts_with("block_sum (kernel, sm_90a)\n"), "{}", of_cubin.stdout);
}

#[test]
fn exit_codes() {
    let folder = crate::common::folder("explain-codes");
    fs::write(folder.join("bad.ptx"), "no ptx").unwrap();
    fs::copy(root().join("examples/saxpy.ptx"), folder.join("saxpy.ptx")).unwrap();
    assert_eq!(explain(&folder, &["missing.ptx"]).code, Some(2));
    assert_eq!(explain(&folder, &["bad.ptx"]).code, Some(1));
    assert_eq!(explain(&folder, &["saxpy.ptx", "--arch", "sm_1"]).code, Some(2));
    assert_eq!(explain(&folder, &["saxpy.ptx", "--kernel", "other"]).code, Some(1));
    assert_eq!(explain(&folder, &["saxpy.ptx", "--json", "--html", "x"]).code, Some(2));
    assert_eq!(explain(&folder, &["saxpy.ptx", "--arch", "sm_90a", "--kernel", "saxpy"]).code, Some(0));
}

/// A file compared with itself has no differences; another optimization level has.
#[test]
fn comparisons() {
    let folder = crate::common::folder("explain-compare");
    fs::copy(root().join("examples/block_sum.ptx"), folder.join("block_sum.ptx")).unwrap();
    for (level, file) in [("-O3", "three.cubin"), ("-O0", "zero.cubin")] {
        let arguments = ["compile", "block_sum.ptx", "--arch", "sm_90a", "--lineinfo", level, "-o", file];
        assert_eq!(run(ORIOLE, &folder, &arguments, "").code, Some(0));
    }
    let compare = |first: &str, second: &str| -> Value {
        let outcome = explain(&folder, &[first, "--arch", "sm_90a", "--against", second, "--json"]);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        let positional = explain(&folder, &[first, second, "--arch", "sm_90a", "--json"]);
        assert_eq!(positional.stdout, outcome.stdout, "{}", positional.stderr);
        serde_json::from_str(&outcome.stdout).unwrap()
    };
    let same = compare("block_sum.ptx", "three.cubin");
    let function = &same["functions"][0];
    assert_eq!(function["first"], function["second"]);
    assert_eq!(function["matched_by"], "ptx");
    let places = function["places"].as_array().unwrap();
    assert!(places.len() > 20 && places.iter().all(|place| place["first"] == place["second"]));
    let sum: u64 = places.iter().map(|place| place["first"]["instructions"].as_u64().unwrap()).sum();
    assert_eq!(function["first"]["instructions"], sum);
    let other = compare("three.cubin", "zero.cubin");
    let (first, second) = (&other["functions"][0]["first"], &other["functions"][0]["second"]);
    assert!(first["cycles"].as_f64() < second["cycles"].as_f64() && first["stalls"].as_u64() < second["stalls"].as_u64());
    let text = explain(&folder, &["three.cubin", "--against", "zero.cubin"]).stdout;
    assert!(text.contains("block_sum (first | second)") && text.contains("shfl.sync.bfly.b32"), "{text}");
}

/// ptxas puts functions into the section of the kernel and calls pointers relative to it: callees are named by the symbols of the file, and a
/// call through a register has none.
#[test]
fn callees_in_code_of_ptxas() {
    let Some(ptxas) = oriole_oracles::tool("ptxas") else { return };
    let folder = crate::common::folder("explain-callees");
    let source = root().join("corpus/calls.ptx");
    let status = Command::new(&ptxas).args(["-arch=sm_90a", "-o", "calls.cubin"]).arg(&source).current_dir(&folder).status();
    assert!(status.unwrap().success());
    let object: Value = serde_json::from_str(&explain(&folder, &["calls.cubin", "--json"]).stdout).unwrap();
    let callees = |kernel: &str| -> Vec<Value> {
        let function = object["functions"].as_array().unwrap().iter().find(|function| function["name"] == kernel).unwrap();
        function["calls"].as_array().unwrap().iter().map(|call| call["callee"].clone()).collect()
    };
    assert_eq!(callees("virtual_calls"), [Value::Null]);
    assert!(callees("recursive").contains(&Value::from("$recursive$_Z9ackermannii")), "{:?}", callees("recursive"));
}

/// The code of ptxas is explained completely, and compared by its own line table.
#[test]
fn code_of_ptxas() {
    let Some(ptxas) = oriole_oracles::tool("ptxas") else { return };
    let folder = crate::common::folder("explain-ptxas");
    for name in ["matmul_tiled", "softmax_layernorm", "reduce_shuffle"] {
        let source = root().join(format!("corpus/{name}.ptx"));
        let file = format!("{name}.cubin");
        let status = Command::new(&ptxas).args(["-arch=sm_90a", "-lineinfo", "-o", &file]).arg(&source).current_dir(&folder).status();
        assert!(status.unwrap().success());
        let object: Value = serde_json::from_str(&explain(&folder, &[&file, "--json"]).stdout).unwrap();
        for function in object["functions"].as_array().unwrap() {
            assert_eq!(function["obstacle"], Value::Null, "{name}");
            let instructions = function["instructions"].as_array().unwrap();
            for instruction in instructions {
                let causes = instruction["stall_causes"].as_array().unwrap();
                let sum: u64 = causes.iter().map(|cause| cause["cycles"].as_u64().unwrap()).sum();
                assert_eq!(instruction["stall"], sum, "{name} {instruction}");
                let without_producer =
                    instruction["waits"].as_array().unwrap().iter().filter(|wait| wait["producers"] == serde_json::json!([]));
                assert_eq!(without_producer.count(), 0, "{name} {instruction}");
            }
        }
        let path = source.to_str().unwrap();
        let outcome = explain(&folder, &[path, "--arch", "sm_90a", "--against", &file, "--json"]);
        let comparison: Value = serde_json::from_str(&outcome.stdout).unwrap();
        let functions = comparison["functions"].as_array().unwrap();
        assert!(!functions.is_empty() && functions.iter().all(|function| function["matched_by"] == "ptx"), "{name}");
    }
}
