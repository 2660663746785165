//! Order of memory accesses, fences and barriers, in time proportional to the edges.
//!
//! Each space is looked at by itself; a generic access belongs to global, shared and local memory. Two accesses with the same base (the
//! same registers with the same contents) are compared by offset, in cells of [`CELL`] bytes. Accesses with different bases may meet
//! anywhere, so a store must follow *all* earlier loads and stores of other bases, and a load all such stores. Instead of an edge
//! for each pair there are joins: when the base changes, the stores so far become one node, and everybody later follows it.
//!
//! A join may hold accesses of the very base that asks later; that only keeps an order that was there. Each access enters at most two
//! joins, so their edges are linear in the accesses.

use oriole_support::Index;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::{EdgeKind, Incoming};
use crate::code::{Access, AccessKind, Effect, Item, Space};

/// Bytes of a cell: accesses of one base that touch the same cell keep their order.
const CELL: i64 = 4;
/// Spaces that are kept apart: global, shared, local, spill.
const SPACES: usize = 4;

oriole_support::define_index!(
    /// A base of addresses.
    pub struct Base,
    "base"
);

type BaseKey = (u64, SmallVec<[(u32, u32); 4]>);

#[derive(Default)]
struct Cell {
    store: Option<u32>,
    loads: SmallVec<[u32; 2]>,
}

#[derive(Default)]
struct SpaceState {
    /// All stores before the current run.
    joined_stores: Option<u32>,
    /// Stores since, all of one base.
    run: Vec<u32>,
    run_base: Option<Base>,
    /// Loads that all stores from now on follow.
    joined_loads: Option<u32>,
    /// Loads of the base of the latest store: only stores of other bases follow all of them.
    kept: Vec<u32>,
    kept_base: Option<Base>,
    /// Loads since the latest store.
    loads: Vec<(Base, u32)>,
    cells: FxHashMap<(Base, i64), Cell>,
}

impl SpaceState {
    fn clear(&mut self) {
        (self.joined_stores, self.joined_loads) = (None, None);
        self.run.clear();
        self.kept.clear();
        self.loads.clear();
        self.cells.clear();
    }

    /// Makes joins that an access needs. Edges follow in [`SpaceState::connect`].
    fn prepare(&mut self, base: Base, writes: bool, incoming: &mut Incoming) {
        if self.run_base != Some(base) && !self.run.is_empty() {
            self.joined_stores = incoming.join(&self.run, self.joined_stores);
            self.run.clear();
        }
        if !writes {
            return;
        }
        let mut others: Vec<u32> = Vec::new();
        if self.kept_base != Some(base) {
            others.append(&mut self.kept);
            self.kept_base = Some(base);
        }
        for (other, node) in self.loads.drain(..) {
            if other == base { self.kept.push(node) } else { others.push(node) }
        }
        if !others.is_empty() {
            self.joined_loads = incoming.join(&others, self.joined_loads);
        }
    }

    fn connect(&mut self, node: u32, base: Base, cells: Option<std::ops::RangeInclusive<i64>>, writes: bool, incoming: &mut Incoming) {
        let mut add = |from: u32| incoming.add(from, 1, EdgeKind::Memory, false);
        self.joined_stores.into_iter().for_each(&mut add);
        if writes {
            self.joined_loads.into_iter().for_each(&mut add);
        }
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
            self.run_base = Some(base);
            self.run.push(node);
        } else {
            self.loads.push((base, node));
        }
    }

    fn outstanding(&self) -> impl Iterator<Item = u32> + '_ {
        let joined = self.joined_stores.into_iter().chain(self.joined_loads);
        joined.chain(self.run.iter().copied()).chain(self.kept.iter().copied()).chain(self.loads.iter().map(|load| load.1))
    }
}

/// The state of memory on the way through a region.
#[derive(Default)]
pub(super) struct MemoryOrder {
    spaces: [SpaceState; SPACES],
    bases: FxHashMap<BaseKey, Base>,
    base_count: usize,
    last_strong: Option<u32>,
    last_fence: Option<u32>,
    last_sync: Option<u32>,
    /// Items since the last barrier for which it matters who executes them together.
    converged: Vec<u32>,
}

impl MemoryOrder {
    /// Forgets everything.
    pub fn start(&mut self) {
        self.spaces.iter_mut().for_each(SpaceState::clear);
        self.bases.clear();
        self.converged.clear();
        (self.base_count, self.last_strong, self.last_fence, self.last_sync) = (0, None, None, None);
    }

    /// The base that these registers, with the contents from these writers, make.
    pub fn base(&mut self, form: u64, registers: impl Iterator<Item = (u32, u32)>) -> Base {
        let next = Base::new(self.base_count);
        let base = *self.bases.entry((form, registers.collect())).or_insert(next);
        self.base_count += usize::from(base == next);
        base
    }

    /// Adds the edges of an item. `after` says how long what waits has to wait.
    pub fn place(&mut self, item: &Item, node: u32, base: Option<Base>, incoming: &mut Incoming, after: impl Fn(u32) -> u16) {
        if let Effect::Access(access) = item.effect {
            self.access(access, node, base, incoming, &after);
        }
        if matches!(item.effect, Effect::Clock | Effect::Fence | Effect::Sync | Effect::Wall) {
            self.last_strong.into_iter().for_each(|from| incoming.add(from, 1, EdgeKind::Order, false));
            self.last_fence.into_iter().for_each(|from| incoming.add(from, after(from).max(1), EdgeKind::Order, false));
        }
        match item.effect {
            Effect::None | Effect::Access(_) => {}
            Effect::Clock => self.last_strong = Some(node),
            Effect::Fence | Effect::Sync | Effect::Wall => {
                if item.effect != Effect::Fence {
                    self.last_sync = Some(node);
                    self.converged.drain(..).for_each(|from| incoming.add(from, 1, EdgeKind::Order, false));
                }
                for space in &mut self.spaces {
                    space.outstanding().for_each(|from| incoming.add(from, 1, EdgeKind::Order, false));
                    space.clear();
                }
                (self.last_strong, self.last_fence) = (None, Some(node));
            }
        }
        if item.converged && item.effect != Effect::Sync {
            if let Some(from) = self.last_sync {
                incoming.add(from, 1, EdgeKind::Order, false);
            }
            self.converged.push(node);
        }
    }

    fn access(&mut self, access: Access, node: u32, base: Option<Base>, incoming: &mut Incoming, after: &impl Fn(u32) -> u16) {
        if access.kind == AccessKind::ReadConstant {
            // It may move past stores and fences, but not to where threads that have left would fault.
            self.last_sync.into_iter().for_each(|from| incoming.add(from, after(from).max(1), EdgeKind::Order, false));
            self.converged.push(node);
            return;
        }
        let spaces = match access.space {
            Space::Generic => 0..3,
            Space::Global => 0..1,
            Space::Shared => 1..2,
            Space::Local => 2..3,
            Space::Spill => 3..4,
        };
        let cells = access
            .address
            .map(|address| address.offset.div_euclid(CELL)..=(address.offset + i64::from(address.bytes) - 1).div_euclid(CELL));
        let base = base.unwrap_or_else(|| {
            self.base_count += 1;
            Base::new(self.base_count - 1)
        });
        let writes = access.kind == AccessKind::Write;
        for space in &mut self.spaces[spaces.clone()] {
            space.prepare(base, writes, incoming);
        }
        for space in &mut self.spaces[spaces] {
            space.connect(node, base, cells.clone(), writes, incoming);
        }
        self.last_fence.into_iter().for_each(|from| incoming.add(from, after(from).max(1), EdgeKind::Order, false));
        if access.strong {
            self.last_strong.into_iter().for_each(|from| incoming.add(from, 1, EdgeKind::Order, false));
            self.last_strong = Some(node);
        }
    }
}
