//! Fuzz target for kernel tests: the header, and small tests in the interpreter.
//!
//! Conditions: no panic; a header is unchanged after writing and parsing it; a small test runs in the PTX interpreter and ends with a
//! result or an error, and its outputs can be compared.

use oriole_kernel_test::{Expectation, KernelTest, ParameterValue, parse};
use oriole_ptx::ast::Module;
use oriole_sim::kernel_test::Setup;
use oriole_sim::ptx::{PtxOptions, PtxProgram};

use crate::CaseOutcome;
use crate::damage_text::damage_text;
use crate::numbers::Numbers;
use crate::seeds;

/// Limit on the threads of a launch that is run.
const MOST_THREADS: u64 = 256;
/// Limit on the bytes of all buffers and shared memory.
const MOST_BYTES: u64 = 1 << 18;
/// Limit on the instructions per thread.
const MOST_STEPS: u64 = 5000;
const HEAP_BYTES: u64 = 1 << 16;

/// Judges a case.
pub fn check(case: &[u8]) -> CaseOutcome {
    let text = String::from_utf8_lossy(case);
    let test = match parse(&text) {
        Ok(test) => test,
        Err(message) => {
            assert!(!message.is_empty(), "refused without a reason");
            return CaseOutcome::Refused;
        }
    };
    check_header(&test);
    let checked = oriole_ptx::check(case, &oriole_ptx::Options::default());
    if !checked.is_valid() || !is_small(&test) {
        return CaseOutcome::Refused;
    }
    interpret(&checked.module, case, &test);
    CaseOutcome::Accepted
}

fn check_header(test: &KernelTest) {
    let written = test.header("about");
    match parse(&written) {
        // Compares texts, because a tolerance of NaN is not equal to itself.
        Ok(again) => assert!(again.header("about") == written, "a header changes when it is written:\n{written}"),
        Err(message) => panic!("a header that was written cannot be read: {message}\n{written}"),
    }
}

fn is_small(test: &KernelTest) -> bool {
    let sizes = test.grid.iter().chain(&test.block);
    let threads = sizes.fold(1_u64, |product, &size| product.saturating_mul(u64::from(size)));
    let buffers = test.parameters.iter().map(|parameter| match &parameter.value {
        ParameterValue::Buffer { element, count, .. } => (*count as u64).saturating_mul(element.bytes() as u64),
        _ => 0,
    });
    let bytes = buffers.fold(u64::from(test.shared_bytes), u64::saturating_add);
    threads <= MOST_THREADS && bytes <= MOST_BYTES
}

fn interpret(module: &Module, text: &[u8], test: &KernelTest) {
    let Ok(program) = PtxProgram::new(module, text) else { return };
    let mut setup = Setup::new(test);
    let loaded = program.load(&mut setup.memory);
    let options = PtxOptions { most_steps: MOST_STEPS, heap_bytes: HEAP_BYTES, ..PtxOptions::default() };
    match loaded.run(&setup.launch, &mut setup.memory, &options) {
        Ok(report) => report.findings.iter().for_each(|finding| assert!(!finding.to_string().is_empty())),
        Err(error) => assert!(!error.to_string().is_empty(), "stopped without a reason"),
    }
    let mut expectations: Vec<Expectation> = test.expectations.clone();
    for expectation in &mut expectations {
        if let Some(((element, _), bytes)) = setup.buffer(&expectation.parameter).zip(setup.contents(&expectation.parameter)) {
            expectation.resolve(element, bytes);
            let _ = expectation.compare(element, bytes).map(|difference| difference.to_string());
        }
    }
}

/// Returns kernel tests and random programs.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut texts = seeds::kernel_tests(5, 5000);
    texts.extend((0..10).map(|seed| seeds::program(seed, Some(20)).into_bytes()));
    texts
}

/// Damages the header most of the time, otherwise the whole text.
pub fn damage(case: &mut Vec<u8>, numbers: &mut Numbers) {
    let lines = case.split_inclusive(|&byte| byte == b'\n');
    let header: usize = lines.take_while(|line| line.starts_with(b"//")).map(<[u8]>::len).sum();
    let rest = case.split_off(if numbers.chance(75) { header } else { case.len() });
    let pool = case.clone();
    damage_text(case, &pool, numbers);
    case.extend(rest);
}
