//! The priority of backend A: compares two candidates of the ready list.
//!
//! Each candidate has an eight-bit priority, from the description of ptxas:
//!
//! | bit | name | set if |
//! |---|---|---|
//! | 7 | yield-related | the candidate is a `YIELD` |
//! | 6 | yield flag | it is control flow or a barrier, and an instruction has stalled since the last such item; never together with bit 5 |
//! | 5 | hot | it reads long-latency memory: global memory, textures, surfaces |
//! | 4 | hot counts | bit 5 and no register excess; off after the first winner with it, or after `hot-cold-budget` short-latency accesses |
//! | 3 | same block | always: instructions do not move between blocks |
//! | 2 | stall-free | its operands are available and its unit is free; or, if that holds for no candidate, it is the one to wait for |
//! | 1 | critical | enough readers of in-flight results are ready; while these issue back to back: it is one, stall-free, and takes no register |
//! | 0 | tie | it reads an in-flight result, so it waits for a scoreboard |
//!
//! Criteria are compared in this order, and the first difference decides:
//!
//! 1. exceeding the register budget; if both candidates exceed it, the change of live registers;
//! 2. continuing a batch of matrix products (`dyn-batch` only);
//! 3. change of live registers, if registers are scarce or the mode is `reduce-reg`;
//! 4. bits 4, 6, 1, 2, 5;
//! 5. the tie-breakers of [`break_tie`]; the last one is the original order, so the result is deterministic.
//!
//! Example: mode `ilp`, registers plentiful. The candidates are two global loads L1 and L2 whose addresses arrive in 5 cycles, and an
//! addition F whose operands are available. The memory unit accepts one load per cycle:
//!
//! ```text
//! step  L1         L2         F          decided by
//! 1     0011_1000  0011_1000  0000_1100  bit 4: a load wins and stalls for 5 cycles; L1, by the original order
//! 2     -          0010_1100  0000_1100  bit 5: L2. Bit 4 is off since L1 won with it. After the stall, both are stall-free
//! ```
//!
//! If the address of L2 were still in flight at step 2, its priority would be `0010_1000`; bit 2, compared before bit 5, would select F.
//! So only the first long-latency load of a region is worth a stall.
//!
//! **Departures from the description.** There, a candidate that exceeds the register budget wins, which would make the excess worse; here
//! it loses. There, the change of live registers is the first criterion on some machines; here, in `reduce-reg` and when
//! more than 15/16 of the budget is in use. There, the higher position is the last criterion; here it is the lower one, because
//! scheduling is forward.

use std::cmp::Ordering;

use oriole_isa::{Effect, Opcode};

use super::super::reason::Reason;
use super::super::settings::{Budget, ScheduleMode};
use crate::code::{AliasSpace, Item, MemAccessKind, OrderEffect};
use crate::pressure::PressureCounts;

/// The scoreboard sequence number that stands for "reads no result in flight".
pub(super) const NO_SCOREBOARD_SEQUENCE: u32 = u32::MAX;
/// The operands of a reader of in-flight results count as arriving soon if they arrive at most this number of cycles after those of the
/// first such reader.
const SOON_ARRIVAL_CYCLES: u32 = 9;
/// Maximum number of readers of in-flight results per step for which [`SOON_ARRIVAL_CYCLES`] is tested, from the published description of
/// ptxas.
const MAX_COMPARED_READERS: usize = 32;

// Bits of the eight-bit priority of a candidate. The table in the module comment says when each bit is set.
const YIELD_RELATED_BIT: u8 = 1 << 7;
const YIELD_FLAG_BIT: u8 = 1 << 6;
const HOT_MEMORY_BIT: u8 = 1 << 5;
const HOT_COUNTS_BIT: u8 = 1 << 4;
const SAME_BLOCK_BIT: u8 = 1 << 3;
const STALL_FREE_BIT: u8 = 1 << 2;
const CRITICAL_BIT: u8 = 1 << 1;
const TIE_BIT: u8 = 1;

/// Whether an instruction accesses memory of long or of short latency.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MemoryLatency {
    /// Long latency: global memory, textures, surfaces.
    Long,
    /// Short latency: shared, local and constant memory.
    Short,
    /// No memory access, or one that does not count; see [`memory_latency`].
    None,
}

/// A ready instruction, with all measurements that the comparison uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct RankedCandidate {
    /// Node of the candidate in the dependency graph.
    pub node: u32,
    /// The eight priority bits (table in the module comment); 0 until [`RankedCandidate::compute_priority_bits`] computes them.
    pub priority_bits: u8,
    /// Whether the candidate takes registers of a class whose budget is exceeded after it issues.
    pub exceeds_budget: bool,
    /// Change of the number of live registers of each class if the candidate issues.
    pub pressure_change: PressureCounts,
    /// Whether the memory that the candidate accesses has a long or a short latency.
    pub(super) memory_latency: MemoryLatency,
    /// Whether bit 4 of the priority (`hot counts`: prefer long-latency memory reads) is in use at this step.
    pub(super) hot_cold_active: bool,
    /// Whether the candidate is a `YIELD`.
    pub(super) is_yield: bool,
    /// Bit 6 of the priority: whether the candidate is control flow or a barrier, and an instruction has stalled since the last such item,
    /// so that other warps should get the issue slot.
    pub(super) yield_flag: bool,
    /// Whether the candidate accesses shared memory.
    pub(super) accesses_shared_memory: bool,
    /// Whether the candidate belongs to the current batch of matrix products.
    pub(super) continues_batch: bool,
    /// Bit 2 of the priority: whether the candidate can issue in the current cycle.
    pub(super) stall_free: bool,
    /// Sequence number of the youngest in-flight result that the candidate reads; [`NO_SCOREBOARD_SEQUENCE`] if it reads none.
    pub scoreboard_sequence: u32,
    /// Number of cycles until all operands are available.
    pub operand_wait_cycles: u32,
    /// Sum of three numbers: the cycles until the unit is free; 1 if the candidate needs a scoreboard and none is free; and, if the
    /// candidate takes general registers, twice the number of general registers above the budget after it.
    pub contention_penalty: i32,
    /// Stall cycles before issue: until the operands are available and the unit is free.
    pub stall_cycles: u32,
    /// First cycle in which all operands are available.
    pub earliest: u32,
    /// Critical path from the candidate to the end of the region, in cycles.
    pub height: u32,
    /// Latest issue cycle that does not lengthen the critical path.
    pub deadline: u32,
}

impl RankedCandidate {
    /// Returns whether the candidate reads an in-flight result and so waits for a scoreboard.
    pub(super) fn reads_in_flight(&self) -> bool {
        self.scoreboard_sequence != NO_SCOREBOARD_SEQUENCE
    }

    /// Returns whether bit 4 of the priority (`hot counts`) is set.
    pub(super) fn has_hot_counts_bit(&self) -> bool {
        self.priority_bits & HOT_COUNTS_BIT != 0
    }

    /// Computes the eight priority bits of the candidate, and stores them in `priority_bits`.
    pub(super) fn compute_priority_bits(&mut self, context: &StepContext, statistics: &StepStatistics) {
        let is_hot = self.memory_latency == MemoryLatency::Long;
        let hot_counts = is_hot && self.hot_cold_active && !self.exceeds_budget;
        // While readers issue back to back, bit 1 differs between candidates and selects readers. Otherwise it is the same for all
        // candidates of the step and decides nothing.
        let critical = if context.draining_readers {
            self.reads_in_flight() && self.stall_free && self.pressure_change[0] <= 0
        } else {
            context.enough_readers_ready
        };
        let stall_free = self.stall_free || statistics.candidate_to_wait_for == Some(self.node);
        let bits = [
            (YIELD_RELATED_BIT, self.is_yield),
            (YIELD_FLAG_BIT, self.yield_flag && !is_hot),
            (HOT_MEMORY_BIT, is_hot),
            (HOT_COUNTS_BIT, hot_counts),
            (SAME_BLOCK_BIT, true),
            (STALL_FREE_BIT, stall_free),
            (CRITICAL_BIT, critical),
            (TIE_BIT, self.reads_in_flight()),
        ];
        self.priority_bits = bits.into_iter().filter(|bit| bit.1).fold(0, |priority_bits, (bit, _)| priority_bits | bit);
    }
}

/// Statistics over all candidates of a step, collected before the candidates are compared.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct StepStatistics {
    /// Number of candidates that access shared memory.
    pub shared_memory: u32,
    /// Number of general registers that would be taken by the candidates whose operands arrive at most [`SOON_ARRIVAL_CYCLES`] cycles after
    /// those of the first reader of in-flight results.
    pub registers_taken_soon: i32,
    /// Number of candidates that read in-flight results.
    pub in_flight_readers: usize,
    /// Number of candidates that read in-flight results and whose operands arrive at most [`SOON_ARRIVAL_CYCLES`] cycles after those of the
    /// first such candidate.
    pub within_cutoff: usize,
    /// Minimum number of ready readers of in-flight results for which bit 1 of the priority (`critical`) is set.
    pub min_readers_for_bit_1: usize,
    /// Minimum number of cycles until the operands of a reader of in-flight results arrive; `u32::MAX` if there is no such reader.
    pub shortest_wait: u32,
    /// Whether some candidate can issue in the current cycle.
    pub any_stall_free: bool,
    /// If no candidate can issue in the current cycle, the node of the candidate to wait for.
    pub candidate_to_wait_for: Option<u32>,
}

impl StepStatistics {
    /// Collects the statistics of a step; `queue_depth` is the normal value of [`StepStatistics::min_readers_for_bit_1`].
    pub(super) fn of_candidates(candidates: &[RankedCandidate], budget: &Budget, queue_depth: usize) -> StepStatistics {
        let mut found = StepStatistics { shortest_wait: u32::MAX, min_readers_for_bit_1: queue_depth, ..StepStatistics::default() };
        let mut waits = [u32::MAX; MAX_COMPARED_READERS];
        for candidate in candidates {
            found.shared_memory += u32::from(candidate.accesses_shared_memory);
            found.any_stall_free |= candidate.stall_free;
            if candidate.reads_in_flight() {
                if found.in_flight_readers < MAX_COMPARED_READERS {
                    waits[found.in_flight_readers] = candidate.operand_wait_cycles;
                }
                found.in_flight_readers += 1;
                found.shortest_wait = found.shortest_wait.min(candidate.operand_wait_cycles);
            }
        }
        let cutoff = found.shortest_wait.saturating_add(SOON_ARRIVAL_CYCLES);
        found.within_cutoff = waits[..found.in_flight_readers.min(MAX_COMPARED_READERS)].iter().filter(|&&wait| wait <= cutoff).count();
        let near = candidates.iter().filter(|candidate| candidate.operand_wait_cycles <= cutoff);
        found.registers_taken_soon = near.map(|candidate| candidate.pressure_change[0].max(0)).sum();
        // As in the published description of ptxas: fewer readers suffice to set bit 1 if the candidates would take more registers than the
        // budget has.
        if found.registers_taken_soon > budget.registers[0] {
            found.min_readers_for_bit_1 = queue_depth / 2;
        }
        if !found.any_stall_free {
            // All candidates stall, so the candidate whose operands arrive first is preferred. The longer critical path breaks ties.
            let first = candidates.iter().min_by_key(|candidate| (candidate.earliest, std::cmp::Reverse(candidate.height), candidate.node));
            found.candidate_to_wait_for = first.map(|candidate| candidate.node);
        }
        found
    }
}

/// Facts about a step that are the same for all its candidates.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepContext {
    /// The optimization goal.
    pub mode: ScheduleMode,
    /// Whether the number of live general registers is above the scarcity threshold.
    pub registers_are_scarce: bool,
    /// Whether readers of in-flight results are being issued back to back.
    pub draining_readers: bool,
    /// Whether at least [`StepStatistics::min_readers_for_bit_1`] readers of in-flight results are ready (bit 1 of the priority,
    /// `critical`).
    pub enough_readers_ready: bool,
    /// Whether bit 7 of the priority (candidate is a `YIELD`) is compared, because some candidate accesses shared memory.
    pub uses_yield_criterion: bool,
}

/// Returns whether `first` should be scheduled before `second`, and the comparison that decides.
pub(super) fn beats(first: &RankedCandidate, second: &RankedCandidate, context: &StepContext) -> (bool, Reason) {
    if first.exceeds_budget != second.exceeds_budget {
        return (second.exceeds_budget, Reason::PressureOverflow);
    }
    // Both candidates exceed the budget: the one that takes fewer registers wins. The register classes are compared in their order.
    if first.exceeds_budget
        && let Some(decision) = prefer_lower(first.pressure_change, second.pressure_change, Reason::PressureOverflow)
    {
        return decision;
    }
    if first.continues_batch != second.continues_batch && context.mode == ScheduleMode::DynBatch {
        return (first.continues_batch, Reason::Batch);
    }
    let saves = context.mode == ScheduleMode::ReduceReg || context.registers_are_scarce;
    if saves && let Some(decision) = prefer_lower(first.pressure_change, second.pressure_change, Reason::Registers) {
        return decision;
    }
    let differs = first.priority_bits ^ second.priority_bits;
    let checked = [
        (HOT_COUNTS_BIT, Reason::HotCounts),
        (YIELD_FLAG_BIT, Reason::YieldFlag),
        (CRITICAL_BIT, Reason::Critical),
        (STALL_FREE_BIT, Reason::StallFree),
        (HOT_MEMORY_BIT, Reason::Hot),
    ];
    if let Some((bit, reason)) = checked.into_iter().find(|(bit, _)| differs & bit != 0) {
        return (first.priority_bits & bit != 0, reason);
    }
    break_tie(first, second, differs, context)
}

/// Compares two candidates whose bits 4, 6, 1, 2 and 5 are equal, in the order of comparisons of the published description of ptxas.
/// Returns whether `first` wins, and the deciding comparison.
fn break_tie(first: &RankedCandidate, second: &RankedCandidate, differs: u8, context: &StepContext) -> (bool, Reason) {
    let sequence = |candidate: &RankedCandidate| candidate.scoreboard_sequence;
    let both_read = first.reads_in_flight() && second.reads_in_flight();
    // A stall-free candidate counts as available from cycle 0: it does not matter in which earlier cycle its operands arrived.
    let earliest = |candidate: &RankedCandidate| if candidate.stall_free { 0 } else { candidate.earliest };
    let is_yield = |candidate: &RankedCandidate| candidate.priority_bits & YIELD_RELATED_BIT != 0;
    let uses_yield_criterion = context.uses_yield_criterion && differs & YIELD_RELATED_BIT != 0;
    both_read
        .then(|| prefer_lower(sequence(first), sequence(second), Reason::BarrierGroup))
        .flatten()
        .or_else(|| prefer_lower(first.operand_wait_cycles, second.operand_wait_cycles, Reason::LatencyCounter))
        .or_else(|| uses_yield_criterion.then(|| (is_yield(first), Reason::YieldRelated)))
        .or_else(|| prefer_lower(first.contention_penalty, second.contention_penalty, Reason::Contention))
        .or_else(|| prefer_lower(first.stall_cycles, second.stall_cycles, Reason::Cost))
        .or_else(|| prefer_lower(earliest(first), earliest(second), Reason::EarliestCycle))
        .or_else(|| prefer_lower(second.height, first.height, Reason::DependencyCycle))
        .or_else(|| prefer_lower(first.deadline, second.deadline, Reason::Deadline))
        .or_else(|| prefer_lower(first.pressure_change, second.pressure_change, Reason::RegisterDelta))
        .unwrap_or((first.node < second.node, Reason::Position))
}

/// Returns whether the measure `first` is lower than `second`, together with `reason`; `None` if the measures are equal.
fn prefer_lower<T: Ord>(first: T, second: T, reason: Reason) -> Option<(bool, Reason)> {
    match first.cmp(&second) {
        Ordering::Equal => None,
        different => Some((different == Ordering::Less, reason)),
    }
}

/// Returns whether the memory that an item accesses has a long or a short latency. Atomics count as reads; stores count only if they are to
/// shared memory.
pub(super) fn memory_latency(item: &Item) -> MemoryLatency {
    let Some(opcode) = item.opcode else { return MemoryLatency::None };
    let reads = matches!(opcode.properties().effect, Effect::Reads | Effect::Updates);
    match item.effect {
        OrderEffect::Access(access) if reads => match access.space {
            AliasSpace::Shared => MemoryLatency::Short,
            AliasSpace::Global | AliasSpace::Generic if !matches!(opcode, Opcode::LDC | Opcode::LDCU | Opcode::ULDC) => MemoryLatency::Long,
            _ => MemoryLatency::Short,
        },
        OrderEffect::Access(access) if access.space == AliasSpace::Shared && access.kind == MemAccessKind::Write => MemoryLatency::Short,
        OrderEffect::None if reads => MemoryLatency::Short,
        _ => MemoryLatency::None,
    }
}

/// Returns whether an item is a `YIELD`, which lets other threads of a diverged warp run.
pub(super) fn is_yield(item: &Item) -> bool {
    item.opcode == Some(Opcode::YIELD)
}

/// Returns whether an item is a barrier or control flow inside the region. Such items can have bit 6 of the priority (`yield flag`).
pub(super) fn is_barrier_or_control_flow(item: &Item) -> bool {
    matches!(item.effect, OrderEffect::Barrier | OrderEffect::Sync)
}

/// Returns whether an item accesses shared memory.
pub(super) fn accesses_shared_memory(item: &Item) -> bool {
    matches!(item.effect, OrderEffect::Access(access) if access.space == AliasSpace::Shared)
}
