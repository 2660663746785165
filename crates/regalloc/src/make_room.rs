//! Frees an aligned window of registers (consecutive registers for one tuple): values in it move to other registers or are dropped.
//!
//! Moves are preferred to drops where they are enough: if at least as many registers are free as are needed, the file is only fragmented.
//!
//! Example: R4 to R9 are usable, `%a` is in R4, `%b` in R6, `%c` in R8:R9; R5 and R7 are free. A pair fits nowhere, but two registers are
//! free. The windows R4:R5 and R6:R7 cost one move each, R8:R9 costs two; the lowest of the cheapest is R4:R5, and `%a` moves to R7. If R5
//! and R7 were in use, the values in the window with the lowest sum of drop costs would be dropped instead.

use oriole_ir::Class;

use crate::assigner::RegisterAssigner;
use crate::inst_state::InstAllocationState;
use crate::register_file::RegisterWindow;
use crate::registers::{Reg, RegisterSet};

impl RegisterAssigner<'_> {
    /// Frees an aligned window (consecutive registers) for a value of `class` before the instruction: the values in the window are moved or
    /// dropped (evicted). Returns the first register of the window; `None` if every window holds a source of the instruction.
    pub(crate) fn make_room(&mut self, state: &mut InstAllocationState, class: Class) -> Option<Reg> {
        let within = state.source_registers.without(&state.result_registers);
        let spare = self.registers.free.and(&within).count();
        // With enough free registers the register file is only fragmented, and moves are cheaper than spills. The count ignores alignment,
        // so a value in the chosen window may still find no gap; the loop below then drops (evicts) it.
        let is_fragmented = spare >= u32::from(class.width);
        let RegisterWindow { first, .. } = self.registers.cheapest_window(class, &within, |mut values| {
            values.try_fold(0, |cost, value| {
                let own = if is_fragmented { u64::from(self.class_of(value).width) } else { self.eviction_cost(value, state.position) };
                (!state.needs_value_in_register(value)).then_some(cost + own)
            })
        })?;
        let mut window = RegisterSet::EMPTY;
        window.insert(first, class.width);
        for value in self.registers.values_in_registers(&window) {
            let free = self.registers.free.and(&state.source_registers).without(&window).without(&state.result_registers);
            match self.choose_registers(value, &free) {
                Some(to) => self.move_value_before_inst(state, value, to),
                None => self.evict_before_inst(state, value),
            }
        }
        Some(first)
    }

    /// Frees an aligned window (consecutive registers) for a result of `class` and returns its first register; `None` if that is
    /// impossible. A live value in the window moves before the instruction, or is dropped (evicted) at the instruction. Unlike in
    /// [`RegisterAssigner::make_room`], sources may be dropped, since they are read before the result is written. The sources of an
    /// asynchronous matrix product may not.
    ///
    /// If the result has home registers ([`crate::accumulators`]), the window is `home`. Pieces of accumulators in the window are dropped,
    /// not moved, because a piece belongs in its own home registers.
    pub(crate) fn make_room_for_result(&mut self, state: &mut InstAllocationState, class: Class, home: Option<Reg>) -> Option<Reg> {
        let mut within = self.registers.usable.without(&state.result_registers);
        if let Some(home) = home {
            let mut window = RegisterSet::EMPTY;
            window.insert(home, class.width);
            within = within.and(&window);
        }
        if self.writes_while_reading(state) {
            state.uses.iter().for_each(|used| within = within.without(&self.registers.occupied_by(used.value)));
        }
        let spare = self.registers.free.without(&state.result_registers).count();
        let RegisterWindow { first, .. } = self.registers.cheapest_window(class, &within, |values| {
            let (mut drops, mut shifted) = (0, 0);
            for value in values.filter(|&value| !state.frees_registers_of(value)) {
                drops += self.eviction_cost(value, state.position);
                shifted += u32::from(self.class_of(value).width);
            }
            // If enough registers are free, all values of the window can probably be moved. Moving one register costs 1 and dropping
            // (evicting) a value at least 16, so moves of fewer than 16 registers are preferred to any drop.
            Some(if shifted <= spare { u64::from(shifted) } else { drops })
        })?;
        let mut window = RegisterSet::EMPTY;
        window.insert(first, class.width);
        for value in self.registers.values_in_registers(&window) {
            if state.frees_registers_of(value) {
                continue;
            }
            let free = self.registers.free.without(&window).without(&state.result_registers).without(&state.clobbered);
            let place = if self.accumulators.is_accumulator_piece(value) { None } else { self.choose_registers(value, &free) };
            match place {
                Some(to) => self.move_value_before_inst(state, value, to),
                None => state.dropped.push(value),
            }
        }
        Some(first)
    }
}
