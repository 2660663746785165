//! Predicted issue cycles of all blocks, from the control words in the file.
//!
//! The prediction is that of `sched::report::timeline`: one warp alone, usual latencies. Operations in flight at the end of a block are
//! waited for in its successors; the first block of a loop sees those of the previous iteration.

use oriole_ir::Inst;
use oriole_isa::Control;
use oriole_sched::code::SchedCode;
use oriole_sched::report::timeline::{BlockTiming, HardwareFigures, InFlightAtBoundary, LatencyAssumption, estimate_by_controls};
use oriole_sched::resource::ResourceCosts;
use oriole_support::Index;

use crate::code::DecodedFunction;

/// The predicted times of a function.
pub struct Times {
    /// For each block, the cycles of one execution; in a loop header, of every iteration but the first.
    pub blocks: Vec<BlockTiming>,
}

impl Times {
    /// Predicts the times of all blocks. `items` has the instructions as the scheduler sees them.
    pub fn compute(code: &DecodedFunction<'_>, items: &SchedCode, costs: &ResourceCosts) -> Times {
        let figures = HardwareFigures { model: code.hardware.model, costs };
        let insts: Vec<Inst> = (0..code.instructions().len()).map(Inst::new).collect();
        let controls = |inst: Inst| -> Control { code.controls[inst.position()] };
        let mut ends: Vec<Option<InFlightAtBoundary>> = vec![None; code.blocks().len()];
        let mut blocks = vec![BlockTiming::default(); code.blocks().len()];
        // Two rounds: the first finds what is in flight along back edges, the second uses it.
        for _ in 0..2 {
            for block in 0..code.blocks().len() {
                let is_back = |from: usize| code.is_back_edge(from, block);
                let is_header = code.predecessors[block].iter().any(|&from| is_back(from as usize));
                let mut in_flight = InFlightAtBoundary::default();
                // Code for rare cases out of line counts only for what follows it there.
                let counts = |from: usize| !code.is_out_of_line[from] || code.is_out_of_line[block];
                let counts = |from: usize| if is_header { is_back(from) } else { counts(from) };
                for &from in code.predecessors[block].iter().filter(|&&from| counts(from as usize)) {
                    if let Some(end) = &ends[from as usize] {
                        in_flight.merge(end);
                    }
                }
                let range = &code.blocks()[block].range;
                let timed = (range, &insts[range.clone()]);
                blocks[block] = estimate_by_controls(items, timed, figures, LatencyAssumption::Usual, &controls, &mut in_flight);
                ends[block] = Some(in_flight);
            }
        }
        Times { blocks }
    }
}
