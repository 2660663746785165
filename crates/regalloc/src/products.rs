//! Prepares the code around the asynchronous matrix products of a warpgroup (`wgmma`) for the allocator.
//!
//! A matrix-multiply instruction such as `HGMMA` (a *product* here) runs asynchronously: it reads its operand registers until
//! `WARPGROUP.DEPBAR` waits for it, and every ordinary access to them has to come before the `WARPGROUP.ARRIVE` that precedes the product.
//! Where the allocated code violates this, `settle-products` inserts waits and fences, which cost time. Two changes avoid most of them:
//!
//! - a `PACK` that creates an operand of a product is moved before the `WARPGROUP.ARRIVE`, so that its moves, if any, come before the
//!   fence;
//! - a `KEEP` (a pseudo operation that reads values) extends the live ranges of the operands to the wait, so that their registers are not
//!   reused while the product reads them. If the wait is in a later block, there is a `KEEP` at the end of the block of the product. If
//!   registers are free, there is also one at the end of each block up to the wait that this block dominates. A value whose only remaining
//!   use is a `KEEP` is dropped without a spill store if registers are scarce.
//!
//! ```text
//! WARPGROUP.ARRIVE                                 %5:R4 = PACK %1, %2, %3, %4
//! %5:R4 = PACK %1, %2, %3, %4                      WARPGROUP.ARRIVE
//! %6:R32 = HGMMA %5, gdesc[%7], (else %8), UPT     %6:R32 = HGMMA %5, gdesc[%7], (else %8), UPT
//! WARPGROUP.DEPBAR.LE gsb0, 0x0                    KEEP %5
//!                                                  WARPGROUP.DEPBAR.LE gsb0, 0x0
//! ```

use oriole_ir::analysis::{ControlFlow, Dominators, Loops};
use oriole_ir::{Block, Function, Inst, Op, Opcode, Operand, Pseudo, RegFile, Role, Value};
use oriole_isa::Symbols;
use rustc_hash::FxHashSet;

use crate::environment::AllocationEnvironment;
use crate::operands::operand_width;
use crate::pressure::general_register_pressure;
use crate::registers::RegisterSet;

/// Number of general registers that must stay free in the loop around an asynchronous matrix product and in the blocks up to the wait for
/// it; with fewer, its operands are kept in registers only up to the end of its own block.
const MIN_FREE_REGISTERS_TO_KEEP: u32 = 16;
/// Maximum number of blocks after the block of a matrix product in which the operands of the product are kept in registers, because it may
/// still be running.
const MAX_BLOCKS_KEEPING_OPERANDS: usize = 16;

/// Moves packs and extends live ranges around asynchronous matrix products in all blocks; see the module description.
pub(crate) fn run(function: &mut Function, env: &AllocationEnvironment) {
    let mut running_at_end: Vec<(Block, Vec<Operand>)> = Vec::new();
    for block in function.layout.clone() {
        if function.blocks[block].insts.iter().any(|&inst| function.is_warpgroup_product(inst)) {
            move_packs_before_fence(function, block);
            let running = keep_product_operands_live(function, block);
            if !running.is_empty() {
                running_at_end.push((block, running));
            }
        }
    }
    if !running_at_end.is_empty() {
        let flow = ControlFlow::compute(function);
        let dominators = Dominators::compute(function, &flow);
        let loops = Loops::compute(function, &flow);
        let pressure = general_register_pressure(function, &flow);
        let usable = env.usable_registers(RegFile::General);
        let limits = env.block_limits(function, &flow);
        let usable_in = |block: Block| usable.and(&RegisterSet::first_n(limits.limit_of(block))).count();
        for (block, running) in running_at_end {
            let width: u32 = running.iter().map(|operand| u32::from(operand_width(operand))).sum();
            let later = blocks_up_to_wait(function, &flow, &dominators, block);
            let around = loops.innermost(block).map_or(&[][..], |around| loops.blocks(around));
            let is_roomy = |inside: Block, kept: u32| pressure[inside] + kept + MIN_FREE_REGISTERS_TO_KEEP <= usable_in(inside);
            if later.iter().all(|&(inside, _)| is_roomy(inside, width)) && around.iter().all(|&inside| is_roomy(inside, 0)) {
                later.into_iter().for_each(|(inside, wait)| insert_keep(function, inside, wait, &running));
            }
        }
    }
}

/// Returns the position in a block of the first wait after which no matrix product from before the block runs: a wait that allows at most
/// as many unfinished product groups as were closed in the block before it. Returns the number of instructions if there is no such wait.
pub(crate) fn first_wait_for_all_products(function: &Function, insts: &[Inst]) -> usize {
    let mut groups = 0;
    let is_full_wait = |&inst: &Inst| {
        groups += i64::from(is_product_group_end(function, inst));
        max_pending_product_groups(function, inst).is_some_and(|pending| pending <= groups)
    };
    insts.iter().position(is_full_wait).unwrap_or(insts.len())
}

/// Returns the blocks after `block` that it dominates, at most [`MAX_BLOCKS_KEEPING_OPERANDS`], up to the first wait for the matrix
/// products that run at the end of `block`. Each comes with the position of the wait or, without one, of the first terminator. A `KEEP` is
/// to be inserted at all these positions, so that it is the next use of the operands on every path.
fn blocks_up_to_wait(function: &Function, flow: &ControlFlow, dominators: &Dominators, block: Block) -> Vec<(Block, usize)> {
    let mut found: Vec<(Block, usize)> = Vec::new();
    // Blocks at whose end the matrix products still run and whose successors are not visited yet.
    let mut open = vec![block];
    while let Some(before) = open.pop() {
        for &later in flow.successors(before) {
            let is_known = later == block || found.iter().any(|&(known, _)| known == later);
            if is_known || found.len() == MAX_BLOCKS_KEEPING_OPERANDS || !dominators.dominates(block, later) {
                continue;
            }
            let insts = &function.blocks[later].insts;
            let end = insts.len() - function.terminators(later).len();
            let wait = first_wait_for_all_products(function, insts).min(end);
            found.push((later, wait));
            if wait == end {
                open.push(later);
            }
        }
    }
    found
}

/// Inserts a `KEEP` (a pseudo operation that extends live ranges) of the operands `running` at a position of a block, or adds them to a
/// `KEEP` directly before that position.
fn insert_keep(function: &mut Function, block: Block, position: usize, running: &[Operand]) {
    let insts = &function.blocks[block].insts;
    let last = position.checked_sub(1).map(|at| insts[at]).filter(|&inst| function.insts[inst].is(Pseudo::Keep));
    if let Some(keep) = last {
        let mut operands = function.sources(keep).to_vec();
        operands.extend(running.iter().filter(|operand| !function.sources(keep).contains(operand)));
        function.set_operands(keep, &operands, 0);
        return;
    }
    let location = insts.get(position).map(|&inst| function.insts[inst].location);
    let keep = function.new_inst(Op::Pseudo(Pseudo::Keep), Symbols::new(), None, running, 0);
    location.into_iter().for_each(|location| function.insts[keep].location = location);
    function.blocks[block].insts.insert(position, keep);
}

/// Returns whether an instruction is a matrix product without a result, which only closes a group of products that are waited for together.
pub(crate) fn is_product_group_end(function: &Function, inst: Inst) -> bool {
    function.is_warpgroup_product(inst) && function.defined(inst).next().is_none()
}

/// Returns the values in general registers that a matrix product reads. The accumulator is among them if `with_accumulator` is true.
fn product_operands(function: &Function, inst: Inst, with_accumulator: bool) -> impl Iterator<Item = Value> + '_ {
    let is_wanted = move |operand: &&Operand| with_accumulator || !matches!(operand.role, Role::Tied(_));
    let values = function.sources(inst).iter().filter(is_wanted).filter_map(Operand::value);
    values.filter(|&value| function.values[value].file == RegFile::General)
}

/// Returns the number of groups of matrix products that may still be running after a `WARPGROUP.DEPBAR`, the instruction that waits for
/// them; `None` for other instructions.
pub(crate) fn max_pending_product_groups(function: &Function, inst: Inst) -> Option<i64> {
    let is_group = function.insts[inst].is_machine(Opcode::WARPGROUP);
    function.sources(inst).iter().filter(|_| is_group).find_map(Operand::integer)
}

/// Moves each `PACK` that builds an operand of a matrix product to before the last preceding `WARPGROUP.ARRIVE` (a fence), if its sources
/// are defined there.
fn move_packs_before_fence(function: &mut Function, block: Block) {
    let insts = std::mem::take(&mut function.blocks[block].insts);
    let products = insts.iter().copied().filter(|&inst| function.is_warpgroup_product(inst));
    let wanted: FxHashSet<Value> = products.flat_map(|inst| product_operands(function, inst, true)).collect();
    let mut kept: Vec<Inst> = Vec::with_capacity(insts.len());
    // The last `WARPGROUP.ARRIVE` (a fence) and the instructions after it, and the values that they define.
    let mut after_fence: Vec<Inst> = Vec::new();
    let mut defined: FxHashSet<Value> = FxHashSet::default();
    for inst in insts {
        let is_fence = function.insts[inst].is_machine(Opcode::WARPGROUP) && max_pending_product_groups(function, inst).is_none();
        if is_fence || max_pending_product_groups(function, inst).is_some() {
            kept.append(&mut after_fence);
            defined.clear();
        }
        let is_pack = function.insts[inst].is(Pseudo::Pack) && function.defined(inst).any(|value| wanted.contains(&value));
        let is_known = || !function.sources(inst).iter().filter_map(Operand::value).any(|value| defined.contains(&value));
        let goes_before = after_fence.is_empty() || is_pack && is_known();
        if is_fence || !goes_before {
            defined.extend(function.defined(inst));
            after_fence.push(inst);
        } else {
            kept.push(inst);
        }
    }
    kept.append(&mut after_fence);
    function.blocks[block].insts = kept;
}

/// Extends the live ranges of the operands of matrix products to the wait for the products, or to the end of the block. Returns the
/// operands of products that run at the end of the block.
fn keep_product_operands_live(function: &mut Function, block: Block) -> Vec<Operand> {
    let first_terminator = function.terminators(block).first().copied();
    let insts = std::mem::take(&mut function.blocks[block].insts);
    let mut kept = Vec::with_capacity(insts.len() + 1);
    // The operands of running matrix products, each with the number of product groups that were closed since the last product that reads
    // it.
    let mut running: Vec<(Operand, i64)> = Vec::new();
    let mut running_at_end = Vec::new();
    for inst in insts {
        let pending = if Some(inst) == first_terminator { Some(-1) } else { max_pending_product_groups(function, inst) };
        if let Some(pending) = pending {
            let (ended, others): (Vec<(Operand, i64)>, _) = running.into_iter().partition(|&(_, groups)| groups > pending);
            running = others;
            let ended: Vec<Operand> = ended.into_iter().map(|(operand, _)| operand).collect();
            if Some(inst) == first_terminator {
                running_at_end.clone_from(&ended);
            }
            if !ended.is_empty() {
                let keep = function.new_inst(Op::Pseudo(Pseudo::Keep), Symbols::new(), None, &ended, 0);
                function.insts[keep].location = function.insts[inst].location;
                kept.push(keep);
            }
        }
        if is_product_group_end(function, inst) {
            running.iter_mut().for_each(|(_, groups)| *groups += 1);
        }
        if function.is_warpgroup_product(inst) {
            for value in product_operands(function, inst, false) {
                let whole = Operand::from(function.whole(value));
                match running.iter_mut().find(|(operand, _)| *operand == whole) {
                    Some((_, groups)) => *groups = 0,
                    None => running.push((whole, 0)),
                }
            }
        }
        kept.push(inst);
    }
    function.blocks[block].insts = kept;
    running_at_end
}
