//! The generator: creates a program from a seed.
//!
//! Programs are defined by construction: every register has a value, every access is within memory that the thread owns or that no thread
//! writes, divisors are not zero, loops terminate, and the masks of warp operations name the threads that execute them ([`Level`]). Each
//! program prefers some kinds of instructions, so that unlikely combinations become likely in some programs.

mod body;
mod calls;
mod clusters;
mod convert;
mod float_atomics;
mod inits;
mod matrices;
mod memory;
mod pipelines;
mod tensor;
mod warpgroups;

use oriole_kernel_test::Source;
pub use tensor::{AREA_BYTES, GATES};

use crate::features::{Feature, Features};
use crate::program::{CONSTANT_WORDS, Frame, Function, GLOBAL_POINTERS, Global, Op, OperandClass, Program, Together};
use crate::reduce::edits;
use crate::rng::Rng;
use crate::template::{self, Names, interesting};

/// The threads that are known to execute a statement together.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Level {
    /// All threads of the block.
    Block,
    /// The threads of the warp in this mask.
    Warp(String),
    Thread,
}

/// The context of a statement.
#[derive(Clone, Debug)]
struct Context {
    level: Level,
    /// Estimated number of executions in one call of the function.
    weight: usize,
    /// Limit on the number of executions per thread in one call of the function.
    executions: usize,
    /// Nesting depth.
    depth: usize,
    /// Whether threads may exit.
    exits: bool,
}

/// A function that may be called.
#[derive(Clone, Debug)]
struct Callee {
    function: usize,
    /// Limit on the number of instructions executed in a call.
    cost: usize,
}

/// State of the generator.
struct Generator {
    rng: Rng,
    seed: u64,
    sm: u32,
    /// Sections of the table and their weights in this program.
    sections: Vec<(&'static str, usize)>,
    features: Features,
    /// Whether all warps of a block are full.
    full_warps: bool,
    /// Number of threads of the launch.
    threads: usize,
    /// Number of threads of a block.
    threads_per_block: usize,
    /// Whether sums of floats must be exact, because the target may sum in another way than the interpreter.
    exact: bool,
    /// Bytes in use of the array in shared memory for matrices and copies.
    area_used: usize,
    /// Barriers in use in shared memory.
    gates_used: usize,
    /// Chunks of 16 bytes in use of the memory that bulk copies write.
    chunks_used: usize,
    /// Whether threads have arrived at the barrier of the cluster and not waited yet.
    in_cluster_phase: bool,
    /// Whether the warps have given up registers and not taken them back yet.
    has_few_registers: bool,
    /// Number of blocks of a cluster.
    cluster: usize,
    /// Size in bytes of the kernel parameter that is passed by value.
    structure_bytes: usize,
    /// Size in bytes of the large constant array; 0 if the program has none.
    large_constant_bytes: usize,
    globals: Vec<Global>,
    /// How much float additions may still add, so that all sums are exact; see [`float_atomics`].
    sums_left: [usize; 4],
    /// Whether functions may have several results. They then have neither recursion nor pointers, because ptxas has no ABI for that.
    many_results: bool,
    functions: Vec<Function>,
    callees: Vec<Callee>,
    // State of the current function.
    in_kernel: bool,
    /// The threads that call the function together.
    together: Together,
    /// Whether all threads reach the end, so that cells in shared memory can be read there.
    shared_cells: bool,
    /// Number of registers of each class.
    pool: [usize; 12],
    /// Further 32-bit registers that may be read.
    readable: Vec<String>,
    /// Enclosing loops, the innermost last.
    loops: Vec<(usize, Level)>,
    /// Number of construct ids in use.
    ids: usize,
    /// Estimated number of instructions that a thread executes.
    cost: usize,
    /// Approximate limit on the number of instructions that a thread executes in this function.
    cost_limit: usize,
}

const SECTIONS: [&str; 12] =
    ["int32", "int64", "int16", "carry", "logic", "compare", "float32", "float64", "half", "bfloat", "move", "bits"];
const TARGETS: [(&str, u32); 7] = [("sm_75", 75), ("sm_75", 75), ("sm_80", 80), ("sm_80", 80), ("sm_86", 86), ("sm_90", 90), ("sm_90", 90)];
const VERSIONS: [&str; 3] = ["8.3", "8.7", "9.0"];

/// Percentage of programs with tensor features.
const TENSOR_PERCENT: usize = 10;
/// Changes the seed for the choice of tensor features.
const TENSOR_STREAM: u64 = 0x7465_6e73_6f72;
/// Sizes of clusters in blocks.
const CLUSTER_SIZES: [u32; 4] = [1, 2, 2, 4];
/// Changes the seed for the choice of [`Feature::Clusters`].
const CLUSTER_STREAM: u64 = 0x636c_7573_7465;

/// Options of the generator besides the seed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Approximate number of instructions; random if `None`.
    pub size: Option<usize>,
    /// Features that no program has.
    pub without: Features,
    /// Whether every program has a feature of [`Feature::TENSOR`].
    pub tensor: bool,
}

/// Generates a program; `size` is the approximate number of instructions, random if `None`.
pub fn generate(seed: u64, size: Option<usize>) -> Program {
    generate_with(seed, &Options { size, ..Options::default() })
}

/// Generates a program.
pub fn generate_with(seed: u64, options: &Options) -> Program {
    let mut rng = Rng::new(seed);
    let size = options.size.unwrap_or_else(|| match rng.below(10) {
        0..=3 => rng.range(10, 40) as usize,
        4..=7 => rng.range(40, 120) as usize,
        _ => rng.range(120, 400) as usize,
    });
    let (mut target, mut sm) = *rng.pick(&TARGETS);
    let mut version = *rng.pick(&VERSIONS);
    let (mut grid, mut block) = shape(&mut rng);
    let mut cluster = 1;
    let mut features = Features::draw(&mut rng, options.without);
    // A stream of its own: programs without tensor features are as they would be without this feature group.
    let mut own = Rng::new(seed ^ TENSOR_STREAM);
    if options.tensor || own.chance(TENSOR_PERCENT) {
        features = features.draw_tensor(&mut own, options.without);
    }
    if features.has_tensor() {
        (target, sm) = tensor_target(&mut own, features);
        block = tensor_block(&mut own, features);
        version = *own.pick(&["8.7", "9.0"]);
        if sm >= 90 {
            // Again a stream of its own, so that the other tensor programs do not change.
            let mut own = Rng::new(seed ^ CLUSTER_STREAM);
            features = features.draw_clusters(&mut own, options.without);
            if features.has(Feature::Clusters) {
                cluster = *own.pick(&CLUSTER_SIZES);
                grid = if cluster == 1 { grid } else { [cluster * own.range(1, 2) as u32, 1, 1] };
            }
        }
    }
    let mut sections: Vec<(&str, usize)> = SECTIONS.iter().map(|&section| (section, *rng.pick(&[0, 1, 1, 2, 6]))).collect();
    for section in Feature::ALL.into_iter().filter(|feature| features.has(*feature)).filter_map(Feature::section) {
        sections.push((section, *rng.pick(&[1, 2, 6])));
    }
    let large_constant = large_constant(&mut rng, features);
    let mut generator = Generator {
        seed,
        sm,
        sections,
        features,
        full_warps: block.iter().product::<u32>() % 32 == 0,
        threads: (block.iter().product::<u32>() * grid.iter().product::<u32>()) as usize,
        threads_per_block: block.iter().product::<u32>() as usize,
        exact: target != "sm_90a",
        area_used: 0,
        gates_used: 0,
        chunks_used: 0,
        in_cluster_phase: false,
        has_few_registers: false,
        cluster: cluster as usize,
        structure_bytes: structure_bytes(&mut rng, features),
        large_constant_bytes: large_constant.len() * 4,
        globals: globals(&mut rng, features),
        sums_left: float_atomics::EXACT_UP_TO,
        many_results: rng.chance(10),
        functions: Vec::new(),
        callees: Vec::new(),
        in_kernel: false,
        together: Together::Thread,
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
        cluster,
        block,
        scalars: [interesting(&mut rng, 32, false) as u32, rng.below(8) as u32],
        structure: (0..generator.structure_bytes).map(|_| interesting(&mut rng, 8, false) as u8).collect(),
        constants: (0..CONSTANT_WORDS).map(|_| interesting(&mut rng, 32, false) as u32).collect(),
        large_constant,
        globals: generator.globals,
        unused_globals: true,
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

/// Generates the words of the large constant array, with few digits to keep texts short. Constants of a module are limited to 64 KB.
fn large_constant(rng: &mut Rng, features: Features) -> Vec<u32> {
    if !features.has(Feature::LargeConstants) {
        return Vec::new();
    }
    let lines_of_64_bytes = if rng.chance(70) { rng.range(520, 1000) } else { rng.range(32, 520) };
    (0..lines_of_64_bytes * 16).map(|_| rng.below(1000) as u32).collect()
}

/// Picks the size of the kernel parameter that is passed by value. All parameters are limited to 32,764 bytes; the others take 40.
fn structure_bytes(rng: &mut Rng, features: Features) -> usize {
    if !features.has(Feature::LargeParameters) {
        return 32;
    }
    let bytes = match rng.below(4) {
        0 => rng.range(64, 1024),
        1 => rng.range(1024, 4400),
        2 => rng.range(4400, 32_720),
        _ => 32_720,
    };
    // The buffer for bulk copies is one more parameter.
    let most = if features.has(Feature::MemoryBarriers) { 32_704 } else { 32_720 };
    bytes.min(most) as usize / 16 * 16
}

fn globals(rng: &mut Rng, features: Features) -> Vec<Global> {
    if !features.has(Feature::ManyGlobals) {
        return Vec::new();
    }
    let count = *rng.pick(&[GLOBAL_POINTERS, 100, 300, 700, 2000]);
    let kinds = ["b8", "b16", "b32", "b32", "b64"];
    (0..count).map(|_| Global { kind: rng.pick::<&str>(&kinds), value: rng.below(256) as u32 }).collect()
}

/// Picks the target of a program with tensor features and its number.
fn tensor_target(rng: &mut Rng, features: Features) -> (&'static str, u32) {
    if features.has(Feature::Warpgroups) {
        return ("sm_90a", 90);
    }
    let copies = features.has(Feature::AsyncCopies) || features.has(Feature::MemoryBarriers);
    *rng.pick(if copies {
        &[("sm_80", 80), ("sm_90", 90), ("sm_90a", 90), ("sm_90a", 90)]
    } else {
        &[("sm_75", 75), ("sm_80", 80), ("sm_89", 89), ("sm_90", 90), ("sm_90a", 90), ("sm_90a", 90)]
    })
}

/// Picks the block size of a program with tensor features: a power of two, and whole warpgroups if there are products of them.
fn tensor_block(rng: &mut Rng, features: Features) -> [u32; 3] {
    if features.has(Feature::Warpgroups) {
        // With dynamic shared memory, that of two warpgroups would be too much.
        let two = !features.has(Feature::DynamicShared) && rng.chance(15);
        return if two { [256, 1, 1] } else { *rng.pick(&[[128, 1, 1], [128, 1, 1], [32, 4, 1]]) };
    }
    *rng.pick(&[[32, 1, 1], [64, 1, 1], [64, 1, 1], [128, 1, 1], [16, 4, 1]])
}

/// Picks the grid and block sizes.
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
    /// Returns a new construct id.
    fn id(&mut self) -> usize {
        self.ids += 1;
        self.ids - 1
    }

    /// Expands a template; `level` determines the mask of warp operations.
    fn expand(&mut self, template: &str, level: &Level) -> Op {
        let mask = match level {
            Level::Warp(mask) => mask,
            _ => "%wm",
        };
        let names = Names { pool: &self.pool, readable: &self.readable, mask };
        template::expand(&mut self.rng, &names, template)
    }

    /// Expands a template where no mask is known.
    fn plain(&mut self, template: &str) -> Op {
        self.expand(template, &Level::Thread)
    }

    /// Picks the array of a function in local memory.
    fn frame(&mut self, most_bytes: i64) -> Frame {
        if !self.features.has(Feature::DeepFrames) || self.rng.chance(30) {
            return Frame::SMALL;
        }
        let window = self.rng.range(0, most_bytes / 16 - 4) as usize * 16;
        let after = self.rng.range(0, most_bytes / 16) as usize * 16;
        Frame { bytes: (window + 64 + after).min(most_bytes as usize), window }
    }

    fn read(&mut self, class: OperandClass) -> String {
        let names = Names { pool: &self.pool, readable: &self.readable, mask: "" };
        names.read(&mut self.rng, class)
    }

    fn choose(&mut self, template: &str) -> String {
        template::choose(&mut self.rng, template)
    }

    /// Resets the state for a new function.
    fn begin(&mut self, in_kernel: bool, together: Together, pool: [usize; 12], cost_limit: usize) {
        self.in_kernel = in_kernel;
        self.together = together;
        self.pool = pool;
        self.readable = if in_kernel { vec!["%lin".into(), "%gtid".into()] } else { Vec::new() };
        if self.features.has(Feature::VectorRegisters) {
            let components = ["%va.x", "%va.y", "%va.z", "%va.w", "%va.b", "%vb.x", "%vb.g"];
            self.readable.extend(components.map(str::to_owned));
        }
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
