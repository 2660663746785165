//! Runs the functions of `crates/isel/library` on the CPU, instruction by instruction, and compares them with exact results.
//!
//! The hardware's approximations are modelled with every error that the manual allows (see [`mufu`]), so a function that passes does not
//! depend on the errors of one GPU. Usage, from the repository root:
//!
//! ```text
//! cargo run --release -p mathlib-check -- [--cases N] [NAME...]
//! ```
//!
//! N is the number of random operands per function and error (default: one million); a name selects the functions that contain it. The exit
//! status is 1 if any result is wrong.

mod arith;
mod cases;
mod expect;
mod mufu;
mod operations;
mod program;
mod reference;

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use cases::{DOUBLE, Layout, Random, SINGLE};
use expect::{ArgumentKind, Check};
use mufu::{Mufu, Offset};
use program::Program;

const LIBRARY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/isel/library");

/// With fewer random cases than this, the directed cases are sampled too.
const SHORT: u64 = 10_000;

/// The test of one function with one error of the approximations.
struct Trial<'a> {
    check: &'a Check,
    program: &'a Program,
    mufu: Mufu,
    /// Units in the last place added to tolerances.
    slack: u32,
    /// Mask of the result bits.
    mask: u64,
    /// Only every n-th pair of exponents is tried.
    stride: usize,
    scratch: Vec<u64>,
    cases: u64,
    wrong: u64,
    examples: Vec<String>,
}

impl Trial<'_> {
    fn run(&mut self, operands: &[u64]) {
        let result = self.program.run(&self.mufu, operands, &mut self.scratch) & self.mask;
        let expected = (self.check.expect)(operands);
        self.cases += 1;
        if !expected.accepts(result, self.slack) {
            self.wrong += 1;
            if self.examples.len() < 3 {
                self.examples.push(format!("operands {operands:x?} result {result:x} expected {expected:x?}"));
            }
        }
    }

    /// Runs the function on pairs of floats.
    fn pairs(&mut self, layout: Layout, random_cases: u64, random: &mut Random) {
        let numbers = layout.awkward_numbers();
        let partners = layout.awkward_fractions().len() as u64 * 2;
        let exponents = numbers.len() as u64 / partners;
        // Every pair of exponents, with fractions that vary from pair to pair.
        for index in (0..exponents * exponents).step_by(self.stride) {
            let (x, y) = (index / exponents, index % exponents);
            let pick = |exponent: u64, random: &mut Random| numbers[(exponent * partners + random.below(partners)) as usize];
            let (a, b) = (pick(x, random), pick(y, random));
            self.run(&[a, b]);
        }
        // All pairs of special fractions, at exponents that matter.
        let middle = exponents / 2 - 1;
        let special = [0, 1, 2, middle, middle + 1, exponents - 2, exponents - 1];
        for &x in &special {
            for &y in &special {
                for i in 0..partners {
                    for j in 0..partners {
                        self.run(&[numbers[(x * partners + i) as usize], numbers[(y * partners + j) as usize]]);
                    }
                }
            }
        }
        self.corner(layout);
        for _ in 0..random_cases / 2 {
            let (a, b) = (layout.random(random), layout.random(random));
            self.run(&[a, b]);
            let (a, b) = layout.near_boundary(random);
            self.run(&[a, b]);
        }
    }

    /// Tries significands just below 2, where reciprocals are coarsest and the remainder may need one more bit than available.
    fn corner(&mut self, layout: Layout) {
        let bias = (1u64 << (layout.bits - 2 - layout.fraction_bits)) - 1;
        let two = (bias + 1) << layout.fraction_bits;
        for x in 1..=200 {
            for y in 1..=200 {
                self.run(&[two - x, two - y]);
            }
        }
    }

    /// Runs the function on single floats.
    fn singles(&mut self, layout: Layout, random_cases: u64, random: &mut Random) {
        for number in layout.awkward_numbers() {
            self.run(&[number]);
        }
        if layout.bits == 64 {
            cases::roots_near_midpoints().into_iter().for_each(|number| self.run(&[number]));
        }
        let bias = (1u64 << (layout.bits - 2 - layout.fraction_bits)) - 1;
        for distance in 0..5000u64 {
            for exponent in [0, 1, 2, 3, bias - 1, bias, bias + 1, bias + 2, 2 * bias - 2, 2 * bias - 1, 2 * bias, 2 * bias + 1] {
                self.run(&[(exponent << layout.fraction_bits) + distance]);
                self.run(&[(exponent << layout.fraction_bits).wrapping_sub(distance + 1) & (u64::MAX >> (64 - layout.bits))]);
            }
        }
        for _ in 0..random_cases / 2 {
            let a = layout.random(random);
            self.run(&[a]);
            let a = near_square(layout, random);
            self.run(&[a]);
        }
    }

    /// Runs the function on pairs of integers.
    fn integers(&mut self, bits: u32, signed: bool, random_cases: u64, random: &mut Random) {
        let fit = |value: u64| match (bits, signed) {
            (16, true) => u64::from(i32::from(value as i16) as u32),
            (16, false) => value & 0xffff,
            (32, _) => value & 0xffff_ffff,
            _ => value,
        };
        let edges: Vec<u64> = (0..64u32)
            .flat_map(|bit| [(1u64 << bit).wrapping_sub(1), 1 << bit, (1u64 << bit).wrapping_add(1)])
            .flat_map(|value| [value, value.wrapping_neg()])
            .chain([0, 3, 5, 7, 10, 100, 1000, 0x5555_5555_5555_5555])
            .collect();
        for &a in &edges {
            for &b in &edges {
                self.run(&[fit(a), fit(b)]);
            }
        }
        for _ in 0..random_cases {
            let (quotient, b) = (random.integer(), random.integer());
            let a = if random.below(2) == 0 { quotient } else { quotient.wrapping_mul(b).wrapping_add(random.below(3)).wrapping_sub(1) };
            self.run(&[fit(a), fit(b)]);
        }
    }

    /// Tries every base and offset, on words with few, half and almost all bits set.
    fn bit_searches(&mut self, random_cases: u64, random: &mut Random) {
        const BASES: u64 = 32;
        const OFFSETS: u64 = 69;
        for _ in 0..random_cases.div_ceil(BASES * OFFSETS).max(16) {
            let (one, other) = (random.next() as u32, random.next() as u32);
            for mask in [one, one & other, one | other, 0, u32::MAX, 1, 1 << 31] {
                for index in 0..BASES * OFFSETS {
                    let offset = (index / BASES) as i32 - OFFSETS as i32 / 2;
                    self.run(&[u64::from(mask), index % BASES, u64::from(offset as u32)]);
                }
            }
        }
    }
}

/// Returns a number whose root is next to a midpoint or next to another number.
fn near_square(layout: Layout, random: &mut Random) -> u64 {
    let precision = layout.fraction_bits + 1;
    let root = u128::from(random.next() >> (63 - precision) | 1 << precision);
    let square = root * root;
    let excess = 128 - square.leading_zeros() - precision;
    let significand = (square >> excess) as u64 + random.below(3) - 1;
    let exponents = (1u64 << (layout.bits - 1 - layout.fraction_bits)) - 1;
    (significand & ((1 << layout.fraction_bits) - 1)) | random.below(exponents) << layout.fraction_bits
}

/// Reads all functions of the library.
fn load() -> Result<HashMap<String, Program>, String> {
    let mut programs = HashMap::new();
    let entries = std::fs::read_dir(LIBRARY).map_err(|problem| format!("{LIBRARY}: {problem}"))?;
    for entry in entries {
        let path = entry.map_err(|problem| problem.to_string())?.path();
        if path.extension().is_some_and(|extension| extension == "ptx") {
            let text = std::fs::read(&path).map_err(|problem| format!("{}: {problem}", path.display()))?;
            programs.extend(program::read(&text).map_err(|problem| format!("{}: {problem}", path.display()))?);
        }
    }
    Ok(programs)
}

/// Returns the errors of the approximations to try for a function.
fn offsets(check: &Check) -> &'static [Offset] {
    use Offset::{Fixed, Varying};
    match check.kind {
        _ if !check.name.contains("f32") && !check.name.contains("f64") => &[Fixed(0), Fixed(-1), Fixed(1)],
        _ if check.name.starts_with("min") || check.name.starts_with("max") || check.name.starts_with("cvt") => &[Fixed(0)],
        _ if check.name.starts_with("sqrt") => &[Fixed(0), Fixed(-1), Fixed(1), Fixed(-2), Fixed(2), Varying],
        _ => &[Fixed(0), Fixed(-1), Fixed(1), Varying],
    }
}

/// Tests one function with all errors of the approximations; returns the number of cases, the number of wrong ones, and examples.
fn examine(check: &Check, programs: &HashMap<String, Program>, mufu: &Mufu, random_cases: u64) -> Result<(u64, u64, Vec<String>), String> {
    let program = programs.get(&format!("__oriole_{}", check.name)).ok_or(format!("{}: not in the library", check.name))?;
    let (mut cases, mut wrong, mut examples) = (0, 0, Vec::new());
    for (number, &offset) in offsets(check).iter().enumerate() {
        let slack = if check.exact || matches!(offset, Offset::Fixed(0)) { 0 } else { 3 };
        let mask = match check.kind {
            ArgumentKind::Integers(bits, _) => u64::MAX >> (64 - bits),
            ArgumentKind::BitSearch => u64::from(u32::MAX),
            _ => u64::MAX,
        };
        let mut trial = Trial {
            check,
            program,
            mufu: mufu.with_offset(offset),
            slack,
            mask,
            stride: if random_cases < SHORT { 101 } else { 1 },
            scratch: Vec::new(),
            cases: 0,
            wrong: 0,
            examples: Vec::new(),
        };
        let mut random = Random::new(number as u64 + 1);
        match check.kind {
            ArgumentKind::Quotient32 => trial.pairs(SINGLE, random_cases, &mut random),
            ArgumentKind::Quotient64 => trial.pairs(DOUBLE, random_cases, &mut random),
            ArgumentKind::Single => trial.singles(SINGLE, random_cases, &mut random),
            ArgumentKind::Double => trial.singles(DOUBLE, random_cases, &mut random),
            ArgumentKind::Integers(bits, signed) => trial.integers(bits, signed, random_cases, &mut random),
            ArgumentKind::BitSearch => trial.bit_searches(random_cases, &mut random),
        }
        cases += trial.cases;
        wrong += trial.wrong;
        examples.extend(trial.examples.iter().map(|example| format!("{offset:?}: {example}")));
    }
    Ok((cases, wrong, examples))
}

/// Calls a function for each check, on all cores.
fn on_all_cores(checks: &[Check], examine: impl Fn(&Check) + Sync) {
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(checks.len().max(1));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(check) = checks.get(next.fetch_add(1, Ordering::Relaxed)) {
                    examine(check);
                }
            });
        }
    });
}

/// Tests all functions whose names match the filters, in parallel; returns whether all results are correct.
fn run(random_cases: u64, filters: &[String]) -> Result<bool, String> {
    let programs = load()?;
    let mufu = Mufu::new();
    let (reciprocals, roots) = mufu.ruled_out();
    println!("ruled out: {reciprocals} approximations of reciprocals, {roots} of roots");
    let checks: Vec<Check> = expect::checks()
        .into_iter()
        .filter(|check| filters.is_empty() || filters.iter().any(|name| check.name.contains(name.as_str())))
        .collect();
    let failures = Mutex::new(Vec::new());
    on_all_cores(&checks, |check| {
        let line = match examine(check, &programs, &mufu, random_cases) {
            Ok((cases, 0, _)) => format!("{:20} {cases:>12} cases, all right", check.name),
            Ok((cases, wrong, examples)) => {
                let text = format!("{:20} {cases:>12} cases, {wrong} WRONG\n    {}", check.name, examples.join("\n    "));
                failures.lock().expect("no thread panics").push(check.name.clone());
                text
            }
            Err(problem) => {
                failures.lock().expect("no thread panics").push(check.name.clone());
                problem
            }
        };
        println!("{line}");
    });
    let failures = failures.into_inner().expect("no thread panics");
    println!("{} functions, {} wrong", checks.len(), failures.len());
    Ok(failures.is_empty())
}

fn main() -> ExitCode {
    let mut random_cases = 1_000_000;
    let mut filters = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--cases" {
            let Some(number) = arguments.next().and_then(|text| text.parse().ok()) else {
                eprintln!("--cases needs a number");
                return ExitCode::from(2);
            };
            random_cases = number;
        } else {
            filters.push(argument);
        }
    }
    match run(random_cases, &filters) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    /// Every function of the library has a check and passes a short test.
    #[test]
    fn library_is_right() {
        let programs = super::load().expect("the library is readable");
        let mufu = super::Mufu::new();
        let checks = super::expect::checks();
        assert_eq!(programs.len(), checks.len(), "each function is checked");
        super::on_all_cores(&checks, |check| {
            let (_, wrong, examples) = super::examine(check, &programs, &mufu, 1_000).expect("the function exists");
            assert_eq!(wrong, 0, "{}: {}", check.name, examples.join("; "));
        });
    }
}
