//! Phase 115: exact stalls and six scoreboards over the whole flow graph.
//!
//! An instruction of fixed latency needs a number of cycles before the next one that touches the same register in the wrong way; one of
//! variable latency needs a scoreboard that the other waits for. Three steps:
//!
//! 1. [`waits`](waits::find) walks all paths and finds who has to wait for whom: the first on each path that reads or overwrites an
//!    outstanding result, or overwrites a source that is read late.
//! 2. [`boards`](boards::allocate) gives those who are waited for a scoreboard each, or one together where six are not enough.
//! 3. [`stalls`](stalls::settle) lengthens stalls until every fixed latency has passed on every path, back edges included.
//!
//! Registers and timing come from the hardware model; what a `--hw-profile` changes there changes the code. `oriole verify` checks the
//! outcome from the bytes and shares nothing with this.

pub mod boards;
pub mod stalls;
pub mod touch;
pub mod waits;

use std::ops::Range;

use oriole_hardware::Model;
use oriole_ir::{Function, Inst};
use oriole_isa::{Control, Instruction, Opcode};
use oriole_opt::machine::machine_instruction;
use oriole_support::Index;

use crate::Controls;

use touch::Touches;

/// A function in its final order.
pub struct Code<'a> {
    pub instructions: &'a [Instruction],
    /// Blocks in the order of the code.
    pub blocks: Vec<Block>,
}

/// A run of instructions.
#[derive(Clone, Debug)]
pub struct Block {
    pub range: Range<usize>,
    /// Numbers of the blocks that control may go to.
    pub successors: Vec<usize>,
}

/// The longest stall that can be written.
pub const LONGEST_STALL: u8 = 15;
/// From here on a stall needs the scheduler to be free to turn to other warps.
const YIELDING_STALL: u8 = 12;

/// Control words for a function of the compiler.
pub fn assign_function(function: &Function, model: &Model) -> Controls {
    let order: Vec<Inst> = function.layout.iter().flat_map(|&block| function.blocks[block].insts.iter().copied()).collect();
    let instructions: Vec<Instruction> = order.iter().map(|&inst| machine_instruction(function, inst, &|_| 0)).collect();
    let code = Code { instructions: &instructions, blocks: blocks_of(function) };
    let mut controls = Controls::new(function);
    for (&inst, control) in order.iter().zip(assign(&code, model)) {
        controls.set(inst, control);
    }
    controls
}

/// The blocks that have instructions, with what may follow each.
fn blocks_of(function: &Function) -> Vec<Block> {
    let filled: Vec<oriole_ir::Block> = function.layout.iter().copied().filter(|&block| !function.blocks[block].insts.is_empty()).collect();
    let mut number_of = vec![None; function.blocks.len()];
    for (number, block) in filled.iter().enumerate() {
        number_of[block.position()] = Some(number);
    }
    // An empty block is where the next one starts.
    let mut following = None;
    for &block in function.layout.iter().rev() {
        let number = number_of[block.position()].or(following);
        number_of[block.position()] = number;
        following = number;
    }
    let mut start = 0;
    let mut blocks = Vec::with_capacity(filled.len());
    for (number, &block) in filled.iter().enumerate() {
        let end = start + function.blocks[block].insts.len();
        let mut successors: Vec<usize> = function.successors(block).iter().filter_map(|next| number_of[next.position()]).collect();
        if falls_through(function, block) && number + 1 < filled.len() {
            successors.push(number + 1);
        }
        successors.sort_unstable();
        successors.dedup();
        blocks.push(Block { range: start..end, successors });
        start = end;
    }
    blocks
}

fn falls_through(function: &Function, block: oriole_ir::Block) -> bool {
    let Some(&last) = function.blocks[block].insts.last() else { return true };
    let data = &function.insts[last];
    let ends = [Opcode::BRA, Opcode::BRX, Opcode::EXIT, Opcode::RET].iter().any(|&opcode| data.is_machine(opcode));
    !ends || data.guard.is_some()
}

/// Control words for all instructions.
pub fn assign(code: &Code<'_>, model: &Model) -> Vec<Control> {
    let touches: Vec<Touches> = code.instructions.iter().map(|instruction| Touches::new(instruction, model)).collect();
    let found = waits::find(code, &touches, model);
    let mut controls = boards::allocate(code, &touches, &found);
    stalls::settle(code, &touches, model, &mut controls);
    for control in &mut controls {
        control.stay = control.stall < YIELDING_STALL;
    }
    controls
}
