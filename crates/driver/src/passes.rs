//! The pass table: every step of the compilation of a function, in order.
//!
//! [`pipeline`](crate::pipeline) runs the rows; no pass runs outside the table. The rows of the stages [`Stage::Schedule`] and
//! [`Stage::Allocate`] run once for each scheduling plan that the [`search`](crate::search) tries, all others once for each function.
//!
//! A row of the table refers to a function in [`run`] that calls the pass with its arguments and stores its results in the
//! [`FunctionState`]. Timing, printing and verification are done by the pipeline.

mod run;

use std::fmt;

use crate::error::FunctionError;
use crate::schedule;
use crate::state::FunctionState;

/// A step of the compilation of a function: a row of the pass table.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// Phase number. Phases are numbered in the order of execution, with gaps.
    pub phase: u8,
    /// Name of the pass on the command line.
    pub name: &'static str,
    /// The optimization levels at which the pass runs.
    pub levels: PassLevels,
    /// Whether the code is correct without the pass, so that bisection may skip it.
    pub is_optional: bool,
    /// Description of the pass in one line, for help texts.
    pub description: &'static str,
    /// The stage of the compilation that the pass belongs to.
    pub(crate) stage: Stage,
    /// The function that runs the pass.
    pub(crate) run: for<'a> fn(&mut FunctionState<'a>) -> Result<(), Vec<FunctionError>>,
}

/// The optimization levels at which a pass runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PassLevels {
    /// All levels.
    All,
    /// The given level and higher ones.
    AtLeast(u8),
    /// Only the given level.
    Only(u8),
    /// The levels at which functions are scheduled; any level if the options request scheduling.
    Scheduled,
}

impl fmt::Display for PassLevels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PassLevels::All => write!(f, "-O0 to -O3"),
            PassLevels::AtLeast(level) => write!(f, "-O{level} to -O3"),
            PassLevels::Only(level) => write!(f, "-O{level}"),
            PassLevels::Scheduled => write!(f, "-O{} to -O3, or --sched-mode", schedule::MIN_SCHEDULED_LEVEL),
        }
    }
}

/// A stage of the compilation: a contiguous part of the pass table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// Selection and optimization. Runs once.
    Optimize,
    /// Scheduling before register allocation. Runs once for each scheduling plan.
    Schedule,
    /// Register allocation up to the final order of instructions. Runs once for each schedule that the search compares.
    Allocate,
    /// Control words and machine code. Runs once.
    Emit,
}

impl Stage {
    /// Returns whether the passes of the stage run once for each scheduling plan.
    pub fn runs_once_per_plan(self) -> bool {
        matches!(self, Stage::Schedule | Stage::Allocate)
    }
}

macro_rules! passes {
    ($($phase:literal $name:literal, $levels:expr, $necessity:ident, $stage:ident, $run:ident, $description:literal;)*) => {
        /// All passes in the order of execution.
        pub const PASSES: &[Pass] = &[$(Pass {
            phase: $phase,
            name: $name,
            levels: $levels,
            is_optional: is_optional!($necessity),
            description: $description,
            stage: Stage::$stage,
            run: run::$run,
        }),*];
    };
}

macro_rules! is_optional {
    (optional) => {
        true
    };
    (required) => {
        false
    };
}

use PassLevels::{All, AtLeast, Only, Scheduled};

passes! {
    5   "select",           All,        required, Optimize, select,           "selects machine instructions for the PTX instructions";
    13  "construct-ssa",    All,        required, Optimize, construct_ssa,    "gives each value one definition";
    14  "uniform-handles",  AtLeast(1), optional, Optimize, uniform_handles,  "removes loops over operands in uniform registers that all threads share";
    15  "straighten",       AtLeast(1), optional, Optimize, straighten,       "merges blocks that always follow each other";
    16  "simplify",         AtLeast(1), optional, Optimize, simplify,         "drops integer arithmetic on known halves, and forms funnel shifts";
    17  "contract",         AtLeast(1), optional, Optimize, contract,         "joins floating-point products and sums into multiply-adds, unless --fmad=false";
    18  "fuse",             AtLeast(1), optional, Optimize, fuse,             "forms multiply-adds of 64-bit addresses";
    19  "split-index",      AtLeast(1), optional, Optimize, split_index,      "moves the constant part of an array index to the offset of the access";
    20  "legalize",         All,        required, Optimize, legalize,         "makes every instruction encodable on the target";
    21  "tie-loads",        AtLeast(1), optional, Optimize, tie_loads,        "lets guarded vector loads write over the old values";
    22  "forward",          AtLeast(1), optional, Optimize, forward,          "copy propagation: replaces reads of a copy by reads of the copied value";
    23  "narrow",           AtLeast(1), optional, Optimize, narrow,           "computes only the lower half of 64-bit numbers whose upper half is not read";
    24  "hoist",            AtLeast(2), optional, Optimize, hoist,            "moves computations and loads that do not change in a loop before the loop";
    25  "merge",            AtLeast(1), optional, Optimize, merge,            "common-subexpression elimination along the dominator tree";
    26  "share-products",   AtLeast(1), optional, Optimize, share_products,   "computes both halves of a product together";
    27  "unroll",           AtLeast(2), optional, Optimize, unroll,           "replaces short loops by their iterations, and joins iterations of others";
    28  "contract-again",   AtLeast(2), optional, Optimize, contract_again,   "the same for products and sums that unrolling brought together";
    29  "simplify-again",   AtLeast(1), optional, Optimize, simplify,         "the same for what unrolling made known";
    30  "fold",             AtLeast(1), optional, Optimize, fold,             "folds constants into instructions, and constant additions into address offsets";
    31  "join-phis",        AtLeast(1), optional, Optimize, join_phis,        "joins the phis of the registers of a matrix accumulator";
    32  "combine",          AtLeast(1), optional, Optimize, combine,          "joins logic trees and sums of products or shifts, and folds signs into operands";
    33  "forward-stores",   AtLeast(2), optional, Optimize, forward_stores,   "forwards stored words to loads, and removes repeated loads and overwritten stores";
    34  "vector-loads",     AtLeast(2), optional, Optimize, vector_loads,     "joins loads of neighbouring words of shared memory";
    35  "forward-again",    AtLeast(1), optional, Optimize, forward,          "copy propagation in the code that merge and fold left";
    36  "constant-handles", AtLeast(1), optional, Optimize, constant_handles, "names the texture handles that are words of a constant bank";
    37  "halves",           AtLeast(1), optional, Optimize, halves,           "lets half-precision instructions read halves, signs and constants where they are";
    58  "guard-elected",    AtLeast(1), optional, Optimize, guard_elected,    "replaces branches of an elected thread around asynchronous copies by guards";
    59  "drop-divergence-tests", AtLeast(1), optional, Optimize, drop_divergence_tests, "removes tests for a diverged warp where the warp is converged";
    60  "remove-dead",      AtLeast(1), optional, Optimize, remove_dead_code,      "dead-code elimination";
    61  "share-tuples",     AtLeast(1), optional, Optimize, share_tuples,     "makes tuples of registers parts of longer ones with the same elements";
    62  "uniform",          AtLeast(1), optional, Optimize, uniform,          "computes operands in uniform registers in the uniform datapath";
    64  "if-convert",       AtLeast(1), optional, Optimize, if_convert,       "replaces short branches by guarded instructions";
    65  "guard-sums",       AtLeast(1), optional, Optimize, guard_sums,       "adds numbers that depend on a predicate under a guard";
    66  "reduce",           AtLeast(1), optional, Optimize, reduce,           "replaces atomic operations whose old value is not read by reductions and counters";
    67  "aggregate",        AtLeast(2), optional, Optimize, aggregate,        "lets one thread perform the atomic operations of a warp on one address";
    68  "uniform-numbers",  AtLeast(2), optional, Optimize, uniform_numbers,  "keeps doubles that are read repeatedly in uniform registers";
    69  "share-constants",  AtLeast(2), optional, Optimize, share_constants,  "loads the constants of a loop before the loop";
    70  "gather-stores",    AtLeast(2), optional, Optimize, gather_stores,    "moves stores to the same sector of memory next to each other";
    71  "peel-waits",       AtLeast(2), optional, Optimize, peel_waits,       "tests a barrier in memory once before the loop that waits for it";
    90  "converge",         All,        required, Optimize, converge,         "inserts convergence barriers around divergent branches";
    91  "sync-diverged",    All,        optional, Optimize, sync_diverged,    "synchronizes some threads of a warp only where the warp is diverged";
    92  "give-way",         All,        required, Optimize, insert_yields,    "inserts YIELD into loops that may wait for other threads";
    93  "stagger-products", AtLeast(2), optional, Optimize, stagger_products, "divides groups of warpgroup matrix products, to overlap them with arithmetic";
    94  "balance",          AtLeast(1), optional, Optimize, balance,          "moves additions, shifts and multiply-adds of halves to the less busy unit";
    95  "constant-phis",    AtLeast(1), optional, Optimize, constant_phis,    "makes constants the sources of phis, instead of registers with them";
    96  "store-return",     All,        required, Optimize, save_return_address,     "leaves the return address of a function with calls to the prologue";
    97  "pre-schedule",     Scheduled,  optional, Schedule, pre_schedule,     "reorders instructions within blocks, before register allocation";
    101 "allocate",         All,        required, Allocate, allocate,         "assigns physical registers, spills";
    102 "return-addresses", All,        required, Allocate, insert_return_addresses, "writes return addresses before calls, and the instructions of texture fetches by quads";
    103 "clear-barriers",   All,        required, Allocate, clear_barriers,   "clears callee-saved convergence barriers, where the target needs that";
    104 "prologue",         All,        required, Allocate, insert_prologue,  "sets up the stack pointer, and saves and restores registers";
    105 "drop-copies",      AtLeast(1), optional, Allocate, drop_copies,      "deletes moves that write what their register already holds";
    106 "balance-moves",    AtLeast(2), optional, Allocate, balance_moves,    "moves copies of registers to the less busy unit";
    110 "post-schedule",    Scheduled,  optional, Allocate, post_schedule,    "reorders instructions within blocks, after register allocation";
    111 "guard-copies",     All,        required, Emit,     guard_copies,     "inserts idle shared loads before asynchronous copies";
    112 "settle-products",  All,        required, Emit,     settle_products,  "inserts waits and fences for the registers of warpgroup matrix products";
    113 "layout",           All,        required, Emit,     lay_out,          "removes branches to the next block";
    114 "idle-instructions", All,       required, Emit,     idle_instructions, "inserts instructions without an effect that all code for a machine has";
    116 "serial-control",   Only(0),    required, Emit,     assign_serializing_control_words,   "computes control words that run one instruction after the other";
    120 "control",          AtLeast(1), required, Emit,     control,          "computes stalls, scoreboards, yields and register reuse";
    122 "encode",           All,        required, Emit,     encode,           "encodes the instructions";
}

/// Checked when the compiler itself is compiled: phases and stages are in ascending order. [`Pass::of_stage`] searches the table by stage,
/// and reports identify passes by phase.
const _: () = {
    let mut next = 1;
    while next < PASSES.len() {
        let (one, other) = (&PASSES[next - 1], &PASSES[next]);
        assert!(one.phase < other.phase && one.stage as u8 <= other.stage as u8, "the pass table is not in order");
        next += 1;
    }
    assert!(has_pass(schedule::PHASE_BEFORE_ALLOCATION, "pre-schedule"), "scheduling reports name another phase");
    assert!(has_pass(schedule::PHASE_AFTER_ALLOCATION, "post-schedule"), "scheduling reports name another phase");
};

/// Returns whether the pass with this phase number has this name.
const fn has_pass(phase: u8, name: &str) -> bool {
    let mut row = 0;
    while PASSES[row].phase != phase {
        row += 1;
    }
    let (found, name) = (PASSES[row].name.as_bytes(), name.as_bytes());
    let mut at = 0;
    while at < name.len() && at < found.len() && found[at] == name[at] {
        at += 1;
    }
    at == name.len() && at == found.len()
}

impl Pass {
    /// Returns the pass with this name. The error is a message for the user that suggests a similar name, if there is one.
    pub fn find(name: &str) -> Result<&'static Pass, String> {
        PASSES.iter().find(|pass| pass.name == name).ok_or_else(|| {
            let nearest = oriole_support::closest(name, PASSES.iter().map(|pass| pass.name));
            let suggestion = nearest.map_or(String::new(), |nearest| format!("; did you mean `{nearest}`?"));
            format!("no pass is called `{name}`{suggestion}")
        })
    }

    /// Returns the passes of a stage, in the order of execution.
    pub(crate) fn of_stage(stage: Stage) -> &'static [Pass] {
        let first = PASSES.partition_point(|pass| pass.stage < stage);
        let end = PASSES.partition_point(|pass| pass.stage <= stage);
        &PASSES[first..end]
    }

    /// Returns whether the pass runs in the compilation of a function, according to the optimization level and the scheduling plan.
    pub(crate) fn is_enabled(&self, state: &FunctionState<'_>) -> bool {
        let level = state.options().level;
        match self.levels {
            PassLevels::All => true,
            PassLevels::AtLeast(least) => level >= least,
            PassLevels::Only(only) => level == only,
            PassLevels::Scheduled => state.plan.is_some(),
        }
    }
}
