//! Modules with functions, calls, addresses and linkage, built from their parts, say what ptxas' files say.
//!
//! As in `rebuild.rs`, a cubin of ptxas is read and what it means is handed to the builder. Compared are section headers
//! and contents in the order of the file, with every reference by name (`common/canonical.rs`). What differs:
//!
//! - the order of symbols and of names in string tables, and with it the numbers of symbols;
//! - in relocatable files from Hopper on, the addends that point from an FDE to its CIE: ptxas works them out before it
//!   shortens the FDEs, so its own are wrong; nvlink takes either;
//! - the place of `EIATTR_MERCURY_ISA_VERSION` in `.nv.info`, where files without kernels have it: at -O0, ptxas mixes it
//!   into the functions;
//! - the place of `.nv.shared.reserved.0` in relocatable files for sm_110 without kernels;
//! - Blackwell: no Mercury capsules, and the header says so.

mod common;

use std::fs;
use std::path::Path;

use common::canonical::{canonical, differences, lines_of};
use common::parts::parts;
use common::{Scratch, compile, data_files, oracle, retarget, run};
use oriole_cubin::target::TARGETS;
use oriole_cubin::{Cubin, Target};

/// Without Mercury, and without the pointers to CIEs.
fn comparable(lines: Vec<String>) -> Vec<String> {
    let is_mercury = |line: &str| line.contains(".nv.merc.") || line.contains(".nv.capmerc.");
    let is_pointer = |line: &str| line.starts_with("  .rela.debug_frame:") && line.contains("section .debug_frame");
    let (last, mut lines): (Vec<_>, Vec<_>) = lines.into_iter().filter(|line| !is_mercury(line) && !is_pointer(line)).partition(|line| {
        line.starts_with("  .nv.info: EIATTR_MERCURY_ISA_VERSION")
            || line.contains(".nv.shared.reserved.0 CUDA")
            || line.starts_with("  .nv.shared.reserved.0")
    });
    lines.extend(last);
    lines
}

/// The rebuilt file, after comparing it with the original.
fn check(name: &str, original: &[u8], target: &'static Target, failures: &mut Vec<String>) -> Option<Vec<u8>> {
    let cubin = Cubin::read(original).unwrap();
    let rebuilt = match parts(&cubin, target).and_then(|module| module.build()?.write()) {
        Ok(rebuilt) => rebuilt,
        Err(error) => {
            failures.push(format!("{name}: {error}"));
            return None;
        }
    };
    let found = differences(&comparable(lines_of(&rebuilt).unwrap()), &comparable(canonical(&cubin)));
    if !found.is_empty() {
        failures.push(format!("{name}:\n    {}", found.join("\n    ")));
    }
    Some(rebuilt)
}

fn report(what: &str, count: usize, failures: &[String]) {
    println!("{count} {what}, {} differ", failures.len());
    assert!(failures.is_empty(), "{} of {count} differ:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn checked_in_files_say_the_same() {
    let mut failures = Vec::new();
    let files: Vec<_> = data_files("cubin").into_iter().filter(|(name, _)| name.starts_with("linkage")).collect();
    assert!(files.len() >= 4, "the files with functions are missing");
    for (name, original) in &files {
        check(name, original, Cubin::read(original).unwrap().target().unwrap(), &mut failures);
    }
    report("files", files.len(), &failures);
}

/// Name, text, and the options to compile it with.
fn modules() -> Vec<(String, String, Vec<Vec<&'static str>>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/modules");
    let mut list = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let mut options = vec![vec!["-c"], vec!["-c", "-O0"]];
        if !name.contains(".relocatable.") && !["frames.ptx", "library.ptx"].contains(&name.as_str()) {
            options.extend([vec![], vec!["-O0"]]);
        }
        list.push((name, fs::read_to_string(&path).unwrap(), options));
    }
    list.sort();
    list
}

#[test]
fn fresh_files_say_the_same_for_every_target() {
    let Some(ptxas) = oracle("ptxas") else { return };
    let scratch = Scratch::new("linkage");
    let (mut count, mut failures) = (0, Vec::new());
    for target in TARGETS {
        for (name, text, options) in modules() {
            let ptx = scratch.path("in.ptx");
            fs::write(&ptx, retarget(&text, target.name)).unwrap();
            for options in options {
                let label = format!("{name} {} {}", target.name, options.join(" "));
                let original = compile(&ptxas, &scratch, &ptx, target.name, &options);
                check(&label, &original.unwrap_or_else(|| panic!("ptxas refuses {label}")), target, &mut failures);
                count += 1;
            }
        }
    }
    report("files", count, &failures);
}

/// An object that defines what the modules leave open.
const REST: &str = r"
.version 9.0
.target sm_90
.address_size 64
.visible .global .align 4 .u32 other = 11;
.visible .const .align 4 .u32 othc = 12;
.visible .func (.param .b32 r) extf (.param .b32 a) { .reg .b32 %r; ld.param.b32 %r,[a]; add.u32 %r,%r,1; st.param.b32 [r],%r; ret; }
";

/// nvlink gives the same of ptxas' object and of ours. Its own order of symbols follows that of its input.
#[test]
fn nvlink_links_rebuilt_objects_alike() {
    let (Some(ptxas), Some(nvlink)) = (oracle("ptxas"), oracle("nvlink")) else { return };
    let scratch = Scratch::new("nvlink");
    let (mut count, mut failures) = (0, Vec::new());
    for target in TARGETS.iter().filter(|target| !target.has_mercury()) {
        let rest = scratch.path("rest.ptx");
        fs::write(&rest, retarget(REST, target.name)).unwrap();
        fs::write(scratch.path("rest.o"), compile(&ptxas, &scratch, &rest, target.name, &["-c"]).unwrap()).unwrap();
        for (name, text, _) in modules().into_iter().filter(|(name, ..)| !name.starts_with("frames")) {
            let ptx = scratch.path("in.ptx");
            fs::write(&ptx, retarget(&text, target.name)).unwrap();
            let original = compile(&ptxas, &scratch, &ptx, target.name, &["-c"]).unwrap();
            let rebuilt = parts(&Cubin::read(&original).unwrap(), target).unwrap().build().unwrap().write().unwrap();
            let link = |object: &[u8]| {
                fs::write(scratch.path("module.o"), object).unwrap();
                let arch = format!("-arch={}", target.name);
                let linked = run(&nvlink, &[&arch, "module.o", "rest.o", "-o", "linked.cubin"], &scratch.0);
                linked.map(|_| fs::read(scratch.path("linked.cubin")).unwrap())
            };
            let (Some(theirs), Some(ours)) = (link(&original), link(&rebuilt)) else {
                failures.push(format!("{name} {}: nvlink fails", target.name));
                continue;
            };
            let found = differences(&lines_of(&ours).unwrap(), &lines_of(&theirs).unwrap());
            if !found.is_empty() {
                failures.push(format!("{name} {}:\n    {}", target.name, found.join("\n    ")));
            }
            count += 1;
        }
    }
    report("linked files", count, &failures);
}
