//! Synchronizes some threads of a warp only where the warp is diverged: makes a `WARPSYNC` with a constant mask conditional, and deletes
//! repeated ones.
//!
//! ```text
//! bb1:  %2:R = MOV 0xffff              bb1:  %9:UR = UMOV 0xffff
//!       WARPSYNC %2                          @PT BRA.DIV %9, bb8 ; BRA bb7
//!       rest                 becomes   bb7:  rest
//!                                      bb8:  %10:R = MOV 0xffff        (after all other blocks)
//!                                            WARPSYNC %10 ; BRA bb7
//! ```
//!
//! **Why.** A `WARPSYNC` is an illegal instruction for an active thread that is not in its mask. PTX leaves a shuffle in such a thread
//! undefined, but programs do it (`__shfl_sync(0xffff, ...)` in all 32 threads). With `BRA.DIV`, which tests whether a thread of the mask is
//! missing, it works as long as the warp is converged. The test is also faster. On an H200, in loops with
//! a shuffle, a vote, a match or a reduction, a `WARPSYNC` with a mask in a register takes 30 to 35 cycles more than `WARPSYNC.ALL` (5), and
//! `UMOV` with `BRA.DIV` 3 to 10 more.
//!
//! ptxas 13.0.88 has the same test for votes, and where a function has several shuffles, matches, reductions or barriers that threads may
//! execute together. It keeps the `WARPSYNC` of a single one, which traps as described. A `WARPSYNC` that orders memory (`bar.warp.sync`) is
//! not tested here. Operations that threads may execute together at different instructions have been replaced before (`converge/meeting.rs`).
//!
//! **Masks.** Only constants are tested. A mask in a register may differ between the threads of a warp, which one branch cannot test.
//! Before sm_80 the test is whether any thread of the warp is missing; then a part of a warp that synchronizes alone always takes the branch.
//!
//! **Repeated synchronizations.** Between two instructions of a block the active threads stay together, unless there is a call or another
//! synchronization between them. So of several synchronizations with the same mask in a block, only the first stays.

use oriole_ir::{Block, Class, Function, Inst, Operand, Part, Target, Value};
use oriole_isa::{Opcode, Symbol};

use crate::converge::{DivergedBranches, is_plain_warpsync, new_machine_inst, remove_unread_moves};
use crate::definitions::Definitions;
use crate::known::OperandFacts;

/// Numbers of changes that the pass made to a function.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Number of repeated synchronizations that were deleted.
    pub deleted: usize,
    /// Number of synchronizations that are executed only if the warp is diverged.
    pub conditional: usize,
}

/// Deletes repeated synchronizations, and makes those with constant masks conditional.
pub fn run(function: &mut Function, target: Target) -> Stats {
    let warpsyncs = all_insts(function).filter(|&inst| is_plain_warpsync(function, inst));
    let masks: Vec<Value> = warpsyncs.flat_map(|inst| function.used(inst)).map(|part| part.value).collect();
    let deleted = remove_repeated_warpsyncs(function);
    let conditional = test_before_warpsyncs(function, target);
    if deleted + conditional > 0 {
        remove_unread_moves(function, &masks);
    }
    Stats { deleted, conditional }
}

/// The threads that a `WARPSYNC` collects.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SyncMask {
    /// A constant mask.
    Constant(u32),
    /// A mask in a register, which may differ between threads.
    Register(Part),
}

impl SyncMask {
    /// Returns the mask of a `WARPSYNC`; `None` if the operand is of an unknown kind.
    fn of(function: &Function, definitions: &Definitions, inst: Inst) -> Option<SyncMask> {
        match function.sources(inst) {
            [] => (function.insts[inst].modifiers.as_slice() == [Symbol::ALL]).then_some(SyncMask::Constant(u32::MAX)),
            [mask] => match OperandFacts::new(function, definitions).word(mask) {
                Some(threads) => Some(SyncMask::Constant(threads)),
                None => mask.part().filter(|_| mask.signs.is_empty()).map(SyncMask::Register),
            },
            _ => None,
        }
    }

    /// Returns whether threads that were synchronized with this mask need no synchronization with `other`.
    fn covers(self, other: SyncMask) -> bool {
        match (self, other) {
            (SyncMask::Constant(u32::MAX), _) => true,
            (SyncMask::Constant(one), SyncMask::Constant(other)) => one & other == other,
            (SyncMask::Register(one), SyncMask::Register(other)) => one == other,
            _ => false,
        }
    }
}

/// Deletes each `WARPSYNC` of threads that an earlier one in its block has already collected. A `WARPSYNC` that orders memory stays.
/// Returns the number of instructions deleted.
fn remove_repeated_warpsyncs(function: &mut Function) -> usize {
    let is_sync = |function: &Function, inst: Inst| function.insts[inst].is_machine(Opcode::WARPSYNC);
    let count = |function: &Function, block: Block| function.blocks[block].insts.iter().filter(|&&inst| is_sync(function, inst)).count();
    let blocks: Vec<Block> = function.layout.iter().copied().filter(|&block| count(function, block) > 1).collect();
    if blocks.is_empty() {
        return 0;
    }
    let definitions = Definitions::compute(function);
    let mut deleted = 0;
    for block in blocks {
        let mut collected: Option<SyncMask> = None;
        let mut insts = std::mem::take(&mut function.blocks[block].insts);
        insts.retain(|&inst| {
            if !is_plain_warpsync(function, inst) {
                if may_separate_threads(function, inst) {
                    collected = None;
                }
                return true;
            }
            let mask = SyncMask::of(function, &definitions, inst);
            let is_repeated = matches!((collected, mask), (Some(before), Some(now)) if before.covers(now));
            if !is_repeated {
                collected = mask;
            }
            let stays = !is_repeated || function.insts[inst].memory.is_some();
            deleted += usize::from(!stays);
            stays
        });
        function.blocks[block].insts = insts;
    }
    deleted
}

/// Returns whether threads that execute an instruction together may be apart after it, although it is in the middle of a block: a call, a
/// synchronization of some threads, or an instruction that only some threads wait at.
fn may_separate_threads(function: &Function, inst: Inst) -> bool {
    let data = &function.insts[inst];
    match data.op.machine() {
        Some(Opcode::CALL | Opcode::WARPSYNC) => true,
        Some(Opcode::YIELD | Opcode::NANOSLEEP) => data.guard.is_some(),
        _ => false,
    }
}

/// Makes each `WARPSYNC` with a constant mask of some threads conditional: see the module comment. Returns the number of instructions that
/// are conditional now.
fn test_before_warpsyncs(function: &mut Function, target: Target) -> usize {
    let is_candidate = |inst: &Inst| is_plain_warpsync(function, *inst) && function.insts[*inst].memory.is_none();
    if !all_insts(function).any(|inst| is_candidate(&inst)) {
        return 0;
    }
    let definitions = Definitions::compute(function);
    let partial_mask = |inst: Inst| match SyncMask::of(function, &definitions, inst)? {
        SyncMask::Constant(mask) => (mask != u32::MAX).then_some(mask),
        SyncMask::Register(_) => None,
    };
    let mut synchronizations: Vec<Synchronization> = Vec::new();
    for &block in &function.layout {
        let insts = function.blocks[block].insts.iter().enumerate().filter(|(_, inst)| is_candidate(inst));
        synchronizations.extend(insts.filter_map(|(at, &inst)| Some(Synchronization { block, at, mask: partial_mask(inst)? })));
    }
    if synchronizations.is_empty() {
        return 0;
    }
    let count = synchronizations.len();
    let mut branches = DivergedBranches::new(function, target);
    // From the last to the first of a block: what follows the first one, with the tests in it, moves to a new block.
    for synchronization in synchronizations.into_iter().rev() {
        test_before_warpsync(function, synchronization, &mut branches);
    }
    branches.finish(function);
    count
}

/// A `WARPSYNC` with a constant mask.
#[derive(Clone, Copy)]
struct Synchronization {
    block: Block,
    /// Index of the instruction in its block.
    at: usize,
    mask: u32,
}

/// Makes one `WARPSYNC` conditional.
fn test_before_warpsync(function: &mut Function, synchronization: Synchronization, branches: &mut DivergedBranches) {
    let Synchronization { block, at, mask } = synchronization;
    let inst = function.blocks[block].insts[at];
    let location = function.insts[inst].location;
    let (apart, after) = branches.insert(function, block, at, mask, location);
    function.blocks[after].insts.remove(0);
    if function.used(inst).next().is_some() {
        // The register of the mask is loaded again, so that it is not needed where the warp is converged.
        let value = function.new_value(Class::R);
        let whole = Operand::from(function.whole(value));
        let load = new_machine_inst(function, Opcode::MOV, &[whole, i64::from(mask).into()], 1, location);
        function.set_operands(inst, &[whole], 0);
        function.blocks[apart].insts.push(load);
    }
    let back = new_machine_inst(function, Opcode::BRA, &[after.into()], 0, location);
    function.blocks[apart].insts.extend([inst, back]);
}

/// Returns the instructions of a function in layout order.
fn all_insts(function: &Function) -> impl Iterator<Item = Inst> + '_ {
    function.layout.iter().flat_map(|&block| function.blocks[block].insts.iter().copied())
}
