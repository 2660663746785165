//! Selects the form (encoding) of an instruction.
//!
//! Every form of the mnemonic on the target is a template. A template matches if each modifier of the instruction has a place in it and
//! each operand fits its slot (kind, register file, width of a number, sign operators). Of the templates that match, the one with the
//! highest priority is used. Priority grows with the number of constraints, so the most specific template is preferred. If none matches,
//! commutative operands are swapped and the selection is repeated. If that fails too, the error names the form that matched longest.
//! The code calls the selection the contest.
//!
//! Example with three forms of `FADD`, which differ in the second source:
//!
//! ```text
//! FADD R4, R2, R3              register form
//! FADD R4, R2, 1.5             form with a 32-bit immediate
//! FADD R4, c[0x0][0x210], R2   no form has the constant in the first source; swapped, the form with a constant bank matches
//! ```
//!
//! A decoded instruction keeps its form while it fits, because some texts have two encodings.

use std::fmt;

use smallvec::SmallVec;

use crate::Target;
use crate::alias;
use crate::decode::read;
use crate::encodings::table_set;
use crate::fill::Filler;
use crate::instruction::Instruction;
use crate::table::{Form, FormFilter, FormId, Piece, Symbol};

/// The reason why an instruction has no encoding on a target.
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

/// Encodes an instruction for a target.
pub fn encode(instruction: &Instruction, target: Target) -> Result<u128, EncodeError> {
    select(instruction, target).map(|(_, word)| word)
}

/// Selects the form for an instruction; returns the form and the encoded word.
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

/// Selects the form of a new instruction, records it in the instruction, and returns the encoded word. The form determines the reuse-cache
/// slots of the operands. Sources are swapped in `instruction` if only the swapped order has a form.
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
        // The text omits operands that the form has. Decoding the word gives the operands at the indices the form uses.
        *instruction = read(form, word);
    }
    Ok(word)
}

/// Returns whether two sources have a sign (`-` or `~`) although the hardware accepts only one: `IADD3 R0, -R1, -R2, R3`. Such a word can
/// be decoded, and encoded again, but a GPU reports it as an illegal instruction.
pub fn has_conflicting_signs(instruction: &Instruction) -> bool {
    let rules = instruction.opcode.properties().one_sign;
    if rules.is_empty() {
        return false;
    }
    let sources = source_positions(instruction);
    let is_signed =
        |source: u8| sources.get(usize::from(source)).is_some_and(|&at| instruction.operands[at].negate || instruction.operands[at].invert);
    rules.iter().any(|&(first, second)| is_signed(first) && is_signed(second))
}

/// Returns the positions of the operands that are not written.
fn source_positions(instruction: &Instruction) -> SmallVec<[usize; 6]> {
    instruction.written().iter().enumerate().filter(|entry| !entry.1).map(|entry| entry.0).collect()
}

/// Returns the form that holds an instruction without swapping sources; `None` if there is none.
pub fn find_form(instruction: &Instruction, target: Target) -> Option<FormId> {
    contest(instruction, target).map(|(form, _)| form)
}

/// Returns copies of the instruction with two sources swapped, one for each commutative pair.
fn swaps(instruction: &Instruction) -> impl Iterator<Item = Instruction> {
    let sources = source_positions(instruction);
    instruction.opcode.properties().commute.iter().filter_map(move |&(first, second)| {
        let mut swapped = instruction.clone();
        swapped.operands.swap(*sources.get(usize::from(first))?, *sources.get(usize::from(second))?);
        Some(swapped)
    })
}

/// Returns the form that the instruction was decoded from and the encoded word, if the form still fits.
fn kept(instruction: &Instruction, target: Target) -> Option<(FormId, u128)> {
    let id = instruction.form?;
    let form = id.form();
    let fits = form.opcode == instruction.opcode && form.targets & table_set(target) != 0;
    let word = fits.then(|| fill(form, instruction))??;
    Some((id, word ^ instruction.residue))
}

/// The facts about an instruction that exclude most forms of its mnemonic without a look at the form itself.
struct InstructionFilter {
    /// The bit of the target.
    target: u32,
    /// A Bloom filter of the modifiers.
    given: u64,
    /// The modifiers that a form has to list; none if a modifier names a value without a spelling, which no form lists.
    listed: u64,
    /// Number of operands.
    operands: usize,
    /// The kinds of the first 16 operands ([`OperandValue::kind_code`]), four bits each.
    kinds: u64,
}

impl InstructionFilter {
    /// Returns the filter of an instruction for a target.
    fn new(instruction: &Instruction, target: Target) -> InstructionFilter {
        let modifiers = &instruction.modifiers;
        let given = modifiers.iter().fold(0, |set, symbol| set | 1 << (symbol.0 & 63));
        let has_unlisted = modifiers.iter().any(|symbol| symbol.invalid_value().is_some());
        let kinds = instruction.operands.iter().take(16).enumerate();
        InstructionFilter {
            target: table_set(target),
            given,
            listed: if has_unlisted { 0 } else { given },
            operands: instruction.operands.len(),
            kinds: kinds.fold(0, |kinds, (place, operand)| kinds | operand.value.kind_code() << (4 * place)),
        }
    }

    /// Returns whether a form may hold the instruction. Operands are compared only if the instruction has all operands of the form.
    fn may_fit(&self, form: &FormFilter) -> bool {
        /// Returns the lowest bit of each four bits of which any is set.
        fn nonzero(codes: u64) -> u64 {
            (codes | codes >> 1 | codes >> 2 | codes >> 3) & 0x1111_1111_1111_1111
        }
        let (most, least) = (usize::from(form.most_operands), usize::from(form.least_operands));
        form.targets & self.target != 0
            && self.listed & !form.printed == 0
            && form.required & !self.given == 0
            && (least..=most).contains(&self.operands)
            && (self.operands < most || nonzero(self.kinds ^ form.kinds) & nonzero(form.kinds) == 0)
    }
}

/// Finds the matching form with the highest priority. The forms of a mnemonic are sorted by priority, so this is the first match. A match
/// that had to assume a default for an absent operand is used only if there is no other.
fn contest(instruction: &Instruction, target: Target) -> Option<(FormId, u128)> {
    if has_conflicting_signs(instruction) {
        return None;
    }
    let mut assumed: Option<(FormId, u128)> = None;
    let filter = InstructionFilter::new(instruction, target);
    for id in instruction.opcode.forms().filter(|id| filter.may_fit(id.filter())) {
        let form = id.form();
        let Some(filled) = Filler::new(form).run(form, instruction) else { continue };
        let found = (id, filled.word ^ instruction.residue);
        if !filled.assumed {
            return Some(found);
        }
        assumed.get_or_insert(found);
    }
    assumed
}

/// Encodes an instruction in a form, without the residue; returns `None` if the form does not match.
pub(crate) fn fill(form: &Form, instruction: &Instruction) -> Option<u128> {
    Filler::new(form).run(form, instruction).map(|filled| filled.word)
}

/// How much of an instruction matched a form, and the reason why the rest did not.
struct Mismatch {
    /// Number of modifiers and operands that matched.
    depth: usize,
    reason: String,
}

/// Builds the error for an instruction that no form matches: names the form that matched longest and the first part that does not fit.
fn explain(instruction: &Instruction, target: Target) -> EncodeError {
    let mnemonic = instruction.opcode.mnemonic();
    if has_conflicting_signs(instruction) {
        let message = format!("{mnemonic} has signs on two sources of which only one may have a sign: GPUs report an illegal instruction");
        return EncodeError { message };
    }
    let mut nearest: Option<Mismatch> = None;
    for id in instruction.opcode.forms().filter(|id| id.form().targets & table_set(target) != 0) {
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

/// Finds the first part of an instruction that does not fit a form.
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
    } else if form.excludes(filler.word) {
        "a register may not be the zero register in".into()
    } else {
        "its guard does not fit".into()
    };
    Mismatch { depth, reason: format!("{what} the nearest form, {}", nearest()) }
}

/// Returns whether a part of a form's modifier list can print `symbol`.
fn piece_has(piece: &Piece, symbol: Symbol) -> bool {
    match piece {
        Piece::Literal(own) | Piece::Flag { symbol: own, .. } => *own == symbol,
        Piece::Field(id) => id.field().spellings.iter().flatten().any(|spelling| spelling.contains(&symbol)),
        Piece::Alias => alias::is_derived(symbol),
        Piece::Reuse(_) => false,
    }
}
