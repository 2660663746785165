//! Narrows the results of instructions to the registers that some instruction reads. The common part of [`super::loads`] and
//! [`super::components`].
//!
//! The cost is linear in the size of the function.

use oriole_ir::{Function, Inst, OperandKind, Part, Role, Target, Value};
use rustc_hash::FxHashMap;

/// Maps each register of a replaced value to the register that replaces it. A register is a value and an index of a register in it.
pub(super) type NewRegisters = FxHashMap<(Value, u8), (Value, u8)>;

/// An instruction whose results can be narrowed, with a record of the registers of its results that other instructions read.
pub(super) trait NarrowableInst: Sized {
    /// Describes an instruction whose results can be narrowed; `None` for other instructions. No register counts as read yet.
    fn match_inst(function: &Function, inst: Inst) -> Option<Self>;

    /// Returns the results that can be narrowed.
    fn results(&self) -> impl Iterator<Item = Value>;

    /// Records that an operand with the given role reads `part`, some registers of a result.
    fn record_result_read(&mut self, part: Part, role: Role);

    /// Restricts the instruction to the result registers that are read. Adds to `new_registers` where each remaining register now is.
    /// Returns the number of registers removed.
    fn narrow_to_read_registers(&self, function: &mut Function, target: Target, new_registers: &mut NewRegisters) -> usize;
}

/// Narrows all instructions of a function that have a description of type `N`. Returns the number of registers removed from their results.
pub(super) fn run<N: NarrowableInst>(function: &mut Function, target: Target) -> usize {
    let mut narrowable: Vec<N> = Vec::new();
    let mut index_of_result: FxHashMap<Value, usize> = FxHashMap::default();
    for &inst in function.layout.iter().flat_map(|&block| &function.blocks[block].insts) {
        let Some(found) = N::match_inst(function, inst) else { continue };
        index_of_result.extend(found.results().map(|value| (value, narrowable.len())));
        narrowable.push(found);
    }
    if narrowable.is_empty() {
        return 0;
    }
    for &inst in function.layout.iter().flat_map(|&block| &function.blocks[block].insts) {
        for source in function.sources(inst) {
            let Some(part) = source.part() else { continue };
            if let Some(&index) = index_of_result.get(&part.value) {
                narrowable[index].record_result_read(part, source.role);
            }
        }
    }
    let mut new_registers = NewRegisters::default();
    let removed = narrowable.iter().map(|found| found.narrow_to_read_registers(function, target, &mut new_registers)).sum();
    if !new_registers.is_empty() {
        redirect_reads_to_new_registers(function, &new_registers);
    }
    removed
}

/// Makes all instructions read the new registers instead of the replaced ones.
fn redirect_reads_to_new_registers(function: &mut Function, new_registers: &NewRegisters) {
    for layout_index in 0..function.layout.len() {
        let block = function.layout[layout_index];
        for position in 0..function.blocks[block].insts.len() {
            let inst = function.blocks[block].insts[position];
            for source in function.sources_mut(inst) {
                if let OperandKind::Value(part) = &mut source.kind
                    && let Some(&(value, first)) = new_registers.get(&(part.value, part.first))
                {
                    (part.value, part.first) = (value, first);
                }
            }
        }
    }
}
