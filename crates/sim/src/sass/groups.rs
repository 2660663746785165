//! Divergence within a warp: which group of threads runs, which ones wait, and when they continue.
//!
//! A group is a set of threads at the same instruction that execute together. One group of a warp runs until it waits, exits or yields
//! (`YIELD`, `NANOSLEEP`); then another one runs. When a branch splits the running group, one part runs first and the others wait for their
//! turn.
//!
//! This was measured on an H200: half a warp that counts to 200 before it reaches the others is not interrupted, and threads that spin
//! without yielding starve the threads they wait for. The use of convergence barriers in functions relies on it (see
//! [`super::convergence`]). In all experiments the part that falls through ran first; here it does so in the fixed order, and [`TurnOrder`] can
//! choose a part at random. Which group runs after one that waits was not measured; here it is the one that split off most recently, as on
//! a stack, and groups that yielded come after all others.
//!
//! `BSYNC` does not wait for threads that have yielded and not run since, nor for threads at a `WARPSYNC` (both measured on an H200).

use super::convergence::BARRIERS;
use super::warp::{LANES, Lanes, Mask, Warp, first, lanes_of};

/// Threads of a warp at the same instruction.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThreadGroup {
    /// Index of the next instruction; if the group waits, the one after the instruction it waits at.
    pub step: u32,
    pub threads: Mask,
    /// What the group waits for; `None` if it can run.
    pub wait: Option<GroupWait>,
}

/// The event a group waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GroupWait {
    /// At `BSYNC`, for this convergence barrier.
    Convergence(usize),
    /// At `WARPSYNC`.
    WarpSync,
    /// At `BAR`, for this block barrier.
    Block(usize),
    /// At `WARPSYNC.COLLECTIVE`.
    Collective,
    /// At `UCGABAR_WAIT`, for the end of this number of phases of the cluster's barrier.
    Cluster(u64),
}

/// Chooses which warp or group runs next.
#[derive(Clone, Copy, Debug)]
pub(super) struct TurnOrder {
    /// State of a xorshift generator; 0 for the fixed order.
    state: u64,
}

impl TurnOrder {
    /// Makes the order for a seed; 0 is the fixed order.
    pub fn new(seed: u64) -> TurnOrder {
        TurnOrder { state: if seed == 0 { 0 } else { seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 } }
    }

    pub fn is_random(self) -> bool {
        self.state != 0
    }

    /// Returns a random number below `count`. Must not be called in the fixed order.
    pub fn choose(&mut self, count: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 32) as usize % count.max(1)
    }
}

/// A resident warp and the groups of its threads.
pub(super) struct Running {
    pub warp: Warp,
    /// In the order in which they became ready or started to wait, oldest first.
    pub groups: Vec<ThreadGroup>,
    pub exited: Mask,
    /// Number of arrivals of the warp at the barrier of the cluster.
    pub cluster_arrivals: u64,
    /// Threads of the running group, including parts that have split off since it was chosen.
    current: Mask,
    /// Threads that have yielded and not run since.
    yielded: Mask,
    /// Threads after `WARPSYNC.EXCLUSIVE`: while non-zero, no other threads of the warp run.
    pub exclusive: Mask,
    /// Threads that wait at `WARPSYNC.EXCLUSIVE`, or did so the last time that they waited at a `WARPSYNC`.
    pub separate: Mask,
    /// For each thread at `WARPSYNC` the mask of threads it waits for.
    pub wanted: Lanes,
    /// For each thread at `WARPSYNC.COLLECTIVE` the instruction at which it continues after `ENDCOLLECTIVE`.
    pub after_collection: [u32; LANES],
}

impl Running {
    /// Makes a warp whose threads all start at instruction `entry`.
    pub fn new(warp: Warp, entry: u32) -> Running {
        let threads = warp.identity.threads;
        Running {
            warp,
            groups: vec![ThreadGroup { step: entry, threads, wait: None }],
            exited: !threads,
            cluster_arrivals: 0,
            current: 0,
            yielded: 0,
            exclusive: 0,
            separate: 0,
            wanted: [0; LANES],
            after_collection: [0; LANES],
        }
    }

    /// Selects the group to run and returns its index. Candidates in order of preference: the group that is running, or a part of it; the
    /// group that split off most recently; groups that have yielded, in turn.
    pub fn next(&mut self, order: &mut TurnOrder) -> Option<usize> {
        if self.groups.iter().all(|group| group.wait.is_some()) {
            self.break_deadlock();
        }
        let alone = if self.exclusive != 0 { self.exclusive } else { !0 };
        let ready = |among: Mask| -> Vec<usize> {
            let is_ready = |group: &ThreadGroup| group.wait.is_none() && group.threads & among != 0;
            (0..self.groups.len()).filter(|&index| is_ready(&self.groups[index])).collect()
        };
        let parts = ready(self.current & alone);
        let apart = ready(alone & !self.yielded);
        let index = match (parts.as_slice(), apart.as_slice()) {
            ([_, ..], _) => any_of(&parts, order)?,
            ([], [.., last]) => *last,
            ([], []) => any_of(&ready(alone), order)?,
        };
        let threads = self.groups[index].threads;
        if parts.len() > 1 {
            // Move the other parts of the split group to the end, so that they run next (the list is used as a stack).
            let split = self.current;
            self.groups.sort_by_key(|group| group.wait.is_none() && group.threads & split != 0 && group.threads != threads);
        }
        self.current = threads;
        self.yielded &= !threads;
        self.groups.iter().position(|group| group.threads == threads)
    }

    /// Releases the threads at the convergence barrier that was reached last. Called if no group can run, or if all groups that can run have yielded.
    fn break_deadlock(&mut self) {
        let last = self.groups.iter().rev().find_map(|group| match group.wait {
            Some(GroupWait::Convergence(barrier)) => Some(barrier),
            _ => None,
        });
        if let Some(barrier) = last {
            let wait = GroupWait::Convergence(barrier);
            self.warp.barriers.clear(barrier);
            self.release_threads(wait, self.waiting(wait));
        }
    }

    /// Makes threads of a group yield. The group's program counter is already after the instruction.
    pub fn yield_threads(&mut self, index: usize, threads: Mask) {
        let group = self.groups.remove(index);
        self.groups.push(group);
        self.current = 0;
        self.yielded |= threads;
        self.release();
        if self.groups.iter().all(|group| group.wait.is_some() || group.threads & !self.yielded == 0) {
            self.break_deadlock();
        }
    }

    /// Removes threads from a group; removes the group if it becomes empty.
    pub fn take(&mut self, index: usize, threads: Mask) {
        self.groups[index].threads &= !threads;
        if self.groups[index].threads == 0 {
            self.groups.remove(index);
        }
    }

    /// Moves threads of a group to another instruction, as a new group if others stay.
    pub fn send(&mut self, index: usize, threads: Mask, step: u32) {
        if threads == self.groups[index].threads {
            self.groups[index].step = step;
        } else if threads != 0 {
            self.groups[index].threads &= !threads;
            self.groups.push(ThreadGroup { step, threads, wait: None });
        }
    }

    /// Makes threads of a group wait for others of their warp. The group's program counter is already after the instruction.
    pub fn wait_at(&mut self, index: usize, threads: Mask, wait: GroupWait) {
        if threads == 0 {
            return;
        }
        let step = self.groups[index].step;
        self.take(index, threads);
        self.groups.push(ThreadGroup { step, threads, wait: Some(wait) });
        self.release();
    }

    /// Ends a collective operation: sends each thread to its own continuation.
    pub fn disperse(&mut self, index: usize, threads: Mask) {
        self.take(index, threads);
        let mut rest = threads;
        while rest != 0 {
            let step = self.after_collection[first(rest)];
            let same = lanes_of(rest).filter(|&lane| self.after_collection[lane] == step).fold(0, |mask, lane| mask | 1 << lane);
            rest &= !same;
            self.groups.push(ThreadGroup { step, threads: same, wait: None });
        }
    }

    /// Returns the threads that wait for an event.
    fn waiting(&self, wait: GroupWait) -> Mask {
        self.groups.iter().filter(|group| group.wait == Some(wait)).fold(0, |mask, group| mask | group.threads)
    }

    /// Releases all threads whose wait within the warp is over.
    pub fn release(&mut self) {
        self.release_gathered();
        self.release_collected();
        let elsewhere = self.exited | self.yielded | self.waiting(GroupWait::WarpSync) | self.waiting(GroupWait::Collective);
        for barrier in 0..BARRIERS {
            let wait = GroupWait::Convergence(barrier);
            let free = self.warp.barriers.complete(barrier, self.waiting(wait), elsewhere);
            if free != 0 {
                self.warp.barriers.clear(barrier);
                self.release_threads(wait, free);
            }
        }
    }

    /// Merges threads into one group that continues at `step`.
    fn go_on_together(&mut self, threads: Mask, step: u32) {
        self.groups.iter_mut().for_each(|group| group.threads &= !threads);
        self.groups.retain(|group| group.threads != 0);
        self.groups.push(ThreadGroup { step, threads, wait: None });
    }

    /// Releases threads at the same `WARPSYNC` with equal masks once all threads of the mask have arrived.
    fn release_gathered(&mut self) {
        let groups: Vec<ThreadGroup> = self.groups.iter().filter(|group| group.wait == Some(GroupWait::WarpSync)).copied().collect();
        let mut free = 0;
        for group in &groups {
            let here = groups.iter().filter(|other| other.step == group.step).fold(0, |mask, other| mask | other.threads);
            let is_complete = |lane: &usize| {
                let members = self.wanted[*lane] & !self.exited;
                members & !here == 0 && lanes_of(members).all(|other| self.wanted[other] == self.wanted[*lane])
            };
            free |= lanes_of(group.threads).filter(is_complete).fold(0, |mask, lane| mask | 1 << lane);
        }
        // After `WARPSYNC.EXCLUSIVE` only the threads of one mask are active together.
        let mut apart = free & self.separate;
        while apart != 0 {
            let members = self.wanted[first(apart)] & apart;
            self.release_threads(GroupWait::WarpSync, members);
            apart &= !members;
        }
        if free & !self.separate != 0 {
            self.release_threads(GroupWait::WarpSync, free & !self.separate);
        }
    }

    /// Releases threads at `WARPSYNC.COLLECTIVE`, at any instructions, once all threads of the mask have arrived; all continue at the
    /// instruction of the lowest one.
    fn release_collected(&mut self) {
        let waiting = self.waiting(GroupWait::Collective);
        let is_complete = |lane: &usize| self.wanted[*lane] & !self.exited & !waiting == 0;
        let Some(lane) = lanes_of(waiting).find(is_complete) else { return };
        let free = self.wanted[lane] & waiting;
        let Some(step) = self.groups.iter().find(|group| group.threads >> first(free) & 1 == 1).map(|group| group.step) else { return };
        self.go_on_together(free, step);
    }

    /// Releases the threads of `free` from a wait; those at the same instruction become one group.
    fn release_threads(&mut self, wait: GroupWait, free: Mask) {
        let mut released: Vec<ThreadGroup> = Vec::new();
        for group in self.groups.iter_mut().filter(|group| group.wait == Some(wait)) {
            let threads = group.threads & free;
            group.threads &= !free;
            match released.iter_mut().find(|other| other.step == group.step) {
                Some(other) => other.threads |= threads,
                None => released.push(ThreadGroup { step: group.step, threads, wait: None }),
            }
        }
        self.groups.retain(|group| group.threads != 0);
        self.groups.extend(released.into_iter().filter(|group| group.threads != 0));
    }
}

/// Returns the first element, or a random one in a random order.
fn any_of(groups: &[usize], order: &mut TurnOrder) -> Option<usize> {
    if order.is_random() && !groups.is_empty() { Some(groups[order.choose(groups.len())]) } else { groups.first().copied() }
}
