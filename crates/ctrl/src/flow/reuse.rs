//! Sets the `.reuse` flags: a source register that a later instruction reads through the same operand slot stays in the reuse cache, which
//! saves a read of its register bank. (Jia et al. 2018, "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking", describe
//! the cache.)
//!
//! The cache is not coherent: the next instruction that reads the same register through the slot gets the value kept there, even if the
//! register has been written since. So a flag is set only if the next user of the cache entry is known, and
//!
//! - both instructions read through the same cache (`reuse_caches` in `control.tbl`), are in the same straight-line code, and are at most
//!   `reuse_distance` instructions apart;
//! - the second one reads the same registers through the same slot, and neither the first one nor an instruction in between writes them;
//! - the first one has no guard: with a false guard it would keep nothing.
//!
//! A slot has one entry for each register bank, so an even and an odd register can be kept at the same time; a pair of registers takes both
//! entries. An instruction uses up the entries of its slots even if its guard is false. It leaves new entries only if it is marked itself.
//!
//! Values are lost when another warp issues, so no flag is set across a yield; a flag there would be useless but harmless. Diverged threads
//! of a warp share the caches. So no flag is set across branches and synchronization of threads either: other threads of the warp might
//! read the value of these threads. (This hazard was found by running random programs in the simulator.)
//!
//! Example:
//!
//! ```text
//! FFMA R0, R4.reuse, R5, R6      R4 goes through slot 0, bank 0
//! FFMA R1, R4, R7, R8            slot 0 again: R4 comes from the cache
//! ```
//!
//! Cost: linear in the length of the code.

use oriole_hardware::ControlRules;
use oriole_isa::{Control, Opcode, Pipe, RegFile};

use super::control_flow::MachineControlFlow;
use super::machine_code::MachineCode;
use super::reg_access::{CachedRead, InstAccesses, Register, register_file_of};

/// Number of operand slots of a reuse cache.
const OPERAND_SLOT_COUNT: usize = 4;

/// A read of consecutive registers through an operand slot of a reuse cache. It is forgotten when an instruction writes one of the
/// registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SlotRead {
    /// Position of the reading instruction in the code.
    inst: usize,
    /// The first register that is read.
    first: Register,
    /// Number of registers that are read.
    count: u16,
}

/// For each entry of the reuse caches: the last read through it.
struct ReuseCacheEntries<'r> {
    /// The rules for control words of the target, from `control.tbl`.
    rules: &'r ControlRules,
    /// For each cache, operand slot and register bank: the last read through this entry; `None` if no later instruction can reuse what it
    /// read.
    last_reads: Vec<Option<SlotRead>>,
}

impl ReuseCacheEntries<'_> {
    /// Returns the element of `last_reads` for one cache entry: that for the bank of `register` in operand slot `slot` of reuse cache
    /// `cache`.
    fn entry_mut(&mut self, cache: u8, slot: u8, register: Register) -> &mut Option<SlotRead> {
        let banks = self.rules.facts.register_banks as usize;
        let place = (usize::from(cache) * OPERAND_SLOT_COUNT + usize::from(slot)) * banks;
        &mut self.last_reads[place + usize::from(self.rules.register_bank(register))]
    }

    /// Records a read of registers through an operand slot; later instructions can reuse what it read if `is_kept` is true. Returns the
    /// previous read of the same registers if all their cache entries still have it, and `None` otherwise.
    fn record_read(&mut self, cache: u8, slot: u8, new: SlotRead, is_kept: bool) -> Option<SlotRead> {
        let mut found = Some(None);
        for register in new.first..new.first + new.count {
            let old = std::mem::replace(self.entry_mut(cache, slot, register), is_kept.then_some(new));
            let is_same = old.is_some_and(|old| (old.first, old.count) == (new.first, new.count));
            found = found.filter(|_| is_same).map(|_| old);
        }
        found.flatten()
    }

    /// Removes the recorded reads of a register, because an instruction writes the register.
    fn remove_reads_of(&mut self, register: Register) {
        for one in &mut self.last_reads {
            *one = one.filter(|one| !(one.first..one.first + one.count).contains(&register));
        }
    }
}

/// Sets the reuse flags of all control words. The yield flags must be final.
pub(crate) fn set_reuse_flags(
    code: &MachineCode<'_>,
    control_flow: &MachineControlFlow,
    inst_accesses: &[InstAccesses],
    rules: &ControlRules,
    controls: &mut [Control],
) {
    let caches = rules.facts.reuse_caches.iter().map(|&(_, number)| number as usize + 1).max().unwrap_or(0);
    let mut entries =
        ReuseCacheEntries { rules, last_reads: vec![None; caches * OPERAND_SLOT_COUNT * rules.facts.register_banks as usize] };
    for (number, block) in code.blocks.iter().enumerate() {
        if !control_flow.is_straight_line_after_previous(code, number) {
            entries.last_reads.fill(None);
        }
        for number in block.range.clone() {
            let inst = &inst_accesses[number];
            if let Some(cache) = rules.reuse_cache(inst.class) {
                record_slot_reads(inst, number, cache, &mut entries, controls);
            }
            for reg_access in inst.writes.iter().filter(|reg_access| register_file_of(reg_access.register) == RegFile::General) {
                entries.remove_reads_of(reg_access.register);
            }
            if !controls[number].stay || may_change_active_threads(inst.opcode) {
                entries.last_reads.fill(None);
            }
        }
    }
}

/// Returns whether an instruction may change which threads of the warp are active. Newly active threads would read the values that the
/// previously active threads left in the reuse cache.
fn may_change_active_threads(opcode: Opcode) -> bool {
    opcode.properties().pipe == Pipe::Branch && !matches!(opcode, Opcode::BSSY | Opcode::NOP)
}

/// Records the reads of an instruction through operand slots of a reuse cache. Where the previous read through a slot was of the same
/// registers, and at most `reuse_distance` instructions earlier, sets the reuse flag of the earlier instruction.
fn record_slot_reads(inst: &InstAccesses, number: usize, cache: u8, entries: &mut ReuseCacheEntries<'_>, controls: &mut [Control]) {
    for &CachedRead { reuse_slot: slot, first, count } in &inst.cached_reads {
        let new = SlotRead { inst: number, first, count };
        let fits = u32::from(count) <= entries.rules.facts.register_banks;
        let old = entries.record_read(cache, slot, new, fits && !inst.guarded);
        if let Some(old) = old.filter(|old| number - old.inst <= entries.rules.facts.reuse_distance as usize) {
            controls[old.inst].reuse |= 1 << slot;
        }
    }
}
