//! Where values of one file are live, and how far away their next uses are.
//!
//! Sets are lists: the cost is their total size, not blocks times values. Distances count instructions along the shortest way;
//! leaving a loop counts as a long way, so that values the loop does not need look far away inside it. They guide the choice
//! of what to drop and need not be exact.

use oriole_ir::{Block, File, Function, Inst, Opcode, OperandKind, Pseudo, Role, Value};
use oriole_support::Index;

use crate::AllocateError;
use crate::control_flow::ControlFlow;
use crate::operate::fixed_constant_file;

/// A distance: never used again.
pub(crate) const NEVER: u32 = u32::MAX;
const LOOP_EXIT: u32 = 100_000;
const FAR: u32 = 1 << 30;
const NO_BLOCK: u32 = u32::MAX;
const UNKNOWN: u8 = u8::MAX;
const ALL_FILES: u8 = 0x7f;

/// An instruction that concerns the file: it has an operand of it, or is a call.
#[derive(Clone, Copy)]
pub(crate) struct Touch {
    /// Its place in its block.
    pub position: u32,
    pub inst: Inst,
    /// Whether it has tied operands, or operands at fixed places, of whatever file.
    pub has_tied: bool,
    pub has_fixed: bool,
    first: u32,
    first_defined: u32,
    end: u32,
}

/// Places in a list.
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

/// Liveness of the values of one file. Lists for blocks and instructions stand one behind the other; what is kept by value serves one file
/// after the other, because files share no values.
#[derive(Default)]
pub(crate) struct Liveness {
    touches: Vec<Touch>,
    touching: Vec<Span>,
    /// The values that each touching instruction reads, then those it writes; with the position of the next use behind it.
    operands: Vec<Value>,
    nexts: Vec<u32>,
    live: Vec<Value>,
    distance: Vec<u32>,
    live_in: Vec<Span>,
    /// By predecessor: what phis read at its end, with the blocks of the phis.
    phi_sources: Vec<(Block, Value)>,
    phi_spans: Vec<Span>,
    /// By block: the greatest number of registers that it needs at once, if nothing is dropped.
    pub pressure: Vec<u32>,
    /// By instruction: see [`Liveness::files_of`].
    files: Vec<u8>,
    defined_at: Vec<u32>,
    seen_in: Vec<u32>,
    /// [`NEVER`] for all values between uses of the list.
    nearest: Vec<u32>,
}

/// The source of a phi for a predecessor.
pub(crate) fn phi_source(function: &Function, phi: Inst, from: Block) -> oriole_ir::Operand {
    let mut pairs = function.sources(phi).chunks_exact(2);
    let pair = pairs.find(|pair| pair[1].kind == OperandKind::Block(from));
    pair.map_or(oriole_ir::Operand::new(OperandKind::Undefined), |pair| pair[0])
}

impl Liveness {
    /// Looks at the values of a file.
    pub fn look_at(&mut self, function: &Function, flow: &ControlFlow, file: File) -> Result<(), AllocateError> {
        let values = function.values.len();
        self.defined_at.resize(values, NO_BLOCK);
        self.seen_in.resize(values, NO_BLOCK);
        self.nearest.resize(values, NEVER);
        self.find_touches(function, flow, file);
        self.find_live(function, flow, file)?;
        self.measure(function, flow);
        self.look_ahead(function, flow);
        Ok(())
    }

    /// The instructions of a block that concern the file.
    pub fn touching(&self, block: Block) -> &[Touch] {
        &self.touches[self.touching[block.position()].range()]
    }

    /// All instructions that concern the file.
    pub fn touches(&self) -> &[Touch] {
        &self.touches
    }

    /// The values of the file that an instruction reads; none for phis, which read at the ends of other blocks.
    pub fn used(&self, touch: Touch) -> &[Value] {
        &self.operands[touch.first as usize..touch.first_defined as usize]
    }

    /// The values of the file that an instruction writes.
    pub fn defined(&self, touch: Touch) -> &[Value] {
        &self.operands[touch.first_defined as usize..touch.end as usize]
    }

    /// The positions of the next uses of what an instruction reads.
    pub fn nexts_of_used(&self, touch: Touch) -> &[u32] {
        &self.nexts[touch.first as usize..touch.first_defined as usize]
    }

    /// The positions of the next uses of what an instruction writes.
    pub fn nexts_of_defined(&self, touch: Touch) -> &[u32] {
        &self.nexts[touch.first_defined as usize..touch.end as usize]
    }

    /// Values that are live where a block starts, its phis excepted, in ascending order.
    pub fn live_in(&self, block: Block) -> &[Value] {
        &self.live[self.live_in[block.position()].range()]
    }

    /// Distance from the start of the block to the next use of each.
    pub fn distances(&self, block: Block) -> &[u32] {
        &self.distance[self.live_in[block.position()].range()]
    }

    fn find_touches(&mut self, function: &Function, flow: &ControlFlow, file: File) {
        self.touches.clear();
        self.operands.clear();
        self.touching.clear();
        self.touching.resize(function.blocks.len(), Span::default());
        for &block in &flow.order {
            let start = self.touches.len() as u32;
            for (position, &inst) in function.blocks[block].insts.iter().enumerate() {
                if self.files_of(function, inst) & 1 << file as u8 != 0 {
                    self.touch(function, position as u32, inst, file);
                }
            }
            self.touching[block.position()] = Span { start, end: self.touches.len() as u32 };
        }
    }

    /// The files that an instruction concerns, one bit each. What was allocated since it was looked at first counts as well.
    fn files_of(&mut self, function: &Function, inst: Inst) -> u8 {
        if inst.position() >= self.files.len() {
            self.files.resize(function.insts.len(), UNKNOWN);
        }
        let known = self.files[inst.position()];
        if known != UNKNOWN {
            return known;
        }
        let data = &function.insts[inst];
        let bit = |file: File| 1 << file as u8;
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

    fn touch(&mut self, function: &Function, position: u32, inst: Inst, file: File) {
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
        self.touches.push(Touch { position, inst, has_tied, has_fixed, first, first_defined, end });
    }

    fn find_live(&mut self, function: &Function, flow: &ControlFlow, file: File) -> Result<(), AllocateError> {
        let blocks = function.blocks.len();
        // (value, block): live at the start of the block (plain uses) or at its end (phi sources).
        let mut upward: Vec<(Value, (Block, bool))> = Vec::new();
        self.phi_sources.clear();
        self.phi_spans.clear();
        self.phi_spans.resize(blocks, Span::default());
        for &block in &flow.order {
            let number = block.position() as u32;
            for touch in &self.touches[self.touching[block.position()].range()] {
                for &value in &self.operands[touch.first as usize..touch.first_defined as usize] {
                    let at = value.position();
                    if self.defined_at[at] != number && self.seen_in[at] != number {
                        self.seen_in[at] = number;
                        upward.push((value, (block, false)));
                    }
                }
                for &value in &self.operands[touch.first_defined as usize..touch.end as usize] {
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
        let found = self.walk_up(function, flow, &upward)?;
        self.sort_by_block(blocks, &found);
        Ok(())
    }

    /// The blocks that values are live into, lower values first. Needs are given lower values first, too.
    fn walk_up(
        &self,
        function: &Function,
        flow: &ControlFlow,
        upward: &[(Value, (Block, bool))],
    ) -> Result<Vec<(Block, Value)>, AllocateError> {
        let mut found: Vec<(Block, Value)> = Vec::new();
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

    fn measure(&mut self, function: &Function, flow: &ControlFlow) {
        let mut first_use = vec![NEVER; self.live.len()];
        let mut nearest = std::mem::take(&mut self.nearest);
        for &block in &flow.order {
            for &touch in self.touching(block).iter().rev() {
                self.used(touch).iter().for_each(|value| nearest[value.position()] = touch.position);
            }
            let span = self.live_in[block.position()].range();
            for (use_, value) in first_use[span].iter_mut().zip(self.live_in(block)) {
                *use_ = nearest[value.position()];
            }
            for &touch in self.touching(block) {
                self.used(touch).iter().for_each(|value| nearest[value.position()] = NEVER);
            }
        }
        self.distance.clear();
        self.distance.extend(first_use.iter().map(|&use_| use_.min(FAR)));
        // The second round takes distances around loops into account.
        let rounds = if flow.loops.iter().any(Option::is_some) { 2 } else { 1 };
        for _ in 0..rounds {
            for &block in flow.order.iter().rev() {
                self.look_behind(function, flow, block, &mut nearest, |_| {});
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

    /// Writes the distances, from the start of a block, to uses behind it; tells of each value with one.
    fn look_behind(&self, function: &Function, flow: &ControlFlow, block: Block, nearest: &mut [u32], mut tell: impl FnMut(Value)) {
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

    /// Takes back what [`Liveness::look_behind`] wrote.
    fn forget(&self, flow: &ControlFlow, block: Block, nearest: &mut [u32]) {
        for &next in &flow.successors[block.position()] {
            self.live_in(next).iter().for_each(|value| nearest[value.position()] = NEVER);
        }
        for &(_, value) in &self.phi_sources[self.phi_spans[block.position()].range()] {
            nearest[value.position()] = NEVER;
        }
    }

    /// Finds the next uses of all operands and the pressure of all blocks.
    fn look_ahead(&mut self, function: &Function, flow: &ControlFlow) {
        self.nexts.clear();
        self.nexts.resize(self.operands.len(), NEVER);
        self.pressure.clear();
        self.pressure.resize(function.blocks.len(), 0);
        let mut upcoming = std::mem::take(&mut self.nearest);
        let width = |value: Value| u32::from(function.values[value].width);
        for &block in &flow.order {
            let mut now = 0;
            self.look_behind(function, flow, block, &mut upcoming, |value| now += width(value));
            let mut most = now;
            for touch in self.touches[self.touching[block.position()].range()].iter().rev() {
                let (used, defined) =
                    (touch.first as usize..touch.first_defined as usize, touch.first_defined as usize..touch.end as usize);
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
                    if std::mem::replace(&mut upcoming[value.position()], touch.position) == NEVER {
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
