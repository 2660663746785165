//! What must hold for any bytes. The fuzzer and a one-second test in `crates/ptx/tests` run the same function.

use oriole_ptx::diag::{self, Style};
use oriole_ptx::source::{LineIndex, Source};
use oriole_ptx::{Checked, Options};

/// Checks bytes as PTX. Panics if the front end breaks a promise:
/// findings lie inside the text and can be shown; a valid module, printed, is valid and prints the same again.
pub fn check_case(text: &[u8]) -> Checked {
    let checked = oriole_ptx::check(text, &Options::default());
    let source = Source::new("case.ptx", text);
    let lines = LineIndex::new(text);
    for finding in &checked.diagnostics {
        let places = finding.related.iter().map(|(span, _)| *span).chain([finding.span]);
        for place in places {
            assert!(place.start <= place.end && place.end as usize <= text.len(), "{finding:?} is not in the text");
        }
    }
    // Drawing is slower than checking by far; a few of each case are enough.
    for finding in checked.diagnostics.iter().take(4) {
        assert!(!diag::render(&source, &lines, finding, Style::Plain).is_empty());
        assert!(!diag::ptxas_lines(&source, &lines, finding).is_empty());
    }
    if checked.is_valid() {
        check_print(&checked);
    }
    checked
}

fn check_print(checked: &Checked) {
    let printed = oriole_ptx::print(&checked.module);
    let again = oriole_ptx::check(printed.as_bytes(), &Options::default());
    let first = again.diagnostics.first();
    assert!(again.is_valid(), "a valid module does not survive printing: {first:?}\n{printed}");
    if let Err(difference) = checked.module.same_as(&again.module) {
        panic!("a module changes when it is printed: {difference}\n{printed}");
    }
    assert!(oriole_ptx::print(&again.module) == printed, "printing twice gives different texts:\n{printed}");
}
