//! The contest: which form holds an instruction.
//!
//! Every form of the mnemonic on the target is a template. It matches when each modifier of the instruction has a place in it and
//! each operand fits its slot (kind, register file, width of a number, signs). Of those that match the one with the highest
//! priority wins; priority grows with what a template demands, so the most specific one is taken. If none matches, operands that
//! may change places are swapped and the contest is held again. Without a winner the error names the form that came closest.
//!
//! A decoded instruction remembers its form and keeps it as long as it fits: some texts have two encodings.

use std::fmt;

use smallvec::SmallVec;

use crate::Target;
use crate::alias;
use crate::float;
use crate::instruction::{AddressPart, AddressRegister, Instruction, Operand, Place, Value};
use crate::table::{self, Bits, Core, FieldId, File, Form, FormId, Format, Part, Piece, Sign, Slot, Symbol, Term};

/// Why an instruction has no encoding.
#[derive(Clone, PartialEq, Debug)]
pub struct EncodeError {
    message: String,
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for EncodeError {}

/// The word of an instruction on a target.
pub fn encode(instruction: &Instruction, target: Target) -> Result<u128, EncodeError> {
    select(instruction, target).map(|(_, word)| word)
}

/// The form that wins the contest, and the word.
pub fn select(instruction: &Instruction, target: Target) -> Result<(FormId, u128), EncodeError> {
    if let Some(kept) = kept(instruction, target) {
        return Ok(kept);
    }
    if let Some(winner) = contest(instruction, target) {
        return Ok(winner);
    }
    for swapped in swaps(instruction) {
        if let Some(winner) = contest(&swapped, target) {
            return Ok(winner);
        }
    }
    Err(explain(instruction, target))
}

/// The instruction with two sources exchanged, for each pair that allows it.
fn swaps(instruction: &Instruction) -> impl Iterator<Item = Instruction> {
    let sources: SmallVec<[usize; 6]> = instruction.written().iter().enumerate().filter(|entry| !entry.1).map(|entry| entry.0).collect();
    instruction.opcode.properties().commute.iter().filter_map(move |&(first, second)| {
        let mut swapped = instruction.clone();
        swapped.operands.swap(*sources.get(usize::from(first))?, *sources.get(usize::from(second))?);
        Some(swapped)
    })
}

/// The form that the instruction was decoded from, if it still holds it.
fn kept(instruction: &Instruction, target: Target) -> Option<(FormId, u128)> {
    let id = instruction.form?;
    let form = id.form();
    let fits = form.opcode == instruction.opcode && form.targets >> target.table_bit() & 1 == 1;
    let word = fits.then(|| fill(form, instruction))??;
    Some((id, word ^ instruction.residue))
}

/// Whether a form takes this number of operands.
fn takes_as_many(form: &Form, count: usize) -> bool {
    count <= form.operands.len() && form.operands.iter().filter(|slot| slot.optional.is_none()).count() <= count
}

fn contest(instruction: &Instruction, target: Target) -> Option<(FormId, u128)> {
    let mut best: Option<(u16, FormId, u128)> = None;
    for id in instruction.opcode.forms() {
        let form = id.form();
        if form.targets >> target.table_bit() & 1 == 0 || best.is_some_and(|best| best.0 >= form.priority) {
            continue;
        }
        if !takes_as_many(form, instruction.operands.len()) {
            continue;
        }
        let Some(filled) = Filler::new(form).run(form, instruction) else { continue };
        let priority = if filled.assumed { 0 } else { form.priority };
        if best.is_none_or(|best| best.0 < priority) {
            best = Some((priority, id, filled.word));
        }
    }
    best.map(|(_, id, word)| (id, word ^ instruction.residue))
}

/// The word of an instruction in a form, without residue; none if the form does not match.
pub(crate) fn fill(form: &Form, instruction: &Instruction) -> Option<u128> {
    Filler::new(form).run(form, instruction).map(|filled| filled.word)
}

/// How far a form got before something did not fit.
struct Mismatch {
    depth: usize,
    reason: String,
}

/// The word as far as it is filled, and which bits are.
#[derive(Clone, Copy)]
struct Filler {
    word: u128,
    assigned: u128,
    /// Whether an operand that was not given was taken to be its default, other than a predicate.
    assumed: bool,
}

impl Filler {
    fn new(form: &Form) -> Filler {
        Filler { word: form.default, assigned: 0, assumed: false }
    }

    fn run(mut self, form: &Form, instruction: &Instruction) -> Option<Filler> {
        let guard = instruction.guard;
        if guard.uniform != (form.guard == table::Guard::Uniform) && !guard.is_always()
            || form.guard == table::Guard::None && !guard.is_always()
        {
            return None;
        }
        self.word |= u128::from(guard.predicate & 7) << 12 | u128::from(guard.negated) << 15;
        let symbols: &[Symbol] = &instruction.modifiers;
        let filled = self.pieces(form.modifiers, symbols)?.operands(form.operands, &instruction.operands)?;
        Some(Filler { word: filled.word | instruction.control.bits(), ..filled })
    }

    /// Writes a stored value; false if other bits stand there already.
    #[inline]
    fn assign(&mut self, bits: &Bits, stored: u64) -> bool {
        let (mask, value) = (bits.mask(), bits.place(stored));
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

    /// Finds a place for every modifier; none if that is not possible.
    fn pieces(mut self, pieces: &[Piece], symbols: &[Symbol]) -> Option<Filler> {
        let Some((piece, rest)) = pieces.split_first() else { return symbols.is_empty().then_some(self) };
        match *piece {
            Piece::Literal(symbol) => {
                let (first, symbols) = symbols.split_first()?;
                if *first == symbol { self.pieces(rest, symbols) } else { None }
            }
            Piece::Flag { symbol, bit, when } => {
                if symbols.first() == Some(&symbol) {
                    let mut set = self;
                    set.assign_bit(bit, when);
                    if let Some(filled) = set.pieces(rest, &symbols[1..]) {
                        return Some(filled);
                    }
                }
                self.assign_bit(bit, !when);
                self.pieces(rest, symbols)
            }
            Piece::Field(id) => self.field(id, rest, symbols),
            Piece::Reuse(_) => self.pieces(rest, symbols),
            Piece::Alias => match symbols.split_first() {
                Some((first, symbols)) if alias::is_derived(*first) => self.pieces(rest, symbols),
                _ => self.pieces(rest, symbols),
            },
        }
    }

    /// Tries the values of a field whose spelling comes next, longer spellings first.
    fn field(self, id: FieldId, rest: &[Piece], symbols: &[Symbol]) -> Option<Filler> {
        let field = id.field();
        if let Some(value) = symbols.first().and_then(|symbol| symbol.invalid_value()) {
            let has_no_spelling = field.spellings.get(value as usize).is_some_and(Option::is_none);
            let mut set = self;
            if has_no_spelling
                && set.assign(&field.bits, value)
                && let Some(filled) = set.pieces(rest, &symbols[1..])
            {
                return Some(filled);
            }
        }
        // One look at each value finds the lengths worth trying; most fields have one.
        let mut first_of_length = [usize::MAX; LONGEST_SPELLING + 1];
        for (value, spelling) in field.spellings.iter().enumerate() {
            let Some(spelling) = spelling else { continue };
            if spelling.len() <= LONGEST_SPELLING && first_of_length[spelling.len()] == usize::MAX && symbols.starts_with(spelling) {
                first_of_length[spelling.len()] = value;
            }
        }
        for length in (0..=LONGEST_SPELLING).rev() {
            let first = first_of_length[length];
            let values = field.spellings.iter().enumerate().skip(first);
            for (value, _) in values.filter(|(_, spelling)| **spelling == Some(&symbols[..length])) {
                let mut set = self;
                if set.assign(&field.bits, value as u64)
                    && let Some(filled) = set.pieces(rest, &symbols[length..])
                {
                    return Some(filled);
                }
            }
        }
        None
    }

    fn operands(mut self, slots: &[Slot], operands: &[Operand]) -> Option<Filler> {
        let Some((slot, rest)) = slots.split_first() else { return operands.is_empty().then_some(self) };
        if let Some((operand, others)) = operands.split_first()
            && let Some(filled) = self.slot(slot, operand).and_then(|filled| filled.operands(rest, others))
        {
            return Some(filled);
        }
        if operands.len() >= slots.len() {
            return None;
        }
        let default = slot.optional?;
        let bits = match &slot.core {
            Core::Register(_, bits) | Core::Number(_, bits) => bits,
            Core::Field(id) => &id.field().bits,
            _ => return None,
        };
        for sign in [slot.not, slot.negate, slot.invert, slot.absolute] {
            if let Sign::When(bit, when) = sign {
                self.assign_bit(bit, !when);
            }
        }
        self.assign(bits, default).then_some(())?;
        self.assumed |= slot.hidden || matches!(slot.core, Core::Register(File::General | File::Uniform, _));
        self.pieces(slot.suffixes, &[])?.operands(rest, operands)
    }

    /// How many operands, from the first on, find a slot.
    fn placed(self, slots: &[Slot], operands: &[Operand]) -> usize {
        let (Some((slot, rest)), Some((operand, others))) = (slots.split_first(), operands.split_first()) else { return 0 };
        let with = self.slot(slot, operand).map_or(0, |filled| 1 + filled.placed(rest, others));
        let without = if slot.optional.is_some() { self.placed(rest, operands) } else { 0 };
        with.max(without)
    }

    fn slot(mut self, slot: &Slot, operand: &Operand) -> Option<Filler> {
        let signs =
            [(slot.negate, operand.negate), (slot.invert, operand.invert), (slot.not, operand.not), (slot.absolute, operand.absolute)];
        for (sign, wanted) in signs {
            match sign {
                Sign::Never if wanted => return None,
                Sign::Always if !wanted => return None,
                Sign::When(bit, when) => self.assign_bit(bit, wanted == when),
                _ => {}
            }
        }
        if operand.reuse {
            let bit = slot.suffixes.iter().find_map(|piece| if let Piece::Reuse(bit) = piece { Some(*bit) } else { None })?;
            self.word |= 1 << bit;
        }
        self.core(&slot.core, &operand.value)?.pieces(slot.suffixes, &operand.suffixes)
    }

    fn core(mut self, core: &Core, value: &Value) -> Option<Filler> {
        let fits = match (core, value) {
            (Core::Register(file, bits), Value::Register(given, number)) => *file == *given && self.register(*file, bits, *number),
            (Core::Number(Format::Relative, bits), Value::Relative(distance)) => self.offset(bits, *distance),
            (Core::Number(Format::Set, bits), Value::Set(members)) => *members <= bits.limit() && self.assign(bits, *members),
            (Core::Number(Format::Relative, bits), Value::Place(place)) => self.offset(bits, place.distance),
            (Core::Number(format, bits), Value::Integer(number) | Value::Place(Place { number, .. })) if is_integer(*format) => {
                self.integer(*format, bits, *number)
            }
            (Core::Number(format, bits), Value::Float(given, stored)) => format == given && self.assign(bits, *stored),
            (Core::Number(format, bits), Value::Real(number)) if is_float(*format) => self.assign(bits, float::bits(*format, *number)),
            (Core::Number(format, bits), Value::Integer(stored)) if is_float(*format) => {
                u64::try_from(*stored).is_ok_and(|stored| stored <= bits.limit() && self.assign(bits, stored))
            }
            (Core::Number(format, bits), Value::Nan { negative, quiet }) if is_float(*format) => {
                self.assign(bits, float::nan(*format, *negative, *quiet))
            }
            (Core::RegisterAndNumber(file, register, format, bits), Value::RegisterAndNumber(given, number, place)) => {
                let fits = *file == *given && self.register(*file, register, *number);
                let is_relative = *format == Format::Relative;
                fits && if is_relative { self.offset(bits, place.distance) } else { self.integer(*format, bits, place.number) }
            }
            (Core::RegisterAndNumber(file, register, format, bits), Value::Register(given, number)) => {
                *file == *given && self.register(*file, register, *number) && self.integer(*format, bits, 0)
            }
            (Core::Literal(name), Value::Name(given)) => name == given,
            (Core::Field(id), Value::Name(given)) => self.name(*id, *given),
            (Core::Address(word, parts), Value::Address(address)) => {
                return if *word == address.word && parts.len() == address.parts.len() { self.parts(parts, &address.parts) } else { None };
            }
            _ => false,
        };
        fits.then_some(self)
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

    fn register(&mut self, file: File, bits: &Bits, number: Option<u16>) -> bool {
        let (limit, bias) = (bits.limit(), u64::from(bits.bias));
        let Some(number) = number else {
            let is_before_constant = bias > 0 && self.assigned & bits.mask() != 0 && bits.unsigned(self.word) + bias >= limit;
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

    /// A number that fits with or without sign: instructions compute modulo the width of what they read. Negative ones make
    /// sense only in fields as wide as a register.
    fn integer(&mut self, format: Format, bits: &Bits, number: i64) -> bool {
        let Some(number) = unscaled(bits, number) else { return false };
        let fits = match number {
            0.. => number as u64 <= bits.limit(),
            _ if format == Format::Unsigned && bits.width < 32 => false,
            _ => is_signed(bits, number),
        };
        fits && self.assign(bits, number as u64 & bits.limit())
    }

    /// A number that is added to something wider, so its sign matters.
    fn offset(&mut self, bits: &Bits, number: i64) -> bool {
        let number = unscaled(bits, number).filter(|&number| is_signed(bits, number));
        number.is_some_and(|number| self.assign(bits, number as u64 & bits.limit()))
    }

    fn parts(mut self, parts: &[Part], given: &[AddressPart]) -> Option<Filler> {
        for (part, given) in parts.iter().zip(given) {
            self = self.part(part, given)?;
        }
        Some(self)
    }

    fn part(mut self, part: &Part, given: &AddressPart) -> Option<Filler> {
        let mut registers: &[AddressRegister] = &given.registers;
        let mut offset = given.offset;
        for term in part.terms {
            match term {
                Term::Register { file, bits, suffixes, omit } => match registers.split_first() {
                    Some((register, others)) if register.file == *file => {
                        self.register(*file, bits, register.number).then_some(())?;
                        self = match self.pieces(suffixes, &register.suffixes) {
                            Some(filled) => filled,
                            None if *omit && register.number.is_none() && register.suffixes.is_empty() => self,
                            None => return None,
                        };
                        registers = others;
                    }
                    _ if *omit => {
                        self.register(*file, bits, None).then_some(())?;
                        self = self.pieces(suffixes, &[]).unwrap_or(self);
                    }
                    _ => return None,
                },
                Term::Number(format, bits) => {
                    let number = offset.take().unwrap_or_default();
                    let keeps_sign = match format {
                        Format::Unsigned => false,
                        Format::SignedAlone => true,
                        _ => !given.registers.is_empty(),
                    };
                    let fits = if keeps_sign { self.offset(bits, number) } else { self.integer(*format, bits, number) };
                    fits.then_some(())?;
                }
            }
        }
        if !registers.is_empty() || offset.is_some_and(|offset| offset != 0) {
            return None;
        }
        self.pieces(part.suffixes, &given.suffixes)
    }
}

/// The stored number of one that is a multiple of the scale.
fn unscaled(bits: &Bits, number: i64) -> Option<i64> {
    let scale = i64::from(bits.scale);
    (number % scale == 0).then_some(number / scale)
}

/// Whether bits can hold a number with sign.
fn is_signed(bits: &Bits, number: i64) -> bool {
    let unused = 64 - u32::from(bits.width);
    number << unused >> unused == number
}

/// Modifiers that one value of a field has at most.
const LONGEST_SPELLING: usize = 6;

fn is_integer(format: Format) -> bool {
    matches!(format, Format::Unsigned | Format::Signed | Format::SignedAlone | Format::Absolute)
}

fn is_float(format: Format) -> bool {
    matches!(format, Format::F32 | Format::F64High | Format::F16 | Format::Bf16)
}

/// Says what is wrong with an instruction that no form takes: the form that agrees with it longest, and where it stops to.
fn explain(instruction: &Instruction, target: Target) -> EncodeError {
    let mnemonic = instruction.opcode.mnemonic();
    let mut nearest: Option<Mismatch> = None;
    for id in instruction.opcode.forms().filter(|id| id.form().targets >> target.table_bit() & 1 == 1) {
        let found = mismatch(id.form(), instruction);
        if nearest.as_ref().is_none_or(|best| found.depth > best.depth) {
            nearest = Some(found);
        }
    }
    let message = match nearest {
        None => format!("{mnemonic} does not exist on {target}"),
        Some(Mismatch { reason, .. }) => format!("no form of {mnemonic} on {target} takes this: {reason}"),
    };
    EncodeError { message }
}

fn mismatch(form: &Form, instruction: &Instruction) -> Mismatch {
    let start = Filler::new(form);
    let nearest = || crate::print::template(form);
    for used in 0..instruction.modifiers.len() {
        let symbols = &instruction.modifiers[..=used];
        let takes = |symbol: &Symbol| form.modifiers.iter().any(|piece| piece_has(piece, *symbol));
        if let Some(symbol) = symbols.last().filter(|symbol| !takes(symbol)) {
            return Mismatch { depth: used, reason: format!("{} is no modifier of the nearest form, {}", symbol.spelling(), nearest()) };
        }
    }
    let depth = instruction.modifiers.len();
    if start.pieces(form.modifiers, &instruction.modifiers).is_none() {
        return Mismatch { depth, reason: format!("these modifiers do not go together in the nearest form, {}", nearest()) };
    }
    let placed = start.placed(form.operands, &instruction.operands);
    let depth = depth + 1 + placed;
    let what = if placed < instruction.operands.len() {
        format!("operand {} does not fit", placed + 1)
    } else if start.operands(form.operands, &instruction.operands).is_none() {
        format!("its {placed} operands are too few for")
    } else {
        "its guard does not fit".into()
    };
    Mismatch { depth, reason: format!("{what} the nearest form, {}", nearest()) }
}

fn piece_has(piece: &Piece, symbol: Symbol) -> bool {
    match piece {
        Piece::Literal(own) | Piece::Flag { symbol: own, .. } => *own == symbol,
        Piece::Field(id) => id.field().spellings.iter().flatten().any(|spelling| spelling.contains(&symbol)),
        Piece::Alias => alias::is_derived(symbol),
        Piece::Reuse(_) => false,
    }
}
