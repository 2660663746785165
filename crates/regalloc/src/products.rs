//! Prepares the code around the asynchronous matrix products of a warpgroup (`wgmma`) for the allocator.
//!
//! A matrix-multiply instruction such as `HGMMA` (a *product* here) runs asynchronously: it reads its operand registers until
//! `WARPGROUP.DEPBAR` waits for it, and every ordinary access to them has to come before the `WARPGROUP.ARRIVE` before the product. Where
//! the allocated code violates this, `settle-products` inserts waits and fences, which cost time. Two changes avoid most of them:
//!
//! - a `PACK` that creates an operand of a product is moved before the `WARPGROUP.ARRIVE`, so that its moves, if any, come before the
//!   fence;
//! - a `KEEP` before the wait, or at the end of the block, extends the live ranges of the operands, so that their registers are not reused
//!   while the product reads them. A value whose only remaining use is a `KEEP` is dropped without a spill store if registers are scarce.
//!
//! ```text
//! WARPGROUP.ARRIVE                                 %5:R4 = PACK %1, %2, %3, %4
//! %5:R4 = PACK %1, %2, %3, %4                      WARPGROUP.ARRIVE
//! %6:R32 = HGMMA %5, gdesc[%7], (else %8), UPT     %6:R32 = HGMMA %5, gdesc[%7], (else %8), UPT
//! WARPGROUP.DEPBAR.LE gsb0, 0x0                    KEEP %5
//!                                                  WARPGROUP.DEPBAR.LE gsb0, 0x0
//! ```

use oriole_ir::{Block, Function, Inst, Op, Opcode, Operand, Pseudo, RegFile, Role, Value};
use oriole_isa::Symbols;
use rustc_hash::FxHashSet;

/// Prepares all blocks with asynchronous matrix products; see the module description.
pub(crate) fn run(function: &mut Function) {
    for block in function.layout.clone() {
        if function.blocks[block].insts.iter().any(|&inst| function.is_warpgroup_product(inst)) {
            hoist_packs(function, block);
            keep_operands(function, block);
        }
    }
}

/// Returns whether an instruction is an empty product, which ends a group of products.
pub(crate) fn is_group_end(function: &Function, inst: Inst) -> bool {
    function.is_warpgroup_product(inst) && function.defined(inst).next().is_none()
}

/// Returns the values in general registers that a product reads. The accumulator is among them if `with_accumulator` is true.
fn product_operands(function: &Function, inst: Inst, with_accumulator: bool) -> impl Iterator<Item = Value> + '_ {
    let is_wanted = move |operand: &&Operand| with_accumulator || !matches!(operand.role, Role::Tied(_));
    let values = function.sources(inst).iter().filter(is_wanted).filter_map(Operand::value);
    values.filter(|&value| function.values[value].file == RegFile::General)
}

/// Returns the number of product groups that may still be running after an instruction, a `WARPGROUP.DEPBAR`; `None` for other
/// instructions.
pub(crate) fn pending_groups(function: &Function, inst: Inst) -> Option<i64> {
    let is_group = function.insts[inst].is_machine(Opcode::WARPGROUP);
    function.sources(inst).iter().filter(|_| is_group).find_map(Operand::integer)
}

/// Moves each pack that creates an operand of a product before the last fence before it, if its sources are defined there.
fn hoist_packs(function: &mut Function, block: Block) {
    let insts = std::mem::take(&mut function.blocks[block].insts);
    let products = insts.iter().copied().filter(|&inst| function.is_warpgroup_product(inst));
    let wanted: FxHashSet<Value> = products.flat_map(|inst| product_operands(function, inst, true)).collect();
    let mut kept: Vec<Inst> = Vec::with_capacity(insts.len());
    // The fence and the instructions after it, and the values that they define.
    let mut after_fence: Vec<Inst> = Vec::new();
    let mut defined: FxHashSet<Value> = FxHashSet::default();
    for inst in insts {
        let is_fence = function.insts[inst].is_machine(Opcode::WARPGROUP) && pending_groups(function, inst).is_none();
        if is_fence || pending_groups(function, inst).is_some() {
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

/// Extends the live ranges of the operands of products to the wait that ends the products, or to the end of the block.
fn keep_operands(function: &mut Function, block: Block) {
    let first_terminator = function.terminators(block).first().copied();
    let insts = std::mem::take(&mut function.blocks[block].insts);
    let mut kept = Vec::with_capacity(insts.len() + 1);
    // The operands of running products, each with the number of groups that have ended since its last product began.
    let mut running: Vec<(Operand, i64)> = Vec::new();
    for inst in insts {
        let pending = if Some(inst) == first_terminator { Some(-1) } else { pending_groups(function, inst) };
        if let Some(pending) = pending {
            let (ended, others): (Vec<(Operand, i64)>, _) = running.into_iter().partition(|&(_, groups)| groups > pending);
            running = others;
            let ended: Vec<Operand> = ended.into_iter().map(|(operand, _)| operand).collect();
            if !ended.is_empty() {
                let keep = function.new_inst(Op::Pseudo(Pseudo::Keep), Symbols::new(), None, &ended, 0);
                function.insts[keep].location = function.insts[inst].location;
                kept.push(keep);
            }
        }
        if is_group_end(function, inst) {
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
}
