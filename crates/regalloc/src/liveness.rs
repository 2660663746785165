//! Computes liveness, next-use distances and register pressure for the values of one register file.
//!
//! **Liveness** explores backward from each use to the definition and marks the blocks on the way (path exploration; Brandner et al. 2011,
//! "Computing Liveness Sets for SSA-Form Programs"). Live-in sets are lists, so the cost is their total size, not blocks times values.
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

use oriole_ir::{Block, Function, Inst, Opcode, OperandKind, Pseudo, RegFile, Role, Value};
use oriole_support::Index;

use crate::AllocateError;
use crate::allocate_inst::fixed_constant_file;
use crate::control_flow::ControlFlow;

/// In place of a distance or position: there is no next use.
pub(crate) const NEVER: u32 = u32::MAX;
/// Instructions that an edge out of a loop counts for.
pub(crate) const LOOP_EXIT: u32 = 100_000;
/// The largest distance; longer ones are cut off, so that sums do not overflow.
const FAR: u32 = 1 << 30;
const NO_BLOCK: u32 = u32::MAX;
/// In place of a set of files: not computed yet.
const UNKNOWN: u8 = u8::MAX;
const ALL_FILES: u8 = 0x7f;

/// An instruction that the allocation of the file has to handle: one with an operand of the file, or a call.
#[derive(Clone, Copy)]
pub(crate) struct FileInst {
    /// Position of the instruction in its block.
    pub position: u32,
    pub inst: Inst,
    /// Whether the instruction has tied operands of any file.
    pub has_tied: bool,
    /// Whether the instruction has operands in fixed registers of any file.
    pub has_fixed: bool,
    /// Index in `Liveness::operands` of the first value read.
    first: u32,
    /// Index of the first value written, which is the end of those read.
    first_defined: u32,
    /// End of the values written.
    end: u32,
}

/// A range of a list.
#[derive(Clone, Copy, Default)]
struct Span {
    start: u32,
    end: u32,
}

impl Span {
    fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// Liveness of the values of one register file. The lists of all blocks or instructions share one vector each, with spans into it. Vectors
/// indexed by value are kept from file to file: each value belongs to one file.
#[derive(Default)]
pub(crate) struct Liveness {
    /// The instructions to handle, block by block.
    file_insts: Vec<FileInst>,
    /// By block: its span of `file_insts`.
    inst_spans: Vec<Span>,
    /// For each entry of `file_insts` the values of the file that it reads, then those that it writes.
    operands: Vec<Value>,
    /// For each entry of `operands` the position of the value's next use after the instruction.
    nexts: Vec<u32>,
    /// The live-in values of all blocks.
    live: Vec<Value>,
    /// For each entry of `live` the distance from the start of the block to the next use, in instructions.
    distance: Vec<u32>,
    /// By block: its span of `live`.
    live_in: Vec<Span>,
    /// Values that phis read at the end of each predecessor, with the blocks of the phis.
    phi_sources: Vec<(Block, Value)>,
    /// By predecessor: its span of `phi_sources`.
    phi_spans: Vec<Span>,
    /// By block: the greatest number of registers that are live at once, if no value is dropped.
    pub pressure: Vec<u32>,
    /// By instruction: see [`Liveness::files_of`].
    files: Vec<u8>,
    /// By value: the block that defines it.
    defined_at: Vec<u32>,
    /// By value: the last block in which an upward-exposed use was found.
    seen_in: Vec<u32>,
    /// By value: scratch space for distances; all [`NEVER`] outside of the functions that use it.
    nearest: Vec<u32>,
}

/// Returns the source of a phi for a predecessor; an undefined operand if the phi has none.
pub(crate) fn phi_source(function: &Function, phi: Inst, from: Block) -> oriole_ir::Operand {
    let mut pairs = function.sources(phi).chunks_exact(2);
    let pair = pairs.find(|pair| pair[1].kind == OperandKind::Block(from));
    pair.map_or(oriole_ir::Operand::new(OperandKind::Undefined), |pair| pair[0])
}

impl Liveness {
    /// Computes everything for the values of a register file. Returns an error if the function is not in strict SSA form.
    pub fn compute(&mut self, function: &Function, flow: &ControlFlow, file: RegFile) -> Result<(), AllocateError> {
        let values = function.values.len();
        self.defined_at.resize(values, NO_BLOCK);
        self.seen_in.resize(values, NO_BLOCK);
        self.nearest.resize(values, NEVER);
        self.find_file_insts(function, flow, file);
        self.find_live(function, flow, file)?;
        self.compute_distances(function, flow);
        self.compute_next_uses(function, flow);
        Ok(())
    }

    /// Returns the instructions of a block that the allocation of the file has to handle.
    pub fn file_insts_of(&self, block: Block) -> &[FileInst] {
        &self.file_insts[self.inst_spans[block.position()].range()]
    }

    /// Returns the instructions of all blocks that the allocation of the file has to handle.
    pub fn file_insts(&self) -> &[FileInst] {
        &self.file_insts
    }

    /// Returns the values of the file that an instruction reads; none for phis, which read at the ends of the predecessors.
    pub fn used(&self, file_inst: FileInst) -> &[Value] {
        &self.operands[file_inst.first as usize..file_inst.first_defined as usize]
    }

    /// Returns the values of the file that an instruction writes.
    pub fn defined(&self, file_inst: FileInst) -> &[Value] {
        &self.operands[file_inst.first_defined as usize..file_inst.end as usize]
    }

    /// Returns, for each value that an instruction reads, the position of its next use after the instruction.
    pub fn nexts_of_used(&self, file_inst: FileInst) -> &[u32] {
        &self.nexts[file_inst.first as usize..file_inst.first_defined as usize]
    }

    /// Returns, for each value that an instruction writes, the position of its first use.
    pub fn nexts_of_defined(&self, file_inst: FileInst) -> &[u32] {
        &self.nexts[file_inst.first_defined as usize..file_inst.end as usize]
    }

    /// Returns the values that are live-in at a block, without its phis, in ascending order.
    pub fn live_in(&self, block: Block) -> &[Value] {
        &self.live[self.live_in[block.position()].range()]
    }

    /// Returns, for each value of [`Liveness::live_in`], the distance from the start of the block to its next use, in instructions.
    pub fn distances(&self, block: Block) -> &[u32] {
        &self.distance[self.live_in[block.position()].range()]
    }

    /// Lists the instructions to handle and their operands of the file.
    fn find_file_insts(&mut self, function: &Function, flow: &ControlFlow, file: RegFile) {
        self.file_insts.clear();
        self.operands.clear();
        self.inst_spans.clear();
        self.inst_spans.resize(function.blocks.len(), Span::default());
        for &block in &flow.order {
            let start = self.file_insts.len() as u32;
            for (position, &inst) in function.blocks[block].insts.iter().enumerate() {
                if self.files_of(function, inst) & 1 << file as u8 != 0 {
                    self.add_file_inst(function, position as u32, inst, file);
                }
            }
            self.inst_spans[block.position()] = Span { start, end: self.file_insts.len() as u32 };
        }
    }

    /// Returns the register files of an instruction's operands, one bit each; all for a call. The answer is cached, so files that have been
    /// allocated since the first call still count.
    fn files_of(&mut self, function: &Function, inst: Inst) -> u8 {
        if inst.position() >= self.files.len() {
            self.files.resize(function.insts.len(), UNKNOWN);
        }
        let known = self.files[inst.position()];
        if known != UNKNOWN {
            return known;
        }
        let data = &function.insts[inst];
        let bit = |file: RegFile| 1 << file as u8;
        let mut files = if data.is_machine(Opcode::CALL) { ALL_FILES } else { 0 };
        for operand in function.operands(inst) {
            match operand.kind {
                OperandKind::Value(part) => files |= bit(function.values[part.value].file),
                _ if matches!(operand.role, Role::Fixed(_)) => files |= fixed_constant_file(operand).map_or(0, bit),
                _ => {}
            }
        }
        if let Some(guard) = &data.guard
            && let OperandKind::Value(part) = guard.kind
        {
            files |= bit(function.values[part.value].file);
        }
        self.files[inst.position()] = files;
        files
    }

    /// Appends an instruction to the list. Phis are listed only if they define a value of the file.
    fn add_file_inst(&mut self, function: &Function, position: u32, inst: Inst, file: RegFile) {
        let data = &function.insts[inst];
        let (results, sources) = function.operands(inst).split_at(data.result_count());
        let first = self.operands.len() as u32;
        let (mut has_tied, mut has_fixed) = (false, false);
        let add = |operands: &mut Vec<Value>, kind: OperandKind| {
            if let OperandKind::Value(part) = kind
                && function.values[part.value].file == file
            {
                operands.push(part.value);
            }
        };
        if !data.is(Pseudo::Phi) {
            for operand in sources {
                has_tied |= matches!(operand.role, Role::Tied(_));
                has_fixed |= matches!(operand.role, Role::Fixed(_));
                add(&mut self.operands, operand.kind);
            }
            if let Some(guard) = &data.guard {
                add(&mut self.operands, guard.kind);
            }
        }
        let first_defined = self.operands.len() as u32;
        for operand in results {
            has_fixed |= matches!(operand.role, Role::Fixed(_));
            add(&mut self.operands, operand.kind);
        }
        let end = self.operands.len() as u32;
        if data.is(Pseudo::Phi) && end == first {
            return;
        }
        self.file_insts.push(FileInst { position, inst, has_tied, has_fixed, first, first_defined, end });
    }

    /// Computes the live-in lists.
    fn find_live(&mut self, function: &Function, flow: &ControlFlow, file: RegFile) -> Result<(), AllocateError> {
        let blocks = function.blocks.len();
        // Upward-exposed uses, as (value, (block, at end)): the value is live at the start of the block, or, for a phi source, at its end.
        let mut upward: Vec<(Value, (Block, bool))> = Vec::new();
        self.phi_sources.clear();
        self.phi_spans.clear();
        self.phi_spans.resize(blocks, Span::default());
        for &block in &flow.order {
            let number = block.position() as u32;
            for file_inst in &self.file_insts[self.inst_spans[block.position()].range()] {
                for &value in &self.operands[file_inst.first as usize..file_inst.first_defined as usize] {
                    let at = value.position();
                    if self.defined_at[at] != number && self.seen_in[at] != number {
                        self.seen_in[at] = number;
                        upward.push((value, (block, false)));
                    }
                }
                for &value in &self.operands[file_inst.first_defined as usize..file_inst.end as usize] {
                    if std::mem::replace(&mut self.defined_at[value.position()], number) != NO_BLOCK {
                        return Err(AllocateError::Invalid(format!("{value:?} is defined twice")));
                    }
                }
            }
            let start = self.phi_sources.len() as u32;
            for &next in &flow.successors[block.position()] {
                for &phi in function.phis(next) {
                    if let OperandKind::Value(part) = phi_source(function, phi, block).kind
                        && function.values[part.value].file == file
                    {
                        self.phi_sources.push((next, part.value));
                        upward.push((part.value, (block, true)));
                    }
                }
            }
            self.phi_spans[block.position()] = Span { start, end: self.phi_sources.len() as u32 };
        }
        upward.sort_unstable_by_key(|&(value, _)| value);
        let found = self.explore_paths(function, flow, &upward)?;
        self.sort_by_block(blocks, &found);
        Ok(())
    }

    /// Explores backward from every upward-exposed use to the definition. Returns (block, value) for each block that has the value live-in,
    /// sorted by value; `upward` must be sorted by value.
    fn explore_paths(
        &self,
        function: &Function,
        flow: &ControlFlow,
        upward: &[(Value, (Block, bool))],
    ) -> Result<Vec<(Block, Value)>, AllocateError> {
        let mut found: Vec<(Block, Value)> = Vec::new();
        // By block: the last value that was marked there. All uses of a value come together, so this replaces a set for each value.
        let mut last: Vec<u32> = vec![u32::MAX; function.blocks.len()];
        let mut stack = Vec::new();
        for &(value, (block, at_end)) in upward {
            let number = value.position() as u32;
            let home = self.defined_at[value.position()];
            if !at_end || home != block.position() as u32 {
                stack.push(block);
            }
            while let Some(block) = stack.pop() {
                if std::mem::replace(&mut last[block.position()], number) == number {
                    continue;
                }
                found.push((block, value));
                if block == function.entry() || home == NO_BLOCK {
                    return Err(AllocateError::Invalid(format!("{value:?} is used where it is not defined")));
                }
                let predecessors = flow.predecessors[block.position()].iter();
                stack.extend(predecessors.filter(|from| home != from.position() as u32));
            }
        }
        Ok(found)
    }

    /// Distributes (block, value) pairs into the live-in lists by a counting sort, which keeps the order of values.
    fn sort_by_block(&mut self, blocks: usize, found: &[(Block, Value)]) {
        self.live_in.clear();
        self.live_in.resize(blocks, Span::default());
        for (block, _) in found {
            self.live_in[block.position()].end += 1;
        }
        let mut start = 0;
        for span in &mut self.live_in {
            let count = std::mem::replace(&mut span.end, start);
            span.start = start;
            start += count;
        }
        self.live.clear();
        self.live.resize(found.len(), Value::new(0));
        for &(block, value) in found {
            let span = &mut self.live_in[block.position()];
            self.live[span.end as usize] = value;
            span.end += 1;
        }
    }

    /// Computes the distances at the starts of blocks.
    fn compute_distances(&mut self, function: &Function, flow: &ControlFlow) {
        // Distances to uses in the block itself. They are exact and do not change afterwards.
        let mut first_use = vec![NEVER; self.live.len()];
        let mut nearest = std::mem::take(&mut self.nearest);
        for &block in &flow.order {
            for &file_inst in self.file_insts_of(block).iter().rev() {
                self.used(file_inst).iter().for_each(|value| nearest[value.position()] = file_inst.position);
            }
            let span = self.live_in[block.position()].range();
            for (use_, value) in first_use[span].iter_mut().zip(self.live_in(block)) {
                *use_ = nearest[value.position()];
            }
            for &file_inst in self.file_insts_of(block) {
                self.used(file_inst).iter().for_each(|value| nearest[value.position()] = NEVER);
            }
        }
        self.distance.clear();
        self.distance.extend(first_use.iter().map(|&use_| use_.min(FAR)));
        // Distances to uses in later blocks, in post-order. The second pass brings distances around back edges to the blocks of a loop.
        let rounds = if flow.loops.iter().any(Option::is_some) { 2 } else { 1 };
        for _ in 0..rounds {
            for &block in flow.order.iter().rev() {
                self.distances_after_block(function, flow, block, &mut nearest, |_| {});
                for at in self.live_in[block.position()].range() {
                    if first_use[at] == NEVER {
                        self.distance[at] = nearest[self.live[at].position()].min(FAR);
                    }
                }
                self.forget(flow, block, &mut nearest);
            }
        }
        self.nearest = nearest;
    }

    /// Writes into `nearest` the distance from the start of a block to the next use after the block, for each value live at its end.
    /// Calls `tell` once for each such value.
    fn distances_after_block(
        &self,
        function: &Function,
        flow: &ControlFlow,
        block: Block,
        nearest: &mut [u32],
        mut tell: impl FnMut(Value),
    ) {
        let length = function.blocks[block].insts.len() as u32;
        let depth = flow.depth[block.position()];
        let way_to = |next: Block| length + if flow.depth[next.position()] < depth { LOOP_EXIT } else { 0 };
        let mut note = |value: Value, distance: u32| {
            let known = &mut nearest[value.position()];
            if *known == NEVER {
                tell(value);
            }
            *known = (*known).min(distance.min(FAR));
        };
        for &next in &flow.successors[block.position()] {
            let way = way_to(next);
            for (&value, distance) in self.live_in(next).iter().zip(self.distances(next)) {
                note(value, distance.saturating_add(way));
            }
        }
        for &(next, value) in &self.phi_sources[self.phi_spans[block.position()].range()] {
            note(value, way_to(next));
        }
    }

    /// Resets the entries that [`Liveness::distances_after_block`] wrote to [`NEVER`].
    fn forget(&self, flow: &ControlFlow, block: Block, nearest: &mut [u32]) {
        for &next in &flow.successors[block.position()] {
            self.live_in(next).iter().for_each(|value| nearest[value.position()] = NEVER);
        }
        for &(_, value) in &self.phi_sources[self.phi_spans[block.position()].range()] {
            nearest[value.position()] = NEVER;
        }
    }

    /// Computes the next uses of all operands and the register pressure of all blocks, by a backward walk through each block.
    fn compute_next_uses(&mut self, function: &Function, flow: &ControlFlow) {
        self.nexts.clear();
        self.nexts.resize(self.operands.len(), NEVER);
        self.pressure.clear();
        self.pressure.resize(function.blocks.len(), 0);
        // By value: position of the next use below the current instruction. A value with an entry other than NEVER is live there.
        let mut upcoming = std::mem::take(&mut self.nearest);
        let width = |value: Value| u32::from(function.values[value].width);
        for &block in &flow.order {
            let mut now = 0;
            self.distances_after_block(function, flow, block, &mut upcoming, |value| now += width(value));
            let mut most = now;
            for file_inst in self.file_insts[self.inst_spans[block.position()].range()].iter().rev() {
                let (used, defined) =
                    (file_inst.first as usize..file_inst.first_defined as usize, file_inst.first_defined as usize..file_inst.end as usize);
                // First the next uses of the sources, before this instruction's own use replaces them. Then the results stop being live,
                // and the sources become live.
                for at in used.clone() {
                    self.nexts[at] = upcoming[self.operands[at].position()];
                }
                for at in defined {
                    let value = self.operands[at];
                    let next = std::mem::replace(&mut upcoming[value.position()], NEVER);
                    self.nexts[at] = next;
                    if next != NEVER {
                        now -= width(value);
                    }
                }
                for at in used {
                    let value = self.operands[at];
                    if std::mem::replace(&mut upcoming[value.position()], file_inst.position) == NEVER {
                        now += width(value);
                    }
                }
                most = most.max(now);
            }
            self.pressure[block.position()] = most;
            self.forget(flow, block, &mut upcoming);
            self.live_in(block).iter().for_each(|value| upcoming[value.position()] = NEVER);
        }
        self.nearest = upcoming;
    }
}
