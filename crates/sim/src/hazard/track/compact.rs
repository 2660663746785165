//! Bounds the memory of a tracker: forgets the instructions in flight that no later access can conflict with.

use super::super::boundary::Pending;
use super::super::step::HazardStep;
use super::{DEEPEST_COUNT, MAX_FIXED_LATENCY, Tracker};

impl Tracker<'_> {
    /// Removes recorded instructions that can no longer conflict, and renumbers the rest.
    pub(super) fn compact(&mut self, steps: &[HazardStep]) {
        let mut used = vec![false; self.in_flight.len()];
        let mut registers = std::mem::take(&mut self.touched);
        registers.sort_unstable();
        registers.dedup();
        registers.retain(|register| {
            let at = usize::from(register.0);
            let mut list = std::mem::take(&mut self.entries[at]);
            list.retain(|entry| {
                let flight = &self.in_flight[entry.flight as usize];
                let pending = if entry.write { self.results_of(steps, flight) } else { self.reads_of(steps, flight) };
                let waits = if entry.write { steps[flight.step as usize].results_wait } else { steps[flight.step as usize].sources_wait };
                let age = self.pauses.age(flight.pauses, self.now - flight.issued, entry.lanes);
                let matters = age < MAX_FIXED_LATENCY || waits && pending != Pending::Done;
                used[entry.flight as usize] |= matters;
                matters
            });
            let matters = !list.is_empty();
            self.entries[at] = list;
            matters
        });
        self.touched = registers;
        for setters in &mut self.setters {
            let old = setters.len().saturating_sub(DEEPEST_COUNT);
            let mut place = 0;
            setters.retain(|&setter| {
                place += 1;
                place > old || used[setter as usize]
            });
            setters.iter().for_each(|&setter| used[setter as usize] = true);
        }
        for flight in &mut self.in_flight {
            // Beyond the longest latency the exact age is irrelevant: drop the reference to old pause totals.
            if self.pauses.age(flight.pauses, self.now - flight.issued, flight.group) >= MAX_FIXED_LATENCY {
                flight.pauses = self.pauses.current();
            }
        }
        let forgotten = (0..used.len()).filter(|&at| used[at]).map(|at| self.in_flight[at].pauses).min();
        let forgotten = self.pauses.forget(forgotten.unwrap_or_else(|| self.pauses.current()));
        // New index of each remaining instruction: the number of remaining ones before it.
        let mut place = 0;
        let next = |used: &bool| {
            place += u32::from(*used);
            place - u32::from(*used)
        };
        let places: Vec<u32> = used.iter().map(next).collect();
        let mut at = 0;
        self.in_flight.retain_mut(|flight| {
            flight.pauses = flight.pauses.wrapping_sub(forgotten);
            at += 1;
            used[at - 1]
        });
        for register in &self.touched {
            self.entries[usize::from(register.0)].iter_mut().for_each(|entry| entry.flight = places[entry.flight as usize]);
        }
        self.covered_by_later.iter_mut().for_each(|covered| covered.retain(|&flight| used[flight as usize]));
        self.setters.iter_mut().chain(&mut self.covered_by_later).flatten().for_each(|flight| *flight = places[*flight as usize]);
    }
}
