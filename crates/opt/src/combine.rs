//! Combines two dependent instructions into one.
//!
//! An instruction absorbs the computation of one of its sources, if one machine instruction can do both; the instruction that computed the
//! source is then often dead. [`CombineRule`] lists all rewrites. Examples:
//!
//! ```text
//! %2 = LOP3.LUT %0, %1, RZ, 0xc0, !PT         (a & b)
//! %4 = LOP3.LUT %2, %3, RZ, 0x3c, !PT         (a & b) ^ c   becomes   %4 = LOP3.LUT %0, %1, %3, 0x6a, !PT
//!
//! %2 = IADD3 %0, %1, RZ
//! %4 = IADD3 %2, %3, RZ                                     becomes   %4 = IADD3 %0, %1, %3
//!
//! %1 = SHF.L.U32 %0, 0x2, RZ
//! %3 = IADD3 %1, %2, RZ                                     becomes   %3 = LEA %0, %2, 0x2
//!
//! %1 = IMAD %0, 0x16, RZ
//! %3 = IADD3 %2, -%1, RZ                                    becomes   %3 = IMAD %0, -0x16, %2
//!
//! %1 = SHF.R.S32.HI RZ, 0x2, %0
//! %3 = IADD3 %1, %2, RZ                                     becomes   %3 = LEA.HI.SX32 %0, %2, 0x1e
//!
//! %1 = SHF.L.W.U32.HI %0, 0x7, %0
//! %3 = IADD3 %1, %2, RZ                                     becomes   %3 = LEA.HI %0, %2, %0, 0x7
//!
//! %2 = IADD3 %0, %1, RZ
//! %4 = VIMNMX %2, %3, !PT                                   becomes   %4 = VIADDMNMX %0, %1, %3, !PT
//!
//! %2:P = ISETP.LT.AND %0, %1, PT
//! %4:P = PLOP3.LUT %2, %3, PT, 0x80, 0x0                    becomes   %4:P = ISETP.LT.AND %0, %1, %3
//!
//! %1 = FADD -%0, -RZ
//! %3 = FADD %1, %2                                          becomes   %3 = FADD -%0, %2
//!
//! %1 = FADD -%0, -RZ
//! %3 = SEL %1, %2, %p                                       becomes   %3 = FSEL -%0, %2, %p
//!
//! %1:P = PLOP3.LUT %0, PT, PT, 0xf, 0x0
//! @%1 BRA bb1                                               becomes   @!%0 BRA bb1
//!
//! %1 = LOP3.LUT %0[1], 0x80000000, RZ, 0x3c, !PT
//! %2:R2 = PACK %0[0], %1
//! %4:R2 = DADD %2, %3                                       becomes   %4:R2 = DADD -%0, %3
//!
//! %2 = LOP3.LUT %0, %1, RZ, 0xc0, !PT
//! %3:P = ISETP.NE.AND %2, 0x0, PT                           becomes   %3:P, RZ = LOP3.LUT %0, %1, RZ, 0xc0, !PT
//!
//! %1 = PRMT %0, 0x7770, RZ
//! %2:P = ISETP.NE.AND %1, 0x0, PT                           becomes   %2:P, RZ = LOP3.LUT %0, 0xff, RZ, 0xc0, !PT
//! ```
//!
//! Most integer rules apply only if the absorbed result has no other readers and is computed in the same block: otherwise nothing is saved,
//! or the sources stay in registers for longer. The pass runs after folding, which recognizes only additions of two summands, not the
//! three-operand sums that this pass makes. A test interprets programs for every rule before and after the pass (`tests/combine_rules.rs`).
//!
//! **Before** and **after**: SSA, all instructions encodable. One walk in layout order; the cost is linear in the size of the function.

mod conditions;
mod extremes;
mod inversions;
mod logic;
mod signs;
mod sums;
mod tests_of_logic;
mod wide_signs;
mod wide_sums;

use std::cell::RefCell;

pub(crate) use signs::compose_sign_modifiers;

use oriole_ir::{Block, Function, Inst, Op, Operand, OperandKind, Part, Role};
use oriole_isa::{Opcode, Symbol};
use oriole_support::Index;
use smallvec::SmallVec;

use crate::alternatives::{Alternatives, mnemonic_with_modifiers};
use crate::dead::LivenessMarks;
use crate::definitions::Definitions;
use crate::legalize::EncodabilityCache;
use crate::rewrite::InstDraft;

/// The rewrites that this pass can make.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CombineRule {
    /// A `LOP3` of `LOP3`s on at most three distinct registers becomes one `LOP3`.
    Logic,
    /// A logic operation that returns one of its sources becomes a copy, and one with a known result becomes a move.
    TrivialLogic,
    /// A sum whose summand is a sum becomes one three-operand sum.
    Sum,
    /// A sum whose summand is a product becomes a multiply-add.
    ProductSum,
    /// A difference whose subtrahend is a product with a constant, or a left shift, becomes a multiply-add with the negated constant.
    ProductDifference,
    /// A sum whose summand is a left shift becomes a `LEA`, also if it is written as a logic operation on bits that do not overlap.
    ShiftedSum,
    /// A sum whose summand is a right shift becomes a `LEA.HI`.
    RightShiftedSum,
    /// A sum whose summand is a funnel shift, such as a rotation, becomes a `LEA.HI`.
    FunnelShiftedSum,
    /// A 64-bit sum whose summand is a left shift becomes two `LEA`.
    WideShiftedSum,
    /// A 64-bit sum whose summand is a 64-bit sum becomes one sum of three summands.
    WideSum,
    /// The minimum or maximum of a minimum or maximum of the same kind, or of a sum, becomes one instruction.
    Extreme,
    /// A single-precision operation on a negated or absolute value negates it, or takes the absolute value, by a modifier of its operand.
    Sign,
    /// A selection of a single whose sign was changed becomes a selection with operand modifiers.
    SelectedSign,
    /// A logic operation on a comparison and another predicate becomes part of the comparison.
    Condition,
    /// A guard or source that reads the inverse of a predicate reads the predicate itself, inverted.
    Inversion,
    /// A double-precision operation on a negated or absolute value negates it, or takes the absolute value, by a modifier of its operand.
    WideSign,
    /// A test whether the result of a logic operation is zero becomes the predicate result of the logic operation. The same holds for the
    /// test `(x & bit) == bit`. A `PRMT` that keeps some bytes of a word and clears the others counts as a logic operation.
    TestOfLogic,
}

impl CombineRule {
    /// All rules.
    pub const ALL: [CombineRule; 17] = [
        CombineRule::Logic,
        CombineRule::TrivialLogic,
        CombineRule::Sum,
        CombineRule::ProductSum,
        CombineRule::ProductDifference,
        CombineRule::ShiftedSum,
        CombineRule::RightShiftedSum,
        CombineRule::FunnelShiftedSum,
        CombineRule::WideShiftedSum,
        CombineRule::WideSum,
        CombineRule::Extreme,
        CombineRule::Sign,
        CombineRule::SelectedSign,
        CombineRule::Condition,
        CombineRule::Inversion,
        CombineRule::WideSign,
        CombineRule::TestOfLogic,
    ];
}

/// Number of changes that the pass made to a function.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Number of applications of each rule, in the order of [`CombineRule::ALL`].
    pub applied: [usize; CombineRule::ALL.len()],
}

/// Combines dependent instructions in a whole function. Returns how often each rule was applied.
pub fn run(function: &mut Function, encodability: &mut EncodabilityCache) -> Stats {
    run_and_record_alternatives(function, encodability, &mut Alternatives::default())
}

/// Runs the pass like [`run`], and records why instructions were not combined.
pub fn run_and_record_alternatives(
    function: &mut Function,
    encodability: &mut EncodabilityCache,
    alternatives: &mut Alternatives,
) -> Stats {
    let mut combiner = Combiner::new(function, encodability.take_cache());
    combiner.alternatives = RefCell::new(std::mem::take(alternatives));
    for at in 0..function.layout.len() {
        let block = function.layout[at];
        for number in 0..function.blocks[block].insts.len() {
            let inst = function.blocks[block].insts[number];
            let Some(opcode) = function.insts[inst].op.machine() else { continue };
            if combiner.absorb_inversions(function, inst, opcode) {
                combiner.stats.applied[CombineRule::Inversion as usize] += 1;
            }
            let rule = match opcode {
                Opcode::LOP3 => combiner.combine_shift_with_lower_bits(function, inst).or_else(|| combiner.combine_logic(function, inst)),
                Opcode::IADD3 => combiner.combine_sum(function, inst),
                Opcode::ISETP => combiner.combine_test_of_logic(function, inst),
                Opcode::PLOP3 => combiner.combine_comparison_with_logic(function, inst),
                Opcode::VIMNMX => combiner.combine_min_max(function, inst),
                Opcode::FADD | Opcode::FMUL | Opcode::FFMA | Opcode::FSETP | Opcode::FMNMX => {
                    combiner.absorb_sign_changes(function, inst, opcode)
                }
                Opcode::SEL | Opcode::FSEL => combiner.absorb_signs_into_selection(function, inst),
                Opcode::DADD | Opcode::DMUL | Opcode::DFMA | Opcode::DSETP => combiner.absorb_double_sign_changes(function, inst, opcode),
                _ => None,
            };
            if let Some(rule) = rule {
                combiner.stats.applied[rule as usize] += 1;
            }
        }
    }
    *alternatives = combiner.alternatives.take();
    combiner.encodability.put_back_cache(encodability);
    combiner.stats
}

/// State of the instruction combiner for one function.
struct Combiner {
    /// For each value, the instruction that defines it.
    definitions: Definitions,
    /// Answers whether the target can encode an instruction.
    encodability: EncodabilityCache,
    /// For each instruction, its block; `None` for instructions outside of all blocks.
    inst_blocks: Vec<Option<Block>>,
    /// For each value, the number of reads by live instructions, not counting copies. A read of a copy is counted for the original value.
    reads: Vec<u32>,
    /// The combinations that were rejected, for `oriole explain`.
    alternatives: RefCell<Alternatives>,
    /// Number of applications of each rule so far.
    stats: Stats,
}

impl Combiner {
    /// Collects the definitions, blocks and read counts of a function.
    fn new(function: &Function, encodability: EncodabilityCache) -> Combiner {
        let mut combiner = Combiner {
            definitions: Definitions::compute(function),
            encodability,
            inst_blocks: vec![None; function.insts.len()],
            reads: vec![0; function.values.len()],
            alternatives: RefCell::default(),
            stats: Stats::default(),
        };
        let live = LivenessMarks::find(function);
        for &block in &function.layout {
            for &inst in &function.blocks[block].insts {
                combiner.inst_blocks[inst.position()] = Some(block);
                if live.is_live_inst(inst) {
                    combiner.adjust_read_counts(function, inst, 1);
                }
            }
        }
        combiner
    }

    /// Adds `change` to the number of reads of each value that an instruction reads.
    fn adjust_read_counts(&mut self, function: &Function, inst: Inst, change: i32) {
        if matches!(function.insts[inst].op, Op::Pseudo(oriole_ir::Pseudo::Copy)) && function.insts[inst].guard.is_none() {
            return;
        }
        for part in function.used(inst) {
            for number in 0..part.count {
                let origin = self.definitions.origin(function, crate::rewrite::single_register(part, number));
                let reads = &mut self.reads[origin.value.position()];
                *reads = reads.saturating_add_signed(change);
            }
        }
    }

    /// Returns the single register that a source without suffixes (such as `.H0`) reads; if that register is a copy, the original register.
    /// `None` for other operands.
    fn register(&self, function: &Function, source: &Operand) -> Option<Part> {
        let part = source.part().filter(|part| part.count == 1 && source.role == Role::Plain && source.suffixes().next().is_none())?;
        Some(self.definitions.origin(function, part))
    }

    /// Returns the instruction that computes a source, if that instruction has this opcode and these modifiers, no guard and no other
    /// result.
    fn defining_inst(&self, function: &Function, source: &Operand, opcode: Opcode, modifiers: &[Symbol]) -> Option<Inst> {
        let register = self.register(function, source)?;
        let inst = self.definitions.unguarded_definition_of(function, register.value)?;
        let data = &function.insts[inst];
        let is_first = function.results(inst).first().and_then(Operand::value) == Some(register.value);
        let is_only = function.results(inst).iter().skip(1).all(|result| result.value().is_none());
        (data.is_machine(opcode) && data.modifiers.as_slice() == modifiers && is_first && is_only).then_some(inst)
    }

    /// Returns whether an instruction with one result is in the block of `reader`, and `reader` is its only reader.
    fn is_absorbable(&self, function: &Function, reader: Inst, inst: Inst) -> bool {
        let is_near = self.inst_blocks[inst.position()] == self.inst_blocks[reader.position()];
        is_near && function.defined(inst).all(|value| self.reads[value.position()] == 1)
    }

    /// Returns the result of [`Combiner::defining_inst`] if that instruction is in the block of `reader` and `reader` is the only reader of
    /// the source; otherwise `None`.
    fn absorbable_inst(&self, function: &Function, reader: Inst, source: &Operand, opcode: Opcode, modifiers: &[Symbol]) -> Option<Inst> {
        let inst = self.defining_inst(function, source, opcode, modifiers)?;
        let value = function.results(inst)[0].value()?;
        let is_near = self.inst_blocks[inst.position()] == self.inst_blocks[reader.position()];
        if !is_near || self.reads[value.position()] != 1 {
            self.alternatives.borrow_mut().reject("combine", reader, || {
                let reason = if is_near {
                    "another instruction reads its result too, so it is computed anyway"
                } else {
                    "it is in another block, and its sources would stay in registers for longer"
                };
                (format!("one instruction with the {} of a source", mnemonic_with_modifiers(function, inst)), reason.to_owned())
            });
            return None;
        }
        Some(inst)
    }

    /// Returns an operand that reads the original register instead of a copy of it; other operands are returned unchanged.
    fn resolve_copies(&self, function: &Function, source: &Operand) -> Operand {
        self.register(function, source).map_or(*source, |part| Operand { kind: OperandKind::Value(part), ..*source })
    }

    /// Overwrites an instruction with a draft, and updates the read counts. If nothing reads the result of an `absorbed` instruction any
    /// more, the reads by that instruction are no longer counted.
    fn replace_inst(&mut self, function: &mut Function, inst: Inst, draft: InstDraft, absorbed: &[Inst]) {
        self.adjust_read_counts(function, inst, -1);
        draft.overwrite_inst(function, inst);
        self.adjust_read_counts(function, inst, 1);
        for &dead in absorbed {
            let is_read = function.defined(dead).any(|value| self.reads[value.position()] > 0);
            if !is_read {
                self.adjust_read_counts(function, dead, -1);
            }
        }
    }

    /// Returns the first of several drafts that the target can encode; `None` if it can encode none.
    fn first_encodable_draft(&mut self, function: &Function, inst: Inst, drafts: impl IntoIterator<Item = InstDraft>) -> Option<InstDraft> {
        drafts.into_iter().find(|draft| self.encodability.is_encodable(function, inst, draft))
    }
}

/// Returns the draft of an instruction with one result.
fn new_draft(opcode: Opcode, modifiers: &[Symbol], result: Operand, sources: &[Operand]) -> InstDraft {
    let operands: SmallVec<[Operand; 8]> = std::iter::once(result).chain(sources.iter().copied()).collect();
    InstDraft { opcode, modifiers: modifiers.iter().copied().collect(), operands, result_count: 1 }
}
