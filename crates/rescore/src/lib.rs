//! Computes new control words for existing machine code, and optionally a new instruction order.
//!
//! The input is a cubin from any compiler. Every instruction, register and address stays; stalls, yields, scoreboards, waits and reuse
//! flags are replaced by those that `ctrl` computes. Only these bits of the file change. A section whose control flow cannot be determined
//! completely ([`Obstacle`]) is left unchanged.
//!
//! With [`RescoreOptions::schedule`], instructions also move within their blocks where that is predicted to be faster ([`Reordering`]), and
//! everything in the file that refers to their addresses is updated.
//!
//! ```
//! # let ptx = b".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry nothing() { ret; }";
//! # let checked = oriole_ptx::check(ptx, &oriole_ptx::Options::default());
//! # let target = oriole_isa::Target::parse("sm_90a").unwrap();
//! # let cubin = oriole_driver::compile(&[&checked.module], &oriole_driver::Options::new(target)).unwrap().cubin;
//! use oriole_rescore::{RescoreOptions, rescore};
//!
//! let rescored = rescore(&cubin, &RescoreOptions::default()).unwrap();
//! assert!(rescored.sections.iter().all(|section| section.obstacle.is_none()));
//! assert_eq!(rescored.bytes().len(), cubin.len());
//! ```

pub mod analysis;
mod fill;
mod graph;
mod kept_waits;
mod places;
mod predict;
mod reorder;
#[cfg(test)]
mod reorder_tests;
mod tally;
#[cfg(test)]
mod tests;
pub mod why;
mod words;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use oriole_cubin::debug::MovedCode;
use oriole_cubin::info::{Attribute, AttributeCode, AttributeValue};
use oriole_cubin::section::Content;
use oriole_cubin::{Cubin, CubinIndex};
use oriole_hardware::Profile;
use oriole_hardware::machine::Machine;
use oriole_hardware::occupancy::LaunchResources;
use oriole_isa::{Control, Instruction, Target, decode};
use oriole_sched::resource::ResourceCosts;
use rayon::prelude::*;

use graph::FileInfo;
pub use kept_waits::ScoreboardEvent;
use places::{BytePatch, CubinLayout, FunctionSite};
use predict::TimingModel;
use reorder::MoveConstraints;
pub use reorder::{ReorderCondition, Reordering};
pub use tally::Tally;

/// Size of an instruction in bytes.
const SIZE: usize = 16;
const SCOREBOARDS: u8 = 6;
/// Minimum stall cycles of an instruction that sets a scoreboard, so that the next instruction can wait for it.
const SCOREBOARD_STALL: u8 = 2;

/// What to rewrite, and with which hardware model.
#[derive(Clone, Debug, Default)]
pub struct RescoreOptions {
    /// Names of the functions to rewrite (section names without `.text.`); all functions if the list is empty.
    pub functions: Vec<String>,
    /// When a block gets a new instruction order; `None` keeps the order of all instructions.
    pub schedule: Option<ReorderCondition>,
    /// A hardware profile that replaces the built-in model.
    pub profile: Option<Arc<Profile>>,
}

/// Why a section is left unchanged. `at` is the number of an instruction in the section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnchangedReason {
    /// No instruction of the table matches this word.
    Unknown { at: u64 },
    /// An indirect branch whose possible targets are not recorded in the file.
    UnknownTargets { at: u64 },
    /// A branch to another section, or whose target a relocation fills in.
    LeavesSection { at: u64 },
    /// A `DEPBAR` counts instructions with register results together with instructions without; after rewriting, its count could mean
    /// different ones.
    MixedCount { at: u64 },
    /// The size of the section is not a multiple of the instruction size.
    NotWhole,
    /// The caller rejected the result; holds the reason.
    Refused(String),
}

impl fmt::Display for UnchangedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = |at: u64| at * SIZE as u64;
        match self {
            UnchangedReason::Unknown { at } => write!(f, "{:#06x}: the instruction table does not know this word", place(*at)),
            UnchangedReason::UnknownTargets { at } => {
                write!(f, "{:#06x}: the file does not say where this indirect branch goes", place(*at))
            }
            UnchangedReason::LeavesSection { at } => write!(f, "{:#06x}: this branch leaves the section", place(*at)),
            UnchangedReason::MixedCount { at } => {
                write!(f, "{:#06x}: counts instructions with results together with others", place(*at))
            }
            UnchangedReason::NotWhole => f.write_str("the section is not a whole number of instructions"),
            UnchangedReason::Refused(reason) => f.write_str(reason),
        }
    }
}

/// A code section before and after rewriting.
#[derive(Clone, Debug)]
pub struct RewrittenSection {
    /// Index of the section in the cubin.
    pub index: usize,
    /// Name of the function in it.
    pub function: String,
    /// Instruction words before.
    pub old: Vec<u128>,
    /// Instruction words after; the same as `old` if there is an obstacle.
    pub new: Vec<u128>,
    /// Why the section was left unchanged.
    pub obstacle: Option<UnchangedReason>,
    /// Number of waits added by [`RewrittenSection::wait_for`].
    pub added_waits: usize,
    /// The result of reordering, if it was requested.
    pub schedule: Option<Reordering>,
    /// The words in the original order with new control words; `None` if the order did not change.
    in_old_order: Option<Vec<u128>>,
    /// The new number of each instruction; `None` if the order did not change.
    moved: Option<Vec<usize>>,
    /// Changes to other parts of the file that refer to addresses of instructions, for the new order.
    patches: Vec<BytePatch>,
    /// Offset of the section in the file, in bytes.
    offset: usize,
}

impl RewrittenSection {
    /// Restores the original words and records `reason` as the obstacle.
    pub fn refuse(&mut self, reason: String) {
        self.new.clone_from(&self.old);
        self.obstacle = Some(UnchangedReason::Refused(reason));
        self.patches.clear();
        self.moved = None;
        self.in_old_order = None;
    }

    /// Restores the original order, with new control words. Returns false if the order did not change.
    pub fn restore_order(&mut self, reason: String) -> bool {
        let Some(words) = self.in_old_order.take() else { return false };
        self.new = words;
        self.added_waits = 0;
        self.patches.clear();
        self.moved = None;
        if let Some(schedule) = &mut self.schedule {
            schedule.stay(reason);
        }
        true
    }

    /// Makes instruction `second` wait for the results or the operand reads of instruction `first`. For a checker that reports a hazard
    /// between the two.
    pub fn wait_for(&mut self, first: usize, second: usize, part: ScoreboardEvent) {
        let (mut before, mut after) = (Control::of(self.new[first]), Control::of(self.new[second]));
        let scoreboard = match part {
            ScoreboardEvent::Results => &mut before.write_barrier,
            ScoreboardEvent::Reads => &mut before.read_barrier,
        };
        after.wait |= 1 << *scoreboard.get_or_insert_with(|| self.least_used());
        before.stall = before.stall.max(SCOREBOARD_STALL);
        self.new[first] = with_control(self.new[first], before);
        self.new[second] = with_control(self.new[second], after);
        self.added_waits += 1;
    }

    /// Returns the scoreboard that the fewest instructions set.
    fn least_used(&self) -> u8 {
        let mut times = [0; SCOREBOARDS as usize];
        for control in self.new.iter().map(|&word| Control::of(word)) {
            for index in control.write_barrier.into_iter().chain(control.read_barrier).filter(|&index| index < SCOREBOARDS) {
                times[usize::from(index)] += 1;
            }
        }
        (0..SCOREBOARDS).min_by_key(|&index| times[usize::from(index)]).unwrap_or(0)
    }

    /// Returns the totals over the old and the new control words.
    pub fn tallies(&self) -> (Tally, Tally) {
        (Tally::of(&self.old), Tally::of(&self.new))
    }
}

/// A cubin with new control words.
#[derive(Clone, Debug)]
pub struct Rescored {
    pub target: Target,
    /// The requested sections.
    pub sections: Vec<RewrittenSection>,
    data: Vec<u8>,
    has_line_tables: bool,
}

impl Rescored {
    /// Returns the bytes of the rewritten file.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.data.clone();
        for section in &self.sections {
            let code = &mut bytes[section.offset..section.offset + section.new.len() * SIZE];
            for (place, word) in code.chunks_exact_mut(SIZE).zip(&section.new) {
                place.copy_from_slice(&word.to_le_bytes());
            }
            for patch in &section.patches {
                bytes[patch.offset..patch.offset + patch.bytes.len()].copy_from_slice(&patch.bytes);
            }
        }
        let moved: MovedCode = self.sections.iter().filter_map(|section| Some((section.index, section.moved.clone()?))).collect();
        if self.has_line_tables && !moved.is_empty() {
            // That the tables can be rewritten was tested before anything moved.
            return places::rewrite_lines(&bytes, &moved).unwrap_or(bytes);
        }
        bytes
    }
}

/// Rewrites the control words of a cubin. Fails if the file cannot be read, or if the options do not fit it.
pub fn rescore(data: &[u8], options: &RescoreOptions) -> Result<Rescored, String> {
    let cubin = Cubin::read(data).map_err(|error| error.to_string())?;
    let target = cubin.target().ok_or_else(|| format!("there is no table of instructions for {}", cubin.target_name()))?;
    if let Some(profile) = options.profile.as_ref().filter(|profile| profile.target != target) {
        return Err(format!("the hardware profile is for {}, not for {target}", profile.target));
    }
    let names: HashSet<&str> = cubin.functions().map(|function| function.name).collect();
    if let Some(missing) = options.functions.iter().find(|wanted| !names.contains(wanted.as_str())) {
        return Err(format!("the cubin has no function `{missing}`"));
    }
    let places = cubin.places().map_err(|error| error.to_string())?;
    let index = CubinIndex::new(&cubin);
    let layout = CubinLayout::new(data, &index, &places);
    let work = Work { layout: &layout, index: &index, target, machine: RescoreModel::of(target, options), schedule: options.schedule };
    let chosen: HashSet<&str> = options.functions.iter().map(String::as_str).collect();
    let wanted: Vec<oriole_cubin::Function<'_>> =
        cubin.functions().filter(|function| chosen.is_empty() || chosen.contains(function.name)).collect();
    let sections = wanted.par_iter().map(|function| {
        let offset = places[function.section].offset as usize;
        if data.get(offset..offset + function.code.len()) != Some(function.code) {
            return Err(format!("the code of `{}` is not where the file says", function.name));
        }
        Ok(work.section(function, offset))
    });
    let sections: Vec<RewrittenSection> = sections.collect::<Result<_, _>>()?;
    let has_line_tables = layout.has_line_tables();
    Ok(Rescored { target, sections, data: data.to_vec(), has_line_tables })
}

/// The hardware model that the results depend on.
struct RescoreModel<'a> {
    figures: oriole_hardware::Hardware<'a>,
    costs: ResourceCosts,
    register_banks: usize,
}

impl RescoreModel<'_> {
    fn of(target: Target, options: &RescoreOptions) -> RescoreModel<'_> {
        let figures = oriole_hardware::Hardware::new(target, options.profile.as_deref());
        let register_banks = figures.costs.register_banks as usize;
        let costs = ResourceCosts::from_rates(figures.rates, figures.machine);
        RescoreModel { figures, costs, register_banks }
    }
}

/// Everything that the sections of a file share.
struct Work<'a> {
    layout: &'a CubinLayout<'a>,
    index: &'a CubinIndex<'a>,
    target: Target,
    machine: RescoreModel<'a>,
    schedule: Option<ReorderCondition>,
}

impl Work<'_> {
    /// Rewrites one section; an obstacle is recorded in the result.
    fn section(&self, function: &oriole_cubin::Function<'_>, offset: usize) -> RewrittenSection {
        let (words, tail) = function.code.as_chunks::<SIZE>();
        let old: Vec<u128> = words.iter().map(|word| u128::from_le_bytes(*word)).collect();
        let mut section = RewrittenSection {
            index: function.section,
            function: function.name.to_owned(),
            new: old.clone(),
            old,
            obstacle: (!tail.is_empty()).then_some(UnchangedReason::NotWhole),
            added_waits: 0,
            schedule: None,
            in_old_order: None,
            moved: None,
            patches: Vec::new(),
            offset,
        };
        if section.obstacle.is_none() {
            section.obstacle = self.rewrite(function, &mut section).err();
        }
        section
    }

    /// Computes new words for a section: control-flow graph, waits to keep, control words, and the new order if requested.
    fn rewrite(&self, function: &oriole_cubin::Function<'_>, section: &mut RewrittenSection) -> Result<(), UnchangedReason> {
        let unknown = |at: usize| UnchangedReason::Unknown { at: at as u64 };
        let read = |(at, &word): (usize, &u128)| decode(word, self.target).ok_or_else(|| unknown(at));
        let decoded: Vec<Instruction> = section.old.iter().enumerate().map(read).collect::<Result<_, _>>()?;
        let branches = indirect_branches(self.index, function.name);
        let relocated = relocated(self.index, function.section);
        let is_relocated = |number: usize| relocated.binary_search(&number).is_ok();
        let info = FileInfo {
            entries: entries(self.index, function.section),
            indirect: &|number| branches.get(&number).cloned(),
            is_relocated: &is_relocated,
        };
        let graph = graph::build(&decoded, &info)?;
        let waits = kept_waits::find_kept_waits(&decoded, &words::old_words(&decoded), &graph.blocks)?;
        let controls = words::assign_words(&decoded, &graph, &waits, &self.machine.figures);
        section.new = section.old.iter().zip(controls).map(|(&word, control)| with_control(word, control)).collect();
        if let Some(when) = self.schedule {
            let site = FunctionSite { cubin: self.layout, name: function.name, symbol: function.symbol, section: function.section };
            let limits = |fixed_addresses| MoveConstraints {
                fixed_addresses,
                is_relocated: &is_relocated,
                warps: self.resident_warps(function),
                when,
            };
            let reordered = self.reorder(&site, &decoded, (&graph, &waits), limits, section);
            section.schedule = Some(reordered.unwrap_or_else(|reason| Reordering { kept: Some(reason), ..Reordering::default() }));
        }
        Ok(())
    }

    /// Gives a section a new order. An error says why it must keep the old one.
    fn reorder<'l>(
        &self,
        site: &FunctionSite<'_>,
        decoded: &[Instruction],
        (graph, waits): (&graph::FlowGraph, &kept_waits::KeptWaits),
        limits: impl FnOnce(BTreeSet<usize>) -> MoveConstraints<'l>,
        section: &mut RewrittenSection,
    ) -> Result<Reordering, String> {
        // If the addresses cannot be updated for the identity order, they cannot be updated for any order. Test this before the expensive
        // search.
        places::relocate_addresses(site, &(0..decoded.len()).collect::<Vec<_>>())?;
        let limits = limits(places::fixed_addresses(site, decoded)?);
        let RescoreModel { figures, costs, register_banks } = &self.machine;
        let timing = TimingModel { hardware: figures, costs, register_banks: *register_banks };
        let plan = reorder::plan(decoded, graph, waits, &limits, &timing);
        if plan.schedule.reordered > 0 {
            let moved = reorder::places(&plan.order);
            section.patches = places::relocate_addresses(site, &moved)?;
            section.moved = Some(moved);
            let words = plan.order.iter().zip(plan.controls).map(|(&number, control)| with_control(section.old[number], control));
            let new = words.collect();
            section.in_old_order = Some(std::mem::replace(&mut section.new, new));
        }
        Ok(plan.schedule)
    }

    /// Returns the number of warps that can be resident per scheduler, as far as the file says what a launch needs.
    fn resident_warps(&self, function: &oriole_cubin::Function<'_>) -> usize {
        let static_shared = self.index.section_named(&format!(".nv.shared.{}", function.name)).map_or(0, |section| match section.content {
            Content::NoBits(size) => size as u32,
            _ => 0,
        });
        let registers = self.index.register_count(function.symbol).unwrap_or(0).max(1);
        let threads = block_threads(self.index.function_attributes(function.name));
        warps_per_scheduler(self.machine.figures.machine, threads, registers, static_shared)
    }
}

/// Returns the number of threads per block that a kernel declares: exactly (`.reqntid`) or at most (`.maxntid`).
pub fn block_threads(attributes: &[Attribute]) -> Option<u32> {
    let threads = |code: AttributeCode| match attributes.iter().find(|attribute| attribute.code == code).map(|attribute| &attribute.value) {
        Some(AttributeValue::Words(words)) => Some(words.iter().fold(1_u32, |threads, &size| threads.saturating_mul(size))),
        _ => None,
    };
    threads(AttributeCode::REQNTID).or_else(|| threads(AttributeCode::MAX_THREADS))
}

/// Returns the number of warps that can be resident per scheduler. With a known number of threads per block, only whole blocks count.
fn warps_per_scheduler(machine: &Machine, block_threads: Option<u32>, registers: u32, static_shared: u32) -> usize {
    let most = machine.warps_per_scheduler();
    let warps = match block_threads {
        Some(threads) => {
            let launch = LaunchResources { threads, registers, static_shared, ..LaunchResources::default() };
            launch.occupancy(machine).map_or(most, |occupancy| occupancy.warps.div_ceil(machine.schedulers))
        }
        None => {
            let registers_per_warp = (registers * machine.threads_per_warp).next_multiple_of(machine.register_unit);
            machine.registers_per_scheduler() / registers_per_warp
        }
    };
    warps.clamp(1, most) as usize
}

/// Replaces the control bits of an instruction word.
fn with_control(word: u128, control: Control) -> u128 {
    word & !Control::MASK | control.bits()
}

/// Returns the instruction numbers at which the functions of a section begin.
fn entries(index: &CubinIndex<'_>, section: usize) -> Vec<usize> {
    index.functions_in(section).map(|symbol| symbol.value as usize / SIZE).collect()
}

/// Returns the numbers of the instructions that have a relocation, in ascending order.
fn relocated(index: &CubinIndex<'_>, section: usize) -> Vec<usize> {
    index.relocations(section).iter().map(|relocation| relocation.offset as usize / SIZE).collect()
}

/// Returns the possible targets of each indirect branch, as instruction numbers.
fn indirect_branches(index: &CubinIndex<'_>, function: &str) -> HashMap<usize, Vec<usize>> {
    let mut branches = HashMap::new();
    for attribute in index.function_attributes(function) {
        if let (AttributeCode::INDIRECT_BRANCH_TARGETS, AttributeValue::BranchTargets(list)) = (attribute.code, &attribute.value) {
            for branch in list {
                let targets = branch.targets.iter().map(|&target| target as usize / SIZE).collect();
                branches.entry(branch.branch as usize / SIZE).or_insert(targets);
            }
        }
    }
    branches
}
