//! Marks the last reload of a spilled value, so that the cache need not write the value back to memory.
//!
//! `LDL.LU` ("last use") discards the cache line of the words that it loads; without the mark, a line that is evicted later is written to
//! the second-level cache although nobody reads it again. ptxas marks reloads in the same way. Kernels that spill much, in a first-level
//! cache that is mostly used as shared memory, gain several percent.
//!
//! ```text
//! STL [R1+0x8], R4                          STL [R1+0x8], R4
//! LDL R5, [R1+0x8]                          LDL R5, [R1+0x8]
//! LDL R6, [R1+0x8]              becomes     LDL.LU R6, [R1+0x8]
//! STL [R1+0x8], R6                          STL [R1+0x8], R6
//! ```
//!
//! A word of the stack frame is live if a later instruction may load it before it is overwritten. That is a backward analysis of the
//! spill loads and stores (Kildall 1973); guarded stores overwrite nothing. A load is marked if none of its words is live after it.
//!
//! A cache line has the words of all threads of a warp, so a load by some threads must not discard those of the others. The caller
//! therefore runs the pass only on kernels in which no branch diverges. A thread that has exited needs none of its words.
//!
//! **Before** and **after**: physical registers, in the final order of the instructions: a load that moved after the marked one would load
//! a discarded line. Cost: linear in the length of the code for each visit of a block; blocks are visited until nothing changes.

use oriole_ir::analysis::ControlFlow;
use oriole_ir::{Block, Function, Inst, Operand, OperandKind, Role, Space};
use oriole_isa::{Opcode, Symbol};
use oriole_support::IndexVec;

/// Bytes of a word of the stack frame, the unit of the analysis.
const WORD_BYTES: u32 = 4;

/// A load from or a store to spill slots.
#[derive(Clone, Copy)]
struct SpillAccess {
    /// Index of the first word in the stack frame.
    first_word: usize,
    /// Number of words.
    count: usize,
    /// Whether the words are loaded; otherwise they are stored.
    is_load: bool,
    /// Whether the access has a guard.
    is_guarded: bool,
}

/// Marks the last reloads of spilled values in a kernel without divergent branches. Returns the number of marked loads.
pub fn run(function: &mut Function) -> usize {
    let Some(last_use) = Symbol::find(".LU") else { return 0 };
    let has_spills = function.accesses.iter().any(|access| access.space == Space::Spill);
    if !has_spills {
        return 0;
    }
    let words = function.frame_bytes.div_ceil(WORD_BYTES) as usize;
    let live_at_start = find_live_words(function, words);
    let flow = ControlFlow::compute(function);
    let mut marked: Vec<Inst> = Vec::new();
    for &block in &function.layout {
        let mut live = live_at_end(&flow, block, &live_at_start, words);
        for &inst in function.blocks[block].insts.iter().rev() {
            let Some(access) = spill_access(function, inst, words) else { continue };
            let range = access.first_word..access.first_word + access.count;
            if access.is_load && !access.is_guarded && !live[range].contains(&true) {
                marked.push(inst);
            }
            update_live_words(&mut live, access);
        }
    }
    for &inst in &marked {
        function.insts[inst].modifiers.insert(0, last_use);
    }
    marked.len()
}

/// Returns, for each block, which words of the stack frame are live at its start.
fn find_live_words(function: &Function, words: usize) -> IndexVec<Block, Vec<bool>> {
    let flow = ControlFlow::compute(function);
    let mut live_at_start: IndexVec<Block, Vec<bool>> = IndexVec::filled(function.blocks.len(), vec![false; words]);
    let mut has_changed = true;
    while has_changed {
        has_changed = false;
        for &block in flow.reverse_post_order().iter().rev() {
            let mut live = live_at_end(&flow, block, &live_at_start, words);
            for &inst in function.blocks[block].insts.iter().rev() {
                if let Some(access) = spill_access(function, inst, words) {
                    update_live_words(&mut live, access);
                }
            }
            if live != live_at_start[block] {
                live_at_start[block] = live;
                has_changed = true;
            }
        }
    }
    live_at_start
}

/// Returns which words of the stack frame are live at the end of a block: those that are live at the start of a successor.
fn live_at_end(flow: &ControlFlow, block: Block, live_at_start: &IndexVec<Block, Vec<bool>>, words: usize) -> Vec<bool> {
    let mut live = vec![false; words];
    for &next in flow.successors(block) {
        live.iter_mut().zip(&live_at_start[next]).for_each(|(live, &at_start)| *live |= at_start);
    }
    live
}

/// Updates the live words from those after an access to those before it.
fn update_live_words(live: &mut [bool], access: SpillAccess) {
    if access.is_load || !access.is_guarded {
        live[access.first_word..access.first_word + access.count].fill(access.is_load);
    }
}

/// Returns the words that a spill load or spill store accesses; `None` for other instructions. `words` is the number of words of the frame.
fn spill_access(function: &Function, inst: Inst, words: usize) -> Option<SpillAccess> {
    let data = &function.insts[inst];
    let opcode = data.op.machine().filter(|opcode| matches!(opcode, Opcode::LDL | Opcode::STL))?;
    let access = data.memory.map(|id| function.accesses[id]).filter(|access| access.space == Space::Spill)?;
    let offset = |operand: &Operand| match (operand.kind, operand.role) {
        (OperandKind::Integer(offset), Role::Bracket(0)) => u32::try_from(offset).ok(),
        _ => None,
    };
    let offset = function.operands(inst).iter().find_map(offset)?;
    let (first_word, count) = ((offset / WORD_BYTES) as usize, usize::from(access.bytes) / WORD_BYTES as usize);
    let is_inside = first_word + count <= words;
    is_inside.then_some(SpillAccess { first_word, count, is_load: opcode == Opcode::LDL, is_guarded: data.guard.is_some() })
}
