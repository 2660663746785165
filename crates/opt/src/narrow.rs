//! Narrows 64-bit values to 32 bits if no instruction reads their upper half.
//!
//! ```text
//! bb1:  %3:R2 = PHI %1, bb0, %8, bb1                  bb1:  %9:R = PHI %1[0], bb0, %12, bb1
//!       %4:R2 = IMAD.WIDE.U32 %3[0], %2, RZ                 %10:R = IMAD %9, %2, RZ
//!       %5:R = IMAD %3[1], %2, %4[1]         becomes
//!       %6:R, %7:P, PT = IADD3 %4[0], 77, RZ                %6:R, PT, PT = IADD3 %10, 77, RZ
//!       ...
//!       %8:R2 = PACK %6, %5                                 %12:R = COPY %6
//! ```
//!
//! The pass starts with the 32-bit words that instructions with side effects read, and walks to their definitions. For phis, copies, packs
//! and widening products, the words read of the result determine the words read of the sources; all other instructions read all words of
//! their sources. So the upper half of a loop-carried value that only contributes to itself disappears. Then the instructions whose results
//! are read only in their lower halves become 32-bit instructions, and those whose results are not read at all are removed.
//!
//! **Before** and **after**: SSA, legal instructions. The cost is linear: an instruction is visited at most once for each word of its
//! result.

use oriole_ir::{Class, Function, Inst, Op, Operand, OperandKind, Part, Pseudo, RegFile, Role, Target, Value, machine};
use oriole_isa::{Opcode, Symbol, Symbols};
use oriole_support::Index;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::dead;
use crate::definitions::Definitions;
use crate::rewrite::single_register;

/// Bit mask for the lower 32-bit word of a register pair.
const LOW_WORD_MASK: u8 = 1;

/// Bit mask for both 32-bit words of a register pair. For values of other widths, whose words are not distinguished, it means all words.
const ALL_WORDS_MASK: u8 = 3;

/// Numbers of changes that the pass made to a function.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Number of 64-bit values that became 32-bit values.
    pub narrowed: usize,
}

/// Narrows each 64-bit value of a function to 32 bits if only its lower half is read.
pub fn run(function: &mut Function, target: Target) -> Stats {
    let insts: Vec<Inst> = function.layout.iter().flat_map(|&block| &function.blocks[block].insts).copied().collect();
    if !insts.iter().any(|&inst| match_narrowable_inst(function, inst, target).is_some()) {
        return Stats::default();
    }
    let demand = WordDemand::compute(function, &insts, target);
    let mut narrowed: FxHashMap<Value, Value> = FxHashMap::default();
    let mut changed: Vec<(Inst, HalfDependence, Value)> = Vec::new();
    for &inst in &insts {
        let kind = match_narrowable_inst(function, inst, target).filter(|_| demand.is_live[inst.position()]);
        let Some((kind, wide)) = kind.filter(|&(_, value)| demand.read_words[value.position()] == LOW_WORD_MASK) else { continue };
        narrowed.insert(wide, function.new_value(Class::R));
        changed.push((inst, kind, wide));
    }
    if changed.is_empty() {
        return Stats::default();
    }
    for (block, is_live) in function.layout.clone().into_iter().map(|block| (block, &demand.is_live)) {
        function.blocks[block].insts.retain(|inst| is_live[inst.position()]);
    }
    for &(inst, kind, wide) in &changed {
        narrow_inst(function, inst, kind, narrowed[&wide], &narrowed);
    }
    for &inst in insts.iter().filter(|inst| demand.is_live[inst.position()]) {
        for operand in function.sources_mut(inst) {
            if let OperandKind::Value(part) = &mut operand.kind
                && let Some(&new) = narrowed.get(&part.value)
            {
                part.value = new;
            }
        }
    }
    dead::run(function, target);
    Stats { narrowed: changed.len() }
}

/// How the halves of a 64-bit result depend on the sources of its defining instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum HalfDependence {
    /// All sources are register pairs; each half of the result depends on the same half of the sources (phi, copy).
    Parallel,
    /// A pack: the first source is the lower half, the second the upper half.
    Pack,
    /// A widening multiply-add: the lower half of the result depends on both factors and on the lower half of the addend.
    Product,
}

/// Matches an instruction that could be replaced by one that computes only the lower half of its 64-bit result. Returns how the halves of
/// the result depend on the sources, and the result.
fn match_narrowable_inst(function: &Function, inst: Inst, target: Target) -> Option<(HalfDependence, Value)> {
    let data = &function.insts[inst];
    let (result, sources) = function.operands(inst).split_first()?;
    let part = result.part().filter(|_| data.guard.is_none() && data.result_count() == 1 && result.role == Role::Plain)?;
    if function.values[part.value] != Class::R2 || function.whole(part.value) != part {
        return None;
    }
    let is_plain = |operand: &Operand| operand.role == Role::Plain && operand.signs.is_empty() && operand.suffixes().next().is_none();
    if !sources.iter().all(is_plain) {
        return None;
    }
    let is_general = |part: Part| function.values[part.value].file == RegFile::General;
    let is_pair = |operand: &Operand| match operand.kind {
        OperandKind::Value(part) => part.count == 2 && is_general(part),
        OperandKind::Undefined | OperandKind::Block(_) => true,
        OperandKind::Zero(file) => file == RegFile::General,
        _ => false,
    };
    let is_word = |operand: &Operand| operand.part().is_none_or(|part| part.count == 1);
    let kind = match (data.op, sources) {
        (Op::Pseudo(Pseudo::Phi), sources) if sources.iter().all(is_pair) => HalfDependence::Parallel,
        (Op::Pseudo(Pseudo::Copy), [source]) if source.part().is_some() && is_pair(source) => HalfDependence::Parallel,
        (Op::Pseudo(Pseudo::Pack), [low, high]) if is_word(low) && is_word(high) => HalfDependence::Pack,
        (Op::Machine(Opcode::IMAD), [a, b, c]) if is_word(a) && is_word(b) && is_pair(c) => {
            let is_wide = matches!(*data.modifiers, [Symbol::WIDE] | [Symbol::WIDE, Symbol::U32]);
            let operands = [placeholder_register(), *a, *b, low_word(*c)];
            let fits = is_wide && machine::operands_fit(function, Opcode::IMAD, &Symbols::new(), None, &operands, target);
            Some(HalfDependence::Product).filter(|_| fits)?
        }
        _ => return None,
    };
    Some((kind, part.value))
}

/// Returns an example register for the 32-bit result of a narrowed instruction, to test whether the instruction can be encoded.
fn placeholder_register() -> Operand {
    Operand::new(OperandKind::Register { file: RegFile::General, first: 4, count: 1 })
}

/// Returns the lower half of an operand that is a register pair; other operands are returned unchanged.
fn low_word(operand: Operand) -> Operand {
    match operand.kind {
        OperandKind::Value(part) => Operand { kind: OperandKind::Value(single_register(part, 0)), ..operand },
        _ => operand,
    }
}

/// Which words of each value are read, and which instructions are live.
struct WordDemand {
    /// For each value, the bit mask of the words that live instructions read: 0, [`LOW_WORD_MASK`] or [`ALL_WORDS_MASK`].
    read_words: Vec<u8>,
    /// For each instruction, whether it has a side effect or defines a word that is read.
    is_live: Vec<bool>,
}

impl WordDemand {
    /// Finds the words that are read, starting from the instructions with side effects.
    fn compute(function: &Function, insts: &[Inst], target: Target) -> WordDemand {
        let definitions = Definitions::compute(function);
        let mut demand = WordDemand { read_words: vec![0; function.values.len()], is_live: vec![false; function.insts.len()] };
        let mut work: Vec<Inst> = insts.iter().copied().filter(|&inst| dead::has_side_effect(function, inst)).collect();
        while let Some(inst) = work.pop() {
            demand.is_live[inst.position()] = true;
            let kind = match_narrowable_inst(function, inst, target)
                .filter(|&(_, value)| demand.read_words[value.position()] == LOW_WORD_MASK)
                .map(|(kind, _)| kind);
            for (at, source) in function.sources(inst).iter().enumerate() {
                let Some(part) = source.part() else { continue };
                let mask = match kind {
                    Some(HalfDependence::Pack) if at == 1 => continue,
                    Some(HalfDependence::Parallel) => LOW_WORD_MASK << part.first,
                    Some(HalfDependence::Product) if at == 2 => LOW_WORD_MASK << part.first,
                    _ => (((1_u16 << part.count.min(7)) - 1) << part.first.min(7)) as u8,
                };
                demand.add_read_words(function, &definitions, part.value, mask, &mut work);
            }
            if let Some(OperandKind::Value(part)) = function.insts[inst].guard.map(|guard| guard.kind) {
                demand.add_read_words(function, &definitions, part.value, ALL_WORDS_MASK, &mut work);
            }
        }
        demand
    }

    /// Records that the words `mask` of a value are read. If they were not read before, adds the definition of the value to the worklist.
    fn add_read_words(&mut self, function: &Function, definitions: &Definitions, value: Value, mask: u8, work: &mut Vec<Inst>) {
        let mask = if function.values[value] == Class::R2 { mask & ALL_WORDS_MASK } else { ALL_WORDS_MASK };
        let old = self.read_words[value.position()];
        // A value of which only the upper half is read counts as read completely, because only the lower half can be computed alone.
        let new = if (old | mask) == LOW_WORD_MASK { LOW_WORD_MASK } else { ALL_WORDS_MASK };
        if new != old {
            self.read_words[value.position()] = new;
            work.extend(definitions.definition_of(value));
        }
    }
}

/// Replaces an instruction by one that computes only the lower half of its result, into the 32-bit value `new`. `narrowed` maps each
/// narrowed 64-bit value to the 32-bit value that replaces it.
fn narrow_inst(function: &mut Function, inst: Inst, kind: HalfDependence, new: Value, narrowed: &FxHashMap<Value, Value>) {
    let mut operands: SmallVec<[Operand; 8]> = function.operands(inst).iter().copied().collect();
    operands[0].kind = OperandKind::Value(function.whole(new));
    let low = |operand: &mut Operand| {
        *operand = low_word(*operand);
        // A narrowed value has one word: the lower word of the original value.
        if let OperandKind::Value(part) = &mut operand.kind
            && narrowed.contains_key(&part.value)
        {
            part.first = 0;
        }
    };
    match kind {
        HalfDependence::Parallel => operands[1..].iter_mut().for_each(low),
        HalfDependence::Pack => {
            operands.truncate(2);
            function.insts[inst].op = Op::Pseudo(Pseudo::Copy);
        }
        HalfDependence::Product => {
            low(&mut operands[3]);
            function.insts[inst].modifiers = Symbols::new();
        }
    }
    function.set_operands(inst, &operands, 1);
}
