//! Prints a 128-bit word as nvdisasm does.

use std::fmt::Write;

use crate::alias;
use crate::decode::{form_of, integer, register_number};
use crate::float;
use crate::table::{self, Bits, BracketPart, Core, Form, NumberFormat, Piece, RegFile, Slot, Symbol, Term};
use crate::{Control, Target};

/// Size of an instruction in bytes.
const SIZE: i64 = 16;

/// Returns the text of a word at an address, or `None` if no form of the table matches it. Branch targets are printed as absolute
/// addresses.
pub fn print(word: u128, target: Target, address: u64) -> Option<String> {
    let mut out = String::with_capacity(64);
    print_with(&mut out, word, target, address, &mut |_| None).then_some(out)
}

/// Appends the text of a word to `out`. Returns false and appends nothing if no form of the table matches the word. `label` returns the
/// name of a branch target; addresses without a name are printed as numbers.
pub fn print_with(out: &mut String, word: u128, target: Target, address: u64, label: &mut dyn FnMut(u64) -> Option<String>) -> bool {
    let Some(id) = form_of(word, target) else { return false };
    Printer { out, word, address, label, stays: Control::of(word).stay, is_exact: false }.form(id.form());
    true
}

/// Like [`print_with`], but prints a NaN in hexadecimal if its payload would be lost: 0x7ff00000 is `0x7ff00000` here and `+QNAN` there.
/// [`crate::parse`] reads both.
pub fn print_exact(out: &mut String, word: u128, target: Target, address: u64, label: &mut dyn FnMut(u64) -> Option<String>) -> bool {
    let Some(id) = form_of(word, target) else { return false };
    Printer { out, word, address, label, stays: Control::of(word).stay, is_exact: true }.form(id.form());
    true
}

/// Prints one word.
struct Printer<'p> {
    out: &'p mut String,
    word: u128,
    /// Address of the instruction in bytes.
    address: u64,
    /// Returns the name of an address, for branch targets.
    label: &'p mut dyn FnMut(u64) -> Option<String>,
    /// [`Control::stay`]; nvdisasm prints reuse flags only if it is set.
    stays: bool,
    /// Whether a NaN is printed in hexadecimal if the usual text would lose its payload.
    is_exact: bool,
}

impl Printer<'_> {
    /// Prints the instruction according to its form.
    fn form(&mut self, form: &Form) {
        self.guard(form.guard);
        self.out.push_str(form.opcode.mnemonic());
        for piece in form.modifiers {
            match piece {
                Piece::Alias => self.out.push_str(alias::derive(form, self.word).map_or("", Symbol::spelling)),
                _ => self.piece(piece),
            }
        }
        let mut separator = " ";
        for slot in form.operands {
            if self.is_left_out(slot) {
                continue;
            }
            self.out.push_str(separator);
            separator = ", ";
            self.slot(slot);
        }
    }

    fn guard(&mut self, guard: table::GuardKind) {
        let (predicate, negated) = ((self.word >> 12) as u8 & 7, self.word >> 15 & 1 == 1);
        if guard == table::GuardKind::None || (predicate == 7 && !negated) {
            return;
        }
        self.out.push('@');
        if negated {
            self.out.push('!');
        }
        let file = if guard == table::GuardKind::Uniform { RegFile::UniformPredicate } else { RegFile::Predicate };
        self.register(file, (predicate != 7).then_some(u16::from(predicate)));
        self.out.push(' ');
    }

    /// Returns whether the operand is not printed: it is hidden, has its default value, or its value has an empty spelling.
    fn is_left_out(&self, slot: &Slot) -> bool {
        let Some(default) = slot.optional else { return false };
        if slot.hidden {
            return true;
        }
        let stored = match &slot.core {
            Core::Register(_, bits) | Core::Number(_, bits) => bits.stored(self.word),
            Core::Field(id) => id.field().bits.stored(self.word),
            _ => return false,
        };
        let is_nameless = matches!(&slot.core, Core::Field(id) if id.field().spellings[stored as usize].is_some_and(<[Symbol]>::is_empty));
        (stored == default || is_nameless) && !slot.not.is_set(self.word)
    }

    /// Prints one modifier, if the word selects it.
    fn piece(&mut self, piece: &Piece) {
        match *piece {
            Piece::Literal(symbol) => self.out.push_str(symbol.spelling()),
            Piece::Field(id) => {
                let field = id.field();
                let value = field.bits.stored(self.word);
                match field.spellings[value as usize] {
                    Some(spelling) => spelling.iter().for_each(|symbol| self.out.push_str(symbol.spelling())),
                    None => {
                        let _ = write!(self.out, ".INVALID{value}");
                    }
                }
            }
            Piece::Flag { symbol, bit, when } => {
                if (self.word >> bit & 1 == 1) == when {
                    self.out.push_str(symbol.spelling());
                }
            }
            Piece::Reuse(bit) => {
                if self.stays && self.word >> bit & 1 == 1 {
                    self.out.push_str(".reuse");
                }
            }
            Piece::Alias => {}
        }
    }

    fn slot(&mut self, slot: &Slot) {
        for (sign, symbol) in [(slot.not, '!'), (slot.negate, '-'), (slot.invert, '~'), (slot.absolute, '|')] {
            if sign.is_set(self.word) {
                self.out.push(symbol);
            }
        }
        self.core(&slot.core);
        let (inside, outside) = slot.suffixes.split_at(usize::from(slot.inside_bars));
        inside.iter().for_each(|piece| self.piece(piece));
        if slot.absolute.is_set(self.word) {
            self.out.push('|');
        }
        outside.iter().for_each(|piece| self.piece(piece));
    }

    /// Prints an operand without its sign operators and suffixes.
    fn core(&mut self, core: &Core) {
        match core {
            Core::Register(file, bits) => self.register(*file, register_number(*file, bits, self.word)),
            Core::Number(format, bits) => self.number(*format, bits),
            Core::RegisterAndNumber(file, register, format, bits) => {
                self.register(*file, register_number(*file, register, self.word));
                if matches!(format, NumberFormat::Relative | NumberFormat::Absolute) || bits.unsigned(self.word) != 0 {
                    self.out.push(' ');
                    self.number(*format, bits);
                }
            }
            Core::Literal(name) => self.out.push_str(name.spelling()),
            Core::Field(id) => {
                let field = id.field();
                let value = field.bits.stored(self.word);
                match field.spellings[value as usize] {
                    Some(spelling) => spelling.iter().for_each(|symbol| self.out.push_str(symbol.spelling())),
                    None => {
                        let _ = write!(self.out, "INVALID{value}");
                    }
                }
            }
            Core::Address(prefix, parts) => {
                self.out.push_str(prefix.spelling());
                parts.iter().for_each(|part| self.part(part));
            }
        }
    }

    fn register(&mut self, file: RegFile, number: Option<u16>) {
        self.out.push_str(file.prefix());
        match number {
            Some(number) => self.decimal(number),
            None => self.out.extend(file.constant_letter()),
        }
    }

    /// Prints a number in decimal. Faster than `write!`, which shows in the disassembler's run time.
    fn decimal(&mut self, number: u16) {
        let mut digits = [0u8; 5];
        let mut rest = number;
        let mut length = 0;
        loop {
            digits[length] = b'0' + (rest % 10) as u8;
            length += 1;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.out.extend(digits[..length].iter().rev().map(|&digit| char::from(digit)));
    }

    /// Prints a number in its format.
    fn number(&mut self, format: NumberFormat, bits: &Bits) {
        match format {
            NumberFormat::Unsigned => self.digits(bits.unsigned(self.word).wrapping_mul(u64::from(bits.scale))),
            NumberFormat::Signed | NumberFormat::SignedAlone | NumberFormat::Absolute => self.hex(integer(format, bits, self.word)),
            NumberFormat::Relative => self.branch_target(bits.signed(self.word)),
            NumberFormat::Set => self.set(bits.unsigned(self.word)),
            NumberFormat::F32 | NumberFormat::F64High | NumberFormat::F16 | NumberFormat::Bf16 => {
                let stored = bits.unsigned(self.word);
                if self.is_exact && float::loses_payload(format, stored) {
                    self.digits(stored);
                } else {
                    float::write(self.out, format, stored);
                }
            }
        }
    }

    fn hex(&mut self, value: i64) {
        if value < 0 {
            self.out.push('-');
        }
        self.digits(value.unsigned_abs());
    }

    /// Prints a number in hexadecimal with the prefix `0x`.
    fn digits(&mut self, value: u64) {
        self.out.push_str("0x");
        let digits = (64 - value.leading_zeros()).div_ceil(4).max(1);
        for position in (0..digits).rev() {
            self.out.extend(char::from_digit((value >> (4 * position)) as u32 & 15, 16));
        }
    }

    fn branch_target(&mut self, distance: i64) {
        let target = (self.address as i64).wrapping_add(SIZE).wrapping_add(distance);
        match u64::try_from(target).ok().and_then(|target| (self.label)(target)) {
            Some(name) => {
                let _ = write!(self.out, "`({name})");
            }
            None => self.hex(target),
        }
    }

    fn set(&mut self, bits: u64) {
        let members: Vec<String> = (0..64).rev().filter(|bit| bits >> bit & 1 == 1).map(|bit| bit.to_string()).collect();
        let _ = write!(self.out, "{{{}}}", members.join(","));
    }

    /// Prints one pair of brackets of an address. Zero registers and zero offsets are omitted unless nothing else would be printed.
    fn part(&mut self, part: &BracketPart) {
        self.out.push('[');
        let mut first = true;
        let nothing_else = !part.terms.iter().any(|term| self.says_something(term));
        let last_register = part.terms.iter().rposition(|term| matches!(term, Term::Register { .. }));
        for (position, term) in part.terms.iter().enumerate() {
            match term {
                Term::Register { file, bits, suffixes, .. } => {
                    let says_something = self.says_something(term);
                    let stands_alone = nothing_else && last_register == Some(position);
                    if !says_something && !stands_alone {
                        continue;
                    }
                    self.plus(&mut first);
                    self.register(*file, register_number(*file, bits, self.word));
                    if says_something {
                        suffixes.iter().for_each(|piece| self.piece(piece));
                    }
                }
                Term::Number(format, bits) => {
                    let value = integer(*format, bits, self.word);
                    // A 24-bit offset that is the only term is an absolute address: nvdisasm prints it without a sign.
                    let alone = first && (last_register.is_none() || value != 0);
                    if alone && *format == NumberFormat::Signed {
                        self.hex((bits.unsigned(self.word) as i64).wrapping_mul(i64::from(bits.scale)));
                    } else if alone || value != 0 {
                        self.plus(&mut first);
                        self.hex(value);
                    }
                    first = false;
                }
            }
        }
        self.out.push(']');
        part.suffixes.iter().for_each(|piece| self.piece(piece));
    }

    fn plus(&mut self, first: &mut bool) {
        if !*first {
            self.out.push('+');
        }
        *first = false;
    }

    /// Returns whether a term of an address is always printed. Zero offsets and omittable zero registers are not.
    fn says_something(&self, term: &Term) -> bool {
        match term {
            Term::Register { file, bits, omit, .. } => !omit || register_number(*file, bits, self.word).is_some(),
            Term::Number(_, bits) => bits.unsigned(self.word) != 0,
        }
    }
}

/// Returns a description of a form for error messages: mnemonic, modifiers and operand kinds, without bit positions.
pub(crate) fn template(form: &Form) -> String {
    let mut out = form.opcode.mnemonic().to_string();
    for piece in form.modifiers {
        match piece {
            Piece::Literal(symbol) => out.push_str(symbol.spelling()),
            Piece::Field(id) => {
                let _ = write!(out, "{{{}}}", id.field().name);
            }
            Piece::Flag { symbol, .. } => {
                let _ = write!(out, "{{{}}}", symbol.spelling());
            }
            Piece::Reuse(_) | Piece::Alias => {}
        }
    }
    let operands: Vec<String> = form.operands.iter().map(slot_template).collect();
    if !operands.is_empty() {
        let _ = write!(out, " {}", operands.join(", "));
    }
    out
}

fn slot_template(slot: &Slot) -> String {
    let core = match &slot.core {
        Core::Register(file, _) => file.prefix().to_string(),
        Core::Number(format, bits) => number_template(*format, bits),
        Core::RegisterAndNumber(file, _, format, bits) => format!("{} {}", file.prefix(), number_template(*format, bits)),
        Core::Literal(name) => name.spelling().to_string(),
        Core::Field(id) => format!("{{{}}}", id.field().name),
        Core::Address(word, parts) => {
            let parts: Vec<String> = parts.iter().map(|part| format!("[{}]", part_template(part))).collect();
            format!("{}{}", word.spelling(), parts.concat())
        }
    };
    if slot.optional.is_some() { format!("({core})") } else { core }
}

fn part_template(part: &BracketPart) -> String {
    let terms: Vec<String> = part
        .terms
        .iter()
        .map(|term| match term {
            Term::Register { file, .. } => file.prefix().to_string(),
            Term::Number(format, bits) => number_template(*format, bits),
        })
        .collect();
    terms.join("+")
}

fn number_template(format: NumberFormat, bits: &Bits) -> String {
    match format {
        NumberFormat::Unsigned => format!("unsigned {}-bit number", bits.width),
        NumberFormat::Signed | NumberFormat::SignedAlone | NumberFormat::Absolute => format!("{}-bit number", bits.width),
        NumberFormat::F32 => "float".into(),
        NumberFormat::F64High => "double".into(),
        NumberFormat::F16 => "half".into(),
        NumberFormat::Bf16 => "bfloat16".into(),
        NumberFormat::Relative => "label".into(),
        NumberFormat::Set => "{set}".into(),
    }
}
