//! Backend C: a list scheduler with ordered trees that tries several orders and keeps the best.
//!
//! ```text
//! region ─▶ problem ─▶ seen before? ──────────────yes─────────────┐
//!              │no                                                 │
//!              ▼                                                   ▼
//!           alternatives: plan ─▶ search ─▶ score ─▶ commit? ─▶ order
//!              ▲                              │
//!              └──────── waits, rejections ───┘
//! ```
//!
//! **Evaluate, then commit.** The order of the source has a score ([`score`]), and that is the first threshold. Each alternative is a whole
//! order by its own plan ([`search`]); it is committed only if its score is above the threshold, which then is the new one. What an
//! alternative had to wait for raises priorities in the next. When an order cannot get better (critical path, units), the rest is left out.
//!
//! **What a region is scheduled for** is the wall behind it: a branch waits for its predicate, a call for its arguments
//! ([`Graph::exit`]). Other results that leave the region are taken to be read by instructions like those that made them
//! ([`Graph::typical_tail`]): with the slowest reader that there could be, every sum would look as urgent as a branch's predicate.
//!
//! **Plans** differ in the first key of the tree, and before allocation in what a register is worth:
//!
//! 1. cycles from the item to the end of the region;
//! 2. the same, plus what was waited for each item in the alternative before, for all that it depends on;
//! 3. the order of the source: only what would have to wait is passed over;
//! 4. cycles to the end in steps of 16, so that small differences leave the order of the source;
//! 5. further ones like 2, each from the one before, with registers worth twice as much.
//!
//! **Modes** alter the weights: `reduce-reg` looks for few live registers first and for cycles among equals; `ilp` for cycles within the
//! budget; `dyn-batch` as `ilp`, with matrix products in batches.
//!
//! **Stages.** Before allocation registers are counted against the budget ([`constraint`]). After it the ports of the register file are
//! looked at: banks, reuse cache, two writes in a row; spills and reloads are loads and stores like others, with their latencies.
//!
//! **Departures from the description.**
//!
//! | what | description | here | why |
//! |---|---|---|---|
//! | tree | one red-black tree | a `BTreeSet` for each unit, whose heads are compared | the same order; what waits for a busy unit is not looked at |
//! | what is in it | all instructions of the block | those that depend on nothing any more | else an instruction could go before what it depends on |
//! | rejections | a rejected pick is left out of the schedule | it goes back before the next step | every instruction is wanted |
//! | priority | a number of unknown origin | the plans above | |
//! | score | sums of (priority - 2) x latency and latency x weight | cycles, registers, operands | those sums are the same for every order |
//! | threshold | a fixed number | the best so far, at first that of the source | |
//! | at most two operands of a bank | forbidden | costs cycles | three operands of one bank are legal |
//! | cost of callees | recursion over predecessors | [`CallCosts`], which shorten what must be waited for before a call | |
//! | validator | modes 5 and 6 | the two stages | no more is said of them |
//! | between blocks | a pass of its own | none | nothing moves between blocks |

mod cache;
pub mod calls;
mod constraint;
mod problem;
mod score;
mod search;

use super::clock::{Clock, release};
use super::{Pick, Reason, Schedule, Settings};
use crate::code::Code;
use crate::graph::Graph;
use crate::pressure::Tracker;
use crate::resource::Costs;
pub use cache::Solutions;
pub use calls::{CallCosts, Callee};
use problem::Problem;
use score::{Marks, Weights};
use search::{Outcome, Plan};

/// Cycles in which priorities of the fourth plan are counted.
const STEP: i32 = 16;
/// The largest priority.
const MOST: u32 = i32::MAX as u32 / 2;

/// Schedules a region. The tracker stands at its start, and afterwards at its end.
pub fn schedule(
    code: &Code,
    graph: &Graph,
    costs: &Costs,
    settings: &Settings,
    tracker: &mut Tracker,
    solutions: &mut Solutions,
) -> Schedule {
    tracker.enter_region(code, graph.region.clone());
    let problem = Problem::new(code, graph, costs, settings, tracker);
    let signature = (problem.items() <= cache::LARGEST).then(|| problem.signature());
    let known = signature.as_ref().and_then(|signature| solutions.find(signature));
    let (order, picks, wants_registers) = match known {
        Some((order, wants_registers)) => (order.to_vec(), unexplained(&problem, order, Reason::Remembered), wants_registers),
        None => {
            let (order, picks, wants_registers) = solve(&problem);
            if let Some(signature) = signature {
                solutions.keep(signature, &order, wants_registers, settings.knobs.tree_solutions);
            }
            (order, picks, wants_registers)
        }
    };
    Schedule { wants_registers, ..replay(&problem, &order, picks, tracker) }
}

/// Picks that have no runner-up.
fn unexplained(problem: &Problem<'_>, order: &[u32], reason: Reason) -> Vec<Pick> {
    if !problem.settings.trace {
        return Vec::new();
    }
    order.iter().map(|&node| Pick { picked: problem.position(node), runner_up: None, reason, cycle: 0 }).collect()
}

/// Searches for the best order; also says whether one of those that were tried wanted scarce registers.
fn solve(problem: &Problem<'_>) -> (Vec<u32>, Vec<Pick>, bool) {
    let mut wants_registers = false;
    let weights = Weights::of(problem);
    let source: Vec<u32> = (0..problem.items() as u32).collect();
    let mut threshold = score::marks(problem, source.iter().copied()).score(&weights);
    let mut best: Option<(Plan, Vec<u32>)> = None;
    let plans = Plans::new(problem);
    let mut last: Option<(Plan, Outcome)> = None;
    for number in 0..plans.count() {
        let plan = plans.plan(number, last.as_ref().map(|(plan, outcome)| (plan, outcome)));
        let outcome = search::run(problem, &plan, &plans.latencies, false);
        let score = outcome.marks.score(&weights);
        wants_registers |= outcome.marks.peak > problem.settings.budget.reduced;
        if score > threshold {
            threshold = score;
            best = Some((plan.clone(), outcome.order.clone()));
        }
        let is_perfect = plans.is_perfect(&outcome.marks);
        last = Some((plan, outcome));
        if is_perfect {
            break;
        }
    }
    match best {
        None => {
            let picks = unexplained(problem, &source, Reason::SourceOrder);
            (source, picks, wants_registers)
        }
        Some((plan, order)) => {
            let picks = if problem.settings.trace { search::run(problem, &plan, &plans.latencies, true).picks } else { Vec::new() };
            (order, picks, wants_registers)
        }
    }
}

/// The plans for a region.
struct Plans<'p> {
    problem: &'p Problem<'p>,
    heights: Vec<u32>,
    latencies: Vec<f64>,
    /// No order is issued or done sooner.
    least_issued: u32,
    least_done: u32,
}

impl<'p> Plans<'p> {
    fn new(problem: &'p Problem<'p>) -> Plans<'p> {
        let graph = problem.graph;
        let heights = heights(problem, &[]);
        let latency = |node: u32| {
            let edges = graph.successors(node);
            let longest = edges.iter().map(|edge| edge.latency).max().unwrap_or(0);
            f64::from(u32::from(longest).max(problem.tails[node as usize])) + edges.len() as f64 / 1024.0
        };
        let latencies = (0..graph.items() as u32).map(latency).collect();
        // The last of a unit's items may be issued when those before have left the unit.
        let mut usage = [(0_u32, 0_u32); problem::NO_UNIT];
        let mut real = 0;
        for (item, &unit) in problem.code.items[graph.region.clone()].iter().zip(&problem.units) {
            if let Some((sum, most)) = usage.get_mut(usize::from(unit)) {
                let cycles = problem.costs.cycles(item.class).max(1) as u32;
                (*sum, *most) = (*sum + cycles, cycles.max(*most));
                real += 1;
            }
        }
        let of_units = usage.iter().map(|(sum, most)| sum - most + 1).max().unwrap_or(0);
        let deepest = graph.depths()[..graph.items()].iter().copied().max().unwrap_or(0) + 1;
        let least_done = heights.iter().copied().max().unwrap_or(0);
        Plans { problem, least_issued: deepest.max(of_units).max(real), least_done, heights, latencies }
    }

    fn count(&self) -> usize {
        let knobs = &self.problem.settings.knobs;
        (knobs.tree_work / self.problem.items().max(1)).min(knobs.tree_alternatives).max(1)
    }

    /// Whether no order can be better. Where registers count, fewer of them may be.
    fn is_perfect(&self, marks: &Marks) -> bool {
        let is_short = marks.exit <= self.least_issued && marks.length.done <= self.least_done;
        is_short && marks.conflicts == 0 && !self.problem.counts_registers()
    }

    fn plan(&self, number: usize, last: Option<(&Plan, &Outcome)>) -> Plan {
        let settings = self.problem.settings;
        let priority = |height: u32| height.min(MOST) as i32;
        let priorities: Vec<i32> = match (number, last) {
            (2, _) => (0..self.problem.graph.nodes() as i32).map(|node| -node).collect(),
            (3, _) => self.heights.iter().map(|&height| priority(height) / STEP).collect(),
            (0, _) | (_, None) => self.heights.iter().map(|&height| priority(height)).collect(),
            (_, Some((_, outcome))) => heights(self.problem, &outcome.waits).into_iter().map(priority).collect(),
        };
        let register_cycles = settings.knobs.tree_register_cycles;
        match last {
            Some((plan, outcome)) if outcome.marks.excess > 0 => Plan {
                priorities,
                register_cycles: plan.register_cycles * 2.0,
                scarce_from: plan.scarce_from - outcome.marks.excess.min(plan.scarce_from / 4),
            },
            Some((plan, _)) if number > 3 => {
                Plan { priorities, register_cycles: plan.register_cycles * 2.0, scarce_from: settings.budget.reduced }
            }
            _ => Plan { priorities, register_cycles, scarce_from: settings.budget.reduced },
        }
    }
}

/// Cycles from each node's issue to the end of the region, plus what is said of each item for all that it depends on.
fn heights(problem: &Problem<'_>, added: &[u32]) -> Vec<u32> {
    let graph = problem.graph;
    let mut heights = vec![0_u32; graph.nodes()];
    for &node in graph.order.iter().rev() {
        let below = graph.successors(node).iter().map(|edge| heights[edge.node as usize].saturating_add(edge.latency.into()));
        let tail = problem.tails.get(node as usize).copied().unwrap_or_default();
        let more = added.get(node as usize).copied().unwrap_or_default();
        heights[node as usize] = below.max().unwrap_or(0).max(tail).saturating_add(more);
    }
    heights
}

/// Issues an order once more, on the clock that all backends share.
fn replay(problem: &Problem<'_>, order: &[u32], mut picks: Vec<Pick>, tracker: &mut Tracker) -> Schedule {
    let graph = problem.graph;
    let mut earliest = vec![0; graph.nodes()];
    let mut left = graph.dependences().to_vec();
    let mut clock = Clock::new(problem.costs);
    let mut schedule = Schedule { order: Vec::with_capacity(order.len()), ..Schedule::default() };
    for (number, &node) in order.iter().enumerate() {
        let position = problem.position(node);
        let item = &problem.code.items[position];
        let at = clock.issue(item.class, item.opcode.is_none(), earliest[node as usize]);
        schedule.length.add(at, graph.tail(node));
        let until = graph.successors(node).iter().filter(|edge| edge.scoreboard).map(|edge| at + u32::from(edge.latency)).max();
        until.into_iter().for_each(|until| clock.fly(until));
        release(graph, node, at, &mut earliest, &mut left, &mut |_| {});
        tracker.step(problem.code, item);
        schedule.order.push(position);
        if let Some(pick) = picks.get_mut(number) {
            pick.cycle = at;
        }
    }
    schedule.usage = clock.usage;
    schedule.most_scoreboards = clock.most_in_flight;
    schedule.picks = picks;
    schedule
}

#[cfg(test)]
mod tests;
