//! The register numbers and register groups that the scheduler gives to SSA values.
//!
//! All registers of a value of up to four registers are one register group. Each register of a wider value, such as the accumulator of a
//! matrix product, is a register group of its own, because its registers are often read, and become free, one after the other.

use std::ops::Range;

use oriole_ir::{Function, Part, Value};
use oriole_support::Index;

use super::{RegisterClass, RegisterGroup, SchedCode};

/// Maximum number of registers of a value whose registers share one live range (one register group). Each register of a wider value is a
/// group of its own.
const MAX_GROUP_REGISTERS: u8 = 4;

/// The numbers that the scheduler gives to SSA values: register numbers and, for each register, its register group.
#[derive(Clone, Debug)]
pub struct ValueNumbers {
    /// For each value, its lowest register number.
    first_registers: Vec<u32>,
    /// For each register number, the register group that it belongs to.
    groups_of_registers: Vec<u32>,
    /// All register groups (sets of registers with one live range), by index.
    groups: Vec<RegisterGroup>,
}

impl ValueNumbers {
    /// Assigns register numbers to all values of a function.
    pub fn new(function: &Function) -> ValueNumbers {
        let mut numbers = ValueNumbers {
            first_registers: Vec::with_capacity(function.values.len()),
            groups_of_registers: Vec::new(),
            groups: Vec::new(),
        };
        for class in function.values.iter() {
            numbers.first_registers.push(numbers.groups_of_registers.len() as u32);
            let (count, weight) = if class.width > MAX_GROUP_REGISTERS { (class.width, 1) } else { (1, class.width) };
            for _ in 0..count {
                numbers.groups_of_registers.extend((0..weight).map(|_| numbers.groups.len() as u32));
                numbers.groups.push(RegisterGroup { class: RegisterClass::of_file(class.file), weight });
            }
        }
        numbers
    }

    /// Returns the register numbers of a part of a value (some of its registers).
    pub(crate) fn registers(&self, part: Part) -> impl Iterator<Item = u32> + use<> {
        let first = self.first_registers[part.value.position()] + u32::from(part.first);
        first..first + u32::from(part.count)
    }

    /// Returns the register numbers of a whole value.
    pub(super) fn registers_of_value(&self, value: Value) -> Range<u32> {
        let first = self.first_registers[value.position()];
        let end = self.first_registers.get(value.position() + 1).copied().unwrap_or(self.groups_of_registers.len() as u32);
        first..end
    }

    /// Returns the index of the register group that a register number belongs to.
    pub(super) fn group_of(&self, register: u32) -> u32 {
        self.groups_of_registers[register as usize]
    }

    /// Returns the indices of the register groups of a whole value.
    pub(crate) fn groups_of_value(&self, value: Value) -> Range<u32> {
        let Range { start, end } = self.registers_of_value(value);
        self.groups_of_registers[start as usize]..self.groups_of_registers[end as usize - 1] + 1
    }

    /// Creates code without items whose registers have these numbers and register groups.
    pub fn empty(&self) -> SchedCode {
        SchedCode::new(self.groups_of_registers.len() as u32, self.groups.clone())
    }
}
