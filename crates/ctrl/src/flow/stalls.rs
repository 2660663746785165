//! Stalls: cycles for everything that has a fixed latency, counted along every path.
//!
//! What lies between two instructions is the sum of the stalls on the way. Where that is too little, the stall right in front of the
//! second grows; at the start of a block it is the last of those blocks before it on whose paths something is missing. Stalls only grow,
//! so going round until nothing changes ends.
//!
//! Two places are better than the one right in front. A stall before a wait for a scoreboard passes while the warp would wait anyway, if
//! what is waited for usually takes that long. And
//! what a loop finds from outside when it is entered is settled before the loop, where it costs time once.
//!
//! For each register and port only the last access is remembered, and only until no second instruction needs to heed it, so the time is
//! proportional to the length of the code.
//!
//! Besides registers, four things take time: a unit is busy for a while with each instruction, and the hardware would hold the next one back,
//! after which all stalls that were counted without that are too long; a wait sees a scoreboard only a moment after it was set; behind a barrier of the block
//! everything but arithmetic keeps away for a while; and some instructions want a stall whatever comes behind them.

use std::iter::repeat_with;

use oriole_hardware::{ControlRules, Kind, Model, Port};
use oriole_isa::{Control, File, Opcode};
use smallvec::SmallVec;

use super::Code;
use super::paths::{Paths, Todo};
use super::touch::{Drain, REGISTERS, Register, Touches, file_of, need};
use super::waits::KindOf;

/// Why an instruction stalls as long as it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StallCause {
    /// It always does.
    Own,
    /// The next one touches a register of a first instruction that needs so many cycles.
    Register { first: u32, kind: KindOf, register: Register, cycles: u8 },
    /// The next one waits for a scoreboard that was just set.
    Scoreboard { first: u32, board: u8 },
    /// A barrier of the block is not yet heeded.
    Barrier { first: u32 },
    /// The next one goes to the same unit, which is busy so long.
    Unit { first: u32, cycles: u8 },
    /// The next one hands over to code that knows nothing of what is still to come.
    Settle { first: u32 },
}

/// An instruction before which no stall is long enough: so many cycles are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortfall {
    pub before: usize,
    pub cycles: u32,
}

/// The last access to a register by a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Access {
    register: Register,
    port: Port,
    write: bool,
    guarded: bool,
    /// When it was issued; in states between blocks, how many cycles ago.
    at: i64,
    first: u32,
}

impl Access {
    fn is_same_place(&self, other: &Access) -> bool {
        (self.register, self.port, self.write, self.guarded) == (other.register, other.port, other.write, other.guarded)
    }
}

/// A wait so many instructions ago is no place for a stall any more.
const NEAR: usize = 16;
/// A moment that nobody remembers any more.
const LONG_AGO: i64 = 1 << 20;
/// As many scoreboards as a wait mask has bits.
const BOARDS: usize = 6;

/// What was issued a short while ago, where a block ends. Times are ages.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    accesses: Vec<Access>,
    /// For each scoreboard when it was set last, and by whom.
    set: [(i64, u32); BOARDS],
    barrier: (i64, u32),
}

impl State {
    fn new() -> State {
        State { accesses: Vec::new(), set: [(LONG_AGO, 0); BOARDS], barrier: (LONG_AGO, 0) }
    }

    fn merge(&mut self, other: &State) {
        self.accesses.extend(&other.accesses);
        for (one, two) in self.set.iter_mut().zip(&other.set) {
            *one = (*one).min(*two);
        }
        self.barrier = self.barrier.min(other.barrier);
    }

    /// More time has passed.
    fn age(&mut self, cycles: i64, model: &Model) {
        for access in &mut self.accesses {
            access.at += cycles;
        }
        self.accesses.retain(|access| access.at < lasting(model, access));
        for (at, _) in self.set.iter_mut().chain([&mut self.barrier]) {
            *at = (*at + cycles).min(LONG_AGO);
        }
    }
}

/// After so many cycles nobody has to heed an access.
fn lasting(model: &Model, access: &Access) -> i64 {
    let file = file_of(access.register);
    let cycles = if access.write {
        model.lasting(Kind::Raw, file, access.port).max(model.lasting(Kind::Waw, file, access.port))
    } else {
        model.lasting(Kind::War, file, access.port)
    };
    cycles.into()
}

/// What comes out.
#[derive(Debug, Default)]
pub struct Outcome {
    pub shortfalls: Vec<Shortfall>,
    /// For each instruction why it stalls, if that was asked for.
    pub causes: Vec<StallCause>,
}

/// Lengthens stalls until all fixed latencies are kept.
pub fn settle(
    code: &Code<'_>,
    paths: &Paths,
    touches: &[Touches],
    model: &Model,
    rules: &ControlRules,
    controls: &mut [Control],
    with_causes: bool,
) -> Outcome {
    for (control, touched) in controls.iter_mut().zip(touches) {
        let wants = rules.wants(touched.opcode);
        control.stall = if wants.open_stall { 0 } else { wants.least_stall };
    }
    let causes = if with_causes { vec![StallCause::Own; controls.len()] } else { Vec::new() };
    let mut walker = Walker {
        code,
        touches,
        model,
        rules,
        controls,
        // `vec!` would clone an empty list for each, which takes ten times as long.
        at: repeat_with(SmallVec::new).take(REGISTERS).collect(),
        used: Vec::new(),
        set: [(-LONG_AGO, 0); BOARDS],
        barrier: (-LONG_AGO, 0),
        busy: vec![(-LONG_AGO, 0); rules.paced_units()],
        outcome: Outcome { shortfalls: Vec::new(), causes },
    };
    let mut left: Vec<Option<State>> = vec![None; code.blocks.len()];
    let mut todo = Todo::new(code.blocks.len());
    paths.roots.iter().for_each(|&root| todo.push(root));
    while let Some(block) = todo.pop() {
        let first = code.blocks[block].range.clone().next();
        let mut entry = State::new();
        let enters_loop = |before: u32| paths.depth_of_block(before as usize) < paths.depth_of_block(block);
        if left[block].is_none() && paths.before[block].iter().any(|&before| enters_loop(before)) {
            // What the loop wants by itself is settled inside.
            walker.walk(block, &entry);
        }
        for &before in &paths.before[block] {
            let before = before as usize;
            let Some(state) = &mut left[before] else { continue };
            let mut grown = first.map_or(0, |first| walker.lengthen_end(before, first, state));
            state.age(grown, model);
            if enters_loop(before as u32) {
                let more = walker.settle_before_loop(before, block, state);
                state.age(more, model);
                grown += more;
            }
            if grown > 0 {
                for &next in &code.blocks[before].successors {
                    if next != block {
                        todo.push(next);
                    }
                }
            }
            entry.merge(state);
        }
        let state = walker.walk(block, &entry);
        if left[block].as_ref() != Some(&state) {
            left[block] = Some(state);
            code.blocks[block].successors.iter().for_each(|&next| todo.push(next));
        }
    }
    let mut outcome = walker.outcome;
    outcome.shortfalls.sort_unstable_by_key(|one| (one.before, std::cmp::Reverse(one.cycles)));
    outcome.shortfalls.dedup_by_key(|one| one.before);
    outcome
}

struct Walker<'a> {
    code: &'a Code<'a>,
    touches: &'a [Touches],
    model: &'a Model,
    rules: &'a ControlRules,
    controls: &'a mut [Control],
    /// For each register who touched it lately.
    at: Vec<SmallVec<[Access; 4]>>,
    used: Vec<Register>,
    set: [(i64, u32); BOARDS],
    barrier: (i64, u32),
    /// For each unit when it got its last instruction in this block, and which.
    busy: Vec<(i64, u32)>,
    outcome: Outcome,
}

/// Cycles that are missing before an instruction, and why.
type Missing = (i64, StallCause);

impl Walker<'_> {
    /// Goes through a block; what is outstanding at its end.
    fn walk(&mut self, block: usize, entry: &State) -> State {
        for register in self.used.drain(..) {
            self.at[usize::from(register)].clear();
        }
        for access in &entry.accesses {
            self.remember(Access { at: -access.at, ..*access });
        }
        self.set = entry.set.map(|(age, first)| (-age, first));
        self.barrier = (-entry.barrier.0, entry.barrier.1);
        self.busy.fill((-LONG_AGO, 0));
        let range = self.code.blocks[block].range.clone();
        let mut now: i64 = 0;
        for number in range.clone() {
            if number > range.start {
                now += self.make_room(range.start, number, now);
            }
            self.launch(number, now);
            now += cycles_of(self.controls[number]);
        }
        self.leave(now)
    }

    fn leave(&mut self, now: i64) -> State {
        let mut state = State::new();
        self.used.sort_unstable();
        self.used.dedup();
        for &register in &self.used {
            for access in &self.at[usize::from(register)] {
                let age = now - access.at;
                if age < lasting(self.model, access) {
                    state.accesses.push(Access { at: age, ..*access });
                }
            }
        }
        state.set = self.set.map(|(at, first)| if now - at >= LONG_AGO { (LONG_AGO, 0) } else { (now - at, first) });
        for set in &mut state.set {
            if set.0 >= i64::from(self.rules.facts.scoreboard_seen) {
                *set = (LONG_AGO, 0);
            }
        }
        let age = now - self.barrier.0;
        state.barrier = if age >= i64::from(self.rules.facts.barrier_hold) { (LONG_AGO, 0) } else { (age, self.barrier.1) };
        state
    }

    fn remember(&mut self, access: Access) {
        let list = &mut self.at[usize::from(access.register)];
        if list.is_empty() {
            self.used.push(access.register);
        }
        match list.iter_mut().find(|other| other.is_same_place(&access)) {
            Some(other) if other.at < access.at => *other = access,
            Some(_) => {}
            None => list.push(access),
        }
    }

    fn launch(&mut self, number: usize, now: i64) {
        let touches = &self.touches[number];
        let first = number as u32;
        for (list, write) in [(&touches.reads[..], false), (&touches.writes[..], true)] {
            for touch in list {
                self.remember(Access { register: touch.register, port: touch.port, write, guarded: touches.guarded, at: now, first });
            }
        }
        let control = self.controls[number];
        for board in [control.write_barrier, control.read_barrier].into_iter().flatten() {
            if let Some(set) = self.set.get_mut(usize::from(board)) {
                *set = (now, first);
            }
        }
        if touches.opcode == Opcode::BAR {
            self.barrier = (now, first);
        }
        if let Some(pace) = self.rules.pace(touches.class) {
            self.busy[usize::from(pace.unit)] = (now, first);
        }
    }

    /// Lengthens stalls until an instruction may be issued; by how much.
    fn make_room(&mut self, start: usize, number: usize, now: i64) -> i64 {
        let (missing, cause) = self.missing(number, now, &|_| true);
        if missing <= 0 {
            return 0;
        }
        let Some(wait) = self.wait_before(start, number, now, missing) else { return self.lengthen(start, number, number, missing, cause) };
        // What was issued behind the wait can only be settled there, and that may be enough.
        let (missing, cause) = self.missing(number, now, &|first| (wait..number).contains(&first));
        let added = if missing > 0 { self.lengthen(start, number, number, missing, cause) } else { 0 };
        let (missing, cause) = self.missing(number, now + added, &|_| true);
        if missing <= 0 {
            return added;
        }
        added + self.lengthen(start, wait, number, missing, cause)
    }

    /// Cycles that are missing in front of an instruction, where those count that touched its registers and are asked for.
    fn missing(&self, number: usize, now: i64, counts: &dyn Fn(usize) -> bool) -> Missing {
        let touches = &self.touches[number];
        let mut worst = (0, StallCause::Own);
        let mut hold = |missing: i64, cause: StallCause| {
            if missing > worst.0 {
                worst = (missing, cause);
            }
        };
        for (list, write) in [(&touches.reads[..], false), (&touches.writes[..], true)] {
            for touch in list {
                for access in self.at[usize::from(touch.register)].iter().filter(|access| counts(access.first as usize)) {
                    let (missing, cause) = self.missing_for(access, touch.port, write, now);
                    hold(missing, cause);
                }
            }
        }
        self.missing_beside_registers(number, now, &self.set, self.barrier, &mut hold);
        if let Some(pace) = self.rules.pace(touches.class) {
            let (at, first) = self.busy[usize::from(pace.unit)];
            let cycles = self.rules.pace(self.touches[first as usize].class).map_or(0, |pace| pace.cycles);
            hold(i64::from(cycles) - (now - at), StallCause::Unit { first, cycles });
        }
        if touches.drain == Drain::Everything {
            let after = cycles_of(self.controls[number]);
            for &register in &self.used {
                for access in self.at[usize::from(register)].iter().filter(|access| access.write && counts(access.first as usize)) {
                    let cycles = i64::from(self.model.lasting(Kind::Raw, file_of(register), access.port));
                    hold(cycles - after - (now - access.at), StallCause::Settle { first: access.first });
                }
            }
        }
        worst
    }

    /// Cycles that are missing between an access and one that follows.
    fn missing_for(&self, access: &Access, port: Port, write: bool, now: i64) -> Missing {
        let kind = match (access.write, write) {
            (true, false) => Kind::Raw,
            (false, true) => Kind::War,
            (true, true) => Kind::Waw,
            (false, false) => return (0, StallCause::Own),
        };
        let cycles = need(self.model, kind, access.register, access.port, port, access.guarded).cycles;
        let cause = StallCause::Register { first: access.first, kind: kind.into(), register: access.register, cycles };
        (i64::from(cycles) - (now - access.at), cause)
    }

    /// The same for scoreboards and barriers.
    fn missing_beside_registers(
        &self,
        number: usize,
        now: i64,
        set: &[(i64, u32); BOARDS],
        barrier: (i64, u32),
        hold: &mut dyn FnMut(i64, StallCause),
    ) {
        let wait = self.controls[number].wait;
        if wait != 0 {
            for (board, &(at, first)) in set.iter().enumerate().filter(|(board, _)| wait >> board & 1 == 1) {
                let seen = i64::from(self.rules.facts.scoreboard_seen);
                hold(seen - (now - at), StallCause::Scoreboard { first, board: board as u8 });
            }
        }
        // A register may hold what an instruction before the barrier is still to read.
        let overwrites = self.touches[number].writes.iter().any(|touch| file_of(touch.register) == File::General);
        if overwrites || !self.rules.may_follow_barrier(self.touches[number].class) {
            hold(i64::from(self.rules.facts.barrier_hold) - (now - barrier.0), StallCause::Barrier { first: barrier.1 });
        }
    }

    /// Lengthens the stall in front of a place before an instruction, then those right in front of the instruction; by how much in all.
    fn lengthen(&mut self, start: usize, place: usize, number: usize, missing: i64, cause: StallCause) -> i64 {
        let mut left = missing;
        let first = match cause {
            StallCause::Register { first, .. } | StallCause::Settle { first } => first as usize,
            _ => number - 1,
        };
        let start = start.max(first.min(number - 1));
        let best = Some(place - 1).filter(|&at| at >= start && place < number);
        for at in best.into_iter().chain((start..number).rev()) {
            let added = self.lengthen_one(at, left, cause);
            left -= added;
            if added > 0 && at + 1 < number {
                (at + 1..number).for_each(|moved| self.postpone(moved, added));
            }
            if left == 0 {
                return missing;
            }
        }
        self.outcome.shortfalls.push(Shortfall { before: number, cycles: left as u32 });
        missing - left
    }

    /// The last before an instruction that usually waits so long for a scoreboard, if nothing is sent off in between that would come later.
    fn wait_before(&self, start: usize, number: usize, now: i64, cycles: i64) -> Option<usize> {
        let mut at = now;
        for second in (start.max(number.saturating_sub(NEAR)) + 1..number).rev() {
            at -= cycles_of(self.controls[second]);
            let touches = &self.touches[second];
            if touches.announces_results || touches.announces_reads {
                return None;
            }
            if self.usual_wait(start, second, at) >= cycles {
                return Some(second);
            }
        }
        None
    }

    /// How long an instruction that is issued at a time usually waits for what its block has sent off.
    fn usual_wait(&self, start: usize, second: usize, at: i64) -> i64 {
        let wait = self.controls[second].wait;
        let boards = (0..BOARDS).filter(|board| wait >> board & 1 == 1);
        let left = boards.map(|board| {
            let (set, first) = self.set[board];
            if !(start..second).contains(&(first as usize)) || set < 0 {
                return 0;
            }
            let is_result = self.controls[first as usize].write_barrier == Some(board as u8);
            let time = self.model.time(self.touches[first as usize].class);
            set + time.map_or(0, |time| i64::from(if is_result { time.usual } else { time.read })) - at
        });
        left.max().unwrap_or(0)
    }

    fn lengthen_one(&mut self, at: usize, missing: i64, cause: StallCause) -> i64 {
        if self.rules.wants(self.touches[at].opcode).open_stall {
            return 0;
        }
        let stall = &mut self.controls[at].stall;
        let cap = self.rules.facts.stall_cap as i64;
        let added = missing.min(cap - i64::from(*stall));
        *stall += added as u8;
        if added > 0 && !self.outcome.causes.is_empty() {
            self.outcome.causes[at] = cause;
        }
        added
    }

    /// An instruction of this block turns out to issue later.
    fn postpone(&mut self, number: usize, cycles: i64) {
        let first = number as u32;
        let touches = &self.touches[number];
        let mut registers: SmallVec<[Register; 16]> = touches.reads.iter().chain(&touches.writes).map(|touch| touch.register).collect();
        // One that is read and written has both accesses in one list.
        registers.sort_unstable();
        registers.dedup();
        for register in registers {
            for access in self.at[usize::from(register)].iter_mut().filter(|access| access.first == first) {
                access.at += cycles;
            }
        }
        for set in self.set.iter_mut().chain([&mut self.barrier]).chain(&mut self.busy).filter(|set| set.1 == first) {
            set.0 += cycles;
        }
    }

    /// Lengthens the last stall of a block as far as a loop that begins behind it wants, with the stalls that it has; by how much.
    fn settle_before_loop(&mut self, before: usize, block: usize, state: &State) -> i64 {
        let Some(last) = self.code.blocks[before].range.clone().last() else { return 0 };
        let lasting = state.accesses.iter().map(|access| lasting(self.model, access) - access.at).max().unwrap_or(0);
        let mut worst = (0, StallCause::Own);
        let mut now = 0;
        for number in self.code.blocks[block].range.clone() {
            if now >= lasting {
                break;
            }
            let touches = &self.touches[number];
            for (list, write) in [(&touches.reads[..], false), (&touches.writes[..], true)] {
                for touch in list {
                    // They are in the order of registers.
                    let from = state.accesses.partition_point(|access| access.register < touch.register);
                    for access in state.accesses[from..].iter().take_while(|access| access.register == touch.register) {
                        let (missing, cause) = self.missing_for(&Access { at: -access.at, ..*access }, touch.port, write, now);
                        if missing > worst.0 {
                            worst = (missing, cause);
                        }
                    }
                }
            }
            now += cycles_of(self.controls[number]);
        }
        let (missing, cause) = worst;
        if missing > 0 { self.lengthen_one(last, missing, cause) } else { 0 }
    }

    /// Lengthens the last stall of a block as far as the first instruction of one behind it wants; by how much.
    fn lengthen_end(&mut self, before: usize, number: usize, state: &State) -> i64 {
        let touches = &self.touches[number];
        let mut worst = (0, StallCause::Own);
        let mut hold = |missing: i64, cause: StallCause| {
            if missing > worst.0 {
                worst = (missing, cause);
            }
        };
        for access in &state.accesses {
            let access = Access { at: -access.at, ..*access };
            for (list, write) in [(&touches.reads[..], false), (&touches.writes[..], true)] {
                for touch in list.iter().filter(|touch| touch.register == access.register) {
                    let (missing, cause) = self.missing_for(&access, touch.port, write, 0);
                    hold(missing, cause);
                }
            }
            if touches.drain == Drain::Everything && access.write {
                let cycles = i64::from(self.model.lasting(Kind::Raw, file_of(access.register), access.port));
                hold(cycles - cycles_of(self.controls[number]) + access.at, StallCause::Settle { first: access.first });
            }
        }
        let set = state.set.map(|(age, first)| (-age, first));
        self.missing_beside_registers(number, 0, &set, (-state.barrier.0, state.barrier.1), &mut hold);
        let (missing, cause) = worst;
        if missing <= 0 {
            return 0;
        }
        let added = self.code.blocks[before].range.clone().last().map_or(0, |last| self.lengthen_one(last, missing, cause));
        if added < missing {
            self.outcome.shortfalls.push(Shortfall { before: number, cycles: (missing - added) as u32 });
        }
        added
    }
}

/// Cycles until the next instruction, at least. A stall of 0 takes two.
fn cycles_of(control: Control) -> i64 {
    if control.stall == 0 { 2 } else { control.stall.into() }
}
