//! Watching a program run.

use std::collections::VecDeque;
use std::fmt::Write;

use oriole_isa::{File, Instruction, Target, Value};
use rustc_hash::FxHashMap;

use super::warp::{Mask, PredicateSource, Row, Source, Warp, first};

/// An instruction that a warp issues.
#[derive(Clone, Copy)]
pub struct Issue<'a> {
    /// Number of the block in the grid.
    pub block: u64,
    /// Number of the warp in its block.
    pub warp: u32,
    /// Address in the code space.
    pub address: u64,
    /// Threads of the group that is at this instruction.
    pub group: Mask,
    /// Those of them whose guard holds.
    pub active: Mask,
    pub instruction: &'a Instruction,
    pub word: u128,
    pub target: Target,
    /// Address of the function that it is in.
    pub function: u64,
}

/// Hears of every instruction that is issued.
pub trait Observer {
    /// Whether it listens at all; without, nothing is prepared for it.
    const LISTENS: bool = true;

    /// Before an instruction executes.
    fn issue(&mut self, issue: &Issue<'_>, warp: &Warp);

    /// After it has executed; not called if it failed.
    fn executed(&mut self, issue: &Issue<'_>, warp: &Warp) {
        let _ = (issue, warp);
    }
}

/// Nobody listens.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    const LISTENS: bool = false;

    fn issue(&mut self, _: &Issue<'_>, _: &Warp) {}
}

/// Keeps the last instructions of each warp with the values that they wrote, for messages about failures.
#[derive(Clone, Debug)]
pub struct Trace {
    length: usize,
    lane: Option<usize>,
    /// The block and the warp that are kept; all if there is none.
    only: Option<(u64, u32)>,
    warps: FxHashMap<(u64, u32), VecDeque<Entry>>,
}

#[derive(Clone, Debug)]
struct Entry {
    offset: u64,
    group: Mask,
    active: Mask,
    text: String,
    values: String,
}

impl Trace {
    /// Keeps `length` instructions of each warp; values are those of one lane, or of the first active one.
    pub fn new(length: usize, lane: Option<usize>) -> Trace {
        Trace { length, lane, only: None, warps: FxHashMap::default() }
    }

    /// Keeps `length` instructions of one warp, with the values of one of its lanes.
    pub fn of_warp(length: usize, block: u64, warp: u32, lane: usize) -> Trace {
        Trace { only: Some((block, warp)), ..Trace::new(length, Some(lane)) }
    }

    /// The last instructions of a warp, oldest first, a line each.
    pub fn text(&self, block: u64, warp: u32) -> String {
        let mut out = String::new();
        for entry in self.warps.get(&(block, warp)).into_iter().flatten() {
            let Entry { offset, group, active, text, values } = entry;
            let _ = writeln!(out, "{offset:6x} {group:08x} {active:08x}  {text:60} {values}");
        }
        out
    }
}

impl Observer for Trace {
    fn issue(&mut self, issue: &Issue<'_>, _: &Warp) {
        if self.only.is_some_and(|only| only != (issue.block, issue.warp)) {
            return;
        }
        let entries = self.warps.entry((issue.block, issue.warp)).or_default();
        if entries.len() == self.length {
            entries.pop_front();
        }
        let offset = issue.address - issue.function;
        let text = oriole_isa::print(issue.word, issue.target, offset).unwrap_or_default();
        entries.push_back(Entry { offset, group: issue.group, active: issue.active, text, values: String::new() });
    }

    fn executed(&mut self, issue: &Issue<'_>, warp: &Warp) {
        if self.only.is_some_and(|only| only != (issue.block, issue.warp)) {
            return;
        }
        let Some(entry) = self.warps.get_mut(&(issue.block, issue.warp)).and_then(VecDeque::back_mut) else { return };
        if issue.active == 0 {
            return;
        }
        let lane = self.lane.unwrap_or(first(issue.active));
        // What an instruction writes says what it did; of one that writes no register, such as a store, what it reads does.
        let written = issue.instruction.written();
        let writes = written.contains(&true);
        for (operand, written) in issue.instruction.operands.iter().zip(written) {
            let Value::Register(file, number) = operand.value else { continue };
            if written != writes || number.is_none() {
                continue;
            }
            let number = number.unwrap_or(0);
            let predicate = |uniform| warp.read_predicate(PredicateSource::new(Some(number as u8), uniform, false));
            let _ = match file {
                File::General => write!(entry.values, " R{number}={:08x}", warp.read(Source::General(Row::source(Some(number))))[lane]),
                File::Uniform => write!(entry.values, " UR{number}={:08x}", warp.uniform(Row::source(Some(number)))),
                File::Predicate => write!(entry.values, " P{number}={:08x}", predicate(false)),
                File::UniformPredicate => write!(entry.values, " UP{number}={}", predicate(true) & 1),
                _ => Ok(()),
            };
        }
    }
}
