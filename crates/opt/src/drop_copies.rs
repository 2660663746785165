//! Deletes moves that write what their register already holds.
//!
//! The operands of an instruction that reads consecutive registers are copied there. When the next such instruction has some of the
//! same operands and gets the same registers, the copies that have not changed are repeated:
//!
//! ```text
//! MOV R16, R2                      MOV R16, R2
//! MOV R17, R9                      MOV R17, R9
//! SULD R6, [R16], UR0              SULD R6, [R16], UR0
//! MOV R16, R11           becomes   MOV R16, R11
//! MOV R17, R9                      SULD R7, [R16], UR0
//! SULD R7, [R16], UR0
//! ```
//!
//! A number stands for the content of each register: a move gives its result the number of its source, a constant has a number of its own,
//! every other write gives a new number. A move whose result has the number of its source is deleted. A block with a single
//! predecessor that precedes it in the layout starts with the numbers at the end of that block; others start with no knowledge.
//!
//! Uniform registers belong to a warp: where threads may wait for each other or part, other threads of the warp may overwrite those that the
//! allocator considers free. What is known about them ends there, and at the end of each block. Calls, and instructions that
//! activate other threads, end what is known about all registers.
//!
//! **Before** and **after**: physical registers. The cost is linear in the size of the function.

use oriole_ir::analysis::ControlFlow;
use oriole_ir::{Block, Function, Inst, Op, OperandKind};
use oriole_isa::{Effect, Opcode, RegFile};
use rustc_hash::FxHashMap;

/// Stands for the content of a register; equal numbers are equal contents.
type ContentNumber = u32;

/// Deletes the repeated moves of a whole function. Returns their number.
pub fn run(function: &mut Function) -> usize {
    let flow = ControlFlow::compute(function);
    let mut numbering = Numbering::default();
    // The contents at the end of the blocks that precede in the layout, as far as a later block may start with them.
    let mut at_end: FxHashMap<Block, Contents> = FxHashMap::default();
    let mut deleted = 0;
    for block in function.layout.clone() {
        let mut contents = match flow.predecessors(block) {
            [only] => at_end.get(only).cloned().unwrap_or_default(),
            _ => Contents::default(),
        };
        let mut insts = std::mem::take(&mut function.blocks[block].insts);
        let before = insts.len();
        insts.retain(|&inst| !contents.visit(function, &mut numbering, inst));
        deleted += before - insts.len();
        function.blocks[block].insts = insts;
        contents.uniform.clear();
        if flow.successors(block).iter().any(|&next| flow.predecessors(next).len() == 1) {
            at_end.insert(block, contents);
        }
    }
    deleted
}

/// Gives out numbers of contents.
#[derive(Default)]
struct Numbering {
    last: ContentNumber,
    /// The numbers of immediates and constant-bank words.
    constants: FxHashMap<OperandKind, ContentNumber>,
}

impl Numbering {
    /// Returns a number that stands for a content which no other register is known to have.
    fn fresh(&mut self) -> ContentNumber {
        self.last += 1;
        self.last
    }

    /// Returns the number of a constant.
    fn constant(&mut self, kind: OperandKind) -> ContentNumber {
        if let Some(&number) = self.constants.get(&kind) {
            return number;
        }
        let number = self.fresh();
        self.constants.insert(kind, number);
        number
    }
}

/// The numbers of the contents of registers. Registers without an entry have contents about which nothing is known.
#[derive(Clone, Default)]
struct Contents {
    general: FxHashMap<u16, ContentNumber>,
    uniform: FxHashMap<u16, ContentNumber>,
}

impl Contents {
    /// Returns the contents of a register file; `None` for files whose contents are not followed.
    fn file(&mut self, file: RegFile) -> Option<&mut FxHashMap<u16, ContentNumber>> {
        match file {
            RegFile::General => Some(&mut self.general),
            RegFile::Uniform => Some(&mut self.uniform),
            _ => None,
        }
    }

    /// Updates the contents for an instruction. Returns whether the instruction is a move that changes nothing.
    fn visit(&mut self, function: &Function, numbering: &mut Numbering, inst: Inst) -> bool {
        if let Some((file, to, number)) = self.moved(function, numbering, inst) {
            let old = self.file(file).and_then(|contents| contents.insert(to, number));
            return old == Some(number);
        }
        let Op::Machine(opcode) = function.insts[inst].op else { return false };
        match opcode.properties().effect {
            Effect::Control if opcode == Opcode::BRA => self.uniform.clear(),
            Effect::Control | Effect::Other => *self = Contents::default(),
            _ if opcode == Opcode::BMOV => *self = Contents::default(),
            Effect::Barrier | Effect::Fence => self.uniform.clear(),
            Effect::None | Effect::State | Effect::Lanes | Effect::Reads | Effect::Writes | Effect::Updates => {}
        }
        for result in function.results(inst) {
            if let OperandKind::Register { file, first, count } = result.kind
                && let Some(contents) = self.file(file)
            {
                (first..first + u16::from(count)).for_each(|register| _ = contents.remove(&register));
            }
        }
        false
    }

    /// Returns the register that an unguarded move writes and the number of what it writes; `None` for other instructions.
    fn moved(&mut self, function: &Function, numbering: &mut Numbering, inst: Inst) -> Option<(RegFile, u16, ContentNumber)> {
        let data = &function.insts[inst];
        let is_move = matches!(data.op, Op::Machine(Opcode::MOV | Opcode::UMOV));
        if !is_move || data.guard.is_some() || !data.modifiers.is_empty() {
            return None;
        }
        let [result, source] = function.operands(inst) else { return None };
        let OperandKind::Register { file, first: to, count: 1 } = result.kind else { return None };
        if !source.signs.is_empty() {
            return None;
        }
        let number = match source.kind {
            OperandKind::Zero(_) => numbering.constant(OperandKind::Integer(0)),
            OperandKind::Integer(bits) => numbering.constant(OperandKind::Integer(bits & 0xffff_ffff)),
            OperandKind::Constant { .. } => numbering.constant(source.kind),
            // A uniform register that is read by a general move may change where the general register does not.
            OperandKind::Register { file: from, first, count: 1 } if from == file => {
                *self.file(file)?.entry(first).or_insert_with(|| numbering.fresh())
            }
            _ => return None,
        };
        Some((file, to, number))
    }
}
