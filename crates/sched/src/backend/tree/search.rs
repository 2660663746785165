//! One attempt of backend C: forward list scheduling with ordered trees and a set of rejected candidates.
//!
//! Input: a problem and a plan (priorities, cost of a register). Output: an order, the measurements for its score, and the stall cycles of
//! each item, which the next plan uses.
//!
//! Ready items with available operands are in ordered trees, one per functional unit. The key has three parts: priority (higher first),
//! result latency (longer first), original order. At each step the scheduler takes the item with the first key in the trees of the free
//! units. If there is no objection to that item ([`AttemptSearch::objection`]), it issues. Otherwise the item is put aside as rejected and
//! the next one is examined. If all are rejected, or more than `tree-rejections` of them, the candidate with the lowest cost issues. After
//! register allocation, an item of the same unit with nearly the same priority may replace the chosen one if its operands are cheaper
//! (reuse cache, bank conflicts). Rejected items return to their trees before the next step.
//!
//! When registers are scarce, or the mode is `reduce-reg`, the trees are not followed. A bounded window of candidates is compared by cost
//! instead: stall cycles, plus the registers that a candidate takes, converted to cycles. This trades the critical path against register
//! pressure as in Goodman and Hsu, "Code Scheduling and Register Allocation in Large Basic Blocks" (1988): the goal switches when the
//! number of live registers passes a threshold.
//!
//! Example after register allocation. Three items are ready, in the order of their priorities: `FFMA R8, R2, R4, R6`, `FADD R9, R1, R3`
//! and `LDG R10, [R12]`. All units are free.
//!
//! ```text
//! cycle  banks free from  decision
//! 0      0                FFMA issues. Its three even registers occupy their bank until cycle 3
//! 1      3                FADD is rejected: it would wait two cycles for the banks. LDG issues: it does not read through the banks
//! 2      3                FADD is rejected again. There is no other candidate, so it has the lowest cost and issues in cycle 3
//! ```

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeSet;

use oriole_hardware::units::Unit;

use super::super::clock::{Clock, release};
use super::super::ports::{OrderLength, PortState};
use super::super::reason::Reason;
use super::super::schedule::ScheduleDecision;
use super::super::settings::ScheduleMode;
use super::constraint::LiveRegisters;
use super::problem::{NO_UNIT, SearchProblem};
use super::score::ScoreMeasurements;

/// Number of items of each tree that are compared by cost in a step: those with the highest priorities.
const CANDIDATES_FROM_EACH_TREE: usize = 4;
/// Number of items that are compared by cost in a step because they come first in the original order.
const CANDIDATES_BY_POSITION: usize = 12;
/// Number of items with operands in flight that are compared by cost in a step: those whose operands arrive first.
const CANDIDATES_BY_ARRIVAL: usize = 6;
/// Number of items, in addition to the first of a tree, whose register bank conflicts and reuse cache hits are compared in a step.
const CANDIDATES_BY_PORTS: usize = 4;
/// Cost, in cycles, of a cycle lost by a bank conflict when rejected items are compared. An operand from the reuse cache counts as a gain
/// of the same size.
const CONFLICT_COST_CYCLES: f64 = 0.125;
/// Penalty for exceeding the register budget, in cycles per register.
const OVER_BUDGET_CYCLES_PER_REGISTER: f64 = 1e6;

/// A latency in cycles that implements `Ord`, so that it can be part of a tree key.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct OrderedLatency(pub f64);

impl Eq for OrderedLatency {}

impl PartialOrd for OrderedLatency {
    fn partial_cmp(&self, other: &OrderedLatency) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for OrderedLatency {
    fn cmp(&self, other: &OrderedLatency) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Sort key of an item in the ordered trees: priority, result latency, node. The smallest key is the best candidate.
pub(super) type TreeKey = (Reverse<i32>, Reverse<OrderedLatency>, u32);

/// The parameters of an attempt, which is one list schedule of the region.
#[derive(Clone, Debug)]
pub(super) struct AttemptPlan {
    /// Priority of each node, the first part of its key: in cycles, in steps of 16 cycles, or by position, depending on the plan.
    pub priorities: Vec<i32>,
    /// Cost of a live register when registers are scarce, in cycles.
    pub register_cycles: f64,
    /// Registers count as scarce if more general registers than this are live.
    pub scarce_above: i32,
}

impl AttemptPlan {
    /// `result` is the result of an attempt with the plan `other`. Returns whether an attempt with this plan is certain to give the same
    /// order. It is if the priorities are equal and either registers have the same cost and threshold, or the attempt never compared
    /// candidates by cost and this plan starts to do so at no lower number of live registers.
    pub(super) fn gives_order_of(&self, other: &AttemptPlan, result: &AttemptResult) -> bool {
        let costs_registers_alike = self.register_cycles == other.register_cycles && self.scarce_above == other.scarce_above;
        let never_costs_registers = !result.compared_by_cost && self.scarce_above >= other.scarce_above;
        (costs_registers_alike || never_costs_registers) && self.priorities == other.priorities
    }
}

/// The order that an attempt found, with the measurements for its score and the stall cycles of each item.
pub(super) struct AttemptResult {
    /// The order, as nodes of the dependency graph.
    pub order: Vec<u32>,
    /// The measurements from which the score is computed.
    pub measurements: ScoreMeasurements,
    /// For each item, the number of stall cycles before its issue.
    pub stall_cycles: Vec<u32>,
    /// Whether candidates were compared by cost in some step, so that the order depends on the cost of a register.
    pub compared_by_cost: bool,
    /// The decisions, in issue order; empty if tracing is off.
    pub picks: Vec<ScheduleDecision>,
}

/// The decision of one step: the item to issue and, when tracing, the second-best candidate with the comparison that decided.
struct ItemChoice {
    /// Sort key of the chosen item; its last part is the node.
    key: TreeKey,
    /// The second-best candidate and the criterion that decided; `None` unless traced.
    runner_up: Option<(u32, Reason)>,
}

/// A reason not to issue a candidate at this step, with the cost of issuing it nevertheless.
struct Objection {
    /// Cost, in cycles, of issuing the candidate nevertheless.
    cost: f64,
    /// Why the candidate is rejected.
    reason: Reason,
}

/// State of an attempt, which is one list schedule of the region.
///
/// Every ready item is in exactly one of `trees`, `waiting` and `rejected`.
pub(super) struct AttemptSearch<'p> {
    /// The region to schedule, with the data that the search reads.
    problem: &'p SearchProblem<'p>,
    /// The parameters of the attempt.
    plan: &'p AttemptPlan,
    /// For each item, the second part of its key: its result latency in cycles, plus a fraction that breaks ties.
    latency_keys: &'p [f64],
    /// For each functional unit, an ordered tree of the ready items with available operands.
    trees: Vec<BTreeSet<TreeKey>>,
    /// The items of all trees in the original order. Kept before register allocation only.
    by_position: BTreeSet<u32>,
    /// Ready items with operands in flight, as (arrival cycle, node).
    waiting: BTreeSet<(u32, u32)>,
    /// Candidates that were rejected at this step, with the reason. Empty between steps.
    rejected: Vec<(TreeKey, Objection)>,
    /// For each node, the first cycle in which its operands are available, as far as its predecessors have issued.
    earliest: Vec<u32>,
    /// For each node, the number of predecessors that have not issued yet.
    unissued_predecessors: Vec<u32>,
    /// State of the simulated issue pipeline: current cycle, busy units, scoreboards in use.
    clock: Clock<'p>,
    /// The registers that are live at the current point of the search. Only used before register allocation.
    pressure: LiveRegisters,
    /// State of the read ports of the register file; used only after register allocation.
    ports: PortState,
    /// Number of matrix-multiply instructions that may still join the current batch; 0 outside of batches.
    batch_slots_left: u32,
    /// Whether the runner-up of each decision is recorded.
    is_traced: bool,
}

/// Makes one attempt: issues all items of the region, guided by the priorities and register costs of `plan`. Returns the order, the
/// measurements for its score and the stall cycles before each item. `latency_keys` has the second part of the key of each item.
pub(super) fn run_attempt(problem: &SearchProblem<'_>, plan: &AttemptPlan, latency_keys: &[f64], is_traced: bool) -> AttemptResult {
    let graph = problem.graph;
    let mut search = AttemptSearch {
        problem,
        plan,
        latency_keys,
        trees: vec![BTreeSet::new(); NO_UNIT + 1],
        by_position: BTreeSet::new(),
        waiting: BTreeSet::new(),
        rejected: Vec::new(),
        earliest: graph.start_cycles(),
        unissued_predecessors: graph.predecessor_counts().to_vec(),
        clock: Clock::new(problem.costs),
        pressure: LiveRegisters::default(),
        ports: PortState::default(),
        batch_slots_left: 0,
        is_traced,
    };
    search.pressure.start(problem);
    search.insert_initial_items();
    let mut result = AttemptResult {
        order: Vec::with_capacity(problem.items()),
        measurements: ScoreMeasurements::default(),
        stall_cycles: vec![0; problem.items()],
        compared_by_cost: false,
        picks: Vec::new(),
    };
    let mut measured = OrderLength::default();
    let mut inserted = Vec::new();
    while result.order.len() < problem.items() {
        search.move_arrived_items();
        result.compared_by_cost |= search.compares_by_cost();
        let ItemChoice { key, runner_up } = search.choose_next_item();
        let (node, before) = (key.2, search.clock.cycle);
        let at = search.issue(node, &mut inserted);
        measured.length.add(at, problem.tails[node as usize]);
        measured.exit_cycle = measured.exit_cycle.max(at + graph.barrier_latency(node));
        result.stall_cycles[node as usize] = at.saturating_sub(before);
        result.order.push(node);
        if is_traced {
            let reason = runner_up.map_or(Reason::OnlyOne, |(_, reason)| reason);
            let runner_up = runner_up.map(|(node, _)| problem.position(node));
            result.picks.push(ScheduleDecision { picked: problem.position(node), runner_up, reason, cycle: at });
        }
    }
    let (exit, PortState { reuse_hits: hits, conflict_cycles: conflicts, .. }) =
        (measured.exit_cycle.max(measured.length.issued), search.ports);
    result.measurements = ScoreMeasurements::new(
        problem,
        OrderLength { exit_cycle: exit, reuse_hits: hits, conflict_cycles: conflicts, ..measured },
        &search.pressure,
    );
    result
}

impl AttemptSearch<'_> {
    /// Returns the sort key of a node in the ordered trees.
    fn key(&self, node: u32) -> TreeKey {
        (Reverse(self.plan.priorities[node as usize]), Reverse(OrderedLatency(self.latency_keys[node as usize])), node)
    }

    /// Returns the index of the functional unit that executes an item; [`NO_UNIT`] for pseudo operations.
    fn unit(&self, node: u32) -> usize {
        self.problem.units[node as usize].into()
    }

    /// Inserts all items without predecessors into the trees, or into `waiting` if an operand from before the region is in flight. Building
    /// a tree from a sorted list is faster than single insertions.
    fn insert_initial_items(&mut self) {
        let mut ready: Vec<Vec<TreeKey>> = vec![Vec::new(); NO_UNIT + 1];
        for node in 0..self.problem.items() as u32 {
            if self.unissued_predecessors[node as usize] == 0 {
                match self.earliest[node as usize] {
                    0 => ready[self.unit(node)].push(self.key(node)),
                    earliest => _ = self.waiting.insert((earliest, node)),
                }
            }
        }
        if self.problem.counts_registers() {
            self.by_position = ready.iter().flatten().map(|key| key.2).collect();
        }
        self.trees = ready.into_iter().map(BTreeSet::from_iter).collect();
    }

    /// Inserts a ready item with available operands into its tree.
    fn insert(&mut self, node: u32) {
        let (key, unit) = (self.key(node), self.unit(node));
        self.trees[unit].insert(key);
        if self.problem.counts_registers() {
            self.by_position.insert(node);
        }
    }

    /// Removes an item from its tree or from the waiting items. Does nothing if the item is in neither.
    fn remove(&mut self, key: TreeKey) {
        let unit = self.unit(key.2);
        if self.trees[unit].remove(&key) {
            if self.problem.counts_registers() {
                self.by_position.remove(&key.2);
            }
        } else {
            self.waiting.remove(&(self.earliest[key.2 as usize], key.2));
        }
    }

    /// Moves the items of `waiting` whose operands have arrived to the trees.
    fn move_arrived_items(&mut self) {
        while let Some(&(earliest, node)) = self.waiting.first() {
            if earliest > self.clock.cycle {
                break;
            }
            self.waiting.pop_first();
            self.insert(node);
        }
    }

    /// Returns the first cycle in which a unit is free; 0 for [`NO_UNIT`].
    fn unit_free_cycle(&self, unit: usize) -> u32 {
        self.clock.unit_free_cycles.get(unit).copied().unwrap_or_default()
    }

    /// Returns the number of stall cycles before an item can issue, while it waits for operands, its unit or the register banks.
    fn stall_cycles(&self, node: u32) -> u32 {
        let mut from = self.earliest[node as usize].max(self.unit_free_cycle(self.unit(node)));
        if self.reads_banks(node) {
            from = from.max(self.ports.banks_free_cycle);
        }
        from.saturating_sub(self.clock.cycle)
    }

    /// Returns whether an item reads registers through the banks. Always false before register allocation.
    fn reads_banks(&self, node: u32) -> bool {
        !self.problem.ports.is_empty() && self.problem.ports[node as usize].reads_banks()
    }

    /// Returns whether candidates are compared by cost: registers are scarce, or the mode is `reduce-reg`.
    fn compares_by_cost(&self) -> bool {
        self.problem.counts_registers()
            && (self.problem.settings.mode == ScheduleMode::ReduceReg || self.pressure.live[0] > self.plan.scarce_above)
    }

    /// Chooses the next item to issue, removes it from the ready items, and returns it with the second-best candidate (runner-up).
    fn choose_next_item(&mut self) -> ItemChoice {
        if let Some(choice) = self.continue_batch() {
            return choice;
        }
        if self.compares_by_cost() {
            return self.lowest_cost_when_scarce();
        }
        self.first_without_objection()
    }

    /// Returns the next matrix product of the current batch; `None` if there is no batch, no matrix product is ready, or the register
    /// budget would be exceeded.
    fn continue_batch(&mut self) -> Option<ItemChoice> {
        if self.batch_slots_left == 0 {
            return None;
        }
        let key = *self.trees[Unit::Tensor.index()].first()?;
        if self.excess_after(key.2) > 0 {
            return None;
        }
        let other = self.is_traced.then(|| self.best_first_key(|unit| unit != Unit::Tensor.index())).flatten();
        self.remove(key);
        Some(ItemChoice { key, runner_up: other.map(|key| (key.2, Reason::Batch)) })
    }

    /// Returns the best (smallest) key among the trees of the units for which `is_allowed` returns true; `None` if these trees are empty.
    fn best_first_key(&self, is_allowed: impl Fn(usize) -> bool) -> Option<TreeKey> {
        let heads = self.trees.iter().enumerate().filter(|(unit, tree)| !tree.is_empty() && is_allowed(*unit));
        heads.filter_map(|(_, tree)| tree.first()).min().copied()
    }

    /// Returns the number of registers above the budget if `node` were issued next; 0 after register allocation.
    fn excess_after(&self, node: u32) -> i32 {
        if !self.problem.counts_registers() {
            return 0;
        }
        self.pressure.excess_after(self.problem, &self.pressure.change(self.problem, node))
    }

    /// Returns the reason not to issue an item of a tree in the current cycle, or `None`. The caller checks that the unit is free.
    ///
    /// Objections are, in this order: the register budget would be exceeded; the register banks still deliver earlier operands; the
    /// previous instruction writes the same register.
    fn objection(&self, node: u32) -> Option<Objection> {
        let excess_after = self.excess_after(node);
        if excess_after > 0 {
            return Some(Objection {
                cost: OVER_BUDGET_CYCLES_PER_REGISTER * f64::from(excess_after),
                reason: Reason::RejectedForRegisters,
            });
        }
        if self.reads_banks(node) && self.ports.banks_free_cycle > self.clock.cycle {
            let (hits, busy) = self.ports.hits_and_conflict_cycles(&self.problem.ports[node as usize], self.ports.banks_free_cycle);
            let wait = f64::from(self.ports.banks_free_cycle - self.clock.cycle);
            return Some(Objection {
                cost: wait + CONFLICT_COST_CYCLES * (f64::from(busy) - f64::from(hits)),
                reason: Reason::RejectedForWait,
            });
        }
        if !self.problem.ports.is_empty() && self.ports.writes_same_register(&self.problem.ports[node as usize]) {
            return Some(Objection { cost: 1.0, reason: Reason::RejectedForWrite });
        }
        None
    }

    /// Returns the first item in key order without an objection, or the candidate of lowest cost if there is none.
    ///
    /// The knob `tree-rejections` limits the number of rejected items, which bounds the time of a step.
    fn first_without_objection(&mut self) -> ItemChoice {
        let cycle = self.clock.cycle;
        let mut found = None;
        for _ in 0..=self.problem.settings.knobs.tree_rejections {
            let Some(key) = self.best_first_key(|unit| self.unit_free_cycle(unit) <= cycle) else { break };
            let Some(objection) = self.objection(key.2) else {
                found = Some(key);
                break;
            };
            // The item leaves its tree, so that the next iteration sees the item after it.
            self.remove(key);
            self.rejected.push((key, objection));
        }
        let choice = match found {
            Some(key) => self.prefer_cheaper_operands(key),
            None => self.lowest_cost(),
        };
        self.remove(choice.key);
        // The objections hold for this cycle only: rejected items are candidates again at the next step.
        for (key, _) in std::mem::take(&mut self.rejected) {
            if key != choice.key {
                self.insert(key.2);
            }
        }
        choice
    }

    /// Returns the item `key`, or another item for the same functional unit with nearly the same priority and cheaper operands.
    ///
    /// Cheaper means more operands in the reuse cache and fewer register bank conflicts. The priority of the other item may be lower by at
    /// most the knob `tree-reuse-slack`.
    fn prefer_cheaper_operands(&self, key: TreeKey) -> ItemChoice {
        if !self.problem.ports.is_empty() && self.problem.ports[key.2 as usize].can_read_reuse_cache {
            let least = key.0.0.saturating_sub(self.problem.settings.knobs.tree_reuse_slack);
            let ease = |node: u32| {
                let (hits, busy) = self.ports.hits_and_conflict_cycles(&self.problem.ports[node as usize], self.clock.cycle);
                hits as i32 - busy as i32
            };
            // `key` is still the first of its tree: rejected items were removed. So the iteration starts with `key` itself.
            let others = self.trees[self.unit(key.2)].iter().take(1 + CANDIDATES_BY_PORTS).take_while(|other| other.0.0 >= least);
            let easiest = others.filter(|other| self.objection(other.2).is_none()).max_by_key(|other| (ease(other.2), Reverse(**other)));
            if let Some(&easiest) = easiest.filter(|easiest| ease(easiest.2) > ease(key.2)) {
                return ItemChoice { key: easiest, runner_up: Some((key.2, Reason::Ports)) };
            }
        }
        if !self.is_traced {
            return ItemChoice { key, runner_up: None };
        }
        let runner_up = match self.rejected.first() {
            Some((other, objection)) => Some((other.2, objection.reason)),
            // No item was rejected: the runner-up is the second of the same tree or the first of another tree, whichever is better.
            None => {
                let unit = self.unit(key.2);
                let behind = self.trees[unit].iter().nth(1).copied();
                let others = self.best_first_key(|other| other != unit && self.unit_free_cycle(other) <= self.clock.cycle);
                behind.into_iter().chain(others).min().map(|other| (other.2, first_differing_part(&key, &other)))
            }
        };
        let busy =
            || self.best_first_key(|unit| self.unit_free_cycle(unit) > self.clock.cycle).map(|other| (other.2, Reason::RejectedForWait));
        ItemChoice { key, runner_up: runner_up.or_else(busy) }
    }

    /// Returns the candidate of lowest cost when no item can issue in the current cycle without an objection.
    ///
    /// Candidates are the rejected items, the first item of each busy unit, and the items whose operands arrive next.
    fn lowest_cost(&self) -> ItemChoice {
        let cycle = self.clock.cycle;
        let busy = self.trees.iter().enumerate().filter(|(unit, _)| self.unit_free_cycle(*unit) > cycle);
        let busy = busy.filter_map(|(_, tree)| tree.first().copied());
        let coming = self.waiting.iter().take(CANDIDATES_BY_ARRIVAL).map(|&(_, node)| self.key(node));
        let later = busy.chain(coming).map(|key| {
            let excess_after = self.excess_after(key.2);
            (OVER_BUDGET_CYCLES_PER_REGISTER * f64::from(excess_after) + f64::from(self.stall_cycles(key.2)), key)
        });
        let rejected = self.rejected.iter().map(|(key, objection)| (objection.cost, *key));
        self.two_lowest_costs(rejected.chain(later), |_, _| Reason::LeastCost)
    }

    /// Returns the candidate of lowest cost when registers are scarce.
    ///
    /// Cost in cycles: stall cycles, plus the change of live general registers times the cost of a register, plus a prohibitive penalty for
    /// each register above the budget. Example with a cost of 16 cycles per register: an item that can issue now and takes one register
    /// costs 16; an item that stalls for 10 cycles and frees one register costs 10 - 16 = -6 and is chosen.
    fn lowest_cost_when_scarce(&mut self) -> ItemChoice {
        let of_trees = self.trees.iter().flat_map(|tree| tree.iter().take(CANDIDATES_FROM_EACH_TREE).copied());
        let by_position = self.by_position.iter().take(CANDIDATES_BY_POSITION).map(|&node| self.key(node));
        let coming = self.waiting.iter().take(CANDIDATES_BY_ARRIVAL).map(|&(_, node)| self.key(node));
        // In `reduce-reg` a register outweighs nearly every stall, but not a register above the budget.
        let reduces = self.problem.settings.mode == ScheduleMode::ReduceReg;
        let weight = if reduces { OVER_BUDGET_CYCLES_PER_REGISTER / 1024.0 } else { self.plan.register_cycles };
        let costs = of_trees.chain(by_position).chain(coming).map(|key| {
            let change = self.pressure.change(self.problem, key.2);
            let excess_after = self.pressure.excess_after(self.problem, &change);
            let cost = OVER_BUDGET_CYCLES_PER_REGISTER * f64::from(excess_after)
                + weight * f64::from(change[0])
                + f64::from(self.stall_cycles(key.2));
            (cost, key)
        });
        let reason = |best: &TreeKey, other: &TreeKey| {
            let change = |key: &TreeKey| self.pressure.change(self.problem, key.2)[0];
            match change(best).cmp(&change(other)) {
                Ordering::Equal if self.stall_cycles(best.2) == self.stall_cycles(other.2) => first_differing_part(best, other),
                Ordering::Equal => Reason::RejectedForWait,
                _ => Reason::RejectedForRegisters,
            }
        };
        let choice = self.two_lowest_costs(costs, reason);
        self.remove(choice.key);
        choice
    }

    /// Returns the candidate of lowest cost (in cycles), with the second-best one as runner-up. The smaller key breaks ties. The same
    /// candidate may occur twice in `candidates`.
    fn two_lowest_costs(
        &self,
        candidates: impl Iterator<Item = (f64, TreeKey)>,
        reason: impl Fn(&TreeKey, &TreeKey) -> Reason,
    ) -> ItemChoice {
        let rank = |a: &(f64, TreeKey), b: &(f64, TreeKey)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
        let mut best: Option<(f64, TreeKey)> = None;
        let mut second: Option<(f64, TreeKey)> = None;
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
        let Some((_, key)) = best else { unreachable!("an acyclic graph always has a ready item") };
        ItemChoice { key, runner_up: second.filter(|_| self.is_traced).map(|(_, other)| (other.2, reason(&key, &other))) }
    }

    /// Issues an item and returns its issue cycle. Items that become ready are inserted; `inserted` is a buffer for them.
    fn issue(&mut self, node: u32, inserted: &mut Vec<u32>) -> u32 {
        let problem = self.problem;
        let item = &problem.code.items[problem.position(node)];
        let mut from = self.earliest[node as usize];
        if self.reads_banks(node) {
            from = from.max(self.ports.banks_free_cycle);
        }
        let at = self.clock.issue(item.class, item.opcode.is_none(), from);
        if problem.counts_registers() {
            self.pressure.step(problem, node);
        } else {
            self.ports.step(&problem.ports[node as usize], at);
        }
        if problem.settings.mode == ScheduleMode::DynBatch {
            let is_matrix_product = self.unit(node) == Unit::Tensor.index();
            let size = if self.batch_slots_left > 0 { self.batch_slots_left } else { problem.settings.knobs.batch };
            self.batch_slots_left = if is_matrix_product { size.saturating_sub(1) } else { 0 };
        }
        inserted.clear();
        let AttemptSearch { earliest, unissued_predecessors, .. } = self;
        release(problem.graph, node, at, earliest, unissued_predecessors, &mut |node| inserted.push(node));
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

/// Returns the first of the three parts in which two sort keys differ, as the reason for a decision.
fn first_differing_part(first: &TreeKey, second: &TreeKey) -> Reason {
    if first.0 != second.0 {
        Reason::Priority
    } else if first.1 != second.1 {
        Reason::ResultLatency
    } else {
        Reason::Position
    }
}
