//! Loop unrolling.
//!
//! An innermost loop with a known, small number of iterations is replaced by one copy of its body for each iteration. If many instructions
//! become constants in the copies ([`constants`]), or many loads repeat loads of earlier iterations ([`repeated_loads`]), the body may be
//! larger. A loop that counts to a loop-invariant limit is unrolled by a
//! factor; the old loop stays as the remainder loop, for the iterations that are left:
//!
//! ```text
//! bb1:  %i = PHI %0, bb0, %j, bb1                   bb0:  %v = ISETP.GE.U32 %n, 3 ; %m = IADD3 %n, -3
//!       ... %i ...                                        %q = ISETP.LT.U32 %0, %m, %v
//!       %j = IADD3 %i, 1                                  @%q BRA bb3 ; BRA bb1
//!       %p = ISETP.LT.U32 %j, %n      becomes       bb3:  %a = PHI %0, bb0, %e, bb3
//!       @%p BRA bb1 ; BRA bb2                             ... %a ...; %b = IADD3 %a, 1 ; ... %b ...; (four times)
//!                                                         %r = ISETP.LT.U32 %e, %m
//!                                                         @%r BRA bb3 ; BRA bb4
//!                                                   bb4:  %s = ISETP.LT.U32 %e, %n
//!                                                         @%s BRA bb1 ; BRA bb2
//!                                                   bb1:  (as before)
//! ```
//!
//! If the test of the new loop holds, the next tests of the old loop hold too ([`bound`] explains why). If it does not hold, the old loop
//! continues with its own test, so nothing has to be known about the number of iterations, and a counter may wrap around. Where threads of
//! a warp may execute different numbers of iterations, they reconverge before the remainder loop ([`divergent`]).
//!
//! **Which loops.** Loops with one exit, whose body is small. A loop whose body communicates between the lanes of a warp, or has barriers,
//! fences or waiting instructions, is unrolled only if all threads of a warp execute the same number of iterations, because threads that
//! communicate must execute the same copy of the instruction. Loops with calls, exits and warpgroup products are never unrolled, except for
//! calls of the slow paths of arithmetic, which have no side effects. A loop with several texture fetches in its body is only unrolled
//! fully. A loop whose header is marked (`.pragma "nounroll"`) is not unrolled.
//!
//! **Before** and **after**: SSA, without convergence barriers. The growth of a function is limited ([`GrowthBudget`]).

use oriole_hardware::Hardware;
use oriole_ir::analysis::{PostDominators, Uniformity, remove_unreachable_blocks};
use oriole_ir::{Block, Function, Guard, Inst, Op, OperandKind, Part, Value};
use oriole_isa::{Opcode, Symbols};
use oriole_support::Index;
use rustc_hash::FxHashMap;

use crate::definitions::Definitions;
use crate::loop_analyses::LoopAnalyses;
use crate::redirect_edges::redirect_edges_outside_layout;
use crate::remarks::{Remarks, location_of_block};
use crate::straighten;
use body::LoopBodyProperties;
use copies::{
    LoopCopyMapping, add_phi_source, copy_inst, copy_loop_blocks, insert_before_terminators, redirect_branches, set_branches, set_jump,
};
use counted::CountedLoop;
use shape::{UnrollableLoop, layout_positions};
use unrolled_loop::{UnrolledLoop, remove_exit_branch, value_in_next_iteration};

mod body;
pub(crate) mod bound;
mod constants;
mod copies;
mod counted;
mod divergent;
mod repeated_loads;
pub(crate) mod shape;
mod trips;
mod unrolled_loop;
mod wide;

/// Numbers of changes that the pass made to a function.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Number of loops that were fully unrolled.
    pub fully_unrolled: usize,
    /// Number of loops that were unrolled by a factor.
    pub partially_unrolled: usize,
}

/// Maximum number of iterations of a loop that is unrolled fully.
const MAX_FULLY_UNROLLED_TRIPS: u32 = 64;

/// Maximum number of instructions of a loop that is unrolled fully, in all iterations together.
const MAX_FULLY_UNROLLED_INSTS: usize = 192;

/// Maximum numbers of iterations and of instructions of a loop that is unrolled fully because many of its instructions are then removed: at
/// least one in [`INSTS_PER_REMOVED_INST`] becomes a constant, or is a load that repeats one of an earlier iteration.
const MAX_TRIPS_WITH_REMOVED_INSTS: u32 = 16;
const MAX_INSTS_WITH_REMOVED_INSTS: usize = 1024;
const INSTS_PER_REMOVED_INST: usize = 10;

/// Maximum number of iterations to simulate for finding the number of iterations of a loop ([`trips`]).
const MAX_SIMULATED_TRIPS: u32 = 1024;

/// The unroll factors in order of preference, each with the maximum number of instructions of the unrolled body.
const UNROLL_FACTORS: [(u32, usize); 2] = [(4, 160), (2, 160)];

/// A loop with at least this many texture and surface reads in its body is not unrolled by a factor: the reads already keep the texture
/// unit busy for longer than the branch of the loop takes.
const MIN_FETCHES_TO_SKIP_UNROLLING: usize = 4;

/// Number of instructions that unrolling may add to any function. To a large function it may add a quarter of its size.
const MIN_GROWTH_BUDGET_INSTS: usize = 800;

/// How a loop is unrolled, with the number of copies of the loop body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum UnrollPlan {
    /// Fully: the loop is replaced by copies of its body, as many as the number of times that its exit condition is evaluated.
    Full(u32),
    /// By this factor, which divides the number of iterations, so that no remainder loop is needed.
    Exact(u32),
    /// By this factor; the old loop stays as the remainder loop.
    Guarded(u32),
    /// By this factor, for threads that execute different numbers of iterations: the threads reconverge before the remainder loop, which is
    /// the old loop.
    Divergent(u32),
    /// By this factor, for threads that execute different numbers of iterations: the threads reconverge before guarded copies of the body
    /// without a loop, which replace the remainder loop.
    Straight(u32),
}

impl UnrollPlan {
    /// Returns a description of the unrolling, for a remark.
    fn describe(self) -> String {
        match self {
            UnrollPlan::Full(1) => "the loop has one iteration; it was replaced by its body".to_owned(),
            UnrollPlan::Full(tests) => format!("the loop was replaced by its iterations (its condition is computed {tests} times)"),
            UnrollPlan::Exact(factor) => format!("{factor} iterations were joined into one"),
            UnrollPlan::Guarded(factor) | UnrollPlan::Divergent(factor) => {
                format!("{factor} iterations were joined into one; the old loop executes the rest")
            }
            UnrollPlan::Straight(factor) => {
                format!("{factor} iterations were joined into one; guarded copies of the body execute the rest")
            }
        }
    }
}

/// Name of the pass in remarks.
const PASS_NAME: &str = "unroll";

/// Unrolls the loops of a function.
pub fn run(function: &mut Function, hardware: &Hardware<'_>) -> Stats {
    run_and_record_remarks(function, hardware, &mut Remarks::default())
}

/// Unrolls the loops of a function, and records for each loop how it was unrolled, or why it was not.
pub fn run_and_record_remarks(function: &mut Function, hardware: &Hardware<'_>, remarks: &mut Remarks) -> Stats {
    let chosen = choose_loops_to_unroll(function, hardware.costs.taken_branch as usize, remarks);
    let mut stats = Stats::default();
    if chosen.is_empty() {
        return stats;
    }
    let shapes = isolate_loops(function, chosen);
    let definitions = Definitions::compute(function);
    // For each unrolled loop: the header of the old loop, and the new blocks to insert before it in the layout.
    let mut new_blocks: Vec<(Block, Vec<Block>)> = Vec::new();
    for (old_loop, plan) in &shapes {
        let blocks = match plan {
            UnrollPlan::Full(tests) => unroll_fully(function, old_loop, *tests),
            UnrollPlan::Exact(factor) => unroll_by_divisor(function, old_loop, *factor),
            UnrollPlan::Guarded(factor) => unroll_with_remainder(function, &definitions, old_loop, *factor),
            UnrollPlan::Divergent(factor) => divergent::unroll_divergent_loop(function, &definitions, old_loop, (*factor, false)),
            UnrollPlan::Straight(factor) => divergent::unroll_divergent_loop(function, &definitions, old_loop, (*factor, true)),
        };
        let place = location_of_block(function, old_loop.header);
        if let Some(blocks) = blocks {
            remarks.done(PASS_NAME, place, || plan.describe());
            if matches!(plan, UnrollPlan::Full(_)) {
                stats.fully_unrolled += 1;
            } else {
                stats.partially_unrolled += 1;
            }
            new_blocks.push((old_loop.header, blocks));
        } else {
            remarks.missed(PASS_NAME, place, || "no exit test could be written for the joined iterations".to_owned());
        }
    }
    let old = std::mem::take(&mut function.layout);
    let mut before: Vec<Option<usize>> = vec![None; function.blocks.len()];
    new_blocks.iter().enumerate().for_each(|(number, (header, _))| before[header.position()] = Some(number));
    for block in old {
        if let Some(number) = before[block.position()] {
            function.layout.append(&mut new_blocks[number].1);
        }
        function.layout.push(block);
    }
    remove_unreachable_blocks(function);
    straighten::run(function, hardware.target);
    stats
}

/// How much the function may still grow by unrolling.
struct GrowthBudget {
    /// Number of instructions that may still be added.
    insts_left: usize,
}

/// Returns the loops to unroll, each with the way to unroll it. `taken_branch` is the cost of a taken branch in cycles.
fn choose_loops_to_unroll(function: &Function, taken_branch: usize, remarks: &mut Remarks) -> Vec<(UnrollableLoop, UnrollPlan)> {
    let mut chosen = Vec::new();
    let Some(analyses) = LoopAnalyses::compute(function) else { return chosen };
    let LoopAnalyses { flow, loops, dominators } = &analyses;
    let definitions = Definitions::compute(function);
    let positions = layout_positions(function);
    let mut uniformity: Option<Uniformity> = None;
    let mut budget = GrowthBudget { insts_left: MIN_GROWTH_BUDGET_INSTS.max(function.inst_count() / 4) };
    for id in loops.iter() {
        let header = loops.get(id).header;
        let mut miss = |reason: &str| remarks.missed(PASS_NAME, location_of_block(function, header), || reason.to_owned());
        if function.blocks[header].no_unroll {
            miss("`.pragma \"nounroll\"` forbids it");
            continue;
        }
        let Some(old_loop) = UnrollableLoop::find(function, &analyses, id, &positions) else {
            miss("it is not an innermost loop with one entry and one exit");
            continue;
        };
        let body = LoopBodyProperties::collect(function, &old_loop);
        let mut is_uniform = |condition| {
            let found = uniformity.get_or_insert_with(|| {
                let post_dominators = PostDominators::compute(function, flow);
                Uniformity::compute_with(function, flow, dominators, &post_dominators, loops)
            });
            found.is_uniform(condition)
        };
        match choose_unroll_plan(function, &definitions, &old_loop, &body, taken_branch, &mut is_uniform) {
            Ok((plan, growth)) if growth <= budget.insts_left => {
                budget.insts_left -= growth;
                chosen.push((old_loop, plan));
            }
            Ok(_) => miss("the function has grown as much as unrolling may make it"),
            Err(reason) => miss(reason),
        }
    }
    chosen
}

/// Returns how to unroll a loop, and the number of instructions that this adds; as an error, the reason why the loop is not unrolled.
/// `taken_branch` is the cost of a taken branch in cycles.
fn choose_unroll_plan(
    function: &Function,
    definitions: &Definitions,
    old_loop: &UnrollableLoop,
    body: &LoopBodyProperties,
    taken_branch: usize,
    is_uniform: &mut dyn FnMut(Value) -> bool,
) -> Result<(UnrollPlan, usize), &'static str> {
    if body.has_unique_inst {
        return Err("its body has a call, an exit, or an instruction that must not be copied");
    }
    let size = body.size.max(1);
    let tests = trips::count_exit_tests(function, definitions, old_loop, MAX_SIMULATED_TRIPS);
    let trips = tests.map(|tests| if old_loop.tests_exit_at_end() { tests } else { tests - 1 });
    if let (Some(tests), Some(trips)) = (tests, trips) {
        let all = size * trips as usize;
        if trips <= MAX_FULLY_UNROLLED_TRIPS && all <= MAX_FULLY_UNROLLED_INSTS {
            return Ok((UnrollPlan::Full(tests), all));
        }
        if trips <= MAX_TRIPS_WITH_REMOVED_INSTS && all <= MAX_INSTS_WITH_REMOVED_INSTS {
            let removed = constants::count_constant_insts(function, definitions, old_loop)
                + repeated_loads::count_repeated_loads(function, definitions, old_loop, body);
            if removed * INSTS_PER_REMOVED_INST >= size {
                return Ok((UnrollPlan::Full(tests), all));
            }
        }
    }
    if body.fetches >= MIN_FETCHES_TO_SKIP_UNROLLING {
        return Err("its body already reads textures or surfaces several times");
    }
    // Uses the largest factor that divides the number of iterations and whose unrolled body is small enough.
    if let Some(trips) = trips {
        let fits = |&factor: &u32| trips.is_multiple_of(factor) && size * factor as usize <= UNROLL_FACTORS[0].1;
        if let Some(factor) = (2..=8).rev().find(fits) {
            return Ok((UnrollPlan::Exact(factor), size * (factor as usize - 1)));
        }
    }
    let condition = old_loop.condition().ok_or("its exit has no condition that is computed in the loop")?.value;
    let is_divergent = !is_uniform(condition);
    const UNEVEN_TRIPS_REASON: &str = "threads of a warp may execute different numbers of iterations";
    if (body.has_lane_exchange || body.has_barriers) && is_divergent {
        return Err(UNEVEN_TRIPS_REASON);
    }
    let counting = CountedLoop::find(function, definitions, old_loop)
        .ok_or("it does not count up or down to a number that is fixed before the loop")?;
    let fits = |&(factor, most): &(u32, usize)| size * factor as usize <= most;
    let (factor, _) = UNROLL_FACTORS.into_iter().find(fits).ok_or("its body is too large")?;
    let is_short =
        counting.max_trips(function, definitions, old_loop) < 2 * u64::from(factor) || trips.is_some_and(|trips| trips < 2 * factor);
    let is_guardable = counting.can_replace_tests_by_guard(function, definitions, omitted_exit_tests(old_loop, factor));
    if is_short {
        return Err("it has too few iterations");
    }
    if !is_guardable {
        return Err("its exit test cannot be made for several iterations at once");
    }
    let meets = is_divergent && old_loop.tests_exit_at_end() && matches!(counting, CountedLoop::Narrow(_));
    if meets
        && divergent::can_use_straight_copies(function, old_loop, taken_branch)
        && counting.has_short_remainder(function, definitions, old_loop, factor)
    {
        return Ok((UnrollPlan::Straight(factor), size * 2 * (factor as usize - 1)));
    }
    // The remainder loop runs for as long as the thread with the most remaining iterations needs. A loop inside another loop is executed
    // often, so this time matters, and unrolling pays off only if loads of several iterations overlap.
    match (is_divergent && old_loop.is_nested && !body.has_overlapping_loads(), meets) {
        (true, _) => Err(UNEVEN_TRIPS_REASON),
        (false, true) => Ok((UnrollPlan::Divergent(factor), size * factor as usize)),
        (false, false) => Ok((UnrollPlan::Guarded(factor), size * factor as usize)),
    }
}

/// Returns the number of exit tests that one iteration of the unrolled loop omits.
fn omitted_exit_tests(old_loop: &UnrollableLoop, factor: u32) -> u32 {
    if old_loop.tests_exit_at_end() { factor - 1 } else { factor }
}

/// Gives each loop a single entry block and an exit block that is entered only from the loop, puts the loops into loop-closed SSA form
/// (values are read outside the loop only through phis of the exit block), and returns the changed loops.
fn isolate_loops(function: &mut Function, chosen: Vec<(UnrollableLoop, UnrollPlan)>) -> Vec<(UnrollableLoop, UnrollPlan)> {
    let mut shapes = chosen;
    let heads: FxHashMap<Block, usize> = shapes.iter().enumerate().map(|(number, (old_loop, _))| (old_loop.header, number)).collect();
    for number in 0..shapes.len() {
        let (exiting, old) = (shapes[number].0.exiting, shapes[number].0.exit);
        let exit = redirect_edges_outside_layout(function, old, &[exiting]);
        shapes[number].0.exit = exit;
        // The exit of one loop may be the header of another.
        if let Some(&next) = heads.get(&old) {
            shapes[next].0.entries.iter_mut().filter(|entry| **entry == exiting).for_each(|entry| *entry = exit);
        }
    }
    for (old_loop, _) in &mut shapes {
        let entries = std::mem::take(&mut old_loop.entries);
        old_loop.entries.push(redirect_edges_outside_layout(function, old_loop.header, &entries));
    }
    let (mut before, mut after) = (vec![None; function.blocks.len()], vec![None; function.blocks.len()]);
    let mut owner: Vec<Option<usize>> = vec![None; function.blocks.len()];
    for (number, (old_loop, _)) in shapes.iter().enumerate() {
        before[old_loop.header.position()] = Some(old_loop.entries[0]);
        after[old_loop.blocks[old_loop.blocks.len() - 1].position()] = Some(old_loop.exit);
        old_loop.blocks.iter().for_each(|block| owner[block.position()] = Some(number));
    }
    let places = |&block: &Block| [before[block.position()], Some(block), after[block.position()]];
    function.layout = function.layout.iter().flat_map(places).flatten().collect();
    let exits: Vec<(Block, Block)> = shapes.iter().map(|(old_loop, _)| (old_loop.exiting, old_loop.exit)).collect();
    copies::put_in_loop_closed_form(function, &owner, &exits);
    shapes
}

/// Replaces a loop by `tests` copies of its body; the last one ends at the exit test. Returns the new blocks.
fn unroll_fully(function: &mut Function, old_loop: &UnrollableLoop, tests: u32) -> Option<Vec<Block>> {
    let entry = old_loop.entries[0];
    let mut copies: Vec<LoopCopyMapping> = Vec::new();
    for number in 0..tests {
        let mapping = match copies.last() {
            None => copy_loop_blocks(function, old_loop, |function, phi| {
                let source = old_loop.entry_phi_source(function, phi).and_then(|source| source.value());
                source.unwrap_or_else(|| panic!("a phi of {:?} has no source for its entry", old_loop.header))
            }),
            Some(last) => {
                let mapping = copy_loop_blocks(function, old_loop, value_in_next_iteration(old_loop, last));
                redirect_branches(function, last.block(old_loop.latch), last.block(old_loop.header), mapping.block(old_loop.header));
                mapping
            }
        };
        let exiting = mapping.block(old_loop.exiting);
        if number + 1 < tests {
            remove_exit_branch(function, old_loop, &mapping);
        } else {
            // If the exit test is not at the end of the body, this makes the blocks after the test unreachable; the pass removes them at
            // its end.
            set_jump(function, exiting, old_loop.exit);
        }
        copies.push(mapping);
    }
    let (first, last) = (copies.first()?, copies.last()?);
    redirect_branches(function, entry, old_loop.header, first.block(old_loop.header));
    redirect_exit_phis(function, old_loop, last);
    Some(copies.iter().flat_map(LoopCopyMapping::copies).collect())
}

/// Makes the phis of the exit block read values of the copy `mapping` instead of values of the old loop, which is no longer reachable.
fn redirect_exit_phis(function: &mut Function, old_loop: &UnrollableLoop, mapping: &LoopCopyMapping) {
    for phi in function.phis(old_loop.exit).to_vec() {
        for operand in function.sources_mut(phi) {
            *operand = mapping.operand(*operand);
        }
    }
}

/// Unrolls a loop by a factor that divides its number of iterations, without a remainder loop. Returns the new blocks.
fn unroll_by_divisor(function: &mut Function, old_loop: &UnrollableLoop, factor: u32) -> Option<Vec<Block>> {
    let tested = if old_loop.tests_exit_at_end() { factor - 1 } else { 0 };
    let new = UnrolledLoop::create(function, old_loop, factor, Some(tested));
    let header = new.copies[0].block(old_loop.header);
    let last = new.last_copy();
    redirect_branches(function, last.block(old_loop.latch), last.block(old_loop.header), header);
    new.add_header_phi_sources(function, old_loop);
    redirect_branches(function, old_loop.entries[0], old_loop.header, header);
    redirect_exit_phis(function, old_loop, &new.copies[tested as usize]);
    Some(new.copies.iter().flat_map(LoopCopyMapping::copies).collect())
}

/// Unrolls a loop by `factor`; the old loop stays as the remainder loop. Returns the new blocks.
fn unroll_with_remainder(function: &mut Function, definitions: &Definitions, old_loop: &UnrollableLoop, factor: u32) -> Option<Vec<Block>> {
    let counting = CountedLoop::find(function, definitions, old_loop)?;
    let entry = old_loop.entries[0];
    let (start, next) =
        (old_loop.entry_phi_source(function, counting.counter())?, old_loop.latch_phi_source(function, counting.counter())?);
    let new = UnrolledLoop::create(function, old_loop, factor, None);
    let last = new.last_copy();
    let (header, latch) = (new.copies[0].block(old_loop.header), last.block(old_loop.latch));
    let (mut before, mut end) = (Vec::new(), Vec::new());
    let tests = omitted_exit_tests(old_loop, factor);
    let (is_worth, goes_on) =
        counting.emit_both_unroll_guards(function, definitions, tests, (start, &mut before), (last.operand(next), &mut end))?;
    let remainder_entry = function.new_block();
    insert_before_terminators(function, latch, end);
    set_branches(function, latch, Some((goes_on, header)), remainder_entry);
    new.add_header_phi_sources(function, old_loop);
    insert_before_terminators(function, entry, before);
    set_branches(function, entry, Some((is_worth, header)), old_loop.header);
    fill_remainder_entry(function, old_loop, counting.compares(), last, remainder_entry);
    Some(new.copies.iter().flat_map(LoopCopyMapping::copies).chain([remainder_entry]).collect())
}

/// Fills the block `remainder_entry`, which is executed after the unrolled loop and branches to the remainder loop or to the exit.
fn fill_remainder_entry(
    function: &mut Function,
    old_loop: &UnrollableLoop,
    compares: &[Inst],
    last: &LoopCopyMapping,
    remainder_entry: Block,
) {
    for phi in function.phis(old_loop.header).to_vec() {
        if let Some(source) = old_loop.latch_phi_source(function, phi) {
            add_phi_source(function, phi, last.operand(source), remainder_entry);
        }
    }
    if !old_loop.tests_exit_at_end() {
        let branch = function.new_inst(Op::Machine(Opcode::BRA), Symbols::new(), None, &[old_loop.header.into()], 0);
        function.insts[branch].location =
            function.terminators(old_loop.latch).last().map(|&end| function.insts[end].location).unwrap_or_default();
        function.blocks[remainder_entry].insts.push(branch);
        return;
    }
    // The comparison is repeated in this block. The comparison in the new loop is then dead, unless the body reads its result.
    let mut mapping = last.clone();
    for &compare in compares {
        for value in function.defined(compare).collect::<Vec<Value>>() {
            let copy = function.new_value(function.values[value]);
            mapping.set_value(value, copy);
        }
        let copy = copy_inst(function, &mapping, compare);
        function.blocks[remainder_entry].insts.push(copy);
    }
    for inst in function.terminators(old_loop.exiting).to_vec() {
        let branch = copy_inst(function, &LoopCopyMapping::default(), inst);
        if let (Some(guard), OperandKind::Value(part)) = (function.insts[branch].guard, old_loop.guard.kind) {
            let kind = OperandKind::Value(Part { value: mapping.value(part.value), ..part });
            function.insts[branch].guard = Some(Guard { kind, ..guard });
        }
        function.blocks[remainder_entry].insts.push(branch);
    }
    for phi in function.phis(old_loop.exit).to_vec() {
        let source = function.sources(phi)[0];
        add_phi_source(function, phi, last.operand(source), remainder_entry);
    }
}
