//! A list of items for each block. All lists are stored in one vector, which saves an allocation for each block.

use std::ops::Range;

use oriole_ir::Block;
use oriole_support::IndexVec;

/// The range that the items of one list occupy in a vector of several lists.
#[derive(Clone, Copy, Default)]
pub(crate) struct ListRange {
    /// Index of the first item.
    start: u32,
    /// Index after the last item.
    end: u32,
}

impl ListRange {
    /// Creates the range from index `start` to index `end`, exclusive.
    pub fn new(start: usize, end: usize) -> ListRange {
        ListRange { start: start as u32, end: end as u32 }
    }

    /// Returns the indices as a standard range.
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Returns whether the range is empty.
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }
}

/// A list of items for each block. Each list is filled once, by [`BlockLists::fill`].
#[derive(Clone)]
pub(crate) struct BlockLists<T> {
    /// The items of all lists.
    items: Vec<T>,
    /// For each block: the range of its items in `items`.
    ranges: IndexVec<Block, ListRange>,
}

impl<T> Default for BlockLists<T> {
    fn default() -> BlockLists<T> {
        BlockLists { items: Vec::new(), ranges: IndexVec::new() }
    }
}

impl<T> BlockLists<T> {
    /// Makes the lists of all blocks empty; `blocks` is the number of blocks.
    pub fn reset(&mut self, blocks: usize) {
        self.items.clear();
        self.ranges.clear();
        self.ranges.resize(blocks, ListRange::default());
    }

    /// Sets the list of a block to the items that `append` appends to the vector it is given.
    pub fn fill(&mut self, block: Block, append: impl FnOnce(&mut Vec<T>)) {
        let start = self.items.len();
        append(&mut self.items);
        self.ranges[block] = ListRange::new(start, self.items.len());
    }

    /// Returns the list of a block.
    pub fn get(&self, block: Block) -> &[T] {
        &self.items[self.ranges[block].range()]
    }

    /// Returns the items of all lists, in the order in which the lists were filled.
    pub fn all_items(&self) -> &[T] {
        &self.items
    }
}
