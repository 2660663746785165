//! Tests `ptxas` as Triton, XLA, nvcc and build tools call it.

use std::fs;
use std::path::PathBuf;

use crate::common::{Outcome, files, module, run};

const PTXAS: &str = env!("CARGO_BIN_EXE_ptxas");

/// Creates a folder with the modules of these tests.
fn folder(name: &str) -> PathBuf {
    let folder = crate::common::folder(&format!("ptxas-{name}"));
    fs::write(folder.join("valid.ptx"), module("sm_80", "k", "add.s32 %r1, %r2, 1;")).unwrap();
    fs::write(folder.join("other.ptx"), module("sm_80", "other", "")).unwrap();
    fs::write(folder.join("hopper.ptx"), module("sm_90a", "k", "")).unwrap();
    fs::write(folder.join("wrong.ptx"), module("sm_80", "w", "ad.s32 %r1, %r2, 1;")).unwrap();
    folder
}

fn failure(stderr: &str) -> Outcome {
    Outcome { code: Some(255), stdout: String::new(), stderr: stderr.to_string() }
}

fn success() -> Outcome {
    Outcome { code: Some(0), stdout: String::new(), stderr: String::new() }
}

const ABORTED: &str = "ptxas fatal   : Ptx assembly aborted due to errors\n";

#[test]
fn the_version_satisfies_those_who_match_it() {
    let folder = folder("version");
    for option in ["--version", "-V"] {
        let outcome = run(PTXAS, &folder, &[option], "");
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
        assert!(outcome.stdout.contains("Oriole"));
        // Triton and LLVM: `release (\d+\.\d+)`; the first match is used.
        let release = outcome.stdout.split_once("release ").unwrap().1;
        assert!(release.starts_with("13.0,"), "{release}");
        // XLA: `\bV(\d+)\.(\d+)\.(\d+)\b`.
        let mut words = outcome.stdout.split(|c: char| c.is_whitespace() || c == ',');
        let version = words.find_map(|word| word.strip_prefix('V').filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit())));
        assert_eq!(version, Some("13.0.88"));
    }
}

#[test]
fn a_check_is_silent_and_writes_nothing() {
    let folder = folder("check");
    let before = files(&folder);
    for arguments in [
        &["-arch=compute_90a", "valid.ptx"][..],
        &["-arch=compute_90", "valid.ptx", "-o", "out.cubin"],
        &["--gpu-name", "sm_90", "valid.ptx", "-o", "out.cubin", "--dry-run"],
        &["-arch=lto_90a", "hopper.ptx"],
        &["-arch=compute_80", "valid.ptx", "other.ptx"],
    ] {
        assert_eq!(run(PTXAS, &folder, arguments, ""), success(), "{arguments:?}");
    }
    assert_eq!(files(&folder), before);
}

#[test]
fn errors_have_ptxas_shape() {
    let folder = folder("errors");
    let outcome = run(PTXAS, &folder, &["-arch=sm_90", "wrong.ptx", "-o", "out"], "");
    assert_eq!(outcome.code, Some(255));
    let lines: Vec<&str> = outcome.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].starts_with("ptxas wrong.ptx, line 7; error   : "), "{}", lines[0]);
    assert!(lines[0].contains("`ad`") && lines[0].contains("[E0701]"), "{}", lines[0]);
    assert_eq!(lines[1], ABORTED.trim_end());
}

#[test]
fn several_inputs_are_one_program() {
    let folder = folder("several");
    let outcome = run(PTXAS, &folder, &["-arch=sm_90", "wrong.ptx", "missing.ptx", "valid.ptx", "valid.ptx"], "");
    assert_eq!(outcome.code, Some(255));
    let lines: Vec<&str> = outcome.stderr.lines().collect();
    assert!(lines[0].starts_with("ptxas wrong.ptx, line 7; error   : "));
    assert_eq!(lines[1], "ptxas fatal   : Input file 'missing.ptx' could not be opened");
    assert_eq!(lines[2], "ptxas valid.ptx, line 4; error   : Duplicate definition of function 'k'");
    assert_eq!(lines[3], ABORTED.trim_end());
    assert_eq!(lines.len(), 4);
}

#[test]
fn input_comes_from_standard_input_and_the_command_line() {
    let folder = folder("inputs");
    let text = fs::read_to_string(folder.join("valid.ptx")).unwrap();
    let wrong = fs::read_to_string(folder.join("wrong.ptx")).unwrap();
    assert_eq!(run(PTXAS, &folder, &["-arch=sm_80", "-c", "-"], &text), success());
    assert_eq!(run(PTXAS, &folder, &["-arch=sm_80", "-ias", &text], ""), success());
    let outcome = run(PTXAS, &folder, &["-arch=sm_80", "-"], &wrong);
    assert!(outcome.stderr.starts_with("ptxas <stdin>, line 7; error   : "), "{}", outcome.stderr);
    let outcome = run(PTXAS, &folder, &["-arch=sm_80", "--input-as-string", &wrong], "");
    assert!(outcome.stderr.starts_with("ptxas application ptx input, line 7; error   : "), "{}", outcome.stderr);
}

#[test]
fn options_files_are_read() {
    let folder = folder("options-files");
    fs::write(folder.join("inner"), "\"valid.ptx\"\n").unwrap();
    fs::write(folder.join("outer"), "-arch sm_80\n--options-file inner").unwrap();
    fs::write(folder.join("loop"), "-optf loop").unwrap();
    assert_eq!(run(PTXAS, &folder, &["-optf", "outer"], ""), success());
    assert_eq!(run(PTXAS, &folder, &["-optf", "none"], ""), failure("ptxas fatal   : Could not open options file 'none'\n"));
    assert_eq!(run(PTXAS, &folder, &["-optf", "loop"], "").code, Some(255));
}

#[test]
fn modules_for_other_architectures_are_refused() {
    let folder = folder("arch");
    let text = "ptxas fatal   : PTX with .target 'sm_90a' cannot be compiled for architecture 'sm_90'\n";
    assert_eq!(run(PTXAS, &folder, &["-arch=sm_90", "hopper.ptx"], ""), failure(text));
    let text = "ptxas fatal   : SM version specified by .target is higher than default SM version assumed\n";
    assert_eq!(run(PTXAS, &folder, &["valid.ptx"], ""), failure(text));
    // XLA searches for this message to find out that the GPU is too new for this ptxas.
    let text = "ptxas fatal   : Value 'sm_99' is not defined for option 'gpu-name'\n";
    assert_eq!(run(PTXAS, &folder, &["-arch=sm_99", "valid.ptx"], ""), failure(text));
}

#[test]
fn warnings_follow_the_options() {
    let folder = folder("warnings");
    let text = "Too big maxrregcount value specified 1000, will be ignored";
    let call = |option: &str| run(PTXAS, &folder, &["-arch=sm_90", "-maxrregcount=1000", option, "valid.ptx"], "");
    assert_eq!(call("-m64"), Outcome { stderr: format!("ptxas warning : {text}\n"), ..success() });
    assert_eq!(call("-w"), success());
    assert_eq!(call("-Werror"), failure(&format!("ptxas error   : {text}\n{ABORTED}")));
}

#[test]
fn without_input_there_is_help() {
    let folder = folder("help");
    for arguments in [&["--help"][..], &["-h", "valid.ptx"], &[], &["-arch=sm_90"]] {
        let outcome = run(PTXAS, &folder, arguments, "");
        assert_eq!(outcome.code, Some(0));
        assert!(outcome.stdout.contains("Usage  : ptxas [options] <ptx file>,..."));
        assert!(outcome.stdout.contains("Accepted and checked, without effect"));
    }
    assert!(run(PTXAS, &folder, &["--list-version"], "").stdout.ends_with("\n9.0\n"));
}

/// Calls whose output depends neither on code nor on the wording of PTX errors.
const CALLS: &[&str] = &[
    "-foo valid.ptx",
    "--foo=1 valid.ptx",
    "--arch=sm_90",
    "-verbose",
    "-arch",
    "--gpu-name",
    "-arch= valid.ptx",
    "-arch=SM_90 valid.ptx",
    "-o",
    "-v=1 valid.ptx",
    "-m32 valid.ptx",
    "-m 32 valid.ptx",
    "-m64x valid.ptx",
    "-m valid.ptx",
    "-Ox valid.ptx",
    "-O1.5 valid.ptx",
    "-O99999999999 valid.ptx",
    "--opt-level valid.ptx",
    "-arch=compute_90 -O9 valid.ptx",
    "-arch=compute_90 -O valid.ptx",
    "-arch=compute_90 -O 2 valid.ptx",
    "-arch=compute_90 -O1 -O2 valid.ptx",
    "-arch=compute_90 -O=0x1 valid.ptx",
    "-arch=compute_90 -fmad=false -fmad true valid.ptx",
    "-arch=compute_90 -fmad valid.ptx",
    "-arch=compute_90 -g -O2 valid.ptx",
    "-arch=compute_90 -Ofc foo -split-compile=-1 valid.ptx",
    "-arch=compute_90 -split-compile=-1 -g -O2 valid.ptx",
    "-arch=compute_90 -maxrregcount abc -g -O1 valid.ptx",
    "-arch=compute_90 -maxrregcount 32 valid.ptx",
    "-arch=compute_90 -dlcm xx -maxrregcount abc valid.ptx",
    "-arch=compute_90 -dlcm xx -fscm lu valid.ptx",
    "-arch=compute_90 -maxntid 1,2,3,4 valid.ptx",
    "-arch=compute_90 -maxntid 1 -minnctapersm 2 -maxrregcount 9 valid.ptx",
    "-arch=compute_90 -func-maxrregcount x valid.ptx",
    "-arch=compute_90 -c -func-maxrregcount x valid.ptx",
    "-arch=compute_90 -sanitize foo valid.ptx",
    "-arch=compute_90 -regUsageLevel 11 valid.ptx",
    "-arch=compute_90 --regAllocOptLevel=2 valid.ptx",
    "-arch=compute_90 --regAllocOptLevel 2 -Werror valid.ptx",
    "-arch=compute_90 -regAllocOptLevel=0x2 valid.ptx",
    "-arch=compute_90 -regAllocOptLevel -1 valid.ptx",
    "-arch=compute_90 --regAllocOptLevel= valid.ptx",
    "-arch=compute_90 --regAllocOptLevel=100 valid.ptx",
    "-arch=compute_90 --regAllocOptLevel=x valid.ptx",
    "-arch=compute_90 --regAllocOptLevel=99999999999 valid.ptx",
    "-arch=compute_90 --regAllocOptLevel=1 --regAllocOptLevel=2 valid.ptx",
    "-arch=compute_90 -regAllocOptLevel2 valid.ptx",
    "--regAllocOptLevel",
    "-arch=compute_90 -minnctapersm= -minnctapersm x valid.ptx",
    "-arch=compute_90 -m= valid.ptx",
    "-arch=compute_90 -fmad= valid.ptx",
    "-arch=compute_90 -uumn --cimm -jobserver --fastimul -noFwdPrg --tool-name x --cloning=yes valid.ptx",
    "-arch=compute_90 --verbose-tkinfo=true -limit-fold-fp=false --membermask-overlap true valid.ptx",
    "-arch=compute_90 --no-membermask-overlap=true --assume-extern-functions-do-not-sync=true valid.ptx",
    "-arch=compute_90 --limit-fold-fp=yes valid.ptx",
    "-arch=compute_90 -dlcm= valid.ptx",
    "-arch=compute_90 -dlcm=cg -flcm=ca -dscm=wt -fscm=cs valid.ptx",
    "-arch=compute_90 -fscm=ca valid.ptx",
    "-arch=compute_90 --cuda-api-version=13.0 valid.ptx",
    "-arch=compute_90 --cuda-api-version=12.9 valid.ptx",
    "-arch=compute_90 --cuda-api-version=13 valid.ptx",
    "-arch=compute_90 --link-info x valid.ptx",
    "-arch=compute_90 --force-externals valid.ptx",
    "-arch=compute_90 -force-externals valid.ptx",
    "-arch=compute_90 -opt-pointers valid.ptx",
    "-fdevice-time-trace x valid.ptx",
    "-arch=compute_90 -legacy-bar-warp-wide-behavior valid.ptx",
    "-arch=compute_90 -astoolspatch -c valid.ptx",
    "-arch=compute_90 -c -legacy-bar-warp-wide-behavior valid.ptx",
    "-arch=compute_90 -c -ewp valid.ptx",
    "-arch=compute_90 -ewp -pic=true valid.ptx",
    "-arch=compute_90 -preserve-relocs valid.ptx",
    "-arch=sm_90 -preserve-relocs valid.ptx",
    "-arch=sm_80 -make-errors-visible-at-exit valid.ptx",
    "-arch=compute_90 -warn-double-usage valid.ptx",
    "-arch=compute_90 -split-compile=2 valid.ptx",
    "-arch=sm_80 --disable-smem-reservation=false valid.ptx",
    "-arch=sm_80 --disable-smem-reservation=true valid.ptx",
    "-arch=sm_80 --blocks-are-clusters=true valid.ptx",
    "-arch=sm_90 --blocks-are-clusters=true valid.ptx",
    "-arch=compute_90 --disable-smem-reservation=true valid.ptx",
    "-arch=compute_90 -maxrregcount=archmin valid.ptx",
    "-arch=compute_90 -maxrregcount=32 valid.ptx",
    "-arch=sm_90 --cloning=yes -Ofc=0 valid.ptx",
    "-arch=sm_90 --cloning=x -Ofc=min valid.ptx",
    "-arch=sm_90 --cloning=no -Ofc=max valid.ptx",
    "-arch=compute_90 --cloning=yes -g valid.ptx",
    "-arch=sm_90 --membermask-overlap=true --no-membermask-overlap=true valid.ptx",
    "-arch=compute_90 -g -regUsageLevel=3 valid.ptx",
    "-arch=sm_90 -O0 -regUsageLevel=3 valid.ptx",
    "-arch=sm_90 -O1 -regUsageLevel=3 valid.ptx",
    "-arch=sm_90 -nv-host missing valid.ptx",
    "-arch=sm_90 -nv-host missing -c valid.ptx",
    "-arch=compute_90 -nv-host missing -ewp valid.ptx",
    "-arch=compute_90 -nv-host missing valid.ptx",
    "-nv-host missing valid.ptx",
    "-arch=sm_90 -g-tmem-access-check valid.ptx",
    "-arch=compute_100a -g-tmem-access-check -gno-tmem-access-check -w valid.ptx",
    "-legacy-bar-warp-wide-behavior valid.ptx",
    "-arch=sm_90 -legacy-bar-warp-wide-behavior valid.ptx",
    "-arch=compute_90 -legacy-bar-warp-wide-behavior -c valid.ptx",
    "-arch=compute_90 -astoolspatch valid.ptx",
    "-arch=sm_90 -astoolspatch valid.ptx",
    "-arch=sm_90 -arch=sm_80 -tool-name x -legacy-bar-warp-wide-behavior valid.ptx",
    "-arch=sm_80 -tool-name x -o none/out valid.ptx",
    "-arch=sm_80 -tool-name x valid.ptx valid.ptx",
    "-tool-name x -foo valid.ptx",
    "-arch=sm_80 -maxrregcount=1000 -warn-double-usage -dlcm=cg valid.ptx",
    "-arch=sm_80 -c -func-maxrregcount=10 valid.ptx",
    "-arch=sm_80 -c -func-maxrregcount=1000 valid.ptx",
    "-arch=compute_90 -g -lineinfo valid.ptx",
    "-arch=compute_90 -suppress-debug-info valid.ptx",
    "-arch=compute_90 -suppress-debug-info -Werror valid.ptx",
    "-arch=compute_90 -suppress-debug-info -Werror -w valid.ptx",
    "-arch=compute_90 -arch=compute_80 valid.ptx",
    "-arch=compute_90 missing.ptx valid.ptx none.ptx",
    "-arch=compute_90 valid.ptx valid.ptx",
    "-arch=compute_90 valid.ptx,other.ptx",
    "-arch=compute_90 valid.ptx other.ptx",
    "-arch=compute_90 -e k,none valid.ptx",
    "-arch=compute_90 hopper.ptx",
    "-arch=compute_100a hopper.ptx",
    "-arch=compute_80 hopper.ptx",
    "valid.ptx",
    "-V -foo",
    "-h -arch=sm_99",
    "--list-version",
];

/// Inputs with an error, and words of ptxas that the messages for it have.
const WRONG: &[(&str, &str)] = &[
    ("", "fatal   : Missing .version directive at start of file 'wrong.ptx'"),
    (".version 9.9\n.target sm_80\n", "fatal   : Unsupported .version 9.9; current version is '9.0'"),
    (".version 7.8\n.entry k() { ret; }", "fatal   : Missing .target directive at start of file 'wrong.ptx'"),
    (".version 7.8\n.target sm_999\n", "fatal   : Unsupported .target 'sm_999'"),
    (".version 7.0\n.target sm_90\n.entry k() { ret; }", "error   : PTX .version 7.0 does not support .target sm_90"),
    (".version 7.8\n.target sm_80\n.entry k() { foo.u32 %r1; ret; }", "error   : Not a name of any known instruction: 'foo'"),
    (".version 7.8\n.target sm_80\n.entry k() { bra L; ret; }", "error   : Unknown symbol 'L'"),
    (".version 7.8\n.target sm_80\n.entry k() { .reg .b32 %r; mov.b32 %r, %s; ret; }", "error   : Unknown symbol '%s'"),
    (
        ".version 7.8\n.target sm_80\n.entry k() { .reg .b32 %r; add.u32 %r, %r; ret; }",
        "error   : Arguments mismatch for instruction 'add'",
    ),
    (".version 7.8\n.target sm_80\n.entry k() { ret; }\n.entry k() { ret; }", "error   : Duplicate definition of function 'k'"),
    (".version 7.8\n.target sm_80\n.global .u32 a;\n.global .u32 a;", "error   : Duplicate definition of variable 'a'"),
    (".version 7.8\n.target sm_80\n.entry k() { L: L: ret; }", "error   : Duplicate definition of label 'L'"),
    (".version 7.8\n.target sm_80\n.entry k({ ret; }", "fatal   : Parsing error near '{': syntax error"),
    (".version 7.8\n.target sm_80\n.entry k() { ret;", "fatal   : Parsing error near '': syntax error"),
    (
        ".version 7.8\n.target sm_80\n.func f(.param .u32 a) { ret; }\n.entry k() { call f; ret; }",
        "error   : Call has wrong number of parameters",
    ),
    (".version 7.8\n.target sm_80\n.extern .func f();\n.entry k() { call f; ret; }", "fatal   : Unresolved extern function 'f'"),
    (".version 7.8\n.target sm_80\n.entry k() { .reg .b32 %r; @%r ret; }", "error   : Predicate expression expected"),
];

/// Programs search for these words; ptxas itself prints them too, if it is there.
#[test]
fn errors_have_the_words_of_ptxas() {
    let folder = folder("words");
    let vendor = oriole_oracles::tool("ptxas");
    for (text, words) in WRONG {
        fs::write(folder.join("wrong.ptx"), text).unwrap();
        let ours = run(PTXAS, &folder, &["-arch=sm_90", "wrong.ptx"], "");
        assert_eq!(ours.code, Some(255), "{text}");
        assert!(ours.stderr.contains(words), "{words}\n{}", ours.stderr);
        if let Some(vendor) = &vendor {
            let theirs = run(vendor, &folder, &["-arch=sm_90", "wrong.ptx"], "");
            assert!(theirs.code == Some(255) && theirs.stderr.contains(words), "{words}\n{}", theirs.stderr);
        }
    }
}

/// The machine code is that of ptxas: `STRONG.GPU` for `.cg`.
#[test]
fn cache_options_change_accesses_of_global_memory() {
    let folder = folder("cache-operators");
    let text = ".version 7.8\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p) {\n\
        .reg .b64 %rd; .reg .b32 %r;\nld.param.u64 %rd, [p];\ncvta.to.global.u64 %rd, %rd;\n\
        ld.global.u32 %r, [%rd];\nst.global.u32 [%rd+4], %r;\nret; }\n";
    fs::write(folder.join("k.ptx"), text).unwrap();
    for (option, load, store) in
        [("-m64", "LDG.E R", "STG.E ["), ("-dlcm=cg", "LDG.E.STRONG.GPU R", "STG.E ["), ("-fscm=cs", "LDG.E R", "STG.E.EF [")]
    {
        assert_eq!(run(PTXAS, &folder, &["-arch=sm_80", option, "k.ptx", "-o", "k.cubin"], ""), success());
        let listing = run(env!("CARGO_BIN_EXE_oriole"), &folder, &["disasm", "k.cubin"], "").stdout;
        assert!(listing.contains(load) && listing.contains(store), "{option}: {listing}");
    }
}

/// As in ptxas' code, `ERRBAR` comes before each exit, and on targets with clusters `CGAERRBAR`; each function has an attribute for it.
#[test]
fn exits_wait_for_errors() {
    let folder = folder("errors-at-exit");
    let text = ".version 7.8\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p) {\n\
        .reg .b64 %rd; .reg .b32 %r; .reg .pred %p;\nld.param.u64 %rd, [p];\ncvta.to.global.u64 %rd, %rd;\n\
        ld.global.u32 %r, [%rd];\nsetp.eq.u32 %p, %r, 0;\n@%p ret;\nst.global.u32 [%rd+4], %r;\nexit; }\n";
    fs::write(folder.join("k.ptx"), text).unwrap();
    let option = "-make-errors-visible-at-exit";
    for (target, level, last) in
        [("sm_80", "-O0", "ERRBAR"), ("sm_80", "-O3", "ERRBAR"), ("sm_90", "-O0", "CGAERRBAR"), ("sm_90", "-O3", "CGAERRBAR")]
    {
        assert_eq!(run(PTXAS, &folder, &[&format!("-arch={target}"), level, option, "k.ptx", "-o", "k.cubin"], ""), success());
        let listing = run(env!("CARGO_BIN_EXE_oriole"), &folder, &["disasm", "k.cubin"], "").stdout;
        // Opcodes of memory accesses, waits for errors, and exits, in the order of addresses.
        let opcodes = listing.split(|c: char| c.is_whitespace() || c == ';');
        let opcodes: Vec<&str> = opcodes
            .map(|word| word.split('.').next().unwrap_or_default())
            .filter(|word| matches!(*word, "LDG" | "STG" | "ERRBAR" | "CGAERRBAR" | "EXIT"))
            .collect();
        let exits = opcodes.iter().filter(|word| **word == "EXIT").count();
        assert_eq!(exits, 2, "{listing}");
        assert_eq!(opcodes.iter().filter(|word| **word == "ERRBAR").count(), exits, "{listing}");
        assert!(opcodes.windows(2).all(|pair| pair[1] != "EXIT" || pair[0] == last), "{listing}");
        let cubin = oriole_cubin::Cubin::read(&fs::read(folder.join("k.cubin")).unwrap()).unwrap();
        let marks =
            cubin.module_attributes().iter().filter(|attribute| attribute.code == oriole_cubin::info::AttributeCode::GEN_ERRBAR_AT_EXIT);
        assert_eq!(marks.count(), 1);
    }
    // `-g` implies the option, also if its sections are left out.
    for (options, count) in [("-g", 4), ("-g -suppress-debug-info", 4), ("-lineinfo", 0), ("-O0", 0)] {
        let arguments: Vec<&str> = ["-arch=sm_90", "-w"].into_iter().chain(options.split(' ')).chain(["k.ptx", "-o", "k.cubin"]).collect();
        assert_eq!(run(PTXAS, &folder, &arguments, ""), success());
        let listing = run(env!("CARGO_BIN_EXE_oriole"), &folder, &["disasm", "k.cubin"], "").stdout;
        assert_eq!(listing.matches("ERRBAR").count(), count, "{options}: {listing}");
    }
    assert_eq!(run(PTXAS, &folder, &["-arch=sm_90", "k.ptx", "-o", "k.cubin"], ""), success());
    assert!(!run(env!("CARGO_BIN_EXE_oriole"), &folder, &["disasm", "k.cubin"], "").stdout.contains("ERRBAR"));
}

/// ptxas 13.0.88 marks all functions, with `-c` those that are no kernels too.
#[test]
fn blocks_are_clusters_in_all_functions() {
    let folder = folder("blocks-are-clusters");
    let text = ".version 7.8\n.target sm_80\n.address_size 64\n.visible .entry a() { ret; }\n.visible .entry b() { ret; }\n.visible .func f() { ret; }\n";
    fs::write(folder.join("k.ptx"), text).unwrap();
    let marked = |ptxas: &str, options: &[&str]| {
        let arguments: Vec<&str> = ["-o", "out.cubin", "k.ptx"].iter().chain(options).copied().collect();
        let outcome = run(ptxas, &folder, &arguments, "");
        assert_eq!(outcome.code, Some(0), "{options:?}: {}", outcome.stderr);
        let cubin = oriole_cubin::Cubin::read(&fs::read(folder.join("out.cubin")).unwrap()).unwrap();
        let is_marked = |name: &str| {
            let mark = oriole_cubin::info::AttributeCode::BLOCKS_ARE_CLUSTERS;
            cubin.function_attributes(name).iter().any(|attribute| attribute.code == mark)
        };
        ["a", "b", "f"].map(is_marked)
    };
    let vendor = oriole_oracles::tool("ptxas");
    let programs: Vec<&str> = [PTXAS].into_iter().chain(vendor.as_deref().and_then(std::path::Path::to_str)).collect();
    for ptxas in programs {
        for arch in ["-arch=sm_90", "-arch=sm_100"] {
            assert_eq!(marked(ptxas, &[arch, "--blocks-are-clusters", "true"]), [true, true, false], "{ptxas} {arch}");
            assert_eq!(marked(ptxas, &[arch, "--blocks-are-clusters", "true", "-c"]), [true, true, true], "{ptxas} {arch}");
            assert_eq!(marked(ptxas, &[arch, "--blocks-are-clusters", "false", "-c"]), [false; 3], "{ptxas} {arch}");
        }
        assert_eq!(marked(ptxas, &["-arch=sm_80", "--blocks-are-clusters", "true"]), [false; 3], "{ptxas}");
    }
}

/// Returns a kernel with 512 bytes of shared memory that reads a special register.
fn kernel_with_shared_memory(special: &str) -> String {
    format!(
        ".version 8.6\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p) {{\n.shared .align 16 .b8 buffer[512];\n.reg .b32 %r<5>;\n\
         .reg .b64 %d;\nmov.u32 %r1, {special};\nmov.u32 %r2, buffer;\nst.shared.u32 [%r2], %r1;\nbar.sync 0;\nld.shared.u32 %r3, [buffer+8];\n\
         ld.param.u64 %d, [p];\nst.global.u32 [%d], %r3;\nret;\n}}\n"
    )
}

/// The section of shared memory contains the 1,024 reserved bytes, which `--disable-smem-reservation` leaves out; ptxas 13.0.88 writes the same
/// sizes, and the same error for code that needs the reserved bytes.
#[test]
fn shared_memory_without_reservation() {
    let folder = folder("smem-reservation");
    fs::write(folder.join("k.ptx"), kernel_with_shared_memory("%tid.x")).unwrap();
    fs::write(folder.join("reserved.ptx"), kernel_with_shared_memory("%reserved_smem_offset_begin")).unwrap();
    let vendor = oriole_oracles::tool("ptxas");
    let programs: Vec<&str> = [PTXAS].into_iter().chain(vendor.as_deref().and_then(std::path::Path::to_str)).collect();
    for ptxas in programs {
        let call = |arch: &str, choice: &str, file: &str| {
            run(ptxas, &folder, &["-o", "out.cubin", arch, "--disable-smem-reservation", choice, file], "")
        };
        for (arch, choice, bytes) in [
            ("-arch=sm_80", "true", 512),
            ("-arch=sm_90", "false", 1536),
            ("-arch=sm_90", "true", 512),
            ("-arch=sm_100", "false", 1536),
            ("-arch=sm_120", "true", 512),
        ] {
            let outcome = call(arch, choice, "k.ptx");
            assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
            let cubin = oriole_cubin::Cubin::read(&fs::read(folder.join("out.cubin")).unwrap()).unwrap();
            let section = cubin.sections().iter().find(|section| section.name == ".nv.shared.k").expect("shared memory");
            assert!(matches!(section.content, oriole_cubin::section::Content::NoBits(size) if size == bytes), "{ptxas} {arch} {choice}");
        }
        let refused = call("-arch=sm_90", "true", "reserved.ptx");
        assert_eq!(refused.code, Some(255));
        assert!(refused.stderr.contains("Function 'k' uses reserved shared memory when not allowed."), "{ptxas}: {}", refused.stderr);
        assert_eq!(call("-arch=sm_90", "false", "reserved.ptx").code, Some(0), "{ptxas}");
    }
}

/// As in ptxas, a relocatable object has all kernels; the names of `-e` must exist.
#[test]
fn relocatable_objects_have_all_kernels() {
    let folder = folder("entries");
    let kernels = |options: &[&str]| {
        let arguments: Vec<&str> = ["-arch=sm_90", "-o", "out.cubin", "valid.ptx", "other.ptx"].iter().chain(options).copied().collect();
        assert_eq!(run(PTXAS, &folder, &arguments, ""), success());
        let cubin = oriole_cubin::Cubin::read(&fs::read(folder.join("out.cubin")).unwrap()).unwrap();
        cubin.kernels().count()
    };
    assert_eq!((kernels(&["-e", "k"]), kernels(&["-e", "k", "-c"]), kernels(&[])), (1, 2, 2));
    let outcome = run(PTXAS, &folder, &["-arch=sm_90", "-c", "-e", "none", "valid.ptx"], "");
    assert_eq!(outcome, failure("ptxas fatal   : Unknown function none\n"));
}

/// Checks with NVIDIA's tool that it answers the calls above in the same way.
#[test]
fn option_handling_agrees_with_ptxas() {
    let Some(vendor) = oriole_oracles::tool("ptxas") else { return };
    let folder = folder("oracle");
    let mut differences = Vec::new();
    for call in CALLS {
        let arguments: Vec<&str> = call.split(' ').collect();
        let (ours, theirs) = (run(PTXAS, &folder, &arguments, ""), run(&vendor, &folder, &arguments, ""));
        if ours != theirs {
            differences.push(format!("ptxas {call}\n  ours:   {ours:?}\n  theirs: {theirs:?}"));
        }
    }
    assert!(differences.is_empty(), "{} of {} calls differ:\n{}", differences.len(), CALLS.len(), differences.join("\n"));
}
