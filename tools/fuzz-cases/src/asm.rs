//! Fuzz target for the assembler of control listings.
//!
//! Conditions: no panic; every error has a position in the text; an assembled file can be listed, and its listing assembles to the same
//! bytes.

use oriole_cli::sass::assemble::assemble;
use oriole_cubin::Cubin;

use crate::CaseOutcome;
use crate::damage_text::damage_text;
use crate::listing::control_listing;
use crate::numbers::Numbers;
use crate::seeds;

/// Judges a case.
pub fn check(case: &[u8]) -> CaseOutcome {
    let Ok(text) = std::str::from_utf8(case) else { return CaseOutcome::Refused };
    let bytes = match assemble(text) {
        Ok(assembled) => assembled.bytes,
        Err(problems) => {
            assert!(!problems.is_empty(), "refused without a reason");
            let lines = text.lines().count().max(1);
            for problem in problems {
                assert!((1..=lines).contains(&problem.line) && problem.column > 0, "{problem:?} is not in the text");
            }
            return CaseOutcome::Refused;
        }
    };
    let cubin = Cubin::read(&bytes).unwrap_or_else(|error| panic!("what was assembled cannot be read: {error}"));
    let listing = control_listing(&cubin, false).unwrap_or_else(|error| panic!("what was assembled cannot be listed: {error}"));
    match assemble(&listing) {
        Ok(again) => assert!(again.bytes == bytes, "the listing of what was assembled assembles to another file"),
        Err(problems) => panic!("the listing of what was assembled does not assemble: {:?}", problems.first()),
    }
    CaseOutcome::Accepted
}

/// Returns control listings of cubins.
pub fn seeds() -> Vec<Vec<u8>> {
    let cubins = seeds::cubins().into_iter().filter_map(|bytes| Cubin::read(&bytes).ok());
    cubins.filter_map(|cubin| control_listing(&cubin, false).ok()).map(String::into_bytes).filter(|text| text.len() < 60_000).collect()
}

/// Damages the text, most of the time only the part before the skeleton.
pub fn damage(case: &mut Vec<u8>, numbers: &mut Numbers) {
    let skeleton = case.windows(9).position(|window| window == b".skeleton").filter(|_| numbers.chance(90));
    let rest = case.split_off(skeleton.unwrap_or(case.len()));
    let pool = case.clone();
    damage_text(case, &pool, numbers);
    case.extend(rest);
}
