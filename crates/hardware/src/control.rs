//! How control words are written for a target: `data/control.tbl`.
//!
//! Latencies say what must lie between two instructions ([`Model`]); this says the rest: what an instruction wants whatever follows it,
//! which stalls yield, how many scoreboards there are, who reads through the reuse cache.

use std::sync::OnceLock;

use oriole_isa::Opcode;

use crate::class::{Class, Classes};
use crate::facts::MACHINES;
use crate::machine::{Field, Machine};
use crate::model::Model;
use crate::rate::ThroughputClass;
use crate::sheet::{Fact, Sheet};
use crate::units::Rates;

const SHEET: Sheet = Sheet { file: "data/control.tbl", text: include_str!("../data/control.tbl") };

macro_rules! define_control {
    ($($key:ident: $kind:ty, $meaning:literal;)*) => {
        /// The facts of a machine about control words.
        #[derive(Clone, PartialEq, Debug)]
        pub struct Facts {
            $(#[doc = $meaning] pub $key: $kind,)*
            facts: Vec<Fact>,
        }

        const MEANINGS: &[(&str, &str)] = &[$((stringify!($key), $meaning),)*];

        fn facts_of(name: &'static str, facts: Vec<Fact>) -> Result<Facts, String> {
            Ok(Facts { $($key: SHEET.value(name, &facts, stringify!($key))?,)* facts })
        }
    };
}

control_facts!(define_control);

/// What an opcode wants of its control word, whatever comes behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wants {
    /// Cycles until the next instruction, at least.
    pub least_stall: u8,
    /// No stall count at all: the warp goes on when the scheduler comes back to it.
    pub open_stall: bool,
    /// Everything in flight has to be done before it.
    pub settles: bool,
    /// The next instruction waits for it.
    pub fences: bool,
}

/// How control words are written.
#[derive(Clone, PartialEq, Debug)]
pub struct ControlRules {
    /// The facts they come from.
    pub facts: Facts,
    /// Scoreboards of a warp.
    pub scoreboards: usize,
    wants: Vec<Wants>,
    /// By class.
    barrier_free: Vec<bool>,
    caches: Vec<Option<u8>>,
    paces: Vec<Option<Pace>>,
}

/// The unit that an instruction goes to, and for how long that is busy with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// Number of the unit among those that count.
    pub unit: u8,
    /// Cycles.
    pub cycles: u8,
}

impl ControlRules {
    /// The rules for the targets of a model; those of the universal machine for a model that names none.
    pub fn of(model: &Model) -> &'static ControlRules {
        static READ: [OnceLock<ControlRules>; MACHINES.len()] = [const { OnceLock::new() }; MACHINES.len()];
        let known = |name: &String| MACHINES.iter().position(|machine| machine == name);
        let index = model.table().targets.iter().find_map(known).unwrap_or(MACHINES.len() - 1);
        READ[index].get_or_init(|| ControlRules::new(MACHINES[index]).expect("the build has read every machine"))
    }

    fn new(name: &'static str) -> Result<ControlRules, String> {
        let facts = facts_of(name, SHEET.facts(name)?)?;
        let is_in = |list: &[&str], opcode: Opcode| list.contains(&opcode.mnemonic());
        let wants = Opcode::all().map(|opcode| {
            let least = facts.least_stalls.iter().find(|(mnemonic, _)| *mnemonic == opcode.mnemonic()).map(|&(_, cycles)| cycles);
            Wants {
                least_stall: least.unwrap_or(facts.least_stall).min(facts.stall_cap) as u8,
                open_stall: is_in(&facts.open_stalls, opcode),
                settles: is_in(&facts.settling, opcode),
                fences: is_in(&facts.fences, opcode),
            }
        });
        let wants = wants.collect();
        let of_units = |units: &[&str]| {
            let is_in = |class: Class| class.attribute("unit").is_some_and(|unit| units.contains(&unit));
            Classes::get().all().map(is_in).collect::<Vec<bool>>()
        };
        let barrier_free = of_units(&facts.barrier_free_units);
        let cache = |class: Class| {
            let of =
                |name: Option<&str>| facts.reuse_caches.iter().find(|(cache, _)| Some(*cache) == name).map(|&(_, number)| number as u8);
            of(Some(class.name())).or_else(|| of(class.attribute("unit")))
        };
        let caches = Classes::get().all().map(cache).collect();
        let machine = Machine::named(name).ok_or_else(|| format!("there is no machine `{name}`"))?;
        let pace = |class: Class| {
            let unit = facts.paced_units.iter().position(|unit| class.attribute("unit") == Some(unit))?;
            let rate = ThroughputClass::of(class);
            let special = facts.paces.iter().find(|(name, _)| *name == rate.name()).map(|&(_, cycles)| cycles);
            let cycles = special.or_else(|| rate.cycles(Rates::of_machine(machine), machine))?;
            Some(Pace { unit: unit as u8, cycles: cycles.min(facts.pace_cap) as u8 })
        };
        let paces = Classes::get().all().map(pace).collect();
        Ok(ControlRules { facts, scoreboards: machine.scoreboards as usize, wants, barrier_free, caches, paces })
    }

    /// What an opcode wants.
    #[inline]
    pub fn wants(&self, opcode: Opcode) -> Wants {
        self.wants[opcode as usize]
    }

    /// Whether instructions of a class may follow a barrier of the block at once.
    #[inline]
    pub fn may_follow_barrier(&self, class: Class) -> bool {
        self.barrier_free[class.index()]
    }

    /// The unit of a class, if instructions for it keep their distance.
    #[inline]
    pub fn pace(&self, class: Class) -> Option<Pace> {
        self.paces[class.index()]
    }

    /// Units that count.
    pub fn paced_units(&self) -> usize {
        self.facts.paced_units.len()
    }

    /// The reuse cache that instructions of a class read through, by number.
    #[inline]
    pub fn reuse_cache(&self, class: Class) -> Option<u8> {
        self.caches[class.index()]
    }

    /// The bank of a general register.
    #[inline]
    pub fn register_bank(&self, register: u16) -> u8 {
        (u32::from(register) % self.facts.register_banks) as u8
    }

    /// All facts with their sources, in the order of the fields.
    pub fn fields(&self) -> impl Iterator<Item = Field> {
        MEANINGS.iter().filter_map(|&(key, meaning)| {
            let fact = self.facts.facts.iter().find(|fact| fact.key == key)?;
            Some(Field { key, value: fact.value, source: fact.source, meaning })
        })
    }
}

/// The sources of the facts: name and description.
pub fn sources() -> impl Iterator<Item = (&'static str, &'static str)> {
    SHEET.sources()
}

#[cfg(test)]
mod tests {
    use super::*;
    use oriole_isa::Target;

    #[test]
    fn every_target_has_rules_with_known_sources() {
        for target in Target::all() {
            let rules = ControlRules::of(Model::of(target));
            assert_eq!(rules.fields().count(), MEANINGS.len());
            assert!(rules.fields().all(|field| sources().any(|(name, _)| name == field.source)), "{target}");
        }
    }

    #[test]
    fn every_mnemonic_of_the_sheet_is_one() {
        for target in Target::all() {
            let facts = &ControlRules::of(Model::of(target)).facts;
            let lists = [&facts.open_stalls, &facts.settling, &facts.fences];
            let named = lists.into_iter().flatten().chain(facts.least_stalls.iter().map(|(mnemonic, _)| mnemonic));
            for mnemonic in named {
                assert!(Opcode::find(mnemonic).is_some(), "{target}: {mnemonic}");
            }
        }
    }

    #[test]
    fn branches_stall_and_sums_do_not() {
        let rules = ControlRules::of(Model::of(Target::parse("sm_90a").unwrap()));
        assert_eq!((rules.wants(Opcode::BRA).least_stall, rules.wants(Opcode::IADD3).least_stall), (5, 1));
        assert!(rules.wants(Opcode::CALL).settles && rules.wants(Opcode::MEMBAR).fences && rules.scoreboards == 6);
    }
}
