//! Simulated global memory: separate allocations with unmapped addresses between them.
//!
//! An access that is not inside one allocation, or not aligned to its size, is an [`AccessFault`], as on a GPU. Allocations start at multiples of
//! 64 KiB and are at least 64 KiB apart, so that an index slightly out of bounds never hits another allocation.

use oriole_kernel_test::Sampler;

use crate::image::DeviceImage;

/// Address of the first allocation; far from the windows of shared and local memory.
const FIRST_ADDRESS: u64 = 0x7f00_0000_0000;
/// Alignment of allocations and minimum distance between them, in bytes.
const SPACING: u64 = 0x1_0000;

/// Global memory of the simulated device.
#[derive(Clone, Debug, Default)]
pub struct GlobalMemory {
    /// Sorted by address.
    allocations: Vec<MemoryRange>,
    /// Address of the next allocation.
    next: u64,
    /// Bytes allocated by the running program (`malloc`).
    heap_bytes: u64,
    /// The textures and surfaces, by number.
    pub(crate) images: Vec<DeviceImage>,
    /// The samplers, by number: those of the images, and separate ones.
    pub(crate) samplers: Vec<Sampler>,
    /// The texture, sampler and surface references that are bound: name and handle.
    pub(crate) references: Vec<(String, u64)>,
}

/// A contiguous range of global memory.
#[derive(Clone, Debug)]
struct MemoryRange {
    base: u64,
    name: String,
    bytes: Vec<u8>,
}

/// An invalid access: outside all allocations, or not aligned to its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessFault {
    pub address: u64,
    pub bytes: usize,
    pub kind: FaultKind,
    /// Name of the nearest allocation below the address, and the offset of the access in bytes from its start; `None` if there is no such
    /// allocation.
    pub near: Option<(String, u64)>,
}

/// The reason an access is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    OutOfBounds,
    Misaligned,
}

impl GlobalMemory {
    pub fn new() -> Self {
        GlobalMemory {
            allocations: Vec::new(),
            next: FIRST_ADDRESS,
            heap_bytes: 0,
            images: Vec::new(),
            samplers: Vec::new(),
            references: Vec::new(),
        }
    }

    /// Makes an allocation with these contents and returns its address.
    pub fn allocate(&mut self, name: &str, bytes: Vec<u8>) -> u64 {
        let base = self.next;
        self.next = (base + bytes.len() as u64 + SPACING).next_multiple_of(SPACING);
        self.allocations.push(MemoryRange { base, name: name.to_owned(), bytes });
        base
    }

    /// Allocates memory for the running program and returns its address, or `None` if the heap would exceed `limit` bytes. Freed memory is
    /// not reused.
    pub(crate) fn allocate_heap(&mut self, bytes: u64, limit: u64, fill: u8) -> Option<u64> {
        let left = limit.saturating_sub(self.heap_bytes);
        let size = usize::try_from(bytes).ok().filter(|_| bytes <= left)?;
        self.heap_bytes += bytes;
        Some(self.allocate("heap", vec![fill; size]))
    }

    /// Makes an allocation at a fixed address unless there already is one; keeps the contents of an existing one.
    pub fn place(&mut self, name: &str, base: u64, bytes: &[u8]) {
        let at = self.allocations.partition_point(|allocation| allocation.base < base);
        if self.allocations.get(at).is_none_or(|allocation| allocation.base != base) {
            self.allocations.insert(at, MemoryRange { base, name: name.to_owned(), bytes: bytes.to_vec() });
        }
    }

    /// Returns the bytes of a read access.
    pub fn read(&self, address: u64, bytes: usize) -> Result<&[u8], AccessFault> {
        let (index, offset) = self.locate(address, bytes)?;
        Ok(&self.allocations[index].bytes[offset..offset + bytes])
    }

    /// Returns the bytes of a write access.
    pub fn write(&mut self, address: u64, bytes: usize) -> Result<&mut [u8], AccessFault> {
        let (index, offset) = self.locate(address, bytes)?;
        Ok(&mut self.allocations[index].bytes[offset..offset + bytes])
    }

    /// Returns all bytes of the allocation that starts at `base`.
    pub fn contents(&self, base: u64) -> Option<&[u8]> {
        let index = self.allocations.binary_search_by_key(&base, |allocation| allocation.base).ok()?;
        Some(&self.allocations[index].bytes)
    }

    /// Returns the total size of all allocations in bytes.
    pub fn total_bytes(&self) -> u64 {
        self.allocations.iter().map(|allocation| allocation.bytes.len() as u64).sum()
    }

    /// Returns the index of the allocation that contains the access, and the offset in it. Only sizes that are powers of two must be
    /// aligned.
    fn locate(&self, address: u64, bytes: usize) -> Result<(usize, usize), AccessFault> {
        let above = self.allocations.partition_point(|allocation| allocation.base <= address);
        let fault = |kind, near| AccessFault { address, bytes, kind, near };
        let Some(index) = above.checked_sub(1) else { return Err(fault(FaultKind::OutOfBounds, None)) };
        let allocation = &self.allocations[index];
        let offset = address - allocation.base;
        let near = || Some((allocation.name.clone(), offset));
        if offset.checked_add(bytes as u64).is_none_or(|end| end > allocation.bytes.len() as u64) {
            return Err(fault(FaultKind::OutOfBounds, near()));
        }
        if bytes.is_power_of_two() && !address.is_multiple_of(bytes as u64) {
            return Err(fault(FaultKind::Misaligned, near()));
        }
        Ok((index, offset as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_stay_inside_one_allocation() {
        let mut memory = GlobalMemory::new();
        let first = memory.allocate("first", vec![1, 2, 3, 4, 5]);
        let second = memory.allocate("second", vec![0; 8]);
        assert_eq!(memory.read(first, 4).unwrap(), [1, 2, 3, 4]);
        assert_eq!(memory.read(first + 4, 4).unwrap_err().near, Some(("first".to_owned(), 4)));
        assert_eq!(memory.read(second - 1, 1).unwrap_err().kind, FaultKind::OutOfBounds);
        assert_eq!(memory.read(second + 2, 4).unwrap_err().kind, FaultKind::Misaligned);
        memory.write(second + 4, 4).unwrap().copy_from_slice(&[9; 4]);
        assert_eq!(memory.contents(second).unwrap(), [0, 0, 0, 0, 9, 9, 9, 9]);
        assert_eq!(memory.read(0, 1).unwrap_err().near, None);
    }
}
