//! The number of general registers that a warp has at each instruction of a section that changes it (`USETMAXREG`, `setmaxnreg` in PTX).
//!
//! A kernel starts with the declared number. `USETMAXREG.DEALLOC` sets it. `USETMAXREG.TRY_ALLOC` sets it only if its predicate result is
//! true, so the warp has the larger number only on paths on which a branch has tested that result. The analysis follows the result through
//! `PLOP3` and `UPLOP3`, which is how compilers copy it to a predicate that a branch can read:
//!
//! ```text
//!                                                count before
//! 0: USETMAXREG.TRY_ALLOC UP0, 0xe8              168
//! 1: PLOP3.LUT P0, PT, PT, PT, UP0, 0x80, 0x0    168, 232 if UP0 is true
//! 2: @!P0 BRA 0                                  168, 232 if P0 is true
//! 3: IMAD R200, R2, R3, RZ                       232
//! ```
//!
//! Where paths join, the smallest number holds. This is a forward data-flow analysis over single instructions. Counts only fall and sets
//! of predicates only shrink, so it ends; its cost is linear in the size of the section for each different count.
//!
//! A function in the section starts with the smallest number of its call sites, and returns with the number with which it was called:
//! compilers change the number in kernels only. A function that nothing in the section calls starts with the declared number.

use std::collections::BTreeSet;

use oriole_isa::{Instruction, Opcode, Operand, OperandValue, RegFile, accesses, requested_registers};

use super::FindingSink;
use crate::hazard::flow::NextInsts;

/// Number of predicates of each file, with the constant one.
const PREDICATES: u8 = 8;

/// A predicate whose value is known to depend on a request for registers only.
#[derive(Clone, Copy, PartialEq, Eq)]
struct RequestCondition {
    /// Bit of the predicate in a [`Request`].
    bit: u16,
    /// Whether the condition is that the predicate is false.
    is_negated: bool,
}

/// A request for registers whose result no branch has tested yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Request {
    /// The number of registers that the warp has if the request was granted.
    wanted: u16,
    /// Predicates that are true exactly if it was granted, one bit each.
    granted: u16,
    /// Predicates that are false exactly if it was granted, one bit each.
    refused: u16,
}

impl Request {
    /// Returns what is known at the join of two paths with the same request.
    fn join(self, other: Request) -> Option<Request> {
        let joined = Request { granted: self.granted & other.granted, refused: self.refused & other.refused, ..self };
        (self.wanted == other.wanted).then_some(joined)
    }

    /// Returns whether the request was granted, for a condition that holds; `None` if the condition does not tell.
    fn outcome(self, condition: RequestCondition) -> Option<bool> {
        let says = |set: u16| set >> condition.bit & 1 == 1;
        match (says(self.granted), says(self.refused)) {
            (true, _) => Some(!condition.is_negated),
            (_, true) => Some(condition.is_negated),
            _ => None,
        }
    }
}

/// What is known before an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct CountState {
    /// The number of registers that the warp has at least.
    count: u16,
    request: Option<Request>,
}

impl CountState {
    fn join(self, other: CountState) -> CountState {
        let request = self.request.zip(other.request).and_then(|(one, two)| one.join(two));
        CountState { count: self.count.min(other.count), request }
    }

    /// Returns the state where a condition holds.
    fn given(self, condition: Option<RequestCondition>) -> CountState {
        let outcome = condition.zip(self.request).and_then(|(condition, request)| Some((request.outcome(condition)?, request.wanted)));
        match outcome {
            Some((true, wanted)) => CountState { count: wanted, request: None },
            Some((false, _)) => CountState { request: None, ..self },
            None => self,
        }
    }

    /// Returns the state after an instruction that is executed.
    fn after(self, instruction: &Instruction) -> CountState {
        let mut state = self;
        if let Some(count) = requested_registers(instruction) {
            let result = instruction.operands.first().and_then(written_predicate);
            return match (result, instruction.guard.is_always()) {
                (Some(bit), true) => CountState { request: Some(Request { wanted: count, granted: 1 << bit, refused: 0 }), ..state },
                (Some(_), false) => CountState { request: None, ..state },
                (None, true) => CountState { count, request: None },
                (None, false) => CountState { count: state.count.min(count), request: None },
            };
        }
        let Some(request) = &mut state.request else { return state };
        let before = *request;
        for access in accesses(instruction).iter().filter(|access| access.written) {
            let Some(base) = base_of(access.file) else { continue };
            for register in access.registers() {
                request.granted &= !(1 << (base + register));
                request.refused &= !(1 << (base + register));
            }
        }
        if matches!(instruction.opcode, Opcode::PLOP3 | Opcode::UPLOP3) && instruction.guard.is_always() {
            request.add_results(before, instruction);
        }
        state
    }
}

impl Request {
    /// Adds the results of predicate logic that depend on this request only.
    fn add_results(&mut self, before: Request, instruction: &Instruction) {
        let [first, second, inputs @ .., one, two] = &instruction.operands[..] else { return };
        for (place, table) in [(first, one), (second, two)] {
            let (Some(bit), OperandValue::Integer(table)) = (written_predicate(place), &table.value) else { continue };
            let result = |is_granted: bool| {
                // The first input selects the highest bit of the index.
                let index = inputs.iter().try_fold(0, |index, input| Some(index << 1 | u32::from(before.value(input, is_granted)?)))?;
                Some(*table >> index & 1 == 1)
            };
            match (result(true), result(false)) {
                (Some(true), Some(false)) => self.granted |= 1 << bit,
                (Some(false), Some(true)) => self.refused |= 1 << bit,
                _ => {}
            }
        }
    }

    /// Returns the value of a predicate operand if the request was granted, or was refused; `None` if it is not known.
    fn value(self, operand: &Operand, is_granted: bool) -> Option<bool> {
        let value = match operand.value {
            OperandValue::Register(RegFile::Predicate | RegFile::UniformPredicate, None) => true,
            _ => self.outcome(RequestCondition { bit: written_predicate(operand)?, is_negated: false })? == is_granted,
        };
        Some(value != operand.not)
    }
}

/// Returns the bit of the first predicate of a file in a [`Request`]; `None` for other files.
fn base_of(file: RegFile) -> Option<u16> {
    match file {
        RegFile::Predicate => Some(0),
        RegFile::UniformPredicate => Some(PREDICATES.into()),
        _ => None,
    }
}

/// Returns the bit of a predicate operand in a [`Request`]; `None` for other operands and for the constant predicates.
fn written_predicate(operand: &Operand) -> Option<u16> {
    let OperandValue::Register(file, Some(number)) = operand.value else { return None };
    Some(base_of(file)? + number)
}

/// Returns the condition under which an instruction is executed; `None` if that is always or depends on more than one predicate.
fn guard_of(instruction: &Instruction) -> Option<RequestCondition> {
    let guard = instruction.guard;
    let base = if guard.uniform { PREDICATES } else { 0 };
    let condition = RequestCondition { bit: u16::from(base + guard.predicate), is_negated: guard.negated };
    (!guard.is_always()).then_some(condition)
}

/// Returns the condition under which a branch is taken; `None` if that is always or depends on more than one predicate.
fn condition_of(branch: &Instruction) -> Option<RequestCondition> {
    let mut tested =
        branch.operands.iter().filter_map(|operand| Some(RequestCondition { bit: written_predicate(operand)?, is_negated: operand.not }));
    match (guard_of(branch), tested.next()) {
        (guard, None) => guard,
        (None, operand) => operand,
        (Some(_), Some(_)) => None,
    }
}

impl RequestCondition {
    fn negated(self) -> RequestCondition {
        RequestCondition { is_negated: !self.is_negated, ..self }
    }
}

/// The result of the analysis: for each instruction the number of registers that it may use; `None` if no path reaches it.
pub(super) struct SectionRegisterCounts {
    states: Vec<Option<CountState>>,
}

impl SectionRegisterCounts {
    /// Computes the counts of a section whose functions start at `entries`, with `initial` registers.
    pub(super) fn compute(code: &[Instruction], nexts: &[NextInsts], entries: &[usize], initial: u16) -> SectionRegisterCounts {
        let called: BTreeSet<usize> =
            nexts.iter().filter_map(|next| if let NextInsts::Call { target, .. } = next { *target } else { None }).collect();
        let mut states: Vec<Option<CountState>> = vec![None; code.len()];
        let mut todo = BTreeSet::new();
        let reach = |states: &mut Vec<Option<CountState>>, todo: &mut BTreeSet<usize>, to: usize, state: CountState| {
            let Some(old) = states.get_mut(to) else { return };
            let joined = old.map_or(state, |old| old.join(state));
            if *old != Some(joined) {
                *old = Some(joined);
                todo.insert(to);
            }
        };
        for &entry in entries.iter().chain([&0]).filter(|entry| !called.contains(entry)) {
            reach(&mut states, &mut todo, entry, CountState { count: initial, request: None });
        }
        while let Some(number) = todo.pop_first() {
            let (Some(state), Some(instruction)) = (states[number], code.get(number)) else { continue };
            let after = state.after(instruction);
            let mut go = |to: usize, state: CountState| reach(&mut states, &mut todo, to, state);
            match &nexts[number] {
                // An instruction that goes on to the next one may have ended the threads for which its guard holds.
                NextInsts::FallThrough if instruction.opcode == Opcode::EXIT => {
                    go(number + 1, after.given(guard_of(instruction).map(RequestCondition::negated)));
                }
                NextInsts::FallThrough => go(number + 1, after),
                NextInsts::To(targets) => {
                    let condition = condition_of(instruction).filter(|_| instruction.opcode == Opcode::BRA);
                    // The fall-through successor of a conditional branch is the last one.
                    let (fall_through, taken) = match targets.split_last() {
                        Some((&last, others)) if last == number + 1 && !others.is_empty() => (Some(last), others),
                        _ => (None, &targets[..]),
                    };
                    taken.iter().for_each(|&target| go(target, after.given(condition)));
                    fall_through.into_iter().for_each(|next| go(next, after.given(condition.map(RequestCondition::negated))));
                }
                NextInsts::Call { target, .. } => {
                    let called = CountState { request: None, ..after };
                    target.iter().for_each(|&target| go(target, called));
                    go(number + 1, called);
                }
                NextInsts::Return { guarded } => {
                    if *guarded {
                        go(number + 1, after);
                    }
                }
            }
        }
        SectionRegisterCounts { states }
    }

    /// Returns the number of registers that the warp has where it executes an instruction; `None` if no path reaches the instruction.
    pub(super) fn at(&self, number: usize, instruction: &Instruction) -> Option<u16> {
        let state = (*self.states.get(number)?)?;
        Some(state.given(guard_of(instruction)).count)
    }
}

/// Reports changes of the number of registers in the wrong direction; the hardware does not define what they do.
pub(super) fn check_changes(code: &[Instruction], counts: &SectionRegisterCounts, sink: &mut FindingSink) {
    for (number, instruction) in code.iter().enumerate() {
        let (Some(wanted), Some(count)) = (requested_registers(instruction), counts.at(number, instruction)) else { continue };
        let is_request = instruction.operands.first().is_some_and(|first| matches!(first.value, OperandValue::Register(..)));
        if is_request && wanted < count {
            sink.hazard("register-change", number, format!("requests {wanted} registers, and the warp has {count} already"));
        } else if !is_request && wanted > count {
            sink.hazard("register-change", number, format!("keeps {wanted} registers, and the warp has only {count} here"));
        }
    }
}
