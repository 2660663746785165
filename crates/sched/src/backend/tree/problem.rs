//! A region as the search sees it: numbers from 0, whatever the registers are called.
//!
//! Everything that the search looks at is worked out once for all alternatives. Registers have new numbers in the order in which the region
//! names them, so that regions that differ in names only are the same problem ([`Problem::signature`]).

use oriole_hardware::units::{UNITS, Unit};
use oriole_isa::File;
use rustc_hash::FxHashMap;

use super::super::{Settings, Stage};
use crate::code::{Code, RegisterClass};
use crate::graph::Graph;
use crate::pressure::{Counts, Tracker};
use crate::resource::Costs;

/// Where pseudo operations are: no unit.
pub(super) const NO_UNIT: usize = UNITS;
/// Slots that read single registers through the cache.
pub(super) const SLOTS: usize = 3;
/// Register banks: a register is in that of its number.
pub(super) const BANKS: usize = 2;
/// No register.
pub(super) const NONE: u16 = u16::MAX;

/// Registers that live and die together, before the first item of the region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Group {
    pub class: Option<RegisterClass>,
    pub weight: u8,
    pub live: bool,
    pub wanted_later: bool,
    pub readers: u32,
}

/// What an item reads from the banks, and writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ports {
    /// The single register in each slot.
    pub slots: [u16; SLOTS],
    /// Different registers that come from each bank.
    pub reads: [u8; BANKS],
    /// The first general register that is written.
    pub written: u16,
    /// Whether it reads through the cache, and leaves what it reads there.
    pub cached: bool,
    pub keeps: bool,
}

impl Ports {
    const NOTHING: Ports = Ports { slots: [NONE; SLOTS], reads: [0; BANKS], written: NONE, cached: false, keeps: false };

    /// Whether it reads from the banks at all.
    pub fn reads_banks(&self) -> bool {
        self.reads.iter().any(|&count| count > 0)
    }
}

/// Lists of numbers, one for each item.
#[derive(Clone, Default)]
struct Lists {
    ends: Vec<u32>,
    numbers: Vec<u32>,
}

impl Lists {
    fn of(&self, item: u32) -> &[u32] {
        let start = if item == 0 { 0 } else { self.ends[item as usize - 1] };
        &self.numbers[start as usize..self.ends[item as usize] as usize]
    }

    fn finish(&mut self) {
        self.ends.push(self.numbers.len() as u32);
    }
}

pub(super) struct Problem<'a> {
    pub code: &'a Code,
    pub graph: &'a Graph,
    pub costs: &'a Costs,
    pub settings: &'a Settings,
    /// The unit of each item.
    pub units: Vec<u8>,
    /// Cycles until results for those behind the region are there, less what a call behind it hides.
    pub tails: Vec<u32>,
    pub groups: Vec<Group>,
    reads: Lists,
    writes: Lists,
    /// Registers that are live at the start.
    pub live: Counts,
    /// Only where registers have their places.
    pub ports: Vec<Ports>,
}

impl<'a> Problem<'a> {
    /// The tracker stands at the start of the region.
    pub fn new(code: &'a Code, graph: &'a Graph, costs: &'a Costs, settings: &'a Settings, tracker: &Tracker) -> Problem<'a> {
        let items = &code.items[graph.region.clone()];
        let unit = |item: &crate::code::Item| if item.opcode.is_some() { costs.unit(item.class) } else { NO_UNIT } as u8;
        let mut problem = Problem {
            code,
            graph,
            costs,
            settings,
            units: items.iter().map(unit).collect(),
            tails: tails(code, graph),
            groups: Vec::new(),
            reads: Lists::default(),
            writes: Lists::default(),
            live: tracker.live(),
            ports: Vec::new(),
        };
        match settings.stage {
            Stage::Pre => problem.find_groups(tracker),
            Stage::Post => problem.find_ports(),
        }
        problem
    }

    pub fn items(&self) -> usize {
        self.graph.items()
    }

    pub fn position(&self, node: u32) -> usize {
        self.graph.region.start + node as usize
    }

    pub fn counts_registers(&self) -> bool {
        self.settings.stage == Stage::Pre
    }

    pub fn read_groups(&self, node: u32) -> &[u32] {
        self.reads.of(node)
    }

    pub fn written_groups(&self, node: u32) -> &[u32] {
        self.writes.of(node)
    }

    fn find_groups(&mut self, tracker: &Tracker) {
        let mut numbers: FxHashMap<u32, u32> = FxHashMap::default();
        let Problem { code, groups, reads, writes, .. } = self;
        let mut number = |group: u32| {
            *numbers.entry(group).or_insert_with(|| {
                let (live, wanted_later, readers) = tracker.at_region_start(group);
                let known = code.groups()[group as usize];
                groups.push(Group { class: known.class, weight: known.weight, live, wanted_later, readers });
                groups.len() as u32 - 1
            })
        };
        for item in &code.items[self.graph.region.clone()] {
            reads.numbers.extend(code.read_groups(item).iter().map(|&group| number(group)));
            reads.finish();
            writes.numbers.extend(code.written_groups(item).iter().map(|&group| number(group)));
            writes.finish();
        }
    }

    /// Registers keep their bank when they get their new numbers.
    fn find_ports(&mut self) {
        let code = self.code;
        let mut numbers: FxHashMap<u32, u16> = FxHashMap::default();
        let mut given = [0_u16; BANKS];
        let mut number = |register: u32| {
            *numbers.entry(register).or_insert_with(|| {
                let bank = register as usize % BANKS;
                given[bank] += 1;
                (given[bank] - 1) * BANKS as u16 + bank as u16
            })
        };
        let cached_units = [Unit::Alu.index() as u8, Unit::Fma.index() as u8];
        for (item, unit) in code.items[self.graph.region.clone()].iter().zip(&self.units) {
            let mut ports = Ports { cached: cached_units.contains(unit), keeps: !item.guarded, ..Ports::NOTHING };
            let mut seen = [NONE; 16];
            let mut count = 0;
            let mut is_wide = [false; SLOTS];
            for touch in code.reads(item) {
                let Some(slot) = touch.slot.map(usize::from) else { continue };
                let register = number(touch.register);
                if slot < SLOTS {
                    is_wide[slot] |= ports.slots[slot] != NONE;
                    ports.slots[slot] = register;
                }
                if count < seen.len() && !seen[..count].contains(&register) {
                    seen[count] = register;
                    count += 1;
                    ports.reads[usize::from(register) % BANKS] += 1;
                }
            }
            for (slot, _) in is_wide.iter().enumerate().filter(|(_, is_wide)| **is_wide) {
                ports.slots[slot] = NONE;
            }
            let written = code.writes(item).iter().find(|touch| touch.file == File::General);
            ports.written = written.map_or(NONE, |touch| number(touch.register));
            self.ports.push(ports);
        }
    }

    /// Everything that decides about the outcome, as numbers.
    pub fn signature(&self) -> Vec<u32> {
        let mut words = Vec::with_capacity(self.items() * 8);
        let settings = self.settings;
        words.extend([
            settings.mode.code().into(),
            u32::from(settings.stage == Stage::Pre),
            self.items() as u32,
            self.graph.nodes() as u32,
        ]);
        words.extend(settings.budget.registers.map(|count| count as u32));
        words.push(settings.budget.reduced as u32);
        words.extend(self.live.map(|count| count as u32));
        for &node in &self.graph.order {
            words.push(node);
            words.push(self.graph.successors(node).len() as u32);
            for edge in self.graph.successors(node) {
                words.push(edge.node);
                words.push(u32::from(edge.latency) | u32::from(edge.scoreboard) << 16 | (edge.kind as u32) << 17);
            }
        }
        for (node, item) in self.code.items[self.graph.region.clone()].iter().enumerate() {
            words.push(item.class.index() as u32 | u32::from(self.units[node]) << 24);
            words.push(self.tails[node]);
            words.push(self.graph.exit(node as u32));
        }
        words.push(self.groups.len() as u32);
        for group in &self.groups {
            let class = group.class.map_or(7, |class| class as u32);
            let flags = u32::from(group.live) | u32::from(group.wanted_later) << 1 | class << 2 | u32::from(group.weight) << 8;
            words.extend([flags, group.readers]);
        }
        for lists in [&self.reads, &self.writes] {
            words.extend_from_slice(&lists.ends);
            words.extend_from_slice(&lists.numbers);
        }
        for ports in &self.ports {
            words.extend(ports.slots.map(u32::from));
            words.push(u32::from(ports.reads[0]) | u32::from(ports.reads[1]) << 8 | u32::from(ports.written) << 16);
            words.push(u32::from(ports.cached) | u32::from(ports.keeps) << 1);
        }
        words
    }
}

/// Cycles of results that leave the region. A call behind it takes time in which they come, unless it reads them itself.
fn tails(code: &Code, graph: &Graph) -> Vec<u32> {
    let mut tails: Vec<u32> = (0..graph.items() as u32).map(|node| graph.typical_tail(node)).collect();
    let Some(cycles) = code.call_cycles(graph.region.end) else { return tails };
    let arguments: Vec<u32> = code.reads(&code.items[graph.region.end]).iter().map(|touch| touch.register).collect();
    for (tail, item) in tails.iter_mut().zip(&code.items[graph.region.clone()]) {
        if !code.writes(item).iter().any(|touch| arguments.contains(&touch.register)) {
            *tail = tail.saturating_sub(cycles);
        }
    }
    tails
}
