//! Schedules the warps of a block in turns and executes instructions.
//!
//! A warp runs for a number of instructions, extended to the next control-flow instruction; then the next warp of the block runs. The order
//! is the same in every run. A program that depends on this order is wrong, so [`TurnOrder`] can choose warps and turn lengths at random to
//! expose it. [`super::groups`] decides which threads of a warp run.
//!
//! **Block barriers** count warps, as in hardware: if part of a warp executes `BAR`, it counts as the whole warp. No correct program does
//! that, so it is an error here.

use super::fault::{ErrorKind, ErrorPlace, Fault, SassError};
use super::flow::{BarrierKind, BlockBarrier, BranchTarget, Flow, PredicateReduction};
use super::groups::{GroupWait, Running, ThreadGroup, TurnOrder};
use super::observe::{Issue, Observer};
use super::program::{SassProgram, SourceLine, address_of};
use super::register_pool::RegisterCountChange;
use super::step::Action;
use super::warp::{LANES, Mask, PredicateDestination, Warp, first, lanes_of};
use super::world::World;

/// Instructions a warp executes before the next warp's turn.
const TURN: u32 = 256;

/// Maximum number of groups of threads in an error message.
const MOST_LISTED_GROUPS: usize = 8;

/// Maximum turn length in a random order.
const SHORT_TURN: usize = 64;
/// Number of named barriers per block.
const BLOCK_BARRIERS: usize = 16;

/// A block of which some thread has not exited.
pub(super) struct ResidentBlock {
    /// Linear index in the grid.
    pub number: u64,
    /// Index of its shared memory.
    pub slot: usize,
    /// Number of phases of the cluster's barrier that have ended.
    pub cluster_phases: u64,
    warps: Vec<Running>,
    barriers: Vec<BarrierArrivals>,
    /// Number of registers of a thread that warps have given up (`USETMAXREG`) and no other warp has taken.
    free_registers: u32,
}

/// A block barrier: the arrivals since it was last released.
#[derive(Clone, Debug, Default)]
struct BarrierArrivals {
    /// For each warp the threads that have arrived.
    arrived: Vec<Mask>,
    /// For each warp the arrived threads whose predicate is true.
    holds: Vec<Mask>,
    /// Number of threads to wait for; 0 for all threads of the block.
    wanted: u32,
    /// The reduction to compute, if one of the arrivals asks for it.
    reduction: Option<PredicateReduction>,
}

/// State shared by all blocks of a launch.
pub(super) struct GridRun<'a, 'c, O> {
    pub program: &'a SassProgram<'c>,
    pub world: World<'a>,
    pub observer: &'a mut O,
    pub kernel: &'a str,
    /// Warp instructions after which the run fails.
    pub limit: u64,
    pub order: TurnOrder,
}

impl ResidentBlock {
    /// Makes a block whose warps start at instruction `entry`.
    pub fn new(number: u64, slot: usize, warps: Vec<Warp>, entry: u32) -> ResidentBlock {
        let count = warps.len();
        let barrier = BarrierArrivals { arrived: vec![0; count], holds: vec![0; count], wanted: 0, reduction: None };
        ResidentBlock {
            number,
            slot,
            cluster_phases: 0,
            warps: warps.into_iter().map(|warp| Running::new(warp, entry)).collect(),
            barriers: vec![barrier; BLOCK_BARRIERS],
            free_registers: 0,
        }
    }

    pub fn is_finished(&self) -> bool {
        self.warps.iter().all(|warp| warp.groups.is_empty())
    }

    /// Returns whether a warp waits for the barrier of the cluster.
    fn waits_for_cluster(&self) -> bool {
        self.warps.iter().flat_map(|warp| &warp.groups).any(|group| matches!(group.wait, Some(GroupWait::Cluster(_))))
    }

    /// Returns the number of phases of the cluster's barrier in which all warps of the block have arrived; `None` if all have exited.
    pub fn cluster_arrivals(&self) -> Option<u64> {
        self.warps.iter().filter(|warp| !warp.groups.is_empty()).map(|warp| warp.cluster_arrivals).min()
    }

    /// Lets warps continue whose phase of the cluster's barrier has ended; `phases` is the number of phases that have ended.
    pub fn end_cluster_phases(&mut self, phases: u64) {
        self.cluster_phases = phases;
        for group in self.warps.iter_mut().flat_map(|warp| &mut warp.groups) {
            if matches!(group.wait, Some(GroupWait::Cluster(phase)) if phase <= phases) {
                group.wait = None;
            }
        }
    }
}

/// How the turn of a block ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// All threads have exited.
    Ended,
    /// The turn was over.
    Over,
    /// No thread can continue before the phase of the cluster's barrier ends.
    WaitsForCluster,
}

impl<O: Observer> GridRun<'_, '_, O> {
    /// Runs a block until it ends, waits for the other blocks of its cluster, or has executed about `budget` instructions.
    pub fn run(&mut self, block: &mut ResidentBlock, budget: u64) -> Result<Turn, SassError> {
        let end = self.world.clock + budget;
        loop {
            let before = self.world.clock;
            let first = if self.order.is_random() { self.order.choose(block.warps.len()) } else { 0 };
            for warp in 0..block.warps.len() {
                self.run_warp(block, (first + warp) % block.warps.len())?;
            }
            if block.is_finished() {
                return Ok(Turn::Ended);
            }
            if self.world.clock == before {
                return if block.waits_for_cluster() { Ok(Turn::WaitsForCluster) } else { Err(self.deadlock(block)) };
            }
            if self.world.clock >= end {
                return Ok(Turn::Over);
            }
        }
    }

    /// Runs one turn of a warp.
    fn run_warp(&mut self, block: &mut ResidentBlock, number: usize) -> Result<(), SassError> {
        let mut left = if self.order.is_random() { 1 + self.order.choose(SHORT_TURN) as u32 } else { TURN };
        while left > 0 {
            let running = &mut block.warps[number];
            let Some(index) = running.next(&mut self.order) else { break };
            let flow = self.run_group(block.number, &mut block.warps[number], index, &mut left)?;
            match flow {
                Some((flow, active)) => self.execute(block, number, index, flow, active)?,
                None => break,
            }
        }
        if self.world.clock > self.limit {
            let running = &block.warps[number];
            let (place, lane) = running.groups.first().map_or((0, 0), |group| (group.step, first(group.threads)));
            let message = format!("more instructions than allowed; unfinished: {}", self.unfinished(block));
            return Err(self.error(ErrorKind::TooLong, message, &running.warp, place, lane));
        }
        Ok(())
    }

    /// Lists the first groups of threads that have not exited, with the instruction that each one is at.
    fn unfinished(&self, block: &ResidentBlock) -> String {
        let groups = block.warps.iter().enumerate().flat_map(|(number, warp)| warp.groups.iter().map(move |group| (number, group)));
        let mut texts: Vec<String> = groups
            .clone()
            .take(MOST_LISTED_GROUPS)
            .map(|(number, group)| {
                let waits = if group.wait.is_some() { "wait before" } else { "at" };
                let place = match self.program.sources.get(group.step as usize).copied().flatten() {
                    Some(SourceLine { function, .. }) => format!("{}+{:#x}", function.name, address_of(group.step) - function.address),
                    None => format!("{:#x}", address_of(group.step)),
                };
                format!("warp {number} threads {:08x} {waits} {place}", group.threads)
            })
            .collect();
        match groups.count().saturating_sub(MOST_LISTED_GROUPS) {
            0 => {}
            more => texts.push(format!("{more} more groups")),
        }
        texts.join(", ")
    }

    /// Runs a group up to the next control-flow instruction with active threads, and returns that instruction without executing it; `None`
    /// if the turn ends. A turn ends only at control-flow instructions: groups share the uniform registers, and switching groups between
    /// the write and the read of a uniform register would break correct code.
    fn run_group<'s>(
        &mut self,
        block: u64,
        running: &mut Running,
        index: usize,
        left: &mut u32,
    ) -> Result<Option<(&'s Flow, Mask)>, SassError>
    where
        Self: HasSteps<'s>,
    {
        let steps = self.steps();
        let ThreadGroup { mut step, threads, .. } = running.groups[index];
        let warp = &mut running.warp;
        let mut is_over = false;
        let outcome = loop {
            let Some(current) = steps.get(step as usize) else {
                break Err((ErrorKind::Fault, Fault::of_warp("execution ran past the end of the code"), 0));
            };
            let active = threads & warp.read_predicate(current.guard);
            if let Some(needed) = self.program.missing_registers(step, warp.register_count) {
                let message = format!("names R{}; the warp has {} registers here", needed - 1, warp.register_count);
                break Err((ErrorKind::Fault, Fault::of_warp(message), active));
            }
            *left = left.saturating_sub(1);
            self.world.clock += 1;
            if O::LISTENS {
                self.tell(block, warp, step, threads, active, false);
            }
            match &current.action {
                Action::Compute(run) => {
                    if active != 0 {
                        run(warp, active);
                    }
                }
                Action::Access(run) => {
                    if active != 0
                        && let Err(fault) = run(warp, &mut self.world, active)
                    {
                        break Err((ErrorKind::Fault, fault, active));
                    }
                }
                Action::Nothing => {}
                Action::Flow(flow) => {
                    if active != 0 {
                        break Ok(Some((flow, active)));
                    }
                    is_over = *left == 0;
                }
                Action::Refused(why) => {
                    if active != 0 {
                        break Err((ErrorKind::Unsupported, Fault::of_warp(why.clone()), active));
                    }
                }
            }
            if O::LISTENS {
                self.tell(block, warp, step, threads, active, true);
            }
            step += 1;
            if is_over {
                break Ok(None);
            }
        };
        running.groups[index].step = step;
        outcome.map_err(|(kind, fault, active)| {
            let lane = fault.lane.unwrap_or(first(active));
            self.error(kind, fault.what, &running.warp, step, lane)
        })
    }

    /// Notifies the observer of an instruction, before or after its execution.
    fn tell(&mut self, block: u64, warp: &Warp, step: u32, group: Mask, active: Mask, done: bool) {
        let Some(Some(SourceLine { instruction, word, function })) = self.program.sources.get(step as usize).copied() else { return };
        let issue = Issue {
            block,
            warp: warp.identity.warp,
            address: address_of(step),
            group,
            active,
            instruction,
            word,
            target: self.program.target,
            function: function.address,
        };
        if done {
            self.observer.executed(&issue, warp);
        } else {
            self.observer.issue(&issue, warp);
        }
    }

    /// Executes a control-flow instruction; the group's program counter still points to it.
    fn execute(&mut self, block: &mut ResidentBlock, number: usize, index: usize, flow: &Flow, active: Mask) -> Result<(), SassError> {
        let running = &mut block.warps[number];
        let step = running.groups[index].step;
        // `.EXCLUSIVE` lasts until the threads wait again or exit; jumps do not end it.
        if !matches!(flow, Flow::Jump { .. } | Flow::Break { .. }) {
            running.exclusive = 0;
        }
        match flow {
            Flow::Exit { condition } => {
                let leaving = active & running.warp.read_predicate(*condition);
                running.groups[index].step += 1;
                running.exited |= leaving;
                running.take(index, leaving);
                if leaving != 0 {
                    running.release();
                    for barrier in 0..BLOCK_BARRIERS {
                        block.pass(barrier);
                    }
                }
            }
            Flow::Jump { condition, test, branch_target } => {
                let group = running.groups[index].threads;
                let mut leaving = active & running.warp.read_predicate(*condition);
                if leaving != 0 && !test.holds(&running.warp, group, !running.exited) {
                    leaving = 0;
                }
                running.groups[index].step += 1;
                self.jump(running, index, leaving, branch_target, step)?;
            }
            Flow::Converge { condition, barrier } => {
                let waiting = active & running.warp.read_predicate(*condition) & running.warp.barriers.members(*barrier);
                running.groups[index].step += 1;
                running.wait_at(index, waiting, GroupWait::Convergence(*barrier));
            }
            Flow::Gather { condition, mask, exclusive } => {
                let waiting = active & running.warp.read_predicate(*condition);
                let masks = running.warp.read(*mask);
                if let Some(lane) = lanes_of(waiting).find(|&lane| masks[lane] >> lane & 1 == 0) {
                    let message = format!("illegal instruction: the thread is not in the mask of its WARPSYNC, {:#x}", masks[lane]);
                    return Err(self.error(ErrorKind::Fault, message, &running.warp, step, lane));
                }
                for lane in lanes_of(waiting) {
                    running.wanted[lane] = masks[lane];
                }
                running.separate = if *exclusive { running.separate | waiting } else { running.separate & !waiting };
                running.groups[index].step += 1;
                running.wait_at(index, waiting, GroupWait::WarpSync);
                if *exclusive && running.groups.iter().any(|group| group.wait.is_none() && group.threads & waiting != 0) {
                    running.exclusive = waiting;
                }
            }
            Flow::Collect { condition, mask, after } => {
                let waiting = active & running.warp.read_predicate(*condition);
                let masks = running.warp.read(*mask);
                let Some(after) = self.program.index(*after) else {
                    let message = format!("a collective operation that ends at {after:#x}, where no instruction is");
                    return Err(self.error(ErrorKind::Fault, message, &running.warp, step, first(active)));
                };
                for lane in lanes_of(waiting) {
                    running.wanted[lane] = masks[lane];
                    running.after_collection[lane] = after;
                }
                running.groups[index].step += 1;
                running.wait_at(index, waiting, GroupWait::Collective);
            }
            Flow::Disperse => running.disperse(index, active),
            Flow::Break { condition, barrier } => {
                let leaving = active & running.warp.read_predicate(*condition);
                running.groups[index].step += 1;
                running.warp.barriers.remove(*barrier, leaving);
                running.release();
            }
            Flow::Yield => {
                running.groups[index].step += 1;
                running.yield_threads(index, active);
            }
            Flow::Block(barrier) => {
                running.groups[index].step += 1;
                if let Err(fault) = block.arrive(number, index, barrier, active) {
                    let lane = fault.lane.unwrap_or(first(active));
                    return Err(self.error(ErrorKind::Fault, fault.what, &block.warps[number].warp, step, lane));
                }
            }
            Flow::ArriveCluster => self.arrive_at_or_wait_for_cluster(block, number, index, active, false)?,
            Flow::WaitCluster => self.arrive_at_or_wait_for_cluster(block, number, index, active, true)?,
            Flow::ChangeRegisters { change, is_granted } => self.change_registers(block, number, index, *change, *is_granted)?,
            Flow::Trap(what) => return Err(self.error(ErrorKind::Fault, what.clone(), &running.warp, step, first(active))),
        }
        Ok(())
    }

    /// Moves registers between a warp and the pool of its block. The registers that a warp gets have no useful content.
    fn change_registers(
        &mut self,
        block: &mut ResidentBlock,
        number: usize,
        index: usize,
        change: RegisterCountChange,
        is_granted: Option<PredicateDestination>,
    ) -> Result<(), SassError> {
        let running = &mut block.warps[number];
        let (step, threads) = (running.groups[index].step, running.groups[index].threads);
        let fault = |this: &Self, warp: &Warp, message: String| this.error(ErrorKind::Fault, message, warp, step, first(threads));
        if running.groups.len() > 1 {
            return Err(fault(self, &running.warp, "only a part of the warp executes USETMAXREG".into()));
        }
        let applied = change.apply(running.warp.register_count, block.free_registers);
        let applied = applied.map_err(|message| fault(self, &running.warp, message))?;
        if let Some((count, free)) = applied {
            running.warp.set_register_count(count);
            block.free_registers = free;
        }
        if let Some(is_granted) = is_granted {
            running.warp.write_predicate(is_granted, threads, if applied.is_some() { !0 } else { 0 });
        }
        running.groups[index].step += 1;
        Ok(())
    }

    /// Lets the whole warp arrive at the barrier of its cluster, or, if `waits` is true, wait until all warps of the cluster have arrived.
    fn arrive_at_or_wait_for_cluster(
        &mut self,
        block: &mut ResidentBlock,
        number: usize,
        index: usize,
        active: Mask,
        waits: bool,
    ) -> Result<(), SassError> {
        let running = &mut block.warps[number];
        let step = running.groups[index].step;
        let (arrivals, phases) = (running.cluster_arrivals, block.cluster_phases);
        let problem = if active != !running.exited {
            Some(format!("a part of a warp, {active:#010x} of {:#010x}, is at the barrier of the cluster", !running.exited))
        } else if !waits && arrivals > phases {
            Some("a warp arrives twice at the barrier of the cluster".to_owned())
        } else {
            None
        };
        if let Some(problem) = problem {
            return Err(self.error(ErrorKind::Fault, problem, &running.warp, step, first(active)));
        }
        running.groups[index].step += 1;
        if !waits {
            running.cluster_arrivals += 1;
        } else if arrivals > phases {
            running.groups[index].wait = Some(GroupWait::Cluster(arrivals));
        }
        Ok(())
    }

    /// Moves the threads of `leaving` to the branch target. An indirect branch may have several targets and then creates several groups.
    fn jump(&self, running: &mut Running, index: usize, leaving: Mask, branch_target: &BranchTarget, step: u32) -> Result<(), SassError> {
        let fail = |running: &Running, address: u64, lane| {
            Err(self.error(ErrorKind::Fault, format!("a jump to {address:#x}, where no instruction is"), &running.warp, step, lane))
        };
        match *branch_target {
            BranchTarget::At(address) => match self.program.index(address) {
                Some(target) => running.send(index, leaving, target),
                None => return fail(running, address, first(leaving)),
            },
            BranchTarget::Register { address, base } => {
                let addresses = running.warp.read_wide(address).map(|value| value.wrapping_add(base));
                let mut rest = leaving;
                let stays = running.groups[index].threads == leaving;
                while rest != 0 {
                    let address = addresses[first(rest)];
                    let same = lanes_of(rest).filter(|&lane| addresses[lane] == address).fold(0, |mask, lane| mask | 1 << lane);
                    let Some(target) = self.program.index(address) else { return fail(running, address, first(rest)) };
                    rest &= !same;
                    if rest == 0 && stays {
                        running.groups[index].step = target;
                    } else {
                        running.groups[index].threads &= !same;
                        running.groups.push(ThreadGroup { step: target, threads: same, wait: None });
                    }
                }
            }
        }
        Ok(())
    }

    /// Makes the error for a block in which no warp can run.
    pub fn deadlock(&self, block: &ResidentBlock) -> SassError {
        let waiting = block.warps.iter().flat_map(|running| running.groups.iter().map(move |group| (running, group)));
        let threads: u32 = waiting.clone().map(|(_, group)| group.threads.count_ones()).sum();
        let Some((running, group)) = waiting.clone().next() else {
            return SassError::new(ErrorKind::Deadlock, "nothing can run");
        };
        let what = match group.wait {
            Some(GroupWait::WarpSync) => "WARPSYNC".to_owned(),
            Some(GroupWait::Convergence(barrier)) => format!("convergence barrier B{barrier}"),
            Some(GroupWait::Block(barrier)) => format!("barrier {barrier} of the block"),
            Some(GroupWait::Cluster(_)) => "the barrier of the cluster".to_owned(),
            Some(GroupWait::Collective) => "WARPSYNC.COLLECTIVE".to_owned(),
            None => "nothing".to_owned(),
        };
        let message = format!("deadlock: all {threads} threads of the block that are left wait, the first at {what}");
        self.error(ErrorKind::Deadlock, message, &running.warp, group.step.saturating_sub(1), first(group.threads))
    }

    /// Makes an error that names the instruction, the block and the thread.
    fn error(&self, kind: ErrorKind, message: String, warp: &Warp, step: u32, lane: usize) -> SassError {
        let source = self.program.sources.get(step as usize).copied().flatten();
        let (function, offset, text) = match source {
            Some(SourceLine { word, function, .. }) => {
                let offset = address_of(step) - function.address;
                (function.name.clone(), offset, oriole_isa::print(word, self.program.target, offset).unwrap_or_default())
            }
            None => ("?".to_owned(), address_of(step), String::new()),
        };
        let identity = &warp.identity;
        let place = ErrorPlace {
            kernel: self.kernel.to_owned(),
            function,
            offset,
            text,
            block: identity.block,
            thread: [0, 1, 2].map(|axis| identity.thread[axis][lane]),
        };
        SassError { kind, message, place: Some(Box::new(place)) }
    }
}

/// Gives access to the steps with the program's lifetime, so that a step can be executed while the engine is borrowed mutably.
trait HasSteps<'s> {
    fn steps(&self) -> &'s [super::step::Step];
}

impl<'a, 'c, O> HasSteps<'a> for GridRun<'a, 'c, O> {
    fn steps(&self) -> &'a [super::step::Step] {
        &self.program.steps
    }
}

impl ResidentBlock {
    /// Registers the arrival of a group at a block barrier. The group's program counter is already after the instruction.
    fn arrive(&mut self, number: usize, index: usize, barrier: &BlockBarrier, active: Mask) -> Result<(), Fault> {
        let running = &mut self.warps[number];
        let (ids, counts) = (running.warp.read(barrier.number.source), running.warp.read(barrier.threads.source));
        let holds = running.warp.read_predicate(barrier.predicate);
        if active != !running.exited {
            let what = format!("a part of a warp, {active:#010x} of {:#010x}, is at a barrier of the block", !running.exited);
            return Err(Fault::of(first(active), what));
        }
        let lane = first(active);
        let is_other = |other: &usize| {
            barrier.number.of(&ids, *other) != barrier.number.of(&ids, lane)
                || barrier.threads.of(&counts, *other) != barrier.threads.of(&counts, lane)
        };
        if let Some(other) = lanes_of(active).find(is_other) {
            return Err(Fault::of(other, "threads of a warp are at different barriers of the block"));
        }
        let mut rest = active;
        let mut ready = Vec::new();
        let step = running.groups[index].step;
        running.take(index, if barrier.what == BarrierKind::Arrive { 0 } else { active });
        while rest != 0 {
            let lane = first(rest);
            let (id, count) = (barrier.number.of(&ids, lane), barrier.threads.of(&counts, lane));
            let same = lanes_of(rest)
                .filter(|&lane| barrier.number.of(&ids, lane) == id && barrier.threads.of(&counts, lane) == count)
                .fold(0, |mask, lane| mask | 1 << lane);
            rest &= !same;
            let state = &mut self.barriers[id as usize];
            if state.arrived[number] & same != 0 {
                return Err(Fault::of(lane, format!("arrives twice at barrier {id}")));
            }
            let is_first = state.arrived.iter().all(|&threads| threads == 0);
            if !is_first && state.wanted != count {
                return Err(Fault::of(lane, format!("barrier {id} with {count} threads, but others wait for {}", state.wanted)));
            }
            state.wanted = count;
            state.arrived[number] |= same;
            state.holds[number] |= same & holds;
            if let BarrierKind::Reduce(reduction) = barrier.what {
                state.reduction = Some(reduction);
            }
            if barrier.what != BarrierKind::Arrive {
                running.groups.push(ThreadGroup { step, threads: same, wait: Some(GroupWait::Block(id as usize)) });
            }
            ready.push(id as usize);
        }
        ready.into_iter().for_each(|id| self.pass(id));
        Ok(())
    }

    /// Releases a block barrier if all threads it waits for have arrived.
    fn pass(&mut self, id: usize) {
        let state = &self.barriers[id];
        if state.arrived.iter().all(|&threads| threads == 0) {
            return;
        }
        let alive = |warp: usize| !self.warps[warp].exited;
        let is_complete = if state.wanted == 0 {
            state.arrived.iter().enumerate().all(|(warp, &threads)| alive(warp) & !threads == 0)
        } else {
            // A warp counts as 32 threads once all of its remaining threads have arrived.
            let count = |(warp, &threads): (usize, &Mask)| match threads {
                0 => 0,
                _ if alive(warp) & !threads == 0 => LANES as u32,
                _ => threads.count_ones(),
            };
            state.arrived.iter().enumerate().map(count).sum::<u32>() >= state.wanted
        };
        if !is_complete {
            return;
        }
        let count: u32 = state.holds.iter().map(|mask| mask.count_ones()).sum();
        let arrived: u32 = state.arrived.iter().map(|mask| mask.count_ones()).sum();
        let result = state.reduction.map(|reduction| match reduction {
            PredicateReduction::Count => count,
            PredicateReduction::And => u32::from(count == arrived),
            PredicateReduction::Or => u32::from(count != 0),
        });
        for running in &mut self.warps {
            for group in running.groups.iter_mut().filter(|group| group.wait == Some(GroupWait::Block(id))) {
                group.wait = None;
                running.warp.barrier_result = result.unwrap_or(running.warp.barrier_result);
            }
        }
        let state = &mut self.barriers[id];
        state.arrived.fill(0);
        state.holds.fill(0);
        state.wanted = 0;
        state.reduction = None;
    }
}
