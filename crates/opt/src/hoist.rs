//! Loop-invariant code motion.
//!
//! An instruction in a loop whose sources do not change in the loop computes the same results in every iteration. It is moved to the block
//! before the loop:
//!
//! ```text
//! bb0:  BRA bb1                                     bb0:  %2 = IMAD %n, 0xc, %b
//! bb1:  %2 = IMAD %n, 0xc, %b                             %3 = LDS [%2]
//!       %3 = LDS [%2]                     becomes         BRA bb1
//!       %s = FADD %t, %3                            bb1:  %s = FADD %t, %3
//!       @%p BRA bb1                                       @%p BRA bb1
//! ```
//!
//! - Instructions without side effects are moved even if some iterations do not execute them; they cannot fault. Loads of a constant are
//!   moved only if another moved instruction reads them, because later passes turn constants into operands.
//! - A load moves if every execution of the loop executes it, and if the loop is a counted loop that writes no memory and waits for no
//!   other thread. A loop that is not counted may wait for another thread to change the memory.
//! - A broadcast, `SHFL.IDX` of a fixed lane among all threads of the warp, is moved with its `WARPSYNC` if it is in the first block of the
//!   loop: the threads that enter the loop execute it next.
//!
//! A floating-point sum that moves may not be contracted with a product any more (`contract.rs`): ptxas contracts before it moves computations,
//! so a product of the block before the loop is not joined with a sum of the loop.
//!
//! The results stay in registers during the whole loop, so their number is limited ([`MAX_HOISTED_REGISTERS`]).
//!
//! **Before** and **after**: SSA. A loop is left as it is unless it is entered from a single block that has no other successor.

use oriole_ir::analysis::{ControlFlow, Dominators, LoopId, Loops, is_broadcast};
use oriole_ir::{Block, Function, Inst, Op, Order, Pseudo, RegFile, Role, Space, Target, Value};
use oriole_isa::{Effect, Opcode, Symbol};
use oriole_support::Index;

use crate::definitions::Definitions;
use crate::loop_analyses::LoopAnalyses;
use crate::merge::{is_constant_load, is_pure};
use crate::unroll::bound::LoopBound;
use crate::unroll::shape::{UnrollableLoop, layout_positions};

/// Maximum number of registers that the results of the instructions moved out of one loop occupy.
const MAX_HOISTED_REGISTERS: usize = 24;

/// Numbers of changes that the pass made to a function.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Number of instructions without side effects that were moved.
    pub computations: usize,
    /// Number of loads that were moved.
    pub loads: usize,
}

/// Moves loop-invariant instructions out of the loops of a function.
pub fn run(function: &mut Function, _target: Target) -> Stats {
    let mut stats = Stats::default();
    let Some(analyses) = LoopAnalyses::compute(function) else { return stats };
    let LoopAnalyses { flow, loops, dominators } = &analyses;
    let definitions = Definitions::compute(function);
    let mut inst_blocks: Vec<Option<Block>> = vec![None; function.insts.len()];
    for &block in &function.layout {
        function.blocks[block].insts.iter().for_each(|inst| inst_blocks[inst.position()] = Some(block));
    }
    let positions = layout_positions(function);
    // Inner loops first: instructions moved out of an inner loop may be invariant in the outer one as well.
    for id in loops.iter().rev() {
        let Some(before) = preheader(function, flow, loops, id) else { continue };
        let has_loads = may_hoist_loads(function, flow, loops, id);
        let counts = || {
            let old_loop = UnrollableLoop::find(function, &analyses, id, &positions)?;
            LoopBound::find(function, &definitions, &old_loop)
        };
        let moves_loads = has_loads && counts().is_some();
        let mut selection =
            HoistSelection { loops, id, definitions: &definitions, inst_blocks: &mut inst_blocks, chosen: Vec::new(), registers: 0 };
        let mut members: Vec<Block> = loops.blocks(id).to_vec();
        members.sort_unstable_by_key(|&block| flow.position(block));
        for &block in &members {
            let is_executed = moves_loads && loop_always_executes(flow, dominators, loops, id, block);
            selection.choose_from_block(function, block, before, is_executed, &mut stats);
        }
        let chosen = selection.chosen;
        move_to_preheader(function, loops, id, before, &chosen);
    }
    stats
}

/// Returns the preheader of a loop, the only block outside the loop from which the loop is entered; `None` if there are several such
/// blocks, or if the block has another successor.
pub(crate) fn preheader(function: &Function, flow: &ControlFlow, loops: &Loops, id: LoopId) -> Option<Block> {
    let header = loops.get(id).header;
    let mut outside = flow.predecessors(header).iter().copied().filter(|&block| !loops.contains(id, block));
    let (before, None) = (outside.next()?, outside.next()) else { return None };
    let is_only = matches!(function.terminators(before), [end] if function.insts[*end].is_machine(Opcode::BRA));
    (is_only && !loops.get(id).is_irreducible && flow.successors(before) == [header]).then_some(before)
}

/// Returns whether a loop contains loads that may be moved out of it, and no instruction that prevents this: stores, exchanges between
/// threads, barriers, calls and exits.
fn may_hoist_loads(function: &Function, flow: &ControlFlow, loops: &Loops, id: LoopId) -> bool {
    let mut has_loads = false;
    for &inst in loops.blocks(id).iter().filter(|&&block| flow.is_reachable(block)).flat_map(|&block| &function.blocks[block].insts) {
        match function.insts[inst].op.effect() {
            Effect::None | Effect::State => {}
            Effect::Reads => has_loads |= is_movable_load(function, inst),
            Effect::Control if function.insts[inst].is_machine(Opcode::BRA) || function.calls_slow_path(inst) => {}
            _ => return false,
        }
    }
    has_loads
}

/// Returns whether an instruction is an unguarded weak load, which other threads cannot observe.
fn is_movable_load(function: &Function, inst: Inst) -> bool {
    let data = &function.insts[inst];
    let is_load = matches!(data.op, Op::Machine(Opcode::LDG | Opcode::LDS | Opcode::LDL | Opcode::LDC | Opcode::LD));
    let is_weak = data.memory.is_some_and(|id| {
        let access = &function.accesses[id];
        !access.volatile && access.order == Order::Weak && access.space != Space::Spill
    });
    let is_plain = function.operands(inst).iter().all(|operand| matches!(operand.role, Role::Plain | Role::Bracket(_)));
    is_load && is_weak && is_plain && data.guard.is_none()
}

/// Returns whether every execution of a loop executes `block` at least once: the block dominates every block with an edge out of the loop.
fn loop_always_executes(flow: &ControlFlow, dominators: &Dominators, loops: &Loops, id: LoopId, block: Block) -> bool {
    let leaves = |from: &Block| flow.successors(*from).iter().any(|&to| !loops.contains(id, to));
    loops.blocks(id).iter().filter(|from| leaves(from)).all(|&from| dominators.dominates(block, from))
}

/// The choice of the instructions to move out of one loop.
struct HoistSelection<'a> {
    /// The natural loops of the function.
    loops: &'a Loops,
    /// The loop to move instructions out of.
    id: LoopId,
    /// For each value, the instruction that defines it.
    definitions: &'a Definitions,
    /// For each instruction, its block, updated for chosen instructions; `None` if it is in no block.
    inst_blocks: &'a mut Vec<Option<Block>>,
    /// The instructions to move; each comes after the instructions that it depends on.
    chosen: Vec<Inst>,
    /// Number of registers that the results of the chosen instructions occupy.
    registers: usize,
}

impl HoistSelection<'_> {
    /// Chooses the instructions of `block` to move to `before`, the preheader of the loop. All blocks of the loop that dominate `block`
    /// must have been visited. `moves_loads` says whether loads of this block may be moved.
    fn choose_from_block(&mut self, function: &Function, block: Block, before: Block, moves_loads: bool, stats: &mut Stats) {
        let is_first = block == self.loops.get(self.id).header;
        for (at, &inst) in function.blocks[block].insts.iter().enumerate() {
            let synchronization = is_first.then(|| warpsync_of_broadcast(function, block, at)).flatten();
            let is_load = moves_loads && is_movable_load(function, inst);
            let is_computation = !is_load && is_pure(function, inst) && !is_constant_load(function, inst);
            let registers: usize = function.defined(inst).map(|value| usize::from(function.values[value].width)).sum();
            let is_general = function.defined(inst).all(|value| function.values[value].file == RegFile::General);
            let may_move = (is_load || is_computation) && is_general || synchronization.is_some();
            if !may_move || self.registers + registers > MAX_HOISTED_REGISTERS {
                continue;
            }
            let uses: Vec<Value> = function.used(inst).map(|part| part.value).collect();
            if uses.is_empty() || !uses.iter().all(|&value| self.is_invariant(function, value)) {
                continue;
            }
            // The instructions that load the constants which this instruction reads are moved too.
            for value in uses {
                if let Some(constant) = self.definition_in_loop(value) {
                    self.add_chosen_inst(constant, before);
                }
            }
            if let Some(synchronization) = synchronization {
                self.add_chosen_inst(synchronization, before);
            }
            self.add_chosen_inst(inst, before);
            self.registers += registers;
            if is_load { stats.loads += 1 } else { stats.computations += 1 }
        }
    }

    /// Returns the instruction that defines a value; `None` if that instruction is not in the loop.
    fn definition_in_loop(&self, value: Value) -> Option<Inst> {
        let inst = self.definitions.definition_of(value)?;
        let block = self.inst_blocks[inst.position()]?;
        self.loops.contains(self.id, block).then_some(inst)
    }

    /// Returns whether a value is defined before the loop, or is a constant whose load can be moved there.
    fn is_invariant(&self, function: &Function, value: Value) -> bool {
        self.definition_in_loop(value).is_none_or(|inst| is_constant_load(function, inst) && is_pure(function, inst))
            && self.definitions.definition_of(value).is_some()
    }

    /// Adds an instruction to the chosen ones and records `before`, the preheader, as its block.
    fn add_chosen_inst(&mut self, inst: Inst, before: Block) {
        self.inst_blocks[inst.position()] = Some(before);
        self.chosen.push(inst);
    }
}

/// If the instruction at index `at` of a block broadcasts the value of a fixed lane to the whole warp, returns the `WARPSYNC` directly
/// before it; otherwise `None`.
fn warpsync_of_broadcast(function: &Function, block: Block, at: usize) -> Option<Inst> {
    let insts = &function.blocks[block].insts;
    let (before, inst) = (insts[at.checked_sub(1)?], insts[at]);
    let is_bare = |inst: Inst| function.insts[inst].guard.is_none() && function.insts[inst].memory.is_none();
    let is_synchronization = function.insts[before].is_machine(Opcode::WARPSYNC)
        && function.insts[before].modifiers.as_slice() == [Symbol::ALL]
        && function.operands(before).is_empty();
    let is_broadcast = is_broadcast(function, inst);
    (is_broadcast && is_synchronization && is_bare(before) && is_bare(inst)).then_some(before)
}

/// Moves the chosen instructions of a loop to the end of `before`, its preheader.
fn move_to_preheader(function: &mut Function, loops: &Loops, id: LoopId, before: Block, chosen: &[Inst]) {
    if chosen.is_empty() {
        return;
    }
    let mut sorted = chosen.to_vec();
    sorted.sort_unstable();
    for &block in loops.blocks(id) {
        function.blocks[block].insts.retain(|inst| sorted.binary_search(inst).is_err());
    }
    for &inst in chosen {
        let data = &mut function.insts[inst];
        let is_sum = matches!(data.op, Op::Machine(Opcode::FADD | Opcode::DADD | Opcode::HADD2 | Opcode::FADD2));
        data.may_contract &= !is_sum;
    }
    let at = function.blocks[before].insts.len() - 1;
    debug_assert!(!function.insts[function.blocks[before].insts[at]].is(Pseudo::Phi));
    function.blocks[before].insts.splice(at..at, chosen.iter().copied());
}
