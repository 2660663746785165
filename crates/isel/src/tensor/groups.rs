//! What all instructions of tensor memory share: their order, and the group of blocks that they work for.

use oriole_ir::{MemoryAccess, Order, Scope, Space};
use oriole_ptx::table::Modifier;

use crate::context::Select;
use crate::ptx::Ptx;

/// Describes the last instruction as an access that keeps its order with all others.
pub(super) fn keep_order(select: &mut Select<'_>) {
    let access =
        MemoryAccess { order: Order::AcquireRelease, scope: Scope::Cluster, volatile: true, ..MemoryAccess::weak(Space::Generic, 0) };
    select.b.describe(access);
}

/// Returns the modifier of instructions that work for two blocks.
pub(super) fn group(ptx: &Ptx<'_>) -> &'static str {
    if ptx.has(Modifier::CtaGroup2) { ".2CTA" } else { "" }
}
