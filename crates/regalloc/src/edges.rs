//! Inserts the moves, reloads and stores on control-flow edges that take each block's exit state to its successor's entry state.
//!
//! **Input:** the values in registers at the start and end of each block. **Output:** for each edge, code that brings every live-in value
//! and every phi of the successor into the register or slot where the successor expects it. Braun and Hack 2009 call this coupling code;
//! Wimmer and Franz 2010 ("Linear Scan Register Allocation on SSA Form") call it resolution, a step that also replaces the phis.
//!
//! The code of an edge is placed
//!
//! - at the start of the successor, if it has one predecessor;
//! - at the end of the predecessor, if it changes no register or slot that another successor or a terminator of the predecessor reads. That
//!   always holds for a predecessor with one successor whose terminator reads no register. The published algorithms split every critical
//!   edge instead;
//! - otherwise in a new block on the edge.
//!
//! All register moves of an edge form one parallel copy. Example: `bb1` is a loop whose two phis exchange their values, and no register is
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

use oriole_ir::{Block, Inst, Op, Opcode, Operand, OperandKind, Part, RegFile, Value};
use oriole_support::IndexVec;
use smallvec::SmallVec;

use crate::assigner::RegisterAssigner;
use crate::moves::Move;
use crate::operands::{is_zero, phi_source, single_register_of_operand};
use crate::outcome::AllocateError;
use crate::register_file::ResidentValue;
use crate::registers::{Reg, RegisterSet};

/// A reload, on an edge, of a part of a value that is in no register at the end of the predecessor.
struct EdgeReload {
    /// First register that the part is reloaded into.
    to: Reg,
    /// The registers of the spilled value that are reloaded.
    part: Part,
}

/// A move, on an edge, of a constant or of one register of another register file into a register of the file being allocated.
struct EdgeMove {
    /// The register that is written.
    to: Reg,
    /// The constant, or the register of another register file.
    from: Operand,
}

/// A phi that is in a spill slot at the start of its block, and its source on the edge.
struct SpilledPhi {
    /// The value that the phi defines.
    phi: Value,
    /// The source of the phi on the edge.
    source: Operand,
}

/// A phi in memory whose new value stays in a temporary slot until the other transfers of the edge have read its old value.
struct DelayedPhiStore {
    /// The value that the phi in memory defines.
    phi: Value,
    /// Offset of the temporary slot in bytes from the stack pointer.
    temporary_slot: u32,
}

/// The transfers that one edge has to make. Conceptually they happen all at once: all sources are read in the exit state of the predecessor
/// (the values in registers at its end).
#[derive(Default)]
struct EdgeTransfers {
    /// Moves between registers of the register file being allocated.
    moves: Vec<Move>,
    /// Reloads of values that are in no register.
    reloads: Vec<EdgeReload>,
    /// Moves of constants and of registers of other register files.
    other_moves: Vec<EdgeMove>,
    /// Stores to the slots of phis in memory. Only in the general file: in other register files, a phi without a register becomes a phi of
    /// shadows (values of another register file with the same content).
    spilled_phis: Vec<SpilledPhi>,
}

impl EdgeTransfers {
    /// Returns whether nothing has to be moved, reloaded or stored.
    fn is_empty(&self) -> bool {
        self.moves.is_empty() && self.reloads.is_empty() && self.other_moves.is_empty() && self.spilled_phis.is_empty()
    }

    /// Returns the registers that the transfers write.
    fn written_registers(&self) -> RegisterSet {
        let mut set = RegisterSet::EMPTY;
        self.moves.iter().for_each(|one| set.insert(one.to, 1));
        self.other_moves.iter().for_each(|other| set.insert(other.to, 1));
        self.reloads.iter().for_each(|reload| set.insert(reload.to, reload.part.count));
        set
    }

    /// Returns whether a transfer reads the spill slot of a phi in memory; a phi that is its own source does not count.
    fn reads_slot_of(&self, phi: Value) -> bool {
        self.reloads.iter().any(|reload| reload.part.value == phi)
            || self.spilled_phis.iter().any(|other| other.phi != phi && other.source.value() == Some(phi))
    }
}

/// An edge that was split by a new block.
struct SplitEdge {
    /// The predecessor of the split edge.
    from: Block,
    /// The successor of the split edge.
    to: Block,
    /// The new block on the edge.
    new_block: Block,
}

impl RegisterAssigner<'_> {
    /// Emits the transfers (moves, reloads, stores) of all control-flow edges. Code for the start of a block is kept in
    /// `BlockBoundaryStates::entry_code` until the blocks are rewritten.
    pub(crate) fn resolve_edges(&mut self) -> Result<(), AllocateError> {
        let mut split: Vec<SplitEdge> = Vec::new();
        for place in 0..self.inputs.flow.reverse_post_order().len() {
            let from = self.inputs.flow.reverse_post_order()[place];
            // During this iteration `self.registers` has the exit state of `from`: the values in registers at its end.
            self.registers.restore_register_state(self.borders.exit.get(from));
            self.resolve_edges_from(from, &mut split)?;
            self.registers.forget_register_state(self.borders.exit.get(from));
        }
        // The phis are renamed only after all transfers were collected, because `collect_transfers` finds the sources of phis by their
        // original predecessors.
        for edge in &split {
            self.rename_phi_predecessor(edge);
        }
        if !split.is_empty() {
            self.lay_out_split_edges(&split);
        }
        Ok(())
    }

    /// Emits the transfers (moves, reloads, stores) of the edges that leave a block. Adds the edges that need a new block to `split`.
    fn resolve_edges_from(&mut self, from: Block, split: &mut Vec<SplitEdge>) -> Result<(), AllocateError> {
        // All transfers start from the exit state (the values in registers at the end of the block), which code at the end of the block
        // changes. So only one edge may put code there.
        let mut is_end_used = false;
        for number in 0..self.inputs.flow.graph.successors(from).len() {
            let to = self.inputs.flow.graph.successors(from)[number];
            let transfers = self.collect_transfers(from, to);
            if transfers.is_empty() {
                continue;
            }
            let is_harmless = !is_end_used && self.can_place_transfers_at_end(from, to, &transfers);
            let code = self.emit_transfers(from, to, &transfers)?;
            if self.inputs.flow.graph.predecessors(to).len() == 1 {
                self.borders.entry_code[to] = code;
            } else if is_harmless {
                is_end_used = true;
                let out = &mut self.output.insts[from];
                let at = out.len() - self.function.terminators(from).len();
                out.splice(at..at, code);
            } else {
                let new = self.split_edge(from, to, code);
                split.push(SplitEdge { from, to, new_block: new });
            }
        }
        Ok(())
    }

    /// In the phis of a split edge's successor, replaces the old predecessor by the new block. The allocation of later register files needs
    /// this.
    fn rename_phi_predecessor(&mut self, edge: &SplitEdge) {
        for phi in self.function.phis(edge.to).to_vec() {
            for operand in self.function.sources_mut(phi) {
                if operand.kind == OperandKind::Block(edge.from) {
                    operand.kind = OperandKind::Block(edge.new_block);
                }
            }
        }
    }

    /// Inserts each new block into the layout after the predecessor of its edge.
    fn lay_out_split_edges(&mut self, split: &[SplitEdge]) {
        let mut after: IndexVec<Block, SmallVec<[Block; 2]>> = IndexVec::filled(self.output.insts.len(), SmallVec::new());
        split.iter().for_each(|edge| after[edge.from].push(edge.new_block));
        for block in std::mem::take(&mut self.function.layout) {
            self.function.layout.push(block);
            self.function.layout.extend_from_slice(&after[block]);
        }
    }

    /// Collects the transfers (moves, reloads, stores) of an edge. `self.registers` must have the exit state of `from`: the values in
    /// registers at its end.
    fn collect_transfers(&self, from: Block, to: Block) -> EdgeTransfers {
        let mut transfers = EdgeTransfers::default();
        for &phi in self.function.phis(to) {
            let Some(value) = self.function.operands(phi)[0].value().filter(|&value| self.is_in_current_file(value)) else { continue };
            let source = phi_source(self.function, phi, from);
            if let Some(at) = self.borders.phi_register(value) {
                self.add_transfer_to_registers(&mut transfers, at, self.class_of(value).width, &source);
                continue;
            }
            // An unused phi needs no spill slot. The slot of a phi that is its own source already has the right content.
            let is_stored = self.inputs.file == RegFile::General && self.spills.needs_store(value);
            if is_stored && source.kind != OperandKind::Undefined && !self.slot_has_content_of(value, &source) {
                transfers.spilled_phis.push(SpilledPhi { phi: value, source });
            }
        }
        // The transfers of values that are live at the start of `to`. Phis of `to` are in its entry state (its values in registers at the
        // start) too, but their transfers have been added above.
        for &(value, at) in self.borders.entry.get(to) {
            if self.registers.register_of(value) != Some(at) && !self.borders.is_phi_of_block(value, to) {
                let whole = self.function.whole(value).into();
                self.add_transfer_to_registers(&mut transfers, at, self.class_of(value).width, &whole);
            }
        }
        transfers
    }

    /// Returns whether the spill slot of a phi already has the content of a source: the source is the phi itself, or it shares the slot of
    /// the phi and has been stored.
    fn slot_has_content_of(&self, phi: Value, source: &Operand) -> bool {
        let frame = &self.spills.frame;
        source.part().is_some_and(|part| {
            let is_stored = self.spills.needs_store(part.value) || self.registers.register_of(part.value).is_none();
            part.value == phi || frame.slot_owner_of(part.value) == frame.slot_owner_of(phi) && is_stored
        })
    }

    /// Adds the transfer of a source into `width` registers starting at `to`: a move, a reload, or a constant. Adds nothing if the source
    /// is already in these registers.
    fn add_transfer_to_registers(&self, transfers: &mut EdgeTransfers, to: Reg, width: u8, source: &Operand) {
        match source.kind {
            OperandKind::Undefined => {}
            OperandKind::Value(part) if self.is_in_current_file(part.value) => match self.registers.register_of(part.value) {
                None => transfers.reloads.push(EdgeReload { to, part }),
                Some(at) if at + part.first != to => transfers.moves.extend(Move::tuple(to, at + part.first, width)),
                Some(_) => {}
            },
            _ => transfers
                .other_moves
                .extend((0..width).map(|number| EdgeMove { to: to + number, from: single_register_of_operand(source, number) })),
        }
    }

    /// Returns the registers of the current register file that code at the end of a block may name.
    fn usable_registers_at_end(&self, block: Block) -> RegisterSet {
        match self.inputs.file {
            RegFile::General => self.registers.usable.and(&RegisterSet::first_n(self.inputs.block_limits.limit_of(block))),
            _ => self.registers.usable,
        }
    }

    /// Returns the registers of the current register file that the terminators of a block read, guards included.
    fn registers_read_by_terminators(&self, block: Block) -> RegisterSet {
        let mut set = RegisterSet::EMPTY;
        for &inst in self.function.terminators(block) {
            let guard = self.function.insts[inst].guard.map(|guard| guard.kind);
            for kind in self.function.operands(inst).iter().map(|operand| operand.kind).chain(guard) {
                if let OperandKind::Register { file, first, count } = kind
                    && file == self.inputs.file
                {
                    set.insert(Reg::new(first), count);
                }
            }
        }
        set
    }

    /// Returns whether the transfers of an edge may be executed at the end of its predecessor, before the terminators. They are then
    /// executed on the paths to all successors. That is allowed if no terminator reads a register that the transfers write, and no other
    /// successor needs a value whose register or slot they overwrite.
    fn can_place_transfers_at_end(&self, from: Block, to: Block, transfers: &EdgeTransfers) -> bool {
        let written_registers = transfers.written_registers();
        if written_registers.and(&self.registers_read_by_terminators(from)) != RegisterSet::EMPTY {
            return false;
        }
        for &other in self.inputs.flow.graph.successors(from).iter().filter(|&&other| other != to) {
            // Another successor needs a value if it is live-in there or the source of a phi there.
            let needed = |value: Value| {
                let phi_needs = |&phi: &Inst| phi_source(self.function, phi, from).value() == Some(value);
                self.inputs.liveness.live_in(other).binary_search(&value).is_ok() || self.function.phis(other).iter().any(phi_needs)
            };
            let harmed = |&(value, at): &ResidentValue| written_registers.has_any(at, self.class_of(value).width) && needed(value);
            if self.borders.exit.get(from).iter().any(harmed) || transfers.spilled_phis.iter().any(|memory| needed(memory.phi)) {
                return false;
            }
        }
        true
    }

    /// Emits the transfers of an edge as sequential code with the effect of making all of them at once, and returns the code:
    ///
    /// 1. stores to the slots of phis in memory, which read registers that later steps overwrite;
    /// 2. the moves between registers, as one parallel copy;
    /// 3. reloads and constants, whose sources are in no register of the register file;
    /// 4. copies from temporary slots to the slots of phis in memory, whose old content steps 1 and 3 have read.
    fn emit_transfers(&mut self, from: Block, to: Block, transfers: &EdgeTransfers) -> Result<Vec<Inst>, AllocateError> {
        let before = self.registers.registers_occupied_in_state(self.borders.exit.get(from));
        let after = self.registers.registers_occupied_in_state(self.borders.entry.get(to));
        // Scratch registers for step 1 must not hold a value at the end of the predecessor (the exit state); those for later steps must not
        // hold a result of the transfers either. The code may be placed before the terminators, so the registers that the terminators read
        // are not free.
        let usable = self.usable_registers_at_end(from);
        let free_before = usable.without(&before).without(&self.registers_read_by_terminators(from));
        let free = free_before.without(&after).without(&transfers.written_registers());
        let mut code = Vec::new();
        let late = self.emit_memory_phis(from, transfers, &free_before, &mut code)?;
        let mut emitter = self.inputs.emitter(self.function, &mut code, last_inst(&self.output.insts[from]));
        emitter.emit_parallel_copy(&transfers.moves, free.lowest())?;
        for reload in &transfers.reloads {
            self.spills.reload(reload.part, reload.to, &mut emitter)?;
        }
        let mut others = transfers.other_moves.as_slice();
        while let [first, rest @ ..] = others {
            others = rest;
            if let Some(second) = rest.first()
                && is_zero(&first.from)
                && is_zero(&second.from)
                && second.to == first.to + 1
                && emitter.emit_pair_clear(first.to)
            {
                others = &rest[1..];
            } else {
                emitter.emit_move(first.to, first.from)?;
            }
        }
        let frame = &mut self.spills.frame;
        for DelayedPhiStore { phi, temporary_slot } in late {
            let slot = frame.spill_slot_offset(phi, emitter.function);
            let width = emitter.function.values[phi].width;
            let scratch = frame.acquire_scratch_register(&free, &usable, &mut emitter);
            frame.copy(slot, temporary_slot, width, scratch, &mut emitter);
            frame.release_scratch_register(scratch, &mut emitter);
        }
        Ok(code)
    }

    /// Stores the sources of phis in memory into the slots of the phis. If another transfer of the edge still reads the old content of a
    /// slot, the new content is stored into a temporary slot instead. Returns the phis whose new content is in a temporary slot, with these
    /// slots.
    fn emit_memory_phis(
        &mut self,
        from: Block,
        transfers: &EdgeTransfers,
        free: &RegisterSet,
        code: &mut Vec<Inst>,
    ) -> Result<Vec<DelayedPhiStore>, AllocateError> {
        let mut late = Vec::new();
        let usable = self.usable_registers_at_end(from);
        let mut emitter = self.inputs.emitter(self.function, code, last_inst(&self.output.insts[from]));
        for &SpilledPhi { phi, source } in &transfers.spilled_phis {
            let width = emitter.function.values[phi].width;
            let mut slot = self.spills.frame.spill_slot_offset(phi, emitter.function);
            if transfers.reads_slot_of(phi) {
                slot = self.spills.frame.new_unowned_slot(width, emitter.function);
                late.push(DelayedPhiStore { phi, temporary_slot: slot });
            }
            let held = source.value().and_then(|source| self.registers.register_of(source));
            if let (Some(part), Some(at)) = (source.part(), held) {
                self.spills.frame.store(slot, at + part.first, width, &mut emitter);
                continue;
            }
            for number in 0..width {
                let slot = slot + 4 * u32::from(number);
                match source.part() {
                    // The source is in no register. It is copied from its slot, unless it is a constant or can be rematerialized.
                    Some(part) if !self.spills.is_rematerializable(part.value) => {
                        let old = self.spills.spill_slot_to_read(part.value, emitter.function) + 4 * u32::from(part.first + number);
                        let scratch = self.spills.frame.acquire_scratch_register(free, &usable, &mut emitter);
                        self.spills.frame.copy(slot, old, 1, scratch, &mut emitter);
                        self.spills.frame.release_scratch_register(scratch, &mut emitter);
                    }
                    part => {
                        let scratch = self.spills.frame.acquire_scratch_register(free, &usable, &mut emitter);
                        match part {
                            Some(part) => self.spills.reload(part, scratch.register, &mut emitter)?,
                            None => emitter.emit_move(scratch.register, single_register_of_operand(&source, number))?,
                        }
                        self.spills.frame.store(slot, scratch.register, 1, &mut emitter);
                        self.spills.frame.release_scratch_register(scratch, &mut emitter);
                    }
                }
            }
        }
        Ok(late)
    }

    /// Splits an edge: creates a block with the instructions `code` and a branch to `to`, redirects the terminators of `from` to it, and
    /// returns it.
    fn split_edge(&mut self, from: Block, to: Block, mut code: Vec<Inst>) -> Block {
        let new = self.function.new_block();
        let branch = self.function.new_inst(Op::Machine(Opcode::BRA), Default::default(), None, &[to.into()], 0);
        self.function.insts[branch].location = self.function.insts[last_inst(&self.output.insts[from])].location;
        code.push(branch);
        self.function.blocks[new].insts = code;
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

/// Returns the last instruction of a block, which is a terminator.
fn last_inst(insts: &[Inst]) -> Inst {
    *insts.last().expect("blocks end in control flow")
}
