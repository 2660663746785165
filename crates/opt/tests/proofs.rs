//! The rewrites of the rule tests as pairs of functions, which `tools/proofs/prove.py` proves equal for all inputs.
//!
//! The tests of rules interpret functions before and after a pass on chosen inputs. Each pair that the pass changed is also added to a [`Pairs`],
//! whose hash must be the one in `tools/proofs/proven.txt`: a rule that is new or that writes other code fails the test until it is proven again.

use std::path::Path;

use oriole_ir::{Function, text};

/// The results of the proofs.
const RECORD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/proofs/proven.txt");

/// The functions that a pass changed, as text.
#[derive(Default)]
pub struct Pairs {
    text: String,
    count: usize,
}

impl Pairs {
    /// Adds a function before and after a pass, unless the pass left it as it was.
    pub fn add(&mut self, before: &Function, after: &Function) {
        let (before, after) = (text::print(before), text::print(after));
        if before != after {
            self.text += &format!("; pair\n{before}; after\n{after}");
            self.count += 1;
        }
    }

    /// Checks that these pairs are the proven ones of the set `name`. With `ORIOLE_PROOF_PAIRS=FOLDER` in the environment, writes them to a
    /// file in that folder instead.
    pub fn check(&self, name: &str) {
        if let Some(folder) = std::env::var_os("ORIOLE_PROOF_PAIRS") {
            std::fs::write(Path::new(&folder).join(format!("{name}.pairs")), &self.text).expect("the file can be written");
            return;
        }
        let record = std::fs::read_to_string(RECORD).expect("the record of the proofs exists");
        let line = format!("pairs {name} {:016x} proven {}", hash(self.text.as_bytes()), self.count);
        assert!(record.lines().any(|recorded| recorded == line), "not proven: `{line}`; see tools/proofs/README.md");
    }
}

/// Returns the 64-bit FNV-1a hash of some bytes.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
