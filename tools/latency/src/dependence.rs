//! Finds the dependences between the instructions of a run, with the number of cycles between them.
//!
//! The distance is the sum of the stall counts from the first instruction up to the second:
//!
//! ```text
//! S02  FADD R0, R1, R2
//! S03  FADD R5, R6, R7
//! S01  FADD R3, R0, R4     read after write of R0, 2 + 3 = 5 cycles
//! ```

use oriole_hardware::{DependenceKind, SchedClass};
use oriole_isa::{Access, InstGuard, RegFile};

use crate::code::{Run, Step};

/// Two instructions that access the same register, at least one of them as a write.
pub struct Dependence<'r> {
    pub kind: DependenceKind,
    pub first: &'r Step,
    pub second: &'r Step,
    /// The accesses of both instructions to the register.
    pub first_end: End,
    pub second_end: End,
    /// Sum of the stall counts from the first instruction up to the second.
    pub cycles: u32,
    /// The stall of the instruction before the second, which is the last term of `cycles`.
    pub last_stall: u32,
    pub adjacent: bool,
    /// Whether the first instruction sets a scoreboard for this kind of dependence, for which nothing waited.
    pub barrier: bool,
    /// Whether this is the only dependence that can be the reason of the stall before the second instruction.
    pub tight: bool,
}

/// One end of a dependence.
#[derive(Clone, Copy)]
pub struct End {
    pub access: Access,
    /// Index of the register in the group that the operand names.
    pub part: u16,
}

/// Beyond this distance no fixed latency matters.
const HORIZON_CYCLES: u32 = 60;

/// Within this number of cycles another dependence may be the reason of a stall.
const RIVAL_CYCLES: u32 = 25;

/// Calls `found` for each instruction of a run, with its index and all its dependences that no scoreboard covers.
pub fn each<'r>(run: &'r Run, mut found: impl FnMut(usize, &[Dependence<'r>])) {
    let mut into_one: Vec<Dependence<'r>> = Vec::new();
    for second in 1..run.steps.len() {
        into_one.clear();
        collect(run, second, &mut into_one);
        let waits = run.steps[second].waits != 0;
        for number in 0..into_one.len() {
            let this = &into_one[number];
            into_one[number].tight = this.adjacent && this.last_stall > 1 && !waits && is_alone(&into_one, number);
        }
        found(second, &into_one);
    }
}

/// Returns whether no other dependence on a recent instruction can be the reason of the stall. Several registers of the same pair count
/// once.
fn is_alone(all: &[Dependence<'_>], number: usize) -> bool {
    let this = &all[number];
    !this.barrier
        && all.iter().enumerate().all(|(other_number, other)| {
            let same = std::ptr::eq(other.first, this.first)
                && other.kind == this.kind
                && other.first_end.access == this.first_end.access
                && other.first_end.part == this.first_end.part;
            // Sources are read early, so a write-after-read dependence is not the reason of a long stall.
            let harmless = matches!(other.kind, DependenceKind::War) && !matches!(this.kind, DependenceKind::War);
            other_number == number || same || harmless || other.cycles > RIVAL_CYCLES
        })
}

/// Appends the dependences of one instruction.
fn collect<'r>(run: &'r Run, second: usize, out: &mut Vec<Dependence<'r>>) {
    let reader = &run.steps[second];
    for access in &reader.accesses {
        if access.file == RegFile::Convergence {
            continue;
        }
        for register in access.registers() {
            let end = End { access: *access, part: register - access.first };
            walk_back(run, second, end, register, out);
        }
    }
}

/// Walks back from an access to the instructions it depends on. Stops at an unconditional write of the register, or at the horizon.
fn walk_back<'r>(run: &'r Run, second: usize, end: End, register: u16, out: &mut Vec<Dependence<'r>>) {
    let mut cycles = 0;
    let mut waited = run.steps[second].waits;
    // Groups of instructions that complete in order, of which a later one was waited for; earlier ones then are complete too.
    let mut settled_orders = 0u64;
    let last_stall = u32::from(run.steps[second - 1].instruction.control.stall);
    for first in (0..second).rev() {
        let step = &run.steps[first];
        cycles += u32::from(step.instruction.control.stall);
        if cycles > HORIZON_CYCLES {
            return;
        }
        let apart = exclusive(run, first, second);
        let order = SchedClass::of(&step.instruction).order().map_or(0, |group| 1u64 << group);
        let mut replaced = false;
        for access in &step.accesses {
            if access.file != end.access.file || !access.registers().contains(&register) {
                continue;
            }
            let kind = match (access.written, end.access.written) {
                (true, false) => DependenceKind::Raw,
                (false, true) => DependenceKind::War,
                (true, true) => DependenceKind::Waw,
                (false, false) => continue,
            };
            replaced |= access.written && step.instruction.guard.is_always();
            let control = step.instruction.control;
            let set = |barrier: Option<u8>| barrier.map_or(0, |number| 1u8 << number);
            let released = match kind {
                DependenceKind::War => set(control.read_barrier) | set(control.write_barrier),
                _ => set(control.write_barrier),
            };
            let in_order = order & settled_orders != 0;
            if released & waited != 0 || in_order || apart {
                continue;
            }
            out.push(Dependence {
                kind,
                first: step,
                second: &run.steps[second],
                first_end: End { access: *access, part: register - access.first },
                second_end: end,
                cycles,
                last_stall,
                adjacent: first + 1 == second,
                barrier: released != 0,
                tight: false,
            });
        }
        if replaced {
            return;
        }
        let set = step.instruction.control.write_barrier.map_or(0, |number| 1u8 << number);
        if set & waited != 0 {
            settled_orders |= order;
        }
        waited |= step.waits;
    }
}

/// Returns whether both instructions are never executed together: their guards are the same predicate, one negated, unchanged in between.
fn exclusive(run: &Run, first: usize, second: usize) -> bool {
    let guard = |number: usize| -> InstGuard { run.steps[number].instruction.guard };
    let (one, other) = (guard(first), guard(second));
    if one.predicate == 7 || one.predicate != other.predicate || one.uniform != other.uniform || one.negated == other.negated {
        return false;
    }
    let file = if one.uniform { RegFile::UniformPredicate } else { RegFile::Predicate };
    let changed = |access: &Access| access.written && access.file == file && access.registers().contains(&one.predicate.into());
    !run.steps[first..second].iter().any(|step| step.accesses.iter().any(changed))
}

#[cfg(test)]
mod tests {
    use oriole_isa::{Control, parse};

    use super::*;
    use crate::code::step;
    use crate::signature::place;

    /// Returns the dependences of lines `CONTROL INSTRUCTION`, each as `KIND FIRST->SECOND CYCLES`, with `!` after tight ones.
    fn found(lines: &[&str]) -> Vec<String> {
        let read = |line: &&str| {
            let (control, text) = line.split_once(' ').expect("control and text");
            let mut instruction = parse(text).expect("an instruction");
            instruction.control = Control::parse(control).expect("a control word");
            step(instruction)
        };
        let run = Run { steps: lines.iter().map(read).collect() };
        let mut all = Vec::new();
        each(&run, |_, dependences| {
            for one in dependences {
                let ends = format!("{}->{}", place(one.first, &one.first_end), place(one.second, &one.second_end));
                all.push(format!("{:?} {ends} {}{}", one.kind, one.cycles, if one.tight { "!" } else { "" }));
            }
        });
        all
    }

    #[test]
    fn stalls_from_the_first_on_are_added_up() {
        let lines = ["B------:R-:W-:-:S02 FADD R0, R1, R2", "B------:R-:W-:-:S03 FADD R5, R6, R7", "B------:R-:W-:-:S01 FADD R3, R0, R4"];
        assert_eq!(found(&lines), ["Raw d0.0->s0.0 5"]);
    }

    #[test]
    fn the_only_reason_of_a_stall_is_tight() {
        let lines = ["B------:R-:W-:-:S04 FADD R0, R1, R2", "B------:R-:W-:-:S01 FADD R3, R0, R0"];
        assert_eq!(found(&lines), ["Raw d0.0->s0.0 4!", "Raw d0.0->s1.0 4!"]);
        let lines = ["B------:R-:W-:-:S01 FADD R9, R1, R2", "B------:R-:W-:-:S04 FADD R0, R1, R2", "B------:R-:W-:-:S01 FADD R3, R0, R9"];
        assert_eq!(found(&lines), ["Raw d0.0->s0.0 4", "Raw d0.0->s1.0 5"]);
    }

    #[test]
    fn scoreboards_that_are_waited_for_settle_a_dependence() {
        let load = "B------:R-:W0:-:S02 LDG.E R0, desc[UR4][R2.64]";
        assert_eq!(found(&[load, "B0-----:R-:W-:-:S01 FADD R9, R0, R4"]), [""; 0]);
        assert_eq!(found(&[load, "B------:R-:W-:-:S01 FADD R9, R0, R4"]), ["Raw d0.0->s0.0 2"]);
        // The write barrier of the load also covers its sources, because the result is written after they have been read.
        assert_eq!(found(&[load, "B0-----:R-:W-:-:S01 FADD R2, R5, R4"]), [""; 0]);
    }

    #[test]
    fn halves_of_a_pair_are_dependences_of_their_own_and_rivals() {
        let lines = ["B------:R-:W-:-:S06 IMAD.WIDE R2, R4, R5, R6", "B------:R-:W-:-:S01 LDG.E R0, desc[UR4][R2.64]"];
        assert_eq!(found(&lines), ["Raw d0.0->a0.0 6", "Raw d0.1->a0.1 6"]);
    }

    #[test]
    fn instructions_that_never_execute_both_do_not_depend() {
        let lines = ["B------:R-:W-:-:S01 @P0 MOV R0, R1", "B------:R-:W-:-:S01 @!P0 MOV R0, R2"];
        assert_eq!(found(&lines), [""; 0]);
    }

    #[test]
    fn guards_and_write_orders() {
        let lines =
            ["B------:R-:W-:-:S13 ISETP.GE.AND P0, PT, R1, R2, PT", "B------:R-:W-:-:S02 @P0 MOV R4, R5", "B------:R-:W-:-:S01 MOV R4, R6"];
        assert_eq!(found(&lines), ["Raw d0.0->guard 13!", "Waw d0.0->d0.0 2!"]);
    }
}
