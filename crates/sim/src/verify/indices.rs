//! Index validity: every scoreboard index exists, and the instruction is able to set that scoreboard.
//!
//! Proved for each instruction:
//!
//! - the two scoreboard fields contain 0 to 5, or 7 for none; scoreboard 6 does not exist (`no-such-scoreboard`);
//! - only instructions with variable-latency results or late operand reads set scoreboards, and only those that the instruction table
//!   allows for their form (`cannot-set`);
//! - `DEPBAR` names an existing scoreboard, and its count is within the range of a scoreboard (`count-too-high`).
//!
//! Note: a scoreboard at an instruction on doubles where their latency is fixed (`needs-none`). ptxas 13.2 sets them for sm_100, whose code
//! also runs on sm_103, where the latency is variable.

use oriole_isa::{Control, Instruction, Opcode, OperandValue, RegFile};

use super::{FindingSink, Section};

/// The encodable index for which no scoreboard exists; 7 means none.
const NO_SUCH_SCOREBOARD: u8 = 6;
/// Number of scoreboards.
const SCOREBOARDS: u16 = 6;
/// Maximum value of a scoreboard, a six-bit counter.
const HIGHEST_COUNT: i64 = 63;

/// Checks the scoreboard indices of each instruction.
pub(super) fn verify(section: &Section<'_>, sink: &mut FindingSink) {
    for (number, &word) in section.words.iter().enumerate() {
        let control = Control::of(word);
        for (what, scoreboard) in [("results", control.write_barrier), ("reads", control.read_barrier)] {
            sink.count(usize::from(scoreboard.is_some()));
            if scoreboard == Some(NO_SUCH_SCOREBOARD) {
                sink.hazard("no-such-scoreboard", number, format!("names scoreboard 6 for its {what}; there are 0 to 5"));
            }
        }
    }
    for (number, step) in section.steps().iter().enumerate() {
        let names_one = step.control.write_barrier.is_some() || step.control.read_barrier.is_some();
        if names_one && !step.results_wait && !step.sources_wait {
            match step.class.name() {
                "double" => sink.note("needs-none", number, "sets a scoreboard, which double precision does not need on this GPU"),
                _ => sink.hazard("cannot-set", number, "sets a scoreboard, but reads and writes by the clock"),
            }
        }
    }
    for (number, instruction) in section.instructions() {
        let sets_read = instruction.control.read_barrier.is_some() && !instruction.may_set_read_barrier();
        let sets_write = instruction.control.write_barrier.is_some() && !instruction.may_set_write_barrier();
        for what in [sets_read.then_some("reads"), sets_write.then_some("results")].into_iter().flatten() {
            sink.hazard("cannot-set", number, format!("sets a scoreboard for its {what}, which it cannot"));
        }
    }
    for (number, instruction) in section.instructions().filter(|(_, instruction)| instruction.opcode == Opcode::DEPBAR) {
        depbar(number, instruction, sink);
    }
}

/// Checks the operands of a `DEPBAR`.
fn depbar(number: usize, instruction: &Instruction, sink: &mut FindingSink) {
    for operand in &instruction.operands {
        sink.count(1);
        match operand.value {
            OperandValue::Register(RegFile::Scoreboard, scoreboard) if scoreboard.is_none_or(|index| index >= SCOREBOARDS) => {
                sink.hazard("no-such-scoreboard", number, "waits for a scoreboard that does not exist");
            }
            OperandValue::Integer(count) if count > HIGHEST_COUNT => {
                sink.hazard("count-too-high", number, format!("waits until {count} are left; a scoreboard counts to {HIGHEST_COUNT}"));
            }
            _ => {}
        }
    }
}
