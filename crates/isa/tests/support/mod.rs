//! Reads the recorded words.
#![allow(dead_code, reason = "each test uses its part")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use oriole_isa::Target;

/// A word with the text that nvdisasm prints; `None` if nvdisasm rejects it.
pub struct Record {
    pub target: Target,
    pub word: u128,
    pub text: Option<String>,
    pub place: String,
}

/// Returns the folder of the tests.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// Reads all lines `hex text` of the files `sm_XX.txt` of a folder. Branch targets in texts are those of an instruction at address 0.
pub fn records(name: &str) -> Vec<Record> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder().join(name)).expect("folder").map(|entry| entry.expect("entry").path()).collect();
    files.sort();
    let mut all = Vec::new();
    for path in files {
        let stem = path.file_stem().expect("name").to_string_lossy().into_owned();
        let Some(target) = Target::parse(&stem) else { continue };
        let text = fs::read_to_string(&path).expect("text");
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
            let (hex, text) = line.split_once(' ').expect("hex and text");
            let word = u128::from_str_radix(hex, 16).expect("hex");
            let text = (text != "-").then(|| at_address_zero(text));
            all.push(Record { target, word, text, place: format!("{stem}.txt:{}", number + 1) });
        }
    }
    all
}

/// Converts recorded branch targets, which are distances from the next instruction: `PC+0x10` at address 0 is `0x20`.
fn at_address_zero(text: &str) -> String {
    let Some(position) = text.find("PC+0x").or_else(|| text.find("PC-0x")) else { return text.to_string() };
    let distance = i64::from_str_radix(&text[position + 5..], 16).expect("distance");
    let target = 16 + if text[position..].starts_with("PC-") { -distance } else { distance };
    let sign = if target < 0 { "-" } else { "" };
    format!("{}{sign}{:#x}", &text[..position], target.unsigned_abs())
}

/// Returns whether two texts are equal except for spaces.
pub fn same_text(left: &str, right: &str) -> bool {
    left.chars().filter(|c| *c != ' ').eq(right.chars().filter(|c| *c != ' '))
}

/// Fails unless the differences found are those of a list; `ORIOLE_BLESS=1` rewrites the list instead.
pub fn compare_with_list(name: &str, header: &str, found: &BTreeSet<String>, is_compared: impl Fn(&str) -> bool) {
    let path = folder().join(name);
    if std::env::var_os("ORIOLE_BLESS").is_some() {
        let lines: Vec<&str> = found.iter().map(String::as_str).collect();
        fs::write(&path, format!("# {header}\n{}\n", lines.join("\n"))).expect("list written");
        return;
    }
    let text = fs::read_to_string(&path).expect("list of differences");
    let listed: BTreeSet<String> =
        text.lines().filter(|line| !line.starts_with('#') && !line.is_empty() && is_compared(line)).map(str::to_string).collect();
    let new: Vec<&String> = found.difference(&listed).take(20).collect();
    let gone: Vec<&String> = listed.difference(found).take(20).collect();
    assert!(new.is_empty(), "differences that are not listed: {new:#?}");
    assert!(gone.is_empty(), "listed differences that are gone (ORIOLE_BLESS=1 rewrites the list): {gone:#?}");
}
