//! Six scoreboards for all that is waited for.
//!
//! Any choice is right: a scoreboard counts those that hold it, and who waits for it waits for all of them. So the choice only costs time,
//! where a wait catches somebody whom it did not want. Going through the code, each that is waited for takes the scoreboard that costs
//! least:
//!
//! - one that is waited for at the very same place, and nowhere else: nothing is lost and the others stay free;
//! - a free one, the one that has been free for longest first (it is the least likely to be caught by a wait on another path);
//! - otherwise one that others hold. If they are waited for before, that wait will catch the newcomer, and lasts as long as the newcomer
//!   still takes there; if the newcomer is waited for before, its wait lasts as long as the others still take. Times are the usual ones of
//!   the model, less the distance; waits in loops count more. Things often take longer than usual, so among equals the one with the most
//!   time to spare comes first, then own kind: it takes about as long.
//!
//! One that is waited for in the next round of a loop holds its scoreboard to the end of the loop, and from its start to that place; it
//! gets it when the loop begins, so that those in between know.
//!
//! At the end, waits go that another wait for the same scoreboard has made needless: behind the first of those who wait for a shared
//! scoreboard, all its holders are done.
//!
//! Scoreboards that the code itself names (`LDGDEPBAR`, `UTMACMDFLUSH` and the `DEPBAR` that counts them) are left to those.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use oriole_hardware::{Class, ControlRules, Model};
use oriole_isa::{Control, File, Opcode, Value};

use super::Code;
use super::paths::{Paths, Todo};
use super::touch::{Pinned, Touches};
use super::waits::{Part, Wait};

/// Cycles that an instruction usually takes to issue, where stalls are not yet known.
const PACE: i64 = 2;
/// Cycles of an instruction of variable latency of which the model says nothing.
const UNKNOWN_TIME: i64 = 30;

/// One that is waited for.
struct Holder<'w> {
    first: usize,
    part: Part,
    waits: &'w [Wait],
    /// Until it is done, usually.
    time: i64,
    class: Class,
    /// The loop it is waited for across, from start to end.
    around: Option<(usize, usize)>,
}

impl Holder<'_> {
    fn later(&self) -> impl Iterator<Item = usize> {
        self.waits.iter().map(|wait| wait.second as usize).filter(|&second| second > self.first)
    }

    fn earlier(&self) -> impl Iterator<Item = usize> {
        self.waits.iter().map(|wait| wait.second as usize).filter(|&second| second <= self.first)
    }
}

#[derive(Clone, Debug, Default)]
struct Board {
    /// Where holders are waited for, the nearest first.
    places: BinaryHeap<Reverse<usize>>,
    /// When the last of them is done.
    ready: i64,
    class: Option<Class>,
    free_since: usize,
}

impl Board {
    fn pass(&mut self, place: usize) {
        while let Some(&Reverse(next)) = self.places.peek().filter(|next| next.0 <= place) {
            self.places.pop();
            self.free_since = next;
        }
    }
}

/// Control words with scoreboards and waits; stalls are still to come.
pub fn allocate(code: &Code<'_>, paths: &Paths, touches: &[Touches], waits: &[Wait], model: &Model, rules: &ControlRules) -> Vec<Control> {
    let mut controls = vec![Control::default(); touches.len()];
    let (counted, pinned) = pin(code, touches, rules, &mut controls);
    let without = |mask: u8| (0..rules.scoreboards).filter(|index| mask >> index & 1 == 0).collect::<Vec<usize>>();
    // If all are counted, those do no harm whose setters the code does not name.
    let free = [without(counted | pinned), without(pinned)].into_iter().find(|free| !free.is_empty()).unwrap_or_default();
    let holders: Vec<Holder<'_>> = waits
        .chunk_by(|one, two| (one.first, one.part) == (two.first, two.part))
        .filter(|waits| !is_pinned(&touches[waits[0].first as usize], waits[0].part))
        .filter(|waits| may_set(&touches[waits[0].first as usize], waits[0].part))
        .map(|waits| holder(paths, touches, waits, model, code.instructions.len()))
        .collect();
    let mut starts: Vec<(usize, usize)> =
        holders.iter().enumerate().filter_map(|(at, holder)| holder.around.map(|(start, _)| (start, at))).collect();
    starts.sort_unstable();
    let mut starts = starts.into_iter().peekable();
    let mut choice = Choice { paths, rules, boards: vec![Board::default(); rules.scoreboards], free };
    let mut given: Vec<Option<usize>> = vec![None; holders.len()];
    for (at, one) in holders.iter().enumerate() {
        while let Some((start, early)) = starts.next_if(|&(start, _)| start <= one.first) {
            let holder = &holders[early];
            let places = holder.earlier();
            given[early] = Some(choice.give(holder, start.saturating_sub(1), places.collect(), None));
        }
        let places = one.later().chain(one.around.map(|(_, end)| end)).collect();
        let index = choice.give(one, one.first, places, given[at]);
        let scoreboard = Some(index as u8);
        match one.part {
            Part::Results => controls[one.first].write_barrier = scoreboard,
            Part::Reads => controls[one.first].read_barrier = scoreboard,
        }
        for wait in one.waits {
            controls[wait.second as usize].wait |= 1 << index;
        }
    }
    for wait in waits.iter().filter(|wait| is_pinned(&touches[wait.first as usize], wait.part)) {
        let first = controls[wait.first as usize];
        let board = if wait.part == Part::Results { first.write_barrier } else { first.read_barrier };
        controls[wait.second as usize].wait |= board.map_or(0, |board| 1 << board);
    }
    drop_implied(code, paths, &mut controls);
    controls
}

/// Takes away waits for scoreboards that are waited for before on all paths, since they were set last.
fn drop_implied(code: &Code<'_>, paths: &Paths, controls: &mut [Control]) {
    let sets = |control: &Control| {
        let bit = |board: Option<u8>| board.map_or(0, |board| 1 << board);
        bit(control.write_barrier) | bit(control.read_barrier)
    };
    let pass = |open: u8, control: &Control| open & !control.wait | sets(control);
    let mut entry: Vec<u8> = vec![0; code.blocks.len()];
    let mut todo = Todo::new(code.blocks.len());
    paths.roots.iter().for_each(|&root| todo.push(root));
    let mut reached = vec![false; code.blocks.len()];
    while let Some(block) = todo.pop() {
        reached[block] = true;
        let left = controls[code.blocks[block].range.clone()].iter().fold(entry[block], pass);
        for &next in &code.blocks[block].successors {
            if !reached[next] || left & !entry[next] != 0 {
                entry[next] |= left;
                todo.push(next);
            }
        }
    }
    for (block, entry) in code.blocks.iter().zip(entry) {
        let mut open = entry;
        for control in &mut controls[block.range.clone()] {
            control.wait &= open;
            open = pass(open, control);
        }
    }
}

fn holder<'w>(paths: &Paths, touches: &[Touches], waits: &'w [Wait], model: &Model, end: usize) -> Holder<'w> {
    let (first, part) = (waits[0].first as usize, waits[0].part);
    let class = touches[first].class;
    let time = model.time(class).map_or(UNKNOWN_TIME, |time| i64::from(if part == Part::Results { time.usual } else { time.read }));
    let earliest = waits.iter().map(|wait| wait.second as usize).filter(|&second| second <= first).min();
    let around = earliest.map(|earliest| paths.loop_around(first, earliest).map_or((0, end), |one| (one.start, one.end)));
    Holder { first, part, waits, time, class, around }
}

/// Whether the form of an instruction may set a scoreboard for its results or its reads.
fn may_set(touches: &Touches, part: Part) -> bool {
    match part {
        Part::Results => touches.may_set_for_results,
        Part::Reads => touches.may_set_for_reads,
    }
}

fn is_pinned(touches: &Touches, part: Part) -> bool {
    match touches.pinned {
        Pinned::No => false,
        Pinned::Write => part == Part::Results,
        Pinned::Read => part == Part::Reads,
    }
}

/// Gives those whose scoreboard the code names theirs; a bit for each scoreboard that a `DEPBAR` counts, and for each that was given.
fn pin(code: &Code<'_>, touches: &[Touches], rules: &ControlRules, controls: &mut [Control]) -> (u8, u8) {
    let named = |at: usize| match code.instructions[at].operands.first()?.value {
        Value::Register(File::Scoreboard, Some(number)) if usize::from(number) < rules.scoreboards => Some(number as u8),
        _ => None,
    };
    let counted = (0..touches.len()).filter(|&at| touches[at].opcode == Opcode::DEPBAR).filter_map(named);
    let counted = counted.fold(0, |mask, board| mask | 1u8 << board);
    let usual = if counted == 0 { 0 } else { counted.trailing_zeros() as u8 };
    let mut pinned = 0;
    for (at, touched) in touches.iter().enumerate().filter(|(_, touched)| touched.pinned != Pinned::No) {
        let said = code.instructions[at].control;
        let own = if touched.pinned == Pinned::Write { said.write_barrier } else { said.read_barrier };
        let board = own.filter(|own| counted >> own & 1 == 1).unwrap_or(usual);
        match touched.pinned {
            Pinned::Write => controls[at].write_barrier = Some(board),
            _ => controls[at].read_barrier = Some(board),
        }
        pinned |= 1 << board;
    }
    (counted, pinned)
}

struct Choice<'a> {
    paths: &'a Paths,
    rules: &'a ControlRules,
    boards: Vec<Board>,
    /// Those that may be given away.
    free: Vec<usize>,
}

impl Choice<'_> {
    /// Gives a holder a scoreboard from a place on, until the places where it is waited for.
    fn give(&mut self, holder: &Holder<'_>, from: usize, places: Vec<usize>, given: Option<usize>) -> usize {
        for board in &mut self.boards {
            board.pass(from);
        }
        let next = places.iter().copied().min().unwrap_or(from);
        let ready = from as i64 * PACE + holder.time;
        let index = given.unwrap_or_else(|| {
            let rank = |&index: &usize| self.rank(index, next, places.len(), ready, holder.class);
            self.free.iter().copied().min_by_key(rank).unwrap_or(0)
        });
        let board = &mut self.boards[index];
        let others = if board.places.is_empty() { 0 } else { board.ready };
        board.ready = ready.max(others);
        board.class = Some(holder.class);
        board.places.extend(places.into_iter().map(Reverse));
        index
    }

    /// What it costs to hold a scoreboard, and what decides among equals; less is better.
    fn rank(&self, index: usize, next: usize, places: usize, ready: i64, class: Class) -> (i64, u8, i64, bool, usize) {
        let board = &self.boards[index];
        let other_kind = board.class != Some(class);
        let Some(&Reverse(theirs)) = board.places.peek() else { return (0, 1, 0, false, board.free_since) };
        if theirs == next && places == 1 && board.places.len() == 1 {
            return (0, 0, 0, other_kind, board.free_since);
        }
        let (ready, place) = if theirs < next { (ready, theirs) } else { (board.ready, next) };
        let late = ready - place as i64 * PACE;
        (late.max(0) * self.weight(place), 2, late, other_kind, board.free_since)
    }

    fn weight(&self, place: usize) -> i64 {
        let depth = self.paths.depth(place).min(self.rules.facts.loop_levels);
        i64::from(self.rules.facts.loop_weight).pow(depth)
    }
}
