//! Warnings about barriers of a thread block: barriers that only a part of the threads reaches, and loops with several barriers.

use std::collections::BTreeMap;

use oriole_isa::{Instruction, Opcode, Operand, OperandValue};

use crate::code::DecodedFunction;
use crate::model::Warning;
use crate::warnings::Input;

/// Largest number of barriers that are analysed, and largest number of blocks.
const MOST_BARRIERS: usize = 256;
const MOST_BLOCKS: usize = 4096;

/// Returns whether an instruction is a barrier for all threads of the block.
fn is_barrier(instruction: &Instruction) -> bool {
    let has = |spelling: &str| instruction.modifiers.iter().any(|modifier| modifier.spelling() == spelling);
    // The second operand is the number of threads, 0 for all. Another number may be meant for a part of the block.
    let is_for_all = |operand: &Operand| matches!(operand.value, OperandValue::Integer(0) | OperandValue::Register(_, None));
    instruction.opcode == Opcode::BAR && (has(".SYNC") || has(".RED")) && instruction.operands.get(1).is_none_or(is_for_all)
}

fn barriers(code: &DecodedFunction<'_>) -> Vec<usize> {
    (0..code.length).filter(|&number| is_barrier(&code.instructions()[number])).take(MOST_BARRIERS).collect()
}

/// Barriers that only threads reach which take one side of a divergent branch. `is_divergent` says that a branch depends on the thread.
pub fn divergent(input: &Input<'_>, is_divergent: &[bool]) -> Vec<Warning> {
    let code = input.code;
    if code.blocks().len() > MOST_BLOCKS {
        return Vec::new();
    }
    let branches: Vec<(usize, usize)> = code.real_blocks().filter_map(|block| divergent_branch(code, block, is_divergent)).collect();
    let mut found = Vec::new();
    for number in barriers(code).into_iter().filter(|_| !branches.is_empty()) {
        let block = code.block_of[number] as usize;
        // Blocks after the barrier, blocks from which it can be reached, and blocks from which the code after it is reached without it.
        let after = reachable(code, vec![block], |at| forward(code, at));
        let before = reachable(code, vec![block], |at| backward(code, at));
        let next: Vec<usize> = (0..after.len()).filter(|&at| after[at] && at != block).collect();
        let around = reachable(code, next, |at| backward(code, at).into_iter().filter(|&from| from != block).collect());
        let controls = |&&(branch, _): &&(usize, usize)| branch != block && before[branch] && around[branch] && !after[branch];
        let Some(&(_, branch)) = branches.iter().filter(controls).max_by_key(|(_, branch)| *branch) else { continue };
        let cycles = input.cost(number).max(code.executions_of_inst(number));
        let text = format!(
            "the barrier is reached only by threads that take one side of {}, which depends on the thread; `bar.sync` waits for all threads of \
             the block, so move it out of the branch (or name the number of threads that take part)",
            code.place(branch)
        );
        found.push(input.warning("divergent-barrier", cycles, text, &[number, branch]));
    }
    found
}

/// Returns a block and its branch, if the branch is conditional and differs between threads.
fn divergent_branch(code: &DecodedFunction<'_>, block: usize, is_divergent: &[bool]) -> Option<(usize, usize)> {
    let is_fork = forward(code, block).len() > 1;
    let last = code.blocks()[block].range.clone().next_back()?;
    (is_fork && is_divergent[last]).then_some((block, last))
}

/// Returns the successors of a block over forward edges.
fn forward(code: &DecodedFunction<'_>, block: usize) -> Vec<usize> {
    code.blocks()[block].successors.iter().copied().filter(|&next| !code.is_back_edge(block, next)).collect()
}

/// Returns the predecessors of a block over forward edges.
fn backward(code: &DecodedFunction<'_>, block: usize) -> Vec<usize> {
    code.predecessors[block].iter().map(|&from| from as usize).filter(|&from| !code.is_back_edge(from, block)).collect()
}

/// Returns the blocks that are reached from some blocks, these included.
fn reachable(code: &DecodedFunction<'_>, starts: Vec<usize>, neighbours: impl Fn(usize) -> Vec<usize>) -> Vec<bool> {
    let mut seen = vec![false; code.blocks().len()];
    starts.iter().for_each(|&start| seen[start] = true);
    let mut pending = starts;
    while let Some(at) = pending.pop() {
        for next in neighbours(at) {
            if !std::mem::replace(&mut seen[next], true) {
                pending.push(next);
            }
        }
    }
    seen
}

/// Loops in which the warps of a block wait for each other more than once in an iteration.
pub fn serialization(input: &Input<'_>) -> Vec<Warning> {
    let code = input.code;
    let mut by_loop: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for number in barriers(code) {
        if let Some(innermost) = code.loop_of[code.block_of[number] as usize] {
            by_loop.entry(innermost).or_default().push(number);
        }
    }
    let warn = |(innermost, numbers): (usize, Vec<usize>)| {
        let range = code.loops[innermost].start..code.loops[innermost].end.min(code.length);
        // Between two barriers of an iteration, waits for memory are not hidden by another iteration of any warp of the block.
        let waited: f64 = range.map(|number| code.executions_of_inst(number) * f64::from(input.waiting[number])).sum();
        let cycles = waited + numbers.iter().map(|&number| input.cost(number)).sum::<f64>();
        let text = format!(
            "{} barriers in an iteration of a loop: the warps of the block wait for each other {} times, and loads of the next iteration do not \
             start before; with two buffers in shared memory, used in turn, one barrier is enough",
            numbers.len(),
            numbers.len()
        );
        input.warning("barrier-serialization", cycles, text, &numbers)
    };
    by_loop.into_iter().filter(|(_, numbers)| numbers.len() > 1).map(warn).collect()
}
