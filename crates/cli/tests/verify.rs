//! Tests `oriole verify` on code with and without hazards, ours and NVIDIA's.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::common::{folder, run};

const ORIOLE: &str = env!("CARGO_BIN_EXE_oriole");
const TARGETS: [&str; 7] = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"];
/// The targets for which ptxas compiles, unless `ORIOLE_REFRESH` is set: the corpus takes thousands of calls.
const VENDOR_SAMPLE: [&str; 3] = ["sm_80", "sm_90a", "sm_120a"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn example(name: &str) -> String {
    root().join("examples").join(name).display().to_string()
}

#[test]
fn our_own_code_is_clean_on_every_target_and_level() {
    let folder = folder("verify_own");
    for target in TARGETS.into_iter().filter(|target| *target != "sm_75") {
        for level in ["-O0", "-O3"] {
            for name in ["block_sum.ptx", "saxpy.ptx"] {
                let compiled = run(ORIOLE, &folder, &["compile", &example(name), "--arch", target, level, "-o", "own.cubin"], "");
                assert_eq!(compiled.code, Some(0), "{}", compiled.stderr);
                let verified = run(ORIOLE, &folder, &["verify", "own.cubin"], "");
                assert_eq!(verified.code, Some(0), "{target} {level} {name}: {}", verified.stdout);
                assert!(verified.stdout.contains("\n0 findings in "), "{}", verified.stdout);
            }
        }
    }
}

#[test]
fn a_wait_taken_out_is_found() {
    let folder = folder("verify_edited");
    run(ORIOLE, &folder, &["compile", &example("saxpy.ptx"), "--arch", "sm_90a", "-o", "own.cubin"], "");
    let listing = run(ORIOLE, &folder, &["disasm", "--control", "own.cubin"], "").stdout;
    let load = listing.lines().enumerate().filter(|(_, line)| line.contains("LDG")).map(|(at, _)| at).last().expect("saxpy loads");
    let lines: Vec<String> =
        listing.lines().enumerate().map(|(at, line)| if at == load + 1 { without_waits(line) } else { line.to_owned() }).collect();
    fs::write(folder.join("edited.sass"), lines.join("\n")).unwrap();
    let assembled = run(ORIOLE, &folder, &["asm", "edited.sass", "-o", "edited.cubin"], "");
    assert_eq!(assembled.code, Some(0), "{}", assembled.stderr);
    let verified = run(ORIOLE, &folder, &["verify", "edited.cubin"], "");
    assert_eq!(verified.code, Some(1), "{}", verified.stdout);
    assert!(verified.stdout.contains("without waiting for scoreboard"), "{}", verified.stdout);
    let json = run(ORIOLE, &folder, &["verify", "--json", "edited.cubin"], "").stdout;
    let first: serde_json::Value = serde_json::from_str(json.lines().next().expect("a finding")).unwrap();
    assert!(first["first_text"].as_str().unwrap().contains("LDG"), "{json}");
}

/// Returns a line of a listing with an empty wait mask.
fn without_waits(line: &str) -> String {
    let start = line.find("[B").expect("a control word") + 2;
    format!("{}------{}", &line[..start], &line[start + 6..])
}

#[test]
fn what_cannot_be_read_is_an_error() {
    let folder = folder("verify_broken");
    fs::write(folder.join("broken.cubin"), b"no cubin").unwrap();
    let verified = run(ORIOLE, &folder, &["verify", "broken.cubin"], "");
    assert_eq!(verified.code, Some(1));
    assert!(verified.stderr.contains("broken.cubin"), "{}", verified.stderr);
}

/// A file without GPU machine code must not count as verified.
#[test]
fn a_file_without_machine_code_is_an_error() {
    let folder = folder("verify_no_code");
    // The test program itself: an executable of the host.
    let host = env::current_exe().unwrap().display().to_string();
    // A cubin without functions.
    fs::write(folder.join("empty.ptx"), ".version 8.0\n.target sm_90\n.address_size 64\n").unwrap();
    let compiled = run(ORIOLE, &folder, &["compile", "empty.ptx", "-o", "empty.cubin"], "");
    assert_eq!(compiled.code, Some(0), "{}", compiled.stderr);
    for command in ["verify", "roundtrip", "disasm"] {
        for file in [&host[..], "empty.cubin"] {
            let outcome = run(ORIOLE, &folder, &[command, file], "");
            assert_eq!(outcome.code, Some(1), "{command}: {}", outcome.stdout);
            assert!(outcome.stderr.contains("there is no machine code"), "{command}: {}", outcome.stderr);
        }
    }
}

/// Cubins of unknown targets in a file do not keep the others from being verified.
#[test]
fn an_unknown_target_is_an_error_and_the_rest_is_verified() {
    let folder = folder("verify_unknown_target");
    run(ORIOLE, &folder, &["compile", &example("saxpy.ptx"), "--arch", "sm_90a", "-o", "own.cubin"], "");
    let mut cubin = fs::read(folder.join("own.cubin")).unwrap();
    // The target in the flags of the ELF header.
    let flags = cubin[48..52].iter().position(|&byte| byte == 90).expect("sm_90 in the flags") + 48;
    cubin[flags] = 77;
    fs::write(folder.join("unknown.cubin"), cubin).unwrap();
    let verified = run(ORIOLE, &folder, &["verify", "unknown.cubin", "own.cubin"], "");
    assert_eq!(verified.code, Some(1), "{}", verified.stdout);
    assert!(verified.stderr.contains("unknown.cubin: there is no table of instructions for sm_77"), "{}", verified.stderr);
    assert!(verified.stdout.contains("\n0 findings in ") && !verified.stdout.contains(" in 0 instructions"), "{}", verified.stdout);
}

/// Builds an uncompressed fatbin that contains these cubins.
fn fatbin(cubins: &[(u32, &[u8])]) -> Vec<u8> {
    let mut entries = Vec::new();
    for &(sm, cubin) in cubins {
        let size = cubin.len().next_multiple_of(8);
        entries.extend([2_u16, 0x101].iter().flat_map(|half| half.to_le_bytes()));
        entries.extend(64_u32.to_le_bytes());
        entries.extend((size as u64).to_le_bytes());
        entries.extend([0, 0, 8 << 16 | 1, sm].iter().flat_map(|word: &u32| word.to_le_bytes()));
        entries.extend([0; 32]);
        entries.extend(cubin);
        entries.resize(entries.len().next_multiple_of(8), 0);
    }
    let mut file = 0xba55_ed50_u32.to_le_bytes().to_vec();
    file.extend([1_u16, 16].iter().flat_map(|half| half.to_le_bytes()));
    file.extend((entries.len() as u64).to_le_bytes());
    file.extend(entries);
    file
}

/// The same for `oriole disasm` and the cubins of one file.
#[test]
fn an_unknown_target_is_an_error_and_the_rest_is_disassembled() {
    let folder = folder("disasm_unknown_target");
    run(ORIOLE, &folder, &["compile", &example("saxpy.ptx"), "--arch", "sm_90a", "-o", "own.cubin"], "");
    let own = fs::read(folder.join("own.cubin")).unwrap();
    let mut unknown = own.clone();
    unknown[49] = 77;
    fs::write(folder.join("both.fatbin"), fatbin(&[(77, &unknown), (90, &own)])).unwrap();
    let both = run(ORIOLE, &folder, &["disasm", "both.fatbin"], "");
    assert_eq!(both.code, Some(1), "{}", both.stdout);
    assert_eq!(both.stderr, "error: both.fatbin: there is no table of instructions for sm_77a\n");
    let alone = run(ORIOLE, &folder, &["disasm", "own.cubin"], "");
    assert!(alone.code == Some(0) && both.stdout.ends_with(&alone.stdout), "{}", both.stdout);
}

/// Returns the corpus and some of the kernel tests, which are for all targets.
fn sources(root: &Path) -> Vec<PathBuf> {
    let files = |folder: &Path| -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    };
    let is_ptx = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "ptx");
    let corpus = files(&root.join("corpus")).into_iter().filter(is_ptx);
    let tests = files(&root.join("tests/kernels")).into_iter().flat_map(|family| files(&family)).filter(is_ptx);
    corpus.chain(tests.skip(20).step_by(40)).collect()
}

#[test]
fn the_vendors_code_is_clean() {
    let Some(ptxas) = oriole_oracles::tool("ptxas") else { return };
    let folder = folder("verify_vendor");
    let sources = sources(&root());
    let targets = oriole_oracles::targets_to_compare(&TARGETS, &VENDOR_SAMPLE);
    let check = |target: &str| {
        let mut cubins = Vec::new();
        // Every other file for one of the targets, every fourth for the others, and other ones for each target.
        let step = match target {
            _ if oriole_oracles::compares_everything() => 1,
            "sm_90a" => 2,
            _ => 4,
        };
        let first = targets.iter().position(|other| *other == target).unwrap_or_default() % step;
        for source in sources.iter().skip(first).step_by(step) {
            let out = format!("{}.{target}.cubin", source.file_stem().unwrap().display());
            let command = format!("ulimit -v 6000000; exec timeout 60 {} \"$@\"", ptxas.display());
            let arguments = ["-arch", target, &source.display().to_string(), "-o", &out].map(str::to_owned);
            let status = Command::new("sh").args(["-c", &command, "sh"]).args(arguments).current_dir(&folder).output().unwrap().status;
            if status.success() {
                cubins.push(out);
            }
        }
        assert!(cubins.len() >= 20, "{target}: only {} files of the corpus are for it", cubins.len());
        let arguments: Vec<&str> = ["verify"].into_iter().chain(cubins.iter().map(String::as_str)).collect();
        let verified = run(ORIOLE, &folder, &arguments, "");
        assert_eq!(verified.code, Some(0), "{target}: {}", verified.stdout);
    };
    std::thread::scope(|scope| targets.iter().for_each(|target| drop(scope.spawn(|| check(target)))));
}

/// Files of CUDA 12 store the number of named barriers in another place than those of CUDA 13.
#[test]
fn barriers_of_older_files_are_known() {
    let folder = folder("verify_cuda12");
    for name in ["barriers.sm_80.cubin", "barriers.sm_90a.cubin"] {
        let path = root().join("crates/cubin/tests/data/cuda12").join(name);
        let path = path.to_str().unwrap();
        let verified = run(ORIOLE, &folder, &["verify", path], "");
        assert_eq!(verified.code, Some(0), "{name}: {}", verified.stdout);
        let rescored = run(ORIOLE, &folder, &["rescore", path, "-o", "new.cubin"], "");
        assert_eq!(rescored.code, Some(0), "{name}: {}", rescored.stderr);
        // Without the number, both barriers of the kernel `two` are more than it has.
        let mut cubin = oriole_cubin::Cubin::read(&fs::read(path).unwrap()).unwrap();
        let section = cubin.find(".text.two").unwrap();
        cubin.section_mut(section).unwrap().flags &= !oriole_cubin::section::flags::BARRIERS;
        fs::write(folder.join("edited.cubin"), cubin.write().unwrap()).unwrap();
        let verified = run(ORIOLE, &folder, &["verify", "edited.cubin"], "");
        assert_eq!(verified.stdout.matches("uses a barrier that the function does not have; it has 0").count(), 2, "{}", verified.stdout);
    }
}
