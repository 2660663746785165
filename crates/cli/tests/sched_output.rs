//! Tests the scheduling reports of `oriole compile`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{Outcome, run};
use serde_json::Value;

const ORIOLE: &str = env!("CARGO_BIN_EXE_oriole");

fn folder(name: &str) -> PathBuf {
    let folder = crate::common::folder(&format!("sched-output-{name}"));
    for name in ["saxpy", "block_sum"] {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../examples/{name}.ptx"));
        fs::copy(example, folder.join(format!("{name}.ptx"))).unwrap();
    }
    folder
}

fn compile(folder: &Path, file: &str, options: &[&str]) -> Outcome {
    let outcome = run(ORIOLE, folder, &[&["compile", file, "-o", "out.cubin", "--arch", "sm_90a"], options].concat(), "");
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    outcome
}

/// Returns the fields of a line of statistics with their values.
fn fields(line: &str) -> Vec<(String, f64)> {
    let brackets = line.split('[').skip(1).map(|part| part.split(']').next().unwrap_or_default());
    brackets
        .map(|part| part.split_once('=').unwrap_or_else(|| panic!("{line}")))
        .map(|(name, value)| (name.trim().to_owned(), value.trim().parse().unwrap()))
        .collect()
}

#[test]
fn statistics_as_text_and_as_json_are_the_same() {
    let folder = folder("statistics");
    let text = compile(&folder, "block_sum.ptx", &["--sched-stats"]).stderr;
    let object: Value = serde_json::from_str(&compile(&folder, "block_sum.ptx", &["--json"]).stdout).unwrap();
    let (before, after) = text.split_once("# block_sum after allocation\n").unwrap();
    for (part, name) in [(before, "before_allocation"), (after, "after_allocation")] {
        let figures = &object["scheduling"][name];
        let found: Vec<(String, f64)> = part.lines().flat_map(fields).collect();
        assert!(found.len() > 40, "{part}");
        for (field, value) in found {
            let figure = figures[&field].as_f64().unwrap_or_else(|| panic!("JSON has no {field}"));
            assert!((figure - value).abs() <= 0.05, "{field}: {figure} and {value}");
        }
    }
    let instructions = object["instructions"].as_u64().unwrap();
    let registers = object["registers"].as_u64().unwrap();
    assert!(after.starts_with(&format!("# {instructions} instructions, {registers} R-regs\n")), "{after}");
    assert!(!text.contains("worstcaseLat") && !text.contains("avgcaseLat"));
    let worst = compile(&folder, "block_sum.ptx", &["--sched-stats=worst"]).stderr;
    assert!(worst.contains("# [worstcaseLat=") && !worst.contains("avgcaseLat"));
    assert!(compile(&folder, "block_sum.ptx", &["--sched-stats=average"]).stderr.contains("# [avgcaseLat="));
}

#[test]
fn guidance_has_levels() {
    let folder = folder("guidance");
    let text = |level: &str| compile(&folder, "block_sum.ptx", &["--sched-guidance", level]).stderr;
    assert_eq!(text("0"), "");
    let parts = ["SCHEDULING GUIDANCE:", "target ", "LDG latency hiding", "LOOP STATIC METRICS : "];
    for level in 1..=4 {
        let text = text(&level.to_string());
        for (number, part) in parts.iter().enumerate() {
            assert_eq!(text.contains(part), number < level, "level {level}: {part}");
        }
    }
    assert_eq!(run(ORIOLE, &folder, &["compile", "block_sum.ptx", "-o", "x", "--sched-guidance", "5"], "").code, Some(2));
}

#[test]
fn a_trace_goes_where_it_is_sent() {
    let folder = folder("trace");
    let text = compile(&folder, "saxpy.ptx", &["--sched-trace"]).stderr;
    assert!(text.starts_with("saxpy\nphase 97 bb0 "), "{text}");
    assert_eq!(compile(&folder, "saxpy.ptx", &["--sched-trace=trace.txt"]).stderr, "");
    assert_eq!(fs::read_to_string(folder.join("trace.txt")).unwrap(), text);
    assert_eq!(compile(&folder, "saxpy.ptx", &["--sched-trace", "--sched-trace-function", "other"]).stderr, "");
    let missing = run(ORIOLE, &folder, &["compile", "saxpy.ptx", "-o", "x", "--sched-trace=no/such/folder/file"], "");
    assert_eq!(missing.code, Some(2));
    assert!(missing.stderr.contains("no/such/folder/file"), "{}", missing.stderr);
}

#[test]
fn verbose_text_explains_the_target_of_registers() {
    let folder = folder("target");
    let text = compile(&folder, "block_sum.ptx", &["-v"]).stderr;
    assert!(
        text.contains("block_sum.ptx: block_sum: target ") && text.contains("8 blocks of 256 threads stay resident up to 32"),
        "{text}"
    );
    let off = compile(&folder, "block_sum.ptx", &["-v", "--sched-mode", "off"]).stderr;
    assert!(!off.contains("target "), "{off}");
}

/// NVIDIA's tools accept a cubin with a scheduling record.
#[test]
fn others_read_a_cubin_with_a_record() {
    let (Some(nvdisasm), Some(cuobjdump)) = (oriole_oracles::tool("nvdisasm"), oriole_oracles::tool("cuobjdump")) else { return };
    let folder = folder("record");
    let listing = |options: &[&str]| {
        compile(&folder, "block_sum.ptx", options);
        let outcome = run(&nvdisasm, &folder, &["-c", "out.cubin"], "");
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
        outcome.stdout
    };
    let (plain, recorded) = (listing(&[]), listing(&["--sched-record"]));
    assert_eq!(plain, recorded);
    let elf = run(&cuobjdump, &folder, &["-elf", "out.cubin"], "");
    assert!(elf.code == Some(0) && elf.stdout.contains(".note.oriole.sched.block_sum"), "{}", elf.stdout);
    // The number of instructions agrees with the record: each has an offset in the listing, and the padding starts at a branch to itself.
    let bytes = fs::read(folder.join("out.cubin")).unwrap();
    let start = bytes.windows(13).position(|window| window == b"instr/R-regs:").unwrap();
    let record = String::from_utf8_lossy(&bytes[start..start + 40]).into_owned();
    let count: usize = record.split_whitespace().nth(1).unwrap().parse().unwrap();
    let is_code = |line: &&str| line.trim_start().starts_with("/*") && line.contains(';');
    let lines: Vec<&str> = recorded.lines().filter(is_code).collect();
    let padding = lines.iter().rev().take_while(|line| line.contains("NOP")).count() + 1;
    assert_eq!(lines.len() - padding, count, "{record}");
}

#[test]
fn strategies_are_listed_and_selected() {
    let folder = folder("strategies");
    let help = run(ORIOLE, &folder, &["compile", "--sched-strategy", "help"], "");
    assert_eq!(help.code, Some(0), "{}", help.stderr);
    let names: Vec<&str> = help.stdout.lines().filter_map(|line| line.split_whitespace().next()).collect();
    for name in ["auto", "a", "b", "c", "permutation", "backtracking", "loop-aware", "combined"] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    for name in &names {
        compile(&folder, "block_sum.ptx", &["--sched-strategy", name, "--verify"]);
    }
    // A backend is a strategy, and the default is backend b.
    let bytes = |options: &[&str]| {
        compile(&folder, "block_sum.ptx", options);
        fs::read(folder.join("out.cubin")).unwrap()
    };
    assert_eq!(bytes(&["--sched-strategy", "c"]), bytes(&["--sched-backend", "c"]));
    assert_eq!(bytes(&["--sched-strategy", "b"]), bytes(&[]));
    assert_ne!(bytes(&["--sched-strategy", "pressure"]), bytes(&[]));
}

#[test]
fn wrong_strategies_are_refused() {
    let folder = folder("wrong-strategies");
    for (options, message) in [
        (&["compile", "saxpy.ptx", "-o", "x", "--sched-strategy", "best"][..], "expected auto, help, a, b, c, permutation"),
        (&["compile", "saxpy.ptx", "-o", "x", "--sched-backend", "permutation"], "expected a, b, c, by-target or auto"),
        (&["compile", "saxpy.ptx", "-o", "x", "--sched-strategy", "a", "--sched-backend", "a"], "cannot be used with"),
        (&["compile", "--sched-strategy", "a"], "there is no file to compile"),
        (&["compile", "saxpy.ptx", "--sched-strategy", "a"], "-o says where the cubin goes"),
    ] {
        let outcome = run(ORIOLE, &folder, options, "");
        assert_eq!(outcome.code, Some(2), "{options:?}");
        assert!(outcome.stderr.contains(message), "{options:?}: {}", outcome.stderr);
    }
}

/// Without time, the search ends at once and the trace says so; without a limit it proves its orders.
#[test]
fn the_time_of_a_search_is_limited() {
    let folder = folder("budget");
    let guidance = |options: &[&str]| {
        compile(&folder, "block_sum.ptx", &[&["--sched-strategy", "permutation", "--sched-guidance", "2"], options].concat()).stderr
    };
    assert!(guidance(&[]).contains("no order is shorter in "), "{}", guidance(&[]));
    compile(&folder, "block_sum.ptx", &["--sched-strategy", "permutation", "--sched-budget", "0", "--verify"]);
}
