//! Threads of a warp, and the time that each of them has spent.
//!
//! When a warp diverges its groups of threads take turns. What one group issues touches only the registers of its own threads, and the
//! time that passes while another group runs cannot be counted on: the hardware may take turns in another order. So a pause of a
//! thread is taken out of the age of everything that it has in flight.

/// One bit for each thread of a warp.
pub type Mask = u32;

/// All threads of a warp.
pub(super) const ALL: Mask = !0;

const LANES: usize = 32;

/// How long each thread was paused. As long as the same threads run nothing is recorded.
#[derive(Debug)]
pub(super) struct Pauses {
    group: Mask,
    /// For each thread when it issued last, stall included.
    left: [i64; LANES],
    /// What pauses add up to, for each thread, at each change of the group; flights name the one of their issue.
    totals: Vec<[i64; LANES]>,
}

impl Pauses {
    pub fn new() -> Self {
        Pauses { group: ALL, left: [0; LANES], totals: vec![[0; LANES]] }
    }

    pub fn clear(&mut self) {
        *self = Pauses::new();
    }

    /// The number of the present totals.
    pub fn current(&self) -> u32 {
        self.totals.len() as u32 - 1
    }

    /// These threads go on at a time.
    #[inline]
    pub fn resume(&mut self, group: Mask, now: i64) {
        if group != self.group {
            self.change(group, now);
        }
    }

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

    /// The least time that one of these threads has not been paused since an issue at the totals of this number.
    #[inline]
    pub fn age(&self, since: u32, cycles: i64, lanes: Mask) -> i64 {
        if since == self.current() {
            return cycles;
        }
        let (then, now) = (&self.totals[since as usize], &self.totals[self.totals.len() - 1]);
        let paused = (0..LANES).filter(|lane| lanes >> lane & 1 == 1).map(|lane| now[lane] - then[lane]).max();
        cycles - paused.unwrap_or(0)
    }

    /// Forgets the totals before this number; what numbers go down by.
    pub fn forget(&mut self, before: u32) -> u32 {
        self.totals.drain(..before as usize);
        before
    }
}
