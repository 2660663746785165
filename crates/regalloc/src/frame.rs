//! Spill slots in the frame, and the loads and stores that access them. Only the general file is spilled to memory.
//!
//! During the allocation each spilled value has its own slot, except that pieces with the same index of a divided accumulator
//! ([`crate::accumulators`]) share one. [`crate::slots`] assigns the offsets again afterwards, so that slots whose values are not live at the
//! same time share memory. Offsets are in bytes from the stack pointer.

use oriole_ir::{Function, MemoryAccess, Opcode, Operand, OperandKind, RegFile, Role, Space, Symbol, Value};
use rustc_hash::FxHashMap;

use crate::emit::Emitter;
use crate::operands::register;
use crate::registers::{Reg, RegisterSet};

/// A spill slot that belongs to no value: a temporary slot for the code of an edge, or the slot in which a scratch register is saved.
#[derive(Clone)]
pub(crate) struct UnownedSpillSlot {
    /// Offset in bytes from the stack pointer.
    pub offset: u32,
    /// Size in words of 4 bytes.
    pub words: u32,
}

/// A register that may be overwritten for a while; see [`SpillFrame::acquire_scratch_register`].
#[derive(Clone, Copy)]
pub(crate) struct ScratchRegister {
    /// The register that may be overwritten.
    pub register: Reg,
    /// Whether the content of the register was saved to the emergency slot and has to be restored.
    is_saved: bool,
}

/// The direction of a transfer between registers and spill slots.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TransferDirection {
    /// From registers to memory.
    Store,
    /// From memory to registers (a reload).
    Load,
}

/// The spill slots of the function, and the number of bytes that spill code transfers.
#[derive(Clone)]
pub(crate) struct SpillFrame {
    /// The register with the stack pointer, which slots are addressed from.
    stack_pointer: Reg,
    /// For each value that shares the spill slot of another value: the owner of the slot.
    pub owners: FxHashMap<Value, Value>,
    /// For each value that owns a spill slot: the offset of the slot in bytes from the stack pointer.
    pub slots: FxHashMap<Value, u32>,
    /// The slots that belong to no value.
    pub unowned_slots: Vec<UnownedSpillSlot>,
    /// Offset of the slot in which a register is saved while it is used as a scratch register; `None` if that was never necessary.
    emergency_slot_offset: Option<u32>,
    /// Number of bytes that the spill stores emitted so far write.
    pub stored_bytes: u32,
    /// Number of bytes that the spill loads emitted so far read.
    pub loaded_bytes: u32,
}

impl SpillFrame {
    /// Creates the frame of a function that has no spill slots yet. `owners` maps each value that shares a slot with others to the value
    /// that owns the slot.
    pub fn new(stack_pointer: Reg, owners: FxHashMap<Value, Value>) -> SpillFrame {
        SpillFrame {
            stack_pointer,
            owners,
            slots: FxHashMap::default(),
            unowned_slots: Vec::new(),
            emergency_slot_offset: None,
            stored_bytes: 0,
            loaded_bytes: 0,
        }
    }

    /// Forgets the slots that belong to no value, since the previous register file no longer uses them. The statistics are kept.
    pub fn start_register_file(&mut self) {
        self.unowned_slots.clear();
        self.emergency_slot_offset = None;
    }

    /// Returns the value that owns the slot of a value: itself, unless it shares the slot of another one.
    pub fn slot_owner_of(&self, value: Value) -> Value {
        self.owners.get(&value).copied().unwrap_or(value)
    }

    /// Returns the offset of a value's spill slot in bytes from the stack pointer; creates the slot at the first call.
    pub fn spill_slot_offset(&mut self, value: Value, function: &mut Function) -> u32 {
        let value = self.slot_owner_of(value);
        if let Some(&offset) = self.slots.get(&value) {
            return offset;
        }
        let class = function.values[value];
        let align = slot_align_bytes(u32::from(class.width));
        let offset = function.frame_bytes.next_multiple_of(align);
        function.frame_bytes = offset + 4 * u32::from(class.width);
        function.frame_align = function.frame_align.max(align);
        self.slots.insert(value, offset);
        offset
    }

    /// Creates a slot of `words` words of 4 bytes that belongs to no value, and returns its offset in bytes from the stack pointer.
    pub fn new_unowned_slot(&mut self, words: u8, function: &mut Function) -> u32 {
        let align = slot_align_bytes(u32::from(words));
        let offset = function.frame_bytes.next_multiple_of(align);
        function.frame_bytes = offset + 4 * u32::from(words);
        function.frame_align = function.frame_align.max(align);
        self.unowned_slots.push(UnownedSpillSlot { offset, words: u32::from(words) });
        offset
    }

    /// Returns the offset in bytes of the emergency slot, in which a scratch register is saved; creates the slot at the first call.
    fn emergency_slot_offset(&mut self, function: &mut Function) -> u32 {
        if let Some(offset) = self.emergency_slot_offset {
            return offset;
        }
        let offset = self.new_unowned_slot(1, function);
        self.emergency_slot_offset = Some(offset);
        offset
    }

    /// Returns a scratch register. If no register is free, the lowest usable one is saved to the emergency slot;
    /// [`SpillFrame::release_scratch_register`] restores it.
    pub fn acquire_scratch_register(&mut self, free: &RegisterSet, usable: &RegisterSet, emitter: &mut Emitter<'_>) -> ScratchRegister {
        if let Some(register) = free.lowest() {
            return ScratchRegister { register, is_saved: false };
        }
        let register = usable.lowest().unwrap_or(Reg::new(0));
        let slot = self.emergency_slot_offset(emitter.function);
        self.store(slot, register, 1, emitter);
        ScratchRegister { register, is_saved: true }
    }

    /// Restores a register from [`SpillFrame::acquire_scratch_register`] if it was saved.
    pub fn release_scratch_register(&mut self, scratch: ScratchRegister, emitter: &mut Emitter<'_>) {
        if scratch.is_saved {
            let slot = self.emergency_slot_offset(emitter.function);
            self.load(slot, scratch.register, 1, emitter);
        }
    }

    /// Emits stores of the `count` consecutive registers from `first` on to the spill slot at byte offset `slot`.
    pub fn store(&mut self, slot: u32, first: Reg, count: u8, emitter: &mut Emitter<'_>) {
        self.transfer(TransferDirection::Store, slot, first, count, emitter);
    }

    /// Emits loads of the `count` consecutive registers from `first` on from the spill slot at byte offset `slot`.
    pub fn load(&mut self, slot: u32, first: Reg, count: u8, emitter: &mut Emitter<'_>) {
        self.transfer(TransferDirection::Load, slot, first, count, emitter);
    }

    /// Emits a copy of `words` 4-byte words from the slot at byte offset `from` to the one at `to`, through a scratch register.
    pub fn copy(&mut self, to: u32, from: u32, words: u8, scratch: ScratchRegister, emitter: &mut Emitter<'_>) {
        for word in 0..u32::from(words) {
            self.load(from + 4 * word, scratch.register, 1, emitter);
            self.store(to + 4 * word, scratch.register, 1, emitter);
        }
    }

    /// Emits loads or stores of the `count` registers from `first` on, of 16, 8 or 4 bytes each: the widest for which both the register
    /// number and the offset are aligned.
    fn transfer(&mut self, direction: TransferDirection, slot: u32, first: Reg, count: u8, emitter: &mut Emitter<'_>) {
        let mut done = 0;
        while done < count {
            let (at, offset) = (first + done, slot + 4 * u32::from(done));
            let fits = |size: u8| size <= count - done && at.is_aligned(size) && offset.is_multiple_of(4 * u32::from(size));
            let (size, modifier): (u8, &[&str]) = if fits(4) {
                (4, &[".128"])
            } else if fits(2) {
                (2, &[".64"])
            } else {
                (1, &[])
            };
            let address = [
                Operand::new(OperandKind::Address(Symbol::NAME_)),
                register(RegFile::General, self.stack_pointer, 1).with_role(Role::Bracket(0)),
                Operand::from(offset).with_role(Role::Bracket(0)),
            ];
            let data = register(RegFile::General, at, size);
            let inst = match direction {
                TransferDirection::Store => {
                    emitter.push_machine_inst(Opcode::STL, modifier, &[address[0], address[1], address[2], data], 0)
                }
                TransferDirection::Load => emitter.push_machine_inst(Opcode::LDL, modifier, &[data, address[0], address[1], address[2]], 1),
            };
            let access = emitter.function.accesses.push(MemoryAccess::weak(Space::Spill, 4 * size));
            emitter.function.insts[inst].memory = Some(access);
            done += size;
            let total = if direction == TransferDirection::Store { &mut self.stored_bytes } else { &mut self.loaded_bytes };
            *total += 4 * u32::from(size);
        }
    }
}

/// Returns the alignment in bytes of a slot of `words` words of 4 bytes: that of the widest access (at most 16 bytes) that fits into the
/// slot. So the access widths that [`SpillFrame::transfer`] chooses stay valid when the slot gets another offset ([`crate::slots`]).
pub(crate) fn slot_align_bytes(words: u32) -> u32 {
    match words {
        0 | 1 => 4,
        2 | 3 => 8,
        _ => 16,
    }
}

#[cfg(test)]
mod tests {
    use oriole_ir::{Class, FunctionKind};

    use super::*;

    /// A slot has the alignment of its size, up to 16 bytes, and so has the frame; slots do not overlap.
    #[test]
    fn slots_and_the_frame_are_aligned() {
        let mut function = Function::new("test", FunctionKind::Kernel);
        function.frame_bytes = 2;
        let classes = [Class::R, Class::R2, Class::R, Class::R4];
        let values = classes.map(|class| function.new_value(class));
        let mut frame = SpillFrame::new(Reg::new(1), FxHashMap::default());
        let mut aligns = Vec::new();
        let mut slot = |function: &mut Function, value| {
            let offset = frame.spill_slot_offset(value, function);
            aligns.push((function.frame_align, function.frame_bytes));
            offset
        };
        assert_eq!(values.map(|value| slot(&mut function, value)), [4, 8, 16, 32]);
        assert_eq!(slot(&mut function, values[1]), 8, "the same slot again");
        assert_eq!(aligns[1..], [(8, 16), (8, 20), (16, 48), (16, 48)]);
        assert_eq!((frame.new_unowned_slot(3, &mut function), function.frame_bytes), (48, 60));
        assert_eq!((frame.new_unowned_slot(4, &mut function), function.frame_bytes), (64, 80));
    }
}
