//! Describes the reasons for stalls and waits in words, for `oriole disasm --why`.

use oriole_hardware::DependenceKind;
use oriole_isa::{Instruction, RegFile};

use super::reg_access::{Register, number_in_file, register_file_of};
use super::stalls::{StallCause, StallParts};
use super::waits::{Wait, WaitCause, WaitedEvent};

/// The reasons for the stalls and waits of a function.
#[derive(Clone, Debug, Default)]
pub struct StallAndWaitReasons {
    /// All waits, sorted by the instruction that is waited for.
    pub waits: Vec<Wait>,
    /// For each instruction: its stall, divided into parts by cause.
    pub stalls: Vec<StallParts>,
}

impl StallAndWaitReasons {
    /// Returns, for each instruction, the waits in which it is the instruction that waits. `instructions` is the number of instructions of
    /// the code.
    pub fn waits_by_waiting_inst(&self, instructions: usize) -> Vec<Vec<Wait>> {
        let mut sorted = vec![Vec::new(); instructions];
        for wait in &self.waits {
            sorted[wait.second as usize].push(*wait);
        }
        sorted
    }
}

/// Returns the name of a register in SASS syntax, such as `UR4`.
pub fn register_name(register: Register) -> String {
    let letters = match register_file_of(register) {
        RegFile::Predicate => "P",
        RegFile::Uniform => "UR",
        RegFile::UniformPredicate => "UP",
        _ => "R",
    };
    format!("{letters}{}", number_in_file(register))
}

/// Returns the verb that describes how `second` depends on a register: it reads the register, is guarded by it, or overwrites it.
fn dependence_verb(kind: DependenceKind, register: Register, second: &Instruction) -> &'static str {
    let guard = second.guard;
    let guard_file = if guard.uniform { RegFile::UniformPredicate } else { RegFile::Predicate };
    let is_guard = !guard.is_always() && (guard_file, u16::from(guard.predicate)) == (register_file_of(register), number_in_file(register));
    match kind {
        DependenceKind::Raw if is_guard => "is guarded by",
        DependenceKind::Raw => "reads",
        DependenceKind::War => "overwrites, still to be read,",
        DependenceKind::Waw => "overwrites, still to be written,",
    }
}

/// Returns a text that says why instruction `second` waits; `first` is the name of the instruction that it waits for.
pub fn describe_wait(wait: &Wait, second: &Instruction, first: &str) -> String {
    let what = if wait.event == WaitedEvent::Results { "the result of" } else { "the sources of" };
    match wait.cause {
        WaitCause::Register(kind, register) => {
            format!("{} {} of {first}", dependence_verb(kind, register, second), register_name(register))
        }
        WaitCause::ControlTransfer => format!("transfers control; waits for {what} {first}"),
        WaitCause::Fence => format!("waits for the fence {first}"),
        WaitCause::LateReader => format!("a branch; waits for {what} {first}, which reads uniform registers late"),
        WaitCause::TensorLoads => format!("waits for {what} {first}, a load from tensor memory"),
        WaitCause::Acquire => format!("invalidates the L1 cache; waits for {what} {first}"),
        WaitCause::TooManyInFlight => format!("too many are in flight; waits for {what} {first}"),
    }
}

/// Returns a text that says why an instruction stalls; `first` names the instruction whose latency has to pass, `second` is the one that
/// must not issue earlier, and `second_name` its name, such as "the next".
pub fn describe_stall(cause: StallCause, second: Option<&Instruction>, second_name: &str, first: &str) -> String {
    match cause {
        StallCause::MinimumStall => "always".to_owned(),
        StallCause::Register { kind, register, cycles, .. } => {
            let verb = second.map_or("touches", |second| dependence_verb(kind, register, second));
            format!("{second_name} {verb} {} of {first}: {cycles} cycles", register_name(register))
        }
        StallCause::Scoreboard { board, .. } => format!("{second_name} waits for SB{board}, which {first} has just set"),
        StallCause::Barrier { .. } => format!("{second_name} must not pass the barrier {first}"),
        StallCause::Unit { cycles, .. } => format!("{second_name} goes to the unit that {first} keeps busy: {cycles} cycles"),
        StallCause::ControlTransfer { .. } => format!("{second_name} transfers control; {first} has to be complete"),
    }
}

/// Returns the position of the instruction whose latency a stall covers; `None` if the cause is the minimum stall of an opcode.
pub fn stall_origin(cause: StallCause) -> Option<usize> {
    match cause {
        StallCause::MinimumStall => None,
        StallCause::Register { first, .. }
        | StallCause::Scoreboard { first, .. }
        | StallCause::Barrier { first }
        | StallCause::Unit { first, .. }
        | StallCause::ControlTransfer { first } => Some(first as usize),
    }
}
