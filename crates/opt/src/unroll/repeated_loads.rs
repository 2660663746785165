//! Counts the loads of a loop body that repeat a load of an earlier iteration when the loop is unrolled fully.
//!
//! The address of such a load moves by a constant in each iteration, the step, and another load of the body reads what is one step, or a
//! few steps, ahead. In straight-line code, [`forward_stores`](crate::forward_stores) then makes the load a copy.
//!
//! ```text
//! bb1:  %a = PHI %start, bb0, %b, bb1
//!       %x = LDS [%a]                        counted: the iteration before loaded it as %y
//!       %y = LDS [%a+0x4]                    counted: the iteration before loaded it as %z
//!       %z = LDS [%a+0x8]                    not counted
//!       %b = IADD3 %a, 0x4, RZ               the step is 4
//! ```

use oriole_ir::{Function, Inst, Operand, OperandKind, Part, RegFile, Space};
use oriole_isa::Effect;
use rustc_hash::FxHashSet;

use super::body::LoopBodyProperties;
use super::shape::UnrollableLoop;
use super::{bound, wide};
use crate::definitions::Definitions;
use crate::forward_stores::{AddressTerms, MAX_FORWARDING_DISTANCE_INSTS, WordAccess};
use crate::rewrite::single_register;

/// The words that one iteration loads: the memory space, the base of the address, the constant offset and the size in bytes.
type LoadedWords = (Space, AddressTerms, i64, i64);

/// Returns the number of loads of a loop body that become copies in every unrolled iteration but the first ones. Returns 0 if the body has
/// branches, or writes the memory that it reads, because the loads are then not forwarded.
pub(super) fn count_repeated_loads(
    function: &Function,
    definitions: &Definitions,
    old_loop: &UnrollableLoop,
    body: &LoopBodyProperties,
) -> usize {
    let is_straight = |&block| block == old_loop.exiting || function.terminators(block).len() <= 1;
    if body.has_barriers || !old_loop.blocks.iter().all(is_straight) {
        return 0;
    }
    let insts = || old_loop.blocks.iter().flat_map(|&block| &function.blocks[block].insts).copied();
    let mut loads: Vec<(WordAccess, i64)> = Vec::new();
    for inst in insts().filter(|&inst| function.insts[inst].op.effect() == Effect::Reads) {
        let access = WordAccess::from_inst(function, definitions, inst).filter(|access| !access.is_store && access.words.is_some());
        let Some(access) = access.filter(|access| !body.may_write(access.space)) else { continue };
        if let Some(step) = address_step(function, definitions, old_loop, &access.base).filter(|&step| step != 0) {
            loads.push((access, step));
        }
    }
    let words = |access: &WordAccess, offset: i64| -> LoadedWords { (access.space, access.base.clone(), offset, access.bytes) };
    let loaded: FxHashSet<LoadedWords> = loads.iter().map(|(access, _)| words(access, access.offset)).collect();
    // A load is forwarded over a limited number of instructions, so over a limited number of iterations.
    let farthest = (MAX_FORWARDING_DISTANCE_INSTS / insts().count().max(1)) as i64;
    let is_repeated =
        |(access, step): &&(WordAccess, i64)| (1..=farthest).any(|ahead| loaded.contains(&words(access, access.offset + ahead * step)));
    loads.iter().filter(is_repeated).count()
}

/// Returns the number of bytes by which an address with this base moves in each iteration; `None` if it is not known to be a constant.
fn address_step(function: &Function, definitions: &Definitions, old_loop: &UnrollableLoop, base: &AddressTerms) -> Option<i64> {
    base.iter().try_fold(0, |sum, term| Some(sum + term_step(function, definitions, old_loop, term)?))
}

/// Returns the constant that one term of an address adds to the address in each iteration; 0 for a term that does not change in the loop,
/// `None` if the constant is not known.
fn term_step(function: &Function, definitions: &Definitions, old_loop: &UnrollableLoop, term: &Operand) -> Option<i64> {
    let OperandKind::Value(part) = term.kind else { return Some(0) };
    let inside = |inst: &Inst| old_loop.contains(*inst);
    let Some(inst) = definitions.definition_of(part.value).filter(inside) else { return Some(0) };
    let is_whole = part == function.whole(part.value) && function.values[part.value].file == RegFile::General;
    if !term.signs.is_empty() || !is_whole {
        return None;
    }
    // The term is a phi plus a constant, and the phi grows by a constant.
    let sum_of = |part: Part| match part.count {
        1 => {
            let (base, number) = bound::as_base_plus_constant(function, definitions, part);
            Some((base.value, i64::from(number)))
        }
        2 => wide::as_base_plus_constant(function, definitions, (single_register(part, 0), single_register(part, 1))),
        _ => None,
    };
    let phi = if old_loop.is_header_phi(function, inst) {
        inst
    } else {
        let (base, _) = sum_of(part)?;
        definitions.definition_of(base).filter(|&inst| old_loop.is_header_phi(function, inst))?
    };
    let result = function.results(phi)[0].value()?;
    let (base, step) = sum_of(old_loop.latch_phi_source(function, phi)?.part()?)?;
    (base == result && function.values[result].width == part.count).then_some(step)
}
