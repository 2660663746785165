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
use crate::decode::read;
use crate::fill::Filler;
use crate::instruction::{Instruction, Operand, Value};
use crate::table::{Core, Form, FormId, Piece, Slot, Symbol};

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

/// The word of a new instruction, which becomes what it will be in the code: with its form, which says through which slots of the reuse cache
/// its operands go, and with sources exchanged if the contest wants that.
pub fn settle(instruction: &mut Instruction, target: Target) -> Result<u128, EncodeError> {
    let (form, word) = match contest(instruction, target) {
        Some(found) => found,
        None => {
            let found = swaps(instruction).find_map(|swapped| contest(&swapped, target).map(|found| (swapped, found)));
            let Some((swapped, found)) = found else { return Err(explain(instruction, target)) };
            *instruction = swapped;
            found
        }
    };
    if instruction.operands.len() == form.form().operands.len() {
        instruction.form = Some(form);
    } else {
        // Operands are counted as the form counts them.
        *instruction = read(form, word);
    }
    Ok(word)
}

/// The form that holds an instruction as it stands, without exchanging sources; no reason is given if there is none.
pub fn find_form(instruction: &Instruction, target: Target) -> Option<FormId> {
    contest(instruction, target).map(|(form, _)| form)
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

/// Whether a slot could hold an operand, by kind and register file alone: a cheap look before the form is filled.
fn kinds_agree((slot, operand): (&Slot, &Operand)) -> bool {
    match (&slot.core, &operand.value) {
        (Core::Register(file, _), Value::Register(given, _)) => file == given,
        (Core::Register(..), _) => false,
        (Core::Address(word, parts), Value::Address(address)) => *word == address.word && parts.len() == address.parts.len(),
        (Core::Address(..), _) => false,
        (Core::Number(..), Value::Register(..) | Value::Address(_)) => false,
        _ => true,
    }
}

/// Whether a form takes this number of operands.
fn takes_as_many(form: &Form, count: usize) -> bool {
    count <= form.operands.len() && form.operands.iter().filter(|slot| slot.optional.is_none()).count() <= count
}

/// The forms of a mnemonic stand in the order of their priority, so the first that matches wins; one that had to assume an operand
/// only if no other does.
fn contest(instruction: &Instruction, target: Target) -> Option<(FormId, u128)> {
    let mut assumed: Option<(FormId, u128)> = None;
    for id in instruction.opcode.forms() {
        let form = id.form();
        if form.targets >> target.table_bit() & 1 == 0 || !takes_as_many(form, instruction.operands.len()) {
            continue;
        }
        if instruction.operands.len() == form.operands.len() && !form.operands.iter().zip(&instruction.operands).all(kinds_agree) {
            continue;
        }
        let Some(filled) = Filler::new(form).run(form, instruction) else { continue };
        let found = (id, filled.word ^ instruction.residue);
        if !filled.assumed {
            return Some(found);
        }
        assumed.get_or_insert(found);
    }
    assumed
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
    let mut filler = start;
    if !filler.pieces(form.modifiers, &instruction.modifiers) {
        return Mismatch { depth, reason: format!("these modifiers do not go together in the nearest form, {}", nearest()) };
    }
    let placed = start.placed(form.operands, &instruction.operands);
    let depth = depth + 1 + placed;
    let what = if placed < instruction.operands.len() {
        format!("operand {} does not fit", placed + 1)
    } else if !filler.operands(form.operands, &instruction.operands) {
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
