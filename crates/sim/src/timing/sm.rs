//! Cycle-level model of one multiprocessor: sub-partitions that each issue at most one warp instruction per cycle.
//!
//! A warp is eligible when its stall count has elapsed, the scoreboards its next instruction waits for are released, and the pipe, the
//! register banks and the memory unit accept the instruction. A sub-partition keeps issuing the same warp while the control word's stay bit
//! is set and the warp is eligible; otherwise it takes the next eligible warp in round-robin order. On a machine with dual issue, an
//! instruction with a stall of 0 cycles is followed by the next one of its warp in the same cycle, if its units accept it. Fixed-latency dependences are not
//! modelled: the stall counts already cover them.
//!
//! When no sub-partition can issue, time advances to the next cycle in which one can ([`Multiprocessor::next_time`]), so long waits cost no
//! simulation time.

use rustc_hash::FxHashMap;

use super::code::{Figures, FlowEffect, PIPES, PipeUse, SharedUnitWork, SubPartitionPipe, TimedOp};
use super::memory::{FifoCache, LaunchContext, MemorySystem};
use super::trace::{BlockTrace, Event, TimingTrace};
use super::{IdleReason, Stalls};

/// Scoreboards per warp.
const SCOREBOARDS: usize = 6;
/// Slots of the operand reuse cache.
const SLOTS: usize = 4;
/// Smallest stall count that the hardware honours only without the stay bit; with the bit, such a count takes 1 cycle.
const FIRST_ODD_STALL: u8 = 12;
/// Value of [`RunningWarp::ready`] for a warp that waits at a barrier or has ended.
const NEVER: u64 = u64::MAX;

/// A resident warp and its position in its recorded instructions.
struct RunningWarp<'t> {
    events: &'t [Event],
    /// Index of the next event to issue.
    at: usize,
    /// Index into [`Multiprocessor::blocks`].
    block: usize,
    /// Index of its sub-partition.
    part: usize,
    /// Cycle from which the warp itself allows its next instruction; shared units may delay it further.
    ready: u64,
    /// Cycle until which the stall count (after a barrier: everything before the barrier) holds back the warp.
    stalled_until: u64,
    /// The constraint that determines `ready`.
    reason: IdleReason,
    last_issue: u64,
    /// For each scoreboard the cycle of its release and the index of the instruction that set it.
    scoreboards: [(u64, u32); SCOREBOARDS],
    /// Cycle in which all asynchronous copies of the warp have completed.
    copied: u64,
}

/// A resident block.
struct RunningBlock {
    /// Number of warps that have not ended.
    left: usize,
    /// Warps that wait at the barrier of the block.
    waiting: Vec<usize>,
}

/// A sub-partition: one warp scheduler with its pipes and register banks.
struct SubPartition {
    /// Cycle from which each pipe is free.
    pipes: [u64; PIPES],
    /// Cycle from which each register bank is free.
    banks: Vec<u64>,
    /// Warp that issued most recently.
    last: Option<usize>,
    /// Whether the last instruction's stay bit asks to keep issuing the same warp.
    stays: bool,
    /// Register held in each slot of the reuse cache; the slots belong to warp `last`.
    reuse: [Option<u16>; SLOTS],
    /// Resident warps of this sub-partition, oldest first.
    warps: Vec<usize>,
}

/// The result of a run.
pub struct SmRun {
    /// Cycles until the last instruction and the last memory access have completed.
    pub cycles: u64,
    pub stalls: Stalls,
    pub instructions: u64,
}

/// The state of the simulated multiprocessor.
pub struct Multiprocessor<'t> {
    figures: &'t Figures,
    trace: &'t TimingTrace,
    memory: MemorySystem<'t>,
    /// The instruction cache, by line number.
    code: FifoCache,
    parts: Vec<SubPartition>,
    warps: Vec<RunningWarp<'t>>,
    blocks: Vec<RunningBlock>,
    /// Cycle from which the barrier unit counts further arrivals.
    barrier_unit: u64,
    stalls: FxHashMap<IdleReason, u64>,
    issued: u64,
    /// Latest cycle in which a warp ended or a pending result arrived.
    end: u64,
}

impl<'t> Multiprocessor<'t> {
    /// Makes an idle multiprocessor that will replay instructions of `trace`.
    pub fn new(figures: &'t Figures, trace: &'t TimingTrace, context: LaunchContext) -> Multiprocessor<'t> {
        let costs = figures.costs;
        let part = || SubPartition {
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
            memory: MemorySystem::new(figures, trace, context),
            code: FifoCache::new((costs.code_bytes / costs.line_bytes) as usize),
            parts: (0..figures.machine.schedulers).map(|_| part()).collect(),
            warps: Vec::new(),
            blocks: Vec::new(),
            barrier_unit: 0,
            stalls: FxHashMap::default(),
            issued: 0,
            end: 0,
        }
    }

    /// Runs `blocks` with at most `resident` at a time; a block that ends is replaced by the next one.
    pub fn run(mut self, blocks: &'t [BlockTrace], resident: usize) -> SmRun {
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
                let has_second_slot = self.figures.machine.dual_issue && self.op(&self.warps[warp]).control.stall == 0;
                let mut has_ended = self.issue(warp, now);
                if has_second_slot && !has_ended && self.may_issue_second(&self.parts[part], warp, now) {
                    has_ended = self.issue(warp, now);
                }
                if has_ended && let Some(block) = waiting.next() {
                    self.start(block, now + u64::from(self.figures.costs.block_start));
                }
            }
            now = if has_issued { now + 1 } else { self.next_time(now) };
            if now == NEVER {
                break;
            }
        }
        SmRun { cycles: self.end.max(self.memory.idle()), stalls: Stalls::of(self.stalls, self.trace), instructions: self.issued }
    }

    /// Makes a block resident: its warps may issue from cycle `now` on, and are dealt to the sub-partitions in turn.
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
                reason: IdleReason::Start,
                last_issue: now,
                scoreboards: [(0, 0); SCOREBOARDS],
                copied: 0,
            };
            self.parts[part].warps.push(self.warps.len());
            self.warps.push(warp);
        }
    }

    /// Returns the next instruction of a warp.
    fn op(&self, warp: &RunningWarp<'_>) -> &'t TimedOp {
        &self.trace.ops[warp.events[warp.at].op as usize]
    }

    /// Returns the cycle from which all units accept `op`, and the unit that determines it.
    fn units_ready(&self, part: &SubPartition, op: &TimedOp) -> (u64, IdleReason) {
        let pipe = |pipe: SubPartitionPipe| if pipe == SubPartitionPipe::None { 0 } else { part.pipes[pipe as usize] };
        let (mut ready, place) = match op.pipe_use {
            PipeUse::One(one) => (pipe(one), one),
            PipeUse::EitherHalf => (pipe(SubPartitionPipe::Heavy).min(pipe(SubPartitionPipe::Light)), SubPartitionPipe::Heavy),
            PipeUse::BothHalves => (pipe(SubPartitionPipe::Heavy).max(pipe(SubPartitionPipe::Light)), SubPartitionPipe::Heavy),
        };
        let mut reason = IdleReason::Pipe(place);
        if !op.sources.is_empty() {
            let banks = part.banks.iter().copied().max().unwrap_or(0);
            if banks > ready {
                (ready, reason) = (banks, IdleReason::Banks);
            }
        }
        let memory = self.memory.accepts(op);
        if memory > ready {
            (ready, reason) = (memory, IdleReason::Pipe(SubPartitionPipe::Memory));
        }
        (ready, reason)
    }

    /// Returns whether a warp can issue its next instruction in cycle `now`.
    fn may_issue(&self, part: &SubPartition, warp: usize, now: u64) -> bool {
        let state = &self.warps[warp];
        state.ready <= now && self.units_ready(part, self.op(state)).0 <= now
    }

    /// Returns whether a warp can issue its next instruction in the cycle in which it has just issued one. Register banks deliver the
    /// operands of both.
    fn may_issue_second(&self, part: &SubPartition, warp: usize, now: u64) -> bool {
        let state = &self.warps[warp];
        state.ready <= now
            && match self.units_ready(part, self.op(state)) {
                (ready, IdleReason::Banks) => ready <= now + 1,
                (ready, _) => ready <= now,
            }
    }

    /// Returns the warp that a sub-partition issues in cycle `now`, if any is eligible.
    fn choose(&self, part: usize, now: u64) -> Option<usize> {
        let part = &self.parts[part];
        let may_issue = |&warp: &usize| self.may_issue(part, warp, now);
        if let Some(last) = part.last.filter(|last| part.stays && part.warps.contains(last))
            && may_issue(&last)
        {
            return Some(last);
        }
        // Loose round robin: the first eligible warp that is younger than the one that issued last, then the older ones.
        let after = part.last.map_or(0, |last| part.warps.partition_point(|&warp| warp <= last));
        let (old, young) = part.warps.split_at(after);
        young.iter().chain(old).copied().find(may_issue)
    }

    /// Returns the next cycle in which some warp is eligible, or `NEVER` if no warp is left.
    fn next_time(&self, now: u64) -> u64 {
        let times = self.parts.iter().flat_map(|part| {
            part.warps.iter().filter(|&&warp| self.warps[warp].ready != NEVER).map(move |&warp| {
                let state = &self.warps[warp];
                state.ready.max(self.units_ready(part, self.op(state)).0)
            })
        });
        times.min().map_or(NEVER, |time| time.max(now + 1))
    }

    /// Issues the next instruction of a warp; returns whether its block has ended.
    fn issue(&mut self, number: usize, now: u64) -> bool {
        let trace = self.trace;
        let (part_number, event) = (self.warps[number].part, self.warps[number].events[self.warps[number].at]);
        let op = &trace.ops[event.op as usize];
        self.attribute_stalls(number, now);
        self.issued += 1;
        self.occupy(part_number, number, op, now);
        let footprint = event.footprint.map(|index| &trace.footprints[index as usize]);
        let (read, result) = match &op.work {
            SharedUnitWork::None => {
                let time = op.time.map_or((1, 1), |time| (u64::from(time.read), u64::from(time.least)));
                (now + time.0, now + time.1)
            }
            SharedUnitWork::CopyFence => (now + 1, self.warps[number].copied.max(now + 1)),
            work => {
                let done = self.memory.take(op, footprint, now);
                if matches!(work, SharedUnitWork::Access(access) if access.is_copy) {
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
        self.compute_ready(number, op, event, now);
        if op.flow_effect == FlowEffect::Barrier {
            self.arrive(number, now);
        } else if op.flow_effect == FlowEffect::Arrive {
            self.barrier_unit = self.barrier_unit.max(now) + u64::from(self.figures.costs.barrier_arrival);
        }
        false
    }

    /// Attributes the cycles since the warp's last issue to reasons.
    ///
    /// They form three consecutive intervals: the stall count (until `stalled_until`), the warp's own wait (until `ready`), and a wait for
    /// a shared unit or the issue slot (until `now`).
    fn attribute_stalls(&mut self, number: usize, now: u64) {
        let warp = &self.warps[number];
        let part = &self.parts[warp.part];
        let next = warp.last_issue + 1;
        let stalled = warp.stalled_until.min(now).saturating_sub(next);
        let own = warp.ready.min(now).saturating_sub(warp.stalled_until.max(next));
        let shared = now.saturating_sub(warp.ready.max(next));
        let (units, unit) = self.units_ready(part, self.op(warp));
        // The unit is to blame only if it was busy until just now; otherwise other warps took the issue slots.
        let unit = if units + 1 >= now && units > warp.ready { unit } else { IdleReason::OtherWarp };
        for (reason, cycles) in [(IdleReason::StallCount, stalled), (warp.reason, own), (unit, shared)] {
            if cycles > 0 {
                *self.stalls.entry(reason).or_default() += cycles;
            }
        }
    }

    /// Occupies the pipe and the register banks for an issued instruction and updates the reuse cache.
    fn occupy(&mut self, part: usize, warp: usize, op: &TimedOp, now: u64) {
        let part = &mut self.parts[part];
        let until = now + u64::from(op.busy);
        let [heavy, light] = [SubPartitionPipe::Heavy as usize, SubPartitionPipe::Light as usize];
        match op.pipe_use {
            PipeUse::One(SubPartitionPipe::None) => {}
            PipeUse::One(pipe) => part.pipes[pipe as usize] = until,
            PipeUse::EitherHalf => {
                let half = if part.pipes[light] <= now { light } else { heavy };
                part.pipes[half] = until;
            }
            PipeUse::BothHalves => (part.pipes[heavy], part.pipes[light]) = (until, until),
        }
        // The reuse cache is not tagged with the warp: it is lost when another warp issues.
        if part.last != Some(warp) {
            part.reuse = [None; SLOTS];
        }
        // A register read by two operands of the instruction is fetched once.
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

    /// Computes the cycle in which a warp may issue the instruction after `op`, and the constraint that determines it.
    fn compute_ready(&mut self, number: usize, op: &TimedOp, event: Event, now: u64) {
        let costs = self.figures.costs;
        let warp = &self.warps[number];
        let next = self.op(warp);
        let stall = match op.control {
            control if control.stay && control.stall >= FIRST_ODD_STALL => 1,
            control if control.stay => u64::from(control.stall).max(u64::from(!self.figures.machine.dual_issue)),
            control => u64::from(control.stall).max(2),
        };
        let is_taken = next.address != op.address + INSTRUCTION_BYTES;
        let stalled_until = now + stall;
        let (mut ready, mut reason) = (stalled_until, IdleReason::StallCount);
        let mut later = |time: u64, why: IdleReason| {
            if time > ready {
                (ready, reason) = (time, why);
            }
        };
        match op.flow_effect {
            FlowEffect::Branch if event.is_split => later(now + u64::from(costs.diverging_branch), IdleReason::Branch),
            FlowEffect::Branch | FlowEffect::Converge if is_taken => later(now + u64::from(costs.taken_branch), IdleReason::Branch),
            _ => {}
        }
        later(now + u64::from(op.pause), IdleReason::Pause);
        for (index, &(release, setter)) in warp.scoreboards.iter().enumerate() {
            if next.wait >> index & 1 == 1 {
                later(release, IdleReason::Scoreboard(setter));
            }
        }
        let line = next.address / u64::from(costs.line_bytes);
        if line != op.address / u64::from(costs.line_bytes) {
            // Sequential prefetch: the following line is fetched while this one executes.
            let fetched = now + u64::from(costs.code_line);
            for wanted in [line, line + 1] {
                if self.code.get(wanted).is_none() {
                    self.code.insert(wanted, fetched);
                }
            }
            later(self.code.get(line).unwrap_or(now), IdleReason::Code);
        }
        let warp = &mut self.warps[number];
        (warp.ready, warp.stalled_until, warp.reason) = (ready, stalled_until, reason);
    }

    /// Registers the arrival of a warp at the barrier of its block; the warp waits until all others have arrived.
    fn arrive(&mut self, number: usize, now: u64) {
        let costs = self.figures.costs;
        self.barrier_unit = self.barrier_unit.max(now) + u64::from(costs.barrier_arrival);
        let block = self.warps[number].block;
        self.blocks[block].waiting.push(number);
        // Keeps the cycle from which the warp could have continued, so that `release` and `account` can use it.
        (self.warps[number].stalled_until, self.warps[number].ready) = (self.warps[number].ready, NEVER);
        self.warps[number].reason = IdleReason::Barrier;
        self.release(block);
    }

    /// Releases the warps at the barrier of a block if all warps of the block that still run have arrived.
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

    /// Removes a warp that has ended; returns whether its block has ended.
    fn finish(&mut self, number: usize, now: u64) -> bool {
        let (part, block) = (self.warps[number].part, self.warps[number].block);
        self.parts[part].warps.retain(|&warp| warp != number);
        self.warps[number].ready = NEVER;
        let pending = self.warps[number].scoreboards.iter().map(|entry| entry.0).max().unwrap_or(0);
        self.end = self.end.max(now + 1).max(pending);
        self.blocks[block].left -= 1;
        // The remaining warps may all be waiting for this one at the barrier.
        if self.blocks[block].left > 0 {
            self.release(block);
        }
        self.blocks[block].left == 0
    }
}

const INSTRUCTION_BYTES: u64 = 16;
