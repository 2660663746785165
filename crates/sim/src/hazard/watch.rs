//! Dynamic hazard check: observes the functional simulator and reports hazards on the executed paths.
//!
//! Each warp has a [`Tracker`] that is given every instruction the warp issues, with its active threads. Time is the sum of the stall
//! counts, the shortest possible; a variable-latency result is pending until its scoreboard is waited for, the longest possible. A run
//! without findings therefore proves the executed path free of hazards, whatever the timing of memory and other warps. After divergence,
//! each group is checked against its own threads' accesses only, and time in which it is paused does not count.
//!
//! Unlike the static check in [`super::flow`], this one sees only real paths: actual trip counts, actual call targets, and no access by an
//! instruction whose guard is false. Each combination of two instructions and a kind of problem is reported once.

use oriole_hardware::Model;
use rustc_hash::{FxHashMap, FxHashSet};

use super::boundary::BoundaryState;
use super::lanes::{ALL, Mask};
use super::track::Tracker;
use super::{HazardFinding, HazardSeverity, HazardStep, Problem};
use crate::sass::warp::Warp;
use crate::sass::{Issue, Observer};

/// A hazard and the place of its first occurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocatedFinding {
    pub problem: Problem,
    /// The instruction that issues too early.
    pub second: WatchLine,
    /// The instruction it should have waited for; `None` if the problem concerns one instruction only.
    pub first: Option<WatchLine>,
    /// Linear index of the block in the grid.
    pub block: u64,
    /// Index of the warp in the block.
    pub warp: u32,
    /// Threads that issued the second instruction.
    pub lanes: Mask,
}

/// An instruction, as shown to users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchLine {
    /// Offset in bytes from the start of its function.
    pub offset: u64,
    /// Control word and SASS text.
    pub text: String,
}

impl std::fmt::Display for LocatedFinding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let LocatedFinding { problem, second, first, block, warp, lanes } = self;
        write!(f, "{:#06x}: {problem} (block {block}, warp {warp}, threads {lanes:08x})", second.offset)?;
        for line in first.iter().chain([second]) {
            write!(f, "\n    {:#06x}  {}", line.offset, line.text)?;
        }
        Ok(())
    }
}

/// Observer of the simulator that collects hazards.
pub struct HazardObserver {
    /// Number of findings after which checking stops.
    limit: usize,
    /// Least severe kind of finding to report.
    severity: HazardSeverity,
    found: Vec<LocatedFinding>,
    /// Pairs of instructions and kinds of problem that were already reported.
    seen: FxHashSet<(usize, usize, std::mem::Discriminant<Problem>)>,
    /// All instructions seen so far, in the order of their first execution.
    steps: Vec<HazardStep>,
    lines: Vec<WatchLine>,
    /// Index of the step for each instruction address.
    numbers: FxHashMap<u64, u32>,
    /// Index into `states` of each running warp, by (block, warp).
    warps: FxHashMap<(u64, u32), usize>,
    /// The warp of the last instruction and its index: a cache in front of `warps`.
    last: Option<((u64, u32), usize)>,
    states: Vec<WatchState>,
    /// Indices of states of warps that have ended, for reuse.
    free: Vec<usize>,
}

/// The state of one warp.
struct WatchState {
    tracker: Tracker<'static>,
    /// Threads that have not exited.
    alive: Mask,
}

impl Default for HazardObserver {
    fn default() -> Self {
        HazardObserver::new()
    }
}

impl HazardObserver {
    /// Makes an observer that reports all hazards and no notes.
    pub fn new() -> HazardObserver {
        HazardObserver {
            limit: usize::MAX,
            severity: HazardSeverity::Hazard,
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

    /// Stops checking after `count` findings.
    pub fn limit(mut self, count: usize) -> HazardObserver {
        self.limit = count;
        self
    }

    /// Returns the findings in order of execution.
    pub fn findings(&self) -> &[LocatedFinding] {
        &self.found
    }

    /// Returns the index of the instruction's step, which is added on first execution.
    fn number(&mut self, issue: &Issue<'_>) -> usize {
        if let Some(&number) = self.numbers.get(&issue.address) {
            return number as usize;
        }
        let number = self.steps.len();
        self.steps.push(HazardStep::new(issue.instruction, Model::of(issue.target)));
        let offset = issue.address - issue.function;
        let text = oriole_isa::print(issue.word, issue.target, offset).unwrap_or_default();
        self.lines.push(WatchLine { offset, text: format!("[{}]  {text}", issue.instruction.control) });
        self.numbers.insert(issue.address, number as u32);
        number
    }

    /// Returns the index of the warp's state, which is set up on the warp's first instruction.
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
                    self.states.push(WatchState { tracker: Tracker::new(Model::of(issue.target)), alive: 0 });
                    self.states.len() - 1
                });
                self.states[place].alive = issue.group;
                self.states[place].tracker.enter(&self.steps, &BoundaryState::default());
                self.warps.insert(warp, place);
                place
            }
        };
        self.last = Some((warp, place));
        place
    }
}

impl Observer for HazardObserver {
    fn issue(&mut self, issue: &Issue<'_>, _: &Warp) {
        if self.found.len() >= self.limit {
            return;
        }
        let number = self.number(issue);
        let place = self.state(issue);
        let state = &mut self.states[place];
        let (seen, found, lines, severity) = (&mut self.seen, &mut self.found, &self.lines, self.severity);
        // If all threads that have not exited run, nothing is paused: exited threads do not count as paused.
        let group = if issue.group == state.alive { ALL } else { issue.group };
        state.tracker.issue_for(&self.steps, number, group, issue.active, &mut |finding| {
            let HazardFinding { first, second, problem } = finding;
            if problem.severity() <= severity && seen.insert((first, second, std::mem::discriminant(&problem))) {
                let line = |number: usize| lines[number].clone();
                let is_alone = matches!(problem, Problem::NeverSet { .. } | Problem::StallIgnored { .. });
                let first = (!is_alone).then(|| line(first));
                found.push(LocatedFinding {
                    problem,
                    second: line(second),
                    first,
                    block: issue.block,
                    warp: issue.warp,
                    lanes: issue.group,
                });
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
