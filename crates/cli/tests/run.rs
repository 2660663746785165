//! Tests `oriole run`: outcomes, messages and exit codes.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::Outcome;
use serde_json::Value;

/// Returns a test whose header expects d[i] = 3 * i + 1; the body may compute something else.
fn kernel(expectation: &str, body: &str) -> String {
    format!(
        "// kernel-test 1
// kernel: k
// grid: 2
// block: 32
// param d: u32[64] = zero
// expect d: {expectation}

.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 d)
{{
    .reg .pred %p;
    .reg .b32 %i, %n, %v, %never;
    .reg .b64 %d;
    ld.param.u64 %d, [d];
    mov.u32 %i, %ctaid.x;
    mov.u32 %n, %tid.x;
    mad.lo.u32 %i, %i, 32, %n;
    mad.wide.u32 %d, %i, 4, %d;
{body}
    st.global.u32 [%d], %v;
    ret;
}}
"
    )
}

fn three_i_plus_one() -> String {
    let values: Vec<String> = (0..64).map(|i| format!("{:x}", 3 * i + 1)).collect();
    format!("exact = {}", values.join(" "))
}

const RIGHT: &str = "    mad.lo.u32 %v, %i, 3, 1;";
/// Wrong for elements 37 and 38.
const WRONG: &str = "    mad.lo.u32 %v, %i, 3, 1;\n    sub.u32 %n, %i, 37;\n    setp.lt.u32 %p, %n, 2;\n    @%p add.u32 %v, %v, 16;";

fn folder(name: &str) -> PathBuf {
    let folder = crate::common::folder(&format!("run-{name}"));
    let write = |name: &str, text: String| fs::write(folder.join(name), text).unwrap();
    write("right.ptx", kernel(&three_i_plus_one(), RIGHT));
    write("wrong.ptx", kernel(&three_i_plus_one(), WRONG));
    write("interpreter.ptx", kernel("interpreter", WRONG));
    write("undefined.ptx", kernel(&three_i_plus_one(), "    mad.lo.u32 %v, %i, 3, 1;\n    add.u32 %v, %v, %never;"));
    write("undefined_reference.ptx", kernel("interpreter", "    add.u32 %v, %i, %never;"));
    write("outside.ptx", kernel(&three_i_plus_one(), "    mov.u32 %v, 0;\n    add.u64 %d, %d, 4096;"));
    write(
        "unsupported.ptx",
        kernel(&three_i_plus_one(), "    mad.lo.u32 %v, %i, 3, 1;\n    { .local .align 4 .b32 z; atom.add.u32 %v, [z], 1; }"),
    );
    write("syntax.ptx", kernel(&three_i_plus_one(), "    ad.u32 %v, %i, 1;"));
    write("plain.ptx", crate::common::module("sm_80", "plain", ""));
    folder
}

fn oriole(folder: &Path, arguments: &[&str]) -> Outcome {
    crate::common::run(env!("CARGO_BIN_EXE_oriole"), folder, &[&["run"], arguments].concat(), "")
}

#[test]
fn tests_that_pass() {
    let folder = folder("pass");
    for engine in ["ptx", "sass"] {
        let outcome = oriole(&folder, &["right.ptx", "--engine", engine]);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome:?}");
        assert!(outcome.stdout.starts_with(&format!("right.ptx: passed ({engine}")), "{}", outcome.stdout);
        assert_eq!(outcome.stdout.lines().count(), 1);
    }
    for options in [["-O0", "--arch", "sm_75"], ["-O1", "--arch", "sm_120"]] {
        // sm_75 is older than the module's target: rejected, not run.
        let outcome = oriole(&folder, &[&["right.ptx"], &options[..]].concat());
        assert_eq!(outcome.code, Some(i32::from(options[2] == "sm_75")), "{outcome:?}");
    }
    let outcome = oriole(&folder, &["interpreter.ptx"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

#[test]
fn the_examples_pass() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let files = ["examples/block_sum.ptx", "examples/saxpy.ptx", "examples/vector_add.ptx"];
    let outcome = oriole(&root, &files);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stdout.ends_with("\n3 passed, 0 failed\n"), "{}", outcome.stdout);
    let outcome = oriole(&root, &["--engine", "ptx", "examples/mma_tile.ptx"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

#[test]
fn wrong_elements_are_shown_with_the_thread_that_wrote_them() {
    let folder = folder("wrong");
    let outcome = oriole(&folder, &["wrong.ptx", "right.ptx"]);
    assert_eq!(outcome.code, Some(1));
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!(lines[0], "wrong.ptx: wrong (sass, sm_90a, -O3): 2 of 64 elements of d are not what they must be");
    assert_eq!(lines[1], "    d: 2 of 64 elements wrong");
    // 3 * 37 + 1 = 112, plus 16.
    assert_eq!(lines[2], "        d[37] (block 1, thread 5): expected 112 (00000070), got 128 (00000080)");
    assert!(lines[4].starts_with("    d[37] was written by block (1,0,0), thread (5,0,0) at 0x"), "{}", lines[4]);
    let store = lines.iter().find(|line| line.contains("STG")).expect("the store is in the trace");
    assert!(store.contains("=00000080"), "the stored value: {store}");
    assert_eq!(lines.iter().filter(|line| line.starts_with("right.ptx: passed")).count(), 1);
    assert_eq!(lines.last(), Some(&"1 passed, 1 failed"));
    let interpreted = oriole(&folder, &["wrong.ptx", "--engine", "ptx"]);
    assert_eq!(interpreted.code, Some(1));
    assert!(interpreted.stdout.contains("d[37] (block 1, thread 5): expected 112 (00000070), got 128 (00000080)"));
}

#[test]
fn undefined_behaviour_is_found() {
    let folder = folder("undefined");
    for file in ["undefined.ptx", "undefined_reference.ptx"] {
        let outcome = oriole(&folder, &["--engine", "ptx", file]);
        assert_eq!(outcome.code, Some(1));
        assert!(outcome.stdout.starts_with(&format!("{file}: undefined (ptx): uninitialized value in k, line 2")), "{}", outcome.stdout);
    }
    // An undefined program is not usable as a reference.
    let outcome = oriole(&folder, &["undefined_reference.ptx"]);
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.stdout.starts_with("undefined_reference.ptx: undefined (sass)"), "{}", outcome.stdout);
}

#[test]
fn faults_come_with_a_trace() {
    let outcome = oriole(&folder("fault"), &["outside.ptx"]);
    assert_eq!(outcome.code, Some(1));
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert!(lines[0].starts_with("outside.ptx: faulted (sass, sm_90a, -O3): 4 bytes at 0x"), "{}", lines[0]);
    assert!(lines[0].contains("block (0,0,0) thread (0,0,0)"), "{}", lines[0]);
    assert!(lines.last().is_some_and(|line| line.contains("STG")), "the store is the last: {}", outcome.stdout);
}

/// The interpreter does not execute queries of a level of a texture, and names the line.
#[test]
fn queries_of_levels_are_not_interpreted() {
    let folder = crate::common::folder("run-textures");
    let query = "    txq.level.width.b32 %v, [%d], 1;\n    st.global.u32 [%d], %v;";
    fs::write(folder.join("query.ptx"), kernel(&three_i_plus_one(), query)).unwrap();
    let outcome = oriole(&folder, &["query.ptx", "--engine", "ptx"]);
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.stdout.starts_with("query.ptx: unsupported (ptx): line 21: "), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("txq.level.width"), "{}", outcome.stdout);
}

#[test]
fn what_cannot_be_run_is_said() {
    let folder = folder("refused");
    let outcome = oriole(&folder, &["unsupported.ptx"]);
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.stdout.starts_with("unsupported.ptx: unsupported (sass, sm_90a, -O3): line 22: "), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("local memory"), "{}", outcome.stdout);
    assert!(outcome.stderr.contains("--> unsupported.ptx:22:"), "{}", outcome.stderr);
    let outcome = oriole(&folder, &["syntax.ptx"]);
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.stdout.starts_with("syntax.ptx: invalid (sass): 1 error in its PTX"), "{}", outcome.stdout);
    let outcome = oriole(&folder, &["plain.ptx"]);
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.stdout.starts_with("plain.ptx: invalid (sass): no kernel test, its first line is not `// kernel-test 1`"));
    assert!(outcome.stdout.contains("// expect c: exact = 40000000*4"), "{}", outcome.stdout);
    let outcome = oriole(&folder, &["missing.ptx"]);
    assert_eq!(outcome.code, Some(2));
}

/// The header in the help text is valid.
#[test]
fn the_advice_is_right() {
    let outcome = oriole(&folder("advice"), &["plain.ptx"]);
    let header: Vec<&str> = outcome.stdout.lines().map(str::trim_start).filter(|line| line.starts_with("//")).collect();
    let text = header.join("\n");
    let test = oriole_kernel_test::parse(&text).expect("a header");
    assert_eq!(test.kernel, "vector_add");
    assert_eq!(test.parameters.len(), 2);
}

#[test]
fn given_machine_code_is_run() {
    let folder = folder("cubin");
    let compile = |file: &str| {
        let arguments = ["compile", file, "-o", "k.cubin", "--arch", "sm_86", "-O0"];
        assert_eq!(crate::common::run(env!("CARGO_BIN_EXE_oriole"), &folder, &arguments, "").code, Some(0));
    };
    compile("right.ptx");
    let outcome = oriole(&folder, &["wrong.ptx", "--cubin", "k.cubin"]);
    assert_eq!(outcome.code, Some(0), "the test's own code is not used: {outcome:?}");
    assert!(outcome.stdout.starts_with("wrong.ptx: passed (sass, sm_86)"), "{}", outcome.stdout);
    compile("wrong.ptx");
    assert_eq!(oriole(&folder, &["right.ptx", "--cubin", "k.cubin"]).code, Some(1));
    assert_eq!(oriole(&folder, &["right.ptx", "wrong.ptx", "--cubin", "k.cubin"]).code, Some(2));
    assert_eq!(oriole(&folder, &["right.ptx", "--engine", "ptx", "--trace"]).code, Some(2));
}

#[test]
fn a_whole_trace_can_be_had() {
    let outcome = oriole(&folder("trace"), &["right.ptx", "--trace"]);
    assert_eq!(outcome.code, Some(0));
    assert!(outcome.stdout.contains("what the warp of block (0,0,0), thread (0,0,0) did:"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("STG") && outcome.stdout.contains("EXIT"), "{}", outcome.stdout);
}

/// Thirty-two dependent operations take 4 cycles each on sm_90a (docs/latency.md), plus the instruction fetch.
#[test]
fn time_is_estimated() {
    let folder = folder("timing");
    let chain = format!("    mov.u32 %v, %i;\n{}", "    add.u32 %v, %v, %n;\n    xor.b32 %v, %v, %i;\n".repeat(16));
    fs::write(folder.join("chain.ptx"), kernel("interpreter", &chain)).unwrap();
    let cycles = |file: &str| {
        let outcome = oriole(&folder, &[file, "--timing", "--json"]);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stdout);
        let object: Value = serde_json::from_str(outcome.stdout.lines().next().unwrap()).unwrap();
        let timing = &object["timing"];
        assert!(timing["kernel_cycles"].as_u64() >= timing["warp_cycles"].as_u64(), "{timing}");
        timing["warp_cycles"].as_u64().unwrap()
    };
    let more = cycles("chain.ptx") - cycles("right.ptx");
    assert!((120..300).contains(&more), "{more}");
    let text = oriole(&folder, &["right.ptx", "--timing"]).stdout;
    assert!(text.contains("MHz") && text.contains("cycles: warp"), "{text}");
    assert_eq!(oriole(&folder, &["right.ptx", "--timing", "--engine", "ptx"]).code, Some(2));
}

#[test]
fn json_has_a_shape() {
    let outcome = oriole(&folder("json"), &["right.ptx", "wrong.ptx", "plain.ptx", "--json"]);
    assert_eq!(outcome.code, Some(1));
    let objects: Vec<Value> = outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(objects.len(), 4);
    let status: Vec<&str> = objects.iter().filter_map(|object| object["status"].as_str()).collect();
    assert_eq!(status, ["passed", "wrong", "invalid"]);
    assert_eq!(objects[0]["target"], "sm_90a");
    assert_eq!(objects[0]["level"], 3);
    assert!(objects[0]["instructions"].as_u64().is_some_and(|count| count > 0));
    let buffer = &objects[1]["buffers"][0];
    assert_eq!((&buffer["buffer"], &buffer["wrong"], &buffer["elements"]), (&"d".into(), &2.into(), &64.into()));
    assert_eq!((&buffer["first"][1]["index"], &buffer["first"][1]["thread"]), (&38.into(), &6.into()));
    assert_eq!(buffer["first"][0]["got_bits"], "00000080");
    assert!(objects[1]["trace"]["lines"].as_array().is_some_and(|lines| lines.len() > 1));
    assert_eq!((&objects[3]["passed"], &objects[3]["failed"]), (&1.into(), &2.into()));
}

#[test]
fn without_a_gpu_it_says_so() {
    let outcome = oriole(&folder("gpu"), &["right.ptx", "--engine", "gpu"]);
    if outcome.code == Some(0) {
        // This machine has a GPU.
        assert!(outcome.stdout.starts_with("right.ptx: passed (gpu, sm_"), "{}", outcome.stdout);
        return;
    }
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.stderr.starts_with("error: there is no GPU to run on: "), "{}", outcome.stderr);
    assert!(outcome.stderr.ends_with("the engines sass and ptx need no GPU\n"), "{}", outcome.stderr);
}

#[test]
fn hazards_are_found_in_what_computes_the_right_result() {
    let folder = folder("hazards");
    let outcome = oriole(&folder, &["right.ptx", "--hazards"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stdout.ends_with(" warp instructions, no hazards\n"), "{}", outcome.stdout);
    let call = |arguments: &[&str]| {
        let outcome = crate::common::run(env!("CARGO_BIN_EXE_oriole"), &folder, arguments, "");
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        outcome.stdout
    };
    call(&["compile", "right.ptx", "-o", "k.cubin", "--arch", "sm_90a"]);
    let listing = call(&["disasm", "--control", "k.cubin"]);
    // Set all stalls to 1, so that no fixed latency is covered.
    let hasty: Vec<String> = listing.lines().map(without_stall).collect();
    assert_ne!(hasty.join("\n"), listing.trim_end());
    fs::write(folder.join("hasty.sass"), hasty.join("\n") + "\n").unwrap();
    call(&["asm", "hasty.sass", "-o", "hasty.cubin"]);
    assert_eq!(oriole(&folder, &["right.ptx", "--cubin", "hasty.cubin"]).code, Some(0));
    let outcome = oriole(&folder, &["right.ptx", "--cubin", "hasty.cubin", "--hazards"]);
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.stdout.starts_with("right.ptx: hazard (sass, sm_90a): the result is right, but there are "), "{}", outcome.stdout);
    assert_eq!(oriole(&folder, &["right.ptx", "--engine", "ptx", "--hazards"]).code, Some(2));
}

/// Returns a line of a listing with the shortest stall: `[B------:R-:W-:-:S05]` becomes `[B------:R-:W-:-:S01]`.
fn without_stall(line: &str) -> String {
    match line.find(":S").filter(|_| line.contains("[B")) {
        Some(at) if line[at + 4..].starts_with(']') => format!("{}:S01{}", &line[..at], &line[at + 4..]),
        _ => line.to_owned(),
    }
}
