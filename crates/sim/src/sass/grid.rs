//! Runs the blocks of a launch: a few at a time, in turns, and more of them if the running ones seem to wait for others.

use std::collections::VecDeque;

use super::bulk::{self, Copies};
use super::fault::{Error, ErrorKind};
use super::groups::Order;
use super::load::Code;
use super::observe::Observer;
use super::program::Program;
use super::schedule::{Block, Engine};
use super::warp::{Identity, LANES, Warp};
use super::world::{Map, World};
use crate::{Launch, Memory};

/// Warp instructions a block executes before the next block's turn.
const BLOCK_TURN: u64 = 1 << 13;
/// Initial maximum number of resident blocks.
const FEW_BLOCKS: usize = 4;
/// Turns per resident block without any block ending after which the maximum number of resident blocks is doubled.
const PATIENCE: usize = 4;

/// Options of a run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Warp instructions after which the run fails.
    pub instruction_limit: u64,
    /// Seed for a random order of warps and thread groups; 0 for the fixed order.
    pub order: u64,
}

impl Options {
    /// Makes options with this instruction limit and the fixed order.
    pub const fn limited(instruction_limit: u64) -> Options {
        Options { instruction_limit, order: 0 }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options::limited(1 << 36)
    }
}

/// The result of a launch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of instructions issued by all warps.
    pub warp_instructions: u64,
    /// Text printed by the kernel.
    pub printed: String,
}

impl Code {
    /// Runs a kernel to completion.
    pub fn run<O: Observer>(&self, launch: &Launch, memory: &mut Memory, options: &Options, observer: &mut O) -> Result<Report, Error> {
        let blocks = launch.blocks();
        self.run_blocks(launch, memory, options, observer, 0..blocks)
    }

    /// Runs some blocks of a launch, given by their linear indices. The other blocks do not run, so a block that waits for one of them
    /// never ends.
    pub fn run_blocks<O: Observer>(
        &self,
        launch: &Launch,
        memory: &mut Memory,
        options: &Options,
        observer: &mut O,
        blocks: impl IntoIterator<Item = u64>,
    ) -> Result<Report, Error> {
        let kernel = self
            .kernels
            .get(&launch.kernel)
            .ok_or_else(|| Error::new(ErrorKind::Launch, format!("the code has no kernel `{}`", launch.kernel)))?;
        let prepared = self.prepare(launch, kernel)?;
        let program = Program::build(self, kernel, &prepared);
        for variables in &self.variables {
            memory.place(&variables.name, variables.address, &variables.bytes);
        }
        let mut shared: Vec<Vec<u8>> = Vec::new();
        let mut resident: VecDeque<Block> = VecDeque::new();
        let mut free: Vec<usize> = Vec::new();
        let mut copies = Copies::new(options.order != 0);
        let mut clock = 0;
        let mut order = Order::new(options.order);
        let mut printed = String::new();
        let mut blocks = blocks.into_iter().peekable();
        // Start with few resident blocks. If none of them ends for a while, they may wait for others, so admit more.
        let mut limit = FEW_BLOCKS;
        let mut fruitless = 0;
        while blocks.peek().is_some() || !resident.is_empty() {
            let mut block = if let Some(number) = blocks.next_if(|_| resident.len() < limit) {
                let slot = free.pop().unwrap_or(shared.len());
                if slot == shared.len() {
                    shared.push(Vec::new());
                }
                shared[slot].clear();
                shared[slot].resize(prepared.map.shared_bytes as usize, SHARED_GARBAGE);
                Block::new(number, slot, warps(&prepared.map, number, slot, prepared.registers), program.entry)
            } else {
                match resident.pop_front() {
                    Some(block) => block,
                    None => break,
                }
            };
            let world = World {
                memory: &mut *memory,
                shared: &mut shared,
                copies: &mut copies,
                constants: &prepared.constants,
                map: &prepared.map,
                printed: &mut printed,
                clock,
            };
            let limit_of_all = options.instruction_limit;
            let mut engine =
                Engine { program: &program, world, observer: &mut *observer, kernel: &launch.kernel, limit: limit_of_all, order };
            let is_finished = engine.run(&mut block, BLOCK_TURN)?;
            (clock, order) = (engine.world.clock, engine.order);
            if is_finished {
                bulk::perform_all(&mut engine.world, block.slot).map_err(|what| Error::new(ErrorKind::Fault, what))?;
                free.push(block.slot);
                fruitless = 0;
            } else {
                resident.push_back(block);
                fruitless += 1;
                if fruitless > PATIENCE * resident.len() {
                    limit *= 2;
                    fruitless = 0;
                }
            }
        }
        Ok(Report { warp_instructions: clock, printed })
    }
}

/// Initial value of shared memory.
const SHARED_GARBAGE: u8 = 0xa5;

/// Makes the warps of the block with linear index `number`.
fn warps(map: &Map, number: u64, slot: usize, registers: u16) -> Vec<Warp> {
    let [width, height, _] = map.grid.map(u64::from);
    let block = [(number % width) as u32, (number / width % height) as u32, (number / width / height) as u32];
    let [x, y, z] = map.block;
    let threads = x * y * z;
    let identity = |warp: u32| {
        let first = warp * LANES as u32;
        let lane = |lane: usize| first + lane as u32;
        let count = (threads - first).min(LANES as u32);
        let identity = Identity {
            warp,
            block,
            slot,
            thread: [
                std::array::from_fn(|at| lane(at) % x),
                std::array::from_fn(|at| lane(at) / x % y),
                std::array::from_fn(|at| lane(at) / x / y),
            ],
            threads: if count == LANES as u32 { !0 } else { (1 << count) - 1 },
        };
        Warp::new(registers, identity)
    };
    (0..threads.div_ceil(LANES as u32)).map(identity).collect()
}
