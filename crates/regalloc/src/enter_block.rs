//! Sets up the registers at the start of a block: copies the state of a predecessor, and assigns registers to phis.
//!
//! The block starts with the values in registers that one visited predecessor, the most deeply nested one, has at its end. Then phis get
//! registers. At a loop header, values that the loop uses stay in registers. If the loop needs more registers than there are, its header
//! drops values that are live through the loop without a use in it: a value dropped inside the loop would be reloaded in every iteration.
//!
//! Example: four usable registers; `%a` to `%d` are live into a loop, `%d` is used only after it, and the loop body needs four
//! registers besides `%d`:
//!
//! ```text
//! bb0:   ...                   %a=R4 %b=R5 %c=R6 %d=R7
//! bb1:   (header)              pressure 5, usable 4, excess 1: %d is dropped, the only value without a use in the loop
//!        %e = IADD3 %a, %b     %e=R7
//!        ...
//! bb2:   STG [..], %d          %d is reloaded here; its store follows its definition in bb0
//! ```
//!
//! Braun and Hack 2009 choose the values of a loop header in the same way. At other blocks they prefer values that are in registers in all
//! predecessors; here the state of one predecessor is copied, because the edge from it then needs no code.

use std::cmp::Reverse;

use oriole_ir::{Block, Inst, RegFile, Value};

use crate::assigner::RegisterAssigner;
use crate::borders::PhiPlace;
use crate::liveness::NextUse;
use crate::operands::phi_source;
use crate::registers::RegisterSet;

impl RegisterAssigner<'_> {
    /// Sets up the registers at the start of a block and records them as its entry state.
    pub(crate) fn enter_block(&mut self, block: Block) {
        let base = self.predecessor_to_inherit_from(block);
        let liveness = &self.inputs.liveness;
        for (&value, &first_use) in liveness.live_in(block).iter().zip(liveness.live_in_next_uses(block)) {
            self.walk.next_use[value] = first_use;
            self.borders.last_live_in_block[value] = Some(block);
        }
        let mut displaced = Vec::new();
        for &(value, register) in base.map_or(&[][..], |base| self.borders.exit.get(base)) {
            if self.borders.last_live_in_block[value] == Some(block) {
                if self.registers.usable.has_all(register, self.class_of(value).width) {
                    self.registers.occupy(value, register);
                } else {
                    displaced.push(value);
                }
            }
        }
        self.place_displaced_values(displaced);
        // Values are dropped before the phis are placed, so that the phis can take their registers.
        if self.inputs.flow.loops.is_header(block) {
            self.make_room_for_loop(block);
        }
        self.assign_phi_registers(block, base);
        // Live-in values that are in no register here need a spill store, because another predecessor may have them in registers only. A
        // value that only a `KEEP` still uses needs none, unless a debugger reads it.
        for &value in self.inputs.liveness.live_in(block) {
            let is_read = !self.walk.is_only_kept(value) || self.inputs.env.keeps_variables;
            if is_read && self.registers.register_of(value).is_none() {
                self.spills.mark_spilled(value);
            }
        }
        self.borders.entry.fill(block, |found| self.registers.append_resident_values(found));
    }

    /// Assigns registers to values whose registers at the end of the predecessor must not be named in the current block, because the block may
    /// name fewer registers. Values with nearer uses come first. A value stays without a register if none is free and no values in registers
    /// are cheaper to drop.
    fn place_displaced_values(&mut self, mut displaced: Vec<Value>) {
        displaced.sort_by_key(|&value| (self.walk.next_use[value], value));
        for value in displaced {
            let free = self.registers.free;
            match self.choose_registers(value, &free) {
                Some(register) => self.registers.occupy(value, register),
                None => _ = self.evict_for_value(value, &[]),
            }
        }
    }

    /// Returns the predecessor whose exit state (values in registers at its end) becomes the state at the start of a block, so that the
    /// edge from it needs no moves; `None` if no predecessor was visited. Among the visited ones it prefers, in this order: the one in the
    /// deepest loop, which is executed most often; one that does not call a slow path; one with another successor, because moves on the
    /// edge from it might need a new block with a branch.
    fn predecessor_to_inherit_from(&self, block: Block) -> Option<Block> {
        let flow = &self.inputs.flow;
        let place = flow.graph.position(block);
        let visited = flow.graph.predecessors(block).iter().copied().filter(|&from| flow.graph.position(from) < place);
        let is_slow = |from: Block| self.function.blocks[from].insts.iter().any(|&inst| self.function.calls_slow_path(inst));
        visited.max_by_key(|&from| {
            let has_other_successor = flow.graph.successors(from).len() > 1;
            (flow.loops.depth(from), !is_slow(from), has_other_successor, flow.graph.position(from))
        })
    }

    /// Prepares the registers at a loop header. If the loop needs more registers than are usable, drops values that are live through the
    /// loop without a use in it, farthest next use first, until the registers suffice. Otherwise, reloads values that the loop uses and
    /// that are not in registers, nearest next use first, into free registers: one reload before the loop replaces one in every iteration.
    fn make_room_for_loop(&mut self, header: Block) {
        let loops = &self.inputs.flow.loops;
        let body = loops.innermost(header).map_or(&[][..], |id| loops.blocks(id));
        // The register pressure of each block is computed as if no value were dropped, so it includes values that are only live through the
        // loop. Blocks of the loop may have other limits than its header.
        let missing = |&inside: &Block| self.inputs.liveness.pressure[inside].saturating_sub(self.usable_in(inside).count());
        let most = body.iter().map(missing).max().unwrap_or(0);
        // Values that are in no register before the loop, and are not used in the loop, need no register in it.
        let needs_no_register =
            |value: &&Value| self.registers.register_of(**value).is_none() && self.walk.next_use[**value].is_after_loop();
        let dropped: u32 =
            self.inputs.liveness.live_in(header).iter().filter(needs_no_register).map(|&value| u32::from(self.class_of(value).width)).sum();
        match most.saturating_sub(dropped) {
            0 => self.reload_for_loop(header),
            excess => self.evict_for_loop(excess),
        }
    }

    /// Returns the registers of the current register file that values may use in a block.
    fn usable_in(&self, block: Block) -> RegisterSet {
        match self.inputs.file {
            RegFile::General => self.registers.allowed().and(&RegisterSet::first_n(self.inputs.block_limits.limit_of(block))),
            _ => *self.registers.allowed(),
        }
    }

    /// Assigns free registers to values that are live into a loop header, used in the loop, and in no register. No code is emitted here:
    /// the code of the edges into the loop later reloads these values.
    fn reload_for_loop(&mut self, header: Block) {
        let live_in = self.inputs.liveness.live_in(header).iter().copied();
        let mut missing: Vec<Value> = live_in.filter(|&value| self.registers.register_of(value).is_none()).collect();
        missing.sort_by_key(|&value| self.walk.next_use[value]);
        for value in missing {
            let free = self.registers.free;
            if !self.walk.next_use[value].is_after_loop()
                && let Some(register) = self.choose_registers(value, &free)
            {
                self.registers.occupy(value, register);
            }
        }
    }

    /// Drops (evicts) values that are live through a loop without a use in it, until `excess` registers are freed or no such value is left.
    fn evict_for_loop(&mut self, mut excess: u32) {
        let mut residents = Vec::new();
        self.registers.append_resident_values(&mut residents);
        let next_uses = residents.iter().map(|&(value, _)| (self.walk.next_use[value], value));
        let mut unused: Vec<(NextUse, Value)> = next_uses.filter(|(next, _)| next.is_after_loop()).collect();
        unused.sort_by_key(|&(next, value)| (Reverse(next), value));
        for (_, value) in unused {
            if excess == 0 {
                break;
            }
            excess = excess.saturating_sub(u32::from(self.class_of(value).width));
            self.evict_value(value);
        }
    }

    /// Assigns registers to the phis of a block, preferably those that hold the phi's source at the end of the predecessor `base`, because
    /// that edge then needs no move. A phi is spilled if no registers are free and no values in registers are cheaper to drop.
    fn assign_phi_registers(&mut self, block: Block, base: Option<Block>) {
        let phis = self.phis_in_current_file(block);
        if phis.is_empty() {
            return;
        }
        // Phis come first among the instructions of the block.
        let liveness = &self.inputs.liveness;
        for written in liveness.file_insts_of(block).iter().take(phis.len()).flat_map(|&file_inst| liveness.writes(file_inst)) {
            self.walk.next_use[written.value] = written.next_use;
        }
        let mut pieces: Vec<(Inst, Value)> =
            phis.iter().copied().filter(|&(_, value)| self.accumulators.is_accumulator_piece(value)).collect();
        let displaced = self.assign_accumulator_phi_registers(block, &mut pieces);
        let others: Vec<(Inst, Value)> =
            phis.iter().copied().filter(|&(_, value)| !self.accumulators.is_accumulator_piece(value)).collect();
        // Phis that can inherit the registers of their sources do so before the other phis choose, which might take these registers.
        let mut later = self.inherit_source_registers(&others, base);
        later.sort_by_key(|&(_, value)| (Reverse(self.class_of(value).width), self.walk.next_use[value], value));
        for (phi, value) in later {
            let free = self.registers.free;
            if let Some(register) = self.choose_registers(value, &free) {
                self.registers.occupy(value, register);
            } else if !self.evict_for_value(value, &phis) {
                self.borders.phis_without_register.push((block, phi));
                self.spills.mark_spilled(value);
            }
        }
        for value in displaced {
            let free = self.registers.free;
            if let Some(register) = self.choose_registers(value, &free) {
                self.registers.occupy(value, register);
            }
        }
        for &(_, value) in &phis {
            self.borders.phi_places[value] = Some(PhiPlace { block, register: self.registers.register_of(value) });
        }
    }

    /// Assigns to each phi of a piece of an accumulator ([`crate::accumulators`]) its home registers, in the order of next uses. A piece is
    /// spilled if a piece of another accumulator is in its home registers, or if the block must not name them. Other values lose their
    /// registers if these are home registers of a phi; they are returned in the order of their next uses, and the caller assigns other
    /// registers to them.
    fn assign_accumulator_phi_registers(&mut self, block: Block, pieces: &mut [(Inst, Value)]) -> Vec<Value> {
        let mut displaced: Vec<Value> = Vec::new();
        pieces.sort_by_key(|&(_, value)| (self.walk.next_use[value], value));
        for &(phi, value) in &*pieces {
            let Some(home) = self.accumulators.home_register_of(value).filter(|_| !self.walk.next_use[value].is_never()) else { continue };
            let mut window = RegisterSet::EMPTY;
            window.insert(home, self.class_of(value).width);
            let residents = self.registers.values_in_registers(&window);
            let is_usable = self.registers.usable.has_all(home, self.class_of(value).width);
            if !is_usable || residents.iter().any(|&resident| self.accumulators.home_register_of(resident).is_some()) {
                self.borders.phis_without_register.push((block, phi));
                self.spills.mark_spilled(value);
                continue;
            }
            for resident in residents {
                self.registers.vacate(resident);
                displaced.push(resident);
            }
            self.registers.occupy(value, home);
        }
        displaced.sort_by_key(|&value| (self.walk.next_use[value], value));
        displaced
    }

    /// Returns the phis of a block that define values of the current register file, each with its value.
    fn phis_in_current_file(&self, block: Block) -> Vec<(Inst, Value)> {
        let phis = self.function.phis(block).iter();
        let values = phis.filter_map(|&phi| self.function.operands(phi)[0].value().map(|value| (phi, value)));
        values.filter(|&(_, value)| self.is_in_current_file(value)).collect()
    }

    /// Assigns to each phi the registers that hold its source at the end of the predecessor `base`, if they are free and aligned. Returns
    /// the other phis that have a use.
    fn inherit_source_registers(&mut self, phis: &[(Inst, Value)], base: Option<Block>) -> Vec<(Inst, Value)> {
        let left = base.map_or(&[][..], |base| self.borders.exit.get(base));
        left.iter().for_each(|&(value, register)| self.borders.base_exit_register[value] = Some(register));
        let mut later = Vec::new();
        for &(phi, value) in phis {
            // An unused phi needs no register and no slot.
            if self.walk.next_use[value].is_never() {
                continue;
            }
            let class = self.function.values[value];
            let source = base.and_then(|base| phi_source(self.function, phi, base).part());
            let inherited = source.and_then(|part| Some(self.borders.base_exit_register[part.value]? + part.first));
            // These registers are free here only if the source of the phi is not itself live at the start of the block.
            match inherited.filter(|place| place.is_aligned(class.align) && self.registers.free.has_all(*place, class.width)) {
                Some(place) => {
                    self.registers.occupy(value, place);
                    self.hints.note_register(value, place);
                }
                None => later.push((phi, value)),
            }
        }
        left.iter().for_each(|&(value, _)| self.borders.base_exit_register[value] = None);
        later
    }

    /// Evicts the values of a window that are together cheaper to evict than `value`, and assigns the window to `value`. The results of
    /// `phis` stay in their registers. Returns false if there is no such window.
    fn evict_for_value(&mut self, value: Value, phis: &[(Inst, Value)]) -> bool {
        let class = self.class_of(value);
        // Phis do not displace each other: they get registers in order of width and next use, so the more urgent phi has registers already.
        let is_phi = |victim: Value| phis.iter().any(|&(_, phi)| phi == victim);
        let window = self.registers.cheapest_window(class, &self.registers.usable, |mut victims| {
            victims.try_fold(0, |cost, victim| (!is_phi(victim)).then(|| cost + self.eviction_cost(victim, 0)))
        });
        let Some(window) = window.filter(|window| window.cost < self.eviction_cost(value, 0)) else { return false };
        for register in window.first.tuple(class.width) {
            if let Some(victim) = self.registers.occupant(register) {
                self.evict_value(victim);
            }
        }
        self.registers.occupy(value, window.first);
        true
    }
}
