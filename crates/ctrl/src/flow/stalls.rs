//! Computes stall cycles so that every fixed latency has passed on every path.
//!
//! **Input:** the code in its final order, its register accesses, the latencies of the hardware model, and control words with scoreboards.
//! **Output:** the stall of each control word, and the instructions before which no stall is long enough ([`Shortfall`]).
//!
//! The stall of an instruction is the number of cycles until the next one issues, so the distance of two instructions is the sum of the
//! stalls from the first to the one before the second. Where this is less than the latency, the stall directly before the second
//! instruction is lengthened. For the first instruction of a block, the last stall of each predecessor on whose path cycles are missing is
//! lengthened. Blocks are walked until nothing changes. Stalls only grow and are bounded by 15 cycles, so this terminates.
//!
//! In two cases it is cheaper to lengthen another stall than the one directly before the second instruction:
//!
//! - the stall before an earlier instruction that waits for a scoreboard, if it usually waits at least as long: the cycles pass while the
//!   warp would wait anyway;
//! - the stall before a loop, for latencies that start outside of the loop: there the cycles are spent once, and not in every iteration.
//!
//! Example; a predicate can be used as a guard 13 cycles after the comparison that writes it:
//!
//! ```text
//! 0  LDG R0, [R2]              stall 1, sets SB0
//! 1  ISETP P0, PT, R4, R5      stall 11    the missing cycles are added here ...
//! 2  IADD3 R6, R0, R5          stall 2     ... and not here: this one waits for SB0 anyway, usually far longer
//! 3  @P0 IADD3 R7, R5, R5      issues at least 13 cycles after 1
//! ```
//!
//! Besides register dependences, there are four reasons for stalls:
//!
//! - A unit is busy for some cycles with each instruction. The hardware would delay the next one by itself; but then later stalls, which
//!   were computed without that delay, would be longer than necessary.
//! - An instruction that waits for a scoreboard sees it only some cycles after it was set.
//! - After a thread-block barrier (`BAR`), only arithmetic that overwrites no general register may issue for some cycles.
//! - Some opcodes need a minimum stall, regardless of the next instruction.
//!
//! Hennessy and Gross 1983 ("Postpass Code Optimization of Pipeline Constraints") describe the same task for a machine without interlocks:
//! the latest accesses of each register are tracked with their age, and `NOP`s are inserted where an age is too low. The departures: the
//! distance is a field of the instruction and not a number of `NOP`s; ages are tracked over the edges of the control-flow graph, and not
//! only within basic blocks; and instructions are not reordered here, because the order is already final.
//!
//! Departure from the published description of ptxas: fixed latencies of any length are covered by stalls, of several instructions if need
//! be, and not only those up to 15 cycles.
//!
//! Cost: for each register and port only the last access is kept, and only until its latency has passed, so one walk is linear in the
//! length of the code.

use std::iter::repeat_with;

use oriole_hardware::units::Unit;
use oriole_hardware::{ControlRules, DependenceKind, Model, Port};
use oriole_isa::{Control, Opcode, RegFile};
use smallvec::{SmallVec, smallvec};

use super::MachineCode;
use super::control_flow::{MachineControlFlow, Worklist};
use super::reg_access::{Drain, InstAccesses, REGISTERS, Register, file_of, latency_requirement};

/// The reason for cycles of an instruction's stall. `first` is the position in the code of the instruction whose latency has to pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StallCause {
    /// The minimum stall of the opcode.
    MinimumStall,
    /// A dependence on a register: `cycles` have to pass between the first instruction and the one after the stall.
    Register { first: u32, kind: DependenceKind, register: Register, cycles: u8 },
    /// The instruction after the stall waits for a scoreboard that the first one has just set.
    Scoreboard { first: u32, board: u8 },
    /// The first instruction is a thread-block barrier (`BAR`), which takes effect some cycles after its issue.
    Barrier { first: u32 },
    /// The first instruction keeps the unit of the one after the stall busy for `cycles`.
    Unit { first: u32, cycles: u8 },
    /// The instruction after the stall transfers control to code that was compiled without knowledge of the latency of the first
    /// instruction.
    ControlTransfer { first: u32 },
}

/// The share of one cause in the cycles of a stall. The parts of a stall add up to the stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StallPart {
    /// Number of cycles.
    pub cycles: u8,
    /// Why the cycles are needed.
    pub cause: StallCause,
    /// Position of the instruction that must not issue earlier: the one directly after the stall or a later one. For
    /// [`StallCause::MinimumStall`], the instruction with the stall.
    pub second: u32,
}

/// The parts of one stall, in the order in which they were added. The first is the minimum stall of the opcode.
pub type StallParts = SmallVec<[StallPart; 2]>;

/// A latency that the stalls cannot cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// Position of the instruction that would issue too early.
    pub before: usize,
    /// Number of cycles that are missing before it.
    pub cycles: u32,
}

/// The last access to a register through a port, whose latency may not have passed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TimedAccess {
    /// The register.
    register: Register,
    /// The port of the hardware model, which latencies depend on.
    port: Port,
    /// Whether the register is written; otherwise it is read.
    write: bool,
    /// Whether the instruction has a guard; some latencies are longer then.
    guarded: bool,
    /// Cycle of issue, counted from the start of the block. In a [`BlockEndState`] it is the age instead: the number of cycles since the
    /// issue.
    issued_at: i64,
    /// Position of the instruction in the code.
    inst: u32,
}

impl TimedAccess {
    /// Returns whether the access makes the older access `other` irrelevant: both need the same distance to any later access.
    fn supersedes(&self, other: &TimedAccess) -> bool {
        (self.register, self.port, self.write, self.guarded) == (other.register, other.port, other.write, other.guarded)
    }
}

/// Maximum number of instructions to search backward for one that waits for a scoreboard and hides a stall before it.
const MAX_SEARCH: usize = 16;
/// An age in cycles after which no event has an effect.
const LONG_AGO: i64 = 1 << 20;
/// Number of scoreboards, one for each bit of a wait mask.
const BOARDS: usize = 6;

/// The recent events at the end of a block that may affect later blocks. All times are ages: cycles before the end of the block.
#[derive(Clone, Debug, PartialEq, Eq)]
struct BlockEndState {
    /// Accesses whose latency may not have passed, sorted by register.
    accesses: Vec<TimedAccess>,
    /// For each scoreboard: age of the last instruction that set it, and the position of that instruction.
    last_set: [(i64, u32); BOARDS],
    /// Age of the last thread-block barrier (`BAR`), and the position of that instruction.
    last_bar: (i64, u32),
}

impl BlockEndState {
    /// Returns the state before any event.
    fn new() -> BlockEndState {
        BlockEndState { accesses: Vec::new(), last_set: [(LONG_AGO, 0); BOARDS], last_bar: (LONG_AGO, 0) }
    }

    /// Adds the events of another path. Duplicate accesses are removed when the block is walked; the youngest one is kept.
    fn merge(&mut self, other: &BlockEndState) {
        self.accesses.extend(&other.accesses);
        for (one, two) in self.last_set.iter_mut().zip(&other.last_set) {
            *one = (*one).min(*two);
        }
        self.last_bar = self.last_bar.min(other.last_bar);
    }

    /// Makes all events `cycles` older, and removes events that can have no effect any more.
    fn add_age(&mut self, cycles: i64, model: &Model) {
        for access in &mut self.accesses {
            access.issued_at += cycles;
        }
        self.accesses.retain(|access| access.issued_at < effect_cycles(model, access));
        for (at, _) in self.last_set.iter_mut().chain([&mut self.last_bar]) {
            *at = (*at + cycles).min(LONG_AGO);
        }
    }
}

/// Returns the number of cycles after which an access affects no later instruction.
fn effect_cycles(model: &Model, access: &TimedAccess) -> i64 {
    let file = file_of(access.register);
    let cycles = if access.write {
        model.max_need_by_port(DependenceKind::Raw, file, access.port).max(model.max_need_by_port(DependenceKind::Waw, file, access.port))
    } else {
        model.max_need_by_port(DependenceKind::War, file, access.port)
    };
    cycles.into()
}

/// The result of [`compute_stalls`] besides the stalls.
#[derive(Debug, Default)]
pub struct StallSummary {
    /// Latencies that the stalls cannot cover, sorted by instruction; at most one for each instruction.
    pub shortfalls: Vec<Shortfall>,
    /// For each instruction, the parts of its stall; empty unless requested.
    pub parts: Vec<StallParts>,
}

/// For hardware with dual issue: finds pairs of consecutive instructions on different units without a minimum stall, and sets the stall of
/// the first one to 0, so that both issue in one cycle. A dependence between the two lengthens the stall again later.
fn allow_pairs(code: &MachineCode<'_>, inst_accesses: &[InstAccesses], rules: &ControlRules, controls: &mut [Control]) {
    let may_pair = |inst: &InstAccesses| {
        let wants = rules.requirements(inst.opcode);
        !wants.yields_with_stall_0 && u32::from(wants.least_stall) <= rules.facts.least_stall && inst.class.unit() != Unit::Branch
    };
    for block in &code.blocks {
        let mut at = block.range.start;
        while at + 1 < block.range.end {
            let (first, second) = (&inst_accesses[at], &inst_accesses[at + 1]);
            let is_pair = may_pair(first) && may_pair(second) && first.class.unit() != second.class.unit();
            // A dependence between the two lengthens the stall, which ends the pair.
            let depends = first
                .writes
                .iter()
                .any(|written| second.reads.iter().chain(&second.writes).any(|other| other.register == written.register));
            if is_pair && !depends && controls[at + 1].wait == 0 {
                controls[at].stall = 0;
                at += 1;
            }
            at += 1;
        }
    }
}

/// Sets the stalls of all control words so that every fixed latency has passed on every path. Records the causes if `with_causes`.
pub(crate) fn compute_stalls(
    code: &MachineCode<'_>,
    control_flow: &MachineControlFlow,
    inst_accesses: &[InstAccesses],
    model: &Model,
    rules: &ControlRules,
    controls: &mut [Control],
    with_causes: bool,
) -> StallSummary {
    // Start from the minimum stalls; they only grow from here on.
    for (control, inst) in controls.iter_mut().zip(inst_accesses) {
        let wants = rules.requirements(inst.opcode);
        control.stall = if wants.yields_with_stall_0 { 0 } else { wants.least_stall };
    }
    if rules.dual_issue {
        allow_pairs(code, inst_accesses, rules, controls);
    }
    let own = |(position, control): (usize, &Control)| -> StallParts {
        smallvec![StallPart { cycles: control.stall, cause: StallCause::MinimumStall, second: position as u32 }]
    };
    let parts = if with_causes { controls.iter().enumerate().map(own).collect() } else { Vec::new() };
    let mut walker = StallWalker {
        code,
        inst_accesses,
        model,
        rules,
        controls,
        // `vec!` would clone an empty list for each register, which takes ten times as long.
        accesses: repeat_with(SmallVec::new).take(REGISTERS).collect(),
        used_registers: Vec::new(),
        last_set: [(-LONG_AGO, 0); BOARDS],
        last_bar: (-LONG_AGO, 0),
        last_use_of_unit: vec![(-LONG_AGO, 0); rules.paced_units()],
        summary: StallSummary { shortfalls: Vec::new(), parts },
    };
    let mut left: Vec<Option<BlockEndState>> = vec![None; code.blocks.len()];
    let mut worklist = Worklist::new(code.blocks.len());
    control_flow.roots.iter().for_each(|&root| worklist.push(root));
    while let Some(block) = worklist.pop() {
        let first = code.blocks[block].range.clone().next();
        let mut entry = BlockEndState::new();
        let enters_loop = |before: u32| control_flow.depth_of_block(before as usize) < control_flow.depth_of_block(block);
        if left[block].is_none() && control_flow.predecessors[block].iter().any(|&before| enters_loop(before)) {
            // At the first visit to a loop, set the stalls that the loop needs by itself. Otherwise `lengthen_before_loop` would add cycles
            // before the loop that its own stalls cover anyway.
            walker.walk(block, &entry);
        }
        for &before in &control_flow.predecessors[block] {
            let before = before as usize;
            // A predecessor that has not been walked yet, on a back edge, adds this block to the worklist again later.
            let Some(state) = &mut left[before] else { continue };
            let mut grown = first.map_or(0, |first| walker.lengthen_last_stall(before, first, state));
            state.add_age(grown, model);
            if enters_loop(before as u32) {
                let more = walker.lengthen_before_loop(before, block, state);
                state.add_age(more, model);
                grown += more;
            }
            // A longer stall at the end of the predecessor makes its events older for its other successors too.
            if grown > 0 {
                code.blocks[before].successors.iter().for_each(|&next| worklist.push(next));
            }
            entry.merge(state);
        }
        let state = walker.walk(block, &entry);
        if left[block].as_ref() != Some(&state) {
            left[block] = Some(state);
            code.blocks[block].successors.iter().for_each(|&next| worklist.push(next));
        }
    }
    // Several walks may report the same instruction; the largest number of missing cycles counts.
    let mut summary = walker.summary;
    summary.shortfalls.sort_unstable_by_key(|one| (one.before, std::cmp::Reverse(one.cycles)));
    summary.shortfalls.dedup_by_key(|one| one.before);
    summary
}

/// State of the walk over the blocks.
struct StallWalker<'a> {
    /// The code in its final order.
    code: &'a MachineCode<'a>,
    /// For each instruction, its register accesses.
    inst_accesses: &'a [InstAccesses],
    /// The hardware model with the latencies.
    model: &'a Model,
    /// The control rules of the target.
    rules: &'a ControlRules,
    /// For each instruction, its control word, whose stall is computed.
    controls: &'a mut [Control],
    /// For each register: its recent accesses. Times in this struct are cycles from the start of the block; negative for earlier blocks.
    accesses: Vec<SmallVec<[TimedAccess; 4]>>,
    /// Registers whose lists may have entries, to clear them before the next block.
    used_registers: Vec<Register>,
    /// For each scoreboard: issue time and position of the last instruction that set it.
    last_set: [(i64, u32); BOARDS],
    /// Issue time and position of the last thread-block barrier (`BAR`).
    last_bar: (i64, u32),
    /// For each unit: issue time and position of the last instruction of this block that uses it.
    last_use_of_unit: Vec<(i64, u32)>,
    /// The shortfalls and stall parts found so far.
    summary: StallSummary,
}

/// Number of cycles missing before an instruction may issue, and the cause; 0 or negative if none are missing.
type MissingCycles = (i64, StallCause);

impl StallWalker<'_> {
    /// Walks a block from the given state and lengthens its stalls where cycles are missing. Returns the state at its end.
    fn walk(&mut self, block: usize, entry: &BlockEndState) -> BlockEndState {
        for register in self.used_registers.drain(..) {
            self.accesses[usize::from(register)].clear();
        }
        for access in &entry.accesses {
            self.record_access(TimedAccess { issued_at: -access.issued_at, ..*access });
        }
        self.last_set = entry.last_set.map(|(age, first)| (-age, first));
        self.last_bar = (-entry.last_bar.0, entry.last_bar.1);
        self.last_use_of_unit.fill((-LONG_AGO, 0));
        let range = self.code.blocks[block].range.clone();
        let mut current_cycle: i64 = 0;
        for position in range.clone() {
            // Cycles missing before the first instruction were added to the predecessors.
            if position > range.start {
                current_cycle += self.add_missing_stalls(range.start, position, current_cycle);
            }
            self.record_issue(position, current_cycle);
            current_cycle += min_issue_distance(self.controls[position]);
        }
        self.exit_state(current_cycle)
    }

    /// Returns the state at time `current_cycle`, the end of the block. Events that can have no effect any more all get the age
    /// [`LONG_AGO`], so that equivalent states compare equal and the iteration terminates.
    fn exit_state(&mut self, current_cycle: i64) -> BlockEndState {
        let mut state = BlockEndState::new();
        self.used_registers.sort_unstable();
        self.used_registers.dedup();
        for &register in &self.used_registers {
            for access in &self.accesses[usize::from(register)] {
                let age = current_cycle - access.issued_at;
                if age < effect_cycles(self.model, access) {
                    state.accesses.push(TimedAccess { issued_at: age, ..*access });
                }
            }
        }
        let aged = |(at, first): (i64, u32), max_age: u32| {
            let age = current_cycle - at;
            if age < i64::from(max_age) { (age, first) } else { (LONG_AGO, 0) }
        };
        state.last_set = self.last_set.map(|last_set| aged(last_set, self.rules.facts.scoreboard_seen));
        state.last_bar = aged(self.last_bar, self.rules.facts.barrier_hold);
        state
    }

    /// Adds an access to the list of its register. Replaces an older access through the same port.
    fn record_access(&mut self, access: TimedAccess) {
        let list = &mut self.accesses[usize::from(access.register)];
        if list.is_empty() {
            self.used_registers.push(access.register);
        }
        match list.iter_mut().find(|other| access.supersedes(other)) {
            Some(other) if other.issued_at < access.issued_at => *other = access,
            Some(_) => {}
            None => list.push(access),
        }
    }

    /// Records the register accesses and other events of an instruction that issues at time `current_cycle`.
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
            if let Some(last_set) = self.last_set.get_mut(usize::from(board)) {
                *last_set = (current_cycle, first);
            }
        }
        if inst_accesses.opcode == Opcode::BAR {
            self.last_bar = (current_cycle, first);
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
        // A stall before the wait does not help latencies that start at the wait or after it. Their cycles are added directly before the
        // instruction, and may cover the other latencies as well. The rest is added before the wait.
        let (missing, cause) = self.missing_cycles(position, current_cycle, &|first| (wait..position).contains(&first));
        let added = if missing > 0 { self.lengthen_stalls(start, position, position, missing, cause) } else { 0 };
        let (missing, cause) = self.missing_cycles(position, current_cycle + added, &|_| true);
        if missing <= 0 {
            return added;
        }
        added + self.lengthen_stalls(start, wait, position, missing, cause)
    }

    /// Returns the largest number of cycles missing before an instruction that would issue at `current_cycle`. Register dependences on
    /// instructions for which `counts` is false are ignored.
    fn missing_cycles(&self, position: usize, current_cycle: i64, counts: &dyn Fn(usize) -> bool) -> MissingCycles {
        let inst_accesses = &self.inst_accesses[position];
        let mut worst = (0, StallCause::MinimumStall);
        let mut hold = |missing: i64, cause: StallCause| {
            if missing > worst.0 {
                worst = (missing, cause);
            }
        };
        for (list, write) in [(&inst_accesses.reads[..], false), (&inst_accesses.writes[..], true)] {
            for reg_access in list {
                for access in self.accesses[usize::from(reg_access.register)].iter().filter(|access| counts(access.inst as usize)) {
                    let (missing, cause) = self.missing_for_access(access, reg_access.port, write, current_cycle);
                    hold(missing, cause);
                }
            }
        }
        self.missing_for_boards_and_bar(position, current_cycle, &self.last_set, self.last_bar, &mut hold);
        // The distance depends on the instruction that keeps the unit busy, not on the one that has to wait.
        if let Some(pace) = self.rules.unit_occupation(inst_accesses.class) {
            let (at, first) = self.last_use_of_unit[usize::from(pace.unit)];
            let cycles = self.rules.unit_occupation(self.inst_accesses[first as usize].class).map_or(0, |pace| pace.cycles);
            hold(i64::from(cycles) - (current_cycle - at), StallCause::Unit { first, cycles });
        }
        if inst_accesses.drain == Drain::Everything {
            // All fixed-latency results must be there when the callee starts, which is at the end of this instruction's own stall.
            let after = min_issue_distance(self.controls[position]);
            for &register in &self.used_registers {
                for access in self.accesses[usize::from(register)].iter().filter(|access| access.write && counts(access.inst as usize)) {
                    let cycles = i64::from(self.model.max_need_by_port(DependenceKind::Raw, file_of(register), access.port));
                    hold(cycles - after - (current_cycle - access.issued_at), StallCause::ControlTransfer { first: access.inst });
                }
            }
        }
        worst
    }

    /// Returns the cycles missing between an earlier access and one at `current_cycle` through `port`. Two reads never depend on each
    /// other.
    fn missing_for_access(&self, access: &TimedAccess, port: Port, write: bool, current_cycle: i64) -> MissingCycles {
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

    /// Calls `hold` with the cycles missing before an instruction, and the cause: once for each scoreboard just set, and once for a
    /// thread-block barrier.
    fn missing_for_boards_and_bar(
        &self,
        position: usize,
        current_cycle: i64,
        last_set: &[(i64, u32); BOARDS],
        last_bar: (i64, u32),
        hold: &mut dyn FnMut(i64, StallCause),
    ) {
        let wait = self.controls[position].wait;
        if wait != 0 {
            for (board, &(at, first)) in last_set.iter().enumerate().filter(|(board, _)| wait >> board & 1 == 1) {
                let seen = i64::from(self.rules.facts.scoreboard_seen);
                hold(seen - (current_cycle - at), StallCause::Scoreboard { first, board: board as u8 });
            }
        }
        // Arithmetic may follow a barrier directly, but not if it overwrites a register: an instruction before the barrier may not have
        // read it yet.
        let overwrites = self.inst_accesses[position].writes.iter().any(|reg_access| file_of(reg_access.register) == RegFile::General);
        if overwrites || !self.rules.may_follow_barrier(self.inst_accesses[position].class) {
            hold(i64::from(self.rules.facts.barrier_hold) - (current_cycle - last_bar.0), StallCause::Barrier { first: last_bar.1 });
        }
    }

    /// Adds `missing` stall cycles between the instruction whose latency has to pass and the instruction at `position`. First lengthens the
    /// stall directly before `place`; cycles beyond the maximum stall are added directly before `position` and then further back. Returns
    /// the number of cycles added, and records the rest as a shortfall.
    fn lengthen_stalls(&mut self, start: usize, place: usize, position: usize, missing: i64, cause: StallCause) -> i64 {
        let mut left = missing;
        // Stalls before the instruction whose latency has to pass do not count. If that instruction is at `position` or after it, it is of an
        // earlier iteration of the loop, and all stalls of the block count. The other causes need few cycles; for them only the last stall is
        // lengthened.
        let start = match cause {
            StallCause::Register { first, .. } | StallCause::ControlTransfer { first } if first as usize >= position => start,
            StallCause::Register { first, .. } | StallCause::ControlTransfer { first } => start.max(first as usize),
            _ => start.max(position - 1),
        };
        let best = Some(place - 1).filter(|&at| at >= start && place < position);
        for at in best.into_iter().chain((start..position).rev()) {
            let added = self.lengthen_stall(at, left, cause, position);
            left -= added;
            // The instructions after this stall have been recorded already, and now issue later.
            if added > 0 && at + 1 < position {
                (at + 1..position).for_each(|moved| self.postpone_events(moved, added));
            }
            if left == 0 {
                return missing;
            }
        }
        self.summary.shortfalls.push(Shortfall { before: position, cycles: left as u32 });
        missing - left
    }

    /// Returns the last of the [`MAX_SEARCH`] instructions before `position` that usually waits at least `cycles` for a scoreboard. `None`
    /// if there is none, or if a variable-latency instruction comes between the two: a longer stall would delay that instruction.
    fn find_covering_wait(&self, start: usize, position: usize, current_cycle: i64, cycles: i64) -> Option<usize> {
        let mut at = current_cycle;
        for second in (start.max(position.saturating_sub(MAX_SEARCH)) + 1..position).rev() {
            at -= min_issue_distance(self.controls[second]);
            let inst_accesses = &self.inst_accesses[second];
            if inst_accesses.late_results || inst_accesses.late_reads {
                return None;
            }
            if self.usual_wait(start, second, at) >= cycles {
                return Some(second);
            }
        }
        None
    }

    /// Returns the number of cycles that instruction `second`, which comes up for issue at time `at`, usually waits for scoreboards that
    /// instructions of its block have set. `start` is the first instruction of the block.
    fn usual_wait(&self, start: usize, second: usize, at: i64) -> i64 {
        let wait = self.controls[second].wait;
        let boards = (0..BOARDS).filter(|board| wait >> board & 1 == 1);
        let left = boards.map(|board| {
            let (last_set, first) = self.last_set[board];
            if !(start..second).contains(&(first as usize)) || last_set < 0 {
                return 0;
            }
            let is_result = self.controls[first as usize].write_barrier == Some(board as u8);
            let time = self.model.time(self.inst_accesses[first as usize].class);
            last_set + time.map_or(0, |time| i64::from(if is_result { time.usual } else { time.read })) - at
        });
        left.max().unwrap_or(0)
    }

    /// Adds up to `missing` cycles to the stall of instruction `at`, up to the maximum stall, because instruction `second` must not issue
    /// earlier. Returns the number of cycles added.
    fn lengthen_stall(&mut self, at: usize, missing: i64, cause: StallCause, second: usize) -> i64 {
        if self.rules.requirements(self.inst_accesses[at].opcode).yields_with_stall_0 {
            return 0;
        }
        let stall = &mut self.controls[at].stall;
        let cap = self.rules.facts.stall_cap as i64;
        let added = missing.min(cap - i64::from(*stall));
        *stall += added as u8;
        if added > 0 && !self.summary.parts.is_empty() {
            add_part(&mut self.summary.parts[at], StallPart { cycles: added as u8, cause, second: second as u32 });
        }
        added
    }

    /// Moves the recorded events of an instruction of this block to a later time, because a stall before it has grown.
    fn postpone_events(&mut self, position: usize, cycles: i64) {
        let first = position as u32;
        let inst_accesses = &self.inst_accesses[position];
        let mut registers: SmallVec<[Register; 16]> =
            inst_accesses.reads.iter().chain(&inst_accesses.writes).map(|reg_access| reg_access.register).collect();
        // Each register once: the list of a register that is both read and written has both accesses, and each may only move once.
        registers.sort_unstable();
        registers.dedup();
        for register in registers {
            for access in self.accesses[usize::from(register)].iter_mut().filter(|access| access.inst == first) {
                access.issued_at += cycles;
            }
        }
        for last_set in
            self.last_set.iter_mut().chain([&mut self.last_bar]).chain(&mut self.last_use_of_unit).filter(|last_set| last_set.1 == first)
        {
            last_set.0 += cycles;
        }
    }

    /// Lengthens the last stall of block `before` so that latencies that start outside of the loop have passed where the loop header
    /// `block` depends on them, given the header's present stalls. Returns the number of cycles added. Cycles beyond the maximum stall are
    /// added inside the loop later.
    fn lengthen_before_loop(&mut self, before: usize, block: usize, state: &BlockEndState) -> i64 {
        let Some(last) = self.code.blocks[before].range.clone().last() else { return 0 };
        let effect_cycles = state.accesses.iter().map(|access| effect_cycles(self.model, access) - access.issued_at).max().unwrap_or(0);
        let (mut worst, mut second) = ((0, StallCause::MinimumStall), 0);
        let mut current_cycle = 0;
        for position in self.code.blocks[block].range.clone() {
            if current_cycle >= effect_cycles {
                break;
            }
            let inst_accesses = &self.inst_accesses[position];
            for (list, write) in [(&inst_accesses.reads[..], false), (&inst_accesses.writes[..], true)] {
                for reg_access in list {
                    // The accesses are sorted by register.
                    let from = state.accesses.partition_point(|access| access.register < reg_access.register);
                    for access in state.accesses[from..].iter().take_while(|access| access.register == reg_access.register) {
                        let (missing, cause) = self.missing_for_access(
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
    /// number of cycles added, and records the rest as a shortfall.
    fn lengthen_last_stall(&mut self, before: usize, position: usize, state: &BlockEndState) -> i64 {
        let inst_accesses = &self.inst_accesses[position];
        let mut worst = (0, StallCause::MinimumStall);
        let mut hold = |missing: i64, cause: StallCause| {
            if missing > worst.0 {
                worst = (missing, cause);
            }
        };
        for access in &state.accesses {
            let access = TimedAccess { issued_at: -access.issued_at, ..*access };
            for (list, write) in [(&inst_accesses.reads[..], false), (&inst_accesses.writes[..], true)] {
                for reg_access in list.iter().filter(|reg_access| reg_access.register == access.register) {
                    let (missing, cause) = self.missing_for_access(&access, reg_access.port, write, 0);
                    hold(missing, cause);
                }
            }
            if inst_accesses.drain == Drain::Everything && access.write {
                let cycles = i64::from(self.model.max_need_by_port(DependenceKind::Raw, file_of(access.register), access.port));
                hold(
                    cycles - min_issue_distance(self.controls[position]) + access.issued_at,
                    StallCause::ControlTransfer { first: access.inst },
                );
            }
        }
        let last_set = state.last_set.map(|(age, first)| (-age, first));
        self.missing_for_boards_and_bar(position, 0, &last_set, (-state.last_bar.0, state.last_bar.1), &mut hold);
        let (missing, cause) = worst;
        if missing <= 0 {
            return 0;
        }
        let added = self.code.blocks[before].range.clone().last().map_or(0, |last| self.lengthen_stall(last, missing, cause, position));
        if added < missing {
            self.summary.shortfalls.push(Shortfall { before: position, cycles: (missing - added) as u32 });
        }
        added
    }
}

/// Adds a part to a stall. A block may be walked several times; cycles with the same cause become one part.
fn add_part(parts: &mut StallParts, part: StallPart) {
    match parts.iter_mut().find(|known| known.cause == part.cause && known.second == part.second) {
        Some(known) => known.cycles += part.cycles,
        None => parts.push(part),
    }
}

/// Returns the minimum number of cycles until the next instruction issues. A stall of 0 takes two cycles (measured).
fn min_issue_distance(control: Control) -> i64 {
    if control.stall == 0 { 2 } else { control.stall.into() }
}
