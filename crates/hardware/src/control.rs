//! Rules for the control words of a target, from `data/control.tbl`.
//!
//! Latencies define the distance between two dependent instructions ([`Model`]). This module has the other rules: requirements of a single
//! opcode regardless of its successors, the stall counts that need a yield, the number of scoreboards, and which classes use a reuse cache.

use std::sync::OnceLock;

use oriole_isa::Opcode;

use crate::built_in;
use crate::class::{Classes, SchedClass};
use crate::facts::{MACHINES, UNIVERSAL_MACHINE};
use crate::file::Profile;
use crate::machine::{Machine, MachineFact};
use crate::model::Model;
use crate::sheet::Fact;
use crate::tables::List;
use crate::units::Rates;

macro_rules! define_control {
    ($($key:ident: $kind:ty, $meaning:literal;)*) => {
        /// The facts about control words of a machine.
        #[derive(Clone, PartialEq, Debug)]
        pub struct ControlFacts {
            /// Name of the machine in the sheet, such as `sm_90a`.
            pub name: &'static str,
            $(#[doc = $meaning] pub $key: $kind,)*
            /// The facts as written in the sheet, in the order of the fields.
            pub(crate) facts: List<Fact>,
        }

        const MEANINGS: &[(&str, &str)] = &[$((stringify!($key), $meaning),)*];
    };
}

control_facts!(define_control);

/// Requirements of an opcode on its control word, regardless of the following instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpcodeRequirements {
    /// Minimum number of cycles until the next instruction issues.
    pub least_stall: u8,
    /// Whether the stall count is 0 with yield: the warp continues when the scheduler selects it again.
    pub yields_with_stall_0: bool,
    /// Whether everything in flight must be complete before the instruction issues.
    pub waits_for_all_in_flight: bool,
    /// Whether the next instruction waits for this one.
    pub next_waits: bool,
    /// Whether the next instruction waits until this one has read its sources; the next branch if a uniform predicate guards this one.
    pub reads_late: bool,
}

/// The rules for the control words of a target.
#[derive(Clone, PartialEq, Debug)]
pub struct ControlRules {
    /// The facts that the rules are derived from.
    pub facts: ControlFacts,
    /// Number of scoreboards of a warp.
    pub scoreboards: usize,
    /// Whether two instructions of a warp can issue in one cycle; the first one of such a pair has a stall of 0 cycles.
    pub dual_issue: bool,
    /// Requirements of each opcode.
    requirements: Vec<OpcodeRequirements>,
    /// For each class, whether its instructions may directly follow a block barrier.
    barrier_free: Vec<bool>,
    /// For each class, the reuse cache that it reads through.
    caches: Vec<Option<u8>>,
    /// For each class, its paced unit and the cycles on it.
    unit_occupations: Vec<Option<UnitOccupation>>,
}

/// The paced unit of an instruction, and how long the instruction occupies it. A second instruction is kept away from a paced unit while
/// the unit is busy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnitOccupation {
    /// Index of the unit among the paced units.
    pub unit: u8,
    /// Cycles that the unit is busy.
    pub cycles: u8,
}

impl ControlRules {
    /// Returns the rules for the targets of a model, or those of the universal machine if the model names no target.
    pub fn of(model: &Model) -> &'static ControlRules {
        static MADE: [OnceLock<ControlRules>; MACHINES.len()] = [const { OnceLock::new() }; MACHINES.len()];
        let index = machine_index_of(model);
        let machine = Machine::at(index);
        MADE[index].get_or_init(|| ControlRules::new(&built_in::CONTROL[index], machine, Rates::of_machine(machine)))
    }

    /// Returns the rules for the target of a profile: those of its model, with every limit and rate that the profile changes.
    pub(crate) fn of_profile(profile: &Profile) -> ControlRules {
        let index = machine_index_of(&profile.model);
        let machine = Machine::at(index);
        let facts = changed_facts(&machine.facts, &Machine::of(profile.target).facts, &profile.machine.facts);
        let rates = changed_facts(&Rates::of_machine(machine).facts, &Rates::of(profile.target).facts, &profile.rates.facts);
        // The profile was checked, so its facts can be parsed.
        let machine = Machine::from_facts(machine.name, facts).unwrap_or_else(|_| profile.machine.clone());
        let rates = Rates::from_facts(machine.name, rates).unwrap_or_else(|_| profile.rates.clone());
        ControlRules::new(&built_in::CONTROL[index], &machine, &rates)
    }

    fn new(facts: &ControlFacts, machine: &Machine, rates: &Rates) -> ControlRules {
        let facts = &ControlFacts { stall_cap: facts.stall_cap.min(machine.max_stall), ..facts.clone() };
        let all = || Classes::get().all();
        let cache = |class: SchedClass| {
            let of = |name: &str| facts.reuse_caches.iter().find(|cache| cache.0 == name).map(|cache| cache.1 as u8);
            // An entry for the class has precedence over one for its unit.
            of(class.name()).or_else(|| of(class.unit().table_name()))
        };
        let unit_occupation = |class: SchedClass| {
            let unit = facts.paced_units.iter().position(|unit| class.unit().table_name() == *unit)?;
            let rate = class.throughput();
            let special = facts.paces.iter().find(|(name, _)| *name == rate.name()).map(|&(_, cycles)| cycles);
            // Some units are slower than their published rate.
            let cycles = special.or_else(|| rate.cycles(rates, machine))?;
            Some(UnitOccupation { unit: unit as u8, cycles: cycles.min(facts.pace_cap) as u8 })
        };
        ControlRules {
            facts: facts.clone(),
            scoreboards: machine.scoreboards as usize,
            dual_issue: machine.dual_issue,
            requirements: requirements(facts),
            barrier_free: all().map(|class| facts.barrier_free_units.contains(&class.unit().table_name())).collect(),
            caches: all().map(cache).collect(),
            unit_occupations: all().map(unit_occupation).collect(),
        }
    }

    /// Returns the requirements of an opcode.
    #[inline]
    pub fn requirements(&self, opcode: Opcode) -> OpcodeRequirements {
        self.requirements[opcode as usize]
    }

    /// Returns whether instructions of a class may directly follow a block barrier.
    #[inline]
    pub fn may_follow_barrier(&self, class: SchedClass) -> bool {
        self.barrier_free[class.index()]
    }

    /// Returns the paced unit of a class, or `None` if its unit is not paced.
    #[inline]
    pub fn unit_occupation(&self, class: SchedClass) -> Option<UnitOccupation> {
        self.unit_occupations[class.index()]
    }

    /// Returns the number of paced units.
    pub fn paced_units(&self) -> usize {
        self.facts.paced_units.len()
    }

    /// Returns the number of the reuse cache that instructions of a class read through, or `None` if they use none.
    #[inline]
    pub fn reuse_cache(&self, class: SchedClass) -> Option<u8> {
        self.caches[class.index()]
    }

    /// Returns the bank of a general register.
    #[inline]
    pub fn register_bank(&self, register: u16) -> u8 {
        (u32::from(register) % self.facts.register_banks) as u8
    }

    /// Returns all facts with their sources, in the order of the fields.
    pub fn fields(&self) -> impl Iterator<Item = MachineFact> {
        MEANINGS.iter().filter_map(|&(key, meaning)| {
            let fact = self.facts.facts.iter().find(|fact| fact.key == key)?;
            Some(MachineFact { key, value: fact.value, source: fact.source, meaning })
        })
    }
}

/// Returns the index in [`MACHINES`] of the machine whose rules hold for a model: the first target of its table.
fn machine_index_of(model: &Model) -> usize {
    let known = |name: &&str| MACHINES.iter().position(|machine| machine == name);
    model.table().targets.iter().find_map(known).unwrap_or(UNIVERSAL_MACHINE)
}

/// Returns `facts` with the values that `new` changes compared with `old`.
fn changed_facts(facts: &[Fact], old: &[Fact], new: &[Fact]) -> Vec<Fact> {
    let value = |facts: &[Fact], key| facts.iter().find(|fact| fact.key == key).copied();
    let changed = |fact: &Fact| {
        let (old, new) = (value(old, fact.key)?, value(new, fact.key)?);
        (old.value != new.value).then_some(new)
    };
    facts.iter().map(|fact| changed(fact).unwrap_or(*fact)).collect()
}

/// Returns the requirements of each opcode.
fn requirements(facts: &ControlFacts) -> Vec<OpcodeRequirements> {
    let stall = |cycles: u32| cycles.min(facts.stall_cap) as u8;
    let usual = OpcodeRequirements {
        least_stall: stall(facts.least_stall),
        yields_with_stall_0: false,
        waits_for_all_in_flight: false,
        next_waits: false,
        reads_late: false,
    };
    let mut all = vec![usual; Opcode::all().count()];
    let mut change =
        |mnemonic: &str, how: &dyn Fn(&mut OpcodeRequirements)| Opcode::find(mnemonic).map(|opcode| how(&mut all[opcode as usize]));
    // Reversed, so that the first entry of a mnemonic takes effect.
    for &(mnemonic, cycles) in facts.least_stalls.iter().rev() {
        change(mnemonic, &|requirements| requirements.least_stall = stall(cycles));
    }
    for mnemonic in facts.open_stalls.iter() {
        change(mnemonic, &|requirements| requirements.yields_with_stall_0 = true);
    }
    for mnemonic in facts.settling.iter() {
        change(mnemonic, &|requirements| requirements.waits_for_all_in_flight = true);
    }
    for mnemonic in facts.fences.iter() {
        change(mnemonic, &|requirements| requirements.next_waits = true);
    }
    for mnemonic in facts.late_readers.iter() {
        change(mnemonic, &|requirements| requirements.reads_late = true);
    }
    all
}

/// Returns the name and description of each source.
pub fn sources() -> impl Iterator<Item = (&'static str, &'static str)> {
    built_in::CONTROL_SOURCES.iter().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use oriole_isa::Target;

    #[test]
    fn every_target_has_rules_with_known_sources() {
        for target in Target::all_with_machine_code() {
            let rules = ControlRules::of(Model::of(target));
            assert_eq!(rules.fields().count(), MEANINGS.len());
            assert!(rules.fields().all(|field| sources().any(|(name, _)| name == field.source)), "{target}");
        }
    }

    #[test]
    fn sheet_mnemonics_are_opcodes() {
        for target in Target::all_with_machine_code() {
            let facts = &ControlRules::of(Model::of(target)).facts;
            let lists = [&facts.open_stalls, &facts.settling, &facts.fences, &facts.late_readers];
            let named = lists.into_iter().flat_map(|list| list.iter()).chain(facts.least_stalls.iter().map(|(mnemonic, _)| mnemonic));
            for mnemonic in named {
                assert!(Opcode::find(mnemonic).is_some(), "{target}: {mnemonic}");
            }
        }
    }

    #[test]
    fn requirements_of_branches_calls_and_fences() {
        let rules = ControlRules::of(Model::of(Target::parse("sm_90a").unwrap()));
        assert_eq!((rules.requirements(Opcode::BRA).least_stall, rules.requirements(Opcode::IADD3).least_stall), (5, 1));
        assert!(
            rules.requirements(Opcode::CALL).waits_for_all_in_flight
                && rules.requirements(Opcode::MEMBAR).next_waits
                && rules.scoreboards == 6
        );
    }
}
