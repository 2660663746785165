//! The walk over one block: keeps the set of instructions that may be in flight, and finds those that each instruction has to wait for.

use oriole_hardware::{DependenceKind, Model};
use oriole_isa::{Effect, Opcode};
use smallvec::SmallVec;

use super::super::reg_access::{AdditionalWaits, InstAccesses, RegAccess, Register, latency_requirement};
use super::super::register_table::RegisterTable;
use super::wait::{CarriedInst, Wait, WaitCause, WaitedEvent};

/// Maximum number of in-flight readers of one register, and of its in-flight writers. If there are as many, the next one waits for the
/// oldest one.
const MAX_IN_FLIGHT_PER_REGISTER: usize = 16;
/// If more instructions than this are in flight at the start of a block, [`WaitWalker::limit_carried_accesses`] makes the first instruction
/// of the block wait for most of them.
const MAX_INSTS_CARRIED_INTO_BLOCK: usize = 128;
/// Number of in-flight readers, and also of in-flight writers, that remain for each register when there are too many at the start of a
/// block: one for each of two joining paths. The first instruction of the block waits for the others.
const ACCESSES_KEPT_PER_REGISTER: usize = 2;
/// Maximum number of in-flight loads without a destination register. If there are as many, the next one waits for the oldest one.
const MAX_LOADS_WITHOUT_RESULT: usize = 8;
/// Upper bound on the number of in-order groups in the hardware tables.
const MAX_IN_ORDER_GROUPS: usize = 32;

/// Number of predicate registers of a thread, PT included.
const PREDICATE_COUNT: usize = 8;
/// The [`Register`] number of the first predicate.
const FIRST_PREDICATE_NUMBER: usize = 256;

/// An instruction that was put in flight during the walk over one block. It stays in [`WaitWalker::tracked_insts`] after it is done.
#[derive(Clone, Copy, Debug)]
struct InFlightInst {
    /// Position of the instruction in the code.
    position: u32,
    /// Position in the order of issue within the block; 0 for an instruction carried into the block from an earlier one, whose position is
    /// unknown.
    issue_rank: u32,
    /// Number of entries for this instruction in the lists of [`WaitWalker::writers`].
    write_entries: u16,
    /// Number of entries for this instruction in the lists of [`WaitWalker::readers`].
    read_entries: u16,
    /// Whether the instruction has not written its results yet.
    results_pending: bool,
    /// Whether the instruction has not read its sources yet.
    reads_pending: bool,
    /// Whether a wait for this instruction implies that older instructions of its in-order group are done: that is so if it was issued in
    /// this block and has no guard.
    in_order_guarantee: bool,
}

/// An entry in the list of in-flight accesses to a register.
#[derive(Clone, Copy, Debug)]
struct InFlightAccess {
    /// The in-flight instruction, as an index into [`WaitWalker::tracked_insts`].
    flight: u32,
    /// How the instruction accesses the register.
    reg_access: RegAccess,
}

/// The in-flight accesses to one register, oldest first.
type AccessList = SmallVec<[InFlightAccess; 4]>;

/// The in-flight instructions of one in-order group, as indices into [`WaitWalker::tracked_insts`].
#[derive(Clone, Debug, Default)]
struct InOrderGroup {
    /// The instructions in the order of issue.
    members: Vec<u32>,
    /// Number of instructions at the start of `members` that are done.
    done_count: usize,
}

/// State of the walk over the instructions of one block, which finds the in-flight instructions that each of them has to wait for.
pub(super) struct WaitWalker<'a> {
    /// For each instruction, its register accesses.
    inst_accesses: &'a [InstAccesses],
    /// The hardware model with the latencies.
    model: &'a Model,
    /// The waits found so far; `None` while the states at block borders are computed and waits are not recorded.
    pub(super) recorded_waits: Option<Vec<Wait>>,
    /// All instructions that were put in flight in this block, done or not. Other fields refer to these instructions by index.
    tracked_insts: Vec<InFlightInst>,
    /// For each register: the in-flight instructions that have not written their result to it yet. May also have entries of instructions
    /// that are done.
    writers: RegisterTable<AccessList>,
    /// For each register: the in-flight instructions that have not read it yet. May also have entries of instructions that are done.
    readers: RegisterTable<AccessList>,
    /// Registers whose lists in `writers` and `readers` may have entries, which are cleared before the next block.
    used_registers: Vec<Register>,
    /// For each group of instructions that finish in order ([`InstAccesses::completion_group`]): its in-flight instructions.
    completion_groups: Vec<InOrderGroup>,
    /// For each group of instructions that read their sources in order ([`InstAccesses::read_group`]): its in-flight instructions.
    read_groups: Vec<InOrderGroup>,
    /// Indices in `tracked_insts` of all instructions that are in flight, and of some that are done.
    maybe_in_flight: Vec<u32>,
    /// Indices in `tracked_insts` of loads without a destination register, oldest first. An acquire has to wait for them, and no register
    /// list has them.
    loads_without_result: Vec<u32>,
    /// Indices in `tracked_insts` of the instructions that end a group of asynchronous matrix products, oldest first.
    product_group_ends: Vec<u32>,
    /// Indices in `tracked_insts` of the fences that the next instruction has to wait for.
    fences: Vec<u32>,
    /// For each predicate register: the rank (position in the order of issue) of its last write.
    predicate_write_rank: [u32; PREDICATE_COUNT],
    /// Position of the next instruction in the order of issue within the block.
    issue_rank: u32,
    /// In-flight instructions that the current instruction has to wait for, as (issue rank, index in `tracked_insts`, event, cause).
    needed: Vec<(u32, u32, WaitedEvent, WaitCause)>,
    /// The instructions that may be in flight at the end of the last block walked, sorted by position.
    exit_state: Vec<CarriedInst>,
    /// Whether the code has an acquire; without one, loads without a destination register are never waited for.
    has_acquires: bool,
    /// Whether any instruction is awaited by branches ([`InstAccesses::is_awaited_by_branches`]).
    has_late_readers: bool,
}

impl<'a> WaitWalker<'a> {
    /// Returns the state before the first block.
    pub(super) fn new(inst_accesses: &'a [InstAccesses], model: &'a Model) -> WaitWalker<'a> {
        WaitWalker {
            inst_accesses,
            model,
            recorded_waits: None,
            tracked_insts: Vec::new(),
            writers: RegisterTable::new(),
            readers: RegisterTable::new(),
            used_registers: Vec::new(),
            completion_groups: vec![InOrderGroup::default(); MAX_IN_ORDER_GROUPS],
            read_groups: vec![InOrderGroup::default(); MAX_IN_ORDER_GROUPS],
            maybe_in_flight: Vec::new(),
            loads_without_result: Vec::new(),
            product_group_ends: Vec::new(),
            fences: Vec::new(),
            predicate_write_rank: [0; PREDICATE_COUNT],
            issue_rank: 0,
            needed: Vec::new(),
            exit_state: Vec::new(),
            has_late_readers: inst_accesses.iter().any(|inst| inst.is_awaited_by_branches),
            has_acquires: inst_accesses.iter().any(|inst| inst.additional_waits == AdditionalWaits::Loads),
        }
    }

    /// Removes all in-flight instructions and register lists before the walk over the next block.
    fn clear(&mut self) {
        for register in self.used_registers.drain(..) {
            self.writers[register].clear();
            self.readers[register].clear();
        }
        for in_order_group in self.completion_groups.iter_mut().chain(&mut self.read_groups) {
            in_order_group.members.clear();
            in_order_group.done_count = 0;
        }
        self.tracked_insts.clear();
        self.maybe_in_flight.clear();
        self.loads_without_result.clear();
        self.product_group_ends.clear();
        self.fences.clear();
        self.predicate_write_rank.fill(0);
        self.issue_rank = 1;
    }

    /// Walks the block with the instructions at positions `range`; `state` has the instructions in flight at its start. Returns the
    /// instructions in flight at its end, sorted by position.
    pub(super) fn walk_block(&mut self, state: &[CarriedInst], range: std::ops::Range<usize>) -> &[CarriedInst] {
        self.clear();
        for carried in state {
            self.put_in_flight(carried.position as usize, carried.results_pending, carried.reads_pending, false);
        }
        // All predicates count as written at the start of the block, because a predicate may have changed since the instructions that are
        // carried into the block were issued. So opposite guards exclude each other within a block only.
        self.predicate_write_rank.fill(self.issue_rank);
        self.issue_rank += 1;
        self.needed.clear();
        if state.len() > MAX_INSTS_CARRIED_INTO_BLOCK && !range.is_empty() {
            self.limit_carried_accesses();
        }
        for position in range {
            self.issue_inst(position);
        }
        self.compute_exit_state();
        &self.exit_state
    }

    /// Computes [`WaitWalker::exit_state`], the instructions that may be in flight at the end of the block.
    fn compute_exit_state(&mut self) {
        self.exit_state.clear();
        for &id in &self.maybe_in_flight {
            let flight = &self.tracked_insts[id as usize];
            if flight.results_pending || flight.reads_pending {
                self.exit_state.push(CarriedInst {
                    position: flight.position,
                    results_pending: flight.results_pending,
                    reads_pending: flight.reads_pending,
                });
            }
        }
        self.exit_state.sort_unstable();
        // An instruction that is carried into the block around a loop, and issued again in the block, is in the list twice.
        self.exit_state.dedup_by(|later, earlier| {
            let same = later.position == earlier.position;
            if same {
                earlier.results_pending |= later.results_pending;
                earlier.reads_pending |= later.reads_pending;
            }
            same
        });
    }

    /// Processes one instruction: finds the in-flight instructions that it has to wait for, waits for them, and puts it in flight.
    fn issue_inst(&mut self, position: usize) {
        let inst_accesses = &self.inst_accesses[position];
        // A fence orders memory accesses only once it is complete, so the instruction directly after it waits for it.
        for id in std::mem::take(&mut self.fences) {
            self.require_event(id, WaitedEvent::Results, WaitCause::Fence);
            self.require_event(id, WaitedEvent::Reads, WaitCause::Fence);
        }
        if self.has_late_readers && inst_accesses.opcode.properties().effect == Effect::Control {
            self.wait_for_late_readers();
        }
        match inst_accesses.additional_waits {
            AdditionalWaits::Nothing | AdditionalWaits::Groups(_) => {}
            AdditionalWaits::Everything => {
                self.remove_done_insts();
                for at in 0..self.maybe_in_flight.len() {
                    let id = self.maybe_in_flight[at];
                    // One wait for each in-flight instruction is enough: written results imply that the sources have been read.
                    let event = if self.tracked_insts[id as usize].results_pending { WaitedEvent::Results } else { WaitedEvent::Reads };
                    self.require_event(id, event, WaitCause::ControlTransfer);
                }
            }
            AdditionalWaits::Loads => self.require_results_where(WaitCause::Acquire, |inst| inst.is_load),
            AdditionalWaits::TensorLoads => self.require_results_where(WaitCause::TensorLoads, |inst| inst.opcode == Opcode::LDTM),
        }
        for reg_access in &inst_accesses.reads {
            self.record_conflicts_of_access(position, *reg_access, DependenceKind::Raw);
        }
        for reg_access in inst_accesses.writes.iter().chain(&inst_accesses.fenced_writes) {
            self.record_conflicts_of_access(position, *reg_access, DependenceKind::Waw);
            self.record_conflicts_of_access(position, *reg_access, DependenceKind::War);
        }
        for reg_access in inst_accesses.reads.iter().filter(|_| inst_accesses.late_reads) {
            self.limit_in_flight_readers(reg_access.register);
        }
        self.wait_for_needed(position);
        // `WARPGROUP.DEPBAR` itself waits for the matrix products, without a scoreboard.
        if let AdditionalWaits::Groups(left) = inst_accesses.additional_waits {
            self.finish_product_groups(left);
        }
        // The limit on in-flight accesses to a register does not apply to loads without a destination register, so they are counted here.
        let is_load_without_result = self.has_acquires && inst_accesses.is_load && inst_accesses.writes.is_empty();
        if is_load_without_result && self.loads_without_result.len() >= MAX_LOADS_WITHOUT_RESULT {
            let oldest = self.loads_without_result.remove(0);
            self.require_event(oldest, WaitedEvent::Results, WaitCause::TooManyInFlight);
            self.wait_for_needed(position);
        }
        if inst_accesses.late_results || inst_accesses.late_reads || is_load_without_result {
            let id = self.tracked_insts.len() as u32;
            self.put_in_flight(position, inst_accesses.late_results || is_load_without_result, inst_accesses.late_reads, true);
            self.loads_without_result.extend(is_load_without_result.then_some(id));
        }
        // `put_in_flight` has increased `issue_rank`, so an instruction that writes its own guard predicate counts as issued before the
        // write.
        for reg_access in inst_accesses.writes.iter() {
            if let Some(written) =
                usize::from(reg_access.register).checked_sub(FIRST_PREDICATE_NUMBER).and_then(|at| self.predicate_write_rank.get_mut(at))
            {
                *written = self.issue_rank;
            }
        }
        self.issue_rank += 1;
    }

    /// Records that the current instruction has to wait for the results of all in-flight instructions that satisfy `is_needed`.
    fn require_results_where(&mut self, cause: WaitCause, is_needed: fn(&InstAccesses) -> bool) {
        self.remove_done_insts();
        for at in 0..self.maybe_in_flight.len() {
            let id = self.maybe_in_flight[at];
            if is_needed(&self.inst_accesses[self.tracked_insts[id as usize].position as usize]) {
                self.require_event(id, WaitedEvent::Results, cause);
            }
        }
    }

    /// Records that the current instruction has to wait for an event of the in-flight instruction with index `id`, if the event has not
    /// happened yet.
    fn require_event(&mut self, id: u32, event: WaitedEvent, cause: WaitCause) {
        let flight = &self.tracked_insts[id as usize];
        if if event == WaitedEvent::Results { flight.results_pending } else { flight.reads_pending } {
            self.needed.push((flight.issue_rank, id, event, cause));
        }
    }

    /// Waits for the in-flight instructions in `needed`, newest first: a wait for one may imply that older ones are done, and
    /// [`WaitWalker::wait_for_event`] then skips those.
    fn wait_for_needed(&mut self, position: usize) {
        if self.needed.is_empty() {
            return;
        }
        let mut needed = std::mem::take(&mut self.needed);
        if needed.len() > 1 {
            needed.sort_by_key(|&(rank, id, event, _)| (std::cmp::Reverse(rank), id, event));
        }
        for (_, id, event, cause) in needed.drain(..) {
            self.wait_for_event(id, event, position, cause);
        }
        self.needed = needed;
    }

    /// Records a wait of instruction `second` for an event of the in-flight instruction with index `id`, unless the event has happened.
    /// Marks all events that the wait implies as done.
    fn wait_for_event(&mut self, id: u32, event: WaitedEvent, second: usize, cause: WaitCause) {
        let flight = self.tracked_insts[id as usize];
        let is_open = if event == WaitedEvent::Results { flight.results_pending } else { flight.reads_pending };
        if !is_open {
            return;
        }
        if let Some(recorded_waits) = &mut self.recorded_waits {
            recorded_waits.push(Wait { first: flight.position, event, second: second as u32, cause });
        }
        self.mark_done(id, event);
        let inst_accesses = &self.inst_accesses[flight.position as usize];
        // A wait for a guarded instruction, which may not have been executed, implies nothing about others. Neither does a wait for an
        // instruction carried into the block, whose position in the order of issue is unknown.
        if !flight.in_order_guarantee {
            return;
        }
        // The completion order is known only among instructions with results, so a wait for one without results implies nothing about the
        // results of others; likewise for sources. Both events imply that the sources have been read.
        if let Some(order) = inst_accesses.completion_group.filter(|_| event == WaitedEvent::Results && !inst_accesses.writes.is_empty()) {
            self.mark_older_done(order, WaitedEvent::Results, flight.issue_rank);
        }
        if let Some(queue) = inst_accesses.read_group.filter(|_| !inst_accesses.reads.is_empty()) {
            self.mark_older_done(queue, WaitedEvent::Reads, flight.issue_rank);
        }
    }

    /// Marks an event of the in-flight instruction with index `id` as done. If the results are written, the sources have been read too.
    fn mark_done(&mut self, id: u32, event: WaitedEvent) {
        let flight = &mut self.tracked_insts[id as usize];
        flight.reads_pending = false;
        if event == WaitedEvent::Results {
            flight.results_pending = false;
        }
    }

    /// Marks an event as done for all instructions of an in-order group whose issue rank is lower than `rank`. Each instruction is visited
    /// once, so this takes amortized constant time.
    fn mark_older_done(&mut self, group: u8, event: WaitedEvent, rank: u32) {
        let group = usize::from(group);
        loop {
            let in_order_group =
                if event == WaitedEvent::Results { &mut self.completion_groups[group] } else { &mut self.read_groups[group] };
            let Some(&id) = in_order_group.members.get(in_order_group.done_count) else { return };
            if self.tracked_insts[id as usize].issue_rank >= rank {
                return;
            }
            in_order_group.done_count += 1;
            self.mark_done(id, event);
        }
    }

    /// Marks the results of all groups of asynchronous matrix products as done, except those of the newest `left` groups.
    fn finish_product_groups(&mut self, left: u32) {
        self.remove_done_insts();
        let Some(&last) = self.product_group_ends.iter().rev().nth(left as usize) else { return };
        let (order, rank) = (
            self.inst_accesses[self.tracked_insts[last as usize].position as usize].completion_group,
            self.tracked_insts[last as usize].issue_rank,
        );
        // The order of groups that were carried into the block is unknown, so it is unknown which of them are done. If no group may be
        // left, all of them are.
        if left > 0 && rank == 0 {
            return;
        }
        let rank = if left == 0 { self.issue_rank } else { rank };
        for at in 0..self.maybe_in_flight.len() {
            let id = self.maybe_in_flight[at];
            let flight = self.tracked_insts[id as usize];
            if self.inst_accesses[flight.position as usize].completion_group == order && flight.issue_rank <= rank {
                self.mark_done(id, WaitedEvent::Results);
            }
        }
    }

    /// Waits for the sources of instructions that read them late, before a branch.
    fn wait_for_late_readers(&mut self) {
        self.remove_done_insts();
        for at in 0..self.maybe_in_flight.len() {
            let id = self.maybe_in_flight[at];
            let position = self.tracked_insts[id as usize].position as usize;
            if self.inst_accesses[position].is_awaited_by_branches {
                self.require_event(id, WaitedEvent::Reads, WaitCause::LateReader);
            }
        }
    }

    /// Removes instructions that are done from [`WaitWalker::maybe_in_flight`].
    fn remove_done_insts(&mut self) {
        let tracked_insts = &self.tracked_insts;
        self.maybe_in_flight.retain(|&id| tracked_insts[id as usize].results_pending || tracked_insts[id as usize].reads_pending);
    }

    /// Adds an instruction to those in flight. `results` and `reads` say whether its results are still to be written and its sources still
    /// to be read. `ordered` says whether it is issued in this block, and not carried into it.
    fn put_in_flight(&mut self, position: usize, results: bool, reads: bool, ordered: bool) {
        let inst_accesses = &self.inst_accesses[position];
        let id = self.tracked_insts.len() as u32;
        let rank = if ordered { self.issue_rank } else { 0 };
        let in_order_guarantee = ordered && !inst_accesses.guarded;
        self.tracked_insts.push(InFlightInst {
            position: position as u32,
            issue_rank: rank,
            write_entries: 0,
            read_entries: 0,
            results_pending: results,
            reads_pending: reads,
            in_order_guarantee,
        });
        if results {
            for &reg_access in &inst_accesses.writes {
                self.add_in_flight_access(id, reg_access, WaitedEvent::Results, in_order_guarantee);
            }
            if let Some(order) = inst_accesses.completion_group {
                self.completion_groups[usize::from(order)].members.push(id);
            }
        }
        if reads {
            for &reg_access in &inst_accesses.reads {
                self.add_in_flight_access(id, reg_access, WaitedEvent::Reads, in_order_guarantee);
            }
            if let Some(queue) = inst_accesses.read_group {
                self.read_groups[usize::from(queue)].members.push(id);
            }
        }
        if inst_accesses.is_fence {
            self.fences.push(id);
        }
        if inst_accesses.ends_group {
            self.product_group_ends.push(id);
        }
        self.maybe_in_flight.push(id);
        self.issue_rank += 1;
    }

    /// Adds the in-flight instruction with index `id` to the access list of a register. Removes entries of older in-flight instructions of
    /// the same in-order group: an instruction that has to wait for one of them also has to wait for the new one, which implies the older
    /// wait.
    ///
    /// If an in-flight instruction loses its last entry this way, no register access can wait for it any more, so it is marked as done.
    fn add_in_flight_access(&mut self, id: u32, reg_access: RegAccess, event: WaitedEvent, in_order_guarantee: bool) {
        let at = reg_access.register;
        let is_results = event == WaitedEvent::Results;
        // The issue order of an instruction carried into the block is unknown, so its entry replaces no other entry.
        if self.tracked_insts[id as usize].issue_rank == 0 {
            let flight = &mut self.tracked_insts[id as usize];
            *(if is_results { &mut flight.write_entries } else { &mut flight.read_entries }) += 1;
            let list = if is_results { &mut self.writers[at] } else { &mut self.readers[at] };
            if list.is_empty() {
                self.used_registers.push(reg_access.register);
            }
            list.push(InFlightAccess { flight: id, reg_access });
            return;
        }
        let group = |inst_accesses: &InstAccesses| if is_results { inst_accesses.completion_group } else { inst_accesses.read_group };
        let inst_accesses = &self.inst_accesses[self.tracked_insts[id as usize].position as usize];
        let own = group(inst_accesses);
        let written = inst_accesses
            .guard
            .and_then(|(register, _)| self.predicate_write_rank.get(usize::from(register) - FIRST_PREDICATE_NUMBER))
            .copied();
        let mut list = std::mem::take(if is_results { &mut self.writers[at] } else { &mut self.readers[at] });
        let tracked_insts = &mut self.tracked_insts;
        list.retain(|entry| {
            let flight = &mut tracked_insts[entry.flight as usize];
            if entry.flight == id {
                return true;
            }
            if !(if is_results { flight.results_pending } else { flight.reads_pending }) {
                return false;
            }
            let other = &self.inst_accesses[flight.position as usize];
            // A guarded in-flight instruction may replace one with the same guard if the predicate has not been written since: both are
            // executed, or neither is.
            let implies_other =
                in_order_guarantee || other.guard == inst_accesses.guard && written.is_some_and(|written| written < flight.issue_rank);
            if own.is_none() || group(other) != own || !implies_other {
                return true;
            }
            let left = if is_results { &mut flight.write_entries } else { &mut flight.read_entries };
            *left -= 1;
            if *left == 0 {
                if is_results {
                    flight.results_pending = false;
                } else {
                    flight.reads_pending = false;
                }
            }
            false
        });
        list.push(InFlightAccess { flight: id, reg_access });
        let flight = &mut self.tracked_insts[id as usize];
        *(if is_results { &mut flight.write_entries } else { &mut flight.read_entries }) += 1;
        *(if is_results { &mut self.writers[at] } else { &mut self.readers[at] }) = list;
        self.used_registers.push(reg_access.register);
    }

    /// Returns whether the guard predicate of an in-flight instruction has not been written since that instruction was issued.
    fn guard_is_unchanged(&self, flight: &InFlightInst) -> bool {
        let guard = self.inst_accesses[flight.position as usize].guard;
        let written = guard.and_then(|(register, _)| self.predicate_write_rank.get(usize::from(register) - FIRST_PREDICATE_NUMBER));
        written.is_some_and(|&written| written < flight.issue_rank)
    }

    /// Makes the current instruction wait for the oldest in-flight reader of a register if there are [`MAX_IN_FLIGHT_PER_REGISTER`]
    /// in-flight readers.
    fn limit_in_flight_readers(&mut self, register: Register) {
        if self.readers[register].len() < MAX_IN_FLIGHT_PER_REGISTER {
            return;
        }
        let tracked_insts = &self.tracked_insts;
        let list = &mut self.readers[register];
        list.retain(|entry| tracked_insts[entry.flight as usize].reads_pending);
        if let Some(oldest) = list.first().filter(|_| list.len() >= MAX_IN_FLIGHT_PER_REGISTER) {
            self.needed.push((
                self.tracked_insts[oldest.flight as usize].issue_rank,
                oldest.flight,
                WaitedEvent::Reads,
                WaitCause::TooManyInFlight,
            ));
        }
    }

    /// Makes the first instruction of the block wait for all but [`ACCESSES_KEPT_PER_REGISTER`] in-flight accesses of each register. Without
    /// this, in a long chain of blocks that branches can skip, every load of the function would stay in flight on some path, and the cost
    /// would be quadratic.
    fn limit_carried_accesses(&mut self) {
        for &register in &self.used_registers {
            for (lists, event) in [(&self.writers, WaitedEvent::Results), (&self.readers, WaitedEvent::Reads)] {
                let list = &lists[register];
                let more = list.len().saturating_sub(ACCESSES_KEPT_PER_REGISTER);
                self.needed.extend(list[..more].iter().map(|entry| (0, entry.flight, event, WaitCause::TooManyInFlight)));
            }
        }
    }

    /// Compares one register access of the instruction at `position` with the in-flight accesses to the same register, and records the
    /// instructions that it has to wait for because of a dependence of this kind.
    fn record_conflicts_of_access(&mut self, position: usize, reg_access: RegAccess, kind: DependenceKind) {
        let at = reg_access.register;
        let is_war = kind == DependenceKind::War;
        let event = if is_war { WaitedEvent::Reads } else { WaitedEvent::Results };
        if (if is_war { &self.readers[at] } else { &self.writers[at] }).is_empty() {
            return;
        }
        let mut list = std::mem::take(if is_war { &mut self.readers[at] } else { &mut self.writers[at] });
        let after = &self.inst_accesses[position];
        let tracked_insts = &self.tracked_insts;
        list.retain(|entry| {
            let flight = &tracked_insts[entry.flight as usize];
            if is_war { flight.reads_pending } else { flight.results_pending }
        });
        for (place, entry) in list.iter().enumerate() {
            let flight = self.tracked_insts[entry.flight as usize];
            let before = &self.inst_accesses[flight.position as usize];
            // If both instructions finish in order, the older result is written first anyway. If both read their sources in order, the
            // older instruction has read its sources before the newer one starts.
            let in_order = match kind {
                DependenceKind::Waw => before.completion_group.is_some() && before.completion_group == after.completion_group,
                DependenceKind::War => before.read_group.is_some() && before.read_group == after.read_group,
                DependenceKind::Raw => false,
            };
            let is_full = list.len() >= MAX_IN_FLIGHT_PER_REGISTER && place == 0 && kind != DependenceKind::Raw;
            let takes_scoreboard = || {
                latency_requirement(self.model, kind, reg_access.register, entry.reg_access.port, reg_access.port, before.guarded)
                    .scoreboard
            };
            // Opposite guards on an unchanged predicate: in every thread only one of the two instructions is executed.
            let excluded = || before.has_opposite_guard(after) && self.guard_is_unchanged(&flight);
            if is_full {
                self.needed.push((flight.issue_rank, entry.flight, event, WaitCause::TooManyInFlight));
            } else if !in_order && takes_scoreboard() && !excluded() {
                self.needed.push((flight.issue_rank, entry.flight, event, WaitCause::Register(kind, reg_access.register)));
            }
        }
        *(if is_war { &mut self.readers[at] } else { &mut self.writers[at] }) = list;
    }
}
