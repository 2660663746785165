//! Functions: dense arenas of values, instructions, operands and blocks.

use oriole_isa::{Opcode, Symbols};
use oriole_support::{IndexVec, define_index};
use smallvec::SmallVec;

use crate::instruction::{Instruction, Op, Pseudo};
use crate::memory::{MemoryAccess, MemoryId};
use crate::operand::{Class, Guard, Operand, OperandKind, Part, Reference, ReferenceKind, Role};

define_index!(
    /// A virtual register: before SSA construction a variable.
    pub struct Value,
    "%"
);
define_index!(
    /// An instruction.
    pub struct Inst,
    "inst"
);
define_index!(
    /// A basic block.
    pub struct Block,
    "bb"
);

/// A place in the source: offset in the PTX text and, with line information, a position in the list of `.loc` directives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Location {
    /// Byte offset of the PTX statement, plus one; 0 if there is none.
    pub statement: u32,
    /// Number of the `.loc` directive in the body, plus one; 0 if there is none.
    pub line: u32,
}

/// What may call a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FunctionKind {
    /// The host launches it.
    Kernel,
    /// Other functions call it.
    Device,
}

/// A basic block.
#[derive(Clone, Default, Debug)]
pub struct BlockData {
    /// Instructions in order, phis first.
    pub insts: Vec<Inst>,
}

/// A function.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Kernel or device function.
    pub kind: FunctionKind,
    /// Whether each value has one definition that dominates its uses.
    pub is_ssa: bool,
    /// Classes of all values.
    pub values: IndexVec<Value, Class>,
    /// All instructions, also those no block has any more.
    pub insts: IndexVec<Inst, Instruction>,
    /// All blocks.
    pub blocks: IndexVec<Block, BlockData>,
    /// The blocks that are part of the function, in the order of the code; the first is the entry.
    pub layout: Vec<Block>,
    /// Memory accesses of instructions.
    pub accesses: IndexVec<MemoryId, MemoryAccess>,
    /// Names that references mean.
    pub symbols: Vec<String>,
    /// Bytes of local memory for variables, at the start of the frame; spills follow.
    pub frame_bytes: u32,
    /// Alignment of the frame in bytes.
    pub frame_align: u32,
    pub(crate) operands: Vec<Operand>,
}

impl Function {
    /// An empty function.
    pub fn new(name: impl Into<String>, kind: FunctionKind) -> Function {
        Function {
            name: name.into(),
            kind,
            is_ssa: false,
            values: IndexVec::new(),
            insts: IndexVec::new(),
            blocks: IndexVec::new(),
            layout: Vec::new(),
            accesses: IndexVec::new(),
            symbols: Vec::new(),
            frame_bytes: 0,
            frame_align: 4,
            operands: Vec::new(),
        }
    }

    /// The block the function starts with.
    pub fn entry(&self) -> Block {
        self.layout[0]
    }

    /// A new value.
    pub fn new_value(&mut self, class: Class) -> Value {
        self.values.push(class)
    }

    /// A new block that is not yet part of the layout.
    pub fn new_block(&mut self) -> Block {
        self.blocks.push(BlockData::default())
    }

    /// All of a value.
    pub fn whole(&self, value: Value) -> Part {
        Part { value, first: 0, count: self.values[value].width }
    }

    /// The position of a name in the list of symbols, to which it is added if needed.
    pub fn symbol(&mut self, name: &str) -> u32 {
        let position = self.symbols.iter().position(|known| known == name).unwrap_or_else(|| {
            self.symbols.push(name.to_owned());
            self.symbols.len() - 1
        });
        position as u32
    }

    /// A new instruction that no block has yet. The first `result_count` operands are written.
    pub fn new_inst(&mut self, op: Op, modifiers: Symbols, guard: Option<Guard>, operands: &[Operand], result_count: usize) -> Inst {
        let first = self.operands.len();
        self.operands.extend_from_slice(operands);
        self.inst_of_last(op, modifiers, guard, first, result_count)
    }

    /// A new instruction whose operands are those in the function's list from a position to its end.
    pub(crate) fn inst_of_last(&mut self, op: Op, modifiers: Symbols, guard: Option<Guard>, first: usize, result_count: usize) -> Inst {
        self.insts.push(Instruction {
            op,
            modifiers,
            guard,
            memory: None,
            location: Location::default(),
            first_operand: first as u32,
            operand_count: (self.operands.len() - first) as u32,
            result_count: result_count as u16,
        })
    }

    /// The operands of an instruction in the order of its text; those it writes come first.
    pub fn operands(&self, inst: Inst) -> &[Operand] {
        let data = &self.insts[inst];
        let start = data.first_operand as usize;
        &self.operands[start..start + data.operand_count as usize]
    }

    /// The operands of an instruction, to be changed in place.
    pub fn operands_mut(&mut self, inst: Inst) -> &mut [Operand] {
        let data = &self.insts[inst];
        let start = data.first_operand as usize;
        &mut self.operands[start..start + data.operand_count as usize]
    }

    /// The operands of an instruction, to be changed in place, and the classes of all values.
    pub fn operands_and_classes(&mut self, inst: Inst) -> (&mut [Operand], &IndexVec<Value, Class>) {
        let data = &self.insts[inst];
        let start = data.first_operand as usize;
        (&mut self.operands[start..start + data.operand_count as usize], &self.values)
    }

    /// What an instruction writes.
    pub fn results(&self, inst: Inst) -> &[Operand] {
        let data = &self.insts[inst];
        let start = data.first_operand as usize;
        &self.operands[start..start + usize::from(data.result_count)]
    }

    /// What an instruction reads, its guard excepted.
    pub fn sources(&self, inst: Inst) -> &[Operand] {
        self.sources_of(&self.insts[inst])
    }

    fn sources_of(&self, data: &Instruction) -> &[Operand] {
        let start = data.first_operand as usize;
        &self.operands[start + usize::from(data.result_count)..start + data.operand_count as usize]
    }

    /// What an instruction reads, to be changed in place.
    pub fn sources_mut(&mut self, inst: Inst) -> &mut [Operand] {
        let count = self.insts[inst].result_count();
        &mut self.operands_mut(inst)[count..]
    }

    /// Gives an instruction other operands.
    pub fn set_operands(&mut self, inst: Inst, operands: &[Operand], result_count: usize) {
        let fits = operands.len() <= self.insts[inst].operand_count as usize;
        if !fits {
            self.insts[inst].first_operand = self.operands.len() as u32;
            self.operands.extend_from_slice(operands);
        }
        self.insts[inst].operand_count = operands.len() as u32;
        self.insts[inst].result_count = result_count as u16;
        self.operands_mut(inst).copy_from_slice(operands);
    }

    /// Values an instruction writes.
    pub fn defined(&self, inst: Inst) -> impl Iterator<Item = Value> + '_ {
        self.results(inst).iter().filter_map(Operand::value)
    }

    /// Parts of values an instruction reads, tied ones and its guard included; for a phi those at the ends of its predecessors.
    pub fn used(&self, inst: Inst) -> impl Iterator<Item = Part> + '_ {
        let data = &self.insts[inst];
        let guard = match &data.guard {
            Some(Guard { kind: OperandKind::Value(part), .. }) => Some(*part),
            _ => None,
        };
        self.sources_of(data).iter().filter_map(Operand::part).chain(guard)
    }

    /// The name of the function that an instruction calls, unless it does so through a register.
    pub fn callee(&self, inst: Inst) -> Option<&str> {
        let name = |operand: &Operand| match operand.kind {
            OperandKind::Reference(Reference { kind: ReferenceKind::Call, symbol, .. }) => Some(self.symbols[symbol as usize].as_str()),
            _ => None,
        };
        self.sources(inst).iter().find_map(name)
    }

    /// The operand that shares the register of a result.
    pub fn tied_to(&self, inst: Inst, result: usize) -> Option<&Operand> {
        self.sources(inst).iter().find(|operand| operand.role == Role::Tied(result as u8))
    }

    /// The blocks that may follow a block, in the order of its branches.
    pub fn successors(&self, block: Block) -> SmallVec<[Block; 2]> {
        let mut found = SmallVec::new();
        for &inst in self.terminators(block) {
            if !matches!(self.insts[inst].op, Op::Machine(Opcode::BRA | Opcode::BRX)) {
                continue;
            }
            for operand in self.operands(inst) {
                if let OperandKind::Block(target) = operand.kind {
                    found.push(target);
                }
            }
        }
        found
    }

    /// The instructions a block ends with: a guarded branch, if there is one, and what follows it.
    pub fn terminators(&self, block: Block) -> &[Inst] {
        let insts = &self.blocks[block].insts;
        let is_guarded_branch = |inst: Inst| self.insts[inst].is_machine(Opcode::BRA) && self.insts[inst].guard.is_some();
        match insts.as_slice() {
            [.., before, _] if is_guarded_branch(*before) => &insts[insts.len() - 2..],
            [.., _] => &insts[insts.len() - 1..],
            [] => insts,
        }
    }

    /// The phis a block starts with.
    pub fn phis(&self, block: Block) -> &[Inst] {
        let insts = &self.blocks[block].insts;
        let end = insts.iter().position(|&inst| !self.insts[inst].is(Pseudo::Phi)).unwrap_or(insts.len());
        &insts[..end]
    }

    /// The number of instructions in all blocks of the layout.
    pub fn inst_count(&self) -> usize {
        self.layout.iter().map(|&block| self.blocks[block].insts.len()).sum()
    }
}
