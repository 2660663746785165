//! Timing mode: about how many cycles a kernel takes, from the same figures the scheduler uses.
//!
//! The functional simulator runs the blocks that one multiprocessor would get and a [`trace::Recorder`] notes what each warp issues and
//! which memory it touches. [`sm::Multiprocessor`] then runs these streams against the hardware model: stall counts, scoreboards, pipes,
//! register banks, barriers, branches, and memory as queues (module `memory`). So control flow and addresses are exact, and time is an
//! estimate. `docs/timing.md` says what is modelled, what is not, and how far predictions are from an H200.
//!
//! ```text
//! cubin ──sass::Code──▶ blocks of one multiprocessor ──Recorder──▶ Trace ──Multiprocessor──▶ Estimate
//! ```
//!
//! Results of fixed latency are not checked here; that is what hazard mode is for.

mod code;
mod memory;
mod sm;
mod trace;

use std::fmt;

use oriole_hardware::occupancy::{Launch as Shape, Occupancy};
use rustc_hash::FxHashMap;

use crate::sass::{Code, Options as RunOptions};
use crate::{Launch, Memory};
use code::{Figures, Pipe};
use memory::Surroundings;
use sm::Multiprocessor;
use trace::{BlockTrace, Recorder, Trace};

/// Why a warp did not issue.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Reason {
    StallCount,
    /// A scoreboard that this operation set.
    Scoreboard(u32),
    Pipe(Pipe),
    Banks,
    Barrier,
    Branch,
    Pause,
    Code,
    OtherWarp,
    Start,
}

/// Cycles in which warps did not issue, by reason, most first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stalls(pub Vec<(String, u64)>);

impl Stalls {
    fn of(stalls: FxHashMap<Reason, u64>, trace: &Trace) -> Stalls {
        let describe = |reason: Reason| match reason {
            Reason::StallCount => "stall counts".to_owned(),
            Reason::Scoreboard(setter) => format!("waits for {}", trace.ops[setter as usize].text),
            Reason::Pipe(pipe) => format!("pipe busy: {}", pipe.name()),
            Reason::Banks => "register banks".to_owned(),
            Reason::Barrier => "barrier of the block".to_owned(),
            Reason::Branch => "branch".to_owned(),
            Reason::Pause => "fence, sleep or indirect jump".to_owned(),
            Reason::Code => "code not in the cache".to_owned(),
            Reason::OtherWarp => "another warp issued".to_owned(),
            Reason::Start => "start of the block".to_owned(),
        };
        let mut list: Vec<(String, u64)> = stalls.into_iter().map(|(reason, cycles)| (describe(reason), cycles)).collect();
        list.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        Stalls(list)
    }
}

/// How much is simulated before the rest is reckoned from it.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Multiprocessors that are looked at, spread over the GPU; the slowest one counts.
    pub multiprocessors: u32,
    /// Warp instructions of each after which no further block is run.
    pub instructions: u64,
    /// Warp instructions after which a launch is given up.
    pub limit: u64,
}

impl Default for Effort {
    fn default() -> Self {
        Effort { multiprocessors: 3, instructions: 2_000_000, limit: 200_000_000 }
    }
}

/// About how long a launch takes.
#[derive(Clone, Debug)]
pub struct Estimate {
    /// Cycles of the first warp, alone on a multiprocessor.
    pub warp: u64,
    /// Cycles of the first block, alone.
    pub block: u64,
    /// Cycles of a multiprocessor for the blocks that are resident at once.
    pub sm: u64,
    /// Cycles of the whole launch, its start included.
    pub kernel: u64,
    /// Blocks and warps that are resident on a multiprocessor.
    pub occupancy: Occupancy,
    /// Blocks that the busiest multiprocessor gets.
    pub blocks_per_sm: u64,
    /// How often a multiprocessor is filled with blocks.
    pub waves: f64,
    /// Clock of the multiprocessors that the figures are for, in MHz.
    pub clock_mhz: u32,
    /// Where the time of the multiprocessor's warps goes.
    pub stalls: Stalls,
    /// Instructions per cycle of the multiprocessor.
    pub issue_rate: f64,
}

impl Estimate {
    /// Time of the launch at a clock in MHz.
    pub fn microseconds(&self, clock_mhz: u32) -> f64 {
        self.kernel as f64 / f64::from(clock_mhz)
    }
}

/// Why there is no estimate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

/// Estimates a launch. Blocks run on `memory` as the simulator runs them, but only those that are looked at.
pub fn estimate(code: &Code, launch: &Launch, memory: &mut Memory, effort: &Effort) -> Result<Estimate, Failure> {
    let figures = Figures::of(code.target());
    let occupancy = occupancy(&figures, code, launch)?;
    let processors = u64::from(figures.costs.multiprocessors);
    let blocks: u64 = launch.grid.iter().map(|&size| u64::from(size)).product();
    let active = blocks.min(processors);
    let mut slowest: Option<Estimate> = None;
    let looked_at = u64::from(effort.multiprocessors.max(1)).min(active);
    for sample in 0..looked_at {
        let first = sample * active / looked_at;
        let estimate = one_processor(&figures, code, launch, memory, effort, occupancy, first)?;
        if slowest.as_ref().is_none_or(|slowest| estimate.kernel > slowest.kernel) {
            slowest = Some(estimate);
        }
    }
    slowest.ok_or_else(|| Failure("a launch without blocks".to_owned()))
}

fn occupancy(figures: &Figures, code: &Code, launch: &Launch) -> Result<Occupancy, Failure> {
    let (registers, static_shared) =
        code.needs(&launch.kernel).ok_or_else(|| Failure(format!("the code has no kernel `{}`", launch.kernel)))?;
    let threads = launch.block.iter().product();
    let shape = Shape { threads, registers, static_shared, dynamic_shared: launch.shared_bytes, barriers: 1, carve_out: None };
    let occupancy = shape.occupancy(figures.machine).map_err(|refusal| Failure(refusal.to_string()))?;
    if occupancy.blocks == 0 { Err(Failure("not even one block fits on a multiprocessor".to_owned())) } else { Ok(occupancy) }
}

fn one_processor(
    figures: &Figures,
    code: &Code,
    launch: &Launch,
    memory: &mut Memory,
    effort: &Effort,
    occupancy: Occupancy,
    first: u64,
) -> Result<Estimate, Failure> {
    let costs = figures.costs;
    let processors = u64::from(costs.multiprocessors);
    let blocks: u64 = launch.grid.iter().map(|&size| u64::from(size)).product();
    let own: Vec<u64> = (first..blocks).step_by(processors as usize).collect();
    let resident = (occupancy.blocks as usize).min(own.len());
    let trace = record(figures, code, launch, memory, effort, &own, resident)?;
    let recorded = trace.blocks.len();
    let touched = trace.global_bytes(costs.sector_bytes) * blocks / recorded.max(1) as u64;
    let (_, static_shared) = code.needs(&launch.kernel).unwrap_or_default();
    let shared = (static_shared + launch.shared_bytes) * occupancy.blocks;
    let around = Surroundings {
        active: blocks.min(processors) as u32,
        from_dram: touched.min(memory.total_bytes()) > u64::from(costs.l2_bytes),
        cache_bytes: figures.machine.l1_and_shared.saturating_sub(shared),
    };
    let run = |blocks: &[BlockTrace], around| Multiprocessor::new(figures, &trace, around).run(blocks, resident);
    let alone = Surroundings { active: 1, ..around };
    let warp = BlockTrace { warps: trace.blocks.first().and_then(|block| block.warps.first()).cloned().into_iter().collect() };
    let warp_cycles = run(&[warp], alone).cycles;
    let block_cycles = run(&trace.blocks[..1], alone).cycles;
    let full = run(&trace.blocks[..resident.min(recorded)], around).cycles;
    let outcome = run(&trace.blocks, around);
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

/// Runs the blocks of a multiprocessor, as many as fit at once and then more of them while the effort allows.
fn record(
    figures: &Figures,
    code: &Code,
    launch: &Launch,
    memory: &mut Memory,
    effort: &Effort,
    own: &[u64],
    resident: usize,
) -> Result<Trace, Failure> {
    let options = RunOptions::limited(effort.limit);
    let mut recorder = Recorder::new(figures);
    for group in own.chunks(resident.max(1)) {
        code.run_blocks(launch, memory, &options, &mut recorder, group.iter().copied()).map_err(|error| Failure(error.to_string()))?;
        if recorder.recorded > effort.instructions {
            break;
        }
    }
    let trace = recorder.finish();
    if trace.instructions() == 0 { Err(Failure("the launch executes nothing".to_owned())) } else { Ok(trace) }
}

#[cfg(test)]
mod tests;
