//! Tracks the instructions in flight along one path and checks every new register access against them.
//!
//! An instruction is in flight until its results are written and its operands are read. For each register, the tracker keeps a list of the
//! accesses in flight. Each register access of a newly issued instruction is checked against that list: read-after-write, write-after-read
//! and write-after-write.
//!
//! Both extremes of timing are covered by one walk. The clock advances by the stall counts only, as if no wait ever took time, so fixed
//! latencies are checked at the earliest possible issue. A variable-latency access stays in flight until its scoreboard is waited for,
//! however many cycles pass, as if it took forever.
//!
//! A scoreboard is a counter: waiting for zero waits for all earlier setters. Instructions of one in-order group
//! ([`HazardStep::result_order_group`] for results, [`HazardStep::read_order_group`] for operand reads) complete in issue order, so a wait for one of
//! them also covers the earlier ones.
//!
//! Each access carries the mask of threads that execute it. Only accesses of common threads conflict; scoreboards are shared by the warp.
//!
//! ```text
//! 0: LDG R4, [R2]       sets SB0, stall 2   in flight: 0 writes R4 until SB0, reads R2 until SB0
//! 1: FADD R5, R6, R6    stall 1             in flight: + 1 writes R5, ready 4 cycles after issue
//! 2: FADD R7, R5, R5                        TooSoon: reads R5 1 cycle after instruction 1, 4 are needed
//! 3: FADD R8, R4, R4                        NotWaited: reads R4 without waiting for SB0
//! ```

mod compact;
mod waits;

use oriole_hardware::{DependenceKind, Model};
use oriole_isa::{Control, RegFile};
use smallvec::SmallVec;

use super::boundary::{BoundaryInst, BoundaryState, OpenAccess, Pending, share_scoreboards};
use super::lanes::{ALL, Mask, Pauses};
use super::reuse::{self, ReuseCacheContents};
use super::signals::ScoreboardSets;
use super::step::{HazardAccess, HazardStep, WarpgroupRole};
use super::{Dependence, HazardFinding, HazardRegister, Problem, REGISTERS};

/// Upper bound of all fixed latencies, in cycles: older instructions of fixed latency are no longer in flight.
pub(super) const MAX_FIXED_LATENCY: i64 = 64;
/// The six scoreboards of a warp, and the counter of warpgroup matrix-product groups (`gsb0`) as a seventh.
const SCOREBOARDS: usize = 7;
/// Cycles from the issue of a block barrier until the warp stops at it.
const BARRIER_CYCLES: i64 = 5;
/// Maximum number of in-order groups.
pub(super) const GROUPS: usize = 18;
/// Index of the counter of matrix-product groups among the scoreboards.
const MATRIX_GROUPS: usize = SCOREBOARDS - 1;
/// Maximum number of reads tracked per register; beyond that the oldest read is dropped. Bounds the cost where many paths merge.
const MAX_READS: usize = 8;
/// Number of most recent accesses of a register among which reads are counted against [`MAX_READS`].
const READ_WINDOW: usize = 64;
/// Highest count of a scoreboard. `DEPBAR.LE` cannot refer to older setters individually.
const DEEPEST_COUNT: usize = 64;
/// Maximum of [`BoundaryInst::commits`]; no wait leaves more groups of matrix products pending.
pub(super) const MAX_COMMITS: u8 = 16;
/// Minimum number of recorded instructions before [`Tracker::compact`] removes those that no longer matter.
const MIN_COMPACT: usize = 512;

/// An instruction in flight on the current path.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    step: u32,
    /// Cycle of issue; negative for instructions carried in from predecessors.
    issued: i64,
    /// Index of the per-thread pause totals at issue, see [`Pauses`].
    pauses: u32,
    /// Threads that executed it together.
    group: Mask,
    /// Position in issue order on this path; 0 if the order is unknown after a merge of paths.
    rank: u32,
    /// See [`BoundaryInst::in_order_guarantee`].
    in_order_guarantee: bool,
    /// See [`BoundaryInst::commits`].
    commits: u8,
    results: Pending,
    reads: Pending,
}

/// An access in flight to one register.
#[derive(Clone, Copy, Debug)]
struct TrackedAccess {
    /// Index into [`Tracker::in_flight`].
    flight: u32,
    access: HazardAccess,
    write: bool,
    lanes: Mask,
}

/// The state of one path. All methods must be passed the same slice of steps.
pub struct Tracker<'a> {
    model: &'a Model,
    /// Clock in cycles: the sum of the stall counts so far.
    now: i64,
    /// Rank of the next instruction.
    rank: u32,
    in_flight: Vec<InFlight>,
    /// Number of recorded instructions at which the next compaction runs.
    compact_at: usize,
    /// For each register the accesses in flight.
    entries: Vec<SmallVec<[TrackedAccess; 4]>>,
    /// Registers whose list may be non-empty; may contain duplicates.
    touched: Vec<HazardRegister>,
    /// For each scoreboard the instructions that set it and have not been waited for, in issue order.
    setters: [Vec<u32>; SCOREBOARDS],
    /// For each scoreboard the instructions that do not set it themselves, but that a later instruction of the same in-order group covers
    /// with it.
    covered_by_later: [Vec<u32>; SCOREBOARDS],
    /// For each in-order group of results the rank below which all results are complete.
    results_done: [u32; GROUPS],
    /// For each in-order group of operand reads the rank below which all reads are complete.
    reads_done: [u32; GROUPS],
    /// Rank of the last write of each predicate.
    predicate_written: [u32; 8],
    pauses: Pauses,
    cache: ReuseCacheContents,
    /// Scoreboards that were set so far, one bit each.
    scoreboards_set: u8,
    /// A block barrier that is draining a memory queue: the queue, the barrier's rank, and its cycle of issue.
    draining: Option<(usize, u32, i64)>,
    /// In-order group of warpgroup matrix products; `None` until the first one is seen.
    matrix_order: Option<u8>,
    /// Accesses of general registers that were not complete at the last fence of matrix products, in ascending order.
    open_at_fence: Vec<OpenAccess>,
    /// Whether the current instruction surely executes: it has no guard, or the active threads are known.
    always_executes: bool,
}

impl<'a> Tracker<'a> {
    /// Makes a tracker with nothing in flight.
    pub fn new(model: &'a Model) -> Self {
        Tracker {
            model,
            now: 0,
            rank: 0,
            in_flight: Vec::new(),
            compact_at: MIN_COMPACT,
            entries: vec![SmallVec::new(); REGISTERS],
            touched: Vec::new(),
            setters: Default::default(),
            covered_by_later: Default::default(),
            results_done: [0; GROUPS],
            reads_done: [0; GROUPS],
            predicate_written: [0; 8],
            pauses: Pauses::new(),
            cache: ReuseCacheContents::default(),
            scoreboards_set: 0,
            draining: None,
            matrix_order: None,
            open_at_fence: Vec::new(),
            always_executes: true,
        }
    }

    /// Starts a new path with the given state.
    pub fn enter(&mut self, steps: &[HazardStep], boundary: &BoundaryState) {
        let carried = &boundary.in_flight;
        self.pauses.clear();
        self.cache.kept.clone_from(&boundary.kept);
        self.scoreboards_set = boundary.scoreboards_set;
        for register in self.touched.drain(..) {
            self.entries[usize::from(register.0)].clear();
        }
        self.in_flight.clear();
        self.setters = Default::default();
        self.covered_by_later = Default::default();
        self.draining = None;
        self.open_at_fence.clone_from(&boundary.open_at_fence);
        (self.now, self.rank) = (0, carried.iter().map(|one| one.rank + 1).max().unwrap_or(1));
        (self.results_done, self.reads_done) = ([0; GROUPS], [0; GROUPS]);
        // A guard predicate may have been written anywhere before: do not pair opposite guards across the boundary.
        self.predicate_written = [self.rank; 8];
        let mut in_order: SmallVec<[&BoundaryInst; 16]> = carried.iter().collect();
        in_order.sort_by_key(|one| one.rank);
        for &&BoundaryInst { step, age, results, reads, rank, in_order_guarantee, commits } in &in_order {
            self.record_in_flight(
                steps,
                InFlight { step, issued: -i64::from(age), pauses: 0, group: ALL, rank, in_order_guarantee, commits, results, reads },
                ALL,
            );
        }
    }

    /// Returns the state at the end of the path.
    pub fn leave(&mut self, steps: &[HazardStep]) -> BoundaryState {
        self.end_draining();
        let used = self.used();
        let mut carried: Vec<BoundaryInst> = self
            .in_flight
            .iter()
            .zip(&used)
            // Recent instructions are kept even if no list refers to them: after a merge with a path on which they are still pending, a
            // wait for them covers earlier instructions of their in-order group.
            .filter(|(flight, used)| **used || self.now - flight.issued < MAX_FIXED_LATENCY)
            .map(|(flight, _)| BoundaryInst {
                step: flight.step,
                age: (self.now - flight.issued).min(MAX_FIXED_LATENCY) as u8,
                results: self.results_of(steps, flight),
                reads: self.reads_of(steps, flight),
                rank: flight.rank,
                in_order_guarantee: flight.in_order_guarantee,
                commits: flight.commits,
            })
            .filter(|one| {
                let fixed = i64::from(one.age) < MAX_FIXED_LATENCY;
                let step = &steps[one.step as usize];
                (one.results != Pending::Done && step.results_wait) || (one.reads != Pending::Done && step.sources_wait) || fixed
            })
            .collect();
        carried.sort_by_key(|one| one.rank);
        share_scoreboards(steps, &mut carried);
        // Renumber ranks densely from 1, so that equal states compare equal and the fixed point is reached.
        let (mut last, mut dense) = (0, 0);
        for one in &mut carried {
            dense += u32::from(one.rank != last);
            last = one.rank;
            one.rank = dense;
        }
        carried.sort_by_key(|one| (one.step, std::cmp::Reverse(one.rank)));
        // A loop body may have the same instruction in flight several times: keep the youngest with the joined state.
        carried.dedup_by(|older, one| {
            let same = one.step == older.step;
            if same {
                let rank = one.rank;
                *one = BoundaryInst { rank, in_order_guarantee: one.in_order_guarantee, ..one.merge(*older) };
            }
            same
        });
        let kept = reuse::merge(&self.cache.kept, &[]);
        BoundaryState { in_flight: carried, kept, scoreboards_set: self.scoreboards_set, open_at_fence: self.open_at_fence.clone() }
    }

    /// Issues the next instruction of the path for the whole warp; hazards are passed to `report`.
    pub fn issue(&mut self, steps: &[HazardStep], number: usize, report: &mut dyn FnMut(HazardFinding)) {
        self.advance(steps, number, (ALL, ALL), !steps[number].guarded, report);
    }

    /// Issues the next instruction for the threads of `group`; its guard holds for the threads of `active`.
    pub(crate) fn issue_for(
        &mut self,
        steps: &[HazardStep],
        number: usize,
        group: Mask,
        active: Mask,
        report: &mut dyn FnMut(HazardFinding),
    ) {
        self.advance(steps, number, (group, active), true, report);
    }

    /// Returns the number of recorded instructions.
    #[cfg(test)]
    pub(super) fn in_flight_count(&self) -> usize {
        self.in_flight.len()
    }

    /// Advances the path by one instruction: waits first, then checks its accesses, then records it as in flight.
    fn advance(
        &mut self,
        steps: &[HazardStep],
        number: usize,
        (group, active): (Mask, Mask),
        always_executes: bool,
        report: &mut dyn FnMut(HazardFinding),
    ) {
        self.always_executes = always_executes;
        let step = &steps[number];
        if self.in_flight.len() >= self.compact_at {
            self.compact(steps);
            self.compact_at = MIN_COMPACT.max(2 * self.in_flight.len());
        }
        self.pauses.resume(group, self.now);
        self.end_draining();
        for scoreboard in 0..6 {
            if (step.control.wait | step.also_waits) >> scoreboard & 1 == 1 {
                self.wait(steps, number, scoreboard, 0, report);
            }
        }
        if let Some((scoreboard, count)) = step.count_wait {
            self.wait(steps, number, usize::from(scoreboard), count as usize, report);
        }
        if is_ignored(step.control) {
            report(HazardFinding { second: number, first: number, problem: Problem::StallIgnored { stall: step.control.stall } });
        }
        self.cache.issue(number, step, active, report);
        for access in &step.reads {
            self.check_conflicts(steps, number, *access, false, reading_lanes(step, *access, group, active), report);
        }
        for access in &step.writes {
            self.check_conflicts(steps, number, *access, true, active, report);
        }
        self.check_released(steps, number, report);
        match step.warpgroup {
            Some(WarpgroupRole::Fence) => self.note_open_accesses(steps),
            Some(WarpgroupRole::Product) => self.check_fence(step, number, report),
            None => {}
        }
        if let Some(queue) = step.drains_queue {
            self.draining = Some((usize::from(queue), self.rank, self.now));
        }
        // A write barrier is released after the operands were read, so it also signals the reads.
        let (write, read) = step.sets_scoreboards;
        let results = if step.writes.is_empty() && write == 0 { Pending::Done } else { Pending::Until(ScoreboardSets::any_of(write)) };
        let reads = if step.reads.is_empty() { Pending::Done } else { Pending::Until(ScoreboardSets::any_of(write | read)) };
        let (issued, pauses, rank) = (self.now, self.pauses.current(), self.rank);
        self.record_in_flight(
            steps,
            InFlight { step: number as u32, issued, pauses, group, rank, in_order_guarantee: true, commits: 0, results, reads },
            active,
        );
        if always_executes && step.warpgroup == Some(WarpgroupRole::Product) && write >> MATRIX_GROUPS & 1 == 1 {
            let products = self.in_flight.iter_mut().filter(|flight| steps[flight.step as usize].warpgroup == Some(WarpgroupRole::Product));
            products.for_each(|flight| flight.commits = (flight.commits + 1).min(MAX_COMMITS));
        }
        self.scoreboards_set |= write | read;
        for access in step.writes.iter().filter(|access| access.register.file() == RegFile::Predicate) {
            self.predicate_written[usize::from(access.register.0 % 8)] = self.rank;
        }
        self.rank += 1;
        self.now += i64::from(cycles_of(step.control));
    }

    /// Notes the registers whose accesses by other instructions than matrix products are not complete at a fence of matrix products.
    fn note_open_accesses(&mut self, steps: &[HazardStep]) {
        self.open_at_fence.clear();
        for &register in self.touched.iter().filter(|register| register.file() == RegFile::General) {
            for entry in &self.entries[usize::from(register.0)] {
                let flight = &self.in_flight[entry.flight as usize];
                let step = &steps[flight.step as usize];
                let is_open = match entry.write {
                    true => step.results_wait && self.results_of(steps, flight) != Pending::Done,
                    false => step.sources_wait && self.reads_of(steps, flight) != Pending::Done,
                };
                if is_open && step.warpgroup.is_none() {
                    self.open_at_fence.push(OpenAccess { register, step: flight.step, is_write: entry.write });
                }
            }
        }
        self.open_at_fence.sort_unstable();
        self.open_at_fence.dedup();
    }

    /// Reports registers of a matrix product that were in use at its fence, even if the warp has waited for them since: the product may
    /// access them as soon as another warp of the warpgroup issues it. Registers that the product only reads may be in use by readers.
    fn check_fence(&self, step: &HazardStep, number: usize, report: &mut dyn FnMut(HazardFinding)) {
        if self.open_at_fence.is_empty() {
            return;
        }
        let mut registers: Vec<HazardRegister> = step.reads.iter().chain(&step.writes).map(|access| access.register).collect();
        registers.sort_unstable();
        registers.dedup();
        for register in registers {
            let is_written = step.writes.iter().any(|access| access.register == register);
            let start = self.open_at_fence.partition_point(|open| open.register < register);
            let open = self.open_at_fence[start..].iter().take_while(|open| open.register == register);
            if let Some(first) = open.into_iter().find(|open| is_written || open.is_write) {
                report(HazardFinding { second: number, first: first.step as usize, problem: Problem::OpenAtFence { register } });
            }
        }
    }

    /// Reports accesses in flight to registers that the warp gives up. A result of fixed latency counts until any instruction could overwrite it.
    fn check_released(&self, steps: &[HazardStep], number: usize, report: &mut dyn FnMut(HazardFinding)) {
        let registers = steps[number].releases.clone().filter_map(|number| HazardRegister::new(RegFile::General, number));
        for register in registers {
            for entry in &self.entries[usize::from(register.0)] {
                let flight = &self.in_flight[entry.flight as usize];
                let step = &steps[flight.step as usize];
                let is_open = match entry.write {
                    true if step.results_wait => self.results_of(steps, flight) != Pending::Done,
                    true => {
                        self.now - flight.issued
                            < i64::from(self.model.max_need_by_port(DependenceKind::Waw, RegFile::General, entry.access.port))
                    }
                    false => step.sources_wait && self.reads_of(steps, flight) != Pending::Done,
                };
                if is_open {
                    let kind = if entry.write { Dependence::ReadAfterWrite } else { Dependence::WriteAfterRead };
                    let problem = Problem::ReleasedInFlight { kind, register };
                    report(HazardFinding { second: number, first: flight.step as usize, problem });
                }
            }
        }
    }

    /// Drops the accesses in flight of threads that have exited; uniform registers are kept because the warp shares them.
    pub fn end(&mut self, lanes: Mask) {
        for register in &self.touched {
            let list = &mut self.entries[usize::from(register.0)];
            if !matches!(register.file(), RegFile::Uniform | RegFile::UniformPredicate) {
                list.iter_mut().for_each(|entry| entry.lanes &= !lanes);
                list.retain(|entry| entry.lanes != 0);
            }
        }
    }

    /// A block barrier stops the warp a few cycles after issue. By then every earlier memory instruction in the queue has read its
    /// operands.
    fn end_draining(&mut self) {
        if let Some((queue, rank, issued)) = self.draining
            && self.now - issued >= BARRIER_CYCLES
        {
            self.reads_done[queue] = rank;
            self.draining = None;
        }
    }

    /// Returns for each recorded instruction whether a later one can still conflict with it: some register list or scoreboard refers to it.
    fn used(&self) -> Vec<bool> {
        let mut used = vec![false; self.in_flight.len()];
        let entries = self.touched.iter().flat_map(|register| &self.entries[usize::from(register.0)]);
        entries.map(|entry| entry.flight).chain(self.setters.iter().flatten().copied()).for_each(|flight| used[flight as usize] = true);
        used
    }

    /// Records an instruction as in flight: with its scoreboards, and with each register that it accesses.
    fn record_in_flight(&mut self, steps: &[HazardStep], flight: InFlight, active: Mask) {
        let step = &steps[flight.step as usize];
        let number = self.in_flight.len() as u32;
        let mask_of = |pending: Pending| if let Pending::Until(signals) = pending { signals.scoreboards() } else { 0 };
        let set = step.sets_scoreboards.0 | step.sets_scoreboards.1;
        for scoreboard in 0..SCOREBOARDS {
            if (mask_of(flight.results) | mask_of(flight.reads)) >> scoreboard & 1 == 1 {
                // A scoreboard in the pending mask that the instruction does not set comes from a later one of its in-order group.
                let list = if set >> scoreboard & 1 == 1 { &mut self.setters } else { &mut self.covered_by_later };
                list[scoreboard].push(number);
            }
        }
        if step.sets_scoreboards.0 >> MATRIX_GROUPS & 1 == 1 {
            self.matrix_order = step.result_order_group;
        }
        self.in_flight.push(flight);
        let live_reads = flight.reads != Pending::Done;
        let reads = step.reads.iter().filter(|_| live_reads).map(|&access| TrackedAccess {
            flight: number,
            access,
            write: false,
            lanes: reading_lanes(step, access, flight.group, active),
        });
        let live_results = flight.results != Pending::Done;
        let writes =
            step.writes.iter().filter(|_| live_results).map(|&access| TrackedAccess { flight: number, access, write: true, lanes: active });
        for entry in reads.chain(writes).filter(|entry| entry.lanes != 0) {
            let list = &mut self.entries[usize::from(entry.access.register.0)];
            if list.is_empty() {
                self.touched.push(entry.access.register);
            }
            if list.len() >= MAX_READS && !entry.write {
                // Calls of a function from very many sites would otherwise make the list, and the check, quadratic. Reads that no later
                // instruction has to wait for go first: they are complete after a few cycles.
                let recent = list.len().saturating_sub(READ_WINDOW);
                let readers: SmallVec<[usize; READ_WINDOW]> = (recent..list.len()).filter(|&at| !list[at].write).collect();
                if readers.len() >= MAX_READS {
                    let waits = |at: usize| steps[self.in_flight[list[at].flight as usize].step as usize].sources_wait;
                    list.remove(readers.iter().copied().find(|&at| !waits(at)).unwrap_or(readers[0]));
                }
            }
            list.push(entry);
        }
    }

    /// Returns when the results of an instruction are complete, including what its in-order group implies.
    fn results_of(&self, steps: &[HazardStep], flight: &InFlight) -> Pending {
        match steps[flight.step as usize].result_order_group {
            Some(group) if flight.rank < self.results_done[usize::from(group)] => Pending::Done,
            _ => flight.results,
        }
    }

    /// Returns when the operand reads of an instruction are complete. Written results imply that the operands were read.
    fn reads_of(&self, steps: &[HazardStep], flight: &InFlight) -> Pending {
        match steps[flight.step as usize].read_order_group {
            Some(queue) if flight.rank < self.reads_done[usize::from(queue)] => Pending::Done,
            _ if self.results_of(steps, flight) == Pending::Done && !steps[flight.step as usize].writes.is_empty() => Pending::Done,
            _ => flight.reads,
        }
    }

    /// Returns whether the two guards are opposites on an unchanged predicate, so that no thread executes both instructions.
    fn excludes(&self, flight: &InFlight, before: &HazardStep, after: &HazardStep) -> bool {
        match (before.guard, after.guard) {
            (Some((one, negated)), Some((two, other))) => {
                one == two && negated != other && self.predicate_written[usize::from(one.0 % 8)] <= flight.rank
            }
            _ => false,
        }
    }

    /// Checks a new access against all accesses in flight to its register; removes those that need no further checks.
    fn check_conflicts(
        &mut self,
        steps: &[HazardStep],
        number: usize,
        access: HazardAccess,
        write: bool,
        lanes: Mask,
        report: &mut dyn FnMut(HazardFinding),
    ) {
        let at = usize::from(access.register.0);
        if self.entries[at].is_empty() || lanes == 0 {
            return;
        }
        let mut list = std::mem::take(&mut self.entries[at]);
        list.retain(|entry| {
            if entry.lanes & lanes == 0 {
                return true;
            }
            let flight = &self.in_flight[entry.flight as usize];
            let cycles = match access.register.file() {
                RegFile::Uniform | RegFile::UniformPredicate => self.now - flight.issued,
                _ => self.pauses.age(flight.pauses, self.now - flight.issued, entry.lanes & lanes),
            };
            let kind = match (entry.write, write) {
                (true, false) => DependenceKind::Raw,
                (false, true) => DependenceKind::War,
                (true, true) => DependenceKind::Waw,
                (false, false) => return true,
            };
            let first = flight.step as usize;
            let file = access.register.file();
            let need = if steps[first].guarded {
                self.model.need_guarded(kind, file, entry.access.port, access.port)
            } else {
                self.model.need(kind, file, entry.access.port, access.port)
            };
            // The predicate result of an atomic is available once the operands were read.
            let early = steps[first].predicate_after_read && access.register.file() == RegFile::Predicate;
            let pending = if entry.write && !early { self.results_of(steps, flight) } else { self.reads_of(steps, flight) };
            let register = access.register;
            let (before, after) = (&steps[first], &steps[number]);
            // Within one in-order group the hardware itself keeps writes, and reads before writes, in order.
            let in_order = match kind {
                DependenceKind::Waw => before.result_order_group.is_some() && before.result_order_group == after.result_order_group,
                DependenceKind::War => before.read_order_group.is_some() && before.read_order_group == after.read_order_group,
                DependenceKind::Raw => false,
            };
            let excluded = self.excludes(flight, before, after);
            let kind = kind.into();
            let problem = match pending {
                _ if in_order || excluded => None,
                _ if !need.scoreboard && cycles >= i64::from(need.cycles) => None,
                _ if !need.scoreboard => Some(Problem::TooSoon { kind, register, cycles: cycles as u32, needed: u32::from(need.cycles) }),
                Pending::Done => None,
                Pending::Until(signals) if signals.is_never() => Some(Problem::NoScoreboardSet { kind, register }),
                Pending::Until(signals) => Some(Problem::NotWaited { kind, register, scoreboard: signals.example() }),
            };
            let keep = pending != Pending::Done && (need.scoreboard || cycles < MAX_FIXED_LATENCY);
            if let Some(problem) = problem {
                report(HazardFinding { second: number, first, problem });
            } else if keep && !(write && self.always_executes) {
                return true;
            }
            if !self.always_executes {
                return keep;
            }
            // Complete, reported or overwritten: for these threads later accesses need no check against this one.
            entry.lanes &= !lanes;
            entry.lanes != 0
        });
        self.entries[at] = list;
    }
}

/// Returns the threads for which a register is read. Guards and uniform predicates are read for the whole group, all other registers for
/// the active threads. Uniform registers are shared by the warp, but divergent groups hold warp-uniform values in them, so each group is
/// checked against its own accesses only.
fn reading_lanes(step: &HazardStep, access: HazardAccess, group: Mask, active: Mask) -> Mask {
    let is_guard = step.guard.is_some_and(|(guard, _)| guard == access.register) || access.register.file() == RegFile::UniformPredicate;
    if is_guard { group } else { active }
}

/// Returns whether the hardware ignores the stall count: counts of 12 and more are honoured only with yield.
fn is_ignored(control: Control) -> bool {
    control.stall >= 12 && control.stay
}

/// Returns the minimum number of cycles until the next instruction. A stall count of 0 means two cycles (many more with yield).
fn cycles_of(control: Control) -> u8 {
    match control.stall {
        _ if is_ignored(control) => 1,
        0 => 2,
        stall => stall,
    }
}
