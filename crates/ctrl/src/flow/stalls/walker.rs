//! The walk over the blocks: tracks the age of recent events, and lengthens stalls where cycles are missing.

use oriole_hardware::{ControlRules, DependenceKind, Model, Port};
use oriole_isa::{Control, Opcode, RegFile};
use smallvec::SmallVec;

use super::super::machine_code::MachineCode;
use super::super::reg_access::{AdditionalWaits, InstAccesses, Register, latency_requirement, register_file_of};
use super::super::register_table::RegisterTable;
use super::causes::{LatencyShortfall, StallCause, StallPart, StallParts, StallSummary};
use super::events::{BlockEndState, LONG_AGO_CYCLES, SCOREBOARD_COUNT, TimedAccess, max_delay_cycles};

/// Maximum number of instructions to search backward for one that waits for a scoreboard. A longer stall before such an instruction usually
/// costs no time.
const MAX_WAIT_SEARCH_INSTS: usize = 16;

/// State of the walk over the blocks that lengthens stalls until all fixed latencies are covered.
pub(super) struct StallWalker<'a> {
    /// The code in its final order.
    code: &'a MachineCode<'a>,
    /// For each instruction, its register accesses.
    inst_accesses: &'a [InstAccesses],
    /// The hardware model with the latencies.
    model: &'a Model,
    /// The rules for control words of the target, from `control.tbl`.
    rules: &'a ControlRules,
    /// The control word of each instruction. The walk lengthens the stalls in them.
    controls: &'a mut [Control],
    /// For each register: its recent accesses. All times in this struct are in cycles from the start of the current block, and negative for
    /// events of earlier blocks.
    accesses: RegisterTable<SmallVec<[TimedAccess; 4]>>,
    /// Registers that may have entries in `accesses`, which are cleared before the next block.
    used_registers: Vec<Register>,
    /// For each scoreboard: issue time (in cycles from the start of the block) and position of the last instruction that set it.
    last_setters: [(i64, u32); SCOREBOARD_COUNT],
    /// Issue time (in cycles from the start of the block) and position of the last thread-block barrier (`BAR`).
    last_block_barrier: (i64, u32),
    /// For each functional unit: issue time (in cycles from the start of the block) and position of the last instruction of the block that
    /// uses the unit.
    last_use_of_unit: Vec<(i64, u32)>,
    /// The latencies found so far that stalls cannot cover, and the parts of the stalls by cause.
    pub(super) summary: StallSummary,
}

/// Number of cycles missing before an instruction may issue (0 or negative if none are missing), and the reason for the delay.
type MissingCycles = (i64, StallCause);

impl<'a> StallWalker<'a> {
    /// Returns the state before the first block. `parts` has the stall of each instruction so far, divided by cause; it is empty if causes
    /// are not recorded.
    pub(super) fn new(
        code: &'a MachineCode<'a>,
        inst_accesses: &'a [InstAccesses],
        model: &'a Model,
        rules: &'a ControlRules,
        controls: &'a mut [Control],
        parts: Vec<StallParts>,
    ) -> StallWalker<'a> {
        StallWalker {
            code,
            inst_accesses,
            model,
            rules,
            controls,
            accesses: RegisterTable::new(),
            used_registers: Vec::new(),
            last_setters: [(-LONG_AGO_CYCLES, 0); SCOREBOARD_COUNT],
            last_block_barrier: (-LONG_AGO_CYCLES, 0),
            last_use_of_unit: vec![(-LONG_AGO_CYCLES, 0); rules.paced_units()],
            summary: StallSummary { shortfalls: Vec::new(), parts },
        }
    }

    /// Walks a block, whose start has the state `entry`, and lengthens its stalls where cycles are missing. Returns the state at its end.
    pub(super) fn walk_block(&mut self, block: usize, entry: &BlockEndState) -> BlockEndState {
        for register in self.used_registers.drain(..) {
            self.accesses[register].clear();
        }
        for access in &entry.accesses {
            self.record_access(TimedAccess { issued_at: -access.issued_at, ..*access });
        }
        self.last_setters = entry.last_setters.map(|(age, first)| (-age, first));
        self.last_block_barrier = (-entry.last_block_barrier.0, entry.last_block_barrier.1);
        self.last_use_of_unit.fill((-LONG_AGO_CYCLES, 0));
        let range = self.code.blocks[block].range.clone();
        let mut current_cycle: i64 = 0;
        for position in range.clone() {
            // Cycles missing before the first instruction of the block have been added to the predecessors.
            if position > range.start {
                current_cycle += self.add_missing_stalls(range.start, position, current_cycle);
            }
            self.record_issue(position, current_cycle);
            current_cycle += min_issue_distance(self.controls[position]);
        }
        self.exit_state(current_cycle)
    }

    /// Returns the state at time `current_cycle`, the end of the block. Events that can have no effect any more all get the age
    /// [`LONG_AGO_CYCLES`], so that equivalent states compare equal and the iteration over the blocks terminates.
    fn exit_state(&mut self, current_cycle: i64) -> BlockEndState {
        let mut state = BlockEndState::new();
        self.used_registers.sort_unstable();
        self.used_registers.dedup();
        for &register in &self.used_registers {
            for access in &self.accesses[register] {
                let age = current_cycle - access.issued_at;
                if age < max_delay_cycles(self.model, access) {
                    state.accesses.push(TimedAccess { issued_at: age, ..*access });
                }
            }
        }
        let aged = |(at, first): (i64, u32), max_age: u32| {
            let age = current_cycle - at;
            if age < i64::from(max_age) { (age, first) } else { (LONG_AGO_CYCLES, 0) }
        };
        state.last_setters = self.last_setters.map(|last_setters| aged(last_setters, self.rules.facts.scoreboard_seen));
        state.last_block_barrier = aged(self.last_block_barrier, self.rules.facts.barrier_hold);
        state
    }

    /// Adds an access to the list of its register, in place of an older access through the same port.
    fn record_access(&mut self, access: TimedAccess) {
        let list = &mut self.accesses[access.register];
        if list.is_empty() {
            self.used_registers.push(access.register);
        }
        match list.iter_mut().find(|other| access.supersedes(other)) {
            Some(other) if other.issued_at < access.issued_at => *other = access,
            Some(_) => {}
            None => list.push(access),
        }
    }

    /// Records the register accesses, scoreboards and unit use of an instruction that issues at time `current_cycle`.
    fn record_issue(&mut self, position: usize, current_cycle: i64) {
        let inst_accesses = &self.inst_accesses[position];
        let first = position as u32;
        for (list, write) in [(&inst_accesses.reads[..], false), (&inst_accesses.writes[..], true)] {
            for reg_access in list {
                self.record_access(TimedAccess {
                    register: reg_access.register,
                    port: reg_access.port,
                    write,
                    guarded: inst_accesses.guarded,
                    issued_at: current_cycle,
                    inst: first,
                });
            }
        }
        let control = self.controls[position];
        for board in [control.write_barrier, control.read_barrier].into_iter().flatten() {
            if let Some(last_setters) = self.last_setters.get_mut(usize::from(board)) {
                *last_setters = (current_cycle, first);
            }
        }
        if inst_accesses.opcode == Opcode::BAR {
            self.last_block_barrier = (current_cycle, first);
        }
        if let Some(pace) = self.rules.unit_occupation(inst_accesses.class) {
            self.last_use_of_unit[usize::from(pace.unit)] = (current_cycle, first);
        }
    }

    /// Lengthens stalls until the instruction at `position`, which would issue at time `current_cycle`, may issue. Returns the number of
    /// cycles added. `start` is the first instruction of the block.
    fn add_missing_stalls(&mut self, start: usize, position: usize, current_cycle: i64) -> i64 {
        let (missing, cause) = self.missing_cycles(position, current_cycle, &|_| true);
        if missing <= 0 {
            return 0;
        }
        let Some(wait) = self.find_covering_wait(start, position, current_cycle, missing) else {
            return self.lengthen_stalls(start, position, position, missing, cause);
        };
        // A longer stall before the waiting instruction does not help latencies that start at that instruction or after it. The cycles
        // missing for these are added directly before `position`, where they may cover the other latencies as well. The cycles still
        // missing are added before the waiting instruction.
        let (missing, cause) = self.missing_cycles(position, current_cycle, &|first| (wait..position).contains(&first));
        let added = if missing > 0 { self.lengthen_stalls(start, position, position, missing, cause) } else { 0 };
        let (missing, cause) = self.missing_cycles(position, current_cycle + added, &|_| true);
        if missing <= 0 {
            return added;
        }
        added + self.lengthen_stalls(start, wait, position, missing, cause)
    }

    /// Returns the largest number of cycles missing, for any cause, before the instruction at `position`, which would issue at time
    /// `current_cycle`, with that cause. Ignores register dependences on instructions at positions for which `counts` is false.
    fn missing_cycles(&self, position: usize, current_cycle: i64, counts: &dyn Fn(usize) -> bool) -> MissingCycles {
        let inst_accesses = &self.inst_accesses[position];
        let mut worst = (0, StallCause::MinimumStall);
        let mut report = |missing: i64, cause: StallCause| {
            if missing > worst.0 {
                worst = (missing, cause);
            }
        };
        for (list, write) in [(&inst_accesses.reads[..], false), (&inst_accesses.writes[..], true)] {
            for reg_access in list {
                for access in self.accesses[reg_access.register].iter().filter(|access| counts(access.inst as usize)) {
                    let (missing, cause) = self.cycles_missing_after(access, reg_access.port, write, current_cycle);
                    report(missing, cause);
                }
            }
        }
        self.report_missing_for_boards_and_bar(position, current_cycle, &self.last_setters, self.last_block_barrier, &mut report);
        // The number of cycles depends on the earlier instruction, which keeps the unit busy, and not on the later one, which has to wait.
        if let Some(pace) = self.rules.unit_occupation(inst_accesses.class) {
            let (at, first) = self.last_use_of_unit[usize::from(pace.unit)];
            let cycles = self.rules.unit_occupation(self.inst_accesses[first as usize].class).map_or(0, |pace| pace.cycles);
            report(i64::from(cycles) - (current_cycle - at), StallCause::Unit { first, cycles });
        }
        if inst_accesses.additional_waits == AdditionalWaits::Everything {
            // All results of fixed latency must be written when the callee starts, which is at the end of this instruction's own stall.
            let after = min_issue_distance(self.controls[position]);
            for &register in &self.used_registers {
                for access in self.accesses[register].iter().filter(|access| access.write && counts(access.inst as usize)) {
                    let cycles = i64::from(self.model.max_need_by_port(DependenceKind::Raw, register_file_of(register), access.port));
                    report(cycles - after - (current_cycle - access.issued_at), StallCause::ControlTransfer { first: access.inst });
                }
            }
        }
        worst
    }

    /// Returns the number of cycles missing between an earlier register access and a second access to the same register through `port` (the
    /// kind of access in the hardware model) at time `current_cycle`; `write` says whether the second access writes. Two reads never depend
    /// on each other.
    fn cycles_missing_after(&self, access: &TimedAccess, port: Port, write: bool, current_cycle: i64) -> MissingCycles {
        let kind = match (access.write, write) {
            (true, false) => DependenceKind::Raw,
            (false, true) => DependenceKind::War,
            (true, true) => DependenceKind::Waw,
            (false, false) => return (0, StallCause::MinimumStall),
        };
        let cycles = latency_requirement(self.model, kind, access.register, access.port, port, access.guarded).cycles;
        let cause = StallCause::Register { first: access.inst, kind, register: access.register, cycles };
        (i64::from(cycles) - (current_cycle - access.issued_at), cause)
    }

    /// Calls `report` with the number of cycles missing before an instruction, and the cause: once for each scoreboard that the instruction
    /// waits for, and once for the last thread-block barrier (`BAR`) unless the instruction may directly follow it.
    fn report_missing_for_boards_and_bar(
        &self,
        position: usize,
        current_cycle: i64,
        last_setters: &[(i64, u32); SCOREBOARD_COUNT],
        last_block_barrier: (i64, u32),
        report: &mut dyn FnMut(i64, StallCause),
    ) {
        let wait = self.controls[position].wait | self.inst_accesses[position].also_waits;
        if wait != 0 {
            for (board, &(at, first)) in last_setters.iter().enumerate().filter(|(board, _)| wait >> board & 1 == 1) {
                let seen = i64::from(self.rules.facts.scoreboard_seen);
                report(seen - (current_cycle - at), StallCause::Scoreboard { first, board: board as u8 });
            }
        }
        // Arithmetic may directly follow a thread-block barrier, unless it writes a general register: an instruction before the barrier may
        // not have read that register yet.
        let overwrites =
            self.inst_accesses[position].writes.iter().any(|reg_access| register_file_of(reg_access.register) == RegFile::General);
        if overwrites || !self.rules.may_follow_barrier(self.inst_accesses[position].class) {
            report(
                i64::from(self.rules.facts.barrier_hold) - (current_cycle - last_block_barrier.0),
                StallCause::Barrier { first: last_block_barrier.1 },
            );
        }
    }

    /// Adds `missing` stall cycles between the instruction whose latency has to pass and the instruction at `position`. First lengthens the
    /// stall directly before `place`; cycles beyond the maximum stall are added directly before `position` and then further back. Returns
    /// the number of cycles added, and records the rest as a shortfall.
    fn lengthen_stalls(&mut self, start: usize, place: usize, position: usize, missing: i64, cause: StallCause) -> i64 {
        let mut left = missing;
        // Stalls before the instruction whose latency has to pass do not count. If that instruction is at `position` or after it, it is of
        // an earlier iteration of the loop, and all stalls of the block count. The other causes need few cycles; for them only the last
        // stall is lengthened.
        let start = match cause {
            StallCause::Register { first, .. } | StallCause::ControlTransfer { first } if first as usize >= position => start,
            StallCause::Register { first, .. } | StallCause::ControlTransfer { first } => start.max(first as usize),
            _ => start.max(position - 1),
        };
        let best = Some(place - 1).filter(|&at| at >= start && place < position);
        for at in best.into_iter().chain((start..position).rev()) {
            let added = self.lengthen_stall(at, left, cause, position);
            left -= added;
            // The events of the instructions after this stall have been recorded already, with issue times that are now too early.
            if added > 0 && at + 1 < position {
                (at + 1..position).for_each(|moved| self.postpone_events(moved, added));
            }
            if left == 0 {
                return missing;
            }
        }
        self.summary.shortfalls.push(LatencyShortfall { before: position, cycles: left as u32 });
        missing - left
    }

    /// Returns the position of the last of the [`MAX_WAIT_SEARCH_INSTS`] instructions before `position` that usually waits at least
    /// `cycles` cycles for a scoreboard. `None` if there is none, or if that instruction or one after it has variable latency: a longer
    /// stall would delay the start of this latency.
    fn find_covering_wait(&self, start: usize, position: usize, current_cycle: i64, cycles: i64) -> Option<usize> {
        let mut at = current_cycle;
        for second in (start.max(position.saturating_sub(MAX_WAIT_SEARCH_INSTS)) + 1..position).rev() {
            at -= min_issue_distance(self.controls[second]);
            let inst_accesses = &self.inst_accesses[second];
            if inst_accesses.late_results || inst_accesses.late_reads {
                return None;
            }
            if self.usual_wait_cycles(start, second, at) >= cycles {
                return Some(second);
            }
        }
        None
    }

    /// Returns the number of cycles that instruction `second` usually waits for scoreboards that instructions of its block have set; `at`
    /// is the time at which it could issue without its wait mask. `start` is the first instruction of the block.
    fn usual_wait_cycles(&self, start: usize, second: usize, at: i64) -> i64 {
        let wait = self.controls[second].wait;
        let boards = (0..SCOREBOARD_COUNT).filter(|board| wait >> board & 1 == 1);
        let left = boards.map(|board| {
            let (last_setters, first) = self.last_setters[board];
            if !(start..second).contains(&(first as usize)) || last_setters < 0 {
                return 0;
            }
            let is_result = self.controls[first as usize].write_barrier == Some(board as u8);
            let time = self.model.time(self.inst_accesses[first as usize].class);
            last_setters + time.map_or(0, |time| i64::from(if is_result { time.usual } else { time.read })) - at
        });
        left.max().unwrap_or(0)
    }

    /// Adds up to `missing` cycles to the stall of the instruction at position `at`, but not beyond the maximum stall. Returns the number
    /// of cycles added, which are recorded with `cause` and with `second`, the position of the instruction that must not issue earlier. An
    /// opcode that must have a stall of 0 keeps it.
    fn lengthen_stall(&mut self, at: usize, missing: i64, cause: StallCause, second: usize) -> i64 {
        if self.rules.requirements(self.inst_accesses[at].opcode).yields_with_stall_0 {
            return 0;
        }
        let stall = &mut self.controls[at].stall;
        let cap = self.rules.facts.stall_cap as i64;
        let added = missing.min(cap - i64::from(*stall));
        *stall += added as u8;
        if added > 0 && !self.summary.parts.is_empty() {
            add_stall_part(&mut self.summary.parts[at], StallPart { cycles: added as u8, cause, second: second as u32 });
        }
        added
    }

    /// Makes the recorded issue times of an instruction of this block later by `cycles`, because a stall before it has grown.
    fn postpone_events(&mut self, position: usize, cycles: i64) {
        let first = position as u32;
        let inst_accesses = &self.inst_accesses[position];
        let mut registers: SmallVec<[Register; 16]> =
            inst_accesses.reads.iter().chain(&inst_accesses.writes).map(|reg_access| reg_access.register).collect();
        // Visit each register once: the access list of a register that the instruction both reads and writes has both accesses, and each of
        // them may be postponed only once.
        registers.sort_unstable();
        registers.dedup();
        for register in registers {
            for access in self.accesses[register].iter_mut().filter(|access| access.inst == first) {
                access.issued_at += cycles;
            }
        }
        for last_setters in self
            .last_setters
            .iter_mut()
            .chain([&mut self.last_block_barrier])
            .chain(&mut self.last_use_of_unit)
            .filter(|last_setters| last_setters.1 == first)
        {
            last_setters.0 += cycles;
        }
    }

    /// Lengthens the last stall of block `before`, a predecessor of the loop header `block`, so that latencies which start outside of the
    /// loop have passed where the header depends on them, given the header's present stalls. Returns the number of cycles added. Cycles
    /// beyond the maximum stall are added inside the loop later.
    pub(super) fn lengthen_before_loop(&mut self, before: usize, block: usize, state: &BlockEndState) -> i64 {
        let Some(last) = self.code.blocks[before].range.clone().last() else { return 0 };
        let max_delay_cycles =
            state.accesses.iter().map(|access| max_delay_cycles(self.model, access) - access.issued_at).max().unwrap_or(0);
        let (mut worst, mut second) = ((0, StallCause::MinimumStall), 0);
        let mut current_cycle = 0;
        for position in self.code.blocks[block].range.clone() {
            if current_cycle >= max_delay_cycles {
                break;
            }
            let inst_accesses = &self.inst_accesses[position];
            for (list, write) in [(&inst_accesses.reads[..], false), (&inst_accesses.writes[..], true)] {
                for reg_access in list {
                    // The accesses are sorted by register.
                    let from = state.accesses.partition_point(|access| access.register < reg_access.register);
                    for access in state.accesses[from..].iter().take_while(|access| access.register == reg_access.register) {
                        let (missing, cause) = self.cycles_missing_after(
                            &TimedAccess { issued_at: -access.issued_at, ..*access },
                            reg_access.port,
                            write,
                            current_cycle,
                        );
                        if missing > worst.0 {
                            (worst, second) = ((missing, cause), position);
                        }
                    }
                }
            }
            current_cycle += min_issue_distance(self.controls[position]);
        }
        let (missing, cause) = worst;
        if missing > 0 { self.lengthen_stall(last, missing, cause, second) } else { 0 }
    }

    /// Lengthens the last stall of block `before` until the instruction at `position`, the first one of a successor, may issue. Returns the
    /// number of cycles added; records cycles beyond the maximum stall as a shortfall.
    pub(super) fn lengthen_last_stall(&mut self, before: usize, position: usize, state: &BlockEndState) -> i64 {
        let inst_accesses = &self.inst_accesses[position];
        let mut worst = (0, StallCause::MinimumStall);
        let mut report = |missing: i64, cause: StallCause| {
            if missing > worst.0 {
                worst = (missing, cause);
            }
        };
        for access in &state.accesses {
            let access = TimedAccess { issued_at: -access.issued_at, ..*access };
            for (list, write) in [(&inst_accesses.reads[..], false), (&inst_accesses.writes[..], true)] {
                for reg_access in list.iter().filter(|reg_access| reg_access.register == access.register) {
                    let (missing, cause) = self.cycles_missing_after(&access, reg_access.port, write, 0);
                    report(missing, cause);
                }
            }
            if inst_accesses.additional_waits == AdditionalWaits::Everything && access.write {
                let cycles = i64::from(self.model.max_need_by_port(DependenceKind::Raw, register_file_of(access.register), access.port));
                report(
                    cycles - min_issue_distance(self.controls[position]) + access.issued_at,
                    StallCause::ControlTransfer { first: access.inst },
                );
            }
        }
        let last_setters = state.last_setters.map(|(age, first)| (-age, first));
        self.report_missing_for_boards_and_bar(
            position,
            0,
            &last_setters,
            (-state.last_block_barrier.0, state.last_block_barrier.1),
            &mut report,
        );
        let (missing, cause) = worst;
        if missing <= 0 {
            return 0;
        }
        let added = self.code.blocks[before].range.clone().last().map_or(0, |last| self.lengthen_stall(last, missing, cause, position));
        if added < missing {
            self.summary.shortfalls.push(LatencyShortfall { before: position, cycles: (missing - added) as u32 });
        }
        added
    }
}

/// Adds a part to the parts of a stall. A block may be walked several times, so cycles with the same cause are added to an existing part.
fn add_stall_part(parts: &mut StallParts, part: StallPart) {
    match parts.iter_mut().find(|known| known.cause == part.cause && known.second == part.second) {
        Some(known) => known.cycles += part.cycles,
        None => parts.push(part),
    }
}

/// Returns the minimum number of cycles from the issue of an instruction with this control word to the issue of the next one. A stall of 0
/// takes two cycles (measured).
fn min_issue_distance(control: Control) -> i64 {
    if control.stall == 0 { 2 } else { control.stall.into() }
}
