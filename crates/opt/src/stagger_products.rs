//! Staggers the matrix products of a warpgroup (`wgmma`) and the code that reads their results.
//!
//! A program often starts several products at once, waits for all of them, computes with the results, and starts the next products, each
//! time for all rows of the matrix. Then the tensor cores are idle while the warps compute, and all accumulators are live together. The
//! rows of different accumulators are independent, so this pass divides such a *step* in two. The example is attention with two
//! accumulators, `S0` and `S1`, whose exponentials `P0` and `P1` are the operands of the products that follow:
//!
//! ```text
//! ARRIVE                            ARRIVE                            ARRIVE
//! S0 = HGMMA ..                     S0 = HGMMA .., end of group       S0 = HGMMA .., end of group
//! S1 = HGMMA .., end of group       S1 = HGMMA .., end of group       DEPBAR.LE 0
//! DEPBAR.LE 0                       DEPBAR.LE 1                       P0 = EX2 S0
//! P0 = EX2 S0                       P0 = EX2 S0                       ARRIVE
//! P1 = EX2 S1                       ARRIVE                            S1 = HGMMA .., end of group
//! ARRIVE                            O0 = HGMMA P0, .., end of group   O0 = HGMMA P0, .., end of group
//! O0 = HGMMA P0, ..                 DEPBAR.LE 1                       DEPBAR.LE 1
//! O1 = HGMMA P1, .., end of group   P1 = EX2 S1                       P1 = EX2 S1
//!                                   ARRIVE                            ARRIVE
//!                                   O1 = HGMMA P1, .., end of group   O1 = HGMMA P1, .., end of group
//! original                          enough registers                  few registers
//! ```
//!
//! The products of `S1` now run while `P0` is computed, and those of `O0` while `P1` is computed. If `S0` and `S1` do not fit into the
//! registers together, `S1` starts when `P0` is complete. ptxas makes every product wait for the one before it in that case.
//!
//! **Conditions.** All instructions between the first fence and the second group are products, arithmetic or shuffles: nothing that
//! accesses memory or waits moves relative to a product. Every `WARPGROUP.DEPBAR` of the function waits for all groups: one that leaves a
//! number of groups pending would have to be changed, because the pass adds groups.
//!
//! **Before and after**: SSA values, the order in which the program was written. **Cost**: linear in the size of the function.

use oriole_ir::analysis::{ControlFlow, Liveness};
use oriole_ir::{Block, Function, Inst, Operand, Pseudo, RegFile, Value};
use oriole_isa::{Effect, Opcode};
use oriole_support::IndexVec;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::settle_products::{is_last_of_group, new_group_end, new_group_wait, new_product_fence, pending_groups_of_wait};

/// Number of general registers that must stay free, in addition to those live at the wait of a step, for two groups of matrix products to
/// run at the same time.
const SPARE_REGISTERS: u32 = 8;

/// Staggers the matrix products of a function that may use `register_limit` general registers: divides *steps* (a group of products, the
/// wait for it, the code that reads the results, and the next group) in two. Returns the number of steps that were divided.
pub fn run(function: &mut Function, register_limit: u32) -> usize {
    let insts = || function.layout.iter().flat_map(|&block| &function.blocks[block].insts).copied();
    let mut waits = insts().filter(|&inst| function.insts[inst].is_machine(Opcode::WARPGROUP)).peekable();
    if waits.peek().is_none() || !waits.all(|inst| pending_groups_of_wait(function, inst).is_none_or(|pending| pending == 0)) {
        return 0;
    }
    let has_fence = |&block: &Block| function.blocks[block].insts.iter().any(|&inst| is_warpgroup_fence(function, inst));
    let blocks: Vec<Block> = function.layout.iter().copied().filter(has_fence).collect();
    let mut facts = UsesAndLiveness { use_counts: use_counts(function), liveness: None };
    blocks.into_iter().map(|block| stagger_products_in_block(function, block, register_limit, &mut facts)).sum()
}

/// Analyses of the whole function. They stay valid when a step is divided: the new instructions use no values, and no instruction leaves
/// its block.
struct UsesAndLiveness {
    /// For each value, the number of operands and guards that read it.
    use_counts: IndexVec<Value, u32>,
    /// The live values of the general register file; `None` until they are first needed.
    liveness: Option<Liveness>,
}

/// Returns, for each value, the number of operands and guards that read it.
fn use_counts(function: &Function) -> IndexVec<Value, u32> {
    let mut counts = IndexVec::filled(function.values.len(), 0);
    for &inst in function.layout.iter().flat_map(|&block| &function.blocks[block].insts) {
        function.used(inst).for_each(|part| counts[part.value] += 1);
    }
    counts
}

/// Divides steps of matrix products of a block in two where possible. Returns the number of steps that were divided.
fn stagger_products_in_block(function: &mut Function, block: Block, register_limit: u32, facts: &mut UsesAndLiveness) -> usize {
    let insts = function.blocks[block].insts.clone();
    let mut live: Option<FxHashMap<Inst, u32>> = None;
    // The instructions of the old list before index `copied` are in the new list.
    let (mut new_insts, mut copied) = (Vec::with_capacity(insts.len()), 0);
    let (mut start, mut divided) = (0, 0);
    while let Some(step) = StaggerStep::find(function, &insts, start) {
        start = step.end;
        let Some(parts) = step.divide_by_accumulator(function) else { continue };
        let live = live.get_or_insert_with(|| live_registers_at_waits(function, block, &mut facts.liveness));
        let has_registers = live[&insts[step.wait]] + SPARE_REGISTERS <= register_limit;
        new_insts.extend(&insts[copied..=parts.last_of_first]);
        step.append_staggered(function, parts, has_registers, &facts.use_counts, &mut new_insts);
        copied = step.second_end.unwrap_or(step.end);
        start = copied;
        divided += 1;
    }
    if divided > 0 {
        new_insts.extend(&insts[copied..]);
        function.blocks[block].insts = new_insts;
    }
    divided
}

/// Returns the number of general registers that are live after each `WARPGROUP` instruction (wait or fence) of a block.
fn live_registers_at_waits(function: &Function, block: Block, liveness: &mut Option<Liveness>) -> FxHashMap<Inst, u32> {
    let is_general = |value: Value| function.values[value].file == RegFile::General;
    let liveness = liveness.get_or_insert_with(|| Liveness::compute_for(function, &ControlFlow::compute(function), is_general));
    let width = |value: Value| u32::from(function.values[value].width);
    let mut live: FxHashSet<Value> = liveness.live_out(block).iter().copied().collect();
    let mut registers: u32 = live.iter().map(|&value| width(value)).sum();
    let mut found = FxHashMap::default();
    for &inst in function.blocks[block].insts.iter().rev().filter(|&&inst| !function.insts[inst].is(Pseudo::Phi)) {
        if function.insts[inst].is_machine(Opcode::WARPGROUP) {
            found.insert(inst, registers);
        }
        for value in function.defined(inst) {
            registers -= if live.remove(&value) { width(value) } else { 0 };
        }
        for part in function.used(inst).filter(|part| is_general(part.value)) {
            registers += if live.insert(part.value) { width(part.value) } else { 0 };
        }
    }
    found
}

/// Returns whether an instruction may be reordered with matrix products: it accesses no memory, and neither waits nor transfers control.
fn may_reorder_with_products(function: &Function, inst: Inst) -> bool {
    let data = &function.insts[inst];
    data.memory.is_none() && !data.is(Pseudo::Phi) && matches!(data.op.effect(), Effect::None | Effect::Lanes)
}

/// Returns whether an instruction is a fence for matrix products, `WARPGROUP.ARRIVE`.
fn is_warpgroup_fence(function: &Function, inst: Inst) -> bool {
    function.insts[inst].is_machine(Opcode::WARPGROUP) && pending_groups_of_wait(function, inst).is_none()
}

/// Returns whether an instruction is an empty matrix product that ends a group of products.
fn is_product_group_end(function: &Function, inst: Inst) -> bool {
    function.is_warpgroup_product(inst) && is_last_of_group(function, inst) && function.defined(inst).next().is_none()
}

/// Returns the position of the first instruction at or after `start` for which `ends` holds; `None` if there is none, or if `continues`
/// does not hold for an instruction before it.
fn find_end_if_all_continue(insts: &[Inst], start: usize, continues: impl Fn(Inst) -> bool, ends: impl Fn(Inst) -> bool) -> Option<usize> {
    let found = insts.iter().skip(start).position(|&inst| ends(inst) || !continues(inst))? + start;
    ends(insts[found]).then_some(found)
}

/// A group of asynchronous matrix products, the wait for it, the code that reads the results, and the next group. All positions are indices
/// in `insts`.
struct StaggerStep<'a> {
    /// The instructions of the block.
    insts: &'a [Inst],
    /// Position of the fence before the first group.
    fence: usize,
    /// Position of the end of the first group.
    group_end: usize,
    /// Position of the wait for the first group.
    wait: usize,
    /// Position of the first instruction after the wait that may not be reordered; it is the fence of the second group if there is one.
    end: usize,
    /// Position of the end of the second group; `None` if no second group follows.
    second_end: Option<usize>,
}

/// The instructions of a step, divided into two parts by the accumulators that they depend on.
struct DividedStep {
    /// Position of the last matrix product of the first part.
    last_of_first: usize,
    /// The instructions after the wait that do not depend on the matrix products of the second part.
    first_readers: Vec<Inst>,
    /// The instructions after the wait that depend on the matrix products of the second part.
    second_readers: Vec<Inst>,
    /// The instructions of the second group that do not depend on the second part: matrix products and the code before them. May be empty.
    early_products: Vec<Inst>,
    /// The other instructions of the second group.
    late_products: Vec<Inst>,
}

impl<'a> StaggerStep<'a> {
    /// Finds the next step of a block at or after position `start`; `insts` is the instructions of the block.
    fn find(function: &Function, insts: &'a [Inst], start: usize) -> Option<StaggerStep<'a>> {
        let is_group_part = |inst: Inst| {
            may_reorder_with_products(function, inst) || function.is_warpgroup_product(inst) && !is_last_of_group(function, inst)
        };
        let is_end = |inst: Inst| is_product_group_end(function, inst);
        for fence in (start..insts.len()).filter(|&at| is_warpgroup_fence(function, insts[at])) {
            let Some(group_end) = find_end_if_all_continue(insts, fence + 1, is_group_part, is_end) else { continue };
            let is_wait =
                |inst: Inst| function.insts[inst].is_machine(Opcode::WARPGROUP) && pending_groups_of_wait(function, inst).is_some();
            let Some(wait) = find_end_if_all_continue(insts, group_end + 1, |inst| may_reorder_with_products(function, inst), is_wait)
            else {
                continue;
            };
            let end = (wait + 1..insts.len()).find(|&at| !may_reorder_with_products(function, insts[at]))?;
            let second_end = if is_warpgroup_fence(function, insts[end]) {
                find_end_if_all_continue(insts, end + 1, is_group_part, is_end)
            } else {
                None
            };
            return Some(StaggerStep { insts, fence, group_end, wait, end, second_end });
        }
        None
    }

    /// Divides the instructions of the step by the accumulators that they depend on. `None` if all products of the first group have the
    /// same accumulator, or if no code after the wait depends on only one of the parts.
    fn divide_by_accumulator(&self, function: &Function) -> Option<DividedStep> {
        let last_of_first = last_product_of_first_chain(function, self.insts, self.fence + 1..self.group_end)?;
        let mut first = ProductDependents::of(function, &self.insts[self.fence + 1..=last_of_first]);
        let second_products =
            self.insts[last_of_first + 1..self.group_end].iter().copied().filter(|&inst| function.is_warpgroup_product(inst));
        let mut second = ProductDependents(second_products.flat_map(|inst| function.defined(inst)).collect());
        // The other instructions of the group prepare descriptors. If one of them read the result of a product, it could not be moved
        // before that product.
        let others = self.insts[last_of_first + 1..self.group_end].iter().filter(|&&inst| !function.is_warpgroup_product(inst));
        if others.flat_map(|&inst| function.used(inst)).any(|part| second.0.contains(&part.value) || first.0.contains(&part.value)) {
            return None;
        }
        let (mut first_readers, mut second_readers) = (Vec::new(), Vec::new());
        let mut reads_first = false;
        for &inst in &self.insts[self.wait + 1..self.end] {
            if second.add_dependent(function, inst) {
                second_readers.push(inst);
            } else {
                reads_first |= first.add_dependent(function, inst);
                first_readers.push(inst);
            }
        }
        if !reads_first || second_readers.is_empty() {
            return None;
        }
        let (mut early_products, mut late_products) = (Vec::new(), Vec::new());
        if let Some(second_end) = self.second_end {
            let range = self.end + 1..second_end;
            let last_early = last_product_of_first_chain(function, self.insts, range.clone());
            for at in range {
                let inst = self.insts[at];
                if !second.add_dependent(function, inst) && last_early.is_some_and(|last| at <= last) {
                    early_products.push(inst);
                } else {
                    late_products.push(inst);
                }
            }
            // All products with the first accumulator have to be early: products of one accumulator stay together.
            let is_whole = last_early.is_some_and(|last| early_products.contains(&self.insts[last]));
            let is_started = early_products.iter().any(|&inst| function.is_warpgroup_product(inst));
            if !is_whole || !is_started {
                early_products.clear();
                late_products = self.insts[self.end + 1..second_end].to_vec();
            }
        }
        Some(DividedStep { last_of_first, first_readers, second_readers, early_products, late_products })
    }

    /// Appends the divided step to `insts`, starting after the last matrix product of the first part, and ending before the end of the
    /// second group or, if there is no second group, at the end of the step. `has_registers` says whether both parts of the first group may
    /// run at the same time.
    fn append_staggered(
        &self,
        function: &mut Function,
        parts: DividedStep,
        has_registers: bool,
        use_counts: &IndexVec<Value, u32>,
        insts: &mut Vec<Inst>,
    ) {
        let moved = &self.insts[parts.last_of_first + 1..self.group_end];
        let location_of = |function: &Function, at: usize| function.insts[self.insts[at]].location;
        let (group_location, wait_location) = (location_of(function, self.group_end), location_of(function, self.wait));
        let new_end = |function: &mut Function| {
            let inst = new_group_end(function);
            function.insts[inst].location = group_location;
            inst
        };
        let new_arrive = |function: &mut Function| {
            let inst = new_product_fence(function);
            function.insts[inst].location = wait_location;
            inst
        };
        let new_depbar = |function: &mut Function, pending: u8| {
            let inst = new_group_wait(function, pending);
            function.insts[inst].location = wait_location;
            inst
        };
        let before_wait = &self.insts[self.group_end + 1..self.wait];
        if has_registers {
            insts.push(self.insts[self.group_end]);
            insts.extend(moved);
            insts.push(new_end(function));
            insts.extend(before_wait);
            insts.push(new_depbar(function, 1));
            insts.extend(&parts.first_readers);
        } else {
            let (stays, moves) = split_staying_and_moving(function, moved, use_counts);
            insts.extend(stays);
            insts.push(self.insts[self.group_end]);
            insts.extend(before_wait);
            insts.push(new_depbar(function, 0));
            insts.extend(&parts.first_readers);
            insts.push(new_arrive(function));
            insts.extend(moves);
            insts.push(new_end(function));
        }
        let has_early_products = !parts.early_products.is_empty();
        if has_early_products {
            insts.push(new_arrive(function));
            insts.extend(&parts.early_products);
            insts.push(new_end(function));
        }
        insts.push(new_depbar(function, u8::from(has_early_products)));
        insts.extend(&parts.second_readers);
        if self.second_end.is_some() {
            insts.push(self.insts[self.end]);
            insts.extend(&parts.late_products);
        }
    }
}

/// Divides `moved`, the instructions of the second part of the first group, into those that stay in place, because other code reads their
/// results, and those that move with the products. `use_counts` has the number of reads of each value in the function.
fn split_staying_and_moving(function: &Function, moved: &[Inst], use_counts: &IndexVec<Value, u32>) -> (Vec<Inst>, Vec<Inst>) {
    let mut own_uses: FxHashMap<Value, u32> = FxHashMap::default();
    moved.iter().flat_map(|&inst| function.used(inst)).for_each(|part| *own_uses.entry(part.value).or_default() += 1);
    let is_read_elsewhere = |value: Value| use_counts[value] > own_uses.get(&value).copied().unwrap_or(0);
    // The values that instructions which stay in place read.
    let mut needed: FxHashSet<Value> = FxHashSet::default();
    let mut stays: FxHashSet<Inst> = FxHashSet::default();
    for &inst in moved.iter().rev().filter(|&&inst| !function.is_warpgroup_product(inst)) {
        if function.defined(inst).any(|value| needed.contains(&value) || is_read_elsewhere(value)) {
            needed.extend(function.used(inst).map(|part| part.value));
            stays.insert(inst);
        }
    }
    moved.iter().partition(|inst| stays.contains(inst))
}

/// The values that depend on certain matrix products.
struct ProductDependents(FxHashSet<Value>);

impl ProductDependents {
    /// Returns the set of the results of all matrix products in a list of instructions.
    fn of(function: &Function, insts: &[Inst]) -> ProductDependents {
        let products = insts.iter().copied().filter(|&inst| function.is_warpgroup_product(inst));
        ProductDependents(products.flat_map(|inst| function.defined(inst)).collect())
    }

    /// Returns whether an instruction depends on the matrix products. Adds its results to the set if it does.
    fn add_dependent(&mut self, function: &Function, inst: Inst) -> bool {
        let depends = function.used(inst).any(|part| self.0.contains(&part.value));
        if depends {
            self.0.extend(function.defined(inst));
        }
        depends
    }
}

/// Returns the position of the last matrix product in a range that has the same accumulator as the first product. `None` if all products
/// have this accumulator, or if a product with another accumulator comes between them.
fn last_product_of_first_chain(function: &Function, insts: &[Inst], range: std::ops::Range<usize>) -> Option<usize> {
    // Maps each result of a product to the number of its chain, the products with the same accumulator.
    let mut chains: FxHashMap<Value, usize> = FxHashMap::default();
    let (mut count, mut last, mut has_others) = (0, None, false);
    for at in range {
        let inst = insts[at];
        if !function.is_warpgroup_product(inst) {
            continue;
        }
        let known = function.tied_to(inst, 0).and_then(Operand::value).and_then(|value| chains.get(&value).copied());
        let chain = known.unwrap_or_else(|| {
            count += 1;
            count - 1
        });
        chains.extend(function.defined(inst).map(|value| (value, chain)));
        if chain == 0 && has_others {
            return None;
        }
        has_others |= chain > 0;
        last = if chain == 0 { Some(at) } else { last };
    }
    last.filter(|_| has_others)
}
