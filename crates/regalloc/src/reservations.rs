//! Reserves the registers that the sources of phis should be defined into.
//!
//! A loop-carried value should be defined directly into the register of its phi; otherwise it has to be moved there at the end of the
//! iteration. While the old content of that register is dead and the new value is not computed yet, the register is free, and a value that
//! is still live when the new value is defined would take it:
//!
//! ```text
//! bb1:  R4 = PHI R4, bb0, %3, bb1
//!       %1 = LOP3 R4, ..            R4 is dead here; %1 in R4 would force %3 to another register, and a move to R4 in each iteration
//!       %3 = LOP3 .., ..            should be defined into R4
//!       .. = IADD3 %1, %3
//! ```
//!
//! The same holds where branches join. If one path changes a value and the other one does not, the changed value should be defined into the
//! register of the old one, which is dead on the path that changes it:
//!
//! ```text
//! bb0:  .. R4 ..                    @P0 BRA bb2 ; BRA bb1
//! bb1:  %1 = VIADD R4, 0x1          R4 is dead here
//!       %2 = IADD3 .., ..           should be defined into R4
//!       STS [%1], ..                BRA bb2
//! bb2:  R4 = PHI R4, bb0, %2, bb1
//! ```
//!
//! The register is therefore reserved in the block that defines the new value. Values that die before that definition may take it, and
//! prefer it to other registers. Values that live longer take other registers, unless the function would need more registers because of
//! that.

use oriole_ir::{Block, Function, Op, Operand, Pseudo, RegFile, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::hints::CoalescingHints;
use crate::liveness::{ControlFlowAndLoops, FileLiveness};
use crate::operands::part_in_file;
use crate::registers::{Reg, RegisterSet};

/// Allocation unit of the hardware: the number of registers of a thread grows in steps of this size.
const REGISTER_ALLOCATION_UNIT: u32 = 8;

/// Maximum number of registers of a register file.
const MAX_REGISTERS_PER_FILE: u16 = 256;

/// The registers of the current block that are reserved for the definitions of phi sources.
#[derive(Clone, Default)]
pub(crate) struct RegisterReservations {
    /// Values that phis read, and values that are copied or packed into such values.
    joined_values: FxHashSet<Value>,
    /// Number of registers that the function needs even without reservations, rounded up to an allocation unit.
    needed_registers: u32,
    /// The registers that are reserved in the block, each with the value that will be defined into it.
    reserved_registers: Vec<ReservedRegister>,
    /// The registers of `reserved_registers`, as a set.
    reserved: RegisterSet,
    /// For each value that the block defines, the position of its last use; `u32::MAX` if it lives beyond the block.
    last_uses: FxHashMap<Value, u32>,
}

/// A reserved register, and the value that will be defined into it.
#[derive(Clone)]
struct ReservedRegister {
    /// The reserved register.
    register: Reg,
    /// The value that will be defined into the register: the source of a phi.
    value: Value,
    /// Position of the instruction that defines the value.
    position: u32,
}

/// The registers that may be chosen for one value, in two degrees of preference.
pub(crate) struct RegisterCandidates {
    /// Free registers whose use does not raise the number of registers of the function, except those reserved for a value that is defined
    /// while this value is live.
    pub unreserved: RegisterSet,
    /// The registers of `unreserved` that are reserved for values which are defined only after this value has died.
    pub preferred: RegisterSet,
}

impl RegisterReservations {
    /// Finds the values of a register file that phis read, directly or through copies and packs. No block has reserved registers yet.
    pub fn find(function: &Function, flow: &ControlFlowAndLoops, liveness: &FileLiveness, file: RegFile) -> RegisterReservations {
        let mut found = RegisterReservations::default();
        for &block in flow.reverse_post_order() {
            for &phi in function.phis(block) {
                let sources = function.sources(phi).chunks_exact(2).filter_map(|pair| part_in_file(function, &pair[0], file));
                found.joined_values.extend(sources.map(|part| part.value));
            }
        }
        if found.joined_values.is_empty() {
            return found;
        }
        for file_inst in liveness.file_insts().iter().rev() {
            let is_pack = matches!(function.insts[file_inst.inst].op, Op::Pseudo(Pseudo::Copy | Pseudo::Pack));
            let mut results = function.results(file_inst.inst).iter().filter_map(Operand::value);
            if is_pack && results.any(|value| found.joined_values.contains(&value)) {
                let sources = function.sources(file_inst.inst).iter().filter_map(|source| part_in_file(function, source, file));
                found.joined_values.extend(sources.filter(|&part| part == function.whole(part.value)).map(|part| part.value));
            }
        }
        found.needed_registers = liveness.pressure.iter().copied().max().unwrap_or(0).next_multiple_of(REGISTER_ALLOCATION_UNIT);
        found
    }

    /// Finds the registers to reserve in a block, which has `length` instructions, for the definitions of phi sources.
    pub fn enter_block(&mut self, function: &Function, liveness: &FileLiveness, hints: &mut CoalescingHints, block: Block, length: u32) {
        self.reserved_registers.clear();
        self.last_uses.clear();
        self.reserved = RegisterSet::EMPTY;
        if self.joined_values.is_empty() {
            return;
        }
        for &file_inst in liveness.file_insts_of(block) {
            if matches!(function.insts[file_inst.inst].op, Op::Pseudo(_)) {
                continue;
            }
            for write in liveness.writes(file_inst).iter().filter(|write| self.joined_values.contains(&write.value)) {
                let width = function.values[write.value].width;
                let place = hints.hinted_register(write.value).filter(|place| place.number() + u16::from(width) <= MAX_REGISTERS_PER_FILE);
                let Some(place) = place else { continue };
                self.reserved.insert(place, width);
                let reservation = |register| ReservedRegister { register, value: write.value, position: file_inst.position };
                self.reserved_registers.extend(place.tuple(width).map(reservation));
            }
        }
        if self.reserved_registers.is_empty() {
            return;
        }
        for &file_inst in liveness.file_insts_of(block) {
            for (access, is_write) in liveness
                .reads(file_inst)
                .iter()
                .map(|access| (access, false))
                .chain(liveness.writes(file_inst).iter().map(|access| (access, true)))
            {
                if is_write || self.last_uses.contains_key(&access.value) {
                    let last = if access.next_use.is_after_block(length) { u32::MAX } else { file_inst.position };
                    self.last_uses.insert(access.value, last);
                }
            }
        }
    }

    /// Returns the registers among `free` that should be chosen for a value that the current block defines; `None` if the block has no
    /// reserved registers, or does not define the value. `used` is one more than the highest register in use.
    pub fn candidate_registers(&self, value: Value, free: &RegisterSet, used: u16) -> Option<RegisterCandidates> {
        if self.reserved_registers.is_empty() {
            return None;
        }
        let last_use = *self.last_uses.get(&value)?;
        let mut avoided = RegisterSet::EMPTY;
        for reservation in
            self.reserved_registers.iter().filter(|reservation| reservation.position < last_use && reservation.value != value)
        {
            avoided.insert(reservation.register, 1);
        }
        let affordable = RegisterSet::first_n(self.needed_registers.max(u32::from(used)));
        let unreserved = free.without(&avoided).and(&affordable);
        Some(RegisterCandidates { unreserved, preferred: unreserved.and(&self.reserved) })
    }
}
