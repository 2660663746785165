//! Measures the speed of latency queries: `cargo bench -p oriole-driver --bench queries`.
//!
//! The corpus is compiled for Hopper and decoded. Each register dependence between two instructions of a window is one query. It is asked
//! twice: once with known ports, as schedulers keep them, and once by class and operand, which has to look up the ports. The benchmark runs
//! on one core and reports the best of several rounds, because other load on the machine can only add time.

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{env, fs};

use oriole_cubin::Cubin;
use oriole_driver::{Options, compile};
use oriole_hardware::{Class, Model};
use oriole_isa::{Instruction, Target, decode};
use oriole_sched::latency::{PortAccess, dependences, latency, port_accesses};
use oriole_sched::{Dependence, OperandReg, SchedSpace, operand_latency};

const TARGET: &str = "sm_90a";
/// Maximum distance of the two instructions of a pair.
const WINDOW: usize = 8;
/// Required number of queries per second.
const WANTED: f64 = 20e6;

struct Query {
    dependence: Dependence,
    class: Class,
    second: Class,
    guarded: bool,
}

fn main() {
    let is_measured = env::args().any(|argument| argument == "--bench");
    let rounds = if is_measured { 300 } else { 1 };
    let target = Target::parse(TARGET).expect("a target of the table");
    let code = corpus(target, if is_measured { usize::MAX } else { 2 });
    let touched: Vec<Vec<PortAccess>> = code.iter().map(port_accesses).collect();
    let mut queries = Vec::new();
    for (at, first) in code.iter().enumerate() {
        let (class, guarded) = (Class::of(first), !first.guard.is_always());
        for (second, touches) in code.iter().zip(&touched).skip(at + 1).take(WINDOW) {
            let second = Class::of(second);
            queries.extend(dependences(&touched[at], touches).into_iter().map(|dependence| Query { dependence, class, second, guarded }));
        }
    }
    println!("{} instructions, {} pairs that meet in a register", code.len(), queries.len());
    let model = Model::of(target);
    report("latency by port", queries.len(), rounds, || {
        black_box(queries.iter().map(|query| latency(model, black_box(query.dependence), query.class, query.guarded)).sum::<i32>());
    });
    let rate = report("latency by class", queries.len(), rounds, || {
        let answer = |query: &Query| {
            let (first, second) =
                (OperandReg { class: query.class, slot: 0, part: 0 }, OperandReg { class: query.second, slot: 1, part: 0 });
            operand_latency(model, query.dependence.kind, query.dependence.file, black_box(first), black_box(second), query.guarded)
                .unwrap_or(0)
        };
        black_box(queries.iter().map(answer).sum::<i32>());
    });
    report("class", code.len(), rounds, || code.iter().for_each(|instruction| _ = black_box(Class::of(instruction))));
    report("memory space", code.len(), rounds, || code.iter().for_each(|instruction| _ = black_box(SchedSpace::of(instruction))));
    report("what is touched", code.len(), rounds, || code.iter().for_each(|instruction| _ = black_box(port_accesses(instruction))));
    if is_measured {
        assert!(rate >= WANTED, "{rate:.0} queries a second are less than {WANTED:.0}");
    }
}

fn report(what: &str, count: usize, rounds: u32, work: impl Fn()) -> f64 {
    let time = (0..rounds).map(|_| timed(&work)).min().unwrap_or_default();
    let rate = count as f64 / time.as_secs_f64();
    println!("{what:<17} {:>7.1} million a second", rate / 1e6);
    rate
}

fn timed(work: impl Fn()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// Returns the instructions of the corpus modules that compile for a target, of at most `most_modules` modules.
fn corpus(target: Target, most_modules: usize) -> Vec<Instruction> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    let mut files: Vec<_> = fs::read_dir(folder).expect("the corpus is there").filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "ptx"));
    files.sort();
    let mut instructions = Vec::new();
    let mut modules = 0;
    for file in files {
        let text = fs::read(&file).expect("files of the corpus can be read");
        let checked = oriole_ptx::check(&text, &oriole_ptx::Options::default());
        let Ok(compiled) = compile(&[&checked.module], &Options { verify: false, ..Options::new(target) }) else { continue };
        let cubin = Cubin::read(&compiled.cubin).expect("our cubins can be read");
        for function in cubin.functions() {
            let words = function.code.as_chunks::<16>().0.iter();
            instructions.extend(words.filter_map(|word| decode(u128::from_le_bytes(*word), target)));
        }
        modules += 1;
        if modules == most_modules {
            break;
        }
    }
    instructions
}
