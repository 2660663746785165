//! Where values of one file are live, and how far away their next uses are.
//!
//! Sets are lists: the cost is their total size, not blocks times values. Distances count instructions along the shortest way;
//! leaving a loop counts as a long way, so that values the loop does not need look far away inside it. They guide the choice
//! of what to drop and need not be exact.

use oriole_ir::{Block, File, Function, Inst, OperandKind, Part, Pseudo, Value};
use oriole_support::Index;

use crate::AllocateError;
use crate::control_flow::ControlFlow;
use crate::operate::fixed_constant_file;

/// A distance: never used again.
pub(crate) const NEVER: u32 = u32::MAX;
const LOOP_EXIT: u32 = 100_000;
const FAR: u32 = 1 << 30;

/// Liveness of the values of one file.
pub(crate) struct Liveness {
    /// By block: its instructions, with their positions, that have an operand of the file.
    pub touching: Vec<Vec<(u32, Inst)>>,
    /// Values that are live where a block starts, its phis excepted, in ascending order.
    pub live_in: Vec<Vec<Value>>,
    /// Distance from the start of the block to the next use of each.
    pub distance: Vec<Vec<u32>>,
}

/// The value parts of a file that an instruction reads; none for phis, which read at the ends of other blocks.
pub(crate) fn used_in(function: &Function, inst: Inst, file: File) -> impl Iterator<Item = Part> + '_ {
    let is_phi = function.insts[inst].is(Pseudo::Phi);
    function.used(inst).filter(move |part| !is_phi && function.values[part.value].file == file)
}

/// The values of a file that an instruction writes.
pub(crate) fn defined_in(function: &Function, inst: Inst, file: File) -> impl Iterator<Item = Value> + '_ {
    function.defined(inst).filter(move |&value| function.values[value].file == file)
}

fn touches(function: &Function, inst: Inst, file: File) -> bool {
    if function.operands(inst).iter().any(|operand| fixed_constant_file(operand) == Some(file)) {
        return true;
    }
    let guard = function.insts[inst].guard.map(|guard| guard.kind);
    let mut kinds = function.operands(inst).iter().map(|operand| operand.kind).chain(guard);
    kinds.any(|kind| matches!(kind, OperandKind::Value(part) if function.values[part.value].file == file))
}

/// The source of a phi for a predecessor.
pub(crate) fn phi_source(function: &Function, phi: Inst, from: Block) -> oriole_ir::Operand {
    let mut pairs = function.sources(phi).chunks_exact(2);
    let pair = pairs.find(|pair| pair[1].kind == OperandKind::Block(from));
    pair.map_or(oriole_ir::Operand::new(OperandKind::Undefined), |pair| pair[0])
}

impl Liveness {
    /// Looks at the values of a file.
    pub fn of(function: &Function, flow: &ControlFlow, file: File) -> Result<Liveness, AllocateError> {
        let mut liveness = Liveness::sets(function, flow, file)?;
        liveness.measure(function, flow, file);
        Ok(liveness)
    }

    fn sets(function: &Function, flow: &ControlFlow, file: File) -> Result<Liveness, AllocateError> {
        let blocks = function.blocks.len();
        let mut touching: Vec<Vec<(u32, Inst)>> = vec![Vec::new(); blocks];
        for &block in &flow.order {
            let insts = function.blocks[block].insts.iter().enumerate().map(|(position, &inst)| (position as u32, inst));
            touching[block.position()] = insts.filter(|&(_, inst)| touches(function, inst, file)).collect();
        }
        let mut defined_at: Vec<Option<Block>> = vec![None; function.values.len()];
        // (value, block): live at the start of the block (plain uses) or at its end (phi sources).
        let mut upward: Vec<(Value, Block, bool)> = Vec::new();
        let mut seen_in: Vec<u32> = vec![u32::MAX; function.values.len()];
        for &block in &flow.order {
            for &(_, inst) in &touching[block.position()] {
                for part in used_in(function, inst, file) {
                    let seen = &mut seen_in[part.value.position()];
                    if defined_at[part.value.position()] != Some(block) && *seen != block.position() as u32 {
                        *seen = block.position() as u32;
                        upward.push((part.value, block, false));
                    }
                }
                for value in defined_in(function, inst, file) {
                    if defined_at[value.position()].replace(block).is_some() {
                        return Err(AllocateError::Invalid(format!("{value:?} is defined twice")));
                    }
                }
            }
            for &next in &flow.successors[block.position()] {
                for &phi in function.phis(next) {
                    if let OperandKind::Value(part) = phi_source(function, phi, block).kind
                        && function.values[part.value].file == file
                    {
                        upward.push((part.value, block, true));
                    }
                }
            }
        }
        upward.sort_by_key(|&(value, ..)| value);
        let mut live_in: Vec<Vec<Value>> = vec![Vec::new(); blocks];
        let mut stack = Vec::new();
        for (value, block, at_end) in upward {
            if at_end {
                if defined_at[value.position()] != Some(block) {
                    stack.push(block);
                }
            } else {
                stack.push(block);
            }
            while let Some(block) = stack.pop() {
                let list = &mut live_in[block.position()];
                if list.last() == Some(&value) {
                    continue;
                }
                list.push(value);
                if block == function.entry() || defined_at[value.position()].is_none() {
                    return Err(AllocateError::Invalid(format!("{value:?} is used where it is not defined")));
                }
                let predecessors = flow.predecessors[block.position()].iter();
                stack.extend(predecessors.filter(|from| defined_at[value.position()] != Some(**from)));
            }
        }
        Ok(Liveness { touching, live_in, distance: vec![Vec::new(); blocks] })
    }

    fn measure(&mut self, function: &Function, flow: &ControlFlow, file: File) {
        let mut first_use: Vec<Vec<u32>> = self.live_in.iter().map(|list| vec![NEVER; list.len()]).collect();
        let mut nearest = vec![NEVER; function.values.len()];
        for &block in &flow.order {
            let at = block.position();
            for &(position, inst) in self.touching[at].iter().rev() {
                for part in used_in(function, inst, file) {
                    nearest[part.value.position()] = position;
                }
            }
            for (use_, value) in first_use[at].iter_mut().zip(&self.live_in[at]) {
                *use_ = nearest[value.position()];
            }
            for &(_, inst) in &self.touching[at] {
                for part in used_in(function, inst, file) {
                    nearest[part.value.position()] = NEVER;
                }
            }
        }
        self.distance = first_use.iter().map(|list| list.iter().map(|&use_| use_.min(FAR)).collect()).collect();
        // The second round takes distances around loops into account.
        for _ in 0..2 {
            for &block in flow.order.iter().rev() {
                let at = block.position();
                let touched = self.at_end(function, flow, block, file, &mut nearest);
                for (number, value) in self.live_in[at].iter().enumerate() {
                    if first_use[at][number] == NEVER {
                        self.distance[at][number] = nearest[value.position()].min(FAR);
                    }
                }
                touched.into_iter().for_each(|value| nearest[value.position()] = NEVER);
            }
        }
    }

    /// Writes the distances, from the start of a block, to uses behind it; says which values it wrote.
    pub fn at_end(&self, function: &Function, flow: &ControlFlow, block: Block, file: File, nearest: &mut [u32]) -> Vec<Value> {
        let mut touched = Vec::new();
        let length = function.blocks[block].insts.len() as u32;
        for &next in &flow.successors[block.position()] {
            let leaves = flow.depth[next.position()] < flow.depth[block.position()];
            let way = length + if leaves { LOOP_EXIT } else { 0 };
            for (value, distance) in self.live_in[next.position()].iter().zip(&self.distance[next.position()]) {
                let known = &mut nearest[value.position()];
                if *known == NEVER {
                    touched.push(*value);
                }
                *known = (*known).min(distance.saturating_add(way).min(FAR));
            }
            for &phi in function.phis(next) {
                if let OperandKind::Value(part) = phi_source(function, phi, block).kind
                    && function.values[part.value].file == file
                {
                    let known = &mut nearest[part.value.position()];
                    if *known == NEVER {
                        touched.push(part.value);
                    }
                    *known = (*known).min(way.min(FAR));
                }
            }
        }
        touched
    }
}
