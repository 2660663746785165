//! The input of backend C's search for one region, with registers renumbered.
//!
//! Everything that the search reads is computed once and used by all attempts. Registers are numbered in the order in which the region
//! mentions them. Regions that differ in register names only are therefore equal problems, with equal signatures
//! ([`SearchProblem::signature`]).
//!
//! Example after register allocation ([`ports`]): `FADD R20, R31, R6` becomes registers 1 (`R31`), 0 (`R6`) and 2 (`R20`). Numbers of even
//! registers are even and those of odd registers odd, so a number still shows the bank.

use oriole_hardware::units::UNITS;
use rustc_hash::FxHashMap;

use super::super::ports::{self, PortUse};
use super::super::settings::{AllocationStage, Settings};
use crate::code::{RegisterClass, SchedCode};
use crate::graph::Graph;
use crate::pressure::{PressureCounts, PressureTracker};
use crate::resource::ResourceCosts;

/// Unit index of pseudo operations, which use no unit.
pub(super) const NO_UNIT: usize = UNITS;

/// A register group (the registers of one value), with its liveness at the start of the region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LiveGroup {
    /// Register class; `None` if the class has no budget.
    pub class: Option<RegisterClass>,
    /// Number of registers in the group.
    pub weight: u8,
    /// Whether the register group is live: in the problem at the start of the region, during an attempt at the current position.
    pub live: bool,
    /// Whether the group is accessed after the region, or live at the end of the block.
    pub used_after_region: bool,
    /// Number of items of the region that read the group; during an attempt, of those that have not issued.
    pub readers: u32,
}

/// For each item, a list of register group numbers; all lists are stored in one vector.
#[derive(Clone, Default)]
struct GroupLists {
    /// For each item, the index in `numbers` after the end of its list.
    list_ends: Vec<u32>,
    /// The lists of all items, one after the other.
    numbers: Vec<u32>,
}

impl GroupLists {
    /// Returns the register group numbers of an item.
    fn list_of(&self, item: u32) -> &[u32] {
        let start = if item == 0 { 0 } else { self.list_ends[item as usize - 1] };
        &self.numbers[start as usize..self.list_ends[item as usize] as usize]
    }

    /// Ends the list of the current item; numbers that are appended later belong to the next item.
    fn finish_item_list(&mut self) {
        self.list_ends.push(self.numbers.len() as u32);
    }
}

/// A region to be scheduled, with everything that the search reads.
pub(super) struct SearchProblem<'a> {
    /// The items of the block.
    pub code: &'a SchedCode,
    /// The dependency graph of the region.
    pub graph: &'a Graph,
    /// For each instruction class, its functional unit and the cycles for which an instruction occupies the unit.
    pub costs: &'a ResourceCosts,
    /// Optimization goal, stage (before or after register allocation), register budget and numeric parameters.
    pub settings: &'a Settings,
    /// For each item, its unit; [`NO_UNIT`] for pseudo operations.
    pub units: Vec<u8>,
    /// For each item, the number of cycles from its issue until its results are available to code after the region. If a call of known
    /// duration ends the region, the cycles of the call are subtracted.
    pub tails: Vec<u32>,
    /// Register groups that the region accesses. Empty after register allocation.
    pub groups: Vec<LiveGroup>,
    /// The register groups that each item reads.
    groups_read: GroupLists,
    /// The register groups that each item writes.
    groups_written: GroupLists,
    /// Number of live registers of each class at the start of the region.
    pub live: PressureCounts,
    /// For each item, the registers that it reads through the read ports of the register file. Empty before register allocation.
    pub ports: Vec<PortUse>,
}

impl<'a> SearchProblem<'a> {
    /// Collects everything that the search of a region reads. The tracker must be at the start of the region.
    pub(super) fn new(
        code: &'a SchedCode,
        graph: &'a Graph,
        costs: &'a ResourceCosts,
        settings: &'a Settings,
        tracker: &PressureTracker,
    ) -> SearchProblem<'a> {
        let items = &code.items[graph.region.clone()];
        let unit = |item: &crate::code::Item| if item.opcode.is_some() { costs.unit_index(item.class) } else { NO_UNIT } as u8;
        let mut problem = SearchProblem {
            code,
            graph,
            costs,
            settings,
            units: items.iter().map(unit).collect(),
            tails: ports::tails(code, graph),
            groups: Vec::new(),
            groups_read: GroupLists::default(),
            groups_written: GroupLists::default(),
            live: tracker.live(),
            ports: Vec::new(),
        };
        match settings.stage {
            AllocationStage::Pre => problem.find_groups(tracker),
            AllocationStage::Post => problem.ports = ports::ports_of_region(code, graph, costs),
        }
        problem
    }

    /// Returns the number of items of the region.
    pub(super) fn items(&self) -> usize {
        self.graph.items()
    }

    /// Returns the position in the code of a node that is an item.
    pub(super) fn position(&self, node: u32) -> usize {
        self.graph.region.start + node as usize
    }

    /// Returns whether live registers are counted, which is the case before register allocation.
    pub(super) fn counts_registers(&self) -> bool {
        self.settings.stage == AllocationStage::Pre
    }

    /// Returns the register groups that an item reads, by their number in the problem.
    pub(super) fn read_groups(&self, node: u32) -> &[u32] {
        self.groups_read.list_of(node)
    }

    /// Returns the register groups that an item writes, by their number in the problem.
    pub(super) fn written_groups(&self, node: u32) -> &[u32] {
        self.groups_written.list_of(node)
    }

    /// Numbers the register groups in order of first mention and copies their liveness from the tracker.
    fn find_groups(&mut self, tracker: &PressureTracker) {
        let mut numbers: FxHashMap<u32, u32> = FxHashMap::default();
        let SearchProblem { code, groups, groups_read, groups_written, .. } = self;
        let mut number = |group: u32| {
            *numbers.entry(group).or_insert_with(|| {
                let (live, used_after_region, readers) = tracker.liveness_and_reader_count(group);
                let known = code.groups()[group as usize];
                groups.push(LiveGroup { class: known.class, weight: known.weight, live, used_after_region, readers });
                groups.len() as u32 - 1
            })
        };
        for item in &code.items[self.graph.region.clone()] {
            groups_read.numbers.extend(code.read_groups(item).iter().map(|&group| number(group)));
            groups_read.finish_item_list();
            groups_written.numbers.extend(code.written_groups(item).iter().map(|&group| number(group)));
            groups_written.finish_item_list();
        }
    }

    /// Returns the signature of the region: all data that the search reads, as a sequence of 32-bit words.
    ///
    /// Two regions with equal signatures get the same order. Knobs are not part of the signature, so a cache of solutions must not be used
    /// with different knobs.
    pub(super) fn signature(&self) -> Vec<u32> {
        let mut words = Vec::with_capacity(self.items() * 8);
        let settings = self.settings;
        words.extend([
            settings.mode.code().into(),
            u32::from(settings.stage == AllocationStage::Pre),
            self.items() as u32,
            self.graph.nodes() as u32,
        ]);
        words.extend(settings.budget.registers.map(|count| count as u32));
        words.push(settings.budget.scarce_above as u32);
        words.extend(self.live.map(|count| count as u32));
        for &node in &self.graph.order {
            words.push(node);
            words.push(self.graph.successors(node).len() as u32);
            for edge in self.graph.successors(node) {
                words.extend([edge.node, edge.latency.into(), edge.scoreboard.into(), edge.kind as u32]);
            }
        }
        for (node, item) in self.code.items[self.graph.region.clone()].iter().enumerate() {
            let (unit, barrier_latency) = (self.units[node].into(), self.graph.barrier_latency(node as u32));
            words.extend([item.class.index() as u32, unit, self.tails[node], barrier_latency]);
        }
        words.extend(self.graph.start_cycles());
        words.push(self.groups.len() as u32);
        for group in &self.groups {
            let class = group.class.map_or(u32::MAX, |class| class as u32);
            words.extend([group.live.into(), group.used_after_region.into(), class, group.weight.into(), group.readers]);
        }
        for lists in [&self.groups_read, &self.groups_written] {
            words.extend_from_slice(&lists.list_ends);
            words.extend_from_slice(&lists.numbers);
        }
        for ports in &self.ports {
            words.extend(ports.slots.map(u32::from));
            words.extend(ports.reads.map(u32::from));
            words.push(ports.written_register.into());
            words.extend([ports.can_read_reuse_cache, ports.fills_reuse_cache].map(u32::from));
        }
        words
    }
}
