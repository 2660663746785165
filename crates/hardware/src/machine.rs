//! Limits of a multiprocessor of each target.
//!
//! The figures are in `data/machines.tbl`, each with its source; `facts.rs` lists the keys and their meanings. The build makes a constant
//! [`Machine`] of each. A target whose suffix the sheet does not list (such as `sm_100a`) uses the machine without the suffix.
//!
//! Fields whose names start with `page_` are not limits of the hardware. They are parameters of the scheduler in a published description of
//! ptxas: the backend for the target, and whether it schedules after register allocation.
//!
//! ```
//! use oriole_hardware::machine::Machine;
//! use oriole_isa::Target;
//!
//! let hopper = Machine::of(Target::parse("sm_90a").unwrap());
//! assert_eq!(hopper.resident_warps, 64);
//! let fact = hopper.fields().find(|field| field.key == "shared_per_sm").unwrap();
//! assert_eq!((fact.value, fact.source), ("228K", "measured"));
//! ```

use oriole_isa::Target;
use oriole_support::Suffix;

use crate::built_in;
use crate::facts::{MACHINES, UNIVERSAL_MACHINE};
use crate::sheet::{self, Fact, Reading};
use crate::tables::List;

/// The sheet with the figures.
const SHEET: &str = "data/machines.tbl";

/// One fact about a machine, for printing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MachineFact {
    /// The key, as in the sheet and in [`Machine`].
    pub key: &'static str,
    /// The value, as written in the sheet.
    pub value: &'static str,
    /// The name of the source; [`sources`] describes it.
    pub source: &'static str,
    /// The meaning of the key.
    pub meaning: &'static str,
}

macro_rules! define_machine {
    ($($key:ident: $kind:ty, $meaning:literal;)*) => {
        /// The limits of a multiprocessor.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub struct Machine {
            /// Name of the machine in the sheet, such as `sm_90a`.
            pub name: &'static str,
            $(#[doc = $meaning] pub $key: $kind,)*
            /// The facts as written in the sheet, in the order of the fields.
            pub(crate) facts: List<Fact>,
        }

        const MEANINGS: &[(&str, &str)] = &[$((stringify!($key), $meaning),)*];

        fn machine_of(name: &'static str, mut facts: Vec<Fact>) -> Result<Machine, String> {
            let order = |fact: &Fact| MEANINGS.iter().position(|(key, _)| *key == fact.key);
            facts.sort_by_key(order);
            Ok(Machine { name, $($key: sheet::value(SHEET, name, &facts, stringify!($key))?,)* facts: facts.into() })
        }

        /// Checks whether a value can be parsed for a key. Returns `None` if there is no such key.
        fn check_value(key: &str, value: &'static str) -> Option<Result<(), String>> {
            match key {
                $(stringify!($key) => Some(<$kind as Reading>::read(value).map(drop)),)*
                _ => None,
            }
        }
    };
}

machine_facts!(define_machine);

/// Returns the index of a target's machine in [`MACHINES`].
pub(crate) fn machine_index(target: Target) -> usize {
    let position = |suffix| built_in::MACHINE_TARGETS.iter().position(|machine| *machine == (target.number(), suffix));
    position(target.suffix()).or_else(|| position(Suffix::Plain)).unwrap_or(UNIVERSAL_MACHINE)
}

impl Machine {
    /// Returns the machine of a target, or the universal machine for a target without figures.
    pub fn of(target: Target) -> &'static Machine {
        Machine::at(machine_index(target))
    }

    /// Returns the machine with a name in the sheet, such as `sm_90` or `universal`.
    pub fn named(name: &str) -> Option<&'static Machine> {
        MACHINES.iter().position(|machine| *machine == name).map(Machine::at)
    }

    /// Returns all machines of the sheet, the universal machine last.
    pub fn all() -> impl Iterator<Item = &'static Machine> {
        (0..MACHINES.len()).map(Machine::at)
    }

    pub(crate) fn at(index: usize) -> &'static Machine {
        &built_in::MACHINES[index]
    }

    /// Builds a machine from facts, one for each field.
    pub(crate) fn from_facts(name: &'static str, facts: Vec<Fact>) -> Result<Machine, String> {
        machine_of(name, facts)
    }

    /// Checks whether a value can be parsed for a field. Returns `None` if there is no such field.
    pub(crate) fn check(key: &str, value: &'static str) -> Option<Result<(), String>> {
        check_value(key, value)
    }

    /// Returns the names of all fields.
    pub(crate) fn keys() -> impl Iterator<Item = &'static str> {
        MEANINGS.iter().map(|(key, _)| *key)
    }

    /// Returns whether a decision of the compiler depends on a field.
    pub(crate) fn is_used(key: &str) -> bool {
        const UNUSED: [&str; 10] = [
            "architecture",
            "issue_per_scheduler",
            "shared_per_block",
            "shared_banks",
            "l1_and_shared",
            // Only a preferred carve-out needs the list, and the compiler knows of no preference.
            "carve_outs",
            "convergence_barriers",
            "predicates",
            "uniform_predicates",
            "uniform_registers",
        ];
        !UNUSED.contains(&key)
    }

    /// Returns all facts, in the order of the fields of [`Machine`].
    pub fn fields(&self) -> impl Iterator<Item = MachineFact> {
        MEANINGS.iter().filter_map(|&(key, meaning)| {
            let fact = self.facts.iter().find(|fact| fact.key == key)?;
            Some(MachineFact { key, value: fact.value, source: fact.source, meaning })
        })
    }

    /// Returns the number of registers of one sub-partition.
    pub fn registers_per_scheduler(&self) -> u32 {
        self.registers / self.schedulers
    }

    /// Returns the number of registers that a thread gets at once: its share of the unit of a warp.
    pub fn register_unit_of_thread(&self) -> u32 {
        self.register_unit / self.threads_per_warp
    }

    /// Returns the largest number of registers of a thread with which the registers do not limit the number of resident warps: 32 where
    /// 2048 threads share 65536 registers.
    pub fn registers_at_full_occupancy(&self) -> u32 {
        let unit = self.register_unit_of_thread();
        self.registers / self.resident_threads / unit * unit
    }

    /// Returns the maximum number of resident warps per scheduler.
    pub fn warps_per_scheduler(&self) -> u32 {
        self.resident_warps / self.schedulers
    }
}

/// Returns the name and description of each source.
pub fn sources() -> impl Iterator<Item = (&'static str, &'static str)> {
    built_in::MACHINE_SOURCES.iter().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_a_machine() {
        for target in Target::all_with_machine_code() {
            let machine = Machine::of(target);
            assert!(target.to_string().starts_with(machine.name), "{target} is {}", machine.name);
        }
        assert_eq!(Machine::named("sm_90a").map(|machine| machine.name), Some("sm_90a"));
        assert_eq!(Machine::named("sm_91"), None);
        assert_eq!(Machine::at(UNIVERSAL_MACHINE).name, "universal");
    }

    #[test]
    fn all_fields_are_listed_with_known_sources() {
        for machine in Machine::all() {
            assert_eq!(machine.fields().count(), MEANINGS.len());
            for field in machine.fields() {
                assert!(sources().any(|(name, _)| name == field.source), "{}: {}", machine.name, field.key);
            }
        }
    }

    /// Resident blocks, warps and threads from table 30 of the CUDA Programming Guide 13, and from version 12 for 7.0.
    #[test]
    fn residency_matches_the_cuda_guide() {
        let guide = [
            ("sm_70", 32, 64, 2048),
            ("sm_75", 16, 32, 1024),
            ("sm_80", 32, 64, 2048),
            ("sm_86", 16, 48, 1536),
            ("sm_87", 16, 48, 1536),
            ("sm_89", 24, 48, 1536),
            ("sm_90", 32, 64, 2048),
            ("sm_100", 32, 64, 2048),
            ("sm_103", 32, 64, 2048),
            ("sm_110", 24, 48, 1536),
            ("sm_120", 24, 48, 1536),
            ("sm_121", 24, 48, 1536),
        ];
        for (name, blocks, warps, threads) in guide {
            let machine = Machine::named(name).unwrap();
            assert_eq!((machine.resident_blocks, machine.resident_warps, machine.resident_threads), (blocks, warps, threads), "{name}");
        }
    }

    #[test]
    fn figures_of_a_machine_agree_with_each_other() {
        for machine in Machine::all() {
            let name = machine.name;
            assert_eq!(machine.resident_warps * machine.threads_per_warp, machine.resident_threads, "{name}");
            assert_eq!(machine.resident_warps % machine.schedulers, 0, "{name}");
            assert!(machine.carve_outs.is_sorted(), "{name}");
            assert_eq!(machine.carve_outs.last(), Some(&machine.shared_per_sm), "{name}");
            assert!(machine.l1_and_shared > machine.shared_per_sm, "{name}");
            assert!(machine.shared_per_block_opt_in + machine.shared_reserved <= machine.shared_per_sm, "{name}");
            assert!(machine.shared_per_block <= machine.shared_per_block_opt_in, "{name}");
            assert!(machine.barriers_per_sm >= machine.barriers_per_block, "{name}");
        }
    }

    #[test]
    fn universal_machine_is_within_all_limits() {
        let least = Machine::at(UNIVERSAL_MACHINE);
        for machine in Machine::all() {
            let pairs = [
                (least.resident_warps, machine.resident_warps),
                (least.resident_blocks, machine.resident_blocks),
                (least.registers, machine.registers),
                (least.shared_per_sm, machine.shared_per_sm),
                (least.shared_per_block_opt_in, machine.shared_per_block_opt_in),
                (least.barriers_per_sm, machine.barriers_per_sm),
                (least.uniform_registers, machine.uniform_registers),
                (machine.shared_unit, least.shared_unit),
                (machine.shared_reserved, least.shared_reserved),
            ];
            assert!(pairs.iter().all(|(low, high)| low <= high), "{}", machine.name);
        }
    }
}
