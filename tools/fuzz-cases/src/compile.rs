//! Fuzz target for the whole compiler. A case consists of three bytes, which select target and options, and PTX text.
//!
//! Conditions: no panic and no internal error; the same text gives the same bytes; the verifiers have no findings in the compiled code;
//! the file and its instructions read back as they were written.

use oriole_cubin::Cubin;
use oriole_driver::{BackendChoice, ErrorCause, Options, ScheduleBackend, ScheduleMode, Scheduling, target_mismatch};
use oriole_isa::{Target, decode, encode};
use oriole_ptx::ast::Module;
use oriole_sim::verify::{Verifier, verify};

use crate::CaseOutcome;
use crate::damage_text::damage_text;
use crate::numbers::Numbers;
use crate::seeds;

/// Number of bytes before the text.
const CHOICES: usize = 3;
/// Limit on the size of the text in bytes. Larger texts are slow and find nothing new.
const MOST_BYTES: usize = 30_000;
/// Targets to compile for.
const TARGETS: [&str; 8] = ["sm_90a", "sm_75", "sm_80", "sm_89", "sm_100a", "sm_103a", "sm_120a", "sm_90"];

/// Judges a case.
pub fn check(case: &[u8]) -> CaseOutcome {
    let Some((choices, text)) = case.split_first_chunk::<CHOICES>() else { return CaseOutcome::Refused };
    if text.len() > MOST_BYTES {
        return CaseOutcome::Refused;
    }
    let checked = oriole_ptx::check(text, &oriole_ptx::Options::default());
    if !checked.is_valid() {
        return CaseOutcome::Refused;
    }
    let Some(options) = options(*choices, &checked.module) else { return CaseOutcome::Refused };
    let modules = [&checked.module];
    match oriole_driver::compile(&modules, &options) {
        Ok(compiled) => {
            let again = oriole_driver::compile(&modules, &options).map(|compiled| compiled.cubin);
            assert!(again.is_ok_and(|again| again == compiled.cubin), "the same text gives different bytes");
            check_cubin(&compiled.cubin, options.target);
            CaseOutcome::Accepted
        }
        Err(errors) => {
            assert!(!errors.is_empty(), "refused without a reason");
            for error in &errors {
                assert!(!matches!(error.fault, ErrorCause::Internal(_)), "{error}");
                assert!(error.span.is_none_or(|span| span.end as usize <= text.len()), "{error} is not in the text");
            }
            CaseOutcome::Refused
        }
    }
}

/// Returns the compiler options that the bytes select; `None` if no target of the list can run the module.
fn options([target, level, flags]: [u8; CHOICES], module: &Module) -> Option<Options> {
    let known = TARGETS.into_iter().filter_map(Target::parse);
    let targets: Vec<Target> = known.filter(|&machine| target_mismatch(module.target, machine).is_none()).collect();
    let target = *targets.get(usize::from(target) % targets.len().max(1))?;
    let scheduling = match flags >> 4 {
        0 => Scheduling { backend: BackendChoice::Auto, ..Scheduling::default() },
        1 => Scheduling::off(),
        number @ 2..=14 => {
            let backend = ScheduleBackend::ALL[usize::from(number) % ScheduleBackend::ALL.len()];
            Scheduling::by(backend, ScheduleMode::ALL[usize::from(flags & 3) % ScheduleMode::ALL.len()])
        }
        _ => Scheduling::default(),
    };
    Some(Options {
        level: level % 4,
        relocatable: flags & 4 != 0,
        max_registers: (flags & 8 != 0).then_some(u32::from(level >> 2) + 16),
        verify: true,
        scheduling,
        ..Options::new(target)
    })
}

/// Checks the conditions on a compiled file.
fn check_cubin(bytes: &[u8], target: Target) {
    let cubin = Cubin::read(bytes).unwrap_or_else(|error| panic!("a compiled file cannot be read: {error}"));
    let written = cubin.write().unwrap_or_else(|error| panic!("a compiled file cannot be written again: {error}"));
    assert!(written == bytes, "a compiled file is written differently again");
    let report = verify(&cubin, &Verifier::ALL).unwrap_or_else(|error| panic!("a compiled file cannot be verified: {error}"));
    if let Some(complaint) = report.complaint(2) {
        panic!("verify: {complaint}");
    }
    for function in cubin.functions() {
        for word in function.code.as_chunks::<16>().0 {
            let word = u128::from_le_bytes(*word);
            let again = decode(word, target).map(|instruction| encode(&instruction, target));
            assert!(matches!(again, Some(Ok(same)) if same == word), "{word:#034x} of {} reads back as {again:x?}", function.name);
        }
    }
}

/// Returns the PTX corpus, examples, kernel tests and random programs.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut texts = Vec::new();
    for folder in ["corpus", "corpus/handwritten", "examples"] {
        texts.extend(seeds::files_in(folder, "ptx", 8000));
    }
    texts.extend(seeds::kernel_tests(6, 4000).into_iter().map(|text| without_comments(&text)));
    texts.extend((0..20).map(|seed| seeds::program(seed, Some(25)).into_bytes()).map(|text| without_comments(&text)));
    let mut numbers = Numbers::new(1);
    texts.into_iter().map(|text| [&choices(&mut numbers)[..], &text].concat()).collect()
}

/// Removes the comment lines at the start of a text.
fn without_comments(text: &[u8]) -> Vec<u8> {
    let lines = text.split_inclusive(|&byte| byte == b'\n');
    lines.skip_while(|line| line.starts_with(b"//")).flatten().copied().collect()
}

fn choices(numbers: &mut Numbers) -> [u8; CHOICES] {
    // Half of the cases use the default scheduling.
    [numbers.next() as u8, numbers.next() as u8, numbers.next() as u8 & 0x8f | (numbers.below(16) as u8) << 4]
}

/// Damages the option bytes or the text, or replaces the text by another program.
pub fn damage(case: &mut Vec<u8>, numbers: &mut Numbers) {
    let (choices_now, mut text) = match case.split_first_chunk::<CHOICES>() {
        Some((choices, text)) => (*choices, text.to_vec()),
        None => ([0; CHOICES], Vec::new()),
    };
    let other = seeds::program(numbers.next() % 1_000_000, Some(20)).into_bytes();
    if numbers.chance(3) || text.is_empty() {
        text = without_comments(&other);
    }
    if numbers.chance(95) {
        damage_text(&mut text, &other, numbers);
    }
    let choices = if numbers.chance(30) { choices(numbers) } else { choices_now };
    *case = [&choices[..], &text].concat();
}
