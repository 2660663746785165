//! What warps did: the streams of instructions that the timing model runs, recorded while the functional simulator executes.

use oriole_isa::Target;
use rustc_hash::{FxHashMap, FxHashSet};

use super::code::{Access, Figures, Op, Touch, Turn, Work};
use crate::sass::memory::space::{Space, Where};
use crate::sass::warp::{LANES, Mask, Warp, lanes_of};
use crate::sass::world::Map;
use crate::sass::{Issue, Observer};

/// An instruction that a warp issued.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// Index of the operation.
    pub op: u32,
    /// Index of what it did to memory.
    pub footprint: Option<u32>,
    /// Whether only some threads of the group executed a branch.
    pub is_split: bool,
}

/// What an access of a warp touched.
#[derive(Clone, Debug, Default)]
pub struct Footprint {
    pub is_shared: bool,
    pub is_local: bool,
    /// Cycles of the memory unit.
    pub wavefronts: u32,
    /// Sectors of global memory, ascending.
    pub sectors: Vec<u64>,
    /// Lines of global memory.
    pub lines: u32,
    pub lanes: u32,
    /// Most threads at one address, and that address.
    pub same: (u32, u64),
}

/// A block: the events of each of its warps.
#[derive(Clone, Debug, Default)]
pub struct BlockTrace {
    pub warps: Vec<Vec<Event>>,
}

/// Everything that was recorded.
pub struct Trace {
    pub ops: Vec<Op>,
    pub footprints: Vec<Footprint>,
    pub blocks: Vec<BlockTrace>,
    /// Words that atomic operations of more than one warp touch.
    pub contended: FxHashSet<u64>,
}

impl Trace {
    /// Instructions of all warps.
    pub fn instructions(&self) -> u64 {
        self.blocks.iter().flat_map(|block| &block.warps).map(|warp| warp.len() as u64).sum()
    }

    /// Bytes of global memory that blocks touch.
    pub fn global_bytes(&self, sector_bytes: u32) -> u64 {
        let sectors: FxHashSet<u64> = self.footprints.iter().flat_map(|footprint| footprint.sectors.iter().copied()).collect();
        sectors.len() as u64 * u64::from(sector_bytes)
    }
}

/// Listens to the functional simulator.
pub struct Recorder<'f> {
    figures: &'f Figures,
    map: Map,
    index: FxHashMap<u64, u32>,
    ops: Vec<Op>,
    footprints: Vec<Footprint>,
    order: Vec<u64>,
    warps: FxHashMap<(u64, u32), Vec<Event>>,
    owners: FxHashMap<u64, (u64, u32)>,
    contended: FxHashSet<u64>,
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

    /// What was recorded, blocks in the order in which they began.
    pub fn finish(mut self) -> Trace {
        let blocks = self.order.iter().map(|&number| {
            let mut block = BlockTrace::default();
            while let Some(warp) = self.warps.remove(&(number, block.warps.len() as u32)) {
                block.warps.push(warp);
            }
            block
        });
        let blocks = blocks.collect();
        Trace { ops: self.ops, footprints: self.footprints, blocks, contended: self.contended }
    }

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

    fn footprint(&mut self, op: u32, issue: &Issue<'_>, warp: &Warp) -> Option<u32> {
        let Work::Access(access) = &self.ops[op as usize].work else { return None };
        let address = access.address?;
        let addresses = address.of(warp);
        let footprint = footprint(self.figures, access, &addresses, issue.active, &self.map);
        if matches!(access.touch, Touch::Atomic | Touch::Reduction) && !footprint.is_shared {
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

fn print(word: u128, target: Target, offset: u64) -> String {
    format!("{offset:04x} {}", oriole_isa::print(word, target, offset).unwrap_or_default())
}

impl Observer for Recorder<'_> {
    fn issue(&mut self, issue: &Issue<'_>, warp: &Warp) {
        let op = self.op(issue);
        let footprint = if issue.active == 0 { None } else { self.footprint(op, issue, warp) };
        let is_split = self.ops[op as usize].turn == Turn::Branch && issue.active != 0 && issue.active != issue.group;
        let key = (issue.block, issue.warp);
        if issue.warp == 0 && !self.warps.contains_key(&key) {
            self.order.push(issue.block);
        }
        self.warps.entry(key).or_default().push(Event { op, footprint, is_split });
        self.recorded += 1;
    }
}

/// What an access touches.
fn footprint(figures: &Figures, access: &Access, addresses: &[u64; LANES], active: Mask, map: &Map) -> Footprint {
    let costs = figures.costs;
    let lanes = active.count_ones();
    let words = access.bytes.div_ceil(4);
    // Data of one address for all threads still go to the registers, two words of each thread at a time.
    let passes = words.div_ceil(2);
    let is_atomic = matches!(access.touch, Touch::Atomic | Touch::Reduction);
    let first = lanes_of(active).next().map_or(0, |lane| addresses[lane]);
    let place = access.space.locate(first, map);
    match (access.space, place) {
        (Space::Local, _) | (_, Where::Local(_)) => Footprint { is_local: true, wavefronts: words, lanes, ..Footprint::default() },
        (Space::Shared, _) | (_, Where::Shared(_)) => {
            let banks = figures.machine.shared_banks as usize;
            let mut touched: Vec<u64> =
                lanes_of(active).flat_map(|lane| (0..u64::from(words)).map(move |at| addresses[lane] / 4 + at)).collect();
            touched.sort_unstable();
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
