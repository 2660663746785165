//! Decodes a 128-bit word into an [`Instruction`].
//!
//! Forms are found by the lowest 12 bits (the opcode bits) in an index built once per target; of the few forms with that opcode,
//! the one whose mask and value match the word is the form. The build checks that at most one does.

use std::sync::OnceLock;

use smallvec::SmallVec;

use crate::encodings::table_column;
use crate::instruction::{Address, AddressPart, AddressRegister, BranchNumber, InstGuard, Instruction, Operand, OperandValue, Symbols};
use crate::select::fill;
use crate::table::{self, Bits, BracketPart, Core, Form, FormId, NumberFormat, Piece, RegFile, Slot, Symbol, TABLE_TARGETS, Term};
use crate::{Control, Target};

/// The forms of one target, grouped by the lowest 12 bits of their encoding. The forms with opcode bits `code` are
/// `forms[starts[code]..starts[code + 1]]`.
struct FormIndex {
    starts: Vec<u16>,
    forms: Vec<FormId>,
}

impl FormIndex {
    /// Returns the index of a target; builds it at the first use. Returns `None` if the table does not describe the target.
    fn of(target: Target) -> Option<&'static FormIndex> {
        static INDICES: [OnceLock<FormIndex>; TABLE_TARGETS.len()] = [const { OnceLock::new() }; TABLE_TARGETS.len()];
        let column = table_column(target)?;
        Some(INDICES[column].get_or_init(|| FormIndex::build(1 << column)))
    }

    /// Builds the index of a target set by a counting sort over the opcode bits.
    fn build(targets: u32) -> FormIndex {
        let code = |form: &FormId| form.form().value as usize & 0xfff;
        let known: Vec<FormId> = FormId::all().filter(|form| form.form().targets & targets != 0).collect();
        let mut starts = vec![0; 4097];
        for form in &known {
            starts[code(form) + 1] += 1;
        }
        for code in 0..4096 {
            starts[code + 1] += starts[code];
        }
        let (mut next, mut forms) = (starts.clone(), known.clone());
        for form in known {
            let place = &mut next[code(&form)];
            forms[usize::from(*place)] = form;
            *place += 1;
        }
        FormIndex { starts, forms }
    }
}

/// Returns the form of a word, or `None` if no form of the table matches.
#[inline]
pub fn form_of(word: u128, target: Target) -> Option<FormId> {
    let index = FormIndex::of(target)?;
    let code = word as usize & 0xfff;
    let candidates = &index.forms[usize::from(index.starts[code])..usize::from(index.starts[code + 1])];
    candidates.iter().copied().find(|form| word & form.form().mask == form.form().value && !form.form().excludes(word))
}

/// Decodes a word; returns `None` if no form of the table matches.
pub fn decode(word: u128, target: Target) -> Option<Instruction> {
    let form = form_of(word, target)?;
    let mut instruction = read(form, word);
    instruction.residue = residue(form.form(), &instruction, word);
    Some(instruction)
}

/// Reads the fields of a word according to a form. The residue is left zero.
pub(crate) fn read(id: FormId, word: u128) -> Instruction {
    let form = id.form();
    let guard = match form.guard {
        table::GuardKind::None => InstGuard::ALWAYS,
        kind => InstGuard { predicate: (word >> 12) as u8 & 7, negated: word >> 15 & 1 == 1, uniform: kind == table::GuardKind::Uniform },
    };
    let mut control = Control::of(word);
    let operands = form.operands.iter().map(|slot| operand(slot, word, &mut control)).collect();
    Instruction { opcode: form.opcode, guard, modifiers: symbols(form.modifiers, word), operands, control, form: Some(id), residue: 0 }
}

/// Returns the bits in which `word` differs from the encoding of `instruction`: bits without a meaning, and values that print like another.
fn residue(form: &Form, instruction: &Instruction, word: u128) -> u128 {
    fill(form, instruction).map_or(0, |filled| filled ^ word)
}

/// Returns the modifiers that `word` selects.
pub(crate) fn symbols(pieces: &[Piece], word: u128) -> Symbols {
    let mut symbols = Symbols::new();
    for piece in pieces {
        match *piece {
            Piece::Literal(symbol) => symbols.push(symbol),
            Piece::Field(id) => {
                let field = id.field();
                let value = field.bits.stored(word);
                match field.spellings[value as usize] {
                    Some(spelling) => symbols.extend_from_slice(spelling),
                    None => symbols.push(Symbol::invalid(value)),
                }
            }
            Piece::Flag { symbol, bit, when } => {
                if (word >> bit & 1 == 1) == when {
                    symbols.push(symbol);
                }
            }
            Piece::Reuse(_) | Piece::Alias => {}
        }
    }
    symbols
}

/// Reads one operand. Clears its reuse flag in `control`, because the operand holds the flag itself.
fn operand(slot: &Slot, word: u128, control: &mut Control) -> Operand {
    let flag = slot.suffixes.iter().find_map(|piece| if let Piece::Reuse(bit) = piece { Some(1 << bit) } else { None }).unwrap_or(0);
    let reuse = word & flag != 0;
    control.reuse &= !Control::of(flag).reuse;
    Operand {
        value: value(&slot.core, word),
        negate: slot.negate.is_set(word),
        invert: slot.invert.is_set(word),
        not: slot.not.is_set(word),
        absolute: slot.absolute.is_set(word),
        reuse,
        suffixes: symbols(slot.suffixes, word),
    }
}

/// Reads the value of an operand.
fn value(core: &Core, word: u128) -> OperandValue {
    match core {
        Core::Register(file, bits) => OperandValue::Register(*file, register_number(*file, bits, word)),
        Core::Number(format, bits) => number(*format, bits, word),
        Core::RegisterAndNumber(file, register, format, bits) => {
            let number = integer(*format, bits, word);
            OperandValue::RegisterAndNumber(*file, register_number(*file, register, word), BranchNumber { number, distance: number })
        }
        Core::Literal(name) => OperandValue::Name(*name),
        Core::Field(id) => {
            let field = id.field();
            let stored = field.bits.stored(word);
            let known = field.spellings[stored as usize].and_then(|spelling| spelling.first().copied());
            OperandValue::Name(known.unwrap_or_else(|| Symbol::invalid(stored)))
        }
        Core::Address(prefix, parts) => {
            OperandValue::Address(Box::new(Address { word: *prefix, parts: parts.iter().map(|part| address_part(part, word)).collect() }))
        }
    }
}

fn number(format: NumberFormat, bits: &Bits, word: u128) -> OperandValue {
    match format {
        NumberFormat::Unsigned | NumberFormat::Signed | NumberFormat::SignedAlone | NumberFormat::Absolute => {
            OperandValue::Integer(integer(format, bits, word))
        }
        NumberFormat::Relative => OperandValue::Relative(bits.signed(word)),
        NumberFormat::Set => OperandValue::Set(bits.unsigned(word)),
        NumberFormat::F32 | NumberFormat::F64High | NumberFormat::F16 | NumberFormat::Bf16 => {
            OperandValue::Float(format, bits.unsigned(word))
        }
    }
}

/// Returns the value of a number in an integer format, with the scale applied.
pub(crate) fn integer(format: NumberFormat, bits: &Bits, word: u128) -> i64 {
    match format {
        NumberFormat::Signed | NumberFormat::SignedAlone | NumberFormat::Absolute | NumberFormat::Relative => bits.signed(word),
        _ => (bits.unsigned(word) as i64).wrapping_mul(i64::from(bits.scale)),
    }
}

/// Returns the number of a register; `None` for the constant register of the file (`RZ`, `PT`).
pub(crate) fn register_number(file: RegFile, bits: &Bits, word: u128) -> Option<u16> {
    let number = bits.unsigned(word);
    let biased = number + u64::from(bits.bias);
    let is_constant = biased >= bits.limit() && file.constant_letter().is_some();
    (!is_constant).then_some((biased * u64::from(bits.scale)) as u16)
}

/// Reads one pair of brackets of an address.
fn address_part(part: &BracketPart, word: u128) -> AddressPart {
    let mut registers = SmallVec::new();
    let mut offset = None;
    for term in part.terms {
        match term {
            Term::Register { file, bits, suffixes, .. } => {
                registers.push(AddressRegister {
                    file: *file,
                    number: register_number(*file, bits, word),
                    suffixes: symbols(suffixes, word),
                });
            }
            Term::Number(format, bits) => offset = Some(integer(*format, bits, word)),
        }
    }
    AddressPart { registers, offset, suffixes: symbols(part.suffixes, word) }
}
