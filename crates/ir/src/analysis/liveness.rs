//! Which values are needed where.
//!
//! A value is live where a path leads to a use of it on which it is not defined again. Phis read their sources at the ends of the
//! predecessors: a source is live out of the predecessor and not (for that) live into the phi's block. Phi results are defined at the
//! start of their block, so they are not live into it. A guarded result with a tied operand reads the old value; without one it is a
//! full definition. All this holds before SSA construction as well, where a value may have many definitions.
//!
//! The sets are found value by value, walking up from each use to the definitions (Boissinot et al., "Computing Liveness Sets for
//! SSA-Form Programs"): the cost is the size of the answer, and lists come out sorted because values are taken in order. What is found
//! goes into one list of blocks and values, which is then sorted by block.

use oriole_support::{Groups, Index, IndexVec, SparseSet};

use super::ControlFlow;
use crate::function::{Block, Function, Inst, Value};
use crate::instruction::Pseudo;
use crate::operand::OperandKind;

/// Live values at the boundaries of blocks.
#[derive(Clone, Debug)]
pub struct Liveness {
    live_in: Groups<Block, Value>,
    live_out: Groups<Block, Value>,
}

/// Where a value is needed from above.
#[derive(Clone, Copy)]
pub(crate) enum Need {
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
        let (needs, defined_in) = collect(function, wanted);
        let (blocks, values) = (function.blocks.len(), function.values.len());
        let (needs, defined_in) = (Groups::collect(values, &needs), Groups::collect(values, &defined_in));
        let mut walk = Walk::new(blocks);
        for value in function.values.indices() {
            let needs = needs.of(value);
            if !needs.is_empty() {
                walk.value(value, needs, defined_in.of(value), flow);
            }
        }
        Liveness { live_in: Groups::collect(blocks, &walk.live_in), live_out: Groups::collect(blocks, &walk.live_out) }
    }

    /// Values that are live at the start of a block, in ascending order.
    pub fn live_in(&self, block: Block) -> &[Value] {
        self.live_in.of(block)
    }

    /// Values that are live at the end of a block, in ascending order.
    pub fn live_out(&self, block: Block) -> &[Value] {
        self.live_out.of(block)
    }

    /// Whether a value is live at the start of a block.
    pub fn is_live_in(&self, block: Block, value: Value) -> bool {
        self.live_in.of(block).binary_search(&value).is_ok()
    }

    /// Whether a value is live at the end of a block.
    pub fn is_live_out(&self, block: Block, value: Value) -> bool {
        self.live_out.of(block).binary_search(&value).is_ok()
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
}

/// What is known of a block and the value being walked. Marks hold the number of the value (plus one) they were last set for, so
/// they need no clearing.
#[derive(Clone, Copy, Default)]
struct Marks {
    defines: u32,
    live_in: u32,
    live_out: u32,
}

/// The walk up from uses, and what it found.
pub(crate) struct Walk {
    marks: IndexVec<Block, Marks>,
    live_in: Vec<(Block, Value)>,
    live_out: Vec<(Block, Value)>,
    stack: Vec<Block>,
}

impl Walk {
    /// A walk over a function with so many blocks.
    pub fn new(blocks: usize) -> Walk {
        Walk { marks: IndexVec::filled(blocks, Marks::default()), live_in: Vec::new(), live_out: Vec::new(), stack: Vec::new() }
    }

    /// The blocks that a value is live into, in no order. Values are asked about in ascending order.
    pub fn live_in(&mut self, value: Value, needs: &[Need], defined_in: &[Block], flow: &ControlFlow) -> &[(Block, Value)] {
        self.live_in.clear();
        self.live_out.clear();
        self.value(value, needs, defined_in, flow);
        &self.live_in
    }

    fn value(&mut self, value: Value, needs: &[Need], defined_in: &[Block], flow: &ControlFlow) {
        let stamp = value.position() as u32 + 1;
        for &block in defined_in {
            self.marks[block].defines = stamp;
        }
        for &need in needs {
            match need {
                Need::Entry(block) => self.enter(value, stamp, block),
                Need::Exit(block) => self.leave(value, stamp, block),
            }
            while let Some(block) = self.stack.pop() {
                for &from in flow.predecessors(block) {
                    self.leave(value, stamp, from);
                }
            }
        }
    }

    /// Records that a value is live into a block; if that is news, the blocks in front of it are to be looked at.
    fn enter(&mut self, value: Value, stamp: u32, block: Block) {
        let marks = &mut self.marks[block];
        if marks.live_in != stamp {
            marks.live_in = stamp;
            self.live_in.push((block, value));
            self.stack.push(block);
        }
    }

    /// Records that a value is live out of a block, and into it unless it is defined there.
    fn leave(&mut self, value: Value, stamp: u32, block: Block) {
        let marks = &mut self.marks[block];
        if marks.live_out != stamp {
            marks.live_out = stamp;
            let is_defined = marks.defines == stamp;
            self.live_out.push((block, value));
            if !is_defined {
                self.enter(value, stamp, block);
            }
        }
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
