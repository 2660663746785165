//! Moves operands to registers where no encoding form accepts them directly.

use oriole_ir::{Class, Function, Op, Operand, OperandKind, Part, Role, Signs};
use oriole_isa::{Opcode, Pipe, RegFile, Symbol};
use smallvec::SmallVec;

use super::encodability::{EXAMPLE_REGISTER, EncodabilityCache, MoveKind};
use crate::rewrite::{InstDraft, InstPrelude, register_file_of, single_register};

/// Returns the positions, in the operand list, of the operands that a move instruction can put into a register, the cheapest to move first.
pub(super) fn movable_operand_positions(function: &Function, draft: &InstDraft) -> SmallVec<[usize; 8]> {
    let mut positions: SmallVec<[usize; 8]> =
        (draft.result_count..draft.operands.len()).filter(|&at| can_move_to_register(function, draft, at)).collect();
    positions.sort_by_key(|&at| (draft.operands[at].integer() != Some(0), draft.operands[at].value().is_some()));
    positions
}

/// Returns whether a move instruction can put operand number `at` into a general or uniform register.
fn can_move_to_register(function: &Function, draft: &InstDraft, at: usize) -> bool {
    let operand = &draft.operands[at];
    let is_register_file = matches!(register_file_of(function, operand), Some(RegFile::General | RegFile::Uniform));
    match operand.role {
        Role::Plain => match operand.kind {
            OperandKind::Integer(_) | OperandKind::Constant { .. } | OperandKind::Reference(_) => true,
            _ => is_register_file,
        },
        Role::Bracket(number) => match operand.kind {
            OperandKind::Integer(offset) => offset != 0 && !(number == 0 && is_in_constant_address(draft, at)),
            OperandKind::Value(_) => is_register_file,
            // Some forms with a descriptor do not take the zero register as the address.
            OperandKind::Zero(RegFile::General) => true,
            _ => false,
        },
        Role::Tied(_) | Role::Fixed(_) => false,
    }
}

/// Returns whether operand number `at` belongs to a constant-bank address `c[bank][offset]`, whose first bracket has the bank number.
fn is_in_constant_address(draft: &InstDraft, at: usize) -> bool {
    draft.operands[..at].iter().rev().find_map(|operand| if let OperandKind::Address(word) = operand.kind { Some(word) } else { None })
        == Some(Symbol::NAME_c)
}

/// Replaces the sum of the base and the offset of an address by the register `base`. `at` is the operand number of the offset.
pub(super) fn replace_base_and_offset(draft: &mut InstDraft, at: usize, base: OperandKind) {
    match base_register_position(draft, at) {
        Some(position) => {
            draft.operands[position].kind = base;
            draft.operands[at].kind = OperandKind::Integer(0);
        }
        None => draft.operands[at].kind = base,
    }
}

/// Returns the operand number of the base register in the address whose offset is operand number `at`; `None` if the address has no base.
fn base_register_position(draft: &InstDraft, at: usize) -> Option<usize> {
    let role = draft.operands[at].role;
    let is_register = |operand: &Operand| {
        operand.role == role && matches!(operand.kind, OperandKind::Value(_) | OperandKind::Register { .. } | OperandKind::Zero(_))
    };
    (0..at).rev().take_while(|&before| draft.operands[before].role == role).filter(|&before| is_register(&draft.operands[before])).last()
}

/// Appends instructions to `prelude` that move the operands with the numbers `chosen` to registers, and returns the draft that reads these
/// registers. Returns `None` and appends nothing if an operand cannot be moved.
pub(super) fn insert_operand_moves(
    function: &mut Function,
    draft: &InstDraft,
    chosen: &[usize],
    move_kind: MoveKind,
    encodability: &EncodabilityCache,
    prelude: &mut InstPrelude,
) -> Option<InstDraft> {
    let before = prelude.insts.len();
    let mut supplied = draft.clone();
    for &at in chosen {
        let operand = draft.operands[at];
        let mut builder = MoveBuilder { function, encodability, prelude, opcode: draft.opcode };
        let found = if let (Role::Bracket(_), OperandKind::Integer(offset)) = (operand.role, operand.kind) {
            let base = base_register_position(&supplied, at).map(|position| supplied.operands[position]);
            builder.emit_offset_addition(base, offset, move_kind.file).map(|sum| replace_base_and_offset(&mut supplied, at, sum.kind))
        } else {
            let width = operand_register_count(draft, at);
            builder.move_operand(operand, width, move_kind).map(|register| supplied.operands[at] = register)
        };
        if found.is_none() {
            prelude.insts.truncate(before);
            return None;
        }
    }
    Some(supplied)
}

/// Returns the number of 32-bit registers that operand number `at` needs if it is moved to registers.
fn operand_register_count(draft: &InstDraft, at: usize) -> u8 {
    if let OperandKind::Value(part) = draft.operands[at].kind {
        return part.count;
    }
    if matches!(draft.operands[at].role, Role::Bracket(_)) {
        return if draft.has(Symbol::E) { 2 } else { 1 };
    }
    let source = draft.plain_source_positions().iter().position(|&source| source == at);
    let is_store =
        matches!(draft.opcode, Opcode::ST | Opcode::STG | Opcode::STS | Opcode::STL | Opcode::ATOM | Opcode::ATOMG | Opcode::ATOMS);
    match draft.opcode {
        _ if draft.opcode.properties().pipe == Pipe::Double => 2,
        Opcode::IMAD if draft.has(Symbol::WIDE) && source == Some(2) => 2,
        _ if is_store && draft.has(Symbol::_64) => 2,
        _ if is_store && draft.has(Symbol::_128) => 4,
        _ => 1,
    }
}

/// Appends instructions that move operands of one instruction to registers.
struct MoveBuilder<'a> {
    /// The function that contains the instruction.
    function: &'a mut Function,
    /// Answers whether the target can encode an instruction.
    encodability: &'a EncodabilityCache,
    /// The list of new instructions, which are inserted before the instruction whose operands are moved.
    prelude: &'a mut InstPrelude,
    /// Opcode of the instruction whose operands are moved.
    opcode: Opcode,
}

impl MoveBuilder<'_> {
    /// Moves an operand to `width` registers. Returns the operand that reads these registers and has the operand modifiers that were not
    /// applied; `None` if the operand cannot be moved.
    fn move_operand(&mut self, operand: Operand, width: u8, move_kind: MoveKind) -> Option<Operand> {
        let kind = match operand.kind {
            OperandKind::Integer(number) => self.move_immediate(number, width, move_kind.file),
            OperandKind::Constant { bank, offset } => self.move_constant(bank, offset, width, move_kind.file),
            OperandKind::Reference(_) if width == 1 => self.move_word(Operand::new(operand.kind), move_kind.file).kind,
            OperandKind::Value(part) => self.copy_to_register_file(part, move_kind)?.kind,
            // The zero register of another file may have an encoding; that of the same file has none, or it would not be moved.
            OperandKind::Zero(file) if matches!(operand.role, Role::Bracket(_)) || file == move_kind.file => {
                let parts: SmallVec<[Operand; 4]> =
                    (0..width).map(|_| self.move_word(Operand::new(OperandKind::Zero(file)), move_kind.file)).collect();
                self.prelude.pack(self.function, move_kind.file, &parts).kind
            }
            OperandKind::Zero(_) => OperandKind::Zero(move_kind.file),
            _ => return None,
        };
        let signs = if move_kind.applies_signs { Signs::NONE } else { operand.signs };
        let supplied = Operand { kind, signs, ..operand };
        if move_kind.applies_signs { self.apply_operand_modifiers(supplied, operand.signs, move_kind.file) } else { Some(supplied) }
    }

    /// Appends a move of one 32-bit source to a new register of `file`; returns the register.
    fn move_word(&mut self, source: Operand, file: RegFile) -> Operand {
        let opcode = if file == RegFile::Uniform { Opcode::UMOV } else { Opcode::MOV };
        self.prelude.emit_definition(self.function, Class::new(file, 1), opcode, &[], &[source])
    }

    /// Moves an immediate to `width` registers, and returns them. The immediate of an FP64 instruction is the upper half of the value; the
    /// lower half is zero.
    fn move_immediate(&mut self, number: i64, width: u8, file: RegFile) -> OperandKind {
        if number == 0 {
            return OperandKind::Zero(file);
        }
        let is_double = self.opcode.properties().pipe == Pipe::Double;
        let parts: SmallVec<[Operand; 4]> = (0..width)
            .map(|at| {
                let bits = match (is_double, at) {
                    (true, 0) => 0,
                    (true, _) => number as u32,
                    (false, 0 | 1) => (number >> (32 * u32::from(at))) as u32,
                    (false, _) => 0,
                };
                self.move_word(i64::from(bits).into(), file)
            })
            .collect();
        self.prelude.pack(self.function, file, &parts).kind
    }

    /// Moves a constant-bank operand of `width` words to registers of `file`, and returns them. Uses a 64-bit load for an aligned pair of
    /// words if the target has no move of a single constant-bank word.
    fn move_constant(&mut self, bank: u8, offset: u32, width: u8, file: RegFile) -> OperandKind {
        let example = Operand::new(OperandKind::Register { file, first: EXAMPLE_REGISTER, count: 1 });
        let (move_opcode, load) = if file == RegFile::Uniform { (Opcode::UMOV, Opcode::ULDC) } else { (Opcode::MOV, Opcode::LDC) };
        let word = Operand::constant(bank, offset);
        let operands = SmallVec::from_slice(&[example, word]);
        let moves = InstDraft { opcode: move_opcode, modifiers: SmallVec::new(), operands, result_count: 1 };
        if width == 2 && offset.is_multiple_of(8) && !self.encodability.is_encodable_unguarded(self.function, &moves) {
            return self.prelude.emit_definition(self.function, Class::new(file, 2), load, &[Symbol::_64], &[word]).kind;
        }
        let parts: SmallVec<[Operand; 4]> =
            (0..width).map(|at| self.move_word(Operand::constant(bank, offset + 4 * u32::from(at)), file)).collect();
        self.prelude.pack(self.function, file, &parts).kind
    }

    /// Brings a value into the register file of `move_kind`, by copies if it is in another file. Returns `None` if no copy is possible, or
    /// if the value is in that file already and the move would not apply signs, so that nothing would change. A value in a general register
    /// is copied to a uniform register only for instructions of the uniform datapath and for descriptors; instruction selection
    /// guarantees that such a value is the same in all threads.
    fn copy_to_register_file(&mut self, part: Part, move_kind: MoveKind) -> Option<Operand> {
        let file = self.function.values[part.value].file;
        let opcode = match (file, move_kind.file) {
            (own, wanted) if own == wanted => return move_kind.applies_signs.then(|| part.into()),
            (RegFile::Uniform, RegFile::General) => Opcode::MOV,
            (RegFile::General, RegFile::Uniform) if self.may_read_uniform_registers() => Opcode::R2UR,
            _ => return None,
        };
        let parts: SmallVec<[Operand; 4]> = (0..part.count)
            .map(|at| {
                self.prelude.emit_definition(self.function, Class::new(move_kind.file, 1), opcode, &[], &[single_register(part, at).into()])
            })
            .collect();
        Some(self.prelude.pack(self.function, move_kind.file, &parts))
    }

    /// Returns whether the instruction may have uniform-register operands: it executes on the uniform datapath or accesses memory.
    fn may_read_uniform_registers(&self) -> bool {
        let properties = self.opcode.properties();
        properties.pipe == Pipe::Uniform || properties.memory != oriole_isa::Memory::None
    }

    /// Applies the operand modifiers `signs` (negation, absolute value, inversion) to an operand by separate instructions, and returns the
    /// result. For floating-point operands these instructions change the sign bit. `None` if this is not possible.
    fn apply_operand_modifiers(&mut self, operand: Operand, signs: Signs, file: RegFile) -> Option<Operand> {
        let (part, RegFile::General) = (operand.part()?, file) else { return None };
        let sign_bits: Option<u32> = match self.opcode.mnemonic().as_bytes().first() {
            Some(b'F' | b'D' | b'M') => Some(0x8000_0000),
            Some(b'H') => Some(0x8000_8000),
            _ => None,
        };
        let mut top: Operand = single_register(part, part.count - 1).into();
        match sign_bits {
            Some(bits) => {
                if signs.has(Signs::ABSOLUTE) {
                    top = self.emit_logic(top, !bits, 0xc0);
                }
                if signs.has(Signs::NEGATE) {
                    top = self.emit_logic(top, bits, 0x3c);
                }
            }
            None if part.count == 1 => {
                if signs.has(Signs::ABSOLUTE) {
                    top = self.prelude.emit_definition(self.function, Class::R, Opcode::IABS, &[], &[top]);
                }
                if signs.has(Signs::INVERT) {
                    top = self.emit_logic(top, u32::MAX, 0x3c);
                }
                if signs.has(Signs::NEGATE) {
                    top = self.prelude.emit_definition(
                        self.function,
                        Class::R,
                        Opcode::IADD3,
                        &[],
                        &[top.negated(), Operand::RZ, Operand::RZ],
                    );
                }
            }
            None => return None,
        }
        if signs.has(Signs::NOT) {
            return None;
        }
        let parts: SmallVec<[Operand; 4]> =
            (0..part.count - 1).map(|at| single_register(part, at).into()).chain(std::iter::once(top)).collect();
        let packed = self.prelude.pack(self.function, file, &parts);
        Some(Operand { kind: packed.kind, ..operand })
    }

    /// Appends a `LOP3` of an operand and the constant `bits`, and returns its result. `table` is the truth table: 0xc0 is AND, 0x3c
    /// exclusive OR.
    fn emit_logic(&mut self, operand: Operand, bits: u32, table: u8) -> Operand {
        let sources = [operand, i64::from(bits).into(), Operand::RZ, i64::from(table).into(), Operand::PT.inverted_predicate()];
        self.prelude.emit_definition(self.function, Class::R, Opcode::LOP3, &[Symbol::LUT], &sources)
    }

    /// Appends the addition of an offset in bytes to a base register or register pair, and returns the sum. A missing base counts as 0.
    /// `None` if `file` is not the general registers.
    fn emit_offset_addition(&mut self, base: Option<Operand>, offset: i64, file: RegFile) -> Option<Operand> {
        if file != RegFile::General {
            return None;
        }
        let low = i64::from(offset as u32);
        let Some(base) = base else { return Some(self.move_word(low.into(), file)) };
        let OperandKind::Value(part) = base.kind else { return Some(self.move_word(low.into(), file)) };
        let none = Operand::RZ;
        if part.count == 1 {
            return Some(self.prelude.emit_definition(self.function, Class::R, Opcode::IADD3, &[], &[part.into(), low.into(), none]));
        }
        let sum = self.function.new_value(Class::R);
        let carry = self.function.new_value(Class::P);
        let [sum, carry] = [sum, carry].map(|value| Operand::from(self.function.whole(value)));
        let operands = [sum, carry, single_register(part, 0).into(), low.into(), none];
        self.prelude.push(self.function, Op::Machine(Opcode::IADD3), &[], &operands, 2);
        let sources =
            [single_register(part, 1).into(), i64::from((offset >> 32) as u32).into(), none, carry, Operand::PT.inverted_predicate()];
        let high = self.prelude.emit_definition(self.function, Class::R, Opcode::IADD3, &[Symbol::X], &sources);
        Some(self.prelude.pack(self.function, file, &[sum, high]))
    }
}

#[cfg(test)]
mod tests {
    use oriole_ir::text::parse;

    use super::*;

    /// Returns the operand numbers of an instruction that can be moved to registers, the cheapest first.
    fn movable_positions_of_line(line: &str) -> Vec<usize> {
        let text = format!("func kernel @test ssa {{\nbb0:\n    %0:R2, %1:UR2, %2:R, %3:P = ENTRY\n    {line}\n    EXIT\n}}\n");
        let function = parse(&text).unwrap_or_else(|error| panic!("{line}: {error:?}")).remove(0);
        let inst = function.blocks[function.entry()].insts[1];
        movable_operand_positions(&function, &InstDraft::from_inst(&function, inst, function.insts[inst].op.machine().unwrap())).to_vec()
    }

    /// Zero costs no instruction, since it is read from RZ; other constants are moved before registers.
    #[test]
    fn cheap_operands_are_moved_first() {
        assert_eq!(movable_positions_of_line("%4:R = IADD3 %2, 0x5, 0x0"), [3, 2, 1]);
        assert_eq!(movable_positions_of_line("%4:R = IADD3 %2, c[0x0][0x10], RZ"), [2, 3, 1]);
        assert_eq!(movable_positions_of_line("%4:R = SEL %2, 0x5, %3"), [2, 1]);
    }

    /// The base of an address can be moved, and its offset unless that is zero.
    #[test]
    fn nonzero_address_offsets_are_movable() {
        assert_eq!(movable_positions_of_line("%4:R = LDS [%2+0x10]"), [3, 2]);
        assert_eq!(movable_positions_of_line("%4:R = LDS [%2+0x0]"), [2]);
    }
}
