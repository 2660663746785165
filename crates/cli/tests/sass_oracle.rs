//! Compares listings with nvdisasm's, and files with their reassembled listings, for the code that ptxas generates for the corpus. Skipped
//! if the tools are missing; `ORIOLE_REFRESH=1` uses every file, target and option.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::common::{folder, run};

const ORIOLE: &str = env!("CARGO_BIN_EXE_oriole");

const TARGETS: [&str; 14] = [
    "sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_103a", "sm_110a", "sm_120", "sm_120a",
    "sm_121a",
];
const OPTIONS: [&str; 4] = ["-O3", "-O0", "-c", "-g"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs a tool with limits on memory and time.
fn bounded(tool: &Path, arguments: &[&str], folder: &Path) -> Option<String> {
    let command = format!("ulimit -v 6000000; exec timeout 60 {} \"$@\"", tool.display());
    let output = Command::new("sh").args(["-c", &command, "sh"]).args(arguments).current_dir(folder).output().unwrap();
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the corpus, or a part of it, with a target and an option for each compilation.
fn jobs() -> Vec<(PathBuf, &'static str, &'static str)> {
    let everything = env::var_os("ORIOLE_REFRESH").is_some();
    let mut files = Vec::new();
    for folder in ["corpus", "corpus/handwritten"] {
        let entries = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
        files.extend(entries.filter(|file| file.extension().is_some_and(|extension| extension == "ptx")));
    }
    files.sort();
    let mut jobs = Vec::new();
    for (index, file) in files.iter().enumerate() {
        for (number, target) in TARGETS.into_iter().enumerate() {
            for (position, option) in OPTIONS.into_iter().enumerate() {
                if everything || (index * 5 + number * 3 + position * 7) % 797 == 0 {
                    jobs.push((file.clone(), target, option));
                }
            }
        }
    }
    jobs
}

#[derive(Default)]
struct Counts {
    files: usize,
    lines: usize,
    same: usize,
    unknown: usize,
}

fn squeeze(line: &str) -> String {
    line.split_whitespace().collect()
}

#[test]
fn listings_and_rebuilt_files() {
    let (Some(ptxas), Some(nvdisasm)) = (oriole_oracles::tool("ptxas"), oriole_oracles::tool("nvdisasm")) else { return };
    let folder = folder("sass-oracle");
    let mut counts: BTreeMap<&str, Counts> = BTreeMap::new();
    let mut shown = 0;
    for (file, target, option) in jobs() {
        let ptx: String = fs::read_to_string(&file).unwrap().lines().map(|line| retarget(line, target)).collect();
        fs::write(folder.join("in.ptx"), ptx).unwrap();
        let arch = format!("-arch={target}");
        if bounded(&ptxas, &[&arch, option, "in.ptx", "-o", "in.cubin"], &folder).is_none() {
            continue;
        }
        let name = format!("{} for {target} with {option}", file.file_name().unwrap().to_string_lossy());
        let control = run(ORIOLE, &folder, &["disasm", "--control", "in.cubin"], "");
        let built = run(ORIOLE, &folder, &["asm", "-", "-o", "out.cubin"], &control.stdout);
        assert_eq!(built.code, Some(0), "{name}: {}", built.stderr);
        assert!(fs::read(folder.join("out.cubin")).unwrap() == fs::read(folder.join("in.cubin")).unwrap(), "{name} is not rebuilt");
        let Some(theirs) = bounded(&nvdisasm, &["-c", "in.cubin"], &folder) else { continue };
        let ours = run(ORIOLE, &folder, &["disasm", "in.cubin"], "").stdout;
        let counts = counts.entry(target).or_default();
        counts.files += 1;
        for (ours, theirs) in ours.trim_end().lines().zip(theirs.lines()) {
            counts.lines += 1;
            if squeeze(ours) == squeeze(theirs) {
                counts.same += 1;
            } else if ours.contains(".raw 0x") {
                counts.unknown += 1;
            } else if shown < 20 {
                shown += 1;
                println!("{name}\n  nvdisasm {}\n  oriole   {}", theirs.trim(), ours.trim());
            }
        }
    }
    let mut poor = Vec::new();
    for (target, Counts { files, lines, same, unknown }) in &counts {
        let rate = 100.0 * *same as f64 / *lines as f64;
        println!("{target}: {files} files, {lines} lines, {rate:.2}% as nvdisasm prints them, {unknown} of unknown words");
        // Known words must print correctly, except for a few incomplete rows of the table.
        if (*lines - same - unknown) as f64 > 0.02 * *lines as f64 {
            poor.push(*target);
        }
    }
    assert!(poor.is_empty(), "too many differences for {poor:?}");
}

fn retarget(line: &str, target: &str) -> String {
    match line {
        _ if line.starts_with(".target") => format!(".target {target}\n"),
        _ if line.starts_with(".version") => ".version 9.0\n".to_string(),
        _ => format!("{line}\n"),
    }
}
