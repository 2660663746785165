//! Tests of scheduling in the compiler: what it must not change, and what it must improve.
//!
//! All compilations verify: every new order is checked by the checker of `oriole-sched`, every allocation by that of `oriole-regalloc`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use oriole_driver::{
    BackendChoice, Compiled, Hooks, Options, Parallelism, Reports, ScheduleBackend, ScheduleKnobs, ScheduleMode, Scheduling, compile,
};
use oriole_isa::Target;
use rayon::prelude::*;

const TARGETS: [&str; 2] = ["sm_90a", "sm_80"];
const MODULES: [&str; 8] =
    ["attention", "histogram", "float_math", "integer_division", "block_sync", "unrolled", "wide_integers", "parameters"];

fn compiled(module: &str, target: &str, level: u8, scheduling: Scheduling) -> Option<Compiled> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../corpus/{module}.ptx"));
    let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let checked = oriole_ptx::check(&text, &oriole_ptx::Options::default());
    assert!(checked.is_valid(), "{module}");
    let target = Target::parse(target).expect("a target");
    let options = Options { level, scheduling, verify: true, ..Options::new(target) };
    compile(&[&checked.module], &options).ok()
}

/// Returns the number of bytes that spill code of all functions stores and loads.
fn spills(compiled: &Compiled) -> u32 {
    compiled.functions.iter().map(|function| function.spill_store_bytes + function.spill_load_bytes).sum()
}

/// Returns the sum of the register counts of all functions.
fn registers(compiled: &Compiled) -> u32 {
    compiled.functions.iter().map(|function| function.registers).sum()
}

/// Runs every backend in every mode. Each of the three backends schedules every other module for sm_90a and every fourth one for sm_80, each
/// of the other strategies one module for sm_90a and another for sm_80; with `ORIOLE_REFRESH`, all of them schedule all modules for both
/// targets.
#[test]
fn every_schedule_keeps_what_code_means_and_adds_no_spills() {
    let pairs: Vec<(&str, &str)> = MODULES.into_iter().flat_map(|module| TARGETS.map(|target| (module, target))).collect();
    let unscheduled: BTreeMap<(&str, &str), Compiled> = pairs
        .into_par_iter()
        .filter_map(|(module, target)| Some(((module, target), compiled(module, target, 3, Scheduling::off())?)))
        .collect();
    let all = oriole_oracles::compares_everything();
    let backends: Vec<(usize, ScheduleBackend)> = ScheduleBackend::ALL.into_iter().enumerate().collect();
    backends.into_par_iter().for_each(|(number, backend)| {
        let is_letter = ScheduleBackend::BACKENDS_A_B_C.contains(&backend);
        let is_sampled = |at: usize, target: usize| match is_letter {
            true => (at + number).is_multiple_of(2 + 2 * target),
            false => (at + number + target * MODULES.len() / 2).is_multiple_of(MODULES.len()),
        };
        let (mut changed, mut few, mut fast, mut judged) = (0, 0, 0, 0);
        for (at, module) in MODULES.into_iter().enumerate() {
            for (_, target) in TARGETS.into_iter().enumerate().filter(|&(position, _)| all || is_sampled(at, position)) {
                let Some(old) = unscheduled.get(&(module, target)) else { continue };
                judged += 1;
                let by_mode = ScheduleMode::ALL.map(|mode| {
                    let by = format!("{} for {}", backend.name(), mode.name());
                    let new = compiled(module, target, 3, Scheduling::by(backend, mode));
                    let new = new.unwrap_or_else(|| panic!("{module} for {target} compiles without scheduling, not by {by}"));
                    assert!(spills(&new) <= spills(old), "{module} for {target} spills by {by}");
                    changed += usize::from(new.cubin != old.cubin);
                    registers(&new)
                });
                few += by_mode[0];
                fast += by_mode[1];
            }
        }
        let by = backend.name();
        assert!(
            judged >= if is_letter { 4 } else { 2 } && changed > if is_letter { judged } else { 0 },
            "{by}: {changed} of {judged} files, three modes each, came out differently"
        );
        // `depth-first` and `pressure` save registers in every mode.
        let always_saves = ["depth-first", "pressure"].contains(&by);
        assert!(few < fast || always_saves || !is_letter && few <= fast, "{by}: reduce-reg takes {few} registers, ilp {fast}");
    });
}

/// Kernels whose order for 30 registers spills because of aligned tuples, although 30 values are live. An order for fewer live registers
/// does not; in the order of the PTX, most loads would wait for the one before.
#[test]
fn a_register_limit_keeps_loads_in_flight() {
    for kernel in ["spmm_rows", "gaussian_columns", "softmax_online"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../bench/kernels/{kernel}.ptx"));
        let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let module = oriole_ptx::check(&text, &oriole_ptx::Options::default()).module;
        let target = Target::parse("sm_90a").expect("a target");
        let options = Options { max_registers: Some(32), verify: true, ..Options::new(target) };
        let compiled = compile(&[&module], &options).unwrap_or_else(|errors| panic!("{kernel}: {errors:?}"));
        assert_eq!(spills(&compiled), 0, "{kernel}");
        let plan = compiled.functions[0].plan.expect("a plan");
        assert!(plan.before_allocation, "{kernel}: the order of the PTX");
        assert!(registers(&compiled) <= 32, "{kernel}: {} registers", registers(&compiled));
    }
}

/// The long block of this kernel has many chains of dependent instructions, and 32 registers keep all 64 warps of a multiprocessor
/// resident. Backend B finishes one chain after the other; an order near that of the PTX has several in flight within the same registers.
#[test]
fn an_order_near_the_source_is_used_where_registers_are_scarce() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/kernels/bilateral_filter.ptx");
    let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let module = oriole_ptx::check(&text, &oriole_ptx::Options::default()).module;
    let compile_with = |scheduling| {
        let reports = Reports { figures: true, trace: true, ..Reports::default() };
        let options = Options { scheduling, reports, verify: true, ..Options::new(Target::parse("sm_90a").expect("a target")) };
        let compiled = compile(&[&module], &options).unwrap_or_else(|errors| panic!("{errors:?}"));
        let report = &compiled.scheduling[0];
        let latency = report.after.iter().find(|figure| figure.0 == "est latency").expect("the figure").1.number();
        (latency, registers(&compiled), report.trace.clone())
    };
    let replaced = "cycles; an order near that of the source takes";
    let reason = "this order near that of the source has few live registers or few stalls";
    let (alone, _, trace) = compile_with(Scheduling::by(ScheduleBackend::B, ScheduleMode::Ilp));
    assert!(!trace.contains(replaced) && !trace.contains(reason));
    let (latency, registers, trace) = compile_with(Scheduling::default());
    assert!(latency < 0.85 * alone, "{latency} cycles, with backend B alone {alone}");
    assert!(registers <= 32, "{registers} registers");
    assert!(trace.contains(replaced) && trace.contains(reason), "the trace shows the dropped order and the one that is used");
}

/// If the budget allows no second trial, `auto` uses the first plan; otherwise other plans win for some functions.
#[test]
fn auto_keeps_the_best() {
    let auto = Scheduling { backend: BackendChoice::Auto, ..Scheduling::default() };
    let poor = Scheduling { knobs: ScheduleKnobs { auto_budget: 0, ..ScheduleKnobs::default() }, ..auto };
    let plans = |scheduling| {
        let compiled = compiled("attention", "sm_90a", 3, scheduling).expect("a module that compiles");
        compiled.functions.iter().filter_map(|function| function.plan).collect::<Vec<_>>()
    };
    assert!(plans(poor).iter().all(|plan| (plan.backend, plan.mode) == (ScheduleBackend::ALL[0], ScheduleMode::Ilp)));
    assert!(plans(auto).iter().any(|plan| (plan.backend, plan.mode) != (ScheduleBackend::ALL[0], ScheduleMode::Ilp)));
}

#[test]
fn levels_decide_without_a_mode() {
    let cubin = |level, scheduling| compiled("attention", "sm_90a", level, scheduling).map(|compiled| compiled.cubin);
    assert!(cubin(3, Scheduling::off()).is_some());
    for level in [0, 1] {
        assert!(cubin(level, Scheduling::default()) == cubin(level, Scheduling::off()), "-O{level}");
    }
    for level in [2, 3] {
        let default = compiled("attention", "sm_90a", level, Scheduling::default()).expect("a module that compiles");
        let plans = default.functions.iter().map(|function| function.plan.map(|plan| (plan.backend, plan.mode)));
        assert!(plans.into_iter().all(|plan| plan == Some((ScheduleBackend::B, ScheduleMode::Ilp))), "-O{level}");
        assert!(Some(default.cubin) != cubin(level, Scheduling::off()), "-O{level}");
    }
}

/// According to the published description, sm_75 has no phase 110, and later machines use backend C.
#[test]
fn machine_selects_the_scheduler() {
    let by_target = Scheduling { backend: BackendChoice::ByTarget, ..Scheduling::default() };
    let plan = |target| {
        let compiled = compiled("attention", target, 3, by_target).expect("a module that compiles");
        compiled.functions.iter().find_map(|function| function.plan).expect("a plan")
    };
    let (old, new) = (plan("sm_80"), plan("sm_90a"));
    assert_eq!((old.backend, old.after_allocation), (ScheduleBackend::C, true));
    assert_eq!(new.backend, ScheduleBackend::C);
    let turing = Options { scheduling: by_target, ..Options::new(Target::parse("sm_75").expect("a target")) };
    let text = b".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry k() { ret; }\n";
    let checked = oriole_ptx::check(text, &oriole_ptx::Options::default());
    let compiled = compile(&[&checked.module], &turing).expect("a module that compiles");
    let plan = compiled.functions[0].plan.expect("a plan");
    assert_eq!((plan.backend, plan.after_allocation), (ScheduleBackend::A, false));
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let cubin = || compiled("unrolled", "sm_90a", 3, Scheduling::default()).map(|compiled| compiled.cubin);
    assert_eq!(cubin(), cubin());
}

/// The functions that one thread compiles share caches, for example of the code of library functions. An entry that an earlier function made
/// must not change the code of a later one, so the order of the functions must not matter. The modules use library functions in several
/// kernels.
#[test]
fn the_order_in_which_functions_are_compiled_does_not_matter() {
    for module in ["float_math", "double_math", "wide_integers", "half_math"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../corpus/{module}.ptx"));
        let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let checked = oriole_ptx::check(&text, &oriole_ptx::Options::default());
        let with = |parallelism| {
            let hooks = Hooks { parallelism, ..Hooks::default() };
            let options = Options { hooks, ..Options::new(Target::parse("sm_90a").expect("a target")) };
            compile(&[&checked.module], &options).unwrap_or_else(|errors| panic!("{module}: {errors:?}")).cubin
        };
        let backwards = |count: usize, task: &(dyn Fn(usize) + Sync)| (0..count).rev().for_each(task);
        let forwards = |count: usize, task: &(dyn Fn(usize) + Sync)| (0..count).for_each(task);
        let first = with(Parallelism::Executor(Arc::new(forwards)));
        assert!(first == with(Parallelism::Executor(Arc::new(backwards))), "{module}: other code");
    }
}

/// `oriole explain` must explain the code that `oriole compile` makes.
#[test]
fn records_do_not_change_the_code() {
    for module in ["attention", "float_math", "histogram", "unrolled"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../corpus/{module}.ptx"));
        let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let checked = oriole_ptx::check(&text, &oriole_ptx::Options::default());
        let with = |decisions| {
            let reports = Reports { decisions, ..Reports::default() };
            let options = Options { reports, ..Options::new(Target::parse("sm_90a").expect("a target")) };
            compile(&[&checked.module], &options).unwrap_or_else(|errors| panic!("{module}: {errors:?}"))
        };
        let (plain, recorded) = (with(false), with(true));
        assert!(plain.decisions.is_empty() && !recorded.decisions.is_empty(), "{module}");
        assert!(plain.cubin == recorded.cubin, "{module}: other code");
    }
}
