//! How long a function takes, from its final order alone: the measure by which whole schedules are compared.
//!
//! Nobody knows how a kernel will be launched, so two cases are looked at: a warp alone on its scheduler, where latencies count, and as many
//! warps as its registers allow, where units and issue slots count too. A block takes a warp [`estimate`] cycles by itself; *n* warps take
//! it as long as that or as long as the busiest unit works for all of them, whichever is more. Blocks count by how often they are likely
//! executed: [`LOOP`] times for each loop around them. The score is the geometric mean of both cases, so a schedule that is twice as
//! good in one and half as good in the other is neither better nor worse.

use oriole_hardware::Model;
use oriole_hardware::units::UNITS;
use oriole_ir::Function;
use oriole_ir::analysis::{ControlFlow, Loops};

use crate::backend::estimate;
use crate::code::{from_ir, from_machine};
use crate::graph::Builder;
use crate::resource::Costs;

/// How often a loop is likely executed.
const LOOP: f64 = 10.0;
/// Loops around a block that still count.
const DEEPEST: u32 = 6;
/// Regions are cut here: the estimate of longer ones needs no more context.
const LONGEST_REGION: usize = 4096;

/// Cycles of a warp.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Score {
    /// Alone on its scheduler.
    pub alone: f64,
    /// Its share of the time of all resident warps.
    pub shared: f64,
}

impl Score {
    /// One figure for both; less is better.
    pub fn value(self) -> f64 {
        (self.alone * self.shared).sqrt()
    }
}

/// The score of a function on registers, with so many warps on each scheduler.
pub fn score(function: &Function, model: &Model, costs: &Costs, warps: u32) -> Score {
    let flow = ControlFlow::compute(function);
    let loops = Loops::compute(function, &flow);
    let warps = f64::from(warps.max(1));
    let mut score = Score { alone: 1.0, shared: 1.0 };
    let mut builder = Builder::new(model, from_machine::empty().registers());
    for &block in &function.layout {
        let mut code = from_machine::empty();
        function.blocks[block].insts.iter().for_each(|&inst| from_ir::push_allocated(&mut code, function, inst));
        let mut length = 0;
        for region in code.regions(0..code.items.len(), LONGEST_REGION) {
            let graph = builder.build(&code, region.clone());
            let region = estimate(&code, &graph, costs, region);
            length += (region.issued + region.done) / 2;
        }
        let mut busy = [0; UNITS];
        let mut issued = 0;
        for item in code.items.iter().filter(|item| item.opcode.is_some()) {
            busy[costs.unit(item.class)] += costs.cycles(item.class).max(1);
            issued += 1;
        }
        let busiest = f64::from(busy.into_iter().max().unwrap_or(0).max(issued));
        let alone = f64::from(length).max(busiest);
        let times = LOOP.powi(loops.depth(block).min(DEEPEST) as i32);
        score.alone += times * alone;
        score.shared += times * (alone / warps).max(busiest);
    }
    score
}
