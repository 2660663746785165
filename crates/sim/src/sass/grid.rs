//! A launch: blocks of a grid, one after another, and in turns where they wait for each other.

use std::collections::VecDeque;

use super::fault::{Error, ErrorKind};
use super::groups::Order;
use super::load::Code;
use super::observe::Observer;
use super::program::Program;
use super::schedule::{Block, Engine};
use super::warp::{Identity, LANES, Warp};
use super::world::{Map, World};
use crate::{Launch, Memory};

/// Instructions that a block executes before another one's turn.
const BLOCK_TURN: u64 = 1 << 13;
/// Blocks that run at the same time at first.
const FEW_BLOCKS: usize = 4;
/// Turns of each block without any that ends, after which more blocks are started.
const PATIENCE: usize = 4;

/// How a launch runs.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Warp instructions after which a launch is given up.
    pub instruction_limit: u64,
    /// Seed of a random order of warps and groups of threads; 0 for a fixed one.
    pub order: u64,
}

impl Options {
    /// A number of instructions, and the rest as usual.
    pub const fn limited(instruction_limit: u64) -> Options {
        Options { instruction_limit, order: 0 }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options::limited(1 << 36)
    }
}

/// What a launch did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Instructions that warps issued.
    pub warp_instructions: u64,
    /// What the kernel printed.
    pub printed: String,
}

impl Code {
    /// Runs a kernel to its end.
    pub fn run<O: Observer>(&self, launch: &Launch, memory: &mut Memory, options: &Options, observer: &mut O) -> Result<Report, Error> {
        let blocks = launch.blocks();
        self.run_blocks(launch, memory, options, observer, 0..blocks)
    }

    /// Runs some blocks of a launch, by their numbers in the grid. What the others would have done is not there, so blocks that wait for
    /// others do not end.
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
        let mut clock = 0;
        let mut order = Order::new(options.order);
        let mut printed = String::new();
        let mut blocks = blocks.into_iter().peekable();
        // Few blocks at a time, and more once those that run seem to wait for others.
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

/// What shared memory holds at the start.
const SHARED_GARBAGE: u8 = 0xa5;

/// The warps of a block.
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
