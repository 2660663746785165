//! Fences, and the fences around accesses that acquire or release.
//!
//! `MEMBAR` waits until this thread's earlier accesses are visible within a scope, `CCTL.IVALL` drops what L1 holds, so that later loads
//! see what others wrote. `ERRBAR` (and `CGAERRBAR`, where there are clusters) wait for errors of earlier accesses; ptxas puts them behind
//! each `MEMBAR` beyond the block.

use oriole_ir::{MemoryAccess, Order, Scope, Space};
use oriole_ptx::table::Modifier;

use crate::error::Unsupported;
use crate::memory::Access;
use crate::memory::{has_clusters, order_of, scope_of};
use crate::ptx::Ptx;
use crate::select::Select;

/// `fence`, `membar`
pub(crate) fn fence(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    if ptx.has(Modifier::Alias) {
        return alias(select);
    }
    let is_special = ptx.form.modifiers.iter().any(|value| !is_order_or_scope(value.modifier));
    let Some(scope) = scope_of(ptx).filter(|_| !is_special) else { return select.unsupported(ptx) };
    let order = match (ptx.opcode(), order_of(ptx)) {
        (oriole_ptx::table::Opcode::Membar, _) => Order::SequentiallyConsistent,
        (_, Order::Weak) => Order::AcquireRelease,
        (_, order) => order,
    };
    select.fence(order, scope);
    Ok(())
}

fn is_order_or_scope(modifier: Modifier) -> bool {
    use Modifier::{AcqRel, Acquire, Cluster, Cta, Gl, Gpu, Release, Sc, Sys};
    matches!(modifier, AcqRel | Acquire | Release | Sc | Cta | Cluster | Gl | Gpu | Sys)
}

/// `fence.proxy.alias`: accesses to the same memory by different addresses are ordered.
fn alias(select: &mut Select<'_>) -> Result<(), Unsupported> {
    select.fence(Order::SequentiallyConsistent, Scope::System);
    Ok(())
}

impl Select<'_> {
    /// Orders earlier and later accesses of this thread, as others in a scope see them.
    pub(crate) fn fence(&mut self, order: Order, scope: Scope) {
        let is_far = scope > Scope::Block;
        if order != Order::Acquire || !is_far {
            let kind = if order == Order::SequentiallyConsistent { "SC" } else { "ALL" };
            let reach = match scope {
                Scope::Thread | Scope::Block => "CTA",
                Scope::Cluster | Scope::Gpu => "GPU",
                Scope::System => "SYS",
            };
            self.write_fence(&format!("MEMBAR.{kind}.{reach}"), order, scope);
            if is_far {
                self.write_fence("ERRBAR", order, scope);
                if has_clusters(self.target) {
                    self.write_fence("CGAERRBAR", order, scope);
                }
            }
        }
        if order != Order::Release && is_far {
            self.write_fence("CCTL.IVALL", order, scope);
        }
    }

    fn write_fence(&mut self, text: &str, order: Order, scope: Scope) {
        self.b.emit(text, &[]);
        self.b.describe(MemoryAccess { order, scope, volatile: true, ..MemoryAccess::weak(Space::Generic, 0) });
    }

    /// What an access that releases needs before it.
    pub(crate) fn fence_before(&mut self, access: &Access) {
        if matches!(access.order, Order::Release | Order::AcquireRelease) {
            self.fence(Order::Release, access.scope);
        }
    }

    /// What an access that acquires needs after it. Within a block nothing: L1 is shared.
    pub(crate) fn fence_after(&mut self, access: &Access) {
        if matches!(access.order, Order::Acquire | Order::AcquireRelease) && access.scope > Scope::Block {
            self.fence(Order::Acquire, access.scope);
        }
    }
}
