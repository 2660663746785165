//! Print and parse again: the same tree, the same text, and for ptxas the same program.

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

/// A module and where it comes from.
struct Source {
    name: String,
    text: String,
}

/// The modules of a folder: each `.ptx` file, and each part of a `.txt` file that starts with a line `=== name`.
fn load(folder: &Path) -> Vec<Source> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let mut sources = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match path.extension().and_then(|extension| extension.to_str()) {
            // Some of the modules ask what happens with bytes outside ASCII.
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

/// The module, or the first errors.
fn parse(text: &str) -> Result<Module, String> {
    let checked = check(text.as_bytes(), &Options::default());
    if checked.is_valid() {
        return Ok(checked.module);
    }
    let messages: Vec<String> = checked.diagnostics.iter().take(3).map(|finding| format!("{}: {}", finding.span.start, finding.message)).collect();
    Err(messages.join("; "))
}

/// Prints a module and reads it back; the printed text, or what went wrong.
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

/// ptxas of the oracles, if it is there.
fn ptxas() -> Option<PathBuf> {
    let folder = std::env::var_os("ORIOLE_ORACLES").map_or_else(|| root().join(".oracles/bin"), PathBuf::from);
    let path = folder.join("ptxas");
    if !path.exists() {
        println!("skipped: ptxas not found; run tools/oracles.sh");
        return None;
    }
    Some(path)
}

/// The value of a key in the first `// oriole:` line.
fn directive(text: &str, key: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix("// oriole:"))?;
    let value = line.split_once(&format!("{key}="))?.1;
    let (value, end) = if let Some(quoted) = value.strip_prefix('"') { (quoted, '"') } else { (value, ' ') };
    Some(value.split(end).next().unwrap_or_default().to_string())
}

/// Compiles PTX; the cubin, or the complaint.
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

/// The sections of a cubin that hold code, constants and initial values, by name.
fn sections(elf: &[u8]) -> Option<BTreeMap<String, &[u8]>> {
    const NO_BITS: u64 = 8;
    let number = |at: usize, bytes: usize| elf.get(at..at + bytes).map(|part| part.iter().rev().fold(0u64, |value, &byte| value << 8 | u64::from(byte)));
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

/// The first difference between two cubins.
fn cubin_difference(first: &[u8], second: &[u8]) -> Option<String> {
    let (Some(first), Some(second)) = (sections(first), sections(second)) else { return Some(String::from("not an ELF file")) };
    let names = |sections: &BTreeMap<String, &[u8]>| sections.keys().cloned().collect::<Vec<_>>();
    if names(&first) != names(&second) {
        return Some(format!("sections {:?} and {:?}", names(&first), names(&second)));
    }
    first.iter().find(|&(name, content)| second[name] != *content).map(|(name, _)| format!("section {name}"))
}

/// Compiles a module as it was written and as it is printed. Nothing if our parser or, for `optional` ones, ptxas refuses it.
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
    match cubin_difference(&original, &again) {
        None => Ok(true),
        Some(difference) => Err(format!("{difference}\n{printed}")),
    }
}

/// Two threads take the modules one after the other.
fn compare_all(sources: &[Source], optional: bool) {
    let Some(ptxas) = ptxas() else { return };
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

#[test]
#[ignore = "takes about a minute"]
fn ptxas_makes_the_same_code_of_accepted_modules() {
    compare_all(&load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/modules/accept")), true);
}
