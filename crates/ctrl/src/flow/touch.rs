//! What an instruction touches, in the terms of the hardware model.

use oriole_hardware::{Class, Classes, Kind, Model, Need, Port};
use oriole_isa::{AccessPlace, File, Instruction, Opcode, accesses};
use smallvec::SmallVec;

/// A register of a file that has latencies, as one number.
pub type Register = u16;

/// Registers of all four files.
pub const REGISTERS: usize = 4 * 256;

const FILES: [File; 4] = [File::General, File::Predicate, File::Uniform, File::UniformPredicate];

/// One register, and the port by which it is read or written.
#[derive(Clone, Copy, Debug)]
pub struct Touch {
    pub register: Register,
    pub port: Port,
}

/// What an instruction does with registers and scoreboards.
#[derive(Clone, Debug)]
pub struct Touches {
    pub class: Class,
    pub opcode: Opcode,
    pub reads: SmallVec<[Touch; 8]>,
    pub writes: SmallVec<[Touch; 4]>,
    pub guarded: bool,
    /// Results come at a time of their own.
    pub results_wait: bool,
    /// Sources are read at a time of their own.
    pub sources_wait: bool,
    /// Whether everything in flight has to be done before it: it hands over to code that knows nothing of it.
    pub settles_all: bool,
    /// Whether the next instruction has to wait for it, whatever it is.
    pub is_fence: bool,
}

impl Touches {
    /// Whether a scoreboard can tell that it is done: by its results, or by what a fence gives instead.
    pub fn announces_results(&self) -> bool {
        self.results_wait && !self.writes.is_empty() || self.opcode == Opcode::FENCE
    }

    /// Whether a scoreboard can tell that its sources are read.
    pub fn announces_reads(&self) -> bool {
        self.sources_wait && !self.reads.is_empty() || self.opcode == Opcode::MEMBAR
    }
}

impl Touches {
    /// What an instruction touches.
    pub fn new(instruction: &Instruction, model: &Model) -> Touches {
        let class = Class::of(instruction);
        let written = instruction.written();
        let slot_of = |operand: u8| written.iter().take(usize::from(operand)).filter(|&&written| !written).count();
        let waits = model.waits(class);
        let mut touches = Touches {
            class,
            opcode: instruction.opcode,
            reads: SmallVec::new(),
            writes: SmallVec::new(),
            guarded: !instruction.guard.is_always(),
            results_wait: waits.results,
            sources_wait: waits.sources,
            settles_all: matches!(instruction.opcode, Opcode::CALL | Opcode::RET | Opcode::BMOV | Opcode::BPT),
            is_fence: matches!(instruction.opcode, Opcode::MEMBAR | Opcode::FENCE | Opcode::BMOV | Opcode::CCTL),
        };
        for access in accesses(instruction) {
            let Some(file) = FILES.iter().position(|&file| file == access.file) else { continue };
            for (part, number) in access.registers().enumerate() {
                let port = match (access.place, access.written) {
                    (AccessPlace::Guard, _) => Some(Classes::get().guard_port(access.file == File::UniformPredicate)),
                    (AccessPlace::Plain(operand) | AccessPlace::Address(operand), false) => {
                        class.read_port(access.file, slot_of(operand), part)
                    }
                    (_, true) => class.write_port(access.file, part),
                };
                let Some(port) = port else { continue };
                let touch = Touch { register: file as u16 * 256 + number, port };
                if access.written {
                    touches.writes.push(touch);
                } else {
                    touches.reads.push(touch);
                }
            }
        }
        touches
    }
}

/// What must lie between two that touch a register.
pub fn need(model: &Model, kind: Kind, register: Register, first: Port, second: Port, guarded: bool) -> Need {
    let file = FILES[usize::from(register / 256)];
    if guarded { model.need_guarded(kind, file, first, second) } else { model.need(kind, file, first, second) }
}
