//! What an order is worth: one number, the higher the better.
//!
//! | part | weight | where |
//! |---|---|---|
//! | cycles until the branch or call behind the region can be issued, and until results are there, on average | 1 | everywhere |
//! | general registers above the budget | [`OVER_BUDGET`] | before allocation |
//! | most general registers that are live | `reduce-reg` 64, else 1/64 | before allocation |
//! | cycles in which a bank delivers alone | `tree-conflict-cycles` | after allocation |
//! | operands from the reuse cache | half of that | after allocation |
//!
//! The clock is that of all backends, except that after allocation an instruction also waits for the banks.

use super::super::Mode;
use super::super::clock::{Clock, Length, release};
use super::constraint::{PortState, Pressure};
use super::problem::Problem;

/// A register that there is not.
const OVER_BUDGET: f64 = 4096.0;

/// What the parts of a score count.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Weights {
    pub cycle: f64,
    pub over_budget: f64,
    pub register: f64,
    pub hit: f64,
    pub conflict: f64,
}

impl Weights {
    pub fn of(problem: &Problem<'_>) -> Weights {
        let register = if problem.settings.mode == Mode::ReduceReg { 64.0 } else { 1.0 / 64.0 };
        let conflict = problem.settings.knobs.tree_conflict_cycles;
        if problem.counts_registers() {
            Weights { cycle: 1.0, over_budget: OVER_BUDGET, register, hit: 0.0, conflict: 0.0 }
        } else {
            Weights { cycle: 1.0, over_budget: 0.0, register: 0.0, hit: conflict / 2.0, conflict }
        }
    }
}

/// What scores are made of.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub(super) struct Marks {
    pub length: Length,
    /// The cycle in which the wall behind the region can be issued.
    pub exit: u32,
    /// Registers beyond the budget at the worst place.
    pub excess: i32,
    pub peak: i32,
    pub hits: u32,
    pub conflicts: u32,
}

impl Marks {
    pub fn of(problem: &Problem<'_>, length: Length, exit: u32, pressure: &Pressure, ports: &PortState) -> Marks {
        let (excess, peak) = if problem.counts_registers() { (pressure.excess(problem), pressure.peak[0]) } else { (0, 0) };
        Marks { length, exit: exit.max(length.issued), excess, peak, hits: ports.hits, conflicts: ports.conflicts }
    }

    pub fn score(&self, weights: &Weights) -> f64 {
        let cycles = f64::from(self.exit + self.length.done) / 2.0;
        weights.hit * f64::from(self.hits)
            - weights.cycle * cycles
            - weights.over_budget * f64::from(self.excess)
            - weights.register * f64::from(self.peak)
            - weights.conflict * f64::from(self.conflicts)
    }
}

/// The marks of a given order, by nodes.
pub(super) fn marks(problem: &Problem<'_>, order: impl Iterator<Item = u32>) -> Marks {
    let graph = problem.graph;
    let mut earliest = vec![0; graph.nodes()];
    let mut left = graph.dependences().to_vec();
    let mut clock = Clock::new(problem.costs);
    let (mut length, mut exit) = (Length::default(), 0);
    let mut pressure = Pressure::default();
    pressure.start(problem);
    let mut ports = PortState::default();
    for node in order {
        let item = &problem.code.items[problem.position(node)];
        let mut from = earliest[node as usize];
        if !problem.ports.is_empty() && problem.ports[node as usize].reads_banks() {
            from = from.max(ports.free);
        }
        let at = clock.issue(item.class, item.opcode.is_none(), from);
        length.add(at, problem.tails[node as usize]);
        exit = exit.max(at + graph.exit(node));
        if problem.counts_registers() {
            pressure.step(problem, node);
        } else {
            ports.step(problem, node, at);
        }
        release(graph, node, at, &mut earliest, &mut left, &mut |_| {});
    }
    Marks::of(problem, length, exit, &pressure, &ports)
}
