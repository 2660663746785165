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
//! - The product is unguarded, and flushes subnormal numbers if and only if the sum does; it does not saturate.
//! - The product is in the block of the sum, or one of its factors is a number or a word of a constant bank, such as a kernel parameter.
//! - A product with a single reader is contracted first, the left summand before the right one. A product with several readers is
//!   contracted if all of them are sums that can absorb it and absorb no other product. It is then contracted into all of them, so that the
//!   product itself is dead afterwards.
//! - A sum of a product with itself is not contracted, nor is a sum that reads the absolute value of a product. Negations between the
//!   product and the sum are absorbed too. Two equal products that one instruction reads count as one product.
//!
//! The pass runs twice: before legalization, common-subexpression elimination and hoisting, which would give a product other readers or
//! another block, and after unrolling, where the product of one iteration meets the sum of the next. Only the second run checks that the
//! target encodes the result. The cost is linear in the size of the function.

mod products;

use oriole_ir::{Function, Inst, Signs};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use self::products::{ProductFinder, ProductRead, sum_and_fma_opcodes};
use crate::alternatives::Alternatives;
use crate::dead::LivenessMarks;
use crate::legalize::EncodabilityCache;
use crate::rewrite::InstDraft;

/// Whether the pass may create instructions that the target cannot encode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequiredLegality {
    /// The pass may create instructions that the target cannot encode; legalization follows.
    Any,
    /// The pass creates only instructions that the target can encode.
    Encodable,
}

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
