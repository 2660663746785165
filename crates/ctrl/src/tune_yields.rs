//! Chooses the rule for yields of a function by a model of several warps (strategy `warp-schedule`).
//!
//! After an instruction without the yield flag, the scheduler of a sub-partition continues with the same warp if it can issue; after one
//! with the flag it turns to the next warp. Which one is better depends on the code: a warp that keeps the slot gets to its next load
//! sooner, while turning lets all warps start their loads. So the control words are computed with each rule of [`RULES`], and the resident
//! warps of a sub-partition are simulated on each loop body and on the other blocks, one after the other. The rule with the fewest cycles
//! wins; of equal ones, and without a gain of [`LEAST_GAIN`], the usual one.
//!
//! The model has issue slots, stalls, yields, scoreboards with usual latencies, and the units with their rates, for one sub-partition. It
//! has no memory bandwidth, register banks or barriers between warps. Its cost is linear in the number of instructions.

use std::borrow::Cow;

use oriole_hardware::units::UNITS;
use oriole_hardware::{Class, Classes, ControlRules, Hardware, ThroughputClass};
use oriole_ir::analysis::{ControlFlow, LoopModel, Loops};
use oriole_ir::{Function, Inst};
use oriole_isa::Control;

use crate::{Controls, control_words};

/// A rule for yields: instructions of fixed latency yield from a stall of `from` cycles on; after `due` cycles without a yield, from a stall
/// of `due_from` cycles on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Rule {
    from: u32,
    due: u32,
    due_from: u32,
}

/// The rules that are compared with the usual one: at every stall of two cycles, at longer stalls only, and only where the stall needs it.
const RULES: [Rule; 3] =
    [Rule { from: 2, due: 0, due_from: 2 }, Rule { from: 5, due: 20, due_from: 3 }, Rule { from: 12, due: u32::MAX, due_from: 12 }];

/// Fraction of the predicted cycles that another rule must save.
const LEAST_GAIN: f64 = 0.01;

/// Functions with more instructions get the usual rule.
const LARGEST_FUNCTION: usize = 8_000;

/// How often a loop body is executed in the simulation.
const ITERATIONS: usize = 4;

/// The control words of a function, and what the choice was based on.
#[derive(Debug)]
pub struct Tuned {
    /// The control words.
    pub controls: Controls,
    /// The choice in one line, for the trace.
    pub note: String,
}

/// Computes the control words of a function with the rule for yields that the model predicts to be the fastest for `warps` warps on each
/// scheduler.
pub fn run(function: &mut Function, hardware: &Hardware<'_>, warps: u32) -> Tuned {
    let usual = control_words::run(function, hardware);
    let facts = &hardware.rules.facts;
    if function.inst_count() > LARGEST_FUNCTION || warps < 2 {
        return Tuned { controls: usual, note: "the usual rule for yields: the function is large, or has one warp".to_owned() };
    }
    let least = cycles(function, &usual, hardware, warps as usize);
    let mut best = (least, Rule { from: facts.yield_from, due: facts.yield_due, due_from: facts.yield_due_from }, usual);
    for rule in RULES {
        let mut rules: ControlRules = hardware.rules.clone().into_owned();
        (rules.facts.yield_from, rules.facts.yield_due, rules.facts.yield_due_from) = (rule.from, rule.due, rule.due_from);
        let hardware = Hardware { rules: Cow::Owned(rules), ..hardware.clone() };
        // Instructions that stalls need are already inserted; yields do not change stalls.
        let controls = control_words::run(&mut function.clone(), &hardware);
        let found = cycles(function, &controls, &hardware, warps as usize);
        if found < best.0 && found < least * (1.0 - LEAST_GAIN) {
            best = (found, rule, controls);
        }
    }
    let (found, rule, controls) = best;
    let note = format!(
        "yields from stalls of {} cycles, and of {} after {} cycles without one: {found:.0} cycles predicted for {warps} warps, {least:.0} by the usual rule",
        rule.from, rule.due_from, rule.due
    );
    Tuned { controls, note }
}

/// Returns the predicted cycles of all blocks of a function, each times its estimated number of executions.
fn cycles(function: &Function, controls: &Controls, hardware: &Hardware<'_>, warps: usize) -> f64 {
    let flow = ControlFlow::compute(function);
    let loops = Loops::compute(function, &flow);
    let mut total = 0.0;
    for &block in &function.layout {
        let ops: Vec<WarpOp> =
            function.blocks[block].insts.iter().filter_map(|&inst| WarpOp::new(function, inst, controls, hardware)).collect();
        let repeats = if flow.successors(block).contains(&block) { ITERATIONS } else { 1 };
        let executions = LoopModel::TEN_ITERATIONS.executions(loops.depth(block).min(6));
        total += executions * simulate(&ops, repeats, warps) as f64 / repeats as f64;
    }
    total
}

/// An instruction as the model sees it.
struct WarpOp {
    control: Control,
    unit: usize,
    /// Cycles for which it occupies its unit.
    busy: u64,
    /// Cycles until its result is available, and until it has read its sources; 0 for fixed latencies.
    result: u64,
    read: u64,
}

impl WarpOp {
    fn new(function: &Function, inst: Inst, controls: &Controls, hardware: &Hardware<'_>) -> Option<WarpOp> {
        let data = &function.insts[inst];
        let class: Class = Classes::get().of(data.op.machine()?, &data.modifiers);
        let busy = ThroughputClass::of(class).cycles(hardware.rates, hardware.machine).unwrap_or(1).max(1);
        let time = hardware.model.time(class);
        Some(WarpOp {
            control: controls.get(inst),
            unit: class.unit().index(),
            busy: busy.into(),
            result: time.map_or(0, |time| time.usual.into()),
            read: time.map_or(0, |time| time.read.into()),
        })
    }
}

/// A warp in the simulation.
#[derive(Clone)]
struct WarpState {
    /// Index of the next instruction, over all repetitions.
    at: usize,
    /// First cycle in which it may issue.
    ready: u64,
    /// For each scoreboard: the cycle of its release.
    released: [u64; 8],
}

/// Returns the cycles until all warps have executed the instructions `repeats` times.
fn simulate(ops: &[WarpOp], repeats: usize, warps: usize) -> u64 {
    let length = ops.len() * repeats;
    let mut states = vec![WarpState { at: 0, ready: 0, released: [0; 8] }; warps];
    let mut free = [0_u64; UNITS];
    let (mut last, mut stays, mut now, mut left) = (0_usize, false, 0_u64, warps);
    if length == 0 {
        return 0;
    }
    while left > 0 {
        // The first cycle in which each warp could issue.
        let earliest = |state: &WarpState| {
            let op = &ops[state.at % ops.len()];
            let waits = (0..8).filter(|board| op.control.wait >> board & 1 == 1).map(|board| state.released[board]);
            waits.max().unwrap_or(0).max(state.ready).max(free[op.unit])
        };
        let runs = |number: &usize| states[*number].at < length;
        let can_issue = |number: &usize| runs(number) && earliest(&states[*number]) <= now;
        let order = (1..=warps).map(|step| (last + step) % warps);
        let chosen = Some(last).filter(|last| stays && can_issue(last)).or_else(|| order.clone().find(can_issue));
        let Some(number) = chosen else {
            now = order.filter(runs).map(|number| earliest(&states[number])).min().map_or(now + 1, |next| next.max(now + 1));
            continue;
        };
        let state = &mut states[number];
        let op = &ops[state.at % ops.len()];
        free[op.unit] = now + op.busy;
        for (board, cycles) in [(op.control.write_barrier, op.result), (op.control.read_barrier, op.read)] {
            if let Some(released) = board.and_then(|board| state.released.get_mut(usize::from(board))) {
                *released = (*released).max(now + cycles);
            }
        }
        let stall = u64::from(op.control.stall).max(if op.control.stay { 1 } else { 2 });
        state.ready = now + stall;
        state.at += 1;
        left -= usize::from(state.at == length);
        (last, stays) = (number, op.control.stay);
        now += 1;
    }
    now
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(stall: u8, stay: bool, unit: usize, busy: u64) -> WarpOp {
        WarpOp { control: Control { stall, stay, ..Control::default() }, unit, busy, result: 0, read: 0 }
    }

    /// One warp: the stalls add up. Two warps fill each other's stalls.
    #[test]
    fn warps_fill_the_stalls_of_others() {
        let ops: Vec<WarpOp> = (0..4).map(|_| op(4, false, 0, 1)).collect();
        assert_eq!(simulate(&ops, 1, 1), 13);
        assert_eq!(simulate(&ops, 1, 2), 14);
        assert_eq!(simulate(&ops, 2, 1), 29);
    }

    /// A yield after a stall of one cycle makes it two cycles for the warp, but other warps use the slot.
    #[test]
    fn a_yield_costs_a_lone_warp_a_cycle() {
        let stays: Vec<WarpOp> = (0..4).map(|_| op(1, true, 0, 1)).collect();
        let yields: Vec<WarpOp> = (0..4).map(|_| op(1, false, 0, 1)).collect();
        assert_eq!((simulate(&stays, 1, 1), simulate(&yields, 1, 1)), (4, 7));
        assert_eq!((simulate(&stays, 1, 2), simulate(&yields, 1, 2)), (8, 8));
    }

    /// The warps compute on one unit, then load. If each keeps the slot, their loads start one after the other: the last one in cycle 64, with
    /// turns all between cycles 57 and 70, because the loads are four cycles apart.
    #[test]
    fn keeping_the_slot_spreads_loads() {
        let kernel = |stay: bool| {
            let mut ops: Vec<WarpOp> = (0..8).map(|_| op(2, stay, 0, 2)).collect();
            ops.push(WarpOp {
                control: Control { stall: 1, stay: true, write_barrier: Some(0), ..Control::default() },
                unit: 1,
                busy: 4,
                result: 100,
                read: 0,
            });
            ops.push(WarpOp { control: Control { wait: 1, ..op(1, true, 0, 1).control }, unit: 0, busy: 1, result: 0, read: 0 });
            ops
        };
        let (stays, turns) = (simulate(&kernel(true), 1, 4), simulate(&kernel(false), 1, 4));
        assert!(stays < turns, "greedy {stays}, round robin {turns}");
    }
}
