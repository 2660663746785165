//! Finds values that are live across calls of slow paths. They prefer registers that such a call does not overwrite, so that the call needs
//! no moves around it.
//!
//! The preference does not raise the number of general registers by itself. It is limited to registers below the highest of three bounds: the
//! end of the registers in use, the end of those that the call overwrites, and the number that the function needs anyway. At a call, the
//! values that are live across it are in registers that the call does not overwrite, so the function needs at least as many registers as the live
//! values have and the call overwrites together. Example: a call overwrites R4 to R11, and 70 registers are live across it. With the stack
//! pointer, the function has at least 79 registers, so the live values may use all numbers below 79 from the beginning. If they started in
//! R4 to R11, each call would move them away and back.
//!
//! The preference is weaker than a coalescing hint, because a hint saves a move on the fast path. For predicates it extends to all
//! registers, since their number costs nothing.

use oriole_ir::{Function, RegFile, Value};
use oriole_support::{Index, IndexVec};

use crate::environment::AllocationEnvironment;
use crate::liveness::FileLiveness;
use crate::registers::{Reg, RegisterSet};

/// Number of general registers that instructions can name (R0 to R254).
const GENERAL_REGISTER_COUNT: u16 = 255;

/// The values that are live across calls of slow paths (functions for the rare cases of an operation), and the registers that these calls
/// overwrite.
#[derive(Clone, Default)]
pub(crate) struct LiveAcrossSlowCalls {
    /// For each value: whether it is live across a call of a slow path. Empty if the function has no such call.
    is_live_across: IndexVec<Value, bool>,
    /// The registers that any of the slow-path calls overwrites.
    clobbered: RegisterSet,
    /// The register numbers below this one can be used without raising the number of registers of the function.
    affordable_end: u16,
}

impl LiveAcrossSlowCalls {
    /// Finds the calls of slow paths in a function, and the values of a register file that are live across them. `needed_registers` is the
    /// number of registers that the function needs because of its other instructions.
    pub fn find(
        function: &Function,
        env: &AllocationEnvironment,
        liveness: &FileLiveness,
        file: RegFile,
        needed_registers: u32,
    ) -> LiveAcrossSlowCalls {
        let mut found = LiveAcrossSlowCalls::default();
        let mut needed = needed_registers;
        for &block in &function.layout {
            for &inst in function.blocks[block].insts.iter().filter(|&&inst| function.calls_slow_path(inst)) {
                if found.is_live_across.is_empty() {
                    found.is_live_across = IndexVec::filled(function.values.len(), false);
                }
                let clobbered = env.clobbered_by(function, inst, file);
                found.clobbered = found.clobbered.or(&clobbered);
                let mut live_registers = 0;
                // The successor is also reached by the fast path, so only its phis read values that this block defines. The values that are
                // live at its start are therefore those that are live across the call.
                for next in function.successors(block) {
                    for &value in liveness.live_in(next) {
                        found.is_live_across[value] = true;
                        live_registers += u32::from(function.values[value].width);
                    }
                }
                needed = needed.max(live_registers + clobbered.and(&env.usable_registers(file)).count());
            }
        }
        // Adds the registers that may not be used, such as the stack pointer.
        needed += needed - RegisterSet::first_n(needed).and(&env.usable_registers(file)).count();
        if file != RegFile::General {
            needed = env.limit(file);
        }
        let last = (0..GENERAL_REGISTER_COUNT).rev().find(|&register| found.clobbered.has(Reg::new(register)));
        let needed = u16::try_from(needed).unwrap_or(GENERAL_REGISTER_COUNT).min(GENERAL_REGISTER_COUNT);
        found.affordable_end = last.map_or(0, |register| register + 1).max(needed);
        found
    }

    /// Returns the registers among `free` that a value prefers because calls of slow paths do not overwrite them; `None` if it has no
    /// preference. `used_register_end` is the number of the highest register in use, plus one.
    pub fn preferred_registers(&self, value: Value, free: &RegisterSet, used_register_end: u16) -> Option<RegisterSet> {
        let is_live_across = value.position() < self.is_live_across.len() && self.is_live_across[value];
        is_live_across.then(|| free.without(&self.clobbered).and(&RegisterSet::first_n(used_register_end.max(self.affordable_end).into())))
    }
}
