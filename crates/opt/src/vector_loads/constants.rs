//! Joins loads of the two words of an aligned 64-bit constant, such as a pointer that is a kernel parameter.
//!
//! ```text
//! %0 = LDC c[0x0][0x380]
//! %1 = LDC c[0x0][0x384]          becomes        %2:R2 = LDC.64 c[0x0][0x380]
//! %2:R2 = PACK %0, %1
//! ```
//!
//! Only for targets that load each word by an instruction: where a `MOV` reads the constant bank, two moves take less time than one load.
//! The loads of the words stay; dead-code elimination removes them, because nothing else may read them.

use oriole_ir::{Class, Function, Inst, Op, Operand, OperandKind, Pseudo, RegFile, Target, machine};
use oriole_isa::{Opcode, Symbol, Symbols};
use oriole_support::Index;

use crate::definitions::Definitions;

/// A word of a constant bank.
#[derive(Clone, Copy)]
struct ConstantWord {
    bank: u8,
    offset: u32,
}

/// Joins the words of a whole function; returns the number of loads created.
pub(super) fn run(function: &mut Function, target: Target) -> usize {
    let definitions = Definitions::compute(function);
    let mut readers = vec![0_u32; function.values.len()];
    for &inst in function.layout.iter().flat_map(|&block| &function.blocks[block].insts) {
        function.used(inst).for_each(|part| readers[part.value.position()] += 1);
    }
    let insts: Vec<Inst> = function.layout.iter().flat_map(|&block| function.blocks[block].insts.iter().copied()).collect();
    let mut joined = 0;
    for inst in insts {
        if let Some(ConstantWord { bank, offset }) = match_pair(function, &definitions, &readers, inst, target) {
            let result = function.results(inst)[0];
            function.insts[inst].op = Op::Machine(Opcode::LDC);
            function.insts[inst].modifiers = [Symbol::_64].into_iter().collect::<Symbols>();
            function.set_operands(inst, &[result, Operand::constant(bank, offset)], 1);
            debug_assert!(machine::is_encodable(function, inst, target));
            joined += 1;
        }
    }
    joined
}

/// Matches a pack of two words that are loaded for it alone; returns the first word.
fn match_pair(function: &Function, definitions: &Definitions, readers: &[u32], pack: Inst, target: Target) -> Option<ConstantWord> {
    let data = &function.insts[pack];
    let [result] = function.results(pack) else { return None };
    let [low, high] = function.sources(pack) else { return None };
    let is_pair = data.is(Pseudo::Pack)
        && data.guard.is_none()
        && result.part().is_some_and(|part| function.values[part.value] == Class::new(RegFile::General, 2));
    if !is_pair {
        return None;
    }
    let [low, high] = [low, high].map(|word| loaded_word(function, definitions, readers, word, target));
    let (low, high) = (low?, high?);
    (low.bank == high.bank && low.offset.is_multiple_of(8) && high.offset == low.offset + 4).then_some(low)
}

/// Returns the word that a load puts into a register with one reader.
fn loaded_word(function: &Function, definitions: &Definitions, readers: &[u32], word: &Operand, target: Target) -> Option<ConstantWord> {
    let part = word.part().filter(|part| word.signs.is_empty() && part.count == 1 && readers[part.value.position()] == 1)?;
    let inst = definitions.unguarded_definition_of(function, part.value)?;
    let data = &function.insts[inst];
    let [_, source] = function.operands(inst) else { return None };
    let OperandKind::Constant { bank, offset } = source.kind else { return None };
    let is_load = data.is_machine(Opcode::LDC) && data.modifiers.is_empty() && source.signs.is_empty();
    // The pass `legalize` chose the load because a move of the word has no encoding.
    let is_only_load = !machine::operands_fit(function, Opcode::MOV, &Symbols::new(), None, function.operands(inst), target);
    (is_load && is_only_load).then_some(ConstantWord { bank, offset })
}
