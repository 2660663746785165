//! Assigns registers to the values of one register file in one walk over the blocks, and decides which values are spilled.
//!
//! **Input:** liveness with next uses ([`crate::liveness`]), coalescing hints ([`crate::hints`]), and the usable registers. **Output:** for
//! each block, its instructions on physical registers, and the values in registers where it starts and ends ([`crate::borders`]). Where
//! these differ between a block and its successor, [`crate::edges`] inserts moves.
//!
//! Blocks are visited in reverse post-order, so all predecessors of a block except those on back edges come first. First the registers at
//! the start of the block are set up ([`crate::enter_block`]), then the instructions are allocated one by one ([`crate::allocate_inst`]).
//!
//! The algorithm follows Braun and Hack 2009, "Register Spilling and Live-Range Splitting for SSA-Form Programs": Belady's MIN rule on
//! next-use distances (it evicts the value with the farthest next use), with loop exits counted as 100,000 instructions. It departs in
//! these points:
//!
//! - Registers are assigned in the same walk, as in a linear scan over SSA form. Hack 2007 ("Register Allocation for Programs in SSA
//!   Form") separates the two: after spilling, a walk over the dominator tree colors the values, which always succeeds because the
//!   interference graphs of SSA programs are chordal. That does not hold for tuples, which need aligned consecutive registers: the
//!   number of free registers does not determine whether a quad fits.
//! - The state at a block's start is that of one predecessor. Braun and Hack prefer values that are in registers in all predecessors.
//! - A spilled value is stored once, directly after its definition, which dominates all reloads. Braun and Hack store at the eviction.
//!
//! Example with two usable registers:
//!
//! ```text
//! %a = S2R SR_TID.X            %a=R4
//! %b = LDG [..]                %a=R4 %b=R5
//! %c = IADD3 %b, 1, RZ         %a=R4 %c=R5     %b dies here, so %c gets its register
//! %d = LDS [..]                %d=R4 %c=R5     no register is free: %a is dropped, its next use is farther away than that of %c
//! STS [..], %c                 %d=R4
//! %e = IADD3 %a, %d, RZ        %e=R4           %a is reloaded into R5 first; its store is inserted after the S2R
//! ```
//!
//! Cost: one visit to each operand, plus a scan over register windows at each point where no gap is free.

use oriole_ir::{Block, Inst, RegFile};

use crate::assigner::RegisterAssigner;
use crate::liveness::RegisterFileInst;
use crate::outcome::AllocateError;

impl RegisterAssigner<'_> {
    /// Assigns registers to all values of one register file; does nothing if the function has none.
    pub fn allocate_file(&mut self, file: RegFile) -> Result<(), AllocateError> {
        if !self.function.values.iter().any(|class| class.file == file) {
            return Ok(());
        }
        self.start_register_file(file)?;
        self.allocate_current_file()
    }

    /// Assigns registers to the values of the current register file, whose liveness and hints are computed already: walks the blocks,
    /// resolves the edges, rewrites the blocks, and lets spill slots share memory.
    pub fn allocate_current_file(&mut self) -> Result<(), AllocateError> {
        let first_slot = self.function.frame_bytes.next_multiple_of(4);
        for place in 0..self.inputs.flow.reverse_post_order().len() {
            self.allocate_block(self.inputs.flow.reverse_post_order()[place], place == 0)?;
            if self.inputs.env.forbids_spills && self.inputs.file == RegFile::General && self.spills.has_spills() {
                return Err(AllocateError::Spills);
            }
        }
        self.registers.clear();
        self.resolve_edges()?;
        self.rewrite_blocks()?;
        self.share_spill_slots(first_slot);
        Ok(())
    }

    /// Assigns registers of the current register file in one block, and records which values are in registers at its end.
    fn allocate_block(&mut self, block: Block, is_entry: bool) -> Result<(), AllocateError> {
        self.walk.start_block(self.function, block, self.inputs.block_lengths[block]);
        self.registers.clear();
        if self.inputs.file == RegFile::General && self.inputs.block_limits.are_different() {
            self.registers.limit_to(self.inputs.block_limits.limit_of(block));
            self.hints.keep_lower_registers(self.inputs.block_limits.has_more_than_others(block));
        }
        if !is_entry {
            self.enter_block(block);
        }
        let length = self.inputs.block_lengths[block];
        self.reservations.enter_block(self.function, &self.inputs.liveness, &mut self.hints, block, length);
        self.pack_windows.enter_block(self.function, &self.inputs.liveness, block, length, self.inputs.file);
        self.in_flight.forget_ldgsts_reads();
        self.in_flight.record_registers_at_loop_start(block, &self.registers.usable.without(&self.registers.free));
        // The old instruction list is put back below: the terminators and phis of the block are still read until the blocks are rewritten.
        let insts = std::mem::take(&mut self.function.blocks[block].insts);
        let mut out = Vec::with_capacity(insts.len() + insts.len() / 8);
        let result = self.assign_registers_to_insts(block, &insts, &mut out);
        self.function.blocks[block].insts = insts;
        result?;
        self.make_terminators_adjacent(block, &mut out);
        self.output.insts[block] = out;
        self.borders.exit.fill(block, |found| self.registers.append_resident_values(found));
        // The next block starts without values in registers; `enter_block` then copies the exit state of one of its predecessors.
        self.registers.forget_register_state(self.borders.exit.get(block));
        Ok(())
    }

    /// Appends the instructions of a block to `out`, with registers assigned to their operands of the current register file, and with the
    /// moves and reloads that this needs.
    fn assign_registers_to_insts(&mut self, block: Block, insts: &[Inst], out: &mut Vec<Inst>) -> Result<(), AllocateError> {
        let mut done = 0;
        for number in 0..self.inputs.liveness.file_insts_of(block).len() {
            let file_inst: RegisterFileInst = self.inputs.liveness.file_insts_of(block)[number];
            out.extend_from_slice(&insts[done..file_inst.position as usize]);
            self.allocate_inst(file_inst, out)?;
            done = file_inst.position as usize + 1;
        }
        out.extend_from_slice(&insts[done..]);
        Ok(())
    }

    /// A block may end in a guarded branch and a second terminator, which must be adjacent. Moves the code that was emitted between the
    /// two, for operands of the second one, before the first one.
    fn make_terminators_adjacent(&self, block: Block, out: &mut [Inst]) {
        if let [first, _] = *self.function.terminators(block) {
            let end = out.len() - 1;
            if let Some(at) = out[..end].iter().rposition(|&inst| inst == first) {
                out[at..end].rotate_left(1);
            }
        }
    }
}
