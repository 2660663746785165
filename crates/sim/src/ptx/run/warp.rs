//! The threads of a warp: registers, program counters, and which threads execute together.
//!
//! Every thread has its own program counter. The warp always runs one group: the threads at the same instruction with the greatest call
//! depth and, among these, the lowest program counter. So divergent threads reconverge at the end of a branch, because those that are ahead
//! in the code wait, and threads that called a function reconverge after the call. A group that keeps others waiting for long must let them
//! run for a while, so that a thread can spin on a value from another thread of its own warp.
//!
//! ```text
//! 10: @p bra 20     lanes 0-15 branch, lanes 16-31 fall through
//! 11: ...           lanes 16-31 run first: 11 < 20
//! 20: ...           pc 20 = limit of the group: the warp chooses again, all 32 lanes are one group
//! ```
//!
//! **Registers.** A frame is a range of rows; a row has one value per thread of the warp. Threads may be in different functions, so each
//! has its own first row. Each value has a mask of its undefined bits.

use super::block::PtxBlock;
use super::copy::PendingCopies;
use super::products::GroupProducts;
use super::{LaunchState, Stop};
use crate::ptx::finding::FindingKind;
use crate::ptx::program::{PtxAction, PtxOp, PtxSource, PtxSpecialRegister, Pure, RegisterSlot, Taint};

/// Number of threads in a warp.
pub(crate) const LANES: usize = 32;
/// Mask of all threads of a warp.
pub(crate) const ALL_LANES: u32 = u32::MAX;

/// Steps a group may take while other threads of its warp could run.
const PATIENCE: u32 = 2048;
/// Steps given to threads that were kept waiting.
const TURN: u32 = 512;
/// Steps that an atomic operation or a strong load counts for, so that spinning threads give way sooner.
const POLL_STEPS: u32 = 64;

/// The caller's state, saved during a call.
pub(crate) struct CallFrame {
    /// Index of the call instruction.
    pub(crate) call: u32,
    /// The caller's first register row.
    pub(crate) base: u32,
    /// Start and end of the caller's frame in local memory.
    pub(crate) local_base: u32,
    pub(crate) local_top: u32,
}

/// A thread's local memory.
#[derive(Default)]
pub(crate) struct Local {
    pub(crate) bytes: Vec<u8>,
    /// For each byte the mask of its uninitialized bits.
    pub(crate) undefined: Vec<u8>,
}

/// The state of one warp. Arrays are indexed by lane.
pub(crate) struct PtxWarp {
    pub(crate) number: u32,
    /// Threads that have not exited.
    pub(crate) live: u32,
    /// Threads that wait at a block barrier.
    pub(crate) at_barrier: u32,
    /// Threads that wait at a warp-synchronous operation.
    pub(crate) at_together: u32,
    /// For each of them the mask of threads it waits for.
    pub(crate) together_masks: [u32; LANES],
    pub(crate) pc: [u32; LANES],
    pub(crate) frames: [Vec<CallFrame>; LANES],
    /// First register row of each thread's frame.
    pub(crate) base: [u32; LANES],
    /// Row after each thread's frame.
    pub(crate) top: [u32; LANES],
    /// Start of each thread's frame in local memory.
    pub(crate) local_base: [u32; LANES],
    /// End of each thread's local memory in use.
    pub(crate) local_top: [u32; LANES],
    pub(crate) locals: [Local; LANES],
    pub(crate) copies: [PendingCopies; LANES],
    /// Matrix products of a warpgroup that have not been waited for.
    pub(crate) products: GroupProducts,
    /// Register values, row by row.
    pub(crate) values: Vec<u64>,
    /// Undefined bits of each register value.
    pub(crate) undefined: Vec<u64>,
    /// Steps since other runnable threads last had a turn.
    steps_others_waited: u32,
    /// Lane that was last given a turn because it starved.
    last_turn: u32,
}

/// Threads that execute together.
struct RunnableGroup {
    lanes: u32,
    pc: u32,
    /// Lowest program counter at which other threads wait; the group stops there so that the warp can merge groups.
    limit: u32,
    /// Maximum number of steps.
    steps: u32,
}

/// How a group continues after an instruction.
pub(crate) enum GroupContinuation {
    Next,
    Jump(u32),
    /// The program counters are set; the warp must choose a group again.
    Choose,
}

/// Returns the lanes of a mask, lowest first.
pub(crate) fn lanes_of(mask: u32) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        (rest != 0).then(|| {
            let lane = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            lane
        })
    })
}

impl PtxWarp {
    /// Makes a warp whose `threads` first lanes (at most 32) start at instruction `entry`.
    pub(crate) fn new(number: u32, threads: u32, entry: u32) -> PtxWarp {
        PtxWarp {
            number,
            live: if threads >= 32 { ALL_LANES } else { (1 << threads) - 1 },
            at_barrier: 0,
            at_together: 0,
            together_masks: [0; LANES],
            pc: [entry; LANES],
            frames: std::array::from_fn(|_| Vec::new()),
            base: [0; LANES],
            top: [0; LANES],
            local_base: [0; LANES],
            local_top: [0; LANES],
            locals: std::array::from_fn(|_| Local::default()),
            copies: std::array::from_fn(|_| PendingCopies::default()),
            products: GroupProducts::default(),
            values: Vec::new(),
            undefined: Vec::new(),
            steps_others_waited: 0,
            last_turn: 0,
        }
    }

    /// Returns the index of a thread in its block.
    pub(crate) fn thread(&self, lane: usize) -> u32 {
        self.number * LANES as u32 + lane as u32
    }

    /// Returns the threads that are neither waiting nor exited.
    pub(crate) fn runnable(&self) -> u32 {
        self.live & !self.at_barrier & !self.at_together
    }

    /// Runs at most about `budget` steps; returns whether any was taken.
    pub(crate) fn run(&mut self, machine: &mut LaunchState<'_>, block: &mut PtxBlock, budget: u32) -> Result<bool, Stop> {
        let mut left = budget;
        while left > 0 {
            let Some(group) = self.choose(left) else { break };
            let others = self.runnable() & !group.lanes != 0;
            let (steps, yields) = self.run_group(machine, block, group)?;
            self.steps_others_waited = if others { self.steps_others_waited.saturating_add(steps) } else { 0 };
            left = left.saturating_sub(steps);
            if yields {
                self.steps_others_waited = PATIENCE;
                return Ok(true);
            }
        }
        Ok(left < budget)
    }

    /// Chooses the group to run next; `None` if no thread can run.
    fn choose(&mut self, left: u32) -> Option<RunnableGroup> {
        let runnable = self.runnable();
        if runnable == 0 {
            return None;
        }
        let depth = |lane: usize| self.frames[lane].len();
        let first = lanes_of(runnable).min_by_key(|&lane| (std::cmp::Reverse(depth(lane)), self.pc[lane]))?;
        let together = |first: usize| {
            lanes_of(runnable)
                .filter(|&lane| self.pc[lane] == self.pc[first] && depth(lane) == depth(first))
                .fold(0, |mask, lane| mask | 1 << lane)
        };
        let lanes: u32 = together(first);
        let others = runnable & !lanes;
        // Starvation: give a turn to the next other thread after the last one that got such a turn, round robin.
        if others != 0 && self.steps_others_waited >= PATIENCE {
            let after = others & (u32::MAX << (self.last_turn & 31) << 1);
            let lane = if after != 0 { after } else { others }.trailing_zeros() as usize;
            let lanes = together(lane);
            self.steps_others_waited = 0;
            self.last_turn = lane as u32;
            return Some(RunnableGroup { lanes, pc: self.pc[lane], limit: u32::MAX, steps: TURN.min(left) });
        }
        let limit = lanes_of(others).filter(|&lane| depth(lane) == depth(first)).map(|lane| self.pc[lane]).min().unwrap_or(u32::MAX);
        let steps = if others == 0 { left } else { left.min(PATIENCE.saturating_sub(self.steps_others_waited).max(1)) };
        Some(RunnableGroup { lanes, pc: self.pc[first], limit, steps })
    }

    /// Runs a group until it splits, waits, reaches other threads, or has used its steps. Returns the number of steps and whether it
    /// yielded.
    fn run_group(&mut self, machine: &mut LaunchState<'_>, block: &mut PtxBlock, group: RunnableGroup) -> Result<(u32, bool), Stop> {
        let RunnableGroup { lanes, mut pc, limit, steps } = group;
        let program = machine.program;
        let mut done = 0;
        while done < steps {
            let op = &program.code[pc as usize];
            done += 1;
            let active = match op.guard {
                None => lanes,
                Some(guard) => self.guarded(machine, block, lanes, guard.slot, guard.negated, op.line),
            };
            machine.instructions += u64::from(active.count_ones());
            machine.clock += 1;
            if active != 0 && self.products.are_in_flight() {
                self.check_products(machine, block, op, active);
            }
            let flow = match &op.action {
                PtxAction::Compute { destination, sources, function, taint } => {
                    if active != 0 {
                        self.compute(machine, active, *destination, sources, function, *taint);
                    }
                    GroupContinuation::Next
                }
                PtxAction::Branch { target } => {
                    if active == lanes {
                        GroupContinuation::Jump(*target)
                    } else if active == 0 {
                        GroupContinuation::Next
                    } else {
                        self.set_pc(lanes, pc + 1);
                        self.set_pc(active, *target);
                        GroupContinuation::Choose
                    }
                }
                PtxAction::Yield => {
                    self.set_pc(lanes, pc + 1);
                    return Ok((done, true));
                }
                action => {
                    if is_poll(action) {
                        machine.polls += 1;
                        done += POLL_STEPS;
                    }
                    self.execute_other(machine, block, op, pc, lanes, active)?
                }
            };
            match flow {
                GroupContinuation::Next => pc += 1,
                GroupContinuation::Jump(target) => pc = target,
                GroupContinuation::Choose => return Ok((done, false)),
            }
            if pc >= limit {
                break;
            }
        }
        self.set_pc(lanes, pc);
        Ok((done, false))
    }

    pub(crate) fn set_pc(&mut self, lanes: u32, pc: u32) {
        for lane in lanes_of(lanes) {
            self.pc[lane] = pc;
        }
    }

    /// Returns the lanes for which the guard is true.
    fn guarded(
        &mut self,
        machine: &mut LaunchState<'_>,
        block: &PtxBlock,
        lanes: u32,
        slot: RegisterSlot,
        negated: bool,
        line: u32,
    ) -> u32 {
        let mut active = 0;
        for lane in lanes_of(lanes) {
            let index = self.index(slot, lane);
            if machine.options.undefined_values && self.undefined[index] & 1 != 0 {
                machine.uninitialized(block, self, lane, line, "the guard of this instruction was never written");
            }
            active |= u32::from((self.values[index] & 1 != 0) != negated) << lane;
        }
        active
    }

    /// Returns the index of a register of a thread in `values` and `undefined`.
    #[inline]
    pub(crate) fn index(&self, slot: RegisterSlot, lane: usize) -> usize {
        (self.base[lane] + slot) as usize * LANES + lane
    }

    /// Returns the value of a source in a thread.
    #[inline]
    pub(crate) fn read(&self, pool: &[u64], source: PtxSource, lane: usize) -> u64 {
        match source.place() {
            Ok(slot) => self.values[self.index(slot, lane)],
            Err(entry) => pool[entry],
        }
    }

    /// Returns the undefined bits of a source.
    #[inline]
    pub(crate) fn read_undefined(&self, source: PtxSource, lane: usize) -> u64 {
        match source.place() {
            Ok(slot) => self.undefined[self.index(slot, lane)],
            Err(_) => 0,
        }
    }

    #[inline]
    pub(crate) fn write(&mut self, slot: RegisterSlot, lane: usize, value: u64) {
        self.write_with(slot, lane, value, 0);
    }

    /// Writes a register and its undefined bits.
    #[inline]
    pub(crate) fn write_with(&mut self, slot: RegisterSlot, lane: usize, value: u64, undefined: u64) {
        let index = self.index(slot, lane);
        self.values[index] = value;
        self.undefined[index] = undefined;
    }

    /// Executes an instruction without side effects.
    fn compute(
        &mut self,
        machine: &LaunchState<'_>,
        active: u32,
        d: RegisterSlot,
        sources: &[PtxSource; 5],
        function: &Pure,
        taint: Taint,
    ) {
        let pool = &machine.pool;
        let [a, b, c, ..] = *sources;
        match function {
            Pure::One(f) => {
                for lane in lanes_of(active) {
                    let x = self.read(pool, a, lane);
                    let u = self.read_undefined(a, lane);
                    let undefined = if u == 0 { 0 } else { one_tainted(taint, u, f) };
                    self.write_with(d, lane, f(x), undefined);
                }
            }
            Pure::Two(f) => {
                for lane in lanes_of(active) {
                    let (x, y) = (self.read(pool, a, lane), self.read(pool, b, lane));
                    let (u, v) = (self.read_undefined(a, lane), self.read_undefined(b, lane));
                    let undefined = if u | v == 0 { 0 } else { two_tainted(taint, [x, y], [u, v], |bits| f(bits, y)) };
                    self.write_with(d, lane, f(x, y), undefined);
                }
            }
            Pure::Three(f) => {
                for lane in lanes_of(active) {
                    let (x, y, z) = (self.read(pool, a, lane), self.read(pool, b, lane), self.read(pool, c, lane));
                    let [u, v, w] = [a, b, c].map(|source| self.read_undefined(source, lane));
                    let undefined = match taint {
                        _ if u | v | w == 0 => 0,
                        Taint::Select if w & 1 == 0 => {
                            if z != 0 {
                                u
                            } else {
                                v
                            }
                        }
                        _ => u64::MAX,
                    };
                    self.write_with(d, lane, f(x, y, z), undefined);
                }
            }
            Pure::Many(f, second) => {
                for lane in lanes_of(active) {
                    let values = sources.map(|source| self.read(pool, source, lane));
                    let undefined = sources.iter().fold(0, |bits, &source| bits | self.read_undefined(source, lane));
                    let undefined = if undefined == 0 { 0 } else { u64::MAX };
                    let results = f(&values);
                    // Written last: the first result wins if both have the same destination.
                    self.write_with(*second, lane, results[1], undefined);
                    self.write_with(d, lane, results[0], undefined);
                }
            }
        }
    }

    /// Executes any instruction other than computations and direct branches.
    fn execute_other(
        &mut self,
        machine: &mut LaunchState<'_>,
        block: &mut PtxBlock,
        op: &PtxOp,
        pc: u32,
        lanes: u32,
        active: u32,
    ) -> Result<GroupContinuation, Stop> {
        if active == 0 {
            return Ok(GroupContinuation::Next);
        }
        match &op.action {
            PtxAction::Compute { .. } | PtxAction::Branch { .. } | PtxAction::Nothing | PtxAction::Yield => {}
            PtxAction::Special { destination, register } => {
                lanes_of(active).for_each(|lane| self.write(*destination, lane, self.special(machine, block, lane, *register)));
            }
            PtxAction::FrameAddress { destination, offset } => {
                lanes_of(active).for_each(|lane| self.write(*destination, lane, u64::from(self.local_base[lane] + offset)));
            }
            PtxAction::Load(load) => self.load(machine, block, load, active, op.line)?,
            PtxAction::Store(store) => self.store(machine, block, store, active, op.line)?,
            PtxAction::Atomic(atomic) => self.atomic(machine, block, atomic, active, op.line)?,
            PtxAction::Image(access) => self.access_image(machine, block, access, active, op.line)?,
            PtxAction::Matrix(matrix) => self.matrix(machine, block, matrix, active, op.line)?,
            PtxAction::Mma(parts) => self.mma(machine, block, parts, active, op.line)?,
            PtxAction::QuadMma(product) => self.quad_mma(machine, block, product, active, op.line)?,
            PtxAction::Fragment(fragment) => self.move_fragment(machine, block, fragment, active, op.line)?,
            PtxAction::GroupProduct(product) => self.group_product(machine, block, product, active, op.line)?,
            PtxAction::CopyAsync(copy) => self.start_copies(machine, block, copy, active, op.line)?,
            PtxAction::CommitCopies => self.commit_copies(active),
            PtxAction::WaitCopies { all_but, uncommitted } => {
                self.wait_copies(machine, block, active, *all_but as usize, *uncommitted)?;
            }
            PtxAction::Mbarrier(mbarrier) => self.mbarrier(machine, block, mbarrier, active, op.line)?,
            PtxAction::Bulk(bulk) => self.start_bulk(machine, block, bulk, active, op.line, pc as usize)?,
            PtxAction::StoreAsync(store) => self.start_store_async(machine, block, store, active, op.line, pc as usize)?,
            PtxAction::TensorCopy(copy) => self.start_tensor_copy(machine, block, copy, active, op.line, pc as usize)?,
            PtxAction::CommitBulk => self.commit_bulk(block, active),
            PtxAction::WaitBulk { all_but, only_reads: false } => self.wait_bulk(machine, block, active, *all_but as usize, false)?,
            PtxAction::WaitBulk { all_but, only_reads: true } => self.wait_bulk_reads(machine, block, active, *all_but as usize)?,
            PtxAction::CommitProducts => self.products.commit(),
            PtxAction::WaitProducts { all_but } => self.products.wait(block, *all_but as usize),
            PtxAction::ReplaceMapField(replace) => self.replace_map_field(machine, block, replace, active, op.line)?,
            PtxAction::CopyMap(copy) => self.copy_map(machine, block, copy, active, op.line)?,
            PtxAction::Fence { is_for_async } => {
                for lane in lanes_of(active) {
                    let Some(races) = &mut block.races else { break };
                    if *is_for_async {
                        races.fence_async(self.thread(lane));
                    }
                    races.fence(self.thread(lane));
                }
            }
            PtxAction::BranchIndexed { index, targets } => {
                self.set_pc(lanes, pc + 1);
                self.branch_indexed(machine, block, *index, targets, active, op.line)?;
                return Ok(GroupContinuation::Choose);
            }
            PtxAction::Call(call) => {
                self.set_pc(lanes, pc + 1);
                self.call(machine, block, call, pc, active, op.line)?;
                return Ok(GroupContinuation::Choose);
            }
            PtxAction::Return { function } => {
                self.set_pc(lanes, pc + 1);
                self.ret(machine, block, *function, active)?;
                return Ok(GroupContinuation::Choose);
            }
            PtxAction::Exit => {
                self.set_pc(lanes, pc + 1);
                self.exit(machine, block, active)?;
                return Ok(GroupContinuation::Choose);
            }
            PtxAction::Trap => {
                let lane = active.trailing_zeros() as usize;
                return Err(machine.stop(FindingKind::Trap, block, self, lane, op.line, "a trap was executed".to_owned()));
            }
            PtxAction::Barrier(barrier) => {
                self.set_pc(lanes, pc + 1);
                self.set_pc(active, pc);
                self.arrive(machine, block, barrier, pc, active, op.line)?;
                return Ok(GroupContinuation::Choose);
            }
            PtxAction::ClusterBarrier(barrier) => {
                self.set_pc(lanes, pc + 1);
                self.cluster_barrier(machine, block, *barrier, pc, active, op.line)?;
                return Ok(GroupContinuation::Choose);
            }
            PtxAction::Together(together) => {
                self.set_pc(lanes, pc + 1);
                self.set_pc(active, pc);
                self.wait_together(machine, block, together, active, op.line)?;
                return Ok(GroupContinuation::Choose);
            }
            PtxAction::ActiveMask { destination } => {
                lanes_of(active).for_each(|lane| self.write(*destination, lane, u64::from(active)));
            }
            PtxAction::Alloca { destination, size, align } => {
                self.allocate_on_stack(machine, block, (*destination, *size), *align, active, op.line)?;
            }
            PtxAction::StackSave { destination } => {
                lanes_of(active).for_each(|lane| self.write(*destination, lane, u64::from(self.local_top[lane])));
            }
            PtxAction::StackRestore { source } => self.restore_stack(machine, block, *source, active, op.line)?,
        }
        Ok(GroupContinuation::Next)
    }

    /// Sets the program counter of each active thread to the branch target that its index selects (`brx.idx`).
    fn branch_indexed(
        &mut self,
        machine: &mut LaunchState<'_>,
        block: &mut PtxBlock,
        index: PtxSource,
        targets: &[u32],
        active: u32,
        line: u32,
    ) -> Result<(), Stop> {
        for lane in lanes_of(active) {
            if self.read_undefined(index, lane) & 0xffff_ffff != 0 {
                machine.uninitialized(block, self, lane, line, "the index of this branch was never written");
            }
            let number = self.read(&machine.pool, index, lane) as u32;
            let Some(&target) = targets.get(number as usize) else {
                let message = format!("the index {number} is not below the number of targets, {}", targets.len());
                return Err(machine.stop(FindingKind::BadOperand, block, self, lane, line, message));
            };
            self.pc[lane] = target;
        }
        Ok(())
    }

    /// Reserves bytes on the stack of each active thread (`alloca`). `slots` are the register for the address and the number of bytes.
    fn allocate_on_stack(
        &mut self,
        machine: &mut LaunchState<'_>,
        block: &mut PtxBlock,
        slots: (RegisterSlot, PtxSource),
        align: u32,
        active: u32,
        line: u32,
    ) -> Result<(), Stop> {
        let (destination, size) = slots;
        for lane in lanes_of(active) {
            let bytes = self.read(&machine.pool, size, lane);
            let start = self.grow_local(machine, block, lane, bytes, align, line)?;
            self.write(destination, lane, u64::from(start));
        }
        Ok(())
    }

    /// Moves the end of the stack of each active thread back to an address that `stacksave` returned (`stackrestore`).
    fn restore_stack(
        &mut self,
        machine: &mut LaunchState<'_>,
        block: &mut PtxBlock,
        source: PtxSource,
        active: u32,
        line: u32,
    ) -> Result<(), Stop> {
        for lane in lanes_of(active) {
            let top = self.read(&machine.pool, source, lane);
            if top > u64::from(self.local_top[lane]) {
                let message = format!("{top:#x} is no earlier end of the stack");
                return Err(machine.stop(FindingKind::BadOperand, block, self, lane, line, message));
            }
            self.local_top[lane] = top as u32;
        }
        Ok(())
    }

    /// Ends threads; other threads of the warp may have waited for that.
    pub(crate) fn exit(&mut self, machine: &mut LaunchState<'_>, block: &mut PtxBlock, lanes: u32) -> Result<(), Stop> {
        self.wait_copies(machine, block, lanes, 0, true)?;
        self.wait_bulk(machine, block, lanes, 0, true)?;
        self.live &= !lanes;
        if self.live == 0 {
            self.products.commit();
            self.products.wait(block, 0);
        }
        self.run_complete_syncs(machine, block)
    }

    /// Returns the value of a special register.
    fn special(&self, machine: &LaunchState<'_>, block: &PtxBlock, lane: usize, register: PtxSpecialRegister) -> u64 {
        let axis_of = |numbers: [u32; 3], axis: u8| u64::from(numbers[usize::from(axis)]);
        let (grid, size) = (machine.launch.grid, machine.launch.block);
        let cluster = machine.launch.cluster.or(machine.cluster).unwrap_or([1; 3]);
        let in_cluster: [u32; 3] = std::array::from_fn(|axis| block.index[axis] % cluster[axis]);
        let bit = 1_u64 << lane;
        match register {
            PtxSpecialRegister::Zero => 0,
            PtxSpecialRegister::One => 1,
            PtxSpecialRegister::Thread(axis) => axis_of(machine.thread_index(self.thread(lane)), axis),
            PtxSpecialRegister::BlockSize(axis) => axis_of(size, axis),
            PtxSpecialRegister::Block(axis) => axis_of(block.index, axis),
            PtxSpecialRegister::GridSize(axis) => axis_of(grid, axis),
            PtxSpecialRegister::Lane => lane as u64,
            PtxSpecialRegister::Warp => u64::from(self.number),
            PtxSpecialRegister::Warps => u64::from(machine.threads().div_ceil(LANES as u32)),
            PtxSpecialRegister::LanesEqual => bit,
            PtxSpecialRegister::LanesBelow => bit - 1,
            PtxSpecialRegister::LanesUpTo => bit | (bit - 1),
            PtxSpecialRegister::LanesAbove => u64::from(ALL_LANES) & !(bit | (bit - 1)),
            PtxSpecialRegister::LanesFrom => u64::from(ALL_LANES) & !(bit - 1),
            PtxSpecialRegister::Clock => machine.clock,
            PtxSpecialRegister::ClockHigh => machine.clock >> 32,
            PtxSpecialRegister::TotalShared => block.shared.bytes.len() as u64,
            PtxSpecialRegister::DynamicShared => u64::from(machine.launch.shared_bytes),
            PtxSpecialRegister::ClusterSize(axis) => axis_of(cluster, axis),
            PtxSpecialRegister::ClusterBlock(axis) => axis_of(in_cluster, axis),
            PtxSpecialRegister::Cluster(axis) => axis_of(block.index, axis) / axis_of(cluster, axis),
            PtxSpecialRegister::Clusters(axis) => axis_of(grid, axis).div_ceil(axis_of(cluster, axis)),
            PtxSpecialRegister::ClusterRank => u64::from(block.rank),
            PtxSpecialRegister::ClusterBlocks => u64::from(cluster.iter().product::<u32>()),
            PtxSpecialRegister::IsExplicitCluster => u64::from(machine.launch.cluster.or(machine.cluster).is_some()),
        }
    }
}

/// Returns whether the action is typical of a spin loop: an atomic or a strong load.
fn is_poll(action: &PtxAction) -> bool {
    match action {
        PtxAction::Atomic(_) | PtxAction::Mbarrier(_) => true,
        PtxAction::Load(load) => load.ordering.strong,
        _ => false,
    }
}

/// Returns the undefined bits of a function of one operand.
fn one_tainted(taint: Taint, undefined: u64, f: impl Fn(u64) -> u64) -> u64 {
    match taint {
        Taint::Bits => undefined,
        // A result bit is undefined if flipping the undefined input bits flips it; exact for shifts and bit extractions.
        Taint::Follow => f(undefined) ^ f(0),
        _ => u64::MAX,
    }
}

/// Returns the undefined bits of a function of two operands; `f` is the function of the first operand alone.
fn two_tainted(taint: Taint, [x, y]: [u64; 2], [u, v]: [u64; 2], f: impl Fn(u64) -> u64) -> u64 {
    match taint {
        Taint::Bits => u | v,
        Taint::And => u & (y | v) | v & (x | u),
        Taint::Or => u & (!y | v) | v & (!x | u),
        Taint::Follow if v & 0xffff_ffff == 0 => f(u) ^ f(0),
        _ => u64::MAX,
    }
}
