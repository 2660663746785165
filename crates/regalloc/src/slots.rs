//! Spilled values that are not live at the same time share their slots in local memory.
//!
//! While a file is allocated every spilled value has a slot of its own. Afterwards slots are given out again, in the order of
//! the code: the blocks stand in a line, a value occupies the stretch from its first to its last place, and a slot whose stretch
//! is over goes to the next value of the same size. Offsets in the loads and stores are rewritten.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use oriole_ir::{Block, OperandKind, Role, Space, Value};
use oriole_support::Index;
use rustc_hash::FxHashMap;

use crate::assign::{Assigner, NOWHERE};

/// A stretch of the line of blocks, in instructions.
#[derive(Clone, Copy)]
struct Stretch {
    value: Value,
    start: u32,
    end: u32,
}

impl Assigner<'_> {
    /// Shares slots. `first` is where the slots of this file began.
    pub(crate) fn share_slots(&mut self, first: u32) {
        if self.slots.is_empty() && self.private_slots.is_empty() {
            return;
        }
        let stretches = self.stretches();
        let mut moved: FxHashMap<u32, u32> = FxHashMap::default();
        let mut end = first;
        for &(offset, words) in &self.private_slots {
            for word in 0..words {
                moved.insert(offset + 4 * word, end + 4 * word);
            }
            end += 4 * words;
        }
        // Slots in use by when they become free, and free ones, both by size.
        let mut active: BinaryHeap<Reverse<(u32, u32, u8)>> = Default::default();
        let mut free: FxHashMap<u8, Vec<u32>> = FxHashMap::default();
        for stretch in stretches {
            while let Some(&Reverse((_, offset, width))) = active.peek().filter(|top| top.0.0 < stretch.start) {
                active.pop();
                free.entry(width).or_default().push(offset);
            }
            let class = self.class(stretch.value);
            let offset = free.get_mut(&class.width).and_then(Vec::pop).unwrap_or_else(|| {
                let offset = end.next_multiple_of(4 * u32::from(class.align.min(4)));
                end = offset + 4 * u32::from(class.width);
                offset
            });
            active.push(Reverse((stretch.end, offset, class.width)));
            let old = self.slots[&stretch.value];
            for word in 0..u32::from(class.width) {
                moved.insert(old + 4 * word, offset + 4 * word);
            }
        }
        self.function.frame_bytes = end;
        self.rewrite_offsets(&moved);
    }

    /// Where each value with a slot is live, in the order of their starts.
    fn stretches(&self) -> Vec<Stretch> {
        let mut starts = vec![0u32; self.flow.place.len()];
        let mut at = 0;
        for &block in &self.flow.order {
            starts[block.position()] = at;
            at += self.lengths[block.position()] + 2;
        }
        let end_of = |block: Block| starts[block.position()] + self.lengths[block.position()] + 1;
        let mut ranges: FxHashMap<Value, (u32, u32)> = FxHashMap::default();
        let mut cover = |value: Value, start: u32, end: u32| {
            if self.slots.contains_key(&value) {
                let range = ranges.entry(value).or_insert((start, end));
                *range = (range.0.min(start), range.1.max(end));
            }
        };
        for &block in &self.flow.order {
            for &value in self.liveness.live_in(block) {
                cover(value, starts[block.position()], end_of(block));
                for &from in &self.flow.predecessors[block.position()] {
                    cover(value, end_of(from), end_of(from));
                }
            }
        }
        for &value in self.slots.keys() {
            match (self.phi_of[value.position()], self.defined_at[value.position()]) {
                (Some(block), _) => {
                    cover(value, starts[block.position()], end_of(block));
                    if self.entered_at[value.position()] == NOWHERE {
                        for &from in &self.flow.predecessors[block.position()] {
                            cover(value, end_of(from), end_of(from));
                        }
                    }
                }
                (None, Some((block, first, last))) => {
                    let start = starts[block.position()];
                    cover(value, start + first, start.saturating_add(last).min(end_of(block)));
                }
                (None, None) => {}
            }
        }
        let mut stretches: Vec<Stretch> = ranges.into_iter().map(|(value, (start, end))| Stretch { value, start, end }).collect();
        stretches.sort_by_key(|stretch| (stretch.start, stretch.value));
        stretches
    }

    fn rewrite_offsets(&mut self, moved: &FxHashMap<u32, u32>) {
        for position in 0..self.function.layout.len() {
            for inst in self.function.blocks[self.function.layout[position]].insts.clone() {
                let is_spill = self.function.insts[inst].memory.is_some_and(|memory| self.function.accesses[memory].space == Space::Spill);
                if !is_spill {
                    continue;
                }
                for operand in self.function.operands_mut(inst) {
                    if let (OperandKind::Integer(offset), Role::Bracket(0)) = (operand.kind, operand.role) {
                        operand.kind = OperandKind::Integer(i64::from(moved[&(offset as u32)]));
                    }
                }
            }
        }
    }
}
