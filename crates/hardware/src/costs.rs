//! What time is spent on beside latencies and issue rates: figures for estimates, in `data/costs.tbl`.

use std::sync::OnceLock;

use oriole_isa::Target;

use crate::facts::MACHINES;
use crate::machine::{Field, machine_index};
use crate::sheet::{Fact, Sheet};

const SHEET: Sheet = Sheet { file: "data/costs.tbl", text: include_str!("../data/costs.tbl") };

macro_rules! define_costs {
    ($($key:ident: $kind:ty, $meaning:literal;)*) => {
        /// Costs on the largest common GPU of a target.
        #[derive(Clone, PartialEq, Debug)]
        pub struct Costs {
            /// The machine's name in the sheet, such as `sm_90a`.
            pub name: &'static str,
            $(#[doc = $meaning] pub $key: $kind,)*
            facts: Vec<Fact>,
        }

        const MEANINGS: &[(&str, &str)] = &[$((stringify!($key), $meaning),)*];

        fn costs_of(name: &'static str, facts: Vec<Fact>) -> Result<Costs, String> {
            Ok(Costs { name, $($key: SHEET.value(name, &facts, stringify!($key))?,)* facts })
        }
    };
}

timing_costs!(define_costs);

impl Costs {
    /// The costs of a target; the universal ones for targets without figures.
    pub fn of(target: Target) -> &'static Costs {
        static READ: [OnceLock<Costs>; MACHINES.len()] = [const { OnceLock::new() }; MACHINES.len()];
        let index = machine_index(target);
        let read = || SHEET.facts(MACHINES[index]).and_then(|facts| costs_of(MACHINES[index], facts));
        READ[index].get_or_init(|| read().expect("the build has read every machine"))
    }

    /// All costs with their sources, in the order of the fields.
    pub fn fields(&self) -> impl Iterator<Item = Field> {
        MEANINGS.iter().filter_map(|&(key, meaning)| {
            let fact = self.facts.iter().find(|fact| fact.key == key)?;
            Some(Field { key, value: fact.value, source: fact.source, meaning })
        })
    }
}

/// The sources of the figures: name and description.
pub fn sources() -> impl Iterator<Item = (&'static str, &'static str)> {
    SHEET.sources()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_costs_with_known_sources() {
        for target in Target::all() {
            let costs = Costs::of(target);
            assert_eq!(costs.fields().count(), MEANINGS.len());
            for field in costs.fields() {
                assert!(sources().any(|(name, _)| name == field.source), "{target}: {}", field.key);
            }
        }
    }

    #[test]
    fn rates_of_the_gpu_can_be_shared_out() {
        for target in Target::all() {
            let costs = Costs::of(target);
            let rates = [costs.l2_sectors_gpu, costs.l2_lines_gpu, costs.dram_sectors_gpu, costs.atomic_sectors_gpu];
            assert!(rates.iter().all(|&rate| rate > 0.0) && costs.multiprocessors > 0 && costs.register_banks > 0, "{target}");
            assert_eq!(costs.line_bytes % costs.sector_bytes, 0, "{target}");
        }
    }
}
