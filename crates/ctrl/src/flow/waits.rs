//! Who has to wait for whom.
//!
//! Forward over all paths: an instruction of variable latency is in flight from its issue on; the first on a path that reads or
//! overwrites its result waits for it, and from there on nobody on that path has to. The same holds for late reads and those who
//! overwrite the sources. Where paths meet, what may be in flight is what is in flight on either.
//!
//! Units that work in order save waits. Who waits for one of them has waited for all that were issued before it to the same unit, so of
//! several that one instruction needs, only the newest is waited for; and the newest reader of a register in a queue stands for the older
//! ones. An instruction with a guard may not take place at all and vouches for nobody. The order of issue is known within a block: one of
//! the block comes behind all that were carried into it, and among those nothing is known.
//!
//! Every register has a short list of those in flight that touch it, and lists are cleaned when they are looked at, so the time is
//! proportional to the length of the code. Blocks are walked until what is in flight at their starts no longer grows, and once more to
//! note the waits.

use std::iter::repeat_with;

use oriole_hardware::{Kind, Model};
use smallvec::SmallVec;

use super::Code;
use super::paths::{Paths, Todo};
use super::touch::{Drain, REGISTERS, Register, Touch, Touches, need};

/// What has to be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Results,
    Reads,
}

/// Why somebody waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// It touches a register of the first.
    Register(KindOf, Register),
    /// It hands over to code that knows nothing of what is in flight.
    Settle,
    /// The first is a fence.
    Fence,
    /// The cache is emptied behind a load.
    Acquire,
    /// Too many that touch one register are in flight.
    Crowd,
}

/// [`Kind`] with an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KindOf {
    Raw,
    War,
    Waw,
}

impl From<Kind> for KindOf {
    fn from(kind: Kind) -> KindOf {
        match kind {
            Kind::Raw => KindOf::Raw,
            Kind::War => KindOf::War,
            Kind::Waw => KindOf::Waw,
        }
    }
}

/// One instruction waits for a part of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wait {
    pub first: u32,
    pub part: Part,
    pub second: u32,
    pub cause: Cause,
}

/// Readers or writers of one register in flight; who comes when there are so many waits for the oldest.
const CROWD: usize = 16;
/// So many may be in flight where a block begins, however many of them write the same register on different paths.
const MANY: usize = 128;
/// If there are more, only so many for each register, as two ways may bring; the first instruction of the block waits for the others.
const KEPT: usize = 2;
/// Loads in flight that have no register for what they read.
const NAMELESS: usize = 8;
/// Groups of classes that finish, or read, in order; more than the tables name.
const GROUPS: usize = 32;

/// Predicates of a thread.
const PREDICATES: usize = 8;
/// Where they begin among the registers.
const FIRST_PREDICATE: usize = 256;

/// In flight where a block begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Carried {
    number: u32,
    results: bool,
    reads: bool,
}

/// Finds all waits, sorted.
pub fn find(code: &Code<'_>, paths: &Paths, touches: &[Touches], model: &Model) -> Vec<Wait> {
    let mut entry: Vec<Option<Vec<Carried>>> = vec![None; code.blocks.len()];
    let mut todo = Todo::new(code.blocks.len());
    for &root in &paths.roots {
        entry[root] = Some(Vec::new());
        todo.push(root);
    }
    let mut walker = Walker::new(touches, model);
    let (mut state, mut spare) = (Vec::new(), Vec::new());
    while let Some(block) = todo.pop() {
        state.clone_from(entry[block].get_or_insert_default());
        let left = walker.walk(&state, code.blocks[block].range.clone());
        for &next in &code.blocks[block].successors {
            let changed = match &mut entry[next] {
                slot @ None => {
                    *slot = Some(left.to_vec());
                    true
                }
                Some(old) => merge(old, left, &mut spare),
            };
            if changed {
                todo.push(next);
            }
        }
    }
    walker.found = Some(Vec::new());
    for (block, state) in code.blocks.iter().zip(&entry) {
        walker.walk(state.as_deref().unwrap_or_default(), block.range.clone());
    }
    let mut found = walker.found.unwrap_or_default();
    found.sort_unstable();
    found.dedup_by_key(|wait| (wait.first, wait.part, wait.second));
    found
}

/// What is in flight on either path, by number; whether that is more than before. `spare` is room to work in.
fn merge(into: &mut Vec<Carried>, from: &[Carried], spare: &mut Vec<Carried>) -> bool {
    if into.as_slice() == from {
        return false;
    }
    spare.clear();
    let mut changed = false;
    let mut old = into.iter().copied().peekable();
    for &one in from {
        while let Some(old) = old.next_if(|old| old.number < one.number) {
            spare.push(old);
        }
        let both = match old.next_if(|old| old.number == one.number) {
            Some(old) => {
                changed |= one.results && !old.results || one.reads && !old.reads;
                Carried { results: old.results || one.results, reads: old.reads || one.reads, ..old }
            }
            None => {
                changed = true;
                one
            }
        };
        spare.push(both);
    }
    spare.extend(old);
    if changed {
        into.clone_from(spare);
    }
    changed
}

#[derive(Clone, Copy, Debug)]
struct Flight {
    number: u32,
    /// Place in the order of issue; 0 if that is not known.
    rank: u32,
    /// Registers in whose lists it stands.
    written: u16,
    read: u16,
    results: bool,
    reads: bool,
    /// Whether waiting for it is waiting for those before it.
    vouches: bool,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    flight: u32,
    touch: Touch,
}

type List = SmallVec<[Entry; 4]>;

/// Flights of one group in the order of issue; those in front of `head` are done.
#[derive(Clone, Debug, Default)]
struct Line {
    flights: Vec<u32>,
    head: usize,
}

struct Walker<'a> {
    touches: &'a [Touches],
    model: &'a Model,
    /// The waits, if they are to be noted.
    found: Option<Vec<Wait>>,
    flights: Vec<Flight>,
    /// For each register whose result in it is outstanding, and who is still to read it.
    writers: Vec<List>,
    readers: Vec<List>,
    used: Vec<Register>,
    orders: Vec<Line>,
    queues: Vec<Line>,
    /// Those in flight, and some that are done.
    alive: Vec<u32>,
    /// Loads without a register.
    nameless: Vec<u32>,
    /// Ends of groups of matrix products.
    groups: Vec<u32>,
    /// Those that the next instruction has to wait for.
    fences: Vec<u32>,
    /// When predicates were written last, by rank.
    predicate_written: [u32; PREDICATES],
    rank: u32,
    needed: Vec<(u32, u32, Part, Cause)>,
    left: Vec<Carried>,
    has_acquires: bool,
}

impl<'a> Walker<'a> {
    fn new(touches: &'a [Touches], model: &'a Model) -> Walker<'a> {
        Walker {
            touches,
            model,
            found: None,
            flights: Vec::new(),
            // `vec!` would clone an empty list for each, which takes ten times as long.
            writers: repeat_with(List::new).take(REGISTERS).collect(),
            readers: repeat_with(List::new).take(REGISTERS).collect(),
            used: Vec::new(),
            orders: vec![Line::default(); GROUPS],
            queues: vec![Line::default(); GROUPS],
            alive: Vec::new(),
            nameless: Vec::new(),
            groups: Vec::new(),
            fences: Vec::new(),
            predicate_written: [0; PREDICATES],
            rank: 0,
            needed: Vec::new(),
            left: Vec::new(),
            has_acquires: touches.iter().any(|touched| touched.drain == Drain::Loads),
        }
    }

    fn clear(&mut self) {
        for register in self.used.drain(..) {
            self.writers[usize::from(register)].clear();
            self.readers[usize::from(register)].clear();
        }
        for line in self.orders.iter_mut().chain(&mut self.queues) {
            line.flights.clear();
            line.head = 0;
        }
        self.flights.clear();
        self.alive.clear();
        self.nameless.clear();
        self.groups.clear();
        self.fences.clear();
        self.predicate_written.fill(0);
        self.rank = 1;
    }

    /// Goes through a block; what is in flight behind it.
    fn walk(&mut self, state: &[Carried], range: std::ops::Range<usize>) -> &[Carried] {
        self.clear();
        for carried in state {
            self.launch(carried.number as usize, carried.results, carried.reads, false);
        }
        // A guard of another block may have changed since; nobody here excludes it.
        self.predicate_written.fill(self.rank);
        self.rank += 1;
        self.needed.clear();
        if state.len() > MANY && !range.is_empty() {
            self.thin_out_carried();
        }
        for number in range {
            self.issue(number);
        }
        self.leave();
        &self.left
    }

    fn leave(&mut self) {
        self.left.clear();
        for &id in &self.alive {
            let flight = &self.flights[id as usize];
            if flight.results || flight.reads {
                self.left.push(Carried { number: flight.number, results: flight.results, reads: flight.reads });
            }
        }
        self.left.sort_unstable();
        // One that went round a loop may be there twice.
        self.left.dedup_by(|later, earlier| {
            let same = later.number == earlier.number;
            if same {
                earlier.results |= later.results;
                earlier.reads |= later.reads;
            }
            same
        });
    }

    fn issue(&mut self, number: usize) {
        let touches = &self.touches[number];
        for id in std::mem::take(&mut self.fences) {
            self.need(id, Part::Results, Cause::Fence);
            self.need(id, Part::Reads, Cause::Fence);
        }
        match touches.drain {
            Drain::Nothing | Drain::Groups(_) => {}
            Drain::Everything => {
                self.clean_alive();
                for at in 0..self.alive.len() {
                    let id = self.alive[at];
                    let part = if self.flights[id as usize].results { Part::Results } else { Part::Reads };
                    self.need(id, part, Cause::Settle);
                }
            }
            Drain::Loads => {
                self.clean_alive();
                for at in 0..self.alive.len() {
                    let id = self.alive[at];
                    if self.touches[self.flights[id as usize].number as usize].is_load {
                        self.need(id, Part::Results, Cause::Acquire);
                    }
                }
            }
        }
        for touch in &touches.reads {
            self.meet(number, *touch, Kind::Raw);
        }
        for touch in &touches.writes {
            self.meet(number, *touch, Kind::Waw);
            self.meet(number, *touch, Kind::War);
        }
        for touch in touches.reads.iter().filter(|_| touches.announces_reads) {
            self.thin_out(touch.register);
        }
        self.wait_for_needed(number);
        if let Drain::Groups(left) = touches.drain {
            self.groups_are_done(left);
        }
        let is_nameless = self.has_acquires && touches.is_load && touches.writes.is_empty();
        if is_nameless && self.nameless.len() >= NAMELESS {
            let oldest = self.nameless.remove(0);
            self.need(oldest, Part::Results, Cause::Crowd);
            self.wait_for_needed(number);
        }
        if touches.announces_results || touches.announces_reads || is_nameless {
            let id = self.flights.len() as u32;
            self.launch(number, touches.announces_results || is_nameless, touches.announces_reads, true);
            self.nameless.extend(is_nameless.then_some(id));
        }
        for touch in touches.writes.iter() {
            if let Some(written) =
                usize::from(touch.register).checked_sub(FIRST_PREDICATE).and_then(|at| self.predicate_written.get_mut(at))
            {
                *written = self.rank;
            }
        }
        self.rank += 1;
    }

    /// Notes what the instruction at hand needs.
    fn need(&mut self, id: u32, part: Part, cause: Cause) {
        let flight = &self.flights[id as usize];
        if if part == Part::Results { flight.results } else { flight.reads } {
            self.needed.push((flight.rank, id, part, cause));
        }
    }

    /// Waits for what is needed, the newest first: it may stand for others.
    fn wait_for_needed(&mut self, number: usize) {
        if self.needed.is_empty() {
            return;
        }
        let mut needed = std::mem::take(&mut self.needed);
        if needed.len() > 1 {
            needed.sort_by_key(|&(rank, id, part, _)| (std::cmp::Reverse(rank), id, part));
        }
        for (_, id, part, cause) in needed.drain(..) {
            self.wait(id, part, number, cause);
        }
        self.needed = needed;
    }

    fn wait(&mut self, id: u32, part: Part, second: usize, cause: Cause) {
        let flight = self.flights[id as usize];
        let is_open = if part == Part::Results { flight.results } else { flight.reads };
        if !is_open {
            return;
        }
        if let Some(found) = &mut self.found {
            found.push(Wait { first: flight.number, part, second: second as u32, cause });
        }
        self.close(id, part);
        let touches = &self.touches[flight.number as usize];
        if !flight.vouches {
            return;
        }
        // What has no results, or no sources, tells nothing about those of others.
        if let Some(order) = touches.order.filter(|_| part == Part::Results && !touches.writes.is_empty()) {
            self.close_line(order, Part::Results, flight.rank);
        }
        if let Some(queue) = touches.queue.filter(|_| !touches.reads.is_empty()) {
            self.close_line(queue, Part::Reads, flight.rank);
        }
    }

    fn close(&mut self, id: u32, part: Part) {
        let flight = &mut self.flights[id as usize];
        flight.reads = false;
        if part == Part::Results {
            flight.results = false;
        }
    }

    /// All of a group that were issued before a rank are done.
    fn close_line(&mut self, group: u8, part: Part, rank: u32) {
        let group = usize::from(group);
        loop {
            let line = if part == Part::Results { &mut self.orders[group] } else { &mut self.queues[group] };
            let Some(&id) = line.flights.get(line.head) else { return };
            if self.flights[id as usize].rank >= rank {
                return;
            }
            line.head += 1;
            self.close(id, part);
        }
    }

    /// All groups of matrix products but the last ones are done.
    fn groups_are_done(&mut self, left: u32) {
        self.clean_alive();
        let Some(&last) = self.groups.iter().rev().nth(left as usize) else { return };
        let (order, rank) = (self.touches[self.flights[last as usize].number as usize].order, self.flights[last as usize].rank);
        if left > 0 && rank == 0 {
            return;
        }
        let rank = if left == 0 { self.rank } else { rank };
        for at in 0..self.alive.len() {
            let id = self.alive[at];
            let flight = self.flights[id as usize];
            if self.touches[flight.number as usize].order == order && flight.rank <= rank {
                self.close(id, Part::Results);
            }
        }
    }

    fn clean_alive(&mut self) {
        let flights = &self.flights;
        self.alive.retain(|&id| flights[id as usize].results || flights[id as usize].reads);
    }

    /// Puts an instruction in flight.
    fn launch(&mut self, number: usize, results: bool, reads: bool, ordered: bool) {
        let touches = &self.touches[number];
        let id = self.flights.len() as u32;
        let rank = if ordered { self.rank } else { 0 };
        let vouches = ordered && !touches.guarded;
        self.flights.push(Flight { number: number as u32, rank, written: 0, read: 0, results, reads, vouches });
        if results {
            for &touch in &touches.writes {
                self.enter(id, touch, Part::Results, vouches);
            }
            if let Some(order) = touches.order {
                self.orders[usize::from(order)].flights.push(id);
            }
        }
        if reads {
            for &touch in &touches.reads {
                self.enter(id, touch, Part::Reads, vouches);
            }
            if let Some(queue) = touches.queue {
                self.queues[usize::from(queue)].flights.push(id);
            }
        }
        if touches.is_fence {
            self.fences.push(id);
        }
        if touches.ends_group {
            self.groups.push(id);
        }
        self.alive.push(id);
        self.rank += 1;
    }

    /// Puts a flight into the list of a register, where it may stand for older ones.
    fn enter(&mut self, id: u32, touch: Touch, part: Part, vouches: bool) {
        let at = usize::from(touch.register);
        let is_results = part == Part::Results;
        if self.flights[id as usize].rank == 0 {
            let flight = &mut self.flights[id as usize];
            *(if is_results { &mut flight.written } else { &mut flight.read }) += 1;
            let list = if is_results { &mut self.writers[at] } else { &mut self.readers[at] };
            if list.is_empty() {
                self.used.push(touch.register);
            }
            list.push(Entry { flight: id, touch });
            return;
        }
        let group = |touches: &Touches| if is_results { touches.order } else { touches.queue };
        let touches = &self.touches[self.flights[id as usize].number as usize];
        let own = group(touches);
        let written = touches.guard.and_then(|(register, _)| self.predicate_written.get(usize::from(register) - FIRST_PREDICATE)).copied();
        let mut list = std::mem::take(if is_results { &mut self.writers[at] } else { &mut self.readers[at] });
        let flights = &mut self.flights;
        list.retain(|entry| {
            let flight = &mut flights[entry.flight as usize];
            if entry.flight == id {
                return true;
            }
            if !(if is_results { flight.results } else { flight.reads }) {
                return false;
            }
            let other = &self.touches[flight.number as usize];
            // One that may not take place stands for those that do so if and only if it does.
            let stands_for = vouches || other.guard == touches.guard && written.is_some_and(|written| written < flight.rank);
            if own.is_none() || group(other) != own || !stands_for {
                return true;
            }
            let left = if is_results { &mut flight.written } else { &mut flight.read };
            *left -= 1;
            if *left == 0 {
                if is_results {
                    flight.results = false;
                } else {
                    flight.reads = false;
                }
            }
            false
        });
        list.push(Entry { flight: id, touch });
        let flight = &mut self.flights[id as usize];
        *(if is_results { &mut flight.written } else { &mut flight.read }) += 1;
        *(if is_results { &mut self.writers[at] } else { &mut self.readers[at] }) = list;
        self.used.push(touch.register);
    }

    /// Whether the predicate that guards a flight has the value that it had then.
    fn guard_still_holds(&self, flight: &Flight) -> bool {
        let guard = self.touches[flight.number as usize].guard;
        let written = guard.and_then(|(register, _)| self.predicate_written.get(usize::from(register) - FIRST_PREDICATE));
        written.is_some_and(|&written| written < flight.rank)
    }

    /// If too many read a register late, the oldest is waited for.
    fn thin_out(&mut self, register: Register) {
        if self.readers[usize::from(register)].len() < CROWD {
            return;
        }
        let flights = &self.flights;
        let list = &mut self.readers[usize::from(register)];
        list.retain(|entry| flights[entry.flight as usize].reads);
        if let Some(oldest) = list.first().filter(|_| list.len() >= CROWD) {
            self.needed.push((self.flights[oldest.flight as usize].rank, oldest.flight, Part::Reads, Cause::Crowd));
        }
    }

    /// Where paths that skip each other's loads meet again and again, more and more is in flight on some path. Whoever comes first waits for
    /// the oldest, so that there is an end to it.
    fn thin_out_carried(&mut self) {
        for &register in &self.used {
            for (lists, part) in [(&self.writers, Part::Results), (&self.readers, Part::Reads)] {
                let list = &lists[usize::from(register)];
                let more = list.len().saturating_sub(KEPT);
                self.needed.extend(list[..more].iter().map(|entry| (0, entry.flight, part, Cause::Crowd)));
            }
        }
    }

    /// Holds an access against those in flight that touch its register.
    fn meet(&mut self, number: usize, touch: Touch, kind: Kind) {
        let at = usize::from(touch.register);
        let is_war = kind == Kind::War;
        let part = if is_war { Part::Reads } else { Part::Results };
        if (if is_war { &self.readers[at] } else { &self.writers[at] }).is_empty() {
            return;
        }
        let mut list = std::mem::take(if is_war { &mut self.readers[at] } else { &mut self.writers[at] });
        let after = &self.touches[number];
        let flights = &self.flights;
        list.retain(|entry| {
            let flight = &flights[entry.flight as usize];
            if is_war { flight.reads } else { flight.results }
        });
        for (place, entry) in list.iter().enumerate() {
            let flight = self.flights[entry.flight as usize];
            let before = &self.touches[flight.number as usize];
            let in_order = match kind {
                Kind::Waw => before.order.is_some() && before.order == after.order,
                Kind::War => before.queue.is_some() && before.queue == after.queue,
                Kind::Raw => false,
            };
            let is_crowd = list.len() >= CROWD && place == 0 && kind != Kind::Raw;
            if is_crowd {
                self.needed.push((flight.rank, entry.flight, part, Cause::Crowd));
                continue;
            }
            let excluded = || before.excludes(after) && self.guard_still_holds(&flight);
            if in_order || !need(self.model, kind, touch.register, entry.touch.port, touch.port, before.guarded).scoreboard || excluded() {
                continue;
            }
            self.needed.push((flight.rank, entry.flight, part, Cause::Register(kind.into(), touch.register)));
        }
        *(if is_war { &mut self.readers[at] } else { &mut self.writers[at] }) = list;
    }
}
