//! Fuzz target for files with machine code: cubin, fatbin, object file, executable.
//!
//! Conditions: no panic in `verify`, `disasm`, `rescore`, `roundtrip` and the loader of the simulator; a cubin is written as it was
//! read; its control listing assembles to the same bytes; a word that decodes encodes to the same bits.

use oriole_cli::sass::assemble::assemble;
use oriole_cli::sass::json;
use oriole_cli::sass::labels::Labels;
use oriole_cli::sass::listing::Listing;
use oriole_cli::sass::program::Program;
use oriole_cubin::{Cubin, ImageKind};
use oriole_isa::{decode, encode};
use oriole_rescore::{ReorderCondition, RescoreOptions, rescore};
use oriole_sim::sass::Code;
use oriole_sim::verify::{Verifier, verify};

use crate::CaseOutcome;
use crate::damage_bytes::damage_bytes;
use crate::listing::control_listing;
use crate::numbers::Numbers;
use crate::seeds;

/// Limit on the number of images per file that are checked; more images find nothing new.
const MOST_IMAGES: usize = 3;

/// Judges a case.
pub fn check(case: &[u8]) -> CaseOutcome {
    if let Ok(cubin) = Cubin::read(case) {
        let written = cubin.write().unwrap_or_else(|error| panic!("a cubin is read, but not written: {error}"));
        assert!(written == case, "a cubin is read and written differently");
    }
    let Ok(images) = oriole_cubin::open(case) else { return CaseOutcome::Refused };
    let mut outcome = CaseOutcome::Refused;
    for image in images.iter().filter(|image| image.kind == ImageKind::Cubin).take(MOST_IMAGES) {
        if let Ok(cubin) = image.cubin() {
            check_cubin(&cubin);
            outcome = CaseOutcome::Accepted;
        }
    }
    outcome
}

/// Checks the conditions on one cubin.
fn check_cubin(cubin: &Cubin) {
    if let Ok(report) = verify(cubin, &Verifier::ALL) {
        // Formatting a message decodes instructions, so messages are formatted too.
        report.all().for_each(|(_, finding)| drop(finding.to_string()));
    }
    let Ok(program) = Program::new(cubin) else { return };
    let labels = Labels::new(&program);
    let mut text = String::new();
    let mut listing = Listing::new(&program, &labels);
    listing.header(&mut text);
    (0..program.sections.len()).for_each(|position| listing.section(&mut text, position));
    let (file, _) = json::file(&program, &labels, None, &|_| true);
    assert!(serde_json::to_string(&file).is_ok(), "the listing cannot be written as JSON");
    check_words(&program);
    let Ok(bytes) = cubin.write() else { return };
    check_listing(cubin, &bytes);
    let _ = Code::load(&bytes).map_err(|error| error.to_string());
    for schedule in [None, Some(ReorderCondition::Always)] {
        check_rescored(&bytes, schedule);
    }
}

fn check_words(program: &Program<'_>) {
    for &word in program.sections.iter().flat_map(|section| &section.words) {
        if let Some(instruction) = decode(word, program.target) {
            let again = encode(&instruction, program.target);
            assert!(again.as_ref().is_ok_and(|&same| same == word), "{word:#034x} reads back as {again:x?}");
        }
    }
}

fn check_listing(cubin: &Cubin, bytes: &[u8]) {
    let _ = control_listing(cubin, true);
    let Ok(text) = control_listing(cubin, false) else { return };
    match assemble(&text) {
        Ok(assembled) => assert!(assembled.bytes == bytes, "a listing assembles to another file"),
        Err(problems) => panic!("a listing does not assemble: {:?}", problems.first()),
    }
}

/// Part of the names of sections with line tables.
const LINE_TABLE: &[u8] = b"debug_line";

fn check_rescored(bytes: &[u8], schedule: Option<ReorderCondition>) {
    let Ok(rescored) = rescore(bytes, &RescoreOptions { schedule, ..RescoreOptions::default() }) else { return };
    for section in &rescored.sections {
        let _ = (section.tallies(), section.obstacle.as_ref().map(ToString::to_string));
    }
    let after = rescored.bytes();
    // Line tables for a new order may have another size. Nothing else may.
    let has_lines = bytes.windows(LINE_TABLE.len()).any(|window| window == LINE_TABLE);
    if schedule.is_none() || !has_lines {
        assert_eq!(after.len(), bytes.len(), "new control words change the size of the file");
    }
    let cubin = Cubin::read(&after).unwrap_or_else(|error| panic!("a file with new control words cannot be read: {error}"));
    let _ = verify(&cubin, &Verifier::ALL);
}

/// Returns cubins, and files that contain cubins.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut files = seeds::cubins();
    files.extend(seeds::files_in("crates/cubin/tests/data", "fatbin", 40_000));
    files.extend(seeds::files_in("crates/cubin/tests/data", "o", 40_000));
    files
}

/// Damages some bytes.
pub fn damage(case: &mut Vec<u8>, numbers: &mut Numbers) {
    damage_bytes(case, numbers);
}
