//! Parallel copies: turns moves that conceptually happen all at once into a sequence of moves and swaps.
//!
//! [`sequentialize`] follows the usual algorithm (Boissinot et al. 2009, "Revisiting Out-of-SSA Translation for Correctness, Code Quality,
//! and Efficiency", section on sequentialization; verified by Rideau, Serpette and Leroy 2008, "Tilting at Windmills with Coq"): first
//! every move whose destination no other move still reads, then the remaining cycles. It departs from Boissinot et al. in two points:
//!
//! - Their algorithm can read a value from a copy that was already made, which breaks a cycle without a temporary if one of its values is
//!   also copied to a register outside of the cycle. Here every cycle uses a scratch register or swaps; such cycles are rare.
//! - There may be no free scratch register. A cycle of n registers then takes n - 1 swaps of three exclusive ors each.
//!
//! Example, copying R4 to R5, R5 to R4 and R4 to R6 at once:
//!
//! ```text
//! R6 <- R4          no move reads R6, so this move comes first
//! R4 <-> R5         a cycle: with scratch R7:  R7 <- R5;  R5 <- R4;  R4 <- R7
//!                            without scratch:  R5 ^= R4;  R4 ^= R5;  R5 ^= R4
//! ```
//!
//! A copy of a tuple is one move for each register, so tuples of any width and overlapping tuples need no special case.

use crate::registers::Reg;

/// A move between two registers of one register file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Move {
    /// The register that is written.
    pub to: Reg,
    /// The register that is read.
    pub from: Reg,
}

impl Move {
    /// Returns the moves, one for each register, that copy a tuple of `count` registers from the registers starting at `from` to those
    /// starting at `to`.
    pub fn tuple(to: Reg, from: Reg, count: u8) -> impl Iterator<Item = Move> {
        to.tuple(count).zip(from.tuple(count)).map(|(to, from)| Move { to, from })
    }
}

/// One step of a sequentialized parallel copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CopyStep {
    /// Copies one register to another.
    Move(Move),
    /// Two registers exchange their contents.
    Swap(Reg, Reg),
}

/// The moves of a parallel copy that are not made yet. Register numbers are below 256.
struct PendingMoves {
    /// For each register: the source of the pending move into it; `None` if there is no such move.
    source: [Option<Reg>; 256],
    /// For each register: the number of pending moves whose source it is.
    readers: [u16; 256],
}

impl PendingMoves {
    /// Collects the moves of a parallel copy.
    fn new(moves: &[Move]) -> PendingMoves {
        let mut pending = PendingMoves { source: [None; 256], readers: [0; 256] };
        for &Move { to, from } in moves.iter().filter(|one| one.to != one.from) {
            debug_assert_eq!(pending.source(to), None, "two moves to one register");
            pending.source[usize::from(to.number())] = Some(from);
            pending.readers[usize::from(from.number())] += 1;
        }
        pending
    }

    /// Returns the source of the pending move into a register; `None` if there is no such move.
    fn source(&self, to: Reg) -> Option<Reg> {
        self.source[usize::from(to.number())]
    }

    /// Removes the pending move into a register and returns its source; `None` if there is no such move.
    fn remove(&mut self, to: Reg) -> Option<Reg> {
        self.source[usize::from(to.number())].take()
    }

    /// Returns whether the pending move into a register can be made now: it exists, and no pending move reads the register.
    fn is_ready(&self, to: Reg) -> bool {
        self.source(to).is_some() && self.readers[usize::from(to.number())] == 0
    }

    /// Appends to `steps` all moves that are not part of a cycle, each after all moves that read its destination.
    fn append_ready_moves(&mut self, moves: &[Move], steps: &mut Vec<CopyStep>) {
        let mut ready: Vec<Reg> = moves.iter().rev().map(|one| one.to).filter(|&to| self.is_ready(to)).collect();
        while let Some(to) = ready.pop() {
            let Some(from) = self.remove(to) else { continue };
            steps.push(CopyStep::Move(Move { to, from }));
            self.readers[usize::from(from.number())] -= 1;
            if self.is_ready(from) {
                ready.push(from);
            }
        }
    }

    /// Appends the moves of the cycle through `start` to `steps`: one that saves the content of `start` in `scratch`, then the other moves,
    /// then one from `scratch`.
    fn break_cycle(&mut self, start: Reg, scratch: Reg, steps: &mut Vec<CopyStep>) {
        steps.push(CopyStep::Move(Move { to: scratch, from: start }));
        let mut to = start;
        while let Some(from) = self.remove(to) {
            steps.push(CopyStep::Move(Move { to, from: if from == start { scratch } else { from } }));
            to = from;
        }
    }

    /// Appends the moves of the cycle through `start` to `steps`, as swaps. After each swap of `to` and `from`, `to` has its final content,
    /// and `from` has the previous content of `to`.
    fn break_cycle_by_swaps(&mut self, start: Reg, steps: &mut Vec<CopyStep>) {
        let mut to = start;
        while let Some(from) = self.remove(to).filter(|&from| from != start) {
            steps.push(CopyStep::Swap(to, from));
            to = from;
        }
    }
}

/// Returns the steps of a parallel copy, to be executed one after the other. Destinations must be distinct. `scratch` is a register that
/// may be overwritten; it is neither source nor destination of a move.
pub(crate) fn sequentialize(moves: &[Move], scratch: Option<Reg>) -> Vec<CopyStep> {
    let mut pending = PendingMoves::new(moves);
    let mut steps = Vec::new();
    pending.append_ready_moves(moves, &mut steps);
    // Every remaining destination is read by a remaining move. There are as many reads as destinations, so each is read exactly once:
    // only disjoint cycles remain.
    for &Move { to: start, .. } in moves {
        if pending.source(start).is_none() {
            continue;
        }
        match scratch {
            Some(scratch) => pending.break_cycle(start, scratch, &mut steps),
            None => pending.break_cycle_by_swaps(start, &mut steps),
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::{CopyStep, Move, Reg, sequentialize};

    /// Executes the steps of a parallel copy and compares every register but the scratch register with the expected content.
    fn execute_and_check(moves: &[Move], scratch: Option<Reg>) {
        let at = |register: Reg| usize::from(register.number());
        let mut state: Vec<Reg> = (0..256).map(Reg::new).collect();
        for step in sequentialize(moves, scratch) {
            match step {
                CopyStep::Move(Move { to, from }) => state[at(to)] = state[at(from)],
                CopyStep::Swap(a, b) => state.swap(at(a), at(b)),
            }
        }
        for register in (0..256).map(Reg::new).filter(|&register| Some(register) != scratch) {
            let expected = moves.iter().find(|one| one.to == register).map_or(register, |one| one.from);
            assert_eq!(state[at(register)], expected, "{moves:?} at {register:?}");
        }
    }

    #[test]
    fn every_parallel_copy_of_five_registers_is_correct() {
        for code in 0..5u32.pow(5) {
            let moves: Vec<Move> =
                (0..5).map(|to| Move { to: Reg::new(to as u16), from: Reg::new((code / 5u32.pow(to) % 5) as u16) }).collect();
            execute_and_check(&moves, None);
            execute_and_check(&moves, Some(Reg::new(9)));
        }
    }
}
