//! Hazards of a program while it runs in the simulator.
//!
//! Each warp has a [`Tracker`] that gets what the warp issues, with the threads that take part. Time is that of the stall counts alone,
//! the shortest there can be, and what has no fixed latency is outstanding until its scoreboard is waited for, the longest it can be; so
//! a clean run says that this path is right whatever memory and the other warps do. What one group of a diverged warp issues meets
//! only the registers of its own threads, and time in which it pauses does not count for it.
//!
//! The path, unlike that of the static check, is real: loops run as often as they do, calls go where they go, a guard that fails touches
//! nothing. Each pair of instructions is reported once for each problem.

use oriole_hardware::Model;
use rustc_hash::{FxHashMap, FxHashSet};

use super::lanes::{ALL, Mask};
use super::track::{Border, Tracker};
use super::{Finding, Problem, Severity, Step};
use crate::sass::warp::Warp;
use crate::sass::{Issue, Observer};

/// A finding where it was made first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    pub problem: Problem,
    /// The instruction that comes too early.
    pub second: Line,
    /// The one that it should have waited for; none if it is wrong by itself.
    pub first: Option<Line>,
    /// Number of the block in the grid, of the warp in the block.
    pub block: u64,
    pub warp: u32,
    /// The threads that issued the second.
    pub lanes: Mask,
}

/// An instruction of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Bytes from the start of its function.
    pub offset: u64,
    /// Control word and text.
    pub text: String,
}

impl std::fmt::Display for Sighting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Sighting { problem, second, first, block, warp, lanes } = self;
        write!(f, "{:#06x}: {problem} (block {block}, warp {warp}, threads {lanes:08x})", second.offset)?;
        for line in first.iter().chain([second]) {
            write!(f, "\n    {:#06x}  {}", line.offset, line.text)?;
        }
        Ok(())
    }
}

/// Looks for hazards in what the simulator executes.
pub struct Watch {
    limit: usize,
    severity: Severity,
    found: Vec<Sighting>,
    seen: FxHashSet<(usize, usize, std::mem::Discriminant<Problem>)>,
    steps: Vec<Step>,
    lines: Vec<Line>,
    /// The number of the step at an address.
    numbers: FxHashMap<u64, u32>,
    warps: FxHashMap<(u64, u32), usize>,
    /// The warp of the last instruction and its place.
    last: Option<((u64, u32), usize)>,
    states: Vec<State>,
    free: Vec<usize>,
}

struct State {
    tracker: Tracker<'static>,
    /// Threads that have not ended.
    alive: Mask,
}

impl Default for Watch {
    fn default() -> Self {
        Watch::new()
    }
}

impl Watch {
    /// Finds all hazards.
    pub fn new() -> Watch {
        Watch {
            limit: usize::MAX,
            severity: Severity::Hazard,
            found: Vec::new(),
            seen: FxHashSet::default(),
            steps: Vec::new(),
            lines: Vec::new(),
            numbers: FxHashMap::default(),
            warps: FxHashMap::default(),
            last: None,
            states: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Looks no further once it has found as many.
    pub fn limit(mut self, count: usize) -> Watch {
        self.limit = count;
        self
    }

    /// Reports notes too.
    pub fn with_notes(mut self) -> Watch {
        self.severity = Severity::Note;
        self
    }

    /// What was found, in the order of execution.
    pub fn findings(&self) -> &[Sighting] {
        &self.found
    }

    /// The number of the instruction's step.
    fn number(&mut self, issue: &Issue<'_>) -> usize {
        if let Some(&number) = self.numbers.get(&issue.address) {
            return number as usize;
        }
        let number = self.steps.len();
        self.steps.push(Step::new(issue.instruction, Model::of(issue.target)));
        let offset = issue.address - issue.function;
        let text = oriole_isa::print(issue.word, issue.target, offset).unwrap_or_default();
        self.lines.push(Line { offset, text: format!("[{}]  {text}", issue.instruction.control) });
        self.numbers.insert(issue.address, number as u32);
        number
    }

    /// The place of the warp's state.
    fn state(&mut self, issue: &Issue<'_>) -> usize {
        let warp = (issue.block, issue.warp);
        if let Some((last, place)) = self.last
            && last == warp
        {
            return place;
        }
        let place = match self.warps.get(&warp) {
            Some(&place) => place,
            None => {
                let place = self.free.pop().unwrap_or_else(|| {
                    self.states.push(State { tracker: Tracker::new(Model::of(issue.target)), alive: 0 });
                    self.states.len() - 1
                });
                self.states[place].alive = issue.group;
                self.states[place].tracker.enter(&self.steps, &Border::default());
                self.warps.insert(warp, place);
                place
            }
        };
        self.last = Some((warp, place));
        place
    }
}

impl Observer for Watch {
    fn issue(&mut self, issue: &Issue<'_>, _: &Warp) {
        if self.found.len() >= self.limit {
            return;
        }
        let number = self.number(issue);
        let place = self.state(issue);
        let state = &mut self.states[place];
        let (seen, found, lines, severity) = (&mut self.seen, &mut self.found, &self.lines, self.severity);
        // Threads that have ended do not pause.
        let group = if issue.group == state.alive { ALL } else { issue.group };
        state.tracker.issue_for(&self.steps, number, group, issue.active, &mut |finding| {
            let Finding { first, second, problem } = finding;
            if problem.severity() <= severity && seen.insert((first, second, std::mem::discriminant(&problem))) {
                let line = |number: usize| lines[number].clone();
                let is_alone = matches!(problem, Problem::NeverSet { .. } | Problem::StallIgnored { .. });
                let first = (!is_alone).then(|| line(first));
                found.push(Sighting { problem, second: line(second), first, block: issue.block, warp: issue.warp, lanes: issue.group });
            }
        });
        if self.steps[number].ends {
            state.alive &= !issue.active;
            state.tracker.end(issue.active);
            if state.alive == 0 {
                self.warps.remove(&(issue.block, issue.warp));
                self.last = None;
                self.free.push(place);
            }
        }
    }
}
