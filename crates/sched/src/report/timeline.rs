//! When the instructions of a block are issued, and how often blocks are executed.
//!
//! **Cycles.** A block is gone through in order, one warp alone. Before allocation an instruction is issued when its operands are there and
//! its unit is free. Final code has control words, which say it exactly: an instruction is issued when the stall of the one before is over
//! and the scoreboards that it waits for are released. What varies takes its usual time, or the most for the worst case.
//!
//! **How often** is a guess that needs no profile. At a branch the ways share what comes in equally; where threads of a warp may part, a warp
//! goes all of them. Who is in a loop leaves it at last, so both ways of a branch that leaves one are taken. A loop is executed
//! [`TRIPS`] times.

use std::ops::Range;

use oriole_hardware::units::UNITS;
use oriole_hardware::{Kind, Model, Time};
use oriole_ir::analysis::{ControlFlow, Dominators, Loops};
use oriole_ir::{Block, Function, Inst};
use oriole_isa::Control;
use oriole_support::IndexVec;

use crate::code::{Code, from_ir, from_machine};
use crate::graph::{self, UNKNOWN_CYCLES};
use crate::resource::Costs;

/// How often a loop is executed, for want of better knowledge.
pub const TRIPS: f64 = 10.0;

/// The machine that code is timed on.
#[derive(Clone, Copy)]
pub struct Figures<'a> {
    /// Latencies.
    pub model: &'a Model,
    /// Time on units.
    pub costs: &'a Costs,
}

/// How long what varies takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// As long as usual.
    Usual,
    /// As long as ever.
    Worst,
}

impl Pace {
    fn of(self, time: Time) -> u16 {
        match self {
            Pace::Usual => time.usual,
            Pace::Worst => time.most.max(time.usual),
        }
    }
}

/// The control word of each instruction.
pub type Controls<'a> = &'a dyn Fn(Inst) -> Control;

/// A function as items, block by block.
pub struct Listing {
    /// The items.
    pub code: Code,
    /// Which are whose.
    pub blocks: Vec<(Block, Range<usize>)>,
}

impl Listing {
    /// The items of a function, on values or on registers.
    pub fn new(function: &Function) -> Listing {
        let numbers = function.is_ssa.then(|| from_ir::ValueNumbers::new(function));
        let mut code = numbers.as_ref().map_or_else(from_machine::empty, |numbers| numbers.empty(function));
        let mut blocks = Vec::with_capacity(function.layout.len());
        for &block in &function.layout {
            let start = code.items.len();
            for &inst in &function.blocks[block].insts {
                match &numbers {
                    Some(numbers) => from_ir::push_values(&mut code, numbers, function, inst),
                    None => from_ir::push_allocated(&mut code, function, inst),
                }
            }
            blocks.push((block, start..code.items.len()));
        }
        Listing { code, blocks }
    }
}

/// When the instructions of a block are issued.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Timing {
    /// The cycle of each.
    pub issued: Vec<u32>,
    /// Cycles until what follows the block can be issued.
    pub cycles: u32,
    /// Cycles of these in which nothing is issued because something is waited for.
    pub waited: u32,
}

/// The timing of a block by its operands.
pub fn by_operands(code: &Code, range: &Range<usize>, figures: Figures<'_>, pace: Pace) -> Timing {
    let mut timing = Timing::default();
    let mut written: rustc_hash::FxHashMap<u32, (usize, u32, Option<oriole_hardware::Port>)> = rustc_hash::FxHashMap::default();
    let mut free = [0_u32; UNITS];
    for position in range.clone() {
        let item = &code.items[position];
        let mut at = timing.cycles;
        for touch in code.reads(item) {
            if let Some(&(writer, issued, port)) = written.get(&touch.register) {
                let first = &code.items[writer];
                let (usual, waits) = graph::latency(figures.model, Kind::Raw, touch.file, (first, port), (item, touch.port));
                let cycles = match figures.model.time(first.class) {
                    Some(time) if waits => pace.of(time).max(usual),
                    _ => usual,
                };
                at = at.max(issued + u32::from(cycles));
            }
        }
        if item.opcode.is_some() {
            let unit = figures.costs.unit(item.class);
            at = at.max(free[unit]);
            free[unit] = at + figures.costs.cycles(item.class).max(1) as u32;
            timing.waited += at - timing.cycles;
            timing.cycles = at + 1;
        }
        timing.issued.push(at);
        for touch in code.writes(item) {
            written.insert(touch.register, (position, at, touch.port));
        }
    }
    timing
}

/// The timing of a block by its control words.
pub fn by_controls(code: &Code, range: &Range<usize>, insts: &[Inst], figures: Figures<'_>, pace: Pace, controls: Controls<'_>) -> Timing {
    let mut timing = Timing::default();
    let mut released = [0_u32; 8];
    let mut free = [0_u32; UNITS];
    for (position, &inst) in range.clone().zip(insts) {
        let (class, control) = (code.items[position].class, controls(inst));
        let mut at = timing.cycles;
        for (scoreboard, &until) in released.iter().enumerate() {
            if control.wait & (1 << scoreboard) != 0 {
                at = at.max(until);
            }
        }
        let unit = figures.costs.unit(class);
        at = at.max(free[unit]);
        free[unit] = at + figures.costs.cycles(class).max(1) as u32;
        let time = figures.model.time(class);
        let result = time.map_or(UNKNOWN_CYCLES, |time| pace.of(time));
        let read = time.map_or(UNKNOWN_CYCLES, |time| time.read);
        for (scoreboard, cycles) in [(control.write_barrier, result), (control.read_barrier, read)] {
            if let Some(until) = scoreboard.and_then(|scoreboard| released.get_mut(usize::from(scoreboard))) {
                *until = (*until).max(at + u32::from(cycles));
            }
        }
        timing.waited += at - timing.cycles;
        timing.issued.push(at);
        timing.cycles = at + u32::from(control.stall.max(1));
    }
    timing
}

/// What is assumed where threads of a warp meet a branch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ways {
    /// They share the ways; where they may part, a warp goes all.
    AsKnown,
    /// They go one way.
    One,
    /// They part everywhere.
    All,
}

/// How often each block is executed.
#[derive(Clone, Debug)]
pub struct Frequencies {
    /// In one pass through each loop around it.
    pub pass: IndexVec<Block, f64>,
    /// Altogether.
    pub total: IndexVec<Block, f64>,
}

/// How often each block is executed. `is_divergent` says at the end of which blocks threads may part.
pub fn frequencies(
    function: &Function,
    flow: &ControlFlow,
    loops: &Loops,
    ways: Ways,
    is_divergent: &dyn Fn(Block) -> bool,
) -> Frequencies {
    let dominators = Dominators::compute(function, flow);
    let mut pass: IndexVec<Block, f64> = IndexVec::filled(function.blocks.len(), 0.0);
    let mut total = pass.clone();
    let share = |from: Block| {
        let count = flow.successors(from).len().max(1) as f64;
        let leaves = |block: Block| loops.innermost(from).is_some_and(|id| !loops.contains(id, block));
        let all_ways = match ways {
            Ways::AsKnown => is_divergent(from),
            Ways::One => false,
            Ways::All => true,
        };
        if all_ways || flow.successors(from).iter().any(|&next| leaves(next)) { 1.0 } else { 1.0 / count }
    };
    for &block in flow.reverse_post_order() {
        let own = flow.position(block);
        let forward = flow.predecessors(block).iter().filter(|&&from| flow.position(from) < own);
        let comes_in: f64 = forward.map(|&from| pass[from] * share(from)).sum();
        let most = dominators.immediate(block).map_or(1.0, |above| pass[above]);
        pass[block] = if Some(block) == function.layout.first().copied() { 1.0 } else { comes_in.min(most) };
        total[block] = pass[block] * TRIPS.powi(loops.depth(block) as i32);
    }
    Frequencies { pass, total }
}
