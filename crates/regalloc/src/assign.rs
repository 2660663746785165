//! Assigns registers to the values of one register file in one walk over the blocks, and decides which values are spilled.
//!
//! **Input:** liveness with next-use distances ([`Liveness`]), coalescing hints ([`Hints`]), and the usable registers. **Output:** for each
//! block, its instructions on physical registers, and the values in registers where it starts and ends ([`States`]), which
//! [`crate::edges`] then reconciles.
//!
//! Blocks are visited in reverse post-order, so all predecessors of a block except those on back edges come first. The block starts with
//! the registers that one visited predecessor left (the most deeply nested one). Phis get registers next, then the instructions one by
//! one ([`crate::allocate_inst`]). The header of a loop keeps in registers what the loop uses, and drops what only lives through the loop
//! if the loop needs the registers: a value dropped inside would be reloaded in every iteration.
//!
//! The algorithm follows Braun and Hack 2009, "Register Spilling and Live-Range Splitting for SSA-Form Programs": Belady's MIN rule on
//! next-use distances, with loop exits counted as 100,000 instructions. It departs in these points:
//!
//! - Registers are assigned in the same walk, as in a linear scan over SSA form, because tuples need aligned consecutive registers: the
//!   number of free registers does not determine whether a quad fits.
//! - The state at a block's start is that of one predecessor. Braun and Hack prefer values that are in registers in all predecessors.
//! - A spilled value is stored once, directly after its definition, which dominates all reloads. Braun and Hack store at the eviction.
//!
//! Example: four usable registers; `%a` to `%d` are live into a loop, `%d` is used only after it, and the loop body needs four
//! registers besides `%d`:
//!
//! ```text
//! bb0:   ...                   %a=R4 %b=R5 %c=R6 %d=R7
//! bb1:   (header)              pressure 5, usable 4, excess 1: %d is dropped, it is the only value not used in the loop
//!        %e = IADD3 %a, %b     %e=R7
//!        ...
//! bb2:   STG [..], %d          %d is reloaded here; its store follows its definition in bb0
//! ```
//!
//! Cost: one visit to each operand, plus a scan over register windows at each point where no gap is free.

use oriole_ir::{Block, Class, Function, Inst, RegFile, Value};
use oriole_support::Index;
use rustc_hash::FxHashMap;

use crate::control_flow::ControlFlow;
use crate::environment::Environment;
use crate::hints::Hints;
use crate::liveness::{FileInst, LOOP_EXIT, Liveness, NEVER, phi_source};
use crate::moves::Mover;
use crate::registers::RegisterSet;
use crate::{AllocateError, Allocation};

/// In place of a register number: the value is in no register.
pub(crate) const NO_REGISTER: u16 = u16::MAX;
/// In place of a value number: no value is in the register.
const NO_VALUE: u32 = u32::MAX;

const NO_BLOCK: u32 = u32::MAX;

/// For each block, the values in registers at its start, or at its end. The lists of all blocks share one vector.
#[derive(Default)]
pub(crate) struct States {
    /// Values and their first registers, in the order of registers within each block.
    entries: Vec<(Value, u16)>,
    /// By block: start and end of its list in `entries`.
    spans: Vec<(u32, u32)>,
}

impl States {
    fn clear(&mut self, blocks: usize) {
        self.entries.clear();
        self.spans.clear();
        self.spans.resize(blocks, (0, 0));
    }

    fn range(&self, block: Block) -> std::ops::Range<usize> {
        let (start, end) = self.spans[block.position()];
        start as usize..end as usize
    }

    /// Returns the values in registers and their first registers.
    pub(crate) fn of(&self, block: Block) -> &[(Value, u16)] {
        &self.entries[self.range(block)]
    }
}

/// The state of the allocator, which handles one register file after the other. Vectors indexed by value are kept from file to file: each
/// value belongs to one file.
pub(crate) struct Assigner<'a> {
    pub(crate) function: &'a mut Function,
    pub(crate) env: &'a Environment,
    pub(crate) file: RegFile,
    pub(crate) flow: ControlFlow,
    pub(crate) liveness: Liveness,
    pub(crate) hints: Hints,
    pub(crate) mover: Mover,
    /// Registers of the file that the environment allows values to use.
    allowed: RegisterSet,
    /// Registers that values may use from here to the end of the block: `allowed`, less what a `KEEP` has pinned.
    pub(crate) usable: RegisterSet,
    /// Usable registers that hold no value now.
    pub(crate) free: RegisterSet,
    /// By register: the number of the value in it; [`NO_VALUE`] if there is none.
    occupant: Vec<u32>,
    /// By value: its first register now; [`NO_REGISTER`] if it is dropped, not defined yet, or dead.
    pub(crate) register_of: Vec<u16>,
    /// By value in registers: position in the current block of its next use. Beyond the end of the block, an estimate.
    pub(crate) next_use: Vec<u32>,
    /// By value: its first register where it is defined, which the spill store reads.
    pub(crate) defined_in: Vec<u16>,
    /// By value: the instruction that defines it; `None` for phis.
    pub(crate) definition: Vec<Option<Inst>>,
    /// By phi value: its first register where its block starts; [`NO_REGISTER`] if the phi is in memory or unused.
    pub(crate) entered_at: Vec<u16>,
    /// By value: the block whose phi defines it; `None` for other values.
    pub(crate) phi_of: Vec<Option<Block>>,
    /// By block: moves to insert at its start.
    pub(crate) heads: Vec<Vec<Inst>>,
    /// By value: whether it needs a store after its definition, because a reload reads it from memory or from its shadow.
    pub(crate) needs_store: Vec<bool>,
    /// By value: the instruction to repeat instead of a reload; `None` if the value cannot be recomputed cheaply.
    pub(crate) repeatable: Vec<Option<Inst>>,
    /// Spill slots of general registers: byte offset in the frame.
    pub(crate) slots: FxHashMap<Value, u32>,
    /// For spilled values of other files: the value in another file that holds the spilled content.
    pub(crate) shadows: FxHashMap<Value, Value>,
    /// Values in registers where each block starts.
    pub(crate) entry_state: States,
    /// Values in registers where each block ends.
    pub(crate) exit_state: States,
    /// By block: whether it has a phi, copy or pack with an operand of the file, which has to be deleted afterwards.
    pub(crate) has_pseudo: Vec<bool>,
    /// By block: its new instructions.
    pub(crate) output: Vec<Vec<Inst>>,
    /// Phis that got no register at the start of their block; their values are in spill slots or shadows there.
    pub(crate) phis_without_register: Vec<(Block, Inst)>,
    /// Bytes that the spill stores emitted so far write.
    pub(crate) stored_bytes: u32,
    /// Bytes that the spill loads emitted so far read.
    pub(crate) loaded_bytes: u32,
    /// Offset of the slot that saves a register while it serves as scratch; `None` if none was needed.
    pub(crate) emergency_slot: Option<u32>,
    /// Slots that belong to no value: byte offset and number of 4-byte words.
    pub(crate) private_slots: Vec<(u32, u32)>,
    /// The block that is being walked.
    pub(crate) block: Block,
    /// By block: the number of instructions before allocation of this file.
    pub(crate) lengths: Vec<u32>,
    /// By value: block and position of its definition, and the position of its last use in that block, `u32::MAX` if the value lives
    /// beyond the block. `None` for phis.
    pub(crate) defined_at: Vec<Option<(Block, u32, u32)>>,
    /// Guarded copies with the moves that replace them, for the checker.
    pub(crate) guarded_copies: Vec<(Inst, Vec<Inst>)>,
    /// By value: the last block that was found to have it live-in. A stamp, so that a set need not be cleared for each block.
    live_into: Vec<u32>,
    /// By value: its first register at the end of the predecessor that phis inherit from. [`NO_REGISTER`] outside of `place_phis`.
    base_exit_register: Vec<u16>,
}

impl<'a> Assigner<'a> {
    /// Creates the state for a function; no file is allocated yet.
    pub fn new(function: &'a mut Function, env: &'a Environment) -> Assigner<'a> {
        Assigner {
            env,
            file: RegFile::General,
            flow: ControlFlow::of(function),
            liveness: Liveness::default(),
            hints: Hints::default(),
            mover: Mover::new(env.target),
            allowed: RegisterSet::EMPTY,
            usable: RegisterSet::EMPTY,
            free: RegisterSet::EMPTY,
            occupant: vec![NO_VALUE; 256],
            register_of: Vec::new(),
            next_use: Vec::new(),
            defined_in: Vec::new(),
            needs_store: Vec::new(),
            definition: Vec::new(),
            entered_at: Vec::new(),
            phi_of: Vec::new(),
            heads: Vec::new(),
            repeatable: Vec::new(),
            slots: FxHashMap::default(),
            shadows: FxHashMap::default(),
            entry_state: States::default(),
            exit_state: States::default(),
            has_pseudo: Vec::new(),
            output: Vec::new(),
            phis_without_register: Vec::new(),
            stored_bytes: 0,
            loaded_bytes: 0,
            emergency_slot: None,
            private_slots: Vec::new(),
            block: function.entry(),
            lengths: Vec::new(),
            defined_at: Vec::new(),
            guarded_copies: Vec::new(),
            live_into: Vec::new(),
            base_exit_register: Vec::new(),
            function,
        }
    }

    /// Resets the state kept for each register file, and computes liveness and hints for this one.
    fn start(&mut self, file: RegFile) -> Result<(), AllocateError> {
        if self.flow.is_outdated(self.function) {
            self.flow = ControlFlow::of(self.function);
        }
        self.file = file;
        self.allowed = self.env.usable(file);
        self.liveness.compute(self.function, &self.flow, file)?;
        self.hints.add_webs(self.function, &self.liveness, file);
        let (values, blocks) = (self.function.values.len(), self.function.blocks.len());
        self.register_of.resize(values, NO_REGISTER);
        self.next_use.resize(values, NEVER);
        self.defined_in.resize(values, NO_REGISTER);
        self.needs_store.clear();
        self.needs_store.resize(values, false);
        self.definition.resize(values, None);
        self.entered_at.resize(values, NO_REGISTER);
        self.phi_of.resize(values, None);
        self.repeatable.resize(values, None);
        self.defined_at.resize(values, None);
        self.live_into.resize(values, NO_BLOCK);
        self.base_exit_register.resize(values, NO_REGISTER);
        self.entry_state.clear(blocks);
        self.exit_state.clear(blocks);
        self.has_pseudo.clear();
        self.has_pseudo.resize(blocks, false);
        self.output.resize_with(blocks, Vec::new);
        self.heads.resize_with(blocks, Vec::new);
        self.lengths.clear();
        self.lengths.extend(self.function.blocks.iter().map(|block| block.insts.len() as u32));
        self.slots.clear();
        self.shadows.clear();
        self.private_slots.clear();
        self.phis_without_register.clear();
        self.emergency_slot = None;
        Ok(())
    }

    /// Allocates one register file: walks the blocks, resolves the edges, rewrites the blocks, and lets spill slots share memory.
    pub fn run(&mut self, file: RegFile) -> Result<(), AllocateError> {
        if !self.function.values.iter().any(|class| class.file == file) {
            return Ok(());
        }
        self.start(file)?;
        let first_slot = self.function.frame_bytes.next_multiple_of(4);
        self.find_repeatable();
        for place in 0..self.flow.order.len() {
            self.run_block(self.flow.order[place], place)?;
        }
        self.usable = self.allowed;
        self.resolve_edges()?;
        self.rewrite_blocks()?;
        self.share_slots(first_slot);
        Ok(())
    }

    /// Writes the spill statistics and the guarded copies of all files into `allocation`.
    pub fn report(self, allocation: &mut Allocation) {
        allocation.spill_store_bytes = self.stored_bytes;
        allocation.spill_load_bytes = self.loaded_bytes;
        allocation.guarded_copies = self.guarded_copies;
    }

    /// Returns the register class of a value.
    pub(crate) fn class(&self, value: Value) -> Class {
        self.function.values[value]
    }

    /// Returns the value in a register, if there is one.
    pub(crate) fn occupant(&self, register: u16) -> Option<Value> {
        let number = self.occupant[usize::from(register)];
        (number != NO_VALUE).then(|| Value::new(number as usize))
    }

    /// Marks free registers as occupied by a value, starting at `register`.
    pub(crate) fn occupy(&mut self, value: Value, register: u16) {
        let width = self.class(value).width;
        debug_assert!(self.free.has_all(register, width), "{value:?} to occupied {register}+{width}");
        self.free.remove(register, width);
        self.set_occupant(register, width, value.position() as u32);
        self.register_of[value.position()] = register;
    }

    /// Marks the registers of a value as free.
    pub(crate) fn vacate(&mut self, value: Value) {
        let register = std::mem::replace(&mut self.register_of[value.position()], NO_REGISTER);
        let width = self.class(value).width;
        self.free.insert(register, width);
        self.set_occupant(register, width, NO_VALUE);
    }

    fn set_occupant(&mut self, register: u16, width: u8, occupant: u32) {
        let first = usize::from(register);
        match width {
            1 => self.occupant[first] = occupant,
            _ => self.occupant[first..first + usize::from(width)].fill(occupant),
        }
    }

    /// Appends the values in registers with their first registers, in the order of registers.
    fn add_residents(&self, found: &mut Vec<(Value, u16)>) {
        let occupied = self.usable.without(&self.free);
        found.reserve(occupied.count() as usize);
        occupied.for_each(|register| {
            // A tuple is listed once, at its first register.
            if let Some(value) = self.occupant(register)
                && self.register_of[value.position()] == register
            {
                found.push((value, register));
            }
        });
    }

    /// Chooses free registers for a value and returns the first; `None` if no aligned gap is wide enough. The order of preference saves
    /// moves: the place that the value's web of coalescing hints implies; a gap for the whole web, if no value of it has a place yet; any
    /// gap.
    pub(crate) fn choose(&mut self, value: Value, free: &RegisterSet) -> Option<u16> {
        let class = self.class(value);
        let fits = |place: u16| place.is_multiple_of(u16::from(class.align)) && free.has_all(place, class.width);
        let web = self.hints.web(value);
        let wish = self.hints.place(web);
        if let Some(place) = wish {
            if fits(place) {
                return Some(place);
            }
        } else {
            let (width, offset, align) = self.hints.extent(web);
            if width > class.width {
                let whole = Class { width, align, ..class };
                if let Some(place) = free.find(whole).map(|place| place + u16::from(offset)).filter(|&place| fits(place)) {
                    self.hints.set_place(web, place);
                    return Some(place);
                }
            }
        }
        let place = free.find(class)?;
        // The first value of a web decides for the others. A value that missed the web's place does not change it.
        if wish.is_none() {
            self.hints.set_place(web, place);
        }
        Some(place)
    }

    /// Returns the estimated cost of dropping a value, at least 16: inversely proportional to the number of instructions to its next use,
    /// so the cheapest value is the one Belady's rule evicts.
    ///
    /// The weights 1, 3 and 5 are for a value that is recomputed (no memory access), one whose store exists already (a load), and one
    /// that needs a store as well. 2^34 is above any distance (at most 2^30), so that the integer division keeps the costs apart.
    pub(crate) fn drop_cost(&self, value: Value, position: u32) -> u64 {
        let distance = u64::from(self.next_use[value.position()].saturating_sub(position)) + 1;
        let weight: u64 = if self.repeatable[value.position()].is_some() {
            1 << 34
        } else if self.needs_store[value.position()] {
            3 << 34
        } else {
            5 << 34
        };
        1 + weight / distance
    }

    /// Records a use, for the live interval of the value's spill slot: the last use in the block of the definition, or that the value
    /// lives beyond that block.
    pub(crate) fn note_use(&mut self, value: Value, position: u32, next: u32) {
        let leaves = next != NEVER && next >= self.lengths[self.block.position()];
        if let Some((block, _, last)) = &mut self.defined_at[value.position()]
            && *block == self.block
        {
            *last = if leaves { u32::MAX } else { (*last).max(position) };
        }
    }

    /// Records the definition of a value: instruction, position and first register.
    pub(crate) fn note_definition(&mut self, value: Value, inst: Inst, position: u32, next: u32, register: u16) {
        self.next_use[value.position()] = next;
        self.defined_in[value.position()] = register;
        self.definition[value.position()] = Some(inst);
        self.defined_at[value.position()] = Some((self.block, position, position));
        self.note_use(value, position, next);
    }

    /// Drops a value: frees its registers and marks it as spilled. No instruction is emitted here; the store follows the definition,
    /// and the next use reloads the value.
    pub(crate) fn drop_value(&mut self, value: Value) {
        self.vacate(value);
        self.mark_spilled(value);
    }

    /// Allocates one block and records its exit state; `place` is its position in reverse post-order.
    fn run_block(&mut self, block: Block, place: usize) -> Result<(), AllocateError> {
        self.block = block;
        self.usable = self.allowed;
        self.free = self.usable;
        self.occupant.fill(NO_VALUE);
        if place > 0 {
            self.enter_block(block, place);
        }
        // The old list stays in the function: terminators, phis and liveness of the block are still read until the blocks are rewritten.
        let insts = std::mem::take(&mut self.function.blocks[block].insts);
        let mut out = Vec::with_capacity(insts.len() + insts.len() / 8);
        let result = self.walk(block, &insts, &mut out);
        self.function.blocks[block].insts = insts;
        result?;
        self.join_terminators(block, &mut out);
        self.output[block.position()] = out;
        let mut states = std::mem::take(&mut self.exit_state);
        let start = states.entries.len();
        self.add_residents(&mut states.entries);
        // The next block starts with no value in registers and takes over the exit state of one of its predecessors.
        for &(value, _) in &states.entries[start..] {
            self.register_of[value.position()] = NO_REGISTER;
        }
        states.spans[block.position()] = (start as u32, states.entries.len() as u32);
        self.exit_state = states;
        Ok(())
    }

    /// Copies the instructions of a block to `out`, with registers for those that have operands of the file.
    fn walk(&mut self, block: Block, insts: &[Inst], out: &mut Vec<Inst>) -> Result<(), AllocateError> {
        let mut done = 0;
        for number in 0..self.liveness.file_insts_of(block).len() {
            let file_inst: FileInst = self.liveness.file_insts_of(block)[number];
            out.extend_from_slice(&insts[done..file_inst.position as usize]);
            self.allocate_inst(file_inst, out)?;
            done = file_inst.position as usize + 1;
        }
        out.extend_from_slice(&insts[done..]);
        Ok(())
    }

    /// Moves the code emitted for the last terminator before the first one. A block may end in a guarded branch and a second terminator;
    /// terminators have to stay adjacent at the end of the block.
    fn join_terminators(&self, block: Block, out: &mut [Inst]) {
        if let [first, _] = *self.function.terminators(block) {
            let end = out.len() - 1;
            if let Some(at) = out[..end].iter().rposition(|&inst| inst == first) {
                out[at..end].rotate_left(1);
            }
        }
    }

    /// Sets up the registers at the start of a block and records them as its entry state.
    fn enter_block(&mut self, block: Block, place: usize) {
        let at = block.position();
        let visited = self.flow.predecessors[at].iter().copied().filter(|from| (self.flow.place[from.position()] as usize) < place);
        // The predecessor whose registers the block inherits: its edge needs the fewest moves. Deeper loops are executed more often.
        let base = visited.max_by_key(|from| (self.flow.depth[from.position()], self.flow.place[from.position()]));
        for (&value, &distance) in self.liveness.live_in(block).iter().zip(self.liveness.distances(block)) {
            self.next_use[value.position()] = distance;
            self.live_into[value.position()] = at as u32;
        }
        for number in base.map_or(0..0, |base| self.exit_state.range(base)) {
            let (value, register) = self.exit_state.entries[number];
            if self.live_into[value.position()] == at as u32 {
                self.occupy(value, register);
            }
        }
        // Before the phis, so that they can take the registers of dropped values.
        if self.flow.loops[at].is_some() {
            self.make_room_for_loop(block);
        }
        self.place_phis(block, base);
        // Values that are live-in but in no register here: another predecessor may have them in registers only, so they need a store.
        for number in 0..self.liveness.live_in(block).len() {
            let value = self.liveness.live_in(block)[number];
            if self.register_of[value.position()] == NO_REGISTER {
                self.mark_spilled(value);
            }
        }
        let mut states = std::mem::take(&mut self.entry_state);
        let start = states.entries.len();
        self.add_residents(&mut states.entries);
        states.spans[at] = (start as u32, states.entries.len() as u32);
        self.entry_state = states;
    }

    /// Prepares the registers at a loop header. If the loop needs more registers than there are, drops values that live through the loop
    /// without a use in it, farthest next use first, until the rest fits. Otherwise, reloads values that the loop uses and that are not in
    /// registers, nearest next use first, into free registers: one reload before the loop replaces one in every iteration.
    ///
    /// A next use at 100,000 instructions or more is after a loop exit: that is the length [`Liveness`] gives to edges out of loops.
    fn make_room_for_loop(&mut self, block: Block) {
        let body = self.flow.loops[block.position()].as_deref().unwrap_or_default();
        // The pressure of each block assumes that nothing is dropped, so it counts the values that live through the loop.
        let most = body.iter().map(|inside| self.liveness.pressure[inside.position()]).max().unwrap_or(0);
        let mut excess = most.saturating_sub(self.usable.count());
        if excess == 0 {
            let live_in = self.liveness.live_in(block).iter();
            let mut missing: Vec<Value> = live_in.copied().filter(|value| self.register_of[value.position()] == NO_REGISTER).collect();
            missing.sort_by_key(|value| self.next_use[value.position()]);
            for value in missing {
                let free = self.free;
                // `occupy` in the entry state is enough: the edges into the loop reload the value.
                if self.next_use[value.position()] < LOOP_EXIT
                    && let Some(register) = self.choose(value, &free)
                {
                    self.occupy(value, register);
                }
            }
            return;
        }
        let mut residents = Vec::new();
        self.add_residents(&mut residents);
        let mut unused: Vec<(u32, Value)> =
            residents.iter().map(|&(value, _)| (self.next_use[value.position()], value)).filter(|&(next, _)| next >= LOOP_EXIT).collect();
        unused.sort_by_key(|&(next, value)| (std::cmp::Reverse(next), value));
        for (_, value) in unused {
            if excess == 0 {
                break;
            }
            excess = excess.saturating_sub(u32::from(self.class(value).width));
            self.drop_value(value);
        }
    }

    /// Assigns registers to the phis of a block. Preferred are the registers in which the predecessor `base` leaves the phi's source,
    /// because that edge then needs no move. A phi that finds no registers and is not worth more than the values in them is in memory.
    fn place_phis(&mut self, block: Block, base: Option<Block>) {
        let phis: Vec<(Inst, Value)> = self
            .function
            .phis(block)
            .iter()
            .filter_map(|&phi| self.function.operands(phi)[0].value().map(|value| (phi, value)))
            .filter(|&(_, value)| self.class(value).file == self.file)
            .collect();
        if phis.is_empty() {
            return;
        }
        // Phis come first among the instructions of the block.
        for &file_inst in self.liveness.file_insts_of(block).iter().take(phis.len()) {
            for (value, &next) in self.liveness.defined(file_inst).iter().zip(self.liveness.nexts_of_defined(file_inst)) {
                self.next_use[value.position()] = next;
            }
        }
        let left = base.map_or(&[][..], |base| self.exit_state.of(base));
        left.iter().for_each(|&(value, register)| self.base_exit_register[value.position()] = register);
        // All phis that can inherit do so before any other phi chooses, or the others might take their registers.
        let mut later = Vec::new();
        for &(phi, value) in &phis {
            // An unused phi needs no register and no slot.
            if self.next_use[value.position()] == NEVER {
                continue;
            }
            let class = self.class(value);
            let source = base.and_then(|base| phi_source(self.function, phi, base).part());
            let exit_register =
                source.map(|part| (self.base_exit_register[part.value.position()], part.first)).filter(|left| left.0 != NO_REGISTER);
            let inherited = exit_register.map(|(register, first)| register + u16::from(first));
            // The registers of the source are free only if the source does not live into this block itself.
            match inherited.filter(|&place| place.is_multiple_of(u16::from(class.align)) && self.free.has_all(place, class.width)) {
                Some(place) => {
                    self.occupy(value, place);
                    let web = self.hints.web(value);
                    self.hints.set_place(web, place);
                }
                None => later.push((phi, value)),
            }
        }
        let left = base.map_or(&[][..], |base| self.exit_state.of(base));
        left.iter().for_each(|&(value, _)| self.base_exit_register[value.position()] = NO_REGISTER);
        later.sort_by_key(|&(_, value)| (std::cmp::Reverse(self.class(value).width), self.next_use[value.position()], value));
        for (phi, value) in later {
            let free = self.free;
            if let Some(register) = self.choose(value, &free) {
                self.occupy(value, register);
            } else if !self.displace_for_phi(value, &phis) {
                self.phis_without_register.push((block, phi));
                self.mark_spilled(value);
            }
        }
        for &(_, value) in &phis {
            self.entered_at[value.position()] = self.register_of[value.position()];
            self.phi_of[value.position()] = Some(block);
        }
    }

    /// Drops values that cost less to drop than a phi, and gives their registers to the phi. Returns whether it did.
    fn displace_for_phi(&mut self, value: Value, phis: &[(Inst, Value)]) -> bool {
        let class = self.class(value);
        // Phis do not displace each other: they get registers in order of width and next use, so the more urgent one has its own already.
        let is_phi = |victim: Value| phis.iter().any(|&(_, phi)| phi == victim);
        let Some((cost, place)) = self.cheapest_window(class, &self.usable, 0, |victim| !is_phi(victim)) else { return false };
        if cost >= self.drop_cost(value, 0) {
            return false;
        }
        for register in place..place + u16::from(class.width) {
            if let Some(victim) = self.occupant(register) {
                self.drop_value(victim);
            }
        }
        self.occupy(value, place);
        true
    }

    /// Returns the aligned window whose values are cheapest to drop, as (cost, first register); the lowest one among equals. A window
    /// with a value that may not be dropped is left out.
    pub(crate) fn cheapest_window(
        &self,
        class: Class,
        within: &RegisterSet,
        position: u32,
        may_drop: impl Fn(Value) -> bool,
    ) -> Option<(u64, u16)> {
        let mut best: Option<(u64, u16)> = None;
        for place in within.places(class).iter() {
            let mut cost = 0;
            // A tuple occupies neighbouring registers, so comparing with the previous register counts it once.
            let mut last = None;
            let mut allowed = true;
            for register in place..place + u16::from(class.width) {
                let occupant = self.occupant(register);
                if let Some(value) = occupant.filter(|_| occupant != last) {
                    allowed &= may_drop(value);
                    cost += self.drop_cost(value, position);
                }
                last = occupant;
            }
            if allowed && best.is_none_or(|(lowest, _)| cost < lowest) {
                best = Some((cost, place));
            }
        }
        best
    }
}
