//! The registers of the values of one file at the current point of the walk, and the search for a window (aligned consecutive registers for
//! a tuple) that is cheap to clear.
//!
//! **Invariant:** a usable register is either in `free` or has an occupant; the occupant's registers are consecutive and start at its
//! `register_of`. A tuple has one entry in `register_of` and one occupant entry for each of its registers that has not been released:
//! a register that is not read again is free, or has another occupant, although the tuple stays live ([`RegisterFile::release_part`]).

use std::cmp::Reverse;

use oriole_ir::{Class, Function, Part, Value};
use oriole_support::IndexVec;

use crate::registers::{Reg, RegisterSet};

/// A value in registers, and its first register.
pub(crate) type ResidentValue = (Value, Reg);

/// Which value is in which register of one register file at the current point of the walk over the code.
#[derive(Clone)]
pub(crate) struct RegisterFile {
    /// Registers that the environment allows values to use.
    allowed: RegisterSet,
    /// Registers that values may use from the current point to the end of the block: `allowed`, except registers that a `KEEP` has pinned
    /// (bound to its operands).
    pub usable: RegisterSet,
    /// Usable registers that hold no value at the current point.
    pub free: RegisterSet,
    /// For each register: the value in it; `None` if it is free.
    occupant: [Option<Value>; 256],
    /// For each value: its first register at the current point; `None` if it is dropped, not defined yet, or dead.
    register_of: IndexVec<Value, Option<Reg>>,
    /// For each value: its width in registers.
    widths: IndexVec<Value, u8>,
}

impl RegisterFile {
    /// Creates the state for a register file without registers.
    pub fn new() -> RegisterFile {
        RegisterFile {
            allowed: RegisterSet::EMPTY,
            usable: RegisterSet::EMPTY,
            free: RegisterSet::EMPTY,
            occupant: [None; 256],
            register_of: IndexVec::new(),
            widths: IndexVec::new(),
        }
    }

    /// Resets the state for the next register file, whose values may use the registers in `allowed`. Vectors indexed by value are kept:
    /// each value belongs to one file, and no value is in registers between the allocation of two files.
    pub fn start_register_file(&mut self, function: &Function, allowed: RegisterSet) {
        self.allowed = allowed;
        self.register_of.resize(function.values.len(), None);
        for class in function.values.iter().skip(self.widths.len()) {
            self.widths.push(class.width);
        }
        self.clear();
    }

    /// Returns the registers that the environment allows values to use.
    pub fn allowed(&self) -> &RegisterSet {
        &self.allowed
    }

    /// Makes all allowed registers usable and free. The caller must have reset the registers of all values with
    /// [`RegisterFile::forget_register_state`].
    pub fn clear(&mut self) {
        self.usable = self.allowed;
        self.free = self.allowed;
        self.occupant.fill(None);
    }

    /// Removes registers from number `limit` on, because the code of the current block must not name them. No value may be in a register.
    pub fn limit_to(&mut self, limit: u32) {
        self.usable = self.usable.and(&RegisterSet::first_n(limit));
        self.free = self.free.and(&RegisterSet::first_n(limit));
    }

    /// Returns the first register of a value; `None` if the value is in no register.
    pub fn register_of(&self, value: Value) -> Option<Reg> {
        self.register_of[value]
    }

    /// Returns the value in a register; `None` if the register is free.
    pub fn occupant(&self, register: Reg) -> Option<Value> {
        self.occupant[usize::from(register.number())]
    }

    /// Marks free registers as occupied by a value, starting at `register`.
    pub fn occupy(&mut self, value: Value, register: Reg) {
        let width = self.widths[value];
        debug_assert!(self.free.has_all(register, width), "{value:?} to occupied {register:?}+{width}");
        self.free.remove(register, width);
        self.set_occupant(register, width, Some(value));
        self.register_of[value] = Some(register);
    }

    /// Marks the registers of a value as free, if it is in registers. Returns the first of them.
    pub fn vacate(&mut self, value: Value) -> Option<Reg> {
        let register = self.register_of[value].take()?;
        let width = self.widths[value];
        for one in register.tuple(width) {
            if self.occupant(one) == Some(value) {
                self.free.insert(one, 1);
                self.set_occupant(one, 1, None);
            }
        }
        Some(register)
    }

    /// Returns the registers that a value occupies, without those of its parts that have been released; none if it is in no register.
    pub fn occupied_by(&self, value: Value) -> RegisterSet {
        let mut set = RegisterSet::EMPTY;
        if let Some(first) = self.register_of[value] {
            first.tuple(self.widths[value]).filter(|&one| self.occupant(one) == Some(value)).for_each(|one| set.insert(one, 1));
        }
        set
    }

    /// Returns the first register of a part of a tuple; `None` if the tuple is in no register or the part has been released.
    pub fn register_of_part(&self, part: Part) -> Option<Reg> {
        let register = self.register_of[part.value]? + part.first;
        (self.occupant(register) == Some(part.value)).then_some(register)
    }

    /// Frees the register of one part of a tuple, because the part is not read any more. Other parts of the tuple are still live.
    pub fn release_part(&mut self, part: Part) {
        if let Some(register) = self.register_of_part(part) {
            self.free.insert(register, 1);
            self.set_occupant(register, 1, None);
        }
    }

    /// Sets the occupant of `width` registers starting at `register`.
    fn set_occupant(&mut self, register: Reg, width: u8, occupant: Option<Value>) {
        let first = usize::from(register.number());
        match width {
            1 => self.occupant[first] = occupant,
            _ => self.occupant[first..first + usize::from(width)].fill(occupant),
        }
    }

    /// Removes registers from `usable`, so that no other value gets them until the block ends.
    pub fn pin_registers(&mut self, registers: &RegisterSet) {
        self.usable = self.usable.without(registers);
        self.free = self.free.without(registers);
    }

    /// Sets the first register of each value of `state`, the values in registers at the start or end of a block. Does not mark the
    /// registers as occupied.
    pub fn restore_register_state(&mut self, state: &[ResidentValue]) {
        for &(value, register) in state {
            self.register_of[value] = Some(register);
        }
    }

    /// Records that the values of `state` are in no register. Does not mark their registers as free.
    pub fn forget_register_state(&mut self, state: &[ResidentValue]) {
        for &(value, _) in state {
            self.register_of[value] = None;
        }
    }

    /// Appends all values that are in registers to `found`, with their first registers, in ascending order of registers.
    pub fn append_resident_values(&self, found: &mut Vec<ResidentValue>) {
        let occupied = self.usable.without(&self.free);
        found.reserve(occupied.count() as usize);
        occupied.for_each(|register| {
            // A tuple is listed once, at its first register.
            if let Some(value) = self.occupant(register)
                && self.register_of[value] == Some(register)
            {
                found.push((value, register));
            }
        });
    }

    /// Returns the registers that the values of `state` occupy; `state` has values with their first registers.
    pub fn registers_occupied_in_state(&self, state: &[ResidentValue]) -> RegisterSet {
        let mut set = RegisterSet::EMPTY;
        state.iter().for_each(|&(value, register)| set.insert(register, self.widths[value]));
        set
    }

    /// Returns the values that occupy at least one register of a set, widest first: wide values are harder to place, so callers place them
    /// first.
    pub fn values_in_registers(&self, set: &RegisterSet) -> Vec<Value> {
        let mut found: Vec<Value> = Vec::new();
        for value in set.iter().filter_map(|register| self.occupant(register)) {
            if !found.contains(&value) {
                found.push(value);
            }
        }
        found.sort_by_key(|&value| (Reverse(self.widths[value]), value));
        found
    }

    /// Returns the values that occupy any of the `width` registers starting at `first`, each once.
    pub fn values_in_window(&self, first: Reg, width: u8) -> ValuesInWindow<'_> {
        let start = usize::from(first.number());
        ValuesInWindow { occupants: self.occupant[start..start + usize::from(width)].iter(), last: None }
    }

    /// Returns the aligned window (consecutive registers) for a value of `class`, within a set of registers, that is cheapest to clear; the
    /// lowest one among equals. `cost` returns the cost of clearing a window that holds the given values, or `None` if it must not be
    /// cleared.
    pub fn cheapest_window(
        &self,
        class: Class,
        within: &RegisterSet,
        cost: impl Fn(ValuesInWindow<'_>) -> Option<u64>,
    ) -> Option<RegisterWindow> {
        let mut best: Option<RegisterWindow> = None;
        for first in within.gap_starts(class).iter() {
            let found = cost(self.values_in_window(first, class.width));
            if let Some(cost) = found.filter(|&cost| best.is_none_or(|best| cost < best.cost)) {
                best = Some(RegisterWindow { first, cost });
            }
        }
        best
    }
}

/// A window of consecutive registers that [`RegisterFile::cheapest_window`] found.
#[derive(Clone, Copy)]
pub(crate) struct RegisterWindow {
    /// The first register of the window.
    pub first: Reg,
    /// The cost of clearing the window, as computed by the caller.
    pub cost: u64,
}

/// An iterator over the values in a window of registers, each once. A tuple occupies neighbouring registers, so comparing with the
/// previous register is enough. Only a tuple with a released register between two others may be returned twice.
pub(crate) struct ValuesInWindow<'a> {
    /// The occupants of the registers of the window that are not visited yet.
    occupants: std::slice::Iter<'a, Option<Value>>,
    /// The value that the iterator returned last; `None` before the first one.
    last: Option<Value>,
}

impl Iterator for ValuesInWindow<'_> {
    type Item = Value;

    fn next(&mut self) -> Option<Value> {
        for &occupant in self.occupants.by_ref() {
            if std::mem::replace(&mut self.last, occupant) != occupant && occupant.is_some() {
                return occupant;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use oriole_ir::text::parse;
    use oriole_ir::{Class, Value};
    use oriole_support::Index;

    use super::RegisterFile;
    use crate::registers::{Reg, RegisterSet};

    /// Returns a register file with usable registers R4 to R11, and its values: a pair in R4:R5, single registers in R6 and R9.
    fn occupied() -> (RegisterFile, [Value; 3]) {
        let text = "func kernel @window ssa {\nbb0:\n    %0:R2@R4, %1:R@R6, %2:R@R9 = ENTRY\n    EXIT\n}";
        let function = parse(text).unwrap().remove(0);
        let values = [0, 1, 2].map(Value::new);
        let mut usable = RegisterSet::EMPTY;
        usable.insert(Reg::new(4), 8);
        let mut registers = RegisterFile::new();
        registers.start_register_file(&function, usable);
        values.iter().zip([4, 6, 9]).for_each(|(&value, first)| registers.occupy(value, Reg::new(first)));
        (registers, values)
    }

    #[test]
    fn the_cost_of_a_window_counts_each_value_once() {
        let (registers, values) = occupied();
        let within = registers.usable;
        let number = |class, forbidden: Option<Value>| {
            let found = registers.cheapest_window(class, &within, |mut found| {
                found.try_fold(0, |cost, value| (Some(value) != forbidden).then_some(cost + 1))
            });
            found.map(|window| (window.first.number(), window.cost))
        };
        assert_eq!(number(Class::R2, None), Some((10, 0)), "R10:R11 is free");
        assert_eq!(number(Class::R4, None), Some((8, 1)), "R4:R7 holds a pair and a single register");
        assert_eq!(number(Class::R4, Some(values[2])), Some((4, 2)), "R8:R11 holds a value that may not move");
        assert_eq!(number(Class { width: 8, ..Class::R4 }, Some(values[0])), None, "the only window holds it");
    }

    #[test]
    fn vacating_a_tuple_frees_all_its_registers() {
        let (mut registers, [pair, ..]) = occupied();
        assert_eq!(registers.vacate(pair), Some(Reg::new(4)));
        assert_eq!(registers.vacate(pair), None, "it is in no register any more");
        assert!(registers.free.has_all(Reg::new(4), 2));
        assert_eq!((registers.occupant(Reg::new(4)), registers.occupant(Reg::new(5))), (None, None));
    }
}
