//! All paths through a section of code.
//!
//! Blocks are walked until nothing changes: what may be in flight where a block begins is all that is in flight at the end of some
//! block before it, with the least age it has there. Then every block is walked once more and its findings are kept.
//!
//! Calls inside the section lead into the called code with what is in flight; behind the call goes on what the called code leaves, as
//! far as it is its own or was in flight at this very call. Calls that leave the section are taken to return with nothing in flight, and
//! functions to begin so. Called code is walked when nothing else is left to do, for all calls of it that were found by then.

use std::collections::{BTreeMap, BTreeSet};

use oriole_hardware::Model;
use oriole_isa::{File, Instruction, Opcode, Value};

use super::track::{Border, Carried, LONGEST, Pending, Tracker};
use super::{Finding, Problem, Register, Step};

/// Where control goes behind an instruction.
pub(crate) enum Next {
    On,
    To(Vec<usize>),
    Call(Option<usize>),
    Return,
}

/// Hazards of a section's code on all paths. `indirect` says where the indirect branch of this number can go, `entries` at which
/// instructions functions begin.
pub fn check_function(
    instructions: &[Instruction],
    entries: &[usize],
    indirect: &dyn Fn(usize) -> Vec<usize>,
    model: &Model,
) -> Vec<Finding> {
    let steps: Vec<Step> = instructions.iter().map(|instruction| Step::new(instruction, model)).collect();
    check_steps(&steps, &nexts(instructions, indirect), entries, model)
}

/// Where control goes behind each instruction of a section.
pub(crate) fn nexts(instructions: &[Instruction], indirect: &dyn Fn(usize) -> Vec<usize>) -> Vec<Next> {
    (0..instructions.len()).map(|number| next_of(instructions, number, indirect)).collect()
}

/// The same for those who have steps and flow already.
pub(crate) fn check_steps(steps: &[Step], nexts: &[Next], entries: &[usize], model: &Model) -> Vec<Finding> {
    let mut walk = Walk::new(steps, nexts, entries);
    let mut tracker = Tracker::new(model);
    walk.settle(&mut tracker);
    let mut findings = walk.findings(&mut tracker);
    findings.sort();
    findings.dedup();
    findings
}

fn next_of(instructions: &[Instruction], number: usize, indirect: &dyn Fn(usize) -> Vec<usize>) -> Next {
    let instruction = &instructions[number];
    let target = instruction.operands.iter().find_map(|operand| match operand.value {
        Value::Relative(distance) => usize::try_from(number as i64 + 1 + distance / 16).ok().filter(|&to| to < instructions.len()),
        _ => None,
    });
    // `BRA.CONV` and `BRA.DIV` ask whether the warp is in parts.
    let asks_warp = instruction.modifiers.iter().any(|modifier| matches!(modifier.spelling(), ".CONV" | ".DIV"));
    let is_conditional = asks_warp
        || !instruction.guard.is_always()
        || instruction.operands.iter().any(|operand| matches!(operand.value, Value::Register(_, Some(_))) || operand.not);
    let with_fall_through = |mut targets: Vec<usize>| {
        if is_conditional {
            targets.push(number + 1);
        }
        Next::To(targets)
    };
    match instruction.opcode {
        Opcode::BRA => with_fall_through(target.into_iter().collect()),
        Opcode::BRX | Opcode::BRXU => {
            let mut targets = indirect(number);
            if !instruction.guard.is_always() {
                targets.push(number + 1);
            }
            Next::To(targets)
        }
        Opcode::WARPSYNC if target.is_some() => Next::To(target.into_iter().chain([number + 1]).collect()),
        Opcode::EXIT if !is_conditional => Next::To(Vec::new()),
        Opcode::RET if instruction.guard.is_always() => Next::Return,
        Opcode::CALL => Next::Call(target),
        _ => Next::On,
    }
}

/// An instruction in flight, by its number; they are in that order.
fn of_step(flights: &[Carried], step: u32) -> Option<Carried> {
    flights.binary_search_by_key(&step, |one| one.step).ok().map(|at| flights[at])
}

/// What may be the case if one of these is; pairs are merged first, so that many small ones cost little more than one large one.
fn merged(mut borders: Vec<Border>) -> Option<Border> {
    while borders.len() > 1 {
        let pair = |pair: &[Border]| if let [one, two] = pair { one.merge(two) } else { pair[0].clone() };
        borders = borders.chunks(2).map(pair).collect();
    }
    borders.pop()
}

struct Walk<'a> {
    steps: &'a [Step],
    nexts: &'a [Next],
    /// Where blocks begin, in ascending order.
    starts: Vec<usize>,
    /// For each block what may be in flight at its start; none if it was not reached.
    states: Vec<Option<Border>>,
    /// For each block what came in since.
    arrived: Vec<Vec<Border>>,
    /// For the start of called code: the calls of it with what was in flight there, and what it leaves.
    called: BTreeMap<usize, Called>,
    /// For returns inside such code: the starts of the code that they return from.
    returns: BTreeMap<usize, Vec<usize>>,
    todo: BTreeSet<usize>,
    /// The same for blocks with which called code begins: they wait until all others are done.
    todo_called: BTreeSet<usize>,
}

#[derive(Default)]
struct Called {
    sites: BTreeMap<usize, Border>,
    left: Option<Border>,
    /// What of that is its own.
    own: Vec<Carried>,
    /// Numbers of its instructions.
    body: BTreeSet<usize>,
}

impl<'a> Walk<'a> {
    fn new(steps: &'a [Step], nexts: &'a [Next], entries: &[usize]) -> Self {
        let mut starts: BTreeSet<usize> = entries.iter().copied().chain([0]).collect();
        for (number, next) in nexts.iter().enumerate() {
            match next {
                Next::On => continue,
                Next::To(targets) => starts.extend(targets),
                Next::Call(target) => starts.extend(target),
                Next::Return => {}
            }
            starts.insert(number + 1);
        }
        let starts: Vec<usize> = starts.into_iter().filter(|&start| start < steps.len()).collect();
        let (states, arrived) = (vec![None; starts.len()], vec![Vec::new(); starts.len()]);
        let mut walk = Walk {
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
            walk.reach(entry, Border::default());
        }
        walk
    }

    /// Which instructions belong to code that is called inside the section.
    fn find_called(&mut self) {
        let targets: BTreeSet<usize> =
            self.nexts.iter().filter_map(|next| if let Next::Call(target) = next { *target } else { None }).collect();
        for target in targets {
            let mut body = BTreeSet::new();
            let mut todo = vec![target];
            while let Some(number) = todo.pop() {
                if number >= self.steps.len() || !body.insert(number) {
                    continue;
                }
                match &self.nexts[number] {
                    Next::On | Next::Call(_) => todo.push(number + 1),
                    Next::To(targets) => todo.extend(targets),
                    Next::Return => self.returns.entry(number).or_default().push(target),
                }
            }
            self.called.insert(target, Called { body, ..Called::default() });
        }
    }

    fn block_of(&self, start: usize) -> Option<usize> {
        self.starts.binary_search(&start).ok()
    }

    fn end_of(&self, block: usize) -> usize {
        self.starts.get(block + 1).copied().unwrap_or(self.steps.len())
    }

    /// Adds to what may be in flight at the start of a block. It is merged when the block's turn comes: where many paths meet, all at once.
    fn reach(&mut self, start: usize, state: Border) {
        let Some(block) = self.block_of(start) else { return };
        self.arrived[block].push(state);
        let todo = if self.called.contains_key(&start) { &mut self.todo_called } else { &mut self.todo };
        todo.insert(block);
    }

    /// What may be in flight at the start of a block, if that is more than before.
    fn more(&mut self, block: usize) -> Option<Border> {
        let arrived = merged(std::mem::take(&mut self.arrived[block]))?;
        let state = match &self.states[block] {
            None => arrived,
            Some(old) => Some(old.merge(&arrived)).filter(|new| new != old)?,
        };
        self.states[block] = Some(state.clone());
        Some(state)
    }

    fn settle(&mut self, tracker: &mut Tracker<'_>) {
        while let Some(block) = self.todo.pop_first().or_else(|| self.todo_called.pop_first()) {
            let Some(state) = self.more(block) else { continue };
            tracker.enter(self.steps, &state);
            let end = self.end_of(block);
            for number in self.starts[block]..end {
                tracker.issue(self.steps, number, &mut |_| {});
            }
            let left = tracker.leave(self.steps);
            match &self.nexts[end - 1] {
                Next::On => self.reach(end, left),
                Next::To(targets) => {
                    for target in targets.clone() {
                        self.reach(target, left.clone());
                    }
                }
                Next::Call(None) => self.reach(end, Border { announced: left.announced, ..Border::default() }),
                &Next::Call(Some(target)) => {
                    self.reach(target, Border { kept: Vec::new(), ..left.clone() });
                    if let Some(called) = self.called.get_mut(&target) {
                        called.sites.insert(end, left);
                    }
                    self.come_back(target, Some(end));
                }
                Next::Return => {
                    for target in self.returns.get(&(end - 1)).cloned().unwrap_or_default() {
                        let Some(called) = self.called.get_mut(&target) else { continue };
                        let merged = called.left.as_ref().map_or_else(|| left.clone(), |old| old.merge(&left));
                        if called.left.as_ref() != Some(&merged) {
                            called.own = merged.flights.iter().filter(|one| called.body.contains(&(one.step as usize))).copied().collect();
                            called.left = Some(merged);
                            self.come_back(target, None);
                        }
                    }
                }
            }
        }
    }

    /// Goes on behind the calls of some code, or behind one of them, with what it leaves.
    fn come_back(&mut self, target: usize, only: Option<usize>) {
        let Some(called) = self.called.get(&target) else { return };
        let Some(left) = &called.left else { return };
        let entered = self.block_of(target).and_then(|block| self.states[block].as_ref()).map_or(&[][..], |state| &state.flights);
        let mut returns = Vec::new();
        for (&behind, before) in called.sites.range(only.unwrap_or(0)..=only.unwrap_or(usize::MAX)) {
            let is_left = |one: &Carried| {
                let there = of_step(&left.flights, one.step)?;
                // Other calls may have brought it younger: what counts is how much older it gets in the called code.
                let brought = of_step(entered, one.step).map_or(there.age, |entered| entered.age);
                let age = (there.age - brought.min(there.age)).saturating_add(one.age).clamp(there.age, LONGEST as u8);
                Some(Carried { age, ..there })
            };
            let mut flights: Vec<Carried> = before.flights.iter().filter_map(is_left).chain(called.own.iter().copied()).collect();
            flights.sort_by_key(|one| one.step);
            flights.dedup_by_key(|one| one.step);
            returns.push((behind, Border { flights, kept: Vec::new(), announced: left.announced }));
        }
        for (behind, state) in returns {
            self.reach(behind, state);
        }
    }

    fn findings(&self, tracker: &mut Tracker<'_>) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (block, state) in self.states.iter().enumerate() {
            let Some(state) = state else { continue };
            tracker.enter(self.steps, state);
            let end = self.end_of(block);
            for number in self.starts[block]..end {
                tracker.issue(self.steps, number, &mut |finding| findings.push(finding));
            }
            if self.leaves(end - 1) {
                for one in &tracker.leave(self.steps).flights {
                    findings.extend(self.unsettled(one, end - 1));
                }
            }
        }
        findings
    }

    /// Whether code that others made follows on an instruction.
    fn leaves(&self, number: usize) -> bool {
        match self.nexts[number] {
            Next::Call(None) => true,
            Next::Return => !self.returns.contains_key(&number),
            _ => false,
        }
    }

    fn unsettled(&self, one: &Carried, second: usize) -> Option<Finding> {
        let step = &self.steps[one.step as usize];
        let first = one.step as usize;
        let register = step.writes.first()?.register;
        // Kernels without a stack load its pointer and never wait for it.
        let is_unused_stack = Some(register) == Register::new(File::General, 1) && one.results == Pending::Until(0);
        let pending = one.results != Pending::Done && step.results_wait && first != second && !is_unused_stack;
        pending.then_some(Finding { second, first, problem: Problem::NotSettled { register } })
    }
}
