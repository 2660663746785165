//! A map from indices to lists of items, in two flat arrays (compressed sparse rows).

use std::fmt;
use std::marker::PhantomData;

use crate::Index;

/// A list of items for each index, for example the edges of a graph or the uses of a value. Built once, then read-only.
#[derive(Clone, PartialEq, Eq)]
pub struct Groups<I, T> {
    /// `items[starts[i]..starts[i + 1]]` belongs to index `i`.
    starts: Vec<u32>,
    items: Vec<T>,
    index: PhantomData<I>,
}

impl<I: Index, T: Copy> Groups<I, T> {
    /// Groups pairs by index (counting sort); the items of one index keep their order. `len` is the number of indices.
    pub fn collect(len: usize, pairs: &[(I, T)]) -> Self {
        // During the distribution, `starts[at + 1]` is the position of the next item of `at`; at the end that is where the items of `at +
        // 1` start.
        let mut starts = vec![0u32; len + 2];
        for (index, _) in pairs {
            starts[index.position() + 2] += 1;
        }
        for at in 2..len + 2 {
            starts[at] += starts[at - 1];
        }
        let mut items: Vec<T> = match pairs.first() {
            Some(&(_, any)) => vec![any; pairs.len()],
            None => Vec::new(),
        };
        for &(index, item) in pairs {
            let place = &mut starts[index.position() + 1];
            items[*place as usize] = item;
            *place += 1;
        }
        starts.truncate(len + 1);
        Groups { starts, items, index: PhantomData }
    }

    /// Returns the items of an index; empty for an index beyond the number given to `collect`.
    pub fn of(&self, index: I) -> &[T] {
        let at = index.position();
        match (self.starts.get(at), self.starts.get(at + 1)) {
            (Some(&start), Some(&end)) => &self.items[start as usize..end as usize],
            _ => &[],
        }
    }

    /// Returns all items, those of lower indices first.
    pub fn all(&self) -> &[T] {
        &self.items
    }
}

impl<I: Index, T: Copy + fmt::Debug> fmt::Debug for Groups<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries((0..self.starts.len() - 1).map(|at| (I::new(at), self.of(I::new(at))))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::define_index!(
        /// An index for the tests.
        pub struct NodeId,
        "n"
    );

    #[test]
    fn items_keep_their_order() {
        let node = NodeId::new;
        let groups = Groups::collect(3, &[(node(2), 'a'), (node(0), 'b'), (node(2), 'c')]);
        assert_eq!((groups.of(node(0)), groups.of(node(1)), groups.of(node(2))), (&['b'][..], &[][..], &['a', 'c'][..]));
        assert_eq!(groups.of(node(9)), &[] as &[char]);
    }
}
