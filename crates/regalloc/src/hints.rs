//! Computes coalescing hints: webs of values that save moves if they are in related registers.
//!
//! A phi, a copy or a tied operand needs no move if source and result are in the same register; a pack needs none if each source already
//! is at its offset in the result. Values related in this way form a *web*, and each value has an offset in registers from the start of
//! its web. The first value of a web that gets registers chooses a place for the whole web, if one is free, and the others follow where
//! they can. Unlike the coalescing of a graph-coloring allocator, webs ignore interference: a hint that cannot be followed costs a move
//! and is otherwise harmless.
//!
//! Example: `%4:R4 = PACK %0, %1, %2, %3` puts %0 to %3 at offsets 0 to 3 of the web of %4. If %0 is assigned first, to R8, the web starts
//! at R8, and %1 prefers R9.
//!
//! There is one exception: phis of one block are live at the same time, so two of them never get the same registers of a web. Otherwise
//! four phis that all start as the same zero would be one web, and three of them would need a move in every iteration.
//!
//! Webs are a union-find forest with offsets and path compression, so a lookup takes nearly constant time.

use oriole_ir::{Block, Class, Function, Inst, Op, Operand, Pseudo, RegFile, Role, Value};
use oriole_support::IndexVec;
use rustc_hash::FxHashMap;

use crate::liveness::Liveness;
use crate::operands::{operand_width, part_in};
use crate::registers::{Reg, RegisterSet};

/// Maximum width of a web in registers. A wider one would hardly find a gap. A tuple that is wider by itself is a web of its own, so the
/// sources of a pack into it get no hints, and each of them may cost a move.
const WIDEST: i32 = 128;

/// Maximum number of registers of phis that are tracked for a web, which bounds the time to join two webs.
const MAX_TRACKED: usize = 32;

/// Registers below this number are chosen by their bank only.
const CHEAP_REGISTERS: u16 = 24;

/// A value in the union-find forest. A root is its own parent.
#[derive(Clone, Copy)]
struct Node {
    parent: Value,
    /// Registers from the first register of the parent to the first register of this value; may be negative.
    offset: i32,
    /// For roots: first register of the web, relative to the first register of the root; 0 or negative.
    low: i32,
    /// For roots: end of the web, exclusive, relative to the first register of the root.
    high: i32,
    /// For roots: the register of the root that the placed values of the web imply; `None` if no value has a place yet. May be negative
    /// if the root itself does not fit there.
    place: Option<i32>,
    /// For roots: the largest alignment of any value in the web.
    align: u8,
    /// For roots: whether the root should be in an odd register; `None` for no preference.
    odd: Option<bool>,
}

/// The web of a value, and the offset of the value from the root of the web, in registers.
#[derive(Clone, Copy)]
struct Web {
    root: Value,
    offset: i32,
}

/// The size of a web, and the place of one of its values in it, in registers.
struct Extent {
    width: u8,
    /// Registers from the start of the web to the first register of the value.
    offset: u8,
    align: u8,
}

/// The webs of all register files. A web never spans two files.
#[derive(Default)]
pub(crate) struct Hints {
    nodes: IndexVec<Value, Node>,
    /// By root: the registers of the phis in the web, each with the block of the phi and its offset from the root. Webs without phis, and
    /// those with more than [`MAX_TRACKED`] registers, have no entry.
    phis: FxHashMap<Value, Vec<(Block, i32)>>,
    /// One more than the highest register that has been chosen in the current file.
    used: u16,
}

impl Hints {
    /// Adds the webs of a register file, and nodes for values that were created since the last call.
    pub fn add_webs(&mut self, function: &Function, liveness: &Liveness, file: RegFile) {
        self.used = 0;
        for (value, class) in function.values.iter_enumerated().skip(self.nodes.len()) {
            self.nodes.push(Node {
                parent: value,
                offset: 0,
                low: 0,
                high: i32::from(class.width),
                place: None,
                align: class.align,
                odd: None,
            });
        }
        for &block in &function.layout {
            for &phi in function.phis(block) {
                if let Some(part) = part_in(function, &function.results(phi)[0], file).filter(|part| usize::from(part.count) <= MAX_TRACKED)
                {
                    self.phis.insert(part.value, (0..i32::from(part.count)).map(|offset| (block, offset)).collect());
                }
            }
        }
        for &block in &function.layout {
            for file_inst in liveness.file_insts_of(block) {
                self.collect(function, file_inst.inst, file);
            }
        }
    }

    /// Joins the webs that one phi, copy, pack or instruction with tied operands relates.
    fn collect(&mut self, function: &Function, inst: Inst, file: RegFile) {
        let part_of = |operand: &Operand| part_in(function, operand, file);
        let op = function.insts[inst].op;
        let joins = matches!(op, Op::Pseudo(Pseudo::Phi | Pseudo::Copy | Pseudo::Pack));
        let operands = function.operands(inst);
        let mut before = 0;
        for operand in function.sources(inst) {
            let offset = before;
            if op == Op::Pseudo(Pseudo::Pack) {
                before += i32::from(operand_width(operand));
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

    /// Returns the root of a value's web and the offset of the value from it, and compresses the path.
    fn root(&mut self, value: Value) -> (Value, i32) {
        let node = self.nodes[value];
        if node.parent == value {
            return (value, 0);
        }
        if self.nodes[node.parent].parent == node.parent {
            return (node.parent, node.offset);
        }
        let mut path = vec![value];
        let mut at = node.parent;
        while self.nodes[at].parent != at {
            path.push(at);
            at = self.nodes[at].parent;
        }
        // From the root down: each node's offset from the root is that of its old parent plus its own.
        let mut offset = 0;
        for &step in path.iter().rev() {
            offset += self.nodes[step].offset;
            self.nodes[step].parent = at;
            self.nodes[step].offset = offset;
        }
        (at, offset)
    }

    /// Returns whether phis of the same block would overlap if the web of `other` started `shift` registers after that of `root`. Such phis
    /// are live at the same time.
    fn would_overlap(&self, root: Value, other: Value, shift: i32) -> bool {
        let (Some(first), Some(second)) = (self.phis.get(&root), self.phis.get(&other)) else { return false };
        second.iter().any(|&(block, offset)| first.contains(&(block, offset + shift)))
    }

    /// Adds the phis of the web of `other` to those of the web of `root`. A web with many phis is no longer tracked.
    fn join_phis(&mut self, root: Value, other: Value, shift: i32) {
        let Some(moved) = self.phis.remove(&other) else { return };
        let kept = self.phis.entry(root).or_default();
        kept.extend(moved.into_iter().map(|(block, offset)| (block, offset + shift)));
        if kept.len() > MAX_TRACKED {
            self.phis.remove(&root);
        }
    }

    /// Joins two webs so that `second` starts `offset` registers after the start of `first`. Does nothing if the webs are joined already
    /// (the first relation wins), if phis of one block would overlap, if the result would be too wide, or if the alignments contradict each
    /// other.
    fn join(&mut self, first: Value, second: Value, offset: i32) {
        let (root, first_offset) = self.root(first);
        let (other, second_offset) = self.root(second);
        if root == other {
            return;
        }
        let shift = first_offset + offset - second_offset;
        let moved = self.nodes[other];
        let kept = self.nodes[root];
        let (low, high) = (kept.low.min(moved.low + shift), kept.high.max(moved.high + shift));
        // `shift` is the offset of the second web's root from the first web's root, which becomes the common root. A web is aligned at its
        // root: the second web stays aligned at any multiple of its alignment, and if it is the stricter one, only shift 0 is accepted.
        let misaligned = shift.rem_euclid(i32::from(kept.align.min(moved.align))) != 0;
        if high - low > WIDEST || misaligned || (moved.align > kept.align && shift != 0) || self.would_overlap(root, other, shift) {
            return;
        }
        self.join_phis(root, other, shift);
        self.nodes[other].parent = root;
        self.nodes[other].offset = shift;
        let node = &mut self.nodes[root];
        (node.low, node.high, node.align) = (low, high, kept.align.max(moved.align));
    }

    /// Returns the root of a value's web, and the offset of the value from it.
    pub fn root_of(&mut self, value: Value) -> (Value, i32) {
        self.root(value)
    }

    /// Returns whether the web of a root contains aligned tuples, so that the root starts at an even register.
    pub fn is_aligned(&self, root: Value) -> bool {
        self.nodes[root].align >= 2
    }

    /// Sets whether a root should be in an odd register.
    pub fn set_bank(&mut self, root: Value, odd: Option<bool>) {
        self.nodes[root].odd = odd;
    }

    /// Returns the web of a value.
    fn web(&mut self, value: Value) -> Web {
        let (root, offset) = self.root(value);
        Web { root, offset }
    }

    /// Returns the first register that a value should get; `None` if no value of its web has a place yet.
    fn place(&self, web: Web) -> Option<Reg> {
        self.nodes[web.root].place.and_then(|place| u16::try_from(place + web.offset).ok()).map(Reg::new)
    }

    /// Returns the size of a web and the offset of the value in it.
    fn extent(&self, web: Web) -> Extent {
        let node = &self.nodes[web.root];
        Extent { width: (node.high - node.low) as u8, offset: (web.offset - node.low) as u8, align: node.align }
    }

    /// Records that a value starts at `register`, which implies registers for all other values of its web.
    pub fn note_place(&mut self, value: Value, register: Reg) {
        let web = self.web(value);
        self.set_place(web, register);
    }

    fn set_place(&mut self, web: Web, register: Reg) {
        self.nodes[web.root].place = Some(i32::from(register.number()) - web.offset);
    }

    /// Chooses free registers for a value of a class and returns the first; `None` if no aligned gap is wide enough. The order of
    /// preference saves moves: the place that the value's web implies; a gap for the whole web, if no value of it has a place yet; any gap.
    pub fn choose(&mut self, value: Value, class: Class, free: &RegisterSet) -> Option<Reg> {
        let place = self.choose_place(value, class, free)?;
        self.used = self.used.max(place.number() + u16::from(class.width));
        Some(place)
    }

    fn choose_place(&mut self, value: Value, class: Class, free: &RegisterSet) -> Option<Reg> {
        let fits = |place: Reg| place.is_aligned(class.align) && free.has_all(place, class.width);
        let web = self.web(value);
        let wish = self.place(web);
        if let Some(place) = wish {
            if fits(place) {
                return Some(place);
            }
        } else {
            let extent = self.extent(web);
            if extent.width > class.width {
                let whole = Class { width: extent.width, align: extent.align, ..class };
                if let Some(place) = free.find(whole).map(|place| place + extent.offset).filter(|&place| fits(place)) {
                    self.set_place(web, place);
                    return Some(place);
                }
            }
        }
        let place = self.find(web, class, free)?;
        // The first value of a web decides for the others. A value that missed the web's place does not change it.
        if wish.is_none() {
            self.set_place(web, place);
        }
        Some(place)
    }

    /// Finds a gap for a value, in the bank that its web should be in if that takes no register beyond those in use.
    fn find(&self, web: Web, class: Class, free: &RegisterSet) -> Option<Reg> {
        let place = free.find(class)?;
        let Some(is_odd) = self.nodes[web.root].odd.filter(|_| class.width == 1 && class.align == 1) else { return Some(place) };
        let is_odd = is_odd ^ (web.offset.rem_euclid(2) == 1);
        if (place.number() % 2 == 1) == is_odd {
            return Some(place);
        }
        let limit = self.used.max(CHEAP_REGISTERS);
        let other = free.find_in_bank(class, is_odd).filter(|other| other.number() < limit);
        Some(other.unwrap_or(place))
    }
}

#[cfg(test)]
mod tests {
    use oriole_support::Index;

    use super::*;

    /// Two webs join as long as no phis of one block overlap. A web with more phis than are tracked forgets them, so that the time to join
    /// webs stays bounded.
    #[test]
    fn a_web_with_many_phis_is_no_longer_tracked() {
        let mut hints = Hints::default();
        let [first, second, third] = [0, 1, 2].map(Value::new);
        let most = MAX_TRACKED as i32;
        for (value, blocks) in [(first, 0..most - 1), (second, most - 1..most), (third, most..most + 1)] {
            hints.nodes.push(Node { parent: value, offset: 0, low: 0, high: 1, place: None, align: 1, odd: None });
            hints.phis.insert(value, blocks.map(|block| (Block::new(block as usize), 0)).collect());
        }
        assert!(!hints.would_overlap(first, second, 0));
        hints.join(first, second, 0);
        assert_eq!((hints.root(second), hints.phis[&first].len()), ((first, 0), MAX_TRACKED));
        hints.join(first, third, 0);
        assert_eq!((hints.root(third), hints.phis.len()), ((first, 0), 0));
    }

    #[test]
    fn phis_of_one_block_keep_webs_apart() {
        let mut hints = Hints::default();
        let values = [0, 1].map(Value::new);
        for value in values {
            hints.nodes.push(Node { parent: value, offset: 0, low: 0, high: 1, place: None, align: 1, odd: None });
            hints.phis.insert(value, vec![(Block::new(7), 0)]);
        }
        hints.join(values[0], values[1], 0);
        assert_eq!(hints.root(values[1]), (values[1], 0), "both phis would be in one register");
        hints.join(values[0], values[1], 1);
        assert_eq!(hints.root(values[1]), (values[0], 1));
    }
}
