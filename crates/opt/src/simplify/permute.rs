//! Joins permutations of bytes: a `PRMT` of words whose bytes come from other permutations, masks and shifts by whole bytes.
//!
//! ```text
//! %2 = PRMT %0, 0x7770, RZ                     the lowest byte of %0
//! %3 = PRMT %0, 0x7771, RZ                     the next byte
//! %4 = LOP3.LUT %3, 0xff, RZ, 0xc0, !PT
//! %5 = PRMT %2, 0x3340, %4           becomes   %5 = PRMT %0, 0x7710, RZ
//! ```
//!
//! For each of the four bytes of the result, the analysis finds which byte of which word it is a copy of, or that it is zero. If the bytes
//! come from at most two words, one `PRMT` of these words gives the result, or a copy if all bytes are in their places. A zero byte is
//! taken from the zero register, or from a byte of one of the words that is known to be zero.

use oriole_ir::{Function, Inst, Op, Operand, OperandKind};
use oriole_isa::{Opcode, Symbol, Symbols};
use smallvec::{SmallVec, smallvec};

use super::{Simplifier, SimplifyRule};
use crate::known::{LUT_AND, OperandFacts};
use crate::rewrite::InstDraft;

/// Number of bytes in a 32-bit word.
const BYTES_PER_WORD: usize = 4;

/// Maximum length of a chain of dependent instructions to look through for the origin of a byte.
const MAX_DEPENDENCE_CHAIN: usize = 4;

/// Selector of a byte of the third operand of `PRMT`. If that operand is the zero register, the byte is zero; ptxas uses this selector too.
const ZERO_BYTE_SELECTOR: u32 = 7;

/// Where a byte of a 32-bit word comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ByteSource {
    /// The byte is zero.
    Zero,
    /// The byte is a copy of byte `n` of a 32-bit operand: the operand, and `n` (0 for the lowest byte).
    Byte(OperandKind, u32),
}

impl Simplifier {
    /// Replaces a `PRMT`, or a `LOP3` that only clears bytes, by a `PRMT` of the words that its bytes originally come from, or by a copy.
    /// Returns `None` if nothing changed.
    pub(super) fn simplify_permutation(&mut self, function: &mut Function, inst: Inst) -> Option<()> {
        let known = self.known(function);
        let wanted = byte_sources_of_result(known, function, inst, 0)?;
        let mut words: SmallVec<[OperandKind; BYTES_PER_WORD]> = SmallVec::new();
        for source in wanted {
            if let ByteSource::Byte(word, _) = source
                && !words.contains(&word)
            {
                words.push(word);
            }
        }
        let (first, second) = match words[..] {
            [] => return self.replace_by_copy(function, inst, Operand::RZ, SimplifyRule::Permutation),
            [only] => (only, Operand::RZ),
            [first, second] => (first, Operand::new(second)),
            _ => return None,
        };
        let contents = [first, second.kind].map(|word| byte_sources_of_operand(known, function, &Operand::new(word), 0));
        let is_in_place = |at: usize| wanted[at] == ByteSource::Byte(first, at as u32) || wanted[at] == contents[0][at];
        if words.len() == 1 && matches!(first, OperandKind::Value(_)) && (0..BYTES_PER_WORD).all(is_in_place) {
            return self.replace_by_copy(function, inst, Operand::new(first), SimplifyRule::Permutation);
        }
        let mut selectors = 0;
        for (at, source) in wanted.into_iter().enumerate() {
            let selector = match source {
                ByteSource::Byte(word, byte) => byte + if word == first { 0 } else { BYTES_PER_WORD as u32 },
                ByteSource::Zero if words.len() == 1 => ZERO_BYTE_SELECTOR,
                ByteSource::Zero => contents.iter().flatten().position(|&byte| byte == ByteSource::Zero)? as u32,
            };
            selectors |= selector << (BYTES_PER_WORD * at);
        }
        let operands: SmallVec<[Operand; 8]> = smallvec![function.results(inst)[0], Operand::new(first), selectors.into(), second];
        // An instruction that already reads the same words stays as it is: a mask is no slower than a permutation.
        let reads = |word: &OperandKind| function.sources(inst).iter().any(|source| source.kind == *word);
        if words.iter().all(reads) {
            return None;
        }
        let draft = InstDraft { opcode: Opcode::PRMT, modifiers: Symbols::new(), operands, result_count: 1 };
        self.replace_if_encodable(function, inst, draft, SimplifyRule::Permutation)
    }
}

/// Returns where each byte of a 32-bit operand comes from, lowest byte first.
pub(crate) fn byte_sources_of_operand(
    known: OperandFacts<'_>,
    function: &Function,
    operand: &Operand,
    depth: usize,
) -> [ByteSource; BYTES_PER_WORD] {
    let own = |at: usize| ByteSource::Byte(operand.kind, at as u32);
    if let Some(word) = known.word(operand) {
        return std::array::from_fn(|at| if word >> (8 * at) & 0xff == 0 { ByteSource::Zero } else { own(at) });
    }
    let defined = known.definition_of_operand(operand).filter(|_| depth < MAX_DEPENDENCE_CHAIN);
    if let Some(bytes) = defined.and_then(|(_, inst)| byte_sources_of_result(known, function, inst, depth + 1)) {
        return bytes;
    }
    let most = known.upper_bound(operand);
    std::array::from_fn(|at| if most >> (8 * at) == 0 { ByteSource::Zero } else { own(at) })
}

/// Returns where each byte of the only result of an instruction comes from, lowest byte first; `None` if the instruction does not just move
/// or clear whole bytes.
fn byte_sources_of_result(known: OperandFacts<'_>, function: &Function, inst: Inst, depth: usize) -> Option<[ByteSource; BYTES_PER_WORD]> {
    let data = &function.insts[inst];
    let Op::Machine(opcode) = data.op else { return None };
    let sources = function.sources(inst);
    let of = |source: &Operand| byte_sources_of_operand(known, function, source, depth);
    if data.guard.is_some() || data.result_count() != 1 || sources.iter().take(3).any(|source| !source.signs.is_empty()) {
        return None;
    }
    match (opcode, data.modifiers.as_slice(), sources) {
        (Opcode::PRMT, [], [a, selectors, c]) => {
            let selectors = known.word(selectors)?;
            let selector = |at: usize| (selectors >> (BYTES_PER_WORD * at) & 0xf) as usize;
            let pair = [of(a), of(c)];
            let byte = |at: usize| {
                let (word, byte) = (selector(at) / BYTES_PER_WORD % 2, selector(at) % BYTES_PER_WORD);
                if selector(at) < 2 * BYTES_PER_WORD {
                    return Some(pair[word][byte]);
                }
                // A selector with its upper bit set gives eight copies of the sign bit of the byte, which is zero if the word is small
                // enough.
                let is_small = pair[word][byte] == ByteSource::Zero || known.upper_bound([a, c][word]) < 0x80 << (8 * byte);
                is_small.then_some(ByteSource::Zero)
            };
            Some([byte(0)?, byte(1)?, byte(2)?, byte(3)?])
        }
        (Opcode::LOP3, [Symbol::LUT], [a, b, _, table, never])
            if table.integer() == Some(LUT_AND) && *never == Operand::PT.inverted_predicate() =>
        {
            let is_of_bytes = |mask: &u32| mask.to_le_bytes().iter().all(|byte| matches!(byte, 0 | 0xff));
            let mask = known.word(b).filter(is_of_bytes)?;
            let bytes = of(a);
            let byte = |at: usize| match mask >> (8 * at) & 0xff {
                0 => Some(ByteSource::Zero),
                0xff => Some(bytes[at]),
                _ => None,
            };
            Some([byte(0)?, byte(1)?, byte(2)?, byte(3)?])
        }
        (Opcode::SHF, [Symbol::R, Symbol::U32, Symbol::HI], [low, distance, high]) if known.word(low) == Some(0) => {
            let places = bits_to_bytes(known.word(distance)?)?;
            let bytes = of(high);
            Some(std::array::from_fn(|at| bytes.get(at + places).copied().unwrap_or(ByteSource::Zero)))
        }
        (Opcode::SHF, [Symbol::L, Symbol::U32], [low, distance, high]) if known.word(high) == Some(0) => {
            let places = bits_to_bytes(known.word(distance)?)?;
            let bytes = of(low);
            Some(std::array::from_fn(|at| at.checked_sub(places).map_or(ByteSource::Zero, |from| bytes[from])))
        }
        _ => None,
    }
}

/// Converts a shift distance from bits to bytes; `None` unless it is a whole number of bytes and less than 32 bits.
fn bits_to_bytes(distance: u32) -> Option<usize> {
    (distance.is_multiple_of(8) && distance < 32).then_some(distance as usize / 8)
}
