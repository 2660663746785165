//! The hardware context of a compilation: everything the compiler knows about the target, in one value that passes receive.
//!
//! The context is built once for a compilation, from the built-in tables or from the profile file of the user, and is handed to every
//! pass that needs a figure. A pass that looks figures up by target would ignore the profile of the user.

use std::borrow::Cow;

use oriole_isa::Target;

use crate::control::ControlRules;
use crate::costs::Costs;
use crate::file::Profile;
use crate::machine::Machine;
use crate::model::Model;
use crate::units::Rates;

/// Everything that a compilation knows about its target.
#[derive(Clone, Debug)]
pub struct Hardware<'a> {
    /// The target.
    pub target: Target,
    /// Latencies.
    pub model: &'a Model,
    /// Limits of the multiprocessor.
    pub machine: &'a Machine,
    /// Issue rates of the units.
    pub rates: &'a Rates,
    /// Costs for time estimates besides latencies and rates. Profile files have none, so these are always the built-in ones.
    pub costs: &'a Costs,
    /// Rules for control words.
    pub rules: Cow<'a, ControlRules>,
    /// The built-in latencies, if [`Hardware::model`] comes from a profile file.
    pub replaced_model: Option<&'static Model>,
}

impl Hardware<'static> {
    /// Returns the built-in context of a target.
    pub fn built_in(target: Target) -> Hardware<'static> {
        let model = Model::of(target);
        Hardware {
            target,
            model,
            machine: Machine::of(target),
            rates: Rates::of(target),
            costs: Costs::of(target),
            rules: Cow::Borrowed(ControlRules::of(model)),
            replaced_model: None,
        }
    }
}

impl<'a> Hardware<'a> {
    /// Returns the context of a profile file.
    pub fn of_profile(profile: &'a Profile) -> Hardware<'a> {
        Hardware {
            target: profile.target,
            model: &profile.model,
            machine: &profile.machine,
            rates: &profile.rates,
            costs: Costs::of(profile.target),
            rules: Cow::Owned(ControlRules::of_profile(profile)),
            replaced_model: Some(Model::of(profile.target)),
        }
    }

    /// Returns the context of a profile file, or the built-in one of a target without a file.
    pub fn new(target: Target, profile: Option<&'a Profile>) -> Hardware<'a> {
        profile.map_or_else(|| Hardware::built_in(target), Hardware::of_profile)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Control rules of a latency table that several targets share come from the first of them, also if the profile is read from a file.
    #[test]
    fn an_unchanged_profile_has_the_built_in_rules() {
        for target in Target::all() {
            let profile = Profile::of(target);
            let (from_file, built_in) = (Hardware::of_profile(&profile), Hardware::built_in(target));
            assert!(*from_file.rules == *built_in.rules, "{target}");
            assert!(from_file.model == built_in.model && from_file.machine == built_in.machine && from_file.rates == built_in.rates);
        }
    }
}
