//! A baseline of the generated code for random programs: compares counts and digests with a recorded table.
//!
//! The table (`quality.txt`) says nothing about correctness; the tests that run random programs do. It shows every change of the generated
//! code, intended or not, also where the kernels of other baselines do not reach: little-used combinations of instructions, many live
//! registers, calls and nested branches. `ORIOLE_BLESS=1` rewrites the table; the diff belongs to the commit that causes it. A change of
//! the program generator changes all lines.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Mutex;

use oriole_driver::account::LatencyCase;
use oriole_driver::{Options, Reports, ScheduleBackend, Scheduling, compile, target_mismatch};
use oriole_isa::Target;
use oriole_ptx_fuzz::features::Feature;
use oriole_ptx_fuzz::generate::{Options as Generation, generate_with};
use oriole_ptx_fuzz::judge::schedulers;
use oriole_ptx_fuzz::reduce::Case;

const HEADER: &str = "\
# A baseline of the generated code for random programs. It is no statement of correctness: a line that changes is no error in itself, but it
# must be reviewed and explained by the change that causes it. Written by `ORIOLE_BLESS=1 cargo test -p oriole-ptx-fuzz --test quality`.
#
# registers, instructions, spills: sums over all functions; spills in bytes. file, report: digests of the cubins and of the scheduling reports.
";

/// Number of programs of a line.
const PROGRAMS: u64 = 9;
const TARGETS: [&str; 9] = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_103a", "sm_110a", "sm_120a"];

/// Returns the options with which the program of a seed is compiled: for sm_90a with one of the schedulers, for sm_90a with few registers,
/// and for one pair of target and level, if the program is for that target.
fn ways(seed: u64) -> [Options; 3] {
    let options = |name: &str| {
        let reports = Reports { figures: true, ..Reports::default() };
        Options { verify: false, reports, ..Options::new(Target::parse(name).expect("a target")) }
    };
    let schedulers: Vec<_> = schedulers().into_iter().filter(|(backend, _)| ScheduleBackend::BACKENDS_A_B_C.contains(backend)).collect();
    let (backend, mode) = schedulers[seed as usize % schedulers.len()];
    let other = options(TARGETS[seed as usize % TARGETS.len()]);
    [
        Options { scheduling: Scheduling::by(backend, mode), ..options("sm_90a") },
        Options { max_registers: Some(24 + 8 * (seed % 3) as u32), ..options("sm_90a") },
        Options { level: (seed % 4) as u8, ..other },
    ]
}

/// Returns the FNV-1a hash of bytes.
fn digest(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Returns the options of the generator. Tensor programs need more registers than [`ways`] allows, and other baselines have such kernels.
fn generation() -> Generation {
    Generation { without: Feature::TENSOR.into_iter().collect(), ..Generation::default() }
}

/// Returns the line of consecutive seeds.
fn line(first: u64) -> String {
    let (mut registers, mut instructions, mut spills) = (0, 0, 0);
    let (mut files, mut reports) = (Vec::new(), String::new());
    for seed in first..first + PROGRAMS {
        let case = Case::of(&generate_with(seed, &generation()));
        let module = oriole_ptx::check(case.text.as_bytes(), &oriole_ptx::Options::default()).module;
        for options in ways(seed) {
            if target_mismatch(module.target, options.target).is_some() {
                continue;
            }
            let compiled = compile(&[&module], &options).unwrap_or_else(|errors| panic!("seed {seed}: {}", errors[0]));
            files.extend(digest(compiled.cubin).to_le_bytes());
            for function in &compiled.functions {
                registers += function.registers;
                instructions += function.instructions;
                spills += function.spill_store_bytes + function.spill_load_bytes;
            }
            for report in &compiled.scheduling {
                reports.push_str(&report.statistics(LatencyCase::Average));
                write!(reports, "{}{:?}", report.guidance(3), report.loops()).expect("writing to a string");
            }
        }
    }
    let (file, report) = (digest(files), digest(reports.bytes()));
    format!(
        "seeds {first:03}..{:03}: registers {registers}, instructions {instructions}, spills {spills}, file {file:016x}, report {report:016x}",
        first + PROGRAMS
    )
}

/// Serializes the tests that record lines of the table.
static RECORDING: Mutex<()> = Mutex::new(());

/// Compares a line with the table, or records it.
fn check(first: u64) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/quality.txt");
    let found = line(first);
    let name = found.split(':').next().expect("a line").to_owned();
    let read = || std::fs::read_to_string(&path).unwrap_or_default();
    if std::env::var_os("ORIOLE_BLESS").is_some() {
        let _lock = RECORDING.lock().expect("no test panics while it records");
        let text = read();
        let mut lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#') && !line.starts_with(&name)).collect();
        lines.push(&found);
        lines.sort_unstable();
        std::fs::write(&path, format!("{HEADER}{}\n", lines.join("\n"))).expect("the table");
    }
    let text = read();
    let recorded = text.lines().find(|line| line.starts_with(&name)).unwrap_or("no line");
    assert_eq!(found, recorded, "differs from quality.txt; review it, then record it with ORIOLE_BLESS=1");
}

/// Declares a test for each line of the table.
macro_rules! lines {
    ($($name:ident $number:literal)*) => {
        $(
            #[test]
            fn $name() {
                check($number * PROGRAMS);
            }
        )*
    };
}

lines! { group_0 0 group_1 1 group_2 2 group_3 3 group_4 4 group_5 5 group_6 6 group_7 7 group_8 8 group_9 9 }
