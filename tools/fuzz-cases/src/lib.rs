//! What must hold for any input of Oriole's readers.
//!
//! Each target is a module with three functions: `check` judges a case and panics if a condition is broken, `seeds` gives cases to start
//! from, `damage` makes another case of one. The fuzzer in `fuzz/` and the tests of this crate run the same functions, see
//! `fuzz/README.md`.

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

/// What became of a case whose conditions hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It was refused with a reason.
    Refused,
    /// It was read, and what came out of it was checked.
    Accepted,
}

/// A fuzz target.
#[derive(Clone, Copy)]
pub struct FuzzTarget {
    pub name: &'static str,
    /// Judges a case; panics if a condition does not hold.
    pub check: fn(&[u8]) -> Outcome,
    /// Cases to start from.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Makes another case of one.
    pub damage: fn(&mut Vec<u8>, &mut Numbers),
}

/// All targets but `check`, which belongs to the front end (`fuzz/check_case.rs`).
pub const TARGETS: [FuzzTarget; 5] = [
    FuzzTarget { name: "compile", check: compile::check, seeds: compile::seeds, damage: compile::damage },
    FuzzTarget { name: "cubin", check: cubin::check, seeds: cubin::seeds, damage: cubin::damage },
    FuzzTarget { name: "asm", check: asm::check, seeds: asm::seeds, damage: asm::damage },
    FuzzTarget { name: "profile", check: profile::check, seeds: profile::seeds, damage: profile::damage },
    FuzzTarget { name: "header", check: header::check, seeds: header::seeds, damage: header::damage },
];

/// The target of a name.
pub fn target(name: &str) -> Option<FuzzTarget> {
    TARGETS.into_iter().find(|target| target.name == name)
}

/// Damages a case in place for a fuzzing engine whose buffer holds `size` bytes of it and has room for more; returns the new size.
pub fn damage_in_place(target: FuzzTarget, buffer: &mut [u8], size: usize, most: usize, seed: u32) -> usize {
    let mut case = buffer[..size].to_vec();
    (target.damage)(&mut case, &mut Numbers::new(u64::from(seed)));
    case.truncate(most.min(buffer.len()));
    buffer[..case.len()].copy_from_slice(&case);
    case.len()
}
