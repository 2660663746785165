//! Memory as one multiprocessor sees it: a unit that takes accesses one after the other, a first-level cache, and its share of what
//! the GPU has behind that.
//!
//! Each level is a queue: an access begins when the one before has been taken, keeps the queue for as long as its sectors need, and its
//! result comes a fixed time later. Rates of the GPU are divided by the multiprocessors that have work, since all do the same here.

use std::collections::VecDeque;

use oriole_hardware::Time;
use rustc_hash::FxHashMap;

use super::code::{Figures, Op, Touch, Work};
use super::trace::{Footprint, Trace};

/// When an access is over.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// Its sources have been read.
    pub read: u64,
    /// Its result is there.
    pub result: u64,
}

/// A cache that forgets what came first; of each entry it knows when it is there.
pub struct Cache {
    entries: FxHashMap<u64, u64>,
    order: VecDeque<u64>,
    capacity: usize,
}

impl Cache {
    pub fn new(capacity: usize) -> Cache {
        Cache { entries: FxHashMap::default(), order: VecDeque::new(), capacity }
    }

    /// From when on an entry can be read.
    pub fn get(&self, entry: u64) -> Option<u64> {
        self.entries.get(&entry).copied()
    }

    pub fn insert(&mut self, entry: u64, ready: u64) {
        if self.capacity == 0 {
            return;
        }
        if self.entries.insert(entry, ready).is_none() {
            self.order.push_back(entry);
            if self.order.len() > self.capacity
                && let Some(oldest) = self.order.pop_front()
            {
                self.entries.remove(&oldest);
            }
        }
    }
}

/// What stands between a launch and its data.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings {
    /// Multiprocessors that have work.
    pub active: u32,
    /// Whether data come from memory because the second-level cache cannot hold them.
    pub from_dram: bool,
    /// Bytes of the first-level cache.
    pub cache_bytes: u32,
}

pub struct MemorySystem<'t> {
    figures: &'t Figures,
    trace: &'t Trace,
    around: Surroundings,
    first_level: Cache,
    /// From when on each queue takes more.
    unit: u64,
    constants: u64,
    second_level: f64,
    dram: f64,
    atomics: f64,
    /// The same for words that many warps change.
    words: FxHashMap<u64, f64>,
}

impl<'t> MemorySystem<'t> {
    pub fn new(figures: &'t Figures, trace: &'t Trace, around: Surroundings) -> MemorySystem<'t> {
        MemorySystem {
            figures,
            trace,
            around,
            first_level: Cache::new((around.cache_bytes / figures.costs.sector_bytes) as usize),
            unit: 0,
            constants: 0,
            second_level: 0.0,
            dram: 0.0,
            atomics: 0.0,
            words: FxHashMap::default(),
        }
    }

    /// From when on an operation can be taken.
    pub fn accepts(&self, op: &Op) -> u64 {
        let queue = match op.work {
            Work::None | Work::CopyFence => return 0,
            Work::Constant(_) => self.constants,
            Work::Memory(_) | Work::Access(_) => self.unit,
        };
        queue.saturating_sub(u64::from(self.figures.costs.memory_queue))
    }

    /// When everything that was begun is over.
    pub fn idle(&self) -> u64 {
        let words = self.words.values().copied().fold(0.0, f64::max);
        let last = self.second_level.max(self.dram).max(self.atomics).max(words);
        self.unit.max(last as u64)
    }

    /// Takes an operation.
    pub fn take(&mut self, op: &Op, footprint: Option<&Footprint>, now: u64) -> Done {
        let time = op.time.unwrap_or(Time { least: 1, usual: 1, most: 1, read: 1 });
        let read_time = u64::from(time.read);
        let start = |queue: &mut u64, cycles: u32| {
            let start = now.max(*queue);
            *queue = start + u64::from(cycles);
            start
        };
        match (&op.work, footprint) {
            (Work::Constant(cycles), _) => {
                let start = start(&mut self.constants, *cycles);
                Done { read: start + read_time, result: start + u64::from(time.least) }
            }
            (Work::Memory(cycles), _) => {
                let start = start(&mut self.unit, *cycles);
                Done { read: start + read_time, result: start + u64::from(time.least) }
            }
            (Work::Access(access), Some(footprint)) => {
                let start = start(&mut self.unit, footprint.wavefronts);
                let further = u64::from(footprint.wavefronts - 1);
                let read = start + read_time + further;
                let conflicts = further * u64::from(self.figures.costs.shared_conflict);
                let result = if footprint.is_shared {
                    let is_atomic = matches!(access.touch, Touch::Atomic | Touch::Reduction);
                    start + u64::from(if is_atomic { self.figures.costs.atomic_shared } else { time.least.into() }) + conflicts
                } else if footprint.is_local {
                    start + u64::from(time.least) + further
                } else {
                    match access.touch {
                        Touch::Load => self.load(footprint, access.cached, time, start + further),
                        Touch::Store => self.store(footprint, start),
                        Touch::Atomic | Touch::Reduction => self.atomic(footprint, time, start),
                    }
                };
                Done { read, result: result.max(read) }
            }
            // No thread takes part, or there is no work at all.
            _ => Done { read: now + 1, result: now + u64::from(time.least.min(time.read)) },
        }
    }

    fn load(&mut self, footprint: &Footprint, cached: bool, time: Time, start: u64) -> u64 {
        let mut ready = start + u64::from(time.least);
        let costs = self.figures.costs;
        let per_line = u64::from(costs.line_bytes / costs.sector_bytes);
        let (mut missing, mut lines, mut line) = (0u32, 0u32, None);
        for &sector in &footprint.sectors {
            match self.first_level.get(sector).filter(|_| cached) {
                Some(there) => ready = ready.max(there),
                None => {
                    missing += 1;
                    lines += u32::from(line != Some(sector / per_line));
                    line = Some(sector / per_line);
                }
            }
        }
        if missing > 0 {
            let costs = self.figures.costs;
            let begin = self.transfer(missing, lines, (costs.l2_sectors_gpu, costs.l2_lines_gpu), start);
            let latency = if self.around.from_dram { time.most } else { time.usual };
            let there = begin + u64::from(latency);
            for &sector in &footprint.sectors {
                if self.first_level.get(sector).is_none() {
                    self.first_level.insert(sector, there);
                }
            }
            ready = ready.max(there);
        }
        ready
    }

    /// Moves sectors from or to what is behind the first-level cache, of which the GPU moves so many, from so many lines, in a cycle; when
    /// the last has its turn.
    fn transfer(&mut self, sectors: u32, lines: u32, (sector_rate, line_rate): (f64, f64), start: u64) -> u64 {
        let costs = self.figures.costs;
        let share = f64::from(self.around.active);
        let (sectors, lines) = (f64::from(sectors), f64::from(lines));
        let cycles = (sectors * costs.l2_sector_sm).max(sectors * share / sector_rate).max(lines * share / line_rate);
        self.second_level = self.second_level.max(start as f64) + cycles;
        let mut end = self.second_level;
        if self.around.from_dram {
            self.dram = self.dram.max(start as f64) + sectors * share / costs.dram_sectors_gpu;
            end = end.max(self.dram);
        }
        end as u64
    }

    fn store(&mut self, footprint: &Footprint, start: u64) -> u64 {
        let rates = (self.figures.costs.l2_stores_gpu, self.figures.costs.l2_store_lines_gpu);
        self.transfer(footprint.sectors.len() as u32, footprint.lines, rates, start)
    }

    fn atomic(&mut self, footprint: &Footprint, time: Time, start: u64) -> u64 {
        let costs = self.figures.costs;
        let share = f64::from(self.around.active);
        let sectors = footprint.sectors.len() as f64;
        self.atomics = self.atomics.max(start as f64) + (sectors * share / costs.atomic_sectors_gpu).max(1.0);
        let mut begin = self.atomics;
        let (count, word) = footprint.same;
        if self.trace.contended.contains(&word) {
            let queue = self.words.entry(word).or_default();
            *queue = queue.max(start as f64) + f64::from(count) * costs.atomic_same_lane * share;
            begin = begin.max(*queue);
        }
        begin as u64 + u64::from(time.least) + u64::from(costs.atomic_lane * (footprint.lanes.max(1) - 1))
    }
}
