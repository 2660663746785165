//! Assigns the six scoreboards to the instructions that are waited for.
//!
//! **Input:** the waits of [`super::waits`]. **Output:** control words with the scoreboards that instructions set and wait for.
//!
//! A scoreboard is a counter: an instruction that sets it increments it at issue and decrements it when its results are written, or its
//! sources read; a wait lasts until the counter is zero. So every assignment is correct. Sharing a scoreboard only costs time: a wait then
//! also lasts until instructions are done that the waiting one does not depend on. The algorithm is a linear scan (Poletto and Sarkar 1999)
//! over the instructions that are waited for, the *holders* of scoreboards. The live interval of a holder extends from its issue to the
//! last wait for it. Unlike a register allocator, the scan lets holders share a scoreboard instead of spilling. Each holder gets the
//! scoreboard with the lowest cost; if several have the same cost, the first kind of this list is preferred:
//!
//! 1. A scoreboard whose only wait is at the same instruction as the only wait of the new holder. Sharing it costs no time, and the other
//!    scoreboards stay free.
//! 2. A free scoreboard; among these the one that has been free for the longest time, because a wait on another path is least likely to
//!    be delayed by it. It costs nothing if the other free scoreboards are enough for all holders that are issued before the first wait for
//!    the new holder. Otherwise some of those holders have to share, and a free scoreboard has a price. The price rises with the number of
//!    holders that have to share, and falls with the number of free scoreboards.
//! 3. A scoreboard with other holders. If they are waited for first, that wait also lasts until the new holder is done; otherwise the wait
//!    for the new holder also lasts until they are done. The cost is the number of cycles by which the earlier wait gets longer, estimated
//!    from the usual latencies of the model and the distance, weighted by loop depth. It is at most the distance between the two waits if
//!    both are executed equally often: the later wait gets shorter by as many cycles as the earlier one gets longer. Latencies vary, so
//!    among equal costs the scoreboard with the most cycles to spare is chosen, then one whose last holder has the same instruction class,
//!    because it takes about as long.
//!
//! Because of the price, loads whose results are read at about the same position share a scoreboard, and the others stay free for loads
//! whose results are read elsewhere. Example: each of 16 loads overwrites the address register of the load before it. With the price, the
//! results share one scoreboard, and the reads of the address registers get others. Without it, five results would occupy all scoreboards
//! but one, and each wait for the read of an address register would last until a result arrives.
//!
//! The four heuristics of the published description of ptxas (oldest free scoreboard, same kind, distance, no conflicts) are special cases
//! of this cost.
//!
//! Example with two scoreboards; a load takes 30 cycles, and instructions issue about 2 cycles apart:
//!
//! ```text
//! 0   LDG R0        SB0: free
//! 1   LDG R1        SB1: free
//! 2   LDG R2        SB1: cost 0, because this load is done long before the next wait for SB1, at 40
//!                   (SB0 would cost 4 cycles: the wait at 4 would last until this load is done, in cycle 34 instead of 30)
//! 4   IADD3 R8, R0      waits for SB0
//! 40  IADD3 R9, R1      waits for SB1
//! 50  IADD3 R10, R2     would wait for SB1, but SB1 was waited for at 40 and not set since: the wait is dropped
//! ```
//!
//! A holder that is waited for in the next iteration of a loop is live to the end of the loop, and again from the start of the loop to the
//! wait. It gets its scoreboard when the scan reaches the start of the loop, so that the holders before it in the loop avoid this
//! scoreboard.
//!
//! At the end, `remove_implied_waits` removes waits for scoreboards that were already waited for on all paths.
//!
//! Scoreboards that the code names itself (`LDGDEPBAR`, `UTMACMDFLUSH`, and the `DEPBAR` that counts them) are not assigned to holders.
//!
//! Cost: O(n log n) in the number of waits, and linear in the length of the code.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use oriole_hardware::{ControlRules, Model, SchedClass};
use oriole_ir::analysis::LoopModel;
use oriole_isa::{Control, Opcode, OperandValue, RegFile};

use super::control_flow::{MachineControlFlow, Worklist};
use super::machine_code::MachineCode;
use super::reg_access::{InstAccesses, PinnedScoreboard};
use super::waits::{Wait, WaitedEvent};

/// Estimated number of cycles from the issue of one instruction to that of the next. Stalls are not computed yet.
const CYCLES_PER_INST: i64 = 2;
/// Estimated latency in cycles of an instruction for which the hardware model has none.
const DEFAULT_LATENCY_CYCLES: i64 = 30;
/// Maximum price of a free scoreboard, in cycles: the price if only one is free and at least [`FULL_PRICE_HOLDERS`] holders have to share.
/// With n free scoreboards, the price of each is one n-th.
const LAST_SCOREBOARD_PRICE_CYCLES: i64 = 24;
/// Number of holders that have to share at which the price of a free scoreboard reaches its maximum. With fewer, the price is proportional
/// to their number.
const FULL_PRICE_HOLDERS: usize = 12;

/// An instruction that holds a scoreboard from its issue until other instructions have waited for one of its events: results written, or
/// sources read.
struct ScoreboardHolder<'w> {
    /// Position of the instruction in the code.
    inst: usize,
    /// The event that the scoreboard signals: results written, or sources read.
    event: WaitedEvent,
    /// The waits of other instructions for the event.
    waits: &'w [Wait],
    /// Usual number of cycles from the issue of the instruction to the event.
    usual_latency: i64,
    /// Scheduling class of the instruction.
    class: SchedClass,
    /// Start and end positions of the loop in whose next iteration an instruction waits for the event; `None` if all waiting instructions
    /// come later in the code.
    carried_by_loop: Option<(usize, usize)>,
}

impl ScoreboardHolder<'_> {
    /// Returns the positions of the instructions that wait for this one and come after it in the code.
    fn waits_after(&self) -> impl Iterator<Item = usize> {
        self.waits.iter().map(|wait| wait.second as usize).filter(|&second| second > self.inst)
    }

    /// Returns the positions of the instructions that wait for this one and do not come after it in the code: they wait in the next
    /// iteration of a loop.
    fn waits_in_next_iteration(&self) -> impl Iterator<Item = usize> {
        self.waits.iter().map(|wait| wait.second as usize).filter(|&second| second <= self.inst)
    }
}

/// The state of a scoreboard at the current position of the scan. A position is the index of an instruction in the code.
#[derive(Clone, Debug, Default)]
struct ScoreboardState {
    /// Positions of the instructions that wait for this scoreboard, nearest first; empty if the scoreboard is free.
    waits_at: BinaryHeap<Reverse<usize>>,
    /// Estimated cycle in which the scoreboard is released, because all instructions that hold it are done.
    ready_cycle: i64,
    /// Scheduling class of the last instruction that got the scoreboard; `None` before the first one.
    class: Option<SchedClass>,
    /// Position of the last instruction that waits for this scoreboard, among those that the scan has passed.
    free_since: usize,
}

impl ScoreboardState {
    /// Removes the waits at instructions up to and including `position`, which the scan has passed.
    fn remove_passed_waits(&mut self, position: usize) {
        while let Some(&Reverse(next)) = self.waits_at.peek().filter(|next| next.0 <= position) {
            self.waits_at.pop();
            self.free_since = next;
        }
    }
}

/// Returns control words with scoreboards and wait masks; stalls, yields and reuse flags are not set yet.
pub(crate) fn assign_scoreboards(
    code: &MachineCode<'_>,
    control_flow: &MachineControlFlow,
    inst_accesses: &[InstAccesses],
    waits: &[Wait],
    model: &Model,
    rules: &ControlRules,
) -> Vec<Control> {
    let mut controls = vec![Control::default(); inst_accesses.len()];
    let (counted, pinned) = pin_named_scoreboards(code, inst_accesses, rules, &mut controls);
    let without = |mask: u8| (0..rules.scoreboards).filter(|index| mask >> index & 1 == 0).collect::<Vec<usize>>();
    // If every scoreboard is named by a `DEPBAR`, those that no `LDGDEPBAR` or `UTMACMDFLUSH` sets may still be assigned: their `DEPBAR`
    // then only waits longer.
    let assignable = [without(counted | pinned), without(pinned)].into_iter().find(|list| !list.is_empty()).unwrap_or_default();
    let holders: Vec<ScoreboardHolder<'_>> = waits
        .chunk_by(|one, two| (one.first, one.event) == (two.first, two.event))
        .filter(|waits| !is_scoreboard_pinned(&inst_accesses[waits[0].first as usize], waits[0].event))
        .filter(|waits| can_set_scoreboard(&inst_accesses[waits[0].first as usize], waits[0].event))
        .map(|waits| new_scoreboard_holder(control_flow, inst_accesses, waits, model, code.instructions.len()))
        .collect();
    // Sorted pairs (start of the loop, index in `holders`) of the instructions that another one waits for in the next iteration of a loop.
    let mut starts: Vec<(usize, usize)> =
        holders.iter().enumerate().filter_map(|(at, holder)| holder.carried_by_loop.map(|(start, _)| (start, at))).collect();
    starts.sort_unstable();
    let mut starts = starts.into_iter().peekable();
    let holder_positions: Vec<usize> = holders.iter().map(|holder| holder.inst).collect();
    let boards = vec![ScoreboardState::default(); rules.scoreboards];
    let mut scan = ScoreboardScan { control_flow, rules, boards, assignable, holder_positions };
    let mut preassigned: Vec<Option<usize>> = vec![None; holders.len()];
    for (at, one) in holders.iter().enumerate() {
        // The scan has reached the start of one or more loops. An instruction that is waited for in the next iteration occupies a
        // scoreboard from the start of the loop to the wait. It keeps the same scoreboard (`preassigned`) when the scan reaches the
        // instruction itself.
        while let Some((start, early)) = starts.next_if(|&(start, _)| start <= one.inst) {
            // The scoreboard is assigned from the position before the loop on: `assign_scoreboard` removes waits up to this position, and
            // the first instruction of the loop may be a wait.
            let holder = &holders[early];
            let waits_at = holder.waits_in_next_iteration();
            preassigned[early] = Some(scan.assign_scoreboard(holder, start.saturating_sub(1), waits_at.collect(), None));
        }
        let waits_at = one.waits_after().chain(one.carried_by_loop.map(|(_, end)| end)).collect();
        let index = scan.assign_scoreboard(one, one.inst, waits_at, preassigned[at]);
        let scoreboard = Some(index as u8);
        match one.event {
            WaitedEvent::Results => controls[one.inst].write_barrier = scoreboard,
            WaitedEvent::Reads => controls[one.inst].read_barrier = scoreboard,
        }
        for wait in one.waits {
            controls[wait.second as usize].wait |= 1 << index;
        }
    }
    for wait in waits.iter().filter(|wait| is_scoreboard_pinned(&inst_accesses[wait.first as usize], wait.event)) {
        let first = controls[wait.first as usize];
        let board = if wait.event == WaitedEvent::Results { first.write_barrier } else { first.read_barrier };
        controls[wait.second as usize].wait |= board.map_or(0, |board| 1 << board);
    }
    remove_implied_waits(code, control_flow, &mut controls);
    controls
}

/// Removes waits for scoreboards that have been waited for on all paths since they were last set.
///
/// This is a forward may-analysis: a scoreboard is *open* at a point if on some path to the point it was set and not waited for since. A
/// wait for a scoreboard that is not open is removed.
fn remove_implied_waits(code: &MachineCode<'_>, control_flow: &MachineControlFlow, controls: &mut [Control]) {
    let sets = |control: &Control| {
        let bit = |board: Option<u8>| board.map_or(0, |board| 1 << board);
        bit(control.write_barrier) | bit(control.read_barrier)
    };
    let pass = |open: u8, control: &Control| open & !control.wait | sets(control);
    let mut entry: Vec<u8> = vec![0; code.blocks.len()];
    let mut worklist = Worklist::new(code.blocks.len());
    control_flow.roots.iter().for_each(|&root| worklist.push(root));
    let mut reached = vec![false; code.blocks.len()];
    while let Some(block) = worklist.pop() {
        reached[block] = true;
        let left = controls[code.blocks[block].range.clone()].iter().fold(entry[block], pass);
        for &next in &code.blocks[block].successors {
            if !reached[next] || left & !entry[next] != 0 {
                entry[next] |= left;
                worklist.push(next);
            }
        }
    }
    // Removing a wait for a scoreboard that is not open does not change which scoreboards are open, so the states at block starts stay
    // valid.
    for (block, entry) in code.blocks.iter().zip(entry) {
        let mut open = entry;
        for control in &mut controls[block.range.clone()] {
            control.wait &= open;
            open = pass(open, control);
        }
    }
}

/// Creates the [`ScoreboardHolder`] for `waits`, which all wait for the same event of the same instruction; `code_length` is the number of
/// instructions of the code. If a waiting instruction comes before the one it waits for and no loop contains both, the whole code counts as
/// their loop.
fn new_scoreboard_holder<'w>(
    control_flow: &MachineControlFlow,
    inst_accesses: &[InstAccesses],
    waits: &'w [Wait],
    model: &Model,
    code_length: usize,
) -> ScoreboardHolder<'w> {
    let (first, event) = (waits[0].first as usize, waits[0].event);
    let class = inst_accesses[first].class;
    let time = model
        .time(class)
        .map_or(DEFAULT_LATENCY_CYCLES, |time| i64::from(if event == WaitedEvent::Results { time.usual } else { time.read }));
    let earliest = waits.iter().map(|wait| wait.second as usize).filter(|&second| second <= first).min();
    let carried_by_loop =
        earliest.map(|earliest| control_flow.innermost_common_loop(first, earliest).map_or((0, code_length), |one| (one.start, one.end)));
    ScoreboardHolder { inst: first, event, waits, usual_latency: time, class, carried_by_loop }
}

/// Returns whether the encoding form of an instruction can set a scoreboard that signals `event`.
fn can_set_scoreboard(inst_accesses: &InstAccesses, event: WaitedEvent) -> bool {
    match event {
        WaitedEvent::Results => inst_accesses.can_set_write_barrier,
        WaitedEvent::Reads => inst_accesses.can_set_read_barrier,
    }
}

/// Returns whether the code itself names the scoreboard that signals `event` of an instruction, so that none may be chosen.
fn is_scoreboard_pinned(inst_accesses: &InstAccesses, event: WaitedEvent) -> bool {
    match inst_accesses.pinned {
        PinnedScoreboard::No => false,
        PinnedScoreboard::Write => event == WaitedEvent::Results,
        PinnedScoreboard::Read => event == WaitedEvent::Reads,
    }
}

/// Assigns the scoreboards that the code itself names. Returns two bit masks of scoreboards: those that a `DEPBAR` waits on, and those
/// assigned here.
///
/// An `LDGDEPBAR` or `UTMACMDFLUSH` keeps the scoreboard that its control word names if a `DEPBAR` waits on it; otherwise it gets the
/// lowest one that a `DEPBAR` waits on.
fn pin_named_scoreboards(
    code: &MachineCode<'_>,
    inst_accesses: &[InstAccesses],
    rules: &ControlRules,
    controls: &mut [Control],
) -> (u8, u8) {
    let named = |at: usize| match code.instructions[at].operands.first()?.value {
        OperandValue::Register(RegFile::Scoreboard, Some(number)) if usize::from(number) < rules.scoreboards => Some(number as u8),
        _ => None,
    };
    let counted = (0..inst_accesses.len()).filter(|&at| inst_accesses[at].opcode == Opcode::DEPBAR).filter_map(named);
    let counted = counted.fold(0, |mask, board| mask | 1u8 << board);
    let usual = if counted == 0 { 0 } else { counted.trailing_zeros() as u8 };
    let mut pinned = 0;
    for (at, inst) in inst_accesses.iter().enumerate().filter(|(_, inst)| inst.pinned != PinnedScoreboard::No) {
        let said = code.instructions[at].control;
        let own = if inst.pinned == PinnedScoreboard::Write { said.write_barrier } else { said.read_barrier };
        let board = own.filter(|own| counted >> own & 1 == 1).unwrap_or(usual);
        match inst.pinned {
            PinnedScoreboard::Write => controls[at].write_barrier = Some(board),
            _ => controls[at].read_barrier = Some(board),
        }
        pinned |= 1 << board;
    }
    (counted, pinned)
}

/// State of the linear scan that assigns scoreboards to instructions in the order of the code.
struct ScoreboardScan<'a> {
    /// Loops and blocks of the code.
    control_flow: &'a MachineControlFlow,
    /// The rules for control words of the target, from `control.tbl`.
    rules: &'a ControlRules,
    /// For each scoreboard: its state at the current position of the scan.
    boards: Vec<ScoreboardState>,
    /// Indices of the scoreboards that may be assigned freely: all but those that the code itself names.
    assignable: Vec<usize>,
    /// Positions in the code of all holders, in ascending order.
    holder_positions: Vec<usize>,
}

/// The properties of a new holder (an instruction that others wait for) that the choice of its scoreboard depends on.
struct CandidateHolder {
    /// Position of the first wait for the holder.
    next_wait: usize,
    /// Number of waits for the holder.
    wait_count: usize,
    /// Estimated cycle in which the holder is done.
    ready_cycle: i64,
    /// Scheduling class of the holder.
    class: SchedClass,
    /// Cost of a free scoreboard, in cycles weighted by executions.
    free_price: i64,
}

impl ScoreboardScan<'_> {
    /// Assigns a scoreboard to a holder (an instruction that others wait for) from position `from` until the waits at positions `waits_at`.
    /// Returns the index of the scoreboard: `preassigned` if it is given, otherwise the scoreboard with the lowest rank.
    fn assign_scoreboard(&mut self, holder: &ScoreboardHolder<'_>, from: usize, waits_at: Vec<usize>, preassigned: Option<usize>) -> usize {
        for board in &mut self.boards {
            board.remove_passed_waits(from);
        }
        let next = waits_at.iter().copied().min().unwrap_or(from);
        let ready = from as i64 * CYCLES_PER_INST + holder.usual_latency;
        let index = preassigned.unwrap_or_else(|| {
            let candidate = CandidateHolder {
                next_wait: next,
                wait_count: waits_at.len(),
                ready_cycle: ready,
                class: holder.class,
                free_price: self.free_scoreboard_price(from, next),
            };
            self.assignable.iter().copied().min_by_key(|&index| self.scoreboard_rank(index, &candidate)).unwrap_or(0)
        });
        // The `ready_cycle` of a free scoreboard belongs to instructions that are done, so it is ignored.
        let board = &mut self.boards[index];
        let others = if board.waits_at.is_empty() { 0 } else { board.ready_cycle };
        board.ready_cycle = ready.max(others);
        board.class = Some(holder.class);
        board.waits_at.extend(waits_at.into_iter().map(Reverse));
        index
    }

    /// Returns the price, in cycles weighted by executions, of assigning a free scoreboard to a holder at position `from` whose first wait
    /// is at `next`: 0 if the other free scoreboards are enough for all holders in between.
    fn free_scoreboard_price(&self, from: usize, next: usize) -> i64 {
        let free = self.assignable.iter().filter(|&&index| self.boards[index].waits_at.is_empty()).count();
        let started = |position: usize| self.holder_positions.partition_point(|&start| start < position);
        let others = started(next).saturating_sub(started(from + 1));
        if free == 0 || others < free {
            return 0;
        }
        let missing = (others + 1 - free).min(FULL_PRICE_HOLDERS) as i64;
        let price = LAST_SCOREBOARD_PRICE_CYCLES * missing / (FULL_PRICE_HOLDERS * free) as i64;
        price.saturating_mul(self.cycle_weight(from))
    }

    /// Returns the cost, in cycles weighted by executions, of assigning scoreboard `index` to a new holder, followed by tie-breakers; lower
    /// is better.
    fn scoreboard_rank(&self, index: usize, candidate: &CandidateHolder) -> (i64, u8, i64, bool, usize) {
        let board = &self.boards[index];
        let other_kind = board.class != Some(candidate.class);
        let next = candidate.next_wait;
        // The second element of the result orders scoreboards of equal cost: 0 if the new and the present holder share their only wait, 1
        // if the scoreboard is free, 2 otherwise.
        let Some(&Reverse(theirs)) = board.waits_at.peek() else { return (candidate.free_price, 1, 0, false, board.free_since) };
        if theirs == next && candidate.wait_count == 1 && board.waits_at.len() == 1 {
            return (0, 0, 0, other_kind, board.free_since);
        }
        // If two instructions share a scoreboard, the earlier of their two waits lasts until both are done. `late` is the number of cycles
        // by which it gets longer.
        let (earlier, later) = (theirs.min(next), theirs.max(next));
        let (own, other) =
            if theirs < next { (board.ready_cycle, candidate.ready_cycle) } else { (candidate.ready_cycle, board.ready_cycle) };
        let mut late = other - own.max(earlier as i64 * CYCLES_PER_INST);
        let weight = self.cycle_weight(earlier);
        if weight == self.cycle_weight(later) {
            late = late.min((later - earlier) as i64 * CYCLES_PER_INST);
        }
        (late.max(0).saturating_mul(weight), 2, late, other_kind, board.free_since)
    }

    /// Returns the weight of a cycle at a position of the code: the assumed number of executions, which is the assumed trip count of loops
    /// to the power of the loop depth (limited to `loop_levels`).
    fn cycle_weight(&self, earlier: usize) -> i64 {
        let facts = &self.rules.facts;
        let model = LoopModel { trip_count: facts.loop_weight, max_depth: facts.loop_levels };
        // The cast is exact up to 2^53 and saturates beyond 2^63; only an unusual hardware profile reaches such values.
        model.executions(self.control_flow.depth(earlier)) as i64
    }
}
