//! Predicts how long a block takes with given control words, for one warp alone and for several warps on one scheduler.
//!
//! A cycle-level simulation. A warp issues its next instruction when the stall of the previous one is over, the scoreboards that it waits
//! for are released, its unit is free, and the register banks have delivered the operands of earlier instructions. A scheduler issues one
//! instruction per cycle. It stays with a warp while the control word says so; otherwise it takes the warps in turn. Scoreboards are
//! released after the usual latency of the instruction. A block that is a loop by itself is run several times, so that waits for the
//! previous iteration count.
//!
//! For example, `FADD R1, R0, R0` with a stall of 4 followed by `FADD R2, R1, R1` takes 5 cycles for one warp. Two warps take 6 cycles,
//! because the second warp issues during the stall of the first.
//!
//! **Waits for other blocks.** When an operation of another block was started is unknown, so such a wait has no computed time. The compiler
//! that made the original order had a reason for the position of the wait. Therefore, in every new order such a wait ends no earlier than
//! the cycle in which the original order issued the instruction.

use oriole_hardware::{Hardware, SchedClass};
use oriole_isa::{Control, Instruction, RegFile, accesses};
use oriole_sched::resource::ResourceCosts;

const SCOREBOARDS: usize = 6;
const UNITS: usize = oriole_hardware::units::UNITS;
/// Number of slots of the reuse cache.
const SLOTS: usize = 4;
/// Number of iterations simulated for a loop. The first one is not counted.
const ROUNDS: usize = 3;

/// The hardware model that the prediction uses.
pub struct TimingModel<'a> {
    pub hardware: &'a Hardware<'a>,
    pub costs: &'a ResourceCosts,
    pub register_banks: usize,
}

/// The timing properties of an instruction with its control word.
#[derive(Clone, Debug)]
pub struct PredictedInst {
    /// Execution unit.
    unit: usize,
    /// Cycles for which it occupies the unit.
    busy: u64,
    /// Scoreboards that it waits for, one bit each.
    wait: u8,
    /// Scoreboards that it sets, with the cycles until their release: for its results and for its operand reads.
    sets: [(Option<u8>, u64); 2],
    /// Stall cycles before the warp's next instruction.
    stall: u64,
    /// Whether the scheduler stays with the warp.
    stays: bool,
    /// General registers that it reads: slot of the reuse cache, first register, number of registers, and whether they stay in the cache.
    sources: Vec<(usize, u16, u16, bool)>,
    /// Issue cycle in the original order, from the start of the block.
    floor: u64,
}

impl PredictedInst {
    pub fn new(instruction: &Instruction, control: Control, timing: &TimingModel<'_>) -> PredictedInst {
        let class = SchedClass::of(instruction);
        let time = timing.hardware.model.time(class);
        let usual = time.map_or(u64::from(timing.hardware.model.base_latency(class)), |time| time.usual.into());
        let read = time.map_or(1, |time| time.read.into());
        let touched = accesses(instruction);
        let sources = touched.iter().filter(|access| !access.written && access.file == RegFile::General).map(|access| {
            let slot = access.operand().and_then(|operand| instruction.reuse_slot(operand)).map(usize::from);
            let is_kept = slot.is_some_and(|slot| control.reuse >> slot & 1 == 1);
            (slot.unwrap_or(SLOTS), access.first, access.count, is_kept)
        });
        let least = if control.stay { 1 } else { 2 };
        PredictedInst {
            unit: timing.costs.unit_index(class),
            busy: timing.costs.cycles(class).max(1) as u64,
            wait: control.wait,
            sets: [(control.write_barrier, usual), (control.read_barrier, read)],
            stall: u64::from(control.stall).max(least),
            stays: control.stay,
            sources: sources.collect(),
            floor: 0,
        }
    }

    /// Sets the earliest issue cycle if the instruction waits for an operation of another block.
    pub fn not_before(&mut self, cycle: u64) {
        self.floor = cycle;
    }
}

/// The result of a prediction. Times are in cycles.
#[derive(Clone, Debug, Default)]
pub struct Prediction {
    /// Time until the last instruction is issued, plus the time until all results are available: later code may depend on either.
    pub cost: u64,
    /// Time until the last instruction is issued, for one iteration.
    pub issued: u64,
    /// Issue time of each instruction in the first warp, from the start of its last iteration.
    pub times: Vec<u64>,
    /// Whether each instruction waits for an operation of another block.
    pub waits_for_others: Vec<bool>,
}

/// The state of one warp. Times are in cycles.
struct PredictedWarp {
    at: usize,
    ready: u64,
    round_start: u64,
    releases: [u64; SCOREBOARDS],
    /// Scoreboards that were set in this block, one bit each.
    known: u8,
}

/// Simulates a block with `warps` warps on one scheduler.
pub fn run(steps: &[PredictedInst], warps: usize, is_loop: bool, banks: usize) -> Prediction {
    let rounds = if is_loop { ROUNDS } else { 1 };
    let mut scheduler = WarpScheduler {
        steps,
        total: steps.len() * rounds,
        units: [0; UNITS],
        banks: vec![0; banks.max(1)],
        cache: [None; SLOTS],
        last: 0,
        stays: false,
        warps: (0..warps).map(|_| PredictedWarp { at: 0, ready: 0, round_start: 0, releases: [0; SCOREBOARDS], known: 0 }).collect(),
        outcome: Prediction { times: vec![0; steps.len()], waits_for_others: vec![false; steps.len()], ..Prediction::default() },
        first_round: 0,
        end: 0,
    };
    scheduler.run();
    let done = scheduler.warps.iter().flat_map(|warp| warp.releases).max().unwrap_or(0).max(scheduler.end);
    let mut outcome = scheduler.outcome;
    if is_loop {
        // Late results delay the next iteration, so they are part of the counted time already.
        let counted = scheduler.end - scheduler.first_round;
        (outcome.issued, outcome.cost) = (counted / (ROUNDS as u64 - 1), 2 * counted);
    } else {
        (outcome.issued, outcome.cost) = (scheduler.end, scheduler.end + done);
    }
    outcome
}

/// The state of the scheduler and of the resources that its warps share.
struct WarpScheduler<'a> {
    steps: &'a [PredictedInst],
    total: usize,
    units: [u64; UNITS],
    banks: Vec<u64>,
    cache: [Option<u16>; SLOTS],
    last: usize,
    stays: bool,
    warps: Vec<PredictedWarp>,
    outcome: Prediction,
    /// Cycle in which all warps had finished their first iteration.
    first_round: u64,
    end: u64,
}

impl WarpScheduler<'_> {
    /// Issues all instructions of all warps.
    fn run(&mut self) {
        if self.steps.is_empty() {
            return;
        }
        let mut now = 0;
        let mut left = self.warps.len() * self.total;
        while left > 0 {
            let count = self.warps.len();
            let mut next = u64::MAX;
            let mut found = None;
            // The warp to stay with first, then the others in turn.
            let first = if self.stays { self.last } else { self.last + 1 };
            for number in (0..count).map(|step| (first + step) % count) {
                let can = self.can_issue(number);
                if can <= now {
                    found = Some(number);
                    break;
                }
                next = next.min(can);
            }
            let Some(number) = found else {
                now = next;
                continue;
            };
            self.issue(number, now);
            left -= 1;
            now += 1;
        }
    }

    /// Returns the earliest cycle in which a warp can issue its next instruction; `u64::MAX` if it is finished.
    fn can_issue(&self, number: usize) -> u64 {
        let warp = &self.warps[number];
        if warp.at == self.total {
            return u64::MAX;
        }
        let step = &self.steps[warp.at % self.steps.len()];
        let mut ready = warp.ready.max(self.units[step.unit]);
        if !step.sources.is_empty() {
            ready = self.banks.iter().fold(ready, |ready, &bank| ready.max(bank));
        }
        for index in (0..SCOREBOARDS).filter(|index| step.wait >> index & 1 == 1) {
            ready = ready.max(warp.releases[index]);
        }
        if step.wait & !warp.known != 0 { ready.max(warp.round_start + step.floor) } else { ready }
    }

    /// Issues the next instruction of a warp.
    fn issue(&mut self, number: usize, now: u64) {
        let warp = &mut self.warps[number];
        let place = warp.at % self.steps.len();
        let step = &self.steps[place];
        if number == 0 {
            self.outcome.times[place] = now - warp.round_start;
            self.outcome.waits_for_others[place] = step.wait & !warp.known != 0;
        }
        self.units[step.unit] = now + step.busy;
        if self.last != number {
            self.cache = [None; SLOTS];
        }
        let mut read: Vec<u16> = Vec::new();
        for &(slot, first, count, is_kept) in &step.sources {
            if self.cache.get(slot).copied().flatten() != Some(first) {
                read.extend((first..first + count).filter(|register| !read.contains(register)).collect::<Vec<u16>>());
            }
            if let Some(entry) = self.cache.get_mut(slot) {
                *entry = is_kept.then_some(first);
            }
        }
        let banks = self.banks.len();
        for register in read {
            let bank = &mut self.banks[usize::from(register) % banks];
            *bank = (*bank).max(now) + 1;
        }
        for (scoreboard, time) in step.sets {
            if let Some(index) = scoreboard.map(usize::from).filter(|&index| index < SCOREBOARDS) {
                warp.releases[index] = warp.releases[index].max(now + time);
                warp.known |= 1 << index;
            }
        }
        warp.ready = now + step.stall;
        warp.at += 1;
        if place + 1 == self.steps.len() {
            warp.round_start = now + 1;
            if warp.at == self.steps.len() {
                self.first_round = self.first_round.max(now + 1);
            }
        }
        (self.last, self.stays) = (number, step.stays);
        self.end = self.end.max(now + 1);
    }
}
