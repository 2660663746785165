//! Warp aggregation: where all threads of a warp perform an atomic operation on the same address, one thread performs it for all.
//!
//! The memory performs atomic operations on one address one after the other. If the address is the same in all threads of a warp
//! ([`ValuesEqualAcrossThreads`]), the threads combine their operands first, and the *leader*, the active thread with the highest lane
//! number, performs one operation:
//!
//! ```text
//! REDG.E.ADD [%a], %v       becomes      %m, PT = VOTE.ANY PT                  // the active threads
//!                                        %l = FLO.U32 %m                       // the leader
//!                                        %p, PT = ISETP.EQ.U32.AND %lane, %l, PT
//!                                        %s = REDUX.SUM %v                     // or the number of threads times %v
//!                                   @%p  REDG.E.ADD [%a], %s
//! ```
//!
//! Integer operations are combined if the final value in memory does not depend on their order. There are three cases:
//!
//! - **No instruction reads the old value.** A sum of equal operands is the operand times the number of threads. For `AND`, `OR`, `MIN` and
//!   `MAX` of equal operands, one operation has the same effect as many. Other 32-bit operands are combined with `REDUX`.
//! - **The operation adds equal operands, and its old value is read.** The result is as if the threads added in the order of their lane
//!   numbers: the leader's old value is sent to all threads, and each adds the operand times the number of active threads with lower lane
//!   numbers.
//! - **The operation adds different 32-bit operands, and its old value is read or the target has no `REDUX`.** The operands are added up by
//!   shuffles (prefix sums) if all 32 threads take part. If not, each thread performs its own operation.
//!
//! Threads in which the guard of the operation does not hold count as inactive: the vote is over the guard. An operation is not changed if
//! its guard, or the branch to its block, requires that two values are equal, and these differ between threads: it is likely that a single
//! thread performs the operation.
//!
//! The set of active threads must not change between the vote and the last shuffle. It does not, because there is no point in between where
//! threads diverge or reconverge, and the scheduler does not move instructions that exchange data between threads across such points.
//!
//! **Before** and **after**: SSA, legal instructions, no convergence barriers yet. The cost is linear.

use oriole_ir::analysis::{ControlFlow, DefUse};
use oriole_ir::{Block, Class, Function, Guard, Inst, Op, Operand, OperandKind, Part, Pseudo, Role, Target};
use oriole_isa::{Effect, Opcode, RegFile, Symbol};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::dead;
use crate::definitions::Definitions;
use crate::known::OperandFacts;
use crate::rewrite::{InstPrelude, single_register};
use combinable::{AtomicUpdateKind, CombinableAtomic};
use emit::{
    emit_add_from_lower_lane, emit_ballot, emit_equality_test, emit_predicate_definition, emit_select, emit_shuffle, emit_sum,
    guard_as_predicate_operand, new_value_operand,
};
use equal_values::ValuesEqualAcrossThreads;

mod combinable;
mod emit;
mod equal_values;

/// Lane number of the last thread of a warp.
const LAST_LANE: i64 = 31;

/// Number of changes that the pass made to a function.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Number of atomic operations that one thread performs for its warp.
    pub aggregated: usize,
}

/// Performs warp aggregation on a function: where all threads of a warp perform an atomic operation on the same address, one thread
/// performs it for all of them. Returns the number of operations changed.
pub fn run(function: &mut Function, target: Target) -> Stats {
    let mut stats = Stats::default();
    let insts = function.layout.iter().flat_map(|&block| &function.blocks[block].insts);
    if !insts.copied().any(|inst| CombinableAtomic::match_inst(function, inst).is_some()) {
        return stats;
    }
    let flow = ControlFlow::compute(function);
    let equal_values = ValuesEqualAcrossThreads::compute(function, &flow);
    let definitions = Definitions::compute(function);
    let def_use = DefUse::compute(function);
    let mut pass = AtomicAggregator { target, flow, equal_values, definitions, def_use, lane: None, lower_lanes_mask: None };
    for block in function.layout.clone() {
        if pass.flow.is_reachable(block) {
            stats.aggregated += pass.aggregate_atomics_in_block(function, block);
        }
    }
    pass.insert_special_register_reads(function);
    // The instructions that computed the original operands may be dead now.
    if stats.aggregated > 0 {
        dead::run(function, target);
    }
    stats
}

/// How the operands of the participating threads are combined into the one operand of the leader's operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum OperandCombination {
    /// All operands are equal, and applying the operation once has the same effect as applying it for each thread.
    Once,
    /// All operands are equal and the operation adds: the operand is multiplied by the number of threads.
    Product,
    /// The operands are combined by one warp-wide instruction, `REDUX` or `CREDUX`.
    Reduction(Opcode),
    /// The operands are combined by prefix sums, computed with shuffles.
    Prefix,
}

/// Truth table of `a & b` in `LOP3`.
const AND_TABLE: i64 = 0xc0;
/// Number of bits of a lane number.
const LANE_NUMBER_BITS: u32 = 5;

/// The threads of a warp that participate in an atomic operation: active, with a true guard. Computed once for all operations with this
/// guard, as long as the set of active threads does not change.
#[derive(Clone, Copy)]
struct ParticipatingThreads {
    /// Mask of the participating threads: active, with the guard true.
    mask: Operand,
    /// Lane number of the leader.
    leader: Operand,
    /// Predicate: whether this thread is the leader.
    is_leader: Operand,
    /// Number of participating threads; `None` until it is needed.
    count: Option<Operand>,
    /// Number of participating threads with a lower lane number than this one; `None` until it is needed.
    rank: Option<Operand>,
}

/// The prefix sums of one operand over the lanes of a warp, under one guard. Computed once, as long as the set of active threads does not
/// change.
#[derive(Clone, Copy)]
struct LanePrefixSums {
    /// The sum of the operands of the threads up to and including this one.
    prefix_sum: Operand,
    /// Predicate: whether all 32 threads of the warp participate.
    is_full: Operand,
    /// Predicate: whether this thread performs the atomic operation: the last thread if all participate, otherwise every participating
    /// thread.
    performs_atomic: Operand,
    /// The operand of the remaining atomic operation: in the last thread of a full warp the sum of all threads, otherwise the thread's own
    /// operand.
    combined_operand: Operand,
}

/// Values that the atomic operations of a block can share, as long as the set of active threads does not change.
#[derive(Default)]
struct ValuesSharedInBlock {
    /// For each guard, the participating threads.
    participants: FxHashMap<Option<Guard>, ParticipatingThreads>,
    /// For each guard and summand, the prefix sums of the summand.
    prefixes: FxHashMap<(Option<Guard>, OperandKind), LanePrefixSums>,
}

/// State of warp aggregation for one function.
struct AtomicAggregator {
    /// The GPU architecture.
    target: Target,
    /// Predecessors and successors of the blocks.
    flow: ControlFlow,
    /// Which values are the same in all threads that execute an instruction together.
    equal_values: ValuesEqualAcrossThreads,
    /// For each value, the instruction that defines it.
    definitions: Definitions,
    /// For each value, the instructions that read it.
    def_use: DefUse,
    /// The lane number of the thread; `None` until it is needed.
    lane: Option<Operand>,
    /// The mask of the lanes with lower numbers (`SR_LTMASK`); `None` until it is needed.
    lower_lanes_mask: Option<Operand>,
}

impl AtomicAggregator {
    /// Rewrites a block. Returns the number of atomic operations that one thread now performs for its warp.
    fn aggregate_atomics_in_block(&mut self, function: &mut Function, block: Block) -> usize {
        let insts = std::mem::take(&mut function.blocks[block].insts);
        let mut new_insts = Vec::with_capacity(insts.len());
        let mut shared = ValuesSharedInBlock::default();
        let mut count = 0;
        let selects_thread = self.is_likely_run_by_one_thread(function, block);
        for inst in insts {
            // The set of active threads may change at this instruction, so earlier votes are no longer valid.
            if matches!(function.insts[inst].op.effect(), Effect::Barrier | Effect::Control | Effect::Other) {
                shared = ValuesSharedInBlock::default();
            }
            let found = self.match_atomic(function, inst).filter(|_| !selects_thread);
            let Some((atomic, combination)) = found.and_then(|atomic| Some((atomic, self.choose_combination(function, inst, &atomic)?)))
            else {
                new_insts.push(inst);
                continue;
            };
            count += 1;
            if combination == OperandCombination::Prefix {
                self.aggregate_by_prefix_sums(function, inst, &atomic, &mut shared, &mut new_insts);
            } else {
                self.aggregate_by_leader(function, inst, &atomic, combination, &mut shared, &mut new_insts);
            }
        }
        function.blocks[block].insts = new_insts;
        count
    }

    /// Describes an atomic operation like [`CombinableAtomic::match_inst`]. If no instruction reads the result, `old_value` is `None`.
    fn match_atomic(&self, function: &Function, inst: Inst) -> Option<CombinableAtomic> {
        let atomic = CombinableAtomic::match_inst(function, inst)?;
        let old = atomic.old_value.filter(|part| !self.def_use.uses(part.value).is_empty());
        Some(CombinableAtomic { old_value: old, ..atomic })
    }

    /// Returns whether probably only one thread of a warp executes a block, because the branch to the block requires that two values are
    /// equal, and these values differ between threads.
    fn is_likely_run_by_one_thread(&self, function: &Function, block: Block) -> bool {
        let [before] = *self.flow.predecessors(block) else { return false };
        let [first, second] = *function.terminators(before) else { return false };
        let Some(guard) = function.insts[first].guard else { return false };
        let targets = |inst: Inst| function.operands(inst).iter().any(|operand| operand.kind == OperandKind::Block(block));
        match (targets(first), targets(second)) {
            (true, false) => self.likely_selects_one_thread(function, guard),
            (false, true) => self.likely_selects_one_thread(function, Guard { negated: !guard.negated, ..guard }),
            _ => false,
        }
    }

    /// Returns whether a guard probably holds in only one thread of a warp, because it tests for equality, and a tested value differs
    /// between threads.
    fn likely_selects_one_thread(&self, function: &Function, guard: Guard) -> bool {
        let OperandKind::Value(part) = guard.kind else { return false };
        let Some(inst) = self.definitions.definition_of(part.value) else { return false };
        let data = &function.insts[inst];
        let relation = if guard.negated { Symbol::NE } else { Symbol::EQ };
        let is_telling = |source: &Operand| self.equal_values.is_divergent(source) && !self.has_few_distinct_values(function, source);
        data.is_machine(Opcode::ISETP) && data.modifiers.contains(&relation) && function.sources(inst).iter().any(is_telling)
    }

    /// Returns whether several threads of a warp probably have the same value of an operand, because it is the result of an AND with a mask
    /// that has fewer bits than a lane number.
    fn has_few_distinct_values(&self, function: &Function, operand: &Operand) -> bool {
        let Some(inst) = operand.value().and_then(|value| self.definitions.definition_of(value)) else { return false };
        let [_, mask, _, table, ..] = function.sources(inst) else { return false };
        let is_and = function.insts[inst].is_machine(Opcode::LOP3) && table.integer() == Some(AND_TABLE);
        is_and && mask.integer().is_some_and(|mask| (mask as u32).count_ones() < LANE_NUMBER_BITS)
    }

    /// Returns how the operands of an atomic operation are combined across the warp; `None` if each thread keeps performing its own
    /// operation.
    fn choose_combination(&self, function: &Function, inst: Inst, atomic: &CombinableAtomic) -> Option<OperandCombination> {
        let mut address = function.sources(inst).iter().filter(|operand| matches!(operand.role, Role::Bracket(_)));
        let is_equal = |operand: &Operand| self.equal_values.is_equal(operand);
        let has_usable_guard = function.insts[inst].guard.is_none_or(|guard| match guard.kind {
            OperandKind::Value(part) => {
                function.values[part.value].file == RegFile::Predicate && !self.likely_selects_one_thread(function, guard)
            }
            _ => false,
        });
        if !address.all(is_equal) || !has_usable_guard {
            return None;
        }
        let is_read = atomic.old_value.is_some();
        let is_same = is_equal(&atomic.value);
        let is_plain = atomic.old_value.is_none_or(|part| function.whole(part.value) == part);
        match atomic.kind {
            _ if !is_plain => None,
            AtomicUpdateKind::Add if is_same => Some(OperandCombination::Product),
            AtomicUpdateKind::And | AtomicUpdateKind::Or | AtomicUpdateKind::Min | AtomicUpdateKind::Max if is_same && !is_read => {
                Some(OperandCombination::Once)
            }
            _ if atomic.is_wide || (is_read && atomic.kind != AtomicUpdateKind::Add) => None,
            AtomicUpdateKind::Add if is_read => Some(OperandCombination::Prefix),
            AtomicUpdateKind::Min | AtomicUpdateKind::Max if Opcode::CREDUX.exists_on(self.target) => {
                Some(OperandCombination::Reduction(Opcode::CREDUX))
            }
            _ if Opcode::REDUX.exists_on(self.target) => Some(OperandCombination::Reduction(Opcode::REDUX)),
            AtomicUpdateKind::Add => Some(OperandCombination::Prefix),
            _ => None,
        }
    }

    /// Appends instructions that combine the operands of all participating threads, and makes the leader perform the atomic operation
    /// `inst`. If the old value is read, also appends instructions that compute the old value for each thread.
    fn aggregate_by_leader(
        &mut self,
        function: &mut Function,
        inst: Inst,
        atomic: &CombinableAtomic,
        combination: OperandCombination,
        shared: &mut ValuesSharedInBlock,
        new_insts: &mut Vec<Inst>,
    ) {
        let guard = function.insts[inst].guard;
        let mut prelude = InstPrelude::before(function, inst);
        let mut participants = match shared.participants.get(&guard) {
            Some(known) => *known,
            None => self.emit_vote(function, guard, &mut prelude),
        };
        let combined = match combination {
            OperandCombination::Product => {
                let count = *participants
                    .count
                    .get_or_insert_with(|| prelude.emit_definition(function, Class::R, Opcode::POPC, &[], &[participants.mask]));
                self.emit_multiply_add(function, &mut prelude, atomic, count, None)
            }
            OperandCombination::Reduction(opcode) => self.emit_reduction(function, &mut prelude, atomic, guard, opcode),
            OperandCombination::Once | OperandCombination::Prefix => atomic.value,
        };
        let rank = atomic
            .old_value
            .map(|_| *participants.rank.get_or_insert_with(|| self.emit_rank_in_mask(function, &mut prelude, participants.mask)));
        shared.participants.insert(guard, participants);
        new_insts.extend(prelude.insts.iter().copied());
        let old = set_atomic_guard_and_operand(function, inst, atomic, participants.is_leader, combined);
        new_insts.push(inst);
        let (Some(result), Some((old, tied)), Some(rank)) = (atomic.old_value, old, rank) else { return };
        let mut after = InstPrelude::before(function, inst);
        let leader = participants.leader;
        // Threads 1, 4 and 6 add 5 each to 100. Thread 6 leads: it adds 15 and gets the old value 100. The ranks are 0, 1 and 2, so the
        // threads get 100, 105 and 110, as if they had added one after the other.
        let words: SmallVec<[Operand; 2]> =
            (0..result.count).map(|at| emit_shuffle(&mut after, function, single_register(old, at), leader)).collect();
        let base = after.pack(function, RegFile::General, &words);
        let sum = self.emit_multiply_add(function, &mut after, atomic, rank, Some(base));
        define_former_result(function, &mut after, result, sum, guard, tied);
        new_insts.extend(after.insts.iter().copied());
    }

    /// Emits the vote: computes the mask of the participating threads, the lane number of the leader, and whether this thread is the
    /// leader. `count` and `rank` are not computed yet.
    fn emit_vote(&mut self, function: &mut Function, guard: Option<Guard>, prelude: &mut InstPrelude) -> ParticipatingThreads {
        let lane = self.lane(function);
        let mask = emit_ballot(prelude, function, guard);
        let leader = prelude.emit_definition(function, Class::R, Opcode::FLO, &[Symbol::U32], &[mask]);
        let is_leader = emit_equality_test(prelude, function, Symbol::AND, lane, leader, Operand::PT);
        ParticipatingThreads { mask, leader, is_leader, count: None, rank: None }
    }

    /// Emits instructions that count the threads in a mask whose lane number is lower than that of this thread. Returns the count.
    fn emit_rank_in_mask(&mut self, function: &mut Function, prelude: &mut InstPrelude, mask: Operand) -> Operand {
        let lower = *self.lower_lanes_mask.get_or_insert_with(|| new_value_operand(function, Class::R));
        let table = Operand::from(AND_TABLE);
        let never = Operand::PT.inverted_predicate();
        let below = prelude.emit_definition(function, Class::R, Opcode::LOP3, &[Symbol::LUT], &[mask, lower, Operand::RZ, table, never]);
        prelude.emit_definition(function, Class::R, Opcode::POPC, &[], &[below])
    }

    /// Emits `value * count + base`, where `value` is the operand of the atomic operation and a missing `base` counts as 0. Returns the
    /// result.
    fn emit_multiply_add(
        &self,
        function: &mut Function,
        prelude: &mut InstPrelude,
        atomic: &CombinableAtomic,
        count: Operand,
        base: Option<Operand>,
    ) -> Operand {
        let known = |function: &Function, operand: Operand| {
            let origin = operand.part().map_or(operand, |part| self.definitions.origin(function, part).into());
            OperandFacts::new(function, &self.definitions).word(&origin)
        };
        let Some(part) = atomic.value.part() else { return atomic.value };
        let start = base.unwrap_or(Operand::RZ);
        if !atomic.is_wide {
            return match (known(function, atomic.value), base) {
                (Some(1), None) => count,
                (Some(1), Some(base)) => emit_sum(prelude, function, [count, base, Operand::RZ]),
                _ => prelude.emit_definition(function, Class::R, Opcode::IMAD, &[], &[atomic.value, count, start]),
            };
        }
        // The count has 32 bits, so two partial products are enough: low * count in 64 bits, and high * count added to its upper half.
        let [low, high] = [0, 1].map(|at| Operand::from(single_register(part, at)));
        let wide = prelude.emit_definition(function, Class::R2, Opcode::IMAD, &[Symbol::WIDE, Symbol::U32], &[low, count, start]);
        let Some(wide_part) = wide.part().filter(|_| known(function, high) != Some(0)) else { return wide };
        let upper = prelude.emit_definition(function, Class::R, Opcode::IMAD, &[], &[high, count, single_register(wide_part, 1).into()]);
        prelude.pack(function, RegFile::General, &[single_register(wide_part, 0).into(), upper])
    }

    /// Emits a `REDUX` or `CREDUX` that combines the operands of all participating threads. Returns the result.
    fn emit_reduction(
        &self,
        function: &mut Function,
        prelude: &mut InstPrelude,
        atomic: &CombinableAtomic,
        guard: Option<Guard>,
        opcode: Opcode,
    ) -> Operand {
        let name = match atomic.kind {
            AtomicUpdateKind::Add => Some(Symbol::SUM),
            AtomicUpdateKind::And => None,
            AtomicUpdateKind::Or => Some(Symbol::OR),
            AtomicUpdateKind::Xor => Some(Symbol::XOR),
            AtomicUpdateKind::Min => Some(Symbol::MIN),
            AtomicUpdateKind::Max => Some(Symbol::MAX),
        };
        let modifiers: SmallVec<[Symbol; 2]> = name.into_iter().chain(atomic.is_signed.then_some(Symbol::S32)).collect();
        // `REDUX` combines all active threads, also those in which the guard does not hold: they contribute the identity.
        let value = match guard {
            Some(guard) => {
                emit_select(prelude, function, atomic.value, atomic.identity_element().into(), guard_as_predicate_operand(guard))
            }
            None => atomic.value,
        };
        let uniform = prelude.emit_definition(function, Class::UR, opcode, &modifiers, &[value]);
        prelude.emit_definition(function, Class::R, Opcode::MOV, &[], &[uniform])
    }

    /// Rewrites an addition with prefix sums: the last thread performs it for the warp if all 32 threads participate; otherwise each thread
    /// performs its own.
    fn aggregate_by_prefix_sums(
        &mut self,
        function: &mut Function,
        inst: Inst,
        atomic: &CombinableAtomic,
        shared: &mut ValuesSharedInBlock,
        new_insts: &mut Vec<Inst>,
    ) {
        let guard = function.insts[inst].guard;
        let key = (guard, atomic.value.kind);
        let prefixes = match shared.prefixes.get(&key) {
            Some(known) => *known,
            None => {
                let mut prelude = InstPrelude::before(function, inst);
                let new = self.emit_prefix_sums(function, &mut prelude, guard, atomic.value);
                new_insts.extend(prelude.insts.iter().copied());
                shared.prefixes.insert(key, new);
                new
            }
        };
        let LanePrefixSums { prefix_sum, is_full, performs_atomic, combined_operand: operand } = prefixes;
        let old = set_atomic_guard_and_operand(function, inst, atomic, performs_atomic, operand);
        new_insts.push(inst);
        let (Some(result), Some((old, tied))) = (atomic.old_value, old) else { return };
        let mut after = InstPrelude::before(function, inst);
        // A thread's old value is that of the last thread plus the operands of the threads with lower lane numbers: its prefix sum minus
        // its own operand. If not all threads participate, each has performed its own operation and has its own old value.
        let last = emit_shuffle(&mut after, function, single_register(old, 0), LAST_LANE.into());
        let before = emit_sum(&mut after, function, [prefix_sum, atomic.value.negated(), last]);
        let chosen = emit_select(&mut after, function, before, old.into(), is_full);
        define_former_result(function, &mut after, result, chosen, guard, tied);
        new_insts.extend(after.insts.iter().copied());
    }

    /// Emits the prefix sums of an operand, the predicate that says which threads perform the atomic operation, and the operand of the
    /// atomic operation. Returns operands that hold all of these.
    fn emit_prefix_sums(
        &mut self,
        function: &mut Function,
        prelude: &mut InstPrelude,
        guard: Option<Guard>,
        value: Operand,
    ) -> LanePrefixSums {
        let lane = self.lane(function);
        let mask = emit_ballot(prelude, function, guard);
        let is_full = emit_equality_test(prelude, function, Symbol::AND, mask, i64::from(u32::MAX).into(), Operand::PT);
        // Operands 3 1 4 1 of four threads become 3 4 5 5 at distance 1, and 3 4 8 9 at distance 2.
        let mut prefix_sum = value;
        for distance in [1_i64, 2, 4, 8, 16] {
            prefix_sum = emit_add_from_lower_lane(prelude, function, prefix_sum, distance);
        }
        let not_full = is_full.inverted_predicate();
        let mut performs_atomic = emit_equality_test(prelude, function, Symbol::OR, lane, LAST_LANE.into(), not_full);
        if let Some(guard) = guard {
            // The truth table of `a & b & c`.
            let sources = [performs_atomic, guard_as_predicate_operand(guard), Operand::PT, 0x80_i64.into(), 0_i64.into()];
            performs_atomic = emit_predicate_definition(prelude, function, Opcode::PLOP3, &[Symbol::LUT], &sources);
        }
        let operand = emit_select(prelude, function, prefix_sum, value, is_full);
        LanePrefixSums { prefix_sum, is_full, performs_atomic, combined_operand: operand }
    }

    /// Returns the operand that holds the lane number of the thread. Creates its value at the first call.
    fn lane(&mut self, function: &mut Function) -> Operand {
        *self.lane.get_or_insert_with(|| new_value_operand(function, Class::R))
    }

    /// Inserts the reads of the lane number and of the lane mask at the start of the function, where they are executed once.
    fn insert_special_register_reads(&self, function: &mut Function) {
        let entry = function.entry();
        let is_start = |inst: &Inst| function.insts[*inst].op == Op::Pseudo(Pseudo::Entry);
        let mut at = function.blocks[entry].insts.iter().take_while(|inst| is_start(inst)).count();
        for (operand, name) in [(self.lane, "SR_LANEID"), (self.lower_lanes_mask, "SR_LTMASK")] {
            let (Some(operand), Some(symbol)) = (operand, Symbol::find(name)) else { continue };
            let inst = function.new_inst(Op::Machine(Opcode::S2R), [].into_iter().collect(), None, &[operand, symbol.into()], 1);
            function.blocks[entry].insts.insert(at, inst);
            at += 1;
        }
    }
}

/// Replaces the guard and the operand of an atomic operation. Returns the new result, which receives the old value of the memory in the
/// threads that perform the operation, and the operand that the former result was tied to. `None` if there is no result.
fn set_atomic_guard_and_operand(
    function: &mut Function,
    inst: Inst,
    atomic: &CombinableAtomic,
    performs_atomic: Operand,
    operand: Operand,
) -> Option<(Part, Option<Operand>)> {
    let tied = function.operands(inst).iter().find(|operand| matches!(operand.role, Role::Tied(_))).copied();
    let mut operands: SmallVec<[Operand; 8]> = function.operands(inst).iter().copied().collect();
    operands[atomic.value_position] = operand;
    operands.retain(|operand| !matches!(operand.role, Role::Tied(_)));
    let old = atomic.old_value.map(|part| function.new_value(Class::new(RegFile::General, part.count)));
    let count = function.insts[inst].result_count();
    if let Some(old) = old {
        let whole = function.whole(old);
        let result = operands[..count].iter_mut().find(|result| result.part().is_some());
        if let Some(result) = result {
            result.kind = OperandKind::Value(whole);
        }
    }
    function.set_operands(inst, &operands, count);
    function.insts[inst].guard = Some(Guard { kind: performs_atomic.kind, negated: false });
    old.map(|old| (function.whole(old), tied))
}

/// Appends the definition of `result`, the former result of an atomic operation: `value`, or the tied operand in threads where the guard
/// does not hold.
fn define_former_result(
    function: &mut Function,
    after: &mut InstPrelude,
    result: Part,
    value: Operand,
    guard: Option<Guard>,
    tied: Option<Operand>,
) {
    let (Some(guard), Some(tied)) = (guard, tied) else {
        after.push(function, Op::Pseudo(Pseudo::Copy), &[], &[result.into(), value], 1);
        return;
    };
    let (Some(new), Some(old)) = (value.part(), tied.part()) else {
        let kept = tied.with_role(Role::Plain);
        after.push(function, Op::Machine(Opcode::SEL), &[], &[result.into(), value, kept, guard_as_predicate_operand(guard)], 1);
        return;
    };
    let words: SmallVec<[Operand; 2]> = (0..result.count)
        .map(|at| {
            emit_select(
                after,
                function,
                single_register(new, at).into(),
                single_register(old, at).into(),
                guard_as_predicate_operand(guard),
            )
        })
        .collect();
    let chosen = after.pack(function, RegFile::General, &words);
    after.push(function, Op::Pseudo(Pseudo::Copy), &[], &[result.into(), chosen], 1);
}
