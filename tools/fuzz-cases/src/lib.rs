//! Fuzz targets: conditions that must hold for any input of Oriole's readers.
//!
//! Each target is a module with three functions: `check` judges a case and panics if a condition is violated, `seeds` returns initial
//! cases, and `damage` modifies a case. The fuzzer in `fuzz/` and the tests of this crate use the same functions; see `fuzz/README.md`.

pub mod asm;
pub mod compile;
pub mod cubin;
pub mod damage_bytes;
pub mod damage_text;
pub mod header;
pub mod listing;
pub mod numbers;
pub mod profile;
pub mod runner;
pub mod seeds;

use numbers::Numbers;

/// The result of a case that satisfies all conditions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CaseOutcome {
    /// The input was rejected with a reason.
    Refused,
    /// The input was accepted, and the result was checked.
    Accepted,
}

/// A fuzz target.
#[derive(Clone, Copy)]
pub struct FuzzTarget {
    pub name: &'static str,
    /// Judges a case; panics if a condition is violated.
    pub check: fn(&[u8]) -> CaseOutcome,
    /// Returns initial cases.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Modifies a case.
    pub damage: fn(&mut Vec<u8>, &mut Numbers),
}

/// All targets except `check`, which belongs to the front end (`fuzz/check_case.rs`).
pub const TARGETS: [FuzzTarget; 5] = [
    FuzzTarget { name: "compile", check: compile::check, seeds: compile::seeds, damage: compile::damage },
    FuzzTarget { name: "cubin", check: cubin::check, seeds: cubin::seeds, damage: cubin::damage },
    FuzzTarget { name: "asm", check: asm::check, seeds: asm::seeds, damage: asm::damage },
    FuzzTarget { name: "profile", check: profile::check, seeds: profile::seeds, damage: profile::damage },
    FuzzTarget { name: "header", check: header::check, seeds: header::seeds, damage: header::damage },
];

/// Returns the target with this name.
pub fn target(name: &str) -> Option<FuzzTarget> {
    TARGETS.into_iter().find(|target| target.name == name)
}

/// Damages a case in the buffer of a fuzzing engine; `size` bytes of the buffer are the case. Returns the new size, at most `most`.
pub fn damage_in_place(target: FuzzTarget, buffer: &mut [u8], size: usize, most: usize, seed: u32) -> usize {
    let mut case = buffer[..size].to_vec();
    (target.damage)(&mut case, &mut Numbers::new(u64::from(seed)));
    case.truncate(most.min(buffer.len()));
    buffer[..case.len()].copy_from_slice(&case);
    case.len()
}
