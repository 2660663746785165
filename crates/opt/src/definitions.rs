//! Finds the definition of a value, looking through copies, moves and packs register by register.
//!
//! ```text
//! %2:R2 = PACK %0, %1      the origin of %2[0] is %0
//! %3:R  = MOV %2[1]        the origin of %3 is %1
//! %4:R  = MOV 0x7          the known content of %4 is the constant 7
//! %5:R2 = PACK %6[0], %6[1]      the origin of both registers of %5 is %6, if %6 is aligned
//! ```

use oriole_ir::{Class, Function, Inst, Op, Operand, OperandKind, Part, Pseudo, Role, Value};
use oriole_isa::{Opcode, RegFile, Symbol};
use oriole_support::Index;

use crate::rewrite::single_register;

/// Maximum number of copies to follow from a value back to its origin.
const MAX_COPY_CHAIN: usize = 16;

/// The defining instruction of each value; `None` for a value that no instruction in the layout defines.
pub(crate) struct Definitions {
    /// For each value, the instruction that defines it.
    insts: Vec<Option<Inst>>,
}

/// The content of one 32-bit register that is known at compile time or at kernel launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KnownWord {
    /// A compile-time constant.
    Integer(u32),
    /// A 32-bit word of a constant bank, known at kernel launch; `offset` is in bytes.
    Constant { bank: u8, offset: u32 },
}

impl KnownWord {
    /// Returns whether the word is known at compile time.
    pub(crate) fn is_integer(self) -> bool {
        matches!(self, KnownWord::Integer(_))
    }
}

impl Definitions {
    /// Finds the definitions of all values in one pass over the function.
    pub(crate) fn compute(function: &Function) -> Definitions {
        let mut insts = vec![None; function.values.len()];
        for &block in &function.layout {
            for &inst in &function.blocks[block].insts {
                for value in function.defined(inst) {
                    insts[value.position()] = Some(inst);
                }
            }
        }
        Definitions { insts }
    }

    /// Records that `inst` defines a value from now on.
    pub(crate) fn set_definition(&mut self, value: Value, inst: Inst) {
        if self.insts.len() <= value.position() {
            self.insts.resize(value.position() + 1, None);
        }
        self.insts[value.position()] = Some(inst);
    }

    /// Returns the instruction that defines a value; `None` if no instruction in the layout does.
    #[inline]
    pub(crate) fn definition_of(&self, value: Value) -> Option<Inst> {
        self.insts.get(value.position()).copied().flatten()
    }

    /// Returns the instruction that defines a value; `None` if the instruction is guarded, or if no instruction in the layout defines the
    /// value.
    pub(crate) fn unguarded_definition_of(&self, function: &Function, value: Value) -> Option<Inst> {
        self.definition_of(value).filter(|&inst| function.insts[inst].guard.is_none())
    }

    /// Returns the instruction that defines a value if it is an unguarded copy, pack or move; otherwise `None`.
    #[inline]
    fn defining_copy(&self, function: &Function, value: Value) -> Option<Inst> {
        let inst = self.definition_of(value)?;
        let data = &function.insts[inst];
        let may_copy = matches!(data.op, Op::Pseudo(Pseudo::Copy | Pseudo::Pack) | Op::Machine(Opcode::MOV | Opcode::UMOV));
        (may_copy && data.guard.is_none()).then_some(inst)
    }

    /// Returns the operand that the first register of `part` is a copy of; `None` if the defining instruction is not a plain copy, pack or
    /// move.
    fn copied_operand(&self, function: &Function, part: Part) -> Option<Operand> {
        let inst = self.defining_copy(function, part.value)?;
        let data = &function.insts[inst];
        if data.is(Pseudo::Copy) {
            let at = function.results(inst).iter().position(|result| result.value() == Some(part.value))?;
            let whole = function.results(inst)[at].part()? == function.whole(part.value);
            return register_of_operand(*function.sources(inst).get(at).filter(|_| whole)?, part.first);
        }
        if data.is(Pseudo::Pack) {
            let mut first = 0;
            for source in function.sources(inst) {
                let count = source.part().map_or(1, |part| part.count);
                if part.first < first + count {
                    return register_of_operand(*source, part.first - first);
                }
                first += count;
            }
            return None;
        }
        if data.modifiers.is_empty() && function.operands(inst).len() == 2 {
            return Some(function.operands(inst)[1]).filter(|source| source.signs.is_empty());
        }
        None
    }

    /// Returns whether a value is defined in a fixed physical register. Such a value is copied right after its definition and only the copy
    /// is used, so that the register is free again. Copies of the value are therefore not looked through.
    fn is_in_fixed_register(&self, function: &Function, value: Value) -> bool {
        let is_in_fixed_register = |result: &Operand| result.value() == Some(value) && matches!(result.role, Role::Fixed(_));
        self.definition_of(value).is_some_and(|inst| function.results(inst).iter().any(is_in_fixed_register))
    }

    /// Follows copies within one register file from the first register of `part` back to the register that was copied first, and returns
    /// that register.
    #[inline]
    pub(crate) fn origin(&self, function: &Function, part: Part) -> Part {
        if self.defining_copy(function, part.value).is_none() { part } else { self.origin_of_copy(function, part) }
    }

    /// Computes [`Definitions::origin`] for a value that is a copy. A separate function, so that the common case, a value that is not a copy,
    /// is inlined.
    fn origin_of_copy(&self, function: &Function, part: Part) -> Part {
        let mut part = part;
        for _ in 0..MAX_COPY_CHAIN {
            match self.copied_operand(function, part).map(|source| source.kind) {
                Some(OperandKind::Value(copied))
                    if function.values[copied.value].file == function.values[part.value].file
                        && !self.is_in_fixed_register(function, copied.value) =>
                {
                    part = copied;
                }
                _ => break,
            }
        }
        part
    }

    /// Returns the known content of one register; `None` if it is not known. Unlike [`Definitions::origin`], this function also follows
    /// copies between register files.
    pub(crate) fn known_content(&self, function: &Function, part: Part) -> Option<KnownWord> {
        let mut part = part;
        for _ in 0..MAX_COPY_CHAIN {
            match self.copied_operand(function, part).map(|source| source.kind) {
                Some(OperandKind::Value(copied)) => part = copied,
                Some(OperandKind::Integer(number)) => return Some(KnownWord::Integer(number as u32)),
                Some(OperandKind::Zero(RegFile::General | RegFile::Uniform)) => return Some(KnownWord::Integer(0)),
                Some(OperandKind::Constant { bank, offset }) => return Some(KnownWord::Constant { bank, offset }),
                Some(_) => return None,
                None => return self.loaded_constant(function, part),
            }
        }
        None
    }

    /// Returns the constant-bank word that a register was loaded from, if the load has a fixed address and loads whole words.
    fn loaded_constant(&self, function: &Function, part: Part) -> Option<KnownWord> {
        let inst = self.definition_of(part.value)?;
        let data = &function.insts[inst];
        let is_load = matches!(data.op, Op::Machine(Opcode::LDC | Opcode::ULDC | Opcode::LDCU)) && data.guard.is_none();
        if !is_load {
            return None;
        }
        let is_words = data.modifiers.iter().all(|&modifier| modifier == Symbol::_64 || modifier == Symbol::_128);
        let [_, source] = function.operands(inst) else { return None };
        match source.kind {
            OperandKind::Constant { bank, offset } if is_words => {
                Some(KnownWord::Constant { bank, offset: offset + 4 * u32::from(part.first) })
            }
            _ => None,
        }
    }
}

impl Definitions {
    /// Follows copies and packs from the registers of `part` back to their origins. If the origins are consecutive registers of one value,
    /// aligned as a tuple of this size requires, returns them as one part; otherwise returns `part` unchanged.
    #[inline]
    pub(crate) fn origin_of_group(&self, function: &Function, part: Part) -> Part {
        if self.defining_copy(function, part.value).is_none() { part } else { self.origin_of_copied_group(function, part) }
    }

    /// Computes [`Definitions::origin_of_group`] for a value that is a copy. A separate function, so that the common case, a value that is
    /// not a copy, is inlined.
    fn origin_of_copied_group(&self, function: &Function, part: Part) -> Part {
        let first = self.origin(function, single_register(part, 0));
        let needed = Class::new(RegFile::General, part.count).align;
        let is_aligned = first.first.is_multiple_of(needed) && function.values[first.value].align >= needed;
        let follows = |at: u8| {
            let found = self.origin(function, single_register(part, at));
            found.value == first.value && found.first == first.first + at
        };
        if part.count == 1 || is_aligned && (1..part.count).all(follows) { Part { count: part.count, ..first } } else { part }
    }

    /// Follows `COPY` instructions of whole values back to the value that was copied first, and returns the corresponding registers of that
    /// value. Stops at a value with a smaller alignment. Returns `part` unchanged if its value is not such a copy.
    pub(crate) fn copied_group(&self, function: &Function, part: Part) -> Part {
        let mut part = part;
        for _ in 0..MAX_COPY_CHAIN {
            let Some(inst) = self.defining_copy(function, part.value).filter(|&inst| function.insts[inst].is(Pseudo::Copy)) else { break };
            let [result, source] = function.operands(inst) else { break };
            let (OperandKind::Value(copied), true) = (source.kind, source.signs.is_empty()) else { break };
            let align = function.values[part.value].align;
            let is_aligned = copied.first.is_multiple_of(align) && function.values[copied.value].align >= align;
            let is_same_file = function.values[copied.value].file == function.values[part.value].file;
            let is_whole = result.part() == Some(function.whole(part.value)) && copied.count == function.values[part.value].width;
            if !is_aligned || !is_same_file || !is_whole || self.is_in_fixed_register(function, copied.value) {
                break;
            }
            part = Part { value: copied.value, first: copied.first + part.first, count: part.count };
        }
        part
    }
}

/// Returns the 32-bit register, or 32-bit word of a constant, with index `number` in an operand; `None` if the operand has a modifier (such
/// as negation) or is too short.
fn register_of_operand(operand: Operand, number: u8) -> Option<Operand> {
    if !operand.signs.is_empty() {
        return None;
    }
    match operand.kind {
        OperandKind::Value(part) => (number < part.count).then(|| single_register(part, number).into()),
        OperandKind::Integer(bits) if number < 2 => Some(i64::from((bits >> (32 * u32::from(number))) as u32).into()),
        OperandKind::Zero(_) => Some(operand),
        OperandKind::Constant { bank, offset } => Some(Operand::constant(bank, offset + 4 * u32::from(number))),
        _ if number == 0 => Some(operand),
        _ => None,
    }
}
