//! Runs a kernel: the blocks of a grid, and the state they share.
//!
//! Clusters of blocks, mostly of one, run one after another. A cluster that keeps polling memory and does not finish for a while may wait for another one; then the
//! next cluster is started as well, and all of them take turns. Everything runs in one host thread and in a fixed order, so the same launch
//! always gives the same result.

mod access;
mod block;
mod calls;
mod cluster;
mod copy;
mod fragment;
mod mbarrier;
mod mma;
mod print;
mod products;
mod quad_mma;
mod races;
mod start_async;
mod tensor_copy;
mod tensor_map;
mod texture;
mod together;
mod warp;
mod wgmma;

use std::collections::VecDeque;

use rustc_hash::FxHashSet;

use super::finding::{FindingKind, PtxError, UndefinedBehavior};
use super::program::{CallTarget, Callee, PtxAction, PtxProgram, RANK_BYTES};
use super::variables::ImageVariable;
use super::{PtxOptions, PtxReport};
use crate::Launch;
use crate::memory::GlobalMemory;
use block::PtxBlock;
use calls::MAX_LOCAL;
use cluster::Cluster;
use warp::PtxWarp;

/// Rounds over the warps of a block per turn of the block.
const ROUNDS: u32 = 64;
/// Maximum number of consecutive turns of a block that does not poll memory, that is, cannot be waiting for another block.
const TURNS: u32 = 64;
/// Maximum shared memory of a module in bytes. All its kernels share one layout, so this is more than a block has on hardware.
const MOST_SHARED: u32 = 64 << 20;
/// Maximum number of blocks that run concurrently, about as many as a large GPU holds.
const MOST_RESIDENT: usize = 4096;
/// Maximum number of findings. Findings of one kind in one line are reported once.
const MOST_FINDINGS: usize = 100;

/// A fault that ends the run.
pub(crate) type Stop = Box<UndefinedBehavior>;

/// State shared by all blocks of a launch.
pub(crate) struct LaunchState<'a> {
    pub(crate) program: &'a PtxProgram,
    /// The constants, with the addresses of global variables filled in.
    pub(crate) pool: Vec<u64>,
    pub(crate) constants: &'a [u8],
    /// The bytes of the kernel's parameters.
    pub(crate) parameters: Vec<u8>,
    pub(crate) memory: &'a mut GlobalMemory,
    pub(crate) options: &'a PtxOptions,
    pub(crate) launch: &'a Launch,
    /// Blocks per cluster along x, y, z, if the kernel declares it.
    pub(crate) cluster: Option<[u32; 3]>,
    /// Number of blocks per cluster.
    pub(crate) cluster_blocks: u32,
    /// The other blocks of the cluster whose block runs, by rank; empty if clusters have one block.
    pub(crate) peers: Vec<Option<PtxBlock>>,
    /// Number of executed instructions, counted once per thread.
    pub(crate) instructions: u64,
    /// Number of warp steps.
    pub(crate) clock: u64,
    /// Number of accesses that a spinning thread would make: atomics and strong loads.
    pub(crate) polls: u64,
    pub(crate) output: String,
    /// Addresses of live heap allocations.
    pub(crate) heap: FxHashSet<u64>,
    /// Bytes allocated on the heap; freed memory is not reused.
    pub(crate) heap_used: u64,
    findings: Vec<UndefinedBehavior>,
    /// Findings already reported: kind, line, and a detail that distinguishes findings of one line.
    seen: FxHashSet<(FindingKind, u32, u64)>,
}

/// Runs a kernel to completion.
pub(crate) fn run(
    program: &PtxProgram,
    image: &ImageVariable,
    launch: &Launch,
    memory: &mut GlobalMemory,
    options: &PtxOptions,
) -> Result<PtxReport, PtxError> {
    let unknown = || PtxError::Launch(format!("there is no kernel {}", launch.kernel));
    let &number = program.kernels.get(&launch.kernel).ok_or_else(unknown)?;
    check_callees(program, number)?;
    let CallTarget::Code(function) = &program.functions[number as usize] else { return Err(unknown()) };
    let Some(kernel) = &function.kernel else { return Err(unknown()) };
    let (threads, blocks) = (launch.threads(), launch.blocks());
    let is_refused =
        kernel.required_block.is_some_and(|size| size != launch.block) || kernel.most_threads.is_some_and(|most| threads > most);
    if !(1..=1024).contains(&threads) || blocks == 0 || is_refused {
        let Launch { kernel, grid, block, .. } = launch;
        return Err(PtxError::Launch(format!("{kernel} cannot be launched with a grid of {grid:?} blocks of {block:?} threads")));
    }
    if launch.is_too_large() {
        return Err(PtxError::Launch(format!("a grid of {:?} blocks is too large for the interpreter", launch.grid)));
    }
    let shared_bytes = program.variables.shared_bytes.saturating_add(launch.shared_bytes);
    if u64::from(function.frame_bytes) >= MAX_LOCAL || shared_bytes > MOST_SHARED {
        let (local, kernel) = (function.frame_bytes, &launch.kernel);
        return Err(PtxError::Launch(format!(
            "{kernel} has {local} bytes of local and {shared_bytes} of shared memory, which is too much"
        )));
    }
    let cluster = launch.cluster_shape(kernel.cluster).map_err(PtxError::Launch)?;
    let cluster_blocks: u32 = cluster.iter().product();
    if cluster_blocks > 1 && u64::from(shared_bytes) > RANK_BYTES {
        return Err(PtxError::Launch(format!(
            "{} has {shared_bytes} bytes of shared memory, which is too much for clusters",
            launch.kernel
        )));
    }
    let mut parameters = vec![0; kernel.parameter_bytes as usize];
    if launch.arguments.len() != kernel.parameters.len() {
        let (given, wanted) = (launch.arguments.len(), kernel.parameters.len());
        return Err(PtxError::Launch(format!("{} takes {wanted} parameters, {given} are given", launch.kernel)));
    }
    for (argument, &(start, bytes)) in launch.arguments.iter().zip(&kernel.parameters) {
        if argument.len() != bytes as usize {
            let given = argument.len();
            return Err(PtxError::Launch(format!("a parameter of {} has {bytes} bytes, {given} are given", launch.kernel)));
        }
        parameters[start as usize..(start + bytes) as usize].copy_from_slice(argument);
    }
    let mut pool = program.pool.clone();
    for &(entry, variable, offset) in &program.global_addresses {
        pool[entry as usize] = image.globals[variable as usize].wrapping_add_signed(offset);
    }
    let mut machine = LaunchState {
        program,
        pool,
        constants: &image.constants,
        parameters,
        memory,
        options,
        launch,
        cluster: kernel.cluster.filter(|cluster| !cluster.contains(&0)),
        cluster_blocks,
        peers: Vec::new(),
        instructions: 0,
        clock: 0,
        polls: 0,
        output: String::new(),
        heap: FxHashSet::default(),
        heap_used: 0,
        findings: Vec::new(),
        seen: FxHashSet::default(),
    };
    // The first block of each cluster.
    let mut waiting = (0..blocks / u64::from(cluster_blocks)).map(|number| {
        let [x, y, _] = std::array::from_fn(|axis| u64::from(launch.grid[axis] / cluster[axis]));
        let index = [(number % x) as u32, (number / x % y) as u32, (number / x / y) as u32];
        std::array::from_fn(|axis| index[axis] * cluster[axis])
    });
    let mut resident: VecDeque<Cluster> = VecDeque::new();
    let mut all_started = false;
    loop {
        if !all_started && resident.len() < MOST_RESIDENT {
            match waiting.next() {
                Some(first) => resident.push_back(Cluster::new(&machine, first, function, shared_bytes)),
                None => all_started = true,
            }
        }
        // The newest block first: it is the only one if all earlier ones have finished.
        let next = if all_started { resident.pop_front() } else { resident.pop_back() };
        let Some(mut current) = next else { break };
        let outcome = take_turn(&mut machine, &mut current).and_then(|()| {
            if current.is_finished() {
                return Ok(());
            }
            resident.push_back(current);
            // Blocks that wait get a turn before another block starts.
            let Some(mut oldest) = resident.pop_front() else { return Ok(()) };
            take_turn(&mut machine, &mut oldest)?;
            if !oldest.is_finished() {
                resident.push_back(oldest);
            }
            Ok(())
        });
        if let Err(fault) = outcome {
            return Err(PtxError::Fault { fault: *fault, earlier: machine.findings });
        }
    }
    Ok(PtxReport { findings: machine.findings, instructions: machine.instructions, output: machine.output })
}

/// Runs a cluster until it finishes, polls memory, or has used its turns.
fn take_turn(machine: &mut LaunchState<'_>, block: &mut Cluster) -> Result<(), Stop> {
    for _ in 0..TURNS {
        let polls = machine.polls;
        block.run(machine, ROUNDS)?;
        if block.is_finished() || machine.polls != polls {
            break;
        }
    }
    Ok(())
}

/// Checks that the interpreter supports all functions that a kernel calls directly or indirectly by name.
fn check_callees(program: &PtxProgram, kernel: u32) -> Result<(), PtxError> {
    let mut seen = FxHashSet::from_iter([kernel]);
    let mut open = vec![kernel];
    while let Some(number) = open.pop() {
        let code = match &program.functions[number as usize] {
            CallTarget::Code(code) => code,
            CallTarget::Refused { error, .. } => return Err(error.clone()),
            CallTarget::Builtin(_) | CallTarget::Missing(_) => continue,
        };
        for op in &program.code[code.entry as usize..code.end as usize] {
            if let PtxAction::Call(call) = &op.action
                && let Callee::Function(callee) = call.callee
                && seen.insert(callee)
            {
                open.push(callee);
            }
        }
    }
    Ok(())
}

impl LaunchState<'_> {
    /// Returns the number of threads per block.
    pub(crate) fn threads(&self) -> u32 {
        self.launch.block.iter().product()
    }

    /// Returns the coordinates of a thread in its block.
    pub(crate) fn thread_index(&self, thread: u32) -> [u32; 3] {
        let [x, y, _] = self.launch.block;
        [thread % x, thread / x % y, thread / x / y]
    }

    /// Makes a finding for a thread.
    fn finding(&self, kind: FindingKind, block: &PtxBlock, thread: u32, line: u32, message: String) -> UndefinedBehavior {
        let thread = self.thread_index(thread);
        UndefinedBehavior { kind, kernel: self.launch.kernel.clone(), line, block: block.index, thread, message }
    }

    /// Makes a fault, which ends the run.
    pub(crate) fn stop(&mut self, kind: FindingKind, block: &PtxBlock, warp: &PtxWarp, lane: usize, line: u32, message: String) -> Stop {
        Box::new(self.finding(kind, block, warp.thread(lane), line, message))
    }

    /// Reports a finding after which the run continues. Findings that differ only in `message` are reported once; `detail` distinguishes
    /// others.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn report(
        &mut self,
        kind: FindingKind,
        block: &PtxBlock,
        warp: &PtxWarp,
        lane: usize,
        line: u32,
        detail: u64,
        message: String,
    ) {
        if self.findings.len() < MOST_FINDINGS && self.seen.insert((kind, line, detail)) {
            let finding = self.finding(kind, block, warp.thread(lane), line, message);
            self.findings.push(finding);
        }
    }

    /// Reports that an uninitialized value affects behaviour.
    pub(crate) fn uninitialized(&mut self, block: &PtxBlock, warp: &PtxWarp, lane: usize, line: u32, message: &str) {
        if self.options.undefined_values {
            self.report(FindingKind::Uninitialized, block, warp, lane, line, message.len() as u64, message.to_owned());
        }
    }

    /// Reports a fault if the step limit is exceeded.
    pub(crate) fn check_steps(&mut self, block: &PtxBlock, warp: &PtxWarp) -> Result<(), Stop> {
        if self.clock <= self.options.most_steps {
            return Ok(());
        }
        let lane = warp.live.trailing_zeros() as usize & 31;
        let line = self.program.code[warp.pc[lane] as usize].line;
        let message = format!("the run was stopped after {} steps", self.clock);
        Err(self.stop(FindingKind::TooManySteps, block, warp, lane, line, message))
    }
}
