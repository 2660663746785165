//! Semantics of a memory access beyond its encoding: memory space, size, ordering, scope.

use oriole_support::define_index;

define_index!(
    /// The number of a memory access in [`crate::Function::accesses`].
    pub struct MemoryId,
    "mem"
);

/// The semantics of one memory access.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MemoryAccess {
    /// The memory space.
    pub space: Space,
    /// Number of bytes that each thread accesses; 0 for fences.
    pub bytes: u8,
    /// The set of threads that observe the access in order.
    pub scope: Scope,
    /// The memory order.
    pub order: Order,
    /// Whether the access must not be removed, duplicated or merged.
    pub volatile: bool,
    /// Whether the memory is read-only while the kernel runs.
    pub constant: bool,
}

impl MemoryAccess {
    /// Returns a weak access with no other known properties.
    pub fn weak(space: Space, bytes: u8) -> MemoryAccess {
        MemoryAccess { space, bytes, scope: Scope::Thread, order: Order::Weak, volatile: false, constant: false }
    }
}

/// A memory space.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "the words of the PTX manual")]
pub enum Space {
    Generic,
    Global,
    Shared,
    Local,
    Constant,
    /// Spill slots: local memory that holds registers which the allocator spilled.
    Spill,
}

/// The set of threads among which an access is ordered, smallest first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[allow(missing_docs, reason = "the words of the PTX manual")]
pub enum Scope {
    Thread,
    Block,
    Cluster,
    Gpu,
    System,
}

/// A memory order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "the words of the PTX manual")]
pub enum Order {
    Weak,
    Relaxed,
    Acquire,
    Release,
    AcquireRelease,
    SequentiallyConsistent,
}
