//! Thread masks of a warp, and the time each thread has spent paused while other threads of a divergent warp ran.
//!
//! When a warp diverges, its groups of threads run in turn. The cycles that one group spends while another is paused must not count as
//! elapsed latency for the paused group: the hardware may interleave the groups in a different order. So the age of an access in flight
//! excludes the time during which its threads were paused.
//!
//! Example: group A issues a load's address computation in cycle 10 and pauses in cycle 12. Group B runs until cycle 30, then A continues.
//! In cycle 31 the computation has an age of 3 cycles for A: 31 - 10 = 21, minus a pause of 18.

/// One bit for each thread of a warp.
pub type Mask = u32;

/// All threads of a warp.
pub(super) const ALL: Mask = !0;

/// Number of threads in a warp.
const LANES: usize = 32;

/// Accumulated pauses of each thread. Costs nothing while the same group of threads runs.
#[derive(Debug)]
pub(super) struct Pauses {
    /// Threads that currently run.
    group: Mask,
    /// For each thread the cycle in which it was last paused.
    left: [i64; LANES],
    /// Accumulated pause in cycles per thread, one snapshot for each change of the group; instructions in flight hold the index of theirs.
    totals: Vec<[i64; LANES]>,
}

impl Pauses {
    pub fn new() -> Self {
        Pauses { group: ALL, left: [0; LANES], totals: vec![[0; LANES]] }
    }

    /// Forgets all pauses: every thread runs from cycle 0 on.
    pub fn clear(&mut self) {
        *self = Pauses::new();
    }

    /// Returns the index of the current snapshot.
    pub fn current(&self) -> u32 {
        self.totals.len() as u32 - 1
    }

    /// Records that the threads of `group` run from cycle `now` on.
    #[inline]
    pub fn resume(&mut self, group: Mask, now: i64) {
        if group != self.group {
            self.change(group, now);
        }
    }

    /// Switches to another group: threads that stop are paused from `now` on; for threads that resume, the pause is added to their total.
    fn change(&mut self, group: Mask, now: i64) {
        let mut totals = self.totals[self.totals.len() - 1];
        for (lane, (left, total)) in self.left.iter_mut().zip(&mut totals).enumerate() {
            if self.group >> lane & 1 == 1 {
                *left = now;
            } else if group >> lane & 1 == 1 {
                *total += now - *left;
            }
        }
        self.group = group;
        self.totals.push(totals);
    }

    /// Returns the age of an access in cycles without pauses, the minimum over `lanes`. `since` is the snapshot at issue, `cycles` the time
    /// since.
    #[inline]
    pub fn age(&self, since: u32, cycles: i64, lanes: Mask) -> i64 {
        if since == self.current() {
            return cycles;
        }
        let (then, now) = (&self.totals[since as usize], &self.totals[self.totals.len() - 1]);
        let paused = (0..LANES).filter(|lane| lanes >> lane & 1 == 1).map(|lane| now[lane] - then[lane]).max();
        cycles - paused.unwrap_or(0)
    }

    /// Removes the snapshots before an index; returns the number by which the remaining indices decrease.
    pub fn forget(&mut self, before: u32) -> u32 {
        self.totals.drain(..before as usize);
        before
    }
}
