//! Removes branches that are redundant in the final order of blocks: branches to the next block, and blocks that contain only a branch.
//!
//! **Before**: every block ends in explicit control flow. **After**: a block may fall through to the next block of the layout.

use oriole_ir::{Block, Function, Guard, Inst, Opcode, OperandKind};
use oriole_support::Index;

/// Redirects branches to blocks that contain only a jump (jump threading), then deletes branches to the next block of the layout.
///
/// If `keeps_lines` is true, for debuggers, branches are not redirected, and a branch that is the only code of a source line, such as that
/// of `break;`, is not deleted.
pub fn run(function: &mut Function, keeps_lines: bool) {
    if !keeps_lines {
        thread_jumps(function);
    }
    let layout = function.layout.clone();
    let keeps: Vec<bool> = if keeps_lines { jumps_to_keep_for_debuggers(function, &layout) } else { vec![false; layout.len()] };
    // Blocks are visited from last to first, because whether a jump leads to the next instruction depends on which blocks after it are
    // empty. An empty block remains as the target of a `BSSY` if its only jump was removed.
    for (position, &block) in layout.iter().enumerate().rev().filter(|&(position, _)| !keeps[position]) {
        let is_empty = |block: &Block| function.blocks[*block].insts.is_empty();
        let next = layout[position + 1..].iter().position(|block| !is_empty(block)).map_or(layout.len(), |count| position + 2 + count);
        delete_jump_to_next_block(function, block, &layout[position + 1..next.min(layout.len())]);
    }
}

/// Returns for each block of the layout whether its last instruction, a jump, is the only code of its source line.
fn jumps_to_keep_for_debuggers(function: &Function, layout: &[Block]) -> Vec<bool> {
    let mut last_line = 0;
    let mut is_kept = |position: usize| {
        let is_kept = is_only_code_of_line(function, &layout[position..], last_line);
        let last = function.blocks[layout[position]].insts.last();
        last_line = last.map_or(last_line, |&inst| function.insts[inst].location.line);
        is_kept
    };
    (0..layout.len()).map(&mut is_kept).collect()
}

/// Returns whether the last instruction of the block `blocks[0]` is the only code of its source line: the instructions before and after it
/// have another `.loc`. `blocks` is the block and those after it in the layout; `before` is the `.loc` of the last instruction before the
/// block.
fn is_only_code_of_line(function: &Function, blocks: &[Block], before: u32) -> bool {
    let line = |inst: &Inst| function.insts[*inst].location.line;
    let [before_last @ .., last] = function.blocks[blocks[0]].insts.as_slice() else { return false };
    let after = blocks[1..].iter().find_map(|&block| function.blocks[block].insts.first());
    let line_of_last = line(last);
    line_of_last != 0 && line_of_last != before_last.last().map_or(before, line) && after.is_none_or(|inst| line(inst) != line_of_last)
}

/// Jump threading: redirects each branch to a block that contains only a jump. Its new target is the target of that jump.
fn thread_jumps(function: &mut Function) {
    let destination = |start: Block| {
        let mut at = start;
        // A chain of jumps may be a cycle, so at most eight jumps are followed; longer chains are rare.
        for _ in 0..8 {
            match sole_jump_target(function, at) {
                Some(target) if target != at => at = target,
                _ => break,
            }
        }
        at
    };
    let destinations: Vec<Block> = (0..function.blocks.len()).map(|position| destination(Block::new(position))).collect();
    for &block in &function.layout.clone() {
        for inst in function.terminators(block).to_vec() {
            for operand in function.operands_mut(inst) {
                if let OperandKind::Block(target) = &mut operand.kind {
                    *target = destinations[target.position()];
                }
            }
        }
    }
    remove_unreachable_from_layout(function);
}

/// Returns the branch target of a block that consists of one unconditional branch; `None` for other blocks.
fn sole_jump_target(function: &Function, block: Block) -> Option<Block> {
    let [inst] = function.blocks[block].insts.as_slice() else { return None };
    let data = &function.insts[*inst];
    if !data.is_machine(Opcode::BRA) || data.guard.is_some() {
        return None;
    }
    function.operands(*inst).iter().find_map(|operand| if let OperandKind::Block(target) = operand.kind { Some(target) } else { None })
}

/// Removes from the layout the blocks that cannot be reached from the entry. Every operand that names a block counts as an edge, also that
/// of `BSSY`.
fn remove_unreachable_from_layout(function: &mut Function) {
    let mut reached = vec![false; function.blocks.len()];
    let mut pending = vec![function.entry()];
    reached[function.entry().position()] = true;
    while let Some(block) = pending.pop() {
        let named =
            function.blocks[block].insts.iter().flat_map(|&inst| function.operands(inst)).filter_map(|operand| match operand.kind {
                OperandKind::Block(target) => Some(target),
                _ => None,
            });
        for target in named.collect::<Vec<_>>() {
            if !std::mem::replace(&mut reached[target.position()], true) {
                pending.push(target);
            }
        }
    }
    function.layout.retain(|block| reached[block.position()]);
}

/// Deletes the jump at the end of `block` if its target is one of `next`. If a conditional branch before the last jump leads to one of
/// `next`, inverts the condition, so that one branch is enough. `next` are the blocks after `block` in the layout up to the first one that
/// is not empty.
fn delete_jump_to_next_block(function: &mut Function, block: Block, next: &[Block]) {
    let is_next = |target: Option<Block>| target.is_some_and(|target| next.contains(&target));
    let target_of = |function: &Function, inst| {
        function.operands(inst).iter().find_map(|operand| if let OperandKind::Block(target) = operand.kind { Some(target) } else { None })
    };
    let is_branch = |function: &Function, inst| function.insts[inst].is_machine(Opcode::BRA);
    match *function.terminators(block) {
        [.., last] if is_branch(function, last) && function.insts[last].guard.is_none() && is_next(target_of(function, last)) => {
            function.blocks[block].insts.pop();
        }
        // `@P BRA next; BRA other` becomes `@!P BRA other`.
        [first, last]
            if is_branch(function, last)
                && is_branch(function, first)
                && function.insts[first].modifiers.is_empty()
                && is_next(target_of(function, first)) =>
        {
            let guard = function.insts[first].guard.map(|guard| Guard { negated: !guard.negated, ..guard });
            function.insts[last].guard = guard;
            let insts = &mut function.blocks[block].insts;
            let position = insts.len() - 2;
            insts.remove(position);
        }
        _ => {}
    }
}
