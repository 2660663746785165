//! Computes words of products once that several multiplications compute.
//!
//! [`halves`] computes both halves of a 32-bit by 32-bit product with one multiplication. This file computes the second word of a 64-bit by
//! 64-bit product once, where both `mul.lo` and `mul.hi` need it. PTX has no instruction for a 128-bit product: `mul.lo` and `mul.hi` of the
//! same factors are selected one by one. The upper half needs the carry of the second word of the product, so it also computes that word,
//! which is the upper word of `mul.lo`:
//!
//! ```text
//! %w:R2     = IMAD.WIDE.U32 %a[0], %b[0], RZ
//! %t:R      = IMAD %a[0], %b[1], %w[1]          mul.lo: the second word of the product
//! %u:R      = IMAD %a[1], %b[0], %t
//! %n:R2     = IMAD.WIDE.U32 %a[1], %b[0], RZ    mul.hi: the same word with its carries
//! %m:R2, %p = IMAD.WIDE.U32 %a[0], %b[1], %n
//! %s:R, %c  = IADD3 %w[1], %m[0], RZ            %s equals %u, which becomes a copy
//! ```
//!
//! The instructions that compute `%s` may be after the `IMAD`; then they are moved before it, which is possible because they have the same
//! operands. Dead-code elimination removes the first `IMAD`.
//!
//! **Before** and **after**: SSA, repeated computations merged. The pass looks at one block at a time; the cost is linear in the number of
//! instructions, as long as few sums have the same summand.

use oriole_ir::{Block, Function, Inst, Op, Operand, OperandKind, Part, Pseudo};
use oriole_isa::{Opcode, RegFile, Symbol, Symbols};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::dead;
use crate::definitions::Definitions;
use crate::legalize::EncodabilityCache;
use factors::{Factors, factors_of};

mod factors;
mod halves;

/// Numbers of changes that the pass made to a function.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Number of words of products that became copies.
    pub shared: usize,
}

/// Maximum number of sums with the same summand to compare with one word of a product.
const MAX_CANDIDATES: usize = 8;

/// A sum of a word and the lower words of two products, modulo 2^32.
struct ProductSum {
    /// The word that is added to the products.
    addend: Part,
    /// The factors of both products.
    products: [Factors; 2],
}

impl ProductSum {
    /// Returns whether two sums with the same addend are of the same products.
    fn has_products_of(&self, other: &ProductSum) -> bool {
        let are_same = |a: &Factors, b: &Factors| a == b || (a[0], a[1]) == (b[1], b[0]);
        let ([a, b], [c, d]) = (&self.products, &other.products);
        are_same(a, c) && are_same(b, d) || are_same(a, d) && are_same(b, c)
    }
}

/// The instructions that compute a [`ProductSum`] with its carries.
struct CarryingSum {
    /// The sum that they compute.
    sum: ProductSum,
    /// The two multiplications and the addition, in the order of execution.
    insts: [Inst; 3],
}

/// In a whole function, replaces words of products by copies of words that are computed anyway.
pub fn run(function: &mut Function, encodability: &mut EncodabilityCache) -> Stats {
    let mut stats = Stats::default();
    let blocks: Vec<Block> = function.layout.iter().copied().filter(|&block| has_upper_half(function, block)).collect();
    if blocks.is_empty() {
        return stats;
    }
    // A product that nothing reads, such as one that was fused with the addition of an address, must not keep another one alive.
    dead::run(function, encodability.target());
    let mut definitions = Definitions::compute(function);
    let packed = halves::PackedValues::find(function);
    for block in blocks {
        stats.shared += share_in_block(function, &definitions, block);
        stats.shared += halves::share_in_block(function, &mut definitions, encodability, &packed, block);
    }
    stats
}

/// Returns whether a block computes the upper half of a product, without which it has nothing to share.
fn has_upper_half(function: &Function, block: Block) -> bool {
    let is_upper_half = |inst: &Inst| {
        let data = &function.insts[*inst];
        data.is_machine(Opcode::IMAD) && (data.result_count() > 1 || data.modifiers.contains(&Symbol::HI))
    };
    function.blocks[block].insts.iter().any(is_upper_half)
}

/// Shares the words of products in one block. Returns the number of words that became copies.
fn share_in_block(function: &mut Function, definitions: &Definitions, block: Block) -> usize {
    let insts = std::mem::take(&mut function.blocks[block].insts);
    let positions: FxHashMap<Inst, usize> = insts.iter().enumerate().map(|(position, &inst)| (inst, position)).collect();
    let mut sums: FxHashMap<Part, SmallVec<[CarryingSum; 1]>> = FxHashMap::default();
    for &inst in &insts {
        if let Some(found) = match_carrying_sum(function, definitions, inst)
            && found.insts.iter().all(|inst| positions.contains_key(inst))
        {
            sums.entry(found.sum.addend).or_default().push(found);
        }
    }
    // For each instruction of a carrying sum, the first position that its result is needed at, if that is before its own position.
    let mut needed: FxHashMap<Inst, usize> = FxHashMap::default();
    let mut shared = 0;
    for (position, &inst) in insts.iter().enumerate() {
        let Some(word) = match_product_word(function, definitions, inst) else { continue };
        let candidates = sums.get(&word.addend).map_or(&[][..], SmallVec::as_slice);
        // An instruction that moves reads factors and not copies of them, which may be computed later.
        let is_before = |inst: Inst| positions.get(&inst).is_none_or(|&at| at < position) || needed.contains_key(&inst);
        let can_move = |same: &CarryingSum| {
            let mut read = same.insts.iter().flat_map(|&part| function.used(part)).map(|part| definitions.origin_of_group(function, part));
            read.all(|part| definitions.definition_of(part.value).is_some_and(|inst| is_before(inst) || same.insts.contains(&inst)))
        };
        let mut candidates = candidates.iter().take(MAX_CANDIDATES);
        let Some(same) = candidates.find(|same| same.sum.has_products_of(&word) && can_move(same)) else { continue };
        for &part in same.insts.iter().filter(|&part| positions[part] > position) {
            needed.entry(part).or_insert(position);
            read_origins(function, definitions, part);
        }
        let (result, source) = (function.results(inst)[0], function.results(same.insts[2])[0]);
        function.insts[inst].op = Op::Pseudo(Pseudo::Copy);
        function.insts[inst].modifiers = Symbols::new();
        function.set_operands(inst, &[result, source], 1);
        shared += 1;
    }
    function.blocks[block].insts = move_before(insts, &needed);
    shared
}

/// Makes an instruction read the values that its sources are copies of.
fn read_origins(function: &mut Function, definitions: &Definitions, inst: Inst) {
    let sources: SmallVec<[Operand; 4]> = function.sources(inst).iter().copied().collect();
    let origins = sources.into_iter().map(|source| match source.kind {
        OperandKind::Value(part) => Operand { kind: OperandKind::Value(definitions.origin_of_group(function, part)), ..source },
        _ => source,
    });
    let origins: SmallVec<[Operand; 4]> = origins.collect();
    function.sources_mut(inst).iter_mut().zip(origins).for_each(|(source, origin)| *source = origin);
}

/// Moves each instruction of `needed` to right before the instruction at its position. Their order among each other stays.
fn move_before(insts: Vec<Inst>, needed: &FxHashMap<Inst, usize>) -> Vec<Inst> {
    let mut order: Vec<(usize, bool, Inst)> = Vec::with_capacity(insts.len());
    order.extend(insts.into_iter().enumerate().map(|(position, inst)| match needed.get(&inst) {
        Some(&first) => (first, false, inst),
        None => (position, true, inst),
    }));
    // The sort is stable, so instructions that move to the same place keep their order.
    order.sort_by_key(|&(position, stays, _)| (position, stays));
    order.into_iter().map(|(_, _, inst)| inst).collect()
}

/// Matches the addition of a word and the lower half of `x * y + z * w` that writes a carry.
fn match_carrying_sum(function: &Function, definitions: &Definitions, addition: Inst) -> Option<CarryingSum> {
    let data = &function.insts[addition];
    if !data.is_machine(Opcode::IADD3) || data.guard.is_some() || !data.modifiers.is_empty() || data.result_count() < 2 {
        return None;
    }
    function.results(addition)[0].part().filter(|part| *part == function.whole(part.value))?;
    let &[a, b, Operand::RZ] = function.sources(addition) else { return None };
    [(a, b), (b, a)].into_iter().find_map(|(addend, product)| {
        let addend = word_of(function, definitions, &addend)?;
        let low = word_of(function, definitions, &product).filter(|low| low.first == 0)?;
        let (second, factors, inner) = match_product(function, definitions, low, &[Symbol::WIDE, Symbol::U32])?;
        let inner = inner.part().filter(|_| inner.signs.is_empty()).map(|part| definitions.origin_of_group(function, part))?;
        let (first, other_factors, zero) = match_product(function, definitions, inner, &[Symbol::WIDE, Symbol::U32])?;
        let is_whole = |part: Part| (part.first, part.count) == (0, 2);
        let sum = ProductSum { addend, products: [factors, other_factors] };
        (zero == Operand::RZ && is_whole(inner)).then_some(CarryingSum { sum, insts: [first, second, addition] })
    })
}

/// Matches the `IMAD` that adds the second of two products to a word and the first product.
fn match_product_word(function: &Function, definitions: &Definitions, inst: Inst) -> Option<ProductSum> {
    let result = function.results(inst).first()?.part().filter(|part| *part == function.whole(part.value))?;
    let (_, factors, inner) = match_product(function, definitions, result, &[]).filter(|&(found, ..)| found == inst)?;
    let inner = word_of(function, definitions, &inner)?;
    let (_, other_factors, addend) = match_product(function, definitions, inner, &[])?;
    Some(ProductSum { addend: word_of(function, definitions, &addend)?, products: [factors, other_factors] })
}

/// Returns the unguarded `IMAD` with these modifiers that computes `part`, its factors, and its addend. A factor that is a copy is replaced
/// by what it copies.
fn match_product(function: &Function, definitions: &Definitions, part: Part, modifiers: &[Symbol]) -> Option<(Inst, Factors, Operand)> {
    let inst = definitions.unguarded_definition_of(function, part.value)?;
    let data = &function.insts[inst];
    if !data.is_machine(Opcode::IMAD) || data.modifiers.as_slice() != modifiers {
        return None;
    }
    if function.results(inst)[0].part() != Some(function.whole(part.value)) {
        return None;
    }
    let &[_, _, addend] = function.sources(inst) else { return None };
    Some((inst, factors_of(function, definitions, inst)?, addend))
}

/// Returns the 32-bit register that an operand without sign reads, as the one that it is a copy of.
fn word_of(function: &Function, definitions: &Definitions, operand: &Operand) -> Option<Part> {
    let part = operand.part().filter(|part| part.count == 1 && operand.signs.is_empty())?;
    (function.values[part.value].file == RegFile::General).then(|| definitions.origin(function, part))
}
