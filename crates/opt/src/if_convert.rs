//! If-conversion: replaces short branches by guarded instructions.
//!
//! A branch around a short block costs more cycles than executing the block under a guard, and divergent threads must meet again afterwards
//! (`BSSY`, `BSYNC`). The short blocks after a branch, its *arms*, are appended to the block with the branch; the phis of the block where
//! the paths meet become results that keep an old value where the guard does not hold:
//!
//! ```text
//! bb0:  @!%p BRA bb2 ; BRA bb1                bb0:  %y = IADD3 %x, 1, RZ                       // needs no guard: no phi reads %y
//! bb1:  %y = IADD3 %x, 1, RZ                        @%p %v = FADD %a, %b, (else %u)
//!       %v = FADD %a, %b            becomes         @%p STG [%z], %y
//!       STG [%z], %y                                BRA bb2
//!       BRA bb2                               bb2:  %w = COPY %v
//! bb2:  %w = PHI %u, bb0, %v, bb1
//! ```
//!
//! There is one arm (the branch goes around it) or two. An arm has one predecessor and one successor, no phis, and only instructions that
//! may be guarded: no calls, barriers, fences, votes, shuffles and matrix operations. Each arm has at most as many machine instructions as a
//! taken branch costs cycles in the hardware model; arms with several loads may have together as many instructions as a divergent branch
//! costs cycles. An instruction of the integer or the multiply unit whose result no phi reads is executed without a guard,
//! which gives the scheduler more freedom; all others get one.
//!
//! Blocks that always follow each other are merged afterwards, and a second round converts branches around the merged blocks.
//!
//! **Before** and **after**: SSA without convergence barriers. The cost is linear in the size of the function.

use oriole_hardware::Hardware;
use oriole_ir::analysis::ControlFlow;
use oriole_ir::{Block, Class, Function, Guard, Inst, Op, Operand, OperandKind, Part, Pseudo, RegFile, Role, Target, Value, machine};
use oriole_isa::{Effect, Opcode, Pipe, Symbols};
use oriole_support::Index;
use smallvec::SmallVec;

use crate::dead;
use crate::forward;
use crate::remarks::Remarks;
use crate::rewrite::single_register;
use crate::straighten;

/// Maximum number of rounds over all branches. In the second round, an arm may contain instructions of branches converted in the first.
const MAX_CONVERSION_ROUNDS: usize = 2;

/// Numbers of changes that the pass made to a function.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Number of branches replaced by guarded instructions.
    pub branches: usize,
}

/// Name of the pass in remarks.
const PASS_NAME: &str = "if-convert";

/// Replaces short branches by guarded instructions in a whole function.
pub fn run(function: &mut Function, hardware: &Hardware<'_>) -> Stats {
    run_and_record_remarks(function, hardware, &mut Remarks::default())
}

/// Runs the pass like [`run`], and records for each candidate branch whether it was converted, or why not.
pub fn run_and_record_remarks(function: &mut Function, hardware: &Hardware<'_>, remarks: &mut Remarks) -> Stats {
    let costs = hardware.costs;
    let limits = ArmInstLimits { without_loads: costs.taken_branch as usize, with_loads: costs.diverging_branch as usize };
    let mut stats = Stats::default();
    for _ in 0..MAX_CONVERSION_ROUNDS {
        remarks.forget_missed(PASS_NAME);
        let converted = convert_all_branches(function, hardware.target, limits, remarks);
        stats.branches += converted;
        if converted == 0 || straighten::run(function, hardware.target) == 0 {
            break;
        }
        // The phis of the joined blocks became copies. Instructions read their origins, also the registers of merged tuples.
        forward::run(function, hardware.target);
    }
    if stats.branches > 0 {
        dead::run(function, hardware.target);
    }
    stats
}

/// A conditional branch whose paths meet again after at most one block (*arm*) each.
pub(crate) struct ConvertibleBranch {
    /// The predicate of the branch.
    pub(crate) guard: Guard,
    /// The arm for threads where the guard holds; `None` if they go to `join` directly.
    pub(crate) taken_arm: Option<Block>,
    /// The arm for the other threads; `None` if they go to `join` directly.
    pub(crate) other_arm: Option<Block>,
    /// The block where both paths meet.
    pub(crate) join: Block,
}

/// Maximum number of instructions in the arms of a branch.
#[derive(Clone, Copy)]
struct ArmInstLimits {
    /// Limit for the larger arm of a branch whose arms have at most one load. Threads that need one arm execute the other one in vain, and
    /// save a taken branch.
    without_loads: usize,
    /// Limit for both arms together if they have several loads. It is higher, because guarded loads of several arms are in flight at the
    /// same time, while loads in separate blocks are waited for at the end of each block.
    with_loads: usize,
}

impl ArmInstLimits {
    /// Returns the number of instructions in `arms` that counts, and the maximum for which the branch is converted.
    fn insts_and_limit(self, function: &Function, arms: &[Block]) -> (usize, usize) {
        let insts = arms.iter().flat_map(|&arm| &function.blocks[arm].insts);
        let has_loads = insts.filter(|&&inst| function.insts[inst].op.effect() == Effect::Reads).nth(1).is_some();
        let sizes = arms.iter().map(|&arm| count_machine_insts(function, arm));
        if has_loads { (sizes.sum(), self.with_loads) } else { (sizes.max().unwrap_or(0), self.without_loads) }
    }
}

/// Replaces all short branches of a function by guarded instructions, in one round. Returns the number of branches replaced.
fn convert_all_branches(function: &mut Function, target: Target, limits: ArmInstLimits, remarks: &mut Remarks) -> usize {
    let flow = ControlFlow::compute(function);
    let facts = ValueFacts::compute(function);
    let mut removed: Vec<bool> = vec![false; function.blocks.len()];
    let mut converted = 0;
    for at in 0..function.layout.len() {
        let block = function.layout[at];
        if removed[block.position()] || !flow.is_reachable(block) {
            continue;
        }
        let Some(branch) = match_convertible_branch(function, &flow, block) else { continue };
        let arms: SmallVec<[Block; 2]> = branch.taken_arm.into_iter().chain(branch.other_arm).collect();
        let (size, limit) = limits.insts_and_limit(function, &arms);
        let place = function.insts[function.terminators(block)[0]].location;
        let is_open = arms.iter().all(|&arm| !removed[arm.position()]);
        let obstacle = if size > limit {
            Some("a taken branch is cheaper than its arms")
        } else if !is_open || !arms.iter().all(|&arm| may_guard_all_insts(function, arm, branch.guard, target)) {
            Some("an instruction of its arms cannot be executed under a guard")
        } else if !are_join_phis_selectable(function, &branch, block) {
            Some("a value that its arms compute cannot be selected by a guard")
        } else {
            None
        };
        if let Some(obstacle) = obstacle {
            remarks.missed(PASS_NAME, place, || format!("{obstacle} ({size} instructions, a taken branch costs {limit} cycles)"));
            continue;
        }
        convert_branch(function, &facts, block, &branch, target);
        arms.iter().for_each(|arm| removed[arm.position()] = true);
        converted += 1;
        remarks.done(PASS_NAME, place, || format!("the branch was replaced by {size} guarded instructions"));
    }
    function.layout.retain(|block| !removed[block.position()]);
    converted
}

/// Returns the number of machine instructions of an arm without the branch at its end. Copies and packs are not counted: most of them only
/// name registers.
fn count_machine_insts(function: &Function, arm: Block) -> usize {
    let is_counted = |inst: &&Inst| function.insts[**inst].op.machine().is_some_and(|opcode| opcode != Opcode::BRA);
    function.blocks[arm].insts.iter().filter(is_counted).count()
}

/// Matches the conditional branch at the end of a block; `None` unless each arm has one predecessor and all paths meet in one block.
pub(crate) fn match_convertible_branch(function: &Function, flow: &ControlFlow, block: Block) -> Option<ConvertibleBranch> {
    let [first, second] = *function.terminators(block) else { return None };
    let (taken, other) = (plain_branch_target(function, first)?, plain_branch_target(function, second)?);
    let guard = function.insts[first].guard.filter(|guard| matches!(guard.kind, OperandKind::Value(_)))?;
    if function.insts[second].guard.is_some() || taken == other {
        return None;
    }
    let arm = |arm: Block| {
        let [branch] = function.terminators(arm) else { return None };
        let is_arm = arm != block && flow.predecessors(arm) == [block] && function.insts[*branch].guard.is_none();
        plain_branch_target(function, *branch).filter(|&next| is_arm && next != arm)
    };
    match (arm(taken), arm(other)) {
        (Some(join), _) if join == other => Some(ConvertibleBranch { guard, taken_arm: Some(taken), other_arm: None, join }),
        (_, Some(join)) if join == taken => Some(ConvertibleBranch { guard, taken_arm: None, other_arm: Some(other), join }),
        (Some(join), Some(same)) if join == same && join != block => {
            Some(ConvertibleBranch { guard, taken_arm: Some(taken), other_arm: Some(other), join })
        }
        _ => None,
    }
}

/// Returns the target of a `BRA` without modifiers; `None` for other instructions.
fn plain_branch_target(function: &Function, inst: Inst) -> Option<Block> {
    let data = &function.insts[inst];
    match function.operands(inst) {
        [Operand { kind: OperandKind::Block(target), .. }] if data.is_machine(Opcode::BRA) && data.modifiers.is_empty() => Some(*target),
        _ => None,
    }
}

/// Facts about the values of a function, computed before a round.
struct ValueFacts {
    /// For each value, the number of operands and guards that read it.
    reader_counts: Vec<u32>,
    /// For each value, the `PACK` that defines it.
    packs: Vec<Option<Inst>>,
}

impl ValueFacts {
    /// Computes the facts of all values of a function.
    fn compute(function: &Function) -> ValueFacts {
        let mut facts = ValueFacts { reader_counts: vec![0; function.values.len()], packs: vec![None; function.values.len()] };
        for &inst in function.layout.iter().flat_map(|&block| &function.blocks[block].insts) {
            function.used(inst).for_each(|part| facts.reader_counts[part.value.position()] += 1);
            if function.insts[inst].is(Pseudo::Pack) && function.insts[inst].guard.is_none() {
                function.defined(inst).for_each(|value| facts.packs[value.position()] = Some(inst));
            }
        }
        facts
    }

    /// Returns the number of operands and guards that read a value; 0 for values created later.
    fn reader_count(&self, value: Value) -> u32 {
        self.reader_counts.get(value.position()).copied().unwrap_or(0)
    }

    /// Returns the value that a `PACK` puts into a single register of its result; `None` if no `PACK` defines it, or if the source is not a
    /// whole value.
    fn packed_value(&self, function: &Function, register: Part) -> Option<Operand> {
        let pack = self.packs.get(register.value.position()).copied().flatten()?;
        let source = *function.sources(pack).get(usize::from(register.first))?;
        let is_single = source.part().is_some_and(|part| part.count == 1 && part == function.whole(part.value));
        let has_single_sources = function.sources(pack).len() == usize::from(function.values[register.value].width);
        (is_single && has_single_sources).then_some(source)
    }
}

/// Returns whether every instruction of an arm, except the branch at its end, may execute under a guard.
fn may_guard_all_insts(function: &mut Function, arm: Block, guard: Guard, target: Target) -> bool {
    let insts: SmallVec<[Inst; 16]> = function.blocks[arm].insts.iter().copied().collect();
    let Some((_, body)) = insts.split_last() else { return false };
    body.iter().all(|&inst| may_execute_under_guard(function, inst, guard, target))
}

/// Returns whether an instruction may execute under a guard: it involves no other threads, is not guarded yet, and can be encoded with the
/// guard.
fn may_execute_under_guard(function: &mut Function, inst: Inst, guard: Guard, target: Target) -> bool {
    let data = &function.insts[inst];
    let is_thread_file = |file| matches!(file, RegFile::General | RegFile::Predicate);
    let is_own = |operand: &Operand| matches!(operand.role, Role::Plain | Role::Bracket(_));
    if data.guard.is_some()
        || !function.defined(inst).all(|value| is_thread_file(function.values[value].file))
        || !function.operands(inst).iter().all(is_own)
    {
        return false;
    }
    match data.op {
        Op::Pseudo(pseudo) => matches!(pseudo, Pseudo::Copy | Pseudo::Pack),
        Op::Machine(opcode) => {
            let properties = opcode.properties();
            // Each thread arrives at a barrier in memory on its own; ptxas guards such instructions too.
            let is_arrival = opcode == Opcode::SYNCS && data.modifiers.iter().any(|modifier| modifier.spelling() == ".ARRIVE");
            let is_simple = matches!(properties.effect, Effect::None | Effect::Reads | Effect::Writes | Effect::Updates) || is_arrival;
            let is_per_thread = matches!(properties.pipe, Pipe::Alu | Pipe::Fma | Pipe::Half | Pipe::Double | Pipe::Xu | Pipe::Lsu);
            // An asynchronous copy needs loads without an effect before it, which depend on its block (pass `guard_copies`).
            if !is_simple || !is_per_thread || opcode == Opcode::LDGSTS {
                return false;
            }
            function.insts[inst].guard = Some(guard);
            let is_encodable = machine::is_encodable(function, inst, target);
            function.insts[inst].guard = None;
            is_encodable
        }
    }
}

/// Returns whether every phi of the block where the paths of a branch meet has, for both paths, a source that a guarded instruction can
/// select.
fn are_join_phis_selectable(function: &Function, branch: &ConvertibleBranch, block: Block) -> bool {
    let (taken, other) = join_predecessors(branch, block);
    let is_simple = |source: Option<Operand>| match source.map(|source| source.kind) {
        Some(OperandKind::Value(part)) => part == function.whole(part.value) || function.values[part.value].file == RegFile::General,
        Some(OperandKind::Undefined) => true,
        _ => false,
    };
    let is_thread_phi = |phi: Inst| {
        let file = function.results(phi)[0].value().map(|value| function.values[value].file);
        matches!(file, Some(RegFile::General | RegFile::Predicate))
    };
    function.phis(branch.join).iter().all(|&phi| {
        is_thread_phi(phi) && is_simple(phi_source_for(function, phi, taken)) && is_simple(phi_source_for(function, phi, other))
    })
}

/// Returns the predecessors of the block where the two paths of a branch meet: first the one on the path where the guard holds, then the
/// other one.
fn join_predecessors(branch: &ConvertibleBranch, block: Block) -> (Block, Block) {
    (branch.taken_arm.unwrap_or(block), branch.other_arm.unwrap_or(block))
}

/// Returns the source of a phi for the predecessor `from`; `None` if the phi has none.
fn phi_source_for(function: &Function, phi: Inst, from: Block) -> Option<Operand> {
    function.sources(phi).chunks_exact(2).find(|pair| pair[1].kind == OperandKind::Block(from)).map(|pair| pair[0])
}

/// Replaces the branch at the end of `block` by the instructions of its arms, guarded where needed, and updates the phis of the block where
/// the paths meet.
fn convert_branch(function: &mut Function, facts: &ValueFacts, block: Block, branch: &ConvertibleBranch, target: Target) {
    let (taken, other) = join_predecessors(branch, block);
    let phis: SmallVec<[Inst; 8]> = function.phis(branch.join).iter().copied().collect();
    let pairs: SmallVec<[(Operand, Operand); 8]> = phis
        .iter()
        .map(|&phi| {
            let source = |from| phi_source_for(function, phi, from).unwrap_or(Operand::new(OperandKind::Undefined));
            (source(taken), source(other))
        })
        .collect();
    let terminators = function.terminators(block).len();
    let length = function.blocks[block].insts.len() - terminators;
    function.blocks[block].insts.truncate(length);
    let negated = Guard { negated: !branch.guard.negated, ..branch.guard };
    // With two arms, the results of the first one are correct only where its guard holds; elsewhere the guarded results of the second one
    // overwrite them.
    let merged = match (branch.taken_arm, branch.other_arm) {
        (Some(arm), None) => {
            let pairs: SmallVec<[(Operand, Operand); 8]> = pairs.iter().map(|&(taken, other)| (other, taken)).collect();
            append_arm_to_block(function, facts, block, arm, branch.guard, &pairs, target)
        }
        (taken_arm, Some(arm)) => {
            if let Some(first) = taken_arm {
                append_arm_to_block(function, facts, block, first, branch.guard, &[], target);
            }
            append_arm_to_block(function, facts, block, arm, negated, &pairs, target)
        }
        (None, None) => return,
    };
    let jump = function.new_inst(Op::Machine(Opcode::BRA), Symbols::new(), None, &[branch.join.into()], 0);
    function.blocks[block].insts.push(jump);
    for (phi, merged) in phis.into_iter().zip(merged) {
        let mut operands: SmallVec<[Operand; 8]> = SmallVec::from_slice(&[function.results(phi)[0]]);
        for pair in function.sources(phi).chunks_exact(2) {
            let is_kept = pair[1].kind != OperandKind::Block(taken) && pair[1].kind != OperandKind::Block(other);
            operands.extend(pair.iter().copied().filter(|_| is_kept));
        }
        operands.extend([merged, block.into()]);
        function.set_operands(phi, &operands, 1);
    }
}

/// Appends the instructions of an arm to `block`, under `guard`. Each of `pairs` is an old value and a value of the arm; returns, for each
/// pair, an operand that is the value of the arm if the guard holds and the old value otherwise.
fn append_arm_to_block(
    function: &mut Function,
    facts: &ValueFacts,
    block: Block,
    arm: Block,
    guard: Guard,
    pairs: &[(Operand, Operand)],
    target: Target,
) -> SmallVec<[Operand; 8]> {
    let mut insts = std::mem::take(&mut function.blocks[arm].insts);
    insts.pop();
    let mut extra: Vec<Inst> = Vec::new();
    let mut merged: SmallVec<[Operand; 8]> = pairs.iter().map(|&(old, _)| old).collect();
    // Pairs of whole values come first. A later pair of single registers of two such values then becomes the same register of their merged
    // value.
    let mut order: SmallVec<[usize; 8]> = (0..pairs.len()).collect();
    order.sort_by_key(|&at| !reads_whole_value(function, pairs[at].1));
    for (done, &at) in order.iter().enumerate() {
        let (mut old, new) = pairs[at];
        if old.kind == new.kind || new.kind == OperandKind::Undefined {
            continue;
        }
        if let Some(&same) = order[..done].iter().find(|&&earlier| pairs[earlier] == pairs[at]) {
            merged[at] = merged[same];
            continue;
        }
        let container = order[..done].iter().find(|&&whole| is_same_register_of_pair(function, pairs[at], pairs[whole]));
        if let (Some(&whole), Some(part)) = (container, new.part())
            && let Some(value) = merged[whole].value()
        {
            merged[at] = Operand::from(Part { value, ..part });
            continue;
        }
        if !reads_whole_value(function, old) {
            let (copy, result) = new_copy_inst(function, None, &[old]);
            function.blocks[block].insts.push(copy);
            old = result;
        }
        let uses = pairs.iter().filter(|&&pair| pair == pairs[at] || is_same_register_of_pair(function, pair, pairs[at])).count();
        merged[at] = if old.kind == OperandKind::Undefined
            || tie_definition_to_old_value(function, facts, &insts, guard, (old, new, uses), target)
        {
            new
        } else if let (Some(old), Some(pack)) = (old.part(), pack_of_arm(function, facts, &insts, new, uses)) {
            merge_registers_of_pack(function, facts, (block, &mut insts), guard, (old, pack), target);
            new
        } else {
            let (copy, result) = new_copy_inst(function, Some(guard), &[new, old.with_role(Role::Tied(0))]);
            extra.push(copy);
            result
        };
    }
    for &inst in &insts {
        let is_free = match function.insts[inst].op {
            Op::Pseudo(_) => true,
            Op::Machine(opcode) => {
                let properties = opcode.properties();
                properties.effect == Effect::None && matches!(properties.pipe, Pipe::Alu | Pipe::Fma)
            }
        };
        if !is_free {
            function.insts[inst].guard = Some(guard);
        }
    }
    function.blocks[block].insts.extend(insts);
    function.blocks[block].insts.extend(extra);
    merged
}

/// Returns whether an operand reads all registers of a value, or is not a value.
fn reads_whole_value(function: &Function, operand: Operand) -> bool {
    operand.part().is_none_or(|part| part == function.whole(part.value))
}

/// Returns whether the operands of `pair` are the same registers of the two values of `whole`, as `(%x[1], %y[1])` for `(%x, %y)`.
fn is_same_register_of_pair(function: &Function, pair: (Operand, Operand), whole: (Operand, Operand)) -> bool {
    let (Some(old), Some(new)) = (pair.0.part(), pair.1.part()) else { return false };
    reads_whole_value(function, whole.0)
        && reads_whole_value(function, whole.1)
        && (whole.0.value(), whole.1.value()) == (Some(old.value), Some(new.value))
        && (old.first, old.count) == (new.first, new.count)
        && !reads_whole_value(function, pair.0)
        && !reads_whole_value(function, pair.1)
}

/// Creates a `COPY` of `sources[0]` to a new value. A second source is the tied operand, which the result keeps if the guard does not hold.
/// Returns the instruction and the new value.
fn new_copy_inst(function: &mut Function, guard: Option<Guard>, sources: &[Operand]) -> (Inst, Operand) {
    let class = sources[0].part().map_or(Class::R, |part| {
        let Class { file, align, .. } = function.values[part.value];
        Class { file, width: part.count, align: align.min(part.count.next_power_of_two()) }
    });
    let value = function.new_value(class);
    let result = Operand::from(function.whole(value));
    let mut operands: SmallVec<[Operand; 4]> = SmallVec::from_slice(&[result]);
    operands.extend_from_slice(sources);
    (function.new_inst(Op::Pseudo(Pseudo::Copy), Symbols::new(), guard, &operands, 1), result)
}

/// Returns the `PACK` in `insts` that defines `new`, if its sources are single registers that `insts` define and nothing else reads, and if
/// `new` has no readers besides `uses` phis.
fn pack_of_arm(function: &Function, facts: &ValueFacts, insts: &[Inst], new: Operand, uses: usize) -> Option<Inst> {
    let value = new.value().filter(|&value| reads_whole_value(function, new) && facts.reader_count(value) as usize == uses)?;
    let defines = |inst: Inst, value: Value| function.defined(inst).any(|defined| defined == value);
    let &pack = insts.iter().find(|&&inst| function.insts[inst].is(Pseudo::Pack) && defines(inst, value))?;
    let is_own = |source: &Operand| {
        let single = source.value().filter(|&value| function.values[value].width == 1 && facts.reader_count(value) == 1);
        single.is_some_and(|value| insts.iter().any(|&inst| defines(inst, value)))
    };
    (function.insts[pack].guard.is_none() && function.sources(pack).iter().all(is_own)).then_some(pack)
}

/// Merges the value of a `PACK` of an arm with the value `old`, register by register: the instructions that compute its sources become
/// guarded ones that keep the registers of `old`.
///
/// ```text
/// %a:R, %c:P = IADD3 %x, %y, RZ           %u:R = COPY %old[0] ; %v:R = COPY %old[1]
/// %b:R = IADD3.X %z, RZ, RZ, %c    ->     @%p %a:R, %c:P = IADD3 %x, %y, RZ, (else %u)
/// %n:R2 = PACK %a, %b                     @%p %b:R = IADD3.X %z, RZ, RZ, %c, (else %v)
///                                         %n:R2 = PACK %a, %b
/// ```
///
/// If `old` is the result of a `PACK` too, its sources take the place of the copies.
fn merge_registers_of_pack(
    function: &mut Function,
    facts: &ValueFacts,
    (block, insts): (Block, &mut Vec<Inst>),
    guard: Guard,
    (old, pack): (Part, Inst),
    target: Target,
) {
    let mut operands: SmallVec<[Operand; 8]> = function.operands(pack).iter().copied().collect();
    for (number, source) in operands[1..].iter_mut().enumerate() {
        let register = single_register(old, number as u8);
        let kept = facts.packed_value(function, register).unwrap_or_else(|| {
            let (copy, kept) = new_copy_inst(function, None, &[register.into()]);
            function.blocks[block].insts.push(copy);
            kept
        });
        if !tie_definition_to_old_value(function, facts, insts, guard, (kept, *source, 1), target) {
            let (copy, result) = new_copy_inst(function, Some(guard), &[*source, kept.with_role(Role::Tied(0))]);
            let at = insts.iter().position(|&inst| inst == pack).unwrap_or(insts.len());
            insts.insert(at, copy);
            *source = result;
        }
    }
    function.set_operands(pack, &operands, 1);
}

/// Guards the instruction in `insts` that defines `new`, and ties its result to `old`, so that the result is `old` if the guard does not
/// hold. Returns false and changes nothing if none of `insts` defines `new`, if `new` has more readers than `uses` phis, or if the target
/// cannot encode the guarded instruction.
fn tie_definition_to_old_value(
    function: &mut Function,
    facts: &ValueFacts,
    insts: &[Inst],
    guard: Guard,
    (old, new, uses): (Operand, Operand, usize),
    target: Target,
) -> bool {
    let is_only_read_here = |&value: &Value| facts.reader_count(value) as usize == uses && reads_whole_value(function, new);
    let Some(value) = new.value().filter(is_only_read_here) else { return false };
    let Some(&inst) = insts.iter().find(|&&inst| function.defined(inst).any(|defined| defined == value)) else { return false };
    let is_copy = function.insts[inst].is(Pseudo::Copy);
    if function.insts[inst].guard.is_some() || function.insts[inst].result_count() > 1 && is_copy || function.insts[inst].is(Pseudo::Pack) {
        return false;
    }
    let Some(at) = function.results(inst).iter().position(|result| result.value() == Some(value)) else { return false };
    let before: SmallVec<[Operand; 8]> = function.operands(inst).iter().copied().collect();
    let count = function.insts[inst].result_count();
    let mut operands = before.clone();
    operands.push(old.with_role(Role::Tied(at as u8)));
    function.set_operands(inst, &operands, count);
    function.insts[inst].guard = Some(guard);
    let is_encodable = is_copy || machine::is_encodable(function, inst, target);
    if !is_encodable {
        function.set_operands(inst, &before, count);
        function.insts[inst].guard = None;
    }
    is_encodable
}
