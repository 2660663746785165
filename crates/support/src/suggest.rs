//! "Did you mean ...?": the candidate nearest to a misspelt word.

/// Returns the candidate with the smallest edit distance to `word`, if it is close enough to be a likely misspelling: at most one edit for
/// words of up to five characters, at most a third of the length for longer ones. The first candidate wins a tie.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > 64 {
        return None;
    }
    let length = word.chars().count();
    let limit = (length / 3).max(1);
    let mut best: Option<(usize, &str)> = None;
    // The distance is at least the difference of the lengths.
    for candidate in candidates.into_iter().filter(|candidate| candidate.chars().count().abs_diff(length) <= limit) {
        let distance = edit_distance(word, candidate);
        if distance <= limit && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Returns the edit distance (optimal string alignment): insertions, deletions, substitutions and adjacent transpositions count one each.
fn edit_distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let substitution = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = substitution.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_edits_and_transpositions() {
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("golbal", "global"), 1);
        assert_eq!(edit_distance("", "abc"), 3);
    }

    #[test]
    fn far_words_get_no_suggestion() {
        let words = ["global", "shared", "local"];
        assert_eq!(closest("globl", words), Some("global"));
        assert_eq!(closest("sharde", words), Some("shared"));
        assert_eq!(closest("texture", words), None);
    }
}
