//! An instruction to be built, and a cursor over its operands.
//!
//! Family modules access an instruction through [`Site`]: modifiers by spelling, operands through the cursor [`Operands`], which resolves
//! each one to a [`Source`], a [`Destination`] or a predicate. Constants `c[bank][offset]` become immediates, because a program is built
//! for one launch. The decoder yields every operand of the form, including those that the text omits.

use oriole_isa::{Instruction, NumberFormat, Opcode, Operand, OperandValue, RegFile, Target};

use super::constants::ConstantBanks;
use super::step::UnsupportedInst;
use super::warp::{Destination, PredicateDestination, PredicateSource, Row, Source, WideSource};

/// An instruction, its address, and the constants of its launch.
#[derive(Clone, Copy)]
pub struct Site<'a> {
    pub instruction: &'a Instruction,
    pub target: Target,
    /// Address of the instruction in the code space.
    pub address: u64,
    /// Address of its code section.
    pub section: u64,
    pub constants: &'a ConstantBanks,
    /// Number of general registers per thread.
    pub registers: u16,
}

/// A 32-bit source operand with its sign modifiers.
#[derive(Clone, Copy, Debug)]
pub struct Input {
    pub source: Source,
    /// `-x`
    pub negate: bool,
    /// `|x|`
    pub absolute: bool,
    /// `~x`
    pub invert: bool,
}

/// A 64-bit source operand with its sign modifiers.
#[derive(Clone, Copy, Debug)]
pub struct WideInput {
    pub source: WideSource,
    pub negate: bool,
    pub absolute: bool,
    pub invert: bool,
}

impl<'a> Site<'a> {
    pub fn opcode(&self) -> Opcode {
        self.instruction.opcode
    }

    /// Returns whether the mnemonic has a modifier, such as `.FTZ`.
    pub fn has(&self, spelling: &str) -> bool {
        self.instruction.modifiers.iter().any(|symbol| symbol.spelling() == spelling)
    }

    /// Returns the value paired with the first of these modifiers that the mnemonic has.
    pub(crate) fn one_of<T: Copy>(&self, choices: &[(&str, T)]) -> Option<T> {
        choices.iter().find(|(spelling, _)| self.has(spelling)).map(|&(_, value)| value)
    }

    /// Returns a cursor at the first operand.
    pub fn operands(&self) -> Operands<'a> {
        Operands { site: *self, at: 0 }
    }

    /// Makes an error that names the unsupported feature.
    pub fn unsupported(&self, what: impl Into<String>) -> UnsupportedInst {
        UnsupportedInst(what.into())
    }

    /// Checks that the kernel has `count` general registers from `number` on; returns `number` unchanged.
    pub fn checked(&self, number: Option<u16>, count: u16) -> Result<Option<u16>, UnsupportedInst> {
        match number {
            Some(first) if first + count > self.registers => {
                Err(UnsupportedInst(format!("register R{} beyond the {} that the kernel has", first + count - 1, self.registers)))
            }
            _ => Ok(number),
        }
    }

    /// Returns the guard predicate.
    pub fn guard(&self) -> PredicateSource {
        let guard = self.instruction.guard;
        PredicateSource::new((guard.predicate != 7).then_some(guard.predicate), guard.uniform, guard.negated)
    }
}

/// Returns the suffixes of an operand. For a constant, the decoder stores them with the address parts.
pub fn suffixes(operand: &Operand) -> impl Iterator<Item = &'static str> {
    let parts = if let OperandValue::Address(address) = &operand.value { &address.parts[..] } else { &[] };
    operand.suffixes.iter().chain(parts.iter().flat_map(|part| &part.suffixes)).map(|symbol| symbol.spelling())
}

/// A cursor over the operands of an instruction.
#[derive(Clone)]
pub struct Operands<'a> {
    site: Site<'a>,
    at: usize,
}

impl<'a> Operands<'a> {
    /// Returns the next operand without advancing.
    pub fn peek(&self) -> Option<&'a Operand> {
        self.site.instruction.operands.get(self.at)
    }

    /// Returns the next operand as decoded and advances.
    pub fn take(&mut self) -> Result<&'a Operand, UnsupportedInst> {
        let operand = self.peek().ok_or_else(|| UnsupportedInst("too few operands".into()))?;
        self.at += 1;
        Ok(operand)
    }

    /// Returns whether the operand taken last has a suffix such as `.H0_H0`.
    pub(crate) fn last_has(&self, spelling: &str) -> bool {
        let last = self.at.checked_sub(1).and_then(|at| self.site.instruction.operands.get(at));
        last.is_some_and(|operand| suffixes(operand).any(|suffix| suffix == spelling))
    }

    /// Returns the number of remaining operands.
    pub fn left(&self) -> usize {
        self.site.instruction.operands.len() - self.at
    }

    /// Returns whether the next operand is a predicate of either datapath.
    pub(crate) fn next_is_predicate(&self) -> bool {
        matches!(self.peek().map(|operand| &operand.value), Some(OperandValue::Register(RegFile::Predicate | RegFile::UniformPredicate, _)))
    }

    /// Takes a destination register of either datapath.
    pub fn destination(&mut self) -> Result<Destination, UnsupportedInst> {
        self.wide_destination(1)
    }

    /// Takes the first of `count` consecutive destination registers.
    pub(crate) fn wide_destination(&mut self, count: u16) -> Result<Destination, UnsupportedInst> {
        match self.take()?.value {
            OperandValue::Register(RegFile::General, number) => {
                Ok(Destination::General(Row::destination(self.site.checked(number, count)?)))
            }
            OperandValue::Register(RegFile::Uniform, number) => Ok(Destination::Uniform(Row::destination(number))),
            ref other => Err(UnsupportedInst(format!("expected a register to write, found {other:?}"))),
        }
    }

    /// Takes a destination predicate of either datapath.
    pub(crate) fn predicate_destination(&mut self) -> Result<PredicateDestination, UnsupportedInst> {
        match self.take()?.value {
            OperandValue::Register(RegFile::Predicate, number) => Ok(PredicateDestination::new(number.map(|number| number as u8), false)),
            OperandValue::Register(RegFile::UniformPredicate, number) => {
                Ok(PredicateDestination::new(number.map(|number| number as u8), true))
            }
            ref other => Err(UnsupportedInst(format!("expected a predicate to write, found {other:?}"))),
        }
    }

    /// Takes a source predicate.
    pub fn predicate(&mut self) -> Result<PredicateSource, UnsupportedInst> {
        let operand = self.take()?;
        match operand.value {
            OperandValue::Register(RegFile::Predicate, number) => {
                Ok(PredicateSource::new(number.map(|number| number as u8), false, operand.not))
            }
            OperandValue::Register(RegFile::UniformPredicate, number) => {
                Ok(PredicateSource::new(number.map(|number| number as u8), true, operand.not))
            }
            ref other => Err(UnsupportedInst(format!("expected a predicate, found {other:?}"))),
        }
    }

    /// Takes a source predicate if one is next; otherwise returns `PT`.
    pub(crate) fn optional_predicate(&mut self) -> Result<PredicateSource, UnsupportedInst> {
        if self.next_is_predicate() { self.predicate() } else { Ok(PredicateSource::TRUE) }
    }

    /// Takes a 32-bit source: a register of either datapath, a number, or a constant.
    pub fn input(&mut self) -> Result<Input, UnsupportedInst> {
        let operand = self.take()?;
        let source = match &operand.value {
            OperandValue::Register(RegFile::General, number) => Source::General(Row::source(self.site.checked(*number, 1)?)),
            OperandValue::Register(RegFile::Uniform, number) => Source::Uniform(Row::source(*number)),
            OperandValue::Integer(value) => Source::Immediate(*value as u32),
            OperandValue::Float(_, bits) => Source::Immediate(*bits as u32),
            value => Source::Immediate(self.constant(value, 4)? as u32),
        };
        let Operand { negate, absolute, invert, .. } = *operand;
        Ok(Input { source, negate, absolute, invert })
    }

    /// Takes a 64-bit source: a register pair, a constant, the upper half of a double, or a sign-extended number.
    pub(crate) fn wide_input(&mut self) -> Result<WideInput, UnsupportedInst> {
        let operand = self.take()?;
        let source = match &operand.value {
            OperandValue::Register(RegFile::General, number) => WideSource::General(Row::source(self.site.checked(*number, 2)?)),
            OperandValue::Register(RegFile::Uniform, number) => WideSource::Uniform(Row::source(*number)),
            OperandValue::Float(NumberFormat::F64High, bits) => WideSource::Immediate(bits << 32),
            OperandValue::Float(_, bits) => WideSource::Immediate(*bits),
            OperandValue::Integer(value) => WideSource::Immediate(*value as u64),
            value => WideSource::Immediate(self.constant(value, 8)?),
        };
        let Operand { negate, absolute, invert, .. } = *operand;
        Ok(WideInput { source, negate, absolute, invert })
    }

    /// Takes a general register as the first of `count` that are read, and returns its row.
    pub fn rows(&mut self, count: u16) -> Result<Row, UnsupportedInst> {
        match self.take()?.value {
            OperandValue::Register(RegFile::General, number) => Ok(Row::source(self.site.checked(number, count)?)),
            ref other => Err(UnsupportedInst(format!("expected a register, found {other:?}"))),
        }
    }

    /// Takes a plain number, such as the truth table of `LOP3`.
    pub fn number(&mut self) -> Result<i64, UnsupportedInst> {
        match self.take()?.value {
            OperandValue::Integer(value) => Ok(value),
            ref other => Err(UnsupportedInst(format!("expected a number, found {other:?}"))),
        }
    }

    /// Returns the value of `c[bank][offset]`.
    fn constant(&self, value: &OperandValue, bytes: u32) -> Result<u64, UnsupportedInst> {
        let OperandValue::Address(address) = value else {
            return Err(UnsupportedInst(format!("cannot read an operand {value:?}")));
        };
        match &address.parts[..] {
            [bank, offset]
                if address.word.spelling() == "c" && bank.registers.is_empty() && offset.registers.iter().all(|r| r.number.is_none()) =>
            {
                let offset = ConstantBanks::fixed_offset(offset.offset.unwrap_or(0));
                Ok(self.site.constants.read(bank.offset.unwrap_or(0) as u32, offset, bytes))
            }
            _ => Err(UnsupportedInst(format!("operand in memory `{}[...]` that depends on registers", address.word.spelling()))),
        }
    }
}
