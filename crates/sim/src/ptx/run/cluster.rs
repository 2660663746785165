//! A cluster: runs its blocks in turns, and holds its barrier. A launch without clusters has clusters of one block.
//!
//! While a block runs, the other blocks are in [`LaunchState::peers`], so that its threads can access their shared memory. The race checker and
//! the barriers in shared memory are those of the whole cluster and are moved to the block that runs.
//!
//! **The barrier** of the cluster (`barrier.cluster`): a thread arrives, and waits later for the end of the phase in which it arrived. A
//! phase ends when all threads of the cluster that have not exited have arrived.

use super::block::{PtxBlock, ResidentPtxBlock};
use super::warp::{PtxWarp, lanes_of};
use super::{LaunchState, Stop};
use crate::ptx::finding::FindingKind;
use crate::ptx::program::{FunctionCode, PtxClusterBarrier, RANK_SHIFT};

/// The arrivals of the threads of a block at the barrier of the cluster; for each warp a mask of threads.
#[derive(Default)]
pub(crate) struct ClusterArrivals {
    /// Threads that have arrived in the current phase.
    arrived: Vec<u32>,
    /// Threads that wait for the end of the current phase.
    waiting: Vec<u32>,
    /// Threads that arrived in the phase before and have not waited for its end yet.
    passed: Vec<u32>,
    /// Number of phases that have ended.
    phases: u64,
    /// Whether a thread arrived in this phase without ordering its memory accesses.
    has_relaxed: bool,
    /// For each warp, the instructions with which its threads arrived in the current phase, and with which they waited for the end of a
    /// phase with an even and with an odd number.
    positions: Vec<[Option<BarrierPosition>; 3]>,
}

/// The instruction with which the first thread of a warp arrived or waited in a phase.
#[derive(Clone, Copy)]
struct BarrierPosition {
    /// Number of the phase.
    phase: u64,
    /// Position of the instruction in the code.
    pc: u32,
    /// Whether a thread of the warp used an aligned instruction in this phase.
    is_aligned: bool,
}

impl ClusterArrivals {
    /// Makes the state for a block with this number of warps.
    pub(crate) fn new(warps: usize) -> ClusterArrivals {
        let [arrived, waiting, passed] = [(); 3].map(|()| vec![0; warps]);
        ClusterArrivals { arrived, waiting, passed, phases: 0, has_relaxed: false, positions: vec![[None; 3]; warps] }
    }

    /// Records that a thread of a warp executes a barrier instruction at `pc`. Returns whether another thread of the warp executed another
    /// one in the same phase although one of the two is aligned. `has_passed` tells whether the thread waits for the phase before.
    fn is_divergent(&mut self, warp: usize, barrier: PtxClusterBarrier, has_passed: bool, pc: u32) -> bool {
        let phase = self.phases - u64::from(barrier.waits && has_passed);
        let position = &mut self.positions[warp][if barrier.waits { 1 + (phase & 1) as usize } else { 0 }];
        match position {
            Some(known) if known.phase == phase => {
                known.is_aligned |= barrier.aligned;
                known.is_aligned && known.pc != pc
            }
            _ => {
                *position = Some(BarrierPosition { phase, pc, is_aligned: barrier.aligned });
                false
            }
        }
    }
}

/// Returns the key of a phase in the race checker's table of synchronizing locations. No address is this high.
fn phase_key(phase: u64) -> u64 {
    u64::MAX - phase
}

/// A cluster that is running.
pub(crate) struct Cluster {
    /// The blocks, by rank.
    members: Vec<ResidentPtxBlock>,
}

impl Cluster {
    /// Starts the blocks of a cluster; `first` is the index of the block with rank 0.
    pub(crate) fn new(machine: &LaunchState<'_>, first: [u32; 3], function: &FunctionCode, shared_bytes: u32) -> Cluster {
        let [x, y, _] = machine.cluster_shape();
        let members = (0..machine.cluster_blocks).map(|rank| {
            let inside = [rank % x, rank / x % y, rank / x / y];
            let index = std::array::from_fn(|axis| first[axis] + inside[axis]);
            ResidentPtxBlock::new(machine, index, rank, function, shared_bytes)
        });
        Cluster { members: members.collect() }
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.members.iter().all(ResidentPtxBlock::is_finished)
    }

    /// Runs all blocks in turns, for `rounds` rounds or until the cluster ends.
    pub(crate) fn run(&mut self, machine: &mut LaunchState<'_>, rounds: u32) -> Result<(), Stop> {
        for _ in 0..rounds {
            let mut progress = false;
            for rank in 0..self.members.len() {
                if self.members[rank].is_finished() {
                    continue;
                }
                self.enter(machine, rank);
                progress |= self.members[rank].round(machine)?;
                let is_finished = self.members[rank].is_finished();
                self.members[rank].block.has_ended = is_finished;
                self.leave(machine, rank);
            }
            progress |= self.end_phase(machine);
            if self.is_finished() {
                return Ok(());
            }
            if !progress && let Some(stuck) = self.members.iter().find(|member| !member.is_finished()) {
                return Err(stuck.deadlock(machine));
            }
        }
        Ok(())
    }

    /// Makes a block the running one: moves the other blocks to the machine, and the state of the cluster to the block.
    fn enter(&mut self, machine: &mut LaunchState<'_>, rank: usize) {
        if self.members.len() == 1 {
            return;
        }
        let first = &mut self.members[0].block;
        let (races, mbarriers) = (first.races.take(), std::mem::take(&mut first.mbarriers));
        machine.peers = self.members.iter_mut().map(|member| Some(std::mem::take(&mut member.block))).collect();
        let block = &mut self.members[rank].block;
        *block = machine.peers[rank].take().unwrap_or_default();
        (block.races, block.mbarriers) = (races, mbarriers);
        if let Some(races) = &mut block.races {
            races.enter(rank as u32);
        }
        for &entry in &machine.program.shared_addresses {
            machine.pool[entry as usize] = machine.program.pool[entry as usize] + ((rank as u64) << RANK_SHIFT);
        }
    }

    /// Undoes [`Cluster::enter`].
    fn leave(&mut self, machine: &mut LaunchState<'_>, rank: usize) {
        if self.members.len() == 1 {
            return;
        }
        let block = &mut self.members[rank].block;
        let (races, mbarriers) = (block.races.take(), std::mem::take(&mut block.mbarriers));
        for (member, block) in self.members.iter_mut().zip(machine.peers.drain(..)) {
            if let Some(block) = block {
                member.block = block;
            }
        }
        let first = &mut self.members[0].block;
        (first.races, first.mbarriers) = (races, mbarriers);
    }

    /// Ends the phase of the barrier if all threads have arrived; returns whether it ended.
    fn end_phase(&mut self, machine: &mut LaunchState<'_>) -> bool {
        let all = |masks: fn(&ClusterArrivals) -> &[u32]| {
            let warps = self.members.iter().flat_map(|member| member.warps.iter().zip(masks(&member.block.arrivals)));
            warps.map(|(warp, &mask)| (warp.live & !mask, mask)).fold((0, 0), |all, one| (all.0 | one.0, all.1 | one.1))
        };
        let (missing, arrived) = all(|arrivals| &arrivals.arrived);
        if missing != 0 || arrived == 0 {
            return false;
        }
        let has_relaxed = self.members.iter().any(|member| member.block.arrivals.has_relaxed);
        let all_wait = all(|arrivals| &arrivals.waiting).0 == 0;
        let mut races = self.members[0].block.races.take();
        if let Some(races) = races.as_mut().filter(|_| all_wait && !has_relaxed) {
            races.cluster_barrier();
        }
        for (rank, member) in self.members.iter_mut().enumerate() {
            let arrivals = &mut member.block.arrivals;
            let phase = arrivals.phases;
            arrivals.phases += 1;
            arrivals.has_relaxed = false;
            for (number, warp) in member.warps.iter_mut().enumerate() {
                let arrived = std::mem::take(&mut arrivals.arrived[number]);
                let waiting = std::mem::take(&mut arrivals.waiting[number]);
                arrivals.passed[number] = arrived & !waiting;
                warp.at_barrier &= !waiting;
                for lane in lanes_of(waiting) {
                    warp.pc[lane] += 1;
                    if let Some(races) = &mut races {
                        races.enter(rank as u32);
                        races.strong_read(warp.thread(lane), phase_key(phase), true);
                    }
                }
            }
        }
        self.members[0].block.races = races;
        machine.polls += 1;
        true
    }
}

impl LaunchState<'_> {
    /// Returns the number of blocks of a cluster along x, y, z.
    pub(crate) fn cluster_shape(&self) -> [u32; 3] {
        self.launch.cluster.or(self.cluster).unwrap_or([1; 3])
    }

    /// Splits an address in shared memory into the rank of the block and the offset there.
    pub(crate) fn shared_place(&self, address: u64) -> (u32, u64) {
        match self.cluster_blocks {
            1 => (0, address),
            _ => ((address >> RANK_SHIFT).min(u64::from(u32::MAX)) as u32, address & ((1 << RANK_SHIFT) - 1)),
        }
    }

    /// Returns another block of the cluster whose block runs.
    pub(crate) fn peer(&self, rank: u32) -> Option<&PtxBlock> {
        self.peers.get(rank as usize)?.as_ref()
    }

    /// Returns another block of the cluster whose block runs.
    pub(crate) fn peer_mut(&mut self, rank: u32) -> Option<&mut PtxBlock> {
        self.peers.get_mut(rank as usize)?.as_mut()
    }
}

impl PtxWarp {
    /// Executes `barrier.cluster`. Threads that have to wait stay at the instruction.
    pub(crate) fn cluster_barrier(
        &mut self,
        machine: &mut LaunchState<'_>,
        block: &mut PtxBlock,
        barrier: PtxClusterBarrier,
        pc: u32,
        active: u32,
        line: u32,
    ) -> Result<(), Stop> {
        let number = self.number as usize;
        for lane in lanes_of(active) {
            let (bit, thread) = (1 << lane, self.thread(lane));
            let arrivals = &mut block.arrivals;
            let has_arrived = arrivals.arrived[number] & bit != 0;
            let has_passed = arrivals.passed[number] & bit != 0;
            if arrivals.is_divergent(number, barrier, has_passed, pc) {
                let message = "another thread of this warp is at another instruction for the barrier of the cluster".to_owned();
                machine.report(FindingKind::DivergentBarrier, block, self, lane, line, 0, message);
            }
            let arrivals = &mut block.arrivals;
            let message = match barrier.waits {
                true if !has_arrived && !has_passed => "the thread waits for the barrier of the cluster but has not arrived there",
                false if has_arrived || has_passed => "the thread arrives at the barrier of the cluster again before it has waited",
                _ => "",
            };
            if !message.is_empty() {
                return Err(machine.stop(FindingKind::BadOperand, block, self, lane, line, message.to_owned()));
            }
            if !barrier.waits {
                arrivals.arrived[number] |= bit;
                arrivals.has_relaxed |= !barrier.releases;
                let key = phase_key(arrivals.phases);
                if let Some(races) = &mut block.races {
                    races.strong_write(thread, key, barrier.releases);
                }
            } else if has_passed {
                arrivals.passed[number] &= !bit;
                let key = phase_key(arrivals.phases - 1);
                if let Some(races) = &mut block.races {
                    races.strong_read(thread, key, true);
                }
            } else {
                arrivals.waiting[number] |= bit;
                self.at_barrier |= bit;
                self.pc[lane] = pc;
            }
        }
        Ok(())
    }
}
