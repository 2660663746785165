//! A decoded instruction at its place, and its operands one after another.
//!
//! Family modules see an instruction through [`Site`]: modifiers by spelling, operands through the cursor [`Operands`], which resolves each
//! of them to a [`Source`], a [`Place`] or a predicate. Constants `c[bank][offset]` become immediates, because a program is built for one
//! launch. The decoder gives every operand that the form has, also those that the text leaves out.

use oriole_isa::{File, Format, Instruction, Opcode, Operand, Target, Value};

use super::constants::Constants;
use super::step::Unsupported;
use super::warp::{Place, PredicatePlace, PredicateSource, Row, Source, WideSource};

/// An instruction, where it is, and what its launch knows.
#[derive(Clone, Copy)]
pub struct Site<'a> {
    pub instruction: &'a Instruction,
    pub target: Target,
    /// Address of the instruction in the code space.
    pub address: u64,
    /// Address of the section that it is in.
    pub section: u64,
    pub constants: &'a Constants,
    /// General registers that each thread has.
    pub registers: u16,
}

/// A 32-bit operand with its signs.
#[derive(Clone, Copy, Debug)]
pub struct Input {
    pub source: Source,
    /// `-`
    pub negate: bool,
    /// `|`
    pub absolute: bool,
    /// `~`
    pub invert: bool,
}

/// A 64-bit operand with its signs.
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

    /// Whether the mnemonic has a modifier, such as `.FTZ`.
    pub fn has(&self, spelling: &str) -> bool {
        self.instruction.modifiers.iter().any(|symbol| symbol.spelling() == spelling)
    }

    /// The first of these modifiers that the mnemonic has.
    pub fn one_of<T: Copy>(&self, choices: &[(&str, T)]) -> Option<T> {
        choices.iter().find(|(spelling, _)| self.has(spelling)).map(|&(_, value)| value)
    }

    /// Its operands, from the first on.
    pub fn operands(&self) -> Operands<'a> {
        Operands { site: *self, at: 0 }
    }

    /// An error that says what is missing.
    pub fn unsupported(&self, what: impl Into<String>) -> Unsupported {
        Unsupported(what.into())
    }

    /// The number of the first of `count` general registers, if the kernel has them all.
    pub fn checked(&self, number: Option<u16>, count: u16) -> Result<Option<u16>, Unsupported> {
        match number {
            Some(first) if first + count > self.registers => {
                Err(Unsupported(format!("register R{} beyond the {} that the kernel has", first + count - 1, self.registers)))
            }
            _ => Ok(number),
        }
    }

    /// The predicate that guards it.
    pub fn guard(&self) -> PredicateSource {
        let guard = self.instruction.guard;
        PredicateSource::new((guard.predicate != 7).then_some(guard.predicate), guard.uniform, guard.negated)
    }
}

/// What stands behind an operand; behind a constant's brackets it is kept with them.
pub fn suffixes(operand: &Operand) -> impl Iterator<Item = &'static str> {
    let parts = if let Value::Address(address) = &operand.value { &address.parts[..] } else { &[] };
    operand.suffixes.iter().chain(parts.iter().flat_map(|part| &part.suffixes)).map(|symbol| symbol.spelling())
}

/// A cursor over the operands of an instruction.
#[derive(Clone)]
pub struct Operands<'a> {
    site: Site<'a>,
    at: usize,
}

impl<'a> Operands<'a> {
    /// The operand that comes next.
    pub fn peek(&self) -> Option<&'a Operand> {
        self.site.instruction.operands.get(self.at)
    }

    /// Takes the next operand as it is.
    pub fn take(&mut self) -> Result<&'a Operand, Unsupported> {
        let operand = self.peek().ok_or_else(|| Unsupported("too few operands".into()))?;
        self.at += 1;
        Ok(operand)
    }

    /// Whether a suffix such as `.H0_H0` stands behind the operand that was taken last.
    pub fn last_has(&self, spelling: &str) -> bool {
        let last = self.at.checked_sub(1).and_then(|at| self.site.instruction.operands.get(at));
        last.is_some_and(|operand| suffixes(operand).any(|suffix| suffix == spelling))
    }

    /// How many are left.
    pub fn left(&self) -> usize {
        self.site.instruction.operands.len() - self.at
    }

    /// Whether the next operand is a predicate of either datapath.
    pub fn next_is_predicate(&self) -> bool {
        matches!(self.peek().map(|operand| &operand.value), Some(Value::Register(File::Predicate | File::UniformPredicate, _)))
    }

    /// A register that is written, of either datapath.
    pub fn destination(&mut self) -> Result<Place, Unsupported> {
        self.wide_destination(1)
    }

    /// The first of `count` registers that are written.
    pub fn wide_destination(&mut self, count: u16) -> Result<Place, Unsupported> {
        match self.take()?.value {
            Value::Register(File::General, number) => Ok(Place::General(Row::destination(self.site.checked(number, count)?))),
            Value::Register(File::Uniform, number) => Ok(Place::Uniform(Row::destination(number))),
            ref other => Err(Unsupported(format!("expected a register to write, found {other:?}"))),
        }
    }

    /// A predicate that is written, of either datapath.
    pub fn predicate_destination(&mut self) -> Result<PredicatePlace, Unsupported> {
        match self.take()?.value {
            Value::Register(File::Predicate, number) => Ok(PredicatePlace::new(number.map(|number| number as u8), false)),
            Value::Register(File::UniformPredicate, number) => Ok(PredicatePlace::new(number.map(|number| number as u8), true)),
            ref other => Err(Unsupported(format!("expected a predicate to write, found {other:?}"))),
        }
    }

    /// A predicate that is read.
    pub fn predicate(&mut self) -> Result<PredicateSource, Unsupported> {
        let operand = self.take()?;
        match operand.value {
            Value::Register(File::Predicate, number) => Ok(PredicateSource::new(number.map(|number| number as u8), false, operand.not)),
            Value::Register(File::UniformPredicate, number) => {
                Ok(PredicateSource::new(number.map(|number| number as u8), true, operand.not))
            }
            ref other => Err(Unsupported(format!("expected a predicate, found {other:?}"))),
        }
    }

    /// A predicate that is read, or `PT` if something else comes next.
    pub fn optional_predicate(&mut self) -> Result<PredicateSource, Unsupported> {
        if self.next_is_predicate() { self.predicate() } else { Ok(PredicateSource::TRUE) }
    }

    /// 32 bits: a register of either datapath, a number, or a constant.
    pub fn input(&mut self) -> Result<Input, Unsupported> {
        let operand = self.take()?;
        let source = match &operand.value {
            Value::Register(File::General, number) => Source::General(Row::source(self.site.checked(*number, 1)?)),
            Value::Register(File::Uniform, number) => Source::Uniform(Row::source(*number)),
            Value::Integer(value) => Source::Immediate(*value as u32),
            Value::Float(_, bits) => Source::Immediate(*bits as u32),
            value => Source::Immediate(self.constant(value, 4)? as u32),
        };
        let Operand { negate, absolute, invert, .. } = *operand;
        Ok(Input { source, negate, absolute, invert })
    }

    /// 64 bits: a pair of registers, a constant, the upper half of a double, or a number that is extended by its sign.
    pub fn wide_input(&mut self) -> Result<WideInput, Unsupported> {
        let operand = self.take()?;
        let source = match &operand.value {
            Value::Register(File::General, number) => WideSource::General(Row::source(self.site.checked(*number, 2)?)),
            Value::Register(File::Uniform, number) => WideSource::Uniform(Row::source(*number)),
            Value::Float(Format::F64High, bits) => WideSource::Immediate(bits << 32),
            Value::Float(_, bits) => WideSource::Immediate(*bits),
            Value::Integer(value) => WideSource::Immediate(*value as u64),
            value => WideSource::Immediate(self.constant(value, 8)?),
        };
        let Operand { negate, absolute, invert, .. } = *operand;
        Ok(WideInput { source, negate, absolute, invert })
    }

    /// The first row of `count` general registers that are read.
    pub fn rows(&mut self, count: u16) -> Result<Row, Unsupported> {
        match self.take()?.value {
            Value::Register(File::General, number) => Ok(Row::source(self.site.checked(number, count)?)),
            ref other => Err(Unsupported(format!("expected a register, found {other:?}"))),
        }
    }

    /// A plain number, such as the table of `LOP3`.
    pub fn number(&mut self) -> Result<i64, Unsupported> {
        match self.take()?.value {
            Value::Integer(value) => Ok(value),
            ref other => Err(Unsupported(format!("expected a number, found {other:?}"))),
        }
    }

    /// What `c[bank][offset]` holds.
    fn constant(&self, value: &Value, bytes: u32) -> Result<u64, Unsupported> {
        let Value::Address(address) = value else {
            return Err(Unsupported(format!("cannot read an operand {value:?}")));
        };
        match &address.parts[..] {
            [bank, offset]
                if address.word.spelling() == "c" && bank.registers.is_empty() && offset.registers.iter().all(|r| r.number.is_none()) =>
            {
                let offset = Constants::fixed_offset(offset.offset.unwrap_or(0));
                Ok(self.site.constants.read(bank.offset.unwrap_or(0) as u32, offset, bytes))
            }
            _ => Err(Unsupported(format!("operand in memory `{}[...]` that depends on registers", address.word.spelling()))),
        }
    }
}
