//! What is in flight along a path, and what meets it.
//!
//! Time is counted in cycles from the stall counts alone: waiting for a scoreboard can only add to them, and the check must hold when
//! everything is as fast as it can be. An instruction is in flight until its results are there and its sources are read; for each
//! register there is a list of those in flight that touch it. A scoreboard is a counter: who waits for it waits for all that set it
//! before. Instructions of one unit that finish in order ([`Step::order`]) vouch for the earlier ones.
//!
//! A result of variable latency is in flight until its scoreboard is waited for, however long that takes, while the clock runs as if
//! nothing ever waited. So one walk covers both extremes: everything that can take long takes forever, and everything else happens at
//! the earliest time.
//!
//! Each access has a mask of threads. Only accesses of the same threads meet; uniform registers and scoreboards belong to all of them.

use oriole_hardware::{Kind, Model};
use oriole_isa::{Control, File};
use smallvec::SmallVec;

use super::lanes::{ALL, Mask, Pauses};
use super::reuse::{self, Cache, Kept};
use super::step::{Step, Touch};
use super::{Finding, Problem, REGISTERS, Register};

/// After as many cycles nothing of fixed latency is in flight.
pub(super) const LONGEST: i64 = 64;
/// Six, and the counter of groups of matrix products.
const SCOREBOARDS: usize = 7;
/// From the issue of a barrier to the time when the warp stops for it.
const BARRIER_CYCLES: i64 = 5;
/// At most as many groups of classes finish, or read, in order.
pub(super) const GROUPS: usize = 16;
const MATRIX_GROUPS: usize = SCOREBOARDS - 1;
/// How many that read a register late and announce nothing are remembered; an overwriting one offends against each of them.
const READERS: usize = 8;
/// Among so many that touch the register.
const RECENT: usize = 64;
/// The counter of a scoreboard goes no further, so older setters than that need not be remembered for a count.
const DEEPEST_COUNT: usize = 64;
/// How many flights are recorded at least before those that matter no more are thrown away.
const CROWDED: usize = 512;

/// How something of an instruction in flight becomes known to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pending {
    Done,
    /// When one of these scoreboards is waited for; none if it is announced nowhere.
    Until(u8),
}

/// An instruction in flight at the border of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    pub step: u32,
    /// Cycles since its issue, at least.
    pub age: u8,
    pub results: Pending,
    pub reads: Pending,
    /// Place in the order of issue, from 1; 0 if paths do not agree on it.
    pub rank: u32,
    /// Whether it is in flight on all paths, so that waiting for it says something about those before it.
    pub vouches: bool,
}

impl Carried {
    /// What is known if either may be the case.
    pub fn merge(self, other: Carried) -> Carried {
        let both = |one: Pending, two: Pending| match (one, two) {
            (Pending::Done, other) | (other, Pending::Done) => other,
            (Pending::Until(one), Pending::Until(two)) => Pending::Until(one & two),
        };
        Carried {
            step: self.step,
            age: self.age.min(other.age),
            results: both(self.results, other.results),
            reads: both(self.reads, other.reads),
            rank: self.rank,
            vouches: self.vouches && other.vouches,
        }
    }
}

/// What may be the case at the border of a block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Border {
    /// By number of the instruction.
    pub flights: Vec<Carried>,
    /// In the reuse cache, in ascending order.
    pub kept: Vec<Kept>,
    /// Scoreboards that were set before, one bit each.
    pub announced: u8,
}

impl Border {
    /// What may be the case if one or the other is.
    pub fn merge(&self, other: &Border) -> Border {
        Border {
            flights: merge_flights(&self.flights, &other.flights),
            kept: reuse::merge(&self.kept, &other.kept),
            announced: self.announced | other.announced,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Flight {
    step: u32,
    issued: i64,
    /// The threads' pauses then.
    pauses: u32,
    group: Mask,
    /// Place in the order of issue of this path; those carried into it from different places have none.
    rank: u32,
    vouches: bool,
    results: Pending,
    reads: Pending,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    flight: u32,
    touch: Touch,
    write: bool,
    lanes: Mask,
}

/// What is in flight on a path. All methods get the same steps.
pub struct Tracker<'a> {
    model: &'a Model,
    now: i64,
    rank: u32,
    flights: Vec<Flight>,
    /// How many of them are too many.
    crowded: usize,
    /// For each register who touches it.
    entries: Vec<SmallVec<[Entry; 4]>>,
    touched: Vec<Register>,
    /// For each scoreboard who sets it and is not known to be done.
    setters: [Vec<u32>; SCOREBOARDS],
    /// For each scoreboard whom a later one in order, which sets it, vouches for.
    vouched: [Vec<u32>; SCOREBOARDS],
    /// For each order group the rank up to which all results, all reads are done.
    results_done: [u32; GROUPS],
    reads_done: [u32; GROUPS],
    /// When each predicate was written last, by rank.
    predicate_written: [u32; 8],
    pauses: Pauses,
    cache: Cache,
    /// Scoreboards that were set so far.
    announced: u8,
    /// The queue that a barrier empties, its rank, and its issue.
    draining: Option<(usize, u32, i64)>,
    /// The order in which groups of matrix products end, once one was seen.
    matrix_order: Option<u8>,
    /// Whether the present instruction executes for sure: it has no guard, or it is known for which threads the guard holds.
    executes_surely: bool,
}

impl<'a> Tracker<'a> {
    /// Nothing in flight.
    pub fn new(model: &'a Model) -> Self {
        Tracker {
            model,
            now: 0,
            rank: 0,
            flights: Vec::new(),
            crowded: CROWDED,
            entries: vec![SmallVec::new(); REGISTERS],
            touched: Vec::new(),
            setters: Default::default(),
            vouched: Default::default(),
            results_done: [0; GROUPS],
            reads_done: [0; GROUPS],
            predicate_written: [0; 8],
            pauses: Pauses::new(),
            cache: Cache::default(),
            announced: 0,
            draining: None,
            matrix_order: None,
            executes_surely: true,
        }
    }

    /// Starts a path with these in flight.
    pub fn enter(&mut self, steps: &[Step], border: &Border) {
        let carried = &border.flights;
        self.pauses.clear();
        self.cache.kept.clone_from(&border.kept);
        self.announced = border.announced;
        for register in self.touched.drain(..) {
            self.entries[usize::from(register.0)].clear();
        }
        self.flights.clear();
        self.setters = Default::default();
        self.vouched = Default::default();
        self.draining = None;
        (self.now, self.rank) = (0, carried.iter().map(|one| one.rank + 1).max().unwrap_or(1));
        (self.results_done, self.reads_done) = ([0; GROUPS], [0; GROUPS]);
        self.predicate_written = [self.rank; 8];
        let mut in_order: SmallVec<[&Carried; 16]> = carried.iter().collect();
        in_order.sort_by_key(|one| one.rank);
        for &&Carried { step, age, results, reads, rank, vouches } in &in_order {
            self.launch(steps, Flight { step, issued: -i64::from(age), pauses: 0, group: ALL, rank, vouches, results, reads }, ALL);
        }
    }

    /// What is still in flight, by number of the instruction.
    pub fn leave(&mut self, steps: &[Step]) -> Border {
        self.end_draining();
        let used = self.used();
        let mut carried: Vec<Carried> = self
            .flights
            .iter()
            .zip(&used)
            // Young ones say of those before them that they are done, where a path on which they are not meets this one.
            .filter(|(flight, used)| **used || self.now - flight.issued < LONGEST)
            .map(|(flight, _)| Carried {
                step: flight.step,
                age: (self.now - flight.issued).min(LONGEST) as u8,
                results: self.results_of(steps, flight),
                reads: self.reads_of(steps, flight),
                rank: flight.rank,
                vouches: flight.vouches,
            })
            .filter(|one| {
                let fixed = i64::from(one.age) < LONGEST;
                let step = &steps[one.step as usize];
                (one.results != Pending::Done && step.results_wait) || (one.reads != Pending::Done && step.sources_wait) || fixed
            })
            .collect();
        carried.sort_by_key(|one| one.rank);
        share_scoreboards(steps, &mut carried);
        let (mut last, mut dense) = (0, 0);
        for one in &mut carried {
            dense += u32::from(one.rank != last);
            last = one.rank;
            one.rank = dense;
        }
        carried.sort_by_key(|one| (one.step, std::cmp::Reverse(one.rank)));
        carried.dedup_by(|older, one| {
            let same = one.step == older.step;
            if same {
                let rank = one.rank;
                *one = Carried { rank, vouches: one.vouches, ..one.merge(*older) };
            }
            same
        });
        let kept = reuse::merge(&self.cache.kept, &[]);
        Border { flights: carried, kept, announced: self.announced }
    }

    /// The next instruction of the path; what is wrong with it goes to `report`.
    pub fn issue(&mut self, steps: &[Step], number: usize, report: &mut dyn FnMut(Finding)) {
        self.advance(steps, number, (ALL, ALL), !steps[number].guarded, report);
    }

    /// The same for the threads of a group, of which the guard holds for the active ones.
    pub fn issue_for(&mut self, steps: &[Step], number: usize, group: Mask, active: Mask, report: &mut dyn FnMut(Finding)) {
        self.advance(steps, number, (group, active), true, report);
    }

    fn advance(
        &mut self,
        steps: &[Step],
        number: usize,
        (group, active): (Mask, Mask),
        executes_surely: bool,
        report: &mut dyn FnMut(Finding),
    ) {
        self.executes_surely = executes_surely;
        let step = &steps[number];
        if self.flights.len() >= self.crowded {
            self.compact(steps);
            self.crowded = CROWDED.max(2 * self.flights.len());
        }
        self.pauses.resume(group, self.now);
        self.end_draining();
        for scoreboard in 0..6 {
            if step.control.wait >> scoreboard & 1 == 1 {
                self.wait(steps, number, scoreboard, 0, report);
            }
        }
        if let Some((scoreboard, count)) = step.count_wait {
            self.wait(steps, number, usize::from(scoreboard), count as usize, report);
        }
        if is_ignored(step.control) {
            report(Finding { second: number, first: number, problem: Problem::StallIgnored { stall: step.control.stall } });
        }
        self.cache.issue(number, step, active, report);
        for touch in &step.reads {
            self.meet(steps, number, *touch, false, reading_lanes(step, *touch, group, active), report);
        }
        for touch in &step.writes {
            self.meet(steps, number, *touch, true, active, report);
        }
        if let Some(queue) = step.queue.filter(|_| step.drains_queue) {
            self.draining = Some((usize::from(queue), self.rank, self.now));
        }
        let (write, read) = step.announces;
        let results = if step.writes.is_empty() && write == 0 { Pending::Done } else { Pending::Until(write) };
        let reads = if step.reads.is_empty() { Pending::Done } else { Pending::Until(write | read) };
        let (issued, pauses, rank) = (self.now, self.pauses.current(), self.rank);
        self.launch(steps, Flight { step: number as u32, issued, pauses, group, rank, vouches: true, results, reads }, active);
        self.announced |= write | read;
        for touch in step.writes.iter().filter(|touch| touch.register.file() == File::Predicate) {
            self.predicate_written[usize::from(touch.register.0 % 8)] = self.rank;
        }
        self.rank += 1;
        self.now += i64::from(cycles_of(step.control));
    }

    /// Threads end: what is in flight for them alone concerns nobody.
    pub fn end(&mut self, lanes: Mask) {
        for register in &self.touched {
            let list = &mut self.entries[usize::from(register.0)];
            if !matches!(register.file(), File::Uniform | File::UniformPredicate) {
                list.iter_mut().for_each(|entry| entry.lanes &= !lanes);
                list.retain(|entry| entry.lanes != 0);
            }
        }
    }

    /// A barrier stops the warp a few cycles after its issue; then all that was in front of it in the queue has read its sources.
    fn end_draining(&mut self) {
        if let Some((queue, rank, issued)) = self.draining
            && self.now - issued >= BARRIER_CYCLES
        {
            self.reads_done[queue] = rank;
            self.draining = None;
        }
    }

    /// For each flight whether something can still meet it: it touches a register that nobody overwrote since, or sets a scoreboard that
    /// nobody waited for since.
    fn used(&self) -> Vec<bool> {
        let mut used = vec![false; self.flights.len()];
        let entries = self.touched.iter().flat_map(|register| &self.entries[usize::from(register.0)]);
        entries.map(|entry| entry.flight).chain(self.setters.iter().flatten().copied()).for_each(|flight| used[flight as usize] = true);
        used
    }

    /// How many instructions it remembers.
    pub fn in_flight(&self) -> usize {
        self.flights.len()
    }

    fn launch(&mut self, steps: &[Step], flight: Flight, active: Mask) {
        let step = &steps[flight.step as usize];
        let number = self.flights.len() as u32;
        let announced = |pending: Pending| if let Pending::Until(mask) = pending { mask } else { 0 };
        let set = step.announces.0 | step.announces.1;
        for scoreboard in 0..SCOREBOARDS {
            if (announced(flight.results) | announced(flight.reads)) >> scoreboard & 1 == 1 {
                let list = if set >> scoreboard & 1 == 1 { &mut self.setters } else { &mut self.vouched };
                list[scoreboard].push(number);
            }
        }
        if step.announces.0 >> MATRIX_GROUPS & 1 == 1 {
            self.matrix_order = step.order;
        }
        self.flights.push(flight);
        let live_reads = flight.reads != Pending::Done;
        let reads = step.reads.iter().filter(|_| live_reads).map(|&touch| Entry {
            flight: number,
            touch,
            write: false,
            lanes: reading_lanes(step, touch, flight.group, active),
        });
        let live_results = flight.results != Pending::Done;
        let writes = step.writes.iter().filter(|_| live_results).map(|&touch| Entry { flight: number, touch, write: true, lanes: active });
        for entry in reads.chain(writes).filter(|entry| entry.lanes != 0) {
            let list = &mut self.entries[usize::from(entry.touch.register.0)];
            if list.is_empty() {
                self.touched.push(entry.touch.register);
            }
            if list.len() >= READERS && !entry.write {
                // Where very many calls of a function meet, only the last few are counted.
                let recent = list.len().saturating_sub(RECENT);
                let mut readers = (recent..list.len()).filter(|&at| !list[at].write);
                if let Some(oldest) = readers.next().filter(|_| readers.count() + 1 >= READERS) {
                    list.remove(oldest);
                }
            }
            list.push(entry);
        }
    }

    /// The path has waited until no more than `count` of those that set a scoreboard are left.
    fn wait(&mut self, steps: &[Step], number: usize, scoreboard: usize, count: usize, report: &mut dyn FnMut(Finding)) {
        if scoreboard != MATRIX_GROUPS && self.announced >> scoreboard & 1 == 0 {
            report(Finding { second: number, first: number, problem: Problem::NeverSet { scoreboard: scoreboard as u8 } });
        }
        if scoreboard == MATRIX_GROUPS
            && count == 0
            && let Some(group) = self.matrix_order
        {
            self.results_done[usize::from(group)] = self.rank;
            self.reads_done[usize::from(group)] = self.rank;
        }
        if scoreboard != MATRIX_GROUPS && count > 0 {
            self.count_in_order(steps, number, scoreboard, report);
        }
        let keep = self.setters[scoreboard].len().saturating_sub(count);
        let done: Vec<u32> = self.setters[scoreboard].drain(..keep).collect();
        for setter in done {
            let flight = &mut self.flights[setter as usize];
            let first = flight.step as usize;
            let cycles = self.now - flight.issued;
            let needed = u32::from(steps[first].scoreboard_stall).saturating_sub(u32::from(steps[number].count_wait.is_some()));
            if scoreboard != MATRIX_GROUPS && cycles < i64::from(needed) {
                let problem = Problem::ScoreboardTooFresh { scoreboard: scoreboard as u8, cycles: cycles as u32, needed };
                report(Finding { second: number, first, problem });
            }
            let holds = |pending: Pending| matches!(pending, Pending::Until(mask) if mask >> scoreboard & 1 == 1);
            let step = &steps[first];
            let is_own = step.announces.0 >> scoreboard & 1 == 1;
            if holds(flight.results) && (is_own || count == 0) {
                flight.results = Pending::Done;
                if let Some(group) = step.order.map(usize::from).filter(|_| flight.vouches && is_own) {
                    self.results_done[group] = self.results_done[group].max(flight.rank);
                }
            }
            flight.reads = Pending::Done;
            if let Some(queue) = step.queue.map(usize::from).filter(|_| flight.vouches) {
                self.reads_done[queue] = self.reads_done[queue].max(flight.rank);
            }
        }
        let vouched = if count == 0 { std::mem::take(&mut self.vouched[scoreboard]) } else { Vec::new() };
        for vouched in vouched {
            let flight = &mut self.flights[vouched as usize];
            for pending in [&mut flight.results, &mut flight.reads] {
                if matches!(*pending, Pending::Until(mask) if mask >> scoreboard & 1 == 1) {
                    *pending = Pending::Done;
                }
            }
        }
    }

    /// That some setters of a scoreboard are done tells which ones only if they end in the order of issue.
    fn count_in_order(&self, steps: &[Step], number: usize, scoreboard: usize, report: &mut dyn FnMut(Finding)) {
        let order = |setter: &u32| {
            let step = &steps[self.flights[*setter as usize].step as usize];
            let by_results = step.announces.0 >> scoreboard & 1 == 1;
            (by_results, if by_results { step.order } else { step.queue })
        };
        let [one, rest @ ..] = &self.setters[scoreboard][..] else { return };
        if let Some(other) = rest.iter().find(|other| order(other) != order(one)) {
            let first = self.flights[*other as usize].step as usize;
            report(Finding { second: number, first, problem: Problem::CountOutOfOrder { scoreboard: scoreboard as u8 } });
        }
    }

    fn results_of(&self, steps: &[Step], flight: &Flight) -> Pending {
        match steps[flight.step as usize].order {
            Some(group) if flight.rank < self.results_done[usize::from(group)] => Pending::Done,
            _ => flight.results,
        }
    }

    fn reads_of(&self, steps: &[Step], flight: &Flight) -> Pending {
        match steps[flight.step as usize].queue {
            Some(queue) if flight.rank < self.reads_done[usize::from(queue)] => Pending::Done,
            _ if self.results_of(steps, flight) == Pending::Done && !steps[flight.step as usize].writes.is_empty() => Pending::Done,
            _ => flight.reads,
        }
    }

    /// Whether the guards of the two are opposites, so that a thread executes only one of them.
    fn excludes(&self, flight: &Flight, before: &Step, after: &Step) -> bool {
        match (before.guard, after.guard) {
            (Some((one, negated)), Some((two, other))) => {
                one == two && negated != other && self.predicate_written[usize::from(one.0 % 8)] <= flight.rank
            }
            _ => false,
        }
    }

    /// Holds a new access against all that touch its register.
    fn meet(&mut self, steps: &[Step], number: usize, touch: Touch, write: bool, lanes: Mask, report: &mut dyn FnMut(Finding)) {
        let at = usize::from(touch.register.0);
        if self.entries[at].is_empty() || lanes == 0 {
            return;
        }
        let mut list = std::mem::take(&mut self.entries[at]);
        list.retain(|entry| {
            if entry.lanes & lanes == 0 {
                return true;
            }
            let flight = &self.flights[entry.flight as usize];
            let cycles = match touch.register.file() {
                File::Uniform | File::UniformPredicate => self.now - flight.issued,
                _ => self.pauses.age(flight.pauses, self.now - flight.issued, entry.lanes & lanes),
            };
            let kind = match (entry.write, write) {
                (true, false) => Kind::Raw,
                (false, true) => Kind::War,
                (true, true) => Kind::Waw,
                (false, false) => return true,
            };
            let first = flight.step as usize;
            let file = touch.register.file();
            let need = if steps[first].guarded {
                self.model.need_guarded(kind, file, entry.touch.port, touch.port)
            } else {
                self.model.need(kind, file, entry.touch.port, touch.port)
            };
            let early = steps[first].tells_early && touch.register.file() == File::Predicate;
            let pending = if entry.write && !early { self.results_of(steps, flight) } else { self.reads_of(steps, flight) };
            let register = touch.register;
            let (before, after) = (&steps[first], &steps[number]);
            let in_order = match kind {
                Kind::Waw => before.order.is_some() && before.order == after.order,
                Kind::War => before.queue.is_some() && before.queue == after.queue,
                Kind::Raw => false,
            };
            let excluded = self.excludes(flight, before, after);
            let kind = kind.into();
            let problem = match pending {
                _ if in_order || excluded => None,
                _ if !need.scoreboard && cycles >= i64::from(need.cycles) => None,
                _ if !need.scoreboard => Some(Problem::TooSoon { kind, register, cycles: cycles as u32, needed: u32::from(need.cycles) }),
                Pending::Done => None,
                Pending::Until(0) => Some(Problem::NotAnnounced { kind, register }),
                Pending::Until(mask) => Some(Problem::NotWaited { kind, register, scoreboard: mask.trailing_zeros() as u8 }),
            };
            let keep = pending != Pending::Done && (need.scoreboard || cycles < LONGEST);
            if let Some(problem) = problem {
                report(Finding { second: number, first, problem });
            } else if keep && !(write && self.executes_surely) {
                return true;
            }
            if !self.executes_surely {
                return keep;
            }
            // What is done, found or overwritten is so for these threads only.
            entry.lanes &= !lanes;
            entry.lanes != 0
        });
        self.entries[at] = list;
    }

    /// Throws away flights that nothing can meet any more.
    fn compact(&mut self, steps: &[Step]) {
        let mut used = vec![false; self.flights.len()];
        let mut registers = std::mem::take(&mut self.touched);
        registers.sort_unstable();
        registers.dedup();
        registers.retain(|register| {
            let at = usize::from(register.0);
            let mut list = std::mem::take(&mut self.entries[at]);
            list.retain(|entry| {
                let flight = &self.flights[entry.flight as usize];
                let pending = if entry.write { self.results_of(steps, flight) } else { self.reads_of(steps, flight) };
                let waits = if entry.write { steps[flight.step as usize].results_wait } else { steps[flight.step as usize].sources_wait };
                let age = self.pauses.age(flight.pauses, self.now - flight.issued, entry.lanes);
                let matters = age < LONGEST || waits && pending != Pending::Done;
                used[entry.flight as usize] |= matters;
                matters
            });
            let matters = !list.is_empty();
            self.entries[at] = list;
            matters
        });
        self.touched = registers;
        for setters in &mut self.setters {
            let old = setters.len().saturating_sub(DEEPEST_COUNT);
            let mut place = 0;
            setters.retain(|&setter| {
                place += 1;
                place > old || used[setter as usize]
            });
            setters.iter().for_each(|&setter| used[setter as usize] = true);
        }
        for flight in &mut self.flights {
            // Old is old, whoever paused.
            if self.pauses.age(flight.pauses, self.now - flight.issued, flight.group) >= LONGEST {
                flight.pauses = self.pauses.current();
            }
        }
        let forgotten = (0..used.len()).filter(|&at| used[at]).map(|at| self.flights[at].pauses).min();
        let forgotten = self.pauses.forget(forgotten.unwrap_or_else(|| self.pauses.current()));
        let mut place = 0;
        let next = |used: &bool| {
            place += u32::from(*used);
            place - u32::from(*used)
        };
        let places: Vec<u32> = used.iter().map(next).collect();
        let mut at = 0;
        self.flights.retain_mut(|flight| {
            flight.pauses = flight.pauses.wrapping_sub(forgotten);
            at += 1;
            used[at - 1]
        });
        for register in &self.touched {
            self.entries[usize::from(register.0)].iter_mut().for_each(|entry| entry.flight = places[entry.flight as usize]);
        }
        self.vouched.iter_mut().for_each(|vouched| vouched.retain(|&flight| used[flight as usize]));
        self.setters.iter_mut().chain(&mut self.vouched).flatten().for_each(|flight| *flight = places[*flight as usize]);
    }
}

/// Waiting for one that finishes, or reads, in order tells of all before it, whichever way control takes from here: they get its
/// scoreboards too. They are given in the order of issue.
fn share_scoreboards(steps: &[Step], carried: &mut [Carried]) {
    let (mut results, mut reads) = ([0; GROUPS], [0; GROUPS]);
    for equals in carried.chunk_by_mut(|one, other| one.rank == other.rank).rev() {
        let later = (results, reads);
        for one in equals {
            let step = &steps[one.step as usize];
            let (write, read) = step.announces;
            if let (Pending::Until(mask), Some(group)) = (&mut one.results, step.order.map(usize::from)) {
                results[group] |= if one.vouches { *mask & write } else { 0 };
                *mask |= later.0[group];
            }
            if let (Pending::Until(mask), Some(group)) = (&mut one.reads, step.queue.map(usize::from)) {
                reads[group] |= if one.vouches { *mask & (write | read) } else { 0 };
                *mask |= later.1[group];
            }
        }
    }
}

/// The threads for which a register is read: the guard is read for the whole group. Uniform registers are one for the warp, but groups that
/// diverged hold in them what is the same for all, so each group answers for its own order alone, as it does on its own paths.
fn reading_lanes(step: &Step, touch: Touch, group: Mask, active: Mask) -> Mask {
    let is_guard = step.guard.is_some_and(|(guard, _)| guard == touch.register) || touch.register.file() == File::UniformPredicate;
    if is_guard { group } else { active }
}

/// A stall that the hardware does not heed: it is that long only where the scheduler may turn to other warps.
fn is_ignored(control: Control) -> bool {
    control.stall >= 12 && control.stay
}

/// Cycles until the next instruction, at least. No stall at all is a special case: two cycles, and many more with yield.
fn cycles_of(control: Control) -> u8 {
    match control.stall {
        _ if is_ignored(control) => 1,
        0 => 2,
        stall => stall,
    }
}

/// What may be in flight if one or the other is the case. The order of issue is kept where both agree on it.
fn merge_flights(one: &[Carried], two: &[Carried]) -> Vec<Carried> {
    let mut merged: Vec<Carried> = Vec::with_capacity(one.len().max(two.len()));
    let (mut at, mut other) = (0, 0);
    let mut ranks = Vec::new();
    while at < one.len() || other < two.len() {
        match (one.get(at), two.get(other)) {
            (Some(&first), Some(&second)) if first.step == second.step => {
                ranks.push((first.rank, second.rank));
                merged.push(first.merge(second));
                at += 1;
                other += 1;
            }
            (Some(&first), second) if second.is_none_or(|second| first.step < second.step) => {
                merged.push(Carried { vouches: false, ..first });
                at += 1;
            }
            (_, Some(&second)) => {
                merged.push(Carried { vouches: false, rank: 0, ..second });
                other += 1;
            }
            (_, None) => break,
        }
    }
    ranks.sort_unstable();
    if !ranks.is_sorted_by_key(|&(_, second)| second) || ranks.iter().any(|&(first, second)| first == 0 || second == 0) {
        for one in &mut merged {
            (one.rank, one.vouches) = (0, false);
        }
    }
    merged
}
