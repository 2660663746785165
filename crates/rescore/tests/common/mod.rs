//! What the baselines of code quality share: digests of machine code and of scheduling reports, and the comparison with a recorded table.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use oriole_cubin::Cubin;
use oriole_driver::Compiled;
use oriole_driver::account::LatencyCase;
use oriole_isa::{Target, decode};

/// Returns the root of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the FNV-1a hash of bytes.
pub fn digest(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Returns the digest of the code of all functions, and the sum of their stall cycles.
pub fn code(cubin: &[u8], target: Target) -> (u64, u64) {
    let cubin = Cubin::read(cubin).expect("a cubin");
    let bytes: Vec<u8> = cubin.functions().flat_map(|function| function.code.to_vec()).collect();
    let words = bytes.chunks_exact(16).map(|word| u128::from_le_bytes(word.try_into().expect("16 bytes")));
    let stalls = words.map(|word| u64::from(decode(word, target).expect("an instruction").control.stall)).sum();
    (digest(bytes), stalls)
}

/// Returns the estimated latency of all functions, and the digest of the whole scheduling report.
pub fn report(compiled: &Compiled) -> (f64, u64) {
    let mut text = String::new();
    let mut latency = 0.0;
    for report in &compiled.scheduling {
        latency += report.after.iter().find(|(name, _)| name == "est latency").map_or(0.0, |(_, figure)| figure.number());
        for case in [LatencyCase::Neither, LatencyCase::Average, LatencyCase::Worst] {
            text.push_str(&report.statistics(case));
        }
        (0..=3).for_each(|level| text.push_str(&report.guidance(level)));
        text.push_str(&report.trace);
        write!(text, "{:?}", report.loops()).expect("writing to a string");
    }
    (latency, digest(text.bytes()))
}

/// Serializes the tests of a file that record lines of the same table.
static RECORDING: Mutex<()> = Mutex::new(());

/// Compares lines with those of a table that start with a prefix. `ORIOLE_BLESS=1` records them first; lines with other prefixes stay, and
/// the table is sorted unless the prefix is empty.
pub fn compare(table: &str, header: &str, prefix: &str, found: &[String]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(table);
    assert!(found.iter().all(|line| line.starts_with(prefix)), "all lines start with `{prefix}`");
    let read = || std::fs::read_to_string(&path).unwrap_or_default();
    if std::env::var_os("ORIOLE_BLESS").is_some() {
        let lock = RECORDING.lock().expect("no test panics while it records");
        let text = read();
        let others = text.lines().filter(|line| !line.starts_with(prefix) && !line.starts_with('#')).map(str::to_owned);
        let mut lines: Vec<String> = others.chain(found.iter().cloned()).collect();
        if !prefix.is_empty() {
            lines.sort();
        }
        std::fs::write(&path, format!("{header}{}\n", lines.join("\n"))).expect("the table");
        drop(lock);
    }
    let text = read();
    let recorded: BTreeSet<&str> = text.lines().filter(|line| line.starts_with(prefix) && !line.starts_with('#')).collect();
    let new: Vec<&str> = found.iter().map(String::as_str).filter(|line| !recorded.contains(line)).collect();
    let shown = new[..new.len().min(20)].join("\n");
    assert!(new.is_empty(), "{} lines differ from {table}; review them, then record them with ORIOLE_BLESS=1:\n{shown}", new.len());
    assert_eq!(found.len(), recorded.len(), "{table} has lines that nothing makes; record with ORIOLE_BLESS=1");
}
