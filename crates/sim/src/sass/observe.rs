//! Observation of a running program.

use std::collections::VecDeque;
use std::fmt::Write;

use oriole_isa::{Instruction, OperandValue, RegFile, Target};
use rustc_hash::FxHashMap;

use super::warp::{Mask, PredicateSource, Row, Source, Warp, first};

/// An instruction that a warp issues.
#[derive(Clone, Copy)]
pub struct Issue<'a> {
    /// Linear index of the block in the grid.
    pub block: u64,
    /// Index of the warp in its block.
    pub warp: u32,
    /// Address of the instruction in the code space.
    pub address: u64,
    /// Threads of the group that issues it.
    pub group: Mask,
    /// Threads of the group whose guard is true.
    pub active: Mask,
    pub instruction: &'a Instruction,
    pub word: u128,
    pub target: Target,
    /// Address of its function.
    pub function: u64,
}

/// Is notified of every issued instruction.
pub trait Observer {
    /// Whether notifications are wanted; if not, the scheduler does not prepare them.
    const LISTENS: bool = true;

    /// Called before an instruction executes.
    fn issue(&mut self, issue: &Issue<'_>, warp: &Warp);

    /// Called after an instruction has executed; not after one that failed, nor after control flow with active threads.
    fn executed(&mut self, issue: &Issue<'_>, warp: &Warp) {
        let _ = (issue, warp);
    }
}

/// Ignores all notifications.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    const LISTENS: bool = false;

    fn issue(&mut self, _: &Issue<'_>, _: &Warp) {}
}

/// Keeps the last instructions of each warp and the values they wrote, for error messages.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Maximum number of instructions kept per warp.
    length: usize,
    /// Lane whose values are shown; `None` for the first active one.
    lane: Option<usize>,
    /// Keep only this (block, warp); `None` for all warps.
    only: Option<(u64, u32)>,
    warps: FxHashMap<(u64, u32), VecDeque<ExecutedInst>>,
}

/// An executed instruction.
#[derive(Clone, Debug)]
struct ExecutedInst {
    offset: u64,
    group: Mask,
    active: Mask,
    text: String,
    values: String,
}

impl Trace {
    /// Keeps `length` instructions of each warp, with the values of one lane (`None`: the first active one).
    pub fn new(length: usize, lane: Option<usize>) -> Trace {
        Trace { length, lane, only: None, warps: FxHashMap::default() }
    }

    /// Keeps `length` instructions of one warp, with the values of one lane.
    pub fn of_warp(length: usize, block: u64, warp: u32, lane: usize) -> Trace {
        Trace { only: Some((block, warp)), ..Trace::new(length, Some(lane)) }
    }

    /// Returns the last instructions of a warp, oldest first, one per line.
    pub fn text(&self, block: u64, warp: u32) -> String {
        let mut out = String::new();
        for entry in self.warps.get(&(block, warp)).into_iter().flatten() {
            let ExecutedInst { offset, group, active, text, values } = entry;
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
        entries.push_back(ExecutedInst { offset, group: issue.group, active: issue.active, text, values: String::new() });
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
        // Show the registers written, or, for instructions without a result such as stores, the registers read.
        let written = issue.instruction.written();
        let writes = written.contains(&true);
        for (operand, written) in issue.instruction.operands.iter().zip(written) {
            let OperandValue::Register(file, number) = operand.value else { continue };
            if written != writes || number.is_none() {
                continue;
            }
            let number = number.unwrap_or(0);
            let predicate = |uniform| warp.read_predicate(PredicateSource::new(Some(number as u8), uniform, false));
            let _ = match file {
                RegFile::General => write!(entry.values, " R{number}={:08x}", warp.read(Source::General(Row::source(Some(number))))[lane]),
                RegFile::Uniform => write!(entry.values, " UR{number}={:08x}", warp.uniform(Row::source(Some(number)))),
                RegFile::Predicate => write!(entry.values, " P{number}={:08x}", predicate(false)),
                RegFile::UniformPredicate => write!(entry.values, " UP{number}={}", predicate(true) & 1),
                _ => Ok(()),
            };
        }
    }
}
