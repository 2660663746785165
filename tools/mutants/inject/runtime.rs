//! Decides which mutant is active. This crate is part of the instrumented copy of the workspace only.
//!
//! `ORIOLE_MUTANT=N` activates mutant N. `ORIOLE_MUTANT_REACHED=FILE` activates none and appends the number of each mutant whose site is
//! executed to FILE, once in a process.

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// More than the number of mutants in any copy.
const CAPACITY: usize = 1 << 16;

struct Mode {
    active: u32,
    reached_file: Option<String>,
}

static MODE: LazyLock<Mode> = LazyLock::new(|| Mode {
    active: std::env::var("ORIOLE_MUTANT").ok().and_then(|number| number.parse().ok()).unwrap_or(u32::MAX),
    reached_file: std::env::var("ORIOLE_MUTANT_REACHED").ok(),
});

static REACHED: [AtomicBool; CAPACITY] = [const { AtomicBool::new(false) }; CAPACITY];

/// Whether the mutant is the active one.
#[inline]
pub fn active(mutant: u32) -> bool {
    let mode = &*MODE;
    if mode.reached_file.is_some() {
        reach(mutant);
    }
    mode.active == mutant
}

#[cold]
fn reach(mutant: u32) {
    if REACHED[mutant as usize].load(Ordering::Relaxed) || REACHED[mutant as usize].swap(true, Ordering::Relaxed) {
        return;
    }
    let Some(path) = MODE.reached_file.as_deref().filter(|path| !path.is_empty()) else { return };
    let mut file = OpenOptions::new().create(true).append(true).open(path).expect("the file of reached mutants");
    file.write_all(format!("{mutant}\n").as_bytes()).expect("the file of reached mutants");
}

/// Returns the mutants that were reached since the last call, in ascending order, and forgets them.
pub fn take_reached() -> Vec<u32> {
    (0..CAPACITY as u32).filter(|&mutant| REACHED[mutant as usize].swap(false, Ordering::Relaxed)).collect()
}
