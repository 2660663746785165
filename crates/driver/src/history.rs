//! The history of instructions for `oriole explain`: which pass created an instruction, which passes changed its form, and which decision
//! of the scheduler determined its position.
//!
//! Recorded only if [`Reports::decisions`](crate::Reports::decisions) is set; otherwise every function here returns at once.

use std::collections::HashMap;
use std::fmt::Write;

use oriole_ir::{Function, Inst, OperandKind};
use oriole_opt::alternatives::{Alternatives, RejectedAlternative};
use oriole_sched::function::Stats;
use oriole_sched::report::trace::AttemptVerdict;
use oriole_support::Index;

use oriole_isa::INSTRUCTION_BYTES;

/// The history of one machine instruction: where it comes from and why it has its form and position.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InstHistory {
    /// The pass that created the instruction.
    pub created_by: &'static str,
    /// The changes of the instruction's form ([`FormChange`]), in the order in which they were made.
    pub changes: Vec<FormChange>,
    /// Other forms of the instruction that passes considered and rejected, in the order of the passes.
    pub rejected: Vec<RejectedForm>,
    /// Why the instruction has its position in its block.
    pub place: PlaceDecision,
}

/// A change of the form of an instruction: its mnemonic, its modifiers, its guard, or the kinds of its operands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FormChange {
    /// The pass that made the change.
    pub pass: &'static str,
    /// The form before the pass: mnemonic and kinds of operands, such as `IADD3 R, R, R`.
    pub before: String,
    /// The form after the pass.
    pub after: String,
}

/// A form that a pass considered for an instruction and rejected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RejectedForm {
    /// The pass that rejected the form.
    pub pass: &'static str,
    /// The rejected form, such as `FFMA`.
    pub form: String,
    /// Why the form was rejected; completes the sentence "not FFMA, because ...".
    pub reason: String,
}

/// The reason why an instruction has its position in its block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlaceDecision {
    /// The scheduler picked the instruction for this position.
    Chosen {
        /// Phase number of the scheduling pass, 97 or 110.
        phase: u8,
        /// Cycle in which the instruction issues, counted from the start of the scheduled region.
        cycle: u32,
        /// The second-best candidate of the scheduler in this step, which issued later.
        runner_up: RunnerUp,
        /// The comparison that decided between the instruction and the second-best candidate; completes the sentence "it goes first because
        /// ...".
        reason: &'static str,
    },
    /// The scheduler found no faster order of the region, so the original order was kept.
    Kept {
        /// Phase number of the scheduling pass, 97 or 110.
        phase: u8,
    },
    /// The scheduler does not move this instruction, or a later pass inserted it next to another one.
    Fixed,
    /// The function was not scheduled.
    NotScheduled,
}

/// The second-best candidate of a step of the scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunnerUp {
    /// No other instruction was ready.
    None,
    /// The instruction at this offset in bytes from the start of the function.
    At(u32),
    /// An instruction that a pass after scheduling removed or replaced.
    Gone,
}

/// The history of all instructions of a function while it is compiled; empty unless it is requested.
#[derive(Clone, Default, Debug)]
pub struct History {
    /// Whether the history is requested.
    is_recording: bool,
    /// For each instruction: its form (mnemonic, modifiers, guard and kinds of operands) after the last pass, and how the form came about.
    forms: Vec<RecordedForm>,
    /// For each instruction: the last decision of the scheduler about its position.
    picks: HashMap<Inst, LastPick>,
    /// Whether a scheduling pass has run.
    is_scheduled: bool,
}

/// The form of an instruction (mnemonic, modifiers, guard and kinds of operands) after the last pass, and how the form came about.
#[derive(Clone, Default, Debug)]
struct RecordedForm {
    /// Name of the pass that created the instruction.
    created_by: &'static str,
    /// The form as text, such as `IADD3 R, R, R`.
    text: String,
    /// The changes of the form, in order.
    changes: Vec<FormChange>,
}

/// The last decision of the scheduler about an instruction. The fields are those of [`PlaceDecision`].
#[derive(Clone, Copy, Debug)]
enum LastPick {
    Chosen { phase: u8, cycle: u32, runner_up: Option<Inst>, reason: &'static str },
    Kept { phase: u8 },
}

impl History {
    /// Returns an empty history. Nothing is recorded in it if `is_recording` is false.
    pub fn new(is_recording: bool) -> History {
        History { is_recording, ..History::default() }
    }

    /// Records the instructions that a pass created and the forms that it changed.
    pub fn note_pass(&mut self, pass: &'static str, function: &Function) {
        if !self.is_recording {
            return;
        }
        let known = self.forms.len();
        self.forms.resize_with(function.insts.len(), || RecordedForm { created_by: pass, ..RecordedForm::default() });
        let mut text = String::new();
        for &inst in function.layout.iter().flat_map(|&block| &function.blocks[block].insts) {
            text.clear();
            write_form(&mut text, function, inst);
            let form = &mut self.forms[inst.position()];
            if inst.position() >= known || form.text.is_empty() {
                form.text.clone_from(&text);
            } else if form.text != text {
                let before = std::mem::replace(&mut form.text, text.clone());
                form.changes.push(FormChange { pass, before, after: text.clone() });
            }
        }
    }

    /// Records the decisions of a scheduling pass. The decisions of a later phase replace those of an earlier one only where the later
    /// phase found a faster order.
    pub fn note_schedule(&mut self, phase: u8, stats: &Stats) {
        if !self.is_recording {
            return;
        }
        self.is_scheduled = true;
        for attempt in stats.attempts.iter().filter(|attempt| attempt.verdict == AttemptVerdict::Taken) {
            for pick in &attempt.picks {
                let is_better = attempt.regions.get(pick.region).is_some_and(|&(.., is_better)| is_better);
                if is_better {
                    let chosen = LastPick::Chosen { phase, cycle: pick.cycle, runner_up: pick.runner_up, reason: pick.reason.text() };
                    self.picks.insert(pick.picked, chosen);
                } else {
                    self.picks.entry(pick.picked).or_insert(LastPick::Kept { phase });
                }
            }
        }
    }

    /// Returns the history of the instructions in the order of the final code. `alternatives` has the forms that passes rejected.
    pub fn finish(&self, function: &Function, alternatives: &Alternatives) -> Vec<InstHistory> {
        if !self.is_recording {
            return Vec::new();
        }
        let mut rejected: HashMap<Inst, Vec<RejectedForm>> = HashMap::new();
        for RejectedAlternative { pass, inst, form, reason } in alternatives.list() {
            let known = rejected.entry(*inst).or_default();
            // Passes that run twice may reject the same form twice.
            if !known.iter().any(|other| other.form == *form && other.reason == *reason) {
                known.push(RejectedForm { pass, form: form.clone(), reason: reason.clone() });
            }
        }
        let insts: Vec<Inst> = function.layout.iter().flat_map(|&block| &function.blocks[block].insts).copied().collect();
        let offsets: HashMap<Inst, u32> =
            insts.iter().enumerate().map(|(number, &inst)| (inst, (number * INSTRUCTION_BYTES) as u32)).collect();
        let history = |inst: Inst| {
            let form = self.forms.get(inst.position()).cloned().unwrap_or_default();
            let place = match self.picks.get(&inst) {
                Some(&LastPick::Chosen { phase, cycle, runner_up, reason }) => {
                    let at = |other: Inst| offsets.get(&other).map_or(RunnerUp::Gone, |&offset| RunnerUp::At(offset));
                    PlaceDecision::Chosen { phase, cycle, runner_up: runner_up.map_or(RunnerUp::None, at), reason }
                }
                Some(&LastPick::Kept { phase }) => PlaceDecision::Kept { phase },
                None if self.is_scheduled => PlaceDecision::Fixed,
                None => PlaceDecision::NotScheduled,
            };
            let rejected = rejected.get(&inst).cloned().unwrap_or_default();
            InstHistory { created_by: form.created_by, changes: form.changes, rejected, place }
        };
        insts.into_iter().map(history).collect()
    }
}

/// Appends the form of an instruction to `text`: guard, mnemonic, modifiers and kinds of operands, without the numbers of registers and
/// values.
fn write_form(text: &mut String, function: &Function, inst: Inst) {
    let data = &function.insts[inst];
    if data.guard.is_some() {
        text.push_str("@P ");
    }
    text.push_str(data.op.mnemonic());
    data.modifiers.iter().for_each(|modifier| text.push_str(modifier.spelling()));
    // Operands are written for machine instructions only, because the number of operands of a phi or copy is not part of its form.
    if data.op.machine().is_none() {
        return;
    }
    for (number, operand) in function.operands(inst).iter().enumerate() {
        text.push_str(if number == 0 { " " } else { ", " });
        match operand.kind {
            OperandKind::Value(part) => text.push_str(function.values[part.value].file.prefix()),
            OperandKind::Register { file, .. } => text.push_str(file.prefix()),
            OperandKind::Zero(file) => {
                text.push_str(file.prefix());
                text.extend(file.constant_letter());
            }
            OperandKind::Integer(_) | OperandKind::Set(_) => text.push_str("number"),
            OperandKind::Constant { .. } => text.push_str("c[]"),
            OperandKind::Name(name) => text.push_str(name.spelling()),
            OperandKind::Block(_) => text.push_str("block"),
            OperandKind::Reference(_) => text.push_str("symbol"),
            OperandKind::Address(word) => {
                let _ = write!(text, "{}[]", word.spelling());
            }
            OperandKind::Undefined => text.push('?'),
        }
    }
}
