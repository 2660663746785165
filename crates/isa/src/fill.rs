//! Encodes an instruction in one given form. Fails if a modifier or an operand has no place in the form.
//!
//! The module `select` tries the forms of a mnemonic; this module decides whether one form fits. Modifiers are matched greedily first and
//! by backtracking only if the greedy match fails. Some bits are printed at two places of the text; both places must then agree,
//! which [`Filler::assign`] checks.

use crate::alias;
use crate::float;
use crate::instruction::{AddressPart, AddressRegister, BranchNumber, Instruction, Operand, OperandValue};
use crate::table::{self, Bits, BracketPart, Core, FieldId, FieldSpec, Form, NumberFormat, Piece, RegFile, Sign, Slot, Symbol, Term};

/// Largest number of modifiers in the spelling of one field value.
const LONGEST_SPELLING: usize = 6;
/// Size of a constant bank in bytes.
const BANK_BYTES: i64 = 0x1_0000;

impl FieldSpec {
    /// Returns the value whose spelling is the longest prefix of `symbols`, and the length of that spelling in symbols.
    #[inline]
    fn longest(&self, symbols: &[Symbol]) -> Option<(u64, usize)> {
        let nothing = || self.nothing.map(|value| (u64::from(value), 0));
        let Some(first) = symbols.first() else { return nothing() };
        // `firsts` is a 64-bit Bloom filter over the first symbols of all spellings; a clear bit rules out every non-empty spelling.
        if self.firsts >> (first.0 & 63) & 1 == 0 {
            return self.invalid(symbols).or_else(nothing);
        }
        let mut best: Option<(u64, usize)> = None;
        for (value, spelling) in self.spellings.iter().enumerate() {
            let Some(spelling) = spelling else { continue };
            if spelling.first() == Some(first) && symbols.starts_with(spelling) && best.is_none_or(|(_, length)| spelling.len() > length) {
                best = Some((value as u64, spelling.len()));
            }
        }
        best.or_else(|| self.invalid(symbols)).or_else(nothing)
    }

    /// Returns the value that an `.INVALIDn` symbol at the front of `symbols` names, if that value has no spelling, and the length 1.
    fn invalid(&self, symbols: &[Symbol]) -> Option<(u64, usize)> {
        let value = symbols.first()?.invalid_value()?;
        self.spellings.get(value as usize)?.is_none().then_some((value, 1))
    }
}

/// A partially encoded word and the set of bits assigned so far.
#[derive(Clone, Copy)]
pub(crate) struct Filler {
    /// The word; bits not assigned yet have the form's default.
    pub(crate) word: u128,
    /// Bits that a modifier or operand has set. Assigning such a bit again must give the same value.
    assigned: u128,
    /// Whether an absent operand other than a predicate was filled with its default.
    pub(crate) assumed: bool,
}

impl Filler {
    pub(crate) fn new(form: &Form) -> Filler {
        Filler { word: form.default, assigned: 0, assumed: false }
    }

    /// Encodes a whole instruction; returns `None` if the form cannot hold it.
    pub(crate) fn run(mut self, form: &Form, instruction: &Instruction) -> Option<Filler> {
        let guard = instruction.guard;
        if guard.uniform != (form.guard == table::GuardKind::Uniform) && !guard.is_always()
            || form.guard == table::GuardKind::None && !guard.is_always()
        {
            return None;
        }
        self.word |= u128::from(guard.predicate & 7) << 12 | u128::from(guard.negated) << 15;
        let fits = self.pieces(form.modifiers, &instruction.modifiers) && self.operands(form.operands, &instruction.operands);
        self.word |= instruction.control.bits();
        (fits && !form.excludes(self.word)).then_some(self)
    }

    /// Stores a value in `bits`; returns false if those bits are already assigned another value.
    #[inline]
    fn assign(&mut self, bits: &Bits, stored: u64) -> bool {
        let (mask, value) = (bits.mask, bits.place(stored));
        if (self.word ^ value) & mask & self.assigned != 0 {
            return false;
        }
        self.assigned |= mask;
        self.word = self.word & !mask | value;
        true
    }

    fn assign_bit(&mut self, bit: u8, value: bool) {
        self.assigned |= 1 << bit;
        self.word = self.word & !(1 << bit) | u128::from(value) << bit;
    }

    /// Matches all modifiers to the pieces of a form; returns false if that is not possible. Tries a greedy match first (the longest
    /// spelling at each field), and searches all matches only if the greedy one fails.
    #[inline]
    pub(crate) fn pieces(&mut self, pieces: &[Piece], symbols: &[Symbol]) -> bool {
        // Most operands have no suffixes.
        if pieces.is_empty() { symbols.is_empty() } else { self.nonempty_pieces(pieces, symbols) }
    }

    /// Does the same as [`Filler::pieces`] for a form that has any piece.
    fn nonempty_pieces(&mut self, pieces: &[Piece], symbols: &[Symbol]) -> bool {
        let start = *self;
        if self.take(pieces, symbols) {
            return true;
        }
        *self = start;
        match start.search(pieces, symbols) {
            Some(found) => *self = found,
            None => return false,
        }
        true
    }

    /// Matches modifiers greedily, from left to right.
    fn take(&mut self, pieces: &[Piece], mut symbols: &[Symbol]) -> bool {
        for piece in pieces {
            match *piece {
                Piece::Literal(symbol) => match symbols.split_first() {
                    Some((first, rest)) if *first == symbol => symbols = rest,
                    _ => return false,
                },
                Piece::Flag { symbol, bit, when } => {
                    let found = symbols.first() == Some(&symbol);
                    self.assign_bit(bit, found == when);
                    symbols = &symbols[usize::from(found)..];
                }
                Piece::Field(id) => {
                    let field = id.field();
                    let Some((value, length)) = field.longest(symbols) else { return false };
                    if !self.assign(&field.bits, value) {
                        return false;
                    }
                    symbols = &symbols[length..];
                }
                Piece::Alias => {
                    let is_derived = symbols.first().is_some_and(|first| alias::is_derived(*first));
                    symbols = &symbols[usize::from(is_derived)..];
                }
                Piece::Reuse(_) => {}
            }
        }
        symbols.is_empty()
    }

    /// Matches modifiers by backtracking over all alternatives.
    fn search(mut self, pieces: &[Piece], symbols: &[Symbol]) -> Option<Filler> {
        let Some((piece, rest)) = pieces.split_first() else { return symbols.is_empty().then_some(self) };
        match *piece {
            Piece::Literal(symbol) => {
                let (first, symbols) = symbols.split_first()?;
                if *first == symbol { self.search(rest, symbols) } else { None }
            }
            Piece::Flag { symbol, bit, when } => {
                if symbols.first() == Some(&symbol) {
                    let mut set = self;
                    set.assign_bit(bit, when);
                    if let Some(filled) = set.search(rest, &symbols[1..]) {
                        return Some(filled);
                    }
                }
                self.assign_bit(bit, !when);
                self.search(rest, symbols)
            }
            Piece::Field(id) => self.search_field(id, rest, symbols),
            Piece::Reuse(_) => self.search(rest, symbols),
            Piece::Alias => match symbols.split_first() {
                Some((first, symbols)) if alias::is_derived(*first) => self.search(rest, symbols),
                _ => self.search(rest, symbols),
            },
        }
    }

    /// Tries the values of a field whose spelling is a prefix of `symbols`, longer spellings first.
    fn search_field(self, id: FieldId, rest: &[Piece], symbols: &[Symbol]) -> Option<Filler> {
        let field = id.field();
        if let Some((value, length)) = field.invalid(symbols) {
            let mut set = self;
            if set.assign(&field.bits, value)
                && let Some(filled) = set.search(rest, &symbols[length..])
            {
                return Some(filled);
            }
        }
        for length in (0..=symbols.len().min(LONGEST_SPELLING)).rev() {
            for (value, _) in field.spellings.iter().enumerate().filter(|(_, spelling)| **spelling == Some(&symbols[..length])) {
                let mut set = self;
                if set.assign(&field.bits, value as u64)
                    && let Some(filled) = set.search(rest, &symbols[length..])
                {
                    return Some(filled);
                }
            }
        }
        None
    }

    /// Matches operands to slots. Leaves out an optional slot only if the match fails otherwise.
    pub(crate) fn operands(&mut self, slots: &[Slot], operands: &[Operand]) -> bool {
        if slots.len() == operands.len() {
            return slots.iter().zip(operands).all(|(slot, operand)| self.slot(slot, operand));
        }
        let Some((slot, rest)) = slots.split_first() else { return operands.is_empty() };
        let start = *self;
        if let Some((operand, others)) = operands.split_first()
            && self.slot(slot, operand)
            && self.operands(rest, others)
        {
            return true;
        }
        *self = start;
        operands.len() < slots.len() && self.leave_out(slot) && self.operands(rest, operands)
    }

    /// Fills a slot that has no operand with its default; returns false if the slot is not optional.
    fn leave_out(&mut self, slot: &Slot) -> bool {
        let Some(default) = slot.optional else { return false };
        let bits = match &slot.core {
            Core::Register(_, bits) | Core::Number(_, bits) => bits,
            Core::Field(id) => &id.field().bits,
            _ => return false,
        };
        // The defaults of the sign bits are "no sign".
        for sign in [slot.not, slot.negate, slot.invert, slot.absolute] {
            if let Sign::When(bit, when) = sign {
                self.assign_bit(bit, !when);
            }
        }
        self.assumed |= slot.hidden || matches!(slot.core, Core::Register(RegFile::General | RegFile::Uniform, _));
        self.assign(bits, default) && self.pieces(slot.suffixes, &[])
    }

    /// Returns the number of operands, counted from the first, that can be placed. For error messages.
    pub(crate) fn placed(self, slots: &[Slot], operands: &[Operand]) -> usize {
        let (Some((slot, rest)), Some((operand, others))) = (slots.split_first(), operands.split_first()) else { return 0 };
        let mut filled = self;
        let with = if filled.slot(slot, operand) { 1 + filled.placed(rest, others) } else { 0 };
        let without = if slot.optional.is_some() { self.placed(rest, operands) } else { 0 };
        with.max(without)
    }

    /// Stores an operand with its sign operators, reuse flag and suffixes in a slot.
    fn slot(&mut self, slot: &Slot, operand: &Operand) -> bool {
        let signs =
            [(slot.negate, operand.negate), (slot.invert, operand.invert), (slot.not, operand.not), (slot.absolute, operand.absolute)];
        for (sign, wanted) in signs {
            match sign {
                Sign::Never if wanted => return false,
                Sign::Always if !wanted => return false,
                Sign::When(bit, when) => self.assign_bit(bit, wanted == when),
                _ => {}
            }
        }
        if operand.reuse {
            let bit = slot.suffixes.iter().find_map(|piece| if let Piece::Reuse(bit) = piece { Some(*bit) } else { None });
            let Some(bit) = bit else { return false };
            self.word |= 1 << bit;
        }
        self.core(&slot.core, &operand.value) && self.pieces(slot.suffixes, &operand.suffixes)
    }

    /// Stores the value of an operand in its slot; returns false if kind, register file or range does not fit.
    fn core(&mut self, core: &Core, value: &OperandValue) -> bool {
        match (core, value) {
            (Core::Register(file, bits), OperandValue::Register(given, number)) => *file == *given && self.register(*file, bits, *number),
            (Core::Number(NumberFormat::Relative, bits), OperandValue::Relative(distance)) => self.offset(bits, *distance),
            (Core::Number(NumberFormat::Set, bits), OperandValue::Set(members)) => *members <= bits.limit() && self.assign(bits, *members),
            (Core::Number(NumberFormat::Relative, bits), OperandValue::Place(place)) => self.offset(bits, place.distance),
            (Core::Number(format, bits), OperandValue::Integer(number) | OperandValue::Place(BranchNumber { number, .. }))
                if is_integer(*format) =>
            {
                self.integer(*format, bits, *number)
            }
            (Core::Number(format, bits), OperandValue::Float(given, stored)) => format == given && self.assign(bits, *stored),
            (Core::Number(format, bits), OperandValue::Real(number)) if is_float(*format) => {
                self.assign(bits, float::bits(*format, *number))
            }
            // An integer for a float operand is its encoding: `0x7ff00000`.
            (Core::Number(format, bits), OperandValue::Integer(stored)) if is_float(*format) => {
                u64::try_from(*stored).is_ok_and(|stored| stored <= bits.limit() && self.assign(bits, stored))
            }
            (Core::Number(format, bits), OperandValue::Nan { negative, quiet }) if is_float(*format) => {
                self.assign(bits, float::nan(*format, *negative, *quiet))
            }
            (Core::RegisterAndNumber(file, register, format, bits), OperandValue::RegisterAndNumber(given, number, place)) => {
                let fits = *file == *given && self.register(*file, register, *number);
                let is_relative = *format == NumberFormat::Relative;
                fits && if is_relative { self.offset(bits, place.distance) } else { self.integer(*format, bits, place.number) }
            }
            (Core::RegisterAndNumber(file, register, format, bits), OperandValue::Register(given, number)) => {
                *file == *given && self.register(*file, register, *number) && self.integer(*format, bits, 0)
            }
            (Core::Literal(name), OperandValue::Name(given)) => name == given,
            // The parser reads a fixed operand such as `0x1` as a number and `PT` as a register.
            (Core::Literal(name), OperandValue::Integer(number)) => name.spelling() == format!("{number:#x}"),
            (Core::Literal(name), OperandValue::Register(file, None)) => {
                name.spelling().strip_prefix(file.prefix()).is_some_and(|letter| letter.chars().eq(file.constant_letter()))
            }
            (Core::Field(id), OperandValue::Name(given)) => self.name(*id, *given),
            (Core::Address(word, parts), OperandValue::Address(address)) => {
                *word == address.word
                    && parts.len() == address.parts.len()
                    && parts.iter().zip(&address.parts).all(|(part, given)| self.part(part, given))
            }
            _ => false,
        }
    }

    fn name(&mut self, id: FieldId, name: Symbol) -> bool {
        let field = id.field();
        if let Some(value) = name.invalid_value() {
            let has_no_spelling = field.spellings.get(value as usize).is_some_and(|spelling| spelling.is_none_or(<[Symbol]>::is_empty));
            return has_no_spelling && self.assign(&field.bits, value);
        }
        let value = field.spellings.iter().position(|spelling| *spelling == Some(&[name]));
        value.is_some_and(|value| self.assign(&field.bits, value as u64))
    }

    /// Stores a register number; `None` is the constant register (`RZ`, `PT`).
    fn register(&mut self, file: RegFile, bits: &Bits, number: Option<u16>) -> bool {
        let (limit, bias) = (bits.limit(), u64::from(bits.bias));
        let Some(number) = number else {
            // The second register of a pair has the same bits as the first, plus a bias. If the first register is already the
            // constant one or the last before it, the second prints as the constant register and needs no other bits.
            let is_before_constant = bias > 0 && self.assigned & bits.mask != 0 && bits.unsigned(self.word) + bias >= limit;
            return is_before_constant || self.assign(bits, if bits.complemented { 0 } else { limit });
        };
        if u32::from(number) % bits.scale != 0 || u64::from(number) / u64::from(bits.scale) < bias {
            return false;
        }
        let printed = u64::from(number) / u64::from(bits.scale);
        if printed > limit || file.constant_letter().is_some() && printed == limit {
            return false;
        }
        let stored = printed - bias;
        self.assign(bits, if bits.complemented { !stored & limit } else { stored })
    }

    /// Stores a number that fits either as unsigned or as signed, because instructions compute modulo the width of the operand. Negative
    /// numbers are accepted in unsigned fields only if the field is at least 32 bits wide.
    fn integer(&mut self, format: NumberFormat, bits: &Bits, number: i64) -> bool {
        let Some(number) = unscaled(bits, number) else { return false };
        let fits = match number {
            0.. => number as u64 <= bits.limit(),
            _ if format == NumberFormat::Unsigned && bits.width < 32 => false,
            _ => is_signed(bits, number),
        };
        fits && self.assign(bits, number as u64 & bits.limit())
    }

    /// Stores an offset in a constant bank without a register. If the field, scaled, is exactly as wide as the bank is large, offsets in
    /// the upper half of the bank are stored and printed as negative numbers: `c[0x3][-0x8000]` is the constant at 0x8000. If the field
    /// is wider, offsets in the upper half are stored as they are.
    fn bank_offset(&mut self, bits: &Bits, number: i64) -> bool {
        let wraps = (0..BANK_BYTES).contains(&number) && u32::from(bits.width) + bits.scale.ilog2() == BANK_BYTES.ilog2();
        if wraps { self.integer(NumberFormat::SignedAlone, bits, number) } else { self.offset(bits, number) }
    }

    /// Stores a signed number. Used for offsets, which are added to a wider value.
    fn offset(&mut self, bits: &Bits, number: i64) -> bool {
        let number = unscaled(bits, number).filter(|&number| is_signed(bits, number));
        number.is_some_and(|number| self.assign(bits, number as u64 & bits.limit()))
    }

    /// Stores the contents of one pair of brackets of an address.
    fn part(&mut self, part: &BracketPart, given: &AddressPart) -> bool {
        let mut registers: &[AddressRegister] = &given.registers;
        let mut offset = given.offset;
        for term in part.terms {
            let fits = match term {
                Term::Register { file, bits, suffixes, omit } => match registers.split_first() {
                    Some((register, others)) if register.file == *file => {
                        registers = others;
                        let says_nothing = *omit && register.number.is_none() && register.suffixes.is_empty();
                        self.register(*file, bits, register.number) && (self.pieces(suffixes, &register.suffixes) || says_nothing)
                    }
                    // The text has no register for this term: assume the zero register, if the term may be omitted.
                    _ => {
                        self.assumed = true;
                        let is_zero = *omit && self.register(*file, bits, None);
                        // The modifiers of an omitted register are not printed either; a failure to match "no modifiers" is therefore no
                        // error.
                        if is_zero {
                            self.pieces(suffixes, &[]);
                        }
                        is_zero
                    }
                },
                Term::Number(format, bits) => {
                    let number = offset.take().unwrap_or_default();
                    let has_register = given.registers.iter().any(|register| register.number.is_some());
                    match format {
                        NumberFormat::Unsigned => self.integer(*format, bits, number),
                        NumberFormat::SignedAlone if !has_register => self.bank_offset(bits, number),
                        NumberFormat::SignedAlone => self.offset(bits, number),
                        _ if given.registers.is_empty() => self.integer(*format, bits, number),
                        _ => self.offset(bits, number),
                    }
                }
            };
            if !fits {
                return false;
            }
        }
        registers.is_empty() && offset.is_none_or(|offset| offset == 0) && self.pieces(part.suffixes, &given.suffixes)
    }
}

/// Divides a number by the scale of `bits`; returns `None` if it is not a multiple of the scale.
fn unscaled(bits: &Bits, number: i64) -> Option<i64> {
    let scale = i64::from(bits.scale);
    (number % scale == 0).then_some(number / scale)
}

/// Returns whether a signed field of this width can hold `number`.
fn is_signed(bits: &Bits, number: i64) -> bool {
    let unused = 64 - u32::from(bits.width);
    number << unused >> unused == number
}

fn is_integer(format: NumberFormat) -> bool {
    matches!(format, NumberFormat::Unsigned | NumberFormat::Signed | NumberFormat::SignedAlone | NumberFormat::Absolute)
}

fn is_float(format: NumberFormat) -> bool {
    matches!(format, NumberFormat::F32 | NumberFormat::F64High | NumberFormat::F16 | NumberFormat::Bf16)
}
