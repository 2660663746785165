//! Costs for time estimates besides latencies and issue rates (caches, memory, barriers, launches), from `data/costs.tbl`.

use oriole_isa::Target;

use crate::built_in;
use crate::machine::{MachineFact, machine_index};
use crate::sheet::Fact;
use crate::tables::List;

macro_rules! define_costs {
    ($($key:ident: $kind:ty, $meaning:literal;)*) => {
        /// Costs on the largest common GPU of a target.
        #[derive(Clone, PartialEq, Debug)]
        pub struct Costs {
            /// Name of the machine in the sheet, such as `sm_90a`.
            pub name: &'static str,
            $(#[doc = $meaning] pub $key: $kind,)*
            /// The facts as written in the sheet, in the order of the fields.
            pub(crate) facts: List<Fact>,
        }

        const MEANINGS: &[(&str, &str)] = &[$((stringify!($key), $meaning),)*];
    };
}

timing_costs!(define_costs);

impl Costs {
    /// Returns the costs of a target, or the universal costs for a target without figures.
    pub fn of(target: Target) -> &'static Costs {
        &built_in::COSTS[machine_index(target)]
    }

    /// Returns all costs with their sources, in the order of the fields.
    pub fn fields(&self) -> impl Iterator<Item = MachineFact> {
        MEANINGS.iter().filter_map(|&(key, meaning)| {
            let fact = self.facts.iter().find(|fact| fact.key == key)?;
            Some(MachineFact { key, value: fact.value, source: fact.source, meaning })
        })
    }
}

/// Returns the name and description of each source.
pub fn sources() -> impl Iterator<Item = (&'static str, &'static str)> {
    built_in::COST_SOURCES.iter().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_costs_with_known_sources() {
        for target in Target::all_with_machine_code() {
            let costs = Costs::of(target);
            assert_eq!(costs.fields().count(), MEANINGS.len());
            for field in costs.fields() {
                assert!(sources().any(|(name, _)| name == field.source), "{target}: {}", field.key);
            }
        }
    }

    #[test]
    fn gpu_rates_are_positive() {
        for target in Target::all_with_machine_code() {
            let costs = Costs::of(target);
            let rates = [costs.l2_sectors_gpu, costs.l2_lines_gpu, costs.dram_sectors_gpu, costs.atomic_sectors_gpu];
            assert!(rates.iter().all(|&rate| rate > 0.0) && costs.multiprocessors > 0 && costs.register_banks > 0, "{target}");
            assert_eq!(costs.line_bytes % costs.sector_bytes, 0, "{target}");
        }
    }
}
