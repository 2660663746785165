//! Data races in shared memory.
//!
//! Two accesses of different threads to the same byte race if one of them writes, they are not both strong (atomic, volatile, relaxed,
//! acquire, release), and nothing orders them. What orders is tracked with clocks: each thread counts its own synchronizations and
//! knows up to which count of every other thread it has been told. `bar` and `barrier` tell everybody who waits about everybody who
//! arrived, `bar.warp.sync` does so among its members, and a strong write that is a release or follows a fence tells whoever reads
//! it strongly and acquires or fences after that. A barrier of the whole block starts a new epoch: all before is ordered, and the
//! clocks start with nothing known.
//!
//! Two writes of the same value are not reported: kernels set flags this way, and the outcome does not depend on the order. Of one byte,
//! the last write and a few of the last reads are remembered, so a race may be missed, but none is invented.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Reads remembered for each byte.
const MOST_READS: usize = 8;

/// An access to shared memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub(crate) thread: u32,
    pub(crate) line: u32,
    pub(crate) strong: bool,
    pub(crate) is_write: bool,
}

/// The access that another one races with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Race {
    pub(crate) thread: u32,
    pub(crate) line: u32,
    pub(crate) is_write: bool,
    pub(crate) address: usize,
}

/// An access of the past.
#[derive(Clone, Copy, Debug)]
struct Stamp {
    thread: u32,
    epoch: u32,
    clock: u32,
    line: u32,
    strong: bool,
}

#[derive(Clone, Default)]
struct Byte {
    write: Option<Stamp>,
    reads: SmallVec<[Stamp; 1]>,
}

/// What a thread knows of the others: a clock for each.
type Clocks = Box<[u32]>;

pub(crate) struct Races {
    threads: usize,
    bytes: Vec<Byte>,
    epoch: u32,
    /// How often each thread has synchronized.
    own: Vec<u32>,
    /// What each thread knows since the last barrier of the block; nothing if there is no entry.
    known: Vec<Option<Clocks>>,
    /// What each thread knew at its last fence, and what its strong reads will tell it at the next.
    at_fence: Vec<Option<Clocks>>,
    pending: Vec<Option<Clocks>>,
    /// What strong writes to a location tell.
    locations: FxHashMap<u64, Clocks>,
}

fn join(clocks: &mut [u32], other: &[u32]) {
    for (own, &other) in clocks.iter_mut().zip(other) {
        *own = (*own).max(other);
    }
}

impl Races {
    pub(crate) fn new(threads: u32, bytes: usize) -> Races {
        let threads = threads as usize;
        Races {
            threads,
            bytes: vec![Byte::default(); bytes],
            epoch: 0,
            own: vec![1; threads],
            known: vec![None; threads],
            at_fence: vec![None; threads],
            pending: vec![None; threads],
            locations: FxHashMap::default(),
        }
    }

    /// An access to some bytes; `changes` says whether a write changes what is there. The access it races with, if any.
    pub(crate) fn access(&mut self, start: usize, bytes: usize, access: Access, changes: bool) -> Option<Race> {
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
                (!harmless).then_some(Race { thread: other.thread, line: other.line, is_write, address })
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

    /// Whether an access comes before whatever a thread does now.
    fn is_before(&self, stamp: &Stamp, thread: u32) -> bool {
        stamp.epoch < self.epoch
            || stamp.thread == thread
            || self.known[thread as usize].as_ref().is_some_and(|known| known[stamp.thread as usize] >= stamp.clock)
    }

    /// A barrier of all threads.
    pub(crate) fn full_barrier(&mut self) {
        self.epoch += 1;
        self.known.fill(None);
        self.at_fence.fill(None);
        self.pending.fill(None);
        self.locations.clear();
    }

    /// Everything that a thread knows and has done.
    fn snapshot(&self, thread: u32) -> Clocks {
        let mut clocks = self.known[thread as usize].clone().unwrap_or_else(|| vec![0; self.threads].into());
        clocks[thread as usize] = self.own[thread as usize];
        clocks
    }

    fn learn(&mut self, thread: u32, clocks: &[u32]) {
        let known = self.known[thread as usize].get_or_insert_with(|| vec![0; clocks.len()].into());
        join(known, clocks);
    }

    /// The threads that wait learn of all that those who arrived did before.
    pub(crate) fn synchronize(&mut self, arrived: &[u32], waiting: &[u32]) {
        let mut all: Clocks = vec![0; self.threads].into();
        for &thread in arrived {
            join(&mut all, &self.snapshot(thread));
        }
        for &thread in arrived {
            self.own[thread as usize] += 1;
        }
        for &thread in waiting {
            self.learn(thread, &all);
        }
    }

    /// A fence of a thread.
    pub(crate) fn fence(&mut self, thread: u32) {
        if let Some(told) = self.pending[thread as usize].take() {
            self.learn(thread, &told);
        }
        self.at_fence[thread as usize] = Some(self.snapshot(thread));
        self.own[thread as usize] += 1;
    }

    /// A strong read of a location.
    pub(crate) fn strong_read(&mut self, thread: u32, location: u64, acquires: bool) {
        let Some(told) = self.locations.get(&location).cloned() else { return };
        if acquires {
            self.learn(thread, &told);
        } else {
            let pending = self.pending[thread as usize].get_or_insert_with(|| vec![0; told.len()].into());
            join(pending, &told);
        }
    }

    /// A strong write to a location.
    pub(crate) fn strong_write(&mut self, thread: u32, location: u64, releases: bool) {
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
    use super::{Access, Races};

    fn access(races: &mut Races, thread: u32, is_write: bool) -> bool {
        races.access(0, 4, Access { thread, line: 1, strong: false, is_write }, is_write).is_some()
    }

    #[test]
    fn barriers_order() {
        let mut races = Races::new(4, 4);
        assert!(!access(&mut races, 0, true));
        assert!(!access(&mut races, 0, false));
        races.full_barrier();
        assert!(!access(&mut races, 1, false));
        assert!(!access(&mut races, 2, false));
        assert!(access(&mut races, 3, true));
    }

    #[test]
    fn partial_barriers_order_their_members_only() {
        let mut races = Races::new(4, 4);
        access(&mut races, 0, true);
        races.synchronize(&[0, 1], &[0, 1]);
        assert!(!access(&mut races, 1, false));
        assert!(access(&mut races, 2, false));
    }

    #[test]
    fn flags_order_with_fences_or_release_and_acquire() {
        let mut races = Races::new(2, 4);
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
