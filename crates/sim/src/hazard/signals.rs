//! The scoreboards that signal the completion of an instruction.
//!
//! On one path the instruction is complete once any scoreboard of a set is waited for: its own, or that of a later instruction of the same
//! in-order group. Where paths meet, these sets may differ:
//!
//! ```text
//! path one:  LDG sets SB4, then a store sets SB0      complete after a wait for SB4 or SB0
//! path two:  LDG sets SB4, then an atomic sets SB1    complete after a wait for SB4 or SB1
//! ```
//!
//! After the paths meet, a wait for SB4 is enough, and so are waits for SB0 and SB1 together. [`ScoreboardSets`] therefore has two sets, both of
//! which must be waited for.

/// Two sets of scoreboards, one bit for each scoreboard. The instruction is complete once a scoreboard of each set is waited for. The sets
/// are equal where one is enough; otherwise neither contains the other, and they are in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScoreboardSets([u8; 2]);

impl ScoreboardSets {
    /// Returns the signals of an instruction that is complete once any of these scoreboards is waited for.
    pub fn any_of(scoreboards: u8) -> ScoreboardSets {
        ScoreboardSets([scoreboards; 2])
    }

    /// Returns all scoreboards that matter.
    pub fn scoreboards(self) -> u8 {
        self.0[0] | self.0[1]
    }

    /// Returns whether no wait completes the instruction.
    pub fn is_never(self) -> bool {
        self.0.contains(&0)
    }

    /// Returns a scoreboard to wait for: one that completes the instruction alone, if there is one.
    pub fn example(self) -> u8 {
        let alone = self.0[0] & self.0[1];
        (if alone != 0 { alone } else { self.0[0] }).trailing_zeros() as u8
    }

    /// Returns what is still to be waited for after a wait for a scoreboard; `None` if the instruction is complete.
    pub fn after_wait(self, scoreboard: usize) -> Option<ScoreboardSets> {
        match self.0.map(|set| set >> scoreboard & 1 == 1) {
            [true, true] => None,
            [true, false] => Some(ScoreboardSets::any_of(self.0[1])),
            [false, true] => Some(ScoreboardSets::any_of(self.0[0])),
            [false, false] => Some(self),
        }
    }

    /// Adds scoreboards of later instructions of the same in-order group.
    pub fn with(self, scoreboards: u8) -> ScoreboardSets {
        ScoreboardSets::all_of(self.0.map(|set| set | scoreboards))
    }

    /// Joins the signals of two paths: what completes the instruction on both.
    pub fn merge(self, other: ScoreboardSets) -> ScoreboardSets {
        ScoreboardSets::all_of([self.0[0], self.0[1], other.0[0], other.0[1]])
    }

    /// Returns the signals of an instruction that is complete once a scoreboard of each set is waited for. If more than two sets are left
    /// after those that contain another one are dropped, the last ones are replaced by their intersection, which is safe.
    fn all_of<const COUNT: usize>(mut sets: [u8; COUNT]) -> ScoreboardSets {
        sets.sort_unstable();
        let mut kept: [Option<u8>; 2] = [None; 2];
        for (at, &set) in sets.iter().enumerate() {
            let is_implied = |other: usize| sets[other] & set == sets[other] && (sets[other] != set || other < at);
            if (0..COUNT).any(is_implied) {
                continue;
            }
            match &mut kept {
                [first @ None, _] => *first = Some(set),
                [_, second] => *second = Some(second.map_or(set, |kept| kept & set)),
            }
        }
        let first = kept[0].unwrap_or_default();
        let second = kept[1].unwrap_or(first);
        // The intersection may be contained in the first set.
        if second & first == second { ScoreboardSets::any_of(second) } else { ScoreboardSets([first.min(second), first.max(second)]) }
    }
}

#[cfg(test)]
mod tests {
    use super::ScoreboardSets;

    /// Returns whether an instruction is complete after waits for these scoreboards.
    fn is_complete(signals: ScoreboardSets, waits: u8) -> bool {
        let mut left = Some(signals);
        for scoreboard in (0..8).filter(|scoreboard| waits >> scoreboard & 1 == 1) {
            left = left.and_then(|signals| signals.after_wait(scoreboard));
        }
        left.is_none()
    }

    #[test]
    fn either_scoreboard_of_both_paths_or_one_of_each() {
        let merged = ScoreboardSets::any_of(0b1_0001).merge(ScoreboardSets::any_of(0b1_0010));
        assert!(is_complete(merged, 0b1_0000) && is_complete(merged, 0b0_0011));
        assert!(!is_complete(merged, 0b0_0001) && !is_complete(merged, 0b0_0010));
        assert_eq!(merged.example(), 4);
        assert_eq!(merged.scoreboards(), 0b1_0011);
    }

    /// All signals of three scoreboards: what completes the merged ones completes both, and merging again changes nothing.
    #[test]
    fn merging_is_safe_and_ends() {
        let single: Vec<ScoreboardSets> = (0..8).map(ScoreboardSets::any_of).collect();
        let pairs: Vec<ScoreboardSets> = single.iter().flat_map(|one| single.iter().map(|other| one.merge(*other))).collect();
        for &one in &pairs {
            for &other in &pairs {
                let merged = one.merge(other);
                for waits in 0..8 {
                    assert!(!is_complete(merged, waits) || is_complete(one, waits) && is_complete(other, waits), "{one:?} {other:?}");
                }
                assert_eq!((merged.merge(one), merged.merge(other)), (merged, merged), "{one:?} {other:?}");
            }
        }
    }

    /// Two sets are represented exactly.
    #[test]
    fn two_sets_are_exact() {
        for (one, other) in (0..8).flat_map(|one| (0..8).map(move |other| (one, other))) {
            let merged = ScoreboardSets::any_of(one).merge(ScoreboardSets::any_of(other));
            for waits in 0..8 {
                assert_eq!(is_complete(merged, waits), waits & one != 0 && waits & other != 0, "{one} {other} {waits}");
            }
            assert_eq!(merged.is_never(), one == 0 || other == 0);
        }
    }

    #[test]
    fn scoreboards_of_later_instructions_are_added_to_each_set() {
        let merged = ScoreboardSets::any_of(0b01).merge(ScoreboardSets::any_of(0b10)).with(0b100);
        assert!(is_complete(merged, 0b100) && is_complete(merged, 0b011) && !is_complete(merged, 0b001));
    }
}
