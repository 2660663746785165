//! One alternative: list scheduling with ordered trees and a set of rejections.
//!
//! Ready items are in trees, one for each unit, by three keys: priority, the higher first; latency of the result, the longer first; place in
//! the source. The first of all trees whose unit is free is taken out and looked at. If nothing speaks against it, it is issued. Else it goes
//! to the rejections and the next one is looked at; all rejections go back into the trees before the next step, so they are tried again. If
//! everybody is rejected, the one that costs least is issued.
//!
//! Where registers are scarce or to be saved, costs decide at once: cycles to wait, and registers that a candidate takes.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeSet;

use oriole_hardware::units::Unit;

use super::super::clock::{Clock, Length, release};
use super::super::{Mode, Pick, Reason};
use super::constraint::{PortState, Pressure};
use super::problem::{NO_UNIT, Problem};
use super::score::Marks;

/// Candidates of each tree that are compared by cost.
const OF_EACH_TREE: usize = 4;
/// Candidates that come first in the source, for comparisons by cost.
const BY_POSITION: usize = 12;
/// Candidates whose operands come next, for comparisons by cost.
const BY_TIME: usize = 6;
/// Candidates behind the first that are looked at for their operands.
const BY_PORTS: usize = 4;
/// The cost of a cycle in which a bank delivers alone, and what an operand from the cache saves.
const PORTS: f64 = 0.125;
/// The cost of a register that there is not.
const NO_REGISTER: f64 = 1e6;

/// A latency that can be a key.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Latency(pub f64);

impl Eq for Latency {}

impl PartialOrd for Latency {
    fn partial_cmp(&self, other: &Latency) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Latency {
    fn cmp(&self, other: &Latency) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// The three keys.
pub(super) type Key = (Reverse<i32>, Reverse<Latency>, u32);

/// How an alternative differs from others.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// The first key of each node.
    pub priorities: Vec<i32>,
    /// Cycles that a register is worth where they are scarce.
    pub register_cycles: f64,
    /// From so many live general registers on they are scarce.
    pub scarce_from: i32,
}

/// What came of an alternative.
pub(super) struct Outcome {
    pub order: Vec<u32>,
    pub marks: Marks,
    /// Cycles that were waited for each item.
    pub waits: Vec<u32>,
    pub picks: Vec<Pick>,
}

/// Who is issued, who came second, and why.
struct Choice {
    key: Key,
    runner_up: Option<(u32, Reason)>,
}

/// What speaks against a candidate.
struct Objection {
    cost: f64,
    reason: Reason,
}

pub(super) struct Search<'p> {
    problem: &'p Problem<'p>,
    plan: &'p Plan,
    /// The second key.
    latencies: &'p [f64],
    trees: Vec<BTreeSet<Key>>,
    by_position: BTreeSet<u32>,
    waiting: BTreeSet<(u32, u32)>,
    rejected: Vec<(Key, Objection)>,
    earliest: Vec<u32>,
    left: Vec<u32>,
    clock: Clock<'p>,
    pressure: Pressure,
    ports: PortState,
    /// Matrix products that the current batch may still have.
    batch: u32,
    is_traced: bool,
}

/// Runs an alternative.
pub(super) fn run(problem: &Problem<'_>, plan: &Plan, latencies: &[f64], is_traced: bool) -> Outcome {
    let graph = problem.graph;
    let mut search = Search {
        problem,
        plan,
        latencies,
        trees: vec![BTreeSet::new(); NO_UNIT + 1],
        by_position: BTreeSet::new(),
        waiting: BTreeSet::new(),
        rejected: Vec::new(),
        earliest: vec![0; graph.nodes()],
        left: graph.dependences().to_vec(),
        clock: Clock::new(problem.costs),
        pressure: Pressure::default(),
        ports: PortState::default(),
        batch: 0,
        is_traced,
    };
    search.pressure.start(problem);
    search.fill();
    let mut outcome =
        Outcome { order: Vec::with_capacity(problem.items()), marks: Marks::default(), waits: vec![0; problem.items()], picks: Vec::new() };
    let (mut length, mut exit) = (Length::default(), 0);
    let mut inserted = Vec::new();
    while outcome.order.len() < problem.items() {
        search.advance();
        let Choice { key, runner_up } = search.choose();
        let (node, before) = (key.2, search.clock.cycle);
        let at = search.issue(node, &mut inserted);
        length.add(at, problem.tails[node as usize]);
        exit = exit.max(at + graph.exit(node));
        outcome.waits[node as usize] = at.saturating_sub(before);
        outcome.order.push(node);
        if is_traced {
            let reason = runner_up.map_or(Reason::OnlyOne, |(_, reason)| reason);
            let runner_up = runner_up.map(|(node, _)| problem.position(node));
            outcome.picks.push(Pick { picked: problem.position(node), runner_up, reason, cycle: at });
        }
    }
    outcome.marks = Marks::of(problem, length, exit, &search.pressure, &search.ports);
    outcome
}

impl Search<'_> {
    fn key(&self, node: u32) -> Key {
        (Reverse(self.plan.priorities[node as usize]), Reverse(Latency(self.latencies[node as usize])), node)
    }

    fn unit(&self, node: u32) -> usize {
        self.problem.units[node as usize].into()
    }

    /// Puts all that depends on nothing into the trees; at once, which is faster than one by one.
    fn fill(&mut self) {
        let mut ready: Vec<Vec<Key>> = vec![Vec::new(); NO_UNIT + 1];
        for node in 0..self.problem.items() as u32 {
            if self.left[node as usize] == 0 {
                ready[self.unit(node)].push(self.key(node));
            }
        }
        if self.problem.counts_registers() {
            self.by_position = ready.iter().flatten().map(|key| key.2).collect();
        }
        self.trees = ready.into_iter().map(BTreeSet::from_iter).collect();
    }

    fn insert(&mut self, node: u32) {
        let (key, unit) = (self.key(node), self.unit(node));
        self.trees[unit].insert(key);
        if self.problem.counts_registers() {
            self.by_position.insert(node);
        }
    }

    fn remove(&mut self, key: Key) {
        let unit = self.unit(key.2);
        if self.trees[unit].remove(&key) {
            if self.problem.counts_registers() {
                self.by_position.remove(&key.2);
            }
        } else {
            self.waiting.remove(&(self.earliest[key.2 as usize], key.2));
        }
    }

    /// Takes those whose operands have come into the trees.
    fn advance(&mut self) {
        while let Some(&(earliest, node)) = self.waiting.first() {
            if earliest > self.clock.cycle {
                break;
            }
            self.waiting.pop_first();
            self.insert(node);
        }
    }

    fn unit_free(&self, unit: usize) -> u32 {
        if unit == NO_UNIT { 0 } else { self.clock.free[unit] }
    }

    /// Cycles until an item can be issued.
    fn wait(&self, node: u32) -> u32 {
        let mut from = self.earliest[node as usize].max(self.unit_free(self.unit(node)));
        if self.waits_for_banks(node) {
            from = from.max(self.ports.free);
        }
        from.saturating_sub(self.clock.cycle)
    }

    fn waits_for_banks(&self, node: u32) -> bool {
        !self.problem.ports.is_empty() && self.problem.ports[node as usize].reads_banks()
    }

    fn saves_registers(&self) -> bool {
        self.problem.counts_registers() && (self.problem.settings.mode == Mode::ReduceReg || self.pressure.live[0] > self.plan.scarce_from)
    }

    fn choose(&mut self) -> Choice {
        if let Some(choice) = self.continue_batch() {
            return choice;
        }
        if self.saves_registers() {
            return self.cheapest();
        }
        self.first_without_objection()
    }

    /// The next matrix product, while a batch lasts.
    fn continue_batch(&mut self) -> Option<Choice> {
        if self.batch == 0 {
            return None;
        }
        let key = *self.trees[Unit::Tensor.index()].first()?;
        if self.overflow(key.2) > 0 {
            return None;
        }
        let other = self.is_traced.then(|| self.best_head(|unit| unit != Unit::Tensor.index())).flatten();
        self.remove(key);
        Some(Choice { key, runner_up: other.map(|key| (key.2, Reason::Batch)) })
    }

    /// The first of the trees that may be looked at.
    fn best_head(&self, may: impl Fn(usize) -> bool) -> Option<Key> {
        let heads = self.trees.iter().enumerate().filter(|(unit, tree)| !tree.is_empty() && may(*unit));
        heads.filter_map(|(_, tree)| tree.first()).min().copied()
    }

    fn overflow(&self, node: u32) -> i32 {
        if !self.problem.counts_registers() {
            return 0;
        }
        self.pressure.overflow(self.problem, &self.pressure.change(self.problem, node))
    }

    /// What speaks against issuing an item in this cycle, its unit aside.
    fn objection(&self, node: u32) -> Option<Objection> {
        let overflow = self.overflow(node);
        if overflow > 0 {
            return Some(Objection { cost: NO_REGISTER * f64::from(overflow), reason: Reason::RejectedForRegisters });
        }
        if self.waits_for_banks(node) && self.ports.free > self.clock.cycle {
            let (hits, busy) = self.ports.operands(self.problem, node, self.ports.free);
            let wait = f64::from(self.ports.free - self.clock.cycle);
            return Some(Objection { cost: wait + PORTS * (f64::from(busy) - f64::from(hits)), reason: Reason::RejectedForWait });
        }
        if !self.problem.ports.is_empty() && self.ports.writes_again(self.problem, node) {
            return Some(Objection { cost: 1.0, reason: Reason::RejectedForWrite });
        }
        None
    }

    fn first_without_objection(&mut self) -> Choice {
        let cycle = self.clock.cycle;
        let mut found = None;
        for _ in 0..=self.problem.settings.knobs.tree_rejections {
            let Some(key) = self.best_head(|unit| self.unit_free(unit) <= cycle) else { break };
            let Some(objection) = self.objection(key.2) else {
                found = Some(key);
                break;
            };
            self.remove(key);
            self.rejected.push((key, objection));
        }
        let choice = match found {
            Some(key) => self.accept(key),
            None => self.least_bad(),
        };
        self.remove(choice.key);
        for (key, _) in std::mem::take(&mut self.rejected) {
            if key != choice.key {
                self.insert(key.2);
            }
        }
        choice
    }

    /// The one that was found, or one almost as urgent of the same unit whose operands come easier.
    fn accept(&self, key: Key) -> Choice {
        if !self.problem.ports.is_empty() && self.problem.ports[key.2 as usize].cached {
            let least = key.0.0.saturating_sub(self.problem.settings.knobs.tree_reuse_slack);
            let ease = |node: u32| {
                let (hits, busy) = self.ports.operands(self.problem, node, self.clock.cycle);
                hits as i32 - busy as i32
            };
            let others = self.trees[self.unit(key.2)].iter().take(1 + BY_PORTS).take_while(|other| other.0.0 >= least);
            let easiest = others.filter(|other| self.objection(other.2).is_none()).max_by_key(|other| (ease(other.2), Reverse(**other)));
            if let Some(&easiest) = easiest.filter(|easiest| ease(easiest.2) > ease(key.2)) {
                return Choice { key: easiest, runner_up: Some((key.2, Reason::Ports)) };
            }
        }
        if !self.is_traced {
            return Choice { key, runner_up: None };
        }
        let runner_up = match self.rejected.first() {
            Some((other, objection)) => Some((other.2, objection.reason)),
            None => {
                let unit = self.unit(key.2);
                let behind = self.trees[unit].iter().nth(1).copied();
                let others = self.best_head(|other| other != unit && self.unit_free(other) <= self.clock.cycle);
                behind.into_iter().chain(others).min().map(|other| (other.2, difference(&key, &other)))
            }
        };
        let busy = || self.best_head(|unit| self.unit_free(unit) > self.clock.cycle).map(|other| (other.2, Reason::RejectedForWait));
        Choice { key, runner_up: runner_up.or_else(busy) }
    }

    /// Of those that were rejected, whose unit is busy, or whose operands are still to come.
    fn least_bad(&self) -> Choice {
        let cycle = self.clock.cycle;
        let busy = self.trees.iter().enumerate().filter(|(unit, _)| self.unit_free(*unit) > cycle);
        let busy = busy.filter_map(|(_, tree)| tree.first().copied());
        let coming = self.waiting.iter().take(BY_TIME).map(|&(_, node)| self.key(node));
        let later = busy.chain(coming).map(|key| {
            let overflow = self.overflow(key.2);
            (NO_REGISTER * f64::from(overflow) + f64::from(self.wait(key.2)), key)
        });
        let rejected = self.rejected.iter().map(|(key, objection)| (objection.cost, *key));
        self.two_best(rejected.chain(later), |_, _| Reason::LeastCost)
    }

    /// The candidate of least cost, where registers count.
    fn cheapest(&mut self) -> Choice {
        let of_trees = self.trees.iter().flat_map(|tree| tree.iter().take(OF_EACH_TREE).copied());
        let by_position = self.by_position.iter().take(BY_POSITION).map(|&node| self.key(node));
        let coming = self.waiting.iter().take(BY_TIME).map(|&(_, node)| self.key(node));
        let reduces = self.problem.settings.mode == Mode::ReduceReg;
        let weight = if reduces { NO_REGISTER / 1024.0 } else { self.plan.register_cycles };
        let costs = of_trees.chain(by_position).chain(coming).map(|key| {
            let change = self.pressure.change(self.problem, key.2);
            let overflow = self.pressure.overflow(self.problem, &change);
            let cost = NO_REGISTER * f64::from(overflow) + weight * f64::from(change[0]) + f64::from(self.wait(key.2));
            (cost, key)
        });
        let reason = |best: &Key, other: &Key| {
            let change = |key: &Key| self.pressure.change(self.problem, key.2)[0];
            match change(best).cmp(&change(other)) {
                Ordering::Equal if self.wait(best.2) == self.wait(other.2) => difference(best, other),
                Ordering::Equal => Reason::RejectedForWait,
                _ => Reason::RejectedForRegisters,
            }
        };
        let choice = self.two_best(costs, reason);
        self.remove(choice.key);
        choice
    }

    /// The one of least cost and the one behind it. Candidates may come twice.
    fn two_best(&self, candidates: impl Iterator<Item = (f64, Key)>, reason: impl Fn(&Key, &Key) -> Reason) -> Choice {
        let rank = |a: &(f64, Key), b: &(f64, Key)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
        let mut best: Option<(f64, Key)> = None;
        let mut second: Option<(f64, Key)> = None;
        for candidate in candidates {
            match &best {
                Some(first) if candidate.1 == first.1 => {}
                Some(first) if rank(&candidate, first).is_gt() => {
                    if second.as_ref().is_none_or(|second| rank(&candidate, second).is_lt()) {
                        second = Some(candidate);
                    }
                }
                _ => second = best.replace(candidate),
            }
        }
        let Some((_, key)) = best else { unreachable!("a graph without circles has somebody who is ready") };
        Choice { key, runner_up: second.filter(|_| self.is_traced).map(|(_, other)| (other.2, reason(&key, &other))) }
    }

    fn issue(&mut self, node: u32, inserted: &mut Vec<u32>) -> u32 {
        let problem = self.problem;
        let item = &problem.code.items[problem.position(node)];
        let mut from = self.earliest[node as usize];
        if self.waits_for_banks(node) {
            from = from.max(self.ports.free);
        }
        let at = self.clock.issue(item.class, item.opcode.is_none(), from);
        if problem.counts_registers() {
            self.pressure.step(problem, node);
        } else {
            self.ports.step(problem, node, at);
        }
        if problem.settings.mode == Mode::DynBatch {
            let is_product = self.unit(node) == Unit::Tensor.index();
            let size = if self.batch > 0 { self.batch } else { problem.settings.knobs.batch };
            self.batch = if is_product { size.saturating_sub(1) } else { 0 };
        }
        inserted.clear();
        let Search { earliest, left, .. } = self;
        release(problem.graph, node, at, earliest, left, &mut |node| inserted.push(node));
        for &node in inserted.iter() {
            let earliest = self.earliest[node as usize];
            if earliest > self.clock.cycle {
                self.waiting.insert((earliest, node));
            } else {
                self.insert(node);
            }
        }
        at
    }
}

/// The key in which two candidates differ.
fn difference(first: &Key, second: &Key) -> Reason {
    if first.0 != second.0 {
        Reason::Priority
    } else if first.1 != second.1 {
        Reason::ResultLatency
    } else {
        Reason::Position
    }
}
