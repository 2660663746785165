//! Verifies that an allocated function computes the same values as the SSA function it was made from. Shares no logic with the allocator.
//!
//! The verifier is a backward data-flow analysis, as in Rideau and Leroy 2010, "Validating Register Allocation and Spilling". The fact it
//! propagates is a *demand*: this register (or slot) must hold that part of that SSA value here.
//!
//! - An instruction that reads a register adds a demand: the register must hold the value that the original instruction reads.
//! - A move, spill load or spill store passes the demand on its destination to its source.
//! - The definition of a value satisfies the demands on the registers that it writes.
//! - On an edge, a demand for a phi becomes a demand for the phi's source. Copies and packs are treated as other names of their sources.
//!
//! Errors: an instruction writes a register on which there is a demand for something else; a definition is passed while its value is
//! still demanded in another register; one register has two different demands; a demand is left at the start of the function.
//!
//! Example, read from the bottom up; `%0` is spilled to slot 8:
//!
//! ```text
//! R4 = S2R SR_TID.X        defines %0 and writes R4: the demand is satisfied
//! STL [R1+8], R4           slot 8 = %0  becomes  R4 = %0
//! R4 = LDC c[0x0][0x0]     writes R4: no demand on it here
//! R6 = LDL [R1+8]          R6 = %0  becomes  slot 8 = %0
//! STS [RZ], R6             reads %0 in the original function: demand R6 = %0
//! ```
//!
//! Cost: each block is visited until the demands at its start no longer change.

use std::collections::BTreeMap;
use std::fmt;

use oriole_ir::{Block, Function, Guard, Inst, Op, Opcode, Operand, OperandKind, Part, Pseudo, RegFile, Role, Signs, Value};
use oriole_support::Index;
use rustc_hash::FxHashMap;

use crate::{Allocation, Environment, Reg};

/// An error in an allocation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckError {
    /// A description for people who debug the allocator.
    pub message: String,
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CheckError {}

fn error<T>(message: String) -> Result<T, CheckError> {
    Err(CheckError { message })
}

/// A location that holds one register's worth of data.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Location {
    /// Number of the register file, number of the register.
    Register(u8, u16),
    /// Byte offset of a 4-byte word in the frame.
    Slot(i64),
}

/// One register's worth of data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Content {
    /// One register of an SSA value: the value, and the index of the register in it.
    Unit(Value, u8),
    /// A 32-bit integer, or a predicate as 0 or 1.
    Number(u32),
    /// A word of a constant bank, or an address known to the linker.
    Known(OperandKind),
}

/// The content that each location must have at one point of the function.
type Demands = BTreeMap<Location, Content>;

/// Returns the location of a physical register.
fn location(file: RegFile, register: u16) -> Location {
    let file = match file {
        RegFile::General => 0,
        RegFile::Uniform => 1,
        RegFile::Predicate => 2,
        RegFile::UniformPredicate => 3,
        RegFile::Convergence => 4,
        RegFile::Scoreboard => 5,
    };
    Location::Register(file, register)
}

/// The two functions and indexes over them.
struct Checker<'a> {
    /// The function before allocation, in SSA form.
    old: &'a Function,
    /// The function after allocation. Instructions and blocks of the old function have the same numbers in it.
    new: &'a Function,
    env: &'a Environment,
    /// The defining instruction of each value, and the index of the value among its results.
    definitions: FxHashMap<Value, (Inst, usize)>,
    /// The block of each value that a phi defines.
    blocks_of_phis: FxHashMap<Value, Block>,
    /// The moves that replace guarded copies: the copy, and the index of the register that the move writes.
    guarded: FxHashMap<Inst, (Inst, u8)>,
    /// By instruction of the new function: whether the old function has it too. Others were inserted by the allocator.
    is_old: Vec<bool>,
    /// By block of the old function: whether it is reachable.
    reached: Vec<bool>,
}

/// Verifies an allocation. `before` is the function in SSA form, `after` the allocated function; `env` and `allocation` are the input and
/// the output of the allocator.
pub fn check(before: &Function, after: &Function, env: &Environment, allocation: &Allocation) -> Result<(), CheckError> {
    let mut checker = Checker {
        old: before,
        new: after,
        env,
        definitions: FxHashMap::default(),
        blocks_of_phis: FxHashMap::default(),
        guarded: FxHashMap::default(),
        is_old: vec![false; after.insts.len()],
        reached: vec![false; before.blocks.len()],
    };
    let mut stack = vec![before.entry()];
    while let Some(block) = stack.pop() {
        if !std::mem::replace(&mut checker.reached[block.position()], true) {
            stack.extend(before.successors(block));
        }
    }
    for &block in &before.layout {
        for &inst in &before.blocks[block].insts {
            checker.is_old[inst.position()] = true;
            for (number, result) in before.results(inst).iter().enumerate() {
                if let Some(value) = result.value() {
                    checker.definitions.insert(value, (inst, number));
                    if before.insts[inst].is(Pseudo::Phi) {
                        checker.blocks_of_phis.insert(value, block);
                    }
                }
            }
        }
    }
    for (copy, moves) in &allocation.guarded_copies {
        for (number, &inst) in moves.iter().enumerate() {
            checker.guarded.insert(inst, (*copy, number as u8));
        }
    }
    checker.check_shape()?;
    checker.solve()
}

impl Checker<'_> {
    /// Checks that each block has the same machine instructions in the same order, and that no operand is a value or above the limit.
    fn check_shape(&self) -> Result<(), CheckError> {
        for &block in &self.new.layout {
            let is_original = block.position() < self.old.blocks.len();
            let insts = &self.new.blocks[block].insts;
            if is_original {
                let kept = insts.iter().filter(|inst| self.is_old[inst.position()]);
                let mut expected: Vec<Inst> =
                    self.old.blocks[block].insts.iter().copied().filter(|&inst| self.old.insts[inst].op.machine().is_some()).collect();
                let kept: Vec<Inst> = kept.copied().collect();
                // The allocator may delete a guarded branch that has the same target as the branch after it.
                if kept.len() + 1 == expected.len() && expected.len() >= 2 {
                    let at = expected.len() - 2;
                    let targets: Vec<_> = self.old.successors(block).to_vec();
                    if targets.len() == 2 && targets[0] == targets[1] {
                        expected.remove(at);
                    }
                }
                if kept != expected {
                    return error(format!("{block:?}: instructions are missing or in another order"));
                }
            }
            for &inst in insts {
                self.check_operands(inst)?;
            }
        }
        Ok(())
    }

    /// Checks that an instruction is a machine instruction on registers within the limits that does not write the stack pointer.
    fn check_operands(&self, inst: Inst) -> Result<(), CheckError> {
        let data = &self.new.insts[inst];
        if data.op.machine().is_none() {
            return error(format!("{inst:?} is still {}", data.op.mnemonic()));
        }
        let guard = data.guard.map(|guard| guard.kind);
        for kind in self.new.operands(inst).iter().map(|operand| operand.kind).chain(guard) {
            match kind {
                OperandKind::Value(part) => return error(format!("{inst:?} still has {:?}", part.value)),
                OperandKind::Register { file, first, count } if u32::from(first) + u32::from(count) > self.env.limit(file) => {
                    return error(format!("{inst:?} uses {}{first}+{count}, above the limit", file.prefix()));
                }
                _ => {}
            }
        }
        for operand in self.new.results(inst) {
            if matches!(operand.kind, OperandKind::Register { file: RegFile::General, first, count }
                if Reg::new(first).tuple(count).any(|register| register == self.env.stack_pointer))
            {
                return error(format!("{inst:?} writes the stack pointer"));
            }
        }
        Ok(())
    }

    /// Returns the content of one register of a value, looking through copies, packs and phis with one source; `None` if it is undefined.
    fn resolve(&self, value: Value, unit: u8) -> Option<Content> {
        let (mut value, mut unit) = (value, unit);
        loop {
            let Some(&(inst, number)) = self.definitions.get(&value) else { return Some(Content::Unit(value, unit)) };
            let tied = self.old.sources(inst).iter().any(|source| matches!(source.role, Role::Tied(_)));
            let guarded = self.old.insts[inst].guard.is_some() && tied;
            let source = match self.old.insts[inst].op {
                Op::Pseudo(Pseudo::Copy) if !guarded => {
                    let count = self.old.insts[inst].result_count();
                    self.old.operands(inst)[count + number]
                }
                Op::Pseudo(Pseudo::Pack) => {
                    let mut left = unit;
                    let mut found = None;
                    for source in self.old.sources(inst) {
                        let width = source.part().map_or(1, |part| part.count);
                        if left < width {
                            found = Some(*source);
                            break;
                        }
                        left -= width;
                    }
                    unit = left;
                    found?
                }
                Op::Pseudo(Pseudo::Phi) => match self.only_source(inst) {
                    Some(source) => source,
                    None => return Some(Content::Unit(value, unit)),
                },
                _ => return Some(Content::Unit(value, unit)),
            };
            match source.kind {
                OperandKind::Value(part) => {
                    value = part.value;
                    unit += part.first;
                }
                _ => return constant(&source, unit),
            }
        }
    }

    /// Returns the source of a phi in a block with one reachable predecessor, where the phi is a copy; `None` for other phis.
    fn only_source(&self, phi: Inst) -> Option<Operand> {
        let mut pairs = self
            .old
            .sources(phi)
            .chunks_exact(2)
            .filter(|pair| matches!(pair[1].kind, OperandKind::Block(from) if self.reached[from.position()]));
        let only = pairs.next()?[0];
        pairs.next().is_none().then_some(only)
    }

    /// Returns the content of one register of an operand of the old function; `None` if it is undefined.
    fn content_of(&self, operand: &Operand, unit: u8) -> Option<Content> {
        match operand.kind {
            OperandKind::Value(part) => self.resolve(part.value, part.first + unit),
            _ => constant(operand, unit),
        }
    }

    /// Computes the demands at the start of every block to a fixed point, and checks those at the start of the function.
    fn solve(&self) -> Result<(), CheckError> {
        let blocks = self.new.blocks.len();
        let mut predecessors: Vec<Vec<Block>> = vec![Vec::new(); blocks];
        for &block in &self.new.layout {
            for next in self.new.successors(block) {
                if !predecessors[next.position()].contains(&block) {
                    predecessors[next.position()].push(block);
                }
            }
        }
        let mut at_start: Vec<Demands> = vec![Demands::new(); blocks];
        let mut queued = vec![false; blocks];
        let mut work: Vec<Block> = self.new.layout.clone();
        work.iter().for_each(|block| queued[block.position()] = true);
        while let Some(block) = work.pop() {
            queued[block.position()] = false;
            let mut demands = Demands::new();
            for next in self.new.successors(block) {
                self.cross_edge(block, next, &predecessors, &at_start[next.position()], &mut demands)?;
            }
            self.go_up(block, &mut demands)?;
            if demands != at_start[block.position()] {
                at_start[block.position()] = demands;
                for &from in &predecessors[block.position()] {
                    if !std::mem::replace(&mut queued[from.position()], true) {
                        work.push(from);
                    }
                }
            }
        }
        self.check_entry(&at_start[self.new.entry().position()])
    }

    /// Checks that all demands at the start of the function are for values that `ENTRY` defines in these registers.
    fn check_entry(&self, demands: &Demands) -> Result<(), CheckError> {
        for (&at, &content) in demands {
            let met = match content {
                Content::Unit(value, unit) => self.definitions.get(&value).is_some_and(|&(inst, number)| {
                    let result = self.old.results(inst)[number];
                    self.old.insts[inst].is(Pseudo::Entry)
                        && matches!(result.role, Role::Fixed(register)
                            if location(self.old.values[value].file, u16::from(register) + u16::from(unit)) == at)
                }),
                _ => false,
            };
            if !met {
                return error(format!("{content:?} is wanted in {at:?} where the function starts"));
            }
        }
        Ok(())
    }

    /// Adds the demands at the start of `to` to those at the end of `from`, where phis of `to` become their sources.
    fn cross_edge(
        &self,
        from: Block,
        to: Block,
        predecessors: &[Vec<Block>],
        wanted: &Demands,
        demands: &mut Demands,
    ) -> Result<(), CheckError> {
        // Phis name the predecessors of the old function. A block on a split edge stands for its only predecessor.
        let mut origin = from;
        while origin.position() >= self.old.blocks.len() {
            let [only] = predecessors[origin.position()][..] else {
                return error(format!("{origin:?} is new and has no single predecessor"));
            };
            origin = only;
        }
        for (&at, &content) in wanted {
            let mut content = Some(content);
            if let Some(Content::Unit(value, unit)) = content
                && self.blocks_of_phis.get(&value) == Some(&to)
            {
                let (phi, _) = self.definitions[&value];
                let mut pairs = self.old.sources(phi).chunks_exact(2);
                let source = pairs.find(|pair| pair[1].kind == OperandKind::Block(origin)).map(|pair| pair[0]);
                content = source.and_then(|source| self.content_of(&source, unit));
            }
            if let Some(content) = content {
                demand(demands, at, content, || format!("on the edge from {from:?} to {to:?}"))?;
            }
        }
        Ok(())
    }

    /// Propagates demands from the end of a block to its start.
    fn go_up(&self, block: Block, demands: &mut Demands) -> Result<(), CheckError> {
        let insts = &self.new.blocks[block].insts;
        let empty = Vec::new();
        let old = if block.position() < self.old.blocks.len() { &self.old.blocks[block].insts } else { &empty };
        // `KEEP` is a pseudo operation and missing in the new block, so the old block is walked in parallel to find its place.
        let mut keeps = old.iter().rev().peekable();
        let mut at = insts.len();
        while at > 0 {
            at -= 1;
            let inst = insts[at];
            if self.is_old[inst.position()] {
                while keeps.peek().is_some_and(|&&old| old != inst) {
                    keeps.next();
                }
                keeps.next();
                self.original(inst, demands)?;
                while let Some(&&keep) = keeps.peek().filter(|&&&old| self.old.insts[old].op.machine().is_none()) {
                    if self.old.insts[keep].is(Pseudo::Keep) {
                        self.keep(keep, demands)?;
                    }
                    keeps.next();
                }
            } else if let Some(&(copy, unit)) = self.guarded.get(&inst) {
                self.guarded_move(inst, copy, unit, demands)?;
            } else if let Some((first, second)) = self.swap(insts, at) {
                let (one, other) = (demands.remove(&first), demands.remove(&second));
                one.map(|content| demands.insert(second, content));
                other.map(|content| demands.insert(first, content));
                at -= 2;
            } else {
                self.inserted(inst, demands)?;
            }
        }
        Ok(())
    }

    /// Adds the demands of a `KEEP`: its operands must be in their fixed registers.
    fn keep(&self, keep: Inst, demands: &mut Demands) -> Result<(), CheckError> {
        for source in self.old.sources(keep) {
            let Role::Fixed(register) = source.role else { continue };
            match source.kind {
                OperandKind::Value(part) => {
                    let file = self.old.values[part.value].file;
                    self.demand_part(part, file, u16::from(register), demands, keep)?;
                }
                kind => {
                    let file = if let OperandKind::Zero(file) = kind { file } else { RegFile::General };
                    if let Some(content) = constant(source, 0) {
                        demand(demands, location(file, u16::from(register)), content, || format!("by {keep:?}"))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds a demand for each register of a part of a value, from `register` on.
    fn demand_part(&self, part: Part, file: RegFile, register: u16, demands: &mut Demands, inst: Inst) -> Result<(), CheckError> {
        for unit in 0..part.count {
            if let Some(content) = self.resolve(part.value, part.first + unit) {
                demand(demands, location(file, register + u16::from(unit)), content, || format!("by {inst:?}"))?;
            }
        }
        Ok(())
    }

    /// Propagates demands over an instruction of the old function: results satisfy demands, sources add demands.
    fn original(&self, inst: Inst, demands: &mut Demands) -> Result<(), CheckError> {
        let (old, new) = (self.old.operands(inst), self.new.operands(inst));
        let data = &self.new.insts[inst];
        if old.len() != new.len() || data.op != self.old.insts[inst].op || data.modifiers != self.old.insts[inst].modifiers {
            return error(format!("{inst:?} has become another instruction"));
        }
        let results = data.result_count();
        for (before, after) in old[..results].iter().zip(&new[..results]) {
            self.define(inst, before, after, demands)?;
        }
        if data.is_machine(Opcode::CALL) {
            for (&at, content) in demands.iter() {
                if let Location::Register(file, register) = at {
                    let files = [RegFile::General, RegFile::Uniform, RegFile::Predicate, RegFile::UniformPredicate, RegFile::Convergence];
                    let file = files[usize::from(file)];
                    if self.env.clobbered(self.old, inst, file).has(Reg::new(register)) {
                        return error(format!("{inst:?} destroys {content:?} in {at:?}"));
                    }
                }
            }
        }
        for (before, after) in old[results..].iter().zip(&new[results..]) {
            self.read(inst, before, after, demands)?;
        }
        self.guard(inst, self.old.insts[inst].guard, data.guard, demands)
    }

    /// Removes the demands that a result satisfies. Checks the result's registers, that no demand for something else is overwritten, and
    /// that the value is demanded nowhere else.
    fn define(&self, inst: Inst, before: &Operand, after: &Operand, demands: &mut Demands) -> Result<(), CheckError> {
        let OperandKind::Value(part) = before.kind else { return same_operand(inst, before, after) };
        let class = self.old.values[part.value];
        let OperandKind::Register { file, first, count } = after.kind else {
            return error(format!("{inst:?} has no register for {:?}", part.value));
        };
        if file != class.file || count != class.width || !first.is_multiple_of(u16::from(class.align)) {
            return error(format!("{inst:?} writes {:?} to {}{first}+{count}", part.value, file.prefix()));
        }
        if let Role::Fixed(fixed) = before.role
            && u16::from(fixed) != first
        {
            return error(format!("{inst:?} writes {:?} to {first}, not to {fixed}", part.value));
        }
        for unit in 0..count {
            let at = location(file, first + u16::from(unit));
            match demands.remove(&at) {
                Some(content) if content != Content::Unit(part.value, unit) => {
                    return error(format!("{inst:?} overwrites {content:?} in {at:?}"));
                }
                _ => {}
            }
        }
        match demands.iter().find(|(_, content)| matches!(content, Content::Unit(value, _) if *value == part.value)) {
            Some((at, content)) => error(format!("{content:?} is wanted in {at:?}, but {inst:?} defines it elsewhere")),
            None => Ok(()),
        }
    }

    /// Adds the demands of a source and checks its registers.
    fn read(&self, inst: Inst, before: &Operand, after: &Operand, demands: &mut Demands) -> Result<(), CheckError> {
        if let (Role::Fixed(fixed), OperandKind::Register { file, first, count: 1 }) = (before.role, after.kind)
            && let Some(content) = before.part().is_none().then(|| constant(before, 0)).flatten()
        {
            if u16::from(fixed) != first {
                return error(format!("{inst:?} reads {content:?} in {first}, not in {fixed}"));
            }
            return demand(demands, location(file, first), content, || format!("by {inst:?}"));
        }
        let OperandKind::Value(part) = before.kind else { return same_operand(inst, before, after) };
        let OperandKind::Register { file, first, count } = after.kind else {
            return error(format!("{inst:?} has no register for {:?}", part.value));
        };
        if file != self.old.values[part.value].file || count != part.count || before.signs != after.signs || before.role != after.role {
            return error(format!("{inst:?} reads {part:?} as {after:?}"));
        }
        match before.role {
            Role::Fixed(fixed) if u16::from(fixed) != first => return error(format!("{inst:?} reads {part:?} in {first}, not in {fixed}")),
            Role::Tied(result) if self.new.operands(inst)[usize::from(result)].kind != after.kind => {
                return error(format!("{inst:?} does not tie {part:?} to its result"));
            }
            _ => {}
        }
        self.demand_part(part, file, first, demands, inst)
    }

    /// Adds the demand of a guard and checks that the guard has not changed otherwise.
    fn guard(&self, inst: Inst, before: Option<Guard>, after: Option<Guard>, demands: &mut Demands) -> Result<(), CheckError> {
        match (before, after) {
            (None, None) => Ok(()),
            (Some(before), Some(after)) if before.negated == after.negated => match (before.kind, after.kind) {
                (OperandKind::Value(part), OperandKind::Register { file, first, .. }) => self.demand_part(part, file, first, demands, inst),
                (before, after) if before == after => Ok(()),
                _ => error(format!("{inst:?} has another guard")),
            },
            _ => error(format!("{inst:?} has another guard")),
        }
    }

    /// Propagates demands over one guarded move of a guarded copy. Where the guard is false the destination keeps its content, so before
    /// the move it must hold the tied source, and the source of the move must hold the copied value.
    fn guarded_move(&self, inst: Inst, copy: Inst, unit: u8, demands: &mut Demands) -> Result<(), CheckError> {
        let (Some((to, from)), Some((result, source, tied))) = (self.as_move(inst), self.copied(inst, copy)) else {
            return error(format!("{inst:?} is no move of {copy:?}"));
        };
        let content = result.value().map(|value| Content::Unit(value, unit));
        if demands.get(&to).is_some_and(|wanted| Some(*wanted) != content) {
            return error(format!("{inst:?} overwrites {:?} in {to:?}", demands[&to]));
        }
        demands.remove(&to);
        if let Some((at, stale)) = demands.iter().find(|(_, wanted)| Some(**wanted) == content) {
            return error(format!("{stale:?} is wanted in {at:?}, but {inst:?} defines it elsewhere"));
        }
        if let Some(kept) = self.content_of(&tied, unit) {
            demand(demands, to, kept, || format!("by {inst:?}"))?;
        }
        match (self.content_of(&source, unit), from) {
            (Some(wanted), MoveSource::Location(at)) => demand(demands, at, wanted, || format!("by {inst:?}"))?,
            (Some(wanted), MoveSource::Content(found)) if wanted != found => {
                return error(format!("{inst:?} moves {found:?}, not {wanted:?}"));
            }
            _ => {}
        }
        self.guard(inst, self.old.insts[copy].guard, self.new.insts[inst].guard, demands)
    }

    /// Returns the result, source and tied operand of a guarded copy; `None` if the instruction is not one.
    fn copied(&self, inst: Inst, copy: Inst) -> Option<(Operand, Operand, Operand)> {
        let _ = inst;
        if self.old.insts.get(copy).is_none_or(|data| data.result_count() != 1) {
            return None;
        }
        let operands = self.old.operands(copy);
        Some((operands[0], operands[1], *self.old.tied_to(copy, 0)?))
    }

    /// Propagates demands over an instruction that the allocator inserted, which must be a move, a spill load or store, or a repeated
    /// instruction.
    fn inserted(&self, inst: Inst, demands: &mut Demands) -> Result<(), CheckError> {
        let data = &self.new.insts[inst];
        if data.is_machine(Opcode::BRA) {
            return Ok(());
        }
        if data.guard.is_some() {
            return error(format!("{inst:?} was put in with a guard"));
        }
        for (to, from) in self.as_moves(inst).ok_or_else(|| CheckError { message: format!("{inst:?} was put in and is no move") })? {
            let Some(wanted) = demands.remove(&to) else { continue };
            match from {
                MoveSource::Location(at) => demand(demands, at, wanted, || format!("by {inst:?}"))?,
                MoveSource::Content(found) if found == wanted || self.is_repeated(inst, wanted) => {}
                MoveSource::Content(found) => return error(format!("{inst:?} puts {found:?} into {to:?} where {wanted:?} is wanted")),
            }
        }
        Ok(())
    }

    /// Returns whether an inserted instruction recomputes a value: it has the operation and the constant sources of the value's definition.
    fn is_repeated(&self, inst: Inst, wanted: Content) -> bool {
        let Content::Unit(value, 0) = wanted else { return false };
        let Some(&(definition, 0)) = self.definitions.get(&value) else { return false };
        let (old, new) = (&self.old.insts[definition], &self.new.insts[inst]);
        let sources = self.old.sources(definition);
        old.guard.is_none()
            && old.op == new.op
            && old.modifiers == new.modifiers
            && sources == self.new.sources(inst)
            && sources.iter().all(|source| !matches!(source.kind, OperandKind::Value(_) | OperandKind::Register { .. }))
    }

    /// Returns the first move that an inserted instruction makes; `None` if it is no move.
    fn as_move(&self, inst: Inst) -> Option<(Location, MoveSource)> {
        self.as_moves(inst)?.into_iter().next()
    }

    /// Returns the moves of single registers that an inserted instruction makes, as (destination, source); `None` if it is no move.
    fn as_moves(&self, inst: Inst) -> Option<Vec<(Location, MoveSource)>> {
        let operands = self.new.operands(inst);
        let modifiers: Vec<&str> = self.new.insts[inst].modifiers.iter().map(|modifier| modifier.spelling()).collect();
        let opcode = self.new.insts[inst].op.machine()?;
        let source = match opcode {
            Opcode::MOV | Opcode::UMOV | Opcode::R2UR | Opcode::LDC | Opcode::ULDC | Opcode::LDCU if operands.len() == 2 => operands[1],
            Opcode::BMOV if operands.len() == 2 && modifiers == [".32"] => operands[1],
            Opcode::PLOP3 | Opcode::UPLOP3 if is_true(&operands[1]) && operands[5].integer() == Some(0x80) => {
                let sources: Vec<&Operand> = operands[2..5].iter().filter(|operand| !is_true(operand)).collect();
                match sources[..] {
                    [] => operands[2],
                    [one] => *one,
                    _ => return None,
                }
            }
            Opcode::SEL | Opcode::USEL if is_zero(&operands[1]) && operands[2].integer() == Some(1) => {
                let flipped = operands[3];
                flipped.with_signs(flipped.signs.toggled(Signs::NOT))
            }
            Opcode::ISETP | Opcode::UISETP
                if modifiers == [".NE", ".AND"] && is_true(&operands[1]) && is_zero(&operands[3]) && is_true(&operands[4]) =>
            {
                operands[2]
            }
            Opcode::LDL | Opcode::STL => return self.as_memory_moves(opcode, operands, &modifiers),
            _ => return None,
        };
        let OperandKind::Register { file, first, count: 1 } = operands[0].kind else { return None };
        let from = match source.kind {
            OperandKind::Register { file, first, count: 1 } if source.signs.is_empty() => MoveSource::Location(location(file, first)),
            _ => MoveSource::Content(constant(&source, 0)?),
        };
        Some(vec![(location(file, first), from)])
    }

    /// Returns the moves between registers and slots that a spill load or store makes; `None` if it is misaligned or outside of the spill
    /// slots.
    fn as_memory_moves(&self, opcode: Opcode, operands: &[Operand], modifiers: &[&str]) -> Option<Vec<(Location, MoveSource)>> {
        let width: u16 = match modifiers {
            [] => 1,
            [".64"] => 2,
            [".128"] => 4,
            _ => return None,
        };
        let (data, address) = if opcode == Opcode::LDL { (operands.first()?, &operands[1..]) } else { (operands.last()?, &operands[..3]) };
        let OperandKind::Register { file: RegFile::General, first, count } = data.kind else { return None };
        let base = OperandKind::Register { file: RegFile::General, first: self.env.stack_pointer.number(), count: 1 };
        let offset = address.get(2)?.integer()?;
        let in_frame = offset >= i64::from(self.old.frame_bytes) && offset + i64::from(4 * width) <= i64::from(self.new.frame_bytes);
        let aligned = first.is_multiple_of(width) && offset % i64::from(4 * width) == 0;
        if address[1].kind != base || u16::from(count) != width || !in_frame || !aligned {
            return None;
        }
        let moves = (0..width).map(|word| {
            let (register, slot) = (location(RegFile::General, first + word), Location::Slot(offset + 4 * i64::from(word)));
            if opcode == Opcode::LDL { (register, MoveSource::Location(slot)) } else { (slot, MoveSource::Location(register)) }
        });
        Some(moves.collect())
    }

    /// Returns the two registers that the three exclusive ors ending at `at` exchange; `None` if there is no such sequence.
    fn swap(&self, insts: &[Inst], at: usize) -> Option<(Location, Location)> {
        let three = [
            self.exclusive_or(insts[at])?,
            self.exclusive_or(*insts.get(at.checked_sub(1)?)?)?,
            self.exclusive_or(*insts.get(at.checked_sub(2)?)?)?,
        ];
        let (a, b) = three[0];
        (three == [(a, b), (b, a), (a, b)]).then_some((a, b))
    }

    /// Returns (destination and first source, second source) of an inserted exclusive or of two registers; `None` for anything else.
    fn exclusive_or(&self, inst: Inst) -> Option<(Location, Location)> {
        if self.is_old[inst.position()] {
            return None;
        }
        let operands = self.new.operands(inst);
        let (to, a, b, table) = match self.new.insts[inst].op.machine()? {
            Opcode::LOP3 | Opcode::ULOP3 if is_zero(&operands[3]) => (operands[0], operands[1], operands[2], (&operands[4], 0x3c)),
            Opcode::PLOP3 | Opcode::UPLOP3 if is_true(&operands[4]) => (operands[0], operands[2], operands[3], (&operands[5], 0x28)),
            _ => return None,
        };
        if to.kind != a.kind || table.0.integer() != Some(table.1) || !a.signs.is_empty() || !b.signs.is_empty() {
            return None;
        }
        match (a.kind, b.kind) {
            (OperandKind::Register { file, first, count: 1 }, OperandKind::Register { file: same, first: other, count: 1 })
                if same == file =>
            {
                Some((location(file, first), location(file, other)))
            }
            _ => None,
        }
    }
}

/// The source of an inserted move: another location, or a constant.
enum MoveSource {
    Location(Location),
    Content(Content),
}

/// Returns whether an operand is the predicate that is always true.
fn is_true(operand: &Operand) -> bool {
    matches!(operand.kind, OperandKind::Zero(RegFile::Predicate | RegFile::UniformPredicate)) && operand.signs.is_empty()
}

/// Returns whether an operand is the register that is always zero.
fn is_zero(operand: &Operand) -> bool {
    matches!(operand.kind, OperandKind::Zero(RegFile::General | RegFile::Uniform))
}

/// Returns one register of a constant operand; `None` if it is undefined.
fn constant(operand: &Operand, unit: u8) -> Option<Content> {
    match operand.kind {
        OperandKind::Undefined => None,
        OperandKind::Integer(number) => Some(Content::Number((number >> (32 * u32::from(unit.min(1)))) as u32)),
        OperandKind::Zero(RegFile::General | RegFile::Uniform) => Some(Content::Number(0)),
        OperandKind::Zero(_) => Some(Content::Number(u32::from(operand.signs.is_empty()))),
        OperandKind::Constant { bank, offset } => {
            Some(Content::Known(OperandKind::Constant { bank, offset: offset + 4 * u32::from(unit) }))
        }
        other => Some(Content::Known(other)),
    }
}

/// Adds a demand; an error if the location already has a different one. `by` describes the origin of the demand, for the message.
fn demand(demands: &mut Demands, at: Location, content: Content, by: impl Fn() -> String) -> Result<(), CheckError> {
    match demands.insert(at, content) {
        Some(other) if other != content => error(format!("{at:?} should hold both {other:?} and {content:?}, {}", by())),
        _ => Ok(()),
    }
}

/// Checks that an operand without a value is unchanged. Branch targets may change, because edges are split.
fn same_operand(inst: Inst, before: &Operand, after: &Operand) -> Result<(), CheckError> {
    let is_target = matches!((before.kind, after.kind), (OperandKind::Block(_), OperandKind::Block(_)));
    if before == after || is_target {
        return Ok(());
    }
    error(format!("{inst:?}: {before:?} has become {after:?}"))
}
