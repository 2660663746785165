//! What a memory operation means beyond its encoding: where it goes, how it is ordered, who else may see it.

use oriole_support::define_index;

define_index!(
    /// A memory access described in [`crate::Function::accesses`].
    pub struct MemoryId,
    "mem"
);

/// A memory access.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MemoryAccess {
    /// Where it goes.
    pub space: Space,
    /// How many bytes each thread touches.
    pub bytes: u8,
    /// Who must see it in order.
    pub scope: Scope,
    /// How it is ordered with others.
    pub order: Order,
    /// Whether it may neither be removed nor merged.
    pub volatile: bool,
    /// Whether nobody writes there while the kernel runs.
    pub constant: bool,
}

impl MemoryAccess {
    /// An ordinary access that nothing else is known about.
    pub fn weak(space: Space, bytes: u8) -> MemoryAccess {
        MemoryAccess { space, bytes, scope: Scope::Thread, order: Order::Weak, volatile: false, constant: false }
    }
}

/// A kind of memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "the words of the PTX manual")]
pub enum Space {
    Generic,
    Global,
    Shared,
    Local,
    Constant,
    /// Registers that the allocator put into local memory.
    Spill,
}

/// Threads among which an access is ordered.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[allow(missing_docs, reason = "the words of the PTX manual")]
pub enum Scope {
    Thread,
    Block,
    Cluster,
    Gpu,
    System,
}

/// How an access is ordered.
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
