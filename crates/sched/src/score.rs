//! How long a function takes, from its final order alone: the measure by which whole schedules are compared.
//!
//! Nobody knows how a kernel will be launched, so two cases are looked at: a warp alone on its scheduler, where latencies count, and as many
//! warps as its registers allow, where units and issue slots count too. A block takes a warp as long as backend C reckons ([`appraise`]: with
//! banks of registers and the reuse cache); *n* warps take it as long as that or as long as the busiest unit works for all of them,
//! whichever is more. Blocks count by how often they are likely
//! executed: [`LOOP`] times for each loop around them. The score is the geometric mean of both cases, so a schedule that is twice as
//! good in one and half as good in the other is neither better nor worse.

use oriole_hardware::Model;
use oriole_ir::Function;
use oriole_ir::analysis::{ControlFlow, Loops};

use crate::backend::tree::appraise;
use crate::backend::{Backend, Budget, Knobs, Mode, Settings, Stage};
use crate::code::{Item, from_ir, from_machine};
use crate::graph::Builder;
use crate::offer::busiest;
use crate::resource::Costs;

/// How often a loop is likely executed.
const LOOP: f64 = 10.0;
/// Loops around a block that still count.
const DEEPEST: u32 = 6;
/// Regions are cut here: the estimate of longer ones needs no more context.
const LONGEST_REGION: usize = 4096;

/// How often a block inside of so many loops is likely executed.
pub(crate) fn executions(depth: u32) -> f64 {
    LOOP.powi(depth.min(DEEPEST) as i32)
}

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

    /// Adds a block that takes a warp so long alone and that keeps its busiest unit so long.
    pub(crate) fn add(&mut self, executions: f64, alone: f64, busiest: f64, warps: u32) {
        self.alone += executions * alone;
        self.shared += executions * (alone / f64::from(warps.max(1))).max(busiest);
    }
}

/// Issue slots of a block, those lost by conflicts of banks included.
fn issued_with(items: &[Item], conflicts: i32) -> f64 {
    f64::from(items.iter().filter(|item| item.opcode.is_some()).count() as i32 + conflicts)
}

/// The score of a function on registers, with so many warps on each scheduler.
pub fn score(function: &Function, model: &Model, costs: &Costs, warps: u32) -> Score {
    let flow = ControlFlow::compute(function);
    let loops = Loops::compute(function, &flow);
    let mut score = Score { alone: 1.0, shared: 1.0 };
    let mut builder = Builder::new(model, from_machine::empty().registers());
    let settings = Settings {
        backend: Backend::C,
        mode: Mode::Ilp,
        stage: Stage::Post,
        budget: Budget::UNLIMITED,
        knobs: Knobs::default(),
        trace: false,
    };
    for &block in &function.layout {
        let mut code = from_machine::empty();
        function.blocks[block].insts.iter().for_each(|&inst| from_ir::push_allocated(&mut code, function, inst));
        let (mut length, mut conflicts) = (0, 0);
        for region in code.regions(0..code.items.len(), LONGEST_REGION) {
            let graph = builder.build(&code, region);
            let region = appraise(&code, &graph, costs, &settings);
            length += region.cycles;
            conflicts += region.conflicts as i32;
        }
        let busiest = busiest(&code.items, costs).max(issued_with(&code.items, conflicts));
        score.add(executions(loops.depth(block)), f64::from(length).max(busiest), busiest, warps);
    }
    score
}
