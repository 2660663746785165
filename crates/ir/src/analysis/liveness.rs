//! Which values are needed where.
//!
//! A value is live where a path leads to a use of it on which it is not defined again. Phis read their sources at the ends of the
//! predecessors: a source is live out of the predecessor and not (for that) live into the phi's block. Phi results are defined at the
//! start of their block, so they are not live into it. A guarded result with a tied operand reads the old value; without one it is a
//! full definition. All this holds before SSA construction as well, where a value may have many definitions.
//!
//! The sets are found value by value, walking up from each use to the definitions (Boissinot et al., "Computing Liveness Sets for
//! SSA-Form Programs"): the cost is the size of the answer, and lists come out sorted because values are taken in order.

use oriole_support::{Groups, Index, IndexVec, SparseSet};

use super::ControlFlow;
use crate::function::{Block, Function, Inst, Value};
use crate::instruction::Pseudo;
use crate::operand::OperandKind;

/// Live values at the boundaries of blocks.
#[derive(Clone, Debug)]
pub struct Liveness {
    live_in: IndexVec<Block, Vec<Value>>,
    live_out: IndexVec<Block, Vec<Value>>,
}

/// Where a value is needed from above.
#[derive(Clone, Copy)]
enum Need {
    /// At the start of a block.
    Entry(Block),
    /// At the end of a block.
    Exit(Block),
}

impl Liveness {
    /// Walks up from all uses.
    pub fn compute(function: &Function, flow: &ControlFlow) -> Liveness {
        Liveness::compute_for(function, flow, |_| true)
    }

    /// The same for the values that a test lets through; others are in no set.
    pub fn compute_for(function: &Function, flow: &ControlFlow, wanted: impl Fn(Value) -> bool) -> Liveness {
        let blocks = function.blocks.len();
        let values = function.values.len();
        let (needs, defined_in) = collect(function, wanted);
        let needs = Groups::collect(values, &needs);
        let defined_in = Groups::collect(values, &defined_in);
        let mut found = Liveness { live_in: IndexVec::filled(blocks, Vec::new()), live_out: IndexVec::filled(blocks, Vec::new()) };
        let mut defines: IndexVec<Block, u32> = IndexVec::filled(blocks, 0);
        let mut stack: Vec<Block> = Vec::new();
        for value in function.values.indices() {
            let stamp = value.position() as u32 + 1;
            for &block in defined_in.of(value) {
                defines[block] = stamp;
            }
            for &need in needs.of(value) {
                match need {
                    Need::Entry(block) => stack.extend(found.enter(value, block)),
                    Need::Exit(block) => {
                        if found.leave(value, block) && defines[block] != stamp {
                            stack.extend(found.enter(value, block));
                        }
                    }
                }
                while let Some(block) = stack.pop() {
                    for &from in flow.predecessors(block) {
                        if found.leave(value, from) && defines[from] != stamp {
                            stack.extend(found.enter(value, from));
                        }
                    }
                }
            }
        }
        found
    }

    /// Values that are live at the start of a block, in ascending order.
    pub fn live_in(&self, block: Block) -> &[Value] {
        &self.live_in[block]
    }

    /// Values that are live at the end of a block, in ascending order.
    pub fn live_out(&self, block: Block) -> &[Value] {
        &self.live_out[block]
    }

    /// Whether a value is live at the start of a block.
    pub fn is_live_in(&self, block: Block, value: Value) -> bool {
        self.live_in[block].binary_search(&value).is_ok()
    }

    /// Whether a value is live at the end of a block.
    pub fn is_live_out(&self, block: Block, value: Value) -> bool {
        self.live_out[block].binary_search(&value).is_ok()
    }

    /// Walks a block from its end to its start. The visitor sees each instruction and the values that are live just behind it; after
    /// the walk the set holds what is live in front of the block's first instruction, phi results still included.
    pub fn walk(&self, function: &Function, block: Block, live: &mut SparseSet<Value>, mut visit: impl FnMut(Inst, &SparseSet<Value>)) {
        live.clear();
        for &value in self.live_out(block) {
            live.insert(value);
        }
        for &inst in function.blocks[block].insts.iter().rev() {
            visit(inst, live);
            if !function.insts[inst].is(Pseudo::Phi) {
                walk_back(function, inst, live);
            }
        }
    }

    /// Records that a value is live into a block; gives the block back if that is news.
    fn enter(&mut self, value: Value, block: Block) -> Option<Block> {
        let list = &mut self.live_in[block];
        if list.last() == Some(&value) {
            return None;
        }
        list.push(value);
        Some(block)
    }

    fn leave(&mut self, value: Value, block: Block) -> bool {
        let list = &mut self.live_out[block];
        let is_new = list.last() != Some(&value);
        if is_new {
            list.push(value);
        }
        is_new
    }
}

/// Goes back over one instruction other than a phi: its results are not live in front of it, what it reads is.
pub fn walk_back(function: &Function, inst: Inst, live: &mut SparseSet<Value>) {
    for value in function.defined(inst) {
        live.remove(value);
    }
    for part in function.used(inst) {
        live.insert(part.value);
    }
}

type Needs = Vec<(Value, Need)>;

/// Uses that no definition in their block precedes, and the blocks that define each value.
fn collect(function: &Function, wanted: impl Fn(Value) -> bool) -> (Needs, Vec<(Value, Block)>) {
    let mut needs = Vec::new();
    let mut defined_in = Vec::new();
    let mut last_definition: IndexVec<Value, Option<Block>> = IndexVec::filled(function.values.len(), None);
    let mut last_need: IndexVec<Value, Option<Block>> = IndexVec::filled(function.values.len(), None);
    for &block in &function.layout {
        for &inst in &function.blocks[block].insts {
            if function.insts[inst].is(Pseudo::Phi) {
                for pair in function.sources(inst).chunks(2) {
                    if let [source, from] = pair
                        && let (Some(value), OperandKind::Block(from)) = (source.value(), from.kind)
                        && wanted(value)
                    {
                        needs.push((value, Need::Exit(from)));
                    }
                }
            } else {
                for part in function.used(inst) {
                    let value = part.value;
                    if last_definition[value] != Some(block) && last_need[value] != Some(block) && wanted(value) {
                        last_need[value] = Some(block);
                        needs.push((value, Need::Entry(block)));
                    }
                }
            }
            for value in function.defined(inst) {
                if last_definition[value] != Some(block) && wanted(value) {
                    last_definition[value] = Some(block);
                    defined_in.push((value, block));
                }
            }
        }
    }
    (needs, defined_in)
}
