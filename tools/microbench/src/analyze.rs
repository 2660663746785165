//! Computes distances and times from the raw results of experiments.

use crate::environment::LANES;
use crate::hazard::{Hazard, Load, SHIFTS, Variant, variants};

/// The results of a pair of instructions at all distances.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Distances {
    /// For each shift of the code, one letter per distance: `.` correct in all passes, `x` wrong in all passes except perhaps the first,
    /// `~` wrong in some.
    pub verdicts: Vec<String>,
    /// The reason why the results are not usable, if any.
    pub problem: Option<String>,
}

/// Returns the number of words that a kernel of [`crate::hazard`] writes.
pub fn result_words(longest_cycles: u32, load: Load) -> usize {
    variants(longest_cycles).len() * load.passes() * LANES
}

/// Compares every variant with the variant that is certainly correct.
pub fn distances(hazard: Hazard, longest_cycles: u32, load: Load, results: &[u32]) -> Distances {
    let words = load.passes() * LANES;
    let chunk = |index: usize| &results[index * words..(index + 1) * words];
    let (far, absent) = (chunk(0), chunk(1));
    // The first pass of a kernel may see memory that later passes have changed.
    let reference = &far[words - LANES..];
    let pass_is_right = |pass: &[u32]| pass == reference;
    let problem = if !far.chunks(LANES).skip(1).all(pass_is_right) {
        Some("the passes of the longest distance differ".to_owned())
    } else if hazard == Hazard::Raw && absent.chunks(LANES).last().is_some_and(pass_is_right) {
        Some("old and new value look alike".to_owned())
    } else {
        None
    };
    let mut verdicts = vec![String::new(); SHIFTS as usize];
    for (index, variant) in variants(longest_cycles).into_iter().enumerate() {
        if let Variant::Near(_, shift) = variant {
            verdicts[shift as usize].push(verdict(chunk(index).chunks(LANES).map(pass_is_right)));
        }
    }
    Distances { verdicts, problem }
}

fn verdict(passes: impl Iterator<Item = bool>) -> char {
    let right: Vec<bool> = passes.collect();
    if right.iter().all(|&is_right| is_right) {
        '.'
    } else if right.iter().skip(1).any(|&is_right| is_right) {
        '~'
    } else {
        'x'
    }
}

/// Returns the smallest distance from which on all distances are correct, at every shift; `None` if the longest one is wrong.
pub fn smallest(verdicts: &[String]) -> Option<u32> {
    verdicts
        .iter()
        .map(|row| last_wrong(row))
        .max()
        .map(|wrong| wrong + 1)
        .filter(|&distance| verdicts.iter().all(|row| distance <= row.len() as u32))
}

/// Returns the longest wrong distance.
fn last_wrong(row: &str) -> u32 {
    row.bytes().rposition(|letter| letter != b'.').map_or(0, |position| position as u32 + 1)
}

/// Returns whether a distance is correct and a longer one is not, or whether shifts disagree.
pub fn is_ragged(verdicts: &[String]) -> bool {
    let has_gap = |row: &String| row[..last_wrong(row) as usize].contains('.') || row.contains('~');
    verdicts.iter().any(has_gap) || verdicts.windows(2).any(|rows| rows[0] != rows[1])
}

/// Returns the cycles per additional copy, from the times of two numbers of copies.
pub fn slope(few: (u32, f64), many: (u32, f64)) -> f64 {
    (many.1 - few.1) / f64::from(many.0 - few.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS_PER_VARIANT: usize = 8 * LANES;

    fn results(longest: u32, right_from: u32) -> Vec<u32> {
        let value = |variant| match variant {
            Variant::Far => 7,
            Variant::Absent => 3,
            Variant::Near(distance, _) => {
                if distance >= right_from {
                    7
                } else {
                    3
                }
            }
        };
        variants(longest).into_iter().flat_map(|variant| vec![value(variant); WORDS_PER_VARIANT]).collect()
    }

    #[test]
    fn finds_the_smallest_distance() {
        let found = distances(Hazard::Raw, 10, Load::Quiet, &results(10, 5));
        assert_eq!(found.problem, None);
        assert_eq!(found.verdicts[0], "xxxx......");
        assert_eq!(smallest(&found.verdicts), Some(5));
        assert!(!is_ragged(&found.verdicts));
    }

    #[test]
    fn a_single_wrong_pass_counts() {
        let mut raw = results(10, 5);
        // Variant 2 + 6 is distance 7 at shift 0; lane 3 of pass 4 is wrong.
        raw[8 * WORDS_PER_VARIANT + 4 * LANES + 3] = 3;
        let found = distances(Hazard::Raw, 10, Load::Quiet, &raw);
        assert_eq!(found.verdicts[0], "xxxx..~...");
        assert_eq!(smallest(&found.verdicts), Some(8));
        assert!(is_ragged(&found.verdicts));
    }

    #[test]
    fn knows_when_nothing_is_long_enough() {
        let found = distances(Hazard::Raw, 10, Load::Quiet, &results(10, 99));
        assert_eq!(smallest(&found.verdicts), None);
    }

    #[test]
    fn knows_when_nothing_can_be_seen() {
        let raw = vec![1; result_words(4, Load::Quiet)];
        assert!(distances(Hazard::Raw, 4, Load::Quiet, &raw).problem.is_some());
        assert!(distances(Hazard::Waw, 4, Load::Quiet, &raw).problem.is_none());
    }

    #[test]
    fn slopes() {
        assert_eq!(slope((8, 100.0), (24, 164.0)), 4.0);
    }
}
