//! Code is correct with any number of optional passes: kernel tests, compiled with every limit, give the right results in the simulator.

use std::fs;
use std::path::Path;
use std::sync::Mutex;

use oriole_driver::{BisectOptions, Options, PASSES, PassOptions, compile};
use oriole_isa::Target;
use oriole_sim::sass::kernel_test::run;
use oriole_sim::sass::{GridOptions as Limits, Silent};

/// The decisions of the compilation that runs; the tests of this file take turns.
static DECISIONS: Mutex<Vec<(u64, &'static str, bool)>> = Mutex::new(Vec::new());
static TURN: Mutex<()> = Mutex::new(());

/// Compiles a kernel test with a limit, runs it, and returns the decisions.
fn run_with(limit: Option<u64>, file: &str) -> Vec<(u64, &'static str, bool)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/kernels").join(file);
    let text = fs::read_to_string(path).unwrap();
    let test = oriole_kernel_test::parse(&text).unwrap();
    let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
    let report = |decision: &oriole_driver::BisectDecision<'_>| {
        DECISIONS.lock().unwrap().push((decision.number, decision.pass, decision.runs));
    };
    let passes = PassOptions { bisect: Some(BisectOptions { limit, report }), ..PassOptions::default() };
    let options = Options { passes, verify: true, ..Options::new(Target::parse("sm_90a").unwrap()) };
    let compiled = compile(&[&checked.module], &options).unwrap();
    run(&test, &compiled.cubin, &Limits::limited(1 << 24), &mut Silent).unwrap_or_else(|why| panic!("{file} with limit {limit:?}: {why}"));
    std::mem::take(&mut *DECISIONS.lock().unwrap())
}

/// Runs a kernel test with all limits from 0 to the number of executions.
fn check(file: &str) {
    let _turn = TURN.lock().unwrap();
    let all = run_with(None, file);
    assert!(all.iter().enumerate().all(|(at, &(number, _, runs))| number == at as u64 + 1 && runs), "{all:?}");
    let optional: Vec<&str> = PASSES.iter().filter(|pass| pass.is_optional).map(|pass| pass.name).collect();
    assert!(optional.iter().all(|name| all.iter().any(|(_, pass, _)| pass == name)), "{all:?}");
    for limit in 0..all.len() as u64 {
        let decisions = run_with(Some(limit), file);
        assert!(decisions.iter().all(|&(number, _, runs)| runs == (number <= limit)), "limit {limit}: {decisions:?}");
    }
}

#[test]
fn arithmetic_is_correct_with_any_limit() {
    check("integer/div_const_s16_0.ptx");
}

#[test]
fn control_flow_is_correct_with_any_limit() {
    check("calls/call_in_loop.ptx");
    check("control/loop_nested.ptx");
}
