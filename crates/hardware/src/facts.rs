//! The keys of the data sheets: one list for each sheet, with the type and the meaning of every key.
//!
//! From these lists come the structs, the code that reads them, and the completeness check of the build. The same holds for the names of
//! units and rates that scheduling classes may use. The build script compiles this file too. The meanings are printed by `oriole profile`.

/// Machines that every sheet must describe.
pub(crate) const MACHINES: [&str; 16] = [
    "sm_70",
    "sm_72",
    "sm_75",
    "sm_80",
    "sm_86",
    "sm_87",
    "sm_88",
    "sm_89",
    "sm_90",
    "sm_90a",
    "sm_100",
    "sm_103",
    "sm_110",
    "sm_120",
    "sm_121",
    "universal",
];

/// Index in [`MACHINES`] of the machine for targets without figures of their own.
#[allow(dead_code, reason = "the build script does not use it")]
pub(crate) const UNIVERSAL_MACHINE: usize = MACHINES.len() - 1;

/// Names of the units that classes execute on, in the order of the resource vector.
pub(crate) const UNIT_NAMES: [&str; 10] = ["alu", "fma", "fp64", "mma", "lsu", "tex", "bra", "smem", "sfu", "udp"];

/// Names of the rates that classes may use, with the published figure for each, in lanes per clock of a multiprocessor. `None` where none
/// is published.
macro_rules! throughput_rates {
    ($callback:ident) => {
        $callback! {
            "alu": |rates| rates.logic;
            "half_alu": |rates| rates.logic.map(|lanes| lanes / 2);
            "fma": |rates| rates.fp32;
            "imad": |rates| rates.integer_multiply;
            "imad_wide": |rates| rates.integer_multiply.map(|lanes| lanes / 2);
            "half": |rates| rates.fp16x2;
            "fp64": |rates| rates.fp64;
            "mma": |_| None;
            "mma_f64": |_| None;
            "xu": |rates| rates.special;
            "xu64": |rates| rates.convert_64;
            "shfl": |rates| rates.shuffle;
            "redux": |rates| rates.warp_reduce;
            "s2r": |_| None;
            "lsu": |rates| rates.load_store;
            "lds": |rates| rates.load_store;
            "ldc": |_| None;
            "atomg": |_| None;
            "atoms": |_| None;
            "fence": |_| None;
            "tex": |rates| rates.texture;
            "async": |_| None;
            "bar": |rates| rates.block_barrier;
            "bra": |rates| rates.branch;
            "uniform": |rates| rates.uniform;
            "r2ur": |_| None;
        }
    };
}

/// Keys of `data/machines.tbl`: limits of a multiprocessor.
macro_rules! machine_facts {
    ($callback:ident) => {
        $callback! {
            architecture: &'static str, "Name of the architecture.";
            threads_per_warp: u32, "Threads of a warp.";
            threads_per_block: u32, "Most threads of a block.";
            resident_warps: u32, "Most warps that are resident on a multiprocessor.";
            resident_threads: u32, "Most threads that are resident on a multiprocessor.";
            resident_blocks: u32, "Most blocks that are resident on a multiprocessor.";
            schedulers: u32, "Sub-partitions, each with a scheduler and its share of registers and warps.";
            issue_per_scheduler: u32, "Instructions that a scheduler issues per cycle.";
            dual_issue: bool, "Whether a scheduler can issue two independent instructions of a warp to different units in one cycle.";
            registers: u32, "32-bit registers of a multiprocessor, shared evenly by its sub-partitions.";
            registers_per_block: u32, "Most registers of a block.";
            registers_per_thread: u32, "Most registers of a thread.";
            register_unit: u32, "A warp gets registers in multiples of this.";
            warp_unit: u32, "A block must fit as if its warps were a multiple of this.";
            shared_per_sm: u32, "Most bytes of shared memory of a multiprocessor.";
            shared_per_block: u32, "Most bytes of shared memory of a block that did not ask for more.";
            shared_per_block_opt_in: u32, "Most bytes of shared memory of a block that asked for more.";
            shared_reserved: u32, "Bytes that the system takes in each block, beyond what the kernel asks for.";
            shared_unit: u32, "A block gets shared memory in multiples of this many bytes.";
            shared_banks: u32, "Banks of shared memory.";
            l1_and_shared: u32, "Bytes that the first-level cache and shared memory divide.";
            carve_outs: List<u32>, "Bytes of shared memory that the division can give, ascending.";
            barriers_per_block: u32, "Named barriers of a block.";
            barriers_per_sm: u32, "Named barriers of a multiprocessor.";
            barriers_limit_blocks: bool, "Whether named barriers limit the blocks of a multiprocessor.";
            scoreboards: u32, "Dependency barriers of a warp that instructions set and wait for.";
            convergence_barriers: u32, "Convergence barrier registers of a warp.";
            predicates: u32, "Predicates of a thread, without the one that is always true.";
            uniform_predicates: u32, "Uniform predicates of a warp, without the one that is always true.";
            uniform_registers: u32, "Uniform registers of a warp, without the one that is always zero.";
            shuffle_at_start: u32, "1 if every function starts with a shuffle that no thread executes.";
            nop_before_barrier: u32, "1 if a NOP precedes every barrier of the block.";
            max_stall: u32, "Most cycles that an instruction's stall count holds.";
            page_scheduler: &'static str, "The scheduling backend that the description names for this architecture.";
            page_post_schedule: u32, "1 where the description's machine installs a hook for scheduling after allocation, 0 where it opts out.";
        }
    };
}

/// Keys of `data/units.tbl`: throughput in lanes per clock of a multiprocessor.
macro_rules! unit_rates {
    ($callback:ident) => {
        $callback! {
            fp32: Option<u32>, "Single-precision additions, multiplications, fused multiply-adds.";
            fp64: Option<u32>, "The same in double precision.";
            fp16x2: Option<u32>, "The same on pairs of halves; a pair counts once.";
            integer_add: Option<u32>, "32-bit additions and subtractions.";
            integer_multiply: Option<u32>, "32-bit multiplications and multiply-adds.";
            shift: Option<u32>, "32-bit shifts.";
            logic: Option<u32>, "Bitwise operations.";
            compare: Option<u32>, "Comparisons, minima, maxima.";
            special: Option<u32>, "Reciprocals, roots, logarithms, exponentials, sines, cosines.";
            bit_count: Option<u32>, "Population counts and leading zeros.";
            convert: Option<u32>, "Conversions between 32-bit types and narrower ones.";
            convert_to_integer: Option<u32>, "Conversions of single precision to 32-bit integers.";
            convert_64: Option<u32>, "Conversions from and to 64-bit types.";
            shuffle: Option<u32>, "Exchanges between the threads of a warp.";
            vote: Option<u32>, "Votes of a warp.";
            warp_reduce: Option<u32>, "Integer reductions over a warp.";
            block_barrier: Option<u32>, "Threads that arrive at a barrier of the block.";
            load_store: Option<u32>, "Threads of loads and stores.";
            texture: Option<u32>, "Texture fetches.";
            branch: Option<u32>, "Branches.";
            uniform: Option<u32>, "Instructions of the uniform datapath, in lanes like the others.";
            tensor_f16: Option<u32>, "Multiply-adds of half-precision matrices without sparsity.";
        }
    };
}

/// Keys of `data/costs.tbl`: costs for time estimates.
macro_rules! timing_costs {
    ($callback:ident) => {
        $callback! {
            multiprocessors: u32, "Multiprocessors of the GPU.";
            clock_mhz: u32, "Clock of the multiprocessors, in MHz.";
            launch_cycles: u32, "Cycles of a launch that does nothing, among many.";
            block_start: u32, "Cycles from the end of a block to the first instruction of the one that takes its place.";
            taken_branch: u32, "Cycles from a branch to the instruction that it leads to.";
            diverging_branch: u32, "The same where only some threads take it.";
            barrier_arrival: u32, "Cycles that the multiprocessor spends on a warp that arrives at a barrier.";
            barrier_release: u32, "Cycles from the last arrival to the next instruction.";
            register_banks: u32, "Banks of the registers, each of which gives one operand in a cycle.";
            memory_issue: u32, "Cycles between two loads, or exchanges between threads, of one sub-partition.";
            store_issue: u32, "The same for stores and atomics.";
            memory_queue: u32, "Cycles of work that can wait before the memory unit; a warp with more does not issue.";
            shared_conflict: u32, "Cycles that each further access to a bank of shared memory adds to a load's time.";
            constant_issue: u32, "Cycles of the multiprocessor for a load from a constant bank.";
            system_issue: u32, "Cycles of the multiprocessor for reading a special register, and for votes by the memory unit.";
            wavefront_bytes: u32, "Bytes that the first-level cache moves in a cycle.";
            sector_bytes: u32, "Bytes of a sector, the unit in which caches are filled.";
            line_bytes: u32, "Bytes of a line, of data and of code.";
            l2_bytes: u32, "Bytes of the second-level cache.";
            l2_sector_sm: f64, "Cycles between two sectors that one multiprocessor gets from the second-level cache.";
            l2_sectors_gpu: f64, "Sectors that the second-level cache gives the GPU in a cycle.";
            l2_stores_gpu: f64, "Sectors that it takes from stores in a cycle.";
            l2_lines_gpu: f64, "Lines that it looks up for loads in a cycle.";
            l2_store_lines_gpu: f64, "Lines that it looks up for stores in a cycle.";
            dram_sectors_gpu: f64, "Sectors that memory gives the GPU in a cycle.";
            atomic_shared: u32, "Cycles to the result of an atomic operation in shared memory, each thread at a bank of its own.";
            atomic_lane: u32, "Cycles that each further thread adds to an atomic operation in global memory.";
            atomic_sectors_gpu: f64, "Sectors on which the GPU begins an atomic operation in a cycle.";
            atomic_same_lane: f64, "Cycles between two atomic operations on one address.";
            code_line: u32, "Cycles to fetch a line of code that a multiprocessor does not have; the next one is fetched meanwhile.";
            code_bytes: u32, "Bytes of code that a multiprocessor keeps.";
            tensor_two: u32, "Cycles of a sub-partition for a product of matrices of the larger shapes.";
            tensor_one: u32, "The same for the smaller shapes.";
            tensor_double: u32, "The same in double precision.";
        }
    };
}

/// Keys of `data/control.tbl`: rules for control words.
macro_rules! control_facts {
    ($callback:ident) => {
        $callback! {
            least_stall: u32, "Least stall of any instruction.";
            stall_cap: u32, "Most that a stall count holds.";
            yield_needed: u32, "Stalls from this on are kept only where the scheduler may turn to other warps.";
            yield_from: u32, "Instructions of fixed latency yield from this stall on.";
            yield_due: u32, "Cycles without a yield after which a shorter stall yields.";
            yield_due_from: u32, "That shorter stall.";
            scoreboard_seen: u32, "Cycles from setting a scoreboard until a wait for it sees that.";
            barrier_hold: u32, "Cycles from a barrier of the block to the first instruction that may have to wait for it.";
            barrier_drains: u32, "1 if all memory operations queued before a block barrier have read their sources when the barrier completes.";
            barrier_free_units: List<&'static str>, "Units whose instructions may follow a barrier at once.";
            least_stalls: List<(&'static str, u32)>, "Least stalls by mnemonic.";
            open_stalls: List<&'static str>, "Mnemonics with stall 0 and yield.";
            settling: List<&'static str>, "Mnemonics before which everything in flight is waited for.";
            fences: List<&'static str>, "Mnemonics that the next instruction waits for.";
            late_readers: List<&'static str>, "Mnemonics whose sources the next instruction waits for, or the next branch if a uniform predicate guards them.";
            paced_units: List<&'static str>, "Units that a second instruction is kept away from while they are busy with the first.";
            paces: List<(&'static str, u32)>, "Cycles by rate, where a unit is slower than its rate says because a second one adds to that.";
            pace_cap: u32, "Cycles that it is kept away at most.";
            reuse_caches: List<(&'static str, u32)>, "Which reuse cache a class, or else the classes of a unit, reads through.";
            register_banks: u32, "Banks of registers; each has an entry of its own in every slot of a reuse cache.";
            reuse_distance: u32, "How many instructions further on a kept register is read at most.";
            loop_weight: u32, "How much more often a loop runs than what is around it.";
            loop_levels: u32, "Nested loops that count.";
        }
    };
}
