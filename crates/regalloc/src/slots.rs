//! Assigns spill slots so that values that are not live at the same time share memory.
//!
//! While the general file is allocated, every spilled value has its own slot. Afterwards a linear scan (Poletto and Sarkar 1999) assigns
//! the slots again: instructions are numbered in reverse post-order, each value has one live interval from its first to its last position,
//! and a slot whose interval has ended is reused for the next value of the same width. The offsets in the spill loads and stores are
//! rewritten at the end.
//!
//! Pieces with the same index in a divided accumulator ([`crate::accumulators`]) share a slot from the start; its interval covers all of
//! them.
//!
//! The intervals have no holes, so two values may get different slots although one would do. Slots of different widths are not merged.
//!
//! Cost: O(n log n) in the number of spilled values, plus one visit to each instruction.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use oriole_ir::{Block, OperandKind, Role, Space, Value};
use oriole_support::IndexVec;
use rustc_hash::FxHashMap;

use crate::assigner::RegisterAssigner;
use crate::frame::slot_align_bytes;

/// The live interval of a spilled value, in positions of a linear order of all instructions.
#[derive(Clone, Copy)]
struct LiveInterval {
    /// The spilled value.
    value: Value,
    /// First position of the interval.
    start: u32,
    /// Last position of the interval, inclusive.
    end: u32,
}

impl RegisterAssigner<'_> {
    /// Assigns new offsets to all spill slots, so that slots which are not in use at the same time share memory. `first` is the byte offset
    /// in the frame where the slots begin.
    pub(crate) fn share_spill_slots(&mut self, first: u32) {
        let frame = &self.spills.frame;
        if frame.slots.is_empty() && frame.unowned_slots.is_empty() {
            return;
        }
        let intervals = self.live_intervals();
        let mut new_offsets: FxHashMap<u32, u32> = FxHashMap::default();
        let mut end = first;
        // Slots that belong to no value (temporary slots) come first and are not shared.
        for slot in &frame.unowned_slots {
            end = end.next_multiple_of(slot_align_bytes(slot.words));
            for word in 0..slot.words {
                new_offsets.insert(slot.offset + 4 * word, end + 4 * word);
            }
            end += 4 * slot.words;
        }
        // Slots in use as (end of the live interval, offset, width), earliest end first; and the offsets of free slots, by width.
        let mut active: BinaryHeap<Reverse<(u32, u32, u8)>> = Default::default();
        let mut free: FxHashMap<u8, Vec<u32>> = FxHashMap::default();
        for interval in intervals {
            while let Some(&Reverse((_, offset, width))) = active.peek().filter(|top| top.0.0 < interval.start) {
                active.pop();
                free.entry(width).or_default().push(offset);
            }
            let class = self.class_of(interval.value);
            let offset = free.get_mut(&class.width).and_then(Vec::pop).unwrap_or_else(|| {
                let offset = end.next_multiple_of(slot_align_bytes(u32::from(class.width)));
                end = offset + 4 * u32::from(class.width);
                offset
            });
            active.push(Reverse((interval.end, offset, class.width)));
            let old = frame.slots[&interval.value];
            for word in 0..u32::from(class.width) {
                new_offsets.insert(old + 4 * word, offset + 4 * word);
            }
        }
        self.function.frame_bytes = end;
        self.rewrite_spill_offsets(&new_offsets);
    }

    /// Returns the live intervals of all values with a spill slot, sorted by start.
    fn live_intervals(&self) -> Vec<LiveInterval> {
        let (flow, block_lengths, slots) = (&self.inputs.flow, &self.inputs.block_lengths, &self.spills.frame.slots);
        let mut starts: IndexVec<Block, u32> = IndexVec::filled(block_lengths.len(), 0);
        let mut at = 0;
        for &block in flow.reverse_post_order() {
            // A block has two more positions than instructions. The last position stands for the end of the block, where the code of its
            // outgoing edges uses slots.
            starts[block] = at;
            at += block_lengths[block] + 2;
        }
        let end_of = |block: Block| starts[block] + block_lengths[block] + 1;
        let mut ranges: FxHashMap<Value, (u32, u32)> = FxHashMap::default();
        let frame = &self.spills.frame;
        let mut cover = |value: Value, start: u32, end: u32| {
            let value = frame.slot_owner_of(value);
            if slots.contains_key(&value) {
                let range = ranges.entry(value).or_insert((start, end));
                *range = (range.0.min(start), range.1.max(end));
            }
        };
        for &block in flow.reverse_post_order() {
            for &value in self.inputs.liveness.live_in(block) {
                // The interval covers the whole block, although the last use may be earlier, and the ends of the predecessors, where edge
                // code may use the slot.
                cover(value, starts[block], end_of(block));
                for &from in flow.graph.predecessors(block) {
                    cover(value, end_of(from), end_of(from));
                }
            }
        }
        let shared = frame.owners.iter().filter(|(_, owner)| slots.contains_key(owner)).map(|(&value, _)| value);
        for value in slots.keys().copied().chain(shared) {
            if let Some(phi) = self.borders.phi_places[value] {
                cover(value, starts[phi.block], end_of(phi.block));
                // A phi in memory is stored by code on the incoming edges.
                if phi.register.is_none() {
                    for &from in flow.graph.predecessors(phi.block) {
                        cover(value, end_of(from), end_of(from));
                    }
                }
            } else if let Some(definition) = self.walk.definitions[value] {
                let (start, end) = (starts[definition.block], end_of(definition.block));
                cover(value, start + definition.position, definition.last_use.map_or(end, |last| (start + last).min(end)));
            }
        }
        let mut intervals: Vec<LiveInterval> = ranges.into_iter().map(|(value, (start, end))| LiveInterval { value, start, end }).collect();
        intervals.sort_by_key(|interval| (interval.start, interval.value));
        intervals
    }

    /// Replaces the byte offsets of all spill loads and stores: `new_offsets` maps the old offset of each 4-byte word to the new one.
    fn rewrite_spill_offsets(&mut self, new_offsets: &FxHashMap<u32, u32>) {
        for position in 0..self.function.layout.len() {
            for inst in self.function.blocks[self.function.layout[position]].insts.clone() {
                let is_spill = self.function.insts[inst].memory.is_some_and(|memory| self.function.accesses[memory].space == Space::Spill);
                if !is_spill {
                    continue;
                }
                for operand in self.function.operands_mut(inst) {
                    if let (OperandKind::Integer(offset), Role::Bracket(0)) = (operand.kind, operand.role) {
                        operand.kind = OperandKind::Integer(i64::from(new_offsets[&(offset as u32)]));
                    }
                }
            }
        }
    }
}
