//! Why control words are what they are.

use oriole_isa::{File, Instruction};

use super::stalls::StallCause;
use super::touch::{Register, file_of, number_in_file};
use super::waits::{Cause, KindOf, Part, Wait};

/// The reasons of a function's stalls and waits.
#[derive(Clone, Debug, Default)]
pub struct Reasons {
    /// All waits, by those who are waited for.
    pub waits: Vec<Wait>,
    /// For each instruction why it stalls.
    pub stalls: Vec<StallCause>,
}

impl Reasons {
    /// For each instruction the waits that it keeps.
    pub fn waits_by_second(&self, instructions: usize) -> Vec<Vec<Wait>> {
        let mut sorted = vec![Vec::new(); instructions];
        for wait in &self.waits {
            sorted[wait.second as usize].push(*wait);
        }
        sorted
    }
}

/// The name of a register.
pub fn register_name(register: Register) -> String {
    let letters = match file_of(register) {
        File::Predicate => "P",
        File::Uniform => "UR",
        File::UniformPredicate => "UP",
        _ => "R",
    };
    format!("{letters}{}", number_in_file(register))
}

/// What the second does with a register that the first wrote or reads.
fn verb(kind: KindOf, register: Register, second: &Instruction) -> &'static str {
    let guard = second.guard;
    let guard_file = if guard.uniform { File::UniformPredicate } else { File::Predicate };
    let is_guard = !guard.is_always() && (guard_file, u16::from(guard.predicate)) == (file_of(register), number_in_file(register));
    match kind {
        KindOf::Raw if is_guard => "is guarded by",
        KindOf::Raw => "reads",
        KindOf::War => "overwrites, still to be read,",
        KindOf::Waw => "overwrites, still to be written,",
    }
}

/// Why an instruction waits, where `first` names the one it waits for.
pub fn describe_wait(wait: &Wait, second: &Instruction, first: &str) -> String {
    let what = if wait.part == Part::Results { "the result of" } else { "the sources of" };
    match wait.cause {
        Cause::Register(kind, register) => format!("{} {} of {first}", verb(kind, register, second), register_name(register)),
        Cause::Settle => format!("hands over; waits for {what} {first}"),
        Cause::Fence => format!("waits for the fence {first}"),
        Cause::Acquire => format!("drops what L1 holds; waits for {what} {first}"),
        Cause::Crowd => format!("too many are in flight; waits for {what} {first}"),
    }
}

/// Why an instruction stalls, where `first` names the one that needs the time and `next` is the one behind the stall.
pub fn describe_stall(cause: StallCause, next: Option<&Instruction>, first: &str) -> String {
    match cause {
        StallCause::Own => "always".to_owned(),
        StallCause::Register { kind, register, cycles, .. } => {
            let verb = next.map_or("touches", |next| verb(kind, register, next));
            format!("the next {verb} {} of {first}: {cycles} cycles", register_name(register))
        }
        StallCause::Scoreboard { board, .. } => format!("the next waits for SB{board}, which {first} has just set"),
        StallCause::Barrier { .. } => format!("the next must not pass the barrier {first}"),
        StallCause::Settle { .. } => format!("the next hands over; {first} has to be done"),
    }
}

/// The instruction that a stall is for, if it is another one.
pub fn stall_first(cause: StallCause) -> Option<usize> {
    match cause {
        StallCause::Own => None,
        StallCause::Register { first, .. }
        | StallCause::Scoreboard { first, .. }
        | StallCause::Barrier { first }
        | StallCause::Settle { first } => Some(first as usize),
    }
}
