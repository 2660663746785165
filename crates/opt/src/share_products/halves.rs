//! Computes both halves of a 32-bit by 32-bit product with one multiplication.
//!
//! ```text
//! %h:R = IMAD.HI.U32 %a, %b, RZ        becomes   %w:R2 = IMAD.WIDE.U32 %a, %b, RZ
//! %l:R = IMAD %a, %b, RZ                         %h:R = COPY %w[1] ; %l:R = COPY %w[0]
//! ```
//!
//! `IMAD.HI` takes as long as `IMAD.WIDE`, so the multiplication of the lower half is saved. The lower half of a signed product and that of
//! an unsigned one are the same. A block that computes the whole product anyway needs no other multiplication of the same factors.
//!
//! A lower half that only `PACK`s read, such as the word of a vector that is stored, keeps its multiplication: it computes the half in the
//! register of the vector, to which the half of a wide product would have to be moved.

use oriole_ir::{Block, Class, Function, Inst, Location, Op, Operand, OperandKind, Pseudo};
use oriole_isa::{Opcode, Symbol, Symbols};
use oriole_support::Index;
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

use super::factors::factors_of;
use crate::definitions::Definitions;
use crate::legalize::EncodabilityCache;
use crate::rewrite::{InstDraft, single_register};

/// The part of a product that an `IMAD` without addend computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ComputedHalves {
    /// The lower half, which is the same for signed and unsigned factors.
    Low,
    /// The upper half of a signed (`false`) or unsigned (`true`) product.
    High(bool),
    /// Both halves of a signed (`false`) or unsigned (`true`) product.
    Whole(bool),
}

/// The instructions of a block that compute parts of one product, in the order of execution.
type ProductInsts = SmallVec<[(Inst, ComputedHalves); 2]>;

/// The values of a function that are read by `PACK`s only.
pub(super) struct PackedValues {
    /// For each value, whether something else reads it.
    is_read_otherwise: Vec<bool>,
}

impl PackedValues {
    /// Finds the values that `PACK`s read and nothing else.
    pub(super) fn find(function: &Function) -> PackedValues {
        let mut is_read_otherwise = vec![false; function.values.len()];
        for &inst in function.layout.iter().flat_map(|&block| &function.blocks[block].insts) {
            if !function.insts[inst].is(Pseudo::Pack) {
                function.sources(inst).iter().filter_map(Operand::value).for_each(|value| is_read_otherwise[value.position()] = true);
            }
        }
        PackedValues { is_read_otherwise }
    }

    /// Returns whether only `PACK`s read the result of an instruction.
    fn is_only_packed(&self, function: &Function, inst: Inst) -> bool {
        let result = function.results(inst)[0].value();
        result.is_some_and(|value| self.is_read_otherwise.get(value.position()) == Some(&false))
    }
}

/// Shares the halves of products in one block. Returns the number of instructions that became copies.
pub(super) fn share_in_block(
    function: &mut Function,
    definitions: &mut Definitions,
    encodability: &mut EncodabilityCache,
    packed: &PackedValues,
    block: Block,
) -> usize {
    let mut products: Vec<ProductInsts> = Vec::new();
    let mut numbers: FxHashMap<[OperandKind; 2], usize> = FxHashMap::default();
    for &inst in &function.blocks[block].insts {
        let Some(part) = product_part(function, inst) else { continue };
        let Some([a, b]) = factors_of(function, definitions, inst) else { continue };
        let known = numbers.get(&[a.kind, b.kind]).or_else(|| numbers.get(&[b.kind, a.kind])).copied();
        let number = known.unwrap_or(products.len());
        if known.is_none() {
            numbers.insert([a.kind, b.kind], number);
            products.push(SmallVec::new());
        }
        products[number].push((inst, part));
    }
    // The whole products to compute, each before the first instruction that reads one of its halves.
    let mut before: FxHashMap<Inst, Inst> = FxHashMap::default();
    let mut shared = 0;
    for insts in products.iter().filter(|insts| insts.len() > 1) {
        let has_sign =
            |sign: bool| insts.iter().any(|&(_, part)| part == ComputedHalves::High(sign) || part == ComputedHalves::Whole(sign));
        for is_unsigned in [true, false].into_iter().filter(|&sign| has_sign(sign)) {
            let has_whole = insts.iter().any(|&(_, part)| part == ComputedHalves::Whole(is_unsigned));
            let is_served = |inst: Inst, part: ComputedHalves| match part {
                ComputedHalves::Low => (is_unsigned || !has_sign(true)) && (has_whole || !packed.is_only_packed(function, inst)),
                ComputedHalves::High(sign) | ComputedHalves::Whole(sign) => sign == is_unsigned,
            };
            let served: ProductInsts = insts.iter().copied().filter(|&(inst, part)| is_served(inst, part)).collect();
            if served.len() > 1
                && let Some(whole) = new_whole_product(function, encodability, served[0].0, is_unsigned)
            {
                function.defined(whole).for_each(|value| definitions.set_definition(value, whole));
                before.insert(served[0].0, whole);
                served.iter().for_each(|&(inst, part)| turn_into_copy(function, inst, whole, part));
                shared += served.len() - 1;
            }
        }
    }
    if shared > 0 {
        let insts = std::mem::take(&mut function.blocks[block].insts);
        function.blocks[block].insts = insts.into_iter().flat_map(|inst| before.get(&inst).copied().into_iter().chain([inst])).collect();
    }
    shared
}

/// Returns the part of a product that an instruction computes; `None` if it is guarded, or not a multiplication without addend.
fn product_part(function: &Function, inst: Inst) -> Option<ComputedHalves> {
    let data = &function.insts[inst];
    let [.., addend] = function.sources(inst) else { return None };
    if !data.is_machine(Opcode::IMAD) || data.guard.is_some() || data.result_count() != 1 || *addend != Operand::RZ {
        return None;
    }
    function.results(inst)[0].part().filter(|part| *part == function.whole(part.value))?;
    match data.modifiers.as_slice() {
        [] | [Symbol::U32] => Some(ComputedHalves::Low),
        [Symbol::HI] => Some(ComputedHalves::High(false)),
        [Symbol::HI, Symbol::U32] => Some(ComputedHalves::High(true)),
        [Symbol::WIDE] => Some(ComputedHalves::Whole(false)),
        [Symbol::WIDE, Symbol::U32] => Some(ComputedHalves::Whole(true)),
        _ => None,
    }
}

/// Creates the multiplication that computes both halves of the product of which `inst` computes a part; `None` if the target cannot encode
/// it.
fn new_whole_product(function: &mut Function, encodability: &mut EncodabilityCache, inst: Inst, is_unsigned: bool) -> Option<Inst> {
    let location: Location = function.insts[inst].location;
    let &[a, b, _] = function.sources(inst) else { return None };
    let result = function.new_value(Class::R2);
    let modifiers: &[Symbol] = if is_unsigned { &[Symbol::WIDE, Symbol::U32] } else { &[Symbol::WIDE] };
    let operands = smallvec![Operand::from(function.whole(result)), a, b, Operand::RZ];
    let draft = InstDraft { opcode: Opcode::IMAD, modifiers: modifiers.iter().copied().collect(), operands, result_count: 1 };
    if !encodability.is_encodable(function, inst, &draft) {
        return None;
    }
    let whole = function.new_inst(Op::Machine(Opcode::IMAD), draft.modifiers, None, &draft.operands, 1);
    function.insts[whole].location = location;
    Some(whole)
}

/// Turns an instruction that computes a part of a product into a copy of this part of the whole product.
fn turn_into_copy(function: &mut Function, inst: Inst, whole: Inst, part: ComputedHalves) {
    let result = function.results(inst)[0];
    let Some(product) = function.results(whole)[0].part() else { return };
    let source = match part {
        ComputedHalves::Low => single_register(product, 0),
        ComputedHalves::High(_) => single_register(product, 1),
        ComputedHalves::Whole(_) => product,
    };
    function.insts[inst].op = Op::Pseudo(Pseudo::Copy);
    function.insts[inst].modifiers = Symbols::new();
    function.set_operands(inst, &[result, source.into()], 1);
}
