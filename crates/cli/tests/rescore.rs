//! Tests `oriole rescore`: what changes, what stays, and whether the result is correct, on our own code and on NVIDIA's.

mod common;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use common::{folder, run};
use oriole_cubin::Cubin;
use oriole_cubin::info::AttributeValue;
use oriole_cubin::section::Content;
use oriole_isa::Control;

const ORIOLE: &str = env!("CARGO_BIN_EXE_oriole");
const TARGETS: [&str; 5] = ["sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120a"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns every n-th kernel test, or with `ORIOLE_REFRESH` twice as many.
fn kernel_tests(every: usize) -> Vec<PathBuf> {
    let every = if oriole_oracles::compares_everything() { every / 2 } else { every };
    let families = fs::read_dir(root().join("tests/kernels")).unwrap().map(|entry| entry.unwrap().path());
    let mut tests: Vec<PathBuf> = families.flat_map(|family| fs::read_dir(family).unwrap().map(|entry| entry.unwrap().path())).collect();
    tests.sort();
    tests.into_iter().step_by(every).collect()
}

fn rescore(folder: &Path, more: &[&str]) -> common::Outcome {
    run(ORIOLE, folder, &[&["rescore", "in.cubin", "-o", "out.cubin"], more].concat(), "")
}

fn bytes(folder: &Path, name: &str) -> Vec<u8> {
    fs::read(folder.join(name)).unwrap()
}

/// Asserts that two files differ only in the control words of functions.
fn assert_only_control_differs(old: &[u8], new: &[u8]) {
    let cubin = Cubin::read(old).unwrap();
    let places = cubin.places().unwrap();
    let mut masked: Vec<Vec<u8>> = [old, new].map(<[u8]>::to_vec).into();
    for function in cubin.functions() {
        let start = places[function.section].offset as usize;
        for file in &mut masked {
            for word in file[start..start + function.code.len()].chunks_exact_mut(16) {
                let bits = u128::from_le_bytes((*word).try_into().unwrap()) & !Control::MASK;
                word.copy_from_slice(&bits.to_le_bytes());
            }
        }
    }
    assert!(masked[0] == masked[1], "more than control words differ");
}

fn assert_verified(folder: &Path, what: &str) {
    let verified = run(ORIOLE, folder, &["verify", "out.cubin"], "");
    assert_eq!(verified.code, Some(0), "{what}: {}", verified.stdout);
    assert!(verified.stdout.contains("\n0 findings in "), "{what}: {}", verified.stdout);
}

fn assert_runs(folder: &Path, test: &str, target: &str) {
    let ran = run(ORIOLE, folder, &["run", test, "--engine", "sass", "--arch", target, "--cubin", "out.cubin", "--hazards"], "");
    assert_eq!(ran.code, Some(0), "{test} for {target}: {}{}", ran.stdout, ran.stderr);
}

#[test]
fn optimized_code_of_our_own_stays_as_it_is() {
    let folder = folder("rescore_fixed_point");
    let mut compared = 0;
    for (number, test) in kernel_tests(120).iter().enumerate() {
        let (test, target) = (test.display().to_string(), TARGETS[number % TARGETS.len()]);
        if run(ORIOLE, &folder, &["compile", &test, "--arch", target, "-o", "in.cubin"], "").code != Some(0) {
            continue;
        }
        let done = rescore(&folder, &[]);
        assert_eq!(done.code, Some(0), "{test}: {}", done.stderr);
        assert!(bytes(&folder, "in.cubin") == bytes(&folder, "out.cubin"), "{test} for {target} changes");
        compared += 1;
    }
    assert!(compared > 10, "only {compared} compared");
}

#[test]
fn plain_code_of_our_own_gets_shorter_and_still_runs() {
    let folder = folder("rescore_plain");
    for (number, test) in kernel_tests(210).iter().enumerate() {
        let (test, target) = (test.display().to_string(), TARGETS[number % TARGETS.len()]);
        if run(ORIOLE, &folder, &["compile", &test, "--arch", target, "-O0", "-o", "in.cubin"], "").code != Some(0) {
            continue;
        }
        let done = rescore(&folder, &["--json"]);
        assert_eq!(done.code, Some(0), "{test}: {}", done.stderr);
        for line in done.stdout.lines() {
            let figures: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(figures["after"]["stalls"].as_u64() < figures["before"]["stalls"].as_u64(), "{test}: {line}");
        }
        assert_only_control_differs(&bytes(&folder, "in.cubin"), &bytes(&folder, "out.cubin"));
        assert_verified(&folder, &test);
        assert_runs(&folder, &test, target);
    }
}

#[test]
fn functions_that_cannot_be_decoded_stay_and_are_named() {
    let folder = folder("rescore_unknown");
    let ptx = ".version 8.0\n.target sm_80\n.address_size 64\n\
        .visible .entry one(.param .u64 p) { .reg .b64 %l; ld.param.u64 %l, [p]; st.global.u64 [%l], %l; ret; }\n\
        .visible .entry two(.param .u64 p) { .reg .b64 %l; ld.param.u64 %l, [p]; st.global.u64 [%l], %l; ret; }\n";
    let compiled = run(ORIOLE, &folder, &["compile", "-", "--arch", "sm_90a", "-O0", "-o", "in.cubin"], ptx);
    assert_eq!(compiled.code, Some(0), "{}", compiled.stderr);
    let mut file = bytes(&folder, "in.cubin");
    let cubin = Cubin::read(&file).unwrap();
    let place = cubin.places().unwrap()[cubin.find(".text.two").unwrap()].offset as usize;
    file[place + 0x20..place + 0x30].fill(0xff);
    fs::write(folder.join("in.cubin"), &file).unwrap();
    let done = rescore(&folder, &[]);
    assert_eq!(done.code, Some(1));
    assert!(done.stderr.contains("two stays as it is: 0x0020: the instruction table does not know this word"), "{}", done.stderr);
    let new = bytes(&folder, "out.cubin");
    let code = |file: &[u8], name: &str| Cubin::read(file).unwrap().functions().find(|one| one.name == name).unwrap().code.to_vec();
    assert!(code(&file, "two") == code(&new, "two"));
    assert!(code(&file, "one") != code(&new, "one"));
    let one = rescore(&folder, &["--function", "one"]);
    assert_eq!(one.code, Some(0), "{}", one.stderr);
    assert!(bytes(&folder, "out.cubin") == new);
}

#[test]
fn wrong_calls_are_told_apart() {
    let folder = folder("rescore_calls");
    fs::write(folder.join("in.cubin"), "no cubin").unwrap();
    let done = rescore(&folder, &[]);
    assert_eq!(done.code, Some(1));
    assert!(done.stderr.starts_with("error: in.cubin: "), "{}", done.stderr);
    let ptx = common::module("sm_80", "k", "mov.b32 %r0, 1;");
    run(ORIOLE, &folder, &["compile", "-", "--arch", "sm_90a", "-o", "in.cubin"], &ptx);
    let missing = rescore(&folder, &["--function", "other"]);
    assert_eq!((missing.code, missing.stderr.as_str()), (Some(2), "error: in.cubin: the cubin has no function `other`\n"));
    let nothing = run(ORIOLE, &folder, &["rescore", "in.cubin"], "");
    assert_eq!(nothing.code, Some(2));
}

#[test]
fn a_table_of_figures() {
    let folder = folder("rescore_stats");
    let ptx = common::module("sm_80", "k", "mov.b32 %r0, 1;");
    run(ORIOLE, &folder, &["compile", "-", "--arch", "sm_90a", "-O0", "-o", "in.cubin"], &ptx);
    let done = run(ORIOLE, &folder, &["rescore", "in.cubin", "--stats"], "");
    let lines: Vec<&str> = done.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{}", done.stdout);
    assert!(lines[0].starts_with("function  instructions ") && lines[1].starts_with("k "), "{}", done.stdout);
}

fn bounded(tool: &Path, arguments: &[&str], folder: &Path) -> bool {
    let command = format!("ulimit -v 6000000; exec timeout 60 {} \"$@\"", tool.display());
    Command::new("sh").args(["-c", &command, "sh"]).args(arguments).current_dir(folder).output().unwrap().status.success()
}

/// Returns for each function its words without control bits, and the references of the file to its instructions, with the words there.
fn described(file: &[u8]) -> Vec<(String, Vec<u128>, BTreeSet<String>)> {
    let cubin = Cubin::read(file).unwrap();
    let mut found = Vec::new();
    for function in cubin.functions() {
        let words: Vec<u128> =
            function.code.chunks_exact(16).map(|word| u128::from_le_bytes(word.try_into().unwrap()) & !Control::MASK).collect();
        let mut places = BTreeSet::new();
        for (number, attribute) in cubin.function_attributes(function.name).iter().enumerate() {
            let name = attribute.code.name().unwrap_or_default();
            match &attribute.value {
                AttributeValue::Words(list) if name.ends_with("INSTR_OFFSETS") || name == "SYSCALL_OFFSETS" => {
                    assert!(list.is_sorted(), "{}: {name} {list:x?}", function.name);
                    places.extend(
                        list.iter()
                            .enumerate()
                            .map(|(index, &at)| format!("{name} {} {:x}", count(list, &words, index), words[at as usize / 16])),
                    );
                }
                AttributeValue::Mbarriers(list) => places.extend(list.iter().enumerate().map(|(index, one)| {
                    format!("{name} {index} {:x} {} {} {:?}", words[one.instruction as usize / 16], one.register, one.offset, one.kind)
                })),
                AttributeValue::BranchTargets(list) => places.extend(list.iter().map(|one| format!("{name} {number} {one:?}"))),
                _ => {}
            }
        }
        for table in cubin.sections().iter().filter(|table| table.info as usize == function.section) {
            let Content::Relocations(list) = &table.content else { continue };
            for one in list.iter().filter(|one| !one.relocation_type.is_mercury()) {
                let (at, rest) = (one.offset as usize / 16, one.offset % 16);
                places.insert(format!("{} {rest} {:?} {} {:?}", words[at], one.relocation_type, one.symbol, one.addend));
            }
        }
        found.push((function.name.to_owned(), words, places));
    }
    found
}

/// Returns the number of earlier addresses in a list that have the same word.
fn count(list: &[u32], words: &[u128], index: usize) -> usize {
    let word = |at: u32| words[at as usize / 16];
    list[..index].iter().filter(|&&at| word(at) == word(list[index])).count()
}

/// Asserts that every function has the same instructions and that all references still refer to the same ones. Returns how many moved.
fn assert_only_order_differs(old: &[u8], new: &[u8], what: &str) -> usize {
    assert_eq!(old.len(), new.len(), "{what}");
    let mut moved = 0;
    for ((name, old, old_places), (_, new, new_places)) in described(old).into_iter().zip(described(new)) {
        moved += old.iter().zip(&new).filter(|(old, new)| old != new).count();
        let sorted = |mut words: Vec<u128>| {
            words.sort_unstable();
            words
        };
        assert!(sorted(old) == sorted(new), "{what}: {name} has other instructions");
        assert_eq!(old_places, new_places, "{what}: {name}");
    }
    moved
}

#[test]
fn unscheduled_code_of_our_own_gets_a_new_order_and_still_runs() {
    let folder = folder("rescore_schedule");
    let mut moved = 0;
    for (number, test) in kernel_tests(90).iter().enumerate() {
        let (test, target) = (test.display().to_string(), TARGETS[number % TARGETS.len()]);
        let compile = ["compile", &test, "--arch", target, "--sched-mode", "off", "-o", "in.cubin"];
        if run(ORIOLE, &folder, &compile, "").code != Some(0) {
            continue;
        }
        let done = rescore(&folder, &["--schedule=always"]);
        assert_eq!(done.code, Some(0), "{test}: {}", done.stderr);
        let here = assert_only_order_differs(&bytes(&folder, "in.cubin"), &bytes(&folder, "out.cubin"), &test);
        assert_eq!(here > 0, done.stdout.contains(" in a new order, "), "{test}: {}", done.stdout);
        moved += here;
        if here > 0 {
            assert_verified(&folder, &test);
            assert_runs(&folder, &test, target);
        }
    }
    assert!(moved > 100, "only {moved} instructions moved");
}

#[test]
fn figures_of_a_schedule() {
    let folder = folder("rescore_schedule_figures");
    let load = |number: usize| {
        format!("ld.global.f32 %f{number}, [%l0+{}]; add.f32 %f9, %f9, %f{number}; st.global.f32 [%l1+{}], %f9;", number * 512, number * 4)
    };
    let ptx = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry sum(.param .u64 p, .param .u64 q) {{\n\
        .reg .b64 %l<2>; .reg .f32 %f<10>;\nld.param.u64 %l0, [p]; ld.param.u64 %l1, [q]; mov.f32 %f9, 0f00000000;\n{}ret; }}\n",
        (0..4).map(load).collect::<String>()
    );
    // Stores in between may alias the loads, so only address computations can move, and there is nothing to gain.
    let compiled = run(ORIOLE, &folder, &["compile", "-", "--arch", "sm_90a", "--sched-mode", "off", "-o", "in.cubin"], &ptx);
    assert_eq!(compiled.code, Some(0), "{}", compiled.stderr);
    let done = rescore(&folder, &["--schedule", "--json"]);
    let figures: serde_json::Value = serde_json::from_str(done.stdout.lines().next().unwrap()).unwrap();
    let schedule = &figures["schedule"];
    assert!(schedule["predicted_cycles_after"].as_u64() <= schedule["predicted_cycles_before"].as_u64(), "{schedule}");
    assert!(schedule["kept"].is_null() && schedule["blocks"].as_u64() >= Some(1), "{schedule}");
    // Without stores all loads can be in flight at the same time.
    let ptx = ptx
        .replace("st.global.f32 [%l1+0], %f9;", "")
        .replace("st.global.f32 [%l1+4], %f9;", "")
        .replace("st.global.f32 [%l1+8], %f9;", "");
    run(ORIOLE, &folder, &["compile", "-", "--arch", "sm_90a", "--sched-mode", "off", "-o", "in.cubin"], &ptx);
    let done = rescore(&folder, &["--schedule", "--json"]);
    let figures: serde_json::Value = serde_json::from_str(done.stdout.lines().next().unwrap()).unwrap();
    let schedule = &figures["schedule"];
    let cycles = |name: &str| schedule[name].as_u64().unwrap();
    assert!(cycles("predicted_cycles_after") + 300 < cycles("predicted_cycles_before"), "{schedule}");
    assert!(cycles("blocks_reordered") == 1 && cycles("instructions_moved") > 2, "{schedule}");
    let done = rescore(&folder, &["--schedule"]);
    let text = format!("predicted cycles {} → {}", cycles("predicted_cycles_before"), cycles("predicted_cycles_after"));
    assert!(done.stdout.starts_with("sum: 1 of ") && done.stdout.trim_end().ends_with(&text), "{}", done.stdout);
    // Without --schedule nothing is reported about it.
    let done = rescore(&folder, &["--json"]);
    let figures: serde_json::Value = serde_json::from_str(done.stdout.lines().next().unwrap()).unwrap();
    assert!(figures["schedule"].is_null());
}

#[test]
fn kernel_tests_of_the_vendor_run_in_a_new_order() {
    let Some(ptxas) = oriole_oracles::tool("ptxas") else { return };
    let folder = folder("rescore_schedule_kernel_tests");
    let (mut ran, mut moved) = (0, 0);
    for (number, test) in kernel_tests(62).iter().enumerate() {
        let (test, target) = (test.display().to_string(), ["sm_90a", "sm_75", "sm_80", "sm_120a"][number % 4]);
        let made = bounded(&ptxas, &[&format!("-arch={target}"), &test, "-o", "in.cubin"], &folder);
        if !made || WRONG_ANYWAY.iter().any(|name| test.contains(name)) {
            continue;
        }
        let done = rescore(&folder, &["--schedule=always"]);
        assert_eq!(done.code, Some(0), "{test}: {}", done.stderr);
        moved += usize::from(assert_only_order_differs(&bytes(&folder, "in.cubin"), &bytes(&folder, "out.cubin"), &test) > 0);
        assert_verified(&folder, &test);
        assert_runs(&folder, &test, target);
        ran += 1;
    }
    assert!(ran > 25 && moved > 20, "{ran} ran, {moved} in a new order");
}

/// Returns each instruction without its control word, with its PTX line, its source line and the calls through which it was inlined; sorted.
fn positions(cubin: &[u8]) -> Vec<(u128, Vec<String>)> {
    let cubin = Cubin::read(cubin).unwrap();
    let mut found = Vec::new();
    let tables = [".debug_line", ".nv_debug_line_sass"].map(|name| oriole_cubin::debug::read_lines(&cubin, name).unwrap());
    for function in cubin.functions() {
        for (number, word) in function.code.as_chunks::<16>().0.iter().enumerate() {
            let mut chain = Vec::new();
            for table in &tables {
                if let Some(position) = table.find(function.section, number as u64 * 16) {
                    let describe =
                        |position| format!("{}:{} {:?}", table.file_name(position), position.line, table.function_name(position));
                    chain.extend(table.call_chain(position).map(describe));
                }
            }
            found.push((u128::from_le_bytes(*word) & !Control::MASK, chain));
        }
    }
    found.sort();
    found
}

/// Every instruction keeps its PTX line, source line and inlined calls in a new order, in code of ptxas and in ours. nvdisasm, which takes
/// seconds, reads one of both for each file, or with `ORIOLE_REFRESH` both.
#[test]
fn line_tables_follow_a_new_order() {
    let Some(ptxas) = oriole_oracles::tool("ptxas") else { return };
    let nvdisasm = oriole_oracles::tool("nvdisasm").expect("nvdisasm is next to ptxas");
    let folder = folder("rescore_schedule_lines");
    let files = ["bench/kernels/matmul_registers.ptx", "corpus/softmax_layernorm.lineinfo.ptx", "examples/stories/registers_after.ptx"];
    for (number, file) in files.into_iter().enumerate() {
        let test = root().join(file).display().to_string();
        for is_own in [false, true] {
            let compiled = match is_own {
                true => run(ORIOLE, &folder, &["compile", &test, "-o", "in.cubin", "--arch", "sm_90a", "--lineinfo"], "").code == Some(0),
                false => bounded(&ptxas, &["-arch=sm_90a", "-lineinfo", &test, "-o", "in.cubin"], &folder),
            };
            assert!(compiled, "{test}");
            let done = rescore(&folder, &["--schedule=always"]);
            assert_eq!(done.code, Some(0), "{test} {}", done.stderr);
            assert!(done.stdout.contains("in a new order, "), "{test}: {}", done.stdout);
            let (old, new) = (bytes(&folder, "in.cubin"), bytes(&folder, "out.cubin"));
            let (before, after) = (positions(&old), positions(&new));
            assert!(before.iter().filter(|(_, chain)| !chain.is_empty()).count() > 100, "{test}");
            let different = before.iter().zip(&after).position(|(one, two)| one != two);
            assert!(before.len() == after.len() && different.is_none(), "{test} {is_own}: {different:?}");
            assert_verified(&folder, &test);
            if is_own != (number == 0) && !oriole_oracles::compares_everything() {
                continue;
            }
            // NVIDIA's disassembler reads the new tables and names the same lines.
            let lines = |name: &str| -> BTreeSet<String> {
                let output = Command::new(&nvdisasm).args(["-gi", name]).current_dir(&folder).output().unwrap();
                assert!(output.status.success(), "{test}: {}", String::from_utf8_lossy(&output.stderr));
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                text.lines().filter(|line| line.contains("//##")).map(|line| line.trim().to_owned()).collect()
            };
            assert_eq!(lines("in.cubin"), lines("out.cubin"), "{test}");
        }
    }
}

/// Debug information of variables has addresses that are not updated.
#[test]
fn functions_with_debug_information_keep_their_order() {
    let folder = folder("rescore_schedule_debug");
    let test = root().join("corpus/softmax_layernorm.lineinfo.ptx").display().to_string();
    let compiled = run(ORIOLE, &folder, &["compile", &test, "-o", "in.cubin", "--arch", "sm_90a", "-g"], "");
    assert_eq!(compiled.code, Some(0), "{}", compiled.stderr);
    let has_info = Cubin::read(&bytes(&folder, "in.cubin")).unwrap().find(".debug_info").is_some();
    let done = rescore(&folder, &["--schedule=always"]);
    assert_eq!(done.stdout.contains("the order stays; its debug information"), has_info, "{}", done.stdout);
    assert_eq!(positions(&bytes(&folder, "in.cubin")), positions(&bytes(&folder, "out.cubin")));
}

/// Wrong at -O3, rescored or not: see docs/kernel-tests.md, and docs/differences.md for video instructions. The last ones have an instruction on
/// sm_120a that is not simulated (`MOVM.U4TO8.M832`).
const WRONG_ANYWAY: [&str; 7] =
    ["no_rotate_64", "szext_", "_tf32_f32", "rp_ftz_", "kernels/video/", "mma_m8n8k128_b1", "wmma_m8n8k128_s32_b1"];

#[test]
fn kernel_tests_of_the_vendor_run_with_our_control_words() {
    let Some(ptxas) = oriole_oracles::tool("ptxas") else { return };
    let folder = folder("rescore_kernel_tests");
    let mut ran = 0;
    for (number, test) in kernel_tests(90).iter().enumerate() {
        let (test, target) = (test.display().to_string(), ["sm_75", "sm_80", "sm_90a", "sm_120a"][number % 4]);
        let made = bounded(&ptxas, &[&format!("-arch={target}"), &test, "-o", "in.cubin"], &folder);
        if !made || WRONG_ANYWAY.iter().any(|name| test.contains(name)) {
            continue;
        }
        let done = rescore(&folder, &[]);
        assert_eq!(done.code, Some(0), "{test}: {}", done.stderr);
        assert_runs(&folder, &test, target);
        ran += 1;
    }
    assert!(ran > 20, "only {ran} ran");
}

#[test]
fn the_corpus_as_the_vendor_compiles_it_is_clean_with_our_control_words() {
    let Some(ptxas) = oriole_oracles::tool("ptxas") else { return };
    let folder = folder("rescore_corpus");
    let mut files: Vec<PathBuf> = fs::read_dir(root().join("corpus")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "ptx"));
    files.sort();
    let mut rescored = 0;
    // Each target gets other files.
    let step = if oriole_oracles::compares_everything() { 1 } else { 2 };
    for (number, file) in files.iter().step_by(step).enumerate() {
        let target = TARGETS[number % TARGETS.len()];
        let text = fs::read_to_string(file).unwrap();
        let lines = text.lines().map(|line| if line.starts_with(".target") { format!(".target {target}\n") } else { format!("{line}\n") });
        fs::write(folder.join("in.ptx"), lines.collect::<String>()).unwrap();
        if !bounded(&ptxas, &[&format!("-arch={target}"), "in.ptx", "-o", "in.cubin"], &folder) {
            continue;
        }
        let done = rescore(&folder, &[]);
        assert_eq!(done.code, Some(0), "{}: {}", file.display(), done.stderr);
        assert_only_control_differs(&bytes(&folder, "in.cubin"), &bytes(&folder, "out.cubin"));
        assert_verified(&folder, &file.display().to_string());
        rescored += 1;
    }
    assert!(rescored > 15, "only {rescored} rescored");
}
