//! Phase 120: control words for a function of the compiler, with the instructions that have to be added for them.
//!
//! A stall holds fifteen cycles. Where a fixed latency is longer and nothing stands between the two, an instruction that does nothing goes
//! there with the rest of the cycles. That changes what lies between others too, so all is worked out again; it only gets longer, and one
//! round more usually finds nothing to add.
//!
//! Which slots of the reuse cache operands go through is known only of the encoded instruction, so words are made here, and kept for the encoder
//! where they are final but for their control part.

use oriole_hardware::{Class, ControlRules, Model};
use oriole_ir::{Function, Inst, Op, OperandKind};
use oriole_isa::{Control, Instruction, Opcode, Symbols, Target, encode, settle};
use oriole_opt::machine::{depends_on_place, machine_instruction};
use oriole_support::Index;

use crate::Controls;
use crate::flow::stalls::Shortfall;
use crate::flow::{Block, Code, assign_all};

/// Rounds after which even the worst has been spread over enough instructions.
const MOST_ROUNDS: usize = 8;

/// Control words for all instructions; adds some where stalls cannot be long enough.
pub fn run(function: &mut Function, target: Target, model: &Model) -> Controls {
    for _ in 1..MOST_ROUNDS {
        let (controls, shortfalls) = assign(function, target, model);
        if shortfalls.is_empty() {
            return controls;
        }
        add_pauses(function, &shortfalls);
    }
    assign(function, target, model).0
}

fn assign(function: &Function, target: Target, model: &Model) -> (Controls, Vec<Shortfall>) {
    let order: Vec<Inst> = function.layout.iter().flat_map(|&block| function.blocks[block].insts.iter().copied()).collect();
    let rules = ControlRules::of(model);
    let mut controls = Controls::new(function);
    controls.encoded = vec![None; function.insts.len()];
    let instruction = |&inst: &Inst| {
        let mut instruction = Instruction { control: Control::BLANK, ..machine_instruction(function, inst, &|_| 0) };
        let is_cached = rules.reuse_cache(Class::of(&instruction)).is_some();
        let word = if is_cached { settle(&mut instruction, target) } else { encode(&instruction, target) };
        if !depends_on_place(function, inst) {
            controls.encoded[inst.position()] = word.ok();
        }
        Instruction { control: Control::default(), ..instruction }
    };
    let instructions: Vec<Instruction> = order.iter().map(instruction).collect();
    let code = Code { instructions: &instructions, blocks: blocks_of(function) };
    let done = assign_all(&code, model, false);
    for (&inst, control) in order.iter().zip(done.controls) {
        controls.set(inst, control);
    }
    (controls, done.shortfalls)
}

/// Puts a `NOP` before each instruction that comes too early.
fn add_pauses(function: &mut Function, shortfalls: &[Shortfall]) {
    let mut starts = Vec::with_capacity(function.layout.len());
    let mut start = 0;
    for &block in &function.layout {
        starts.push(start);
        start += function.blocks[block].insts.len();
    }
    for shortfall in shortfalls.iter().rev() {
        // Empty blocks begin where the next one does; the last that begins there has the instruction.
        let place = starts.partition_point(|&start| start <= shortfall.before) - 1;
        let block = function.layout[place];
        let at = shortfall.before - starts[place];
        let pause = function.new_inst(Op::Machine(Opcode::NOP), Symbols::new(), None, &[], 0);
        function.blocks[block].insts.insert(at, pause);
    }
}

/// The runs of instructions that control enters at the first and leaves behind the last, with what may follow each. A block that ends in
/// two branches is two of them: whoever takes the first branch does not wait for the second one's stall.
fn blocks_of(function: &Function) -> Vec<Block> {
    let runs: Vec<(oriole_ir::Block, &[Inst])> = function
        .layout
        .iter()
        .flat_map(|&block| {
            let insts = function.blocks[block].insts.split_inclusive(|&inst| is_branch(function, inst));
            insts.map(move |run| (block, run))
        })
        .collect();
    let mut number_of = vec![None; function.blocks.len()];
    for (number, (block, _)) in runs.iter().enumerate().rev() {
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
    let mut blocks = Vec::with_capacity(runs.len());
    for (number, &(_, run)) in runs.iter().enumerate() {
        let end = start + run.len();
        let last = run[run.len() - 1];
        let mut successors: Vec<usize> = targets(function, last).filter_map(|next| number_of[next.position()]).collect();
        if falls_through(function, last) && number + 1 < runs.len() {
            successors.push(number + 1);
        }
        successors.sort_unstable();
        successors.dedup();
        blocks.push(Block { range: start..end, successors });
        start = end;
    }
    blocks
}

fn is_branch(function: &Function, inst: Inst) -> bool {
    let data = &function.insts[inst];
    data.is_machine(Opcode::BRA) || data.is_machine(Opcode::BRX)
}

/// Where a branch may go.
fn targets(function: &Function, inst: Inst) -> impl Iterator<Item = oriole_ir::Block> {
    let operands = if is_branch(function, inst) { function.operands(inst) } else { &[] };
    operands.iter().filter_map(|operand| if let OperandKind::Block(target) = operand.kind { Some(target) } else { None })
}

fn falls_through(function: &Function, last: Inst) -> bool {
    let data = &function.insts[last];
    let ends = [Opcode::BRA, Opcode::BRX, Opcode::EXIT, Opcode::RET].iter().any(|&opcode| data.is_machine(opcode));
    !ends || data.guard.is_some()
}
