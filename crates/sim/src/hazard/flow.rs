//! Static hazard check: a forward data-flow analysis over all paths through a code section.
//!
//! The state at a block's start is the join of the states at the ends of its predecessors: everything that may be in flight, with its
//! smallest age. A worklist iterates blocks until no state changes (Kildall's algorithm). Then each reachable block is walked once more and
//! its findings are reported.
//!
//! Calls to a function inside the section enter it with the caller's state, joined over all call sites. After the call, the state is what
//! the function leaves in flight, restricted to its own instructions and to those that were in flight at this call site. Calls out of the
//! section are assumed to return with nothing in flight, and functions to start so. Entry blocks of called functions have the lowest
//! priority, so that all call sites found so far are joined before the body is walked.

use std::collections::{BTreeMap, BTreeSet};

use oriole_hardware::Model;
use oriole_isa::{Instruction, Opcode, OperandValue, RegFile};

use super::boundary::{BoundaryInst, BoundaryState, Pending};
use super::reuse::CachedRegister;
use super::track::{MAX_FIXED_LATENCY, Tracker};
use super::{HazardFinding, HazardRegister, HazardStep, Problem};

/// The control-flow successors of an instruction.
pub(crate) enum NextInsts {
    /// Continues with the next instruction.
    FallThrough,
    /// Continues at one of these instruction indices; none for `EXIT`.
    To(Vec<usize>),
    /// Calls the function at this index, then continues with the next instruction; `None` if it is outside the section. With a guard, some
    /// threads may skip the call.
    Call { target: Option<usize>, guarded: bool },
    /// Returns to the caller. With a guard, some threads may continue with the next instruction.
    Return { guarded: bool },
}

/// Returns the hazards of a section's code on all paths. `indirect` returns the possible targets of the indirect branch at an index;
/// `entries` are the indices at which functions start.
pub fn check_function(
    instructions: &[Instruction],
    entries: &[usize],
    indirect: &dyn Fn(usize) -> Vec<usize>,
    model: &Model,
) -> Vec<HazardFinding> {
    let steps: Vec<HazardStep> = instructions.iter().map(|instruction| HazardStep::new(instruction, model)).collect();
    check_steps(&steps, &nexts(instructions, indirect), entries, model)
}

/// Returns the successors of each instruction of a section.
pub(crate) fn nexts(instructions: &[Instruction], indirect: &dyn Fn(usize) -> Vec<usize>) -> Vec<NextInsts> {
    (0..instructions.len()).map(|number| next_of(instructions, number, indirect)).collect()
}

/// Like [`check_function`], for steps and successors that are already computed.
pub(crate) fn check_steps(steps: &[HazardStep], nexts: &[NextInsts], entries: &[usize], model: &Model) -> Vec<HazardFinding> {
    let mut walk = HazardIteration::new(steps, nexts, entries);
    let mut tracker = Tracker::new(model);
    walk.iterate_to_fixed_point(&mut tracker);
    let mut findings = walk.findings(&mut tracker);
    findings.sort();
    findings.dedup();
    findings
}

/// Returns the successors of instruction `number`.
fn next_of(instructions: &[Instruction], number: usize, indirect: &dyn Fn(usize) -> Vec<usize>) -> NextInsts {
    let instruction = &instructions[number];
    let target = instruction.operands.iter().find_map(|operand| match operand.value {
        OperandValue::Relative(distance) => usize::try_from(number as i64 + 1 + distance / 16).ok().filter(|&to| to < instructions.len()),
        _ => None,
    });
    // `BRA.CONV` and `BRA.DIV` branch depending on whether the warp is converged.
    let asks_warp = instruction.modifiers.iter().any(|modifier| matches!(modifier.spelling(), ".CONV" | ".DIV"));
    let is_conditional = asks_warp
        || !instruction.guard.is_always()
        || instruction.operands.iter().any(|operand| matches!(operand.value, OperandValue::Register(_, Some(_))) || operand.not);
    let with_fall_through = |mut targets: Vec<usize>| {
        if is_conditional {
            targets.push(number + 1);
        }
        NextInsts::To(targets)
    };
    match instruction.opcode {
        Opcode::BRA => with_fall_through(target.into_iter().collect()),
        Opcode::BRX | Opcode::BRXU => {
            let mut targets = indirect(number);
            if !instruction.guard.is_always() {
                targets.push(number + 1);
            }
            NextInsts::To(targets)
        }
        Opcode::WARPSYNC if target.is_some() => NextInsts::To(target.into_iter().chain([number + 1]).collect()),
        Opcode::EXIT if !is_conditional => NextInsts::To(Vec::new()),
        Opcode::RET => NextInsts::Return { guarded: !instruction.guard.is_always() },
        Opcode::CALL => NextInsts::Call { target, guarded: !instruction.guard.is_always() },
        _ => NextInsts::FallThrough,
    }
}

/// Finds an instruction in a list of instructions in flight, which is sorted by index.
fn of_step(in_flight: &[BoundaryInst], step: u32) -> Option<BoundaryInst> {
    in_flight.binary_search_by_key(&step, |one| one.step).ok().map(|at| in_flight[at])
}

/// Returns whether a list of cached values has one, whether stale or not.
fn has_kept(kept: &[CachedRegister], one: &CachedRegister) -> bool {
    kept.binary_search_by_key(&(one.entry, one.register, one.step), |other| (other.entry, other.register, other.step)).is_ok()
}

/// Joins states, or returns `None` for an empty list. Joins pairwise as a balanced tree, so that n states of total size s cost O(s log n).
fn merged(mut states: Vec<BoundaryState>) -> Option<BoundaryState> {
    while states.len() > 1 {
        let pair = |pair: &[BoundaryState]| if let [one, two] = pair { one.merge(two) } else { pair[0].clone() };
        states = states.chunks(2).map(pair).collect();
    }
    states.pop()
}

/// The state of the data-flow iteration.
struct HazardIteration<'a> {
    steps: &'a [HazardStep],
    nexts: &'a [NextInsts],
    /// Indices of the first instructions of blocks, ascending.
    starts: Vec<usize>,
    /// For each block the state at its start; `None` if it has not been reached.
    states: Vec<Option<BoundaryState>>,
    /// For each block the states that reached it since it was last visited.
    arrived: Vec<Vec<BoundaryState>>,
    /// Called functions inside the section, by the index of their first instruction.
    called: BTreeMap<usize, CalledFunction>,
    /// For each return instruction the functions whose bodies contain it.
    returns: BTreeMap<usize, Vec<usize>>,
    /// Worklist of blocks.
    todo: BTreeSet<usize>,
    /// Worklist of the entry blocks of called functions; visited only when `todo` is empty.
    todo_called: BTreeSet<usize>,
}

/// A function that is called inside the section.
#[derive(Default)]
struct CalledFunction {
    /// State at each call, by the index of the instruction after the call.
    sites: BTreeMap<usize, BoundaryState>,
    /// State at its returns; `None` until a return is reached.
    left: Option<BoundaryState>,
    /// The part of `left.in_flight` that consists of the function's own instructions.
    own: Vec<BoundaryInst>,
    /// Indices of its instructions, without those of its callees.
    body: BTreeSet<usize>,
}

impl<'a> HazardIteration<'a> {
    /// Splits the code into blocks and puts the entries on the worklist.
    fn new(steps: &'a [HazardStep], nexts: &'a [NextInsts], entries: &[usize]) -> Self {
        let mut starts: BTreeSet<usize> = entries.iter().copied().chain([0]).collect();
        for (number, next) in nexts.iter().enumerate() {
            match next {
                NextInsts::FallThrough => continue,
                NextInsts::To(targets) => starts.extend(targets),
                NextInsts::Call { target, .. } => starts.extend(target),
                NextInsts::Return { .. } => {}
            }
            starts.insert(number + 1);
        }
        let starts: Vec<usize> = starts.into_iter().filter(|&start| start < steps.len()).collect();
        let (states, arrived) = (vec![None; starts.len()], vec![Vec::new(); starts.len()]);
        let mut walk = HazardIteration {
            steps,
            nexts,
            starts,
            states,
            arrived,
            called: BTreeMap::new(),
            returns: BTreeMap::new(),
            todo: BTreeSet::new(),
            todo_called: BTreeSet::new(),
        };
        walk.find_called();
        for &entry in entries.iter().chain([&0]) {
            walk.reach(entry, BoundaryState::default());
        }
        walk
    }

    /// Finds the body of each function that is called inside the section, by reachability from its first instruction.
    fn find_called(&mut self) {
        let targets: BTreeSet<usize> =
            self.nexts.iter().filter_map(|next| if let NextInsts::Call { target, .. } = next { *target } else { None }).collect();
        for target in targets {
            let mut body = BTreeSet::new();
            let mut todo = vec![target];
            while let Some(number) = todo.pop() {
                if number >= self.steps.len() || !body.insert(number) {
                    continue;
                }
                match &self.nexts[number] {
                    NextInsts::FallThrough | NextInsts::Call { .. } => todo.push(number + 1),
                    NextInsts::To(targets) => todo.extend(targets),
                    NextInsts::Return { guarded } => {
                        self.returns.entry(number).or_default().push(target);
                        todo.extend(guarded.then_some(number + 1));
                    }
                }
            }
            self.called.insert(target, CalledFunction { body, ..CalledFunction::default() });
        }
    }

    /// Returns the block that starts at an instruction index, if one does.
    fn block_of(&self, start: usize) -> Option<usize> {
        self.starts.binary_search(&start).ok()
    }

    /// Returns the index after the last instruction of a block.
    fn end_of(&self, block: usize) -> usize {
        self.starts.get(block + 1).copied().unwrap_or(self.steps.len())
    }

    /// Adds a state to the start of a block. States are joined when the block is visited: many predecessors then cost one visit.
    fn reach(&mut self, start: usize, state: BoundaryState) {
        let Some(block) = self.block_of(start) else { return };
        self.arrived[block].push(state);
        let todo = if self.called.contains_key(&start) { &mut self.todo_called } else { &mut self.todo };
        todo.insert(block);
    }

    /// Joins the states that arrived at a block into its start state. Returns the new state, or `None` if it did not change.
    fn join_arrived(&mut self, block: usize) -> Option<BoundaryState> {
        let arrived = merged(std::mem::take(&mut self.arrived[block]))?;
        let state = match &self.states[block] {
            None => arrived,
            Some(old) => Some(old.merge(&arrived)).filter(|new| new != old)?,
        };
        self.states[block] = Some(state.clone());
        Some(state)
    }

    /// Iterates to the fixed point.
    fn iterate_to_fixed_point(&mut self, tracker: &mut Tracker<'_>) {
        while let Some(block) = self.todo.pop_first().or_else(|| self.todo_called.pop_first()) {
            let Some(state) = self.join_arrived(block) else { continue };
            tracker.enter(self.steps, &state);
            let end = self.end_of(block);
            for number in self.starts[block]..end {
                tracker.issue(self.steps, number, &mut |_| {});
            }
            let left = tracker.leave(self.steps);
            if matches!(self.nexts[end - 1], NextInsts::Call { guarded: true, .. } | NextInsts::Return { guarded: true }) {
                self.reach(end, left.clone());
            }
            match &self.nexts[end - 1] {
                NextInsts::FallThrough => self.reach(end, left),
                NextInsts::To(targets) => {
                    for target in targets.clone() {
                        self.reach(target, left.clone());
                    }
                }
                NextInsts::Call { target: None, .. } => {
                    self.reach(end, BoundaryState { scoreboards_set: left.scoreboards_set, ..BoundaryState::default() });
                }
                &NextInsts::Call { target: Some(target), .. } => {
                    self.reach(target, left.clone());
                    if let Some(called) = self.called.get_mut(&target) {
                        called.sites.insert(end, left);
                    }
                    self.propagate_return(target, Some(end));
                }
                NextInsts::Return { .. } => {
                    for target in self.returns.get(&(end - 1)).cloned().unwrap_or_default() {
                        let Some(called) = self.called.get_mut(&target) else { continue };
                        let merged = called.left.as_ref().map_or_else(|| left.clone(), |old| old.merge(&left));
                        if called.left.as_ref() != Some(&merged) {
                            called.own =
                                merged.in_flight.iter().filter(|one| called.body.contains(&(one.step as usize))).copied().collect();
                            called.left = Some(merged);
                            self.propagate_return(target, None);
                        }
                    }
                }
            }
        }
    }

    /// Propagates the state at the returns of a function to the instructions after its calls, or after only one of them.
    ///
    /// The state of an instruction that was already in flight at the call is adjusted to the call site: its age grows by the cycles spent
    /// in the function.
    fn propagate_return(&mut self, target: usize, only: Option<usize>) {
        let Some(called) = self.called.get(&target) else { return };
        let Some(left) = &called.left else { return };
        let entry = self.block_of(target).and_then(|block| self.states[block].as_ref());
        let entered = entry.map_or(&[][..], |state| &state.in_flight);
        let kept_at_entry = entry.map_or(&[][..], |state| &state.kept);
        let mut returns = Vec::new();
        for (&after, before) in called.sites.range(only.unwrap_or(0)..=only.unwrap_or(usize::MAX)) {
            let is_left = |one: &BoundaryInst| {
                let there = of_step(&left.in_flight, one.step)?;
                // The function's entry state holds the smallest age of all call sites; only the difference to it was spent in the function.
                let brought = of_step(entered, one.step).map_or(there.age, |entered| entered.age);
                let age = (there.age - brought.min(there.age)).saturating_add(one.age).clamp(there.age, MAX_FIXED_LATENCY as u8);
                Some(BoundaryInst { age, ..there })
            };
            let mut in_flight: Vec<BoundaryInst> = before.in_flight.iter().filter_map(is_left).chain(called.own.iter().copied()).collect();
            in_flight.sort_by_key(|one| one.step);
            in_flight.dedup_by_key(|one| one.step);
            // A cached value that came with another call is not in the cache after this one.
            let is_here = |one: &&CachedRegister| !has_kept(kept_at_entry, one) || has_kept(&before.kept, one);
            let kept = left.kept.iter().filter(is_here).copied().collect();
            returns.push((after, BoundaryState { in_flight, kept, ..left.clone() }));
        }
        for (after, state) in returns {
            self.reach(after, state);
        }
    }

    /// Walks each reachable block once from its fixed-point state and collects the findings.
    fn findings(&self, tracker: &mut Tracker<'_>) -> Vec<HazardFinding> {
        let mut findings = Vec::new();
        for (block, state) in self.states.iter().enumerate() {
            let Some(state) = state else { continue };
            tracker.enter(self.steps, state);
            let end = self.end_of(block);
            for number in self.starts[block]..end {
                tracker.issue(self.steps, number, &mut |finding| findings.push(finding));
            }
            if self.leaves(end - 1) {
                for one in &tracker.leave(self.steps).in_flight {
                    findings.extend(self.pending_at_exit(one, end - 1));
                }
            }
        }
        findings
    }

    /// Returns whether control leaves the section after an instruction: a call out of it, or the return of a function not called inside it.
    fn leaves(&self, number: usize) -> bool {
        match self.nexts[number] {
            NextInsts::Call { target: None, .. } => true,
            NextInsts::Return { .. } => !self.returns.contains_key(&number),
            _ => false,
        }
    }

    /// Returns a finding if the instruction's variable-latency result is still pending when control leaves the section at `second`.
    fn pending_at_exit(&self, one: &BoundaryInst, second: usize) -> Option<HazardFinding> {
        let step = &self.steps[one.step as usize];
        let first = one.step as usize;
        let register = step.writes.first()?.register;
        // Kernels without a stack still load the stack pointer (R1) and never wait for it.
        let is_unused_stack = Some(register) == HazardRegister::new(RegFile::General, 1)
            && matches!(one.results, Pending::Until(signals) if signals.is_never());
        let pending = one.results != Pending::Done && step.results_wait && first != second && !is_unused_stack;
        pending.then_some(HazardFinding { second, first, problem: Problem::PendingAtExit { register } })
    }
}
