//! When the instructions of a block are issued, and how often blocks are executed.
//!
//! **Cycles.** A block is gone through in order, one warp alone. Before allocation an instruction is issued when its operands are there and
//! its unit is free. Final code has control words, which say it exactly: an instruction is issued when the stall of the one before is over
//! and the scoreboards that it waits for are released. What varies takes its usual time, or the most for the worst case. What is still
//! under way at the end of a block is waited for in the next. In a loop that is what comes from the iteration before; what comes from outside
//! is waited for once, not in every iteration.
//!
//! **How often** is a guess that needs no profile. At a branch the ways share what comes in equally; where threads of a warp may part, a warp
//! goes all of them. Who is in a loop leaves it at last, so both ways of a branch that leaves one are taken. A loop is executed
//! [`TRIPS`] times.

use std::ops::Range;

use oriole_hardware::units::UNITS;
use oriole_hardware::{Kind, Model, Port, Time};
use oriole_ir::analysis::{ControlFlow, Dominators, Loops};
use oriole_ir::{Block, Function, Inst, Operand, OperandKind};
use oriole_isa::Control;
use oriole_support::IndexVec;
use rustc_hash::{FxHashMap, FxHashSet};

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
    /// The registers of values, before allocation.
    numbers: Option<from_ir::ValueNumbers>,
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
        Listing { code, blocks, numbers }
    }

    /// What is under way at the end of a block, as another one behind it sees it: phis are ready when their sources are.
    pub fn enter(&self, function: &Function, from: Block, end: &UnderWay, block: Block) -> UnderWay {
        let mut entered = end.clone();
        let Some(numbers) = &self.numbers else { return entered };
        for &phi in function.phis(block) {
            let Some(result) = function.results(phi).first().and_then(Operand::part) else { continue };
            for pair in function.sources(phi).chunks_exact(2) {
                let (Some(part), OperandKind::Block(source)) = (pair[0].part(), pair[1].kind) else { continue };
                if source == from {
                    for (register, of_source) in numbers.registers(result).zip(numbers.registers(part)) {
                        entered.registers.extend(end.registers.get(&of_source).map(|&cycles| (register, cycles)));
                    }
                }
            }
        }
        entered
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

/// Cycles that what is under way still takes: until scoreboards are released, until results are there.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct UnderWay {
    scoreboards: [u32; SCOREBOARDS],
    registers: FxHashMap<u32, u32>,
}

/// One more than there are, for numbers that three bits can hold.
const SCOREBOARDS: usize = 8;

impl UnderWay {
    /// What is under way where ways meet.
    pub fn meet(&mut self, other: &UnderWay) {
        for (cycles, other) in self.scoreboards.iter_mut().zip(other.scoreboards) {
            *cycles = (*cycles).max(other);
        }
        for (&register, &other) in &other.registers {
            let cycles = self.registers.entry(register).or_default();
            *cycles = (*cycles).max(other);
        }
    }
}

/// The timing of a block by its operands.
pub fn by_operands(code: &Code, range: &Range<usize>, figures: Figures<'_>, pace: Pace, under_way: &mut UnderWay) -> Timing {
    let mut timing = Timing::default();
    // When results are there, for readers that are not known yet.
    let mut ready = std::mem::take(&mut under_way.registers);
    let mut written: FxHashMap<u32, (usize, u32, Option<Port>)> = FxHashMap::default();
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
            } else if let Some(&until) = ready.get(&touch.register) {
                at = at.max(until);
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
        let takes = match figures.model.time(item.class) {
            _ if item.opcode.is_none() => 0,
            Some(time) => pace.of(time),
            None => figures.model.base_latency(item.class),
        };
        for touch in code.writes(item) {
            written.insert(touch.register, (position, at, touch.port));
            ready.insert(touch.register, at + u32::from(takes));
        }
    }
    ready.retain(|_, until| *until > timing.cycles);
    ready.values_mut().for_each(|until| *until -= timing.cycles);
    under_way.registers = ready;
    timing
}

/// The timing of a block by its control words.
pub fn by_controls(
    code: &Code,
    (range, insts): (&Range<usize>, &[Inst]),
    figures: Figures<'_>,
    pace: Pace,
    controls: Controls<'_>,
    under_way: &mut UnderWay,
) -> Timing {
    let mut timing = Timing::default();
    let released = &mut under_way.scoreboards;
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
    released.iter_mut().for_each(|until| *until = until.saturating_sub(timing.cycles));
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

/// The shape of a function: loops, and how often blocks are executed. It must be taken before layout, which leaves out jumps to what follows.
#[derive(Clone, Debug)]
pub struct Skeleton {
    /// Blocks, each behind those that lead to it, loops aside.
    pub order: Vec<Block>,
    /// For each block those that lead to it, ways back left out.
    pub forward: IndexVec<Block, Vec<Block>>,
    /// For each block those that lead back to it: headers of loops have some.
    pub back: IndexVec<Block, Vec<Block>>,
    /// Loops.
    pub loops: Loops,
    /// How often blocks are executed as far as is known.
    pub known: Frequencies,
    /// If a warp never parts.
    pub one_way: Frequencies,
    /// If it parts everywhere.
    pub all_ways: Frequencies,
}

impl Skeleton {
    /// The shape of a function, given the blocks at whose end threads of a warp may part.
    pub fn new(function: &Function, divergent: &FxHashSet<Block>) -> Skeleton {
        let flow = ControlFlow::compute(function);
        let loops = Loops::compute(function, &flow);
        let mut forward: IndexVec<Block, Vec<Block>> = IndexVec::filled(function.blocks.len(), Vec::new());
        let mut back = forward.clone();
        for &block in flow.reverse_post_order() {
            let reachable = flow.predecessors(block).iter().copied().filter(|&from| flow.is_reachable(from));
            (forward[block], back[block]) = reachable.partition(|&from| flow.position(from) < flow.position(block));
        }
        let often = |ways| frequencies(function, &flow, &loops, &forward, ways, divergent);
        let (known, one_way, all_ways) = (often(Ways::AsKnown), often(Ways::One), often(Ways::All));
        Skeleton { order: flow.reverse_post_order().to_vec(), forward, back, loops, known, one_way, all_ways }
    }
}

fn frequencies(
    function: &Function,
    flow: &ControlFlow,
    loops: &Loops,
    forward: &IndexVec<Block, Vec<Block>>,
    ways: Ways,
    divergent: &FxHashSet<Block>,
) -> Frequencies {
    let dominators = Dominators::compute(function, flow);
    let mut pass: IndexVec<Block, f64> = IndexVec::filled(function.blocks.len(), 0.0);
    let mut total = pass.clone();
    let share = |from: Block| {
        let successors = flow.successors(from);
        let leaves = |block: &Block| loops.innermost(from).is_some_and(|id| !loops.contains(id, *block));
        let all_ways = match ways {
            Ways::AsKnown => divergent.contains(&from),
            Ways::One => false,
            Ways::All => true,
        };
        if all_ways || successors.iter().any(leaves) { 1.0 } else { 1.0 / successors.len().max(1) as f64 }
    };
    for &block in flow.reverse_post_order() {
        let comes_in: f64 = forward[block].iter().map(|&from| pass[from] * share(from)).sum();
        let most = dominators.immediate(block).map_or(1.0, |above| pass[above]);
        pass[block] = if block == function.entry() { 1.0 } else { comes_in.min(most) };
        total[block] = pass[block] * TRIPS.powi(loops.depth(block) as i32);
    }
    Frequencies { pass, total }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oriole_support::Index;

    fn shape(divergent: &[usize]) -> Skeleton {
        // bb0 branches to bb1 or bb2, which meet in bb3, a loop; bb4 is behind it.
        let text = "func kernel @k ssa {
bb0:
    %0:R = S2R SR_TID.X
    %1:P, PT = ISETP.LT.AND %0, 0x10, PT
    @%1 BRA bb2
    BRA bb1
bb1:
    BRA bb3
bb2:
    BRA bb3
bb3:
    %2:P, PT = ISETP.LT.AND %0, 0x20, PT
    @%2 BRA bb3
    BRA bb4
bb4:
    EXIT
}";
        let function = oriole_ir::text::parse(text).unwrap_or_else(|error| panic!("{error:?}")).remove(0);
        Skeleton::new(&function, &divergent.iter().map(|&block| Block::new(block)).collect())
    }

    #[test]
    fn blocks_are_executed_as_the_rules_say() {
        let shape = shape(&[]);
        assert_eq!(shape.known.total.iter().copied().collect::<Vec<_>>(), [1.0, 0.5, 0.5, 10.0, 1.0]);
        assert_eq!(shape.all_ways.total.iter().copied().collect::<Vec<_>>(), [1.0, 1.0, 1.0, 10.0, 1.0]);
        assert_eq!(shape.loops.len(), 1);
    }

    #[test]
    fn a_warp_that_parts_goes_both_ways() {
        let shape = shape(&[0]);
        assert_eq!(shape.known.total.iter().copied().collect::<Vec<_>>(), [1.0, 1.0, 1.0, 10.0, 1.0]);
        assert_eq!(shape.one_way.total.iter().copied().collect::<Vec<_>>(), [1.0, 0.5, 0.5, 10.0, 1.0]);
    }
}
