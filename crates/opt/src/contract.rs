//! Contraction: a floating-point product and a sum that reads it become one multiply-add, which rounds once.
//!
//! ```text
//! %2 = FMUL %0, %1 contract
//! %4 = FADD %2, -%3 contract          becomes   %4 = FFMA %0, %1, -%3
//! ```
//!
//! PTX allows this for `mul` and `add` or `sub` without a rounding modifier; instruction selection marks their instructions
//! ([`oriole_ir::Instruction::may_contract`]). The decisions are those of ptxas, so that the results are the same bit for bit:
//!
//! - The product is unguarded, in the block of the sum, and flushes subnormal numbers if and only if the sum does; it does not saturate.
//! - A product with a single reader is contracted first, the left summand before the right one. A product with several readers is
//!   contracted if all of them are sums that can absorb it and absorb no other product. It is then contracted into all of them, so that the
//!   product itself is dead afterwards.
//! - A sum of a product with itself is not contracted, nor is a sum that reads the absolute value of a product. Negations between the
//!   product and the sum are absorbed too.
//!
//! The pass runs twice: before legalization, common-subexpression elimination and hoisting, which would give a product other readers or
//! another block, and after unrolling, where the product of one iteration meets the sum of the next. Only the second run checks that the
//! target encodes the result. The cost is linear in the size of the function.

use oriole_ir::{Block, Function, Inst, Op, Operand, OperandKind, Part, Pseudo, Role, Signs};
use oriole_isa::{Opcode, RegFile, Symbol};
use oriole_support::Index;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::alternatives::Alternatives;
use crate::dead::LivenessMarks;
use crate::definitions::{Definitions, KnownWord};
use crate::legalize::EncodabilityCache;
use crate::rewrite::{InstDraft, single_register};

/// Whether the pass may create instructions that the target cannot encode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequiredLegality {
    /// The pass may create instructions that the target cannot encode; legalization follows.
    Any,
    /// The pass creates only instructions that the target can encode.
    Encodable,
}

/// Maximum number of negations between a product and the sum that reads it.
const MAX_NEGATION_CHAIN: usize = 4;

/// Replaces floating-point sums of products by multiply-adds, where PTX allows it. Returns the number of sums that became multiply-adds.
pub fn run(function: &mut Function, encodability: &mut EncodabilityCache, legality: RequiredLegality) -> usize {
    run_and_record_alternatives(function, encodability, legality, &mut Alternatives::default())
}

/// Runs the pass like [`run`], and records why sums did not become multiply-adds.
pub fn run_and_record_alternatives(
    function: &mut Function,
    encodability: &mut EncodabilityCache,
    legality: RequiredLegality,
    alternatives: &mut Alternatives,
) -> usize {
    let pass = if legality == RequiredLegality::Any { "contract" } else { "contract-again" };
    let has_marks = |&inst: &Inst| function.insts[inst].may_contract;
    if !function.layout.iter().any(|&block| function.blocks[block].insts.iter().any(has_marks)) {
        return 0;
    }
    let contractor = ContractionPlanner::new(function);
    let decisions = contractor.choose_contractions();
    if alternatives.is_recording() {
        contractor.record_rejections(function, &decisions, pass, alternatives);
    }
    let mut contracted = 0;
    for (sum, read) in decisions {
        let Some(draft) = make_multiply_add(function, sum, read) else { continue };
        if legality == RequiredLegality::Any || encodability.is_encodable(function, sum, &draft) {
            draft.overwrite_inst(function, sum);
            function.insts[sum].may_contract = false;
            contracted += 1;
        } else {
            let reason = || "the target has no encoding for its operands".to_owned();
            alternatives.reject(pass, sum, || (draft.opcode.mnemonic().to_owned(), reason()));
        }
    }
    contracted
}

/// Clears the contraction marks of all products and sums. The marks have no meaning after the last contraction.
pub fn clear_contraction_marks(function: &mut Function) {
    function.insts.iter_mut().for_each(|inst| inst.may_contract = false);
}

/// Returns the addition opcode and the multiply-add opcode of the same type as a multiplication opcode; `None` for other opcodes.
fn sum_and_fma_opcodes(product: Opcode) -> Option<(Opcode, Opcode)> {
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
struct ProductRead {
    /// The multiplication whose result the sum reads.
    product: Inst,
    /// Index of the sum's source that is the product: 0 or 1.
    source_index: usize,
    /// Whether the product is subtracted.
    is_negative: bool,
}

/// The instructions that read a product.
#[derive(Clone, Default, Debug)]
struct ProductReaders {
    /// The sums that may absorb the product, in program order.
    sums: SmallVec<[(Inst, ProductRead); 2]>,
    /// Whether an instruction other than these sums reads the product.
    has_other_readers: bool,
}

/// The products of a function with their readers, and its sums, collected before any change.
struct ContractionPlanner {
    /// For each multiplication, the instructions that read its result.
    readers: FxHashMap<Inst, ProductReaders>,
    /// The sums in program order, each with the products that it may absorb.
    sums: Vec<(Inst, SmallVec<[ProductRead; 2]>)>,
}

impl ContractionPlanner {
    /// Collects the products and sums of the live instructions of a function.
    fn new(function: &Function) -> ContractionPlanner {
        let finder = ProductFinder::new(function);
        let mut contractor = ContractionPlanner { readers: FxHashMap::default(), sums: Vec::new() };
        let live = LivenessMarks::find(function);
        for &block in &function.layout {
            for &inst in &function.blocks[block].insts {
                if live.is_live_inst(inst) && !finder.is_copy_or_negation(function, inst) {
                    contractor.record_product_reads(function, &finder, inst);
                }
            }
        }
        contractor
    }

    /// Records an instruction as a reader of each product that it reads: as a sum that may absorb the product, or as another reader.
    fn record_product_reads(&mut self, function: &Function, finder: &ProductFinder, inst: Inst) {
        let reads = finder.contractible_product_reads(function, inst);
        for read in &reads {
            self.readers.entry(read.product).or_default().sums.push((inst, *read));
        }
        let first = function.insts[inst].result_count();
        for (at, operand) in function.operands(inst).iter().enumerate().skip(first) {
            if reads.iter().any(|read| read.source_index + first == at) {
                continue;
            }
            for product in operand.part().into_iter().flat_map(|part| finder.products_defining(function, part)) {
                self.readers.entry(product).or_default().has_other_readers = true;
            }
        }
        if !reads.is_empty() {
            self.sums.push((inst, reads));
        }
    }

    /// Returns the sums to contract, each with the read of the product that it absorbs.
    fn choose_contractions(&self) -> Vec<(Inst, ProductRead)> {
        let mut taken: FxHashMap<Inst, ProductRead> = FxHashMap::default();
        for (sum, reads) in &self.sums {
            let is_single =
                |read: &&ProductRead| self.readers[&read.product].sums.len() == 1 && !self.readers[&read.product].has_other_readers;
            if let Some(read) = reads.iter().find(is_single) {
                taken.insert(*sum, *read);
            }
        }
        for (sum, reads) in &self.sums {
            for read in reads {
                let readers = &self.readers[&read.product];
                if !taken.contains_key(sum)
                    && !readers.has_other_readers
                    && readers.sums.iter().all(|(reader, _)| !taken.contains_key(reader))
                {
                    taken.extend(readers.sums.iter().copied());
                }
            }
        }
        self.sums.iter().filter_map(|(sum, _)| Some((*sum, *taken.get(sum)?))).collect()
    }

    /// Records why the sums that are not among `decisions` are not contracted.
    fn record_rejections(
        &self,
        function: &Function,
        decisions: &[(Inst, ProductRead)],
        pass: &'static str,
        alternatives: &mut Alternatives,
    ) {
        let contracted: FxHashSet<Inst> = decisions.iter().map(|decision| decision.0).collect();
        for (sum, reads) in self.sums.iter().filter(|(sum, _)| !contracted.contains(sum)) {
            for read in reads {
                let Some((_, fma)) = function.insts[read.product].op.machine().and_then(sum_and_fma_opcodes) else { continue };
                let reason = if self.readers[&read.product].has_other_readers {
                    "an instruction that cannot take the product reads it too, so the product is computed anyway"
                } else {
                    "another sum that reads the product takes a different one, so the product is computed anyway"
                };
                alternatives.reject(pass, *sum, || (fma.mnemonic().to_owned(), reason.to_owned()));
            }
        }
    }
}

/// Finds the products that sums read, by following the definitions of values.
struct ProductFinder {
    /// For each value, the instruction that defines it.
    definitions: Definitions,
    /// For each instruction, its block; `None` for instructions outside of all blocks.
    inst_blocks: Vec<Option<Block>>,
}

impl ProductFinder {
    /// Collects the definitions of the values and the blocks of the instructions.
    fn new(function: &Function) -> ProductFinder {
        let mut inst_blocks = vec![None; function.insts.len()];
        for &block in &function.layout {
            for &inst in &function.blocks[block].insts {
                inst_blocks[inst.position()] = Some(block);
            }
        }
        ProductFinder { definitions: Definitions::compute(function), inst_blocks }
    }

    /// Returns whether an instruction only copies, packs or negates a value. The instructions that read its result then count as readers of
    /// the value.
    fn is_copy_or_negation(&self, function: &Function, inst: Inst) -> bool {
        let data = &function.insts[inst];
        let is_copy = matches!(data.op, Op::Pseudo(Pseudo::Copy | Pseudo::Pack) | Op::Machine(Opcode::MOV));
        data.guard.is_none() && is_copy || negated_fp32_value(function, inst).is_some() || self.sign_flip_source(function, inst).is_some()
    }

    /// Returns the reads of products that a sum may absorb; empty if the instruction is not a sum that may be contracted, or if both
    /// summands are the same product.
    fn contractible_product_reads(&self, function: &Function, sum: Inst) -> SmallVec<[ProductRead; 2]> {
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
                return is_whole.then_some((product, is_negative));
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
            && self.inst_blocks[product.position()] == self.inst_blocks[sum.position()]
            && is_same_format
            && (function.sources(product).iter().all(is_same_half) || addition != Opcode::HADD2)
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
        let is_flip = matches!(mask, 0x8000_0000 | 0x8000_8000) && third.kind == Operand::RZ.kind && table.integer() == Some(LUT_XOR);
        value.part().filter(|_| is_flip && value.signs.is_empty())
    }

    /// Returns the multiplications that compute the registers of a part, directly or through copies and negations.
    fn products_defining(&self, function: &Function, part: Part) -> SmallVec<[Inst; 2]> {
        let mut found: SmallVec<[Inst; 2]> = SmallVec::new();
        for number in 0..part.count {
            let mut register = single_register(part, number);
            for _ in 0..=MAX_NEGATION_CHAIN {
                register = self.definitions.origin(function, register);
                let Some(inst) = self.definitions.definition_of(register.value) else { break };
                if function.insts[inst].op.machine().and_then(sum_and_fma_opcodes).is_some() && !found.contains(&inst) {
                    found.push(inst);
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
    let data = &function.insts[inst];
    let is_sum = data.is_machine(Opcode::FADD) && matches!(data.modifiers.as_slice(), [] | [Symbol::FTZ]) && data.guard.is_none();
    let [value, zero] = function.sources(inst) else { return None };
    let is_negation =
        is_sum && value.signs == Signs::NEGATE && zero.kind == OperandKind::Zero(RegFile::General) && zero.signs == Signs::NEGATE;
    value.part().filter(|_| is_negation)
}

/// Returns the multiply-add that replaces a sum and the product that it absorbs; `None` if the product is subtracted and neither factor is
/// a register that can be negated.
fn make_multiply_add(function: &Function, sum: Inst, read: ProductRead) -> Option<InstDraft> {
    let (_, opcode) = function.insts[read.product].op.machine().and_then(sum_and_fma_opcodes)?;
    let [mut first, mut second] = *function.sources(read.product) else { return None };
    if read.is_negative {
        let factor = if first.value().is_some() { &mut first } else { &mut second };
        factor.value()?;
        factor.signs = factor.signs.toggled(Signs::NEGATE);
    }
    let mut draft = InstDraft::from_inst(function, sum, opcode);
    let start = function.insts[sum].result_count();
    let addend = draft.operands[start + 1 - read.source_index];
    // Operands after the two summands, such as the tied old value of a guarded sum, come after the three sources of the multiply-add.
    draft.operands[start] = first;
    draft.operands[start + 1] = second;
    draft.operands.insert(start + 2, addend);
    Some(draft)
}
