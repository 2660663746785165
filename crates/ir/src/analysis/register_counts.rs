//! The number of general registers that a warp has in each block of a kernel that changes it (`USETMAXREG`, `setmaxnreg` in PTX).
//!
//! The count where a block starts is the smallest count at the ends of its predecessors, so code after a join of regions with different
//! counts stays within the smallest one. `USETMAXREG` sets the count for the instructions after it. `USETMAXREG.TRY_ALLOC` may fail; the
//! block that repeats it starts with the old count, because one of its predecessors has it.
//!
//! ```text
//!                                   count at the start   usable in the block
//! bb0:  ... @P0 BRA bb2             168                  168
//! bb1:  USETMAXREG.DEALLOC 40       168                  40
//!       ... BRA bb4
//! bb2:  USETMAXREG.TRY_ALLOC 232    168                  168
//!       @!P0 BRA bb2
//! bb3:  ... BRA bb4                 232                  232
//! bb4:  EXIT                        40                   40
//! ```
//!
//! The cost is linear in the size of the function for each different count, of which a kernel has two or three.

use oriole_isa::Opcode;
use oriole_support::IndexVec;

use super::ControlFlow;
use crate::{Block, Function, Inst, Operand};

/// The number of general registers of a thread in each block, including those that the hardware adds to the registers that code can name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegisterCounts {
    /// For each block: the count where it starts.
    at_start: IndexVec<Block, u32>,
    /// For each block: the smallest count in it.
    in_block: IndexVec<Block, u32>,
}

impl RegisterCounts {
    /// Computes the counts of a function that starts with `initial` registers.
    pub fn compute(function: &Function, flow: &ControlFlow, initial: u32) -> RegisterCounts {
        let mut requests: IndexVec<Block, Vec<u32>> = IndexVec::filled(function.blocks.len(), Vec::new());
        for &block in &function.layout {
            requests[block] = function.blocks[block].insts.iter().filter_map(|&inst| requested_registers(function, inst)).collect();
        }
        // Blocks that no path reaches keep the largest number. Every other count only falls, so the iteration ends.
        let mut at_start: IndexVec<Block, u32> = IndexVec::filled(function.blocks.len(), u32::MAX);
        at_start[function.entry()] = initial;
        let mut has_changed = true;
        while has_changed {
            has_changed = false;
            for &block in flow.reverse_post_order() {
                let at_end = requests[block].last().copied().unwrap_or(at_start[block]);
                for &next in flow.successors(block) {
                    if at_end < at_start[next] {
                        at_start[next] = at_end;
                        has_changed = true;
                    }
                }
            }
        }
        let mut in_block = at_start.clone();
        for &block in &function.layout {
            in_block[block] = requests[block].iter().fold(at_start[block], |least, &count| least.min(count));
        }
        RegisterCounts { at_start, in_block }
    }

    /// Returns the count where a block starts.
    pub fn at_start(&self, block: Block) -> u32 {
        self.at_start[block]
    }

    /// Returns the smallest count in a block: its instructions may use this number of registers wherever they are.
    pub fn in_block(&self, block: Block) -> u32 {
        self.in_block[block]
    }
}

/// Returns the number of registers that a thread has after an instruction that changes it; `None` for other instructions.
pub fn requested_registers(function: &Function, inst: Inst) -> Option<u32> {
    if !function.insts[inst].is_machine(Opcode::USETMAXREG) {
        return None;
    }
    function.sources(inst).iter().find_map(Operand::integer).and_then(|count| u32::try_from(count).ok())
}
