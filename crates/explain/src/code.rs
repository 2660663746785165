//! A function prepared for the analyses: instructions, control words as the file has them, blocks, loops and register accesses.

use std::ops::Range;

use oriole_ctrl::flow::control_flow::{MachineControlFlow, MachineLoop};
use oriole_ctrl::flow::{MachineBlock, MachineCode};
use oriole_hardware::Hardware;
use oriole_isa::{Accesses, Control, Instruction, Opcode, RegFile, accesses, print_with};
use oriole_rescore::analysis::Analysis;

/// Size of an instruction in bytes.
pub const SIZE: usize = 16;

/// Iterations that each loop is assumed to have.
pub const TRIP_COUNT: f64 = 10.0;

/// A function prepared for the analyses.
pub struct DecodedFunction<'a> {
    /// What `ctrl` found out.
    pub analysis: &'a Analysis,
    /// The hardware model.
    pub hardware: &'a Hardware<'a>,
    /// The control words in the file.
    pub controls: Vec<Control>,
    /// Number of instructions, without padding at the end.
    pub length: usize,
    /// Loops, sorted by start, outer loops before inner ones.
    pub loops: Vec<MachineLoop>,
    /// For each block its predecessors.
    pub predecessors: Vec<Vec<u32>>,
    /// The back edges of loops: source and target, sorted.
    back_edges: Vec<(usize, usize)>,
    /// For each block, whether it is code for a rare case out of line: all paths from it go back to code before it, without a loop.
    pub is_out_of_line: Vec<bool>,
    /// For each instruction its block.
    pub block_of: Vec<u32>,
    /// For each block the innermost loop around it.
    pub loop_of: Vec<Option<usize>>,
    /// For each block, executions for each execution of the code around its loops, if loops had one iteration.
    pub local_frequency: Vec<f64>,
    /// The register accesses of each instruction.
    pub accesses: Vec<Accesses>,
}

impl<'a> DecodedFunction<'a> {
    /// Prepares a function. `words` are its instructions as the file has them.
    pub fn new(analysis: &'a Analysis, words: &[u128], hardware: &'a Hardware<'a>) -> DecodedFunction<'a> {
        let flow_code = MachineCode { instructions: &analysis.instructions, blocks: analysis.blocks.clone() };
        let flow = MachineControlFlow::new(&flow_code);
        let mut block_of = vec![0; words.len()];
        for (number, block) in analysis.blocks.iter().enumerate() {
            block_of[block.range.clone()].fill(number as u32);
        }
        let loop_of = (0..analysis.blocks.len()).map(|block| flow.loop_of_block(block)).collect();
        let length = words.len() - (0..words.len()).rev().take_while(|number| analysis.padding.contains(number)).count();
        let mut code = DecodedFunction {
            analysis,
            hardware,
            controls: words.iter().map(|&word| Control::of(word)).collect(),
            length,
            is_out_of_line: out_of_line_blocks(&analysis.blocks, &flow.back_edges),
            predecessors: flow.predecessors,
            back_edges: flow.back_edges,
            loops: flow.loops,
            block_of,
            loop_of,
            local_frequency: Vec::new(),
            accesses: analysis.instructions.iter().map(accesses).collect(),
        };
        code.local_frequency = code.local_frequencies();
        code
    }

    /// Returns the instructions.
    pub fn instructions(&self) -> &'a [Instruction] {
        &self.analysis.instructions
    }

    /// Returns the blocks; the first one is empty.
    pub fn blocks(&self) -> &'a [MachineBlock] {
        &self.analysis.blocks
    }

    /// Returns the numbers of the blocks with code in address order, without padding at the end.
    pub fn real_blocks(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.blocks().len()).filter(|&number| {
            let range = &self.blocks()[number].range;
            !range.is_empty() && range.start < self.length
        })
    }

    /// Returns the name of a block.
    pub fn block_name(&self, block: usize) -> String {
        // Block 0 is empty, so that the first block with code has the number 1.
        format!("bb{}", block - 1)
    }

    /// Returns the number of loops around a block.
    pub fn depth(&self, block: usize) -> u32 {
        self.loop_of[block].map_or(0, |at| self.loops[at].depth)
    }

    /// Returns the number of loops around an instruction.
    pub fn depth_of_inst(&self, number: usize) -> u32 {
        self.depth(self.block_of[number] as usize)
    }

    /// Returns the estimated number of executions of a block.
    pub fn executions(&self, block: usize) -> f64 {
        self.local_frequency[block] * TRIP_COUNT.powi(self.depth(block) as i32)
    }

    /// Returns the estimated number of executions of an instruction.
    pub fn executions_of_inst(&self, number: usize) -> f64 {
        self.executions(self.block_of[number] as usize)
    }

    /// Returns whether an edge is the back edge of a loop.
    pub fn is_back_edge(&self, from: usize, to: usize) -> bool {
        self.back_edges.binary_search(&(from, to)).is_ok()
    }

    /// Returns the blocks of a range of instructions.
    pub fn blocks_in(&self, range: &Range<usize>) -> impl Iterator<Item = usize> + use<'_, 'a> {
        let position = |start: usize| self.blocks().partition_point(|block| block.range.start < start);
        let (first, end) = (position(range.start), position(range.end.min(self.length)));
        (first..end).filter(|&block| !self.blocks()[block].range.is_empty())
    }

    /// Distributes one execution over the forward edges: each of n forward successors of a block gets 1/n. Back edges do not count, so a
    /// loop passes on what it gets. Code for rare cases out of line counts as not executed.
    fn local_frequencies(&self) -> Vec<f64> {
        let mut frequency = vec![0.0; self.blocks().len()];
        let Some(roots) = self.blocks().first().map(|entry| entry.successors.clone()) else { return frequency };
        roots.into_iter().for_each(|root| frequency[root] = 1.0);
        // The address order is a topological order of the forward edges.
        for block in 0..frequency.len() {
            let is_later = |next: usize| self.blocks()[next].range.start >= self.blocks()[block].range.end;
            let successors = self.blocks()[block].successors.iter().copied();
            let forward: Vec<usize> = successors.filter(|&next| block != 0 && is_later(next) && !self.is_out_of_line[next]).collect();
            for &next in &forward {
                frequency[next] += frequency[block] / forward.len() as f64;
            }
        }
        frequency
    }

    /// Returns the text of an instruction. Branch targets are names of blocks.
    pub fn text(&self, number: usize, word: u128) -> String {
        let mut text = String::new();
        let starts = |address: u64| {
            let target = usize::try_from(address).ok()? / SIZE;
            let block = *self.block_of.get(target)? as usize;
            (self.blocks()[block].range.start == target).then(|| self.block_name(block))
        };
        let mut name = |address: u64| starts(address);
        if !print_with(&mut text, word, self.hardware.target, (number * SIZE) as u64, &mut name) {
            text = format!(".raw {word:#034x}");
        }
        text
    }

    /// Returns the mnemonic of an instruction with its address, for sentences.
    pub fn place(&self, number: usize) -> String {
        format!("{} at {:#06x}", self.instructions()[number].opcode.mnemonic(), number * SIZE)
    }

    /// Returns the general registers that an instruction reads, as a set.
    pub fn reads(&self, number: usize) -> RegisterSet {
        self.general(number, false)
    }

    /// Returns the general registers that an instruction writes, as a set.
    pub fn writes(&self, number: usize) -> RegisterSet {
        self.general(number, true)
    }

    /// Returns whether an instruction always writes its results.
    pub fn is_unguarded(&self, number: usize) -> bool {
        self.instructions()[number].guard.is_always()
    }

    fn general(&self, number: usize, written: bool) -> RegisterSet {
        let mut set = RegisterSet::default();
        let wanted = self.accesses[number].iter().filter(|access| access.file == RegFile::General && access.written == written);
        wanted.for_each(|access| access.registers().for_each(|register| set.insert(register)));
        set
    }

    /// Returns whether an instruction calls a function.
    pub fn is_call(&self, number: usize) -> bool {
        self.instructions()[number].opcode == Opcode::CALL
    }
}

/// Returns, for each block, whether all paths from it go back to code before it, over edges that are no back edges of loops. `back_edges`
/// is sorted.
fn out_of_line_blocks(blocks: &[MachineBlock], back_edges: &[(usize, usize)]) -> Vec<bool> {
    let mut is_out_of_line = vec![false; blocks.len()];
    // From the last block to the first, so that later successors are known.
    for (number, block) in blocks.iter().enumerate().rev() {
        let returns = |next: usize| blocks[next].range.start < block.range.end && back_edges.binary_search(&(number, next)).is_err();
        is_out_of_line[number] =
            !block.successors.is_empty() && block.successors.iter().all(|&next| returns(next) || next > number && is_out_of_line[next]);
    }
    is_out_of_line
}

/// A set of general registers.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct RegisterSet([u64; 4]);

impl RegisterSet {
    /// Adds a register.
    pub fn insert(&mut self, register: u16) {
        self.0[usize::from(register / 64) % 4] |= 1 << (register % 64);
    }

    /// Returns whether a register is in the set.
    pub fn contains(&self, register: u16) -> bool {
        self.0[usize::from(register / 64) % 4] >> (register % 64) & 1 == 1
    }

    /// Returns the union with another set.
    pub fn union(self, other: RegisterSet) -> RegisterSet {
        RegisterSet(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }

    /// Returns the set without the registers of another set.
    pub fn without(self, other: RegisterSet) -> RegisterSet {
        RegisterSet(std::array::from_fn(|word| self.0[word] & !other.0[word]))
    }

    /// Returns the registers that are in both sets.
    pub fn intersection(self, other: RegisterSet) -> RegisterSet {
        RegisterSet(std::array::from_fn(|word| self.0[word] & other.0[word]))
    }

    /// Returns the number of registers.
    pub fn len(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Returns the registers in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        (0..256).filter(|&register| self.contains(register))
    }
}
