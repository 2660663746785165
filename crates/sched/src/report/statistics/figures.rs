//! The fields of the statistics lines, computed from the statistics of a function and facts that are known when the file is linked.

use super::super::fields;
use super::{FunctionStatistics, StatisticsFigure};
use crate::backend::AllocationStage;
use oriole_hardware::machine::Machine;
use oriole_hardware::occupancy::LaunchResources;

/// Facts about a function that are known only when the file is linked. Before that, the fields are estimates.
#[derive(Clone, Copy, Default, Debug)]
pub struct LinkFacts {
    /// Number of general registers allocated to a thread.
    pub registers: u32,
    /// Number of uniform registers that the code uses.
    pub uniform_registers: u32,
    /// The launch configuration for which occupancy is computed; its register count is replaced by `registers`.
    pub launch: LaunchResources,
    /// Number of bytes per thread that spill code stores, and number of bytes that it loads.
    pub spilled: (u64, u64),
    /// Size of the spill slots in local memory, in bytes.
    pub spill_size: u64,
    /// Size of the variables in local memory, in bytes.
    pub variables_size: u64,
    /// Size of the code in bytes.
    pub program_bytes: u64,
    /// Maximum number of general registers that are live after a call.
    pub live_at_calls: u64,
    /// Number of divergent branches.
    pub divergent_branches: u64,
}

impl FunctionStatistics {
    /// Returns the maximum number of general registers that are live after a call.
    pub fn live_at_calls(&self) -> u64 {
        self.extra_counts.live_at_calls
    }

    /// Returns the estimated number of general registers of a thread: the maximum number of live registers plus `beyond`, the number of
    /// registers that are allocated in addition.
    pub fn registers_for_live(&self, beyond: i32) -> u32 {
        (self.live[0] + beyond).max(0) as u32
    }

    /// Returns the name and value of all fields of the statistics lines.
    pub fn figures(&self, facts: &LinkFacts, machine: &Machine) -> Vec<(String, StatisticsFigure)> {
        let launch = LaunchResources { registers: facts.registers.min(machine.registers_per_thread), ..facts.launch };
        let found = launch.occupancy(machine).ok();
        let ratio = found.map_or(0.0, |found| found.ratio());
        let resident = found.map_or(0, |found| found.warps);
        let extra = &self.extra_counts;
        let count = |value: u64| StatisticsFigure::Count(value);
        let mut list: Vec<(String, StatisticsFigure)> = Vec::new();
        let mut add = |name: &str, figure: StatisticsFigure| list.push((name.to_owned(), figure));
        let latency = self.latency.round() as u64;
        add("inst", count(self.instructions as u64));
        add("texInst", count(extra.texture_insts));
        add("tepid", count(extra.texture_readers));
        add("rregs", count(u64::from(if self.stage == AllocationStage::Pre { self.live[0] as u32 } else { facts.registers })));
        add("urregs", count(u64::from(facts.uniform_registers)));
        add("_lat2inst", StatisticsFigure::Ratio(if self.issued_insts > 0.0 { self.latency / self.issued_insts } else { 0.0 }));
        add("FP16 inst", count(extra.half_insts));
        add("FP16 VectInst", count(extra.half_packed));
        add("Percentage Vectorized", StatisticsFigure::Ratio(quotient_or_zero(extra.half_packed as f64, extra.half_insts as f64)));
        add("est latency", count(latency));
        add("LSpillB", count(facts.spilled.0));
        add("LRefillB", count(facts.spilled.1));
        add("SSpillB", count(0));
        add("SRefillB", count(0));
        add("LowLmemSpillSize", count(0));
        add("FrameLmemSpillSize", count(facts.spill_size));
        add("SpillSize", count(facts.spill_size));
        add("LNonSpillB", count(extra.local_stored_bytes));
        add("LNonRefillB", count(extra.local_loaded_bytes));
        add("NonSpillSize", count(facts.variables_size));
        add("Occupancy", StatisticsFigure::Ratio(ratio));
        add("est numDivergentBranches", count(facts.divergent_branches));
        add("attributeMemUsage", count(0));
        add("programSize", count(facts.program_bytes));
        for (field, &number) in fields::fields_of_stage(self.stage).iter().zip(&self.counts) {
            add(&format!("est {field}"), count(number));
        }
        add("est pairs", count(0));
        let rounds = self.warps_per_cycle(f64::from(resident) / f64::from(machine.schedulers));
        add("issue thru", StatisticsFigure::Ratio(rounds * self.issued_insts));
        let busiest = |field: usize| self.busy_cycles_by_field[field].iter().copied().fold(0.0, f64::max) * rounds;
        for (number, field) in fields::fields_of_stage(self.stage).iter().enumerate() {
            add(&format!("{field} thru"), StatisticsFigure::Ratio(busiest(number)));
        }
        if self.stage == AllocationStage::Pre {
            let place = |name| fields::FIELDS_BEFORE_ALLOCATION.iter().position(|field| *field == name).map_or(0.0, busiest);
            add("texLoadStore thru", StatisticsFigure::Ratio(place("tex").max(place("loadStore"))));
        }
        let per_warp = (launch.registers * machine.threads_per_warp).next_multiple_of(machine.register_unit);
        add("reg thru", StatisticsFigure::Ratio(quotient_or_zero(f64::from(per_warp * resident), f64::from(machine.registers))));
        add("warp thru", StatisticsFigure::Ratio(ratio));
        let per_block = launch.static_shared + launch.dynamic_shared;
        let shared = u64::from(per_block) * u64::from(found.map_or(0, |found| found.blocks));
        add("SharedMem Alloc thru", StatisticsFigure::Ratio(quotient_or_zero(shared as f64, f64::from(machine.shared_per_sm))));
        add("partially unrolled loops", count(0));
        add("non-unrolled loops", count(self.loops.len() as u64));
        add("CB-Bound Tex", count(extra.constant_textures));
        add("UR-Bound Tex", count(extra.uniform_textures));
        add("Bindless Tex", count(extra.bindless_textures));
        add("Partially Bound Tex", count(0));
        add("UDP inst", count(extra.uniform_insts));
        add("numVecToURConverts inst", count(extra.copies_to_uniform));
        add("maxNumLiveValuesAtSuspend", count(facts.live_at_calls));
        add("Precise inst", count(extra.precise_insts));
        add("worstcaseLat", StatisticsFigure::Ratio(self.worst_latency));
        add("avgcaseLat", StatisticsFigure::Ratio(self.average_latency));
        add("instHint", count(self.instructions as u64));
        add("instPairs", count(0));
        list
    }

    /// Returns the throughput of a warp scheduler with `warps` resident warps: the number of warps that complete the function per cycle.
    fn warps_per_cycle(&self, warps: f64) -> f64 {
        let warps = warps.max(1.0);
        let busiest = self.total_busy_cycles.iter().copied().fold(self.issued_insts, f64::max);
        quotient_or_zero(warps, self.latency.max(warps * busiest))
    }
}

/// Returns `part / whole`, or 0 if `whole` is 0.
fn quotient_or_zero(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
