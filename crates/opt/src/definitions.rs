//! Where values come from, seen through copies and packs.

use oriole_ir::{Class, Function, Inst, Op, Operand, OperandKind, Part, Pseudo, Role, Value};
use oriole_isa::{File, Opcode, Symbol};
use oriole_support::Index;

use crate::rewrite::piece;

/// Copies that are looked through at most.
const COPIES_AT_MOST: usize = 16;

/// The instruction that defines each value.
pub(crate) struct Definitions {
    insts: Vec<Option<Inst>>,
}

/// A register whose content is known when the program starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Word {
    Integer(u32),
    Constant { bank: u8, offset: u32 },
}

impl Definitions {
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

    pub(crate) fn of(&self, value: Value) -> Option<Inst> {
        self.insts.get(value.position()).copied().flatten()
    }

    /// The instruction that defines a value, if it does so whatever its guard.
    pub(crate) fn unguarded(&self, function: &Function, value: Value) -> Option<Inst> {
        self.of(value).filter(|&inst| function.insts[inst].guard.is_none())
    }

    /// The instruction that makes a value, if that may be a copy and has no guard.
    fn copy_of(&self, function: &Function, value: Value) -> Option<Inst> {
        let inst = self.of(value)?;
        let data = &function.insts[inst];
        let may_copy = matches!(data.op, Op::Pseudo(Pseudo::Copy | Pseudo::Pack) | Op::Machine(Opcode::MOV | Opcode::UMOV));
        (may_copy && data.guard.is_none()).then_some(inst)
    }

    /// What one register of a value is a copy of: an operand of the instruction that made it.
    fn source_of(&self, function: &Function, part: Part) -> Option<Operand> {
        let inst = self.copy_of(function, part.value)?;
        let data = &function.insts[inst];
        if data.is(Pseudo::Copy) {
            let at = function.results(inst).iter().position(|result| result.value() == Some(part.value))?;
            let whole = function.results(inst)[at].part()? == function.whole(part.value);
            return within(*function.sources(inst).get(at).filter(|_| whole)?, part.first);
        }
        if data.is(Pseudo::Pack) {
            let mut first = 0;
            for source in function.sources(inst) {
                let count = source.part().map_or(1, |part| part.count);
                if part.first < first + count {
                    return within(*source, part.first - first);
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

    /// Whether a value is made in a register that the instruction fixes. Such values are copied at once; the copy is what is used.
    fn is_fixed(&self, function: &Function, value: Value) -> bool {
        let is_fixed = |result: &Operand| result.value() == Some(value) && matches!(result.role, Role::Fixed(_));
        self.of(value).is_some_and(|inst| function.results(inst).iter().any(is_fixed))
    }

    /// One register, seen through copies: the register that was copied first.
    pub(crate) fn origin(&self, function: &Function, part: Part) -> Part {
        let mut part = part;
        for _ in 0..COPIES_AT_MOST {
            match self.source_of(function, part).map(|source| source.kind) {
                Some(OperandKind::Value(copied))
                    if function.values[copied.value].file == function.values[part.value].file && !self.is_fixed(function, copied.value) =>
                {
                    part = copied;
                }
                _ => break,
            }
        }
        part
    }

    /// The known content of one register.
    pub(crate) fn word(&self, function: &Function, part: Part) -> Option<Word> {
        let mut part = part;
        for _ in 0..COPIES_AT_MOST {
            match self.source_of(function, part).map(|source| source.kind) {
                Some(OperandKind::Value(copied)) => part = copied,
                Some(OperandKind::Integer(number)) => return Some(Word::Integer(number as u32)),
                Some(OperandKind::Zero(File::General | File::Uniform)) => return Some(Word::Integer(0)),
                Some(OperandKind::Constant { bank, offset }) => return Some(Word::Constant { bank, offset }),
                Some(_) => return None,
                None => return self.loaded(function, part),
            }
        }
        None
    }

    /// A register that was loaded from a fixed place in a constant bank.
    fn loaded(&self, function: &Function, part: Part) -> Option<Word> {
        let inst = self.of(part.value)?;
        let data = &function.insts[inst];
        let is_load = matches!(data.op, Op::Machine(Opcode::LDC | Opcode::ULDC | Opcode::LDCU)) && data.guard.is_none();
        if !is_load {
            return None;
        }
        let is_words = data.modifiers.iter().all(|&modifier| modifier == Symbol::_64 || modifier == Symbol::_128);
        let [_, source] = function.operands(inst) else { return None };
        match source.kind {
            OperandKind::Constant { bank, offset } if is_words => Some(Word::Constant { bank, offset: offset + 4 * u32::from(part.first) }),
            _ => None,
        }
    }
}

impl Definitions {
    /// Consecutive registers, seen through copies and packs, where they are consecutive registers of one value again, aligned as a
    /// group of their size must be.
    #[inline]
    pub(crate) fn origin_of_all(&self, function: &Function, part: Part) -> Part {
        if self.copy_of(function, part.value).is_none() { part } else { self.origin_of_copies(function, part) }
    }

    fn origin_of_copies(&self, function: &Function, part: Part) -> Part {
        let first = self.origin(function, piece(part, 0));
        let needed = Class::new(File::General, part.count).align;
        let is_aligned = first.first.is_multiple_of(needed) && function.values[first.value].align >= needed;
        let follows = |at: u8| {
            let found = self.origin(function, piece(part, at));
            found.value == first.value && found.first == first.first + at
        };
        if part.count == 1 || is_aligned && (1..part.count).all(follows) { Part { count: part.count, ..first } } else { part }
    }
}

/// One register of an operand without signs.
fn within(operand: Operand, number: u8) -> Option<Operand> {
    if !operand.signs.is_empty() {
        return None;
    }
    match operand.kind {
        OperandKind::Value(part) => (number < part.count).then(|| piece(part, number).into()),
        OperandKind::Integer(bits) if number < 2 => Some(i64::from((bits >> (32 * u32::from(number))) as u32).into()),
        OperandKind::Zero(_) => Some(operand),
        OperandKind::Constant { bank, offset } => Some(Operand::constant(bank, offset + 4 * u32::from(number))),
        _ if number == 0 => Some(operand),
        _ => None,
    }
}
