//! Lets one thread of a warp perform the atomic operation of all its threads, where they all access the same address.
//!
//! The memory performs atomic operations on one address one after the other. If the address is the same in all threads of a warp
//! ([`Uniformity`]), the threads combine their operands first, and the *leader*, the active thread with the highest number, performs one
//! operation:
//!
//! ```text
//! REDG.E.ADD [%a], %v       becomes      %m, PT = VOTE.ANY PT                  // the active threads
//!                                        %l = FLO.U32 %m                       // the leader
//!                                        %p, PT = ISETP.EQ.U32.AND %lane, %l, PT
//!                                        %s = REDUX.SUM %v                     // or the number of threads times %v
//!                                   @%p  REDG.E.ADD [%a], %s
//! ```
//!
//! The integer operations with an exact result in any order are combined. These are the cases:
//!
//! - **No instruction reads the old value.** A sum of equal operands is a product with the number of threads. Equal operands of `AND`,
//!   `OR`, `MIN` and `MAX` need no work. Other 32-bit operands are combined with `REDUX`.
//! - **The old value is read**, of an addition. The threads add in the order of their numbers: the leader's old value is sent to all
//!   threads, and each adds the operands of the threads below it. For equal operands that is a product with the number of active threads
//!   below.
//! - **Different operands of an addition whose old value is read**, or without `REDUX`: prefix sums by shuffles, if all 32 threads
//!   take part. If not, each thread performs its own operation.
//!
//! A guard is handled like inactive threads: the vote is over the guard. An operation whose guard, or whose branch, compares for equality
//! is not changed if the compared values differ between threads: it is likely that a single thread performs it.
//!
//! The threads between the vote and the last shuffle must be the same. They are, because a block has no point in between where threads meet
//! or part, and the scheduler keeps instructions that exchange data between threads on their side of such points.
//!
//! **Before** and **after**: SSA, legal instructions, no convergence barriers yet. The cost is linear.

use oriole_ir::analysis::{ControlFlow, DefUse, Uniformity};
use oriole_ir::{Block, Class, Function, Guard, Inst, Op, Operand, OperandKind, Part, Pseudo, Role, Target};
use oriole_isa::{Effect, Opcode, RegFile, Symbol};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::dead;
use crate::definitions::Definitions;
use crate::known::Known;
use crate::rewrite::{Prelude, piece};

/// Number of the last thread of a warp.
const LAST_LANE: i64 = 31;

/// Segment operand of a shuffle that reads from any thread of the warp.
const WHOLE_WARP: i64 = 0x1f;

/// Counts of what the pass changed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Number of atomic operations that one thread performs for its warp.
    pub aggregated: usize,
}

/// Combines the atomic operations of a whole function.
pub fn run(function: &mut Function, target: Target) -> Stats {
    let mut stats = Stats::default();
    let insts = function.layout.iter().flat_map(|&block| &function.blocks[block].insts);
    if !insts.copied().any(|inst| Atomic::read(function, inst).is_some()) {
        return stats;
    }
    let flow = ControlFlow::compute(function);
    let uniformity = Uniformity::compute(function, &flow);
    let definitions = Definitions::compute(function);
    let def_use = DefUse::compute(function);
    let mut pass = Aggregate { target, flow, uniformity, definitions, def_use, lane: None, lower: None };
    for block in function.layout.clone() {
        if pass.flow.is_reachable(block) {
            stats.aggregated += pass.block(function, block);
        }
    }
    pass.insert_reads(function);
    // Operands that were multiplied by the number of threads may be unused now.
    if stats.aggregated > 0 {
        dead::run(function, target);
    }
    stats
}

/// The operations that are combined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Add,
    And,
    Or,
    Xor,
    Min,
    Max,
}

/// An atomic operation on integers.
#[derive(Clone, Copy, Debug)]
struct Atomic {
    kind: Kind,
    is_signed: bool,
    /// The result that receives the old value; `None` if there is none.
    old: Option<Part>,
    /// The operand that is combined with the value in memory, and its position.
    value: Operand,
    value_at: usize,
    /// Whether the operation is on 64 bits.
    is_wide: bool,
}

impl Atomic {
    /// Matches an atomic operation that may be combined.
    fn read(function: &Function, inst: Inst) -> Option<Atomic> {
        let data = &function.insts[inst];
        let opcode = data.op.machine()?;
        if !matches!(opcode, Opcode::ATOM | Opcode::ATOMG | Opcode::ATOMS | Opcode::RED | Opcode::REDG) {
            return None;
        }
        let (mut kind, mut is_signed, mut is_wide) = (None, false, false);
        for &modifier in &data.modifiers {
            match modifier {
                Symbol::ADD => kind = Some(Kind::Add),
                Symbol::AND => kind = Some(Kind::And),
                Symbol::OR => kind = Some(Kind::Or),
                Symbol::XOR => kind = Some(Kind::Xor),
                Symbol::MIN => kind = Some(Kind::Min),
                Symbol::MAX => kind = Some(Kind::Max),
                Symbol::S32 => is_signed = true,
                Symbol::_64 => is_wide = true,
                Symbol::E | Symbol::STRONG | Symbol::SM | Symbol::GPU | Symbol::SYS | Symbol::CTA => {}
                _ => return None,
            }
        }
        let mut old = None;
        for result in function.results(inst) {
            match result.kind {
                OperandKind::Zero(_) => {}
                OperandKind::Value(part) if function.values[part.value].file == RegFile::General => old = Some(part),
                _ => return None,
            }
        }
        // The operand is the first register after the address; a descriptor may follow.
        let is_operand = |operand: &Operand| operand.role == Role::Plain && !matches!(operand.kind, OperandKind::Address(_));
        let value_at = data.result_count() + function.sources(inst).iter().position(is_operand)?;
        let value = function.operands(inst)[value_at];
        let is_plain = value.signs.is_empty() && value.suffixes().next().is_none();
        let is_general =
            value.part().is_some_and(|part| function.values[part.value].file == RegFile::General && part.count == 1 + u8::from(is_wide));
        Some(Atomic { kind: kind?, is_signed, old, value, value_at, is_wide }).filter(|_| is_plain && is_general)
    }

    /// Returns the operand that does not change the value in memory.
    fn identity(&self) -> i64 {
        match (self.kind, self.is_signed) {
            (Kind::Add | Kind::Or | Kind::Xor, _) | (Kind::Max, false) => 0,
            (Kind::And, _) | (Kind::Min, false) => i64::from(u32::MAX),
            (Kind::Max, true) => i64::from(i32::MIN as u32),
            (Kind::Min, true) => i64::from(i32::MAX),
        }
    }
}

/// How the operands of the threads are combined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Combination {
    /// All operands are equal, and the operation with all is the same as with one.
    Once,
    /// All operands are equal; they are added.
    Product,
    /// `REDUX` or `CREDUX`.
    Reduction(Opcode),
    /// Prefix sums.
    Prefix,
}

/// What is computed once for the operations with one guard, while the active threads stay the same.
#[derive(Clone, Copy)]
struct Voters {
    /// The threads that take part.
    mask: Operand,
    /// The number of the leader.
    leader: Operand,
    /// Whether a thread is the leader.
    is_leader: Operand,
    /// The number of threads.
    count: Option<Operand>,
    /// The number of threads below.
    rank: Option<Operand>,
}

/// Prefix sums of one operand under one guard, which are computed once while the active threads stay the same.
#[derive(Clone, Copy)]
struct Prefixes {
    /// The sum of the operands up to and including this thread's.
    total: Operand,
    /// Whether all threads of the warp take part.
    is_full: Operand,
    /// Whether a thread performs an operation.
    acts: Operand,
    /// The operand of that operation.
    operand: Operand,
}

/// What is computed once in a block while the active threads stay the same.
#[derive(Default)]
struct Shared {
    voters: FxHashMap<Option<Guard>, Voters>,
    prefixes: FxHashMap<(Option<Guard>, OperandKind), Prefixes>,
}

/// State of the pass.
struct Aggregate {
    target: Target,
    flow: ControlFlow,
    uniformity: Uniformity,
    definitions: Definitions,
    def_use: DefUse,
    /// The number of the thread in its warp, if anything reads it.
    lane: Option<Operand>,
    /// The mask of the threads with lower numbers, if anything reads it.
    lower: Option<Operand>,
}

impl Aggregate {
    /// Rewrites a block. Returns the number of operations that were combined.
    fn block(&mut self, function: &mut Function, block: Block) -> usize {
        let insts = std::mem::take(&mut function.blocks[block].insts);
        let mut written = Vec::with_capacity(insts.len());
        let mut shared = Shared::default();
        let mut count = 0;
        let selects_thread = self.is_selected(function, block);
        for inst in insts {
            // Threads may meet or part here, so the votes from before do not hold afterwards.
            if matches!(function.insts[inst].op.effect(), Effect::Barrier | Effect::Control | Effect::Other) {
                shared = Shared::default();
            }
            let found = self.read(function, inst).filter(|_| !selects_thread);
            let Some((atomic, combination)) = found.and_then(|atomic| Some((atomic, self.combination(function, inst, &atomic)?))) else {
                written.push(inst);
                continue;
            };
            count += 1;
            if combination == Combination::Prefix {
                self.add_prefixes(function, inst, &atomic, &mut shared, &mut written);
            } else {
                self.combine(function, inst, &atomic, combination, &mut shared, &mut written);
            }
        }
        function.blocks[block].insts = written;
        count
    }

    /// Matches an atomic operation. An old value that nothing reads does not count as a result.
    fn read(&self, function: &Function, inst: Inst) -> Option<Atomic> {
        let atomic = Atomic::read(function, inst)?;
        let old = atomic.old.filter(|part| !self.def_use.uses(part.value).is_empty());
        Some(Atomic { old, ..atomic })
    }

    /// Returns whether only the threads in which two values are equal execute a block, by the branch to it.
    fn is_selected(&self, function: &Function, block: Block) -> bool {
        let [before] = *self.flow.predecessors(block) else { return false };
        let [first, second] = *function.terminators(before) else { return false };
        let Some(guard) = function.insts[first].guard else { return false };
        let targets = |inst: Inst| function.operands(inst).iter().any(|operand| operand.kind == OperandKind::Block(block));
        match (targets(first), targets(second)) {
            (true, false) => self.selects(function, guard),
            (false, true) => self.selects(function, Guard { negated: !guard.negated, ..guard }),
            _ => false,
        }
    }

    /// Returns whether a guard tests the equality of values that differ between threads.
    fn selects(&self, function: &Function, guard: Guard) -> bool {
        let OperandKind::Value(part) = guard.kind else { return false };
        let Some(inst) = self.definitions.of(part.value) else { return false };
        let data = &function.insts[inst];
        let relation = if guard.negated { Symbol::NE } else { Symbol::EQ };
        let is_divergent = function.sources(inst).iter().any(|source| !self.uniformity.is_uniform_operand(source));
        data.is_machine(Opcode::ISETP) && data.modifiers.contains(&relation) && is_divergent
    }

    /// Returns how an operation is combined; `None` if it stays as it is.
    fn combination(&self, function: &Function, inst: Inst, atomic: &Atomic) -> Option<Combination> {
        let mut address = function.sources(inst).iter().filter(|operand| matches!(operand.role, Role::Bracket(_)));
        let is_uniform = |operand: &Operand| self.uniformity.is_uniform_operand(operand);
        let is_guarded_well = function.insts[inst].guard.is_none_or(|guard| match guard.kind {
            OperandKind::Value(part) => function.values[part.value].file == RegFile::Predicate && !self.selects(function, guard),
            _ => false,
        });
        if !address.all(is_uniform) || !is_guarded_well {
            return None;
        }
        let is_read = atomic.old.is_some();
        let is_same = is_uniform(&atomic.value);
        let is_plain = atomic.old.is_none_or(|part| function.whole(part.value) == part);
        match atomic.kind {
            _ if !is_plain => None,
            Kind::Add if is_same => Some(Combination::Product),
            Kind::And | Kind::Or | Kind::Min | Kind::Max if is_same && !is_read => Some(Combination::Once),
            _ if atomic.is_wide || (is_read && atomic.kind != Kind::Add) => None,
            Kind::Add if is_read => Some(Combination::Prefix),
            Kind::Min | Kind::Max if Opcode::CREDUX.exists_on(self.target) => Some(Combination::Reduction(Opcode::CREDUX)),
            _ if Opcode::REDUX.exists_on(self.target) => Some(Combination::Reduction(Opcode::REDUX)),
            Kind::Add => Some(Combination::Prefix),
            _ => None,
        }
    }

    /// Combines the operands, and lets the leader perform the operation.
    fn combine(
        &mut self,
        function: &mut Function,
        inst: Inst,
        atomic: &Atomic,
        combination: Combination,
        shared: &mut Shared,
        written: &mut Vec<Inst>,
    ) {
        let guard = function.insts[inst].guard;
        let mut prelude = Prelude::before(function, inst);
        let mut group = match shared.voters.get(&guard) {
            Some(known) => *known,
            None => self.vote(function, guard, &mut prelude),
        };
        let combined = match combination {
            Combination::Product => {
                let count = *group.count.get_or_insert_with(|| word(&mut prelude, function, Opcode::POPC, &[], &[group.mask]));
                self.product(function, &mut prelude, atomic, count, None)
            }
            Combination::Reduction(opcode) => self.reduction(function, &mut prelude, atomic, guard, opcode),
            Combination::Once | Combination::Prefix => atomic.value,
        };
        let rank = atomic.old.map(|_| *group.rank.get_or_insert_with(|| self.rank(function, &mut prelude, group.mask)));
        shared.voters.insert(guard, group);
        written.extend(prelude.insts.iter().copied());
        let old = elect(function, inst, atomic, group.is_leader, combined);
        written.push(inst);
        let (Some(result), Some((old, tied)), Some(rank)) = (atomic.old, old, rank) else { return };
        let mut after = Prelude::before(function, inst);
        let leader = group.leader;
        // Threads 1, 4 and 6 add 5 each to 100. Thread 6 leads: it adds 15 and gets the old value 100. The ranks are 0, 1 and 2, so the
        // threads get 100, 105 and 110, as if they had added one after the other.
        let words: SmallVec<[Operand; 2]> = (0..result.count).map(|at| shuffle(&mut after, function, piece(old, at), leader)).collect();
        let base = after.pack(function, RegFile::General, &words);
        let sum = self.product(function, &mut after, atomic, rank, Some(base));
        assign(function, &mut after, result, sum, guard, tied);
        written.extend(after.insts.iter().copied());
    }

    /// Computes which threads take part, and which of them leads.
    fn vote(&mut self, function: &mut Function, guard: Option<Guard>, prelude: &mut Prelude) -> Voters {
        let lane = self.lane(function);
        let mask = ballot(prelude, function, guard);
        let leader = word(prelude, function, Opcode::FLO, &[Symbol::U32], &[mask]);
        let is_leader = compare(prelude, function, Symbol::AND, lane, leader, Operand::PT);
        Voters { mask, leader, is_leader, count: None, rank: None }
    }

    /// Computes the number of threads of a mask that are below this one.
    fn rank(&mut self, function: &mut Function, prelude: &mut Prelude, mask: Operand) -> Operand {
        let lower = *self.lower.get_or_insert_with(|| fresh(function, Class::R));
        // The truth table of `a & b`.
        let table = Operand::from(0xc0_i64);
        let never = Operand::PT.inverted_predicate();
        let below = word(prelude, function, Opcode::LOP3, &[Symbol::LUT], &[mask, lower, Operand::RZ, table, never]);
        word(prelude, function, Opcode::POPC, &[], &[below])
    }

    /// Computes `value * count + base`.
    fn product(&self, function: &mut Function, prelude: &mut Prelude, atomic: &Atomic, count: Operand, base: Option<Operand>) -> Operand {
        let known = |function: &Function, operand: Operand| {
            let origin = operand.part().map_or(operand, |part| self.definitions.origin(function, part).into());
            Known::new(function, &self.definitions).word(&origin)
        };
        let Some(part) = atomic.value.part() else { return atomic.value };
        let start = base.unwrap_or(Operand::RZ);
        if !atomic.is_wide {
            return match (known(function, atomic.value), base) {
                (Some(1), None) => count,
                (Some(1), Some(base)) => sum(prelude, function, [count, base, Operand::RZ]),
                _ => word(prelude, function, Opcode::IMAD, &[], &[atomic.value, count, start]),
            };
        }
        // The count has 32 bits, so two partial products are enough: low * count in 64 bits, and high * count added to its upper half.
        let [low, high] = [0, 1].map(|at| Operand::from(piece(part, at)));
        let wide = prelude.define(function, Class::R2, Opcode::IMAD, &[Symbol::WIDE, Symbol::U32], &[low, count, start]);
        let Some(wide_part) = wide.part().filter(|_| known(function, high) != Some(0)) else { return wide };
        let upper = word(prelude, function, Opcode::IMAD, &[], &[high, count, piece(wide_part, 1).into()]);
        prelude.pack(function, RegFile::General, &[piece(wide_part, 0).into(), upper])
    }

    /// Combines the operands of all threads with `REDUX` or `CREDUX`.
    fn reduction(&self, function: &mut Function, prelude: &mut Prelude, atomic: &Atomic, guard: Option<Guard>, opcode: Opcode) -> Operand {
        let name = match atomic.kind {
            Kind::Add => Some(Symbol::SUM),
            Kind::And => None,
            Kind::Or => Some(Symbol::OR),
            Kind::Xor => Some(Symbol::XOR),
            Kind::Min => Some(Symbol::MIN),
            Kind::Max => Some(Symbol::MAX),
        };
        let modifiers: SmallVec<[Symbol; 2]> = name.into_iter().chain(atomic.is_signed.then_some(Symbol::S32)).collect();
        // `REDUX` combines all active threads, also those in which the guard does not hold: they contribute the identity.
        let value = match guard {
            Some(guard) => select(prelude, function, atomic.value, atomic.identity().into(), condition(guard)),
            None => atomic.value,
        };
        let uniform = prelude.define(function, Class::UR, opcode, &modifiers, &[value]);
        word(prelude, function, Opcode::MOV, &[], &[uniform])
    }

    /// Adds the operands of the threads below to each thread's operand; the last thread performs the operation if all take part.
    fn add_prefixes(&mut self, function: &mut Function, inst: Inst, atomic: &Atomic, shared: &mut Shared, written: &mut Vec<Inst>) {
        let guard = function.insts[inst].guard;
        let key = (guard, atomic.value.kind);
        let prefixes = match shared.prefixes.get(&key) {
            Some(known) => *known,
            None => {
                let mut prelude = Prelude::before(function, inst);
                let new = self.prefixes(function, &mut prelude, guard, atomic.value);
                written.extend(prelude.insts.iter().copied());
                shared.prefixes.insert(key, new);
                new
            }
        };
        let Prefixes { total, is_full, acts, operand } = prefixes;
        let old = elect(function, inst, atomic, acts, operand);
        written.push(inst);
        let (Some(result), Some((old, tied))) = (atomic.old, old) else { return };
        let mut after = Prelude::before(function, inst);
        // The old value of a thread is that of the last thread, plus the operands of the threads below: its own prefix sum without its
        // own operand. If not all threads take part, each has performed its own operation and has its own old value.
        let last = shuffle(&mut after, function, piece(old, 0), LAST_LANE.into());
        let before = sum(&mut after, function, [total, atomic.value.negated(), last]);
        let chosen = select(&mut after, function, before, old.into(), is_full);
        assign(function, &mut after, result, chosen, guard, tied);
        written.extend(after.insts.iter().copied());
    }

    /// Computes prefix sums of an operand, and which threads perform an operation with which operand.
    fn prefixes(&mut self, function: &mut Function, prelude: &mut Prelude, guard: Option<Guard>, value: Operand) -> Prefixes {
        let lane = self.lane(function);
        let mask = ballot(prelude, function, guard);
        let is_full = compare(prelude, function, Symbol::AND, mask, i64::from(u32::MAX).into(), Operand::PT);
        // Operands 3 1 4 1 of four threads become 3 4 5 5 at distance 1, and 3 4 8 9 at distance 2.
        let mut total = value;
        for distance in [1_i64, 2, 4, 8, 16] {
            total = add_from_below(prelude, function, total, distance);
        }
        let not_full = is_full.inverted_predicate();
        let mut acts = compare(prelude, function, Symbol::OR, lane, LAST_LANE.into(), not_full);
        if let Some(guard) = guard {
            // The truth table of `a & b & c`.
            let sources = [acts, condition(guard), Operand::PT, 0x80_i64.into(), 0_i64.into()];
            acts = predicate(prelude, function, Opcode::PLOP3, &[Symbol::LUT], &sources);
        }
        let operand = select(prelude, function, total, value, is_full);
        Prefixes { total, is_full, acts, operand }
    }

    /// Returns the number of the thread in its warp.
    fn lane(&mut self, function: &mut Function) -> Operand {
        *self.lane.get_or_insert_with(|| fresh(function, Class::R))
    }

    /// Inserts the reads of special registers at the start of the function, where they are executed once.
    fn insert_reads(&self, function: &mut Function) {
        let entry = function.entry();
        let is_start = |inst: &Inst| function.insts[*inst].op == Op::Pseudo(Pseudo::Entry);
        let mut at = function.blocks[entry].insts.iter().take_while(|inst| is_start(inst)).count();
        for (operand, name) in [(self.lane, "SR_LANEID"), (self.lower, "SR_LTMASK")] {
            let (Some(operand), Some(symbol)) = (operand, Symbol::find(name)) else { continue };
            let inst = function.new_inst(Op::Machine(Opcode::S2R), [].into_iter().collect(), None, &[operand, symbol.into()], 1);
            function.blocks[entry].insts.insert(at, inst);
            at += 1;
        }
    }
}

/// Creates a value; returns it as an operand.
fn fresh(function: &mut Function, class: Class) -> Operand {
    let value = function.new_value(class);
    function.whole(value).into()
}

/// Gives an operation its new guard and operand. Returns the register of the old value in the threads that perform the operation, and the
/// operand that the former result was tied to; `None` if there is no result.
fn elect(function: &mut Function, inst: Inst, atomic: &Atomic, acts: Operand, operand: Operand) -> Option<(Part, Option<Operand>)> {
    let tied = function.operands(inst).iter().find(|operand| matches!(operand.role, Role::Tied(_))).copied();
    let mut operands: SmallVec<[Operand; 8]> = function.operands(inst).iter().copied().collect();
    operands[atomic.value_at] = operand;
    operands.retain(|operand| !matches!(operand.role, Role::Tied(_)));
    let old = atomic.old.map(|part| function.new_value(Class::new(RegFile::General, part.count)));
    let count = function.insts[inst].result_count();
    if let Some(old) = old {
        let whole = function.whole(old);
        let result = operands[..count].iter_mut().find(|result| result.part().is_some());
        if let Some(result) = result {
            result.kind = OperandKind::Value(whole);
        }
    }
    function.set_operands(inst, &operands, count);
    function.insts[inst].guard = Some(Guard { kind: acts.kind, negated: false });
    old.map(|old| (function.whole(old), tied))
}

/// Defines the former result of an operation: the new value, or where the guard does not hold the old content.
fn assign(function: &mut Function, after: &mut Prelude, result: Part, value: Operand, guard: Option<Guard>, tied: Option<Operand>) {
    let (Some(guard), Some(tied)) = (guard, tied) else {
        after.push(function, Op::Pseudo(Pseudo::Copy), &[], &[result.into(), value], 1);
        return;
    };
    let (Some(new), Some(old)) = (value.part(), tied.part()) else {
        let kept = tied.with_role(Role::Plain);
        after.push(function, Op::Machine(Opcode::SEL), &[], &[result.into(), value, kept, condition(guard)], 1);
        return;
    };
    let words: SmallVec<[Operand; 2]> =
        (0..result.count).map(|at| select(after, function, piece(new, at).into(), piece(old, at).into(), condition(guard))).collect();
    let chosen = after.pack(function, RegFile::General, &words);
    after.push(function, Op::Pseudo(Pseudo::Copy), &[], &[result.into(), chosen], 1);
}

/// Returns a guard as an operand.
fn condition(guard: Guard) -> Operand {
    let operand = Operand::new(guard.kind);
    if guard.negated { operand.inverted_predicate() } else { operand }
}

/// Appends an instruction with a new 32-bit result.
fn word(prelude: &mut Prelude, function: &mut Function, opcode: Opcode, modifiers: &[Symbol], sources: &[Operand]) -> Operand {
    prelude.define(function, Class::R, opcode, modifiers, sources)
}

/// Appends an instruction with a new predicate and a second result that is not used.
fn predicate(prelude: &mut Prelude, function: &mut Function, opcode: Opcode, modifiers: &[Symbol], sources: &[Operand]) -> Operand {
    let result = fresh(function, Class::P);
    let operands: SmallVec<[Operand; 8]> = [result, Operand::PT].into_iter().chain(sources.iter().copied()).collect();
    prelude.push(function, Op::Machine(opcode), modifiers, &operands, 2);
    result
}

/// Appends a test of equality, combined with a predicate.
fn compare(prelude: &mut Prelude, function: &mut Function, with: Symbol, a: Operand, b: Operand, other: Operand) -> Operand {
    predicate(prelude, function, Opcode::ISETP, &[Symbol::EQ, Symbol::U32, with], &[a, b, other])
}

/// Appends a vote: the mask of the active threads in which the guard holds.
fn ballot(prelude: &mut Prelude, function: &mut Function, guard: Option<Guard>) -> Operand {
    let result = fresh(function, Class::R);
    let vote = guard.map_or(Operand::PT, condition);
    prelude.push(function, Op::Machine(Opcode::VOTE), &[Symbol::ANY], &[result, Operand::PT, vote], 2);
    result
}

/// Appends a choice between two words.
fn select(prelude: &mut Prelude, function: &mut Function, a: Operand, b: Operand, condition: Operand) -> Operand {
    word(prelude, function, Opcode::SEL, &[], &[a, b, condition])
}

/// Appends a sum of three words.
fn sum(prelude: &mut Prelude, function: &mut Function, terms: [Operand; 3]) -> Operand {
    let result = fresh(function, Class::R);
    let operands = [result, Operand::PT, Operand::PT, terms[0], terms[1], terms[2]];
    prelude.push(function, Op::Machine(Opcode::IADD3), &[], &operands, 3);
    result
}

/// Appends a shuffle that reads a word of one thread.
fn shuffle(prelude: &mut Prelude, function: &mut Function, source: Part, lane: Operand) -> Operand {
    let result = fresh(function, Class::R);
    let operands = [Operand::PT, result, source.into(), lane, WHOLE_WARP.into()];
    prelude.push(function, Op::Machine(Opcode::SHFL), &[Symbol::IDX], &operands, 2);
    result
}

/// Appends the addition of the word of the thread that is `distance` below, where there is one.
fn add_from_below(prelude: &mut Prelude, function: &mut Function, value: Operand, distance: i64) -> Operand {
    let [exists, below] = [Class::P, Class::R].map(|class| fresh(function, class));
    prelude.push(function, Op::Machine(Opcode::SHFL), &[Symbol::UP], &[exists, below, value, distance.into(), 0_i64.into()], 2);
    // `SHFL.UP` says whether there is a thread `distance` below. Where there is none, the sum must stay: the addition is guarded, and its
    // result is tied to the old sum.
    let total = sum(prelude, function, [value, below, Operand::RZ]);
    if let Some(&inst) = prelude.insts.last() {
        let mut operands: SmallVec<[Operand; 8]> = function.operands(inst).iter().copied().collect();
        operands.push(value.with_role(Role::Tied(0)));
        function.set_operands(inst, &operands, 3);
        function.insts[inst].guard = Some(Guard { kind: exists.kind, negated: false });
    }
    total
}
