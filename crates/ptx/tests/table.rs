//! Lookup in the instruction table: spellings, rows, and what a target needs.

use oriole_ptx::diag::DiagnosticCode;
use oriole_ptx::enumerate::{legal_forms, module_text};
use oriole_ptx::table::{FAMILY_NAMES, Modifier, Opcode, ROWS, rows_of};
use oriole_ptx::target::{Platform, PtxVersion, Requirement, Suffix, Target, TargetNeed, Unmet};
use oriole_ptx::{Options, check};

#[test]
fn every_spelling_is_found_and_nothing_else() {
    for modifier in Modifier::ALL {
        let spelling = modifier.spelling();
        assert_eq!(Modifier::from_spelling(spelling), Some(modifier));
        assert_eq!(Modifier::from_spelling(&format!("{spelling}__")), None);
    }
    assert!(Opcode::ALL.iter().all(|opcode| Opcode::from_spelling(opcode.spelling()) == Some(*opcode)));
    assert!(FAMILY_NAMES.iter().all(|name| rows_of(name).is_some_and(|rows| !rows.is_empty())));
    assert_eq!((Modifier::from_spelling(""), rows_of("addd"), rows_of("ad")), (None, None, None));
}

/// Spellings are compared by their first 16 bytes, which these modifiers have in common, and then as a whole.
#[test]
fn spellings_that_begin_alike_are_told_apart() {
    let alike = ["multicast::cluster", "multicast::cluster::all"];
    let found = alike.map(|spelling| Modifier::from_spelling(spelling).map(Modifier::spelling));
    assert_eq!(found, alike.map(Some));
    for unknown in ["multicast::cluste", "multicast::cluster::", "multicast::cluster::al", "multicast::cluster::none"] {
        assert_eq!(Modifier::from_spelling(unknown), None, "{unknown}");
    }
}

/// The parser rules out rows by their modifiers before it compares them.
#[test]
fn no_row_is_ruled_out_that_takes_its_modifiers() {
    for (number, row) in ROWS.iter().enumerate() {
        for case in legal_forms(number, 3) {
            let (text, _) = module_text(std::slice::from_ref(&case));
            let checked = check(text.as_bytes(), &Options::default());
            // The generated text passes a single label to `brx.idx`, which takes a list of labels.
            let lacks_list = row.opcode == Opcode::BrxIdx
                && checked.diagnostics.iter().all(|diagnostic| diagnostic.code == DiagnosticCode::BadTargetList);
            assert!(checked.is_valid() || lacks_list, "{:?} line {}: {}: {:?}", row.opcode, row.line, case.text, checked.diagnostics);
        }
    }
}

fn platform(version: (u8, u8), target: &str) -> Platform {
    Platform { version: PtxVersion::new(version.0, version.1), target: Target::parse_ptx(target).unwrap() }
}

const NEED: TargetNeed = TargetNeed { number: 100, suffix: Suffix::FamilySpecific, version: PtxVersion::new(8, 8) };

#[test]
fn a_target_runs_the_code_of_earlier_members_of_its_family() {
    let needs = Requirement { version: PtxVersion::new(8, 6), targets: &[NEED] };
    assert_eq!(platform((9, 0), "sm_103f").missing(&needs), None);
    assert_eq!(platform((9, 0), "sm_100a").missing(&needs), None);
    assert!(matches!(platform((9, 0), "sm_100").missing(&needs), Some(Unmet::Target(_))));
    assert!(matches!(platform((9, 0), "sm_120a").missing(&needs), Some(Unmet::Target(_))));
    assert_eq!(platform((8, 6), "sm_100a").missing(&needs), Some(Unmet::Version(PtxVersion::new(8, 8))));
}
