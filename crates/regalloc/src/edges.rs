//! Inserts the moves, reloads and stores on control-flow edges that take each block's exit state to its successor's entry state.
//!
//! **Input:** the values in registers at the start and end of each block. **Output:** for each edge, code that makes every live-in value
//! and every phi of the successor be where the successor expects it. Braun and Hack 2009 call this coupling code; Wimmer and Franz 2010
//! ("Linear Scan Register Allocation on SSA Form") call it resolution and also replace the phis here.
//!
//! The code of an edge is placed
//!
//! - at the start of the successor, if that has one predecessor;
//! - at the end of the predecessor, if no other successor and no terminator of the predecessor notices. That always holds for a
//!   predecessor with one successor whose terminator reads no register. The published algorithms split every critical edge instead;
//! - otherwise in a new block on the edge.
//!
//! All register moves of an edge form one parallel copy. Example: `bb1` is a loop whose two phis exchange their values, and nothing is
//! free:
//!
//! ```text
//! bb1:  %x = PHI %a, bb0, %y, bb1      entry state of bb1: %x=R4 %y=R5
//!       %y = PHI %b, bb0, %x, bb1      exit state of bb1:  %x=R4 %y=R5
//!       @%p BRA bb1;  BRA bb2          edge bb1 to bb1:    R4 <- R5, R5 <- R4
//! ```
//!
//! `bb1` has two successors and two predecessors. If `bb2` reads `%x` or `%y` in R4 or R5, the exchange must not happen on the way to
//! `bb2`, so the edge gets a block of its own with three exclusive ors (see [`crate::moves`]).
//!
//! A phi of the general file may have no register at all: its value is then in a spill slot, which every incoming edge fills. Phis in
//! slots can exchange values too, so a slot whose old content is still read on the edge is written through a temporary slot.
//!
//! Cost: linear in the sizes of the states at both ends of each edge.

use oriole_ir::{Block, Inst, MemoryAccess, Op, Opcode, Operand, OperandKind, Part, RegFile, Role, Space, Symbol, Value};
use oriole_support::Index;
use smallvec::SmallVec;

use crate::AllocateError;
use crate::allocate_inst::unit;
use crate::assign::{Assigner, NO_REGISTER};
use crate::liveness::phi_source;
use crate::moves::{Move, Sink, register};
use crate::registers::RegisterSet;
use crate::spill::EmitPoint;

/// The transfers that one edge has to make. Conceptually they happen all at once: sources are as the predecessor leaves them.
#[derive(Default)]
struct Transfers {
    /// Moves between registers of the file.
    moves: Vec<Move>,
    /// Values that the predecessor has in no register: (first destination register, part of the value).
    reloads: Vec<(u16, Part)>,
    /// Constants and operands of other register files: (destination, source), one register each.
    others: Vec<(u16, Operand)>,
    /// Phis in memory and their sources. Only in the general file; memory phis of other files become phis of shadow values.
    to_memory: Vec<(Value, Operand)>,
}

impl Transfers {
    fn is_empty(&self) -> bool {
        self.moves.is_empty() && self.reloads.is_empty() && self.others.is_empty() && self.to_memory.is_empty()
    }

    /// Returns the registers that the transfers write.
    fn written(&self, reload_width: impl Fn(&Part) -> u8) -> RegisterSet {
        let mut set = RegisterSet::EMPTY;
        self.moves.iter().for_each(|one| set.insert(one.to, 1));
        self.others.iter().for_each(|&(to, _)| set.insert(to, 1));
        self.reloads.iter().for_each(|(to, part)| set.insert(*to, reload_width(part)));
        set
    }
}

impl Assigner<'_> {
    /// Emits the transfers of all edges. Code for the start of a block is kept in `heads` until the blocks are rewritten.
    pub(crate) fn resolve_edges(&mut self) -> Result<(), AllocateError> {
        let mut split: Vec<(Block, Block, Block)> = Vec::new();
        for place in 0..self.flow.order.len() {
            let from = self.flow.order[place];
            // Transfers start from the exit state, which code at the end of the block changes. So only one edge may put code there.
            let mut used_end = false;
            // `register_of` is the exit state of `from` in this iteration, and all NO_REGISTER again after it.
            for &(value, register) in self.exit_state.of(from) {
                self.register_of[value.position()] = register;
            }
            for number in 0..self.flow.successors[from.position()].len() {
                let to = self.flow.successors[from.position()][number];
                let transfers = self.transfers(from, to);
                if transfers.is_empty() {
                    continue;
                }
                let last = *self.output[from.position()].last().expect("blocks end in control flow");
                let mut written = Vec::new();
                let place = EmitPoint { out: &mut written, location: self.function.insts[last].location, inst: last };
                let harmless = !used_end && self.may_go_to_end(from, to, &transfers);
                self.emit_transfers(from, to, &transfers, place)?;
                if self.flow.predecessors[to.position()].len() == 1 {
                    self.heads[to.position()] = written;
                } else if harmless {
                    used_end = true;
                    let terminators = self.terminator_count(from);
                    let out = &mut self.output[from.position()];
                    let at = out.len() - terminators;
                    out.splice(at..at, written);
                } else {
                    split.push((from, to, self.split_edge(from, to, written)));
                }
            }
            for &(value, _) in self.exit_state.of(from) {
                self.register_of[value.position()] = NO_REGISTER;
            }
        }
        // Only now: `transfers` finds the sources of phis by their original predecessors.
        for &(from, to, new) in &split {
            self.rename_phi_edge(from, to, new);
        }
        if !split.is_empty() {
            // Each new block is laid out after the predecessor of its edge.
            let layout = std::mem::take(&mut self.function.layout);
            let mut by_block = vec![SmallVec::<[Block; 2]>::new(); self.output.len()];
            split.into_iter().for_each(|(from, _, new)| by_block[from.position()].push(new));
            for block in layout {
                self.function.layout.push(block);
                let new = by_block.get(block.position()).map_or(&[][..], |new| new);
                self.function.layout.extend_from_slice(new);
            }
        }
        Ok(())
    }

    /// Replaces the predecessor `from` by `new` in the phis of `to`. Phis of register files that are allocated later need it.
    fn rename_phi_edge(&mut self, from: Block, to: Block, new: Block) {
        for phi in self.function.phis(to).to_vec() {
            for operand in self.function.sources_mut(phi) {
                if operand.kind == OperandKind::Block(from) {
                    operand.kind = OperandKind::Block(new);
                }
            }
        }
    }

    fn terminator_count(&self, block: Block) -> usize {
        self.function.terminators(block).len()
    }

    /// Collects the transfers of an edge. `register_of` must be the exit state of `from`.
    fn transfers(&self, from: Block, to: Block) -> Transfers {
        let mut transfers = Transfers::default();
        let mut phis_without_register: SmallVec<[Inst; 4]> = SmallVec::new();
        for &phi in self.function.phis(to) {
            let Some(value) = self.function.operands(phi)[0].value().filter(|&value| self.class(value).file == self.file) else { continue };
            let at = self.entered_at[value.position()];
            if at == NO_REGISTER {
                phis_without_register.push(phi);
                continue;
            }
            self.transfer_to_register(&mut transfers, at, self.class(value).width, &phi_source(self.function, phi, from));
        }
        // Live-in values. Phis of `to` are in its entry state too, but come from their sources, above.
        for &(value, at) in self.entry_state.of(to) {
            if self.register_of[value.position()] != at && self.phi_of[value.position()] != Some(to) {
                let whole = self.function.whole(value).into();
                self.transfer_to_register(&mut transfers, at, self.class(value).width, &whole);
            }
        }
        if self.file == RegFile::General {
            for phi in phis_without_register {
                let source = phi_source(self.function, phi, from);
                // An unused phi needs no slot. The slot of a phi that is its own source has the right content already.
                if let Some(value) = self.function.operands(phi)[0].value()
                    && self.needs_store[value.position()]
                    && source.kind != OperandKind::Undefined
                    && source.value() != Some(value)
                {
                    transfers.to_memory.push((value, source));
                }
            }
        }
        transfers
    }

    /// Adds the transfer of a source into `width` registers from `to` on: a move, a reload, or a constant; nothing if the source is
    /// already there.
    fn transfer_to_register(&self, transfers: &mut Transfers, to: u16, width: u8, source: &Operand) {
        match source.kind {
            OperandKind::Undefined => {}
            OperandKind::Value(part) if self.class(part.value).file == self.file => {
                let at = self.register_of[part.value.position()];
                if at == NO_REGISTER {
                    transfers.reloads.push((to, part));
                } else if at + u16::from(part.first) != to {
                    let at = at + u16::from(part.first);
                    transfers.moves.extend((0..u16::from(width)).map(|number| Move { to: to + number, from: at + number }));
                }
            }
            _ => transfers.others.extend((0..width).map(|number| (to + u16::from(number), unit(source, number)))),
        }
    }

    /// Returns the registers of the file that the terminators of a block read, guards included.
    fn read_by_terminators(&self, block: Block) -> RegisterSet {
        let mut set = RegisterSet::EMPTY;
        for &inst in self.function.terminators(block) {
            let guard = self.function.insts[inst].guard.map(|guard| guard.kind);
            for kind in self.function.operands(inst).iter().map(|operand| operand.kind).chain(guard) {
                if let OperandKind::Register { file, first, count } = kind
                    && file == self.file
                {
                    set.insert(first, count);
                }
            }
        }
        set
    }

    /// Returns whether the transfers of an edge may be executed at the end of its predecessor, before the terminators, on the way to
    /// every successor: no terminator reads a register that they write, and no other successor needs a value whose register or
    /// slot they overwrite.
    fn may_go_to_end(&self, from: Block, to: Block, transfers: &Transfers) -> bool {
        let written = transfers.written(|part| part.count);
        if written.and(&self.read_by_terminators(from)) != RegisterSet::EMPTY {
            return false;
        }
        for &other in self.flow.successors[from.position()].iter().filter(|&&other| other != to) {
            // Another successor needs a value if it is live-in there or the source of a phi there.
            let needed = |value: Value| {
                let phi_needs = |&phi: &Inst| phi_source(self.function, phi, from).value() == Some(value);
                self.liveness.live_in(other).binary_search(&value).is_ok() || self.function.phis(other).iter().any(phi_needs)
            };
            let harmed = |&(value, at): &(Value, u16)| written.has_any(at, self.class(value).width) && needed(value);
            if self.exit_state.of(from).iter().any(harmed) || transfers.to_memory.iter().any(|&(value, _)| needed(value)) {
                return false;
            }
        }
        true
    }

    /// Emits the transfers of an edge one after the other, as if they happened all at once:
    ///
    /// 1. stores to the slots of memory phis, which read registers that later steps overwrite;
    /// 2. the moves between registers, as one parallel copy;
    /// 3. reloads and constants, whose sources are in no register of the file;
    /// 4. copies from temporary slots to the slots of memory phis, whose old content steps 1 and 3 have read.
    fn emit_transfers(&mut self, from: Block, to: Block, transfers: &Transfers, mut place: EmitPoint<'_>) -> Result<(), AllocateError> {
        let occupied = |assigner: &Self, state: &[(Value, u16)]| {
            let mut set = RegisterSet::EMPTY;
            state.iter().for_each(|&(value, at)| set.insert(at, assigner.class(value).width));
            set
        };
        let before = occupied(self, self.exit_state.of(from));
        let after = occupied(self, self.entry_state.of(to));
        // Scratch registers for step 1 must hold nothing yet that is still needed; those for later steps must not hold a result either.
        // The code may be placed before the terminators, so the registers that they read are not free.
        let free_before = self.usable.without(&before).without(&self.read_by_terminators(from));
        let free = free_before.without(&after).without(&transfers.written(|part| part.count));
        let late = self.emit_memory_phis(from, transfers, &free_before, &mut place)?;
        self.emit_moves(&transfers.moves, free.lowest(), &mut place)?;
        for &(at, part) in &transfers.reloads {
            self.reload(part, at, &mut place)?;
        }
        for &(at, operand) in &transfers.others {
            self.emit_move(at, operand, &mut place)?;
        }
        for (value, temporary) in late {
            let slot = self.slot(value);
            let width = self.class(value).width;
            self.copy_slots(slot, temporary, width, &free, &mut place);
        }
        Ok(())
    }

    /// Stores the sources of memory phis into the phis' slots. A phi whose old content another transfer of the edge still reads is stored
    /// into a temporary slot instead. Returns these phis with the offsets of their temporary slots.
    fn emit_memory_phis(
        &mut self,
        from: Block,
        transfers: &Transfers,
        free: &RegisterSet,
        place: &mut EmitPoint<'_>,
    ) -> Result<Vec<(Value, u32)>, AllocateError> {
        let mut late = Vec::new();
        for (value, source) in &transfers.to_memory {
            let is_read = transfers.reloads.iter().any(|(_, part)| part.value == *value)
                || transfers.to_memory.iter().any(|(other, source)| other != value && source.value() == Some(*value));
            let width = self.class(*value).width;
            let mut slot = self.slot(*value);
            if is_read {
                slot = self.function.frame_bytes.next_multiple_of(4);
                self.function.frame_bytes = slot + 4 * u32::from(width);
                self.private_slots.push((slot, u32::from(width)));
                late.push((*value, slot));
            }
            let held = source.value().and_then(|source| self.exit_state.of(from).iter().find(|entry| entry.0 == source)).copied();
            for number in 0..width {
                let slot = slot + 4 * u32::from(number);
                match (source.part(), held) {
                    // The source is in registers, in its slot, or neither: recomputable, or a constant.
                    (Some(part), Some((_, at))) => self.store_word(slot, at + u16::from(part.first + number), place),
                    (Some(part), None) if self.repeatable[part.value.position()].is_none() => {
                        let old = self.slot(part.value) + 4 * u32::from(part.first + number);
                        self.needs_store[part.value.position()] = true;
                        self.copy_slots(slot, old, 1, free, place);
                    }
                    (part, _) => {
                        let (scratch, saved) = self.borrow(free, place);
                        match part {
                            Some(part) => self.reload(part, scratch, place)?,
                            None => self.emit_move(scratch, unit(source, number), place)?,
                        }
                        self.store_word(slot, scratch, place);
                        self.give_back(scratch, saved, place);
                    }
                }
            }
        }
        Ok(late)
    }

    /// Returns a scratch register, and whether its content was saved. Without a free register, the lowest usable one is saved to the
    /// emergency slot; [`Assigner::give_back`] restores it.
    fn borrow(&mut self, free: &RegisterSet, place: &mut EmitPoint<'_>) -> (u16, bool) {
        if let Some(register) = free.lowest() {
            return (register, false);
        }
        let register = self.usable.lowest().unwrap_or(0);
        let slot = self.emergency();
        self.store_word(slot, register, place);
        (register, true)
    }

    /// Restores a register from [`Assigner::borrow`] if it was saved.
    fn give_back(&mut self, register: u16, saved: bool, place: &mut EmitPoint<'_>) {
        if saved {
            let slot = self.emergency();
            self.load_word(slot, register, place);
        }
    }

    /// Returns the byte offset of the emergency slot, which is created at the first call.
    fn emergency(&mut self) -> u32 {
        if let Some(slot) = self.emergency_slot {
            return slot;
        }
        let slot = self.function.frame_bytes.next_multiple_of(4);
        self.function.frame_bytes = slot + 4;
        self.private_slots.push((slot, 1));
        self.emergency_slot = Some(slot);
        slot
    }

    /// Copies 4-byte words from one slot to another through a scratch register.
    fn copy_slots(&mut self, to: u32, from: u32, words: u8, free: &RegisterSet, place: &mut EmitPoint<'_>) {
        let (scratch, saved) = self.borrow(free, place);
        for word in 0..u32::from(words) {
            self.load_word(from + 4 * word, scratch, place);
            self.store_word(to + 4 * word, scratch, place);
        }
        self.give_back(scratch, saved, place);
    }

    fn store_word(&mut self, slot: u32, register: u16, place: &mut EmitPoint<'_>) {
        self.transfer(true, slot, register, 1, place);
    }

    fn load_word(&mut self, slot: u32, register: u16, place: &mut EmitPoint<'_>) {
        self.transfer(false, slot, register, 1, place);
    }

    /// Emits spill loads or stores of `count` consecutive registers in pieces of 16, 8 or 4 bytes: the widest for which both the register
    /// number and the offset are aligned. `slot` is a byte offset in the frame.
    pub(crate) fn transfer(&mut self, store: bool, slot: u32, first: u16, count: u8, place: &mut EmitPoint<'_>) {
        let mut done = 0;
        while done < count {
            let (at, offset) = (first + u16::from(done), slot + 4 * u32::from(done));
            let fits = |size: u8| done + size <= count && at.is_multiple_of(u16::from(size)) && offset.is_multiple_of(4 * u32::from(size));
            let (size, modifier): (u8, &[&str]) = if fits(4) {
                (4, &[".128"])
            } else if fits(2) {
                (2, &[".64"])
            } else {
                (1, &[])
            };
            let address = [
                Operand::new(OperandKind::Address(Symbol::NAME_)),
                register(RegFile::General, self.env.stack_pointer, 1).with_role(Role::Bracket(0)),
                Operand::from(offset).with_role(Role::Bracket(0)),
            ];
            let data = register(RegFile::General, at, size);
            let mut sink = Sink { function: self.function, out: place.out, location: place.location, guard: None };
            let inst = if store {
                sink.machine(Opcode::STL, modifier, &[address[0], address[1], address[2], data], 0)
            } else {
                sink.machine(Opcode::LDL, modifier, &[data, address[0], address[1], address[2]], 1)
            };
            let access = self.function.accesses.push(MemoryAccess::weak(Space::Spill, 4 * size));
            self.function.insts[inst].memory = Some(access);
            done += size;
            let total = if store { &mut self.stored_bytes } else { &mut self.loaded_bytes };
            *total += 4 * u32::from(size);
        }
    }

    /// Creates a block on an edge with the given instructions and a branch to `to`, and redirects the terminators of `from`. Returns it.
    fn split_edge(&mut self, from: Block, to: Block, mut insts: Vec<Inst>) -> Block {
        let new = self.function.new_block();
        let branch = self.function.new_inst(Op::Machine(Opcode::BRA), Default::default(), None, &[to.into()], 0);
        let last = *self.output[from.position()].last().expect("blocks end in control flow");
        self.function.insts[branch].location = self.function.insts[last].location;
        insts.push(branch);
        self.function.blocks[new].insts = insts;
        for inst in self.function.terminators(from).to_vec() {
            for operand in self.function.operands_mut(inst) {
                if operand.kind == OperandKind::Block(to) {
                    operand.kind = OperandKind::Block(new);
                }
            }
        }
        new
    }
}
