//! Finds values that are live across calls of slow paths. They prefer registers that such a call does not overwrite, so that the call needs
//! no moves around it.
//!
//! The preference never raises the number of registers: it holds for the registers in use, and for those below the last one that the call
//! overwrites. It is weaker than a coalescing hint, because a hint saves a move on the fast path.

use oriole_ir::{Function, RegFile, Value};
use oriole_support::{Index, IndexVec};

use crate::environment::AllocationEnvironment;
use crate::liveness::Liveness;
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
    /// Number of the last register in `clobbered`, plus one.
    clobbered_end: u16,
}

impl LiveAcrossSlowCalls {
    /// Finds the calls of slow paths in a function, and the values of a register file that are live across them.
    pub fn find(function: &Function, env: &AllocationEnvironment, liveness: &Liveness, file: RegFile) -> LiveAcrossSlowCalls {
        let mut found = LiveAcrossSlowCalls::default();
        for &block in &function.layout {
            for &inst in function.blocks[block].insts.iter().filter(|&&inst| function.calls_slow_path(inst)) {
                if found.is_live_across.is_empty() {
                    found.is_live_across = IndexVec::filled(function.values.len(), false);
                }
                found.clobbered = found.clobbered.or(&env.clobbered_by(function, inst, file));
                // No value that the block of the call defines is live after the block, except as a source of phis.
                for next in function.successors(block) {
                    liveness.live_in(next).iter().for_each(|&value| found.is_live_across[value] = true);
                }
            }
        }
        let last = (0..GENERAL_REGISTER_COUNT).rev().find(|&register| found.clobbered.has(Reg::new(register)));
        found.clobbered_end = last.map_or(0, |register| register + 1);
        found
    }

    /// Returns the registers among `free` that a value prefers because calls of slow paths do not overwrite them; `None` if it has no
    /// preference. `used_register_end` is the number of the highest register in use, plus one.
    pub fn preferred_registers(&self, value: Value, free: &RegisterSet, used_register_end: u16) -> Option<RegisterSet> {
        let is_live_across = value.position() < self.is_live_across.len() && self.is_live_across[value];
        is_live_across.then(|| free.without(&self.clobbered).and(&RegisterSet::first_n(used_register_end.max(self.clobbered_end).into())))
    }
}
