//! Chooses the yield flags of a function by a simulation of several warps (strategy `warp-schedule`).
//!
//! After an instruction without the yield flag, the scheduler of a sub-partition continues with the same warp if it can issue; after one
//! with the flag it switches to the next warp. Which is better depends on the code: a warp that keeps the issue slot gets to its next load
//! sooner, while switching lets all warps start their loads. So the control words are computed with the usual rule and with each rule of
//! [`ALTERNATIVE_YIELD_RULES`]. For each of them, the execution of each block by the resident warps of a sub-partition is simulated. The
//! rule with the fewest cycles wins if it saves more than the fraction [`MIN_CYCLE_GAIN_FRACTION`]; otherwise the usual rule is kept.
//!
//! The model has issue slots, stalls, yields, scoreboards with usual latencies, and the units with their rates, for one sub-partition. It
//! has no memory bandwidth, register banks or barriers between warps. Its cost is linear in the number of instructions.

use std::borrow::Cow;

use oriole_hardware::units::UNITS;
use oriole_hardware::{Classes, ControlRules, Hardware, SchedClass, ThroughputClass};
use oriole_ir::analysis::{ControlFlow, LoopModel, Loops};
use oriole_ir::{Function, Inst};
use oriole_isa::Control;

use crate::{ControlWords, control_words};

/// A rule that decides which instructions of fixed latency let the hardware switch to another warp (yield).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct YieldRule {
    /// Minimum stall, in cycles, at which an instruction yields.
    min_stall: u32,
    /// Number of cycles without a yield after which instructions with shorter stalls yield too.
    overdue_after: u32,
    /// Minimum stall, in cycles, at which an instruction yields after `overdue_after` cycles without a yield.
    overdue_min_stall: u32,
}

/// The yield rules that are compared with the usual one: yield at every stall of two cycles or more; at longer stalls only; only where the
/// hardware needs the flag for the stall to last its full length.
const ALTERNATIVE_YIELD_RULES: [YieldRule; 3] = [
    YieldRule { min_stall: 2, overdue_after: 0, overdue_min_stall: 2 },
    YieldRule { min_stall: 5, overdue_after: 20, overdue_min_stall: 3 },
    YieldRule { min_stall: 12, overdue_after: u32::MAX, overdue_min_stall: 12 },
];

/// Minimum saving for which another yield rule replaces the usual one, as a fraction of the cycles predicted for the usual rule.
const MIN_CYCLE_GAIN_FRACTION: f64 = 0.01;

/// Maximum number of instructions of a function for which yield rules are compared. Larger functions get the usual rule.
const MAX_TUNED_INSTRUCTIONS: usize = 8_000;

/// Number of times that the simulation executes a block that is a loop by itself. Other blocks are executed once.
const SIMULATED_ITERATIONS: usize = 4;

/// The control words of a function under the chosen yield rule, and the reason for the choice.
#[derive(Debug)]
pub struct TunedControls {
    /// The control words under the chosen yield rule.
    pub controls: ControlWords,
    /// One line of text for the trace: the chosen yield rule and the number of cycles predicted for it.
    pub note: String,
}

/// Computes the control words of a function with the yield rule for which the simulation of `warps` warps per scheduler takes the fewest
/// cycles. A large function, or one with a single warp per scheduler, gets the usual rule.
pub fn run(function: &mut Function, hardware: &Hardware<'_>, warps: u32) -> TunedControls {
    let usual = control_words::run(function, hardware);
    let facts = &hardware.rules.facts;
    if function.inst_count() > MAX_TUNED_INSTRUCTIONS || warps < 2 {
        return TunedControls { controls: usual, note: "the usual rule for yields: the function is large, or has one warp".to_owned() };
    }
    let least = predicted_cycles(function, &usual, hardware, warps as usize);
    let mut best =
        (least, YieldRule { min_stall: facts.yield_from, overdue_after: facts.yield_due, overdue_min_stall: facts.yield_due_from }, usual);
    for rule in ALTERNATIVE_YIELD_RULES {
        let mut rules: ControlRules = hardware.rules.clone().into_owned();
        (rules.facts.yield_from, rules.facts.yield_due, rules.facts.yield_due_from) =
            (rule.min_stall, rule.overdue_after, rule.overdue_min_stall);
        let hardware = Hardware { rules: Cow::Owned(rules), ..hardware.clone() };
        // The `NOP`s for long latencies have been inserted already, and yields do not change stalls. So nothing is inserted into this copy.
        let controls = control_words::run(&mut function.clone(), &hardware);
        let found = predicted_cycles(function, &controls, &hardware, warps as usize);
        if found < best.0 && found < least * (1.0 - MIN_CYCLE_GAIN_FRACTION) {
            best = (found, rule, controls);
        }
    }
    let (found, rule, controls) = best;
    let note = format!(
        "yields from stalls of {} cycles, and of {} after {} cycles without one: {found:.0} cycles predicted for {warps} warps, {least:.0} by the usual rule",
        rule.min_stall, rule.overdue_min_stall, rule.overdue_after
    );
    TunedControls { controls, note }
}

/// Returns the predicted number of cycles of a function: the sum over its blocks of the cycles of one execution times the estimated number
/// of executions.
fn predicted_cycles(function: &Function, controls: &ControlWords, hardware: &Hardware<'_>, warps: usize) -> f64 {
    let flow = ControlFlow::compute(function);
    let loops = Loops::compute(function, &flow);
    let mut total = 0.0;
    for &block in &function.layout {
        let ops: Vec<SimulatedInst> =
            function.blocks[block].insts.iter().filter_map(|&inst| SimulatedInst::new(function, inst, controls, hardware)).collect();
        let repeats = if flow.successors(block).contains(&block) { SIMULATED_ITERATIONS } else { 1 };
        let executions = LoopModel::TEN_ITERATIONS.executions(loops.depth(block).min(6));
        total += executions * simulate_warps(&ops, repeats, warps) as f64 / repeats as f64;
    }
    total
}

/// An instruction in the simulation of several warps: its control word, functional unit and latencies.
struct SimulatedInst {
    /// The control word of the instruction.
    control: Control,
    /// Index of the functional unit that executes the instruction.
    unit: usize,
    /// Number of cycles for which the instruction occupies its unit.
    unit_cycles: u64,
    /// Number of cycles from the issue of the instruction until its result is available; 0 if the latency is fixed.
    result_latency: u64,
    /// Number of cycles from the issue of the instruction until its sources are read; 0 if the latency is fixed.
    read_latency: u64,
}

impl SimulatedInst {
    /// Collects the properties of a machine instruction; `None` for a pseudo operation, which has no encoding.
    fn new(function: &Function, inst: Inst, controls: &ControlWords, hardware: &Hardware<'_>) -> Option<SimulatedInst> {
        let data = &function.insts[inst];
        let class: SchedClass = Classes::get().of(data.op.machine()?, &data.modifiers);
        let busy = ThroughputClass::of(class).cycles(hardware.rates, hardware.machine).unwrap_or(1).max(1);
        let time = hardware.model.time(class);
        Some(SimulatedInst {
            control: controls.get(inst),
            unit: class.unit().index(),
            unit_cycles: busy.into(),
            result_latency: time.map_or(0, |time| time.usual.into()),
            read_latency: time.map_or(0, |time| time.read.into()),
        })
    }
}

/// The state of one warp in the simulation.
#[derive(Clone)]
struct WarpState {
    /// Number of instructions that the warp has issued, over all repetitions of the code; its remainder by the length of the code is the
    /// index of the next instruction.
    next_inst: usize,
    /// First cycle in which the stall of the last issued instruction has passed.
    ready_cycle: u64,
    /// For each scoreboard: the cycle in which the scoreboard is released.
    release_cycles: [u64; 8],
}

/// Simulates `warps` warps that execute the instructions `repeats` times. Returns the number of cycles until each warp has issued its last
/// instruction.
fn simulate_warps(ops: &[SimulatedInst], repeats: usize, warps: usize) -> u64 {
    let length = ops.len() * repeats;
    let mut states = vec![WarpState { next_inst: 0, ready_cycle: 0, release_cycles: [0; 8] }; warps];
    let mut free = [0_u64; UNITS];
    let (mut last, mut stays, mut now, mut left) = (0_usize, false, 0_u64, warps);
    if length == 0 {
        return 0;
    }
    while left > 0 {
        // Returns the first cycle in which a warp can issue its next instruction.
        let earliest = |state: &WarpState| {
            let op = &ops[state.next_inst % ops.len()];
            let waits = (0..8).filter(|board| op.control.wait >> board & 1 == 1).map(|board| state.release_cycles[board]);
            waits.max().unwrap_or(0).max(state.ready_cycle).max(free[op.unit])
        };
        let runs = |number: &usize| states[*number].next_inst < length;
        let can_issue = |number: &usize| runs(number) && earliest(&states[*number]) <= now;
        let order = (1..=warps).map(|step| (last + step) % warps);
        let chosen = Some(last).filter(|last| stays && can_issue(last)).or_else(|| order.clone().find(can_issue));
        let Some(number) = chosen else {
            now = order.filter(runs).map(|number| earliest(&states[number])).min().map_or(now + 1, |next| next.max(now + 1));
            continue;
        };
        let state = &mut states[number];
        let op = &ops[state.next_inst % ops.len()];
        free[op.unit] = now + op.unit_cycles;
        for (board, cycles) in [(op.control.write_barrier, op.result_latency), (op.control.read_barrier, op.read_latency)] {
            if let Some(released) = board.and_then(|board| state.release_cycles.get_mut(usize::from(board))) {
                *released = (*released).max(now + cycles);
            }
        }
        let stall = u64::from(op.control.stall).max(if op.control.stay { 1 } else { 2 });
        state.ready_cycle = now + stall;
        state.next_inst += 1;
        left -= usize::from(state.next_inst == length);
        (last, stays) = (number, op.control.stay);
        now += 1;
    }
    now
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(stall: u8, stay: bool, unit: usize, busy: u64) -> SimulatedInst {
        SimulatedInst {
            control: Control { stall, stay, ..Control::default() },
            unit,
            unit_cycles: busy,
            result_latency: 0,
            read_latency: 0,
        }
    }

    /// With one warp the stalls add up; two warps issue during each other's stalls.
    #[test]
    fn warps_fill_the_stalls_of_others() {
        let ops: Vec<SimulatedInst> = (0..4).map(|_| op(4, false, 0, 1)).collect();
        assert_eq!(simulate_warps(&ops, 1, 1), 13);
        assert_eq!(simulate_warps(&ops, 1, 2), 14);
        assert_eq!(simulate_warps(&ops, 2, 1), 29);
    }

    /// A yield makes a stall of one cycle take two cycles for its own warp, but other warps can issue in between.
    #[test]
    fn a_yield_costs_a_lone_warp_a_cycle() {
        let stays: Vec<SimulatedInst> = (0..4).map(|_| op(1, true, 0, 1)).collect();
        let yields: Vec<SimulatedInst> = (0..4).map(|_| op(1, false, 0, 1)).collect();
        assert_eq!((simulate_warps(&stays, 1, 1), simulate_warps(&yields, 1, 1)), (4, 7));
        assert_eq!((simulate_warps(&stays, 1, 2), simulate_warps(&yields, 1, 2)), (8, 8));
    }

    /// Four warps compute on one unit, then load. If each warp keeps the issue slot, the loads start in cycles 16, 33, 50 and 67. If the
    /// warps take turns, the loads start in cycles 59, 63, 67 and 71, because the load unit accepts one every four cycles.
    #[test]
    fn keeping_the_slot_spreads_loads() {
        let kernel = |stay: bool| {
            let mut ops: Vec<SimulatedInst> = (0..8).map(|_| op(2, stay, 0, 2)).collect();
            ops.push(SimulatedInst {
                control: Control { stall: 1, stay: true, write_barrier: Some(0), ..Control::default() },
                unit: 1,
                unit_cycles: 4,
                result_latency: 100,
                read_latency: 0,
            });
            ops.push(SimulatedInst {
                control: Control { wait: 1, ..op(1, true, 0, 1).control },
                unit: 0,
                unit_cycles: 1,
                result_latency: 0,
                read_latency: 0,
            });
            ops
        };
        let (stays, turns) = (simulate_warps(&kernel(true), 1, 4), simulate_warps(&kernel(false), 1, 4));
        assert!(stays < turns, "greedy {stays}, round robin {turns}");
    }
}
