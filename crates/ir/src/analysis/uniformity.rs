//! Uniformity (divergence) analysis: the values that are equal in all threads of a warp.
//!
//! A value is *uniform* if all threads that execute its definition together get the same result; otherwise it is *divergent*. Divergence
//! starts at instructions with a different result in each thread ([`DivergenceSource`]: thread and lane numbers, clocks, loads, atomics,
//! shuffles, parameters of device functions), except shuffles that broadcast a fixed lane. It propagates in three ways until nothing
//! changes:
//!
//! - **data**: a result of divergent sources, or under a divergent guard, is divergent. Results in uniform registers never are;
//! - **joins**: at a branch with a divergent condition, threads take different paths. In a block where such paths join, up to and
//!   including the reconvergence point (the branch's immediate post-dominator), the phis select by the path of each thread and are
//!   divergent. These blocks are in the iterated dominance frontier of the branch's successors. The header of a loop around the branch is
//!   exempt if it has only one back edge: all threads that start another iteration arrive over that edge;
//! - **loops**: if a divergent branch does not reconverge inside a loop, threads leave the loop in different iterations. A value computed
//!   in the loop may be uniform in each iteration, but a use after the loop sees values of different iterations, so values used there are
//!   divergent (temporal divergence). Constants are the same in every iteration and stay uniform.
//!
//! A branch that decides which instruction of all its threads a warpgroup executes next is taken the same way by all of them, whatever its
//! condition ([`branches_of_warpgroups`]).
//!
//! In kernels whose blocks have one dimension ([`Threads::InOneDimension`]), a warp has 32 threads with consecutive numbers, so `tid.x /
//! 32` is the same in all of them.
//!
//! The result is conservative: a value may be reported divergent although it is uniform. It requires SSA form.
//!
//! Example: with `%1 = S2R SR_TID.X`, `%2 = ISETP.LT %1, 16`, `@%2 BRA bb1; BRA bb2` and both blocks branching to `bb3`, a phi in `bb3` is
//! divergent even if its sources are constants.

use oriole_isa::{Effect, Opcode, RegFile};
use oriole_support::{BitSet, Index, IndexVec};
use rustc_hash::{FxHashMap, FxHashSet};

use super::warpgroup_branches::branches_of_warpgroups;
use super::{ControlFlow, DefUse, DominanceFrontiers, Dominators, LoopId, Loops, PostDominators};
use crate::function::Function;
use crate::ids::{Block, Inst, Value};
use crate::instruction::{Op, Pseudo};
use crate::memory::{Order, Space};
use crate::operand::{Operand, OperandKind, Role};

/// The divergent values and branches of a function.
#[derive(Clone, Debug)]
pub struct Uniformity {
    divergent: BitSet<Value>,
    divergent_branches: Vec<Inst>,
}

impl Uniformity {
    /// Computes the uniformity of all values.
    pub fn compute(function: &Function, flow: &ControlFlow) -> Uniformity {
        let dominators = Dominators::compute(function, flow);
        let post_dominators = PostDominators::compute(function, flow);
        Uniformity::compute_with(function, flow, &dominators, &post_dominators, &Loops::compute(function, flow))
    }

    /// Computes the uniformity of all values if weak loads of global and shared memory from a uniform address give all threads the same
    /// value. A program in which they do not has a data race: another thread writes the address between the loads of two threads of the
    /// warp, and nothing orders the loads and the store.
    pub fn compute_without_races(function: &Function, flow: &ControlFlow) -> Uniformity {
        let dominators = Dominators::compute(function, flow);
        let post_dominators = PostDominators::compute(function, flow);
        let assumptions = Assumptions { loads: Loads::WithoutRaces, ..Assumptions::default() };
        Uniformity::compute_from(function, flow, &dominators, &post_dominators, &Loops::compute(function, flow), assumptions)
    }

    /// Computes the uniformity of all values, with analyses that the caller already has.
    pub fn compute_with(
        function: &Function,
        flow: &ControlFlow,
        dominators: &Dominators,
        post_dominators: &PostDominators,
        loops: &Loops,
    ) -> Uniformity {
        Uniformity::compute_from(function, flow, dominators, post_dominators, loops, Assumptions::default())
    }

    /// Computes the uniformity of all values like [`Uniformity::compute_with`], for blocks of threads of a known shape.
    pub fn compute_for_threads(
        function: &Function,
        flow: &ControlFlow,
        dominators: &Dominators,
        post_dominators: &PostDominators,
        loops: &Loops,
        threads: Threads,
    ) -> Uniformity {
        let assumptions = Assumptions { threads, ..Assumptions::default() };
        Uniformity::compute_from(function, flow, dominators, post_dominators, loops, assumptions)
    }

    /// Computes the uniformity of all values from the analyses that it needs.
    fn compute_from(
        function: &Function,
        flow: &ControlFlow,
        dominators: &Dominators,
        post_dominators: &PostDominators,
        loops: &Loops,
        assumptions: Assumptions,
    ) -> Uniformity {
        let def_use = DefUse::compute(function);
        let mut spread = Spread {
            function,
            flow,
            escaping: find_escaping(function, loops, &def_use),
            def_use,
            frontiers: DominanceFrontiers::compute(function, flow, dominators),
            post_dominators,
            loops,
            loads: assumptions.loads,
            threads: assumptions.threads,
            divergent: BitSet::new(function.values.len()),
            branches: BitSet::new(function.insts.len()),
            common_branches: branches_of_warpgroups(function, flow),
            left_apart: BitSet::new(0),
            joined: BitSet::new(function.blocks.len()),
            work: Vec::new(),
            found: FxHashSet::default(),
            spared: FxHashMap::default(),
            is_spared: FxHashSet::default(),
            effort: 0,
        };
        spread.run();
        let mut divergent_branches: Vec<Inst> = Vec::new();
        for &block in flow.reverse_post_order() {
            divergent_branches.extend(function.terminators(block).iter().filter(|&&inst| spread.branches.contains(inst)));
        }
        Uniformity { divergent: spread.divergent, divergent_branches }
    }

    /// Returns whether threads of a warp may have different values.
    pub fn is_divergent(&self, value: Value) -> bool {
        self.divergent.contains(value)
    }

    /// Returns whether all threads of a warp have the same value.
    pub fn is_uniform(&self, value: Value) -> bool {
        !self.is_divergent(value)
    }

    /// Returns whether an operand is the same in all threads of a warp.
    pub fn is_uniform_operand(&self, operand: &Operand) -> bool {
        operand.value().is_none_or(|value| self.is_uniform(value))
    }

    /// Returns the branches at which a warp may diverge, in reverse post order of their blocks.
    pub fn divergent_branches(&self) -> &[Inst] {
        &self.divergent_branches
    }
}

/// The assumption about loads of memory that the kernel itself may write.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Loads {
    /// Threads may load different values from one address.
    #[default]
    Any,
    /// Threads that execute a weak load from one address together load the same value.
    WithoutRaces,
}

/// The shape of the thread blocks that execute a function.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Threads {
    /// Unknown.
    #[default]
    InAnyShape,
    /// Blocks have one dimension, so the numbers of the threads of a warp differ in the lowest five bits only.
    InOneDimension,
}

/// The assumptions of an analysis.
#[derive(Clone, Copy, Default, Debug)]
struct Assumptions {
    loads: Loads,
    threads: Threads,
}

/// How divergence enters the results of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DivergenceSource {
    /// The results are the same in all threads.
    Uniform,
    /// The results differ between threads.
    Divergent,
    /// The results are divergent if an operand is.
    Operands,
}

/// Special registers with the same value in all threads of a thread block.
const SHARED_REGISTERS: [&str; 14] = [
    "SRZ",
    "SR_CTAID.X",
    "SR_CTAID.Y",
    "SR_CTAID.Z",
    "SR_NTID",
    "SR_CgaCtaId",
    "SR_CgaSize",
    "SR_GpcLocalCgaId",
    "SR_SMEMSZ",
    "SR_VIRTUALSMID",
    "SR_SWINHI",
    "SR_SWINLO",
    "SR_LWINHI",
    "SR_LWINLO",
];

/// Returns how divergence enters the results of an instruction.
fn source_of(function: &Function, inst: Inst, loads: Loads) -> DivergenceSource {
    let opcode = match function.insts[inst].op {
        Op::Machine(opcode) => opcode,
        Op::Pseudo(Pseudo::Entry) => return DivergenceSource::Divergent,
        Op::Pseudo(_) => return DivergenceSource::Operands,
    };
    let name_of = |operand: &Operand| if let OperandKind::Name(name) = operand.kind { Some(name.spelling()) } else { None };
    let names = || function.sources(inst).iter().filter_map(name_of);
    let is_known_constant = || function.insts[inst].memory.is_some_and(|access| function.accesses[access].constant);
    let is_same_if_ordered = || loads == Loads::WithoutRaces && is_weak_load_of_shared_address(function, inst);
    match opcode.properties().effect {
        // `PR` reads all predicate registers.
        Effect::None if names().any(|name| name == "PR") => DivergenceSource::Divergent,
        Effect::None => DivergenceSource::Operands,
        Effect::State => {
            let is_shared = names().all(|name| SHARED_REGISTERS.contains(&name));
            if is_shared { DivergenceSource::Uniform } else { DivergenceSource::Divergent }
        }
        Effect::Control if function.calls_slow_path(inst) => DivergenceSource::Operands,
        Effect::Lanes if is_broadcast(function, inst) => DivergenceSource::Uniform,
        Effect::Lanes if matches!(opcode, Opcode::VOTE | Opcode::VOTEU | Opcode::REDUX | Opcode::CREDUX | Opcode::R2UR) => {
            DivergenceSource::Uniform
        }
        // The threads that test a barrier in memory together all see the same phase of it (docs/results/h200.md, "Barriers in memory").
        Effect::Barrier if is_phase_test(function, inst) => DivergenceSource::Operands,
        Effect::Reads if is_same_if_ordered() => DivergenceSource::Operands,
        Effect::Reads if is_known_constant() || matches!(opcode, Opcode::LDC | Opcode::LDCU | Opcode::ULDC) => DivergenceSource::Operands,
        Effect::Lanes
        | Effect::Reads
        | Effect::Writes
        | Effect::Updates
        | Effect::Control
        | Effect::Barrier
        | Effect::Fence
        | Effect::Other => DivergenceSource::Divergent,
    }
}

/// Returns whether an instruction is a weak load from a memory space in which an address means the same memory in all threads of a block.
fn is_weak_load_of_shared_address(function: &Function, inst: Inst) -> bool {
    function.insts[inst].memory.is_some_and(|access| {
        let access = function.accesses[access];
        matches!(access.space, Space::Global | Space::Shared) && access.order == Order::Weak && !access.volatile
    })
}

/// Returns whether an instruction tests the phase of a barrier in memory (`SYNCS.PHASECHK`).
fn is_phase_test(function: &Function, inst: Inst) -> bool {
    let data = &function.insts[inst];
    data.is_machine(Opcode::SYNCS) && data.modifiers.iter().any(|modifier| modifier.spelling() == ".PHASECHK")
}

/// Returns whether an instruction gives all threads the value of one lane whose number is known: `SHFL.IDX` among all 32 lanes.
pub fn is_broadcast(function: &Function, inst: Inst) -> bool {
    let is_indexed = || function.insts[inst].modifiers.iter().map(|modifier| modifier.spelling()).eq([".IDX"]);
    let from_known_lane = || match function.sources(inst) {
        [_, lane, clamp] => lane.integer().is_some_and(|lane| (0..32).contains(&lane)) && clamp.integer() == Some(LAST_LANE),
        _ => false,
    };
    function.insts[inst].is_machine(Opcode::SHFL) && is_indexed() && from_known_lane()
}

/// Returns whether an operand is the register that is always zero.
fn is_zero(operand: &Operand) -> bool {
    matches!(operand.kind, OperandKind::Zero(_))
}

/// Number of the last lane of a warp.
const LAST_LANE: i64 = 31;

/// Number of threads of a warp.
const WARP_THREADS: i64 = 32;

/// The truth table of the conjunction of the first two operands of `LOP3`.
const AND_TABLE: i64 = 0xc0;

/// The propagation of divergence.
struct Spread<'a> {
    function: &'a Function,
    flow: &'a ControlFlow,
    def_use: DefUse,
    frontiers: DominanceFrontiers,
    post_dominators: &'a PostDominators,
    loops: &'a Loops,
    loads: Loads,
    threads: Threads,
    divergent: BitSet<Value>,
    /// Branches with a divergent condition, without those of `common_branches`.
    branches: BitSet<Inst>,
    /// Blocks whose branch all threads of a warp take the same way.
    common_branches: BitSet<Block>,
    /// For each loop, the values that are used outside of it ([`find_escaping`]).
    escaping: IndexVec<LoopId, Vec<(u32, Value)>>,
    /// Loops that threads of a warp leave in different iterations.
    left_apart: BitSet<LoopId>,
    /// Blocks whose phis are divergent.
    joined: BitSet<Block>,
    /// Divergent values whose uses still have to be visited.
    work: Vec<Value>,
    /// Joins found so far, each with the reconvergence point of the branch that it was found for.
    found: FxHashSet<(Block, Option<Block>)>,
    /// For each reconvergence point, the loop headers that were exempt for some branch.
    spared: FxHashMap<Option<Block>, Vec<Block>>,
    /// The same pairs as a set.
    is_spared: FxHashSet<(Block, Option<Block>)>,
    /// Number of joins visited so far.
    effort: usize,
}

/// Limit on the number of joins visited, per block of the function. Beyond it, branches are treated as if they had no reconvergence point.
const EFFORT_PER_BLOCK: usize = 32;

/// The search for the joins of one divergent branch.
struct Parting {
    branch: Block,
    /// The reconvergence point; `None` if there is none, or if it is ignored to limit the cost.
    meeting: Option<Block>,
    /// Joins whose dominance frontier still has to be visited.
    joins: Vec<Block>,
    /// Whether the search stopped at a join that was found for another branch.
    is_cut_short: bool,
}

impl Spread<'_> {
    /// Marks the sources of divergence and propagates until the worklist is empty.
    fn run(&mut self) {
        let function = self.function;
        for &block in &function.layout {
            for &inst in &function.blocks[block].insts {
                let has_results = function.insts[inst].result_count() > 0;
                if has_results && source_of(function, inst, self.loads) == DivergenceSource::Divergent {
                    self.mark_results(inst);
                }
            }
        }
        while let Some(value) = self.work.pop() {
            for number in 0..self.def_use.uses(value).len() {
                self.reach(self.def_use.uses(value)[number].inst);
            }
        }
    }

    /// Visits an instruction with a divergent operand.
    fn reach(&mut self, inst: Inst) {
        let function = self.function;
        let is_branch = matches!(function.insts[inst].op, Op::Machine(Opcode::BRA | Opcode::BRX));
        if is_branch {
            let block = self.def_use.block(inst).filter(|&block| !self.common_branches.contains(block));
            if let Some(block) = block
                && self.branches.insert(inst)
            {
                self.part_at(block);
            }
            return;
        }
        if function.defined(inst).all(|value| self.is_settled(value)) || self.is_same_in_warp(inst) {
            return;
        }
        let is_guard_divergent = function.insts[inst]
            .guard
            .is_some_and(|guard| matches!(guard.kind, OperandKind::Value(part) if self.divergent.contains(part.value)));
        if source_of(function, inst, self.loads) == DivergenceSource::Operands || is_guard_divergent || self.has_divergent_tie(inst) {
            self.mark_results(inst);
        }
    }

    /// Returns whether an instruction computes from the number of the thread what is the same in all threads of a warp: the number
    /// without its lowest five bits, or a comparison with a multiple of 32.
    fn is_same_in_warp(&self, inst: Inst) -> bool {
        let data = &self.function.insts[inst];
        if self.threads != Threads::InOneDimension || data.guard.is_some() {
            return false;
        }
        let has = |spelling: &str| data.modifiers.iter().any(|modifier| modifier.spelling() == spelling);
        match (data.op.machine(), self.function.sources(inst)) {
            (Some(Opcode::SHF), [low, amount, number]) => {
                let shifts_all = is_zero(low) && has(".R") && has(".HI") && amount.integer().is_some_and(|amount| amount >= 5);
                shifts_all && self.is_thread_number(number)
            }
            (Some(Opcode::LOP3), [number, mask, third, table, _]) => {
                let keeps_upper_bits = mask.integer().is_some_and(|mask| mask % WARP_THREADS == 0) && table.integer() == Some(AND_TABLE);
                keeps_upper_bits && is_zero(third) && self.is_thread_number(number)
            }
            (Some(Opcode::ISETP), [number, limit, combined]) => {
                let rest = limit.integer().map(|limit| limit.rem_euclid(WARP_THREADS));
                let is_border = (has(".GE") || has(".LT")) && rest == Some(0) || (has(".GT") || has(".LE")) && rest == Some(LAST_LANE);
                is_border && combined.value().is_none() && self.is_thread_number(number)
            }
            _ => false,
        }
    }

    /// Returns whether an operand is the number of the thread in its block, of which the first component counts the threads of a warp.
    fn is_thread_number(&self, operand: &Operand) -> bool {
        let definition = operand.value().filter(|_| operand.signs.is_empty()).and_then(|value| self.def_use.definition(value));
        definition.is_some_and(|inst| {
            let is_x = |source: &Operand| matches!(source.kind, OperandKind::Name(name) if name.spelling() == "SR_TID.X");
            self.function.insts[inst].is_machine(Opcode::S2R) && self.function.sources(inst).iter().any(is_x)
        })
    }

    /// Returns whether a tied operand is divergent.
    fn has_divergent_tie(&self, inst: Inst) -> bool {
        let is_divergent = |operand: &Operand| operand.value().is_some_and(|value| self.divergent.contains(value));
        self.function.sources(inst).iter().any(|operand| matches!(operand.role, Role::Tied(_)) && is_divergent(operand))
    }

    /// Marks all results of an instruction as divergent.
    fn mark_results(&mut self, inst: Inst) {
        let function = self.function;
        for value in function.defined(inst) {
            self.mark(value);
        }
    }

    /// Returns whether nothing more can change for a value: it is in a uniform register, or known to be divergent.
    fn is_settled(&self, value: Value) -> bool {
        matches!(self.function.values[value].file, RegFile::Uniform | RegFile::UniformPredicate) || self.divergent.contains(value)
    }

    /// Marks a value as divergent, unless it is in a uniform register.
    fn mark(&mut self, value: Value) {
        if !self.is_settled(value) {
            self.divergent.insert(value);
            self.work.push(value);
        }
    }

    /// Marks the phis and values that diverge because of the divergent branch at the end of a block.
    ///
    /// Many branches may share a reconvergence point and most of their joins, so the search for one branch stops at joins found for
    /// another branch with the same reconvergence point. Everything after these joins is already known, except for loop headers that were
    /// exempt because the other branch is inside their loop. In huge irregular functions even this is too expensive. Then the remaining
    /// branches ignore their reconvergence points: joins after these points count as well, which is conservative.
    fn part_at(&mut self, branch: Block) {
        let flow = self.flow;
        let real_meeting = self.post_dominators.immediate(branch);
        let is_affordable = self.effort < EFFORT_PER_BLOCK * self.function.blocks.len();
        let meeting = real_meeting.filter(|_| is_affordable);
        let mut parting = Parting { branch, meeting, joins: Vec::new(), is_cut_short: false };
        for &next in flow.successors(branch) {
            if flow.predecessors(next).len() > 1 {
                self.add_join(&mut parting, next);
            } else {
                self.add_frontier(&mut parting, next);
            }
        }
        self.follow_joins(&mut parting);
        if parting.is_cut_short {
            let spared = self.spared.remove(&meeting).unwrap_or_default();
            let is_inside = |&header: &Block| self.loops.innermost(header).is_some_and(|id| self.loops.contains(id, branch));
            let (still_spared, joins): (Vec<Block>, Vec<Block>) = spared.into_iter().partition(is_inside);
            self.spared.insert(meeting, still_spared);
            for header in joins {
                self.add_join(&mut parting, header);
            }
            self.follow_joins(&mut parting);
        }
        self.leave_loops(branch, real_meeting);
    }

    /// Visits the pending joins: marks their phis, and adds their dominance frontiers up to the reconvergence point.
    fn follow_joins(&mut self, parting: &mut Parting) {
        while let Some(join) = parting.joins.pop() {
            if Some(join) != parting.meeting {
                self.add_frontier(parting, join);
            }
            if self.joined.insert(join) {
                for &phi in self.function.phis(join) {
                    self.mark_results(phi);
                }
            }
        }
    }

    /// Adds the dominance frontier of a block as joins.
    fn add_frontier(&mut self, parting: &mut Parting, below: Block) {
        for number in 0..self.frontiers.of(below).len() {
            self.add_join(parting, self.frontiers.of(below)[number]);
        }
    }

    /// Adds a join, unless it is already known or exempt.
    fn add_join(&mut self, parting: &mut Parting, join: Block) {
        self.effort += 1;
        if self.found.contains(&(join, parting.meeting)) {
            parting.is_cut_short = true;
        } else if self.is_only_next_iteration(parting.branch, parting.meeting, join) {
            if self.is_spared.insert((join, parting.meeting)) {
                self.spared.entry(parting.meeting).or_default().push(join);
            }
        } else {
            self.found.insert((join, parting.meeting));
            parting.joins.push(join);
        }
    }

    /// Returns whether a block is the header of a loop around the branch that has one back edge and cannot be entered again before the
    /// threads reconverge.
    fn is_only_next_iteration(&self, branch: Block, meeting: Option<Block>, header: Block) -> bool {
        let Some(id) = self.loops.innermost(header).filter(|_| self.loops.is_header(header)) else { return false };
        let info = self.loops.get(id);
        if !self.loops.contains(id, branch) || info.is_irreducible {
            return false;
        }
        let ways_back = self.flow.predecessors(header).iter().filter(|&&from| self.loops.contains(id, from)).count();
        let meets_before = info.parent.is_none_or(|parent| meeting.is_some_and(|meeting| self.loops.contains(parent, meeting)));
        ways_back == 1 && meets_before
    }

    /// Marks the loops around a branch that do not contain its reconvergence point.
    fn leave_loops(&mut self, branch: Block, meeting: Option<Block>) {
        let mut around = self.loops.innermost(branch);
        while let Some(id) = around
            && meeting.is_none_or(|meeting| !self.loops.contains(id, meeting))
        {
            if self.left_apart.insert(id) {
                self.mark_used_behind(id);
            }
            around = self.loops.get(id).parent;
        }
    }

    /// Marks the values that a loop defines and that are used after it.
    fn mark_used_behind(&mut self, id: LoopId) {
        let depth = self.loops.get(id).depth;
        let mut inside = self.loops.iter().skip(id.position());
        while let Some(inner) = inside.next().filter(|&inner| inner == id || self.loops.get(inner).depth > depth) {
            while let Some(&(outermost, value)) = self.escaping[inner].last()
                && outermost <= depth
            {
                self.escaping[inner].pop();
                self.mark(value);
            }
        }
    }
}

/// Returns whether the results of an instruction are the same whenever it is executed: it computes them from no register and no memory.
fn is_constant(function: &Function, inst: Inst) -> bool {
    let Op::Machine(opcode) = function.insts[inst].op else { return false };
    let is_fixed = |operand: &Operand| !matches!(operand.kind, OperandKind::Value(_) | OperandKind::Name(_));
    opcode.properties().effect == Effect::None && function.used(inst).next().is_none() && function.sources(inst).iter().all(is_fixed)
}

/// Returns, for each loop, the values that it defines outside of inner loops and that are used outside of it, with the depth of the
/// outermost loop that they leave. The list is sorted by descending depth, so the outermost are last.
fn find_escaping(function: &Function, loops: &Loops, def_use: &DefUse) -> IndexVec<LoopId, Vec<(u32, Value)>> {
    let mut escaping: IndexVec<LoopId, Vec<(u32, Value)>> = IndexVec::filled(loops.len(), Vec::new());
    for &block in &function.layout {
        let Some(home) = loops.innermost(block) else { continue };
        let varying = function.blocks[block].insts.iter().filter(|&&inst| !is_constant(function, inst));
        for value in varying.flat_map(|&inst| function.defined(inst)) {
            let mut common = Some(home);
            for user in def_use.uses(value).iter().filter_map(|found| def_use.block(found.inst)).filter(|&user| user != block) {
                while let Some(id) = common
                    && !loops.contains(id, user)
                {
                    common = loops.get(id).parent;
                }
            }
            if common != Some(home) {
                escaping[home].push((common.map_or(0, |id| loops.get(id).depth) + 1, value));
            }
        }
    }
    for list in escaping.iter_mut() {
        list.sort_unstable_by(|one, other| other.cmp(one));
    }
    escaping
}
