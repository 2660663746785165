//! Typed indices and the vectors they index.

use std::fmt;
use std::marker::PhantomData;
use std::ops;

/// A typed 32-bit index. Implemented by [`define_index!`](crate::define_index).
pub trait Index: Copy + Eq + Ord + fmt::Debug {
    /// Returns the index of a position. Panics above `u32::MAX`, which callers exclude by limiting their input.
    fn new(position: usize) -> Self;
    /// Returns the position.
    fn position(self) -> usize;
}

/// Defines a typed index: `define_index!(/// doc pub struct RegId, "r");`. The string prefixes its debug form.
#[macro_export]
macro_rules! define_index {
    ($(#[$meta:meta])* pub struct $name:ident, $prefix:literal) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl $crate::Index for $name {
            #[inline]
            fn new(position: usize) -> Self {
                $name(u32::try_from(position).expect("more than 2^32 entities of one kind"))
            }
            #[inline]
            fn position(self) -> usize {
                self.0 as usize
            }
        }

        impl ::std::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

/// A vector indexed by one kind of typed index.
#[derive(Clone, PartialEq, Eq)]
pub struct IndexVec<I, T> {
    items: Vec<T>,
    index: PhantomData<I>,
}

impl<I: Index, T> IndexVec<I, T> {
    /// Creates an empty vector.
    pub const fn new() -> Self {
        IndexVec { items: Vec::new(), index: PhantomData }
    }

    /// Creates a vector of `len` copies of an item.
    pub fn filled(len: usize, item: T) -> Self
    where
        T: Clone,
    {
        IndexVec { items: vec![item; len], index: PhantomData }
    }

    /// Appends an item and returns its index.
    pub fn push(&mut self, item: T) -> I {
        let index = I::new(self.items.len());
        self.items.push(item);
        index
    }

    /// Reserves memory for `additional` more items.
    pub fn reserve(&mut self, additional: usize) {
        self.items.reserve(additional);
    }

    /// Changes the number of items to `len`; new items are copies of `item`.
    pub fn resize(&mut self, len: usize, item: T)
    where
        T: Clone,
    {
        self.items.resize(len, item);
    }

    /// Removes all items; the capacity stays.
    pub fn clear(&mut self) {
        self.items.clear();
    }

    /// Returns the index that the next [`push`](Self::push) will return.
    pub fn next_index(&self) -> I {
        I::new(self.items.len())
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns the item at an index, if there is one.
    pub fn get(&self, index: I) -> Option<&T> {
        self.items.get(index.position())
    }

    /// Returns all items in order.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.items.iter()
    }

    /// Returns all items in order, for modification.
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.items.iter_mut()
    }

    /// Returns all indices in order.
    pub fn indices(&self) -> impl DoubleEndedIterator<Item = I> + use<I, T> {
        (0..self.items.len()).map(I::new)
    }

    /// Returns all items in order, with their indices.
    pub fn iter_enumerated(&self) -> impl Iterator<Item = (I, &T)> {
        self.items.iter().enumerate().map(|(position, item)| (I::new(position), item))
    }

    /// Returns all items as a slice.
    pub fn as_slice(&self) -> &[T] {
        &self.items
    }

    /// Returns all items as a vector.
    pub fn into_vec(self) -> Vec<T> {
        self.items
    }

    /// Releases unused capacity.
    pub fn shrink_to_fit(&mut self) {
        self.items.shrink_to_fit();
    }
}

impl<I: Index, T> Default for IndexVec<I, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<I: Index, T: fmt::Debug> fmt::Debug for IndexVec<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter_enumerated()).finish()
    }
}

impl<I: Index, T> ops::Index<I> for IndexVec<I, T> {
    type Output = T;
    fn index(&self, index: I) -> &T {
        &self.items[index.position()]
    }
}

impl<I: Index, T> ops::IndexMut<I> for IndexVec<I, T> {
    fn index_mut(&mut self, index: I) -> &mut T {
        &mut self.items[index.position()]
    }
}

impl<'a, I: Index, T> IntoIterator for &'a IndexVec<I, T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.items.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    define_index!(
        /// An index for the tests.
        pub struct ThingId,
        "thing"
    );

    #[test]
    fn indices_are_dense_and_print_with_their_prefix() {
        let mut things: IndexVec<ThingId, &str> = IndexVec::new();
        assert!(things.is_empty());
        let a = things.push("a");
        let b = things.push("b");
        assert_eq!((things[a], things[b], things.len()), ("a", "b", 2));
        assert_eq!(format!("{b:?}"), "thing1");
        assert_eq!(things.next_index(), ThingId::new(2));
        assert_eq!(things.get(ThingId::new(7)), None);
    }
}
