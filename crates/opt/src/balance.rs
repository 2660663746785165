//! Moves additions and left shifts from the integer unit (ALU) to the multiply unit (FMA) until both are busy for the same number of
//! cycles.
//!
//! A sum of two integers and a left shift can execute on the integer unit (`IADD3`, `SHF`) or on the multiply unit (`VIADD`, `IMAD` with a
//! factor of 1 or a power of two; `IMAD.X` if a carry is added). Instruction selection always emits the first form. If the integer unit is
//! busy for more cycles of a block than the multiply unit, some of these instructions are moved, spread evenly over the block, until both
//! units are busy equally long; with many resident warps both then work in parallel. For example, four sums in a block become two `IADD3`
//! and two `VIADD`.
//!
//! The latency of a moved instruction may grow by a cycle. ptxas does the same. No addition or shift is moved on GPUs whose integer
//! additions are faster than their multiplications, because there both units execute integer additions.
//!
//! The moves of register allocation are balanced after it ([`run_on_register_moves`]): `IMAD.U32` with zero factors, which nvdisasm prints
//! as `IMAD.MOV.U32`, is a move on the multiply unit.
//!
//! Packed FP16 multiply-adds can also execute on two units: `HFMA2` on the multiply unit, `HFMA2.MMA` on the FP64 unit, if the GPU has a
//! fast one. Some of the `HFMA2` of a block, spread evenly, become `HFMA2.MMA`, as in ptxas' code, until both units have the same number of
//! instructions. In a block of `HFMA2` alone, that is every second one. The latency is four cycles more, so a block with a single `HFMA2`
//! stays as it is.

use oriole_hardware::units::Unit;
use oriole_hardware::{Classes, Hardware, SchedClass, ThroughputClass};
use oriole_ir::{Block, Function, Inst, Operand, OperandKind, Role};
use oriole_isa::{Opcode, Symbol};
use smallvec::{SmallVec, smallvec};

use crate::alternatives::{Alternatives, mnemonic_with_modifiers};
use crate::legalize::EncodabilityCache;
use crate::rewrite::InstDraft;

/// In every block of a function, moves instructions from the integer unit to the multiply unit, and packed FP16 multiply-adds from the
/// multiply unit to the FP64 unit, so that the units are busy for about the same time. Returns the number of instructions moved.
pub fn run(function: &mut Function, hardware: &Hardware<'_>, encodability: &mut EncodabilityCache) -> usize {
    run_and_record_alternatives(function, hardware, encodability, &mut Alternatives::default())
}

/// Runs the pass like [`run`], and records for each addition and shift the form that was rejected (on the integer or the multiply unit),
/// and why.
pub fn run_and_record_alternatives(
    function: &mut Function,
    hardware: &Hardware<'_>,
    encodability: &mut EncodabilityCache,
    alternatives: &mut Alternatives,
) -> usize {
    let mut moved = 0;
    if hardware.rates.integer_add <= hardware.rates.integer_multiply {
        let unit_cycles = UnitBusyCycles::new(hardware);
        for at in 0..function.layout.len() {
            let opcodes = [Opcode::IADD3, Opcode::SHF];
            moved += balance_units_of_block(function, function.layout[at], encodability, &unit_cycles, &opcodes, alternatives);
        }
    }
    if has_fast_fp64(hardware) {
        for at in 0..function.layout.len() {
            moved += balance_packed_fp16(function, function.layout[at], encodability);
        }
    }
    moved
}

/// In a function with physical registers, replaces some register moves by instructions of the multiply unit (`IMAD`), so that in each block
/// the integer and multiply units are busy for about the same time. Returns the number of moves replaced.
pub fn run_on_register_moves(function: &mut Function, hardware: &Hardware<'_>, encodability: &mut EncodabilityCache) -> usize {
    if hardware.rates.integer_add > hardware.rates.integer_multiply {
        return 0;
    }
    let unit_cycles = UnitBusyCycles::new(hardware);
    let none = &mut Alternatives::default();
    let layout = function.layout.clone();
    layout.into_iter().map(|block| balance_units_of_block(function, block, encodability, &unit_cycles, &[Opcode::MOV], none)).sum()
}

/// Returns whether the FP64 unit has at least half as many lanes as the FP32 unit.
fn has_fast_fp64(hardware: &Hardware<'_>) -> bool {
    let rates = &hardware.rates;
    matches!((rates.fp64, rates.fp32), (Some(doubles), Some(singles)) if 2 * doubles >= singles)
}

/// Moves packed FP16 multiply-adds of one block from the multiply unit to the FP64 unit, to give both units about the same number of
/// instructions. Returns the number of instructions moved.
fn balance_packed_fp16(function: &mut Function, block: Block, encodability: &mut EncodabilityCache) -> usize {
    let (mut there, mut here) = (0, 0);
    let mut movable: Vec<(Inst, InstDraft)> = Vec::new();
    for &inst in &function.blocks[block].insts {
        let data = &function.insts[inst];
        match data.op.machine() {
            Some(Opcode::HFMA2) if data.modifiers.contains(&Symbol::MMA) => there += 1,
            Some(Opcode::HFMA2) => {
                here += 1;
                let mut draft = InstDraft::from_inst(function, inst, Opcode::HFMA2);
                draft.modifiers.insert(0, Symbol::MMA);
                if encodability.is_encodable(function, inst, &draft) {
                    movable.push((inst, draft));
                }
            }
            Some(Opcode::HADD2 | Opcode::HMUL2) => here += 1,
            Some(Opcode::DADD | Opcode::DMUL | Opcode::DFMA) => there += 1,
            _ => {}
        }
    }
    let wanted = (usize::saturating_sub(here, there) / 2).min(movable.len());
    let count = movable.len();
    for (number, (inst, draft)) in movable.into_iter().enumerate() {
        if is_evenly_chosen(number, wanted, count) {
            draft.overwrite_inst(function, inst);
        }
    }
    wanted
}

/// Returns whether index `number` is chosen when `wanted` of the indices below `count` are chosen, evenly spread.
fn is_evenly_chosen(number: usize, wanted: usize, count: usize) -> bool {
    (number + 1) * wanted / count > number * wanted / count
}

/// Number of cycles for which one instruction keeps the integer unit and the multiply unit busy, by latency class.
struct UnitBusyCycles {
    /// For each latency class, the number of cycles for which one instruction keeps the integer unit busy, and that for the multiply unit.
    by_class: Vec<(i64, i64)>,
}

impl UnitBusyCycles {
    /// Computes the cycles of all latency classes from the rates in the hardware description.
    fn new(hardware: &Hardware<'_>) -> UnitBusyCycles {
        let cycles_of_class = |class: SchedClass| {
            let cycles = i64::from(ThroughputClass::of(class).cycles(hardware.rates, hardware.machine).unwrap_or(1));
            match class.unit() {
                Unit::Alu => (cycles, 0),
                Unit::Fma => (0, cycles),
                _ => (0, 0),
            }
        };
        UnitBusyCycles { by_class: Classes::get().all().map(cycles_of_class).collect() }
    }

    /// Returns for how many cycles an instruction keeps the integer unit busy, and for how many the multiply unit.
    fn integer_and_multiply_cycles(&self, opcode: Opcode, modifiers: &[Symbol]) -> (i64, i64) {
        self.by_class[Classes::get().of(opcode, modifiers).index()]
    }
}

/// Moves some instructions with one of `opcodes` from the integer unit to the multiply unit, until both are busy equally long in this
/// block. Returns the number of instructions moved.
fn balance_units_of_block(
    function: &mut Function,
    block: Block,
    encodability: &mut EncodabilityCache,
    unit_cycles: &UnitBusyCycles,
    opcodes: &[Opcode],
    alternatives: &mut Alternatives,
) -> usize {
    let (mut integer, mut product) = (0, 0);
    for &inst in &function.blocks[block].insts {
        let data = &function.insts[inst];
        let Some(opcode) = data.op.machine() else { continue };
        let cycles = unit_cycles.integer_and_multiply_cycles(opcode, &data.modifiers);
        integer += cycles.0;
        product += cycles.1;
    }
    if integer <= product && !alternatives.is_recording() {
        return 0;
    }
    let mut movable: Vec<(Inst, InstDraft)> = Vec::new();
    for &inst in &function.blocks[block].insts {
        if let Some(opcode) = function.insts[inst].op.machine().filter(|opcode| opcodes.contains(opcode)) {
            movable.extend(multiply_unit_form(function, inst, opcode, encodability).map(|draft| (inst, draft)));
        }
    }
    let Some((_, example)) = movable.first() else { return 0 };
    // Moving one instruction reduces the difference between the busy times by its cycles on the old unit plus its cycles on the new unit.
    let gain = unit_cycles.integer_and_multiply_cycles(Opcode::IADD3, &[]).0;
    let loss = unit_cycles.integer_and_multiply_cycles(example.opcode, &example.modifiers).1;
    let wanted = (integer - product) / (gain + loss).max(1);
    let wanted = usize::try_from(wanted).unwrap_or(0).min(movable.len());
    let count = movable.len();
    let moved = wanted as i64;
    for (number, (inst, draft)) in movable.into_iter().enumerate() {
        if is_evenly_chosen(number, wanted, count) {
            alternatives.reject("balance", inst, || {
                let reason = format!("the integer unit was busy for {integer} cycles of the block, the multiply unit for {product}");
                (mnemonic_with_modifiers(function, inst), reason)
            });
            draft.overwrite_inst(function, inst);
        } else {
            alternatives.reject("balance", inst, || {
                let (integer, product) = (integer - moved * gain, product + moved * loss);
                let reason = format!("the multiply unit is busy for {product} cycles of the block, the integer unit for {integer}");
                (draft.modifiers.iter().fold(draft.opcode.mnemonic().to_owned(), |text, modifier| text + modifier.spelling()), reason)
            });
        }
    }
    wanted
}

/// An equivalent instruction on the multiply unit: opcode, modifiers, sources.
type OtherUnitForm = (Opcode, &'static [Symbol], SmallVec<[Operand; 4]>);

/// Returns the multiply-unit form of an addition, shift or move, or `None` if there is no such form on the target or a carry is written.
fn multiply_unit_form(function: &Function, inst: Inst, opcode: Opcode, encodability: &mut EncodabilityCache) -> Option<InstDraft> {
    if function.results(inst).iter().skip(1).any(|result| result.value().is_some()) {
        return None;
    }
    let sources: SmallVec<[Operand; 6]> = function.sources(inst).iter().copied().filter(|source| source.role == Role::Plain).collect();
    let alternatives: SmallVec<[OtherUnitForm; 4]> = match (opcode, function.insts[inst].modifiers.as_slice()) {
        (Opcode::IADD3, []) => {
            let summands: SmallVec<[Operand; 3]> =
                sources.into_iter().filter(|source| !is_zero_register_operand(source) && !is_true_predicate(source)).collect();
            let [a, b] = *summands.as_slice() else { return None };
            let one = Operand::from(1);
            smallvec![
                (Opcode::VIADD, &[][..], smallvec![a, b]),
                (Opcode::VIADD, &[][..], smallvec![b, a]),
                (Opcode::IMAD, &[][..], smallvec![a, one, b]),
                (Opcode::IMAD, &[][..], smallvec![b, one, a]),
            ]
        }
        (Opcode::IADD3, [Symbol::X]) => {
            let [summands @ .., carry, never] = sources.as_slice() else { return None };
            if *never != Operand::PT.inverted_predicate() {
                return None;
            }
            // A zero counts as an absent summand only without an operand modifier: the inverted zero register is all ones.
            let is_absent = |source: &Operand| is_zero_register_operand(source) && source.signs.is_empty();
            let summands: SmallVec<[Operand; 3]> = summands.iter().copied().filter(|source| !is_absent(source)).collect();
            let (zero, one) = (Operand::RZ, Operand::from(1));
            let orders: SmallVec<[[Operand; 3]; 2]> = match *summands.as_slice() {
                [] => smallvec![[zero, zero, zero]],
                [a] => smallvec![[zero, zero, a]],
                [a, b] => smallvec![[a, one, b], [b, one, a]],
                _ => return None,
            };
            // The encoding of `IMAD` has no operand modifiers (negation, inversion) for the first factor.
            let has_plain_factor = |order: &[Operand; 3]| order[0].signs.is_empty();
            let form = |[a, b, c]: [Operand; 3]| (Opcode::IMAD, &[Symbol::X][..], smallvec![a, b, c, *carry]);
            orders.into_iter().filter(has_plain_factor).map(form).collect()
        }
        (Opcode::MOV, []) => {
            let [source] = *sources.as_slice() else { return None };
            smallvec![(Opcode::IMAD, &[Symbol::U32][..], smallvec![Operand::RZ, Operand::RZ, source])]
        }
        (Opcode::SHF, [Symbol::L, Symbol::U32]) => {
            let [a, distance, zero] = *sources.as_slice() else { return None };
            let OperandKind::Integer(distance @ 0..=30) = distance.kind else { return None };
            if !is_zero_register_operand(&zero) || is_zero_register_operand(&a) {
                return None;
            }
            smallvec![(Opcode::IMAD, &[Symbol::U32][..], smallvec![a, Operand::from(1_u32 << distance), zero])]
        }
        _ => return None,
    };
    alternatives.into_iter().find_map(|(opcode, modifiers, sources)| {
        let mut operands: SmallVec<[Operand; 8]> = smallvec![function.operands(inst)[0]];
        operands.extend(sources);
        operands.extend(function.sources(inst).iter().copied().filter(|operand| operand.role != Role::Plain));
        let draft = InstDraft { opcode, modifiers: modifiers.iter().copied().collect(), operands, result_count: 1 };
        encodability.is_encodable(function, inst, &draft).then_some(draft)
    })
}

/// Returns whether an operand is the zero register, possibly with an operand modifier.
fn is_zero_register_operand(operand: &Operand) -> bool {
    operand.kind == Operand::RZ.kind
}

/// Returns whether an operand is the predicate that is always true.
fn is_true_predicate(operand: &Operand) -> bool {
    operand.kind == Operand::PT.kind
}
