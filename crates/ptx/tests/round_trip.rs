//! Prints and parses modules: the tree, the text and the code that ptxas generates must stay the same.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use oriole_ptx::ast::Module;
use oriole_ptx::{Options, check, print};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A module and its origin.
struct Source {
    name: String,
    text: String,
}

/// Returns the modules of a folder: each `.ptx` file, and each part of a `.txt` file that starts with a line `=== name`.
fn load(folder: &Path) -> Vec<Source> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let mut sources = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match path.extension().and_then(|extension| extension.to_str()) {
            // Some modules contain bytes outside ASCII on purpose.
            Some("ptx") => sources.push(Source { name, text: String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned() }),
            Some("txt") => sources.extend(unpack(&name, &String::from_utf8_lossy(&fs::read(&path).unwrap()))),
            _ => {}
        }
    }
    sources
}

fn unpack(file: &str, text: &str) -> Vec<Source> {
    let mut sources: Vec<Source> = Vec::new();
    for line in text.split_inclusive('\n') {
        if let Some(name) = line.strip_prefix("=== ") {
            sources.push(Source { name: format!("{file}: {}", name.trim()), text: String::new() });
        } else if let Some(source) = sources.last_mut() {
            source.text.push_str(line);
        }
    }
    sources
}

fn corpus() -> Vec<Source> {
    ["corpus", "corpus/handwritten", "examples"].iter().flat_map(|folder| load(&root().join(folder))).collect()
}

/// Parses a module; the error contains the first messages.
fn parse(text: &str) -> Result<Module, String> {
    let checked = check(text.as_bytes(), &Options::default());
    if checked.is_valid() {
        return Ok(checked.module);
    }
    let messages: Vec<String> =
        checked.diagnostics.iter().take(3).map(|finding| format!("{}: {}", finding.span.start, finding.message)).collect();
    Err(messages.join("; "))
}

/// Prints a module and parses it; returns the printed text.
fn round_trip(module: &Module) -> Result<String, String> {
    let printed = print(module);
    let again = parse(&printed).map_err(|errors| format!("the printed text has errors: {errors}\n{printed}"))?;
    module.same_as(&again).map_err(|difference| format!("not the same: {difference}\n{printed}"))?;
    if print(&again) != printed {
        return Err(String::from("printed twice, the text differs"));
    }
    Ok(printed)
}

fn check_all(sources: &[Source], must_parse: bool) {
    let (mut passed, mut refused, mut failures) = (0, Vec::new(), Vec::new());
    for source in sources {
        match parse(&source.text) {
            Err(errors) => refused.push(format!("{}: {errors}", source.name)),
            Ok(module) => match round_trip(&module) {
                Ok(_) => passed += 1,
                Err(failure) => failures.push(format!("{}: {failure}", source.name)),
            },
        }
    }
    println!("{passed} of {} modules make the round trip, {} are refused", sources.len(), refused.len());
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n\n"));
    assert!(!must_parse || refused.is_empty(), "refused:\n{}", refused.join("\n"));
    assert!(passed > 0, "no modules found");
}

#[test]
fn corpus_makes_the_round_trip() {
    check_all(&corpus(), true);
}

#[test]
fn accepted_modules_make_the_round_trip() {
    check_all(&load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/modules/accept")), false);
}

/// Returns the value of a key in the first `// oriole:` line.
fn directive(text: &str, key: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix("// oriole:"))?;
    let value = line.split_once(&format!("{key}="))?.1;
    let (value, end) = if let Some(quoted) = value.strip_prefix('"') { (quoted, '"') } else { (value, ' ') };
    Some(value.split(end).next().unwrap_or_default().to_string())
}

/// Compiles PTX to a cubin; the error contains the message.
fn compile(ptxas: &Path, arch: &str, options: &str, text: &str, stem: &Path) -> Result<Vec<u8>, String> {
    let (input, output) = (stem.with_extension("ptx"), stem.with_extension("cubin"));
    fs::write(&input, text).map_err(|error| error.to_string())?;
    let mut command = Command::new(ptxas);
    command.arg(format!("-arch={arch}")).args(options.split_whitespace()).arg(&input).arg("-o").arg(&output);
    let done = command.output().map_err(|error| error.to_string())?;
    if !done.status.success() {
        return Err(String::from_utf8_lossy(&done.stderr).into_owned());
    }
    fs::read(&output).map_err(|error| error.to_string())
}

/// Returns the sections of a cubin that contain code, constants and initial values, by name.
fn sections(elf: &[u8]) -> Option<BTreeMap<String, &[u8]>> {
    const NO_BITS: u64 = 8;
    let number = |at: usize, bytes: usize| {
        elf.get(at..at + bytes).map(|part| part.iter().rev().fold(0u64, |value, &byte| value << 8 | u64::from(byte)))
    };
    let (table, entry, count) = (number(0x28, 8)? as usize, number(0x3a, 2)? as usize, number(0x3c, 2)? as usize);
    let place = |index: usize| Some((number(table + index * entry + 0x18, 8)? as usize, number(table + index * entry + 0x20, 8)? as usize));
    let (strings, _) = place(number(0x3e, 2)? as usize)?;
    let mut found = BTreeMap::new();
    for index in 0..count {
        let start = strings + number(table + index * entry, 4)? as usize;
        let name: Vec<u8> = elf.get(start..)?.iter().copied().take_while(|&byte| byte != 0).collect();
        let name = String::from_utf8(name).ok()?;
        let (offset, size) = place(index)?;
        let is_empty = number(table + index * entry + 4, 4)? == NO_BITS;
        if [".text.", ".nv.constant", ".nv.global"].iter().any(|prefix| name.starts_with(prefix)) {
            found.insert(name, if is_empty { &elf[..0] } else { elf.get(offset..offset + size)? });
        }
    }
    Some(found)
}

/// Describes the first difference between two cubins.
fn cubin_difference(first: &[u8], second: &[u8]) -> Option<String> {
    let (Some(first), Some(second)) = (sections(first), sections(second)) else { return Some(String::from("not an ELF file")) };
    let names = |sections: &BTreeMap<String, &[u8]>| sections.keys().cloned().collect::<Vec<_>>();
    if names(&first) != names(&second) {
        return Some(format!("sections {:?} and {:?}", names(&first), names(&second)));
    }
    first.iter().find(|&(name, content)| second[name] != *content).map(|(name, _)| format!("section {name}"))
}

/// Compares the code of a module as written and as printed. Returns false if our parser or, for `optional` modules, ptxas rejects it.
fn compare_by_ptxas(ptxas: &Path, source: &Source, stem: &Path, optional: bool) -> Result<bool, String> {
    let Ok(module) = parse(&source.text) else { return Ok(false) };
    let arch = directive(&source.text, "arch").unwrap_or_else(|| module.target.to_string());
    let options = directive(&source.text, "ptxas").unwrap_or_default();
    let original = match compile(ptxas, &arch, &options, &source.text, stem) {
        Ok(cubin) => cubin,
        Err(_) if optional => return Ok(false),
        Err(complaint) => return Err(format!("the original: {complaint}")),
    };
    let printed = print(&module);
    let again = compile(ptxas, &arch, &options, &printed, stem).map_err(|complaint| format!("{complaint}\n{printed}"))?;
    let Some(difference) = cubin_difference(&original, &again) else { return Ok(true) };
    // ptxas leaves half of a `.b128` variable with a float as its initial value uninitialized, so compare two compilations of the original.
    let twice = compile(ptxas, &arch, &options, &source.text, stem)?;
    if cubin_difference(&original, &twice).is_some() { Ok(false) } else { Err(format!("{difference}\n{printed}")) }
}

/// Compares all modules, on two threads.
fn compare_all(sources: &[Source], optional: bool) {
    let Some(ptxas) = oriole_oracles::tool("ptxas") else { return };
    let folder = std::env::temp_dir().join(format!("oriole-round-trip-{}-{optional}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (next, compared, failures) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let stem = folder.join(format!("module{thread}"));
            let (ptxas, next, compared, failures) = (&ptxas, &next, &compared, &failures);
            scope.spawn(move || {
                while let Some(source) = sources.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match compare_by_ptxas(ptxas, source, &stem, optional) {
                        Ok(done) => _ = compared.fetch_add(usize::from(done), Ordering::Relaxed),
                        Err(failure) => failures.lock().unwrap().push(format!("{}: {failure}", source.name)),
                    }
                }
            });
        }
    });
    let _ = fs::remove_dir_all(&folder);
    let failures = failures.into_inner().unwrap();
    println!("{} of {} modules give the same code", compared.into_inner(), sources.len());
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n\n"));
}

#[test]
fn ptxas_makes_the_same_code_of_the_corpus() {
    compare_all(&corpus(), false);
}

/// Takes about a minute, so it runs only when verdicts are refreshed.
#[test]
fn ptxas_makes_the_same_code_of_accepted_modules() {
    if std::env::var_os("ORIOLE_REFRESH").is_none() {
        oriole_oracles::skip("set ORIOLE_REFRESH=1 to compile every accepted module twice");
        return;
    }
    compare_all(&load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/modules/accept")), true);
}

/// Returns the printed lines of statements inside a kernel, which must parse to the same tree.
fn printed_body(statements: &str) -> String {
    let text = format!(
        ".version 9.0\n.target sm_90a, texmode_independent\n.address_size 64\n{GLOBALS}.entry k(.param .u64 out) {{\n{statements}\nret;\n}}\n"
    );
    let module = parse(&text).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    let printed = round_trip(&module).unwrap_or_else(|failure| panic!("{failure}"));
    let (_, body) = printed.rsplit_once("\n{\n").unwrap();
    body.strip_suffix("\tret;\n}\n").unwrap().to_string()
}

const GLOBALS: &str = "\
.global .u32 words[8]; .global .b8 set<3>; .global .texref image; .global .samplerref image_sampler; .func callee() { ret; }
";

#[test]
fn floats_keep_their_bits() {
    let body = printed_body(
        ".reg .f32 f; .reg .f64 d; .reg .b64 b;
        mov.f32 f, 0f7fc00001; mov.f32 f, 0.1; mov.f32 f, -0.0; mov.f64 d, 1e22; mov.f64 d, 0d8000000000000000;
        mov.f64 d, 123456789012345678.0; mov.f64 d, 2.2250738585072014e-308; mov.f32 f, -.5; mov.f32 f, .25; mov.f64 d, 1e-300*1e-10; mov.f64 d, -1e308*10.0;",
    );
    let constants: Vec<&str> = body.lines().filter_map(|line| line.split_once(", ")).map(|(_, constant)| constant).collect();
    let expected = [
        "0f7FC00001;",
        "0.1;",
        "-0.0;",
        "1.0e22;",
        "0d8000000000000000;",
        "1.2345678901234568e17;",
        "2.2250738585072014e-308;",
        "-0.5;",
        "0.25;",
        "0d000012688B70E62B;",
        "0dFFF0000000000000;",
    ];
    assert_eq!(constants, expected);
}

#[test]
fn integers_keep_value_and_signedness() {
    let body = printed_body(
        ".reg .b64 d; .reg .pred p;
        mov.b64 d, -1; mov.b64 d, 1U; mov.b64 d, 0xFFFFFFFFFFFFFFFF; mov.b64 d, 1 << 63; mov.b64 d, -9223372036854775807;
        mov.b64 d, 5000000000; mov.b64 d, WARP_SZ; and.pred p, p, !5000000000; and.pred p, p, !0; mov.b64 d, -2147483648;",
    );
    let constants: Vec<&str> = body.lines().filter_map(|line| line.rsplit_once(", ")).map(|(_, constant)| constant).collect();
    let expected = [
        "-1;",
        "1U;",
        "0xFFFFFFFFFFFFFFFF;",
        "(.s64)0x8000000000000000;",
        "-9223372036854775807;",
        "5000000000;",
        "WARP_SZ;",
        "0;",
        "1;",
        "-2147483648;",
    ];
    assert_eq!(constants, expected);
}

#[test]
fn addresses_keep_their_offsets() {
    let body = printed_body(
        ".reg .b64 a; .reg .b32 r; .reg .v2 .b64 v;
        ld.u32 r, [a]; ld.u32 r, [a+0]; ld.u32 r, [a+-4]; ld.global.u32 r, [words+4]; ld.global.u32 r, words[8]; ld.u32 r, [v.y+16];
        ld.global.u8 r, [set2]; mov.b64 a, words; mov.b64 a, words+0; mov.b64 a, words+-8; mov.b64 a, callee; st.local.u32 [64], r;",
    );
    let addresses: Vec<&str> = body.lines().filter_map(|line| line.split_once(' ')).skip(3).map(|(_, operands)| operands).collect();
    let expected = [
        "r, [a];",
        "r, [a+0];",
        "r, [a+-4];",
        "r, [words+4];",
        "r, [words+8];",
        "r, [v.y+16];",
        "r, [set2];",
        "a, words;",
        "a, words+0;",
        "a, words+-8;",
        "a, callee;",
        "[64], r;",
    ];
    assert_eq!(addresses, expected);
}

#[test]
fn selectors_pairs_vectors_and_guards() {
    let body = printed_body(
        ".reg .b32 %r<5>; .reg .b64 a; .reg .pred %p<3>; .reg .b16 h; .reg .v4 .f32 c; .reg .f32 f;
        vmad.s32.s32.s32 %r1, %r2.b3, %r3.h1, -%r4; vadd4.s32.s32.s32.add %r1.b210, %r2.b7654, %r3, %r4; setp.lt.and.s32 %p1|%p2, %r1, 5, !%p0;
        @!%p1 mov.b32 {h, _}, %r1; @%is_explicit_cluster mov.u32 %r1, %tid.x; mov.pred %p1, !%is_explicit_cluster;
        tex.2d.v4.f32.s32 c, [image, image_sampler, {%r1, %r2}]; mov.f32 f, c.g; atom.global.add.u32 _, [a], 1;",
    );
    let expected = "\
\tvmad.s32.s32.s32 %r1, %r2.b3, %r3.h1, -%r4;
\tvadd4.s32.s32.s32.add %r1.b210, %r2.b7654, %r3, %r4;
\tsetp.lt.and.s32 %p1|%p2, %r1, 5, !%p0;
\t@!%p1 mov.b32 {h, _}, %r1;
\t@%is_explicit_cluster mov.u32 %r1, %tid.x;
\tmov.pred %p1, !%is_explicit_cluster;
\ttex.2d.v4.f32.s32 c, [image, image_sampler, {%r1, %r2}];
\tmov.f32 f, c.y;
\tatom.global.add.u32 _, [a], 1;
";
    assert_eq!(body.lines().skip(6).map(|line| format!("{line}\n")).collect::<String>(), expected);
}

#[test]
fn scopes_labels_and_lists() {
    let body = printed_body(
        ".reg .b32 i; { .reg .f32 i; L: mov.f32 i, 0f00000000; { bra.uni L; } bra DONE; } T: .branchtargets L<2>, DONE; brx.idx i, T; L0: L1:
        P: .callprototype (.param .b32 _) _ (.param .align 8 .b8 _[16], .reg .u32 _); { } DONE: .pragma \"nounroll\";
        .func second(); .alias second, callee;",
    );
    let expected = "\
\t.reg .b32 i;
\t{
\t\t.reg .f32 i;
L:
\t\tmov.f32 i, 0f00000000;
\t\t{
\t\t\tbra.uni L;
\t\t}
\t\tbra DONE;
\t}
T:
\t.branchtargets L0, L1, DONE;
\tbrx.idx i, T;
L0:
L1:
P:
\t.callprototype (.param .b32 _) _ (
\t.param .align 8 .b8 _[16],
\t.reg .u32 _
);
\t{
\t}
DONE:
\t.pragma \"nounroll\";
\t.func second();
\t.alias second, callee;
";
    assert_eq!(body, expected);
}

#[test]
fn deep_scopes_print_in_linear_time() {
    let depth = 50_000;
    let text = format!(".version 9.0\n.target sm_90\n.entry k() {{\n{}{}ret;\n}}\n", "{\n".repeat(depth), "}\n".repeat(depth));
    let printed = round_trip(&parse(&text).unwrap()).unwrap();
    assert!(printed.len() < 25 * depth);
}

#[test]
fn different_modules_are_told_apart() {
    let text = |body: &str| {
        parse(&format!(".version 9.0\n.target sm_90\n.global .u32 a = 1, b = 2;\n.entry k() {{ .reg .b32 x, y; {body} ret; }}\n")).unwrap()
    };
    let first = text("mov.b32 x, 1; add.s32 y, x, 2;");
    for other in [
        "mov.b32 y, 1; add.s32 y, x, 2;",
        "mov.b32 x, 1; add.u32 y, x, 2;",
        "mov.b32 x, 1U; add.s32 y, x, 2;",
        "mov.b32 x, 1; L: add.s32 y, x, 2;",
    ] {
        assert!(first.same_as(&text(other)).is_err(), "{other}");
    }
    // The same labels with other numbers: `L<2>` mentions the stem first.
    let labels = |list: &str| text(&format!("T: .branchtargets {list}; brx.idx x, T; L0: L1: bra Z; Z:"));
    labels("L<2>").same_as(&labels("L0, L1")).unwrap();
    assert!(labels("L<2>").same_as(&labels("L1, L0")).is_err());
}
