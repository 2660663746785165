//! Compares the length of the code of texture and surface kernels, and the registers that they take, with ptxas.
//!
//! `texture_counts.txt` has the counts of ptxas. If ptxas is there, the test compiles the kernels with it and compares the counts with the
//! table; `ORIOLE_BLESS=1` rewrites it. Instructions are counted without the branch to itself and the padding at the end of a function.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use oriole_cubin::{Cubin, CubinIndex};
use oriole_driver::{Options, compile};
use oriole_isa::{Opcode, Target, decode};

/// The targets, and the first of the modules that compile for each. ptxas has the same counts for sm_89 as for sm_86.
const TARGETS: [(&str, usize); 4] = [("sm_75", 3), ("sm_80", 0), ("sm_86", 0), ("sm_90", 0)];

/// The greatest permitted ratio of Oriole's counts to those of ptxas, as a ratio of sums and as a geometric mean.
const MAX_RATIO: f64 = 1.05;

/// The greatest permitted ratio of the instructions of a single kernel.
const MAX_KERNEL_RATIO: f64 = 1.1;

/// The modules, relative to the root of the project. The last four are for sm_75 and later, the others for sm_80 and later.
const MODULES: [&str; 7] = [
    "corpus/textures.ptx",
    "corpus/texture_imaging.ptx",
    "corpus/texture_volumes.ptx",
    "filetests/run/texture_fetches.ptx",
    "filetests/run/texture_filters.ptx",
    "filetests/run/texture_offsets.ptx",
    "filetests/run/surface_accesses.ptx",
];

const HEADER: &str = "\
# Instructions and registers of ptxas 13.0.88 at -O3: target, kernel, instructions, registers.
# Written by `ORIOLE_BLESS=1 cargo test -p oriole-driver --test it texture_counts` with ORIOLE_ORACLES.
";

/// The counts of one kernel.
#[derive(Clone, PartialEq, Debug)]
struct KernelCounts {
    target: &'static str,
    kernel: String,
    instructions: u32,
    registers: u32,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the counts of the kernels of a cubin for a target, by name.
fn counts(target: &'static str, bytes: &[u8]) -> Vec<KernelCounts> {
    let cubin = Cubin::read(bytes).unwrap();
    let index = CubinIndex::new(&cubin);
    let isa = Target::parse(target).unwrap();
    let mut found: Vec<KernelCounts> = cubin
        .kernels()
        .map(|kernel| {
            let words = kernel.code.chunks_exact(16).map(|chunk| u128::from_le_bytes(chunk.try_into().unwrap()));
            let opcodes: Vec<Opcode> = words.map(|word| decode(word, isa).unwrap().opcode).collect();
            let padding = opcodes.iter().rev().take_while(|&&opcode| opcode == Opcode::NOP).count();
            let code = &opcodes[..opcodes.len() - padding];
            assert_eq!(code.last(), Some(&Opcode::BRA), "{} ends with a branch to itself", kernel.name);
            let registers = index.register_count(kernel.symbol).unwrap();
            KernelCounts { target, kernel: kernel.name.to_owned(), instructions: code.len() as u32 - 1, registers }
        })
        .collect();
    found.sort_by(|a, b| a.kernel.cmp(&b.kernel));
    found
}

fn compiled(target: &str, text: &str) -> Vec<u8> {
    let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
    assert!(checked.is_valid(), "{:?}", checked.diagnostics.first());
    compile(&[&checked.module], &Options::new(Target::parse(target).unwrap())).unwrap().cubin
}

/// Returns the counts of ptxas for all modules; `None` without ptxas.
fn counts_of_ptxas() -> Option<Vec<KernelCounts>> {
    let ptxas = oriole_oracles::tool("ptxas")?;
    let output = std::env::temp_dir().join(format!("oriole-texture-counts-{}.cubin", std::process::id()));
    let mut found = Vec::new();
    for (target, first) in TARGETS {
        for module in &MODULES[first..] {
            let run = Command::new(&ptxas).args(["-arch", target, "-o"]).arg(&output).arg(root().join(module)).output().unwrap();
            assert!(run.status.success(), "{module}: {}", String::from_utf8_lossy(&run.stderr));
            found.extend(counts(target, &fs::read(&output).unwrap()));
        }
    }
    fs::remove_file(&output).unwrap();
    Some(found)
}

fn table_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/texture_counts.txt")
}

fn recorded() -> Vec<KernelCounts> {
    let text = fs::read_to_string(table_path()).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [target, kernel, instructions, registers] = words[..] else { panic!("{line}") };
            let (target, _) = TARGETS.into_iter().find(|(name, _)| *name == target).unwrap();
            let (instructions, registers) = (instructions.parse().unwrap(), registers.parse().unwrap());
            KernelCounts { target, kernel: kernel.into(), instructions, registers }
        })
        .collect()
}

#[test]
fn recorded_counts_are_those_of_ptxas() {
    let Some(found) = counts_of_ptxas() else {
        oriole_oracles::skip("no ptxas to count the instructions of texture kernels with");
        return;
    };
    if std::env::var_os("ORIOLE_BLESS").is_some() {
        let mut text = HEADER.to_owned();
        for one in &found {
            writeln!(text, "{} {} {} {}", one.target, one.kernel, one.instructions, one.registers).unwrap();
        }
        fs::write(table_path(), text).unwrap();
        return;
    }
    assert_eq!(found, recorded());
}

#[test]
fn texture_kernels_are_as_short_as_those_of_ptxas() {
    let recorded = recorded();
    for (target, first) in TARGETS {
        let theirs: Vec<&KernelCounts> = recorded.iter().filter(|one| one.target == target).collect();
        let text = |module: &str| fs::read_to_string(root().join(module)).unwrap();
        let ours: Vec<KernelCounts> = MODULES[first..].iter().flat_map(|module| counts(target, &compiled(target, &text(module)))).collect();
        assert!(ours.iter().map(|one| &one.kernel).eq(theirs.iter().map(|one| &one.kernel)), "{target}: other kernels");
        for (what, count) in [("instructions", (|one| one.instructions) as fn(&KernelCounts) -> u32), ("registers", |one| one.registers)] {
            let sum = |counts: &mut dyn Iterator<Item = u32>| f64::from(counts.sum::<u32>());
            let of_sums = sum(&mut ours.iter().map(count)) / sum(&mut theirs.iter().map(|one| count(one)));
            let ratios = ours.iter().zip(&theirs).map(|(ours, theirs)| f64::from(count(ours)) / f64::from(count(theirs)));
            let mean = (ratios.map(f64::ln).sum::<f64>() / ours.len() as f64).exp();
            let found = format!("{target} {what}: ratio of sums {of_sums:.3}, geometric mean {mean:.3}");
            println!("{found}");
            assert!(of_sums <= MAX_RATIO && mean <= MAX_RATIO, "{found}");
        }
        for (ours, theirs) in ours.iter().zip(&theirs) {
            let ratio = f64::from(ours.instructions) / f64::from(theirs.instructions);
            let (kernel, ours, theirs) = (&ours.kernel, ours.instructions, theirs.instructions);
            assert!(ratio <= MAX_KERNEL_RATIO, "{target} {kernel}: {ours} instructions, ptxas has {theirs}");
        }
    }
}
