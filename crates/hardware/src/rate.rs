//! Throughput classes: how many cycles an instruction occupies its unit.
//!
//! The class table names a rate for each class. NVIDIA publishes rates by kind of work, so several names share a figure. For some names no
//! figure is published; their instructions occupy the unit for one cycle.

use crate::class::SchedClass;
use crate::machine::Machine;
use crate::units::Rates;

/// A throughput class: the name of an issue rate that scheduling classes share.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ThroughputClass(pub(crate) u8);

/// A function that returns the rate in lanes per clock of a multiprocessor.
type LanesOfRate = fn(&Rates) -> Option<u32>;

macro_rules! define_rates {
    ($($name:literal: $lanes:expr;)*) => {
        const RATES: &[(&str, LanesOfRate)] = &[$(($name, $lanes),)*];
    };
}

throughput_rates!(define_rates);

impl ThroughputClass {
    /// The number that no scheduling class has.
    pub const ANY: ThroughputClass = ThroughputClass(0x1f);

    /// Returns the throughput class of a scheduling class.
    pub fn of(class: SchedClass) -> ThroughputClass {
        class.throughput()
    }

    /// Returns the throughput class with a number.
    pub fn from_number(number: u8) -> Option<ThroughputClass> {
        let is_known = usize::from(number) < RATES.len() || number == ThroughputClass::ANY.0;
        is_known.then_some(ThroughputClass(number))
    }

    /// Returns the number, which fits five bits.
    pub fn number(self) -> u8 {
        self.0
    }

    /// Returns the name in the class table.
    pub fn name(self) -> &'static str {
        RATES.get(usize::from(self.0)).map_or("any", |(name, _)| name)
    }

    /// Returns the number of cycles that a warp instruction occupies its unit in one sub-partition, or `None` if no figure is published.
    pub fn cycles(self, rates: &Rates, machine: &Machine) -> Option<u32> {
        let (_, lanes) = RATES.get(usize::from(self.0))?;
        let lanes = lanes(rates).filter(|lanes| *lanes > 0)?;
        Some((machine.threads_per_warp * machine.schedulers).div_ceil(lanes).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Classes, Profile};
    use oriole_isa::Target;

    #[test]
    fn every_class_has_a_known_rate() {
        for class in Classes::get().all() {
            assert_eq!(Some(ThroughputClass::of(class).name()), class.attribute("rate"), "{}", class.name());
        }
        assert!(RATES.len() < usize::from(ThroughputClass::ANY.0));
    }

    /// The ratio of single to double precision in table 30 of the CUDA Programming Guide 13 is 2 on sm_90 and 64 on sm_86.
    #[test]
    fn double_precision_cycles_depend_on_the_target() {
        let cycles = |target: &str, class: &str| {
            let profile = Profile::of(Target::parse(target).unwrap());
            ThroughputClass::of(Classes::get().find(class).unwrap()).cycles(&profile.rates, &profile.machine).unwrap()
        };
        assert_eq!((cycles("sm_90", "fma"), cycles("sm_90", "double")), (1, 2));
        assert_eq!((cycles("sm_86", "fma"), cycles("sm_86", "double")), (1, 64));
    }
}
