//! Memory as seen from one multiprocessor: the memory unit, the L1 cache, and this multiprocessor's share of L2 and DRAM bandwidth.
//!
//! Each level is a FIFO queue, represented by the cycle at which it becomes free. An access starts when the previous one has left the
//! queue, occupies the queue for a time proportional to its sectors, and completes a fixed latency later. Bandwidth of the whole GPU is
//! divided by the number of active multiprocessors, because every one of them is assumed to run the same code.
//!
//! Example: two loads of 4 wavefronts are issued in cycles 10 and 11, and the unit is idle. The first starts in cycle 10 and occupies the
//! memory unit until cycle 14. The second starts in cycle 14, although it was issued in cycle 11.

use std::collections::VecDeque;

use oriole_hardware::VariableLatency;
use rustc_hash::FxHashMap;

use super::code::{Figures, SharedUnitWork, TimedAccessKind, TimedOp};
use super::trace::{Footprint, TimingTrace};

/// The completion times of an access, as absolute cycles.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// The source registers have been read; releases the read barrier.
    pub read: u64,
    /// The result is available; releases the write barrier.
    pub result: u64,
}

/// A FIFO cache: it evicts the oldest entry, regardless of use. An entry may still be in flight.
pub struct FifoCache {
    /// The cycle in which the data of each entry arrive.
    entries: FxHashMap<u64, u64>,
    /// Entries in the order of their insertion.
    order: VecDeque<u64>,
    /// Maximum number of entries; 0 disables the cache.
    capacity: usize,
}

impl FifoCache {
    /// Makes an empty cache of `capacity` entries.
    pub fn new(capacity: usize) -> FifoCache {
        FifoCache { entries: FxHashMap::default(), order: VecDeque::new(), capacity }
    }

    /// Returns the cycle from which the entry is readable, which may be in the future; `None` on a miss.
    pub fn get(&self, entry: u64) -> Option<u64> {
        self.entries.get(&entry).copied()
    }

    /// Inserts an entry that becomes readable in cycle `ready`; evicts the oldest entry if the cache is full.
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

/// The part of the memory system that depends on the whole launch and not on one multiprocessor.
#[derive(Clone, Copy, Debug)]
pub struct LaunchContext {
    /// Number of multiprocessors that have work.
    pub active: u32,
    /// Whether L1 misses go to DRAM because the launch touches more than the L2 cache holds; otherwise the L2 cache is assumed warm.
    pub from_dram: bool,
    /// Capacity of the L1 cache, in bytes: what shared memory leaves of the common storage.
    pub cache_bytes: u32,
}

/// The queues of the memory system. Fields of type `u64` and `f64` hold the cycle from which a queue accepts further work.
pub struct MemorySystem<'t> {
    figures: &'t Figures,
    trace: &'t TimingTrace,
    context: LaunchContext,
    first_level: FifoCache,
    /// The memory unit of the multiprocessor.
    unit: u64,
    /// The constant-bank unit.
    constants: u64,
    /// The path to the L2 cache. Fractional: a sector takes less than one cycle.
    second_level: f64,
    dram: f64,
    /// The L2 atomic units.
    atomics: f64,
    /// One queue for each word that atomic operations of several warps modify, by byte address.
    words: FxHashMap<u64, f64>,
}

impl<'t> MemorySystem<'t> {
    /// Makes an idle memory system with cold caches.
    pub fn new(figures: &'t Figures, trace: &'t TimingTrace, context: LaunchContext) -> MemorySystem<'t> {
        MemorySystem {
            figures,
            trace,
            context,
            first_level: FifoCache::new((context.cache_bytes / figures.costs.sector_bytes) as usize),
            unit: 0,
            constants: 0,
            second_level: 0.0,
            dram: 0.0,
            atomics: 0.0,
            words: FxHashMap::default(),
        }
    }

    /// Returns the first cycle in which the memory system accepts `op`. A unit accepts work up to `memory_queue` cycles before it is free.
    pub fn accepts(&self, op: &TimedOp) -> u64 {
        let queue = match op.work {
            SharedUnitWork::None | SharedUnitWork::CopyFence => return 0,
            SharedUnitWork::Constant(_) => self.constants,
            SharedUnitWork::Memory(_) | SharedUnitWork::Access(_) => self.unit,
        };
        queue.saturating_sub(u64::from(self.figures.costs.memory_queue))
    }

    /// Returns the cycle in which the last access leaves its queue.
    pub fn idle(&self) -> u64 {
        let words = self.words.values().copied().fold(0.0, f64::max);
        let last = self.second_level.max(self.dram).max(self.atomics).max(words);
        self.unit.max(last as u64)
    }

    /// Enqueues an operation issued in cycle `now` and returns its completion times.
    pub fn take(&mut self, op: &TimedOp, footprint: Option<&Footprint>, now: u64) -> Done {
        let time = op.time.unwrap_or(VariableLatency { least: 1, usual: 1, most: 1, read: 1 });
        let read_time = u64::from(time.read);
        // Appends work to a queue and returns the cycle in which the work starts.
        let start = |queue: &mut u64, cycles: u32| {
            let start = now.max(*queue);
            *queue = start + u64::from(cycles);
            start
        };
        match (&op.work, footprint) {
            (SharedUnitWork::Constant(cycles), _) => {
                let start = start(&mut self.constants, *cycles);
                Done { read: start + read_time, result: start + u64::from(time.least) }
            }
            (SharedUnitWork::Memory(cycles), _) => {
                let start = start(&mut self.unit, *cycles);
                Done { read: start + read_time, result: start + u64::from(time.least) }
            }
            (SharedUnitWork::Access(access), Some(footprint)) => {
                let start = start(&mut self.unit, footprint.wavefronts);
                let further = u64::from(footprint.wavefronts - 1);
                let read = start + read_time + further;
                let conflicts = further * u64::from(self.figures.costs.shared_conflict);
                let result = if footprint.is_shared {
                    let is_atomic = matches!(access.kind, TimedAccessKind::Atomic | TimedAccessKind::Reduction);
                    start + u64::from(if is_atomic { self.figures.costs.atomic_shared } else { time.least.into() }) + conflicts
                } else if footprint.is_local {
                    start + u64::from(time.least) + further
                } else {
                    match access.kind {
                        TimedAccessKind::Load => self.load(footprint, access.cached, time, start + further),
                        TimedAccessKind::Store => self.store(footprint, start),
                        TimedAccessKind::Atomic | TimedAccessKind::Reduction => self.atomic(footprint, time, start),
                    }
                };
                Done { read, result: result.max(read) }
            }
            // No active thread, or an operation that uses no shared unit.
            _ => Done { read: now + 1, result: now + u64::from(time.least.min(time.read)) },
        }
    }

    /// Enqueues a global load and returns the cycle of its result: the latest of an L1 hit, hits on lines in flight, and misses.
    fn load(&mut self, footprint: &Footprint, cached: bool, time: VariableLatency, start: u64) -> u64 {
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
            let latency = if self.context.from_dram { time.most } else { time.usual };
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

    /// Transfers sectors between the L1 cache and L2 (and DRAM if the launch does not fit into L2). `sector_rate` and `line_rate` are the
    /// number of sectors and lines the whole GPU transfers per cycle. Returns the cycle in which the last sector has left the queue.
    fn transfer(&mut self, sectors: u32, lines: u32, (sector_rate, line_rate): (f64, f64), start: u64) -> u64 {
        let costs = self.figures.costs;
        let share = f64::from(self.context.active);
        let (sectors, lines) = (f64::from(sectors), f64::from(lines));
        // The slowest of three limits: the multiprocessor's port to L2, its share of L2 sectors, its share of L2 line lookups.
        let cycles = (sectors * costs.l2_sector_sm).max(sectors * share / sector_rate).max(lines * share / line_rate);
        self.second_level = self.second_level.max(start as f64) + cycles;
        let mut end = self.second_level;
        if self.context.from_dram {
            self.dram = self.dram.max(start as f64) + sectors * share / costs.dram_sectors_gpu;
            end = end.max(self.dram);
        }
        end as u64
    }

    /// Enqueues a global store (write-through) and returns the cycle in which its last sector is accepted.
    fn store(&mut self, footprint: &Footprint, start: u64) -> u64 {
        let rates = (self.figures.costs.l2_stores_gpu, self.figures.costs.l2_store_lines_gpu);
        self.transfer(footprint.sectors.len() as u32, footprint.lines, rates, start)
    }

    /// Enqueues a global atomic operation and returns the cycle of its result. Operations of several warps on one word are serialized.
    fn atomic(&mut self, footprint: &Footprint, time: VariableLatency, start: u64) -> u64 {
        let costs = self.figures.costs;
        let share = f64::from(self.context.active);
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
