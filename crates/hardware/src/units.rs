//! Functional units of a multiprocessor: names, throughput, and their place in the scheduler's resource vector.
//!
//! The resource vector of the scheduler has ten entries, one for each [`Unit`]. The throughput of each unit is in `data/units.tbl`, in
//! lanes per clock of the whole multiprocessor, as in NVIDIA's guides; [`Rates`] has the figures of a target. Chips of one architecture can
//! differ much: double precision by a factor of 32. So every target has its own figures.
//!
//! The names in the last part are the pipes of the statistics in a published description of ptxas. They are data for output that follows
//! the description.

use oriole_isa::{Pipe, Properties, Target};

use crate::built_in;
use crate::facts::{MACHINES, UNIT_NAMES, UNIVERSAL_MACHINE};
use crate::machine::{Machine, MachineFact, machine_index};
use crate::sheet::{self, Fact, Reading};
use crate::tables::List;

/// The sheet with the figures.
const SHEET: &str = "data/units.tbl";

/// A functional unit: an entry of the scheduler's resource vector.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Unit {
    /// Integer arithmetic, logic, comparisons.
    Alu,
    /// Single precision and integer multiplication.
    Fma,
    /// Double precision.
    Double,
    /// Matrix products.
    Tensor,
    /// Loads and stores.
    LoadStore,
    /// Texture fetches.
    Texture,
    /// Branches, barriers, exits.
    Branch,
    /// Atomics and reductions in shared memory.
    Shared,
    /// Special functions and conversions.
    Special,
    /// The uniform datapath.
    Uniform,
}

/// Number of units.
pub const UNITS: usize = 10;

impl Unit {
    /// All units, in the order of the resource vector.
    pub const ALL: [Unit; UNITS] = [
        Unit::Alu,
        Unit::Fma,
        Unit::Double,
        Unit::Tensor,
        Unit::LoadStore,
        Unit::Texture,
        Unit::Branch,
        Unit::Shared,
        Unit::Special,
        Unit::Uniform,
    ];

    /// Returns the index in the resource vector.
    pub fn index(self) -> usize {
        self as usize
    }

    /// Returns the name in the class table.
    pub(crate) fn table_name(self) -> &'static str {
        UNIT_NAMES[self.index()]
    }

    /// Returns the short name of the pipe.
    pub fn name(self) -> &'static str {
        ["ALU", "FMA", "DFMA", "MMA", "LSU", "TEX", "BRA", "SMEM", "SFU", "UDP"][self.index()]
    }

    /// Returns the name of the pipe in the statistics.
    pub fn statistics_pipe(self) -> &'static str {
        ["alu", "fma", "fma64", "hmma16816", "lsu", "tex", "cbu", "lsu", "trancedental", "udp"][self.index()]
    }

    /// Returns the unit that an instruction with these properties occupies, or `None` if it only takes an issue slot.
    ///
    /// Asynchronous copies issue through the load/store unit. Packed half precision executes on the single-precision unit.
    pub fn of(properties: &Properties) -> Option<Unit> {
        Some(match properties.pipe {
            Pipe::Alu => Unit::Alu,
            Pipe::Fma | Pipe::Half => Unit::Fma,
            Pipe::Double => Unit::Double,
            Pipe::Xu => Unit::Special,
            Pipe::Lsu | Pipe::Async => Unit::LoadStore,
            Pipe::Tex => Unit::Texture,
            Pipe::Tensor => Unit::Tensor,
            Pipe::Uniform => Unit::Uniform,
            Pipe::Branch => Unit::Branch,
            Pipe::None => return None,
        })
    }
}

macro_rules! define_rates {
    ($($key:ident: $kind:ty, $meaning:literal;)*) => {
        /// Throughput of each kind of work, in lanes per clock of a multiprocessor. `None` where it is unknown.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub struct Rates {
            /// Name of the machine in the sheet, such as `sm_90a`.
            pub name: &'static str,
            $(#[doc = $meaning] pub $key: $kind,)*
            /// The facts as written in the sheet, in the order of the fields.
            pub(crate) facts: List<Fact>,
        }

        const MEANINGS: &[(&str, &str)] = &[$((stringify!($key), $meaning),)*];

        fn rates_of(name: &'static str, mut facts: Vec<Fact>) -> Result<Rates, String> {
            let order = |fact: &Fact| MEANINGS.iter().position(|(key, _)| *key == fact.key);
            facts.sort_by_key(order);
            Ok(Rates { name, $($key: sheet::value(SHEET, name, &facts, stringify!($key))?,)* facts: facts.into() })
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

unit_rates!(define_rates);

impl Rates {
    /// Returns the rates of a target, or the universal rates for a target without figures.
    pub fn of(target: Target) -> &'static Rates {
        Rates::at(machine_index(target))
    }

    /// Returns the rates of a machine.
    pub(crate) fn of_machine(machine: &Machine) -> &'static Rates {
        Rates::at(MACHINES.iter().position(|name| *name == machine.name).unwrap_or(UNIVERSAL_MACHINE))
    }

    fn at(index: usize) -> &'static Rates {
        &built_in::RATES[index]
    }

    /// Builds rates from facts, one for each field.
    pub(crate) fn from_facts(name: &'static str, facts: Vec<Fact>) -> Result<Rates, String> {
        rates_of(name, facts)
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
        // No texture instruction is selected.
        !["shift", "compare", "bit_count", "convert", "convert_to_integer", "vote", "texture", "tensor_f16"].contains(&key)
    }

    /// Returns all rates with their sources, in the order of the fields of [`Rates`].
    pub fn fields(&self) -> impl Iterator<Item = MachineFact> {
        MEANINGS.iter().filter_map(|&(key, meaning)| {
            let fact = self.facts.iter().find(|fact| fact.key == key)?;
            Some(MachineFact { key, value: fact.value, source: fact.source, meaning })
        })
    }

    /// Returns the throughput of the main work of a unit, in lanes per clock of a multiprocessor. `None` if it is unknown or depends on the
    /// instruction.
    pub fn lanes(&self, unit: Unit) -> Option<u32> {
        match unit {
            Unit::Alu => self.logic,
            Unit::Fma => self.fp32,
            Unit::Double => self.fp64,
            Unit::Tensor => None,
            Unit::LoadStore | Unit::Shared => self.load_store,
            Unit::Texture => self.texture,
            Unit::Branch => self.branch,
            Unit::Special => self.special,
            Unit::Uniform => self.uniform,
        }
    }

    /// Returns the number of cycles that a warp instruction occupies its unit in one sub-partition, at least 1. `None` if it is unknown.
    pub fn cycles(&self, machine: &Machine, unit: Unit) -> Option<u32> {
        let lanes = self.lanes(unit).filter(|lanes| *lanes > 0)?;
        Some((machine.threads_per_warp * machine.schedulers).div_ceil(lanes).max(1))
    }
}

/// Returns the name and description of each source.
pub fn sources() -> impl Iterator<Item = (&'static str, &'static str)> {
    built_in::RATE_SOURCES.iter().copied()
}

/// A pipe in the statistics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatisticsPipe {
    /// The name after register allocation.
    pub name: &'static str,
    /// The name before register allocation. `None` if it has none there.
    pub before_allocation: Option<&'static str>,
    /// The unit that the pipe belongs to. `None` if it belongs to none.
    pub unit: Option<Unit>,
}

const fn pipe(name: &'static str, before_allocation: Option<&'static str>, unit: Option<Unit>) -> StatisticsPipe {
    StatisticsPipe { name, before_allocation, unit }
}

/// The pipes of the statistics, in their order, with the spelling `trancedental` of the description. The description calls `fma2x` the
/// double-precision pipe, but that is `fma64`. Here `fma2x` counts packed single precision, which occupies both halves of the multiply-add
/// pipe.
pub const STATISTICS_PIPES: &[StatisticsPipe] = &[
    pipe("adu", None, Some(Unit::Branch)),
    pipe("alu", Some("fp"), Some(Unit::Alu)),
    pipe("cbu", Some("controlFlow"), Some(Unit::Branch)),
    pipe("fma2x", None, Some(Unit::Fma)),
    pipe("fma", Some("fp"), Some(Unit::Fma)),
    pipe("half", Some("half"), Some(Unit::Fma)),
    pipe("trancedental", Some("trancedental"), Some(Unit::Special)),
    pipe("ipa", Some("ipa"), None),
    pipe("lsu", Some("loadStore"), Some(Unit::LoadStore)),
    pipe("redux", None, None),
    pipe("schedDisp", None, None),
    pipe("tex", Some("tex"), Some(Unit::Texture)),
    pipe("ttu", None, None),
    pipe("udp", None, Some(Unit::Uniform)),
    pipe("imma16816", None, Some(Unit::Tensor)),
    pipe("imma16832", None, Some(Unit::Tensor)),
    pipe("immaSp8832", None, Some(Unit::Tensor)),
    pipe("immaSp16832", None, Some(Unit::Tensor)),
    pipe("dmma", None, Some(Unit::Tensor)),
    pipe("fma64", None, Some(Unit::Double)),
    pipe("hmma16816", None, Some(Unit::Tensor)),
    pipe("hmma16816f16", None, Some(Unit::Tensor)),
    pipe("hmma1688", None, Some(Unit::Tensor)),
    pipe("hmma1688f16", None, Some(Unit::Tensor)),
    pipe("hmmaSp1688", None, Some(Unit::Tensor)),
    pipe("hmmaSp1688f16", None, Some(Unit::Tensor)),
];

#[cfg(test)]
mod tests {
    use super::*;
    use oriole_isa::Opcode;

    fn rates(name: &str) -> &'static Rates {
        Rates::of_machine(Machine::named(name).unwrap())
    }

    #[test]
    fn units_are_in_the_order_of_their_numbers() {
        for (index, unit) in Unit::ALL.into_iter().enumerate() {
            assert_eq!(unit.index(), index);
            assert!(STATISTICS_PIPES.iter().any(|pipe| pipe.name == unit.statistics_pipe()), "{unit:?}");
        }
    }

    /// The instructions that the description lists for each unit, as far as they exist here.
    #[test]
    fn instructions_are_on_the_units_of_the_description() {
        let examples = [
            (Unit::Alu, "ISETP LOP3 SHF PRMT"),
            (Unit::Fma, "FADD FFMA FMUL"),
            (Unit::Double, "DADD DFMA DMUL DSETP"),
            (Unit::Tensor, "HMMA IMMA"),
            (Unit::LoadStore, "LDG STG LDL STL LDS STS LDGSTS"),
            (Unit::Texture, "TEX TLD TXQ TLD4"),
            (Unit::Branch, "BRA EXIT RET CALL"),
            (Unit::Special, "MUFU"),
            (Unit::Uniform, "UPLOP3 UISETP UIMAD"),
        ];
        for (unit, mnemonics) in examples {
            for mnemonic in mnemonics.split(' ') {
                let opcode = Opcode::find(mnemonic).unwrap_or_else(|| panic!("{mnemonic} is in the table"));
                assert_eq!(Unit::of(opcode.properties()), Some(unit), "{mnemonic}");
            }
        }
    }

    #[test]
    fn all_rates_have_known_sources() {
        for machine in Machine::all() {
            let rates = Rates::of_machine(machine);
            assert_eq!(rates.name, machine.name);
            assert_eq!(rates.fields().count(), MEANINGS.len());
            for field in rates.fields() {
                assert!(sources().any(|(name, _)| name == field.source), "{}: {}", machine.name, field.key);
                assert_eq!(field.value == "?", field.source == "unknown", "{}: {}", machine.name, field.key);
            }
        }
    }

    #[test]
    fn universal_rates_are_the_minimum() {
        for machine in Machine::all() {
            for (least, other) in rates("universal").fields().zip(Rates::of_machine(machine).fields()) {
                if let (Ok(least), Ok(rate)) = (least.value.parse::<u32>(), other.value.parse::<u32>()) {
                    assert!(least <= rate, "{}: {}", machine.name, other.key);
                }
            }
        }
    }

    /// The ratio of FP32 to FP64 throughput from table 30 of the CUDA Programming Guide 13.
    #[test]
    fn double_precision_ratio_matches_the_guide() {
        let guide = [
            ("sm_75", 32),
            ("sm_80", 2),
            ("sm_86", 64),
            ("sm_87", 64),
            ("sm_89", 64),
            ("sm_90", 2),
            ("sm_100", 2),
            ("sm_103", 64),
            ("sm_110", 64),
            ("sm_120", 64),
            ("sm_121", 64),
        ];
        for (name, ratio) in guide {
            let rates = rates(name);
            assert_eq!(rates.fp32.unwrap(), ratio * rates.fp64.unwrap(), "{name}");
        }
    }

    #[test]
    fn rates_convert_to_scheduler_cycles() {
        let cycles = |name, unit| rates(name).cycles(Machine::named(name).unwrap(), unit);
        assert_eq!(cycles("sm_90", Unit::Double), Some(2));
        assert_eq!(cycles("sm_86", Unit::Double), Some(64));
        assert_eq!(cycles("sm_80", Unit::Fma), Some(2));
        assert_eq!(cycles("sm_90", Unit::Tensor), None);
        assert_eq!(cycles("sm_70", Unit::Uniform), None);
    }
}
