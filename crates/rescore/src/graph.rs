//! Builds the control-flow graph of decoded code.
//!
//! A code section contains a function and the functions that only it calls. Code that may be reached from an unknown place starts with
//! nothing in flight, because calls and returns wait for everything. This holds for the starts of functions, for called code, and for code
//! that no visible instruction leads to. An empty block 0 is the predecessor of all of them.

use std::collections::BTreeSet;

use oriole_ctrl::flow::MachineBlock;
use oriole_isa::{Instruction, Opcode, OperandValue};

use crate::UnchangedReason;

/// Information from the file about control flow that the instructions do not show.
pub struct FileInfo<'a> {
    /// Numbers of the instructions at which functions begin.
    pub entries: Vec<usize>,
    /// Returns the possible targets of the indirect branch with this number, if they are known.
    pub indirect: &'a dyn Fn(usize) -> Option<Vec<usize>>,
    /// Returns whether the instruction with this number has a relocation.
    pub is_relocated: &'a dyn Fn(usize) -> bool,
}

/// The control-flow graph of a code section.
pub struct FlowGraph {
    /// Block 0 is empty; the blocks of the code follow in address order.
    pub blocks: Vec<MachineBlock>,
    /// Numbers of the instructions that only pad the section.
    pub padding: BTreeSet<usize>,
}

/// The successors of an instruction.
#[derive(Default)]
struct Successors {
    targets: Vec<usize>,
    /// Whether control may continue with the next instruction.
    falls_through: bool,
    /// Whether the block ends after the instruction.
    ends: bool,
    /// The start of called code in the same section.
    called: Option<usize>,
}

/// Finds the blocks of a section and their successors.
pub fn build(instructions: &[Instruction], file: &FileInfo<'_>) -> Result<FlowGraph, UnchangedReason> {
    let nexts: Vec<Successors> =
        (0..instructions.len()).map(|number| successors_of(instructions, number, file)).collect::<Result<_, _>>()?;
    let mut entries: BTreeSet<usize> = file.entries.iter().copied().chain([0]).collect();
    entries.extend(nexts.iter().filter_map(|next| next.called));
    let mut starts = entries.clone();
    for (number, next) in nexts.iter().enumerate().filter(|(_, next)| next.ends) {
        starts.extend(&next.targets);
        starts.insert(number + 1);
    }
    let starts: Vec<usize> = starts.into_iter().filter(|&start| start < instructions.len()).collect();
    let number_of = |start: usize| starts.binary_search(&start).ok().map(|place| place + 1);
    let mut blocks = vec![MachineBlock { range: 0..0, successors: Vec::new() }];
    for (place, &start) in starts.iter().enumerate() {
        let end = starts.get(place + 1).copied().unwrap_or(instructions.len());
        let last = &nexts[end - 1];
        let targets = last.targets.iter().copied().chain(last.falls_through.then_some(end));
        let successors: BTreeSet<usize> = targets.filter_map(number_of).collect();
        blocks.push(MachineBlock { range: start..end, successors: successors.into_iter().collect() });
    }
    let roots = entries.iter().filter_map(|&entry| number_of(entry)).collect();
    let (roots, padding) = add_unreachable_roots(instructions, &blocks, roots);
    blocks[0].successors = roots.into_iter().collect();
    Ok(FlowGraph { blocks, padding })
}

/// Returns the successors of an instruction.
fn successors_of(instructions: &[Instruction], number: usize, file: &FileInfo<'_>) -> Result<Successors, UnchangedReason> {
    let instruction = &instructions[number];
    // `BRA.CONV` and `BRA.DIV` test whether the warp is converged or diverged.
    let asks_warp = instruction.modifiers.iter().any(|modifier| matches!(modifier.spelling(), ".CONV" | ".DIV"));
    let is_conditional = asks_warp
        || !instruction.guard.is_always()
        || instruction.operands.iter().any(|operand| operand.not || matches!(operand.value, OperandValue::Register(_, Some(_))));
    let inside = || target_of(instruction, number, instructions.len()).filter(|_| !(file.is_relocated)(number));
    let here = number as u64;
    let next = match instruction.opcode {
        Opcode::BRA => {
            let target = inside().ok_or(UnchangedReason::LeavesSection { at: here })?;
            Successors { targets: vec![target], falls_through: is_conditional, ends: true, called: None }
        }
        Opcode::BRX | Opcode::BRXU => {
            let targets = (file.indirect)(number).filter(|targets| !targets.is_empty());
            let targets = targets.ok_or(UnchangedReason::UnknownTargets { at: here })?;
            Successors { targets, falls_through: is_guarded(instruction), ends: true, called: None }
        }
        Opcode::WARPSYNC => match inside() {
            Some(target) => Successors { targets: vec![target], falls_through: true, ends: true, called: None },
            None => Successors { falls_through: true, ..Successors::default() },
        },
        Opcode::EXIT => Successors { falls_through: is_conditional, ends: true, ..Successors::default() },
        Opcode::RET => Successors { falls_through: is_guarded(instruction), ends: true, ..Successors::default() },
        Opcode::CALL => Successors { falls_through: true, ends: true, called: inside(), ..Successors::default() },
        _ => Successors { falls_through: true, ..Successors::default() },
    };
    Ok(next)
}

fn is_guarded(instruction: &Instruction) -> bool {
    !instruction.guard.is_always()
}

/// Returns the number of the instruction that a relative operand refers to, if it is in the section.
fn target_of(instruction: &Instruction, number: usize, length: usize) -> Option<usize> {
    const SIZE: i64 = crate::SIZE as i64;
    let distance = instruction.operands.iter().find_map(|operand| match operand.value {
        OperandValue::Relative(distance) => Some(distance),
        _ => None,
    })?;
    let target = number as i64 + 1 + distance.div_euclid(SIZE);
    usize::try_from(target).ok().filter(|&target| distance % SIZE == 0 && target < length)
}

/// Adds every unreachable block to the roots, except padding. Returns the roots and the padding.
fn add_unreachable_roots(
    instructions: &[Instruction],
    blocks: &[MachineBlock],
    mut roots: BTreeSet<usize>,
) -> (BTreeSet<usize>, BTreeSet<usize>) {
    let mut reached = vec![false; blocks.len()];
    let mut todo: Vec<usize> = roots.iter().copied().collect();
    let mut padding = BTreeSet::new();
    for block in 1..=blocks.len() {
        while let Some(block) = todo.pop() {
            if !std::mem::replace(&mut reached[block], true) {
                todo.extend(&blocks[block].successors);
            }
        }
        if block == blocks.len() || reached[block] {
            continue;
        }
        if blocks[block].range.clone().all(|number| is_filler(instructions, number)) {
            padding.extend(blocks[block].range.clone());
        } else {
            roots.insert(block);
            todo.push(block);
        }
    }
    (roots, padding)
}

/// Returns whether an instruction may be padding: a `NOP` or a branch to itself.
fn is_filler(instructions: &[Instruction], number: usize) -> bool {
    instructions[number].opcode == Opcode::NOP || branches_to_itself(instructions, number)
}

/// Returns whether an instruction is a branch to itself.
pub fn branches_to_itself(instructions: &[Instruction], number: usize) -> bool {
    let instruction = &instructions[number];
    instruction.opcode == Opcode::BRA && target_of(instruction, number, instructions.len()) == Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::code;

    fn successors(lines: &[&str], entries: &[usize]) -> Vec<(usize, Vec<usize>)> {
        let file = FileInfo { entries: entries.to_vec(), indirect: &|_| None, is_relocated: &|_| false };
        let graph = build(&code(lines), &file).unwrap();
        graph.blocks.into_iter().map(|block| (block.range.start, block.successors)).collect()
    }

    #[test]
    fn conditional_branches_have_both_successors() {
        let found = successors(&["@P0 BRA 0x20", "NOP", "EXIT"], &[0]);
        assert_eq!(found, [(0, vec![1]), (0, vec![2, 3]), (1, vec![3]), (2, vec![])]);
    }

    #[test]
    fn convergence_tests_have_both_successors() {
        let found = successors(&["BRA.CONV 0x20", "NOP", "EXIT"], &[0]);
        assert_eq!(found, [(0, vec![1]), (0, vec![2, 3]), (1, vec![3]), (2, vec![])]);
    }

    #[test]
    fn unreachable_code_starts_with_nothing_in_flight() {
        let found = successors(&["EXIT", "MOV R0, R1", "EXIT"], &[0]);
        assert_eq!(found, [(0, vec![1, 2]), (0, vec![]), (1, vec![])]);
    }

    #[test]
    fn padding_is_not_reachable() {
        let file = FileInfo { entries: vec![0], indirect: &|_| None, is_relocated: &|_| false };
        let graph = build(&code(&["EXIT", "BRA 0x10", "NOP", "NOP"]), &file).unwrap();
        assert_eq!(graph.padding.into_iter().collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(graph.blocks[0].successors, [1]);
    }

    #[test]
    fn branches_to_unknown_targets_are_obstacles() {
        let file = FileInfo { entries: vec![0], indirect: &|_| None, is_relocated: &|_| false };
        assert!(matches!(build(&code(&["BRX R2 -0x10"]), &file), Err(UnchangedReason::UnknownTargets { at: 0 })));
        assert!(matches!(build(&code(&["NOP", "BRA 0x1000"]), &file), Err(UnchangedReason::LeavesSection { at: 1 })));
        let file = FileInfo { entries: vec![0], indirect: &|_| None, is_relocated: &|_| true };
        assert!(matches!(build(&code(&["BRA 0x0"]), &file), Err(UnchangedReason::LeavesSection { at: 0 })));
    }
}
