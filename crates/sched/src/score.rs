//! Estimated execution time of a function in its final order, for comparing whole schedules.
//!
//! Input: a function on physical registers and the number of resident warps per warp scheduler. Output: a [`Score`] in cycles per warp.
//!
//! The number of warps at run time is unknown, so the estimate covers two cases: one warp alone on its warp scheduler, where latencies
//! dominate, and all resident warps, where functional units and issue slots can be the bottleneck. For one execution of a block, with `t`
//! the cycles of a lone warp ([`measure_allocated_region`], which includes register banks and the operand reuse cache) and `b` the cycles
//! for which one warp occupies the busiest unit, or its issue slots if they are more:
//!
//! ```text
//! alone  = max(t, b)
//! shared = ((alone / warps)^4 + b^4)^(1/4)
//! ```
//!
//! `shared` is at least the larger one of both terms, and larger where they are about equal: with few warps, it happens that all of them
//! wait and the unit is idle. Measured on an H200: a product of bytes, whose terms are equal with two warps, takes 0.95 of its time with
//! three.
//!
//! A block's cycles are multiplied by its estimated execution count ([`LOOP_MODEL`]), ten for each enclosing loop. [`Score::value`] is
//! the geometric mean of both sums: a schedule that is twice as fast in one case and half as fast in the other has the same value as
//! before.
//!
//! Example: a block with `t = 80`, `b = 20` and 8 warps has `alone = 80` and `shared = (10^4 + 20^4)^(1/4) = 20.3`. Its busiest unit limits
//! throughput, so shortening the latency chain improves little besides `alone`.

use oriole_hardware::Model;
use oriole_hardware::units::UNITS;
use oriole_ir::Function;
use oriole_ir::analysis::{ControlFlow, LoopModel, Loops};

use crate::backend::measure_allocated_region;
use crate::code::products::ProductRegisters;
use crate::code::{Item, from_ir, from_machine};
use crate::graph::GraphBuilder;
use crate::resource::ResourceCosts;

/// Model of the estimated execution counts of blocks: ten iterations per loop, up to six nested loops.
pub(crate) const LOOP_MODEL: LoopModel = LoopModel { max_depth: 6, ..LoopModel::TEN_ITERATIONS };
/// Maximum number of instructions in a region whose time is estimated. Longer regions are split, which changes the estimate very little.
const MAX_REGION_INSTRUCTIONS: usize = 4096;

/// Estimated execution time of a function for one warp, in cycles.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Score {
    /// Cycles of one warp if it is the only warp on its warp scheduler.
    pub alone: f64,
    /// Cycles per warp when all resident warps run: the time of all of them divided by their number.
    pub shared: f64,
}

impl Score {
    /// Returns the geometric mean of both cases, in cycles. Lower is better.
    pub fn value(self) -> f64 {
        (self.alone * self.shared).sqrt()
    }

    /// Adds the time of a block to the score. `executions` is the estimated number of executions of the block.
    ///
    /// `alone` is the number of cycles of one execution by a lone warp, `busiest_unit_cycles` the number of cycles for which that execution
    /// occupies its busiest unit, and `warps` the number of resident warps per warp scheduler.
    pub(crate) fn add(&mut self, executions: f64, alone: f64, busiest_unit_cycles: f64, warps: u32) {
        self.alone += executions * alone;
        self.shared += executions * fourth_power_sum(alone / f64::from(warps.max(1)), busiest_unit_cycles);
    }
}

/// Returns the fourth root of the sum of the fourth powers of two numbers. Only products and square roots are used, which are the same on
/// all machines.
fn fourth_power_sum(one: f64, other: f64) -> f64 {
    let [one, other] = [one * one, other * other];
    (one * one + other * other).sqrt().sqrt()
}

/// Returns the number of cycles for which one warp keeps the busiest unit busy, or the number of issue slots that it needs if that is
/// larger.
pub(crate) fn busiest_unit_cycles(items: &[Item], costs: &ResourceCosts) -> f64 {
    let mut busy = [0; UNITS];
    let mut issued = 0;
    for item in items.iter().filter(|item| item.opcode.is_some()) {
        busy[costs.unit_index(item.class)] += costs.cycles(item.class).max(1);
        issued += 1;
    }
    f64::from(busy.into_iter().max().unwrap_or(0).max(issued))
}

/// Returns the number of issue slots that a block uses, in cycles, plus the cycles lost by register bank conflicts.
fn issue_cycles_with_conflicts(items: &[Item], conflict_cycles: i32) -> f64 {
    f64::from(items.iter().filter(|item| item.opcode.is_some()).count() as i32 + conflict_cycles)
}

/// The estimated times of the blocks of a function on physical registers, from which the score follows for any number of resident warps.
#[derive(Clone, Debug)]
pub struct ScoredBlocks(Vec<ScoredBlock>);

/// The estimated time of one block.
#[derive(Clone, Copy, Debug)]
struct ScoredBlock {
    /// Estimated number of executions of the block.
    executions: f64,
    /// Number of cycles of one execution by a lone warp.
    alone: f64,
    /// Number of cycles for which one execution occupies its busiest unit.
    busiest_unit_cycles: f64,
}

impl ScoredBlocks {
    /// Estimates the times of the blocks of a function on physical registers.
    pub fn of_function(function: &Function, model: &Model, costs: &ResourceCosts) -> ScoredBlocks {
        let flow = ControlFlow::compute(function);
        let loops = Loops::compute(function, &flow);
        let mut builder = GraphBuilder::new(model, from_machine::empty().registers());
        let products = ProductRegisters::find_in_allocated_code(function);
        let mut times = Vec::with_capacity(function.layout.len());
        let mut code = from_machine::empty();
        for &block in &function.layout {
            code.clear();
            function.blocks[block].insts.iter().for_each(|&inst| from_ir::push_allocated_inst(&mut code, function, &products, inst));
            let (mut length, mut conflicts) = (0, 0);
            for region in code.regions(0..code.items.len(), MAX_REGION_INSTRUCTIONS) {
                let graph = builder.build(&code, region);
                let region = measure_allocated_region(&code, &graph, costs);
                // Later code waits for the last issue of the region or for its results; the estimate takes the mean of both times.
                length += (region.exit_cycle + region.length.done) / 2;
                conflicts += region.conflict_cycles as i32;
            }
            let busiest_unit_cycles = busiest_unit_cycles(&code.items, costs).max(issue_cycles_with_conflicts(&code.items, conflicts));
            let alone = f64::from(length).max(busiest_unit_cycles);
            times.push(ScoredBlock { executions: LOOP_MODEL.executions(loops.depth(block)), alone, busiest_unit_cycles });
        }
        ScoredBlocks(times)
    }

    /// Returns the score of the function with `warps` resident warps per warp scheduler.
    pub fn score(&self, warps: u32) -> Score {
        // Start at one cycle, so that the geometric mean of an empty function is not zero.
        let mut score = Score { alone: 1.0, shared: 1.0 };
        self.0.iter().for_each(|time| score.add(time.executions, time.alone, time.busiest_unit_cycles, warps));
        score
    }
}
