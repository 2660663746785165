//! Table of the results of several sets of cubins for the same tests: counts of verdicts, and launch times.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::batch::{Answer, Verdict};

/// Name prefix of sets compiled by ptxas.
const RIVAL: &str = "ptxas-";
/// Name prefix of sets compiled by Oriole.
const OWN: &str = "oriole-";

/// The results of one set of cubins.
#[derive(Clone, Debug, Default)]
pub struct SetResult {
    pub name: String,
    pub right: usize,
    pub wrong: usize,
    pub faulted: usize,
    pub skipped: usize,
    /// Elapsed wall-clock time.
    pub seconds: f64,
    /// Median launch time of each test, in microseconds.
    pub times: BTreeMap<String, f64>,
}

impl SetResult {
    pub fn new(name: &str) -> SetResult {
        SetResult { name: name.to_owned(), ..SetResult::default() }
    }

    /// Counts a result.
    pub fn add(&mut self, test: &str, answer: &Answer) {
        match answer.verdict {
            Verdict::Passed => self.right += 1,
            Verdict::Failed(_) => self.wrong += 1,
            Verdict::Faulted(_) => self.faulted += 1,
            Verdict::Skipped(_) => self.skipped += 1,
        }
        self.times.extend(answer.microseconds.map(|time| (test.to_owned(), time)));
    }

    /// Returns whether a set that is not ptxas' has failures. Failures of ptxas' sets appear in the table only.
    pub fn is_to_blame(&self) -> bool {
        self.wrong + self.faulted > 0 && !self.name.starts_with(RIVAL)
    }

    /// Returns the number of tests.
    pub fn tests(&self) -> usize {
        self.right + self.wrong + self.faulted + self.skipped
    }
}

/// Returns the table, followed by a comparison of each of Oriole's sets with ptxas' set of the same optimization level.
pub fn text(sets: &[SetResult]) -> String {
    let mut out = String::from("set            tests   right   wrong faulted skipped   seconds  launch us\n");
    let common = common_tests(sets);
    for set in sets {
        let SetResult { name, right, wrong, faulted, skipped, seconds, times } = set;
        let mean = geometric_mean(common.iter().map(|test| times[*test]));
        let mean = mean.map_or("-".to_owned(), |mean| format!("{mean:.2}"));
        let tests = set.tests();
        let _ = writeln!(out, "{name:12} {tests:7} {right:7} {wrong:7} {faulted:7} {skipped:7} {seconds:9.1} {mean:>10}");
    }
    for own in sets {
        let level = own.name.strip_prefix(OWN);
        let Some(rival) = level.and_then(|level| sets.iter().find(|set| set.name.strip_prefix(RIVAL) == Some(level))) else { continue };
        let ratios: Vec<f64> = own.times.iter().filter_map(|(test, time)| Some(time / rival.times.get(test)?)).collect();
        let Some(ratio) = geometric_mean(ratios.iter().copied()) else { continue };
        let _ = writeln!(
            out,
            "{} takes {ratio:.3} times as long as {} (geometric mean of {} tests, launch included)",
            own.name,
            rival.name,
            ratios.len()
        );
    }
    out
}

/// Returns the tests that have a time in every set.
fn common_tests(sets: &[SetResult]) -> Vec<&String> {
    let Some((first, rest)) = sets.split_first() else { return Vec::new() };
    first.times.keys().filter(|test| rest.iter().all(|set| set.times.contains_key(*test))).collect()
}

/// Returns the geometric mean; `None` if there are no values or if one is not positive.
fn geometric_mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let logarithms: Vec<f64> = values.map(f64::ln).collect();
    let mean = logarithms.iter().sum::<f64>() / logarithms.len() as f64;
    mean.is_finite().then(|| mean.exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, times: &[(&str, f64)]) -> SetResult {
        let mut set = SetResult { seconds: 1.25, ..SetResult::new(name) };
        for &(test, time) in times {
            set.add(test, &Answer { verdict: Verdict::Passed, microseconds: Some(time) });
        }
        set
    }

    #[test]
    fn sets_are_compared_on_the_tests_they_share() {
        let mut own = set("oriole-O3", &[("a", 8.0), ("b", 2.0), ("c", 100.0)]);
        own.add("d", &Answer { verdict: Verdict::Failed("x".into()), microseconds: None });
        own.add("e", &Answer { verdict: Verdict::Faulted("x".into()), microseconds: None });
        let rival = set("ptxas-O3", &[("a", 2.0), ("b", 2.0)]);
        assert!(own.is_to_blame() && !rival.is_to_blame());
        let expected = "\
set            tests   right   wrong faulted skipped   seconds  launch us
oriole-O3          5       3       1       1       0       1.2       4.00
ptxas-O3           2       2       0       0       0       1.2       2.00
oriole-O3 takes 2.000 times as long as ptxas-O3 (geometric mean of 2 tests, launch included)
";
        assert_eq!(text(&[own, rival]), expected);
    }

    #[test]
    fn without_times_there_is_nothing_to_compare() {
        let mut own = SetResult::new("oriole-O0");
        own.add("a", &Answer { verdict: Verdict::Passed, microseconds: None });
        let mut rival = SetResult::new("ptxas-O0");
        rival.add("a", &Answer { verdict: Verdict::Failed("x".into()), microseconds: None });
        assert!(!rival.is_to_blame());
        let text = text(&[own, rival]);
        assert!(text.lines().nth(1).is_some_and(|line| line.ends_with('-')), "{text}");
        assert_eq!(text.lines().count(), 3);
    }
}
