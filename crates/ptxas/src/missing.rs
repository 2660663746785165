//! Missing features: one message for each, however often a program uses it.

use std::collections::BTreeMap;

use oriole_driver::{CompileError, ErrorCause};

/// Returns the errors without repetitions: of the errors about one missing feature in one module, the first, with their number. Other
/// errors stay, each with the number 1.
pub fn grouped(errors: &[CompileError]) -> Vec<(&CompileError, usize)> {
    let mut groups: Vec<(&CompileError, usize)> = Vec::new();
    let mut known: BTreeMap<(usize, &str), usize> = BTreeMap::new();
    for error in errors {
        let ErrorCause::Unsupported(feature) = &error.fault else {
            groups.push((error, 1));
            continue;
        };
        let position = *known.entry((error.module, feature)).or_insert(groups.len());
        match groups.get_mut(position) {
            Some((_, count)) => *count += 1,
            None => groups.push((error, 1)),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_is_reported_once() {
        let missing = |module, feature: &str| CompileError::in_module(module, ErrorCause::Unsupported(feature.to_owned()));
        let limit = || CompileError::in_program(ErrorCause::Limit("registers".to_owned()));
        let errors = [missing(0, "a"), limit(), missing(0, "b"), missing(0, "a"), missing(1, "a"), limit(), missing(0, "a")];
        let counts: Vec<(usize, usize)> = grouped(&errors)
            .into_iter()
            .map(|(error, count)| (errors.iter().position(|one| std::ptr::eq(one, error)).unwrap(), count))
            .collect();
        assert_eq!(counts, [(0, 3), (1, 1), (2, 1), (4, 1), (5, 1)]);
    }
}
