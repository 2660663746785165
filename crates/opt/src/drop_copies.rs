//! Deletes moves that write what their register already holds.
//!
//! If an instruction reads consecutive registers, its operands are copied to them. If the next such instruction has some of the same
//! operands and gets the same registers, the copies of these operands are repeated:
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
//! every other write gives a new number. A move is deleted if its result already has the number of its source. If a block has a single
//! predecessor, and that precedes it in the layout, the block starts with the numbers at the end of the predecessor. Other blocks start
//! without numbers.
//!
//! Uniform registers belong to a warp: where threads may wait for each other or diverge, other threads of the warp may overwrite uniform
//! registers that the allocator considers free. There, and at the end of each block, the pass forgets the numbers of the uniform registers.
//! At calls, and at instructions that activate other threads, it forgets those of all registers.
//!
//! **Before** and **after**: physical registers. The cost is linear in the size of the function.

use oriole_ir::analysis::ControlFlow;
use oriole_ir::{Block, Function, Inst, Op, OperandKind};
use oriole_isa::{Effect, Opcode, RegFile};
use rustc_hash::FxHashMap;

/// Identifies the content of a register: registers with equal numbers have equal contents.
type ContentNumber = u32;

/// Deletes moves that write what their destination register already holds, in a whole function. Returns the number of moves deleted.
pub fn run(function: &mut Function) -> usize {
    let flow = ControlFlow::compute(function);
    let mut numbering = ContentNumbering::default();
    // The register contents at the end of each visited block that is the only predecessor of another block.
    let mut at_end: FxHashMap<Block, RegisterContents> = FxHashMap::default();
    let mut deleted = 0;
    for block in function.layout.clone() {
        let mut contents = match flow.predecessors(block) {
            [only] => at_end.get(only).cloned().unwrap_or_default(),
            _ => RegisterContents::default(),
        };
        let mut insts = std::mem::take(&mut function.blocks[block].insts);
        let before = insts.len();
        insts.retain(|&inst| !contents.update_and_test_redundancy(function, &mut numbering, inst));
        deleted += before - insts.len();
        function.blocks[block].insts = insts;
        contents.uniform.clear();
        if flow.successors(block).iter().any(|&next| flow.predecessors(next).len() == 1) {
            at_end.insert(block, contents);
        }
    }
    deleted
}

/// Assigns content numbers to constants and to new register contents.
#[derive(Default)]
struct ContentNumbering {
    /// The number that was assigned last.
    last: ContentNumber,
    /// The content numbers of immediates and constant-bank words.
    constants: FxHashMap<OperandKind, ContentNumber>,
}

impl ContentNumbering {
    /// Returns a new number, for a content that no other register is known to have.
    fn fresh_content_number(&mut self) -> ContentNumber {
        self.last += 1;
        self.last
    }

    /// Returns the content number of a constant.
    fn number_of_constant(&mut self, kind: OperandKind) -> ContentNumber {
        if let Some(&number) = self.constants.get(&kind) {
            return number;
        }
        let number = self.fresh_content_number();
        self.constants.insert(kind, number);
        number
    }
}

/// The content number of each register whose content is known, by register number.
#[derive(Clone, Default)]
struct RegisterContents {
    /// The contents of general registers.
    general: FxHashMap<u16, ContentNumber>,
    /// The contents of uniform registers.
    uniform: FxHashMap<u16, ContentNumber>,
}

impl RegisterContents {
    /// Returns the content numbers of the registers of one register file; `None` for register files that the pass does not track.
    fn contents_of_file(&mut self, file: RegFile) -> Option<&mut FxHashMap<u16, ContentNumber>> {
        match file {
            RegFile::General => Some(&mut self.general),
            RegFile::Uniform => Some(&mut self.uniform),
            _ => None,
        }
    }

    /// Updates the register contents for an instruction. Returns whether the instruction is redundant: a move to a register that already
    /// has the moved content.
    fn update_and_test_redundancy(&mut self, function: &Function, numbering: &mut ContentNumbering, inst: Inst) -> bool {
        if let Some((file, to, number)) = self.match_move(function, numbering, inst) {
            let old = self.contents_of_file(file).and_then(|contents| contents.insert(to, number));
            return old == Some(number);
        }
        let Op::Machine(opcode) = function.insts[inst].op else { return false };
        match opcode.properties().effect {
            Effect::Control if opcode == Opcode::BRA => self.uniform.clear(),
            Effect::Control | Effect::Other => *self = RegisterContents::default(),
            _ if opcode == Opcode::BMOV => *self = RegisterContents::default(),
            Effect::Barrier | Effect::Fence => self.uniform.clear(),
            Effect::None | Effect::State | Effect::Lanes | Effect::Reads | Effect::Writes | Effect::Updates => {}
        }
        for result in function.results(inst) {
            if let OperandKind::Register { file, first, count } = result.kind
                && let Some(contents) = self.contents_of_file(file)
            {
                (first..first + u16::from(count)).for_each(|register| _ = contents.remove(&register));
            }
        }
        false
    }

    /// For an unguarded move, returns the register file and the number of the register that it writes, and the content number of its
    /// source; `None` for other instructions.
    fn match_move(&mut self, function: &Function, numbering: &mut ContentNumbering, inst: Inst) -> Option<(RegFile, u16, ContentNumber)> {
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
            OperandKind::Zero(_) => numbering.number_of_constant(OperandKind::Integer(0)),
            OperandKind::Integer(bits) => numbering.number_of_constant(OperandKind::Integer(bits & 0xffff_ffff)),
            OperandKind::Constant { .. } => numbering.number_of_constant(source.kind),
            // Moves between register files are not tracked: other threads of the warp may overwrite the uniform register, but not the
            // general one.
            OperandKind::Register { file: from, first, count: 1 } if from == file => {
                *self.contents_of_file(file)?.entry(first).or_insert_with(|| numbering.fresh_content_number())
            }
            _ => return None,
        };
        Some((file, to, number))
    }
}
