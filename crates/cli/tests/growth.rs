//! Checks that time does not grow quadratically with the size of a module. `cargo bench -p oriole-cli --bench growth` measures more.
//!
//! The tests measure the CPU time of the thread, so that other work on the machine does not matter. Linear work takes four times as long
//! for a four times larger input, quadratic work sixteen times.

#[path = "../benches/growth/modules.rs"]
mod modules;

use std::fs;
use std::hint::black_box;
use std::time::{Duration, Instant};

use modules::CASES;
use oriole_cubin::build::{CodePatch, CodeRelocation, FrameInfo, Function, Module, function_attributes, kernel_attributes};
use oriole_cubin::{Cubin, CubinIndex, FileTraits};
use oriole_driver::{Options, compile};
use oriole_isa::Target;
use oriole_sim::verify::{Verifier, verify};

/// Limit on the growth: above linear and n log n work with some noise, below quadratic work.
const MOST_GROWTH: f64 = 8.0;

/// Returns the CPU time of this thread if the system provides it, otherwise the elapsed time.
fn now() -> Duration {
    static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    let schedstat = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = schedstat.split(' ').next().and_then(|number| number.parse().ok());
    nanoseconds.map_or_else(|| START.elapsed(), Duration::from_nanos)
}

/// The clock of a thread advances in steps of a few milliseconds, so short work is repeated until this time has passed.
const LEAST_TIME: Duration = Duration::from_millis(60);

/// Returns the time that some work takes, in seconds.
fn time_of(work: impl Fn()) -> f64 {
    let start = now();
    for rounds in 1.. {
        work();
        let passed = now() - start;
        if passed >= LEAST_TIME {
            return passed.as_secs_f64() / f64::from(rounds);
        }
    }
    unreachable!("the clock stands still")
}

/// Times each size is measured before the growth counts as a failure.
const MOST_ROUNDS: usize = 12;

/// Checks that a four times larger input takes less than [`MOST_GROWTH`] times as long.
///
/// Other work on the machine can only make a measurement longer, so the shortest of several is compared. Quadratic work does not come
/// below the limit in any number of rounds, so the check may stop at the first round that satisfies it.
fn grows<T>(what: &str, small: usize, prepare: impl Fn(usize) -> T, work: impl Fn(&T)) {
    let inputs = [small, 4 * small].map(&prepare);
    let mut shortest = [f64::MAX; 2];
    for _ in 0..MOST_ROUNDS {
        for (shortest, input) in shortest.iter_mut().zip(&inputs) {
            *shortest = shortest.min(time_of(|| work(input)));
        }
        if shortest[1] <= MOST_GROWTH * shortest[0] {
            return;
        }
    }
    let [quarter, whole] = shortest;
    panic!("{what}: {quarter:.4} s for {small}, {whole:.4} s for four times as many");
}

fn check_and_compile(text: &str, relocatable: bool) {
    let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
    let options = Options { verify: false, level: 0, relocatable, ..Options::new(Target::parse("sm_90a").unwrap()) };
    let compiled = compile(&[&checked.module], &options).unwrap_or_else(|errors| panic!("{:?}", &errors[..1]));
    black_box(Cubin::read(&compiled.cubin).unwrap());
}

/// Modules with one small kernel, so that compilation uses a single thread.
#[test]
fn modules_with_many_variables_and_declarations() {
    for (what, size) in [
        ("global variables", 4000),
        ("global variables with values", 3000),
        ("global variables with addresses", 3000),
        ("initial values", 10_000),
        ("kernel parameters", 4000),
        ("labels", 10_000),
        ("scopes in scopes", 5000),
        ("declarations of functions", 10_000),
    ] {
        let case = CASES.iter().find(|case| case.what == what).unwrap();
        grows(what, size, case.text, |text| check_and_compile(text, !case.options.is_empty()));
    }
}

/// Returns a file in which each function calls the previous one, and a kernel calls the last.
fn chain(count: usize) -> Module {
    let traits = FileTraits::of(Target::parse("sm_90a").unwrap()).unwrap();
    let exit: u128 = 0x000f_ea00_0380_0000_0000_0000_0000_794d;
    let code: Vec<u8> = std::iter::repeat_n(exit.to_le_bytes(), 8).flatten().collect();
    let function = |number: usize| {
        let called = number.checked_sub(1).map(|before| format!("f{before}"));
        let relocation = |symbol: &String| CodeRelocation { offset: 0x10, kind: CodePatch::Call, symbol: symbol.clone(), addend: 0 };
        let is_last = number == count - 1;
        Function {
            code: code.clone(),
            registers: 24,
            frame_size: 16,
            relocations: called.iter().map(relocation).collect(),
            calls: called.into_iter().collect(),
            attributes: if is_last { kernel_attributes(&traits, &[], Vec::new()) } else { function_attributes(&traits, Vec::new()) },
            frame: if is_last { FrameInfo::plain(128) } else { FrameInfo::function(128) },
            ..if is_last { Function::kernel(format!("f{number}")) } else { Function::device(format!("f{number}")) }
        }
    };
    Module::new(traits, (0..count).map(function).collect())
}

#[test]
fn files_with_many_functions() {
    let write = |module: &Module| {
        let mut module = module.clone();
        module.settle_calls();
        module.build().unwrap().write().unwrap()
    };
    grows("building a file", 2000, chain, |module| drop(black_box(write(module))));
    let read = |size: usize| write(&chain(size));
    grows("reading a file", 2000, read, |bytes| {
        let cubin = Cubin::read(bytes).unwrap();
        let index = CubinIndex::new(&cubin);
        let registers = cubin.functions().filter_map(|function| index.register_count(function.symbol));
        assert!(registers.count() >= 2000);
    });
    let cubin = |size: usize| Cubin::read(&read(size)).unwrap();
    grows("verifying a file", 1000, cubin, |cubin| drop(black_box(verify(cubin, &[Verifier::Integrity]).unwrap())));
}

/// The stack size of a call chain is the sum over its functions.
#[test]
fn chains_of_calls_add_up() {
    let mut module = chain(1000);
    module.settle_calls();
    assert_eq!(module.functions[999].min_stack_size, 16 * 1000);
}

/// Returns a kernel that reads 4,300 global variables, more than constant bank 4 has space for addresses, and stores their sum.
fn many_globals() -> String {
    const COUNT: u32 = 4300;
    let sum: u32 = (1..=COUNT).sum();
    let mut text = format!(
        "// kernel-test 1\n// about: more global variables than constant bank 4 has addresses\n// kernel: k\n// grid: 1 1 1\n// block: 1 1 1\n// param d: u32[1] = zero\n// expect d: exact = {sum:x}\n\n"
    );
    text += ".version 8.0\n.target sm_75\n.address_size 64\n";
    text.extend((1..=COUNT).map(|number| format!(".global .align 4 .u32 g{number} = {number};\n")));
    text += ".visible .entry k(.param .u64 d)\n{\n.reg .b32 %sum, %r;\n.reg .b64 %d;\nld.param.u64 %d, [d];\nmov.u32 %sum, 0;\n";
    text.extend((1..=COUNT).map(|number| format!("ld.global.u32 %r, [g{number}];\nadd.s32 %sum, %sum, %r;\n")));
    text + "st.global.u32 [%d], %sum;\nret;\n}\n"
}

#[test]
fn more_global_variables_than_a_bank_has_addresses() {
    let folder = crate::common::folder("growth-globals");
    fs::write(folder.join("many.ptx"), many_globals()).unwrap();
    for (engine, target) in [("ptx", "sm_90"), ("sass", "sm_90"), ("sass", "sm_80")] {
        let arguments = ["run", "many.ptx", "--engine", engine, "--arch", target];
        let arguments = if engine == "ptx" { &arguments[..4] } else { &arguments[..] };
        let outcome = crate::common::run(env!("CARGO_BIN_EXE_oriole"), &folder, arguments, "");
        assert_eq!(outcome.code, Some(0), "{engine}, {target}: {}{}", outcome.stdout, outcome.stderr);
    }
}
