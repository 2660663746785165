//! Measures how much latency the final order hides: the distance between producers and consumers, in cycles.
//!
//! The distance is the number of issue cycles between the two instructions, stall cycles included. Scoreboard waits are not counted,
//! because a wait is latency that was not hidden. Only the first consumer counts, and only if it is in the same block; results without a
//! consumer in the block are counted separately ([`DistanceStatistics::unread_in_block`]).

use std::fmt::Write;
use std::ops::Range;

use oriole_hardware::SchedClass;
use oriole_ir::Inst;
use rustc_hash::FxHashMap;

use super::timeline::ControlLookup;
use crate::code::SchedCode;

/// A kind of dependence for which the distance from producer to consumer is measured, in issue cycles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DistanceKind {
    /// From a shared-memory load to the first reader of its result.
    Lds,
    /// From a global-memory load to the first reader of its result.
    Ldg,
    /// From a double-precision operation or 64-bit conversion to the first reader of its result.
    Xu64,
    /// Write after read: from the last reader of a register to the instruction that overwrites it.
    Antidep,
}

impl DistanceKind {
    /// All kinds of distances, in the order of the published description of ptxas.
    pub const ALL: [DistanceKind; 4] = [DistanceKind::Lds, DistanceKind::Ldg, DistanceKind::Xu64, DistanceKind::Antidep];

    /// Returns the name of this kind of distance in the published description of ptxas.
    pub fn name(self) -> &'static str {
        ["LDS", "LDG", "Xu64", "Antidep"][self as usize]
    }

    /// Returns the kind of distance that is measured from instructions of a class to the readers of their results; `None` if no distance is
    /// measured.
    fn of_class(class: SchedClass) -> Option<DistanceKind> {
        match class.name() {
            "load_shared" => Some(DistanceKind::Lds),
            "load_global" => Some(DistanceKind::Ldg),
            "double" | "special64" => Some(DistanceKind::Xu64),
            _ => None,
        }
    }
}

/// Statistics of all distances of one [`DistanceKind`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DistanceStatistics {
    /// Number of distances measured.
    pub count: u32,
    /// The shortest distance, in issue cycles.
    pub least: u32,
    /// The longest distance, in issue cycles.
    pub most: u32,
    /// Sum of all distances, in issue cycles.
    pub sum: u64,
    /// Number of instructions of this kind whose results no instruction of the same block reads.
    pub unread_in_block: u32,
}

impl DistanceStatistics {
    /// Adds one distance, in issue cycles.
    fn add(&mut self, distance: u32) {
        self.least = if self.count == 0 { distance } else { self.least.min(distance) };
        self.most = self.most.max(distance);
        self.sum += u64::from(distance);
        self.count += 1;
    }

    /// Returns the average distance in issue cycles, or 0 if no distance was measured.
    pub fn average(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / f64::from(self.count) }
    }
}

/// For each [`DistanceKind`], the statistics of its distances.
pub type LatencyDistances = [DistanceStatistics; 4];

/// Returns the issue cycle of each instruction, counted from the start of the block: the sum of the stall counts before it, of which a 0
/// counts as 1. Scoreboard waits are ignored. `controls` gives the control words; without them, each instruction takes one cycle.
fn issue_cycles(insts: &[Inst], controls: Option<ControlLookup<'_>>) -> Vec<u32> {
    let mut at = 0;
    let mut cycles = Vec::with_capacity(insts.len());
    for &inst in insts {
        cycles.push(at);
        at += controls.map_or(1, |controls| u32::from(controls(inst).stall.max(1)));
    }
    cycles
}

/// Adds the distances between producers and consumers in one block to `distances`.
pub(crate) fn add_block(
    distances: &mut LatencyDistances,
    code: &SchedCode,
    range: &Range<usize>,
    insts: &[Inst],
    controls: Option<ControlLookup<'_>>,
) {
    let cycles = issue_cycles(insts, controls);
    let at = |position: usize| cycles[position - range.start];
    // For each register number, the position of its last writer, and that of the last reader since.
    let mut writers: FxHashMap<u32, usize> = FxHashMap::default();
    let mut readers: FxHashMap<u32, usize> = FxHashMap::default();
    let mut is_read = vec![false; range.len()];
    for position in range.clone() {
        let item = &code.items[position];
        for access in code.reads(item) {
            if let Some(&writer) = writers.get(&access.register)
                && !std::mem::replace(&mut is_read[writer - range.start], true)
                && let Some(category) = DistanceKind::of_class(code.items[writer].class)
            {
                distances[category as usize].add(at(position) - at(writer));
            }
        }
        let overwritten = code.writes(item).iter().filter_map(|access| readers.get(&access.register)).max();
        if let Some(&reader) = overwritten {
            distances[DistanceKind::Antidep as usize].add(at(position) - at(reader));
        }
        for access in code.reads(item) {
            readers.insert(access.register, position);
        }
        for access in code.writes(item) {
            writers.insert(access.register, position);
            readers.remove(&access.register);
        }
    }
    for position in range.clone().filter(|position| !is_read[position - range.start]) {
        if let Some(category) = DistanceKind::of_class(code.items[position].class) {
            distances[category as usize].unread_in_block += 1;
        }
    }
}

/// Formats the distances as text, one line per [`DistanceKind`].
pub fn lines(distances: &LatencyDistances) -> String {
    let mut text = String::new();
    for (category, found) in DistanceKind::ALL.into_iter().zip(distances) {
        let DistanceStatistics { count, least, most, .. } = found;
        let _ = write!(text, "# {} latency hiding: Num={count} Min={least} Max={most} Avg={:.2}", category.name(), found.average());
        if found.unread_in_block > 0 {
            let _ = write!(text, " ({} not read in their block)", found.unread_in_block);
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::from_machine;
    use oriole_isa::{Control, parse};
    use oriole_support::Index;

    /// Each stall is 2 cycles. The result of the first load is read two instructions later, that of the second load never. R2, the address
    /// of the first load, is overwritten by the third instruction.
    #[test]
    fn distances_count_stall_cycles() {
        let lines = [
            "LDG.E R0, desc[UR4][R2.64]",
            "LDG.E R6, desc[UR4][R8.64]",
            "IADD3 R2, R0, R10, RZ",
            "DADD R12, R14, R16",
            "DADD R18, R12, R12",
        ];
        let code = from_machine::code(&lines.map(|line| parse(line).unwrap()));
        let insts: Vec<Inst> = (0..5).map(Inst::new).collect();
        let controls = |_: Inst| Control { stall: 2, ..Control::default() };
        let mut distances = LatencyDistances::default();
        add_block(&mut distances, &code, &(0..5), &insts, Some(&controls));
        let [lds, ldg, double, anti] = distances;
        assert_eq!((lds.count, lds.unread_in_block), (0, 0));
        assert_eq!((ldg.count, ldg.least, ldg.most, ldg.unread_in_block), (1, 4, 4, 1));
        assert_eq!((double.count, double.least, double.unread_in_block), (1, 2, 1));
        assert_eq!((anti.count, anti.least), (1, 4));
        let text = super::lines(&distances);
        assert!(text.contains("# LDG latency hiding: Num=1 Min=4 Max=4 Avg=4.00 (1 not read in their block)\n"), "{text}");
    }
}
