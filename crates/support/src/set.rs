//! Sets of typed indices: a bit set, and a sparse set that can be cleared in constant time.

use std::marker::PhantomData;

use crate::Index;

/// A set with one bit for each possible member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BitSet<I> {
    words: Vec<u64>,
    index: PhantomData<I>,
}

impl<I: Index> BitSet<I> {
    /// Creates an empty set of indices below a bound.
    pub fn new(bound: usize) -> Self {
        BitSet { words: vec![0; bound.div_ceil(64)], index: PhantomData }
    }

    /// Returns whether an index is a member; indices beyond the bound are not.
    pub fn contains(&self, member: I) -> bool {
        let at = member.position();
        self.words.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// Adds a member; returns whether it is new. The bound grows if necessary.
    pub fn insert(&mut self, member: I) -> bool {
        let (at, bit) = (member.position() / 64, 1 << (member.position() % 64));
        if at >= self.words.len() {
            self.words.resize(at + 1, 0);
        }
        let is_new = self.words[at] & bit == 0;
        self.words[at] |= bit;
        is_new
    }

    /// Removes a member; returns whether it was a member.
    pub fn remove(&mut self, member: I) -> bool {
        let (at, bit) = (member.position() / 64, 1 << (member.position() % 64));
        let Some(word) = self.words.get_mut(at) else { return false };
        let was_there = *word & bit != 0;
        *word &= !bit;
        was_there
    }

    /// Removes all members.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Returns the number of members.
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// Returns the members in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = I> + '_ {
        self.words.iter().enumerate().flat_map(|(at, &word)| {
            let rest = std::iter::successors(Some(word), |&bits| Some(bits & bits.wrapping_sub(1)));
            rest.take_while(|&bits| bits != 0).map(move |bits| I::new(at * 64 + bits.trailing_zeros() as usize))
        })
    }
}

/// A sparse set (Briggs and Torczon 1993): a list of the members, and the position of each possible member in the list. Adding, removing,
/// testing and clearing take constant time; iteration takes time proportional to the number of members.
#[derive(Clone, Debug)]
pub struct SparseSet<I> {
    members: Vec<I>,
    /// The position of each index in `members`; meaningless unless `members` contains the index there.
    places: Vec<u32>,
}

impl<I: Index> SparseSet<I> {
    /// Creates an empty set of indices below a bound.
    pub fn new(bound: usize) -> Self {
        SparseSet { members: Vec::new(), places: vec![0; bound] }
    }

    /// Returns whether an index is a member.
    pub fn contains(&self, member: I) -> bool {
        self.places.get(member.position()).is_some_and(|&place| self.members.get(place as usize) == Some(&member))
    }

    /// Adds a member; returns whether it is new. The bound grows if necessary.
    pub fn insert(&mut self, member: I) -> bool {
        if self.contains(member) {
            return false;
        }
        if member.position() >= self.places.len() {
            self.places.resize(member.position() + 1, 0);
        }
        self.places[member.position()] = self.members.len() as u32;
        self.members.push(member);
        true
    }

    /// Removes a member; returns whether it was a member. The last member of the list takes its position.
    pub fn remove(&mut self, member: I) -> bool {
        if !self.contains(member) {
            return false;
        }
        let place = self.places[member.position()];
        self.members.swap_remove(place as usize);
        if let Some(&moved) = self.members.get(place as usize) {
            self.places[moved.position()] = place;
        }
        true
    }

    /// Removes all members, in constant time.
    pub fn clear(&mut self) {
        self.members.clear();
    }

    /// Returns the members in an order that depends only on the sequence of additions and removals.
    pub fn members(&self) -> &[I] {
        &self.members
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::define_index!(
        /// An index for the tests.
        pub struct ThingId,
        "t"
    );

    #[test]
    fn both_sets_agree_with_a_plain_one() {
        let mut plain = std::collections::BTreeSet::new();
        let mut bits = BitSet::new(10);
        let mut sparse = SparseSet::new(10);
        let mut state = 1u32;
        for _ in 0..2000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let thing = ThingId::new((state >> 8) as usize % 200);
            if state >> 30 == 0 {
                let removed = plain.remove(&thing);
                assert_eq!((bits.remove(thing), sparse.remove(thing)), (removed, removed));
            } else {
                let added = plain.insert(thing);
                assert_eq!((bits.insert(thing), sparse.insert(thing)), (added, added));
            }
        }
        assert!(bits.iter().eq(plain.iter().copied()));
        assert_eq!((bits.count(), sparse.len()), (plain.len(), plain.len()));
        let mut members = sparse.members().to_vec();
        members.sort_unstable();
        assert!(members.into_iter().eq(plain));
        sparse.clear();
        assert!(!sparse.contains(ThingId::new(3)) && sparse.is_empty());
    }
}
