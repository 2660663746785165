//! Sums over control words.

use std::iter::Sum;
use std::ops::Add;

use oriole_isa::Control;

/// What the control words of some code add up to.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Tally {
    pub instructions: u64,
    /// Stall cycles.
    pub stalls: u64,
    /// Scoreboards waited for.
    pub waits: u64,
    /// Scoreboards set.
    pub scoreboards: u64,
    /// Flags of the reuse cache.
    pub reuses: u64,
    /// Instructions behind which the scheduler may turn to another warp.
    pub yields: u64,
}

impl Tally {
    /// Of words.
    pub fn of(words: &[u128]) -> Tally {
        words.iter().map(|&word| Tally::one(Control::of(word))).sum()
    }

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
