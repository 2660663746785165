//! Which machines a module may be compiled for, by its `.target`.

use std::fmt;

use oriole_ptx::target::{Suffix, Target};

/// Why a module cannot be compiled for a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Obstacle {
    /// The module is for later machines.
    Later,
    /// It wants the features of this very machine, and the machine was named without them.
    WithoutFeatures,
    /// It wants the features of one earlier machine.
    OtherMachine,
    /// It wants the features of another family.
    OtherFamily,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Obstacle::Later => "which is a later one",
            Obstacle::WithoutFeatures => "whose own features need the suffix",
            Obstacle::OtherMachine => "whose own features no other has",
            Obstacle::OtherFamily => "which is of another family",
        })
    }
}

/// What keeps a module for `module` from being compiled for `machine`.
pub fn obstacle(module: Target, machine: Target) -> Option<Obstacle> {
    // sm_101 became sm_110. As a bound it keeps its old number.
    let renamed = if module.number == 101 { 110 } else { module.number };
    if machine.number < module.number {
        return Some(Obstacle::Later);
    }
    match module.suffix {
        Suffix::Plain => None,
        Suffix::ArchSpecific if renamed != machine.number => Some(Obstacle::OtherMachine),
        Suffix::ArchSpecific => (machine.suffix != Suffix::ArchSpecific).then_some(Obstacle::WithoutFeatures),
        Suffix::FamilySpecific => (family(renamed) != family(machine.number)).then_some(Obstacle::OtherFamily),
    }
}

fn family(number: u16) -> u16 {
    number / 10
}
