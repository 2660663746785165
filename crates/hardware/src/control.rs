//! How control words are written for a target: `data/control.tbl`.
//!
//! Latencies say what must lie between two instructions ([`Model`]); this says the rest: what an instruction wants whatever follows it,
//! which stalls yield, how many scoreboards there are, who reads through the reuse cache.

use std::sync::OnceLock;

use oriole_isa::Opcode;

use crate::built_in;
use crate::class::{Class, Classes};
use crate::facts::MACHINES;
use crate::machine::{Field, Machine};
use crate::model::Model;
use crate::sheet::Fact;
use crate::tables::List;
use crate::units::Rates;

macro_rules! define_control {
    ($($key:ident: $kind:ty, $meaning:literal;)*) => {
        /// The facts of a machine about control words.
        #[derive(Clone, PartialEq, Debug)]
        pub struct Facts {
            /// The machine's name in the sheet, such as `sm_90a`.
            pub name: &'static str,
            $(#[doc = $meaning] pub $key: $kind,)*
            /// As they stand in the sheet, in the order of the fields.
            pub(crate) facts: List<Fact>,
        }

        const MEANINGS: &[(&str, &str)] = &[$((stringify!($key), $meaning),)*];
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
        static MADE: [OnceLock<ControlRules>; MACHINES.len()] = [const { OnceLock::new() }; MACHINES.len()];
        let known = |name: &&str| MACHINES.iter().position(|machine| machine == name);
        let index = model.table().targets.iter().find_map(known).unwrap_or(MACHINES.len() - 1);
        MADE[index].get_or_init(|| ControlRules::new(&built_in::CONTROL[index], Machine::at(index)))
    }

    fn new(facts: &Facts, machine: &Machine) -> ControlRules {
        let rates = Rates::of_machine(machine);
        let all = || Classes::get().all();
        let cache = |class: Class| {
            let of = |name: &str| facts.reuse_caches.iter().find(|cache| cache.0 == name).map(|cache| cache.1 as u8);
            of(class.name()).or_else(|| of(class.unit().table_name()))
        };
        let pace = |class: Class| {
            let unit = facts.paced_units.iter().position(|unit| class.unit().table_name() == *unit)?;
            let rate = class.throughput();
            let special = facts.paces.iter().find(|(name, _)| *name == rate.name()).map(|&(_, cycles)| cycles);
            let cycles = special.or_else(|| rate.cycles(rates, machine))?;
            Some(Pace { unit: unit as u8, cycles: cycles.min(facts.pace_cap) as u8 })
        };
        ControlRules {
            facts: facts.clone(),
            scoreboards: machine.scoreboards as usize,
            wants: wants(facts),
            barrier_free: all().map(|class| facts.barrier_free_units.contains(&class.unit().table_name())).collect(),
            caches: all().map(cache).collect(),
            paces: all().map(pace).collect(),
        }
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

/// What each opcode wants.
fn wants(facts: &Facts) -> Vec<Wants> {
    let stall = |cycles: u32| cycles.min(facts.stall_cap) as u8;
    let usual = Wants { least_stall: stall(facts.least_stall), open_stall: false, settles: false, fences: false };
    let mut all = vec![usual; Opcode::all().count()];
    let mut change = |mnemonic: &str, how: &dyn Fn(&mut Wants)| Opcode::find(mnemonic).map(|opcode| how(&mut all[opcode as usize]));
    // The first line of a mnemonic counts.
    for &(mnemonic, cycles) in facts.least_stalls.iter().rev() {
        change(mnemonic, &|wants| wants.least_stall = stall(cycles));
    }
    for mnemonic in facts.open_stalls.iter() {
        change(mnemonic, &|wants| wants.open_stall = true);
    }
    for mnemonic in facts.settling.iter() {
        change(mnemonic, &|wants| wants.settles = true);
    }
    for mnemonic in facts.fences.iter() {
        change(mnemonic, &|wants| wants.fences = true);
    }
    all
}

/// The sources of the facts: name and description.
pub fn sources() -> impl Iterator<Item = (&'static str, &'static str)> {
    built_in::CONTROL_SOURCES.iter().copied()
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
            let named = lists.into_iter().flat_map(|list| list.iter()).chain(facts.least_stalls.iter().map(|(mnemonic, _)| mnemonic));
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
