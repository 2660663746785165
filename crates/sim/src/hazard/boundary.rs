//! The state at a block boundary: what may be in flight there on some path, and how the states of two paths are joined.

use super::HazardRegister;
use super::reuse::{self, CachedRegister};
use super::signals::ScoreboardSets;
use super::step::HazardStep;
use super::track::GROUPS;

/// When the results, or the operand reads, of an instruction in flight are known to be complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pending {
    /// They are complete.
    Done,
    /// Complete when these scoreboards are waited for.
    Until(ScoreboardSets),
}

/// An instruction in flight at a block boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundaryInst {
    /// Index of the instruction.
    pub step: u32,
    /// Minimum number of cycles since its issue, capped at 64 (`MAX_FIXED_LATENCY`).
    pub age: u8,
    pub results: Pending,
    pub reads: Pending,
    /// Position in issue order among the instructions in flight, from 1; 0 if the order is unknown after a merge.
    pub rank: u32,
    /// Whether it is in flight on all paths, so that waiting for it proves that earlier instructions of its in-order group are complete.
    pub in_order_guarantee: bool,
    /// Minimum number of groups of matrix products that have been committed since its issue, its own group included, at most
    /// [`MAX_COMMITS`](super::track::MAX_COMMITS). Groups complete in order, so a wait for fewer pending groups covers the instruction.
    pub commits: u8,
}

impl Pending {
    /// Returns what is still pending after a wait for a scoreboard.
    pub(super) fn after_wait(self, scoreboard: usize) -> Pending {
        match self {
            Pending::Done => Pending::Done,
            Pending::Until(signals) => signals.after_wait(scoreboard).map_or(Pending::Done, Pending::Until),
        }
    }
}

impl BoundaryInst {
    /// Joins the states of one instruction on two paths: the smaller age, and what signals completion on both.
    pub fn merge(self, other: BoundaryInst) -> BoundaryInst {
        let both = |one: Pending, two: Pending| match (one, two) {
            (Pending::Done, other) | (other, Pending::Done) => other,
            (Pending::Until(one), Pending::Until(two)) => Pending::Until(one.merge(two)),
        };
        BoundaryInst {
            step: self.step,
            age: self.age.min(other.age),
            results: both(self.results, other.results),
            reads: both(self.reads, other.reads),
            rank: self.rank,
            in_order_guarantee: self.in_order_guarantee && other.in_order_guarantee,
            commits: self.commits.min(other.commits),
        }
    }
}

/// An access of a general register that is not complete at a fence of matrix products.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpenAccess {
    /// The register.
    pub register: HazardRegister,
    /// The instruction of the access, as its index in the steps.
    pub step: u32,
    /// Whether the instruction writes the register.
    pub is_write: bool,
}

/// The abstract state at a block boundary: everything that may be in flight on some path to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BoundaryState {
    /// Instructions in flight, ascending by index.
    pub in_flight: Vec<BoundaryInst>,
    /// Possible contents of the reuse cache, in ascending order.
    pub kept: Vec<CachedRegister>,
    /// Scoreboards that were set on some path, one bit each.
    pub scoreboards_set: u8,
    /// Accesses of general registers that were not complete at the last fence of matrix products on some path, in ascending order.
    pub open_at_fence: Vec<OpenAccess>,
}

impl BoundaryState {
    /// Joins the states of two paths.
    pub fn merge(&self, other: &BoundaryState) -> BoundaryState {
        BoundaryState {
            in_flight: merge_in_flight(&self.in_flight, &other.in_flight),
            kept: reuse::merge(&self.kept, &other.kept),
            scoreboards_set: self.scoreboards_set | other.scoreboards_set,
            open_at_fence: union(&self.open_at_fence, &other.open_at_fence),
        }
    }
}

/// Returns the union of two sorted lists.
fn union(one: &[OpenAccess], other: &[OpenAccess]) -> Vec<OpenAccess> {
    let mut all = [one, other].concat();
    all.sort_unstable();
    all.dedup();
    all
}

/// Adds to each instruction the scoreboards of later ones in the same in-order group, because waiting for a later one covers it, on
/// whichever path control continues. `carried` must be in issue order.
pub(super) fn share_scoreboards(steps: &[HazardStep], carried: &mut [BoundaryInst]) {
    let (mut results, mut reads) = ([0; GROUPS], [0; GROUPS]);
    for equals in carried.chunk_by_mut(|one, other| one.rank == other.rank).rev() {
        let later = (results, reads);
        for one in equals {
            let step = &steps[one.step as usize];
            let (write, read) = step.sets_scoreboards;
            if let (Pending::Until(signals), Some(group)) = (&mut one.results, step.result_order_group.map(usize::from)) {
                results[group] |= if one.in_order_guarantee { signals.scoreboards() & write } else { 0 };
                *signals = signals.with(later.0[group]);
            }
            if let (Pending::Until(signals), Some(group)) = (&mut one.reads, step.read_order_group.map(usize::from)) {
                reads[group] |= if one.in_order_guarantee { signals.scoreboards() & (write | read) } else { 0 };
                *signals = signals.with(later.1[group]);
            }
        }
    }
}

/// Joins two lists of instructions in flight, both ascending by index. If both lists agree on the issue order of their common
/// instructions, the ranks of the result agree with both; otherwise all ranks become 0 and no instruction has the in-order guarantee.
///
/// An instruction of one list only is ranked among the common ones as on its own path. In the example, a wait for `A` must not count as a
/// wait for `B`, which was issued after `A`:
///
/// ```text
/// path one:  A in flight              A has rank 1
/// path two:  A, then B in flight      A has rank 1, B has rank 2
/// ```
fn merge_in_flight(one: &[BoundaryInst], two: &[BoundaryInst]) -> Vec<BoundaryInst> {
    let mut merged: Vec<BoundaryInst> = Vec::with_capacity(one.len().max(two.len()));
    let (mut at, mut other) = (0, 0);
    // Ranks in both lists of the common instructions, and the positions in `merged` of those that are in `two` only.
    let (mut common, mut added) = (Vec::new(), Vec::new());
    while at < one.len() || other < two.len() {
        match (one.get(at), two.get(other)) {
            (Some(&first), Some(&second)) if first.step == second.step => {
                common.push((first.rank, second.rank));
                merged.push(first.merge(second));
                at += 1;
                other += 1;
            }
            (Some(&first), second) if second.is_none_or(|second| first.step < second.step) => {
                merged.push(BoundaryInst { in_order_guarantee: false, ..first });
                at += 1;
            }
            (_, Some(&second)) => {
                added.push(merged.len());
                merged.push(BoundaryInst { in_order_guarantee: false, ..second });
                other += 1;
            }
            (_, None) => break,
        }
    }
    common.sort_unstable();
    if !common.is_sorted_by_key(|&(_, second)| second) || common.iter().any(|&(first, second)| first == 0 || second == 0) {
        for one in &mut merged {
            (one.rank, one.in_order_guarantee) = (0, false);
        }
    } else if !added.is_empty() {
        rank_added(&mut merged, &common, &added);
    }
    merged
}

/// Gives new ranks to a joined list, so that the instructions at the positions `added`, which have the ranks of the second list, come in
/// between the others. `common` has the ranks in both lists of the instructions that both have, in issue order.
fn rank_added(merged: &mut [BoundaryInst], common: &[(u32, u32)], added: &[usize]) {
    // The place of an instruction is the number of common instructions before it. A common instruction follows those of its own place.
    let keys: Vec<(usize, bool, u32)> = (0..merged.len())
        .map(|position| {
            let rank = merged[position].rank;
            if added.binary_search(&position).is_ok() {
                return (common.partition_point(|&(_, second)| second < rank), false, rank);
            }
            let place = common.partition_point(|&(first, _)| first < rank);
            let is_common = common.get(place).is_some_and(|&(first, _)| first == rank);
            (place, is_common, if is_common { 0 } else { rank })
        })
        .collect();
    let mut order = keys.clone();
    order.sort_unstable();
    order.dedup();
    for (one, key) in merged.iter_mut().zip(keys) {
        // Rank 0 stays: it says that the order among the oldest instructions is unknown.
        if one.rank != 0 {
            one.rank = 1 + order.partition_point(|&other| other < key) as u32;
        }
    }
}
