//! Checks that Oriole writes files for every target that ptxas 13.0.88 writes files for, with the same ELF header and the same sections.
//!
//! Sections and flags of the Mercury form, which Oriole does not write, are left out of the comparison, and so are relocations of code,
//! which depend on the instructions chosen.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use oriole_cubin::{Cubin, FileTraits};
use oriole_driver::{ErrorCause, Options, compile};
use oriole_isa::Target;

/// The targets that `ptxas --help` of 13.0.88 lists for `-arch`.
const PTXAS_TARGETS: [&str; 23] = [
    "sm_100", "sm_100a", "sm_100f", "sm_103", "sm_103a", "sm_103f", "sm_110", "sm_110a", "sm_110f", "sm_120", "sm_120a", "sm_120f",
    "sm_121", "sm_121a", "sm_121f", "sm_75", "sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90", "sm_90a",
];

/// Modules that compile for many targets: shared memory and a barrier, all kinds of variables.
const SAMPLES: [&str; 2] = ["examples/block_sum.ptx", "corpus/handwritten/initializers.ptx"];

/// The targets for which the first module is compared, unless `ORIOLE_REFRESH` is set: every number and every suffix.
const FIRST_SAMPLE: [&str; 13] =
    ["sm_75", "sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_103a", "sm_110f", "sm_120a", "sm_121f"];

/// The same for the second module.
const SECOND_SAMPLE: [&str; 5] = ["sm_75", "sm_89", "sm_90a", "sm_100f", "sm_121"];

/// The targets whose files nvdisasm reads, unless `ORIOLE_REFRESH` is set, for each module: one of each generation, because nvdisasm takes
/// most of a second.
const READ_SAMPLES: [&[&str]; 2] = [&["sm_80", "sm_90", "sm_110f", "sm_121f"], &["sm_75", "sm_89", "sm_90a", "sm_100f"]];

/// Class in bits 7:0 of the flags: 2 with Mercury code, 4 without.
const CLASS: u32 = 0xff;

#[test]
fn every_target_of_ptxas_has_files() {
    let own: BTreeSet<String> = FileTraits::all().map(|traits| traits.target.to_string()).collect();
    let missing: Vec<&&str> = PTXAS_TARGETS.iter().filter(|name| !own.contains(**name)).collect();
    assert!(missing.is_empty(), "no files for {missing:?}");
}

#[test]
fn targets_without_machine_code_are_refused_by_name() {
    for target in Target::all().filter(|target| !target.has_machine_code()) {
        let errors = compile(&[], &Options::new(target)).unwrap_err();
        let [error] = &errors[..] else { panic!("{} errors", errors.len()) };
        assert!(matches!(&error.fault, ErrorCause::Unsupported(what) if what.ends_with(&target.to_string())), "{target}: {error}");
    }
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
    for ((sample, some), read) in SAMPLES.into_iter().zip([&FIRST_SAMPLE[..], &SECOND_SAMPLE]).zip(READ_SAMPLES) {
        let is_read = |target: Target| oriole_oracles::compares_everything() || read.contains(&target.to_string().as_str());
        let source = root.join(sample);
        let text = fs::read(&source).unwrap();
        let checked = oriole_ptx::check(&text, &oriole_ptx::Options::default());
        let targets = oriole_oracles::targets_to_compare(&PTXAS_TARGETS, some);
        let targets = targets.iter().map(|name| Target::parse(name).unwrap());
        for target in targets.filter(|target| target.number() >= checked.module.target.number()) {
            let status = Command::new(&ptxas).args(["-arch", &target.to_string(), "-o"]).args([&output, &source]).status().unwrap();
            assert!(status.success(), "ptxas for {target}");
            let theirs = facts(&fs::read(&output).unwrap());
            let own = compile(&[&checked.module], &Options::new(target)).expect("the module compiles").cubin;
            assert_eq!(facts(&own), theirs, "{sample}, {target}");
            if !is_read(target) {
                continue;
            }
            fs::write(&output, &own).unwrap();
            let read = Command::new(&nvdisasm).arg("-c").arg(&output).output().unwrap();
            assert!(read.status.success() && read.stderr.is_empty(), "{sample}, {target}: {}", String::from_utf8_lossy(&read.stderr));
        }
    }
}

/// A module with a barrier, parameters and variables in shared, global and constant memory.
const VOLTA_MODULE: &str = ".version 6.4
.target sm_70
.address_size 64
.global .align 4 .b32 numbers[4] = {1, 2, 3, 4};
.const .align 4 .b32 factors[2] = {5, 6};
.visible .entry kernel(.param .u64 out, .param .u32 count)
{
    .shared .align 4 .b32 shared[64];
    .reg .b32 %r<9>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [count];
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, shared;
    mad.lo.s32 %r3, %r2, 4, %r3;
    st.shared.u32 [%r3], %r2;
    bar.sync 0;
    ld.shared.u32 %r4, [shared+4];
    ld.global.u32 %r5, [numbers+4];
    ld.const.u32 %r6, [factors+4];
    max.s32 %r4, %r4, %r5;
    mul.hi.u32 %r4, %r4, %r6;
    add.s32 %r4, %r4, %r1;
    st.global.u32 [%rd1], %r4;
    ret;
}
";

/// The names of the sections of that module, in the file of ptxas 12.8.93, the last ptxas that knows Volta.
const VOLTA_SECTIONS: [&str; 17] = [
    "",
    ".shstrtab",
    ".strtab",
    ".symtab",
    ".debug_frame",
    ".nv.info",
    ".nv.info.kernel",
    ".nv.callgraph",
    ".nv.rel.action",
    ".rel.nv.constant4",
    ".rel.debug_frame",
    ".nv.constant4",
    ".nv.constant3",
    ".nv.constant0.kernel",
    ".text.kernel",
    ".nv.global.init",
    ".nv.shared.kernel",
];

/// Files for Volta have the format of CUDA 12. The expected values are those of the files that ptxas 12.8.93 writes for the module.
#[test]
fn files_for_volta_have_the_format_of_cuda_12() {
    let checked = oriole_ptx::check(VOLTA_MODULE.as_bytes(), &oriole_ptx::Options::default());
    assert!(checked.is_valid(), "{:?}", checked.diagnostics);
    for (name, flags) in [("sm_70", 0x46_0546), ("sm_72", 0x46_0548)] {
        let target = Target::parse(name).unwrap();
        let bytes = compile(&[&checked.module], &Options::new(target)).expect("the module compiles").cubin;
        assert_eq!(bytes[..16], *b"\x7fELF\x02\x01\x01\x33\x07\0\0\0\0\0\0\0", "{name}");
        assert_eq!(bytes[20..24], 0x80_u32.to_le_bytes(), "{name}: e_version is the toolkit");
        let cubin = Cubin::read(&bytes).unwrap();
        assert_eq!(cubin.header.flags.bits, flags, "{name}");
        assert_eq!(cubin.sections().iter().map(|section| section.name.as_str()).collect::<Vec<_>>(), VOLTA_SECTIONS, "{name}");
        let code = cubin.sections().iter().find(|section| section.name == ".text.kernel").unwrap();
        assert_eq!(code.flags, 0x10_0006, "{name}: one barrier");
        let oriole_cubin::section::Content::Info(attributes) = &cubin.sections()[6].content else { panic!("{name}: attributes") };
        let codes: Vec<String> = attributes.iter().map(|attribute| format!("{:?}", attribute.code)).collect();
        assert!(!codes.iter().any(|code| code.contains("NUM_BARRIERS") || code.contains("MERCURY")), "{name}: {codes:?}");
        // ptxas starts every function with a shuffle that no thread executes, and on sm_70 a NOP precedes each barrier.
        let code = code.bytes().unwrap();
        let words: Vec<u128> = code.chunks_exact(16).map(|word| u128::from_le_bytes(word.try_into().unwrap())).collect();
        let text = |word: u128| oriole_isa::print(word, target, 0).unwrap_or_default();
        assert_eq!(text(words[0]), "@!PT SHFL.IDX PT, RZ, RZ, RZ, RZ", "{name}");
        let barrier = words.iter().position(|&word| text(word).starts_with("BAR")).expect("a barrier");
        assert_eq!(text(words[barrier - 1]) == "NOP", name == "sm_70", "{name}");
        // sm_70 has neither IMNMX nor IMAD.HI.
        let has = |mnemonic: &str| words.iter().any(|&word| text(word).starts_with(mnemonic));
        assert_eq!((has("IMNMX"), has("IMAD.HI")), if name == "sm_70" { (false, false) } else { (true, true) }, "{name}");
    }
}

/// ptxas 13.0.88 has the same bindings: a kernel without `.visible` is a local symbol.
#[test]
fn kernels_have_the_linkage_of_their_directive() {
    let text = ".version 8.0\n.target sm_75\n.address_size 64\n.entry private() { ret; }\n.visible .entry public() { ret; }\n\
                .weak .entry weak() { ret; }\n";
    let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
    let compiled = compile(&[&checked.module], &Options::new(Target::parse("sm_75").unwrap())).unwrap();
    let cubin = Cubin::read(&compiled.cubin).unwrap();
    let binding = |name: &str| cubin.symbols().iter().find(|symbol| symbol.name == name).map(|symbol| symbol.binding);
    let [local, global, weak] = [0, 1, 2];
    assert_eq!(["private", "public", "weak"].map(binding), [local, global, weak].map(Some));
}
