//! Runs the blocks of a launch: a few clusters at a time, in turns, and more of them if the running ones seem to wait for others. A launch
//! without clusters has clusters of one block.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use super::bulk::{self, BulkCopies};
use super::fault::{ErrorKind, SassError};
use super::groups::TurnOrder;
use super::launch::LaunchInputs;
use super::load::Code;
use super::observe::Observer;
use super::program::SassProgram;
use super::schedule::{GridRun, ResidentBlock, Turn};
use super::warp::{LANES, ThreadIndices, Warp};
use super::world::{Map, World};
use crate::{GlobalMemory, Launch};

/// Warp instructions a block executes before the next block's turn.
const BLOCK_TURN: u64 = 1 << 13;
/// Initial maximum number of resident clusters.
const FEW_CLUSTERS: usize = 4;
/// Turns per resident cluster without any cluster ending after which the maximum number of resident clusters is doubled.
const PATIENCE: usize = 4;

/// Options of a run.
#[derive(Clone, Copy, Debug)]
pub struct GridOptions {
    /// Warp instructions after which the run fails.
    pub instruction_limit: u64,
    /// Seed for a random order of warps and thread groups; 0 for the fixed order.
    pub order: u64,
}

impl GridOptions {
    /// Makes options with this instruction limit and the fixed order.
    pub const fn limited(instruction_limit: u64) -> GridOptions {
        GridOptions { instruction_limit, order: 0 }
    }
}

impl Default for GridOptions {
    fn default() -> Self {
        GridOptions::limited(1 << 36)
    }
}

/// The result of a launch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchReport {
    /// Number of instructions issued by all warps.
    pub warp_instructions: u64,
    /// Text printed by the kernel.
    pub printed: String,
}

impl Code {
    /// Runs a kernel to completion.
    pub fn run<O: Observer>(
        &self,
        launch: &Launch,
        memory: &mut GlobalMemory,
        options: &GridOptions,
        observer: &mut O,
    ) -> Result<LaunchReport, SassError> {
        let blocks = launch.blocks();
        self.run_blocks(launch, memory, options, observer, 0..blocks)
    }

    /// Runs the clusters of some blocks of a launch, given by their linear indices. The other blocks do not run, so a block that waits for one of them
    /// never ends.
    pub(crate) fn run_blocks<O: Observer>(
        &self,
        launch: &Launch,
        memory: &mut GlobalMemory,
        options: &GridOptions,
        observer: &mut O,
        blocks: impl IntoIterator<Item = u64>,
    ) -> Result<LaunchReport, SassError> {
        let kernel = self
            .kernels
            .get(&launch.kernel)
            .ok_or_else(|| SassError::new(ErrorKind::Launch, format!("the code has no kernel `{}`", launch.kernel)))?;
        let mut prepared = self.prepare(launch, kernel)?;
        self.bind_references(launch, memory, &mut prepared.constants)?;
        let program = SassProgram::build(self, kernel, &prepared);
        for variables in &self.variables {
            memory.place(&variables.name, variables.address, &variables.bytes);
        }
        let map = &prepared.map;
        let cluster_blocks: u32 = map.cluster.iter().product();
        let mut shared: Vec<Vec<u8>> = Vec::new();
        let mut resident: VecDeque<Vec<ResidentBlock>> = VecDeque::new();
        let mut free: Vec<usize> = Vec::new();
        let mut copies = BulkCopies::new(options.order != 0);
        let mut clock = 0;
        let mut order = TurnOrder::new(options.order);
        let mut printed = String::new();
        let mut started: HashSet<[u32; 3]> = HashSet::new();
        let mut blocks = blocks
            .into_iter()
            .filter_map(|number| match cluster_blocks {
                1 => Some(block_index(map, number)),
                _ => Some(first_of_cluster(map, block_index(map, number))).filter(|first| started.insert(*first)),
            })
            .peekable();
        // Start with few resident clusters. If none of them ends for a while, they may wait for others, so admit more.
        let mut limit = FEW_CLUSTERS;
        let mut fruitless = 0;
        while blocks.peek().is_some() || !resident.is_empty() {
            let mut cluster = if let Some(first) = blocks.next_if(|_| resident.len() < limit) {
                let slots: Arc<[usize]> = (0..cluster_blocks)
                    .map(|_| {
                        let slot = free.pop().unwrap_or(shared.len());
                        if slot == shared.len() {
                            shared.push(Vec::new());
                        }
                        shared[slot].clear();
                        shared[slot].resize(map.shared_bytes as usize, SHARED_GARBAGE);
                        slot
                    })
                    .collect();
                let block = |rank: u32| {
                    let index = in_cluster(map, first, rank);
                    let [x, y, z] = index.map(u64::from);
                    let number = x + u64::from(map.grid[0]) * (y + u64::from(map.grid[1]) * z);
                    ResidentBlock::new(number, slots[rank as usize], warps(map, index, rank, &slots, &prepared), program.entry)
                };
                (0..cluster_blocks).map(block).collect()
            } else {
                match resident.pop_front() {
                    Some(cluster) => cluster,
                    None => break,
                }
            };
            let world = World {
                memory: &mut *memory,
                shared: &mut shared,
                copies: &mut copies,
                constants: &prepared.constants,
                map,
                printed: &mut printed,
                clock,
            };
            let limit_of_all = options.instruction_limit;
            let mut engine =
                GridRun { program: &program, world, observer: &mut *observer, kernel: &launch.kernel, limit: limit_of_all, order };
            run_cluster(&mut engine, &mut cluster)?;
            (clock, order) = (engine.world.clock, engine.order);
            if cluster.iter().all(ResidentBlock::is_finished) {
                free.extend(cluster.iter().map(|block| block.slot));
                fruitless = 0;
            } else {
                resident.push_back(cluster);
                fruitless += 1;
                if fruitless > PATIENCE * resident.len() {
                    limit *= 2;
                    fruitless = 0;
                }
            }
        }
        Ok(LaunchReport { warp_instructions: clock, printed })
    }
}

/// Initial value of shared memory.
const SHARED_GARBAGE: u8 = 0xa5;

/// Gives each block of a cluster a turn, and ends the phase of the cluster's barrier if all warps have arrived.
fn run_cluster<O: Observer>(engine: &mut GridRun<'_, '_, O>, cluster: &mut [ResidentBlock]) -> Result<(), SassError> {
    let mut stuck = None;
    let mut progress = false;
    for (rank, block) in cluster.iter_mut().enumerate() {
        if block.is_finished() {
            continue;
        }
        let before = engine.world.clock;
        let turn = engine.run(block, BLOCK_TURN)?;
        progress |= engine.world.clock != before;
        match turn {
            Turn::Ended => bulk::perform_all(&mut engine.world, block.slot).map_err(|what| SassError::new(ErrorKind::Fault, what))?,
            Turn::Over => {}
            Turn::WaitsForCluster => stuck = Some(rank),
        }
    }
    if let Some(phases) = cluster.iter().filter_map(ResidentBlock::cluster_arrivals).min() {
        progress |= cluster.iter().any(|block| block.cluster_phases < phases);
        cluster.iter_mut().for_each(|block| block.end_cluster_phases(phases));
    }
    match stuck {
        Some(rank) if !progress => Err(engine.deadlock(&cluster[rank])),
        _ => Ok(()),
    }
}

/// Returns the index of the block with a linear index.
fn block_index(map: &Map, number: u64) -> [u32; 3] {
    let [width, height, _] = map.grid.map(u64::from);
    [(number % width) as u32, (number / width % height) as u32, (number / width / height) as u32]
}

/// Returns the index of the first block of the cluster of a block.
fn first_of_cluster(map: &Map, block: [u32; 3]) -> [u32; 3] {
    std::array::from_fn(|axis| block[axis] - block[axis] % map.cluster[axis])
}

/// Returns the index of the block with a rank in the cluster whose first block is `first`.
fn in_cluster(map: &Map, first: [u32; 3], rank: u32) -> [u32; 3] {
    let [x, y, _] = map.cluster;
    let inside = [rank % x, rank / x % y, rank / x / y];
    std::array::from_fn(|axis| first[axis] + inside[axis])
}

/// Makes the warps of a block; `slots` are those of the blocks of its cluster.
fn warps(map: &Map, block: [u32; 3], rank: u32, slots: &Arc<[usize]>, prepared: &LaunchInputs) -> Vec<Warp> {
    let [x, y, z] = map.block;
    let threads = x * y * z;
    let identity = |warp: u32| {
        let first = warp * LANES as u32;
        let lane = |lane: usize| first + lane as u32;
        let count = (threads - first).min(LANES as u32);
        let identity = ThreadIndices {
            warp,
            block,
            slot: slots[rank as usize],
            rank,
            cluster_slots: Arc::clone(slots),
            thread: [
                std::array::from_fn(|at| lane(at) % x),
                std::array::from_fn(|at| lane(at) / x % y),
                std::array::from_fn(|at| lane(at) / x / y),
            ],
            threads: if count == LANES as u32 { !0 } else { (1 << count) - 1 },
        };
        let mut warp = Warp::new(prepared.registers, identity);
        warp.set_register_count(prepared.initial_registers);
        warp
    };
    (0..threads.div_ceil(LANES as u32)).map(identity).collect()
}
