//! Frequencies of blocks of a small function, computed by hand.

use oriole_ir::analysis::{BlockFrequencies, ControlFlow, Divergence, LoopModel, Loops};
use oriole_ir::{Block, text};
use oriole_support::Index;
use rustc_hash::FxHashSet;

/// Returns the total frequencies of a function in which bb0 branches to bb1 or bb2, which join in bb3; bb3 is a loop, followed by bb4.
fn totals(model: LoopModel, divergence: Divergence<'_>) -> Vec<f64> {
    let program = "func kernel @k ssa {
bb0:
    %0:R = S2R SR_TID.X
    %1:P, PT = ISETP.LT.AND %0, 0x10, PT
    @%1 BRA bb2
    BRA bb1
bb1:
    BRA bb3
bb2:
    BRA bb3
bb3:
    %2:P, PT = ISETP.LT.AND %0, 0x20, PT
    @%2 BRA bb3
    BRA bb4
bb4:
    EXIT
}";
    let function = text::parse(program).unwrap_or_else(|error| panic!("{error:?}")).remove(0);
    let flow = ControlFlow::compute(&function);
    let loops = Loops::compute(&function, &flow);
    BlockFrequencies::compute(&function, &flow, &loops, model, divergence).total.iter().copied().collect()
}

#[test]
fn block_frequencies_follow_branches_and_loops() {
    let ten = LoopModel::TEN_ITERATIONS;
    assert_eq!(totals(ten, Divergence::Never), [1.0, 0.5, 0.5, 10.0, 1.0]);
    assert_eq!(totals(ten, Divergence::Always), [1.0, 1.0, 1.0, 10.0, 1.0]);
    assert_eq!(totals(LoopModel { trip_count: 8, ..ten }, Divergence::Never), [1.0, 0.5, 0.5, 8.0, 1.0]);
    assert_eq!(totals(LoopModel { max_depth: 0, ..ten }, Divergence::Never), [1.0, 0.5, 0.5, 1.0, 1.0]);
}

#[test]
fn divergent_branch_executes_both_successors() {
    let of_entry: FxHashSet<Block> = [Block::new(0)].into_iter().collect();
    assert_eq!(totals(LoopModel::TEN_ITERATIONS, Divergence::At(&of_entry)), [1.0, 1.0, 1.0, 10.0, 1.0]);
    assert_eq!(totals(LoopModel::TEN_ITERATIONS, Divergence::At(&FxHashSet::default())), [1.0, 0.5, 0.5, 10.0, 1.0]);
}

#[test]
fn executions_grow_up_to_the_deepest_loop_that_counts() {
    let model = LoopModel { trip_count: 8, max_depth: 4 };
    assert_eq!([0, 1, 4, 5, u32::MAX].map(|depth| model.executions(depth)), [1.0, 8.0, 4096.0, 4096.0, 4096.0]);
    assert_eq!(LoopModel::TEN_ITERATIONS.executions(6), 1_000_000.0);
}
