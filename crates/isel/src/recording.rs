//! Recordings of selected library functions, which can be emitted again without repeating selection.
//!
//! The code selected for the body of a library function depends on the target only: arguments are passed in variables of the body, and the
//! body refers to nothing outside. So a further use of the function copies the recorded code with new values and blocks, in the same
//! numbering that selection would produce; the output is the same either way. A recording is made at the second use of a function, and
//! kept per thread.

use std::sync::Arc;

use oriole_ir::{Block, Builder, Class, Function, Guard, Inst, Op, Operand, OperandKind, Part, Value};
use oriole_isa::Symbols;
use oriole_support::Index;
use smallvec::SmallVec;

/// The code of a library function body. Values are numbered from zero, arguments first. Blocks are numbered from zero: [`START`],
/// [`AFTER`], then the blocks of the body.
pub(crate) struct Recording {
    /// The register classes of the argument variables.
    pub arguments: Vec<Class>,
    /// The variables that hold the results.
    results: Vec<Value>,
    /// Whether the body has branches and ends by jumping to the block after it.
    pub has_branches: bool,
    /// The register classes of the body's own values.
    values: Vec<Class>,
    /// The number of the body's own blocks.
    block_count: usize,
    /// The body's own blocks in layout order.
    layout: Vec<Block>,
    /// The index in `layout` at which the slow path starts; `None` if there is none.
    pub slow_from: Option<usize>,
    /// The instructions in the order of their numbers.
    insts: Vec<RecordedInst>,
}

/// Number of the block in which the body starts.
const START: usize = 0;
/// Number of the block after the body.
const AFTER: usize = 1;
/// Number of the first block that belongs to the body only.
const OWN_BLOCKS: usize = 2;

/// One recorded instruction, with the block that contains it.
struct RecordedInst {
    block: Block,
    op: Op,
    modifiers: Symbols,
    guard: Option<Guard>,
    operands: SmallVec<[Operand; 8]>,
    result_count: usize,
    may_contract: bool,
}

/// The state of a function before a body was selected: its current block and the sizes of its tables.
pub(crate) struct FunctionMark {
    start: Block,
    values: usize,
    blocks: usize,
    insts: usize,
    layout: usize,
}

impl FunctionMark {
    /// Captures the current state of a function.
    pub fn of(builder: &Builder) -> FunctionMark {
        let function = &builder.function;
        FunctionMark {
            start: builder.block(),
            values: function.values.len(),
            blocks: function.blocks.len(),
            insts: function.insts.len(),
            layout: function.layout.len(),
        }
    }

    /// Returns the blocks that were added to the layout of the function since then.
    pub fn own_blocks<'f>(&self, function: &'f Function) -> &'f [Block] {
        &function.layout[self.layout..]
    }
}

impl Recording {
    /// Records the code emitted since `mark`. The body jumps to the block `after` at its end, and its slow path starts at its block
    /// `slow_from`, if it has them. Returns `None` if the code refers to values or blocks outside of the body, or accesses memory.
    pub fn new(
        function: &Function,
        mark: &FunctionMark,
        arguments: &[Value],
        results: &[Value],
        (after, slow_from): (Option<Block>, Option<usize>),
    ) -> Option<Recording> {
        let value = |value: Value| match value.position().checked_sub(mark.values) {
            Some(own) => Some(Value::new(arguments.len() + own)),
            None => arguments.iter().position(|&argument| argument == value).map(Value::new),
        };
        let block = |block: Block| match block.position().checked_sub(mark.blocks) {
            Some(own) => Some(Block::new(OWN_BLOCKS + own)),
            None if block == mark.start => Some(Block::new(START)),
            None => (Some(block) == after).then(|| Block::new(AFTER)),
        };
        let owners = owners(function, mark)?;
        let insts = owners.iter().enumerate().map(|(number, &owner)| {
            let inst = Inst::new(mark.insts + number);
            let data = &function.insts[inst];
            let guard = match data.guard {
                Some(guard) => Some(Guard { kind: renumbered(guard.kind, value, block)?, ..guard }),
                None => None,
            };
            let operands =
                function.operands(inst).iter().map(|operand| Some(Operand { kind: renumbered(operand.kind, value, block)?, ..*operand }));
            (data.memory.is_none()).then_some(RecordedInst {
                block: block(owner)?,
                op: data.op,
                modifiers: data.modifiers.clone(),
                guard,
                operands: operands.collect::<Option<_>>()?,
                result_count: data.result_count(),
                may_contract: data.may_contract,
            })
        });
        Some(Recording {
            insts: insts.collect::<Option<_>>()?,
            arguments: arguments.iter().map(|&argument| function.values[argument]).collect(),
            results: results.iter().map(|&result| value(result)).collect::<Option<_>>()?,
            has_branches: after.is_some(),
            values: function.values.as_slice()[mark.values..].to_vec(),
            block_count: function.blocks.len() - mark.blocks,
            layout: mark.own_blocks(function).iter().map(|&own| block(own)).collect::<Option<_>>()?,
            slow_from,
        })
    }

    /// Emits the body at the current position of the builder, without guard. Returns the variables that hold the results.
    pub fn write(&self, builder: &mut Builder, arguments: &[Value], after: Option<Block>) -> Vec<Value> {
        let (first_value, first_block) = (builder.function.values.len(), builder.function.blocks.len());
        for &class in &self.values {
            builder.value(class);
        }
        for _ in 0..self.block_count {
            builder.new_block();
        }
        let start = builder.block();
        let value = |value: Value| match value.position().checked_sub(arguments.len()) {
            Some(own) => Some(Value::new(first_value + own)),
            None => Some(arguments[value.position()]),
        };
        let block = |block: Block| match block.position() {
            START => Some(start),
            AFTER => after,
            own => Some(Block::new(first_block + own - OWN_BLOCKS)),
        };
        let kind = |kind: OperandKind| renumbered(kind, value, block).expect("a recording has its own values and blocks only");
        let saved = builder.guard;
        let mut operands: SmallVec<[Operand; 12]> = SmallVec::new();
        for recorded in &self.insts {
            operands.clear();
            operands.extend(recorded.operands.iter().map(|operand| Operand { kind: kind(operand.kind), ..*operand }));
            builder.guard = recorded.guard.map(|guard| Guard { kind: kind(guard.kind), ..guard });
            builder.swap_block(block(recorded.block).unwrap_or(start));
            builder.append(recorded.op, Symbols::from_slice(&recorded.modifiers), &operands, recorded.result_count);
            if recorded.may_contract {
                builder.allow_contraction();
            }
        }
        builder.guard = saved;
        builder.swap_block(start);
        builder.function.layout.extend(self.layout.iter().filter_map(|&own| block(own)));
        self.results.iter().filter_map(|&result| value(result)).collect()
    }
}

/// Returns the block of each instruction emitted since `mark`. Returns `None` if one of them is in another block, or if the
/// instructions of a block are not in ascending order.
fn owners(function: &Function, mark: &FunctionMark) -> Option<Vec<Block>> {
    let mut owners: Vec<Option<Block>> = vec![None; function.insts.len() - mark.insts];
    let own = (mark.blocks..function.blocks.len()).map(Block::new);
    for block in std::iter::once(mark.start).chain(own) {
        let insts = &function.blocks[block].insts;
        let new = &insts[insts.partition_point(|inst| inst.position() < mark.insts)..];
        if !insts.is_sorted() {
            return None;
        }
        for inst in new {
            owners[inst.position() - mark.insts] = Some(block);
        }
    }
    owners.into_iter().collect()
}

/// Renumbers the value or block in an operand; `None` if it is not part of the recording, or if the operand is a symbol reference.
fn renumbered(kind: OperandKind, value: impl Fn(Value) -> Option<Value>, block: impl Fn(Block) -> Option<Block>) -> Option<OperandKind> {
    Some(match kind {
        OperandKind::Value(part) => OperandKind::Value(Part { value: value(part.value)?, ..part }),
        OperandKind::Block(target) => OperandKind::Block(block(target)?),
        OperandKind::Reference(_) => return None,
        other => other,
    })
}

/// What is known about a library function on a target.
#[derive(Clone)]
pub(crate) enum RecordingState {
    /// It has not been used yet.
    Nothing,
    /// It has been used, but was not recorded.
    UsedOnce,
    /// Its recorded code.
    Code(Arc<Recording>),
}
