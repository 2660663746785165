//! Which of two candidates goes first.
//!
//! A candidate has eight bits, from the description:
//!
//! | bit | name | set if |
//! |---|---|---|
//! | 7 | yield-related | it is a `YIELD` |
//! | 6 | yield flag | it is control flow or a barrier and the warp has just waited; not for what bits 5 or 4 speak of |
//! | 5 | hot | it starts a long way to memory: global memory, textures, surfaces |
//! | 4 | hot, while that counts | bit 5, until the first such winner of a region or the budget of cold ones is used up |
//! | 3 | same block | always: nothing is taken from other blocks |
//! | 2 | stall-free | its operands are there and its unit is free |
//! | 1 | critical | enough waiters are ready; while waiters are drained, it does not add registers |
//! | 0 | tie | it waits for a scoreboard |
//!
//! They are compared in stages, first difference wins: registers above the budget; batches; registers one by one where they are scarce or
//! to be saved; bits 4, 6, 1, 2, 5; then the tie-breakers in the order of [`Reason`].
//!
//! **Departures.** The description lets a candidate win whose registers would overflow, which cannot be meant: here it loses. Its order of
//! register vectors is the first criterion on some machines; here when registers are to be saved or 15/16 of the budget are in
//! use. Its last resort, the higher position, is the lower one here: scheduling goes forward.

use oriole_isa::{Effect as Property, Opcode};

use super::super::{Budget, Mode, Reason};
use crate::code::{AccessKind, Effect, Item, Space};
use crate::pressure::Counts;

/// Waits for no scoreboard.
pub const NO_GROUP: u32 = u32::MAX;
/// Waiters whose time comes this much later than that of the first are far from ready.
const CUTOFF_CYCLES: u32 = 9;
/// Waiters that the table of depths holds.
const TABLE: usize = 32;

const YIELD_RELATED: u8 = 1 << 7;
const YIELD_FLAG: u8 = 1 << 6;
const HOT: u8 = 1 << 5;
const HOT_COUNTS: u8 = 1 << 4;
const SAME_BLOCK: u8 = 1 << 3;
const STALL_FREE: u8 = 1 << 2;
const CRITICAL: u8 = 1 << 1;
const TIE: u8 = 1;

/// How far away the memory is that an instruction reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Temperature {
    /// Far.
    Hot,
    /// Near.
    Cold,
    /// It reads none.
    None,
}

/// A ready instruction with what is compared.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// Its node.
    pub node: u32,
    /// The eight bits.
    pub byte: u8,
    /// Some class of registers would not suffice.
    pub overflow: bool,
    /// How live registers change.
    pub change: Counts,
    pub(super) temperature: Temperature,
    pub(super) hot_cold_active: bool,
    pub(super) is_yield: bool,
    pub(super) yield_flag: bool,
    pub(super) is_shared: bool,
    pub(super) continues_batch: bool,
    pub(super) stall_free: bool,
    /// The number of the scoreboard that it waits for.
    pub barrier_group: u32,
    /// Cycles until its operands are there.
    pub latency_counter: u32,
    /// How much it disturbs.
    pub contention: i32,
    /// Cycles until it can be issued.
    pub cost: u32,
    /// The cycle in which its operands are there.
    pub earliest: u32,
    /// Cycles from here to the end.
    pub height: u32,
    /// Cycles from the start to here.
    pub depth: u32,
    /// The cycle in which it must be issued if nothing is to take longer.
    pub deadline: u32,
}

impl Candidate {
    pub(super) fn is_barrier_target(&self) -> bool {
        self.barrier_group != NO_GROUP
    }

    pub(super) fn has_hot_flag(&self) -> bool {
        self.byte & HOT_COUNTS != 0
    }

    /// Works out the eight bits.
    pub(super) fn pack(&mut self, context: &Context, statistics: &Statistics) {
        let is_hot = self.temperature == Temperature::Hot;
        let hot_counts = is_hot && self.hot_cold_active && !self.overflow;
        let critical =
            if context.counting_down { self.is_barrier_target() && self.stall_free && self.change[0] <= 0 } else { context.critical };
        let stall_free = self.stall_free || statistics.preferred == Some(self.node);
        let bits = [
            (YIELD_RELATED, self.is_yield),
            (YIELD_FLAG, self.yield_flag && !is_hot),
            (HOT, is_hot),
            (HOT_COUNTS, hot_counts),
            (SAME_BLOCK, true),
            (STALL_FREE, stall_free),
            (CRITICAL, critical),
            (TIE, self.is_barrier_target()),
        ];
        self.byte = bits.into_iter().filter(|bit| bit.1).fold(0, |byte, (bit, _)| byte | bit);
    }
}

/// What is found by a look at all candidates before they are compared.
#[derive(Clone, Copy, Default, Debug)]
pub struct Statistics {
    /// Candidates that access shared memory.
    pub shared_memory: u32,
    /// Registers that candidates would free.
    pub freed: i32,
    /// Registers that candidates would take.
    pub taken: i32,
    /// The same, of those whose time is near.
    pub taken_near: i32,
    /// Candidates that wait for a scoreboard.
    pub barrier_targets: usize,
    /// Those of them whose time is near.
    pub within_cutoff: usize,
    /// How many of them make the critical path count.
    pub depth_threshold: usize,
    /// The fewest cycles that one of them has to wait.
    pub shortest_wait: u32,
    /// The most cycles that depend on a candidate.
    pub longest_height: u32,
    /// The most cycles that a candidate depends on.
    pub longest_depth: u32,
    /// Whether one can be issued at once.
    pub any_stall_free: bool,
    /// Where none can, the one to wait for.
    pub preferred: Option<u32>,
}

impl Statistics {
    pub(super) fn gather(candidates: &[Candidate], budget: &Budget, queue_depth: usize) -> Statistics {
        let mut found = Statistics { shortest_wait: u32::MAX, depth_threshold: queue_depth, ..Statistics::default() };
        let mut waits = [u32::MAX; TABLE];
        for candidate in candidates {
            found.shared_memory += u32::from(candidate.is_shared);
            found.freed += candidate.change[0].min(0);
            found.taken += candidate.change[0].max(0);
            found.longest_height = found.longest_height.max(candidate.height);
            found.longest_depth = found.longest_depth.max(candidate.depth);
            found.any_stall_free |= candidate.stall_free;
            if candidate.is_barrier_target() {
                if found.barrier_targets < TABLE {
                    waits[found.barrier_targets] = candidate.latency_counter;
                }
                found.barrier_targets += 1;
                found.shortest_wait = found.shortest_wait.min(candidate.latency_counter);
            }
        }
        let cutoff = found.shortest_wait.saturating_add(CUTOFF_CYCLES);
        found.within_cutoff = waits[..found.barrier_targets.min(TABLE)].iter().filter(|&&wait| wait <= cutoff).count();
        let near = candidates.iter().filter(|candidate| candidate.latency_counter <= cutoff);
        found.taken_near = near.map(|candidate| candidate.change[0].max(0)).sum();
        if found.taken_near > budget.registers[0] {
            found.depth_threshold = queue_depth / 2;
        }
        if !found.any_stall_free {
            // Of those that must be waited for, the one that comes first; the longer way breaks ties.
            let first = candidates.iter().min_by_key(|candidate| (candidate.earliest, std::cmp::Reverse(candidate.height), candidate.node));
            found.preferred = first.map(|candidate| candidate.node);
        }
        found
    }
}

/// What is the same for all candidates of a step.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// The mode.
    pub mode: Mode,
    /// Registers are scarce.
    pub is_tight: bool,
    /// Waiters are drained.
    pub counting_down: bool,
    /// Enough waiters are ready.
    pub critical: bool,
    /// Bit 7 takes part.
    pub compares_yields: bool,
}

/// Whether the first goes before the second, and why.
pub(super) fn beats(first: &Candidate, second: &Candidate, context: &Context) -> (bool, Reason) {
    if first.overflow != second.overflow {
        return (second.overflow, Reason::PressureOverflow);
    }
    if first.overflow && first.change != second.change {
        return (first.change < second.change, Reason::PressureOverflow);
    }
    if first.continues_batch != second.continues_batch && context.mode == Mode::DynBatch {
        return (first.continues_batch, Reason::Batch);
    }
    let saves = context.mode == Mode::ReduceReg || context.is_tight;
    if saves && first.change != second.change {
        return (first.change < second.change, Reason::Registers);
    }
    let differs = first.byte ^ second.byte;
    let checked = [
        (HOT_COUNTS, Reason::HotCounts),
        (YIELD_FLAG, Reason::YieldFlag),
        (CRITICAL, Reason::Critical),
        (STALL_FREE, Reason::StallFree),
        (HOT, Reason::Hot),
    ];
    if let Some((bit, reason)) = checked.into_iter().find(|(bit, _)| differs & bit != 0) {
        return (first.byte & bit != 0, reason);
    }
    break_tie(first, second, differs, context)
}

fn break_tie(first: &Candidate, second: &Candidate, differs: u8, context: &Context) -> (bool, Reason) {
    if first.is_barrier_target() && second.is_barrier_target() && first.barrier_group != second.barrier_group {
        return (first.barrier_group < second.barrier_group, Reason::BarrierGroup);
    }
    if first.latency_counter != second.latency_counter {
        return (first.latency_counter < second.latency_counter, Reason::LatencyCounter);
    }
    if context.compares_yields && differs & YIELD_RELATED != 0 {
        return (first.byte & YIELD_RELATED != 0, Reason::YieldRelated);
    }
    if first.contention != second.contention {
        return (first.contention < second.contention, Reason::Contention);
    }
    if first.cost != second.cost {
        return (first.cost < second.cost, Reason::Cost);
    }
    // What came long ago and what came just now are equally there.
    let (first_earliest, second_earliest) =
        (first.earliest * u32::from(!first.stall_free), second.earliest * u32::from(!second.stall_free));
    if first_earliest != second_earliest {
        return (first_earliest < second_earliest, Reason::EarliestCycle);
    }
    if first.height != second.height {
        return (first.height > second.height, Reason::DependencyCycle);
    }
    if first.deadline != second.deadline {
        return (first.deadline < second.deadline, Reason::Deadline);
    }
    if first.change != second.change {
        return (first.change < second.change, Reason::RegisterDelta);
    }
    (first.node < second.node, Reason::Position)
}

/// How far the memory is that an item reads.
pub(super) fn temperature(item: &Item) -> Temperature {
    let Some(opcode) = item.opcode else { return Temperature::None };
    let reads = matches!(opcode.properties().effect, Property::Reads | Property::Updates);
    match item.effect {
        Effect::Access(access) if reads => match access.space {
            Space::Shared => Temperature::Cold,
            Space::Global | Space::Generic if !matches!(opcode, Opcode::LDC | Opcode::LDCU | Opcode::ULDC) => Temperature::Hot,
            _ => Temperature::Cold,
        },
        Effect::Access(access) if access.space == Space::Shared && access.kind == AccessKind::Write => Temperature::Cold,
        Effect::None if reads => Temperature::Cold,
        _ => Temperature::None,
    }
}

pub(super) fn is_yield(item: &Item) -> bool {
    item.opcode == Some(Opcode::YIELD)
}

/// Control flow and barriers, which have the yield flag.
pub(super) fn is_control(item: &Item) -> bool {
    matches!(item.effect, Effect::Sync)
}

pub(super) fn is_shared(item: &Item) -> bool {
    matches!(item.effect, Effect::Access(access) if access.space == Space::Shared)
}
