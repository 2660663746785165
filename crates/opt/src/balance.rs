//! Sums and shifts go to the unit that has less to do.
//!
//! A sum of two numbers and a shift to the left can be executed by the integer unit (`IADD3`, `SHF`) or as a product by the unit for
//! multiplication (`VIADD`, `IMAD` with 1 or with a power of two). Selection always takes the first. Where a block keeps the integer
//! unit busy for longer than the other, some of them move, evenly over the block, until both have the same to do: with many warps
//! resident both units then work at once. A result may come a cycle later; ptxas does the same, and like it nothing is done on machines
//! that add faster than they multiply, because there both units add anyway.

use oriole_hardware::machine::Machine;
use oriole_hardware::units::{Rates, Unit};
use oriole_hardware::{Class, Classes, ThroughputClass};
use oriole_ir::{Block, Function, Inst, Operand, OperandKind, Role, Target};
use oriole_isa::{Opcode, Symbol};
use smallvec::{SmallVec, smallvec};

use crate::legalize::Judge;
use crate::rewrite::Draft;

/// Moves instructions between units in a whole function. Returns how many.
pub fn run(function: &mut Function, target: Target) -> usize {
    let rates = Rates::of(target);
    if rates.integer_add > rates.integer_multiply {
        return 0;
    }
    let prices = Prices::of(target);
    let mut judge = Judge::recall(target);
    let moved = (0..function.layout.len()).map(|at| balance(function, function.layout[at], &mut judge, &prices)).sum();
    judge.remember();
    moved
}

/// Cycles that each class keeps the integer unit and the one for multiplication busy.
struct Prices {
    classes: Vec<(i64, i64)>,
}

impl Prices {
    fn of(target: Target) -> Prices {
        let (rates, machine) = (Rates::of(target), Machine::of(target));
        let price = |class: Class| {
            let cycles = i64::from(ThroughputClass::of(class).cycles(rates, machine).unwrap_or(1));
            match class.unit() {
                Unit::Alu => (cycles, 0),
                Unit::Fma => (0, cycles),
                _ => (0, 0),
            }
        };
        Prices { classes: Classes::get().all().map(price).collect() }
    }

    fn get(&self, opcode: Opcode, modifiers: &[Symbol]) -> (i64, i64) {
        self.classes[Classes::get().of(opcode, modifiers).index()]
    }
}

fn balance(function: &mut Function, block: Block, judge: &mut Judge, prices: &Prices) -> usize {
    let (mut integer, mut product) = (0, 0);
    for &inst in &function.blocks[block].insts {
        let data = &function.insts[inst];
        let Some(opcode) = data.op.machine() else { continue };
        let price = prices.get(opcode, &data.modifiers);
        integer += price.0;
        product += price.1;
    }
    if integer <= product {
        return 0;
    }
    let mut movable: Vec<(Inst, Draft)> = Vec::new();
    for &inst in &function.blocks[block].insts {
        if let Some(opcode @ (Opcode::IADD3 | Opcode::SHF)) = function.insts[inst].op.machine() {
            movable.extend(moved(function, inst, opcode, judge).map(|draft| (inst, draft)));
        }
    }
    let Some((_, example)) = movable.first() else { return 0 };
    let gain = prices.get(Opcode::IADD3, &[]).0;
    let loss = prices.get(example.opcode, &example.modifiers).1;
    let wanted = (integer - product).max(0) / (gain + loss).max(1);
    let wanted = usize::try_from(wanted).unwrap_or(0).min(movable.len());
    let count = movable.len();
    for (number, (inst, draft)) in movable.into_iter().enumerate() {
        if (number + 1) * wanted / count > number * wanted / count {
            draft.store(function, inst);
        }
    }
    wanted
}

/// An operation with its modifiers, its sources, and how many of these it has.
type Alternative = (Opcode, &'static [Symbol], [Operand; 3], usize);

/// What a sum or a shift would be on the other unit.
fn moved(function: &Function, inst: Inst, opcode: Opcode, judge: &mut Judge) -> Option<Draft> {
    if function.results(inst).iter().skip(1).any(|result| result.value().is_some()) {
        return None;
    }
    let sources: SmallVec<[Operand; 6]> = function.sources(inst).iter().copied().filter(|source| source.role == Role::Plain).collect();
    let alternatives: SmallVec<[Alternative; 4]> = match (opcode, function.insts[inst].modifiers.as_slice()) {
        (Opcode::IADD3, []) => {
            let summands: SmallVec<[Operand; 3]> = sources.into_iter().filter(|source| !is_zero(source) && !is_true(source)).collect();
            let [a, b] = *summands.as_slice() else { return None };
            let one = Operand::from(1);
            smallvec![
                (Opcode::VIADD, &[][..], [a, b, b], 2),
                (Opcode::VIADD, &[][..], [b, a, a], 2),
                (Opcode::IMAD, &[][..], [a, one, b], 3),
                (Opcode::IMAD, &[][..], [b, one, a], 3),
            ]
        }
        (Opcode::SHF, [Symbol::L, Symbol::U32]) => {
            let [a, distance, zero] = *sources.as_slice() else { return None };
            let OperandKind::Integer(distance @ 0..=30) = distance.kind else { return None };
            if !is_zero(&zero) || is_zero(&a) {
                return None;
            }
            smallvec![(Opcode::IMAD, &[Symbol::U32][..], [a, Operand::from(1_u32 << distance), zero], 3)]
        }
        _ => return None,
    };
    alternatives.into_iter().find_map(|(opcode, modifiers, sources, count)| {
        let mut operands: SmallVec<[Operand; 8]> = smallvec![function.operands(inst)[0]];
        operands.extend(sources.into_iter().take(count));
        operands.extend(function.sources(inst).iter().copied().filter(|operand| operand.role != Role::Plain));
        let draft = Draft { opcode, modifiers: modifiers.iter().copied().collect(), operands, result_count: 1 };
        judge.fits(function, inst, &draft).then_some(draft)
    })
}

fn is_zero(operand: &Operand) -> bool {
    operand.kind == Operand::RZ.kind
}

fn is_true(operand: &Operand) -> bool {
    operand.kind == Operand::PT.kind
}
