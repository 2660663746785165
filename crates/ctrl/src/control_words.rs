//! Phase 120: computes the control words of a compiled function ([`crate::flow`]), and inserts `NOP`s where stalls are too short.
//!
//! A stall is at most 15 cycles. Where a fixed latency is longer than the stalls between two dependent instructions can cover, a `NOP` is
//! inserted that stalls for the missing cycles. This changes other distances too, so all control words are computed again; usually the
//! second computation finds nothing to insert. Example: a matrix-multiply instruction with a latency of 24 cycles, directly followed by an
//! instruction that reads its result, becomes `HMMA` with stall 15, `NOP` with stall 9, and the reader.
//!
//! The operand slots of the reuse cache are known only after encoding, because the encoder may swap commutative sources. So instructions
//! are encoded here. Encodings that do not depend on code addresses are kept, so that the emitter only has to add the control word.
//!
//! The published description of ptxas calls this phase `opex`.

use oriole_hardware::{Hardware, SchedClass};
use oriole_ir::machine::{depends_on_place, machine_instruction};
use oriole_ir::{Function, Inst, Op, OperandKind};
use oriole_isa::{Control, Instruction, Opcode, Symbols, encode, settle};
use oriole_support::Index;

use crate::ControlWords;
use crate::flow::stalls::LatencyShortfall;
use crate::flow::{MachineBlock, MachineCode, assign_control_words};

/// Maximum number of times that the control words of a function are computed. After each time but the last, one `NOP` with a stall of up to
/// 15 cycles can be inserted before an instruction; together these `NOP`s cover the longest latencies.
const MAX_CONTROL_WORD_ROUNDS: usize = 8;

/// Computes the control words of all instructions, and inserts `NOP`s where stalls cannot cover a fixed latency.
pub fn run(function: &mut Function, hardware: &Hardware<'_>) -> ControlWords {
    for _ in 1..MAX_CONTROL_WORD_ROUNDS {
        let (controls, shortfalls) = compute_control_words(function, hardware);
        if shortfalls.is_empty() {
            return controls;
        }
        insert_nops(function, &shortfalls);
    }
    compute_control_words(function, hardware).0
}

/// Computes the control words of the function without inserting instructions. Also returns the latencies that the stalls cannot cover,
/// sorted by the position of the instruction that would issue too early.
fn compute_control_words(function: &Function, hardware: &Hardware<'_>) -> (ControlWords, Vec<LatencyShortfall>) {
    let order: Vec<Inst> = function.layout.iter().flat_map(|&block| function.blocks[block].insts.iter().copied()).collect();
    let (target, rules) = (hardware.target, &*hardware.rules);
    let mut controls = ControlWords::new(function);
    controls.encoded = vec![None; function.insts.len()];
    let instruction = |&inst: &Inst| {
        let mut instruction = Instruction { control: Control::BLANK, ..machine_instruction(function, inst, &|_| 0) };
        let is_cached = rules.reuse_cache(SchedClass::of(&instruction)).is_some();
        let word = if is_cached { settle(&mut instruction, target) } else { encode(&instruction, target) };
        if !depends_on_place(function, inst) {
            controls.encoded[inst.position()] = word.ok();
        }
        Instruction { control: Control::default(), ..instruction }
    };
    let instructions: Vec<Instruction> = order.iter().map(instruction).collect();
    let code = MachineCode { instructions: &instructions, blocks: machine_blocks_of(function) };
    let done = assign_control_words(&code, hardware, false);
    for (&inst, control) in order.iter().zip(done.controls) {
        controls.set(inst, control);
    }
    (controls, done.shortfalls)
}

/// Inserts a `NOP` before each instruction that would issue too early, because the stalls before it cannot cover a fixed latency.
fn insert_nops(function: &mut Function, shortfalls: &[LatencyShortfall]) {
    let mut starts = Vec::with_capacity(function.layout.len());
    let mut start = 0;
    for &block in &function.layout {
        starts.push(start);
        start += function.blocks[block].insts.len();
    }
    // The `NOP`s are inserted from back to front, so that the positions of the remaining instructions stay valid.
    for shortfall in shortfalls.iter().rev() {
        // An empty block has the same start as the next one, so the last block with this start has the instruction.
        let place = starts.partition_point(|&start| start <= shortfall.before) - 1;
        let block = function.layout[place];
        let at = shortfall.before - starts[place];
        let nop = function.new_inst(Op::Machine(Opcode::NOP), Symbols::new(), None, &[], 0);
        function.blocks[block].insts.insert(at, nop);
    }
}

/// Returns the basic blocks of the function for [`crate::flow`]. A block of the IR that ends in two branches becomes two basic blocks: a
/// warp that takes the first branch does not execute the second one, so the second one's stall does not count on that path.
fn machine_blocks_of(function: &Function) -> Vec<MachineBlock> {
    let runs: Vec<(oriole_ir::Block, &[Inst])> = function
        .layout
        .iter()
        .flat_map(|&block| {
            let insts = function.blocks[block].insts.split_inclusive(|&inst| is_branch(function, inst));
            insts.map(move |run| (block, run))
        })
        .collect();
    let mut first_block_of = vec![None; function.blocks.len()];
    for (number, (block, _)) in runs.iter().enumerate().rev() {
        first_block_of[block.position()] = Some(number);
    }
    // A branch to an empty block leads to the next block that has instructions.
    let mut following = None;
    for &block in function.layout.iter().rev() {
        let number = first_block_of[block.position()].or(following);
        first_block_of[block.position()] = number;
        following = number;
    }
    let mut start = 0;
    let mut blocks = Vec::with_capacity(runs.len());
    for (number, &(_, run)) in runs.iter().enumerate() {
        let end = start + run.len();
        let last = run[run.len() - 1];
        let next = (number + 1..runs.len()).next().filter(|_| falls_through(function, last));
        let mut successors: Vec<usize> =
            branch_targets(function, last).filter_map(|next| first_block_of[next.position()]).chain(next).collect();
        successors.sort_unstable();
        successors.dedup();
        blocks.push(MachineBlock { range: start..end, successors });
        start = end;
    }
    blocks
}

/// Returns whether an instruction is a branch.
fn is_branch(function: &Function, inst: Inst) -> bool {
    let data = &function.insts[inst];
    data.is_machine(Opcode::BRA) || data.is_machine(Opcode::BRX)
}

/// Returns the target blocks of a branch; none for other instructions.
fn branch_targets(function: &Function, inst: Inst) -> impl Iterator<Item = oriole_ir::Block> {
    let operands = if is_branch(function, inst) { function.operands(inst) } else { &[] };
    operands.iter().filter_map(|operand| if let OperandKind::Block(target) = operand.kind { Some(target) } else { None })
}

/// Returns whether control may continue with the next block of the layout after `last`, the last instruction of a block.
fn falls_through(function: &Function, last: Inst) -> bool {
    let data = &function.insts[last];
    let ends = [Opcode::BRA, Opcode::BRX, Opcode::EXIT, Opcode::RET].iter().any(|&opcode| data.is_machine(opcode));
    !ends || data.guard.is_some()
}
