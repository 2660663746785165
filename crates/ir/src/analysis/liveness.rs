//! Liveness: the values that are live at the start and at the end of each block.
//!
//! A value is live at a point if a path leads from there to a use without passing a definition. A phi reads its sources at the ends of the
//! predecessors: a source is live out of the predecessor, but not (because of the phi) live into the phi's block. The result of a phi is
//! defined at the start of its block, so it is not live into it. A guarded result with a tied operand reads the old value; without one it
//! is a full definition. All this also holds before SSA construction, when a value may have several definitions.
//!
//! The sets are computed value by value, walking backwards from each use to the definitions (Brandner et al. 2011, "Computing Liveness
//! Sets for SSA-Form Programs"). The cost is proportional to the size of the result. The lists are sorted because values are processed in
//! ascending order. The live-out set of a block is the union of the live-in sets of its successors and of the sources that their phis read
//! there; a block whose only successor has no phis shares the list of that successor.
//!
//! Example: `bb0` defines `%1` and branches to `bb1`; `bb1` starts with `%2 = PHI %1, bb0, %3, bb1`, defines `%3` and branches to itself
//! or exits. Then `%1` is live out of `bb0`, `%3` is live out of `bb1`, and nothing is live into `bb1`.

use oriole_support::{Index, IndexVec, SparseSet};

use super::ControlFlow;
use crate::function::Function;
use crate::ids::{Block, Inst, Value};
use crate::instruction::Pseudo;
use crate::operand::OperandKind;

/// The values that are live at the boundaries of blocks.
#[derive(Clone, Debug)]
pub struct Liveness {
    /// All lists, concatenated.
    values: Vec<Value>,
    live_in: IndexVec<Block, ValueRange>,
    live_out: IndexVec<Block, ValueRange>,
}

/// A list of values: a range of [`Liveness::values`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct ValueRange {
    start: u32,
    end: u32,
}

impl ValueRange {
    #[inline]
    fn of(self, values: &[Value]) -> &[Value] {
        &values[self.start as usize..self.end as usize]
    }
}

/// A point at which a value must be available: the place of an upward-exposed use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// The start of a block.
    Entry(Block),
    /// The end of a block.
    Exit(Block),
}

/// Stands for no value or block.
const NONE: u32 = u32::MAX;

/// The values that are live at the start of each block. A caller that has collected the uses of a function in SSA form can compute these
/// lists alone; [`Liveness`] also scans the instructions and has the lists for the ends of blocks.
#[derive(Clone, Default, Debug)]
pub struct LiveIn {
    /// All lists, concatenated.
    values: Vec<Value>,
    spans: IndexVec<Block, ValueRange>,
}

impl LiveIn {
    /// Computes the lists of a function in SSA form with this number of blocks. `needs` are the upward-exposed uses: those not preceded by
    /// the definition in their block. `defined_in` returns the block that defines a value.
    pub fn compute(blocks: usize, flow: &ControlFlow, needs: &mut [(Value, Need)], defined_in: impl Fn(Value) -> Option<Block>) -> LiveIn {
        needs.sort_unstable_by_key(|need| need.0);
        let mut walk = LivenessWalk::new(blocks);
        for needs in needs.chunk_by(|one, other| one.0 == other.0) {
            let value = needs[0].0;
            if let Some(block) = defined_in(value) {
                walk.define(value, block);
            }
            walk.value(value, needs.iter().map(|need| need.1), flow);
        }
        LiveIn::from_pairs(blocks, &walk.live_in, 0)
    }

    /// Builds the lists from pairs that are sorted by value, by a counting sort that keeps this order. Reserves space for `spare` values
    /// more.
    fn from_pairs(blocks: usize, pairs: &[(Block, Value)], spare: usize) -> LiveIn {
        let mut spans: IndexVec<Block, ValueRange> = IndexVec::filled(blocks, ValueRange::default());
        // `end` first counts the values of each block, then serves as the position for the next value.
        for &(block, _) in pairs {
            spans[block].end += 1;
        }
        let mut start = 0;
        for span in spans.iter_mut() {
            let count = std::mem::replace(&mut span.end, start);
            span.start = start;
            start += count;
        }
        let mut values = Vec::with_capacity(pairs.len() + spare);
        values.resize(pairs.len(), Value::new(0));
        for &(block, value) in pairs {
            let span = &mut spans[block];
            values[span.end as usize] = value;
            span.end += 1;
        }
        LiveIn { values, spans }
    }

    /// Returns the values that are live at the start of a block, in ascending order.
    #[inline]
    pub fn of(&self, block: Block) -> &[Value] {
        self.spans[block].of(&self.values)
    }

    /// Returns the positions of a block's list in [`LiveIn::all`], for callers that keep a fact about each entry.
    #[inline]
    pub fn range(&self, block: Block) -> std::ops::Range<usize> {
        self.spans[block].start as usize..self.spans[block].end as usize
    }

    /// Returns the lists of all blocks, one after the other.
    pub fn all(&self) -> &[Value] {
        &self.values
    }
}

impl Liveness {
    /// Computes the liveness of all values.
    pub fn compute(function: &Function, flow: &ControlFlow) -> Liveness {
        Liveness::compute_for(function, flow, |_| true)
    }

    /// Computes the liveness of the values for which `wanted` holds; other values are in no set.
    pub fn compute_for(function: &Function, flow: &ControlFlow, wanted: impl Fn(Value) -> bool) -> Liveness {
        let blocks = function.blocks.len();
        let Collected { mut needs, definitions, mut earlier_definitions, mut read_by_phis } = collect(function, wanted);
        needs.sort_unstable_by_key(|need| need.0);
        earlier_definitions.sort_unstable();
        let mut earlier = earlier_definitions.as_slice();
        let mut walk = LivenessWalk::new(blocks);
        walk.live_in.reserve(2 * needs.len());
        for needs in needs.chunk_by(|one, other| one.0 == other.0) {
            let value = needs[0].0;
            if definitions[value] != NONE {
                walk.define(value, Block::new(definitions[value] as usize));
            }
            earlier = &earlier[earlier.iter().take_while(|definition| definition.0 < value).count()..];
            for &(_, block) in earlier.iter().take_while(|definition| definition.0 == value) {
                walk.define(value, block);
            }
            walk.value(value, needs.iter().map(|need| need.1), flow);
        }
        read_by_phis.sort_unstable();
        read_by_phis.dedup();
        Liveness::from_entries(blocks, flow, &walk.live_in, &read_by_phis)
    }

    /// Builds the lists. `entered` contains the live-in pairs, lower values first; `read_by_phis` the values that phis read at the ends of
    /// blocks, sorted.
    fn from_entries(blocks: usize, flow: &ControlFlow, entered: &[(Block, Value)], read_by_phis: &[(Block, Value)]) -> Liveness {
        let LiveIn { mut values, spans: live_in } = LiveIn::from_pairs(blocks, entered, entered.len() + read_by_phis.len());
        let mut live_out: IndexVec<Block, ValueRange> = IndexVec::filled(blocks, ValueRange::default());
        let mut read = read_by_phis;
        for block in live_in.indices() {
            let (here, later) = read.split_at(read.iter().take_while(|pair| pair.0 == block).count());
            read = later;
            live_out[block] = match *flow.successors(block) {
                [next] if here.is_empty() => live_in[next],
                [] | [_] | [_, _] => {
                    let start = values.len() as u32;
                    values.extend(here.iter().map(|pair| pair.1));
                    let read = ValueRange { start, end: values.len() as u32 };
                    flow.successors(block).iter().fold(read, |span, &next| merge(&mut values, span, live_in[next]))
                }
                ref successors => {
                    let start = values.len();
                    let mut list: Vec<Value> = here.iter().map(|pair| pair.1).collect();
                    successors.iter().for_each(|&next| list.extend_from_slice(live_in[next].of(&values)));
                    // `list` is a concatenation of a few sorted lists, which the stable merge sort handles in nearly linear time.
                    list.sort();
                    list.dedup();
                    values.append(&mut list);
                    ValueRange { start: start as u32, end: values.len() as u32 }
                }
            };
        }
        Liveness { values, live_in, live_out }
    }

    /// Returns the values that are live at the start of a block, in ascending order.
    pub fn live_in(&self, block: Block) -> &[Value] {
        self.live_in[block].of(&self.values)
    }

    /// Returns the values that are live at the end of a block, in ascending order.
    pub fn live_out(&self, block: Block) -> &[Value] {
        self.live_out[block].of(&self.values)
    }

    /// Returns whether a value is live at the start of a block.
    pub fn is_live_in(&self, block: Block, value: Value) -> bool {
        self.live_in(block).binary_search(&value).is_ok()
    }

    /// Returns whether a value is live at the end of a block.
    pub fn is_live_out(&self, block: Block, value: Value) -> bool {
        self.live_out(block).binary_search(&value).is_ok()
    }

    /// Walks over a block from its end to its start. The visitor receives each instruction and the values that are live directly after it.
    /// At the end of the walk `live` holds the values that are live before the first instruction, plus the results of phis.
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

/// Marks of a block: the number of the value that it was last found to define, and of the value that was last found live into it. The
/// marks need no clearing, since values are processed one after the other.
#[derive(Clone, Copy)]
struct BlockMarks {
    defines: u32,
    live_in: u32,
}

/// The backward walk from uses, and its results. Values must be processed in ascending order.
pub(crate) struct LivenessWalk {
    marks: IndexVec<Block, BlockMarks>,
    /// The live-in pairs found so far.
    live_in: Vec<(Block, Value)>,
    /// Blocks whose predecessors still have to be visited.
    stack: Vec<Block>,
}

impl LivenessWalk {
    /// Creates a walk over a function with this number of blocks.
    pub fn new(blocks: usize) -> LivenessWalk {
        let nothing = BlockMarks { defines: NONE, live_in: NONE };
        LivenessWalk { marks: IndexVec::filled(blocks, nothing), live_in: Vec::new(), stack: Vec::new() }
    }

    /// Returns the blocks that a value is live into, in no particular order.
    pub fn live_in(&mut self, value: Value, needs: &[Need], defined_in: &[Block], flow: &ControlFlow) -> &[(Block, Value)] {
        self.live_in.clear();
        defined_in.iter().for_each(|&block| self.define(value, block));
        self.value(value, needs.iter().copied(), flow);
        &self.live_in
    }

    /// Records that a block defines a value.
    fn define(&mut self, value: Value, block: Block) {
        self.marks[block].defines = value.position() as u32;
    }

    /// Finds the blocks that a value is live into.
    fn value(&mut self, value: Value, needs: impl Iterator<Item = Need>, flow: &ControlFlow) {
        let number = value.position() as u32;
        for need in needs {
            match need {
                Need::Entry(block) => self.enter(value, number, block),
                Need::Exit(block) if self.marks[block].defines == number => {}
                Need::Exit(block) => self.enter(value, number, block),
            }
        }
        while let Some(block) = self.stack.pop() {
            for &from in flow.predecessors(block) {
                if self.marks[from].defines != number {
                    self.enter(value, number, from);
                }
            }
        }
    }

    /// Records that a value is live into a block. If that is new, schedules the predecessors of the block.
    fn enter(&mut self, value: Value, number: u32, block: Block) {
        if std::mem::replace(&mut self.marks[block].live_in, number) != number {
            self.live_in.push((block, value));
            self.stack.push(block);
        }
    }
}

/// Merges two sorted lists into one at the end of `values`.
fn merge(values: &mut Vec<Value>, first: ValueRange, second: ValueRange) -> ValueRange {
    if first.start == first.end {
        return second;
    }
    if first == second || second.start == second.end {
        return first;
    }
    let start = values.len() as u32;
    let (mut one, mut other) = (first.start, second.start);
    while one < first.end && other < second.end {
        let (a, b) = (values[one as usize], values[other as usize]);
        values.push(a.min(b));
        one += u32::from(a <= b);
        other += u32::from(b <= a);
    }
    values.extend_from_within(one as usize..first.end as usize);
    values.extend_from_within(other as usize..second.end as usize);
    ValueRange { start, end: values.len() as u32 }
}

/// Updates a live set across one instruction, other than a phi, backwards: removes its results, then adds its sources.
pub fn walk_back(function: &Function, inst: Inst, live: &mut SparseSet<Value>) {
    for value in function.defined(inst) {
        live.remove(value);
    }
    for part in function.used(inst) {
        live.insert(part.value);
    }
}

/// The uses and definitions of a function that liveness needs.
struct Collected {
    /// Uses that are not preceded by a definition in their block.
    needs: Vec<(Value, Need)>,
    /// The last block in layout order that defines each value; [`NONE`] if none does.
    definitions: IndexVec<Value, u32>,
    /// The other blocks that define values; empty in SSA form.
    earlier_definitions: Vec<(Value, Block)>,
    /// The values that phis read at the ends of blocks.
    read_by_phis: Vec<(Block, Value)>,
}

/// Scans all instructions for uses and definitions.
fn collect(function: &Function, wanted: impl Fn(Value) -> bool) -> Collected {
    let values = function.values.len();
    let (mut needs, mut earlier_definitions, mut read_by_phis) = (Vec::with_capacity(values), Vec::new(), Vec::new());
    let mut definitions: IndexVec<Value, u32> = IndexVec::filled(values, NONE);
    let mut last_need: IndexVec<Value, u32> = IndexVec::filled(values, NONE);
    for &block in &function.layout {
        let number = block.position() as u32;
        for &inst in &function.blocks[block].insts {
            if function.insts[inst].is(Pseudo::Phi) {
                for pair in function.sources(inst).chunks(2) {
                    if let [source, from] = pair
                        && let (Some(value), OperandKind::Block(from)) = (source.value(), from.kind)
                        && wanted(value)
                    {
                        needs.push((value, Need::Exit(from)));
                        read_by_phis.push((from, value));
                    }
                }
            } else {
                for part in function.used(inst) {
                    let value = part.value;
                    if definitions[value] != number && last_need[value] != number && wanted(value) {
                        last_need[value] = number;
                        needs.push((value, Need::Entry(block)));
                    }
                }
            }
            for value in function.defined(inst) {
                if definitions[value] != number && wanted(value) {
                    let earlier = std::mem::replace(&mut definitions[value], number);
                    if earlier != NONE {
                        earlier_definitions.push((value, Block::new(earlier as usize)));
                    }
                }
            }
        }
    }
    Collected { needs, definitions, earlier_definitions, read_by_phis }
}
