//! Differences between two lists of lines: for reports, and for results of passes that are shown next to their input.

/// Number of equal lines shown around a difference in a report.
const CONTEXT: usize = 2;

/// A line of a comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Line<'a> {
    /// A line of both lists.
    Both(&'a str),
    /// A line of the first list only.
    Old(&'a str),
    /// A line of the second list only.
    New(&'a str),
}

/// Compares two lists of lines by their longest common subsequence. Old lines come before the new lines that replace them.
pub fn compare<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    // lengths[i][j]: length of the longest common subsequence of old[i..] and new[j..].
    let mut lengths = vec![vec![0_usize; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            lengths[i][j] = if old[i] == new[j] { lengths[i + 1][j + 1] + 1 } else { usize::max(lengths[i + 1][j], lengths[i][j + 1]) };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut lines = Vec::with_capacity(old.len() + new.len());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            lines.push(Line::Both(old[i]));
            i += 1;
            j += 1;
        } else if i < old.len() && (j == new.len() || lengths[i + 1][j] >= lengths[i][j + 1]) {
            lines.push(Line::Old(old[i]));
            i += 1;
        } else {
            lines.push(Line::New(new[j]));
            j += 1;
        }
    }
    lines
}

/// Returns the second text with marks: `-` for lines that only the first text has, `+` for lines that only the second text has.
pub fn marked(old: &str, new: &str) -> Vec<String> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let mark = |line| match line {
        Line::Both(text) => format!("  {text}"),
        Line::Old(text) => format!("- {text}"),
        Line::New(text) => format!("+ {text}"),
    };
    compare(&old, &new).into_iter().map(mark).collect()
}

/// Returns the lines of a file that differ from the actual result, with line numbers and a few equal lines around them.
pub fn report(file: &str, found: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (file.lines().collect(), found.lines().collect());
    let lines = compare(&old, &new);
    let is_near = |at: usize| {
        let around = at.saturating_sub(CONTEXT)..(at + CONTEXT + 1).min(lines.len());
        lines[around].iter().any(|line| !matches!(line, Line::Both(_)))
    };
    let mut text = String::new();
    let mut number = 0;
    let mut is_cut = false;
    for (at, line) in lines.iter().enumerate() {
        number += usize::from(!matches!(line, Line::New(_)));
        if !is_near(at) {
            is_cut = true;
            continue;
        }
        if std::mem::take(&mut is_cut) {
            text.push_str("       ...\n");
        }
        text.push_str(&match line {
            Line::Both(line) => format!("{number:5}   {line}\n"),
            Line::Old(line) => format!("{number:5} - {line}\n"),
            Line::New(line) => format!("      + {line}\n"),
        });
    }
    text
}
