//! Checks that cubins built from their semantic parts equal ptxas' cubins byte for byte.
//!
//! A cubin of ptxas is read, and its semantic parts (code, registers, parameters, shared memory, attributes of each kernel) are given to
//! the builder. Layout, names, symbols, relocations, notes, headers and segments come from the builder alone.

use std::fs;

use crate::common::parts::parts;
use crate::common::{Scratch, compile, data_files, oracle, retarget, root, targets_to_compare};
use oriole_cubin::section::Content;
use oriole_cubin::{Cubin, FileTraits};

/// A module with several kernels: shared memory in some of them, some without parameters.
const KERNELS: &str = r"
.version 9.0
.target sm_90
.address_size 64
.visible .entry nothing() { ret; }
.visible .entry second(.param .u64 p) {
    .reg .b64 %a; .reg .b32 %t; .shared .align 16 .b8 buffer[48];
    mov.u32 %t, %tid.x; ld.param.u64 %a, [p]; st.shared.u32 [buffer], %t; bar.sync 0;
    ld.shared.u32 %t, [buffer+4]; st.global.u32 [%a], %t; ret;
}
.visible .entry a_third_one(.param .u64 p, .param .u16 q) .reqntid 32, 2, 1 {
    .reg .b64 %a; .reg .b32 %t; .shared .align 4 .b8 other[64];
    mov.u32 %t, %tid.x; ld.param.u64 %a, [p]; st.shared.u32 [other], %t; bar.sync 0;
    ld.shared.u32 %t, [other+4]; st.global.u32 [%a], %t; ret;
}
.visible .entry most_small_parameters(.param .align 8 .b8 s[4352]) { ret; }
.visible .entry large_parameters(.param .u64 p, .param .align 8 .b8 s[4345]) { ret; }
.visible .entry large_parameter(.param .align 8 .b8 s[16384], .param .u16 q) { ret; }
.visible .entry most_parameters(.param .u8 q, .param .align 4 .b8 s[32760]) { ret; }
.weak .entry last(.param .align 16 .b8 s[40]) { ret; }
";

/// A module with visible and local variables in all three kinds of sections.
const VARIABLES: &str = r"
.version 9.0
.target sm_90
.address_size 64
.visible .global .align 4 .u32 counter;
.visible .global .align 8 .u64 table[2] = {1, 2};
.global .align 4 .f32 scale = 0f3F800000;
.visible .const .align 4 .f32 weights[4] = {0f3F800000, 0f40000000, 0f40400000, 0f40800000};
.visible .entry uses(.param .u64 p) {
    .reg .b64 %a<6>; .reg .b32 %t<6>; .reg .f32 %f<5>;
    ld.param.u64 %a1, [p]; mov.u32 %t1, %tid.x; atom.global.add.u32 %t2, [counter], %t1;
    ld.global.u64 %a2, [table]; ld.const.f32 %f1, [weights+4]; ld.global.f32 %f2, [scale]; mul.f32 %f1, %f1, %f2;
    cvt.rzi.u32.f32 %t3, %f1; add.u32 %t2, %t2, %t3; cvt.u32.u64 %t4, %a2; add.u32 %t2, %t2, %t4;
    st.global.u32 [%a1], %t2; ret;
}
.visible .entry plain(.param .u64 p) { .reg .b64 %a; ld.param.u64 %a, [p]; st.global.u32 [%a], 5; ret; }
";

/// A module with constants first and one kernel that also has shared memory.
const CONSTANTS: &str = r"
.version 9.0
.target sm_90
.address_size 64
.const .align 4 .u32 limits[3] = {7, 8, 9};
.global .align 4 .u32 total;
.visible .entry only(.param .u64 p) {
    .reg .b64 %a; .reg .b32 %t<4>; .shared .align 8 .b8 space[128];
    ld.param.u64 %a, [p]; mov.u32 %t1, %tid.x; st.shared.u32 [space], %t1; bar.sync 0; ld.shared.u32 %t2, [space+8];
    ld.const.u32 %t3, [limits+8]; add.u32 %t2, %t2, %t3; atom.global.add.u32 %t1, [total], %t2; st.global.u32 [%a], %t1; ret;
}
";

/// Describes the first section in which two files differ.
fn difference(ours: &[u8], theirs: &[u8]) -> String {
    let (a, b) = (Cubin::read(ours).unwrap(), Cubin::read(theirs).unwrap());
    let names = |cubin: &Cubin| cubin.sections().iter().map(|section| section.name.clone()).collect::<Vec<_>>();
    if names(&a) != names(&b) {
        return format!("sections\n  ours   {:?}\n  theirs {:?}", names(&a), names(&b));
    }
    if a.header != b.header || a.segments != b.segments {
        return format!("headers\n  ours   {:?} {:?}\n  theirs {:?} {:?}", a.header, a.segments, b.header, b.segments);
    }
    match a.sections().iter().zip(b.sections()).find(|(a, b)| a != b) {
        Some((a, b)) => format!("\n  ours   {a:?}\n  theirs {b:?}"),
        None => "layout".into(),
    }
}

/// Clears the only bytes that cannot be reproduced: the Mercury counterpart of sm_110's reserved variable, which ptxas fills with
/// uninitialized memory.
fn without_garbage(cubin: &mut Cubin) {
    if let Some(index) = cubin.find(".nv.merc.nv.shared.reserved.0")
        && let Some(section) = cubin.section_mut(index)
        && let Content::Bytes(bytes) = &mut section.content
    {
        bytes.fill(0);
    }
}

fn check(name: &str, original: &[u8], traits: FileTraits, failures: &mut Vec<String>) {
    let mut cubin = Cubin::read(original).unwrap();
    without_garbage(&mut cubin);
    let expected = cubin.write().unwrap();
    match parts(&cubin, traits).and_then(|module| module.build()?.write()) {
        Ok(rebuilt) if rebuilt == expected => {}
        Ok(rebuilt) => failures.push(format!("{name}: {}", difference(&rebuilt, &expected))),
        Err(error) => failures.push(format!("{name}: {error}")),
    }
}

fn report(count: usize, failures: &[String]) {
    println!("{count} cubins rebuilt, {} differ", failures.len());
    assert!(failures.is_empty(), "{} of {count} differ:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn checked_in_files_are_rebuilt() {
    let mut failures = Vec::new();
    let files: Vec<_> = data_files("cubin").into_iter().filter(|(name, _)| name.starts_with("plain")).collect();
    for (name, original) in &files {
        let traits = FileTraits::of(Cubin::read(original).unwrap().target().unwrap()).unwrap();
        check(name, original, traits, &mut failures);
    }
    report(files.len(), &failures);
}

#[test]
fn fresh_files_are_rebuilt() {
    let Some(ptxas) = oracle("ptxas") else { return };
    let scratch = Scratch::new("rebuild");
    // At -O0, block_sum has subroutines, for which the order of names is not reproduced.
    let mut sources = vec![("kernels", KERNELS.to_owned(), &["-O3", "-O0"][..])];
    sources.push(("variables", VARIABLES.to_owned(), &["-O3", "-O0"]));
    sources.push(("constants", CONSTANTS.to_owned(), &["-O3", "-O0"]));
    for (name, options) in [("saxpy", &["-O3", "-O2", "-O1", "-O0"][..]), ("vector_add", &["-O3", "-O0"]), ("block_sum", &["-O3", "-O1"])] {
        sources.push((name, fs::read_to_string(root().join(format!("examples/{name}.ptx"))).unwrap(), options));
    }
    let (mut count, mut failures) = (0, Vec::new());
    for traits in targets_to_compare() {
        let target = traits.target.to_string();
        for (name, text, options) in &sources {
            if traits.has_mercury() && ["variables", "constants"].contains(name) {
                continue;
            }
            let ptx = scratch.path("in.ptx");
            fs::write(&ptx, retarget(text, &target)).unwrap();
            for option in *options {
                let original = compile(&ptxas, &scratch, &ptx, &target, &[option]);
                let original = original.unwrap_or_else(|| panic!("ptxas refuses {name} for {}", target));
                check(&format!("{name} {} {option}", target), &original, traits, &mut failures);
                count += 1;
            }
        }
    }
    report(count, &failures);
}
