//! Sets of typed indices: one bit for each possible member, or a list that can be emptied at no cost.

use std::marker::PhantomData;

use crate::Index;

/// A set with one bit for each index that may be a member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BitSet<I> {
    words: Vec<u64>,
    index: PhantomData<I>,
}

impl<I: Index> BitSet<I> {
    /// An empty set of indices below a bound.
    pub fn new(bound: usize) -> Self {
        BitSet { words: vec![0; bound.div_ceil(64)], index: PhantomData }
    }

    /// Whether it has a member; indices beyond the bound are none.
    pub fn contains(&self, member: I) -> bool {
        let at = member.position();
        self.words.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// Adds a member; whether it is new. The bound grows if it must.
    pub fn insert(&mut self, member: I) -> bool {
        let (at, bit) = (member.position() / 64, 1 << (member.position() % 64));
        if at >= self.words.len() {
            self.words.resize(at + 1, 0);
        }
        let is_new = self.words[at] & bit == 0;
        self.words[at] |= bit;
        is_new
    }

    /// Takes a member out; whether it was there.
    pub fn remove(&mut self, member: I) -> bool {
        let (at, bit) = (member.position() / 64, 1 << (member.position() % 64));
        let Some(word) = self.words.get_mut(at) else { return false };
        let was_there = *word & bit != 0;
        *word &= !bit;
        was_there
    }

    /// Takes all members out.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Adds all members of another set; whether any is new.
    pub fn union_with(&mut self, other: &Self) -> bool {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        let mut grew = false;
        for (mine, theirs) in self.words.iter_mut().zip(&other.words) {
            grew |= theirs & !*mine != 0;
            *mine |= theirs;
        }
        grew
    }

    /// The number of members.
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// The members in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = I> + '_ {
        self.words.iter().enumerate().flat_map(|(at, &word)| {
            let rest = std::iter::successors(Some(word), |&bits| Some(bits & bits.wrapping_sub(1)));
            rest.take_while(|&bits| bits != 0).map(move |bits| I::new(at * 64 + bits.trailing_zeros() as usize))
        })
    }
}

/// A set as a list of its members and the place of each in it: adding, removing, asking and walking cost what is touched, and
/// emptying costs nothing, however many indices there are.
#[derive(Clone, Debug)]
pub struct SparseSet<I> {
    members: Vec<I>,
    places: Vec<u32>,
}

impl<I: Index> SparseSet<I> {
    /// An empty set of indices below a bound.
    pub fn new(bound: usize) -> Self {
        SparseSet { members: Vec::new(), places: vec![0; bound] }
    }

    /// Whether it has a member.
    pub fn contains(&self, member: I) -> bool {
        self.places.get(member.position()).is_some_and(|&place| self.members.get(place as usize) == Some(&member))
    }

    /// Adds a member; whether it is new. The bound grows if it must.
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

    /// Takes a member out; whether it was there. The last member takes its place in the order.
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

    /// Takes all members out.
    pub fn clear(&mut self) {
        self.members.clear();
    }

    /// The members in an order that depends only on what was added and removed.
    pub fn members(&self) -> &[I] {
        &self.members
    }

    /// The number of members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there is none.
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
