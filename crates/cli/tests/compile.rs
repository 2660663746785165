//! Tests code generation with `ptxas`, as build tools call it, and with `oriole compile`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{Outcome, files, module, run};
use oriole_cubin::info::AttributeCode;
use oriole_cubin::{Cubin, FileType};
use serde_json::Value;

const PTXAS: &str = env!("CARGO_BIN_EXE_ptxas");
const ORIOLE: &str = env!("CARGO_BIN_EXE_oriole");

/// Returns a module that reads 60 numbers and then writes them in another order.
fn many_values() -> String {
    const COUNT: usize = 60;
    let mut text = String::from(".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry many(.param .u64 p)\n{\n");
    text += ".reg .b64 %a;\n.reg .b32 %v<60>;\nld.param.u64 %a, [p];\n";
    text.extend((0..COUNT).map(|number| format!("ld.volatile.global.b32 %v{number}, [%a+{}];\n", 4 * number)));
    text.extend((0..COUNT).map(|number| format!("st.volatile.global.b32 [%a+{}], %v{};\n", 4 * number, number * 37 % COUNT)));
    text + "ret;\n}\n"
}

/// An instruction that is not supported: no machine has atomic operations on local memory, and ptxas 13.0.88 crashes.
const UNSUPPORTED: &str = "{ .local .align 4 .b32 z; atom.add.u32 %r0, [z], 1; }";

/// Creates a folder with the modules of these tests.
fn folder(name: &str) -> PathBuf {
    let folder = crate::common::folder(&format!("compile-{name}"));
    let write = |name: &str, text: String| fs::write(folder.join(name), text).unwrap();
    for name in ["saxpy", "block_sum"] {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../examples/{name}.ptx"));
        write(&format!("{name}.ptx"), fs::read_to_string(example).unwrap());
    }
    write("empty.ptx", module("sm_80", "empty", ""));
    write("wrong.ptx", module("sm_80", "w", "ad.s32 %r1, %r2, 1;"));
    write("unsupported.ptx", module("sm_90", "u", UNSUPPORTED));
    write("many.ptx", many_values());
    folder
}

fn success() -> Outcome {
    Outcome { code: Some(0), stdout: String::new(), stderr: String::new() }
}

fn cubin(folder: &Path, name: &str) -> Cubin {
    Cubin::read(&fs::read(folder.join(name)).unwrap()).unwrap()
}

fn kernels(cubin: &Cubin) -> Vec<String> {
    cubin.kernels().map(|kernel| kernel.name.to_string()).collect()
}

/// Runs a call that must fail and leave the folder unchanged; returns its messages.
fn fails(program: &str, folder: &Path, arguments: &[&str], code: i32) -> String {
    let contents = || files(folder).into_iter().map(|name| (fs::read(folder.join(&name)).unwrap(), name)).collect::<Vec<_>>();
    let before = contents();
    let outcome = run(program, folder, arguments, "");
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(code), ""), "{arguments:?}: {}", outcome.stderr);
    assert!(contents() == before, "{arguments:?} left something behind");
    outcome.stderr
}

#[test]
fn ptxas_writes_a_cubin_for_the_architecture() {
    let folder = folder("ptxas");
    for (arguments, output, target) in [
        (&["-lineinfo", "--gpu-name=sm_90a", "saxpy.ptx", "-o", "saxpy.cubin"][..], "saxpy.cubin", "sm_90a"),
        (&["saxpy.ptx", "-o", "saxpy.cubin", "-arch=sm_120a", "--warn-on-spills", "-O0"], "saxpy.cubin", "sm_120a"),
        (&["--generate-line-info", "--gpu-name", "sm_80", "--output-file", "out", "saxpy.ptx"], "out", "sm_80"),
        (&["-arch=sm_89", "saxpy.ptx"], "elf.o", "sm_89"),
    ] {
        let before = files(&folder);
        assert_eq!(run(PTXAS, &folder, arguments, ""), success(), "{arguments:?}");
        let cubin = cubin(&folder, output);
        assert_eq!((cubin.target_name(), cubin.header.file_type), (target.to_string(), FileType::Executable), "{arguments:?}");
        assert_eq!(kernels(&cubin), ["saxpy"]);
        let mut expected = before;
        expected.retain(|name| name != output);
        expected.push(output.to_owned());
        expected.sort();
        assert_eq!(files(&folder), expected, "{arguments:?}");
    }
}

#[test]
fn options_choose_what_is_compiled() {
    let folder = folder("options");
    assert_eq!(run(PTXAS, &folder, &["-arch=sm_90", "saxpy.ptx", "block_sum.ptx", "-o", "both"], ""), success());
    let mut both = kernels(&cubin(&folder, "both"));
    both.sort();
    assert_eq!(both, ["block_sum", "saxpy"]);
    assert_eq!(run(PTXAS, &folder, &["-arch=sm_90", "saxpy.ptx", "block_sum.ptx", "-e", "saxpy", "-o", "one"], ""), success());
    assert_eq!(kernels(&cubin(&folder, "one")), ["saxpy"]);
    assert_eq!(run(PTXAS, &folder, &["-arch=sm_90", "-c", "saxpy.ptx", "-o", "object"], ""), success());
    assert_eq!(cubin(&folder, "object").header.file_type, FileType::Relocatable);
    let stderr = fails(PTXAS, &folder, &["-arch=sm_90", "-e", "none", "saxpy.ptx", "-o", "both"], 255);
    assert_eq!(stderr, "ptxas fatal   : Unknown function none\n");
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let folder = folder("same");
    for output in ["first", "second"] {
        assert_eq!(run(PTXAS, &folder, &["-arch=sm_90a", "block_sum.ptx", "many.ptx", "-o", output], ""), success());
    }
    assert!(fs::read(folder.join("first")).unwrap() == fs::read(folder.join("second")).unwrap());
}

#[test]
fn failures_leave_nothing_behind() {
    let folder = folder("failures");
    fs::write(folder.join("old.cubin"), "old").unwrap();
    const ABORTED: &str = "ptxas fatal   : Ptx assembly aborted due to errors";
    for output in ["old.cubin", "new.cubin"] {
        let stderr = fails(PTXAS, &folder, &["-arch=sm_90", "wrong.ptx", "-o", output], 255);
        assert!(stderr.starts_with("ptxas wrong.ptx, line 7; error   : "), "{stderr}");
        let stderr = fails(PTXAS, &folder, &["-arch=sm_90", "saxpy.ptx", "unsupported.ptx", "-o", output], 255);
        let lines: Vec<&str> = stderr.lines().collect();
        assert_eq!(lines.len(), 2, "{stderr}");
        assert!(lines[0].starts_with("ptxas unsupported.ptx, line 7; error   : "), "{stderr}");
        assert!(lines[0].contains("local memory") && lines[0].ends_with("is not supported by Oriole yet"), "{stderr}");
        assert_eq!(lines[1], ABORTED);
        let arguments = ["-arch=sm_90", "-Werror", "--warn-on-spills", "-maxrregcount=32", "many.ptx", "-o", output];
        assert!(fails(PTXAS, &folder, &arguments, 255).starts_with("ptxas error   : Registers are spilled"));
    }
    let stderr = fails(PTXAS, &folder, &["-arch=sm_90", "saxpy.ptx", "-o", "missing/x.cubin"], 255);
    assert_eq!(stderr, "ptxas fatal   : Output file 'missing/x.cubin' could not be opened\n");
}

/// Replaces every number in a text by `N`.
fn without_numbers(text: &str) -> String {
    let mut result = String::new();
    for character in text.chars() {
        match character {
            '0'..='9' if result.ends_with('N') => {}
            '0'..='9' => result.push('N'),
            _ => result.push(character),
        }
    }
    result.replace("N.N", "N")
}

const VERBOSE: &str = "ptxas info    : N bytes gmem
ptxas info    : Compiling entry function 'block_sum' for 'sm_N'
ptxas info    : Function properties for block_sum
    N bytes stack frame, N bytes spill stores, N bytes spill loads
ptxas info    : Used N registers, used N barriers, N bytes smem
ptxas info    : Compile time = N ms
";

#[test]
fn verbose_text_is_that_of_ptxas() {
    let folder = folder("verbose");
    let call = |program: &Path, arch: &str| run(program, &folder, &[arch, "-v", "block_sum.ptx", "-o", "out"], "");
    let ours = call(Path::new(PTXAS), "-arch=sm_90");
    assert_eq!(without_numbers(&ours.stderr), VERBOSE);
    assert!(ours.stderr.contains("used 1 barriers, 32 bytes smem"), "{}", ours.stderr);
    let older = call(Path::new(PTXAS), "-arch=sm_80");
    assert_eq!(without_numbers(&older.stderr), VERBOSE.replace("bytes smem", "bytes smem, N bytes cmem[N]"));
    if let Some(vendor) = oriole_oracles::tool("ptxas") {
        for (arch, ours) in [("-arch=sm_90", ours), ("-arch=sm_80", older)] {
            let theirs = call(&vendor, arch);
            assert_eq!(without_numbers(&ours.stderr), without_numbers(&theirs.stderr));
            let bytes = |text: &str| text.lines().find_map(|line| Some(line.split_once("used ")?.1.to_owned()));
            assert_eq!(bytes(&ours.stderr), bytes(&theirs.stderr));
        }
    }
}

/// Returns the number of bytes that the instructions of a listing with this mnemonic move. Without local variables these are spills.
fn local_bytes(listing: &str, mnemonic: &str) -> usize {
    let words = listing.split_whitespace().filter(|word| *word == mnemonic || word.starts_with(&format!("{mnemonic}.")));
    words
        .map(|word| {
            if word.contains(".128") {
                16
            } else if word.contains(".64") {
                8
            } else {
                4
            }
        })
        .sum()
}

#[test]
fn spills_are_counted_and_warned_of() {
    let folder = folder("spills");
    let call = |limit: &str| run(PTXAS, &folder, &["-arch=sm_90", "--warn-on-spills", "-v", limit, "many.ptx", "-o", "out"], "");
    let roomy = call("-maxrregcount=128");
    assert!(!roomy.stderr.contains("warning"), "{}", roomy.stderr);
    assert!(roomy.stderr.contains("0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"), "{}", roomy.stderr);
    let tight = call("-maxrregcount=32");
    assert_eq!(tight.code, Some(0));
    let listing = run(ORIOLE, &folder, &["disasm", "out"], "").stdout;
    let (stores, loads) = (local_bytes(&listing, "STL"), local_bytes(&listing, "LDL"));
    // 60 values are live at the same time, with fewer than 32 registers.
    assert!(stores >= 4 * (60 - 32) && loads >= 4 * (60 - 32), "{stores} bytes stored, {loads} loaded");
    let warning = format!(
        "ptxas warning : Registers are spilled to local memory in function 'many', {stores} bytes spill stores, {loads} bytes spill loads\n"
    );
    assert!(tight.stderr.starts_with(&warning), "{warning}{}", tight.stderr);
    assert!(
        tight.stderr.contains(&format!(" bytes stack frame, {stores} bytes spill stores, {loads} bytes spill loads")),
        "{}",
        tight.stderr
    );
    let silent = run(PTXAS, &folder, &["-arch=sm_90", "-maxrregcount=32", "many.ptx", "-o", "out"], "");
    assert_eq!(silent, success());
    let used = tight.stderr.split_once("Used ").unwrap().1.split(' ').next().unwrap();
    assert!(used.parse::<u32>().unwrap() <= 32, "{}", tight.stderr);
}

#[test]
fn compile_tells_errors_from_misuse() {
    let folder = folder("exit-codes");
    assert_eq!(run(ORIOLE, &folder, &["compile", "saxpy.ptx", "-o", "saxpy.cubin", "--arch", "sm_90a"], ""), success());
    assert_eq!(cubin(&folder, "saxpy.cubin").target_name(), "sm_90a");
    assert_eq!(run(ORIOLE, &folder, &["compile", "saxpy.ptx", "-o", "own.cubin", "-O0"], ""), success());
    assert_eq!(cubin(&folder, "own.cubin").target_name(), "sm_80", "the module's own target");
    for (file, place) in [("wrong.ptx", "wrong.ptx:7:5"), ("unsupported.ptx", "unsupported.ptx:7:31")] {
        let stderr = fails(ORIOLE, &folder, &["compile", file, "-o", "saxpy.cubin"], 1);
        assert!(stderr.contains(place) && stderr.ends_with(&format!("{file}: 1 error\n")), "{stderr}");
    }
    for misuse in [
        &["compile", "saxpy.ptx"][..],
        &["compile", "missing.ptx", "-o", "x"],
        &["compile", "saxpy.ptx", "-o", "x", "--arch", "sm_99"],
        &["compile", "saxpy.ptx", "-o", "x", "-O4"],
        &["compile", "saxpy.ptx", "-o", "missing/x"],
        &["compile", "saxpy.ptx", "-o", "x", "--print-after", "nothing"],
        &["compile", "saxpy.ptx", "--print-after", "fold"],
        &["compile", "--list-passes", "--print-after"],
        &["compile", "saxpy.ptx", "-o", "x", "--opt-bisect-limit", "-2"],
        &["compile", "saxpy.ptx", "-o", "x", "--time-passes=xml"],
    ] {
        fails(ORIOLE, &folder, misuse, 2);
    }
}

#[test]
fn dashes_are_standard_input_and_output() {
    let folder = folder("dashes");
    let text = fs::read_to_string(folder.join("saxpy.ptx")).unwrap();
    assert_eq!(run(ORIOLE, &folder, &["compile", "-", "-o", "piped", "--arch", "sm_90"], &text), success());
    assert_eq!(run(ORIOLE, &folder, &["compile", "saxpy.ptx", "-o", "named", "--arch", "sm_90"], ""), success());
    let expected = fs::read(folder.join("named")).unwrap();
    assert!(fs::read(folder.join("piped")).unwrap() == expected);
    let output =
        std::process::Command::new(ORIOLE).current_dir(&folder).args(["compile", "saxpy.ptx", "-o", "-", "--arch", "sm_90"]).output();
    assert!(output.unwrap().stdout == expected);
    assert_eq!(run(PTXAS, &folder, &["-arch=sm_90", "-", "-o", "by-ptxas"], &text), success());
    assert!(fs::read(folder.join("by-ptxas")).unwrap() == expected, "two programs, one compiler");
    let stderr = run(ORIOLE, &folder, &["compile", "-", "-o", "x"], &module("sm_90", "k", UNSUPPORTED)).stderr;
    assert!(stderr.contains("<stdin>:7:31"), "{stderr}");
}

#[test]
fn a_register_count_that_is_ignored_is_reported() {
    let folder = folder("register-count");
    let text = module("sm_90a", "k", "setmaxnreg.dec.sync.aligned.u32 40;");
    let outcome = run(ORIOLE, &folder, &["compile", "-", "-o", "x"], &text);
    assert!(
        outcome.stderr.contains("<stdin>:7: ") && outcome.stderr.contains("setmaxnreg: the instruction is ignored"),
        "{}",
        outcome.stderr
    );
    assert_eq!(outcome.code, Some(0));
}

/// Launch bounds and options, and the number of registers with which a kernel starts that asks for 40 and 232; `None` if the number is not known
/// at compile time. The figures are those of ptxas 13.0.88.
const REGISTER_COUNTS: [(&str, &str, Option<u32>); 11] = [
    ("", "", None),
    (".maxntid 384, 1, 1", "", None),
    (".maxntid 384, 1, 1\n.minnctapersm 1", "", Some(168)),
    (".reqntid 384, 1, 1\n.minnctapersm 1", "", Some(168)),
    (".maxntid 256, 1, 1\n.minnctapersm 1", "", Some(232)),
    (".maxntid 256, 1, 1\n.minnctapersm 2", "", Some(128)),
    (".maxntid 384, 1, 1\n.minnctapersm 9", "", None),
    (".maxnreg 100", "", Some(100)),
    ("", "-maxrregcount=168", Some(168)),
    (".maxntid 384, 1, 1", "-maxrregcount=160", None),
    ("", "-maxntid=384 -minnctapersm=1", Some(168)),
];

#[test]
fn register_counts_are_followed_where_the_start_is_known() {
    let folder = folder("register-counts");
    let vendor = oriole_oracles::tool("ptxas");
    for (bounds, options, expected) in REGISTER_COUNTS {
        let text = format!(
            ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{bounds}\n{{\n.reg .pred %p;\n.reg .b32 %r;\n\
             mov.u32 %r, %tid.x;\nsetp.ge.u32 %p, %r, 128;\n@%p bra MORE;\nsetmaxnreg.dec.sync.aligned.u32 40;\nret;\n\
             MORE:\nsetmaxnreg.inc.sync.aligned.u32 232;\nret;\n}}\n"
        );
        fs::write(folder.join("k.ptx"), text).unwrap();
        for program in [Some(Path::new(PTXAS)), vendor.as_deref()].into_iter().flatten() {
            let _ = fs::remove_file(folder.join("out"));
            let arguments = ["-arch=sm_90a", "k.ptx", "-o", "out", "-v"].into_iter().chain(options.split_whitespace()).collect::<Vec<_>>();
            let outcome = run(program, &folder, &arguments, "");
            assert_eq!(outcome.code, Some(0), "{bounds} {options}: {}", outcome.stderr);
            assert_eq!(outcome.stderr.contains("setmaxnreg"), expected.is_none(), "{program:?} {bounds} {options}: {}", outcome.stderr);
            if let Some(registers) = expected {
                let used = format!("Used {registers} registers");
                assert!(outcome.stderr.contains(&used), "{program:?} {bounds} {options}: {}", outcome.stderr);
            }
        }
    }
}

#[test]
fn an_instruction_with_too_few_registers_in_its_part_is_an_error_with_its_line() {
    let folder = folder("too-few-registers");
    let sums: Vec<String> = (0..32).map(|number| format!("%f{number}")).collect();
    let text = format!(
        ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p)\n.maxnreg 128\n{{\n.reg .b64 %d;\n.reg .f32 %f<32>;\n\
         ld.param.u64 %d, [p];\nsetmaxnreg.dec.sync.aligned.u32 24;\nwgmma.fence.sync.aligned;\n\
         wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {{{}}}, %d, %d, 0, 1, 1, 0, 0;\n\
         wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\nst.global.f32 [%d], %f31;\nret;\n}}\n",
        sums.join(", ")
    );
    let outcome = run(ORIOLE, &folder, &["compile", "-", "-o", "x", "--arch", "sm_90a"], &text);
    let names_it = outcome.stderr.contains("<stdin>:12:") && outcome.stderr.contains("than the 22 that may be used here");
    assert!(outcome.code == Some(1) && names_it, "{}", outcome.stderr);
}

#[test]
fn needs_are_printed_as_data() {
    let folder = folder("json");
    let outcome = run(ORIOLE, &folder, &["compile", "block_sum.ptx", "-o", "x", "--json"], "");
    let object: Value = serde_json::from_str(outcome.stdout.trim_end()).unwrap();
    assert_eq!((&object["function"], &object["kernel"]), (&Value::from("block_sum"), &Value::from(true)));
    assert_eq!((&object["barriers"], &object["shared_bytes"]), (&Value::from(1), &Value::from(32)));
    let text = run(ORIOLE, &folder, &["compile", "block_sum.ptx", "-o", "x", "-v"], "").stderr;
    let expected = format!("block_sum.ptx: block_sum: {} registers, 1 barriers, 0 bytes stack, 32 bytes shared", object["registers"]);
    assert!(text.starts_with(&expected), "{text}");
}

/// Returns a kernel in which 200 values are live at the same time, with directives after its parameters.
fn wide(name: &str, directives: &str) -> String {
    let mut text =
        format!(".visible .entry {name}(.param .u64 p)\n{directives}\n{{\n.reg .b64 %a;\n.reg .b32 %v<200>;\nld.param.u64 %a, [p];\n");
    text.extend((0..200).map(|number| format!("ld.volatile.global.b32 %v{number}, [%a+{}];\n", 4 * number)));
    text.extend((0..200).map(|number| format!("st.volatile.global.b32 [%a+{}], %v{number};\n", 4 * (199 - number))));
    text + "ret;\n}\n"
}

/// Returns the messages of a call, and for each kernel of the file the attributes about launches.
fn bounds_of(program: &Path, folder: &Path, file: &str, options: &str) -> (Option<i32>, String, Vec<String>) {
    let _ = fs::remove_file(folder.join("out"));
    let arguments: Vec<&str> = ["-arch=sm_90", file, "-o", "out"].into_iter().chain(options.split_whitespace()).collect();
    let outcome = run(program, folder, &arguments, "");
    let mut attributes = Vec::new();
    if folder.join("out").exists() {
        let cubin = cubin(folder, "out");
        for kernel in cubin.kernels() {
            let clusters = [
                AttributeCode::MAX_CLUSTER_RANK,
                AttributeCode::BLOCKS_ARE_CLUSTERS,
                AttributeCode::EXPLICIT_CLUSTER,
                AttributeCode::CTA_PER_CLUSTER,
            ];
            let wanted = [&[AttributeCode::MAX_THREADS, AttributeCode::REQNTID, AttributeCode::MAXREG_COUNT][..], &clusters].concat();
            let found = cubin.function_attributes(kernel.name).iter().filter(|attribute| wanted.contains(&attribute.code));
            attributes.extend(found.map(|attribute| format!("{}: {attribute:?}", kernel.name)));
        }
    }
    (outcome.code, outcome.stderr, attributes)
}

const BOUNDS: [(&str, &str); 24] = [
    ("none", "-maxntid=1024"),
    ("none", "-maxntid 128"),
    ("none", "--maxntid=16,16,4"),
    ("none", "-maxntid=2048"),
    ("none", "-maxntid=2049"),
    ("none", "-maxntid=65536 -Werror"),
    ("none", "-maxntid=64,0"),
    ("none", "-maxntid=x"),
    ("none", "-minnctapersm=2"),
    ("none", "-minnctapersm 2 -maxntid 256"),
    ("none", "-minnctapersm=33 -maxntid=32"),
    ("none", "-minnctapersm=-1 -maxntid=256"),
    ("none", "-maxntid=512 -maxrregcount=64"),
    ("none", "-maxrregcount=archmin"),
    ("none", "-maxrregcount=0"),
    ("max", "-maxntid=1024"),
    ("max", "-maxntid=1024 -override-directive-values"),
    ("max", "-maxrregcount=40"),
    ("max", "-maxrregcount=40 -override-directive-values"),
    ("max", "-minnctapersm=4"),
    ("required", "-maxntid=1024"),
    ("required", "-maxntid=1024 -override-directive-values"),
    ("blocks", "-minnctapersm=2 -override-directive-values"),
    ("odd", ""),
];

#[test]
fn launch_bounds_come_from_the_command_line() {
    let folder = folder("bounds");
    let head = ".version 8.0\n.target sm_80\n.address_size 64\n";
    for (name, text) in [
        ("none", wide("k", "")),
        ("max", wide("k", ".maxntid 128")),
        ("required", wide("k", ".reqntid 128")),
        ("blocks", wide("k", ".maxntid 128\n.minnctapersm 4")),
        ("odd", wide("k", ".maxntid 65536\n.minnctapersm 2") + &wide("l", ".maxntid 256\n.minnctapersm 33") + &wide("m", ".maxnreg 10")),
    ] {
        fs::write(folder.join(name), format!("{head}{text}")).unwrap();
    }
    // 1,024 threads share 65,536 registers.
    assert_eq!(run(PTXAS, &folder, &["-arch=sm_90", "none", "-o", "free"], ""), success());
    assert!(cubin(&folder, "free").register_count("k").unwrap() > 200);
    assert_eq!(run(PTXAS, &folder, &["-arch=sm_90", "-maxntid=1024", "none", "-o", "bound"], ""), success());
    assert!(cubin(&folder, "bound").register_count("k").unwrap() <= 64);
    let Some(vendor) = oriole_oracles::tool("ptxas") else { return };
    for (file, options) in BOUNDS {
        let (ours, theirs) = (bounds_of(Path::new(PTXAS), &folder, file, options), bounds_of(&vendor, &folder, file, options));
        assert_eq!(ours, theirs, "{file} {options}");
    }
}

#[test]
fn cluster_sizes_are_those_of_ptxas() {
    let Some(vendor) = oriole_oracles::tool("ptxas") else { return };
    let folder = folder("clusters");
    // In separate modules: ptxas 13.0 crashes with all of them in one.
    for directives in [
        ".reqnctapercluster 4",
        ".explicitcluster\n.reqnctapercluster 2, 2, 1",
        ".maxclusterrank 8",
        ".explicitcluster",
        ".explicitcluster\n.maxclusterrank 4",
        ".reqntid 64\n.reqnctapercluster 2\n.blocksareclusters",
    ] {
        let text = format!(".version 9.0\n.target sm_90\n.address_size 64\n{}", wide("k", directives));
        fs::write(folder.join("cluster"), text).unwrap();
        let ours = bounds_of(Path::new(PTXAS), &folder, "cluster", "");
        assert!(ours.2.iter().any(|attribute| attribute.contains("CLUSTER")), "{directives}: {ours:?}");
        assert_eq!(ours, bounds_of(&vendor, &folder, "cluster", ""), "{directives}");
    }
}

/// Options that callers pass and that ptxas' help does not list. The texts of the two warnings are ptxas'.
#[test]
fn options_without_effect_are_named_and_harmful_ones_refused() {
    let folder = folder("ptxas_hidden_options");
    fs::write(folder.join("frame.ptx"), FRAME).unwrap();
    let call = |options: &[&str]| {
        let arguments: Vec<&str> = ["-arch=sm_90", "frame.ptx", "-o", "out"].into_iter().chain(options.iter().copied()).collect();
        run(PTXAS, &folder, &arguments, "")
    };
    let quiet = call(&["--force-rela", "--opt-pointers", "--sw200428197=true", "--cuda-api-version", "13.0"]);
    assert_eq!((quiet.code, quiet.stderr.as_str()), (Some(0), ""));
    let told = call(&["--force-rela", "-v"]);
    assert!(told.stderr.contains("ptxas info    : Option '--force-rela' has no effect in Oriole"), "{}", told.stderr);
    let refused = call(&["--query-controls", "x"]);
    assert_eq!(refused.code, Some(255));
    assert!(refused.stderr.contains("Option '--query-controls' is not supported by Oriole"), "{}", refused.stderr);
    let frame = call(&["-warn-lmem-usage", "--link-info", "x"]);
    assert!(frame.stderr.contains("ptxas warning : Local memory used for function 'k', size of stack frame: 64 bytes"), "{}", frame.stderr);
    assert!(frame.stderr.contains("ptxas warning : option 'link-info' has been deprecated"), "{}", frame.stderr);
}

#[test]
fn requests_that_cannot_be_met_are_errors() {
    let folder = folder("compile_requests");
    fs::write(folder.join("frame.ptx"), FRAME).unwrap();
    let oriole = env!("CARGO_BIN_EXE_oriole");
    let refuse = |arguments: &[&str], message: &str| {
        let outcome = run(oriole, &folder, arguments, "");
        assert_eq!(outcome.code, Some(2), "{arguments:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(message), "{arguments:?}: {}", outcome.stderr);
    };
    refuse(&["compile", "frame.ptx", "--entry", "other", "-o", "out"], "there is no kernel `other`; the module has k");
    refuse(&["compile", "frame.ptx", "-o", "./frame.ptx"], "the output would overwrite the input");
    refuse(&["compile", "frame.ptx", "--arch", "sm_91", "-o", "out"], "sm_91 is not a target that Oriole compiles for; there are sm_70");
    // The exit status is the same in all commands: 2 for files that cannot be read, 1 for contents that are wrong.
    for arguments in [&["run", "missing"][..], &["rescore", "missing", "-o", "out"], &["verify", "missing"], &["disasm", "missing"]] {
        refuse(arguments, "");
    }
    for arguments in [&["run", "frame.ptx"][..], &["rescore", "frame.ptx", "-o", "out"], &["verify", "frame.ptx"], &["disasm", "frame.ptx"]]
    {
        assert_eq!(run(oriole, &folder, arguments, "").code, Some(1), "{arguments:?}");
    }
    let low = run(oriole, &folder, &["compile", "frame.ptx", "--maxrregcount", "5", "-o", "out"], "");
    assert_eq!(low.code, Some(0));
    assert!(low.stderr.contains("--maxrregcount 5 is less than 24"), "{}", low.stderr);
    assert_eq!(fs::read_to_string(folder.join("frame.ptx")).unwrap(), FRAME);
    assert_eq!(run(oriole, &folder, &["compile", "frame.ptx", "--entry", "k", "-o", "out"], "").code, Some(0));
}

/// A kernel whose index into a local array is not constant.
const FRAME: &str = "
.version 8.0
.target sm_75
.address_size 64
.visible .entry k(.param .u64 a, .param .u32 i)
{
    .local .align 4 .b8 array[64];
    .reg .b64 %a, %l, %o;
    .reg .b32 %i;
    ld.param.u64 %a, [a];
    ld.param.u32 %i, [i];
    mov.u64 %l, array;
    cvt.u64.u32 %o, %i;
    add.u64 %l, %l, %o;
    st.local.u32 [array+4], %i;
    st.local.u32 [%l], %i;
    ld.local.u32 %i, [array+4];
    st.global.u32 [%a], %i;
    ret;
}
";

/// `-v` says how many bytes are spilled, and says nothing where nothing is.
#[test]
fn verbose_output_names_spills() {
    let folder = folder("compile_spills");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/double_math.ptx");
    let arguments = |limit| ["compile", file.to_str().unwrap(), "--arch", "sm_90a", "--maxrregcount", limit, "-o", "out.cubin", "-v"];
    let spilled = run(env!("CARGO_BIN_EXE_oriole"), &folder, &arguments("24"), "");
    assert_eq!(spilled.code, Some(0), "{}", spilled.stderr);
    let data = run(env!("CARGO_BIN_EXE_oriole"), &folder, &[&arguments("24")[..8], &["--json"]].concat(), "");
    let mut spilling = 0;
    for object in data.stdout.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()) {
        let (name, stores, loads) = (&object["function"], &object["spill_store_bytes"], &object["spill_load_bytes"]);
        let name = name.as_str().unwrap();
        let text = format!(": {name}: registers are spilled to local memory: {stores} bytes of stores, {loads} bytes of loads\n");
        let spills = stores.as_u64() != Some(0) || loads.as_u64() != Some(0);
        assert_eq!(spilled.stderr.contains(&text), spills, "{name}: {}", spilled.stderr);
        spilling += usize::from(spills);
    }
    assert!(spilling > 0, "no function spills with 24 registers");
    let free = run(env!("CARGO_BIN_EXE_oriole"), &folder, &arguments("255"), "");
    assert!(!free.stderr.contains("spilled"), "{}", free.stderr);
}
