//! The meaning of the modifiers of a memory access, and their spelling in machine instructions.

use oriole_ir::{MemoryAccess, Order, Scope, Space, Target};
use oriole_isa::{SharedWindow, SystemLayout};
use oriole_ptx::ast::{self, AddressBase, VariableId};
use oriole_ptx::table::Modifier;
use oriole_ptx::types::StateSpace;

use crate::context::Select;
use crate::ptx::Ptx;

/// The memory space that an access names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AccessSpace {
    Generic,
    Global,
    /// Shared memory of this thread block.
    Shared,
    /// Shared memory of any thread block of the cluster.
    Cluster,
    Local,
    Constant,
    Parameter,
}

/// The properties of a memory access, without address and value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccessProperties {
    pub space: AccessSpace,
    pub order: Order,
    pub scope: Scope,
    pub is_volatile: bool,
    pub is_mmio: bool,
    /// Whether the location is read-only while the kernel runs (`.nc`).
    pub is_constant: bool,
    /// L1 eviction modifier, for example `.EF`; empty if there is none.
    eviction: &'static str,
    /// L2 eviction modifier, which only 256-bit accesses have.
    eviction_l2: &'static str,
    /// L2 prefetch size modifier.
    prefetch: &'static str,
}

impl AccessProperties {
    /// Reads the modifiers of an instruction.
    fn of(ptx: &Ptx<'_>) -> AccessProperties {
        let mut access = AccessProperties {
            space: space_of(ptx),
            order: order_of(ptx),
            scope: scope_of(ptx).unwrap_or(Scope::Thread),
            is_volatile: ptx.has(Modifier::Volatile),
            is_mmio: ptx.has(Modifier::Mmio),
            is_constant: ptx.has(Modifier::Nc),
            eviction: first(ptx, EVICTIONS),
            eviction_l2: first(ptx, EVICTIONS_L2),
            prefetch: first(ptx, PREFETCHES),
        };
        if access.is_volatile {
            (access.order, access.scope) = (Order::Relaxed, Scope::System);
        }
        if !access.is_constant
            && let Some(scope) = cached_scope(ptx)
        {
            (access.order, access.scope) = (Order::Relaxed, scope);
        }
        access
    }

    /// Returns the description of the access that later passes use.
    pub(crate) fn describe(&self, bytes: u32) -> MemoryAccess {
        let space = match self.space {
            AccessSpace::Generic | AccessSpace::Cluster => Space::Generic,
            AccessSpace::Global => Space::Global,
            AccessSpace::Shared => Space::Shared,
            AccessSpace::Local => Space::Local,
            AccessSpace::Constant | AccessSpace::Parameter => Space::Constant,
        };
        let constant = self.is_constant || space == Space::Constant;
        let volatile = self.is_volatile || self.is_mmio;
        MemoryAccess { space, bytes: bytes as u8, scope: self.scope, order: self.order, volatile, constant }
    }

    /// Returns whether the access has an order other than weak.
    pub(crate) fn is_strong(&self) -> bool {
        self.order != Order::Weak
    }

    /// Returns the modifiers of a global or generic load or store of this size.
    pub(crate) fn modifiers(&self, target: Target, size: &str) -> String {
        let eviction_l2 = if size == ".256" && self.eviction_l2.is_empty() { ".ENL2" } else { self.eviction_l2 };
        let scope = self.scope_spelling(target);
        format!(".E{}{eviction_l2}{}{size}{scope}", self.eviction, self.prefetch)
    }

    /// Returns the modifiers for ordering and scope.
    fn scope_spelling(&self, target: Target) -> &'static str {
        if self.is_mmio {
            return ".MMIO.SYS";
        }
        match (self.is_constant, self.is_strong(), always_names_scope(target)) {
            (true, _, false) => ".CONSTANT",
            (true, _, true) => ".CONSTANT.SYS",
            (false, true, _) => strong(target, self.scope),
            (false, false, false) => "",
            (false, false, true) => ".SYS",
        }
    }
}

/// Returns the opcode with modifiers of a load of 32 bits that are read-only while the kernel runs.
pub(crate) fn constant_load(target: Target) -> &'static str {
    if always_names_scope(target) { "LDG.E.CONSTANT.SYS" } else { "LDG.E.CONSTANT" }
}

/// Returns whether every access must spell out a scope, even a weak one.
fn always_names_scope(target: Target) -> bool {
    SystemLayout::of(target).descriptor.is_none()
}

/// Returns the opcode of loads from shared memory; targets without memory descriptors need the modifier `.U`.
pub(crate) fn shared_load(target: Target) -> &'static str {
    if SystemLayout::of(target).descriptor.is_none() { "LDS.U" } else { "LDS" }
}

/// Returns whether the target supports thread block clusters.
pub(crate) fn has_clusters(target: Target) -> bool {
    SystemLayout::of(target).shared_window == SharedWindow::Cluster
}

/// Returns the modifier of a strong access with a scope. There is no cluster scope; GPU scope, which includes it, is used.
pub(crate) fn strong(target: Target, scope: Scope) -> &'static str {
    match scope {
        Scope::Thread | Scope::Block if always_names_scope(target) => ".STRONG.CTA",
        Scope::Thread | Scope::Block => ".STRONG.SM",
        Scope::Cluster | Scope::Gpu => ".STRONG.GPU",
        Scope::System => ".STRONG.SYS",
    }
}

impl Select<'_> {
    /// Returns the properties of the access that an instruction makes to the address in an operand.
    pub(crate) fn access(&self, ptx: &Ptx<'_>, address: ast::Operand) -> AccessProperties {
        AccessProperties { space: self.access_space(ptx, address), ..AccessProperties::of(ptx) }
    }

    /// Returns the memory space of an access. Without a state space modifier, a variable in the brackets is accessed in its own space; an
    /// address in a register is generic.
    pub(crate) fn access_space(&self, ptx: &Ptx<'_>, address: ast::Operand) -> AccessSpace {
        let named = space_of(ptx);
        if named != AccessSpace::Generic {
            return named;
        }
        match self.variable_in_brackets(address).map(|id| self.frame.module.variables[id].space) {
            Some(StateSpace::Shared) => AccessSpace::Shared,
            Some(StateSpace::Local) => AccessSpace::Local,
            Some(StateSpace::Global) => AccessSpace::Global,
            _ => AccessSpace::Generic,
        }
    }

    /// Returns the variable in the brackets of an address operand, if any.
    fn variable_in_brackets(&self, operand: ast::Operand) -> Option<VariableId> {
        let (ast::Operand::Address(position) | ast::Operand::UnifiedAddress(position)) = operand else { return None };
        match self.frame.body.addresses[position as usize].base {
            AddressBase::Variable(id) | AddressBase::VariableMember(id, _) => Some(id),
            _ => None,
        }
    }
}

/// PTX modifiers with the machine's spelling.
type Spellings = &'static [(Modifier, &'static str)];

/// L1 eviction priorities and cache operators.
const EVICTIONS: Spellings = &[
    (Modifier::L1EvictUnchanged, ".EU"),
    (Modifier::L1EvictFirst, ".EF"),
    (Modifier::L1EvictLast, ".EL"),
    (Modifier::L1NoAllocate, ".NA"),
    (Modifier::Cs, ".EF"),
    (Modifier::Lu, ".LU"),
];
/// L2 eviction priorities.
const EVICTIONS_L2: Spellings = &[(Modifier::L2EvictNormal, ".ENL2"), (Modifier::L2EvictFirst, ".EFL2"), (Modifier::L2EvictLast, ".ELL2")];
/// L2 prefetch sizes.
const PREFETCHES: Spellings = &[(Modifier::L264B, ".LTC64B"), (Modifier::L2128B, ".LTC128B"), (Modifier::L2256B, ".LTC256B")];

/// Returns the spelling of the first modifier in the list that the instruction has; empty if it has none.
fn first(ptx: &Ptx<'_>, spellings: Spellings) -> &'static str {
    spellings.iter().find(|(modifier, _)| ptx.has(*modifier)).map_or("", |(_, spelling)| spelling)
}

/// Returns the L2 prefetch size in the machine's spelling; empty if the instruction names none.
pub(super) fn prefetch_size(ptx: &Ptx<'_>) -> &'static str {
    first(ptx, PREFETCHES)
}

/// Returns the scope of a cache operator that ptxas turns into a strong access: the threads that share the named cache level.
fn cached_scope(ptx: &Ptx<'_>) -> Option<Scope> {
    if ptx.has(Modifier::Ca) || ptx.has(Modifier::Wb) {
        Some(Scope::Block)
    } else if ptx.has(Modifier::Cg) {
        Some(Scope::Gpu)
    } else if ptx.has(Modifier::Cv) || ptx.has(Modifier::Wt) {
        Some(Scope::System)
    } else {
        None
    }
}

/// Returns the memory space that an instruction names; generic if it names none.
pub(crate) fn space_of(ptx: &Ptx<'_>) -> AccessSpace {
    let spaces = [
        (Modifier::Global, AccessSpace::Global),
        (Modifier::Shared, AccessSpace::Shared),
        (Modifier::SharedCta, AccessSpace::Shared),
        (Modifier::SharedCluster, AccessSpace::Cluster),
        (Modifier::Local, AccessSpace::Local),
        (Modifier::Const, AccessSpace::Constant),
        (Modifier::Param, AccessSpace::Parameter),
        (Modifier::ParamEntry, AccessSpace::Parameter),
        (Modifier::ParamFunc, AccessSpace::Parameter),
    ];
    spaces.iter().find(|(modifier, _)| ptx.has(*modifier)).map_or(AccessSpace::Generic, |&(_, space)| space)
}

/// Returns the memory order that an instruction names; weak if it names none.
pub(crate) fn order_of(ptx: &Ptx<'_>) -> Order {
    let orders = [
        (Modifier::Relaxed, Order::Relaxed),
        (Modifier::Acquire, Order::Acquire),
        (Modifier::Release, Order::Release),
        (Modifier::AcqRel, Order::AcquireRelease),
        (Modifier::Sc, Order::SequentiallyConsistent),
    ];
    orders.iter().find(|(modifier, _)| ptx.has(*modifier)).map_or(Order::Weak, |&(_, order)| order)
}

/// Returns the scope that an instruction names, if any.
pub(crate) fn scope_of(ptx: &Ptx<'_>) -> Option<Scope> {
    let scopes = [
        (Modifier::Cta, Scope::Block),
        (Modifier::Cluster, Scope::Cluster),
        (Modifier::Gpu, Scope::Gpu),
        (Modifier::Gl, Scope::Gpu),
        (Modifier::Sys, Scope::System),
    ];
    scopes.iter().find(|(modifier, _)| ptx.has(*modifier)).map(|&(_, scope)| scope)
}
