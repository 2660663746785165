//! Dependences between the instructions of a run, with the cycles that lie between them.

use oriole_hardware::Kind;
use oriole_isa::{Access, File, Guard};

use crate::code::{Run, Step};

/// Two instructions that meet in a register.
pub struct Dependence<'r> {
    pub kind: Kind,
    pub first: &'r Step,
    pub second: &'r Step,
    /// The access of each that meets the other's, and which of its registers.
    pub first_end: End,
    pub second_end: End,
    /// Stall counts from the first on, up to the second.
    pub cycles: u32,
    pub adjacent: bool,
    /// The first sets a scoreboard of this sort; nobody waited for it.
    pub barrier: bool,
    /// The only dependence that can be the reason of the stall right before the second.
    pub tight: bool,
}

/// One end of a dependence.
#[derive(Clone, Copy)]
pub struct End {
    pub access: Access,
    /// Number of the register among those of the operand.
    pub part: u16,
}

/// Farther apart, no fixed latency matters.
const HORIZON_CYCLES: u32 = 60;

/// Within this many cycles, another dependence may be the reason of a stall.
const RIVAL_CYCLES: u32 = 25;

/// Calls `found` for every dependence of a run that no scoreboard settles.
pub fn each<'r>(run: &'r Run, mut found: impl FnMut(&Dependence<'r>)) {
    let mut into_one: Vec<Dependence<'r>> = Vec::new();
    for second in 1..run.steps.len() {
        into_one.clear();
        collect(run, second, &mut into_one);
        let stall = run.steps[second - 1].instruction.control.stall;
        let waits = run.steps[second].waits != 0;
        for number in 0..into_one.len() {
            into_one[number].tight = stall > 1 && !waits && is_alone(&into_one, number);
        }
        into_one.iter().for_each(&mut found);
    }
}

/// No other instruction depends on a recent one in a way that could be the reason. Several registers of the same pair count as one.
fn is_alone(all: &[Dependence<'_>], number: usize) -> bool {
    let this = &all[number];
    !this.barrier
        && all.iter().enumerate().all(|(other_number, other)| {
            let same = std::ptr::eq(other.first, this.first)
                && other.kind == this.kind
                && other.first_end.access == this.first_end.access
                && other.first_end.part == this.first_end.part;
            // What reads early is overwritten soon: such a dependence is not the reason of a long stall.
            let harmless = matches!(other.kind, Kind::War) && !matches!(this.kind, Kind::War);
            other_number == number || same || harmless || other.cycles > RIVAL_CYCLES
        })
}

fn collect<'r>(run: &'r Run, second: usize, out: &mut Vec<Dependence<'r>>) {
    let reader = &run.steps[second];
    for access in &reader.accesses {
        if access.file == File::Convergence {
            continue;
        }
        for register in access.registers() {
            let end = End { access: *access, part: register - access.first };
            walk_back(run, second, end, register, out);
        }
    }
}

/// Goes back from an access to the instructions it depends on.
fn walk_back<'r>(run: &'r Run, second: usize, end: End, register: u16, out: &mut Vec<Dependence<'r>>) {
    let mut cycles = 0;
    let mut waited = run.steps[second].waits;
    for first in (0..second).rev() {
        let step = &run.steps[first];
        cycles += u32::from(step.instruction.control.stall);
        if cycles > HORIZON_CYCLES {
            return;
        }
        let apart = exclusive(run, first, second);
        let mut replaced = false;
        for access in &step.accesses {
            if access.file != end.access.file || !access.registers().contains(&register) {
                continue;
            }
            let kind = match (access.written, end.access.written) {
                (true, false) => Kind::Raw,
                (false, true) => Kind::War,
                (true, true) => Kind::Waw,
                (false, false) => continue,
            };
            replaced |= access.written && step.instruction.guard.is_always();
            let control = step.instruction.control;
            let set = |barrier: Option<u8>| barrier.map_or(0, |number| 1u8 << number);
            let released = match kind {
                Kind::War => set(control.read_barrier) | set(control.write_barrier),
                _ => set(control.write_barrier),
            };
            if released & waited != 0 || apart {
                continue;
            }
            out.push(Dependence {
                kind,
                first: step,
                second: &run.steps[second],
                first_end: End { access: *access, part: register - access.first },
                second_end: end,
                cycles,
                adjacent: first + 1 == second,
                barrier: released != 0,
                tight: false,
            });
        }
        if replaced {
            return;
        }
        waited |= step.waits;
    }
}

/// Never both executed: guards by the same predicate, one negated, that nothing changes in between.
fn exclusive(run: &Run, first: usize, second: usize) -> bool {
    let guard = |number: usize| -> Guard { run.steps[number].instruction.guard };
    let (one, other) = (guard(first), guard(second));
    if one.predicate == 7 || one.predicate != other.predicate || one.uniform != other.uniform || one.negated == other.negated {
        return false;
    }
    let file = if one.uniform { File::UniformPredicate } else { File::Predicate };
    let changed = |access: &Access| access.written && access.file == file && access.registers().contains(&one.predicate.into());
    !run.steps[first..second].iter().any(|step| step.accesses.iter().any(changed))
}
