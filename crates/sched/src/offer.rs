//! What more registers would be good for.
//!
//! A schedule whose registers cost no warps may be slower than one that has more of them, and only the timing of whole functions can tell
//! whether the registers pay for the warps that they cost. To carry every such schedule through allocation and phase 110 takes several times
//! as long as to make one, and most functions with scarce registers gain next to nothing. So only the *blocks* that would like more registers,
//! and take longer than they would have to with endless ones ([`can_save`]), are scheduled again, once for each share of the warps that the
//! caller would pay with. Their time and registers are put into the measure by which schedules are compared ([`crate::score`]): what a warp
//! takes alone, and its part of the time of all that are resident.

use oriole_hardware::units::UNITS;

use crate::code::Item;
use crate::pressure::Counts;
use crate::resource::Costs;
use crate::score::Score;

/// How long a block takes with the registers of a share, and how often it is likely executed.
struct Estimate {
    executions: f64,
    cycles: f64,
    busiest: f64,
}

/// Less than this share of a block's time is not worth looking for.
const LEAST_SAVING: f64 = 0.02;

/// Whether a block that takes so many cycles, where any order takes `least`, can save enough of them.
pub(crate) fn can_save(cycles: u64, least: u64) -> bool {
    cycles as f64 * (1.0 - LEAST_SAVING) > least as f64
}

/// One share of the warps.
struct Share {
    /// In percent.
    warps_kept: u32,
    /// Registers that may be live.
    allowed: Counts,
    /// The most general registers that are.
    peak: i32,
    blocks: Vec<Estimate>,
}

impl Share {
    fn new(warps_kept: u32, allowed: Counts) -> Share {
        Share { warps_kept, allowed, peak: 0, blocks: Vec::new() }
    }

    fn score(&self, warps: u32) -> f64 {
        let mut score = Score { alone: 1.0, shared: 1.0 };
        for block in &self.blocks {
            let alone = block.cycles.max(block.busiest);
            score.add(block.executions, alone, block.busiest, warps);
        }
        score.value()
    }
}

/// How long a block takes, and the most general registers that are live in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    pub cycles: u64,
    pub peak: i32,
}

/// A share of the warps that is worth while.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Promise {
    /// The share, in percent.
    pub warps_kept: u32,
    /// The share of the time that is saved, by estimate.
    pub saved: f64,
}

/// The schedule at hand, and those that could be.
pub(crate) struct Offers {
    own: Share,
    others: Vec<Share>,
}

impl Offers {
    /// The offers of shares, each with the registers that it allows.
    pub fn new(own: (u32, Counts), others: impl Iterator<Item = (u32, Counts)>) -> Offers {
        let others = others.filter(|(_, allowed)| allowed[0] > own.1[0]);
        Offers { own: Share::new(own.0, own.1), others: others.map(|(warps, allowed)| Share::new(warps, allowed)).collect() }
    }

    /// Adds a block with its own outcome; `with` finds that with other registers where more are wanted.
    pub fn add(
        &mut self,
        executions: f64,
        items: &[Item],
        costs: &Costs,
        own: Outcome,
        wants_more: bool,
        mut with: impl FnMut(Counts) -> Outcome,
    ) {
        let busiest = busiest(items, costs);
        let note = |share: &mut Share, outcome: Outcome| {
            share.peak = share.peak.max(outcome.peak);
            share.blocks.push(Estimate { executions, cycles: outcome.cycles as f64, busiest });
        };
        for share in &mut self.others {
            let outcome = if wants_more { with(share.allowed) } else { own };
            note(share, if outcome.cycles < own.cycles { outcome } else { own });
        }
        note(&mut self.own, own);
    }

    /// The best of all shares if it is better than the own one; `warps` says how many stay resident with so many live registers.
    pub fn best(&self, warps: impl Fn(i32) -> u32) -> Option<Promise> {
        let score = |share: &Share| share.score(warps(share.peak));
        let own = score(&self.own);
        let best = self.others.iter().map(|share| (share.warps_kept, score(share))).min_by(|one, other| one.1.total_cmp(&other.1))?;
        (best.1 < own).then(|| Promise { warps_kept: best.0, saved: 1.0 - best.1 / own })
    }
}

/// How long the busiest unit works for a warp, or how many issue slots it takes.
pub(crate) fn busiest(items: &[Item], costs: &Costs) -> f64 {
    let mut busy = [0; UNITS];
    let mut issued = 0;
    for item in items.iter().filter(|item| item.opcode.is_some()) {
        busy[costs.unit(item.class)] += costs.cycles(item.class).max(1);
        issued += 1;
    }
    f64::from(busy.into_iter().max().unwrap_or(0).max(issued))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::from_machine;
    use oriole_hardware::machine::Machine;
    use oriole_hardware::units::Rates;
    use oriole_isa::{Target, parse};

    fn promise(own: Outcome, other: Outcome, warps: impl Fn(i32) -> u32) -> Option<Promise> {
        let target = Target::parse("sm_90a").unwrap();
        let costs = Costs::from_rates(Rates::of(target), Machine::of(target));
        let code = from_machine::code(&[parse("FADD R2, R0, R1").unwrap(), parse("FADD R3, R2, R0").unwrap()]);
        let mut offers = Offers::new((100, [32, 6, 6, 50]), [(50, [64, 6, 6, 50])].into_iter());
        offers.add(1.0, &code.items, &costs, own, true, |_| other);
        offers.best(warps)
    }

    /// Alone it takes 100 cycles or 40; with sixteen warps or eight each of them has 6.25 or 5 cycles of the scheduler.
    #[test]
    fn registers_that_save_more_than_their_warps_are_worth_it() {
        let (own, other) = (Outcome { cycles: 99, peak: 30 }, Outcome { cycles: 39, peak: 60 });
        let found = promise(own, other, |peak| if peak > 32 { 8 } else { 16 }).expect("it saves time");
        let expected = 1.0_f64 - ((1.0_f64 + 39.0) * (1.0 + 39.0 / 8.0) / ((1.0 + 99.0) * (1.0 + 99.0 / 16.0))).sqrt();
        assert_eq!(found.warps_kept, 50);
        assert!((found.saved - expected).abs() < 1e-9, "{} {expected}", found.saved);
    }

    #[test]
    fn registers_that_cost_more_than_they_save_are_not() {
        let (own, other) = (Outcome { cycles: 100, peak: 30 }, Outcome { cycles: 95, peak: 60 });
        assert_eq!(promise(own, other, |peak| if peak > 32 { 8 } else { 16 }), None);
    }
}
