//! For each strategy that changes whole functions or pairs instructions: a kernel in `constructions` for which the timing model predicts a
//! gain against the default strategy.

use std::path::Path;
use std::sync::Arc;

use oriole_driver::{BackendChoice, Options, Scheduling, compile};
use oriole_hardware::Profile;
use oriole_isa::Target;
use oriole_kernel_test::KernelTest;
use oriole_sim::kernel_test::Setup;
use oriole_sim::sass::Code;
use oriole_sim::timing::{Effort, estimate_with_profile};
use oriole_timing_check::{read_test, strategies};

fn target() -> Target {
    Target::parse("sm_90a").unwrap()
}

fn construction(name: &str) -> (KernelTest, String) {
    read_test(&Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("constructions/{name}.ptx"))).unwrap()
}

/// Returns the predicted cycles with a strategy, relative to `b`.
fn ratio(kernel: &str, strategy: &str) -> f64 {
    let (test, text) = construction(kernel);
    let cycles = |strategy: &str| strategies::outcome(&test, &text, target(), strategy).unwrap().cycles as f64;
    cycles(strategy) / cycles("b")
}

#[test]
fn strategies_win_where_they_should() {
    let cases = [
        ("pipelining_chain", "software-pipelining", 0.8),
        ("global_join", "global", 0.97),
        ("barriers_twice", "barrier-coalescence", 0.9),
        ("prefetch_lines", "prefetch", 0.8),
    ];
    for (kernel, strategy, most) in cases {
        let found = ratio(kernel, strategy);
        println!("{strategy} on {kernel}: {found:.3}");
        assert!(found <= most, "{strategy} on {kernel}: {found:.3} of the time of b");
    }
}

/// Returns the predicted cycles with a strategy on a machine with dual issue.
fn cycles_with_dual_issue(kernel: &str, strategy: &str) -> u64 {
    let text = Profile::of(target()).to_text();
    let changed = text.replace("name=dual_issue value=0", "name=dual_issue value=1");
    assert_ne!(text, changed);
    let profile = Arc::new(Profile::from_text("dual.hwp", &changed).unwrap());
    let (test, text) = construction(kernel);
    let module = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default()).module;
    let backend = BackendChoice::parse_strategy(strategy).unwrap();
    let scheduling = Scheduling { backend, ..Scheduling::default() };
    let options = Options { scheduling, profile: Some(Arc::clone(&profile)), verify: false, ..Options::new(target()) };
    let compiled = compile(&[&module], &options).unwrap();
    let code = Code::load(&compiled.cubin).unwrap();
    let mut setup = Setup::new(&test);
    estimate_with_profile(&code, &setup.launch, &mut setup.memory, &Effort::default(), &profile).unwrap().kernel
}

/// A pair issues in one cycle, so the fact alone makes the kernels faster. `dual-issue` finds more pairs than `critical-path`, which it is
/// without them, and `pairing` more than `b`.
#[test]
fn pairs_issue_in_one_cycle_on_a_machine_with_dual_issue() {
    for kernel in ["dual_units", "dual_chains"] {
        let (test, text) = construction(kernel);
        let single = strategies::outcome(&test, &text, target(), "b").unwrap().cycles;
        let names = ["b", "critical-path", "dual-issue", "pairing"];
        let cycles = names.map(|strategy| cycles_with_dual_issue(kernel, strategy));
        println!("{kernel}: single issue {single}; with dual issue {names:?} {cycles:?}");
        let [b, critical_path, dual_issue, pairing] = cycles;
        assert!(b < single && dual_issue < single && dual_issue < critical_path && pairing <= b, "{kernel}");
        assert!(kernel != "dual_units" || dual_issue < b && pairing < b, "{kernel}");
    }
}

#[test]
fn the_fact_is_off_in_every_built_in_profile() {
    assert!(Target::all().all(|target| !Profile::of(target).machine.dual_issue));
}
