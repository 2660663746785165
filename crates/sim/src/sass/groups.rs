//! The threads of a warp that are at different places: who runs, who waits, who goes on.
//!
//! A group is threads at the same place, which execute together. One group of a warp runs until it waits, ends or gives way
//! (`YIELD`, `NANOSLEEP`); then another one does. Where a branch splits the group that runs, one part runs first and the other waits for its turn.
//! So it is on an H200: half a warp that counts to 200 before it comes to the others is not interrupted, and threads that spin without
//! giving way keep those that they wait for from running. What functions do with convergence barriers relies on it (see [`super::convergence`]).
//! The part that does not branch ran first in all experiments; here it does in the fixed order, and [`Order`] chooses one at random. Which
//! group follows one that waits was not measured: it is the one that parted from others last, as on a stack, and those that gave way come
//! after all others.
//!
//! `BSYNC` does not wait for threads that have given way and not run since, nor for those at a `WARPSYNC` (both measured on an H200).

use super::convergence::BARRIERS;
use super::warp::{LANES, Lanes, Mask, Warp, first, lanes_of};

/// Threads of a warp at one place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub step: u32,
    pub threads: Mask,
    pub wait: Option<Wait>,
}

/// What threads wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// At a convergence barrier.
    Convergence(usize),
    /// At `WARPSYNC`.
    Gather,
    /// At a barrier of the block.
    Block(usize),
    /// At `WARPSYNC.COLLECTIVE`.
    Collection,
}

/// Who is next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    /// The state of a random generator; 0 for a fixed order.
    state: u64,
}

impl Order {
    /// The order that a seed stands for.
    pub fn new(seed: u64) -> Order {
        Order { state: if seed == 0 { 0 } else { seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 } }
    }

    pub fn is_random(self) -> bool {
        self.state != 0
    }

    /// A number below `count`.
    pub fn choose(&mut self, count: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 32) as usize % count.max(1)
    }
}

/// A warp and where its threads are.
pub(super) struct Running {
    pub warp: Warp,
    /// Those that have waited for their turn longest come first.
    pub groups: Vec<Group>,
    pub exited: Mask,
    /// Threads of the group that runs, or of its parts.
    current: Mask,
    /// Threads that have given way to others and not run since.
    yielded: Mask,
    /// Threads that run alone.
    pub exclusive: Mask,
    /// Whom threads at `WARPSYNC` wait for.
    pub wanted: Lanes,
    /// Where threads at `WARPSYNC.COLLECTIVE` go in the end.
    pub after_collection: [u32; LANES],
}

impl Running {
    pub fn new(warp: Warp, entry: u32) -> Running {
        let threads = warp.identity.threads;
        Running {
            warp,
            groups: vec![Group { step: entry, threads, wait: None }],
            exited: !threads,
            current: 0,
            yielded: 0,
            exclusive: 0,
            wanted: [0; LANES],
            after_collection: [0; LANES],
        }
    }

    /// Lets the next group run: the one that does already, or a part of it, unless it waits, has ended or given way; then the one that
    /// parted from others last; then those that gave way, in turn.
    pub fn next(&mut self, order: &mut Order) -> Option<usize> {
        if self.groups.iter().all(|group| group.wait.is_some()) {
            self.break_circle();
        }
        let alone = if self.exclusive != 0 { self.exclusive } else { !0 };
        let ready = |among: Mask| -> Vec<usize> {
            let is_ready = |group: &Group| group.wait.is_none() && group.threads & among != 0;
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
            // The other parts are next.
            let split = self.current;
            self.groups.sort_by_key(|group| group.wait.is_none() && group.threads & split != 0 && group.threads != threads);
        }
        self.current = threads;
        self.yielded &= !threads;
        self.groups.iter().position(|group| group.threads == threads)
    }

    /// Where nobody can run, those go on that came to a convergence barrier last.
    fn break_circle(&mut self) {
        let last = self.groups.iter().rev().find_map(|group| match group.wait {
            Some(Wait::Convergence(barrier)) => Some(barrier),
            _ => None,
        });
        if let Some(barrier) = last {
            let wait = Wait::Convergence(barrier);
            self.warp.barriers.clear(barrier);
            self.set_free(wait, self.waiting(wait));
        }
    }

    /// Threads of a group, which is behind the instruction already, let others run.
    pub fn give_way(&mut self, index: usize, threads: Mask) {
        let group = self.groups.remove(index);
        self.groups.push(group);
        self.current = 0;
        self.yielded |= threads;
        self.release();
    }

    /// Removes threads from a group.
    pub fn take(&mut self, index: usize, threads: Mask) {
        self.groups[index].threads &= !threads;
        if self.groups[index].threads == 0 {
            self.groups.remove(index);
        }
    }

    /// Sends threads of a group to a step.
    pub fn send(&mut self, index: usize, threads: Mask, step: u32) {
        if threads == self.groups[index].threads {
            self.groups[index].step = step;
        } else if threads != 0 {
            self.groups[index].threads &= !threads;
            self.groups.push(Group { step, threads, wait: None });
        }
    }

    /// Lets threads of a group, which is behind the instruction already, wait for others of their warp.
    pub fn wait_at(&mut self, index: usize, threads: Mask, wait: Wait) {
        if threads == 0 {
            return;
        }
        let step = self.groups[index].step;
        self.take(index, threads);
        self.groups.push(Group { step, threads, wait: Some(wait) });
        self.release();
    }

    /// Sends threads behind their collective operations.
    pub fn disperse(&mut self, index: usize, threads: Mask) {
        self.take(index, threads);
        let mut rest = threads;
        while rest != 0 {
            let step = self.after_collection[first(rest)];
            let same = lanes_of(rest).filter(|&lane| self.after_collection[lane] == step).fold(0, |mask, lane| mask | 1 << lane);
            rest &= !same;
            self.groups.push(Group { step, threads: same, wait: None });
        }
    }

    /// The threads that wait for something.
    fn waiting(&self, wait: Wait) -> Mask {
        self.groups.iter().filter(|group| group.wait == Some(wait)).fold(0, |mask, group| mask | group.threads)
    }

    /// Lets every thread go on that waits for others of its warp and need not.
    pub fn release(&mut self) {
        self.release_gathered();
        self.release_collected();
        let elsewhere = self.exited | self.yielded | self.waiting(Wait::Gather) | self.waiting(Wait::Collection);
        for barrier in 0..BARRIERS {
            let wait = Wait::Convergence(barrier);
            let free = self.warp.barriers.complete(barrier, self.waiting(wait), elsewhere);
            if free != 0 {
                self.warp.barriers.clear(barrier);
                self.set_free(wait, free);
            }
        }
    }

    /// Makes threads one group.
    fn go_on_together(&mut self, threads: Mask, step: u32) {
        self.groups.iter_mut().for_each(|group| group.threads &= !threads);
        self.groups.retain(|group| group.threads != 0);
        self.groups.push(Group { step, threads, wait: None });
    }

    /// Threads that execute the same `WARPSYNC` for the same threads go on once these all do.
    fn release_gathered(&mut self) {
        let groups: Vec<Group> = self.groups.iter().filter(|group| group.wait == Some(Wait::Gather)).copied().collect();
        let mut free = 0;
        for group in &groups {
            let here = groups.iter().filter(|other| other.step == group.step).fold(0, |mask, other| mask | other.threads);
            let is_complete = |lane: &usize| {
                let members = self.wanted[*lane] & !self.exited;
                members & !here == 0 && lanes_of(members).all(|other| self.wanted[other] == self.wanted[*lane])
            };
            free |= lanes_of(group.threads).filter(is_complete).fold(0, |mask, lane| mask | 1 << lane);
        }
        if free != 0 {
            self.set_free(Wait::Gather, free);
        }
    }

    /// Threads that are all at `WARPSYNC.COLLECTIVE` go on at the place of the first.
    fn release_collected(&mut self) {
        let waiting = self.waiting(Wait::Collection);
        let is_complete = |lane: &usize| self.wanted[*lane] & !self.exited & !waiting == 0;
        let Some(lane) = lanes_of(waiting).find(is_complete) else { return };
        let free = self.wanted[lane] & waiting;
        let Some(step) = self.groups.iter().find(|group| group.threads >> first(free) & 1 == 1).map(|group| group.step) else { return };
        self.go_on_together(free, step);
    }

    /// Lets threads go on; those at the same place become one group.
    fn set_free(&mut self, wait: Wait, free: Mask) {
        let mut released: Vec<Group> = Vec::new();
        for group in self.groups.iter_mut().filter(|group| group.wait == Some(wait)) {
            let threads = group.threads & free;
            group.threads &= !free;
            match released.iter_mut().find(|other| other.step == group.step) {
                Some(other) => other.threads |= threads,
                None => released.push(Group { step: group.step, threads, wait: None }),
            }
        }
        self.groups.retain(|group| group.threads != 0);
        self.groups.extend(released.into_iter().filter(|group| group.threads != 0));
    }
}

/// The first, or any in a random order.
fn any_of(groups: &[usize], order: &mut Order) -> Option<usize> {
    if order.is_random() && !groups.is_empty() { Some(groups[order.choose(groups.len())]) } else { groups.first().copied() }
}
