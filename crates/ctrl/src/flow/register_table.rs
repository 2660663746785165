//! A table indexed by register, with elements for the registers that the code uses only.
//!
//! A function uses few of the possible registers. Lists for all of them would take several hundred kilobytes, and to initialize that memory
//! would take longer than the control words of a small kernel.

use std::ops::{Index, IndexMut};

use super::reg_access::{REGISTER_NUMBER_COUNT, Register};

/// An element for each register; registers whose element was never changed share a default element.
pub(super) struct RegisterTable<T> {
    /// For each register: the index of its element in `elements`. Index 0 is the default element.
    places: Vec<u16>,
    /// The default element, and those of the registers that have one.
    elements: Vec<T>,
}

impl<T: Default> RegisterTable<T> {
    /// Creates a table in which every register has the default element.
    pub(super) fn new() -> RegisterTable<T> {
        RegisterTable { places: vec![0; REGISTER_NUMBER_COUNT], elements: vec![T::default()] }
    }
}

impl<T> Index<Register> for RegisterTable<T> {
    type Output = T;

    #[inline]
    fn index(&self, register: Register) -> &T {
        &self.elements[usize::from(self.places[usize::from(register)])]
    }
}

impl<T: Default> IndexMut<Register> for RegisterTable<T> {
    #[inline]
    fn index_mut(&mut self, register: Register) -> &mut T {
        let place = &mut self.places[usize::from(register)];
        if *place == 0 {
            *place = self.elements.len() as u16;
            self.elements.push(T::default());
        }
        &mut self.elements[usize::from(*place)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_have_elements_of_their_own() {
        let mut table: RegisterTable<Vec<u8>> = RegisterTable::new();
        table[7].push(1);
        table[1023].push(2);
        table[7].push(3);
        assert_eq!((&table[7][..], &table[1023][..], &table[0][..]), (&[1, 3][..], &[2][..], &[][..]));
        table[7].clear();
        assert!(table[7].is_empty() && table[8].is_empty());
    }
}
