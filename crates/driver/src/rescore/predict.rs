//! How long a block takes with given control words, for one warp alone and for many that share a scheduler.
//!
//! A warp issues its next instruction when the stall of the last one is over, the scoreboards that it waits for are released, its unit is
//! free and the register banks have given out what earlier ones read. A scheduler issues one instruction a cycle; it stays with a
//! warp while the control word says so, else it goes round. Results and reads that scoreboards speak of come after their usual time. A block that
//! leads back to itself is run several times, so that what one round starts and the next one waits for counts.
//!
//! **Waits for what other blocks started** have no time here. Nobody knows how long ago that was, but who made the old order had a reason to
//! put the wait where it is: in no other order does it end sooner than it began in the old one.

use oriole_hardware::{Class, Model};
use oriole_isa::{Control, File, Instruction, accesses};
use oriole_sched::resource::Costs;

const SCOREBOARDS: usize = 6;
const UNITS: usize = oriole_hardware::units::UNITS;
/// Slots of the reuse cache.
const SLOTS: usize = 4;
/// Times that a block which leads back to itself is run. The first round is not counted.
const ROUNDS: usize = 3;

/// The figures of a machine.
pub struct Figures<'a> {
    pub model: &'a Model,
    pub costs: &'a Costs,
    pub register_banks: usize,
}

/// An instruction, as far as time is concerned.
#[derive(Clone, Debug)]
pub struct Step {
    unit: usize,
    busy: u64,
    wait: u8,
    sets: [(Option<u8>, u64); 2],
    stall: u64,
    stays: bool,
    /// Registers that are read: slot of the cache, first, how many, and whether they stay in the cache.
    sources: Vec<(usize, u16, u16, bool)>,
    /// Where the old order issued it, counted from the start of the block.
    floor: u64,
}

impl Step {
    pub fn new(instruction: &Instruction, control: Control, figures: &Figures<'_>) -> Step {
        let class = Class::of(instruction);
        let time = figures.model.time(class);
        let usual = time.map_or(u64::from(figures.model.base_latency(class)), |time| time.usual.into());
        let read = time.map_or(1, |time| time.read.into());
        let touched = accesses(instruction);
        let sources = touched.iter().filter(|access| !access.written && access.file == File::General).map(|access| {
            let slot = access.operand().and_then(|operand| instruction.reuse_slot(operand)).map(usize::from);
            let is_kept = slot.is_some_and(|slot| control.reuse >> slot & 1 == 1);
            (slot.unwrap_or(SLOTS), access.first, access.count, is_kept)
        });
        let least = if control.stay { 1 } else { 2 };
        Step {
            unit: figures.costs.unit(class),
            busy: figures.costs.cycles(class).max(1) as u64,
            wait: control.wait,
            sets: [(control.write_barrier, usual), (control.read_barrier, read)],
            stall: u64::from(control.stall).max(least),
            stays: control.stay,
            sources: sources.collect(),
            floor: 0,
        }
    }

    /// Not before this cycle if it waits for what other blocks started.
    pub fn not_before(&mut self, cycle: u64) {
        self.floor = cycle;
    }
}

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Cycles until the last is issued and until all results are there, added up: those behind may need either.
    pub cost: u64,
    /// Cycles until the last is issued, for one round.
    pub issued: u64,
    /// When the first warp issued each instruction, counted from the start of its last round.
    pub times: Vec<u64>,
    /// Which instructions wait for what other blocks started.
    pub waits_for_others: Vec<bool>,
}

struct Warp {
    at: usize,
    ready: u64,
    round_start: u64,
    releases: [u64; SCOREBOARDS],
    /// Scoreboards that were set in the block, one bit each.
    known: u8,
}

/// Runs a block with as many warps on a scheduler.
pub fn run(steps: &[Step], warps: usize, is_loop: bool, banks: usize) -> Outcome {
    let rounds = if is_loop { ROUNDS } else { 1 };
    let mut scheduler = Scheduler {
        steps,
        total: steps.len() * rounds,
        units: [0; UNITS],
        banks: vec![0; banks.max(1)],
        cache: [None; SLOTS],
        last: 0,
        stays: false,
        warps: (0..warps).map(|_| Warp { at: 0, ready: 0, round_start: 0, releases: [0; SCOREBOARDS], known: 0 }).collect(),
        outcome: Outcome { times: vec![0; steps.len()], waits_for_others: vec![false; steps.len()], ..Outcome::default() },
        first_round: 0,
        end: 0,
    };
    scheduler.run();
    let done = scheduler.warps.iter().flat_map(|warp| warp.releases).max().unwrap_or(0).max(scheduler.end);
    let mut outcome = scheduler.outcome;
    if is_loop {
        // The next round sees what is late.
        let counted = scheduler.end - scheduler.first_round;
        (outcome.issued, outcome.cost) = (counted / (ROUNDS as u64 - 1), 2 * counted);
    } else {
        (outcome.issued, outcome.cost) = (scheduler.end, scheduler.end + done);
    }
    outcome
}

struct Scheduler<'a> {
    steps: &'a [Step],
    total: usize,
    units: [u64; UNITS],
    banks: Vec<u64>,
    cache: [Option<u16>; SLOTS],
    last: usize,
    stays: bool,
    warps: Vec<Warp>,
    outcome: Outcome,
    /// When all warps had ended their first round.
    first_round: u64,
    end: u64,
}

impl Scheduler<'_> {
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
            // The one that is stayed with, then the others in turn.
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
