//! The generator: a program from a seed.
//!
//! Programs are defined by construction: every register has a value, every access is inside memory that the thread owns or nobody
//! changes, divisors are not zero, loops end, and warp operations name the threads that are there ([`Level`]). Each program prefers
//! some kinds of instructions over others, so that unlikely combinations become likely in some programs.

mod body;
mod calls;
mod convert;
mod inits;
mod memory;

use oriole_kernel_test::Source;

use crate::program::{CONSTANT_WORDS, Class, Function, Op, Program};
use crate::reduce::edits;
use crate::rng::Rng;
use crate::template::{self, Names, interesting};

/// Which threads are known to be at a place together.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Level {
    /// All threads of the block.
    Block,
    /// Those of the warp in this mask.
    Warp(String),
    Thread,
}

/// Where a statement stands.
#[derive(Clone, Debug)]
struct Context {
    level: Level,
    /// How often it is executed at most, in one call of the function.
    weight: usize,
    depth: usize,
    exits: bool,
}

/// A function that may be called.
#[derive(Clone, Debug)]
struct Callee {
    function: usize,
    /// Instructions executed in a call at most.
    cost: usize,
}

struct Generator {
    rng: Rng,
    seed: u64,
    sm: u32,
    /// Sections of the table with their weights in this program.
    sections: Vec<(&'static str, usize)>,
    full_warps: bool,
    /// Functions may have several results, but neither recursion nor pointers: ptxas has no ABI for that.
    many_results: bool,
    functions: Vec<Function>,
    callees: Vec<Callee>,
    // The function at hand.
    in_kernel: bool,
    /// All threads come to the end, so that cells in shared memory can be read there.
    shared_cells: bool,
    pool: [usize; 12],
    readable: Vec<String>,
    /// Loops around, innermost last.
    loops: Vec<(usize, Level)>,
    ids: usize,
    cost: usize,
    /// Instructions that a thread may execute in this function at most, about.
    cost_limit: usize,
}

const SECTIONS: [&str; 12] =
    ["int32", "int64", "int16", "carry", "logic", "compare", "float32", "float64", "half", "bfloat", "move", "bits"];
const TARGETS: [(&str, u32); 7] = [("sm_75", 75), ("sm_75", 75), ("sm_80", 80), ("sm_80", 80), ("sm_86", 86), ("sm_90", 90), ("sm_90", 90)];
const VERSIONS: [&str; 3] = ["8.3", "8.7", "9.0"];

/// A program; `size` is about the number of instructions, and random if not given.
pub fn generate(seed: u64, size: Option<usize>) -> Program {
    let mut rng = Rng::new(seed);
    let size = size.unwrap_or_else(|| match rng.below(10) {
        0..=3 => rng.range(10, 40) as usize,
        4..=7 => rng.range(40, 120) as usize,
        _ => rng.range(120, 400) as usize,
    });
    let (target, sm) = *rng.pick(&TARGETS);
    let version = *rng.pick(&VERSIONS);
    let (grid, block) = shape(&mut rng);
    let sections = SECTIONS.iter().map(|&section| (section, *rng.pick(&[0, 1, 1, 2, 6]))).collect();
    let mut generator = Generator {
        seed,
        sm,
        sections,
        full_warps: block.iter().product::<u32>() % 32 == 0,
        many_results: rng.chance(10),
        functions: Vec::new(),
        callees: Vec::new(),
        in_kernel: false,
        shared_cells: false,
        pool: [0; 12],
        readable: Vec::new(),
        loops: Vec::new(),
        ids: 0,
        cost: 0,
        cost_limit: 0,
        rng,
    };
    let kernel_size = generator.make_functions(size);
    let (kernel, slots) = generator.make_kernel(kernel_size);
    let mut rng = generator.rng;
    let fill_seed = rng.next() as u32;
    let mut program = Program {
        seed,
        version,
        target,
        functions: generator.functions,
        kernel,
        grid,
        block,
        scalars: [interesting(&mut rng, 32, false) as u32, rng.below(8) as u32],
        structure: (0..32).map(|_| interesting(&mut rng, 8, false) as u8).collect(),
        constants: (0..CONSTANT_WORDS).map(|_| interesting(&mut rng, 32, false) as u32).collect(),
        fill: *rng.pick(&[
            Source::Random { seed: fill_seed },
            Source::Pick { seed: fill_seed },
            Source::Sized { seed: fill_seed },
            Source::Sized { seed: fill_seed },
        ]),
        slots,
    };
    edits::prune(&mut program);
    program
}

fn shape(rng: &mut Rng) -> ([u32; 3], [u32; 3]) {
    let block = match rng.below(10) {
        0..=3 => [32, 1, 1],
        4 => [64, 1, 1],
        5 => [16, 2, rng.range(1, 2) as u32],
        6 => [rng.range(1, 31) as u32, 1, 1],
        7 => [rng.range(33, 96) as u32, 1, 1],
        8 => [rng.range(1, 9) as u32, rng.range(1, 5) as u32, rng.range(1, 2) as u32],
        _ => [96, 1, 1],
    };
    let grid = match rng.below(6) {
        0 => [2, 1, 1],
        1 => [3, 1, 1],
        2 => [1, 2, 1],
        _ => [1, 1, 1],
    };
    (grid, block)
}

impl Generator {
    fn id(&mut self) -> usize {
        self.ids += 1;
        self.ids - 1
    }

    fn expand(&mut self, template: &str, level: &Level) -> Op {
        let mask = match level {
            Level::Warp(mask) => mask,
            _ => "%wm",
        };
        let names = Names { pool: &self.pool, readable: &self.readable, mask };
        template::expand(&mut self.rng, &names, template)
    }

    /// A template in a context where no mask is known.
    fn plain(&mut self, template: &str) -> Op {
        self.expand(template, &Level::Thread)
    }

    fn read(&mut self, class: Class) -> String {
        let names = Names { pool: &self.pool, readable: &self.readable, mask: "" };
        names.read(&mut self.rng, class)
    }

    fn choose(&mut self, template: &str) -> String {
        template::choose(&mut self.rng, template)
    }

    /// Readies for a new function.
    fn begin(&mut self, in_kernel: bool, pool: [usize; 12], cost_limit: usize) {
        self.in_kernel = in_kernel;
        self.pool = pool;
        self.readable = if in_kernel { vec!["%lin".into(), "%gtid".into()] } else { Vec::new() };
        self.loops = Vec::new();
        self.ids = 0;
        self.cost = 0;
        self.cost_limit = cost_limit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::print;

    #[test]
    fn a_seed_is_a_program() {
        assert_eq!(generate(7, None), generate(7, None));
        assert_ne!(generate(7, None).kernel, generate(8, None).kernel);
    }

    #[test]
    fn programs_are_valid() {
        for seed in 0..150 {
            let text = print::module(&generate(seed, None));
            let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
            assert!(checked.is_valid(), "seed {seed}: {:?}\n{text}", checked.diagnostics.first());
        }
    }

    #[test]
    fn sizes_are_about_as_asked() {
        for (size, low, high) in [(10, 1, 80), (400, 150, 2500)] {
            let lines: usize = (0..20).map(|seed| generate(seed, Some(size)).kernel.body.len()).sum();
            assert!(lines / 20 >= low.min(8) && lines / 20 <= high, "{size}: {lines}");
        }
    }
}
