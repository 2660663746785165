//! Live general registers before each instruction, and the instructions that wrote them.
//!
//! A backward data-flow analysis on machine registers. An instruction with a guard does not end the life of the value that it overwrites.
//! What a call reads is not visible in the instruction: it reads the argument registers that its block has written before it. A return
//! reads nothing here, so that results of device functions count as dead after they are written.

use crate::code::{DecodedFunction, RegisterSet};

/// Registers in which the calling convention passes arguments.
const ARGUMENTS: std::ops::Range<u16> = 4..16;
/// Largest number of writers to list for a value.
const MOST_WRITERS: usize = 4;

/// The live registers of a function.
pub struct Liveness {
    /// Before each instruction.
    pub before: Vec<RegisterSet>,
}

impl Liveness {
    /// Computes the live registers before each instruction.
    pub fn compute(code: &DecodedFunction<'_>) -> Liveness {
        let uses: Vec<RegisterSet> = (0..code.instructions().len()).map(|number| uses(code, number)).collect();
        let mut before = vec![RegisterSet::default(); code.instructions().len()];
        let mut entry = vec![RegisterSet::default(); code.blocks().len()];
        let mut pending: Vec<usize> = (0..code.blocks().len()).collect();
        let mut is_pending = vec![true; code.blocks().len()];
        while let Some(block) = pending.pop() {
            is_pending[block] = false;
            let mut live = RegisterSet::default();
            for &next in &code.blocks()[block].successors {
                live = live.union(entry[next]);
            }
            for number in code.blocks()[block].range.clone().rev() {
                if code.is_unguarded(number) {
                    live = live.without(code.writes(number));
                }
                live = live.union(uses[number]);
                before[number] = live;
            }
            if entry[block] != live {
                entry[block] = live;
                for &from in &code.predecessors[block] {
                    if !std::mem::replace(&mut is_pending[from as usize], true) {
                        pending.push(from as usize);
                    }
                }
            }
        }
        Liveness { before }
    }
}

/// Returns the general registers that an instruction reads, for a call its arguments.
fn uses(code: &DecodedFunction<'_>, number: usize) -> RegisterSet {
    let mut used = code.reads(number);
    if code.is_call(number) {
        let start = code.blocks()[code.block_of[number] as usize].range.start;
        let written = (start..number).fold(RegisterSet::default(), |written, earlier| written.union(code.writes(earlier)));
        written.iter().filter(|register| ARGUMENTS.contains(register)).for_each(|register| used.insert(register));
    }
    used
}

/// Returns the instructions that may have written a register before instruction `number`, at most four, in ascending order.
pub fn writers(code: &DecodedFunction<'_>, register: u16, number: usize) -> Vec<usize> {
    let mut found = Vec::new();
    let mut visited = vec![false; code.blocks().len()];
    let block = code.block_of[number] as usize;
    // The rest of the starting block may be reached again around a loop, so it is not marked as visited.
    let mut pending = vec![(block, number)];
    while let Some((block, end)) = pending.pop() {
        let mut is_open = true;
        for earlier in (code.blocks()[block].range.start..end).rev() {
            if code.writes(earlier).contains(register) {
                if !found.contains(&earlier) {
                    found.push(earlier);
                }
                is_open = !code.is_unguarded(earlier);
                if !is_open {
                    break;
                }
            }
        }
        if found.len() >= MOST_WRITERS {
            break;
        }
        for &from in code.predecessors[block].iter().filter(|_| is_open) {
            if !std::mem::replace(&mut visited[from as usize], true) {
                pending.push((from as usize, code.blocks()[from as usize].range.end));
            }
        }
    }
    found.sort_unstable();
    found.truncate(MOST_WRITERS);
    found
}
