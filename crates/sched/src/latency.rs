//! Computes the latency between two instructions that access the same register.
//!
//! [`dependences`] lists the register dependences between two instructions: read after write, write after read, write after write.
//! [`latency`] returns the number of cycles between their issues for one such dependence. Where a scoreboard is required, that is the usual
//! latency, because a schedule has to hide it; [`Dependence::need`] returns the requirement itself.

use oriole_hardware::{Class, Classes, DependenceKind as Kind, Model, Need, Port};
use oriole_isa::{Access, AccessPlace, Instruction, RegFile, accesses};

/// Cycles for an instruction of variable latency whose usual latency is not known.
pub const INFINITE_LATENCY: i32 = 99_999;
/// Issue cycle of an instruction that is not scheduled yet.
pub const UNSCHEDULED: i32 = -1;

/// A register dependence between two instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dependence {
    /// The kind of dependence.
    pub kind: Kind,
    /// The register file.
    pub file: RegFile,
    /// The register number.
    pub register: u16,
    /// Port by which the first instruction accesses the register.
    pub first: Port,
    /// Port by which the second instruction accesses the register.
    pub second: Port,
}

impl Dependence {
    /// Returns the requirement between the two instructions: cycles, and whether a scoreboard is needed.
    #[inline]
    pub fn need(self, model: &Model, first_is_guarded: bool) -> Need {
        if first_is_guarded {
            model.need_guarded(self.kind, self.file, self.first, self.second)
        } else {
            model.need(self.kind, self.file, self.first, self.second)
        }
    }
}

/// Returns the number of cycles from the issue of the first instruction, of class `first`, to the issue of the second.
#[inline]
pub fn latency(model: &Model, dependence: Dependence, first: Class, first_is_guarded: bool) -> i32 {
    let need = dependence.need(model, first_is_guarded);
    if !need.scoreboard {
        return i32::from(need.cycles);
    }
    match model.time(first) {
        Some(time) if dependence.kind == Kind::War => i32::from(time.read).max(i32::from(need.cycles)),
        Some(time) => i32::from(time.usual).max(i32::from(need.cycles)),
        None => INFINITE_LATENCY,
    }
}

/// An operand register of an instruction of some class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OperandReg {
    /// The scheduling class.
    pub class: Class,
    /// Number of the source operand, from 0. Ignored for results.
    pub slot: usize,
    /// Number of the register within the operand, from 0.
    pub part: usize,
}

impl OperandReg {
    #[inline]
    fn port(self, file: RegFile, written: bool) -> Option<Port> {
        if written { self.class.write_port(file, self.part) } else { self.class.read_port(file, self.slot, self.part) }
    }
}

/// Returns the number of cycles between two instructions for one operand register of each, or `None` if one of the classes does not access
/// such a register file there.
#[inline]
pub fn operand_latency(
    model: &Model,
    kind: Kind,
    file: RegFile,
    first: OperandReg,
    second: OperandReg,
    first_is_guarded: bool,
) -> Option<i32> {
    let (first_port, second_port) = (first.port(file, kind != Kind::War)?, second.port(file, kind != Kind::Raw)?);
    let dependence = Dependence { kind, file, register: 0, first: first_port, second: second_port };
    Some(latency(model, dependence, first.class, first_is_guarded))
}

/// One register access of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortAccess {
    /// The register file.
    pub file: RegFile,
    /// The register number.
    pub register: u16,
    /// The port.
    pub port: Port,
    /// Whether the register is written; otherwise it is read.
    pub written: bool,
}

/// Returns the register accesses of an instruction, for register files that have latency grids.
pub fn port_accesses(instruction: &Instruction) -> Vec<PortAccess> {
    let class = Class::of(instruction);
    let written = instruction.written();
    let slot = |operand: u8| written.iter().take(usize::from(operand)).filter(|is_written| !**is_written).count();
    let port = |access: &Access, part: usize| match access.place {
        AccessPlace::Guard => Some(Classes::get().guard_port(access.file == RegFile::UniformPredicate)),
        AccessPlace::Plain(_) | AccessPlace::Address(_) if access.written => class.write_port(access.file, part),
        AccessPlace::Plain(operand) | AccessPlace::Address(operand) => class.read_port(access.file, slot(operand), part),
    };
    let mut port_accesses = Vec::new();
    for access in accesses(instruction) {
        for (part, register) in access.registers().enumerate() {
            if let Some(port) = port(&access, part) {
                port_accesses.push(PortAccess { file: access.file, register, port, written: access.written });
            }
        }
    }
    port_accesses
}

/// Returns the register dependences of `second` on `first`, which precedes it.
pub fn dependences(first: &[PortAccess], second: &[PortAccess]) -> Vec<Dependence> {
    let mut dependences = Vec::new();
    for a in first {
        for b in second.iter().filter(|b| b.file == a.file && b.register == a.register) {
            let kind = match (a.written, b.written) {
                (true, false) => Kind::Raw,
                (false, true) => Kind::War,
                (true, true) => Kind::Waw,
                (false, false) => continue,
            };
            dependences.push(Dependence { kind, file: a.file, register: a.register, first: a.port, second: b.port });
        }
    }
    dependences
}

/// Returns the number of cycles between two instructions, the maximum over all their dependences, or `None` if they are independent.
pub fn latency_between(model: &Model, first: &Instruction, second: &Instruction) -> Option<i32> {
    let class = Class::of(first);
    let is_guarded = !first.guard.is_always();
    dependences(&port_accesses(first), &port_accesses(second))
        .into_iter()
        .map(|dependence| latency(model, dependence, class, is_guarded))
        .max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use oriole_isa::{Target, parse};

    fn model(target: &str) -> &'static Model {
        Model::of(Target::parse(target).unwrap())
    }

    fn instruction(text: &str) -> Instruction {
        parse(text).unwrap()
    }

    /// Published microbenchmarks of Turing to Hopper agree on four cycles between dependent additions.
    #[test]
    fn dependent_adds_need_four_cycles() {
        let (first, second) = (instruction("FADD R0, R1, R2"), instruction("FADD R3, R0, R4"));
        for target in ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90"] {
            assert_eq!(latency_between(model(target), &first, &second), Some(4), "{target}");
        }
        assert_eq!(latency_between(model("sm_90"), &second, &instruction("FADD R5, R6, R7")), None);
    }

    #[test]
    fn latency_depends_on_the_product_half() {
        let wide = instruction("IMAD.WIDE R2, R4, R5, R6");
        let model = model("sm_90");
        let to = |text: &str| latency_between(model, &wide, &instruction(text)).unwrap();
        assert!(to("IADD3 R9, R2, R8, RZ") < to("IADD3 R9, R3, R8, RZ"));
    }

    #[test]
    fn dependences_have_kind_and_register() {
        let (first, second) =
            (port_accesses(&instruction("IADD3 R0, R1, R2, R3")), port_accesses(&instruction("@P0 IADD3 R1, R0, R0, R2")));
        let found: Vec<(Kind, u16)> =
            dependences(&first, &second).into_iter().map(|dependence| (dependence.kind, dependence.register)).collect();
        assert_eq!(found, [(Kind::Raw, 0), (Kind::Raw, 0), (Kind::War, 1)]);
        assert!(second.iter().any(|touch| touch.file == RegFile::Predicate && touch.register == 0 && !touch.written));
    }

    #[test]
    fn operand_latency_by_slot_and_part() {
        let at = |text: &str, slot, part| OperandReg { class: Class::of(&instruction(text)), slot, part };
        let sum = "IADD3 R9, R2, R8, RZ";
        let between = |kind, file, first, second| operand_latency(model("sm_90"), kind, file, first, second, false);
        let halves = [0, 1].map(|part| between(Kind::Raw, RegFile::General, at("IMAD.WIDE R2, R4, R5, R6", 0, part), at(sum, 0, 0)));
        assert!(halves[0].is_some() && halves[0] < halves[1]);
        // The high half of the addend of a wide product is read later than the factors.
        let wide = |slot| between(Kind::Raw, RegFile::General, at("IMAD R2, R4, R5, R6", 0, 0), at("IMAD.WIDE R2, R4, R5, R6", slot, 1));
        assert!(wide(2) < wide(0));
        assert_eq!(between(Kind::Raw, RegFile::Uniform, at(sum, 0, 0), at(sum, 0, 0)), None);
    }

    #[test]
    fn variable_latency_is_the_usual_time() {
        let (load, sum) = (instruction("LDG.E R0, desc[UR4][R2.64]"), instruction("IADD3 R5, R0, R1, RZ"));
        let class = Class::of(&load);
        for target in Target::all_with_machine_code() {
            let model = Model::of(target);
            let found = latency_between(model, &load, &sum).unwrap();
            assert_eq!(found, model.time(class).map_or(INFINITE_LATENCY, |time| time.usual.into()), "{target}");
            let overwrites = instruction("IADD3 R2, R8, R9, RZ");
            let found = latency_between(model, &load, &overwrites).unwrap();
            assert_eq!(found, model.time(class).map_or(INFINITE_LATENCY, |time| time.read.into()), "{target}");
        }
    }
}
