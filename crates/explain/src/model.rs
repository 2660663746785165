//! The explanation as data. `docs/explain.md` describes the fields of its JSON form.
//!
//! Addresses are in bytes from the start of a function's code section. Cycles are predictions of the hardware model for one warp alone.

use serde::{Deserialize, Serialize};

/// Name and version of the JSON format. The number changes if a field is removed or changes its meaning; fields may be added.
pub const SCHEMA: &str = "oriole-explain/1";

/// The explanation of a file.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Explanation {
    /// [`SCHEMA`].
    pub schema: String,
    /// Name of the input.
    pub input: String,
    /// The target, such as `sm_90a`.
    pub target: String,
    /// Optimization level, if the input was PTX.
    pub level: Option<u8>,
    /// The lines of the PTX text; empty if it is not known.
    pub ptx: Vec<String>,
    /// The source files that line tables name and that could be read.
    pub sources: Vec<SourceText>,
    /// The functions in the order of the file.
    pub functions: Vec<Function>,
}

/// The text of a source file.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct SourceText {
    /// Name of the file, as in the line table.
    pub file: String,
    /// Its lines.
    pub lines: Vec<String>,
}

/// The explanation of one function.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Function {
    /// Name of the function.
    pub name: String,
    /// Whether it is a kernel.
    pub is_kernel: bool,
    /// Why the code could not be analysed. Instructions then have no causes, and the other lists are empty.
    pub obstacle: Option<String>,
    /// Registers, and why this number.
    pub registers: Registers,
    /// Resident warps; absent for functions that are not kernels.
    pub occupancy: Option<Occupancy>,
    /// Memory that the function uses.
    pub memory: Memory,
    /// Spilled registers.
    pub spills: Spills,
    /// Predicted cycles of one execution by one warp alone, with ten iterations for each loop.
    pub cycles: f64,
    /// Basic blocks in address order.
    pub blocks: Vec<Block>,
    /// Loops, outer loops before inner ones.
    pub loops: Vec<Loop>,
    /// Calls in address order.
    #[serde(default)]
    pub calls: Vec<Call>,
    /// What passes did or did not do. Empty for a cubin.
    pub remarks: Vec<Remark>,
    /// The passes that ran, with what they changed. Empty for a cubin.
    pub passes: Vec<Pass>,
    /// What the scheduler aimed for, in sentences. Empty for a cubin.
    pub schedule: Vec<String>,
    /// What costs time and may be changed in the source, the most expensive first.
    pub warnings: Vec<Warning>,
    /// What cannot be known about this code, because its compiler recorded nothing. Empty for PTX.
    pub unknown: Vec<String>,
    /// Samples of a profiler at all instructions; absent without a measurement.
    pub samples: Option<u64>,
    /// All instructions in address order, without padding at the end.
    pub instructions: Vec<Instruction>,
}

/// A call of a function.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Call {
    /// Address of the call instruction.
    pub address: u64,
    /// Name of the called function; absent for a call through a pointer.
    pub callee: Option<String>,
    /// Estimated executions for each execution of the function.
    pub executions: f64,
    /// Predicted cycles of one execution of the called function with the functions that it calls; absent if they are not known, as for
    /// recursive functions.
    pub callee_cycles: Option<f64>,
}

/// The registers of a function.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, Debug)]
pub struct Registers {
    /// General registers of a thread, as in the file.
    pub count: u32,
    /// The highest general register that an instruction names.
    pub highest: Option<u32>,
    /// Maximum number of general registers that are live at once.
    pub peak_live: u32,
    /// The instruction before which that number is live.
    pub peak_address: Option<u64>,
    /// The values that are live there.
    pub live_at_peak: Vec<LiveValue>,
    /// Numbers of registers at which the occupancy changes, in ascending order. Empty for functions that are not kernels.
    pub cliffs: Vec<Cliff>,
    /// The cliff at or above the number of registers: how many are free.
    pub next_above: Option<Cliff>,
    /// The nearest cliff below, with a higher occupancy.
    pub next_below: Option<Cliff>,
}

/// A value in a register.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct LiveValue {
    /// The machine register, such as `R4`.
    pub register: String,
    /// The PTX register that it holds, if it is known.
    pub name: Option<String>,
    /// Addresses of the instructions that wrote it; at most four.
    pub written_at: Vec<u64>,
    /// PTX line of the first of these instructions.
    pub ptx_line: Option<u32>,
}

/// The largest number of registers with which a number of blocks is resident.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Cliff {
    /// Registers of a thread.
    pub registers: u32,
    /// Resident blocks.
    pub blocks: u32,
    /// Resident warps.
    pub warps: u32,
    /// Resident warps as a fraction of the warp slots.
    pub occupancy: f64,
}

/// The resident warps of a multiprocessor.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Occupancy {
    /// Threads of a block.
    pub threads: u32,
    /// Whether the kernel declares that number (`.reqntid`, `.maxntid`); otherwise it is assumed.
    pub is_declared: bool,
    /// Resident blocks.
    pub blocks: u32,
    /// Resident warps.
    pub warps: u32,
    /// Resident warps as a fraction of the warp slots.
    pub occupancy: f64,
    /// The resources that allow no more blocks.
    pub limited_by: Vec<String>,
}

/// Memory that a function uses, in bytes.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, Debug)]
pub struct Memory {
    /// Static shared memory.
    pub shared_bytes: u64,
    /// Stack frame in local memory.
    pub local_bytes: u64,
    /// Parameters in constant bank 0.
    pub parameter_bytes: u64,
    /// Other constant banks of the module.
    pub constant_bytes: u64,
}

/// Registers that are kept in local memory for some time.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, Debug)]
pub struct Spills {
    /// Whether the list is exact. For a cubin, accesses to the stack frame at constant offsets are listed, which may be variables.
    pub is_exact: bool,
    /// Bytes that the instructions in the code store.
    pub store_bytes: u64,
    /// Bytes that the instructions in the code load.
    pub load_bytes: u64,
    /// The places in the stack frame.
    pub slots: Vec<SpillSlot>,
}

/// A place in the stack frame.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct SpillSlot {
    /// Offset from the stack pointer.
    pub offset: i64,
    /// The PTX register that is stored there, if it is known.
    pub name: Option<String>,
    /// PTX line of the instruction that computed it.
    pub ptx_line: Option<u32>,
    /// Addresses of the stores.
    pub stores: Vec<u64>,
    /// Addresses of the loads.
    pub loads: Vec<u64>,
    /// Number of loops around the innermost of these instructions.
    pub depth: u32,
}

/// A basic block.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Block {
    /// Name, such as `bb3`.
    pub name: String,
    /// Address of its first instruction.
    pub start: u64,
    /// Address after its last instruction.
    pub end: u64,
    /// Names of the blocks that may follow.
    pub successors: Vec<String>,
    /// Index of the innermost loop around it.
    pub in_loop: Option<usize>,
    /// Number of loops around it.
    pub depth: u32,
    /// Estimated number of executions.
    pub executions: f64,
    /// Predicted cycles of one execution.
    pub cycles: u32,
    /// Cycles among these in which the warp waits for a scoreboard or a unit.
    pub waited: u32,
    /// The longest chain of dependent instructions.
    pub critical_path: CriticalPath,
}

/// A chain of instructions, each of which reads a result of the previous one.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, Debug)]
pub struct CriticalPath {
    /// Cycles from the issue of the first to the issue of the last one.
    pub cycles: u32,
    /// Addresses of the instructions.
    pub addresses: Vec<u64>,
}

/// A loop.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Loop {
    /// Name of its first block.
    pub header: String,
    /// Address of its first instruction.
    pub start: u64,
    /// Address after its last instruction.
    pub end: u64,
    /// Index of the loop around it.
    pub parent: Option<usize>,
    /// Nesting depth; 1 for an outermost loop.
    pub depth: u32,
    /// Instructions of one iteration, weighted with how often they are executed.
    pub instructions: f64,
    /// Predicted cycles of one iteration by one warp alone.
    pub cycles: f64,
    /// Lower bounds of the cycles of one iteration, the largest first.
    pub bounds: Vec<Bound>,
    /// `cycles` minus the largest bound: what another instruction order could gain at most.
    pub above_bound: f64,
    /// Predicted cycles of one iteration of all resident warps of a scheduler together, and what limits them; for kernels.
    pub occupied: Option<Occupied>,
}

/// A lower bound of the cycles of one iteration.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Bound {
    /// `issue`, `unit` or `dependence`.
    pub kind: String,
    /// Cycles.
    pub cycles: f64,
    /// What needs the cycles, in words.
    pub text: String,
    /// For a dependence from one iteration to the next: the instructions of the chain.
    pub addresses: Vec<u64>,
}

/// The time of a loop iteration with all resident warps.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Occupied {
    /// Resident warps of a scheduler.
    pub warps: u32,
    /// Cycles in which each of them executes one iteration.
    pub cycles: f64,
    /// What limits them: a unit, the issue rate, or the latencies of a single warp.
    pub limited_by: String,
}

/// What a pass did, or did not do and why.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Remark {
    /// Name of the pass.
    pub pass: String,
    /// Line in the PTX.
    pub ptx_line: Option<u32>,
    /// Whether something was done; otherwise the text says why not.
    pub is_done: bool,
    /// What was done, or why not.
    pub text: String,
}

/// A pass that ran.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Pass {
    /// Name of the pass.
    pub name: String,
    /// Number of times that it ran, over all schedules that were tried.
    pub runs: usize,
    /// Instructions before its last run.
    pub instructions_before: usize,
    /// Instructions after its last run.
    pub instructions_after: usize,
    /// Instructions that it created, in all runs.
    pub created: usize,
}

/// Something that costs time and may be changed in the source.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Warning {
    /// Kind, such as `spill-in-loop`.
    pub kind: String,
    /// Predicted cycles that it costs one warp.
    pub cycles: f64,
    /// What it is, and what may help.
    pub text: String,
    /// The instructions.
    pub addresses: Vec<u64>,
    /// PTX line of the first of them.
    pub ptx_line: Option<u32>,
}

/// One machine instruction.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Instruction {
    /// Address.
    pub address: u64,
    /// Index of its block; absent if the code was not analysed.
    pub block: Option<usize>,
    /// The instruction in SASS syntax, with block names for branch targets.
    pub text: String,
    /// The control word in the syntax of `oriole disasm --control`.
    pub control: String,
    /// Where it comes from.
    pub origin: Origin,
    /// The unit that executes it.
    pub unit: String,
    /// Cycle in which it issues, from the start of its block.
    pub issue_cycle: u32,
    /// Stall cycles after it.
    pub stall: u8,
    /// Why it stalls. The cycles add up to `stall`.
    pub stall_causes: Vec<StallCause>,
    /// The scoreboards that it waits for.
    pub waits: Vec<Wait>,
    /// The scoreboards that it sets.
    pub sets: Vec<ScoreboardSet>,
    /// Predicted cycles that it waits after the previous stall.
    pub waiting: Waiting,
    /// General registers that are live when it issues.
    pub live: u32,
    /// Why it is where it is. Absent for a cubin.
    pub place: Option<PlacementReason>,
    /// Why it has its form. Absent for a cubin.
    pub form: Option<Form>,
    /// What a profiler measured; absent without a measurement.
    pub measured: Option<Measured>,
}

/// Why an instruction is where it is in its block.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct PlacementReason {
    /// The reason in words.
    pub text: String,
    /// Phase of the scheduler that decided, 97 before and 110 after register allocation; absent if none did.
    pub phase: Option<u8>,
    /// The comparison that decided.
    pub reason: Option<String>,
    /// The second-best candidate.
    pub runner_up: Option<u64>,
}

/// Why an instruction has its form: opcode, modifiers and kinds of operands.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Form {
    /// The reason in words.
    pub text: String,
    /// The pass that created it.
    pub created_by: String,
    /// The passes that changed it, in order.
    pub changes: Vec<FormChange>,
    /// Other forms that passes considered and rejected, in order.
    #[serde(default)]
    pub rejected: Vec<RejectedForm>,
}

/// A form that a pass considered for an instruction and rejected.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct RejectedForm {
    /// The pass.
    pub pass: String,
    /// The form, such as `FFMA`.
    pub form: String,
    /// Why it was rejected; completes the sentence "not FFMA, because ...".
    pub reason: String,
}

/// A change of the form of an instruction.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct FormChange {
    /// The pass.
    pub pass: String,
    /// The form before, such as `IADD3 R, R, R`.
    pub before: String,
    /// The form after.
    pub after: String,
}

/// Samples of a profiler at one instruction.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, Debug)]
pub struct Measured {
    /// Samples in which a warp was at this instruction.
    pub samples: u64,
    /// The samples by stall reason, the most frequent first; empty if the file has no reasons.
    pub reasons: Vec<SampleReason>,
}

/// Samples with one reason.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct SampleReason {
    /// The reason in the words of the profiler, such as `long_sb`.
    pub reason: String,
    /// Samples.
    pub samples: u64,
}

/// Where an instruction comes from.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, Debug)]
pub struct Origin {
    /// Line in the PTX text.
    pub ptx_line: Option<u32>,
    /// Source position, and the calls through which the code was inlined, innermost first.
    pub source: Vec<SourcePlace>,
}

/// A line of a source file.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct SourcePlace {
    /// Name of the file.
    pub file: String,
    /// Line, from 1.
    pub line: u64,
}

/// A part of a stall.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct StallCause {
    /// Cycles.
    pub cycles: u8,
    /// `minimum`, `register`, `scoreboard`, `barrier`, `unit`, `transfer`, `extra` or `unknown`.
    pub kind: String,
    /// The reason in words.
    pub text: String,
    /// The instruction whose latency has to pass.
    pub first: Option<u64>,
    /// The instruction that must not issue earlier.
    pub second: Option<u64>,
}

/// A scoreboard that an instruction waits for.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Wait {
    /// Number of the scoreboard.
    pub scoreboard: u8,
    /// The instructions that set it and may be in flight; at most eight.
    pub producers: Vec<u64>,
    /// Why it waits, in words.
    pub text: String,
}

/// A scoreboard that an instruction sets.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct ScoreboardSet {
    /// Number of the scoreboard.
    pub scoreboard: u8,
    /// `results` or `reads`: what has to be done when it is released.
    pub event: String,
    /// The instructions that wait for it.
    pub readers: Vec<u64>,
}

/// What an instruction waits for after the previous stall.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, Debug)]
pub struct Waiting {
    /// Predicted cycles; 0 if it does not wait.
    pub cycles: u32,
    /// `scoreboard 0`, the name of a unit, or empty.
    pub reason: String,
}
