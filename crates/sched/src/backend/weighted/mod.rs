//! Backend B: forward, then backward list scheduling by a weighted sum.
//!
//! A region is scheduled twice. The **forward pass** goes from the first instruction to the last and leaves an order and a cycle for each
//! instruction. The **backward pass** goes from the last to the first with the same score mirrored, and with the forward cycles as a second
//! axis. The common clock ([`super::clock`]) then says which of the two orders is shorter; that one stays, if it has enough registers. After
//! allocation, where registers do not count, there is no backward pass where the forward one has found an order than which none is shorter.
//!
//! **The score** of a candidate, higher is better, is a sum of three parts without a unit ([`score`]):
//!
//! | part | weight | measure |
//! |---|---|---|
//! | registers | `pressure-weight` 1.8 | registers that die less those that begin to live, divided by the register range |
//! | parallelism | one minus it, -0.8 | how much shorter its way to the end is than the longest, and the issue slots lost by waiting for it |
//! | forward | `forward-weight` 3.2, one minus it -2.2 | later in the forward order; cycles it would wait, both divided by the range (backward only) |
//!
//! The *register range* is the budget less the registers that no order can do without, those live at an end of the region.
//! In `ilp` and `dyn-batch` the first part grows with the registers in use, from nothing at the lower end of the range; above the
//! common mark of scarcity, and always in `reduce-reg`, a register counts whole, more than all parallelism. After allocation the range is
//! endless and registers do not count at all.
//!
//! **The queue** ([`ready`]) is several: one for each unit by the length of the way, one by registers, one by time for those whose
//! operands are not there. Of each a few are looked at, so a step costs the same however wide the region is. All is O(n log n).
//!
//! **What leaves the region.** A result that the wall behind the region reads, most often a branch its predicate, is wanted when the wall
//! is issued; all others some cycles later ([`view::Leaving`]). Of two orders the one with which the wall can go on first is the better.
//!
//! **Departures from the description**, which is terse here:
//!
//! | what | description | here | why |
//! |---|---|---|---|
//! | ILP weight | -0.8, "penalizes moves that reduce available parallelism" | its absolute value, on what is lost | with a weight below one it would turn into a reward for loss |
//! | slopes | ILP weight and backward penalty divided by the range | all weights are; scarce registers count whole | a slope on one side of a balance moves nothing |
//! | range | of the machine's registers | budget less what is live at an end of the region | below that no order comes |
//! | weights | given to the backward pass | used in both | a first order without regard to registers is of no use |
//! | the two orders | not said | the shorter by the common clock, within the budget | |
//! | balance | registers first | so in `reduce-reg`; else parallelism first while registers last | the modes are common to all backends |
//! | units | not said | a queue for each | else a busy unit hides those who could use another |
//! | FNV-1a tables | for instructions | dense vectors | |

mod pass;
mod ready;
mod registers;
mod score;
mod view;

use super::clock::{Clock, least, release};
use super::{Length, Mode, Pick, Schedule, Settings, Stage};
use crate::code::Code;
use crate::graph::Graph;
use crate::pressure::{Counts, Tracker};
use crate::resource::{Costs, ResourceVector};
use pass::{Found, Pass, Work};
use registers::{Groups, Live};
use score::Weights;
use view::{Direction, Leaving, View};

/// Schedules a region. The tracker stands at its start, and afterwards at its end.
pub fn schedule(code: &Code, graph: &Graph, costs: &Costs, settings: &Settings, tracker: &mut Tracker) -> Schedule {
    tracker.enter_region(code, graph.region.clone());
    let counts_registers = settings.stage == Stage::Pre;
    let groups = counts_registers.then(|| Groups::new(code, graph, tracker));
    let groups = groups.as_ref();
    let weights = Weights::new(settings, groups);
    let leaving = Leaving::of(code, graph);
    let work = Work::of_region(code, graph, costs);
    let forward = Pass::new(View::forward(graph, &leaving), &work, settings, &weights, groups, None).run();
    let forward = Attempt::new(code, graph, costs, groups, &leaving, forward);
    let best = if !counts_registers && !settings.trace && forward.is_shortest(code, graph, costs) {
        forward
    } else {
        let cycles = Some(&forward.cycles[..]);
        let backward = Pass::new(View::backward(graph, &leaving), &work, settings, &weights, groups, cycles).run();
        let backward = Attempt::new(code, graph, costs, groups, &leaving, backward);
        if backward.is_better_than(&forward, settings) { backward } else { forward }
    };
    for &position in &best.order {
        tracker.step(code, &code.items[position]);
    }
    best.into_schedule(settings)
}

/// An order with what the common clock says of it.
struct Attempt {
    order: Vec<usize>,
    picks: Vec<Pick>,
    length: Length,
    /// Cycles until the wall behind the region has what it reads.
    wall: u32,
    peak: Counts,
    /// When each node is issued.
    cycles: Vec<u32>,
    usage: ResourceVector,
    most_scoreboards: usize,
}

impl Attempt {
    fn new(code: &Code, graph: &Graph, costs: &Costs, groups: Option<&Groups>, leaving: &Leaving, found: Found) -> Attempt {
        let Found { order, picks } = found;
        let mut clock = Clock::new(costs);
        let mut earliest = vec![0; graph.nodes()];
        let mut left = graph.dependences().to_vec();
        let mut cycles = vec![0; graph.items()];
        let mut length = Length::default();
        for &node in &order {
            let item = &code.items[graph.region.start + node as usize];
            let at = clock.issue(item.class, item.opcode.is_none(), earliest[node as usize]);
            cycles[node as usize] = at;
            length.add(at, graph.tail(node));
            let scoreboards = graph.successors(node).iter().filter(|edge| edge.scoreboard);
            if let Some(latency) = scoreboards.map(|edge| edge.latency).max() {
                clock.fly(at + u32::from(latency));
            }
            release(graph, node, at, &mut earliest, &mut left, &mut |_| {});
        }
        let peak = groups.map_or([0; 4], |groups| {
            let mut live = Live::new(groups, Direction::Forward);
            order.iter().for_each(|&node| live.step(node, &mut |_| {}));
            live.peak()
        });
        let read_at = |&node: &u32| cycles[node as usize] + leaving.tails[node as usize];
        let wall = leaving.read_by_wall.iter().map(read_at).max().unwrap_or(0).max(length.issued);
        let (usage, most_scoreboards) = (clock.usage, clock.most_in_flight);
        let order = order.iter().map(|&node| graph.region.start + node as usize).collect();
        Attempt { order, picks, length, wall, peak, cycles, usage, most_scoreboards }
    }

    /// Whether no order is shorter.
    fn is_shortest(&self, code: &Code, graph: &Graph, costs: &Costs) -> bool {
        let least = least(code, graph, costs);
        self.wall + self.length.done <= least.issued + least.done
    }

    /// Registers beyond the budget.
    fn excess(&self, settings: &Settings) -> i32 {
        self.peak.iter().zip(settings.budget.registers).map(|(peak, budget)| (peak - budget).max(0)).sum()
    }

    fn is_better_than(&self, other: &Attempt, settings: &Settings) -> bool {
        let excess = self.excess(settings).cmp(&other.excess(settings));
        let registers = self.peak[0].cmp(&other.peak[0]);
        let cycles = (self.wall + self.length.done).cmp(&(other.wall + other.length.done));
        let later = if settings.mode == Mode::ReduceReg { registers.then(cycles) } else { cycles.then(registers) };
        excess.then(later).is_lt()
    }

    fn into_schedule(mut self, settings: &Settings) -> Schedule {
        if settings.trace {
            let first = self.order.iter().copied().min().unwrap_or(0);
            for pick in &mut self.picks {
                pick.cycle = self.cycles[pick.picked - first];
            }
        }
        Schedule {
            order: self.order,
            length: self.length,
            usage: self.usage,
            most_scoreboards: self.most_scoreboards,
            wants_registers: false,
            picks: self.picks,
        }
    }
}

#[cfg(test)]
mod tests;
