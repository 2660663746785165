//! Computes liveness, next-use distances and register pressure for the values of one register file.
//!
//! **Live-in lists, control flow and loops** come from [`oriole_ir::analysis`]. Only the collection of uses is done here
//! ([`LiveIn::compute`] instead of `Liveness::compute`), for two reasons: the instructions that concern the file are listed anyway, so
//! no second scan of all instructions is needed; and nothing reads the lists for the ends of blocks, which would double the memory.
//! Next-use distances and the pressure of tuples have no counterpart among the analyses of the IR. Execution frequencies are not used:
//! the nesting depth of loops, and the distance that each loop exit adds, take their place.
//!
//! **Next-use distances** are those of Braun and Hack 2009: the number of instructions to the next use along the shortest path, where an
//! edge out of a loop counts as 100,000 instructions. So a value that a loop does not use looks far away inside it. Braun and Hack iterate
//! to a fixed point; here two passes over the blocks are made. The distances only guide the choice of spills and need not be exact.
//!
//! Example, with one loop `bb1` of 10 instructions that does not use `%a`, and a use of `%a` at position 3 of `bb2`, after the loop:
//!
//! ```text
//! at the start of bb2:   3
//! at the start of bb1:   10 + 100,000 + 3      through the loop exit
//! ```

use oriole_ir::analysis::{ControlFlow, LiveIn, Loops, Need};
use oriole_ir::{Block, Function, Inst, Opcode, Operand, OperandKind, Pseudo, RegFile, Role, Value};
use oriole_support::IndexVec;
use rustc_hash::FxHashMap;

use crate::lists::{BlockLists, ListRange};
use crate::operands::{file_of_fixed_constant, phi_source};
use crate::outcome::AllocateError;
use crate::registers::{Reg, RegisterSet};

/// Width in registers of the narrowest tuples whose registers are freed one by one after their last reads ([`crate::dead_parts`]). The
/// halves of pairs are mostly read together.
pub(crate) const MIN_SPLIT_TUPLE_WIDTH: u8 = 4;

/// Number of instructions that an edge out of a loop counts for in next-use distances.
const LOOP_EXIT_DISTANCE: u32 = 100_000;

/// The next use of a value. If it is in the current block: its position there. Otherwise: an estimate of its distance from the start of the
/// current block, in instructions. Nearer uses compare less; [`NextUse::NEVER`] is the greatest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct NextUse(u32);

impl NextUse {
    /// There is no next use: the value is dead.
    pub const NEVER: NextUse = NextUse(u32::MAX);
    /// The farthest next use of a live value, in instructions. Larger distances are reduced to it, so that sums do not overflow.
    const FARTHEST: NextUse = NextUse(1 << 30);

    /// Returns the next use at a position of the current block.
    pub fn at(position: u32) -> NextUse {
        NextUse(position)
    }

    /// Returns whether there is no next use.
    pub fn is_never(self) -> bool {
        self == NextUse::NEVER
    }

    /// Returns whether the next use is outside of the loop around the current point: its distance is at least that of a loop exit.
    pub fn is_after_loop(self) -> bool {
        self.0 >= LOOP_EXIT_DISTANCE
    }

    /// Returns whether the next use comes after the current block, which has `length` instructions.
    pub fn is_after_block(self, length: u32) -> bool {
        !self.is_never() && self.0 >= length
    }

    /// Returns the number of instructions from a position of the current block to the next use; 0 if the use is not after it.
    pub fn distance_from(self, position: u32) -> u32 {
        self.0.saturating_sub(position)
    }

    /// Returns the next use as seen from a point `instructions_earlier` instructions earlier: the distance grows by that number.
    fn relative_to_earlier(self, instructions_earlier: u32) -> NextUse {
        NextUse(self.0.saturating_add(instructions_earlier))
    }
}

/// A value that an instruction reads or writes.
#[derive(Clone, Copy)]
pub(crate) struct ValueAccess {
    /// The value that is read or written.
    pub value: Value,
    /// The next use of the value after this instruction.
    pub next_use: NextUse,
}

/// An instruction that the allocation of the current register file has to handle: one with an operand of that register file, or a call.
#[derive(Clone, Copy)]
pub(crate) struct RegisterFileInst {
    /// Position of the instruction in its block.
    pub position: u32,
    /// The instruction itself.
    pub inst: Inst,
    /// Whether the instruction has tied operands (a source that shares the register of a result) in any register file.
    pub has_tied: bool,
    /// Whether the instruction has operands in fixed registers, in any register file.
    pub has_fixed: bool,
    /// The values of the register file that the instruction reads: a range of `FileLiveness::accesses`.
    reads: ListRange,
    /// The values of the register file that the instruction writes: a range of `FileLiveness::accesses`.
    writes: ListRange,
}

/// A set of register files, one bit each.
#[derive(Clone, Copy, PartialEq, Eq)]
struct RegFileSet(u8);

impl RegFileSet {
    const NONE: RegFileSet = RegFileSet(0);
    const ALL: RegFileSet = RegFileSet(u8::MAX);

    /// Returns whether a register file is in the set.
    fn has(self, file: RegFile) -> bool {
        self.0 & 1 << file as u8 != 0
    }

    /// Adds a register file to the set.
    fn insert(&mut self, file: RegFile) {
        self.0 |= 1 << file as u8;
    }
}

/// Liveness and next uses of the values of one register file. Vectors indexed by value are kept from one register file to the next, since
/// each value belongs to one file.
#[derive(Clone, Default)]
pub(crate) struct FileLiveness {
    /// For each block: the instructions that the allocation of the current register file has to handle.
    insts: BlockLists<RegisterFileInst>,
    /// For each entry of `insts`: the values of the register file that the instruction reads, then those that it writes.
    accesses: Vec<ValueAccess>,
    /// For each block: the values of the register file that are live at its start.
    live_in: LiveIn,
    /// For each entry of `live_in`: the next use of the value, as a distance from the start of the block.
    live_in_next_uses: Vec<NextUse>,
    /// For each block: the values that phis of its successors read at its end, each with the block that the phi is in.
    phi_sources: BlockLists<(Block, Value)>,
    /// For each block: its register pressure, the maximum number of registers that would be live at once if no value were evicted.
    pub pressure: IndexVec<Block, u32>,
    /// For each instruction: the register files of its operands ([`register_files_of`]); `None` if not computed yet.
    operand_files: IndexVec<Inst, Option<RegFileSet>>,
    /// For each value: the block that defines it; `None` if its definition was not found.
    defined_in: IndexVec<Value, Option<Block>>,
    /// For each value: the last visited block with an upward-exposed use of it (a use before any definition in the block); `None` if there
    /// was none.
    last_exposed_in: IndexVec<Value, Option<Block>>,
    /// For each value: space for next uses while a function computes them; all entries are [`NextUse::NEVER`] between such functions.
    scratch_next_uses: IndexVec<Value, NextUse>,
}

/// The control flow graph and its loops.
#[derive(Clone)]
pub(crate) struct ControlFlowAndLoops {
    /// Predecessors, successors and order of the blocks.
    pub graph: ControlFlow,
    /// The natural loops of the function.
    pub loops: Loops,
}

impl ControlFlowAndLoops {
    /// Computes the control flow of a function.
    pub fn new(function: &Function) -> ControlFlowAndLoops {
        let graph = ControlFlow::compute(function);
        let loops = Loops::compute(function, &graph);
        ControlFlowAndLoops { graph, loops }
    }

    /// Returns the reachable blocks in reverse post-order.
    pub fn reverse_post_order(&self) -> &[Block] {
        self.graph.reverse_post_order()
    }
}

impl FileLiveness {
    /// Computes liveness, next uses and pressure for the values of a register file. Returns an error if the function is not in strict SSA
    /// form.
    pub fn compute(&mut self, function: &Function, flow: &ControlFlowAndLoops, file: RegFile) -> Result<(), AllocateError> {
        let values = function.values.len();
        self.defined_in.resize(values, None);
        self.last_exposed_in.resize(values, None);
        self.scratch_next_uses.resize(values, NextUse::NEVER);
        self.find_file_insts(function, flow, file);
        self.find_live_in(function, flow, file)?;
        self.compute_live_in_next_uses(function, flow);
        self.compute_next_uses(function, flow);
        Ok(())
    }

    /// Returns the instructions of a block that the allocation of the current register file has to handle.
    pub fn file_insts_of(&self, block: Block) -> &[RegisterFileInst] {
        self.insts.get(block)
    }

    /// Returns the instructions of all blocks that the allocation of the current register file has to handle.
    pub fn file_insts(&self) -> &[RegisterFileInst] {
        self.insts.all_items()
    }

    /// Returns the values of the register file that an instruction reads; none for phis, whose sources are read at the ends of the
    /// predecessors.
    pub fn reads(&self, file_inst: RegisterFileInst) -> &[ValueAccess] {
        &self.accesses[file_inst.reads.range()]
    }

    /// Returns the values of the register file that an instruction writes.
    pub fn writes(&self, file_inst: RegisterFileInst) -> &[ValueAccess] {
        &self.accesses[file_inst.writes.range()]
    }

    /// Returns the values that are live at the start of a block, except those that its phis define, in ascending order.
    pub fn live_in(&self, block: Block) -> &[Value] {
        self.live_in.of(block)
    }

    /// Returns the next use of each value of [`FileLiveness::live_in`], in the same order, as a distance from the start of the block.
    pub fn live_in_next_uses(&self, block: Block) -> &[NextUse] {
        &self.live_in_next_uses[self.live_in.range(block)]
    }

    /// Forgets the cached set of register files of an instruction's operands, because an operand was replaced by one of another register
    /// file.
    pub fn forget_operand_files(&mut self, inst: Inst) {
        self.operand_files[inst] = None;
    }

    /// Lists the instructions that the allocation of a register file has to handle, and their operands in that register file.
    fn find_file_insts(&mut self, function: &Function, flow: &ControlFlowAndLoops, file: RegFile) {
        self.accesses.clear();
        self.operand_files.resize(function.insts.len(), None);
        self.insts.reset(function.blocks.len());
        for &block in flow.reverse_post_order() {
            let (files, accesses) = (&mut self.operand_files, &mut self.accesses);
            self.insts.fill(block, |found| {
                for (position, &inst) in function.blocks[block].insts.iter().enumerate() {
                    let files = *files[inst].get_or_insert_with(|| register_files_of(function, inst));
                    if files.has(file) {
                        found.extend(collect_file_inst(function, position as u32, inst, file, accesses));
                    }
                }
            });
        }
    }

    /// Computes the values that are live at the start of each block. Returns an error if the function is not in strict SSA form.
    fn find_live_in(&mut self, function: &Function, flow: &ControlFlowAndLoops, file: RegFile) -> Result<(), AllocateError> {
        let mut needs: Vec<(Value, Need)> = Vec::new();
        self.phi_sources.reset(function.blocks.len());
        for &block in flow.reverse_post_order() {
            for file_inst in self.insts.get(block) {
                for &ValueAccess { value, .. } in &self.accesses[file_inst.reads.range()] {
                    if self.defined_in[value] != Some(block) && self.last_exposed_in[value] != Some(block) {
                        self.last_exposed_in[value] = Some(block);
                        needs.push((value, Need::Entry(block)));
                    }
                }
                for &ValueAccess { value, .. } in &self.accesses[file_inst.writes.range()] {
                    if self.defined_in[value].replace(block).is_some() {
                        return Err(AllocateError::Invalid(format!("{value:?} is defined twice")));
                    }
                }
            }
            self.phi_sources.fill(block, |found| {
                for &next in flow.graph.successors(block) {
                    for &phi in function.phis(next) {
                        if let OperandKind::Value(part) = phi_source(function, phi, block).kind
                            && function.values[part.value].file == file
                        {
                            found.push((next, part.value));
                            needs.push((part.value, Need::Exit(block)));
                        }
                    }
                }
            });
        }
        self.live_in = LiveIn::compute(function.blocks.len(), &flow.graph, &mut needs, |value| self.defined_in[value]);
        // A value whose definition does not dominate all its uses is live at the start of the function.
        match self.live_in.of(function.entry()).first() {
            Some(value) => Err(AllocateError::Invalid(format!("{value:?} is used where it is not defined"))),
            None => Ok(()),
        }
    }

    /// Computes, for each block and each value that is live at its start, the distance to the next use.
    fn compute_live_in_next_uses(&mut self, function: &Function, flow: &ControlFlowAndLoops) {
        // First, finds the next uses in the block itself, which are exact and not changed later.
        let mut own_uses = vec![NextUse::NEVER; self.live_in.all().len()];
        let mut nearest = std::mem::take(&mut self.scratch_next_uses);
        for &block in flow.reverse_post_order() {
            for &file_inst in self.file_insts_of(block).iter().rev() {
                self.reads(file_inst).iter().for_each(|read| nearest[read.value] = NextUse::at(file_inst.position));
            }
            for (own_use, &value) in own_uses[self.live_in.range(block)].iter_mut().zip(self.live_in(block)) {
                *own_use = nearest[value];
            }
            for &file_inst in self.file_insts_of(block) {
                self.reads(file_inst).iter().for_each(|read| nearest[read.value] = NextUse::NEVER);
            }
        }
        self.live_in_next_uses.clear();
        self.live_in_next_uses.extend(own_uses.iter().map(|&own_use| own_use.min(NextUse::FARTHEST)));
        // Then finds the next uses in later blocks, which are visited in post-order. The second pass propagates distances over back edges
        // to the blocks of a loop.
        let rounds = if flow.loops.is_empty() { 1 } else { 2 };
        for _ in 0..rounds {
            for &block in flow.reverse_post_order().iter().rev() {
                self.find_uses_after_block(function, flow, block, &mut nearest, |_| {});
                for at in self.live_in.range(block) {
                    if own_uses[at].is_never() {
                        self.live_in_next_uses[at] = nearest[self.live_in.all()[at]].min(NextUse::FARTHEST);
                    }
                }
                self.reset_uses_after_block(flow, block, &mut nearest);
            }
        }
        self.scratch_next_uses = nearest;
    }

    /// For each value that is live at the end of a block, finds its next use after the block, as a distance from the start of the block.
    /// Writes the distance into `nearest` and calls `visit` once for each such value.
    fn find_uses_after_block(
        &self,
        function: &Function,
        flow: &ControlFlowAndLoops,
        block: Block,
        nearest: &mut IndexVec<Value, NextUse>,
        mut visit: impl FnMut(Value),
    ) {
        let length = function.blocks[block].insts.len() as u32;
        let depth = flow.loops.depth(block);
        let distance_to = |next: Block| length + if flow.loops.depth(next) < depth { LOOP_EXIT_DISTANCE } else { 0 };
        let mut note = |value: Value, next: NextUse| {
            let known = &mut nearest[value];
            if known.is_never() {
                visit(value);
            }
            *known = (*known).min(next.min(NextUse::FARTHEST));
        };
        for &next in flow.graph.successors(block) {
            let distance = distance_to(next);
            for (&value, first_use) in self.live_in(next).iter().zip(self.live_in_next_uses(next)) {
                note(value, first_use.relative_to_earlier(distance));
            }
        }
        for &(next, value) in self.phi_sources.get(block) {
            note(value, NextUse::at(distance_to(next)));
        }
    }

    /// Resets the entries that [`FileLiveness::find_uses_after_block`] wrote to [`NextUse::NEVER`].
    fn reset_uses_after_block(&self, flow: &ControlFlowAndLoops, block: Block, nearest: &mut IndexVec<Value, NextUse>) {
        for &next in flow.graph.successors(block) {
            self.live_in(next).iter().for_each(|&value| nearest[value] = NextUse::NEVER);
        }
        for &(_, value) in self.phi_sources.get(block) {
            nearest[value] = NextUse::NEVER;
        }
    }

    /// Computes the next use of each value after each instruction that accesses it, and the register pressure of all blocks, by a backward
    /// walk through each block.
    fn compute_next_uses(&mut self, function: &Function, flow: &ControlFlowAndLoops) {
        self.pressure.clear();
        self.pressure.resize(function.blocks.len(), 0);
        // For each value: the next use after the current instruction. A value with an entry other than NEVER is live there.
        let mut upcoming = std::mem::take(&mut self.scratch_next_uses);
        let width = |value: Value| u32::from(function.values[value].width);
        let is_tuple = |value: Value| function.values[value].width >= MIN_SPLIT_TUPLE_WIDTH;
        // For each tuple that dies in the block: the registers that are read after the current instruction, numbered from 0 at the first
        // register of the tuple.
        let mut needed: FxHashMap<Value, RegisterSet> = FxHashMap::default();
        for &block in flow.reverse_post_order() {
            needed.clear();
            let mut now = 0;
            self.find_uses_after_block(function, flow, block, &mut upcoming, |value| now += width(value));
            let mut most = now;
            for file_inst in self.insts.get(block).iter().rev() {
                // The walk goes backward. First, the next uses of the sources are recorded, before the use by this instruction replaces
                // them. Then the results stop being live, and the sources become live.
                for read in &mut self.accesses[file_inst.reads.range()] {
                    read.next_use = upcoming[read.value];
                }
                for written in &mut self.accesses[file_inst.writes.range()] {
                    written.next_use = std::mem::replace(&mut upcoming[written.value], NextUse::NEVER);
                    if !written.next_use.is_never() {
                        now -= needed.remove(&written.value).map_or(width(written.value), |registers| registers.count());
                    }
                }
                for read in &self.accesses[file_inst.reads.range()] {
                    if std::mem::replace(&mut upcoming[read.value], NextUse::at(file_inst.position)).is_never() {
                        if is_tuple(read.value) {
                            needed.insert(read.value, RegisterSet::EMPTY);
                        } else {
                            now += width(read.value);
                        }
                    }
                }
                if !file_inst.reads.is_empty() && !needed.is_empty() {
                    for part in function.sources(file_inst.inst).iter().filter_map(Operand::part) {
                        let Some(registers) = needed.get_mut(&part.value) else { continue };
                        let before = registers.count();
                        registers.insert(Reg::from(part.first), part.count);
                        now += registers.count() - before;
                    }
                }
                most = most.max(now);
            }
            self.pressure[block] = most;
            self.reset_uses_after_block(flow, block, &mut upcoming);
            self.live_in(block).iter().for_each(|&value| upcoming[value] = NextUse::NEVER);
        }
        self.scratch_next_uses = upcoming;
    }
}

/// Returns the register files of an instruction's operands; all register files for a call. The result is computed once, when the first file
/// is allocated, so it includes the files of operands that are physical registers by now.
fn register_files_of(function: &Function, inst: Inst) -> RegFileSet {
    let data = &function.insts[inst];
    let mut files = if data.is_machine(Opcode::CALL) { RegFileSet::ALL } else { RegFileSet::NONE };
    for operand in function.operands(inst) {
        match operand.kind {
            OperandKind::Value(part) => files.insert(function.values[part.value].file),
            _ => file_of_fixed_constant(operand).into_iter().for_each(|file| files.insert(file)),
        }
    }
    if let Some(guard) = &data.guard
        && let OperandKind::Value(part) = guard.kind
    {
        files.insert(function.values[part.value].file);
    }
    files
}

/// Returns the [`RegisterFileInst`] of an instruction and appends the values of the register file that it accesses to `accesses`. `None`
/// for a phi that defines no value of the register file.
fn collect_file_inst(
    function: &Function,
    position: u32,
    inst: Inst,
    file: RegFile,
    accesses: &mut Vec<ValueAccess>,
) -> Option<RegisterFileInst> {
    let data = &function.insts[inst];
    let (results, sources) = function.operands(inst).split_at(data.result_count());
    let (mut has_tied, mut has_fixed) = (false, false);
    let add = |accesses: &mut Vec<ValueAccess>, kind: OperandKind| {
        if let OperandKind::Value(part) = kind
            && function.values[part.value].file == file
        {
            accesses.push(ValueAccess { value: part.value, next_use: NextUse::NEVER });
        }
    };
    let start = accesses.len();
    if !data.is(Pseudo::Phi) {
        for operand in sources {
            has_tied |= matches!(operand.role, Role::Tied(_));
            has_fixed |= matches!(operand.role, Role::Fixed(_));
            add(accesses, operand.kind);
        }
        if let Some(guard) = &data.guard {
            add(accesses, guard.kind);
        }
    }
    let reads = ListRange::new(start, accesses.len());
    for operand in results {
        has_fixed |= matches!(operand.role, Role::Fixed(_));
        add(accesses, operand.kind);
    }
    let writes = ListRange::new(reads.range().end, accesses.len());
    let is_foreign_phi = data.is(Pseudo::Phi) && writes.is_empty();
    (!is_foreign_phi).then_some(RegisterFileInst { position, inst, has_tied, has_fixed, reads, writes })
}
