//! Assigns new registers to all sources of an instruction. This is the last resort: a source is a tuple, and each *window*, an aligned run
//! of as many adjacent registers as the tuple has, holds another source of the instruction.
//!
//! All sources in registers that the allocator may choose (not arguments in fixed registers), and copies of tied sources, are placed in
//! decreasing order of alignment and width, each in the lowest free window. Every other value in these registers is *dropped*, that is,
//! evicted: a later use reloads or recomputes it. First-fit in decreasing order leaves no gap between tuples whose widths are powers of
//! two. If there is no free window for a source, the allocation fails.
//!
//! Example: R4 to R15 are usable; the instruction reads `%a` in R4, `%b` in R8, `%c` in R12 and the quad `%q`, which is in a spill slot.
//! All three windows of four registers hold a source. `%q` gets R4:R7, then `%a`, `%b` and `%c` get R8, R9 and R10.

use std::cmp::Reverse;

use oriole_ir::{Class, Operand};
use smallvec::SmallVec;

use crate::assigner::RegisterAssigner;
use crate::inst_state::{InstAllocationState, Reload};
use crate::outcome::AllocateError;
use crate::registers::{Reg, RegisterSet};

/// A source of the instruction, or a copy of a tied source (one that shares the register of a result), that needs new registers.
enum ItemToPlace {
    /// A source, by its index in `InstAllocationState::uses`.
    ValueUse(usize),
    /// A copy of the tied source, for the result with this index; the operand is the source.
    TiedCopy(usize, Operand),
}

impl RegisterAssigner<'_> {
    /// Chooses new registers for all sources of an instruction that need a register, and for the results that share the register of a
    /// source. Returns an error if they do not fit into the usable registers.
    pub(crate) fn repack(&mut self, state: &mut InstAllocationState) -> Result<(), AllocateError> {
        // Registers chosen so far for tied results are discarded. Moves and reloads recorded so far remain; `note_move` updates their
        // destinations.
        state.result_registers = RegisterSet::EMPTY;
        for result in &mut state.results {
            result.register = None;
            result.tied_copy = None;
        }
        let mut items = self.items_to_place(state);
        items.sort_by_key(|(class, _)| Reverse((class.align, class.width)));
        let mut open = state.source_registers;
        let mut places: Vec<(ItemToPlace, Reg)> = Vec::new();
        for (class, item) in items {
            let Some(place) = open.gap_starts(class).lowest() else { return Err(self.register_limit_error(state)) };
            open.remove(place, class.width);
            places.push((item, place));
        }
        self.record_new_source_registers(state, places, &state.source_registers.without(&open));
        // Results inherit the registers of tied sources that die here.
        for number in 0..state.results.len() {
            if state.results[number].register.is_none()
                && let Some(tied) = self.tied_source(state, &state.results[number])
            {
                let Some(place) = self.inheritable_register(state, &state.results[number], &tied) else {
                    return Err(self.register_limit_error(state));
                };
                state.set_result_registers(number, place, self.class_of(state.results[number].value).width);
            }
        }
        Ok(())
    }

    /// Returns the sources and copies that need registers, with their register classes. A tied source that stays live needs a copy. A tied
    /// source that dies needs none, because the result inherits its registers, unless it is a part of a tuple that is misaligned for the
    /// result.
    fn items_to_place(&self, state: &InstAllocationState) -> Vec<(Class, ItemToPlace)> {
        let mut items: Vec<(Class, ItemToPlace)> = Vec::new();
        for (number, used) in state.uses.iter().enumerate().filter(|(_, used)| used.needs_register) {
            items.push((self.class_of(used.value), ItemToPlace::ValueUse(number)));
        }
        for (number, result) in state.results.iter().enumerate() {
            let Some(tied) = self.tied_source(state, result) else { continue };
            let class = self.class_of(result.value);
            let dies = tied.value().is_some_and(|value| state.dies(value));
            let aligned = tied.part().is_some_and(|part| part.first.is_multiple_of(class.align));
            if !dies || !aligned {
                items.push((class, ItemToPlace::TiedCopy(number, tied)));
            }
        }
        items
    }

    /// Records the new registers of the sources and copies; `places` gives the first register of each, and `filled` is the set of all these
    /// registers.
    fn record_new_source_registers(&mut self, state: &mut InstAllocationState, places: Vec<(ItemToPlace, Reg)>, filled: &RegisterSet) {
        // The registers of all sources are freed before any are occupied again, because a source may get registers that another source
        // still occupies.
        let mut origins: SmallVec<[Option<Reg>; 6]> = SmallVec::new();
        for used in &state.uses {
            origins.push(if used.needs_register { self.registers.vacate(used.value) } else { None });
        }
        for value in self.registers.values_in_registers(filled) {
            self.evict_before_inst(state, value);
        }
        for (item, place) in places {
            match item {
                ItemToPlace::ValueUse(number) => {
                    let value = state.uses[number].value;
                    self.registers.occupy(value, place);
                    state.uses[number].register = Some(place);
                    match origins[number] {
                        None => state.reloads.push(Reload { value, to: place }),
                        Some(from) if from != place => state.note_move(value, from, place),
                        Some(_) => {}
                    }
                }
                ItemToPlace::TiedCopy(number, tied) => {
                    state.set_result_registers(number, place, self.class_of(state.results[number].value).width);
                    state.results[number].tied_copy = Some(tied);
                }
            }
        }
    }
}
