//! Branches that are taken where the warp is diverged.
//!
//! ```text
//! bb1:  first ; rest       becomes       bb1:  first ; %9:UR = UMOV mask ; @PT BRA.DIV %9, bb8 ; BRA bb7
//!                                        bb7:  rest
//!                                        bb8:  ...                    (after all other blocks)
//! ```
//!
//! `BRA.DIV` tests whether a thread of the mask that has not exited is missing. Without uniform registers in the instruction, as before sm_80,
//! it tests whether any thread of the warp is missing.
//!
//! **Uniform registers** are shared by all threads of a warp, so values that other threads may still read stay alive (`KEEP`) where the mask
//! is written; see `shared_uniform`.

use oriole_ir::{Block, Class, Function, Guard, Inst, Location, Op, Operand, OperandKind, RegFile, Target};
use oriole_isa::{Opcode, Symbol, Symbols};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::shared_values::SharedUniformValues;
use super::split::split_block;

/// Inserts branches that are taken where the warp is diverged. The layout of the function changes in [`DivergedBranches::finish`].
pub(crate) struct DivergedBranches {
    /// The values in uniform registers that several blocks share; `None` if `BRA.DIV` has no mask on the target.
    shared: Option<SharedUniformValues>,
    /// For each block that was split, the blocks that follow it in the layout, the last one first.
    parts: FxHashMap<Block, Vec<Block>>,
    /// The blocks that are executed where the warp is diverged.
    apart: Vec<Block>,
}

impl DivergedBranches {
    /// Prepares branches in a function.
    pub(crate) fn new(function: &Function, target: Target) -> DivergedBranches {
        let shared = encodes("BRA.DIV UR4, 0x0", target).then(|| SharedUniformValues::find(function));
        DivergedBranches { shared, parts: FxHashMap::default(), apart: Vec::new() }
    }

    /// Ends `block` after its first `at` instructions with a branch that is taken if a thread of `mask` is missing. Returns the block to
    /// which it leads, which has no terminator yet, and the block with the other instructions. Of a block that is split several times, the
    /// last part must be split off first.
    pub(crate) fn insert(&mut self, function: &mut Function, block: Block, at: usize, mask: u32, location: Location) -> (Block, Block) {
        let together = split_block(function, block, at);
        let apart = function.new_block();
        let mut test: SmallVec<[Operand; 2]> = SmallVec::new();
        if let Some(shared) = &self.shared {
            let value = function.new_value(Class::UR);
            let whole = Operand::from(function.whole(value));
            let kept = shared.keep(function, block);
            let load = new_machine_inst(function, Opcode::UMOV, &[whole, i64::from(mask).into()], 1, location);
            function.blocks[block].insts.push(load);
            test.push(whole);
            function.blocks[apart].insts.extend(kept);
        }
        test.push(apart.into());
        let branch = new_machine_inst(function, Opcode::BRA, &test, 0, location);
        function.insts[branch].modifiers = Symbols::from_iter([Symbol::DIV]);
        // The guard says that control may continue at the next instruction.
        function.insts[branch].guard = Some(Guard { kind: OperandKind::Zero(RegFile::Predicate), negated: false });
        let next = new_machine_inst(function, Opcode::BRA, &[together.into()], 0, location);
        function.blocks[block].insts.extend([branch, next]);
        self.follow(block, together);
        self.apart.push(apart);
        (apart, together)
    }

    /// Places a new block directly after `block` in the layout, before those that were placed there earlier.
    pub(crate) fn follow(&mut self, block: Block, new: Block) {
        self.parts.entry(block).or_default().push(new);
    }

    /// Adds the new blocks to the layout.
    pub(crate) fn finish(mut self, function: &mut Function) {
        let layout = std::mem::take(&mut function.layout);
        let mut next: Vec<Block> = Vec::new();
        for block in layout {
            next.push(block);
            while let Some(block) = next.pop() {
                function.layout.push(block);
                next.extend(self.parts.remove(&block).unwrap_or_default());
            }
        }
        function.layout.append(&mut self.apart);
    }
}

/// Creates an instruction without modifiers and guard.
pub(crate) fn new_machine_inst(function: &mut Function, opcode: Opcode, operands: &[Operand], results: usize, location: Location) -> Inst {
    let new = function.new_inst(Op::Machine(opcode), Symbols::new(), None, operands, results);
    function.insts[new].location = location;
    new
}

/// Returns whether a target has an encoding for an instruction.
fn encodes(text: &str, target: Target) -> bool {
    oriole_isa::parse(text).is_ok_and(|instruction| oriole_isa::encode(&instruction, target).is_ok())
}
