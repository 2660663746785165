//! What is in flight along a path, and what meets it.
//!
//! Time is counted in cycles from the stall counts alone: waiting for a scoreboard can only add to them, and the check must hold when
//! everything is as fast as it can be. An instruction is in flight until its results are there and its sources are read; for each
//! register there is a list of those in flight that touch it. A scoreboard is a counter: who waits for it waits for all that set it
//! before. Instructions of one unit that finish in order ([`Step::order`]) vouch for the earlier ones.

use oriole_hardware::{Kind, Model};
use oriole_isa::{Control, File};
use smallvec::SmallVec;

use super::step::{Step, Touch};
use super::{Finding, Problem, REGISTERS, Register};

/// After as many cycles nothing of fixed latency is in flight.
const LONGEST: i64 = 64;
/// Six, and the counter of groups of matrix products.
const SCOREBOARDS: usize = 7;
/// At most as many groups of classes finish, or read, in order.
const GROUPS: usize = 16;
const MATRIX_GROUPS: usize = SCOREBOARDS - 1;
/// How many that read a register late and announce nothing are remembered; an overwriting one offends against each of them.
const READERS: usize = 8;

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

#[derive(Clone, Copy, Debug)]
struct Flight {
    step: u32,
    issued: i64,
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
}

/// What is in flight on a path.
pub struct Tracker<'a> {
    steps: &'a [Step],
    model: &'a Model,
    now: i64,
    rank: u32,
    flights: Vec<Flight>,
    /// For each register who touches it.
    entries: Vec<SmallVec<[Entry; 4]>>,
    touched: Vec<Register>,
    /// For each scoreboard who sets it and is not known to be done.
    setters: [Vec<u32>; SCOREBOARDS],
    /// For each order group the rank up to which all results, all reads are done.
    results_done: [u32; GROUPS],
    reads_done: [u32; GROUPS],
    /// When each predicate was written last, by rank.
    predicate_written: [u32; 8],
}

impl<'a> Tracker<'a> {
    /// Nothing in flight.
    pub fn new(steps: &'a [Step], model: &'a Model) -> Self {
        Tracker {
            steps,
            model,
            now: 0,
            rank: 0,
            flights: Vec::new(),
            entries: vec![SmallVec::new(); REGISTERS],
            touched: Vec::new(),
            setters: Default::default(),
            results_done: [0; GROUPS],
            reads_done: [0; GROUPS],
            predicate_written: [0; 8],
        }
    }

    /// Starts a path with these in flight.
    pub fn enter(&mut self, carried: &[Carried]) {
        for register in self.touched.drain(..) {
            self.entries[usize::from(register.0)].clear();
        }
        self.flights.clear();
        self.setters = Default::default();
        (self.now, self.rank) = (0, carried.iter().map(|one| one.rank + 1).max().unwrap_or(1));
        (self.results_done, self.reads_done) = ([0; GROUPS], [0; GROUPS]);
        self.predicate_written = [self.rank; 8];
        let mut in_order: SmallVec<[&Carried; 16]> = carried.iter().collect();
        in_order.sort_by_key(|one| one.rank);
        for &&Carried { step, age, results, reads, rank, vouches } in &in_order {
            self.launch(Flight { step, issued: -i64::from(age), rank, vouches, results, reads });
        }
    }

    /// What is still in flight, by number of the instruction.
    pub fn leave(&self) -> Vec<Carried> {
        let mut carried: Vec<Carried> = self
            .flights
            .iter()
            .map(|flight| Carried {
                step: flight.step,
                age: (self.now - flight.issued).min(LONGEST) as u8,
                results: self.results_of(flight),
                reads: self.reads_of(flight),
                rank: flight.rank,
                vouches: flight.vouches,
            })
            .filter(|one| {
                let fixed = i64::from(one.age) < LONGEST;
                let step = &self.steps[one.step as usize];
                (one.results != Pending::Done && step.results_wait) || (one.reads != Pending::Done && step.sources_wait) || fixed
            })
            .collect();
        carried.sort_by_key(|one| one.rank);
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
        carried
    }

    /// The next instruction of the path; what is wrong with it goes to `report`.
    pub fn issue(&mut self, number: usize, report: &mut dyn FnMut(Finding)) {
        let steps = self.steps;
        let step = &steps[number];
        for scoreboard in 0..6 {
            if step.control.wait >> scoreboard & 1 == 1 {
                self.wait(scoreboard, 0);
            }
        }
        if let Some((scoreboard, count)) = step.count_wait {
            self.wait(usize::from(scoreboard), count as usize);
        }
        for touch in &step.reads {
            self.meet(number, *touch, false, report);
        }
        for touch in &step.writes {
            self.meet(number, *touch, true, report);
        }
        if let Some(queue) = step.queue.filter(|_| step.drains_queue) {
            self.reads_done[usize::from(queue)] = self.rank;
        }
        let (write, read) = step.announces;
        let results = if step.writes.is_empty() && write == 0 { Pending::Done } else { Pending::Until(write) };
        let reads = if step.reads.is_empty() { Pending::Done } else { Pending::Until(write | read) };
        self.launch(Flight { step: number as u32, issued: self.now, rank: self.rank, vouches: true, results, reads });
        for touch in step.writes.iter().filter(|touch| touch.register.file() == File::Predicate) {
            self.predicate_written[usize::from(touch.register.0 % 8)] = self.rank;
        }
        self.rank += 1;
        self.now += i64::from(cycles_of(step.control));
    }

    fn launch(&mut self, flight: Flight) {
        let steps = self.steps;
        let step = &steps[flight.step as usize];
        let number = self.flights.len() as u32;
        let announced = |pending: Pending| if let Pending::Until(mask) = pending { mask } else { 0 };
        for scoreboard in 0..SCOREBOARDS {
            if (announced(flight.results) | announced(flight.reads)) >> scoreboard & 1 == 1 {
                self.setters[scoreboard].push(number);
            }
        }
        self.flights.push(flight);
        let live_reads = flight.reads != Pending::Done;
        let reads = step.reads.iter().filter(|_| live_reads).map(|&touch| Entry { flight: number, touch, write: false });
        let live_results = flight.results != Pending::Done;
        let writes = step.writes.iter().filter(|_| live_results).map(|&touch| Entry { flight: number, touch, write: true });
        for entry in reads.chain(writes) {
            let list = &mut self.entries[usize::from(entry.touch.register.0)];
            if list.is_empty() {
                self.touched.push(entry.touch.register);
            }
            if list.len() >= READERS && !entry.write {
                let oldest =
                    list.iter().position(|other| !other.write).filter(|_| list.iter().filter(|other| !other.write).count() >= READERS);
                if let Some(oldest) = oldest {
                    list.remove(oldest);
                }
            }
            list.push(entry);
        }
    }

    /// The path has waited until no more than `count` of those that set a scoreboard are left.
    fn wait(&mut self, scoreboard: usize, count: usize) {
        if scoreboard == MATRIX_GROUPS && count == 0 {
            let group = self.steps.iter().find(|step| step.announces.0 >> MATRIX_GROUPS & 1 == 1).and_then(|step| step.order);
            if let Some(group) = group {
                self.results_done[usize::from(group)] = self.rank;
                self.reads_done[usize::from(group)] = self.rank;
            }
        }
        let keep = self.setters[scoreboard].len().saturating_sub(count);
        let done: Vec<u32> = self.setters[scoreboard].drain(..keep).collect();
        for number in done {
            let flight = &mut self.flights[number as usize];
            let holds = |pending: Pending| matches!(pending, Pending::Until(mask) if mask >> scoreboard & 1 == 1);
            let step = &self.steps[flight.step as usize];
            if step.announces.0 >> scoreboard & 1 == 1 && holds(flight.results) {
                flight.results = Pending::Done;
                if let Some(group) = step.order.map(usize::from).filter(|_| flight.vouches) {
                    self.results_done[group] = self.results_done[group].max(flight.rank);
                }
            }
            flight.reads = Pending::Done;
            if let Some(queue) = step.queue.map(usize::from).filter(|_| flight.vouches) {
                self.reads_done[queue] = self.reads_done[queue].max(flight.rank);
            }
        }
    }

    fn results_of(&self, flight: &Flight) -> Pending {
        match self.steps[flight.step as usize].order {
            Some(group) if flight.rank < self.results_done[usize::from(group)] => Pending::Done,
            _ => flight.results,
        }
    }

    fn reads_of(&self, flight: &Flight) -> Pending {
        match self.steps[flight.step as usize].queue {
            Some(queue) if flight.rank < self.reads_done[usize::from(queue)] => Pending::Done,
            _ if self.results_of(flight) == Pending::Done && !self.steps[flight.step as usize].writes.is_empty() => Pending::Done,
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
    fn meet(&mut self, number: usize, touch: Touch, write: bool, report: &mut dyn FnMut(Finding)) {
        let at = usize::from(touch.register.0);
        let mut list = std::mem::take(&mut self.entries[at]);
        list.retain(|entry| {
            let flight = &self.flights[entry.flight as usize];
            let cycles = self.now - flight.issued;
            let kind = match (entry.write, write) {
                (true, false) => Kind::Raw,
                (false, true) => Kind::War,
                (true, true) => Kind::Waw,
                (false, false) => return true,
            };
            let first = flight.step as usize;
            let file = touch.register.file();
            let need = if self.steps[first].guarded {
                self.model.need_guarded(kind, file, entry.touch.port, touch.port)
            } else {
                self.model.need(kind, file, entry.touch.port, touch.port)
            };
            let early = self.steps[first].tells_early && touch.register.file() == File::Predicate;
            let pending = if entry.write && !early { self.results_of(flight) } else { self.reads_of(flight) };
            let register = touch.register;
            let (before, after) = (&self.steps[first], &self.steps[number]);
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
            let keep = pending != Pending::Done && (cycles < LONGEST || need.scoreboard);
            if let Some(problem) = problem {
                report(Finding { second: number, first, problem });
                return false;
            }
            keep && !write
        });
        self.entries[at] = list;
    }
}

/// Cycles until the next instruction. The hardware heeds stalls of 12 and more only where the scheduler may turn to other warps.
fn cycles_of(control: Control) -> u8 {
    match control.stall {
        12.. if control.stay => 1,
        stall => stall.max(1),
    }
}
