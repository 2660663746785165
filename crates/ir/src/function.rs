//! Functions: dense tables of values, instructions, operands and blocks.

use oriole_isa::{Opcode, Symbols};
use oriole_support::IndexVec;
use smallvec::SmallVec;

use crate::ids::{Block, Inst, Location, Value};
use crate::instruction::{Instruction, Op, Pseudo};
use crate::memory::{MemoryAccess, MemoryId};
use crate::operand::{Class, Guard, Operand, OperandKind, Part, Reference, ReferenceKind, Role};

/// The start of the names of functions that compute the slow path of an operation; see [`Function::calls_slow_path`].
pub const SLOW_PATH_PREFIX: &str = "__oriole_slow_";

/// The start of the names of functions in which threads of a diverged warp meet to execute a warp operation together, such as a shuffle.
pub const WARP_OPERATION_PREFIX: &str = "__oriole_warp_";

/// The general register of the first argument and the first result of a call.
pub const FIRST_ARGUMENT_REGISTER: u8 = 4;

/// Number of operands of a typical instruction.
const TYPICAL_OPERANDS: usize = 3;

/// Whether a function is launched by the host or called by other functions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FunctionKind {
    /// Launched by the host (`.entry`).
    Kernel,
    /// Called by other functions (`.func`).
    Device,
}

/// A basic block.
#[derive(Clone, Default, Debug)]
pub struct BlockData {
    /// Instructions in execution order; phis come first.
    pub insts: Vec<Inst>,
    /// Whether the loop with this header must not be unrolled (`.pragma "nounroll"`).
    pub no_unroll: bool,
}

/// A function.
#[derive(Debug)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Kernel or device function.
    pub kind: FunctionKind,
    /// Whether the function is in SSA form: each value has one definition that dominates its uses.
    pub is_ssa: bool,
    /// The register class of each value.
    pub values: IndexVec<Value, Class>,
    /// All instructions, including those that are no longer in any block.
    pub insts: IndexVec<Inst, Instruction>,
    /// All blocks, including those that are not in the layout.
    pub blocks: IndexVec<Block, BlockData>,
    /// The blocks that belong to the function, in code order; the first is the entry block.
    pub layout: Vec<Block>,
    /// Descriptions of the memory accesses of instructions.
    pub accesses: IndexVec<MemoryId, MemoryAccess>,
    /// The symbol names that references refer to.
    pub symbols: Vec<String>,
    /// Size of the variables in the frame (local memory), in bytes; spill slots follow after them.
    pub frame_bytes: u32,
    /// Alignment of the frame in bytes.
    pub frame_align: u32,
    /// The operands of all instructions; each instruction refers to a range of this list.
    pub(crate) operands: Vec<Operand>,
}

impl Clone for Function {
    fn clone(&self) -> Function {
        let mut insts = IndexVec::new();
        insts.reserve(with_room(self.insts.len()));
        self.insts.iter().for_each(|data| _ = insts.push(data.clone()));
        let mut operands = Vec::with_capacity(with_room(self.operands.len()));
        operands.extend_from_slice(&self.operands);
        Function {
            name: self.name.clone(),
            values: self.values.clone(),
            insts,
            blocks: self.blocks.clone(),
            layout: self.layout.clone(),
            accesses: self.accesses.clone(),
            symbols: self.symbols.clone(),
            operands,
            ..*self
        }
    }
}

/// Returns the capacity for a table with `length` elements that may grow a little before it has to be moved. Most copies of a function are
/// made for a pass that adds instructions.
pub(crate) fn with_room(length: usize) -> usize {
    length + length / 4
}

impl Function {
    /// Creates an empty function.
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

    /// Reserves memory for `additional` more instructions with a typical number of operands.
    pub fn reserve_insts(&mut self, additional: usize) {
        self.insts.reserve(additional);
        self.operands.reserve(additional * TYPICAL_OPERANDS);
    }

    /// Returns the entry block.
    pub fn entry(&self) -> Block {
        self.layout[0]
    }

    /// Creates a value.
    pub fn new_value(&mut self, class: Class) -> Value {
        self.values.push(class)
    }

    /// Creates a block that is not in the layout yet.
    pub fn new_block(&mut self) -> Block {
        self.blocks.push(BlockData::default())
    }

    /// Returns all registers of a value.
    #[inline]
    pub fn whole(&self, value: Value) -> Part {
        Part { value, first: 0, count: self.values[value].width }
    }

    /// Returns whether registers of a value can replace a whole value of a class: same register file, same number, sufficient alignment.
    pub(crate) fn can_stand_for(&self, part: Part, class: Class) -> bool {
        let base = self.values[part.value];
        let is_aligned = base.align.is_multiple_of(class.align) && part.first.is_multiple_of(class.align);
        base.file == class.file && part.count == class.width && is_aligned
    }

    /// Returns the position of a name in the list of symbols; adds the name if it is missing. Linear search; [`crate::Builder::symbol`] is
    /// faster.
    pub fn symbol(&mut self, name: &str) -> u32 {
        let position = self.symbols.iter().position(|known| known == name).unwrap_or_else(|| {
            self.symbols.push(name.to_owned());
            self.symbols.len() - 1
        });
        position as u32
    }

    /// Creates an instruction that is not in any block yet. The first `result_count` operands are written.
    pub fn new_inst(&mut self, op: Op, modifiers: Symbols, guard: Option<Guard>, operands: &[Operand], result_count: usize) -> Inst {
        let first = self.operands.len();
        self.operands.extend_from_slice(operands);
        self.inst_of_last(op, modifiers, guard, first, result_count)
    }

    /// Creates an instruction whose operands are those of the function's operand list from position `first` to its end.
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
            may_contract: false,
        })
    }

    /// Returns the operands of an instruction in syntax order; written operands come first.
    #[inline]
    pub fn operands(&self, inst: Inst) -> &[Operand] {
        let data = &self.insts[inst];
        let start = data.first_operand as usize;
        &self.operands[start..start + data.operand_count as usize]
    }

    /// Returns the operands of an instruction for modification.
    #[inline]
    pub fn operands_mut(&mut self, inst: Inst) -> &mut [Operand] {
        let data = &self.insts[inst];
        let start = data.first_operand as usize;
        &mut self.operands[start..start + data.operand_count as usize]
    }

    /// Returns the operands of an instruction for modification, and the classes of all values.
    #[inline]
    pub fn operands_and_classes(&mut self, inst: Inst) -> (&mut [Operand], &IndexVec<Value, Class>) {
        let data = &self.insts[inst];
        let start = data.first_operand as usize;
        (&mut self.operands[start..start + data.operand_count as usize], &self.values)
    }

    /// Returns the operands that an instruction writes.
    #[inline]
    pub fn results(&self, inst: Inst) -> &[Operand] {
        let data = &self.insts[inst];
        let start = data.first_operand as usize;
        &self.operands[start..start + usize::from(data.result_count)]
    }

    /// Returns the operands that an instruction reads, without its guard.
    #[inline]
    pub fn sources(&self, inst: Inst) -> &[Operand] {
        self.sources_of(&self.insts[inst])
    }

    #[inline]
    fn sources_of(&self, data: &Instruction) -> &[Operand] {
        let start = data.first_operand as usize;
        &self.operands[start + usize::from(data.result_count)..start + data.operand_count as usize]
    }

    /// Returns the operands that an instruction reads, for modification.
    #[inline]
    pub fn sources_mut(&mut self, inst: Inst) -> &mut [Operand] {
        let count = self.insts[inst].result_count();
        &mut self.operands_mut(inst)[count..]
    }

    /// Replaces the operands of an instruction.
    pub fn set_operands(&mut self, inst: Inst, operands: &[Operand], result_count: usize) {
        // Reuses the old range if the new operands fit; otherwise appends a range and leaves the old one unused.
        let fits = operands.len() <= self.insts[inst].operand_count as usize;
        if !fits {
            self.insts[inst].first_operand = self.operands.len() as u32;
            self.operands.extend_from_slice(operands);
        }
        self.insts[inst].operand_count = operands.len() as u32;
        self.insts[inst].result_count = result_count as u16;
        self.operands_mut(inst).copy_from_slice(operands);
    }

    /// Returns the values that an instruction writes.
    #[inline]
    pub fn defined(&self, inst: Inst) -> impl Iterator<Item = Value> + '_ {
        self.results(inst).iter().filter_map(Operand::value)
    }

    /// Returns the parts of values that an instruction reads, including tied operands and the guard. A phi reads its sources at the ends
    /// of the predecessors.
    #[inline]
    pub fn used(&self, inst: Inst) -> impl Iterator<Item = Part> + '_ {
        let data = &self.insts[inst];
        let guard = match &data.guard {
            Some(Guard { kind: OperandKind::Value(part), .. }) => Some(*part),
            _ => None,
        };
        self.sources_of(data).iter().filter_map(Operand::part).chain(guard)
    }

    /// Returns the name of the function that an instruction calls; `None` if it is not a direct call.
    pub fn callee(&self, inst: Inst) -> Option<&str> {
        let name = |operand: &Operand| match operand.kind {
            OperandKind::Reference(Reference { kind: ReferenceKind::Call, symbol, .. }) => Some(self.symbols[symbol as usize].as_str()),
            _ => None,
        };
        self.sources(inst).iter().find_map(name)
    }

    /// Returns whether an instruction calls the slow path of an operation such as division. Such a function computes its results from its
    /// arguments alone: it accesses no memory, waits for no thread, and writes no uniform register.
    #[inline]
    pub fn calls_slow_path(&self, inst: Inst) -> bool {
        self.insts[inst].is_machine(Opcode::CALL) && self.callee(inst).is_some_and(|name| name.starts_with(SLOW_PATH_PREFIX))
    }

    /// Returns whether an instruction is a warpgroup matrix product, which reads and writes its registers asynchronously.
    #[inline]
    pub fn is_warpgroup_product(&self, inst: Inst) -> bool {
        self.insts[inst].op.machine().is_some_and(Opcode::is_warpgroup_product)
    }

    /// Returns the operand tied to a result, if any.
    pub fn tied_to(&self, inst: Inst, result: usize) -> Option<&Operand> {
        self.sources(inst).iter().find(|operand| operand.role == Role::Tied(result as u8))
    }

    /// Returns the successors of a block, in the order of its branches. A block may occur twice.
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

    /// Returns the instructions that end a block: a guarded branch, if there is one, and the instruction after it.
    pub fn terminators(&self, block: Block) -> &[Inst] {
        let insts = &self.blocks[block].insts;
        let is_guarded_branch = |inst: Inst| self.insts[inst].is_machine(Opcode::BRA) && self.insts[inst].guard.is_some();
        match insts.as_slice() {
            [.., before, _] if is_guarded_branch(*before) => &insts[insts.len() - 2..],
            [.., _] => &insts[insts.len() - 1..],
            [] => insts,
        }
    }

    /// Returns the phis at the start of a block.
    pub fn phis(&self, block: Block) -> &[Inst] {
        let insts = &self.blocks[block].insts;
        let end = insts.iter().position(|&inst| !self.insts[inst].is(Pseudo::Phi)).unwrap_or(insts.len());
        &insts[..end]
    }

    /// Returns the number of instructions in all blocks of the layout.
    pub fn inst_count(&self) -> usize {
        self.layout.iter().map(|&block| self.blocks[block].insts.len()).sum()
    }
}
