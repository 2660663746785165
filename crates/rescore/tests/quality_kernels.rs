//! A baseline of the generated code for all kernel tests: compares counts and digests of each folder of `tests/kernels` with a recorded
//! table.
//!
//! The table (`quality_kernels.txt`) says nothing about correctness; the tests that run the kernels do. Like `quality.txt` it shows every
//! change of the generated code, intended or not, here for all forms of instructions and all targets. `ORIOLE_BLESS=1` rewrites the table;
//! the diff belongs to the commit that causes it.

mod common;

use std::collections::BTreeMap;

use oriole_cubin::{Cubin, CubinIndex};
use oriole_driver::{Compiled, Options, ScheduleBackend, ScheduleMode, Scheduling, compile, target_mismatch};
use oriole_isa::Target;
use oriole_ptx::ast::Module;
use oriole_rescore::why::explain;
use oriole_rescore::{ReorderCondition, rescore};
use rayon::prelude::*;

use common::{code, digest, report, root};

const TABLE: &str = "quality_kernels.txt";
const HEADER: &str = "\
# A baseline of the generated code for the kernel tests. It is no statement of correctness: a line that changes is no error in itself, but it
# must be reviewed and explained by the change that causes it. Written by `ORIOLE_BLESS=1 cargo test -p oriole-rescore --test quality_kernels`.
#
# One line for each folder of tests/kernels, target and way to compile. registers, instructions, stalls: sums over all functions. code, file,
# report: digests of the machine code, of the cubins, and of the scheduling reports and the explanations of control words.
";

/// The targets other than sm_90a at -O3.
const TARGETS: [&str; 11] = ["sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90a", "sm_100a", "sm_103a", "sm_110a", "sm_120a", "sm_121a"];

/// One of this many kernels is also compiled with another scheduler, and one is rescored.
const SPECIAL_STEP: usize = 12;

/// The scheduling of one of this many kernels is reported.
const REPORT_STEP: usize = 4;

/// Counts and digests of several kernels.
#[derive(Default)]
struct Sum {
    kernels: usize,
    registers: u64,
    instructions: usize,
    stalls: u64,
    code: Vec<u8>,
    file: Vec<u8>,
    report: Vec<u8>,
}

impl Sum {
    fn add(&mut self, compiled: &Compiled, cubin: &[u8], options: &Options) {
        let target = options.target;
        let (code, stalls) = code(cubin, target);
        self.kernels += 1;
        self.registers += compiled.functions.iter().map(|function| u64::from(function.registers)).sum::<u64>();
        self.instructions += compiled.functions.iter().map(|function| function.instructions).sum::<usize>();
        self.stalls += stalls;
        self.code.extend(code.to_le_bytes());
        self.file.extend(digest(cubin.iter().copied()).to_le_bytes());
        if options.reports.figures {
            self.report.extend(report(compiled).1.to_le_bytes());
            self.report.extend(digest(explanations(cubin, target).bytes()).to_le_bytes());
        }
    }

    fn line(&self, name: &str) -> String {
        let [code, file, report] = [&self.code, &self.file, &self.report].map(|bytes| digest(bytes.iter().copied()));
        let Sum { kernels, registers, instructions, stalls, .. } = self;
        format!(
            "{name}: kernels {kernels}, registers {registers}, instructions {instructions}, stalls {stalls}, code {code:016x}, \
             file {file:016x}, report {report:016x}"
        )
    }
}

/// Returns the explanations of all control words of a file.
fn explanations(cubin: &[u8], target: Target) -> String {
    let cubin = Cubin::read(cubin).expect("a cubin");
    let index = CubinIndex::new(&cubin);
    let explained = cubin.functions().flat_map(|function| explain(&index, &function, target).unwrap_or_default());
    explained.flat_map(|one| one.lines).collect()
}

/// A way to compile a kernel: its name, the options, and whether and how the result is rescored.
struct Way {
    name: String,
    options: Options,
    rescore: Option<Option<ReorderCondition>>,
}

impl Way {
    fn new(target: Target, level: u8) -> Way {
        let options = Options { level, verify: false, ..Options::new(target) };
        Way { name: format!("{target} -O{level}"), options, rescore: None }
    }
}

fn parse(name: &str) -> Target {
    Target::parse(name).expect("a target")
}

/// Returns the ways to compile the kernel at a position of the sorted list of its folder: for sm_90a at -O3, and for one more pair of
/// target and level, so that all pairs occur. Some kernels are compiled with another scheduler as well, or rescored.
fn ways(module: &Module, position: usize) -> Vec<Way> {
    let hopper = parse("sm_90a");
    let fits = |target: Target| target_mismatch(module.target, target).is_none();
    let mut ways: Vec<Way> = fits(hopper).then(|| Way::new(hopper, 3)).into_iter().collect();
    ways.iter_mut().for_each(|way| way.options.reports.figures = position.is_multiple_of(REPORT_STEP));
    let mut others = (0..TARGETS.len()).map(|step| parse(TARGETS[(position + step) % TARGETS.len()])).filter(|&target| fits(target));
    let other = others.next().expect("a target that the kernel is for");
    ways.push(Way { name: format!("{other} other levels"), ..Way::new(other, (position % 4) as u8) });
    if fits(hopper) && position.is_multiple_of(SPECIAL_STEP) {
        let number = position / SPECIAL_STEP;
        let letters = ScheduleBackend::BACKENDS_A_B_C;
        let backend = letters[number % letters.len()];
        let mode = ScheduleMode::ALL[number / letters.len() % ScheduleMode::ALL.len()];
        let mut way = Way { name: "sm_90a other schedulers".to_owned(), ..Way::new(hopper, 3) };
        way.options.scheduling = Scheduling::by(backend, mode);
        ways.push(way);
        let when = number.is_multiple_of(2).then_some(ReorderCondition::Always);
        ways.push(Way { name: "sm_90a rescored".to_owned(), rescore: Some(when), ..Way::new(hopper, 1) });
    }
    ways
}

/// Compiles a kernel in one way; returns what the compiler reports, and the cubin.
fn result(file: &str, module: &Module, way: &Way) -> (Compiled, Vec<u8>) {
    let compiled = compile(&[module], &way.options).unwrap_or_else(|errors| panic!("{file} {}: {}", way.name, errors[0]));
    let mut cubin = compiled.cubin.clone();
    if let Some(schedule) = way.rescore {
        cubin = rescore(&cubin, &oriole_rescore::RescoreOptions { schedule, ..oriole_rescore::RescoreOptions::default() })
            .expect("a cubin")
            .bytes();
    }
    (compiled, cubin)
}

fn check_folder(name: &str) {
    let folder = root().join("tests/kernels").join(name);
    let entries = std::fs::read_dir(&folder).expect("a folder of kernel tests").flatten();
    let mut files: Vec<String> = entries.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
    files.retain(|file| file.ends_with(".ptx"));
    files.sort();
    let results: Vec<Vec<_>> = files
        .par_iter()
        .enumerate()
        .map(|(position, file)| {
            let text = std::fs::read(folder.join(file)).expect("a kernel test");
            let module = oriole_ptx::check(&text, &oriole_ptx::Options::default()).module;
            let ways = ways(&module, position);
            ways.into_iter().map(|way| (result(file, &module, &way), way)).collect()
        })
        .collect();
    let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
    for ((compiled, cubin), way) in results.into_iter().flatten() {
        sums.entry(way.name).or_default().add(&compiled, &cubin, &way.options);
    }
    let lines: Vec<String> = sums.iter().map(|(way, sum)| sum.line(&format!("{name} {way}"))).collect();
    common::compare(TABLE, HEADER, &format!("{name} "), &lines);
}

/// Declares a test for each folder.
macro_rules! folders {
    ($($name:ident)*) => {
        const FOLDERS: &[&str] = &[$(stringify!($name)),*];

        $(
            #[test]
            fn $name() {
                check_folder(stringify!($name));
            }
        )*
    };
}

folders! {
    approx atomics barrier calls cluster compare control cvt float found half integer limits logic loops memory moves registers special tensor tma variables video warp warpgroup
}

#[test]
fn every_folder_has_a_test() {
    let entries = std::fs::read_dir(root().join("tests/kernels")).expect("the kernel tests").flatten();
    let mut names: Vec<String> = entries.map(|folder| folder.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    assert_eq!(names, FOLDERS);
}
