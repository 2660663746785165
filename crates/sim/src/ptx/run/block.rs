//! A block: runs its warps in turns, and holds its shared memory and sixteen barriers.
//!
//! **Barriers.** Arrivals are counted per warp, as the manual says: a warp whose live threads have all arrived counts as 32, any other warp
//! as the number of its arrived threads. Without a thread count, a barrier waits for every thread of the block that has not exited. All
//! live threads of a warp must execute the same instruction of an aligned barrier (`bar`, `barrier.aligned`); otherwise this is reported,
//! and the run continues as if the barrier were not aligned.

use super::cluster::ClusterArrivals;
use super::mbarrier::Mbarriers;
use super::races::{AsyncAccesses, Races};
use super::warp::{LANES, PtxWarp, lanes_of};
use super::{LaunchState, Stop};
use crate::ptx::finding::FindingKind;
use crate::ptx::program::{BarrierArrival, BarrierArrivalKind, FunctionCode, PtxAction};

/// Number of barriers of a block.
const BARRIERS: usize = 16;
/// Steps a warp runs before the next warp's turn.
const QUANTUM: u32 = 4096;

/// Shared memory, and for each byte the mask of its uninitialized bits.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) bytes: Vec<u8>,
    pub(crate) undefined: Vec<u8>,
}

/// State shared by the warps of a block.
#[derive(Default)]
pub(crate) struct PtxBlock {
    pub(crate) index: [u32; 3],
    /// Rank in the cluster.
    pub(crate) rank: u32,
    /// Whether all threads have exited.
    pub(crate) has_ended: bool,
    pub(crate) arrivals: ClusterArrivals,
    pub(crate) shared: Shared,
    /// The race checker; `None` if the options disable it, or if another block of the cluster runs.
    pub(crate) races: Option<Races>,
    /// Barriers in shared memory, and bulk copies, of the whole cluster; empty if another block of the cluster runs.
    pub(crate) mbarriers: Mbarriers,
    barriers: Vec<BarrierState>,
}

/// The arrivals at a barrier since it was last complete.
#[derive(Clone, Default)]
struct BarrierState {
    /// For each warp the threads that have arrived.
    arrived: Vec<u32>,
    /// For each warp the arrived threads that wait (all but those of `arrive`).
    waiting: Vec<u32>,
    /// For each warp the program counter at which its first thread arrived.
    place: Vec<u32>,
    /// Number of threads to wait for; `None` for all threads of the block.
    expected: Option<u32>,
    /// Number of threads that arrived with a true predicate.
    votes: u32,
    /// Number of threads that arrived with a predicate.
    voters: u32,
    /// Whether some arrival requires alignment.
    aligned: bool,
    /// (warp, lane, line) of the first thread that arrived at another instruction than the first thread of its warp.
    diverged: Option<(u32, usize, u32)>,
}

/// A block that is running.
pub(crate) struct ResidentPtxBlock {
    pub(crate) block: PtxBlock,
    pub(super) warps: Vec<PtxWarp>,
}

impl ResidentPtxBlock {
    /// Starts a block: makes its warps, shared memory and barriers.
    pub(crate) fn new(
        machine: &LaunchState<'_>,
        index: [u32; 3],
        rank: u32,
        function: &FunctionCode,
        shared_bytes: u32,
    ) -> ResidentPtxBlock {
        let threads = machine.threads();
        let undefined = machine.options.undefined_values;
        let warps: Vec<PtxWarp> = (0..threads.div_ceil(LANES as u32))
            .map(|number| {
                let mut warp = PtxWarp::new(number, threads - number * LANES as u32, function.entry);
                warp.enter_kernel(function, undefined);
                warp
            })
            .collect();
        let size = shared_bytes as usize;
        let shared = Shared { bytes: vec![0; size], undefined: vec![if undefined { u8::MAX } else { 0 }; size] };
        // The first block of a cluster makes the race checker of all of them.
        let races = (machine.options.races && rank == 0).then(|| {
            let is_asynchronous = machine.program.code.iter().any(|op| op.action.is_asynchronous());
            let mut races = Races::new(machine.cluster_blocks, threads, size);
            races.asynchronous = is_asynchronous.then(|| AsyncAccesses::new(machine.cluster_blocks as usize * size));
            races
        });
        let arrivals = ClusterArrivals::new(warps.len());
        let barriers = vec![BarrierState::default(); BARRIERS];
        let block = PtxBlock { index, rank, arrivals, shared, races, barriers, ..PtxBlock::default() };
        ResidentPtxBlock { block, warps }
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.warps.iter().all(|warp| warp.live == 0)
    }

    /// Gives each warp a turn; returns whether a thread made progress.
    pub(super) fn round(&mut self, machine: &mut LaunchState<'_>) -> Result<bool, Stop> {
        let mut progress = false;
        for warp in &mut self.warps {
            progress |= warp.run(machine, &mut self.block, QUANTUM)?;
        }
        progress |= self.release_barriers(machine);
        machine.check_steps(&self.block, &self.warps[0])?;
        Ok(progress)
    }

    /// Releases the threads of every complete barrier; returns whether there was one.
    fn release_barriers(&mut self, machine: &mut LaunchState<'_>) -> bool {
        let mut released = false;
        for number in 0..BARRIERS {
            let state = &self.block.barriers[number];
            if state.arrived.iter().all(|&lanes| lanes == 0) || !self.is_complete(state) {
                continue;
            }
            let state = std::mem::take(&mut self.block.barriers[number]);
            self.complete(machine, number, &state);
            released = true;
        }
        released
    }

    /// Returns whether all threads a barrier waits for have arrived.
    fn is_complete(&self, state: &BarrierState) -> bool {
        let mut warps = self.warps.iter().zip(&state.arrived);
        match state.expected {
            None => warps.all(|(warp, &arrived)| warp.live & !arrived == 0),
            Some(expected) => {
                let counts = warps.map(|(warp, &arrived)| match arrived {
                    0 => 0,
                    _ if warp.live & !arrived == 0 => LANES as u32,
                    _ => arrived.count_ones(),
                });
                counts.sum::<u32>() >= expected
            }
        }
    }

    /// Completes a barrier: updates the race checker, writes the results, and lets the threads continue.
    fn complete(&mut self, machine: &mut LaunchState<'_>, number: usize, state: &BarrierState) {
        self.check_alignment(machine, number, state);
        let everybody_waits = self.warps.iter().zip(&state.waiting).all(|(warp, &waiting)| warp.live & !waiting == 0);
        if let Some(races) = &mut self.block.races {
            if everybody_waits {
                races.full_barrier();
            } else {
                let threads = |masks: &[u32]| -> Vec<u32> {
                    let all = masks.iter().enumerate();
                    all.flat_map(|(warp, &mask)| lanes_of(mask).map(move |lane| (warp * LANES + lane) as u32)).collect()
                };
                races.synchronize(&threads(&state.arrived), &threads(&state.waiting));
            }
        }
        for (warp, &waiting) in self.warps.iter_mut().zip(&state.waiting) {
            for lane in lanes_of(waiting) {
                if let PtxAction::Barrier(barrier) = &machine.program.code[warp.pc[lane] as usize].action {
                    let value = match barrier.kind {
                        BarrierArrivalKind::Count => Some(u64::from(state.votes)),
                        BarrierArrivalKind::All => Some(u64::from(state.votes == state.voters)),
                        BarrierArrivalKind::Any => Some(u64::from(state.votes != 0)),
                        BarrierArrivalKind::Sync | BarrierArrivalKind::Arrive => None,
                    };
                    if let Some(value) = value {
                        warp.write(barrier.destination, lane, value);
                    }
                }
                warp.pc[lane] += 1;
            }
            warp.at_barrier &= !waiting;
        }
    }

    /// Reports an aligned barrier that the threads of a warp did not reach together.
    fn check_alignment(&self, machine: &mut LaunchState<'_>, number: usize, state: &BarrierState) {
        if !state.aligned {
            return;
        }
        if let Some((warp, lane, line)) = state.diverged {
            let message = format!("other threads of this warp arrived at barrier {number} elsewhere");
            let warp = &self.warps[warp as usize];
            machine.report(FindingKind::DivergentBarrier, &self.block, warp, lane, line, 0, message);
        }
        for (warp, (&arrived, &place)) in self.warps.iter().zip(state.arrived.iter().zip(&state.place)) {
            let missing = warp.live & !arrived;
            if arrived != 0 && missing != 0 {
                let line = machine.program.code[place as usize].line;
                let message = format!("only {} threads of this warp arrived at barrier {number}", arrived.count_ones());
                let lane = arrived.trailing_zeros() as usize;
                machine.report(FindingKind::DivergentBarrier, &self.block, warp, lane, line, 0, message);
            }
        }
    }

    /// Makes the fault for a block in which no thread can continue; the message says which lines they wait in.
    pub(super) fn deadlock(&self, machine: &mut LaunchState<'_>) -> Stop {
        let mut places: Vec<(u32, u32)> = Vec::new();
        let mut first = None;
        for warp in &self.warps {
            for lane in lanes_of(warp.live) {
                let line = machine.program.code[warp.pc[lane] as usize].line;
                first.get_or_insert((warp, lane, line));
                match places.iter_mut().find(|place| place.0 == line) {
                    Some(place) => place.1 += 1,
                    None => places.push((line, 1)),
                }
            }
        }
        places.sort_unstable();
        let waiting: Vec<String> = places.iter().take(8).map(|(line, count)| format!("{count} in line {line}")).collect();
        let exited: u32 = machine.threads() - self.warps.iter().map(|warp| warp.live.count_ones()).sum::<u32>();
        let message = format!("all remaining threads wait: {}; {exited} have exited", waiting.join(", "));
        let (warp, lane, line) = first.unwrap_or((&self.warps[0], 0, 0));
        machine.stop(FindingKind::Deadlock, &self.block, warp, lane, line, message)
    }
}

impl PtxWarp {
    /// Registers the arrival of threads at a barrier.
    pub(crate) fn arrive(
        &mut self,
        machine: &mut LaunchState<'_>,
        block: &mut PtxBlock,
        barrier: &BarrierArrival,
        pc: u32,
        active: u32,
        line: u32,
    ) -> Result<(), Stop> {
        let warps = machine.threads().div_ceil(LANES as u32) as usize;
        for lane in lanes_of(active) {
            let operands = [Some(barrier.number), barrier.threads, barrier.predicate];
            if operands.into_iter().flatten().any(|source| self.read_undefined(source, lane) & 1 != 0) {
                machine.uninitialized(block, self, lane, line, "an operand of this barrier was never written");
            }
            let number = self.read(&machine.pool, barrier.number, lane) as u32 as usize;
            let expected = barrier.threads.map(|threads| self.read(&machine.pool, threads, lane) as u32);
            let refused = match (block.barriers.get(number), expected) {
                (None, _) => Some(format!("there is no barrier {number}")),
                (_, Some(count)) if count == 0 || count % LANES as u32 != 0 => {
                    Some(format!("the number of threads, {count}, is no multiple of the warp's size"))
                }
                (Some(state), _) if state.arrived.iter().any(|&lanes| lanes != 0) && state.expected != expected => {
                    Some(format!("other threads arrived at barrier {number} with another number of threads"))
                }
                (Some(state), _) if state.arrived.get(self.number as usize).is_some_and(|lanes| lanes >> lane & 1 == 1) => {
                    Some(format!("the thread arrives at barrier {number} again before it is complete"))
                }
                _ => None,
            };
            if let Some(message) = refused {
                return Err(machine.stop(FindingKind::BadOperand, block, self, lane, line, message));
            }
            let predicate = barrier.predicate.map(|source| self.read(&machine.pool, source, lane) & 1 != 0);
            let state = &mut block.barriers[number];
            if state.arrived.is_empty() {
                *state = BarrierState {
                    arrived: vec![0; warps],
                    waiting: vec![0; warps],
                    place: vec![pc; warps],
                    expected,
                    aligned: barrier.aligned,
                    ..BarrierState::default()
                };
            }
            let own = self.number as usize;
            if state.arrived[own] == 0 {
                state.place[own] = pc;
            } else if state.place[own] != pc {
                state.diverged.get_or_insert((self.number, lane, line));
            }
            state.arrived[own] |= 1 << lane;
            state.aligned |= barrier.aligned;
            if let Some(vote) = predicate {
                state.votes += u32::from(vote);
                state.voters += 1;
            }
            if barrier.kind == BarrierArrivalKind::Arrive {
                self.pc[lane] = pc + 1;
            } else {
                state.waiting[own] |= 1 << lane;
                self.at_barrier |= 1 << lane;
            }
        }
        Ok(())
    }
}
