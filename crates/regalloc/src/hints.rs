//! Computes coalescing hints: webs of values that save moves if they are in related registers.
//!
//! A phi, a copy or a tied operand needs no move if source and result are in the same register; a pack needs none if each source already
//! is at its offset in the result. Values related in this way form a *web*, and each value has an offset in registers from the start of
//! its web. When the first value of a web gets registers, a gap for the whole web is chosen if one is free, and the other values later
//! prefer their registers in it. Unlike the coalescing of a graph-coloring allocator, webs ignore interference: a hint that cannot be
//! followed costs a move and is otherwise harmless.
//!
//! Example: `%4:R4 = PACK %0, %1, %2, %3` puts %0 to %3 at offsets 0 to 3 of the web of %4. If %0 is assigned first, to R8, the web starts
//! at R8, and %1 prefers R9.
//!
//! There is one exception: phis of one block are live at the same time, so two of them never get the same registers of a web. Otherwise
//! four phis with the same initial value, zero, would be at the same offset of one web, and three of them would need a move in every
//! iteration.
//!
//! Webs are a union-find forest with offsets and path compression, so a lookup takes nearly constant time.

use oriole_ir::{Block, Class, Function, Inst, Op, Operand, Pseudo, RegFile, Role, Value};
use oriole_support::IndexVec;
use rustc_hash::FxHashMap;

use crate::liveness::FileLiveness;
use crate::operands::{operand_width, part_in_file};
use crate::registers::{Reg, RegisterSet};

/// Maximum width of a web (a set of values that save moves if they are in related registers), in registers. Free gaps for wider webs are
/// rare. A single wider tuple forms a web alone, so the sources of a pack into it get no hints, and each of them may cost a move.
const MAX_WEB_WIDTH: i32 = 128;

/// Maximum number of phi registers that are recorded for each web (set of related values). Bounds the time to join two webs.
const MAX_PHI_REGISTERS_PER_WEB: usize = 32;

/// Using registers below this number does not lower the occupancy, so among them a register in the preferred bank is chosen even if it is
/// above all registers in use.
const CHEAP_REGISTER_END: u16 = 24;

/// A value as a node of the union-find forest whose trees are the webs (sets of related values). The root of a web is its own parent.
#[derive(Clone, Copy)]
struct WebNode {
    /// The parent in the union-find forest.
    parent: Value,
    /// Number of registers from the first register of the parent to the first register of this value; may be negative.
    offset: i32,
    /// For roots: offset from the first register of the root to the lowest register of the web, in registers; 0 or negative.
    web_start: i32,
    /// For roots: offset from the first register of the root to the end of the web (exclusive), in registers.
    web_end: i32,
    /// For roots: the number of the register at which the root would start, given the registers that other values of the web have; `None`
    /// if no value of the web has registers yet. A negative number means that the root cannot get such a register.
    implied_register: Option<i32>,
    /// For roots: the largest alignment of any value in the web, in registers.
    align: u8,
    /// For roots: whether the root should be in an odd register; `None` for no preference.
    prefers_odd: Option<bool>,
}

/// A value as a member of its web (set of values that should be in related registers).
#[derive(Clone, Copy)]
struct WebMember {
    /// The root of the web in the union-find forest.
    root: Value,
    /// Number of registers from the first register of the root to the first register of the value; may be negative.
    offset: i32,
}

/// The size of a web (set of related values), and the offset of one value in the web, in registers.
#[derive(Clone)]
struct WebExtent {
    /// Number of consecutive registers that the whole web spans.
    width: u8,
    /// Number of registers from the start of the web to the first register of the value.
    offset: u8,
    /// Alignment that the first register of the web needs, in registers.
    align: u8,
}

/// Number of registers from which on a value is wide: accumulators of matrix products.
const WIDE: u8 = 16;

/// The coalescing hints: the webs (sets of values that save moves if they are in related registers) of all register files. A web never
/// spans two files.
#[derive(Clone, Default)]
pub(crate) struct CoalescingHints {
    /// For each value, its node in the union-find forest.
    nodes: IndexVec<Value, WebNode>,
    /// For each web, given by its root: one entry for each register of a phi in the web, with the block of the phi and the offset of the
    /// register from the root. Webs without phis, and webs with more than [`MAX_PHI_REGISTERS_PER_WEB`] such registers, have no entry.
    phi_registers: FxHashMap<Value, Vec<(Block, i32)>>,
    /// Highest register number chosen so far in the current register file, plus one.
    used_register_end: u16,
    /// Whether wide values take the highest registers ([`CoalescingHints::keep_lower_registers`]).
    keeps_lower_registers: bool,
}

impl CoalescingHints {
    /// Adds the webs (sets of related values) of a register file, and nodes for values that were created since the last call.
    pub fn add_webs_of_file(&mut self, function: &Function, liveness: &FileLiveness, file: RegFile) {
        self.used_register_end = 0;
        for (value, class) in function.values.iter_enumerated().skip(self.nodes.len()) {
            self.nodes.push(WebNode {
                parent: value,
                offset: 0,
                web_start: 0,
                web_end: i32::from(class.width),
                implied_register: None,
                align: class.align,
                prefers_odd: None,
            });
        }
        for &block in &function.layout {
            for &phi in function.phis(block) {
                if let Some(part) = part_in_file(function, &function.results(phi)[0], file)
                    .filter(|part| usize::from(part.count) <= MAX_PHI_REGISTERS_PER_WEB)
                {
                    self.phi_registers.insert(part.value, (0..i32::from(part.count)).map(|offset| (block, offset)).collect());
                }
            }
        }
        for &block in &function.layout {
            for file_inst in liveness.file_insts_of(block) {
                self.join_webs_of_operands(function, file_inst.inst, file);
            }
        }
    }

    /// Joins the webs (sets of related values) of the operands of a phi, copy, pack or instruction with tied operands.
    fn join_webs_of_operands(&mut self, function: &Function, inst: Inst, file: RegFile) {
        let part_of = |operand: &Operand| part_in_file(function, operand, file);
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
                self.join_webs(result.value, source.value, offset - i32::from(source.first));
            }
        }
    }

    /// Returns the root of a value's web (set of related values) and the offset of the value from the root, in registers. Compresses the
    /// path to the root.
    fn find_root(&mut self, value: Value) -> (Value, i32) {
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
        // The path is walked from the root down: the offset of a node from the root is its offset from its old parent plus that of the
        // parent from the root.
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
    fn would_phis_overlap(&self, root: Value, other: Value, shift: i32) -> bool {
        let (Some(first), Some(second)) = (self.phi_registers.get(&root), self.phi_registers.get(&other)) else { return false };
        second.iter().any(|&(block, offset)| first.contains(&(block, offset + shift)))
    }

    /// Adds the phi registers of the web of `other`, moved by `shift` registers, to those of the web of `root`. Removes the entry of `root`
    /// if there are more than [`MAX_PHI_REGISTERS_PER_WEB`].
    fn join_phi_registers(&mut self, root: Value, other: Value, shift: i32) {
        let Some(moved) = self.phi_registers.remove(&other) else { return };
        let kept = self.phi_registers.entry(root).or_default();
        kept.extend(moved.into_iter().map(|(block, offset)| (block, offset + shift)));
        if kept.len() > MAX_PHI_REGISTERS_PER_WEB {
            self.phi_registers.remove(&root);
        }
    }

    /// Joins the webs of two values so that `second` starts `offset` registers after `first`. Does nothing if the webs are joined already
    /// (the first relation wins), if phis of one block would overlap, if the joined web would be too wide, or if the alignments contradict
    /// each other.
    fn join_webs(&mut self, first: Value, second: Value, offset: i32) {
        let (root, first_offset) = self.find_root(first);
        let (other, second_offset) = self.find_root(second);
        if root == other {
            return;
        }
        // `shift` is the offset of the second root from the first. The root with the larger alignment becomes the root of the joined web,
        // because the alignment of a web applies to its root.
        let shift = first_offset + offset - second_offset;
        let (root, other, shift) =
            if self.nodes[other].align > self.nodes[root].align { (other, root, -shift) } else { (root, other, shift) };
        let moved = self.nodes[other];
        let kept = self.nodes[root];
        let (web_start, web_end) = (kept.web_start.min(moved.web_start + shift), kept.web_end.max(moved.web_end + shift));
        let misaligned = shift.rem_euclid(i32::from(moved.align)) != 0;
        if web_end - web_start > MAX_WEB_WIDTH || misaligned || self.would_phis_overlap(root, other, shift) {
            return;
        }
        self.join_phi_registers(root, other, shift);
        self.nodes[other].parent = root;
        self.nodes[other].offset = shift;
        let node = &mut self.nodes[root];
        (node.web_start, node.web_end) = (web_start, web_end);
    }

    /// Returns the root of a value's web (set of related values), and the offset of the value from the root in registers.
    pub fn root_of(&mut self, value: Value) -> (Value, i32) {
        self.find_root(value)
    }

    /// Returns whether the web of a root contains aligned tuples, so that the root starts at an even register.
    pub fn has_aligned_tuples(&self, root: Value) -> bool {
        self.nodes[root].align >= 2
    }

    /// Sets the preferred register bank of a web (set of related values): whether its root should be in an odd register; `None` for no
    /// preference.
    pub fn set_preferred_bank(&mut self, root: Value, prefers_odd: Option<bool>) {
        self.nodes[root].prefers_odd = prefers_odd;
    }

    /// Removes the preferred register banks of all webs (sets of related values).
    pub fn forget_preferred_banks(&mut self) {
        self.nodes.iter_mut().for_each(|node| node.prefers_odd = None);
    }

    /// Returns the web (set of related values) of a value, by its root, with the offset of the value from the root.
    fn web_of(&mut self, value: Value) -> WebMember {
        let (root, offset) = self.find_root(value);
        WebMember { root, offset }
    }

    /// Returns the first register that a member of a web should get, given the registers of the other members. `None` if no member has
    /// registers yet, or if the result would not be a valid register.
    fn implied_register(&self, web: WebMember) -> Option<Reg> {
        self.nodes[web.root].implied_register.and_then(|place| u16::try_from(place + web.offset).ok()).map(Reg::new)
    }

    /// Returns the first register that a value should get to save moves; `None` if no value of its web (set of related values) has
    /// registers yet.
    pub fn hinted_register(&mut self, value: Value) -> Option<Reg> {
        let web = self.web_of(value);
        self.implied_register(web)
    }

    /// Returns one more than the highest register number that has been chosen in the current register file.
    pub fn used_register_end(&self) -> u16 {
        self.used_register_end
    }

    /// Says whether the block that starts now may name more registers than others (`setmaxnreg`). Values of [`WIDE`] registers and more
    /// then take the highest free registers: the others can also hold values that live in blocks with fewer registers.
    pub fn keep_lower_registers(&mut self, has_more: bool) {
        self.keeps_lower_registers = has_more;
    }

    /// Returns the size of a web (set of related values) and the offset of one of its members from the start of the web, in registers.
    fn web_extent(&self, web: WebMember) -> WebExtent {
        let node = &self.nodes[web.root];
        // The registers for the whole web start at a multiple of its alignment, at or before the first register of the web.
        let align = i32::from(node.align.max(1));
        let start = node.web_start.div_euclid(align) * align;
        WebExtent { width: (node.web_end - start) as u8, offset: (web.offset - start) as u8, align: node.align }
    }

    /// Records that the first register of a value is `register`, which implies registers for all other values of its web (set of related
    /// values).
    pub fn note_register(&mut self, value: Value, register: Reg) {
        let web = self.web_of(value);
        self.set_implied_register(web, register);
    }

    /// Records that a member of a web starts at `register`, and thereby the register at which the root of the web would start.
    fn set_implied_register(&mut self, web: WebMember, register: Reg) {
        self.nodes[web.root].implied_register = Some(i32::from(register.number()) - web.offset);
    }

    /// Chooses free registers for a value and returns the first; `None` if no aligned gap is wide enough. To save moves, prefers the
    /// registers that the other values of its web (set of related values) imply. If none of them has registers yet, prefers a gap for the
    /// whole web; otherwise any gap is chosen.
    pub fn choose_registers(&mut self, value: Value, class: Class, free: &RegisterSet) -> Option<Reg> {
        let place = self.choose_without_recording(value, class, free)?;
        self.used_register_end = self.used_register_end.max(place.number() + u16::from(class.width));
        Some(place)
    }

    /// Returns whether no value of the web of `value` has registers yet and `free` has a gap for the whole web.
    pub fn has_gap_for_web(&mut self, value: Value, free: &RegisterSet) -> bool {
        let web = self.web_of(value);
        let web_extent = self.web_extent(web);
        let whole = Class { file: RegFile::General, width: web_extent.width, align: web_extent.align };
        self.implied_register(web).is_none() && free.find_gap(whole).is_some()
    }

    /// Records the registers of a value that were chosen without [`CoalescingHints::choose_registers`].
    pub fn note_chosen_registers(&mut self, value: Value, class: Class, register: Reg) {
        self.used_register_end = self.used_register_end.max(register.number() + u16::from(class.width));
        if self.hinted_register(value).is_none() {
            self.note_register(value, register);
        }
    }

    /// Chooses a register as [`CoalescingHints::choose_registers`] describes, without recording the highest register in use
    /// ([`CoalescingHints::used_register_end`]).
    fn choose_without_recording(&mut self, value: Value, class: Class, free: &RegisterSet) -> Option<Reg> {
        let fits = |place: Reg| place.is_aligned(class.align) && free.has_all(place, class.width);
        let web = self.web_of(value);
        let hinted_register = self.implied_register(web);
        if let Some(place) = hinted_register {
            if fits(place) {
                return Some(place);
            }
        } else {
            let web_extent = self.web_extent(web);
            if web_extent.width > class.width {
                let whole = Class { width: web_extent.width, align: web_extent.align, ..class };
                if let Some(place) =
                    self.find_gap_for_width(whole, free).map(|place| place + web_extent.offset).filter(|&place| fits(place))
                {
                    self.set_implied_register(web, place);
                    return Some(place);
                }
            }
        }
        let place = self.find_gap(web, class, free)?;
        // The first value of a web that gets registers determines the registers of the other values. A value that did not get the implied
        // registers does not change them.
        if hinted_register.is_none() {
            self.set_implied_register(web, place);
        }
        Some(place)
    }

    /// Finds a gap for a value of a class: the highest one for wide values, if the lower registers are kept for others.
    fn find_gap_for_width(&self, class: Class, free: &RegisterSet) -> Option<Reg> {
        let is_highest = self.keeps_lower_registers && class.file == RegFile::General && class.width >= WIDE;
        if is_highest { free.gap_starts(class).highest() } else { free.find_gap(class) }
    }

    /// Finds a gap (free consecutive registers) for a value, in the preferred bank of its web if that does not raise the number of
    /// registers in use above [`CHEAP_REGISTER_END`]. Returns the first register of the gap.
    fn find_gap(&self, web: WebMember, class: Class, free: &RegisterSet) -> Option<Reg> {
        let place = self.find_gap_for_width(class, free)?;
        let Some(is_odd) = self.nodes[web.root].prefers_odd.filter(|_| class.width == 1 && class.align == 1) else { return Some(place) };
        let is_odd = is_odd ^ (web.offset.rem_euclid(2) == 1);
        if (place.number() % 2 == 1) == is_odd {
            return Some(place);
        }
        let limit = self.used_register_end.max(CHEAP_REGISTER_END);
        let other = free.find_gap_in_bank(class, is_odd).filter(|other| other.number() < limit);
        Some(other.unwrap_or(place))
    }
}

#[cfg(test)]
mod tests {
    use oriole_support::Index;

    use super::*;

    /// Two webs join as long as no phis of one block overlap. The phis of a web with more than [`MAX_PHI_REGISTERS_PER_WEB`] phi registers
    /// are no longer recorded, which bounds the time to join webs.
    #[test]
    fn a_web_with_many_phis_is_no_longer_tracked() {
        let mut hints = CoalescingHints::default();
        let [first, second, third] = [0, 1, 2].map(Value::new);
        let most = MAX_PHI_REGISTERS_PER_WEB as i32;
        for (value, blocks) in [(first, 0..most - 1), (second, most - 1..most), (third, most..most + 1)] {
            hints.nodes.push(WebNode {
                parent: value,
                offset: 0,
                web_start: 0,
                web_end: 1,
                implied_register: None,
                align: 1,
                prefers_odd: None,
            });
            hints.phi_registers.insert(value, blocks.map(|block| (Block::new(block as usize), 0)).collect());
        }
        assert!(!hints.would_phis_overlap(first, second, 0));
        hints.join_webs(first, second, 0);
        assert_eq!((hints.find_root(second), hints.phi_registers[&first].len()), ((first, 0), MAX_PHI_REGISTERS_PER_WEB));
        hints.join_webs(first, third, 0);
        assert_eq!((hints.find_root(third), hints.phi_registers.len()), ((first, 0), 0));
    }

    #[test]
    fn phis_of_one_block_keep_webs_apart() {
        let mut hints = CoalescingHints::default();
        let values = [0, 1].map(Value::new);
        for value in values {
            hints.nodes.push(WebNode {
                parent: value,
                offset: 0,
                web_start: 0,
                web_end: 1,
                implied_register: None,
                align: 1,
                prefers_odd: None,
            });
            hints.phi_registers.insert(value, vec![(Block::new(7), 0)]);
        }
        hints.join_webs(values[0], values[1], 0);
        assert_eq!(hints.find_root(values[1]), (values[1], 0), "both phis would be in one register");
        hints.join_webs(values[0], values[1], 1);
        assert_eq!(hints.find_root(values[1]), (values[0], 1));
    }
}
