//! The products that a sum may absorb: finds them through copies and negations, and says which of them count as one.

use oriole_ir::{Block, Function, Inst, Op, Operand, OperandKind, Part, Pseudo, Role, Signs};
use oriole_isa::{Opcode, RegFile, Symbol};
use oriole_support::Index;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::definitions::{Definitions, KnownWord};
use crate::merge::is_constant_load;
use crate::rewrite::single_register;

/// Maximum number of negations between a product and the sum that reads it.
const MAX_NEGATION_CHAIN: usize = 4;

/// Returns the addition opcode and the multiply-add opcode of the same type as a multiplication opcode; `None` for other opcodes.
pub(super) fn sum_and_fma_opcodes(product: Opcode) -> Option<(Opcode, Opcode)> {
    match product {
        Opcode::FMUL => Some((Opcode::FADD, Opcode::FFMA)),
        Opcode::DMUL => Some((Opcode::DADD, Opcode::DFMA)),
        Opcode::HMUL2 => Some((Opcode::HADD2, Opcode::HFMA2)),
        Opcode::FMUL2 => Some((Opcode::FADD2, Opcode::FFMA2)),
        _ => None,
    }
}

/// A read of a product by a sum that may absorb it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ProductRead {
    /// The multiplication whose result the sum reads.
    pub(super) product: Inst,
    /// Index of the sum's source that is the product: 0 or 1.
    pub(super) source_index: usize,
    /// Whether the product is subtracted.
    pub(super) is_negative: bool,
}

/// Finds the products that sums read, by following the definitions of values.
pub(super) struct ProductFinder {
    /// For each value, the instruction that defines it.
    definitions: Definitions,
    /// For each instruction, its block; `None` for instructions outside of all blocks.
    inst_blocks: Vec<Option<Block>>,
    /// For each product that counts as another one ([`ProductFinder::find_equal_products`]), that other one.
    representatives: FxHashMap<Inst, Inst>,
}

impl ProductFinder {
    /// Collects the definitions of the values and the blocks of the instructions.
    pub(super) fn new(function: &Function) -> ProductFinder {
        let mut inst_blocks = vec![None; function.insts.len()];
        for &block in &function.layout {
            for &inst in &function.blocks[block].insts {
                inst_blocks[inst.position()] = Some(block);
            }
        }
        let definitions = Definitions::compute(function);
        let mut finder = ProductFinder { definitions, inst_blocks, representatives: FxHashMap::default() };
        finder.find_equal_products(function);
        finder
    }

    /// Finds the pairs of equal products that one instruction reads. ptxas replaces one of them by the other at that instruction, before it
    /// contracts; other equal products are merged afterwards. Example: a sum of two equal products is twice the product and not contracted.
    fn find_equal_products(&mut self, function: &Function) {
        for &block in &function.layout {
            for &inst in &function.blocks[block].insts {
                if function.insts[inst].op.machine().is_none() {
                    continue;
                }
                let products: SmallVec<[Inst; 3]> =
                    function.sources(inst).iter().filter_map(|source| self.mergeable_product(function, source)).collect();
                for (at, &later) in products.iter().enumerate().skip(1) {
                    let earlier = products[..at].iter().find(|&&earlier| self.are_equal_products(function, earlier, later));
                    if let Some(&earlier) = earlier {
                        let (earlier, later) = (self.representative(earlier), self.representative(later));
                        if earlier != later {
                            self.representatives.insert(later, earlier);
                        }
                    }
                }
            }
        }
    }

    /// Returns the product that an operand without a sign reads, if it is a product of single numbers that may be contracted.
    fn mergeable_product(&self, function: &Function, operand: &Operand) -> Option<Inst> {
        let part = operand.part().filter(|_| operand.role == Role::Plain && operand.signs.is_empty())?;
        let inst = self.definitions.unguarded_definition_of(function, self.definitions.origin_of_group(function, part).value)?;
        let is_single = match function.insts[inst].op.machine()? {
            Opcode::FMUL | Opcode::DMUL => true,
            // Instructions on pairs of halves select no half of a register.
            Opcode::HMUL2 => function.sources(inst).iter().all(|factor| factor.suffixes().next().is_some()),
            _ => false,
        };
        (is_single && function.insts[inst].may_contract).then_some(inst)
    }

    /// Returns whether two products have the same opcode, modifiers and factors, in either order.
    fn are_equal_products(&self, function: &Function, one: Inst, other: Inst) -> bool {
        let (first, second) = (&function.insts[one], &function.insts[other]);
        let ([a, b], [c, d]) = (function.sources(one), function.sources(other)) else { return false };
        let is_same = |one, other| self.are_same_factors(function, one, other);
        first.op == second.op && first.modifiers == second.modifiers && (is_same(a, c) && is_same(b, d) || is_same(a, d) && is_same(b, c))
    }

    /// Returns whether two operands have the same value and sign: the same register, or the same constant.
    fn are_same_factors(&self, function: &Function, one: &Operand, other: &Operand) -> bool {
        if one.signs != other.signs || !one.suffixes().eq(other.suffixes()) {
            return false;
        }
        let (Some(first), Some(second)) = (one.part(), other.part()) else { return one.kind == other.kind };
        let content = |part: Part, number| self.definitions.known_content(function, single_register(part, number));
        let is_same_constant = |number| content(first, number).is_some_and(|word| content(second, number) == Some(word));
        first.count == second.count
            && (self.definitions.origin_of_group(function, first) == self.definitions.origin_of_group(function, second)
                || (0..first.count).all(is_same_constant))
    }

    /// Returns the product as which a product counts: itself, unless an instruction reads it together with an equal one.
    fn representative(&self, product: Inst) -> Inst {
        let mut product = product;
        while let Some(&other) = self.representatives.get(&product) {
            product = other;
        }
        product
    }

    /// Returns whether an instruction only copies, packs or negates a value. The instructions that read its result then count as readers of
    /// the value.
    pub(super) fn is_copy_or_negation(&self, function: &Function, inst: Inst) -> bool {
        let data = &function.insts[inst];
        let is_copy = matches!(data.op, Op::Pseudo(Pseudo::Copy | Pseudo::Pack) | Op::Machine(Opcode::MOV));
        data.guard.is_none() && is_copy || negated_fp32_value(function, inst).is_some() || self.sign_flip_source(function, inst).is_some()
    }

    /// Returns the reads of products that a sum may absorb; empty if the instruction is not a sum that may be contracted, or if both
    /// summands are the same product.
    pub(super) fn contractible_product_reads(&self, function: &Function, sum: Inst) -> SmallVec<[ProductRead; 2]> {
        let mut reads: SmallVec<[ProductRead; 2]> = SmallVec::new();
        if !function.insts[sum].may_contract {
            return reads;
        }
        for (at, operand) in function.sources(sum).iter().enumerate().take(2) {
            if let Some((product, is_negative)) = self.product_read_by(function, sum, operand) {
                reads.push(ProductRead { product, source_index: at, is_negative });
            }
        }
        if matches!(reads.as_slice(), [first, second] if first.product == second.product) {
            reads.clear();
        }
        reads
    }

    /// Returns the product that an operand of a sum reads, directly or through negations, and whether the operand is the negated product;
    /// `None` if the operand reads no product.
    fn product_read_by(&self, function: &Function, sum: Inst, operand: &Operand) -> Option<(Inst, bool)> {
        if operand.role != Role::Plain || operand.signs.has(Signs::ABSOLUTE) {
            return None;
        }
        let flushes = function.insts[sum].modifiers.contains(&Symbol::FTZ);
        let mut is_negative = operand.signs.has(Signs::NEGATE);
        let mut part = operand.part()?;
        for _ in 0..=MAX_NEGATION_CHAIN {
            part = self.definitions.origin_of_group(function, part);
            if let Some(product) =
                self.definitions.definition_of(part.value).filter(|&inst| self.can_absorb_product(function, sum, operand, inst))
            {
                let is_whole = part == function.whole(part.value);
                return is_whole.then_some((self.representative(product), is_negative));
            }
            part = self.negated_value(function, part, flushes)?;
            is_negative = !is_negative;
        }
        None
    }

    /// Returns whether `product` is a multiplication that `sum` may absorb in place of its source `operand`.
    fn can_absorb_product(&self, function: &Function, sum: Inst, operand: &Operand, product: Inst) -> bool {
        let (data, sum_data) = (&function.insts[product], &function.insts[sum]);
        let Some((addition, _)) = data.op.machine().and_then(sum_and_fma_opcodes) else { return false };
        let is_same_format = sum_data.modifiers.iter().filter(|&&modifier| modifier != Symbol::SAT).eq(data.modifiers.iter());
        // Packed FP16: the factors and the sum must select the same halves of their registers (suffixes such as `.H0_H0`).
        let is_same_half = |factor: &Operand| factor.suffixes().eq(operand.suffixes());
        data.may_contract
            && data.guard.is_none()
            && sum_data.is_machine(addition)
            && self.is_joined_across(function, sum, product)
            && is_same_format
            && (function.sources(product).iter().all(is_same_half) || addition != Opcode::HADD2)
    }

    /// Returns whether a product and a sum may be contracted as far as their blocks are concerned: they are in the same block, or the product
    /// has a constant factor. Then at most one register more has to live until the sum, and the product itself need not.
    fn is_joined_across(&self, function: &Function, sum: Inst, product: Inst) -> bool {
        self.inst_blocks[product.position()] == self.inst_blocks[sum.position()]
            || function.sources(product).iter().any(|factor| self.is_constant(function, factor))
    }

    /// Returns whether an operand is a number or a part of a constant bank, directly or in registers, apart from its sign.
    fn is_constant(&self, function: &Function, operand: &Operand) -> bool {
        match operand.kind {
            OperandKind::Value(part) => (0..part.count).all(|number| self.is_constant_register(function, single_register(part, number))),
            OperandKind::Integer(_) | OperandKind::Zero(_) | OperandKind::Constant { .. } => true,
            _ => false,
        }
    }

    /// Returns whether a register holds a number or a part of a constant bank, apart from its sign.
    fn is_constant_register(&self, function: &Function, register: Part) -> bool {
        let mut register = register;
        for _ in 0..=MAX_NEGATION_CHAIN {
            if self.definitions.known_content(function, register).is_some() {
                return true;
            }
            register = self.definitions.origin(function, register);
            let Some(inst) = self.definitions.unguarded_definition_of(function, register.value) else { return false };
            if is_constant_load(function, inst) {
                return true;
            }
            let inner = negated_fp32_value(function, inst).or_else(|| self.sign_flip_source(function, inst));
            match inner.or_else(|| self.absolute_value_source(function, inst)) {
                Some(inner) => register = inner,
                None => return false,
            }
        }
        false
    }

    /// Returns the value of which `part` is the negation; `None` if it is not a negation. `flushes` says whether the instruction that reads
    /// `part` flushes subnormal numbers; if it does not, a negation that flushes them does not count.
    fn negated_value(&self, function: &Function, part: Part, flushes: bool) -> Option<Part> {
        let inst = self.definitions.unguarded_definition_of(function, part.value)?;
        if part.count == 1 {
            let is_flushing = function.insts[inst].modifiers.contains(&Symbol::FTZ);
            return negated_fp32_value(function, inst)
                .filter(|_| flushes || !is_flushing)
                .or_else(|| self.sign_flip_source(function, inst));
        }
        // The sign bit of an FP64 value is the top bit of its upper half.
        let [low, high] = *function.sources(inst) else { return None };
        if !function.insts[inst].is(Pseudo::Pack) || part != function.whole(part.value) {
            return None;
        }
        let low = self.definitions.origin(function, low.part()?);
        let high = self.definitions.origin(function, high.part()?);
        let flipped = self.sign_flip_source(function, self.definitions.unguarded_definition_of(function, high.value)?)?;
        let upper = self.definitions.origin(function, flipped);
        (low.value == upper.value && low.first == 0 && upper.first == 1).then_some(Part { count: 2, ..low })
    }

    /// Returns the register whose sign bit (or two sign bits of packed FP16) an instruction flips by an exclusive or with 0x80000000 or
    /// 0x80008000; `None` for other instructions.
    fn sign_flip_source(&self, function: &Function, inst: Inst) -> Option<Part> {
        /// The truth table of `a ^ b`, where the third input is ignored.
        const LUT_XOR: i64 = 0x3c;
        self.masked_source(function, inst, LUT_XOR, [0x8000_0000, 0x8000_8000])
    }

    /// Returns the register whose absolute value (or two absolute values of packed FP16) an instruction computes, by clearing sign bits or by
    /// computing `|value| + -0`; `None` for other instructions.
    fn absolute_value_source(&self, function: &Function, inst: Inst) -> Option<Part> {
        /// The truth table of `a & b`, where the third input is ignored.
        const LUT_AND: i64 = 0xc0;
        fp32_value_with_sign(function, inst, Signs::ABSOLUTE)
            .or_else(|| self.masked_source(function, inst, LUT_AND, [0x7fff_ffff, 0x7fff_7fff]))
    }

    /// Returns the register that a logic operation with the given truth table combines with one of the masks; `None` for other instructions.
    fn masked_source(&self, function: &Function, inst: Inst, lut: i64, masks: [u32; 2]) -> Option<Part> {
        let data = &function.insts[inst];
        if !data.is_machine(Opcode::LOP3) || data.guard.is_some() {
            return None;
        }
        let [value, mask, third, table, ..] = function.sources(inst) else { return None };
        let mask = match mask.kind {
            OperandKind::Integer(mask) => mask as u32,
            OperandKind::Value(part) => match self.definitions.known_content(function, part)? {
                KnownWord::Integer(mask) => mask,
                KnownWord::Constant { .. } => return None,
            },
            _ => return None,
        };
        let is_masked = masks.contains(&mask) && third.kind == Operand::RZ.kind && table.integer() == Some(lut);
        value.part().filter(|_| is_masked && value.signs.is_empty())
    }

    /// Returns the multiplications that compute the registers of a part, directly or through copies and negations.
    pub(super) fn products_defining(&self, function: &Function, part: Part) -> SmallVec<[Inst; 2]> {
        let mut found: SmallVec<[Inst; 2]> = SmallVec::new();
        for number in 0..part.count {
            let mut register = single_register(part, number);
            for _ in 0..=MAX_NEGATION_CHAIN {
                register = self.definitions.origin(function, register);
                let Some(inst) = self.definitions.definition_of(register.value) else { break };
                let product = self.representative(inst);
                if function.insts[inst].op.machine().and_then(sum_and_fma_opcodes).is_some() && !found.contains(&product) {
                    found.push(product);
                }
                let Some(inner) = negated_fp32_value(function, inst).or_else(|| self.sign_flip_source(function, inst)) else { break };
                register = inner;
            }
        }
        found
    }
}

/// Returns the value that an FP32 addition negates, by computing `-value + -0`; `None` for other instructions.
fn negated_fp32_value(function: &Function, inst: Inst) -> Option<Part> {
    fp32_value_with_sign(function, inst, Signs::NEGATE)
}

/// Returns the value to which an FP32 addition only applies the given signs, by adding -0; `None` for other instructions.
fn fp32_value_with_sign(function: &Function, inst: Inst, signs: Signs) -> Option<Part> {
    let data = &function.insts[inst];
    let is_sum = data.is_machine(Opcode::FADD) && matches!(data.modifiers.as_slice(), [] | [Symbol::FTZ]) && data.guard.is_none();
    let [value, zero] = function.sources(inst) else { return None };
    let is_zero = zero.kind == OperandKind::Zero(RegFile::General) && zero.signs == Signs::NEGATE;
    value.part().filter(|_| is_sum && value.signs == signs && is_zero)
}
