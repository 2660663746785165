//! Proves that an allocated function computes what the function it was made from does. Shares no logic with the allocator.
//!
//! The proof goes backwards. Where an instruction reads a register, the register is *demanded* to hold a certain part of a certain SSA
//! value. Going up, a move hands the demand on to its source; the definition of the value, if it writes that register, meets it;
//! anything else that writes there is an error, and so is a definition that is passed while its value is still demanded
//! elsewhere, two demands on one register, and a demand that is left where the function starts. Phis rename demands on edges;
//! copies and packs are names for their sources throughout.

use std::collections::BTreeMap;
use std::fmt;

use oriole_ir::{Block, File, Function, Guard, Inst, Op, Opcode, Operand, OperandKind, Part, Pseudo, Role, Signs, Value};
use oriole_support::Index;
use rustc_hash::FxHashMap;

use crate::{Allocation, Environment};

/// What is wrong with an allocation.
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

/// Where something can be.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Spot {
    Register(u8, u16),
    Slot(i64),
}

/// What can be there: one register's worth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Content {
    Unit(Value, u8),
    Number(u32),
    /// A constant bank, or an address known to the linker.
    Known(OperandKind),
}

type Demands = BTreeMap<Spot, Content>;

fn spot(file: File, register: u16) -> Spot {
    let file = match file {
        File::General => 0,
        File::Uniform => 1,
        File::Predicate => 2,
        File::UniformPredicate => 3,
        File::Convergence => 4,
        File::Scoreboard => 5,
    };
    Spot::Register(file, register)
}

struct Checker<'a> {
    old: &'a Function,
    new: &'a Function,
    env: &'a Environment,
    /// The defining instruction of each value, and which of its results it is.
    definitions: FxHashMap<Value, (Inst, usize)>,
    blocks_of_phis: FxHashMap<Value, Block>,
    /// Moves that came from guarded copies: the copy and which register.
    guarded: FxHashMap<Inst, (Inst, u8)>,
    is_old: Vec<bool>,
    /// Blocks that can be reached.
    reached: Vec<bool>,
}

/// Checks an allocation: the function before, the function after, and what the allocator was given and said.
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
    /// The same machine instructions in the same order, no values, no register above the limit.
    fn check_shape(&self) -> Result<(), CheckError> {
        for &block in &self.new.layout {
            let is_original = block.position() < self.old.blocks.len();
            let insts = &self.new.blocks[block].insts;
            if is_original {
                let kept = insts.iter().filter(|inst| self.is_old[inst.position()]);
                let mut expected: Vec<Inst> =
                    self.old.blocks[block].insts.iter().copied().filter(|&inst| self.old.insts[inst].op.machine().is_some()).collect();
                let kept: Vec<Inst> = kept.copied().collect();
                // A guarded branch to where the next one goes anyway may be missing.
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
            if matches!(operand.kind, OperandKind::Register { file: File::General, first, count }
                if first <= self.env.stack_pointer && self.env.stack_pointer < first + u16::from(count))
            {
                return error(format!("{inst:?} writes the stack pointer"));
            }
        }
        Ok(())
    }

    /// One register of a value, by the name of what it is a copy of; nothing if it is undefined.
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

    /// The source of a phi in a block that is entered from one place only: another copy.
    fn only_source(&self, phi: Inst) -> Option<Operand> {
        let mut pairs = self
            .old
            .sources(phi)
            .chunks_exact(2)
            .filter(|pair| matches!(pair[1].kind, OperandKind::Block(from) if self.reached[from.position()]));
        let only = pairs.next()?[0];
        pairs.next().is_none().then_some(only)
    }

    fn content_of(&self, operand: &Operand, unit: u8) -> Option<Content> {
        match operand.kind {
            OperandKind::Value(part) => self.resolve(part.value, part.first + unit),
            _ => constant(operand, unit),
        }
    }

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

    fn check_entry(&self, demands: &Demands) -> Result<(), CheckError> {
        for (&at, &content) in demands {
            let met = match content {
                Content::Unit(value, unit) => self.definitions.get(&value).is_some_and(|&(inst, number)| {
                    let result = self.old.results(inst)[number];
                    self.old.insts[inst].is(Pseudo::Entry)
                        && matches!(result.role, Role::Fixed(register)
                            if spot(self.old.values[value].file, u16::from(register) + u16::from(unit)) == at)
                }),
                _ => false,
            };
            if !met {
                return error(format!("{content:?} is wanted in {at:?} where the function starts"));
            }
        }
        Ok(())
    }

    fn cross_edge(
        &self,
        from: Block,
        to: Block,
        predecessors: &[Vec<Block>],
        wanted: &Demands,
        demands: &mut Demands,
    ) -> Result<(), CheckError> {
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

    /// From the end of a block to its start.
    fn go_up(&self, block: Block, demands: &mut Demands) -> Result<(), CheckError> {
        let insts = &self.new.blocks[block].insts;
        let empty = Vec::new();
        let old = if block.position() < self.old.blocks.len() { &self.old.blocks[block].insts } else { &empty };
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

    fn keep(&self, keep: Inst, demands: &mut Demands) -> Result<(), CheckError> {
        for source in self.old.sources(keep) {
            let Role::Fixed(register) = source.role else { continue };
            match source.kind {
                OperandKind::Value(part) => {
                    let file = self.old.values[part.value].file;
                    self.demand_part(part, file, u16::from(register), demands, keep)?;
                }
                kind => {
                    let file = if let OperandKind::Zero(file) = kind { file } else { File::General };
                    if let Some(content) = constant(source, 0) {
                        demand(demands, spot(file, u16::from(register)), content, || format!("by {keep:?}"))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn demand_part(&self, part: Part, file: File, register: u16, demands: &mut Demands, inst: Inst) -> Result<(), CheckError> {
        for unit in 0..part.count {
            if let Some(content) = self.resolve(part.value, part.first + unit) {
                demand(demands, spot(file, register + u16::from(unit)), content, || format!("by {inst:?}"))?;
            }
        }
        Ok(())
    }

    /// An instruction of the original function.
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
                if let Spot::Register(file, register) = at {
                    let files = [File::General, File::Uniform, File::Predicate, File::UniformPredicate, File::Convergence];
                    let file = files[usize::from(file)];
                    if self.env.clobbered(self.old, inst, file).has(register) {
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
            let at = spot(file, first + u16::from(unit));
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

    fn read(&self, inst: Inst, before: &Operand, after: &Operand, demands: &mut Demands) -> Result<(), CheckError> {
        if let (Role::Fixed(fixed), OperandKind::Register { file, first, count: 1 }) = (before.role, after.kind)
            && let Some(content) = before.part().is_none().then(|| constant(before, 0)).flatten()
        {
            if u16::from(fixed) != first {
                return error(format!("{inst:?} reads {content:?} in {first}, not in {fixed}"));
            }
            return demand(demands, spot(file, first), content, || format!("by {inst:?}"));
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

    /// One move of a guarded copy.
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
            (Some(wanted), From::Spot(at)) => demand(demands, at, wanted, || format!("by {inst:?}"))?,
            (Some(wanted), From::Content(found)) if wanted != found => return error(format!("{inst:?} moves {found:?}, not {wanted:?}")),
            _ => {}
        }
        self.guard(inst, self.old.insts[copy].guard, self.new.insts[inst].guard, demands)
    }

    /// Result, source and tied operand of a guarded copy, for the register that a move writes.
    fn copied(&self, inst: Inst, copy: Inst) -> Option<(Operand, Operand, Operand)> {
        let _ = inst;
        if self.old.insts.get(copy).is_none_or(|data| data.result_count() != 1) {
            return None;
        }
        let operands = self.old.operands(copy);
        Some((operands[0], operands[1], *self.old.tied_to(copy, 0)?))
    }

    /// Something that the allocator put in.
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
                From::Spot(at) => demand(demands, at, wanted, || format!("by {inst:?}"))?,
                From::Content(found) if found == wanted || self.is_repeated(inst, wanted) => {}
                From::Content(found) => return error(format!("{inst:?} puts {found:?} into {to:?} where {wanted:?} is wanted")),
            }
        }
        Ok(())
    }

    /// Whether an instruction computes the same as the one that defines a value.
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

    fn as_move(&self, inst: Inst) -> Option<(Spot, From)> {
        self.as_moves(inst)?.into_iter().next()
    }

    /// What an inserted instruction moves; nothing if it is no move.
    fn as_moves(&self, inst: Inst) -> Option<Vec<(Spot, From)>> {
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
            OperandKind::Register { file, first, count: 1 } if source.signs.is_empty() => From::Spot(spot(file, first)),
            _ => From::Content(constant(&source, 0)?),
        };
        Some(vec![(spot(file, first), from)])
    }

    fn as_memory_moves(&self, opcode: Opcode, operands: &[Operand], modifiers: &[&str]) -> Option<Vec<(Spot, From)>> {
        let width: u16 = match modifiers {
            [] => 1,
            [".64"] => 2,
            [".128"] => 4,
            _ => return None,
        };
        let (data, address) = if opcode == Opcode::LDL { (operands.first()?, &operands[1..]) } else { (operands.last()?, &operands[..3]) };
        let OperandKind::Register { file: File::General, first, count } = data.kind else { return None };
        let base = OperandKind::Register { file: File::General, first: self.env.stack_pointer, count: 1 };
        let offset = address.get(2)?.integer()?;
        let in_frame = offset >= i64::from(self.old.frame_bytes) && offset + i64::from(4 * width) <= i64::from(self.new.frame_bytes);
        let aligned = first.is_multiple_of(width) && offset % i64::from(4 * width) == 0;
        if address[1].kind != base || u16::from(count) != width || !in_frame || !aligned {
            return None;
        }
        let moves = (0..width).map(|word| {
            let (register, slot) = (spot(File::General, first + word), Spot::Slot(offset + 4 * i64::from(word)));
            if opcode == Opcode::LDL { (register, From::Spot(slot)) } else { (slot, From::Spot(register)) }
        });
        Some(moves.collect())
    }

    /// Three exclusive ors that exchange two registers, the last of which is here.
    fn swap(&self, insts: &[Inst], at: usize) -> Option<(Spot, Spot)> {
        let three = [
            self.exclusive_or(insts[at])?,
            self.exclusive_or(*insts.get(at.checked_sub(1)?)?)?,
            self.exclusive_or(*insts.get(at.checked_sub(2)?)?)?,
        ];
        let (a, b) = three[0];
        (three == [(a, b), (b, a), (a, b)]).then_some((a, b))
    }

    fn exclusive_or(&self, inst: Inst) -> Option<(Spot, Spot)> {
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
                Some((spot(file, first), spot(file, other)))
            }
            _ => None,
        }
    }
}

enum From {
    Spot(Spot),
    Content(Content),
}

fn is_true(operand: &Operand) -> bool {
    matches!(operand.kind, OperandKind::Zero(File::Predicate | File::UniformPredicate)) && operand.signs.is_empty()
}

fn is_zero(operand: &Operand) -> bool {
    matches!(operand.kind, OperandKind::Zero(File::General | File::Uniform))
}

/// One register's worth of something that is the same everywhere.
fn constant(operand: &Operand, unit: u8) -> Option<Content> {
    match operand.kind {
        OperandKind::Undefined => None,
        OperandKind::Integer(number) => Some(Content::Number((number >> (32 * u32::from(unit.min(1)))) as u32)),
        OperandKind::Zero(File::General | File::Uniform) => Some(Content::Number(0)),
        OperandKind::Zero(_) => Some(Content::Number(u32::from(operand.signs.is_empty()))),
        OperandKind::Constant { bank, offset } => {
            Some(Content::Known(OperandKind::Constant { bank, offset: offset + 4 * u32::from(unit) }))
        }
        other => Some(Content::Known(other)),
    }
}

fn demand(demands: &mut Demands, at: Spot, content: Content, by: impl Fn() -> String) -> Result<(), CheckError> {
    match demands.insert(at, content) {
        Some(other) if other != content => error(format!("{at:?} should hold both {other:?} and {content:?}, {}", by())),
        _ => Ok(()),
    }
}

fn same_operand(inst: Inst, before: &Operand, after: &Operand) -> Result<(), CheckError> {
    let is_target = matches!((before.kind, after.kind), (OperandKind::Block(_), OperandKind::Block(_)));
    if before == after || is_target {
        return Ok(());
    }
    error(format!("{inst:?}: {before:?} has become {after:?}"))
}
