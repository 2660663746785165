//! Checks that Oriole writes files for every target that ptxas 13.0.88 writes files for, with the same ELF header and the same sections.
//!
//! Sections and flags of the Mercury form, which Oriole does not write, are left out of the comparison, and so are relocations of code,
//! which depend on the instructions chosen.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use oriole_cubin::{Cubin, FileTraits};
use oriole_driver::{Options, compile};
use oriole_isa::Target;

/// The targets that `ptxas --help` of 13.0.88 lists for `-arch`.
const PTXAS_TARGETS: [&str; 23] = [
    "sm_100", "sm_100a", "sm_100f", "sm_103", "sm_103a", "sm_103f", "sm_110", "sm_110a", "sm_110f", "sm_120", "sm_120a", "sm_120f",
    "sm_121", "sm_121a", "sm_121f", "sm_75", "sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90", "sm_90a",
];

/// Modules that compile for many targets: shared memory and a barrier, all kinds of variables.
const SAMPLES: [&str; 2] = ["examples/block_sum.ptx", "corpus/handwritten/initializers.ptx"];

/// Class in bits 7:0 of the flags: 2 with Mercury code, 4 without.
const CLASS: u32 = 0xff;

#[test]
fn every_target_of_ptxas_has_files() {
    let own: BTreeSet<String> = FileTraits::all().map(|traits| traits.target.to_string()).collect();
    let missing: Vec<&&str> = PTXAS_TARGETS.iter().filter(|name| !own.contains(**name)).collect();
    assert!(missing.is_empty(), "no files for {missing:?}");
}

#[test]
fn the_list_is_that_of_ptxas() {
    let Some(ptxas) = oriole_oracles::tool("ptxas") else { return };
    let help = String::from_utf8(Command::new(&ptxas).arg("--help").output().unwrap().stdout).unwrap();
    let (_, values) = help.split_once("--gpu-name").expect("the option -arch");
    let (values, _) = values.split_once("Default value").expect("the default of -arch");
    let names: BTreeSet<&str> = values.split('\'').filter(|word| word.starts_with("sm_")).collect();
    assert_eq!(names, PTXAS_TARGETS.into_iter().collect());
}

/// Returns what is compared of a file: type, ABI version, flags without the class and the section, and names of sections.
fn facts(bytes: &[u8]) -> BTreeSet<String> {
    let cubin = Cubin::read(bytes).expect("a cubin");
    let flags = cubin.header.flags;
    let mut facts = BTreeSet::from([
        format!("{:?}, ABI version {}", cubin.header.file_type, flags.abi_version),
        format!("flags {:#x}", flags.bits & !CLASS),
    ]);
    let is_left_out = |name: &str| name.contains("merc") || name.starts_with(".rel.text") || name.starts_with(".rela.text");
    facts.extend(cubin.sections().iter().map(|section| section.name.clone()).filter(|name| !is_left_out(name)));
    facts
}

#[test]
fn files_have_the_header_and_sections_of_ptxas() {
    let (Some(ptxas), Some(nvdisasm)) = (oriole_oracles::tool("ptxas"), oriole_oracles::tool("nvdisasm")) else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("k.cubin");
    for sample in SAMPLES {
        let source = root.join(sample);
        let text = fs::read(&source).unwrap();
        let checked = oriole_ptx::check(&text, &oriole_ptx::Options::default());
        let targets = PTXAS_TARGETS.iter().map(|name| Target::parse(name).unwrap());
        for target in targets.filter(|target| target.number() >= checked.module.target.number()) {
            let status = Command::new(&ptxas).args(["-arch", &target.to_string(), "-o"]).args([&output, &source]).status().unwrap();
            assert!(status.success(), "ptxas for {target}");
            let theirs = facts(&fs::read(&output).unwrap());
            let own = compile(&[&checked.module], &Options::new(target)).expect("the module compiles").cubin;
            assert_eq!(facts(&own), theirs, "{sample}, {target}");
            fs::write(&output, &own).unwrap();
            let read = Command::new(&nvdisasm).arg("-c").arg(&output).output().unwrap();
            assert!(read.status.success() && read.stderr.is_empty(), "{sample}, {target}: {}", String::from_utf8_lossy(&read.stderr));
        }
    }
}
