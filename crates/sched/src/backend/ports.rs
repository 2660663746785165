//! Models the register-file read ports after register allocation, and computes the length in cycles of an order with them.
//!
//! [`PortState`] models the read ports of the register file. There are two banks; an even and an odd register are in different banks. Each
//! bank delivers one register per cycle. The operand reuse cache keeps the register that was last read through each operand slot; a read of
//! the same register through the same slot needs no bank. The model also tells whether two consecutive instructions write the same
//! register, which the search of backend C avoids.
//!
//! Example:
//!
//! ```text
//! instruction             cache hits   bank reads (even, odd)   extra cycles
//! FFMA R8, R2, R4, R6     -            3, 0                     2: three registers of the even bank
//! FFMA R9, R2, R4, R7     R2 and R4    0, 1                     0
//! FFMA R10, R4, R2, R7    R7           2, 0                     1: R2 and R4 are in other slots than before
//! ```

use oriole_hardware::units::Unit;
use oriole_isa::RegFile;
use rustc_hash::FxHashMap;

use super::clock::{Clock, Length, release};
use crate::code::{Item, SchedCode};
use crate::graph::Graph;
use crate::resource::ResourceCosts;

/// Number of operand slots that have an entry in the operand reuse cache.
pub(super) const REUSE_CACHE_SLOTS: usize = 3;
/// Number of register banks. Register *n* is in bank *n* modulo this number.
pub(super) const REGISTER_BANKS: usize = 2;
/// The register number that means "no register".
pub(super) const NO_REGISTER: u16 = u16::MAX;
/// Maximum distance, in instructions, from the one that leaves a register in the reuse cache to one that can read it from there.
const MAX_REUSE_DISTANCE_INSTRUCTIONS: u32 = 3;
/// Minimum number of cycles between two issues of a warp for which another warp is assumed to issue in between. The operands of that warp
/// then replace the contents of the reuse cache.
const MIN_OTHER_WARP_GAP_CYCLES: u32 = 3;

/// The registers that an item reads through the read ports of the register file, and the register that it writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PortUse {
    /// For each operand slot, the register that is read through it; [`NO_REGISTER`] if there is none, or several.
    pub slots: [u16; REUSE_CACHE_SLOTS],
    /// For each bank, the number of different registers that are read from it.
    pub reads: [u8; REGISTER_BANKS],
    /// First general register that is written; [`NO_REGISTER`] if none is.
    pub written_register: u16,
    /// Whether the item can read operands from the reuse cache.
    pub can_read_reuse_cache: bool,
    /// Whether the item leaves its operands in the reuse cache. Guarded items do not, because their guard may be false.
    pub fills_reuse_cache: bool,
}

impl PortUse {
    /// The value for an item that reads and writes no register.
    const NO_PORT_USE: PortUse = PortUse {
        slots: [NO_REGISTER; REUSE_CACHE_SLOTS],
        reads: [0; REGISTER_BANKS],
        written_register: NO_REGISTER,
        can_read_reuse_cache: false,
        fills_reuse_cache: false,
    };

    /// Returns whether the item reads any register from the banks.
    pub(super) fn reads_banks(&self) -> bool {
        self.reads.iter().any(|&count| count > 0)
    }
}

/// Returns the use of read ports by each item of a region. Registers are renumbered in the order in which the region mentions them; each
/// number has the same bank as its register.
pub(super) fn ports_of_region(code: &SchedCode, graph: &Graph, costs: &ResourceCosts) -> Vec<PortUse> {
    let mut numbers: FxHashMap<u32, u16> = FxHashMap::default();
    let mut given = [0_u16; REGISTER_BANKS];
    // Each bank has its own sequence of numbers (0, 2, 4, ... and 1, 3, 5, ...), so that a number keeps the bank of its register.
    let mut number = |register: u32| {
        *numbers.entry(register).or_insert_with(|| {
            let bank = register as usize % REGISTER_BANKS;
            given[bank] += 1;
            (given[bank] - 1) * REGISTER_BANKS as u16 + bank as u16
        })
    };
    let cached_units = [Unit::Alu.index(), Unit::Fma.index()];
    let ports_of = |item: &Item| {
        let cached = item.opcode.is_some() && cached_units.contains(&costs.unit_index(item.class));
        let mut ports = PortUse { can_read_reuse_cache: cached, fills_reuse_cache: !item.guarded, ..PortUse::NO_PORT_USE };
        let mut seen = [NO_REGISTER; 16];
        let mut count = 0;
        let mut is_wide = [false; REUSE_CACHE_SLOTS];
        for access in code.reads(item) {
            let Some(slot) = access.slot.map(usize::from) else { continue };
            let register = number(access.register);
            if slot < REUSE_CACHE_SLOTS {
                // A second register in the same slot: the operand is a register pair or wider, which the reuse cache does not hold.
                is_wide[slot] |= ports.slots[slot] != NO_REGISTER;
                ports.slots[slot] = register;
            }
            // A register that is read through several slots is delivered once.
            if count < seen.len() && !seen[..count].contains(&register) {
                seen[count] = register;
                count += 1;
                ports.reads[usize::from(register) % REGISTER_BANKS] += 1;
            }
        }
        for (slot, _) in is_wide.iter().enumerate().filter(|(_, is_wide)| **is_wide) {
            ports.slots[slot] = NO_REGISTER;
        }
        let written = code.writes(item).iter().find(|access| access.file == RegFile::General);
        ports.written_register = written.map_or(NO_REGISTER, |access| number(access.register));
        ports
    };
    code.items[graph.region.clone()].iter().map(ports_of).collect()
}

/// State of the register file's read ports (banks and operand reuse cache) while an order is issued.
#[derive(Clone)]
pub(super) struct PortState {
    /// For each operand slot, the register in the reuse cache ([`NO_REGISTER`] if empty), and the sequence number of the instruction that
    /// left it there.
    reuse_cache: [(u16, u32); REUSE_CACHE_SLOTS],
    /// First cycle in which the banks can deliver the operands of another instruction.
    pub banks_free_cycle: u32,
    /// First general register that the previous instruction writes; [`NO_REGISTER`] if it writes none.
    last_written: u16,
    /// Issue cycle of the previous instruction.
    last_issue: u32,
    /// Number of cycles for which an instruction occupies the warp scheduler: 1, or the number of warps that execute the code in step. Bank
    /// reads take this many times as long.
    issue_cycles: u32,
    /// Number of instructions issued so far.
    issued_count: u32,
    /// Number of operands read from the reuse cache so far.
    pub reuse_hits: u32,
    /// Number of cycles lost by bank conflicts so far.
    pub conflict_cycles: u32,
}

impl Default for PortState {
    fn default() -> PortState {
        PortState {
            reuse_cache: [(NO_REGISTER, 0); REUSE_CACHE_SLOTS],
            banks_free_cycle: 0,
            last_written: NO_REGISTER,
            last_issue: 0,
            issue_cycles: 1,
            issued_count: 0,
            reuse_hits: 0,
            conflict_cycles: 0,
        }
    }
}

impl PortState {
    /// Returns whether another warp would issue before an instruction that issues in cycle `at`, and replace the reuse cache.
    fn loses_reuse_cache(&self, at: u32) -> bool {
        // Cycles spent waiting for the banks do not count: the warp keeps its turn while the banks deliver.
        at + 1 >= (self.last_issue + self.issue_cycles).max(self.banks_free_cycle) + MIN_OTHER_WARP_GAP_CYCLES
    }

    /// Returns, for an item that issues next, in cycle `at`: the number of operands read from the reuse cache, and the number of cycles
    /// lost by bank conflicts.
    pub(super) fn hits_and_conflict_cycles(&self, ports: &PortUse, at: u32) -> (u32, u32) {
        let mut reads = ports.reads;
        let mut hits = 0;
        if ports.can_read_reuse_cache && !self.loses_reuse_cache(at) {
            for (&register, &(kept, by)) in ports.slots.iter().zip(&self.reuse_cache) {
                if register != NO_REGISTER && register == kept && self.issued_count - by <= MAX_REUSE_DISTANCE_INSTRUCTIONS {
                    hits += 1;
                    let bank = &mut reads[usize::from(register) % REGISTER_BANKS];
                    *bank = bank.saturating_sub(1);
                }
            }
        }
        let busy = reads.into_iter().max().unwrap_or(0);
        (hits, u32::from(busy).saturating_sub(1))
    }

    /// Returns whether an item writes the same general register as the previous instruction.
    pub(super) fn writes_same_register(&self, ports: &PortUse) -> bool {
        ports.written_register != NO_REGISTER && ports.written_register == self.last_written
    }

    /// Updates the state for an item that issues in cycle `at`.
    pub(super) fn step(&mut self, ports: &PortUse, at: u32) {
        let (hits, busy) = self.hits_and_conflict_cycles(ports, at);
        if self.loses_reuse_cache(at) {
            self.reuse_cache = [(NO_REGISTER, 0); REUSE_CACHE_SLOTS];
        }
        self.reuse_hits += hits;
        self.conflict_cycles += busy;
        if ports.reads_banks() {
            self.banks_free_cycle = at + (1 + busy) * self.issue_cycles;
        }
        self.issued_count += 1;
        if ports.can_read_reuse_cache {
            for (slot, &register) in ports.slots.iter().enumerate().filter(|(_, register)| **register != NO_REGISTER) {
                // The guard of an instruction may be false, so a guarded instruction leaves no register in the cache, but it still evicts
                // the contents of its slots.
                self.reuse_cache[slot] = (if ports.fills_reuse_cache { register } else { NO_REGISTER }, self.issued_count);
            }
        }
        // A cached copy of a register that is overwritten is stale.
        if ports.written_register != NO_REGISTER {
            for kept in self.reuse_cache.iter_mut().filter(|kept| kept.0 == ports.written_register) {
                kept.0 = NO_REGISTER;
            }
        }
        self.last_written = ports.written_register;
        self.last_issue = at;
    }
}

/// The length of an order of a region, in cycles, by the cost model of issue ([`super::clock`]). After register allocation it includes the
/// waits for the read ports of the register file.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct OrderLength {
    /// Cycles until the last instruction has issued, and until all results are available.
    pub length: Length,
    /// First cycle in which the scheduling barrier that ends the region can issue.
    pub exit_cycle: u32,
    /// Number of operands read from the reuse cache; 0 before register allocation.
    pub reuse_hits: u32,
    /// Number of cycles lost by bank conflicts; 0 before register allocation.
    pub conflict_cycles: u32,
}

/// Returns the length in cycles of an order of a region, given as nodes. `tails` has, for each item, the cycles from its issue until its
/// results are available after the region; `ports` has the read ports that each item uses, and is empty before register allocation.
pub(super) fn measure_order(
    code: &SchedCode,
    graph: &Graph,
    costs: &ResourceCosts,
    (tails, ports): (&[u32], &[PortUse]),
    order: impl Iterator<Item = u32>,
) -> OrderLength {
    let mut earliest = graph.start_cycles();
    let mut left = graph.predecessor_counts().to_vec();
    let mut clock = Clock::new(costs);
    let mut state = PortState { issue_cycles: costs.issue_cycles(), ..PortState::default() };
    let mut found = OrderLength::default();
    for node in order {
        let item = &code.items[graph.region.start + node as usize];
        let ports = ports.get(node as usize);
        let mut from = earliest[node as usize];
        if let Some(ports) = ports
            && ports.reads_banks()
        {
            from = from.max(state.banks_free_cycle);
        }
        let at = clock.issue(item.class, item.opcode.is_none(), from);
        found.length.add(at, tails[node as usize]);
        found.exit_cycle = found.exit_cycle.max(at + graph.barrier_latency(node));
        if let Some(ports) = ports {
            state.step(ports, at);
        }
        release(graph, node, at, &mut earliest, &mut left, &mut |_| {});
    }
    OrderLength {
        exit_cycle: found.exit_cycle.max(found.length.issued),
        reuse_hits: state.reuse_hits,
        conflict_cycles: state.conflict_cycles,
        ..found
    }
}

/// Returns the estimated length, in cycles, of the current order of a region after register allocation, including bank conflicts.
pub(crate) fn measure_allocated_region(code: &SchedCode, graph: &Graph, costs: &ResourceCosts) -> OrderLength {
    let (tails, ports) = (tails(code, graph), ports_of_region(code, graph, costs));
    measure_order(code, graph, costs, (&tails, &ports), 0..graph.items() as u32)
}

/// Returns, for each item, the number of cycles from its issue until its results are available to code after the region.
///
/// If a call of known duration ends the region, its cycles are subtracted: results arrive while the callee runs. Arguments of the call are
/// excepted, because the call itself waits for them.
pub(super) fn tails(code: &SchedCode, graph: &Graph) -> Vec<u32> {
    let mut tails: Vec<u32> = (0..graph.items() as u32).map(|node| graph.typical_tail(node)).collect();
    let Some(cycles) = code.call_cycles(graph.region.end) else { return tails };
    let arguments: Vec<u32> = code.reads(&code.items[graph.region.end]).iter().map(|access| access.register).collect();
    for (tail, item) in tails.iter_mut().zip(&code.items[graph.region.clone()]) {
        if !code.writes(item).iter().any(|access| arguments.contains(&access.register)) {
            *tail = tail.saturating_sub(cycles);
        }
    }
    tails
}
