//! Waits on scoreboards: which instructions in flight are complete after one.
//!
//! A wait for zero completes all earlier setters. A wait with a count (`DEPBAR.LE`) completes those that cannot be among the pending ones,
//! which depends on the order in which the setters signal.

use smallvec::SmallVec;

use super::super::boundary::Pending;
use super::super::step::{HazardStep, WarpgroupRole};
use super::super::{HazardFinding, Problem};
use super::{MATRIX_GROUPS, Tracker};

impl Tracker<'_> {
    /// Records that the path waits until at most `count` setters of a scoreboard are pending; the oldest setters are then complete.
    pub(super) fn wait(
        &mut self,
        steps: &[HazardStep],
        number: usize,
        scoreboard: usize,
        count: usize,
        report: &mut dyn FnMut(HazardFinding),
    ) {
        if scoreboard != MATRIX_GROUPS && self.scoreboards_set >> scoreboard & 1 == 0 {
            report(HazardFinding { second: number, first: number, problem: Problem::NeverSet { scoreboard: scoreboard as u8 } });
        }
        if scoreboard == MATRIX_GROUPS
            && count == 0
            && let Some(group) = self.matrix_order
        {
            self.results_done[usize::from(group)] = self.rank;
            self.reads_done[usize::from(group)] = self.rank;
        }
        if scoreboard == MATRIX_GROUPS && count > 0 {
            self.wait_for_groups(steps, count);
            return;
        }
        if count > 0 {
            self.count_in_order(steps, number, scoreboard, report);
        }
        for setter in self.take_completed(steps, scoreboard, count) {
            let flight = &mut self.in_flight[setter as usize];
            let first = flight.step as usize;
            let cycles = self.now - flight.issued;
            // `DEPBAR` waits one cycle later than the wait mask of an ordinary instruction.
            let needed = u32::from(steps[first].scoreboard_stall).saturating_sub(u32::from(steps[number].count_wait.is_some()));
            if scoreboard != MATRIX_GROUPS && cycles < i64::from(needed) {
                let problem = Problem::WaitTooSoon { scoreboard: scoreboard as u8, cycles: cycles as u32, needed };
                report(HazardFinding { second: number, first, problem });
            }
            let step = &steps[first];
            let is_own = step.sets_scoreboards.0 >> scoreboard & 1 == 1;
            // With a count, only the instructions' own signals are ordered; inherited ones need a wait for zero.
            let after = flight.results.after_wait(scoreboard);
            if after != flight.results && (is_own || count == 0) {
                flight.results = after;
                if let Some(group) = step.result_order_group.map(usize::from).filter(|_| flight.in_order_guarantee && is_own) {
                    self.results_done[group] = self.results_done[group].max(flight.rank);
                }
            }
            flight.reads = Pending::Done;
            if let Some(queue) = step.read_order_group.map(usize::from).filter(|_| flight.in_order_guarantee) {
                self.reads_done[queue] = self.reads_done[queue].max(flight.rank);
            }
        }
        let covered_by_later = if count == 0 { std::mem::take(&mut self.covered_by_later[scoreboard]) } else { Vec::new() };
        for covered in covered_by_later {
            let flight = &mut self.in_flight[covered as usize];
            for pending in [&mut flight.results, &mut flight.reads] {
                *pending = pending.after_wait(scoreboard);
            }
        }
    }

    /// Records that the path waits until at most `count` groups of matrix products are pending. On different paths different groups may be
    /// pending, so a product is complete only if at least `count` groups after its own were committed on all paths.
    fn wait_for_groups(&mut self, steps: &[HazardStep], count: usize) {
        for flight in self.in_flight.iter_mut().filter(|flight| usize::from(flight.commits) > count) {
            if steps[flight.step as usize].warpgroup == Some(WarpgroupRole::Product) {
                (flight.results, flight.reads) = (Pending::Done, Pending::Done);
            }
        }
        let in_flight = &self.in_flight;
        self.setters[MATRIX_GROUPS].retain(|&setter| in_flight[setter as usize].results != Pending::Done);
    }

    /// Removes and returns the setters of a scoreboard that are complete once at most `count` setters are pending.
    ///
    /// Setters of one in-order group complete in issue order, so all of them but the last `count` are complete, whatever else sets the
    /// scoreboard. Example with a count of 1: a store signals its reads, then two `LDGDEPBAR` follow. At most one of the three is pending,
    /// so the first `LDGDEPBAR` is complete, but the store may be the pending one. A setter that completes in any order may always be the
    /// pending one.
    fn take_completed(&mut self, steps: &[HazardStep], scoreboard: usize, count: usize) -> Vec<u32> {
        if count == 0 {
            return std::mem::take(&mut self.setters[scoreboard]);
        }
        let mut later_of_group: SmallVec<[(CompletionOrder, usize); 4]> = SmallVec::new();
        let (mut pending, mut completed) = (Vec::new(), Vec::new());
        for &setter in self.setters[scoreboard].iter().rev() {
            let order = CompletionOrder::of(&steps[self.in_flight[setter as usize].step as usize], scoreboard);
            let at = later_of_group.iter().position(|(other, _)| *other == order).unwrap_or_else(|| {
                later_of_group.push((order, 0));
                later_of_group.len() - 1
            });
            let later = &mut later_of_group[at].1;
            if *later < count || !order.is_known {
                pending.push(setter);
            } else {
                completed.push(setter);
            }
            *later += 1;
        }
        pending.reverse();
        completed.reverse();
        self.setters[scoreboard] = pending;
        completed
    }

    /// Reports setters of a scoreboard whose results do not complete in issue order: a count of pending setters then does not tell which
    /// are complete. Setters without a result in a register only make the wait longer.
    fn count_in_order(&self, steps: &[HazardStep], number: usize, scoreboard: usize, report: &mut dyn FnMut(HazardFinding)) {
        let step_of = |setter: &u32| self.in_flight[*setter as usize].step as usize;
        let orders =
            self.setters[scoreboard].iter().map(|setter| (step_of(setter), CompletionOrder::of(&steps[step_of(setter)], scoreboard)));
        let mut results = orders.filter(|(step, order)| order.by_results && !steps[*step].writes.is_empty());
        let Some((_, one)) = results.next() else { return };
        if let Some((first, _)) = results.find(|(_, other)| *other != one) {
            report(HazardFinding { second: number, first, problem: Problem::CountOutOfOrder { scoreboard: scoreboard as u8 } });
        }
    }
}

/// In which order an instruction signals a scoreboard, compared with the other instructions that set it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct CompletionOrder {
    /// Whether it signals its results, not its operand reads.
    by_results: bool,
    /// The in-order group.
    group: Option<u8>,
    /// Whether instructions that compare equal signal in issue order. Those that signal no register, such as `LDGDEPBAR`, do.
    is_known: bool,
}

impl CompletionOrder {
    fn of(step: &HazardStep, scoreboard: usize) -> CompletionOrder {
        let by_results = step.sets_scoreboards.0 >> scoreboard & 1 == 1;
        let (group, has_registers) =
            if by_results { (step.result_order_group, !step.writes.is_empty()) } else { (step.read_order_group, !step.reads.is_empty()) };
        CompletionOrder { by_results, group, is_known: group.is_some() || !has_registers }
    }
}
