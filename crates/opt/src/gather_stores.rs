//! Moves stores of a thread to the same sector of global memory next to each other.
//!
//! ```text
//! STG [%b], %1                   %2 = FMUL ...
//! %2 = FMUL ...       becomes    STG [%b], %1
//! STG [%b+0x10], %2              STG [%b+0x10], %2
//! ```
//!
//! The level-one cache forwards two stores to one sector of memory (32 bytes) together if they arrive at almost the same time, and each on its
//! own otherwise. On an H200 a kernel whose threads store 32 bytes each with two stores takes 1.3 times as long if the first store issues early
//! (`crates/sched/src/graph/store_clusters.rs` has the figures, and keeps the scheduler from separating the stores again). Front ends write each
//! value where the source program computes it.
//!
//! The earlier stores move down to the last one. Between them may be instructions without effect, accesses of memory that is constant, shared
//! or local, and stores with the same base address that do not overlap. Other accesses of global memory may alias, and barriers, fences and
//! atomic operations order memory: no store moves across them. Only weak stores with the same guard take part.
//!
//! **Before** and **after**: SSA. The pass looks at one block at a time; the cost is n log n in the number of instructions of the block.

use std::collections::BTreeMap;

use oriole_hardware::SECTOR_BYTES;
use oriole_ir::{Function, Guard, Inst, Space};
use oriole_isa::Effect;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::definitions::Definitions;
use crate::forward_stores::{AddressTerms, WordAccess};

/// Maximum number of instructions from one store of a sector to the next. It limits how long the stored values stay live.
const MAX_DISTANCE: usize = 64;

/// Numbers of changes that the pass made to a function.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Number of stores that were moved.
    pub moved: usize,
}

/// A store that may move down.
#[derive(Clone, Copy)]
struct PendingStore {
    inst: Inst,
    /// Offsets from the base address of its first byte and of the byte after its last one.
    bytes: (i64, i64),
}

/// The latest stores to a sector.
struct SectorStores {
    stores: SmallVec<[PendingStore; 4]>,
    /// Index of the last store in its block.
    last: usize,
}

/// The stores that later ones may join, all with one base address and one guard.
#[derive(Default)]
struct PendingStores {
    base: AddressTerms,
    guard: Option<Guard>,
    /// The latest stores to each sector, by the number of sectors from the base address.
    sectors: BTreeMap<i64, SectorStores>,
    /// For the last store of each cluster that is complete, the stores that move to it, in their order.
    complete: FxHashMap<Inst, SmallVec<[Inst; 4]>>,
}

/// Moves the stores of a function.
pub fn run(function: &mut Function) -> Stats {
    let mut stats = Stats::default();
    let is_store = |function: &Function, inst: &&Inst| function.insts[**inst].is_machine(oriole_isa::Opcode::STG);
    let has_two = |function: &Function, insts: &[Inst]| insts.iter().filter(|inst| is_store(function, inst)).nth(1).is_some();
    let mut definitions: Option<Definitions> = None;
    for at in 0..function.layout.len() {
        let block = function.layout[at];
        if !has_two(function, &function.blocks[block].insts) {
            continue;
        }
        let definitions = definitions.get_or_insert_with(|| Definitions::compute(function));
        let mut pending = PendingStores::default();
        for (position, &inst) in function.blocks[block].insts.iter().enumerate() {
            pending.pass(function, definitions, inst, position);
        }
        pending.complete_all();
        let complete = pending.complete;
        if complete.is_empty() {
            continue;
        }
        let moved: FxHashSet<Inst> = complete.values().flatten().copied().collect();
        stats.moved += moved.len();
        let insts = std::mem::take(&mut function.blocks[block].insts);
        for inst in insts.into_iter().filter(|inst| !moved.contains(inst)) {
            function.blocks[block].insts.extend(complete.get(&inst).into_iter().flatten());
            function.blocks[block].insts.push(inst);
        }
    }
    stats
}

impl PendingStores {
    /// Processes the next instruction of a block.
    fn pass(&mut self, function: &Function, definitions: &Definitions, inst: Inst, position: usize) {
        let data = &function.insts[inst];
        let Some(memory) = data.memory else {
            if !matches!(data.op.effect(), Effect::None | Effect::Lanes) {
                self.complete_all();
            }
            return;
        };
        if function.accesses[memory].constant && data.op.effect() == Effect::Reads {
            return;
        }
        match WordAccess::from_inst(function, definitions, inst) {
            Some(access) if matches!(access.space, Space::Shared | Space::Local) => {}
            Some(access) if access.space == Space::Global && access.is_store => self.add(inst, position, access, data.guard),
            _ => self.complete_all(),
        }
    }

    /// Adds a store to the cluster of its sector. Clusters that it may overlap are complete.
    fn add(&mut self, inst: Inst, position: usize, access: WordAccess, guard: Option<Guard>) {
        if self.base != access.base || self.guard != guard {
            self.complete_all();
            (self.base, self.guard) = (access.base, guard);
        }
        let bytes = (access.offset, access.offset + access.bytes);
        let sector = access.offset.div_euclid(SECTOR_BYTES);
        let overlaps = |cluster: &SectorStores| cluster.stores.iter().any(|other| other.bytes.0 < bytes.1 && bytes.0 < other.bytes.1);
        for near in sector - 1..=sector + 1 {
            let is_over = |cluster: &SectorStores| overlaps(cluster) || near == sector && position - cluster.last > MAX_DISTANCE;
            if self.sectors.get(&near).is_some_and(is_over)
                && let Some(cluster) = self.sectors.remove(&near)
            {
                self.complete(cluster);
            }
        }
        let cluster = self.sectors.entry(sector).or_insert_with(|| SectorStores { stores: SmallVec::new(), last: position });
        cluster.stores.push(PendingStore { inst, bytes });
        cluster.last = position;
    }

    /// Notes the moves of a cluster that later stores do not join.
    fn complete(&mut self, cluster: SectorStores) {
        if let Some((last, earlier)) = cluster.stores.split_last()
            && !earlier.is_empty()
        {
            self.complete.insert(last.inst, earlier.iter().map(|store| store.inst).collect());
        }
    }

    /// Notes the moves of all clusters.
    fn complete_all(&mut self) {
        while let Some((_, cluster)) = self.sectors.pop_first() {
            self.complete(cluster);
        }
    }
}
