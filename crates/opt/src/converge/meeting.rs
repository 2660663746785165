//! Warp operations that threads of a warp may execute together at different instructions.
//!
//! `shfl.sync`, `vote.sync`, `match.sync`, `redux.sync`, `elect.sync` and `bar.warp.sync` wait until all threads of the mask have executed an
//! operation with the same qualifiers and mask. PTX does not ask for the same instruction: the arms of a branch may have one shuffle each. A `WARPSYNC` in each arm
//! would hang, because the threads of a `WARPSYNC` wait for each other at that instruction only (seen on an H200). So where several blocks
//! that only some threads execute have operations of one kind, a diverged warp calls a function of the compiler, in which all threads meet:
//!
//! ```text
//! bb1:  WARPSYNC.ALL                           bb1:  %9:UR = UMOV -1 ; @PT BRA.DIV %9, bb8 ; BRA bb6
//!       %3:R = SHFL.IDX %0, %1, 0x1f  becomes  bb6:  %10:R = SHFL.IDX %0, %1, 0x1f ; BRA bb7
//!       rest                                   bb7:  %3:R = PHI %10, bb6, %11, bb8 ; rest
//!                                              bb8:  %11:R = CALL __oriole_warp_shfl_idx(%0, %1, 0x1f, -1) ; BRA bb7
//! ```
//!
//! If the warp is converged, no other thread can be at another operation. Masks in registers may differ between threads, so for them the
//! test is whether all threads are here.
//!
//! **Which operations.** Threads of a warp can wait at two different operations only if both are in the same stretch of diverged code. For
//! example, a warp is converged at a barrier of the block, so operations before the barrier do not meet those after it. Also, consider two
//! operations of one kind in the same loop, where the block of the first dominates that of the second and the second post-dominates the first.
//! Each thread executes both equally often and in the same order, so threads that wait for each other are at the same one. If that holds for
//! all operations of a kind in a stretch, as in a function with one loop of shuffles, they keep their `WARPSYNC`.
//!
//! **Other functions.** Threads may also meet in different functions: in two functions that the arms of a branch call, or in a function that
//! one arm calls and in the other arm. Functions other than kernels are compiled without their callers, so all of their operations at which the
//! warp may be diverged are replaced. In a kernel, this holds for operations in a stretch that calls a function with warp operations.
//!
//! **ptxas** tests for divergence in the same way. Before Hopper it calls such functions; on Hopper and later `WARPSYNC.COLLECTIVE` lets one
//! thread's instruction execute for all, out of line, on registers that are the same at all operations. The functions here need no
//! registers of their own in the rest of the function.
//!
//! **Results in uniform registers.** `REDUX` and `ELECT` write a uniform register, which all threads of the warp share, and moves copy it to
//! general registers. The moves are replaced together with the instruction, and the functions return general registers. These functions write a
//! uniform register, so values in uniform registers stay alive until after the call (see `shared_uniform`). An operation whose uniform
//! result has another reader keeps its `WARPSYNC`.
//!
//! Reductions and elections involve all active threads. So with a mask in a register, `WARPSYNC.EXCLUSIVE` also separates the threads
//! of different masks where the warp is converged.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use oriole_ir::analysis::{ControlFlow, Dominators, Loops, PostDominators};
use oriole_ir::{
    Block, Class, FIRST_ARGUMENT_REGISTER, Function, FunctionKind, Inst, Location, Op, Operand, Part, Pseudo, Reference, ReferenceKind,
    RegFile, Role, Target, Value, WARP_OPERATION_PREFIX,
};
use oriole_isa::{Opcode, Symbol, Symbols};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::diverged_branch::{DivergedBranches, new_machine_inst};
use super::split::split_block;
use super::unread_moves::remove_unread_moves;
use super::warpsync::is_plain_warpsync;
use crate::definitions::Definitions;
use crate::known::OperandFacts;

/// The kind of a warp operation: the opcode, the mode of shuffles, and all modifiers of reductions. Threads can only execute operations of the
/// same kind together.
type OperationKind = (Opcode, Symbols);

/// A `WARPSYNC` and the instructions that need it, all selected for one PTX instruction.
struct WarpOperation {
    /// Index of the `WARPSYNC` in its block.
    synchronization: usize,
    /// Indices of the instructions that exchange values between threads; empty for `bar.warp.sync`.
    exchanges: SmallVec<[usize; 2]>,
    kind: OperationKind,
}

/// Returns the warp operations of a block that can be replaced. `uniform_reads` has the number of reads of each uniform value.
fn warp_operations(function: &Function, block: Block, uniform_reads: &FxHashMap<Value, usize>) -> Vec<WarpOperation> {
    let mut found: Vec<WarpOperation> = Vec::new();
    // The location of the last `WARPSYNC`; `None` if its operation cannot be replaced.
    let mut location: Option<Location> = None;
    let insts = &function.blocks[block].insts;
    for (at, &inst) in insts.iter().enumerate() {
        let data = &function.insts[inst];
        if data.is_machine(Opcode::WARPSYNC) && data.guard.is_none() {
            location = Some(data.location);
            found.push(WarpOperation { synchronization: at, exchanges: SmallVec::new(), kind: (Opcode::WARPSYNC, Symbols::new()) });
            continue;
        }
        let (Some(opcode), Some(last)) = (data.op.machine(), found.last_mut()) else { continue };
        if location != Some(data.location) {
            continue;
        }
        let is_simple = || data.guard.is_none() && has_simple_operands(function, inst);
        let is_only_moved = || {
            uniform_result(function, inst)
                .is_none_or(|value| uniform_reads.get(&value).copied().unwrap_or_default() == moves_of(function, value, &insts[at..]).len())
        };
        match opcode {
            Opcode::SHFL | Opcode::VOTE | Opcode::MATCH if is_simple() => {
                last.exchanges.push(at);
                last.kind = (opcode, data.modifiers.iter().copied().take(usize::from(opcode == Opcode::SHFL)).collect());
            }
            Opcode::REDUX | Opcode::CREDUX | Opcode::ELECT if is_simple() && is_only_moved() => {
                last.exchanges.push(at);
                last.kind = (opcode, data.modifiers.clone());
            }
            Opcode::SHFL | Opcode::VOTE | Opcode::MATCH | Opcode::REDUX | Opcode::CREDUX | Opcode::ELECT => {
                found.pop();
                location = None;
            }
            _ => {}
        }
    }
    // Other synchronizations precede instructions that all threads of a warp execute together.
    let orders_memory = |at: usize| function.insts[function.blocks[block].insts[at]].memory.is_some();
    found.retain(|operation| !operation.exchanges.is_empty() || orders_memory(operation.synchronization));
    found
}

/// Returns the value in a uniform register that an instruction defines.
fn uniform_result(function: &Function, inst: Inst) -> Option<Value> {
    function.defined(inst).find(|&value| function.values[value].file == RegFile::Uniform)
}

/// Counts the reads of each value in a uniform register.
fn count_uniform_reads(function: &Function) -> FxHashMap<Value, usize> {
    let mut reads: FxHashMap<Value, usize> = FxHashMap::default();
    for part in function.layout.iter().flat_map(|&block| &function.blocks[block].insts).flat_map(|&inst| function.used(inst)) {
        if function.values[part.value].file == RegFile::Uniform {
            *reads.entry(part.value).or_default() += 1;
        }
    }
    reads
}

/// Returns the indices of the moves of a uniform value to general registers in `insts`.
fn moves_of(function: &Function, value: Value, insts: &[Inst]) -> SmallVec<[usize; 2]> {
    let is_move = |inst: Inst| {
        let data = &function.insts[inst];
        data.op == Op::Machine(Opcode::MOV)
            && data.guard.is_none()
            && matches!(function.results(inst), [moved] if moved.value().is_some_and(|moved| function.values[moved] == Class::R))
            && matches!(function.sources(inst), [source] if source.value() == Some(value) && source.signs.is_empty())
    };
    (0..insts.len()).filter(|&at| is_move(insts[at])).collect()
}

/// Returns whether the results of an instruction are whole values, and its 64-bit source is a value.
fn has_simple_operands(function: &Function, inst: Inst) -> bool {
    let is_whole = |part: Part| function.whole(part.value) == part;
    let is_wide = function.insts[inst].modifiers.contains(&Symbol::U64);
    function.results(inst).iter().filter_map(Operand::part).all(is_whole)
        && (!is_wide || function.sources(inst).iter().all(|source| source.part().is_some_and(is_whole)))
}

/// Returns whether a block calls a function that may execute warp operations.
fn calls_warp_operations(function: &Function, block: Block, has_warp_operations: &dyn Fn(&str) -> bool) -> bool {
    let is_call = |inst: Inst| function.insts[inst].is_machine(Opcode::CALL) && function.callee(inst).is_none_or(has_warp_operations);
    function.blocks[block].insts.iter().any(|&inst| is_call(inst))
}

/// The `WARPSYNC` instructions of operations that threads may execute together at different instructions.
#[derive(Default)]
pub(super) struct Meetings(FxHashSet<Inst>);

impl Meetings {
    /// Finds the operations. `stretch` returns, for a block that may be executed by a diverged warp, by some of its threads or less often by
    /// some of them, the number of the stretch of diverged code that contains it, and `None` for other blocks. Threads of a warp are in
    /// one stretch at a time. `has_warp_operations` returns whether a callee may execute warp operations.
    pub(super) fn find(
        function: &Function,
        flow: &ControlFlow,
        stretch: impl Fn(Block) -> Option<usize>,
        has_warp_operations: &dyn Fn(&str) -> bool,
    ) -> Meetings {
        let uniform_reads = count_uniform_reads(function);
        let mut blocks_of_kind: FxHashMap<(OperationKind, usize), BTreeSet<Block>> = FxHashMap::default();
        // The stretches in which threads may execute operations of other functions.
        let mut with_other_functions: FxHashSet<usize> = FxHashSet::default();
        for &block in flow.reverse_post_order() {
            let Some(stretch) = stretch(block) else { continue };
            if function.kind != FunctionKind::Kernel || calls_warp_operations(function, block, has_warp_operations) {
                with_other_functions.insert(stretch);
            }
            for operation in warp_operations(function, block, &uniform_reads) {
                blocks_of_kind.entry((operation.kind, stretch)).or_default().insert(block);
            }
        }
        blocks_of_kind.retain(|(_, stretch), blocks| blocks.len() > 1 || with_other_functions.contains(stretch));
        if blocks_of_kind.is_empty() {
            return Meetings::default();
        }
        let dominators = Dominators::compute(function, flow);
        let post_dominators = PostDominators::compute(function, flow);
        let loops = Loops::compute(function, flow);
        let is_equally_frequent = |one: Block, other: Block| {
            let is_ordered = |above: Block, below: Block| dominators.dominates(above, below) && post_dominators.dominates(below, above);
            loops.innermost(one) == loops.innermost(other) && (is_ordered(one, other) || is_ordered(other, one))
        };
        blocks_of_kind.retain(|(_, stretch), blocks| {
            let first = blocks.first().copied();
            with_other_functions.contains(stretch)
                || blocks.iter().any(|&block| first.is_some_and(|first| !is_equally_frequent(first, block)))
        });
        let mut meetings = Meetings::default();
        for &block in flow.reverse_post_order() {
            let Some(stretch) = stretch(block) else { continue };
            let mut operations = warp_operations(function, block, &uniform_reads);
            operations.retain(|operation| blocks_of_kind.contains_key(&(operation.kind.clone(), stretch)));
            let insts = &function.blocks[block].insts;
            meetings.0.extend(operations.iter().map(|operation| insts[operation.synchronization]));
        }
        meetings
    }

    /// Returns whether a `WARPSYNC` belongs to one of the operations.
    pub(super) fn contains(&self, synchronization: Inst) -> bool {
        self.0.contains(&synchronization)
    }

    /// Replaces the operations; see the module comment. Returns the names of the functions that the code calls.
    pub(super) fn replace(&self, function: &mut Function, target: Target) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        if self.0.is_empty() {
            return names;
        }
        let masks: Vec<Value> = self.0.iter().flat_map(|&inst| function.used(inst)).map(|part| part.value).collect();
        let blocks: Vec<Block> = function
            .layout
            .iter()
            .copied()
            .filter(|&block| function.blocks[block].insts.iter().any(|inst| self.0.contains(inst)))
            .collect();
        let definitions = Definitions::compute(function);
        let uniform_reads = count_uniform_reads(function);
        let mut branches = DivergedBranches::new(function, target);
        for block in blocks {
            let mut operations = warp_operations(function, block, &uniform_reads);
            operations.retain(|operation| self.contains(function.blocks[block].insts[operation.synchronization]));
            // From the last to the first, so that indices stay valid: replacing an instruction cuts the block off at it.
            for operation in operations.iter().rev() {
                let synchronization = function.blocks[block].insts[operation.synchronization];
                let mask = mask_of(function, &definitions, synchronization);
                match *operation.exchanges.as_slice() {
                    [] => replace_barrier(function, &mut branches, (block, operation.synchronization), mask, &mut names),
                    // Where the warp is converged, only the threads of one mask may execute the operation together.
                    [at] if !is_plain_warpsync(function, synchronization) => {
                        let insts = &mut function.blocks[block].insts;
                        insts.remove(operation.synchronization);
                        insts.insert(at - 1, synchronization);
                        replace_exchange(function, &mut branches, (block, at - 1..=at), mask, &mut names);
                    }
                    ref exchanges => {
                        for &at in exchanges.iter().rev() {
                            replace_exchange(function, &mut branches, (block, at..=at), mask, &mut names);
                        }
                        function.blocks[block].insts.remove(operation.synchronization);
                    }
                }
            }
        }
        branches.finish(function);
        remove_unread_moves(function, &masks);
        names
    }
}

/// Returns the mask of a `WARPSYNC` as an operand: a number if it is known.
fn mask_of(function: &Function, definitions: &Definitions, synchronization: Inst) -> Operand {
    match function.sources(synchronization) {
        [mask] => OperandFacts::new(function, definitions).word(mask).map_or(*mask, |known| i64::from(known).into()),
        _ => i64::from(u32::MAX).into(),
    }
}

/// Returns the name of the function for a reduction, without its prefix.
fn reduction_name(modifiers: &[Symbol]) -> String {
    modifiers.iter().fold("redux".to_owned(), |name, modifier| name + &modifier.spelling().replace('.', "_").to_lowercase())
}

/// Returns the threads whose presence shows that no thread executes the operation elsewhere: those of a known mask, otherwise all.
fn tested_threads(mask: Operand) -> u32 {
    mask.integer().map_or(u32::MAX, |known| known as u32)
}

/// Replaces a `bar.warp.sync` by a branch to a call. Where the warp is converged, a `NOP` keeps the order of memory accesses, as
/// for other redundant barriers.
fn replace_barrier(
    function: &mut Function,
    branches: &mut DivergedBranches,
    (block, at): (Block, usize),
    mask: Operand,
    names: &mut BTreeSet<String>,
) {
    let inst = function.blocks[block].insts[at];
    let location = function.insts[inst].location;
    let memory = function.insts[inst].memory;
    let (apart, after) = branches.insert(function, block, at, tested_threads(mask), location);
    function.insts[inst].op = Op::Machine(Opcode::NOP);
    function.insts[inst].modifiers = Symbols::new();
    function.set_operands(inst, &[], 0);
    let mut caller = Caller { function, block: apart, location, mask, names };
    let call = caller.call("sync", &[], &[]);
    caller.function.insts[call].memory = memory;
    caller.function.blocks[apart].insts.push(call);
    caller.jump(after);
}

/// Replaces an exchange of values, the last of the instructions `range` of a block, by a branch: to these instructions where the warp is
/// converged, to calls otherwise.
fn replace_exchange(
    function: &mut Function,
    branches: &mut DivergedBranches,
    (block, range): (Block, RangeInclusive<usize>),
    mask: Operand,
    names: &mut BTreeSet<String>,
) {
    let inst = function.blocks[block].insts[*range.end()];
    let location = function.insts[inst].location;
    let mut outputs: Vec<(Inst, usize, usize)> = (0..function.results(inst).len()).map(|position| (inst, position, position)).collect();
    let mut length = range.clone().count();
    if let Some(value) = uniform_result(function, inst) {
        let moves = gather_moves(function, block, *range.end(), value);
        length += moves.len();
        let position = function.results(inst).iter().position(|result| result.value() == Some(value)).unwrap_or_default();
        outputs.retain(|&(_, at, _)| at != position);
        outputs.extend(moves.into_iter().map(|moved| (moved, 0, position)));
    }
    let (apart, together) = branches.insert(function, block, *range.start(), tested_threads(mask), location);
    let after = split_block(function, together, length);
    branches.follow(together, after);
    let jump = new_machine_inst(function, Opcode::BRA, &[after.into()], 0, location);
    function.blocks[together].insts.push(jump);

    let kept = std::mem::take(&mut function.blocks[apart].insts);
    let mut caller = Caller { function, block: apart, location, mask, names };
    let apart_results = caller.exchange(inst).map(|result| result.map(|result| caller.kept(result)));
    // The call may write uniform registers.
    caller.function.blocks[apart].insts.extend(kept);
    caller.jump(after);
    let mut phis: Vec<Inst> = Vec::new();
    for (writer, position, of_call) in outputs {
        let result = function.results(writer)[position];
        let (Some(value), Some(apart_result)) = (result.value(), apart_results[of_call]) else { continue };
        let together_result = function.new_value(function.values[value]);
        let together_result = Operand::from(function.whole(together_result));
        function.operands_mut(writer)[position] = together_result;
        let sources = [result, together_result, together.into(), apart_result, apart.into()];
        let phi = function.new_inst(Op::Pseudo(Pseudo::Phi), Symbols::new(), None, &sources, 1);
        function.insts[phi].location = location;
        phis.push(phi);
    }
    function.blocks[after].insts.splice(0..0, phis);
}

/// Moves the moves of a uniform value directly after the instruction `at` of a block, which defines it. Returns them in their order.
fn gather_moves(function: &mut Function, block: Block, at: usize, value: Value) -> Vec<Inst> {
    let rest = function.blocks[block].insts.split_off(at + 1);
    let is_move = moves_of(function, value, &rest);
    let (moves, others): (Vec<_>, Vec<_>) = rest.into_iter().enumerate().partition(|(at, _)| is_move.contains(at));
    let moves: Vec<Inst> = moves.into_iter().map(|(_, inst)| inst).collect();
    let insts = &mut function.blocks[block].insts;
    insts.extend(&moves);
    insts.extend(others.into_iter().map(|(_, inst)| inst));
    moves
}

/// Writes the calls for one operation to a block.
struct Caller<'a> {
    function: &'a mut Function,
    block: Block,
    location: Location,
    /// The threads that meet.
    mask: Operand,
    /// The names of the functions called so far.
    names: &'a mut BTreeSet<String>,
}

impl Caller<'_> {
    /// Writes the calls that have the effect of an instruction. Returns the results in the order of the instruction's; `None` for one
    /// that it does not write.
    fn exchange(&mut self, inst: Inst) -> [Option<Operand>; 2] {
        let sources: SmallVec<[Operand; 4]> = SmallVec::from_slice(self.function.sources(inst));
        let written = [0, 1].map(|position| self.function.results(inst).get(position).is_some_and(|result| result.value().is_some()));
        let modifiers = self.function.insts[inst].modifiers.clone();
        let mode = modifiers.first().copied();
        match (self.function.insts[inst].op.machine(), sources.as_slice()) {
            (Some(Opcode::SHFL), sources) => {
                let name = match mode {
                    Some(Symbol::UP) => "shfl_up",
                    Some(Symbol::DOWN) => "shfl_down",
                    Some(Symbol::BFLY) => "shfl_bfly",
                    _ => "shfl_idx",
                };
                let [value, is_valid] = self.call_for_two_words(name, sources);
                [written[0].then(|| self.is_not_zero(is_valid)), Some(value)]
            }
            (Some(Opcode::VOTE), [predicate, ..]) => {
                let ballot = (written[0] || mode == Some(Symbol::ANY)).then(|| self.ballot(*predicate));
                let is_unanimous = written[1].then(|| match (mode, ballot) {
                    (Some(Symbol::ANY), Some(votes)) => self.is_not_zero(votes),
                    (Some(Symbol::ALL), _) => {
                        let against = self.ballot(predicate.inverted_predicate());
                        self.is_zero(against)
                    }
                    _ => {
                        let (votes, against) = (self.ballot(*predicate), self.ballot(predicate.inverted_predicate()));
                        let has_none_against = self.is_zero(against);
                        self.comparison([Symbol::EQ, Symbol::U32, Symbol::OR], votes, has_none_against)
                    }
                });
                [ballot.filter(|_| written[0]), is_unanimous]
            }
            (Some(Opcode::ELECT), _) => {
                let [leader, is_elected] = self.call_for_two_words("elect", &[]);
                [written[0].then(|| self.is_not_zero(is_elected)), Some(leader)]
            }
            (Some(Opcode::REDUX | Opcode::CREDUX), sources) => {
                let result = self.new_word();
                let call = self.call(&reduction_name(&modifiers), &[result], sources);
                self.function.blocks[self.block].insts.push(call);
                [Some(result), None]
            }
            (_, sources) => {
                let size = if modifiers.contains(&Symbol::U64) { "b64" } else { "b32" };
                if mode == Some(Symbol::ALL) {
                    let [equal, is_same] = self.call_for_two_words(&format!("match_all_{size}"), sources);
                    [written[0].then(|| self.is_not_zero(is_same)), Some(equal)]
                } else {
                    let result = self.new_word();
                    let call = self.call(&format!("match_any_{size}"), &[result], sources);
                    self.function.blocks[self.block].insts.push(call);
                    [Some(result), None]
                }
            }
        }
    }

    /// Moves a result of a call to another register, so that the registers of calls do not influence those of the code that is executed more
    /// often. Predicates are no results of calls.
    fn kept(&mut self, result: Operand) -> Operand {
        let is_word = result.value().is_some_and(|value| self.function.values[value] == Class::R);
        if is_word { self.loaded(result) } else { result }
    }

    /// Writes a call of a function with two words as results.
    fn call_for_two_words(&mut self, name: &str, arguments: &[Operand]) -> [Operand; 2] {
        let results = [self.new_word(), self.new_word()];
        let call = self.call(name, &results, arguments);
        self.function.blocks[self.block].insts.push(call);
        results
    }

    /// Writes a ballot: the mask of the threads in which a predicate holds.
    fn ballot(&mut self, predicate: Operand) -> Operand {
        let word = self.new_word();
        let one = i64::from(1).into();
        self.machine(Opcode::SEL, &[], &[word, Operand::RZ, one, predicate.inverted_predicate()], 1);
        let result = self.new_word();
        let call = self.call("ballot", &[result], &[word]);
        self.function.blocks[self.block].insts.push(call);
        result
    }

    /// Creates the call of a function of the compiler, after loads of the arguments that are not in registers. The mask is the last argument.
    fn call(&mut self, name: &str, results: &[Operand], arguments: &[Operand]) -> Inst {
        let name = format!("{WARP_OPERATION_PREFIX}{name}");
        let symbol = self.function.symbol(&name);
        self.names.insert(name);
        let mut register = FIRST_ARGUMENT_REGISTER;
        let mut operands: SmallVec<[Operand; 8]> = SmallVec::new();
        operands.extend(results.iter().zip(register..).map(|(result, register)| result.with_role(Role::Fixed(register))));
        operands.push(Reference { symbol, offset: 0, kind: ReferenceKind::Call }.into());
        for &argument in arguments.iter().chain(&[self.mask]) {
            let argument = if argument.part().is_some() { argument } else { self.loaded(argument) };
            operands.push(argument.with_role(Role::Fixed(register)));
            register += argument.part().map_or(1, |part| part.count);
        }
        let call = new_machine_inst(self.function, Opcode::CALL, &operands, results.len(), self.location);
        self.function.insts[call].modifiers = Symbols::from_iter([Symbol::ABS, Symbol::NOINC]);
        call
    }

    /// Writes a move of a word to a new register.
    fn loaded(&mut self, source: Operand) -> Operand {
        let word = self.new_word();
        self.machine(Opcode::MOV, &[], &[word, source], 1);
        word
    }

    /// Writes a comparison of a word with zero; returns the predicate.
    fn is_not_zero(&mut self, word: Operand) -> Operand {
        self.comparison([Symbol::NE, Symbol::U32, Symbol::AND], word, Operand::PT)
    }

    /// Writes a comparison of a word with zero; returns the predicate.
    fn is_zero(&mut self, word: Operand) -> Operand {
        self.comparison([Symbol::EQ, Symbol::U32, Symbol::AND], word, Operand::PT)
    }

    /// Writes a comparison of a word with zero, combined with another predicate.
    fn comparison(&mut self, modifiers: [Symbol; 3], word: Operand, other: Operand) -> Operand {
        let predicate = self.new_operand(Class::P);
        self.machine(Opcode::ISETP, &modifiers, &[predicate, Operand::PT, word, Operand::RZ, other], 2);
        predicate
    }

    /// Writes a machine instruction.
    fn machine(&mut self, opcode: Opcode, modifiers: &[Symbol], operands: &[Operand], results: usize) {
        let inst = new_machine_inst(self.function, opcode, operands, results, self.location);
        self.function.insts[inst].modifiers = Symbols::from_slice(modifiers);
        self.function.blocks[self.block].insts.push(inst);
    }

    /// Ends the block with a branch.
    fn jump(&mut self, to: Block) {
        self.machine(Opcode::BRA, &[], &[to.into()], 0);
    }

    fn new_word(&mut self) -> Operand {
        self.new_operand(Class::R)
    }

    fn new_operand(&mut self, class: Class) -> Operand {
        let value: Value = self.function.new_value(class);
        Operand::from(self.function.whole(value))
    }
}
