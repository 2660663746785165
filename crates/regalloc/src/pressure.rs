//! Counts the general registers that are live at once, before the allocation starts.

use oriole_ir::analysis::{ControlFlow, Liveness};
use oriole_ir::{Block, Function, Pseudo, RegFile, Value};
use oriole_support::{IndexVec, SparseSet};

/// Returns for each block the largest number of general registers that are live at once (its register pressure).
pub(crate) fn general_register_pressure(function: &Function, flow: &ControlFlow) -> IndexVec<Block, u32> {
    let is_general = |value: Value| function.values[value].file == RegFile::General;
    let width = |value: Value| u32::from(function.values[value].width);
    let liveness = Liveness::compute_for(function, flow, is_general);
    let mut live = SparseSet::new(function.values.len());
    let mut found = IndexVec::filled(function.blocks.len(), 0);
    for &block in flow.reverse_post_order() {
        live.clear();
        for &value in liveness.live_out(block) {
            live.insert(value);
        }
        let mut registers: u32 = live.members().iter().map(|&value| width(value)).sum();
        found[block] = registers;
        for &inst in function.blocks[block].insts.iter().rev().filter(|&&inst| !function.insts[inst].is(Pseudo::Phi)) {
            for value in function.defined(inst) {
                if live.contains(value) {
                    live.remove(value);
                    registers -= width(value);
                }
            }
            for part in function.used(inst).filter(|part| is_general(part.value)) {
                if !live.contains(part.value) {
                    live.insert(part.value);
                    registers += width(part.value);
                }
            }
            found[block] = found[block].max(registers);
        }
    }
    found
}
