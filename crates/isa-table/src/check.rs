//! Checks the instruction table for contradictions: bits with two meanings, two forms that match the same word, unused fields.

use crate::model::{Bits, BracketPart, Core, Form, GuardKind, Instruction, Piece, TARGETS, Table, Term};
use crate::parse::Error;

/// Bits of the opcode, the guard and the control word. Fields must not use them.
const RESERVED: u128 = 0xffff | 0x1ffff << 105;

/// Bits of the reuse-cache flags. Only `.reuse` may use them.
const REUSE: u128 = 0xf << 122;

/// Returns an error if the table contradicts itself.
pub fn check(table: &Table) -> Result<(), Error> {
    for instruction in &table.instructions {
        fields_are_used(instruction)?;
        for form in &instruction.forms {
            bits_have_one_meaning(instruction, form)?;
        }
    }
    forms_are_distinct(table)?;
    mnemonics_are_distinct(table)
}

/// Checks that every field is used by some form and has at least one value.
fn fields_are_used(instruction: &Instruction) -> Result<(), Error> {
    for (position, field) in instruction.fields.iter().enumerate() {
        if !instruction.forms.iter().any(|form| uses(instruction, form).iter().any(|usage| usage.field == Some(position))) {
            return Err(Error {
                place: instruction.place.clone(),
                message: format!("{}: field {} is not used by any form", instruction.mnemonic, field.name),
            });
        }
        if !field.spellings.iter().any(Option::is_some) {
            return Err(Error {
                place: instruction.place.clone(),
                message: format!("{}: field {} has no value", instruction.mnemonic, field.name),
            });
        }
    }
    Ok(())
}

/// The bits of one part of a form.
pub(crate) struct Usage {
    /// Mask of the bits.
    pub mask: u128,
    /// Index of the property field; `None` if the bits belong to an operand, a flag or the fixed bits.
    pub field: Option<usize>,
    /// Whether the same bits may be used again: a field may be printed at two places, and a register may be printed twice.
    may_repeat: bool,
    /// Whether the bit is a reuse-cache flag.
    is_reuse: bool,
}

/// Lists all parts of a form that have bits.
pub(crate) fn uses(instruction: &Instruction, form: &Form) -> Vec<Usage> {
    let mut found = Vec::new();
    for (bits, _) in &form.fixed {
        found.push(Usage { mask: bits.mask(), field: None, may_repeat: false, is_reuse: false });
    }
    let mut add = |bits: &Bits| found.push(Usage { mask: bits.mask(), field: None, may_repeat: true, is_reuse: false });
    let mut pieces: Vec<&Piece> = form.modifiers.iter().collect();
    let mut names = Vec::new();
    for slot in &form.operands {
        for prefix in &slot.prefixes {
            if let Some((bit, _)) = prefix.condition {
                add(&single(bit));
            }
        }
        match &slot.core {
            Core::Register(_, bits) | Core::Number(_, bits) => add(bits),
            Core::RegisterAndNumber(_, register, _, number) => {
                add(register);
                add(number);
            }
            Core::Field(field) => names.push(*field),
            Core::Literal(_) => {}
            Core::Address(_, parts) => {
                for BracketPart { terms, suffixes } in parts {
                    pieces.extend(suffixes);
                    for term in terms {
                        match term {
                            Term::Register { bits, suffixes, .. } => {
                                add(bits);
                                pieces.extend(suffixes);
                            }
                            Term::Number(_, bits) => add(bits),
                        }
                    }
                }
            }
        }
        pieces.extend(&slot.suffixes);
    }
    for piece in pieces {
        match piece {
            Piece::Field(field) => names.push(*field),
            Piece::Flag { bit, .. } => found.push(Usage { mask: 1 << bit, field: None, may_repeat: false, is_reuse: false }),
            Piece::Reuse(bit) => found.push(Usage { mask: 1 << bit, field: None, may_repeat: false, is_reuse: true }),
            Piece::Literal(_) | Piece::Alias(_) => {}
        }
    }
    for field in names {
        found.push(Usage { mask: instruction.fields[field].bits.mask(), field: Some(field), may_repeat: true, is_reuse: false });
    }
    found
}

/// Returns whether two uses of overlapping bits are consistent. Registers may be printed twice with exactly the same bits. Fields may
/// share some of their bits, because the text at one place can depend on a bit that is also printed at another.
fn says_the_same(one: &Usage, other: &Usage) -> bool {
    match (one.field, other.field) {
        (Some(_), Some(_)) => true,
        (None, None) => one.mask == other.mask,
        _ => false,
    }
}

/// Returns the bit range that consists of one bit.
fn single(bit: u8) -> Bits {
    Bits { runs: vec![(bit, 1)], scale: 1, ..Bits::default() }
}

/// Checks that no bit of a form is used for two purposes, and that defaults (`with`) are given only for unused bits.
fn bits_have_one_meaning(instruction: &Instruction, form: &Form) -> Result<(), Error> {
    let fail = |message: String| Error { place: form.place.clone(), message: format!("{}: {message}", instruction.mnemonic) };
    let usages = uses(instruction, form);
    for (position, usage) in usages.iter().enumerate() {
        let reserved = if usage.is_reuse { RESERVED } else { RESERVED | REUSE };
        let reserved = if form.guard == GuardKind::None { reserved & !0xf000 } else { reserved };
        if usage.mask & reserved != 0 {
            return Err(fail(format!("bits {:#x} belong to the opcode, guard or control", usage.mask & reserved)));
        }
        for other in &usages[..position] {
            let shared_on_purpose = usage.may_repeat && other.may_repeat && says_the_same(usage, other);
            let overlap = usage.mask & other.mask;
            if overlap != 0 && !shared_on_purpose {
                return Err(fail(format!("bit {} has two meanings", overlap.trailing_zeros())));
            }
        }
    }
    let mut used = usages.iter().fold(RESERVED | REUSE, |mask, usage| mask | usage.mask);
    for (bits, _) in &form.with {
        if bits.mask() & used != 0 {
            return Err(fail(format!("a default for bit {}, which is not free", (bits.mask() & used).trailing_zeros())));
        }
        used |= bits.mask();
    }
    Ok(())
}

/// Returns the opcode and fixed bits of a form as mask and value.
pub(crate) fn identity(form: &Form) -> (u128, u128) {
    let (mut mask, mut value) = (0xfff, u128::from(form.opcode));
    for (bits, fixed) in &form.fixed {
        mask |= bits.mask();
        value |= bits.place(*fixed);
    }
    (mask, value)
}

/// Checks that no word matches two forms on the same target. Compares all pairs of forms with the same opcode bits.
fn forms_are_distinct(table: &Table) -> Result<(), Error> {
    let mut by_code: Vec<Vec<(&Instruction, &Form, u128, u128)>> = vec![Vec::new(); 4096];
    for instruction in &table.instructions {
        for form in &instruction.forms {
            let (mask, value) = identity(form);
            by_code[usize::from(form.opcode)].push((instruction, form, mask, value));
        }
    }
    for forms in &by_code {
        for (position, (instruction, form, mask, value)) in forms.iter().enumerate() {
            for (other_instruction, other, other_mask, other_value) in &forms[..position] {
                let shared = form.targets & other.targets;
                // A word matches both forms unless they require different values of some bit, or one form excludes what the other requires.
                let excluding = excludes(form, *other_mask, *other_value) || excludes(other, *mask, *value);
                if shared != 0 && mask & other_mask & (value ^ other_value) == 0 && !excluding {
                    let target = TARGETS[shared.trailing_zeros() as usize];
                    let message = format!(
                        "{} and {} ({}) decode the same word on sm_{target}",
                        instruction.mnemonic, other_instruction.mnemonic, other.place
                    );
                    return Err(Error { place: form.place.clone(), message });
                }
            }
        }
    }
    Ok(())
}

/// Returns whether a form excludes all words of another form, whose identity is given.
fn excludes(form: &Form, other_mask: u128, other_value: u128) -> bool {
    let is_excluded =
        |(bits, value): &(Bits, u64)| other_mask & bits.mask() == bits.mask() && other_value & bits.mask() == bits.place(*value);
    form.excluded.iter().any(is_excluded)
}

fn mnemonics_are_distinct(table: &Table) -> Result<(), Error> {
    let mut names: Vec<(&str, &str)> = table.instructions.iter().map(|i| (i.mnemonic.as_str(), i.place.as_str())).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(pair) => {
            Err(Error { place: pair[1].1.to_string(), message: format!("{} is described twice, also in {}", pair[0].0, pair[0].1) })
        }
        None => Ok(()),
    }
}
