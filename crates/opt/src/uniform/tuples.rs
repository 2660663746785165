//! Derives the descriptors of a warpgroup matrix product (`HGMMA` etc.) from those of the previous one.
//!
//! The descriptors of a matrix product are four consecutive uniform registers. Consecutive products mostly differ in two of these words, by
//! small constants. If the pack of the second tuple takes the other words from the first tuple, and the sums start from words of the first
//! tuple, the register allocator updates one tuple in place:
//!
//! ```text
//! %5:UR4 = PACK %1, %2, %3, %4                     %5:UR4 = PACK %1, %2, %3, %4
//! HGMMA gdesc[%5]                                  HGMMA gdesc[%5]
//! %6:UR = UIADD3 %1, 0x2, URZ                      %6:UR = UIADD3 %5[0], 0x2, URZ
//! %7:UR = UMOV 0x40000040       // = %2
//! %8:UR = UIADD3 %3, 0x2, URZ                      %8:UR = UIADD3 %5[2], 0x2, URZ
//! %9:UR = UMOV 0x40000040       // = %4
//! %10:UR4 = PACK %6, %7, %8, %9                    %10:UR4 = PACK %6, %5[1], %8, %5[3]
//! HGMMA gdesc[%10]                                 HGMMA gdesc[%10]
//! ```
//!
//! The same holds for words that `R2UR` copies from general registers: only the first tuple needs the copy.
//!
//! A matrix product with matrix A in registers does not read the first two words, so they may have any value.

use oriole_ir::analysis::DefUse;
use oriole_ir::{Block, Class, Function, Inst, Op, Operand, OperandKind, Part, Pseudo, RegFile, Value};
use oriole_isa::{Opcode, Symbols};
use oriole_support::Index;
use rustc_hash::FxHashMap;

use crate::definitions::Definitions;
use crate::known::{LUT_OR, OperandFacts};
use crate::rewrite::single_register;

/// Number of 32-bit words in the descriptor tuple of a matrix product.
const DESCRIPTOR_WORDS: usize = 4;

/// How one 32-bit word of a descriptor tuple is computed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DescriptorWord {
    /// A compile-time constant.
    Constant(u32),
    /// A register plus a constant.
    Sum(Part, u32),
    /// Any other computation.
    Unknown,
}

/// The tuple of four uniform registers with the descriptors of a warpgroup matrix product.
#[derive(Clone, Copy)]
struct DescriptorTuple {
    /// The value in the four registers.
    value: Value,
    /// Index of the pack that defines the tuple in its block.
    position: usize,
    /// How each of the four words is computed.
    words: [DescriptorWord; DESCRIPTOR_WORDS],
}

/// Makes the descriptor tuple of each matrix product depend on the tuple of the previous product, where possible. Returns the number of
/// tuples changed in this way.
pub(super) fn run(function: &mut Function) -> usize {
    let has_products = |block: &Block| function.blocks[*block].insts.iter().any(|&inst| function.is_warpgroup_product(inst));
    let blocks: Vec<Block> = function.layout.iter().copied().filter(has_products).collect();
    if blocks.is_empty() {
        return 0;
    }
    let definitions = Definitions::compute(function);
    let def_use = DefUse::compute(function);
    blocks.into_iter().map(|block| derive_tuples_in_block(function, &definitions, &def_use, block)).sum()
}

/// Makes each descriptor tuple of a block depend on the previous one, where possible. Returns the number of tuples changed in this way.
fn derive_tuples_in_block(function: &mut Function, definitions: &Definitions, def_use: &DefUse, block: Block) -> usize {
    let insts = function.blocks[block].insts.clone();
    let positions: FxHashMap<Inst, usize> = insts.iter().enumerate().map(|(position, &inst)| (inst, position)).collect();
    let mut added: FxHashMap<Inst, Vec<Inst>> = FxHashMap::default();
    let known = function.values.len();
    let mut last: Option<DescriptorTuple> = None;
    let mut derived = 0;
    for &inst in &insts {
        if !function.is_warpgroup_product(inst) {
            continue;
        }
        let Some((value, pack)) = descriptor_tuple_of(function, definitions, inst) else { continue };
        let Some(&position) = positions.get(&pack) else { continue };
        if last.is_some_and(|last| last.value == value) {
            continue;
        }
        let words = std::array::from_fn(|at| analyze_descriptor_word(function, definitions, &function.sources(pack)[at]));
        let mut tuple = DescriptorTuple { value, position, words };
        // If several products read the previous tuple, it may still be needed after this product, so it cannot be updated in place.
        let has_one_reader = |value: Value| def_use.uses(value).len() == 1;
        if let Some(last) = last.filter(|last| last.position < position && has_one_reader(last.value)) {
            let new = derive_words_from_last_tuple(function, inst, pack, &last, &mut tuple);
            derived += 1;
            added.insert(pack, new);
        }
        let copies = copy_words_of_other_blocks(function, def_use, known, pack, block);
        added.entry(pack).or_default().extend(copies);
        last = Some(tuple);
    }
    if !added.is_empty() {
        let with_new = |inst: Inst| added.remove(&inst).unwrap_or_default().into_iter().chain([inst]);
        function.blocks[block].insts = insts.into_iter().flat_map(with_new).collect();
    }
    derived
}

/// Returns the descriptor tuple of a matrix product, and the pack of four words that defines the tuple; `None` if the tuple is not defined
/// by such a pack.
fn descriptor_tuple_of(function: &Function, definitions: &Definitions, inst: Inst) -> Option<(Value, Inst)> {
    let is_tuple = |part: &Part| function.values[part.value].file == RegFile::Uniform && usize::from(part.count) == DESCRIPTOR_WORDS;
    let part = function.sources(inst).iter().filter_map(Operand::part).find(is_tuple)?;
    let pack = definitions.unguarded_definition_of(function, part.value)?;
    let is_word = |source: &Operand| source.part().is_some_and(|part| part.count == 1);
    let is_pack = function.insts[pack].is(Pseudo::Pack) && function.sources(pack).len() == DESCRIPTOR_WORDS;
    (is_pack && function.sources(pack).iter().all(is_word)).then_some((part.value, pack))
}

/// Returns how `operand`, one 32-bit word of a descriptor tuple, is computed.
fn analyze_descriptor_word(function: &Function, definitions: &Definitions, operand: &Operand) -> DescriptorWord {
    let known = OperandFacts::new(function, definitions);
    if let Some(number) = known.word(operand) {
        return DescriptorWord::Constant(number);
    }
    let Some(part) = operand.part().filter(|_| operand.signs.is_empty()) else { return DescriptorWord::Unknown };
    // Words of descriptors that are computed before a loop are often in general registers.
    let part = copied_from_general(function, definitions, part).unwrap_or(part);
    match_sum_with_constant(function, definitions, part).unwrap_or(DescriptorWord::Sum(part, 0))
}

/// If a uniform register is a copy of a general register by `R2UR`, returns the general register; otherwise `None`.
fn copied_from_general(function: &Function, definitions: &Definitions, part: Part) -> Option<Part> {
    let inst = definitions.unguarded_definition_of(function, part.value).filter(|&inst| function.insts[inst].is_machine(Opcode::R2UR))?;
    let [source] = function.sources(inst) else { return None };
    source.part().filter(|from| source.signs.is_empty() && from.count == 1 && function.values[from.value].file == RegFile::General)
}

/// If a register is the sum of another register and a constant, returns it as a [`DescriptorWord::Sum`]; otherwise `None`. A bitwise OR
/// with bits that are zero in the other register counts as a sum.
fn match_sum_with_constant(function: &Function, definitions: &Definitions, part: Part) -> Option<DescriptorWord> {
    let inst = definitions.unguarded_definition_of(function, part.value)?;
    let data = &function.insts[inst];
    let sources = function.sources(inst);
    let [first, second, ..] = sources else { return None };
    let base = first.part().filter(|_| first.signs.is_empty() && second.signs.is_empty())?;
    let number = second.integer()? as u32;
    let is_base = base.count == 1 && function.values[base.value].file == function.values[part.value].file;
    let is_sum = match data.op {
        Op::Machine(Opcode::VIADD) => data.modifiers.is_empty() && sources.len() == 2,
        Op::Machine(Opcode::UIADD3 | Opcode::IADD3) => {
            data.modifiers.is_empty() && matches!(sources[2].kind, OperandKind::Zero(_)) && sources.len() == 3
        }
        Op::Machine(Opcode::ULOP3) => {
            let most = OperandFacts::new(function, definitions).upper_bound(first);
            let is_disjunction = data.modifiers.iter().map(|modifier| modifier.spelling()).eq([".LUT"])
                && data.result_count() == 1
                && sources.get(3).and_then(Operand::integer) == Some(LUT_OR)
                && matches!(sources[2].kind, OperandKind::Zero(_));
            // The OR is a sum if the lowest set bit of the constant is above the highest bit that may be set in the register.
            is_disjunction && most.checked_add(1).is_some_and(|end| u64::from(number).is_multiple_of(end.next_power_of_two()))
        }
        _ => false,
    };
    (is_base && is_sum && function.operands(inst)[0].value() == Some(part.value)).then_some(DescriptorWord::Sum(base, number))
}

/// Where possible, changes the sources of `pack`, the words of a tuple: to words of the previous tuple, or to sums of such a word and a
/// constant. Words that the product does not read become those of the previous tuple, and `tuple` is updated accordingly. Returns the new
/// instructions to insert before the pack.
fn derive_words_from_last_tuple(
    function: &mut Function,
    product: Inst,
    pack: Inst,
    last: &DescriptorTuple,
    tuple: &mut DescriptorTuple,
) -> Vec<Inst> {
    let has_matrix_in_registers = function.sources(product)[0].value().is_some();
    let whole = function.whole(last.value);
    let mut new = Vec::new();
    for at in 0..DESCRIPTOR_WORDS {
        let word = single_register(whole, at as u8);
        let is_read = at >= DESCRIPTOR_WORDS / 2 || !has_matrix_in_registers;
        let source = match (last.words[at], tuple.words[at]) {
            _ if !is_read => {
                tuple.words[at] = last.words[at];
                Operand::from(word)
            }
            (DescriptorWord::Constant(old), DescriptorWord::Constant(number)) if old == number => Operand::from(word),
            (DescriptorWord::Sum(old_base, old), DescriptorWord::Sum(base, number)) if old_base == base => {
                let step = number.wrapping_sub(old);
                if step == 0 { Operand::from(word) } else { emit_constant_addition(function, pack, word, step, &mut new) }
            }
            _ => continue,
        };
        function.sources_mut(pack)[at] = source;
    }
    new
}

/// Makes the pack of a descriptor tuple read copies of those words that are defined in another block, and returns the copies. The matrix
/// product that reads the tuple is often in a loop. The next iteration then reads such a word again, so it must be copied anyway. Without
/// this copy, the register allocator would try to assign the whole tuple to registers next to the word itself. `known` is the number of
/// values that existed when `def_use` was computed; newer values are defined in `block`.
fn copy_words_of_other_blocks(function: &mut Function, def_use: &DefUse, known: usize, pack: Inst, block: Block) -> Vec<Inst> {
    let mut new = Vec::new();
    for at in 0..DESCRIPTOR_WORDS {
        let source = function.sources(pack)[at];
        let is_single = |value: Value| function.values[value].width == 1;
        let Some(value) = source.value().filter(|&value| is_single(value)) else { continue };
        // A value that has just been created is defined in this block.
        let defining_block = (value.position() < known).then(|| def_use.definition(value).and_then(|inst| def_use.block(inst))).flatten();
        if defining_block.is_none_or(|defining| defining == block) {
            continue;
        }
        let copied = function.new_value(Class::UR);
        let result = Operand::from(function.whole(copied));
        let inst = function.new_inst(Op::Machine(Opcode::UMOV), Symbols::new(), None, &[result, Operand::new(source.kind)], 1);
        function.insts[inst].location = function.insts[pack].location;
        new.push(inst);
        function.sources_mut(pack)[at] = result;
    }
    new
}

/// Creates the addition of the constant `step` to a word, appends it to `new`, and returns the sum.
fn emit_constant_addition(function: &mut Function, pack: Inst, word: Part, step: u32, new: &mut Vec<Inst>) -> Operand {
    let value = function.new_value(Class::UR);
    let result = Operand::from(function.whole(value));
    let operands = [result, Operand::UPT, Operand::UPT, word.into(), Operand::from(i64::from(step)), Operand::URZ];
    let inst = function.new_inst(Op::Machine(Opcode::UIADD3), Symbols::new(), None, &operands, 3);
    function.insts[inst].location = function.insts[pack].location;
    new.push(inst);
    result
}
