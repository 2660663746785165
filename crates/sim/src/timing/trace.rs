//! The trace that the timing model replays: each warp's instruction stream, recorded while the functional simulator executes.

use oriole_isa::Target;
use rustc_hash::{FxHashMap, FxHashSet};

use super::code::{Figures, FlowEffect, MemoryTiming, SharedUnitWork, TimedAccessKind, TimedOp};
use crate::sass::memory::space::{MemoryPlace, Space};
use crate::sass::warp::{LANES, Mask, Warp, lanes_of};
use crate::sass::world::Map;
use crate::sass::{Issue, Observer};

/// One execution of an instruction by a warp.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// Index into [`TimingTrace::ops`].
    pub op: u32,
    /// Index into [`TimingTrace::footprints`]; `None` if it accesses no memory or no thread is active.
    pub footprint: Option<u32>,
    /// Whether it is a branch that only some active threads of the warp take, so that the warp diverges.
    pub is_split: bool,
}

/// The memory touched by one access of one warp.
#[derive(Clone, Debug, Default)]
pub struct Footprint {
    pub is_shared: bool,
    pub is_local: bool,
    /// Cycles for which it occupies the memory unit: one per 128 bytes, or one per word of the most used shared-memory bank.
    pub wavefronts: u32,
    /// Touched sectors of global memory (byte address / sector size), ascending, without duplicates.
    pub sectors: Vec<u64>,
    /// Number of distinct cache lines of global memory.
    pub lines: u32,
    /// Number of active threads.
    pub lanes: u32,
    /// For atomics: the largest number of threads with the same address, and that address.
    pub same: (u32, u64),
}

/// The trace of one thread block: the events of each of its warps.
#[derive(Clone, Debug, Default)]
pub struct BlockTrace {
    pub warps: Vec<Vec<Event>>,
}

/// Everything recorded for one multiprocessor.
pub struct TimingTrace {
    pub ops: Vec<TimedOp>,
    pub footprints: Vec<Footprint>,
    pub blocks: Vec<BlockTrace>,
    /// Byte addresses that atomic operations of more than one warp modify.
    pub contended: FxHashSet<u64>,
}

impl TimingTrace {
    /// Returns the number of instructions issued by all warps.
    pub fn instructions(&self) -> u64 {
        self.blocks.iter().flat_map(|block| &block.warps).map(|warp| warp.len() as u64).sum()
    }

    /// Returns the number of bytes of global memory touched, counted in whole sectors.
    pub fn global_bytes(&self, sector_bytes: u32) -> u64 {
        let sectors: FxHashSet<u64> = self.footprints.iter().flat_map(|footprint| footprint.sectors.iter().copied()).collect();
        sectors.len() as u64 * u64::from(sector_bytes)
    }
}

/// Observer of the functional simulator that builds a [`TimingTrace`].
pub struct Recorder<'f> {
    figures: &'f Figures,
    map: Map,
    /// Index of the operation for each instruction address.
    index: FxHashMap<u64, u32>,
    ops: Vec<TimedOp>,
    footprints: Vec<Footprint>,
    /// Linear indices of the blocks in the order in which they started.
    order: Vec<u64>,
    /// Events of each warp, by (block, warp number in the block).
    warps: FxHashMap<(u64, u32), Vec<Event>>,
    /// First warp that modified each address atomically, by (block, warp).
    owners: FxHashMap<u64, (u64, u32)>,
    contended: FxHashSet<u64>,
    /// Number of events so far.
    pub recorded: u64,
}

impl<'f> Recorder<'f> {
    pub fn new(figures: &'f Figures) -> Recorder<'f> {
        Recorder {
            figures,
            map: Map::new(figures.target),
            index: FxHashMap::default(),
            ops: Vec::new(),
            footprints: Vec::new(),
            order: Vec::new(),
            warps: FxHashMap::default(),
            owners: FxHashMap::default(),
            contended: FxHashSet::default(),
            recorded: 0,
        }
    }

    /// Returns the trace, with blocks in the order in which they started.
    pub fn finish(mut self) -> TimingTrace {
        let blocks = self.order.iter().map(|&number| {
            let mut block = BlockTrace::default();
            while let Some(warp) = self.warps.remove(&(number, block.warps.len() as u32)) {
                block.warps.push(warp);
            }
            block
        });
        let blocks = blocks.collect();
        TimingTrace { ops: self.ops, footprints: self.footprints, blocks, contended: self.contended }
    }

    /// Returns the index of the operation for an instruction, which it adds on the first visit.
    fn op(&mut self, issue: &Issue<'_>) -> u32 {
        if let Some(&op) = self.index.get(&issue.address) {
            return op;
        }
        let op = self.ops.len() as u32;
        let text = print(issue.word, issue.target, issue.address - issue.function);
        self.ops.push(self.figures.op(issue.address, issue.instruction, text));
        self.index.insert(issue.address, op);
        op
    }

    /// Records the memory touched by an access, and finds addresses that atomics of several warps share.
    fn footprint(&mut self, op: u32, issue: &Issue<'_>, warp: &Warp) -> Option<u32> {
        let SharedUnitWork::Access(access) = &self.ops[op as usize].work else { return None };
        let address = access.address?;
        let addresses = address.of(warp);
        let footprint = footprint(self.figures, access, &addresses, issue.active, &self.map);
        if matches!(access.kind, TimedAccessKind::Atomic | TimedAccessKind::Reduction) && !footprint.is_shared {
            let owner = (issue.block, issue.warp);
            for lane in lanes_of(issue.active) {
                if *self.owners.entry(addresses[lane]).or_insert(owner) != owner {
                    self.contended.insert(addresses[lane]);
                }
            }
        }
        self.footprints.push(footprint);
        Some(self.footprints.len() as u32 - 1)
    }
}

/// Formats an instruction with its offset in the function.
fn print(word: u128, target: Target, offset: u64) -> String {
    format!("{offset:04x} {}", oriole_isa::print(word, target, offset).unwrap_or_default())
}

impl Observer for Recorder<'_> {
    fn issue(&mut self, issue: &Issue<'_>, warp: &Warp) {
        let op = self.op(issue);
        let footprint = if issue.active == 0 { None } else { self.footprint(op, issue, warp) };
        let is_split = self.ops[op as usize].flow_effect == FlowEffect::Branch && issue.active != 0 && issue.active != issue.group;
        let key = (issue.block, issue.warp);
        if issue.warp == 0 && !self.warps.contains_key(&key) {
            self.order.push(issue.block);
        }
        self.warps.entry(key).or_default().push(Event { op, footprint, is_split });
        self.recorded += 1;
    }
}

/// Computes the memory that an access of the active threads touches.
fn footprint(figures: &Figures, access: &MemoryTiming, addresses: &[u64; LANES], active: Mask, map: &Map) -> Footprint {
    let costs = figures.costs;
    let lanes = active.count_ones();
    let words = access.bytes.div_ceil(4);
    // Even if all threads read one address, the data are written to registers, at most two words per thread and cycle.
    let passes = words.div_ceil(2);
    let is_atomic = matches!(access.kind, TimedAccessKind::Atomic | TimedAccessKind::Reduction);
    let first = lanes_of(active).next().map_or(0, |lane| addresses[lane]);
    let place = access.space.locate(first, map);
    match (access.space, place) {
        (Space::Local, _) | (_, MemoryPlace::Local(_)) => Footprint { is_local: true, wavefronts: words, lanes, ..Footprint::default() },
        (Space::Shared, _) | (_, MemoryPlace::Shared(_) | MemoryPlace::Cluster(_)) => {
            let banks = figures.machine.shared_banks as usize;
            let mut touched: Vec<u64> =
                lanes_of(active).flat_map(|lane| (0..u64::from(words)).map(move |at| addresses[lane] / 4 + at)).collect();
            touched.sort_unstable();
            // Loads and stores of one word by several threads are served together; atomics on one word are serialized.
            if !is_atomic {
                touched.dedup();
            }
            let mut counts = vec![0u32; banks];
            touched.iter().for_each(|word| counts[*word as usize % banks] += 1);
            let wavefronts = counts.into_iter().max().unwrap_or(1).max(passes);
            Footprint { is_shared: true, wavefronts, lanes, ..Footprint::default() }
        }
        _ => {
            let size = u64::from(costs.sector_bytes);
            let last = |address: u64| (address + u64::from(access.bytes) - 1) / size;
            let mut sectors: Vec<u64> = lanes_of(active).flat_map(|lane| addresses[lane] / size..=last(addresses[lane])).collect();
            sectors.sort_unstable();
            sectors.dedup();
            let per_line = u64::from(costs.line_bytes / costs.sector_bytes);
            let mut lines: Vec<u64> = sectors.iter().map(|sector| sector / per_line).collect();
            lines.dedup();
            let wavefronts = (sectors.len() as u32 * costs.sector_bytes).div_ceil(costs.wavefront_bytes).max(passes);
            let mut same = (0, 0);
            if is_atomic {
                let mut counts: FxHashMap<u64, u32> = FxHashMap::default();
                lanes_of(active).for_each(|lane| *counts.entry(addresses[lane]).or_default() += 1);
                same = counts.into_iter().map(|(address, count)| (count, address)).max().unwrap_or_default();
            }
            Footprint { wavefronts, lines: lines.len() as u32, sectors, lanes, same, ..Footprint::default() }
        }
    }
}
