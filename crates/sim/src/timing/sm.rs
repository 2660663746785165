//! One multiprocessor: sub-partitions that issue an instruction each cycle, from warps whose next one may go.
//!
//! A warp may issue when its stall count is over, the scoreboards that it waits for are released, and its pipe, the register banks and
//! the memory unit take more. A sub-partition stays with a warp as long as its control says so and it can go on; else the oldest
//! warp goes. Results of fixed latency are not looked at: keeping them apart is what stall counts are for.

use rustc_hash::FxHashMap;

use super::code::{Figures, Op, PIPES, Pipe, Place, Turn, Work};
use super::memory::{Cache, MemorySystem, Surroundings};
use super::trace::{BlockTrace, Event, Trace};
use super::{Reason, Stalls};

const SCOREBOARDS: usize = 6;
/// Slots of the reuse cache.
const SLOTS: usize = 4;
/// Stall counts from this on say something else unless the warp yields.
const FIRST_ODD_STALL: u8 = 12;
const NEVER: u64 = u64::MAX;

/// A warp on its way through its events.
struct RunningWarp<'t> {
    events: &'t [Event],
    at: usize,
    block: usize,
    part: usize,
    /// When the next instruction may issue as far as the warp itself is concerned, and why not before.
    ready: u64,
    stalled_until: u64,
    reason: Reason,
    last_issue: u64,
    /// Release of each scoreboard and the operation that set it.
    scoreboards: [(u64, u32); SCOREBOARDS],
    /// When its asynchronous copies are done.
    copied: u64,
}

/// A block whose warps have not all ended.
struct RunningBlock {
    left: usize,
    /// Warps that wait at the barrier, and when the last of them was counted.
    waiting: Vec<usize>,
}

/// A sub-partition.
struct Part {
    pipes: [u64; PIPES],
    banks: Vec<u64>,
    /// Who issued last, and whether the sub-partition stays with it.
    last: Option<usize>,
    stays: bool,
    /// Register in each slot of the reuse cache; of the warp that issued last.
    reuse: [Option<u16>; SLOTS],
    warps: Vec<usize>,
}

/// What came of a run.
pub struct Outcome {
    pub cycles: u64,
    pub stalls: Stalls,
    pub instructions: u64,
}

pub struct Multiprocessor<'t> {
    figures: &'t Figures,
    trace: &'t Trace,
    memory: MemorySystem<'t>,
    code: Cache,
    parts: Vec<Part>,
    warps: Vec<RunningWarp<'t>>,
    blocks: Vec<RunningBlock>,
    barrier_unit: u64,
    stalls: FxHashMap<Reason, u64>,
    issued: u64,
    end: u64,
}

impl<'t> Multiprocessor<'t> {
    pub fn new(figures: &'t Figures, trace: &'t Trace, around: Surroundings) -> Multiprocessor<'t> {
        let costs = figures.costs;
        let part = || Part {
            pipes: [0; PIPES],
            banks: vec![0; costs.register_banks as usize],
            last: None,
            stays: false,
            reuse: [None; SLOTS],
            warps: Vec::new(),
        };
        Multiprocessor {
            figures,
            trace,
            memory: MemorySystem::new(figures, trace, around),
            code: Cache::new((costs.code_bytes / costs.line_bytes) as usize),
            parts: (0..figures.machine.schedulers).map(|_| part()).collect(),
            warps: Vec::new(),
            blocks: Vec::new(),
            barrier_unit: 0,
            stalls: FxHashMap::default(),
            issued: 0,
            end: 0,
        }
    }

    /// Runs blocks, of which `resident` at a time.
    pub fn run(mut self, blocks: &'t [BlockTrace], resident: usize) -> Outcome {
        let mut waiting = blocks.iter();
        for block in waiting.by_ref().take(resident.max(1)) {
            self.start(block, 0);
        }
        let mut now = 0;
        loop {
            let mut has_issued = false;
            for part in 0..self.parts.len() {
                let Some(warp) = self.choose(part, now) else { continue };
                has_issued = true;
                if self.issue(warp, now)
                    && let Some(block) = waiting.next()
                {
                    self.start(block, now + u64::from(self.figures.costs.block_start));
                }
            }
            now = if has_issued { now + 1 } else { self.next_time(now) };
            if now == NEVER {
                break;
            }
        }
        Outcome { cycles: self.end.max(self.memory.idle()), stalls: Stalls::of(self.stalls, self.trace), instructions: self.issued }
    }

    fn start(&mut self, block: &'t BlockTrace, now: u64) {
        let number = self.blocks.len();
        self.blocks.push(RunningBlock { left: block.warps.len(), waiting: Vec::new() });
        for (position, events) in block.warps.iter().enumerate() {
            let part = (position + number * block.warps.len()) % self.parts.len();
            let warp = RunningWarp {
                events,
                at: 0,
                block: number,
                part,
                ready: now,
                stalled_until: now,
                reason: Reason::Start,
                last_issue: now,
                scoreboards: [(0, 0); SCOREBOARDS],
                copied: 0,
            };
            self.parts[part].warps.push(self.warps.len());
            self.warps.push(warp);
        }
    }

    fn op(&self, warp: &RunningWarp<'_>) -> &'t Op {
        &self.trace.ops[warp.events[warp.at].op as usize]
    }

    /// When the units take the next instruction of a warp, and which unit is last.
    fn units_ready(&self, part: &Part, op: &Op) -> (u64, Reason) {
        let pipe = |pipe: Pipe| if pipe == Pipe::None { 0 } else { part.pipes[pipe as usize] };
        let (mut ready, place) = match op.place {
            Place::One(one) => (pipe(one), one),
            Place::EitherHalf => (pipe(Pipe::Heavy).min(pipe(Pipe::Light)), Pipe::Heavy),
            Place::BothHalves => (pipe(Pipe::Heavy).max(pipe(Pipe::Light)), Pipe::Heavy),
        };
        let mut reason = Reason::Pipe(place);
        if !op.sources.is_empty() {
            let banks = part.banks.iter().copied().max().unwrap_or(0);
            if banks > ready {
                (ready, reason) = (banks, Reason::Banks);
            }
        }
        let memory = self.memory.accepts(op);
        if memory > ready {
            (ready, reason) = (memory, Reason::Pipe(Pipe::Memory));
        }
        (ready, reason)
    }

    /// The warp that a sub-partition issues now.
    fn choose(&self, part: usize, now: u64) -> Option<usize> {
        let part = &self.parts[part];
        let may_issue = |&warp: &usize| {
            let state = &self.warps[warp];
            state.ready <= now && self.units_ready(part, self.op(state)).0 <= now
        };
        if let Some(last) = part.last.filter(|last| part.stays && part.warps.contains(last))
            && may_issue(&last)
        {
            return Some(last);
        }
        // Loose round robin: the next in age behind the one that issued last.
        let after = part.last.map_or(0, |last| part.warps.partition_point(|&warp| warp <= last));
        let (old, young) = part.warps.split_at(after);
        young.iter().chain(old).copied().find(may_issue)
    }

    /// The next cycle at which something can happen.
    fn next_time(&self, now: u64) -> u64 {
        let times = self.parts.iter().flat_map(|part| {
            part.warps.iter().filter(|&&warp| self.warps[warp].ready != NEVER).map(move |&warp| {
                let state = &self.warps[warp];
                state.ready.max(self.units_ready(part, self.op(state)).0)
            })
        });
        times.min().map_or(NEVER, |time| time.max(now + 1))
    }

    /// Issues the next instruction of a warp; whether its block has ended.
    fn issue(&mut self, number: usize, now: u64) -> bool {
        let trace = self.trace;
        let (part_number, event) = (self.warps[number].part, self.warps[number].events[self.warps[number].at]);
        let op = &trace.ops[event.op as usize];
        self.account(number, now);
        self.issued += 1;
        self.occupy(part_number, number, op, now);
        let footprint = event.footprint.map(|index| &trace.footprints[index as usize]);
        let (read, result) = match &op.work {
            Work::None => {
                let time = op.time.map_or((1, 1), |time| (u64::from(time.read), u64::from(time.least)));
                (now + time.0, now + time.1)
            }
            Work::CopyFence => (now + 1, self.warps[number].copied.max(now + 1)),
            work => {
                let done = self.memory.take(op, footprint, now);
                if matches!(work, Work::Access(access) if access.is_copy) {
                    self.warps[number].copied = self.warps[number].copied.max(done.result);
                }
                (done.read, done.result)
            }
        };
        let warp = &mut self.warps[number];
        for (scoreboard, release) in [(op.control.write_barrier, result), (op.control.read_barrier, read)] {
            if let Some(entry) = scoreboard.and_then(|index| warp.scoreboards.get_mut(usize::from(index)))
                && release > entry.0
            {
                *entry = (release, event.op);
            }
        }
        warp.last_issue = now;
        warp.at += 1;
        if warp.at == warp.events.len() {
            return self.finish(number, now);
        }
        self.prepare(number, op, event, now);
        if op.turn == Turn::Barrier {
            self.arrive(number, now);
        } else if op.turn == Turn::Arrive {
            self.barrier_unit = self.barrier_unit.max(now) + u64::from(self.figures.costs.barrier_arrival);
        }
        false
    }

    /// Says where the time since a warp's last instruction went.
    fn account(&mut self, number: usize, now: u64) {
        let warp = &self.warps[number];
        let part = &self.parts[warp.part];
        let next = warp.last_issue + 1;
        let stalled = warp.stalled_until.min(now).saturating_sub(next);
        let own = warp.ready.min(now).saturating_sub(warp.stalled_until.max(next));
        let shared = now.saturating_sub(warp.ready.max(next));
        let (units, unit) = self.units_ready(part, self.op(warp));
        let unit = if units + 1 >= now && units > warp.ready { unit } else { Reason::OtherWarp };
        for (reason, cycles) in [(Reason::StallCount, stalled), (warp.reason, own), (unit, shared)] {
            if cycles > 0 {
                *self.stalls.entry(reason).or_default() += cycles;
            }
        }
    }

    /// Keeps pipe and register banks busy.
    fn occupy(&mut self, part: usize, warp: usize, op: &Op, now: u64) {
        let part = &mut self.parts[part];
        let until = now + u64::from(op.busy);
        let [heavy, light] = [Pipe::Heavy as usize, Pipe::Light as usize];
        match op.place {
            Place::One(Pipe::None) => {}
            Place::One(pipe) => part.pipes[pipe as usize] = until,
            Place::EitherHalf => {
                let half = if part.pipes[light] <= now { light } else { heavy };
                part.pipes[half] = until;
            }
            Place::BothHalves => (part.pipes[heavy], part.pipes[light]) = (until, until),
        }
        if part.last != Some(warp) {
            part.reuse = [None; SLOTS];
        }
        let mut read: Vec<u16> = Vec::new();
        for source in &op.sources {
            let slot = usize::from(source.slot) % SLOTS;
            if part.reuse[slot] != Some(source.first) {
                read.extend((source.first..source.first + source.count).filter(|register| !read.contains(register)).collect::<Vec<u16>>());
            }
            part.reuse[slot] = source.reuse.then_some(source.first);
        }
        let banks = part.banks.len();
        for register in read {
            let bank = &mut part.banks[usize::from(register) % banks];
            *bank = (*bank).max(now) + 1;
        }
        part.last = Some(warp);
        part.stays = op.control.stay;
    }

    /// Works out when a warp can issue its next instruction.
    fn prepare(&mut self, number: usize, op: &Op, event: Event, now: u64) {
        let costs = self.figures.costs;
        let warp = &self.warps[number];
        let next = self.op(warp);
        let stall = match op.control {
            control if control.stay && control.stall >= FIRST_ODD_STALL => 1,
            control if control.stay => u64::from(control.stall).max(1),
            control => u64::from(control.stall).max(2),
        };
        let is_taken = next.address != op.address + INSTRUCTION_BYTES;
        let stalled_until = now + stall;
        let (mut ready, mut reason) = (stalled_until, Reason::StallCount);
        let mut later = |time: u64, why: Reason| {
            if time > ready {
                (ready, reason) = (time, why);
            }
        };
        match op.turn {
            Turn::Branch if event.is_split => later(now + u64::from(costs.diverging_branch), Reason::Branch),
            Turn::Branch | Turn::Converge if is_taken => later(now + u64::from(costs.taken_branch), Reason::Branch),
            _ => {}
        }
        later(now + u64::from(op.pause), Reason::Pause);
        for (index, &(release, setter)) in warp.scoreboards.iter().enumerate() {
            if next.wait >> index & 1 == 1 {
                later(release, Reason::Scoreboard(setter));
            }
        }
        let line = next.address / u64::from(costs.line_bytes);
        if line != op.address / u64::from(costs.line_bytes) {
            // The line behind is fetched while this one is executed.
            let fetched = now + u64::from(costs.code_line);
            for wanted in [line, line + 1] {
                if self.code.get(wanted).is_none() {
                    self.code.insert(wanted, fetched);
                }
            }
            later(self.code.get(line).unwrap_or(now), Reason::Code);
        }
        let warp = &mut self.warps[number];
        (warp.ready, warp.stalled_until, warp.reason) = (ready, stalled_until, reason);
    }

    /// A warp waits at the barrier of its block.
    fn arrive(&mut self, number: usize, now: u64) {
        let costs = self.figures.costs;
        self.barrier_unit = self.barrier_unit.max(now) + u64::from(costs.barrier_arrival);
        let block = self.warps[number].block;
        self.blocks[block].waiting.push(number);
        (self.warps[number].stalled_until, self.warps[number].ready) = (self.warps[number].ready, NEVER);
        self.warps[number].reason = Reason::Barrier;
        self.release(block);
    }

    fn release(&mut self, block: usize) {
        if self.blocks[block].waiting.len() < self.blocks[block].left {
            return;
        }
        let time = self.barrier_unit + u64::from(self.figures.costs.barrier_release);
        for warp in std::mem::take(&mut self.blocks[block].waiting) {
            let warp = &mut self.warps[warp];
            warp.ready = warp.stalled_until.max(time);
        }
    }

    /// A warp has ended; whether its block has.
    fn finish(&mut self, number: usize, now: u64) -> bool {
        let (part, block) = (self.warps[number].part, self.warps[number].block);
        self.parts[part].warps.retain(|&warp| warp != number);
        self.warps[number].ready = NEVER;
        let pending = self.warps[number].scoreboards.iter().map(|entry| entry.0).max().unwrap_or(0);
        self.end = self.end.max(now + 1).max(pending);
        self.blocks[block].left -= 1;
        if self.blocks[block].left > 0 {
            self.release(block);
        }
        self.blocks[block].left == 0
    }
}

const INSTRUCTION_BYTES: u64 = 16;
