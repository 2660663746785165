//! Timing mode: estimates the number of cycles a kernel launch takes, from the same hardware figures the scheduler uses.
//!
//! The functional simulator executes the thread blocks assigned to one multiprocessor, and a [`trace::Recorder`] records the instructions
//! each warp issues and the memory they access. [`sm::Multiprocessor`] then replays this trace against the hardware model: stall counts,
//! scoreboards, pipes, register banks, barriers, branches, and memory as a chain of queues (module `memory`). Control flow and addresses
//! are therefore exact; only time is estimated. `docs/timing.md` lists what is and is not modelled, and the error measured on an H200.
//!
//! ```text
//! cubin ──sass::Code──▶ blocks of one multiprocessor ──Recorder──▶ Trace ──Multiprocessor──▶ Estimate
//! ```
//!
//! The cost is one functional simulation of the sampled blocks plus work proportional to the number of recorded instructions. The model
//! trusts the stall counts for results of fixed latency; module `hazard` checks those.

mod code;
mod memory;
mod sm;
mod trace;

use std::fmt;

use oriole_hardware::Profile;
use oriole_hardware::occupancy::{LaunchResources, Occupancy};
use rustc_hash::FxHashMap;

use crate::sass::{Code, GridOptions};
use crate::{GlobalMemory, Launch};
use code::{Figures, SubPartitionPipe};
use memory::LaunchContext;
use sm::Multiprocessor;
use trace::{BlockTrace, Recorder, TimingTrace};

/// The reason a warp could not issue in a cycle.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum IdleReason {
    StallCount,
    /// Waits for a scoreboard; the field is the index (into [`TimingTrace::ops`]) of the instruction that set it.
    Scoreboard(u32),
    /// The pipe of the next instruction is still busy with an earlier one.
    Pipe(SubPartitionPipe),
    /// The register banks are still delivering the operands of an earlier instruction.
    Banks,
    /// Waits for other warps at a block-wide barrier (`BAR`).
    Barrier,
    /// Refetch after a taken or divergent branch.
    Branch,
    /// Extra cycles of a fence, a sleep or an indirect branch.
    Pause,
    /// Waits for instructions to be fetched into the instruction cache.
    Code,
    /// Could issue, but the sub-partition issued another warp.
    OtherWarp,
    /// Waits for the start of its block.
    Start,
}

/// Warp cycles in which no instruction was issued, grouped by reason, largest number of cycles first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stalls(pub Vec<(String, u64)>);

impl Stalls {
    /// Turns cycles per reason into sorted text; equal counts are ordered by text so that the result is deterministic.
    fn of(stalls: FxHashMap<IdleReason, u64>, trace: &TimingTrace) -> Stalls {
        let describe = |reason: IdleReason| match reason {
            IdleReason::StallCount => "stall counts".to_owned(),
            IdleReason::Scoreboard(setter) => format!("waits for {}", trace.ops[setter as usize].text),
            IdleReason::Pipe(pipe) => format!("pipe busy: {}", pipe.name()),
            IdleReason::Banks => "register banks".to_owned(),
            IdleReason::Barrier => "barrier of the block".to_owned(),
            IdleReason::Branch => "branch".to_owned(),
            IdleReason::Pause => "fence, sleep or indirect jump".to_owned(),
            IdleReason::Code => "code not in the cache".to_owned(),
            IdleReason::OtherWarp => "another warp issued".to_owned(),
            IdleReason::Start => "start of the block".to_owned(),
        };
        let mut list: Vec<(String, u64)> = stalls.into_iter().map(|(reason, cycles)| (describe(reason), cycles)).collect();
        list.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        Stalls(list)
    }
}

/// How much is simulated; the rest of the launch is extrapolated.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Number of multiprocessors to simulate, spread evenly over the GPU; the slowest one determines the estimate.
    pub multiprocessors: u32,
    /// Warp instructions per multiprocessor after which no further group of resident blocks is simulated.
    pub instructions: u64,
    /// Warp instructions after which simulation fails because the launch is too long.
    pub limit: u64,
}

impl Default for Effort {
    fn default() -> Self {
        Effort { multiprocessors: 3, instructions: 2_000_000, limit: 200_000_000 }
    }
}

/// Estimated duration of a launch, all in cycles unless stated otherwise.
#[derive(Clone, Debug)]
pub struct Estimate {
    /// Cycles of the first warp when it runs alone on a multiprocessor.
    pub warp: u64,
    /// Cycles of the first block when it runs alone on a multiprocessor.
    pub block: u64,
    /// Cycles one multiprocessor takes for one full set of resident blocks.
    pub sm: u64,
    /// Cycles of the whole launch, including the launch overhead.
    pub kernel: u64,
    /// Number of blocks and warps resident on a multiprocessor at once.
    pub occupancy: Occupancy,
    /// Number of blocks assigned to the multiprocessor that determines the estimate.
    pub blocks_per_sm: u64,
    /// Number of times a multiprocessor is filled with resident blocks: blocks per multiprocessor / resident blocks.
    pub waves: f64,
    /// Multiprocessor clock the hardware figures were measured at, in MHz.
    pub clock_mhz: u32,
    /// Cycles in which the warps of the multiprocessor did not issue, by reason.
    pub stalls: Stalls,
    /// Instructions issued per cycle by the whole multiprocessor.
    pub issue_rate: f64,
}

impl Estimate {
    /// Returns the duration of the launch in microseconds at the given clock in MHz.
    pub fn microseconds(&self, clock_mhz: u32) -> f64 {
        self.kernel as f64 / f64::from(clock_mhz)
    }
}

/// The reason no estimate could be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EstimateFailure(pub String);

impl fmt::Display for EstimateFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for EstimateFailure {}

/// Estimates the duration of a launch. The sampled blocks execute on `memory` and change it; all other blocks are not executed.
pub fn estimate(code: &Code, launch: &Launch, memory: &mut GlobalMemory, effort: &Effort) -> Result<Estimate, EstimateFailure> {
    estimate_on(&Figures::of(code.target()), code, launch, memory, effort)
}

/// Estimates the duration of a launch on the machine of a profile file, as [`estimate`] does for the built-in machines.
pub fn estimate_with_profile(
    code: &Code,
    launch: &Launch,
    memory: &mut GlobalMemory,
    effort: &Effort,
    profile: &Profile,
) -> Result<Estimate, EstimateFailure> {
    estimate_on(&Figures::of_profile(profile), code, launch, memory, effort)
}

fn estimate_on(
    figures: &Figures,
    code: &Code,
    launch: &Launch,
    memory: &mut GlobalMemory,
    effort: &Effort,
) -> Result<Estimate, EstimateFailure> {
    let occupancy = occupancy(figures, code, launch)?;
    let processors = u64::from(figures.costs.multiprocessors);
    let blocks: u64 = launch.grid.iter().map(|&size| u64::from(size)).product();
    let active = blocks.min(processors);
    let mut slowest: Option<Estimate> = None;
    let looked_at = u64::from(effort.multiprocessors.max(1)).min(active);
    for sample in 0..looked_at {
        let first = sample * active / looked_at;
        let estimate = one_processor(figures, code, launch, memory, effort, occupancy, first)?;
        if slowest.as_ref().is_none_or(|slowest| estimate.kernel > slowest.kernel) {
            slowest = Some(estimate);
        }
    }
    slowest.ok_or_else(|| EstimateFailure("a launch without blocks".to_owned()))
}

/// Returns the occupancy of a launch from the kernel's registers and shared memory, or an error if no block fits.
fn occupancy(figures: &Figures, code: &Code, launch: &Launch) -> Result<Occupancy, EstimateFailure> {
    let (registers, static_shared) =
        code.needs(&launch.kernel).ok_or_else(|| EstimateFailure(format!("the code has no kernel `{}`", launch.kernel)))?;
    let threads = launch.block.iter().product();
    let shape = LaunchResources { threads, registers, static_shared, dynamic_shared: launch.shared_bytes, barriers: 1, carve_out: None };
    let occupancy = shape.occupancy(&figures.machine).map_err(|refusal| EstimateFailure(refusal.to_string()))?;
    if occupancy.blocks == 0 { Err(EstimateFailure("not even one block fits on a multiprocessor".to_owned())) } else { Ok(occupancy) }
}

/// Estimates the launch from one multiprocessor, the one whose first block has the linear index `first`.
///
/// Blocks are assigned round robin: with 132 multiprocessors, `first = 3` gets blocks 3, 135, 267, ... If the effort limit stops the
/// recording early, the cycles of the recorded blocks are scaled by blocks owned / blocks recorded.
fn one_processor(
    figures: &Figures,
    code: &Code,
    launch: &Launch,
    memory: &mut GlobalMemory,
    effort: &Effort,
    occupancy: Occupancy,
    first: u64,
) -> Result<Estimate, EstimateFailure> {
    let costs = figures.costs;
    let processors = u64::from(costs.multiprocessors);
    let blocks: u64 = launch.grid.iter().map(|&size| u64::from(size)).product();
    let own: Vec<u64> = (first..blocks).step_by(processors as usize).collect();
    let resident = (occupancy.blocks as usize).min(own.len());
    let trace = record(figures, code, launch, memory, effort, &own, resident)?;
    let recorded = trace.blocks.len();
    // Assumes that every block touches about as much memory of its own as the recorded ones; clamped to the allocated memory below.
    let touched = trace.global_bytes(costs.sector_bytes) * blocks / recorded.max(1) as u64;
    let (_, static_shared) = code.needs(&launch.kernel).unwrap_or_default();
    let shared = (static_shared + launch.shared_bytes) * occupancy.blocks;
    let context = LaunchContext {
        active: blocks.min(processors) as u32,
        from_dram: touched.min(memory.total_bytes()) > u64::from(costs.l2_bytes),
        cache_bytes: figures.machine.l1_and_shared.saturating_sub(shared),
    };
    let run = |blocks: &[BlockTrace], context| Multiprocessor::new(figures, &trace, context).run(blocks, resident);
    let alone = LaunchContext { active: 1, ..context };
    let warp = BlockTrace { warps: trace.blocks.first().and_then(|block| block.warps.first()).cloned().into_iter().collect() };
    let warp_cycles = run(&[warp], alone).cycles;
    let block_cycles = run(&trace.blocks[..1], alone).cycles;
    let full = run(&trace.blocks[..resident.min(recorded)], context).cycles;
    let outcome = run(&trace.blocks, context);
    let all = (outcome.cycles as f64 * own.len() as f64 / recorded as f64) as u64;
    Ok(Estimate {
        warp: warp_cycles,
        block: block_cycles,
        sm: full,
        kernel: all + u64::from(costs.launch_cycles),
        occupancy,
        blocks_per_sm: own.len() as u64,
        waves: own.len() as f64 / f64::from(occupancy.blocks),
        clock_mhz: costs.clock_mhz,
        stalls: outcome.stalls,
        issue_rate: outcome.instructions as f64 / outcome.cycles.max(1) as f64,
    })
}

/// Executes the blocks of one multiprocessor in groups of resident blocks, until the effort limit is reached, and returns their trace.
fn record(
    figures: &Figures,
    code: &Code,
    launch: &Launch,
    memory: &mut GlobalMemory,
    effort: &Effort,
    own: &[u64],
    resident: usize,
) -> Result<TimingTrace, EstimateFailure> {
    let options = GridOptions::limited(effort.limit);
    let mut recorder = Recorder::new(figures);
    for group in own.chunks(resident.max(1)) {
        code.run_blocks(launch, memory, &options, &mut recorder, group.iter().copied())
            .map_err(|error| EstimateFailure(error.to_string()))?;
        if recorder.recorded > effort.instructions {
            break;
        }
    }
    let trace = recorder.finish();
    if trace.instructions() == 0 { Err(EstimateFailure("the launch executes nothing".to_owned())) } else { Ok(trace) }
}

#[cfg(test)]
mod tests;
