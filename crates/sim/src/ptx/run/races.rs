//! Data-race detector for shared memory, a happens-before detector with vector clocks.
//!
//! Two accesses of different threads to the same byte race if at least one writes, they are not both strong (atomic, volatile, relaxed,
//! acquire, release), and neither happens before the other. Each thread has a clock that counts its own synchronizations, and a vector with
//! the clock of every other thread up to which it has synchronized. These operations pass clocks on:
//!
//! - `bar` and `barrier`: from all threads that arrived to all that wait;
//! - `bar.warp.sync`: among its members;
//! - a strong write that is a release or follows a fence: to a thread that reads it strongly and acquires, or fences afterwards.
//!
//! A barrier of the whole block starts a new epoch: all earlier accesses are ordered before all later ones, and all vectors are reset.
//!
//! ```text
//! thread 0: st.shared [x]; st.release [flag]     flag gets thread 0's clock
//! thread 1: ld.acquire [flag]; ld.shared [x]     thread 1 learns that clock: the store to x happens before the load
//! thread 2: ld.shared [x]                        no synchronization with thread 0: race
//! ```
//!
//! Two writes of the same value are not reported: kernels set flags this way, and the result does not depend on the order. For each byte,
//! the last write and a few recent reads are remembered. So a race may be missed, but every reported race is real.

mod asynchronous;

pub(crate) use asynchronous::{AsyncAccesses, AsyncConflict};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Maximum number of reads remembered per byte.
const MOST_READS: usize = 8;

/// An access to shared memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedAccess {
    pub(crate) thread: u32,
    pub(crate) line: u32,
    pub(crate) strong: bool,
    pub(crate) is_write: bool,
}

/// The earlier access of a race.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Race {
    pub(crate) thread: u32,
    pub(crate) line: u32,
    pub(crate) is_write: bool,
    pub(crate) address: usize,
}

/// A remembered access: the thread, and its clock at the time.
#[derive(Clone, Copy, Debug)]
struct Stamp {
    thread: u32,
    epoch: u32,
    clock: u32,
    line: u32,
    strong: bool,
}

/// The remembered accesses to one byte.
#[derive(Clone, Default)]
struct Byte {
    /// Reads since the last write that are not ordered before each other.
    write: Option<Stamp>,
    reads: SmallVec<[Stamp; 1]>,
}

/// A vector clock: for each thread, the clock up to which its accesses are known to be ordered before.
type Clocks = Box<[u32]>;

/// The state of the detector for the blocks of a cluster. Callers number threads from 0 in each block; [`Races::enter`] says which block
/// runs.
pub(crate) struct Races {
    /// Number of threads of the cluster, and of a block.
    threads: usize,
    block_threads: usize,
    /// Bytes of shared memory of a block.
    block_bytes: usize,
    /// First thread of the block that runs.
    first: u32,
    bytes: Vec<Byte>,
    /// Number of block-wide barriers so far.
    epoch: u32,
    /// Clock of each thread: its number of synchronizations.
    own: Vec<u32>,
    /// Vector clock of each thread since the last block-wide barrier; `None` is all zeros.
    known: Vec<Option<Clocks>>,
    /// Vector clock of each thread at its last fence, which its strong writes pass on.
    at_fence: Vec<Option<Clocks>>,
    /// Clocks that strong reads of each thread have received; they take effect at its next fence.
    pending: Vec<Option<Clocks>>,
    /// Vector clock that strong writes have attached to a location.
    locations: FxHashMap<u64, Clocks>,
    /// Asynchronous accesses; `None` if the program has no instruction for them.
    pub(crate) asynchronous: Option<AsyncAccesses>,
}

/// Joins two vector clocks: the maximum per thread.
fn join(clocks: &mut [u32], other: &[u32]) {
    for (own, &other) in clocks.iter_mut().zip(other) {
        *own = (*own).max(other);
    }
}

impl Races {
    /// Makes a detector for a cluster of blocks with this number of threads and bytes of shared memory each.
    pub(crate) fn new(blocks: u32, threads: u32, bytes: usize) -> Races {
        let (block_threads, blocks) = (threads as usize, blocks as usize);
        let threads = block_threads * blocks;
        Races {
            threads,
            block_threads,
            block_bytes: bytes,
            first: 0,
            bytes: vec![Byte::default(); bytes * blocks],
            epoch: 0,
            own: vec![1; threads],
            known: vec![None; threads],
            at_fence: vec![None; threads],
            pending: vec![None; threads],
            locations: FxHashMap::default(),
            asynchronous: None,
        }
    }

    /// Says that the threads of the following calls are those of the block with this rank.
    pub(crate) fn enter(&mut self, rank: u32) {
        self.first = rank * self.block_threads as u32;
    }

    /// Returns the rank of the block of a thread, and the number of the thread in the block.
    pub(crate) fn rank_and_thread(&self, thread: u32) -> (u32, u32) {
        let threads = self.block_threads as u32;
        (thread / threads, thread % threads)
    }

    /// Records an access to some bytes of the block with a rank, and returns an access it races with, if any. `changes` is whether a write
    /// changes the contents.
    pub(crate) fn access(&mut self, rank: u32, start: usize, bytes: usize, access: SharedAccess, changes: bool) -> Option<Race> {
        let access = SharedAccess { thread: access.thread + self.first, ..access };
        let memory = rank as usize * self.block_bytes;
        let start = start + memory;
        let mut found = None;
        let stamp = Stamp {
            thread: access.thread,
            epoch: self.epoch,
            clock: self.own[access.thread as usize],
            line: access.line,
            strong: access.strong,
        };
        for address in start..start + bytes {
            let byte = &self.bytes[address];
            let conflict = |other: &Stamp, is_write: bool| {
                let harmless = other.strong && access.strong || self.is_before(other, access.thread);
                (!harmless).then_some(Race { thread: other.thread, line: other.line, is_write, address: address - memory })
            };
            if found.is_none() {
                let with_write = byte.write.as_ref().filter(|_| !access.is_write || changes);
                found = with_write.and_then(|write| conflict(write, true));
                if access.is_write && found.is_none() {
                    found = byte.reads.iter().find_map(|read| conflict(read, false));
                }
            }
            if access.is_write {
                let byte = &mut self.bytes[address];
                byte.write = Some(stamp);
                byte.reads.clear();
                continue;
            }
            let mut reads: SmallVec<[Stamp; 1]> = byte.reads.iter().filter(|read| !self.is_before(read, access.thread)).copied().collect();
            if reads.len() < MOST_READS {
                reads.push(stamp);
            }
            self.bytes[address].reads = reads;
        }
        found
    }

    /// Returns whether a remembered access happens before the current point of a thread.
    fn is_before(&self, stamp: &Stamp, thread: u32) -> bool {
        stamp.epoch < self.epoch
            || stamp.thread == thread
            || self.known[thread as usize].as_ref().is_some_and(|known| known[stamp.thread as usize] >= stamp.clock)
    }

    /// Records a barrier of all threads of the block that runs.
    pub(crate) fn full_barrier(&mut self) {
        if self.threads == self.block_threads {
            return self.cluster_barrier();
        }
        let all: Vec<u32> = (0..self.block_threads as u32).collect();
        self.synchronize(&all, &all);
    }

    /// Records a barrier of all threads of the cluster.
    pub(crate) fn cluster_barrier(&mut self) {
        self.epoch += 1;
        self.known.fill(None);
        self.at_fence.fill(None);
        self.pending.fill(None);
        self.locations.clear();
    }

    /// Returns the vector clock of a thread, including its own clock.
    fn snapshot(&self, thread: u32) -> Clocks {
        let mut clocks = self.known[thread as usize].clone().unwrap_or_else(|| vec![0; self.threads].into());
        clocks[thread as usize] = self.own[thread as usize];
        clocks
    }

    /// Joins clocks into the vector clock of a thread.
    fn learn(&mut self, thread: u32, clocks: &[u32]) {
        let known = self.known[thread as usize].get_or_insert_with(|| vec![0; clocks.len()].into());
        join(known, clocks);
    }

    /// Orders everything that the arrived threads did before everything that the waiting threads do next.
    pub(crate) fn synchronize(&mut self, arrived: &[u32], waiting: &[u32]) {
        let mut all: Clocks = vec![0; self.threads].into();
        let first = self.first;
        for &thread in arrived {
            join(&mut all, &self.snapshot(thread + first));
        }
        for &thread in arrived {
            self.own[(thread + first) as usize] += 1;
        }
        for &thread in waiting {
            self.learn(thread + first, &all);
        }
    }

    /// Records a fence of a thread.
    pub(crate) fn fence(&mut self, thread: u32) {
        let thread = thread + self.first;
        if let Some(told) = self.pending[thread as usize].take() {
            self.learn(thread, &told);
        }
        self.at_fence[thread as usize] = Some(self.snapshot(thread));
        self.own[thread as usize] += 1;
    }

    /// Records a strong read of a location.
    pub(crate) fn strong_read(&mut self, thread: u32, location: u64, acquires: bool) {
        let thread = thread + self.first;
        let Some(told) = self.locations.get(&location).cloned() else { return };
        if acquires {
            self.learn(thread, &told);
        } else {
            let pending = self.pending[thread as usize].get_or_insert_with(|| vec![0; told.len()].into());
            join(pending, &told);
        }
    }

    /// Records a strong write to a location.
    pub(crate) fn strong_write(&mut self, thread: u32, location: u64, releases: bool) {
        let thread = thread + self.first;
        let told = if releases {
            let told = self.snapshot(thread);
            self.own[thread as usize] += 1;
            Some(told)
        } else {
            self.at_fence[thread as usize].clone()
        };
        if let Some(told) = told {
            let threads = self.threads;
            let clocks = self.locations.entry(location).or_insert_with(|| vec![0; threads].into());
            join(clocks, &told);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Races, SharedAccess};

    fn access(races: &mut Races, thread: u32, is_write: bool) -> bool {
        races.access(0, 0, 4, SharedAccess { thread, line: 1, strong: false, is_write }, is_write).is_some()
    }

    #[test]
    fn barriers_order() {
        let mut races = Races::new(1, 4, 4);
        assert!(!access(&mut races, 0, true));
        assert!(!access(&mut races, 0, false));
        races.full_barrier();
        assert!(!access(&mut races, 1, false));
        assert!(!access(&mut races, 2, false));
        assert!(access(&mut races, 3, true));
    }

    #[test]
    fn partial_barriers_order_their_members_only() {
        let mut races = Races::new(1, 4, 4);
        access(&mut races, 0, true);
        races.synchronize(&[0, 1], &[0, 1]);
        assert!(!access(&mut races, 1, false));
        assert!(access(&mut races, 2, false));
    }

    #[test]
    fn flags_order_with_fences_or_release_and_acquire() {
        let mut races = Races::new(1, 2, 4);
        access(&mut races, 0, true);
        races.strong_write(0, 100, true);
        races.strong_read(1, 100, true);
        assert!(!access(&mut races, 1, false));
        races.fence(1);
        races.strong_write(1, 200, false);
        races.strong_read(0, 200, false);
        races.fence(0);
        assert!(!access(&mut races, 0, true));
        races.strong_write(0, 300, false);
        races.strong_read(1, 300, true);
        assert!(access(&mut races, 1, true));
    }
}
