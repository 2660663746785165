//! Builds the edges between memory accesses, fences and barriers, in time linear in the number of edges.
//!
//! Accesses of different memory spaces do not alias; a generic access belongs to global, shared and local memory. Two addresses have the
//! same *base* if they differ in the constant offset only: same form, same registers, same values in these registers. Two accesses with the
//! same base are compared by offset, in cells of [`ALIAS_CELL_BYTES`] bytes. Two accesses with different bases may alias. So a store must
//! follow all earlier loads and stores with other bases, and a load must follow all earlier stores with other bases.
//!
//! With an edge for each such pair, the number of edges would be quadratic. Instead, joins collect accesses: when the base changes, the
//! stores so far become one join node, and later accesses follow the join.
//!
//! ```text
//! 0  LDG R7, [R2]       load, base A
//! 1  LDG R8, [R2+4]     load, base A
//! 2  STG [R4], R6       store, base B: edges 0 -> J, 1 -> J, J -> 2
//! 3  STG [R4+4], R6     store, base B, other cell than 2: edge J -> 3
//! ```
//!
//! A join may contain accesses with the same base as a later access, at other offsets. The later access then follows them without need;
//! that is conservative, never wrong. In each space an access enters at most one join, and each join has one edge from the join before it,
//! so the number of edges is linear in the number of accesses.

use oriole_support::Index;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::edges::{EdgeKind, IncomingEdges};
use crate::code::{AliasSpace, Item, MemAccess, MemAccessKind, OrderEffect};

/// Size of a cell in bytes. Accesses with the same base that touch the same cell keep their order.
const ALIAS_CELL_BYTES: i64 = 4;
/// Number of independent memory spaces: global, shared, local, spill slots.
const ALIAS_SPACE_COUNT: usize = 4;

oriole_support::define_index!(
    /// Identifies a base, the part of an address without its constant offset. Equal identifiers mean equal base addresses.
    pub struct BaseId,
    "base"
);

/// The key by which equal bases are found: the hash of the address form, and each base register with the node that wrote it last.
type BaseKey = (u64, SmallVec<[(u32, u32); 4]>);

/// The latest accesses of one cell ([`ALIAS_CELL_BYTES`] bytes of memory).
#[derive(Default)]
struct CellAccesses {
    /// Node of the last store; `None` if there is none.
    store: Option<u32>,
    /// Nodes of the loads since that store.
    loads: SmallVec<[u32; 2]>,
}

/// The earlier accesses of one memory space that later accesses may have to follow.
#[derive(Default)]
struct SpaceAccesses {
    /// A node that follows all stores before those in `current_stores`; `None` if there are no such stores.
    joined_stores: Option<u32>,
    /// The current run: stores since `joined_stores`, all with the base `current_base`.
    current_stores: Vec<u32>,
    /// Base of the stores in `current_stores`; `None` before the first store.
    current_base: Option<BaseId>,
    /// A node that follows all loads recorded so far, except those in `same_base_loads` and `loads`. Every later store must follow it.
    /// `None` if there are no such loads.
    joined_loads: Option<u32>,
    /// Loads with the base `latest_store_base`. Stores with that base are compared with these loads by cell; stores with another base must
    /// follow all of them.
    same_base_loads: Vec<u32>,
    /// Base of the latest store; `None` before the first store.
    latest_store_base: Option<BaseId>,
    /// Loads since the latest store, each with its base.
    loads: Vec<(BaseId, u32)>,
    /// For each base and cell index, the latest accesses of the cell.
    cells: FxHashMap<(BaseId, i64), CellAccesses>,
}

impl SpaceAccesses {
    /// Forgets all accesses, for a new region.
    fn clear(&mut self) {
        (self.joined_stores, self.joined_loads) = (None, None);
        self.current_stores.clear();
        self.same_base_loads.clear();
        self.loads.clear();
        self.cells.clear();
    }

    /// Creates the joins (nodes that stand for a set of earlier accesses) that an access must follow. The edges of the access itself are
    /// added afterwards by [`SpaceAccesses::add_access_edges`].
    fn create_access_joins(&mut self, base: BaseId, writes: bool, incoming: &mut IncomingEdges) {
        // The base changes: the stores of the run become part of the join, which the new access follows.
        if self.current_base != Some(base) && !self.current_stores.is_empty() {
            self.joined_stores = incoming.join(&self.current_stores, self.joined_stores);
            self.current_stores.clear();
        }
        if !writes {
            return;
        }
        // Loads with other bases than this store are added to the join. Loads with the same base are kept in a separate list and compared
        // by cell.
        let mut others: Vec<u32> = Vec::new();
        if self.latest_store_base != Some(base) {
            others.append(&mut self.same_base_loads);
            self.latest_store_base = Some(base);
        }
        for (other, node) in self.loads.drain(..) {
            if other == base { self.same_base_loads.push(node) } else { others.push(node) }
        }
        if !others.is_empty() {
            self.joined_loads = incoming.join(&others, self.joined_loads);
        }
    }

    /// Adds the edges of an access and records the access. `cells` is the range of cells that the access touches, `None` if its address is
    /// unknown.
    fn add_access_edges(
        &mut self,
        node: u32,
        base: BaseId,
        cells: Option<std::ops::RangeInclusive<i64>>,
        writes: bool,
        incoming: &mut IncomingEdges,
    ) {
        let mut add = |from: u32| incoming.add(from, 1, EdgeKind::Memory, false);
        self.joined_stores.into_iter().for_each(&mut add);
        if writes {
            self.joined_loads.into_iter().for_each(&mut add);
        }
        // Accesses with the same base: edges from the last store of each cell, and for a store also from the loads since.
        for number in cells.into_iter().flatten() {
            let cell = self.cells.entry((base, number)).or_default();
            cell.store.into_iter().for_each(&mut add);
            if writes {
                cell.loads.drain(..).filter(|&load| load != node).for_each(&mut add);
                cell.store = Some(node);
            } else {
                cell.loads.push(node);
            }
        }
        if writes {
            self.current_base = Some(base);
            self.current_stores.push(node);
        } else {
            self.loads.push((base, node));
        }
    }

    /// Returns the nodes from which a fence gets edges, so that it follows all accesses so far. Every other access has a path to one of
    /// these nodes.
    fn nodes_before_fence(&self) -> impl Iterator<Item = u32> + '_ {
        let joined = self.joined_stores.into_iter().chain(self.joined_loads);
        joined
            .chain(self.current_stores.iter().copied())
            .chain(self.same_base_loads.iter().copied())
            .chain(self.loads.iter().map(|load| load.1))
    }
}

/// The accesses, fences and barriers of a region so far.
#[derive(Default)]
pub(super) struct MemoryOrder {
    /// For each memory space, the accesses so far.
    spaces: [SpaceAccesses; ALIAS_SPACE_COUNT],
    /// The identifier of each base (address without its constant offset), by address form and base registers.
    bases: FxHashMap<BaseKey, BaseId>,
    /// Number of bases so far. An access at an unknown address gets a new base, different from all others.
    base_count: usize,
    /// Node of the latest strong access (relaxed, volatile or atomic) or clock read since the latest fence; `None` if there is none.
    last_strong: Option<u32>,
    /// Node of the latest fence; `None` if there is none.
    last_fence: Option<u32>,
    /// Node of the latest point where threads may diverge or reconverge ([`OrderEffect::Sync`]); `None` if there is none.
    last_sync: Option<u32>,
    /// Node of the latest barrier, or point where threads may diverge or reconverge; `None` if there is none.
    last_barrier: Option<u32>,
    /// Items that exchange data between threads, and reads of constant memory, since the latest barrier. They must stay before the next
    /// barrier.
    exchanges: Vec<u32>,
    /// Items with [`Item::needs_convergence`] since the latest point where threads may diverge or reconverge. They must stay before the
    /// next such point.
    converged_items: Vec<u32>,
}

impl MemoryOrder {
    /// Forgets all accesses, fences and barriers, for a new region.
    pub(super) fn reset(&mut self) {
        self.spaces.iter_mut().for_each(SpaceAccesses::clear);
        self.bases.clear();
        self.converged_items.clear();
        self.exchanges.clear();
        (self.base_count, self.last_strong, self.last_fence, self.last_sync, self.last_barrier) = (0, None, None, None, None);
    }

    /// Returns the identifier of a base, which is given as the hash of the address form and the base registers, each with the node that
    /// wrote it last. Equal bases get the same identifier.
    pub(super) fn base(&mut self, form: u64, registers: impl Iterator<Item = (u32, u32)>) -> BaseId {
        let next = BaseId::new(self.base_count);
        let base = *self.bases.entry((form, registers.collect())).or_insert(next);
        self.base_count += usize::from(base == next);
        base
    }

    /// Adds the ordering edges of an item, and records the item for those that follow. `base` is the base of its address, if known.
    /// `latency_after` returns the latency, in cycles, of an edge from a fence or barrier node.
    pub(super) fn add_item_edges(
        &mut self,
        item: &Item,
        node: u32,
        base: Option<BaseId>,
        incoming: &mut IncomingEdges,
        latency_after: impl Fn(u32) -> u16,
    ) {
        if let OrderEffect::Access(access) = item.effect {
            self.add_access(access, node, base, incoming, &latency_after);
        }
        if !matches!(item.effect, OrderEffect::None | OrderEffect::Access(_)) {
            self.last_strong.into_iter().for_each(|from| incoming.add(from, 1, EdgeKind::Order, false));
            self.last_fence.into_iter().for_each(|from| incoming.add(from, latency_after(from).max(1), EdgeKind::Order, false));
        }
        match item.effect {
            OrderEffect::None | OrderEffect::Access(_) => {}
            OrderEffect::Clock => self.last_strong = Some(node),
            OrderEffect::Fence | OrderEffect::Barrier | OrderEffect::Sync | OrderEffect::SchedBarrier => {
                if item.effect != OrderEffect::Fence {
                    self.last_barrier = Some(node);
                    self.exchanges.drain(..).for_each(|from| incoming.add(from, 1, EdgeKind::Order, false));
                }
                if matches!(item.effect, OrderEffect::Sync | OrderEffect::SchedBarrier) {
                    self.last_sync = Some(node);
                    self.converged_items.drain(..).for_each(|from| incoming.add(from, 1, EdgeKind::Order, false));
                }
                for space in &mut self.spaces {
                    space.nodes_before_fence().for_each(|from| incoming.add(from, 1, EdgeKind::Order, false));
                    space.clear();
                }
                (self.last_strong, self.last_fence) = (None, Some(node));
            }
        }
        if item.needs_convergence && item.effect != OrderEffect::Sync {
            if let Some(from) = self.last_sync {
                incoming.add(from, 1, EdgeKind::Order, false);
            }
            self.converged_items.push(node);
        }
        if item.exchanges_lanes && !matches!(item.effect, OrderEffect::Barrier | OrderEffect::Sync) {
            if let Some(from) = self.last_barrier {
                incoming.add(from, 1, EdgeKind::Order, false);
            }
            self.exchanges.push(node);
        }
    }

    /// Adds the ordering edges of a memory access, and records the access for the items that follow.
    fn add_access(
        &mut self,
        access: MemAccess,
        node: u32,
        base: Option<BaseId>,
        incoming: &mut IncomingEdges,
        latency_after: &impl Fn(u32) -> u16,
    ) {
        if access.kind == MemAccessKind::ReadConstant {
            // A constant read may move across stores and fences, but not across a barrier such as a guarded `EXIT`: for threads that
            // exit there, the address may be invalid and the read would fault.
            self.last_barrier.into_iter().for_each(|from| incoming.add(from, latency_after(from).max(1), EdgeKind::Order, false));
            self.exchanges.push(node);
            return;
        }
        let spaces = match access.space {
            AliasSpace::Generic => 0..3,
            AliasSpace::Global => 0..1,
            AliasSpace::Shared => 1..2,
            AliasSpace::Local => 2..3,
            AliasSpace::Spill => 3..4,
        };
        let cells = access.address.map(|address| {
            address.offset.div_euclid(ALIAS_CELL_BYTES)..=(address.offset + i64::from(address.bytes) - 1).div_euclid(ALIAS_CELL_BYTES)
        });
        let base = base.unwrap_or_else(|| {
            self.base_count += 1;
            BaseId::new(self.base_count - 1)
        });
        let writes = access.kind == MemAccessKind::Write;
        for space in &mut self.spaces[spaces.clone()] {
            space.create_access_joins(base, writes, incoming);
        }
        for space in &mut self.spaces[spaces] {
            space.add_access_edges(node, base, cells.clone(), writes, incoming);
        }
        self.last_fence.into_iter().for_each(|from| incoming.add(from, latency_after(from).max(1), EdgeKind::Order, false));
        if access.strong {
            self.last_strong.into_iter().for_each(|from| incoming.add(from, 1, EdgeKind::Order, false));
            self.last_strong = Some(node);
        }
    }
}
