//! Recent events that may delay later instructions: register accesses, scoreboard changes and barriers, with their ages.

use oriole_hardware::{DependenceKind, Model, Port};

use super::super::reg_access::{Register, register_file_of};

/// The last access to a register through a port, whose latency may not have passed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimedAccess {
    /// The register that is accessed.
    pub(super) register: Register,
    /// The port of the access in the hardware model: the way in which the instruction's class accesses the register.
    pub(super) port: Port,
    /// Whether the register is written; otherwise it is read.
    pub(super) write: bool,
    /// Whether the instruction has a guard; some latencies are longer then.
    pub(super) guarded: bool,
    /// Cycle of issue, counted from the start of the block. In a [`BlockEndState`] the field holds the age instead: the number of cycles
    /// since the issue.
    pub(super) issued_at: i64,
    /// Position of the instruction in the code.
    pub(super) inst: u32,
}

impl TimedAccess {
    /// Returns whether this access makes the older access `other` irrelevant, because both need the same distance to any later access.
    pub(super) fn supersedes(&self, other: &TimedAccess) -> bool {
        (self.register, self.port, self.write, self.guarded) == (other.register, other.port, other.write, other.guarded)
    }
}

/// Age in cycles of events that have no effect on later instructions any more. It is larger than any latency.
pub(super) const LONG_AGO_CYCLES: i64 = 1 << 20;

/// Number of scoreboards, one for each bit of a wait mask.
pub(super) const SCOREBOARD_COUNT: usize = 6;

/// Recent events at the end of a block (register accesses, scoreboard changes, barriers) that may delay instructions of later blocks. All
/// times are ages: cycles before the end of the block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BlockEndState {
    /// Register accesses whose latency may not have passed, sorted by register.
    pub(super) accesses: Vec<TimedAccess>,
    /// For each scoreboard: age of the last instruction that set it, and the position of that instruction.
    pub(super) last_setters: [(i64, u32); SCOREBOARD_COUNT],
    /// Age of the last thread-block barrier (`BAR`), and the position of that instruction.
    pub(super) last_block_barrier: (i64, u32),
}

impl BlockEndState {
    /// Returns the state before any event has happened.
    pub(super) fn new() -> BlockEndState {
        BlockEndState {
            accesses: Vec::new(),
            last_setters: [(LONG_AGO_CYCLES, 0); SCOREBOARD_COUNT],
            last_block_barrier: (LONG_AGO_CYCLES, 0),
        }
    }

    /// Adds the events of `other`, which reach the same point on another path. Duplicate accesses are removed when the next block is
    /// walked, which keeps the youngest one.
    pub(super) fn merge_events(&mut self, other: &BlockEndState) {
        self.accesses.extend(&other.accesses);
        for (one, two) in self.last_setters.iter_mut().zip(&other.last_setters) {
            *one = (*one).min(*two);
        }
        self.last_block_barrier = self.last_block_barrier.min(other.last_block_barrier);
    }

    /// Makes all events `cycles` older, and removes those that can have no effect on later instructions any more.
    pub(super) fn add_age(&mut self, cycles: i64, model: &Model) {
        for access in &mut self.accesses {
            access.issued_at += cycles;
        }
        self.accesses.retain(|access| access.issued_at < max_delay_cycles(model, access));
        for (at, _) in self.last_setters.iter_mut().chain([&mut self.last_block_barrier]) {
            *at = (*at + cycles).min(LONG_AGO_CYCLES);
        }
    }
}

/// Returns the number of cycles after which an access cannot delay a later instruction any more: the longest latency of its port.
pub(super) fn max_delay_cycles(model: &Model, access: &TimedAccess) -> i64 {
    let file = register_file_of(access.register);
    let cycles = if access.write {
        model.max_need_by_port(DependenceKind::Raw, file, access.port).max(model.max_need_by_port(DependenceKind::Waw, file, access.port))
    } else {
        model.max_need_by_port(DependenceKind::War, file, access.port)
    };
    cycles.into()
}
