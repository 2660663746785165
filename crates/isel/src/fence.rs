//! Fences: `fence` and `membar`, and the fences before releasing and after acquiring accesses.
//!
//! `MEMBAR` waits until the earlier accesses of this thread are visible within a scope. `CCTL.IVALL` invalidates the L1 cache, so that
//! later loads see writes of other threads. `ERRBAR` (and `CGAERRBAR` on targets with clusters) wait for errors of earlier accesses; ptxas
//! emits them after each `MEMBAR` whose scope is larger than the thread block.

use oriole_ir::{MemoryAccess, Order, Scope, Space};
use oriole_ptx::table::Modifier;

use crate::bulk_tensor;
use crate::context::Select;
use crate::error::Unsupported;
use crate::memory::AccessProperties;
use crate::memory::{has_clusters, order_of, scope_of};
use crate::ptx::Ptx;

/// Selects `fence`, `membar`.
pub(crate) fn fence(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    if ptx.has(Modifier::Alias) {
        return alias(select);
    }
    if ptx.has(Modifier::Proxy) || ptx.has(Modifier::MbarrierInit) || is_restricted(ptx) {
        return special(select, ptx);
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

/// Returns whether a modifier is a memory order or a scope.
fn is_order_or_scope(modifier: Modifier) -> bool {
    use Modifier::{AcqRel, Acquire, Cluster, Cta, Gl, Gpu, Release, Sc, Sys};
    matches!(modifier, AcqRel | Acquire | Release | Sc | Cta | Cluster | Gl | Gpu | Sys)
}

/// Returns whether a fence is restricted to barriers in shared memory.
fn is_restricted(ptx: &Ptx<'_>) -> bool {
    ptx.has(Modifier::SyncRestrictSharedCluster) || ptx.has(Modifier::SyncRestrictSharedCta)
}

/// Selects the fences of asynchronous accesses, of tensor maps and of barriers in shared memory.
fn special(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let scope = scope_of(ptx).unwrap_or(Scope::Gpu);
    match () {
        // The initialization of a barrier takes effect in order.
        () if ptx.has(Modifier::MbarrierInit) => {}
        () if ptx.has(Modifier::TensormapGeneric) && ptx.has(Modifier::Release) => select.fence(Order::Release, scope.max(Scope::Gpu)),
        () if ptx.has(Modifier::TensormapGeneric) => return acquire_map(select, ptx),
        () if is_restricted(ptx) && ptx.has(Modifier::Acquire) => select.fence(Order::Acquire, Scope::Cluster),
        () if is_restricted(ptx) => {
            select.write_fence("MEMBAR.ALL.CTA", Order::AcquireRelease, Scope::Block);
            select.write_fence("FENCE.VIEW.ASYNC.S", Order::AcquireRelease, Scope::Block);
        }
        () if ptx.has(Modifier::Async) => return asynchronous(select, ptx),
        () => return select.unsupported(ptx),
    }
    Ok(())
}

/// Selects `fence.proxy.tensormap::generic.acquire`: the copy engine reads the tensor map again.
fn acquire_map(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let map = bulk_tensor::map_address(select, ptx, ptx.operand(0))?;
    // The effect on a map is the same whether one thread asks for it or several do.
    select.for_each_value(&map, |select, map| {
        if select.encodes("CCTL.E.C.LDCU.IV.DEEP [UR4]") {
            select.emit_bulk("CCTL.E.C.LDCU.IV.DEEP [{}]", &[map], &[]);
        }
        select.emit_bulk("UTMACCTL.IV [{}]", &[map], &[]);
        Ok(())
    })
}

/// Selects `fence.proxy.alias`, which orders accesses to the same memory through different virtual addresses.
fn alias(select: &mut Select<'_>) -> Result<(), Unsupported> {
    select.fence(Order::SequentiallyConsistent, Scope::System);
    Ok(())
}

/// Selects `fence.proxy.async`, which orders ordinary accesses before accesses of asynchronous instructions.
fn asynchronous(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let is_global = ptx.has(Modifier::Global);
    if !select.encodes(if is_global { "FENCE.VIEW.ASYNC.G" } else { "FENCE.VIEW.ASYNC.S" }) {
        return select.unsupported(ptx);
    }
    if is_global {
        select.write_fence("FENCE.VIEW.ASYNC.G", Order::AcquireRelease, Scope::Gpu);
        return Ok(());
    }
    let (membar, scope) = if ptx.has(Modifier::SharedCta) { ("MEMBAR.ALL.CTA", Scope::Block) } else { ("MEMBAR.ALL.GPU", Scope::Gpu) };
    select.write_fence(membar, Order::AcquireRelease, scope);
    select.write_fence("FENCE.VIEW.ASYNC.S", Order::AcquireRelease, scope);
    Ok(())
}

impl Select<'_> {
    /// Emits a fence: orders earlier and later accesses of this thread as observed by the threads in `scope`.
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
                self.wait_for_errors(order, scope);
            }
        }
        if order != Order::Release && is_far {
            self.write_fence("CCTL.IVALL", order, scope);
        }
    }

    /// Emits the instructions that wait until errors of earlier memory accesses have been reported.
    pub(crate) fn wait_for_errors(&mut self, order: Order, scope: Scope) {
        self.write_fence("ERRBAR", order, scope);
        if has_clusters(self.target) {
            self.write_fence("CGAERRBAR", order, scope);
        }
    }

    /// Emits one instruction of a fence.
    pub(crate) fn write_fence(&mut self, text: &str, order: Order, scope: Scope) {
        self.b.emit(text, &[]);
        self.b.describe(MemoryAccess { order, scope, volatile: true, ..MemoryAccess::weak(Space::Generic, 0) });
    }

    /// Emits the fence that a releasing access needs before it.
    pub(crate) fn fence_before(&mut self, access: &AccessProperties) {
        if matches!(access.order, Order::Release | Order::AcquireRelease) {
            self.fence(Order::Release, access.scope);
        }
    }

    /// Emits the fence that an acquiring access needs after it. Within a thread block none is needed: the threads share one L1 cache.
    pub(crate) fn fence_after(&mut self, access: &AccessProperties) {
        if matches!(access.order, Order::Acquire | Order::AcquireRelease) && access.scope > Scope::Block {
            self.fence(Order::Acquire, access.scope);
        }
    }
}
