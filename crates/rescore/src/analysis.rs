//! Analyses the control words of decoded code: control flow, waits and stalls with their reasons.
//!
//! The result describes the code as `ctrl` sees it. The control words in the file may differ, if another compiler wrote them.

use std::collections::BTreeSet;

use oriole_ctrl::flow::reasons::StallAndWaitReasons;
use oriole_ctrl::flow::{MachineBlock, MachineCode, assign_with_reasons};
use oriole_cubin::CubinIndex;
use oriole_hardware::Hardware;
use oriole_isa::{Control, Instruction, decode};

use crate::graph::{FileInfo, build};
use crate::{SIZE, UnchangedReason, entries, indirect_branches, relocated};

/// The instructions of a function, its control flow, and the control words that `ctrl` computes for it, with reasons.
#[derive(Debug)]
pub struct Analysis {
    /// The instructions, without reuse flags.
    pub instructions: Vec<Instruction>,
    /// Basic blocks. The first one is empty; its successors are the starts of functions and other code without visible predecessors.
    pub blocks: Vec<MachineBlock>,
    /// Numbers of the instructions that only pad the section.
    pub padding: BTreeSet<usize>,
    /// The control words that `ctrl` computes.
    pub controls: Vec<Control>,
    /// The reasons for these control words.
    pub reasons: StallAndWaitReasons,
}

/// Analyses a function. The result does not depend on the address of the function in the file.
pub fn analyze(
    index: &CubinIndex<'_>,
    function: &oriole_cubin::Function<'_>,
    hardware: &Hardware<'_>,
) -> Result<Analysis, UnchangedReason> {
    let (words, tail) = function.code.as_chunks::<SIZE>();
    if !tail.is_empty() {
        return Err(UnchangedReason::NotWhole);
    }
    let read = |(at, word): (usize, &[u8; SIZE])| {
        let decoded = decode(u128::from_le_bytes(*word), hardware.target);
        let mut instruction = decoded.ok_or(UnchangedReason::Unknown { at: at as u64 })?;
        instruction.operands.iter_mut().for_each(|operand| operand.reuse = false);
        Ok(instruction)
    };
    let instructions: Vec<Instruction> = words.iter().enumerate().map(read).collect::<Result<_, _>>()?;
    let branches = indirect_branches(index, function.name);
    let relocated = relocated(index, function.section);
    let file = FileInfo {
        entries: entries(index, function.section),
        indirect: &|number| branches.get(&number).cloned(),
        is_relocated: &|number| relocated.binary_search(&number).is_ok(),
    };
    let graph = build(&instructions, &file)?;
    let code = MachineCode { instructions: &instructions, blocks: graph.blocks };
    let (controls, reasons) = assign_with_reasons(&code, hardware);
    let blocks = code.blocks;
    Ok(Analysis { instructions, blocks, padding: graph.padding, controls, reasons })
}
