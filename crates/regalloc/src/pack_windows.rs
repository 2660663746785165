//! Keeps registers free for the elements of a tuple that are not defined yet, so that each element is defined at its place in the tuple.
//!
//! A `PACK` needs no moves if each element is defined at its place in the tuple. The first element chooses a window for all of them
//! ([`crate::hints`]). Until the other elements are defined, their registers are free, and a value of one register prefers just such a half
//! of a pair ([`RegisterSet::find_gap`]):
//!
//! ```text
//! %1 = IADD3 ..            R8: the window of %5 is R8:R9
//! %2 = LOP3 ..             would take R9, which is free, and keep it
//! %3 = IADD3.X ..          R12, since R9 is in use
//! %5:R2 = PACK %1, %3      R14:R15, with two moves
//! ```
//!
//! So the registers of elements that the block has not defined yet are *set aside* for them, unless the function would need more registers
//! for that. A value that dies before the element is defined may still take them.

use oriole_ir::{Block, Class, Function, Pseudo, RegFile, Value};
use rustc_hash::FxHashMap;

use crate::liveness::FileLiveness;
use crate::operands::part_in_file;
use crate::registers::{Reg, RegisterSet};

/// Maximum number of elements of tuples whose registers are kept free at the same time. Bounds the time to choose a register.
const MAX_SET_ASIDE_ELEMENTS: usize = 64;

/// A source of a `PACK` (which builds a tuple) that is defined in the same block: its value, its offset from the start of the tuple and its
/// width, in registers.
#[derive(Clone, Copy)]
struct TupleElement {
    value: Value,
    offset: u8,
    width: u8,
    /// Position of the instruction that defines the element.
    position: u32,
}

/// A `PACK` of the current block, which builds a tuple from elements.
#[derive(Clone)]
struct Pack {
    /// Register class of the tuple.
    class: Class,
    /// Those sources of the pack that are defined in the block.
    elements: Vec<TupleElement>,
    /// Whether an element of the tuple has registers already, which determine the registers of the whole tuple.
    has_window: bool,
}

/// Registers that are kept free for an element of a tuple until the element is defined.
#[derive(Clone)]
struct SetAsideRegisters {
    /// The value of the element.
    value: Value,
    /// The first register that is kept free.
    register: Reg,
    /// The number of registers that are kept free.
    width: u8,
    /// Position of the instruction that defines the element.
    position: u32,
}

/// The `PACK`s (instructions that build a tuple) of the current block, and the registers that are kept free for their elements.
#[derive(Clone, Default)]
pub(crate) struct PackWindows {
    /// The `PACK`s of the current block.
    packs: Vec<Pack>,
    /// For each element of a tuple: the index of its pack in `packs`, and the offset of the element from the start of the tuple in
    /// registers.
    pack_of: FxHashMap<Value, (usize, u8)>,
    /// The registers that are kept free for elements of tuples at the current position.
    set_aside: Vec<SetAsideRegisters>,
    /// For each value that the block defines, the position of its last use; `u32::MAX` if it lives beyond the block.
    last_uses: FxHashMap<Value, u32>,
}

impl PackWindows {
    /// Finds the packs (instructions that build a tuple) of general registers in a block, which has `length` instructions.
    pub fn enter_block(&mut self, function: &Function, liveness: &FileLiveness, block: Block, length: u32, file: RegFile) {
        self.packs.clear();
        self.pack_of.clear();
        self.set_aside.clear();
        self.last_uses.clear();
        let insts = liveness.file_insts_of(block);
        let is_pack = |inst| function.insts[inst].is(Pseudo::Pack) && function.insts[inst].guard.is_none();
        if file != RegFile::General || !insts.iter().any(|file_inst| is_pack(file_inst.inst)) {
            return;
        }
        let mut defined_at: FxHashMap<Value, u32> = FxHashMap::default();
        for &file_inst in insts {
            for read in liveness.reads(file_inst) {
                if let Some(last) = self.last_uses.get_mut(&read.value) {
                    *last = if read.next_use.is_after_block(length) { u32::MAX } else { file_inst.position };
                }
            }
            for write in liveness.writes(file_inst) {
                defined_at.insert(write.value, file_inst.position);
                self.last_uses.insert(write.value, if write.next_use.is_after_block(length) { u32::MAX } else { file_inst.position });
            }
            if is_pack(file_inst.inst) {
                self.add_pack(function, file_inst.inst, &defined_at, file);
            }
        }
    }

    /// Adds the pack `inst`, which builds a tuple; `defined_at` has the positions at which values of the block are defined. A value that is
    /// an element of two packs belongs to the first one.
    fn add_pack(&mut self, function: &Function, inst: oriole_ir::Inst, defined_at: &FxHashMap<Value, u32>, file: RegFile) {
        let Some(result) = function.results(inst)[0].value().filter(|&value| function.values[value].file == file) else { return };
        let number = self.packs.len();
        let mut elements = Vec::new();
        let mut offset = 0;
        for source in function.sources(inst) {
            let part = part_in_file(function, source, file);
            let width = part.map_or(1, |part| part.count);
            if let Some(part) = part.filter(|&part| part == function.whole(part.value))
                && let Some(&position) = defined_at.get(&part.value)
                && !self.pack_of.contains_key(&part.value)
            {
                self.pack_of.insert(part.value, (number, offset));
                elements.push(TupleElement { value: part.value, offset, width, position });
            }
            offset += width;
        }
        self.packs.push(Pack { class: function.values[result], elements, has_window: false });
    }

    /// Returns the registers that are kept free for elements of tuples which will be defined while `value` is live; `None` if there are
    /// none.
    pub fn registers_to_avoid(&self, value: Value) -> Option<RegisterSet> {
        if self.set_aside.is_empty() {
            return None;
        }
        let last_use = self.last_uses.get(&value).copied().unwrap_or(u32::MAX);
        let mut avoided = RegisterSet::EMPTY;
        for one in self.set_aside.iter().filter(|one| one.value != value && one.position < last_use) {
            avoided.insert(one.register, one.width);
        }
        (avoided != RegisterSet::EMPTY).then_some(avoided)
    }

    /// Returns the register class of the tuple that will contain `value`, and the offset of `value` in it in registers, if no element of
    /// the tuple has registers yet; otherwise `None`.
    pub fn tuple_to_place(&self, value: Value) -> Option<(Class, u8)> {
        let &(number, offset) = self.pack_of.get(&value)?;
        let pack = &self.packs[number];
        (!pack.has_window).then_some((pack.class, offset))
    }

    /// Records the first register of a value that is being defined. If the value is the first element of a tuple to get registers, the
    /// registers for the other elements are kept free from now on, as far as they are free.
    pub fn note_definition(&mut self, value: Value, register: Reg, free: &RegisterSet) {
        self.set_aside.retain(|one| one.value != value);
        let Some(&(number, offset)) = self.pack_of.get(&value) else { return };
        let pack = &mut self.packs[number];
        let Some(start) = register.checked_sub(offset).filter(|start| start.is_aligned(pack.class.align)) else { return };
        if std::mem::replace(&mut pack.has_window, true) {
            return;
        }
        for element in pack.elements.iter().filter(|element| element.value != value) {
            let place = start + element.offset;
            if free.has_all(place, element.width) && self.set_aside.len() < MAX_SET_ASIDE_ELEMENTS {
                self.set_aside.push(SetAsideRegisters {
                    value: element.value,
                    register: place,
                    width: element.width,
                    position: element.position,
                });
            }
        }
    }
}
