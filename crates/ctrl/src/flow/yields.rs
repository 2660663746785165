//! Sets the yield flags: the instructions after which the warp scheduler may switch to another warp.
//!
//! The rules reproduce the output of ptxas; the thresholds are in `control.tbl`.
//!
//! - An instruction of fixed latency yields if its stall is at least 3 cycles. During a shorter stall another warp could do little.
//! - If the warp has not yielded for 10 cycles, a stall of 2 cycles yields too.
//! - These two rules do not apply to instructions of variable latency, `BAR`, branches and other opcodes with a minimum stall.
//! - A stall of 12 cycles or more always yields: without the flag it lasts only a cycle or two (measured).
//! - A branch to itself yields, so that other warps can make progress. `ERRBAR` always yields.
//!
//! The published description of ptxas has a threshold of 4 and yields at branches; the output of ptxas does neither.

use oriole_hardware::ControlRules;
use oriole_isa::{Control, Opcode};

use super::control_flow::MachineControlFlow;
use super::machine_code::MachineCode;
use super::reg_access::InstAccesses;

/// Sets the yield flags of all control words (field `stay`, which is the inverse of the flag). Stalls must be final.
pub(crate) fn set_yields(
    code: &MachineCode<'_>,
    control_flow: &MachineControlFlow,
    inst_accesses: &[InstAccesses],
    rules: &ControlRules,
    controls: &mut [Control],
) {
    let facts = &rules.facts;
    // Cycles since the last yield, or since the start of the straight-line code.
    let mut cycles_without_yield = 0;
    for (number, block) in code.blocks.iter().enumerate() {
        if !control_flow.is_straight_line_after_previous(code, number) {
            cycles_without_yield = 0;
        }
        for (control, inst) in controls[block.range.clone()].iter_mut().zip(&inst_accesses[block.range.clone()]) {
            let wants = rules.requirements(inst.opcode);
            let is_queued = inst.late_results || inst.late_reads || inst.opcode == Opcode::BAR;
            let is_control = u32::from(wants.least_stall) > facts.least_stall;
            let stall = u32::from(control.stall);
            let least = if cycles_without_yield >= facts.yield_due { facts.yield_due_from } else { facts.yield_from };
            let yields_here = stall >= least && !is_queued && !is_control;
            control.stay = !(yields_here || stall >= facts.yield_needed || wants.yields_with_stall_0);
            cycles_without_yield = if control.stay { cycles_without_yield + stall } else { 0 };
        }
        // A loop of a single branch instruction, for instance one that waits for another warp, must let other warps run.
        if block.range.len() == 1 && block.successors.contains(&number) {
            controls[block.range.start].stay = false;
        }
    }
}
