//! The latency model of one target: the requirement between two dependent instructions, and the duration of instructions.
//!
//! Two instructions that access the same register need a number of cycles between their issues, or a scoreboard, or both. The requirement
//! depends on the kind of dependence, the register file, and the ports of the two accesses ([`SchedClass::write_port`], [`SchedClass::read_port`]).
//! A query is one load from a dense grid, because schedulers ask for every edge of every dependence graph.
//!
//! Example (sm_90): `FADD R0, R1, R2` followed by `FADD R3, R0, R4` is a read after write in the file R, from port `fma` to port `fma`: 4
//! cycles, no scoreboard.

use std::sync::{Arc, OnceLock};

use oriole_isa::{RegFile, Target};
use oriole_support::Suffix;

use crate::built_in;
use crate::class::{Classes, Port, SchedClass, file_index};
use crate::summary::Summary;
pub use crate::summary::{SCOREBOARD_STALL, VariableLatency, Waits};
use crate::tables::{Cell, LatencyTable};

/// The kind of dependence between two instructions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DependenceKind {
    /// Read after write: the second instruction reads a register that the first writes.
    Raw,
    /// Write after read: the second instruction overwrites a register that the first reads.
    War,
    /// Write after write: both instructions write the same register.
    Waw,
}

/// The requirement between two dependent instructions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LatencyRequirement {
    /// Minimum number of cycles from issue to issue.
    pub cycles: u8,
    /// Whether the second instruction must wait for a scoreboard that the first sets.
    pub scoreboard: bool,
}

/// The latency model of a target: a latency table, and a summary derived from it.
#[derive(Clone, PartialEq, Debug)]
pub struct Model {
    pub(crate) table: LatencyTable,
    pub(crate) summary: Summary,
}

impl Model {
    /// Returns the model of a target, or the universal model for a target without a table.
    pub fn of(target: Target) -> &'static Arc<Model> {
        static SHARED: [OnceLock<Arc<Model>>; built_in::MODELS.len()] = [const { OnceLock::new() }; built_in::MODELS.len()];
        let is_named = |named: &&(u16, Suffix, usize)| (named.0, named.1) == (target.number(), target.suffix());
        let index = built_in::MODEL_TARGETS.iter().find(is_named).map_or(built_in::UNIVERSAL_MODEL, |named| named.2);
        SHARED[index].get_or_init(|| Arc::new(built_in::MODELS[index].clone()))
    }

    /// Builds the model of a latency table.
    pub fn new(table: LatencyTable) -> Model {
        let summary = Summary::of(&table, Classes::get().table());
        Model { table, summary }
    }

    /// Returns the latency table.
    pub fn table(&self) -> &LatencyTable {
        &self.table
    }

    #[inline]
    fn cell(&self, kind: DependenceKind, file: usize, first: Port, second: Port) -> Option<Cell> {
        self.table.grids[kind as usize][file].get(first.0, second.0)
    }

    /// Returns the requirement between two instructions that access the same register. A pair of ports without a figure needs the largest
    /// number of cycles in the table.
    #[inline]
    pub fn need(&self, kind: DependenceKind, file: RegFile, first: Port, second: Port) -> LatencyRequirement {
        let Some(file) = file_index(file) else { return LatencyRequirement { cycles: 1, scoreboard: false } };
        match self.cell(kind, file, first, second) {
            Some(cell) => LatencyRequirement { cycles: cell.cycles, scoreboard: cell.scoreboard },
            None => LatencyRequirement { cycles: self.summary.longest, scoreboard: false },
        }
    }

    /// Returns the requirement if the first instruction has a guard.
    #[inline]
    pub fn need_guarded(&self, kind: DependenceKind, file: RegFile, first: Port, second: Port) -> LatencyRequirement {
        let need = self.need(kind, file, first, second);
        let more = file_index(file).and_then(|file| self.cell(kind, file, first, second)).map_or(0, |cell| cell.guarded);
        LatencyRequirement { cycles: need.cycles + more, ..need }
    }

    /// Returns the number of cycles after which an access by the port `first` needs no further distance from any second access, scoreboards
    /// aside.
    #[inline]
    pub fn max_need_by_port(&self, kind: DependenceKind, file: RegFile, first: Port) -> u8 {
        file_index(file).map_or(1, |file| self.summary.max_need_by_port[kind as usize][file][usize::from(first.0)])
    }

    /// Returns whether readers of the results must wait for a scoreboard.
    #[inline]
    pub fn results_need_scoreboard(&self, class: SchedClass) -> bool {
        self.summary.waits[class.index()].results
    }

    /// Returns whether sources are read so late that an instruction that overwrites them must wait for a scoreboard.
    #[inline]
    pub fn sources_need_scoreboard(&self, class: SchedClass) -> bool {
        self.summary.waits[class.index()].sources
    }

    /// Returns the duration of a class of variable latency, or `None` for a class of fixed latency.
    pub fn time(&self, class: SchedClass) -> Option<VariableLatency> {
        self.summary.times[class.index()]
    }

    /// Returns how a class uses scoreboards.
    #[inline]
    pub fn waits(&self, class: SchedClass) -> Waits {
        self.summary.waits[class.index()]
    }

    /// Sets how a class uses scoreboards, overriding the grids.
    pub(crate) fn set_waits(&mut self, class: SchedClass, waits: Waits) {
        self.summary.waits.to_mut()[class.index()] = waits;
    }

    /// Returns the number of cycles to the result for an unknown reader: the requirement of the slowest reader for a class of fixed
    /// latency, the usual time for a class of variable latency.
    #[inline]
    pub fn base_latency(&self, class: SchedClass) -> u16 {
        self.summary.base_latencies[class.index()]
    }

    /// Sets the number of cycles to the result for an unknown reader.
    pub fn set_base_latency(&mut self, class: SchedClass, cycles: u16) {
        self.summary.base_latencies.to_mut()[class.index()] = cycles;
    }

    /// Returns the largest number of cycles that any reader of the results needs, scoreboards aside.
    #[inline]
    pub fn longest_need(&self, class: SchedClass) -> u8 {
        self.summary.longest_needs[class.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oriole_isa::parse;

    fn class(text: &str) -> SchedClass {
        SchedClass::of(&parse(text).expect("an instruction"))
    }

    #[test]
    fn every_target_has_a_table() {
        for target in Target::all_with_machine_code() {
            let name = target.to_string();
            assert!(Model::of(target).table().targets.contains(&name.as_str()), "{name} has no latency table");
        }
    }

    #[test]
    fn modifiers_choose_the_class() {
        assert_eq!(class("IMAD.WIDE R2, R4, R5, R6").name(), "wide_multiply");
        assert_eq!(class("IMAD R2, R4, R5, R6").name(), "multiply");
        assert_eq!(class("HADD2.F32 R2, -RZ, R4.H0_H0").name(), "half_wide");
    }

    #[test]
    fn wide_product_halves_have_different_latencies() {
        let model = Model::of(Target::parse("sm_90").expect("a target"));
        let (wide, add) = (class("IMAD.WIDE R2, R4, R5, R6"), class("IADD3 R8, R2, R3, RZ"));
        let need = |part| {
            let first = wide.write_port(RegFile::General, part).expect("it writes registers");
            let second = add.read_port(RegFile::General, 0, 0).expect("it reads registers");
            model.need(DependenceKind::Raw, RegFile::General, first, second).cycles
        };
        assert!(need(0) < need(1));
    }

    #[test]
    fn loads_need_scoreboards_and_adds_do_not() {
        let model = Model::of(Target::parse("sm_90").expect("a target"));
        let (load, sum) = (class("LDG.E R0, desc[UR4][R2.64]"), class("IADD3 R0, R1, R2, R3"));
        assert!(model.results_need_scoreboard(load) && model.sources_need_scoreboard(load));
        assert!(!model.results_need_scoreboard(sum) && !model.sources_need_scoreboard(sum));
    }
}
