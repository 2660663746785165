//! Registers of asynchronous matrix products (`wgmma`) whose accesses keep their order with fences, waits and updates of descriptors.
//!
//! A *product* (`HGMMA` and others) runs in the background: its accumulator is not ready, and must not be overwritten, until
//! `WARPGROUP.DEPBAR` waits for it. Ordinary accesses to its operands must precede the `WARPGROUP.ARRIVE` before it. Neither instruction
//! names a register, so their dependences are added here, as ordered registers of these two instructions:
//!
//! ```text
//! %4 = FMUL %1, %2                  must stay before the fence: %4 is an operand of the product
//! WARPGROUP.ARRIVE                  orders %4 and %6
//! %5:R4 = PACK %4, ..
//! %6:R32 = HGMMA %5, gdesc[%7]
//! %8 = IADD3 ..                     free
//! WARPGROUP.DEPBAR.LE gsb0, 0x0     orders %6
//! %9 = FADD %6.0, %6.1              must stay after the wait
//! ```
//!
//! Before register allocation the accumulators are the results of products and the phis that merge them. Afterwards every general register
//! that any product of the function names counts as part of an accumulator; this is conservative, because a register may hold other values
//! elsewhere.
//!
//! A product reads the descriptors of its matrices from four uniform registers. From one product to the next only two of them change. If
//! the addition that computes the next descriptor stays after the product that reads the current one, the two descriptors can share their
//! registers; otherwise the unchanged words have to be copied. So such an addition orders the register that it replaces:
//!
//! ```text
//! %6 = HGMMA gdesc[%7], ..
//! %8 = UIADD3 %7[0], 0x2            orders %7[0]: stays after the product
//! %9:UR4 = PACK %8, %7[1], %7[2], %7[3]
//! %10 = HGMMA gdesc[%9], ..
//! ```
//!
//! The order only has to be good, not complete: `settle-products` inserts a fence or wait wherever one is missing in the final code.

use oriole_ir::{Function, Inst, Operand, OperandKind, Part, Pseudo, RegFile, Value};
use oriole_isa::Opcode;
use oriole_support::Index;
use rustc_hash::{FxHashMap, FxHashSet};

use super::value_numbers::ValueNumbers;
use super::{SchedCode, from_machine};

/// For each fence, wait and descriptor update of the asynchronous matrix products of a function, the registers whose accesses must not move
/// across it (its *ordered registers*).
#[derive(Clone, Default, Debug)]
pub struct ProductRegisters {
    /// The ordered registers of every wait: before register allocation those of all accumulators, afterwards all general registers that
    /// matrix products name.
    common_registers: Vec<u32>,
    /// For each instruction that has ordered registers, the list of these registers; `None` stands for `common_registers`.
    ordered_registers: FxHashMap<Inst, Option<Vec<u32>>>,
    /// The waits (`WARPGROUP.DEPBAR`) after which no matrix product is in flight.
    final_waits: FxHashSet<Inst>,
}

impl ProductRegisters {
    /// Finds the ordered registers of a function before register allocation: the values that asynchronous matrix products access, so that
    /// other accesses have to keep their order with fences and waits.
    pub fn find_in_ssa_code(function: &Function, numbers: &ValueNumbers) -> ProductRegisters {
        let accumulators = accumulators(function);
        if accumulators.is_empty() {
            return ProductRegisters::default();
        }
        let mut found = ProductRegisters::default();
        for &block in &function.layout {
            found.add_descriptor_updates(function, numbers, &function.blocks[block].insts);
        }
        let registers = |values: &[Value]| -> Vec<u32> { values.iter().flat_map(|&value| numbers.registers_of_value(value)).collect() };
        found.common_registers = registers(&accumulators);
        for &block in &function.layout {
            // The walk goes backward. Values that must be computed before the fence that it reaches next: the operands of the matrix
            // products between the current instruction and the fence after it in program order, and the operands of the packs and copies
            // that form them.
            let mut wanted: FxHashSet<Value> = FxHashSet::default();
            for &inst in function.blocks[block].insts.iter().rev() {
                let data = &function.insts[inst];
                let is_pseudo = data.is(Pseudo::Pack) || data.is(Pseudo::Copy);
                if function.is_warpgroup_product(inst) || is_pseudo && function.defined(inst).any(|value| wanted.contains(&value)) {
                    wanted.extend(general_register_sources(function, inst));
                } else if let Some(pending) = pending_product_groups(function, inst) {
                    found.add_wait(inst, pending);
                } else if data.is_machine(Opcode::WARPGROUP) {
                    let mut operands: Vec<Value> = wanted.drain().chain(accumulators.iter().copied()).collect();
                    operands.sort_unstable_by_key(|value| value.position());
                    operands.dedup();
                    found.ordered_registers.insert(inst, Some(registers(&operands)));
                }
            }
        }
        found
    }

    /// Records a wait (`WARPGROUP.DEPBAR`) after which `pending` groups of matrix products may still be in flight. Its ordered registers
    /// are `common_registers`.
    fn add_wait(&mut self, inst: Inst, pending: i64) {
        self.ordered_registers.insert(inst, None);
        if pending == 0 {
            self.final_waits.insert(inst);
        }
    }

    /// Makes the instructions that compute the next matrix descriptor stay after the matrix products that read the current descriptor.
    fn add_descriptor_updates(&mut self, function: &Function, numbers: &ValueNumbers, insts: &[Inst]) {
        let mut positions = AccessPositions::default();
        for (position, &inst) in insts.iter().enumerate() {
            let updated = if function.insts[inst].is(Pseudo::Pack) { value_updated_by_pack(function, inst) } else { None };
            for (index, operand) in function.sources(inst).iter().enumerate() {
                let (Some(updated), Some(word)) = (updated, operand.value()) else { continue };
                let Some(&definition) = positions.definitions.get(&word).filter(|_| word != updated) else { continue };
                let is_phi = function.insts[insts[definition]].is(Pseudo::Phi);
                // If the replaced word is read after the addition, it has to be copied in any order, so no order helps.
                let is_read_later = positions.last_reads.get(&(updated, index as u8)).is_some_and(|&read| read > definition);
                if function.values[word].width == 1 && !is_phi && !is_read_later {
                    let ordered = self.ordered_registers.entry(insts[definition]).or_insert_with(|| Some(Vec::new()));
                    ordered.iter_mut().for_each(|ordered| ordered.extend(numbers.registers_of_value(updated).nth(index)));
                }
            }
            positions.add(function, position, inst);
        }
    }

    /// Finds the ordered registers of a function after register allocation, whose instructions access physical registers.
    pub(crate) fn find_in_allocated_code(function: &Function) -> ProductRegisters {
        let mut common_registers: FxHashSet<u32> = FxHashSet::default();
        let mut found = ProductRegisters::default();
        for &inst in function.layout.iter().flat_map(|&block| &function.blocks[block].insts) {
            if function.is_warpgroup_product(inst) {
                common_registers.extend(function.operands(inst).iter().flat_map(general_register_numbers));
            } else if let Some(pending) = pending_product_groups(function, inst) {
                found.add_wait(inst, pending);
            } else if function.insts[inst].is_machine(Opcode::WARPGROUP) {
                found.ordered_registers.insert(inst, None);
            }
        }
        found.common_registers = common_registers.into_iter().collect();
        found.common_registers.sort_unstable();
        found
    }

    /// Adds the ordered registers of `inst`, if it has any, to the last item of `code`, which must be the item of `inst`.
    pub(super) fn add_to_last_item(&self, code: &mut SchedCode, inst: Inst) {
        let Some(registers) = self.ordered_registers.get(&inst) else { return };
        code.set_ordered_registers_of_last(registers.as_ref().unwrap_or(&self.common_registers).iter().copied());
        if let Some(item) = code.items.last_mut() {
            item.drains_products = self.final_waits.contains(&inst);
        }
    }
}

/// Positions in a block at which values are defined and last read.
#[derive(Default)]
struct AccessPositions {
    /// For each value, the position of its definition.
    definitions: FxHashMap<Value, usize>,
    /// For each register of a value (the value, and the index of the register in it), the position of its last read so far.
    last_reads: FxHashMap<(Value, u8), usize>,
}

impl AccessPositions {
    /// Records the values that the instruction at `position` reads and those that it defines.
    fn add(&mut self, function: &Function, position: usize, inst: Inst) {
        for part in function.used(inst) {
            self.last_reads.extend((part.first..part.first + part.count).map(|index| ((part.value, index), position)));
        }
        self.definitions.extend(function.defined(inst).map(|value| (value, position)));
    }
}

/// Returns the value that `pack` updates: a uniform value as wide as the result, of which the pack keeps at least one register at the same
/// index. `None` if there is no such value.
fn value_updated_by_pack(function: &Function, pack: Inst) -> Option<Value> {
    let sources = function.sources(pack);
    sources.iter().enumerate().find_map(|(index, operand)| {
        let Part { value, first, count } = operand.part()?;
        let class = function.values[value];
        let is_in_place = count == 1 && usize::from(first) == index && usize::from(class.width) == sources.len();
        (is_in_place && class.file == RegFile::Uniform).then_some(value)
    })
}

/// Returns the number of groups of matrix products that may still be in flight after a `WARPGROUP.DEPBAR`; `None` for other instructions.
fn pending_product_groups(function: &Function, inst: Inst) -> Option<i64> {
    let is_group = function.insts[inst].is_machine(Opcode::WARPGROUP);
    function.sources(inst).iter().filter(|_| is_group).find_map(Operand::integer)
}

/// Returns the values in general registers that an instruction reads. Values in other register files are left out.
fn general_register_sources(function: &Function, inst: Inst) -> impl Iterator<Item = Value> + '_ {
    let values = function.sources(inst).iter().filter_map(Operand::value);
    values.filter(|&value| function.values[value].file == RegFile::General)
}

/// Returns the numbers, in the scheduler's numbering of all register files, of the physical general registers of an operand.
fn general_register_numbers(operand: &Operand) -> impl Iterator<Item = u32> + use<> {
    let (first, count) = match operand.kind {
        OperandKind::Register { file: RegFile::General, first, count } => (first, u16::from(count)),
        _ => (0, 0),
    };
    (first..first + count).filter_map(|number| from_machine::register(RegFile::General, number))
}

/// Returns the results of all asynchronous matrix products and the phis that merge such values, in a fixed order.
fn accumulators(function: &Function) -> Vec<Value> {
    let mut found: FxHashSet<Value> = FxHashSet::default();
    let insts = || function.layout.iter().flat_map(|&block| &function.blocks[block].insts).copied();
    found.extend(insts().filter(|&inst| function.is_warpgroup_product(inst)).flat_map(|inst| function.defined(inst)));
    let mut is_changed = !found.is_empty();
    while is_changed {
        is_changed = false;
        for phi in function.layout.iter().flat_map(|&block| function.phis(block)).copied() {
            let merges = function.sources(phi).iter().filter_map(Operand::value).any(|value| found.contains(&value));
            if merges {
                let before = found.len();
                found.extend(function.defined(phi));
                is_changed |= found.len() > before;
            }
        }
    }
    let mut sorted: Vec<Value> = found.into_iter().collect();
    sorted.sort_unstable_by_key(|value| value.position());
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{OrderViolation, check};
    use crate::code::from_ir::push_ssa_inst;

    /// Returns the items of the only block of a function in SSA form. `body` is the text of its instructions.
    fn code(body: &str) -> SchedCode {
        let function = oriole_ir::text::parse(&format!("func kernel @f ssa {{\nbb0:\n{body}    EXIT\n}}")).unwrap().remove(0);
        let numbers = ValueNumbers::new(&function);
        let products = ProductRegisters::find_in_ssa_code(&function, &numbers);
        let mut code = numbers.empty();
        function.blocks[function.entry()].insts.iter().for_each(|&inst| push_ssa_inst(&mut code, &numbers, &function, &products, inst));
        code
    }

    /// Moves the item at `from` to `to` and returns the verdict of the checker, and whether the dependency graph allows the new order.
    fn check_move(code: &SchedCode, from: usize, to: usize) -> (Result<(), OrderViolation>, bool) {
        // The last item, `EXIT`, is a scheduling barrier.
        let items = code.items.len() - 1;
        let mut order: Vec<usize> = (0..items).collect();
        let item = order.remove(from);
        order.insert(to, item);
        let model = oriole_hardware::Model::of(oriole_isa::Target::parse("sm_90a").unwrap());
        let graph = crate::graph::GraphBuilder::new(model, code.registers()).build(code, 0..items);
        let place: Vec<usize> = (0..items).map(|item| order.iter().position(|&other| other == item).unwrap()).collect();
        // Graph nodes with numbers after those of the items are joins, which stand for several edges. Items that are reached through a join
        // count, too.
        let reached = |start: usize| {
            let (mut seen, mut stack) = (vec![false; graph.nodes()], vec![start as u32]);
            while let Some(node) = stack.pop() {
                for edge in graph.successors(node) {
                    if !std::mem::replace(&mut seen[edge.node as usize], true) {
                        stack.push(edge.node);
                    }
                }
            }
            seen
        };
        let is_allowed = (0..items).all(|first| {
            let reached = reached(first);
            (0..items).all(|second| !reached[second] || place[first] < place[second])
        });
        (check(code, 0..items, &order), is_allowed)
    }

    const PRODUCT_CODE: &str = "\
    %0:R = S2R SR_TID.X
    %1:R = FADD %0, %0
    %2:UR4 = PACK URZ, URZ, URZ, URZ
    %9:R = FMUL %1, %1
    WARPGROUP.ARRIVE
    %3:R4 = PACK %1, %1, %1, %9
    %4:R4 = HGMMA.64x8x16.F32 %3, gdesc[%2], RZ, !UPT !shared.0
    RZ = HGMMA.64x8x16.F16 gdesc[URZ], RZ, !UPT, gsb0 !shared.0
    %5:R = IADD3 %0, 0x1, RZ
    WARPGROUP.DEPBAR.LE gsb0, 0x0
    %6:R = FADD %4[0], %4[1]
    %7:R = IADD3 %0, 0x2, RZ
";

    #[test]
    fn arithmetic_moves_across_products_and_waits() {
        let code = code(PRODUCT_CODE);
        // `%7` moves before the wait, before the product and before the fence; `%5` moves after the wait.
        for (from, to) in [(11, 9), (11, 6), (11, 4), (8, 9)] {
            assert_eq!(check_move(&code, from, to), (Ok(()), true), "{from} to {to}");
        }
    }

    #[test]
    fn operands_and_accumulators_do_not_move_across_fences_and_waits() {
        let code = code(PRODUCT_CODE);
        // None of these moves is legal: the sum of the accumulator before the wait, the operand `%9` after the fence, the fence after the
        // product.
        for (from, to) in [(10, 9), (3, 4), (4, 6)] {
            let (verdict, is_allowed) = check_move(&code, from, to);
            assert!(verdict.is_err() && !is_allowed, "{from} to {to}: {verdict:?}, {is_allowed}");
        }
    }

    #[test]
    fn the_next_descriptor_is_computed_after_the_product_that_reads_the_current_one() {
        let chain = |other: &str| {
            code(&format!(
                "\
    %0:UR = S2UR SR_CTAID.X
    %1:UR4 = PACK %0, URZ, URZ, URZ
    %2:R4 = HGMMA.64x8x16.F32 gdesc[%1], RZ, !UPT !shared.0
    %3:UR = UIADD3 %1[0], 0x2, URZ
{other}    %5:UR4 = PACK %3, %1[1], %1[2], %1[3]
    %6:R4 = HGMMA.64x8x16.F32 gdesc[%5], (else %2), UPT !shared.0
"
            ))
        };
        let (verdict, is_allowed) = check_move(&chain(""), 3, 2);
        assert!(verdict.is_err() && !is_allowed, "{verdict:?}, {is_allowed}");
        // %1 is read again after the product, so it is copied whichever of the two instructions comes first: the move is allowed.
        assert_eq!(check_move(&chain("    %4:UR = UIADD3 %1[0], 0x4, URZ\n"), 3, 2), (Ok(()), true));
    }
}
