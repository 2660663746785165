//! Scheduling of functions: before register allocation on values, and afterwards (phase 110) on physical registers.
//!
//! Blocks are scheduled by themselves, region by region ([`Code::regions`]). A new order of a region is taken only if it is estimated to be
//! faster than the old one. On values, that of a block is taken only if it needs no more registers than the budget or than the old order
//! did; else it is scheduled again to reduce registers, and if that does not help, it stays as it was.
//!
//! **Budget.** Registers that cost no occupancy are free: the budget is the most with which as many warps stay resident as with what the old
//! order needs. Beyond that they must pay: whoever calls can ask for a schedule that keeps a share of the warps only ([`Scheduler::warps_kept`])
//! and compare the two ([`crate::score`]). [`Stats::promise`] says whether that is worth while ([`crate::offer`]).

use std::ops::Range;

use oriole_hardware::Model;
use oriole_hardware::machine::Machine;
use oriole_hardware::occupancy::Launch;
use oriole_ir::analysis::{ControlFlow, Liveness, Loops};
use oriole_ir::{Block, Function, Inst};
use oriole_support::{Index, IndexVec};

use crate::backend::tree::CallCosts;
use crate::backend::{self, Backend, Budget, Knobs, Memory, Mode, Settings, Stage};
use crate::check::{self, Broken};
use crate::code::{Code, REGISTER_CLASSES, from_ir, from_machine};
use crate::graph::Builder;
use crate::offer::{Offers, Outcome, Promise, can_save};
use crate::pressure::{Borders, Counts, Tracker};
use crate::report::target::{Bounds, RegisterTarget};
use crate::report::trace::{Attempted, TracedRegion, Verdict};
use crate::resource::Costs;
use crate::score::executions;

/// Predicates of a thread, and of a warp.
const PREDICATES: i32 = 7;

/// The machine to schedule for, and how.
#[derive(Clone, Copy)]
pub struct Scheduler<'a> {
    /// Latencies.
    pub model: &'a Model,
    /// Time on units.
    pub costs: &'a Costs,
    /// Registers and warps.
    pub machine: &'a Machine,
    /// By whom.
    pub backend: Backend,
    /// What for.
    pub mode: Mode,
    /// Figures that can be set.
    pub knobs: Knobs,
    /// General registers that a thread may have.
    pub register_limit: u32,
    /// General registers that a thread gets beyond those that its code names.
    pub hidden_registers: u32,
    /// Uniform registers that there are.
    pub uniform_limit: u32,
    /// How long calls take, where that is known.
    pub calls: Option<&'a CallCosts>,
    /// What a block of threads needs besides registers, if its size is declared.
    pub launch: Option<Launch>,
    /// The share of resident warps, in percent, that must be left: 100 for schedules whose registers are to cost none.
    pub warps_kept: u32,
    /// Smaller shares that the caller would put up with for a faster schedule.
    pub warps_offered: &'a [u32],
    /// Whether to check every new order.
    pub verify: bool,
    /// Whether to record why.
    pub trace: bool,
}

/// What a pass did.
#[derive(Clone, Default, Debug)]
pub struct Stats {
    /// Blocks with a new order.
    pub blocks: usize,
    /// Estimated cycles of all blocks, each once, before.
    pub cycles_before: u64,
    /// The same afterwards.
    pub cycles_after: u64,
    /// The most general registers that are live, before.
    pub live_before: i32,
    /// The same afterwards.
    pub live_after: i32,
    /// Which of the shares that were offered would save time.
    pub promise: Option<Promise>,
    /// The registers that cost no occupancy, before allocation.
    pub target: Option<RegisterTarget>,
    /// Every attempt at a block with the reasons of its picks, if that was asked for.
    pub attempts: Vec<Attempted>,
}

/// A new order that breaks something: a mistake of the scheduler.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScheduleError {
    /// The block.
    pub block: Block,
    /// What is broken.
    pub broken: Broken,
}

impl std::fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the new order of {:?} is wrong: {}", self.block, self.broken)
    }
}

impl std::error::Error for ScheduleError {}

/// Blocks in pieces of at most so many instructions, single blocks excepted: tables are as large as a piece, not as the function.
fn chunks(function: &Function, largest: usize) -> Vec<Vec<Block>> {
    let mut chunks: Vec<Vec<Block>> = Vec::new();
    let mut size = 0_usize;
    for &block in &function.layout {
        let length = function.blocks[block].insts.len();
        if chunks.is_empty() || size.saturating_add(length) > largest {
            chunks.push(Vec::new());
            size = 0;
        }
        size += length;
        if let Some(chunk) = chunks.last_mut() {
            chunk.push(block);
        }
    }
    chunks
}

/// Code of some blocks, each with its range.
struct Piece {
    code: Code,
    blocks: Vec<(Block, Range<usize>)>,
}

impl Piece {
    fn new(function: &Function, blocks: &[Block], mut code: Code, calls: Option<&CallCosts>, push: impl Fn(&mut Code, Inst)) -> Piece {
        let mut ranges = Vec::with_capacity(blocks.len());
        for &block in blocks {
            let start = code.items.len();
            for &inst in &function.blocks[block].insts {
                let call = calls.zip(function.callee(inst)).and_then(|(calls, callee)| calls.cycles(callee));
                code.calls.extend(call.map(|cycles| (code.items.len() as u32, cycles)));
                push(&mut code, inst);
            }
            ranges.push((block, start..code.items.len()));
        }
        Piece { code, blocks: ranges }
    }
}

/// What is used again from block to block.
struct Tools<'m> {
    builder: Builder<'m>,
    tracker: Tracker,
    memory: Memory,
}

/// The order of a block, with what is known of it.
struct Attempt {
    order: Vec<usize>,
    cycles_before: u64,
    cycles: u64,
    /// What any order takes.
    least: u64,
    /// Orders that were tried wanted more registers.
    wants_registers: bool,
    regions: Vec<TracedRegion>,
}

/// An order of a block that needs no more registers than allowed, if there is one.
struct Found {
    attempt: Option<Attempt>,
    /// How long it takes, or the old order if there is none.
    cycles: u64,
    /// What any order takes.
    least: u64,
    /// The most registers that are live.
    peak: Option<Counts>,
    /// Whether more were wanted than there are.
    is_tight: bool,
    /// What was tried, for traces.
    tries: Vec<(Mode, Vec<TracedRegion>, Verdict)>,
}

impl Scheduler<'_> {
    /// Schedules a function on values.
    pub fn run_on_values(&self, function: &mut Function) -> Result<Stats, ScheduleError> {
        let flow = ControlFlow::compute(function);
        let liveness = Liveness::compute(function, &flow);
        let numbers = from_ir::ValueNumbers::new(function);
        let mut tracker = Tracker::new(function.values.len());
        let piece_of = |function: &Function, chunk: &[Block]| {
            Piece::new(function, chunk, numbers.empty(function), self.calls, |code, inst| {
                from_ir::push_values(code, &numbers, function, inst);
            })
        };
        let chunks = chunks(function, self.backend.largest_function());
        let mut old_peaks: IndexVec<Block, Counts> = IndexVec::filled(function.blocks.len(), [0; REGISTER_CLASSES]);
        let mut only_piece = None;
        for chunk in &chunks {
            let piece = piece_of(function, chunk);
            for (block, range) in &piece.blocks {
                let borders = LiveValues::of(function, &liveness, *block);
                old_peaks[*block] = peak(&piece.code, range, &mut tracker, borders.as_borders(), range.clone());
            }
            // Code of one piece is kept; of several it is made again, so that only one is there at a time.
            only_piece = Some(piece).filter(|_| chunks.len() == 1);
        }
        let old = old_peaks.iter().fold([0; REGISTER_CLASSES], |most, peak| most_of(most, *peak));
        let target = self.target(old);
        let mut stats = Stats { live_before: old[0], target: Some(self.register_target(old[0])), ..Stats::default() };
        let loops = if self.warps_offered.is_empty() { None } else { Some(Loops::compute(function, &flow)) };
        let shares = self.warps_offered.iter().map(|&warps_kept| (warps_kept, Scheduler { warps_kept, ..*self }.target(old)));
        let mut offers = Offers::new((self.warps_kept, target), shares);
        for chunk in &chunks {
            let piece = only_piece.take().unwrap_or_else(|| piece_of(function, chunk));
            let builder = Builder::new(self.model, piece.code.registers());
            let mut tools = Tools { builder, tracker: Tracker::new(function.values.len()), memory: Memory::default() };
            for (block, range) in &piece.blocks {
                let old = old_peaks[*block];
                let live = LiveValues::of(function, &liveness, *block);
                let found = self.within_budget(&piece.code, range, &mut tools, &live, most_of(target, old));
                stats.live_after = stats.live_after.max(found.peak.unwrap_or(old)[0]);
                if let Some(loops) = &loops {
                    let own = Outcome { cycles: found.cycles, peak: found.peak.unwrap_or(old)[0] };
                    let with = |allowed| self.outcome(&piece.code, range, &mut tools, &live, most_of(allowed, old));
                    let wants_more = found.is_tight && can_save(found.cycles, found.least);
                    offers.add(executions(loops.depth(*block)), &piece.code.items[range.clone()], self.costs, own, wants_more, with);
                }
                let insts = &function.blocks[*block].insts;
                let tries = found.tries.into_iter();
                stats.attempts.extend(tries.map(|(mode, regions, verdict)| Attempted::new(*block, insts, mode, regions, verdict)));
                self.accept(function, &piece.code, *block, range, found.attempt, &mut stats)?;
            }
        }
        stats.promise = offers.best(|live| Scheduler { warps_kept: 100, ..*self }.register_target(live).warps);
        Ok(stats)
    }

    /// How long a block takes if so many registers may be live.
    fn outcome(&self, code: &Code, range: &Range<usize>, tools: &mut Tools<'_>, live: &LiveValues, allowed: Counts) -> Outcome {
        let untraced = Scheduler { trace: false, ..*self };
        let settings = untraced.settings(self.mode, Stage::Pre, Budget::new(self.mode, allowed, 0, &self.knobs));
        tools.tracker.enter_block(code, range.clone(), live.as_borders());
        let attempt = untraced.attempt(code, range, tools, &settings);
        let peak = peak(code, range, &mut tools.tracker, live.as_borders(), attempt.order.iter().copied());
        Outcome { cycles: attempt.cycles, peak: peak[0] }
    }

    /// Looks for an order of a block that needs no more registers than allowed.
    fn within_budget(&self, code: &Code, range: &Range<usize>, tools: &mut Tools<'_>, live: &LiveValues, allowed: Counts) -> Found {
        let (mut tries, mut is_tight, mut cycles_before, mut least) = (Vec::new(), false, 0, 0);
        let modes = [(self.mode, self.knobs), (Mode::ReduceReg, Knobs { tighten_by: Some(0), ..self.knobs })];
        for (mode, knobs) in modes {
            let settings = self.settings(mode, Stage::Pre, Budget::new(mode, allowed, 0, &knobs));
            tools.tracker.enter_block(code, range.clone(), live.as_borders());
            let mut attempt = self.attempt(code, range, tools, &settings);
            let found = peak(code, range, &mut tools.tracker, live.as_borders(), attempt.order.iter().copied());
            is_tight |= mode != Mode::ReduceReg && (attempt.wants_registers || found[0] > settings.budget.reduced);
            let fits = found.iter().zip(allowed).all(|(found, allowed)| *found <= allowed);
            if self.trace {
                let verdict = if fits { Verdict::Taken } else { Verdict::TooManyRegisters { found: found[0], allowed: allowed[0] } };
                tries.push((mode, std::mem::take(&mut attempt.regions), verdict));
            }
            if fits {
                return Found { cycles: attempt.cycles, least: attempt.least, attempt: Some(attempt), peak: Some(found), is_tight, tries };
            }
            (is_tight, cycles_before, least) = (true, attempt.cycles_before, attempt.least);
        }
        Found { attempt: None, cycles: cycles_before, least, peak: None, is_tight, tries }
    }

    /// Schedules a function on physical registers: phase 110.
    pub fn run_on_registers(&self, function: &mut Function) -> Result<Stats, ScheduleError> {
        let mut stats = Stats::default();
        for chunk in chunks(function, self.backend.largest_function()) {
            let push = |code: &mut Code, inst: Inst| from_ir::push_allocated(code, function, inst);
            let piece = Piece::new(function, &chunk, from_machine::empty(), self.calls, push);
            let builder = Builder::new(self.model, piece.code.registers());
            let mut tools = Tools { builder, tracker: Tracker::new(piece.code.groups().len()), memory: Memory::default() };
            for (block, range) in &piece.blocks {
                tools.tracker.enter_block(&piece.code, range.clone(), Borders { live_in: &[], live_out: &[] });
                // Registers have their places: there is nothing to be saved.
                let mode = if self.mode == Mode::ReduceReg { Mode::Ilp } else { self.mode };
                let settings = self.settings(mode, Stage::Post, Budget::UNLIMITED);
                let mut attempt = self.attempt(&piece.code, range, &mut tools, &settings);
                if self.trace {
                    let (insts, regions) = (&function.blocks[*block].insts, std::mem::take(&mut attempt.regions));
                    stats.attempts.push(Attempted::new(*block, insts, mode, regions, Verdict::Taken));
                }
                self.accept(function, &piece.code, *block, range, Some(attempt), &mut stats)?;
            }
        }
        Ok(stats)
    }

    fn settings(&self, mode: Mode, stage: Stage, budget: Budget) -> Settings {
        Settings { backend: self.backend, mode, stage, budget, knobs: self.knobs, trace: self.trace }
    }

    /// The general registers that may be live, given those that are, and why.
    pub fn register_target(&self, live: i32) -> RegisterTarget {
        let bounds = Bounds {
            launch: self.launch,
            gaps: self.knobs.register_gaps,
            hidden: self.hidden_registers as i32,
            limit: self.register_limit as i32,
            warps_kept: self.warps_kept,
            asked: self.knobs.register_target,
        };
        RegisterTarget::new(live, self.machine, &bounds)
    }

    /// The registers of all classes that may be live.
    fn target(&self, live: Counts) -> Counts {
        [self.register_target(live[0]).registers, PREDICATES - 1, PREDICATES - 1, self.uniform_limit as i32 - 8]
    }

    fn attempt(&self, code: &Code, range: &Range<usize>, tools: &mut Tools<'_>, settings: &Settings) -> Attempt {
        let Tools { builder, tracker, memory } = tools;
        let mut attempt = Attempt {
            order: Vec::with_capacity(range.len()),
            cycles_before: 0,
            cycles: 0,
            least: 0,
            wants_registers: false,
            regions: Vec::new(),
        };
        for region in code.regions(range.clone(), self.backend.longest_block()) {
            (attempt.order.len() + range.start..region.start).for_each(|wall| attempt.pass(code, wall, tracker));
            let graph = builder.build(code, region.clone());
            let before = backend::estimate(code, &graph, self.costs, region.clone());
            attempt.cycles_before += u64::from(before.issued);
            let is_judged = settings.mode == Mode::ReduceReg || self.backend.gives_up_for_source();
            let is_heard = settings.stage == Stage::Pre && self.backend.tells_wishes();
            let least = backend::least(code, &graph, self.costs);
            attempt.least += u64::from(least.issued);
            if !is_judged && !is_heard && !self.trace && !least.is_shorter_than(before) {
                attempt.cycles += u64::from(before.issued);
                tracker.enter_region(code, region.clone());
                region.clone().for_each(|position| tracker.step(code, &code.items[position]));
                attempt.order.extend(region);
                continue;
            }
            let schedule = backend::schedule(code, &graph, self.costs, settings, tracker, memory);
            let is_better = is_judged || schedule.length.is_shorter_than(before);
            attempt.wants_registers |= schedule.wants_registers;
            attempt.cycles += u64::from(if is_better { schedule.length.issued } else { before.issued });
            if self.trace {
                let start = region.start - range.start;
                attempt.regions.push(TracedRegion::new(&schedule, range.start, start, before, is_better));
            }
            if is_better {
                attempt.order.extend(schedule.order);
            } else {
                attempt.order.extend(region);
            }
        }
        (attempt.order.len() + range.start..range.end).for_each(|wall| attempt.pass(code, wall, tracker));
        attempt
    }

    /// Gives a block its new order.
    fn accept(
        &self,
        function: &mut Function,
        code: &Code,
        block: Block,
        range: &Range<usize>,
        attempt: Option<Attempt>,
        stats: &mut Stats,
    ) -> Result<(), ScheduleError> {
        let Some(attempt) = attempt else { return Ok(()) };
        if self.verify {
            check::check(code, range.clone(), &attempt.order).map_err(|broken| ScheduleError { block, broken })?;
        }
        stats.cycles_before += attempt.cycles_before;
        stats.cycles_after += attempt.cycles;
        if attempt.order.iter().copied().eq(range.clone()) {
            return Ok(());
        }
        stats.blocks += 1;
        let old = std::mem::take(&mut function.blocks[block].insts);
        function.blocks[block].insts = attempt.order.iter().map(|position| old[position - range.start]).collect();
        Ok(())
    }
}

impl Attempt {
    /// Goes over a wall.
    fn pass(&mut self, code: &Code, wall: usize, tracker: &mut Tracker) {
        tracker.pass(code, wall);
        self.order.push(wall);
    }
}

/// Values that are live at the start of a block, results of phis included, and at its end.
pub(crate) struct LiveValues {
    at_start: Vec<u32>,
    at_end: Vec<u32>,
}

impl LiveValues {
    pub(crate) fn of(function: &Function, liveness: &Liveness, block: Block) -> LiveValues {
        let number = |value: oriole_ir::Value| value.position() as u32;
        let phis = function.phis(block).iter().flat_map(|&phi| function.defined(phi));
        LiveValues {
            at_start: liveness.live_in(block).iter().copied().chain(phis).map(number).collect(),
            at_end: liveness.live_out(block).iter().copied().map(number).collect(),
        }
    }

    pub(crate) fn as_borders(&self) -> Borders<'_> {
        Borders { live_in: &self.at_start, live_out: &self.at_end }
    }
}

fn most_of(first: Counts, second: Counts) -> Counts {
    std::array::from_fn(|class| first[class].max(second[class]))
}

/// The most registers that are live in a block in some order.
fn peak(code: &Code, range: &Range<usize>, tracker: &mut Tracker, borders: Borders<'_>, order: impl Iterator<Item = usize>) -> Counts {
    tracker.enter_block(code, range.clone(), borders);
    tracker.enter_region(code, range.clone());
    for position in order {
        tracker.step(code, &code.items[position]);
    }
    tracker.peak()
}
