//! A baseline of code quality: compares the code for the bench kernels and part of the corpus with a recorded table.
//!
//! The table (`quality.txt`) says nothing about correctness; other tests do. It shows every change of the generated code, intended or not.
//! Heuristics of selection, scheduling, allocation and control words have no right answer that a test could compute, but every change in
//! their results must be noticed, reviewed and explained. `ORIOLE_BLESS=1` rewrites the table; the diff belongs to the commit that causes
//! it.

mod common;

use oriole_driver::{BackendChoice, Options, Reports, ScheduleBackend, ScheduleMode, Scheduling, compile};
use oriole_isa::Target;
use oriole_rescore::{ReorderCondition, rescore};
use oriole_sim::kernel_test::Setup;
use oriole_sim::sass::Code;
use oriole_sim::timing::{Effort, estimate};
use rayon::prelude::*;

use common::{code, compare, report, root};

const HEADER: &str = "\
# A baseline of code quality. It is no statement of correctness: a line that changes is no error in itself, but it must be reviewed and
# explained by the change that causes it. Written by `ORIOLE_BLESS=1 cargo test -p oriole-rescore --test quality`.
#
# registers: sum over the functions of the module. spills: bytes stored and loaded. stalls: sum of the stall counts of all instructions.
# latency: `est latency` of the scheduling report. cycles: of one warp and of one block alone, by the timing simulator, where the kernel's
# inputs are small. code, report: digests of the machine code and of the scheduling report with its trace.
";

/// Bench kernels that are small enough to simulate.
const TIMED: [&str; 4] = ["edit_distance", "matmul_double", "monte_carlo", "prime_sieve"];
/// Bench kernels with instructions that are not supported.
const NOT_SUPPORTED: [&str; 2] = ["async_copies", "tensor_matmul"];
/// Bench kernels that are compiled with all variants of the options.
const VARIED: [&str; 6] = ["attention_plain", "bitonic_sort", "convolution_1d", "matmul_half2", "nbody", "scan_block"];
/// Modules of the corpus to compile, for sm_90a.
const CORPUS: [&str; 20] = [
    "attention",
    "block_sync",
    "calls",
    "cache_hints",
    "double_math",
    "float_math",
    "half_math",
    "histogram",
    "integer_division",
    "irregular",
    "memory_spaces",
    "parameters",
    "reduce_shuffle",
    "runtime_calls",
    "sorting",
    "switch_table",
    "unrolled",
    "vector_basic",
    "warp_collectives",
    "wide_integers",
];
const TARGETS: [&str; 3] = ["sm_80", "sm_90a", "sm_120"];

/// A line of the table: a module, how to compile it, and the name of that variant.
struct Case {
    folder: &'static str,
    module: String,
    variant: String,
    options: Options,
    /// Whether to rescore the result, and when blocks get a new order.
    rescore: Option<Option<ReorderCondition>>,
}

fn options(target: &str) -> Options {
    let reports = Reports { figures: true, trace: true, ..Reports::default() };
    Options { verify: false, reports, ..Options::new(Target::parse(target).expect("a target")) }
}

fn bench_modules() -> Vec<String> {
    let files = std::fs::read_dir(root().join("bench/kernels")).expect("the bench kernels").flatten();
    let mut names: Vec<String> = files.filter_map(|file| Some(file.file_name().to_str()?.strip_suffix(".ptx")?.to_owned())).collect();
    names.retain(|name| !NOT_SUPPORTED.contains(&name.as_str()));
    names.sort();
    assert!(names.len() > 30, "only {} bench kernels", names.len());
    names
}

/// Returns all scheduling options except the default, with their names.
fn schedules() -> Vec<(String, Scheduling)> {
    let mut found = vec![
        ("not scheduled".to_owned(), Scheduling::off()),
        ("auto".to_owned(), Scheduling { backend: BackendChoice::Auto, ..Scheduling::default() }),
    ];
    for backend in ScheduleBackend::BACKENDS_A_B_C {
        for mode in ScheduleMode::ALL {
            found.push((format!("{} {}", backend.name(), mode.name()), Scheduling::by(backend, mode)));
        }
    }
    found
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |folder, module: &str, variant: &str, options| {
        cases.push(Case { folder, module: module.to_owned(), variant: variant.to_owned(), options, rescore: None });
    };
    for module in &bench_modules() {
        TARGETS.iter().for_each(|target| add("bench/kernels", module, "-O3", options(target)));
    }
    CORPUS.iter().for_each(|module| add("corpus", module, "-O3", options("sm_90a")));
    for module in VARIED {
        for (name, scheduling) in schedules() {
            add("bench/kernels", module, &name, Options { scheduling, ..options("sm_90a") });
        }
        for level in [0, 1] {
            add("bench/kernels", module, &format!("-O{level}"), Options { level, ..options("sm_90a") });
        }
        for registers in [24, 40] {
            let variant = format!("{registers} registers");
            add("bench/kernels", module, &variant, Options { max_registers: Some(registers), ..options("sm_90a") });
        }
    }
    for module in VARIED {
        for (name, schedule) in [("rescored", None), ("rescheduled", Some(ReorderCondition::Always))] {
            cases.push(Case {
                folder: "bench/kernels",
                module: module.to_owned(),
                variant: name.to_owned(),
                options: Options { level: 1, ..options("sm_90a") },
                rescore: Some(schedule),
            });
        }
    }
    cases
}

/// Returns the cycles of one warp and of one block according to the timing simulator.
fn cycles(text: &str, cubin: &[u8]) -> String {
    let mut test = oriole_kernel_test::parse(text).expect("a kernel test");
    test.grid = [1, 1, 1];
    let code = Code::load(cubin).expect("a cubin");
    let mut setup = Setup::new(&test);
    let effort = Effort { multiprocessors: 1, instructions: 50_000, ..Effort::default() };
    let estimate = estimate(&code, &setup.launch, &mut setup.memory, &effort).expect("an estimate");
    format!("{} {}", estimate.warp, estimate.block)
}

fn line(case: &Case) -> String {
    let path = root().join(case.folder).join(&case.module).with_extension("ptx");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let module = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default()).module;
    let target = case.options.target;
    let name = format!("{}/{} {target} {}", case.folder, case.module, case.variant);
    let compiled = compile(&[&module], &case.options).unwrap_or_else(|errors| panic!("{name}: {}", errors[0]));
    let mut cubin = compiled.cubin.clone();
    if let Some(schedule) = case.rescore {
        cubin = rescore(&cubin, &oriole_rescore::RescoreOptions { schedule, ..oriole_rescore::RescoreOptions::default() })
            .expect("a cubin")
            .bytes();
    }
    let sum = |of: fn(&oriole_driver::FunctionReport) -> u32| compiled.functions.iter().map(of).sum::<u32>();
    let spills = sum(|function| function.spill_store_bytes + function.spill_load_bytes);
    let instructions: usize = compiled.functions.iter().map(|function| function.instructions).sum();
    let (code, stalls) = code(&cubin, target);
    let (latency, report) = report(&compiled);
    let is_timed = TIMED.contains(&case.module.as_str()) && case.folder == "bench/kernels" && target.number() == 90;
    let cycles = if is_timed { cycles(&text, &cubin) } else { "-".to_owned() };
    let registers = sum(|function| function.registers);
    format!(
        "{name}: registers {registers}, spills {spills}, instructions {instructions}, stalls {stalls}, latency {latency:.0}, cycles {cycles}, \
         code {code:016x}, report {report:016x}"
    )
}

#[test]
fn quality_is_as_recorded() {
    let lines: Vec<String> = cases().par_iter().map(line).collect();
    compare("quality.txt", HEADER, "", &lines);
}
