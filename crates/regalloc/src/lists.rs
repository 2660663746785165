//! A list of items for each block, with all lists in one vector: no allocation for each block.

use std::ops::Range;

use oriole_ir::Block;
use oriole_support::IndexVec;

/// A range of positions in a vector.
#[derive(Clone, Copy, Default)]
pub(crate) struct ListRange {
    start: u32,
    end: u32,
}

impl ListRange {
    /// Returns the span from one position to another, exclusive.
    pub fn new(start: usize, end: usize) -> ListRange {
        ListRange { start: start as u32, end: end as u32 }
    }

    /// Returns the positions.
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Returns whether the span has no positions.
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }
}

/// A list of items for each block. Each list is made once, by [`Lists::add`].
pub(crate) struct Lists<T> {
    items: Vec<T>,
    spans: IndexVec<Block, ListRange>,
}

impl<T> Default for Lists<T> {
    fn default() -> Lists<T> {
        Lists { items: Vec::new(), spans: IndexVec::new() }
    }
}

impl<T> Lists<T> {
    /// Makes the lists of all blocks empty; `blocks` is the number of blocks.
    pub fn reset(&mut self, blocks: usize) {
        self.items.clear();
        self.spans.clear();
        self.spans.resize(blocks, ListRange::default());
    }

    /// Makes the list of a block of the items that `fill` appends to its argument.
    pub fn add(&mut self, block: Block, fill: impl FnOnce(&mut Vec<T>)) {
        let start = self.items.len();
        fill(&mut self.items);
        self.spans[block] = ListRange::new(start, self.items.len());
    }

    /// Returns the list of a block.
    pub fn of(&self, block: Block) -> &[T] {
        &self.items[self.spans[block].range()]
    }

    /// Returns the items of all lists.
    pub fn all(&self) -> &[T] {
        &self.items
    }
}
