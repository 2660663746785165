//! Asynchronous accesses to shared memory: copies and matrix products that may still read or write it, and stores that the asynchronous
//! proxy does not see yet.
//!
//! For each byte the detector counts the asynchronous operations in flight. Until its end (a test of its barrier, or a wait for its group) an
//! operation conflicts with every other access to its bytes, unless both read. Bulk copies and matrix products read through the asynchronous
//! proxy. It sees the store of a thread only after `fence.proxy.async` by that thread, or by a thread that the store happens before.
//!
//! ```text
//! st.shared [tile]; bar.sync; cp.async.bulk [out], [tile]         the copy may not see the store: no fence.proxy.async
//! cp.async.bulk [tile], [in], [gate]; ld.shared [tile]            the load may come before the copy
//! cp.async.bulk [out], [tile]; commit_group; st.shared [tile]     the copy may read the new contents
//! ```

use super::Races;

/// The asynchronous accesses to one byte.
#[derive(Clone, Copy, Default)]
struct AsyncByte {
    /// Number of operations in flight that write the byte.
    writes: u16,
    /// Number of operations in flight that read the byte.
    reads: u16,
    /// Whether the last store to the byte is not visible to the asynchronous proxy.
    is_unfenced: bool,
    /// Line of the last operation that was issued.
    line: u32,
}

/// The asynchronous accesses to the shared memory of a cluster.
pub(crate) struct AsyncAccesses {
    bytes: Vec<AsyncByte>,
    /// Stores that the asynchronous proxy does not see yet: first byte and number of bytes.
    unfenced: Vec<(usize, usize)>,
}

/// An operation in flight that an access conflicts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AsyncConflict {
    /// Line of the operation.
    pub(crate) line: u32,
    /// Whether the operation writes the byte.
    pub(crate) is_write: bool,
    /// Address of the byte in the shared memory of its block.
    pub(crate) address: usize,
}

impl AsyncAccesses {
    /// Makes a detector for some bytes of shared memory.
    pub(crate) fn new(bytes: usize) -> AsyncAccesses {
        AsyncAccesses { bytes: vec![AsyncByte::default(); bytes], unfenced: Vec::new() }
    }
}

impl Races {
    /// Returns the positions of bytes of the block with a rank; `None` if they are outside of its memory.
    fn positions(&self, rank: u32, start: usize, bytes: usize) -> Option<std::ops::Range<usize>> {
        let first = rank as usize * self.block_bytes + start;
        (start + bytes <= self.block_bytes && first + bytes <= self.bytes.len()).then(|| first..first + bytes)
    }

    /// Records the start of an asynchronous access.
    pub(crate) fn begin_async(&mut self, rank: u32, start: usize, bytes: usize, is_write: bool, line: u32) {
        let Some(range) = self.positions(rank, start, bytes) else { return };
        for byte in self.asynchronous.iter_mut().flat_map(|all| &mut all.bytes[range.clone()]) {
            let count = if is_write { &mut byte.writes } else { &mut byte.reads };
            *count = count.saturating_add(1);
            byte.line = line;
            byte.is_unfenced &= !is_write;
        }
    }

    /// Records the end of an asynchronous access.
    pub(crate) fn end_async(&mut self, rank: u32, start: usize, bytes: usize, is_write: bool) {
        let Some(range) = self.positions(rank, start, bytes) else { return };
        for byte in self.asynchronous.iter_mut().flat_map(|all| &mut all.bytes[range.clone()]) {
            let count = if is_write { &mut byte.writes } else { &mut byte.reads };
            *count = count.saturating_sub(1);
        }
    }

    /// Returns an operation in flight that an access to some bytes conflicts with.
    pub(crate) fn async_conflict(&self, rank: u32, start: usize, bytes: usize, is_write: bool) -> Option<AsyncConflict> {
        let range = self.positions(rank, start, bytes)?;
        let found = self.asynchronous.as_ref()?.bytes[range].iter().position(|byte| byte.writes > 0 || is_write && byte.reads > 0)?;
        let byte = self.asynchronous.as_ref()?.bytes[rank as usize * self.block_bytes + start + found];
        Some(AsyncConflict { line: byte.line, is_write: byte.writes > 0, address: start + found })
    }

    /// Records a store or atomic operation of a thread, which the asynchronous proxy does not see before a fence.
    pub(crate) fn note_store(&mut self, rank: u32, start: usize, bytes: usize) {
        let Some(range) = self.positions(rank, start, bytes) else { return };
        let Some(all) = &mut self.asynchronous else { return };
        if all.bytes[range.clone()].iter().all(|byte| byte.is_unfenced) {
            return;
        }
        all.bytes[range.clone()].iter_mut().for_each(|byte| byte.is_unfenced = true);
        all.unfenced.push((range.start, bytes));
    }

    /// Returns the address of a byte whose last store the asynchronous proxy does not see, and the line of that store.
    pub(crate) fn unfenced_store(&self, rank: u32, start: usize, bytes: usize) -> Option<(usize, u32)> {
        let range = self.positions(rank, start, bytes)?;
        let found = self.asynchronous.as_ref()?.bytes[range.clone()].iter().position(|byte| byte.is_unfenced)?;
        let line = self.bytes[range.start + found].write.map_or(0, |write| write.line);
        Some((start + found, line))
    }

    /// Records `fence.proxy.async` of a thread: the asynchronous proxy sees the stores of the thread, and those that happen before the fence.
    pub(crate) fn fence_async(&mut self, thread: u32) {
        let thread = thread + self.first;
        let Some(mut all) = self.asynchronous.take() else { return };
        let mut later = Vec::new();
        for &(start, bytes) in &all.unfenced {
            let is_seen = |address: usize| self.bytes[address].write.as_ref().is_none_or(|write| self.is_before(write, thread));
            for address in start..start + bytes {
                all.bytes[address].is_unfenced &= !is_seen(address);
            }
            if all.bytes[start..start + bytes].iter().any(|byte| byte.is_unfenced) {
                later.push((start, bytes));
            }
        }
        all.unfenced = later;
        self.asynchronous = Some(all);
    }

    /// Returns the line of a store of another thread to a byte that is not ordered before a read of a thread.
    pub(crate) fn unordered_write(&self, rank: u32, address: usize, thread: u32) -> Option<u32> {
        let position = self.positions(rank, address, 1)?.start;
        let write = self.bytes[position].write.as_ref()?;
        (!self.is_before(write, thread + self.first)).then_some(write.line)
    }

    /// Orders everything before the issue of an operation, and the operation, before the reads of a location that acquire: a barrier in
    /// shared memory that the operation signals. `issuer` counts the threads of all blocks.
    pub(crate) fn complete_async(&mut self, issuer: u32, location: u64) {
        let first = std::mem::replace(&mut self.first, 0);
        self.strong_write(issuer, location, true);
        self.first = first;
    }
}

#[cfg(test)]
mod tests {
    use super::super::SharedAccess;
    use super::*;

    fn races() -> Races {
        let mut races = Races::new(2, 4, 64);
        races.asynchronous = Some(AsyncAccesses::new(128));
        races
    }

    #[test]
    fn accesses_conflict_until_the_operation_ends() {
        let mut races = races();
        races.begin_async(1, 16, 16, true, 7);
        assert_eq!(races.async_conflict(0, 16, 16, true), None, "another block");
        assert_eq!(races.async_conflict(1, 0, 16, true), None, "before the bytes");
        assert_eq!(races.async_conflict(1, 12, 8, false), Some(AsyncConflict { line: 7, is_write: true, address: 16 }));
        races.end_async(1, 16, 16, true);
        races.begin_async(1, 16, 16, false, 8);
        assert_eq!(races.async_conflict(1, 16, 4, false), None, "both read");
        assert_eq!(races.async_conflict(1, 16, 4, true), Some(AsyncConflict { line: 8, is_write: false, address: 16 }));
    }

    #[test]
    fn a_fence_makes_stores_visible_that_happen_before_it() {
        let mut races = races();
        let store = |races: &mut Races, thread: u32, start: usize| {
            races.access(0, start, 4, SharedAccess { thread, line: 3, strong: false, is_write: true }, true);
            races.note_store(0, start, 4);
        };
        store(&mut races, 0, 0);
        store(&mut races, 1, 4);
        races.fence_async(0);
        assert_eq!(races.unfenced_store(0, 0, 4), None, "its own store");
        assert_eq!(races.unfenced_store(0, 0, 8), Some((4, 3)), "the store of the other thread is not ordered before the fence");
        races.full_barrier();
        races.fence_async(0);
        assert_eq!(races.unfenced_store(0, 0, 8), None);
    }
}
