//! An instruction as hazards see it.

use oriole_hardware::{Class, Classes, Model, Port};
use oriole_isa::{AccessPlace, Control, File, Instruction, accesses};
use smallvec::SmallVec;

use super::Register;

/// A register and the port by which it is read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    pub register: Register,
    pub port: Port,
}

/// An instruction: what it touches and what its control word says.
#[derive(Clone, Debug)]
pub struct Step {
    pub class: Class,
    pub control: Control,
    pub reads: SmallVec<[Touch; 8]>,
    pub writes: SmallVec<[Touch; 4]>,
    pub guarded: bool,
    /// Whether results come at a time of their own.
    pub results_wait: bool,
    /// Whether sources are read at a time of their own.
    pub sources_wait: bool,
    /// Instructions of one group finish, and read their sources, in the order of issue.
    pub order: Option<u8>,
    /// `DEPBAR.LE SBn, count`
    pub count_wait: Option<(u8, u32)>,
}

impl Step {
    /// What matters of an instruction.
    pub fn new(instruction: &Instruction, model: &Model) -> Step {
        let class = Class::of(instruction);
        let written = instruction.written();
        let slot_of = |operand: u8| written.iter().take(usize::from(operand)).filter(|&&written| !written).count();
        let mut step = Step {
            class,
            control: instruction.control,
            reads: SmallVec::new(),
            writes: SmallVec::new(),
            guarded: !instruction.guard.is_always(),
            results_wait: model.results_wait(class),
            sources_wait: model.sources_wait(class),
            order: class.order(),
            count_wait: None,
        };
        for access in accesses(instruction) {
            for (part, number) in access.registers().enumerate() {
                let Some(register) = Register::new(access.file, number) else { continue };
                let port = match (access.place, access.written) {
                    (AccessPlace::Guard, _) => Some(Classes::get().guard_port(access.file == File::UniformPredicate)),
                    (AccessPlace::Plain(operand) | AccessPlace::Address(operand), false) => {
                        class.read_port(access.file, slot_of(operand), part)
                    }
                    (AccessPlace::Plain(_) | AccessPlace::Address(_), true) => class.write_port(access.file, part),
                };
                let Some(port) = port else { continue };
                if access.written {
                    step.writes.push(Touch { register, port });
                } else {
                    step.reads.push(Touch { register, port });
                }
            }
        }
        step
    }
}
