//! Folds constants into instructions and sums into addresses.
//!
//! A register that is known to hold a number or a word of a constant bank is replaced by that wherever a form takes it; kernel
//! parameters thus become operands in the constant bank. Bases of addresses that are sums of a register and a number are replaced
//! by the register, the number goes into the offset. Sums of sums with numbers are added up. The contest of forms decides about
//! each change; sources may change places to make it possible. What was folded away is left for the removal of dead code.
//!
//! **64-bit addresses** are pairs: the lower sum sets a carry that the upper sum adds. Only if both halves come from such a pair of
//! additions to one register pair is the whole sum exact, and only then is it folded.

use oriole_ir::{Function, Inst, Operand, OperandKind, Part, Role, Signs, Target};
use oriole_isa::{Effect, File, Memory, Opcode, Pipe, Symbol};
use smallvec::SmallVec;

use crate::definitions::{Definitions, Word};
use crate::legalize::{Judge, order};
use crate::rewrite::{Draft, piece};

/// What was folded.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Operands that became numbers, constants or the zero register.
    pub constants: usize,
    /// Numbers that went into offsets.
    pub offsets: usize,
    /// Sums that were joined.
    pub sums: usize,
}

/// Additions that are looked through at most for one address.
const SUMS_AT_MOST: usize = 8;

/// Folds in a whole function.
pub fn run(function: &mut Function, target: Target) -> Stats {
    let mut folder = Folder { definitions: Definitions::compute(function), judge: Judge::recall(target), stats: Stats::default() };
    for at in 0..function.layout.len() {
        let block = function.layout[at];
        for number in 0..function.blocks[block].insts.len() {
            let inst = function.blocks[block].insts[number];
            if let Some(opcode) = function.insts[inst].op.machine() {
                folder.fold(function, inst, opcode);
            }
        }
    }
    folder.judge.remember();
    folder.stats
}

struct Folder {
    definitions: Definitions,
    judge: Judge,
    stats: Stats,
}

/// A register and a number that is added to it.
struct Sum {
    base: Option<Part>,
    number: i64,
}

impl Folder {
    fn fold(&mut self, function: &mut Function, inst: Inst, opcode: Opcode) {
        self.join_sums(function, inst, opcode);
        let takes_numbers = opcode.properties().effect == Effect::None || opcode == Opcode::SHFL;
        while self.fold_constant(function, inst, opcode, takes_numbers) {
            self.stats.constants += 1;
        }
        if !function.sources(inst).iter().any(|source| matches!(source.role, Role::Bracket(_))) {
            return;
        }
        for at in function.insts[inst].result_count()..function.operands(inst).len() {
            if matches!(function.operands(inst)[at].role, Role::Bracket(_)) {
                self.fold_address(function, inst, opcode, at);
            }
        }
    }

    /// Replaces one operand by what it is known to be, wide ones first: they save most.
    fn fold_constant(&mut self, function: &mut Function, inst: Inst, opcode: Opcode, takes_numbers: bool) -> bool {
        let results = function.insts[inst].result_count();
        let mut candidates: SmallVec<[(usize, Part); 6]> = SmallVec::new();
        for (number, operand) in function.sources(inst).iter().enumerate() {
            if let (OperandKind::Value(part), Role::Plain) = (operand.kind, operand.role)
                && self.definitions.word(function, piece(part, 0)).is_some()
            {
                candidates.push((results + number, part));
            }
        }
        if candidates.is_empty() {
            return false;
        }
        candidates.sort_by_key(|(_, part)| std::cmp::Reverse(part.count));
        candidates.into_iter().any(|(at, part)| {
            let constant = self.constant(function, inst, opcode, at, part, takes_numbers);
            constant.is_some_and(|constant| self.try_operand(function, inst, opcode, at, constant))
        })
    }

    /// What an operand is known to be, as the instruction would read it.
    fn constant(&self, function: &Function, inst: Inst, opcode: Opcode, at: usize, part: Part, takes_numbers: bool) -> Option<Operand> {
        let operand = function.operands(inst)[at];
        let file = function.values[part.value].file;
        if !matches!(file, File::General | File::Uniform) {
            return None;
        }
        let words: Option<SmallVec<[Word; 4]>> =
            (0..part.count).map(|number| self.definitions.word(function, piece(part, number))).collect();
        let words = words?;
        // The text of a compare-and-swap on Turing has no name for a zero register; ptxas puts the zero into a register everywhere.
        let is_swap = function.insts[inst].modifiers.contains(&Symbol::CAS);
        if is_swap {
            return None;
        }
        if words.iter().all(|&word| word == Word::Integer(0)) {
            return Some(Operand { kind: OperandKind::Zero(file), ..operand });
        }
        let is_half = opcode.properties().pipe == Pipe::Half;
        // The sign of such a result is made of the signs under the bars, which an immediate would lose.
        let keeps_sign = function.insts[inst].modifiers.contains(&Symbol::XORSIGN) && operand.signs.has(Signs::ABSOLUTE);
        // The least number is its own negative, but a saturated difference is not a saturated sum.
        let has_no_negative = function.insts[inst].modifiers.contains(&Symbol::ISAT)
            && operand.signs.has(Signs::NEGATE)
            && words.as_slice() == [Word::Integer(1 << 31)];
        if has_no_negative || keeps_sign || !takes_numbers || is_half || operand.suffixes().next().is_some() {
            return None;
        }
        let is_wide = opcode.properties().pipe == Pipe::Double || opcode == Opcode::IMAD && is_wide_addend(function, inst, at);
        let kind = match words.as_slice() {
            [Word::Integer(number)] => OperandKind::Integer(i64::from(*number)),
            [Word::Constant { bank, offset }] => OperandKind::Constant { bank: *bank, offset: *offset },
            [Word::Integer(0), Word::Integer(high)] if opcode.properties().pipe == Pipe::Double => OperandKind::Integer(i64::from(*high)),
            [Word::Constant { bank, offset }, Word::Constant { bank: upper_bank, offset: upper }]
                if is_wide && bank == upper_bank && *upper == offset + 4 && offset % 8 == 0 =>
            {
                OperandKind::Constant { bank: *bank, offset: *offset }
            }
            _ => return None,
        };
        Some(Operand { kind, ..operand }.with_signs_folded(opcode))
    }

    /// Puts an operand in if a form takes it, in any order of the sources.
    fn try_operand(&mut self, function: &mut Function, inst: Inst, opcode: Opcode, at: usize, operand: Operand) -> bool {
        let mut draft = Draft::of(function, inst, opcode);
        draft.operands[at] = operand;
        if self.judge.fits(function, inst, &draft) {
            draft.store(function, inst);
            return true;
        }
        let fitting = order::orders(&draft).into_iter().skip(1).find(|draft| self.judge.fits(function, inst, draft));
        fitting.map(|draft| draft.store(function, inst)).is_some()
    }

    /// Takes numbers out of the base of an address.
    fn fold_address(&mut self, function: &mut Function, inst: Inst, opcode: Opcode, at: usize) {
        for _ in 0..SUMS_AT_MOST {
            let operand = function.operands(inst)[at];
            // A narrow base in a wide address is extended first: its sum may wrap.
            let is_extended = operand.part().is_some_and(|part| part.count == 1) && !is_narrow(opcode, &operand);
            let Some(sum) = operand.part().filter(|_| !is_extended).and_then(|part| self.sum(function, part)) else { return };
            let Some(draft) = with_offset(Draft::of(function, inst, opcode), at, &sum) else { return };
            if !self.judge.fits(function, inst, &draft) {
                return;
            }
            draft.store(function, inst);
            self.stats.offsets += 1;
        }
    }

    /// A register or an aligned pair as a sum of another and a number.
    fn sum(&self, function: &Function, part: Part) -> Option<Sum> {
        if function.values[part.value].file != File::General {
            return None;
        }
        match part.count {
            1 => match self.definitions.word(function, part) {
                Some(Word::Integer(number)) => Some(Sum { base: None, number: i64::from(number as i32) }),
                Some(Word::Constant { .. }) => None,
                None => {
                    let (base, number, _) = self.addition(function, part)?;
                    Some(Sum { base: Some(base), number: i64::from(number as i32) })
                }
            },
            2 => self.wide_sum(function, part),
            _ => None,
        }
    }

    /// `lower + number` with its carry, and `upper + number + carry`.
    fn wide_sum(&self, function: &Function, part: Part) -> Option<Sum> {
        let (lower, low, carry) = self.addition(function, piece(part, 0))?;
        let origin = self.definitions.origin(function, piece(part, 1));
        let inst = self.definitions.unguarded(function, origin.value)?;
        let is_carrying = function.insts[inst].is_machine(Opcode::IADD3) && function.insts[inst].modifiers.as_slice() == [Symbol::X];
        let [first, second, third, carry_in, other_carry] = function.sources(inst) else { return None };
        let reads_carry = carry_in.part().is_some_and(|read| Some(read.value) == carry) && carry_in.signs.is_empty();
        let is_first_result = function.results(inst).first().and_then(Operand::value) == Some(origin.value);
        if !is_carrying || !is_first_result || !reads_carry || *other_carry != Operand::PT.inverted_predicate() {
            return None;
        }
        let (upper, high) = self.register_and_number(function, &[*first, *second, *third])?;
        let base = (upper.value == lower.value && upper.first == lower.first + 1 && lower.first % 2 == 0)
            .then_some(Part { count: 2, ..lower })
            .filter(|base| function.values[base.value].align >= 2)?;
        Some(Sum { base: Some(base), number: (u64::from(high) << 32 | u64::from(low)) as i64 })
    }

    /// One register as a sum, with the predicate that has its carry.
    fn addition(&self, function: &Function, part: Part) -> Option<(Part, u32, Option<oriole_ir::Value>)> {
        let origin = self.definitions.origin(function, part);
        let inst = self.definitions.unguarded(function, origin.value)?;
        let data = &function.insts[inst];
        let is_first_result = function.results(inst).first().and_then(Operand::value) == Some(origin.value);
        if !data.is_machine(Opcode::IADD3) || !data.modifiers.is_empty() || !is_first_result {
            return None;
        }
        let [first, second, third] = function.sources(inst) else { return None };
        let carry = function.results(inst).get(1).and_then(Operand::value);
        let (base, number) = self.register_and_number(function, &[*first, *second, *third])?;
        Some((base, number, carry))
    }

    /// Three summands of which one is a register and the others are numbers.
    fn register_and_number(&self, function: &Function, summands: &[Operand]) -> Option<(Part, u32)> {
        let mut register = None;
        let mut number = None;
        for summand in summands {
            if !summand.signs.is_empty() {
                return None;
            }
            let known = match summand.kind {
                OperandKind::Integer(known) => Some(known as u32),
                OperandKind::Zero(File::General) => Some(0),
                OperandKind::Value(part) => match self.definitions.word(function, part) {
                    Some(Word::Integer(known)) => Some(known),
                    _ => None,
                },
                _ => return None,
            };
            match (known, summand.part()) {
                (Some(0), _) => {}
                // Two numbers could carry twice.
                (Some(known), _) => number = Some(known).filter(|_| number.is_none()).map(Some)?,
                (None, Some(part)) if function.values[part.value].file == File::General && register.is_none() => {
                    register = Some(self.definitions.origin(function, part));
                }
                _ => return None,
            }
        }
        Some((register?, number.unwrap_or(0)))
    }

    /// `(a + 4) + 8` is `a + 12`, if nobody asks for the carry.
    fn join_sums(&mut self, function: &mut Function, inst: Inst, opcode: Opcode) {
        let data = &function.insts[inst];
        let wants_carry = function.results(inst).iter().skip(1).any(|result| result.value().is_some());
        if opcode != Opcode::IADD3 || !data.modifiers.is_empty() || wants_carry || function.sources(inst).len() != 3 {
            return;
        }
        let numbers: SmallVec<[usize; 3]> = (0..3).filter(|&at| function.sources(inst)[at].integer().is_some()).collect();
        let [at] = numbers.as_slice() else { return };
        let number = function.sources(inst)[*at];
        for other in (0..3).filter(|other| other != at) {
            let operand = function.sources(inst)[other];
            let Some(part) = operand.part().filter(|_| operand.signs == Signs::NONE && number.signs == Signs::NONE) else { continue };
            let Some((base, added, _)) = self.addition(function, part).filter(|found| found.1 != 0) else { continue };
            let joined = (number.integer().unwrap_or_default() as u32).wrapping_add(added);
            let sources = function.sources_mut(inst);
            sources[*at].kind = OperandKind::Integer(i64::from(joined));
            sources[other].kind = OperandKind::Value(base);
            self.stats.sums += 1;
        }
    }
}

/// Whether addresses are 32-bit numbers, and the base is not scaled.
fn is_narrow(opcode: Opcode, base: &Operand) -> bool {
    matches!(opcode.properties().memory, Memory::Shared | Memory::Local | Memory::Constant) && base.suffixes().next().is_none()
}

/// Whether an operand is the 64-bit summand of a wide product.
fn is_wide_addend(function: &Function, inst: Inst, at: usize) -> bool {
    let is_wide = function.insts[inst].modifiers.contains(&Symbol::WIDE);
    is_wide && function.operands(inst)[at].part().is_some_and(|part| part.count == 2)
}

/// An address with another base, and what was taken out of it added to its offset.
fn with_offset(mut draft: Draft, at: usize, sum: &Sum) -> Option<Draft> {
    let role = draft.operands[at].role;
    let offset = (0..draft.operands.len()).find(|&at| draft.operands[at].role == role && draft.operands[at].integer().is_some());
    let old = offset.map_or(0, |at| draft.operands[at].integer().unwrap_or_default());
    let new = OperandKind::Integer(old.checked_add(sum.number)?);
    match (sum.base, offset) {
        (Some(base), Some(offset)) => {
            draft.operands[at].kind = OperandKind::Value(base);
            draft.operands[offset].kind = new;
        }
        (Some(base), None) => {
            draft.operands[at].kind = OperandKind::Value(base);
            draft.operands.insert(at + 1, Operand::new(new).with_role(role));
        }
        (None, Some(offset)) => {
            draft.operands[offset].kind = new;
            draft.operands[at].kind = OperandKind::Zero(File::General);
        }
        (None, None) => {
            draft.operands[at].kind = OperandKind::Zero(File::General);
            draft.operands.insert(at + 1, Operand::new(new).with_role(role));
        }
    }
    Some(draft)
}
