//! Which values would like to be neighbours.
//!
//! Phis, copies, packs and tied operands each say that a value at some place of another would save a move. Values so related form a
//! *web*; each has an offset from the start of its web. The first value of a web that gets registers chooses a place for
//! the whole web, if one is free, and the others follow where they can. Hints cost nothing when they are wrong.

use oriole_ir::{File, Function, Inst, Op, Operand, OperandKind, Pseudo, Role, Value};
use oriole_support::Index;

use crate::liveness::Liveness;

/// A web wider than this is not made: it would find no place.
const WIDEST: i32 = 64;

#[derive(Clone, Copy)]
struct Node {
    parent: u32,
    /// Offset from the parent's first register.
    offset: i32,
    /// For roots: the extent of the web around the root's first register.
    low: i32,
    high: i32,
    /// For roots: the register where the root's first register would be.
    place: Option<i32>,
    align: u8,
}

/// The web of a value, and where the value is in it.
#[derive(Clone, Copy)]
pub(crate) struct Web {
    root: u32,
    offset: i32,
}

/// The webs of all files; each lies in one.
#[derive(Default)]
pub(crate) struct Hints {
    nodes: Vec<Node>,
}

impl Hints {
    /// Collects the wishes for a file.
    pub fn look_at(&mut self, function: &Function, liveness: &Liveness, file: File) {
        let known = self.nodes.len();
        self.nodes.extend(function.values.iter().enumerate().skip(known).map(|(number, class)| Node {
            parent: number as u32,
            offset: 0,
            low: 0,
            high: i32::from(class.width),
            place: None,
            align: class.align,
        }));
        for &block in &function.layout {
            for touch in liveness.touching(block) {
                self.collect(function, touch.inst, file);
            }
        }
    }

    fn collect(&mut self, function: &Function, inst: Inst, file: File) {
        let part_of = |operand: &Operand| operand.part().filter(|part| function.values[part.value].file == file);
        let op = function.insts[inst].op;
        let joins = matches!(op, Op::Pseudo(Pseudo::Phi | Pseudo::Copy | Pseudo::Pack));
        let operands = function.operands(inst);
        let mut before = 0;
        for operand in function.sources(inst) {
            let offset = before;
            if op == Op::Pseudo(Pseudo::Pack) {
                before += operand_width(operand);
            }
            let result = match operand.role {
                Role::Tied(result) => usize::from(result),
                _ if joins => 0,
                _ => continue,
            };
            let offset = if matches!(operand.role, Role::Tied(_)) { 0 } else { offset };
            if let Some(source) = part_of(operand)
                && let Some(result) = part_of(&operands[result])
            {
                self.join(result.value, source.value, offset - i32::from(source.first));
            }
        }
    }

    fn root(&mut self, value: u32) -> (u32, i32) {
        let node = self.nodes[value as usize];
        if node.parent == value {
            return (value, 0);
        }
        if self.nodes[node.parent as usize].parent == node.parent {
            return (node.parent, node.offset);
        }
        let mut path = vec![value];
        let mut at = node.parent;
        while self.nodes[at as usize].parent != at {
            path.push(at);
            at = self.nodes[at as usize].parent;
        }
        let mut offset = 0;
        for &step in path.iter().rev() {
            offset += self.nodes[step as usize].offset;
            self.nodes[step as usize].parent = at;
            self.nodes[step as usize].offset = offset;
        }
        (at, offset)
    }

    /// `second` wishes to start `offset` registers behind the start of `first`.
    fn join(&mut self, first: Value, second: Value, offset: i32) {
        let (root, first_offset) = self.root(first.position() as u32);
        let (other, second_offset) = self.root(second.position() as u32);
        if root == other {
            return;
        }
        let shift = first_offset + offset - second_offset;
        let moved = self.nodes[other as usize];
        let kept = self.nodes[root as usize];
        let (low, high) = (kept.low.min(moved.low + shift), kept.high.max(moved.high + shift));
        let misaligned = shift.rem_euclid(i32::from(kept.align.min(moved.align))) != 0;
        if high - low > WIDEST || misaligned || (moved.align > kept.align && shift != 0) {
            return;
        }
        self.nodes[other as usize].parent = root;
        self.nodes[other as usize].offset = shift;
        let node = &mut self.nodes[root as usize];
        (node.low, node.high, node.align) = (low, high, kept.align.max(moved.align));
    }

    /// The web of a value.
    pub fn web(&mut self, value: Value) -> Web {
        let (root, offset) = self.root(value.position() as u32);
        Web { root, offset }
    }

    /// Where a value should start, if its web has a place.
    pub fn place(&self, web: Web) -> Option<u16> {
        self.nodes[web.root as usize].place.and_then(|place| u16::try_from(place + web.offset).ok())
    }

    /// How wide the whole web is, where the value starts in it, and its alignment.
    pub fn extent(&self, web: Web) -> (u8, u8, u8) {
        let node = &self.nodes[web.root as usize];
        ((node.high - node.low) as u8, (web.offset - node.low) as u8, node.align)
    }

    /// A value of the web starts here.
    pub fn settle(&mut self, web: Web, register: u16) {
        self.nodes[web.root as usize].place = Some(i32::from(register) - web.offset);
    }
}

/// How many registers an operand of a pack fills.
pub(crate) fn operand_width(operand: &Operand) -> i32 {
    match operand.kind {
        OperandKind::Value(part) => i32::from(part.count),
        OperandKind::Register { count, .. } => i32::from(count),
        _ => 1,
    }
}
