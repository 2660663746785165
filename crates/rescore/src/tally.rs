//! Totals over control words.

use std::iter::Sum;
use std::ops::Add;

use oriole_isa::Control;

/// Totals over the control words of some code.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Tally {
    /// Number of instructions.
    pub instructions: u64,
    /// Sum of the stall cycles.
    pub stalls: u64,
    /// Number of scoreboards waited for.
    pub waits: u64,
    /// Number of scoreboards set.
    pub scoreboards: u64,
    /// Number of reuse flags.
    pub reuses: u64,
    /// Number of instructions after which the scheduler may switch to another warp.
    pub yields: u64,
}

impl Tally {
    /// Computes the totals over instruction words.
    pub fn of(words: &[u128]) -> Tally {
        words.iter().map(|&word| Tally::one(Control::of(word))).sum()
    }

    /// Returns the counts of one control word.
    fn one(control: Control) -> Tally {
        let set = |scoreboard: Option<u8>| u64::from(scoreboard.is_some());
        Tally {
            instructions: 1,
            stalls: control.stall.into(),
            waits: control.wait.count_ones().into(),
            scoreboards: set(control.write_barrier) + set(control.read_barrier),
            reuses: control.reuse.count_ones().into(),
            yields: u64::from(!control.stay),
        }
    }
}

impl Add for Tally {
    type Output = Tally;

    fn add(self, other: Tally) -> Tally {
        Tally {
            instructions: self.instructions + other.instructions,
            stalls: self.stalls + other.stalls,
            waits: self.waits + other.waits,
            scoreboards: self.scoreboards + other.scoreboards,
            reuses: self.reuses + other.reuses,
            yields: self.yields + other.yields,
        }
    }
}

impl Sum for Tally {
    fn sum<I: Iterator<Item = Tally>>(tallies: I) -> Tally {
        tallies.fold(Tally::default(), Add::add)
    }
}
