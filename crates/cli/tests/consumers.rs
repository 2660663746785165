//! Tests the call contract of programs that call `ptxas`: the options that they pass and what they read back. No GPU and none of the
//! programs is needed; `tools/drop-in/run.py` runs the programs themselves.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{module, run};
use oriole_cubin::{Cubin, FileType};

const PTXAS: &str = env!("CARGO_BIN_EXE_ptxas");

fn folder(name: &str) -> PathBuf {
    let folder = crate::common::folder(&format!("consumers-{name}"));
    let saxpy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/saxpy.ptx");
    fs::copy(saxpy, folder.join("in.ptx")).unwrap();
    fs::write(folder.join("wrong.ptx"), module("sm_80", "w", "ad.s32 %r1, %r2, 1;")).unwrap();
    fs::write(folder.join("many.ptx"), many_values()).unwrap();
    folder
}

/// Returns a module that reads 60 numbers and then writes them in another order: with 24 registers it has to spill.
fn many_values() -> String {
    const COUNT: usize = 60;
    let mut text = String::from(".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry many(.param .u64 p)\n{\n");
    text += ".reg .b64 %a;\n.reg .b32 %v<60>;\nld.param.u64 %a, [p];\n";
    text.extend((0..COUNT).map(|number| format!("ld.volatile.global.b32 %v{number}, [%a+{}];\n", 4 * number)));
    text.extend((0..COUNT).map(|number| format!("st.volatile.global.b32 [%a+{}], %v{};\n", 4 * number, number * 37 % COUNT)));
    text + "ret;\n}\n"
}

fn cubin(folder: &Path, name: &str) -> Cubin {
    Cubin::read(&fs::read(folder.join(name)).unwrap()).unwrap()
}

/// Returns the number before a text in a line, as in `16 bytes spill stores`.
fn number_before(text: &str, words: &str) -> u32 {
    text.split_once(words)
        .and_then(|(before, _)| before.trim_end().rsplit([' ', ',']).next()?.parse().ok())
        .unwrap_or_else(|| panic!("{text}"))
}

/// Triton 3.9, `make_cubin` of its NVIDIA backend: debug options, contraction, `-v`, level, `--regAllocOptLevel=2`, extra options, target.
#[test]
fn triton_compiles_and_recognizes_errors() {
    let folder = folder("triton");
    let fixed = ["--regAllocOptLevel=2", "--gpu-name=sm_90a", "in.ptx", "-o", "in.ptx.o"];
    for variant in [
        &["-lineinfo", "-v"][..],
        &["-lineinfo", "-suppress-debug-info", "-v"],
        &["-lineinfo", "--fmad=false", "-v"],
        &["-g", "-v", "--opt-level", "0"],
        &["-lineinfo", "-v", "--opt-level", "1"],
    ] {
        let _ = fs::remove_file(folder.join("in.ptx.o"));
        let arguments: Vec<&str> = variant.iter().chain(&fixed).copied().collect();
        let outcome = run(PTXAS, &folder, &arguments, "");
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), ""), "{arguments:?}: {}", outcome.stderr);
        assert_eq!(cubin(&folder, "in.ptx.o").target_name(), "sm_90a");
        assert!(outcome.stderr.contains("ptxas info    : Used "), "{}", outcome.stderr);
        assert_eq!(number_before(&outcome.stderr, " bytes spill stores"), 0);
    }
    // Status 255 is an error in the PTX; the text goes into the exception.
    let outcome = run(PTXAS, &folder, &["-lineinfo", "-v", "--regAllocOptLevel=2", "--gpu-name=sm_90a", "wrong.ptx", "-o", "x"], "");
    assert_eq!(outcome.code, Some(255));
    assert!(outcome.stderr.contains("ptxas wrong.ptx, line 7; error   : "), "{}", outcome.stderr);
}

/// nvcc 13.0, from `nvcc --dryrun`.
#[test]
fn nvcc_compiles_in_its_modes() {
    let folder = folder("nvcc");
    for (options, file_type) in [
        ("", FileType::Executable),
        ("--compile-only", FileType::Relocatable),
        ("--generate-line-info", FileType::Executable),
        ("-g --dont-merge-basicblocks --return-at-end", FileType::Executable),
        ("--maxrregcount 32", FileType::Executable),
    ] {
        let _ = fs::remove_file(folder.join("out.cubin"));
        let arguments = format!("-arch=sm_90 -m64 {options} in.ptx -o out.cubin");
        let outcome = run(PTXAS, &folder, &arguments.split_whitespace().collect::<Vec<_>>(), "");
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), ""), "{arguments}: {}", outcome.stderr);
        assert_eq!(cubin(&folder, "out.cubin").header.file_type, file_type, "{arguments}");
        let has = |name: &str| fs::read(folder.join("out.cubin")).unwrap().windows(name.len()).any(|part| part == name.as_bytes());
        assert_eq!(has(".debug_line"), options.contains("line-info") || options.contains("-g"), "{arguments}");
    }
    // `code=compute_90` is a check without an output.
    let outcome = run(PTXAS, &folder, &["-arch=compute_90", "-m64", "in.ptx"], "");
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
}

/// LLVM's lit configuration takes the targets from `'sm_NN'` in the help, and tests pipe the output of llc to `ptxas -arch=sm_NN -c -`.
#[test]
fn llvm_finds_targets_and_pipes_modules() {
    let folder = folder("llvm");
    let help = run(PTXAS, &folder, &["--help"], "").stdout;
    let mut targets: Vec<&str> = help.split('\'').filter(|part| part.starts_with("sm_")).collect();
    targets.sort_unstable();
    targets.dedup();
    for expected in ["sm_75", "sm_80", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_120", "sm_120a"] {
        assert!(targets.contains(&expected), "{targets:?}");
    }
    for target in targets {
        let text = module(target, "k", "add.s32 %r1, %r2, 1;");
        let outcome = run(PTXAS, &folder, &[&format!("-arch={target}"), "-c", "-o", "/dev/null", "-"], &text);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{target}");
    }
}

/// The help names the targets that NVIDIA's ptxas names.
#[test]
fn targets_in_the_help_agree_with_ptxas() {
    let Some(vendor) = oriole_oracles::tool("ptxas") else { return };
    let folder = folder("targets");
    let targets = |program: &Path| {
        let help = run(program, &folder, &["--help"], "").stdout;
        help.split('\'').filter(|part| part.starts_with("sm_")).map(str::to_owned).collect::<std::collections::BTreeSet<String>>()
    };
    assert_eq!(targets(Path::new(PTXAS)), targets(&vendor));
}

/// XLA passes `--warn-on-spills` and searches for the texts of the messages.
#[test]
fn xla_finds_its_messages() {
    let folder = folder("xla");
    let outcome = run(PTXAS, &folder, &["in.ptx", "-o", "out", "-arch=sm_90a", "--warn-on-spills", "-v"], "");
    assert_eq!(outcome.code, Some(0));
    assert!(!outcome.stderr.contains("Registers are spilled"), "{}", outcome.stderr);
    let spilling = ["many.ptx", "-o", "out", "-arch=sm_90a", "--warn-on-spills", "-v", "-maxrregcount=24"];
    let outcome = run(PTXAS, &folder, &spilling, "");
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let warning = outcome.stderr.lines().find(|line| line.contains("Registers are spilled to local memory in function 'many'"));
    assert!(warning.is_some_and(|line| line.starts_with("ptxas warning : ")), "{}", outcome.stderr);
    assert!(number_before(&outcome.stderr, " bytes spill loads") > 0);
    // XLA and JAX take the latest PTX version from between the only two quotation marks of this message.
    let outcome = run(PTXAS, &folder, &["--input-as-string", ".version 99.99"], "");
    let parts: Vec<&str> = outcome.stderr.split('\'').collect();
    assert_eq!((outcome.code, parts.len(), parts.get(1)), (Some(255), 3, Some(&"9.0")), "{}", outcome.stderr);
    // `--xla_gpu_disable_gpuasm_optimizations`.
    assert_eq!(run(PTXAS, &folder, &["in.ptx", "-o", "out", "-arch=sm_90a", "--warn-on-spills", "-v", "-O0"], "").code, Some(0));
    let outcome = run(PTXAS, &folder, &["in.ptx", "-o", "out", "-arch=sm_999"], "");
    assert_eq!(outcome.code, Some(255));
    assert!(outcome.stderr.contains("ptxas fatal   : Value 'sm_999' is not defined for option 'gpu-name'"), "{}", outcome.stderr);
}

/// CUDA.jl passes the long names with separate values.
#[test]
fn cuda_jl_compiles() {
    let folder = folder("cuda-jl");
    let arguments = ["--generate-line-info", "--verbose", "--gpu-name", "sm_90", "--output-file", "out.cubin", "in.ptx"];
    let outcome = run(PTXAS, &folder, &arguments, "");
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), ""), "{}", outcome.stderr);
    assert_eq!(cubin(&folder, "out.cubin").target_name(), "sm_90");
    assert!(outcome.stderr.contains("Compiling entry function 'saxpy' for 'sm_90'"), "{}", outcome.stderr);
    // With `-g2` Julia asks for debug information; a program that uses the device runtime is linked afterwards.
    for (option, file_type) in [("--device-debug", FileType::Executable), ("--compile-only", FileType::Relocatable)] {
        let arguments = [option, "--verbose", "--gpu-name", "sm_90", "--output-file", "out.cubin", "in.ptx"];
        assert_eq!(run(PTXAS, &folder, &arguments, "").code, Some(0), "{option}");
        assert_eq!(cubin(&folder, "out.cubin").header.file_type, file_type, "{option}");
    }
}

/// sccache takes the output from its cache if options and input are the same: the bytes must not depend on names, folders or times.
#[test]
fn sccache_may_share_outputs() {
    let (first, second) = (folder("sccache-1"), folder("sccache-2"));
    fs::rename(second.join("in.ptx"), second.join("tmpxft_0001.ptx")).unwrap();
    for options in [&["-arch=sm_90", "-m64"][..], &["-arch=sm_90", "-m64", "-lineinfo"], &["-arch=sm_90", "-m64", "-g"]] {
        let compile = |folder: &Path, file: &str, output: &str| {
            let arguments: Vec<&str> = options.iter().copied().chain([file, "-o", output]).collect();
            assert_eq!(run(PTXAS, folder, &arguments, "").code, Some(0), "{arguments:?}");
            fs::read(folder.join(output)).unwrap()
        };
        assert!(compile(&first, "in.ptx", "a") == compile(&second, "tmpxft_0001.ptx", "other.cubin"), "{options:?}");
    }
}
